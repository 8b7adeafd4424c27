r"""The fit of links: alpha and beta of a real fabric, and what they say about a fabric that nobody has timed.

A row is one timed collective. Its bytes cross wires whose rates a datasheet gives, so it has a least time, w. A system
is fitted by two constants, the latency alpha of one step of the ring and the share f of the wires' rate that it gets:

.. math:: T = L + X \quad\text{or}\quad T = L + X + \sqrt{L X}, \qquad L = \rho\,\alpha, \quad X = w / f,

with rho the steps of the ring. The second form is :func:`~clusterlab.collectives.pipelined_time`; the one that fits
better is taken. Of all curves through two of the rows, the fit is the one with the least mean absolute relative error.

A system that nobody has timed is predicted from its links alone. :func:`fit_link_efficiency` takes from other machines
what carries over: latencies, in multiples of the links' own inside nodes and of NCCL's constants between nodes, and a
share of the wires' rate for each way in which bytes cross them, never one for a system:

``scale_up_ring``
    on NVLink or PCIe: between neighbours in a ring or a tree, in a single pair, and into switches that reduce and
    multicast (:func:`~clusterlab.collectives.multicast_all_reduce`, slowed as NCCL knows that such switches are);
``all_to_all``
    between all pairs at once, on NVLink or through the ports of a node;
``network_ring``, ``tcp``
    between nodes, by remote direct memory access or over TCP.

Across nodes a ring passes all its bytes through the network ports of each node, all ports together. A tree, or the
switches of every node with a tree above them, pass fewer. NCCL takes the fastest, and so does the prediction.

Left out: NCCL changes protocol and algorithm as messages grow, and its times jump there, up or down. The root smooths
in one direction only, so sizes between latency and bandwidth carry most of the error that is left.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from ..collectives import bus_factor, multicast_all_reduce, pipelined_time
from ..units import Explained, fmt
from .nccl_tests import Timing, published_timings, read
from .text import name_of


@dataclass(frozen=True, repr=False)
class LinkFit(Explained):
    """What was fitted to, or predicted for, the rows of one source, and the error that is left.

    ``alpha`` (seconds a step) and ``bandwidth`` (bytes/s of a long message, as a bus bandwidth) are those that a ring
    would have, whatever the operation. ``wire_fraction`` is the share of the busiest wire's rate; a fit finds more than
    1 where the rows move more than the wires that they name. None: the rows do not tell. ``pipelined`` says which form
    the law has. Errors are relative; ``qualities`` are those of the rows.
    """

    source: str
    alpha: float | None
    bandwidth: float
    wire_fraction: float | None
    pipelined: bool
    times: tuple[float, ...]
    errors: tuple[float, ...]
    qualities: tuple[str, ...]

    @property
    def mean_abs_error(self) -> float:
        """Mean of the absolute relative errors."""
        return float(np.mean(np.abs(self.errors)))

    def _rows(self):
        known = {"alpha": (self.alpha, "s"), "wire fraction": (self.wire_fraction, "%")}
        known = {name: "-" if value is None else fmt(value, unit) for name, (value, unit) in known.items()}
        return [
            (self.source, "value"),
            ("rows", str(len(self.errors))),
            ("alpha", known["alpha"]),
            ("bandwidth", fmt(self.bandwidth, "B/s")),
            ("wire fraction", known["wire fraction"]),
            ("mean absolute error", fmt(self.mean_abs_error, "%")),
        ]


# --- Wires: what a collective has to move, and over which ------------------------------------------------------------


_CACHED = 4096  # rows whose algorithms are kept: the fit of link efficiencies asks for them again and again


@lru_cache(maxsize=_CACHED)
def _algorithms(timing: Timing) -> tuple[Mapping[str, float], ...]:
    """What NCCL might run: for each algorithm, seconds on every kind of wire at its full rate."""
    size, n, nodes = timing.payload, timing.ranks, timing.nodes
    network = _network_kind(timing)

    def wires(inside: float, across: float) -> dict[str, float]:
        seconds = {"scale_up_ring": inside / timing.scale_up} if timing.scale_up else {}
        return seconds | ({network: across / timing.network} if nodes > 1 else {})

    g = n // nodes
    if timing.operation == "send-receive":
        return ({network: size * g / timing.network} if nodes > 1 else {"scale_up_ring": size / timing.scale_up},)
    if timing.operation == "all-to-all":  # (g - 1) / n of each buffer stays inside, (n - g) / n goes through a port
        inside = [size * (g - 1) / n / timing.scale_up] if timing.scale_up else []
        across = [size * (n - g) / n * g / timing.network] if nodes > 1 else []
        return ({network if timing.tcp else "all_to_all": max(inside + across)},)
    around = float(bus_factor(timing.operation, n)) * size
    ring = wires(around, around)
    if timing.operation != "all-reduce":
        return (ring,)
    # A node with two children in a double tree of nodes sends twice the buffer; of two nodes each has one child.
    between = size if nodes == 2 or timing.network_adds else 2 * size
    tree = [wires(2 * size, between)] if nodes > 1 else []  # a chain in every node, up and down
    if timing.in_switch is False or not timing.scale_up:
        return (ring, *tree)
    inside = float(multicast_all_reduce(size, g, bandwidth=1.0, latency=0.0).path_bytes)
    slower = timing.scale_up / (timing.switch or timing.scale_up)
    switched = wires(inside * slower, between)
    return (switched,) if timing.in_switch else (ring, *tree, switched)


def _ring(timing: Timing) -> tuple[float, float]:
    """Steps and path bytes of the ring, or of the pairwise exchange, which has as many of both."""
    steps = {"all-reduce": 2 * (timing.ranks - 1), "send-receive": 1}.get(timing.operation, timing.ranks - 1)
    return steps, float(bus_factor(timing.operation, timing.ranks)) * timing.payload


@lru_cache(maxsize=_CACHED)
def _latencies(timing: Timing) -> tuple[Mapping[str, float], ...]:
    """Seconds of latency inside nodes and between them for each algorithm: around the ring, or through a tree.

    A piece that goes from the first rank of a ring to the last crosses to all nodes but the first; so counts NCCL. The
    messages of an all-to-all are all sent at once. With one GPU in each node NCCL gathers in log2 steps.
    """
    n, nodes, operation = timing.ranks, timing.nodes, timing.operation
    g, depth, turns = n // nodes, float(np.ceil(np.log2(nodes))), 2 if operation == "all-reduce" else 1

    def steps(inside: float, across: float) -> dict[str, float]:
        network = {_network_latency(timing): across * (timing.network_latency or 0.0)} if nodes > 1 else {}
        return {"scale_up_latency": inside * (timing.scale_up_latency or 0.0)} | network

    if operation == "send-receive":
        return (steps(0, 1) if nodes > 1 else steps(1, 0),)
    if operation == "all-to-all":
        return (steps(1, 1),)
    if operation in ("all-gather", "reduce-scatter") and g == 1:
        return (steps(0, depth),)
    ring = steps(turns * (n - nodes), turns * (nodes - 1))
    return (ring, steps(2 * (g - 1), 2 * depth)) if operation == "all-reduce" else (ring,)


def _network_kind(timing: Timing) -> str:
    return "tcp" if timing.tcp else "network_ring"


def _network_latency(timing: Timing) -> str:
    return "tcp_latency" if timing.tcp else "network_latency"


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

    ``scale_up_ring``, ``all_to_all``, ``network_ring`` and ``tcp`` are shares of a wire's rate, by the way in which
    bytes cross it. ``scale_up_latency``, ``network_latency`` and ``tcp_latency`` are those of a step, in multiples of
    the latency on record. ``machines`` says how many machines showed each.
    """

    scale_up_ring: float = 1.0
    all_to_all: float = 1.0
    network_ring: float = 1.0
    tcp: float = 1.0
    scale_up_latency: float = 1.0
    network_latency: float = 1.0
    tcp_latency: float = 1.0
    machines: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}), hash=False)

    def _rows(self):
        rows = [("efficiency", "value", "machines")]
        for kind in (*_BANDWIDTHS, *_LATENCIES):
            value = getattr(self, kind)
            text = f"{value:.2f} times" if kind in _LATENCIES else fmt(value, "%")
            rows.append((kind.replace("_", " "), text, str(self.machines.get(kind, 0))))
        return rows


_BANDWIDTHS = ("scale_up_ring", "all_to_all", "network_ring", "tcp")
_LATENCIES = ("scale_up_latency", "network_latency", "tcp_latency")
_CLEAR = 0.75  # one wire sets the time where no other would need more than this part of it: shares differ by a quarter
_ROUNDS = 20  # the published rows settle in 14


@dataclass(frozen=True, kw_only=True)
class _Parts:
    """A prediction: its latency and transfer, the wire that sets the transfer, and that wire's seconds at full rate."""

    latency: float
    transfer: float
    kind: str
    wire: float
    clear: bool  # whether no other wire, if there is one, would need nearly as long


def _parts(timing: Timing, efficiency: LinkEfficiencyFit) -> _Parts:
    algorithms = [
        {kind: seconds / getattr(efficiency, kind) for kind, seconds in wires.items()} for wires in _algorithms(timing)
    ]
    fastest = min(algorithms, key=lambda wires: max(wires.values()))
    kind = max(fastest, key=fastest.get)
    return _Parts(
        latency=sum(_latency(timing, efficiency).values()),
        transfer=fastest[kind],
        kind=kind,
        wire=fastest[kind] * getattr(efficiency, kind),
        clear=all(seconds <= _CLEAR * fastest[kind] for other, seconds in fastest.items() if other != kind),
    )


def _latency(timing: Timing, efficiency: LinkEfficiencyFit) -> dict[str, float]:
    """Seconds of latency, by kind, of the algorithm that has the least."""
    algorithms = [
        {kind: getattr(efficiency, kind) * seconds for kind, seconds in steps.items()} for steps in _latencies(timing)
    ]
    return min(algorithms, key=lambda steps: sum(steps.values()))


def _remainder(known: float, total: float) -> float:
    """The other part of a pipelined time: y with known + y + sqrt(known y) = total; 0 where known is more."""
    return ((np.sqrt(np.maximum(4 * total - 3 * known, 0)) - np.sqrt(known)) / 2) ** 2 if total > known else 0.0


def fit_link_efficiency(timings: Iterable[Timing]) -> LinkEfficiencyFit:
    """Fit what carries over from one machine to another: medians over machines, each of which counts once.

    A machine is one publication and one kind of GPU. Each of its systems (operation, number of ranks, set of links)
    shows its share of the wires' rate with its largest message, if one wire clearly sets the time, and its latency with
    its smallest, if that is mostly latency; the machine shows the median of its systems. For a latency the value on
    record counts as one more machine: it is all that is known of most fabrics.

    Parameters
    ----------
    timings : iterable of Timing
        Rows of any number of sources. Those of quality C are left out.

    Returns
    -------
    LinkEfficiencyFit
        A share that no machine shows is that of its nearest kin: ``tcp`` of ``network_ring``, ``all_to_all`` of
        ``scale_up_ring``.

    Raises
    ------
    ValueError
        No row shows the rate of a wire.

    Examples
    --------
    >>> fit_link_efficiency(published_timings())
    LinkEfficiencyFit
    efficiency             value  machines
    scale up ring          81.3%        15
    all to all             72.4%         6
    network ring             96%         3
    tcp                    66.2%         2
    scale up latency  0.91 times         3
    network latency   1.69 times         2
    tcp latency       4.46 times         1
    """
    return _fitted_efficiency(tuple(timings))


@lru_cache(maxsize=64)
def _fitted_efficiency(timings: tuple[Timing, ...]) -> LinkEfficiencyFit:
    systems = _systems(timings)
    if not systems:
        raise ValueError("timings must hold at least one row that names its links, to fit their efficiency")
    efficiency = LinkEfficiencyFit()
    for _ in range(_ROUNDS):  # shares and latencies lean on each other
        before, efficiency = efficiency, _median_by_machine(systems, efficiency)
        if before == efficiency:
            break
    return efficiency


def _systems(timings: Iterable[Timing]) -> dict[tuple, list[Timing]]:
    """The rows of each system, whose key begins with its machine."""
    systems: dict[tuple, list[Timing]] = {}
    for row in timings:
        if row.quality != "C" and (row.scale_up or row.nodes > 1):
            links = (row.scale_up, row.network, row.tcp, row.in_switch)
            key = (row.machine or row.source, row.source, row.operation, row.ranks, row.nodes, links)
            systems.setdefault(key, []).append(row)
    return systems


def _median_by_machine(systems: Mapping[tuple, list[Timing]], efficiency: LinkEfficiencyFit) -> LinkEfficiencyFit:
    """Medians over machines of what their systems show, given ``efficiency`` for the part that they do not show."""
    shown: dict[str, dict[str, list[float]]] = {}
    for (machine, *_), rows in systems.items():
        for kind, value in (_shown_bandwidth(rows, efficiency) | _shown_latency(rows, efficiency)).items():
            shown.setdefault(kind, {}).setdefault(machine, []).append(value)
    machines = {kind: [float(np.median(values)) for values in each.values()] for kind, each in shown.items()}

    def median(kind: str, otherwise: float) -> float:
        return float(np.median(machines[kind])) if kind in machines else otherwise

    scale_up = median("scale_up_ring", median("all_to_all", median("network_ring", 1.0)))
    network = median("network_ring", median("tcp", scale_up))
    return LinkEfficiencyFit(
        scale_up_ring=scale_up,
        all_to_all=median("all_to_all", scale_up),
        network_ring=network,
        tcp=median("tcp", network),
        **{kind: float(np.median([1.0, *machines.get(kind, ())])) for kind in _LATENCIES},
        machines=MappingProxyType({kind: len(machines.get(kind, ())) for kind in (*_BANDWIDTHS, *_LATENCIES)}),
    )


def _shown_bandwidth(rows: list[Timing], efficiency: LinkEfficiencyFit) -> dict[str, float]:
    """The share of a wire's rate that a system gets with its largest message, if one wire clearly sets the time."""
    large = max(rows, key=lambda row: row.size)
    parts = _parts(large, efficiency)
    latency = parts.latency if np.isfinite(large.size) else 0.0
    transfer = _remainder(latency, large.seconds)
    return {parts.kind: parts.wire / transfer} if transfer > latency and parts.clear else {}


def _shown_latency(rows: list[Timing], efficiency: LinkEfficiencyFit) -> dict[str, float]:
    """The latency of a step, in multiples of that on record, of a system's smallest message, if it is mostly that."""
    large, small = max(rows, key=lambda row: row.size), min(rows, key=lambda row: row.size)
    if small.seconds / small.payload < 2 * large.seconds / large.payload:
        return {}  # its time grows with its size: no latency to see
    transfer = _parts(small, efficiency).transfer
    latency, steps = _remainder(transfer, small.seconds), _latency(small, efficiency)
    kind = _network_latency(small) if small.nodes > 1 else "scale_up_latency"
    if latency <= transfer or not steps[kind]:
        return {}
    own = max(latency - sum(steps.values()) + steps[kind], 0.0)  # what the other kind takes is known
    return {kind: own / steps[kind] * getattr(efficiency, kind)}


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
    '2.6%'
    """
    rows = _one_source(timings)
    if bare := [row.row for row in rows if not (row.scale_up or row.nodes > 1)]:
        raise ValueError(f"{rows[0].source}, {bare[0]}: a prediction needs the links (--scale-up, --network)")
    parts = [_parts(row, efficiency) for row in rows]
    latency, transfer = (np.array([getattr(part, name) for part in parts]) for name in ("latency", "transfer"))
    finite = np.isfinite([row.size for row in rows])
    predicted = pipelined_time(latency * finite, transfer)
    steps, ring_bytes = np.array([_ring(row) for row in rows]).T
    errors = predicted / np.array([row.seconds for row in rows]) - 1
    return LinkFit(
        source=rows[0].source,
        alpha=float(np.median(latency / steps)),
        bandwidth=float(np.median(ring_bytes / transfer)),
        wire_fraction=float(np.median([getattr(efficiency, part.kind) for part in parts])),
        pipelined=True,
        times=tuple(predicted.tolist()),
        errors=tuple(errors.tolist()),
        qualities=tuple(row.quality for row in rows),
    )


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
    "not be read or used go to stderr; the exit status is 1 if nothing is left.",
    _OWN,
)
PREDICT_HELP = (
    "predict timed collectives from their links' datasheets",
    "Predict each source from its links, with efficiencies fitted to the published timings of other machines that come "
    "with clusterlab, never on other sources of the file. Lines that could not be read or used go to stderr; the exit "
    "status is 1 if nothing is left.",
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
    name, results = name_of(arguments.file), []
    for timings in by_source(rows).values():
        try:
            result = _result(arguments.command, timings)
        except ValueError as error:
            problems.append(f"{name}, {error}")
            continue
        results.append(result)
    for result in results if arguments.command == "fit" else ():
        if (result.wire_fraction or 0) > 1.05:
            says = f"moves more than the wires that the row names ({fmt(result.wire_fraction, '%')} of their rate)"
            problems.append(f"{name}, {result.source}: {says}")
    for line in problems:
        print(line, file=sys.stderr)
    if not results:
        return 1
    print(json.dumps([_json(result) for result in results], indent=1) if arguments.json else table(results))
    return 0


def _result(command: str, timings: list[Timing]) -> LinkFit:
    if command == "fit":
        return fit_links(timings)
    (result,) = predict_held_out(timings, published_timings())
    return result


def _json(result: LinkFit) -> dict:
    return {
        "source": result.source,
        "rows": len(result.errors),
        "alpha_seconds": result.alpha,
        "bandwidth_bytes_per_second": result.bandwidth,
        "wire_fraction": result.wire_fraction,
        "mean_abs_error": result.mean_abs_error,
    }


def table(results: Iterable[LinkFit]) -> str:
    """A line for each source, one for all rows together and, where some are of quality C, one for the rest.

    Examples
    --------
    >>> rows = [row for row in published_timings() if row.source == "h200_sharp_ramp"]
    >>> print(table([fit_links(rows)]))
    source            rows    alpha  bandwidth   wire  error
    h200_sharp_ramp     10        -   364 GB/s    81%   0.6%
    all rows            10                              0.6%
    """
    results = list(results)
    width = max(17, *(len(result.source) for result in results))
    lines = [f"{'source':<{width}} {'rows':>4} {'alpha':>8} {'bandwidth':>10} {'wire':>6} {'error':>6}"]
    for result in results:
        alpha = "-" if result.alpha is None else fmt(result.alpha, "s")
        share = "-" if result.wire_fraction is None else f"{result.wire_fraction:.0%}"
        error, rows = f"{result.mean_abs_error:.1%}", len(result.errors)
        lines.append(
            f"{result.source:<{width}} {rows:>4} {alpha:>8} {fmt(result.bandwidth, 'B/s'):>10} {share:>6} {error:>6}"
        )
    errors = np.abs(np.concatenate([result.errors for result in results]))
    sound = np.concatenate([result.qualities for result in results]) != "C"
    for name, kept in {"all rows": sound | True, "without quality C": sound}.items():
        if kept.any() and (name == "all rows" or not kept.all()):
            lines.append(f"{name:<{width}} {kept.sum():>4} {'':>8} {'':>10} {'':>6} {errors[kept].mean():>6.1%}")
    return "\n".join(lines)
