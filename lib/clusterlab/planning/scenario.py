"""What is asked, what there is, and what is assumed.

:class:`Training` and :class:`Serving` ask; a :class:`Site` says what there is; a :class:`Scenario` holds what nobody
knows beforehand: how often a GPU fails, what a server will cost. ``CENTRAL`` is the scenario of the best guesses, and
:func:`samples` draws others around it. Guesses, switches and price lists are data with a source each:
``data/planner.toml``, which ``clusterlab audit`` prints.
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from types import MappingProxyType
from typing import ClassVar, TypeVar

import numpy as np

from .. import catalogue
from ..catalogue import PREDICTION_INTERVALS, PRICE_LISTS, Fact, Software, Sourced, find, read_records, stored
from ..checks import check, nonnegative, positive, whole
from ..failures import BY_HAND
from ..model import Transformer, Workload, parameters, precision_of
from ..own import model_of
from ..quantities import (
    Amount,
    Bytes,
    BytesPerSecond,
    Count,
    Number,
    PositiveBytes,
    PositiveDollars,
    PositiveSeconds,
    PositiveShare,
    PositiveWatts,
    Seconds,
    WholeAmount,
    quantities_of,
)
from ..records import Explained, Rows, Value, summary, words
from ..scaling import critical_batch, loss
from ..serving import Formats, Requests
from ..units import fmt, hour, kWh, parse
from .stacks import stack

Record = TypeVar("Record")


def _refuse(record: Training | Serving | Site | Scenario) -> None:
    """Refuse a field that its quantity does not allow; what is None was not given."""
    for name, quantity in quantities_of(type(record)).items():
        if (value := getattr(record, name)) is not None:
            check(quantity.rule, name, value)


# --- What is asked ---------------------------------------------------------------------------------------------------


_MOST_TOKENS = 1e18  # ten thousand times the longest run


@dataclass(frozen=True, repr=False)
class Training(Explained):
    """A model to train on so many tokens.

    Parameters
    ----------
    model : Transformer or str
        A shape, or the name of one in the catalogue.
    tokens
        Tokens to train on.
    sequence, global_batch
        Tokens of a sequence, and sequences of a step. By default the batch is the power of two that is next to the
        critical batch of such a model at the end of its training (:func:`clusterlab.scaling.critical_batch`).
    precision : str
        As in :class:`~clusterlab.model.Workload`.
    deadline : optional
        Seconds after which it must be done.

    Examples
    --------
    >>> Training("Llama 3.1 8B", 15e12).global_batch
    1024.0
    """

    model: Transformer
    tokens: Number
    sequence: Count = 8192
    global_batch: Count = None
    precision: str = "bf16"
    deadline: PositiveSeconds | None = None

    def __post_init__(self) -> None:
        """Look up the model, set the batch, and refuse what is no workload."""
        if not isinstance(self.model, Transformer):
            object.__setattr__(self, "model", model_of(self.model))
        object.__setattr__(self, "precision", precision_of(self.precision))
        _refuse(self)
        if self.tokens > _MOST_TOKENS:
            raise ValueError(f"tokens must be at most {_MOST_TOKENS:g}, got {self.tokens:g}")
        if self.global_batch is None:
            least = critical_batch(loss(parameters(self.model).active, self.tokens)) / self.sequence
            object.__setattr__(self, "global_batch", float(2 ** max(round(math.log2(least)), 0)))
        self.workload  # noqa: B018, it raises what is wrong with it

    @property
    def workload(self) -> Workload:
        """What a step works through."""
        return Workload(self.sequence, self.global_batch, self.precision)

    @property
    def steps(self) -> float:
        """Steps of the run: the last one is whole too."""
        return float(math.ceil(self.tokens / self.workload.tokens * (1 - 1e-12)))

    def _rows(self) -> Rows:
        rows = [("", "value"), ("model", self.model.name), ("tokens", f"{summary(self.tokens / 1e12)} trillion")]
        rows += [("sequence", summary(self.sequence)), ("global batch", summary(self.global_batch))]
        rows.append(("precision", self.precision))
        return rows + ([("deadline", summary(self.deadline, "s"))] if self.deadline else [])


@dataclass(frozen=True, repr=False)
class Serving(Explained):
    """A model to serve to users.

    Parameters
    ----------
    model : Transformer or str
        A shape, or the name of one in the catalogue.
    rate
        Requests a second at the peak.
    prompt, output
        Tokens of a request and of its answer.
    speed
        Tokens a second that each user must get.
    first_token : optional
        Seconds within which the first token must come, once the request is taken up.
    precision : str
        Of products and weights: ``"bf16"``, ``"fp8"``, ``"fp4"``.
    cached
        Share of a prompt that a cache has already.

    Examples
    --------
    >>> Serving("Llama 3.1 70B", 100, 1000, 300, speed=30).requests.output
    300.0
    """

    model: Transformer
    rate: Number
    prompt: float
    output: float
    speed: Number = 20.0
    first_token: PositiveSeconds | None = None
    precision: str = "bf16"
    cached: float = 0.0

    def __post_init__(self) -> None:
        """Look up the model, and refuse what nobody asks."""
        if not isinstance(self.model, Transformer):
            object.__setattr__(self, "model", model_of(self.model))
        object.__setattr__(self, "precision", precision_of(self.precision))
        _refuse(self)
        self.requests, self.formats  # noqa: B018, they raise what is wrong with them

    @property
    def requests(self) -> Requests:
        """One request."""
        return Requests(self.prompt, self.output, self.cached)

    @property
    def formats(self) -> Formats:
        """Its number formats; caches are in 16 bits."""
        return Formats(self.precision)

    @property
    def tokens_per_second(self) -> float:
        """Tokens of answers a second, at the peak."""
        return self.rate * self.output

    def _rows(self) -> Rows:
        rows = [("", "value"), ("model", self.model.name), ("requests a second", summary(self.rate))]
        rows += [("prompt", summary(self.prompt)), ("answer", summary(self.output))]
        rows += [("of it cached", summary(self.cached, "%"))] if self.cached else []
        rows += [("speed at least", summary(self.speed, "tokens/s")), ("precision", self.precision)]
        return rows + ([("first token within", summary(self.first_token, "s"))] if self.first_token else [])


# --- What there is ---------------------------------------------------------------------------------------------------

_AXES = ("tp", "pp", "cp", "ep", "microbatch", "chunks", "zero", "recompute")
# More than any has: ports of a leaf switch, units of a rack, ranks of an axis, servers.
_MOST = {"oversubscription": 63, "servers_per_rack": 100, "zero": 3, "spares": 1_000_000, "gpus": 10_000_000}
_MOST |= dict.fromkeys(("tp", "pp", "cp", "ep", "microbatch", "chunks"), 1_000_000)


@dataclass(frozen=True, repr=False)
class Site(Explained):
    """What there is, and what is fixed: whatever is None is chosen, or has no limit.

    Parameters
    ----------
    accelerator, network : str
        As in :mod:`clusterlab.catalogue`. By default every accelerator with a price list of its own is tried.
    gpus
        Accelerators that work; spares come on top.
    layout : mapping
        Fixed axes of the layout: ``{"tp": 8, "pp": 16}``. The others are searched.
    power
        What the site may be rated at, at its meter.
    racks, rack_power, servers_per_rack
        Racks that there are, what each may draw, and servers that may stand in one.
    budget
        What the run may cost.
    rent
        Dollars a second for an accelerator. By default it is bought, with its share of network and hall.
    spares
        Servers on standby; by default as many as are enough in bad months too.
    storage_bandwidth
        What the storage takes.
    memory
        Bytes that a layout may need on an accelerator; by default nine tenths of what it has.
    server_power
        Of an accelerator with its share of its server, where no datasheet has it.
    oversubscription
        Of the leaves, as in :func:`clusterlab.interconnect.fat_tree`. It saves switches, and what of a step crosses
        leaves takes longer, as :func:`clusterlab.interconnect.crossing_slowdown` says; collisions lose more.
    software : str
        A training stack as people write it (:func:`clusterlab.planning.stack`): ``"NeMo 25.04"``. By default nobody
        knows it: a plan is laid out for the usual one, of 2024, and its step may be by any that is plausible.

    Examples
    --------
    >>> Site("H100 SXM", gpus=64)
    Site
                    value
    accelerator  H100 SXM
    GPUs               64
    """

    accelerator: str | None = None
    network: str | None = None
    gpus: Count | None = None
    layout: Mapping[str, float | str] = field(default_factory=dict)
    power: PositiveWatts | None = None
    racks: Count | None = None
    rack_power: PositiveWatts | None = None
    servers_per_rack: Count | None = None
    budget: PositiveDollars | None = None
    rent: Number | None = None
    spares: WholeAmount | None = None
    storage_bandwidth: BytesPerSecond | None = None
    memory: PositiveBytes | None = None
    server_power: PositiveWatts | None = None
    oversubscription: Number = 1
    software: str | None = None

    usual: ClassVar[str] = "2024"

    def __post_init__(self) -> None:
        """Refuse what no site has."""
        if self.accelerator is not None:
            object.__setattr__(self, "accelerator", catalogue.accelerator(self.accelerator).name)
        if self.network is not None:
            object.__setattr__(self, "network", catalogue.link(self.network).name)
        _refuse(self)
        if self.software is not None:
            stack(self.software)
        if unknown := sorted(set(self.layout) - set(_AXES)):
            raise ValueError(f"layout has no axis {unknown[0]!r}; it has: {', '.join(_AXES)}")
        for name, most in _MOST.items():
            value: float | None = self.layout.get(name, 1) if name in _AXES else getattr(self, name)  # type: ignore[assignment]  # no name
            if value is not None and not (0 <= value <= most and (value or name in ("zero", "spares"))):
                least = int(name not in ("zero", "spares"))
                raise ValueError(f"{name} must be from {least} to {most:,}, got {value:g}")

    @property
    def accelerators(self) -> list[str]:
        """Those to try: the one that is fixed, or every one with a price list of its own, not of a similar one."""
        if self.accelerator:
            return [self.accelerator]
        return [name for name, price in PRICES.items() if price.facts["list"].kind == "specified"]

    @property
    def fixed(self) -> dict[str, list[float | str]]:
        """The fixed axes of the layout, as a search takes them."""
        return {name: [value] for name, value in self.layout.items()}

    def stack_on(self, accelerator: str) -> Software:
        """What the training software does that is named, or the usual one."""
        return stack(self.software or self.usual, accelerator)

    def room(self, capacity: Bytes) -> float:
        """Bytes that a layout may need on an accelerator which has so many."""
        return float(0.9 * capacity if self.memory is None else self.memory)

    def refuse_more_memory(self) -> None:
        """Refuse more memory than the accelerator has: for what published runs alone show that the law misses."""
        if self.memory is not None and self.accelerator:
            most = catalogue.accelerator(self.accelerator).hbm_capacity
            if self.memory > most:
                raise ValueError(
                    f"memory must be at most the {fmt(most, 'B')} of {self.accelerator}, got {self.memory:g}"
                )

    def _rows(self) -> Rows:
        units = {"power": "W", "rack_power": "W", "server_power": "W", "storage_bandwidth": "B/s", "budget": "$"}
        units["memory"] = "B"
        rows = [("", "value")]
        for f in fields(self):
            value = getattr(self, f.name)
            if value and value != f.default:
                shown = value if isinstance(value, str) else None
                if f.name == "layout":
                    shown = ", ".join(f"{name} {one}" for name, one in value.items())
                if f.name == "rent":
                    shown = f"${value * hour:.2f} a GPU-hour"
                rows.append((words(f.name), shown or summary(value, units.get(f.name, ""))))
        return rows


# --- Inputs as people write them -------------------------------------------------------------------------------------

_PER = {"kWh": kWh, "GPU-hour": hour}
_COUNTED = {"k": 1e3, "M": 1e6, "B": 1e9, "T": 1e12, " kg": 1.0, " t": 1e3}
_COUNT = re.compile(r"([\d.,]+)([kMBT]| kg| t)")


def quantity(text: object) -> float:
    """Read a quantity as :func:`clusterlab.units.parse` does, and also a count (``"15.6T"``) and an amount per unit.

    Parameters
    ----------
    text
        A number, or text with a unit, ``per kWh`` or ``per GPU-hour``, or one of the letters k, M, B, T of a count.

    Returns
    -------
    float
        In SI units.

    Examples
    --------
    >>> quantity("15.6T"), round(quantity("$2.00 per GPU-hour") * 3600, 2), quantity("30 MW")
    (15600000000000.0, 2.0, 30000000.0)
    """
    if isinstance(text, bool) or not isinstance(text, int | float | str):
        raise ValueError(f"cannot read {text!r} as a quantity")
    if not isinstance(text, str):
        return nonnegative(quantity=text)[0]
    amount, _, per = text.partition(" per ")
    if per not in ("", *_PER):
        raise ValueError(f"cannot read {text!r}: an amount is per {' or per '.join(_PER)}")
    if match := _COUNT.fullmatch(amount.strip()):
        return parse(match[1]) * _COUNTED[match[2]] / _PER.get(per, 1.0)
    return parse(amount) / _PER.get(per, 1.0)


_OF_SITE = tuple(f.name for f in fields(Site) if f.name != "layout")
_OF_TRAINING = ("model", "tokens", "sequence", "global_batch", "precision", "deadline")
_OF_SERVING = ("model", "rate", "prompt", "output", "cached", "speed", "first_token", "precision")


def refuse_inputs(inputs: Mapping[str, Value]) -> None:
    """Refuse inputs that no plan has, and those without what every plan needs."""
    serves = "rate" in inputs
    known = (*_OF_SERVING, *_OF_SITE) if serves else (*_OF_TRAINING, *_AXES, *_OF_SITE)
    if unknown := sorted(set(inputs) - set(known)):
        if serves:
            raise ValueError(f"{unknown[0]} is not for a fleet that serves; leave it out")
        raise ValueError(f"unknown input {unknown[0]!r}; known: {', '.join(known)}")
    if missing := [name for name in ("model", "rate" if serves else "tokens") if name not in inputs]:
        raise ValueError(f"{missing[0]} must be given")


def from_inputs(inputs: Mapping[str, Value]) -> tuple[Training | Serving, Site]:
    """Make a question and a site from names and values, as presets and files of inputs give them.

    Parameters
    ----------
    inputs
        In SI units: fields of :class:`Training` and :class:`Site`, and axes of the layout. With a ``rate``, fields of
        :class:`Serving` and :class:`Site`; a prompt then has 1,000 tokens by default, an answer 300.

    Returns
    -------
    tuple
        A :class:`Training`, or a :class:`Serving` where a rate is given; and a :class:`Site`.

    Examples
    --------
    >>> asked, site = from_inputs({"model": "Llama 3.1 8B", "tokens": 1e12, "gpus": 64, "tp": 1})
    >>> asked.model.name, dict(site.layout)
    ('Llama 3.1 8B', {'tp': 1})
    """
    refuse_inputs(inputs)
    given = {key: str(v) if key == "software" else v for key, v in inputs.items()}
    there = {key: value for key, value in given.items() if key in _OF_SITE}
    if "rate" in inputs:
        asked = {"prompt": 1000.0, "output": 300.0} | {key: v for key, v in given.items() if key in _OF_SERVING}
        return _made(Serving, asked), _made(Site, there)
    layout = MappingProxyType({key: value for key, value in given.items() if key in _AXES})
    asked = {key: value for key, value in given.items() if key in _OF_TRAINING}
    return _made(Training, asked), _made(Site, {**there, "layout": layout})


def _made(kind: Callable[..., Record], values: Mapping[str, object]) -> Record:
    """A record of values by name: what each may be, the record checks itself."""
    return kind(**values)


# --- What is assumed: the data ---------------------------------------------------------------------------------------

_TEXTS = ("model", "accelerator", "network", "precision", "recompute", "software", "link", "list")


def read_value(key: str, printed: str | float) -> str | float:
    """Return a stored value of ``planner.toml`` as a record holds it: names as they are, and quantities."""
    if key not in _TEXTS:
        return quantity(printed)
    if not isinstance(printed, str):
        raise ValueError(f"{key} must be text, got {printed!r}")
    return printed


@dataclass(frozen=True, repr=False)
class _Row(Sourced):
    """A row of ``planner.toml``."""

    read = staticmethod(read_value)


@dataclass(frozen=True, repr=False)
class Assumption(_Row):
    """A value that a plan assumes, and the ends of its 80 % interval; without these it is a choice."""

    value: float
    low: float | None = None
    high: float | None = None

    def __post_init__(self) -> None:
        """Refuse an interval that does not hold its value."""
        positive(value=self.value)
        if (self.low is None) != (self.high is None):
            raise ValueError("low and high must be given together")
        if self.low is not None and self.high is not None and not 0 < self.low <= self.value <= self.high < np.inf:
            raise ValueError(f"value must be between low and high, got {self.low:g}, {self.value:g}, {self.high:g}")


@dataclass(frozen=True, repr=False)
class Switch(_Row):
    """A packet switch: the kind of link that it speaks, its ports, the rate of each, and what it is rated."""

    link: str
    ports: Count
    port: BytesPerSecond
    power: PositiveWatts

    def __post_init__(self) -> None:
        """Refuse what is no switch."""
        whole(ports=self.ports)
        positive(port=self.port, power=self.power)


@dataclass(frozen=True, repr=False)
class Price(_Row):
    """The list of ``clusterlab.catalogue.PRICE_LISTS`` that holds for an accelerator."""

    list: str

    def __post_init__(self) -> None:
        """Refuse a list that is not there."""
        find("price list", self.list, PRICE_LISTS)


def _reader(kind: Callable[..., Record]) -> Callable[[str, Mapping[str, Fact], Mapping], Record]:
    def read(name: str, facts: Mapping[str, Fact], _row: Mapping) -> Record:
        values = {key: read_value(key, fact.printed) for key, fact in facts.items()}
        return kind(name=name, facts=MappingProxyType(dict(facts)), **values)

    return read


_DATA = tomllib.loads(stored("planner.toml"))


def _table(name: str, kind: Callable[..., Record]) -> Mapping[str, Record]:
    rows = {table: _DATA[table] for table in ("sources", name)}
    return MappingProxyType(read_records(rows, "planner", {name: _reader(kind)})[name])


READERS = {"assumption": _reader(Assumption), "switch": _reader(Switch), "price": _reader(Price)}
ASSUMPTIONS = _table("assumption", Assumption)
SWITCHES = _table("switch", Switch)
PRICES = _table("price", Price)


# --- What is assumed: scenarios --------------------------------------------------------------------------------------


Own = tuple[tuple[str, float, float], ...]  # what a site's own records say: an assumption, low and high in multiples


@dataclass(frozen=True, repr=False)
class Scenario(Explained):
    """What a plan assumes, in SI units: each a number, or an array of as many scenarios.

    ``step`` multiplies the time of a step, ``lost_time`` the odds of lost time (all that a run spends on anything but
    work that it keeps), ``capital`` all prices of what is built. ``draw`` is mean power over rated power,
    ``storage_share`` the share of the time for which checkpoints may write, ``spare_risk`` that in which there may be
    too few spares. What each rests on is in ``ASSUMPTIONS``. ``own`` holds
    intervals that a site's own records have taught, in place of those of published fleets: name, low and high, in
    multiples of the value.
    """

    gpu_mttf: PositiveSeconds
    detection: Seconds
    restart: Seconds
    repair: Seconds
    draw: Number
    pue: Number
    carbon_intensity: Amount
    energy_price: Amount
    capital: Number
    interest: Amount
    life: PositiveSeconds
    storage_per_gpu: BytesPerSecond
    storage_share: PositiveShare
    local_bandwidth: BytesPerSecond
    spare_risk: PositiveShare
    server_overhead: Number
    servers_per_rack: Number
    air_rise: Number
    water_rise: Number
    utilisation: PositiveShare
    availability: PositiveShare
    step: Number = 1.0
    lost_time: Number = 1.0
    own: Own | None = None

    def __post_init__(self) -> None:
        """Refuse what cannot be."""
        _refuse(self)
        for name, low, high in self.own or ():
            find("uncertain assumption", name, spreads("dense, 16 bits"))
            if not 0 < low <= high < np.inf:
                raise ValueError(f"own must be ordered multiples of {name} above zero, got {low:g} and {high:g}")

    def _rows(self) -> Rows:
        shown = ((words(f.name), summary(getattr(self, f.name))) for f in fields(self) if f.name != "own")
        return [("", "value"), *shown]


CENTRAL = Scenario(**{name: one.value for name, one in ASSUMPTIONS.items()})  # type: ignore[arg-type]  # all numbers


def supposed(scenario: Scenario, numbers: Mapping[str, float]) -> Scenario:
    """The scenario with other numbers, by the names of its fields."""
    return Scenario(**(vars(scenario) | dict(numbers)))


# Assumptions whose interval published fleets have shown: keys of PREDICTION_INTERVALS, as evidence learns them.
LEARNED: Mapping[str, str] = MappingProxyType({"lost_time": "goodput", "draw": "power"})

# Who starts a job again after a failure; people take :data:`clusterlab.failures.BY_HAND`, most of it until they notice.
RESTARTS = ("automatic", "by hand")


def restarted(scenario: Scenario, restarts: str) -> Scenario:
    """The scenario in which software restarts a job (``"automatic"``), as it is, or people do (``"by hand"``).

    Raises
    ------
    ValueError
        It is neither.

    Examples
    --------
    >>> restarted(CENTRAL, "by hand").detection / hour
    7.0
    """
    if restarts not in RESTARTS:
        raise ValueError(f"restarts must be one of {', '.join(RESTARTS)}; got {restarts!r}")
    if restarts == "automatic":
        return scenario
    spread = PREDICTION_INTERVALS["goodput, by hand"]
    own = (*(one for one in scenario.own or () if one[0] != "lost_time"), ("lost_time", spread.low, spread.high))
    return replace(scenario, detection=BY_HAND, own=own)


MOST_DRAWS = 1_000_000  # scenarios: all numbers of a plan for each take some gigabytes
_TENTH = 1.2815515655446004  # a tenth of a normal distribution is beyond so many standard deviations


StepEnds = str | tuple[float, float]  # a key of PREDICTION_INTERVALS, or both ends in multiples of the time


def samples(scenario: Scenario, draws: Count, *, step_kind: StepEnds = "dense, 16 bits", seed: int = 0) -> Scenario:
    """Draw scenarios: every assumption that has an interval, independently, and how far a step is off.

    Parameters
    ----------
    scenario
        The central one.
    draws
        Scenarios to draw.
    step_kind
        Key of :data:`clusterlab.catalogue.PREDICTION_INTERVALS`, or the ends of a step's interval in multiples of it.
    seed
        Of the random numbers.

    Returns
    -------
    Scenario
        Of arrays. A tenth of the draws of each are below its ``low`` and a tenth above its ``high``.

    Examples
    --------
    >>> drawn = samples(CENTRAL, 10_000)
    >>> [round(float(np.quantile(drawn.pue, q)), 2) for q in (0.1, 0.5, 0.9)]
    [1.08, 1.18, 1.4]
    """
    count, random = int(whole(draws=draws)[0]), np.random.default_rng(seed)
    if count > MOST_DRAWS:
        raise ValueError(f"draws must be at most {MOST_DRAWS:,}: more would not fit in memory; got {count:,}")
    changed = {}
    for name, (low, high) in spreads(step_kind, scenario.own).items():
        z = random.normal(size=count)  # normal in the logarithm on each side
        times = np.exp(np.where(z < 0, -z * np.log(low), z * np.log(high)) / _TENTH)
        changed[name] = _possible(name, getattr(scenario, name) * times)
    return replace(scenario, **changed)


def ends_of(scenario: Scenario, step_kind: StepEnds) -> dict[str, tuple[float, float]]:
    """Both ends of the interval of every uncertain assumption."""
    return {
        name: (
            float(_possible(name, getattr(scenario, name) * low)),
            float(_possible(name, getattr(scenario, name) * high)),
        )
        for name, (low, high) in spreads(step_kind, scenario.own).items()
    }


def _possible(name: str, value: Number) -> Number:
    """A value of an assumption, kept where it can be: no more draw than the rating, no less power than the IT's."""
    if name in ("draw", "utilisation"):
        return np.minimum(value, 1.0)
    return np.maximum(value, 1.0) if name == "pue" else value


def spreads(step_kind: StepEnds, own: Own | None = None) -> dict[str, tuple[float, float]]:
    """Ends of the 80 % interval of each uncertain assumption, in multiples of its value.

    What published runs and fleets have shown comes first: a step, the time that a run loses, what servers draw. The
    rate of failures varies by itself too, for the spares; that widens lost time by some three per cent more. What a
    site's ``own`` records say stands in place of both.
    """
    if isinstance(step_kind, str):
        of_kind = find("kind of step", step_kind, PREDICTION_INTERVALS)
        step_kind = of_kind.low, of_kind.high
    learned = {name: PREDICTION_INTERVALS[kind] for name, kind in LEARNED.items()}
    found = {"step": step_kind} | {name: (one.low, one.high) for name, one in learned.items()}
    for name, one in ASSUMPTIONS.items():
        if one.low is not None and one.high is not None:
            found[name] = (one.low / one.value, one.high / one.value)
    return found | {name: (low, high) for name, low, high in own or ()}
