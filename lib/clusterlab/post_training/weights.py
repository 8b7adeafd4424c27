"""Weights: what travels from those that train to those that generate, and how little of it an adapter is."""

from __future__ import annotations

from dataclasses import dataclass

from ..checks import larger
from ..interconnect import point_to_point
from ..quantities import Bytes, BytesPerSecond, Count, Number, Seconds, law
from ..records import Explained, Rows, summary


@dataclass(frozen=True, repr=False)
class WeightRoutes(Explained):
    """Seconds in which new weights reach every generator, by route.

    ``one_source``: one port sends a copy to each replica, one after the other. ``broadcast``: every GPU is passed all
    weights and keeps its share. ``shards``: each GPU is sent its share alone, by as many senders as there are.
    """

    one_source: Seconds
    broadcast: Seconds
    shards: Seconds

    def _rows(self) -> Rows:
        names = ("one_source", "broadcast", "shards")
        return [("", "time"), *((n.replace("_", " "), summary(getattr(self, n), "s")) for n in names)]


@law
def weight_routes(
    size: Bytes,
    *,
    ranks: Count,
    copies: Count,
    senders: Count,
    ports: Count = 1,
    bandwidth: BytesPerSecond,
    latency: Seconds = 0,
) -> WeightRoutes:
    r"""Time in which new weights travel from a trainer to its generators, by three routes.

    .. math:: \frac{c\,W}{B}, \qquad \frac{W}{p\,B}, \qquad \max\!\Big(\frac{W}{r B},\; \frac{c\,W}{s B}\Big)

    Parameters
    ----------
    size
        Bytes of the weights in the generators' format, W.
    ranks
        GPUs of a generating replica, among which its weights are cut, r.
    copies
        Replicas, c.
    senders
        GPUs that train and send, s.
    ports
        Ports of a server, p, that take in a broadcast together: each a part, which NVLink passes on.
    bandwidth, latency
        Of the port of one GPU, B; a hop.

    Returns
    -------
    WeightRoutes
        In a broadcast each server passes on what it gets, so that it costs no more for more replicas; a share goes
        straight from who has it to who needs it, and the fuller side sets the time.

    Notes
    -----
    Derived; the routes are those of Kimi K2 (checkpoint-engine) for the broadcast and of point-to-point writes (RDMA)
    for shares. What engines take to load them is no wire's: published updates are several times slower.

    Examples
    --------
    A trillion weights in 8 bits to 16 replicas of 16 GPUs, from 256, at 50 GB/s a port:

    >>> weight_routes(1e12, ranks=16, copies=16, senders=256, ports=8, bandwidth=50e9)
    WeightRoutes
                    time
    one source  5.33 min
    broadcast      2.5 s
    shards        1.25 s
    """
    whole = point_to_point.unchecked(size, bandwidth=bandwidth, latency=latency).time
    passed = point_to_point.unchecked(size / ports, bandwidth=bandwidth, latency=latency).time
    share = point_to_point.unchecked(size / ranks, bandwidth=bandwidth, latency=latency).time
    sent = point_to_point.unchecked(copies * size / senders, bandwidth=bandwidth, latency=latency).time
    nothing = 0.0 * (ranks + copies + senders + ports) * whole
    return WeightRoutes(copies * whole + nothing, passed + nothing, larger(share, sent))


@law
def adapter_parameters(inputs: Number, outputs: Number, *, rank: Count, matrices: Count = 1) -> Number:
    r"""Parameters of low-rank adapters (LoRA) beside matrices that stay as they are.

    .. math:: k\, r\, (d_\text{in} + d_\text{out})

    Parameters
    ----------
    inputs, outputs
        Sides of a matrix.
    rank
        Of its adapter, r.
    matrices
        Matrices that have one, k.

    Returns
    -------
    Number

    Notes
    -----
    Source: Hu et al. 2021 (LoRA), section 4.1: the change of a matrix is a product of two of r columns.

    Examples
    --------
    Two matrices in each of GPT-3's 96 layers, at rank 1:

    >>> float(adapter_parameters(12288, 12288, rank=1, matrices=2 * 96))
    4718592.0
    """
    return matrices * rank * (inputs + outputs)
