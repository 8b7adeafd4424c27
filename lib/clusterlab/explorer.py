"""Explorer: the one figure of the book, drawn by a view in Python.

A view is a Python function from control values to a :class:`Picture`. The explorer calls it once for every
combination of its controls' stops, and stores the pictures in a table. The browser looks up and draws; it computes no
law. So a figure moves the same with a kernel and without one, is exact at every stop, and cannot disagree with the
library. To change it, edit the function and run the cell again. Without controls it is a drawn figure: one picture.
"""

from __future__ import annotations

import functools
import html
import itertools
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from numbers import Real
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import anywidget
import numpy as np
import traitlets

from . import palette
from .scene import TEXT, Scene
from .units import fmt, ladder

_HERE = Path(__file__).parent
_NONE = 65535  # the code of a value that is not there (NaN in a picture)
_STEPS = 65534  # codes 0.._STEPS divide the range of the data
_MOST = 20_000  # combinations; more would weigh down the page
_COLOURS = len(palette.CYCLE)
_KINDS = "curves", "points", "marks", "rules", "spans", "readouts"  # what a picture holds by label


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
class Slider:
    """A slider over named stops. ``labels`` default to the formatted stops; ``start`` to the first stop."""

    label: str
    stops: Sequence[float]
    unit: str = ""
    start: float | None = None
    labels: Sequence[str] | None = None


@dataclass(frozen=True)
class Step(Slider):
    """A slider over the steps of a process, which a reader can also play; at the end it stops.

    Examples
    --------
    >>> from clusterlab.scene import Box, Scene
    >>> def view(step):
    ...     gpus = [Box(70 * g, 0, 60, 44, f"GPU {g}") for g in range(4)]
    ...     chunk = Box(70 * step + 20, 60, 20, 20, "a", kind="wire", solid=True, key="a")
    ...     return Picture(scene=Scene(270, 80, [*gpus, chunk], alt=f"Chunk a is on GPU {step}"))
    >>> Explorer(view, controls={"step": Step("Step", range(4))}, title="A chunk on its way around a ring")
    Explorer: A chunk on its way around a ring
      Step: [0], 1, 2, 3
      first: Chunk a is on GPU 0
      last:  Chunk a is on GPU 3
    """


@dataclass(frozen=True)
class Select:
    """A choice. ``options`` is a list of labels, or maps each label to the object that the view receives."""

    label: str
    options: Mapping[str, object] | Sequence[str]
    start: str | None = None


@dataclass(frozen=True)
class Toggle:
    """A switch; the view receives True or False."""

    label: str
    start: bool = False


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
    """Spans of a waterfall, one lane each: the start, what each loss takes away, and what remains.

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
    {'kept': [(0, 0.0, 1.0), (3, 0.0, 0.25)], 'lost': [(1, 0.75, 1.0), (2, 0.25, 0.75)]}
    """
    if min(losses, default=0) < 0 or sum(losses) > start * (1 + 1e-9):
        raise ValueError(f"losses must be zero or more and together at most {start:g}, got {list(losses)}")
    left = [float(start - taken) for taken in itertools.accumulate(losses, initial=0.0)]
    lost = [(lane, after, before) for lane, (before, after) in enumerate(itertools.pairwise(left), start=1)]
    return {"kept": [(0, 0.0, left[0]), (len(left), 0.0, left[-1])], "lost": lost}


class Explorer(anywidget.AnyWidget):
    """A figure over a table of pictures.

    Parameters
    ----------
    view : callable
        Called with one keyword for each control; returns a :class:`Picture`.
    controls : mapping
        Name to :class:`Slider`, :class:`Step`, :class:`Select` or :class:`Toggle`. Each becomes a synced trait of that
        name, whose value is a stop, a label or a bool: ``explorer.batch = 64``, ``observe``, ``link`` and ``jslink``
        work. Without controls the one picture is a drawn figure.
    x, y : Axis
        ``y`` is left out where there are only spans, and both where there is only a scene. Each curve, then each kind
        of marks, has a colour: at most eight.
    title : str
        What the figure shows; its accessible name too.
    lanes : sequence of str
        Names of the lanes of spans, from top to bottom.
    colours : mapping
        Curve, or kind of marks or spans, to what it means: a name of :data:`clusterlab.palette.PALETTE`. What is not
        named takes its turn in :data:`clusterlab.palette.CYCLE`.
    predict : Predict, optional
        A question that comes first; the reader's answer is the trait ``guess``.

    Raises
    ------
    ValueError
        A control, an axis or a picture does not make sense; the message names it.

    Examples
    --------
    >>> def view(n):
    ...     return Picture(curves={"power": np.array([1.0, 2.0, 3.0]) ** n}, readouts={"At 3": fmt(3**n)})
    >>> x, y = Axis("x", values=[1, 2, 3]), Axis("y")
    >>> Explorer(view, controls={"n": Slider("Exponent", [1, 2])}, x=x, y=y, title="Powers")
    Explorer: Powers
      Exponent: [1], 2
      first: At 3 = 3
      last:  At 3 = 9
    """

    _esm = _HERE / "explorer.js"
    _css = palette.css() + (_HERE / "explorer.css").read_text(encoding="utf-8")
    _spec = traitlets.Dict().tag(sync=True)
    _table = traitlets.Bytes().tag(sync=True)
    _html = traitlets.Unicode().tag(sync=True)
    guess = traitlets.Unicode(help="The reader's committed prediction; empty before it.").tag(sync=True)

    def __init__(
        self,
        view: Callable[..., Picture],
        *,
        title: str,
        controls: Mapping[str, Slider | Select | Toggle] = MappingProxyType({}),
        x: Axis | None = None,
        y: Axis | None = None,
        lanes: Sequence[str] = (),
        colours: Mapping[str, str] = MappingProxyType({}),
        predict: Predict | None = None,
    ) -> None:
        self._controls = [_control(name, control) for name, control in controls.items()]
        for control in self._controls:
            name = control.name
            if not (isinstance(name, str) and name.isidentifier()) or name[0] == "_" or hasattr(type(self), name):
                raise ValueError(f"control {name!r} must be an identifier that no widget attribute uses")
        pictures = _pictures(view, self._controls)
        table = _Table(pictures, x, y, tuple(lanes))
        _check_colours(pictures[0], colours)
        hidden = _hidden(pictures[0], predict)
        self._readouts = [dict(picture.readouts) for picture in pictures]
        self._alts = [picture.scene.alt if picture.scene else "" for picture in pictures]
        super().__init__()
        self.add_traits(**{control.name: control.trait() for control in self._controls})
        start = self._index([control.start for control in self._controls])
        question = asdict(predict) | {"answers": list(predict.answers.items())} if predict else None
        self._title = title
        self._spec = table.spec() | {
            "title": title,
            "controls": [control.spec() for control in self._controls],
            "predict": question,
        }
        self._table = table.codes()
        self._html = _Figure(table, start, colours, hidden).markup(
            title, predict.premise if predict else "", not self._controls
        )

    def _index(self, stops: list[int]) -> int:
        """Number of a combination in the table: the last control changes fastest."""
        return functools.reduce(
            lambda index, at: index * len(at[0].values) + at[1], zip(self._controls, stops, strict=True), 0
        )

    def at(self, **values) -> dict[str, str]:
        """Read-outs at these control values, and at the present value of every control not named.

        Raises
        ------
        ValueError
            There is no such control, or no such stop.
        """
        names = [control.name for control in self._controls]
        if unknown := set(values) - set(names):
            raise ValueError(f"no control {sorted(unknown)[0]!r}; there are: {', '.join(names)}")
        stops = []
        for control in self._controls:
            value = values.get(control.name, getattr(self, control.name))
            if value not in control.values:
                raise ValueError(f"{control.name} must be one of {', '.join(map(str, control.values))}; got {value!r}")
            stops.append(control.values.index(value))
        return self._readouts[self._index(stops)]

    def __repr__(self) -> str:
        """Name the controls, and what both ends of the table say: what a reader without a browser sees."""
        lines = [f"Explorer: {self._title}"]
        for control in self._controls:
            marked = [f"[{label}]" if i == control.start else label for i, label in enumerate(control.labels)]
            lines.append(f"  {control.label}: {', '.join(marked)}")
        said = [
            "; ".join(filter(None, [alt, *(f"{label} = {text}" for label, text in readouts.items())]))
            for alt, readouts in ((self._alts[i], self._readouts[i]) for i in (0, -1))
        ]
        if not self._controls:
            return "\n".join([*lines, f"  {said[0]}"])
        return "\n".join([*lines, f"  first: {said[0]}", f"  last:  {said[1]}"])


@dataclass(frozen=True)
class _Control:
    """One control as the table and the browser need it."""

    name: str
    kind: str
    label: str
    labels: list[str]
    values: list  # of the trait: stops, labels or bools
    given: list  # what the view receives
    start: int  # an index

    def trait(self) -> traitlets.Enum:
        return traitlets.Enum(self.values, default_value=self.values[self.start]).tag(sync=True)

    def spec(self) -> dict:
        return {key: getattr(self, key) for key in ("name", "kind", "label", "labels", "values", "start")}


def _control(name: str, control: Slider | Select | Toggle) -> _Control:
    """The stops of one control and their labels, checked."""
    if isinstance(control, Slider):
        values = given = [v.item() if isinstance(v, np.generic) else v for v in control.stops]
        for v in values:
            if isinstance(v, bool) or not isinstance(v, int | float) or not math.isfinite(v):
                raise ValueError(f"control {name!r} has the stop {v!r}; a slider's stops are finite numbers")
        labels = [fmt(v, control.unit) for v in values] if control.labels is None else list(control.labels)
    elif isinstance(control, Select):
        if isinstance(control.options, str):
            raise ValueError(f"control {name!r} needs a list or a mapping of options, got {control.options!r}")
        values = labels = list(control.options)
        given = list(control.options.values()) if isinstance(control.options, Mapping) else values
    elif isinstance(control, Toggle):
        values = given = [False, True]
        labels = ["off", "on"]
    else:
        raise ValueError(f"control {name!r} must be a Slider, a Step, a Select or a Toggle, got {control!r}")
    if len(values) < 2 or len(set(values)) < len(values) or len(set(labels)) < len(values):
        raise ValueError(f"control {name!r} needs at least two different stops, and a different label for each")
    if wrong := [label for label in labels if not isinstance(label, str)]:
        raise ValueError(f"control {name!r} has the label {wrong[0]!r}; labels are text")
    start = values[0] if control.start is None else control.start
    if start not in values:
        raise ValueError(f"control {name!r} starts at {start!r}, which is not one of {', '.join(map(str, values))}")
    return _Control(
        name=name,
        kind=type(control).__name__.lower(),
        label=control.label,
        labels=labels,
        values=values,
        given=given,
        start=values.index(start),
    )


def _pictures(view, controls: list[_Control]) -> list[Picture]:
    """Every combination's picture, the last control changing fastest."""
    count = math.prod(len(control.values) for control in controls)
    if count > _MOST:
        raise ValueError(f"an explorer has at most {_MOST:,} combinations of stops, got {count:,}")
    pictures = []
    for values in itertools.product(*(control.given for control in controls)):
        chosen = dict(zip((control.name for control in controls), values, strict=True))
        picture = view(**chosen)
        if not isinstance(picture, Picture):
            raise ValueError(f"the view must return a Picture, got {type(picture).__name__} at {chosen}")
        for kind in _KINDS:
            if list(getattr(picture, kind)) != list(getattr(pictures[0] if pictures else picture, kind)):
                raise ValueError(f"every picture needs the same {kind} in the same order; they differ at {chosen}")
        if _size(picture) != _size(pictures[0] if pictures else picture):
            raise ValueError(f"every picture needs a scene of the same size, or none; they differ at {chosen}")
        pictures.append(picture)
    return pictures


def _size(picture: Picture) -> tuple[float, float] | None:
    return (picture.scene.width, picture.scene.height) if picture.scene else None


class _Tick(NamedTuple):
    """A label of an axis, and where it stands: in percent from the low end."""

    at: float
    text: str


class _Scale:
    """One axis in the table: data to codes, codes to positions between 0 and 1000 in the picture."""

    def __init__(self, axis: Axis, values: np.ndarray) -> None:
        self.axis = axis
        if np.isinf(values).any():
            raise ValueError(f"axis {axis.label!r} cannot show infinity; NaN is what is not there")
        finite = values[np.isfinite(values)]
        if axis.log and np.any(finite <= 0):
            raise ValueError(f"axis {axis.label!r} is logarithmic, and {finite[finite <= 0][0]:g} is not above zero")
        if not finite.size and axis.limits is None:
            raise ValueError(f"axis {axis.label!r} has nothing to show")
        limits = (finite.min(), finite.max()) if axis.limits is None else tuple(map(float, axis.limits))
        if axis.log and min(limits) <= 0:
            raise ValueError(f"axis {axis.label!r} is logarithmic, and {min(limits):g} is not above zero")
        if len(limits) != 2:
            raise ValueError(f"axis {axis.label!r} needs two limits, got {limits}")
        self.low, self.high = (float(v) for v in self._warp(np.asarray(limits, dtype=float)))
        if axis.limits is None and not axis.log:
            self.low, self.high = min(self.low, 0.0), max(self.high, 0.0)
        if not -math.inf < self.low < self.high < math.inf:
            raise ValueError(f"axis {axis.label!r} needs limits with low < high, got {limits[0]:g} and {limits[1]:g}")
        # Codes span the data, which may reach beyond the limits: the picture is clipped, with the right slope there.
        # What lies more than two widths outside is moved there, or it would cost the inside its precision.
        outside = 2 * (self.high - self.low)
        codes = self._warp(finite) if finite.size else np.array([self.low, self.high])
        codes = np.clip(codes, self.low - outside, self.high + outside)
        self.first = float(codes.min())
        self.span = float(codes.max() - codes.min()) or 1.0

    def _warp(self, values: np.ndarray) -> np.ndarray:
        return np.log10(values) if self.axis.log else values

    def encode(self, values) -> np.ndarray:
        values = np.asarray(values, dtype=float)
        there = np.isfinite(values)
        warped = self._warp(np.where(there, values, 1.0))
        codes = np.clip(np.rint((warped - self.first) / self.span * _STEPS), 0, _STEPS)
        return np.where(there, codes, _NONE).astype(np.uint16)

    def place(self, code: int) -> float:
        """Position in the picture, in thousandths of the axis."""
        return 1000 * (self.first + self.span * int(code) / _STEPS - self.low) / (self.high - self.low)

    def ticks(self) -> list[_Tick]:
        values = _powers(10**self.low, 10**self.high) if self.axis.log else _round_numbers(self.low, self.high)
        # Digits enough to tell neighbours apart: 2,016 and 2,018 need four.
        near = min(b - a for a, b in itertools.pairwise(values))
        digits = 3 if self.axis.log else self._digits(near)
        warped = self._warp(np.asarray(values, dtype=float))
        return [
            _Tick(at=float(100 * (w - self.low) / (self.high - self.low)), text=_tick_text(v, self.axis.unit, digits))
            for w, v in zip(warped, values, strict=True)
        ]

    def _digits(self, step: float) -> int:
        """Significant digits that tell values a ``step`` apart, at least three."""
        return max(3, 1 + math.ceil(math.log10(max(abs(self.low), abs(self.high)) / step) - 1e-9))

    def spec(self) -> dict:
        return {
            "unit": self.axis.unit,
            "ladder": ladder(self.axis.unit),
            # Digits that tell a thousandth of a linear axis: 2,017 between 2,016 and 2,018 needs more than three.
            "digits": 3 if self.axis.log else self._digits((self.high - self.low) / 1000),
            "log": self.axis.log,
            "low": self.low,
            "high": self.high,
            "first": self.first,
            "span": self.span,
        }


def _nice(step: float) -> float:
    """The round number (1, 2, 5 times a power of ten) nearest above ``step``."""
    power = 10.0 ** math.floor(math.log10(step))
    return next(m * power for m in (1, 2, 5, 10) if m * power >= step * (1 - 1e-9))


def _round_numbers(low: float, high: float) -> list[float]:
    """About five round numbers between two limits."""
    step = _nice((high - low) / 5)
    return [i * step for i in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]


def _powers(low: float, high: float) -> list[float]:
    """Powers of ten between two limits; 1, 2 and 5 times them, or round numbers, where there are too few."""

    def inside(values):
        return [v for v in values if low * (1 - 1e-9) <= v <= high * (1 + 1e-9)]

    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    if len(decades := inside(10.0**p for p in powers[:: max(1, len(powers) // 7)])) > 2:
        return decades
    finer = inside(m * 10.0**p for p in powers for m in (1, 2, 5))
    return finer if len(finer) > 1 else _round_numbers(low, high)


def _tick_text(value: float, unit: str, digits: int) -> str:
    """What a tick says: the number and its prefix; the axis title carries the unit."""
    if unit in ("s", "%", "$"):
        return fmt(value, unit, digits)
    (_, size, _), *more = ladder(unit)
    if size != 1 and not more:  # a scaled unit, such as GB/s: its numbers need no prefix
        return fmt(value / size, digits=digits)
    text = fmt(value, "FLOP", digits) if value == 0 or abs(value) >= 1 else fmt(value, digits=digits)
    return text.removesuffix("FLOP").rstrip().replace(" ", "\N{NARROW NO-BREAK SPACE}")


class _Mark(NamedTuple):
    """One mark of a scatter plot, in data or in codes; the default is an empty slot."""

    x: float = math.nan
    y: float = math.nan
    name: str = ""


class _Span(NamedTuple):
    """One span of a timeline, in data or in codes; the default is an empty slot."""

    lane: int = _NONE
    start: float = math.nan
    end: float = math.nan
    text: str = ""


class _Content:
    """What all pictures hold: numbers by combination (NaN is not there), and marks, spans and texts in its order.

    Pictures may have different numbers of marks or spans of a kind. Each gets as many slots as the fullest has.
    """

    def __init__(self, pictures: list[Picture], x: Axis | None, lanes: tuple[str, ...]) -> None:
        first, count = pictures[0], len(pictures)
        for picture in pictures:
            _check_places(picture)
        self.grid = _positions(x) if x else np.zeros(0)
        curves = [[_curve(name, c, self.grid) for name, c in p.curves.items()] for p in pictures]
        self.curves = np.array(curves)  # by combination, label and position on the grid
        points = np.array([list(p.points.values()) for p in pictures], dtype=float).reshape(count, -1, 2)
        self.point_x, self.point_y = points[..., 0], points[..., 1]
        self.rules = np.array([list(p.rules.values()) for p in pictures], dtype=float).reshape(count, -1)
        self.mark_slots = {kind: max(len(p.marks[kind]) for p in pictures) for kind in first.marks}
        self.marks = [
            [_mark(p.marks[kind], i) for kind, n in self.mark_slots.items() for i in range(n)] for p in pictures
        ]
        self.span_slots = {kind: max(len(p.spans[kind]) for p in pictures) for kind in first.spans}
        self.spans = [
            [_span(p.spans[kind], i, lanes) for kind, n in self.span_slots.items() for i in range(n)] for p in pictures
        ]
        self.readouts = [[str(text) for text in p.readouts.values()] for p in pictures]

    def across(self) -> np.ndarray:
        """Everything that stands on the x axis."""
        marks, starts, ends = (
            _column(rows, name) for rows, name in ((self.marks, "x"), (self.spans, "start"), (self.spans, "end"))
        )
        return _flat(self.grid, self.point_x, marks, self.rules, starts, ends)

    def up(self) -> np.ndarray:
        """Everything that stands on the y axis."""
        return _flat(self.curves, self.point_y, _column(self.marks, "y"))

    def texts(self) -> list[str]:
        """Every different text, the empty one first."""
        parts = self.readouts, _column(self.marks, "name"), _column(self.spans, "text")
        return list(dict.fromkeys(["", *(text for rows in parts for row in rows for text in row)]))

    def longest_name(self) -> str:
        """The longest name of a mark: the page makes room for it."""
        return max((name for row in _column(self.marks, "name") for name in row), key=len, default="")


def _column(rows: list[list], name: str) -> list[list]:
    """One field of the marks or spans of every combination."""
    return [list(map(operator.attrgetter(name), row)) for row in rows]


def _flat(*parts) -> np.ndarray:
    return np.concatenate([np.ravel(np.asarray(part, dtype=float)) for part in parts])


class _Table:
    """All pictures of an explorer, in one table of 16-bit codes.

    The table is one record for each combination, then a pool of distinct curves. A record holds, in this order: for
    each curve its row in the pool, for each read-out its string, for each point x and y, for each rule x, for each slot
    of each kind of mark x, y and string, for each slot of each kind of span its lane, start, end and string, and where
    there are scenes the number of its own.
    """

    def __init__(self, pictures: list[Picture], x: Axis | None, y: Axis | None, lanes: tuple[str, ...]) -> None:
        _check_kinds(pictures[0], x, y, lanes)
        content = _Content(pictures, x, lanes)
        self.first, self.lanes, self.content = pictures[0], lanes, content
        self.x = _Scale(x, content.across()) if x else None
        self.y = _Scale(y, content.up()) if y else None
        self.grid = self.x.encode(content.grid) if self.x else np.zeros(0, np.uint16)
        self.scenes = _Scenes(pictures)
        self.strings = content.texts()
        self.pool, rows = self._pool()
        if max(len(self.pool), len(self.strings)) > _STEPS:
            raise ValueError("too many different curves or read-outs for one explorer; use fewer stops")
        self.records = self._records(rows)

    def _pool(self) -> tuple[np.ndarray, np.ndarray]:
        """Every different curve in codes, and the row of each curve of each combination."""
        if not self.first.curves:
            return np.zeros((0, 1), np.uint16), np.zeros(0, np.intp)
        codes = self.y.encode(self.content.curves).reshape(-1, self.content.grid.size)
        return np.unique(codes, axis=0, return_inverse=True)

    def _records(self, rows: np.ndarray) -> np.ndarray:
        """One record of codes for each combination."""
        content, count = self.content, len(self.content.readouts)
        number = {text: i for i, text in enumerate(self.strings)}

        def numbers(texts):
            return [[number[text] for text in row] for row in texts]

        def across(values):
            return self.x.encode(values) if self.x else np.zeros(np.shape(values))  # no axis: there are no values

        def up(values):
            return self.y.encode(values) if self.y else np.zeros(np.shape(values))

        def woven(*parts):
            """Slot by slot: the first of each part, the second of each part, and so on."""
            return np.stack([np.reshape(part, (count, -1)) for part in parts], axis=-1)

        points = woven(across(content.point_x), up(content.point_y))
        marks = woven(
            across(_column(content.marks, "x")),
            up(_column(content.marks, "y")),
            numbers(_column(content.marks, "name")),
        )
        spans = woven(
            _column(content.spans, "lane"),
            across(_column(content.spans, "start")),
            across(_column(content.spans, "end")),
            numbers(_column(content.spans, "text")),
        )
        parts = rows, numbers(content.readouts), points, across(content.rules), marks, spans, self.scenes.numbers
        return np.concatenate([np.reshape(part, (count, -1)).astype("<u2") for part in parts], axis=1)

    def codes(self) -> bytes:
        """The table as the browser reads it."""
        return self.records.tobytes() + self.pool.astype("<u2").tobytes()

    def spec(self) -> dict:
        """What the browser needs to know to read the table and to draw."""
        content = self.content
        return {
            "curves": list(self.first.curves),
            "marks": list(content.mark_slots.items()),
            "longest": content.longest_name(),
            "spans": list(content.span_slots.items()),
            "lanes": list(self.lanes),
            "width": self.records.shape[1],
            "count": len(self.records),
            "grid": self.grid.tolist(),
            "at": [fmt(v, self.x.axis.unit, digits=4) for v in content.grid.tolist()] if self.x else [],
            "strings": self.strings,
            "scenes": self.scenes.scenes,
            "parts": self.scenes.parts,
            "x": self.x.spec() if self.x else None,
            "y": self.y.spec() if self.y else None,
        }


class _Scenes:
    """Every different scene: what it shows in words, and its parts as numbers of a pool of different markup."""

    def __init__(self, pictures: list[Picture]) -> None:
        parts: dict[str, int] = {}
        scenes: dict[tuple[str, tuple[int, ...]], int] = {}
        self.size = _size(pictures[0]) or (0, 0)
        self.numbers = []  # of each picture, its scene; none where there are no scenes
        for scene in (picture.scene for picture in pictures):
            own = []
            if scene:
                drawn = tuple(parts.setdefault(part.svg(), len(parts)) for part in scene.parts)
                own = [scenes.setdefault((scene.alt, drawn), len(scenes))]
            self.numbers.append(own)
        self.parts, self.scenes = list(parts), list(scenes)


def _check_colours(first: Picture, colours: Mapping[str, str]) -> None:
    """Refuse colours of what is not there, and meanings that have no colour."""
    kinds = [*first.curves, *first.marks, *first.spans]
    for kind, meaning in colours.items():
        if kind not in kinds:
            raise ValueError(f"colours names {kind!r}; the curves and kinds of marks or spans are: {', '.join(kinds)}")
        palette.colour(meaning)


def _hidden(first: Picture, predict: Predict | None) -> frozenset[str]:
    """What a prediction hides; refuses what is not there."""
    labels = [label for kind in _KINDS for label in getattr(first, kind)]
    if wrong := [label for label in (predict.hides if predict else ()) if label not in labels]:
        raise ValueError(f"a prediction hides {wrong[0]!r}; the picture has: {', '.join(labels)}")
    return frozenset(predict.hides if predict else ())


def _check_kinds(first: Picture, x: Axis | None, y: Axis | None, lanes: tuple[str, ...]) -> None:
    """Refuse kinds of things that cannot stand in one figure."""
    if x is None and not first.scene:
        raise ValueError("a figure needs an x axis, or a scene")
    if x is None and (first.curves or first.points or first.marks or first.rules or first.spans):
        raise ValueError("what is drawn over axes needs an x axis")
    if (first.curves or first.points or first.marks) and y is None:
        raise ValueError("curves, points and marks need a y axis")
    if first.spans and not lanes:
        raise ValueError("spans need lanes, the names of their rows")
    if first.spans and (first.curves or first.points or first.marks):
        raise ValueError("a figure shows spans, or curves, points and marks, not both")
    if max(len(first.curves) + len(first.marks), len(first.spans)) > _COLOURS:
        raise ValueError(f"a figure shows at most {_COLOURS} curves and kinds of marks or spans, one for each colour")


def _check_places(picture: Picture) -> None:
    for name, at in picture.points.items():
        if np.shape(at) != (2,):
            raise ValueError(f"point {name!r} must be one (x, y), got {at!r}")
    for name, at in picture.rules.items():
        if np.ndim(at):
            raise ValueError(f"rule {name!r} must be one x, got {at!r}")


def _positions(x: Axis) -> np.ndarray:
    """The x positions of curves; none where the axis has no values."""
    grid = np.asarray(() if x.values is None else x.values, dtype=float)
    if grid.ndim != 1 or not np.isfinite(grid).all():
        raise ValueError(f"axis {x.label!r} needs values that are finite numbers in a row")
    return grid


def _curve(name: str, values, grid: np.ndarray) -> np.ndarray:
    values = np.asarray(values, dtype=float)
    if not grid.size:
        raise ValueError("curves need x.values, the positions they are drawn over")
    if values.shape not in ((), grid.shape):
        raise ValueError(f"curve {name!r} has shape {values.shape}; x.values has {grid.shape}")
    return np.broadcast_to(values, grid.shape)


def _mark(marks: Sequence[tuple], i: int) -> _Mark:
    """Mark ``i``, or an empty slot."""
    if i >= len(marks):
        return _Mark()
    if not (len(marks[i]) == 3 and isinstance(marks[i][2], str) and all(isinstance(v, Real) for v in marks[i][:2])):
        raise ValueError(f"a mark is (x, y, name), two numbers and a text, got {marks[i]!r}")
    return _Mark(*marks[i])


def _span(spans: Sequence[tuple], i: int, lanes: tuple[str, ...]) -> _Span:
    """Span ``i``, or an empty slot."""
    if i >= len(spans):
        return _Span()
    if len(spans[i]) not in (3, 4):
        raise ValueError(f"a span is (lane, start, end) or (lane, start, end, text), got {spans[i]!r}")
    if np.isnan(spans[i][1:3]).any():
        return _Span()
    lane, start, end, *text = spans[i]
    if lane not in range(len(lanes)):
        raise ValueError(f"a span's lane must be a whole number from 0 to {len(lanes) - 1}, got {lane}")
    return _Span(lane=int(lane), start=float(start), end=float(end), text=str(*text))


class _Figure:
    """The figure at one combination of a table, as markup that is complete without a script.

    The script redraws only what moves: the elements of class cl-curve, cl-dot, cl-rule, cl-mark, cl-span and cl-tag
    and the read-outs, in the order of the record, and what is inside cl-scene. Positions in the picture are thousandths
    of the axes.
    """

    def __init__(self, table: _Table, index: int, colours: Mapping[str, str], hidden: frozenset[str]) -> None:
        self.colours, self.hidden = colours, hidden
        self.first, self.lanes, self.x, self.y = table.first, table.lanes, table.x, table.y
        self.strings, self.grid, self.pool = table.strings, table.grid, table.pool
        record = iter(table.records[index].tolist())

        def take(count: int) -> list[int]:
            return list(itertools.islice(record, count))

        # In the order of the record: these lines read it.
        self.curves = take(len(self.first.curves))
        self.texts = [self.strings[number] for number in take(len(self.first.readouts))]
        self.points = [take(2) for _ in self.first.points]
        self.rules = take(len(self.first.rules))
        self.marks = {kind: [_Mark(*take(3)) for _ in range(n)] for kind, n in table.content.mark_slots.items()}
        self.spans = {kind: [_Span(*take(4)) for _ in range(n)] for kind, n in table.content.span_slots.items()}
        self.scenes, self.scene = table.scenes, take(len(table.scenes.numbers[index]))

    def markup(self, title: str, premise: str, drawn: bool) -> str:
        """The whole figure; with a premise a question comes first; ``drawn`` is what has no controls."""
        classes = f"cl-explorer{' cl-ask' if premise else ''}{' cl-drawn' if drawn else ''}"
        told = f'<p class="cl-premise">{_esc(premise)}</p>' if premise else ""
        return (
            f'<figure class="{classes}"><figcaption>{_esc(title)}</figcaption>{told}<div class="cl-controls"></div>'
            f"{self._scene()}{self._plot(title)}"
            f'<ul class="cl-legend">{self._legend()}</ul><dl class="cl-readouts">{self._readouts()}</dl></figure>'
        )

    def _plot(self, title: str) -> str:
        """What is drawn over axes, with them; nothing where there is only a scene."""
        if not self.x:
            return ""
        y_title = self.y.axis.title if self.y else ""
        head = f'<div class="cl-head">{_esc(y_title)}</div>' if self.y else ""
        what = f"{title}. {self.x.axis.title} across" + (f", {y_title} up." if self.y else ".")
        lanes = " cl-lanes" if self.first.spans else ""
        height = f' style="height:{max(2, len(self.lanes)) * 2.6:.1f}em"' if self.first.spans else ""
        paths = [_path("cl-grid", self._gridlines()), *self._moving_paths()]
        picture = f'<svg viewBox="0 0 1000 1000" preserveAspectRatio="none" aria-hidden="true">{"".join(paths)}</svg>'
        return (
            f'{head}<div class="cl-plot{lanes}">{self._left()}'
            f'<div class="cl-area"{height} role="img" aria-label="{_esc(what)}">{picture}{"".join(self._tags())}</div>'
            f'{self._below()}</div><div class="cl-foot">{_esc(self.x.axis.title)}</div>'
        )

    # What moves with the controls

    def _scene(self) -> str:
        """The scene as markup that scales as a whole; no larger than makes its text as high as the page's."""
        if not self.scene:
            return ""
        (width, height), (alt, numbers) = self.scenes.size, self.scenes.scenes[self.scene[0]]
        parts = "".join(self.scenes.parts[number] for number in numbers)
        return (
            f'<svg class="cl-scene" viewBox="0 0 {width:g} {height:g}" style="max-width:{width / TEXT:.2f}em"'
            f' role="img" aria-label="{_esc(alt)}">{parts}</svg>'
        )

    def _shade(self, i: int, name: str) -> str:
        """Classes of a curve, or of a kind of marks or spans: its colour, its dashes, and whether it is an answer."""
        colour = f"cl-c-{self.colours[name]} " if name in self.colours else ""
        return f"{colour}cl-s{i}{self._answer(name)}"

    def _answer(self, label: str) -> str:
        """A class for what a prediction hides."""
        return " cl-answer" * (label in self.hidden)

    def _moving_paths(self) -> list[str]:
        """Spans, curves, marks, rules and points, each an SVG path that later ones lie on."""
        paths = [_path(f"cl-span {self._shade(i, k)}", self._boxes(s)) for i, (k, s) in enumerate(self.spans.items())]
        if self.spans:
            paths.append(_path("cl-break", self._breaks()))
        curves = zip(self.first.curves, self.curves, strict=True)
        paths += [_path(f"cl-curve {self._shade(i, name)}", self._line(row)) for i, (name, row) in enumerate(curves)]
        for i, (kind, marks) in enumerate(self.marks.items()):
            paths.append(self._shape(i, kind, "".join(self._spot(mark.x, mark.y) for mark in marks)))
        for label, code in zip(self.first.rules, self.rules, strict=True):
            line = f"M{self.x.place(code):.1f} 0V1000" if self._rule_is_there(code) else ""
            paths.append(_path("cl-rule" + self._answer(label), line))
        points = zip(self.first.points, self.points, strict=True)
        return paths + [_path("cl-dot" + self._answer(label), self._spot(x, y)) for label, (x, y) in points]

    def _tags(self) -> list[str]:
        """Labels in the picture: those of spans, rules and points."""
        tags = [
            self._span_tag(span, self._shade(i, kind))
            for i, (kind, spans) in enumerate(self.spans.items())
            for span in spans
            if span.text
        ]
        for i, (label, code) in enumerate(zip(self.first.rules, self.rules, strict=True)):
            there = self._rule_is_there(code)
            tags.append(
                _tag(
                    "cl-top" + self._answer(label),
                    self.x.place(code),
                    1000,
                    label,
                    there,
                    f"margin-bottom:{-i * 1.35:.2f}em",
                )
            )
        for label, (x, y) in zip(self.first.points, self.points, strict=True):
            there = bool(self._spot(x, y))
            tags.append(_tag("cl-at" + self._answer(label), self.x.place(x), self.y.place(y), label, there))
        return tags

    def _span_tag(self, span: _Span, shade: str) -> str:
        middle = (self.x.place(span.start) + self.x.place(span.end)) / 2
        place = f"left:{middle / 10:.2f}%;top:{self._lane(span.lane):.2f}%"
        return f'<span class="cl-tag cl-in {shade}" style="{place}">{_esc(self.strings[span.text])}</span>'

    def _rule_is_there(self, code: int) -> bool:
        return code != _NONE and 0 <= self.x.place(code) <= 1000

    def _line(self, row: int) -> str:
        """A curve as an SVG path; it lifts the pen where a value is not there."""
        d, pen = [], "M"
        for gx, gy in zip(self.grid, self.pool[row], strict=True):
            if gy == _NONE:
                pen = "M"
            else:
                d.append(f"{pen}{self.x.place(gx):.1f} {1000 - self.y.place(gy):.1f}")
                pen = "L"
        return "".join(d)

    def _spot(self, x: int, y: int) -> str:
        """A zero-length stroke, which shows as its cap; nothing where the place is not there or out of the picture."""
        px, py = self.x.place(x), self.y.place(y)
        there = _NONE not in (x, y) and 0 <= px <= 1000 and 0 <= py <= 1000
        return f"M{px:.1f} {1000 - py:.1f}h0" if there else ""

    def _boxes(self, spans: list[_Span]) -> str:
        """Spans as one SVG path of rectangles, seven tenths of a lane high."""
        tall = 700 / len(self.lanes)
        boxes = []
        for span in spans:
            if span.lane != _NONE:
                left, right = self.x.place(span.start), self.x.place(span.end)
                top = 10 * self._lane(span.lane) - tall / 2
                boxes.append(f"M{left:.1f} {top:.1f}H{right:.1f}v{tall:.1f}H{left:.1f}z")
        return "".join(boxes)

    def _breaks(self) -> str:
        """A zigzag where a bar leaves the picture."""
        tall = 700 / len(self.lanes)
        return "".join(
            f"M985 {10 * self._lane(span.lane) - tall / 2:.1f}" + f"l8 {tall / 4:.1f}l-8 {tall / 4:.1f}" * 2
            for spans in self.spans.values()
            for span in spans
            if span.lane != _NONE and self.x.place(span.start) < 985 and self.x.place(span.end) > 1000.5
        )

    def _lane(self, lane: int) -> float:
        """Middle of a lane, in percent from the top."""
        return 100 * (lane + 0.5) / len(self.lanes)

    def _shape(self, i: int, kind: str, d: str) -> str:
        """Marks of one kind: dots, squares, rings, hollow squares, and then the same four smaller."""
        shade = self._shade(len(self.first.curves) + i, kind)
        classes = f"cl-mark{' cl-square' * (i % 2)}{' cl-small' * (i // 4)} {shade}"
        return _path(classes, d) + (_path(f"{classes} cl-hole", d) if i % 4 > 1 else "")

    def _readouts(self) -> str:
        return "".join(
            f'<div class="cl-read{self._answer(label)}"><dt>{_esc(label)}</dt><dd>{_esc(text)}</dd></div>'
            for label, text in zip(self.first.readouts, self.texts, strict=True)
        )

    # What stays

    def _gridlines(self) -> str:
        across = "".join(f"M{10 * tick.at:.1f} 0V1000" for tick in self.x.ticks())
        up = "".join(f"M0 {1000 - 10 * tick.at:.1f}H1000" for tick in self.y.ticks()) if self.y else ""
        return across + up

    def _left(self) -> str:
        """Labels of the y axis or of the lanes; an invisible copy of the longest makes room for them."""
        if self.first.spans:
            labels = [(f"top:{self._lane(i):.2f}%", lane) for i, lane in enumerate(self.lanes)]
        else:
            labels = [(f"bottom:{tick.at:.2f}%", tick.text) for tick in (self.y.ticks() if self.y else [])]
        widest = max((text for _, text in labels), key=len, default="")
        spans = "".join(f'<span style="{style}">{_esc(text)}</span>' for style, text in labels)
        return f'<div class="cl-left" aria-hidden="true"><i>{_esc(widest)}</i>{spans}</div>'

    def _below(self) -> str:
        """Labels of the x axis; a narrow picture shows every second one."""
        spans = []
        for i, tick in enumerate(self.x.ticks()):
            classes = " ".join(["cl-minor"] * (i % 2) + ["cl-end"] * (tick.at > 98))
            spans.append(f'<span class="{classes}" style="left:{tick.at:.2f}%">{_esc(tick.text)}</span>')
        return f'<div class="cl-below" aria-hidden="true">{"".join(spans)}</div>'

    def _legend(self) -> str:
        """A key for each kind of spans, or for each curve and each kind of marks."""
        line, names = ("cl-swatch", self.spans) if self.first.spans else ("cl-stroke", self.first.curves)
        lines = [_key(30, _path(f"{line} {self._shade(i, name)}", "M0 5H30"), name) for i, name in enumerate(names)]
        return "".join(lines + [_key(10, self._shape(i, kind, "M5 5h0"), kind) for i, kind in enumerate(self.marks)])


def _key(width: int, picture: str, name: str) -> str:
    return f'<li><svg viewBox="0 0 {width} 10" aria-hidden="true">{picture}</svg>{_esc(name)}</li>'


def _path(classes: str, d: str) -> str:
    return f'<path class="{classes}" d="{d}"/>'


def _tag(kind: str, x: float, y: float, label: str, there: bool, style: str = "") -> str:
    """A label in the picture, to the left of its mark in the right half."""
    classes = f"cl-tag {kind}{' cl-left-of' if x > 500 else ''}"
    place = f"left:{x / 10:.2f}%;bottom:{y / 10:.2f}%;{style}"
    return f'<span class="{classes}" style="{place}"{"" if there else " hidden"}>{_esc(label)}</span>'


def _esc(text: object) -> str:
    return html.escape(str(text), quote=True)
