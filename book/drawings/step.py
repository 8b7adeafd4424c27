"""Drawings of the training step: a layout on its servers, what hides what, a step as a bar.

Each function takes records and laws of the library, or plain numbers, and returns a scene. The bytes on the wires are
those that :func:`clusterlab.parallelism.sent_bytes` counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from clusterlab.interconnect import exposed_time
from clusterlab.model import Layout
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


# --- What hides what -------------------------------------------------------------------------------------------------


def hiding(*, forward: float, backward: float, gradients: float, weights: float, contention: float) -> Scene:
    """The end of a step and the start of the next: compute over network, and what of the exchange is exposed.

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
    'Gradients take 300 ms behind a backward of 200 ms: 150 ms exposed'
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
            f"{fmt(work, 's')}: {fmt(rest, 's')} exposed."
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
