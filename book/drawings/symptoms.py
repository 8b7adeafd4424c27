"""Symptoms: what tells the suspects apart, and what each lever brings, by a case without it and with it.

A row names a measurement and the command or counter that makes it, the suspect that it convicts, the place in the book
with its law and its figure, a lever, and the same case computed without the lever and with it, with its conditions
folded behind the lever. Where it's known how often such a comparison came true, the gain has its ends, and a gain that
may be none says so. So does one whose ends were borrowed from another lever. What nobody has tested has neither a factor nor hours.
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
        The command, counter or log line that shows it: what can be pasted between backticks, words outside of them.
    cause : str
        What limits.
    at : str
        Where the book explains it, with a figure: ``"pipeline.ipynb#the-bubble"``.
    law : str
        The law in the library, by its room: ``"parallelism.bubble_fraction"``.
    lever : str
        What is done.
    before, after : str
        The case without it and with it, with their unit.
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
    frees : bool
        The same GPUs do as many times more, so that it gives GPU-hours back.
    simulated : bool
        The case was simulated, and is no sum.
    healthy : str
        What the measurement shows where nothing is wrong, if a law or a maker says so.
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
    frees: bool = False
    simulated: bool = False
    healthy: str = ""
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
    def better(self) -> str:
        """How many times better, with the ends; nothing where it's a law's word alone."""
        low, high = map(_in_two, self.ends)
        ends = f" ({low} to {high})" if low != high else ""
        return "" if self.basis == "untested" else f"{_in_two(self.times)} times{ends}"

    @property
    def size(self) -> str:
        """The case without the lever and with it, and how many times better that is."""
        return f"{self.before} → {self.after}" + f": {self.better}" * bool(self.better)

    @property
    def hours(self) -> str:
        """How many of 100 GPU-hours it gives back in its case; nothing where that has no meaning, or no test."""
        return f"{100 * (1 - 1 / self.times):.2g}" if self.frees and self.basis != "untested" else ""

    @property
    def known(self) -> str:
        """How its size is known, and whether it may be nothing."""
        how = "measured" if self.basis == "measured" else "simulated" if self.simulated else "computed"
        low, high = map(_in_two, self.ends)
        says = [how, *[self.basis] * (self.basis in BASES[:2]), *["may be nothing"] * (low != high and float(low) <= 1)]
        return ", ".join(says)


@dataclass(frozen=True, repr=False)
class Levers:
    """The suspects of one symptom as a table: aligned text, or Markdown with links into the book.

    Examples
    --------
    >>> bubble = Lever("idle at both ends", "nsys", "the bubble", "pipeline.ipynb#the-bubble",
    ...                "parallelism.bubble_fraction", "four chunks", "39.7%", "42.4%", 1.07, frees=True)
    >>> Levers([bubble])
    you measure        with  suspect     lever        size                       of 100 GPU-hours  known     case
    idle at both ends  nsys  the bubble  four chunks  39.7% → 42.4%: 1.07 times  6.5               computed  -
    >>> print(Levers([bubble])._repr_markdown_().splitlines()[4].partition(" | ")[2].partition(" | ")[0])
    **[the bubble](pipeline.ipynb#the-bubble)** ([law](#clusterlab.parallelism.bubble_fraction))
    """

    rows: Sequence[Lever]

    def __repr__(self) -> str:
        """Return the table as aligned text."""
        head = ("you measure", "with", "suspect", "lever", "size", "of 100 GPU-hours", "known", "case")
        body = [
            tuple(
                one.replace("`", "")
                for one in (
                    r.measured,
                    r.how + f"; healthy: {r.healthy}" * bool(r.healthy),
                    r.cause,
                    r.lever,
                    r.size,
                    r.hours or "-",
                    r.known,
                    r.case or "-",
                )
            )
            for r in self.rows
        ]
        return aligned([head, *body], left=8)

    def _repr_markdown_(self) -> str:
        """The script of the catalogue's tables sorts and filters what stands in such a box, by a cell's value."""
        heads = ("You measure", "Suspect", "Lever", "Its size", "Regained", "Known")
        lines = ['<div class="catalogue">', "", f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
        for r in self.rows:
            healthy = f"<br>Healthy: {r.healthy}" * bool(r.healthy)
            folded = f"<details><summary>the case</summary>{_shown(r.case)}</details>" if r.case else ""
            change = " → ".join(one.replace(" ", "\xa0", 1) for one in (r.before, r.after))
            better = "<br>" + r.better.replace(" ", "\xa0", 1) if r.better else ""
            cells = (
                f'{r.measured}<br><span class="how">{_shown(r.how)}{healthy}</span>',
                f"**[{r.cause}]({r.at})** ([law](#clusterlab.{r.law}))",
                _shown(r.lever) + folded,
                f'<span data-value="{r.times:.4g}">{change}{better}</span>',
                f'<span data-value="{100 * (1 - 1 / r.times):.3g}">{r.hours}</span>' if r.hours else "",
                r.known,
            )
            lines.append("| " + " | ".join(cell.replace("$", r"\$") for cell in cells) + " |")
        return "\n".join([*lines, "", "</div>"])


def _shown(text: str) -> str:
    """Text whose names may be broken, since they're wider than their column; what can be pasted stays as it is."""
    pieces = text.split("`")
    pieces[::2] = (words.replace("_", "_<wbr>") for words in pieces[::2])
    return "`".join(pieces)


def _in_two(number: float) -> str:
    """Two digits; below 2, where a tenth is much of a gain, hundredths."""
    return f"{round(number, 2) if number < 2 else float(f'{number:.2g}'):g}"


def sizes(levers: Levers, rows: int) -> Scene:
    """What each lever brought in its own case, on a logarithmic scale: a mark, and a band from end to end.

    The order is the table's, since cases differ. The scale ends at the farthest of these levers, so that small gains
    have as much room as large ones have elsewhere. What nobody has tested is grey.

    Parameters
    ----------
    levers : Levers
        Of a symptom, or of several.
    rows : int
        So many have room in the drawing, so that all are equally high; fewer stand further apart.

    Examples
    --------
    >>> bubble = Lever("idle at both ends", "nsys", "the bubble", "pipeline.ipynb#the-bubble",
    ...                "parallelism.bubble_fraction", "four chunks", "39.7%", "42.4%", 1.07, (0.91, 1.12))
    >>> sizes(Levers([bubble]), 6).alt
    'four chunks: 1.07 times (0.97 to 1.2), computed, may be nothing.'
    """
    top, room = 26.0, 388.0
    tall = top + 50.0 * rows
    row = (tall - top) / len(levers.rows)
    ends = [end for one in levers.rows for end in (*one.ends, one.times)]
    least, most = min(0.95, *ends), max(1.5, *ends)

    def at(times: float) -> float:
        return 6 + room * math.log(times / least) / math.log(most / least)

    round_numbers = (1, 1.2, 1.5, 2) if most < 3 else (1, 2, 4, 10) if most < 20 else (1, 3, 10, 30, 100)
    ticks = [times for times in round_numbers if times <= most]
    parts: list[Part] = []
    for times in ticks:
        said = f"{times} times" if times == ticks[-1] else f"{times}"
        parts.append(Label(min(at(times), 399 - breadth(said) / 2), 8, said))
    for i, one in enumerate(levers.rows):
        y, (low, high), untested = top + i * row, one.ends, one.basis == "untested"
        kind = "grey" if untested else "compute"
        parts.append(Label(4, y + 8, re.sub("[*`]", "", one.lever), "start"))
        # Lines beside the band alone, for from top to bottom they would run through the words.
        parts += [Arrow(at(times), y + 16, at(times), y + 30, kind="grey", heads=0, faint=True) for times in ticks]
        left, right = at(low), at(high)
        if right - left > 1:
            parts.append(Box(left, y + 18, right - left, 9, kind=kind))
        parts.append(Box(at(one.times) - 2.5, y + 16, 5, 13, kind=kind, solid=not untested))
        least_of, most_of = map(_in_two, (low, high))
        band = f", {least_of} to {most_of}" if least_of != most_of else ""
        said = "untested" if untested else f"{_in_two(one.times)}{band}" + f", {one.basis}" * bool(one.basis)
        start = min(left, at(one.times) - 2.5, 396 - 1.1 * breadth(said))
        parts.append(Label(start, y + 38, said, "start", strong=not untested))
    told = "; ".join(f"{one.lever}: " + f"{one.better}, " * bool(one.better) + one.known for one in levers.rows)
    return Scene(400, tall, parts, alt=told.replace("`", "") + ".")


def heaps(
    bars: Mapping[str, Mapping[str, tuple[float, str]]], unit: str = "s", longest: float | None = None, digits: int = 3
) -> Scene:
    """Bars cut into parts, all on one scale; a part without room for its name is named below, beside its colour.

    Parameters
    ----------
    bars : mapping
        Name of a bar to its parts: their name to their size and what it is, a name of the palette.
    unit : str
        Of the sizes.
    longest : float, optional
        What is as long as the drawing is wide; the longest bar where it's left out.
    digits : int
        Of the sizes.

    Examples
    --------
    >>> heaps({"one step": {"GEMMs": (0.2, "compute"), "idle": (0.6, "waste")}}).alt
    'one step, 800 ms: GEMMs 200 ms, idle 600 ms.'
    """
    pitch = 62.0
    longest = longest or max(sum(size for size, _ in parts.values()) for parts in bars.values())
    drawn: list[Part] = []
    told = []
    for i, (name, parts) in enumerate(bars.items()):
        y, x, at = i * pitch, 0.0, 0.0
        below: list[tuple[str, str]] = []
        whole = fmt(sum(size for size, _ in parts.values()), unit, digits)
        drawn += [Label(0, y + 8, name, "start", strong=True), Label(400, y + 8, whole, "end", strong=True)]
        for part, (size, kind) in parts.items():
            width, said = 400 * size / longest, f"{part} {fmt(size, unit, digits)}"
            if width >= 0.5:
                fits = breadth(said) <= width
                drawn.append(Box(x, y + 18, min(width, 400 - x), 22, said * fits, kind, solid=True))
                below += [(said, kind)] * (not fits)
                x += width
        for said, kind in below:
            drawn += [Box(at + 1, y + 44, 8, 8, kind=kind, solid=True), Label(at + 13, y + 49, said, "start")]
            at += 28 + breadth(said)
        sizes_ = (f"{part} {fmt(one, unit, digits)}" for part, (one, _) in parts.items())
        told.append(f"{name}, {whole}: " + ", ".join(sizes_))
    return Scene(400, pitch * len(bars), drawn, alt="; ".join(told) + ".")


#: What a rank does in a step, and its colour: what a profile calls NCCL is the last two.
DOES = {"idle": "idle", "GEMMs": "compute", "other": "forward", "sends": "wire", "waits": "waste"}


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
                drawn.append(Box(x, y, min(width, 400 - x), 28, text, kind, solid=name != "idle"))
                x += width
        told.append(f"rank {rank}: " + ", ".join(f"{name} {fmt(time, 's', 2)}" for name, time in sums.items()))
    return Scene(400, pitch * len(ranks), drawn, alt="; ".join(told) + ".")


def columns(times: Mapping[str, float], unit: str = "s") -> Scene:
    """A column for each member of a group, as high as its collectives take, with its number below.

    Examples
    --------
    >>> columns({"0": 1.6, "1": 0.07}).alt
    '0: 1.6 s, 1: 70 ms.'
    """
    pitch, floor = 400 / len(times), 128.0
    most = max(times.values())
    drawn: list[Part] = [Label(0, 9, f"the longest {fmt(most, unit, 2)}", "start")]
    drawn.append(Label(400, 9, f"the shortest {fmt(min(times.values()), unit, 2)}", "end"))
    for i, (name, time) in enumerate(times.items()):
        high = max(2.0, 104 * time / most)
        drawn.append(Box(i * pitch + 0.15 * pitch, floor - high, 0.7 * pitch, high, kind="wire", solid=True))
        drawn.append(Label((i + 0.5) * pitch, floor + 13, name))
    told = ", ".join(f"{name}: {fmt(time, unit, 2)}" for name, time in times.items())
    return Scene(400, floor + 20, drawn, alt=told + ".")
