"""Generations: what an ageing GPU still earns beside newer ones, and what it must earn."""

from __future__ import annotations

import numpy as np

from ..checks import at_least_one, broadcastable, nonnegative, positive
from ..units import year
from .bills import _NO_RATE, _annuity_factor


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
