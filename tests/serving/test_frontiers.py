"""Frontiers: everything that scalar calls find, and how fast."""

import time
from dataclasses import fields, replace

import numpy as np
import pytest

from clusterlab.catalogue import machine
from clusterlab.model import Layout, transformer
from clusterlab.serving import Drafts, Formats, Replica, Requests, continuous_batch, frontier
from serving_cases import DEEPSEEK, HYBRID_MIXTURE, LARGE


def test_100_000_layouts_a_second_on_one_core():
    """Four times as many, in truth: the best of three, by the time of this process alone."""
    replica = Replica(transformer("DeepSeek-V3"), machine("GB200"), formats=Formats("fp8", cache_bytes=1))
    rates = []
    for _ in range(3):
        begun = time.process_time()
        found = frontier(replica, Requests(4000, 1000), gpus=[16, 64, 72], batches=2.0 ** np.arange(-4, 11, 0.05))
        rates.append(found.service.sequences.size / (time.process_time() - begun))
    assert found.service.sequences.size > 10_000
    assert max(rates) > 100_000


@pytest.mark.parametrize("shape", [LARGE, DEEPSEEK, HYBRID_MIXTURE])
def test_the_frontier_holds_everything_that_scalar_calls_find(shape):
    replica, requests = Replica(shape, machine("GB200"), formats=Formats("fp8")), Requests(1000, 500)
    found = frontier(replica, requests, gpus=[8, 72], batches=[0.5, 4, 32])
    rng = np.random.default_rng(2)
    for i in rng.choice(found.two_batch_overlap.size, 10, replace=False):
        layout = found.layouts[int(i)]
        redundant = -max(shape.experts, 1) % layout.ep if layout.ep > 1 else 0
        one = replace(replica, layout=layout, redundant=redundant, two_batch_overlap=bool(found.two_batch_overlap[i]))
        alone = continuous_batch(one, requests, sequences=found.service.sequences[i])
        for f in fields(alone):
            assert getattr(found.service, f.name)[i] == pytest.approx(getattr(alone, f.name), rel=1e-12)
    speed, yields = found.service.speed, found.service.tokens_per_second_per_gpu
    beaten = [
        np.any((speed >= s) & (yields >= y) & ((speed > s) | (yields > y))) for s, y in zip(speed, yields, strict=True)
    ]
    front = {(speed[i], yields[i]) for i in np.flatnonzero(~np.array(beaten))}  # equals are there once
    assert front == {(speed[i], yields[i]) for i in found.front}
    assert len(front) == found.front.size
    best = found.best(speed=20)
    assert speed[best] >= 20
    assert yields[best] == yields[speed >= 20].max()
    assert set(found.layouts.gpus) == {8, 72}
    if shape is DEEPSEEK:
        assert {72.0} <= set(found.layouts.ep)
        assert found.two_batch_overlap.any()


@pytest.mark.parametrize("elsewhere", [True, False])
def test_a_larger_domain_never_loses_where_the_same_sizes_are_tried(elsewhere):
    asked = Requests(128_000, 1000, cached=float(elsewhere))
    found = [
        frontier(
            Replica(DEEPSEEK, machine("GB200", domain=n), formats=Formats("fp8", cache_bytes=1)),
            asked,
            gpus=[8, 72, 128],
            batches=[0.5, 2, 8, 16],
        )
        for n in (8, 72)
    ]
    small, large = (one.service for one in found)
    for speed in (10, 20, 40, 80):
        best = [np.max(np.where(s.speed >= speed, s.tokens_per_second_per_gpu, 0)) for s in (small, large)]
        assert best[1] >= best[0]


def test_a_larger_domain_serves_experts_faster_at_the_same_price():
    """Eight, 72 and 256 GPUs that share a scale-up domain: the best yield at 50 tokens a second for each user."""
    requests = Requests(4000, 500)
    yields = []
    for domain in (8, 72):
        replica = Replica(DEEPSEEK, machine("GB200", domain=domain), formats=Formats("fp8", cache_bytes=1))
        found = frontier(replica, requests, gpus=[8, 16, 64], batches=2.0 ** np.arange(-4, 10, 0.5))
        yields.append(found.service.tokens_per_second_per_gpu[found.best(speed=50)])
    assert yields[1] > 1.2 * yields[0]


# --- Drafts ----------------------------------------------------------------------------------------------------------


def test_drafts_that_are_always_right_double_a_small_batch_and_hardly_help_a_large_one():
    one, asked = (
        Replica(transformer("Llama 3.1 70B"), machine("H100 SXM"), Layout(tp=8), Formats("fp8")),
        Requests(1, 1000),
    )
    assert (Drafts().gain, Drafts().slower) == (1, 1)  # none, by default
    sure = Drafts(1, 1.0, 0.0)
    small, large = (
        continuous_batch(one, asked, sequences=n, drafts=sure).tokens_per_second
        / continuous_batch(one, asked, sequences=n).tokens_per_second
        for n in (1, 1000)
    )
    assert 1.9 < small <= 2
    assert 1 < large < 1.7


def test_drafts_that_are_never_right_cost():
    one, asked = Replica(transformer("Llama 3.1 8B"), machine("H100 SXM")), Requests(500, 500)
    plain = continuous_batch(one, asked, sequences=256)
    wrong = continuous_batch(one, asked, sequences=256, drafts=Drafts(2, 0.0, 0.05))
    assert wrong.time_per_token > 1.1 * plain.time_per_token
    assert wrong.tokens_per_second == pytest.approx(256 / wrong.time_per_token)


def test_drafts_move_the_frontier_most_where_users_are_fast():
    one = Replica(transformer("DeepSeek-V3"), machine("GB200"), formats=Formats("fp8", cache_bytes=1))
    plain, drafted = (frontier(one, Requests(4000, 1000), gpus=72, drafts=d) for d in (Drafts(), Drafts(1, 0.85)))
    gains = []
    for speed in (20, 50, 75):
        rates = [f.service.tokens_per_second_per_gpu[f.best(speed=speed)] for f in (plain, drafted)]
        gains.append(rates[1] / rates[0])
    assert 1 < gains[0] < gains[1] < gains[2]


@pytest.mark.parametrize(("field", "value"), [("drafted", -1), ("acceptance", 1.1), ("draft_time", float("nan"))])
def test_drafts_that_are_none_are_refused(field, value):
    with pytest.raises(ValueError, match=field):
        Drafts(**{field: value})
