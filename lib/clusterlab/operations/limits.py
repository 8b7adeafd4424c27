"""Limits: what schedules come to with many small jobs, and with one job that wants everything."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..quantities import Amount, Count, PerSecond, PositiveSeconds, Seconds, Share, law
from ..records import Explained, Rows, summary
from ..serving import batch_queue


@law
def expected_wait(rate: PerSecond, duration: PositiveSeconds, *, servers: Count, variation: Amount = 1.0) -> Seconds:
    r"""Mean wait of jobs that are all of one size: as many servers as fit into the cluster at once.

    .. math:: W = \frac{1 + c^2}{2}\; \frac{C(k, \lambda d)\; d}{k - \lambda d}

    Parameters
    ----------
    rate
        Jobs a second, lambda.
    duration
        Mean time of a job, d.
    servers
        Jobs that run at once, k: GPUs of the cluster over those of a job.
    variation
        Standard deviation of durations over their mean, c.

    Returns
    -------
    Seconds
        C is the chance to wait (Erlang's second formula). Exact for c = 1 (M/M/k), and for k = 1 (Pollaczek and
        Khinchine, M/G/1); between them an approximation.

    Raises
    ------
    ValueError
        Jobs come faster than they can be run.

    Notes
    -----
    Source: Lee and Longton 1959 for the factor; Erlang 1917, by :func:`clusterlab.serving.batch_queue`.

    Examples
    --------
    1,024 GPUs at 90 %, in jobs of two hours on 1, 64 and 1,024 GPUs:

    >>> from clusterlab.units import fmt
    >>> [fmt(expected_wait(0.9 * k / 7200, 7200, servers=k), "s") for k in (1024, 16, 1)]
    ['36.2 ms', '44.4 min', '18 h']
    """
    work = rate * duration
    if np.any(work >= servers):
        raise ValueError(f"rate must be below servers / duration, got {np.max(work / servers):.3g} of it")
    # In units of a job's duration: the queue of so many servers, each of which ends one job a unit.
    of_one = np.vectorize(lambda a, k: batch_queue(a, np.ones(int(k)), tokens=1).wait, otypes=[float])
    return (1 + variation**2) / 2 * duration * of_one(work, servers)[()]


@dataclass(frozen=True, repr=False)
class Drain(Explained):
    """What it takes to empty places for a large job: seconds until they are free, and place-seconds idle until then.

    ``places`` is how many there were; ``share`` is the part of all their time that stood idle.
    """

    time: Seconds
    idle: Seconds
    places: Count

    @property
    def share(self) -> Share:
        """Idle share of all places while they drain."""
        return self.idle / (self.places * self.time)

    def _rows(self) -> Rows:
        return [("", "value"), ("time", summary(self.time, "s")), ("idle", summary(self.share, "%"))]


@law
def drain(places: Count, duration: PositiveSeconds, *, needed: Count | None = None) -> Drain:
    r"""Time to empty part of a full cluster: jobs run on, and what they leave is kept for a large job.

    .. math:: T = d\,(H_n - H_{n-k}), \qquad \text{idle} = n\,T - k\,d, \qquad H_n = \sum_{i \le n} \frac{1}{i}

    Parameters
    ----------
    places
        Places that are taken, each by a job of its own, n: nodes, say.
    duration
        Mean time of these jobs, d: exponential, so that the rest of one is as long as a new one.
    needed : optional
        Places that the large job needs, k: by default all.

    Returns
    -------
    Drain
        Against it stands the cost of evicting all at once, k times the seconds of a restart.

    Raises
    ------
    ValueError
        More places are needed than there are.

    Notes
    -----
    Derived: the k-th of n exponential times (Feller 1971, section I.6). Until T, n - k places work all the time; the
    others have done k d by then, and been idle for the rest.

    Examples
    --------
    128 nodes of jobs of six hours:

    >>> from clusterlab.units import fmt
    >>> drain(128, 6 * 3600.0)
    Drain
           value
    time  32.6 h
    idle   81.6%
    >>> fmt(drain(128, 6 * 3600.0, needed=64).time, "h")
    '4.14 h'
    """
    k = places if needed is None else needed
    if np.any(np.greater(k, places)):
        raise ValueError(f"needed must be at most places, got {np.max(k):g} of {np.min(places):g}")
    harmonic = np.concatenate([[0.0], np.cumsum(1 / np.arange(1, int(np.max(places)) + 1))])
    time = duration * (harmonic[np.int64(places)] - harmonic[np.int64(places - k)])
    return Drain(time, places * time - k * duration, places)
