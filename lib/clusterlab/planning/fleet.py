"""A fleet that serves: which replicas, how many, with how many spares, in which hall; for a year.

:func:`serve` takes what users are promised and what there is, and decides: accelerators, layout and batch of a replica,
replicas, spares. It decides only; what a replica gives is that of :mod:`clusterlab.serving`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, partial
from types import MappingProxyType
from typing import ClassVar, NamedTuple

import numpy as np

from .. import scaling
from ..catalogue import Machine
from ..failures import Estimate
from ..model import Layout
from ..quantities import Amount, Count, Dollars, Number, Share
from ..records import Rows, words
from ..scaling import cost_per
from ..serving import Frontier, Replica, Service, disaggregate, frontier
from ..units import day, fmt, year
from .building import Building, Supply, build, fabric, machine_of, server_of, supply
from .result import (
    Binding,
    InfeasibleError,
    Point,
    Result,
    Sensitivity,
    counted,
    ends,
    intervals,
    sensitivities,
    undominated,
)
from .scenario import CENTRAL, Scenario, Serving, Site, samples


@dataclass(frozen=True, repr=False, kw_only=True)
class Fleet(Building, Supply, Result):
    """Replicas that serve a model, in a hall, for a year: what is decided and what follows.

    ``replicas`` carry the load at its peak with ``utilisation`` of what they can; ``spare_replicas`` are for those in
    repair. ``place`` is what there is, ``site`` the rated power at the meter. A scenario in which passes are slower
    has more replicas for the same load, so counts and costs have intervals. ``speed`` is that of a full replica.
    """

    serving: Serving
    place: Site
    service: Service
    replicas: Amount
    spare_replicas: Amount
    part: Callable[[], float] = field(default_factory=lambda: lambda: np.nan, compare=False)

    timed: ClassVar[str] = "a token takes"
    billed: ClassVar[str] = "a year costs"

    @property
    def results(self) -> Mapping[str, tuple[str, float]]:
        """Everything that is to be built, and what comes of it: unit and value, by name."""
        return MappingProxyType({name: (unit, float(of(self))) for name, (unit, of) in FLEET_METRICS.items()})

    @property
    def central(self) -> tuple[float, float]:
        """Time of a token, and the cost of a year."""
        return float(self.service.time_per_token), float(self.cost)

    @property
    def gpus(self) -> Amount:
        """Accelerators of the replicas that work."""
        return self.replicas * self.service.gpus

    @cached_property
    def apart(self) -> float:
        """Accelerators if some only read prompts and the others only decode: an estimate, which is not laid out.

        The replicas of this fleet do both in one pass, so a prompt that is read slows everybody down, and a faster
        promise costs more than in proportion.
        """
        return self.part()

    @property
    def busy(self) -> Amount:
        """Load at the peak over what the replicas can carry."""
        return self.serving.tokens_per_second / (self.replicas * self.service.tokens_per_second)

    @property
    def token_cost(self) -> Dollars:
        """For a token of an answer, if the peak lasted all year; NaN where no price is known."""
        if self.bill is None:
            return np.nan
        return cost_per(self.cost / (year * self.gpus), self.service.tokens_per_second_per_gpu, utilisation=self.busy)

    def _rows(self) -> Rows:
        axes_of = [(name, value) for name, value, *_ in self.layout._rows()[1:-1] if name != "zero"]
        layout = ", ".join(f"{name} {value}" for name, value in axes_of if (name, value) != ("etp", "1"))
        rows = [
            ("", "value"),
            ("accelerator", self.accelerator),
            *((words(name), self.intervals[name].with_interval) for name in _COUNTS if name in self.intervals),
            ("GPUs, prompts apart", counted(np.ceil(self.apart)) if np.isfinite(self.apart) else "no such replica"),
            ("spare replicas", counted(self.spare_replicas)),
            ("layout", layout or "one GPU"),
            ("sequences of a replica", counted(self.service.sequences)),
            ("racks", counted(self.racks)),
            ("switches", f"{counted(self.fabric.switches)} {self.fabric.name}"),
        ]
        said = {"speed": "speed, replicas full", "first_token": "first token, no queue"}
        others = {name: one for name, one in self.intervals.items() if name not in _COUNTS}
        rows += [(said.get(name, words(name)), one.with_interval) for name, one in others.items()]
        return rows + ([("binds", words(self.binding.name))] if self.binding else [])


def serve(
    asked: Serving,
    site: Site,
    *,
    scenario: Scenario | None = None,
    draws: Count = 1000,
    seed: int = 0,
    progress: Callable[[float, str], None] | None = None,
) -> Fleet:
    """Plan a fleet that serves a model: accelerators, layout of a replica, batch, replicas, spares, power and money.

    Parameters
    ----------
    asked
        What is served, and what users are promised.
    site
        As in :func:`plan`; ``budget`` is for a year. Axes of the layout are not fixed but searched.
    scenario, draws, seed, progress
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
    >>> float(fleet.service.speed) > 30
    True
    """
    scenario = CENTRAL if scenario is None else scenario
    promise, found = Promise.of(asked), list(_frontiers(asked, site, progress))
    fleets = [fleet for chips, front in found if (fleet := _cheapest(asked, site, chips, front, scenario))]
    if not fleets:
        raise _no_promise(asked, [front.service for _, front in found])
    good = _within(fleets, site, scenario)
    chosen = min(good, key=lambda one: (one.cost if np.isfinite(one.cost) else np.inf, one.gpus))
    step_kind = "serving: saturated, experts" if asked.model.experts else "serving: saturated, dense"
    drawn = samples(scenario, draws, step_kind=step_kind, seed=seed)
    alike = [front.service for chips, front in found if chips.name == chosen.accelerator]
    return replace(
        chosen,
        intervals=_intervals(chosen, scenario, drawn),
        binding=_binding(chosen, promise, alike),
        weigh=partial(_sensitivities, chosen, scenario, step_kind),
        rank=partial(_front, good, scenario, drawn),
        part=partial(_apart, asked, replace(site, accelerator=chosen.accelerator), scenario),
    )


# --- What a replica can promise --------------------------------------------------------------------------------------

_REPLICAS = (1, 2, 4, 8, 16, 32, 64)  # accelerators of a replica that are tried


class Promise(NamedTuple):
    """What every user is promised: tokens a second at least, and seconds to the first token at most."""

    speed: float
    first_token: float

    @classmethod
    def of(cls, asked: Serving) -> Promise:
        """What is asked; a first token that nobody asks for may take as long as it likes."""
        return cls(asked.speed, np.inf if asked.first_token is None else asked.first_token)

    def kept(self, service: Service) -> np.ndarray:
        """Which layouts and batches keep it."""
        return (service.speed >= self.speed) & (service.time_to_first_token <= self.first_token)

    def most(self, services: list[Service]) -> float:
        """Tokens/s of an accelerator that keeps it, at most; 0 where none does."""
        each = (np.max(one.tokens_per_second_per_gpu[self.kept(one)], initial=0.0) for one in services)
        return float(max(each))


def _frontiers(
    asked: Serving, site: Site, progress: Callable[[float, str], None] | None
) -> Iterator[tuple[Machine, Frontier]]:
    """Every layout and batch of each accelerator and size of replica on which the model fits."""
    names = site.accelerators
    for i, name in enumerate(names):
        chips = machine_of(name, site)
        replica = Replica(asked.model, chips, formats=asked.formats)
        for j, size in enumerate(_REPLICAS):
            if progress:
                progress((i + j / len(_REPLICAS)) / len(names), f"replicas of {size} {name}")
            try:
                front = frontier(replica, asked.requests, gpus=size)
            except ValueError:  # nothing fits; whatever else is wrong, asked and replica have refused before
                continue
            yield chips, front


def _cheapest(asked: Serving, site: Site, chips: Machine, front: Frontier, scenario: Scenario) -> Fleet | None:
    """The fleet of the layout and batch that yields most and keeps the promise; None where none does."""
    service = front.service
    kept = Promise.of(asked).kept(service)
    if not np.any(kept):
        return None
    best = int(np.argmax(np.where(kept, service.tokens_per_second_per_gpu, -1.0)))
    one = replace(service, **{f.name: float(getattr(service, f.name)[best]) for f in fields(service)})
    return fleet_of(asked, site, chips, front.layouts[best], one, scenario)


def _no_promise(asked: Serving, services: list[Service]) -> InfeasibleError:
    """Why no replica keeps the promise, and the nearest that one could keep."""
    if not services:
        return InfeasibleError(f"{asked.model.name} fits on no replica of up to {_REPLICAS[-1]} accelerators")
    promise, within = Promise.of(asked), f"a first token within {fmt(asked.first_token or 0.0, 's')}"
    fastest = max(
        float(np.max(one.speed[one.time_to_first_token <= promise.first_token], initial=0.0)) for one in services
    )
    if fastest:
        first = f" with {within}" if asked.first_token else ""
        why = f"no replica gives each user {asked.speed:g} tokens/s{first}; the nearest that does: speed {fastest:.3g}"
        return InfeasibleError(why, {"speed": fastest})
    soonest = min(
        float(np.min(np.asarray(one.time_to_first_token)[one.speed >= promise.speed], initial=np.inf))
        for one in services
    )
    if not np.isfinite(soonest):
        return InfeasibleError(f"no replica has {within}, or gives each user {asked.speed:g} tokens/s")
    why = f"no replica has {within}; the nearest that does: {fmt(soonest, 's')}"
    return InfeasibleError(why, {"first_token": soonest})


def _apart(asked: Serving, site: Site, scenario: Scenario) -> float:
    """Accelerators if some only read prompts and the others only decode; NaN where none decodes so fast."""

    def most(one: Serving, promise: Promise) -> float:
        return promise.most([front.service for _, front in _frontiers(one, site, None)])

    decodes = most(replace(asked, cached=1.0), Promise(asked.speed, np.inf)) / asked.output
    if not asked.requests.read or not decodes:
        return np.nan
    # A batch that ends with its first token only reads.
    reads = most(replace(asked, output=1.0), Promise(0.0, Promise.of(asked).first_token))
    if not reads:
        return np.nan
    return asked.rate / scenario.utilisation / float(disaggregate(reads, decodes).requests_per_second)


# --- The fleet in its hall -------------------------------------------------------------------------------------------


def fleet_of(asked: Serving, site: Site, chips: Machine, layout: Layout, service: Service, scenario: Scenario) -> Fleet:
    """Replicas for the peak, spares for those in repair, and the hall."""
    replicas = float(_needed(asked, service, scenario))
    gpus = replicas * service.gpus
    fabric(gpus, gpus, chips, site)  # refuses more than any switch joins
    spares = _spares(replicas, service, site, scenario)
    hall = _hall(chips, layout, (replicas + spares) * service.gpus, site, scenario)
    supplied = supply(hall, gpus=gpus, rent=site.rent, time=year, scenario=scenario)
    return Fleet(
        **vars(hall),
        **vars(supplied),
        serving=asked,
        place=site,
        service=service,
        replicas=replicas,
        spare_replicas=spares,
    )


def _needed(asked: Serving, service: Service, scenario: Scenario) -> Amount:
    """Replicas for the peak, with ``utilisation`` of what they can carry."""
    need = asked.tokens_per_second / service.tokens_per_second
    return np.ceil(need / scenario.utilisation * (1 - 1e-12))


def _hall(chips: Machine, layout: Layout, gpus: Amount, site: Site, scenario: Scenario) -> Building:
    """The building of whole servers for so many accelerators."""
    per_server = server_of(chips.name, site, scenario).gpus
    servers = np.ceil(gpus / per_server)
    return build(chips, layout, servers, gpus=servers * per_server, site=site, scenario=scenario)


def _spares(replicas: float, service: Service, site: Site, scenario: Scenario) -> int:
    """Replicas on standby: those of the site, none where replicas are rented, else as many as the repairs need."""
    if site.spares is not None:
        return int(site.spares)
    return 0 if site.rent is not None else _spare_replicas(replicas, service.gpus, scenario)


def _spare_replicas(replicas: float, gpus: float, scenario: Scenario) -> int:
    """The fewest with which enough replicas are up as often as ``availability`` says."""
    up = scenario.gpu_mttf / (scenario.gpu_mttf + gpus * scenario.repair)

    def enough(spares: int) -> bool:
        return bool(scaling.redundancy(replicas, up, spares=spares).availability >= scenario.availability)

    low, high = -1, 1  # too few, and enough: doubled until it is
    while not enough(high):
        low, high = high, 2 * high
        if high > replicas + 64:
            raise InfeasibleError("replicas break faster than they are repaired: gpu_mttf must be longer")
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


_LIMITS: Mapping[str, tuple[str, Callable[[Fleet], float]]] = MappingProxyType(
    {
        "power": ("W", lambda f: float(f.site.total)),
        "racks": ("", lambda f: float(f.racks)),
        "budget": ("$", lambda f: float(f.cost)),
        "gpus": ("", lambda f: float(f.hosts)),
    }
)


def _within(fleets: list[Fleet], site: Site, scenario: Scenario) -> list[Fleet]:
    """Those of the fleets that keep within the limits of a site, or an InfeasibleError that says the nearest."""
    limits = {name: getattr(site, name) for name in _LIMITS if getattr(site, name) is not None}

    def keep(besides: str = "") -> list[Fleet]:
        others = {name: most for name, most in limits.items() if name != besides}
        return [one for one in fleets if all(_LIMITS[name][1](one) <= most for name, most in others.items())]

    if good := [one for one in keep() if np.isfinite(one.racks)]:
        return good
    if not limits:
        servers = [server_of(one.accelerator, site, scenario) for one in fleets]
        least = min(server.power * server.in_rack for server in servers)
        given = fmt(site.rack_power or 0.0, "W")
        why = f"rack_power {given} feeds no server; the nearest that does: {fmt(least, 'W')}"
        raise InfeasibleError(why, {"rack_power": least})
    nearest = {name: min(map(_LIMITS[name][1], rest)) for name in limits if (rest := keep(besides=name))}
    ways = [f"{name} {fmt(value, _LIMITS[name][0])}" for name, value in nearest.items()]
    why = f"each of these alone would do: {'; '.join(ways)}" if ways else "no one of them alone would do"
    raise InfeasibleError(f"no fleet keeps within the limits; {why}", nearest)


# --- Every number of a fleet -----------------------------------------------------------------------------------------


class FleetMetric(NamedTuple):
    """A result of a fleet: its unit, and how it comes from one."""

    unit: str
    of: Callable[[Fleet], Number]


FLEET_METRICS: Mapping[str, FleetMetric] = MappingProxyType(
    {
        "gpus": FleetMetric("", lambda f: f.gpus),
        "busy_gpus": FleetMetric("", lambda f: f.gpus * f.busy),
        "hosts": FleetMetric("", lambda f: f.hosts),
        "replicas": FleetMetric("", lambda f: f.replicas),
        "spare_replicas": FleetMetric("", lambda f: f.spare_replicas),
        "racks": FleetMetric("", lambda f: f.racks),
        "leaf_switches": FleetMetric("", lambda f: f.fabric.leaves),
        "spine_switches": FleetMetric("", lambda f: f.fabric.spines),
        "core_switches": FleetMetric("", lambda f: f.fabric.cores),
        "cables": FleetMetric("", lambda f: f.fabric.cables),
        "transceivers": FleetMetric("", lambda f: f.fabric.transceivers),
        "site_power": FleetMetric("W", lambda f: f.site.total),
        "mean_power": FleetMetric("W", lambda f: f.mean_power),
        "cost_a_day": FleetMetric("$", lambda f: f.cost * day / year),
        "cost_a_year": FleetMetric("$", lambda f: f.cost),
        "cost_of_a_million_tokens": FleetMetric("$", lambda f: 1e6 * f.token_cost),
        "speed": FleetMetric("tokens/s", lambda f: f.service.speed),
        "first_token": FleetMetric("s", lambda f: f.service.time_to_first_token),
    }
)
_MORE = {
    "requests_at_most": FleetMetric("", lambda f: f.replicas * f.service.tokens_per_second / f.serving.output),
    "capital": FleetMetric("$", lambda f: np.nan if f.capital is None else f.capital.total),
    # The tokens are those of the load: a scenario that could not carry it has no price of its own.
    "cost_of_a_million_tokens": FleetMetric("$", lambda f: f.cost * (1e6 / (f.serving.tokens_per_second * year))),
}
_COUNTS = ("gpus", "replicas")
_UNCERTAIN: tuple[str, ...] = (*_COUNTS, "speed", "first_token", "requests_at_most", "busy_gpus")
_UNCERTAIN += ("site_power", "mean_power")
_UNCERTAIN += ("cost_a_day", "cost_a_year", "capital", "cost_of_a_million_tokens")


def _slower(service: Service, times: Share) -> Service:
    """A service of which everything takes so many times as long."""
    return replace(
        service,
        time_to_first_token=service.time_to_first_token * times,
        time_per_token=service.time_per_token * times,
        latency=service.latency * times,
        tokens_per_second=service.tokens_per_second / times,
    )


def _intervals(fleet: Fleet, scenario: Scenario, drawn: Scenario) -> Mapping[str, Estimate]:
    """Intervals over scenarios: a slower pass takes from every user, and the same load then needs more replicas.

    What the fleet carries at most is that of the replicas that were built.
    """
    service = _slower(fleet.service, drawn.step / scenario.step)
    built = replace(fleet, service=service)
    uncertain = {name: (dict(FLEET_METRICS) | _MORE)[name] for name in _UNCERTAIN}
    grown = _grown(built, scenario, drawn)
    of = {name: built if name == "requests_at_most" else grown for name in _UNCERTAIN}
    return intervals({name: (unit, get(fleet), get(of[name])) for name, (unit, get) in uncertain.items()})


def _grown(fleet: Fleet, scenario: Scenario, drawn: Scenario) -> Fleet:
    """A fleet of as many replicas as each drawn scenario needs for the same load, in halls of their size."""
    chips, site, service = fleet.machine, fleet.place, fleet.service
    replicas, which = np.unique(_needed(fleet.serving, service, drawn), return_inverse=True)
    spares = np.array([_spares(float(n), fleet.service, site, scenario) for n in replicas])
    try:
        hall = _hall(chips, fleet.layout, ((replicas + spares) * service.gpus)[which], site, scenario)
    except InfeasibleError as error:  # more than any switch joins: as many as it does
        most = np.floor(error.nearest["gpus"] / service.gpus) - np.max(spares)
        replicas = np.minimum(replicas, most)
        hall = _hall(chips, fleet.layout, ((replicas + spares) * service.gpus)[which], site, scenario)
    replicas, spares = replicas[which], spares[which]
    supplied = supply(hall, gpus=replicas * service.gpus, rent=site.rent, time=year, scenario=drawn)
    return replace(fleet, replicas=replicas, spare_replicas=spares, **vars(hall), **vars(supplied))


def _front(fleets: list[Fleet], scenario: Scenario, drawn: Scenario) -> tuple[Point, ...]:
    """Fleets of which none is both faster for a user and cheaper (smaller, where no price is known), fastest first."""
    ranked = sorted(fleets, key=lambda one: float(one.gpus))
    prices = [float(one.cost if np.isfinite(one.cost) else one.gpus) for one in ranked]
    front = []
    for i in undominated(np.array([float(one.service.time_per_token) for one in ranked]), np.array(prices)):
        one = ranked[i]
        sure = _intervals(one, scenario, drawn)
        point = Point(
            accelerator=one.accelerator,
            gpus=float(one.gpus),
            time=float(one.service.time_per_token),
            cost=float(one.cost),
            power=float(one.site.total),
            racks=float(one.racks),
            time_low=1 / sure["speed"].high,
            time_high=1 / sure["speed"].low,
            **ends(sure, {"cost": "cost_a_year", "power": "site_power"}),
        )
        front.append(point)
    return tuple(front)


def _binding(fleet: Fleet, promise: Promise, services: list[Service]) -> Binding:
    """The promise that keeps a fleet from serving more with a GPU, or the load where none does; and a quarter more."""
    gpus, cost, rate = float(fleet.gpus), float(fleet.cost), fleet.serving.rate
    freed = {
        "speed": promise._replace(speed=0.0).most(services),
        "first_token": promise._replace(first_token=np.inf).most(services),
    }
    name, now = max(freed, key=lambda one: freed[one]), promise.most(services)
    if freed[name] <= now * (1 + 1e-9):
        return Binding("rate", rate, 1.0, "", gpus / rate, np.nan, cost / rate)
    limit, dimension = getattr(promise, name), "tokens/s" if name == "speed" else "s"
    further = 0.25 * limit  # so far that another batch is taken
    then = promise._replace(**{name: limit + further}).most(services)
    more = now / then - 1 if then else np.nan
    return Binding(name, limit, further, dimension, gpus * more, np.nan, cost * more)


def _sensitivities(fleet: Fleet, scenario: Scenario, step_kind: str) -> tuple[Sensitivity, ...]:
    """What each uncertain assumption alone does to the time of a token, and to the cost for the same load."""

    def time_and_cost(there: Scenario) -> tuple[float, float]:
        service = _slower(fleet.service, there.step / scenario.step)
        one = fleet_of(fleet.serving, fleet.place, fleet.machine, fleet.layout, service, there)
        return one.central

    bars = sensitivities(scenario, step_kind, time_and_cost, paid=fleet.paid)
    return bars if fleet.paid else tuple(bar for bar in bars if bar.time[0] != bar.time[1])
