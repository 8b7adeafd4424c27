"""Two trees over the same ranks: who adds in one is a leaf in the other, so that all ports share the sending."""

from __future__ import annotations

from clusterlab.units import fmt
from explorable import Arrow, Box, Label, Part, Scene, legend

TREE_RANKS = 8
TREES = ("A", "B")
_PITCH, _LEVEL, _BOX = 48.0, 48.0, (30.0, 22.0)


def parents(tree: str) -> list[int | None]:
    """Of each of eight ranks: the rank above it in one of the two trees, none where it is the top.

    The first is NCCL's, whose odd ranks are leaves; the second is its mirror image.

    Raises
    ------
    ValueError
        There is no such tree.

    Examples
    --------
    >>> parents("A")
    [None, 2, 4, 2, 0, 6, 4, 6]
    >>> parents("B")
    [1, 3, 1, 7, 5, 3, 5, None]
    """
    if tree not in TREES:
        raise ValueError(f"tree must be one of {', '.join(TREES)}, got {tree!r}")
    above: list[int | None] = [None]
    for rank in range(1, TREE_RANKS):
        low = rank & -rank
        near = (rank ^ low) | (low << 1)
        above.append(near if near < TREE_RANKS else rank ^ low)
    if tree == "A":
        return above
    last = TREE_RANKS - 1
    return [None if (up := above[last - rank]) is None else last - up for rank in range(TREE_RANKS)]


def sends(rank: int) -> tuple[int, int]:
    """How many halves of the buffer a rank sends in both trees: upward, adding, and downward, copying.

    Raises
    ------
    ValueError
        There is no such rank.

    Examples
    --------
    >>> sends(2), sends(0)
    ((2, 2), (1, 1))
    """
    if rank not in range(TREE_RANKS):
        raise ValueError(f"rank must be a whole number from 0 to {TREE_RANKS - 1}, got {rank!r}")
    above = [parents(tree) for tree in TREES]
    return sum(one[rank] is not None for one in above), sum(one.count(rank) for one in above)


def _message(start: tuple[float, float], end: tuple[float, float], text: str) -> list[Part]:
    """An arrow with what it carries: halfway where it's long, else on its outer side, where there is room."""
    (x0, y0), (x1, y1) = start, end
    if abs(x1 - x0) > _PITCH:
        return [Arrow(x0, y0, x1, y1, text, "wire")]
    low, top = (x0, x1) if y0 > y1 else (x1, x0)
    side, anchor = (-10, "end") if low < top else (10, "start")
    return [Arrow(x0, y0, x1, y1, kind="wire"), Label((x0 + x1) / 2 + side, (y0 + y1) / 2 - 1, text, anchor)]


def two_trees(rank: int, size: float) -> Scene:
    """Draw both trees, and what one rank sends in each: its half of the sum upward, and its half of the copy downward.

    Parameters
    ----------
    rank : int
        The rank whose messages are drawn.
    size : float
        Bytes of the whole buffer.

    Examples
    --------
    >>> two_trees(2, 1e9).alt[:82]
    'Two trees over eight ranks. Rank 2 adds in tree A and is a leaf in tree B: it send'
    """
    up, down = sends(rank)
    half, wide, high = fmt(size / 2, "B"), *_BOX
    parts: list[Part] = []
    moves: list[Part] = []
    boxes: list[Part] = []
    for which, tree in enumerate(TREES):
        above, top = parents(tree), 5 + which * (3 * _LEVEL + high + 22)
        title = f"Tree {tree}: {('one half', 'the other half')[which]}"
        parts.append(Label((400, 0)[which], top + 6, title, ("end", "start")[which], strong=True))

        def place(of: int, above: list[int | None] = above, top: float = top) -> tuple[float, float]:
            """Middle of a rank's upper edge."""
            depth, at = 0, above[of]
            while at is not None:
                depth, at = depth + 1, above[at]
            return 32 + _PITCH * of, top + _LEVEL * depth

        for one in range(TREE_RANKS):
            x, y = place(one)
            adds = one in above
            if one == rank:
                boxes.append(Box(x - wide / 2 - 4, y - 4, wide + 8, high + 8, kind="wire", solid=True))
            boxes.append(Box(x - wide / 2, y, wide, high, f"{one}", "compute", solid=adds))
            if (parent := above[one]) is None:
                continue
            px, py = place(parent)
            if one == rank:
                moves += _message((x, y - 4), (px, py + high), half)
            elif parent == rank:
                moves += _message((px, py + high + 4), (x, y), half)
            else:
                parts.append(Arrow(px, py + high, x, y, kind="ink", heads=0))
    bottom = 5 + 2 * (3 * _LEVEL + high) + 22 + 18
    parts += legend(
        4, bottom, [("adds", "compute", True), ("leaf", "compute", False), (f"rank {rank} sends", "wire", True)]
    )
    does = ["adds in" if rank in parents(tree) else "is a leaf in" for tree in TREES]
    alt = (
        f"Two trees over eight ranks. Rank {rank} {does[0]} tree A and {does[1]} tree B: it sends "
        f"{up} times up and {down} times down, {half} each."
    )
    return Scene(400, bottom + 12, [*parts, *moves, *boxes], alt=alt)
