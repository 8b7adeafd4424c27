"""A loop as it is planned: days and dollars with their interval, no slower than what others run."""

import pytest

from clusterlab.evidence import predict_post_training, published_post_training
from clusterlab.planning import InfeasibleError, PostTraining, loops_by_size, plan_loop
from clusterlab.post_training import SCHEDULES, Lengths
from clusterlab.units import hour

ASKED = PostTraining("Qwen3 32B", 64, 16, Lengths(4000, limit=16384), iterations=1000)


@pytest.fixture(scope="module")
def plans():
    return {schedule: plan_loop(ASKED, "H100 SXM", gpus=64, rent=2 / hour, schedule=schedule) for schedule in SCHEDULES}


def test_the_quickest_schedule_is_the_one_that_never_waits(plans):
    times = [plan.time for plan in plans.values()]
    assert times == sorted(times, reverse=True)
    assert all(plan.gpus == 64 for plan in plans.values())
    for plan in plans.values():
        assert plan.cost == pytest.approx(plan.time * 64 * 2 / hour)
        assert plan.low < plan.time == 1000 * plan.iteration.time < plan.high


def test_a_planned_loop_is_no_slower_than_a_published_one():
    run = next(one for one in published_post_training() if one.row == "R0009")
    (theirs,) = predict_post_training([run])
    asked = PostTraining("Qwen3 32B", 64, 32, run.loop.lengths, iterations=1, prompt=110)
    ours = plan_loop(asked, "H100 SXM", gpus=32, schedule="synchronous")
    assert ours.time < theirs.time


@pytest.mark.slow
def test_more_gpus_are_never_slower_and_the_cheapest_is_neither_the_fewest_nor_the_most():
    """Floors of passes don't shrink with GPUs, and one server's GPUs must take turns: the bill has a bottom."""
    found = loops_by_size(ASKED, "H100 SXM", rent=2 / hour, most=256)
    times, costs = [one.time for one in found], [one.cost for one in found]
    assert [one.gpus for one in found] == [16, 32, 64, 128, 256]  # 32 billion don't fit on one server
    assert times == sorted(times, reverse=True)
    assert 0 < costs.index(min(costs)) < len(costs) - 1
    assert [one.staleness for one in found[:2]] == [0, 2]
    full = found[2].iteration.rollout  # its places are all taken before two batches are on their way
    assert full.held == full.places
    assert found[2].staleness == found[2].loop.replicas * full.places / 1024 == pytest.approx(1.5, abs=0.05)


def test_a_plan_of_replicas_of_one_size_has_no_others_and_is_no_quicker(plans):
    for schedule in ("synchronous", "asynchronous"):
        found = plan_loop(ASKED, "H100 SXM", gpus=64, schedule=schedule, ranks=4)
        assert found.loop.replica.gpus == 4
        assert found.time >= plans[schedule].time
    with pytest.raises(InfeasibleError, match="neither fits"):
        plan_loop(ASKED, "H100 SXM", gpus=64, ranks=3)


def test_what_cannot_be_is_said():
    with pytest.raises(InfeasibleError, match="DeepSeek-V3 neither fits"):
        plan_loop(PostTraining("DeepSeek-V3", 8, 8, Lengths(500, limit=2000), iterations=1), "H100 SXM", gpus=8)
    with pytest.raises(ValueError, match="lengths must have a limit"):
        PostTraining("Qwen3 32B", 8, 8, Lengths(500), iterations=1)
    with pytest.raises(ValueError, match="schedule must be one of"):
        plan_loop(ASKED, "H100 SXM", gpus=64, schedule="never")
