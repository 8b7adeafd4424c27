r"""Collectives: what it costs when ranks exchange, gather or reduce a buffer together.

The model is Hockney's (1994), in synchronous rounds. In a round every rank may send one message and receive one (one
port, full duplex), and nothing else slows it: no contention, and the arithmetic of a reduction is free. A round costs

.. math:: \alpha + \text{largest message of the round} / B

so a collective costs rounds times alpha plus the bytes on its path over B. One rank alone costs nothing; a message of
zero bytes still costs its latency.

The arguments of all collectives are the same. ``size`` is the whole buffer, S, as nccl-tests counts it: what each rank
holds (all-reduce, all-to-all) or the full, gathered buffer (all-gather, reduce-scatter). ``n`` is the number of ranks;
S need not divide by it, for pieces are taken as equal. ``bandwidth``, B, is that of a rank's link in one direction (450
GB/s for NVLink 4, 50 GB/s for InfiniBand NDR), and ``latency``, alpha, the seconds that each round waits. Where nodes
count, ``node_size``, g, is the number of ranks of a node (a scale-up domain), which divides n; ``node_bandwidth`` and
``node_latency``, B' and alpha', are those of a rank inside its node, and ``bandwidth`` and ``latency`` those of its
port to other nodes.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from functools import wraps
from types import MappingProxyType
from typing import ClassVar, ParamSpec, TypeVar

import numpy as np

from ..checks import WHOLE, Numeric, check, larger, nonnegative, pick, positive, smaller, total
from ..quantities import Amount, Bytes, BytesPerSecond, Count, Law, PositiveSeconds, Seconds, Share, law
from ..records import Explained, Rows, least, summary
from ..roofline import nodes_touched

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True, repr=False)
class Collective(Explained):
    """The cost of one collective. Fields broadcast; ``latency`` and ``transfer``, in seconds, sum to ``time``.

    ``path_bytes`` is the largest message of each round, summed over the ``rounds``; ``sent_bytes`` the most that any
    rank sends. ``bus_factor`` makes a bus bandwidth of an algorithm bandwidth (see :func:`bus_factor`).
    """

    size: Bytes
    rounds: Amount
    path_bytes: Bytes
    sent_bytes: Bytes
    latency: Seconds
    transfer: Seconds
    bus_factor: Amount

    @property
    def time(self) -> Seconds:
        """Seconds: latency and transfer added."""
        return self.latency + self.transfer

    @property
    def algorithm_bandwidth(self) -> BytesPerSecond:
        """Bytes/s of the buffer: size over time (algbw of nccl-tests)."""
        positive(time=self.time)  # one rank alone takes no time and has no bandwidth
        return self.size / self.time

    @property
    def bus_bandwidth(self) -> BytesPerSecond:
        """Bytes/s that each link would show in an optimal algorithm without switches that compute (busbw)."""
        return self.bus_factor * self.algorithm_bandwidth

    _shown: ClassVar = {"rounds": "#", "path_bytes": "B", "sent_bytes": "B"}
    _shown |= dict.fromkeys(("latency", "transfer", "time"), "s")


def _cost(
    operation: str,
    size: Bytes,
    n: Count,
    bandwidth: BytesPerSecond,
    latency: Seconds,
    *,
    rounds: Amount,
    path: Bytes,
    sent: Bytes | None = None,
) -> Collective:
    """A collective over equal links. Unless told otherwise, the rank that sends most sends as much as the path has."""
    sent, factor = path if sent is None else sent, bus_factor.unchecked(operation, n)
    return Collective(size, rounds, path, sent, rounds * latency, path / bandwidth, factor)


def _in_turn(operation: str, size: Bytes, n: Count, *stages: Collective) -> Collective:
    """One collective made of others, one after the other, in which the same ranks send most."""
    summed = ("rounds", "path_bytes", "sent_bytes", "latency", "transfer")
    columns = {part: total(getattr(stage, part) for stage in stages) for part in summed}
    return Collective(size=size, bus_factor=bus_factor.unchecked(operation, n), **columns)


def _fit_together(**collectives: Collective) -> None:
    """Refuse what is no collective, and collectives whose shapes do not fit together."""
    for name, one in collectives.items():
        if not isinstance(one, Collective):
            raise ValueError(f"{name} must be a Collective, got {one!r}")
    nonnegative(**{name: one.time for name, one in collectives.items()})


def _of_whole_nodes(one: Law[P, R]) -> Law[P, R]:
    """A law that refuses nodes which do not divide its ranks. Its core takes a mean of nodes of different sizes."""
    at = list(inspect.signature(one).parameters).index("n")

    @wraps(one)
    def checked(*args: Numeric, **given: Numeric) -> R:
        result = one(*args, **given)  # which checks the numbers first
        n, node_size = given["n"] if "n" in given else args[at], given["node_size"]
        if np.any(np.mod(n, node_size) != 0):
            raise ValueError(f"node_size must divide n, got {node_size} and {n}")
        return result

    return checked  # type: ignore[return-value]


# --- One message ------------------------------------------------------------------------------------------------------


@law
def point_to_point(size: Bytes, *, bandwidth: BytesPerSecond, latency: Seconds) -> Collective:
    r"""Cost of one message.

    .. math:: T = \alpha + S/B

    Notes
    -----
    Source: Hockney 1994. Half of the bandwidth is reached at S = alpha B, Hockney's n-half.

    Examples
    --------
    >>> point_to_point(250e3, bandwidth=50e9, latency=5e-6)
    Collective
                 value
    rounds           1
    path bytes  250 kB
    sent bytes  250 kB
    latency       5 µs
    transfer      5 µs
    time         10 µs
    """
    return _cost("send-receive", size, 1.0, bandwidth, latency, rounds=1.0, path=size)


# --- The ring: each rank talks to its neighbours alone ----------------------------------------------------------------


@law
def ring_reduce_scatter(size: Bytes, n: Count, *, bandwidth: BytesPerSecond, latency: Seconds) -> Collective:
    r"""Reduce-scatter around a ring: in each round every rank adds to one piece and passes it on.

    .. math:: T = (n - 1)\left(\alpha + \frac{S}{nB}\right)

    Returns
    -------
    Collective
        Exact in the model. Each rank ends with S/n.

    Notes
    -----
    Source: Patarasuk and Yuan 2009, the first half of their all-reduce.

    Examples
    --------
    >>> float(ring_reduce_scatter(8e9, 8, bandwidth=450e9, latency=0).sent_bytes)
    7000000000.0
    """
    moved = size / n * (n - 1)
    return _cost("reduce-scatter", size, n, bandwidth, latency, rounds=n - 1, path=moved)


@law
def ring_all_gather(size: Bytes, n: Count, *, bandwidth: BytesPerSecond, latency: Seconds) -> Collective:
    r"""All-gather around a ring: in each round every rank passes on the piece that came last.

    .. math:: T = (n - 1)\left(\alpha + \frac{S}{nB}\right)

    Returns
    -------
    Collective
        Exact in the model. Each rank begins with S/n.

    Notes
    -----
    Source: Thakur, Rabenseifner and Gropp 2005, all-gather of long messages.

    Examples
    --------
    >>> round(float(ring_all_gather(8e9, 8, bandwidth=450e9, latency=0).bus_bandwidth))
    450000000000
    """
    moved = size / n * (n - 1)
    return _cost("all-gather", size, n, bandwidth, latency, rounds=n - 1, path=moved)


@law
def ring_all_reduce(size: Bytes, n: Count, *, bandwidth: BytesPerSecond, latency: Seconds) -> Collective:
    r"""All-reduce around a ring: a reduce-scatter, then an all-gather. No algorithm moves fewer bytes.

    .. math:: T = 2 (n - 1)\left(\alpha + \frac{S}{nB}\right)

    Returns
    -------
    Collective
        Exact in the model. The transfer tends to 2 S/B, the latency grows with the ring.

    Notes
    -----
    Source: Patarasuk and Yuan 2009, who also prove that 2 (n - 1) S / n bytes are the least.

    A ring on every rail is this law too. Of nodes with g ranks and g ports, g rings run at once, each with S/g. Every
    rank sends one of them out of its node and the other g - 1 on inside, so B is the port's rate, or 1/(g - 1) of the
    rank's rate inside where that is less, and alpha the larger latency.

    Examples
    --------
    Gradients of 3.5e9 parameters, 4 bytes each, over 256 GPUs on InfiniBand NDR:

    >>> ring_all_reduce(14e9, 256, bandwidth=50e9, latency=5e-6)
    Collective
                  value
    rounds          510
    path bytes  27.9 GB
    sent bytes  27.9 GB
    latency     2.55 ms
    transfer     558 ms
    time         560 ms
    """
    moved = 2 * (size / n) * (n - 1)
    return _cost("all-reduce", size, n, bandwidth, latency, rounds=2 * (n - 1), path=moved)


_BUS_FACTORS = {"all-reduce": lambda n: 2 * (n - 1) / n}
_BUS_FACTORS |= dict.fromkeys(("all-gather", "reduce-scatter", "all-to-all"), lambda n: (n - 1) / n)
_BUS_FACTORS |= dict.fromkeys(("broadcast", "send-receive"), lambda n: n / n)


@law
def bus_factor(operation: str, n: Count) -> Amount:
    r"""Bus bandwidth over algorithm bandwidth: what nccl-tests multiplies by so that ranks drop out of the number.

    .. math:: \text{busbw} = f(n) \cdot \text{algbw}, \qquad \text{algbw} = S/T

    Parameters
    ----------
    operation
        ``"all-reduce"``: f = 2 (n - 1) / n. ``"all-gather"``, ``"reduce-scatter"``, ``"all-to-all"``: (n - 1) / n.
        ``"broadcast"``, ``"send-receive"``: 1.

    Returns
    -------
    Amount
        The factor f.

    Notes
    -----
    Source: nccl-tests, doc/PERFORMANCE.md, "Bus bandwidth"; its src/alltoall.cu and src/sendrecv.cu.

    Examples
    --------
    An all-reduce at an algorithm bandwidth of 257 GB/s on 8 ranks fills links of 450 GB/s:

    >>> round(float(257e9 * bus_factor("all-reduce", 8) / 1e9))
    450
    """
    if operation not in tuple(_BUS_FACTORS):
        raise ValueError(f"operation must be one of {', '.join(_BUS_FACTORS)}, got {operation!r}")
    return _BUS_FACTORS[operation](n)


# --- Trees and partners: fewer rounds ---------------------------------------------------------------------------------


@law
def tree_all_reduce(size: Bytes, n: Count, *, bandwidth: BytesPerSecond, latency: Seconds) -> Collective:
    r"""All-reduce up a binomial tree and down again: a reduce to one rank, then its broadcast.

    .. math:: T = 2 \lceil\log_2 n\rceil \, (\alpha + S/B)

    Returns
    -------
    Collective
        Exact in the model.

    Notes
    -----
    Source: Thakur, Rabenseifner and Gropp 2005, the binomial reduce and broadcast of short messages.

    Examples
    --------
    >>> tree = tree_all_reduce(1e3, 256, bandwidth=50e9, latency=5e-6)
    >>> round(float(ring_all_reduce(1e3, 256, bandwidth=50e9, latency=5e-6).time / tree.time), 1)
    31.7
    """
    levels = _log2_ceil(n)
    path, sent = 2 * levels * size, levels * size
    return _cost("all-reduce", size, n, bandwidth, latency, rounds=2 * levels, path=path, sent=sent)


@law
def recursive_doubling_all_reduce(size: Bytes, n: Count, *, bandwidth: BytesPerSecond, latency: Seconds) -> Collective:
    r"""All-reduce in which partners swap whole buffers: the fewest rounds, for small sizes.

    With p the largest power of two within n, and f = 1 where n > p, else 0,

    .. math:: T = (\log_2 p + 2 f)\,(\alpha + S/B)

    Returns
    -------
    Collective
        Exact in the model. Ranks beyond p fold into a partner first and get the result back last.

    Notes
    -----
    Source: Thakur, Rabenseifner and Gropp 2005, all-reduce of short messages.

    Examples
    --------
    >>> recursive_doubling_all_reduce(1e3, [64, 65], bandwidth=50e9, latency=5e-6).rounds
    array([6., 8.])
    """
    _, log, fold = _folded(n)
    rounds = log + 2 * fold
    path, sent = rounds * size, (log + fold) * size
    return _cost("all-reduce", size, n, bandwidth, latency, rounds=rounds, path=path, sent=sent)


@law
def halving_doubling_all_reduce(size: Bytes, n: Count, *, bandwidth: BytesPerSecond, latency: Seconds) -> Collective:
    r"""All-reduce by Rabenseifner: a recursive halving reduce-scatter, then a recursive doubling all-gather.

    With p the largest power of two within n, and f = 1 where n > p, else 0,

    .. math:: T = 2\,(\log_2 p + f)\,\alpha + 2\left(\frac{p-1}{p} + f\right)\frac{S}{B}

    Returns
    -------
    Collective
        Exact in the model. Ranks beyond p fold into a partner first and get the result back last, as MPI libraries do.

    Notes
    -----
    Source: Thakur, Rabenseifner and Gropp 2005, all-reduce of long messages; Rabenseifner 2004.

    Examples
    --------
    >>> cost = halving_doubling_all_reduce(14e9, [256, 257], bandwidth=50e9, latency=5e-6)
    >>> cost.rounds, (cost.path_bytes / 14e9).round(2)
    (array([16., 18.]), array([1.99, 3.99]))
    """
    p, log, fold = _folded(n)
    moved = 2 * (size / p) * (p - 1)
    path, sent = moved + 2 * fold * size, moved + fold * size
    rounds = 2 * (log + fold)
    return _cost("all-reduce", size, n, bandwidth, latency, rounds=rounds, path=path, sent=sent)


@law
def double_tree_all_reduce(
    size: Bytes, n: Count, *, bandwidth: BytesPerSecond, latency: Seconds, chunks: Count
) -> Collective:
    r"""All-reduce over two binary trees, each with half of the buffer in k chunks: a guaranteed upper bound.

    .. math:: T \le 4\,(\lceil\log_2 n\rceil + k - 1)\left(\alpha + \frac{S}{2kB}\right), \qquad n > 1

    No rank has more than two children in both trees together, nor more than two parents, so the links can be coloured
    with two colours that take turns. A chunk then takes at most two rounds for each hop, of which there are at most
    log2 n (rounded up), and the next follows two rounds later. That is the broadcast; the reduction is its mirror image
    and goes first.

    Parameters
    ----------
    chunks
        Chunks of each half, k; :func:`double_tree_chunks` gives the best.

    Returns
    -------
    Collective
        ``rounds``, ``path_bytes`` and so ``time`` are upper bounds. The schedule itself takes at most 4 rounds fewer,
        however many chunks there are (simulated for 3 to 64 ranks; two ranks need half). ``sent_bytes`` is exact. With
        many chunks the transfer tends to 2 S/B.

    Notes
    -----
    Source: Sanders, Speck and Traeff 2009, with the trees of NCCL, which need no rank outside of them.

    Examples
    --------
    >>> double_tree_all_reduce(14e9, 256, bandwidth=50e9, latency=5e-6, chunks=400)
    Collective
                  value
    rounds        1,628
    path bytes  28.5 GB
    sent bytes    28 GB
    latency     8.14 ms
    transfer     570 ms
    time         578 ms
    """
    rounds = 4 * (_log2_ceil(n) + chunks - 1) * (n > 1)
    path, sent = rounds * (size / (2 * chunks)), np.minimum(n / 2, 2) * (n > 1) * size
    return _cost("all-reduce", size, n, bandwidth, latency, rounds=rounds, path=path, sent=sent)


@law
def double_tree_chunks(size: Bytes, n: Count, *, bandwidth: BytesPerSecond, latency: PositiveSeconds) -> Count:
    r"""Number of chunks with which :func:`double_tree_all_reduce` is fastest: fewer fill slowly, more pay latency.

    .. math:: k = \sqrt{(\lceil\log_2 n\rceil - 1)\,\frac{S}{2 \alpha B}}

    Returns
    -------
    Count
        The better of the two whole numbers around k, at least 1. Without latency ever more chunks would be best.

    Notes
    -----
    Derived: the time is convex in k and this is where its slope is zero (compare Sanders, Speck and Traeff 2009).

    Examples
    --------
    >>> float(double_tree_chunks(14e9, 256, bandwidth=50e9, latency=5e-6))
    443.0
    """
    square = np.maximum(_log2_ceil(n) - 1, 0) * (size / (2 * latency * bandwidth))
    below = np.maximum(np.floor(np.sqrt(square)), 1)
    return np.where(below + square / below <= below + 1 + square / (below + 1), below, below + 1)[()]


def _log2_ceil(n: Count) -> Amount:
    return np.ceil(np.log2(n))


def _folded(n: Count) -> tuple[Count, Amount, Amount]:
    """Largest power of two within n ranks, its logarithm, and 1 where ranks are left over."""
    log = np.floor(np.log2(n))
    return 2.0**log, log, 1.0 * (n > 2.0**log)


# --- Where they cross -------------------------------------------------------------------------------------------------


def crossover_size(first: Collective, second: Collective) -> Bytes:
    r"""Size at which two collectives take the same time: the one with less latency wins below, the other above.

    .. math:: S = \frac{L_2 - L_1}{t_1 - t_2}

    Parameters
    ----------
    first, second
        Two laws for the same ranks and links at any positive size, each of them linear in its size: L is the latency
        and t the transfer for each byte. (Double trees are linear at a fixed number of chunks.)

    Returns
    -------
    Bytes
        NaN where one of the two is faster at every size.

    Raises
    ------
    ValueError
        The size of one is zero.

    Notes
    -----
    Derived: the crossing of two straight lines.

    Examples
    --------
    >>> link = {"bandwidth": 50e9, "latency": 5e-6}
    >>> small, large = recursive_doubling_all_reduce(1, 64, **link), halving_doubling_all_reduce(1, 64, **link)
    >>> round(float(crossover_size(small, large)))
    372093
    """
    _fit_together(first=first, second=second)
    positive(**{"first size": first.size, "second size": second.size})
    slope, other = first.transfer / first.size, second.transfer / second.size
    slower = np.where(np.abs(slope - other) > 1e-12 * other, slope - other, 0)  # rounding does not make lines cross
    with np.errstate(divide="ignore", invalid="ignore"):
        size = np.divide(second.latency - first.latency, slower)
        return np.where(np.isfinite(size) & (size > 0), size, np.nan)[()]


@dataclass(frozen=True, repr=False)
class AlgorithmTimes(Explained):
    """The time of each algorithm, by name, in seconds. Fields broadcast."""

    times: Mapping[str, float]

    @property
    def time(self) -> Seconds:
        """Seconds of the fastest."""
        return least(self.times)[0]

    @property
    def best(self) -> Numeric:
        """Name of the fastest (the first of equals)."""
        return least(self.times)[1]

    def _rows(self) -> Rows:
        return [("algorithm", "time"), *((name, summary(time, "s")) for name, time in self.times.items())]


@law
def best_all_reduce(size: Bytes, n: Count, *, bandwidth: BytesPerSecond, latency: PositiveSeconds) -> AlgorithmTimes:
    r"""Time of every flat all-reduce for a size and a number of ranks, and which is best.

    .. math:: T = \min_a T_a(S, n)

    Returns
    -------
    AlgorithmTimes
        The double tree with its best number of chunks, at its upper bound; the others exact. The model has no
        contention: halving-doubling never loses to the ring on a power of two, while in a network its distant partners
        share links and the neighbours of a ring do not.

    Notes
    -----
    Source: Thakur, Rabenseifner and Gropp 2005 choose between the two recursive algorithms in this way.

    Examples
    --------
    >>> best_all_reduce([1e3, 1e6, 1e9, 1e11], 1000, bandwidth=50e9, latency=5e-6).best.tolist()
    ['recursive doubling', 'halving-doubling', 'double tree', 'ring']
    """
    link = {"bandwidth": bandwidth, "latency": latency}
    chunks = double_tree_chunks.unchecked(size, n, **link)
    costs = {
        "ring": ring_all_reduce.unchecked(size, n, **link),
        "tree": tree_all_reduce.unchecked(size, n, **link),
        "double tree": double_tree_all_reduce.unchecked(size, n, **link, chunks=chunks),
        "recursive doubling": recursive_doubling_all_reduce.unchecked(size, n, **link),
        "halving-doubling": halving_doubling_all_reduce.unchecked(size, n, **link),
    }
    return AlgorithmTimes(MappingProxyType({name: cost.time for name, cost in costs.items()}))


# --- Two levels: inside the node and across ---------------------------------------------------------------------------


@_of_whole_nodes
@law
def hierarchical_all_reduce(
    size: Bytes,
    n: Count,
    *,
    node_size: Count,
    bandwidth: BytesPerSecond,
    latency: Seconds,
    node_bandwidth: BytesPerSecond,
    node_latency: Seconds,
) -> Collective:
    r"""All-reduce in three stages: reduce-scatter in the node, all-reduce across on every rail, all-gather in the node.

    With g ranks in a node, m = n/g nodes, and B', alpha' inside the node,

    .. math:: T = 2(g-1)\left(\alpha' + \frac{S}{gB'}\right) + 2(m-1)\left(\alpha + \frac{S}{nB}\right)

    Returns
    -------
    Collective
        Exact in the model, each stage a ring. The bytes of the flat ring, but only one in g crosses nodes, on the rail
        that rank i of a node shares with the ranks i of the others.

    Notes
    -----
    Source: Thakur, Rabenseifner and Gropp 2005 for the stages; derived for the sum.

    Examples
    --------
    The flat ring takes 560 ms for this:

    >>> hierarchical_all_reduce(
    ...     14e9, 256, node_size=8, bandwidth=50e9, latency=5e-6, node_bandwidth=450e9, node_latency=1e-6
    ... )
    Collective
                  value
    rounds           76
    path bytes  27.9 GB
    sent bytes  27.9 GB
    latency      324 µs
    transfer     122 ms
    time         123 ms
    """
    node = {"bandwidth": node_bandwidth, "latency": node_latency}
    scatter = ring_reduce_scatter.unchecked(size, node_size, **node)
    across = ring_all_reduce.unchecked(size / node_size, n / node_size, bandwidth=bandwidth, latency=latency)
    return _in_turn("all-reduce", size, n, scatter, across, ring_all_gather.unchecked(size, node_size, **node))


@_of_whole_nodes
@law
def multi_node_ring(
    size: Bytes,
    n: Count,
    *,
    node_size: Count,
    bandwidth: BytesPerSecond,
    latency: Seconds,
    node_bandwidth: BytesPerSecond,
    node_latency: Seconds,
    messages: Count = 1,
) -> Collective:
    r"""All-gather or reduce-scatter around one ring through all ranks of all nodes.

    With g ranks in a node, m = n/g nodes, and B', alpha' inside the node, the ring enters and leaves a node by the
    ports of all its ranks together, as libraries run g such rings at once:

    .. math:: T = k\,\big((n - m)\,\alpha' + (m - 1)\,\alpha\big) + \frac{n-1}{n}\,\frac{S}{\min(B', g B)}

    Parameters
    ----------
    messages
        Collectives k that the buffer is cut into, one after the other; each pays the latency.

    Returns
    -------
    Collective
        An all-reduce is two of them. Within one node it is :func:`ring_all_gather` at B'; with one rank a node, B
        alone counts. Of the chain of latencies NCCL counts one hop into each node but the first.

    Notes
    -----
    Source: Patarasuk and Yuan 2009 for the ring; NCCL 2.30.7, src/graph/tuning.cc, for the hops that cross nodes.

    Examples
    --------
    Weights of 16 GB gathered over eight GPUs of one node, and over 64 of eight nodes:

    >>> links = {"bandwidth": 50e9, "latency": 14e-6, "node_bandwidth": 450e9, "node_latency": 3.3e-6}
    >>> [round(float(multi_node_ring(16e9, n, node_size=8, **links).time * 1e3), 1) for n in (8, 64)]
    [31.1, 39.7]
    """
    nodes, ports = n / node_size, bandwidth * node_size
    rate = pick(nodes > 1, pick(node_size > 1, smaller(node_bandwidth, ports), ports), node_bandwidth)
    hops = n - 1
    share = hops / n  # of the buffer, which each rank sends: the bus factor too
    moved = size * share
    return Collective(
        size=size,
        rounds=messages * hops,
        path_bytes=moved,
        sent_bytes=moved,
        latency=messages * ((n - nodes) * node_latency + (nodes - 1) * latency),
        transfer=moved / rate,
        bus_factor=share,
    )


# --- Switches that add, and links to every rank -----------------------------------------------------------------------


@law
def in_network_all_reduce(
    size: Bytes, n: Count, *, levels: Count, bandwidth: BytesPerSecond, latency: Seconds
) -> Collective:
    r"""All-reduce by the switches of a tree (SHARP): each rank sends its buffer up once and receives the sum once.

    .. math:: T = 2\,\ell\,\alpha + S/B, \qquad n > 1

    Parameters
    ----------
    levels
        Levels of switches between a rank and the root of the tree, l: 1 within one switch, 2 with leaf and spine.
    latency
        Seconds for each hop, alpha.

    Returns
    -------
    Collective
        A lower bound: the limit of a stream of ever smaller chunks, in which the way down overlaps the way up. Here
        ``rounds`` are hops, 2 for each level. The bus bandwidth may exceed B, up to 2 (n - 1) / n times.

    Notes
    -----
    Source: Graham et al. 2016 (SHARP) for the algorithm; the time is derived: k chunks would take 2 l + k - 1 rounds.

    Examples
    --------
    >>> cost = in_network_all_reduce(14e9, 256, levels=2, bandwidth=50e9, latency=5e-6)
    >>> round(float(ring_all_reduce(14e9, 256, bandwidth=50e9, latency=5e-6).time / cost.time), 2)
    2.0
    """
    rounds, moved = 2 * levels * (n > 1), size * (n > 1)
    return _cost("all-reduce", size, n, bandwidth, latency, rounds=rounds, path=moved)


@law
def multicast_all_reduce(size: Bytes, n: Count, *, bandwidth: BytesPerSecond, latency: Seconds) -> Collective:
    r"""All-reduce by one switch that adds and copies (NVLink SHARP): each rank fetches one sum and stores it to all.

    .. math:: T = 2\,\alpha + \frac{n + 1}{n}\,\frac{S}{B}, \qquad n > 1

    For the sums every rank delivers its whole buffer, S, piece by piece, and receives the sum of its own piece, S/n.
    For the copies it sends S/n and receives S. So each direction of a link carries S + S/n, in two steps of alpha.

    Returns
    -------
    Collective
        A lower bound: the limit of ever smaller chunks, in which copies overlap sums. The bus bandwidth may exceed B,
        2 (n - 1) / (n + 1) times: 1.56 times for eight ranks, against 1.75 for :func:`in_network_all_reduce`.

    Notes
    -----
    Source: Klenk et al. 2020 for reductions and multicast in the switch; the bytes are counted here.

    Examples
    --------
    >>> cost = multicast_all_reduce(14e9, 8, bandwidth=450e9, latency=1e-6)
    >>> round(float(ring_all_reduce(14e9, 8, bandwidth=450e9, latency=1e-6).time / cost.time), 2)
    1.56
    """
    moved = size * (1 + 1 / n) * (n > 1)
    return _cost("all-reduce", size, n, bandwidth, latency, rounds=2.0 * (n > 1), path=moved)


@law
def mesh_all_gather(size: Bytes, n: Count, *, bandwidth: BytesPerSecond, latency: Seconds) -> Collective:
    r"""All-gather over a full mesh: every rank has a link of its own to each other rank, and uses all of them at once.

    .. math:: T = \alpha + \frac{S}{nB}, \qquad n > 1

    Here B is the rate of one link, of which a rank has n - 1.

    Returns
    -------
    Collective
        Exact in the model. The bus bandwidth tends to (n - 1) B: fewer ranks than the mesh has use fewer links. A
        reduce-scatter and an all-to-all send the same pieces to the same ranks; an all-reduce is two of them.

    Notes
    -----
    Derived. Source: AMD 2025, RCCL bandwidth and xGMI performance on MI300X, for the mesh, of which fewer GPUs use a
    part.

    Examples
    --------
    Eight MI300X have seven links each, two have one:

    >>> link = {"bandwidth": 64e9, "latency": 0}
    >>> [round(float(mesh_all_gather(8e9, n, **link).bus_bandwidth / 1e9)) for n in (2, 4, 8)]
    [64, 192, 448]
    """
    piece, several = size / n, 1.0 * (n > 1)
    path, sent = piece * several, piece * (n - 1)
    return _cost("all-gather", size, n, bandwidth, latency, rounds=several, path=path, sent=sent)


# --- All-to-all -------------------------------------------------------------------------------------------------------


@law
def pairwise_all_to_all(size: Bytes, n: Count, *, bandwidth: BytesPerSecond, latency: Seconds) -> Collective:
    r"""All-to-all in which rank r sends to r + 1, then to r + 2, and so on: each piece goes straight to its rank.

    .. math:: T = (n - 1)\left(\alpha + \frac{S}{nB}\right)

    Returns
    -------
    Collective
        Exact in the model. Some pair crosses nodes in every round, so B is the slowest link between any two ranks.

    Notes
    -----
    Source: Thakur, Rabenseifner and Gropp 2005, all-to-all of long messages (pairwise exchange).

    Examples
    --------
    >>> float(pairwise_all_to_all(64e6, 64, bandwidth=50e9, latency=5e-6).sent_bytes)
    63000000.0
    """
    moved = size / n * (n - 1)
    return _cost("all-to-all", size, n, bandwidth, latency, rounds=n - 1, path=moved)


@_of_whole_nodes
@law
def hierarchical_all_to_all(
    size: Bytes,
    n: Count,
    *,
    node_size: Count,
    bandwidth: BytesPerSecond,
    latency: Seconds,
    node_bandwidth: BytesPerSecond,
    node_latency: Seconds,
) -> Collective:
    r"""All-to-all in two stages: inside the node to the rank on the right rail, then across on every rail.

    With g ranks in a node, m = n/g nodes, and B', alpha' inside the node,

    .. math:: T = (g-1)\left(\alpha' + \frac{S}{gB'}\right) + (m-1)\left(\alpha + \frac{S}{mB}\right)

    Returns
    -------
    Collective
        Exact in the model. Each rank sends (n - g) S / n bytes across, as in the flat exchange, but in m - 1 messages
        instead of n - g. For that most bytes are sent twice.

    Notes
    -----
    Derived: two pairwise exchanges of the whole buffer (NCCL's PXN takes the same two steps).

    Examples
    --------
    >>> link = {"bandwidth": 50e9, "latency": 5e-6}
    >>> cost = hierarchical_all_to_all(64e3, 64, node_size=8, **link, node_bandwidth=450e9, node_latency=1e-6)
    >>> round(float(pairwise_all_to_all(64e3, 64, **link).time / cost.time), 1)
    7.3
    """
    inside = pairwise_all_to_all.unchecked(size, node_size, bandwidth=node_bandwidth, latency=node_latency)
    across = pairwise_all_to_all.unchecked(size, n / node_size, bandwidth=bandwidth, latency=latency)
    return _in_turn("all-to-all", size, n, inside, across)


@_of_whole_nodes
@law
def posted_all_to_all(
    size: Bytes,
    n: Count,
    *,
    node_size: Count,
    bandwidth: BytesPerSecond,
    latency: Seconds,
    node_bandwidth: BytesPerSecond,
    node_latency: Seconds,
) -> Collective:
    r"""All-to-all in two stages, inside the node and across, with all messages of a stage posted at once.

    With g ranks in a node, m = n/g nodes, and B', alpha' inside the node,

    .. math:: T = \left(\alpha' + \frac{g-1}{g}\,\frac{S}{B'}\right)_{g > 1}
        + \left(\alpha + \frac{m-1}{m}\,\frac{S}{B}\right)_{m > 1}

    Returns
    -------
    Collective
        The bytes of :func:`hierarchical_all_to_all`, with one round for a stage. Exact where a port sends the next
        message while the last is under way, and every message is posted in the order of the pairwise exchange. With
        ``node_size`` equal to ``n`` all stays inside; with 1 all goes straight across.

    Notes
    -----
    Source: MPICH, src/mpi/coll/alltoall.c, its algorithm for medium sizes (all sends and receives posted, one wait),
    here in two stages. The time is derived: the messages of a port follow one another, and their latencies overlap.

    Examples
    --------
    >>> links = {"bandwidth": 50e9, "latency": 5e-6, "node_bandwidth": 450e9, "node_latency": 1e-6}
    >>> cost = posted_all_to_all(64e3, 64, node_size=8, **links)
    >>> round(float(hierarchical_all_to_all(64e3, 64, node_size=8, **links).time / cost.time), 1)
    6.0
    """

    def stage(ranks: Count, bandwidth: BytesPerSecond, latency: Seconds) -> Collective:
        rounds, moved = 1.0 * (ranks > 1), size / ranks * (ranks - 1)
        return _cost("all-to-all", size, ranks, bandwidth, latency, rounds=rounds, path=moved)

    inside, across = stage(node_size, node_bandwidth, node_latency), stage(n / node_size, bandwidth, latency)
    return _in_turn("all-to-all", size, n, inside, across)


@_of_whole_nodes
@law
def expert_all_to_all(
    size: Bytes,
    n: Count,
    *,
    experts_per_token: Count,
    node_size: Count,
    bandwidth: BytesPerSecond,
    latency: Seconds,
    node_bandwidth: BytesPerSecond,
    node_latency: Seconds,
    node_limit: Count | None = None,
) -> Collective:
    r"""All-to-all that sends tokens to their experts, or back: a token crosses to a node once and is copied there.

    With k experts a token on at most M nodes, g ranks in a node, m = n/g nodes, and B', alpha' inside the node,

    .. math:: T = \alpha'_{g > 1} + \alpha_{m > 1} + \max\left(\frac{g-1}{g}\,\frac{S}{B'},\;
        \frac{m - 1}{m}\,\frac{v}{k}\,\frac{S}{B}\right), \qquad v = \min\left(M,\; m\left(1 - (1 - 1/m)^k\right)\right)

    Parameters
    ----------
    size
        What one rank sends, S: its tokens, each as often as it has experts.
    experts_per_token
        Experts k that a token is sent to, anywhere.
    node_limit
        Most nodes that the router may send a token to, M; by default any number.

    Returns
    -------
    Collective
        Expected bytes, with experts drawn evenly and with replacement. All messages are posted at once, and both kinds
        of link work at the same time; :func:`posted_all_to_all` is the exchange of whole buffers, one stage after the
        other.

    Notes
    -----
    Source: DeepSeek-V3 2024, section 3.2.2, for a token that crosses to a node once and is forwarded over NVLink there.
    A token visits v of m nodes (:func:`clusterlab.roofline.nodes_touched`), and all but its own are across.

    Examples
    --------
    DeepSeek-V3's eight experts on 64 GPUs in nodes of eight, against an exchange that sends every copy:

    >>> links = {"bandwidth": 50e9, "latency": 14e-6, "node_bandwidth": 450e9, "node_latency": 3.3e-6}
    >>> cost = expert_all_to_all(64e6, 64, experts_per_token=8, node_size=8, **links)
    >>> round(float(posted_all_to_all(64e6, 64, node_size=8, **links).transfer / cost.transfer), 2)
    1.69

    Its router sends a token to four of the eight nodes at most:

    >>> few = expert_all_to_all(64e6, 64, experts_per_token=8, node_size=8, node_limit=4, **links)
    >>> round(float(few.transfer / cost.transfer), 2)
    0.76
    """
    g, nodes, k = node_size, n / node_size, experts_per_token
    others = (nodes - 1) / nodes * nodes_touched.unchecked(nodes, experts_per_token=k, limit=node_limit)
    inside, across = size * (g - 1) / g, size * others / k
    sent = larger(inside, across)
    return Collective(
        size=size,
        rounds=1.0 * (g > 1) + (nodes > 1),
        path_bytes=sent,
        sent_bytes=sent,
        latency=(g > 1) * node_latency + (nodes > 1) * latency,
        transfer=larger(inside / node_bandwidth, across / bandwidth),
        bus_factor=(n - 1) / n,
    )


@_of_whole_nodes
@law
def all_to_all_local_share(n: Count, *, node_size: Count) -> Share:
    r"""Share of an all-to-all's traffic between ranks that stays inside the node.

    .. math:: \frac{g - 1}{n - 1}

    Returns
    -------
    Share
        Share between 0 and 1 of the bytes that any rank sends to another. One rank alone sends none, and none leave: 1.

    Notes
    -----
    Derived: each rank sends as much to every other, and g - 1 of the other n - 1 are in its node.

    Examples
    --------
    >>> [round(float(all_to_all_local_share(n, node_size=8)), 3) for n in (8, 64, 256)]
    [1.0, 0.111, 0.027]
    """
    return 1 - (n - node_size) / np.maximum(n - 1, 1)


# --- Hiding: what happens at the same time ----------------------------------------------------------------------------


@law
def pipelined_time(latency: Seconds, transfer: Seconds) -> Seconds:
    r"""Time of a collective whose buffer is cut into chunks that follow one another.

    .. math:: T = L + X + \sqrt{L X}

    With k chunks a part of the latency is paid for every chunk, and the pipeline is a chunk's time filling: the best k
    adds :math:`2 \sqrt{\kappa L X}`, where kappa is the share of the latency that a chunk pays again. This law takes
    kappa = 1/4, so the time at L = X is three times either part, against twice in the model of the rest of this module.

    Parameters
    ----------
    latency, transfer
        L and X: those of a :class:`Collective`, or measured.

    Returns
    -------
    Seconds
        ``latency + transfer`` where either is far larger than the other, and up to half as much again between.

    Notes
    -----
    Derived like :func:`double_tree_chunks`. The kappa is measured: with it two constants, fitted to each of eight
    published NCCL sweeps, leave 7 % mean absolute error, and 11 % without the root
    (:func:`clusterlab.evidence.fit_links`).

    Examples
    --------
    >>> pipelined_time([40e-6, 40e-6], [0, 40e-6]).round(8) * 1e6
    array([ 40., 120.])
    """
    return latency + transfer + latency**0.5 * transfer**0.5  # their product may be too small for a number


@dataclass(frozen=True, repr=False)
class Overlap(Explained):
    """The cost of two collectives that overlap in ``chunks``. Fields broadcast; the parts, in seconds, sum to ``time``.

    ``transfer`` is that of the busier links, all of it; ``fill`` the transfer of one chunk on the others; ``latency``
    what all chunks wait on the busier links and one on the others.
    """

    chunks: Count
    latency: Seconds
    transfer: Seconds
    fill: Seconds

    @property
    def time(self) -> Seconds:
        """Seconds: latency, transfer and fill added."""
        return self.latency + self.transfer + self.fill

    _shown: ClassVar = {"chunks": "#", **dict.fromkeys(("latency", "transfer", "fill", "time"), "s")}


def overlap_stages(first: Collective, second: Collective, *, chunks: Count | None = None) -> Overlap:
    r"""Two collectives over different links, in k chunks: while one chunk is in the second, the next is in the first.

    With :math:`c_i = L_i + X_i / k` seconds for a chunk in stage i,

    .. math:: T = (k - 1) \max(c_1, c_2) + c_1 + c_2

    or :math:`X_1 + X_2 / k + k L_1 + L_2` where the first is the slower: all of its transfer, the filling of the
    pipeline by the other, and its latency for every chunk again.

    Parameters
    ----------
    first, second
        Any laws with a transfer that is linear in the size; X is their transfer and L their latency, both for the whole
        buffer. A hierarchical all-reduce is a ring all-reduce of S in the node, and one of S/g across.
    chunks
        k; by default the whole number with which it is fastest.

    Returns
    -------
    Overlap
        Exact in the model where every chunk passes one collective and then the other. Also where it comes back to the
        first, as in a hierarchical all-reduce (reduce-scatter, across, all-gather), if the second is the slower; if it
        is not, an upper bound, at most a chunk's time across too long.

    Raises
    ------
    ValueError
        ``chunks`` is not given where neither collective has latency: ever more of them would be faster.

    Notes
    -----
    Derived: a pipeline of two stages. The time is convex in k. Where the first is the slower, its slope is zero at
    :math:`k = \sqrt{X_2 / L_1}`.

    Examples
    --------
    The hierarchical all-reduce of 14 GB over 256 ranks takes 123 ms with its stages in turn:

    >>> inside = ring_all_reduce(14e9, 8, bandwidth=450e9, latency=1e-6)
    >>> across = ring_all_reduce(14e9 / 8, 256 / 8, bandwidth=50e9, latency=5e-6)
    >>> overlap_stages(inside, across)
    Overlap
                value
    chunks         13
    latency   4.04 ms
    transfer  67.8 ms
    fill      4.19 ms
    time        76 ms
    """
    _fit_together(first=first, second=second)
    if chunks is not None:
        chunks = check(WHOLE, "chunks", chunks)
        nonnegative(first=first.time, second=second.time, chunks=chunks)  # together: do their shapes fit?
        return _overlap(first, second, chunks)
    if np.any((first.latency + second.latency <= 0) & (first.transfer > 0) & (second.transfer > 0)):
        raise ValueError("chunks must be given where neither collective has latency, got None")
    with np.errstate(divide="ignore", invalid="ignore"):
        turns = (  # where the slope is zero with either the slower, and where both are equally slow
            np.divide(second.transfer, first.latency) ** 0.5,
            np.divide(first.transfer, second.latency) ** 0.5,
            np.divide(first.transfer - second.transfer, second.latency - first.latency),
        )
    best: Numeric = 1.0
    for turn in turns:  # the best is next to one of these
        for k in (np.floor(turn), np.ceil(turn)):
            k = np.where(np.isfinite(k) & (k >= 1), k, 1.0)
            faster = _overlap(first, second, k).time < _overlap(first, second, best).time
            best = np.where(faster, k, best)[()]
    return _overlap(first, second, best)


def _overlap(first: Collective, second: Collective, chunks: Count) -> Overlap:
    """The overlap of two collectives in so many chunks."""
    slower = first.latency + first.transfer / chunks >= second.latency + second.transfer / chunks
    each, once = pick(slower, first.latency, second.latency), pick(slower, second.latency, first.latency)
    longer, other = pick(slower, first.transfer, second.transfer), pick(slower, second.transfer, first.transfer)
    return Overlap(chunks, chunks * each + once, longer, other / chunks)


@law
def exposed_time(communication: Seconds, behind: Seconds, *, contention: Share = 0) -> Seconds:
    r"""What is left to wait for of a collective that hides behind other work: the hiding law.

    .. math:: C - (1 - \kappa)\,\min(C, H)

    Parameters
    ----------
    communication
        Time of the collective, C.
    behind
        Time of the work that it may hide behind, H; 0 where nothing hides it.
    contention
        Seconds by which each hidden second slows the work, kappa: both want the same memory bandwidth and the same
        multiprocessors.

    Returns
    -------
    Seconds
        From kappa C to C.

    Notes
    -----
    Derived; the contention of published training runs is in ``data/efficiencies.toml``.

    Examples
    --------
    Ten milliseconds behind eight, at no cost and with a quarter of the hidden time lost:

    >>> [float(round(exposed_time(10e-3, 8e-3, contention=k) * 1e3, 6)) for k in (0, 0.25)]
    [2.0, 4.0]
    """
    return communication - (1 - contention) * smaller(communication, behind)
