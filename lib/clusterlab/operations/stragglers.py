r"""Stragglers: a step of n ranks takes as long as the slowest of them, and how to tell which one that is.

Times are relative to the mean time of one rank. ``spread`` is the standard deviation of a rank's time over its mean;
the ranks vary independently. A rank that is always slow, or a pipeline stage with more to do, is not noise: it adds to
every step, and no average removes it.
"""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np

from ..checks import choose
from ..quantities import Count, Number, PositiveShareBelowOne, Share, law

_SCORES = np.linspace(-9, 12, 1051)  # standard normal scores: no 2^40 ranks have one beyond them
_STEP = _SCORES[1] - _SCORES[0]
_ABOVE, _BELOW = (np.array([math.erfc(sign * z / math.sqrt(2)) / 2 for z in _SCORES]) for sign in (1, -1))
_LOG_BELOW = np.where(_SCORES < 0, np.log(_BELOW), np.log1p(-np.minimum(_ABOVE, 0.9)))
_QUANTILE = np.vectorize(NormalDist().inv_cdf, otypes=[float])


def _normal(spread: np.ndarray) -> np.ndarray:
    """Time at each score, relative to the mean."""
    return 1 + spread * _SCORES


def _lognormal(spread: np.ndarray) -> np.ndarray:
    variance = np.log1p(spread**2)
    return np.exp(np.sqrt(variance) * _SCORES - variance / 2)


def _pareto(spread: np.ndarray) -> np.ndarray:
    tail = 1 + np.sqrt(1 + 1 / spread**2)
    return (tail - 1) / tail * _ABOVE ** (-1 / tail)


_SHAPES = {"normal": _normal, "lognormal": _lognormal, "pareto": _pareto}


@law
def slowest(n: Count, *, spread: PositiveShareBelowOne, shape: str = "normal", dropped: int = 0) -> Number:
    r"""Mean time of a step that waits for its slowest rank, over the mean time of one rank.

    .. math:: \frac{E[t_{(n-k)}]}{E[t]} = n \binom{n-1}{k} \int t \; F^{\,n-k-1} (1 - F)^k \, dF

    Parameters
    ----------
    n
        Ranks that wait for one another.
    spread
        Standard deviation of a rank's time over its mean. Ranks that only meet every m steps have the mean of
        m times: ``spread / sqrt(m)`` of the same shape, if they are normal.
    shape
        Distribution F of a rank's time: ``"normal"``, ``"lognormal"`` or ``"pareto"``, of the same mean and spread.
    dropped
        How many of the slowest the step does not wait for, k: backup workers, or replicas left out of a sum.

    Returns
    -------
    Number
        At least 1 where all are waited for. Its inverse is the share of the ranks' time that they compute.

    Raises
    ------
    ValueError
        ``dropped`` is not a whole number below n.

    Notes
    -----
    Source: David and Nagaraja 2003, Order Statistics, for the density of the k-th largest. The integral is taken over
    normal scores by the trapezoidal rule, whose error falls exponentially for such smooth integrands: some 1e-12.

    Examples
    --------
    Ranks that differ by 2 %, and by 2 % with a heavy tail; then without the slowest one in a thousand.

    >>> slowest([8, 1024, 16384], spread=0.02).round(3).tolist()
    [1.028, 1.065, 1.079]
    >>> slowest([8, 1024, 16384], spread=0.02, shape="pareto").round(3).tolist()
    [1.034, 1.136, 1.2]
    >>> round(float(slowest(16384, spread=0.02, shape="pareto", dropped=16)), 3)
    1.122
    """
    if not isinstance(shape, str):
        raise ValueError(f"shape must be one of {', '.join(_SHAPES)}; got {shape!r}")
    times = choose(_SHAPES, shape=shape)
    if isinstance(dropped, bool) or not isinstance(dropped, int | np.integer) or not 0 <= dropped < np.min(n):
        raise ValueError(f"dropped must be a whole number below n, got {dropped!r}")
    ranks, spread = np.asarray(n)[..., None], np.asarray(spread)[..., None]
    log = np.log(ranks) + dropped * np.log(_ABOVE) + (ranks - dropped - 1) * _LOG_BELOW - _SCORES**2 / 2
    for j in range(1, dropped + 1):
        log = log + np.log((ranks - j) / j)
    # The trapezoidal rule: the integrand vanishes at both ends.
    return (times(spread) * np.exp(log)).sum(axis=-1)[()] * _STEP / math.sqrt(2 * math.pi)


@law
def any_slow(n: Count, share: Share) -> Share:
    r"""Probability that a step has at least one slow rank.

    .. math:: 1 - (1 - p)^n

    Parameters
    ----------
    n
        Ranks.
    share
        Probability that a rank is slow in a step, p.

    Returns
    -------
    Share
        If a slow rank takes s times as long, the mean step takes 1 + (s - 1) times this.

    Notes
    -----
    Source: Dean and Barroso 2013, The Tail at Scale: servers that are slow once in a hundred make 63 % of the requests
    slow that need a hundred of them.

    Examples
    --------
    >>> any_slow([1, 100, 2000], [0.01, 0.01, 0.0001]).round(2).tolist()
    [0.01, 0.63, 0.18]
    """
    return 1 - (1 - share) ** n


@law
def repetitions(
    slowdown: Number,
    spread: Number,
    *,
    ranks: Count = 1,
    false_alarms: PositiveShareBelowOne = 0.01,
    misses: PositiveShareBelowOne = 0.05,
) -> Count:
    r"""How often to time each rank to tell a slow one from noise.

    .. math:: k = \left\lceil \left( \frac{(z_{1 - \alpha/n} + z_{1-\beta})\, \sigma}{\delta} \right)^{\!2} \right\rceil

    Parameters
    ----------
    slowdown
        By how much the slow rank is slower, over the mean, delta: 0.05 for 5 %.
    spread
        Standard deviation of one timing over its mean, sigma.
    ranks
        Ranks that are tested at once, n: each may raise a false alarm, so each must be more certain.
    false_alarms, misses
        Probability that any healthy rank is called slow, alpha, and that the slow one is not, beta.

    Returns
    -------
    Count
        Timings of each rank, of which the mean is compared with (z_alpha sigma / sqrt k).

    Notes
    -----
    Source: the power of a one-sided test of normal means, with Bonferroni's correction for n tests.

    Examples
    --------
    A rank that is 5 % slow, timings that vary by 2 % and by 10 %, alone and among 16,384:

    >>> repetitions(0.05, [0.02, 0.1]).tolist(), repetitions(0.05, [0.02, 0.1], ranks=16384).tolist()
    ([3.0, 64.0], [7.0, 169.0])
    """
    certain = -_QUANTILE(false_alarms / ranks) - _QUANTILE(misses)
    return np.maximum(np.ceil((np.maximum(certain, 0) * spread / slowdown) ** 2), 1)[()]
