r"""Collectives: what it costs when ranks exchange, gather or reduce a buffer together.

The model is Hockney's (1994), in synchronous rounds. In a round every rank may send one message and receive one (one
port, full duplex), and nothing else slows it: no contention, and the arithmetic of a reduction is free. A round costs

.. math:: \alpha + \text{largest message of the round} / B

so a collective costs rounds times alpha plus the bytes on its path over B. ``size`` is the whole buffer S as nccl-tests
counts it: what each rank holds (broadcast, all-reduce, all-to-all) or the full, gathered buffer (all-gather,
reduce-scatter). It need not divide by the ranks: pieces are taken as equal. One rank alone costs nothing; a message of
zero bytes still costs its latency. Links are one direction: 450 GB/s for NVLink 4, 50 GB/s for InfiniBand NDR.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from types import MappingProxyType

import numpy as np

from ..checks import nonnegative, pick, positive, smaller, whole
from ..records import Explained, summary
from ..roofline import nodes_touched


@dataclass(frozen=True, repr=False)
class Collective(Explained):
    """The cost of one collective. Fields broadcast; ``latency`` and ``transfer``, in seconds, sum to ``time``.

    ``path_bytes`` is the largest message of each round, summed over the ``rounds``; ``sent_bytes`` the most that any
    rank sends. ``bus_factor`` makes a bus bandwidth of an algorithm bandwidth (see :func:`bus_factor`).
    """

    size: float
    rounds: float
    path_bytes: float
    sent_bytes: float
    latency: float
    transfer: float
    bus_factor: float

    @property
    def time(self):
        """Seconds: latency and transfer added."""
        return self.latency + self.transfer

    @property
    def algorithm_bandwidth(self):
        """Bytes/s of the buffer: size over time (algbw of nccl-tests)."""
        positive(time=self.time)  # one rank alone takes no time and has no bandwidth
        return self.size / self.time

    @property
    def bus_bandwidth(self):
        """Bytes/s that each link would show in an optimal algorithm without switches that compute (busbw)."""
        return self.bus_factor * self.algorithm_bandwidth

    def _rows(self):
        rows = [("", "value"), ("rounds", summary(np.asarray(self.rounds).astype(int)[()], ""))]
        rows += [(name, summary(getattr(self, name.replace(" ", "_")), "B")) for name in ("path bytes", "sent bytes")]
        return rows + [(name, summary(getattr(self, name), "s")) for name in ("latency", "transfer", "time")]


def _inputs(size, n, bandwidth, latency, **more) -> list:
    """Each argument checked by its own rule, then all against each other's shape. ``more`` are links and counts."""
    values = {"size": size, "n": n, "bandwidth": bandwidth, "latency": latency} | more
    for name, value in values.items():
        if name not in ("size", "latency", "node_latency"):
            (positive if name.endswith("bandwidth") else whole)(**{name: value})
    return nonnegative(**values)


def _cost(operation, size, n, rounds, path_bytes, sent_bytes, bandwidth, latency) -> Collective:
    factor = bus_factor(operation, n)
    return Collective(size, rounds, path_bytes, sent_bytes, rounds * latency, path_bytes / bandwidth, factor)


def _stages(operation, size, n, *stages: Collective) -> Collective:
    """One collective made of others, one after the other, in which the same ranks send most."""
    parts = ("rounds", "path_bytes", "sent_bytes", "latency", "transfer")
    total = [sum(getattr(stage, part) for stage in stages) for part in parts]
    return Collective(size, *total, bus_factor(operation, n))


def _latency_and_transfer(**laws: Collective) -> list:
    """Both parts of each law, where all are collectives and their shapes fit together."""
    for name, law in laws.items():
        if not isinstance(law, Collective):
            raise ValueError(f"{name} must be a Collective, got {law!r}")
    parts = [(law.latency, law.transfer) for law in laws.values()]
    nonnegative(**dict(zip(laws, (latency + transfer for latency, transfer in parts), strict=True)))
    return parts


def _node(n, node_size):
    """Ranks of a node and the number of nodes, where the one divides the ranks."""
    ranks, g = whole(n=n, node_size=node_size)
    if np.any(ranks % g != 0):
        raise ValueError(f"node_size must divide n, got {node_size} and {n}")
    return g, ranks / g


def _log2_ceil(n):
    return np.ceil(np.log2(n))


def _folded(n):
    """Largest power of two within n ranks, its logarithm, and 1 where ranks are left over."""
    log = np.floor(np.log2(n))
    return 2.0**log, log, 1.0 * (n > 2.0**log)


# --- One sender ------------------------------------------------------------------------------------------------------


def point_to_point(size, *, bandwidth, latency) -> Collective:
    r"""Cost of one message.

    .. math:: T = \alpha + S/B

    Parameters
    ----------
    size : array_like
        Bytes, S.
    bandwidth, latency : array_like
        Bytes/s, B, and seconds before the first byte arrives, alpha.

    Returns
    -------
    Collective
        One round.

    Raises
    ------
    ValueError
        An argument is negative or not finite, or ``bandwidth`` is zero.

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
    size, _, bandwidth, latency = _inputs(size, 1, bandwidth, latency)
    return _cost("send-receive", size, 1.0, 1.0, size, size, bandwidth, latency)


def binomial_broadcast(size, n, *, bandwidth, latency) -> Collective:
    r"""Broadcast in which every rank that has the buffer sends it on: the best for small sizes.

    .. math:: T = \lceil\log_2 n\rceil \, (\alpha + S/B)

    Parameters
    ----------
    size, n : array_like
        Bytes of the buffer, S, and ranks.
    bandwidth, latency : array_like
        Bytes/s of a rank's link, B, and seconds for each round, alpha.

    Returns
    -------
    Collective
        Exact in the model. The root sends most: the whole buffer in each round.

    Raises
    ------
    ValueError
        An argument is negative or not finite, ``bandwidth`` is zero, or ``n`` is not a whole number of at least 1.

    Notes
    -----
    Source: Thakur, Rabenseifner and Gropp 2005, broadcast of short messages.

    Examples
    --------
    >>> float(binomial_broadcast(1e6, 64, bandwidth=50e9, latency=5e-6).rounds)
    6.0
    """
    size, n, bandwidth, latency = _inputs(size, n, bandwidth, latency)
    rounds = _log2_ceil(n)
    return _cost("broadcast", size, n, rounds, rounds * size, rounds * size, bandwidth, latency)


def scatter_all_gather_broadcast(size, n, *, bandwidth, latency) -> Collective:
    r"""Broadcast of a large buffer: a binomial tree scatters its pieces, a ring gathers them everywhere.

    .. math:: T = (\lceil\log_2 n\rceil + n - 1)\,\alpha + 2\,\frac{n-1}{n}\,\frac{S}{B}

    Parameters
    ----------
    size, n : array_like
        Bytes of the buffer, S, and ranks.
    bandwidth, latency : array_like
        Bytes/s of a rank's link, B, and seconds for each round, alpha.

    Returns
    -------
    Collective
        Exact in the model, for any number of ranks: in each round of the scatter the root's message is the largest.

    Raises
    ------
    ValueError
        An argument is negative or not finite, ``bandwidth`` is zero, or ``n`` is not a whole number of at least 1.

    Notes
    -----
    Source: Thakur, Rabenseifner and Gropp 2005, broadcast of long messages (van de Geijn's algorithm).

    Examples
    --------
    >>> long = scatter_all_gather_broadcast(1e9, 64, bandwidth=50e9, latency=5e-6)
    >>> round(float(binomial_broadcast(1e9, 64, bandwidth=50e9, latency=5e-6).time / long.time), 2)
    3.02
    """
    size, n, bandwidth, latency = _inputs(size, n, bandwidth, latency)
    moved = 2 * (size / n) * (n - 1)
    return _cost("broadcast", size, n, _log2_ceil(n) + n - 1, moved, moved, bandwidth, latency)


# --- Reduce-scatter and all-gather: each the other run backwards -----------------------------------------------------


def ring_reduce_scatter(size, n, *, bandwidth, latency) -> Collective:
    r"""Reduce-scatter around a ring: in each round every rank adds to one piece and passes it on.

    .. math:: T = (n - 1)\left(\alpha + \frac{S}{nB}\right)

    Parameters
    ----------
    size, n : array_like
        Bytes of the whole buffer, S, and ranks; each ends with S/n.
    bandwidth, latency : array_like
        Bytes/s of a rank's link, B, and seconds for each round, alpha.

    Returns
    -------
    Collective
        Exact in the model.

    Raises
    ------
    ValueError
        An argument is negative or not finite, ``bandwidth`` is zero, or ``n`` is not a whole number of at least 1.

    Notes
    -----
    Source: Patarasuk and Yuan 2009, the first half of their all-reduce.

    Examples
    --------
    >>> float(ring_reduce_scatter(8e9, 8, bandwidth=450e9, latency=0).sent_bytes)
    7000000000.0
    """
    size, n, bandwidth, latency = _inputs(size, n, bandwidth, latency)
    moved = size / n * (n - 1)
    return _cost("reduce-scatter", size, n, n - 1, moved, moved, bandwidth, latency)


def ring_all_gather(size, n, *, bandwidth, latency) -> Collective:
    r"""All-gather around a ring: in each round every rank passes on the piece that came last.

    .. math:: T = (n - 1)\left(\alpha + \frac{S}{nB}\right)

    Parameters
    ----------
    size, n : array_like
        Bytes of the gathered buffer, S, and ranks; each begins with S/n.
    bandwidth, latency : array_like
        Bytes/s of a rank's link, B, and seconds for each round, alpha.

    Returns
    -------
    Collective
        Exact in the model.

    Raises
    ------
    ValueError
        An argument is negative or not finite, ``bandwidth`` is zero, or ``n`` is not a whole number of at least 1.

    Notes
    -----
    Source: Thakur, Rabenseifner and Gropp 2005, all-gather of long messages.

    Examples
    --------
    >>> round(float(ring_all_gather(8e9, 8, bandwidth=450e9, latency=0).bus_bandwidth))
    450000000000
    """
    size, n, bandwidth, latency = _inputs(size, n, bandwidth, latency)
    moved = size / n * (n - 1)
    return _cost("all-gather", size, n, n - 1, moved, moved, bandwidth, latency)


def recursive_halving_reduce_scatter(size, n, *, bandwidth, latency) -> Collective:
    r"""Reduce-scatter with partners ever nearer: the bytes of the ring in a logarithmic number of rounds.

    .. math:: T = \lceil\log_2 n\rceil\,\alpha + \frac{n-1}{n}\,\frac{S}{B}

    Parameters
    ----------
    size, n : array_like
        Bytes of the whole buffer, S, and ranks; each ends with S/n.
    bandwidth, latency : array_like
        Bytes/s of a rank's link, B, and seconds for each round, alpha.

    Returns
    -------
    Collective
        Exact in the model: recursive halving where ``n`` is a power of two, the all-gather of Bruck et al. run
        backwards elsewhere.

    Raises
    ------
    ValueError
        An argument is negative or not finite, ``bandwidth`` is zero, or ``n`` is not a whole number of at least 1.

    Notes
    -----
    Source: Thakur, Rabenseifner and Gropp 2005, reduce-scatter; Bruck et al. 1997. The reduction must commute.

    Examples
    --------
    >>> float(recursive_halving_reduce_scatter(8e9, 8, bandwidth=450e9, latency=5e-6).rounds)
    3.0
    """
    size, n, bandwidth, latency = _inputs(size, n, bandwidth, latency)
    moved = size / n * (n - 1)
    return _cost("reduce-scatter", size, n, _log2_ceil(n), moved, moved, bandwidth, latency)


def recursive_doubling_all_gather(size, n, *, bandwidth, latency) -> Collective:
    r"""All-gather in which what each rank holds doubles every round.

    .. math:: T = \lceil\log_2 n\rceil\,\alpha + \frac{n-1}{n}\,\frac{S}{B}

    Parameters
    ----------
    size, n : array_like
        Bytes of the gathered buffer, S, and ranks; each begins with S/n.
    bandwidth, latency : array_like
        Bytes/s of a rank's link, B, and seconds for each round, alpha.

    Returns
    -------
    Collective
        Exact in the model: recursive doubling where ``n`` is a power of two, the algorithm of Bruck et al. elsewhere.

    Raises
    ------
    ValueError
        An argument is negative or not finite, ``bandwidth`` is zero, or ``n`` is not a whole number of at least 1.

    Notes
    -----
    Source: Thakur, Rabenseifner and Gropp 2005, all-gather of short messages; Bruck et al. 1997.

    Examples
    --------
    >>> float(recursive_doubling_all_gather(8e9, [8, 9], bandwidth=450e9, latency=5e-6).rounds[1])
    4.0
    """
    size, n, bandwidth, latency = _inputs(size, n, bandwidth, latency)
    moved = size / n * (n - 1)
    return _cost("all-gather", size, n, _log2_ceil(n), moved, moved, bandwidth, latency)


def mesh_all_gather(size, n, *, bandwidth, latency) -> Collective:
    r"""All-gather over a full mesh: every rank has a link of its own to each other rank, and uses all of them at once.

    .. math:: T = \alpha + \frac{S}{nB}, \qquad n > 1

    Parameters
    ----------
    size, n : array_like
        Bytes of the gathered buffer, S, and ranks; each begins with S/n.
    bandwidth, latency : array_like
        Bytes/s of one link, B, of which a rank uses n - 1, and seconds before the first byte arrives, alpha.

    Returns
    -------
    Collective
        Exact in the model. The bus bandwidth tends to (n - 1) B: fewer ranks than the mesh has use fewer links. A
        reduce-scatter and an all-to-all send the same pieces to the same ranks; an all-reduce is two of them.

    Raises
    ------
    ValueError
        An argument is negative or not finite, ``bandwidth`` is zero, or ``n`` is not a whole number of at least 1.

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
    size, n, bandwidth, latency = _inputs(size, n, bandwidth, latency)
    piece, several = size / n, 1.0 * (n > 1)
    return _cost("all-gather", size, n, several, piece * several, piece * (n - 1), bandwidth, latency)


def multi_node_ring(size, n, *, node_size, bandwidth, latency, node_bandwidth, node_latency, messages=1) -> Collective:
    r"""All-gather or reduce-scatter around one ring through all ranks of all nodes.

    With g ranks in a node, m = n/g nodes, and B', alpha' inside the node, the ring enters and leaves a node by the
    ports of all its ranks together, as libraries run g such rings at once:

    .. math:: T = k\,\big((n - m)\,\alpha' + (m - 1)\,\alpha\big) + \frac{n-1}{n}\,\frac{S}{\min(B', g B)}

    Parameters
    ----------
    size, n : array_like
        Bytes of the gathered buffer, S, and ranks.
    node_size : array_like
        Ranks of a node (a scale-up domain), g.
    bandwidth, latency : array_like
        Bytes/s of one rank's port across nodes, B, and seconds for each round, alpha.
    node_bandwidth, node_latency : array_like
        Bytes/s of one rank inside its node, B', and seconds for each round, alpha'.
    messages : array_like
        Collectives k that the buffer is cut into, one after the other; each pays the latency.

    Returns
    -------
    Collective
        An all-reduce is two of them. Within one node it is :func:`ring_all_gather` at B'; with one rank a node, B
        alone counts. Of the chain of latencies NCCL counts one hop into each node but the first.

    Raises
    ------
    ValueError
        An argument is negative or not finite, a bandwidth is zero, ``n``, ``node_size`` or ``messages`` is not a whole
        number of at least 1, or ``node_size`` does not divide ``n``.

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
    _node(n, node_size)
    node = {"node_bandwidth": node_bandwidth, "node_latency": node_latency}
    size, n, bandwidth, latency, g, k, *node = _inputs(
        size, n, bandwidth, latency, node_size=node_size, messages=messages, **node
    )
    waits, transfer = _multi_node_ring(size, n, g, bandwidth, latency, *node, k)
    moved = size / n * (n - 1)
    return Collective(size, k * (n - 1), moved, moved, waits, transfer, bus_factor("all-gather", n))


def _multi_node_ring(size, n, node_size, bandwidth, latency, node_bandwidth, node_latency, messages=1.0):
    """Latency and transfer of :func:`multi_node_ring`, its arguments checked. ``node_size`` may be a mean of nodes."""
    nodes = n / node_size
    ports = bandwidth * node_size
    rate = pick(nodes > 1, pick(node_size > 1, smaller(node_bandwidth, ports), ports), node_bandwidth)
    hops = (n - nodes) * node_latency + (nodes - 1) * latency
    return messages * hops, size * (n - 1) / n / rate


# --- All-reduce ------------------------------------------------------------------------------------------------------


def ring_all_reduce(size, n, *, bandwidth, latency) -> Collective:
    r"""All-reduce around a ring: a reduce-scatter, then an all-gather. No algorithm moves fewer bytes.

    .. math:: T = 2 (n - 1)\left(\alpha + \frac{S}{nB}\right)

    Parameters
    ----------
    size, n : array_like
        Bytes of the buffer, S, and ranks.
    bandwidth, latency : array_like
        Bytes/s of a rank's link, B, and seconds for each round, alpha.

    Returns
    -------
    Collective
        Exact in the model. The transfer tends to 2 S/B, the latency grows with the ring.

    Raises
    ------
    ValueError
        An argument is negative or not finite, ``bandwidth`` is zero, or ``n`` is not a whole number of at least 1.

    Notes
    -----
    Source: Patarasuk and Yuan 2009, who also prove that 2 (n - 1) S / n bytes are the least.

    A ring on every rail is this law too. Of nodes with g ranks and g ports, g rings run at once, each with S/g. Every
    rank sends one of them out of its node and the other g - 1 on inside, so B is the port's rate, or 1/(g - 1) of the
    rank's rate inside where that is less, and alpha the larger latency.

    Examples
    --------
    Gradients of 7e9 parameters in BF16 over 256 GPUs on InfiniBand NDR:

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
    size, n, bandwidth, latency = _inputs(size, n, bandwidth, latency)
    moved = 2 * (size / n) * (n - 1)
    return _cost("all-reduce", size, n, 2 * (n - 1), moved, moved, bandwidth, latency)


def tree_all_reduce(size, n, *, bandwidth, latency) -> Collective:
    r"""All-reduce up a binomial tree and down again: a reduce to one rank, then its broadcast.

    .. math:: T = 2 \lceil\log_2 n\rceil \, (\alpha + S/B)

    Parameters
    ----------
    size, n : array_like
        Bytes of the buffer, S, and ranks.
    bandwidth, latency : array_like
        Bytes/s of a rank's link, B, and seconds for each round, alpha.

    Returns
    -------
    Collective
        Exact in the model.

    Raises
    ------
    ValueError
        An argument is negative or not finite, ``bandwidth`` is zero, or ``n`` is not a whole number of at least 1.

    Notes
    -----
    Source: Thakur, Rabenseifner and Gropp 2005, the binomial reduce and broadcast of short messages.

    Examples
    --------
    >>> tree = tree_all_reduce(1e3, 256, bandwidth=50e9, latency=5e-6)
    >>> round(float(ring_all_reduce(1e3, 256, bandwidth=50e9, latency=5e-6).time / tree.time), 1)
    31.7
    """
    size, n, bandwidth, latency = _inputs(size, n, bandwidth, latency)
    levels = _log2_ceil(n)
    return _cost("all-reduce", size, n, 2 * levels, 2 * levels * size, levels * size, bandwidth, latency)


def recursive_doubling_all_reduce(size, n, *, bandwidth, latency) -> Collective:
    r"""All-reduce in which partners swap whole buffers: the fewest rounds, for small sizes.

    With p the largest power of two within n, and f = 1 where n > p, else 0,

    .. math:: T = (\log_2 p + 2 f)\,(\alpha + S/B)

    Parameters
    ----------
    size, n : array_like
        Bytes of the buffer, S, and ranks.
    bandwidth, latency : array_like
        Bytes/s of a rank's link, B, and seconds for each round, alpha.

    Returns
    -------
    Collective
        Exact in the model. Ranks beyond p fold into a partner first and get the result back last.

    Raises
    ------
    ValueError
        An argument is negative or not finite, ``bandwidth`` is zero, or ``n`` is not a whole number of at least 1.

    Notes
    -----
    Source: Thakur, Rabenseifner and Gropp 2005, all-reduce of short messages.

    Examples
    --------
    >>> recursive_doubling_all_reduce(1e3, [64, 65], bandwidth=50e9, latency=5e-6).rounds
    array([6., 8.])
    """
    size, n, bandwidth, latency = _inputs(size, n, bandwidth, latency)
    _, log, fold = _folded(n)
    rounds = log + 2 * fold
    return _cost("all-reduce", size, n, rounds, rounds * size, (log + fold) * size, bandwidth, latency)


def halving_doubling_all_reduce(size, n, *, bandwidth, latency) -> Collective:
    r"""All-reduce by Rabenseifner: a recursive halving reduce-scatter, then a recursive doubling all-gather.

    With p the largest power of two within n, and f = 1 where n > p, else 0,

    .. math:: T = 2\,(\log_2 p + f)\,\alpha + 2\left(\frac{p-1}{p} + f\right)\frac{S}{B}

    Parameters
    ----------
    size, n : array_like
        Bytes of the buffer, S, and ranks.
    bandwidth, latency : array_like
        Bytes/s of a rank's link, B, and seconds for each round, alpha.

    Returns
    -------
    Collective
        Exact in the model. Ranks beyond p fold into a partner first and get the result back last, as MPI libraries do.

    Raises
    ------
    ValueError
        An argument is negative or not finite, ``bandwidth`` is zero, or ``n`` is not a whole number of at least 1.

    Notes
    -----
    Source: Thakur, Rabenseifner and Gropp 2005, all-reduce of long messages; Rabenseifner 2004.

    Examples
    --------
    >>> cost = halving_doubling_all_reduce(14e9, [256, 257], bandwidth=50e9, latency=5e-6)
    >>> cost.rounds, (cost.path_bytes / 14e9).round(2)
    (array([16., 18.]), array([1.99, 3.99]))
    """
    size, n, bandwidth, latency = _inputs(size, n, bandwidth, latency)
    p, log, fold = _folded(n)
    moved = 2 * (size / p) * (p - 1)
    path, sent = moved + 2 * fold * size, moved + fold * size
    return _cost("all-reduce", size, n, 2 * (log + fold), path, sent, bandwidth, latency)


def double_tree_all_reduce(size, n, *, bandwidth, latency, chunks) -> Collective:
    r"""All-reduce over two binary trees, each with half of the buffer in k chunks: a guaranteed upper bound.

    .. math:: T \le 4\,(\lceil\log_2 n\rceil + k - 1)\left(\alpha + \frac{S}{2kB}\right), \qquad n > 1

    No rank has more than two children in both trees together, nor more than two parents, so the links can be coloured
    with two colours that take turns. A chunk then takes at most two rounds for each hop, of which there are at most
    log2 n (rounded up), and the next follows two rounds later. That is the broadcast; the reduction is its mirror image
    and goes first.

    Parameters
    ----------
    size, n : array_like
        Bytes of the buffer, S, and ranks.
    bandwidth, latency : array_like
        Bytes/s of a rank's link, B, and seconds for each round, alpha.
    chunks : array_like
        Chunks of each half, k; :func:`double_tree_chunks` gives the best.

    Returns
    -------
    Collective
        ``rounds``, ``path_bytes`` and so ``time`` are upper bounds. The schedule itself takes at most 4 rounds fewer,
        however many chunks there are (simulated for 3 to 64 ranks; two ranks need half). ``sent_bytes`` is exact. With
        many chunks the transfer tends to 2 S/B.

    Raises
    ------
    ValueError
        An argument is negative or not finite, ``bandwidth`` is zero, or ``n`` or ``chunks`` is not a whole number of at
        least 1.

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
    size, n, bandwidth, latency, k = _inputs(size, n, bandwidth, latency, chunks=chunks)
    rounds = 4 * (_log2_ceil(n) + k - 1) * (n > 1)
    sent = np.minimum(n / 2, 2) * (n > 1) * size
    return _cost("all-reduce", size, n, rounds, rounds * (size / (2 * k)), sent, bandwidth, latency)


def double_tree_chunks(size, n, *, bandwidth, latency):
    r"""Number of chunks with which :func:`double_tree_all_reduce` is fastest: fewer fill slowly, more pay latency.

    .. math:: k = \sqrt{(\lceil\log_2 n\rceil - 1)\,\frac{S}{2 \alpha B}}

    Parameters
    ----------
    size, n : array_like
        Bytes of the buffer, S, and ranks.
    bandwidth, latency : array_like
        Bytes/s of a rank's link, B, and seconds for each round, alpha. Without latency ever more chunks would be best.

    Returns
    -------
    array_like
        The better of the two whole numbers around k, at least 1.

    Raises
    ------
    ValueError
        An argument is negative or not finite, ``bandwidth`` or ``latency`` is zero, or ``n`` is not a whole number.

    Notes
    -----
    Derived: the time is convex in k and this is where its slope is zero (compare Sanders, Speck and Traeff 2009).

    Examples
    --------
    >>> float(double_tree_chunks(14e9, 256, bandwidth=50e9, latency=5e-6))
    443.0
    """
    positive(latency=latency)
    size, n, bandwidth, latency = _inputs(size, n, bandwidth, latency)
    square = np.maximum(_log2_ceil(n) - 1, 0) * (size / (2 * latency * bandwidth))
    below = np.maximum(np.floor(np.sqrt(square)), 1)
    return np.where(below + square / below <= below + 1 + square / (below + 1), below, below + 1)[()]


def hierarchical_all_reduce(size, n, *, node_size, bandwidth, latency, node_bandwidth, node_latency) -> Collective:
    r"""All-reduce in three stages: reduce-scatter in the node, all-reduce across on every rail, all-gather in the node.

    With g ranks in a node, m = n/g nodes, and B', alpha' inside the node,

    .. math:: T = 2(g-1)\left(\alpha' + \frac{S}{gB'}\right) + 2(m-1)\left(\alpha + \frac{S}{nB}\right)

    Parameters
    ----------
    size, n : array_like
        Bytes of the buffer, S, and ranks.
    node_size : array_like
        Ranks of a node (a scale-up domain), g. Rank i of every node shares a rail with the ranks i of the others.
    bandwidth, latency : array_like
        Bytes/s of one rank across nodes, B, and seconds for each round, alpha.
    node_bandwidth, node_latency : array_like
        Bytes/s of one rank inside its node, B', and seconds for each round, alpha'.

    Returns
    -------
    Collective
        Exact in the model, each stage a ring. The bytes of the flat ring, but only one in g crosses nodes.

    Raises
    ------
    ValueError
        An argument is negative or not finite, a bandwidth is zero, ``n`` or ``node_size`` is not a whole number of at
        least 1, or ``node_size`` does not divide ``n``.

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
    g, nodes = _node(n, node_size)
    node = {"node_size": node_size, "node_bandwidth": node_bandwidth, "node_latency": node_latency}
    size, n, bandwidth, latency, _, node_bandwidth, node_latency = _inputs(size, n, bandwidth, latency, **node)
    node = {"bandwidth": node_bandwidth, "latency": node_latency}
    inside = ring_reduce_scatter(size, g, **node), ring_all_gather(size, g, **node)
    across = ring_all_reduce(size / g, nodes, bandwidth=bandwidth, latency=latency)
    return _stages("all-reduce", size, n, *inside, across)


def in_network_all_reduce(size, n, *, levels, bandwidth, latency) -> Collective:
    r"""All-reduce by the switches of a tree (SHARP): each rank sends its buffer up once and receives the sum once.

    .. math:: T = 2\,\ell\,\alpha + S/B, \qquad n > 1

    Parameters
    ----------
    size, n : array_like
        Bytes of the buffer, S, and ranks.
    levels : array_like
        Levels of switches between a rank and the root of the tree, l: 1 within one switch, 2 with leaf and spine.
    bandwidth, latency : array_like
        Bytes/s of a rank's link, B, and seconds for each hop, alpha.

    Returns
    -------
    Collective
        A lower bound: the limit of a stream of ever smaller chunks, in which the way down overlaps the way up. Here
        ``rounds`` are hops, 2 for each level. The bus bandwidth may exceed B, up to 2 (n - 1) / n times.

    Raises
    ------
    ValueError
        An argument is negative or not finite, ``bandwidth`` is zero, or ``n`` or ``levels`` is not a whole number of at
        least 1.

    Notes
    -----
    Source: Graham et al. 2016 (SHARP) for the algorithm; the time is derived: k chunks would take 2 l + k - 1 rounds.

    Examples
    --------
    >>> cost = in_network_all_reduce(14e9, 256, levels=2, bandwidth=50e9, latency=5e-6)
    >>> round(float(ring_all_reduce(14e9, 256, bandwidth=50e9, latency=5e-6).time / cost.time), 2)
    2.0
    """
    size, n, bandwidth, latency, levels = _inputs(size, n, bandwidth, latency, levels=levels)
    moved = size * (n > 1)
    return _cost("all-reduce", size, n, 2 * levels * (n > 1), moved, moved, bandwidth, latency)


def multicast_all_reduce(size, n, *, bandwidth, latency) -> Collective:
    r"""All-reduce by one switch that adds and copies (NVLink SHARP): each rank fetches one sum and stores it to all.

    .. math:: T = 2\,\alpha + \frac{n + 1}{n}\,\frac{S}{B}, \qquad n > 1

    For the sums every rank delivers its whole buffer, S, piece by piece, and receives the sum of its own piece, S/n.
    For the copies it sends S/n and receives S. So each direction of a link carries S + S/n.

    Parameters
    ----------
    size, n : array_like
        Bytes of the buffer, S, and ranks at the switch.
    bandwidth, latency : array_like
        Bytes/s of a rank's link, B, and seconds for each of the two steps, alpha.

    Returns
    -------
    Collective
        A lower bound: the limit of ever smaller chunks, in which copies overlap sums. The bus bandwidth may exceed B,
        2 (n - 1) / (n + 1) times: 1.56 times for eight ranks, against 1.75 for :func:`in_network_all_reduce`.

    Raises
    ------
    ValueError
        An argument is negative or not finite, ``bandwidth`` is zero, or ``n`` is not a whole number of at least 1.

    Notes
    -----
    Source: Klenk et al. 2020 for reductions and multicast in the switch; the bytes are counted here.

    Examples
    --------
    >>> cost = multicast_all_reduce(14e9, 8, bandwidth=450e9, latency=1e-6)
    >>> round(float(ring_all_reduce(14e9, 8, bandwidth=450e9, latency=1e-6).time / cost.time), 2)
    1.56
    """
    size, n, bandwidth, latency = _inputs(size, n, bandwidth, latency)
    moved = size * (1 + 1 / n) * (n > 1)
    return _cost("all-reduce", size, n, 2.0 * (n > 1), moved, moved, bandwidth, latency)


# --- All-to-all ------------------------------------------------------------------------------------------------------


def pairwise_all_to_all(size, n, *, bandwidth, latency) -> Collective:
    r"""All-to-all in which rank r sends to r + 1, then to r + 2, and so on: each piece goes straight to its rank.

    .. math:: T = (n - 1)\left(\alpha + \frac{S}{nB}\right)

    Parameters
    ----------
    size, n : array_like
        Bytes that one rank holds before the exchange, S, 1/n of them for itself, and ranks.
    bandwidth, latency : array_like
        Bytes/s of a rank's link, B, and seconds for each round, alpha.

    Returns
    -------
    Collective
        Exact in the model. Some pair crosses nodes in every round, so B is the slowest link between any two ranks.

    Raises
    ------
    ValueError
        An argument is negative or not finite, ``bandwidth`` is zero, or ``n`` is not a whole number of at least 1.

    Notes
    -----
    Source: Thakur, Rabenseifner and Gropp 2005, all-to-all of long messages (pairwise exchange).

    Examples
    --------
    >>> float(pairwise_all_to_all(64e6, 64, bandwidth=50e9, latency=5e-6).sent_bytes)
    63000000.0
    """
    size, n, bandwidth, latency = _inputs(size, n, bandwidth, latency)
    moved = size / n * (n - 1)
    return _cost("all-to-all", size, n, n - 1, moved, moved, bandwidth, latency)


def hierarchical_all_to_all(size, n, *, node_size, bandwidth, latency, node_bandwidth, node_latency) -> Collective:
    r"""All-to-all in two stages: inside the node to the rank on the right rail, then across on every rail.

    With g ranks in a node, m = n/g nodes, and B', alpha' inside the node,

    .. math:: T = (g-1)\left(\alpha' + \frac{S}{gB'}\right) + (m-1)\left(\alpha + \frac{S}{mB}\right)

    Parameters
    ----------
    size, n : array_like
        Bytes that one rank holds before the exchange, S, and ranks.
    node_size : array_like
        Ranks of a node (a scale-up domain), g.
    bandwidth, latency : array_like
        Bytes/s of one rank across nodes, B, and seconds for each round, alpha.
    node_bandwidth, node_latency : array_like
        Bytes/s of one rank inside its node, B', and seconds for each round, alpha'.

    Returns
    -------
    Collective
        Exact in the model. Each rank sends (n - g) S / n bytes across, as in the flat exchange, but in m - 1 messages
        instead of n - g. For that most bytes are sent twice.

    Raises
    ------
    ValueError
        An argument is negative or not finite, a bandwidth is zero, ``n`` or ``node_size`` is not a whole number of at
        least 1, or ``node_size`` does not divide ``n``.

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
    g, nodes = _node(n, node_size)
    node = {"node_size": node_size, "node_bandwidth": node_bandwidth, "node_latency": node_latency}
    size, n, bandwidth, latency, _, node_bandwidth, node_latency = _inputs(size, n, bandwidth, latency, **node)
    inside = pairwise_all_to_all(size, g, bandwidth=node_bandwidth, latency=node_latency)
    across = pairwise_all_to_all(size, nodes, bandwidth=bandwidth, latency=latency)
    return _stages("all-to-all", size, n, inside, across)


def posted_all_to_all(size, n, *, node_size, bandwidth, latency, node_bandwidth, node_latency) -> Collective:
    r"""All-to-all in two stages, inside the node and across, with all messages of a stage posted at once.

    With g ranks in a node, m = n/g nodes, and B', alpha' inside the node,

    .. math:: T = \left(\alpha' + \frac{g-1}{g}\,\frac{S}{B'}\right)_{g > 1}
        + \left(\alpha + \frac{m-1}{m}\,\frac{S}{B}\right)_{m > 1}

    Parameters
    ----------
    size, n : array_like
        Bytes that one rank holds before the exchange, S, and ranks.
    node_size : array_like
        Ranks of a node (a scale-up domain), g. With ``n`` all stays inside; with 1 all goes straight across.
    bandwidth, latency : array_like
        Bytes/s of one rank across nodes, B, and seconds that a message is under way, alpha.
    node_bandwidth, node_latency : array_like
        Bytes/s of one rank inside its node, B', and seconds that a message is under way, alpha'.

    Returns
    -------
    Collective
        The bytes of :func:`hierarchical_all_to_all`, with one round for a stage. Exact where a port sends the next
        message while the last is under way, and every message is posted in the order of the pairwise exchange.

    Raises
    ------
    ValueError
        An argument is negative or not finite, a bandwidth is zero, ``n`` or ``node_size`` is not a whole number of at
        least 1, or ``node_size`` does not divide ``n``.

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
    g, nodes = _node(n, node_size)
    node = {"node_size": node_size, "node_bandwidth": node_bandwidth, "node_latency": node_latency}
    size, n, bandwidth, latency, _, node_bandwidth, node_latency = _inputs(size, n, bandwidth, latency, **node)
    inside, across = size / g * (g - 1), size / nodes * (nodes - 1)
    first = _cost("all-to-all", size, g, 1.0 * (g > 1), inside, inside, node_bandwidth, node_latency)
    second = _cost("all-to-all", size, nodes, 1.0 * (nodes > 1), across, across, bandwidth, latency)
    return _stages("all-to-all", size, n, first, second)


def expert_all_to_all(
    size, n, *, experts_per_token, node_size, bandwidth, latency, node_bandwidth, node_latency, node_limit=None
) -> Collective:
    r"""All-to-all that sends tokens to their experts, or back: a token crosses to a node once and is copied there.

    With k experts a token on at most M nodes, g ranks in a node, m = n/g nodes, and B', alpha' inside the node,

    .. math:: T = \alpha'_{g > 1} + \alpha_{m > 1} + \max\left(\frac{g-1}{g}\,\frac{S}{B'},\;
        \frac{m - 1}{m}\,\frac{v}{k}\,\frac{S}{B}\right), \qquad v = \min\left(M,\; m\left(1 - (1 - 1/m)^k\right)\right)

    Parameters
    ----------
    size, n : array_like
        Bytes that one rank sends, S: its tokens, each as often as it has experts; and ranks.
    experts_per_token : array_like
        Experts k that a token is sent to, anywhere.
    node_size : array_like
        Ranks of a node (a scale-up domain), g.
    bandwidth, latency : array_like
        Bytes/s of one rank across nodes, B, and seconds that a message is under way, alpha.
    node_bandwidth, node_latency : array_like
        Bytes/s of one rank inside its node, B', and seconds that a message is under way, alpha'.
    node_limit : array_like
        Most nodes that the router may send a token to, M; by default any number.

    Returns
    -------
    Collective
        Expected bytes, with experts drawn evenly and with replacement. All messages are posted at once, and both kinds
        of link work at the same time; :func:`posted_all_to_all` is the exchange of whole buffers, one stage after the
        other.

    Raises
    ------
    ValueError
        An argument is negative or not finite, a bandwidth is zero, ``n``, ``node_size``, ``experts_per_token`` or
        ``node_limit`` is not a whole number of at least 1, or ``node_size`` does not divide ``n``.

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
    g, nodes = _node(n, node_size)
    node = {"node_size": node_size, "node_bandwidth": node_bandwidth, "node_latency": node_latency}
    node |= {} if node_limit is None else {"node_limit": node_limit}
    size, n, bandwidth, latency, k, _, node_bandwidth, node_latency, *limit = _inputs(
        size, n, bandwidth, latency, experts_per_token=experts_per_token, **node
    )
    most = limit[0] if limit else nodes
    waits, inside, across = _expert_all_to_all(size, n, k, g, bandwidth, latency, node_bandwidth, node_latency, most)
    sent = np.maximum(inside * node_bandwidth, across * bandwidth)
    rounds = 1.0 * (g > 1) + 1.0 * (nodes > 1)
    return Collective(size, rounds, sent, sent, waits, np.maximum(inside, across), bus_factor("all-to-all", n))


def _expert_all_to_all(
    size, n, experts_per_token, node_size, bandwidth, latency, node_bandwidth, node_latency, node_limit
):
    """Latency of :func:`expert_all_to_all`, and its transfers inside nodes and across, its arguments checked."""
    nodes = n / node_size
    visited = (
        (nodes - 1) / nodes * nodes_touched.unchecked(nodes, experts_per_token=experts_per_token, limit=node_limit)
    )
    waits = (node_size > 1) * node_latency + (nodes > 1) * latency
    inside = size * (node_size - 1) / node_size / node_bandwidth
    return waits, inside, size * visited / experts_per_token / bandwidth


def all_to_all_local_share(n, *, node_size):
    r"""Share of an all-to-all's traffic between ranks that stays inside the node.

    .. math:: \frac{g - 1}{n - 1}

    Parameters
    ----------
    n : array_like
        Ranks.
    node_size : array_like
        Ranks of a node (a scale-up domain), g.

    Returns
    -------
    array_like
        Share between 0 and 1 of the bytes that any rank sends to another. One rank alone sends none, and none leave: 1.

    Raises
    ------
    ValueError
        ``n`` or ``node_size`` is not a whole number of at least 1, or ``node_size`` does not divide ``n``.

    Notes
    -----
    Derived: each rank sends as much to every other, and g - 1 of the other n - 1 are in its node.

    Examples
    --------
    >>> [round(float(all_to_all_local_share(n, node_size=8)), 3) for n in (8, 64, 256)]
    [1.0, 0.111, 0.027]
    """
    g, nodes = _node(n, node_size)
    others = np.maximum(g * nodes - 1, 1)
    return 1 - g * (nodes - 1) / others


def pipelined_time(latency, transfer):
    r"""Time of a collective whose buffer is cut into chunks that follow one another.

    .. math:: T = L + X + \sqrt{L X}

    With k chunks a part of the latency is paid for every chunk, and the pipeline is a chunk's time filling: the best k
    adds :math:`2 \sqrt{\kappa L X}`, where kappa is the share of the latency that a chunk pays again. This law takes
    kappa = 1/4, so the time at L = X is three times either part, against twice in the model of the rest of this module.

    Parameters
    ----------
    latency, transfer : array_like
        Seconds, L and X: those of a :class:`Collective`, or measured.

    Returns
    -------
    array_like
        Seconds: ``latency + transfer`` where either is far larger than the other, and up to half as much again between.

    Raises
    ------
    ValueError
        An argument is negative or not finite.

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
    return _pipelined_time(*nonnegative(latency=latency, transfer=transfer))


def _pipelined_time(latency, transfer):
    return latency + transfer + np.sqrt(latency) * np.sqrt(transfer)  # their product may be too small for a number


def exposed_time(communication, behind, *, contention=0):
    r"""What is left to wait for of a collective that hides behind other work: the hiding law.

    .. math:: C - (1 - \kappa)\,\min(C, H)

    Parameters
    ----------
    communication : array_like
        Seconds of the collective, C.
    behind : array_like
        Seconds of work that it may hide behind, H; 0 where nothing hides it.
    contention : array_like
        Seconds by which each hidden second slows the work, kappa, from 0 to 1: both want the same memory bandwidth and
        the same multiprocessors.

    Returns
    -------
    array_like
        Seconds, from kappa C to C.

    Raises
    ------
    ValueError
        An argument is negative or not finite, or ``contention`` is above 1.

    Notes
    -----
    Derived; the contention of published training runs is in ``data/efficiencies.toml``.

    Examples
    --------
    Ten milliseconds behind eight, at no cost and with a quarter of the hidden time lost:

    >>> [float(round(exposed_time(10e-3, 8e-3, contention=k) * 1e3, 6)) for k in (0, 0.25)]
    [2.0, 4.0]
    """
    communication, behind, contention = nonnegative(communication=communication, behind=behind, contention=contention)
    if np.any(contention > 1):
        raise ValueError(f"contention must be at most 1, got {np.max(contention):g}")
    return _exposed_time(communication, behind, contention)


def _exposed_time(communication, behind, contention):
    return communication - (1 - contention) * smaller(communication, behind)


@dataclass(frozen=True, repr=False)
class Overlap(Explained):
    """The cost of two collectives that overlap in ``chunks``. Fields broadcast; the parts, in seconds, sum to ``time``.

    ``transfer`` is that of the busier links, all of it; ``fill`` the transfer of one chunk on the others; ``latency``
    what all chunks wait on the busier links and one on the others.
    """

    chunks: float
    latency: float
    transfer: float
    fill: float

    @property
    def time(self):
        """Seconds: latency, transfer and fill added."""
        return self.latency + self.transfer + self.fill

    def _rows(self):
        rows = [("", "value"), ("chunks", summary(np.asarray(self.chunks).astype(int)[()], ""))]
        return rows + [(name, summary(getattr(self, name), "s")) for name in ("latency", "transfer", "fill", "time")]


def overlap_stages(first: Collective, second: Collective, *, chunks=None) -> Overlap:
    r"""Two collectives over different links, in k chunks: while one chunk is in the second, the next is in the first.

    With :math:`c_i = L_i + X_i / k` seconds for a chunk in stage i,

    .. math:: T = (k - 1) \max(c_1, c_2) + c_1 + c_2

    or :math:`X_1 + X_2 / k + k L_1 + L_2` where the first is the slower: all of its transfer, the filling of the
    pipeline by the other, and its latency for every chunk again.

    Parameters
    ----------
    first, second : Collective
        Any laws with a transfer that is linear in the size; X is their transfer and L their latency, both for the whole
        buffer. A hierarchical all-reduce is a ring all-reduce of S in the node, and one of S/g across.
    chunks : array_like, optional
        Chunks, k. By default the whole number with which it is fastest.

    Returns
    -------
    Overlap
        Exact in the model where every chunk passes one collective and then the other. Also where it comes back to the
        first, as in a hierarchical all-reduce (reduce-scatter, across, all-gather), if the second is the slower; if it
        is not, an upper bound, at most a chunk's time across too long.

    Raises
    ------
    ValueError
        An argument is not a Collective, ``chunks`` is not a whole number of at least 1, or it is not given and neither
        collective has latency: ever more chunks would be faster.

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
    (latency_1, transfer_1), (latency_2, transfer_2) = _latency_and_transfer(first=first, second=second)

    def cost(k):
        slower = latency_1 + transfer_1 / k >= latency_2 + transfer_2 / k
        each, once = np.where(slower, latency_1, latency_2), np.where(slower, latency_2, latency_1)
        longer, other = np.where(slower, transfer_1, transfer_2), np.where(slower, transfer_2, transfer_1)
        return Overlap(k, (k * each + once)[()], longer[()], (other / k)[()])

    if chunks is not None:
        (k,) = whole(chunks=chunks)
        nonnegative(first=first.time, second=second.time, chunks=k)  # together: do their shapes fit?
        return cost(k)
    if np.any((latency_1 + latency_2 <= 0) & (transfer_1 > 0) & (transfer_2 > 0)):
        raise ValueError("chunks must be given where neither collective has latency, got None")
    with np.errstate(divide="ignore", invalid="ignore"):
        slopes = np.divide(transfer_2, latency_1) ** 0.5, np.divide(transfer_1, latency_2) ** 0.5
        turns = (
            *slopes,
            np.divide(transfer_1 - transfer_2, latency_2 - latency_1),
        )  # the last: both stages equally slow
    best = 1.0
    for turn in turns:  # the best is next to one of these
        for k in (np.floor(turn), np.ceil(turn)):
            k = np.where(np.isfinite(k) & (k >= 1), k, 1.0)
            best = np.where(cost(k).time < cost(best).time, k, best)[()]
    return cost(best)


# --- Comparing -------------------------------------------------------------------------------------------------------

_BUS_FACTORS = {
    "all-reduce": lambda n: 2 * (n - 1) / n,
    "all-gather": lambda n: (n - 1) / n,
    "reduce-scatter": lambda n: (n - 1) / n,
    "all-to-all": lambda n: (n - 1) / n,
    "broadcast": lambda n: n / n,
    "send-receive": lambda n: n / n,
}


def bus_factor(operation, n):
    r"""Bus bandwidth over algorithm bandwidth: what nccl-tests multiplies by so that ranks drop out of the number.

    .. math:: \text{busbw} = f(n) \cdot \text{algbw}, \qquad \text{algbw} = S/T

    Parameters
    ----------
    operation : str
        ``"all-reduce"``: f = 2 (n - 1) / n. ``"all-gather"``, ``"reduce-scatter"``, ``"all-to-all"``: (n - 1) / n.
        ``"broadcast"``, ``"send-receive"``: 1.
    n : array_like
        Ranks.

    Returns
    -------
    array_like
        The factor f, without unit.

    Raises
    ------
    ValueError
        The operation is none of these, or ``n`` is not a whole number of at least 1.

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
    (n,) = whole(n=n)
    return _BUS_FACTORS[operation](n)


def crossover_size(first: Collective, second: Collective):
    r"""Size at which two collectives take the same time: the one with less latency wins below, the other above.

    .. math:: S = \frac{L_2 - L_1}{t_1 - t_2}

    Parameters
    ----------
    first, second : Collective
        Two laws for the same ranks and links at any positive size, each of them linear in its size: L is the latency
        and t the transfer for each byte. (Double trees are linear at a fixed number of chunks.)

    Returns
    -------
    array_like
        Bytes; NaN where one of the two is faster at every size.

    Raises
    ------
    ValueError
        An argument is not a Collective, or its size is zero.

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
    _latency_and_transfer(first=first, second=second)
    positive(**{"first size": first.size, "second size": second.size})
    slope, other = first.transfer / first.size, second.transfer / second.size
    slower = np.where(np.abs(slope - other) > 1e-12 * other, slope - other, 0)  # rounding does not make lines cross
    with np.errstate(divide="ignore", invalid="ignore"):
        size = np.divide(second.latency - first.latency, slower)
        return np.where(np.isfinite(size) & (size > 0), size, np.nan)[()]


@dataclass(frozen=True, repr=False)
class Comparison(Explained):
    """The time of each algorithm, by name, in seconds. Fields broadcast."""

    times: Mapping[str, float]

    @property
    def time(self):
        """Seconds of the fastest."""
        return reduce(np.minimum, self.times.values())

    @property
    def best(self):
        """Name of the fastest (the first of equals)."""
        fastest = np.array(list(self.times))[np.argmin(np.broadcast_arrays(*self.times.values()), axis=0)]
        return str(fastest) if np.ndim(fastest) == 0 else fastest

    def _rows(self):
        return [("algorithm", "time"), *((name, summary(time, "s")) for name, time in self.times.items())]


def best_all_reduce(size, n, *, bandwidth, latency) -> Comparison:
    r"""Time of every flat all-reduce for a size and a number of ranks, and which is best.

    .. math:: T = \min_a T_a(S, n)

    Parameters
    ----------
    size, n : array_like
        Bytes of the buffer, S, and ranks.
    bandwidth, latency : array_like
        Bytes/s of a rank's link, B, and seconds for each round, alpha, above zero.

    Returns
    -------
    Comparison
        The double tree with its best number of chunks, at its upper bound; the others exact. The model has no
        contention: halving-doubling never loses to the ring on a power of two, while in a network its distant partners
        share links and the neighbours of a ring do not.

    Raises
    ------
    ValueError
        An argument is negative or not finite, ``bandwidth`` or ``latency`` is zero, or ``n`` is not a whole number.

    Notes
    -----
    Source: Thakur, Rabenseifner and Gropp 2005 choose between the two recursive algorithms in this way.

    Examples
    --------
    >>> best_all_reduce([1e3, 1e6, 1e9, 1e11], 1000, bandwidth=50e9, latency=5e-6).best.tolist()
    ['recursive doubling', 'halving-doubling', 'double tree', 'ring']
    """
    link = {"bandwidth": bandwidth, "latency": latency}
    chunks = double_tree_chunks(size, n, **link)
    costs = {
        "ring": ring_all_reduce(size, n, **link),
        "tree": tree_all_reduce(size, n, **link),
        "double tree": double_tree_all_reduce(size, n, **link, chunks=chunks),
        "recursive doubling": recursive_doubling_all_reduce(size, n, **link),
        "halving-doubling": halving_doubling_all_reduce(size, n, **link),
    }
    return Comparison(MappingProxyType({name: cost.time for name, cost in costs.items()}))
