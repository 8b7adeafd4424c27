r"""Power: from the chip to the grid, and what it becomes: heat, energy, money, carbon and water.

A :class:`Load` is watts by named part. Loads add and scale, and every level (a server from its parts, a hall from its
servers, a site from its hall) only adds parts: the power that enters is the sum of what the parts draw.

Everything is in steady state: a rack's heat is its electrical power, and coolants have constant properties. A chip
draws a static part and a dynamic part :math:`\propto f V^2`, and its voltage follows its clock down to a floor. Prices,
carbon and water are averages per joule, as published; :func:`~clusterlab.evidence.published` has them with
sources.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar

import numpy as np

from . import catalogue
from .checks import Numeric, celsius, nonnegative, positive
from .quantities import (
    Amount,
    Celsius,
    Count,
    CubicMetres,
    CubicMetresPerJoule,
    CubicMetresPerSecond,
    Dollars,
    DollarsPerJoule,
    Joules,
    JoulesPerKilogramKelvin,
    Kelvins,
    Kilograms,
    KilogramsPerCubicMetre,
    KilogramsPerJoule,
    Multiple,
    Number,
    PerSecond,
    PositiveCubicMetresPerSecond,
    PositiveSeconds,
    PositiveShare,
    PositiveWatts,
    Seconds,
    Share,
    ShareBelowOne,
    Watts,
    law,
)
from .records import Explained, Parts, Predicted, Rows, amounts, least, pairs_of, summary, words


def _floor(count: Amount) -> Amount:
    """``count`` rounded down, with a tolerance for rounding errors: four servers of 10.2 kW fit into 40.8 kW."""
    return np.floor(count * (1 + 1e-12))


# --- Loads: from the chip to the grid --------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class Load(Parts):
    """Watts drawn, part by part; ``total`` is their sum.

    Loads add (parts of the same name are summed) and scale (``4 * server``). Parts broadcast.

    Examples
    --------
    >>> server = load(accelerators=(8, 700), rest=4600)
    >>> 4 * server + load(switches=1720)
    Load
                    power  share
    accelerators  22.4 kW  52.7%
    rest          18.4 kW  43.3%
    switches      1.72 kW  4.05%
    total         42.5 kW   100%
    """

    _heading: ClassVar[str] = "power"
    _unit: ClassVar[str] = "W"

    @property
    def total(self) -> Watts:
        """Watts of all parts together."""
        return super().total


def load(**parts: Watts | tuple[Amount, Watts]) -> Load:
    r"""Load made of its parts.

    .. math:: P = \sum_i n_i P_i

    Parameters
    ----------
    **parts : watts, or (count, watts each)
        One for each part, under a name of your choice.

    Returns
    -------
    Load

    Notes
    -----
    Source: conservation of energy.

    Examples
    --------
    The known parts of a DGX H100, without its memory, drives and NVSwitches.

    >>> load(GPUs=(8, 700), CPUs=(2, 350), fans=1020)
    Load
             power  share
    GPUs    5.6 kW  76.5%
    CPUs     700 W  9.56%
    fans   1.02 kW  13.9%
    total  7.32 kW   100%
    """
    return Load(amounts("load", "watts", parts))


@law
def convert(fed: Load, efficiency: PositiveShare, *, name: str = "conversion losses") -> Load:
    r"""Load at the input of a conversion stage: a power supply, a UPS, a transformer, a transmission line.

    .. math:: P_\text{in} = P_\text{out} / \eta, \qquad P_\text{loss} = P_\text{out}\,(1/\eta - 1)

    Parameters
    ----------
    fed
        What is drawn at the output.
    efficiency
        Output over input power, eta.
    name
        Name of the part that holds the loss; losses of the same name add.

    Returns
    -------
    Load
        The parts of ``fed``, and the loss as a further part.

    Notes
    -----
    Source: definition of efficiency. 80 PLUS Titanium requires 96 % of a 230 V supply at half load, 91 % at full load.

    Examples
    --------
    >>> round(float(convert(load(server=960), 0.96).total), 6)
    1000.0
    """
    return fed + Load({name: fed.total * (1 / efficiency - 1)})


@law
def cluster_load(
    accelerators: Count, accelerator_power: PositiveWatts, *, server_overhead: Multiple = 1, network_share: Amount = 0
) -> Load:
    r"""IT load of a cluster by rules of thumb.

    .. math:: P_\text{IT} = N P\, k \,(1 + s)

    Parameters
    ----------
    accelerators
        Number of accelerators, N.
    accelerator_power
        Power of one, P: its TDP to size the supply, its mean draw for the energy used.
    server_overhead
        Power of a server over that of its accelerators, k.
    network_share
        Power of switches, storage and management over that of the servers, s.

    Returns
    -------
    Load
        Accelerators, the rest of their servers, and network with storage. Cooling is not included: it is in the PUE.

    Notes
    -----
    Source: k = 1 and s = 0 is the rule of MLSysBook, Fleet Foundations, table 9. A DGX H100 is rated at
    k = 10.2 kW / 5.6 kW = 1.82; SemiAnalysis 2024 ("AI datacenter energy dilemma") adds s = 9 % for a SuperPOD.

    Examples
    --------
    >>> cluster_load(20480, 700, server_overhead=10.2 / 5.6, network_share=0.0894)
    Load
                           power  share
    accelerators         14.3 MW  50.4%
    rest of servers      11.8 MW  41.4%
    network and storage  2.33 MW  8.21%
    total                28.4 MW   100%
    """
    chips = accelerators * accelerator_power
    servers = chips * server_overhead
    parts = {"rest of servers": chips * (server_overhead - 1), "network and storage": servers * network_share}
    return load(accelerators=chips, **parts)


@law
def pue(facility_power: PositiveWatts, it_power: PositiveWatts) -> Multiple:
    r"""Power usage effectiveness (PUE): watts that a site draws for each watt of its IT equipment.

    .. math:: \text{PUE} = P_\text{facility} / P_\text{IT} \ge 1

    Parameters
    ----------
    facility_power, it_power
        Watts, or joules over a year, as PUEs are reported.

    Raises
    ------
    ValueError
        ``it_power`` exceeds ``facility_power``.

    Notes
    -----
    Source: The Green Grid 2007. The inverse, the share that reaches the IT, is the DCiE. Neither says how well the IT
    uses its power. A server's fans and power supplies count as IT, so a warmer hall can lower the PUE and raise the
    bill.

    Examples
    --------
    >>> pue(9.8e6, 7e6)
    1.4
    """
    if np.any(it_power > facility_power):
        raise ValueError(f"it_power must be at most facility_power, got {it_power} of {facility_power}")
    return facility_power / it_power


@law
def facility(it: Load, pue: Multiple, *, name: str = "cooling and distribution") -> Load:
    r"""Load of a site by its PUE.

    .. math:: P_\text{facility} = \text{PUE} \cdot P_\text{IT}

    Parameters
    ----------
    it
        IT equipment, without anything that cools the hall, which would be counted twice.
    pue
        Of the site: see :func:`pue`.
    name
        Name of the part that is added.

    Returns
    -------
    Load
        The parts of the IT load, and the overhead (PUE - 1) times their total.

    Notes
    -----
    Source: The Green Grid 2007.

    Examples
    --------
    >>> float(facility(load(H100=(10_000, 700)), 1.4).total)
    9800000.0
    """
    return it + Load({name: it.total * (pue - 1)})


@law
def site(it: Load, *, distribution: PositiveShare, cop: Number, other: Watts = 0) -> Load:
    r"""Load of a site from the efficiency of its power distribution and its cooling, which determine its PUE.

    .. math:: P = \frac{P_\text{IT}}{\eta}\left(1 + \frac{1}{\text{COP}}\right) + P_\text{other}

    Parameters
    ----------
    it
        IT equipment.
    distribution
        Efficiency of transformers, UPS and busbars together, eta.
    cop
        Coefficient of performance (COP): heat removed per joule that fans, pumps and chillers of the site draw.
    other
        Lighting, offices and so on. Their heat is neglected.

    Returns
    -------
    Load
        The parts of the IT load, distribution losses, cooling (of the losses too) and other.

    Notes
    -----
    Derived: the heat to remove is all the electricity that enters the hall.

    Examples
    --------
    Chillers with a COP of 2.5 and a power distribution of 90 % give the PUE of a legacy hall.

    >>> hall = load(IT=10e6)
    >>> round(pue(site(hall, distribution=0.9, cop=2.5).total, hall.total), 2)
    1.56
    """
    fed = convert.unchecked(it, distribution, name="distribution losses")
    return fed + Load({"cooling": fed.total / cop}) + Load({"other": other})


# --- Draw: what a rating becomes --------------------------------------------------------------------------------------

# Kind: fitted, to MLPerf Training v4.0's servers of eight H100 in oil (data/power.csv, group draw): five jobs on eight,
# nine or 64 servers, where each works at 51 to 75 % of the speed that it has alone. Of single jobs .41 to .64.
WAITING_DRAW = 0.47


@dataclass(frozen=True, repr=False)
class Draw(Predicted):
    """Mean draw of servers that work and wait: ``power`` in watts, ``speed`` as a share of that without waiting.

    ``low`` and ``high`` hold eight of ten measured draws: the spread ``power`` of
    :data:`clusterlab.catalogue.PREDICTION_INTERVALS`.
    """

    power: Watts
    speed: Share

    def _predicted(self) -> tuple[Numeric, Numeric, Numeric, str]:
        spread = catalogue.PREDICTION_INTERVALS["power"]
        return self.power, spread.low * self.power, spread.high * self.power, "W"

    def _rows(self) -> Rows:
        return [("", "value"), ("power", self.with_interval), ("speed", summary(self.speed, "%"))]


@law
def mean_draw(
    rating: PositiveWatts, *, utilisation: Number, waiting: Share = 0, waiting_draw: Share = WAITING_DRAW
) -> Draw:
    r"""Mean draw of servers with a rating, which wait for the network for a share of the time.

    .. math:: P = R\, u\,\left[1 - (1 - q)\, w\right], \qquad v = 1 - w

    Parameters
    ----------
    rating
        What the servers, or their accelerators, are rated at, R.
    utilisation
        Draw over that rating while they work, u. Of the servers' rating it is below 1; of their accelerators' alone
        about 1.22 where a liquid cools, more with fans.
    waiting
        Share of the time in which they wait for the network, w.
    waiting_draw
        Draw while waiting over the draw at work, q: what waits keeps its clock, its memory and its links, and polls.

    Returns
    -------
    Draw

    Notes
    -----
    Derived: a mean over two states. Throughput falls with w, power with (1 - q) w, so waiting costs energy: a unit of
    work takes (1 - (1 - q) w)/(1 - w) of the joules. Idle servers draw less than waiting ones, .24 to .3 of the draw
    at work (MLPerf Training v4.0, Inference v5.1).

    Examples
    --------
    A DGX H100 at two thirds of its rating, and one that waits a third of the time: a third of the speed is gone, a
    sixth of the power.

    >>> mean_draw(10_200, utilisation=2 / 3, waiting=1 / 3)
    Draw
                           value
    power  5.6 kW (4.57 to 6.46)
    speed                  66.7%
    """
    full, idle = rating * utilisation, (1 - waiting_draw) * waiting
    return Draw(full * (1 - idle), 1 - waiting + 0 * idle * (full / full))  # every field has the shape of all arguments


# --- Energy, money, carbon, water ------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class EnergyFootprint(Explained):
    """What a load used over a time: joules, dollars, kilograms of carbon dioxide equivalent and cubic metres of water.

    ``it_energy`` and ``overhead_energy`` sum to ``energy``.
    """

    it_energy: Joules
    overhead_energy: Joules
    cost: Dollars
    carbon: Kilograms
    water: CubicMetres

    @property
    def energy(self) -> Joules:
        """Joules at the meter of the site."""
        return self.it_energy + self.overhead_energy

    _shown: ClassVar = dict.fromkeys(("it_energy", "overhead_energy", "energy"), "MWh") | {"cost": "$"}

    def _rows(self) -> Rows:
        rows = ("carbon", summary(self.carbon / 1000, "t CO2e")), ("water", summary(self.water, "m³"))
        return [*super()._rows(), *rows]


@law
def energy_footprint(
    it_power: Watts,
    duration: Seconds,
    *,
    pue: Multiple,
    price: DollarsPerJoule = 0,
    carbon_intensity: KilogramsPerJoule = 0,
    water_usage: CubicMetresPerJoule = 0,
) -> EnergyFootprint:
    r"""Energy, cost, carbon and water of a load that runs for a time.

    .. math:: E = \text{PUE}\; P\, t, \qquad \text{cost} = p\,E, \qquad \text{carbon} = c\,E, \qquad W = w\,P\,t

    Parameters
    ----------
    it_power
        Mean draw of the IT equipment, P, which is below its rating.
    duration
        Time for which it runs, t.
    pue
        Of the site: see :func:`pue`.
    price
        Of the site's energy, p: ``0.083 / kWh``.
    carbon_intensity
        Of the grid, c: ``0.369 / kWh``.
    water_usage
        For IT energy, w: ``1.8e-3 / kWh``. The WUE is usually given in litres on site per kWh of IT.

    Returns
    -------
    EnergyFootprint

    Notes
    -----
    Source: Patterson et al. 2021, section 2, for energy and carbon; The Green Grid 2011 for the water.

    Examples
    --------
    GPT-3 by Patterson et al. 2021, table 4: 10,000 V100 at 330 W for 14.8 days, PUE 1.10, 429 g/kWh.

    >>> from clusterlab.units import MWh, day, kWh
    >>> run = energy_footprint(10_000 * 330, 14.8 * day, pue=1.10, carbon_intensity=0.429 / kWh)
    >>> round(run.energy / MWh), round(run.carbon / 1000)
    (1289, 553)
    """
    it = it_power * duration
    energy = it * pue
    return EnergyFootprint(it, energy - it, energy * price, energy * carbon_intensity, it * water_usage)


# --- Heat: what carries it off ---------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class Coolant(Explained):
    """A fluid that carries heat: kg/m³ and J/(kg K), at one temperature and 101,325 Pa."""

    name: str
    density: KilogramsPerCubicMetre
    heat_capacity: JoulesPerKilogramKelvin
    source: str

    def __post_init__(self) -> None:
        """Refuse what no fluid has."""
        positive(density=self.density, heat_capacity=self.heat_capacity)


# Kind: derived from the equations named, evaluated by CoolProp 8.0.0 (2026-11), to four digits.
AIR = Coolant("dry air, 25 °C", 1.184, 1006.0, "Lemmon et al. 2000")
WATER = Coolant("water, 30 °C", 995.6, 4180.0, "Wagner and Pruss 2002 (IAPWS-95)")
GLYCOL = Coolant("water with 25 % propylene glycol by mass, 35 °C", 1012.0, 3957.0, "Melinder 2010")


@law
def coolant_flow(heat: PositiveWatts, rise: Kelvins, coolant: Coolant) -> PositiveCubicMetresPerSecond:
    r"""Coolant flow that removes a heat load at a given temperature rise.

    .. math:: \dot V = \frac{Q}{\rho\, c\, \Delta T}

    Parameters
    ----------
    heat
        Q: in steady state the electrical power of what is cooled.
    rise
        Temperature of the coolant at the outlet minus that at the inlet.
    coolant
        ``AIR``, ``WATER``, ``GLYCOL`` or your own.

    Notes
    -----
    Source: first law of thermodynamics, Q = m c dT.

    Examples
    --------
    A rack of 120 kW at a rise of 10 K: ten cubic metres of air per second, or three litres of water.

    >>> [round(float(coolant_flow(120e3, 10, c)), 4) for c in (AIR, WATER)]
    [10.0747, 0.0029]
    """
    return heat / (coolant.density * coolant.heat_capacity * rise)


@law
def heat_removed(flow: PositiveCubicMetresPerSecond, rise: Kelvins, coolant: Coolant) -> PositiveWatts:
    r"""Heat that a coolant flow removes.

    .. math:: Q = \rho\, c\, \dot V\, \Delta T

    Through an opening of area A, such as the face of a rack, at mean velocity v the flow is A v.

    Parameters
    ----------
    flow
        Of the coolant, by volume.
    rise
        As in :func:`coolant_flow`.
    coolant
        ``AIR``, ``WATER``, ``GLYCOL`` or your own.

    Notes
    -----
    Source: first law of thermodynamics, Q = m c dT.

    Examples
    --------
    A face of 0.6 m by 2 m and a rise of 12 K: the "30 kW limit of air" is a choice of speed and of rise.

    >>> from clusterlab.units import fmt
    >>> [fmt(heat_removed(0.6 * 2 * v, 12, AIR), "W") for v in (1, 2, 4)]
    ['17.2 kW', '34.3 kW', '68.6 kW']
    """
    return coolant.density * coolant.heat_capacity * flow * rise


@law
def fan_power(flow: CubicMetresPerSecond, *, rated_flow: PositiveCubicMetresPerSecond, rated_power: Watts) -> Watts:
    r"""Power of a fan or pump at another speed in the same duct: the cube law.

    .. math:: P = P_0\,(\dot V/\dot V_0)^3

    Parameters
    ----------
    flow, rated_flow
        At that speed and at the rated one.
    rated_power
        At the rated flow.

    Returns
    -------
    Watts
        Real fans save a little less when they slow down, because some losses do not scale. Servers have fans of their
        own, in parallel: the fans' share of the power does not change with the number of servers.

    Notes
    -----
    Source: the affinity laws (ASHRAE Handbook, HVAC Systems and Equipment, fans): flow goes as speed, pressure as its
    square, power as its cube.

    Examples
    --------
    If the fans of a server take a tenth of its 10 kW, then at the same rise, in the same box, they take 40 % of 20 kW.

    >>> float(fan_power(20e3, rated_flow=10e3, rated_power=1e3)) / 20e3
    0.4
    """
    return rated_power * (flow / rated_flow) ** 3


# --- Energy of the work ----------------------------------------------------------------------------------------------


@law
def energy_per(power: Watts, rate: PerSecond) -> Joules:
    r"""Energy per unit of work: a FLOP, a token, a training step.

    .. math:: e = P / R

    Parameters
    ----------
    power
        Of everything that is to be counted: the chip, its share of the server, the site.
    rate
        Work per second at that power: FLOP/s, tokens/s, steps/s.

    Returns
    -------
    Joules
        J per unit of work.

    Notes
    -----
    Source: definition.

    Examples
    --------
    An H100 at its TDP and at 40 % of its peak: 1.8 pJ per FLOP, so 6 N FLOPs a token make 4.3 J for 405 billion
    parameters.

    >>> each = energy_per(700, 0.4 * 989e12)
    >>> round(each * 1e12, 2), round(6 * 405e9 * each, 1)
    (1.77, 4.3)
    """
    return power / rate


# --- Power caps: time against energy ---------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class Capped(Explained):
    """A task on a chip with a power cap. ``power`` is the chip's, in watts; the others are relative to no cap.

    ``energy`` includes that of the ``rest`` of the system.
    """

    power: PositiveWatts
    frequency: PositiveShare
    time: Multiple
    energy: Number

    @property
    def speed(self) -> PositiveShare:
        """Work per second relative to that without a cap."""
        return 1 / self.time

    _shown: ClassVar = {"power": "W", **dict.fromkeys(("frequency", "speed", "time", "energy"), "%")}


@law
def clocked_power(
    frequency: PositiveShare, *, static: PositiveWatts, dynamic: PositiveWatts, voltage_floor: PositiveShare
) -> PositiveWatts:
    r"""Power of a busy chip at a reduced clock: a static and a dynamic part.

    .. math:: P(f) = P_s + P_d\, f\, v(f)^2, \qquad v(f) = \max(f, v_0)

    Parameters
    ----------
    frequency
        Clock relative to the highest clock, f.
    static, dynamic
        Power that does not depend on the clock (leakage, memory, links), P_s, and power at f = 1 that does, P_d.
    voltage_floor
        Lowest voltage relative to the highest, v_0.

    Notes
    -----
    Source: dynamic power goes as f V² (Weste and Harris, CMOS VLSI Design, chapter 5). Guerreiro et al. 2018 (HPCA)
    find a GPU's voltage constant at low clocks and linear above; here the line goes through the origin.

    Examples
    --------
    >>> round(float(clocked_power(0.8, static=120, dynamic=580, voltage_floor=0.75)))
    417
    """
    return static + dynamic * frequency * np.maximum(frequency, voltage_floor) ** 2


@law
def power_cap(
    cap: PositiveWatts,
    *,
    static: PositiveWatts,
    dynamic: PositiveWatts,
    voltage_floor: PositiveShare,
    fixed: ShareBelowOne = 0,
    rest: Watts = 0,
) -> Capped:
    r"""What a power cap does to a task: clock, time and energy.

    .. math:: P(f) = P_\text{cap}, \qquad t = m + \frac{1 - m}{f}, \qquad
              e = \frac{P(f) + P_\text{rest}}{P(1) + P_\text{rest}}\,t

    Parameters
    ----------
    cap
        Above the static power. A cap above P(1) changes nothing.
    static, dynamic, voltage_floor
        As in :func:`clocked_power`; static and dynamic sum to the draw of this task without a cap.
    fixed
        Share of the time that does not depend on the clock (memory, network), m.
    rest
        What is drawn beside the chip for as long as it works: its share of server, network and cooling.

    Returns
    -------
    Capped

    Raises
    ------
    ValueError
        ``cap`` is not above ``static``.

    Notes
    -----
    Derived from :func:`clocked_power` and the argument of Amdahl 1967. Static 39 W, dynamic 205 W and a floor of 0.80
    give the times at the three caps that McDonald et al. 2022, section 4, measured for BERT on a V100, to 1 %. The
    energy of a chip that reaches its cap is cap times time, so their three energies are only one further check.

    Examples
    --------
    >>> power_cap(500, static=100, dynamic=600, voltage_floor=0.7)
    Capped
               value
    power      500 W
    frequency  87.4%
    speed      87.4%
    time        114%
    energy     81.8%
    """
    if np.any(cap <= static):
        raise ValueError(f"cap must be above static, got {cap} with static {static}")
    chip = {"static": static, "dynamic": dynamic, "voltage_floor": voltage_floor}
    return _at_clock(_clock(cap, **chip), **chip, fixed=fixed, rest=rest)


@law
def best_cap(
    *,
    static: PositiveWatts,
    dynamic: PositiveWatts,
    voltage_floor: PositiveShare,
    fixed: ShareBelowOne = 0,
    rest: Watts = 0,
) -> Capped:
    r"""Power cap at which a task takes the least energy.

    .. math:: \min_f \; \left(P(f) + P_\text{rest}\right) \left(m + \frac{1 - m}{f}\right)

    Parameters
    ----------
    static, dynamic, voltage_floor, fixed, rest
        As in :func:`power_cap`. The more ``rest``, the higher the best cap, above the voltage floor.

    Returns
    -------
    Capped
        Its ``power`` is the cap.

    Notes
    -----
    Derived: the energy falls and then rises with f, so its slope changes sign once; found by bisection. For m = 0 that
    is at :math:`((P_s + P_\text{rest})/2P_d)^{1/3}`, kept between the floor and 1.

    Examples
    --------
    A chip alone, and with the 575 W that a DGX H100 is rated for beside each of its GPUs.

    >>> [round(float(best_cap(static=100, dynamic=600, voltage_floor=0.7, rest=r).power)) for r in (0, 575)]
    [306, 438]
    """
    v, m, r = voltage_floor, fixed, (static + rest) / dynamic
    low, high = 0 * (r + v + m), 1 + 0 * (r + v + m)
    for _ in range(60):
        f = (low + high) / 2
        # The sign of the energy's slope in f: above the floor, and below it.
        slope = np.where(f > v, 3 * m * f**4 + 2 * (1 - m) * f**3, m * v**2 * f**2) - (1 - m) * r
        low, high = np.where(slope <= 0, f, low)[()], np.where(slope <= 0, high, f)[()]
    return _at_clock(high, static=static, dynamic=dynamic, voltage_floor=voltage_floor, fixed=fixed, rest=rest)


def _clock(power: Watts, *, static: Watts, dynamic: Watts, voltage_floor: PositiveShare) -> PositiveShare:
    """The highest clock that a chip reaches within a power: the law of :func:`clocked_power` solved for f."""
    x = (power - static) / dynamic
    return np.minimum(1.0, np.where(x >= voltage_floor**3, np.cbrt(x), x / voltage_floor**2)[()])


def _at_clock(
    frequency: PositiveShare, *, static: Watts, dynamic: Watts, voltage_floor: PositiveShare, fixed: Share, rest: Watts
) -> Capped:
    power = clocked_power.unchecked(frequency, static=static, dynamic=dynamic, voltage_floor=voltage_floor)
    time = fixed + (1 - fixed) / frequency
    return Capped(power, frequency, time, (power + rest) * time / (static + dynamic + rest))


@dataclass(frozen=True, repr=False)
class CappedFleet(Explained):
    """Accelerators that share a power budget. ``speed`` is in equivalents of accelerators without a cap."""

    accelerators: Count
    cap: PositiveWatts  # of one accelerator
    power: PositiveWatts  # of all, with their servers
    speed: Number

    _shown: ClassVar = {"accelerators": "#", "cap": "W", "power": "W", "speed": "uncapped"}


@law
def budget_fleet(
    budget: PositiveWatts,
    accelerators: Count,
    *,
    static: PositiveWatts,
    dynamic: PositiveWatts,
    voltage_floor: PositiveShare,
    fixed: ShareBelowOne = 0,
    rest: Watts = 0,
) -> CappedFleet:
    r"""Most work per second within a power budget: how many accelerators to run, and at which cap.

    .. math:: \max_{n \le N,\, f} \; \frac{n}{t(f)} \quad \text{with} \quad n\,(P(f) + P_\text{rest}) \le B

    Parameters
    ----------
    budget
        IT power, B: the power of the site divided by its PUE.
    accelerators
        Number available, N.
    static, dynamic, voltage_floor, fixed, rest
        As in :func:`power_cap`, for each accelerator that runs.

    Returns
    -------
    CappedFleet
        Within one accelerator of the optimum. Accelerators that do not run are switched off.

    Raises
    ------
    ValueError
        The budget is too small for one accelerator.

    Notes
    -----
    Derived: under a fixed budget, the most work per second is the most work per joule. With accelerators to spare, the
    best cap is that of :func:`best_cap`; otherwise all run, as fast as the budget allows.

    Examples
    --------
    10 MW of IT power feed 7,843 H100s of 700 W with 575 W beside each, or more H100s at a lower clock.

    >>> budget_fleet(10e6, 12_000, static=100, dynamic=600, voltage_floor=0.7, rest=575)
    CappedFleet
                           value
    accelerators           9,876
    cap                    438 W
    power                  10 MW
    speed         8,150 uncapped
    """
    chip = {"static": static, "dynamic": dynamic, "voltage_floor": voltage_floor}
    best = best_cap.unchecked(**chip, fixed=fixed, rest=rest)
    n = np.minimum(accelerators, _floor(budget / (best.power + rest)))
    if np.any(n < 1):
        raise ValueError(f"budget must feed at least one accelerator, got {np.min(budget):g}")
    each = _at_clock(_clock(budget / n - rest, **chip), **chip, fixed=fixed, rest=rest)
    return CappedFleet(n, each.power, n * (each.power + rest), n * each.speed)


# --- The room --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class Outside(Explained):
    """Shares of the time in which outside air is unfit for servers: too ``warm``, or else too ``damp``."""

    warm: Share
    damp: Share

    @property
    def total(self) -> Share:
        """Share of the time in which it cannot be used alone."""
        return self.warm + self.damp

    _shown: ClassVar = {"warm": "%", "damp": "%", "total": "%"}


def outside_envelope(temperature: Celsius, dew: Celsius, *, warmest: Celsius, dampest: Celsius) -> Outside:
    r"""How long outside air is too warm or too damp for servers, hour by hour of a year.

    .. math:: \frac{|\{i: t_i > t_{max}\}|}{n}, \qquad \frac{|\{i: t_i \le t_{max},\; d_i > d_{max}\}|}{n}

    Parameters
    ----------
    temperature : shape (..., hours)
        Of the air outside, t.
    dew : shape (..., hours)
        Its dew point, d, at which the water in it begins to condense; heating the air leaves it as it is.
    warmest, dampest
        The envelope's limits for air at a server's inlet: of ASHRAE's class A2, 35 and 21.

    Returns
    -------
    Outside
        Times 8,760 they are the hours of a year. Air that is too cold counts as fit, since exhaust warms it.

    Raises
    ------
    ValueError
        There is no axis of hours.

    Notes
    -----
    Source: ASHRAE TC 9.9 2021, Thermal Guidelines for Data Processing Environments, for the limits.

    Examples
    --------
    A day of 20 to 38 degrees, with the dew point of Singapore, in class A2 and at the recommended limits:

    >>> day = np.linspace(20, 38, 24)
    >>> outside_envelope(day, 23.0 + 0 * day, warmest=[35, 27], dampest=[21, 15])
    Outside
                              value
    warm   16.7% to 62.5%, 2 values
    damp   37.5% to 83.3%, 2 values
    total        100%, all 2 values
    """
    (t,), (d,) = celsius(temperature=temperature), celsius(dew=dew)
    most, damp = celsius(warmest=warmest, dampest=dampest)
    if np.ndim(t) == 0 or np.shape(t) != np.shape(d):
        raise ValueError(f"temperature and dew must be rows of one length, got {np.shape(t)} and {np.shape(d)}")
    warm = t > np.asarray(most)[..., None]
    return Outside(np.mean(warm, axis=-1), np.mean(~warm & (d > np.asarray(damp)[..., None]), axis=-1))


# --- Swings: the power of a synchronous step -------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class PowerSwing(Explained):
    """A periodic load: its mean, peak and trough in watts, its ``period`` in seconds, its ``buffer`` in joules."""

    mean: Watts
    peak: Watts
    trough: Watts
    period: PositiveSeconds
    buffer: Joules

    @property
    def swing(self) -> Watts:
        """Watts from trough to peak."""
        return self.peak - self.trough

    _shown: ClassVar = {**dict.fromkeys(("mean", "peak", "trough", "swing"), "W"), "period": "s", "buffer": "J"}


def power_swing(power: Watts, durations: PositiveSeconds) -> PowerSwing:
    r"""Swing of a load that cycles through phases, and the energy storage that would flatten it.

    .. math:: \bar P = \frac{\sum_i P_i d_i}{\sum_i d_i}, \qquad
              E = \max_k \sum_{i \le k} (P_i - \bar P)\,d_i - \min_k \sum_{i \le k} (P_i - \bar P)\,d_i

    Parameters
    ----------
    power : shape (..., phases)
        Power of each phase. In synchronous training all accelerators compute, then all wait for the network.
    durations : shape (..., phases)
        Duration of each phase.

    Returns
    -------
    PowerSwing
        ``buffer`` is the least capacity of an ideal store with which the grid sees only the mean. For two phases, with
        a share a of the period T at the high one, it is (high - low) a (1 - a) T.

    Raises
    ------
    ValueError
        ``power`` has no axis of phases.

    Notes
    -----
    Derived: the store supplies the integral of what the load draws above its mean. Choukse et al. 2025 show such swings
    in production; Grattafiori et al. 2024 (Llama 3), section 3.3.4, report tens of megawatts.

    Examples
    --------
    16,384 H100s, 0.8 s at 700 W and 0.2 s at 250 W.

    >>> power_swing([16384 * 700, 16384 * 250], [0.8, 0.2])
    PowerSwing
              value
    mean    9.99 MW
    peak    11.5 MW
    trough   4.1 MW
    swing   7.37 MW
    period      1 s
    buffer  1.18 MJ
    """
    (watts,), (seconds,) = nonnegative(power=power), positive(durations=durations)
    nonnegative(power=watts, durations=seconds)  # their shapes must broadcast
    if np.ndim(watts) == 0:
        raise ValueError(f"power must be an array of phases, got {power}")
    period = np.sum(seconds * np.ones(np.shape(watts)), axis=-1)
    mean = np.sum(watts * seconds, axis=-1) / period
    stored = np.cumsum((watts - mean[..., None]) * seconds, axis=-1)
    buffer = np.max(stored, axis=-1) - np.min(stored, axis=-1)
    return PowerSwing(mean, np.max(watts, axis=-1), np.min(watts, axis=-1), period, buffer)


# --- Capacity, and backup --------------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class Capacity(Explained):
    """How many units fit within each limit. ``counts`` maps each resource to the number that it alone would allow."""

    counts: Mapping[str, float]

    @property
    def count(self) -> Amount:
        """Number of units that fit within all limits."""
        return least(self.counts)[0]

    @property
    def binding(self) -> Numeric:
        """Name of the resource that allows the fewest units (the first, if several do)."""
        return least(self.counts)[1]

    def _rows(self) -> Rows:
        rows = [("resource", "count")]
        counts = {**self.counts, "all": self.count}
        return rows + [(words(n), summary(np.asarray(c).astype(int)[()], "")) for n, c in counts.items()]


def capacity(**resources: tuple[Amount, Number]) -> Capacity:
    r"""How many units fit within all limits: servers in a rack, racks in a hall, accelerators in a site's megawatts.

    .. math:: n = \min_r \lfloor \text{limit}_r / \text{use}_r \rfloor

    Parameters
    ----------
    **resources : (limit, use of one)
        One pair for each resource, under a name of your choice: both in watts, in rack units, and so on.

    Returns
    -------
    Capacity
        The count for each resource, the least of them, and the name of the ``binding`` resource.

    Notes
    -----
    Source: arithmetic. Only whole units count: three servers of 10.2 kW leave 9.4 kW of a 40 kW rack unused.

    Examples
    --------
    DGX H100 of 8 rack units in a rack of 48.

    >>> capacity(power=(40e3, 10.2e3), space=(48, 8))
    Capacity
    resource  count
    power         3
    space         6
    all           3
    """
    counts = {}
    for name, limit, use in pairs_of("capacity needs at least one resource", "limit, use of one", resources):
        (limit,) = nonnegative(**{f"{name} limit": limit})
        (use,) = positive(**{f"{name} use": use})
        counts[name] = _floor(limit / use)
    return Capacity(MappingProxyType(counts))


@law
def holdover(stored: Joules, power: PositiveWatts, *, efficiency: PositiveShare = 1) -> Seconds:
    r"""Time for which a battery or the fuel of a generator carries a load.

    .. math:: t = \eta\, E / P

    Parameters
    ----------
    stored
        Energy of the battery, or heat of the fuel, E.
    power
        Load: of the whole site, because cooling must run too.
    efficiency
        Share of the stored energy that reaches the load, eta.

    Notes
    -----
    Source: conservation of energy. Diesel holds 137,381 Btu per gallon, or 38.3 MJ per litre, of gross heat (EIA 2022);
    that a generator turns 38 % of it into electricity is assumed here. Makers use the net heat, about 7 % less.

    Examples
    --------
    100 m³ of diesel under a site of 9.8 MW: 41 hours. A battery of 2 MWh: twelve minutes.

    >>> from clusterlab.units import MWh, fmt
    >>> fmt(holdover(100e3 * 38.3e6, 9.8e6, efficiency=0.38), "h"), fmt(holdover(2 * MWh, 9.8e6), "min")
    ('41.3 h', '12.2 min')
    """
    return efficiency * stored / power
