r"""Bills: what a cluster costs, what a unit of its work costs, and what it must bring.

A :class:`Bill` is dollars by named part, as a load is watts. Building costs once and is paid off over a life
(:func:`annuity`); energy and operations cost every year; all of it is divided by what came out (:func:`cost_per`).
Money is in dollars of the day, before taxes, and yearly amounts are dollars a year.

Prices and useful lives are data: ``data/economics.toml`` has each with its source and date. Prices age within months.
Every law takes them as arguments; ``dataclasses.replace`` makes a what-if of a list.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar

import numpy as np

from ..catalogue import PriceList
from ..checks import SHARE, check
from ..quantities import (
    Amount,
    CalendarSeconds,
    Count,
    Dollars,
    DollarsPerSecond,
    Number,
    PerSecond,
    PositiveCalendarSeconds,
    PositiveDollars,
    PositiveDollarsPerSecond,
    PositiveShare,
    PositiveWatts,
    Share,
    ShareBelowOne,
    law,
)
from ..records import Parts, amounts
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

    @property
    def total(self) -> Dollars:
        """Sum of all parts."""
        return super().total

    def lost(self, share: Share, name: str = "lost") -> Bill:
        """Return the same total with a ``share`` of every part under a name of its own: what bought nothing.

        Examples
        --------
        >>> bill(GPUs=80.0, energy=20.0).lost(0.1, "failures").parts["failures"]
        10.0
        """
        part = check(SHARE, "share", share)
        return (1 - part) * self + Bill({name: part * self.total})


def bill(**parts: Dollars | tuple[Amount, Dollars]) -> Bill:
    r"""Bill made of its parts.

    .. math:: C = \sum_i n_i c_i

    Parameters
    ----------
    **parts
        Dollars, or (count, dollars each), of each part, under a name of your choice.

    Returns
    -------
    Bill

    Examples
    --------
    >>> bill(servers=(2048, 310e3), switches=(768, 36e3)).total
    662528000.0
    """
    return Bill(amounts("bill", "dollars", parts))


# What a site of so many watts has, and keeps for longer than servers.
_SITE = ("substation", "generators", "electrical", "cooling", "building")
_USED = ("energy", "water")  # what is paid by the joule, and not while nothing runs


@law
def capital(gpus: Count, site_power: PositiveWatts, prices: PriceList) -> Bill:
    r"""What a cluster costs to build.

    .. math:: C = n \sum_i c_i + P \sum_j w_j

    Parameters
    ----------
    gpus
        GPUs, n.
    site_power
        What the site can draw, P: :func:`clusterlab.power.facility` of what is rated.
    prices
        For each GPU, c, and for each watt of the site, w.

    Returns
    -------
    Bill

    Notes
    -----
    Derived: accounting. The prices have their sources in ``data/economics.toml``.

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
    parts = {} if prices.gpus is None else {"GPUs": gpus * prices.gpus}
    parts |= {name: gpus * getattr(prices, name) for name in ("servers", "network", "storage")}
    return Bill(MappingProxyType(parts | {name: site_power * getattr(prices, name) for name in _SITE}))


@law
def annuity(capital: Dollars, *, rate: Amount, life: PositiveCalendarSeconds) -> Dollars:
    r"""What a capital costs each year of its life, interest and repayment together.

    .. math:: a = C\,\frac{r}{1 - (1 + r)^{-T}}, \qquad a = C / T \;\text{ for } r = 0

    Parameters
    ----------
    capital
        What is to be paid off, C.
    rate
        Interest, or return that is asked for, a year: 0.08 is 8 %, r.
    life
        Time over which it is paid off, T. Each payment is at the end of a year.

    Returns
    -------
    Dollars
        What is paid at the end of each year.

    Notes
    -----
    Source: arithmetic of a loan. It is what Epoch AI's yearly total for a gigawatt does with its capital.

    Examples
    --------
    >>> from clusterlab.units import year
    >>> round(float(annuity(5.9e6, rate=0.10, life=4 * year)) / (72 * 8766), 2)
    2.95
    """
    return capital * _annuity_factor(rate, life / year)


_NO_RATE = 1e-15  # a year: below it interest is less than the rounding of a sum


def _annuity_factor(rate: Amount, years: Number) -> Number:
    return 1 / _worth(rate, years)


def _worth(rate: Amount, years: Amount) -> Amount:
    """Present value of a dollar a year for so many years, paid at the end of each."""
    some = np.greater(rate, _NO_RATE)
    safe = np.where(some, rate, 1.0)
    return np.where(some, -np.expm1(-years * np.log1p(safe)) / safe, years)[()]


@law
def yearly_bill(
    gpus: Count,
    site_power: PositiveWatts,
    prices: PriceList,
    *,
    rate: Amount,
    life: PositiveCalendarSeconds = 5 * year,
    site_life: PositiveCalendarSeconds = 14 * year,
    load_factor: PositiveShare = 0.8,
) -> Bill:
    r"""What a cluster costs a year: its capital as annuities, energy, water, staff and operations.

    .. math:: C = \sum_i a(C_i, r, T_i) + (p + q)\,\lambda P \cdot 1\,\text{yr} + (s + w) P

    Parameters
    ----------
    gpus, site_power, prices
        As in :func:`capital`.
    rate
        As in :func:`annuity`.
    life, site_life
        Time over which servers, network and storage are paid off, and the site.
        Five and 14 years are what Epoch AI takes (May 2026).
    load_factor
        Mean draw over what the site can draw, lambda. Epoch AI's $0.6 billion of energy a year are 0.8 of
        1 GW at 8.6 cents, to within its rounding.

    Returns
    -------
    Bill
        Dollars a year. What failures take of it is a part too: ``yearly_bill(...).lost(0.1, "failures")``.

    Notes
    -----
    Derived: accounting.

    Examples
    --------
    >>> from clusterlab.catalogue import price_list
    >>> year_of_a_gigawatt = yearly_bill(72 * 5932, 1e9, price_list("GB200 NVL72"), rate=0.08)
    >>> from clusterlab.units import fmt
    >>> fmt(year_of_a_gigawatt.total, "$"), fmt(year_of_a_gigawatt.parts["energy"], "$")
    ('$7.73B', '$582M')
    """
    built = capital.unchecked(gpus, site_power, prices)
    parts = {
        name: annuity.unchecked(dollars, rate=rate, life=site_life if name in _SITE else life)
        for name, dollars in built.parts.items()
    }
    parts |= {name: getattr(prices, name) * load_factor * site_power * year for name in _USED}
    parts |= {name: getattr(prices, name) * site_power for name in ("staff", "operations")}
    return Bill(MappingProxyType(parts))


# --- What a unit of work costs ---------------------------------------------------------------------------------------


@law
def cost_per(price: DollarsPerSecond, rate: PerSecond, *, utilisation: PositiveShare = 1) -> Dollars:
    r"""Cost of one unit of work: of a FLOP, of a token, of a request.

    .. math:: c = \frac{p}{R\,u}

    Parameters
    ----------
    price
        What costs so much while it works and while it doesn't, p: a GPU, ``2.00 / hour``.
    rate
        Units that it does while it is used, R: FLOP/s, tokens a second.
    utilisation
        Share of the time in which it is used and makes progress, u.

    Notes
    -----
    Derived: the price of all of the time is shared by what comes out in the time of use.

    Examples
    --------
    An EFLOP of a $2 H100 at 40 % MFU, and a million tokens at 2,000 tokens a second:

    >>> f"{cost_per(2 / 3600, 0.4 * 989e12) * 1e18:.1e}", round(cost_per(2 / 3600, 2000) * 1e6, 2)
    ('1.4e+00', 0.28)
    """
    return price / (rate * utilisation)


@law
def break_even_utilisation(own: PositiveDollarsPerSecond, rent: PositiveDollarsPerSecond) -> Number:
    r"""Share of the time that a GPU must be used for owning it to cost no more than renting it by the hour.

    .. math:: u = \frac{c_\text{own}}{c_\text{rent}}

    Parameters
    ----------
    own
        What a GPU costs that is paid for whether it works or not.
    rent
        What one costs that is paid for while it works.

    Returns
    -------
    Number
        Above 1 renting is cheaper however much it is used.

    Notes
    -----
    Derived: rent is paid for the time in use alone, so both cost the same where u of the rent is the cost of owning.

    Examples
    --------
    >>> break_even_utilisation(2.0, 2.5)
    0.8
    """
    return own / rent


@law
def break_even_revenue(
    cost: PositiveDollars,
    *,
    variable: ShareBelowOne = 0,
    wait: CalendarSeconds = 0,
    rate: Amount = 0,
    life: PositiveCalendarSeconds = 5 * year,
) -> Dollars:
    r"""What a cluster must sell in a year to pay for itself.

    .. math:: R = \frac{C}{1 - v}\,\frac{A(T)}{A(T) - A(w)}, \qquad A(t) = \frac{1 - (1 + r)^{-t}}{r}

    Parameters
    ----------
    cost
        What the cluster costs a year, C: a :func:`yearly_bill`'s total.
    variable
        Share of each dollar sold that goes to others, v: resellers, payment, support.
    wait
        Time that the cluster is paid for before it can sell anything, because it has no power, say, w.
    rate, life
        Interest a year, r, and the time for which the cluster is paid, T, from its purchase on.

    Returns
    -------
    Dollars
        In each year from the end of the wait to the end of the life.

    Raises
    ------
    ValueError
        ``wait`` is not below ``life``.

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
    if np.any(np.greater_equal(wait, life)):
        raise ValueError(f"wait must be below life, got {fmt(np.max(wait), 's')} of {fmt(np.min(life), 's')}")
    whole_life = _worth(rate, life / year)
    return cost / (1 - variable) * whole_life / (whole_life - _worth(rate, wait / year))


@law
def waiting_bill(a_year: Bill, duration: CalendarSeconds, *, revenue: Dollars = 0) -> Bill:
    r"""What it costs to wait with a cluster that is bought and cannot run, for want of power or of a permit.

    .. math:: C = t\,\Big(\sum_{i \ne \text{energy, water}} c_i + v\Big)

    Parameters
    ----------
    a_year
        Of :func:`yearly_bill`, c.
    duration
        Time of waiting, t.
    revenue
        Sales of a year, lost meanwhile, v.

    Returns
    -------
    Bill
        The parts of ``a_year`` for that time, without ``energy`` and ``water``, and ``sales``.

    Notes
    -----
    Derived: accounting.

    Examples
    --------
    A day of a gigawatt:

    >>> from clusterlab.catalogue import price_list
    >>> from clusterlab.units import day, fmt
    >>> a_year = yearly_bill(72 * 5932, 1e9, price_list("GB200 NVL72"), rate=0.08)
    >>> fmt(waiting_bill(a_year, day).total, "$")
    '$19.6M'
    """
    share = duration / year
    parts = {name: share * dollars for name, dollars in a_year.parts.items() if name not in _USED}
    return Bill(MappingProxyType(parts | {"sales": share * revenue}))
