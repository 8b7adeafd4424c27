r"""Failures: how often a cluster fails, what a failure costs, and what checkpoints, spares and repair do about it.

The model of a job: failures of the whole job are a Poisson process of mean distance M (``mtbf``), in running and in
restarting alike. After each ``interval`` seconds of work the job stands still for ``write`` seconds, and the checkpoint
is safe ``lag`` seconds later (0: the write blocks until it is safe). A failure throws the job back to its last safe
checkpoint. Then come ``detection`` (the job hangs) and ``repair`` (it waits for a machine), in which nothing more can
break, and ``restart`` (load, initialise), in which a further failure leads back to detection. A run begins without a
restart and ends when its last checkpoint is safe. ``interval`` is work alone, as in Young 1974 and Daly 2006. Expected
times are exact in this model; :func:`simulate` plays it, and more than it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import reduce
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from .units import Explained, fmt, fraction, nonnegative, positive, summary, whole

# --- How often -------------------------------------------------------------------------------------------------------


def system_mtbf(component_mtbf, n):
    r"""Mean time between failures of n equal components, all of which are needed.

    .. math:: M = m / n

    Parameters
    ----------
    component_mtbf : array_like
        Mean time to failure of one component, seconds, m.
    n : array_like
        Components.

    Returns
    -------
    array_like
        Seconds.

    Raises
    ------
    ValueError
        ``component_mtbf`` is not positive and finite, or ``n`` is not a whole number of at least 1.

    Notes
    -----
    Source: MLSysBook, Fleet Foundations, equation 1. Exact for independent exponential lifetimes; for others the
    long-run mean, once the components' ages have mixed.

    Examples
    --------
    >>> from clusterlab.units import hour
    >>> [fmt(system_mtbf(50_000 * hour, n), "min", digits=4) for n in (8192, 100_000)]
    ['366.2 min', '30 min']
    """
    whole(n=n)
    mtbf, n = positive(component_mtbf=component_mtbf, n=n)
    return mtbf / n


@dataclass(frozen=True, repr=False)
class Series(Explained):
    """Kinds of components in series: any one that fails stops the job. ``mtbfs`` holds each kind's own, in seconds."""

    mtbfs: Mapping[str, float]

    @property
    def mtbf(self):
        """Mean time between failures of any kind, seconds."""
        return 1 / sum(1 / mtbf for mtbf in self.mtbfs.values())

    @property
    def shares(self) -> Mapping:
        """Share of all failures that each kind causes; they sum to one."""
        return {name: self.mtbf / mtbf for name, mtbf in self.mtbfs.items()}

    def _rows(self):
        rows = [(name, summary(self.mtbfs[name], "s"), summary(self.shares[name], "%")) for name in self.mtbfs]
        return [("kind", "MTBF", "of failures"), *rows, ("all", summary(self.mtbf, "s"), "")]


def series_mtbf(**kinds) -> Series:
    r"""Mean time between failures of several kinds of components in series: rates add.

    .. math:: \frac{1}{M} = \sum_i \frac{n_i}{m_i}

    Parameters
    ----------
    **kinds : (mtbf, n)
        For each kind, under a name of your choice, the mean time to failure of one in seconds and their number.

    Returns
    -------
    Series
        The MTBF of each kind, of all, and the share of each in the failures.

    Raises
    ------
    ValueError
        No kind is given, an MTBF is not positive and finite, or a number is not whole.

    Notes
    -----
    Derived: the minimum of independent exponential times is exponential, with the sum of their rates.

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
    """A value and the range around it at some confidence. ``unit`` is how it is printed."""

    value: float
    low: float
    high: float
    unit: str = ""

    def _rows(self):
        return [("", "value"), *((name, summary(getattr(self, name), self.unit)) for name in ("value", "low", "high"))]


def _poisson_tail(mean, count, step):
    """P(X >= count) for step +1, P(X <= count) for step -1: the Poisson terms from count outward, which must fall."""
    j = np.arange(10 * math.sqrt(count) + 60)
    ratios = mean / (count + 1 + j) if step > 0 else np.maximum(count - j, 0) / mean
    first = math.exp(count * math.log(mean) - mean - math.lgamma(count + 1))
    return first * (1 + np.cumprod(ratios).sum())


def _bisect(below, low, high):
    """Where ``below`` turns from true to false, to the last digit."""
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


@np.vectorize
def _poisson_quantile(mean, probability):
    """Least n with P(X <= n) >= probability."""
    reach = 10 * math.sqrt(mean) + 60
    n = np.arange(max(0, math.floor(mean - reach)), math.ceil(mean + reach))
    log = np.cumsum(np.log(mean / np.maximum(n, 1)))
    cumulative = np.cumsum(np.exp(log - log.max()))
    return float(n[np.searchsorted(cumulative, probability * cumulative[-1])])


def _outside(confidence):
    """What lies outside of a range at each of its ends."""
    (confidence,) = fraction(confidence=confidence)
    if np.any(confidence == 1):
        raise ValueError("confidence must be below 1, got 1")
    return (1 - confidence) / 2


def expected_failures(window, mtbf, confidence=0.95) -> Estimate:
    r"""Mean number of failures in a window of time, and the range in which a count falls.

    .. math:: \Lambda = t / M, \qquad P(X < \text{low}) \le \alpha/2, \quad P(X > \text{high}) \le \alpha/2

    Parameters
    ----------
    window, mtbf : array_like
        Length of the window, t, and mean time between failures, M, seconds.
    confidence : array_like
        1 - alpha, between 0 and 1.

    Returns
    -------
    Estimate
        ``value`` is the mean; ``low`` and ``high`` are counts, the quantiles alpha/2 and 1 - alpha/2.

    Raises
    ------
    ValueError
        ``window`` or ``mtbf`` is not positive and finite, or ``confidence`` is not between 0 and 1.

    Notes
    -----
    Source: the Poisson process and its distribution.

    Examples
    --------
    50,000 h for each of 16,384 GPUs predict for 54 days what Llama 3 405B counted, 419:

    >>> from clusterlab.units import day, hour
    >>> expected_failures(54 * day, system_mtbf(50_000 * hour, 16384))
    Estimate
           value
    value    425
    low      385
    high     466
    """
    window, mtbf = positive(window=window, mtbf=mtbf)
    tail, mean = _outside(confidence), window / mtbf
    return Estimate(mean, _poisson_quantile(mean, tail)[()], _poisson_quantile(mean, 1 - tail)[()])


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
        ``window`` is negative, ``mtbf`` is not positive, or one is not finite.

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
    r"""Mean number of failures of machines that were all new when the window began.

    .. math:: \Lambda(t) = \frac{a}{k M} \left(\frac{t}{a}\right)^k

    Parameters
    ----------
    window : array_like
        Seconds since all machines were new, t.
    mtbf, age : array_like
        Mean time between failures M of the system once its machines are ``age`` seconds old, a.
    shape : array_like
        Weibull shape k: below 1 the young fail most (infant mortality), 1 is exponential, above 1 is wear.

    Returns
    -------
    array_like
        A mean count; its rate at time t is (t/a)^(k-1) / M.

    Raises
    ------
    ValueError
        ``window`` is negative, another argument is not positive, or one is not finite.

    Notes
    -----
    Source: Crow 1975, the power-law process: n Weibull lifetimes of scale eta in series, as long as few of the n have
    been replaced; M = eta^k a^(1-k) / (n k).

    Examples
    --------
    The first week of a fleet with k = 0.5 whose MTBF settles at 3 h after a quarter:

    >>> from clusterlab.units import day, hour
    >>> round(infant_failures(7 * day, mtbf=3 * hour, shape=0.5, age=90 * day)), 7 * day / (3 * hour)
    (402, 56.0)
    """
    positive(mtbf=mtbf, shape=shape, age=age)
    t, mtbf, k, age = nonnegative(window=window, mtbf=mtbf, shape=shape, age=age)
    return age / (k * mtbf) * (t / age) ** k


def poisson_interval(count, confidence=0.95) -> Estimate:
    r"""Range of means that a Poisson count is compatible with (Garwood's exact interval).

    .. math:: \tfrac12\chi^2_{\alpha/2}(2k) \;\le\; \Lambda \;\le\; \tfrac12\chi^2_{1-\alpha/2}(2k + 2)

    Parameters
    ----------
    count : array_like
        Events seen, k: a whole number, zero included.
    confidence : array_like
        1 - alpha, between 0 and 1.

    Returns
    -------
    Estimate
        ``low``: the mean that yields k events or more with probability alpha/2. ``high``: k or fewer.

    Raises
    ------
    ValueError
        ``count`` is not a whole number of at least 0, or ``confidence`` is not between 0 and 1.

    Notes
    -----
    Source: Garwood 1936. The two means are found by bisection of the sums of Poisson terms themselves.

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
    tail = _outside(confidence)
    return Estimate(count, _lower_mean(count, tail)[()], _upper_mean(count, tail)[()])


def implied_mttf(failures, *, components, window, confidence=0.95) -> Estimate:
    r"""Mean time to failure of one component that a published count implies.

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
        Of the range, between 0 and 1.

    Returns
    -------
    Estimate
        Seconds; the range is that of :func:`poisson_interval`. It covers chance alone, not what was counted.

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
        Gradients are computed again.

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
    """One checkpoint: its bytes, the seconds that training stands still, and those until it is safe after that."""

    size: float
    stall: float
    lag: float

    @property
    def time(self):
        """Seconds from its beginning until it is safe."""
        return self.stall + self.lag

    def _rows(self):
        rows = [("", "value"), ("size", summary(self.size, "B"))]
        return rows + [(name, summary(getattr(self, name), "s")) for name in ("stall", "lag", "time")]


def checkpoint(size, *, storage_bandwidth, writers=1, writer_bandwidth=None, local_bandwidth=None) -> Checkpoint:
    r"""How long a checkpoint stops the training, and when it is safe.

    .. math:: T = \frac{S}{\min(B_\text{storage},\, w B_\text{writer})}, \qquad
        T_\text{local} = \frac{S}{w B_\text{local}}

    Parameters
    ----------
    size : array_like
        Bytes, S.
    storage_bandwidth : array_like
        Bytes/s that the remote storage takes from all writers together.
    writers : array_like
        Ranks that write a part each, w: 1 for a full checkpoint gathered on one rank, all of them for a sharded one.
    writer_bandwidth : array_like, optional
        Bytes/s of one writer towards the storage; the default is no limit.
    local_bandwidth : array_like, optional
        Bytes/s of one writer to its host's memory or disk. Where it is given the checkpoint has two levels: training
        stands still for the local copy and goes on while that drains to the storage (an asynchronous checkpoint).

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
    Derived: the slowest stage of a copy sets its rate. A failure is taken to destroy the local copies, and the drain
    not to slow the training.

    Examples
    --------
    BLOOM's 2.3 TiB from 384 ranks to storage of 63 GB/s, blocking, and by way of host memory at 10 GB/s for each rank:

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
    r"""Work between checkpoints by Young's first-order rule.

    .. math:: \tau = \sqrt{2 \delta M}

    Parameters
    ----------
    write, mtbf : array_like
        Seconds that a checkpoint stops the job, delta, and mean time between its failures, M.

    Returns
    -------
    array_like
        Seconds of work.

    Raises
    ------
    ValueError
        An argument is not positive and finite.

    Notes
    -----
    Source: Young 1974. Good while delta is far below M; beyond delta = M/2 it exceeds M.

    Examples
    --------
    >>> from clusterlab.units import hour
    >>> fmt(young_interval(60, 3 * hour), "min")
    '19 min'
    """
    write, mtbf = positive(write=write, mtbf=mtbf)
    return np.sqrt(2 * write * mtbf)


def daly_interval(write, mtbf):
    r"""Work between checkpoints by Daly's higher-order rule.

    .. math:: \tau = \sqrt{2 \delta M}\left[1 + \tfrac13\sqrt{\tfrac{\delta}{2M}} + \tfrac19\,\tfrac{\delta}{2M}\right]
        - \delta \quad (\delta < 2M), \qquad \tau = M \quad (\delta \ge 2M)

    Parameters
    ----------
    write, mtbf : array_like
        Seconds that a checkpoint stops the job, delta, and mean time between its failures, M.

    Returns
    -------
    array_like
        Seconds of work.

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
    r"""Work between checkpoints that makes the expected run time least: exactly.

    .. math:: e^{(\tau + \delta)/M}\left(1 - \frac{\tau}{M}\right) = 1, \qquad
        \tau = M \left[1 + W_0\!\left(-e^{-1 - \delta/M}\right)\right]

    Parameters
    ----------
    write, mtbf : array_like
        Seconds that a checkpoint stops the job, delta, and mean time between its failures, M.

    Returns
    -------
    array_like
        Seconds of work, always below M. It depends on neither detection, repair and restart nor the lag of the write,
        for these multiply the expected time (:func:`expected_run_time`). Beyond delta = 0.797 M it is shorter than the
        write: no interval is worth it there.

    Raises
    ------
    ValueError
        An argument is not positive and finite.

    Notes
    -----
    Source: the minimum of Daly's 2006 expected time; W_0 is Lambert's function. With y = (tau + delta)/M it is where
    y + exp(-y) - 1 = delta/M. That is convex, so Newton's method from above never misses, and nothing cancels near the
    branch point of W_0, where all practice is. The relative error is about 1e-16 / y.

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


@dataclass(frozen=True, repr=False)
class _Parts(Explained):
    """What a job's wall-clock time goes into.

    ``checkpoint`` is the stall of checkpoints that are kept, ``rework`` all running that a failure undid, and
    ``restart`` holds also the attempts that a failure cut short.
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
        """All parts added."""
        return reduce(np.add, self.parts.values())


class Goodput(_Parts):
    """Shares of a job's wall-clock time, one in sum. ``useful`` is the goodput (effective training time ratio)."""

    def _rows(self):
        return [("", "share"), *((name, summary(part, "%")) for name, part in self.parts.items())]


class RunTime(_Parts):
    """Seconds of a job by what they went into, the parts of a :class:`Goodput`."""

    @property
    def goodput(self):
        """Share of the time that was useful."""
        return self.useful / self.total

    def _rows(self):
        parts = self.parts | {"total": self.total}
        rows = [(name, summary(t, "s"), summary(t / self.total, "%")) for name, t in parts.items()]
        return [("", "time", "share"), *rows]


def _job(interval, write, mtbf, lag, detection, repair, restart, maintenance=0) -> list:
    """The arguments that describe a job, checked one by one and against each other."""
    positive(interval=interval, mtbf=mtbf)
    checked = nonnegative(
        interval=interval,
        write=write,
        mtbf=mtbf,
        lag=lag,
        detection=detection,
        repair=repair,
        restart=restart,
        maintenance=maintenance,
    )
    interval, write, _, lag, *_, maintenance = checked
    if np.any(interval < write):
        raise ValueError(f"interval must be at least write, got {np.min(interval):g} and {np.max(write):g}")
    if np.any(interval + write < lag):
        raise ValueError(f"lag must be at most interval and write together, got {np.max(lag):g}: writes would pile up")
    if np.any(maintenance >= 1):
        raise ValueError(f"maintenance must be a share below 1, got {np.max(maintenance):g}")
    return checked


def first_order_goodput(interval, *, write, mtbf, lag=0, detection=0, repair=0, restart=0):
    r"""Goodput as Young's rule sees it: each loss is small, and none meets another.

    .. math:: 1 - \frac{\delta}{\tau} - \frac{\tau/2 + b + d + w + R}{M}

    Parameters
    ----------
    interval, write, mtbf, lag, detection, repair, restart : array_like
        As in :func:`goodput`.

    Returns
    -------
    array_like
        A share that :func:`young_interval` makes greatest. It is negative where the losses are not small.

    Raises
    ------
    ValueError
        As in :func:`goodput`.

    Notes
    -----
    Source: Young 1974; the fixed costs of a failure are added in the same order.

    Examples
    --------
    A write of 60 s at an MTBF of 3 h, and at one of 100 s:

    >>> [round(first_order_goodput(young_interval(60, m), write=60, mtbf=m), 3) for m in (3 * 3600, 100)]
    [0.895, -0.095]
    """
    tau, write, mtbf, lag, detection, repair, restart, _ = _job(interval, write, mtbf, lag, detection, repair, restart)
    return 1 - write / tau - (tau / 2 + lag + detection + repair + restart) / mtbf


def goodput(interval, *, write, mtbf, lag=0, detection=0, repair=0, restart=0, maintenance=0) -> Goodput:
    r"""Goodput of a long job and every loss by name: exact, and one in sum, at every scale.

    With P the running time that one failure leaves in safety, and D = d + w,

    .. math:: \eta = (1 - m)\,\frac{\tau}{\tau + \delta}\,\frac{P}{M + D}, \qquad
        P = \frac{(\tau + \delta)\, e^{-(b + R)/M}}{e^{(\tau + \delta)/M} - 1}

    Parameters
    ----------
    interval : array_like
        Seconds of work between two checkpoints, tau.
    write : array_like
        Seconds that a checkpoint stops the job, delta.
    mtbf : array_like
        Mean time between failures of the whole job, seconds, M.
    lag : array_like
        Seconds after the stop until the checkpoint is safe, b.
    detection, repair, restart : array_like
        Seconds after a failure until it is noticed, d; waiting for a machine, w (a mean will do); loading and
        initialising, R.
    maintenance : array_like
        Share of the calendar in planned windows, m, into which the job goes with a fresh checkpoint.

    Returns
    -------
    Goodput

    Raises
    ------
    ValueError
        ``interval`` is shorter than ``write``, ``lag`` is longer than both together, ``maintenance`` is 1 or more, or a
        time is negative or not finite (``interval`` and ``mtbf`` also not zero).

    Notes
    -----
    Derived: the limit of :func:`expected_run_time`. Between two failures the machine is up for M seconds on average, in
    M (1 - exp(-R/M)) of which it restarts; D follows. Of the rest, P is kept.

    Examples
    --------
    >>> from clusterlab.units import minute
    >>> goodput(1100, write=60, mtbf=185 * minute, detection=2 * minute, restart=5 * minute)
    Goodput
                 share
    useful       86.6%
    checkpoint   4.72%
    rework       4.94%
    detection    1.07%
    restart      2.64%
    repair          0%
    maintenance     0%
    """
    tau, write, mtbf, lag, detection, repair, restart, maintenance = _job(
        interval, write, mtbf, lag, detection, repair, restart, maintenance
    )
    # Everything in units of mtbf, for one failure.
    period, boot = (tau + write) / mtbf, restart / mtbf
    running = np.exp(-boot)
    kept = running * np.exp(-lag / mtbf) * period * np.exp(-period) / -np.expm1(-period)
    share = (1 - maintenance) / (1 + (detection + repair) / mtbf)
    return Goodput(
        useful=share * kept * (tau / (tau + write)),
        checkpoint=share * kept * (write / (tau + write)),
        rework=share * np.maximum(running - kept, 0),
        detection=share * (detection / mtbf),
        restart=share * -np.expm1(-boot),
        repair=share * (repair / mtbf),
        maintenance=maintenance,
    )


def expected_run_time(
    work, *, interval, write, mtbf, lag=0, detection=0, repair=0, restart=0, maintenance=0
) -> RunTime:
    r"""Expected time of a job under failures, exactly, by what it goes into.

    .. math:: E[T] = \frac{e^{R/M}\,(M + d + w)}{1 - m}
        \left[\sum_k e^{b/M}\left(e^{(\tau_k + \delta)/M} - 1\right) + e^{b/M} - 1\right]

    Parameters
    ----------
    work : array_like
        Seconds that the job would take without failures and checkpoints. It is cut into pieces tau_k of ``interval``
        seconds and a last one of what is left, each with its checkpoint.
    interval, write, mtbf, lag, detection, repair, restart, maintenance : array_like
        As in :func:`goodput`.

    Returns
    -------
    RunTime
        Each part is an exact expectation.

    Raises
    ------
    ValueError
        As in :func:`goodput`, ``work`` is not positive, or ``mtbf`` is so short that no time would do.

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
    >>> job = {"write": 60, "mtbf": system_mtbf(50_000 * hour, 16384), "detection": 2 * minute, "restart": 5 * minute}
    >>> expected_run_time(54 * day, interval=1100, **job)
    RunTime
                    time  share
    useful          54 d  86.5%
    checkpoint    70.7 h  4.72%
    rework        74.8 h  4.99%
    detection    971 min  1.08%
    restart       39.9 h  2.66%
    repair           0 s     0%
    maintenance      0 s     0%
    total         62.4 d   100%
    """
    positive(work=work)
    tau, write, mtbf, lag, detection, repair, restart, maintenance = _job(
        interval, write, mtbf, lag, detection, repair, restart, maintenance
    )
    work, tau = positive(work=work, interval=tau)
    full, rest = _pieces(work, tau)
    late, boot = lag / mtbf, restart / mtbf
    if np.any((tau + write + lag + restart) / mtbf > 500):
        raise ValueError(f"mtbf must be at least a five-hundredth of a period and a restart, got {np.min(mtbf):g}")
    running = full * np.exp(late) * np.expm1((tau + write) / mtbf) + np.expm1((rest + write) / mtbf + late)
    failures = running * np.exp(boot)
    kept = (full + 1) * write + lag
    parts = {
        "useful": work,
        "checkpoint": kept,
        "rework": mtbf * np.maximum(running - (work + kept) / mtbf, 0),
        "detection": failures * detection,
        "restart": mtbf * running * np.expm1(boot),
        "repair": failures * repair,
    }
    return RunTime(**parts, maintenance=reduce(np.add, parts.values()) * (maintenance / (1 - maintenance)))


def _pieces(work, interval):
    """Full intervals before the last piece of work, and the seconds of that; rounding makes no piece of nothing."""
    full = np.maximum(np.ceil(work / interval - 1e-9) - 1, 0)
    return full, work - full * interval


@dataclass(frozen=True, repr=False)
class Budget(Explained):
    """Shares of time that overheads take, and what is left of it."""

    shares: Mapping[str, float]

    @property
    def summed(self):
        """What is left if each overhead is a share of the whole time: 1 - sum."""
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
    r"""Goodput that a budget of overheads leaves: their sum taken off, or the product of what each leaves.

    .. math:: 1 - \sum_i s_i, \qquad \prod_i (1 - s_i)

    Parameters
    ----------
    **shares : array_like
        Share of time of each overhead, under a name of your choice.

    Returns
    -------
    Budget
        The sum is right where all are shares of the same clock and none runs within another (the parts of a
        :class:`Goodput`). The product is right where each was measured on the time that the others leave: a bubble is a
        share of a step, and steps run only while the job is up.

    Raises
    ------
    ValueError
        There is no share, one is negative, or they sum to more than 1.

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
    """How a pool of spares serves a job. ``load`` is the mean number in repair if the job never waited.

    ``none_left`` is the probability that a failure finds no spare, ``waiting`` the share of time that the job waits,
    and ``wait`` the mean wait of all failures in seconds: the ``repair`` that :func:`goodput` asks for.
    """

    spares: float
    load: float
    none_left: float
    waiting: float
    wait: float

    def _rows(self):
        rows = [("", "value"), ("spares", summary(self.spares)), ("load", summary(self.load, "in repair"))]
        rows += [(name.replace("_", " "), summary(getattr(self, name), "%")) for name in ("none_left", "waiting")]
        return [*rows, ("wait", summary(self.wait, "s"))]


def _spares(spares, nodes, node_mtbf, repair) -> list:
    """Checked spares, nodes, and the load of the repair shop in machines."""
    whole(nodes=nodes)
    positive(node_mtbf=node_mtbf)
    spares, nodes, node_mtbf, repair = nonnegative(spares=spares, nodes=nodes, node_mtbf=node_mtbf, repair=repair)
    if np.any(spares != np.floor(spares)):
        raise ValueError(f"spares must be a whole number, got {spares}")
    return [spares, nodes, nodes * repair / node_mtbf]


def spare_pool(spares, *, nodes, node_mtbf, repair) -> SparePool:
    r"""Probability that a failed machine finds no spare, and how long the job waits for one.

    .. math:: P(\text{no spare}) = B(k, a), \quad \text{waiting} = B(k + 1, a), \quad
        B(c, a) = \frac{a^c / c!}{\sum_{i \le c} a^i / i!}, \quad a = \frac{N r}{m}

    Parameters
    ----------
    spares : array_like
        Machines that stand by, k: they do not fail.
    nodes : array_like
        Machines that the job needs, N.
    node_mtbf : array_like
        Mean time to failure of one machine in use, seconds, m.
    repair : array_like
        Mean time until a failed machine is back as a spare, seconds, r, of any distribution.

    Returns
    -------
    SparePool

    Raises
    ------
    ValueError
        ``spares`` or ``nodes`` is not a whole number, ``node_mtbf`` is not positive, ``repair`` is negative, or one is
        not finite.

    Notes
    -----
    Derived: with j machines in repair, failures arrive at rate N/m while j <= k; at j = k + 1 the job waits and nothing
    fails; each repair ends by itself at rate j/r. That birth-death chain is Erlang's loss system with k + 1 servers
    (Erlang 1917, formula B), which depends on the mean of the repair alone (Sevastyanov 1957). A failure that finds no
    spare waits for the first of k + 1 repairs, r/(k + 1) on average.

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


def elastic_capacity(spares, *, nodes, node_mtbf, repair, replica=1):
    r"""Mean share of full speed of a job that shrinks where no spare is left, instead of waiting.

    .. math:: \sum_j \pi_j \, \frac{g}{N} \left\lfloor \frac{N - (j - k)^+}{g} \right\rfloor, \qquad
        \frac{\pi_{j+1}}{\pi_j} = \frac{r}{m}\,\frac{N - (j - k)^+}{j + 1}

    Parameters
    ----------
    spares, nodes, node_mtbf, repair : array_like
        As in :func:`spare_pool`: k, N, m and r.
    replica : array_like
        Nodes of one data-parallel replica, g: the job gives up whole ones. It divides ``nodes``.

    Returns
    -------
    array_like
        Share between 0 and 1. A job that waits has 1 - ``waiting`` of :func:`spare_pool`. Each change of size costs a
        restart, which is not in it.

    Raises
    ------
    ValueError
        As in :func:`spare_pool`, or ``replica`` does not divide ``nodes``.

    Notes
    -----
    Derived: machine repair with spares and a repairer for each machine (Gross and Harris, Fundamentals of Queueing
    Theory, finite-source queues). The healthy nodes of a broken replica stay on, and can fail.

    Examples
    --------
    16 spares for 2,048 nodes: what is kept by waiting, and by giving up replicas of 64 nodes and of one.

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


# --- Playing it ------------------------------------------------------------------------------------------------------


class Event(NamedTuple):
    """One stretch of a run: which part of :class:`RunTime` it is, and when it began and ended, seconds."""

    part: str
    start: float
    end: float


@dataclass(frozen=True, repr=False)
class Runs(RunTime):
    """Simulated runs: each part, in seconds, and the number of failures as arrays of one element for each run.

    ``timeline`` is what happened in the run that was followed, without a gap.
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


def simulate(
    work,
    *,
    interval,
    write,
    mtbf,
    lag=0,
    detection=0,
    repair=0,
    restart=0,
    spares=None,
    shape=1,
    age=None,
    runs=1000,
    seed=0,
    follow=0,
) -> Runs:
    r"""Play a job many times: the model of this module, drawn failure by failure for all runs at once.

    .. math:: t_{i+1} = H^{-1}\left(H(t_i) + E_i\right), \quad E_i \sim \text{Exp}(1), \quad H(t) = t/M

    Parameters
    ----------
    work, interval, write, lag, detection, restart : float
        As in :func:`expected_run_time`.
    mtbf : float or mapping
        Mean time between failures of the job, seconds. Failures that take several machines at once (a rack, a switch):
        a mapping of each kind's name to (its mean time between failures in the job, the machines it takes).
    repair : float
        Without ``spares``, the seconds that each failure waits. With them, the mean of an exponential repair time.
    spares : int, optional
        Machines that stand by: the job waits only while more than these are in repair. The machines that one failure
        took come back together.
    shape, age : float
        Weibull shape, and the age at which machines that are new at the start have reached ``mtbf`` (the default is
        ``work``); H is :func:`infant_failures`.
    runs, seed, follow : int
        Runs, the seed that fixes them all, and the index of the run whose timeline is kept.

    Returns
    -------
    Runs
        Distributions: an array of each part, and the timeline of one run.

    Raises
    ------
    ValueError
        An argument is refused by :func:`expected_run_time`, :func:`spare_pool` or :func:`infant_failures`, or a run is
        not done after 100,000 failures.

    Notes
    -----
    Derived: after a failure nothing is remembered but the safe checkpoints, the clock and the machines in repair, so
    a run needs one step for each failure, not for each checkpoint.

    Examples
    --------
    >>> from clusterlab.units import day, hour, minute
    >>> job = {"write": 60, "mtbf": system_mtbf(50_000 * hour, 16384), "detection": 2 * minute, "restart": 5 * minute}
    >>> simulate(54 * day, interval=1100, **job)
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
    if not isinstance(mtbf, Mapping):
        positive(mtbf=mtbf)
        mtbf = {"any": (mtbf, 1)}
    series = series_mtbf(**{name: (each, 1) for name, (each, _) in mtbf.items()})
    machines = np.array(whole(**{f"{name} machines": n for name, (_, n) in mtbf.items()})).astype(int)
    most, odds, mtbf = machines.max(), np.cumsum(list(series.shares.values()))[:-1], series.mtbf
    job = {"interval": interval, "write": write, "mtbf": mtbf, "lag": lag, "detection": detection, "repair": repair}
    for name, value in ({"work": work, "restart": restart, "shape": shape} | job).items():
        if np.ndim(value):
            raise ValueError(f"{name} must be one number, got {value!r}")
    tau, write, mtbf, lag, detection, repair, restart, _ = _job(**job, restart=restart)
    work, shape, age = positive(work=work, shape=shape, age=work if age is None else age)
    whole(runs=runs)
    if follow not in range(runs):
        raise ValueError(f"follow must be the index of a run, below {runs:,}, got {follow!r}")
    full, rest = _pieces(work, tau)
    pieces, period = full + 1, tau + write
    random = np.random.default_rng(seed)
    clock, safe, count, rework, restarting, waiting = np.zeros((6, runs))
    if spares is not None:
        back = np.zeros((runs, int(_spares(spares, 1, 1, 1)[0]) + most))  # when the machines that are out come back
    live, story = np.arange(runs), []
    for _ in range(_MOST_FAILURES):
        now, drawn = clock[live], random.exponential(size=live.size)
        if shape == 1:
            gap = mtbf * drawn
        else:
            gap = age * ((now / age) ** shape + drawn * shape * mtbf / age) ** (1 / shape) - now
        boot = np.where(count[live] > 0, restart, 0)
        ran = np.maximum(gap - boot, 0)
        left = pieces - safe[live]
        needed = (left - 1) * period + rest + write + lag
        done = gap - boot >= needed
        saved = np.where(done, left, np.clip(np.floor((ran - lag) / period), 0, left - 1))
        lost = np.where(done, 0, ran - saved * period)
        boot = np.minimum(boot, gap)
        stop = now + boot + np.where(done, needed, ran)
        wait = np.full(live.size, float(repair))
        if spares is not None:
            taken = machines[np.searchsorted(odds, random.random(live.size), side="right")]
            new = stop + repair * random.exponential(size=live.size)
            # At a failure no more than ``spares`` are out, so the ``most`` places that come first are free.
            out = np.partition(back[live], most - 1, axis=1)
            out[:, :most] = np.where(np.arange(most) < taken[:, None], new[:, None], out[:, :most])
            out = np.partition(out, most - 1, axis=1)
            wait = np.maximum(out[:, most - 1] - stop - detection, 0)
            back[live] = out
        safe[live] += saved
        rework[live] += lost
        restarting[live] += boot
        count[live] += ~done
        waiting[live] += np.where(done, 0, wait)
        clock[live] = stop + np.where(done, 0, detection + wait)
        at = np.searchsorted(live, follow)
        if at < live.size and live[at] == follow:
            story.append((now[at], boot[at], saved[at], lost[at], 0 if done[at] else wait[at], done[at]))
        live = live[~done]
        if not live.size:
            break
    else:
        raise ValueError(f"mtbf must let a run end within {_MOST_FAILURES:,} failures, got {mtbf:g}")
    same = np.ones(runs)
    return Runs(
        useful=work * same,
        checkpoint=(pieces * write + lag) * same,
        rework=rework,
        detection=detection * count,
        restart=restarting,
        repair=waiting,
        maintenance=0 * same,
        failures=count.astype(int),
        timeline=tuple(_timeline(story, tau, write, lag, rest, detection)),
    )


def _timeline(story, interval, write, lag, rest, detection):
    """Events of one run from its steps: restart, what was kept, what was lost, and the wait for the next restart."""
    for start, boot, saved, lost, wait, done in story:
        kept = [("useful", interval), ("checkpoint", write)] * int(saved)
        if done:
            kept[-2:] = [("useful", rest), ("checkpoint", write + lag)]
        down = [] if done else [("rework", lost), ("detection", detection), ("repair", wait)]
        for part, seconds in [("restart", boot), *kept, *down]:
            if seconds > 0:
                yield Event(part, start, start + seconds)
                start += seconds
