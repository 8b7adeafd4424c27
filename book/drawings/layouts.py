"""Drawings of layouts: who talks to whom under a layout, keys and values that go around, tokens that travel."""

from __future__ import annotations

from clusterlab.model import Layout
from clusterlab.units import fmt
from explorable import Arrow, Box, Label, Part, Scene, legend

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


def key_value_ring(step: int, block: float, *, paired: bool = True) -> Scene:
    """Context parallelism on four ranks: queries stay, keys and values go around, and a table of scores fills up.

    Plain, rank i has the i-th quarter of the sequence, and a query looks back only, so the last rank has most to score.
    Paired, a rank has an early and a late of eight pieces, so the causal mask leaves half of every block.

    Parameters
    ----------
    step : int
        How often the blocks have moved, 0 to 3.
    block : float
        Bytes of one rank's keys and values in one layer.
    paired : bool
        Whether a rank has an early piece and a late one.

    Returns
    -------
    Scene

    Raises
    ------
    ValueError
        There is no such step.

    Examples
    --------
    >>> key_value_ring(3, 8e6, paired=False).alt
    'After 3 of 3 moves of 8 MB each the ranks have scored 0.5, 1.5, 2.5, 3.5 blocks that count.'
    >>> key_value_ring(1, 8e6).alt
    'After 1 of 3 moves of 8 MB each the ranks have scored 1, 1, 1, 1 blocks that count.'
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
    side, left, top = 28, 256, 44
    parts.append(Label(left + 2 * side, 8, "scores", strong=True))
    done = []
    for i in range(n):
        queries = _pieces(i, paired)
        parts.append(Label(left + side * (i + 0.5), top - (21.5 if paired else 9), f"KV{i}"))
        parts.append(Label(left - (17 if paired else 5), top + side * (i + 0.5), f"Q{i}", anchor="end"))
        for half, piece in enumerate(queries if paired else ()):
            along = side * i + 7 + 14 * half
            parts += [Label(left + along, top - 8, str(piece)), Label(left - 5, top + along, str(piece), anchor="end")]
        scored = 0.0
        for j in range(n):
            age, x, y = (i - j) % n, left + side * j + 1, top + side * i + 1
            parts.append(Box(x, y, side - 2, side - 2))
            if age <= step:
                kind = "forward" if age == step else "compute"
                found, of_block = _under_the_mask(x, y, queries, _pieces(j, paired), kind, (side - 2) / len(queries))
                parts, scored = parts + found, scored + of_block
        done.append(f"{scored:g}")
        parts.append(Label(left + n * side + 3, top + side * (i + 0.5), done[-1], anchor="start", strong=True))
    for line, said in enumerate(("bright: now", "outlined: half counts", "right: blocks that count")):
        parts.append(Label(398, 170 + 14 * line, said, anchor="end"))
    alt = (
        f"After {step} of {n - 1} moves of {fmt(block, 'B')} each the ranks have scored {', '.join(done)} blocks that "
        "count."
    )
    return Scene(400, 206, parts, alt=alt)


def _pieces(rank: int, paired: bool) -> tuple[int, ...]:
    """Pieces of the sequence that one of four ranks has: a quarter, or an early eighth and a late one."""
    return (rank, 7 - rank) if paired else (rank,)


def _under_the_mask(
    x: float, y: float, queries: tuple[int, ...], keys: tuple[int, ...], kind: str, side: float
) -> tuple[list[Part], float]:
    """A block of scores by pieces of the sequence, and how much of it counts: all, or half on the diagonal."""
    counting = [(row, column) for row, q in enumerate(queries) for column, k in enumerate(keys) if q >= k]
    whole = [queries[row] > keys[column] for row, column in counting]
    parts: list[Part] = [
        Box(x + side * column + 0.5, y + side * row + 0.5, side - 1, side - 1, kind=kind, solid=full)
        for (row, column), full in zip(counting, whole, strict=True)
    ]
    return parts, sum(1.0 if full else 0.5 for full in whole) / (len(queries) * len(keys))


_ROUTES = ((0, 2, 1, 3), (1, 0, 3, 2), (3, 1, 2, 0), (2, 3, 0, 1))  # experts of the tokens of each GPU
_FOLLOWED = (1, 2)  # the token in colour: its GPU, and which of its four


def experts(step: int, sent: float) -> Scene:
    """Four GPUs with an expert each: tokens are dispatched to their experts, computed, and combined at home.

    One token is in colour, so that an eye can follow it.

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
                parts.append(Arrow(*ends, kind="wire", faint=(gpu, j) != _FOLLOWED))
        parts.sort(key=lambda part: isinstance(part, Arrow) and not part.faint)  # that of the one above the others
    for gpu, j, expert in tokens:
        home = step in (0, 3)
        x = pitch * (gpu if home else expert) + 5 + slot * (j if home else gpu)
        y = 25 if home else 149
        followed = (gpu, j) == _FOLLOWED
        kind, solid = ("ochre", True) if followed else ("activations", step > 1)
        parts.append(Box(x, y, 18, 22, _EXPERTS[expert], kind, solid=solid, key=f"{gpu}{j}"))
    below = {
        0: "a router has chosen an expert for each token",
        1: f"dispatch: {fmt(sent, 'B')} from each GPU",
        2: "each expert works on tokens of all GPUs",
        3: f"combine: {fmt(sent, 'B')} back from each GPU",
    }
    parts.append(Label(200, 226, below[step], strong=True))
    return Scene(400, 236, parts, alt=said[step])
