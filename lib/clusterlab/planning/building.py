"""What stands in the hall, for a training run and a fleet alike: servers, racks, fabric, power, heat and money.

A :class:`Building` is what is decided, and a :class:`Supply` what it draws and costs in a scenario.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from typing import NamedTuple

import numpy as np

from .. import catalogue, failures, interconnect, power, scaling
from ..catalogue import PRICE_LISTS, Machine, PriceList, machine
from ..failures import BURSTS, Estimate
from ..model import Layout
from ..power import AIR, WATER, Coolant, EnergyFootprint, Load
from ..quantities import Amount, BytesPerSecond, Number, PositiveSeconds, Seconds, Watts
from ..records import Explained, Rows, summary, words
from ..scaling import Bill
from ..units import fmt, year
from .result import InfeasibleError, counted, interval
from .scenario import CENTRAL, PRICES, SWITCHES, Scenario, Site, Switch, samples

# --- The fabric ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class Fabric(Explained):
    """The scale-out network: its switches and cables by tier, and what its middle carries one way.

    ``ends`` are the accelerators that it joins, ``power`` what its switches are rated at. A torus has no switches;
    its links count as ``host_cables``.
    """

    name: str
    ends: Amount
    leaves: Amount
    spines: Amount
    cores: Amount
    host_cables: Amount
    spine_cables: Amount
    core_cables: Amount
    transceivers: Amount
    bisection: BytesPerSecond
    power: Watts

    @property
    def switches(self) -> Amount:
        """Switches of all tiers."""
        return self.leaves + self.spines + self.cores

    @property
    def cables(self) -> Amount:
        """Cables of all tiers."""
        return self.host_cables + self.spine_cables + self.core_cables

    def _rows(self) -> Rows:
        rows = [("", "count"), ("switch", str(self.name))]
        names = ("leaves", "spines", "cores", "host_cables", "spine_cables", "core_cables", "transceivers")
        rows += [(words(name), counted(getattr(self, name))) for name in names]
        return [*rows, ("bisection", summary(self.bisection, "B/s")), ("power", summary(self.power, "W"))]


def is_torus(accelerator: str) -> bool:
    """Whether accelerators are wired to their neighbours, without a switch."""
    return str(catalogue.accelerator(accelerator).scale_up_link).startswith("ICI")


def fabric(gpus: Amount, hosts: Amount, chips: Machine, site: Site) -> Fabric:
    """The fabric of so many accelerators, of which ``gpus`` work; element by element.

    Of all fat trees of a switch on record that speaks the link and has its rate, the one with the least watts.
    """
    if is_torus(chips.name):
        return _torus(gpus, chips)
    hosts = np.asarray(np.broadcast_arrays(np.asarray(gpus, float), np.asarray(hosts, float))[1])
    switches = _fitting(chips, site)
    most = [_reach(switch, site) for switch in switches]
    if np.any(hosts > max(most)):
        like = max(switch.name for switch in switches)
        why = f"no switch on record joins {np.max(hosts):,.0f} accelerators; {like} and its like"
        raise InfeasibleError(f"{why} reach {max(most):,.0f}; take fewer gpus", {"gpus": max(most)})
    trees = [_tree(switch, hosts, reach, site) for switch, reach in zip(switches, most, strict=True)]
    least = np.argmin([tree.power for tree in trees], axis=0)
    names = np.array([switch.name for switch in switches])[least]

    def taken(field: str) -> Amount:
        columns = [np.broadcast_to(getattr(tree, field), hosts.shape) for tree in trees]
        return np.choose(least, columns).astype(float)[()]

    columns = {f.name: taken(f.name) for f in fields(Fabric) if f.name != "name"}
    return Fabric(name=names if np.ndim(names) else str(names), **columns)


def machine_of(name: str, site: Site) -> Machine:
    """An accelerator on the site's network, under its leaves."""
    return wired(machine(name, network=site.network), site)


def wired(chips: Machine, site: Site) -> Machine:
    """A machine under leaves that are as thin as the site's.

    Accelerators of a server are on a rail each, so neighbours meet under one set of leaves. Of the switches that fit,
    the one with the fewest ports sets how many: the smaller a leaf, the more crosses.
    """
    if site.oversubscription <= 1 or is_torus(chips.name):
        return chips
    switch = min(_fitting(chips, site), key=lambda one: one.ports)
    ratio, server = _ratio(switch, site), server_of(chips.name, site, CENTRAL)
    down = switch.ports * ratio / (1 + ratio)
    return replace(chips, oversubscription=ratio, leaf=round(down) * round(server.gpus))


def _fitting(chips: Machine, site: Site) -> list[Switch]:
    """The switches that speak the link of a network, or any with ports of its rate where none is named."""
    fitting = [one for one in SWITCHES.values() if one.port == chips.network_bandwidth]
    fitting = [one for one in fitting if not site.network or site.network.startswith(one.link)]
    if not fitting:
        known = ", ".join(f"{one.name} of {fmt(one.port, 'B/s')}" for one in SWITCHES.values())
        raise ValueError(f"network must have a switch on record, got {fmt(chips.network_bandwidth, 'B/s')}; {known}")
    return fitting


def _ratio(switch: Switch, site: Site) -> float:
    """The oversubscription of a leaf that is next to the one wanted: whole ports down over whole ports up."""
    up = max(round(switch.ports / (1 + site.oversubscription)), 1)
    return (switch.ports - up) / up


def _reach(switch: Switch, site: Site) -> float:
    """Accelerators that three tiers of a switch join."""
    ratio = _ratio(switch, site)
    return float(interconnect.fat_tree_capacity(switch.ports, tiers=3, oversubscription=ratio))


def _tree(switch: Switch, hosts: Amount, reach: float, site: Site) -> Fabric:
    """The fat tree of one kind of switch; of infinitely many watts where it joins too few."""
    tree = interconnect.fat_tree(np.minimum(hosts, reach), switch.ports, oversubscription=_ratio(switch, site))
    full = interconnect.bisection_bandwidth(tree.bisection_links, switch.port)
    return Fabric(
        name=switch.name,
        ends=hosts,
        leaves=tree.leaves,
        spines=tree.spines,
        cores=tree.cores,
        host_cables=tree.host_cables,
        spine_cables=tree.spine_cables,
        core_cables=tree.core_cables,
        transceivers=tree.transceivers,
        bisection=np.minimum(full, hosts / 2 * switch.port),  # half of the hosts send to the other half
        power=np.where(hosts <= reach, np.asarray(tree.switches) * switch.power, np.inf),
    )


def _torus(gpus: Amount, chips: Machine) -> Fabric:
    counts = np.asarray(gpus, float)
    sizes = [_torus_sizes(int(n)) for n in counts.ravel()]
    found = [interconnect.torus(one) for one in sizes]
    ways = np.array([2.0 * len(one) for one in sizes]).reshape(counts.shape)
    cut = np.array([one.bisection_links for one in found], float).reshape(counts.shape)
    links = np.array([one.links for one in found], float).reshape(counts.shape)[()]
    none = 0.0 * links
    return Fabric(
        name="torus",
        ends=counts[()],
        leaves=none,
        spines=none,
        cores=none,
        host_cables=links,
        spine_cables=none,
        core_cables=none,
        transceivers=2 * links,
        bisection=np.asarray(interconnect.bisection_bandwidth(cut, chips.scale_up_bandwidth / ways))[()],
        power=none,
    )


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


# --- Servers, spares and racks ---------------------------------------------------------------------------------------


class Server(NamedTuple):
    """A server: its accelerators, its rating, and accelerators of the rack that it is sold in (0: it stands alone)."""

    gpus: float
    power: float
    rack: float

    @property
    def liquid(self) -> bool:
        """Whether it is cooled by liquid: racks that are sold as one are."""
        return bool(self.rack)

    @property
    def in_rack(self) -> float:
        """Servers of a rack that is sold as one; 1 where it stands alone."""
        return max(self.rack / self.gpus, 1.0)


def server_of(name: str, site: Site, scenario: Scenario) -> Server:
    """The server of an accelerator, as datasheets have it."""
    records = [one for one in (*catalogue.nodes(), *catalogue.racks()) if one.accelerator == name]
    record = next((one for one in records if one.power), records[0] if records else None)
    gpus = float(record.accelerators) if record else (4.0 if is_torus(name) else 8.0)  # a host of a TPU pod has four
    chip, each = catalogue.accelerator(name), site.server_power
    if site.server_power is not None and chip.tdp and site.server_power < chip.tdp / 2:
        why = f"at least half of what {name} alone is rated, {fmt(chip.tdp, 'W')}; got {site.server_power:g}"
        raise ValueError(f"server_power must be {why}")
    if each is None and record and record.power:
        each = record.power / record.accelerators
    if each is None and chip.tdp:
        each = chip.tdp * float(np.mean(scenario.server_overhead))
    if each is None:
        raise ValueError(f"server_power must be given: no datasheet has the rating of {name}")
    if isinstance(record, catalogue.Rack):
        in_server = gpus / float(record.nodes or 1)
        return Server(in_server, each * in_server, gpus)
    return Server(gpus, each * gpus, 0.0)


def spare_servers(servers: Amount, server: Server, scenario: Scenario) -> Amount:
    """The fewest spares that are enough for all but ``spare_risk`` of the time, bad months too."""
    node_mtbf = scenario.gpu_mttf / server.gpus
    if np.any(scenario.repair > node_mtbf):
        raise InfeasibleError("servers break faster than they are repaired: gpu_mttf must be longer, or repair shorter")
    fleet = {"nodes": servers, "node_mtbf": node_mtbf, "repair": scenario.repair}
    return failures.spares_for(1 - scenario.spare_risk, **fleet, dispersion=BURSTS).spares


def _racks(servers: Amount, server: Server, site: Site, scenario: Scenario) -> Amount:
    """Racks of so many servers; infinitely many where a rack cannot feed what it must hold."""
    if server.rack:
        fed = site.rack_power is None or site.rack_power >= server.power * server.in_rack
        return (np.ceil(servers / server.in_rack) if fed else np.inf * servers)[()]
    in_rack = float(site.servers_per_rack or max(scenario.servers_per_rack * 8 // server.gpus, 1))
    if site.rack_power is not None:
        in_rack = float(np.minimum(in_rack, power.capacity(power=(site.rack_power, server.power)).count))
    return np.ceil(servers / in_rack) if in_rack else np.inf * servers


# --- The building ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False, kw_only=True)
class Building(Explained):
    """What is decided of a hall, for one cluster or an array of them.

    ``hosts`` are the accelerators of all servers, spares too; ``server_power`` is the rating of a server.
    """

    machine: Machine
    layout: Layout
    per_server: float
    hosts: Amount
    server_power: Watts
    racks: Amount
    liquid: bool
    fabric: Fabric
    prices: PriceList | None

    @property
    def accelerator(self) -> str:
        """Their name."""
        return self.machine.name


def build(chips: Machine, layout: Layout, servers: Amount, *, gpus: Amount, site: Site, scenario: Scenario) -> Building:
    """A building of so many servers, spares too, in which ``gpus`` accelerators work."""
    server = server_of(chips.name, site, scenario)
    hosts = servers * server.gpus
    return Building(
        machine=chips,
        layout=layout,
        per_server=server.gpus,
        hosts=hosts,
        server_power=server.power,
        racks=_racks(servers, server, site, scenario),
        liquid=server.liquid,
        fabric=fabric(gpus, hosts, chips, site),
        prices=PRICE_LISTS[PRICES[chips.name].list] if chips.name in PRICES else None,
    )


# --- What it draws and costs -----------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False, kw_only=True)
class Supply(Explained):
    """What a building draws and costs in a scenario, or in an array of them.

    ``load`` and ``site`` are rated, ``mean_power`` is what the meter shows; ``coolant`` is in m³/s. A price that is not
    known is None.
    """

    load: Load
    site: Load
    mean_power: Watts
    coolant: Amount
    energy: EnergyFootprint
    capital: Bill | None
    bill: Bill | None

    @property
    def cost(self) -> Amount:
        """Dollars of the time; NaN where no price is known."""
        return np.nan * self.energy.energy if self.bill is None else self.bill.total


def supply(made: Building, *, gpus: Amount, rent: float | None, time: Seconds, scenario: Scenario) -> Supply:
    """What a building draws and costs for a time: power, heat, energy and money.

    Rent is for the accelerators that work: whoever lets a server replaces it. What is bought costs the share of each
    year that the time takes.
    """
    it = power.load(**_rated(made), switches=made.fabric.power)
    site = power.facility(it, scenario.pue)
    rise, fluid = coolant(made, scenario)
    capital, bill = None, None
    if rent is not None:
        bill = scaling.bill(rent=gpus * time * rent)
    elif made.prices is not None:
        prices = _priced(made.prices, scenario)
        capital = scaling.capital(made.hosts, site.total, prices)
        bill = time / year * _yearly(made.hosts, site.total, prices, scenario)
    return Supply(
        load=it,
        site=site,
        mean_power=scenario.draw * site.total,
        coolant=power.coolant_flow(it.total, rise, fluid),
        energy=power.energy_footprint(
            scenario.draw * it.total,
            time,
            pue=scenario.pue,
            price=scenario.energy_price,
            carbon_intensity=scenario.carbon_intensity,
        ),
        capital=capital,
        bill=bill,
    )


def _rated(made: Building) -> dict[str, tuple[Amount, Watts]]:
    """Servers as what draws: their number and the rating of each; accelerators apart where a datasheet has theirs."""
    each, chip = made.server_power / made.per_server, catalogue.accelerator(made.accelerator)
    if chip.tdp and chip.tdp < each:
        return {"accelerators": (made.hosts, chip.tdp), "rest of servers": (made.hosts, each - chip.tdp)}
    return {"servers": (made.hosts, each)}


def coolant(made: Building, scenario: Scenario) -> tuple[Number, Coolant]:
    """What carries the heat away, and by how much it warms."""
    return (scenario.water_rise, WATER) if made.liquid else (scenario.air_rise, AIR)


_BUILT: tuple[str, ...] = ("gpus", "servers", "network", "storage")
_BUILT += ("substation", "generators", "electrical", "cooling", "building")


def _priced(prices: PriceList, scenario: Scenario) -> PriceList:
    listed = {name: getattr(prices, name) for name in _BUILT}
    scaled = {name: scenario.capital * price for name, price in listed.items() if price is not None}
    return replace(prices, **scaled, energy=scenario.energy_price)


def _yearly(gpus: Amount, watts: Watts, prices: PriceList, scenario: Scenario) -> Bill:
    terms = {"rate": scenario.interest, "life": scenario.life, "load_factor": scenario.draw}
    return scaling.yearly_bill(gpus, watts, prices, **terms)


def yearly_cost(
    gpus: Number,
    site_power: Watts,
    prices: PriceList,
    *,
    rate: Amount | None = None,
    life: PositiveSeconds | None = None,
    draws: int = 1000,
    seed: int = 0,
) -> Estimate:
    """What a cluster costs a year, and between which amounts eight of ten drawn scenarios have it.

    Parameters
    ----------
    gpus, site_power, prices
        As in :func:`clusterlab.scaling.yearly_bill`; numbers.
    rate, life : optional
        Interest, and time over which servers are paid off, where they are known; else those of the scenarios.
    draws, seed
        Scenarios that are drawn, and the seed of their random numbers.

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

    def bill_in(scenario: Scenario) -> Amount:
        there = replace(scenario, **known)
        return _yearly(gpus, site_power, _priced(prices, there), there).total

    return interval(bill_in(CENTRAL), bill_in(samples(CENTRAL, draws, seed=seed)), "$")
