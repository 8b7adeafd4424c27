"""Drawings of layouts: who talks to whom under a layout, keys and values that go around, tokens that travel."""

from __future__ import annotations

from clusterlab.model import Layout
from clusterlab.units import fmt
from explorable import Arrow, Box, Label, Part, Scene, breadth, legend

_EXPERTS = "ABCD"


# --- Layouts on servers ----------------------------------------------------------------------------------------------


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
    parts.append(Label(2, 220, "T same matrices, D same weights, P next layers", anchor="start"))
    away = sum(gpu >= domain for gpu in found["tensor"])
    next_ = f"GPU {found['pipeline'][0]}" if found["pipeline"] else "nowhere"
    alt = (
        f"GPU 0 shares tensors with {len(found['tensor'])} GPUs, {away} of them in another server; "
        f"gradients with {len(found['data'])}; its next stage is {next_}."
    )
    return Scene(400, 230, parts, alt=alt)


# --- Sequences and experts -------------------------------------------------------------------------------------------


def key_value_ring(step: int, block: float) -> Scene:
    """Context parallelism on four ranks: queries stay, keys and values go around, and a table of scores fills up.

    Of eight pieces of the sequence a rank has an early and a late one, so the causal mask leaves half of every block.

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
    side, left, top, late = 32, 264, 44, 2 * n - 1
    parts.append(Label(left + 2 * side, 8, "scores", strong=True))
    for i in range(n):
        pieces = (i, late - i)
        parts.append(Label(left + side * (i + 0.5), top - 21.5, f"KV{i}"))
        parts.append(Label(left - 17, top + side * (i + 0.5), f"Q{i}", anchor="end"))
        for half, piece in enumerate(pieces):
            along = side * i + 8 + 16 * half
            parts += [Label(left + along, top - 8, str(piece)), Label(left - 5, top + along, str(piece), anchor="end")]
        for j in range(n):
            age = (i - j) % n
            x, y = left + side * j + 1, top + side * i + 1
            parts.append(Box(x, y, side - 2, side - 2))
            if age <= step:
                parts += _under_the_mask(x, y, pieces, (j, late - j), "forward" if age == step else "compute")
                parts.append(Label(x + 22.5, y + 7.5, str(age)))
    parts.append(Label(left + n * side, 186, "number: moves; bright: now; pale: half masked", anchor="end"))
    alt = (
        f"After {step} of {n - 1} moves of {fmt(block, 'B')} each rank has scored {step + 1} of {n} blocks: its "
        f"queries with its own keys and {step} more."
    )
    return Scene(400, 196, parts, alt=alt)


def _under_the_mask(x: float, y: float, queries: tuple[int, int], keys: tuple[int, int], kind: str) -> list[Part]:
    """A block of scores by pieces of the sequence: filled where every pair counts, pale on the diagonal, where half do."""
    return [
        Box(x + 1 + 15 * column, y + 1 + 15 * row, 13, 13, kind=kind, solid=query > key)
        for row, query in enumerate(queries)
        for column, key in enumerate(keys)
        if query >= key
    ]


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
