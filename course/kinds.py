"""Kinds of questions that only the course asks: an estimate by hand, and a plan with one wrong line."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from clusterlab.units import fmt
from explorable.question import Question, Verdict, line_and_value

from .problems import Draw

_FACTOR = 2.0  # what an estimate may be off by


def rough(value: float) -> str:
    """A number as one writes it in a sum by hand: two digits, and a power of ten.

    Examples
    --------
    >>> rough(45.4), rough(2.13e15), rough(13.4)
    ('45', '2.1e15', '13')
    """
    return re.sub(r"e\+0?", "e", f"{value:.2g}")


@dataclass(frozen=True, repr=False)
class Estimate(Question):
    """A quantity to be found by hand, within a factor of two. The way shows the sum, with round numbers.

    A known mistake is one that is made with numbers as round: it is told within a factor of 1.4.

    Examples
    --------
    >>> time = Estimate("How long, by hand?", 2.0, "s", mistakes={"Bits for bytes.": 16.0})
    >>> time.judge("1.1 s"), time.judge(3.9), time.judge("14 s"), time.judge("5 s"), time.judge("2 ms")
    (✓ Right: 2 s, within a factor of two., ✓ Right: 2 s, within a factor of two., ✗ Bits for bytes., ✗ Too large., \
✗ Off by more than a factor of two: look at the prefixes and the unit.)
    """

    def span(self, target: float) -> tuple[float, float]:
        """From half of the answer to twice it."""
        factor = _FACTOR if target == self.answer else math.sqrt(_FACTOR)
        return target / factor, target * factor

    def judge(self, answer: str | float) -> Verdict:
        """Say whether an answer is within a factor of two."""
        verdict = super().judge(answer)
        if verdict.right:
            return Verdict("right", f"Right: {self.shown}, within a factor of two.")
        if verdict.kind in ("unit", "prefix"):  # near enough to half of all numbers to mean nothing
            return Verdict("far", "Off by more than a factor of two: look at the prefixes and the unit.")
        return verdict


@dataclass(frozen=True, repr=False)
class Flaw(Question):
    """Which line of a plan is wrong, and what it should say: ``4: 3.35 ms``.

    Parameters
    ----------
    line : int
        The line that is wrong, from 1.
    units : sequence of str
        The unit of each line.
    slip : str
        What went wrong there.
    later : mapping
        What the lines after it say once it is mended, of those that change.

    Examples
    --------
    >>> plan = Flaw("1. GPUs: 16. 2. Time: 8 s. 3. All: 128 s.", 4.0, "s", line=2, units=("GPUs", "s", "s"),
    ...             slip="Halved twice.", later={3: 64.0})
    >>> plan.judge("2: 4 s"), plan.judge("2: 3 s"), plan.judge("1: 4 GPUs")
    (✓ Right: line 2, 4 s., ✗ Line 2 it is; but it should say something else., ✗ Line 1 follows from what is before it.)
    >>> plan.judge("3: 64 s")
    ✗ Line 3 should say that in the end, but it only goes on from a line before it that is wrong by itself.
    >>> plan.judge("4 s")
    ✗ Write the line and what it should say, such as "4: 3.35 ms".
    """

    line: int = 0
    units: Sequence[str] = field(default=())
    slip: str = ""
    later: Mapping[int, float] = field(default_factory=dict)

    def judge(self, answer: str | float) -> Verdict:
        """Say whether the line is the wrong one, and then whether its value is right."""
        line, said = line_and_value(answer) or (0, "")
        if not 1 <= line <= len(self.units):
            return Verdict("unread", 'Write the line and what it should say, such as "4: 3.35 ms".')
        if line in self.later and Question("?", self.later[line], self.units[line - 1]).judge(said).right:
            return Verdict("mistake", self.symptom(line))
        if line != self.line:
            return Verdict("line", f"Line {line} follows from what is before it.")
        if super().judge(said).right:
            return Verdict("right", f"Right: line {line}, {self.shown}.")
        return Verdict("mistake", f"Line {line} it is; but it should say something else.")

    def symptom(self, line: int) -> str:
        """What is said to who mends a line that is only wrong with the one before it."""
        told = "should say that in the end, but it only goes on from a line before it that is wrong by itself."
        return f"Line {line} {told}"


class Line(NamedTuple):
    """A line of a plan: what it says, its value from those of the lines before it, and how it may go wrong."""

    says: str
    unit: str
    value: Callable[[Sequence[float]], float]
    slips: Mapping[str, Callable[[Sequence[float]], float]] = {}


def _told(value: float, line: Line) -> str:
    """The value with its unit, unless what the line says names it already."""
    if line.unit == "FLOP":
        return re.sub(r"e\+0?", "e", f"{value:.4g} FLOP")
    told = fmt(value, line.unit, 4)
    named = line.unit.lower() in re.findall(r"[\w-]+", line.says.lower())
    return told.removesuffix(f" {line.unit}") if named else told


def flawed(draw: Draw, opening: str, lines: Sequence[Line], hints: Sequence[str]) -> Flaw:
    """A plan with one mistake, drawn from those that its lines may have. The lines after it go on from it."""
    at, slip = draw.one_of([(number, slip) for number, line in enumerate(lines) for slip in line.slips])
    values, mended, right = list[float](), list[float](), 0.0
    for number, line in enumerate(lines):
        values.append(float(line.value(values)))
        mended.append(float(line.value(mended)))
        if number == at:
            right, values[at] = values[at], float(line.slips[slip](values[:at]))
    draw.require(not 0.8 < values[at] / right < 1.25)
    draw.require(
        all(0 < value < (1 if line.unit == "%" else math.inf) for value, line in zip(values, lines, strict=True))
    )
    told = [
        f"{n}. {line.says}: {_told(value, line)}." for n, (value, line) in enumerate(zip(values, lines, strict=True), 1)
    ]
    return Flaw(
        f"{opening} One line is wrong by itself; those after it go on from it. Which, and what should it say?\n\n"
        + "\n".join(told),
        right,
        lines[at].unit,
        hints=hints,
        way=f"{slip} Line {at + 1} should say {fmt(right, lines[at].unit)}.",
        line=at + 1,
        units=tuple(line.unit for line in lines),
        slip=slip,
        later={n + 1: mended[n] for n in range(at + 1, len(lines)) if not 0.97 < mended[n] / values[n] < 1.03},
    )
