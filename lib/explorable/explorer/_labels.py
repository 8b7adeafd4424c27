"""Names of curves, on them where each has room in the picture that comes first, and where labels of points stand.

A place is a point of the grid and a side of the curve; how high a name stands there follows from the curve along it, so
that a name never covers what it names. The script keeps a place while it is free, and else looks for another in the
same way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ._axes import NONE, Scale
from ._table import Table

# In pixels: the picture on a telephone and on a page, the advance of a letter, a line, and what stays free around it.
_NARROW, _WIDE = (290.0, 190.0), (620.0, 270.0)
_LETTER, _LINE, _GAP = 7.4, 17.0, 4.0
_TRIES = 24  # places along a curve
_NEAR = 250  # thousandths of the picture between two rules
_TAG = 13.0  # pixels of the letters of a point's label
_SIDES = [(1, 0), (-1, 0), (0, 1), (0, -1), (1, 1), (-1, 1), (1, -1), (-1, -1)]  # of a point: to the right, up
_FAR = (1.0, 2.4, 5.0)  # how far from it, where it is crowded


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


@dataclass(frozen=True)
class Side:
    """Where the label of a point stands: to its right or left, over or under it, or between two of them."""

    across: int
    up: int
    far: float = 1.0

    @property
    def gaps(self) -> tuple[float, float]:
        """How far it stands from the point, in its own letters."""
        return self.far * (0.45 if self.up else 0.6), self.far * (0.3 if self.across else 0.75)

    @property
    def transform(self) -> str:
        """The same, for a label whose left lower corner lies on the point."""
        right, over = (f"{gap:.2f}em" for gap in self.gaps)
        x = {1: right, 0: "-50%", -1: f"calc(-100% - {right})"}[self.across]
        y = {1: f"-{over}", 0: "50%", -1: f"calc(100% + {over})"}[self.up]
        return f"translate({x}, {y})"

    def box(self, x: float, y: float, label: str, size: tuple[float, float]) -> _Box:
        """The room that it takes beside a point."""
        wide, tall = _LETTER * len(label) + 6, _LINE
        left = {1: 0.0, 0: -wide / 2, -1: -wide}[self.across] + self.across * _TAG * self.gaps[0]
        low = {1: 0.0, 0: -tall / 2, -1: -tall}[self.up] + self.up * _TAG * self.gaps[1]
        w, h = 1000 / size[0], 1000 / size[1]
        return _Box(x + w * left, x + w * (left + wide), y + h * low, y + h * (low + tall))


def sides_of_both(table: Table, start: int) -> list[tuple[Side, Side]]:
    """The side of each point on a telephone and on a page: the same, if its label stands close to it on a telephone."""
    both = zip(sides(table, start), sides(table, start, _WIDE), strict=True)
    return [(slim, slim if slim.far == _FAR[0] else wide) for slim, wide in both]


def sides(table: Table, start: int, size: tuple[float, float] = _NARROW) -> list[Side]:
    """The side of each point at which its label covers least: what a telephone has room for, all have."""
    if not (table.x and table.y):
        return [Side(1, 0)] * len(table.first.points)
    grid, names = _placed(table.x, table.grid), len(table.first.curves)
    codes = table.curves[table.records[start, :names].astype(int)] if names else np.zeros((0, grid.size))
    curves = np.where(codes == NONE, np.nan, _placed(table.y, codes))
    found: list[Side] = []
    points, rules = _points(table, start)
    taken = [_Box(x - 2000 / size[0], x + 2000 / size[0], 0, 1000) for x in rules]
    for label, (x, y) in zip(table.first.points, points, strict=True):
        order = _SIDES if x <= 500 else [_SIDES[1], _SIDES[0], *_SIDES[2:]]
        ways = [Side(*side, far) for far in _FAR for side in order]
        boxes = [way.box(x, y, label, size) for way in ways]
        costs = [
            _crossed(grid, curves, box)
            + way.far / 10
            + 1000 * (min(box.left, box.bottom) < 0 or max(box.right, box.top) > 1000)
            + 100 * sum(box.meets(other) for other in taken)
            for way, box in zip(ways, boxes, strict=True)
        ]
        best = costs.index(min(costs))
        found.append(ways[best])
        taken.append(boxes[best])
    return found


def _points(table: Table, start: int) -> tuple[list[tuple[float, float]], list[float]]:
    """Places of the points of a row, and of its rules."""
    assert table.x is not None
    assert table.y is not None
    first = len(table.first.curves) + len(table.first.readouts)
    last = first + 2 * len(table.first.points)
    codes = table.records[start, first:last].reshape(-1, 2).tolist()
    rules = table.records[start, last : last + len(table.first.rules)].tolist()
    return [(table.x.place(x), table.y.place(y)) for x, y in codes], [table.x.place(x) for x in rules if x != NONE]


def _crossed(grid: np.ndarray, curves: np.ndarray, box: _Box) -> int:
    """How many pieces of curves pass through a box."""
    if grid.size < 2:
        return 0
    a, b, u, v = grid[:-1], grid[1:], curves[:, :-1], curves[:, 1:]
    steep = (v - u) / np.where(b > a, b - a, 1)
    ends = [u + steep * (np.clip(end, a, b) - a) for end in (box.left, box.right)]
    meets = (b >= box.left) & (a <= box.right) & (np.maximum(*ends) > box.bottom) & (np.minimum(*ends) < box.top)
    return int(meets.sum())


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


def rule_stands(rules: Sequence[tuple[str, float]]) -> list[tuple[bool, int]]:
    """Whether the label of each rule stands to its left, and in which row.

    It stands towards the middle, or away from a rule that is near. Labels that are together no longer than that have
    one row, for they never meet.

    Examples
    --------
    >>> rule_stands([("now", 600.0), ("places", 660.0)]), rule_stands([("from", 300.0), ("to", 600.0)])
    ([(True, 0), (False, 1)], [(False, 0), (True, 0)])
    """
    level = sum(_LETTER * len(label) + 6 for label, _ in rules) * 1000 / _NARROW[0] <= _NEAR
    found = []
    for i, (_, x) in enumerate(rules):
        near = next((other - x for _, other in rules if 0 < abs(other - x) < _NEAR), 0.0)
        border = 500 if not near else _NEAR if near > 0 else 1000 - _NEAR
        found.append((x > border, 0 if level else i))
    return found


def _taken(table: Table, start: int, size: tuple[float, float]) -> list[_Box]:
    """Room that points, their labels, marks and rules take in the picture of a row."""
    assert table.x is not None
    assert table.y is not None
    wide, tall = 1000 / size[0], 1000 * _LINE / size[1]
    first, content = table.first, table.content
    codes = iter(table.records[start, len(first.curves) + len(first.readouts) :].tolist())
    taken = []
    for label, side in zip(first.points, sides(table, start, size), strict=True):
        x, y = table.x.place(next(codes)), table.y.place(next(codes))
        taken.append(side.box(x, y, label, size))
        taken.append(_Box(x - 9 * wide, x + 9 * wide, y - tall / 2, y + tall / 2))
    rules = [(label, table.x.place(next(codes))) for label in first.rules]
    for (label, x), (left, row) in zip(rules, rule_stands(rules), strict=True):
        text = wide * (_LETTER * len(label) + 6)
        taken.append(_Box(x - 2 * wide, x + 2 * wide, 0, 1000))
        taken.append(_Box(x - text * left, x + text * (not left), 1000 - 1.2 * (row + 1) * tall, 1000))
    for count in content.mark_slots.values():
        for _ in range(count):
            x, y, _name = table.x.place(next(codes)), table.y.place(next(codes)), next(codes)
            taken.append(_Box(x - 4 * wide, x + 4 * wide, y - tall / 4, y + tall / 4))
    return taken
