"""Schedules: drawings of a cluster's day, job by job.

Each takes records of :mod:`clusterlab.operations`. Jobs are blue, the darker the larger; GPUs that stand free while a
job waits are plum.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from clusterlab.operations import Schedule
from clusterlab.units import day, fmt, hour
from explorable.scene import LETTER, Box, Label, Part, Scene, legend

_LEFT, _RIGHT, _TOP, _HIGH = 30.0, 396.0, 18.0, 256.0
_GAP = 1.6  # units between nodes


def _kind(gpus: int, node_size: int) -> str:
    """Colour of a job by its size: part of a node, one node, more."""
    return "forward" if gpus < node_size else "compute" if gpus == node_size else "backward"


def _lanes(schedule: Schedule) -> list[list[int]]:
    """GPUs of each attempt, as rows from the top: in each node the first that are free."""
    size = schedule.cluster.node_size
    free = [list(range(size)) for _ in range(schedule.cluster.nodes)]
    ends: list[tuple[float, int]] = []
    rows: list[list[int]] = []
    for number, stay in enumerate(schedule.attempts):
        for _, other in sorted(end for end in ends if end[0] <= stay.begin):
            for row in rows[other]:
                free[row // size].append(row % size)
        ends = [end for end in ends if end[0] > stay.begin]
        taken = []
        for node, count in stay.places:
            free[node].sort()
            taken += [node * size + lane for lane in free[node][:count]]
            del free[node][:count]
        rows.append(taken)
        ends.append((stay.finish, number))
    return rows


def _runs(rows: list[int]) -> list[tuple[int, int]]:
    """Rows that lie side by side, as the first and the last of each run."""
    numbers = np.array(rows)
    cuts = np.flatnonzero(np.diff(numbers) > 1)
    firsts, lasts = (
        numbers[np.append(0, cuts + 1)],
        numbers[np.append(cuts, len(numbers) - 1)],
    )
    return [(int(a), int(b)) for a, b in zip(firsts, lasts, strict=True)]


def timeline(schedule: Schedule, *, start: float = 0.0, length: float = day) -> Scene:
    """GPUs of a cluster over time: each job a box as high as its GPUs and as long as it runs, and what stands free.

    Parameters
    ----------
    schedule : Schedule
        Of a cluster of up to some 256 GPUs, or the boxes get thin.
    start, length : float
        The time that is drawn, seconds.

    Returns
    -------
    Scene

    Examples
    --------
    >>> from clusterlab.operations import Cluster, Jobs, simulate
    >>> jobs = Jobs(arrival=[0, 1, 2], gpus=[24, 32, 8], duration=[3600, 3600, 600])
    >>> timeline(simulate(jobs, Cluster(4), policy="fcfs"), length=7500).alt
    '3 jobs on 32 GPUs over 125 min: 85% at work; 12% free while a job waits for more than that, 0% in wrong places.'
    """
    cluster = schedule.cluster
    stop = start + length
    gpu = (_HIGH - _GAP * (cluster.nodes - 1)) / cluster.gpus

    def x(time: float) -> float:
        return _LEFT + (_RIGHT - _LEFT) * (min(max(time, start), stop) - start) / length

    def y(row: int) -> float:
        return _TOP + row * gpu + row // cluster.node_size * _GAP

    parts: list[Part] = []

    def box(
        a: float,
        b: float,
        first: int,
        last: int,
        kind: str,
        text: str = "",
        solid: bool = True,
    ) -> None:
        wide, high = x(b) - x(a), y(last) + gpu - y(first)
        if wide > 0.3:
            fits = high > 15 and LETTER * len(text) < wide - 3
            parts.append(
                Box(
                    x(a),
                    y(first),
                    max(wide - 0.5, 0.3),
                    max(high - 0.3, 0.3),
                    text if fits else "",
                    kind,
                    bool(solid),
                )
            )

    # What is free, behind all jobs: from change to change it is all of one cause.
    causes = np.where(schedule.wanted == 0, 0, np.where(schedule.next <= schedule.free, 2, 1)) * (schedule.free > 0)
    changes = np.append(0, np.flatnonzero(np.diff(causes)) + 1)
    for first, last in zip(changes, np.append(changes[1:], len(causes)), strict=True):
        until = schedule.times[last] if last < len(causes) else np.inf
        if causes[first]:
            box(
                schedule.times[first],
                until,
                0,
                cluster.gpus - 1,
                "waste",
                solid=causes[first] == 2,
            )
    shown = 0
    for stay, rows in zip(schedule.attempts, _lanes(schedule), strict=True):
        if stay.begin >= stop or stay.finish <= start:
            continue
        shown += 1
        runs = _runs(rows)
        tallest = max(runs, key=lambda run: run[1] - run[0])
        for run in runs:
            size = fmt(stay.gpus) if run == tallest else ""
            box(
                stay.begin + stay.restart,
                stay.finish,
                *run,
                _kind(stay.gpus, cluster.node_size),
                size,
            )
            if stay.restart:
                box(stay.begin, stay.begin + stay.restart, *run, "lost")
    for rack in range(cluster.racks):
        middle = (rack + 0.5) * cluster.rack * cluster.node_size
        parts.append(
            Label(
                _LEFT - 6,
                _TOP + middle * (_HIGH + _GAP) / cluster.gpus,
                fmt(rack),
                anchor="end",
            )
        )
    parts.append(Label(0, 8, "rack", anchor="start"))
    step = next(s for s in (1, 2, 4, 6, 12, 24, 48, 96, 1e9) if length / hour / s <= 7)
    for tick in np.arange(0, length / hour + 1e-9, step):
        at = x(start + tick * hour)
        parts.append(
            Label(
                at,
                _TOP + _HIGH + 13,
                f"{tick:g} h",
                anchor="end" if at > _RIGHT - 20 else "middle",
            )
        )
    node = cluster.node_size
    sizes = [
        (f"under {node} GPUs", "forward", True),
        (f"{node} GPUs", "compute", True),
        ("more", "backward", True),
    ]
    sizes += [("restart", "lost", True)] * any(stay.restart for stay in schedule.attempts)
    parts += legend(_LEFT, _TOP + _HIGH + 38, sizes)
    free = [
        ("free, job waits for more", "waste", False),
        ("free, in wrong places", "waste", True),
    ]
    parts += legend(_LEFT, _TOP + _HIGH + 60, free, gap=4)
    shares = schedule.use(start, stop).shares
    useful, gathering, fragmented = (fmt(shares[name], "%", 2) for name in ("useful", "gathering", "fragmented"))
    alt = (
        f"{shown} jobs on {cluster.gpus:,} GPUs over {fmt(length, 's')}: {useful} at work; {gathering} free while a job"
    )
    alt += f" waits for more than that, {fragmented} in wrong places."
    return Scene(400, _TOP + _HIGH + 70, parts, alt=alt)


# Two mixes of sizes: GPUs to the share of jobs and the mean duration. Most jobs are small, and most GPU time is large.
MIXES: Mapping[str, Mapping[int, tuple[float, float]]] = {
    "small jobs": {1: (0.7, 1 * hour), 8: (0.25, 2 * hour), 32: (0.05, 3 * hour)},
    "large jobs": {
        1: (0.62, 1 * hour),
        8: (0.3, 3 * hour),
        64: (0.06, 6 * hour),
        128: (0.02, 6 * hour),
    },
}
POLICIES = {
    "fcfs": "first come, first served",
    "backfill": "backfill",
    "greedy": "whatever fits",
}
