"""Scheduling: the same schedules in simpy, conservation, textbook queues as limits, and clusters that were measured."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterlab import scheduling
from clusterlab.collectives import multi_node_ring
from clusterlab.evidence.tables import published
from clusterlab.queueing import batch_queue
from clusterlab.scheduling import (
    Cluster,
    Jobs,
    Use,
    draw_jobs,
    drain,
    expected_wait,
    internal_fragmentation,
    makespan_bound,
    packing_bound,
    simulate,
)
from clusterlab.units import hour, year
from refusals import unreached
from scheduling_witness import EventDriven

POLICIES = ("fcfs", "backfill", "greedy")
PLACEMENTS = ("pack", "spread", "anywhere")
SMALL = Cluster(4, node_size=4, rack=2)


def draw(data, most=12, **more):
    """A few jobs with whole seconds, so that two programs can agree to the last bit."""
    count = data.draw(st.integers(1, most))

    def column(low, high):
        return data.draw(st.lists(st.integers(low, high), min_size=count, max_size=count))

    duration = np.array(column(1, 20))
    jobs = {"arrival": sorted(column(0, 30)), "gpus": column(1, 16), "duration": duration}
    if more.get("late"):
        jobs["limit"] = duration + column(0, 10)
    if more.get("ranks"):
        jobs["priority"] = column(0, 2)
    if more.get("elastic"):
        jobs["least"] = np.maximum(np.array(jobs["gpus"]) // data.draw(st.sampled_from([1, 2, 4])), 1)
    return Jobs(**jobs)


def by_witness(jobs, cluster, **how):
    names = ("arrival", "gpus", "duration", "priority", "least", "limit")
    rows = [dict(zip(names, row, strict=True)) for row in zip(*(getattr(jobs, n).tolist() for n in names), strict=True)]
    run = EventDriven(rows, cluster.racks, cluster.rack, cluster.node_size, **how)
    return sorted(run.stays, key=lambda stay: (stay[1], stay[0]))


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("placement", PLACEMENTS)
@given(st.data(), st.booleans(), st.booleans())
def test_simpy_finds_the_same_schedule(policy, placement, data, late, elastic):
    jobs = draw(data, late=late, elastic=elastic, ranks=True)
    ours = simulate(jobs, SMALL, policy=policy, placement=placement)
    assert [tuple(a) for a in ours.attempts] == by_witness(jobs, SMALL, policy=policy, placement=placement)


@pytest.mark.parametrize("policy", POLICIES)
@given(st.data(), st.sampled_from([0, 3, 8]), st.sampled_from([0, 2]))
def test_simpy_evicts_the_same_jobs(policy, data, protected, restart):
    jobs = draw(data, ranks=True, late=True)
    how = {"policy": policy, "placement": data.draw(st.sampled_from(PLACEMENTS)), "preemption": (restart, protected)}
    assert [tuple(a) for a in simulate(jobs, SMALL, **how).attempts] == by_witness(jobs, SMALL, **how)
