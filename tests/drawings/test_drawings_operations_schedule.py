"""Drawings of schedules: every GPU-second of a job is drawn once, where it lay, and every text has its room."""

import numpy as np
import pytest
from drawings.operations import sharing as schedule

from clusterlab.operations import Cluster, Jobs, draw_jobs, simulate_cluster
from clusterlab.units import hour
from explorable import Box, Label

MIX = {1: (0.3, 2 * hour), 2: (0.2, 3 * hour), 8: (0.35, 3 * hour), 16: (0.1, 4 * hour), 64: (0.05, 5 * hour)}
JOBS = draw_jobs(MIX, gpus=128, load=0.9, jobs=150, seed=4)
URGENT = Jobs(JOBS.arrival, JOBS.gpus, JOBS.duration, priority=1 * (JOBS.gpus > 16))
RUNS = {policy: simulate_cluster(JOBS, Cluster(16), policy=policy) for policy in schedule.POLICIES}
RUNS["spread"] = simulate_cluster(JOBS, Cluster(16), placement="spread")
RUNS["anywhere"] = simulate_cluster(JOBS, Cluster(16), placement="anywhere")
RUNS["evicted"] = simulate_cluster(URGENT, Cluster(16), preemption=(hour, hour))
SCENES = {name: schedule.timeline(run) for name, run in RUNS.items()}
FILL = {"forward", "compute", "backward", "lost"}


def boxes(scene, kinds):
    """Boxes of the time line itself: those of the legend are below."""
    return [p for p in scene.parts if isinstance(p, Box) and p.kind in kinds and p.y < 275]


@pytest.mark.parametrize("name", RUNS)
def test_jobs_cover_the_area_that_they_used(name):
    """Over the rows of all GPUs, the boxes are as long as these were held."""
    run = RUNS[name]
    gpu = (256 - 15 * 1.6) / 128
    rows = 18 + (np.arange(128) + 0.5) * gpu + np.arange(128) // 8 * 1.6
    drawn = sum(
        (box.width + 1.6) / 366 * np.sum((rows > box.y) & (rows < box.y + box.height))
        for box in boxes(SCENES[name], FILL)
    )
    parts = run.use(0, 24 * hour)
    assert drawn / 128 == pytest.approx((parts.useful + parts.restart) / (128 * 24 * hour), rel=0.01)
    assert bool(boxes(SCENES[name], {"lost"})) == (parts.restart > 0)


@pytest.mark.parametrize("name", RUNS)
def test_no_two_jobs_overlap(name):
    fill = boxes(SCENES[name], FILL)
    left, top = np.array([[b.x, b.y] for b in fill]).T
    right, bottom = np.array([[b.x + b.width, b.y + b.height] for b in fill]).T
    across = np.minimum(right[:, None], right) - np.maximum(left[:, None], left)
    down = np.minimum(bottom[:, None], bottom) - np.maximum(top[:, None], top)
    shared = (across > 0.31) & (down > 0.31)
    assert shared.sum() == len(fill)  # each with itself


def test_rows_are_the_nodes_on_which_jobs_lie():
    run = RUNS["evicted"]
    for stay, rows in zip(run.attempts, schedule._lanes(run), strict=True):
        nodes, counts = np.unique(np.array(rows) // 8, return_counts=True)
        assert tuple(zip(nodes.tolist(), counts.tolist(), strict=True)) == tuple(sorted(stay.places))


def test_what_is_free_is_drawn_by_its_cause():
    """Half a node is free in each of two while eight GPUs are wanted; then sixteen are, and eight are free."""
    jobs = Jobs([0, 0, 0], [4, 5, 7], [2 * hour, hour, hour])
    wrong = boxes(schedule.timeline(simulate_cluster(jobs, Cluster(2, rack=2)), length=4 * hour), {"waste"})
    assert [box.solid for box in wrong] == [True]
    assert wrong[0].width == pytest.approx(366 / 4, abs=1)
    jobs = Jobs([0, 0], [8, 16], [hour, hour])
    kept = boxes(schedule.timeline(simulate_cluster(jobs, Cluster(2, rack=2)), length=4 * hour), {"waste"})
    assert [box.solid for box in kept] == [False]
    calm = schedule.timeline(simulate_cluster(Jobs([0], [8], [hour]), Cluster(2, rack=2)), length=2 * hour)
    assert not boxes(calm, {"waste"})
    assert "25% at work" in calm.alt
    assert "0% free while a job waits" in calm.alt


def test_only_the_window_is_drawn():
    scene = schedule.timeline(RUNS["fcfs"], start=2 * hour, length=3 * hour)
    assert all(box.x >= 30 and box.x + box.width <= 396.3 for box in boxes(scene, FILL))
    texts = [part.text for part in scene.parts if isinstance(part, Label)]
    assert {"0 h", "1 h", "2 h", "3 h"} <= set(texts)
    assert scene.alt.startswith(f"{sum(s.begin < 5 * hour and s.finish > 2 * hour for s in RUNS['fcfs'].attempts)} ")


def test_a_mix_is_whole():
    for mix in schedule.MIXES.values():
        assert sum(share for share, _ in mix.values()) == pytest.approx(1)
