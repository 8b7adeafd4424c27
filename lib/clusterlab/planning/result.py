"""What every plan says beside its numbers: intervals, what matters most, what binds, what else there was to choose.

Made once, for a training run and for a fleet, and written once, for the command, the report and the book's drawings.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import ClassVar, NamedTuple

import numpy as np

from ..catalogue import Fact
from ..failures import Estimate
from ..quantities import Amount, Dollars, Number, Seconds, Watts
from ..records import Explained, Rows, Table, say, summary, words
from ..units import fmt
from .scenario import ASSUMPTIONS, Scenario, StepEnds, ends_of, supposed


class InfeasibleError(ValueError):
    """No plan keeps within the limits. ``nearest`` maps a limit to the value that alone would do, where one would."""

    def __init__(self, message: str, nearest: Mapping[str, float] | None = None) -> None:
        super().__init__(message)
        self.nearest = dict(nearest or {})


def counted(value: Amount) -> str:
    """A count in full, and the range of an array."""
    return f"{float(value):,.0f}" if np.ndim(value) == 0 else summary(value)


def shown(value: float, unit: str) -> str:
    """A result in words; nothing where it is not known."""
    if not math.isfinite(value):
        return ""
    return fmt(value, unit) if unit or value < 1000 else counted(value)


# --- How sure --------------------------------------------------------------------------------------------------------


def interval(central: Number, drawn: Number, unit: str) -> Estimate:
    """A result in the central scenario, and between which values eight of ten drawn scenarios have it."""
    low, high = np.quantile(drawn, (0.1, 0.9))
    return Estimate(float(central), min(float(low), float(central)), max(float(high), float(central)), unit)


def intervals(results: Mapping[str, tuple[str, Number, Number]]) -> Mapping[str, Estimate]:
    """The interval of each result that is known: its unit, its central value, and those of drawn scenarios."""
    return MappingProxyType(
        {name: interval(one, many, unit) for name, (unit, one, many) in results.items() if np.isfinite(one)}
    )


def ends(sure: Mapping[str, Estimate], names: Mapping[str, str]) -> dict[str, float]:
    """``NAME_low`` and ``NAME_high`` of some results, as a record of plain numbers has them."""
    known = {name: sure[of] for name, of in names.items() if of in sure}
    return {f"{name}_{end}": float(getattr(one, end)) for name, one in known.items() for end in ("low", "high")}


# --- What matters most -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class Sensitivity(Explained):
    """What an assumption alone does to a plan when it goes from one end of its interval to the other."""

    name: str
    low: float
    high: float
    time: tuple[float, float]
    cost: tuple[float, float]

    @property
    def assumed(self) -> tuple[str, str]:
        """Both ends of the assumption, as the data prints them where they are the data's."""
        one = ASSUMPTIONS.get(self.name)
        if one and one.low and one.high and math.isclose(self.low, one.low) and math.isclose(self.high, one.high):
            return str(one.facts["low"].printed), str(one.facts["high"].printed)
        printed = str(one.facts["value"].printed).split() if one else []
        if printed[1:] in (["h"], ["d"], ["yr"]):  # a site's own records gave other ends
            return fmt(self.low, printed[1]), fmt(self.high, printed[1])
        return f"{self.low:.4g}", f"{self.high:.4g}"

    def _rows(self) -> Rows:
        ends = {"assumption": (self.low, self.high, ""), "time": (*self.time, "s"), "cost": (*self.cost, "$")}
        rows = [(name, summary(low, unit), summary(high, unit)) for name, (low, high, unit) in ends.items()]
        return [(self.name, "low", "high"), *rows]


class Move(NamedTuple):
    """How far an assumption alone moves the time or the cost of a plan, as shares of it: less, and more."""

    name: str
    less: float
    more: float

    @property
    def said(self) -> tuple[str, str]:
        """Both as people write them: ``("-14%", "+52%")``."""
        return _change(self.less), _change(self.more)


def _change(share: float) -> str:
    if abs(share) < 5e-4:
        return "0%"
    return f"{share:+.0%}" if abs(share) >= 0.1 else f"{100 * share:+.2g}%"


def sensitivities(
    scenario: Scenario, step_kind: StepEnds, of: Callable[[Scenario], tuple[float, float]], *, paid: bool
) -> tuple[Sensitivity, ...]:
    """Each uncertain assumption moved alone from one end of its interval to the other, the widest first.

    ``of`` gives time and cost in a scenario. An assumption that moves neither is left out, and so is one at whose end
    nothing can be built. Where no price is known the time says which is the widest.
    """
    bars = []
    for name, (low, high) in ends_of(scenario, step_kind).items():
        try:
            (time, cost), (later, dearer) = (of(supposed(scenario, {name: end})) for end in (low, high))
        except InfeasibleError:
            continue
        if time != later or cost != dearer:
            bars.append(Sensitivity(name, low, high, (time, later), (cost, dearer)))
    return tuple(sorted(bars, key=lambda bar: _width(bar.cost if paid else bar.time), reverse=True))


def _width(ends: tuple[float, float]) -> float:
    low, high = ends
    return abs(math.log(high / low)) if low > 0 else 0.0


# --- What else there was ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class Point(Explained):
    """One of the plans that are worth a choice: none is both faster and cheaper.

    ``low`` and ``high`` of time, cost and power hold eight of ten drawn scenarios.
    """

    accelerator: str
    gpus: float
    time: Seconds
    cost: Dollars
    power: Watts
    racks: float
    time_low: Seconds = math.nan
    time_high: Seconds = math.nan
    cost_low: Dollars = math.nan
    cost_high: Dollars = math.nan
    power_low: Watts = math.nan
    power_high: Watts = math.nan

    def say(self, name: str) -> str:
        """Its time, cost or power with the interval, in words; nothing where it is not known."""
        return say(self, name, {"time": "s", "cost": "$", "power": "W"}[name])

    def _rows(self) -> Rows:
        said = [(name, self.say(name)) for name in ("time", "cost", "power")]
        return [("", self.accelerator), ("gpus", counted(self.gpus)), *said, ("racks", counted(self.racks))]


def undominated(time: np.ndarray, price: np.ndarray) -> list[int]:
    """Which of the plans have no other that is both faster and cheaper: their indices, the fastest first."""
    front: list[int] = []
    for i in np.lexsort((price, time)):
        if not front or price[i] < price[front[-1]]:
            front.append(int(i))
    return front


# --- What binds ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class Binding(Explained):
    """What keeps a plan from being faster or cheaper, and the neighbour that ``unit`` more of it would allow.

    ``gpus``, ``time`` and ``cost`` are what the neighbour adds: below zero is saved. It was planned too, so half as
    much more allows nothing yet.
    """

    name: str
    limit: float
    unit: float
    dimension: str
    gpus: float
    time: float
    cost: float

    @property
    def sentence(self) -> str:
        """The same in words: ``power binds; 310 kW more of it would change: +128 GPUs, -4.3 d, +$30,000``."""
        if not self.unit:
            return f"{words(self.name)} binds; no plan beyond it would be better"
        amount = f"{fmt(self.unit, self.dimension)} more of it" if self.dimension else f"{self.unit:,.0f} more"
        changes = [f"{count} GPUs" for count in [_signed(self.gpus)] if count]
        changes += [_signed(self.time, "s")]
        changes += [_signed(self.cost, "$")]
        return f"{words(self.name)} binds; {amount} would change: {', '.join(filter(None, changes)) or 'nothing'}"

    def _rows(self) -> Rows:
        def said(value: float) -> str:
            return summary(value, self.dimension) if self.dimension else counted(value)

        rows = [(self.name, "value"), ("limit", said(self.limit)), ("next at", said(self.limit + self.unit))]
        added = {"gpus": "", "time": "s", "cost": "$"}
        values = [(name, getattr(self, name), unit) for name, unit in added.items()]
        return rows + [
            (f"adds {name}", summary(v, unit) if unit else counted(v)) for name, v, unit in values if math.isfinite(v)
        ]


def _signed(value: float, unit: str = "") -> str:
    """What is added, or saved; nothing where it is not known or none."""
    if not value or not math.isfinite(value):
        return ""
    if not unit:
        return f"{value:+,.0f}" if abs(value) >= 10 else f"{value:+.2g}"
    return ("+" if value > 0 else "") + fmt(value, unit)


# --- Beside what was published ---------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class PublishedComparison(Explained):
    """A result of a plan beside what was published of such a cluster."""

    name: str
    unit: str
    planned: float
    low: float
    high: float
    published: float
    fact: Fact

    @property
    def error(self) -> float:
        """Planned over published, less one."""
        return self.planned / self.published - 1

    @property
    def with_interval(self) -> str:
        """What was planned, with its interval where it is uncertain."""
        return Estimate(self.planned, self.low, self.high, self.unit).with_interval

    @property
    def role(self) -> str:
        """What the agreement is worth: the number is predicted, fitted, or restated."""
        return self.fact.role

    @property
    def cells(self) -> tuple[str, str, str, str, str]:
        """Its name, what was planned and published, the error, and the role: a row of a table."""
        planned, published = self.with_interval, fmt(self.published, self.unit)
        return words(self.name), planned, published, f"{self.error:+.1%}", self.role

    def _rows(self) -> Rows:
        rows = [(words(self.name), "value"), ("planned", self.with_interval)]
        rows += [("published", summary(self.published, self.unit)), ("error", f"{self.error:+.1%}")]
        rows.append(("role", f"{self.role}: {self.fact.by}" if self.fact.by else self.role))
        return [*rows, ("source", self.fact.source.title), ("note", self.fact.note)]


# --- All of it -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False, kw_only=True)
class Result(Explained):
    """What every plan says beside its numbers.

    ``intervals`` hold eight of ten drawn scenarios, and ``published`` what there is to compare with. What many plans
    are never asked for is worked out when it is: ``weigh`` gives the tornado, ``rank`` the front.
    """

    intervals: Mapping[str, Estimate] = field(default_factory=dict)
    binding: Binding | None = None
    published: tuple[PublishedComparison, ...] = ()
    weigh: Callable[[], tuple[Sensitivity, ...]] = field(default_factory=lambda: tuple, compare=False)
    rank: Callable[[], tuple[Point, ...]] = field(default_factory=lambda: tuple, compare=False)

    timed: ClassVar[str] = "time"  # what its time is of
    billed: ClassVar[str] = "cost"  # and its cost

    @cached_property
    def tornado(self) -> tuple[Sensitivity, ...]:
        """What each assumption alone does, the one that moves the cost most first."""
        return self.weigh()

    @cached_property
    def front(self) -> tuple[Point, ...]:
        """Every plan that was worth a choice: none is both faster and cheaper."""
        return self.rank()

    @property
    def results(self) -> Mapping[str, tuple[str, float]]:
        """Everything that is to be built, and what comes of it: unit and value, by name."""
        raise NotImplementedError

    @property
    def central(self) -> tuple[float, float]:
        """Time and cost in the central scenario."""
        raise NotImplementedError

    @property
    def paid(self) -> bool:
        """Whether a price is known."""
        return math.isfinite(self.central[1])

    @property
    def parts(self) -> Mapping[str, float]:
        """Everything that is to be built, and what comes of it, by name."""
        return MappingProxyType({name: value for name, (_, value) in self.results.items()})

    def moves(self, of: str = "cost") -> list[Move]:
        """How far each assumption alone moves the cost or the time, the widest first."""
        if of not in ("cost", "time"):
            raise ValueError(f"of must be 'cost' or 'time', got {of!r}")
        time, cost = self.central
        centre = cost if of == "cost" else time
        if not math.isfinite(centre):
            raise ValueError("this plan has no price; ask for its time")
        moves = [Move(bar.name, *(end / centre - 1 for end in sorted(getattr(bar, of)))) for bar in self.tornado]
        return sorted(moves, key=lambda one: one.less - one.more)

    def tornado_table(self, most: int | None = None) -> Table:
        """The widest bars of the tornado: both ends of the assumption, of time and of cost, and how far off."""
        bars = self.tornado[:most]
        columns = [[words(bar.name) for bar in bars], *zip(*(bar.assumed for bar in bars), strict=True)]
        heading = ["assumption", "from", "to"]
        for of, said, unit in (("time", self.timed, "s"), ("cost", self.billed, "$")):
            if of == "time" or self.paid:
                move = {one.name: one for one in self.moves(of)}
                pairs = [sorted(getattr(bar, of)) for bar in bars]
                heading += [said, f"{said}, against the plan"]
                columns.append([_to(*(fmt(end, unit) for end in pair)) for pair in pairs])
                columns.append([_to(*move[bar.name].said) for bar in bars])
        return Table((tuple(heading), *zip(*columns, strict=True)))

    def choices(self, most: int | None = None) -> Table:
        """The front; every so many of its points, where there are more than ``most``."""
        points = self.front if most is None else self.front[:: -(-len(self.front) // most)]
        heading = ("accelerator", "GPUs", self.timed, self.billed, "power", "racks")
        said = [[one.say(name) for name in ("time", "cost", "power")] for one in points]
        rows = [(p.accelerator, counted(p.gpus), *s, counted(p.racks)) for p, s in zip(points, said, strict=True)]
        return Table((heading, *rows))

    def beside_published(self) -> Table:
        """Each published number beside the plan's."""
        return Table((("", "planned", "published", "error", "role"), *(one.cells for one in self.published)))


def _to(*pair: str) -> str:
    """Both ends of a range; nothing where they are one."""
    return " to ".join(pair) if len(set(pair)) > 1 else ""
