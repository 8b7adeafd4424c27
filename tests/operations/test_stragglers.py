"""Stragglers: order statistics in closed form, ranks drawn one by one, published tails, power of a test, refusals."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterlab.evidence import published
from clusterlab.operations import any_slow, repetitions, slowest, stragglers
from refusals import unreached

SHAPES = ("normal", "lognormal", "pareto")


# --- the slowest of n ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "scores"), [(1, 0), (2, 1 / math.sqrt(math.pi)), (3, 1.5 / math.sqrt(math.pi))])
def test_two_and_three_normal_ranks_have_their_slowest_in_closed_form(n, scores):
    assert slowest(n, spread=0.1) == pytest.approx(1 + 0.1 * scores, rel=1e-12)


def test_many_normal_ranks_have_the_slowest_of_the_tables():
    """Harter 1961, Expected values of normal order statistics: 10, 100 and 400 draws."""
    assert (slowest([10, 100, 400], spread=0.5) - 1) / 0.5 == pytest.approx([1.53875, 2.50759, 2.96818], abs=1e-5)


@pytest.mark.parametrize("spread", [0.05, 0.4, 0.9])
def test_two_log_normal_ranks_have_their_slowest_in_closed_form(spread):
    """The larger of two of mean 1 has the mean 2 Phi(sigma / sqrt 2)."""
    sigma = math.sqrt(math.log(1 + spread**2))
    assert slowest(2, spread=spread, shape="lognormal") == pytest.approx(1 + math.erf(sigma / 2), rel=1e-10)


def pareto(n, spread, dropped):
    """E[X_(n-k)] of n Pareto times of mean 1: a ratio of gamma functions."""
    tail = 1 + math.sqrt(1 + 1 / spread**2)
    logs = math.lgamma(n + 1) - math.lgamma(n + 1 - 1 / tail)
    return (tail - 1) / tail * math.exp(logs + math.lgamma(dropped + 1 - 1 / tail) - math.lgamma(dropped + 1))


@given(st.integers(1, 100_000), st.floats(0.01, 0.95), st.integers(0, 20))
def test_heavy_tails_have_their_slowest_in_closed_form(n, spread, dropped):
    dropped = min(dropped, n - 1)
    assert slowest(n, spread=spread, shape="pareto", dropped=dropped) == pytest.approx(
        pareto(n, spread, dropped), rel=1e-8
    )


@pytest.mark.parametrize("shape", SHAPES)
def test_ranks_drawn_one_by_one_agree(shape):
    random, spread, n = np.random.default_rng(0), 0.2, 8
    scores = random.normal(size=(100_000, n))
    variance = math.log1p(spread**2)
    tail = 1 + math.sqrt(1 + 1 / spread**2)
    drawn = {
        "normal": 1 + spread * scores,
        "lognormal": np.exp(math.sqrt(variance) * scores - variance / 2),
        "pareto": (tail - 1) / tail * (1 + random.pareto(tail, size=scores.shape)),
    }[shape]
    assert drawn.std() == pytest.approx(spread, rel=0.05)
    ordered = np.sort(drawn, axis=1).mean(axis=0)
    for dropped in (0, 1, 3, 7):
        found = slowest(n, spread=spread, shape=shape, dropped=dropped)
        assert found == pytest.approx(ordered[n - 1 - dropped], rel=3e-3)


@given(st.sampled_from(SHAPES), st.integers(2, 10_000), st.floats(0.005, 0.9))
def test_more_ranks_and_more_spread_are_slower_and_dropping_some_is_faster(shape, n, spread):
    here = slowest(n, spread=spread, shape=shape)
    assert here > 1
    assert slowest(2 * n, spread=spread, shape=shape) > here
    assert slowest(n, spread=1.1 * spread, shape=shape) > here
    assert slowest(n, spread=spread, shape=shape, dropped=1) < here
    mean = np.mean([slowest(6, spread=spread, shape=shape, dropped=k) for k in range(6)])
    assert mean == pytest.approx(1, abs=1e-6)  # the six order statistics have the ranks' mean


def test_a_heavy_tail_of_the_same_spread_costs_more_the_more_ranks_there_are():
    few, many = ([slowest(n, spread=0.02, shape=s) for s in SHAPES] for n in (8, 16384))
    assert few == sorted(few)
    assert many == sorted(many)
    assert (many[2] - 1) / (many[0] - 1) > 2 * (few[2] - 1) / (few[0] - 1)


def test_meeting_every_m_steps_averages_the_noise():
    random = np.random.default_rng(3)
    steps = 1 + 0.1 * random.normal(size=(20_000, 16, 4))
    assert slowest(16, spread=0.1 / math.sqrt(4)) == pytest.approx(steps.mean(axis=2).max(axis=1).mean(), rel=1e-3)


# --- a few slow ranks ------------------------------------------------------------------------------------------------


def test_the_tail_at_scale():
    """One server in a hundred slow: 63 % of requests to a hundred; one in 10,000: almost one in five to 2,000."""
    (row,) = published("operations", run="Tail at Scale")
    assert any_slow(100, 0.01) == pytest.approx(row["low"], abs=5e-3)
    assert any_slow(2000, 1e-4) == pytest.approx(0.18, abs=2e-3)


@given(st.integers(1, 500), st.floats(0, 1))
def test_any_slow_is_one_minus_none(n, share):
    none = math.prod([1 - share] * n)
    assert any_slow(n, share) == pytest.approx(1 - none)


def test_jobs_of_ranks_that_vary_and_jobs_that_were_measured_do_not_waste_alike():
    """ByteDance's jobs lose 10.4 %. Noise of 2 % on 128 to 10,000 ranks takes 5 to 7 %, and is no tenth in any job."""
    (wasted,) = published("operations", run="ByteDance", what="wasted")
    noise = 1 - 1 / slowest([128, 10_000], spread=0.02)
    assert noise == pytest.approx([0.0493, 0.0715], abs=1e-4)
    assert wasted["low"] == pytest.approx(0.104)
    assert noise.max() < wasted["low"]


@pytest.mark.parametrize(("job", "law"), [(1, 1.111), (2, 1.139), (3, 1.104), (4, 2.391)])
def test_the_slowest_of_ten_workers_is_that_of_their_spread(job, law):
    """Alibaba's PAI, times of ten workers step by step: 1.111, 1.124, 1.106 and 2.204 times the mean."""
    run = f"PAI, job {job} of 10 workers"
    rows = {row["metric"]: row["low"] for row in published("operations", run=run)}
    assert slowest(10, spread=rows["variation"]) == pytest.approx(law, abs=1e-3)
    assert law == pytest.approx(rows["slowest"], rel=0.015 if rows["variation"] < 0.5 else 0.09)
    assert 0.3 < rows["always"] < 0.97


# --- telling slow from noise -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("slowdown", "spread", "ranks"), [(0.05, 0.02, 1), (0.05, 0.1, 1), (0.05, 0.1, 200)])
def test_so_many_repetitions_find_it_as_often_as_they_say(slowdown, spread, ranks):
    random = np.random.default_rng(5)
    k = int(repetitions(slowdown, spread, ranks=ranks, false_alarms=0.05, misses=0.1))
    trials = 4000
    # The mean of k timings is normal; the limit is that of the least false alarms allowed.
    healthy = 1 + spread / math.sqrt(k) * random.normal(size=(trials, ranks))
    slow = 1 + slowdown + spread / math.sqrt(k) * random.normal(size=trials)
    limit = 1 - spread / math.sqrt(k) * stragglers._QUANTILE(0.05 / ranks)
    assert (healthy.max(axis=1) > limit).mean() < 0.05 + 0.012
    assert (slow <= limit).mean() < 0.1 + 0.015
    fewer = spread / math.sqrt(max(k - 1, 0.5))
    assert slowdown < fewer * -(stragglers._QUANTILE(0.05 / ranks) + stragglers._QUANTILE(0.1)) * (1 + 1e-9)


def test_noise_as_large_as_the_effect_takes_sixteen_times_that_of_a_quarter():
    assert repetitions(0.01, 0.4, ranks=1) == pytest.approx(16 * repetitions(0.01, 0.1), abs=16)
    assert repetitions(0.5, 0.001) == 1


# --- arrays and refusals ---------------------------------------------------------------------------------------------


def test_arrays_are_loops_in_every_shape():
    n, spread = np.array([1, 64, 4096]), np.array([0.01, 0.1, 0.4])
    for shape in SHAPES:
        found = slowest(n, spread=spread, shape=shape)
        each = [slowest(i, spread=s, shape=shape) for i, s in zip(n, spread, strict=True)]
        np.testing.assert_allclose(found, each, rtol=1e-12)
    assert slowest(n[:, None], spread=spread).shape == (3, 3)
    assert isinstance(float(slowest(8, spread=0.1)), float)


MISTAKES = {
    "shape must be one of normal, lognormal, pareto; got 3": lambda: slowest(8, spread=0.1, shape=3),
    "dropped must be a whole number below n, got 8": lambda: slowest(8, spread=0.1, dropped=8),
}
CHECKED = {
    "shape must be one of normal, lognormal, pareto; got 'cauchy'": lambda: slowest(8, spread=0.1, shape="cauchy"),
    "dropped must be a whole number below n, got 1.5": lambda: slowest(8, spread=0.1, dropped=1.5),
}


def test_mistakes_are_refused_by_name():
    assert unreached(stragglers, MISTAKES) == set()
    for message, mistake in CHECKED.items():
        with pytest.raises(ValueError, match=message):
            mistake()
