"""Monitoring: detectors played event by event, best settings against every other, all bad machines found, refusals."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterlab.evidence import published
from clusterlab.failures import young_interval
from clusterlab.operations import (
    best_check_interval,
    best_timeout,
    find_bad,
    heartbeat,
    least_tests,
    monitoring,
    pair_tests,
    result_checks,
    step_alarm,
)
from clusterlab.units import day, hour, minute
from refusals import unreached

PAUSES = {"pause": 20.0, "every": 600.0, "mtbf": 3 * hour, "restart": 900.0}
SLOW = {"slowdown": 0.05, "spread": 0.02, "step_time": 6.0, "mtbf": 2 * day, "false_cost": 600.0}
seconds = st.floats(0.1, 1e5)


# --- hung ranks ------------------------------------------------------------------------------------------------------


def test_a_heartbeat_played_pause_by_pause_and_hang_by_hang():
    random, timeout, horizon = np.random.default_rng(1), 60.0, 3e7
    pauses = random.exponential(PAUSES["pause"], size=int(horizon / PAUSES["every"]))
    false = (pauses > timeout).sum()
    hangs = random.poisson(horizon / PAUSES["mtbf"])
    found = heartbeat(timeout, **PAUSES)
    assert false / horizon == pytest.approx(found.false_alarms, rel=0.05)
    assert hangs * timeout / horizon == pytest.approx(found.late, rel=0.05)
    assert false * PAUSES["restart"] / horizon == pytest.approx(found.false, rel=0.05)


@given(seconds, seconds, seconds, seconds, st.floats(0, 1e4))
def test_no_timeout_loses_less_than_the_best(pause, every, mtbf, restart, other):
    job = {"pause": pause, "every": every, "mtbf": mtbf, "restart": restart}
    best = best_timeout(**job)
    least = heartbeat(max(best, 1e-9), **job).lost
    for timeout in (other, best * 1.01, best * 0.99):
        assert least <= heartbeat(max(timeout, 1e-9), **job).lost * (1 + 1e-9)


def test_the_default_of_ten_minutes_loses_four_times_what_it_must():
    (default,) = published("operations", run="PyTorch")
    assert default["low"] == 10 * minute
    best = best_timeout(**PAUSES)
    assert best == pytest.approx(134, abs=0.5)
    ratio = heartbeat(default["low"], **PAUSES).lost / heartbeat(best, **PAUSES).lost
    assert ratio == pytest.approx(3.9, abs=0.05)
    # At the best timeout the false alarms lose one mean pause for each hang.
    assert heartbeat(best, **PAUSES).false == pytest.approx(PAUSES["pause"] / PAUSES["mtbf"])


@pytest.mark.parametrize("tail", [0.1, 1 / 3, 0.6])
def test_heavy_tails_played_pause_by_pause_want_a_longer_timeout(tail):
    """A pause is exponential of a rate that is itself drawn, from a gamma: together a Pareto of the same mean."""
    random, count = np.random.default_rng(3), 2_000_000
    rates = random.gamma(1 / tail, 1 / (PAUSES["pause"] * (1 / tail - 1)), size=count)
    pauses = random.exponential(1 / rates)
    assert pauses.mean() == pytest.approx(PAUSES["pause"], rel=0.05)
    for timeout in (60.0, 200.0):
        found = heartbeat(timeout, **PAUSES, tail=tail).false_alarms
        assert np.mean(pauses > timeout) / PAUSES["every"] == pytest.approx(found, rel=0.05)
    best, short = best_timeout(**PAUSES, tail=tail), best_timeout(**PAUSES)
    least = heartbeat(best, **PAUSES, tail=tail).lost
    assert all(heartbeat(best * by, **PAUSES, tail=tail).lost > least for by in (0.8, 0.95, 1.05, 1.25))
    assert best > short
    assert least > heartbeat(short, **PAUSES).lost


def test_a_tail_of_zero_is_the_exponential_and_a_small_one_tends_to_it():
    job = PAUSES | {"tail": np.array([0.0, 1e-7])}
    assert best_timeout(**job) == pytest.approx(best_timeout(**PAUSES), rel=1e-5)
    assert heartbeat(120, **job).lost == pytest.approx(heartbeat(120, **PAUSES).lost, rel=1e-5)
    assert round(best_timeout(**PAUSES, tail=1 / 3)) == 196


def test_where_pauses_are_long_and_hangs_frequent_waiting_never_pays():
    assert best_timeout(pause=100, every=10, mtbf=60, restart=1) == 0
    assert best_timeout(pause=[100, 20], every=600, mtbf=3 * hour, restart=[0.01, 900]).tolist()[0] == 0


# --- slow ranks ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("threshold", "steps"), [(0.03, 1), (0.02, 4), (0.045, 4)])
def test_an_alarm_played_step_by_step(threshold, steps):
    random = np.random.default_rng(2)
    found = step_alarm(threshold, steps=steps, **SLOW)
    healthy = 1 + SLOW["spread"] * random.normal(size=(400_000 // steps, steps))
    wrong = (healthy.mean(axis=1) > 1 + threshold).mean()
    assert wrong / (steps * SLOW["step_time"]) == pytest.approx(found.false_alarms, rel=0.1, abs=2e-7)
    delays = []
    for _ in range(3000):
        into = random.uniform(0, steps)  # of the window in which it becomes slow, which does not count
        waited = steps - into
        while True:
            waited += steps
            if (1 + SLOW["slowdown"] + SLOW["spread"] * random.normal(size=steps)).mean() > 1 + threshold:
                break
        delays.append(waited * SLOW["step_time"])
    assert np.mean(delays) == pytest.approx(found.delay, rel=0.05)


@given(st.floats(0.001, 0.2), st.integers(1, 100))
def test_a_higher_threshold_is_later_and_quieter(threshold, steps):
    low, high = (step_alarm(h, steps=steps, **SLOW) for h in (threshold, 1.1 * threshold))
    assert high.delay >= low.delay
    assert high.false_alarms <= low.false_alarms
    assert low.lost == low.late + low.false
    assert low.late == pytest.approx(low.delay * (0.05 / 1.05) / (2 * day))
    assert low.false == pytest.approx(600 * low.false_alarms)


def test_longer_windows_are_sharper():
    """At half the slowdown both errors shrink together with the window: 16 steps of 2 % tell 2.5 % as 4 of 1 % do."""
    one = step_alarm(0.025, steps=16, **SLOW)
    other = step_alarm(0.025, steps=4, **SLOW | {"spread": 0.01})
    assert one.false_alarms * 16 == pytest.approx(other.false_alarms * 4)
    assert one.delay / 16 == pytest.approx(other.delay / 4)


# --- wrong results ---------------------------------------------------------------------------------------------------


def test_checks_played_one_by_one():
    random = np.random.default_rng(4)
    for coverage in (1.0, 0.3):
        found = result_checks(100.0, cost=2.0, mtbf=5000.0, coverage=coverage)
        first = 100 * random.random(100_000)
        needed = random.geometric(coverage, size=first.size)
        assert (first + 100 * (needed - 1)).mean() == pytest.approx(found.delay, rel=0.02)
        assert found.late == pytest.approx(found.delay / 5000)
        assert found.false == pytest.approx(0.02)
        assert found.false_alarms == 0


@given(seconds, seconds, st.floats(0.05, 1), st.floats(0.2, 5))
def test_no_interval_loses_less_than_the_best(cost, mtbf, coverage, factor):
    job = {"cost": cost, "mtbf": mtbf, "coverage": coverage}
    best = best_check_interval(**job)
    assert result_checks(best, **job).lost <= result_checks(factor * best, **job).lost * (1 + 1e-9)
    assert best_check_interval(cost=cost, mtbf=mtbf) == pytest.approx(young_interval(cost, mtbf))


def test_gemini_s_silent_errors_ask_for_a_check_every_few_hours():
    (row,) = published("operations", run="Gemini")
    often, rarely = (best_check_interval(cost=minute, mtbf=row[end]) / hour for end in ("low", "high"))
    assert (often, rarely) == pytest.approx((2.37, 3.35), abs=0.01)


# --- who is it? ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 2, 3, 7, 16])
def test_every_bad_machine_is_found_whoever_and_however_many(n):
    for count in range(min(n, 3) + 1):
        for culprits in itertools.combinations(range(n), count):
            bad, tests = find_bad(n, lambda group, culprits=culprits: not set(group).isdisjoint(culprits))
            assert bad == culprits
            assert len(tests) <= count * (2 + math.ceil(math.log2(n))) + 1
            if 1 <= count <= n:
                assert len(tests) >= least_tests(n, count)


def test_one_among_a_power_of_two_takes_its_logarithm_and_two():
    """The whole group, one half a level, and the rest to be sure: the bound is the logarithm alone."""
    for levels in range(1, 12):
        n = 2**levels
        _, tests = find_bad(n, lambda group, n=n: n - 1 in group)
        assert len(tests) == levels + 2
        assert least_tests(n) == levels


def test_no_fewer_tests_could_tell():
    for n, bad in ((16, 1), (10, 3), (2048, 2), (5, 5)):
        cases = math.comb(n, bad)
        tests = int(least_tests(n, bad))
        assert 2**tests >= cases
        assert tests == 0 or 2 ** (tests - 1) < cases


def in_pairs(n, culprits):
    """Play the two rounds: tests of each, and whom they find."""
    first = [(i, i + 1) for i in range(0, n - 1, 2)]
    failed = [pair for pair in first if not culprits.isdisjoint(pair)]
    suspects = [one for pair in failed for one in pair] + ([n - 1] if n % 2 else [])
    passed = [one for pair in first if pair not in failed for one in pair]
    second = list(zip(suspects, passed[: len(suspects)], strict=True))  # each has a partner of its own
    return first, second, {one for one, sure in second if not culprits.isdisjoint((one, sure))}


def test_two_rounds_of_pairs_find_every_bad_machine():
    """Every set of up to three bad ones among up to 16: found, nobody in two tests at once, and the law is the most."""
    for n in range(4, 17):
        for bad in range(1, 4):
            if 4 * bad + 2 * (n % 2) > n:
                continue
            most = 0
            for culprits in map(set, itertools.combinations(range(n), bad)):
                first, second, found = in_pairs(n, culprits)
                assert found == culprits
                for tests in (first, second):
                    assert len({one for pair in tests for one in pair}) == 2 * len(tests)
                most = max(most, len(first) + len(second))
            assert most == pair_tests(n, bad)
    for n in (2048, 999):
        first, second, found = in_pairs(n, {n // 3})
        assert found == {n // 3}
        assert len(first) + len(second) == pair_tests(n)


def test_pairs_one_after_another_take_half_of_all():
    """The best play of pairs against the worst case: of c that may be bad, test two, or one with a sure one."""
    turns = {0: 0, 1: 0}
    for c in range(2, 40):
        two = 1 + max(turns[c - 2], 1)  # it fails: one more test tells which of the two
        turns[c] = min(two, 1 + turns[c - 1]) if c > 2 else 1
    assert [turns[n] for n in (4, 8, 16, 32)] == [2, 4, 8, 16]
    assert all(turns[n] >= least_tests(n) for n in range(2, 40))


# --- records and refusals --------------------------------------------------------------------------------------------


def test_a_detector_shows_what_it_costs():
    assert [line.split("  ")[0] for line in repr(heartbeat(60, **PAUSES)).splitlines()[2:]] == [
        "delay",
        "between false alarms",
        "late",
        "false",
        "lost",
    ]
    assert "inf" in repr(result_checks(60, cost=1, mtbf=5000))


MISTAKES = {
    "bad must be at most n, got 3 of 2": lambda: least_tests(2, 3),
    "bad must be at most a quarter of n, got 2 of 7": lambda: pair_tests(7, 2),
    "tail must be below 1, got 1: its pauses have no mean": lambda: best_timeout(**PAUSES, tail=1),
}


def test_mistakes_are_refused_by_name():
    assert unreached(monitoring, MISTAKES) == set()
    with pytest.raises(ValueError, match="n must be a whole number of at least 1, got 0"):
        find_bad(0, any)
