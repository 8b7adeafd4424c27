"""Plans of a collective: the algorithms that NCCL may run, and seconds of each on every kind of wire at full rate."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from ..interconnect import bus_factor, mesh_all_gather, multicast_all_reduce
from ..units import GB
from .timings import EXPERTS, Timing

CACHED = 8192  # rows whose algorithms are kept: the fit of link efficiencies asks for them again and again
_AT_ONCE = 8  # messages to other nodes that NCCL has under way: NCCL_MAX_DEV_WORK_P2P_PER_BATCH
_CHANNEL = 14 * GB  # bytes/s that NCCL expects of a channel between nodes: NCCL_P2P_PER_CHANNEL_NET_BW
_ONE_CHANNEL = 64  # ranks beyond which NCCL sends to a peer in another node through one channel, not two


class Plan(NamedTuple):
    """One way of running a collective: seconds on every kind of wire at its full rate, and hops inside and across."""

    algorithm: str  # ring, tree or NVLS: its protocols
    wires: Mapping[str, float]
    inside: float
    across: float


@lru_cache(maxsize=CACHED)
def plans(timing: Timing) -> tuple[Plan, ...]:
    """What NCCL might run.

    A piece that goes from the first rank of a ring to the last crosses to all nodes but the first; so counts NCCL. Of a
    ring over nodes of g GPUs, g - 1 hops of g are inside. The messages of an all-to-all leave a few at a time. With one
    GPU in each node NCCL gathers in log2 steps. What a row forced alone is kept, if NCCL has it for the operation.
    """
    found = _all_plans(timing)
    return tuple(plan for plan in found if plan.algorithm == timing.algorithm) or found


def _all_plans(timing: Timing) -> tuple[Plan, ...]:
    size, n, nodes, operation = timing.payload, timing.ranks, timing.nodes, timing.operation
    g, network, depth = n // nodes, _network_kind(timing), float(np.ceil(np.log2(nodes)))

    def wires(inside: float, across: float) -> dict[str, float]:
        seconds = {_inside_kind(timing): inside / _inside_rate(timing)} if timing.scale_up and g > 1 else {}
        return seconds | ({network: across / _rate(timing.network)} if nodes > 1 else {})

    if operation in ("send-receive", EXPERTS, "all-to-all"):
        batches = float(np.ceil((n - g) / _AT_ONCE)) if operation == "all-to-all" else float(nodes > 1)
        return (Plan("ring", straight(timing), float(g > 1 and operation != "send-receive") or nodes == 1, batches),)
    around, turns = float(bus_factor(operation, n)) * size, 2 if operation == "all-reduce" else 1
    if timing.mesh and nodes == 1:  # to every peer at once; NCCL's kin RCCL goes around as many rings, with their hops
        bandwidth = _rate(timing.scale_up) / timing.mesh
        gathered = mesh_all_gather(size, n, bandwidth=bandwidth, latency=0.0).transfer
        return (Plan("ring", {"mesh": turns * float(gathered)}, turns, 0),)
    if operation in ("all-gather", "reduce-scatter") and g == 1:
        return (Plan("ring", wires(around, around), 0, depth),)
    stays = (g - 1) / g if nodes > 1 else 1.0
    ring = Plan("ring", wires(around * stays, around), turns * (n - nodes), turns * (nodes - 1))
    if operation != "all-reduce":
        return (ring,)
    # A node with two children in a double tree of nodes sends twice the buffer; of two nodes each has one child.
    between = size if nodes == 2 or timing.network_adds else 2 * size
    # A chain in every node, up and down.
    tree = [Plan("tree", wires(2 * size, between), 2 * (g - 1), 2 * depth)] if nodes > 1 else []
    if timing.in_switch is False or not timing.scale_up:
        return (ring, *tree)
    inside = float(multicast_all_reduce(size, g, bandwidth=1.0, latency=0.0).path_bytes)
    slower = timing.scale_up / (timing.switch or timing.scale_up)
    switched = Plan("NVLS", wires(inside * slower, between), 1, 2 * depth)
    return (switched,) if timing.in_switch else (ring, *tree, switched)


def straight(timing: Timing) -> dict[str, float]:
    """Seconds on the wire of what goes straight from rank to rank: a message, an exchange, tokens to their experts."""
    size, n, nodes, network = timing.payload, timing.ranks, timing.nodes, _network_kind(timing)
    g = n // nodes
    if timing.operation == "send-receive":
        if nodes > 1:
            seconds, channels = size * g / _rate(timing.network), 1 if n > _ONE_CHANNEL else 2
            # NCCL opens two to a peer, so each has half a port; beyond that many ranks one has to do.
            enough = channels * _CHANNEL >= _rate(timing.network) / g
            return {network: seconds} if enough else {"one_channel": seconds * 2 / channels}
        return {_inside_kind(timing): size / (_rate(timing.scale_up) / (timing.mesh or 1))}
    if timing.operation == EXPERTS and not np.isfinite(timing.size):
        # A rate at the bottleneck: of the bytes that cross it or, logical, of all, as a token visits every node alike.
        if nodes > 1:
            return {network: size * g / _rate(timing.network) * ((nodes - 1) / nodes if timing.logical else 1.0)}
        return {"all_to_all": size / _inside_rate(timing) * ((g - 1) / g if timing.logical else 1.0)}
    # Of an exchange (g - 1) / n of each buffer stays inside, (n - g) / n goes through a port. A token with k experts
    # goes to a node once, and is copied there: collectives.expert_all_to_all.
    k = timing.experts or 1
    visited = (nodes - 1) * (1 - (1 - 1 / nodes) ** k) / k
    stays = (g - 1) / g if timing.operation == EXPERTS else (g - 1) / n
    inside = [size * stays / _inside_rate(timing)] if timing.scale_up else []
    across = [size * visited * g / _rate(timing.network)] if nodes > 1 else []
    if timing.operation == EXPERTS and across:
        return {"all_to_all": inside[0], network: across[0]} if inside else {network: across[0]}
    alone = "mesh" if timing.mesh and nodes == 1 else "all_to_all"
    return {network if timing.tcp else alone: max(inside + across)}


def _rate(named: float | None) -> float:
    """The rate of wires that a row must have named."""
    if named is None:
        raise ValueError("a row must name the rate of the wires that its bytes cross")
    return named


def _inside_kind(timing: Timing) -> str:
    return "mesh" if timing.mesh else "scale_up_ring"


def _inside_rate(timing: Timing) -> float:
    """Bytes/s of one GPU inside its node: of a full mesh, those of the links to the GPUs in use."""
    others = timing.ranks // timing.nodes - 1
    return _rate(timing.scale_up) * (min(others, timing.mesh) / timing.mesh if timing.mesh and others else 1.0)


def _network_kind(timing: Timing) -> str:
    if timing.network_adds and timing.operation == "all-reduce":
        return "in_network"
    return "tcp" if timing.tcp else "network_ring"


@lru_cache(maxsize=CACHED)
def algorithms(timing: Timing) -> tuple[Mapping[str, float], ...]:
    """For each algorithm, seconds on every kind of wire at its full rate."""
    return tuple(plan.wires for plan in plans(timing))


def ring_of(timing: Timing) -> tuple[float, float]:
    """Steps and path bytes of the ring, or of the pairwise exchange, which has as many of both."""
    steps = {"all-reduce": 2 * (timing.ranks - 1), "send-receive": 1}.get(timing.operation, timing.ranks - 1)
    if timing.operation == EXPERTS:
        return timing.ranks - 1, timing.payload
    return steps, float(bus_factor(timing.operation, timing.ranks)) * timing.payload
