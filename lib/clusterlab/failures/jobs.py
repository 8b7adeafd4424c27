r"""Failures: how often a cluster fails, what a failure costs, and what checkpoints, spares and repair do about it.

The model of a job (:class:`Job`): failures of the whole job are a Poisson process with mean time between failures M
(``mtbf``), while the job runs and while it restarts. After each ``interval`` seconds of work the job stops for
``write`` seconds, and the checkpoint is safe ``lag`` seconds later (0: the write blocks until it is safe). A failure
throws the job back to its last safe checkpoint. Then come ``detection`` (the job hangs) and ``repair`` (it waits for a
machine), during which nothing fails, and ``restart`` (load, initialise), during which a further failure leads back to
detection. A job begins without a restart and ends when its last checkpoint is safe. ``interval`` is work alone, as in
Young 1974 and Daly 2006. Expected times are exact in this model; :func:`simulate` is its Monte Carlo simulation, with
spare machines, correlated failures and infant mortality on top.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import reduce
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from .. import catalogue
from ..checks import broadcastable, fraction, nonnegative, positive, whole
from ..records import Explained, Predicted, summary, with_interval, words
from ..units import fmt

# --- How often -------------------------------------------------------------------------------------------------------

# Kind: fitted, to the failure logs of twelve systems of Los Alamos, of 128 nodes or more (LA-UR-05-7318, 1996 to 2005;
# data/failures.csv, LANL): medians over the systems, from .00 to .84 and from .21 to 4.1. The first is that of counts
# of 30 days, the second that of the rates of nodes which last from one half of a log to the other.
BURSTS = 0.2
NODE_DISPERSION = 0.9


def system_mtbf(component_mtbf, n, *, exponent=1, reference=1):
    r"""Mean time between failures of n equal components, all of which are needed.

    .. math:: M = \frac{m}{n} \left(\frac{n_0}{n}\right)^{\beta - 1}

    Parameters
    ----------
    component_mtbf : array_like
        Mean time to failure of one component, seconds, m.
    n : array_like
        Components.
    exponent : array_like
        By which power of its size a job's failure rate grows, beta. At 1 a component fails as often in a large job as
        in a small one; above 1 large jobs have failures that small ones have not.
    reference : array_like
        Components of the job in which a component's mean time to failure is m, n_0; matters if beta is not 1.

    Returns
    -------
    array_like
        Seconds.

    Raises
    ------
    ValueError
        ``component_mtbf`` or ``exponent`` is not positive and finite, or ``n`` or ``reference`` is not a whole number
        of at least 1.

    Notes
    -----
    Source: MLSysBook, Fleet Foundations, equation 1, for beta = 1. Exact for independent exponential lifetimes; for
    others the long-run mean, once the components' ages have mixed. Kokolis et al. 2025, figure 7: jobs of 8 GPUs ran
    47.7 days between failures, of 1,024 GPUs 7.9 hours, which is beta = 1.03.

    Examples
    --------
    >>> from clusterlab.units import day, hour
    >>> [fmt(system_mtbf(50_000 * hour, n), "min", digits=4) for n in (8192, 100_000)]
    ['366.2 min', '30 min']
    >>> fmt(system_mtbf(8 * 47.7 * day, 1024, exponent=1.0255, reference=8), "h")
    '7.9 h'
    """
    whole(n=n, reference=reference)
    mtbf, n, beta, small = positive(component_mtbf=component_mtbf, n=n, exponent=exponent, reference=reference)
    return mtbf / n * (small / n) ** (beta - 1)


@dataclass(frozen=True, repr=False)
class Series(Explained):
    """Kinds of components in series: a failure of any one stops the job. ``mtbfs``: MTBF of each kind, seconds."""

    mtbfs: Mapping[str, float]

    @property
    def mtbf(self):
        """Mean time between failures of any kind, seconds."""
        return 1 / sum(1 / mtbf for mtbf in self.mtbfs.values())

    @property
    def shares(self) -> Mapping:
        """Share of all failures that each kind causes; the shares sum to one."""
        return {name: self.mtbf / mtbf for name, mtbf in self.mtbfs.items()}

    def _rows(self):
        rows = [(name, summary(self.mtbfs[name], "s"), summary(self.shares[name], "%")) for name in self.mtbfs]
        return [("kind", "MTBF", "of failures"), *rows, ("all", summary(self.mtbf, "s"), "")]


def series_mtbf(**kinds) -> Series:
    r"""Mean time between failures of several kinds of components in series: failure rates add.

    .. math:: \frac{1}{M} = \sum_i \frac{n_i}{m_i}

    Parameters
    ----------
    **kinds : (mtbf, n)
        For each kind, under a name of your choice, the mean time to failure of one component, seconds, and the number
        of components.

    Returns
    -------
    Series
        The MTBF of each kind and of all together, and the share of failures that each kind causes.

    Raises
    ------
    ValueError
        No kind is given, an MTBF is not positive and finite, or a number of components is not a positive integer.

    Notes
    -----
    Derived: the minimum of independent exponential times is exponential, and its rate is the sum of their rates.

    Examples
    --------
    >>> series_mtbf(GPU=(5e8, 16384), switch=(1e9, 1024))
    Series
    kind       MTBF  of failures
    GPU     509 min          97%
    switch   11.3 d        3.03%
    all     493 min
    """
    if not kinds:
        raise ValueError("series_mtbf needs at least one kind, as name=(mtbf, n)")
    mtbfs = {}
    for name, pair in kinds.items():
        try:
            mtbf, n = pair
        except (TypeError, ValueError):
            raise ValueError(f"{name} must be a pair (mtbf, n), got {pair!r}") from None
        whole(**{f"{name} n": n})
        mtbf, n = positive(**{f"{name} mtbf": mtbf, f"{name} n": n})
        mtbfs[name] = mtbf / n
    return Series(MappingProxyType(mtbfs))


@dataclass(frozen=True, repr=False)
class Estimate(Explained):
    """A value and its confidence interval. ``unit`` is the unit in which it is printed."""

    value: float
    low: float
    high: float
    unit: str = ""

    @property
    def with_interval(self) -> str:
        """The value with its interval, in words, or alone where there is no width: ``80.1 d (72.5 to 244)``."""
        sure = np.all(np.equal(self.low, self.high))
        return summary(self.value, self.unit) if sure else with_interval(self.value, self.low, self.high, self.unit)

    def _rows(self):
        return [("", "value"), *((name, summary(getattr(self, name), self.unit)) for name in ("value", "low", "high"))]


def _poisson_tail(mean, count, step):
    """P(X >= count) for step +1, P(X <= count) for step -1: the sum of Poisson terms, which fall from count outward."""
    j = np.arange(10 * math.sqrt(count) + 60)
    ratios = mean / (count + 1 + j) if step > 0 else np.maximum(count - j, 0) / mean
    first = math.exp(count * math.log(mean) - mean - math.lgamma(count + 1))
    return first * (1 + np.cumprod(ratios).sum())


def _bisect(below, low, high):
    """The point at which ``below`` turns from true to false, to the last digit."""
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if below(middle) else (low, middle)
    return (low + high) / 2


@np.vectorize
def _lower_mean(count, tail):
    return _bisect(lambda mean: _poisson_tail(mean, count, +1) < tail, 0.0, count) if count else 0.0


@np.vectorize
def _upper_mean(count, tail):
    chernoff = math.log(1 / tail)  # P(X <= count) <= exp(-(mean - count)^2 / (2 mean)) bounds the search
    most = count + chernoff + math.sqrt(chernoff**2 + 2 * count * chernoff)
    return _bisect(lambda mean: _poisson_tail(mean, count, -1) > tail, max(count, 1e-300), most)


def _counts(mean, dispersion):
    """Counts around a mean, as far as they matter, and their probabilities: Poisson, or mixed over a gamma rate."""
    wide = 1 + dispersion * mean  # variance over mean
    reach = 10 * math.sqrt(mean * wide) + 60 * wide
    n = np.arange(max(0, math.floor(mean - reach)), math.ceil(mean + reach))
    log = np.cumsum(np.log(mean * (1 + dispersion * np.maximum(n - 1, 0)) / (np.maximum(n, 1) * wide)))
    weight = np.exp(log - log.max())
    return n, weight / weight.sum()


@np.vectorize
def _count_quantile(mean, probability, dispersion):
    """Least n with P(X <= n) >= probability."""
    n, chance = _counts(mean, dispersion)
    return float(n[min(np.searchsorted(np.cumsum(chance), probability), n.size - 1)])


def _tail(confidence):
    """Probability of each of the two tails outside a confidence interval."""
    (confidence,) = fraction(confidence=confidence)
    if np.any(confidence == 1):
        raise ValueError("confidence must be below 1, got 1")
    return (1 - confidence) / 2


def expected_failures(window, mtbf, confidence=0.95, *, dispersion=0) -> Estimate:
    r"""Mean number of failures in a window of time, and the range in which the count falls.

    .. math:: \Lambda = t / M, \qquad P(X < \text{low}) \le \alpha/2, \quad P(X > \text{high}) \le \alpha/2,
        \qquad \text{Var}(X) = \Lambda\,(1 + \alpha_d \Lambda)

    Parameters
    ----------
    window, mtbf : array_like
        Length of the window, t, and mean time between failures, M, seconds.
    confidence : array_like
        1 - alpha, between 0 and 1.
    dispersion : array_like
        Squared coefficient of variation of the fleet's failure rate from month to month, alpha_d: bursts, bad batches,
        seasons. At 0 the rate is constant and the count Poisson; :data:`BURSTS` is what fleets show. Nodes that differ,
        each with a dispersion of its own rate, add only that over their number: see :func:`lemons`.

    Returns
    -------
    Estimate
        ``value`` is the mean; ``low`` and ``high`` are counts, the quantiles alpha/2 and 1 - alpha/2.

    Raises
    ------
    ValueError
        ``window`` or ``mtbf`` is not positive and finite, ``confidence`` is not between 0 and 1, or ``dispersion`` is
        negative.

    Notes
    -----
    Source: the Poisson process; with a dispersion a gamma-mixed one, whose count is negative binomial (Greenwood and
    Yule 1920). A rate that stays as it is for longer than the window spreads the counts most; averaged over many months
    it counts less.

    Examples
    --------
    50,000 h for each of 16,384 GPUs predict for 54 days what Llama 3 405B saw, 419 failures:

    >>> from clusterlab.units import day, hour
    >>> expected_failures(54 * day, system_mtbf(50_000 * hour, 16384))
    Estimate
           value
    value    425
    low      385
    high     466

    If months differ as they do in published logs, that range was luck:

    >>> wide = expected_failures(54 * day, system_mtbf(50_000 * hour, 16384), dispersion=BURSTS)
    >>> float(wide.low), float(wide.high)
    (136.0, 872.0)
    """
    window, mtbf = positive(window=window, mtbf=mtbf)
    (spread,) = nonnegative(dispersion=dispersion)
    tail, mean = _tail(confidence), window / mtbf
    return Estimate(mean, _count_quantile(mean, tail, spread)[()], _count_quantile(mean, 1 - tail, spread)[()])


@dataclass(frozen=True, repr=False)
class Lemons(Explained):
    """The nodes that failed most: of all nodes their ``share``, of all failures those ``past`` and still to come.

    ``future`` is their share of the failures of the next window of the same length, if nothing is done.
    """

    share: float
    past: float
    future: float

    @property
    def without(self):
        """Failure rate of the other nodes, as a multiple of that of all: what replacing the lemons leaves."""
        return (1 - self.future) / (1 - self.share)

    def _rows(self):
        names = ("share", "past", "future", "without")
        return [("", "value"), *((name, summary(getattr(self, name), "%")) for name in names)]


def lemons(share, *, failures, dispersion) -> Lemons:
    r"""What the nodes with the most failures have caused, and what they will cause: bad nodes against bad luck.

    .. math:: E[\lambda \mid c] = \bar\lambda\, \frac{1 + \phi\, c}{1 + \phi\, \bar\lambda}

    Parameters
    ----------
    share : array_like
        Of the nodes, those with the highest counts, between 0 and 1.
    failures : array_like
        Mean number of failures of a node in the window that was counted.
    dispersion : array_like
        Squared coefficient of variation of the nodes' own rates, phi: 0 if all are alike, and
        :data:`NODE_DISPERSION` in published logs.

    Returns
    -------
    Lemons

    Raises
    ------
    ValueError
        ``share`` is not between 0 and 1, ``failures`` is not positive, or ``dispersion`` is negative.

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
    (part,) = fraction(share=share)
    if np.any(part == 1):
        raise ValueError(f"share must be below 1, got {np.max(part):g}")
    (mean,), (spread,) = positive(failures=failures), nonnegative(dispersion=dispersion)
    past, future = _worst(part, mean, spread)
    return Lemons(part, past[()], future[()])


@np.vectorize
def _worst(share, mean, dispersion):
    """Of all failures, and of the next ones, those of a share of the nodes that had the most."""
    n, chance = (part[::-1] for part in _counts(mean, dispersion))
    taken = np.clip(share - (np.cumsum(chance) - chance), 0, chance)
    return float(taken @ n / mean), float(taken @ (1 + dispersion * n) / (1 + dispersion * mean))


def failure_probability(window, mtbf):
    r"""Probability of at least one failure in a window of time.

    .. math:: 1 - e^{-t/M}

    Parameters
    ----------
    window, mtbf : array_like
        Length of the window, t, and mean time between failures, M, seconds.

    Returns
    -------
    array_like
        Probability.

    Raises
    ------
    ValueError
        ``window`` is negative, ``mtbf`` is not positive, or either is not finite.

    Notes
    -----
    Source: the Poisson process; MLSysBook, Fleet Foundations, table 6.

    Examples
    --------
    >>> from clusterlab.units import day, hour
    >>> fmt(failure_probability(day, system_mtbf(50_000 * hour, 8192)), "%")
    '98%'
    """
    positive(mtbf=mtbf)
    window, mtbf = nonnegative(window=window, mtbf=mtbf)
    return -np.expm1(-window / mtbf)


def infant_failures(window, *, mtbf, shape, age):
    r"""Mean number of failures of machines that were all new at the start of the window.

    .. math:: \Lambda(t) = \frac{a}{k M} \left(\frac{t}{a}\right)^k

    Parameters
    ----------
    window : array_like
        Seconds since all machines were new, t.
    mtbf, age : array_like
        Mean time between failures M of the system when its machines are ``age`` seconds old, a.
    shape : array_like
        Weibull shape k: below 1 is infant mortality, 1 is exponential, above 1 is wear-out.

    Returns
    -------
    array_like
        Mean number of failures; the failure rate at time t is (t/a)^(k-1) / M.

    Raises
    ------
    ValueError
        ``window`` is negative, another argument is not positive, or any is not finite.

    Notes
    -----
    Source: Crow 1975, the power-law process: n components in series with Weibull lifetimes of scale eta, as long as few
    of them have been replaced; M = eta^k a^(1-k) / (n k).

    Examples
    --------
    The first week of a fleet with k = 0.5 whose MTBF reaches 3 h after 90 days, and what a constant rate would give:

    >>> from clusterlab.units import day, hour
    >>> round(infant_failures(7 * day, mtbf=3 * hour, shape=0.5, age=90 * day)), 7 * day / (3 * hour)
    (402, 56.0)
    """
    positive(mtbf=mtbf, shape=shape, age=age)
    t, mtbf, k, age = nonnegative(window=window, mtbf=mtbf, shape=shape, age=age)
    return age / (k * mtbf) * (t / age) ** k


def poisson_interval(count, confidence=0.95) -> Estimate:
    r"""Confidence interval for the mean of a Poisson count (Garwood's exact interval).

    .. math:: \tfrac12\chi^2_{\alpha/2}(2k) \;\le\; \Lambda \;\le\; \tfrac12\chi^2_{1-\alpha/2}(2k + 2)

    Parameters
    ----------
    count : array_like
        Events observed, k: a whole number, zero included.
    confidence : array_like
        1 - alpha, between 0 and 1.

    Returns
    -------
    Estimate
        ``low`` is the mean at which k or more events have probability alpha/2, ``high`` that at which k or fewer have.

    Raises
    ------
    ValueError
        ``count`` is not a whole number of at least 0, or ``confidence`` is not between 0 and 1.

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
    (count,) = nonnegative(count=count)
    if np.any(count != np.floor(count)):
        raise ValueError(f"count must be a whole number, got {count}")
    tail = _tail(confidence)
    return Estimate(count, _lower_mean(count, tail)[()], _upper_mean(count, tail)[()])


def implied_mttf(failures, *, components, window, confidence=0.95) -> Estimate:
    r"""Mean time to failure of one component, from a published number of failures.

    .. math:: m = n t / k

    Parameters
    ----------
    failures : array_like
        Failures counted, k, at least 1.
    components : array_like
        Components that could fail, n.
    window : array_like
        Seconds of observation, t.
    confidence : array_like
        Of the interval, between 0 and 1.

    Returns
    -------
    Estimate
        Seconds. The interval is that of :func:`poisson_interval`: it covers chance, but not differences in what was
        counted as a failure.

    Raises
    ------
    ValueError
        ``failures`` or ``components`` is not a whole number of at least 1, or ``window`` is not positive.

    Notes
    -----
    Source: maximum likelihood for exponential lifetimes.

    Examples
    --------
    Llama 3 405B: 419 unexpected interruptions in 54 days on 16,384 GPUs (table 5 of the paper).

    >>> from clusterlab.units import day
    >>> mttf = implied_mttf(419, components=16384, window=54 * day)
    >>> [fmt(t, "h") for t in (mttf.value, mttf.low, mttf.high)]
    ['50,700 h', '46,000 h', '55,900 h']
    """
    whole(failures=failures, components=components)
    positive(window=window)
    count, n, window = nonnegative(failures=failures, components=components, window=window)
    seen = poisson_interval(count, confidence)
    exposure = n * window
    return Estimate(exposure / count, exposure / seen.high, exposure / seen.low, "s")


# --- Checkpoints -----------------------------------------------------------------------------------------------------


def checkpoint_size(parameters, *, bytes_per_parameter=14):
    r"""Bytes of a training checkpoint.

    .. math:: S = b N

    Parameters
    ----------
    parameters : array_like
        Parameters of the model, N.
    bytes_per_parameter : array_like
        Bytes kept for each, b: 14 for mixed-precision Adam (BF16 weights 2, FP32 weights, momentum and variance 12).
        Gradients are not kept: they are computed anew.

    Returns
    -------
    array_like
        Bytes, without metadata.

    Raises
    ------
    ValueError
        An argument is not positive and finite.

    Notes
    -----
    Source: MLSysBook, Fleet Foundations, table 7.

    Examples
    --------
    >>> fmt(checkpoint_size(175e9), "B"), fmt(checkpoint_size(175e9) / 100e9, "s")
    ('2.45 TB', '24.5 s')
    """
    n, size = positive(parameters=parameters, bytes_per_parameter=bytes_per_parameter)
    return size * n


@dataclass(frozen=True, repr=False)
class Checkpoint(Explained):
    """One checkpoint: its bytes, the seconds for which training stops, and those from then until it is safe."""

    size: float
    stall: float
    lag: float

    @property
    def time(self):
        """Seconds from its start until it is safe."""
        return self.stall + self.lag

    def _rows(self):
        rows = [("", "value"), ("size", summary(self.size, "B"))]
        return rows + [(name, summary(getattr(self, name), "s")) for name in ("stall", "lag", "time")]


def checkpoint(size, *, storage_bandwidth, writers=1, writer_bandwidth=None, local_bandwidth=None) -> Checkpoint:
    r"""How long a checkpoint stops training, and when it is safe.

    .. math:: T = \frac{S}{\min(B_\text{storage},\, w B_\text{writer})}, \qquad
        T_\text{local} = \frac{S}{w B_\text{local}}

    Parameters
    ----------
    size : array_like
        Bytes, S.
    storage_bandwidth : array_like
        Bytes/s that the remote storage takes from all writers together.
    writers : array_like
        Ranks that each write a shard, w: 1 for a full checkpoint gathered on one rank, all ranks for a sharded one.
    writer_bandwidth : array_like, optional
        Bytes/s of one writer to the storage; no limit by default.
    local_bandwidth : array_like, optional
        Bytes/s of one writer to its host's memory or disk. If given, the checkpoint has two levels: training stops for
        the local copy and continues while that drains to the storage (an asynchronous checkpoint).

    Returns
    -------
    Checkpoint
        Blocking: ``stall`` = T and no ``lag``. Two levels: ``stall`` = T_local and ``lag`` = T.

    Raises
    ------
    ValueError
        A size or bandwidth is not positive and finite, or ``writers`` is not a whole number of at least 1.

    Notes
    -----
    Derived: the slowest stage of a copy sets its rate. A failure is assumed to destroy the local copies, and the drain
    not to slow training.

    Examples
    --------
    BLOOM's 2.3 TiB from 384 ranks to storage of 63 GB/s: blocking, and through host memory at 10 GB/s for each rank.

    >>> from clusterlab.units import TiB
    >>> where = {"storage_bandwidth": 63e9, "writers": 384}
    >>> [fmt(checkpoint(2.3 * TiB, **where, **local).stall, "s") for local in ({}, {"local_bandwidth": 10e9})]
    ['40.1 s', '659 ms']
    """
    whole(writers=writers)
    given = {"writer_bandwidth": writer_bandwidth, "local_bandwidth": local_bandwidth}
    given = {name: value for name, value in given.items() if value is not None}
    checked = positive(size=size, storage_bandwidth=storage_bandwidth, writers=writers, **given)
    size, remote, writers, *checked = checked
    given = dict(zip(given, checked, strict=True))
    if writer_bandwidth is not None:
        remote = np.minimum(remote, writers * given["writer_bandwidth"])
    if local_bandwidth is None:
        return Checkpoint(size, size / remote, 0 * size / remote)
    return Checkpoint(size, size / (writers * given["local_bandwidth"]), size / remote)


def young_interval(write, mtbf):
    r"""Checkpoint interval by Young's first-order rule.

    .. math:: \tau = \sqrt{2 \delta M}

    Parameters
    ----------
    write, mtbf : array_like
        Seconds for which a checkpoint stops the job, delta, and mean time between failures of the job, M, seconds.

    Returns
    -------
    array_like
        Seconds of work between checkpoints, tau.

    Raises
    ------
    ValueError
        An argument is not positive and finite.

    Notes
    -----
    Source: Young 1974. Accurate while delta is far below M; beyond delta = M/2 it exceeds M.

    Examples
    --------
    >>> from clusterlab.units import hour
    >>> fmt(young_interval(60, 3 * hour), "min")
    '19 min'
    """
    write, mtbf = positive(write=write, mtbf=mtbf)
    return np.sqrt(2 * write * mtbf)


def daly_interval(write, mtbf):
    r"""Checkpoint interval by Daly's higher-order rule.

    .. math:: \tau = \sqrt{2 \delta M}\left[1 + \tfrac13\sqrt{\tfrac{\delta}{2M}} + \tfrac19\,\tfrac{\delta}{2M}\right]
        - \delta \quad (\delta < 2M), \qquad \tau = M \quad (\delta \ge 2M)

    Parameters
    ----------
    write, mtbf : array_like
        Seconds for which a checkpoint stops the job, delta, and mean time between failures of the job, M, seconds.

    Returns
    -------
    array_like
        Seconds of work between checkpoints, tau.

    Raises
    ------
    ValueError
        An argument is not positive and finite.

    Notes
    -----
    Source: Daly 2006, his higher-order estimate: a series for :func:`optimal_interval`.

    Examples
    --------
    >>> round(daly_interval(5 * 60, 24 * 3600) / 60)
    117
    """
    write, mtbf = positive(write=write, mtbf=mtbf)
    half = write / (2 * mtbf)
    series = np.sqrt(2 * write * mtbf) * (1 + np.sqrt(half) / 3 + half / 9) - write
    return np.where(half < 1, series, mtbf)[()]


def optimal_interval(write, mtbf):
    r"""Checkpoint interval that minimises the expected run time, exactly.

    .. math:: e^{(\tau + \delta)/M}\left(1 - \frac{\tau}{M}\right) = 1, \qquad
        \tau = M \left[1 + W_0\!\left(-e^{-1 - \delta/M}\right)\right]

    Parameters
    ----------
    write, mtbf : array_like
        Seconds for which a checkpoint stops the job, delta, and mean time between failures of the job, M, seconds.

    Returns
    -------
    array_like
        Seconds of work between checkpoints, tau, always below M. Detection, repair, restart and lag do not change it,
        because they only multiply the expected time (:func:`expected_run_time`). Beyond delta = 0.797 M it is shorter
        than the write: no interval is worth it there.

    Raises
    ------
    ValueError
        An argument is not positive and finite.

    Notes
    -----
    Source: the minimum of Daly's 2006 expected time; W_0 is Lambert's function. With y = (tau + delta)/M it solves
    y + exp(-y) - 1 = delta/M. The left side is convex, so Newton's method from above always converges, and nothing
    cancels near the branch point of W_0, where all practical cases are. The relative error is about 1e-16 / y.

    Examples
    --------
    >>> rules = young_interval, daly_interval, optimal_interval
    >>> [[round(float(rule(60, mtbf)), 1) for rule in rules] for mtbf in (3 * 3600, 60)]
    [[1138.4, 1098.8, 1098.8], [84.9, 49.6, 50.5]]
    """
    write, mtbf = positive(write=write, mtbf=mtbf)
    ratio = write / mtbf
    y = np.sqrt(2 * ratio) + ratio
    for _ in range(8):
        y = y - (y + np.expm1(-y) - ratio) / -np.expm1(-y)
    return mtbf * -np.expm1(-y)


# --- What a failure costs --------------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False, kw_only=True)
class Job(Explained):
    """A checkpointed job and what each of its failures costs. Times are in seconds, by keyword, scalars or arrays.

    Parameters
    ----------
    interval : array_like
        Work between two checkpoints, tau.
    write : array_like
        Time for which a checkpoint stops the job, delta.
    mtbf : array_like
        Mean time between failures of the whole job, M.
    lag : array_like
        Time after that stop until the checkpoint is safe, b.
    detection, repair, restart : array_like
        Time after a failure until it is noticed, d; until a machine is available, w (the mean is enough); to load and
        initialise, R.
    maintenance : array_like
        Share of the calendar in planned windows, m, which the job enters with a fresh checkpoint.

    Raises
    ------
    ValueError
        ``interval`` is shorter than ``write``, ``lag`` is longer than both together, ``maintenance`` is 1 or more, or a
        value is negative or not finite (``interval`` and ``mtbf`` must also not be zero).

    Examples
    --------
    A what-if is made with ``dataclasses.replace``: here, a restart in half the time.

    >>> from dataclasses import replace
    >>> from clusterlab.units import minute
    >>> job = Job(interval=1100, write=60, mtbf=185 * minute, detection=2 * minute, restart=5 * minute)
    >>> [fmt(goodput(each).useful, "%") for each in (job, replace(job, restart=job.restart / 2))]
    ['86.6%', '87.8%']
    """

    interval: float
    write: float
    mtbf: float
    lag: float = 0.0
    detection: float = 0.0
    repair: float = 0.0
    restart: float = 0.0
    maintenance: float = 0.0

    def __post_init__(self) -> None:
        """Check each value, and the values against each other."""
        positive(interval=self.interval, mtbf=self.mtbf)
        for name, value in zip(vars(self), nonnegative(**vars(self)), strict=True):
            object.__setattr__(self, name, value)
        if np.any(self.interval < self.write):
            least, most = np.min(self.interval), np.max(self.write)
            raise ValueError(f"interval must be at least write, got {least:g} and {most:g}")
        if np.any(self.period < self.lag):
            most = np.max(self.lag)
            raise ValueError(f"lag must be at most interval and write together, got {most:g}: writes would pile up")
        if np.any(self.maintenance >= 1):
            raise ValueError(f"maintenance must be a share below 1, got {np.max(self.maintenance):g}")

    @property
    def period(self):
        """Seconds from one checkpoint to the next without failures: interval and write."""
        return self.interval + self.write

    def _rows(self):
        times = [(name, summary(value, "s")) for name, value in vars(self).items() if name != "maintenance"]
        return [("", "value"), *times, ("maintenance", summary(self.maintenance, "%"))]


@dataclass(frozen=True, repr=False)
class _Parts(Explained):
    """What a job's wall-clock time is spent on.

    ``checkpoint`` is the time for which kept checkpoints stop the job, ``rework`` all running time that failures undid,
    and ``restart`` includes the restarts that a further failure cut short.
    """

    useful: float
    checkpoint: float
    rework: float
    detection: float
    restart: float
    repair: float
    maintenance: float

    @property
    def parts(self) -> Mapping:
        """Every part by name."""
        return {f.name: getattr(self, f.name) for f in fields(_Parts)}

    @property
    def total(self):
        """Sum of all parts."""
        return reduce(np.add, self.parts.values())


class Goodput(Predicted, _Parts):
    """Shares of a job's wall-clock time; they sum to one. ``useful`` is the goodput (effective training time ratio).

    Of published runs, one in ten kept less than ``low`` and one in ten more than ``high``: the odds of lost time, lost
    over useful, are between the ends of the spread ``goodput`` of :data:`clusterlab.catalogue.SPREADS` times those
    here.
    """

    def _predicted(self):
        spread = catalogue.SPREADS["goodput"]
        ends = (self.useful / (self.useful + odds * (1 - self.useful)) for odds in (spread.high, spread.low))
        return self.useful, *ends, "%"

    def _rows(self):
        lost = [(name, summary(part, "%")) for name, part in self.parts.items() if name != "useful"]
        return [("", "share"), ("useful", self.with_interval), *lost]


class RunTime(Predicted, _Parts):
    """Seconds of a job's run by what they were spent on, the parts of a :class:`Goodput`.

    ``low`` and ``high`` are the ends of the total's interval: what is lost is as uncertain as that of a goodput, and
    the useful time is taken as given.
    """

    @property
    def goodput(self):
        """Share of the time that was useful."""
        return self.useful / self.total

    def _predicted(self):
        spread, lost = catalogue.SPREADS["goodput"], self.total - self.useful
        return self.total, self.useful + spread.low * lost, self.useful + spread.high * lost, "s"

    def _rows(self):
        rows = [(name, summary(t, "s"), summary(t / self.total, "%")) for name, t in self.parts.items()]
        return [("", "time", "share"), *rows, ("total", *self._cells())]


def first_order_goodput(job: Job):
    r"""Goodput in Young's first-order approximation: each loss is small, and losses do not interact.

    .. math:: 1 - m - \frac{\delta}{\tau} - \frac{\tau/2 + b + d + w + R}{M}

    Parameters
    ----------
    job : Job
        Its interval tau, write delta, and so on.

    Returns
    -------
    array_like
        A share, greatest at :func:`young_interval`. It is negative where the losses are not small.

    Notes
    -----
    Source: Young 1974; the fixed costs of a failure and the maintenance are added to the same order.

    Examples
    --------
    A write of 60 s at an MTBF of 3 h, and at one of 100 s:

    >>> jobs = [Job(interval=young_interval(60, mtbf), write=60, mtbf=mtbf) for mtbf in (3 * 3600, 100)]
    >>> [round(first_order_goodput(job), 3) for job in jobs]
    [0.895, -0.095]
    """
    lost = job.interval / 2 + job.lag + job.detection + job.repair + job.restart  # seconds for each failure
    return 1 - job.maintenance - job.write / job.interval - lost / job.mtbf


def goodput(job: Job) -> Goodput:
    r"""Goodput of a long job and every loss by name: exact at every scale, and one in sum.

    With P the running time between two failures that is kept, and D = d + w,

    .. math:: \eta = (1 - m)\,\frac{\tau}{\tau + \delta}\,\frac{P}{M + D}, \qquad
        P = \frac{(\tau + \delta)\, e^{-(b + R)/M}}{e^{(\tau + \delta)/M} - 1}

    Parameters
    ----------
    job : Job
        Its interval tau, write delta, and so on.

    Returns
    -------
    Goodput

    Notes
    -----
    Derived: the limit of :func:`expected_run_time`. Between two failures the machine is up for M seconds on average, of
    which M (1 - exp(-R/M)) go into restarts; D follows. Of the rest, P is kept.

    Examples
    --------
    >>> from clusterlab.units import minute
    >>> goodput(Job(interval=1100, write=60, mtbf=185 * minute, detection=2 * minute, restart=5 * minute))
    Goodput
                                share
    useful       86.6% (25.3 to 96.4)
    checkpoint                  4.72%
    rework                      4.94%
    detection                   1.07%
    restart                     2.64%
    repair                         0%
    maintenance                    0%
    """
    mtbf = job.mtbf
    # The time of one failure, in units of mtbf.
    period, restart = job.period / mtbf, job.restart / mtbf
    running = np.exp(-restart)
    kept = running * np.exp(-job.lag / mtbf) * period * np.exp(-period) / -np.expm1(-period)
    share = (1 - job.maintenance) / (1 + (job.detection + job.repair) / mtbf)
    return Goodput(
        useful=share * kept * (job.interval / job.period),
        checkpoint=share * kept * (job.write / job.period),
        rework=share * np.maximum(running - kept, 0),
        detection=share * (job.detection / mtbf),
        restart=share * -np.expm1(-restart),
        repair=share * (job.repair / mtbf),
        maintenance=job.maintenance,
    )


def expected_run_time(work, job: Job) -> RunTime:
    r"""Expected run time of a job under failures, exactly, by what it is spent on.

    .. math:: E[T] = \frac{e^{R/M}\,(M + d + w)}{1 - m}
        \left[\sum_k e^{b/M}\left(e^{(\tau_k + \delta)/M} - 1\right) + e^{b/M} - 1\right]

    Parameters
    ----------
    work : array_like
        Seconds that the job would take without failures and checkpoints. It is divided into segments tau_k of
        ``job.interval`` seconds and a last one of what remains, each followed by its checkpoint.
    job : Job
        Its interval tau, write delta, and so on.

    Returns
    -------
    RunTime
        Each part is an exact expectation.

    Raises
    ------
    ValueError
        ``work`` is not positive and finite, or ``mtbf`` is so short that the job would never end.

    Notes
    -----
    Source: Daly 2006 for blocking writes without detection; with a downtime D = d + w, Herault and Robert 2015,
    chapter 1. Derived for the lag: after a failure, running from a safe checkpoint until the next is safe takes
    L = tau + delta + b, and E(L) = (M + D) exp(R/M) (exp(L/M) - 1) with further failures. At the moment a checkpoint
    becomes safe, s = tau + delta more are enough, or E(L) after a failure, which gives the term of the sum:
    (1 - exp(-s/M)) ((M + D) exp(R/M) + E(L)).

    Examples
    --------
    54 days of work on 16,384 GPUs of 50,000 h each:

    >>> from clusterlab.units import day, hour, minute
    >>> mtbf = system_mtbf(50_000 * hour, 16384)
    >>> job = Job(interval=1100, write=60, mtbf=mtbf, detection=2 * minute, restart=5 * minute)
    >>> expected_run_time(54 * day, job)
    RunTime
                    time        share
    useful          54 d        86.5%
    checkpoint    70.7 h        4.72%
    rework        74.8 h        4.99%
    detection    971 min        1.08%
    restart       39.9 h        2.66%
    repair           0 s           0%
    maintenance      0 s           0%
    total         62.4 d  (56 to 214)
    """
    positive(work=work)
    work, *_ = nonnegative(work=work, **vars(job))
    running, failures = _expected_failures(work, job)
    full, _ = _segments(work, job.interval)
    checkpoints = (full + 1) * job.write + job.lag
    parts = {
        "useful": work,
        "checkpoint": checkpoints,
        "rework": job.mtbf * np.maximum(running - (work + checkpoints) / job.mtbf, 0),
        "detection": failures * job.detection,
        "restart": job.mtbf * running * np.expm1(job.restart / job.mtbf),
        "repair": failures * job.repair,
    }
    return RunTime(**parts, maintenance=_maintenance(parts, job))


def _expected_failures(work, job):
    """Mean number of failures while running (mean running time over mtbf), and with those during restarts."""
    mtbf = job.mtbf
    lag, restart = job.lag / mtbf, job.restart / mtbf
    if np.any((job.period + job.lag + job.restart) / mtbf > 500):
        raise ValueError(f"mtbf must be at least a five-hundredth of a period and a restart, got {np.min(mtbf):g}")
    full, last = _segments(work, job.interval)
    running = full * np.exp(lag) * np.expm1(job.period / mtbf) + np.expm1((last + job.write) / mtbf + lag)
    return running, running * np.exp(restart)


def _maintenance(parts, job):
    """Seconds of the planned windows of a job whose other seconds are ``parts``."""
    return reduce(np.add, parts.values()) * (job.maintenance / (1 - job.maintenance))


def _segments(work, interval):
    """Full intervals before the last segment of work, and its seconds; a remainder of rounding is not a segment."""
    full = np.maximum(np.ceil(work / interval - 1e-9) - 1, 0)
    return full, work - full * interval


def restart_time(attempt, failing, *, delay=0, confidence=0.95) -> Estimate:
    r"""Time until a job runs again, if each attempt to restart it fails with a probability of its own.

    .. math:: E = R + (R + w)\, \frac{p}{1 - p}, \qquad
        R + (R + w)\left(\left\lceil \frac{\ln(1 - q)}{\ln p} \right\rceil - 1\right)

    Parameters
    ----------
    attempt : array_like
        Seconds of one attempt, R.
    failing : array_like
        Probability that an attempt fails, p, from 0 to below 1.
    delay : array_like
        Seconds from a failed attempt to the next, w: someone or something has to notice.
    confidence : array_like
        1 - alpha, between 0 and 1.

    Returns
    -------
    Estimate
        ``value`` is the mean, which is what a :class:`Job` takes as its ``restart``; ``low`` and ``high`` are the
        quantiles q = alpha/2 and 1 - alpha/2.

    Raises
    ------
    ValueError
        ``attempt`` is not positive, ``failing`` is 1 or not a probability, ``delay`` is negative, or ``confidence`` is
        not between 0 and 1.

    Notes
    -----
    Derived: the number of attempts is geometric, if they fail independently. A fault that stays fails every attempt: of
    twelve chains of automatic retries on 504 B200s a third succeeded, and 73 attempts were made (Lablup 2026). Then no
    number of attempts helps, and the node has to go.

    Examples
    --------
    Ten minutes an attempt. If half of them fail, the mean doubles, and one restart in forty takes an hour:

    >>> [fmt(getattr(restart_time(600, 0.5), name), "min") for name in ("value", "low", "high")]
    ['20 min', '10 min', '60 min']
    """
    (once,) = positive(attempt=attempt)
    again, p = nonnegative(delay=delay, failing=failing)
    if np.any(p >= 1):
        raise ValueError(f"failing must be below 1, got {np.max(p):g}")
    tail = _tail(confidence)
    broadcastable(attempt=once, failing=p, delay=again, confidence=tail)
    each = once + again
    low, high = (once + each * (_attempts(p, share) - 1) for share in (tail, 1 - tail))
    return Estimate(once + each * p / (1 - p), low, high, "s")


def _attempts(failing, share):
    """Least number of attempts of which one succeeds with a probability of ``share``."""
    safe = np.where(failing > 0, failing, 0.5)
    return np.where(failing > 0, np.maximum(np.ceil(np.log1p(-share) / np.log(safe) - 1e-9), 1), 1)[()]


@dataclass(frozen=True, repr=False)
class Budget(Explained):
    """Shares of time that overheads take, and what they leave."""

    shares: Mapping[str, float]

    @property
    def summed(self):
        """What is left if each overhead is a share of the total time: 1 - sum."""
        return 1 - reduce(np.add, self.shares.values())

    @property
    def multiplied(self):
        """What is left if each is a share of the time that the others leave: the product of 1 - share."""
        return reduce(np.multiply, [1 - share for share in self.shares.values()])

    def _rows(self):
        rows = [(name, summary(share, "%")) for name, share in self.shares.items()]
        left = [("left, summed", summary(self.summed, "%")), ("left, multiplied", summary(self.multiplied, "%"))]
        return [("", "share"), *rows, *left]


def overhead_budget(**shares) -> Budget:
    r"""Goodput that a budget of overheads leaves: one minus their sum, or the product of what each leaves.

    .. math:: 1 - \sum_i s_i, \qquad \prod_i (1 - s_i)

    Parameters
    ----------
    **shares : array_like
        Share of time of each overhead, under a name of your choice.

    Returns
    -------
    Budget
        The sum is right where all are shares of the same total time and do not overlap (the parts of a
        :class:`Goodput`). The product is right where each was measured on the time that the others leave: a bubble is a
        share of a step, and steps run only while the job is up.

    Raises
    ------
    ValueError
        No share is given, one is negative, or they sum to more than 1.

    Notes
    -----
    Source: MLSysBook, Fleet Foundations, table 8, which sums.

    Examples
    --------
    >>> overhead_budget(bubbles=0.05, checkpoints=0.03, recovery=0.10, maintenance=0.05)
    Budget
                      share
    bubbles              5%
    checkpoints          3%
    recovery            10%
    maintenance          5%
    left, summed        77%
    left, multiplied  78.8%
    """
    if not shares:
        raise ValueError("overhead_budget needs at least one share, as name=share")
    budget = Budget(MappingProxyType(dict(zip(shares, nonnegative(**shares), strict=True))))
    if np.any(budget.summed < -1e-12):
        raise ValueError(f"shares must sum to at most 1, got {1 - np.min(budget.summed):g}")
    return budget


# --- Spares and repair -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class SparePool(Explained):
    """How a pool of spares serves a job. ``load`` is the mean number of machines in repair if the job never waited.

    ``none_left`` is the probability that a failure finds no spare, ``waiting`` the share of time for which the job
    waits, and ``wait`` the mean wait per failure in seconds, which is the ``repair`` of a :class:`Job`.
    """

    spares: float
    load: float
    none_left: float
    waiting: float
    wait: float

    def _rows(self):
        rows = [("", "value"), ("spares", summary(self.spares)), ("load", summary(self.load, "in repair"))]
        rows += [(words(name), summary(getattr(self, name), "%")) for name in ("none_left", "waiting")]
        return [*rows, ("wait", summary(self.wait, "s"))]


def _spares(spares, nodes, node_mtbf, repair) -> list:
    """Spares and nodes, checked, and the mean number of machines in repair."""
    whole(nodes=nodes)
    positive(node_mtbf=node_mtbf)
    spares, nodes, node_mtbf, repair = nonnegative(spares=spares, nodes=nodes, node_mtbf=node_mtbf, repair=repair)
    if np.any(spares != np.floor(spares)):
        raise ValueError(f"spares must be a whole number, got {spares}")
    return [spares, nodes, nodes * repair / node_mtbf]


def spare_pool(spares, *, nodes, node_mtbf, repair) -> SparePool:
    r"""Probability that a failure finds no spare machine, and how long the job waits for one.

    .. math:: P(\text{no spare}) = B(k, a), \quad \text{waiting} = B(k + 1, a), \quad
        B(c, a) = \frac{a^c / c!}{\sum_{i \le c} a^i / i!}, \quad a = \frac{N r}{m}

    Parameters
    ----------
    spares : array_like
        Machines on standby, k, which do not fail.
    nodes : array_like
        Machines that the job needs, N.
    node_mtbf : array_like
        Mean time to failure of one machine in use, seconds, m.
    repair : array_like
        Mean time until a failed machine is back as a spare, seconds, r; any distribution.

    Returns
    -------
    SparePool

    Raises
    ------
    ValueError
        ``spares`` is not a whole number, ``nodes`` is not a positive integer, ``node_mtbf`` is not positive,
        ``repair`` is negative, or one of them is not finite.

    Notes
    -----
    Derived: with j machines in repair, failures arrive at rate N/m while j <= k; at j = k + 1 the job waits and nothing
    fails; repairs end at rate j/r. That birth-death chain is Erlang's loss system with k + 1 servers (Erlang 1917,
    formula B), which depends on the mean of the repair time alone (Sevastyanov 1957). A failure that finds no spare
    waits for the first of k + 1 repairs, r/(k + 1) on average.

    Examples
    --------
    2,048 nodes of 8 GPUs (50,000 h each), two days of repair, 16, 24 and 32 spares:

    >>> from clusterlab.units import day, hour
    >>> pool = spare_pool([16, 24, 32], nodes=2048, node_mtbf=6250 * hour, repair=2 * day)
    >>> [fmt(share, "%") for share in pool.none_left], [fmt(share, "%") for share in pool.waiting]
    (['16.7%', '1.27%', '0.011%'], ['13.4%', '0.795%', '0.00526%'])
    """
    spares, nodes, load = _spares(spares, nodes, node_mtbf, repair)
    shape = np.broadcast_shapes(np.shape(spares), np.shape(load))
    blocked, none_left, waiting = 1 + 0 * load, np.zeros(shape), np.zeros(shape)  # B(0, a) = 1
    for servers in range(int(np.max(spares)) + 1):
        none_left = np.where(spares == servers, blocked, none_left)[()]
        blocked = load * blocked / (servers + 1 + load * blocked)
        waiting = np.where(spares == servers, blocked, waiting)[()]
    return SparePool(spares, load, none_left, waiting, none_left * repair / (spares + 1))


@dataclass(frozen=True, repr=False)
class InRepair(Explained):
    """Machines in repair at a moment: their mean ``load``, standard ``deviation``, and the ``spares`` that suffice."""

    load: float
    deviation: float
    spares: float

    def _rows(self):
        rows = [("load", summary(self.load, "in repair")), ("deviation", summary(self.deviation))]
        return [("", "value"), *rows, ("spares", summary(self.spares))]


def spares_for(share, *, nodes, node_mtbf, repair, machines=1, dispersion=0) -> InRepair:
    r"""Least number of spares that are enough for a share of the time, where failures come in crowds and in bursts.

    .. math:: \text{Var} = a\left(\frac{E[K^2]}{E[K]} + \alpha_d\, a\right), \quad a = \frac{N r}{m}, \qquad
        g_s = \sum_j \left(A + B\,\frac{j}{s}\right) f_j\, g_{s - j}

    Parameters
    ----------
    share : array_like
        Of the time, in which no more machines are in repair than there are spares; between 0 and 1.
    nodes, node_mtbf, repair : array_like
        As in :func:`spare_pool`: N, m and r.
    machines : int or mapping
        Machines that one failure takes, K, which come back together; or a mapping of each such number to its share of
        the failures, f. ``node_mtbf`` counts every machine that is taken.
    dispersion : array_like
        As in :func:`expected_failures`, alpha_d: the rate stays as it is for longer than a repair.

    Returns
    -------
    InRepair

    Raises
    ------
    ValueError
        As in :func:`spare_pool`, or ``share`` is not between 0 and 1, ``dispersion`` is negative, or the shares of
        ``machines`` do not sum to 1.

    Notes
    -----
    Source: machines in repair are customers of a queue with a server for each, M/G/infinity, whose number is Poisson
    whatever the distribution of the repair time (Takacs 1962): a heavy tail alone needs no further spare. With crowds
    the number is compound Poisson, with bursts compound negative binomial, both by Panjer's recursion (1981).
    Machines that come back one by one, and bursts shorter than a repair, need fewer spares than this.

    Examples
    --------
    2,048 nodes of 6,250 h, two days of repair: 16 in repair on average. Spares for 99 % of the time; if one failure in
    fifty takes a rack of 8; and in a fleet whose months differ too.

    >>> from clusterlab.units import day, hour
    >>> fleet = {"nodes": 2048, "node_mtbf": 6250 * hour, "repair": 2 * day}
    >>> racks = {1: 0.98, 8: 0.02}
    >>> pools = [spares_for(0.99, **fleet, **more) for more in ({}, {"machines": racks}, {"dispersion": BURSTS})]
    >>> [(int(pool.spares), round(float(pool.deviation), 1)) for pool in pools]
    [(26, 4.0), (32, 5.6), (40, 8.1)]
    """
    _, nodes, load = _spares(0, nodes, node_mtbf, repair)
    (part,), (spread,) = fraction(share=share), nonnegative(dispersion=dispersion)
    if np.any(part == 1):
        raise ValueError("share must be below 1, got 1")
    broadcastable(share=part, load=load, dispersion=spread)
    sizes, chances = _sizes(machines)
    mean, square = sizes @ chances, sizes**2 @ chances
    enough = np.vectorize(lambda a, d, q: _compound_quantile(a / mean, d, sizes, chances, q))(load, spread, part)
    return InRepair(load, np.sqrt(load * (square / mean + spread * load)), enough[()])


def _compound_quantile(mean, dispersion, sizes, chances, probability):
    """Least number that a sum of ``sizes`` stays within, over a count with a mean and a dispersion (Panjer 1981)."""
    if mean == 0:
        return 0.0
    wide = 1 + dispersion * mean
    a, b = dispersion * mean / wide, mean * (1 - dispersion) / wide
    center = mean * (sizes @ chances)
    deviation = math.sqrt(mean * (sizes**2 @ chances) + dispersion * center**2)
    chance = np.zeros(math.ceil(center + 12 * deviation + 60 * wide * max(sizes)) + 1)
    chance[0] = 1.0  # all are relative to the first until the end: its own value may be too small for a float
    for s in range(1, chance.size):
        fits = sizes[sizes <= s].astype(int)
        chance[s] = np.sum((a + b * fits / s) * chances[: fits.size] * chance[s - fits])
        if chance[s] > 1e200:
            chance[: s + 1] /= 1e200
    total = np.cumsum(chance)
    return float(np.searchsorted(total, probability * total[-1]))


def elastic_capacity(spares, *, nodes, node_mtbf, repair, replica=1):
    r"""Mean speed, as a share of full speed, of a job that shrinks when no spare is left instead of waiting.

    .. math:: \sum_j \pi_j \, \frac{g}{N} \left\lfloor \frac{N - (j - k)^+}{g} \right\rfloor, \qquad
        \frac{\pi_{j+1}}{\pi_j} = \frac{r}{m}\,\frac{N - (j - k)^+}{j + 1}

    Parameters
    ----------
    spares, nodes, node_mtbf, repair : array_like
        As in :func:`spare_pool`: k, N, m and r.
    replica : array_like
        Nodes of one data-parallel replica, g: the job drops whole replicas. Must divide ``nodes``.

    Returns
    -------
    array_like
        Share between 0 and 1. A job that waits has 1 - ``waiting`` of :func:`spare_pool`. Each change of size costs a
        restart, which is not included.

    Raises
    ------
    ValueError
        As in :func:`spare_pool`, or ``replica`` does not divide ``nodes``.

    Notes
    -----
    Derived: the machine-repair model with spares and a repairer for each machine (Gross and Harris, Fundamentals of
    Queueing Theory, finite-source queues). The healthy nodes of a dropped replica stay on, and can fail.

    Examples
    --------
    16 spares for 2,048 nodes: the speed that is kept by waiting, by dropping replicas of 64 nodes, and single nodes.

    >>> from clusterlab.units import day, hour
    >>> fleet = {"nodes": 2048, "node_mtbf": 6250 * hour, "repair": 2 * day}
    >>> kept = [1 - spare_pool(16, **fleet).waiting, *(elastic_capacity(16, **fleet, replica=g) for g in (64, 1))]
    >>> [fmt(share, "%") for share in kept]
    ['86.6%', '98.7%', '99.9%']
    """
    whole(replica=replica)
    spares, nodes, load = _spares(spares, nodes, node_mtbf, repair)
    nodes, replica = positive(nodes=nodes, replica=replica)
    if np.any(nodes % replica != 0):
        raise ValueError(f"replica must divide nodes, got {replica} and {nodes}")
    weight = total = load * 0 + 1 + 0 * (spares + replica)
    speed = weight
    for j in range(int(np.max(nodes + spares))):
        healthy = np.maximum(nodes - np.maximum(j - spares, 0), 0)
        weight = weight * load * (healthy / nodes) / (j + 1)
        left = np.maximum(nodes - np.maximum(j + 1 - spares, 0), 0)
        total = total + weight
        speed = speed + weight * (np.floor(left / replica) * replica / nodes)
        scale = np.maximum(total, 1)  # keeps large loads finite
        weight, total, speed = weight / scale, total / scale, speed / scale
        if np.all((weight < 1e-18 * total) & (j > load)):
            break
    return speed / total


# --- Monte Carlo simulation ------------------------------------------------------------------------------------------


class Event(NamedTuple):
    """One stretch of a run: the part of :class:`RunTime` that it belongs to, its start and its end in seconds."""

    part: str
    start: float
    end: float


@dataclass(frozen=True, repr=False)
class Runs(RunTime):
    """Simulated runs: arrays with one element for each run, of the seconds of each part and of the failures.

    ``timeline`` holds the events of the first run, without gaps and without its maintenance windows.
    """

    failures: np.ndarray
    timeline: tuple[Event, ...]

    def _rows(self):
        shown = self.parts | {"total": self.total}
        rows = [(name, t, "s") for name, t in shown.items()] + [("failures", self.failures, "")]
        points = [lambda x: np.mean(x), lambda x: np.quantile(x, 0.05), lambda x: np.quantile(x, 0.95)]
        heading = (f"{len(self.failures):,} runs", "mean", "5%", "95%")
        return [heading, *((name, *(fmt(float(point(x)), unit) for point in points)) for name, x, unit in rows)]


_MOST_FAILURES = 100_000


def simulate(work, job: Job, *, spares=None, machines=1, tail=None, shape=1, age=None, runs=1000, seed=0) -> Runs:
    r"""Monte Carlo simulation of a job: the model of this module, failure by failure, all runs at once.

    .. math:: t_{i+1} = H^{-1}\left(H(t_i) + E_i\right), \quad E_i \sim \text{Exp}(1), \quad H(t) = t/M

    Parameters
    ----------
    work : float
        As in :func:`expected_run_time`.
    job : Job
        Of scalars. With ``spares``, its ``repair`` is the mean of an exponential repair time of machines; without, the
        time for which each failure waits.
    spares : int, optional
        Machines on standby: the job waits only while more than these are in repair.
    machines : int or mapping
        Machines that one failure takes; they come back from repair together. Where failures differ (a node, a rack, a
        switch), a mapping of each number of machines to its share of the failures. Above 1, ``spares`` must be given.
    tail : float, optional
        Of lognormal repair times of machines, the standard deviation of the logarithm: 1.1 to 3 in published logs.
    shape, age : float
        Weibull shape, and the age at which machines that are new at the start have reached ``job.mtbf`` (``work`` by
        default); H is :func:`infant_failures`.
    runs, seed : int
        Number of runs, and seed of the random numbers.

    Returns
    -------
    Runs
        Distributions: an array of each part, and the timeline of the first run.

    Raises
    ------
    ValueError
        An argument is refused by :func:`expected_run_time`, :func:`spare_pool` or :func:`infant_failures`, the shares
        of ``machines`` do not sum to 1, or a run would take more than 100,000 failures.

    Notes
    -----
    Derived: after a failure all that matters is the safe checkpoints, the clock and the machines in repair, so a run
    needs one step for each failure, not for each checkpoint.

    Examples
    --------
    >>> from clusterlab.units import day, hour, minute
    >>> mtbf = system_mtbf(50_000 * hour, 16384)
    >>> simulate(54 * day, Job(interval=1100, write=60, mtbf=mtbf, detection=2 * minute, restart=5 * minute))
    Runs
    1,000 runs      mean       5%     95%
    useful          54 d     54 d    54 d
    checkpoint    70.7 h   70.7 h  70.7 h
    rework        74.8 h   67.8 h  81.9 h
    detection    971 min  888 min  17.5 h
    restart       39.9 h   36.6 h  43.2 h
    repair           0 s      0 s     0 s
    maintenance      0 s      0 s     0 s
    total         62.4 d   61.9 d  62.9 d
    failures         486      444     526
    """
    given = {"work": work, "spares": spares, "machines": machines, "shape": shape, "age": age, "runs": runs} | vars(job)
    for name, value in {**given, "tail": tail}.items():
        if np.ndim(value):
            raise ValueError(f"{name} must be one number, got {value!r}")
    work, shape, age = positive(work=work, shape=shape, age=work if age is None else age)
    runs = int(*whole(runs=runs))
    expected = _expected_failures(work, job)[1] if shape == 1 else 0
    if expected > _MOST_FAILURES:
        limit = f"mtbf must let a run end within {_MOST_FAILURES:,} failures"
        raise ValueError(f"{limit}, got {job.mtbf:g}: {expected:.3g} are expected")
    full, last = _segments(work, job.interval)
    plan = _Plan(job=job, checkpoints=full + 1, last=last, shape=shape, age=age)
    if tail is not None:
        positive(tail=tail)
        if spares is None:
            raise ValueError(f"tail must be None without spares, got {tail:g}")
    pool = _pool(spares, machines, repair=job.repair, tail=tail, runs=runs)
    state, trace = _run(plan, pool, runs=runs, random=np.random.default_rng(seed))
    parts = {
        "useful": np.full(runs, work),
        "checkpoint": np.full(runs, plan.checkpoints * job.write + job.lag),
        "rework": state.rework,
        "detection": job.detection * state.failures,
        "restart": state.restart,
        "repair": state.repair,
    }
    return Runs(
        **parts,
        maintenance=_maintenance(parts, job),
        failures=state.failures.astype(int),
        timeline=tuple(_timeline(trace, plan)),
    )


@dataclass(frozen=True, kw_only=True)
class _Plan:
    """What every run has to do: checkpoints to make safe, seconds of work before the last; and how its machines age."""

    job: Job
    checkpoints: float
    last: float
    shape: float
    age: float


@dataclass(frozen=True, kw_only=True)
class _State:
    """Every run so far: its clock, its safe checkpoints, its failures, and the seconds lost to each part."""

    clock: np.ndarray
    safe: np.ndarray
    failures: np.ndarray
    rework: np.ndarray
    restart: np.ndarray
    repair: np.ndarray

    def add(self, live, attempt, detection):
        """Add one attempt of each live run."""
        self.safe[live] += attempt.saved
        self.rework[live] += attempt.lost
        self.restart[live] += attempt.restart
        self.failures[live] += ~attempt.finished
        self.repair[live] += attempt.wait
        self.clock[live] = attempt.end + np.where(attempt.finished, 0, detection + attempt.wait)


@dataclass(kw_only=True)
class _Attempt:
    """One attempt of each live run: from its start, or the recovery from a failure, to the next failure or its end.

    Seconds at its start, restarting, running, running that was lost, and waiting for a machine after it; checkpoints
    ``saved``; and whether the run is ``finished``.
    """

    start: np.ndarray
    restart: np.ndarray
    running: np.ndarray
    saved: np.ndarray
    lost: np.ndarray
    finished: np.ndarray
    wait: np.ndarray | float = 0.0

    @property
    def end(self):
        """Seconds on the clock at the failure, or at the end of the run."""
        return self.start + self.restart + self.running

    def of(self, index) -> _Attempt:
        """The attempt of one run."""
        return _Attempt(**{name: value[index] for name, value in vars(self).items()})


def _run(plan, pool, *, runs, random):
    """State of all runs at their end, and the attempts of the first."""
    state = _State(**{f.name: np.zeros(runs) for f in fields(_State)})
    live, trace = np.arange(runs), []
    for failures in range(_MOST_FAILURES):
        now = state.clock[live]
        attempt = _attempt(
            now,
            time_to_failure=_time_to_failure(now, plan, random),
            restart_time=plan.job.restart if failures else 0.0,
            remaining=plan.checkpoints - state.safe[live],
            plan=plan,
        )
        wait = plan.job.repair if pool is None else pool.wait(live, attempt.end, plan.job.detection, random)
        attempt.wait = np.where(attempt.finished, 0, wait)
        state.add(live, attempt, plan.job.detection)
        if live[0] == 0:
            trace.append(attempt.of(0))
        live = live[~attempt.finished]
        if not live.size:
            return state, trace
    raise ValueError(f"mtbf must let a run end within {_MOST_FAILURES:,} failures, got {plan.job.mtbf:g}")


def _time_to_failure(now, plan, random):
    """Seconds from ``now`` to the next failure of each live run, drawn from the power-law process."""
    mtbf, shape, age = plan.job.mtbf, plan.shape, plan.age
    hazard = random.exponential(size=now.size)
    if shape == 1:
        return mtbf * hazard
    return age * ((now / age) ** shape + hazard * shape * mtbf / age) ** (1 / shape) - now


def _attempt(now, *, time_to_failure, restart_time, remaining, plan):
    """How far each live run gets from ``now`` until its next failure, with ``remaining`` checkpoints to make safe."""
    job = plan.job
    running = np.maximum(time_to_failure - restart_time, 0)
    needed = (remaining - 1) * job.period + plan.last + job.write + job.lag
    finished = time_to_failure - restart_time >= needed
    saved = np.clip(np.floor((running - job.lag) / job.period), 0, remaining - 1)
    return _Attempt(
        start=now,
        restart=np.minimum(restart_time, time_to_failure),
        running=np.where(finished, needed, running),
        saved=np.where(finished, remaining, saved),
        lost=np.where(finished, 0, running - saved * job.period),
        finished=finished,
    )


def _sizes(machines):
    """Machines that a failure takes, in rising order, and the share of the failures that takes so many; checked."""
    shares = machines if isinstance(machines, Mapping) else {machines: 1.0}
    (sizes,) = whole(machines=list(shares))
    (probabilities,) = fraction(**{"the shares of machines": list(shares.values())})
    if abs(sum(probabilities) - 1) > 1e-9:
        raise ValueError(f"the shares of machines must sum to 1, got {sum(probabilities):g}")
    order = np.argsort(sizes)
    return np.asarray(sizes)[order], np.asarray(probabilities)[order]


def _pool(spares, machines, *, repair, tail, runs):
    """The pool of spares of a simulation, or None; ``machines`` and ``tail`` as in :func:`simulate`."""
    sizes, probabilities = _sizes(machines)
    if spares is None:
        if np.any(sizes > 1):
            raise ValueError(f"machines must be 1 without spares, got {np.max(sizes):g}")
        return None
    return _Pool(
        sizes=sizes.astype(int),
        cumulative=np.cumsum(probabilities)[:-1],
        back=np.zeros((runs, int(_spares(spares, 1, 1, 1)[0] + np.max(sizes)))),
        repair=repair,
        tail=tail,
    )


@dataclass(frozen=True, kw_only=True)
class _Pool:
    """The machines in repair of every run: ``back`` holds when each comes back, in ``spares`` plus largest size places.

    A failure takes one of ``sizes`` machines, by the ``cumulative`` probabilities; their mean ``repair`` is in seconds,
    and ``tail`` the standard deviation of its logarithm, or None where it is exponential.
    """

    sizes: np.ndarray
    cumulative: np.ndarray
    back: np.ndarray
    repair: float
    tail: float | None

    def wait(self, live, failed, detection, random):
        """Seconds that each live run waits after ``detection`` of a failure until ``spares`` or fewer are in repair."""
        most = max(self.sizes)
        taken = self.sizes[np.searchsorted(self.cumulative, random.random(live.size), side="right")]
        if self.tail is None:
            repaired = failed + self.repair * random.exponential(size=live.size)
        else:
            repaired = failed + self.repair * random.lognormal(-(self.tail**2) / 2, self.tail, live.size)
        # At a failure no more than ``spares`` machines are in repair, so the ``most`` earliest places are free.
        back = np.partition(self.back[live], most - 1, axis=1)
        back[:, :most] = np.where(np.arange(most) < taken[:, None], repaired[:, None], back[:, :most])
        back = np.partition(back, most - 1, axis=1)
        self.back[live] = back
        return np.maximum(back[:, most - 1] - failed - detection, 0)


def _timeline(trace, plan):
    """Events of one run from its attempts: restart, what was kept, what was lost, and the wait for the next restart."""
    job = plan.job
    for attempt in trace:
        kept = [("useful", job.interval), ("checkpoint", job.write)] * int(attempt.saved)
        if attempt.finished:
            kept[-2:] = [("useful", plan.last), ("checkpoint", job.write + job.lag)]
        lost = [("rework", attempt.lost), ("detection", job.detection), ("repair", attempt.wait)]
        time = attempt.start
        for part, seconds in [("restart", attempt.restart), *kept, *([] if attempt.finished else lost)]:
            if seconds > 0:
                yield Event(part, time, time + seconds)
                time += seconds
