"""Explorer: the one figure of the book, drawn by a view in Python.

A view is a Python function from control values to a :class:`Picture`. The explorer calls it once for every
combination of its controls' stops, and stores the pictures in a table. The browser computes no law: it looks up, and
between two stops it interpolates what is drawn and the numbers that are told. With a kernel, Python computes the exact
picture as well, and the table stands in until it has. To change a figure, edit the function and run the cell again.
Without controls it is a drawn figure: one picture.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from types import MappingProxyType

import traitlets

from clusterlab.units import fmt

from .._phrases import Notes, unmarked
from .._widget import Widget, script, style, together
from ._controls import Control, Play, Select, Slider, Toggle, checked
from ._labels import places
from ._markup import Figure
from ._picture import Axis, Picture, Predict, hidden_labels, stacked, waterfall
from ._table import Table, check_alike, check_colours, curve_pairs, every_picture, one_picture

__all__ = ["Axis", "Explorer", "Picture", "Play", "Predict", "Select", "Slider", "Toggle", "stacked", "waterfall"]

_HERE = Path(__file__).parent


class Explorer(Widget):
    """A figure over a table of pictures.

    Parameters
    ----------
    view : callable
        Called with one keyword for each control; returns a :class:`Picture`.
    controls : mapping
        Name to :class:`Slider`, :class:`Play`, :class:`Select` or :class:`Toggle`. Each becomes a synced trait of that
        name, whose value is a number, a label or a bool: ``explorer.batch = 64``, ``observe``, ``link`` and ``jslink``
        work. Without controls the one picture is a drawn figure.
    x, y : Axis
        ``y`` is left out where there are only spans, and both where there is only a scene. Each curve, then each kind
        of marks, has a colour: at most eight.
    title : str
        What the figure shows; its accessible name too.
    lanes : sequence of str
        Names of the lanes of spans, from top to bottom.
    colours : mapping
        Curve, or kind of marks or spans, to what it means: a name of :data:`explorable.palette.PALETTE`. What is not
        named takes its turn in :data:`explorable.palette.CYCLE`.
    bands : sequence of pairs
        Names of two curves, the space between which is tinted: both ends of an interval.
    drags : mapping
        A point, a rule or the key of a box in the scene, to the control that moves it: a reader may take the thing
        itself, and the control takes the value that brings it nearest to the pointer.
    predict : Predict, optional
        A question that comes first; the reader's answer is the trait ``guess``.

    Raises
    ------
    ValueError
        A control, an axis or a picture does not make sense; the message names it.

    Examples
    --------
    >>> import numpy as np
    >>> from clusterlab.units import fmt
    >>> def view(n):
    ...     return Picture(curves={"power": np.array([1.0, 2.0, 3.0]) ** n}, readouts={"At 3": fmt(3**n)})
    >>> x, y = Axis("x", values=[1, 2, 3]), Axis("y")
    >>> Explorer(view, controls={"n": Slider("Exponent", [1, 2])}, x=x, y=y, title="Powers")
    Explorer: Powers
      Exponent: 1 to 2 [1]
      first: At 3 = 3
      last:  At 3 = 9
    """

    _esm = script(_HERE / "explorer.js")
    _css = style(_HERE / "explorer.css")
    _spec = traitlets.Dict().tag(sync=True)
    _table = traitlets.Dict(help="Every combination's picture.").tag(sync=True)
    _exact = traitlets.Dict(help="The picture at values between stops, and these.").tag(sync=True)
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
        bands: Sequence[tuple[str, str]] = (),
        drags: Mapping[str, str] = MappingProxyType({}),
        predict: Predict | None = None,
    ) -> None:
        self._controls = [checked(name, control) for name, control in controls.items()]
        for control in self._controls:
            name = control.name
            if not (isinstance(name, str) and name.isidentifier()) or name[0] == "_" or hasattr(type(self), name):
                raise ValueError(f"control {name!r} must be an identifier that no widget attribute uses")
        self._view, self._axes = view, (x, y, tuple(lanes))
        notes = Notes()
        pictures = every_picture(view, self._controls, notes)
        table = Table(pictures, *self._axes, self._controls, notes)
        check_colours(pictures[0], colours)
        between = curve_pairs(pictures[0], bands)
        hidden = hidden_labels(pictures[0], predict)
        self._first, self._whole, self._ends = pictures[0], table, [_told(pictures[i]) for i in (0, -1)]
        super().__init__()
        self.add_traits(**{control.name: control.trait() for control in self._controls})
        start = self._index([control.start for control in self._controls])
        named = places(table, start, hidden)
        told = [(answer, together(why)) for answer, why in predict.answers.items()] if predict else []
        question = asdict(predict) | {"answers": told} if predict else None
        self._title = title
        self._spec = table.spec() | {
            "title": title,
            "controls": [control.spec() for control in self._controls],
            "predict": question,
            "bands": between,
            "names": [(p.at, p.above) if p else None for p in named],
            "drags": self._handles(pictures[0], drags),
        }
        self._table = table.stored()
        self._html = Figure(table, start, colours, hidden, between, named).markup(
            title, predict.premise if predict else "", not self._controls
        )
        if any(control.smooth for control in self._controls):
            self.observe(self._compute, [control.name for control in self._controls])

    def _index(self, stops: list[int]) -> int:
        """Number of a combination in the table: the last control changes fastest."""
        return functools.reduce(
            lambda index, at: index * len(at[0].values) + at[1], zip(self._controls, stops, strict=True), 0
        )

    def _handles(self, first: Picture, drags: Mapping[str, str]) -> list[tuple[str, int | str, int]]:
        """What can be dragged: its kind, its number or key, and the number of the control that it moves."""
        names = [control.name for control in self._controls]
        keys = [key for part in (first.scene.parts if first.scene else ()) if (key := getattr(part, "key", ""))]
        places: dict[str, tuple[str, int | str]] = {label: ("point", i) for i, label in enumerate(first.points)}
        places |= {label: ("rule", i) for i, label in enumerate(first.rules)}
        places |= {key: ("key", key) for key in keys}
        for thing, name in drags.items():
            if thing not in places:
                raise ValueError(f"drags names {thing!r}; there are: {', '.join(places)}")
            if name not in names:
                raise ValueError(f"no control {name!r}; there are: {', '.join(names)}, to drag {thing!r} by")
        return [(*places[thing], names.index(name)) for thing, name in drags.items()]

    def _compute(self, _: object) -> None:
        """Draw the exact picture where a control stands between two stops."""
        values = {control.name: getattr(self, control.name) for control in self._controls}
        if all(control.stop(values[control.name]) is not None for control in self._controls):
            return
        notes = Notes()
        picture = self._picture(values, notes)
        if all(len(picture.marks[k]) <= n for k, n in self._whole.content.mark_slots.items()) and all(
            len(picture.spans[k]) <= n for k, n in self._whole.content.span_slots.items()
        ):  # with more marks than at any stop, the table goes on standing in
            one = Table([picture], *self._axes, notes=notes, like=self._whole)
            self._exact = one.stored() | {"values": values}

    def _picture(self, values: Mapping[str, object], notes: Notes) -> Picture:
        chosen = {control.name: control.view_value(values[control.name]) for control in self._controls}
        picture = one_picture(self._view, chosen, self._controls, notes)
        check_alike(picture, self._first, chosen)
        return picture

    def at(self, **values: float | str | bool) -> dict[str, str]:
        """Read-outs at these control values, and at the present value of every control not named."""
        names = [control.name for control in self._controls]
        if unknown := set(values) - set(names):
            raise ValueError(f"no control {sorted(unknown)[0]!r}; there are: {', '.join(names)}")
        for control in self._controls:
            value = values.setdefault(control.name, getattr(self, control.name))
            if not control.smooth and value not in control.values:
                raise ValueError(f"{control.name} must be one of {', '.join(map(str, control.values))}; got {value!r}")
            if control.smooth and not control.values[0] <= value <= control.values[-1]:
                raise ValueError(
                    f"{control.name} must be from {control.values[0]} to {control.values[-1]}; got {value!r}"
                )
        picture = self._picture(values, Notes())
        return {label: unmarked(str(text)) for label, text in picture.readouts.items()}

    def __repr__(self) -> str:
        """Name the controls, and what both ends of the table say: what a reader without a browser sees."""
        lines = [f"Explorer: {self._title}", *(f"  {_named(control)}" for control in self._controls)]
        if not self._controls:
            return "\n".join([*lines, f"  {self._ends[0]}"])
        return "\n".join([*lines, f"  first: {self._ends[0]}", f"  last:  {self._ends[1]}"])


def _told(picture: Picture) -> str:
    """What a picture says in words."""
    said = [picture.scene.alt] if picture.scene else []
    return unmarked("; ".join([*said, *(f"{label} = {text}" for label, text in picture.readouts.items())]))


def _named(control: Control) -> str:
    """A control: its label, what it takes, and in brackets where it starts."""
    if control.labels is None:
        low, start, high = (fmt(control.values[i], control.unit, 4) for i in (0, control.start, -1))
        return f"{control.label}: {low} to {high} [{start}]"
    marked = [f"[{label}]" if i == control.start else label for i, label in enumerate(control.labels)]
    if len(marked) > 12 and control.kind == "slider":
        return f"{control.label}: {len(marked)} stops from {marked[0]} to {marked[-1]}, {marked[control.start]}"
    return f"{control.label}: {', '.join(marked)}"
