r"""Plans: what to build for a model, what it will do, what it will cost, and how sure that is.

:func:`plan` takes what shall be done (:class:`Training`, :class:`Serving`) and what there is (:class:`Site`), and
decides: accelerators and their number, layout, fabric, checkpoints, spares. It decides only: each number is that of a
law of this library, and each law's result is what the next one is given. A plan carries a certificate of that
(:attr:`Plan.joints`), the interval of each result, and which assumption matters most.

A :class:`Design` is what is decided, a :class:`World` what is assumed, and an :class:`Outcome` what follows from the
two. All three may hold arrays: one call plans thousands of clusters, or one cluster in thousands of worlds. Assumptions,
switches and published clusters are data with a source each: ``data/planner.toml``, printed by ``clusterlab audit``.
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cache
from importlib.resources import files
from statistics import NormalDist
from types import MappingProxyType
from typing import Any

import numpy as np

from . import economics, failures, hardware, models, power, topology
from .economics import PRICE_LISTS, Bill, PriceList, cost_per
from .failures import Checkpoint, Estimate, Job, RunTime, SparePool
from .hardware import Fact, find, read_facts, read_rows, read_sources
from .layout import PRECISIONS, Layout, Workload
from .layout_search import axes, search
from .machine import SOFTWARE, SPREADS, Machine, machine
from .memory import model_state
from .power import EnergyFootprint, Load
from .queueing import little_law
from .speedup import critical_batch, training_run
from .training import Step, kind, step
from .transformer import Transformer, parameters, training_flops
from .units import Explained, fmt, hour, kWh, nonnegative, parse, positive, summary, whole, year

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
        return parse(match[1]) * _COUNTED[match[2]]
    return parse(amount) / _PER.get(per, 1.0)


@dataclass(frozen=True, repr=False)
class _Sourced(Explained):
    """A row of the data: values by name, each with the :class:`~clusterlab.hardware.Fact` that it rests on."""

    name: str
    facts: Mapping[str, Fact] = field(compare=False)

    def _rows(self):
        rows = [(self.name, "value", "kind", "source")]
        for key, fact in self.facts.items():
            basis = f"{fact.source.title} ({fact.note})" if fact.note else fact.source.title
            rows.append((key.replace("_", " "), str(fact.printed), fact.kind, basis))
        return rows


@dataclass(frozen=True, repr=False)
class Assumption(_Sourced):
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
class Switch(_Sourced):
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
class Price(_Sourced):
    """The list of :data:`clusterlab.economics.PRICE_LISTS` that holds for an accelerator."""

    list: str

    def __post_init__(self) -> None:
        """Refuse a list that is not there."""
        find("price list", self.list, PRICE_LISTS)


@dataclass(frozen=True, repr=False)
class Preset(_Sourced):
    """A published cluster or run: what is put into a plan, and what was published of it."""

    inputs: Mapping[str, Any]
    published: Mapping[str, float]

    def __post_init__(self) -> None:
        """Refuse inputs and results that no plan has."""
        _from_inputs(self.inputs)
        if unknown := sorted(set(self.published) - set(METRICS)):
            raise ValueError(f"unknown result {unknown[0]!r}; known: {', '.join(METRICS)}")


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
        :func:`clusterlab.hardware.load`.

    Returns
    -------
    dict
        ``{"assumption": {name: Assumption}, "switch": {name: Switch}, ...}``

    Raises
    ------
    ValueError
        With every gap found: a value without a source, an unknown or missing field, a value that cannot be one.
    """
    gaps = [f"unknown table {name!r}" for name in document if name not in ("sources", *_RECORDS)]
    sources, missing = read_sources(document)
    gaps += missing
    records: dict[str, dict[str, Any]] = {}
    for table in _RECORDS:
        records[table] = {}
        rows, missing = read_rows(document, table)
        gaps += missing
        for name, row in rows.items():
            facts, missing = read_facts(f"{table} {name}", row, sources)
            gaps += missing
            try:
                records[table][name] = _record(table, name, facts)
            except (TypeError, ValueError, OverflowError) as error:
                gaps.append(f"{table} {name}: {error}")
    if gaps:
        raise ValueError("planner data:\n" + "\n".join(gaps))
    return records


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
        critical batch of such a model at the end of its training (:func:`clusterlab.speedup.critical_batch`).
    precision : str
        As in :class:`~clusterlab.layout.Workload`.
    deadline : float, optional
        Seconds after which it must be done.

    Raises
    ------
    ValueError
        An unknown model, or what is no workload.

    Examples
    --------
    >>> Training("Llama 3.1 8B", 15e12).global_batch
    512.0
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
            object.__setattr__(self, "model", models.model(self.model))
        (tokens,) = positive(tokens=self.tokens)
        (sequence,) = whole(sequence=self.sequence)
        if self.deadline is not None:
            positive(deadline=self.deadline)
        if self.global_batch is None:
            least = critical_batch(economics.loss(parameters(self.model).active, tokens)) / sequence
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
        As in :mod:`clusterlab.hardware`. By default every accelerator with a price list of its own is tried.
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
        Of the leaves, as in :func:`clusterlab.topology.fat_tree`.
    software : str
        An era of :data:`clusterlab.machine.SOFTWARE`.

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
    gpus               64
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
            hardware.accelerator(self.accelerator)
        if self.network is not None:
            hardware.link(self.network)
        names = ("power", "rack_power", "budget", "rent", "storage_bandwidth", "memory", "server_power")
        names += ("oversubscription",)
        positive(**{n: getattr(self, n) for n in names if getattr(self, n) is not None})
        names = ("gpus", "racks", "servers_per_rack")
        whole(**{n: getattr(self, n) for n in names if getattr(self, n) is not None})
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
                rows.append((f.name.replace("_", " "), shown or summary(value, units.get(f.name, ""))))
        return rows


_AXES = ("tp", "pp", "cp", "ep", "microbatch", "chunks", "zero", "recompute")
_OF_TRAINING = ("model", "tokens", "sequence", "global_batch", "precision", "deadline")


def _from_inputs(inputs: Mapping) -> tuple[Training, Site]:
    """A workload and a site from names and values, as presets and files of inputs give them."""
    known = (*_OF_TRAINING, *_AXES, *(f.name for f in fields(Site) if f.name != "layout"))
    if unknown := sorted(set(inputs) - set(known)):
        raise ValueError(f"unknown input {unknown[0]!r}; known: {', '.join(known)}")
    if missing := [name for name in ("model", "tokens") if name not in inputs]:
        raise ValueError(f"{missing[0]} must be given")
    given = {key: str(v) if key == "software" else v for key, v in inputs.items()}
    training = Training(**{key: v for key, v in given.items() if key in _OF_TRAINING})
    layout = {key: v for key, v in given.items() if key in _AXES}
    rest = {key: v for key, v in given.items() if key not in _OF_TRAINING and key not in _AXES}
    return training, Site(**rest, layout=MappingProxyType(layout))


# --- The world: what is assumed --------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class World(Explained):
    """What a plan assumes, in SI units: each a number, or an array of as many worlds.

    ``step`` multiplies the time of a step, ``capital`` all prices of what is built. ``draw`` is mean power over rated
    power, ``spare_risk`` the share of failures that may find no spare. What each rests on is in ``ASSUMPTIONS``.
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

    def __post_init__(self) -> None:
        """Refuse what cannot be."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        zero = ("interest", "repair", "detection", "restart", "carbon_intensity", "energy_price")
        nonnegative(**{name: values[name] for name in zero})
        positive(**{name: value for name, value in values.items() if name not in zero})

    def _rows(self):
        return [("", "value"), *((f.name.replace("_", " "), summary(getattr(self, f.name))) for f in fields(self))]


def _drawn(low, high, z):
    """Multiples of a value whose 80 % interval is from low to high times it: normal in the logarithm on each side."""
    tenth = NormalDist().inv_cdf(0.9)
    return np.exp(np.where(z < 0, -z * np.log(low), z * np.log(high)) / tenth)


def worlds(world: World, draws: int, *, step_kind: str = "dense, 16 bits", seed: int = 0) -> World:
    """Draw worlds: every assumption that has an interval, independently, and how far a step is off.

    Parameters
    ----------
    world : World
        The central one.
    draws : int
        Worlds to draw.
    step_kind : str
        Key of :data:`clusterlab.machine.SPREADS`.
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
        changed[name] = getattr(world, name) * times
    changed["draw"] = np.minimum(changed["draw"], 1.0)
    changed["pue"] = np.maximum(changed["pue"], 1.0)
    changed["utilisation"] = np.minimum(changed["utilisation"], 1.0)
    return replace(world, **changed)


def _spreads(step_kind: str) -> dict[str, tuple[float, float]]:
    """Ends of the 80 % interval of each uncertain assumption, in multiples of its value."""
    step_spread = find("kind of step", step_kind, SPREADS)
    spreads = {"step": (step_spread.low, step_spread.high)}
    for name, one in ASSUMPTIONS.items():
        if one.low is not None:
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
        rows += [(name.replace("_", " "), summary(getattr(self, name))) for name in names]
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
    accelerator = hardware.accelerator(chips.name)
    if str(accelerator.scale_up_link).startswith("ICI"):
        sizes = [_torus_sizes(int(n)) for n in gpus.ravel()]
        found = [topology.torus(one) for one in sizes]
        links = np.array([one.links for one in found], float).reshape(gpus.shape)[()]
        ways = np.array([2.0 * len(one) for one in sizes]).reshape(gpus.shape)
        cut = np.array([one.bisection_links for one in found], float).reshape(gpus.shape)
        nothing = 0.0 * links
        through = np.asarray(topology.bisection_bandwidth(cut, chips.scale_up_bandwidth / ways))[()]
        optics = 2 * links
        return Fabric("torus", gpus[()], nothing, nothing, nothing, links, nothing, nothing, optics, through, nothing)
    named = str(site.network or "")
    fitting = [s for s in SWITCHES.values() if s.port == chips.network_bandwidth]
    fitting = [s for s in fitting if not named or named.startswith(s.link)]
    if not fitting:
        known = ", ".join(f"{s.name} of {fmt(s.port, 'B/s')}" for s in SWITCHES.values())
        raise ValueError(f"network must have a switch on record, got {fmt(chips.network_bandwidth, 'B/s')}; {known}")
    options = []
    for switch in fitting:
        ratio = _possible_ratio(switch.ports, site.oversubscription)
        most = topology.fat_tree_capacity(switch.ports, tiers=3, oversubscription=ratio)
        tree = topology.fat_tree(np.minimum(hosts, most), switch.ports, oversubscription=ratio)
        watts = np.where(hosts <= most, np.asarray(tree.switches) * switch.power, np.inf)
        options.append((switch, tree, watts))
    least = np.argmin([watts for *_, watts in options], axis=0)

    def taken(get: Callable):
        return np.choose(least, [np.broadcast_to(get(*one), hosts.shape) for one in options]).astype(float)[()]

    watts = taken(lambda _, __, watts: watts)
    columns = [taken(lambda _, tree, __, n=n: getattr(tree, n)) for n in ("leaves", "spines", "cores")]
    columns += [taken(lambda _, t, __, n=n: getattr(t, n)) for n in ("host_cables", "spine_cables", "core_cables")]
    names = np.array([switch.name for switch, *_ in options])[least]
    half = hosts / 2  # of the cut of a full fabric as much as there are hosts
    full = taken(lambda s, t, _: np.minimum(topology.bisection_bandwidth(t.bisection_links, s.port), half * s.port))
    optics = taken(lambda _, tree, __: tree.transceivers)
    name = str(names) if not np.ndim(names) else names
    return Fabric(name, hosts[()], *columns, optics, full, watts)


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

    def _rows(self):
        layout = ", ".join(f"{name} {value}" for name, value, *_ in self.layout._rows()[1:-1])
        rows = [("", "value"), ("accelerator", self.accelerator), ("GPUs", summary(self.gpus)), ("layout", layout)]
        rows += [("servers", summary(self.servers)), ("spare servers", summary(self.spares))]
        rows += [("racks", summary(self.racks)), ("switches", f"{summary(self.fabric.switches)} {self.fabric.name}")]
        rows += [("cables", summary(self.fabric.cables)), ("storage", summary(self.storage_bandwidth, "B/s"))]
        rows += [("checkpoint", summary(self.checkpoint.size, "B")), ("every", summary(self.interval, "s"))]
        return [*rows, ("step", summary(self.step.time, "s")), ("MFU", summary(self.step.mfu, "%"))]


def _server(name: str, site: Site, world: World) -> tuple[float, float, float, bool]:
    """Accelerators of a server, its rated watts, accelerators of a rack that is sold as one (0: none), and liquid."""
    records = [one for one in (*hardware.nodes(), *hardware.racks()) if one.accelerator == name]
    chip = hardware.accelerator(name)
    record = next((one for one in records if one.power), records[0] if records else None)
    torus = str(chip.scale_up_link).startswith("ICI")
    count = float(record.accelerators) if record else (4.0 if torus else 8.0)  # a host of a TPU pod has four chips
    rack = count if isinstance(record, hardware.Rack) else 0.0
    each = site.server_power
    if each is None and record and record.power:
        each = record.power / record.accelerators
    if each is None and chip.tdp:
        each = chip.tdp * float(np.mean(world.server_overhead))
    if each is None:
        raise ValueError(f"server_power must be given: no datasheet has the rating of {name}")
    if isinstance(record, hardware.Rack):
        count = count / float(record.nodes or 1)
    return count, each * count, rack, bool(rack)


def _spare_servers(servers, node_mtbf, world: World):
    """The fewest spares with which no more failures than ``spare_risk`` find none, by bisection."""
    servers = np.asarray(servers, float)
    about = {"nodes": servers, "node_mtbf": node_mtbf, "repair": world.repair}
    low = np.full(servers.shape, -1.0)  # too few
    load = failures.spare_pool(0, **about).load
    high = np.ceil(load + 8 * np.sqrt(load) + 8)
    while np.any(high - low > 1):
        middle = np.maximum(np.floor((low + high) / 2), 0.0)
        enough = failures.spare_pool(middle, **about).none_left <= world.spare_risk
        low, high = np.where(enough, low, middle), np.where(enough, middle, high)
    return high[()]


def design(training: Training, site: Site, chips: Machine, layout: Layout, *, world: World | None = None) -> Design:
    """Decide everything but the layout: spares, racks, fabric, storage and checkpoints, in a central world.

    Parameters
    ----------
    training : Training
        The model and its tokens.
    site : Site
        What is fixed.
    chips : Machine
        From :func:`clusterlab.machine.machine`.
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
    >>> chips = machine("H100 SXM")
    >>> made = design(Training("Llama 3.1 405B", 15.6e12), Site(), chips, Layout(tp=8, pp=16, dp=128, chunks=8))
    >>> made.servers, made.spares, made.fabric.name
    (2048.0, 26.0, 'QM9700')
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
    if rack:
        in_rack = rack / per_server
    else:
        in_rack = float(site.servers_per_rack or max(world.servers_per_rack * 8 // per_server, 1))
        if site.rack_power is not None:
            in_rack = np.minimum(in_rack, power.capacity(power=(site.rack_power, watts)).count)
    with np.errstate(divide="ignore"):
        racks = np.ceil((servers + spares) / in_rack)
    if rack and site.rack_power is not None and site.rack_power < watts * in_rack:
        racks = np.inf * racks
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
        racks=racks[()],
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
    """What a design does in a world. ``load`` and ``site`` are rated watts, ``mean_power`` those at the meter."""

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
        rows = [("", "value"), ("time", summary(self.time, "s")), ("useful", summary(self.run.goodput, "%"))]
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
    >>> chips = machine("H100 SXM")
    >>> made = design(Training("Llama 3.1 405B", 15.6e12), Site(), chips, Layout(tp=8, pp=16, dp=128, chunks=8))
    >>> fmt(outcome(made).time, "s"), fmt(outcome(made).run.goodput, "%", 2)
    ('69.6 d', '93%')
    """
    world = WORLD if world is None else world
    training, site = made.training, made.site
    work = training.steps * made.step.time * world.step
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
    run = failures.expected_run_time(work, job)
    chip = hardware.accelerator(made.accelerator)
    rated: dict[str, Any] = {"servers": made.server_power / made.per_server}
    if chip.tdp and chip.tdp < rated["servers"]:
        rated = {"accelerators": chip.tdp, "rest of servers": rated["servers"] - chip.tdp}
    it = power.load(**{name: (made.hosts, watts) for name, watts in rated.items()}, switches=made.fabric.power)
    whole_site = power.facility(it, world.pue)
    used = power.energy_footprint(
        world.draw * it.total,
        run.total,
        pue=world.pue,
        price=world.energy_price,
        carbon_intensity=world.carbon_intensity,
    )
    rise, fluid = (world.water_rise, power.WATER) if made.liquid else (world.air_rise, power.AIR)
    capital, bill = _money(made, world, whole_site.total, run.total)
    return Outcome(
        work=work,
        mtbf=mtbf,
        pool=pool,
        job=job,
        run=run,
        failures=run.detection / world.detection if np.all(world.detection) else run.total / mtbf,
        load=it,
        site=whole_site,
        mean_power=world.draw * whole_site.total,
        coolant=power.coolant_flow(it.total, rise, fluid),
        energy=used,
        capital=capital,
        bill=bill,
    )


_BUILT = ("gpus", "servers", "network", "storage", "generators", "electrical", "building")


def _money(made: Design, world: World, watts, time) -> tuple[Bill | None, Bill | None]:
    """What it costs to build, and what the run costs: rent, or the share of each year that it takes."""
    if made.site.rent is not None:
        return None, economics.bill(rent=made.gpus * time * made.site.rent)
    if made.prices is None:
        return None, None
    scaled = {name: getattr(made.prices, name) for name in _BUILT}
    scaled = {name: world.capital * price for name, price in scaled.items() if price is not None}
    prices = replace(made.prices, **scaled, energy=world.energy_price)
    a_year = economics.yearly_bill(
        made.hosts, watts, prices, rate=world.interest, life=world.life, load_factor=world.draw
    )
    return economics.capital(made.hosts, watts, prices), time / year * a_year


METRICS: Mapping[str, tuple[str, Callable[[Design, Outcome], Any]]] = MappingProxyType(
    {
        "step_time": ("s", lambda d, o: o.work / d.training.steps),
        "mfu": ("%", lambda d, o: d.step.mfu * d.step.time * d.training.steps / o.work),
        "time": ("s", lambda d, o: o.time),
        "effective_time": ("%", lambda d, o: o.run.goodput),
        "interruptions": ("", lambda d, o: o.failures),
        "interruptions_per_day": ("", lambda d, o: 86400 / o.mtbf),
        "gpu_hours": ("", lambda d, o: d.gpus * o.time / hour),
        "cost": ("$", lambda d, o: o.cost),
        "capital": ("$", lambda d, o: np.nan * o.time if o.capital is None else o.capital.total),
        "site_power": ("W", lambda d, o: o.site.total),
        "mean_power": ("W", lambda d, o: o.mean_power),
        "server_power": ("W", lambda d, o: d.hosts * d.server_power / d.per_server),
        "energy": ("MWh", lambda d, o: o.energy.energy),
        "carbon": ("t", lambda d, o: o.energy.carbon / 1000),
        "chip_carbon": ("t", lambda d, o: _chip_carbon(d, o) / 1000),
        "gpus": ("", lambda d, o: d.gpus),
        "peak": ("FLOP/s", lambda d, o: d.gpus * d.step.peak),
        "racks": ("", lambda d, o: d.racks),
        "leaf_switches": ("", lambda d, o: d.fabric.leaves),
        "spine_switches": ("", lambda d, o: d.fabric.spines),
        "core_switches": ("", lambda d, o: d.fabric.cores),
        "host_cables": ("", lambda d, o: d.fabric.host_cables),
        "spine_cables": ("", lambda d, o: d.fabric.spine_cables),
        "core_cables": ("", lambda d, o: d.fabric.core_cables),
        "cables": ("", lambda d, o: d.fabric.cables),
        "transceivers": ("", lambda d, o: d.fabric.transceivers),
        "bisection": ("B/s", lambda d, o: d.fabric.bisection),
        "storage_bandwidth": ("B/s", lambda d, o: d.storage_bandwidth),
    }
)
_UNCERTAIN = ("step_time", "mfu", "time", "effective_time", "interruptions", "gpu_hours", "cost", "capital")
_UNCERTAIN += ("site_power", "mean_power", "energy", "carbon")


def _chip_carbon(made: Design, done: Outcome):
    """Carbon of the accelerators alone at their rating, as model cards count it."""
    tdp = hardware.accelerator(made.accelerator).tdp or np.nan
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
        rows = [("", "value"), ("left", summary(self.left, self.unit)), ("right", summary(self.right, self.unit))]
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
    budget = training_run(flops, made.gpus, peak=timed.peak, efficiency=timed.mfu / slower, goodput=run.goodput)
    software = SOFTWARE[made.site.software]
    kept = {"weight_bytes": software.weight_bytes, "optimizer_bytes": software.optimizer_bytes}
    shards = made.layout.dp * made.layout.cp
    each = model_state(parameters(model).total, shards=shards, zero=3, **kept)  # of every rank that shares
    up = run.total - run.detection - run.repair - run.maintenance
    fluid, rise = (power.WATER, world.water_rise) if made.liquid else (power.AIR, world.air_rise)
    tokens_per_second = workload.tokens / (timed.time * slower * made.gpus)
    of_servers = done.load.total - done.load.parts["switches"]
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
        Joint("GPUs of servers and spares = ends of the fabric", _ends(made), made.fabric.ends, ""),
        Joint("watts of servers = GPUs x rating", of_servers, made.hosts * made.server_power / made.per_server, "W"),
        Joint("watts of IT = heat removed", done.load.total, power.heat_removed(done.coolant, rise, fluid), "W"),
        Joint("watts at the meter = joules / time", done.mean_power, done.energy.energy / run.total, "W"),
    ]
    if done.bill is not None:
        a_token = cost_per(done.cost / (run.total * made.gpus), tokens_per_second, utilisation=run.goodput)
        joints.append(Joint("dollars of the run = tokens x $", done.cost, a_token * workload.tokens * steps, "$"))
        if "energy" in done.bill.parts:
            joints.append(Joint("dollars for energy = joules x $", done.bill.parts["energy"], done.energy.cost, "$"))
    if done.capital is not None and made.prices is not None:
        price = made.prices.network * world.capital
        joints.append(Joint("GPUs paid for = GPUs built", done.capital.parts["network"] / price, made.hosts, ""))
    return tuple(joints)


def _ends(made: Design):
    return made.gpus if made.fabric.name is not None and np.all(np.equal(made.fabric.name, "torus")) else made.hosts


def _drain(made: Design):
    return made.checkpoint.size / made.checkpoint.lag


# --- The plan --------------------------------------------------------------------------------------------------------


class Infeasible(ValueError):
    """No plan keeps within the limits; the message says which limit would have to move, and to where."""


@dataclass(frozen=True, repr=False)
class Point(Explained):
    """One of the plans that are worth a choice: none is both faster and cheaper."""

    accelerator: str
    gpus: float
    time: float
    cost: float
    power: float
    racks: float

    def _rows(self):
        units = {"time": "s", "cost": "$", "power": "W"}
        names = [f.name for f in fields(self)][1:]
        return [("", self.accelerator), *((n, summary(getattr(self, n), units.get(n, ""))) for n in names)]


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
        rows = [(self.name, "value"), ("limit", summary(self.limit, self.dimension))]
        rows.append(("one more", summary(self.unit, self.dimension)))
        units = {"gpus": "", "time": "s", "cost": "$"}
        return rows + [(f"adds {n}", summary(getattr(self, n), units[n])) for n in units]


@dataclass(frozen=True, repr=False)
class Swing(Explained):
    """What an assumption alone does to a plan when it goes from one end of its interval to the other."""

    name: str
    low: float
    high: float
    time: tuple[float, float]
    cost: tuple[float, float]

    def _rows(self):
        rows = [(self.name, "low", "high"), ("assumption", summary(self.low), summary(self.high))]
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

    def _rows(self):
        rows = [(self.name, "value"), ("planned", summary(self.planned, self.unit))]
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

    def _rows(self):
        rows = [("", "value", "1 in 10 below", "1 in 10 above")]
        made = [(name, *value, "", "") for name, *value in self.design._rows()[1:] if name not in ("step", "MFU")]
        rows += [(name, str(value), "", "") for name, value, *_ in made]
        for name, one in self.intervals.items():
            shown = (summary(x, one.unit) for x in (one.value, one.low, one.high))
            rows.append((name.replace("_", " ").replace("mfu", "MFU").replace("gpu", "GPU"), *shown))
        rows.append(("binds", self.binding.name, "", ""))
        good = sum(joint.holds for joint in self.joints)
        return [*rows, ("joints that hold", f"{good} of {len(self.joints)}", "", "")]


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
        for j, size in enumerate(sizes):
            if progress:
                progress((i + j / len(sizes)) / len(names), f"{size:,} {name}")
            layout = _best_layout(training, site, chips, size, fixed)
            best += [layout] if layout else []
        if best:
            columns: dict[str, Any] = {f.name: [getattr(one, f.name) for one in best] for f in fields(Layout)}
            columns |= {name: columns[name][0] for name in ("etp", "shard_group", "sequence_parallel")}
            yield design(training, site, chips, Layout(**columns), world=world)


def _own(price: Price) -> bool:
    """Whether a price list is that of the accelerator, and not of a similar one."""
    return price.facts["list"].kind == "specified"


def _sizes(training: Training, site: Site, chips: Machine, world: World) -> list[int]:
    """Numbers of accelerators that are worth a search: from what can hold the model to what the limits allow."""
    _, watts, *_ = _server(chips.name, site, world)
    per_server, *_ = _server(chips.name, site, world)
    most = float(min(_MOST_GPUS, training.workload.global_batch * 8 * 16))
    if site.power is not None:
        most = min(most, site.power / float(world.pue) / (watts / per_server))
    state = 6 * parameters(training.model).total  # weights and gradients, the optimizer's state shared out
    least = state / chips.hbm_capacity
    return [n for n in _COUNTS if least <= n <= most]


def _best_layout(training: Training, site: Site, chips: Machine, size: int, fixed: Mapping) -> Layout | None:
    """The fastest layout of so many accelerators, or None where none can run."""
    usual = axes(training.model, chips, training.workload, gpus=size)
    some = {"chunks": [1, 2, 4, 8], "zero": [1, 3], "microbatch": [1, 2, 4]}
    some |= {"cp": [c for c in usual["cp"] if c == 1 or training.sequence / c >= 4096]}
    some["microbatch"] = [b for b in some["microbatch"] if b in usual["microbatch"]]
    software = SOFTWARE[site.software]
    try:
        values = some | dict(fixed)
        found = search(
            training.model,
            chips,
            training.workload,
            gpus=size,
            software=software,
            capacity=site.memory,
            values=values,
        )
    except MemoryError:
        return None
    return found.best() if found.memory.size else None


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
        What is assumed; :data:`WORLD` by default.
    draws, seed : int
        Worlds that are drawn for the intervals, and the seed of their random numbers.
    progress : callable, optional
        Called with the share of the search that is done, and what is looked at.

    Returns
    -------
    Plan

    Raises
    ------
    Infeasible
        No plan keeps within the limits. The message says the nearest that does.
    ValueError
        There is no limit at all, or an argument cannot be used.

    Examples
    --------
    >>> made = plan(Training("Llama 3.1 8B", 1e12, global_batch=512), Site("H100 SXM", gpus=512))
    >>> made.holds, fmt(made.outcome.time, "s"), made.binding.name
    (True, '9.5 d', 'gpus')
    """
    world = WORLD if world is None else world
    limits = _limits(training, site)
    if not limits and site.gpus is None:
        raise ValueError("give at least one of gpus, deadline, budget, power and racks: without a limit no plan is best")
    if "budget" in limits and site.rent is None and site.accelerator and site.accelerator not in PRICES:
        raise ValueError(f"budget needs a rent: no price list is on record for {site.accelerator}")
    groups = list(_candidates(training, site, world, progress))
    if not groups:
        raise Infeasible(_does_not_fit(training, site))
    table = _table(groups, world)
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
        front=_front(table, limits, site, groups),
        binding=_binding(table, chosen, limits, site),
        considered=len(table["time"]),
    )


def _does_not_fit(training: Training, site: Site) -> str:
    """Why not one layout runs, and the fewest accelerators with which one does."""
    name = site.accelerator or next(n for n, one in PRICES.items() if _own(one))
    chips, fixed = machine(name, network=site.network), {n: [v] for n, v in site.layout.items()}
    what = f"{training.model.name} on {summary(site.gpus)} {name}" if site.gpus else f"{training.model.name} on {name}"
    more = [n for n in _COUNTS if site.gpus is None or n > site.gpus]
    nearest = next((n for n in more if _best_layout(training, site, chips, n, fixed)), None)
    if nearest:
        return f"no layout of {what} fits and divides the batch; the nearest that does: gpus {nearest:,}"
    if fixed:
        given = ", ".join(f"{n} {v[0]}" for n, v in fixed.items())
        return f"no layout of {what} fits with {given} fixed; leave some of them free"
    return f"no layout of {what} fits, with any number of GPUs up to {_MOST_GPUS:,}; take one with more memory"


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
    if not columns:
        raise Infeasible("failures come faster than any plan can save its work: gpu_mttf must be longer")
    table = {name: np.concatenate(column) for name, column in columns.items()}
    table["cost"] = np.where(np.isnan(table["cost"]), np.inf, table["cost"])
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
    ways = []
    for name in limits:
        others = _within(table, {n: v for n, v in limits.items() if n != name}, site)
        if np.any(others):
            column, _, unit = _LIMITS[name]
            ways.append(f"{name} {fmt(np.min(table[column][others]), unit)} in place of {fmt(limits[name], unit)}")
    if site.gpus is not None:
        free = _within(table, limits, replace(site, gpus=None))
        if np.any(free):
            ways.append(f"gpus {np.min(table['gpus'][free]):,.0f}")
    if ways:
        raise Infeasible(f"no plan keeps within {_said(limits, site)}; each of these alone would do: {'; '.join(ways)}")
    anyhow = _within(table, {}, site)
    if not np.any(anyhow):
        rack = f" within racks of {fmt(site.rack_power, 'W')}" if site.rack_power else ""
        count = f"{site.gpus:,.0f} " if site.gpus else ""
        raise Infeasible(f"nothing runs{rack}: no switch, rack or layout holds {count}accelerators of this kind")
    ratio = np.max([table[_LIMITS[n][0]] / v for n, v in limits.items()], axis=0)
    near = int(np.argmin(np.where(anyhow, ratio, np.inf)))
    parts = [
        f"{n} {fmt(table[_LIMITS[n][0]][near], _LIMITS[n][2])}"
        for n, v in limits.items()
        if table[_LIMITS[n][0]][near] > v
    ]
    raise Infeasible(f"no plan keeps within {_said(limits, site)}; the nearest needs all of: {', '.join(parts)}")


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
            gains[name] = table["time"][chosen] / table["time"][best] + table["cost"][chosen] / table["cost"][best]
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
    of_cost = math.log(costs[1] / costs[0]) / across if np.all(np.isfinite(costs)) else 0.0
    return of_time, of_cost


def _front(table: Mapping, limits: Mapping[str, float], site: Site, groups: list[Design]) -> tuple[Point, ...]:
    """Plans within the limits of which none is both faster and cheaper, the fastest first."""
    good = np.flatnonzero(_within(table, limits, site))
    order = good[np.lexsort((table["cost"][good], table["time"][good]))]
    front, least = [], np.inf
    for i in order:
        if not front or table["cost"][i] < least:
            least = table["cost"][i]
            numbers = (float(table[name][i]) for name in ("gpus", "time", "cost", "site_power", "racks"))
            front.append(Point(groups[int(table["group"][i])].accelerator, *numbers))
    return tuple(front)


def _intervals(made: Design, done: Outcome, drawn: Outcome) -> Mapping[str, Estimate]:
    """The central value of each uncertain result, and between which values eight of ten drawn worlds have it."""
    found = {}
    for name in _UNCERTAIN:
        unit, get = METRICS[name]
        central, values = float(get(made, done)), np.asarray(get(made, drawn))
        if np.isfinite(central):
            low, high = np.quantile(values, (0.1, 0.9)) if values.ndim else (central, central)
            found[name] = Estimate(central, min(float(low), central), max(float(high), central), unit)
    return MappingProxyType(found)


def _tornado(made: Design, world: World, step_kind: str) -> tuple[Swing, ...]:
    """Each uncertain assumption moved alone from one end of its interval to the other, what moves the cost most first."""
    bars = []
    for name, times in _spreads(step_kind).items():
        central = getattr(world, name)
        ends = [central * one for one in times]
        if name in ("draw", "utilisation"):
            ends = [min(end, 1.0) for end in ends]
        moved = [outcome(made, replace(world, **{name: end})) for end in ends]
        times_, costs = (tuple(float(get(one)) for one in moved) for get in (lambda o: o.time, lambda o: o.cost))
        if times_[0] != times_[1] or costs[0] != costs[1]:
            bars.append(Swing(name, ends[0], ends[1], (times_[0], times_[1]), (costs[0], costs[1])))
    paid = made.prices is not None or made.site.rent is not None

    def width(bar: Swing) -> float:
        low, high = bar.cost if paid else bar.time
        return abs(math.log(high / low))

    return tuple(sorted(bars, key=width, reverse=True))


# --- Published clusters ----------------------------------------------------------------------------------------------


def preset(name: str, **plan_options) -> Plan:
    """Plan a published cluster or run, and set each result beside what was published of it.

    Parameters
    ----------
    name : str
        A key of ``PRESETS``.
    **plan_options
        ``world``, ``draws``, ``seed`` and ``progress`` of :func:`plan`.

    Returns
    -------
    Plan
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
    made = plan(*_from_inputs(one.inputs), **plan_options)
    return replace(made, published=checks(made, one))


def checks(made: Plan, against: Preset) -> tuple[Check, ...]:
    """Each published number beside the plan's own, with its interval."""
    found = []
    for name, value in against.published.items():
        unit, get = METRICS[name]
        value = value / 1000 if unit == "t" else value
        planned = float(get(made.design, made.outcome))
        one = made.intervals.get(name, Estimate(planned, planned, planned, unit))
        fact = against.facts[f"published_{name}"]
        found.append(Check(name, unit, planned, float(one.low), float(one.high), value, fact))
    return tuple(found)


# --- The shipped data ------------------------------------------------------------------------------------------------


@cache
def _records() -> dict[str, dict[str, Any]]:
    return load(tomllib.loads((files(__package__) / "data" / "planner.toml").read_text(encoding="utf-8")))


ASSUMPTIONS: Mapping[str, Assumption] = MappingProxyType(_records()["assumption"])
SWITCHES: Mapping[str, Switch] = MappingProxyType(_records()["switch"])
PRICES: Mapping[str, Price] = MappingProxyType(_records()["price"])
PRESETS: Mapping[str, Preset] = MappingProxyType(_records()["preset"])
WORLD = World(**{name: one.value for name, one in ASSUMPTIONS.items()})
