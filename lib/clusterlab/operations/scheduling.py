r"""Scheduling: jobs that wait for each other, because each wants all of its GPUs at once.

A job is a gang: it starts when all its GPUs are there, in the right places, and holds them until it ends. GPUs that are
free are then of three kinds, and their seconds sum with the used ones to the whole (:class:`Use`):

- *fragmented*: the next job asks for no more than are free, but they lie in the wrong places,
- *gathering*: the next job asks for more than are free, and what is free waits with it for the rest,
- *idle*: nobody waits for them.

:func:`simulate` runs jobs through a cluster under any policy, event by event; :func:`replay` runs many draws of them at
once, under the two policies that need no events. The laws beside them are what they come to in the limits: many small
jobs (:func:`expected_wait`), one job that wants everything (:func:`drain`), nothing but packing (:func:`packing_bound`,
:func:`makespan_bound`). Durations are those of the job; what failures add to them is
:mod:`clusterlab.failures`.
"""

from __future__ import annotations

import heapq
from bisect import insort
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from ..checks import at_least_one, choose, nonnegative, positive, whole
from ..interconnect import path_bandwidth, ring_all_reduce
from ..records import Explained, Table, summary, tabulate, with_interval
from ..serving import batch_queue
from ..units import fmt, year

# --- Records ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class Cluster(Explained):
    """The shape of a cluster: nodes, GPUs of a node, and nodes of a rack.

    A rack is the nodes that share their leaf switches: one switch on top, or one for each rail.

    Examples
    --------
    >>> Cluster(128).gpus, Cluster(128, rack=32).racks
    (1024, 4)
    """

    nodes: int
    node_size: int = 8
    rack: int = 4

    def __post_init__(self) -> None:
        """Refuse what is no count, and racks that are not full."""
        for name, count in vars(self).items():
            object.__setattr__(self, name, int(*whole(**{name: count})))
        if self.nodes % self.rack:
            raise ValueError(f"rack must divide nodes, got {self.rack} and {self.nodes}")

    @property
    def gpus(self) -> int:
        """GPUs of all nodes."""
        return self.nodes * self.node_size

    @property
    def racks(self) -> int:
        """Racks of all nodes."""
        return self.nodes // self.rack


@dataclass(frozen=True, repr=False)
class Jobs(Explained):
    """Jobs in the order in which they arrive: an array of each.

    ``arrival`` and ``duration`` are seconds, the duration that on all its ``gpus``. ``priority``: higher goes first.
    ``least``: the fewest GPUs with which a job starts where it cannot have all; it then takes longer in proportion
    (default: all, a rigid job). Where :func:`simulate` is told so, it also changes its size while it runs. ``limit``:
    seconds that its user asks for, by which the scheduler plans (default: the duration, a perfect guess).
    """

    arrival: Any
    gpus: Any
    duration: Any
    priority: Any = None
    least: Any = None
    limit: Any = None

    def __post_init__(self) -> None:
        """Bring all to one length, and refuse what is out of order or out of range."""
        (arrival,) = nonnegative(arrival=np.atleast_1d(self.arrival))
        if np.ndim(arrival) != 1 or np.any(np.diff(arrival) < 0):
            raise ValueError("arrival must be a row in order of time")
        gpus, _ = whole(gpus=self.gpus, arrivals=np.size(arrival))
        (duration,) = positive(duration=self.duration)
        (least,) = whole(least=gpus if self.least is None else self.least)
        (limit,) = positive(limit=duration if self.limit is None else self.limit)
        (priority,) = nonnegative(priority=0 if self.priority is None else self.priority)
        rows = {"gpus": gpus, "duration": duration, "priority": priority, "least": least, "limit": limit}
        for name, value in ({"arrival": arrival} | rows).items():
            if np.size(value) not in (1, np.size(arrival)):
                raise ValueError(f"{name} must have one value for each of {np.size(arrival)} arrivals, or one for all")
            kind = int if name in ("gpus", "least") else float
            object.__setattr__(self, name, np.broadcast_to(value, np.shape(arrival)).astype(kind))
        if np.any(self.least > self.gpus):
            raise ValueError(f"least must be at most gpus, got {np.max(self.least - self.gpus)} more")
        if np.any(self.limit < self.duration):
            raise ValueError("limit must be at least duration: a job is not killed here")

    def __len__(self) -> int:
        """Return the number of jobs."""
        return len(self.arrival)

    @property
    def work(self) -> np.ndarray:
        """GPU-seconds of each job."""
        return self.gpus * self.duration

    def _rows(self):
        rows = [("", f"{len(self):,} jobs")]
        units = {"arrival": "s", "duration": "s", "limit": "s"}
        rows += [(f.name, summary(getattr(self, f.name), units.get(f.name, ""))) for f in fields(self)]
        return [(name, text.split(", ")[0]) for name, text in rows]


def draw_jobs(mix: Mapping, *, gpus, load, jobs=1000, variation=1.0, burst=1.0, seed=0) -> Jobs:
    r"""Jobs that arrive at random, in a mix of sizes, and would fill a share of the cluster.

    .. math:: t_n = \frac{\sum_{i \le n} g_i d_i}{\rho\,G}

    Parameters
    ----------
    mix : mapping
        Size of a job in GPUs, g, to its share of all jobs and its mean duration: {8: (0.5, 3600), ...}.
    gpus : int
        GPUs of the cluster, G.
    load : float
        GPU-seconds that arrive for each that the cluster has until the last arrival at t_n, rho: of this very sample,
        as a few large jobs weigh much.
    jobs, seed : int
        How many, and the seed of the random numbers.
    variation : float
        Standard deviation of durations over their mean, for each size: log-normal, 0 for equal ones.
    burst : float
        Mean number of jobs that come together, all of one size, as those of a sweep do: geometric, 1 for single ones.

    Returns
    -------
    Jobs

    Raises
    ------
    ValueError
        The shares do not sum to 1, or a number is out of range.

    Notes
    -----
    Derived. Bursts come as a Poisson process, stretched to the load; published traces swing by day and by night too.

    Examples
    --------
    >>> draw_jobs({1: (0.9, 3600), 64: (0.1, 7200)}, gpus=128, load=0.7)
    Jobs
                       1,000 jobs
    arrival     6.89 min to 173 h
    gpus                  1 to 64
    duration  3.46 min to 615 min
    priority                    0
    least                 1 to 64
    limit     3.46 min to 615 min
    """
    (sizes,) = whole(sizes=list(mix))
    (shares, means) = positive(shares=[m[0] for m in mix.values()], durations=[m[1] for m in mix.values()])
    (count, machine), (rho,), (spread,) = whole(jobs=jobs, gpus=gpus), positive(load=load), nonnegative(v=variation)
    (together,) = at_least_one(burst=burst)
    if abs(np.sum(shares) - 1) > 1e-9:
        raise ValueError(f"the shares of the mix must sum to 1, got {np.sum(shares):g}")
    random = np.random.default_rng(seed)
    gaps = random.exponential(size=int(count))
    kind = random.choice(len(sizes), int(count), p=shares)
    sigma = np.sqrt(np.log1p(spread**2))
    factor = random.lognormal(-(sigma**2) / 2, sigma, int(count))
    opens = random.random(int(count)) < 1 / together
    opens[0] = True
    first = np.flatnonzero(opens)[np.cumsum(opens) - 1]  # of each job's burst
    come, kind = np.cumsum(gaps * opens), kind[first]
    duration = means[kind] * factor
    return Jobs(come / come[-1] * np.sum(sizes[kind] * duration) / (rho * machine), sizes[kind], duration)


class Attempt(NamedTuple):
    """One stay of a job on the cluster: of seconds ``begin`` to ``finish`` the first ``restart`` are no work.

    ``places`` are pairs of a node and the GPUs there. A job that is evicted has several.
    """

    job: int
    begin: float
    finish: float
    restart: float
    places: tuple[tuple[int, int], ...]

    @property
    def gpus(self) -> int:
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
    """Where the GPU-seconds of a cluster went: parts that sum to all of them."""

    useful: float
    restart: float
    fragmented: float
    gathering: float
    idle: float

    @property
    def total(self) -> float:
        """GPU-seconds that there were."""
        return sum(vars(self).values())

    @property
    def lost(self) -> float:
        """GPU-seconds that a policy cost: free while somebody waited, or starting again."""
        return self.restart + self.fragmented + self.gathering

    @property
    def shares(self) -> Mapping[str, float]:
        """Share of the total of each part; they sum to one."""
        return MappingProxyType({name: part / self.total for name, part in vars(self).items()})

    def yearly(self, gpus) -> Mapping[str, float]:
        """GPU-seconds a year of each part on a cluster of so many GPUs: what a policy costs.

        Examples
        --------
        >>> use = Use(useful=80.0, restart=0.0, fragmented=2.0, gathering=10.0, idle=8.0)
        >>> fmt(use.yearly(1024)["gathering"], "h")
        '898,000 h'
        """
        (count,) = positive(gpus=gpus)
        return MappingProxyType({name: share * count * year for name, share in self.shares.items()})

    def _rows(self):
        rows = [("", "GPU time", "share")]
        return rows + [(n, summary(part, "h"), summary(self.shares[n], "%")) for n, part in vars(self).items()]


@dataclass(frozen=True, repr=False)
class Schedule(Explained):
    """What became of jobs on a cluster: every stay of every job, and what was free in between.

    ``attempts`` are in order of their beginning. At each time of ``times`` something changed; from then on ``free``
    GPUs were free, waiting jobs asked for ``wanted``, and the next of them for at least ``next`` (0: nobody waits).
    """

    cluster: Cluster
    jobs: Jobs
    attempts: tuple[Attempt, ...]
    times: np.ndarray
    free: np.ndarray
    wanted: np.ndarray
    next: np.ndarray

    def _per_job(self, values, how, start) -> np.ndarray:
        result = np.full(len(self.jobs), start, dtype=float)
        how.at(result, [attempt.job for attempt in self.attempts], values)
        return result

    @property
    def start(self) -> np.ndarray:
        """Seconds at which each job first started."""
        return self._per_job([attempt.begin for attempt in self.attempts], np.minimum, np.inf)

    @property
    def end(self) -> np.ndarray:
        """Seconds at which each job ended."""
        return self._per_job([attempt.finish for attempt in self.attempts], np.maximum, 0)

    @property
    def wait(self) -> np.ndarray:
        """Seconds that each job waited: before its start, and after every eviction."""
        stays = self._per_job([attempt.finish - attempt.begin for attempt in self.attempts], np.add, 0)
        return np.maximum(self.end - self.jobs.arrival - stays, 0)

    @property
    def evictions(self) -> np.ndarray:
        """How often each job was evicted."""
        return self._per_job(1, np.add, -1).astype(int) - self.resizes

    @property
    def resizes(self) -> np.ndarray:
        """How often each job went on at once with more GPUs, or with fewer."""
        result, last = np.zeros(len(self.jobs), dtype=int), dict[int, Attempt]()
        for stay in self.attempts:
            before = last.get(stay.job, stay)
            result[stay.job] += before.finish == stay.begin and before.gpus != stay.gpus
            last[stay.job] = stay
        return result

    @property
    def slowdown(self) -> np.ndarray:
        """Seconds from arrival to end over the duration, of each job; durations under 10 s count as 10 s."""
        floor = np.maximum(self.jobs.duration, 10)
        return np.maximum((self.end - self.jobs.arrival) / floor, 1)

    @property
    def nodes(self) -> np.ndarray:
        """Nodes on which each job lay, in its last stay."""
        return self._last(lambda places: len(places))

    @property
    def racks(self) -> np.ndarray:
        """Racks on which each job lay, in its last stay."""
        return self._last(lambda places: len({node // self.cluster.rack for node, _ in places}))

    def _last(self, what) -> np.ndarray:
        result = np.zeros(len(self.jobs), dtype=int)
        for attempt in self.attempts:
            result[attempt.job] = what(attempt.places)
        return result

    def by_size(self, values, how=np.mean) -> Mapping[int, float]:
        """Each size of job to the mean of some values over the jobs of that size; or to another summary of them."""
        sizes = np.unique(self.jobs.gpus)
        return MappingProxyType({int(size): float(how(values[self.jobs.gpus == size])) for size in sizes})

    def use(self, start=None, stop=None) -> Use:
        """Where the GPU-seconds went, from the first arrival to the last end, or between two times."""
        low = float(self.jobs.arrival[0] if start is None else start)
        high = float(np.max(self.end) if stop is None else stop)
        if not low < high:
            raise ValueError(f"start must be before stop, got {low:g} and {high:g}")
        gpus, begin, finish, restart = np.array([(a.gpus, *a[1:4]) for a in self.attempts], dtype=float).T

        def between(first, last):
            return np.maximum(np.minimum(last, high) - np.maximum(first, low), 0)

        lost, all_held = gpus @ between(begin, begin + restart), gpus @ between(begin, finish)
        seconds = between(self.times, np.append(self.times[1:], np.inf))
        kept = np.minimum(self.free, self.wanted)
        misplaced = self.next <= self.free
        fragmented, gathering = seconds @ (kept * misplaced), seconds @ (kept * ~misplaced)
        idle = self.cluster.gpus * (high - low) - all_held - fragmented - gathering
        return Use(float(all_held - lost), float(lost), float(fragmented), float(gathering), max(float(idle), 0.0))

    def all_reduce(self, size, *, scale_up, network, oversubscription=1) -> np.ndarray:
        """Seconds of an all-reduce of each job where it lies: a ring at the pace of its narrowest step.

        ``size`` is bytes, ``scale_up`` and ``network`` bytes/s of a GPU inside its node and of its port, and
        ``oversubscription`` that between racks. Between nodes the ring has the ports of the GPUs of a node together:
        of the node that has the fewest. Latency is left out.
        """
        tier = np.where(self.nodes > 1, np.where(self.racks > 1, 3, 2), 1)
        network, scale_up = positive(network=network, scale_up=scale_up)
        port = path_bandwidth(
            tier, memory=scale_up, scale_up=scale_up, network=network, leaf_oversubscription=oversubscription
        )
        fewest = self._last(lambda places: min(count for _, count in places))
        rate = np.where(tier > 1, np.minimum(port * fewest, scale_up), scale_up)
        return ring_all_reduce(size, self.jobs.gpus, bandwidth=rate, latency=0).time

    def _rows(self):
        rows = [("size", "jobs", "mean wait", "99 %", "mean slowdown")]
        waits, slow = self.wait, self.slowdown
        columns = self.by_size(waits), self.by_size(waits, lambda w: np.quantile(w, 0.99)), self.by_size(slow)
        for size, count in self.by_size(waits, len).items():
            mean, tail, ratio = (column[size] for column in columns)
            rows.append((fmt(size), fmt(int(count)), fmt(mean, "s"), fmt(tail, "s"), fmt(ratio)))
        return rows


# --- The simulation --------------------------------------------------------------------------------------------------

_POLICIES = {"fcfs": "fcfs", "backfill": "backfill", "conservative": "conservative", "greedy": "greedy"}
_ORDERS = {"arrival": "arrival", "shortest": "shortest"}
_PLACEMENTS = {"pack": "pack", "spread": "spread", "anywhere": "anywhere"}


def _fits(free, size, node_size, placement):
    """Whether a job fits into the free GPUs of each node; ``free`` may be many states at once."""
    if placement == "anywhere":
        return free.sum(-1) >= size
    full, rest = divmod(size, node_size)
    enough = _count(free == node_size) >= full
    return enough & (_count(free >= rest) > full) if rest else enough


def _count(nodes):
    """How many nodes are so, in each state; NumPy's own count is several times faster where there is one."""
    return np.count_nonzero(nodes) if nodes.ndim == 1 else nodes.sum(-1)


def _place(free, size, cluster, placement):
    """GPUs that a job takes of each node, given that it fits."""
    g, taken = cluster.node_size, np.zeros_like(free)
    if placement == "anywhere":  # what lies about first
        order = np.argsort(np.where(free > 0, free, g + 1), kind="stable")
        taken[order] = np.diff(np.minimum(np.cumsum(free[order]), size), prepend=0)
        return taken
    full, rest = divmod(size, g)
    empty = (free == g).reshape(-1, cluster.rack)
    while full:
        left = empty.sum(1)
        holds = left >= full
        # Packed: the rack that just holds it, or else the emptiest. Spread: a node of the emptiest rack.
        best = np.where(holds, left, cluster.nodes).argmin() if placement == "pack" and holds.any() else left.argmax()
        some = min(full, left[best]) if placement == "pack" else 1
        nodes = np.flatnonzero(empty[best])[:some]
        empty[best, nodes] = False
        taken[best * cluster.rack + nodes] = g
        full -= some
    if rest:
        left = free - taken
        # The node that just holds it, and where that is an empty one, in the rack with the fewest empty nodes.
        crowd = np.repeat(empty.sum(1), cluster.rack)
        score = left * (cluster.nodes + 1) + crowd if placement == "pack" else -left
        taken[np.where(left >= rest, score, g * (cluster.nodes + 2)).argmin()] = rest
    return taken


class _Run:
    """The state of a simulation at one moment."""

    def __init__(self, jobs, cluster, policy, placement, order, preemption, elastic):
        self.jobs, self.cluster, self.policy, self.placement = jobs, cluster, policy, placement
        self.restart: float
        self.protected: float
        self.restart, self.protected = preemption or (0.0, np.inf)
        self.resize_time: float
        self.settled: float
        self.resize_time, self.settled = elastic or (0.0, np.inf)
        self.free = np.full(cluster.nodes, cluster.node_size, dtype=np.int32)
        self.held = np.zeros((len(jobs), cluster.nodes), dtype=np.int32)
        self.gpus, self.least, self.priority = (x.tolist() for x in (jobs.gpus, jobs.least, jobs.priority))
        self.left = jobs.work.tolist()  # GPU-seconds to do
        self.asked = (jobs.limit * jobs.gpus).tolist()  # GPU-seconds that the scheduler expects
        self.extra = [0.0] * len(jobs)  # seconds of restart before the next work
        self.running: dict[int, tuple[float, float, float]] = {}  # job: begin, end, latest end that was asked for
        first = jobs.limit * jobs.gpus if order == "shortest" else jobs.arrival
        self.turn = list(zip((-jobs.priority).tolist(), first.tolist(), range(len(jobs)), strict=True))
        self.waiting: list[tuple[int, float, int]] = []  # whose turn it is, in order; the last entry is the job
        self.wanted = 0  # GPUs for which they ask
        self.attempts: list[Attempt] = []
        self.log: list[tuple[float, int, int, int]] = []
        self.events: list[tuple[float, int, int]] = []  # time, 0 for an end, 1 for an arrival, 2 to look again; job

    def fits(self, free, size):
        return _fits(free, size, self.cluster.node_size, self.placement)

    def size(self, job, fit):
        """GPUs with which a job can start now: all of them, or halves of that down to its least; 0 if it cannot."""
        for size in self.sizes(job):
            if size not in fit:
                fit[size] = bool(self.fits(self.free, size))
            if fit[size]:
                return size
        return 0

    def place(self, size):
        return _place(self.free, size, self.cluster, self.placement)

    def start(self, now, job, taken):
        self.waiting.remove(self.turn[job])
        self.wanted -= self.gpus[job]
        self.begin(now, job, taken)

    def begin(self, now, job, taken):
        size = int(taken.sum())
        self.free -= taken
        self.held[job] = taken
        end = now + self.extra[job] + self.left[job] / size
        self.running[job] = now, end, now + self.extra[job] + self.asked[job] / size
        heapq.heappush(self.events, (end, 0, job))
        if self.settled < np.inf and self.least[job] < self.gpus[job]:
            heapq.heappush(self.events, (now + self.settled, 2, job))  # look whether it may grow, or has to shrink

    def leave(self, now, job, extra):
        begin, _, _ = self.running.pop(job)
        taken = self.held[job]
        size, lost = int(taken.sum()), min(self.extra[job], now - begin)
        places = tuple((int(node), int(taken[node])) for node in np.flatnonzero(taken))
        self.attempts.append(Attempt(job, begin, now, lost, places))
        done = (now - begin - lost) * size
        self.left[job], self.asked[job] = self.left[job] - done, self.asked[job] - done
        self.extra[job] = extra
        self.free += taken
        self.held[job] = 0

    def wait(self, job):
        insort(self.waiting, self.turn[job])
        self.wanted += self.gpus[job]

    def evict(self, now, job):
        """Evict jobs of lower priority, the lowest and the latest first, if that lets a job start."""
        below = [other for other in self.running if self.priority[other] < self.priority[job]]
        ready = [other for other in below if now - self.running[other][0] >= self.protected]
        ready.sort(key=lambda other: (self.priority[other], -self.running[other][0], -other))
        freed = self.free + np.cumsum(self.held[ready], axis=0, dtype=np.int32)
        enough = self.fits(freed, self.gpus[job])
        if not enough.any():
            times = [self.running[other][0] + self.protected for other in below]
            if soon := [time for time in times if time > now]:
                heapq.heappush(self.events, (min(soon), 2, job))
            return False
        last = int(enough.argmax())
        state, out = freed[last], [ready[last]]
        for other in reversed(ready[:last]):  # who need not go stays
            if self.fits(state - self.held[other], self.gpus[job]):
                state = state - self.held[other]
            else:
                out.append(other)
        for other in out:
            self.leave(now, other, self.restart)
            self.wait(other)
        return True

    def elastic(self, now):
        """Jobs that may change their size now: the least important and the latest start first."""
        settled = [job for job, (begin, _, _) in self.running.items() if now >= begin + self.settled]
        return sorted(settled, key=lambda job: (self.priority[job], -self.running[job][0], -job))

    def shrink(self, now, job):
        """Halve jobs that can do with less, one after the other and where they lie, until a job can start."""
        free, kept = self.free.copy(), {}
        for other in self.elastic(now):
            if self.priority[other] > self.priority[job]:
                break
            size, taken = int(self.held[other].sum()), self.held[other]
            while size // 2 >= self.least[other]:
                size //= 2
                less = np.diff(np.minimum(np.cumsum(taken), size), prepend=0)
                free += taken - less
                kept[other] = taken = less
                if self.fits(free, self.least[job]):
                    for one, places in kept.items():
                        self.leave(now, one, self.resize_time)
                        self.begin(now, one, places)
                    return True
        return False

    def grow(self, now):
        """Nobody waits: give what is free to jobs that can do with more, the most important and the oldest first."""
        grown = True
        while grown:
            grown = False
            for job in reversed(self.elastic(now)):
                size, has, room = self.gpus[job], int(self.held[job].sum()), self.free + self.held[job]
                while size > has and not self.fits(room, size):
                    size //= 2
                if size > has:
                    self.leave(now, job, self.resize_time)
                    self.begin(now, job, self.place(size))
                    grown = True

    def make_room(self, now, job):
        """Shrink others, or else evict some, for the head of the queue."""
        if self.settled < np.inf and self.shrink(now, job):
            return True
        return self.protected < np.inf and self.evict(now, job)

    def reserve(self, job):
        """When a job can start at the latest, as all have asked, and what is then free."""
        order = sorted(self.running, key=lambda other: (self.running[other][2], other))
        states = self.free + np.cumsum(self.held[order], axis=0, dtype=np.int32)
        first = int(self.fits(states, self.least[job]).argmax())
        at = self.running[order[first]][2]
        while first + 1 < len(order) and self.running[order[first + 1]][2] <= at:
            first += 1
        return at, states[first]

    def plan(self, now):
        """Start whoever can start without delaying anybody before it: each that waits has a reservation of its own."""
        order = sorted(self.running, key=lambda other: (self.running[other][2], other))
        times = np.array([now] + [self.running[other][2] for other in order])
        states = self.free + np.cumsum(np.vstack([0 * self.free[None], self.held[order]]), axis=0, dtype=np.int32)
        last = np.append(np.diff(times) > 0, True)  # after all that end at one time
        times, states = times[last], states[last]
        for *_, job in list(self.waiting):
            if not self.free.any():
                return
            for size in self.sizes(job):
                at, stop, room = self.slot(times, states, job, size)
                if at == now:
                    break
            # What was tried last is the least, and the job waits for that.
            taken = _place(room, size, self.cluster, self.placement)
            if at == now:
                self.start(now, job, taken)
            times, states = self.reserved(times, states, at, stop, taken)

    def sizes(self, job):
        """GPUs with which a job may start: all of them, or halves of that down to its least."""
        size = self.gpus[job]
        while size >= self.least[job]:
            yield size
            size //= 2

    def slot(self, times, states, job, size):
        """Until when and from when a job has room for as long as it asks, and what is free all that time."""
        starts = np.flatnonzero(self.fits(states, size))
        stops = times[starts] + self.extra[job] + self.asked[job] / size
        rooms = (states[at:end].min(0) for at, end in zip(starts, np.searchsorted(times, stops), strict=True))
        at, room = next((at, room) for at, room in enumerate(rooms) if self.fits(room, size))
        return times[starts[at]], stops[at], room

    def reserved(self, times, states, start, stop, taken):
        """What will be free when, less what one more job takes from one time to another."""
        for time in (start, stop):
            at = np.searchsorted(times, time)
            if at == len(times) or times[at] != time:
                times, states = np.insert(times, at, time), np.insert(states, at, states[at - 1], axis=0)
        states[(times >= start) & (times < stop)] -= taken
        return times, states

    def schedule(self, now):
        """Start whoever can start; then, if nobody waits, let jobs grow."""
        if self.policy == "conservative":
            while self.waiting and not self.size(self.waiting[0][-1], {}) and self.make_room(now, self.waiting[0][-1]):
                pass
            self.plan(now)
        else:
            self.go_around(now)
        if self.settled < np.inf and not self.waiting:
            self.grow(now)

    def go_around(self, now):
        """Start the head of the queue, and later jobs as the policy allows."""
        fit: dict[int, bool] = {}  # sizes that were tried on what is free now
        refused: set[int] = set()  # sizes that would delay the head, if they stay until after its reservation
        reserved = None  # the head's: from when, and what is free then
        at = 0
        while at < len(self.waiting):
            job = self.waiting[at][-1]
            size = self.size(job, fit)
            if not size and at == 0 and self.make_room(now, job):
                fit.clear()
                continue  # now the head fits
            if not self.free.any():
                return
            if size and at and self.policy == "backfill":
                reserved = reserved or self.reserve(self.waiting[0][-1])
                if now + self.extra[job] + self.asked[job] / size > reserved[0]:
                    if size in refused:
                        size = 0
                    else:
                        later = reserved[1] - self.place(size)
                        if self.fits(later, self.least[self.waiting[0][-1]]):
                            reserved = reserved[0], later
                        else:
                            refused.add(size)
                            size = 0
            if size:
                self.start(now, job, self.place(size))
                fit.clear()
                refused.clear()
            elif at == 0 and self.policy == "fcfs":
                return
            else:
                at += 1

    def run(self):
        self.events = [(float(time), 1, job) for job, time in enumerate(self.jobs.arrival)]
        heapq.heapify(self.events)
        while self.events:
            now = self.events[0][0]
            changed = False
            while self.events and self.events[0][0] == now:
                _, kind, job = heapq.heappop(self.events)
                if kind == 0 and self.running.get(job, (0, -1))[1] != now:
                    continue  # it was evicted before
                if kind == 0:
                    self.leave(now, job, 0.0)
                elif kind == 1:
                    self.wait(job)
                changed = True
            if changed:
                self.schedule(now)
                first = self.least[self.waiting[0][-1]] if self.waiting else 0
                self.log.append((now, int(self.free.sum()), self.wanted, first))
        return self


def simulate(
    jobs: Jobs, cluster: Cluster, *, policy="backfill", placement="pack", order="arrival", preemption=None, elastic=None
) -> Schedule:
    r"""Run jobs through a cluster: who starts when, and on which GPUs.

    Parameters
    ----------
    jobs : Jobs
        They wait in order of priority, and then as ``order`` says; the first of them is the head of the queue.
    cluster : Cluster
        Its shape.
    policy : str
        ``"fcfs"``: while the head waits, all wait. ``"backfill"`` (EASY): the head has a reservation for the time at
        which it fits at the latest, and later jobs may start if they do not delay that. ``"conservative"``: each that
        waits has a reservation, planned in order whenever something changes, and a later job may start if it delays
        none. ``"greedy"``: whatever fits starts, and nothing is reserved.
    placement : str
        ``"pack"``: a job that fits a node gets one node, the fullest that holds it, and larger ones get full nodes, in
        the rack that just holds them. ``"spread"``: the same, but the emptiest node and rack. ``"anywhere"``: any GPUs.
    order : str
        ``"arrival"``, or ``"shortest"``: by the GPU-seconds that the limits ask for, the least first.
    preemption : (restart, protected), optional
        The head may evict jobs of lower priority that have run for ``protected`` seconds, those of the lowest priority
        and the latest start first. They keep their work, wait in their old place, and first spend ``restart`` seconds
        when they start again: loading, and half a checkpoint interval if they are not warned.
    elastic : (restart, settled), optional
        Running jobs may change their size, by factors of two between ``least`` and ``gpus``, ``settled`` seconds after
        they started or last did so, and then spend ``restart`` seconds. For a head that does not fit, jobs of no higher
        priority shrink, those of the lowest priority and the latest start first; when nobody waits, jobs grow.

    Returns
    -------
    Schedule

    Raises
    ------
    ValueError
        A job is larger than the cluster, or a name or number is not allowed.

    Notes
    -----
    Source: Lifka 1995 (EASY backfilling), Mu'alem and Feitelson 2001 (conservative), Feitelson and Rudolph 1995 for the
    terms, Hu et al. 2021 for the shortest by GPU time first. Exact, event by event; a job's pace is in proportion to
    its GPUs.

    Examples
    --------
    A small job waits behind a large one, or goes around it:

    >>> jobs = Jobs(arrival=[0, 1, 2], gpus=[24, 32, 8], duration=[3600, 3600, 600])
    >>> for policy in ("fcfs", "backfill"):
    ...     simulate(jobs, Cluster(4), policy=policy).wait
    array([   0., 3599., 7198.])
    array([   0., 3599.,    0.])
    """
    policy, placement = choose(_POLICIES, policy=policy), choose(_PLACEMENTS, placement=placement)
    order = choose(_ORDERS, order=order)
    if preemption is not None:
        if np.shape(preemption) != (2,):
            raise ValueError(f"preemption must be a pair (restart, protected), got {preemption!r}")
        restart, protected = preemption
        preemption = tuple(nonnegative(restart=restart, protected=protected))
    if elastic is not None:
        if np.shape(elastic) != (2,):
            raise ValueError(f"elastic must be a pair (restart, settled), got {elastic!r}")
        restart, settled = elastic
        elastic = (*nonnegative(restart=restart), *positive(settled=settled))
    if np.any(jobs.gpus > cluster.gpus):
        raise ValueError(f"gpus must be at most {cluster.gpus:,}, those of the cluster; got {np.max(jobs.gpus):,}")
    done = _Run(jobs, cluster, policy, placement, order, preemption, elastic).run()
    attempts = tuple(sorted(done.attempts, key=lambda attempt: (attempt.begin, attempt.job)))
    return Schedule(cluster, jobs, attempts, *np.array(done.log, dtype=float).T)


def compare(runs: Mapping[str, Schedule], *, sizes, start=None, stop=None) -> Table:
    """Policies side by side: how long jobs of some sizes wait, and the GPU-hours that each policy costs a year.

    Parameters
    ----------
    runs : mapping
        Name of a policy to the schedule that it made.
    sizes : sequence of int
        GPUs of the jobs whose mean wait is shown.
    start, stop : float, optional
        Seconds between which GPU time is counted (:meth:`Schedule.use`), so as to leave out a cluster that fills.

    Returns
    -------
    Table
        A row for each policy.

    Raises
    ------
    ValueError
        There is no run, a run has no job of a size, or ``start`` is not before ``stop``.

    Examples
    --------
    >>> jobs = Jobs(arrival=[0, 1, 2], gpus=[24, 32, 8], duration=[3600, 3600, 600])
    >>> compare({name: simulate(jobs, Cluster(4), policy=name) for name in ("fcfs", "backfill")}, sizes=[32, 8])
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


# --- Many runs at once -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class Replays(Explained):
    """Many runs of a cluster: arrays of a row for each run and a column for each job, in order of arrival."""

    cluster_gpus: int
    arrival: np.ndarray
    gpus: np.ndarray
    duration: np.ndarray
    start: np.ndarray

    @property
    def wait(self) -> np.ndarray:
        """Seconds that each job waited."""
        return self.start - self.arrival

    def by_size(self, values) -> Mapping[int, np.ndarray]:
        """Each size of job to the mean of some values over the jobs of that size, of each run (NaN: it has none)."""
        chosen = {int(size): self.gpus == size for size in np.unique(self.gpus)}
        with np.errstate(invalid="ignore"):
            means = {size: np.where(of, values, 0.0).sum(1) / of.sum(1) for size, of in chosen.items()}
        return MappingProxyType(means)

    def use(self, start=None, stop=None) -> Use:
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

    def _rows(self):
        rows = [("size", "jobs", "mean wait (80% of runs)")]
        for size, waits in self.by_size(self.wait).items():
            low, middle, high = np.nanquantile(waits, [0.1, 0.5, 0.9])
            rows.append((fmt(size), fmt(int((self.gpus == size).sum())), with_interval(middle, low, high, "s")))
        return rows


def replay(runs: Sequence[Jobs], gpus, *, policy="conservative") -> Replays:
    r"""Many runs at once: job by job, each takes the first gap that holds it and delays nobody before it.

    .. math:: s_i = \min \Big\{ t \ge e_i :\; G - \sum_{j < i,\; s_j \le u < s_j + d_j} g_j \;\ge\; g_i
        \quad\text{for all}\quad t \le u < t + d_i \Big\}

    Parameters
    ----------
    runs : sequence of Jobs
        A list of jobs for each run, all of one length; jobs are rigid, of one priority, and end when they say.
    gpus : int
        GPUs of the cluster, G: they are counted, wherever they lie.
    policy : str
        ``"fcfs"``: nobody starts before the one before, e = max(a, s of the job before). ``"conservative"``: backfill
        that delays nobody, e = a, the arrival.

    Returns
    -------
    Replays
        What :func:`simulate` finds on one node of all GPUs, to the last bit where a job's GPU-seconds are exact.

    Raises
    ------
    ValueError
        The runs are none or not of one length, their jobs are elastic, of several priorities or with loose limits, or
        a job is larger than the cluster.

    Notes
    -----
    Source: Kiefer and Wolfowitz 1955, who follow a queue job by job; Mu'alem and Feitelson 2001 (conservative). The
    loop is over jobs, the arrays are over runs: when GPUs come back, or go. EASY, evictions and changes of size depend
    on what happens in between: :func:`simulate`.

    Examples
    --------
    100 draws of 300 jobs on 256 GPUs at a load of 90 %:

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
    start, earliest = np.empty_like(arrival), arrival[:, :1]
    for i in range(arrival.shape[1]):
        a, g, d = (rows[:, i, None] for rows in (arrival, size, duration))
        earliest = np.maximum(a, earliest) if in_turn else a
        past = np.min(np.sum(when <= earliest, axis=1)) - 1  # nobody asks any more what was free before
        change[:, past] = np.sum(change[:, : past + 1], axis=1)
        when, change = when[:, past:], change[:, past:]
        short = np.where(np.cumsum(change, axis=1) < g, when, np.inf)
        until = np.minimum.accumulate(short[:, ::-1], axis=1)[:, ::-1]  # how long there is room from each time on
        begin = np.maximum(when, earliest)
        at = np.take_along_axis(begin, np.argmax(until >= begin + d, axis=1)[:, None], 1)
        when, change = np.concatenate([at + d, when, at], axis=1), np.concatenate([g, change, -g], axis=1)
        order = np.argsort(when, axis=1, kind="stable")
        when, change = np.take_along_axis(when, order, 1), np.take_along_axis(change, order, 1)
        start[:, i] = at[:, 0]
        if in_turn:
            earliest = at
    return Replays(int(total), arrival, size, duration, start)


# --- The limits ------------------------------------------------------------------------------------------------------


def expected_wait(rate, duration, *, servers, variation=1.0):
    r"""Mean wait of jobs that are all of one size: as many servers as fit into the cluster at once.

    .. math:: W = \frac{1 + c^2}{2}\; \frac{C(k, \lambda d)\; d}{k - \lambda d}

    Parameters
    ----------
    rate : array_like
        Jobs a second, lambda.
    duration : array_like
        Mean seconds of a job, d.
    servers : array_like
        Jobs that run at once, k: GPUs of the cluster over those of a job.
    variation : array_like
        Standard deviation of durations over their mean, c.

    Returns
    -------
    array_like
        Seconds, C being the chance to wait (Erlang's second formula). Exact for c = 1 (M/M/k), and for k = 1
        (Pollaczek and Khinchine, M/G/1); between them an approximation.

    Raises
    ------
    ValueError
        An argument is out of range, or jobs come faster than they can be run.

    Notes
    -----
    Source: Lee and Longton 1959 for the factor; Erlang 1917, by :func:`clusterlab.serving.batch_queue`.

    Examples
    --------
    1,024 GPUs at 90 %, in jobs of two hours on 1, 64 and 1,024 GPUs:

    >>> [fmt(expected_wait(0.9 * k / 7200, 7200, servers=k), "s") for k in (1024, 16, 1)]
    ['36.2 ms', '44.4 min', '18 h']
    """
    (lam, mean), (k,), (c,) = positive(rate=rate, duration=duration), whole(servers=servers), nonnegative(c=variation)
    waits = np.vectorize(lambda r, d, n: batch_queue(r, np.full(int(n), d), tokens=1).wait, otypes=[float])
    return ((1 + np.square(c)) / 2 * waits(lam, mean, k))[()]


@dataclass(frozen=True, repr=False)
class Drain(Explained):
    """What it takes to empty places for a large job: seconds until they are free, and place-seconds idle until then.

    ``places`` is how many there were; ``share`` is the part of all their time that stood idle.
    """

    time: float
    idle: float
    places: float

    @property
    def share(self):
        """Idle share of all places while they drain."""
        return self.idle / (self.places * self.time)

    def _rows(self):
        return [("", "value"), ("time", summary(self.time, "s")), ("idle", summary(self.share, "%"))]


def drain(places, duration, *, needed=None) -> Drain:
    r"""Time to empty part of a full cluster: jobs run on, and what they leave is kept for a large job.

    .. math:: T = d\,(H_n - H_{n-k}), \qquad \text{idle} = n\,T - k\,d, \qquad H_n = \sum_{i \le n} \frac{1}{i}

    Parameters
    ----------
    places : array_like
        Places that are taken, each by a job of its own, n: nodes, say.
    duration : array_like
        Mean seconds of these jobs, d: exponential, so that the rest of one is as long as a new one.
    needed : array_like, optional
        Places that the large job needs, k: by default all.

    Returns
    -------
    Drain
        Against it stands the cost of evicting all at once, k times the seconds of a restart.

    Raises
    ------
    ValueError
        An argument is out of range, or more places are needed than there are.

    Notes
    -----
    Derived: the k-th of n exponential times (Feller 1971, section I.6). Until T, n - k places work all the time; the
    others have done k d by then, and been idle for the rest.

    Examples
    --------
    128 nodes of jobs of six hours:

    >>> drain(128, 6 * 3600.0)
    Drain
           value
    time  32.6 h
    idle   81.6%
    >>> fmt(drain(128, 6 * 3600.0, needed=64).time, "h")
    '4.14 h'
    """
    k = places if needed is None else needed
    whole(places=places, needed=k)
    positive(duration=duration)
    n, k, d = nonnegative(places=places, needed=k, duration=duration)
    if np.any(np.greater(k, n)):
        raise ValueError(f"needed must be at most places, got {np.max(k):g} of {np.min(n):g}")
    harmonic = np.concatenate([[0.0], np.cumsum(1 / np.arange(1, int(np.max(n)) + 1))])
    time = d * (harmonic[np.int64(n)] - harmonic[np.int64(n - k)])
    return Drain(time, n * time - k * d, n)


def packing_bound(gpus, *, node_size) -> int:
    r"""Nodes that jobs need at least, if none is to be cut over nodes.

    .. math:: \max_{a \le s/2}\; |\{g > s - a\}| + |\{s/2 < g \le s - a\}| +
        \max\!\left(0, \left\lceil \frac{\sum_{a \le g \le s/2} g - \sum_{s/2 < g \le s-a} (s - g)}{s}
        \right\rceil\right)

    Parameters
    ----------
    gpus : array_like
        GPUs of each job, g, none more than a node's.
    node_size : int
        GPUs of a node, s.

    Returns
    -------
    int
        No packing needs fewer. First-fit decreasing needs at most 11/9 of the best, and 6/9 of a node more.

    Raises
    ------
    ValueError
        A job is larger than a node, or a number is no count.

    Notes
    -----
    Source: Martello and Toth 1990, bound L2; Dosa 2007 for first-fit decreasing.

    Examples
    --------
    Six jobs of five GPUs are 30 GPUs, which is four nodes of eight, but no two share one:

    >>> packing_bound([5] * 6, node_size=8)
    6
    """
    sizes, (s,) = np.atleast_1d(*whole(gpus=gpus)), whole(node_size=node_size)
    if np.max(sizes) > s:
        raise ValueError(f"gpus must be at most node_size, {s:g}; got {np.max(sizes):g}")
    most = 0
    for a in np.arange(0, s // 2 + 1):
        large = sizes[2 * sizes > s]
        small = sizes[(sizes >= a) & (2 * sizes <= s)]
        room = np.sum(s - large[large <= s - a])
        most = max(most, len(large) + max(0, int(np.ceil((np.sum(small) - room) / s))))
    return most


def makespan_bound(jobs: Jobs, gpus) -> float:
    r"""Seconds that any schedule of jobs takes at least, from the first arrival to the last end.

    .. math:: \max\!\left(\frac{\sum_i g_i d_i}{G},\; \max_i (a_i + d_i) - a_1\right)

    Parameters
    ----------
    jobs : Jobs
        Their arrivals a, GPUs g and durations d.
    gpus : float
        GPUs of the cluster, G.

    Returns
    -------
    float
        Where all are there from the start, starting whatever fits takes at most twice as long as the best schedule.

    Raises
    ------
    ValueError
        ``gpus`` is not positive.

    Notes
    -----
    Source: Garey and Graham 1975, theorem 1, for the factor of two.

    Examples
    --------
    >>> makespan_bound(Jobs(arrival=[0, 0, 0], gpus=[24, 32, 8], duration=[3600, 3600, 600]), 32)
    6450.0
    """
    (count,) = positive(gpus=gpus)
    return float(max(np.sum(jobs.work) / count, np.max(jobs.arrival + jobs.duration) - jobs.arrival[0]))


def internal_fragmentation(gpus, *, block=None):
    r"""Share of granted GPUs that jobs do not use, because sizes are rounded up.

    .. math:: 1 - \frac{\sum g}{\sum \hat g}, \qquad
        \hat g = 2^{\lceil \log_2 g \rceil} \quad\text{or}\quad b \left\lceil \frac{g}{b} \right\rceil

    Parameters
    ----------
    gpus : array_like
        GPUs that each job needs, g.
    block : int, optional
        GPUs of the smallest grant, b: a node, where jobs do not share one. By default powers of two are granted.

    Returns
    -------
    float

    Raises
    ------
    ValueError
        A number is no count.

    Notes
    -----
    Derived; Knuth 1997, section 2.5, for the buddy system. Sizes that spread evenly over an octave lose a quarter.

    Examples
    --------
    >>> fmt(internal_fragmentation(np.arange(513, 1025)), "%"), fmt(internal_fragmentation([1, 2, 8], block=8), "%")
    ('25%', '54.2%')
    """
    (need,) = whole(gpus=gpus)
    if block is None:
        granted = 2.0 ** np.ceil(np.log2(need))
    else:
        (b,) = whole(block=block)
        granted = b * np.ceil(np.divide(need, b))
    return float(1 - np.sum(need) / np.sum(granted))
