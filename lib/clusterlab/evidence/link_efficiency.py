"""Efficiencies of links: what carries over from machines that were timed to one that nobody has timed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from statistics import median, median_low
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from ..catalogue import FABRICS, PROTOCOLS, links
from ..records import Explained, Rows, words
from ..units import fmt, us
from .link_plans import CACHED, plans
from .timings import EXPERTS, Timing
from .wires import link_wires

# --- From machine to machine -----------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class LinkEfficiencyFit(Explained):
    """What carries over from some machines to another.

    ``scale_up_ring`` to ``one_channel`` are shares of a wire's rate, by the way in which bytes cross it. ``host`` is
    the least that a launch takes, in seconds, where the host launches collectives one by one; ``fabrics`` are seconds
    that a hop across adds to NCCL's, by fabric, and ``links`` those that a hop inside adds, by generation of NVLink.
    ``machines`` says how many machines showed each.
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
    links: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}), hash=False)
    machines: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}), hash=False)

    def fabric_latency(self, name: str) -> float:
        """Seconds that a hop across a fabric adds; of one that no machine has shown, the lower median of its kin shown.

        Kin are the fabrics over TCP, where a process of the host handles every message, or all others, whose cards
        write into the other node's memory. What else delays small messages counts as added by the hop, so of two
        middle ones the lower is nearer to a hop. With none named it is InfiniBand's or RoCE's.
        """
        if name in self.fabrics:
            return self.fabrics[name]
        kin = [one for one in self.fabrics if (one in _OVER_TCP) == (name in _OVER_TCP)]
        unsaid = [self.fabrics[one] for one in _UNSAID if one in self.fabrics] if not name else []
        if unsaid:
            return median(unsaid)
        return median_low([self.fabrics[one] for one in kin or self.fabrics] or [0.0])

    def _rows(self) -> Rows:
        shares = [(words(kind), fmt(getattr(self, kind), "%"), kind) for kind in _BANDWIDTHS]
        shares.append(("host", fmt(self.host, "s", 2), "host"))
        rows = [("efficiency", "value", "machines")]
        rows += [(name, value, str(self.machines.get(kind, 0))) for name, value, kind in shares]
        fabrics = [
            (f"a hop of {name}", f"+ {fmt(extra, 's', 2)}", str(self.machines[name]))
            for name, extra in {**self.links, **self.fabrics}.items()
        ]
        return rows + fabrics


_BANDWIDTHS = ("scale_up_ring", "mesh", "all_to_all", "network_ring", "tcp", "in_network", "one_channel")
_NVLINKS = tuple(dict.fromkeys(wires.nvlink for wires in map(link_wires, links()) if wires.nvlink))
_UNSAID = ("InfiniBand", "RoCE")  # what "RDMA" may be, where a row says no more
_OVER_TCP = ("TCP", "TCPX", "TCPXO")


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
        not foretell; and in a channel, of the half port that each of the two has which a message between nodes goes
        through, or the one where there are more than 64 ranks;
    ``host``
        what a host needs to launch a collective, where the benchmark does not hide that: the least that anything takes;
    ``fabrics``
        what a fabric adds to NCCL's latency of a hop between nodes (:class:`~clusterlab.catalogue.FabricLatency`): next
        to nothing for InfiniBand, tens of microseconds for the first EFA. Of a fabric that no other machine has, the
        lower median of its kin: over TCP, or not (:meth:`LinkEfficiencyFit.fabric_latency`).

    ``links``
        what a generation of NVLink adds to NCCL's latency of a hop inside a node, which is the same for all: nothing to
        NVLink 4, which it is right for, and to NVLink 5 nearly as much again in the low-latency protocol. NCCL's own
        number counts as that of one machine more, and half of the machines are not enough to overrule it.

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
    in network              72.6%         2
    one channel             62.7%         3
    host                    42 µs         8
    a hop of NVLink 3       + 0 s         1
    a hop of NVLink 4       + 0 s         2
    a hop of NVLink 5    + 560 ns         4
    a hop of InfiniBand  + 550 ns         4
    a hop of RoCE        + 7.3 µs         5
    a hop of EFA v1       + 70 µs         4
    a hop of EFA          + 11 µs         1
    a hop of TCPXO        + 50 µs         1
    a hop of TCPX        + 430 µs         1
    a hop of TCP          + 45 µs         1
    a hop of Slingshot    + 20 µs         2
    """
    timings = tuple(timings)
    return fits_to_some(timings)([True] * len(timings))


def fits_to_some(timings: tuple[Timing, ...]) -> Callable[[Sequence[bool]], LinkEfficiencyFit]:
    """What fits to those rows of a table that are kept: what NCCL may choose from is laid out once for all fits."""
    systems = _systems(timings)
    return lambda kept: _fitted_efficiency(systems, bytes(kept))


@lru_cache(maxsize=128)
def _fitted_efficiency(systems: _Systems, kept: bytes) -> LinkEfficiencyFit:
    systems = systems.of(np.frombuffer(kept, bool))
    if not systems.each:
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
        return [*(getattr(fit, kind) for kind in (*_BANDWIDTHS, "host")), *fit.fabrics.values(), *fit.links.values()]

    same = one.fabrics.keys() == other.fabrics.keys() and one.links.keys() == other.links.keys()
    return same and bool(np.allclose(numbers(one), numbers(other), rtol=1e-9, atol=1e-15))


class _System(NamedTuple):
    """Rows of one system by their places: its largest message, and those whose time does not grow with their size."""

    machine: str
    rows: np.ndarray
    large: int
    small: np.ndarray


@dataclass(frozen=True, eq=False)
class _Systems:
    """Rows of systems, and all that NCCL may choose from for each."""

    counted: np.ndarray  # places of the rows in their table
    choices: _Choices
    sizes: np.ndarray
    rates: np.ndarray  # seconds of a byte
    over: np.ndarray  # whether a row is between nodes
    latencies: list[str]  # what the latency of a row shows, if anything
    each: list[_System]

    def system(self, machine: str, rows: np.ndarray) -> _System:
        """Return a system of some of the rows."""
        large = int(rows[np.argmax(self.sizes[rows])])
        small = (self.sizes[rows] < np.inf) & (self.rates[rows] > 2 * self.rates[large])
        return _System(machine, rows, large, rows[small])

    def of(self, kept: np.ndarray) -> _Systems:
        """Return the systems of those rows of the table that are kept. Rows are not asked about one another."""
        there, each = kept[self.counted], []
        for system in self.each:
            mask = there[system.rows]
            if mask.all():
                each.append(system)
            elif mask.any():
                each.append(self.system(system.machine, system.rows[mask]))
        return replace(self, each=each)


@lru_cache(maxsize=8)
def _systems(timings: tuple[Timing, ...]) -> _Systems:
    """The systems of some rows: an operation on one machine, with its ranks and links."""
    places: dict[tuple, list[int]] = {}
    counted: list[int] = []
    for at, row in enumerate(timings):
        # Rates at the bottleneck of an expert kernel count bytes that it never sees: some are above their wire's.
        seen = row.operation != EXPERTS or row.logical
        if row.quality != "C" and seen and (row.scale_up or row.nodes > 1):
            links = (row.scale_up, row.network, row.fabric, row.in_switch, row.network_adds, row.algorithm)
            key = (row.machine or row.source, row.source, row.operation, row.ranks, row.nodes, links)
            places.setdefault(key, []).append(len(counted))
            counted.append(at)
    rows = [timings[at] for at in counted]
    choices = _Choices.of(rows)
    hops = choices.inside.max(axis=1, initial=0.0)
    found = _Systems(
        counted=np.array(counted, int),
        choices=choices,
        sizes=np.array([row.size for row in rows]),
        rates=np.array([row.seconds / row.payload for row in rows]),
        over=np.array([row.nodes > 1 for row in rows], bool),
        latencies=[_latency_shown(row, count) for row, count in zip(rows, hops, strict=True)],
        each=[],
    )
    return replace(found, each=[found.system(key[0], np.array(where)) for key, where in places.items()])


_HOST = 8  # GPUs of the largest host


def _latency_shown(row: Timing, hops: float) -> str:
    """What the small messages of a row's system show, whose candidates have at most so many hops inside a node.

    Where the host launches one by one, what that takes; between nodes, what the fabric adds to a hop; inside one, what
    its NVLink adds, by operations with several hops, as one is not told from the launch.
    """
    if row.host:
        return "host"
    if row.nodes > 1:
        # Hops between the hosts of one NVLink domain are not known to be as short as those inside a host.
        return row.fabric if row.ranks // row.nodes <= _HOST else ""
    return row.nvlink if hops > 1 else ""


def _median_by_machine(systems: _Systems, efficiency: LinkEfficiencyFit) -> LinkEfficiencyFit:
    """Medians over machines of what their systems show, given ``efficiency`` for the part that they do not show."""
    shown: dict[str, dict[str, list[float]]] = {}
    parts, added = systems.choices.predicted(efficiency), systems.choices.added(efficiency)
    bandwidths, latencies = _shown_bandwidths(systems, parts), _shown_latencies(systems, parts, added)
    for system, *found in zip(systems.each, bandwidths, latencies, strict=True):
        for kind, value in filter(None, found):
            shown.setdefault(kind, {}).setdefault(system.machine, []).append(value)
    machines = {kind: [median(values) for values in each.values()] for kind, each in shown.items()}

    def of(kind: str, otherwise: float) -> float:
        return median(machines[kind]) if kind in machines else otherwise

    scale_up = of("scale_up_ring", of("all_to_all", of("network_ring", 1.0)))
    network = of("network_ring", of("tcp", scale_up))
    fabrics = {name: median(machines[name]) for name in FABRICS if name in machines}
    links = {name: median_low([0.0, *machines[name]]) for name in _NVLINKS if name in machines}
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
        links=MappingProxyType(links),
        machines=MappingProxyType(
            {kind: len(machines.get(kind, ())) for kind in (*_BANDWIDTHS, "host", *links, *fabrics)}
        ),
    )


_CLEAR = 0.75  # one wire sets the time where no other would need more than this part of it: shares differ by a quarter
_SMALL = 1 / 4  # a message is mostly latency where its transfer is no longer than this part of its time
_TRIFLE = 1 / 20  # a message shows the rate of its wire where its latency is at most this part of its transfer


def _shown_bandwidths(systems: _Systems, parts: PredictedParts) -> list[tuple[str, float] | None]:
    """The share of a wire's rate that a system gets with its largest message, if one wire clearly sets the time."""
    transfers = _remainder(parts.latency, systems.choices.seconds, parts.again)
    over = systems.over & np.isin(parts.kind, ("scale_up_ring", "mesh"))  # a ring's law is for one node
    shows = (parts.latency <= _TRIFLE * transfers) & parts.clear & ~over
    return [
        (str(parts.kind[i]), min(float(parts.wire[i] / transfers[i]), 1.0)) if shows[i] else None
        for i in (system.large for system in systems.each)
    ]


def _shown_latencies(systems: _Systems, parts: PredictedParts, added: np.ndarray) -> list[tuple[str, float] | None]:
    """What the small messages of a system say of latency, of those that are mostly that: the median."""
    found: list[tuple[str, float] | None] = []
    seconds = systems.choices.seconds
    mostly = parts.transfer <= _SMALL * seconds
    for system in systems.each:
        small = system.small[mostly[system.small]]
        kind = systems.latencies[small[0]] if small.size else ""
        shown = seconds if kind == "host" else added
        found.append((kind, median(shown[small].tolist())) if kind else None)
    return found


def _remainder(known: np.ndarray, total: np.ndarray, again: np.ndarray) -> np.ndarray:
    """The other part of a pipelined time: y with known + y + sqrt(again known y) = total; 0 where known is more."""
    part = again * known
    return (((4 * np.maximum(total - known, 0.0) + part) ** 0.5 - part**0.5) / 2) ** 2


# --- A prediction: the fastest of all algorithms and protocols -------------------------------------------------------


class PredictedParts(NamedTuple):
    """Predictions: latency and transfer, the wire that sets the transfer, and that wire's seconds at full rate."""

    time: np.ndarray
    latency: np.ndarray
    transfer: np.ndarray
    again: np.ndarray  # the share of the latency that chunks wait for: filling is sqrt(again latency transfer)
    kind: np.ndarray
    wire: np.ndarray
    clear: np.ndarray  # whether no other wire, if there is one, would need nearly as long


def predicted_parts(timings: Sequence[Timing], efficiency: LinkEfficiencyFit) -> PredictedParts:
    """The fastest of all algorithms and protocols for each row, but not faster than the host.

    The root of :func:`~clusterlab.interconnect.pipelined_time` was measured on 8 GPUs, whose ring has 14 steps. Chunks
    of a longer ring follow one another as closely: of its latency the root counts what 14 steps are.
    """
    return _Choices.of(timings).predicted(efficiency)


class _Names(NamedTuple):
    """A name of each row, as places among the different ones."""

    different: list
    places: np.ndarray

    @classmethod
    def of(cls, names: list) -> _Names:
        """Number them."""
        different = list(dict.fromkeys(names))
        numbers = {name: i for i, name in enumerate(different)}
        return cls(different, np.array([numbers[name] for name in names], int))

    def each(self, value: Callable) -> np.ndarray:
        """Return the value of each row's name."""
        return np.array([value(name) for name in self.different])[self.places]


class _Choices(NamedTuple):
    """All that NCCL may choose from for some rows, as arrays, for a fit asks for them again and again.

    The last axis but one is of rows, the last of candidates, as many as the row with the most of them has: those that
    are missing take forever. Of wires the first axis is of those of a candidate.
    """

    seconds: np.ndarray  # measured
    hosts: np.ndarray  # whether the host launches one by one
    fabrics: _Names  # between the nodes; None where there is one node
    nvlinks: _Names  # inside them
    full: np.ndarray  # seconds of each wire at full rate, with the share of it that is no flags
    kinds: np.ndarray  # of wires: places in _BANDWIDTHS
    latency: np.ndarray
    waits: np.ndarray
    inside: np.ndarray  # hops over NVLink
    again: np.ndarray

    @classmethod
    def of(cls, rows: Sequence[Timing]) -> _Choices:
        """Lay the candidates of rows side by side."""
        each = [_candidates(row) for row in rows]
        if bare := next((row for row, some in zip(rows, each, strict=True) if not some), None):
            raise ValueError(f"{bare.source}, {bare.row}: no algorithm of NCCL does this")
        shape = len(rows), max(map(len, each), default=0)
        wires = max((len(one.wires) for some in each for one in some), default=0)
        full, kinds = np.zeros((wires, *shape)), np.zeros((wires, *shape), int)
        latency, waits, inside, again = np.full(shape, np.inf), np.zeros(shape), np.zeros(shape), np.ones(shape)
        full[:1] = 1.0  # of a candidate that is missing, so that no time is of zero times infinity
        for i, some in enumerate(each):
            for j, one in enumerate(some):
                latency[i, j], waits[i, j], inside[i, j], again[i, j] = one.latency, one.waits, one.inside, one.again
                for k, (kind, seconds) in enumerate(one.wires):
                    full[k, i, j], kinds[k, i, j] = seconds / one.share, _BANDWIDTHS.index(kind)
        return cls(
            seconds=np.array([row.seconds for row in rows]),
            hosts=np.array([row.host and bool(np.isfinite(row.size)) for row in rows], bool),
            fabrics=_Names.of([row.fabric if row.nodes > 1 else None for row in rows]),
            nvlinks=_Names.of([row.nvlink for row in rows]),
            full=full,
            kinds=kinds,
            latency=latency,
            waits=waits,
            inside=inside,
            again=again,
        )

    def wires(self, efficiency: LinkEfficiencyFit) -> np.ndarray:
        """Seconds of every wire at the share of its rate that it reaches."""
        return self.full / np.array([getattr(efficiency, kind) for kind in _BANDWIDTHS])[self.kinds]

    def inside_latency(self, efficiency: LinkEfficiencyFit) -> np.ndarray:
        """NCCL's latency of every candidate, and what its hops inside a node add."""
        hop = self.nvlinks.each(lambda name: efficiency.links.get(name, 0.0))
        return self.latency + self.inside * hop[:, None]

    def predicted(self, efficiency: LinkEfficiencyFit) -> PredictedParts:
        """The fastest candidate of each row."""
        hop = self.fabrics.each(lambda name: 0.0 if name is None else efficiency.fabric_latency(name))
        wires = self.wires(efficiency)
        latency, transfer = self.inside_latency(efficiency) + self.waits * hop[:, None], wires.max(axis=0)
        time = latency + transfer + (self.again * latency * transfer) ** 0.5
        best = np.arange(len(time)), time.argmin(axis=1)
        times, kinds = wires[:, *best], self.kinds[:, *best]
        busiest = times.argmax(axis=0), best[0]
        kind, wire = kinds[busiest], self.full[:, *best][busiest]
        clear = ((times <= _CLEAR * transfer[best]) | (kinds == kind)).all(axis=0)
        least = np.where(self.hosts, efficiency.host, 0.0)
        taken = np.maximum(time[best], least), latency[best], transfer[best], self.again[best]
        return PredictedParts(*taken, np.array(_BANDWIDTHS)[kind], wire, clear)

    def added(self, efficiency: LinkEfficiencyFit) -> np.ndarray:
        """What a hop adds, so that a row comes out as measured: so much that no candidate is faster; at least nothing.

        A hop across, of rows between nodes, and else one inside. Of a candidate that waits for no hop, nothing.
        """
        known, alone = self.wires(efficiency).max(axis=0), self.fabrics.each(lambda name: name is None)[:, None]
        hops = np.where(alone, self.inside, self.waits)
        latency = np.where(alone, self.latency, self.inside_latency(efficiency))
        left = _remainder(known, self.seconds[:, None], self.again) - latency
        needed = np.divide(left, hops, out=np.zeros_like(left), where=hops > 0)
        return needed.max(axis=1, initial=0.0)


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
    inside: float  # hops over NVLink
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
            hops = plan.inside if plan.algorithm != "NVLS" and timing.nvlink else 0.0
            if not finite:
                latency, waits, hops = 0.0, 0.0, 0.0
            share, again = protocol.share, min(1.0, _FILLS / max(plan.inside + plan.across, 1.0))
            if plan.algorithm == "tree" and not bare and 64 <= timing.size < 2**28:
                share *= _TREE[name][int(np.log2(timing.size / 64))]
            found.append(_Candidate(tuple(plan.wires.items()), latency, waits, hops, share, again))
    return tuple(found)
