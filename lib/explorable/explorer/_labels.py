"""Names of curves that stand on them, in place of a key below: where each has room in the picture that comes first.

A place is a point of the grid and a side of the curve; how high a name stands there follows from the curve along it, so
that a name never covers what it names. The script keeps a place while it is free, and else looks for another in the
same way.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ._axes import NONE, Scale
from ._table import Table

# In pixels: the picture on a telephone and on a page, the advance of a letter, a line, and what stays free around it.
_NARROW, _WIDE = (290.0, 190.0), (620.0, 270.0)
_LETTER, _LINE, _GAP = 7.4, 17.0, 4.0
_TRIES = 24  # places along a curve


@dataclass(frozen=True)
class Place:
    """Where the name of a curve stands: over or under it, in the middle of a stretch of the grid."""

    at: int
    above: bool
    edge: float  # of the curve along the name, in thousandths of the axis
    narrow: bool  # whether a telephone has room for it too


@dataclass(frozen=True)
class _Box:
    """What takes room in the picture, in thousandths of the axes."""

    left: float
    right: float
    bottom: float
    top: float

    def meets(self, other: _Box) -> bool:
        """Whether two boxes share room."""
        apart = self.left >= other.right or other.left >= self.right
        return not (apart or self.bottom >= other.top or other.bottom >= self.top)


def places(table: Table, start: int, keys: frozenset[str]) -> list[Place | None]:
    """A place for the name of each curve, or None: then it has a key. ``keys`` are names that must have one."""
    names = list(table.first.curves)
    if not (names and table.x and table.y):
        return [None] * len(names)
    grid = _placed(table.x, table.grid)
    codes = table.curves[table.records[start, : len(names)].astype(int)]
    curves = np.where(codes == NONE, np.nan, _placed(table.y, codes))
    found: list[Place | None] = [None] * len(names)
    kept: list[_Box] = []
    for size in (_NARROW, _WIDE):  # what has room on a telephone stands there on every screen
        taken = _taken(table, start, size) + kept
        for i, name in enumerate(names):
            one = None if name in keys or found[i] else _free(grid, curves, i, name, size, taken)
            if one:
                found[i] = replace(one[0], narrow=size is _NARROW)
                kept.append(one[1])
                taken.append(one[1])
    return found


def _placed(scale: Scale, codes: np.ndarray) -> np.ndarray:
    """Places of codes, in thousandths of an axis."""
    zero = scale.place(0)
    return zero + (scale.place(1) - zero) * codes.astype(float)


def _free(
    grid: np.ndarray, curves: np.ndarray, i: int, name: str, size: tuple[float, float], taken: list[_Box]
) -> tuple[Place, _Box] | None:
    """The place along one curve that is farthest from what else is drawn, and its box."""
    half = 1000 * (_LETTER * len(name) / 2 + 4) / size[0]
    tall, gap = 1000 * _LINE / size[1], 1000 * _GAP / size[1]
    best, most = None, 0.0
    for x in np.linspace(half, 1000 - half, _TRIES) if half < 500 else ():
        at = int(np.abs(grid - x).argmin())
        ends = grid[at] - half, grid[at] + half
        near = (grid >= ends[0]) & (grid <= ends[1])
        along = np.array([[*curve[near], *np.interp(ends, grid, curve)] for curve in curves])
        if not (half <= grid[at] <= 1000 - half and 0 <= curves[i, at] <= 1000):
            continue
        for above in (True, False):
            edge = float(np.nanmax(along[i]) if above else np.nanmin(along[i]))
            box = _Box(
                grid[at] - half, grid[at] + half, *((edge, edge + gap + tall) if above else (edge - gap - tall, edge))
            )
            if box.bottom < 0 or box.top > 1000 or any(box.meets(other) for other in taken):
                continue
            room = min((_away(other, box) for k, other in enumerate(along) if k != i), default=200.0)
            if room > max(gap, most):
                most, best = min(room, 200.0), (Place(at, above, edge, narrow=False), box)
    return best


def _away(curve: np.ndarray, box: _Box) -> float:
    """How far a curve passes over or under a box; less than zero where it passes through."""
    there = curve[~np.isnan(curve)]
    return float(max(there.min() - box.top, box.bottom - there.max())) if there.size else 200.0


def _taken(table: Table, start: int, size: tuple[float, float]) -> list[_Box]:
    """Room that points, their labels, marks and rules take in the picture of a row."""
    assert table.x is not None
    assert table.y is not None
    wide, tall = 1000 / size[0], 1000 * _LINE / size[1]
    first, content = table.first, table.content
    codes = iter(table.records[start, len(first.curves) + len(first.readouts) :].tolist())
    taken = []
    for label in first.points:
        x, y = table.x.place(next(codes)), table.y.place(next(codes))
        text = wide * (_LETTER * len(label) + 18)  # to the left of its point in the right half
        taken.append(
            _Box(x - (text if x > 500 else 9 * wide), x + (9 * wide if x > 500 else text), y - tall / 2, y + tall / 2)
        )
    for i, label in enumerate(first.rules):
        x, text = table.x.place(next(codes)), wide * (_LETTER * len(label) + 6)
        taken.append(_Box(x - 2 * wide, x + 2 * wide, 0, 1000))
        taken.append(_Box(x - text * (x > 500), x + text * (x <= 500), 1000 - 1.2 * (i + 1) * tall, 1000))
    for count in content.mark_slots.values():
        for _ in range(count):
            x, y, _name = table.x.place(next(codes)), table.y.place(next(codes)), next(codes)
            taken.append(_Box(x - 4 * wide, x + 4 * wide, y - tall / 4, y + tall / 4))
    return taken
