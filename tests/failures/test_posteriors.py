"""A site's own log against what is published: conjugate laws against sums, draws, and what no data may change."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterlab.evidence import published
from clusterlab.failures import BURSTS, LOSS_SCATTER, burstiness, posterior_loss, posterior_mttf
from clusterlab.units import day, hour

BOOK = {"prior": 50_000 * hour, "weight": 6.7}


# --- the rate --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("failures", "index"), [(0, 1), (3, 1), (412, 1), (412, 9), (20_000, 1)])
def test_the_posterior_is_the_prior_times_the_likelihood_summed_on_a_grid(failures, index):
    exposure = 8192 * 93 * day
    law = posterior_mttf(failures, exposure, index=index, **BOOK)
    rate = np.linspace(1e-5, 6, 800_001) / law.value
    # Gamma density of the rate, and Poisson counts whose logarithm weighs 1 / index.
    log = (BOOK["weight"] - 1) * np.log(rate) - BOOK["weight"] * BOOK["prior"] * rate
    log += (failures * np.log(rate * exposure) - rate * exposure) / index
    chance = np.cumsum(np.exp(log - log.max()))
    ends = [rate[np.searchsorted(chance, share * chance[-1])] for share in (0.9, 0.1)]
    assert (law.low, law.high) == pytest.approx([1 / end for end in ends], rel=2e-3)
    mean = np.diff(chance, prepend=0) @ rate / chance[-1]
    assert law.value == pytest.approx(1 / mean, rel=1e-3)


@pytest.mark.slow
@given(st.integers(1, 5000), st.floats(1e8, 1e13), st.floats(0.5, 50))
def test_a_longer_log_of_the_same_rate_narrows_and_no_log_leaves_the_prior(failures, exposure, weight):
    belief = {"prior": 50_000 * hour, "weight": weight}
    none, short, long = (posterior_mttf(n * failures, n * exposure, **belief) for n in (0, 1, 100))
    assert none.value == pytest.approx(belief["prior"])
    assert none.high / none.low >= short.high / short.low >= long.high / long.low
    measured = exposure / failures
    between = sorted((belief["prior"], measured))
    for one in (short, long):
        assert between[0] * (1 - 1e-9) <= one.value <= between[1] * (1 + 1e-9)
    assert abs(math.log(long.value / measured)) <= abs(math.log(short.value / measured)) + 1e-9


def test_a_heavier_prior_moves_less_and_bursts_widen():
    log = 100, 1e12
    light, heavy = (posterior_mttf(*log, prior=BOOK["prior"], weight=w) for w in (1, 1000))
    assert abs(heavy.value - BOOK["prior"]) < abs(light.value - BOOK["prior"])
    calm, bursts = (posterior_mttf(*log, index=index, **BOOK) for index in (1, 20))
    assert bursts.high / bursts.low > calm.high / calm.low


@pytest.mark.slow
def test_eight_of_ten_fleets_that_come_in_bursts_lie_inside_and_fewer_if_bursts_are_left_out():
    """Twelve months, each with a rate of its own, about the fleet's: what is asked for is the fleet's."""
    random, trials, windows, per_month = np.random.default_rng(11), 400, 12, 80.0
    inside = {True: 0, False: 0}
    for _ in range(trials):
        fleet = random.gamma(BOOK["weight"], 1 / BOOK["weight"])  # over the published rate
        months = random.gamma(1 / BURSTS, BURSTS, windows)
        counts = random.poisson(per_month * fleet * months)
        exposure = windows * per_month * BOOK["prior"]
        for wide in inside:
            index = burstiness(counts).index if wide else 1
            found = posterior_mttf(counts.sum(), exposure, index=index, **BOOK)
            inside[wide] += found.low <= BOOK["prior"] / fleet <= found.high
    assert inside[True] / trials == pytest.approx(0.8, abs=0.06)
    assert inside[False] / trials < 0.4


# --- bursts ----------------------------------------------------------------------------------------------------------


def test_counts_of_a_gamma_rate_show_its_dispersion_and_those_of_poisson_none():
    random = np.random.default_rng(2)
    rates = {0.5: random.gamma(2, 0.5, 4000), 0.0: np.ones(4000)}
    for alpha, rate in rates.items():
        found = burstiness(random.poisson(50 * rate))
        assert found.dispersion == pytest.approx(alpha, abs=0.04)
        assert found.index == pytest.approx(1 + alpha * found.mean, rel=0.1, abs=0.2)


@given(st.lists(st.integers(0, 1000), min_size=1, max_size=60), st.randoms())
def test_the_order_of_windows_does_not_matter_and_few_of_them_say_little(counts, random):
    shuffled = list(counts)
    random.shuffle(shuffled)
    one, other = burstiness(counts), burstiness(shuffled)
    assert one.index == pytest.approx(other.index)
    assert one.index >= 1
    if len(counts) == 1:
        assert one.dispersion == pytest.approx(BURSTS)


def test_nonsense_is_refused():
    with pytest.raises(ValueError, match="counts must be those of one window at least"):
        burstiness([])
    with pytest.raises(ValueError, match="counts must be"):
        burstiness([3, -1])
    with pytest.raises(ValueError, match="losses must be"):
        posterior_loss([-1.0], prior=780, doubt=1.6)
    with pytest.raises(ValueError, match="prior must be"):
        posterior_loss([1.0], prior=0, doubt=1.6)


# --- what a failure costs --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("losses", [[3600.0], [60.0, 600.0, 6000.0], [1800.0] * 50])
def test_the_mean_loss_is_the_prior_times_the_likelihood_summed_on_a_grid(losses):
    prior, doubt, weight = 780.0, 1.6, 2.0
    law = posterior_loss(losses, prior=prior, doubt=doubt, weight=weight)
    logs = np.log(losses)
    more = len(losses) - 1
    spread = (weight * LOSS_SCATTER**2 + np.sum((logs - logs.mean()) ** 2)) / (weight + more)
    noise = (np.exp(spread) - 1) / len(losses)
    log = np.linspace(np.log(prior) - 15, np.log(prior) + 15, 600_001)
    density = -((log - np.log(prior)) ** 2) / doubt**2 / 2 - (log - np.log(np.mean(losses))) ** 2 / noise / 2
    chance = np.cumsum(np.exp(density - density.max()))
    ends = [np.exp(log[np.searchsorted(chance, share * chance[-1])]) for share in (0.1, 0.5, 0.9)]
    assert (law.low, law.value, law.high) == pytest.approx(ends, rel=1e-3)


def test_eight_of_ten_sites_have_their_mean_loss_inside():
    random, trials, inside = np.random.default_rng(5), 1000, 0
    for _ in range(trials):
        mean = 780 * np.exp(random.normal(0, 1.6))
        losses = random.lognormal(np.log(mean) - 0.5, 1.0, 30)  # of mean exp(mu + 1/2)
        found = posterior_loss(losses, prior=780, doubt=1.6)
        inside += found.low <= mean <= found.high
    assert inside / trials == pytest.approx(0.8, abs=0.08)


@given(st.lists(st.floats(1, 1e6), min_size=1, max_size=40), st.randoms())
def test_losses_in_any_order_say_the_same_and_more_of_them_narrow(losses, random):
    shuffled = list(losses)
    random.shuffle(shuffled)
    one, other = (posterior_loss(some, prior=780, doubt=1.6) for some in (losses, shuffled))
    assert (one.low, one.value, one.high) == pytest.approx((other.low, other.value, other.high))
    none, many = posterior_loss([], prior=780, doubt=1.6), posterior_loss(losses * 20, prior=780, doubt=1.6)
    assert none.value == pytest.approx(780)
    assert none.high / none.low >= (one.high / one.low) * (1 - 1e-6) >= (many.high / many.low) * (1 - 1e-5)


def test_the_scatter_of_losses_is_the_median_of_published_repairs():
    rows = [row for row in published("failures", run="LANL") if row["what"].endswith("deviation of the logarithm")]
    assert len(rows) == 12
    assert np.median([row["low"] for row in rows]) == pytest.approx(LOSS_SCATTER, abs=0.05)
