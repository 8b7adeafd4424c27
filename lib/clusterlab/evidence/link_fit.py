r"""The fit of links: alpha and beta of a real fabric, and what they say about a fabric that nobody has timed.

A row is one timed collective. Its bytes cross wires whose rates a datasheet gives, so it has a least time, w. A system
is fitted by two constants, the latency alpha of one step of the ring and the share f of the wires' rate that it gets:

.. math:: T = L + X \quad\text{or}\quad T = L + X + \sqrt{L X}, \qquad L = \rho\,\alpha, \quad X = w / f,

with rho the steps of the ring. The second form is :func:`~clusterlab.interconnect.pipelined_time`; the one that fits
better is taken. Of all curves through two of the rows, the fit is the one with the least mean absolute relative error.

A system that nobody has timed is predicted from its links alone, as NCCL itself plans: every algorithm in every
protocol (:class:`~clusterlab.catalogue.Protocol`) has a latency and a transfer, and the fastest is taken. Low-latency
protocols send small messages, at a fraction of the rate; trees have few steps, rings the full rate, and switches that
reduce halve the bytes. :func:`fit_link_efficiency` takes from other machines what carries over, never a constant for a
system:

``scale_up_ring``, ``mesh``, ``all_to_all``, ``network_ring``, ``tcp``
    the share of a wire's rate, by the way in which bytes cross it: between neighbours on NVLink or PCIe and into
    switches that reduce and multicast (:func:`~clusterlab.interconnect.multicast_all_reduce`, slowed as NCCL knows that
    such switches are); over the links of a full mesh; between all pairs at once; between nodes, by remote direct memory
    access, and over TCP;
``host``
    what a host needs to launch a collective, where the benchmark does not hide that: the least that anything takes;
``fabrics``
    what a fabric adds to NCCL's latency of a hop between nodes (:class:`~clusterlab.catalogue.Fabric`): next to nothing
    for InfiniBand, tens of microseconds for the first EFA. Of a fabric that no other machine has, the median of all.

Across nodes a ring passes all its bytes through the network ports of the GPUs in use, all ports together. A tree, or
the switches of every node with a tree above them, pass fewer.

Every predicted time has an 80 % interval, from residuals of sources that the constants have not seen
(:func:`learn_spreads`, stored in :data:`clusterlab.catalogue.SPREADS`).
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from statistics import median
from types import MappingProxyType
from typing import ClassVar, NamedTuple

import numpy as np

from ..catalogue import FABRICS, PROTOCOLS, SPREADS, Spread
from ..checks import positive, whole
from ..interconnect import bus_factor, mesh_all_gather, multicast_all_reduce, pipelined_time
from ..records import Explained, Predicted, aligned, say, summary, with_interval, words
from ..units import fmt, us
from . import inference_validation, validation
from .nccl_tests import EXPERTS, Timing, published_timings, read, system_wires
from .text import UNUSABLE, name_of


@dataclass(frozen=True, repr=False)
class LinkFit(Explained):
    """What was fitted to, or predicted for, the rows of one source, and the error that is left.

    ``alpha`` (seconds a step) and ``bandwidth`` (bytes/s of a long message, as a bus bandwidth) are those that a ring
    would have, whatever the operation. ``wire_fraction`` is the share of the busiest wire's rate; a fit finds more than
    1 where the rows move more than the wires that they name. None: the rows do not tell. ``pipelined`` says which form
    the law has. Errors are relative; ``qualities`` are those of the rows. ``low`` and ``high``, of a prediction, are
    the ends of the 80 % interval of each time, in seconds, and ``kinds`` what they are learned by; ``bandwidth_low``
    and ``bandwidth_high`` are those of the bandwidth.
    """

    source: str
    alpha: float | None
    bandwidth: float
    wire_fraction: float | None
    pipelined: bool
    times: tuple[float, ...]
    errors: tuple[float, ...]
    qualities: tuple[str, ...]
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()
    kinds: tuple[str, ...] = ()
    bandwidth_low: float = math.nan
    bandwidth_high: float = math.nan

    @property
    def mean_abs_error(self) -> float:
        """Mean of the absolute relative errors."""
        return float(np.mean(np.abs(self.errors)))

    @property
    def coverage(self) -> float | None:
        """Share of the rows whose measured time lies in its interval; None for a fit, which has none."""
        return float(np.mean(_inside(self))) if self.low else None

    def _rows(self):
        known = {"alpha": (self.alpha, "s"), "wire fraction": (self.wire_fraction, "%")}
        known = {name: "-" if value is None else fmt(value, unit) for name, (value, unit) in known.items()}
        return [
            (self.source, "value"),
            ("rows", str(len(self.errors))),
            ("alpha", known["alpha"]),
            ("bandwidth", say(self, "bandwidth", "B/s")),
            ("wire fraction", known["wire fraction"]),
            ("mean absolute error", fmt(self.mean_abs_error, "%")),
            *([("within the interval", fmt(self.coverage, "%"))] if self.low else []),
        ]


# --- Wires: what a collective has to move, and over which ------------------------------------------------------------


_CACHED = 4096  # rows whose algorithms are kept: the fit of link efficiencies asks for them again and again


class _Plan(NamedTuple):
    """One way of running a collective: seconds on every kind of wire at its full rate, and hops inside and across."""

    algorithm: str  # ring, tree or NVLS: its protocols
    wires: Mapping[str, float]
    inside: float
    across: float


@lru_cache(maxsize=_CACHED)
def _plans(timing: Timing) -> tuple[_Plan, ...]:
    """What NCCL might run.

    A piece that goes from the first rank of a ring to the last crosses to all nodes but the first; so counts NCCL. The
    messages of an all-to-all are all sent at once. With one GPU in each node NCCL gathers in log2 steps.
    """
    size, n, nodes, operation = timing.payload, timing.ranks, timing.nodes, timing.operation
    g, network, depth = n // nodes, _network_kind(timing), float(np.ceil(np.log2(nodes)))

    def wires(inside: float, across: float) -> dict[str, float]:
        seconds = {_inside_kind(timing): inside / _inside_rate(timing)} if timing.scale_up and g > 1 else {}
        return seconds | ({network: across / timing.network} if nodes > 1 else {})

    if operation in ("send-receive", EXPERTS, "all-to-all"):
        return (
            _Plan("ring", _straight(timing), float(g > 1 and operation != "send-receive") or nodes == 1, nodes > 1),
        )
    around, turns = float(bus_factor(operation, n)) * size, 2 if operation == "all-reduce" else 1
    if timing.mesh and nodes == 1:  # to every peer at once; NCCL's kin RCCL goes around as many rings, with their hops
        straight = mesh_all_gather(size, n, bandwidth=timing.scale_up / timing.mesh, latency=0.0).transfer
        return (_Plan("ring", {"mesh": turns * float(straight)}, turns, 0),)
    if operation in ("all-gather", "reduce-scatter") and g == 1:
        return (_Plan("ring", wires(around, around), 0, depth),)
    ring = _Plan("ring", wires(around, around), turns * (n - nodes), turns * (nodes - 1))
    if operation != "all-reduce":
        return (ring,)
    # A node with two children in a double tree of nodes sends twice the buffer; of two nodes each has one child.
    between = size if nodes == 2 or timing.network_adds else 2 * size
    # A chain in every node, up and down.
    tree = [_Plan("tree", wires(2 * size, between), 2 * (g - 1), 2 * depth)] if nodes > 1 else []
    if timing.in_switch is False or not timing.scale_up:
        return (ring, *tree)
    inside = float(multicast_all_reduce(size, g, bandwidth=1.0, latency=0.0).path_bytes)
    slower = timing.scale_up / (timing.switch or timing.scale_up)
    switched = _Plan("NVLS", wires(inside * slower, between), 1, 2 * depth)
    return (switched,) if timing.in_switch else (ring, *tree, switched)


def _straight(timing: Timing) -> dict[str, float]:
    """Seconds on the wire of what goes straight from rank to rank: a message, an exchange, tokens to their experts."""
    size, n, nodes, network = timing.payload, timing.ranks, timing.nodes, _network_kind(timing)
    g = n // nodes
    if timing.operation == "send-receive":
        if nodes > 1:
            return {network: size * g / timing.network}
        return {_inside_kind(timing): size / (timing.scale_up / (timing.mesh or 1))}
    if timing.operation == EXPERTS and not np.isfinite(timing.size):
        # A rate at the bottleneck: of the bytes that cross it or, logical, of all, as a token visits every node alike.
        if nodes > 1:
            return {network: size * g / timing.network * ((nodes - 1) / nodes if timing.logical else 1.0)}
        return {"all_to_all": size / _inside_rate(timing) * ((g - 1) / g if timing.logical else 1.0)}
    # Of an exchange (g - 1) / n of each buffer stays inside, (n - g) / n goes through a port. A token with k experts
    # goes to a node once, and is copied there: collectives.expert_all_to_all.
    k = timing.experts or 1
    visited = (nodes - 1) * (1 - (1 - 1 / nodes) ** k) / k
    stays = (g - 1) / g if timing.operation == EXPERTS else (g - 1) / n
    inside = [size * stays / _inside_rate(timing)] if timing.scale_up else []
    across = [size * visited * g / timing.network] if nodes > 1 else []
    if timing.operation == EXPERTS and across:
        return {"all_to_all": inside[0], network: across[0]} if inside else {network: across[0]}
    alone = "mesh" if timing.mesh and nodes == 1 else "all_to_all"
    return {network if timing.tcp else alone: max(inside + across)}


def _inside_kind(timing: Timing) -> str:
    return "mesh" if timing.mesh else "scale_up_ring"


def _inside_rate(timing: Timing) -> float:
    """Bytes/s of one GPU inside its node: of a full mesh, those of the links to the GPUs in use."""
    others = timing.ranks // timing.nodes - 1
    return timing.scale_up * (min(others, timing.mesh) / timing.mesh if timing.mesh and others else 1.0)


@lru_cache(maxsize=_CACHED)
def _algorithms(timing: Timing) -> tuple[Mapping[str, float], ...]:
    """For each algorithm, seconds on every kind of wire at its full rate."""
    return tuple(plan.wires for plan in _plans(timing))


def _ring(timing: Timing) -> tuple[float, float]:
    """Steps and path bytes of the ring, or of the pairwise exchange, which has as many of both."""
    steps = {"all-reduce": 2 * (timing.ranks - 1), "send-receive": 1}.get(timing.operation, timing.ranks - 1)
    if timing.operation == EXPERTS:
        return timing.ranks - 1, timing.payload
    return steps, float(bus_factor(timing.operation, timing.ranks)) * timing.payload


def _network_kind(timing: Timing) -> str:
    return "tcp" if timing.tcp else "network_ring"


# --- Fitting ---------------------------------------------------------------------------------------------------------


def fit_links(timings: Iterable[Timing], *, pipelined: bool | None = None) -> LinkFit:
    """Alpha and the share of the wires' rate that leave the least mean absolute error on the rows of one source.

    Parameters
    ----------
    timings : iterable of Timing
        Rows of one source. If one of them names no wire, the share stays unknown and only the bandwidth is fitted. If
        they are of several operations, alpha and bandwidth are those of a ring that does them all.
    pipelined : bool, optional
        Whether the law has the root: see the module. By default it is the form that fits better.

    Returns
    -------
    LinkFit
        ``alpha`` is None, and taken as zero, where all rows are of one size or plateaus, or show no latency.

    Raises
    ------
    ValueError
        There is no row, or there are several sources.

    Examples
    --------
    >>> rows = [row for row in published_timings() if row.source == "h200_8x_nvlink4"]
    >>> fit_links(rows)
    LinkFit
    h200_8x_nvlink4         value
    rows                       20
    alpha                 2.34 µs
    bandwidth            511 GB/s
    wire fraction             86%
    mean absolute error     3.77%
    """
    rows = _one_source(timings)
    times, sizes = (np.array([getattr(row, name) for row in rows]) for name in ("seconds", "size"))
    steps, ring_bytes = np.array([_ring(row) for row in rows]).T
    wired = all(row.scale_up or row.nodes > 1 for row in rows)
    # At the rates of the datasheet; a prediction weighs algorithms by fitted efficiencies, and may take another.
    wire = np.array([min(max(wires.values()) for wires in _algorithms(row)) for row in rows]) if wired else ring_bytes
    known = len(set(sizes[np.isfinite(sizes)])) > 1
    steps = steps * (np.isfinite(sizes) & known)
    forms = (False, True) if pipelined is None else (pipelined,)
    curves = [_through_two(steps, wire, times, pipelined=form, wired=wired) for form in forms]
    curve = min(curves, key=lambda curve: round(curve.error, 9))  # a tie goes to the simpler form
    alpha, share = curve.alpha, curve.share
    latency, transfer = steps * alpha, wire / share
    predicted = pipelined_time(latency, transfer) if curve.pipelined else latency + transfer
    return LinkFit(
        source=rows[0].source,
        alpha=alpha or None,
        bandwidth=float(np.median(share * ring_bytes / wire)),
        wire_fraction=share if wired else None,
        pipelined=curve.pipelined,
        times=tuple(predicted.tolist()),
        errors=tuple((predicted / times - 1).tolist()),
        qualities=tuple(row.quality for row in rows),
    )


_ENDS = 150  # rows that a curve may go through: of 2,000 rows, 150 give nearly the least error, in a second
_JUDGES = 5000  # rows that choose between the curves, so that a file of any length is fitted in seconds
_UNSEEN = 0.01  # where the wires are not known either, the transfer is taken as this part of the fastest row


class _Curve(NamedTuple):
    """A fitted curve: its mean absolute relative error, alpha, the share of the wires' rate, and its form."""

    error: float
    alpha: float
    share: float
    pipelined: bool


def _through_two(steps, wire, times, *, pipelined: bool, wired: bool) -> _Curve:
    """Of the curves T = u² s + root u v sqrt(s w) + v² w through two rows, or one (u = 0 or a given v), the best.

    ``steps`` s, seconds at full rate w and measured seconds T are arrays; ``root`` is 1 for the pipelined form and 0
    for the other, alpha is u² and the share 1 / v². Through two rows the ratio v/u solves a quadratic equation. Through
    one, where latency is all there is to see, the rate is that of the wires.
    """
    root = 1.0 * pipelined
    order = np.lexsort((times, wire))
    ends = order[np.unique(np.linspace(0, len(times) - 1, min(len(times), _ENDS)).round().astype(int))]
    cross = np.sqrt(steps * wire)
    s, w, x, t = (values[ends] for values in (steps, wire, cross, times))
    alphas, slopes = [np.zeros_like(t)], [t / w]
    for i in range(len(t)):
        with np.errstate(all="ignore"):
            a = t * w[i] - t[i] * w
            b = root * (t * x[i] - t[i] * x)
            c = t * s[i] - t[i] * s
            ratio = (np.sqrt(b**2 - 4 * a * c) - b) / (2 * a)  # the other root belongs to the rows in other order
            alpha = t[i] / (s[i] + root * x[i] * ratio + w[i] * ratio**2)
            slope = alpha * ratio**2
        sound = np.isfinite(slope) & (ratio > 0) & (alpha > 0)
        alphas.append(alpha[sound])
        slopes.append(slope[sound])
    slope = 1.0 if wired and np.all(t > w) else _UNSEEN * np.min(t / w)
    rest = np.sqrt((root * x) ** 2 * slope + 4 * s * (t - w * slope)) - root * x * np.sqrt(slope)
    alphas.append((rest[s > 0] / s[s > 0] / 2) ** 2)
    slopes.append(np.full(np.sum(s > 0), slope))
    alpha, slope = np.concatenate(alphas), np.concatenate(slopes)
    between, errors = root * np.sqrt(alpha * slope), np.zeros(len(alpha))
    judges = order[np.unique(np.linspace(0, len(times) - 1, min(len(times), _JUDGES)).round().astype(int))]
    for k in sorted(judges):  # one row at a time: 150 ends make 10,000 curves
        errors += np.abs((steps[k] * alpha + wire[k] * slope + cross[k] * between) / times[k] - 1) / len(judges)
    k = int(np.argmin(errors))
    return _Curve(error=float(errors[k]), alpha=float(alpha[k]), share=float(1 / slope[k]), pipelined=pipelined)


def _one_source(timings: Iterable[Timing]) -> list[Timing]:
    rows = list(timings)
    sources = dict.fromkeys(row.source for row in rows)
    if len(sources) != 1:
        raise ValueError(f"timings must be rows of one source, got {len(sources)}: {', '.join(sources) or 'no rows'}")
    return rows


# --- Predicting ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class LinkEfficiencyFit(Explained):
    """What carries over from some machines to another.

    ``scale_up_ring``, ``mesh``, ``all_to_all``, ``network_ring`` and ``tcp`` are shares of a wire's rate, by the way in
    which bytes cross it. ``host`` is the least that a launch takes, in seconds, where the host launches collectives one
    by one; ``fabrics`` are seconds that a hop across adds to NCCL's, by fabric. ``machines`` says how many machines
    showed each.
    """

    scale_up_ring: float = 1.0
    mesh: float = 1.0
    all_to_all: float = 1.0
    network_ring: float = 1.0
    tcp: float = 1.0
    host: float = 0.0
    fabrics: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}), hash=False)
    machines: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}), hash=False)

    def fabric_latency(self, name: str) -> float:
        """Seconds that a hop across a fabric adds; of one that no machine has shown, the median of those shown."""
        if name in self.fabrics:
            return self.fabrics[name]
        shown = [self.fabrics[kin] for kin in _UNSAID if kin in self.fabrics] if not name else []
        return median(shown or list(self.fabrics.values()) or [0.0])

    def _rows(self):
        shares = [(words(kind), fmt(getattr(self, kind), "%"), kind) for kind in _BANDWIDTHS]
        shares.append(("host", fmt(self.host, "s", 2), "host"))
        rows = [("efficiency", "value", "machines")]
        rows += [(name, value, str(self.machines.get(kind, 0))) for name, value, kind in shares]
        fabrics = [
            (f"a hop of {name}", f"+ {fmt(extra, 's', 2)}", str(self.machines[name]))
            for name, extra in self.fabrics.items()
        ]
        return rows + fabrics


_BANDWIDTHS = ("scale_up_ring", "mesh", "all_to_all", "network_ring", "tcp")
_UNSAID = ("InfiniBand", "RoCE")  # what "RDMA" may be, where a row says no more
_CLEAR = 0.75  # one wire sets the time where no other would need more than this part of it: shares differ by a quarter
_SMALL = 1 / 4  # a message is mostly latency where its transfer is no longer than this part of its time
_TRIFLE = 1 / 20  # a message shows the rate of its wire where its latency is at most this part of its transfer
_HOST = 8  # GPUs of the largest host
_ROUNDS = 20  # the published rows settle in a few
_OVERHEAD = {"LL": 1 * us, "LL128": 1 * us, "Simple": 3 * us}  # of a ring's step between nodes: NCCL's, on Intel CPUs
_OF_ALGORITHM = {
    algorithm: [(name.split(", ")[1], one) for name, one in PROTOCOLS.items() if name.startswith(algorithm)]
    for algorithm in ("ring", "tree", "NVLS")
}


class _Candidate(NamedTuple):
    """An algorithm in a protocol: wires and their seconds at full rate, NCCL's latency, and waits for the fabric."""

    wires: tuple[tuple[str, float], ...]
    latency: float
    waits: float
    share: float


@lru_cache(maxsize=_CACHED)
def _candidates(timing: Timing) -> tuple[_Candidate, ...]:
    """All that NCCL may choose from. A plateau has no latency, and its messages no flags."""
    finite, found = np.isfinite(timing.size), []
    bare = timing.ranks == timing.nodes  # with one GPU in each node nothing hides a hop: NCCL takes the tree's
    nvlink = (timing.scale_up_latency or 0.0) <= PROTOCOLS["ring, Simple"].nvlink
    for plan in _plans(timing):
        for name, protocol in _OF_ALGORITHM[plan.algorithm]:
            if name != "Simple" and (not finite or (name == "LL128" and plan.across + plan.inside <= 1)):
                continue
            inside = protocol.nvlink if nvlink else protocol.pcie
            if timing.nodes > 1 and plan.algorithm == "ring":
                inside = max(inside, _OVERHEAD[name])
            across = PROTOCOLS[f"tree, {name}"].network if bare and plan.algorithm == "ring" else protocol.network
            latency = protocol.base + plan.inside * inside + plan.across * across
            waits = plan.across * protocol.crossings
            known = (latency, waits) if finite else (0.0, 0.0)
            found.append(_Candidate(tuple(plan.wires.items()), *known, protocol.share))
    return tuple(found)


class _Parts(NamedTuple):
    """A prediction: its latency and transfer, the wire that sets the transfer, and that wire's seconds at full rate."""

    time: float  # as collectives.pipelined_time has it, without its checks
    latency: float
    transfer: float
    kind: str
    wire: float
    clear: bool  # whether no other wire, if there is one, would need nearly as long


def _parts(timing: Timing, efficiency: LinkEfficiencyFit) -> _Parts:
    """The fastest of all algorithms and protocols, but not faster than the host."""
    fabric = efficiency.fabric_latency(timing.fabric) if timing.nodes > 1 else 0.0
    best: tuple = (np.inf,)
    for one in _candidates(timing):
        latency, (transfer, kind, wire) = one.latency + one.waits * fabric, _busiest(one, efficiency)
        time = latency + transfer + (latency * transfer) ** 0.5
        if time < best[0]:
            best = (time, latency, transfer, kind, wire, one)
    time, latency, transfer, kind, wire, one = best
    if timing.host and np.isfinite(timing.size):
        time = max(time, efficiency.host)
    limit = _CLEAR * transfer * one.share
    clear = all(full / getattr(efficiency, other) <= limit for other, full in one.wires if other != kind)
    return _Parts(time, latency, transfer, kind, wire, clear)


def _busiest(one: _Candidate, efficiency: LinkEfficiencyFit) -> tuple[float, str, float]:
    """Seconds of the busiest wire, its kind, and its seconds at full rate."""
    return max((full / one.share / getattr(efficiency, kind), kind, full / one.share) for kind, full in one.wires)


def _remainder(known: float, total: float) -> float:
    """The other part of a pipelined time: y with known + y + sqrt(known y) = total; 0 where known is more."""
    return (((4 * total - 3 * known) ** 0.5 - known**0.5) / 2) ** 2 if total > known else 0.0


def fit_link_efficiency(timings: Iterable[Timing]) -> LinkEfficiencyFit:
    """Fit what carries over from one machine to another: medians over machines, each of which counts once.

    A machine is one publication and one kind of GPU. Each of its systems (operation, number of ranks, set of links)
    shows its share of the wires' rate with its largest message, if one wire clearly sets the time, and its latency with
    its small ones, if they are mostly that; the machine shows the median of its systems.

    Parameters
    ----------
    timings : iterable of Timing
        Rows of any number of sources. Those of quality C are left out.

    Returns
    -------
    LinkEfficiencyFit
        A share that no machine shows is that of its nearest kin: ``tcp`` of ``network_ring``, ``all_to_all`` and
        ``mesh`` of ``scale_up_ring``.

    Raises
    ------
    ValueError
        No row shows the rate of a wire.

    Examples
    --------
    >>> fit_link_efficiency(published_timings())
    LinkEfficiencyFit
    efficiency              value  machines
    scale up ring           81.4%        13
    mesh                    74.5%         2
    all to all              72.2%         7
    network ring              96%         7
    tcp                       80%         3
    host                    51 µs         3
    a hop of InfiniBand  + 800 ns         4
    a hop of RoCE        + 9.3 µs         5
    a hop of EFA v1       + 73 µs         4
    a hop of EFA          + 15 µs         1
    a hop of TCPXO        + 51 µs         1
    a hop of TCPX        + 420 µs         1
    a hop of TCP          + 45 µs         1
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


def _near(one: LinkEfficiencyFit, other: LinkEfficiencyFit) -> bool:
    """Whether two fits are the same to a billionth."""
    numbers = [
        [*(getattr(fit, kind) for kind in (*_BANDWIDTHS, "host")), *fit.fabrics.values()] for fit in (one, other)
    ]
    return one.fabrics.keys() == other.fabrics.keys() and bool(np.allclose(*numbers, rtol=1e-9, atol=1e-15))


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
        host=of("host", 0.0),
        fabrics=MappingProxyType(fabrics),
        machines=MappingProxyType({kind: len(machines.get(kind, ())) for kind in (*_BANDWIDTHS, "host", *fabrics)}),
    )


def _shown_bandwidth(rows: list[Timing], efficiency: LinkEfficiencyFit) -> dict[str, float]:
    """The share of a wire's rate that a system gets with its largest message, if one wire clearly sets the time."""
    large = max(rows, key=lambda row: row.size)
    parts = _parts(large, efficiency)
    transfer = _remainder(parts.latency, large.seconds)
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
        and _parts(row, efficiency).transfer <= _SMALL * row.seconds
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
        (_remainder(_busiest(one, efficiency)[0], row.seconds) - one.latency) / one.waits
        for one in _candidates(row)
        if one.waits
    ]
    return max(0.0, *needed)


def predict_timings(timings: Iterable[Timing], efficiency: LinkEfficiencyFit) -> LinkFit:
    """Predict the rows of one source from its links' datasheets and from what other systems show.

    Parameters
    ----------
    timings : iterable of Timing
        Rows of one source. Their seconds serve for the errors alone.
    efficiency : LinkEfficiencyFit
        From :func:`fit_link_efficiency`, on rows of other machines if this is to be a test.

    Returns
    -------
    LinkFit

    Raises
    ------
    ValueError
        There is no row, there are several sources, or a row does not name its links.

    Examples
    --------
    >>> rows = [row for row in published_timings() if row.source == "h200_sharp_ramp"]
    >>> others = [row for row in published_timings() if row.machine != rows[0].machine]
    >>> fmt(predict_timings(rows, fit_link_efficiency(others)).mean_abs_error, "%", digits=2)
    '2.2%'
    """
    rows = _one_source(timings)
    if bare := [row.row for row in rows if not (row.scale_up or row.nodes > 1)]:
        raise ValueError(f"{rows[0].source}, {bare[0]}: a prediction needs the links (--scale-up, --network)")
    parts = [_parts(row, efficiency) for row in rows]
    predicted, steps = np.array([part.time for part in parts]), np.array([_ring(row)[0] for row in rows])
    # As for long messages, one of each kind of system.
    long = list(dict.fromkeys(replace(row, row="", size=np.inf, seconds=1.0) for row in rows))
    at_length = [_parts(row, efficiency) for row in long]
    errors = predicted / np.array([row.seconds for row in rows]) - 1
    kinds = tuple(_kind(row, part, efficiency) for row, part in zip(rows, parts, strict=True))
    spreads = [_spread(kind) for kind in kinds]
    rates = np.array([_ring(row)[1] / part.transfer for row, part in zip(long, at_length, strict=True)])
    widths = [_spread(_kind(row, part, efficiency)) for row, part in zip(long, at_length, strict=True)]
    return LinkFit(
        source=rows[0].source,
        alpha=float(np.median(np.array([_waits(row, efficiency) for row in rows]) / steps)),
        bandwidth=float(np.median(rates)),
        bandwidth_low=float(np.median(rates / [spread.high for spread in widths])),
        bandwidth_high=float(np.median(rates / [spread.low for spread in widths])),
        wire_fraction=float(np.median([getattr(efficiency, part.kind) for part in at_length])),
        pipelined=True,
        times=tuple(predicted.tolist()),
        errors=tuple(errors.tolist()),
        qualities=tuple(row.quality for row in rows),
        low=tuple((predicted * [spread.low for spread in spreads]).tolist()),
        high=tuple((predicted * [spread.high for spread in spreads]).tolist()),
        kinds=kinds,
    )


def _waits(timing: Timing, efficiency: LinkEfficiencyFit) -> float:
    """Seconds that a message of no bytes would wait: of a plateau, too."""
    return _parts(replace(timing, size=1.0, seconds=1.0), efficiency).latency


def _kind(timing: Timing, parts: _Parts, efficiency: LinkEfficiencyFit) -> str:
    """What the interval of a prediction is learned by: where its bytes go, and whether it waits or moves them."""
    if timing.nodes > 1 and timing.fabric not in efficiency.fabrics and np.isfinite(timing.size):
        return UNKNOWN
    where = "one node" if timing.nodes == 1 else "nodes"
    return f"{where}, {'latency' if parts.latency > parts.transfer else 'bandwidth'}"


def _spread(kind: str) -> Spread:
    return SPREADS[f"collective: {kind}"]


@dataclass(frozen=True, repr=False)
class TimedCollective(Predicted):
    """What nccl-tests would print of a collective: ``time`` in seconds with its 80 % interval, for one size or many.

    ``latency`` and ``transfer`` are the parts of :func:`~clusterlab.interconnect.pipelined_time`. ``spread_low`` and
    ``spread_high`` are those of its kind in multiples of ``time``.
    """

    operation: str
    ranks: int
    size: float
    latency: float
    transfer: float
    spread_low: float
    spread_high: float

    _follow: ClassVar = {"bus_bandwidth": ("B/s", -1)}

    @property
    def time(self):
        """Seconds, with the root of what a pipeline cannot hide."""
        return pipelined_time(self.latency, self.transfer)

    @property
    def bus_bandwidth(self):
        """Bytes/s as nccl-tests prints them under busbw."""
        return bus_factor(self.operation, self.ranks) * self.size / self.time

    def _predicted(self):
        return self.time, self.spread_low * self.time, self.spread_high * self.time, "s"

    def _rows(self):
        rows = [(f"{self.operation} on {self.ranks:,}", "value"), ("size", summary(self.size, "B"))]
        rows += [(name, summary(getattr(self, name), "s")) for name in ("latency", "transfer")]
        return [*rows, ("time", self.with_interval), ("bus bandwidth", self.say("bus_bandwidth"))]


def predict_collective(operation, size, ranks, *, node_size=8, scale_up="NVLink 4", network="InfiniBand NDR"):
    """Predict what a collective takes on a machine that nobody has timed, from its links and all published timings.

    NCCL's choice of algorithm and protocol, with the shares of the wires' rate and the latencies that machines show
    (:func:`fit_link_efficiency`). The laws of :mod:`clusterlab.interconnect` say what one algorithm could reach.

    Parameters
    ----------
    operation : str
        ``"all-reduce"``, ``"all-gather"``, ``"reduce-scatter"``, ``"all-to-all"``, ``"broadcast"`` or
        ``"send-receive"``.
    size : array_like
        Bytes, as nccl-tests count them: of one rank's buffer, or of the gathered one.
    ranks : int
        GPUs, in nodes (or domains) of ``node_size``, or all in one.
    node_size : int
        GPUs that the scale-up link joins.
    scale_up, network : str
        Names of the links, as in :func:`clusterlab.catalogue.link`; a port of the network for each GPU.

    Returns
    -------
    TimedCollective

    Raises
    ------
    ValueError
        ``size`` is not positive and finite, a count is not a whole number, ``ranks`` do not fill nodes, there is one
        rank alone, or a name is unknown.

    Examples
    --------
    The gradients of a 7B model on 256 H100s:

    >>> predict_collective("all-reduce", 14e9, 256)
    TimedCollective
    all-reduce on 256                  value
    size                               14 GB
    latency                           250 µs
    transfer                         72.9 ms
    time               77.4 ms (63.9 to 114)
    bus bandwidth      360 GB/s (244 to 437)
    """
    (sizes,), (n, g) = positive(size=size), whole(ranks=ranks, node_size=node_size)
    if operation not in _TIMED:
        raise ValueError(f"operation must be one of {', '.join(_TIMED)}; got {operation!r}")
    if n < 2 or (n > g and n % g):
        raise ValueError(f"ranks must be two or more that fill nodes of {g:.0f}, got {ranks}")
    nodes = max(int(n / g), 1)
    wires = system_wires(scale_up, network, int(n) // nodes)
    row = Timing(
        "", "", operation, 1.0, 1.0, int(n), nodes, in_switch=None if wires.pop("switched") else False, **wires
    )
    efficiency, found = fit_link_efficiency(published_timings()), []
    for one in np.ravel(sizes):
        parts = _parts(timing := replace(row, size=float(one)), efficiency)
        spread = _spread(_kind(timing, parts, efficiency))
        found.append((parts.latency, parts.transfer, spread.low, spread.high))
    columns = np.reshape(np.transpose(found), (4, *np.shape(sizes)))
    return TimedCollective(operation, int(n), sizes, *(column[()] for column in columns))


_TIMED = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all", "broadcast", "send-receive")


def predict_held_out(timings: Iterable[Timing], training: Iterable[Timing]) -> list[LinkFit]:
    """Predict every source from machines that it does not show: whether the law carries over.

    Parameters
    ----------
    timings, training : iterable of Timing
        Rows to predict, of any number of sources, and rows to fit link efficiencies to. Of the latter all are left out
        that are of the source that is being predicted, or of one of its machines.

    Returns
    -------
    list of LinkFit
        One for each source, in the order of the rows.
    """
    training = list(training)
    results = []
    for source, rows in by_source(timings).items():
        own = {row.machine for row in rows if row.machine}
        others = [row for row in training if row.source != source and row.machine not in own]
        results.append(predict_timings(rows, fit_link_efficiency(others)))
    return results


# --- Intervals -------------------------------------------------------------------------------------------------------

UNKNOWN = "unknown fabric"  # the kind of rows of a fabric that no other machine has shown
_SOURCES = 10  # of fewer, a tenth is less than one, and an interval ends at the outermost rows


class Residuals(NamedTuple):
    """Measured over predicted time of rows whose machines the constants have not seen, with their kinds and sources."""

    ratios: np.ndarray
    kinds: np.ndarray
    sources: np.ndarray


def residuals(timings: Iterable[Timing]) -> Residuals:
    """Leave every source out, with its machines, predict it, and divide: what intervals are learned from.

    Parameters
    ----------
    timings : iterable of Timing
        Rows of several sources.

    Returns
    -------
    Residuals

    Examples
    --------
    >>> found = residuals(published_timings())
    >>> found.ratios.size, bool(0.9 < np.median(found.ratios) < 1.1)
    (364, True)
    """
    return _residuals(tuple(timings))


@lru_cache(maxsize=4)
def _residuals(timings: tuple[Timing, ...]) -> Residuals:
    results = predict_held_out(timings, timings)
    ratios = 1 / (1 + np.concatenate([result.errors for result in results]))
    kinds = np.concatenate([result.kinds for result in results])
    return Residuals(ratios, kinds, np.concatenate([[result.source] * len(result.errors) for result in results]))


@lru_cache(maxsize=4)
def _unknown_fabrics(timings: tuple[Timing, ...]) -> Residuals:
    """Residuals of every fabric as if nobody had timed it: all its rows are left out. Their sources are the fabrics."""
    ratios, fabrics = [], []
    for name, rows in _by_fabric(timings).items():
        for result in predict_held_out(rows, [row for row in timings if row.fabric != name]):
            ratios += [1 / (1 + error) for error in result.errors]
            fabrics += [name] * len(result.errors)
    return Residuals(np.array(ratios), np.full(len(ratios), UNKNOWN), np.array(fabrics))


def _by_fabric(timings: Iterable[Timing]) -> dict[str, list[Timing]]:
    """The rows between nodes of each fabric that show its latency, source by source."""
    fabrics: dict[str, list[Timing]] = {}
    for rows in by_source(timings).values():
        for row in rows:
            if row.fabric and row.nodes > 1 and np.isfinite(row.size):
                fabrics.setdefault(row.fabric, []).append(row)
    return fabrics


def learn_spreads(timings: Iterable[Timing]) -> dict[str, tuple[float, float]]:
    r"""Learn the 80 % interval of each kind of collective, in multiples of the prediction, from rows nothing has seen.

    Between the ends lie four fifths of the ratios of the kind; a source of n rows has the votes of :math:`\sqrt{n}`. Of
    fewer than ten sources a tenth is less than one, so that the interval ends at the outermost rows. What a fabric is
    off that nobody has timed, is shown by every fabric when all its rows are left out: the interval is that of one more
    fabric (:func:`~clusterlab.evidence.inference_validation.interval`).

    Parameters
    ----------
    timings : iterable of Timing
        Rows of two sources or more.

    Returns
    -------
    dict
        Kind to its low and high ratio.

    Examples
    --------
    >>> low, high = learn_spreads(published_timings())["one node, bandwidth"]
    >>> round(low, 2), round(high, 2)
    (0.95, 1.1)
    """
    timings = tuple(timings)
    ratios, kinds, sources = residuals(timings)
    found = {kind: _interval(ratios[kinds == kind], sources[kinds == kind]) for kind in dict.fromkeys(kinds.tolist())}
    if UNKNOWN in found:
        fabrics = _unknown_fabrics(timings)
        found[UNKNOWN] = _interval(fabrics.ratios, fabrics.sources, UNKNOWN)
    return found


def _interval(ratios: np.ndarray, sources: np.ndarray, kind: str = "") -> tuple[float, float]:
    if kind == UNKNOWN:
        return inference_validation.interval(ratios, sources)
    if len(set(sources.tolist())) < _SOURCES:
        return float(ratios.min()), float(ratios.max())
    return validation._interval(ratios, sources)


@dataclass(frozen=True, repr=False)
class CollectiveCoverage(Explained):
    """How often rows of a kind lie in an interval that was learned from other sources only, and how wide it is.

    ``width`` is the mean of the upper end over the lower one; ``constant_width`` is that of the same kind of interval
    around one share of the busiest wire's rate for all rows of the kind.
    """

    kind: str
    rows: int
    sources: int
    share: float
    width: float
    constant_width: float


def coverage(timings: Iterable[Timing]) -> list[CollectiveCoverage]:
    """Test the intervals: leave every source out, learn the interval from the others, and count who lies inside.

    Of fabrics that nobody has timed, fabrics are left out instead, each in turn.

    Parameters
    ----------
    timings : iterable of Timing
        Rows of two sources or more of a kind.

    Returns
    -------
    list of CollectiveCoverage
        One for each kind.

    Examples
    --------
    >>> [found.kind for found in coverage(published_timings()) if not 0.75 < found.share < 0.85]
    []
    """
    timings = tuple(timings)
    rows = [row for of_source in by_source(timings).values() for row in of_source]
    known, unknown = residuals(timings), _unknown_fabrics(timings)
    kept = known.kinds != UNKNOWN
    rows = [row for row, keep in zip(rows, kept, strict=True) if keep]
    rows += [row for of_fabric in _by_fabric(timings).values() for row in of_fabric]
    columns = zip(known, unknown, strict=True)
    ratios, kinds, sources = (np.concatenate([one[kept], other]) for one, other in columns)
    constant = np.array([row.seconds / min(max(wires.values()) for wires in _algorithms(row)) for row in rows])
    found = []
    for name in dict.fromkeys(kinds.tolist()):
        of_kind = kinds == name
        inside, widths, constant_widths = [], [], []
        for source in dict.fromkeys(sources[of_kind].tolist()):
            mine, others = of_kind & (sources == source), of_kind & (sources != source)
            low, high = _interval(ratios[others], sources[others], name)
            inside += ((low <= ratios[mine]) & (ratios[mine] <= high)).tolist()
            widths += [high / low] * int(mine.sum())
            low, high = _interval(constant[others] / np.median(constant[others]), sources[others], name)
            constant_widths += [high / low] * int(mine.sum())
        count, means = len(set(sources[of_kind].tolist())), map(float, map(np.mean, (inside, widths, constant_widths)))
        found.append(CollectiveCoverage(name, len(inside), count, *means))
    return found


def by_source(timings: Iterable[Timing]) -> dict[str, list[Timing]]:
    """The rows of each source, in order."""
    sources: dict[str, list[Timing]] = {}
    for row in timings:
        sources.setdefault(row.source, []).append(row)
    return sources


# --- Command line ----------------------------------------------------------------------------------------------------


_OWN = """\
        %(prog)s mine.txt
        all_reduce_perf -b 32K -e 16G -f 2 -g 8 | %(prog)s -
        %(prog)s mine.txt --network "InfiniBand NDR" --json
        """
# A summary, a description and an example of each command.
FIT_HELP = (
    "fit alpha and beta to timed collectives",
    "Fit each source of the file. In JSON alpha_seconds is null where all rows are of one size or plateaus, and "
    "wire_fraction where the links are not known; it is above 1 where the rows move more than those. Lines that could "
    "not be read or used go to stderr; the exit status is 2 if nothing is left.",
    _OWN,
)
PREDICT_HELP = (
    "predict timed collectives from their links' datasheets",
    "Predict each source from its links, with efficiencies fitted to the published timings of other machines that come "
    "with clusterlab, never on other sources of the file. A line for each time, measured and predicted with its 80 %% "
    "interval (low and high in JSON), then one for each source. Lines that could not be read or used go to stderr; the "
    "exit status is 2 if nothing is left.",
    _OWN,
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Say what ``fit`` and ``predict`` take."""
    text = "text output of nccl-tests, whose out-of-place columns are read (not in-place), or a CSV in the form of "
    parser.add_argument("file", help=text + "data/collectives.csv; - is standard input")
    parser.add_argument("--json", action="store_true", help="print a list of objects, one for each source")
    only = parser.add_argument_group("for the output of nccl-tests, where its heading does not say")
    only.add_argument("--collective", help="all_reduce, all_gather, ...")
    only.add_argument("--ranks", type=int, help="number of GPUs")
    only.add_argument("--nodes", type=int, help="number of hosts, or of NVLink domains if these are wider")
    only.add_argument("--scale-up", metavar="LINK", help="link inside a node, such as 'NVLink 4'")
    only.add_argument("--network", metavar="LINK", help="link between nodes, a port for each GPU: 'InfiniBand NDR'")


def run(arguments: argparse.Namespace) -> int:
    """Fit or predict every source of a file, print the results, and return the exit status."""
    known = {name: getattr(arguments, name) for name in ("collective", "ranks", "nodes", "scale_up", "network")}
    rows, problems = read(arguments.file, **known)
    name, results, read_as = name_of(arguments.file), [], []
    for timings in by_source(rows).values():
        try:
            result = _result(arguments.command, timings)
        except ValueError as error:
            problems.append(f"{name}, {error}")
            continue
        results.append(result)
        read_as.append(timings)
    for result in results if arguments.command == "fit" else ():
        if (result.wire_fraction or 0) > 1.05:
            says = f"moves more than the wires that the row names ({fmt(result.wire_fraction, '%')} of their rate)"
            problems.append(f"{name}, {result.source}: {says}")
    for line in problems:
        print(line, file=sys.stderr)
    if not results:
        return UNUSABLE
    if arguments.json:
        print(json.dumps([_json(*both) for both in zip(results, read_as, strict=True)], indent=1))
    else:
        if arguments.command == "predict":
            print(row_table(results, read_as), end="\n\n")
        print(table(results))
    return 0


def _result(command: str, timings: list[Timing]) -> LinkFit:
    if command == "fit":
        return fit_links(timings)
    (result,) = predict_held_out(timings, published_timings())
    return result


def _json(result: LinkFit, timings: list[Timing]) -> dict:
    shown = {
        "source": result.source,
        "rows": len(result.errors),
        "alpha_seconds": result.alpha,
        "bandwidth_bytes_per_second": result.bandwidth,
        **({"bandwidth_low": result.bandwidth_low, "bandwidth_high": result.bandwidth_high} if result.low else {}),
        "wire_fraction": result.wire_fraction,
        "mean_abs_error": result.mean_abs_error,
    }
    if not result.low:
        return shown
    rows = zip(timings, result.times, result.low, result.high, result.kinds, strict=True)
    predictions = [
        {"row": row.row, "measured": row.seconds, "predicted": time, "low": low, "high": high, "kind": kind}
        for row, time, low, high, kind in rows
    ]
    return shown | {"coverage": result.coverage, "predictions": predictions}


def row_table(results: Iterable[LinkFit], read_as: Iterable[list[Timing]]) -> str:
    """Return a line for each timing: measured and predicted with an 80 % interval. Of a plateau, its bus bandwidth.

    Examples
    --------
    >>> rows = [row for row in published_timings() if row.source == "h200_sharp_ramp"][:2]
    >>> print(row_table(predict_held_out(rows, published_timings()), [rows]))
    row    source           operation      size  measured               predicted  error
    C0081  h200_sharp_ramp  all-reduce  8.59 GB   35.5 ms  36.2 ms (34.3 to 39.9)  +2.1%
    C0082  h200_sharp_ramp  all-reduce  8.59 GB   35.5 ms  36.2 ms (34.3 to 39.9)  +2.1%
    """
    rows = [("row", "source", "operation", "size", "measured", "predicted", "error")]
    for result, timings in zip(results, read_as, strict=True):
        ends = zip(timings, result.times, result.low, result.high, result.errors, strict=True)
        for row, time, low, high, error in ends:
            if np.isfinite(row.size):
                size, measured, predicted = (
                    fmt(row.size, "B"),
                    fmt(row.seconds, "s"),
                    with_interval(time, low, high, "s"),
                )
            else:  # seconds of a byte: as a rate the longest time is the lowest
                moved = row.bus_bandwidth * row.seconds
                size, measured = "plateau", fmt(row.bus_bandwidth, "B/s")
                predicted = with_interval(moved / time, moved / high, moved / low, "B/s")
            rows.append((row.row, row.source, row.operation, size, measured, predicted, f"{error:+.1%}"))
    return aligned(rows, left=3)


def table(results: Iterable[LinkFit]) -> str:
    """A line for each source, one for all rows together and, where some are of quality C, one for the rest.

    Examples
    --------
    >>> rows = [row for row in published_timings() if row.source == "h200_sharp_ramp"]
    >>> print(table([fit_links(rows)]))
    source           rows  alpha  bandwidth  wire  error
    h200_sharp_ramp    10      -   364 GB/s   81%   0.6%
    all rows           10                           0.6%
    """
    results = list(results)
    predicted = all(result.low for result in results)
    rows = [("source", "rows", "alpha", "bandwidth", "wire", "error", "inside")]
    for result in results:
        alpha = "-" if result.alpha is None else fmt(result.alpha, "s")
        share = "-" if result.wire_fraction is None else f"{result.wire_fraction:.0%}"
        error, inside = f"{result.mean_abs_error:.1%}", f"{result.coverage:.0%}" if predicted else ""
        count = str(len(result.errors))
        rows.append((result.source, count, alpha, say(result, "bandwidth", "B/s"), share, error, inside))
    errors = np.abs(np.concatenate([result.errors for result in results]))
    held = np.concatenate([_inside(result) for result in results]) if predicted else None
    sound = np.concatenate([result.qualities for result in results]) != "C"
    for name, kept in {"all rows": sound | True, "without quality C": sound}.items():
        if kept.any() and (name == "all rows" or not kept.all()):
            share = "" if held is None else f"{held[kept].mean():.0%}"
            rows.append((name, str(kept.sum()), "", "", "", f"{errors[kept].mean():.1%}", share))
    return aligned(rows if predicted else [row[:-1] for row in rows])


def _inside(result: LinkFit) -> np.ndarray:
    """Whether the measured time of each row lies in its interval."""
    measured = np.array(result.times) / (1 + np.array(result.errors))
    return (np.array(result.low) <= measured) & (measured <= np.array(result.high))
