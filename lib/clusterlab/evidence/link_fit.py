r"""Calibration: the alpha and beta of a real fabric, and what they say about a fabric that nobody has timed.

A row is one timed collective. Its bytes cross wires whose rates a datasheet gives, so it has a least time, w. A system
is fitted by two constants, the latency alpha of a step of the ring and the share f of the wires' rate that it gets:

.. math:: T = L + X \quad\text{or}\quad T = L + X + \sqrt{L X}, \qquad L = \rho\,\alpha, \quad X = w / f,

with rho the steps of the ring. The second form is :func:`~clusterlab.collectives.pipelined_time`; the one that fits
better is taken. Of all curves through two of the rows, the fit is the one with the least mean absolute relative error.

A system without a timing is predicted from its links alone. :func:`learn` takes from other machines what travels:
latencies, in multiples of the links' own inside nodes and of NCCL's constants between them, and a share for each way in
which bytes cross wires, never one for a system:

``stream``
    on NVLink or PCIe: between neighbours in a ring or a tree, in a single pair, and into switches that add and copy
    (:func:`~clusterlab.collectives.multicast_all_reduce`, slowed as NCCL knows that such switches are);
``exchange``
    between all pairs at once, on NVLink or through the ports of a node;
``network``, ``tcp``
    between nodes, by remote direct memory access or over TCP.

Across nodes a ring passes all its bytes through the network ports of each node, all ports together. A tree, or the
switches of every node with a tree above them, pass fewer. NCCL takes what is fastest, and so does the prediction.

Left out: NCCL changes protocol and algorithm as messages grow, and its times jump there, up or down. The root smooths
in one direction only, so sizes between latency and bandwidth carry most of the error that is left.
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

from ..collectives import bus_factor, multicast_all_reduce, pipelined_time
from ..units import Explained, fmt
from .nccl_tests import Timing, published_timings, read


@dataclass(frozen=True, repr=False)
class Calibration(Explained):
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


def _ways(timing: Timing) -> list[dict[str, float]]:
    """The ways in which NCCL might do it: for each, seconds on every kind of wire at its full rate."""
    size, n, nodes = timing.payload, timing.ranks, timing.nodes
    network = _network(timing)

    def way(kind: str, inside: float, across: float) -> dict[str, float]:
        seconds = {kind: inside / timing.scale_up} if timing.scale_up else {}
        return seconds | ({network: across / timing.network} if nodes > 1 else {})

    g = n // nodes
    if timing.operation == "send-receive":
        return [{network: size * g / timing.network} if nodes > 1 else {"stream": size / timing.scale_up}]
    if timing.operation == "all-to-all":  # (g - 1) / n of each buffer stays inside, (n - g) / n goes through a port
        inside = [size * (g - 1) / n / timing.scale_up] if timing.scale_up else []
        across = [size * (n - g) / n * g / timing.network] if nodes > 1 else []
        return [{network if timing.tcp else "exchange": max(inside + across)}]
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
    return steps, float(bus_factor(timing.operation, timing.ranks)) * timing.payload


def _waits(timing: Timing) -> list[dict[str, float]]:
    """Seconds of latency inside nodes and across for each way: around the ring, or through a tree.

    A piece that goes from the first rank of a ring to the last crosses to all nodes but the first; so counts NCCL. The
    messages of an all-to-all are all sent at once. With one GPU in each node NCCL gathers in log2 steps.
    """
    n, nodes, operation = timing.ranks, timing.nodes, timing.operation
    g, depth, turns = n // nodes, float(np.ceil(np.log2(nodes))), 2 if operation == "all-reduce" else 1

    def way(inside: float, across: float) -> dict[str, float]:
        network = {_network(timing): across * (timing.network_latency or 0.0)} if nodes > 1 else {}
        return {"inside": inside * (timing.scale_up_latency or 0.0)} | network

    if operation == "send-receive":
        return [way(0, 1) if nodes > 1 else way(1, 0)]
    if operation == "all-to-all":
        return [way(1, 1)]
    if operation in ("all-gather", "reduce-scatter") and g == 1:
        return [way(0, depth)]
    ways = [way(turns * (n - nodes), turns * (nodes - 1))]
    if operation == "all-reduce":
        ways.append(way(2 * (g - 1), 2 * depth))
    return ways


def _network(timing: Timing) -> str:
    return "tcp" if timing.tcp else "network"


# --- Fitting ---------------------------------------------------------------------------------------------------------


def fit(timings: Iterable[Timing], *, pipelined: bool | None = None) -> Calibration:
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
    Calibration
        ``alpha`` is None, and taken as zero, where all rows are of one size or plateaus, or show no latency.

    Raises
    ------
    ValueError
        There is no row, or there are several sources.

    Examples
    --------
    >>> rows = [row for row in published_timings() if row.source == "h200_8x_nvlink4"]
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
    # Here a way has the rates of the datasheet; a prediction weighs ways by the shares learnt, and may take another.
    wire = np.array([min(max(way.values()) for way in _ways(row)) for row in rows]) if wired else ring_bytes
    known = len(set(sizes[np.isfinite(sizes)])) > 1
    steps = steps * (np.isfinite(sizes) & known)
    forms = (False, True) if pipelined is None else (pipelined,)
    found = [(*_through_two(steps, wire, times, 1.0 * form, wired), form) for form in forms]
    _, alpha, share, form = min(found, key=lambda one: round(one[0], 9))  # a tie goes to the simpler form
    latency, transfer = steps * alpha, wire / share
    predicted = pipelined_time(latency, transfer) if form else latency + transfer
    return Calibration(
        source=rows[0].source,
        alpha=float(alpha) or None,
        bandwidth=float(np.median(share * ring_bytes / wire)),
        wire_fraction=float(share) if wired else None,
        pipelined=form,
        times=tuple(predicted.tolist()),
        errors=tuple((predicted / times - 1).tolist()),
        qualities=tuple(row.quality for row in rows),
    )


_ENDS = 150  # rows that a curve may go through: of 2,000 rows, 150 give nearly the least error, in a second
_UNSEEN = 0.01  # where the wires are not known either, the transfer is taken as this part of the fastest row


def _through_two(steps, wire, times, root, wired) -> tuple[float, float, float]:
    """Of the curves T = u² s + root u v sqrt(s w) + v² w through two rows, or one (u = 0 or a given v), the best.

    ``steps`` s, seconds at full rate w and measured seconds T are arrays, ``root`` is 0 or 1. Through two rows the
    ratio v/u solves a quadratic equation. Through one, where latency is all to see, the rate is that of the wires.
    Returns the mean absolute relative error, alpha = u² and the share 1 / v².
    """
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
    for s, w, x, t in zip(steps, wire, cross, times, strict=True):  # one row at a time: 150 ends make 10,000 curves
        errors += np.abs((s * alpha + w * slope + x * between) / t - 1) / len(times)
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
    """What is learnt from some machines and taken to another.

    ``shares``: of a wire's rate, by the way in which bytes cross it. ``latencies``: of a step inside nodes, between
    them and over TCP, in multiples of what is on record. ``votes``: how many machines had a say in either.
    """

    shares: Mapping[str, float]
    latencies: Mapping[str, float]
    votes: Mapping[str, int]

    def _rows(self):
        rows = [("learnt", "value", "machines")]
        shares = {f"share, {kind}": fmt(share, "%") for kind, share in self.shares.items()}
        waits = {f"latency, {kind}": f"{times:.2f} times" for kind, times in self.latencies.items()}
        return rows + [(name, text, str(self.votes[name])) for name, text in (shares | waits).items()]


_KINDS = ("stream", "exchange", "network", "tcp")
_WAITS = ("inside", "network", "tcp")
_CLEAR = 0.75  # one wire sets the time where no other would need more than this part of it: shares differ by a quarter
_ROUNDS = 20  # the published rows settle in 14


class _Parts(NamedTuple):
    """A prediction: its latency and transfer, the wire that sets the transfer, and that wire's seconds at full rate."""

    latency: float
    transfer: float
    kind: str
    wire: float
    clear: bool  # whether no other wire, if there is one, would need nearly as long


def _parts(timing: Timing, learnt: Shares) -> _Parts:
    ways = [{kind: seconds / learnt.shares[kind] for kind, seconds in way.items()} for way in _ways(timing)]
    way = min(ways, key=lambda way: max(way.values()))
    kind = max(way, key=way.get)
    clear = all(seconds <= _CLEAR * way[kind] for other, seconds in way.items() if other != kind)
    latency = sum(_wait(timing, learnt).values())
    return _Parts(latency, way[kind], kind, way[kind] * learnt.shares[kind], clear)


def _wait(timing: Timing, learnt: Shares) -> dict[str, float]:
    """Seconds of latency, by kind, on the way that has the least."""
    ways = [{kind: learnt.latencies[kind] * seconds for kind, seconds in way.items()} for way in _waits(timing)]
    return min(ways, key=lambda way: sum(way.values()))


def _remainder(known: float, total: float) -> float:
    """The other part of a pipelined time: y with known + y + sqrt(known y) = total; 0 where known is more."""
    return ((np.sqrt(np.maximum(4 * total - 3 * known, 0)) - np.sqrt(known)) / 2) ** 2 if total > known else 0.0


def learn(timings: Iterable[Timing]) -> Shares:
    """Learn what travels from one machine to another: medians, in which every machine has one vote.

    A machine is one publication and one kind of GPU. Each of its systems (operation, number of ranks, set of links)
    shows its share of the wires' rate with its largest message, if one wire clearly sets the time, and its latency with
    its smallest, if that is mostly latency; the vote is their median. In a latency the value on record has a vote, too:
    it is all that is known of most fabrics.

    Parameters
    ----------
    timings : iterable of Timing
        Rows of any number of sources. Those of quality C teach nothing.

    Returns
    -------
    Shares
        A share that no machine shows is that of its nearest kin: ``tcp`` of ``network``, ``exchange`` of ``stream``.

    Raises
    ------
    ValueError
        No row shows the rate of a wire.

    Examples
    --------
    >>> learn(published_timings())
    Shares
    learnt                 value  machines
    share, stream          81.3%        15
    share, exchange        72.4%         6
    share, network           96%         3
    share, tcp             66.2%         2
    latency, inside   0.91 times         3
    latency, network  1.69 times         2
    latency, tcp      4.46 times         1
    """
    systems: dict = {}
    for row in timings:
        if row.quality != "C" and (row.scale_up or row.nodes > 1):
            links = (row.scale_up, row.network, row.tcp, row.in_switch)
            key = (row.machine or row.source, row.source, row.operation, row.ranks, row.nodes, links)
            systems.setdefault(key, []).append(row)
    if not systems:
        raise ValueError("timings must hold at least one row that names its links, to learn from")
    ones = MappingProxyType(dict.fromkeys((*_KINDS, *_WAITS), 1.0))
    learnt = Shares(ones, ones, MappingProxyType({}))
    for _ in range(_ROUNDS):  # shares and latencies lean on each other
        before, learnt = learnt, _vote(systems, learnt)
        if before == learnt:
            break
    return learnt


def _vote(systems: Mapping, learnt: Shares) -> Shares:
    """Medians of the machines' votes, each taken with what was learnt before for the part that it does not show."""
    votes: dict[str, dict[str, list[float]]] = {}
    for (machine, *_), rows in systems.items():
        large = max(rows, key=lambda row: row.size)
        parts = _parts(large, learnt)
        latency = parts.latency if np.isfinite(large.size) else 0.0
        transfer = _remainder(latency, large.seconds)
        if transfer > latency and parts.clear:
            votes.setdefault(f"share, {parts.kind}", {}).setdefault(machine, []).append(parts.wire / transfer)
        small = min(rows, key=lambda row: row.size)
        if small.seconds / small.payload < 2 * large.seconds / large.payload:
            continue  # its time grows with its size: no latency to see
        transfer = _parts(small, learnt).transfer
        if (latency := _remainder(transfer, small.seconds)) > transfer:
            wait = _wait(small, learnt)
            kind = _network(small) if small.nodes > 1 else "inside"
            if wait[kind]:  # what the other kind takes is known
                times = max(latency - sum(wait.values()) + wait[kind], 0.0) / wait[kind] * learnt.latencies[kind]
                votes.setdefault(f"latency, {kind}", {}).setdefault(machine, []).append(times)
    machines = {name: [float(np.median(found)) for found in each.values()] for name, each in votes.items()}

    def middle(name: str, otherwise: float) -> float:
        return float(np.median(machines[name])) if name in machines else otherwise

    shares = {"stream": middle("share, stream", middle("share, exchange", middle("share, network", 1.0)))}
    shares["exchange"] = middle("share, exchange", shares["stream"])
    shares["network"] = middle("share, network", middle("share, tcp", shares["stream"]))
    shares["tcp"] = middle("share, tcp", shares["network"])
    waits = {kind: float(np.median([1.0, *machines.get(f"latency, {kind}", ())])) for kind in _WAITS}
    names = [f"share, {kind}" for kind in _KINDS] + [f"latency, {kind}" for kind in _WAITS]
    counts = {name: len(machines.get(name, ())) for name in names}
    return Shares(MappingProxyType(shares), MappingProxyType(waits), MappingProxyType(counts))


def predict(timings: Iterable[Timing], learnt: Shares) -> Calibration:
    """Predict the rows of one source from its links' datasheets and from what was learnt on other systems.

    Parameters
    ----------
    timings : iterable of Timing
        Rows of one source. Their seconds serve for the errors alone.
    learnt : Shares
        From :func:`learn`, on rows of other machines if this is to be a test.

    Returns
    -------
    Calibration

    Raises
    ------
    ValueError
        There is no row, there are several sources, or a row does not name its links.

    Examples
    --------
    >>> rows = [row for row in published_timings() if row.source == "h200_sharp_ramp"]
    >>> others = [row for row in published_timings() if row.machine != rows[0].machine]
    >>> fmt(predict(rows, learn(others)).mean_abs_error, "%", digits=2)
    '2.6%'
    """
    rows = _one_source(timings)
    if bare := [row.row for row in rows if not (row.scale_up or row.nodes > 1)]:
        raise ValueError(f"{rows[0].source}, {bare[0]}: a prediction needs the links (--scale-up, --network)")
    parts = [_parts(row, learnt) for row in rows]
    latency, transfer = (np.array([getattr(part, name) for part in parts]) for name in ("latency", "transfer"))
    finite = np.isfinite([row.size for row in rows])
    predicted = pipelined_time(latency * finite, transfer)
    steps, ring_bytes = np.array([_ring(row) for row in rows]).T
    errors = predicted / np.array([row.seconds for row in rows]) - 1
    return Calibration(
        source=rows[0].source,
        alpha=float(np.median(latency / steps)),
        bandwidth=float(np.median(ring_bytes / transfer)),
        wire_fraction=float(np.median([learnt.shares[part.kind] for part in parts])),
        pipelined=True,
        times=tuple(predicted.tolist()),
        errors=tuple(errors.tolist()),
        qualities=tuple(row.quality for row in rows),
    )


def predict_each(timings: Iterable[Timing], training: Iterable[Timing]) -> list[Calibration]:
    """Predict every source from the machines that it does not show: what tells whether the law travels.

    Parameters
    ----------
    timings, training : iterable of Timing
        Rows to predict, of any number of sources, and rows to learn from; of these all are left out that are of the
        same source, or of one of its machines, as the source that is being predicted.

    Returns
    -------
    list of Calibration
        One for each source, in the order of the rows.
    """
    training = list(training)
    results = []
    for source, rows in by_source(timings).items():
        own = {row.machine for row in rows if row.machine}
        results.append(predict(rows, learn(r for r in training if r.source != source and r.machine not in own)))
    return results


def by_source(timings: Iterable[Timing]) -> dict[str, list[Timing]]:
    """The rows of each source, in order."""
    sources: dict[str, list[Timing]] = {}
    for row in timings:
        sources.setdefault(row.source, []).append(row)
    return sources


# --- Command line ----------------------------------------------------------------------------------------------------


def main(argv: list[str] | None = None) -> int:
    """Fit alpha and beta to timed collectives, or predict them from their links' datasheets.

    Lines that could not be read or used go to stderr; the exit status is 1 if nothing is left.
    """
    parser = argparse.ArgumentParser(prog="python -m clusterlab.collectives", description=main.__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    helps = {
        "fit": "Fit each source of the file. In JSON alpha_seconds is null where all rows are of one size or plateaus, "
        "and wire_fraction where the links are not known; it is above 1 where the rows move more than those.",
        "predict": "Predict each source from its links, with shares learnt on the published timings of other machines "
        "that come with clusterlab, never on other sources of the file.",
    }
    for name, text in helps.items():
        command = commands.add_parser(name, help=text.partition(".")[0].partition(",")[0].lower(), description=text)
        command.add_argument("file", help="text output of nccl-tests, or a CSV in the form of data/collectives.csv")
        command.add_argument("--json", action="store_true", help="print a list of objects, one for each source")
        only = command.add_argument_group("for the output of nccl-tests, where its heading does not say")
        only.add_argument("--collective", help="all_reduce, all_gather, ...")
        only.add_argument("--ranks", type=int, help="number of GPUs")
        only.add_argument("--nodes", type=int, help="number of hosts, or of NVLink domains if these are wider")
        only.add_argument("--scale-up", metavar="LINK", help="link inside a node, such as 'NVLink 4'")
        only.add_argument("--network", metavar="LINK", help="link between nodes, a port for each GPU: 'InfiniBand NDR'")
    arguments = parser.parse_args(argv)
    known = {name: getattr(arguments, name) for name in ("collective", "ranks", "nodes", "scale_up", "network")}
    results = []
    try:
        rows, problems = read(arguments.file, **known)
        for source in by_source(rows).values():
            try:
                results += [fit(source)] if arguments.command == "fit" else predict_each(source, published_timings())
            except ValueError as error:
                problems.append(f"{arguments.file}, {error}")
    except (OSError, ValueError) as error:
        problems = [error]
    for result in results:
        if arguments.command == "fit" and (result.wire_fraction or 0) > 1.05:
            says = f"moves more than the wires that the row names ({fmt(result.wire_fraction, '%')} of their rate)"
            problems.append(f"{arguments.file}, {result.source}: {says}")
    for line in problems:
        print(line, file=sys.stderr)
    if not results:
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
    """A line for each source, one for all rows together and, where some are of quality C, one for the rest.

    Examples
    --------
    >>> rows = [row for row in published_timings() if row.source == "h200_sharp_ramp"]
    >>> print(table([fit(rows)]))
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
