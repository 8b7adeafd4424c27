"""The state of a simulated cluster at one moment: what is free, who runs, who waits, and what will happen."""

from __future__ import annotations

import heapq
from bisect import insort
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ..checks import Numeric
from ..interconnect import crossing_slowdown
from .jobs import Cluster, Jobs
from .schedules import Attempt

END, ARRIVAL, LOOK = range(3)  # what happens at a time, in this order: a job ends, one comes, the queue is looked at


@dataclass(frozen=True)
class Rules:
    """How a cluster is run, as :func:`~clusterlab.operations.simulate_cluster` is told."""

    policy: str
    placement: str
    order: str
    restart: float = 0.0  # seconds that a job loses when it starts again after an eviction
    protected: float = np.inf  # seconds for which nobody is evicted; infinite: nobody ever is
    resize_time: float = 0.0  # seconds that a job loses when it changes its size
    settled: float = np.inf  # seconds for which nobody changes its size; infinite: nobody ever does
    sending: float = 0.0  # share of its time for which a job alone waits for what it sends
    oversubscription: float = 1.0  # of the racks' uplinks


class Running(NamedTuple):
    """A job that runs: since when, when it will end, and when it will have ended as it has asked.

    It has ``size`` GPUs. ``racks`` are those that it lies on, ``width`` the share of a node's ports that its ring has;
    nobody asks where racks have no uplinks to share. From ``since`` on it takes ``pace`` times as long as alone, after
    ``rest`` seconds of restart.
    """

    begin: float
    end: float
    latest: float
    size: int
    racks: np.ndarray
    width: float
    since: float
    rest: float
    pace: float = 1.0


_NOWHERE = np.zeros(0, dtype=int)


class State:
    """A cluster at one moment. Jobs are numbers, in order of arrival; an array of GPUs has a column for each node."""

    def __init__(self, jobs: Jobs, cluster: Cluster, rules: Rules) -> None:
        """Start with an empty cluster, before anybody comes."""
        self.cluster, self.rules = cluster, rules
        self.gpus, self.least, self.priority = (row.tolist() for row in (jobs.gpus, jobs.least, jobs.priority))
        self.left = jobs.work.tolist()  # GPU-seconds to do
        self.asked = (jobs.limit * jobs.gpus).tolist()  # GPU-seconds that the scheduler expects
        self.extra = [0.0] * len(jobs)  # seconds of restart before the next work
        first = jobs.limit * jobs.gpus if rules.order == "shortest" else jobs.arrival
        self.turn = list(zip((-jobs.priority).tolist(), first.tolist(), range(len(jobs)), strict=True))

        self.free = np.full(cluster.nodes, cluster.node_size, dtype=np.int32)
        self.idle = int(cluster.gpus)  # how many are free, on all nodes
        self.uplinks = bool(rules.sending) and rules.oversubscription > 1  # whether jobs share any
        self.held = np.zeros((len(jobs), cluster.nodes), dtype=np.int32)
        self.running: dict[int, Running] = {}
        self.ends: list[tuple[float, int]] = []  # the latest end and the job of each that runs, in this order
        self.waiting: list[tuple[float, float, int]] = []  # in order of whose turn it is; the last entry is the job
        self.wanted = 0  # GPUs for which they ask
        self.attempts: list[Attempt] = []
        self.events = [(float(time), ARRIVAL, job) for job, time in enumerate(jobs.arrival)]
        heapq.heapify(self.events)
        self._known: dict[int, bool] = {}  # which sizes fit into what is free now, as far as anybody has asked

    def advance(self) -> tuple[float, bool]:
        """Let everything of the next moment happen; say when that is, and whether anything did."""
        now, changed = self.events[0][0], False
        while self.events and self.events[0][0] == now:
            _, kind, job = heapq.heappop(self.events)
            if kind == END and (job not in self.running or self.running[job].end != now):
                continue  # it was evicted before
            if kind == END:
                self.leave(now, job)
            elif kind == ARRIVAL:
                self.wait(job)
            changed = True
        return now, changed

    def look_again(self, time: float, job: int) -> None:
        """Look at the queue at a time at which nothing else may happen."""
        heapq.heappush(self.events, (time, LOOK, job))

    # Who waits, and who may start.

    @property
    def head(self) -> int:
        """The job whose turn it is."""
        return self.waiting[0][-1]

    def wait(self, job: int) -> None:
        """Put a job into the queue."""
        insort(self.waiting, self.turn[job])
        self.wanted += self.gpus[job]

    def sizes(self, job: int) -> Iterator[int]:
        """GPUs with which a job may start: all of them, or halves of that down to its least."""
        size = self.gpus[job]
        while size >= self.least[job]:
            yield size
            size //= 2

    def size(self, job: int) -> int:
        """GPUs with which a job can start now, 0 if it cannot."""
        if self.least[job] > self.idle:
            return 0
        for size in self.sizes(job):
            if size not in self._known:
                self._known[size] = bool(self.fits(self.free, size))
            if self._known[size]:
                return size
        return 0

    def fits(self, free: np.ndarray, size: int) -> Numeric:
        """Whether so many GPUs fit into what is free; that may be many states at once."""
        return fits(free, size, self.cluster.node_size, self.rules.placement)

    def place(self, free: np.ndarray, size: int) -> np.ndarray:
        """GPUs of each node that a job of a size gets of what is free, given that it fits."""
        return place(free, size, self.cluster, self.rules.placement)

    # Who runs.

    def start(self, now: float, job: int, taken: np.ndarray) -> None:
        """Let a job that waits begin."""
        self.waiting.remove(self.turn[job])
        self.wanted -= self.gpus[job]
        self.begin(now, job, taken)

    def begin(self, now: float, job: int, taken: np.ndarray) -> None:
        """Give a job its GPUs."""
        size = int(taken.sum())
        self.free -= taken
        self.idle -= size
        self.held[job] = taken
        self._known.clear()
        end, latest = now + self.extra[job] + self.left[job] / size, self.promise(now, job, size)
        racks, width = self._ring(taken) if self.uplinks else (_NOWHERE, 0.0)
        self.running[job] = Running(now, end, latest, size, racks, width, now, self.extra[job])
        insort(self.ends, (latest, job))
        heapq.heappush(self.events, (end, END, job))
        if self.rules.settled < np.inf and self.least[job] < self.gpus[job]:
            self.look_again(now + self.rules.settled, job)  # whether it may grow, or has to shrink

    def promise(self, now: Numeric, job: int, size: int) -> Numeric:
        """When a job that starts now will have ended at the latest, as it has asked: beside the worst neighbours."""
        worst = 1 + self.rules.sending * (self.rules.oversubscription - 1)
        return now + self.extra[job] + self.asked[job] / size * worst

    def _ring(self, taken: np.ndarray) -> tuple[np.ndarray, float]:
        """The racks on which a ring over these GPUs lies, and the share of a node's ports that it has."""
        racks = np.unique(np.flatnonzero(taken) // self.cluster.rack)
        return racks, float(taken[taken > 0].min()) / self.cluster.node_size

    def repace(self, now: float) -> None:
        """Let the jobs that cross racks share the uplinks: who runs has changed.

        A ring sends one flow out of each rack that it lies on, as wide as its narrowest node. All are taken to send at
        once.
        """
        if not self.uplinks:
            return
        met = np.zeros(self.cluster.nodes // self.cluster.rack)
        for run in self.running.values():
            met[run.racks] += run.width * (len(run.racks) > 1)
        for job, run in list(self.running.items()):
            crossing = met[run.racks].max() / self.cluster.rack if len(run.racks) > 1 else 0.0
            slower = float(crossing_slowdown.unchecked(crossing, self.rules.oversubscription))
            pace = 1 + self.rules.sending * (slower - 1)
            if pace != run.pace:
                rest = self._work(now, job, run)
                end = now + rest + self.left[job] / run.size * pace
                self.running[job] = run._replace(end=end, since=now, rest=rest, pace=pace)
                heapq.heappush(self.events, (end, END, job))

    def _work(self, now: float, job: int, run: Running) -> float:
        """Count what a job has done by now, and return how long its restart still takes."""
        lost = min(run.rest, now - run.since)
        done = (now - run.since - lost) * run.size / run.pace
        self.left[job] -= done
        self.asked[job] -= done
        return run.rest - lost

    def leave(self, now: float, job: int, extra: float = 0.0, *, evicted: bool = False) -> None:
        """Take a job off its GPUs; if it starts again, it will lose so many seconds first."""
        taken, run = self.held[job], self.running[job]
        self._work(now, job, run)
        del self.running[job]
        self.ends.remove((run.latest, job))
        lost = min(self.extra[job], now - run.begin)
        (nodes,) = taken.nonzero()
        places = tuple(zip(nodes.tolist(), taken[nodes].tolist(), strict=True))
        self.attempts.append(Attempt(job, run.begin, now, lost, places, evicted))
        self.extra[job] = extra
        self.free += taken
        self.idle += run.size
        taken[:] = 0
        self._known.clear()

    def as_asked(self) -> tuple[list[float], np.ndarray]:
        """The latest ends of all who run, in order, and what is free from each of them on."""
        free = self.free + self.held[[job for _, job in self.ends]].cumsum(axis=0, dtype=np.int32)
        return [latest for latest, _ in self.ends], free


# --- Placement -------------------------------------------------------------------------------------------------------


def fits(free: np.ndarray, size: int, node_size: int, placement: str) -> Numeric:
    """Whether a job fits into the free GPUs of each node; ``free`` may be many states at once."""
    if placement == "anywhere":
        return free.sum(-1) >= size
    full, rest = divmod(size, node_size)
    enough = _count(free >= rest) > full if rest else True
    return enough & (_count(free == node_size) >= full) if full else enough


def _count(nodes: np.ndarray) -> Numeric:
    """How many nodes are so, in each state; NumPy's own count is several times faster where there is one."""
    return np.count_nonzero(nodes) if nodes.ndim == 1 else nodes.sum(-1)


def place(free: np.ndarray, size: int, cluster: Cluster, placement: str) -> np.ndarray:
    """GPUs that a job takes of each node, given that it fits."""
    g, taken = cluster.node_size, np.zeros(free.shape, free.dtype)
    if placement == "anywhere":  # what lies about first
        order = np.argsort(np.where(free > 0, free, g + 1), kind="stable")
        taken[order] = np.diff(np.minimum(np.cumsum(free[order]), size), prepend=0)
        return taken
    full, rest = divmod(size, g)
    empty = (free == g).reshape(-1, cluster.rack)
    empties = empty.sum(1)  # of each rack
    while full:
        # Packed: the rack that just holds it, or else the emptiest. Spread: a node of the emptiest rack.
        best, some = empties.argmax(), 1
        if placement == "pack":
            if empties[best] >= full:
                best = np.where(empties >= full, empties, cluster.nodes).argmin()
            some = min(full, empties[best])
        nodes = empty[best].nonzero()[0][:some]
        empty[best, nodes] = False
        empties[best] -= some
        taken[best * cluster.rack + nodes] = g
        full -= some
    if rest:
        left = free - taken
        # The node that just holds it, and where that is an empty one, in the rack with the fewest empty nodes.
        crowd = empties.repeat(cluster.rack)
        score = left * (cluster.nodes + 1) + crowd if placement == "pack" else -left
        taken[np.where(left >= rest, score, g * (cluster.nodes + 2)).argmin()] = rest
    return taken
