r"""Economics: what a cluster costs, what a unit of its work costs, and what that work is spent on.

A :class:`Bill` is dollars by named part, as a load is watts. Building costs once and is paid off over a life
(:func:`annuity`); energy and operations cost every year; all of it is divided by what came out (:func:`cost_per`).
Money is in dollars of the day, before taxes, and yearly amounts are dollars a year.

Prices, useful lives and scaling laws are data: ``data/economics.toml`` has each with its source and date. Prices age
within months. Every law takes them as arguments; ``dataclasses.replace`` makes a what-if of a list.

The ledger counts FLOPs: 6 for each parameter and token trained on, 2 for each one generated or read.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from types import MappingProxyType
from typing import ClassVar

import numpy as np

from ..catalogue import (
    SCALING_LAWS,
    PriceList,
    ScalingLaw,
)
from ..checks import at_least_one, broadcastable, fraction, nonnegative, positive, whole
from ..records import Explained, Parts, amounts, summary
from ..units import fmt, year

# --- Bills -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class Bill(Parts):
    """Dollars by part; ``total`` is their sum.

    Bills add (parts of the same name are summed) and scale (``2 * bill``). Parts broadcast.

    Examples
    --------
    >>> 2 * bill(servers=(32, 310e3), network=4.35e6) + bill(building=1e6)
    Bill
              dollars  share
    servers    $19.8M  67.2%
    network     $8.7M  29.5%
    building      $1M  3.39%
    total      $29.5M   100%
    """

    _heading: ClassVar[str] = "dollars"
    _unit: ClassVar[str] = "$"

    def lost(self, share, name: str = "lost") -> Bill:
        """Return the same total with a ``share`` of every part under a name of its own: what bought nothing.

        Examples
        --------
        >>> bill(GPUs=80.0, energy=20.0).lost(0.1, "failures").parts["failures"]
        10.0
        """
        (part,) = nonnegative(share=share)
        if np.any(part > 1):
            raise ValueError(f"share must be at most 1, got {np.max(part):g}")
        return (1 - part) * self + Bill({name: part * self.total})


def bill(**parts) -> Bill:
    r"""Bill made of its parts.

    .. math:: C = \sum_i n_i c_i

    Parameters
    ----------
    **parts : dollars, or (count, dollars each)
        One for each part, under a name of your choice.

    Returns
    -------
    Bill

    Raises
    ------
    ValueError
        No part is given, or a part is not a number or a pair of numbers, is negative or is not finite.

    Examples
    --------
    >>> bill(servers=(2048, 310e3), switches=(768, 36e3)).total
    662528000.0
    """
    return Bill(amounts("bill", "dollars", parts))


# What a site of so many watts has, and keeps for longer than servers.
_SITE = ("substation", "generators", "electrical", "cooling", "building")
_USED = ("energy", "water")  # what is paid by the joule, and not while nothing runs


def capital(gpus, site_power, prices: PriceList) -> Bill:
    r"""What a cluster costs to build.

    .. math:: C = n \sum_i c_i + P \sum_j w_j

    Parameters
    ----------
    gpus : array_like
        GPUs, n.
    site_power : array_like
        What the site can draw, W, P: :func:`clusterlab.power.facility` of what is rated.
    prices : PriceList
        Its prices for each GPU, c, and for each watt, w.

    Returns
    -------
    Bill

    Raises
    ------
    ValueError
        ``gpus`` is not a positive integer, or ``site_power`` is not positive.

    Examples
    --------
    A gigawatt of NVL72 racks, at the prices behind Bernstein's $35 billion:

    >>> from clusterlab.catalogue import price_list
    >>> capital(72 * 5932, 1e9, price_list("GB200 NVL72"))
    Bill
                dollars   share
    GPUs         $13.6B     39%
    servers      $1.48B   4.23%
    network      $4.55B     13%
    storage       $490M    1.4%
    substation    $300M  0.857%
    generators    $2.1B      6%
    electrical   $5.87B   16.8%
    cooling       $3.4B   9.71%
    building     $3.16B   9.03%
    total          $35B    100%
    """
    (count,), (watts,) = whole(gpus=gpus), positive(site_power=site_power)
    broadcastable(gpus=count, site_power=watts)
    parts = {} if prices.gpus is None else {"GPUs": count * prices.gpus}
    parts |= {name: count * getattr(prices, name) for name in ("servers", "network", "storage")}
    return Bill(MappingProxyType(parts | {name: watts * getattr(prices, name) for name in _SITE}))


def annuity(capital, *, rate, life):
    r"""What a capital costs each year of its life, interest and repayment together.

    .. math:: a = C\,\frac{r}{1 - (1 + r)^{-T}}, \qquad a = C / T \;\text{ for } r = 0

    Parameters
    ----------
    capital : array_like
        Dollars, C.
    rate : array_like
        Interest, or return that is asked for, a year: 0.08 is 8 %, r.
    life : array_like
        Seconds over which it is paid off, T. Each payment is at the end of a year.

    Returns
    -------
    array_like
        Dollars a year.

    Raises
    ------
    ValueError
        ``capital`` or ``rate`` is negative, or ``life`` is not positive.

    Notes
    -----
    Source: arithmetic of a loan. It is what Epoch AI's yearly total for a gigawatt does with its capital.

    Examples
    --------
    >>> from clusterlab.units import year
    >>> round(float(annuity(5.9e6, rate=0.10, life=4 * year)) / (72 * 8766), 2)
    2.95
    """
    money, interest = nonnegative(capital=capital, rate=rate)
    (seconds,) = positive(life=life)
    broadcastable(capital=money, rate=interest, life=seconds)
    return money * _annuity_factor(interest, seconds / year)


_NO_RATE = 1e-15  # a year: below it interest is less than the rounding of a sum


def _annuity_factor(rate, years):
    return 1 / _worth(rate, years)


def _worth(rate, years):
    """Present value of a dollar a year for so many years, paid at the end of each."""
    some = np.greater(rate, _NO_RATE)
    safe = np.where(some, rate, 1.0)
    return np.where(some, -np.expm1(-years * np.log1p(safe)) / safe, years)[()]


def yearly_bill(
    gpus, site_power, prices: PriceList, *, rate, life=5 * year, site_life=14 * year, load_factor=0.8
) -> Bill:
    r"""What a cluster costs a year: its capital as annuities, energy, water, staff and operations.

    .. math:: C = \sum_i a(C_i, r, T_i) + (p + q)\,\lambda P \cdot 1\,\text{yr} + (s + w) P

    Parameters
    ----------
    gpus, site_power : array_like
        As in :func:`capital`.
    prices : PriceList
        As in :func:`capital`.
    rate : array_like
        As in :func:`annuity`.
    life, site_life : array_like
        Seconds over which servers, network and storage are paid off, and the site.
        Five and 14 years are what Epoch AI takes (May 2026).
    load_factor : array_like
        Mean draw over what the site can draw, in (0, 1], lambda. Epoch AI's $0.6 billion of energy a year are 0.8 of
        1 GW at 8.6 cents, to within its rounding.

    Returns
    -------
    Bill
        Dollars a year. What failures take of it is a part too: ``yearly_bill(...).lost(0.1, "failures")``.

    Raises
    ------
    ValueError
        As in :func:`capital` and :func:`annuity`, or ``load_factor`` is outside (0, 1].

    Examples
    --------
    >>> from clusterlab.catalogue import price_list
    >>> year_of_a_gigawatt = yearly_bill(72 * 5932, 1e9, price_list("GB200 NVL72"), rate=0.08)
    >>> from clusterlab.units import fmt
    >>> fmt(year_of_a_gigawatt.total, "$"), fmt(year_of_a_gigawatt.parts["energy"], "$")
    ('$7.73B', '$582M')
    """
    built = capital(gpus, site_power, prices)
    (share,) = fraction(load_factor=load_factor)
    broadcastable(gpus=gpus, site_power=site_power, rate=rate, life=life, site_life=site_life, load_factor=share)
    parts = {
        name: annuity(dollars, rate=rate, life=site_life if name in _SITE else life)
        for name, dollars in built.parts.items()
    }
    (watts,) = positive(site_power=site_power)
    parts |= {name: getattr(prices, name) * share * watts * year for name in _USED}
    parts |= {name: getattr(prices, name) * watts for name in ("staff", "operations")}
    return Bill(MappingProxyType(parts))


# --- What a unit of work costs ---------------------------------------------------------------------------------------


def cost_per(price, rate, *, utilisation=1):
    r"""Cost of one unit of work: of a FLOP, of a token, of a request.

    .. math:: c = \frac{p}{R\,u}

    Parameters
    ----------
    price : array_like
        Dollars a second of what works, p: of a GPU, ``2.00 / hour``.
    rate : array_like
        Units a second that it does while it is used, R.
    utilisation : array_like
        Share of the time in which it is used and makes progress, in (0, 1], u.

    Returns
    -------
    array_like
        Dollars a unit.

    Raises
    ------
    ValueError
        ``price`` is negative, ``rate`` is not positive, or ``utilisation`` is outside (0, 1].

    Examples
    --------
    An EFLOP of a $2 H100 at 40 % MFU, and a million tokens at 2,000 tokens a second:

    >>> f"{cost_per(2 / 3600, 0.4 * 989e12) * 1e18:.1e}", round(cost_per(2 / 3600, 2000) * 1e6, 2)
    ('1.4e+00', 0.28)
    """
    (money,), (units,), (share,) = nonnegative(price=price), positive(rate=rate), fraction(utilisation=utilisation)
    broadcastable(price=money, rate=units, utilisation=share)
    return money / (units * share)


def break_even_utilisation(own, rent):
    r"""Share of the time that a GPU must be used for owning it to cost no more than renting it by the hour.

    .. math:: u = \frac{c_\text{own}}{c_\text{rent}}

    Parameters
    ----------
    own : array_like
        Dollars a second of a GPU that is paid for whether it works or not.
    rent : array_like
        Dollars a second of one that is paid for while it works.

    Returns
    -------
    array_like
        Above 1 renting is cheaper however much it is used.

    Raises
    ------
    ValueError
        An argument is not positive and finite.

    Examples
    --------
    >>> break_even_utilisation(2.0, 2.5)
    0.8
    """
    mine, theirs = positive(own=own, rent=rent)
    return mine / theirs


def break_even_revenue(cost, *, variable=0, wait=0, rate=0, life=5 * year):
    r"""What a cluster must sell in a year to pay for itself.

    .. math:: R = \frac{C}{1 - v}\,\frac{A(T)}{A(T) - A(w)}, \qquad A(t) = \frac{1 - (1 + r)^{-t}}{r}

    Parameters
    ----------
    cost : array_like
        Dollars a year of the cluster, C: a :func:`yearly_bill`'s total.
    variable : array_like
        Share of each dollar sold that goes to others, from 0 to below 1, v: resellers, payment, support.
    wait : array_like
        Seconds that the cluster is paid for before it can sell anything, because it has no power, say, w.
    rate, life : array_like
        Interest a year, r, and the seconds for which the cluster is paid, T, from its purchase on.

    Returns
    -------
    array_like
        Dollars a year, from the end of the wait to the end of the life.

    Raises
    ------
    ValueError
        ``cost`` or ``life`` is not positive, another argument is negative, ``variable`` is not below 1, or ``wait`` is
        not below ``life``.

    Notes
    -----
    Derived: the present value of what is sold, from w to T, is that of what is paid, from 0 to T. All of C is taken to
    be paid while waiting; :func:`waiting_bill` leaves out energy and water.

    Examples
    --------
    A gigawatt of $7.7 billion a year at 8 %: connected at once, and after two of its five years.

    >>> from clusterlab.units import year
    >>> [round(float(break_even_revenue(7.7, wait=w * year, rate=0.08)), 1) for w in (0, 2)]
    [7.7, 13.9]
    """
    money, seconds = positive(cost=cost, life=life)
    share, idle, interest = nonnegative(variable=variable, wait=wait, rate=rate)
    broadcastable(cost=money, variable=share, wait=idle, rate=interest, life=seconds)
    if np.any(np.greater_equal(share, 1)):
        raise ValueError(f"variable must be below 1, got {np.max(share):g}")
    if np.any(np.greater_equal(idle, seconds)):
        raise ValueError(f"wait must be below life, got {fmt(np.max(idle), 's')} of {fmt(np.min(seconds), 's')}")
    whole_life = _worth(interest, seconds / year)
    return money / (1 - share) * whole_life / (whole_life - _worth(interest, idle / year))


def waiting_bill(a_year: Bill, duration, *, revenue=0) -> Bill:
    r"""What it costs to wait with a cluster that is bought and cannot run, for want of power or of a permit.

    .. math:: C = t\,\Big(\sum_{i \ne \text{energy, water}} c_i + v\Big)

    Parameters
    ----------
    a_year : Bill
        Of :func:`yearly_bill`: dollars a year, c.
    duration : array_like
        Seconds of waiting, t.
    revenue : array_like
        Dollars a year of sales that are lost meanwhile, v.

    Returns
    -------
    Bill
        The parts of ``a_year`` for that time, without ``energy`` and ``water``, and ``sales``.

    Raises
    ------
    ValueError
        ``duration`` or ``revenue`` is negative or not finite.

    Examples
    --------
    A day of a gigawatt:

    >>> from clusterlab.catalogue import price_list
    >>> from clusterlab.units import day, fmt
    >>> a_year = yearly_bill(72 * 5932, 1e9, price_list("GB200 NVL72"), rate=0.08)
    >>> fmt(waiting_bill(a_year, day).total, "$")
    '$19.6M'
    """
    seconds, sales = nonnegative(duration=duration, revenue=revenue)
    share = seconds / year
    broadcastable(duration=seconds, revenue=sales)
    parts = {name: share * dollars for name, dollars in a_year.parts.items() if name not in _USED}
    return Bill(MappingProxyType(parts | {"sales": share * sales}))


# --- The next generation ---------------------------------------------------------------------------------------------


def competitive_rent(rent, age, *, gain, period=2 * year):
    r"""What an ageing GPU can be rented for while new ones do more for each dollar.

    .. math:: p(t) = p_0\, g^{-t / \tau}

    Parameters
    ----------
    rent : array_like
        Rent when new, p_0, in dollars for any time.
    age : array_like
        Seconds, t.
    gain : array_like
        Useful work for a dollar of the next generation over that of this one, at least 1, g.
    period : array_like
        Seconds between generations, tau.

    Returns
    -------
    array_like
        In the unit of ``rent``.

    Raises
    ------
    ValueError
        ``rent`` or ``period`` is not positive, ``age`` is negative, or ``gain`` is below 1.

    Notes
    -----
    Derived: who rents pays the same for the same work, whatever does it. A fall without steps; scarcity holds rents up:
    Nebius asked $2.95 for an H100 in 2025 and $3.85 in September 2026. Two years between generations were NVIDIA's pace
    until 2024, when it promised one ("a one-year rhythm", June 2024): ``period=year``.

    Examples
    --------
    >>> from clusterlab.units import year
    >>> round(float(competitive_rent(4.0, 2 * year, gain=2)), 2)
    2.0
    """
    price, tau = positive(rent=rent, period=period)
    (seconds,) = nonnegative(age=age)
    (times,) = at_least_one(gain=gain)
    broadcastable(rent=price, age=seconds, gain=times, period=tau)
    return price * times ** (-seconds / tau)


def economic_life(rent, running, *, gain, period=2 * year):
    r"""Age at which a GPU's rent no longer pays for its energy and operations, and it is switched off.

    .. math:: t = \tau\,\frac{\ln (p_0 / c)}{\ln g}

    Parameters
    ----------
    rent : array_like
        Rent when new, p_0.
    running : array_like
        Energy and operations for the same time, c.
    gain, period : array_like
        As in :func:`competitive_rent`; ``gain`` above 1.

    Returns
    -------
    array_like
        Seconds; 0 where even the first rent is too low.

    Raises
    ------
    ValueError
        As in :func:`competitive_rent`, ``running`` is not positive, or ``gain`` is not above 1.

    Examples
    --------
    >>> from clusterlab.units import year
    >>> round(float(economic_life(4.0, 0.5, gain=2)) / year, 2)
    6.0
    """
    price, cost, tau = positive(rent=rent, running=running, period=period)
    (times,) = at_least_one(gain=gain)
    broadcastable(rent=price, running=cost, gain=times, period=tau)
    if np.any(times <= 1):
        raise ValueError(f"gain must be above 1, got {np.min(times):g}: rents would never fall")
    return np.maximum(0.0, tau * np.log(price / cost) / np.log(times))


def required_rent(capital, *, running, rate, life, decline):
    r"""First year's income that pays for a capital and its running costs, if income falls every year.

    .. math:: \sum_{k=1}^{T} \frac{p\,(1 - d)^{k-1} - c}{(1 + r)^k} = C, \qquad
              p = \left(C + \frac{c}{a}\right) \frac{r + d}{1 - \left(\frac{1 - d}{1 + r}\right)^T}

    Parameters
    ----------
    capital : array_like
        Dollars, C.
    running : array_like
        Energy and operations, dollars a year, c.
    rate, life : array_like
        As in :func:`annuity`, r and T; a is the annuity of a dollar.
    decline : array_like
        Share that income loses each year, from 0 to below 1, d.

    Returns
    -------
    array_like
        Dollars in the first year, p. Without a decline it is the annuity and the running costs.

    Raises
    ------
    ValueError
        ``capital``, ``running`` or ``rate`` is negative, ``life`` is not positive, or ``decline`` is not in [0, 1).

    Notes
    -----
    Derived: present value of a geometric series.

    Examples
    --------
    A GPU of $50,000 that costs $4,000 a year to run, at 8 % over 5 years: with rents that hold, and that fall by 30 %.

    >>> from clusterlab.units import year
    >>> terms = {"running": 4e3, "rate": 0.08, "life": 5 * year}
    >>> [round(float(required_rent(5e4, **terms, decline=d)) / 8766, 2) for d in (0, 0.3)]
    [1.88, 3.23]
    """
    money, cost, interest, fall = nonnegative(capital=capital, running=running, rate=rate, decline=decline)
    (seconds,) = positive(life=life)
    broadcastable(capital=money, running=cost, rate=interest, life=seconds, decline=fall)
    if np.any(np.greater_equal(fall, 1)):
        raise ValueError(f"decline must be below 1, got {np.max(fall):g}")
    years, both = seconds / year, interest + fall
    some = np.greater(both, _NO_RATE)
    safe = np.where(some, both, 1.0)
    of_one = np.where(some, -np.expm1(years * (np.log1p(-fall) - np.log1p(interest))) / safe, years)[()]
    return (money + cost / _annuity_factor(interest, years)) / of_one


# --- Outages, and what it costs to avoid them ------------------------------------------------------------------------


def outage_bill(price, duration, *, lost_work=0, restart=0, revenue=0) -> Bill:
    r"""What an outage costs: time in which a cluster is paid for and brings nothing, and sales that are lost.

    .. math:: C = p\,(t + w + s) + v\,(t + s)

    Parameters
    ----------
    price : array_like
        Dollars a second of the whole cluster, p.
    duration : array_like
        Seconds without it, t.
    lost_work, restart : array_like
        Seconds of work since the last checkpoint, w, and of starting again, s.
    revenue : array_like
        Dollars a second of sales that no other cluster makes meanwhile, v.

    Returns
    -------
    Bill

    Raises
    ------
    ValueError
        An argument is negative or not finite.

    Examples
    --------
    An hour of 16,384 GPUs at $2, half an hour of work lost, ten minutes to start again:

    >>> from clusterlab.units import fmt
    >>> fmt(outage_bill(16384 * 2 / 3600, 3600, lost_work=1800, restart=600).total, "$")
    '$54,600'
    """
    money, down, lost, again, sales = nonnegative(
        price=price, duration=duration, lost_work=lost_work, restart=restart, revenue=revenue
    )
    return Bill(
        MappingProxyType(
            {
                "idle": money * down,
                "work repeated": money * lost,
                "restart": money * again,
                "sales": sales * (down + again),
            }
        )
    )


@dataclass(frozen=True, repr=False)
class Redundancy(Explained):
    """Units that carry a load, units that are installed, and the share of time in which enough of them work."""

    needed: float
    installed: float
    availability: float

    @property
    def overbuild(self):
        """Units installed for each one needed."""
        return self.installed / self.needed

    @property
    def downtime(self):
        """Seconds a year without enough of them."""
        return (1 - self.availability) * year

    def _rows(self):
        rows = [("", "value")]
        rows += [(n, summary(np.asarray(getattr(self, n)).astype(int)[()])) for n in ("needed", "installed")]
        rows.append(("availability", summary(self.availability, "%") if np.ndim(self.availability) else ""))
        rows[-1] = ("availability", f"{100 * np.min(self.availability):.6g}%")
        return [*rows, ("downtime a year", summary(self.downtime, "s"))]


def redundancy(needed, availability, *, spares=0, paths=1) -> Redundancy:
    r"""Availability of power or cooling with N, N+1 or 2N units.

    .. math:: A = 1 - (1 - A_\text{path})^m, \qquad
              A_\text{path} = \sum_{j=0}^{s} \binom{N + s}{j} (1 - a)^j a^{N + s - j}

    Parameters
    ----------
    needed : array_like
        Units that carry the load, N.
    availability : array_like
        Share of the time in which one unit works, in (0, 1], a.
    spares : array_like
        Further units of each path, s: 1 is N+1.
    paths : array_like
        Paths of which each carries the whole load, m: 2 is 2N.

    Returns
    -------
    Redundancy

    Raises
    ------
    ValueError
        ``needed`` or ``paths`` is not a positive integer, ``spares`` is not a whole number of at least 0, or
        ``availability`` is outside (0, 1].

    Notes
    -----
    Derived: units fail and are repaired independently. A shared switch, a common mistake or a flood fails all of them,
    and sets what a real site reaches: the Uptime Institute's four tiers are 28.8, 22, 1.6 and 0.8 hours a year.

    Examples
    --------
    Ten generators of 99.5 %: hours a year without enough of them, with N, N+1 and 2N.

    >>> kinds = [redundancy(10, 0.995, spares=s, paths=m) for s, m in ((0, 1), (1, 1), (0, 2))]
    >>> [(kind.overbuild, round(float(kind.downtime) / 3600, 1)) for kind in kinds]
    [(1.0, 428.6), (1.1, 11.7), (2.0, 21.0)]
    """
    units, copies = whole(needed=needed, paths=paths)
    (extra,) = nonnegative(spares=spares)
    (a,) = fraction(availability=availability)
    broadcastable(needed=units, availability=a, spares=extra, paths=copies)
    if np.any(extra != np.floor(extra)):
        raise ValueError(f"spares must be a whole number of at least 0, got {np.max(extra):g}")
    each = units + extra
    failed = _more_fail(each, extra, a)
    return Redundancy(units, copies * each, (1 - failed**copies)[()])


@np.vectorize
def _more_fail(units, spares, availability):
    """P(more than ``spares`` of ``units`` fail): terms that are all positive, each relative to the largest of them."""
    if availability == 1 or spares >= units:
        return 0.0
    j = np.arange(1, int(units) + 1)
    log = np.concatenate([[0.0], np.cumsum(np.log((units - j + 1) / j) + np.log((1 - availability) / availability))])
    weight = np.exp(log - log.max())
    return float(weight[int(spares) + 1 :].sum() / weight.sum())


# --- The ledger of compute -------------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class Ledger(Explained):
    """FLOPs that a model takes over its life. The parts sum to ``total``."""

    pretraining: float
    rollouts: float  # generating the samples of reinforcement learning
    updates: float  # training on them
    inference: float

    @property
    def training(self):
        """FLOPs before the model is served."""
        return self.pretraining + self.rollouts + self.updates

    @property
    def total(self):
        """FLOPs of all."""
        return self.training + self.inference

    def _rows(self):
        rows = [("", "FLOPs", "share")]
        parts = {f.name: getattr(self, f.name) for f in fields(self)} | {"total": self.total}
        return rows + [(n, f"{summary(f / 1e24)} x 10²⁴", summary(f / self.total, "%")) for n, f in parts.items()]


def compute_ledger(parameters, tokens, *, rollout_tokens=0, updates=1, served_tokens=0) -> Ledger:
    r"""FLOPs of pre-training, reinforcement learning and inference.

    .. math:: 6 N D + (2 + 6 u) N R + 2 N S

    Parameters
    ----------
    parameters : array_like
        Parameters that a token meets, N: the active ones of a mixture of experts.
    tokens : array_like
        Tokens of pre-training, D.
    rollout_tokens : array_like
        Tokens that the model generates for reinforcement learning, R.
    updates : array_like
        Passes of training over each of them, u.
    served_tokens : array_like
        Tokens read and generated for users over the model's life, S.

    Returns
    -------
    Ledger

    Raises
    ------
    ValueError
        ``parameters`` or ``tokens`` is not positive, or another argument is negative.

    Notes
    -----
    Derived: a GEMM is 2 FLOPs for each weight and token, and its backward pass is two GEMMs
    (:func:`clusterlab.model.training_flops`; Kaplan et al. 2020, section 2.1). Attention over long contexts is
    left out, and so is a frozen reference model (2 N R more). FLOPs are not money: generating reaches a smaller share
    of the peak than training.

    Examples
    --------
    >>> compute_ledger(37e9, 14.8e12, rollout_tokens=0.1e12, served_tokens=20e12)
    Ledger
                         FLOPs   share
    pretraining    3.29 x 10²⁴   68.5%
    rollouts     0.0074 x 10²⁴  0.154%
    updates      0.0222 x 10²⁴  0.463%
    inference      1.48 x 10²⁴   30.9%
    total           4.8 x 10²⁴    100%
    """
    size, trained = positive(parameters=parameters, tokens=tokens)
    sampled, passes, served = nonnegative(rollout_tokens=rollout_tokens, updates=updates, served_tokens=served_tokens)
    broadcastable(parameters=size, tokens=trained, rollout_tokens=sampled, updates=passes, served_tokens=served)
    return Ledger(6 * size * trained, 2 * size * sampled, 6 * size * sampled * passes, 2 * size * served)


_REFITTED = SCALING_LAWS["Chinchilla, refitted"]


def loss(parameters, tokens, law: ScalingLaw = _REFITTED):
    r"""Loss of a decoder at the end of its training.

    .. math:: L = E + \frac{A}{N^\alpha} + \frac{B}{D^\beta}

    Parameters
    ----------
    parameters, tokens : array_like
        N and D.
    law : ScalingLaw
        From ``SCALING_LAWS``, or one of your own.

    Returns
    -------
    array_like
        Nats a token.

    Raises
    ------
    ValueError
        An argument is not positive and finite.

    Notes
    -----
    Source: Hoffmann et al. 2022, equation 10; Besiroglu et al. 2024 for the coefficients that are used by default. It
    was fitted to models of up to 16 billion parameters and some 1 to 100 tokens for each.

    Examples
    --------
    >>> round(float(loss(70e9, 1.4e12)), 3)
    1.974
    """
    size, trained = positive(parameters=parameters, tokens=tokens)
    broadcastable(parameters=size, tokens=trained)
    return law.irreducible + _of_size(size, law) + law.token_scale * trained**-law.token_exponent


def _of_size(size, law):
    return law.parameter_scale * size**-law.parameter_exponent


@dataclass(frozen=True, repr=False)
class Allocation(Explained):
    """Parameters and training tokens of a model, and the tokens it serves."""

    parameters: float
    tokens: float
    served_tokens: float = 0.0

    @property
    def ratio(self):
        """Training tokens for each parameter."""
        return self.tokens / self.parameters

    @property
    def ledger(self) -> Ledger:
        """Its FLOPs, without reinforcement learning."""
        return compute_ledger(self.parameters, self.tokens, served_tokens=self.served_tokens)

    def _rows(self):
        rows = [("", "value"), ("parameters", f"{summary(self.parameters / 1e9)} billion")]
        rows += [("tokens", f"{summary(self.tokens / 1e12)} trillion"), ("tokens a parameter", summary(self.ratio))]
        return [*rows, ("FLOPs", f"{summary(self.ledger.total / 1e24)} x 10²⁴")]


def compute_optimal(flops, law: ScalingLaw = _REFITTED) -> Allocation:
    r"""Parameters and tokens that reach the least loss for a budget of training FLOPs (Chinchilla's ratio).

    .. math:: N = G \left(\frac{C}{6}\right)^{\frac{\beta}{\alpha + \beta}}, \qquad D = \frac{C}{6 N}, \qquad
              G = \left(\frac{\alpha A}{\beta B}\right)^{\frac{1}{\alpha + \beta}}

    Parameters
    ----------
    flops : array_like
        FLOPs, C.
    law : ScalingLaw
        As in :func:`loss`.

    Returns
    -------
    Allocation

    Raises
    ------
    ValueError
        ``flops`` is not positive and finite.

    Notes
    -----
    Source: Hoffmann et al. 2022, equation 4.

    Examples
    --------
    Chinchilla's own budget: its 70 billion parameters had 20 tokens each.

    >>> compute_optimal(5.76e23)
    Allocation
                                value
    parameters           72.2 billion
    tokens              1.33 trillion
    tokens a parameter           18.4
    FLOPs                0.576 x 10²⁴
    """
    (budget,) = positive(flops=flops)
    alpha, beta = law.parameter_exponent, law.token_exponent
    both = alpha + beta
    scale = (alpha * law.parameter_scale / (beta * law.token_scale)) ** (1 / both)
    size = scale * (budget / 6) ** (beta / both)
    return Allocation(size, budget / (6 * size))


def tokens_for_loss(parameters, target, law: ScalingLaw = _REFITTED):
    r"""Training tokens with which a model of a size reaches a loss.

    .. math:: D = \left(\frac{B}{L - E - A N^{-\alpha}}\right)^{1 / \beta}

    Parameters
    ----------
    parameters : array_like
        N.
    target : array_like
        Loss, nats a token, L.
    law : ScalingLaw
        As in :func:`loss`.

    Returns
    -------
    array_like

    Raises
    ------
    ValueError
        An argument is not positive, or a model of that size cannot reach the loss with any number of tokens.

    Notes
    -----
    Derived: :func:`loss` solved for D.

    Examples
    --------
    >>> f"{tokens_for_loss(20e9, loss(70e9, 1.4e12)):.2e}"
    '1.62e+13'
    """
    size, goal = positive(parameters=parameters, target=target)
    broadcastable(parameters=size, target=goal)
    left = goal - law.irreducible - _of_size(size, law)
    if np.any(left <= 0):
        raise ValueError(
            f"target must be above {np.max(law.irreducible + _of_size(size, law)):.4g}, got {np.min(goal):.4g}"
        )
    return (law.token_scale / left) ** (1 / law.token_exponent)


def lifetime_optimal(target, served_tokens, law: ScalingLaw = _REFITTED, *, inference_price=1) -> Allocation:
    r"""Parameters and tokens that reach a loss at the least cost of training and inference together.

    .. math:: \min_N \; 6\,N\,D(N, L) + 2\,w\,N\,S

    Parameters
    ----------
    target : array_like
        Loss, nats a token, L.
    served_tokens : array_like
        Tokens read and generated for users over the model's life, S. With none it is :func:`compute_optimal`.
    law : ScalingLaw
        As in :func:`loss`.
    inference_price : array_like
        Dollars for a FLOP of inference over dollars for one of training, w.

    Returns
    -------
    Allocation

    Raises
    ------
    ValueError
        ``target`` is not above the irreducible loss, ``served_tokens`` is negative, or ``inference_price`` is not
        positive.

    Notes
    -----
    Source: Sardana et al. 2023, equations 2 and 6. The cost falls and then rises with N, between the smallest model
    that can reach the loss at all and Chinchilla's; found by bisection of its slope.

    Examples
    --------
    A model as good as Chinchilla's 70 billion, of which users will read and write 100 trillion tokens:

    >>> lifetime_optimal(loss(70e9, 1.4e12), 100e12)
    Allocation
                                value
    parameters           21.2 billion
    tokens              13.1 trillion
    tokens a parameter            619
    FLOPs                  5.9 x 10²⁴
    """
    goal, price = positive(target=target, inference_price=inference_price)
    (served,) = nonnegative(served_tokens=served_tokens)
    broadcastable(target=goal, served_tokens=served, inference_price=price)
    over = goal - law.irreducible
    if np.any(over <= 0):
        raise ValueError(f"target must be above {law.irreducible:g}, got {np.min(goal):g}")
    alpha, beta, scale = law.parameter_exponent, law.token_exponent, law.parameter_scale
    # Of what is above the irreducible loss, the share that the size takes: 1 at the smallest model, and Chinchilla's.
    low, high = beta / (alpha + beta) + 0 * (over + served * price), 1 + 0 * (over + served * price)
    for _ in range(80):
        share = (low + high) / 2
        tokens = (law.token_scale / (over * (1 - share))) ** (1 / beta)
        slope = 6 * tokens * (1 - alpha * share / (beta * (1 - share))) + 2 * price * served  # of the cost in N
        low, high = np.where(slope > 0, share, low)[()], np.where(slope > 0, high, share)[()]
    size = (scale / (over * low)) ** (1 / alpha)
    return Allocation(size, (law.token_scale / (over * (1 - low))) ** (1 / beta), served)
