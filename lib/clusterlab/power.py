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
from functools import reduce
from types import MappingProxyType
from typing import ClassVar

import numpy as np

from . import catalogue
from .checks import at_least_one, broadcastable, celsius, fraction, nonnegative, positive, whole
from .records import Explained, Parts, Predicted, amounts, summary, words


def _floor(count):
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


def load(**parts) -> Load:
    r"""Load made of its parts.

    .. math:: P = \sum_i n_i P_i

    Parameters
    ----------
    **parts : watts, or (count, watts each)
        One for each part, under a name of your choice.

    Returns
    -------
    Load

    Raises
    ------
    ValueError
        No part is given, or a part is not a number or a pair of numbers, is negative or is not finite.

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


def convert(fed: Load, efficiency, *, name="conversion losses") -> Load:
    r"""Load at the input of a conversion stage: a power supply, a UPS, a transformer, a transmission line.

    .. math:: P_\text{in} = P_\text{out} / \eta, \qquad P_\text{loss} = P_\text{out}\,(1/\eta - 1)

    Parameters
    ----------
    fed : Load
        Load at the output, W.
    efficiency : array_like
        Output over input power, in (0, 1], eta.
    name : str
        Name of the part that holds the loss; losses of the same name add.

    Returns
    -------
    Load
        The parts of ``fed``, and the loss as a further part.

    Raises
    ------
    ValueError
        ``efficiency`` is outside (0, 1].

    Notes
    -----
    Source: definition of efficiency. 80 PLUS Titanium requires 96 % of a 230 V supply at half load, 91 % at full load.

    Examples
    --------
    >>> round(float(convert(load(server=960), 0.96).total), 6)
    1000.0
    """
    (eta,) = fraction(efficiency=efficiency)
    return fed + Load({name: fed.total * (1 / eta - 1)})


def cluster_load(accelerators, accelerator_power, *, server_overhead=1, network_share=0) -> Load:
    r"""IT load of a cluster by rules of thumb.

    .. math:: P_\text{IT} = N P\, k \,(1 + s)

    Parameters
    ----------
    accelerators : array_like
        Number of accelerators, N.
    accelerator_power : array_like
        Power of one, W, P: its TDP to size the supply, its mean draw for the energy used.
    server_overhead : array_like
        Power of a server over that of its accelerators, at least 1, k.
    network_share : array_like
        Power of switches, storage and management over that of the servers, s.

    Returns
    -------
    Load
        Accelerators, the rest of their servers, and network with storage. Cooling is not included: it is in the PUE.

    Raises
    ------
    ValueError
        ``accelerators`` is not a positive integer, ``accelerator_power`` is not positive, ``server_overhead`` is below
        1 or ``network_share`` is negative.

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
    (count,) = whole(accelerators=accelerators)
    (each,) = positive(accelerator_power=accelerator_power)
    (k,) = at_least_one(server_overhead=server_overhead)
    (s,) = nonnegative(network_share=network_share)
    chips = count * each
    return load(**{"accelerators": chips, "rest of servers": chips * (k - 1), "network and storage": chips * k * s})


def pue(facility_power, it_power):
    r"""Power usage effectiveness (PUE): watts that a site draws for each watt of its IT equipment.

    .. math:: \text{PUE} = P_\text{facility} / P_\text{IT} \ge 1

    Parameters
    ----------
    facility_power, it_power : array_like
        W, or J over a year, as PUEs are reported.

    Returns
    -------
    array_like
        At least 1.

    Raises
    ------
    ValueError
        An argument is not positive, or ``it_power`` exceeds ``facility_power``.

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
    site, it = positive(facility_power=facility_power, it_power=it_power)
    if np.any(it > site):
        raise ValueError(f"it_power must be at most facility_power, got {it_power} of {facility_power}")
    return site / it


def facility(it: Load, pue, *, name="cooling and distribution") -> Load:
    r"""Load of a site by its PUE.

    .. math:: P_\text{facility} = \text{PUE} \cdot P_\text{IT}

    Parameters
    ----------
    it : Load
        IT equipment, W, without anything that cools the hall, which would be counted twice.
    pue : array_like
        At least 1.
    name : str
        Name of the part that is added.

    Returns
    -------
    Load
        The parts of the IT load, and the overhead (PUE - 1) times their total.

    Raises
    ------
    ValueError
        ``pue`` is below 1.

    Notes
    -----
    Source: The Green Grid 2007.

    Examples
    --------
    >>> float(facility(load(H100=(10_000, 700)), 1.4).total)
    9800000.0
    """
    (ratio,) = at_least_one(pue=pue)
    return it + Load({name: it.total * (ratio - 1)})


def site(it: Load, *, distribution, cop, other=0) -> Load:
    r"""Load of a site from the efficiency of its power distribution and its cooling, which determine its PUE.

    .. math:: P = \frac{P_\text{IT}}{\eta}\left(1 + \frac{1}{\text{COP}}\right) + P_\text{other}

    Parameters
    ----------
    it : Load
        IT equipment, W.
    distribution : array_like
        Efficiency of transformers, UPS and busbars together, in (0, 1], eta.
    cop : array_like
        Coefficient of performance (COP): heat removed per joule that fans, pumps and chillers of the site draw.
    other : array_like
        Lighting, offices and so on, W. Their heat is neglected.

    Returns
    -------
    Load
        The parts of the IT load, distribution losses, cooling (of the losses too) and other.

    Raises
    ------
    ValueError
        ``distribution`` is outside (0, 1], ``cop`` is not positive, or ``other`` is negative.

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
    (ratio,), (rest,), (eta,) = positive(cop=cop), nonnegative(other=other), fraction(distribution=distribution)
    fed = convert(it, eta, name="distribution losses")
    return fed + Load({"cooling": fed.total / ratio}) + Load({"other": rest})


# --- Draw: what a rating becomes --------------------------------------------------------------------------------------

# Kind: fitted, to MLPerf Training v4.0's servers of eight H100 in oil (data/power.csv, group draw): five jobs on eight,
# nine or 64 servers, where each works at 51 to 75 % of the speed that it has alone. Of single jobs .41 to .64.
WAITING_DRAW = 0.47


@dataclass(frozen=True, repr=False)
class Draw(Predicted):
    """Mean draw of servers that work and wait: ``power`` in watts, ``speed`` as a share of that without waiting.

    ``low`` and ``high`` hold eight of ten measured draws: the spread ``power`` of :data:`clusterlab.catalogue.SPREADS`.
    """

    power: float
    speed: float

    def _predicted(self):
        spread = catalogue.SPREADS["power"]
        return self.power, spread.low * self.power, spread.high * self.power, "W"

    def _rows(self):
        return [("", "value"), ("power", self.with_interval), ("speed", summary(self.speed, "%"))]


def mean_draw(rating, *, utilisation, waiting=0, waiting_draw=WAITING_DRAW) -> Draw:
    r"""Mean draw of servers with a rating, which wait for the network for a share of the time.

    .. math:: P = R\, u\,\left[1 - (1 - q)\, w\right], \qquad v = 1 - w

    Parameters
    ----------
    rating : array_like
        What the servers, or their accelerators, are rated at, W, R.
    utilisation : array_like
        Draw over that rating while they work, u. Of the servers' rating it is below 1; of their accelerators' alone
        about 1.22 where a liquid cools, more with fans.
    waiting : array_like
        Share of the time in which they wait for the network, w, from 0 to 1.
    waiting_draw : array_like
        Draw while waiting over the draw at work, q: what waits keeps its clock, its memory and its links, and polls.

    Returns
    -------
    Draw

    Raises
    ------
    ValueError
        ``rating`` or ``utilisation`` is not positive, or ``waiting`` or ``waiting_draw`` is not between 0 and 1.

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
    watts, u = positive(rating=rating, utilisation=utilisation)
    w, q = nonnegative(waiting=waiting, waiting_draw=waiting_draw)
    broadcastable(rating=watts, utilisation=u, waiting=w, waiting_draw=q)
    for name, value in (("waiting", w), ("waiting_draw", q)):
        if np.any(value > 1):
            raise ValueError(f"{name} must be between 0 and 1, got {np.max(value):g}")
    full = watts * u
    return Draw(full * (1 - (1 - q) * w), (1 - w + 0 * q) * (full / full))


# --- Energy, money, carbon, water ------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class EnergyFootprint(Explained):
    """What a load used over a time: joules, dollars, kilograms of carbon dioxide equivalent and cubic metres of water.

    ``it_energy`` and ``overhead_energy`` sum to ``energy``.
    """

    it_energy: float
    overhead_energy: float
    cost: float
    carbon: float
    water: float

    @property
    def energy(self):
        """Joules at the meter of the site."""
        return self.it_energy + self.overhead_energy

    def _rows(self):
        rows = [("", "value")]
        rows += [(words(n), summary(getattr(self, n), "MWh")) for n in ("it_energy", "overhead_energy")]
        rows += [("energy", summary(self.energy, "MWh")), ("cost", summary(self.cost, "$"))]
        return [*rows, ("carbon", summary(self.carbon / 1000, "t CO2e")), ("water", summary(self.water, "m³"))]


def energy_footprint(it_power, duration, *, pue, price=0, carbon_intensity=0, water_usage=0) -> EnergyFootprint:
    r"""Energy, cost, carbon and water of a load that runs for a time.

    .. math:: E = \text{PUE}\; P\, t, \qquad \text{cost} = p\,E, \qquad \text{carbon} = c\,E, \qquad W = w\,P\,t

    Parameters
    ----------
    it_power : array_like
        Mean draw of the IT equipment, W, P, which is below its rating.
    duration : array_like
        Seconds, t.
    pue : array_like
        At least 1.
    price : array_like
        $/J of the site's energy, p: ``0.083 / kWh``.
    carbon_intensity : array_like
        kg/J of the grid, c: ``0.369 / kWh``.
    water_usage : array_like
        m³/J of IT energy, w: ``1.8e-3 / kWh``. The WUE is usually given in litres on site per kWh of IT.

    Returns
    -------
    EnergyFootprint

    Raises
    ------
    ValueError
        An argument is negative or not finite, or ``pue`` is below 1.

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
    (ratio,) = at_least_one(pue=pue)
    power, time, p, c, w = nonnegative(
        it_power=it_power,
        duration=duration,
        price=price,
        carbon_intensity=carbon_intensity,
        water_usage=water_usage,
    )
    it = power * time
    energy = it * ratio
    return EnergyFootprint(it_energy=it, overhead_energy=energy - it, cost=energy * p, carbon=energy * c, water=it * w)


# --- Heat: what carries it off ---------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class Coolant(Explained):
    """A fluid that carries heat: kg/m³ and J/(kg K), at one temperature and 101,325 Pa."""

    name: str
    density: float
    heat_capacity: float
    source: str


# Kind: derived from the equations named, evaluated by CoolProp 8.0.0 (2026-11), to four digits.
AIR = Coolant("dry air, 25 °C", 1.184, 1006.0, "Lemmon et al. 2000")
WATER = Coolant("water, 30 °C", 995.6, 4180.0, "Wagner and Pruss 2002 (IAPWS-95)")
GLYCOL = Coolant("water with 25 % propylene glycol by mass, 35 °C", 1012.0, 3957.0, "Melinder 2010")


def coolant_flow(heat, rise, coolant: Coolant):
    r"""Coolant flow that removes a heat load at a given temperature rise.

    .. math:: \dot V = \frac{Q}{\rho\, c\, \Delta T}

    Parameters
    ----------
    heat : array_like
        W, Q: in steady state the electrical power of what is cooled.
    rise : array_like
        Temperature of the coolant at the outlet minus that at the inlet, K.
    coolant : Coolant
        ``AIR``, ``WATER``, ``GLYCOL`` or your own.

    Returns
    -------
    array_like
        m³/s.

    Raises
    ------
    ValueError
        An argument is not positive and finite.

    Notes
    -----
    Source: first law of thermodynamics, Q = m c dT.

    Examples
    --------
    A rack of 120 kW at a rise of 10 K: ten cubic metres of air per second, or three litres of water.

    >>> [round(float(coolant_flow(120e3, 10, c)), 4) for c in (AIR, WATER)]
    [10.0747, 0.0029]
    """
    q, dt, rho, c = positive(heat=heat, rise=rise, density=coolant.density, heat_capacity=coolant.heat_capacity)
    return q / (rho * c * dt)


def heat_removed(flow, rise, coolant: Coolant):
    r"""Heat that a coolant flow removes.

    .. math:: Q = \rho\, c\, \dot V\, \Delta T

    Through an opening of area A, such as the face of a rack, at mean velocity v the flow is A v.

    Parameters
    ----------
    flow, rise : array_like
        m³/s and K.
    coolant : Coolant
        ``AIR``, ``WATER``, ``GLYCOL`` or your own.

    Returns
    -------
    array_like
        W.

    Raises
    ------
    ValueError
        An argument is not positive and finite.

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
    v, dt, rho, c = positive(flow=flow, rise=rise, density=coolant.density, heat_capacity=coolant.heat_capacity)
    return rho * c * v * dt


def fan_power(flow, *, rated_flow, rated_power):
    r"""Power of a fan or pump at another speed in the same duct: the cube law.

    .. math:: P = P_0\,(\dot V/\dot V_0)^3

    Parameters
    ----------
    flow, rated_flow : array_like
        m³/s.
    rated_power : array_like
        W at the rated flow.

    Returns
    -------
    array_like
        W. Real fans save a little less when they slow down, because some losses do not scale. Servers have fans of
        their own, in parallel: the fans' share of the power does not change with the number of servers.

    Raises
    ------
    ValueError
        An argument is negative, or the rated flow is zero.

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
    (rated,) = positive(rated_flow=rated_flow)
    v, power, _ = nonnegative(flow=flow, rated_power=rated_power, rated_flow=rated_flow)
    return power * (v / rated) ** 3


# --- Energy of the work ----------------------------------------------------------------------------------------------


def energy_per(power, rate):
    r"""Energy per unit of work: a FLOP, a token, a training step.

    .. math:: e = P / R

    Parameters
    ----------
    power : array_like
        W of everything that is to be counted: the chip, its share of the server, the site.
    rate : array_like
        Work per second at that power: FLOP/s, tokens/s, steps/s.

    Returns
    -------
    array_like
        J per unit of work.

    Raises
    ------
    ValueError
        ``power`` is negative, or ``rate`` is not positive.

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
    (watts,) = nonnegative(power=power)
    (r,) = positive(rate=rate)
    return watts / r


# --- Power caps: time against energy ---------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class Capped(Explained):
    """A task on a chip with a power cap. ``power`` is the chip's, in watts; the others are relative to no cap.

    ``energy`` includes that of the ``rest`` of the system.
    """

    power: float
    frequency: float
    time: float
    energy: float

    @property
    def speed(self):
        """Work per second relative to that without a cap."""
        return 1 / self.time

    def _rows(self):
        rows = [("", "value"), ("power", summary(self.power, "W"))]
        return rows + [(name, summary(getattr(self, name), "%")) for name in ("frequency", "speed", "time", "energy")]


def _task(static, dynamic, voltage_floor, fixed, rest) -> list:
    """Constants of a chip and of a task on it, checked."""
    s, d = positive(static=static, dynamic=dynamic)
    (v,) = fraction(voltage_floor=voltage_floor)
    m, beside = nonnegative(fixed=fixed, rest=rest)
    if np.any(np.greater_equal(m, 1)):
        raise ValueError(f"fixed must be below 1, got {np.max(m):g}")
    return [s, d, v, m, beside]


def _clock(power, s, d, v):
    """The highest clock that a chip reaches within a power: the law of :func:`clocked_power` solved for f."""
    x = (power - s) / d
    return np.minimum(1.0, np.where(x >= v**3, np.cbrt(x), x / v**2)[()])


def _capped(f, s, d, v, m, beside) -> Capped:
    power = clocked_power(f, static=s, dynamic=d, voltage_floor=v)
    time = m + (1 - m) / f
    return Capped(power, f, time, (power + beside) * time / (s + d + beside))


def clocked_power(frequency, *, static, dynamic, voltage_floor):
    r"""Power of a busy chip at a reduced clock: a static and a dynamic part.

    .. math:: P(f) = P_s + P_d\, f\, v(f)^2, \qquad v(f) = \max(f, v_0)

    Parameters
    ----------
    frequency : array_like
        Clock relative to the highest clock, in (0, 1], f.
    static, dynamic : array_like
        Power that does not depend on the clock (leakage, memory, links), P_s, and power at f = 1 that does, P_d, W.
    voltage_floor : array_like
        Lowest voltage relative to the highest, in (0, 1], v_0.

    Returns
    -------
    array_like
        W.

    Raises
    ------
    ValueError
        ``frequency`` or ``voltage_floor`` is outside (0, 1], or a power is not positive.

    Notes
    -----
    Source: dynamic power goes as f V² (Weste and Harris, CMOS VLSI Design, chapter 5). Guerreiro et al. 2018 (HPCA)
    find a GPU's voltage constant at low clocks and linear above; here the line goes through the origin.

    Examples
    --------
    >>> round(float(clocked_power(0.8, static=120, dynamic=580, voltage_floor=0.75)))
    417
    """
    (f,) = fraction(frequency=frequency)
    s, d, v, *_ = _task(static, dynamic, voltage_floor, 0, 0)
    return s + d * f * np.maximum(f, v) ** 2


def power_cap(cap, *, static, dynamic, voltage_floor, fixed=0, rest=0) -> Capped:
    r"""What a power cap does to a task: clock, time and energy.

    .. math:: P(f) = P_\text{cap}, \qquad t = m + \frac{1 - m}{f}, \qquad
              e = \frac{P(f) + P_\text{rest}}{P(1) + P_\text{rest}}\,t

    Parameters
    ----------
    cap : array_like
        W, above the static power. A cap above P(1) changes nothing.
    static, dynamic, voltage_floor : array_like
        As in :func:`clocked_power`; static and dynamic sum to the draw of this task without a cap.
    fixed : array_like
        Share of the time that does not depend on the clock (memory, network), from 0 to below 1, m.
    rest : array_like
        W that are drawn beside the chip for as long as it works: its share of server, network and cooling.

    Returns
    -------
    Capped

    Raises
    ------
    ValueError
        As in :func:`clocked_power`, ``cap`` is not above ``static``, ``fixed`` is not below 1 or ``rest`` is negative.

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
    task = _task(static, dynamic, voltage_floor, fixed, rest)
    (limit,) = positive(cap=cap)
    if np.any(limit <= task[0]):
        raise ValueError(f"cap must be above static, got {cap} with static {static}")
    return _capped(_clock(limit, *task[:3]), *task)


def best_cap(*, static, dynamic, voltage_floor, fixed=0, rest=0) -> Capped:
    r"""Power cap at which a task takes the least energy.

    .. math:: \min_f \; \left(P(f) + P_\text{rest}\right) \left(m + \frac{1 - m}{f}\right)

    Parameters
    ----------
    static, dynamic, voltage_floor, fixed, rest : array_like
        As in :func:`power_cap`. The more ``rest``, the higher the best cap, above the voltage floor.

    Returns
    -------
    Capped
        Its ``power`` is the cap.

    Raises
    ------
    ValueError
        As in :func:`power_cap`.

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
    s, d, v, m, beside = task = _task(static, dynamic, voltage_floor, fixed, rest)
    r = (s + beside) / d
    low, high = 0 * (r + v + m), 1 + 0 * (r + v + m)
    for _ in range(60):
        f = (low + high) / 2
        # The sign of the energy's slope in f: above the floor, and below it.
        slope = np.where(f > v, 3 * m * f**4 + 2 * (1 - m) * f**3, m * v**2 * f**2) - (1 - m) * r
        low, high = np.where(slope <= 0, f, low)[()], np.where(slope <= 0, high, f)[()]
    return _capped(high, *task)


@dataclass(frozen=True, repr=False)
class Fleet(Explained):
    """Accelerators that share a power budget. ``speed`` is in equivalents of accelerators without a cap."""

    accelerators: float
    cap: float  # W of one accelerator
    power: float  # W of all, with their servers
    speed: float

    def _rows(self):
        rows = [("", "value"), ("accelerators", summary(np.asarray(self.accelerators).astype(int)[()], ""))]
        rows += [(name, summary(getattr(self, name), "W")) for name in ("cap", "power")]
        return [*rows, ("speed", summary(self.speed, "uncapped"))]


def budget_fleet(budget, accelerators, *, static, dynamic, voltage_floor, fixed=0, rest=0) -> Fleet:
    r"""Most work per second within a power budget: how many accelerators to run, and at which cap.

    .. math:: \max_{n \le N,\, f} \; \frac{n}{t(f)} \quad \text{with} \quad n\,(P(f) + P_\text{rest}) \le B

    Parameters
    ----------
    budget : array_like
        IT power, W, B: the power of the site divided by its PUE.
    accelerators : array_like
        Number available, N.
    static, dynamic, voltage_floor, fixed, rest : array_like
        As in :func:`power_cap`, for each accelerator that runs.

    Returns
    -------
    Fleet
        Within one accelerator of the optimum. Accelerators that do not run are switched off.

    Raises
    ------
    ValueError
        As in :func:`power_cap`, ``accelerators`` is not a positive integer, or the budget is too small for one.

    Notes
    -----
    Derived: under a fixed budget, the most work per second is the most work per joule. With accelerators to spare, the
    best cap is that of :func:`best_cap`; otherwise all run, as fast as the budget allows.

    Examples
    --------
    10 MW of IT power feed 7,843 H100s of 700 W with 575 W beside each, or more H100s at a lower clock.

    >>> budget_fleet(10e6, 12_000, static=100, dynamic=600, voltage_floor=0.7, rest=575)
    Fleet
                           value
    accelerators           9,876
    cap                    438 W
    power                  10 MW
    speed         8,150 uncapped
    """
    (limit,), (count,) = positive(budget=budget), whole(accelerators=accelerators)
    s, d, v, m, beside = _task(static, dynamic, voltage_floor, fixed, rest)
    best = best_cap(static=s, dynamic=d, voltage_floor=v, fixed=m, rest=beside)
    n = np.minimum(count, _floor(limit / (best.power + beside)))
    if np.any(n < 1):
        raise ValueError(f"budget must feed at least one accelerator, got {np.min(limit):g}")
    each = _capped(_clock(limit / n - beside, s, d, v), s, d, v, m, beside)
    return Fleet(n, each.power, n * (each.power + beside), n * each.speed)


# --- The room --------------------------------------------------------------------------------------------------------


def dew_point(temperature, humidity):
    r"""Temperature at which the water in the air begins to condense.

    .. math:: t_d = \frac{b\,\gamma}{a - \gamma}, \qquad \gamma = \ln \varphi + \frac{a\,t}{b + t}

    Parameters
    ----------
    temperature : array_like
        Of the air, t, in degrees Celsius.
    humidity : array_like
        Relative humidity, phi, above 0 and at most 1.

    Returns
    -------
    array_like
        Degrees Celsius. Heating the air, or mixing in dry exhaust, leaves it as it is.

    Raises
    ------
    ValueError
        An argument is out of range.

    Notes
    -----
    Source: Magnus's formula over water, WMO 2008 (Guide to Meteorological Instruments, annex 4.B): a = 17.62 and
    b = 243.12. Good to 0.1 degrees from -45 to 60.

    Examples
    --------
    >>> round(float(dew_point(25, 0.6)), 1)
    16.7
    """
    (t,), (share,) = celsius(temperature=temperature), fraction(humidity=humidity)
    broadcastable(temperature=t, humidity=share)
    gamma = np.log(share) + 17.62 * t / (243.12 + t)
    return 243.12 * gamma / (17.62 - gamma)


@dataclass(frozen=True, repr=False)
class Outside(Explained):
    """Shares of the time in which outside air is unfit for servers: too ``warm``, or else too ``damp``."""

    warm: float
    damp: float

    @property
    def total(self):
        """Share of the time in which it cannot be used alone."""
        return self.warm + self.damp

    def _rows(self):
        return [("", "value"), *((name, summary(getattr(self, name), "%")) for name in ("warm", "damp", "total"))]


def outside_envelope(temperature, dew, *, warmest, dampest) -> Outside:
    r"""How long outside air is too warm or too damp for servers, hour by hour of a year.

    .. math:: \frac{|\{i: t_i > t_{max}\}|}{n}, \qquad \frac{|\{i: t_i \le t_{max},\; d_i > d_{max}\}|}{n}

    Parameters
    ----------
    temperature : array_like, shape (..., hours)
        Of the air outside, t, in degrees Celsius.
    dew : array_like, shape (..., hours)
        Its dew point, d, in degrees Celsius (:func:`dew_point`).
    warmest, dampest : array_like
        The envelope's limits for air at a server's inlet, in degrees Celsius: of ASHRAE's class A2, 35 and 21.

    Returns
    -------
    Outside
        Times 8,760 they are the hours of a year. Air that is too cold counts as fit, since exhaust warms it.

    Raises
    ------
    ValueError
        A temperature is out of range, or there is no axis of hours.

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
    (t,), (d,), (most, damp) = (
        celsius(temperature=temperature),
        celsius(dew=dew),
        celsius(warmest=warmest, dampest=dampest),
    )
    if np.ndim(t) == 0 or np.shape(t) != np.shape(d):
        raise ValueError(f"temperature and dew must be rows of one length, got {np.shape(t)} and {np.shape(d)}")
    warm = t > np.asarray(most)[..., None]
    return Outside(np.mean(warm, axis=-1), np.mean(~warm & (d > np.asarray(damp)[..., None]), axis=-1))


# --- Swings: the power of a synchronous step -------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class Swing(Explained):
    """A periodic load: its mean, peak and trough in watts, its ``period`` in seconds, its ``buffer`` in joules."""

    mean: float
    peak: float
    trough: float
    period: float
    buffer: float

    @property
    def swing(self):
        """Watts from trough to peak."""
        return self.peak - self.trough

    def _rows(self):
        rows = [("", "value")]
        rows += [(name, summary(getattr(self, name), "W")) for name in ("mean", "peak", "trough", "swing")]
        return [*rows, ("period", summary(self.period, "s")), ("buffer", summary(self.buffer, "J"))]


def power_swing(power, durations) -> Swing:
    r"""Swing of a load that cycles through phases, and the energy storage that would flatten it.

    .. math:: \bar P = \frac{\sum_i P_i d_i}{\sum_i d_i}, \qquad
              E = \max_k \sum_{i \le k} (P_i - \bar P)\,d_i - \min_k \sum_{i \le k} (P_i - \bar P)\,d_i

    Parameters
    ----------
    power : array_like, shape (..., phases)
        Power of each phase, W. In synchronous training all accelerators compute, then all wait for the network.
    durations : array_like, shape (..., phases)
        Duration of each phase, seconds.

    Returns
    -------
    Swing
        ``buffer`` is the least capacity of an ideal store with which the grid sees only the mean. For two phases, with
        a share a of the period T at the high one, it is (high - low) a (1 - a) T.

    Raises
    ------
    ValueError
        A power is negative, a duration is not positive, or ``power`` has no axis of phases.

    Notes
    -----
    Derived: the store supplies the integral of what the load draws above its mean. Choukse et al. 2025 show such swings
    in production; Grattafiori et al. 2024 (Llama 3), section 3.3.4, report tens of megawatts.

    Examples
    --------
    16,384 H100s, 0.8 s at 700 W and 0.2 s at 250 W.

    >>> power_swing([16384 * 700, 16384 * 250], [0.8, 0.2])
    Swing
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
    return Swing(mean, np.max(watts, axis=-1), np.min(watts, axis=-1), period, buffer)


# --- Capacity, and backup --------------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class Capacity(Explained):
    """How many units fit within each limit. ``counts`` maps each resource to the number that it alone would allow."""

    counts: Mapping[str, float]

    @property
    def count(self):
        """Number of units that fit within all limits."""
        return reduce(np.minimum, self.counts.values())

    @property
    def binding(self):
        """Name of the resource that allows the fewest units (the first, if several do)."""
        fewest = np.argmin(np.broadcast_arrays(*self.counts.values()), axis=0)
        names = np.array(list(self.counts))[fewest]
        return str(names) if np.ndim(names) == 0 else names

    def _rows(self):
        rows = [("resource", "count")]
        counts = {**self.counts, "all": self.count}
        return rows + [(words(n), summary(np.asarray(c).astype(int)[()], "")) for n, c in counts.items()]


def capacity(**resources) -> Capacity:
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

    Raises
    ------
    ValueError
        No resource is given, one is not a pair, a limit is negative, a use is not positive, or one is not finite.

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
    if not resources:
        raise ValueError("capacity needs at least one resource, as name=(limit, use of one)")
    counts = {}
    for name, pair in resources.items():
        try:
            limit, use = pair
        except (TypeError, ValueError):
            raise ValueError(f"{name} must be a pair (limit, use of one), got {pair!r}") from None
        (limit,) = nonnegative(**{f"{name} limit": limit})
        (use,) = positive(**{f"{name} use": use})
        counts[name] = _floor(limit / use)
    return Capacity(MappingProxyType(counts))


def holdover(stored, power, *, efficiency=1):
    r"""Time for which a battery or the fuel of a generator carries a load.

    .. math:: t = \eta\, E / P

    Parameters
    ----------
    stored : array_like
        Energy of the battery, or heat of the fuel, J, E.
    power : array_like
        Load, W: of the whole site, because cooling must run too.
    efficiency : array_like
        Share of the stored energy that reaches the load, in (0, 1], eta.

    Returns
    -------
    array_like
        Seconds.

    Raises
    ------
    ValueError
        ``stored`` is negative, ``power`` is not positive, or ``efficiency`` is outside (0, 1].

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
    (energy,) = nonnegative(stored=stored)
    (watts,) = positive(power=power)
    (eta,) = fraction(efficiency=efficiency)
    return eta * energy / watts
