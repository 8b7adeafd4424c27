"""The simulation: jobs run through a cluster event by event, under a policy that says who may start when."""

from __future__ import annotations

from bisect import bisect_right
from typing import NamedTuple

import numpy as np

from ..checks import Numeric, at_least_one, choose, fraction, nonnegative, positive
from ..quantities import Multiple, PositiveSeconds, Seconds, Share
from .jobs import Cluster, Jobs
from .making_room import grow, make_room
from .schedules import Schedule
from .state import Rules, State


def simulate_cluster(
    jobs: Jobs,
    cluster: Cluster,
    *,
    policy: str = "backfill",
    placement: str = "pack",
    order: str = "arrival",
    preemption: tuple[Seconds, Seconds] | None = None,
    elastic: tuple[Seconds, PositiveSeconds] | None = None,
    fabric: tuple[Share, Multiple] | None = None,
) -> Schedule:
    r"""Run jobs through a cluster: who starts when, and on which GPUs.

    Parameters
    ----------
    jobs
        They wait in order of priority, and then as ``order`` says; the first of them is the head of the queue.
    cluster
        Its shape.
    policy
        ``"fcfs"``: while the head waits, all wait. ``"backfill"`` (EASY): the head has a reservation for the time at
        which it fits at the latest, and later jobs may start if they do not delay that. ``"conservative"``: each that
        waits has a reservation, planned in order whenever something changes, and a later job may start if it delays
        none. ``"greedy"``: whatever fits starts, and nothing is reserved.
    placement
        ``"pack"``: a job that fits a node gets one node, the fullest that holds it, and larger ones get full nodes, in
        the rack that just holds them. ``"spread"``: the same, but the emptiest node and rack. ``"anywhere"``: any GPUs.
    order
        ``"arrival"``, or ``"shortest"``: by the GPU-seconds that the limits ask for, the least first.
    preemption : (restart, protected), optional
        The head may evict jobs of lower priority that have run for ``protected`` seconds, those of the lowest priority
        and the latest start first. They keep their work, wait in their old place, and first spend ``restart`` seconds
        when they start again: loading, and half a checkpoint interval if they are not warned.
    elastic : (restart, settled), optional
        Running jobs may change their size, by factors of two between ``least`` and ``gpus``, ``settled`` seconds after
        they started or last did so, and then spend ``restart`` seconds. For a head that does not fit, jobs of no higher
        priority shrink, those of the lowest priority and the latest start first; when nobody waits, jobs grow.
    fabric : (sending, oversubscription), optional
        Jobs send for the share ``sending`` of the time that they take alone, around a ring of their nodes, and nothing
        hides it. Each rack's uplinks are thinner than its ports by ``oversubscription``, and the jobs that lie on
        several racks share them: how long a job takes hangs on where it runs, and beside whom. Limits are those of the
        job alone; the scheduler stretches them by the most that neighbours can cost.

    Returns
    -------
    Schedule

    Raises
    ------
    ValueError
        A job is larger than the cluster.

    Notes
    -----
    Source: Lifka 1995 (EASY backfilling), Mu'alem and Feitelson 2001 (conservative), Feitelson and Rudolph 1995 for the
    terms, Hu et al. 2021 for the shortest by GPU time first. Exact, event by event; a job's pace is in proportion to
    its GPUs. For the uplinks, :func:`clusterlab.interconnect.crossing_slowdown`, all jobs sending at the same time: an
    upper bound, since they may take turns (:func:`clusterlab.contention.interleaved_period`).

    Examples
    --------
    A small job waits behind a large one, or goes around it:

    >>> jobs = Jobs(arrival=[0, 1, 2], gpus=[24, 32, 8], duration=[3600, 3600, 600])
    >>> for policy in ("fcfs", "backfill"):
    ...     simulate_cluster(jobs, Cluster(4), policy=policy).wait
    array([   0., 3599., 7198.])
    array([   0., 3599.,    0.])
    """
    rules: dict[str, Numeric] = {
        "policy": _one_of(("fcfs", "backfill", "conservative", "greedy"), policy=policy),
        "placement": _one_of(("pack", "spread", "anywhere"), placement=placement),
        "order": _one_of(("arrival", "shortest"), order=order),
    }
    if preemption is not None:
        restart, protected = _pair("preemption (restart, protected)", preemption)
        rules["restart"], rules["protected"] = nonnegative(restart=restart, protected=protected)
    if elastic is not None:
        restart, settled = _pair("elastic (restart, settled)", elastic)
        (rules["resize_time"],), (rules["settled"],) = nonnegative(restart=restart), positive(settled=settled)
    if fabric is not None:
        sending, thin = _pair("fabric (sending, oversubscription)", fabric)
        (rules["sending"],), (rules["oversubscription"],) = (
            fraction(sending=sending),
            at_least_one(oversubscription=thin),
        )
    if np.any(jobs.gpus > cluster.gpus):
        raise ValueError(f"gpus must be at most {cluster.gpus:,}, those of the cluster; got {np.max(jobs.gpus):,}")
    state, log = State(jobs, cluster, Rules(**rules)), []
    while state.events:
        now, changed = state.advance()
        if changed:
            _schedule(state, now)
            state.repace(now)
            next_asks = state.least[state.head] if state.waiting else 0
            log.append((now, state.idle, state.wanted, next_asks))
    attempts = tuple(sorted(state.attempts, key=lambda attempt: (attempt.begin, attempt.job)))
    return Schedule(cluster, jobs, attempts, *np.array(log, dtype=float).T)


def _one_of(names: tuple[str, ...], **given: str) -> str:
    return choose({name: name for name in names}, **given)


def _pair(said: str, value: Numeric) -> tuple[Numeric, Numeric]:
    """The two values of an argument, of which is said what they are."""
    name, _, pair = said.partition(" ")
    if np.shape(value) != (2,):
        raise ValueError(f"{name} must be a pair {pair}, got {value!r}")
    return value[0], value[1]


# --- Policies --------------------------------------------------------------------------------------------------------


def _schedule(state: State, now: float) -> None:
    """Start whoever can start, as the policy says; then, if nobody waits, let jobs grow."""
    if state.rules.policy == "conservative":
        while state.waiting and not state.size(state.head) and make_room(state, now, state.head):
            pass
        _plan(state, now)
    else:
        _in_turn(state, now)
        if state.rules.policy != "fcfs":
            _around(state, now)
    if state.rules.settled < np.inf and not state.waiting:
        grow(state, now)


def _in_turn(state: State, now: float) -> None:
    """Start the head of the queue, and whoever is then the head, until one has to wait."""
    while state.waiting:
        head = state.head
        if size := state.size(head):
            state.start(now, head, state.place(state.free, size))
        elif not make_room(state, now, head):
            return


def _around(state: State, now: float) -> None:
    """Start whoever fits of those behind the head; with backfill, if that does not delay the head."""
    reservation = None
    for *_, job in state.waiting[1:]:
        if not state.idle:
            return
        if not (size := state.size(job)):
            continue
        if state.rules.policy == "backfill":
            reservation = reservation or _Reservation(state)
            if not reservation.allows(state, now, job, size):
                continue
        state.start(now, job, state.place(state.free, size))


class _Reservation:
    """The head's: when it fits at the latest, and what is free then, less what later jobs will still hold."""

    def __init__(self, state: State) -> None:
        self.least = state.least[state.head]
        times, free = state.as_asked()
        first = int(state.fits(free, self.least).argmax())
        self.time = times[first]
        self.free = free[bisect_right(times, self.time) - 1]  # when all that end then have ended
        self.refused: set[int] = set()  # sizes that would delay the head, of what is free now

    def allows(self, state: State, now: float, job: int, size: int) -> bool:
        """Whether a job may start: it will have ended by then, or leaves the head enough; it is then counted in."""
        if state.promise(now, job, size) > self.time:
            if size in self.refused:
                return False
            left = self.free - state.place(state.free, size)
            if not state.fits(left, self.least):
                self.refused.add(size)
                return False
            self.free = left
        self.refused.clear()
        return True


def _plan(state: State, now: float) -> None:
    """Start whoever can start without delaying anybody before it: each that waits has a reservation of its own."""
    plan = _Plan(state, now)
    for *_, job in list(state.waiting):
        if not state.idle:
            return
        for size in state.sizes(job):
            slot = plan.slot(state, job, size)
            if slot.start == now:
                break
        # What was tried last is the least, and the job waits for that.
        taken = state.place(slot.free, size)
        if slot.start == now:
            state.start(now, job, taken)
        plan.reserve(slot, taken)


class _Slot(NamedTuple):
    """From when and until when a job has room, and what is free all that time."""

    start: float
    stop: float
    free: np.ndarray


class _Plan:
    """What will be free from each of some times on, as all who run have asked and all who wait have reserved."""

    def __init__(self, state: State, now: float) -> None:
        ends, free = state.as_asked()
        times = np.array([now, *ends])
        last = np.append(np.diff(times) > 0, True)  # after all that end at one time
        self.times, self.free = times[last], np.vstack([state.free, free])[last]

    def slot(self, state: State, job: int, size: int) -> _Slot:
        """The first slot of a job: it has room for as long as it asks, its restart included."""
        starts = np.flatnonzero(state.fits(self.free, size))
        stops: np.ndarray = state.promise(self.times[starts], job, size)
        ends = np.searchsorted(self.times, stops)
        rooms = (self.free[start:end].min(0) for start, end in zip(starts, ends, strict=True))
        at, room = next((at, room) for at, room in enumerate(rooms) if state.fits(room, size))
        return _Slot(self.times[starts[at]], stops[at], room)

    def reserve(self, slot: _Slot, taken: np.ndarray) -> None:
        """Take a job's GPUs off what will be free in its slot."""
        for time in slot[:2]:
            at = np.searchsorted(self.times, time)
            if at == len(self.times) or self.times[at] != time:
                self.times = np.insert(self.times, at, time)
                self.free = np.insert(self.free, at, self.free[at - 1], axis=0)
        self.free[(self.times >= slot.start) & (self.times < slot.stop)] -= taken
