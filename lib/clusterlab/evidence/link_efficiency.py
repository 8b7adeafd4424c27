"""Efficiencies of links: what carries over from machines that were timed to one that nobody has timed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from statistics import median
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from ..catalogue import FABRICS, PROTOCOLS
from ..records import Explained, Rows, words
from ..units import fmt, us
from .link_plans import CACHED, plans
from .timings import EXPERTS, Timing

# --- From machine to machine -----------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class LinkEfficiencyFit(Explained):
    """What carries over from some machines to another.

    ``scale_up_ring`` to ``one_channel`` are shares of a wire's rate, by the way in which bytes cross it. ``host`` is
    the least that a launch takes, in seconds, where the host launches collectives one by one; ``fabrics`` are seconds
    that a hop across adds to NCCL's, by fabric. ``machines`` says how many machines showed each.
    """

    scale_up_ring: float = 1.0
    mesh: float = 1.0
    all_to_all: float = 1.0
    network_ring: float = 1.0
    tcp: float = 1.0
    in_network: float = 1.0
    one_channel: float = 1.0
    host: float = 0.0
    fabrics: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}), hash=False)
    machines: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}), hash=False)

    def fabric_latency(self, name: str) -> float:
        """Seconds that a hop across a fabric adds; of one that no machine has shown, the median of those shown."""
        if name in self.fabrics:
            return self.fabrics[name]
        shown = [self.fabrics[kin] for kin in _UNSAID if kin in self.fabrics] if not name else []
        return median(shown or list(self.fabrics.values()) or [0.0])

    def _rows(self) -> Rows:
        shares = [(words(kind), fmt(getattr(self, kind), "%"), kind) for kind in _BANDWIDTHS]
        shares.append(("host", fmt(self.host, "s", 2), "host"))
        rows = [("efficiency", "value", "machines")]
        rows += [(name, value, str(self.machines.get(kind, 0))) for name, value, kind in shares]
        fabrics = [
            (f"a hop of {name}", f"+ {fmt(extra, 's', 2)}", str(self.machines[name]))
            for name, extra in self.fabrics.items()
        ]
        return rows + fabrics


_BANDWIDTHS = ("scale_up_ring", "mesh", "all_to_all", "network_ring", "tcp", "in_network", "one_channel")
_UNSAID = ("InfiniBand", "RoCE")  # what "RDMA" may be, where a row says no more


def fit_link_efficiency(timings: Iterable[Timing]) -> LinkEfficiencyFit:
    """Fit what carries over from one machine to another: medians over machines, each of which counts once.

    A machine is one publication and one kind of GPU. Each of its systems (operation, number of ranks, set of links)
    shows its share of the wires' rate with its largest message, if one wire clearly sets the time, and its latency with
    its small ones, if they are mostly that; the machine shows the median of its systems.

    Parameters
    ----------
    timings
        Rows of any number of sources. Those of quality C are left out.

    Returns
    -------
    LinkEfficiencyFit
        A share that no machine shows is that of its nearest kin: ``tcp``, ``in_network`` and ``one_channel`` of
        ``network_ring``, ``all_to_all`` and ``mesh`` of ``scale_up_ring``.

    Raises
    ------
    ValueError
        No row shows the rate of a wire.

    Notes
    -----
    A system that nobody has timed is predicted from its links alone, as NCCL itself plans: every algorithm in every
    protocol (:class:`~clusterlab.catalogue.Protocol`) has a latency and a transfer, and the fastest is taken.
    Low-latency protocols send small messages, at a fraction of the rate; trees have few steps, rings the full rate, and
    switches that reduce halve the bytes. From other machines is taken what carries over, never a constant for a system:

    ``scale_up_ring``, ``mesh``, ``all_to_all``, ``network_ring``, ``tcp``, ``in_network``, ``one_channel``
        the share of a wire's rate, by the way in which bytes cross it: between neighbours on NVLink or PCIe and into
        switches that reduce and multicast (:func:`~clusterlab.interconnect.multicast_all_reduce`, slowed as NCCL knows
        that such switches are); over the links of a full mesh; between all pairs at once; between nodes, by remote
        direct memory access, and over TCP; into switches between nodes that reduce (SHARP), which a ring's share does
        not foretell; and in the one channel that a message between nodes has where there are more than 64 ranks;
    ``host``
        what a host needs to launch a collective, where the benchmark does not hide that: the least that anything takes;
    ``fabrics``
        what a fabric adds to NCCL's latency of a hop between nodes (:class:`~clusterlab.catalogue.FabricLatency`): next
        to nothing for InfiniBand, tens of microseconds for the first EFA. Of a fabric that no other machine has, the
        median of all.

    Across nodes a ring passes all its bytes through the network ports of the GPUs in use, all ports together. A tree,
    or the switches of every node with a tree above them, pass fewer.

    Examples
    --------
    >>> from clusterlab.evidence import published_timings
    >>> fit_link_efficiency(published_timings())
    LinkEfficiencyFit
    efficiency              value  machines
    scale up ring           81.3%        27
    mesh                    74.5%         2
    all to all              72.4%        16
    network ring              96%        12
    tcp                       80%         3
    in network              73.4%         1
    one channel             31.3%         3
    host                    42 µs         7
    a hop of InfiniBand  + 550 ns         4
    a hop of RoCE        + 9.3 µs         5
    a hop of EFA v1       + 70 µs         4
    a hop of EFA          + 15 µs         1
    a hop of TCPXO        + 50 µs         1
    a hop of TCPX        + 430 µs         1
    a hop of TCP          + 45 µs         1
    a hop of Slingshot    + 20 µs         2
    """
    return _fitted_efficiency(tuple(timings))


@lru_cache(maxsize=128)
def _fitted_efficiency(timings: tuple[Timing, ...]) -> LinkEfficiencyFit:
    systems = _systems(timings)
    if not systems:
        raise ValueError("timings must hold at least one row that names its links, to fit their efficiency")
    efficiency = LinkEfficiencyFit()
    for _ in range(_ROUNDS):  # shares and latencies lean on each other
        before, efficiency = efficiency, _median_by_machine(systems, efficiency)
        if _near(before, efficiency):
            break
    return efficiency


_ROUNDS = 20  # the published rows settle in a few


def _near(one: LinkEfficiencyFit, other: LinkEfficiencyFit) -> bool:
    """Whether two fits are the same to a billionth."""

    def numbers(fit: LinkEfficiencyFit) -> list[float]:
        return [*(getattr(fit, kind) for kind in (*_BANDWIDTHS, "host")), *fit.fabrics.values()]

    same = one.fabrics.keys() == other.fabrics.keys()
    return same and bool(np.allclose(numbers(one), numbers(other), rtol=1e-9, atol=1e-15))


def _systems(timings: Iterable[Timing]) -> dict[tuple, list[Timing]]:
    """The rows of each system, whose key begins with its machine."""
    systems: dict[tuple, list[Timing]] = {}
    for row in timings:
        # Rates at the bottleneck of an expert kernel count bytes that it never sees: some are above their wire's.
        counted = row.operation != EXPERTS or row.logical
        if row.quality != "C" and counted and (row.scale_up or row.nodes > 1):
            links = (row.scale_up, row.network, row.fabric, row.in_switch)
            key = (row.machine or row.source, row.source, row.operation, row.ranks, row.nodes, links)
            systems.setdefault(key, []).append(row)
    return systems


def _median_by_machine(systems: Mapping[tuple, list[Timing]], efficiency: LinkEfficiencyFit) -> LinkEfficiencyFit:
    """Medians over machines of what their systems show, given ``efficiency`` for the part that they do not show."""
    shown: dict[str, dict[str, list[float]]] = {}
    for (machine, *_), rows in systems.items():
        for kind, value in (_shown_bandwidth(rows, efficiency) | _shown_latency(rows, efficiency)).items():
            shown.setdefault(kind, {}).setdefault(machine, []).append(value)
    machines = {kind: [median(values) for values in each.values()] for kind, each in shown.items()}

    def of(kind: str, otherwise: float) -> float:
        return median(machines[kind]) if kind in machines else otherwise

    scale_up = of("scale_up_ring", of("all_to_all", of("network_ring", 1.0)))
    network = of("network_ring", of("tcp", scale_up))
    fabrics = {name: median(machines[name]) for name in FABRICS if name in machines}
    return LinkEfficiencyFit(
        scale_up_ring=scale_up,
        mesh=of("mesh", scale_up),
        all_to_all=of("all_to_all", scale_up),
        network_ring=network,
        tcp=of("tcp", network),
        in_network=of("in_network", network),
        one_channel=of("one_channel", network),
        host=of("host", 0.0),
        fabrics=MappingProxyType(fabrics),
        machines=MappingProxyType({kind: len(machines.get(kind, ())) for kind in (*_BANDWIDTHS, "host", *fabrics)}),
    )


_CLEAR = 0.75  # one wire sets the time where no other would need more than this part of it: shares differ by a quarter
_SMALL = 1 / 4  # a message is mostly latency where its transfer is no longer than this part of its time
_TRIFLE = 1 / 20  # a message shows the rate of its wire where its latency is at most this part of its transfer
_HOST = 8  # GPUs of the largest host


def _shown_bandwidth(rows: list[Timing], efficiency: LinkEfficiencyFit) -> dict[str, float]:
    """The share of a wire's rate that a system gets with its largest message, if one wire clearly sets the time."""
    large = max(rows, key=lambda row: row.size)
    parts = predicted_parts(large, efficiency)
    transfer = _remainder(parts.latency, large.seconds, parts.again)
    over = large.nodes > 1 and parts.kind in ("scale_up_ring", "mesh")  # the law of a ring is for one node
    if over or not parts.clear or parts.latency > _TRIFLE * transfer:
        return {}
    return {parts.kind: min(parts.wire / transfer, 1.0)}


def _shown_latency(rows: list[Timing], efficiency: LinkEfficiencyFit) -> dict[str, float]:
    """What the small messages of a system say of latency, of those that are mostly that: the median.

    Where the host launches one by one, what that takes; between nodes, what the fabric adds to a hop.
    """
    large = max(rows, key=lambda row: row.size)
    small = [
        row
        for row in rows
        if row.size < np.inf
        and row.seconds / row.payload > 2 * large.seconds / large.payload  # its time does not grow with its size
        and predicted_parts(row, efficiency).transfer <= _SMALL * row.seconds
    ]
    if small and small[0].host:
        return {"host": median([row.seconds for row in small])}
    # Hops between the hosts of one NVLink domain are not known to be as short as those inside a host.
    if not small or small[0].nodes == 1 or not small[0].fabric or small[0].ranks // small[0].nodes > _HOST:
        return {}
    return {small[0].fabric: median([_added(row, efficiency) for row in small])}


def _added(row: Timing, efficiency: LinkEfficiencyFit) -> float:
    """What a hop adds, so that a row comes out as measured: so much that no candidate is faster; at least nothing."""
    needed = [
        (_remainder(_busiest(one, efficiency)[0], row.seconds, one.again) - one.latency) / one.waits
        for one in _candidates(row)
        if one.waits
    ]
    return max(0.0, *needed)


def _remainder(known: float, total: float, again: float) -> float:
    """The other part of a pipelined time: y with known + y + sqrt(again known y) = total; 0 where known is more."""
    if total <= known:
        return 0.0
    part = again * known
    return (((4 * (total - known) + part) ** 0.5 - part**0.5) / 2) ** 2


# --- A prediction: the fastest of all algorithms and protocols -------------------------------------------------------


class PredictedParts(NamedTuple):
    """A prediction: its latency and transfer, the wire that sets the transfer, and that wire's seconds at full rate."""

    time: float
    latency: float
    transfer: float
    again: float  # the share of the latency that chunks wait for: filling is sqrt(again latency transfer)
    kind: str
    wire: float
    clear: bool  # whether no other wire, if there is one, would need nearly as long


def predicted_parts(timing: Timing, efficiency: LinkEfficiencyFit) -> PredictedParts:
    """The fastest of all algorithms and protocols, but not faster than the host.

    The root of :func:`~clusterlab.interconnect.pipelined_time` was measured on 8 GPUs, whose ring has 14 steps. Chunks
    of a longer ring follow one another as closely: of its latency the root counts what 14 steps are.
    """
    fabric = efficiency.fabric_latency(timing.fabric) if timing.nodes > 1 else 0.0
    best = None
    for one in _candidates(timing):
        latency, (transfer, kind, wire) = one.latency + one.waits * fabric, _busiest(one, efficiency)
        time = latency + transfer + (one.again * latency * transfer) ** 0.5
        if best is None or time < best[0]:
            best = (time, latency, transfer, kind, wire, one)
    if best is None:
        raise ValueError(f"{timing.source}, {timing.row}: no algorithm of NCCL does this")
    time, latency, transfer, kind, wire, one = best
    if timing.host and np.isfinite(timing.size):
        time = max(time, efficiency.host)
    limit = _CLEAR * transfer * one.share
    clear = all(full / getattr(efficiency, other) <= limit for other, full in one.wires if other != kind)
    return PredictedParts(time, latency, transfer, one.again, kind, wire, clear)


def _busiest(one: _Candidate, efficiency: LinkEfficiencyFit) -> tuple[float, str, float]:
    """Seconds of the busiest wire, its kind, and its seconds at full rate."""
    return max((full / one.share / getattr(efficiency, kind), kind, full / one.share) for kind, full in one.wires)


_OVERHEAD = {"LL": 1 * us, "LL128": 1 * us, "Simple": 3 * us}  # of a ring's step between nodes: NCCL's, on Intel CPUs
_OF_ALGORITHM = {
    algorithm: [(name.split(", ")[1], one) for name, one in PROTOCOLS.items() if name.startswith(algorithm)]
    for algorithm in ("ring", "tree", "NVLS")
}


_FILLS = 14  # steps of a ring of 8 GPUs
# What NCCL takes off the rate of a tree over nodes, by the size: 64 B and every doubling, to 128 MB: its
# treeCorrectionFactor (src/graph/tuning.cc). A tree over single GPUs shows none of it.
_TREE = {
    "LL": (1, 1, 1, 1, 0.9, 0.8, 0.7, 0.7, 0.7, 0.7, 0.6, 0.5, 0.4, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1, 1, 1),
    "LL128": (1, 1, 1, 1, 1, 0.9, 0.8, 0.8, 0.8, 0.7, 0.6, 0.6, 0.6, 0.5, 0.6, 0.6, 0.7, 0.7, 0.8, 0.9, 0.9, 1),
    "Simple": (*7 * (0.9,), 0.8, 0.7, 0.6, 0.6, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.6, 0.6, 0.7, 0.8, 0.9),
}


class _Candidate(NamedTuple):
    """An algorithm in a protocol: wires and their seconds at full rate, NCCL's latency, and waits for the fabric."""

    wires: tuple[tuple[str, float], ...]
    latency: float
    waits: float
    share: float
    again: float  # the share of the latency that chunks wait for


@lru_cache(maxsize=CACHED)
def _candidates(timing: Timing) -> tuple[_Candidate, ...]:
    """All that NCCL may choose from. A plateau has no latency, and its messages no flags."""
    finite, found = np.isfinite(timing.size), []
    bare = timing.ranks == timing.nodes  # with one GPU in each node nothing hides a hop: NCCL takes the tree's
    nvlink = (timing.scale_up_latency or 0.0) <= PROTOCOLS["ring, Simple"].nvlink
    for plan in plans(timing):
        for name, protocol in _OF_ALGORITHM[plan.algorithm]:
            if name != "Simple" and (not finite or (name == "LL128" and plan.across + plan.inside <= 1)):
                continue
            inside = protocol.nvlink if nvlink else protocol.pcie
            if timing.nodes > 1 and plan.algorithm == "ring":
                inside = max(inside, _OVERHEAD[name])
            across = PROTOCOLS[f"tree, {name}"].network if bare and plan.algorithm == "ring" else protocol.network
            latency = protocol.base + plan.inside * inside + plan.across * across
            waits = plan.across * protocol.crossings
            if not finite:
                latency, waits = 0.0, 0.0
            share, again = protocol.share, min(1.0, _FILLS / max(plan.inside + plan.across, 1.0))
            if plan.algorithm == "tree" and not bare and 64 <= timing.size < 2**28:
                share *= _TREE[name][int(np.log2(timing.size / 64))]
            found.append(_Candidate(tuple(plan.wires.items()), latency, waits, share, again))
    return tuple(found)
