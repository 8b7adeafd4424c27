r"""Calibration: the alpha and beta of a real fabric, and what they say about a fabric that nobody has timed.

A row is one timed collective. Its bytes cross wires whose rates a datasheet gives, so it has a least time, w. A system
is fitted by two constants, the latency alpha of a step of the ring and the share f of the wires' rate that it gets:

.. math:: T = L + X \quad\text{or}\quad T = L + X + \sqrt{L X}, \qquad L = \rho\,\alpha, \quad X = w / f,

with rho the steps of the ring. The second form is :func:`~clusterlab.collectives.pipelined_time`; the one that fits
better is taken. Of all curves through two of the rows, the fit is the one with the least mean absolute relative error.

A system without a timing is predicted from its links alone. :func:`learn` takes from other systems what travels: a
latency in multiples of the links' own, and a share for each way in which bytes cross wires, never one for a system:

``stream``
    on NVLink or PCIe: between neighbours in a ring or a tree, in a single pair, and into switches that add and copy
    (:func:`~clusterlab.collectives.multicast_all_reduce`, slowed as NCCL knows that such switches are);
``exchange``
    between all pairs at once, on NVLink or through the ports of a node;
``network``, ``tcp``
    between nodes, by remote direct memory access or over TCP.

Across nodes a ring passes all its bytes through the network ports of each node, all ports together. A tree, or the
switches of every node with a tree above them, pass fewer. NCCL takes what is fastest, and so does the prediction.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from .collectives import bus_factor, multicast_all_reduce, pipelined_time
from .timings import Timing, published, read
from .units import Explained, fmt


@dataclass(frozen=True, repr=False)
class Calibration(Explained):
    """What was fitted to, or predicted for, the rows of one source, and the error that is left.

    ``alpha`` (seconds a step) and ``bandwidth`` (bytes/s of a long message, as a bus bandwidth) are those that a ring
    would have. ``wire_fraction`` is the share of the busiest wire's rate. None: the rows do not tell. ``pipelined``
    says which form the law has. Errors are relative.
    """

    source: str
    alpha: float | None
    bandwidth: float
    wire_fraction: float | None
    pipelined: bool
    times: tuple[float, ...]
    errors: tuple[float, ...]

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


def _ways(timing: Timing) -> list[dict[str, float]]:
    """The ways in which NCCL might do it: for each, seconds on every kind of wire at its full rate."""
    size, n, nodes = timing._bytes, timing.ranks, timing.nodes
    network = "tcp" if timing.tcp else "network"

    def way(kind: str, inside: float, across: float) -> dict[str, float]:
        seconds = {kind: inside / timing.scale_up} if timing.scale_up else {}
        return seconds | ({network: across / timing.network} if nodes > 1 else {})

    g = n // nodes
    if timing.operation == "send-receive":
        return [{network: size * g / timing.network} if nodes > 1 else {"stream": size / timing.scale_up}]
    if timing.operation == "all-to-all":  # (g - 1) / n of each buffer stays inside, (n - g) / n goes through a port
        inside = [size * (g - 1) / n / timing.scale_up] if timing.scale_up else []
        across = [size * (n - g) / n * g / timing.network] if nodes > 1 else []
        return [{"tcp" if timing.tcp else "exchange": max(inside + across)}]
    around = float(bus_factor(timing.operation, n)) * size
    ways = [way("stream", around, around)]
    if timing.operation == "all-reduce":
        # A node with two children in a double tree of nodes sends twice the buffer; of two nodes each has one child.
        between = size if nodes == 2 or timing.network_adds else 2 * size
        if nodes > 1:  # a chain in every node, up and down
            ways.append(way("stream", 2 * size, between))
        if timing.in_switch is not False and timing.scale_up:
            inside = float(multicast_all_reduce(size, g, bandwidth=1.0, latency=0.0).path_bytes)
            slower = timing.scale_up / (timing.switch or timing.scale_up)
            switched = way("stream", inside * slower, between)
            ways = [switched] if timing.in_switch else [*ways, switched]
    return ways


def _ring(timing: Timing) -> tuple[float, float]:
    """Steps and path bytes of the ring (or of the pairwise exchange, which has as many of both)."""
    steps = {"all-reduce": 2 * (timing.ranks - 1), "send-receive": 1}.get(timing.operation, timing.ranks - 1)
    return steps, float(bus_factor(timing.operation, timing.ranks)) * timing._bytes


def _links(timing: Timing, weights: tuple[float, float]) -> tuple[float, float]:
    """Latency of the links along the way, inside nodes and across: around the ring, or through a tree if that is less.

    A piece that goes from the first rank of a ring to the last crosses to all nodes but the first; so counts NCCL.
    """
    n, nodes = timing.ranks, timing.nodes
    inside = timing.scale_up_latency or 0.0
    across = timing.network_latency or 0.0
    if timing.operation == "send-receive":
        return (0.0, across) if nodes > 1 else (inside, 0.0)
    turns = 2 if timing.operation == "all-reduce" else 1
    ways = [(turns * (n - nodes) * inside, turns * (nodes - 1) * across)]
    if timing.operation == "all-reduce":
        ways.append((2 * (n // nodes - 1) * inside, 2 * np.ceil(np.log2(nodes)) * across))
    return min(ways, key=lambda way: weights[0] * way[0] + weights[1] * way[1])


# --- Fitting ---------------------------------------------------------------------------------------------------------


def fit(timings: Iterable[Timing], *, pipelined: bool | None = None) -> Calibration:
    """Alpha and the share of the wires' rate that leave the least mean absolute error on the rows of one source.

    Parameters
    ----------
    timings : iterable of Timing
        Rows of one source. If one of them names no wire, the share stays unknown and only the bandwidth is fitted.
    pipelined : bool, optional
        Whether the law has the root: see the module. By default it is the form that fits better.

    Returns
    -------
    Calibration
        ``alpha`` is None, and taken as zero, where all rows are of one size or plateaus.

    Raises
    ------
    ValueError
        There is no row, or there are several sources.

    Examples
    --------
    >>> rows = [row for row in published() if row.source == "h200_8x_nvlink4"]
    >>> fit(rows)
    Calibration
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
    wire = np.array([min(max(way.values()) for way in _ways(row)) for row in rows]) if wired else ring_bytes
    known = len(set(sizes[np.isfinite(sizes)])) > 1
    steps = steps * (np.isfinite(sizes) & known)
    forms = (False, True) if pipelined is None else (pipelined,)
    found = [(*_through_two(steps, wire, times, 1.0 * form, 1.0 * wired), form) for form in forms]
    _, alpha, share, form = min(found, key=lambda one: round(one[0], 9))  # a tie goes to the simpler form
    latency, transfer = steps * alpha, wire / share
    predicted = pipelined_time(latency, transfer) if form else latency + transfer
    return Calibration(
        source=rows[0].source,
        alpha=float(alpha) if known else None,
        bandwidth=float(np.median(share * ring_bytes / wire)),
        wire_fraction=float(share) if wired else None,
        pipelined=form,
        times=tuple(predicted.tolist()),
        errors=tuple((predicted / times - 1).tolist()),
    )


def _through_two(steps, wire, times, root, least) -> tuple[float, float, float]:
    """Of the curves T = u² s + root u v sqrt(s w) + v² w through one row (u = 0 or v² = least) or two, the best.

    Through two rows the ratio v/u solves a quadratic equation. No share is above 1, so v² is at ``least`` that. Returns
    the error, alpha = u² and the share 1 / v².
    """
    cross = np.sqrt(steps * wire)
    alphas, slopes = [np.zeros_like(times)], [times / wire]
    for i in range(len(times)):
        a = times * wire[i] - times[i] * wire
        b = root * (times * cross[i] - times[i] * cross)
        c = times * steps[i] - times[i] * steps
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = (np.sqrt(b**2 - 4 * a * c) - b) / (2 * a)  # the other root belongs to the rows in other order
            alpha = times[i] / (steps[i] + root * cross[i] * ratio + wire[i] * ratio**2)
            slope = alpha * ratio**2
        sound = np.isfinite(slope) & (ratio > 0) & (alpha > 0)
        alphas.append(alpha[sound])
        slopes.append(slope[sound])
    if least:  # at the full rate, through one row
        rest = (np.sqrt(np.maximum((root * cross) ** 2 - 4 * steps * (wire - times), 0)) - root * cross) / 2
        bound = (rest > 0) & (steps > 0)
        alphas.append((rest[bound] / steps[bound]) ** 2)
        slopes.append(np.full(bound.sum(), least))
    alpha, slope = np.concatenate(alphas), np.maximum(np.concatenate(slopes), least)
    errors = np.zeros(len(alpha))
    for s, w, t in zip(steps, wire, times, strict=True):  # one row at a time: 500 rows make 250,000 curves
        latency, transfer = s * alpha, w * slope
        errors += np.abs((latency + transfer + root * np.sqrt(latency * transfer)) / t - 1) / len(times)
    k = int(np.argmin(errors))
    return errors[k], alpha[k], 1 / slope[k]


def _one_source(timings: Iterable[Timing]) -> list[Timing]:
    rows = list(timings)
    sources = dict.fromkeys(row.source for row in rows)
    if len(sources) != 1:
        raise ValueError(f"timings must be rows of one source, got {len(sources)}: {', '.join(sources) or 'no rows'}")
    return rows


# --- Predicting ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class Shares(Explained):
    """What is learnt from some systems and taken to another.

    ``shares``: of a wire's rate, by the way in which bytes cross it. ``inside`` and ``across``: the latency of a step
    inside nodes and across, in multiples of what is on record for the link. ``votes``: how many systems had a say.
    """

    shares: Mapping[str, float]
    inside: float
    across: float
    votes: Mapping[str, int]

    def _rows(self):
        rows = [("learnt", "value", "systems")]
        rows += [(f"share, {kind}", fmt(share, "%"), str(self.votes[kind])) for kind, share in self.shares.items()]
        for name, latency in (("inside", self.inside), ("across", self.across)):
            rows.append((f"latency, {name} nodes", f"{latency:.2f} times", str(self.votes[name])))
        return rows


_KINDS = ("stream", "exchange", "network", "tcp")


class _Parts(NamedTuple):
    """A prediction: its latency and transfer, the wire that sets the transfer, and that wire's seconds at full rate."""

    latency: float
    transfer: float
    kind: str
    wire: float
    clear: bool  # whether the other wire would be done in three quarters of the time


def _parts(timing: Timing, learnt: Shares) -> _Parts:
    ways = [{kind: seconds / learnt.shares[kind] for kind, seconds in way.items()} for way in _ways(timing)]
    way = min(ways, key=lambda way: max(way.values()))
    kind = max(way, key=way.get)
    clear = all(seconds <= 0.75 * way[kind] for other, seconds in way.items() if other != kind)
    inside, across = _links(timing, (learnt.inside, learnt.across))
    latency = (learnt.inside * inside + learnt.across * across) * bool(np.isfinite(timing.size))
    return _Parts(latency, way[kind], kind, way[kind] * learnt.shares[kind], clear)


def _remainder(known: float, total: float) -> float:
    """The other part of a pipelined time: y with known + y + sqrt(known y) = total; 0 where known is more."""
    return ((np.sqrt(np.maximum(4 * total - 3 * known, 0)) - np.sqrt(known)) / 2) ** 2 if total > known else 0.0


def learn(timings: Iterable[Timing]) -> Shares:
    """Learn what travels from one system to another: medians, in which every system has one vote.

    A system is one source, operation, number of ranks and set of links. It shows its share of the wires' rate with its
    largest message, if one wire clearly sets the time, and its latency with its smallest, if that is mostly latency.

    Parameters
    ----------
    timings : iterable of Timing
        Rows of any number of sources. Those of quality C teach nothing.

    Returns
    -------
    Shares
        A share that no system shows is that of its nearest kin: ``tcp`` of ``network``, ``exchange`` of ``stream``; a
        latency, the link's own.

    Raises
    ------
    ValueError
        No row shows the rate of a wire.

    Examples
    --------
    >>> learn(published())
    Shares
    learnt                      value  systems
    share, stream               82.5%       34
    share, exchange             72.7%        8
    share, network                96%        6
    share, tcp                  66.3%        2
    latency, inside nodes  0.83 times        4
    latency, across nodes  6.23 times        3
    """
    systems: dict = {}
    for row in timings:
        if row.quality != "C" and (row.scale_up or row.nodes > 1):
            links = (row.scale_up, row.network, row.tcp, row.in_switch)
            systems.setdefault((row.source, row.operation, row.ranks, row.nodes, links), []).append(row)
    if not systems:
        raise ValueError("timings must hold at least one row that names its links, to learn from")
    learnt = Shares(MappingProxyType(dict.fromkeys(_KINDS, 1.0)), 1.0, 1.0, MappingProxyType({}))
    for _ in range(20):  # shares and latencies lean on each other; a few rounds settle them
        before, learnt = learnt, _vote(systems.values(), learnt)
        if before == learnt:
            break
    return learnt


def _vote(systems, learnt: Shares) -> Shares:
    votes: dict[str, list[float]] = {name: [] for name in (*_KINDS, "inside", "across")}
    for rows in systems:
        large = max(rows, key=lambda row: row.size)
        parts = _parts(large, learnt)
        transfer = _remainder(parts.latency, large.seconds)
        if transfer > parts.latency and parts.clear:
            votes[parts.kind].append(parts.wire / transfer)
        small = min(rows, key=lambda row: row.size)
        if small.seconds / small._bytes < 2 * large.seconds / large._bytes:
            continue  # its time grows with its size: no latency to see
        transfer = _parts(small, learnt).transfer
        if (latency := _remainder(transfer, small.seconds)) > transfer:
            inside, across = _links(small, (learnt.inside, learnt.across))
            if across:
                votes["across"].append(max(latency - learnt.inside * inside, 0.0) / across)
            elif inside:
                votes["inside"].append(latency / inside)
    middle = {name: float(np.median(found)) for name, found in votes.items() if found}
    stream = middle.get("stream", middle.get("exchange", middle.get("network", 1.0)))
    shares = {"stream": stream, "exchange": middle.get("exchange", stream)}
    shares["network"] = middle.get("network", middle.get("tcp", stream))
    shares["tcp"] = middle.get("tcp", shares["network"])
    counts = MappingProxyType({name: len(found) for name, found in votes.items()})
    return Shares(MappingProxyType(shares), middle.get("inside", 1.0), middle.get("across", 1.0), counts)


def predict(timings: Iterable[Timing], learnt: Shares) -> Calibration:
    """Predict the rows of one source from its links' datasheets and from what was learnt on other systems.

    Parameters
    ----------
    timings : iterable of Timing
        Rows of one source. Their seconds serve for the errors alone.
    learnt : Shares
        From :func:`learn`, on rows of other sources if this is to be a test.

    Returns
    -------
    Calibration

    Raises
    ------
    ValueError
        There is no row, there are several sources, or a row does not name its links.

    Examples
    --------
    >>> rows = [row for row in published() if row.source == "h200_sharp_ramp"]
    >>> others = [row for row in published() if row.source != "h200_sharp_ramp"]
    >>> fmt(predict(rows, learn(others)).mean_abs_error, "%", digits=2)
    '1.1%'
    """
    rows = _one_source(timings)
    if bare := [row.row for row in rows if not (row.scale_up or row.nodes > 1)]:
        raise ValueError(f"{rows[0].source}, {bare[0]}: a prediction needs the links; name scale_up, and the network")
    parts = [_parts(row, learnt) for row in rows]
    latency, transfer = (np.array([getattr(part, name) for part in parts]) for name in ("latency", "transfer"))
    predicted = pipelined_time(latency, transfer)
    steps, ring_bytes = np.array([_ring(row) for row in rows]).T
    finite = np.isfinite([row.size for row in rows])
    errors = predicted / np.array([row.seconds for row in rows]) - 1
    return Calibration(
        source=rows[0].source,
        alpha=float(np.median((latency / steps)[finite])) if finite.any() else None,
        bandwidth=float(np.median(ring_bytes / transfer)),
        wire_fraction=float(np.median([learnt.shares[part.kind] for part in parts])),
        pipelined=True,
        times=tuple(predicted.tolist()),
        errors=tuple(errors.tolist()),
    )


def predict_each(timings: Iterable[Timing], training: Iterable[Timing]) -> list[Calibration]:
    """Predict every source from all sources but itself: what tells whether the law travels.

    Parameters
    ----------
    timings, training : iterable of Timing
        Rows to predict, of any number of sources, and rows to learn from; of these the source that is being predicted
        is left out, if it is among them.

    Returns
    -------
    list of Calibration
        One for each source, in the order of the rows.
    """
    training = list(training)
    return [
        predict(rows, learn(row for row in training if row.source != source))
        for source, rows in by_source(timings).items()
    ]


def by_source(timings: Iterable[Timing]) -> dict[str, list[Timing]]:
    """The rows of each source, in order."""
    sources: dict[str, list[Timing]] = {}
    for row in timings:
        sources.setdefault(row.source, []).append(row)
    return sources


# --- Command line ----------------------------------------------------------------------------------------------------


def main(argv: list[str] | None = None) -> int:
    """Fit alpha and beta to timed collectives, or predict them from their links' datasheets."""
    parser = argparse.ArgumentParser(prog="python -m clusterlab.collectives", description=main.__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    helps = {
        "fit": "fit each source of the file",
        "predict": "predict each source from its links, with shares learnt on the published timings of other sources",
    }
    for name, text in helps.items():
        command = commands.add_parser(name, help=text, description=text)
        command.add_argument("file", help="text output of nccl-tests, or a CSV in the form of data/collectives.csv")
        command.add_argument("--json", action="store_true", help="print a list of objects, one for each source")
        only = command.add_argument_group("for the output of nccl-tests, where its heading does not say")
        only.add_argument("--collective", help="all_reduce, all_gather, ...")
        only.add_argument("--ranks", type=int, help="number of GPUs")
        only.add_argument("--nodes", type=int, help="number of hosts")
        only.add_argument("--scale-up", metavar="LINK", help="link inside a node, such as 'NVLink 4'")
        only.add_argument("--network", metavar="LINK", help="link between nodes, a port for each GPU: 'InfiniBand NDR'")
    arguments = parser.parse_args(argv)
    known = {name: getattr(arguments, name) for name in ("collective", "ranks", "nodes", "scale_up", "network")}
    try:
        rows, skipped = read(arguments.file, **known)
        for line in skipped:
            print(line, file=sys.stderr)
        if arguments.command == "fit":
            results = [fit(source) for source in by_source(rows).values()]
        else:
            results = predict_each(rows, published())
    except (OSError, ValueError) as error:
        print(error, file=sys.stderr)
        return 1
    if arguments.json:
        print(json.dumps([_json(result) for result in results], indent=1))
    else:
        print(table(results))
    return 0


def _json(result: Calibration) -> dict:
    return {
        "source": result.source,
        "rows": len(result.errors),
        "alpha_seconds": result.alpha,
        "bandwidth_bytes_per_second": result.bandwidth,
        "wire_fraction": result.wire_fraction,
        "mean_abs_error": result.mean_abs_error,
    }


def table(results: Iterable[Calibration]) -> str:
    """A line for each source, and one for all rows together.

    Examples
    --------
    >>> rows = [row for row in published() if row.source == "h200_sharp_ramp"]
    >>> print(table([fit(rows)]))
    source          rows    alpha  bandwidth   wire  error
    h200_sharp_ramp   10        -   364 GB/s    81%   0.6%
    all rows          10                              0.6%
    """
    results = list(results)
    width = max(len(result.source) for result in results)
    lines = [f"{'source':<{width}} {'rows':>4} {'alpha':>8} {'bandwidth':>10} {'wire':>6} {'error':>6}"]
    for result in results:
        alpha = "-" if result.alpha is None else fmt(result.alpha, "s")
        share = "-" if result.wire_fraction is None else f"{result.wire_fraction:.0%}"
        error, rows = f"{result.mean_abs_error:.1%}", len(result.errors)
        lines.append(
            f"{result.source:<{width}} {rows:>4} {alpha:>8} {fmt(result.bandwidth, 'B/s'):>10} {share:>6} {error:>6}"
        )
    errors = np.concatenate([result.errors for result in results])
    lines.append(f"{'all rows':<{width}} {len(errors):>4} {'':>8} {'':>10} {'':>6} {np.abs(errors).mean():>6.1%}")
    return "\n".join(lines)
