"""Explorer: the one figure of the book, drawn by a view in Python.

A view is a Python function from control values to a :class:`Picture`. The explorer calls it once for every
combination of its controls' stops, and stores the pictures in a table. The browser looks up and draws; it computes no
law. So a figure moves the same with a kernel and without one, is exact at every stop, and cannot disagree with the
library. To change it, edit the function and run the cell again. Without controls it is a drawn figure: one picture.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from types import MappingProxyType

import traitlets

from .._widget import Widget, script, style, together
from ._controls import Play, Select, Slider, Toggle, checked
from ._markup import Figure
from ._picture import Axis, Picture, Predict, hidden_labels, stacked, waterfall
from ._table import Table, check_colours, curve_pairs, every_picture

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
        Curve, or kind of marks or spans, to what it means: a name of :data:`explorable.palette.PALETTE`. What is not
        named takes its turn in :data:`explorable.palette.CYCLE`.
    bands : sequence of pairs
        Names of two curves, the space between which is tinted: both ends of an interval.
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
      Exponent: [1], 2
      first: At 3 = 3
      last:  At 3 = 9
    """

    _esm = script(_HERE / "explorer.js")
    _css = style(_HERE / "explorer.css")
    _spec = traitlets.Dict().tag(sync=True)
    _table = traitlets.Bytes().tag(sync=True)
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
        predict: Predict | None = None,
    ) -> None:
        self._controls = [checked(name, control) for name, control in controls.items()]
        for control in self._controls:
            name = control.name
            if not (isinstance(name, str) and name.isidentifier()) or name[0] == "_" or hasattr(type(self), name):
                raise ValueError(f"control {name!r} must be an identifier that no widget attribute uses")
        pictures = every_picture(view, self._controls)
        table = Table(pictures, x, y, tuple(lanes))
        check_colours(pictures[0], colours)
        between = curve_pairs(pictures[0], bands)
        hidden = hidden_labels(pictures[0], predict)
        self._readouts = [dict(picture.readouts) for picture in pictures]
        self._alts = [picture.scene.alt if picture.scene else "" for picture in pictures]
        super().__init__()
        self.add_traits(**{control.name: control.trait() for control in self._controls})
        start = self._index([control.start for control in self._controls])
        told = [(answer, together(why)) for answer, why in predict.answers.items()] if predict else []
        question = asdict(predict) | {"answers": told} if predict else None
        self._title = title
        self._spec = table.spec() | {
            "title": title,
            "controls": [control.spec() for control in self._controls],
            "predict": question,
            "bands": between,
        }
        self._table = table.codes()
        self._html = Figure(table, start, colours, hidden, between).markup(
            title, predict.premise if predict else "", not self._controls
        )

    def _index(self, stops: list[int]) -> int:
        """Number of a combination in the table: the last control changes fastest."""
        return functools.reduce(
            lambda index, at: index * len(at[0].values) + at[1], zip(self._controls, stops, strict=True), 0
        )

    def at(self, **values: float | str | bool) -> dict[str, str]:
        """Read-outs at these control values, and at the present value of every control not named."""
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
