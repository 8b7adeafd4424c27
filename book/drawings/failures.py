"""Incidents: drawings of what failures do to a job, and of what checkpoints, spares and repair do about it.

Each takes records of :mod:`clusterlab.failures`, or plain numbers, and returns a scene. Work is blue, what a checkpoint
writes is green, what moves is orange, and what is lost is plum.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from clusterlab.failures import Checkpoint, Goodput, Job
from clusterlab.units import day, fmt
from explorable import Arrow, Band, Box, Label, Part, Scene

# What the parts of a goodput are called in a drawing, and their colours.
PARTS = {
    "useful": ("training", "compute"),
    "checkpoint": ("writing checkpoints", "memory"),
    "rework": ("work lost and done again", "lost"),
    "restart": ("restarting", "waste"),
    "detection": ("hanging, unnoticed", "bubble"),
    "repair": ("waiting for a spare", "idle"),
    "maintenance": ("planned maintenance", "grey"),
}


def ledger(shares: Goodput, calendar: float, title: str) -> Scene:
    """Where the days of a run go: training, and every loss by name, each as wide as its share.

    Parameters
    ----------
    shares : Goodput
        The shares of the calendar.
    calendar : float
        Length of the run, seconds.
    title : str
        What stands above it.

    Returns
    -------
    Scene

    Examples
    --------
    >>> from clusterlab.failures import Job, goodput
    >>> job = Job(interval=1100, write=60, mtbf=11_000, restart=300)
    >>> ledger(goodput(job), 54 * day, "54 days").alt.split(": ")[1]
    '47 d training, 87.5% (45.8 to 98.1); 6.8 d lost'
    """
    parts = {name: float(share) for name, share in shares.parts.items() if share > 1e-6}
    useful = parts.pop("useful")
    lost = sorted(parts.items(), key=lambda item: -item[1])
    high, top, left, right = 140.0, 22.0, 14.0, 176.0
    apart = 20.0  # from loss to loss
    drawn: list[Part] = [Label(0, 8, title, anchor="start", strong=True)]

    def flow(y0: float, y1: float, share: float, name: str, text: str, strong: bool = False) -> None:
        width = high * share
        kind = PARTS[name][1]
        drawn.append(Band(left, y0, right, y1, width0=width, width1=width, kind=kind))
        drawn.append(Box(right, y1, 8, width, kind=kind, solid=True))
        drawn.append(Label(right + 16, y1 + width / 2, text, anchor="start", strong=strong))

    def days(share: float) -> str:
        return fmt(share * calendar, "d", 2)

    training = PARTS["useful"][0]
    flow(top, top, useful, "useful", f"{days(useful)} {training}: {fmt(useful, '%')}", strong=True)
    low, high_end = (fmt(float(end), "%") for end in (shares.low, shares.high))
    below, at = top + high * useful, top + high * useful + 24
    drawn.append(Label(right + 16, at, f"{days(1 - useful)} lost", anchor="start", strong=True))
    for name, share in lost:
        at += apart
        flow(below, at - high * share / 2, share, name, f"{days(share)} {PARTS[name][0]}")
        below += high * share
    drawn.append(Box(left - 8, top, 8, high, kind="ink", solid=True))
    at += 40
    drawn += [
        Label(0, at, f"80 % interval of what trains: {low} to {high_end}", anchor="start"),
        Box(0, at + 14, 400, 12, kind="grey"),
        Box(400 * float(shares.low), at + 14, 400 * float(shares.high - shares.low), 12, kind="compute", solid=True),
        Box(400 * useful - 1.5, at + 10, 3, 20, kind="ink", solid=True),
        Label(0, at + 38, "0", anchor="start"),
        Label(400 * useful, at + 38, fmt(useful, "%")),
    ]
    said = ", ".join(f"{days(share)} {PARTS[name][0]}" for name, share in lost)
    alt = f"{title}: {days(useful)} {training}, {shares.with_interval}; {days(1 - useful)} lost: {said}."
    return Scene(400, at + 46, drawn, alt=alt)


def series(failures: Sequence[Sequence[float]], window: float, *, rows: int = 8, name: str = "GPU") -> Scene:
    """Failures of parts that are all needed, each on its own line, and of the job that needs them all.

    Parameters
    ----------
    failures : sequence of sequences of float
        For each part the times of its failures, seconds.
    window : float
        Length of the lines, seconds.
    rows : int
        Lines that are drawn; those of parts that the job does not use are pale.
    name : str
        What a part is.

    Returns
    -------
    Scene

    Examples
    --------
    >>> series([[1e8], [2e8, 3e8]], window=3.2e8).alt
    '2 lines, one for each GPU, with 1 and 2 failures in 10.1 years; the line of the job below has all 3.'
    """
    left, right, pitch, tall = 62.0, 398.0, 21.0, 11.0
    bottom = pitch * rows + 24  # where the line of the job begins

    def x(time: float) -> float:
        return left + (right - left) * time / window

    drops: list[Part] = []
    lines: list[Part] = []
    marks: list[Part] = []
    for row, times in enumerate([*failures, *[[]] * (rows - len(failures))]):
        y = pitch * row + 4
        lines += [
            Label(0, y + tall / 2, f"{name} {row}", anchor="start"),
            Box(left, y, right - left, tall, kind="compute" if row < len(failures) else "ink"),
        ]
        for time in times:
            drops.append(Arrow(x(time), y + tall, x(time), bottom, kind="ink", heads=0))
            marks += [
                Box(x(time) - 2, top, 4, high, kind="lost", solid=True) for top, high in ((y - 2, 15), (bottom - 2, 20))
            ]
    lines += [
        Label(0, bottom + 8, "the job", anchor="start", strong=True),
        Box(left, bottom, right - left, 16, kind="compute"),
    ]
    years = fmt(window / day / 365.25)
    ends: list[Part] = [
        Label(left, bottom + 30, "0", anchor="start"),
        Label(right, bottom + 30, f"{years} years", anchor="end"),
    ]
    counts = [len(times) for times in failures]
    each = " and ".join(map(str, counts)) if len(counts) < 3 else f"{min(counts)} to {max(counts)}"
    many = f"{len(counts)} lines, one for each {name}," if len(counts) > 1 else f"One line, of one {name},"
    noun = "failure" if counts == [1] else "failures"
    alt = f"{many} with {each} {noun} in {years} years; the line of the job below has all {sum(counts)}."
    return Scene(400, bottom + 38, [*drops, *lines, *marks, *ends], alt=alt)


def leaning(dispersion: float, ends: tuple[float, float], spares: float = 3.0) -> Scene:
    """How a fleet's failure rate is spread over the months: a gamma distribution, which leans upward.

    Parameters
    ----------
    dispersion : float
        Square of the rate's standard deviation, over that of its mean.
    ends : tuple of float
        Multiples of the mean between which the rate lies 19 times in 20.
    spares : float
        Standard deviations above the mean that are marked.

    Returns
    -------
    Scene

    Examples
    --------
    >>> leaning(0.2, (0.32, 2.05)).alt.split("; ")[1]
    '19 times in 20 between 0.32 and 2.05'
    """
    shape, spread, most = 1 / dispersion, dispersion**0.5, 3.0
    left, right, floor, high = 10.0, 390.0, 122.0, 104.0
    step = 0.05
    middles = np.arange(step / 2, most, step)

    def density(x: np.ndarray) -> np.ndarray:
        return x ** (shape - 1) * np.exp(-shape * x)

    def at(x: float) -> float:
        return left + (right - left) * x / most

    peak = density(np.array(1 - dispersion))
    bell = np.exp(-(((middles - 1) / spread) ** 2) / 2)
    # Of the same area as the curve: both are drawn over as many steps.
    bell *= density(middles).sum() / bell.sum()
    parts: list[Part] = []
    for x, tall in zip(middles, high * density(middles) / peak, strict=True):
        rare = not ends[0] <= x <= ends[1]
        parts.append(Box(at(x - step / 2), floor - tall, at(step) - at(0), tall, kind="lost", solid=rare))
    tops = floor - high * bell / peak
    parts += [
        Arrow(at(x0), y0, at(x1), y1, kind="ink", heads=0)
        for x0, y0, x1, y1 in zip(middles, tops, middles[1:], tops[1:], strict=False)
    ]
    far = 1 + spares * spread
    parts += [
        Label(at(1.16), 20, "a bell curve", anchor="start"),
        Arrow(at(far), 74, at(far), floor - 6, kind="ink"),
        Label(at(far), 48, f"mean + {spares:g} deviations:\n1 in 100 is beyond", strong=True),
        Arrow(left, floor, right, floor, kind="ink", heads=0),
        *(Label(at(x), floor + 14, f"{x:.2f}", strong=True) for x in ends),
        Label(at(1), floor + 14, "mean"),
        Label(at((ends[0] + ends[1]) / 2), floor + 34, "19 times in 20 the rate is between these"),
    ]
    alt = (
        f"A curve of the failure rate over its mean, which leans upward; 19 times in 20 between {ends[0]:.2f} and "
        f"{ends[1]:.2f}; one time in a hundred beyond {spares:g} standard deviations above the mean."
    )
    return Scene(400, floor + 44, parts, alt=alt)


def six_runs(ratios: Sequence[float], ends: tuple[float, float]) -> Scene:
    """Losses of published runs over those of their plans, and where a further run may lie.

    Parameters
    ----------
    ratios : sequence of float
        Lost time of each run for each hour kept, over that of its plan.
    ends : tuple of float
        Of the 80 % interval.

    Returns
    -------
    Scene

    Examples
    --------
    >>> six_runs([0.5, 2.0], (0.2, 5.0)).alt
    'Lost time over that of the plan: 0.50, 2.0; eight in ten further runs between 0.2 and 5 times.'
    """
    left, right, line, reach = 30.0, 370.0, 72.0, 10.0

    def at(ratio: float) -> float:
        return left + (right - left) * np.log(ratio * reach) / np.log(reach * reach)

    parts: list[Part] = [
        Label(0, 8, "Lost, over what the plan says", anchor="start", strong=True),
        Box(at(ends[0]), line - 14, at(ends[1]) - at(ends[0]), 28, kind="lost"),
        Arrow(left, line, right, line, kind="ink", heads=0),
        Arrow(at(1), line - 20, at(1), line + 20, kind="ink", heads=0),
    ]
    said = []
    for place, ratio in enumerate(sorted(ratios)):
        said.append(f"{ratio:#.2g}")
        parts += [
            Box(at(ratio) - 4, line - 8, 8, 16, kind="lost", solid=True),
            Label(at(ratio), line - 24 - 16 * (place % 2), said[-1]),
        ]
    low, high = (fmt(end, "", 2) for end in ends)
    parts += [
        Label(at(1), line + 30, "as planned"),
        Label(at(ends[0]), line + 30, low, strong=True),
        Label(at(ends[1]), line + 30, high, strong=True),
    ]
    alt = (
        f"Lost time over that of the plan: {', '.join(said)}; eight in ten further runs between {low} and {high} times."
    )
    return Scene(400, line + 40, parts, alt=alt)


def _pieces(job: Job) -> list[tuple[str, float, float]]:
    """A job around a failure in the middle of an interval: what it does, seconds, and the work that this adds."""
    tau, half = float(job.interval), float(job.interval) / 2
    return [
        ("work", tau, tau),
        ("write", float(job.write), 0.0),
        ("work", half, half),
        ("failure", 0.0, -half),
        ("detection", float(job.detection), 0.0),
        ("restart", float(job.restart), 0.0),
        ("redo", half, half),
        ("work", half, half),
        ("write", float(job.write), 0.0),
    ]


STEPS = 9  # of a setback


def setback(job: Job, step: int = STEPS) -> Scene:
    """A job's progress against the clock: work, a checkpoint, a failure, what it undoes, and the way back.

    Parameters
    ----------
    job : Job
        Its interval, write, detection and restart; scalars. The failure comes in the middle of an interval.
    step : int
        How many of the nine pieces have happened.

    Returns
    -------
    Scene

    Examples
    --------
    >>> job = Job(interval=1080, write=60, mtbf=11_000, detection=120, restart=300)
    >>> setback(job, step=5).alt.split("; ")[1]
    'a failure undoes 9 min of it, 2 min to notice.'
    """
    tau, half = float(job.interval), float(job.interval) / 2
    whole = sum(seconds for _, seconds, _ in _pieces(job))
    left, right, floor, ceiling = 8.0, 394.0, 158.0, 34.0
    looks = {
        "work": ("compute", "{} of work"),
        "write": ("memory", "{} to write"),
        "failure": ("lost", "a failure undoes {} of it"),
        "detection": ("bubble", "{} to notice"),
        "restart": ("waste", "{} to restart"),
        "redo": ("lost", "{} to do it again"),
    }

    def x(seconds: float) -> float:
        return left + (right - left) * seconds / whole

    def y(work: float) -> float:
        return floor - (floor - ceiling) * work / (2 * tau)

    level = y(tau)  # of what is safe
    parts: list[Part] = [
        Label(left, 10, "work done", anchor="start", strong=True),
        Arrow(left, floor + 2, right + 4, floor + 2, kind="ink"),
        Label(right, floor - 8, "time", anchor="end", strong=True),
    ]
    curve: list[Part] = []
    said: list[str] = []
    now, done = 0.0, 0.0
    for name, seconds, work in _pieces(job)[:step]:
        kind, text = looks[name]
        length = fmt(abs(work) if name == "failure" else seconds, "min" if max(seconds, abs(work)) > 90 else "s", 2)
        glue = "; " if name == "failure" else ", "
        said.append((glue if said else "") + text.format(length))
        curve.append(Arrow(x(now), y(done), x(now + seconds), y(done + work), kind=kind, heads=0))
        if name == "failure":
            parts += [
                Arrow(x(tau + job.write), level, x(now), level, kind="ink", heads=0),
                Arrow(x(now), 22, x(now), y(done) - 4, kind="lost"),
                Label(x(now), 10, "failure", strong=True),
                Label(x(now) + 8, 29, f"{length} of work lost", anchor="start"),
            ]
        elif seconds:
            wide = x(now + seconds) - x(now)
            inside = f"{name}\n{length}" if 6.4 * len(length) + 6 < wide and name in ("work", "redo") else ""
            curve.append(Box(x(now), floor + 10, wide, 38, inside, kind, solid=name != "redo"))
        if name == "write" and done <= tau:
            parts.append(Label(x(now + seconds) + 4, level + 15, f"{length} to write:", anchor="start"))
            parts.append(Label(x(now + seconds) + 4, level + 31, "safe to here", anchor="start"))
        if name == "detection":
            at = x(now + seconds)
            parts.append(Label(at, floor + 62, f"{length} to notice,", anchor="end"))
        if name == "restart":
            parts.append(Label(x(now) + 6, floor + 62, f"{length} to restart", anchor="start"))
        now, done = now + seconds, done + work
    cost = half + job.detection + job.restart
    if step > 6:
        parts.append(Label(right, floor + 84, f"The failure cost {fmt(cost, 'min', 2)}.", anchor="end", strong=True))
    alt = f"Progress of the job against the clock: {''.join(said) or 'nothing yet'}."
    return Scene(400, floor + 92, [*parts, *curve], alt=alt)


def interval_rows(jobs: Sequence[Job]) -> Scene:
    """One mean time between failures of jobs that checkpoint at different intervals, up to the failure.

    Parameters
    ----------
    jobs : sequence of Job
        Of one MTBF, scalars. Each line ends with a failure in the middle of an interval.

    Returns
    -------
    Scene

    Examples
    --------
    >>> interval_rows([Job(interval=1080, write=60, mtbf=3 * 3600)]).alt
    'One failure and the 180 min before it. Every 18 min: 9 writes take 9 min, and the failure undoes 9 min of work.'
    """
    pitch, tall = 72.0, 24.0
    parts: list[Part] = []
    said = []
    for row, job in enumerate(jobs):
        y, span = pitch * row, float(job.mtbf)
        per = 398 / span
        lost = float(job.interval) / 2
        ends = np.arange(span - lost, 0, -float(job.period))  # of the writes, back from the failure
        text = (
            f"Every {fmt(job.interval, 'min', 2)}: {len(ends)} writes take {fmt(len(ends) * job.write, 'min', 2)}",
            f"the failure undoes {fmt(lost, 'min', 2)} of work",
        )
        said.append(", and ".join(text))
        parts.append(Label(0, y + 8, text[0] + ",", anchor="start"))
        parts.append(Label(0, y + 24, text[1] + ".", anchor="start"))
        parts.append(Box(0, y + 36, 398, tall - 4, kind="compute"))
        for end in ends:
            start = max(0.0, end - float(job.write))
            parts.append(Box(start * per, y + 36, (end - start) * per, tall - 4, kind="memory", solid=True))
        parts.append(Box((span - lost) * per, y + 36, lost * per, tall - 4, kind="lost", solid=True))
        if row == len(jobs) - 1:
            parts += [Label(0, y + 68, "work", "start"), Label(398, y + 68, "lost", "end")]
            middle = ends[len(ends) // 2] - float(job.write) / 2 if len(ends) else span / 2
            parts.append(Label(float(middle) * per, y + 68, "writing" if len(ends) else ""))
    high = pitch * len(jobs) + 4
    before = fmt(jobs[0].mtbf, "min")
    return Scene(400, high, parts, alt=f"One failure and the {before} before it. {'; '.join(said)}.")


def checkpoint_path(saved: Checkpoint, ranks: int, way: str, *, rate: float, local: float = 0.0) -> Scene:
    """The way of a checkpoint from the GPUs to storage.

    Parameters
    ----------
    saved : Checkpoint
        Its size, stall and lag.
    ranks : int
        GPUs that hold the model.
    way : str
        ``"one rank"``: all send to GPU 0, which writes. ``"sharded"``: every GPU writes its shard. ``"two levels"``:
        every GPU copies its shard to host memory, from which it drains.
    rate : float
        Bytes/s into storage, of all together.
    local : float
        Bytes/s of one GPU to its host, for two levels.

    Returns
    -------
    Scene

    Raises
    ------
    ValueError
        There is no such way.

    Examples
    --------
    >>> from clusterlab.failures import checkpoint
    >>> from clusterlab.units import GB, TB
    >>> saved = checkpoint(5.67 * TB, storage_bandwidth=100 * GB, writers=16_384)
    >>> checkpoint_path(saved, 16_384, "sharded", rate=100 * GB).alt
    'Each of 16,384 GPUs writes its 346 MB to storage, 100 GB/s in all: training stops for 56.7 s.'
    """
    ways = ("one rank", "sharded", "two levels")
    if way not in ways:
        raise ValueError(f"way must be one of {', '.join(ways)}; got {way!r}")
    shard, stall = fmt(saved.size / ranks, "B"), fmt(saved.stall, "s")
    names = ["GPU 0", "GPU 1", f"GPU {ranks - 1:,}"]
    tops, tall = [24.0, 70.0, 140.0], 38.0
    middles = [top + tall / 2 for top in tops]
    total, into, bottom = fmt(saved.size, "B"), f"{fmt(rate, 'B/s')}", tops[-1] + tall
    parts: list[Part] = [
        Label(45, 8, "GPU memory", strong=True),
        Label(355, 8, "storage", strong=True),
        Label(45, 124, "\N{VERTICAL ELLIPSIS}"),
    ]
    parts += [Box(0, top, 90, tall, f"{name}\n{shard}", "weights") for name, top in zip(names, tops, strict=True)]
    parts.append(Box(310, tops[0], 90, bottom - tops[0], total, "memory", solid=True))
    if way == "one rank":
        parts += [
            Arrow(94, middles[2], 96, middles[0] + 8, bend=-0.32),
            Arrow(94, middles[1], 94, middles[0] + 14, bend=-0.35),
            Label(142, 116, "gather", anchor="start"),
            Arrow(94, middles[0] - 8, 306, middles[0] - 8, f"one port, {into}"),
        ]
        alt = f"All of {ranks:,} GPUs send their {shard} to GPU 0, which writes {total} through one port at {into}"
    elif way == "sharded":
        parts += [Arrow(94, y, 306, y, into + " in all" if y == middles[1] else "") for y in middles]
        alt = f"Each of {ranks:,} GPUs writes its {shard} to storage, {into} in all"
    else:
        parts.append(Label(197, 8, "host memory", strong=True))
        parts.append(Label(197, 124, "\N{VERTICAL ELLIPSIS}"))
        for top, y in zip(tops, middles, strict=True):
            parts.append(Box(162, top, 70, tall, shard, "memory"))
            parts += [Arrow(94, y, 158, y), Arrow(236, y, 306, y, kind="network")]
        parts.append(Label(126, bottom + 14, f"{fmt(local, 'B/s')} each"))
        parts.append(Label(271, bottom + 14, f"{into} in all"))
        alt = (
            f"Each of {ranks:,} GPUs copies its {shard} to host memory at {fmt(local, 'B/s')}; "
            f"from there it drains to storage, {into} in all, in {fmt(saved.lag, 's')}"
        )
    return Scene(400, bottom + 24, parts, alt=f"{alt}: training stops for {stall}.")
