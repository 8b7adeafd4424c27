"""Controls: what a reader moves, and the stops of each as the table and the browser need them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import traitlets

from clusterlab.units import fmt


@dataclass(frozen=True)
class Slider:
    """A slider over named stops. ``labels`` default to the formatted stops; ``start`` to the first stop."""

    label: str
    stops: Sequence[float]
    unit: str = ""
    start: float | None = None
    labels: Sequence[str] | None = None


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


@dataclass(frozen=True)
class Control:
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


def checked(name: str, control: Slider | Select | Toggle) -> Control:
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
        labels = list(control.options)
        values = [*labels]
        given = list(control.options.values()) if isinstance(control.options, Mapping) else values
    elif isinstance(control, Toggle):
        values = given = [False, True]
        labels = ["off", "on"]
    else:
        raise ValueError(f"control {name!r} must be a Slider, a Play, a Select or a Toggle, got {control!r}")
    if len(values) < 2 or len(set(values)) < len(values) or len(set(labels)) < len(values):
        raise ValueError(f"control {name!r} needs at least two different stops, and a different label for each")
    if wrong := [label for label in labels if not isinstance(label, str)]:
        raise ValueError(f"control {name!r} has the label {wrong[0]!r}; labels are text")
    start = values[0] if control.start is None else control.start
    if start not in values:
        raise ValueError(f"control {name!r} starts at {start!r}, which is not one of {', '.join(map(str, values))}")
    return Control(
        name=name,
        kind=type(control).__name__.lower(),
        label=control.label,
        labels=labels,
        values=values,
        given=given,
        start=values.index(start),
    )
