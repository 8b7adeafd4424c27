"""Simulation: the model of a :class:`Job` drawn at random, failure by failure, many runs at once.

Spare machines, failures that take several machines and infant mortality come on top.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import NamedTuple

import numpy as np

from ..checks import WHOLE_OR_NONE, check, positive, whole
from ..quantities import Amount, Count, Number, PositiveSeconds, WholeAmount
from ..records import Rows
from ..units import fmt
from .jobs import Job, RunTime, _maintenance, _mean_failures, _segments
from .spares import Machines, _sizes

# --- Monte Carlo simulation ------------------------------------------------------------------------------------------


class Event(NamedTuple):
    """One stretch of a run: the part of :class:`RunTime` that it belongs to, its start and its end in seconds."""

    part: str
    start: float
    end: float


@dataclass(frozen=True, repr=False)
class SimulatedRuns(RunTime):
    """Simulated runs: arrays with one element for each run, of the time of each part and of the failures.

    ``timeline`` holds the events of the first run, without gaps and without its maintenance windows.
    """

    failures: np.ndarray
    timeline: tuple[Event, ...]

    def _rows(self) -> Rows:
        shown = {**self.parts, "total": self.total}
        rows = [(name, t, "s") for name, t in shown.items()] + [("failures", self.failures, "")]
        points = [lambda x: np.mean(x), lambda x: np.quantile(x, 0.05), lambda x: np.quantile(x, 0.95)]
        heading = (f"{len(self.failures):,} runs", "mean", "5%", "95%")
        return [heading, *((name, *(fmt(float(point(x)), unit) for point in points)) for name, x, unit in rows)]


_MOST_FAILURES = 100_000


def simulate_job(
    work: PositiveSeconds,
    job: Job,
    *,
    spares: Amount | None = None,
    machines: Machines = 1,
    tail: Number | None = None,
    shape: Number = 1,
    age: PositiveSeconds | None = None,
    runs: Count = 1000,
    seed: int = 0,
) -> SimulatedRuns:
    r"""Monte Carlo simulation of a job: failure by failure, all runs at once.

    .. math:: t_{i+1} = H^{-1}\left(H(t_i) + E_i\right), \quad E_i \sim \text{Exp}(1), \quad H(t) = t/M

    Parameters
    ----------
    work
        As in :func:`expected_run_time`; one number, as everything here is.
    job
        With ``spares``, its ``repair`` is the mean of an exponential repair time of machines; without, the
        time for which each failure waits.
    spares
        Machines on standby: the job waits only while more than these are in repair.
    machines
        Machines that one failure takes; they come back from repair together. Where failures differ (a node, a rack, a
        switch), a mapping of each number of machines to its share of the failures. Above 1, ``spares`` must be given.
    tail
        Of lognormal repair times of machines, the standard deviation of the logarithm: 1.1 to 3 in published logs.
    shape, age
        Weibull shape, and the age at which machines that are new at the start have reached ``job.mtbf`` (``work`` by
        default); H is :func:`infant_failures`.
    runs, seed
        Number of runs, and seed of the random numbers.

    Returns
    -------
    SimulatedRuns
        Distributions: an array of each part, and the timeline of the first run.

    Raises
    ------
    ValueError
        An argument is an array; or a run would take more than 100,000 failures.

    Notes
    -----
    Derived: after a failure all that matters is the safe checkpoints, the clock and the machines in repair, so a run
    needs one step for each failure, not for each checkpoint.

    Examples
    --------
    >>> from clusterlab.failures import system_mtbf
    >>> from clusterlab.units import day, hour, minute
    >>> mtbf = system_mtbf(50_000 * hour, 16384)
    >>> simulate_job(54 * day, Job(interval=1100, write=60, mtbf=mtbf, detection=2 * minute, restart=5 * minute))
    SimulatedRuns
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
    expected = _mean_failures(work, job)[1] if shape == 1 else 0
    if expected > _MOST_FAILURES:
        limit = f"mtbf must let a run end within {_MOST_FAILURES:,} failures"
        raise ValueError(f"{limit}, got {job.mtbf:g}: {expected:.3g} are expected")
    full, last = _segments(work, job.interval)
    plan = _Plan(job=job, checkpoints=full + 1, last=last, shape=shape, age=age)
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
    failures, timeline = state.failures.astype(int), tuple(_timeline(trace, plan))
    return SimulatedRuns(**parts, maintenance=_maintenance(parts, job), failures=failures, timeline=timeline)


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

    def add(self, live: np.ndarray, attempt: _Attempt, detection: float) -> None:
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
    def end(self) -> np.ndarray:
        """Seconds on the clock at the failure, or at the end of the run."""
        return self.start + self.restart + self.running

    def of(self, index: int) -> _Attempt:
        """The attempt of one run."""
        return _Attempt(**{name: value[index] for name, value in vars(self).items()})


def _run(plan: _Plan, pool: _Pool | None, *, runs: int, random: np.random.Generator) -> tuple[_State, list[_Attempt]]:
    """State of all runs at their end, and the attempts of the first."""
    state = _State(**{f.name: np.zeros(runs) for f in fields(_State)})
    live, trace = np.arange(runs), []
    for failures in range(_MOST_FAILURES):
        now = state.clock[live]
        restart = plan.job.restart if failures else 0.0
        attempt = _attempt(now, _time_to_failure(now, plan, random), restart, plan.checkpoints - state.safe[live], plan)
        wait = plan.job.repair if pool is None else pool.wait(live, attempt.end, plan.job.detection, random)
        attempt.wait = np.where(attempt.finished, 0, wait)
        state.add(live, attempt, plan.job.detection)
        if live[0] == 0:
            trace.append(attempt.of(0))
        live = live[~attempt.finished]
        if not live.size:
            return state, trace
    raise ValueError(f"mtbf must let a run end within {_MOST_FAILURES:,} failures, got {plan.job.mtbf:g}")


def _time_to_failure(now: np.ndarray, plan: _Plan, random: np.random.Generator) -> np.ndarray:
    """Seconds from ``now`` to the next failure of each live run, drawn from the power-law process."""
    mtbf, shape, age = plan.job.mtbf, plan.shape, plan.age
    hazard = random.exponential(size=now.size)
    if shape == 1:
        return mtbf * hazard
    return age * ((now / age) ** shape + hazard * shape * mtbf / age) ** (1 / shape) - now


def _attempt(now: np.ndarray, failure: np.ndarray, restart: float, remaining: np.ndarray, plan: _Plan) -> _Attempt:
    """How far each live run gets from ``now`` until its next failure, with ``remaining`` checkpoints to make safe.

    The failure comes so many seconds from now, and the restart takes so many, if nothing cuts it short.
    """
    job = plan.job
    running = np.maximum(failure - restart, 0)
    needed = (remaining - 1) * job.period + plan.last + job.write + job.lag
    finished = failure - restart >= needed
    saved = np.clip(np.floor((running - job.lag) / job.period), 0, remaining - 1)
    return _Attempt(
        start=now,
        restart=np.minimum(restart, failure),
        running=np.where(finished, needed, running),
        saved=np.where(finished, remaining, saved),
        lost=np.where(finished, 0, running - saved * job.period),
        finished=finished,
    )


def _pool(
    spares: WholeAmount | None, machines: Machines, *, repair: float, tail: float | None, runs: int
) -> _Pool | None:
    """The pool of spares of a simulation, or None; ``machines`` and ``tail`` as in :func:`simulate_job`."""
    sizes, probabilities = _sizes(machines)
    if tail is not None:
        positive(tail=tail)
    if spares is None:
        if tail is not None:
            raise ValueError(f"tail must be None without spares, got {tail:g}")
        if np.any(sizes > 1):
            raise ValueError(f"machines must be 1 without spares, got {np.max(sizes):g}")
        return None
    standby = check(WHOLE_OR_NONE, "spares", spares)
    cumulative, back = np.cumsum(probabilities)[:-1], np.zeros((runs, int(standby + np.max(sizes))))
    return _Pool(sizes=sizes.astype(int), cumulative=cumulative, back=back, repair=repair, tail=tail)


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

    def wait(self, live: np.ndarray, failed: np.ndarray, detection: float, random: np.random.Generator) -> np.ndarray:
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


def _timeline(trace: list[_Attempt], plan: _Plan) -> Iterator[Event]:
    """Events of one run from its attempts: restart, what was kept, what was lost, and the wait for the next restart."""
    job = plan.job
    for attempt in trace:
        kept = [("useful", job.interval), ("checkpoint", job.write)] * int(attempt.saved)
        if attempt.finished:
            kept[-2:] = [("useful", plan.last), ("checkpoint", job.write + job.lag)]
        lost = [("rework", attempt.lost), ("detection", job.detection), ("repair", attempt.wait)]
        time = float(attempt.start)
        for part, seconds in [("restart", attempt.restart), *kept, *([] if attempt.finished else lost)]:
            if seconds > 0:
                end = time + float(seconds)
                yield Event(part, time, end)
                time = end
