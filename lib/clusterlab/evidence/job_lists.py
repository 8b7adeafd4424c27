"""Job lists as a cluster is simulated with them: the jobs that ran, in the order in which they were submitted."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from ..operations import Jobs
from ..quantities import Count, Seconds
from .readers.jobs import PRINT, JobList

_MOST = 200_000  # jobs that are simulated


class Queued(NamedTuple):
    """Jobs of a list that ran: ``jobs`` from 0 s on, what each ``waited`` there, and the most ``nodes`` at once.

    ``unread`` counts what was left out, by what it is; ``unlimited`` are jobs without a limit, which have the longest.
    """

    jobs: Jobs
    waited: Seconds
    nodes: Count
    unread: Mapping[str, int]
    unlimited: int


def queued(jobs: JobList, *, node_size: Count = 8) -> Queued:
    """Return the jobs of a list as :func:`~clusterlab.operations.simulate_cluster` takes them.

    Parameters
    ----------
    jobs
        Of :func:`parse_jobs`.
    node_size
        GPUs of a node, where no job of the list says GPUs: then each has whole nodes.

    Returns
    -------
    Queued
        Whose limit none is, has the longest limit; where no job has one, the longest run.

    Raises
    ------
    ValueError
        No job can be used, or more than 200,000.

    Examples
    --------
    >>> from clusterlab.evidence import parse_jobs
    >>> text = '''JobID|Submit|Start|End|Timelimit|AllocNodes
    ... 7|2025-03-01T08:00:00|2025-03-01T08:30:00|2025-03-01T10:30:00|04:00:00|2
    ... 8|2025-03-01T09:00:00|Unknown|Unknown|1-00:00:00|4'''
    >>> found = queued(parse_jobs(text, "jobs.txt"))
    >>> found.jobs.gpus.tolist(), found.waited.tolist(), found.nodes, dict(found.unread)
    ([16], [1800.0], 2, {'jobs without a start or an end': 1})
    """
    # Who accounts for GPUs names none of a job without; who doesn't has jobs of whole nodes.
    counted = np.isfinite(jobs.gpus)
    gpus = np.nan_to_num(jobs.gpus) if counted.any() else jobs.nodes * node_size
    if not np.isfinite(gpus).any():
        raise ValueError(f"the list says neither GPUs nor nodes (AllocNodes or NNodes); print it with {PRINT}")
    left = np.ones(len(gpus), bool)
    unread = dict(jobs.unread)
    for what, odd in {
        "jobs without a start or an end": ~np.isfinite(jobs.wait + jobs.duration),
        "jobs that still run": np.isin(jobs.state, ("RUNNING", "SUSPENDED", "RESIZING")),
        "jobs without GPUs": ~(gpus > 0),
        "jobs that ended as they started, or before": jobs.duration <= 0,
        "jobs that started before they were submitted": jobs.wait < 0,
    }.items():
        if count := int(np.sum(left & odd)):
            unread[what] = count
        left &= ~odd
    if not left.any():
        raise ValueError(f"no job that ran ({', '.join(f'{count:,} {what}' for what, count in unread.items())})")
    if left.sum() > _MOST:
        raise ValueError(f"{left.sum():,} jobs that ran, and no more than {_MOST:,} are simulated: split the file")
    start = jobs.submitted + jobs.wait
    order = np.lexsort((start, jobs.submitted))
    order = order[left[order]]
    submitted, start, gpus = jobs.submitted[order], start[order], gpus[order].astype(int)
    duration, limit = np.maximum(jobs.duration[order], 1.0), jobs.limit[order]
    limited = np.isfinite(limit)
    longest = limit[limited].max() if limited.any() else duration.max()
    asked = np.maximum(np.where(limited, limit, longest), duration)
    moves = np.argsort(np.concatenate([start + jobs.duration[order], start]), kind="stable")  # who ends leaves first
    at_once = np.cumsum(np.concatenate([-gpus, gpus])[moves]).max()
    return Queued(
        Jobs(submitted - submitted[0], gpus, duration, limit=asked),
        jobs.wait[order],
        math.ceil(at_once / node_size),
        unread,
        int(np.sum(~limited)),
    )
