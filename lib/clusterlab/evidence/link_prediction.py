"""Predictions of collectives: rows of a source from other machines, or a collective on a machine that nobody has timed.

Every predicted time has an 80 % interval, from residuals of sources that the constants have not seen
(:func:`~clusterlab.evidence.learn_collective_spreads`, stored in :data:`clusterlab.catalogue.PREDICTION_INTERVALS`).
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from ..catalogue import PREDICTION_INTERVALS
from ..checks import positive, whole
from ..interconnect import bus_factor
from ..quantities import Bytes, BytesPerSecond, Number, PositiveBytes, Seconds
from ..records import Predicted, Rows, summary
from .link_efficiency import LinkEfficiencyFit, PredictedParts, fit_link_efficiency, fits_to_some, predicted_parts
from .link_fit import LinkFit, one_source
from .link_plans import ring_of
from .nccl_tests import published_timings
from .timings import Timing, by_source
from .wires import system_wires

# --- From machine to machine -----------------------------------------------------------------------------------------


def predict_timings(timings: Iterable[Timing], efficiency: LinkEfficiencyFit) -> LinkFit:
    """Predict the rows of one source from its links' datasheets and from what other systems show.

    Parameters
    ----------
    timings
        Rows of one source. Their seconds serve for the errors alone.
    efficiency
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
    >>> round(predict_timings(rows, fit_link_efficiency(others)).mean_abs_error, 3)
    0.023
    """
    rows = one_source(timings)
    if bare := [row.row for row in rows if not (row.scale_up or row.nodes > 1)]:
        raise ValueError(f"{rows[0].source}, {bare[0]}: a prediction needs the links (--scale-up, --network)")
    parts, steps = predicted_parts(rows, efficiency), np.array([ring_of(row)[0] for row in rows])
    predicted = parts.time
    # As for long messages, one of each kind of system.
    long = list(dict.fromkeys(replace(row, row="", size=np.inf, seconds=1.0) for row in rows))
    at_length = predicted_parts(long, efficiency)
    errors = predicted / np.array([row.seconds for row in rows]) - 1
    kinds = tuple(collective_kinds(rows, parts, efficiency))
    spreads = [collective_spread(kind, row.nodes) for kind, row in zip(kinds, rows, strict=True)]
    rates = np.array([ring_of(row)[1] for row in long]) / at_length.transfer
    long_kinds = collective_kinds(long, at_length, efficiency)
    widths = [collective_spread(kind, row.nodes) for kind, row in zip(long_kinds, long, strict=True)]
    # Seconds that a message of no bytes would wait: of a plateau, too.
    waits = predicted_parts([replace(row, size=1.0, seconds=1.0) for row in rows], efficiency).latency
    return LinkFit(
        source=rows[0].source,
        alpha=float(np.median(waits / steps)),
        bandwidth=float(np.median(rates)),
        bandwidth_low=float(np.median(rates / [high for _, high in widths])),
        bandwidth_high=float(np.median(rates / [low for low, _ in widths])),
        wire_fraction=float(np.median([getattr(efficiency, kind) for kind in at_length.kind])),
        pipelined=True,
        times=tuple(predicted.tolist()),
        errors=tuple(errors.tolist()),
        qualities=tuple(row.quality for row in rows),
        low=tuple((predicted * [low for low, _ in spreads]).tolist()),
        high=tuple((predicted * [high for _, high in spreads]).tolist()),
        kinds=kinds,
    )


UNKNOWN = "unknown fabric"  # the kind of rows of a fabric that no other machine has shown


def collective_kinds(timings: Sequence[Timing], parts: PredictedParts, efficiency: LinkEfficiencyFit) -> list[str]:
    """What the intervals of predictions are learned by: where bytes go, and whether they wait or move."""
    found = []
    for timing, waits in zip(timings, parts.latency > parts.transfer, strict=True):
        if timing.nodes > 1 and timing.fabric not in efficiency.fabrics and np.isfinite(timing.size):
            found.append(UNKNOWN)
        else:
            where = "one node" if timing.nodes == 1 else "nodes"
            found.append(f"{where}, {'latency' if waits else 'bandwidth'}")
    return found


TESTED = 64  # servers, or NVLink domains, up to which many publications hold the law
GROWTH = "each doubling over 64 servers"  # the kind of what widens an interval


def collective_spread(kind: str, nodes: int) -> tuple[float, float]:
    """The stored interval of a kind of collective, wider for each doubling of nodes over those that are well tested."""
    own, grows = (PREDICTION_INTERVALS[f"collective: {name}"] for name in (kind, GROWTH))
    doublings = max(0.0, float(np.log2(nodes / TESTED)))
    return float(own.low * grows.low**doublings), float(own.high * grows.high**doublings)


def spread_rests_on(kind: str, nodes: int) -> str:
    """How many rows and sources an interval is learned from, and that it is wider than theirs."""
    said, far = (PREDICTION_INTERVALS[f"collective: {name}"].facts["low"].note for name in (kind, GROWTH))
    return f"{kind}, {said}" + (f"; wider: over {TESTED} servers there are {far}" if nodes > TESTED else "")


def predict_held_out(timings: Iterable[Timing], training: Iterable[Timing]) -> list[LinkFit]:
    """Predict every source from machines that it does not show: whether the law carries over.

    Parameters
    ----------
    timings, training
        Rows to predict, of any number of sources, and rows to fit link efficiencies to. Of the latter all are left out
        that are of the source that is being predicted, or of one of its machines.

    Returns
    -------
    list of LinkFit
        One for each source, in the order of the rows.
    """
    training = tuple(training)
    results, fit = [], fits_to_some(training)
    for source, rows in by_source(timings).items():
        own = {row.machine for row in rows if row.machine}
        kept = [row.source != source and row.machine not in own for row in training]
        results.append(predict_timings(rows, fit(kept)))
    return results


def predict_unseen_generations(timings: Iterable[Timing], training: Iterable[Timing]) -> list[LinkFit]:
    """Predict every source as if nobody had timed its generation of GPUs on its fabric: a harder test.

    Parameters
    ----------
    timings, training
        Rows to predict, and rows to fit link efficiencies to. Of the latter all are left out that are of the same
        generation and fabric as the rows being predicted (:attr:`Timing.fold`), whoever published them, or of the same
        publication.

    Returns
    -------
    list of LinkFit
        One for each source and fold, in the order of the rows.
    """
    training = tuple(training)
    facts = [(row.fold, row.publication) for row in training]
    results, fit = [], fits_to_some(training)
    for rows in by_source(timings).values():
        for fold in dict.fromkeys(row.fold for row in rows):
            mine = [row for row in rows if row.fold == fold]
            own = {row.publication for row in mine}
            kept = [of != fold and publication not in own for of, publication in facts]
            results.append(predict_timings(mine, fit(kept)))
    return results


# --- A machine that nobody has timed ---------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class TimedCollective(Predicted):
    """What nccl-tests would print of a collective: ``time`` in seconds with its 80 % interval, for one size or many.

    ``latency``, ``transfer`` and ``filling`` are the parts of :func:`~clusterlab.interconnect.pipelined_time`.
    ``sharp`` says whether the switches between servers add (SHARP). ``spread_low`` and ``spread_high`` are those of its
    kind in multiples of ``time``, and ``rests_on`` says what they are learned from.
    """

    operation: str
    ranks: int
    sharp: bool
    size: Bytes
    latency: Seconds
    transfer: Seconds
    filling: Seconds
    spread_low: Number
    spread_high: Number
    rests_on: tuple[str, ...]

    _follow: ClassVar = {"bus_bandwidth": ("B/s", -1)}

    @property
    def time(self) -> Seconds:
        """Seconds, with what a pipeline cannot hide."""
        return self.latency + self.transfer + self.filling

    @property
    def bus_bandwidth(self) -> BytesPerSecond:
        """Bytes/s as nccl-tests prints them under busbw."""
        return bus_factor(self.operation, self.ranks) * self.size / self.time

    def _predicted(self) -> tuple[Seconds, Seconds, Seconds, str]:
        return self.time, self.spread_low * self.time, self.spread_high * self.time, "s"

    def _rows(self) -> Rows:
        rows = [(f"{self.operation} on {self.ranks:,}", "value"), ("SHARP", "on" if self.sharp else "off")]
        rows += [("size", summary(self.size, "B"))]
        rows += [(name, summary(getattr(self, name), "s")) for name in ("latency", "transfer", "filling")]
        rows += [("time", self.with_interval), ("bus bandwidth", self.say("bus_bandwidth"))]
        return rows + [("interval of", said) for said in self.rests_on]


_TIMED = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all", "broadcast", "send-receive")


@functools.cache
def _published_efficiency() -> LinkEfficiencyFit:
    """The fit of all published timings, without their hash at each prediction."""
    return fit_link_efficiency(published_timings())


def predict_collective(
    operation: str,
    size: PositiveBytes,
    ranks: int,
    *,
    node_size: int = 8,
    scale_up: str = "NVLink 4",
    network: str = "InfiniBand NDR",
    sharp: bool = False,
) -> TimedCollective:
    """Predict what a collective takes on a machine that nobody has timed, from its links and all published timings.

    NCCL's choice of algorithm and protocol, with the shares of the wires' rate and the latencies that machines show
    (:func:`fit_link_efficiency`). The laws of :mod:`clusterlab.interconnect` say what one algorithm could reach.

    Parameters
    ----------
    operation
        ``"all-reduce"``, ``"all-gather"``, ``"reduce-scatter"``, ``"all-to-all"``, ``"broadcast"`` or
        ``"send-receive"``.
    size
        Bytes, as nccl-tests count them: of one rank's buffer, or of the gathered one.
    ranks
        GPUs, in nodes (or domains) of ``node_size``, or all in one.
    node_size
        GPUs that the scale-up link joins.
    scale_up, network
        Names of the links, as in :func:`clusterlab.catalogue.link`; a port of the network for each GPU.
    sharp
        Whether the switches between nodes add an all-reduce up (SHARP), which most clusters leave off. NVLink switches
        that can (NVLS) do so wherever that is faster.

    Returns
    -------
    TimedCollective

    Raises
    ------
    ValueError
        ``size`` is not positive and finite, a count is not a whole number, ``ranks`` do not fill nodes, there is one
        rank alone, a name is unknown, or ``sharp`` is asked of another operation, a single node or links without NVLS.

    Examples
    --------
    The gradients of a 7B model on 256 H100s:

    >>> predict_collective("all-reduce", 14e9, 256)
    TimedCollective
    all-reduce on 256                                     value
    SHARP                                                   off
    size                                                  14 GB
    latency                                             2.47 ms
    transfer                                            72.6 ms
    filling                                             2.22 ms
    time                                  77.3 ms (65.8 to 103)
    bus bandwidth                         361 GB/s (271 to 424)
    interval of        nodes, bandwidth, 222 rows of 25 sources
    """
    (sizes,), (n, g) = positive(size=size), whole(ranks=ranks, node_size=node_size)
    if operation not in _TIMED:
        raise ValueError(f"operation must be one of {', '.join(_TIMED)}; got {operation!r}")
    if n < 2 or (n > g and n % g):
        raise ValueError(f"ranks must be two or more that fill nodes of {g:.0f}, got {ranks}")
    nodes = max(int(n / g), 1)
    wires = system_wires(scale_up, network, int(n) // nodes)
    in_switch = None if wires.switch else False
    if sharp and not (operation == "all-reduce" and nodes > 1 and wires.switch):
        raise ValueError(f"sharp is for an all-reduce over nodes whose switches add, got {operation} on {nodes}")
    in_switch = True if sharp else in_switch
    row = Timing("", "", operation, 1.0, 1.0, int(n), nodes, in_switch=in_switch, network_adds=sharp, **vars(wires))
    efficiency = _published_efficiency()
    timings = [replace(row, size=float(one)) for one in np.ravel(sizes)]
    parts = predicted_parts(timings, efficiency)
    kinds = collective_kinds(timings, parts, efficiency)
    rests = {kind: spread_rests_on(kind, nodes) for kind in kinds}
    low, high = np.transpose([collective_spread(kind, nodes) for kind in kinds])
    columns = (parts.latency, parts.transfer, parts.time - parts.latency - parts.transfer, low, high)
    latency, transfer, filling, low, high = (column.reshape(np.shape(sizes))[()] for column in columns)
    said = tuple(rests.values())
    return TimedCollective(operation, int(n), sharp, sizes, latency, transfer, filling, low, high, said)
