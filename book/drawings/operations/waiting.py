"""Drawings of who waits for whom: the tail that the slowest rank comes from, and the way down to a slow rank."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist

from clusterlab.units import fmt
from explorable import Arrow, Band, Box, Label, Part, Scene

_BELL = NormalDist()


def tail(n: int) -> Scene:
    """Where the slowest of n ranks stands on the bell curve, and the box that is as large as what lies beyond.

    Parameters
    ----------
    n : int
        Ranks; some hundred or more.

    Examples
    --------
    >>> tail(16_384).alt
    'The slowest of 16,384 ranks stands 3.94 spreads out. Beyond lies about a box of width 1/3.94.'
    """
    place = math.sqrt(2 * math.log(n / 7))
    drawn: list[Part] = []

    def curve(start: float, end: float, left: float, per: float, foot: float, tall: float, kind: str) -> None:
        # The area under the bell curve from start to end, in slices of three units; `tall` units for a height of one.
        steps = round((end - start) * per / 3)
        at = [start + (end - start) * i / steps for i in range(steps + 1)]
        highs = [max(tall * _BELL.pdf(one), 0.1) for one in at]
        for i in range(steps):
            ends = left + per * (at[i] - start), left + per * (at[i + 1] - start)
            drawn.append(Band(ends[0], foot - highs[i], ends[1], foot - highs[i + 1], highs[i], highs[i + 1], kind))

    # The whole curve, small, and above it what its tail looks like from near.
    foot, per, left = 78.0, 24.0, 4.0
    curve(-4, 5, left, per, foot, 140, "compute")
    line = left + per * (place + 4)
    drawn.append(Arrow(left, foot, left + 9 * per, foot, kind="ink", heads=0))
    drawn.append(Arrow(line, foot - 24, line, foot + 4, kind="ink", heads=0))
    drawn.append(Label(left + 4 * per, foot + 13, "a rank's mean time"))
    drawn.append(Label(line + 6, foot - 32, f"{place:.2f} spreads", "start", strong=True))
    first, last, under = place - 0.2, place + 0.9, 258.0
    near, left, high = 356.0, 4.0, 70.0
    tall = high / _BELL.pdf(place)
    start = left + near * (place - first)
    wide = start + near / place
    drawn.append(Arrow(line, foot + 6, start + 2, under - high - 6, kind="grey", heads=0))
    drawn.append(Box(start, under - high, near / place, high, kind="ink"))
    curve(first, place, left, near, under, tall, "compute")
    curve(place, last, start, near, under, tall, "waste")
    drawn.append(Arrow(start, under - high, wide, under - high, kind="ink", heads=0))
    drawn.append(Arrow(wide, under - high, wide, under, kind="ink", heads=0))
    drawn.append(Arrow(left, under, left + near * (last - first), under, kind="ink", heads=0))
    told = ["the box, as high as the", "curve at x and 1/x wide,", "is about as large as all", "that lies beyond x"]
    for i, text in enumerate(told):
        drawn.append(Label(204, under - 142 + 16 * i, text, "start", strong=i < 2))
    drawn.append(Label(start, under + 12, "x"))
    drawn.append(Label(wide, under + 12, "x + 1/x"))
    said = f"stands {place:.2f} spreads out. Beyond lies about a box of width 1/{place:.2f}."
    return Scene(400, under + 22, drawn, alt=f"The slowest of {n:,} ranks {said}")


def descent(levels: Sequence[tuple[str, Sequence[str], Sequence[float]]]) -> Scene:
    """The way down to a slow rank: at each level a few groups, how long each is in its exchange, the shortest marked.

    Parameters
    ----------
    levels : sequence of (title, names, seconds)
        From the outermost groups to the ranks.

    Examples
    --------
    >>> descent([("replicas", ["0", "1"], [0.9, 0.3]), ("ranks", ["0", "1"], [0.8, 1.4])]).alt
    'replicas: the shortest is 1, 300 ms. ranks: the shortest is 0, 800 ms.'
    """
    row, high, bar = 88.0, 20.0, 46.0
    drawn: list[Part] = []
    said = []
    for i, (title, names, seconds) in enumerate(levels):
        y, wide = row * i, 400 / len(names)
        short = list(seconds).index(min(seconds))
        drawn.append(Label(0, y + 8, title, "start", strong=True))
        for j, (name, time) in enumerate(zip(names, seconds, strict=True)):
            x, length = wide * j, max(bar * time / max(seconds), 3.0)
            drawn.append(Label(x, y + 27, name, "start", strong=j == short))
            drawn.append(Box(x, y + 38, length, high, kind="wire", solid=j == short))
            drawn.append(Label(x + length + 4, y + 38 + high / 2, f"{time:.2g} s", "start", strong=j == short))
        if i + 1 < len(levels):
            drawn.append(Arrow(wide * short + 10, y + 62, wide * short + 10, y + row - 3, kind="ink"))
        said.append(f"{title}: the shortest is {names[short]}, {fmt(seconds[short], 's')}.")
    return Scene(400, row * len(levels) - 24, drawn, alt=" ".join(said))
