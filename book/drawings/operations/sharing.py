"""Drawings of operations: a file system, flows that share it, ranks that wait, a search, and a cluster's day.

What computes is blue, what is stored is green, what moves is orange, and what waits is plum. Widths are to scale within
a drawing. In a schedule jobs are blue, the darker the larger, and GPUs that stand free while a job waits are plum.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from clusterlab.operations import Attempt, FileSystem, Schedule
from clusterlab.scaling import Chain
from clusterlab.units import day, fmt, hour
from explorable import Arrow, Band, Box, Label, Part, Scene, breadth, legend

_NAMES = {"drives": "drives", "network": "servers' ports", "clients": "clients' ports"}


def losses(chain: Chain, names: Mapping[str, str], unit: str = "GPUs") -> Scene:
    """What is left of a cluster from cause to cause: a bar for each, and beside it what the cause takes.

    Parameters
    ----------
    chain : Chain
        How many there are, and the share that each cause leaves.
    names : mapping
        Cause to what those that it takes do.
    unit : str
        What is counted.

    Examples
    --------
    >>> from clusterlab.scaling import chain
    >>> losses(chain(2048, allocated=0.9, fed=0.95), {"allocated": "idle", "fed": "starve"}).alt
    'Of 2,048 GPUs, 1,751 do useful work: 205 idle, 92 starve.'
    """
    left, right, row, high = 2.0, 262.0, 34.0, 24.0
    per = (right - left) / float(chain.start)
    now = float(chain.start)
    drawn: list[Part] = [Box(left, 0, now * per, high, f"{now:,.0f}", "grey")]
    drawn.append(Label(right + 6, 12, f"all {unit}", "start", strong=True))
    said = []
    for i, (name, factor) in enumerate(chain.factors.items(), start=1):
        y, end, lost, before = i * row, left + now * per, now * (1 - float(factor)), round(now)
        now -= lost
        taken = f"{before - round(now):,}"  # of the numbers in the bars, so that a reader can subtract them
        drawn.append(Box(left, y, now * per, high, f"{now:,.0f}", "compute", solid=i == len(chain.factors)))
        if lost * per > 0.4:
            drawn.append(Box(left + now * per, y, lost * per, high, kind="waste", solid=True))
        said.append(f"{taken} {names[name]}")
        drawn.append(Label(end + 6, y + 12, said[-1], "start"))  # beside what it names
    end = row * (len(chain.factors) + 1)
    drawn.append(Label(left, end + 2, "do useful work", "start", strong=True))
    alt = f"Of {float(chain.start):,.0f} {unit}, {now:,.0f} do useful work: {', '.join(said)}."
    return Scene(400, end + 12, drawn, alt=alt)


def pipe(system: FileSystem, *, writes: bool = False) -> Scene:
    """The way through a file system as a pipe: each part as wide as its bandwidth, and what gets through all of them.

    Parameters
    ----------
    system : FileSystem
        Of numbers, not arrays.
    writes : bool
        Draw what it writes instead of what it reads.

    Examples
    --------
    >>> from clusterlab.operations import file_system
    >>> drive = {"drive_read": 7e9, "drive_write": 4e9, "drive_capacity": 15e12}
    >>> pipe(file_system(180, drives=16, network=50e9, clients=12.5e12, **drive)).alt
    "It reads 9 TB/s: drives 20.2 TB/s, servers' ports 9 TB/s, clients' ports 12.5 TB/s. Narrowest: servers' ports."
    """
    parts = {name: float(rate) for name, rate in (system.writes if writes else system.reads).items()}
    through = float(system.write if writes else system.read)
    narrow = min(parts, key=lambda name: parts[name])
    top, high, right = 40.0, 104.0, 312.0
    scale, middle = high / max(parts.values()), top + high / 2
    step = right / len(parts)
    drawn: list[Part] = []
    for i, (name, rate) in enumerate(parts.items()):
        width = rate * scale
        kind = "memory" if name == "drives" else "wire"
        drawn.append(Box(i * step + 1, middle - width / 2, step - 2, width, kind=kind, solid=name == narrow))
        drawn.append(Label((i + 0.5) * step, 14, f"{_NAMES[name]}\n{fmt(rate, 'B/s')}", strong=name == narrow))
    width = through * scale
    drawn.append(Arrow(right + 4, middle, right + 28, middle, kind="compute"))
    drawn.append(Label(400, middle - 8, fmt(through, "B/s"), "end", strong=True))
    drawn.append(Label(400, middle + 8, "written" if writes else "read", "end"))
    said = ", ".join(f"{_NAMES[name]} {fmt(rate, 'B/s')}" for name, rate in parts.items())
    does = "writes" if writes else "reads"
    alt = f"It {does} {fmt(through, 'B/s')}: {said}. Narrowest: {_NAMES[narrow]}."
    return Scene(400, top + high + 4, drawn, alt=alt)


def burst(wants: Mapping[str, float], gets: Mapping[str, float], capacity: float, kinds: Mapping[str, str]) -> Scene:
    """Flows that share a file system: as wide as what each wants on the left, as what it gets on the right.

    Who wants more than 1.2 times the whole file system is drawn as if it wanted that, with a break in its band.

    Parameters
    ----------
    wants, gets : mapping
        Flow to bytes/s.
    capacity : float
        Bytes/s of the file system.
    kinds : mapping
        Flow to its colour.

    Examples
    --------
    >>> flows = {"data": "compute", "checkpoint": "memory"}
    >>> burst({"data": 60e9, "checkpoint": 400e9}, {"data": 60e9, "checkpoint": 140e9}, 200e9, flows).alt
    'They share 200 GB/s: data wants 60 GB/s and gets 60 GB/s, checkpoint wants 400 GB/s and gets 140 GB/s.'
    """
    top, inside, left, right, gap, least = 6.0, 96.0, 128.0, 284.0, 22.0, 36.0
    scale, most = (inside / capacity, 1.2 * inside)  # a wider wish is cut off: its number says how wide it is
    rooms = [max(min(wanted * scale, most), least) for wanted in wants.values()]
    height = top + len(wants) * most + gap * (len(wants) - 1)
    at = top + (height - top - sum(rooms) - gap * (len(rooms) - 1)) / 2
    into = top + (height - top - inside) / 2
    drawn: list[Part] = [Box(right, into, 12, inside, kind="wire", solid=True)]
    drawn.append(Label(right, into - 38, f"file system\n{fmt(capacity, 'B/s')}", "start", strong=True))
    said_at = into - least
    for (name, wanted), room in zip(wants.items(), rooms, strict=True):
        given = gets[name]
        width = max(given * scale, 0.5)
        if wanted > given:  # what is not granted, behind what is
            drawn.append(Band(left, at, right, into, max(min(wanted * scale, most), 0.5), width, "idle"))
        drawn.append(Band(left, at, right, into, width, width, kinds[name]))
        if wanted * scale > most:  # a break: the band is too wide to be drawn
            drawn += [Arrow(x, at + room + 4, x + 8, at - 4, kind="ink", heads=0) for x in (left + 6, left + 12)]
        drawn.append(Label(left - 8, at + room / 2, f"{name} wants\n{fmt(wanted, 'B/s')}", "end"))
        said_at = max(into + width / 2, said_at + least)
        drawn.append(Label(right + 18, said_at, f"gets\n{fmt(given, 'B/s')}", "start", strong=True))
        at += room + gap
        into += width
    said = ", ".join(f"{n} wants {fmt(w, 'B/s')} and gets {fmt(gets[n], 'B/s')}" for n, w in wants.items())
    return Scene(400, height, drawn, alt=f"They share {fmt(capacity, 'B/s')}: {said}.")


def ranks(times: Sequence[float]) -> Scene:
    """One step of many ranks, a line for each: what it computes, and what it waits for the slowest.

    Parameters
    ----------
    times : sequence of float
        Time that each rank computes.

    Examples
    --------
    >>> ranks([0.98, 1.0, 1.02, 1.2]).alt
    '4 ranks: the slowest takes 1.14 times the mean, so all together wait 12.5% of their time.'
    """
    slow, mean = max(times), sum(times) / len(times)
    worst = list(times).index(slow)
    left, right, top = 4.0, 396.0, 22.0
    pitch = min(12.0, 160.0 / len(times))
    per = (right - left) / slow
    drawn: list[Part] = [
        Label(left, 10, f"{len(times):,} ranks, one step", "start", strong=True),
        Label(right, 10, f"slowest {fmt(float(slow / mean))} of the mean", "end", strong=True),
    ]
    for rank, time in enumerate(times):
        y, end = top + pitch * rank, left + per * time
        drawn.append(Box(left, y, end - left, pitch * 0.8, kind="compute", solid=rank == worst))
        if right - end > 0.5:
            drawn.append(Box(end, y, right - end, pitch * 0.8, kind="idle", solid=True))
    bottom = top + pitch * len(times)
    waits = 1 - mean / slow
    drawn.append(Label(left, bottom + 14, "computes", "start"))
    drawn.append(Label(right, bottom + 14, f"waits, {fmt(waits, '%', 2)} of all time", "end"))
    said = f"the slowest takes {slow / mean:.3g} times the mean, so all together wait {fmt(waits, '%')} of their time"
    return Scene(400, bottom + 24, drawn, alt=f"{len(times):,} ranks: {said}.")


def profile(times: Sequence[float], exchange: float) -> Scene:
    """What a profiler shows of ranks in an all-reduce: each is in it from its own arrival until all have come.

    Parameters
    ----------
    times : sequence of float
        Seconds that each rank computes.
    exchange : float
        Seconds of the all-reduce once all are there.

    Examples
    --------
    >>> profile([4.0, 4.0, 5.0, 4.0], 0.5).alt
    'Rank 2 computes 5 s and is in the all-reduce for 500 ms, the others for 1.5 s: the slow rank shows the shortest.'
    """
    slow, usual = max(times), min(times)
    worst = list(times).index(slow)
    left, right, pitch = 54.0, 398.0, 32.0
    per = (right - left) / (slow + exchange)
    drawn: list[Part] = []
    for rank, time in enumerate(times):
        y, end = pitch * rank + 2, left + per * time
        inside = slow + exchange - time
        drawn.append(Label(0, y + 12, f"rank {rank}", "start", strong=rank == worst))
        drawn.append(Box(left, y, end - left, 24, f"computes {fmt(time, 's', 2)}", "compute", solid=rank == worst))
        drawn.append(Box(end, y, right - end, 24, fmt(inside, "s", 2), "wire", solid=rank == worst))
    bottom = pitch * len(times)
    drawn.append(Label(right, bottom + 10, "time in the all-reduce, as profiled", "end"))
    others = fmt(slow + exchange - usual, "s")
    said = f"computes {fmt(slow, 's')} and is in the all-reduce for {fmt(exchange, 's')}"
    alt = f"Rank {worst} {said}, the others for {others}: the slow rank shows the shortest."
    return Scene(400, bottom + 20, drawn, alt=alt)


def search(n: int, tests: Sequence[Sequence[int]], bad: Sequence[int], step: int | None = None) -> Scene:
    """Groups of machines that were tested for a bad one, a row for each test.

    Parameters
    ----------
    n : int
        Machines.
    tests : sequence of groups
        The machines of each test, as :func:`clusterlab.operations.find_bad` returns them.
    bad : sequence of int
        The bad ones.
    step : int, optional
        Tests that are shown; all by default.

    Examples
    --------
    >>> from clusterlab.operations import find_bad
    >>> bad, tests = find_bad(4, lambda group: 2 in group)
    >>> search(4, tests, bad).alt
    'Test 1: 4 machines, slow. Test 2: 2 machines, fine. Test 3: 1 machine, slow. Test 4: 3 machines, fine.'
    """
    shown = len(tests) if step is None else step
    left, right, pitch, top = 52.0, 352.0, 30.0, 22.0
    width = (right - left) / n
    drawn: list[Part] = [Label(left, 8, f"{n} servers", "start", strong=True)]
    said = []
    for row, group in enumerate(tests):
        y = top + pitch * row
        drawn.append(Label(0, y + 11, f"test {row + 1}", "start"))
        slow = any(machine in bad for machine in group)
        for machine in range(n):
            inside = machine in group and row < shown
            kind = ("waste" if slow else "compute") if inside else "grey"
            drawn.append(Box(left + machine * width + 1, y, width - 2, 22, kind=kind, solid=inside))
        if row < shown:
            drawn.append(Label(400, y + 11, "slow" if slow else "fine", "end", strong=slow))
            count = f"{len(group)} machine{'s' * (len(group) > 1)}"
            said.append(f"Test {row + 1}: {count}, {'slow' if slow else 'fine'}.")
    return Scene(400, top + pitch * len(tests), drawn, alt=" ".join(said) or f"{n} machines, none tested yet.")


# --- A cluster's day, job by job --------------------------------------------------------------------------------------

_LEFT, _RIGHT, _TOP, _HIGH = 30.0, 396.0, 18.0, 256.0
_GAP = 1.6  # units between nodes


def _kind(gpus: int, node_size: int) -> str:
    """Colour of a job by its size: at most one node, or more."""
    return "forward" if gpus <= node_size else "backward"


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
    firsts, lasts = (numbers[np.append(0, cuts + 1)], numbers[np.append(cuts, len(numbers) - 1)])
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
    >>> from clusterlab.operations import Cluster, Jobs, simulate_cluster
    >>> jobs = Jobs(arrival=[0, 1, 2], gpus=[24, 32, 8], duration=[3600, 3600, 600])
    >>> timeline(simulate_cluster(jobs, Cluster(4), policy="fcfs"), length=7500).alt
    '3 jobs on 32 GPUs over 125 min: 85% at work; 12% free while a job waits for more than that, 0% in wrong places.'
    """
    frame = _Frame(schedule, start, length)
    stays = [
        (stay, rows)
        for stay, rows in zip(schedule.attempts, _lanes(schedule), strict=True)
        if stay.begin < frame.stop and stay.finish > start
    ]
    parts = _free_boxes(frame)  # behind all jobs
    for stay, rows in stays:
        parts += _job_boxes(frame, stay, rows)
    parts += [*_axes(frame), *_legend_below(schedule)]
    shares = schedule.use(start, frame.stop).shares
    useful, gathering, fragmented = (fmt(shares[name], "%", 2) for name in ("useful", "gathering", "fragmented"))
    alt = f"{len(stays)} jobs on {schedule.cluster.gpus:,} GPUs over {fmt(length, 's')}: {useful} at work; {gathering}"
    alt += f" free while a job waits for more than that, {fragmented} in wrong places."
    return Scene(400, _TOP + _HIGH + 70, parts, alt=alt)


@dataclass(frozen=True)
class _Frame:
    """Where a schedule's times and GPUs lie in the picture."""

    schedule: Schedule
    start: float
    length: float

    @property
    def stop(self) -> float:
        """The last time that is drawn."""
        return self.start + self.length

    @property
    def gpu(self) -> float:
        """Height of a GPU."""
        cluster = self.schedule.cluster
        return (_HIGH - _GAP * (cluster.nodes - 1)) / cluster.gpus

    def x(self, time: float) -> float:
        """Where a time lies; one outside lies at the edge."""
        inside = min(max(time, self.start), self.stop) - self.start
        return _LEFT + (_RIGHT - _LEFT) * inside / self.length

    def y(self, row: int) -> float:
        """Top of a GPU."""
        return _TOP + row * self.gpu + row // self.schedule.cluster.node_size * _GAP

    def box(
        self, times: tuple[float, float], rows: tuple[int, int], kind: str, text: str = "", solid: bool = True
    ) -> list[Part]:
        """From one time to another, over GPUs from a first to a last; nothing where it would be too thin to see."""
        (a, b), (first, last) = map(self.x, times), rows
        wide, high = b - a, self.y(last) + self.gpu - self.y(first)
        if wide <= 0.3:
            return []
        shown = text if high > 15 and breadth(text) < wide - 3 else ""
        # A box's edge is 1.2 wide: between two of one colour the ground is to be seen.
        apart = 0.5 if kind == "waste" else _GAP
        return [Box(a, self.y(first), max(wide - apart, 0.3), max(high - 0.3, 0.3), shown, kind, solid)]


def _free_boxes(frame: _Frame) -> list[Part]:
    """What is free while a job waits: from change to change it is all of one cause."""
    schedule = frame.schedule
    parts: list[Part] = []
    causes = np.where(schedule.wanted == 0, 0, np.where(schedule.next <= schedule.free, 2, 1)) * (schedule.free > 0)
    changes = np.append(0, np.flatnonzero(np.diff(causes)) + 1)
    for first, last in zip(changes, np.append(changes[1:], len(causes)), strict=True):
        until = schedule.times[last] if last < len(causes) else np.inf
        if causes[first]:
            rows, in_wrong_places = (0, schedule.cluster.gpus - 1), bool(causes[first] == 2)
            parts += frame.box((schedule.times[first], until), rows, "waste", solid=in_wrong_places)
    return parts


def _job_boxes(frame: _Frame, stay: Attempt, rows: list[int]) -> list[Part]:
    """An attempt, with its GPUs written on the tallest of its boxes, and the restart before it."""
    parts: list[Part] = []
    runs = _runs(rows)
    tallest = max(runs, key=lambda run: run[1] - run[0])
    node, begin = frame.schedule.cluster.node_size, stay.begin + stay.restart
    kind, solid = _kind(stay.gpus, node), stay.gpus >= node
    for run in runs:
        parts += frame.box((begin, stay.finish), run, kind, fmt(stay.gpus) if run == tallest else "", solid)
        if stay.restart:
            parts += frame.box((stay.begin, begin), run, "lost")
    return parts


def _axes(frame: _Frame) -> list[Part]:
    """Numbers of the racks at the side, and hours below."""
    cluster = frame.schedule.cluster
    parts: list[Part] = []
    for rack in range(cluster.racks):
        middle = (rack + 0.5) * cluster.rack * cluster.node_size
        parts.append(Label(_LEFT - 6, _TOP + middle * (_HIGH + _GAP) / cluster.gpus, fmt(rack), anchor="end"))
    parts.append(Label(0, 8, "rack", anchor="start"))
    hours = frame.length / hour
    step = next(s for s in (1, 2, 4, 6, 12, 24, 48, 96, 1e9) if hours / s <= 7)
    for tick in np.arange(0, hours + 1e-9, step):
        at = frame.x(frame.start + tick * hour)
        parts.append(Label(at, _TOP + _HIGH + 13, f"{tick:g} h", anchor="end" if at > _RIGHT - 20 else "middle"))
    return parts


def _legend_below(schedule: Schedule) -> list[Part]:
    """What the colours of jobs mean, and those of free GPUs."""
    node = schedule.cluster.node_size
    sizes = [(f"under {node} GPUs", "forward", False), (f"{node} GPUs", "forward", True), ("more", "backward", True)]
    sizes += [("restart", "lost", True)] * any(stay.restart for stay in schedule.attempts)
    free = [("free, job waits for more", "waste", False), ("free, in wrong places", "waste", True)]
    return [*legend(_LEFT, _TOP + _HIGH + 38, sizes), *legend(_LEFT, _TOP + _HIGH + 60, free, gap=4)]


# Two mixes of sizes: GPUs to the share of jobs and the mean duration. Most jobs are small, and most GPU time is large.
MIXES: Mapping[str, Mapping[int, tuple[float, float]]] = {
    "small jobs": {1: (0.7, 1 * hour), 8: (0.25, 2 * hour), 32: (0.05, 3 * hour)},
    "large jobs": {1: (0.62, 1 * hour), 8: (0.3, 3 * hour), 64: (0.06, 6 * hour), 128: (0.02, 6 * hour)},
}
POLICIES = {"fcfs": "first come, first served", "backfill": "backfill", "greedy": "whatever fits"}
