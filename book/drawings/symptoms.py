"""Symptoms: what tells the suspects apart, and what each lever brings, by a case without it and with it.

A row names a measurement and the command or counter that makes it, the suspect that it convicts, the place in the book
with its law and its figure, a lever, and the same case computed without the lever and with it, with its conditions
folded behind the lever. Where it's known how often such a comparison came true, the gain has its ends, and a gain that
may be none says so. So does one whose ends were borrowed from another lever, and one that nobody has tested.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from clusterlab.records import aligned
from clusterlab.units import fmt
from explorable import Arrow, Box, Label, Part, Scene, breadth

BASES = ("borrowed", "untested", "measured")
STEP = 1.5  # the gain that most published pairs have, about: what `Lever.sure` is learned at


@dataclass(frozen=True)
class Lever:
    """A suspect of a symptom, and the lever against it.

    Parameters
    ----------
    measured : str
        What you see if it's this one, and none of the others.
    how : str
        The command, counter or log line that shows it.
    cause : str
        What limits.
    at : str
        Where the book explains it, with a figure: ``"pipeline.ipynb#the-bubble"``.
    law : str
        The law in the library, by its room: ``"parallelism.bubble_fraction"``.
    lever : str
        What is done.
    before, after : str
        The case without it and with it, with their intervals where the law has one.
    times : float
        How many times better it is with the lever.
    sure : tuple of float
        Ends of what came of gains of up to 1.5, in multiples of what the law had said: ``(0.91, 1.12)``; (1, 1) where
        the gain is a sum and no prediction. A larger gain is several such steps, and raises them to its power.
    basis : str
        What the gain rests on, if neither on published pairs nor on a sum: ``"borrowed"`` ends, ``"untested"``, or
        ``"measured"``.
    most : float
        What the lever can give at most, whatever the law says: 2 where it halves bytes. It cuts the ends.
    own : bool
        The ends were computed for this very gain, and aren't raised.
    case : str
        What the row holds for, and how its numbers come about, where that's more than the table's common case.

    Raises
    ------
    ValueError
        It makes nothing better, gives more than it can, or rests on something else.
    """

    measured: str
    how: str
    cause: str
    at: str
    law: str
    lever: str
    before: str
    after: str
    times: float
    sure: tuple[float, float] = (1.0, 1.0)
    basis: str = ""
    most: float = math.inf
    own: bool = False
    case: str = ""

    def __post_init__(self) -> None:
        """Refuse a lever that does nothing."""
        if not self.times > 1:
            raise ValueError(f"a lever must make something better, got {self.times:g} times by {self.lever!r}")
        if self.times > self.most:
            raise ValueError(f"{self.lever!r} gives at most {self.most:g} times, got {self.times:g}")
        if self.basis not in ("", *BASES):
            raise ValueError(f"basis must be one of {', '.join(BASES)} or empty, got {self.basis!r}")

    @property
    def ends(self) -> tuple[float, float]:
        """Ends of what may come of the gain: raised with it, and cut at the most that the lever can give."""
        power = 1.0 if self.own else max(1.0, math.log(self.times, STEP))
        low, high = (min(self.times * end**power, self.most) for end in self.sure)
        return low, high

    @property
    def said(self) -> str:
        """How many times better, in two digits behind the 1; coarser where it's a law's word alone, and not near 1."""
        if self.basis == "untested" and self.times >= 1.1:
            return f"{float(f'{self.times:.{1 if self.times >= 10 else 2}g}'):g}"
        return _in_two(self.times)

    @property
    def better(self) -> str:
        """How many times better, with the ends, what it rests on, and whether it may be nothing."""
        low, high = map(_in_two, self.ends)
        ends = f" ({low} to {high})" if low != high else ""
        says = [self.basis] * bool(self.basis) + ["may be nothing"] * (bool(ends) and float(low) <= 1)
        return f"{self.said} times{ends}" + (": " + ", ".join(says) if says else "")


@dataclass(frozen=True, repr=False)
class Levers:
    """The suspects of one symptom as a table: aligned text, or Markdown with links into the book.

    Examples
    --------
    >>> bubble = Lever("idle at both ends", "nsys", "the bubble", "pipeline.ipynb#the-bubble",
    ...                "parallelism.bubble_fraction", "four chunks", "39.7%", "42.4%", 1.07, (0.91, 1.12))
    >>> Levers([bubble])
    you measure        with  it is       try          before  after  better                                    case
    idle at both ends  nsys  the bubble  four chunks  39.7%   42.4%  1.07 times (0.97 to 1.2): may be nothing  -
    >>> print(Levers([bubble])._repr_markdown_().splitlines()[2].partition(" | ")[2].partition(" | ")[0])
    **[the bubble](pipeline.ipynb#the-bubble)** ([law](#clusterlab.parallelism.bubble_fraction))
    """

    rows: Sequence[Lever]

    def __repr__(self) -> str:
        """Return the table as aligned text."""
        head = ("you measure", "with", "it is", "try", "before", "after", "better", "case")
        body = [
            (r.measured, r.how, r.cause, r.lever, _coarse(r.before), _coarse(r.after), r.better, r.case or "-")
            for r in self.rows
        ]
        return aligned([head, *body], left=8)

    def _repr_markdown_(self) -> str:
        lines = ["| You measure | So it is | Try | Before | After | Better |", "|---|---|---|---|---|---|"]
        for r in self.rows:
            cause = f"**[{r.cause}]({r.at})** ([law](#clusterlab.{r.law}))"
            seen = f"{r.measured}<br>`{r.how}`"
            case = r.case.replace("_", "_<wbr>")  # the name of a variable is wider than the column
            folded = f"<details><summary>the case</summary>{case}</details>" if r.case else ""
            cells = (
                seen,
                cause,
                r.lever.replace("_", "_<wbr>") + folded,
                _whole(_coarse(r.before)),
                _whole(_coarse(r.after)),
                _whole(r.better.replace(" times", "\xa0times")),
            )
            lines.append("| " + " | ".join(cell.replace("$", r"\$") for cell in cells) + " |")
        return "\n".join(lines)


def _in_two(number: float) -> str:
    """Two digits; below 2, where a tenth is much of a gain, hundredths."""
    return f"{round(number, 2) if number < 2 else float(f'{number:.2g}'):g}"


def _coarse(text: str) -> str:
    """A number with its interval, whose ends are rounded to two digits: they're no surer than that."""
    number, bracket, ends = text.partition(" (")
    return number + bracket + re.sub(r"\d+(?:\.\d+)?", lambda end: f"{float(f'{float(end[0]):.2g}'):g}", ends)


def _whole(text: str) -> str:
    """A number with its interval, which breaks before the interval and after it alone."""
    number, space, ends = text.partition(" (")
    ends, colon, says = ends.partition("): ")
    return number.replace(" ", "\xa0") + space + ends.replace(" ", "\xa0") + colon + says if space else text


def sizes(levers: Levers, rows: int) -> Scene:
    """What each lever brought in its own case, on a logarithmic scale: a mark, and a band from end to end.

    The order is the table's, since cases differ. What nobody has tested is grey.

    Parameters
    ----------
    levers : Levers
        Of one symptom.
    rows : int
        Rows of the drawing, so that those of all symptoms are equally high.

    Examples
    --------
    >>> bubble = Lever("idle at both ends", "nsys", "the bubble", "pipeline.ipynb#the-bubble",
    ...                "parallelism.bubble_fraction", "four chunks", "39.7%", "42.4%", 1.07, (0.91, 1.12))
    >>> sizes(Levers([bubble]), 6).alt
    'four chunks: 1.07 times (0.97 to 1.2): may be nothing.'
    """
    row, top, room, least, most = 50.0, 26.0, 392.0, 0.8, 40.0

    def at(times: float) -> float:
        return 4 + room * math.log(min(max(times, least), most) / least) / math.log(most / least)

    parts: list[Part] = [Label(at(times), 8, f"{times}") for times in (1, 2, 4, 10)]
    parts.append(Label(at(most), 8, f"{most:.0f} times", "end"))
    parts += [
        Arrow(at(times), 17, at(times), top + row * rows, kind="grey", heads=0, faint=True) for times in (1, 2, 4, 10)
    ]
    for i, one in enumerate(levers.rows):
        y, (low, high), untested = top + i * row, one.ends, one.basis == "untested"
        kind = "grey" if untested else "compute"
        parts.append(Label(4, y + 8, one.lever.replace("*", ""), "start"))
        left, right = at(low), at(high)
        if right - left > 1:
            parts.append(Box(left, y + 18, right - left, 9, kind=kind))
        parts.append(Box(at(one.times) - 2.5, y + 16, 5, 13, kind=kind, solid=not untested))
        least_of, most_of = map(_in_two, (low, high))
        ends = f", {least_of} to {most_of}" if least_of != most_of else ""
        said = f"{one.said}{ends}" + f", {one.basis}" * bool(one.basis)
        start = min(left, at(one.times) - 2.5, 396 - 1.1 * breadth(said))
        parts.append(Label(start, y + 38, said, "start", strong=not untested))
    told = "; ".join(f"{one.lever}: {one.better}" for one in levers.rows)
    return Scene(400, top + row * rows, parts, alt=told + ".")


def heaps(bars: Mapping[str, Mapping[str, tuple[float, str]]], unit: str = "s") -> Scene:
    """Bars cut into parts, all on one scale; a part that has no room for its name is named below its bar.

    Parameters
    ----------
    bars : mapping
        Name of a bar to its parts: their name to their size and what it is, a name of the palette.
    unit : str
        Of the sizes.

    Examples
    --------
    >>> heaps({"one step": {"GEMMs": (0.2, "compute"), "nothing": (0.6, "waste")}}).alt
    'one step, 800 ms: GEMMs 200 ms, nothing 600 ms.'
    """
    pitch, longest = 62.0, max(sum(size for size, _ in parts.values()) for parts in bars.values())
    drawn: list[Part] = []
    told = []
    for i, (name, parts) in enumerate(bars.items()):
        y, x, below = i * pitch, 0.0, []
        whole = fmt(sum(size for size, _ in parts.values()), unit)
        drawn += [Label(0, y + 8, name, "start", strong=True), Label(400, y + 8, whole, "end", strong=True)]
        for part, (size, kind) in parts.items():
            width, said = 400 * size / longest, f"{part} {fmt(size, unit)}"
            if width >= 0.5:
                fits = breadth(said) <= width
                drawn.append(Box(x, y + 18, min(width, 400 - x), 22, said * fits, kind, solid=True))
                below += [said] * (not fits)
                x += width
        if below:
            drawn.append(Label(0, y + 49, ", ".join(below), "start"))
        told.append(f"{name}, {whole}: " + ", ".join(f"{part} {fmt(one, unit)}" for part, (one, _) in parts.items()))
    return Scene(400, pitch * len(bars), drawn, alt="; ".join(told) + ".")


#: What a rank does in a step, and its colour: what a profile calls NCCL is the last two.
DOES = {"nothing": "idle", "GEMMs": "compute", "other": "forward", "sends": "wire", "waits": "waste"}


def who_waits(ranks: Sequence[Sequence[tuple[str, float]]], *, seen: bool) -> Scene:
    """One step on some ranks, from left to right, as it is or as a profile shows it: there, NCCL that waits, sends.

    Parameters
    ----------
    ranks : sequence
        Of each rank: what it does, a key of :data:`DOES`, and for how many seconds, in order.
    seen : bool
        As a profile shows it.

    Examples
    --------
    >>> late = [[("GEMMs", 1.0), ("waits", 0.2), ("sends", 0.1)], [("GEMMs", 1.2), ("sends", 0.1)]]
    >>> who_waits(late, seen=True).alt
    'rank 0: GEMMs 1 s, NCCL 300 ms; rank 1: GEMMs 1.2 s, NCCL 100 ms.'
    """
    left, right, pitch = 52.0, 398.0, 36.0
    per = (right - left) / max(sum(time for _, time in does) for does in ranks)
    drawn: list[Part] = []
    told = []
    for rank, does in enumerate(ranks):
        y, x = pitch * rank, left
        drawn.append(Label(0, y + 14, f"rank {rank}", "start"))
        sums: dict[str, float] = {}
        merged: list[tuple[str, str, float]] = []
        for what, time in does:
            name = "NCCL" if seen and what in ("sends", "waits") else what
            kind = "wire" if name == "NCCL" else DOES[what]
            sums[name] = sums.get(name, 0.0) + time
            if merged and merged[-1][0] == name:
                name, kind, time = name, kind, merged.pop()[2] + time
            merged.append((name, kind, time))
        for name, kind, time in merged:
            width = per * time
            if width > 0:
                text = name if breadth(name) <= width else ""
                drawn.append(Box(x, y, min(width, 400 - x), 28, text, kind, solid=name != "nothing"))
                x += width
        told.append(f"rank {rank}: " + ", ".join(f"{name} {fmt(time, 's', 2)}" for name, time in sums.items()))
    return Scene(400, pitch * len(ranks), drawn, alt="; ".join(told) + ".")
