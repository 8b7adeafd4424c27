"""Replays: many draws of jobs at once, under the two policies that need no events."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from ..checks import Numeric, choose, whole
from ..quantities import Count, PositiveSeconds, Seconds
from ..records import Explained, Rows, with_interval
from ..units import fmt
from .jobs import Jobs
from .schedules import Use


@dataclass(frozen=True, repr=False)
class Replays(Explained):
    """Many runs of a cluster: arrays of a row for each run and a column for each job, in order of arrival."""

    cluster_gpus: Count
    arrival: Seconds
    gpus: Count
    duration: PositiveSeconds
    start: Seconds

    @property
    def wait(self) -> Seconds:
        """Seconds that each job waited."""
        return self.start - self.arrival

    def by_size(self, values: Numeric) -> Mapping[int, np.ndarray]:
        """Each size of job to the mean of some values over the jobs of that size, of each run (NaN: it has none)."""
        chosen = {int(size): self.gpus == size for size in np.unique(self.gpus)}
        with np.errstate(invalid="ignore"):
            means = {size: np.where(of, values, 0.0).sum(1) / of.sum(1) for size, of in chosen.items()}
        return MappingProxyType(means)

    def use(self, start: Seconds | None = None, stop: Seconds | None = None) -> Use:
        """Where the GPU-seconds of each run went, as in :meth:`Schedule.use`: a row of times, or one for all."""
        g, end = self.gpus, self.start + self.duration
        low = np.broadcast_to(self.arrival[:, 0] if start is None else start, len(g))[:, None]
        high = np.broadcast_to(np.max(end, axis=1) if stop is None else stop, len(g))[:, None]
        if not np.all(low < high):
            raise ValueError("start must be before stop in every run")
        when = np.concatenate([self.arrival, self.start, end], axis=1)
        order = np.argsort(when, axis=1, kind="stable")
        asked, held = (
            np.cumsum(np.take_along_axis(np.concatenate(parts, axis=1), order, 1), axis=1)
            for parts in ([g, -g, 0 * g], [0 * g, g, -g])
        )
        times = np.clip(np.take_along_axis(when, order, 1), low, high)
        seconds = np.diff(times, axis=1, append=high)
        gathering = (seconds * np.minimum(self.cluster_gpus - held, asked)).sum(1)
        useful = (g * (np.clip(end, low, high) - np.clip(self.start, low, high))).sum(1)
        idle = self.cluster_gpus * (high - low)[:, 0] - useful - gathering
        return Use(useful, 0 * useful, 0 * useful, gathering, np.maximum(idle, 0.0))

    def _rows(self) -> Rows:
        rows = [("size", "jobs", "mean wait (80% of runs)")]
        for size, waits in self.by_size(self.wait).items():
            low, middle, high = np.nanquantile(waits, [0.1, 0.5, 0.9])
            rows.append((fmt(size), fmt(int((self.gpus == size).sum())), with_interval(middle, low, high, "s")))
        return rows


def replay(runs: Sequence[Jobs], gpus: Count, *, policy: str = "conservative") -> Replays:
    r"""Many runs at once: job by job, each takes the first gap that holds it and delays nobody before it.

    .. math:: s_i = \min \Big\{ t \ge e_i :\; G - \sum_{j < i,\; s_j \le u < s_j + d_j} g_j \;\ge\; g_i
        \quad\text{for all}\quad t \le u < t + d_i \Big\}

    Parameters
    ----------
    runs
        A list of jobs for each run, all of one length; jobs are rigid, of one priority, and end when they say.
    gpus
        GPUs of the cluster, G: they are counted, wherever they lie.
    policy
        ``"fcfs"``: nobody starts before the one before, e = max(a, s of the job before). ``"conservative"``: backfill
        that delays nobody, e = a, the arrival.

    Returns
    -------
    Replays
        What :func:`simulate_cluster` finds on one node of all GPUs, to the last bit where a job's GPU-seconds are
        exact.

    Raises
    ------
    ValueError
        The runs are not of one length, their jobs are elastic, of several priorities or with loose limits, or a job is
        larger than the cluster.

    Notes
    -----
    Source: Kiefer and Wolfowitz 1955, who follow a queue job by job; Mu'alem and Feitelson 2001 (conservative). The
    loop is over jobs, the arrays are over runs: when GPUs come back, or go. EASY, evictions and changes of size depend
    on what happens in between: :func:`simulate_cluster`.

    Examples
    --------
    100 draws of 300 jobs on 256 GPUs at a load of 90 %:

    >>> from clusterlab.operations import draw_jobs
    >>> mix = {1: (0.7, 3600), 8: (0.25, 7200), 128: (0.05, 7200)}
    >>> replay([draw_jobs(mix, gpus=256, load=0.9, jobs=300, seed=seed) for seed in range(100)], 256)
    Replays
    size    jobs     mean wait (80% of runs)
    1     21,038  14.1 min (0 s to 43.5 min)
    8      7,544   28 min (7.71 s to 68 min)
    128    1,418         195 min (81 to 297)
    """
    in_turn = choose({"fcfs": True, "conservative": False}, policy=policy)
    (total,) = whole(gpus=gpus)
    if len({len(jobs) for jobs in runs}) != 1:
        raise ValueError("runs must be lists of jobs of one length")
    if any(np.ptp(j.priority) or np.any(j.least < j.gpus) or np.any(j.limit > j.duration) for j in runs):
        raise ValueError("runs must be of rigid jobs of one priority, whose limit is their duration")
    arrival, size, duration = (np.stack([getattr(j, name) for j in runs]) for name in ("arrival", "gpus", "duration"))
    if np.max(size) > total:
        raise ValueError(f"gpus must be at least {np.max(size):,}, those of the largest job; got {total:,}")
    # From each time on, so many GPUs more are free, or fewer. At equal times they come back before they go.
    when, change = np.zeros((len(runs), 1)), np.full((len(runs), 1), int(total))
    start, earliest, each = np.empty_like(arrival), arrival[:, :1], np.arange(len(runs))[:, None]
    for i in range(arrival.shape[1]):
        a, g, d = (rows[:, i, None] for rows in (arrival, size, duration))
        earliest = np.maximum(a, earliest) if in_turn else a
        if i % 4 == 0:  # nobody asks any more what was free before
            past = int((when <= earliest).sum(1).min()) - 1
            change[:, past] = change[:, : past + 1].sum(1)
            when, change = when[:, past:], change[:, past:]
        short = np.where(change.cumsum(1) < g, when, np.inf)
        until = np.minimum.accumulate(short[:, ::-1], axis=1)[:, ::-1]  # how long there is room from each time on
        begin = np.maximum(when, earliest)
        at = begin.take((until >= begin + d).argmax(1)[:, None] + each * begin.shape[1])
        when, change = np.concatenate([at + d, when, at], axis=1), np.concatenate([g, change, -g], axis=1)
        order = when.argsort(1, kind="stable")
        order += each * when.shape[1]  # among all of them, row after row
        when, change = when.take(order), change.take(order)
        start[:, i] = at[:, 0]
        if in_turn:
            earliest = at
    return Replays(int(total), arrival, size, duration, start)
