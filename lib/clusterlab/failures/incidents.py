"""Incidents: what a site's own log says of its failures, weighed against what is published of others."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..checks import nonnegative, positive
from ..quantities import Amount, Number, PositiveSeconds, PositiveShare, Seconds, law
from ..records import Explained
from ..units import hour
from .counts import BURSTS, TimeEstimate, _bisect

# Kind: fitted, to the repairs of the twelve systems that BURSTS is of (data/failures.csv, LANL): the median of the
# standard deviations of their logarithms, from 1.1 to 2.9.
LOSS_SCATTER = 1.7

# Kind: fitted, to the effective training times of three fleets whose jobs people restart (data/failures.csv, restarts
# by hand): 2.4, 8.1 and 16.4 hours for each failure, and their geometric mean.
BY_HAND = 7 * hour  # from a failure until people have a job running again


@law
def posterior_mttf(
    failures: Amount,
    exposure: Seconds,
    *,
    prior: PositiveSeconds,
    weight: Number,
    index: Number = 1,
    confidence: PositiveShare = 0.8,
) -> TimeEstimate:
    r"""Mean time to failure of one component, from a log and from what was believed before it.

    .. math:: \lambda \sim \text{Gamma}\!\left(a + \frac{k}{D},\; a m + \frac{T}{D}\right), \qquad
        \text{MTTF} = \frac{a m + T/D}{a + k/D}

    Parameters
    ----------
    failures, exposure
        Failures in the log, k, and the time that its components ran, T: their number times its length.
    prior, weight
        The time that was believed, m, and how many failures that belief is worth, a.
    index
        Variance of the counts over their mean, D, from :func:`burstiness`: failures that come in bursts say as much of
        the rate as k / D that come alone.
    confidence
        Of the interval, below 1.

    Raises
    ------
    ValueError
        ``confidence`` is 1.

    Notes
    -----
    Source: the gamma distribution is conjugate to the Poisson process; dividing by D is the quasi-likelihood of
    Wedderburn 1974. The value is the inverse of the mean rate. Without a log it is the prior, and its interval that of
    a gamma of shape a; with a long one it is T / k.

    Examples
    --------
    412 failures in 93 days of 8,192 GPUs, against 50,000 h that are worth six:

    >>> from clusterlab.units import day, fmt, hour
    >>> log = 412, 8192 * 93 * day
    >>> found = [posterior_mttf(*log, prior=50_000 * hour, weight=6, index=d) for d in (1, 10)]
    >>> [[fmt(end, "h") for end in (one.low, one.value, one.high)] for one in found]
    [['41,800 h', '44,500 h', '47,400 h'], ['37,900 h', '45,100 h', '55,100 h']]
    """
    tail = (1 - confidence) / 2
    shape, time = weight + failures / index, weight * prior + exposure / index
    few, many = (_gamma_quantile(shape, share)[()] for share in (tail, 1 - tail))
    return TimeEstimate(time / shape, time / many, time / few)


@np.vectorize(otypes=[float])
def _gamma_quantile(shape: float, share: float) -> float:
    """Quantile of the gamma distribution, by halving; its upper tail is lighter than that of the bound (sub-gamma)."""
    beyond = math.log(1 / (1 - share))
    return _bisect(lambda x: _gamma_share(x, shape) < share, 0.0, shape + math.sqrt(2 * shape * beyond) + beyond)


def _gamma_share(x: float, shape: float) -> float:
    """Share of a gamma distribution below x: the series of the incomplete gamma function."""
    terms = np.arange(1, math.ceil(max(x - shape, 0) + 12 * math.sqrt(x) + 60))
    first = math.exp(shape * math.log(x) - x - math.lgamma(shape + 1))
    return first * (1 + np.cumprod(x / (shape + terms)).sum())


@dataclass(frozen=True, repr=False)
class Burstiness(Explained):
    """How far counts of equal windows scatter: ``index`` is their variance over their mean ``mean``, 1 for Poisson.

    ``dispersion`` is the squared coefficient of variation of the rate behind them, ``seen`` what the counts alone say.
    """

    windows: int
    mean: Amount
    seen: float
    dispersion: Amount
    index: Number


def burstiness(counts: Sequence[float] | np.ndarray, *, prior: Amount = BURSTS, weight: Number = 4) -> Burstiness:
    r"""Over-dispersion of counts: whether failures come in bursts, and how much less such a log says of the rate.

    .. math:: \hat\alpha = \frac{s^2 - \bar c}{\bar c^2}, \qquad
        \alpha = \max\!\left(0, \frac{w_0 \alpha_0 + (W - 1)\, \hat\alpha}{w_0 + W - 1}\right), \qquad
        D = 1 + \alpha \bar c

    Parameters
    ----------
    counts
        Of windows of equal length, W of them: c.
    prior, weight
        What was believed of alpha, and how many windows that is worth, w_0: few windows say little.

    Raises
    ------
    ValueError
        There is no window, or a count is negative or not finite.

    Notes
    -----
    Source: the negative binomial's dispersion by moments, as of :func:`expected_failures`. With D the relative variance
    of the mean rate of W windows is 1/k + alpha/W: beyond many failures only more windows help.

    Examples
    --------
    >>> steady, bursts = burstiness([31, 28, 30, 33] * 3), burstiness([5, 80, 12, 25] * 3)
    >>> round(float(steady.index), 1), round(float(bursts.index), 1)
    (2.0, 24.7)
    """
    if not np.size(counts):
        raise ValueError("counts must be those of one window at least")
    found = np.atleast_1d(nonnegative(counts=np.asarray(counts, float))[0])
    mean, (trust,) = float(found.mean()), positive(weight=weight)
    more = found.size - 1
    seen = (float(found.var(ddof=1)) - mean) / mean**2 if more and mean else float(prior)
    alpha = max(0.0, (trust * prior + more * seen) / (trust + more))
    return Burstiness(found.size, mean, seen, alpha, 1 + alpha * mean)


def posterior_loss(
    losses: Sequence[float] | np.ndarray, *, prior: PositiveSeconds, doubt: Number, weight: Number = 2
) -> TimeEstimate:
    r"""Mean time that a failure costs, from a log of such times and from what was believed before it.

    .. math:: \ln L \sim N(\ln L_0, s_0^2), \qquad
        \ln \bar x \mid L \sim N\!\left(\ln L, \frac{e^{\sigma^2} - 1}{n}\right), \qquad
        \sigma^2 = \frac{w_0 \sigma_0^2 + (n - 1) s^2}{w_0 + n - 1}

    Parameters
    ----------
    losses
        Seconds that each failure cost, x; zero where it cost none.
    prior, doubt
        The mean that was believed, L_0, and the standard deviation of its logarithm, s_0.
    weight
        How many losses :data:`LOSS_SCATTER`, sigma_0, is worth as a guess of how they scatter.

    Returns
    -------
    TimeEstimate
        The posterior of the mean is log-normal: its median, and the ends of its 80 % interval.

    Raises
    ------
    ValueError
        A loss is negative or not finite, or ``prior``, ``doubt`` or ``weight`` is not positive.

    Notes
    -----
    Source: a normal mean with a normal prior, of logarithms; (exp(sigma^2) - 1) / n is the relative variance of a mean
    of log-normal times. The arithmetic mean counts, not the median: times n it is what the log lost in all, most of it
    in a few long stops.

    Examples
    --------
    A book says 13 minutes, give or take a factor of five; forty stops cost one hour or two each:

    >>> losses = [3600, 7200] * 20
    >>> posterior_loss(losses, prior=780, doubt=1.6).with_interval
    '89.5 min (80.2 to 99.9)'
    >>> posterior_loss([], prior=780, doubt=1.6).with_interval
    '13 min (100 s to 101 min)'
    """
    found = np.atleast_1d(np.asarray(losses, float))
    if found.size:
        nonnegative(losses=found)
    believed, doubt, weight = positive(prior=prior, doubt=doubt, weight=weight)
    middle, variance = math.log(believed), float(doubt) ** 2
    some = np.log(found[found > 0])
    if some.size:
        more = some.size - 1
        spread = (weight * LOSS_SCATTER**2 + more * (some.var(ddof=1) if more else 0.0)) / (weight + more)
        noise = math.expm1(spread) / some.size
        middle = (middle * noise + math.log(found.mean()) * variance) / (noise + variance)
        variance = noise * variance / (noise + variance)
    reach = 1.2815515655446004 * math.sqrt(variance)
    return TimeEstimate(math.exp(middle), math.exp(middle - reach), math.exp(middle + reach))
