"""Names of kinds of bars that stand on them, in place of a key below: in a bar with room, or over one behind a line.

What a lane's label names needs no other name. A name stands in the longest bar of its kind that has room, else over
one, where a line leads to the bar: over the first lane in rows, over another in the gap between the two. What has room
nowhere stands at the side of its bar, or over its end. The script does the same with the widths that it measures.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

# In pixels: a figure on a telephone and on a page, the advance of a letter in the picture and beside it, a lane, a row.
NARROW, WIDE = 335.0, 690.0
_LETTER, _SMALL, PITCH, ROW = 7.0, 6.8, 48.0, 17.7
BAR = 0.6  # of a lane
LANES = 1.5  # one lane alone is so high
_ROWS = 8  # at most so many names over one another
_KEY = 14  # room for a square of the colour


class Bar(NamedTuple):
    """One bar of a kind: its lane, its ends in pixels, and how many letters stand in it."""

    lane: int
    left: float
    right: float
    letters: int = 0


class Stand(NamedTuple):
    """Where the name of a kind stands.

    ``way`` is in a bar; to the start or the end of a line over it; at its side, or over the right end of all.
    """

    way: str
    lane: int
    x: float
    up: float = 0.0  # pixels between the name and the bar


class _Box(NamedTuple):
    left: float
    right: float
    top: float
    bottom: float

    def meets(self, other: _Box) -> bool:
        across = self.left < other.right and other.left < self.right
        return across and self.top < other.bottom and other.top < self.bottom


def named_by_lane(lane: str, kind: str) -> bool:
    """Whether the label of a lane is the name of the kind, or begins with it and a colon."""
    return lane.split(":")[0].strip().lower() == kind.lower()


def width(total: float, lanes: Sequence[str]) -> float:
    """Width of the picture beside the labels of its lanes."""
    return total - min(110.0 if total == NARROW else total / 2, _SMALL * max(map(len, lanes)) + 8)


class Lanes:
    """A picture of lanes, so wide, in which names look for room."""

    def __init__(self, count: int, wide: float, rules: Sequence[tuple[str, float]]) -> None:
        self.wide, self.pitch = wide, PITCH * max(LANES, count) / count
        self.top = self.pitch * (1 - BAR) / 2  # of the first bar
        self.over = ROW + self.top if rules else 0.0  # what stands over the first lane is over the labels of rules
        self.taken = [_Box(x - 2, x + 2, 0, 1e4) for _, x in rules]
        for label, x in rules:
            long = _LETTER * len(label) + 8
            self.taken.append(_Box(x - long * (x > wide / 2), x + long * (x <= wide / 2), -ROW, 0))

    def stands(self, kinds: Sequence[tuple[str, Sequence[Bar]]]) -> tuple[list[Stand | None], float]:
        """A place for the name of each kind, None where nothing of it is there; and the room over the lanes."""
        rooms = [_LETTER * len(name) + 14 for name, _ in kinds]
        bars = [sorted(of, key=lambda bar: bar.left - bar.right) for _, of in kinds]
        found = [self._first(self._inside(of, room), room) for of, room in zip(bars, rooms, strict=True)]
        # What has no room to the right of its line stands to the left, from left to right; then the others, backwards.
        rest = sorted((i for i, of in enumerate(bars) if of and not found[i]), key=lambda i: bars[i][0].left)
        late = [i for i in rest if bars[i][0].left + rooms[i] > self.wide]
        if late and self.pitch > PITCH:  # over one lane all go one way, or a name would bar the way of a line
            late = rest
        for i in late + [i for i in reversed(rest) if i not in late]:
            longest = list({bar.lane: bar for bar in reversed(bars[i])}.values())[::-1]
            ends = {bar.lane: max(b.right for of in bars for b in of if b.lane == bar.lane) for bar in longest}
            found[i] = self._first(self._outside(longest, ends, i in late), rooms[i])
        ups = [stand.up for stand in found if stand and stand.lane == 0 and stand.way in ("start", "end", "key")]
        return found, max(0.0, max(ups) + ROW - self.top) if ups else 0.0

    def _first(self, tries: Iterator[Stand], room: float) -> Stand | None:
        """The first place that is free, and from now on taken."""
        for stand in tries:
            way, lane, x, up = stand
            long = room + _KEY * (way in ("side", "key"))
            left = x - {"in": long / 2, "end": long, "key": long}.get(way, 0.0)
            bottom = self.top + lane * self.pitch - up
            if way in ("in", "side"):
                bottom += (self.pitch * BAR + ROW) / 2
            own = [_Box(left, left + long, bottom - ROW, bottom)]
            if way in ("start", "end"):
                own.append(_Box(x - 1, x + 1, bottom, bottom + up))
            if left >= 0 and left + long <= self.wide and not any(a.meets(b) for a in own for b in self.taken):
                self.taken += own
                return stand
        return None

    @staticmethod
    def _inside(bars: Sequence[Bar], room: float) -> Iterator[Stand]:
        """Places in the bars that have room, before what else stands in them."""
        for lane, left, right, letters in bars:
            free = (right - left - _LETTER * letters - 8) / 2 if letters else right - left
            if free >= room:
                middle = [] if letters else [(left + right) / 2]
                yield from (Stand("in", lane, x) for x in (*middle, left + room / 2, right - room / 2))

    def _outside(self, bars: Sequence[Bar], ends: dict[int, float], late: bool) -> Iterator[Stand]:
        """Places over the longest bar of each lane, the nearer rows first; then at its side, then over the end."""
        ways = ("end", "start") if late else ("start", "end")
        for rows in (range(2), range(2, _ROWS)) if self.pitch == PITCH else [range(_ROWS)]:
            for lane, left, right, _ in bars:
                short = min(1.0, (right - left) / 2)
                for way in ways:
                    x = left + short if way == "start" else right - short
                    for row in rows if lane == 0 else set(rows) & {0}:
                        yield Stand(way, lane, x, row * ROW + self.over * (lane == 0))
        for lane, *_ in bars:
            yield Stand("side", lane, ends[lane] + 4)
        for row in range(2 * _ROWS):
            yield Stand("key", 0, self.wide, row * ROW + self.over)
