r"""Monitoring: how long a fault goes unnoticed, what a false alarm costs, and how to find the machine to blame.

Every detector trades delay against false alarms. Both are seconds of the whole job, so one number judges a setting: the
share of time that it loses. The laws here give it for a hung rank (:func:`heartbeat`), a slow one (:func:`step_alarm`)
and one that computes wrong results (:func:`result_checks`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..checks import Numeric, whole
from ..quantities import Amount, Arrivals, Count, Number, PositiveSeconds, PositiveShare, Seconds, Share, law
from ..records import Explained, Rows, summary

_TAIL = np.vectorize(lambda score: math.erfc(score / math.sqrt(2)) / 2, otypes=[float])  # of the standard normal


@dataclass(frozen=True, repr=False)
class Detector(Explained):
    """What a detector costs a job, by share of its time.

    ``delay`` is from a fault to its alarm, on average, ``false_alarms`` are those a second without a fault. ``late`` is
    the share lost to the delays, ``false`` that lost to false alarms.
    """

    delay: Seconds
    false_alarms: Arrivals
    late: Share
    false: Share

    @property
    def lost(self) -> Share:
        """Share of time lost, to both."""
        return self.late + self.false

    def _rows(self) -> Rows:
        with np.errstate(divide="ignore"):
            apart = 1 / np.asarray(self.false_alarms)[()]
        rows = [("delay", summary(self.delay, "s")), ("between false alarms", summary(apart, "s"))]
        shares = [(name, summary(getattr(self, name), "%")) for name in ("late", "false", "lost")]
        return [("", "value"), *rows, *shares]


@law
def heartbeat(
    timeout: PositiveSeconds,
    *,
    pause: PositiveSeconds,
    every: PositiveSeconds,
    mtbf: PositiveSeconds,
    restart: PositiveSeconds,
    tail: Share = 0.0,
) -> Detector:
    r"""A timeout for ranks that hang: short ones stop healthy jobs, long ones wait for dead ones.

    .. math:: \text{late} = \frac{T}{M}, \qquad \text{false} = \frac{R}{a}\, e^{-T/\theta}
        \;\text{ or }\; \frac{R}{a} \left(1 + \frac{\xi\,T}{(1 - \xi)\,\theta}\right)^{-1/\xi}

    Parameters
    ----------
    timeout
        Time without a sign of life after which the job is stopped, T.
    pause, every
        Mean length of the pauses that a healthy job takes, theta, and mean time from one to the next, a.
    mtbf
        Mean time between the hangs, M.
    restart
        What a stop costs: lost work and the start, R.
    tail
        Tail index of the pauses, xi, from 0 to below 1: at 0 they are exponential, above it the longest are much longer
        than the mean says. The mean stays theta.

    Returns
    -------
    Detector
        Shares to first order: late and false are small.

    Notes
    -----
    Derived: pauses (a slow checkpoint, a collection of garbage, a link that flaps) of generalised Pareto lengths, of
    which the exponential is the limit (Pickands 1975).

    Examples
    --------
    Pauses of 20 s every ten minutes, hangs every three hours, and a restart that costs 15 minutes:

    >>> job = {"pause": 20, "every": 600, "mtbf": 3 * 3600, "restart": 900}
    >>> heartbeat(120, **job)
    Detector
                           value
    delay                  2 min
    between false alarms  67.2 h
    late                   1.11%
    false                 0.372%
    lost                   1.48%
    >>> f"{heartbeat(600, **job).lost:.1%}"
    '5.6%'

    Of pauses with a heavy tail, of the same mean, six times as many outlast the two minutes:

    >>> round(float(heartbeat(120, **job, tail=1 / 3).false_alarms / heartbeat(120, **job).false_alarms))
    6
    """
    scale, index = _pareto(pause, tail)
    false_alarms = np.where(
        np.greater(tail, 0), np.exp(-np.log1p(index * timeout / scale) / index), np.exp(-timeout / pause)
    )
    false_alarms = false_alarms[()] / every
    return Detector(timeout, false_alarms, timeout / mtbf, restart * false_alarms)


@law
def best_timeout(
    *,
    pause: PositiveSeconds,
    every: PositiveSeconds,
    mtbf: PositiveSeconds,
    restart: PositiveSeconds,
    tail: Share = 0.0,
) -> Seconds:
    r"""The timeout that loses least.

    .. math:: T^* = \theta \ln\frac{R\,M}{a\,\theta} \;\text{ or }\;
        \frac{\sigma}{\xi} \left[\left(\frac{R\,M}{a\,\sigma}\right)^{\xi / (1 + \xi)} - 1\right],
        \quad \sigma = (1 - \xi)\,\theta

    Parameters
    ----------
    pause, every, mtbf, restart, tail
        As in :func:`heartbeat`.

    Returns
    -------
    Seconds
        0 where pauses are so long and hangs so frequent that waiting never pays.

    Notes
    -----
    Derived: where the derivative of :func:`heartbeat`'s loss is zero. Of exponential pauses the false alarms then lose
    theta / M. The mean of heavier ones says little about their longest.

    Examples
    --------
    >>> job = {"pause": 20, "every": 600, "mtbf": 3 * 3600, "restart": 900}
    >>> best = best_timeout(**job)
    >>> round(best), f"{heartbeat(best, **job).lost:.2%}"
    (134, '1.43%')
    >>> round(best_timeout(**job, tail=1 / 3))
    196
    """
    scale, index = _pareto(pause, tail)
    logs = np.log(restart * mtbf / (every * scale))
    longest = np.where(np.greater(tail, 0), scale * np.expm1(logs * index / (1 + index)) / index, pause * logs)
    return np.maximum(longest, 0 * pause)[()]


def _pareto(mean: Numeric, tail: Numeric) -> tuple[Numeric, Numeric]:
    """Scale of a generalised Pareto of a mean, and its index; where that is 0 a number to divide by, not used."""
    if np.any(np.greater_equal(tail, 1)):
        raise ValueError(f"tail must be below 1, got {np.max(tail):g}: its pauses have no mean")
    return mean * (1 - tail), np.where(np.greater(tail, 0), tail, 1.0)


@law
def step_alarm(
    threshold: Number,
    *,
    steps: Count,
    slowdown: Number,
    spread: Number,
    step_time: PositiveSeconds,
    mtbf: PositiveSeconds,
    false_cost: PositiveSeconds,
) -> Detector:
    r"""An alarm on the mean of several step times, for a job that has become slower.

    .. math:: \alpha = Q\!\left(\frac{h \sqrt k}{\sigma}\right), \quad
        \beta = Q\!\left(\frac{(h - \delta) \sqrt k}{\sigma}\right), \quad
        \text{delay} = k t \left(\frac12 + \frac1\beta\right)

    Parameters
    ----------
    threshold
        How much longer than usual the mean may be, over the usual step, h.
    steps
        Steps of each mean, k.
    slowdown
        How much longer a step takes after the fault, delta.
    spread
        Standard deviation of a healthy step over its mean, sigma.
    step_time
        Time of a healthy step, t.
    mtbf
        Mean time between such faults.
    false_cost
        Time of the job that a false alarm costs.

    Returns
    -------
    Detector
        ``late`` is the share of work not done in the delay: slowdown / (1 + slowdown) of it.

    Notes
    -----
    Source: Shewhart 1931, the control chart of means, one-sided. Means are of k steps each, one after another; the one
    in which the fault begins is not counted. Q is the upper tail of the normal distribution.

    Examples
    --------
    Steps of 6 s that vary by 2 %; a rank becomes 5 % slower every two days; a false alarm costs 10 minutes of looking.

    >>> job = {"slowdown": 0.05, "spread": 0.02, "step_time": 6, "mtbf": 172800, "false_cost": 600}
    >>> step_alarm(0.03, steps=10, **job)
    Detector
                             value
    delay                     90 s
    between false alarms     661 d
    late                  0.00248%
    false                 0.00105%
    lost                  0.00353%
    """
    sharper = np.sqrt(steps) / spread
    wrong = _TAIL(threshold * sharper)[()]
    seen = np.maximum(_TAIL((threshold - slowdown) * sharper), 1e-300)[()]
    window = steps * step_time
    delay = window * (0.5 + 1 / seen)
    return Detector(delay, wrong / window, delay * (slowdown / (1 + slowdown)) / mtbf, false_cost * wrong / window)


@law
def result_checks(
    interval: PositiveSeconds, *, cost: PositiveSeconds, mtbf: PositiveSeconds, coverage: PositiveShare = 1
) -> Detector:
    r"""Checks that compare results, for a rank that computes wrong ones without a sign of it.

    .. math:: \text{delay} = \tau \left(\frac1p - \frac12\right), \qquad \text{false} = \frac{c}{\tau}

    Parameters
    ----------
    interval
        Time from check to check, tau.
    cost
        Time of the job that one check takes, c.
    mtbf
        Mean time between silent errors.
    coverage
        Probability that a check finds a rank that errs, p.

    Returns
    -------
    Detector
        All work done in the ``delay`` is lost; ``false`` is the share that the checks take, not one of alarms.

    Notes
    -----
    Derived: the first check comes half an interval after the fault on average, and 1/p are needed. To first order.

    Examples
    --------
    A check of a minute every six hours that finds nine in ten, and a silent error every nine days:

    >>> result_checks(6 * 3600, cost=60, mtbf=9 * 86400, coverage=0.9).delay / 3600
    3.666666666666667
    """
    delay = interval * (1 / coverage - 0.5)
    return Detector(delay, 0 / interval, delay / mtbf, cost / interval)


@law
def best_check_interval(*, cost: PositiveSeconds, mtbf: PositiveSeconds, coverage: PositiveShare = 1) -> Seconds:
    r"""The time from check to check that loses least.

    .. math:: \tau^* = \sqrt{\frac{c\,M}{1/p - 1/2}}

    Parameters
    ----------
    cost, mtbf, coverage
        As in :func:`result_checks`.

    Returns
    -------
    Seconds
        With perfect checks it is Young's interval for checkpoints: the same trade.

    Notes
    -----
    Derived: where the derivative of :func:`result_checks`'s loss is zero.

    Examples
    --------
    >>> from clusterlab.failures import young_interval
    >>> best = best_check_interval(cost=60, mtbf=9 * 86400, coverage=[1, 0.5])
    >>> (best / 3600).round(2).tolist(), float((young_interval(60, 9 * 86400) / 3600).round(2))
    ([2.68, 1.55], 2.68)
    """
    return np.sqrt(cost * mtbf / (1 / coverage - 0.5))


# --- Who is it? ------------------------------------------------------------------------------------------------------


@law
def least_tests(n: Count, bad: Count = 1) -> Amount:
    r"""Fewest yes-or-no tests of groups that can tell which of n machines are bad: a bound of information.

    .. math:: \left\lceil \log_2 \binom nb \right\rceil

    Parameters
    ----------
    n, bad
        Machines, n, and how many of them are bad, b.

    Returns
    -------
    Amount
        Tests, one after another, of groups of any size.

    Raises
    ------
    ValueError
        More are bad than there are.

    Notes
    -----
    Source: Dorfman 1943 for the question; a test has two answers, and as many answers as cases are needed.

    Examples
    --------
    >>> least_tests([16, 2048], 1).tolist(), float(least_tests(2048, 2))
    ([4.0, 11.0], 21.0)
    """
    if np.any(n < bad):
        raise ValueError(f"bad must be at most n, got {np.max(bad):g} of {np.min(n):g}")
    return np.ceil(_log2_choose(n, bad) - 1e-9)[()]


@np.vectorize(otypes=[float])
def _log2_choose(n: float, k: float) -> float:
    return math.log2(math.comb(int(n), int(k)))


@law
def pair_tests(n: Count, bad: Count = 1) -> Count:
    r"""Most tests that find every bad machine in two rounds, where many pairs can be tested at once.

    .. math:: \left\lfloor \frac n2 \right\rfloor + 2\,b + (n \bmod 2)

    Parameters
    ----------
    n, bad
        Machines, n, and how many of them are bad at most, b: up to a quarter of them.

    Returns
    -------
    Count
        Tests of two machines. The first round pairs all of them; the second pairs each suspect, and the odd one out,
        with a machine of its own that passed. Bad ones that were paired with each other save two tests.

    Raises
    ------
    ValueError
        There may be suspects without a machine that passed.

    Notes
    -----
    Source: Du and Hwang 2000, Combinatorial Group Testing, algorithms in two stages, with groups of two. One test after
    another, a lone bad one takes :func:`find_bad` 2 + log2 n, and any method of pairs n/2: a test clears two at most.

    Examples
    --------
    >>> pair_tests([16, 2048], 1).tolist(), float(pair_tests(2048, 8))
    ([10.0, 1026.0], 1040.0)
    """
    odd = np.mod(n, 2)
    if np.any(4 * bad + 2 * odd > n):
        raise ValueError(f"bad must be at most a quarter of n, got {np.max(bad):g} of {np.min(n):g}")
    return np.floor_divide(n, 2) + 2 * bad + odd


def find_bad(n: Count, fails: Callable[[tuple[int, ...]], bool]) -> tuple[tuple[int, ...], tuple[tuple[int, ...], ...]]:
    r"""Find every bad machine among n by testing groups: halve a group that fails until one machine is left.

    Parameters
    ----------
    n
        Machines, numbered from 0.
    fails
        A test of a group, a tuple of numbers: whether any of it is bad, such as an all-reduce that is slow.

    Returns
    -------
    bad : tuple of int
        The bad machines.
    tests : tuple of groups
        Every group that was tested, in order. A lone bad one among n takes 2 + log2 n: all of them, one half a level
        (where it passes, the other is bad), and the rest at the end.

    Notes
    -----
    Source: Du and Hwang 2000, Combinatorial Group Testing, binary splitting. For few bad machines.

    Examples
    --------
    >>> bad, tests = find_bad(16, lambda group: 5 in group)
    >>> bad, len(tests)
    ((5,), 6)
    """
    whole(n=n)
    left, bad, tests = tuple(range(int(n))), list[int](), list[tuple[int, ...]]()

    def test(group: tuple[int, ...]) -> bool:
        tests.append(group)
        return bool(fails(group))

    while left and test(left):
        group = left
        while len(group) > 1:
            half = group[: (len(group) + 1) // 2]
            group = half if test(half) else group[len(half) :]
        bad.append(group[0])
        left = tuple(machine for machine in left if machine != group[0])
    return tuple(sorted(bad)), tuple(tests)
