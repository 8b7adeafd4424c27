"""Controls: what a reader moves, and the stops of each as the table and the browser need them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import traitlets

from clusterlab.units import fmt, ladder, spellings


@dataclass(frozen=True)
class Slider:
    """A number that a reader drags, steps, or types with its unit.

    Parameters
    ----------
    label : str
        What it is.
    stops : sequence of float
        Where the picture is computed, from the least value to the greatest; between two the browser interpolates.
    unit : str
        As :func:`clusterlab.units.fmt` takes it.
    start : float, optional
        Where it begins, which is a stop too; the first where it is left out.
    log : bool
        The slider, and what is between two stops, go by ratios.
    whole : bool
        Only whole numbers have a meaning. Stops are rounded to whole numbers.
    snaps : bool
        The law jumps (a search, a whole number of servers), so that the slider takes its stops alone.
    labels : sequence of str, optional
        What is shown at each stop of a slider that snaps; the formatted stops where it is left out.

    Examples
    --------
    >>> Slider("GPUs", [8, 128, 2048], start=128, log=True, whole=True).unit
    ''
    """

    label: str
    stops: Sequence[float]
    unit: str = ""
    start: float | None = None
    labels: Sequence[str] | None = None
    log: bool = False
    whole: bool = False
    snaps: bool = False


@dataclass(frozen=True)
class Play(Slider):
    """A slider over the steps of a process, which a reader can also play; at the end it stops.

    Examples
    --------
    >>> from explorable.explorer import Explorer, Picture, Play
    >>> from explorable.scene import Box, Scene
    >>> def view(step):
    ...     gpus = [Box(70 * g, 0, 60, 44, f"GPU {g}") for g in range(4)]
    ...     chunk = Box(70 * step + 20, 60, 20, 20, "a", kind="wire", solid=True, key="a")
    ...     return Picture(scene=Scene(270, 80, [*gpus, chunk], alt=f"Chunk a is on GPU {step}"))
    >>> Explorer(view, controls={"step": Play("Step", range(4))}, title="A chunk on its way around a ring")
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


# Prefixes that people type where a number is a plain count: "12k".
_COUNTS = {"k": 1e3, "K": 1e3, "M": 1e6, "B": 1e9, "G": 1e9, "T": 1e12}
_NEAR = 1e-9  # what is this near to a stop, in shares, is the stop


@dataclass(frozen=True)
class Control:
    """One control as the table and the browser need it."""

    name: str
    kind: str
    label: str
    values: list  # of the trait: stops, labels or bools
    given: list  # what the view receives
    start: int  # an index
    labels: list[str] | None  # of the stops, where nothing stands between them
    unit: str = ""
    log: bool = False
    whole: bool = False

    @property
    def smooth(self) -> bool:
        """Whether it takes values between its stops."""
        return self.labels is None

    def trait(self) -> traitlets.TraitType:
        """A synced trait that takes what the control takes."""
        first, (low, *_, high) = self.values[self.start], self.values
        if not self.smooth:
            return traitlets.Enum(self.values, default_value=first).tag(sync=True)
        kind = traitlets.Int if self.whole else traitlets.Float
        return kind(first, min=low, max=high).tag(sync=True)

    def places(self) -> np.ndarray:
        """Where the stops stand along the slider."""
        return np.log(self.values) if self.log else np.asarray(self.values, dtype=float)

    def stop(self, value: object) -> int | None:
        """Number of the stop of this value; None where it lies between two."""
        if not self.smooth:
            return self.values.index(value)
        return next((i for i, at in enumerate(self.values) if abs(value - at) <= _NEAR * abs(at)), None)

    def view_value(self, value: object) -> object:
        """What the view receives for a value."""
        stop = self.stop(value)
        return value if stop is None else self.given[stop]

    def spec(self) -> dict:
        """What the browser needs."""
        told = {key: getattr(self, key) for key in ("name", "kind", "label", "labels", "values", "start")}
        if self.kind in ("select", "toggle"):
            return told
        known = spellings(self.unit)
        # A prefix alone is one of the unit: 400G of bytes. A plain number takes those of counts.
        letters = {name.removesuffix(self.unit): size for name, size in known.items() if name.endswith(self.unit)}
        short = {name: size for name, size in letters.items() if len(name) == 1} if self.unit else {}
        told |= {"unit": self.unit, "ladder": ladder(self.unit), "log": self.log, "whole": self.whole}
        return told | {"spellings": (_COUNTS if len(known) == 1 and self.unit != "%" else {}) | short | dict(known)}


def checked(name: str, control: Slider | Select | Toggle) -> Control:
    """The stops of one control and their labels, checked."""
    if isinstance(control, Slider):
        return _slider(name, control)
    if isinstance(control, Select):
        if isinstance(control.options, str):
            raise ValueError(f"control {name!r} needs a list or a mapping of options, got {control.options!r}")
        labels = list(control.options)
        values: list = [*labels]
        given: list = list(control.options.values()) if isinstance(control.options, Mapping) else values
    elif isinstance(control, Toggle):
        values = given = [False, True]
        labels = ["off", "on"]
    else:
        raise ValueError(f"control {name!r} must be a Slider, a Play, a Select or a Toggle, got {control!r}")
    start = _start(name, values, labels, control.start)
    return Control(name, type(control).__name__.lower(), control.label, values, given, start, labels)


def _slider(name: str, control: Slider) -> Control:
    """A slider: its stops are numbers, in order where there is something between them."""
    values = [v.item() if isinstance(v, np.generic) else v for v in control.stops]
    for v in values:
        if isinstance(v, bool) or not isinstance(v, int | float) or not math.isfinite(v):
            raise ValueError(f"control {name!r} has the stop {v!r}; a slider's stops are finite numbers")
    snaps = control.snaps or isinstance(control, Play)
    if control.labels is not None and not snaps:
        raise ValueError(f"control {name!r} has labels, which name stops; without snaps=True there is more than stops")
    labels = list(control.labels or ())
    if control.whole:
        values = list(dict.fromkeys(round(v) for v in values))
    if control.labels is None:
        if control.start is not None and values and values[0] < control.start < values[-1]:
            values = sorted({*values, control.start})
        labels = [fmt(v, control.unit, 4) for v in values]
    if not snaps:
        labels = [str(v) for v in values]
        if values != sorted(values):
            raise ValueError(f"control {name!r} needs its stops in rising order, got {values}")
        if control.log and values[0] <= 0:
            raise ValueError(f"control {name!r} is logarithmic, and its stop {values[0]:g} is not above zero")
    start = _start(name, values, labels, control.start)
    kind = "play" if isinstance(control, Play) else "slider"
    told = labels if snaps else None
    return Control(name, kind, control.label, values, values, start, told, control.unit, control.log, control.whole)


def _start(name: str, values: list, labels: list, start: object) -> int:
    """Number of the stop that a control starts at."""
    if len(values) < 2 or len(set(values)) < len(values) or len(set(labels)) < len(values):
        raise ValueError(f"control {name!r} needs at least two different stops, and a different label for each")
    if wrong := [label for label in labels if not isinstance(label, str)]:
        raise ValueError(f"control {name!r} has the label {wrong[0]!r}; labels are text")
    start = values[0] if start is None else start
    if start not in values:
        raise ValueError(f"control {name!r} starts at {start!r}, which is not one of {', '.join(map(str, values))}")
    return values.index(start)
