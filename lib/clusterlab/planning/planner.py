r"""Plans: what to build for a model, what it will do, what it will cost, and how sure that is.

:func:`plan` takes what shall be done (:class:`Training`, :class:`Serving`) and what there is (:class:`Site`), and
decides: accelerators and their number, layout, fabric, checkpoints, spares. It decides only: each number is that of a
law of this library, and each law's result is what the next one is given. A plan carries a certificate of that
(its ``joints``), the interval of each result, and which assumption matters most.

A :class:`Design` is what is decided, a :class:`World` what is assumed, and an :class:`Outcome` what follows from the
two. All three may hold arrays: one call plans thousands of clusters, or one cluster in thousands of worlds. What is
assumed, switches and published clusters are data with a source each: ``data/planner.toml``, which ``clusterlab audit``
prints.
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import catalogue, failures, interconnect, power, scaling
from ..catalogue import (
    PRICE_LISTS,
    SOFTWARE,
    SPREADS,
    Fact,
    Machine,
    PriceList,
    Sourced,
    find,
    machine,
    read_records,
    stored,
)
from ..checks import nonnegative, positive, whole
from ..failures import Checkpoint, Estimate, Job, RunTime, SparePool
from ..model import PRECISIONS, Layout, Transformer, Workload, parameters, training_flops, transformer
from ..parallelism import Step, axes, footprint, kind, model_state, search, step
from ..power import EnergyFootprint, Load
from ..records import Explained, Table, say, summary, tabulate, words
from ..scaling import Bill, cost_per, critical_batch, training_run
from ..serving import little_law
from ..units import fmt, hour, kWh, parse, year

if TYPE_CHECKING:  # imported where a fleet is planned: a training run needs nothing of it
    from ..serving import Formats, Requests, Service


def _count(value) -> str:
    """A count in full, and the range of an array."""
    return f"{float(value):,.0f}" if np.ndim(value) == 0 else summary(value)


# --- Data: assumptions, switches, published clusters -----------------------------------------------------------------

_PER = {"kWh": kWh, "GPU-hour": hour}
_COUNTED = {"k": 1e3, "M": 1e6, "B": 1e9, "T": 1e12, " kg": 1.0, " t": 1e3}
_COUNT = re.compile(r"([\d.,]+)([kMBT]| kg| t)")


def quantity(text) -> float:
    """Read a quantity as :func:`clusterlab.units.parse` does, and also a count (``"15.6T"``) and an amount per unit.

    Parameters
    ----------
    text : str or float
        A number, or text with a unit, ``per kWh`` or ``per GPU-hour``, or one of the letters k, M, B, T of a count.

    Returns
    -------
    float
        In SI units.

    Raises
    ------
    ValueError
        It is none of these.

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


@dataclass(frozen=True, repr=False)
class _Row(Sourced):
    """A row of ``planner.toml``: names as they are, and quantities."""

    @staticmethod
    def read(key: str, printed: Any) -> Any:
        """Return a stored value as the record holds it."""
        return str(printed) if key in _TEXTS else quantity(printed)


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
    """A packet switch: the kind of link that it speaks, its ports, bytes/s of each, and the watts that it is rated."""

    link: str
    ports: float
    port: float
    power: float

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


@dataclass(frozen=True, repr=False)
class Preset(Sourced):
    """A published cluster or run: what is put into a plan, and what was published of it."""

    inputs: Mapping[str, Any]
    published: Mapping[str, float]

    def _rows(self):
        rows = [(words(key), str(f.printed), f.kind, f.source.date, f.source.title) for key, f in self.facts.items()]
        return [(self.name, "value", "kind", "date", "source"), *rows]

    def __post_init__(self) -> None:
        """Refuse inputs and results that no plan has."""
        serves = "rate" in self.inputs
        (_known_fleet if serves else _known_inputs)(self.inputs)
        known = FLEET_METRICS if serves else METRICS
        if unknown := sorted(set(self.published) - set(known)):
            raise ValueError(f"unknown result {unknown[0]!r}; known: {', '.join(known)}")


_TEXTS = ("model", "accelerator", "network", "precision", "recompute", "software", "link", "list")
_RECORDS: Mapping[str, type] = {"assumption": Assumption, "switch": Switch, "price": Price, "preset": Preset}


def _record(table: str, name: str, facts: Mapping[str, Fact]):
    values: dict[str, Any] = {}
    for key, fact in facts.items():
        if key in _TEXTS:
            if not isinstance(fact.printed, str):
                raise ValueError(f"{key} must be text, got {fact.printed!r}")
            values[key] = fact.printed
        else:
            values[key] = quantity(fact.printed)
    kept = MappingProxyType(dict(facts))
    if table == "preset":
        said = {key.removeprefix("published_"): v for key, v in values.items() if key.startswith("published_")}
        inputs = {key: v for key, v in values.items() if not key.startswith("published_")}
        return Preset(name, kept, inputs=MappingProxyType(inputs), published=MappingProxyType(said))
    return _RECORDS[table](name=name, facts=kept, **values)


def load(document: Mapping) -> dict[str, dict[str, Any]]:
    """Build every record of a parsed ``planner.toml``, refusing whatever rests on nothing.

    Parameters
    ----------
    document : mapping
        Tables ``sources``, ``assumption``, ``switch``, ``price`` and ``preset``, in the form of
        :func:`clusterlab.catalogue.read_records`.

    Returns
    -------
    dict
        ``{"assumption": {name: Assumption}, "switch": {name: Switch}, ...}``

    Raises
    ------
    ValueError
        With every gap found: a value without a source, an unknown or missing field, a value that cannot be one.
    """
    build = {table: lambda name, facts, _, table=table: _record(table, name, facts) for table in _RECORDS}
    return read_records(document, "planner", build)


# --- What is asked, and what there is --------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class Training(Explained):
    """A model to train on so many tokens.

    Parameters
    ----------
    model : Transformer or str
        A shape, or the name of one in the catalogue.
    tokens : float
        Tokens to train on.
    sequence, global_batch : float
        Tokens of a sequence, and sequences of a step. By default the batch is the power of two that is next to the
        critical batch of such a model at the end of its training (:func:`clusterlab.scaling.critical_batch`).
    precision : str
        As in :class:`~clusterlab.model.Workload`.
    deadline : float, optional
        Seconds after which it must be done.

    Raises
    ------
    ValueError
        An unknown model, or what is no workload.

    Examples
    --------
    >>> Training("Llama 3.1 8B", 15e12).global_batch
    1024.0
    """

    model: Any
    tokens: float
    sequence: float = 8192
    global_batch: float | None = None
    precision: str = "bf16"
    deadline: float | None = None

    def __post_init__(self) -> None:
        """Look up the model, set the batch, and refuse what is no workload."""
        if not isinstance(self.model, Transformer):
            object.__setattr__(self, "model", transformer(self.model))
        (tokens,) = positive(tokens=self.tokens)
        (sequence,) = whole(sequence=self.sequence)
        if self.deadline is not None:
            positive(deadline=self.deadline)
        if self.global_batch is None:
            least = critical_batch(scaling.loss(parameters(self.model).active, tokens)) / sequence
            object.__setattr__(self, "global_batch", float(2 ** max(round(math.log2(least)), 0)))
        Workload(self.sequence, self.global_batch, self.precision)  # type: ignore[arg-type]

    @property
    def workload(self) -> Workload:
        """What a step works through."""
        return Workload(self.sequence, self.global_batch, self.precision)  # type: ignore[arg-type]

    @property
    def steps(self) -> float:
        """Steps of the run: the last one is whole too."""
        return float(math.ceil(self.tokens / self.workload.tokens * (1 - 1e-12)))

    def _rows(self):
        rows = [("", "value"), ("model", self.model.name), ("tokens", f"{summary(self.tokens / 1e12)} trillion")]
        rows += [("sequence", summary(self.sequence)), ("global batch", summary(self.global_batch))]
        rows.append(("precision", self.precision))
        return rows + ([("deadline", summary(self.deadline, "s"))] if self.deadline else [])


@dataclass(frozen=True, repr=False)
class Site(Explained):
    """What there is, and what is fixed: whatever is None is chosen, or has no limit.

    Parameters
    ----------
    accelerator, network : str
        As in :mod:`clusterlab.catalogue`. By default every accelerator with a price list of its own is tried.
    gpus : int
        Accelerators that work; spares come on top.
    layout : mapping
        Fixed axes of the layout: ``{"tp": 8, "pp": 16}``. The others are searched.
    power : float
        Watts that the site may be rated at, at its meter.
    racks, rack_power, servers_per_rack : float
        Racks that there are, watts that each may draw, and servers that may stand in one.
    budget : float
        Dollars that the run may cost.
    rent : float
        Dollars a second for an accelerator. By default it is bought, with its share of network and hall.
    spares : int
        Servers on standby; by default as many as leave few failures to wait for a repair.
    storage_bandwidth : float
        Bytes/s that the storage takes.
    memory : float
        Bytes that a layout may need on an accelerator; by default nine tenths of what it has.
    server_power : float
        Watts of an accelerator with its share of its server, where no datasheet has them.
    oversubscription : float
        Of the leaves, as in :func:`clusterlab.interconnect.fat_tree`.
    software : str
        An era of ``clusterlab.catalogue.SOFTWARE``.

    Raises
    ------
    ValueError
        A name is unknown or a number is none that it can be.

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
    gpus: float | None = None
    layout: Mapping[str, Any] = field(default_factory=dict)
    power: float | None = None
    racks: float | None = None
    rack_power: float | None = None
    servers_per_rack: float | None = None
    budget: float | None = None
    rent: float | None = None
    spares: float | None = None
    storage_bandwidth: float | None = None
    memory: float | None = None
    server_power: float | None = None
    oversubscription: float = 1
    software: str = "2024"

    def __post_init__(self) -> None:
        """Refuse what no site has."""
        if self.accelerator is not None:
            catalogue.accelerator(self.accelerator)
        if self.network is not None:
            catalogue.link(self.network)
        given = {f.name: getattr(self, f.name) for f in fields(self) if getattr(self, f.name) is not None}
        counts, texts = ("gpus", "racks", "servers_per_rack"), ("accelerator", "network", "layout", "software")
        positive(**{n: v for n, v in given.items() if n not in (*counts, *texts, "spares")})
        whole(**{n: v for n, v in given.items() if n in counts})
        if self.spares is not None and nonnegative(spares=self.spares)[0] % 1:
            raise ValueError(f"spares must be a whole number, got {self.spares:g}")
        find("software", self.software, SOFTWARE)
        if unknown := sorted(set(self.layout) - set(_AXES)):
            raise ValueError(f"layout has no axis {unknown[0]!r}; it has: {', '.join(_AXES)}")

    def _rows(self):
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


_AXES = ("tp", "pp", "cp", "ep", "microbatch", "chunks", "zero", "recompute")
_OF_TRAINING = ("model", "tokens", "sequence", "global_batch", "precision", "deadline")


def _known_inputs(inputs: Mapping) -> None:
    """Refuse inputs that no plan has, and those without what every plan needs."""
    known = (*_OF_TRAINING, *_AXES, *(f.name for f in fields(Site) if f.name != "layout"))
    if unknown := sorted(set(inputs) - set(known)):
        raise ValueError(f"unknown input {unknown[0]!r}; known: {', '.join(known)}")
    if missing := [name for name in ("model", "tokens") if name not in inputs]:
        raise ValueError(f"{missing[0]} must be given")


def from_inputs(inputs: Mapping) -> tuple[Training, Site]:
    """Make a workload and a site from names and values, as presets and files of inputs give them.

    Parameters
    ----------
    inputs : mapping
        Fields of :class:`Training` and :class:`Site`, and axes of the layout, in SI units.

    Returns
    -------
    tuple
        A :class:`Training` and a :class:`Site`.

    Raises
    ------
    ValueError
        An input is unknown, or model or tokens are missing.

    Examples
    --------
    >>> training, site = from_inputs({"model": "Llama 3.1 8B", "tokens": 1e12, "gpus": 64, "tp": 1})
    >>> training.model.name, dict(site.layout)
    ('Llama 3.1 8B', {'tp': 1})
    """
    _known_inputs(inputs)
    given: dict[str, Any] = {key: str(v) if key == "software" else v for key, v in inputs.items()}
    training = Training(**{key: v for key, v in given.items() if key in _OF_TRAINING})
    layout = {key: v for key, v in given.items() if key in _AXES}
    rest = {key: v for key, v in given.items() if key not in _OF_TRAINING and key not in _AXES}
    return training, Site(**rest, layout=MappingProxyType(layout))


_OF_SERVING = ("model", "rate", "prompt", "output", "cached", "speed", "first_token", "precision")


def _known_fleet(inputs: Mapping) -> None:
    """Refuse inputs that no fleet has, and those without what every fleet needs."""
    known = (*_OF_SERVING, *(f.name for f in fields(Site) if f.name != "layout"))
    if unknown := sorted(set(inputs) - set(known)):
        raise ValueError(f"{unknown[0]} is not for a fleet that serves; leave it out")
    if missing := [name for name in ("model", "rate") if name not in inputs]:
        raise ValueError(f"{missing[0]} must be given")


def fleet_from_inputs(inputs: Mapping) -> tuple[Serving, Site]:
    """Make what is served and a site from names and values, as presets and files of inputs give them.

    Parameters
    ----------
    inputs : mapping
        Fields of :class:`Serving` and :class:`Site`, in SI units. By default a prompt has 1,000 tokens, an answer 300.

    Returns
    -------
    tuple
        A :class:`Serving` and a :class:`Site`.

    Raises
    ------
    ValueError
        An input is unknown, or model or rate are missing.

    Examples
    --------
    >>> asked, site = fleet_from_inputs({"model": "Llama 3.1 8B", "rate": 50, "accelerator": "H100 SXM"})
    >>> asked.prompt, site.accelerator
    (1000.0, 'H100 SXM')
    """
    _known_fleet(inputs)
    asked: dict[str, Any] = {"prompt": 1000.0, "output": 300.0}
    asked |= {key: value for key, value in inputs.items() if key in _OF_SERVING}
    rest: dict[str, Any] = {key: value for key, value in inputs.items() if key not in _OF_SERVING}
    return Serving(**asked), Site(**rest)


# --- The world: what is assumed --------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class World(Explained):
    """What a plan assumes, in SI units: each a number, or an array of as many worlds.

    ``step`` multiplies the time of a step, ``lost_time`` the odds of lost time (all that a run spends on anything but
    work that it keeps), ``capital`` all prices of what is built. ``draw`` is mean power over rated power,
    ``spare_risk`` the share of failures that may find no spare. What each rests on is in ``ASSUMPTIONS``.
    """

    gpu_mttf: Any
    detection: Any
    restart: Any
    repair: Any
    draw: Any
    pue: Any
    carbon_intensity: Any
    energy_price: Any
    capital: Any
    interest: Any
    life: Any
    storage_per_gpu: Any
    local_bandwidth: Any
    spare_risk: Any
    server_overhead: Any
    servers_per_rack: Any
    air_rise: Any
    water_rise: Any
    utilisation: Any
    availability: Any
    step: Any = 1.0
    lost_time: Any = 1.0

    def __post_init__(self) -> None:
        """Refuse what cannot be."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        zero = ("interest", "repair", "detection", "restart", "carbon_intensity", "energy_price")
        nonnegative(**{name: values[name] for name in zero})
        positive(**{name: value for name, value in values.items() if name not in zero})

    def _rows(self):
        return [("", "value"), *((words(f.name), summary(getattr(self, f.name))) for f in fields(self))]


# Assumptions whose interval published fleets have shown: keys of SPREADS, as clusterlab.evidence.fleet learns them.
LEARNED: Mapping[str, str] = MappingProxyType({"lost_time": "goodput", "draw": "power"})

_TENTH = 1.2815515655446004  # a tenth of a normal distribution is beyond so many standard deviations


def _drawn(low, high, z):
    """Multiples of a value whose 80 % interval is from low to high times it: normal in the logarithm on each side."""
    return np.exp(np.where(z < 0, -z * np.log(low), z * np.log(high)) / _TENTH)


def worlds(world: World, draws: int, *, step_kind: str = "dense, 16 bits", seed: int = 0) -> World:
    """Draw worlds: every assumption that has an interval, independently, and how far a step is off.

    Parameters
    ----------
    world : World
        The central one.
    draws : int
        Worlds to draw.
    step_kind : str
        Key of :data:`clusterlab.catalogue.SPREADS`.
    seed : int
        Of the random numbers.

    Returns
    -------
    World
        Of arrays. A tenth of the draws of each are below its ``low`` and a tenth above its ``high``.

    Examples
    --------
    >>> drawn = worlds(WORLD, 10_000)
    >>> [round(float(np.quantile(drawn.pue, q)), 2) for q in (0.1, 0.5, 0.9)]
    [1.08, 1.18, 1.4]
    """
    count, random = int(whole(draws=draws)[0]), np.random.default_rng(seed)
    changed = {}
    for name, (low, high) in _spreads(step_kind).items():
        times = _drawn(low, high, random.normal(size=count))
        changed[name] = _possible(name, getattr(world, name) * times)
    return replace(world, **changed)


def _possible(name: str, value):
    """A value of an assumption, kept where it can be: no more draw than the rating, no less power than the IT's."""
    if name in ("draw", "utilisation"):
        return np.minimum(value, 1.0)
    return np.maximum(value, 1.0) if name == "pue" else value


def _spreads(step_kind: str) -> dict[str, tuple[float, float]]:
    """Ends of the 80 % interval of each uncertain assumption, in multiples of its value.

    What published runs and fleets have shown comes first: a step, the time that a run loses, what servers draw. The
    rate of failures varies by itself too, for the spares; that widens lost time by some three per cent more.
    """
    learned = {"step": find("kind of step", step_kind, SPREADS)} | {n: SPREADS[kind] for n, kind in LEARNED.items()}
    spreads = {name: (one.low, one.high) for name, one in learned.items()}
    for name, one in ASSUMPTIONS.items():
        if one.low is not None and one.high is not None:
            spreads[name] = (one.low / one.value, one.high / one.value)
    return spreads


# --- The design: what is decided -------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class Fabric(Explained):
    """The scale-out network: its switches and cables by tier, and what its middle carries, bytes/s one way.

    ``ends`` are the accelerators that it joins, ``power`` the watts that its switches are rated at. A torus has no
    switches; its links count as ``host_cables``.
    """

    name: Any
    ends: Any
    leaves: Any
    spines: Any
    cores: Any
    host_cables: Any
    spine_cables: Any
    core_cables: Any
    transceivers: Any
    bisection: Any
    power: Any

    @property
    def switches(self):
        """Switches of all tiers."""
        return self.leaves + self.spines + self.cores

    @property
    def cables(self):
        """Cables of all tiers."""
        return self.host_cables + self.spine_cables + self.core_cables

    def _rows(self):
        rows = [("", "count"), ("switch", str(self.name))]
        names = ("leaves", "spines", "cores", "host_cables", "spine_cables", "core_cables", "transceivers")
        rows += [(words(name), _count(getattr(self, name))) for name in names]
        return [*rows, ("bisection", summary(self.bisection, "B/s")), ("power", summary(self.power, "W"))]


def _torus_sizes(n: int) -> tuple[int, ...]:
    """The three sides of the torus of n nodes that is next to a cube, or as many as n divides into."""
    best: tuple[int, ...] = (n,)
    for a in range(2, round(n ** (1 / 3)) + 1):
        if n % a == 0:
            rest = n // a
            b = next((b for b in range(math.isqrt(rest), a - 1, -1) if rest % b == 0), 1)
            if b > 1 and (len(best) == 1 or a + b + rest // b < sum(best)):
                best = (a, b, rest // b)
    return best


def _fabric(gpus, hosts, chips: Machine, site: Site) -> Fabric:
    """The fabric with the least watts of switches, element by element; where nothing connects them, NaN switches."""
    gpus, hosts = np.broadcast_arrays(np.asarray(gpus, float), np.asarray(hosts, float))
    accelerator = catalogue.accelerator(chips.name)
    if str(accelerator.scale_up_link).startswith("ICI"):
        sizes = [_torus_sizes(int(n)) for n in gpus.ravel()]
        found = [interconnect.torus(one) for one in sizes]
        links = np.array([one.links for one in found], float).reshape(gpus.shape)[()]
        ways = np.array([2.0 * len(one) for one in sizes]).reshape(gpus.shape)
        cut = np.array([one.bisection_links for one in found], float).reshape(gpus.shape)
        nothing = 0.0 * links
        through = np.asarray(interconnect.bisection_bandwidth(cut, chips.scale_up_bandwidth / ways))[()]
        optics = 2 * links
        return Fabric("torus", gpus[()], nothing, nothing, nothing, links, nothing, nothing, optics, through, nothing)
    named = str(site.network or "")
    fitting = [s for s in SWITCHES.values() if s.port == chips.network_bandwidth]
    fitting = [s for s in fitting if not named or named.startswith(s.link)]
    if not fitting:
        known = ", ".join(f"{s.name} of {fmt(s.port, 'B/s')}" for s in SWITCHES.values())
        raise ValueError(f"network must have a switch on record, got {fmt(chips.network_bandwidth, 'B/s')}; {known}")
    reach = max(
        float(
            interconnect.fat_tree_capacity(
                s.ports, tiers=3, oversubscription=_possible_ratio(s.ports, site.oversubscription)
            )
        )
        for s in fitting
    )
    if np.any(hosts > reach):
        why = (
            f"no switch on record joins {np.max(hosts):,.0f} accelerators; {max(s.name for s in fitting)} and its like"
        )
        raise InfeasibleError(f"{why} reach {reach:,.0f}; take fewer gpus", {"gpus": reach})
    options = []
    for switch in fitting:
        ratio = _possible_ratio(switch.ports, site.oversubscription)
        most = interconnect.fat_tree_capacity(switch.ports, tiers=3, oversubscription=ratio)
        tree = interconnect.fat_tree(np.minimum(hosts, most), switch.ports, oversubscription=ratio)
        watts = np.where(hosts <= most, np.asarray(tree.switches) * switch.power, np.inf)
        options.append((switch, tree, watts))
    least = np.argmin([watts for *_, watts in options], axis=0)

    def taken(get: Callable):
        return np.choose(least, [np.broadcast_to(get(*one), hosts.shape) for one in options]).astype(float)[()]

    watts = taken(lambda _, __, watts: watts)
    columns: list[Any] = [taken(lambda _, tree, __, n=n: getattr(tree, n)) for n in ("leaves", "spines", "cores")]
    columns += [taken(lambda _, t, __, n=n: getattr(t, n)) for n in ("host_cables", "spine_cables", "core_cables")]
    names = np.array([switch.name for switch, *_ in options])[least]
    half = hosts / 2  # of the cut of a full fabric as much as there are hosts
    full = taken(lambda s, t, _: np.minimum(interconnect.bisection_bandwidth(t.bisection_links, s.port), half * s.port))
    optics = taken(lambda _, tree, __: tree.transceivers)
    name = str(names) if not np.ndim(names) else names
    columns += [optics, full, watts]
    return Fabric(name, hosts[()], *columns)


def _possible_ratio(ports, wanted: float) -> float:
    """The oversubscription of a leaf that is next to the one wanted: whole ports down over whole ports up."""
    up = max(round(ports / (1 + wanted)), 1)
    return (ports - up) / up


@dataclass(frozen=True, repr=False)
class Design(Explained):
    """What is decided: one cluster, or an array of them.

    ``servers`` work, ``spares`` stand by, and ``hosts`` are the accelerators of both. ``interval`` is the seconds of
    work between two checkpoints. ``server_power`` is the rating of a server, in watts.
    """

    training: Training
    site: Site
    machine: Machine
    layout: Layout
    step: Step
    per_server: float
    servers: Any
    spares: Any
    hosts: Any
    server_power: float
    racks: Any
    liquid: bool
    fabric: Fabric
    storage_bandwidth: Any
    checkpoint: Checkpoint
    interval: Any
    prices: PriceList | None

    @property
    def gpus(self):
        """Accelerators that work."""
        return self.layout.gpus

    @property
    def accelerator(self) -> str:
        """Their name."""
        return self.machine.name

    @property
    def memory(self):
        """Bytes that an accelerator holds, by the law of memory."""
        training = self.training
        held = footprint(training.model, training.workload, self.layout, software=SOFTWARE[self.site.software])
        return held.total

    def _rows(self):
        layout = ", ".join(f"{name} {value}" for name, value, *_ in self.layout._rows()[1:-1])
        rows = [("", "value"), ("accelerator", self.accelerator), ("GPUs", _count(self.gpus)), ("layout", layout)]
        rows += [("servers", _count(self.servers)), ("spare servers", _count(self.spares))]
        rows += [("racks", _count(self.racks)), ("switches", f"{_count(self.fabric.switches)} {self.fabric.name}")]
        rows += [("cables", _count(self.fabric.cables)), ("storage", summary(self.storage_bandwidth, "B/s"))]
        rows += [("checkpoint", summary(self.checkpoint.size, "B")), ("every", summary(self.interval, "s"))]
        return [*rows, ("step", self.step.with_interval), ("MFU", self.step.say("mfu"))]


def _server(name: str, site: Site, world: World) -> tuple[float, float, float, bool]:
    """Accelerators of a server, its rated watts, accelerators of a rack that is sold as one (0: none), and liquid."""
    records = [one for one in (*catalogue.nodes(), *catalogue.racks()) if one.accelerator == name]
    chip = catalogue.accelerator(name)
    record = next((one for one in records if one.power), records[0] if records else None)
    torus = str(chip.scale_up_link).startswith("ICI")
    count = float(record.accelerators) if record else (4.0 if torus else 8.0)  # a host of a TPU pod has four chips
    rack = count if isinstance(record, catalogue.Rack) else 0.0
    each = site.server_power
    if each is None and record and record.power:
        each = record.power / record.accelerators
    if each is None and chip.tdp:
        each = chip.tdp * float(np.mean(world.server_overhead))
    if each is None:
        raise ValueError(f"server_power must be given: no datasheet has the rating of {name}")
    if isinstance(record, catalogue.Rack):
        count = count / float(record.nodes or 1)
    return count, each * count, rack, bool(rack)


def _spare_servers(servers, node_mtbf, world: World):
    """The fewest spares with which no more failures than ``spare_risk`` find none, by bisection."""
    servers = np.asarray(servers, float)
    about = {"nodes": servers, "node_mtbf": node_mtbf, "repair": world.repair}
    low = np.full(servers.shape, -1.0)  # too few
    load = failures.spare_pool(0, **about).load
    if np.any(load > servers):
        raise InfeasibleError("servers break faster than they are repaired: gpu_mttf must be longer, or repair shorter")
    high = np.ceil(load + 8 * np.sqrt(load) + 8)
    while np.any(high - low > 1):
        middle = np.maximum(np.floor((low + high) / 2), 0.0)
        enough = failures.spare_pool(middle, **about).none_left <= world.spare_risk
        low, high = np.where(enough, low, middle), np.where(enough, middle, high)
    return high[()]


def _racks(servers, per_server: float, watts: float, rack: float, site: Site, world: World):
    """Racks of so many servers; infinitely many where a rack cannot feed what it must hold."""
    if rack:
        in_rack = rack / per_server
        fed = site.rack_power is None or site.rack_power >= watts * in_rack
        return (np.ceil(servers / in_rack) if fed else np.inf * servers)[()]
    in_rack = float(site.servers_per_rack or max(world.servers_per_rack * 8 // per_server, 1))
    if site.rack_power is not None:
        in_rack = float(np.minimum(in_rack, power.capacity(power=(site.rack_power, watts)).count))
    return np.ceil(servers / in_rack) if in_rack else np.inf * servers


def design(training: Training, site: Site, chips: Machine, layout: Layout, *, world: World | None = None) -> Design:
    """Decide everything but the layout: spares, racks, fabric, storage and checkpoints, in a central world.

    Parameters
    ----------
    training : Training
        The model and its tokens.
    site : Site
        What is fixed.
    chips : Machine
        From :func:`clusterlab.catalogue.machine`.
    layout : Layout
        One, or an array of them: as many designs.
    world : World, optional
        What is assumed; of numbers, not arrays.

    Returns
    -------
    Design

    Raises
    ------
    ValueError
        A layout breaks a rule, or no datasheet has the power of such a server.

    Examples
    --------
    >>> run = Training("Llama 3.1 405B", 15.6e12, global_batch=2048)
    >>> made = design(run, Site(), machine("H100 SXM"), Layout(tp=8, pp=16, dp=128, chunks=8))
    >>> float(made.servers), float(made.spares), made.fabric.name
    (2048.0, 38.0, 'QM9700')
    """
    world = WORLD if world is None else world
    timed = step(training.model, chips, training.workload, layout, software=SOFTWARE[site.software])
    per_server, watts, rack, liquid = _server(chips.name, site, world)
    gpus = np.asarray(layout.gpus, float)[()]
    servers = np.ceil(gpus / per_server)
    if site.spares is not None:
        spares = site.spares + 0.0 * servers
    elif site.rent is not None:  # who lets a server replaces it
        spares = 0.0 * servers
    else:  # enough for a fleet that fails as often as any that is likely
        worst = _spreads("dense, 16 bits")["gpu_mttf"][0]
        spares = _spare_servers(servers, world.gpu_mttf * worst / per_server, world)
    hosts = (servers + spares) * per_server
    racks = _racks(servers + spares, per_server, watts, rack, site, world)
    network = _fabric(gpus, hosts, chips, site)
    software = SOFTWARE[site.software]
    size = failures.checkpoint_size(
        parameters(training.model).total, bytes_per_parameter=software.weight_bytes + software.optimizer_bytes
    )
    storage = world.storage_per_gpu * hosts if site.storage_bandwidth is None else site.storage_bandwidth + 0.0 * hosts
    saved = failures.checkpoint(
        size, storage_bandwidth=storage, writers=gpus, local_bandwidth=world.local_bandwidth + 0.0 * gpus
    )
    mtbf = failures.system_mtbf(world.gpu_mttf, gpus)
    best = failures.optimal_interval(saved.stall, mtbf)
    interval = np.maximum(np.maximum(best, timed.time), np.maximum(saved.lag, saved.stall))
    prices = PRICE_LISTS[PRICES[chips.name].list] if chips.name in PRICES else None
    return Design(
        training=training,
        site=site,
        machine=chips,
        layout=layout,
        step=timed,
        per_server=per_server,
        servers=servers,
        spares=spares,
        hosts=hosts,
        server_power=watts,
        racks=racks,
        liquid=liquid,
        fabric=network,
        storage_bandwidth=storage,
        checkpoint=saved,
        interval=interval,
        prices=prices,
    )


# --- The outcome: what follows ---------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class Outcome(Explained):
    """What a design does in one world; a :class:`Plan` draws many, and has the intervals.

    ``load`` and ``site`` are rated watts, ``mean_power`` those at the meter.
    """

    work: Any
    mtbf: Any
    pool: SparePool
    job: Job
    run: RunTime
    failures: Any
    load: Load
    site: Load
    mean_power: Any
    coolant: Any
    energy: EnergyFootprint
    capital: Bill | None
    bill: Bill | None

    @property
    def time(self):
        """Seconds from the first step to the last."""
        return self.run.total

    @property
    def cost(self):
        """Dollars of the run; NaN where no price is known."""
        return np.nan * self.time if self.bill is None else self.bill.total

    def _rows(self):
        rows = [("in one world", "value"), ("time", summary(self.time, "s"))]
        rows.append(("useful", summary(self.run.goodput, "%")))
        rows += [("failures", summary(self.failures)), ("site, rated", summary(self.site.total, "W"))]
        rows += [("site, mean", summary(self.mean_power, "W")), ("energy", summary(self.energy.energy, "MWh"))]
        rows.append(("carbon", summary(self.energy.carbon / 1000, "t CO2e")))
        if self.capital is not None:
            rows.append(("capital", summary(self.capital.total, "$")))
        return rows + ([("cost", summary(self.cost, "$"))] if self.bill is not None else [])


def outcome(made: Design, world: World | None = None) -> Outcome:
    """What follows from a design in a world: time, failures, power, heat, carbon and money.

    Parameters
    ----------
    made : Design
        One, or an array of them.
    world : World, optional
        One, or an array of them that broadcasts with the designs.

    Returns
    -------
    Outcome

    Raises
    ------
    ValueError
        Failures come so fast that the job would never end.

    Examples
    --------
    >>> run = Training("Llama 3.1 405B", 15.6e12, global_batch=2048)
    >>> made = design(run, Site(), machine("H100 SXM"), Layout(tp=8, pp=16, dp=128, chunks=8))
    >>> fmt(outcome(made).time, "s"), fmt(outcome(made).run.goodput, "%", 2)
    ('70.4 d', '93%')
    """
    world = WORLD if world is None else world
    training, site = made.training, made.site
    slower = np.maximum(world.step, made.step.hfu)  # no world computes beyond the peak
    work = training.steps * made.step.time * slower
    mtbf = failures.system_mtbf(world.gpu_mttf, made.gpus)
    node_mtbf = world.gpu_mttf / made.per_server
    pool = failures.spare_pool(made.spares, nodes=made.servers, node_mtbf=node_mtbf, repair=world.repair)
    job = Job(
        interval=made.interval,
        write=made.checkpoint.stall,
        mtbf=mtbf,
        lag=made.checkpoint.lag,
        detection=world.detection,
        repair=0.0 if site.rent is not None else pool.wait,
        restart=world.restart + made.checkpoint.lag,  # a checkpoint is read as fast as it is written
    )
    law = failures.expected_run_time(work, job)
    run = RunTime(**{name: t if name == "useful" else world.lost_time * t for name, t in law.parts.items()})
    supplied = _supply(made, world, run.total)
    return Outcome(
        work=work,
        mtbf=mtbf,
        pool=pool,
        job=job,
        run=run,
        failures=law.detection / world.detection if np.all(world.detection) else law.total / mtbf,
        **supplied,
    )


def _supply(made: Any, world: World, time) -> dict[str, Any]:
    """What a training design or a fleet draws for so many seconds, what cools it, and what it costs."""
    chip = catalogue.accelerator(made.machine.name)
    rated: dict[str, Any] = {"servers": made.server_power / made.per_server}
    if chip.tdp and chip.tdp < rated["servers"]:
        rated = {"accelerators": chip.tdp, "rest of servers": rated["servers"] - chip.tdp}
    it = power.load(**{name: (made.hosts, watts) for name, watts in rated.items()}, switches=made.fabric.power)
    whole_site = power.facility(it, world.pue)
    used = power.energy_footprint(
        world.draw * it.total, time, pue=world.pue, price=world.energy_price, carbon_intensity=world.carbon_intensity
    )
    rise, fluid = _coolant(made, world)
    capital, bill = _money(made, world, whole_site.total, time)
    return {
        "load": it,
        "site": whole_site,
        "mean_power": world.draw * whole_site.total,
        "coolant": power.coolant_flow(it.total, rise, fluid),
        "energy": used,
        "capital": capital,
        "bill": bill,
    }


def _coolant(made: Any, world: World):
    return (world.water_rise, power.WATER) if made.liquid else (world.air_rise, power.AIR)


_BUILT: tuple[str, ...] = ("gpus", "servers", "network", "storage")
_BUILT += ("substation", "generators", "electrical", "cooling", "building")


def _money(made: Any, world: World, watts, time) -> tuple[Bill | None, Bill | None]:
    """What it costs to build, and what the run costs: rent, or the share of each year that it takes."""
    rent = (made.place if isinstance(made, Fleet) else made.site).rent
    if rent is not None:
        return None, scaling.bill(rent=made.gpus * time * rent)
    if made.prices is None:
        return None, None
    prices = _priced(made.prices, world)
    return scaling.capital(made.hosts, watts, prices), time / year * _yearly(made.hosts, watts, prices, world)


def _priced(prices: PriceList, world: World) -> PriceList:
    scaled = {name: getattr(prices, name) for name in _BUILT}
    scaled = {name: world.capital * price for name, price in scaled.items() if price is not None}
    return replace(prices, **scaled, energy=world.energy_price)


def _yearly(gpus, watts, prices: PriceList, world: World) -> Bill:
    return scaling.yearly_bill(gpus, watts, prices, rate=world.interest, life=world.life, load_factor=world.draw)


def yearly_cost(gpus, site_power, prices: PriceList, *, rate=None, life=None, draws: int = 1000, seed: int = 0):
    """What a cluster costs a year, and between which amounts eight of ten drawn worlds have it.

    Parameters
    ----------
    gpus, site_power, prices
        As in :func:`clusterlab.scaling.yearly_bill`; numbers.
    rate, life : float, optional
        Interest, and seconds over which servers are paid off, where they are known; else those of the worlds.
    draws, seed : int
        Worlds that are drawn, and the seed of their random numbers.

    Returns
    -------
    Estimate
        Dollars. The prices of what is built, interest, life, the price of energy and the draw are uncertain, as in
        :data:`ASSUMPTIONS`.

    Examples
    --------
    >>> from clusterlab.catalogue import price_list
    >>> yearly_cost(16384, 1400 * 16384, price_list("H100 SXM")).with_interval
    '$243M ($202M to $455M)'
    """
    known = {name: value for name, value in {"interest": rate, "life": life}.items() if value is not None}
    central, drawn = (replace(world, **known) for world in (WORLD, worlds(WORLD, draws, seed=seed)))
    totals = [_yearly(gpus, site_power, _priced(prices, world), world).total for world in (central, drawn)]
    low, high = np.quantile(totals[1], (0.1, 0.9))
    return Estimate(float(totals[0]), min(float(low), totals[0]), max(float(high), totals[0]), "$")


METRICS: Mapping[str, tuple[str, Callable[[Design, Outcome], Any]]] = MappingProxyType(
    {
        "step_time": ("s", lambda d, o: o.work / d.training.steps),
        "mfu": ("%", lambda d, o: d.step.mfu * d.step.time * d.training.steps / o.work),
        "time": ("s", lambda _d, o: o.time),
        "effective_time": ("%", lambda _d, o: o.run.goodput),
        "interruptions": ("", lambda _d, o: o.failures),
        "interruptions_per_day": ("", lambda _d, o: 86400 / o.mtbf),
        "gpu_hours": ("", lambda d, o: d.gpus * o.time / hour),
        "cost": ("$", lambda _d, o: o.cost),
        "capital": ("$", lambda _d, o: np.nan * o.time if o.capital is None else o.capital.total),
        "site_power": ("W", lambda _d, o: o.site.total),
        "mean_power": ("W", lambda _d, o: o.mean_power),
        "server_power": ("W", lambda d, _o: d.hosts * d.server_power / d.per_server),
        "energy": ("MWh", lambda _d, o: o.energy.energy),
        "carbon": ("t", lambda _d, o: o.energy.carbon / 1000),
        "chip_carbon": ("t", lambda d, o: _chip_carbon(d, o) / 1000),
        "gpus": ("", lambda d, _o: d.gpus),
        "peak": ("FLOP/s", lambda d, _o: d.gpus * d.step.peak),
        "racks": ("", lambda d, _o: d.racks),
        "leaf_switches": ("", lambda d, _o: d.fabric.leaves),
        "spine_switches": ("", lambda d, _o: d.fabric.spines),
        "core_switches": ("", lambda d, _o: d.fabric.cores),
        "host_cables": ("", lambda d, _o: d.fabric.host_cables),
        "spine_cables": ("", lambda d, _o: d.fabric.spine_cables),
        "core_cables": ("", lambda d, _o: d.fabric.core_cables),
        "cables": ("", lambda d, _o: d.fabric.cables),
        "transceivers": ("", lambda d, _o: d.fabric.transceivers),
        "bisection": ("B/s", lambda d, _o: d.fabric.bisection),
        "storage_bandwidth": ("B/s", lambda d, _o: d.storage_bandwidth),
    }
)
_UNCERTAIN: tuple[str, ...] = (
    "step_time",
    "mfu",
    "time",
    "effective_time",
    "interruptions",
    "gpu_hours",
    "cost",
    "capital",
)
_UNCERTAIN += ("site_power", "mean_power", "energy", "carbon")
_ONLY_PUBLISHED = ("interruptions_per_day", "chip_carbon")  # as others count; a plan's table has them in other words


def _chip_carbon(made: Design, done: Outcome):
    """Carbon of the accelerators alone at their rating, as model cards count it."""
    tdp = catalogue.accelerator(made.accelerator).tdp or np.nan
    each = done.energy.carbon / done.energy.energy
    return made.gpus * tdp * done.time * power.pue(done.site.total, done.load.total) * each


# --- The certificate -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class Joint(Explained):
    """A place where one law's result is another's argument: what leaves the one, and what the other makes of it."""

    name: str
    left: Any
    right: Any
    unit: str

    @property
    def error(self):
        """How far apart the two are, over the larger."""
        most = np.maximum(np.abs(self.left), np.abs(self.right))
        return np.abs(self.left - self.right) / np.where(most > 0, most, 1.0)

    @property
    def holds(self) -> bool:
        """Whether both are one number, but for rounding."""
        return bool(np.all(self.error < 1e-9))

    def _rows(self):
        rows: list[tuple[str, ...]] = [
            ("", "value"),
            ("left", summary(self.left, self.unit)),
            ("right", summary(self.right, self.unit)),
        ]
        return [(self.name, "value"), *rows[1:], ("holds", "yes" if self.holds else "no")]


def certificate(made: Design, done: Outcome, world: World | None = None) -> tuple[Joint, ...]:
    """Every joint of a plan, with the number of each side, computed by different laws wherever there are two.

    Parameters
    ----------
    made : Design
        From :func:`design`.
    done : Outcome
        Of that design in ``world``.
    world : World, optional
        As in :func:`outcome`.

    Returns
    -------
    tuple of Joint

    Examples
    --------
    >>> chips = machine("H100 SXM")
    >>> made = design(Training("Llama 3.1 70B", 1e12), Site(), chips, Layout(tp=8, dp=32, pp=4, chunks=5))
    >>> all(joint.holds for joint in certificate(made, outcome(made)))
    True
    """
    world = WORLD if world is None else world
    training, timed, run = made.training, made.step, done.run
    model, workload, steps = training.model, training.workload, training.steps
    flops = timed.model_flops * steps
    slower = done.work / (steps * timed.time)
    reached = np.minimum(timed.mfu / slower, 1.0)  # above 1 by rounding alone: no world computes beyond the peak
    budget = training_run(flops, made.gpus, peak=timed.peak, efficiency=reached, goodput=run.goodput)
    software = SOFTWARE[made.site.software]
    kept = {"weight_bytes": software.weight_bytes, "optimizer_bytes": software.optimizer_bytes}
    shards = made.layout.dp * made.layout.cp
    each = model_state(parameters(model).total, shards=shards, zero=3, **kept)  # of every rank that shares
    up = run.useful + (run.checkpoint + run.rework + run.restart) / world.lost_time
    tokens_per_second = workload.tokens / (timed.time * slower * made.gpus)
    joints = [
        Joint(
            "FLOPs of the steps = FLOPs of the tokens",
            flops,
            training_flops(model, workload.sequence).model * workload.tokens * steps,
            "FLOP",
        ),
        Joint("time of the run = FLOPs / (GPUs, peak, MFU, goodput)", run.total, budget.time, "s"),
        Joint("failures of the run = running time / MTBF", done.failures, up / done.mtbf, ""),
        Joint("bytes of a checkpoint = bytes of all shards", made.checkpoint.size, shards * each.checkpoint, "B"),
        Joint("bytes/s to storage = bytes of a checkpoint / lag", made.storage_bandwidth, _drain(made), "B/s"),
        Joint(
            "servers in repair = failures a second x repair",
            done.pool.load,
            little_law(made.servers * made.per_server / world.gpu_mttf, world.repair),
            "",
        ),
    ]
    if done.bill is not None:
        a_token = cost_per(done.cost / (run.total * made.gpus), tokens_per_second, utilisation=run.goodput)
        joints.append(Joint("dollars of the run = tokens x $", done.cost, a_token * workload.tokens * steps, "$"))
    return (*joints, *_supply_joints(made, done, world, run.total))


def _supply_joints(made: Any, done: Any, world: World, time) -> list[Joint]:
    """The joints of whatever stands in a hall: GPUs, watts, joules and dollars."""
    rise, fluid = _coolant(made, world)
    of_servers = done.load.total - done.load.parts["switches"]
    joints = [
        Joint("GPUs of servers and spares = ends of the fabric", _ends(made), made.fabric.ends, ""),
        Joint("watts of servers = GPUs x rating", of_servers, made.hosts * made.server_power / made.per_server, "W"),
        Joint("watts of IT = heat removed", done.load.total, power.heat_removed(done.coolant, rise, fluid), "W"),
        Joint("watts at the meter = joules / time", done.mean_power, done.energy.energy / time, "W"),
    ]
    if done.bill is not None and "energy" in done.bill.parts:
        joints.append(Joint("dollars for energy = joules x $", done.bill.parts["energy"], done.energy.cost, "$"))
    if done.capital is not None and made.prices is not None:
        price = made.prices.network * world.capital
        joints.append(Joint("GPUs paid for = GPUs built", done.capital.parts["network"] / price, made.hosts, ""))
    return joints


def _ends(made: Any):
    return made.gpus if made.fabric.name is not None and np.all(np.equal(made.fabric.name, "torus")) else made.hosts


def _drain(made: Design):
    return made.checkpoint.size / made.checkpoint.lag


# --- The plan --------------------------------------------------------------------------------------------------------


class InfeasibleError(ValueError):
    """No plan keeps within the limits. ``nearest`` maps a limit to the value that alone would do, where one would."""

    def __init__(self, message: str, nearest: Mapping[str, float] | None = None) -> None:
        super().__init__(message)
        self.nearest = dict(nearest or {})


@dataclass(frozen=True, repr=False)
class Point(Explained):
    """One of the plans that are worth a choice: none is both faster and cheaper.

    ``low`` and ``high`` of time, cost and power hold eight of ten drawn worlds.
    """

    accelerator: str
    gpus: float
    time: float
    cost: float
    power: float
    racks: float
    time_low: float = math.nan
    time_high: float = math.nan
    cost_low: float = math.nan
    cost_high: float = math.nan
    power_low: float = math.nan
    power_high: float = math.nan

    def say(self, name: str) -> str:
        """Its time, cost or power with the interval, in words; nothing where it is not known."""
        return say(self, name, {"time": "s", "cost": "$", "power": "W"}[name])

    def _rows(self):
        shown = [(name, self.say(name)) for name in ("time", "cost", "power")]
        return [("", self.accelerator), ("gpus", _count(self.gpus)), *shown, ("racks", _count(self.racks))]


@dataclass(frozen=True, repr=False)
class Binding(Explained):
    """What keeps a plan from being faster or cheaper, and what one ``unit`` more of it changes, at this place.

    ``gpus``, ``time`` and ``cost`` are what would be added: below zero is saved. They are slopes, so half as much of
    the unit changes half as much.
    """

    name: str
    limit: float
    unit: float
    dimension: str
    gpus: float
    time: float
    cost: float

    def _rows(self):
        def shown(value):
            return summary(value, self.dimension) if self.dimension else _count(value)

        rows = [(self.name, "value"), ("limit", shown(self.limit)), ("one more", shown(self.unit))]
        units = {"gpus": "", "time": "s", "cost": "$"}
        added = {n: getattr(self, n) for n in units}
        return rows + [(f"adds {n}", summary(v, units[n])) for n, v in added.items() if math.isfinite(v)]


@dataclass(frozen=True, repr=False)
class Swing(Explained):
    """What an assumption alone does to a plan when it goes from one end of its interval to the other."""

    name: str
    low: float
    high: float
    time: tuple[float, float]
    cost: tuple[float, float]

    def _rows(self):
        rows: list[tuple[str, ...]] = [
            (self.name, "low", "high"),
            ("assumption", summary(self.low), summary(self.high)),
        ]
        rows.append(("time", *(summary(t, "s") for t in self.time)))
        return [*rows, ("cost", *(summary(c, "$") for c in self.cost))]


@dataclass(frozen=True, repr=False)
class Check(Explained):
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

    def _rows(self):
        rows = [(words(self.name), "value"), ("planned", self.with_interval)]
        rows += [("published", summary(self.published, self.unit)), ("error", f"{self.error:+.1%}")]
        return [*rows, ("source", self.fact.source.title), ("note", self.fact.note)]


@dataclass(frozen=True, repr=False)
class Plan(Explained):
    """A plan: a design, what follows from it, and how far it may be trusted.

    ``intervals`` are those that hold eight of ten drawn worlds. ``joints`` are the certificate, ``front`` every plan
    that was worth a choice, ``tornado`` the assumptions, the one that moves the cost most first.
    """

    training: Training
    site: Site
    design: Design
    outcome: Outcome
    joints: tuple[Joint, ...]
    intervals: Mapping[str, Estimate]
    tornado: tuple[Swing, ...]
    front: tuple[Point, ...]
    binding: Binding
    considered: int
    published: tuple[Check, ...] = ()

    @property
    def parts(self) -> Mapping[str, Any]:
        """Everything that is to be built, by name."""
        return MappingProxyType({name: float(get(self.design, self.outcome)) for name, (_, get) in METRICS.items()})

    @property
    def holds(self) -> bool:
        """Whether every joint does."""
        return all(joint.holds for joint in self.joints)

    @property
    def certificate(self) -> Table:
        """The joints, both numbers of each, as a table."""
        names = [joint.name for joint in self.joints]
        sides = ([f"{float(getattr(joint, side)):.6g} {joint.unit}" for joint in self.joints] for side in _SIDES)
        return tabulate({"joint": names} | dict(zip(_SIDES, sides, strict=True)))

    def _rows(self):
        made = self.design._rows()[1:]
        rows = [("", "value"), *((name, str(value)) for name, value, *_ in made if name not in ("step", "MFU"))]
        rows += [(words(name), one.with_interval) for name, one in self.intervals.items() if name in _UNCERTAIN]
        good = sum(joint.holds for joint in self.joints)
        return [*rows, ("binds", self.binding.name), ("joints that hold", f"{good} of {len(self.joints)}")]


_SIDES = ("left", "right")


def compare(plans: Mapping[str, Plan], *results: str) -> Table:
    """Set plans side by side: a row for each, a column for each result, with its interval where it is uncertain.

    Parameters
    ----------
    plans : mapping
        Plans by name.
    *results : str
        Keys of ``METRICS``: ``"time"``, ``"cost"``, ``"site_power"``, ...

    Returns
    -------
    Table

    Raises
    ------
    ValueError
        There is no plan, or no such result.

    Examples
    --------
    >>> run = Training("Llama 3.1 8B", 1e12, global_batch=512)
    >>> compare({n: plan(run, Site("H100 SXM", gpus=n), draws=10) for n in (64, 128)}, "gpus", "racks")
         GPUs  racks
    64     64      3
    128   128      5
    """
    if unknown := [name for name in results if name not in METRICS]:
        raise ValueError(f"unknown result {unknown[0]!r}; known: {', '.join(METRICS)}")
    columns: dict[str, list[str]] = {"": [str(name) for name in plans]}
    for name in results:
        unit, get = METRICS[name]
        columns[words(name)] = [
            one.intervals[name].with_interval
            if name in one.intervals
            else _shown(float(get(one.design, one.outcome)), unit)
            for one in plans.values()
        ]
    return tabulate(columns)


def _shown(value: float, unit: str) -> str:
    if not math.isfinite(value):
        return ""
    return fmt(value, unit) if unit or value < 1000 else _count(value)


_MOST_GPUS = 2**18
_COUNTS = tuple(int(m * 2**k) for k in range(16) for m in (8, 10, 12, 14) if m * 2**k <= _MOST_GPUS)


def _candidates(training: Training, site: Site, world: World, progress: Callable | None) -> Iterator[Design]:
    """For each accelerator the best layout of every number of them that can run the model: an array of designs."""
    names = [site.accelerator] if site.accelerator else [n for n, one in PRICES.items() if _own(one)]
    fixed = {name: [value] for name, value in site.layout.items()}
    for i, name in enumerate(names):
        chips = machine(name, network=site.network)
        if site.gpus:
            n = int(site.gpus)
            sizes = sorted({n, 2 * n, *([n // 2] if n % 2 == 0 else [])})
        else:
            sizes = _sizes(training, site, chips, world)
        best: list[Layout] = []
        left = sizes
        while left:
            if progress:
                progress((i + 1 - len(left) / len(sizes)) / len(names), f"{left[0]:,} {name}")
            now, values = _together(training, site, chips, left, fixed)
            best += _best_layouts(training, site, chips, now, values)
            left = left[len(now) :]
        if best:
            columns: dict[str, Any] = {f.name: [getattr(one, f.name) for one in best] for f in fields(Layout)}
            columns |= {name: columns[name][0] for name in ("etp", "shard_group", "sequence_parallel")}
            layouts = Layout(**columns)
            try:
                yield design(training, site, chips, layouts, world=world)
            except InfeasibleError as error:  # more of them than any switch joins, with their spares
                most = site.gpus or error.nearest.get("gpus", 0.0) / 1.2
                few = np.flatnonzero(np.asarray(layouts.gpus) <= most)
                if not 0 < few.size < len(best):
                    raise
                yield design(training, site, chips, layouts[few], world=world)


def _own(price: Price) -> bool:
    """Whether a price list is that of the accelerator, and not of a similar one."""
    return price.facts["list"].kind == "specified"


def _sizes(training: Training, site: Site, chips: Machine, world: World) -> list[int]:
    """Numbers of accelerators that are worth a search: from what can hold the model to what the limits allow."""
    per_server, watts, *_ = _server(chips.name, site, world)
    most = float(min(_MOST_GPUS, training.workload.global_batch * 8 * 16))
    if site.power is not None:
        most = min(most, 4 * site.power / float(world.pue) / (watts / per_server))  # beyond it, to say what would do
    state = 6 * parameters(training.model).total  # weights and gradients, the optimizer's state shared out
    least = state / chips.hbm_capacity
    if training.deadline is not None:  # around what the peak alone would take
        peak = chips.peaks.get(PRECISIONS[training.precision][0], max(chips.peaks.values()))
        flops = training_flops(training.model, training.sequence).model * training.tokens
        bare = flops / (peak * training.deadline)
        least, most = max(least, bare / 8), max(min(most, 32 * bare), least)
    return [n for n in _COUNTS if least <= n <= most] or [n for n in _COUNTS if n >= least][:1]


_MOST_LAYOUTS = 300_000  # that one search looks at: more at once would fill the memory, fewer take longer in all


def _together(training: Training, site: Site, chips: Machine, sizes: list[int], fixed: Mapping):
    """The first of these sizes that one search takes together, and the values of its axes."""
    software = SOFTWARE[site.software]
    for count in (64, 16, 4, 1):
        now = sizes[:count]
        usual = axes(training.model, chips, training.workload, gpus=now)
        some: dict[str, Any] = {"chunks": [1, 2, 4, 8], "zero": [1] if training.model.experts else [1, 3]}
        some |= {"microbatch": [b for b in (1, 2) if b in usual["microbatch"]]}
        some |= {"cp": [c for c in usual["cp"] if c == 1 or training.sequence / c >= 4096]}
        some |= {"recompute": ["none", "full"] if software.fused_attention else ["none", "selective", "full"]}
        some |= dict(fixed)
        if math.prod(len(values) for values in (usual | some).values()) <= _MOST_LAYOUTS:
            break
    return now, some


def _best_layouts(training: Training, site: Site, chips: Machine, sizes: list[int], values: Mapping) -> list[Layout]:
    """The fastest layout of each number of accelerators for which one can run."""
    found = search(
        training.model,
        chips,
        training.workload,
        gpus=sizes,
        software=SOFTWARE[site.software],
        capacity=site.memory,
        values=values,
    )
    order = np.argsort(found.step.time, kind="stable") if found.memory.size else np.array([], int)
    gpus, first = np.unique(np.broadcast_to(found.layouts.gpus, found.memory.shape)[order], return_index=True)
    return [found.layouts[int(order[i])] for i in first[np.argsort(gpus)]]


# Limits: what they are of, and what one more of it is.
_LIMITS: Mapping[str, tuple[str, float, str]] = MappingProxyType(
    {
        "deadline": ("time", 86400.0, "s"),
        "budget": ("cost", 1e6, "$"),
        "power": ("site_power", 1e6, "W"),
        "racks": ("racks", 1.0, ""),
    }
)


def _limits(training: Training, site: Site) -> dict[str, float]:
    given = {"deadline": training.deadline, "budget": site.budget, "power": site.power, "racks": site.racks}
    return {name: value for name, value in given.items() if value is not None}


def plan(
    training: Training,
    site: Site,
    *,
    world: World | None = None,
    draws: int = 1000,
    seed: int = 0,
    progress: Callable[[float, str], None] | None = None,
) -> Plan:
    """Plan a training run: accelerators, layout, fabric, checkpoints, spares; time, power, money; and how sure it is.

    Parameters
    ----------
    training : Training
        What shall be trained, and by when.
    site : Site
        What there is. Accelerators, their number and the axes of the layout are searched where they are not fixed. With
        a deadline the cheapest plan that keeps it is taken, otherwise the fastest within the limits.
    world : World, optional
        What is assumed; ``WORLD`` by default.
    draws, seed : int
        Worlds that are drawn for the intervals, and the seed of their random numbers.
    progress : callable, optional
        Called with the share of the search that is done, and what is looked at.

    Returns
    -------
    Plan

    Raises
    ------
    InfeasibleError
        No plan keeps within the limits. The message says the nearest that does.
    ValueError
        There is no limit at all, or an argument cannot be used.

    Examples
    --------
    >>> made = plan(Training("Llama 3.1 8B", 1e12, global_batch=512), Site("H100 SXM", gpus=512))
    >>> made.holds, fmt(made.outcome.time, "s"), made.binding.name
    (True, '68.9 h', 'gpus')
    """
    world = WORLD if world is None else world
    limits = _limits(training, site)
    if not limits and site.gpus is None:
        raise ValueError(
            "give at least one of gpus, deadline, budget, power and racks: without a limit no plan is best"
        )
    if "budget" in limits and site.rent is None and site.accelerator and site.accelerator not in PRICES:
        raise ValueError(f"budget needs a rent: no price list is on record for {site.accelerator}")
    groups = list(_candidates(training, site, world, progress))
    if not groups and training.deadline is not None:  # where all that would be in time is too much for the model
        groups = list(_candidates(replace(training, deadline=None), site, world, progress))
    if not groups:
        raise _does_not_fit(training, site)
    table = _table(groups, world)
    if not limits and not np.any(table["gpus"] == site.gpus):  # the sizes around it can
        raise _does_not_fit(training, site)
    chosen = _choose(table, limits, site)
    group, at = table["group"][chosen], table["at"][chosen]
    layout = groups[int(group)].layout[int(at)]
    made = design(training, site, groups[int(group)].machine, layout, world=world)
    done = outcome(made, world)
    spread_kind = kind(training.model, training.precision)
    drawn = worlds(world, draws, step_kind=spread_kind, seed=seed)
    return Plan(
        training=training,
        site=site,
        design=made,
        outcome=done,
        joints=certificate(made, done, world),
        intervals=_intervals(made, done, outcome(made, drawn)),
        tornado=_tornado(made, world, spread_kind),
        front=_front(table, limits, training, site, groups, world, drawn),
        binding=_binding(table, chosen, limits, site),
        considered=len(table["time"]),
    )


def _does_not_fit(training: Training, site: Site) -> InfeasibleError:
    """Why not one layout runs, and the fewest accelerators with which one does."""
    name = site.accelerator or next(n for n, one in PRICES.items() if _own(one))
    chips, fixed = machine(name, network=site.network), {n: [v] for n, v in site.layout.items()}
    what = f"{training.model.name} on {site.gpus:,.0f} {name}" if site.gpus else f"{training.model.name} on {name}"
    near = sorted(_COUNTS, key=lambda n: abs(math.log(n / site.gpus)) if site.gpus else n)
    nearest = None
    while near and nearest is None:
        now, values = _together(training, site, chips, near[:8], fixed)
        runs = {int(one.gpus) for one in _best_layouts(training, site, chips, now, values)}
        nearest = next((n for n in now if n in runs), None)
        near = near[len(now) :]
    if nearest:
        why = f"no layout of {what} fits and divides the batch"
        if site.gpus:
            why += f": {_short(training, site, chips)}"
        return InfeasibleError(f"{why}; the nearest that does: gpus {nearest:,}", {"gpus": nearest})
    if fixed:
        given = ", ".join(f"{n} {v[0]}" for n, v in fixed.items())
        return InfeasibleError(f"no layout of {what} fits with {given} fixed; leave some of them free")
    return InfeasibleError(f"no layout of {what} fits, with any number up to {_MOST_GPUS:,}; take one with more memory")


def _short(training: Training, site: Site, chips: Machine) -> str:
    """What keeps every layout of so many accelerators from running: memory, or what does not divide."""
    need, has = least_memory(training, replace(site, accelerator=chips.name)), _room(site, chips)
    if need < np.inf:
        return f"the leanest needs {fmt(need, 'B')} on each, and {fmt(has, 'B')} may be used"
    batch = f"{training.global_batch:,.0f} sequences" if training.global_batch else "its sequences"
    return f"none cuts {batch} and {training.model.layers:.0f} layers into {site.gpus:,.0f} equal parts"


def _room(site: Site, chips: Machine) -> float:
    """Bytes that a layout may need on an accelerator."""
    return float(0.9 * chips.hbm_capacity if site.memory is None else site.memory)


def least_memory(training: Training, site: Site) -> float:
    """Bytes that the leanest layout needs on an accelerator, whether it has them or not.

    Parameters
    ----------
    training : Training
        The model and its batch.
    site : Site
        With an accelerator and ``gpus``; fixed axes of the layout are kept.

    Returns
    -------
    float
        Bytes; infinite where no layout cuts the model and its batch into so many equal parts.

    Raises
    ------
    ValueError
        The site says no accelerator, or not how many.

    Examples
    --------
    >>> fmt(least_memory(Training("Llama 3.1 405B", 15e12), Site("H100 SXM", gpus=64)), "B")
    '119 GB'
    """
    if site.accelerator is None or site.gpus is None:
        raise ValueError("accelerator and gpus must be given: without them there is no layout to look at")
    chips, fixed = machine(site.accelerator, network=site.network), {n: [v] for n, v in site.layout.items()}
    _, values = _together(training, site, chips, [int(site.gpus)], fixed)
    software, count = SOFTWARE[site.software], int(site.gpus)
    found = search(
        training.model, chips, training.workload, gpus=count, software=software, capacity=1e18, values=values
    )
    return float(np.min(found.memory, initial=np.inf))


def _table(groups: list[Design], world: World) -> dict[str, np.ndarray]:
    """Every candidate: its numbers side by side."""
    columns: dict[str, list] = {}
    for i, made in enumerate(groups):
        try:
            done = outcome(made, world)
        except ValueError:  # among them is one that failures never let end: take those that do
            mtbf = failures.system_mtbf(world.gpu_mttf, made.gpus)
            good = (made.interval + made.checkpoint.time + made.checkpoint.lag + world.restart) / mtbf < 400
            if not np.any(good):
                continue
            made = design(made.training, made.site, made.machine, made.layout[np.flatnonzero(good)], world=world)
            groups[i] = made
            done = outcome(made, world)
        count = made.gpus.size
        columns.setdefault("group", []).append(np.full(count, i))
        columns.setdefault("at", []).append(np.arange(count))
        for name in ("gpus", "time", "cost", "site_power", "racks"):
            columns.setdefault(name, []).append(np.broadcast_to(METRICS[name][1](made, done), (count,)))
        _, watts, rack, _ = _server(made.accelerator, made.site, world)
        columns.setdefault("rack_needs", []).append(np.full(count, watts * max(rack / made.per_server, 1.0)))
    if not columns:
        raise InfeasibleError(
            "failures come faster than any plan can save its work: gpu_mttf or storage_bandwidth must be larger"
        )
    table = {name: np.concatenate(column) for name, column in columns.items()}
    table["cost"] = np.where(np.isnan(table["cost"]), np.inf, table["cost"])  # of no known price
    return table


def _within(table: Mapping, limits: Mapping[str, float], site: Site) -> np.ndarray:
    good = np.isfinite(table["site_power"]) & np.isfinite(table["racks"])
    if site.gpus is not None:
        good &= table["gpus"] == site.gpus
    for name, most in limits.items():
        good &= table[_LIMITS[name][0]] <= most * (1 + 1e-12)
    return good


def _pick(table: Mapping, good: np.ndarray, cheapest: bool) -> int | None:
    if not np.any(good):
        return None
    first, second = ("cost", "time") if cheapest else ("time", "cost")
    order = np.lexsort((table["gpus"], table[second], np.where(good, table[first], np.inf)))
    return int(next(i for i in order if good[i]))


def _choose(table: Mapping, limits: Mapping[str, float], site: Site) -> int:
    good = _within(table, limits, site)
    chosen = _pick(table, good, "deadline" in limits)
    if chosen is not None:
        return chosen
    # The nearest feasible change: each limit alone, then the one candidate that is the least beyond all of them.
    nearest: dict[str, float] = {}
    for name in limits:
        others = _within(table, {n: v for n, v in limits.items() if n != name}, site)
        if np.any(others):
            nearest[name] = float(np.min(table[_LIMITS[name][0]][others]))
    ways = [f"{n} {fmt(v, _LIMITS[n][2])} in place of {fmt(limits[n], _LIMITS[n][2])}" for n, v in nearest.items()]
    if site.gpus is not None:
        free = _within(table, limits, replace(site, gpus=None))
        if np.any(free):
            nearest["gpus"] = float(np.min(table["gpus"][free]))
            ways.append(f"gpus {nearest['gpus']:,.0f}")
    if ways:
        why = f"no plan keeps within {_said(limits, site)}; each of these alone would do: {'; '.join(ways)}"
        raise InfeasibleError(why, nearest)
    anyhow = _within(table, {}, site)
    if not np.any(anyhow):
        if site.rack_power and not np.any(np.isfinite(table["racks"])):
            least = float(np.min(table["rack_needs"]))
            why = f"rack_power {fmt(site.rack_power, 'W')} feeds no server; the nearest that does: {fmt(least, 'W')}"
            raise InfeasibleError(why, {"rack_power": least})
        raise InfeasibleError(f"nothing runs on {_said(limits, site)}")
    ratio = np.max([table[_LIMITS[n][0]] / v for n, v in limits.items()], axis=0)
    near = int(np.argmin(np.where(anyhow, ratio, np.inf)))
    parts = [
        f"{n} {fmt(table[_LIMITS[n][0]][near], _LIMITS[n][2])}"
        for n, v in limits.items()
        if table[_LIMITS[n][0]][near] > v
    ]
    raise InfeasibleError(f"no plan keeps within {_said(limits, site)}; the nearest needs all of: {', '.join(parts)}")


def _said(limits: Mapping[str, float], site: Site) -> str:
    parts = [f"{name} {fmt(value, _LIMITS[name][2])}" for name, value in limits.items()]
    return ", ".join([*([f"gpus {site.gpus:,.0f}"] if site.gpus else []), *parts])


def _binding(table: Mapping, chosen: int, limits: Mapping[str, float], site: Site) -> Binding:
    """The limit without which another plan would be taken, and the slopes at this one."""
    cheapest = "deadline" in limits
    gains = {}
    for name in limits:
        others = {n: v for n, v in limits.items() if n != name}
        best = _pick(table, _within(table, others, site), cheapest and name != "deadline")
        if best is not None and best != chosen:
            gains[name] = table["time"][chosen] / table["time"][best]
            if np.isfinite(table["cost"][chosen]):
                gains[name] += table["cost"][chosen] / table["cost"][best]
    n, time, cost = (float(table[name][chosen]) for name in ("gpus", "time", "cost"))
    of_time, of_cost = _slopes(table, chosen)
    if gains:
        name = max(gains, key=lambda one: gains[one])
        column, unit, dimension = _LIMITS[name]
        limit = limits[name]
        if name == "deadline":
            more = unit / (time * of_time) if of_time else 0.0
        elif name == "budget":
            more = unit / (cost * of_cost) if of_cost > 0 else 0.0
        else:
            more = unit / float(table[column][chosen])
    elif site.gpus is not None:
        name, limit, unit, dimension = "gpus", n, 8.0, ""
        more = unit / n
    else:
        larger = (table["group"] == table["group"][chosen]) & (table["gpus"] > n)
        name = "money" if np.any(larger) and cheapest else "batch"
        if cheapest and not np.any((table["group"] == table["group"][chosen]) & (table["gpus"] < n)):
            name = "memory"
        limit, unit, dimension = n, 8.0, ""
        more = unit / n
    return Binding(name, limit, unit, dimension, n * more, time * of_time * more, cost * of_cost * more)


def _slopes(table: Mapping, chosen: int) -> tuple[float, float]:
    """Of time and of cost in the number of accelerators, both in logarithms, to the next candidates of the kind."""
    same = np.flatnonzero(table["group"] == table["group"][chosen])
    same = same[np.argsort(table["gpus"][same])]
    i = int(np.flatnonzero(same == chosen)[0])
    ends = same[max(i - 1, 0)], same[min(i + 1, len(same) - 1)]
    if ends[0] == ends[1]:
        return -1.0, 0.0  # nothing to compare with: as many again take half the time
    across = math.log(table["gpus"][ends[1]] / table["gpus"][ends[0]])
    of_time = math.log(table["time"][ends[1]] / table["time"][ends[0]]) / across
    costs = table["cost"][list(ends)]
    of_cost = math.log(costs[1] / costs[0]) / across if np.all(np.isfinite(costs)) else math.nan
    return of_time, of_cost


def _front(
    table: Mapping,
    limits: Mapping[str, float],
    training: Training,
    site: Site,
    groups: list[Design],
    world: World,
    drawn: World,
) -> tuple[Point, ...]:
    """Plans within the limits of which none is both faster and cheaper, the fastest first."""
    good = np.flatnonzero(_within(table, limits, site))
    order = good[np.lexsort((table["cost"][good], table["time"][good]))]
    front: list[Point] = []
    least = np.inf
    for i in order:
        if not front or table["cost"][i] < least:
            least = table["cost"][i]
            numbers = (float(table[name][i]) for name in ("gpus", "time", "cost", "site_power", "racks"))
            group = groups[int(table["group"][i])]
            made = design(training, site, group.machine, group.layout[int(table["at"][i])], world=world)
            ends = _intervals(made, outcome(made, world), outcome(made, drawn))
            front.append(Point(group.accelerator, *numbers, **_ends_of(ends, _POINT)))
    return tuple(front)


_POINT = {"time": "time", "cost": "cost", "power": "site_power"}  # the result of a plan that each number is


def _ends_of(intervals: Mapping[str, Estimate], names: Mapping[str, str]) -> dict[str, float]:
    """``low`` and ``high`` of some results, as a record of plain numbers has them."""
    ends = {name: intervals[of] for name, of in names.items() if of in intervals}
    return {f"{name}_{end}": float(getattr(one, end)) for name, one in ends.items() for end in ("low", "high")}


def _intervals(made: Design, done: Outcome, drawn: Outcome) -> Mapping[str, Estimate]:
    """The central value of each uncertain result, and between which values eight of ten drawn worlds have it."""
    found = {}
    for name in (*_UNCERTAIN, *_ONLY_PUBLISHED):
        unit, get = METRICS[name]
        central, values = float(get(made, done)), np.asarray(get(made, drawn))
        if np.isfinite(central):
            low, high = np.quantile(values, (0.1, 0.9)) if values.ndim else (central, central)
            found[name] = Estimate(central, min(float(low), central), max(float(high), central), unit)
    return MappingProxyType(found)


def _tornado(made: Design, world: World, step_kind: str) -> tuple[Swing, ...]:
    """Each uncertain assumption moved alone from one end of its interval to the other, the widest first."""
    bars = []
    for name, times in _spreads(step_kind).items():
        central = getattr(world, name)
        ends = [float(_possible(name, central * one)) for one in times]
        moved = [outcome(made, replace(world, **{name: end})) for end in ends]
        times_, costs = (tuple(float(get(one)) for one in moved) for get in (lambda o: o.time, lambda o: o.cost))
        if times_[0] != times_[1] or costs[0] != costs[1]:
            bars.append(Swing(name, ends[0], ends[1], (times_[0], times_[1]), (costs[0], costs[1])))
    paid = made.prices is not None or made.site.rent is not None

    def width(bar: Swing) -> float:
        low, high = bar.cost if paid else bar.time
        return abs(math.log(high / low)) if low > 0 else 0.0

    return tuple(sorted(bars, key=width, reverse=True))


# --- A fleet that serves ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class Serving(Explained):
    """A model to serve to users.

    Parameters
    ----------
    model : Transformer or str
        A shape, or the name of one in the catalogue.
    rate : float
        Requests a second at the peak.
    prompt, output : float
        Tokens of a request and of its answer.
    speed : float
        Tokens a second that each user must get.
    first_token : float, optional
        Seconds within which the first token must come, once the request is taken up.
    precision : str
        Of products and weights: ``"bf16"``, ``"fp8"``, ``"fp4"``.
    cached : float
        Share of a prompt that a cache has already.

    Raises
    ------
    ValueError
        An unknown model or precision, or a number that cannot be one.

    Examples
    --------
    >>> Serving("Llama 3.1 70B", 100, 1000, 300, speed=30).requests.output
    300.0
    """

    model: Any
    rate: float
    prompt: float
    output: float
    speed: float = 20.0
    first_token: float | None = None
    precision: str = "bf16"
    cached: float = 0.0

    def __post_init__(self) -> None:
        """Look up the model, and refuse what nobody asks."""
        if not isinstance(self.model, Transformer):
            object.__setattr__(self, "model", transformer(self.model))
        positive(rate=self.rate, speed=self.speed)
        if self.first_token is not None:
            positive(first_token=self.first_token)
        self.requests, self.formats  # noqa: B018, they raise what is wrong with them

    @property
    def requests(self) -> Requests:
        """One request."""
        from ..serving import Requests

        return Requests(self.prompt, self.output, self.cached)

    @property
    def formats(self) -> Formats:
        """Its number formats; caches are in 16 bits."""
        from ..serving import Formats

        return Formats(self.precision)

    def _rows(self):
        rows = [("", "value"), ("model", self.model.name), ("requests a second", summary(self.rate))]
        rows += [("prompt", summary(self.prompt)), ("answer", summary(self.output))]
        rows += [("of it cached", summary(self.cached, "%"))] if self.cached else []
        rows += [("speed at least", summary(self.speed, "tokens/s")), ("precision", self.precision)]
        return rows + ([("first token within", summary(self.first_token, "s"))] if self.first_token else [])


@dataclass(frozen=True, repr=False)
class Fleet(Explained):
    """Replicas that serve a model, in a hall, for a year: what is decided and what follows.

    ``replicas`` carry the load at its peak with ``utilisation`` of what they can; ``spare_replicas`` are for those in
    repair. ``site`` is what there is, ``halls`` the rated watts of the site. ``intervals`` and ``joints`` are as in a
    :class:`Plan`.
    """

    serving: Serving
    place: Site
    machine: Machine
    layout: Layout
    service: Service
    replicas: Any
    spare_replicas: Any
    per_server: float
    hosts: Any
    server_power: float
    racks: Any
    liquid: bool
    fabric: Fabric
    prices: PriceList | None
    load: Load
    site: Load
    mean_power: Any
    coolant: Any
    energy: EnergyFootprint
    capital: Bill | None
    bill: Bill | None
    joints: tuple[Joint, ...] = ()
    intervals: Mapping[str, Estimate] = field(default_factory=dict)
    front: tuple[Point, ...] = ()
    binding: Binding | None = None
    tornado: tuple[Swing, ...] = ()
    published: tuple[Check, ...] = ()

    @property
    def parts(self) -> Mapping[str, Any]:
        """Everything that is to be built, and what comes of it, by name."""
        return MappingProxyType({name: float(get(self)) for name, (_, get) in FLEET_METRICS.items()})

    @property
    def gpus(self):
        """Accelerators of the replicas that work."""
        return self.replicas * self.service.gpus

    @property
    def cost(self):
        """Dollars a year; NaN where no price is known."""
        return np.nan if self.bill is None else self.bill.total

    @property
    def busy(self):
        """Load at the peak over what the replicas can carry."""
        return self.serving.rate * self.serving.output / (self.replicas * self.service.tokens_per_second)

    @property
    def token_cost(self):
        """Dollars for a token of an answer, if the peak lasted all year; NaN where no price is known."""
        if self.bill is None:
            return np.nan
        return cost_per(self.cost / (year * self.gpus), self.service.tokens_per_second_per_gpu, utilisation=self.busy)

    @property
    def holds(self) -> bool:
        """Whether every joint does."""
        return all(joint.holds for joint in self.joints)

    def _rows(self):
        axes_of = [(name, value) for name, value, *_ in self.layout._rows()[1:-1] if name != "zero"]
        layout = ", ".join(f"{name} {value}" for name, value in axes_of if (name, value) != ("etp", "1"))
        rows = [
            ("", "value"),
            ("accelerator", self.machine.name),
            ("GPUs", _count(self.gpus)),
            ("replicas", _count(self.replicas)),
            ("spare replicas", _count(self.spare_replicas)),
            ("layout", layout or "one GPU"),
            ("sequences of a replica", _count(self.service.sequences)),
            ("racks", _count(self.racks)),
            ("switches", f"{_count(self.fabric.switches)} {self.fabric.name}"),
        ]
        rows += [(words(name), one.with_interval) for name, one in self.intervals.items()]
        if self.binding:
            rows.append(("binds", words(self.binding.name)))
        good = sum(joint.holds for joint in self.joints)
        return [*rows, ("joints that hold", f"{good} of {len(self.joints)}")]


FLEET_METRICS: Mapping[str, tuple[str, Callable[[Fleet], Any]]] = MappingProxyType(
    {
        "gpus": ("", lambda f: f.gpus),
        "busy_gpus": ("", lambda f: f.gpus * f.busy),
        "hosts": ("", lambda f: f.hosts),
        "replicas": ("", lambda f: f.replicas),
        "spare_replicas": ("", lambda f: f.spare_replicas),
        "racks": ("", lambda f: f.racks),
        "leaf_switches": ("", lambda f: f.fabric.leaves),
        "spine_switches": ("", lambda f: f.fabric.spines),
        "core_switches": ("", lambda f: f.fabric.cores),
        "cables": ("", lambda f: f.fabric.cables),
        "transceivers": ("", lambda f: f.fabric.transceivers),
        "site_power": ("W", lambda f: f.site.total),
        "mean_power": ("W", lambda f: f.mean_power),
        "cost_a_day": ("$", lambda f: f.cost * 86400 / year),
        "cost_a_year": ("$", lambda f: f.cost),
        "cost_of_a_million_tokens": ("$", lambda f: 1e6 * f.token_cost),
        "speed": ("tokens/s", lambda f: f.service.speed),
        "first_token": ("s", lambda f: f.service.time_to_first_token),
    }
)
_REPLICAS = (1, 2, 4, 8, 16, 32, 64)  # accelerators of a replica that are tried


def serve(
    asked: Serving,
    site: Site,
    *,
    world: World | None = None,
    draws: int = 1000,
    seed: int = 0,
    progress: Callable[[float, str], None] | None = None,
) -> Fleet:
    """Plan a fleet that serves a model: accelerators, layout of a replica, batch, replicas, spares, power and money.

    Parameters
    ----------
    asked : Serving
        What is served, and what users are promised.
    site : Site
        As in :func:`plan`; ``budget`` is for a year. Axes of the layout are not fixed but searched.
    world, draws, seed, progress
        As in :func:`plan`.

    Returns
    -------
    Fleet
        The cheapest a year that keeps the promise (the one of fewest accelerators, where no price is known).

    Raises
    ------
    InfeasibleError
        Nothing keeps the promise within the limits. The message says the nearest that does.

    Examples
    --------
    >>> fleet = serve(Serving("Llama 3.1 70B", 50, 1000, 300, speed=30, precision="fp8"), Site("H100 SXM"))
    >>> fleet.holds, float(fleet.service.speed) > 30
    (True, True)
    """
    world = WORLD if world is None else world
    fleets, services = _fleets(asked, site, world, progress)
    good = _fleets_within(fleets, site)
    chosen = min(good, key=lambda one: (one.cost if np.isfinite(one.cost) else np.inf, one.gpus))
    step_kind = "serving: saturated, experts" if asked.model.experts else "serving: saturated, dense"
    drawn = worlds(world, draws, step_kind=step_kind, seed=seed)
    return replace(
        chosen,
        joints=_fleet_joints(chosen, world),
        intervals=_fleet_intervals(chosen, drawn),
        front=_fleet_front(good, drawn),
        binding=_fleet_binding(chosen, services[chosen.machine.name]),
        tornado=_fleet_tornado(chosen, world, step_kind),
    )


def _fleets(
    asked: Serving, site: Site, world: World, progress: Callable[[float, str], None] | None
) -> tuple[list[Fleet], dict[str, list[Service]]]:
    """The best fleet of each accelerator and size of replica that keeps the promise; and all services, by accelerator.

    Raises an InfeasibleError that says the nearest where none keeps it.
    """
    from ..serving import Replica, Service, frontier

    names = [site.accelerator] if site.accelerator else [n for n, one in PRICES.items() if _own(one)]
    fleets, fastest, soonest, nothing_fits = [], 0.0, np.inf, True
    services: dict[str, list[Service]] = {}
    for i, name in enumerate(names):
        chips = machine(name, network=site.network)
        for j, size in enumerate(_REPLICAS):
            if progress:
                progress((i + j / len(_REPLICAS)) / len(names), f"replicas of {size} {name}")
            try:
                replica = Replica(asked.model, chips, formats=asked.formats)
                found = frontier(replica, asked.requests, gpus=size)
            except ValueError as error:
                if "nothing fits" in str(error):
                    continue
                raise
            nothing_fits = False
            service = found.service
            services.setdefault(name, []).append(service)
            prompt = np.inf if asked.first_token is None else asked.first_token
            fast = (service.speed >= asked.speed) & (service.time_to_first_token <= prompt)
            first_tokens = np.asarray(service.time_to_first_token)
            soonest = min(soonest, float(np.min(first_tokens[service.speed >= asked.speed], initial=np.inf)))
            fastest = max(fastest, float(np.max(service.speed[service.time_to_first_token <= prompt], initial=0.0)))
            if not np.any(fast):
                continue
            best = int(np.argmax(np.where(fast, service.tokens_per_second_per_gpu, -1.0)))
            one = Service(*(float(getattr(service, f.name)[best]) for f in fields(Service)))
            fleets.append(_fleet(asked, site, chips, found.layouts[best], one, world))
    if fleets:
        return fleets, services
    if nothing_fits:
        raise InfeasibleError(f"{asked.model.name} fits on no replica of up to {_REPLICAS[-1]} accelerators")
    if not fastest:
        why = f"no replica has a first token within {fmt(asked.first_token or 0.0, 's')}"
        if not np.isfinite(soonest):
            raise InfeasibleError(f"{why}, or gives each user {asked.speed:g} tokens/s")
        raise InfeasibleError(f"{why}; the nearest that does: {fmt(soonest, 's')}", {"first_token": soonest})
    first = f" with a first token within {fmt(asked.first_token, 's')}" if asked.first_token else ""
    why = f"no replica gives each user {asked.speed:g} tokens/s{first}; the nearest that does: speed {fastest:.3g}"
    raise InfeasibleError(why, {"speed": fastest})


def _fleets_within(fleets: list[Fleet], site: Site) -> list[Fleet]:
    """Those of the fleets that keep within the limits of a site, or an InfeasibleError that says the nearest."""
    there_are = {"power": site.power, "racks": site.racks, "budget": site.budget, "gpus": site.gpus}
    limits = {name: value for name, value in there_are.items() if value is not None}
    good = [one for one in fleets if all(_of_fleet(one, name) <= value for name, value in limits.items())]
    good = [one for one in good if np.isfinite(one.racks)]
    if good:
        return good
    nearest = {}
    for name in limits:
        rest = [o for o in fleets if all(_of_fleet(o, n) <= v for n, v in limits.items() if n != name)]
        if rest:
            nearest[name] = min(_of_fleet(one, name) for one in rest)
    if not limits:
        racks = min(one.server_power / one.per_server * (72 if one.liquid else 8) for one in fleets)
        given = fmt(site.rack_power or 0.0, "W")
        why = f"rack_power {given} feeds no server; the nearest that does: {fmt(racks, 'W')}"
        raise InfeasibleError(why, {"rack_power": racks})
    ways = [f"{name} {fmt(value, _FLEET_UNITS[name])}" for name, value in nearest.items()]
    why = f"each of these alone would do: {'; '.join(ways)}" if ways else "no one of them alone would do"
    raise InfeasibleError(f"no fleet keeps within the limits; {why}", nearest)


def _fleet_front(fleets: list[Fleet], drawn: World) -> tuple[Point, ...]:
    """Fleets of which none is both faster for a user and cheaper (smaller, where no price is known), fastest first."""
    front: list[Point] = []
    least = np.inf
    for one in sorted(fleets, key=lambda o: (o.service.time_per_token, o.gpus)):
        price = float(one.cost if np.isfinite(one.cost) else one.gpus)
        if price < least:
            least = price
            numbers = one.gpus, one.service.time_per_token, one.cost, one.site.total, one.racks
            sure = _fleet_intervals(one, drawn)
            ends = _ends_of(sure, {"cost": "cost_a_year", "power": "site_power"})
            ends |= {"time_low": 1 / sure["speed"].high, "time_high": 1 / sure["speed"].low}
            front.append(Point(one.machine.name, *map(float, numbers), **ends))
    return tuple(front)


def _fleet_binding(fleet: Fleet, services: list[Service]) -> Binding:
    """The promise that keeps a fleet from serving more with a GPU, or the load where none does; and the slope there."""
    asked = fleet.serving
    soon = np.inf if asked.first_token is None else asked.first_token

    def most(speed: float, first_token: float) -> float:
        """Tokens/s of an accelerator under these promises."""
        kept = [(one.speed >= speed) & (one.time_to_first_token <= first_token) for one in services]
        each = (
            np.max(one.tokens_per_second_per_gpu[good], initial=0.0) for one, good in zip(services, kept, strict=True)
        )
        return float(max(each))

    now, gpus, cost = most(asked.speed, soon), float(fleet.gpus), float(fleet.cost)
    freed = {"speed": most(0.0, soon), "first_token": most(asked.speed, np.inf)}
    name = max(freed, key=lambda one: freed[one])
    if freed[name] <= now * (1 + 1e-9):
        return Binding("rate", asked.rate, 1.0, "", gpus / asked.rate, np.nan, cost / asked.rate)
    step = 0.25  # far enough that another batch is taken
    if name == "speed":
        unit, dimension, limit, then = 1.0, "tokens/s", asked.speed, most(asked.speed * (1 + step), soon)
    else:
        unit, dimension, limit, then = 0.1, "s", soon, most(asked.speed, soon * (1 + step))
    more = (now / then - 1) * unit / (step * limit) if then else np.nan
    return Binding(name, limit, unit, dimension, gpus * more, np.nan, cost * more)


def _fleet_tornado(fleet: Fleet, world: World, step_kind: str) -> tuple[Swing, ...]:
    """Each uncertain assumption moved alone: what a fleet for the same load then costs, and how long a token takes."""
    bars = []
    for name, times in _spreads(step_kind).items():
        central = getattr(world, name)
        ends = [float(_possible(name, central * one)) for one in times]
        moved = []
        for end in ends:
            slower = end / central if name == "step" else 1.0
            service = fleet.service
            service = replace(
                service,
                time_to_first_token=service.time_to_first_token * slower,
                time_per_token=service.time_per_token * slower,
                latency=service.latency * slower,
                tokens_per_second=service.tokens_per_second / slower,
            )
            there = replace(world, **{name: end})
            try:
                moved.append(_fleet(fleet.serving, fleet.place, fleet.machine, fleet.layout, service, there))
            except InfeasibleError:  # more of them than any switch joins: as bad as can be
                break
        if len(moved) < len(ends):
            continue
        paces = tuple(float(one.service.time_per_token) for one in moved)
        costs = tuple(float(one.cost) for one in moved)
        if paces[0] != paces[1] or (costs[0] != costs[1] and fleet.bill is not None):
            bars.append(Swing(name, ends[0], ends[1], (paces[0], paces[1]), (costs[0], costs[1])))

    def width(bar: Swing) -> float:
        low, high = bar.cost if fleet.bill is not None else bar.time
        return abs(math.log(high / low))

    return tuple(sorted(bars, key=width, reverse=True))


_FLEET_UNITS = {"power": "W", "racks": "", "budget": "$", "gpus": ""}


def _of_fleet(fleet: Fleet, name: str) -> float:
    """What a fleet takes of a limit."""
    taken = {"power": fleet.site.total, "racks": fleet.racks, "budget": fleet.cost, "gpus": fleet.hosts}
    return float(taken[name])


def _fleet(asked: Serving, site: Site, chips: Machine, layout: Layout, service: Service, world: World) -> Fleet:
    """Replicas for the peak, spares for those in repair, and the hall."""
    need = asked.rate * asked.output / service.tokens_per_second
    replicas = float(np.ceil(need / world.utilisation * (1 - 1e-12)))
    _fabric(replicas * service.gpus, replicas * service.gpus, chips, site)  # refuses more than any switch joins
    up = world.gpu_mttf / (world.gpu_mttf + service.gpus * world.repair)
    low, high = -1, 1  # too few, and enough: doubled until it is
    while scaling.redundancy(replicas, up, spares=high).availability < world.availability:
        low, high = high, 2 * high
        if high > replicas + 64:
            raise InfeasibleError("replicas break faster than they are repaired: gpu_mttf must be longer")
    while high - low > 1:
        middle = (low + high) // 2
        enough = scaling.redundancy(replicas, up, spares=middle).availability >= world.availability
        low, high = (low, middle) if enough else (middle, high)
    spares = high
    spares = 0 if site.rent is not None else spares
    if site.spares is not None:
        spares = int(site.spares)
    per_server, watts, rack, liquid = _server(chips.name, site, world)
    servers = np.ceil((replicas + spares) * service.gpus / per_server)
    hosts = servers * per_server
    made = Fleet(
        serving=asked,
        place=site,
        machine=chips,
        layout=layout,
        service=service,
        replicas=replicas,
        spare_replicas=spares,
        per_server=per_server,
        hosts=hosts,
        server_power=watts,
        racks=_racks(servers, per_server, watts, rack, site, world),
        liquid=liquid,
        fabric=_fabric(hosts, hosts, chips, site),
        prices=PRICE_LISTS[PRICES[chips.name].list] if chips.name in PRICES else None,
        **dict.fromkeys(("load", "site", "mean_power", "coolant", "energy", "capital", "bill")),  # type: ignore[arg-type]
    )
    return replace(made, **_supply(made, world, year))


def _fleet_joints(fleet: Fleet, world: World) -> tuple[Joint, ...]:
    asked, service = fleet.serving, fleet.service
    tokens = asked.rate * asked.output
    in_flight = fleet.replicas * fleet.busy * service.sequences
    joints = [
        Joint(
            "sequences in flight = tokens a second x seconds a token",
            in_flight,
            little_law(tokens, service.time_per_token),
            "",
        ),
        Joint(
            "requests a second asked = carried",
            asked.rate,
            fleet.busy * fleet.gpus * service.tokens_per_second_per_gpu / asked.output,
            "",
        ),
    ]
    if fleet.bill is not None:
        joints.append(Joint("dollars a year = tokens x $", fleet.cost, fleet.token_cost * tokens * year, "$"))
    return (*joints, *_supply_joints(fleet, fleet, world, year))


def _fleet_intervals(fleet: Fleet, drawn: World) -> Mapping[str, Estimate]:
    """Intervals over worlds: a slower pass takes from every user, and from what the fleet can carry."""
    many = replace(fleet, **_supply(fleet, drawn, year))
    service = fleet.service
    results: dict[str, tuple[str, Any, Any]] = {
        "speed": ("tokens/s", service.speed, service.speed / drawn.step),
        "first_token": ("s", service.time_to_first_token, service.time_to_first_token * drawn.step),
        "requests_at_most": (
            "",
            fleet.replicas * service.tokens_per_second / fleet.serving.output,
            fleet.replicas * service.tokens_per_second / fleet.serving.output / drawn.step,
        ),
        "busy_gpus": ("", fleet.gpus * fleet.busy, fleet.gpus * fleet.busy * drawn.step),
        "site_power": ("W", fleet.site.total, many.site.total),
        "mean_power": ("W", fleet.mean_power, many.mean_power),
        "cost_a_day": ("$", fleet.cost * 86400 / year, many.cost * 86400 / year),
        "cost_a_year": ("$", fleet.cost, many.cost),
        "capital": ("$", None, None) if fleet.capital is None else ("$", fleet.capital.total, many.capital.total),  # type: ignore[union-attr]
    }
    if fleet.bill is not None:
        per = 1e6 / (fleet.serving.rate * fleet.serving.output * year)
        results["cost_of_a_million_tokens"] = ("$", fleet.cost * per, many.cost * per)
    found = {}
    for name, (unit, central, values) in results.items():
        if central is not None and np.isfinite(central):
            low, high = np.quantile(np.atleast_1d(values), (0.1, 0.9))
            found[name] = Estimate(float(central), min(float(low), central), max(float(high), central), unit)
    return MappingProxyType(found)


# --- Published clusters ----------------------------------------------------------------------------------------------


def preset(name: str, **plan_options) -> Plan | Fleet:
    """Plan a published cluster, run or fleet, and set each result beside what was published of it.

    Parameters
    ----------
    name : str
        A key of ``PRESETS``.
    **plan_options
        ``world``, ``draws``, ``seed`` and ``progress`` of :func:`plan`.

    Returns
    -------
    Plan or Fleet
        With ``published``.

    Raises
    ------
    ValueError
        There is no such preset.

    Examples
    --------
    >>> {check.name: f"{check.error:+.0%}" for check in preset("SuperPOD, 256", draws=10).published}["leaf_switches"]
    '+0%'
    """
    one = find("preset", name, PRESETS)
    made: Any
    if "rate" in one.inputs:
        made = serve(*fleet_from_inputs(one.inputs), **plan_options)
    else:
        made = plan(*from_inputs(one.inputs), **plan_options)
    return replace(made, published=checks(made, one))


def checks(made: Plan | Fleet, against: Preset) -> tuple[Check, ...]:
    """Each published number beside the plan's own, with its interval."""
    found = []
    for name, value in against.published.items():
        if isinstance(made, Plan):
            unit, of_plan = METRICS[name]
            planned = float(of_plan(made.design, made.outcome))
        else:
            unit, of_fleet = FLEET_METRICS[name]
            planned = float(of_fleet(made))
        value = value / 1000 if unit == "t" else value
        one = made.intervals.get(name, Estimate(planned, planned, planned, unit))
        fact = against.facts[f"published_{name}"]
        found.append(Check(name, unit, planned, float(one.low), float(one.high), value, fact))
    return tuple(found)


# --- The shipped data ------------------------------------------------------------------------------------------------


@cache
def _document() -> dict[str, Any]:
    return tomllib.loads(stored("planner.toml"))


@cache
def _records() -> dict[str, dict[str, Any]]:
    return load({name: table for name, table in _document().items() if name != "preset"})


class _Presets(Mapping[str, Preset]):
    """The published clusters, built when the first of them is asked for."""

    @staticmethod
    @cache
    def _rows() -> dict[str, Preset]:
        return load({name: _document()[name] for name in ("sources", "preset")})["preset"]

    def __getitem__(self, name: str) -> Preset:
        return self._rows()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(_document()["preset"])

    def __len__(self) -> int:
        return len(_document()["preset"])


ASSUMPTIONS: Mapping[str, Assumption] = MappingProxyType(_records()["assumption"])
SWITCHES: Mapping[str, Switch] = MappingProxyType(_records()["switch"])
PRICES: Mapping[str, Price] = MappingProxyType(_records()["price"])
PRESETS: Mapping[str, Preset] = _Presets()
WORLD = World(**{name: one.value for name, one in ASSUMPTIONS.items()})
