"""Counts: how many failures to expect, what a number that was seen says of the rate, and of the nodes that had most."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..quantities import (
    Amount,
    Count,
    Number,
    PositiveSeconds,
    PositiveShare,
    PositiveShareBelowOne,
    Seconds,
    Share,
    WholeAmount,
    law,
)
from ..records import Explained, Rows, summary, with_interval

# --- What a count says -----------------------------------------------------------------------------------------------

# Kind: fitted, to the failure logs of twelve systems of Los Alamos, of 128 nodes or more (LA-UR-05-7318, 1996 to 2005;
# data/failures.csv, LANL): medians over the systems, from .00 to .84 and from .21 to 4.1. The first is that of counts
# of 30 days, the second that of the rates of nodes which last from one half of a log to the other.
BURSTS = 0.2
NODE_DISPERSION = 0.9


@dataclass(frozen=True, repr=False)
class Estimate(Explained):
    """A value and its confidence interval. ``unit`` is the unit in which it is printed."""

    value: Amount
    low: Amount
    high: Amount
    unit: str = ""

    @property
    def with_interval(self) -> str:
        """The value with its interval, in words, or alone where there is no width: ``80.1 d (72.5 to 244)``."""
        sure = np.all(np.equal(self.low, self.high))
        return summary(self.value, self.unit) if sure else with_interval(self.value, self.low, self.high, self.unit)

    def _rows(self) -> Rows:
        return [("", "value"), *((name, summary(getattr(self, name), self.unit)) for name in ("value", "low", "high"))]


@dataclass(frozen=True, repr=False)
class TimeEstimate(Estimate):
    """A time and its confidence interval."""

    value: Seconds
    low: Seconds
    high: Seconds
    unit: str = "s"


def _poisson_tail(mean: float, count: float, step: int) -> float:
    """P(X >= count) for step +1, P(X <= count) for step -1: the sum of Poisson terms, which fall from count outward."""
    j = np.arange(10 * math.sqrt(count) + 60)
    ratios = mean / (count + 1 + j) if step > 0 else np.maximum(count - j, 0) / mean
    first = math.exp(count * math.log(mean) - mean - math.lgamma(count + 1))
    return first * (1 + np.cumprod(ratios).sum())


def _bisect(below: Callable[[float], bool], low: float, high: float) -> float:
    """The point at which ``below`` turns from true to false, to the last digit."""
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if below(middle) else (low, middle)
    return (low + high) / 2


@np.vectorize(otypes=[float])
def _lower_mean(count: float, tail: float) -> float:
    return _bisect(lambda mean: _poisson_tail(mean, count, +1) < tail, 0.0, count) if count else 0.0


@np.vectorize(otypes=[float])
def _upper_mean(count: float, tail: float) -> float:
    chernoff = math.log(1 / tail)  # P(X <= count) <= exp(-(mean - count)^2 / (2 mean)) bounds the search
    most = count + chernoff + math.sqrt(chernoff**2 + 2 * count * chernoff)
    return _bisect(lambda mean: _poisson_tail(mean, count, -1) > tail, max(count, 1e-300), most)


def _counts(mean: float, dispersion: float) -> tuple[np.ndarray, np.ndarray]:
    """Counts around a mean, as far as they matter, and their probabilities: Poisson, or mixed over a gamma rate."""
    wide = 1 + dispersion * mean  # variance over mean
    reach = 10 * math.sqrt(mean * wide) + 60 * wide
    n = np.arange(max(0, math.floor(mean - reach)), math.ceil(mean + reach))
    log = np.cumsum(np.log(mean * (1 + dispersion * np.maximum(n - 1, 0)) / (np.maximum(n, 1) * wide)))
    weight = np.exp(log - log.max())
    return n, weight / weight.sum()


@np.vectorize(otypes=[float, float])
def _count_range(mean: float, tail: float, dispersion: float) -> tuple[float, float]:
    """Least n with P(X <= n) >= tail, and with P(X <= n) >= 1 - tail."""
    n, chance = _counts(mean, dispersion)
    low, high = np.minimum(np.searchsorted(np.cumsum(chance), [tail, 1 - tail]), n.size - 1)
    return float(n[low]), float(n[high])


@law
def expected_failures(
    window: PositiveSeconds,
    mtbf: PositiveSeconds,
    confidence: PositiveShareBelowOne = 0.95,
    *,
    dispersion: Amount = BURSTS,
) -> Estimate:
    r"""Mean number of failures in a window of time, and the range in which the count falls.

    .. math:: \Lambda = t / M, \qquad P(X < \text{low}) \le \alpha/2, \quad P(X > \text{high}) \le \alpha/2,
        \qquad \text{Var}(X) = \Lambda\,(1 + \alpha_d \Lambda)

    Parameters
    ----------
    window, mtbf
        Length of the window, t, and mean time between failures, M.
    confidence
        1 - alpha, below 1.
    dispersion
        Squared coefficient of variation of the fleet's failure rate from month to month, alpha_d: bursts, bad batches,
        seasons. :data:`BURSTS` is what fleets show, and a range without it is too narrow for any that was logged; at 0
        the rate is constant and the count Poisson. Nodes that differ, each with a dispersion of its own rate, add only
        that over their number: see :func:`lemons`.

    Returns
    -------
    Estimate
        ``value`` is the mean; ``low`` and ``high`` are counts, the quantiles alpha/2 and 1 - alpha/2.

    Notes
    -----
    Source: the Poisson process; with a dispersion a gamma-mixed one, whose count is negative binomial (Greenwood and
    Yule 1920). A rate that stays as it is for longer than the window spreads the counts most; averaged over many months
    it counts less.

    Examples
    --------
    50,000 h for each of 16,384 GPUs let expect 425 failures in 54 days, and months that differ as in published logs
    anything from 136 to 872. Llama 3 405B saw 419.

    >>> from clusterlab.failures import system_mtbf
    >>> from clusterlab.units import day, hour
    >>> run = 54 * day, system_mtbf(50_000 * hour, 16384)
    >>> expected_failures(*run)
    Estimate
           value
    value    425
    low      136
    high     872

    At a constant rate chance alone would leave less, and that 419 lie within it was luck:

    >>> chance = expected_failures(*run, dispersion=0)
    >>> float(chance.low), float(chance.high)
    (385.0, 466.0)
    """
    tail, mean = (1 - confidence) / 2, window / mtbf
    low, high = _count_range(mean, tail, dispersion)
    return Estimate(mean, low[()], high[()])


@dataclass(frozen=True, repr=False)
class Lemons(Explained):
    """The nodes that failed most: of all nodes their ``share``, of all failures those ``past`` and still to come.

    ``future`` is their share of the failures of the next window of the same length, if nothing is done.
    """

    share: PositiveShare
    past: Share
    future: Share

    @property
    def without(self) -> Amount:
        """Failure rate of the other nodes, as a multiple of that of all: what replacing the lemons leaves."""
        return (1 - self.future) / (1 - self.share)

    _shown: ClassVar = dict.fromkeys(("share", "past", "future", "without"), "%")


@law
def lemons(share: PositiveShareBelowOne, *, failures: Number, dispersion: Amount) -> Lemons:
    r"""What the nodes with the most failures have caused, and what they will cause: bad nodes against bad luck.

    .. math:: E[\lambda \mid c] = \bar\lambda\, \frac{1 + \phi\, c}{1 + \phi\, \bar\lambda}

    Parameters
    ----------
    share
        Of the nodes, those with the highest counts.
    failures
        Mean number of failures of a node in the window that was counted.
    dispersion
        Squared coefficient of variation of the nodes' own rates, phi: 0 if all are alike, and
        :data:`NODE_DISPERSION` in published logs.

    Notes
    -----
    Derived: counts that are Poisson around rates that are gamma distributed; the rate that a count speaks for is the
    posterior mean (Greenwood and Yule 1920). Nodes with equal counts are drawn by lot.

    Examples
    --------
    A tenth of a failure for each node. The worst hundredth of the nodes had a fifth of them and will have a fortieth of
    the next: who failed twice was mostly unlucky.

    >>> lemons(0.01, failures=0.1, dispersion=1)
    Lemons
             value
    share       1%
    past     19.1%
    future   2.64%
    without  98.3%
    """
    past, future = _worst(share, failures, dispersion)
    return Lemons(share, past[()], future[()])


@np.vectorize(otypes=[float, float])
def _worst(share: float, mean: float, dispersion: float) -> tuple[float, float]:
    """Of all failures, and of the next ones, those of a share of the nodes that had the most."""
    n, chance = (part[::-1] for part in _counts(mean, dispersion))
    taken = np.clip(share - (np.cumsum(chance) - chance), 0, chance)
    return float(taken @ n / mean), float(taken @ (1 + dispersion * n) / (1 + dispersion * mean))


@law
def poisson_interval(count: WholeAmount, confidence: PositiveShareBelowOne = 0.95) -> Estimate:
    r"""Confidence interval for the mean of a Poisson count (Garwood's exact interval).

    .. math:: \tfrac12\chi^2_{\alpha/2}(2k) \;\le\; \Lambda \;\le\; \tfrac12\chi^2_{1-\alpha/2}(2k + 2)

    Parameters
    ----------
    count
        Events observed, k.
    confidence
        1 - alpha, below 1.

    Returns
    -------
    Estimate
        ``low`` is the mean at which k or more events have probability alpha/2, ``high`` that at which k or fewer have.

    Notes
    -----
    Source: Garwood 1936. The two means are found by bisection on the sums of Poisson terms.

    Examples
    --------
    >>> poisson_interval(25)
    Estimate
           value
    value     25
    low     16.2
    high    36.9
    """
    tail = (1 - confidence) / 2
    return Estimate(count, _lower_mean(count, tail)[()], _upper_mean(count, tail)[()])


@law
def implied_mttf(
    failures: Count, *, components: Count, window: PositiveSeconds, confidence: PositiveShareBelowOne = 0.95
) -> TimeEstimate:
    r"""Mean time to failure of one component, from a published number of failures.

    .. math:: m = n t / k

    Parameters
    ----------
    failures
        Failures counted, k.
    components
        Components that could fail, n.
    window
        Time of observation, t.
    confidence
        Of the interval, below 1.

    Returns
    -------
    TimeEstimate
        The interval is that of :func:`poisson_interval`: it covers chance, but not differences in what was
        counted as a failure.

    Notes
    -----
    Source: maximum likelihood for exponential lifetimes.

    Examples
    --------
    Llama 3 405B: 419 unexpected interruptions in 54 days on 16,384 GPUs (table 5 of the paper).

    >>> from clusterlab.units import day, fmt
    >>> mttf = implied_mttf(419, components=16384, window=54 * day)
    >>> [fmt(t, "h") for t in (mttf.value, mttf.low, mttf.high)]
    ['50,700 h', '46,000 h', '55,900 h']
    """
    seen = poisson_interval.unchecked(failures, confidence)
    exposure = components * window
    return TimeEstimate(exposure / failures, exposure / seen.high, exposure / seen.low)
