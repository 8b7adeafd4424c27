"""On call: burn-ins, waves and flaps played machine by machine, states counted one by one, and what was published."""

import itertools
import tomllib
import warnings

import numpy as np
import pint
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterlab.catalogue import stored
from clusterlab.evidence import published
from clusterlab.failures import lemons
from clusterlab.operations import accepted, best_burn_in, burn_in, flaps_to_swap, k_of_n, rollout
from clusterlab.units import day, hour, minute
from laws import assert_fit_is_asked_for, assert_units, q

NEW = {"bad": 0.05, "shows": 12 * hour, "missed": 800 * hour, "coverage": 0.8}
TRIED = NEW | {"mtbf": 1000 * hour, "false_cost": 20 * hour}
shares = st.floats(0.01, 1)
times = st.floats(1e2, 1e7)


# --- burn-in ---------------------------------------------------------------------------------------------------------


def test_a_burn_in_played_server_by_server():
    random, n, time = np.random.default_rng(1), 400_000, 20 * hour
    is_bad = random.random(n) < TRIED["bad"]
    can_be_found = random.random(n) < TRIED["coverage"]
    shows = is_bad & can_be_found & (random.exponential(TRIED["shows"], n) < time)
    failed = random.poisson(time / TRIED["mtbf"], n) * ~is_bad
    found = burn_in(time, **TRIED)
    assert shows.mean() == pytest.approx(found.found, rel=0.02)
    assert (is_bad & ~shows).mean() == pytest.approx(found.left, rel=0.02)
    assert failed.mean() == pytest.approx(found.false_alarms, rel=0.03)
    cost = time + (is_bad & ~shows).mean() * TRIED["missed"] + failed.mean() * TRIED["false_cost"]
    assert cost == pytest.approx(found.cost, rel=0.01)


@given(shares, times, st.floats(1e3, 1e9), shares, times, st.floats(0, 1e6), st.floats(0, 1e7))
def test_no_burn_in_costs_less_than_the_best(bad, shows, missed, coverage, mtbf, false_cost, other):
    new = {"bad": bad, "shows": shows, "missed": missed, "coverage": coverage, "mtbf": mtbf, "false_cost": false_cost}
    best = best_burn_in(**new)
    least = burn_in(best, **new).cost
    for time in (other, best * 1.02, best * 0.98, 0.0):
        assert least <= burn_in(time, **new).cost * (1 + 1e-9)


def test_where_the_best_ends_an_hour_finds_what_it_costs():
    best = best_burn_in(**NEW)
    more = burn_in(best + 1, **NEW).found - burn_in(best, **NEW).found
    assert more * NEW["missed"] == pytest.approx(1, rel=1e-4)


def test_a_mean_fitted_to_fifteen_days_finds_nearly_all_in_metas_half_year():
    (stated,) = published("operations", run="Meta, silent corruption")
    shows = -15 * day / np.log(1 - stated["low"])  # fitted: the one number gives the one constant
    assert shows / day == pytest.approx(12.5, abs=0.05)
    assert burn_in(182 * day, bad=1, shows=shows, missed=1).found > 0.999


# --- acceptance ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("allowed", [0, 2, 6])
def test_a_run_is_accepted_where_the_next_failure_comes_too_late(allowed):
    """The chance of at most k failures is that the sum of k + 1 exponential times is longer than the run."""
    gaps = np.random.default_rng(2).exponential(1.0, (200_000, allowed + 1)).sum(1)
    assert (gaps > 3).mean() == pytest.approx(accepted(allowed, time=3, mtbf=1), abs=0.004)


@given(st.integers(0, 30), st.floats(0, 50))
def test_more_allowed_or_less_time_is_accepted_more_often(allowed, time):
    here = accepted(allowed, time=time, mtbf=1)
    assert 0 <= here <= accepted(allowed + 1, time=time, mtbf=1) * (1 + 1e-15) <= 1 + 1e-15  # the last bit
    assert accepted(allowed, time=time * 1.1, mtbf=1) <= here + 1e-12
    assert accepted(allowed, time=0, mtbf=1) == 1


# --- waves -----------------------------------------------------------------------------------------------------------


def play(waves, *, soak, bug, mtbf, stop, random):
    """Update servers wave by wave, and stop at the failure that is one too many; return how many have the bug."""
    updated, count = 0, 0
    for i, size in enumerate(waves):
        updated += size
        if i == len(waves) - 1:
            return updated, True
        rate = updated * (1 / bug + 1 / mtbf)
        count += random.poisson(rate * soak)
        if count >= stop:
            return updated, False
    raise AssertionError


def test_a_rollout_played_wave_by_wave():
    how = {"soak": 24 * hour, "bug": 2000 * hour, "mtbf": 50_000 * hour, "stop": 3}
    waves, random = [10, 50, 200, 788], np.random.default_rng(3)
    runs = [play(waves, **how, random=random) for _ in range(20_000)]
    found = rollout(waves, **how)
    assert np.mean([n for n, _ in runs]) == pytest.approx(found.exposed, rel=0.02)
    assert np.mean([end for _, end in runs]) == pytest.approx(found.reached[-1], abs=0.01)
    good = [play(waves, **how | {"bug": 1e30}, random=random)[1] for _ in range(20_000)]
    assert 1 - np.mean(good) == pytest.approx(found.false_stops, abs=0.01)
    assert found.time == 3 * 24 * hour


def test_only_the_hours_of_updated_servers_count():
    few = rollout([10, 1000], soak=100 * hour, bug=1000 * hour)
    many = rollout([100, 1000], soak=10 * hour, bug=1000 * hour)
    assert few.reached[-1] == pytest.approx(many.reached[-1]) == pytest.approx(np.exp(-1))


@given(st.lists(st.integers(1, 500), min_size=1, max_size=6), st.floats(1, 1e6), st.integers(1, 4))
def test_waves_start_less_and_less_often_and_never_expose_more_than_all(waves, soak, stop):
    found = rollout(waves, soak=soak, bug=1e6, stop=stop)
    assert found.reached[0] == 1
    assert np.all(np.diff(found.reached) <= 1e-12)
    assert waves[0] <= found.exposed <= sum(waves) + 1e-9
    assert found.false_stops == 0


def test_a_rollout_has_units_broadcasts_and_refuses():
    waves = [10, 100, 1000]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pint.UnitStrippedWarning)
        assert_units(rollout(waves, soak=q("s"), bug=q("s"), mtbf=q("s")), time="s", exposed="", false_stops="")
        with pytest.raises(pint.DimensionalityError):
            rollout(waves, soak=q("m"), bug=q("s"))
    each = [rollout(waves, soak=24 * hour, bug=bug).exposed for bug in (1e5, 1e6)]
    assert rollout(waves, soak=24 * hour, bug=np.array([1e5, 1e6])).exposed == pytest.approx(each)
    assert_fit_is_asked_for(lambda a, b: rollout(waves, soak=a, bug=b))
    with pytest.raises(ValueError, match=r"^waves must be a list"):
        rollout(10, soak=1, bug=1)
    for wrong in ({"soak": -1}, {"bug": 0}, {"mtbf": 0}, {"stop": 0}, {"waves": [10, 0.5]}):
        (name,) = wrong
        with pytest.raises(ValueError, match=f"^{name} must be"):
            rollout(**{"waves": waves, "soak": 1, "bug": 1} | wrong)


# --- k of n ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("up", [0.0, 0.3, 0.99, 1.0])
def test_k_of_n_is_the_sum_over_all_states(up):
    n = 6
    for k in range(n + 2):
        states = [s for s in itertools.product((0, 1), repeat=n) if sum(s) >= k]
        chance = sum(up ** sum(s) * (1 - up) ** (n - sum(s)) for s in states)
        assert k_of_n(k, n, up) == pytest.approx(chance, abs=1e-12)


def test_one_failed_gpu_in_a_thousand_costs_a_rack_wide_job_a_sixteenth_and_the_paper_says_nearly_a_tenth():
    (stated,) = published("operations", run="NVL72 under failures")
    lost = 1 - k_of_n([64, 72], [64, 72], 0.999)
    assert lost == pytest.approx([0.062, 0.0695], abs=5e-4)
    assert np.all(lost < stated["low"])  # predicted, and too little: the paper's job loses more than the domain


# --- flaps -----------------------------------------------------------------------------------------------------------


def test_a_count_of_flaps_speaks_for_a_rate_as_the_next_window_shows():
    random, usual, dispersion = np.random.default_rng(4), 0.5, 2.0
    rates = random.gamma(1 / dispersion, usual * dispersion, 2_000_000)
    now, then = random.poisson(rates), random.poisson(rates)
    for cost in (0.3, 1.0, 2.0):
        k = int(flaps_to_swap(usual, dispersion=dispersion, flap_cost=1, swap_cost=cost))
        gains = [then[now == count].mean() - usual for count in (k - 1, k)]
        assert gains[1] == pytest.approx(usual * (1 + dispersion * k) / (1 + dispersion * usual) - usual, rel=0.03)
        assert gains[0] < cost * 1.03
        assert gains[1] > cost * 0.97


def test_the_worst_links_are_the_lemons_of_the_failures():
    worst = lemons(0.001, failures=0.1, dispersion=0.9)
    assert worst.future < worst.past  # who flapped most was unlucky too
    assert flaps_to_swap(0.1, dispersion=0.9, flap_cost=1, swap_cost=1e-9) == 1


def test_seven_timers_of_nccl_are_the_thirty_seconds_after_which_nvidia_takes_a_server_out():
    told = {row["what"]: row["low"] for row in published("operations", run="NCCL")}
    timer = 4.096e-6 * 2 ** told["exponent of 4.096 us times a power of two"]
    (stated,) = published("operations", run="NVIDIA Health Validation")
    assert timer * told["retries"] == pytest.approx(stated["low"], rel=0.01)


def test_the_thresholds_that_the_page_tells():
    job = {"dispersion": 0.9, "windows": 6}
    long, short = 256 * 16 * minute, 256 * 10
    assert flaps_to_swap(0.1, **job, flap_cost=short, swap_cost=hour + long) > 100
    assert flaps_to_swap(0.1, **job, flap_cost=long, swap_cost=hour + long) == 3


def test_every_signal_says_what_it_is():
    document = tomllib.loads(stored("signals.toml"))
    assert set(document) == {"sources", "signal"}
    used = {row["source"] for row in document["signal"].values()}
    assert used == set(document["sources"])
