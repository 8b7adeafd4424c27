"""Drawings of the training step: a layout on its servers, what a rank holds, a pipeline's stages, what hides what.

Each function takes records and laws of the library, or plain numbers, and returns a scene. The bytes on the wires are
those that :func:`clusterlab.parallelism.sent_bytes` counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from clusterlab.interconnect import exposed_time
from clusterlab.model import Layout
from clusterlab.parallelism import Footprint, Timeline
from clusterlab.units import fmt
from explorable import Arrow, Box, Label, Part, Scene, breadth, legend

# --- Layouts on servers ----------------------------------------------------------------------------------------------


def cluster(layout: Layout, sent: Mapping[str, float]) -> Scene:
    """A cut-out of a cluster: servers of tensor-parallel ranks, pipelines of servers, and replicas of pipelines.

    Parameters
    ----------
    layout : Layout
        One layout with even ``tp`` up to eight, three or more stages, and three or more replicas, or two servers for each
        sequence (``cp``) and two or more replicas.
    sent : mapping
        Bytes of a step, as :func:`clusterlab.parallelism.sent_bytes` counts them.

    Returns
    -------
    Scene

    Examples
    --------
    >>> cluster(Layout(tp=8, pp=16, dp=128), {"tensor": 3e11, "pipeline": 8e9, "data": 2e10}).alt
    '128 replicas of 16 servers of 8 GPUs. A GPU sends 300 GB inside a server, 8 GB to stages, 20 GB to replicas.'
    """
    tp, pp, dp, cp = (int(n) for n in (layout.tp, layout.pp, layout.dp, layout.cp))
    wires = {axis: fmt(size, "B", 2) for axis, size in sent.items()}
    wide, high, side, gap = 68, 46, 14, 3
    columns, rows = [88, 210, 332], [24, 98, 172]
    parts: list[Part] = []
    for x, stage in zip(columns, (0, 1, pp - 1), strict=True):
        parts.append(Label(x + wide / 2, 9, f"stage {stage}", strong=True))
    names = [f"replica {i}" for i in (0, 1, dp - 1)]
    if cp > 1:
        names = ["replica 0\nfirst half", "replica 0\nother half", f"replica {dp - 1}\nother half"]
    for j, (y, name) in enumerate(zip(rows, names, strict=True)):
        parts.append(Label(0, y + high / 2, name, anchor="start", strong=True))
        for i, x in enumerate(columns):
            parts.append(Box(x, y, wide, high))
            parts.append(Box(x + 5, y + high / 2 - 2.5, wide - 10, 5, kind="nvlink", solid=True))
            across = (wide - 10 + gap) / (tp / 2)
            for gpu in range(tp):
                top = y + 5 if gpu < tp / 2 else y + high - 5 - side
                left = x + 5 + across * (gpu % (tp / 2))
                parts.append(Box(left, top, across - gap, side, kind="compute", solid=True))
            if i < 2:
                parts.append(Arrow(x + wide + 2, y + high / 2, columns[i + 1] - 2, y + high / 2, kind="network"))
            if j < 2:
                parts.append(Arrow(x + wide / 2, y + high + 2, x + wide / 2, rows[j + 1] - 2, kind="network", heads=2))
    first, second = ((columns[i] + wide + columns[i + 1]) / 2 for i in (0, 1))  # between the stages
    parts.append(Label(first, rows[0] + high / 2 - 12, f"PP{pp}", strong=True))
    parts.append(Label(first, rows[0] + high / 2 + 13, wires["pipeline"]))
    parts.append(Label(second, rows[0] + high / 2 - 12, "\N{MIDLINE HORIZONTAL ELLIPSIS}", strong=True))
    down = [(f"CP{cp}", wires["context"])] if cp > 1 else []
    down.append((f"DP{dp}", wires["data"]))
    for row, (axis, size) in zip(rows, down, strict=False):
        parts.append(Label(columns[0] + wide / 2 - 8, row + high + 14, axis, anchor="end", strong=True))
        parts.append(Label(columns[0] + wide / 2 + 8, row + high + 14, size, anchor="start"))
    parts.append(Label(20, rows[1] + high + 14, "\N{VERTICAL ELLIPSIS}", strong=True))
    parts += legend(2, 238, [(f"TP{tp}, inside a server: a GPU sends {wires['tensor']}", "nvlink", True)])
    halves = f" {wires['context']} to the other half of a sequence," if cp > 1 else ""
    alt = (
        f"{dp} replicas of {pp * cp} servers of {tp} GPUs. A GPU sends {wires['tensor']} inside a server,{halves} "
        f"{wires['pipeline']} to stages, {wires['data']} to replicas."
    )
    return Scene(400, 248, parts, alt=alt)


# --- Memory ----------------------------------------------------------------------------------------------------------

_HOLDS = {
    "weights": "weights",
    "gradients": "gradients",
    "optimizer": "optimizer",
    "activations": "activations",
    "other": "grey",
}


def rank_memory(columns: Mapping[str, Footprint | None], capacity: float, *, most: float) -> Scene:
    """What a rank holds, as stacks of boxes to scale, one for each way to cut, against a line at the capacity.

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
    >>> from clusterlab.model import Workload
    >>> from clusterlab.parallelism import footprint
    >>> from clusterlab.model import transformer
    >>> held = footprint(transformer("Llama 3.1 8B"), Workload(sequence=8192, global_batch=8), Layout(dp=8, zero=3))
    >>> rank_memory({"ZeRO 3": held}, 80e9, most=200e9).alt
    'Memory of a GPU against 80 GB. ZeRO 3: 63.1 GB.'
    """
    foot, tall, pitch, wide = 232.0, 190.0, 50.5, 36.0
    unit, roof = tall / most, foot - tall
    end = 8 + pitch * len(columns) - (pitch - wide) + 4
    parts: list[Part] = []
    told = []
    for i, (name, held) in enumerate(columns.items()):
        x = 8 + pitch * i
        middle = x + wide / 2
        parts.append(Label(middle, foot + 12 + 8 * name.count(" "), name.replace(" ", "\n")))
        if held is None:
            parts.append(Label(middle, foot - 10, "\N{EN DASH}"))
            told.append(f"{name}: cannot be built")
            continue
        sizes = {part: float(getattr(held, part)) for part in ("weights", "gradients", "optimizer", "activations")}
        sizes["other"] = float(held.total) - sum(sizes.values())
        low, top = 0.0, foot
        for part, size in sizes.items():
            high = min(low + size, most)
            if (high - low) * unit > 0.4:
                top = foot - high * unit
                parts.append(Box(x, top, wide, (high - low) * unit, kind=_HOLDS[part], solid=True))
            low = high
        if held.total > most:  # no more of it on this scale, so nothing is drawn on another
            parts.append(Arrow(middle, roof - 3, middle, roof - 20, kind="ink"))
            top = roof - 18
        digits = 3 if 100e9 <= held.total < 1e12 else 2  # as wide as the stack
        parts.append(Label(middle, top - 10, fmt(held.total, "B", digits), strong=bool(held.total <= capacity)))
        told.append(f"{name}: {fmt(held.total, 'B')}")
    line = foot - capacity * unit
    parts += [Arrow(0, line, end, line, kind="red", heads=0), Label(end + 3, line, fmt(capacity, "B"), anchor="start")]
    parts.append(Arrow(0, foot, end, foot, kind="ink", heads=0))
    entries = [(name if name != "optimizer" else "Adam", name, True) for name in ("weights", "gradients", "optimizer")]
    parts += legend(4, foot + 54, [*entries, ("activations", "activations", True)], gap=20)
    parts += legend(4, foot + 74, [("other: logits, layers gathered or recomputed", "grey", True)])
    if any(held is not None and held.total > most for held in columns.values()):
        parts.append(Label(4, foot + 94, f"with an arrow: goes on above {fmt(most, 'B')}", anchor="start"))
    return Scene(400, foot + 104, parts, alt=f"Memory of a GPU against {fmt(capacity, 'B')}. {'; '.join(told)}.")


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


# --- What hides what -------------------------------------------------------------------------------------------------


def hiding(*, forward: float, backward: float, gradients: float, weights: float, contention: float) -> Scene:
    """The end of a step and the start of the next: compute over network, and what of the exchange shows.

    Gradients hide behind the last backward pass and new weights behind the next forward pass, by
    :func:`clusterlab.interconnect.exposed_time`: each hidden second lengthens the one that ends last.

    Parameters
    ----------
    forward, backward : float
        Seconds of one microbatch.
    gradients, weights : float
        Seconds of the reduce-scatter and of the all-gather.
    contention : float
        Seconds that a hidden second loses.

    Returns
    -------
    Scene

    Examples
    --------
    >>> hiding(forward=0.1, backward=0.2, gradients=0.3, weights=0.05, contention=0.25).alt.split(". ")[0]
    'Gradients take 300 ms behind a backward of 200 ms: 150 ms show'
    """
    shown = [float(exposed_time(c, h, contention=contention)) for c, h in ((gradients, backward), (weights, forward))]
    scale = 399.99 / (forward + backward + sum(shown))
    parts: list[Part] = [Label(0, 9, "compute", anchor="start", strong=True)]
    parts.append(Label(0, 84, "network", anchor="start", strong=True))
    x = 0.0
    passes = (
        ("last backward", "backward", backward, gradients, "gradients", shown[0]),
        ("next forward", "forward", forward, weights, "new weights", shown[1]),
    )
    said = []
    for name, kind, work, exchange, carried, rest in passes:
        lost = contention * min(exchange, work)
        stretched = lost * (exchange > work)  # the one that ends last loses
        for size, text, colour in (
            (work, name, kind),
            (lost - stretched, "", "lost"),
            (rest - lost + stretched, "", "idle"),
        ):
            if size * scale > 0.5:
                names = [text, text.split()[-1]] if text else []
                fits = next((t for t in names if breadth(t) + 6 < size * scale), "")
                parts.append(Box(x, 20, size * scale, 40, fits, colour, solid=True))
                x += size * scale
        start = x - (work + rest) * scale
        buckets = 8
        each = exchange * scale / buckets
        places = (start + i * each for i in range(buckets))
        parts += [Box(at, 95, max(each - 1, 0.5), 28, kind="network", solid=True) for at in places]
        if stretched * scale > 0.5:
            parts.append(Box(start + exchange * scale, 95, stretched * scale, 28, kind="lost", solid=True))
        text = f"{carried} {fmt(exchange, 's')}"
        half = breadth(text) / 2 + 4
        parts.append(Label(min(max(start + exchange * scale / 2, half), 400 - half), 137, text))
        said.append(
            f"{'Gradients' if kind == 'backward' else 'Weights'} take {fmt(exchange, 's')} behind a {kind} of "
            f"{fmt(work, 's')}: {fmt(rest, 's')} show."
        )
    parts += legend(0, 164, [("lost side by side", "lost", True), ("waiting", "idle", True)], gap=44)
    return Scene(400, 174, parts, alt=" ".join(said))


def shares(parts: Mapping[str, Sequence[str]], record) -> dict[str, float]:
    """Seconds of a step, its parts put together under fewer names: a bar.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> shares({"wires": ("tensor", "data")}, SimpleNamespace(tensor=1.0, data=0.5))
    {'wires': 1.5}
    """
    return {name: float(sum(getattr(record, part) for part in of)) for name, of in parts.items()}
