"""Checkpoints: how large they are, for how long they stop training, when they are safe, and how often to take one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..checks import positive, whole
from ..records import Explained, summary

# --- Size and time ---------------------------------------------------------------------------------------------------


def checkpoint_size(parameters, *, bytes_per_parameter=14):
    r"""Bytes of a training checkpoint.

    .. math:: S = b N

    Parameters
    ----------
    parameters : array_like
        Parameters of the model, N.
    bytes_per_parameter : array_like
        Bytes kept for each, b: 14 for mixed-precision Adam (BF16 weights 2, FP32 weights, momentum and variance 12).
        Gradients are not kept: they are computed anew.

    Returns
    -------
    array_like
        Bytes, without metadata.

    Raises
    ------
    ValueError
        An argument is not positive and finite.

    Notes
    -----
    Source: MLSysBook, Fleet Foundations, table 7.

    Examples
    --------
    >>> from clusterlab.units import fmt
    >>> fmt(checkpoint_size(175e9), "B"), fmt(checkpoint_size(175e9) / 100e9, "s")
    ('2.45 TB', '24.5 s')
    """
    n, size = positive(parameters=parameters, bytes_per_parameter=bytes_per_parameter)
    return size * n


@dataclass(frozen=True, repr=False)
class Checkpoint(Explained):
    """One checkpoint: its bytes, the seconds for which training stops, and those from then until it is safe."""

    size: float
    stall: float
    lag: float

    @property
    def time(self):
        """Seconds from its start until it is safe."""
        return self.stall + self.lag

    def _rows(self):
        rows = [("", "value"), ("size", summary(self.size, "B"))]
        return rows + [(name, summary(getattr(self, name), "s")) for name in ("stall", "lag", "time")]


def checkpoint(size, *, storage_bandwidth, writers=1, writer_bandwidth=None, local_bandwidth=None) -> Checkpoint:
    r"""How long a checkpoint stops training, and when it is safe.

    .. math:: T = \frac{S}{\min(B_\text{storage},\, w B_\text{writer})}, \qquad
        T_\text{local} = \frac{S}{w B_\text{local}}

    Parameters
    ----------
    size : array_like
        Bytes, S.
    storage_bandwidth : array_like
        Bytes/s that the remote storage takes from all writers together.
    writers : array_like
        Ranks that each write a shard, w: 1 for a full checkpoint gathered on one rank, all ranks for a sharded one.
    writer_bandwidth : array_like, optional
        Bytes/s of one writer to the storage; no limit by default.
    local_bandwidth : array_like, optional
        Bytes/s of one writer to its host's memory or disk. If given, the checkpoint has two levels: training stops for
        the local copy and continues while that drains to the storage (an asynchronous checkpoint).

    Returns
    -------
    Checkpoint
        Blocking: ``stall`` = T and no ``lag``. Two levels: ``stall`` = T_local and ``lag`` = T.

    Raises
    ------
    ValueError
        A size or bandwidth is not positive and finite, or ``writers`` is not a whole number of at least 1.

    Notes
    -----
    Derived: the slowest stage of a copy sets its rate. A failure is assumed to destroy the local copies, and the drain
    not to slow training.

    Examples
    --------
    BLOOM's 2.3 TiB from 384 ranks to storage of 63 GB/s: blocking, and through host memory at 10 GB/s for each rank.

    >>> from clusterlab.units import TiB, fmt
    >>> where = {"storage_bandwidth": 63e9, "writers": 384}
    >>> [fmt(checkpoint(2.3 * TiB, **where, **local).stall, "s") for local in ({}, {"local_bandwidth": 10e9})]
    ['40.1 s', '659 ms']
    """
    whole(writers=writers)
    given = {"writer_bandwidth": writer_bandwidth, "local_bandwidth": local_bandwidth}
    given = {name: value for name, value in given.items() if value is not None}
    checked = positive(size=size, storage_bandwidth=storage_bandwidth, writers=writers, **given)
    size, remote, writers, *checked = checked
    given = dict(zip(given, checked, strict=True))
    if writer_bandwidth is not None:
        remote = np.minimum(remote, writers * given["writer_bandwidth"])
    if local_bandwidth is None:
        return Checkpoint(size, size / remote, 0 * size / remote)
    return Checkpoint(size, size / (writers * given["local_bandwidth"]), size / remote)


# --- How often -------------------------------------------------------------------------------------------------------


def young_interval(write, mtbf):
    r"""Checkpoint interval by Young's first-order rule.

    .. math:: \tau = \sqrt{2 \delta M}

    Parameters
    ----------
    write, mtbf : array_like
        Seconds for which a checkpoint stops the job, delta, and mean time between failures of the job, M, seconds.

    Returns
    -------
    array_like
        Seconds of work between checkpoints, tau.

    Raises
    ------
    ValueError
        An argument is not positive and finite.

    Notes
    -----
    Source: Young 1974. Accurate while delta is far below M; beyond delta = M/2 it exceeds M.

    Examples
    --------
    >>> from clusterlab.units import fmt, hour
    >>> fmt(young_interval(60, 3 * hour), "min")
    '19 min'
    """
    write, mtbf = positive(write=write, mtbf=mtbf)
    return np.sqrt(2 * write * mtbf)


def daly_interval(write, mtbf):
    r"""Checkpoint interval by Daly's higher-order rule.

    .. math:: \tau = \sqrt{2 \delta M}\left[1 + \tfrac13\sqrt{\tfrac{\delta}{2M}} + \tfrac19\,\tfrac{\delta}{2M}\right]
        - \delta \quad (\delta < 2M), \qquad \tau = M \quad (\delta \ge 2M)

    Parameters
    ----------
    write, mtbf : array_like
        Seconds for which a checkpoint stops the job, delta, and mean time between failures of the job, M, seconds.

    Returns
    -------
    array_like
        Seconds of work between checkpoints, tau.

    Raises
    ------
    ValueError
        An argument is not positive and finite.

    Notes
    -----
    Source: Daly 2006, his higher-order estimate: a series for :func:`optimal_interval`.

    Examples
    --------
    >>> round(daly_interval(5 * 60, 24 * 3600) / 60)
    117
    """
    write, mtbf = positive(write=write, mtbf=mtbf)
    half = write / (2 * mtbf)
    series = np.sqrt(2 * write * mtbf) * (1 + np.sqrt(half) / 3 + half / 9) - write
    return np.where(half < 1, series, mtbf)[()]


def optimal_interval(write, mtbf):
    r"""Checkpoint interval that minimises the expected run time, exactly.

    .. math:: e^{(\tau + \delta)/M}\left(1 - \frac{\tau}{M}\right) = 1, \qquad
        \tau = M \left[1 + W_0\!\left(-e^{-1 - \delta/M}\right)\right]

    Parameters
    ----------
    write, mtbf : array_like
        Seconds for which a checkpoint stops the job, delta, and mean time between failures of the job, M, seconds.

    Returns
    -------
    array_like
        Seconds of work between checkpoints, tau, always below M. Detection, repair, restart and lag do not change it,
        because they only multiply the expected time (:func:`expected_run_time`). Beyond delta = 0.797 M it is shorter
        than the write: no interval is worth it there.

    Raises
    ------
    ValueError
        An argument is not positive and finite.

    Notes
    -----
    Source: the minimum of Daly's 2006 expected time; W_0 is Lambert's function. With y = (tau + delta)/M it solves
    y + exp(-y) - 1 = delta/M. The left side is convex, so Newton's method from above always converges, and nothing
    cancels near the branch point of W_0, where all practical cases are. The relative error is about 1e-16 / y.

    Examples
    --------
    >>> rules = young_interval, daly_interval, optimal_interval
    >>> [[round(float(rule(60, mtbf)), 1) for rule in rules] for mtbf in (3 * 3600, 60)]
    [[1138.4, 1098.8, 1098.8], [84.9, 49.6, 50.5]]
    """
    write, mtbf = positive(write=write, mtbf=mtbf)
    ratio = write / mtbf
    y = np.sqrt(2 * ratio) + ratio
    for _ in range(8):
        y = y - (y + np.expm1(-y) - ratio) / -np.expm1(-y)
    return mtbf * -np.expm1(-y)
