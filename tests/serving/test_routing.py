"""Routing: experts drawn one by one, and loads that copies even out."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterlab.serving import balanced_loads, fullest_rank


@pytest.mark.parametrize("skew", [0.0, 0.3, 0.6])
@pytest.mark.parametrize(("tokens", "ranks"), [(256, 8), (1024, 32), (2048, 128)])
def test_the_fullest_rank_is_what_drawing_experts_finds(tokens, ranks, skew):
    """Popularities from a gamma distribution; each token draws eight different experts of 256 by them."""
    rng, found = np.random.default_rng(5), []
    for _ in range(12):
        popular = rng.gamma(1 / skew**2, size=256) if skew else np.ones(256)
        keys = np.log(popular) + rng.gumbel(size=(tokens, 256)).astype(np.float32)
        chosen = np.argpartition(-keys, 8, axis=1)[:, :8]
        loads = np.bincount(chosen.ravel(), minlength=256).reshape(ranks, -1).sum(axis=1)
        found.append(loads.max() / loads.mean())
    law = fullest_rank(tokens, experts=256, experts_per_token=8, ranks=ranks, skew=skew)
    assert law == pytest.approx(np.mean(found), rel=0.05)


def test_one_rank_is_the_fullest_and_chance_vanishes_in_large_batches():
    load = {"experts": 256, "experts_per_token": 8}
    assert fullest_rank(100, ranks=1, skew=2, **load) == 1
    assert fullest_rank(1e12, ranks=64, **load) == pytest.approx(1, abs=1e-4)
    assert fullest_rank(1, ranks=64, experts=8, experts_per_token=8) == 1  # every token goes everywhere
    many = fullest_rank(np.array([10, 1000]), ranks=np.array([[8], [64], [8]]), **load)
    assert many.shape == (3, 2)
    assert many[0, 1] == fullest_rank(1000, ranks=8, **load)
    more = fullest_rank(1e9, ranks=64, skew=1, redundant=[0, 64], **load)
    assert more[1] < more[0]


@given(st.lists(st.integers(0, 100), min_size=4, max_size=4), st.sampled_from([0, 2, 4]))
def test_balancing_loses_no_token_and_gives_every_rank_as_many_copies(loads, redundant):
    found = balanced_loads(loads, 2, redundant=redundant)
    assert found.sum() == pytest.approx(sum(loads))
    best = min(
        max(sum(loads[i] for i in half), sum(loads) - sum(loads[i] for i in half))
        for half in itertools.combinations(range(4), 2)
    )
    if not redundant:
        assert best <= found.max() <= 4 / 3 * best + 1e-9  # the bound of greedy packing


def test_copies_even_out_what_skew_makes_uneven():
    """DeepSeek's 32 copies on 72 GPUs, popularities with a deviation of one mean."""
    rng = np.random.default_rng(1)
    loads = rng.gamma(1.0, size=(20, 256))
    plain = np.mean([balanced_loads(one, 64).max() / one.sum() * 64 for one in loads])
    copied = np.mean([balanced_loads(one, 72, redundant=32).max() / one.sum() * 72 for one in loads])
    placed_anyhow = np.mean([one.reshape(64, 4).sum(axis=1).max() / one.sum() * 64 for one in loads])
    assert placed_anyhow > 2
    assert copied < plain < placed_anyhow
    assert copied < 1.05
