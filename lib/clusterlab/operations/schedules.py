r"""Schedules: who ran when and where, what was free in between, and what that costs.

GPUs that are free are of three kinds, and their seconds sum with the used ones to the whole (:class:`Use`):

- *fragmented*: the next job asks for no more than are free, but they lie in the wrong places,
- *gathering*: the next job asks for more than are free, and what is free waits with it for the rest,
- *idle*: nobody waits for them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from ..checks import Numeric, positive
from ..interconnect import path_bandwidth, ring_all_reduce
from ..quantities import Amount, Bytes, BytesPerSecond, Count, Multiple, Number, Seconds, Share
from ..records import Explained, Rows, Table, summary, tabulate
from ..units import fmt, year
from .jobs import Cluster, Jobs


class Attempt(NamedTuple):
    """One stay of a job on the cluster: of seconds ``begin`` to ``finish`` the first ``restart`` are no work.

    ``places`` are pairs of a node and the GPUs there. A job that is evicted, or changes its size, has several stays.
    """

    job: int
    begin: Seconds
    finish: Seconds
    restart: Seconds
    places: tuple[tuple[int, int], ...]
    evicted: bool  # at the end of it

    @property
    def gpus(self) -> Count:
        """GPUs held."""
        return sum(count for _, count in self.places)


# What becomes of a GPU's second, in words.
CAUSES = {
    "useful": "jobs at work",
    "restart": "jobs that start again after an eviction",
    "fragmented": "free, wanted, in the wrong places",
    "gathering": "free, kept for a job that needs more",
    "idle": "free, wanted by nobody",
}


@dataclass(frozen=True, repr=False)
class Use(Explained):
    """Where the GPU-seconds of a cluster went: parts that sum to all of them (:data:`CAUSES`)."""

    useful: Seconds
    restart: Seconds
    fragmented: Seconds
    gathering: Seconds
    idle: Seconds

    @property
    def total(self) -> Seconds:
        """GPU-seconds that there were."""
        return sum(vars(self).values())

    @property
    def lost(self) -> Seconds:
        """GPU-seconds that a policy cost: free while somebody waited, or starting again."""
        return self.restart + self.fragmented + self.gathering

    @property
    def shares(self) -> Mapping[str, Share]:
        """Share of the total of each part; they sum to one."""
        return MappingProxyType({name: part / self.total for name, part in vars(self).items()})

    def yearly(self, gpus: Number) -> Mapping[str, Seconds]:
        """GPU-seconds a year of each part on a cluster of so many GPUs: what a policy costs.

        Examples
        --------
        >>> use = Use(useful=80.0, restart=0.0, fragmented=2.0, gathering=10.0, idle=8.0)
        >>> fmt(use.yearly(1024)["gathering"], "h")
        '898,000 h'
        """
        (count,) = positive(gpus=gpus)
        return MappingProxyType({name: share * count * year for name, share in self.shares.items()})

    def _rows(self) -> Rows:
        rows = [("", "GPU time", "share")]
        return rows + [(n, summary(part, "h"), summary(self.shares[n], "%")) for n, part in vars(self).items()]


@dataclass(frozen=True, repr=False)
class Schedule(Explained):
    """What became of jobs on a cluster: every stay of every job, and what was free in between.

    At each of ``times`` something changed; the three rows behind it hold from then on.
    """

    cluster: Cluster
    jobs: Jobs
    #: In order of their beginning.
    attempts: tuple[Attempt, ...]
    times: Seconds
    #: GPUs that are free.
    free: Amount
    #: GPUs for which waiting jobs ask.
    wanted: Amount
    #: GPUs for which the next of them asks at least; 0: nobody waits.
    next: Amount

    def _per_job(self, values: Numeric, how: np.ufunc, start: float) -> np.ndarray:
        result = np.full(len(self.jobs), start, dtype=float)
        how.at(result, [attempt.job for attempt in self.attempts], values)
        return result

    @property
    def start(self) -> Seconds:
        """Seconds at which each job first started."""
        return self._per_job([attempt.begin for attempt in self.attempts], np.minimum, np.inf)

    @property
    def end(self) -> Seconds:
        """Seconds at which each job ended."""
        return self._per_job([attempt.finish for attempt in self.attempts], np.maximum, 0)

    @property
    def wait(self) -> Seconds:
        """Seconds that each job waited: before its start, and after every eviction."""
        stays = self._per_job([attempt.finish - attempt.begin for attempt in self.attempts], np.add, 0)
        return np.maximum(self.end - self.jobs.arrival - stays, 0)

    @property
    def evictions(self) -> Amount:
        """How often each job was evicted."""
        return self._per_job([attempt.evicted for attempt in self.attempts], np.add, 0).astype(int)

    @property
    def resizes(self) -> Amount:
        """How often each job went on at once with more GPUs, or with fewer: no stay but the last ends otherwise."""
        return self._per_job(1, np.add, -1).astype(int) - self.evictions

    @property
    def stretch(self) -> Multiple:
        """How many times as long each job took at its work as alone: what its place and its neighbours cost."""
        held = [attempt.gpus * (attempt.finish - attempt.begin - attempt.restart) for attempt in self.attempts]
        return self._per_job(held, np.add, 0) / self.jobs.work

    @property
    def slowdown(self) -> Multiple:
        """Seconds from arrival to end over the duration, of each job; durations under 10 s count as 10 s."""
        floor = np.maximum(self.jobs.duration, 10)
        return np.maximum((self.end - self.jobs.arrival) / floor, 1)

    @property
    def nodes(self) -> Count:
        """Nodes on which each job lay, in its last stay."""
        return self._last(len)

    @property
    def racks(self) -> Count:
        """Racks on which each job lay, in its last stay."""
        return self._last(lambda places: len({node // self.cluster.rack for node, _ in places}))

    def _last(self, what: Callable[[tuple], int]) -> np.ndarray:
        result = np.zeros(len(self.jobs), dtype=int)
        for attempt in self.attempts:
            result[attempt.job] = what(attempt.places)
        return result

    def by_size(self, values: Numeric, how: Callable[[Numeric], Numeric] = np.mean) -> Mapping[int, float]:
        """Each size of job to the mean of some values over the jobs of that size; or to another summary of them."""
        sizes = np.unique(self.jobs.gpus)
        return MappingProxyType({int(size): float(how(values[self.jobs.gpus == size])) for size in sizes})

    def use(self, start: Seconds | None = None, stop: Seconds | None = None) -> Use:
        """Where the GPU-seconds went, from the first arrival to the last end, or between two times."""
        low = float(self.jobs.arrival[0] if start is None else start)
        high = float(np.max(self.end) if stop is None else stop)
        if not low < high:
            raise ValueError(f"start must be before stop, got {low:g} and {high:g}")
        gpus, begin, finish, restart = np.array([(a.gpus, *a[1:4]) for a in self.attempts], dtype=float).T

        def between(first: Numeric, last: Numeric) -> Numeric:
            return np.maximum(np.minimum(last, high) - np.maximum(first, low), 0)

        lost, all_held = gpus @ between(begin, begin + restart), gpus @ between(begin, finish)
        seconds = between(self.times, np.append(self.times[1:], np.inf))
        kept = np.minimum(self.free, self.wanted)
        misplaced = self.next <= self.free
        fragmented, gathering = seconds @ (kept * misplaced), seconds @ (kept * ~misplaced)
        idle = self.cluster.gpus * (high - low) - all_held - fragmented - gathering
        return Use(float(all_held - lost), float(lost), float(fragmented), float(gathering), max(float(idle), 0.0))

    def all_reduce(
        self, size: Bytes, *, scale_up: BytesPerSecond, network: BytesPerSecond, oversubscription: Multiple = 1
    ) -> Seconds:
        """Seconds of an all-reduce of each job where it lies: a ring at the pace of its narrowest step.

        ``scale_up`` and ``network`` are those of a GPU inside its node and of its port, ``oversubscription`` is between
        racks. Between nodes the ring has the ports of the GPUs of a node together: of the node that has the fewest.
        Latency is left out.
        """
        tier = np.where(self.nodes > 1, np.where(self.racks > 1, 3, 2), 1)
        network, scale_up = positive(network=network, scale_up=scale_up)
        port = path_bandwidth(
            tier, memory=scale_up, scale_up=scale_up, network=network, leaf_oversubscription=oversubscription
        )
        fewest = self._last(lambda places: min(count for _, count in places))
        rate = np.where(tier > 1, np.minimum(port * fewest, scale_up), scale_up)
        return ring_all_reduce(size, self.jobs.gpus, bandwidth=rate, latency=0).time

    def _rows(self) -> Rows:
        rows = [("size", "jobs", "mean wait", "99 %", "mean slowdown")]
        waits, slow = self.wait, self.slowdown
        columns = self.by_size(waits), self.by_size(waits, lambda w: np.quantile(w, 0.99)), self.by_size(slow)
        for size, count in self.by_size(waits, len).items():
            mean, tail, ratio = (column[size] for column in columns)
            rows.append((fmt(size), fmt(int(count)), fmt(mean, "s"), fmt(tail, "s"), fmt(ratio)))
        return rows


def compare_policies(
    runs: Mapping[str, Schedule], *, sizes: Sequence[int], start: Seconds | None = None, stop: Seconds | None = None
) -> Table:
    """Policies side by side: how long jobs of some sizes wait, and the GPU-hours that each policy costs a year.

    Parameters
    ----------
    runs
        Name of a policy to the schedule that it made.
    sizes
        GPUs of the jobs whose mean wait is shown.
    start, stop : optional
        Seconds between which GPU time is counted (:meth:`Schedule.use`), so as to leave out a cluster that fills.

    Returns
    -------
    Table
        A row for each policy.

    Raises
    ------
    ValueError
        A run has no job of a size.

    Examples
    --------
    >>> from clusterlab.operations import simulate_cluster
    >>> jobs = Jobs(arrival=[0, 1, 2], gpus=[24, 32, 8], duration=[3600, 3600, 600])
    >>> runs = {name: simulate_cluster(jobs, Cluster(4), policy=name) for name in ("fcfs", "backfill")}
    >>> compare_policies(runs, sizes=[32, 8])
    policy    32 GPUs wait  8 GPUs wait  GPU-hours lost a year
    fcfs               1 h          2 h               32,000 h
    backfill           1 h          0 h               29,000 h
    """
    if not runs:
        raise ValueError("runs must name at least one schedule")
    waits = [run.by_size(run.wait) for run in runs.values()]
    if missing := [size for size in sizes if not all(size in wait for wait in waits)]:
        raise ValueError(f"sizes must be of jobs that every run has, got {missing[0]}")
    columns: dict[str, object] = {"policy": list(runs)}
    for size in sizes:
        columns[f"{size} GPU waits" if size == 1 else f"{size} GPUs wait"] = [wait[size] for wait in waits]
    uses = [(run.use(start, stop), run.cluster.gpus) for run in runs.values()]
    columns["GPU-hours lost a year"] = [use.lost / use.total * gpus * year for use, gpus in uses]
    return tabulate(columns, dict.fromkeys(list(columns)[1:], "h"), digits=2)
