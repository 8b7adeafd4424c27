"""Jobs on one fabric: each computes for a while, sends for a while, and again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from ..checks import NONNEGATIVE, POSITIVE, WHOLE, check
from ..quantities import Bytes, Count, Multiple, Number, Seconds, law
from .fabric import NONE
from .sharing import Floats, Routes, max_min_rates


@law
def shared_period(compute: Seconds, exchange: Seconds, jobs: Count) -> Seconds:
    r"""Period of equal jobs that send at the same time over one link, and share it fairly.

    .. math:: T = C + k X

    Parameters
    ----------
    compute, exchange
        Seconds that a job computes, C, and that it would send alone, X.
    jobs
        Jobs, k.

    Returns
    -------
    Seconds
        They stay in step for ever: fair shares end together, and then all compute together.

    Notes
    -----
    Derived: k flows of equal size on one link take k times as long.

    Examples
    --------
    >>> shared_period(0.6, 0.4, [1, 2]).round(3)
    array([1. , 1.4])
    """
    return compute + jobs * exchange


@law
def interleaved_period(compute: Seconds, exchange: Seconds, jobs: Count) -> Seconds:
    r"""Period of equal jobs that take turns on one link: what the best shift in time leaves.

    .. math:: T = \max(C + X,\; k X)

    Parameters
    ----------
    compute, exchange
        Seconds that a job computes, C, and that it would send alone, X.
    jobs
        Jobs, k.

    Returns
    -------
    Seconds
        That of a job alone as long as the others' turns fit into its compute, (k - 1) X <= C.

    Notes
    -----
    Derived; source of the idea: Rajasekaran, Ghobadi and Akella 2024 (CASSINI).

    Examples
    --------
    >>> interleaved_period(0.6, 0.4, [2, 3]).round(3)
    array([1. , 1.2])
    """
    return np.maximum(compute + exchange, jobs * exchange)


@law
def most_from_shifting(jobs: Count) -> Multiple:
    r"""Most by which shifts in time can speed up equal jobs that share one link.

    .. math:: \max_{C, X} \frac{C + k X}{\max(C + X,\, k X)} = 2 - \frac{1}{k}, \qquad \text{at } C = (k - 1) X

    Parameters
    ----------
    jobs
        Jobs, k.

    Returns
    -------
    Multiple
        Below 2, however many jobs there are.

    Notes
    -----
    Derived from :func:`shared_period` and :func:`interleaved_period`: with little to send there is nothing to win, and
    with much the link is full whatever the turns are.

    Examples
    --------
    >>> most_from_shifting([2, 3]).round(2)
    array([1.5 , 1.67])
    """
    return 2 - 1 / jobs


@dataclass(frozen=True)
class PeriodicJob:
    """A job that computes for ``compute`` seconds, then sends ``size`` bytes on each flow of ``routes``, and again.

    Its flows keep step, as those of a collective do. It begins with compute, at ``start``. On shared links each of its
    flows counts ``weight`` times, after those of jobs with a higher ``priority``.
    """

    compute: Seconds
    size: Bytes
    routes: Routes
    start: Seconds = 0
    weight: Number = 1
    priority: int = 0

    def __post_init__(self) -> None:
        """Refuse what is no job."""
        for name in ("compute", "size", "start"):
            check(NONNEGATIVE, name, getattr(self, name))
        check(POSITIVE, "weight", self.weight)
        if self.compute + self.size <= 0:
            raise ValueError(f"compute and size must not both be 0, got {self.compute} and {self.size}")
        if self.routes.links.ndim != 2:
            raise ValueError(f"routes must have two axes, flows and links, got {self.routes.links.ndim}")

    @property
    def profile(self) -> Routes:
        """All of its flows as one: the links that they cross, and how many of them cross each."""
        used = self.routes.links != NONE
        share = np.ones(used.shape) if self.routes.share is None else self.routes.share
        links, at = np.unique(self.routes.links[used], return_inverse=True)
        return Routes(links[None], np.bincount(at, share[used])[None].astype(float))


def simulate_jobs(capacity: ArrayLike, jobs: Sequence[PeriodicJob], *, iterations: Count) -> Floats:
    r"""When each job ends each of its iterations, where all of them share the links.

    The jobs that send share by :func:`clusterlab.contention.max_min_rates`, flow by flow; rates change when a job
    begins to send or is done.

    Parameters
    ----------
    capacity
        Rate of each link, bytes/s.
    jobs
        The jobs.
    iterations
        How many iterations to follow of each job; one that is through goes on in the way of the others.

    Returns
    -------
    array
        Seconds, of shape (jobs, iterations).

    Raises
    ------
    ValueError
        As for :func:`max_min_rates`.

    Notes
    -----
    Derived: a fluid, event by event.

    Examples
    --------
    Two jobs of 0.6 s compute and 0.4 s on one link: in step, and one of them shifted by 0.4 s.

    >>> def job(start):
    ...     return PeriodicJob(0.6, 4, Routes(np.array([[0]])), start)
    >>> [np.diff(simulate_jobs([10], [job(0), job(shift)], iterations=3)).round(3).tolist() for shift in (0, 0.4)]
    [[[1.4, 1.4], [1.4, 1.4]], [[1.0, 1.0], [1.0, 1.0]]]
    """
    many = int(check(WHOLE, "iterations", iterations))
    profiles = [job.profile for job in jobs]
    wide = max(one.links.shape[-1] for one in profiles)
    links, share = np.full((len(jobs), wide), NONE), np.zeros((len(jobs), wide))
    for at, one in enumerate(profiles):
        links[at, : one.links.shape[-1]], share[at, : one.links.shape[-1]] = one.links[0], one.share[0]  # type: ignore[index]
    weight, order = np.array([job.weight for job in jobs], float), np.array([job.priority for job in jobs])
    known: dict[bytes, Floats] = {}

    def rates(sending: np.ndarray) -> Floats:
        key = sending.tobytes()
        if key not in known:
            known[key] = np.zeros(len(jobs))
            if sending.any():
                some = Routes(links[sending], share[sending])
                known[key][sending] = max_min_rates(capacity, some, weight=weight[sending], priority=order[sending])
        return known[key]

    compute, size = (np.array([getattr(job, name) for job in jobs], float) for name in ("compute", "size"))
    clock, left, sending = 0.0, size.copy(), np.zeros(len(jobs), bool)
    wakes = compute + [job.start for job in jobs]
    ends: list[list[float]] = [[] for _ in jobs]
    while min(map(len, ends)) < many:
        rate = rates(sending)
        with np.errstate(divide="ignore", invalid="ignore"):
            due = np.where(sending, np.where(rate > 0, clock + left / rate, np.inf), wakes)
        now = float(due.min())
        left = np.where(sending, left - rate * (now - clock), left)
        clock, over = now, due <= now * (1 + 1e-12)
        for at in np.flatnonzero(over).tolist():
            if sending[at] or size[at] == 0:
                ends[at].append(clock)
                sending[at], wakes[at], left[at] = False, clock + compute[at], size[at]
            else:
                sending[at] = True
    return np.array([one[:many] for one in ends])
