"""Checkpoints: how large they are, for how long they stop training, when they are safe, and how often to take one.

Each rule for the interval gives the work between two checkpoints, tau.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..quantities import (
    Bytes,
    BytesPerSecond,
    Count,
    Number,
    PositiveBytes,
    PositiveSeconds,
    PositiveShare,
    Seconds,
    law,
)
from ..records import Explained

# --- Checkpoints -----------------------------------------------------------------------------------------------------


@law
def checkpoint_size(parameters: Number, *, bytes_per_parameter: PositiveBytes = 14) -> Bytes:
    r"""Bytes of a training checkpoint.

    .. math:: S = b N

    Parameters
    ----------
    parameters
        Parameters of the model, N.
    bytes_per_parameter
        Bytes kept for each, b: 14 for mixed-precision Adam (BF16 weights 2, FP32 weights, momentum and variance 12).
        Gradients are not kept: they are computed anew.

    Returns
    -------
    Bytes
        Without metadata.

    Notes
    -----
    Source: MLSysBook, Fleet Foundations, table 7.

    Examples
    --------
    >>> from clusterlab.units import fmt
    >>> fmt(checkpoint_size(175e9), "B"), fmt(checkpoint_size(175e9) / 100e9, "s")
    ('2.45 TB', '24.5 s')
    """
    return bytes_per_parameter * parameters


@dataclass(frozen=True, repr=False)
class Checkpoint(Explained):
    """One checkpoint: its size, the time for which training stops, and that from then until it is safe."""

    size: Bytes
    stall: Seconds
    lag: Seconds

    @property
    def time(self) -> Seconds:
        """From its start until it is safe."""
        return self.stall + self.lag

    _shown: ClassVar = {"size": "B", "stall": "s", "lag": "s", "time": "s"}


@law
def checkpoint(
    size: PositiveBytes,
    *,
    storage_bandwidth: BytesPerSecond,
    writers: Count = 1,
    writer_bandwidth: BytesPerSecond | None = None,
    local_bandwidth: BytesPerSecond | None = None,
) -> Checkpoint:
    r"""How long a checkpoint stops training, and when it is safe.

    .. math:: T = \frac{S}{\min(B_\text{storage},\, w B_\text{writer})}, \qquad
        T_\text{local} = \frac{S}{w B_\text{local}}

    Parameters
    ----------
    size
        All shards together, S.
    storage_bandwidth
        What the remote storage takes from all writers together.
    writers
        Ranks that each write a shard, w: 1 for a full checkpoint gathered on one rank, all ranks for a sharded one.
    writer_bandwidth
        What one writer sends to the storage at most; no limit by default.
    local_bandwidth
        What one writer copies to its host's memory or disk. If given, the checkpoint has two levels: training stops
        for the local copy and continues while that drains to the storage (an asynchronous checkpoint).

    Returns
    -------
    Checkpoint
        Blocking: ``stall`` = T and no ``lag``. Two levels: ``stall`` = T_local and ``lag`` = T.

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
    remote = storage_bandwidth
    if writer_bandwidth is not None:
        remote = np.minimum(remote, writers * writer_bandwidth)
    if local_bandwidth is None:
        return Checkpoint(size, size / remote, 0 * size / remote)
    return Checkpoint(size, size / (writers * local_bandwidth), size / remote)


# --- How often to take one -------------------------------------------------------------------------------------------

# Kind: derived, from a datasheet known from memory (Solidigm D7-P5620, 6.4 TB): three full writes a day are 222 MB/s
# for years, a twentieth of the 4.3 GB/s that the drive writes. Drives for one write a day bear a fiftieth.
STORAGE_SHARE = 0.05


@law
def young_interval(write: PositiveSeconds, mtbf: PositiveSeconds) -> PositiveSeconds:
    r"""Checkpoint interval by Young's first-order rule.

    .. math:: \tau = \sqrt{2 \delta M}

    Parameters
    ----------
    write, mtbf
        Time for which a checkpoint stops the job, delta, and mean time between failures of the job, M.

    Notes
    -----
    Source: Young 1974. Accurate while delta is far below M; beyond delta = M/2 it exceeds M.

    Examples
    --------
    >>> from clusterlab.units import fmt, hour
    >>> fmt(young_interval(60, 3 * hour), "min")
    '19 min'
    """
    return np.sqrt(2 * write * mtbf)


@law
def daly_interval(write: PositiveSeconds, mtbf: PositiveSeconds) -> PositiveSeconds:
    r"""Checkpoint interval by Daly's higher-order rule.

    .. math:: \tau = \sqrt{2 \delta M}\left[1 + \tfrac13\sqrt{\tfrac{\delta}{2M}} + \tfrac19\,\tfrac{\delta}{2M}\right]
        - \delta \quad (\delta < 2M), \qquad \tau = M \quad (\delta \ge 2M)

    Parameters
    ----------
    write, mtbf
        Time for which a checkpoint stops the job, delta, and mean time between failures of the job, M.

    Notes
    -----
    Source: Daly 2006, his higher-order estimate: a series for :func:`optimal_interval`.

    Examples
    --------
    >>> round(daly_interval(5 * 60, 24 * 3600) / 60)
    117
    """
    half = write / (2 * mtbf)
    series = np.sqrt(2 * write * mtbf) * (1 + np.sqrt(half) / 3 + half / 9) - write
    return np.where(half < 1, series, mtbf)[()]


@law
def optimal_interval(write: PositiveSeconds, mtbf: PositiveSeconds) -> PositiveSeconds:
    r"""Checkpoint interval that minimises the expected run time, exactly.

    .. math:: e^{(\tau + \delta)/M}\left(1 - \frac{\tau}{M}\right) = 1, \qquad
        \tau = M \left[1 + W_0\!\left(-e^{-1 - \delta/M}\right)\right]

    Parameters
    ----------
    write, mtbf
        Time for which a checkpoint stops the job, delta, and mean time between failures of the job, M.

    Returns
    -------
    PositiveSeconds
        Work between checkpoints, tau, always below M. Detection, repair, restart and lag do not change it,
        because they only multiply the expected time (:func:`expected_run_time`). Beyond delta = 0.797 M it is shorter
        than the write: no interval is worth it there.

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
    ratio = write / mtbf
    y = np.sqrt(2 * ratio) + ratio
    for _ in range(8):
        y = y - (y + np.expm1(-y) - ratio) / -np.expm1(-y)
    return mtbf * -np.expm1(-y)


@law
def checkpoint_interval(
    write: PositiveSeconds, mtbf: PositiveSeconds, *, lag: Seconds = 0, share: PositiveShare = STORAGE_SHARE
) -> PositiveSeconds:
    r"""Checkpoint interval of a plan: the one that wins most time, and never shorter than storage bears.

    .. math:: \tau = \max\left(\tau_\text{optimal},\; \frac{\delta + b}{\varphi} - \delta\right)

    Parameters
    ----------
    write, mtbf
        As in :func:`optimal_interval`: delta and M.
    lag
        From the end of the stall until the checkpoint is safe, b. The storage writes for delta + b.
    share
        Of the time, phi, for which checkpoints may write at the full rate. By default what flash drives bear for years.

    Notes
    -----
    Derived. A drive is sold with so many writes of its capacity C a day, w. At its rate r it has had them after
    :math:`\varphi = w C / (r \cdot \text{day})` of the time, so for storage that is bought for its rate the amount
    of it cancels. Storage that is bought for its capacity bears more: Llama 3's 240 PB take 2 TB/s for years.

    A blocking write pays for each checkpoint itself, so its optimum is seldom below the floor. An asynchronous one
    stops nobody, and its optimum asks the storage for more than it bears.

    Examples
    --------
    405B on 16,384 GPUs and storage of 100 GB/s: blocking, and through host memory, with its optimum.

    >>> from clusterlab.units import fmt
    >>> fmt(checkpoint_interval(56.7, 10_986), "min"), fmt(checkpoint_interval(0.07, 10_986, lag=56.7), "min")
    ('18 min', '18.9 min')
    >>> fmt(optimal_interval(0.07, 10_986), "s")
    '39.2 s'
    """
    return np.maximum(optimal_interval.unchecked(write, mtbf), (write + lag) / share - write)
