r"""Jobs: what failures, and what is done about them, cost a job that takes checkpoints.

The model of a job (:class:`Job`): failures of the whole job are a Poisson process with mean time between failures M
(``mtbf``), while the job runs and while it restarts. After each ``interval`` seconds of work the job stops for
``write`` seconds, and the checkpoint is safe ``lag`` seconds later (0: the write blocks until it is safe). A failure
throws the job back to its last safe checkpoint. Then come ``detection`` (the job hangs) and ``repair`` (it waits for a
machine), during which nothing fails, and ``restart`` (load, initialise), during which a further failure leads back to
detection. A job begins without a restart and ends when its last checkpoint is safe. ``interval`` is work alone, as in
Young 1974 and Daly 2006. Expected times are exact in this model; :func:`simulate_job` draws it at random.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import reduce
from types import MappingProxyType

import numpy as np

from .. import catalogue
from ..checks import BELOW_ONE, Numeric, broadcastable, check, nonnegative, positive
from ..quantities import Amount, PositiveSeconds, Seconds, Share, ShareBelowOne, law
from ..records import Explained, Predicted, Rows, summary

# --- What a failure costs --------------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False, kw_only=True)
class Job(Explained):
    """A checkpointed job and what each of its failures costs, by keyword, scalars or arrays.

    Parameters
    ----------
    interval
        Work between two checkpoints, tau.
    write
        Time for which a checkpoint stops the job, delta.
    mtbf
        Mean time between failures of the whole job, M.
    lag
        Time after that stop until the checkpoint is safe, b.
    detection, repair, restart
        Time after a failure until it is noticed, d; until a machine is available, w (the mean is enough); to load and
        initialise, R.
    maintenance
        Share of the calendar in planned windows, m, which the job enters with a fresh checkpoint.

    Raises
    ------
    ValueError
        ``interval`` is shorter than ``write``, or ``lag`` is longer than both together: writes would pile up.

    Examples
    --------
    A what-if is made with ``dataclasses.replace``: here, a restart in half the time.

    >>> from dataclasses import replace
    >>> from clusterlab.units import fmt, minute
    >>> job = Job(interval=1100, write=60, mtbf=185 * minute, detection=2 * minute, restart=5 * minute)
    >>> [fmt(goodput(each).useful, "%") for each in (job, replace(job, restart=job.restart / 2))]
    ['86.6%', '87.8%']
    """

    interval: PositiveSeconds
    write: Seconds
    mtbf: PositiveSeconds
    lag: Seconds = 0.0
    detection: Seconds = 0.0
    repair: Seconds = 0.0
    restart: Seconds = 0.0
    maintenance: ShareBelowOne = 0.0

    def __post_init__(self) -> None:
        """Check each value, and the values against each other."""
        positive(interval=self.interval, mtbf=self.mtbf)
        check(BELOW_ONE, "maintenance", self.maintenance)
        for name, value in zip(vars(self), nonnegative(**vars(self)), strict=True):
            object.__setattr__(self, name, value)
        if np.any(self.interval < self.write):
            least, most = np.min(self.interval), np.max(self.write)
            raise ValueError(f"interval must be at least write, got {least:g} and {most:g}")
        if np.any(self.period < self.lag):
            most = np.max(self.lag)
            raise ValueError(f"lag must be at most interval and write together, got {most:g}: writes would pile up")

    @property
    def period(self) -> PositiveSeconds:
        """From one checkpoint to the next without failures: interval and write."""
        return self.interval + self.write

    def _rows(self) -> Rows:
        times = [(name, summary(value, "s")) for name, value in vars(self).items() if name != "maintenance"]
        return [("", "value"), *times, ("maintenance", summary(self.maintenance, "%"))]


Part = Numeric  # a share of a Goodput, or the seconds of a RunTime


@dataclass(frozen=True, repr=False)
class _WallClock(Explained):
    """What a job's wall-clock time is spent on.

    ``checkpoint`` is the time for which kept checkpoints stop the job, ``rework`` all running time that failures undid,
    and ``restart`` includes the restarts that a further failure cut short.
    """

    useful: Part
    checkpoint: Part
    rework: Part
    detection: Part
    restart: Part
    repair: Part
    maintenance: Part

    @property
    def parts(self) -> Mapping[str, Part]:
        """Every part by name."""
        return {f.name: getattr(self, f.name) for f in fields(_WallClock)}

    @property
    def total(self) -> Part:
        """Sum of all parts."""
        return reduce(np.add, self.parts.values())


class Goodput(Predicted, _WallClock):
    """Shares of a job's wall-clock time; they sum to one. ``useful`` is the goodput (effective training time ratio).

    Of published runs that restart by themselves, one in ten kept less than ``low`` and one in ten more than ``high``:
    the odds of lost time, lost over useful, are between the ends of the spread ``goodput`` of
    :data:`clusterlab.catalogue.PREDICTION_INTERVALS` times those here. Where people restart, a failure costs hours
    (:data:`BY_HAND`), which a job has as its detection.
    """

    def _predicted(self) -> tuple[Part, Part, Part, str]:
        spread = catalogue.PREDICTION_INTERVALS["goodput"]
        ends = (self.useful / (self.useful + odds * (1 - self.useful)) for odds in (spread.high, spread.low))
        return self.useful, *ends, "%"

    def _rows(self) -> Rows:
        lost = [(name, summary(part, "%")) for name, part in self.parts.items() if name != "useful"]
        return [("", "share"), ("useful", self.with_interval), *lost]


class RunTime(Predicted, _WallClock):
    """Seconds of a job's run by what they were spent on, the parts of a :class:`Goodput`.

    ``low`` and ``high`` are the ends of the total's interval: what is lost is as uncertain as that of a goodput, and
    the useful time is taken as given.
    """

    @property
    def goodput(self) -> Share:
        """Share of the time that was useful."""
        return self.useful / self.total

    def _predicted(self) -> tuple[Part, Part, Part, str]:
        spread, lost = catalogue.PREDICTION_INTERVALS["goodput"], self.total - self.useful
        return self.total, self.useful + spread.low * lost, self.useful + spread.high * lost, "s"

    def _rows(self) -> Rows:
        rows = [(name, summary(t, "s"), summary(t / self.total, "%")) for name, t in self.parts.items()]
        return [("", "time", "share"), *rows, ("total", *self._cells())]


def first_order_goodput(job: Job) -> float | np.ndarray:
    r"""Goodput in Young's first-order approximation: each loss is small, and losses do not interact.

    .. math:: 1 - m - \frac{\delta}{\tau} - \frac{\tau/2 + b + d + w + R}{M}

    Parameters
    ----------
    job
        Its interval tau, write delta, and so on.

    Returns
    -------
    float or array
        A share, greatest at :func:`young_interval`. It is negative where the losses are not small.

    Notes
    -----
    Source: Young 1974; the fixed costs of a failure and the maintenance are added to the same order.

    Examples
    --------
    A write of 60 s at an MTBF of 3 h, and at one of 100 s:

    >>> from clusterlab.failures import young_interval
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
    job
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
    useful       86.6% (43.9 to 97.9)
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


def expected_run_time(work: PositiveSeconds, job: Job) -> RunTime:
    r"""Expected run time of a job under failures, exactly, by what it is spent on.

    .. math:: E[T] = \frac{e^{R/M}\,(M + d + w)}{1 - m}
        \left[\sum_k e^{b/M}\left(e^{(\tau_k + \delta)/M} - 1\right) + e^{b/M} - 1\right]

    Parameters
    ----------
    work
        Time that the job would take without failures and checkpoints. It is divided into segments tau_k of
        ``job.interval`` seconds and a last one of what remains, each followed by its checkpoint.
    job
        Its interval tau, write delta, and so on.

    Returns
    -------
    RunTime
        Each part is an exact expectation.

    Raises
    ------
    ValueError
        ``mtbf`` is so short that the job would never end.

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

    >>> from clusterlab.failures import system_mtbf
    >>> from clusterlab.units import day, hour, minute
    >>> mtbf = system_mtbf(50_000 * hour, 16384)
    >>> job = Job(interval=1100, write=60, mtbf=mtbf, detection=2 * minute, restart=5 * minute)
    >>> expected_run_time(54 * day, job)
    RunTime
                    time          share
    useful          54 d          86.5%
    checkpoint    70.7 h          4.72%
    rework        74.8 h          4.99%
    detection    971 min          1.08%
    restart       39.9 h          2.66%
    repair           0 s             0%
    maintenance      0 s             0%
    total         62.4 d  (55.2 to 123)
    """
    (work,) = positive(work=work)
    broadcastable(work=work, **vars(job))
    running, failures = _mean_failures(work, job)
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


def _mean_failures(work: PositiveSeconds, job: Job) -> tuple[Amount, Amount]:
    """Mean number of failures while running (mean running time over mtbf), and with those during restarts."""
    mtbf = job.mtbf
    lag, restart = job.lag / mtbf, job.restart / mtbf
    if np.any((job.period + job.lag + job.restart) / mtbf > 500):
        raise ValueError(f"mtbf must be at least a five-hundredth of a period and a restart, got {np.min(mtbf):g}")
    full, last = _segments(work, job.interval)
    running = full * np.exp(lag) * np.expm1(job.period / mtbf) + np.expm1((last + job.write) / mtbf + lag)
    return running, running * np.exp(restart)


def _maintenance(parts: Mapping[str, Seconds], job: Job) -> Seconds:
    """Seconds of the planned windows of a job whose other seconds are ``parts``."""
    return reduce(np.add, parts.values()) * (job.maintenance / (1 - job.maintenance))


def _segments(work: PositiveSeconds, interval: PositiveSeconds) -> tuple[Amount, Seconds]:
    """Full intervals before the last segment of work, and its seconds; a remainder of rounding is not a segment."""
    full = np.maximum(np.ceil(work / interval - 1e-9) - 1, 0)
    return full, work - full * interval


@dataclass(frozen=True, repr=False)
class Budget(Explained):
    """Shares of time that overheads take, and what they leave."""

    shares: Mapping[str, Share]

    @property
    def summed(self) -> Share:
        """What is left if each overhead is a share of the total time: 1 - sum."""
        return 1 - reduce(np.add, self.shares.values())

    @property
    def multiplied(self) -> Share:
        """What is left if each is a share of the time that the others leave: the product of 1 - share."""
        return reduce(np.multiply, [1 - share for share in self.shares.values()])

    def _rows(self) -> Rows:
        rows = [(name, summary(share, "%")) for name, share in self.shares.items()]
        left = [("left, summed", summary(self.summed, "%")), ("left, multiplied", summary(self.multiplied, "%"))]
        return [("", "share"), *rows, *left]


@law
def overhead_budget(**shares: Share) -> Budget:
    r"""Goodput that a budget of overheads leaves: one minus their sum, or the product of what each leaves.

    .. math:: 1 - \sum_i s_i, \qquad \prod_i (1 - s_i)

    Parameters
    ----------
    **shares
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
        They sum to more than 1.

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
    budget = Budget(MappingProxyType(shares))
    if np.any(budget.summed < -1e-12):
        raise ValueError(f"shares must sum to at most 1, got {1 - np.min(budget.summed):g}")
    return budget
