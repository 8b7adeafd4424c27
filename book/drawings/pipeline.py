"""Drawings of pipelines and memory: what a rank holds, what the stages do at one moment, when they wait.

Each function takes records of the library and returns a scene, or spans of a figure.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from clusterlab.parallelism import Footprint, Timeline
from clusterlab.units import fmt
from explorable import Arrow, Box, Label, Part, Scene, legend

# --- Memory ----------------------------------------------------------------------------------------------------------

_HOLDS = {
    "weights": "weights",
    "gradients": "gradients",
    "optimizer": "optimizer",
    "activations": "activations",
    "other": "grey",
}


def _said(part: str) -> str:
    """Name of a part of the memory in a figure."""
    return "Adam" if part == "optimizer" else part


def rank_memory(columns: Mapping[str, Footprint | None], capacity: float, *, most: float) -> Scene:
    """What a rank holds, as stacks of boxes to scale, one for each way to cut, against what a card of a capacity takes.

    The band has the counts of which four peaks of five lie on both sides of the capacity, by the footprints' own
    interval: below it a count likely fits, and above it likely not.

    Parameters
    ----------
    columns : mapping
        Name of a way to its footprint; None where it cannot be built. At most seven.
    capacity : float
        Bytes of an accelerator.
    most : float
        Bytes at the top of the picture: a stack that has more is cut off there, and an arrow says that it goes on.

    Returns
    -------
    Scene

    Examples
    --------
    >>> from clusterlab.model import Layout, Workload, transformer
    >>> from clusterlab.parallelism import footprint
    >>> held = footprint(transformer("Llama 3.1 8B"), Workload(sequence=8192, global_batch=8), Layout(dp=8, zero=3))
    >>> rank_memory({"ZeRO 3": held}, 80e9, most=200e9).alt
    'Memory of a GPU of 80 GB: a count from 52 GB to 124 GB may fit or not. ZeRO 3: 63.1 GB.'
    """
    few = len(columns) < 3  # room for words on both sides
    foot, tall, pitch, wide, left = (232.0, 190.0, 70.0, 46.0, 86.0) if few else (232.0, 190.0, 50.5, 36.0, 8.0)
    unit, roof = tall / most, foot - tall
    end = left + pitch * len(columns) - (pitch - wide) + 4
    low, high = maybe(columns, capacity)
    upper = foot - min(high, most) * unit
    parts: list[Part] = [Box(left - 8, upper, end - left + 8, foot - low * unit - upper, kind="red")]
    told = []
    for i, (name, held) in enumerate(columns.items()):
        x = left + pitch * i
        middle = x + wide / 2
        title = name if few else name.replace(" ", "\n")
        parts.append(Label(middle, foot + 12 + 8 * title.count("\n"), title))
        if held is None:
            parts.append(Label(middle, foot - 10, "\N{EN DASH}"))
            told.append(f"{name}: cannot be built")
            continue
        sizes = {part: float(getattr(held, part)) for part in ("weights", "gradients", "optimizer", "activations")}
        sizes["other"] = float(held.total) - sum(sizes.values())
        below, top, named = 0.0, foot, foot + 8
        for part, size in sizes.items():
            above = min(below + size, most)
            if (above - below) * unit > 0.4:
                top = foot - above * unit
                parts.append(Box(x, top, wide, (above - below) * unit, kind=_HOLDS[part], solid=True))
                if few and i == 0 and part != "other":
                    named = min(top + (above - below) * unit / 2, named - 16)
                    parts.append(Label(left - 12, named, _said(part), anchor="end"))
            below = above
        if held.total > most:  # no more of it on this scale, so nothing is drawn on another
            parts.append(Arrow(middle, roof - 3, middle, roof - 20, kind="ink"))
            top = roof - 18
        digits = 3 if 100e9 <= held.total < 1e12 else 2  # as wide as the stack
        parts.append(Label(middle, top - 10, fmt(held.total, "B", digits), strong=bool(held.total <= low)))
        told.append(f"{name}: {fmt(held.total, 'B')}")
    line = foot - capacity * unit
    parts.append(Arrow(left - 8, line, end, line, kind="red", heads=0))
    ends = [fmt(size, "B", 2 + (size >= 100e9)) for size in (low, high)]
    if few:
        said = {foot - low * unit + 9: f"below {ends[0]}: likely fits", line: fmt(capacity, "B")}
        said |= {foot - high * unit - 9: f"above {ends[1]}: likely not", (line + upper) / 2: "in between: tight"}
    else:
        said = {foot - low * unit: ends[0], foot - high * unit: ends[1]}
    parts += [Label(end + 3, y, text, anchor="start") for y, text in said.items()]
    parts.append(Arrow(left - 8, foot, end, foot, kind="ink", heads=0))
    if few:
        foot -= 38
    else:
        parts += legend(4, foot + 54, [(_said(name), name, True) for name in list(_HOLDS)[:4]], gap=20)
    parts += legend(4, foot + 74, [("other: logits, layers gathered or recomputed", "grey", True)])
    parts += legend(4, foot + 94, [(f"line: {fmt(capacity, 'B')}; a count in the band may fit or not", "red", False)])
    if any(held is not None and held.total > most for held in columns.values()):
        parts.append(Label(4, foot + 114, f"with an arrow: goes on above {fmt(most, 'B')}", anchor="start"))
    alt = (
        f"Memory of a GPU of {fmt(capacity, 'B')}: a count from {' to '.join(ends)} may fit or not. {'; '.join(told)}."
    )
    return Scene(400, foot + 124, parts, alt=alt)


def maybe(columns: Mapping[str, Footprint | None], capacity: float) -> tuple[float, float]:
    """Ends of the counts that may fit or not: below the first likely, above the second likely not.

    Examples
    --------
    >>> from clusterlab.model import Layout, Workload, transformer
    >>> from clusterlab.parallelism import footprint
    >>> held = footprint(transformer("Llama 3.1 8B"), Workload(sequence=8192, global_batch=8), Layout(dp=8, zero=3))
    >>> [round(end / 1e9) for end in maybe({"ZeRO 3": held}, 80e9)]
    [52, 124]
    """
    held = next(one for one in columns.values() if one is not None)
    return float(capacity * held.total / held.high), float(capacity * held.total / held.low)


# --- Pipelines -------------------------------------------------------------------------------------------------------


def pipeline_now(run: Timeline, now: float) -> Scene:
    """Four stages at one moment of an executed schedule: what each works on, and which activations it holds.

    Parameters
    ----------
    run : Timeline
        From :func:`clusterlab.parallelism.simulate_pipeline`, of four stages, at most eight microbatches and two chunks.
    now : float
        Time of the moment, in the units of the timeline.

    Returns
    -------
    Scene

    Examples
    --------
    >>> from clusterlab.parallelism import simulate_pipeline
    >>> pipeline_now(simulate_pipeline("1f1b", stages=3, microbatches=8), 2).alt
    'Stage 0 runs F3 and holds 3; stage 1 runs F2 and holds 2; stage 2 runs F1 and holds 1.'
    """
    parts: list[Part] = []
    told = []
    wide, pitch = 76, 108
    kinds = {"F": "forward", "B": "backward", "W": "compute"}
    release = "W" if "W" in run.kind else "B"
    just = 1e-9
    for stage in range(run.stages):
        x = pitch * stage
        here = run.stage == stage
        at_work = here & (run.start <= now + just) & (run.end > now + just)
        text, kind = "idle", "bubble"
        if at_work.any():
            i = int(np.flatnonzero(at_work)[0])
            text, kind = f"{run.kind[i]}{run.microbatch[i] + 1}", kinds[run.kind[i]]
        parts.append(Label(x + wide / 2, 9, f"stage {stage}", strong=True))
        parts.append(Box(x, 22, wide, 36, text, kind, solid=True))
        begun = here & (run.kind == "F") & (run.start <= now + just)
        freed = {
            (run.chunk[i], run.microbatch[i])
            for i in np.flatnonzero(here & (run.kind == release) & (run.end <= now + just))
        }
        held = [
            (int(run.chunk[i]), int(run.microbatch[i]))
            for i in np.flatnonzero(begun)
            if (run.chunk[i], run.microbatch[i]) not in freed
        ]
        across = wide / 4 / run.chunks
        for j, (_, microbatch) in enumerate(held):
            left, top = (x + across * (j % (4 * run.chunks)), 72 + 24 * (j // (4 * run.chunks)))
            name = str(microbatch + 1) if run.chunks == 1 else ""
            parts.append(Box(left + 0.5, top, across - 1, 22, name, "activations"))
        if stage < run.stages - 1:
            sent = {
                kind: bool(np.any(here_ & (run.kind == kind) & (np.abs(run.end - now) < just)))
                for kind, here_ in (("F", here), ("B", run.stage == stage + 1))
            }
            left, right = x + wide + 3, x + pitch - 3
            parts.append(Arrow(left, 33, right, 33, kind="wire" if sent["F"] else "ink"))
            parts.append(Arrow(right, 47, left, 47, kind="wire" if sent["B"] else "ink"))
        count = len(held) / run.chunks
        told.append(f"tage {stage} {'runs ' + text if text != 'idle' else 'is idle'} and holds {count:g}")
    parts += legend(0, 134, [("activations that a stage holds", "activations", False)])
    return Scene(400, 144, parts, alt="S" + "; s".join(told) + ".")


def idle_spans(run: Timeline) -> list[tuple[int, float, float]]:
    """Stage, start and end of every wait of a pipeline, from its first pass to its last: the bubble.

    Examples
    --------
    >>> from clusterlab.parallelism import simulate_pipeline
    >>> idle_spans(simulate_pipeline("gpipe", stages=2, microbatches=2))
    [(0, 2.0, 5.0), (1, 0.0, 1.0), (1, 7.0, 9.0)]
    """
    waits = []
    for stage in range(run.stages):
        here = run.stage == stage
        order = np.argsort(run.start[here], kind="stable")
        starts = [*run.start[here][order].tolist(), float(run.time)]
        ends = [0.0, *run.end[here][order].tolist()]
        waits += [(stage, end, start) for end, start in zip(ends, starts, strict=True) if start > end + 1e-9]
    return waits


def whole_schedule(run: Timeline) -> Scene:
    """Every stage of an executed schedule from its first pass to its last, passes of a kind in a row drawn as one.

    Parameters
    ----------
    run : Timeline
        From :func:`clusterlab.parallelism.simulate_pipeline`, of at most twenty stages.

    Returns
    -------
    Scene

    Examples
    --------
    >>> from clusterlab.parallelism import simulate_pipeline
    >>> whole_schedule(simulate_pipeline("gpipe", stages=4, microbatches=4)).alt
    '4 stages. Each works 12 slots and waits 9: for its first microbatch, for its first gradient, and at the end for the stages above it.'
    """
    left, top, pitch = 66.0, 4.0, 11.0
    unit = (396 - left) / run.time
    parts: list[Part] = []
    for stage in range(run.stages):
        y = top + pitch * stage
        spans = [("bubble", start, end) for row, start, end in idle_spans(run) if row == stage]
        for i in np.flatnonzero(run.stage == stage)[np.argsort(run.start[run.stage == stage], kind="stable")]:
            kind, start, end = {"F": "forward", "B": "backward"}[run.kind[i]], float(run.start[i]), float(run.end[i])
            if spans and spans[-1][0] == kind and np.isclose(spans[-1][2], start):
                start = spans.pop()[1]
            spans.append((kind, start, end))
        parts += [Box(left + unit * a, y, unit * (b - a), pitch - 2, kind=kind, solid=True) for kind, a, b in spans]
        if stage in (0, run.stages - 1):
            parts.append(Label(left - 5, y + pitch / 2 - 1, f"stage {stage}", anchor="end"))
    foot = top + pitch * run.stages + 11
    parts += [Arrow(left, foot, 396, foot, kind="ink"), Label(left - 5, foot, "time", anchor="end")]
    entries = [("forward", "forward", True), ("backward", "backward", True), ("waiting", "bubble", True)]
    parts += legend(left, foot + 20, entries, gap=24)
    waits = "for its first microbatch, for its first gradient, and at the end for the stages above it"
    told = f"{run.stages} stages. Each works {run.busy[0]:g} slots and waits {run.idle[0]:g}: {waits}."
    return Scene(400, foot + 30, parts, alt=told)


def until_first_gradient(run: Timeline) -> Scene:
    """Four stages of an interleaved schedule until stage 0 has its first gradient, and what stage 0 holds till then.

    Parameters
    ----------
    run : Timeline
        From :func:`clusterlab.parallelism.simulate_pipeline`: interleaved, of four stages and two chunks.

    Returns
    -------
    Scene

    Examples
    --------
    >>> from clusterlab.parallelism import simulate_pipeline
    >>> until_first_gradient(simulate_pipeline("interleaved", stages=4, microbatches=8, chunks=2)).alt
    'Stage 0 starts 1 2 3 4 1 2 3 4 5 6 7, and then holds 11 pieces until the first gradient is there, at 7.'
    """
    left, bottom, piece, row, pitch = 58.0, 84.0, 5.6, 106.0, 24.0
    until = float(run.end[(run.stage == 0) & (run.kind == "B")].min())
    unit = (396 - left) / until
    order = np.argsort(run.start, kind="stable")
    seen = [i for i in order if run.start[i] < until - 1e-9]
    begun = [i for i in seen if run.stage[i] == 0 and run.kind[i] == "F"]
    born = float(run.start[(run.stage == run.stages - 1) & (run.kind == "B")].min())
    parts: list[Part] = [Label(0, bottom - 36, "stage 0\nholds", anchor="start")]
    for n, i in enumerate(begun, 1):
        start = float(run.start[i])
        x, wide = left + unit * start, unit * (float(run.end[i]) - start)
        if n == len(begun):
            wide = unit * (until - start)
        late, high = start >= born - 1e-9, piece * n
        parts.append(Box(x, bottom - high, wide - 1, high, kind="activations", solid=late))
        parts.append(Label(x + wide / 2, bottom - high - 9, f"{n}", strong=n == len(begun)))
    parts.append(Arrow(left, bottom, 396, bottom, kind="ink", heads=0))
    parts += [Label(0, row + pitch * i, f"stage {i}", anchor="start") for i in range(run.stages)]
    for i in seen:
        start, end = float(run.start[i]), min(float(run.end[i]), until)
        x, y = left + unit * start, row + pitch * int(run.stage[i]) - 10
        kind, first = {"F": "forward", "B": "backward"}[run.kind[i]], run.microbatch[i] == 0
        text = str(run.microbatch[i] + 1) if unit * (end - start) > 12 else ""
        parts.append(Box(x, y, unit * (end - start) - 1, 20, text, kind, solid=bool(first)))
    foot = row + pitch * run.stages
    parts += [Label(left + unit * t, foot, f"{t}", anchor="middle") for t in range(int(until))]
    parts += [Label(0, foot, "slot", anchor="start")]
    parts += legend(4, foot + 24, [("one for each stage, in each of two chunks", "activations", False)])
    parts += legend(4, foot + 44, [("one for each stage that the gradient climbs", "activations", True)])
    parts += legend(4, foot + 64, [("microbatch 1", "forward", True), ("its gradient", "backward", True)], gap=24)
    started = " ".join(str(run.microbatch[i] + 1) for i in begun)
    back = float(run.start[(run.stage == 0) & (run.kind == "B")].min())
    told = (
        f"Stage 0 starts {started}, and then holds {len(begun)} pieces until the first gradient is there, at {back:g}."
    )
    return Scene(400, foot + 76, parts, alt=told)
