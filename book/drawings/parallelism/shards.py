"""Shards drawn: a product of cut matrices, what each of four GPUs holds of a layer, and what moves, in each way."""

from __future__ import annotations

import re
from typing import NamedTuple

from clusterlab.units import fmt
from explorable import Arrow, Box, Label, Part, Scene, legend

from .cuts import GPUS, PHASES, WAYS, Move, Phase, Sizes, Way, kept_bytes, of_gpu_0, sent_bytes, sent_so_far

_B, _D, _F = (32.0, 20.0, 40.0)  # of a GPU's tile: tokens, width and hidden width; a schema, not to scale
_GAP = 4.0
_TILE = _D + _F + _D + 2 * _GAP
_ROUTED = {rank: [(3 * t + 1) % 8 for t in (rank, rank + 4)] for rank in range(GPUS)}  # of eight pieces of the tokens
_X2 = 0.0, 208.0  # where each of two ranks begins
_KINDS = {"X": "activations", "H": "activations", "Y": "activations", "W1": "weights", "W2": "weights"}
_HELD = re.compile(r"([*@]?)(d?)(X|W1|H|W2|Y)(?::(rows|columns|routed))?(\+?)")


def _places(x: float, y: float, scale: float = 1.0) -> dict[str, tuple[float, float, float, float]]:
    """Each array of the layer where a product is written: X left of H, W1 above it, and W2 above Y."""
    b, d, f, gap = (v * scale for v in (_B, _D, _F, _GAP))
    low = y + f + gap  # W2 is the highest
    return {
        "X": (x, low, d, b),
        "W1": (x + d + gap, low - gap - d, f, d),
        "H": (x + d + gap, low, f, b),
        "W2": (x + d + 2 * gap + f, y, d, f),
        "Y": (x + d + 2 * gap + f, low, d, b),
    }


def _pieces(place, cut: str | None, rank: int, n: int = GPUS) -> list[tuple[float, float, float, float]]:
    """The part of an array's place that a rank holds."""
    x, y, width, height = place
    if cut == "columns":
        return [(x + rank * width / n, y, width / n, height)]
    if cut == "rows":
        return [(x, y + rank * height / n, width, height / n)]
    if cut == "routed":
        return [(x, y + piece * height / 8, width, height / 8) for piece in sorted(_ROUTED[rank])]
    return [place]


def _tile(x: float, y: float, rank: int, holds: str, optimizer: float, scale: float = 1.0) -> list[Part]:
    """What one GPU holds, over the outline of the whole layer, and below it its share of the optimizer state."""
    places = _places(x, y, scale)
    parts: list[Part] = [Box(*place) for place in places.values()]
    for how, gradient, name, cut, partial in _HELD.findall(holds):
        kind = {"*": "compute", "@": "wire", "": "gradients" if gradient else _KINDS[name]}[how]
        pieces = _pieces(places[name], cut or None, rank)
        parts += [Box(*piece, "+" if partial else "", kind, solid=True) for piece in pieces]
    return [*parts, *_bar(x, y + (_F + _B + 2 * _GAP) * scale, optimizer, "optimizer", rank, scale)]


def _names(x: float, y: float, scale: float) -> list[Part]:
    """The arrays' names, over a tile whose weights are whole, and whose tokens are the first quarter."""
    places = _places(x, y, scale)
    named: list[Part] = [Box(*places[name], name, "weights", solid=True) for name in ("W1", "W2")]
    for name in ("X", "H", "Y"):
        left, top, wide, high = places[name]
        named.append(Label(left + wide / 2, top + high * 0.62, name))
    return named


class Product(NamedTuple):
    """How two ranks cut the factors of H[B, F] = X[B, D] W[D, F], by rows or by columns; None is whole."""

    x: str | None
    w: str | None

    @property
    def pending(self) -> bool:
        """Whether both cut D: each rank has some of the terms of every sum."""
        return self.x == "columns" and self.w == "rows"

    @property
    def gathered(self) -> bool:
        """Whether only one cuts D, which must be whole before they can multiply."""
        return (self.x == "columns") != (self.w == "rows")

    @property
    def forbidden(self) -> bool:
        """Whether both cut what they keep, over one axis: each rank has a block of the diagonal."""
        return self.x == "rows" and self.w == "columns"

    def shapes(self, sizes: Sizes) -> tuple[tuple[int, int], ...]:
        """Of X, W and H on a rank, when they multiply.

        Examples
        --------
        >>> PRODUCTS["both cut D"].shapes(Sizes(tokens=8, width=4, hidden=16))
        ((8, 2), (2, 16), (8, 16))
        """
        b = sizes.tokens // (2 if self.x == "rows" else 1)
        f = sizes.hidden // (2 if self.w == "columns" else 1)
        d = sizes.width // (2 if self.pending else 1)
        return (b, d), (d, f), (b, f)


PRODUCTS = {
    "nobody cuts D": Product(None, "columns"),
    "both cut D": Product("columns", "rows"),
    "one cuts D": Product("rows", "rows"),
    "B, F over one axis": Product("rows", "columns"),
}


def halves() -> Scene:
    """One element of a product on two GPUs: each has half of the pairs, and so a part of the sum.

    Examples
    --------
    >>> halves().alt
    'GPU 0 has 1, 2 and 5, 6, and finds 17. GPU 1 has 3, 4 and 7, 8, and finds 53. Neither is the answer: 17 + 53 = 70.'
    """
    token, column = (1, 2, 3, 4), (5, 6, 7, 8)
    parts: list[Part] = []
    found, told = [], []
    for rank in range(2):
        x, mine = 214.0 * rank, range(2 * rank, 2 * rank + 2)
        parts.append(Label(x, 10, f"GPU {rank}", anchor="start", strong=True))
        for i in range(4):
            has = i in mine
            cells = Box(x + 28 * i, 120, 26, 26), Box(x + 118, 24 + 23 * i, 26, 21)
            for cell, value, kind in zip(cells, (token[i], column[i]), ("activations", "weights"), strict=True):
                parts.append(Box(*cell.reach()[0], cell.width, cell.height, str(value), kind, True) if has else cell)
        found.append(sum(token[i] * column[i] for i in mine))
        parts.append(Box(x + 118, 120, 40, 26, f"+{found[-1]}", "compute", solid=True))
        parts.append(Label(x, 162, " + ".join(f"{token[i]}·{column[i]}" for i in mine) + f" = {found[-1]}", "start"))
        has_token, has_column = (", ".join(str(row[i]) for i in mine) for row in (token, column))
        told.append(f"GPU {rank} has {has_token} and {has_column}, and finds {found[-1]}.")
    answer = f"{found[0]} + {found[1]} = {sum(found)}"
    parts.append(Box(0, 178, 372, 24, f"each sends one number: {answer}", "wire"))
    return Scene(400, 206, parts, alt=f"{' '.join(told)} Neither is the answer: {answer}.")


HELD = {
    "X[B, D]": (None, None),
    "X[B_dp, D]": ("dp", None),
    "X[B, D_tp]": (None, "tp"),
    "X[B_dp, D_tp]": ("dp", "tp"),
    "X[B_tp, D_tp]": ("tp", "tp"),  # the same axis twice: what can't be
}


def holders(sizes: Sizes) -> Scene:
    """Who holds which block of X on a mesh of two by two, for each way to write it: a name of :data:`HELD`.

    Parameters
    ----------
    sizes : Sizes
        Of X, for the shapes.

    Examples
    --------
    >>> holders(Sizes(tokens=8, width=4, hidden=16)).alt.split("; ")[-2:]
    ['X[B_dp, D_tp]: GPU 0 has 4 by 2', 'X[B_tp, D_tp]: GPU 0 has 4 by 2, and two blocks nobody has']
    """
    wide, high, told = 104.0, 88.0, []
    place = (0.0, 22.0, wide, high)
    parts: list[Part] = [Label(0, 10, "the mesh", anchor="start", strong=True)]
    for gpu in range(GPUS):
        (row,) = _pieces(place, "rows", gpu // 2, 2)
        parts.append(Box(*_pieces(row, "columns", gpu % 2, 2)[0], f"GPU {gpu}", "compute"))
    parts.append(Label(0, 124, "dp down, tp across", anchor="start"))
    for i, (written, cut) in enumerate(HELD.items(), start=1):
        x, y = i % 3 * (400 - wide) / 2, i // 3 * 144.0
        blocks: dict[tuple[int, int], list[int]] = {}
        n = [2 if axis else 1 for axis in cut]
        for gpu in range(GPUS):
            rank = {"dp": gpu // 2, "tp": gpu % 2, None: 0}
            blocks.setdefault((rank[cut[0]], rank[cut[1]]), []).append(gpu)
        parts.append(Label(x, y + 10, written, anchor="start", strong=True))
        for line in range(n[0]):
            for column in range(n[1]):
                size = wide / n[1], high / n[0]
                there = x + column * size[0], y + 22 + line * size[1], *size
                gpus = blocks.get((line, column), [])
                kind = "activations" if gpus else "waste"
                parts.append(Box(*there, " ".join(map(str, gpus)) or "nobody", kind, solid=0 in gpus))
        shape = sizes.tokens // n[0], sizes.width // n[1]
        parts.append(Label(x, y + 124, f"GPU 0: {shape[0]} \N{MULTIPLICATION SIGN} {shape[1]}", anchor="start"))
        missing = ", and two blocks nobody has" * (len(blocks) < n[0] * n[1])
        told.append(f"{written}: GPU 0 has {shape[0]} by {shape[1]}{missing}")
    return Scene(400, 276, parts, alt="; ".join(told))


TRADES = (
    "what each holds: X[B_tp, D] and W[D_tp, F]",
    "all-to-all: X[B_tp, D] → X[B, D_tp]",
    "multiply: a part of every H, for all tokens",
    "reduce-scatter: the sums, H[B_tp, F]",
)


def trade(step: int) -> Scene:
    """A product whose weights stay where they are, on two ranks: the tokens travel, and then the sums.

    Parameters
    ----------
    step : int
        Which of :data:`TRADES`.

    Examples
    --------
    >>> trade(1).alt
    'Step 1, all-to-all: X[B_tp, D] → X[B, D_tp]'
    """
    parts: list[Part] = []
    at = [{"X": (x, 72.0, 40.0, 60.0), "W": (x + 46, 22.0, 140.0, 44.0), "H": (x + 46, 72.0, 140.0, 60.0)} for x in _X2]
    for rank, (x, places) in enumerate(zip(_X2, at, strict=True)):
        parts.append(Label(x, 10, f"rank {rank}", anchor="start", strong=True))
        parts += [Box(*place) for place in places.values()]
        parts += [Box(*piece, "W", "weights", solid=True) for piece in _pieces(places["W"], "rows", rank, 2)]
        if step == 2:
            parts.append(Box(*places["H"], "+ part of H", "compute", solid=True))
        if step == 3:
            parts += [Box(*piece, "H", "wire", solid=True) for piece in _pieces(places["H"], "rows", rank, 2)]
    for row, column in [(0, 0), (0, 1), (1, 0), (1, 1)]:  # X in quarters: the two that cross keep their place in X
        holder = column if step else row
        (band,) = _pieces(at[holder]["X"], "rows", row, 2)
        (piece,) = _pieces(band, "columns", column, 2)
        kind = "wire" if step == 1 and row != column else "activations"
        parts.append(Box(*piece, "X", kind, solid=True, key=f"X{row}{column}"))
    parts.append(Label(0, 150, f"{step}  {TRADES[step]}" if step else TRADES[0], anchor="start"))
    return Scene(400, 160, parts, alt=f"Step {step}, {TRADES[step]}")


def product(case: str, sizes: Sizes) -> Scene:
    """One product of two matrices on two ranks: what each holds, what it must receive, and what it computes.

    Parameters
    ----------
    case : str
        How it is cut: a name of :data:`PRODUCTS`.
    sizes : Sizes
        Of the product, for the shapes.

    Examples
    --------
    >>> product("both cut D", Sizes(tokens=8, width=4, hidden=16)).alt
    'Both cut D: a rank has X as 8 by 2 and W as 2 by 16, and so a part of every sum of H.'
    """
    cut = PRODUCTS[case]
    shapes = [f"{rows} \N{MULTIPLICATION SIGN} {columns}" for rows, columns in cut.shapes(sizes)]
    parts: list[Part] = []
    for rank, x in enumerate(_X2):
        at = {"X": (x, 72.0, 40.0, 60.0), "W": (x + 46, 22.0, 140.0, 44.0), "H": (x + 46, 72.0, 140.0, 60.0)}
        parts.append(Label(x, 10, f"rank {rank}", anchor="start", strong=True))
        parts += [Box(*place) for place in at.values()]
        parts += [Box(*piece, "X", "activations", solid=True) for piece in _pieces(at["X"], cut.x, rank, 2)]
        parts += [Box(*piece, "W", "weights", solid=True) for piece in _pieces(at["W"], cut.w, rank, 2)]
        if cut.gathered:
            parts += [Box(*piece, "W, gathered", "wire", solid=True) for piece in _pieces(at["W"], cut.w, 1 - rank, 2)]
        columns = _pieces(at["H"], cut.w if cut.w == "columns" else None, rank, 2)
        found = [piece for place in columns for piece in _pieces(place, "rows" if cut.x == "rows" else None, rank, 2)]
        parts += [Box(*piece, "+ part of H" if cut.pending else "H", "compute", solid=True) for piece in found]
        if cut.forbidden:
            for other in range(2):
                (column,) = _pieces(at["H"], "columns", other, 2)
                (block,) = _pieces(column, "rows", 1 - other, 2)
                parts.append(Box(*block, "nobody", "waste"))
        parts.append(Label(x, 148, f"({shapes[0]}) ({shapes[1]}) → {shapes[2]}", anchor="start"))
    ends = {
        "nobody cuts D": "its own columns of H",
        "both cut D": "a part of every sum of H",
        "one cuts D": "its own tokens' rows of H, once it has gathered W",
        "B, F over one axis": "one block of H; two others nobody has",
    }
    x_, w_ = (f"{rows} by {columns}" for rows, columns in cut.shapes(sizes)[:2])
    said = f"{case[0].upper()}{case[1:]}: a rank has X as {x_} and W as {w_}, and so {ends[case]}."
    return Scene(400, 156, parts, alt=said)


def layer(way: str, step: int, sizes: Sizes) -> Scene:
    """One step of the layer on four GPUs: above the whole layer and what happens, below what each GPU holds.

    Parameters
    ----------
    way : str
        How it is cut: a name of :data:`WAYS`.
    step : int
        Which of :data:`PHASES`.
    sizes : Sizes
        Of the layer, for the bytes that move.

    Examples
    --------
    >>> scene = layer("TP", 4, Sizes(tokens=8192, width=8192, hidden=28_672))
    >>> scene.alt.split(". ")[0]
    'TP, forward: after GEMM 2: All-reduce: every GPU has the sum over tp'
    """
    phase = WAYS[way].phases[step]
    holds = phase.holds if isinstance(phase.holds, tuple) else (phase.holds,) * GPUS
    backward = PHASES[step].startswith("backward")
    parts: list[Part] = []
    for name, place in _places(0, 4, 1.6).items():
        parts.append(Box(*place, "d" * backward + name, "gradients" if backward else _KINDS[name]))
    parts += [
        Label(152, 16, f"{way}, {PHASES[step]}", anchor="start", strong=True),
        Label(152, 40 + 8 * phase.says.count("\n"), phase.says, anchor="start"),
        Label(152, 102, f"{sizes.tokens:,} tokens, D = {sizes.width:,},\nF = {sizes.hidden:,}", anchor="start"),
    ]
    cut = WAYS[way]
    for rank in range(GPUS):
        x = rank * (400 - _TILE) / (GPUS - 1)
        parts.append(Label(x, 150, f"GPU {rank}", anchor="start", strong=True))
        parts += _tile(x, 162, rank, holds[rank], _share(cut, 1))
    return Scene(400, 342, [*parts, *_wire(276, phase.moves, sizes), *_meaning(316)], alt=_alt(way, step, phase))


def three() -> Scene:
    """One layer cut over four GPUs in three ways: what each GPU keeps, and what goes between the four.

    Examples
    --------
    >>> three().alt.split(". ")[0]
    'Cut the batch, DP: gradients, once a step; no work waits'
    """
    rows = {
        "DP": ("Cut the batch", "gradients, once a step; no work waits"),
        "ZeRO 3": ("Cut the copies", "weights and gradients, each microbatch; no work waits"),
        "TP": ("Cut the matrices", "activations, in every layer; the work waits"),
    }
    parts: list[Part] = []
    told = []
    scale = 0.8
    deep = (_F + _B + 2 * _GAP + 8) * scale
    for i, (way, (cut, moves)) in enumerate(rows.items()):
        y = 18 + 144.0 * i
        parts.append(Label(0, y + 9, f"{cut}: {way}", anchor="start", strong=True))
        for rank in range(GPUS):
            x = rank * (399 - _TILE * scale) / (GPUS - 1)
            holds = WAYS[way].phases[0].holds
            assert isinstance(holds, str)  # the same for all
            parts += [Label(x, 8, f"GPU {rank}", anchor="start")] if i == 0 else []
            parts += _tile(x, y + 20, rank, holds, _share(WAYS[way], 1), scale)
            parts += _names(x, y + 20, scale) if i == rank == 0 else []
            middle = x + _TILE * scale / 2
            parts.append(Arrow(middle, y + 22 + deep, middle, y + 38 + deep, heads=2))
        parts.append(Box(0, y + 38 + deep, 400, 20, moves, "wire"))
        told.append(f"{cut}, {way}: {moves}")
    kinds = [("weights", "weights", True), ("activations", "activations", True), ("bar: optimizer", "optimizer", True)]
    parts += [
        *legend(0, 456, kinds, 12),
        *legend(0, 476, [("elsewhere, or later", "ink", False), ("sent", "wire", False)], 12),
    ]
    return Scene(400, 486, parts, alt=f"{'. '.join(told)}.")


def overview(sizes: Sizes) -> Scene:
    """All ways side by side: what GPU 0 keeps of one layer, and what it sends in a step of one microbatch.

    Parameters
    ----------
    sizes : Sizes
        Of the layer, for the bytes.

    Examples
    --------
    >>> overview(Sizes(tokens=8192, width=8192, hidden=28_672)).alt.split("; ")[3]
    'ZeRO 3: keeps 2.11 GB, sends 2.82 GB'
    """
    parts: list[Part] = []
    told = []
    across, down, scale = 136.0, 147.0, 0.8
    last = len(PHASES) - 1
    for i, (way, cut) in enumerate(WAYS.items()):
        x, y = i % 3 * across, i // 3 * down
        holds = cut.phases[0].holds
        names = [_named(move.what) for move in of_gpu_0(way, last)]
        sends = dict.fromkeys(name.rstrip("12") for name in ", ".join(names).split(", "))
        kept, sent = (fmt(kept_bytes(way, sizes), "B"), fmt(sent_so_far(way, last, sizes), "B"))
        parts += [
            Label(
                x, y + 8, {"EP": "EP, own expert", "PP": "PP4, own layer"}.get(way, way), anchor="start", strong=True
            ),
            *_tile(x, y + 17, 0, holds if isinstance(holds, str) else holds[0], _share(cut, 1), scale),
            *_bar(x, y + 17 + (_F + _B + 2 * _GAP + 11) * scale, _share(cut, 2), "gradients", scale=scale),
            Label(x + _TILE * scale + 5, y + 66, f"keeps\n{kept}", anchor="start"),
            Box(x, y + 102, across - 8, 34, f"{', '.join(sends)}\n{sent}", "wire"),
        ]
        told.append(f"{way}: keeps {kept}, sends {sent}")
    y = 3 * down + 4
    kinds = [(name, name, True) for name in ("weights", "activations", "gradients", "optimizer")]
    parts += [*legend(0, y, kinds, 12), *legend(0, y + 20, [("sent in a step", "wire", False)])]
    return Scene(400, y + 30, parts, alt="; ".join(told))


def _share(cut: Way, zero: int) -> float:
    """The share that a GPU keeps of what is cut from a stage of ZeRO on."""
    return cut.share / (cut.shards if cut.zero >= zero else 1)


def _bar(x: float, y: float, share: float, kind: str, rank: int = 0, scale: float = 1.0) -> list[Part]:
    """A bar below a tile, filled as far as a GPU has its share."""
    wide, high = _TILE * scale, 8 * scale
    return [Box(x, y, wide, high), Box(x + wide * (rank * share % 1), y, wide * share, high, kind=kind, solid=True)]


def _meaning(y: float) -> list[Part]:
    """What the colours say, in two rows."""
    first = [("weights", "weights", True), ("activations", "activations", True), ("gradients", "gradients", True)]
    second = [("computed now", "compute", True), ("received now", "wire", True)]
    return [
        *legend(0, y, [*first, ("bar: optimizer", "optimizer", True)], 6),
        *legend(0, y + 20, second, 26),
        Box(256, y + 14, 12, 12, "+", "compute", solid=True),
        Label(274, y + 20, "a part of a sum", anchor="start"),
    ]


def _wire(y: float, moves: tuple[Move, ...], sizes: Sizes) -> list[Part]:
    """The exchange of a step, with the bytes that a GPU sends, below the GPUs that take part."""
    if not moves:
        return []
    texts = [f"{m.collective} {_named(m.what)}: {fmt(sent_bytes(m, sizes), 'B')}" for m in moves]
    if moves[0].collective == "send":
        apart = (400 - _TILE) / (GPUS - 1)
        ends = (_TILE / 2, apart + _TILE / 2) if "d" not in moves[0].what else (apart + _TILE / 2, _TILE / 2)
        return [Arrow(ends[0], y - 6, ends[1], y - 6, bend=0.0), Label((ends[0] + ends[1]) / 2, y + 12, texts[0])]
    lines = [", ".join(texts[:2]), ", ".join(texts[2:])] if len(texts) > 2 else [", ".join(texts)]
    text = "\n".join(lines)
    return [Box(0, y - 7 - 3 * len(lines), 400, 6 + 16 * len(lines), text, "wire")]


def _named(what: str) -> str:
    return ", ".join(what.split())


def _alt(way: str, step: int, phase: Phase) -> str:
    """The step in words."""
    says = " ".join(phase.says.split()).rstrip(".")
    moved = [f"{move.collective} of {_named(move.what)} among {move.ranks} GPUs" for move in phase.moves]
    return f"{way}, {PHASES[step]}: {says}. " + (f"Exchange: {'; '.join(moved)}." if moved else "No exchange.")
