"""Traffic: collectives as sets of flows, so that they can meet others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..checks import NONNEGATIVE, WHOLE, check
from ..quantities import Bytes, Count, Seconds
from ..records import Explained, Rows, summary
from .fabric import Fabric, Links
from .sharing import Routes, drain_time, joined, max_min_rates


@dataclass(frozen=True)
class Stage:
    """Rounds of a collective: in each, flows of ``size`` bytes go from ``source`` to ``target`` and all wait for all.

    Hosts are arrays of shape (rounds, flows), and the whole is done ``times`` times.
    """

    source: Links
    target: Links
    size: float
    times: int = 1


@dataclass(frozen=True, repr=False)
class Exchange(Explained):
    """Time of a collective on a fabric, in seconds, whose parts sum to ``time``."""

    rounds: int
    latency: Seconds
    transfer: Seconds

    @property
    def time(self) -> Seconds:
        """Seconds: latency and transfer added."""
        return self.latency + self.transfer

    def _rows(self) -> Rows:
        rows = [("", "value"), ("rounds", summary(self.rounds))]
        return rows + [(name, summary(getattr(self, name), "s")) for name in ("latency", "transfer", "time")]


def ring_traffic(size: Bytes, ranks: ArrayLike, *, passes: Count = 2) -> tuple[Stage, ...]:
    r"""Flows of a ring: each rank to the next, again and again.

    Parameters
    ----------
    size
        The whole buffer, S, in bytes.
    ranks
        Hosts in the order of the ring; with two axes, a ring for each row, all at the same time.
    passes
        2 for an all-reduce, 1 for an all-gather or a reduce-scatter.

    Notes
    -----
    Source: as :func:`clusterlab.interconnect.ring_all_reduce`.

    Examples
    --------
    >>> (stage,) = ring_traffic(8e9, range(8))
    >>> stage.target.tolist(), stage.size, stage.times
    ([[1, 2, 3, 4, 5, 6, 7, 0]], 1000000000.0, 14)
    """
    order = _ranks(ranks)
    n = order.shape[-1]
    if n == 1:
        return ()
    times = int(check(WHOLE, "passes", passes)) * (n - 1)
    source, target = order.reshape(1, -1), np.roll(order, -1, axis=-1).reshape(1, -1)
    return (Stage(source, target, check(NONNEGATIVE, "size", size) / n, times),)


def tree_traffic(size: Bytes, ranks: ArrayLike) -> tuple[Stage, ...]:
    r"""Flows of a binomial tree: up to the first rank, round by round, and down again.

    Notes
    -----
    Source: as :func:`clusterlab.interconnect.tree_all_reduce`.

    Examples
    --------
    >>> [stage.source.tolist() for stage in tree_traffic(1e3, range(4))]
    [[[1, 3]], [[2]], [[0]], [[0, 2]]]
    """
    order, whole = _ranks(ranks), check(NONNEGATIVE, "size", size)
    n, up, step = len(order), [], 1
    while step < n:
        low = np.arange(0, n - step, 2 * step)
        up.append(Stage(order[None, low + step], order[None, low], whole))
        step *= 2
    return (*up, *(Stage(stage.target, stage.source, stage.size) for stage in reversed(up)))


def hierarchical_traffic(size: Bytes, ranks: ArrayLike, *, node_size: Count) -> tuple[Stage, ...]:
    r"""Flows of a hierarchical all-reduce: rings inside each node, one on each rail across, rings inside again.

    Parameters
    ----------
    size
        The whole buffer, S, in bytes.
    ranks
        Hosts, node by node.
    node_size
        Ranks of a node, g, which divides their number.

    Notes
    -----
    Source: as :func:`clusterlab.interconnect.hierarchical_all_reduce`.

    Examples
    --------
    >>> [(stage.source.size, stage.times) for stage in hierarchical_traffic(1e9, range(32), node_size=8)]
    [(32, 7), (32, 6), (32, 7)]
    """
    nodes = _nodes(ranks, node_size)
    inside = ring_traffic(size, nodes, passes=1)
    return (*inside, *ring_traffic(check(NONNEGATIVE, "size", size) / nodes.shape[1], nodes.T), *inside)


def all_to_all_traffic(
    size: Bytes, ranks: ArrayLike, *, node_size: Count = 1, posted: bool = True
) -> tuple[Stage, ...]:
    r"""Flows of an all-to-all: every rank to every other, S/n each.

    Parameters
    ----------
    size
        What a rank holds, S, in bytes.
    ranks
        Hosts, node by node.
    node_size
        1: each piece goes straight to its rank. g: first to the rank of the own node that is on the target's rail, then
        across on the rails.
    posted
        Whether all messages of a stage are under way at once. False: rank r sends to r + 1, then to r + 2, and so on.

    Notes
    -----
    Source: as :func:`clusterlab.interconnect.pairwise_all_to_all`, ``hierarchical_all_to_all``, ``posted_all_to_all``.

    Examples
    --------
    >>> [stage.source.shape for one in (True, False) for stage in all_to_all_traffic(1e9, range(8), posted=one)]
    [(1, 56), (7, 8)]
    """
    nodes, whole = _nodes(ranks, node_size), check(NONNEGATIVE, "size", size)
    stages = []
    for groups in (nodes, nodes.T) if nodes.shape[1] > 1 else (nodes.T,):
        n = groups.shape[1]
        if n == 1:
            continue
        shifts = [np.roll(groups, -shift, axis=-1).ravel() for shift in range(1, n)]
        source, target = np.tile(groups.ravel(), (n - 1, 1)), np.array(shifts)
        shape = (1, -1) if posted else source.shape
        stages.append(Stage(source.reshape(shape), target.reshape(shape), whole / n))
    return tuple(stages)


def _ranks(ranks: ArrayLike) -> Links:
    order = np.asarray(ranks)
    if order.dtype.kind not in "iu" or not order.size or len(np.unique(order)) < order.size:
        raise ValueError(f"ranks must be different hosts, got {ranks!r}")
    return order.astype(np.int64)


def _nodes(ranks: ArrayLike, node_size: Count) -> NDArray[np.int64]:
    order, size = _ranks(ranks), int(check(WHOLE, "node_size", node_size))
    if order.size % size:
        raise ValueError(f"node_size must divide the {order.size} ranks, got {size}")
    return order.reshape(-1, size)


def exchange_time(
    fabric: Fabric,
    stages: Sequence[Stage],
    choose: Callable[[Fabric, Links, Links], Routes],
    *,
    latency: Seconds = 0,
    beside: Routes | None = None,
) -> Exchange:
    r"""Time of a collective whose flows meet on the links of a fabric.

    .. math:: T = \sum_\text{rounds} \left( \alpha + \max_l \frac{1}{c_l} \sum_f S_f \right)

    Every round waits for its slowest flow. Flows of a round have one size, so that is the fullest link's time: see
    :func:`drain_time`.

    Parameters
    ----------
    fabric
        What it runs on.
    stages
        From :func:`ring_traffic` and its like.
    choose
        Which way each flow takes: :func:`sprayed`, ``pinned``, or ``partial(hashed, seed=1)``. A round that is repeated
        takes the same ways each time.
    latency
        Seconds of each round; or one number for each stage.
    beside
        Flows of others that never end.

    Returns
    -------
    Exchange
        On a fabric where no two flows meet, the law of :mod:`clusterlab.interconnect` to rounding. With draws,
        ``transfer`` has one number for each.

    Raises
    ------
    ValueError
        What ``choose`` raises.

    Examples
    --------
    A ring of 32 hosts, in the order of their leaves and in a random one, with hashed ways:

    >>> from functools import partial
    >>> from clusterlab.contention import clos, hashed
    >>> fabric, spread = clos(8, 4, 8, bandwidth=50e9), np.random.default_rng(0).permutation(32)
    >>> [exchange_time(fabric, ring_traffic(8e9, order), hashed).transfer.round(2) for order in (range(32), spread)]
    [np.float64(0.31), np.float64(0.93)]
    """
    waits = np.broadcast_to(check(NONNEGATIVE, "latency", latency), (len(stages),))
    rounds, wait, transfer = 0, 0.0, np.zeros(())
    for stage, each in zip(stages, waits, strict=True):
        many = len(stage.source) * stage.times
        routes = choose(fabric, stage.source, stage.target)
        if beside is None:
            times = drain_time(fabric.capacity, routes, stage.size)
        else:
            rates = max_min_rates(fabric.capacity, joined(routes, beside))[..., : routes.shape[-1]]
            times = stage.size / rates.min(axis=-1)
        rounds, wait = rounds + many, wait + many * float(each)
        transfer = transfer + stage.times * times.sum(axis=-1)
    return Exchange(rounds, wait, transfer[()])
