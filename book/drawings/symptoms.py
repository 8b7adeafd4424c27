"""Symptoms: what tells the suspects apart, and what each lever brings, tried before and after.

A row names a measurement and the command or counter that makes it, the suspect that it convicts, the place in the book
with its law and its figure, a lever, and the same case computed without the lever and with it. Where it's known how
often such a comparison came true, the gain has its ends, and a gain that may be none says so. So does one whose ends
were borrowed from another lever, and one that nobody has tested.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from clusterlab.records import aligned
from explorable import Box, Label, Part, Scene

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
        """How many times better, with the ends, what it rests on, and whether it may be nothing."""
        low, high = (f"{end:.3g}" for end in self.ends)
        ends = f" ({low} to {high})" if low != high else ""
        says = [self.basis] * bool(self.basis) + ["may be nothing"] * (bool(ends) and float(low) <= 1)
        return f"{self.times:.3g} times{ends}" + (": " + ", ".join(says) if says else "")


@dataclass(frozen=True, repr=False)
class Levers:
    """The suspects of one symptom as a table: aligned text, or Markdown with links into the book.

    Examples
    --------
    >>> bubble = Lever("idle at both ends", "nsys", "the bubble", "pipeline.ipynb#the-bubble",
    ...                "parallelism.bubble_fraction", "four chunks", "39.7%", "42.4%", 1.07, (0.91, 1.12))
    >>> Levers([bubble])
    you measure        with  it is       try          before  after  better
    idle at both ends  nsys  the bubble  four chunks  39.7%   42.4%  1.07 times (0.974 to 1.2): may be nothing
    >>> print(Levers([bubble])._repr_markdown_().splitlines()[2].partition(" | ")[2].partition(" | ")[0])
    **[the bubble](pipeline.ipynb#the-bubble)** ([law](#clusterlab.parallelism.bubble_fraction))
    """

    rows: Sequence[Lever]

    def __repr__(self) -> str:
        """Return the table as aligned text."""
        head = ("you measure", "with", "it is", "try", "before", "after", "better")
        body = [(r.measured, r.how, r.cause, r.lever, r.before, r.after, r.better) for r in self.rows]
        return aligned([head, *body], left=7)

    def _repr_markdown_(self) -> str:
        lines = ["| You measure | So it is | Try | Before | After | Better |", "|---|---|---|---|---|---|"]
        for r in self.rows:
            cause = f"**[{r.cause}]({r.at})** ([law](#clusterlab.{r.law}))"
            seen = f"{r.measured}<br>`{r.how}`"
            cells = (
                seen,
                cause,
                r.lever,
                _whole(r.before),
                _whole(r.after),
                _whole(r.better.replace(" times", "\xa0times")),
            )
            lines.append("| " + " | ".join(cell.replace("$", r"\$") for cell in cells) + " |")
        return "\n".join(lines)


def _whole(text: str) -> str:
    """A number with its interval, which breaks before the interval and after it alone."""
    number, space, ends = text.partition(" (")
    ends, colon, says = ends.partition("): ")
    return number.replace(" ", "\xa0") + space + ends.replace(" ", "\xa0") + colon + says if space else text


def sizes(levers: Levers, rows: int) -> Scene:
    """How many times better each lever makes its case, as bars on a logarithmic scale that ends at 16.

    Parameters
    ----------
    levers : Levers
        Of one symptom.
    rows : int
        Rows of the drawing, so that those of all symptoms are equally high.

    Examples
    --------
    >>> bubble = Lever("idle at both ends", "nsys", "the bubble", "pipeline.ipynb#the-bubble",
    ...                "parallelism.bubble_fraction", "four chunks", "39.7%", "42.4%", 1.07)
    >>> sizes(Levers([bubble]), 6).alt
    'four chunks: 1.07 times better.'
    """
    row, most, room = 40.0, 16.0, 316.0
    parts: list[Part] = []
    in_order = sorted(levers.rows, key=lambda each: -each.times)
    for i, one in enumerate(in_order):
        y = i * row
        width = max(room * math.log(min(one.times, most)) / math.log(most), 2.0)
        parts.append(Label(0, y + 8, one.lever, "start"))
        parts.append(Box(0, y + 18, width, 14, kind="compute", solid=True))
        parts.append(Label(width + 6, y + 25, f"{one.times:.3g} times", "start", strong=True))
    said = "; ".join(f"{one.lever}: {one.times:.3g} times better" for one in in_order)
    return Scene(400, row * rows, parts, alt=said + ".")
