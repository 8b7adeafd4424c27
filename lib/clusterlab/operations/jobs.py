"""Jobs and clusters: what asks for GPUs at once, and the shape of what there is.

A job is a gang: it starts when all its GPUs are there, in the right places, and holds them until it ends. Durations are
those of the job; what failures add to them is :mod:`clusterlab.failures`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields

import numpy as np

from ..checks import at_least_one, nonnegative, positive, whole
from ..quantities import Amount, Count, Multiple, Number, PositiveSeconds, Seconds
from ..records import Explained, Rows, summary


@dataclass(frozen=True, repr=False)
class Cluster(Explained):
    """The shape of a cluster: nodes, GPUs of a node, and nodes of a rack.

    A rack is the nodes that share their leaf switches: one switch on top, or one for each rail.

    Examples
    --------
    >>> Cluster(128).gpus, Cluster(128, rack=32).racks
    (1024, 4)
    """

    nodes: Count
    node_size: Count = 8
    rack: Count = 4

    def __post_init__(self) -> None:
        """Refuse what is no count, and racks that are not full."""
        for name, count in vars(self).items():
            object.__setattr__(self, name, int(*whole(**{name: count})))
        if self.nodes % self.rack:
            raise ValueError(f"rack must divide nodes, got {self.rack} and {self.nodes}")

    @property
    def gpus(self) -> Count:
        """GPUs of all nodes."""
        return self.nodes * self.node_size

    @property
    def racks(self) -> Count:
        """Racks of all nodes."""
        return self.nodes // self.rack


@dataclass(frozen=True, repr=False)
class Jobs(Explained):
    """Jobs in the order in which they arrive: an array of each field, or one value for all."""

    arrival: Seconds
    gpus: Count
    #: Seconds that it takes on all its GPUs.
    duration: PositiveSeconds
    #: Higher goes first; by default all are equal.
    priority: Amount = None
    #: The fewest GPUs with which it starts where it cannot have all; it then takes longer in proportion. By default
    #: all of them: a rigid job. Where :func:`simulate_cluster` is told so, it also changes its size while it runs.
    least: Count = None
    #: Seconds that its user asks for, by which the scheduler plans; by default the duration, a perfect guess.
    limit: PositiveSeconds = None

    def __post_init__(self) -> None:
        """Bring all to one length, and refuse what is out of order or out of range."""
        (arrival,) = nonnegative(arrival=np.atleast_1d(self.arrival))
        if np.ndim(arrival) != 1 or np.any(np.diff(arrival) < 0):
            raise ValueError("arrival must be a row in order of time")
        gpus, _ = whole(gpus=self.gpus, arrivals=np.size(arrival))
        (duration,) = positive(duration=self.duration)
        least = gpus if self.least is None else whole(least=self.least)[0]
        limit = duration if self.limit is None else positive(limit=self.limit)[0]
        priority = 0.0 if self.priority is None else nonnegative(priority=self.priority)[0]
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
    def work(self) -> PositiveSeconds:
        """GPU-seconds of each job."""
        return self.gpus * self.duration

    def _rows(self) -> Rows:
        rows = [("", f"{len(self):,} jobs")]
        units = {"arrival": "s", "duration": "s", "limit": "s"}
        rows += [(f.name, summary(getattr(self, f.name), units.get(f.name, ""))) for f in fields(self)]
        return [(name, text.split(", ")[0]) for name, text in rows]


def draw_jobs(
    mix: Mapping[int, tuple[float, float]],
    *,
    gpus: Count,
    load: Number,
    jobs: Count = 1000,
    variation: Amount = 1.0,
    burst: Multiple = 1.0,
    seed: int = 0,
) -> Jobs:
    r"""Jobs that arrive at random, in a mix of sizes, and would fill a share of the cluster.

    .. math:: t_n = \frac{\sum_{i \le n} g_i d_i}{\rho\,G}

    Parameters
    ----------
    mix
        Size of a job in GPUs, g, to its share of all jobs and its mean duration: {8: (0.5, 3600), ...}.
    gpus
        GPUs of the cluster, G.
    load
        GPU-seconds that arrive for each that the cluster has until the last arrival at t_n, rho: of this very sample,
        as a few large jobs weigh much.
    jobs, seed
        How many, and the seed of the random numbers.
    variation
        Standard deviation of durations over their mean, for each size: log-normal, 0 for equal ones.
    burst
        Mean number of jobs that come together, all of one size, as those of a sweep do: geometric, 1 for single ones.

    Returns
    -------
    Jobs

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
    (count, machine), (rho,) = whole(jobs=jobs, gpus=gpus), positive(load=load)
    (spread,), (together,) = nonnegative(variation=variation), at_least_one(burst=burst)
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
