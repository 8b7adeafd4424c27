"""Days: what a day of requests takes, how early a replica must start, and what stands ready."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterlab.serving import Day, Kept, cold_start, scale_over
from clusterlab.units import day, hour

KEPT = Kept(100, 0, 800.0, 600.0, 1200.0, 1000.0, 10.1, "places")  # a hundred of eight GPUs, at a thousand a second
USERS = Day(1000, 200)


def test_a_day_is_a_wave_between_its_ends():
    times = np.linspace(0, day, 10_001)
    rates = USERS.rate(times)
    assert (rates.min(), rates.max()) == pytest.approx((200, 1000))
    assert rates.mean() == pytest.approx(USERS.mean, rel=1e-3)
    assert np.max(np.gradient(rates, times)) == pytest.approx(USERS.steepest, rel=1e-4)
    assert times[np.argmax(rates)] == pytest.approx(15 * hour, abs=20)


@given(st.integers(1, 6), st.floats(0, 12))
def test_regions_together_are_the_sum_of_their_days(regions, hours):
    times = np.linspace(0, day, 97)
    each = [replace(USERS, peak_at=USERS.peak_at + k * hours * hour).rate(times) for k in range(regions)]
    together, summed = USERS.of_regions(regions, hours * hour), np.mean(each, axis=0)
    # Of waves that cancel, or whose mean points backwards, the height is right and the hour need not be.
    assert np.ptp(summed) == pytest.approx(2 * together.swing, rel=2e-3, abs=1e-6)
    assert summed.mean() == pytest.approx(together.rate(times).mean(), rel=0.01)


def test_a_flow_takes_as_long_as_its_narrowest_part():
    alone = cold_start(1e12, into=50e9, store=400e9)
    assert alone == pytest.approx(20)
    assert cold_start(1e12, into=50e9, store=400e9, new=8) == pytest.approx(alone)
    assert cold_start(1e12, into=50e9, store=400e9, new=16, start=30) == pytest.approx(2 * alone + 30)


def test_replicas_follow_the_day_ahead_of_it():
    found = scale_over(KEPT, USERS, cold=600, spares=2)
    assert (found.needed.max(), found.needed.min(), found.built) == (100, 20, 102)
    # What has been started is there when the rate has come: the rate in ten minutes never takes more.
    times = found.time
    assert np.all(found.needed + found.ahead >= 0.1 * USERS.rate(times + 600) - 1e-9)
    assert found.ahead == np.ceil(0.1 * 600 * USERS.steepest)
    assert np.all(found.running <= found.built)
    assert found.busy + found.lent == pytest.approx(1 - np.mean(found.running - found.needed) / found.built)
    assert found.gpus == 816
    assert found.low == pytest.approx(612, abs=8)
    assert found.high == pytest.approx(1224, abs=8)


def test_the_longer_a_start_the_less_is_lent():
    shares = [scale_over(KEPT, USERS, cold=seconds).lent for seconds in (0, 60, 600, 3600)]
    assert shares == sorted(shares, reverse=True)
    assert shares[0] == pytest.approx(1 - 61.5 / 101, abs=0.01)  # the mean of the day over what is built


@pytest.mark.parametrize("regions", [2, 3, 5])
def test_any_region_may_be_lost(regions):
    found = scale_over(KEPT, USERS, cold=60, spares=1, regions=regions)
    assert (regions - 1) * (found.built / regions - 1) >= 100
    assert (regions - 1) * (found.built / regions - 2) < 100  # and no more than that


def test_days_that_are_apart_take_fewer():
    alike, apart = (scale_over(KEPT, USERS, cold=60, regions=3, apart=h * hour) for h in (0, 8))
    assert apart.needed.max() == apart.needed.min() == 60
    assert apart.ahead == 0 < alike.ahead  # nothing grows
    assert apart.built < alike.built
    assert apart.lent < alike.lent  # whoever has no night has nothing to lend


def test_a_rollout_at_the_peak_is_built_for():
    found = scale_over(KEPT, USERS, cold=60, spares=0, rollout=0.05)
    assert found.built * 0.95 >= 100 > (found.built - 1) * 0.95


def test_days_that_are_none_are_refused():
    with pytest.raises(ValueError, match="trough must be at most peak, got 2 and 1"):
        Day(1, 2)
    with pytest.raises(ValueError, match="rollout must be below 1"):
        scale_over(KEPT, USERS, cold=60, rollout=1)
    with pytest.raises(ValueError, match="regions"):
        scale_over(KEPT, USERS, cold=60, regions=0)
    with pytest.raises(ValueError, match="cold"):
        scale_over(KEPT, USERS, cold=-1)


def test_it_prints_what_is_lent():
    assert "lent to batch work" in repr(scale_over(KEPT, USERS, cold=60))
    assert "15 h" in repr(USERS)
