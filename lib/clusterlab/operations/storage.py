r"""Storage: what training reads, what a file system gives, and when GPUs starve between the two.

A step of the job needs its batch before it begins. A reader fetches batches one after another, some of them ahead, from
a parallel file system: drives in servers behind network ports. The same file system takes the checkpoints
(:func:`clusterlab.failures.checkpoint` has their time), so the two meet on it (:func:`fair_shares`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce

import numpy as np

from ..checks import Numeric, nonnegative, positive
from ..quantities import (
    Bytes,
    BytesPerSecond,
    Count,
    Multiple,
    Number,
    PositiveBytes,
    PositiveSeconds,
    Seconds,
    Share,
    Traffic,
    law,
)
from ..records import Explained, Rows, summary

# --- What training reads ---------------------------------------------------------------------------------------------


@law
def reading_rate(samples: Number, sample_bytes: PositiveBytes, step_time: PositiveSeconds) -> BytesPerSecond:
    r"""Bytes a second that a job reads while its GPUs never wait.

    .. math:: D = \frac{n\,s}{t}

    Parameters
    ----------
    samples
        Samples of a step on all GPUs together, n: tokens, images, clips.
    sample_bytes
        Size of one on storage, s: 4 bytes for a token, 100 kB for a photograph.
    step_time
        Time that a step computes, t.

    Returns
    -------
    BytesPerSecond

    Notes
    -----
    Source: MLPerf Storage, whose workloads are batch, bytes of a sample and computation time of an accelerator.

    Examples
    --------
    One H100 in MLPerf's words: 400 photographs in 0.224 s, or 7 medical scans in 0.323 s.

    >>> rates = reading_rate([400, 7], [114_660, 146_600_628], [0.224, 0.323])
    >>> [f"{rate / 1e9:.3g} GB/s" for rate in rates]
    ['0.205 GB/s', '3.18 GB/s']
    """
    return samples * sample_bytes / step_time


@law
def cache_hits(cache: Bytes, dataset: PositiveBytes, *, epochs: Count) -> Share:
    r"""Share of reads that a cache near the GPUs serves, over a whole training run.

    .. math:: h = \left(1 - \frac1E\right) \min\!\left(1, \frac{c}{d}\right)

    Parameters
    ----------
    cache, dataset
        Sizes of the cache, c, and of all samples, d.
    epochs
        How often the run reads each sample, E.

    Returns
    -------
    Share
        Below 1: the first epoch reads everything from storage, so one pass over the data has no hits at all.

    Notes
    -----
    Derived for a cache that keeps what it has and samples in a new order in every epoch. One that drops what was used
    least recently keeps less: nothing of a dataset that is larger than it and read in the same order each time.

    Examples
    --------
    >>> cache_hits(10e12, 40e12, epochs=[1, 2, 90]).round(3).tolist()
    [0.0, 0.125, 0.247]
    """
    return (1 - 1 / epochs) * np.minimum(cache / dataset, 1)


# --- What a file system gives ----------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class FileSystem(Explained):
    """A parallel file system, as :func:`file_system` sizes it.

    ``drive_read``, ``drive_write`` and ``network`` are those of all its drives and of all its servers' ports,
    ``clients`` that of all who read it (None: no limit), ``raw`` its bytes before ``copies`` of each are kept.
    """

    servers: Count
    drive_read: BytesPerSecond
    drive_write: BytesPerSecond
    network: BytesPerSecond
    clients: BytesPerSecond | None
    raw: PositiveBytes
    copies: Multiple

    @property
    def reads(self) -> dict[str, Numeric]:
        """Bytes/s of reads that each part could pass on."""
        given = {} if self.clients is None else {"clients": self.clients}
        return {"drives": self.drive_read, "network": self.network} | given

    @property
    def writes(self) -> dict[str, Numeric]:
        """Bytes/s of writes that each part could pass on; every copy goes through a server's port to its drives."""
        given = {} if self.clients is None else {"clients": self.clients}
        return {"drives": self.drive_write / self.copies, "network": self.network / self.copies} | given

    @property
    def read(self) -> BytesPerSecond:
        """Bytes/s of reads: the least of its parts."""
        return reduce(np.minimum, self.reads.values())

    @property
    def write(self) -> BytesPerSecond:
        """Bytes/s of writes: the least of its parts."""
        return reduce(np.minimum, self.writes.values())

    @property
    def capacity(self) -> PositiveBytes:
        """Bytes that it holds."""
        return self.raw / self.copies

    def _rows(self) -> Rows:
        rows = [("", "read", "write")]
        rows += [(name, summary(self.reads[name], "B/s"), summary(self.writes[name], "B/s")) for name in self.reads]
        rows.append(("all", summary(self.read, "B/s"), summary(self.write, "B/s")))
        return [*rows, ("holds", summary(self.capacity, "B"), "")]


@law
def file_system(
    servers: Count,
    *,
    drives: Count,
    drive_read: BytesPerSecond,
    drive_write: BytesPerSecond,
    drive_capacity: PositiveBytes,
    network: BytesPerSecond,
    copies: Multiple = 1,
    clients: BytesPerSecond | None = None,
) -> FileSystem:
    r"""Bandwidth and capacity of a parallel file system: the least of its drives, its servers' ports and its clients.

    .. math:: B_\text{read} = \min(n k b_r,\; n b_n,\; B_c), \qquad
        B_\text{write} = \min\!\left(\frac{n k b_w}{c},\; \frac{n b_n}{c},\; B_c\right)

    Parameters
    ----------
    servers, drives
        Servers, n, and drives of each, k.
    drive_read, drive_write, drive_capacity
        What one drive reads, b_r, writes, b_w, and holds.
    network
        One server's ports, one way, b_n.
    copies
        Bytes kept for each byte of data, c: 2 or 3 copies, or (k + m)/k of an erasure code, k data and m parity parts.
    clients : optional
        All clients' ports together, B_c; no limit by default.

    Returns
    -------
    FileSystem

    Notes
    -----
    Derived: the slowest part of a path sets its rate. Files are spread evenly over all drives, and are large; metadata,
    small files and hot spots are not modelled.

    Examples
    --------
    DeepSeek's 3FS: 180 servers, each with 16 drives (say 7 and 4 GB/s) and two ports of 200 Gbit/s.

    >>> drive = {"drive_read": 7e9, "drive_write": 4e9, "drive_capacity": 14 * 2**40}
    >>> file_system(180, drives=16, network=50e9, copies=3, **drive)
    FileSystem
                  read      write
    drives   20.2 TB/s  3.84 TB/s
    network     9 TB/s     3 TB/s
    all         9 TB/s     3 TB/s
    holds      14.8 PB
    """
    n, k = servers, servers * drives
    return FileSystem(n, k * drive_read, k * drive_write, n * network, clients, k * drive_capacity, copies)


@law
def servers_needed(one: FileSystem, *, read: Traffic = 0, write: Traffic = 0, capacity: Bytes = 0) -> Count:
    r"""Servers of a file system that is to read, write and hold so much: the need that asks for most decides.

    .. math:: n = \max_r \lceil \text{need}_r / \text{of one}_r \rceil

    Parameters
    ----------
    one
        A file system of any number of servers of the kind; its clients set no limit here.
    read, write, capacity
        What they are to read, to write and to hold.

    Returns
    -------
    Count

    Notes
    -----
    Derived: everything that a server brings adds up. Reads and writes are each met, but not both at once; for that, add
    what each takes of a server.

    Examples
    --------
    4 GB/s for each of 1,024 GPUs, and a petabyte:

    >>> drive = {"drive_read": 7e9, "drive_write": 4e9, "drive_capacity": 14 * 2**40}
    >>> one = file_system(1, drives=16, network=50e9, copies=3, **drive)
    >>> [int(servers_needed(one, **need)) for need in ({"read": 4096e9}, {"capacity": 1e15})]
    [82, 13]
    """
    alone = FileSystem(*(vars(one) | {"clients": None}).values())
    each = [amount / alone.servers for amount in (alone.read, alone.write, alone.capacity)]
    needs = zip((read, write, capacity), each, strict=True)
    return reduce(np.maximum, [np.ceil(need / amount * (1 - 1e-12)) for need, amount in needs])


def fair_shares(demands: Traffic, capacity: BytesPerSecond) -> Traffic:
    r"""What each flow gets of a shared link or file system: max-min fair shares.

    .. math:: x_i = \min(d_i, L), \qquad \sum_i \min(d_i, L) = C \text{ where the demands exceed } C

    Parameters
    ----------
    demands
        What each flow would take alone, d, along the last axis.
    capacity
        What they share, C.

    Returns
    -------
    Traffic
        In the shape of ``demands``: small demands are met, the others get L, equal shares of the rest.

    Raises
    ------
    ValueError
        ``demands`` has no axis.

    Notes
    -----
    Source: Bertsekas and Gallager 1992, Data Networks, section 6.5.2. With demands in rising order, the level L is the
    largest of (C - d_1 - ... - d_(i-1)) / (n - i + 1) over i. A file system without limits for each job shares like
    this by flows: who opens more of them gets more.

    Examples
    --------
    >>> fair_shares([10, 40, 90], 100).tolist()
    [10.0, 40.0, 50.0]
    """
    if np.ndim(demands) == 0:
        raise ValueError(f"demands must be a list of flows, got {demands!r}")
    (wanted,), (whole_link,) = nonnegative(demands=demands), positive(capacity=capacity)
    ordered = np.sort(wanted, axis=-1)
    before = np.cumsum(ordered, axis=-1) - ordered
    left = np.arange(ordered.shape[-1], 0, -1)
    level = np.max((np.expand_dims(whole_link, -1) - before) / left, axis=-1, keepdims=True)
    return np.minimum(wanted, level)


# --- Between the two -------------------------------------------------------------------------------------------------


@law
def time_to_starve(buffered: PositiveBytes, *, demand: BytesPerSecond, supply: Traffic) -> Seconds:
    r"""Seconds from the moment when storage slows until the GPUs wait: a buffer empties at what is missing.

    .. math:: T = \frac{b}{D - S}

    Parameters
    ----------
    buffered
        What is read ahead, b: a prefetch of k steps holds k times the bytes of a step.
    demand, supply
        What the job reads, D, and what it gets, S.

    Returns
    -------
    Seconds
        Infinite where the supply meets the demand. At the same rates turned round, it is the time to fill up.

    Notes
    -----
    Derived: what flows out minus what flows in. Without any supply this is a holdover, like that of a battery.

    Examples
    --------
    Eight steps of 20 GB ahead, of a job that reads 20 GB/s, while a checkpoint leaves it 15 GB/s, and none at all:

    >>> time_to_starve(8 * 20e9, demand=20e9, supply=[15e9, 0]).tolist()
    [32.0, 8.0]
    """
    missing = demand - supply
    enough = missing <= 0 * missing
    return (np.where(enough, np.inf, 1.0) * (buffered / np.where(enough, demand, missing)))[()]


@dataclass(frozen=True, repr=False)
class Feeding(Explained):
    """A run of steps whose batches are read ahead: when each read and each step begins and ends, in seconds."""

    read_start: Seconds
    read_end: Seconds
    step_start: Seconds
    step_end: Seconds

    @property
    def time(self) -> Seconds:
        """Seconds from the first read to the end of the last step."""
        return self.step_end[..., -1]

    @property
    def compute(self) -> Seconds:
        """Seconds in which the GPUs compute."""
        return np.sum(self.step_end - self.step_start, axis=-1)

    @property
    def starved(self) -> Share:
        """Share of the time in which the GPUs wait for data."""
        return 1 - self.compute / self.time

    def _rows(self) -> Rows:
        rows = [("time", summary(self.time, "s")), ("compute", summary(self.compute, "s"))]
        return [("", "value"), *rows, ("starved", summary(self.starved, "%"))]


def feed(reads: Seconds, compute: PositiveSeconds, *, prefetch: int) -> Feeding:
    r"""Steps that wait for their batch, while a reader fetches batches one after another, some of them ahead.

    .. math:: R_i = \max(R_{i-1},\, S_{i-k}) + r_i, \qquad S_i = \max(S_{i-1} + t,\, R_i)

    Parameters
    ----------
    reads
        Time that each batch takes to read, r, along the last axis.
    compute
        Time that a step computes, t.
    prefetch
        Batches that may be read ahead, k: a place is free as soon as its step begins. 0 reads a batch only when the
        step before it has ended, so nothing overlaps.

    Returns
    -------
    Feeding
        R is the end of each read, S the start of each step.

    Raises
    ------
    ValueError
        ``reads`` has no axis.

    Notes
    -----
    Derived: a single server with a finite buffer, event by event. If reads take t or less on average, enough prefetch
    hides all but the first; if they take longer, none does: the job runs at the storage's pace.

    Examples
    --------
    Every fourth batch takes 2 s to read instead of 0.5 s, and a step computes 1 s:

    >>> reads = [0.5, 0.5, 0.5, 2.0] * 25
    >>> [f"{feed(reads, 1.0, prefetch=k).starved:.1%}" for k in (0, 1, 2, 4)]
    ['46.7%', '20.3%', '0.5%', '0.5%']
    """
    if np.ndim(reads) == 0:
        raise ValueError(f"reads must be a list, a time for each batch, got {reads!r}")
    if isinstance(prefetch, bool) or not isinstance(prefetch, int | np.integer) or prefetch < 0:
        raise ValueError(f"prefetch must be a whole number of at least 0, got {prefetch!r}")
    (work,) = positive(compute=compute)
    (times,) = nonnegative(reads=reads)
    steps = times.shape[-1]
    lead = np.broadcast_shapes(times.shape[:-1], np.shape(work))
    rows: Numeric = np.moveaxis(np.broadcast_to(times, (*lead, steps)), -1, 0)
    later: Callable[..., Numeric] = np.maximum
    if not lead:  # plain numbers are many times faster than arrays of one
        rows, work, later = rows.tolist(), float(work), max
    begins: list[Numeric] = []
    ends: list[Numeric] = []
    starts: list[Numeric] = []
    last = ready = np.zeros(lead)[()]  # the reader, and the GPUs
    for i, read in enumerate(rows):
        if i > prefetch:
            last = later(last, starts[i - prefetch] if prefetch else ready)
        begins.append(last)
        last = last + read
        ends.append(last)
        starts.append(later(ready, last))
        ready = starts[-1] + work
    begin, end, start = (np.moveaxis(np.array(each), 0, -1).copy() for each in (begins, ends, starts))
    return Feeding(begin, end, start, start + np.asarray(work)[..., None])
