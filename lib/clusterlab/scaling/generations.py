"""Generations: what an ageing GPU still earns beside newer ones, and what it must earn."""

from __future__ import annotations

import numpy as np

from ..quantities import (
    Amount,
    Dollars,
    Multiple,
    PositiveCalendarSeconds,
    PositiveDollars,
    PositiveSeconds,
    Seconds,
    ShareBelowOne,
    law,
)
from ..units import year
from .bills import _NO_RATE, _annuity_factor

# --- The next generation ---------------------------------------------------------------------------------------------


@law
def economic_life(
    rent: PositiveDollars, running: PositiveDollars, *, gain: Multiple, period: PositiveSeconds = 2 * year
) -> Seconds:
    r"""Age at which a GPU's rent no longer pays for its energy and operations, and it is switched off.

    .. math:: p_0\, g^{-t / \tau} = c, \qquad t = \tau\,\frac{\ln (p_0 / c)}{\ln g}

    Parameters
    ----------
    rent
        Rent when new, p_0, for any time.
    running
        Energy and operations for the same time, c.
    gain
        Useful work for a dollar of the next generation over that of this one, above 1, g.
    period
        Time between generations, tau.

    Returns
    -------
    Seconds
        0 where even the first rent is too low.

    Raises
    ------
    ValueError
        ``gain`` is 1: rents would never fall.

    Notes
    -----
    Derived: who rents pays the same for the same work, whatever does it. A fall without steps; scarcity holds rents up:
    Nebius asked $2.95 for an H100 in 2025 and $3.85 in September 2026. Two years between generations were NVIDIA's pace
    until 2024, when it promised one ("a one-year rhythm", June 2024): ``period=year``.

    Examples
    --------
    >>> from clusterlab.units import year
    >>> round(float(economic_life(4.0, 0.5, gain=2)) / year, 2)
    6.0
    """
    if np.any(gain <= 1):
        raise ValueError(f"gain must be above 1, got {np.min(gain):g}: rents would never fall")
    return np.maximum(0.0, period * np.log(rent / running) / np.log(gain))


@law
def required_rent(
    capital: Dollars, *, running: Dollars, rate: Amount, life: PositiveCalendarSeconds, decline: ShareBelowOne
) -> Dollars:
    r"""First year's income that pays for a capital and its running costs, if income falls every year.

    .. math:: \sum_{k=1}^{T} \frac{p\,(1 - d)^{k-1} - c}{(1 + r)^k} = C, \qquad
              p = \left(C + \frac{c}{a}\right) \frac{r + d}{1 - \left(\frac{1 - d}{1 + r}\right)^T}

    Parameters
    ----------
    capital
        What the GPU costs, C.
    running
        Energy and operations a year, c.
    rate, life
        As in :func:`annuity`, r and T; a is the annuity of a dollar.
    decline
        Share that income loses each year, d.

    Returns
    -------
    Dollars
        Income of the first year, p. Without a decline it is the annuity and the running costs.

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
    years, both = life / year, rate + decline
    some = np.greater(both, _NO_RATE)
    safe = np.where(some, both, 1.0)
    of_one = np.where(some, -np.expm1(years * (np.log1p(-decline) - np.log1p(rate))) / safe, years)[()]
    return (capital + running / _annuity_factor(rate, years)) / of_one
