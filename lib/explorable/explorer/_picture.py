"""Pictures: what a view returns, the axes it is drawn over, and the question that may come first."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from ..scene import Scene

KINDS = "curves", "points", "marks", "rules", "spans", "readouts"  # what a picture holds by label


@dataclass(frozen=True)
class Axis:
    """One axis: its label, its unit (ticks and values are printed with :func:`clusterlab.units.fmt`), its scale.

    ``values`` are the x positions of curves. ``limits`` default to the range of everything drawn, and on a linear axis
    to zero as well.
    """

    label: str
    unit: str = ""
    log: bool = False
    limits: tuple[float, float] | None = None
    values: Sequence[float] | None = None

    @property
    def title(self) -> str:
        """Label and unit, as printed beside the axis."""
        return f"{self.label} ({self.unit})" if self.unit not in ("", "%", "s", "$") else self.label


@dataclass(frozen=True)
class Predict:
    """A question to answer before part of the picture is shown.

    Parameters
    ----------
    premise : str
        What a reader must know to answer; it stands beside the picture.
    question : str
        What is asked.
    answers : mapping
        Each possible answer, two or more, and the reason why it is right or wrong.
    right : str
        The answer that is right.
    hides : sequence of str
        What gives the answer away, and is hidden until it is given: labels of curves, points, rules and read-outs, and
        kinds of marks and spans. Everything else is drawn. None, where the reader finds the answer by moving a control.

    Raises
    ------
    ValueError
        There is no premise, there are fewer than two answers, or the right one is not among them.

    Examples
    --------
    >>> answers = {"twice as long": "Half the bytes each second.", "half as long": "The rate halved, not the time."}
    >>> asked = Predict("A link of 50 GB/s drops to 25.", "How long does a copy take?", answers, right="twice as long")
    >>> asked.answers[asked.right]
    'Half the bytes each second.'
    """

    premise: str
    question: str
    answers: Mapping[str, str]
    right: str
    hides: Sequence[str] = ()

    def __post_init__(self) -> None:
        """Refuse a question that cannot be answered."""
        if not self.premise.strip():
            raise ValueError("a prediction needs a premise: what a reader must know to answer")
        if len(self.answers) < 2:
            raise ValueError("a prediction needs at least two answers to choose from")
        if self.right not in self.answers:
            raise ValueError(f"the right answer {self.right!r} is not one of {', '.join(map(repr, self.answers))}")


@dataclass(frozen=True)
class Picture:
    """What a view returns. NaN means "not there". Every picture of one explorer has the same keys.

    A scene stands above what is drawn over axes, and may stand alone.

    Parameters
    ----------
    curves : mapping
        Label to y values over ``x.values``.
    points : mapping
        Label to one marked (x, y).
    marks : mapping
        Kind to a list of (x, y, name): a scatter plot. The name is shown when the reader points at the mark, or steps
        to it with the arrow keys; what has the same name at another stop is the same mark. Curves, points and rules
        may stand beside marks, but the cursor then reads the marks alone.
    rules : mapping
        Label to the x of a vertical line.
    spans : mapping
        Kind to a list of (lane, start, end) or (lane, start, end, text): timelines, Gantt charts, waterfalls.
        Lanes run from top to bottom, ``lanes=`` of the explorer names them.
    readouts : mapping
        Label to text, formatted here, so that the page prints what the chapter prints.
    scene : Scene, optional
        A drawing, of the same size in every picture.
    """

    curves: Mapping[str, object] = field(default_factory=dict)
    points: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    marks: Mapping[str, Sequence[tuple[float, float, str]]] = field(default_factory=dict)
    rules: Mapping[str, float] = field(default_factory=dict)
    spans: Mapping[str, Sequence[tuple]] = field(default_factory=dict)
    readouts: Mapping[str, str] = field(default_factory=dict)
    scene: Scene | None = None


def stacked(parts: Mapping[str, Sequence[float]]) -> dict[str, list[tuple]]:
    """Spans of horizontal stacked bars: each part's value in every lane, end to end.

    Parameters
    ----------
    parts : mapping
        Part to its values, one for each lane.

    Raises
    ------
    ValueError
        There are no parts, or they have different numbers of lanes.

    Examples
    --------
    >>> stacked({"compute": [3, 2], "network": [1, 4]})
    {'compute': [(0, 0.0, 3.0), (1, 0.0, 2.0)], 'network': [(0, 3.0, 4.0), (1, 2.0, 6.0)]}
    """
    lanes = {name: np.size(values) for name, values in parts.items()}
    if len(set(lanes.values())) != 1:
        raise ValueError(f"stacked bars need parts with the same number of lanes, got {lanes}")
    ends = np.cumsum([np.atleast_1d(np.asarray(v, dtype=float)) for v in parts.values()], axis=0)
    starts = np.vstack([np.zeros(ends.shape[1]), ends[:-1]])
    return {
        name: [(lane, float(a), float(b)) for lane, (a, b) in enumerate(zip(lo, hi, strict=True))]
        for name, lo, hi in zip(parts, starts, ends, strict=True)
    }


def waterfall(start: float, losses: Sequence[float]) -> dict[str, list[tuple]]:
    """Spans of a waterfall, one lane each: the whole, what each loss takes away, and what is left.

    Parameters
    ----------
    start : float
        The whole.
    losses : sequence of float
        What each step takes; together no more than the whole.

    Raises
    ------
    ValueError
        A loss is negative, or together they exceed the start.

    Examples
    --------
    >>> waterfall(1.0, [0.25, 0.5])
    {'whole': [(0, 0.0, 1.0)], 'lost': [(1, 0.75, 1.0), (2, 0.25, 0.75)], 'left': [(3, 0.0, 0.25)]}
    """
    if min(losses, default=0) < 0 or sum(losses) > start * (1 + 1e-9):
        raise ValueError(f"losses must be zero or more and together at most {start:g}, got {list(losses)}")
    left = [float(start - taken) for taken in itertools.accumulate(losses, initial=0.0)]
    lost = [(lane, after, before) for lane, (before, after) in enumerate(itertools.pairwise(left), start=1)]
    return {"whole": [(0, 0.0, left[0])], "lost": lost, "left": [(len(left), 0.0, left[-1])]}


def hidden_labels(first: Picture, predict: Predict | None) -> frozenset[str]:
    """What a prediction hides; refuses what is not there."""
    labels = [label for kind in KINDS for label in getattr(first, kind)]
    if wrong := [label for label in (predict.hides if predict else ()) if label not in labels]:
        raise ValueError(f"a prediction hides {wrong[0]!r}; the picture has: {', '.join(labels)}")
    return frozenset(predict.hides if predict else ())
