"""Robust fits: constants that were put in come out, each fit sees its own rows, and bounds and ties hold."""

import numpy as np
import pytest

from clusterlab.evidence.robust_fits import Settings, fit_constants

RNG = np.random.default_rng(3)
WORK, BYTES = 10.0 ** RNG.uniform(-1, 1, (2, 40))
TRUE = {"rate": 0.6, "bandwidth": 0.3}
SECONDS = WORK / TRUE["rate"] + BYTES / TRUE["bandwidth"]
SOURCES = np.repeat(np.array(list("abcd")), 10)
START = {"rate": 1.0, "bandwidth": 1.0}


def fitted(kept, seconds=SECONDS, rounds=40, start=None, **settings):
    def misses(values):
        times = WORK / values["rate"][..., None] + BYTES / values["bandwidth"][..., None]
        return np.log(times / seconds)

    begun = start or {name: np.full(len(kept), value) for name, value in START.items()}
    with_defaults = Settings(**{"nudge": 1.01, "floor": 1e-3} | settings)
    return fit_constants(begun, misses, kept, SOURCES, rounds=rounds, settings=with_defaults)


def all_but(*left_out):
    return np.array([source != SOURCES for source in left_out])


def test_constants_that_were_put_in_come_out_of_every_fit():
    found = fitted(all_but("a", "b", "c", "d"))
    for name, value in TRUE.items():
        assert found[name] == pytest.approx([value] * 4, rel=1e-4)


def test_a_fit_does_not_look_at_rows_that_it_does_not_see():
    slow = np.isin(SOURCES, ["b", "d"])
    found = fitted(np.array([~slow, slow]), np.where(slow, 5.0, 1.0) * SECONDS)
    for name, value in TRUE.items():
        assert found[name] == pytest.approx([value, value / 5], rel=1e-4)


def test_a_row_that_is_far_off_hardly_counts():
    wild = SECONDS.copy()
    wild[[3, 25]] *= 20
    found = fitted(all_but("x"), wild)
    assert found["rate"][0] == pytest.approx(TRUE["rate"], rel=0.01)
    assert found["bandwidth"][0] == pytest.approx(TRUE["bandwidth"], rel=0.01)


def test_a_source_has_one_vote_however_many_rows_it_has():
    """Half of the rows, of one source, took 5 % longer: three sources outvote it."""
    kept = all_but("x")
    many = np.concatenate([np.repeat("a", 20), SOURCES[20:]])
    by_row = [np.where(names == "a", 1.05, 1.0) * SECONDS for names in (many, SOURCES)]

    def off(sources, seconds):
        def misses(values):
            times = WORK / values["rate"][..., None] + BYTES / values["bandwidth"][..., None]
            return np.log(times / seconds)

        begun = {name: np.array([value]) for name, value in TRUE.items()}
        settings = Settings(nudge=1.01, floor=1.0)  # least squares, which votes move
        found = fit_constants(begun, misses, kept, sources, rounds=1, settings=settings)
        return abs(np.log(found["rate"][0] / TRUE["rate"]))

    equal = np.array([str(row) for row in range(40)])
    assert off(many, by_row[0]) < 0.8 * off(equal, by_row[0])


def test_bounds_and_ties_hold():
    assert fitted(all_but("a"), most={"bandwidth": 0.2})["bandwidth"] == [0.2]
    assert fitted(all_but("a"), least=0.5)["bandwidth"] == [0.5]
    start = {name: np.array([2 * value]) for name, value in TRUE.items()}
    free, tied = (fitted(all_but("a"), start=start, floor=1.0, tie=tie)["rate"][0] for tie in (0.0, 30.0))
    assert free == pytest.approx(TRUE["rate"], rel=1e-3)
    assert tied > 1.5 * TRUE["rate"]
    assert start["rate"] == 2 * TRUE["rate"]  # what it began with is not changed
