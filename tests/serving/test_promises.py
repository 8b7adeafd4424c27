"""Promises: counts that keep them, together and apart, and beside a replica run pass by pass."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clusterlab.catalogue import SERVING, machine
from clusterlab.model import Layout, transformer
from clusterlab.serving import (
    Batch,
    Formats,
    Promise,
    Replica,
    Requests,
    forward_pass,
    open_loop,
    pools_for,
    reading,
    replicas_for,
)
from serving_witness import Passes, run

FORMATS = Formats("fp8", cache_bytes=1)
PAIR = Replica(transformer("Llama 3.1 70B"), machine("H200 SXM"), Layout(tp=2), FORMATS, software=SERVING["vLLM"])
ASKED = Requests(1000, 300)


@pytest.mark.parametrize("promise", [Promise(1.0, 0.03), Promise(0.25, 0.1), Promise(10, 1)])
def test_at_the_rate_of_a_replica_all_is_kept_and_beyond_it_something_breaks(promise):
    found = replicas_for(PAIR, ASKED, promise, rate=500)
    at = found.rate_of_replica
    assert found.replicas == np.ceil(500 / at)
    assert open_loop(PAIR, ASKED, rate=at).first_token_quantile(0.95) <= promise.first_token * (1 + 1e-6)
    if found.binds == "first token":
        assert open_loop(PAIR, ASKED, rate=1.001 * at).first_token_quantile(0.95) > promise.first_token
    elif found.binds == "places":
        with pytest.raises(ValueError, match="rate must be below"):
            open_loop(PAIR, ASKED, rate=1.001 * at)


def test_what_is_promised_is_kept_for_so_many_requests_run_pass_by_pass():
    """4,000 requests at the rate of one replica: about 95 % in time, and their mean token as promised."""
    bare = replace(PAIR, software=replace(PAIR.software, first_passes=0.0))
    promise = Promise(0.2, 0.5)
    found = replicas_for(bare, ASKED, promise, rate=500)
    assert found.binds == "first token"
    rng = np.random.default_rng(4)
    arrivals = np.cumsum(rng.exponential(1 / found.rate_of_replica, 4000))
    first, token, _ = run(Passes(bare, ASKED, 300), np.full(4000, 300), arrivals=arrivals, places=300)
    assert 0.88 < np.mean(first[500:] <= 0.2) <= 1
    assert np.mean(token[500:] <= 0.5) > 0.95


@pytest.mark.slow
@settings(max_examples=15)
@given(st.floats(0.3, 5), st.floats(0.025, 0.2), st.floats(10, 1e4))
def test_a_stricter_promise_takes_no_fewer_gpus_and_the_interval_holds_the_count(first, token, rate):
    easy, hard = (replicas_for(PAIR, ASKED, Promise(f * first, f * token), rate=rate) for f in (1.3, 1))
    assert hard.gpus >= easy.gpus
    assert hard.low <= hard.gpus <= hard.high


def test_apart_wins_where_prompts_are_long_and_loses_where_they_are_short():
    strict = Promise(2.0, 0.025)
    counts = {}
    for prompt in (100, 6000):
        asked = Requests(prompt, 300)
        together = replicas_for(PAIR, asked, strict, rate=1000)
        apart = pools_for(PAIR, PAIR, asked, strict, rate=1000)
        assert 0 < apart.prefill_replicas < apart.replicas
        counts[prompt] = apart.gpus / together.gpus
    assert counts[6000] < 0.8 < counts[100]


def test_readers_in_stages_have_a_prompt_in_each():
    """Four stages of one GPU: a prompt's way is that of all of them, and four prompts are on it."""
    asked, stages = Requests(8000, 100), replace(PAIR, layout=Layout(pp=4))
    way = reading(stages, asked)
    assert way == pytest.approx(forward_pass(stages, Batch(prompt_tokens=4 * 8000, chunk=8000)).time)
    with pytest.raises(ValueError, match="first token is longer"):
        pools_for(stages, PAIR, asked, Promise(0.9 * way, 0.05), rate=10)
    kept = pools_for(stages, PAIR, asked, Promise(100, 0.05), rate=1000)
    assert kept.prefill_replicas == pytest.approx(1000 * way / 4, rel=0.02)  # which no patience makes fewer
    for pp in (2, 4):
        some = replace(PAIR, layout=Layout(pp=pp))
        assert open_loop(some, asked, rate=0.01).prompts == pytest.approx(reading(some, asked), rel=0.02)


def test_an_interval_says_of_what():
    assert "80 % of runs)" in repr(replicas_for(PAIR, ASKED, Promise(1.0, 0.03), rate=100))


def test_bursts_cost_replicas():
    calm, bursty = (replicas_for(PAIR, ASKED, Promise(1.2, 0.2, burstiness=b), rate=1000) for b in (1, 5))
    assert bursty.gpus > calm.gpus


@pytest.mark.parametrize("how", [replicas_for, lambda *some, **more: pools_for(some[0], *some, **more)])
def test_what_nobody_can_keep_is_said(how):
    with pytest.raises(ValueError, match="not even one request alone is served as promised: time per token is longer"):
        how(PAIR, ASKED, Promise(1, 1e-4), rate=10)
    with pytest.raises(ValueError, match="not even one request alone is served as promised: first token is longer"):
        how(PAIR, ASKED, Promise(1e-3, 1), rate=10)


@pytest.mark.parametrize("field", ["first_token", "time_per_token", "burstiness", "share"])
def test_promises_that_are_none_are_refused(field):
    with pytest.raises(ValueError, match=field):
        Promise(**({"first_token": 1, "time_per_token": 1} | {field: -1}))
