"""Drawings of parallelism: who talks to whom under a layout, what a rank holds, and what a pipeline does when.

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

_EXPERTS = "ABCD"


# --- Layouts on servers ----------------------------------------------------------------------------------------------


def cluster(layout: Layout, sent: Mapping[str, float]) -> Scene:
    """A cut-out of a cluster: servers of tensor-parallel ranks, pipelines of servers, and replicas of pipelines.

    Parameters
    ----------
    layout : Layout
        One layout with even ``tp`` up to eight, three or more stages and three or more replicas.
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
    tp, pp, dp = (int(n) for n in (layout.tp, layout.pp, layout.dp))
    wires = {axis: fmt(size, "B", 2) for axis, size in sent.items()}
    wide, high, side, gap = 68, 46, 14, 3
    columns, rows = [88, 210, 332], [24, 98, 172]
    parts: list[Part] = []
    for x, stage in zip(columns, (0, 1, pp - 1), strict=True):
        parts.append(Label(x + wide / 2, 9, f"stage {stage}", strong=True))
    for j, (y, replica) in enumerate(zip(rows, (0, 1, dp - 1), strict=True)):
        parts.append(Label(0, y + high / 2, f"replica {replica}", anchor="start", strong=True))
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
    parts.append(Label(first, rows[0] + high / 2 - 12, wires["pipeline"]))
    parts.append(Label(second, rows[0] + high / 2 - 12, "\N{MIDLINE HORIZONTAL ELLIPSIS}", strong=True))
    parts.append(Label(columns[0] + wide / 2 + 8, rows[0] + high + 14, wires["data"], anchor="start"))
    parts.append(
        Label(columns[0] + wide / 2 + 10, rows[1] + high + 14, "\N{VERTICAL ELLIPSIS}", anchor="start", strong=True)
    )
    lines = [
        (f"TP{tp}: a server shares each matrix; a GPU sends {wires['tensor']}", "nvlink"),
        (f"PP{pp}: {pp} servers share the layers; {wires['pipeline']}", "network"),
        (f"DP{dp}: {dp} replicas share the batch; {wires['data']}", "network"),
    ]
    for i, (text, kind) in enumerate(lines):
        parts += legend(2, 238 + 20 * i, [(text, kind, True)])
    alt = (
        f"{dp} replicas of {pp} servers of {tp} GPUs. A GPU sends {wires['tensor']} inside a server, "
        f"{wires['pipeline']} to stages, {wires['data']} to replicas."
    )
    return Scene(400, 288, parts, alt=alt)


def peers(layout: Layout) -> dict[str, list[int]]:
    """Accelerators that accelerator 0 exchanges with, by axis, under Megatron's order: tp innermost, then cp, dp, pp.

    Parameters
    ----------
    layout : Layout
        One layout.

    Returns
    -------
    dict
        Numbers of accelerators under ``"tensor"``, ``"context"``, ``"data"`` and ``"pipeline"`` (the next stage).

    Examples
    --------
    >>> peers(Layout(tp=2, dp=2, pp=2))
    {'tensor': [1], 'context': [], 'data': [2], 'pipeline': [4]}
    """
    tp, cp, dp, pp = (int(n) for n in (layout.tp, layout.cp, layout.dp, layout.pp))
    return {
        "tensor": list(range(1, tp)),
        "context": [tp * i for i in range(1, cp)],
        "data": [tp * cp * i for i in range(1, dp)],
        "pipeline": [tp * cp * dp] if pp > 1 else [],
    }


def placement(layout: Layout, domain: int = 8) -> Scene:
    """Four servers, and in them whom accelerator 0 talks to: over NVLink inside its server, over the network elsewhere.

    Parameters
    ----------
    layout : Layout
        One layout of four times ``domain`` accelerators, without context parallelism.
    domain : int
        Accelerators of a server; at most eight.

    Returns
    -------
    Scene

    Raises
    ------
    ValueError
        The layout is not of so many accelerators.

    Examples
    --------
    >>> placement(Layout(tp=16, dp=2)).alt
    'GPU 0 shares tensors with 15 GPUs, 8 of them in another server; gradients with 1; its next stage is nowhere.'
    """
    if layout.gpus != 4 * domain:
        raise ValueError(f"layout must be of {4 * domain} accelerators, got {layout.gpus:g}")
    found = peers(layout)
    letter = {gpu: name[0].upper() for name, gpus in found.items() for gpu in gpus}
    parts: list[Part] = []
    for server in range(4):
        x, y = 204 * (server % 2), 22 + 92 * (server // 2)
        parts += [Box(x, y, 196, 62), Label(x, y - 11, f"server {server}", anchor="start", strong=True)]
        for i in range(domain):
            gpu = server * domain + i
            kind = "compute" if gpu == 0 else "nvlink" if server == 0 else "network"
            known = gpu == 0 or gpu in letter
            across = 188 / (domain / 2)
            left, top = (x + 4 + across * (i % (domain // 2)), y + 5 + 27 * (i // (domain // 2)))
            text = letter.get(gpu, str(gpu) if gpu == 0 else "")
            parts.append(Box(left + 1, top, across - 2, 25, text, kind if known else "ink", solid=known))
    entries = [("GPU 0", "compute", True), ("talks over NVLink", "nvlink", True), ("over the network", "network", True)]
    parts += legend(2, 198, entries, gap=22)
    parts.append(Label(2, 220, "T tensor, D data, P next stage", anchor="start"))
    away = sum(gpu >= domain for gpu in found["tensor"])
    next_ = f"GPU {found['pipeline'][0]}" if found["pipeline"] else "nowhere"
    alt = (
        f"GPU 0 shares tensors with {len(found['tensor'])} GPUs, {away} of them in another server; "
        f"gradients with {len(found['data'])}; its next stage is {next_}."
    )
    return Scene(400, 230, parts, alt=alt)


# --- Memory ----------------------------------------------------------------------------------------------------------

_HOLDS = {
    "weights": "weights",
    "gradients": "gradients",
    "optimizer": "optimizer",
    "activations": "activations",
    "other": "cache",
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
        Bytes at the top of the drawing; a higher stack is broken.

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
    foot, tall, pitch, wide = 232.0, 196.0, 50.5, 36.0
    unit = tall / most
    parts: list[Part] = []
    told = []
    for i, (name, held) in enumerate(columns.items()):
        x, y = 8 + pitch * i, foot
        middle = x + wide / 2
        parts.append(Label(middle, foot + 12 + 8 * name.count(" "), name.replace(" ", "\n")))
        if held is None:
            parts.append(Label(middle, foot - 10, "\N{EN DASH}"))
            told.append(f"{name}: cannot be built")
            continue
        sizes = {part: getattr(held, part) for part in ("weights", "gradients", "optimizer", "activations")}
        sizes["other"] = held.total - sum(sizes.values())
        broken, room = held.total > most, tall
        for part, size in sizes.items():
            high = min(size * unit, room)
            if high > 0.4:
                parts.append(Box(x, y - high, wide, high, kind=_HOLDS[part], solid=True))
                y, room = y - high, room - high
        if broken:  # the stack goes on: a gap, and a cap
            parts.append(Box(x, foot - tall - 10, wide, 6, kind=_HOLDS["activations"], solid=True))
            y = foot - tall - 10
        digits = 3 if 100e9 <= held.total < 1e12 else 2  # as wide as the stack
        parts.append(Label(middle, y - 10, fmt(held.total, "B", digits), strong=bool(held.total <= capacity)))
        told.append(f"{name}: {fmt(held.total, 'B')}")
    line = foot - capacity * unit
    end = 8 + pitch * len(columns) - (pitch - wide) + 4
    parts += [Arrow(0, line, end, line, kind="red", heads=0), Label(end + 3, line, fmt(capacity, "B"), anchor="start")]
    parts.append(Arrow(0, foot, end, foot, kind="ink", heads=0))
    names = list(_HOLDS)
    parts += legend(4, foot + 54, [(name, _HOLDS[name], True) for name in names[:3]], gap=24)
    parts += legend(4, foot + 74, [(name, _HOLDS[name], True) for name in names[3:]], gap=24)
    return Scene(400, foot + 84, parts, alt=f"Memory of a GPU against {fmt(capacity, 'B')}. {'; '.join(told)}.")


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


# --- Sequences and experts -------------------------------------------------------------------------------------------


def key_value_ring(step: int, block: float) -> Scene:
    """Context parallelism on four ranks: queries stay, keys and values go around, and a table of scores fills up.

    Parameters
    ----------
    step : int
        How often the blocks have moved, 0 to 3.
    block : float
        Bytes of one rank's keys and values in one layer.

    Returns
    -------
    Scene

    Raises
    ------
    ValueError
        There is no such step.

    Examples
    --------
    >>> key_value_ring(1, 8e6).alt
    'After 1 of 3 moves of 8 MB each rank has scored 2 of 4 blocks: its queries with its own keys and 1 more.'
    """
    n = 4
    if step not in range(n):
        raise ValueError(f"step must be a whole number from 0 to {n - 1}, got {step!r}")
    corners = [(0, 24), (136, 24), (136, 122), (0, 122)]
    parts: list[Part] = []
    for rank, (x, y) in enumerate(corners):
        parts += [Box(x, y, 84, 46), Label(x, y - 11, f"rank {rank}", anchor="start", strong=True)]
        parts.append(Box(x + 6, y + 9, 32, 28, f"Q{rank}", "compute"))
    for rank in range(n):
        owner = (rank - step) % n
        x, y = corners[rank]
        parts.append(Box(x + 42, y + 9, 36, 28, f"KV{owner}", "cache", solid=True, key=f"kv{owner}"))
    ways = [(87, 47, 133, 47), (204, 73, 204, 119), (133, 145, 87, 145), (66, 119, 66, 73)]
    for way in ways:
        parts.append(Arrow(*way, kind="network" if step < n - 1 else "ink"))
    parts.append(Label(135, 93, fmt(block, "B")))
    side, left, top = 32, 264, 42
    parts.append(Label(left + 2 * side, 9, "scores", strong=True))
    for i in range(n):
        parts.append(Label(left + side * (i + 0.5), top - 13, f"KV{i}"))
        parts.append(Label(left - 5, top + side * (i + 0.5), f"Q{i}", anchor="end"))
        for j in range(n):
            age = (i - j) % n
            kind = "forward" if age == step else "compute"
            text = str(age + 1) if age <= step else ""
            shown = kind if age <= step else "ink"
            parts.append(
                Box(left + side * j + 1, top + side * i + 1, side - 2, side - 2, text, shown, solid=age <= step)
            )
    parts.append(Label(left + n * side, 186, "number: its round; bright: now", anchor="end"))
    alt = (
        f"After {step} of {n - 1} moves of {fmt(block, 'B')} each rank has scored {step + 1} of {n} blocks: its "
        f"queries with its own keys and {step} more."
    )
    return Scene(400, 196, parts, alt=alt)


_ROUTES = ((0, 2, 1, 3), (1, 0, 3, 2), (3, 1, 2, 0), (2, 3, 0, 1))  # experts of the tokens of each GPU


def experts(step: int, sent: float) -> Scene:
    """Four GPUs with an expert each: tokens are dispatched to their experts, computed, and combined at home.

    Parameters
    ----------
    step : int
        0 tokens at home, 1 dispatched, 2 through their experts, 3 back at home.
    sent : float
        Bytes that a GPU sends in each of the two all-to-alls.

    Returns
    -------
    Scene

    Raises
    ------
    ValueError
        There is no such step.

    Examples
    --------
    >>> experts(1, 64e6).alt
    'Dispatch, 64 MB a GPU: every token is at its expert, and each expert has tokens of every GPU.'
    """
    said = {
        0: "Each GPU holds four tokens; a router has chosen an expert for each.",
        1: f"Dispatch, {fmt(sent, 'B')} a GPU: every token is at its expert, and each expert has tokens of every GPU.",
        2: "Each expert has worked on the tokens of all GPUs in one GEMM.",
        3: f"Combine, {fmt(sent, 'B')} a GPU: every token is back at its own GPU.",
    }
    if step not in said:
        raise ValueError(f"step must be 0, 1, 2 or 3, got {step!r}")
    wide, pitch, slot = 91, 103, 21
    parts: list[Part] = []
    for gpu in range(4):
        x = pitch * gpu
        parts += [Label(x, 9, f"GPU {gpu}", anchor="start", strong=True), Box(x, 20, wide, 32)]
        parts.append(Box(x, 132, wide, 56, kind="weights", solid=step == 2))
        parts.append(Label(x, 200, f"expert {_EXPERTS[gpu]}", anchor="start", strong=True))
    tokens = [(gpu, j, expert) for gpu, routes in enumerate(_ROUTES) for j, expert in enumerate(routes)]
    if step in (1, 3):
        for gpu, j, expert in tokens:
            if gpu != expert:
                at_home = pitch * gpu + 5 + slot * j + 9
                at_expert = pitch * expert + 5 + slot * gpu + 9
                ends = (at_home, 55, at_expert, 129) if step == 1 else (at_expert, 129, at_home, 55)
                parts.append(Arrow(*ends, kind="wire"))
    for gpu, j, expert in tokens:
        home = step in (0, 3)
        x = pitch * (gpu if home else expert) + 5 + slot * (j if home else gpu)
        y = 25 if home else 149
        parts.append(Box(x, y, 18, 22, _EXPERTS[expert], "activations", solid=step > 1, key=f"{gpu}{j}"))
    label = {1: f"dispatch: {fmt(sent, 'B')} from each GPU", 3: f"combine: {fmt(sent, 'B')} back"}
    if step in label:
        text = label[step]
        room = breadth(text) + 14
        parts.append(Box(200 - room / 2, 81, room, 22, text, "wire"))
    return Scene(400, 208, parts, alt=said[step])


# --- What hides what -------------------------------------------------------------------------------------------------


def hiding(*, forward: float, backward: float, gradients: float, weights: float, contention: float) -> Scene:
    """The end of a step and the start of the next: compute over network, and what of the exchange shows.

    Gradients hide behind the last backward pass and new weights behind the next forward pass, by
    :func:`clusterlab.interconnect.exposed_time`: a hidden second slows the work, and what is left is waited for.

    Parameters
    ----------
    forward, backward : float
        Seconds of one microbatch.
    gradients, weights : float
        Seconds of the reduce-scatter and of the all-gather.
    contention : float
        Seconds by which a hidden second slows the work.

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
        slowed = contention * min(exchange, work)
        for size, text, colour in ((work, name, kind), (slowed, "", "lost"), (rest - slowed, "", "idle")):
            if size * scale > 0.5:
                names = [text, text.split()[-1]] if text else []
                fits = next((t for t in names if breadth(t) + 6 < size * scale), "")
                parts.append(Box(x, 20, size * scale, 40, fits, colour, solid=True))
                x += size * scale
        start = x - (work + rest - slowed) * scale
        buckets = 8
        each = exchange * scale / buckets
        places = (start + i * each for i in range(buckets))
        parts += [Box(at, 95, max(each - 1, 0.5), 28, kind="network", solid=True) for at in places]
        text = f"{carried} {fmt(exchange, 's', 2)}"
        half = breadth(text) / 2 + 4
        parts.append(Label(min(max(start + exchange * scale / 2, half), 400 - half), 137, text))
        said.append(
            f"{'Gradients' if kind == 'backward' else 'Weights'} take {fmt(exchange, 's')} behind a {kind} of "
            f"{fmt(work, 's')}: {fmt(rest, 's')} show."
        )
    parts += legend(0, 164, [("work slowed by the exchange", "lost", True), ("waiting", "idle", True)], gap=44)
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
