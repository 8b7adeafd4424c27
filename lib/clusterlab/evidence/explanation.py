"""Explain: one run, from its predicted time to its measured one, and what could hide the difference.

``clusterlab explain FILE.csv --row ID`` shows the parts of the predicted step, what is missing from them, and suspects:
one thing at a time that the machine, its software or its layout may do otherwise than the model believes. One time
can't tell a slow network from slow attention. Several runs of one source can, for no two suspects slow the same runs:
each suspect is set to what brings all of them nearest, and ranked by the error that is left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import NamedTuple

import numpy as np

from ..catalogue import SOFTWARE, Software
from ..contention import fullest_link
from ..model import PRECISIONS
from ..parallelism import STEP_PARTS, Step, step
from ..planning import SWITCHES, plausible_stacks
from ..records import Explained, Rows, summary
from ..units import fmt
from .training_runs import Run, RunBatch, batches, predict_run

# --- A run explained -------------------------------------------------------------------------------------------------

_FACTORS = np.geomspace(1 / 16, 16, 65)  # multiples of what the model believes


@dataclass(frozen=True)
class Suspect:
    """One thing that may be otherwise than the model believes.

    ``value`` is what brings the runs of the source nearest, where the model believes ``believed``; both are ``None``
    for a switch. ``time`` is the predicted time of the run then, and ``error`` the mean absolute error of all runs of
    the source, as a share of their measured time. ``measure`` is what to measure next, to tell it from the others.
    """

    name: str
    says: str
    value: float | None
    believed: float | None
    time: float
    error: float
    measure: str


# What tells a suspect from the others: one measurement of it alone.
_MEASURE = {
    "GEMMs": "one GEMM of a layer's shape on one GPU (clusterlab expect says what it reaches), clocks under load",
    "memory": "a copy or a triad of memory on one GPU (clusterlab expect says what it reaches)",
    "attention": "one layer's attention in a profiler; the name of the kernel that ran",
    "scale-up link": "all_reduce_perf inside a node, beside clusterlab expect",
    "network": "all_reduce_perf on two nodes under one leaf, then on all of the run, beside clusterlab expect",
    "all-to-all": "alltoall_perf on the ranks of EP, beside clusterlab expect",
    "software": "the versions that the log prints at its start; the same run by another stack",
    "overlap of gradients": "a timeline of one step: does the reduce-scatter run beside the backward pass?",
    "overlap of tensor parallelism": "a timeline of one layer: do its collectives run beside its GEMMs?",
    "overlap of transfers": "a timeline of one step: do sends between stages wait?",
    "recomputation": "the switch in the log, and the peak of memory",
    "waiting": "ten steps on made-up data, and the step time of every rank",
}


@dataclass(frozen=True, repr=False)
class Explanation(Explained):
    """The way from the predicted time of a run to its measured one, and suspects for what lies between.

    ``error`` is that of the source's ``runs`` as they are predicted. Of the ``suspects`` the first leaves least of it;
    with one run alone it is the one that has to change least.
    """

    run: Run
    step: Step
    runs: int
    error: float
    suspects: tuple[Suspect, ...]

    @property
    def gap(self) -> float:
        """Measured less predicted time, seconds."""
        return self.run.seconds - float(self.step.time)

    def _rows(self) -> Rows:
        def line(name: str, seconds: float) -> tuple[str, str, str]:
            return name, f"{'-' * (seconds < 0)}{fmt(abs(seconds), 's')}", f"{seconds / self.run.seconds:.1%}"

        parts = [(name, float(getattr(self.step, name))) for name in STEP_PARTS]
        rows = [(self.run.row, "time", "share"), *(line(name, t) for name, t in parts if t)]
        name, _, share = line("predicted", float(self.step.time))
        rows += [(name, self.step.with_interval, share), line("not explained", self.gap)]
        return [*rows, line("measured", self.run.seconds)]


def explain(runs: Sequence[Run], row: str) -> Explanation:
    """Explain the difference between the measured and the predicted time of a run.

    Parameters
    ----------
    runs
        From :func:`clusterlab.evidence.read_runs`. Those of the same source tell suspects apart.
    row
        The run's identifier.

    Returns
    -------
    Explanation
        Suspects that leave the source's error as it is are not in it.

    Raises
    ------
    ValueError
        There is no such run, or more than one.

    Examples
    --------
    A table made by the model itself, of a machine whose attention is slow:

    >>> from clusterlab.evidence import published_runs
    >>> runs = [run for run in published_runs()[0] if run.source == "mcore_h100_weak"]
    >>> def slow(run):
    ...     share = replace(run.machine.efficiency, attention=run.machine.efficiency.attention / 2)
    ...     return replace(run, seconds=predict_run(replace(run, machine=replace(run.machine, efficiency=share))).time)
    >>> explain([slow(run) for run in runs], runs[0].row).suspects[0].says
    'as if attention ran at 12% of peak'
    """
    ids = [run.row for run in runs]
    if ids.count(row) != 1:
        close = [] if row in ids else get_close_matches(row, ids, n=3)
        some = ", ".join(ids[:8]) + (", ..." if len(ids) > 8 else "")
        hint = f"; did you mean {', '.join(close)}?" if close else f"; rows: {some}" if row not in ids else ""
        raise ValueError(f"row must name one run that can be predicted, and {row!r} names {ids.count(row)}{hint}")
    mine = runs[ids.index(row)]
    near = [run for run in runs if _alike(run, mine)]
    here, questions, seconds = near.index(mine), batches(near), np.array([run.seconds for run in near])
    error = float(np.mean(np.abs(_times(questions, _UNCHANGED, np.ones(1))[0] / seconds - 1)))
    judged = []
    for change in _changes(mine):
        _, rank, value, times = _nearest(change, questions, seconds)
        rank += change.unlikely
        left = float(np.mean(np.abs(times / seconds - 1)))
        if left < _BETTER * error:
            found = None if change.believed is None else value
            says = change.says if found is None else change.says.format(summary(found, change.unit))
            told = change.measure or _MEASURE.get(change.name, _MEASURE["software"])
            judged.append((rank, Suspect(change.name, says, found, change.believed, float(times[here]), left, told)))
    ranked = tuple(suspect for _, suspect in sorted(judged, key=lambda pair: pair[0]))
    return Explanation(mine, predict_run(mine), len(near), error, ranked)


_BETTER = 0.95  # a suspect that leaves more of the error than this explains nothing
_LEAST = 1e-3  # of error, that a change by a factor of e must bring


def _alike(run: Run, mine: Run) -> bool:
    """Whether what ails one run ails the other: source, chips and software are the same."""
    chips = run.machine.efficiency == mine.machine.efficiency
    named = run.software == mine.software if mine.stack else not run.stack
    return run.source == mine.source and chips and named


# --- Suspects --------------------------------------------------------------------------------------------------------


_Times = Callable[[RunBatch, np.ndarray], np.ndarray]


class _Change(NamedTuple):
    """What may be otherwise: the times of a batch at a column of values, and how far each is from what is believed."""

    name: str
    says: str
    times: _Times
    values: np.ndarray = np.ones(1)
    believed: float | None = None
    unit: str = ""
    unlikely: float = 0.0  # added to its rank
    measure: str = ""  # where what tells it from the others depends on the machine


def _times(questions: Sequence[RunBatch], change: _Change, values: np.ndarray) -> np.ndarray:
    """Seconds of every run under a change, a row for each value."""
    out = np.empty((len(values), sum(len(batch.where) for batch in questions)))
    for batch in questions:
        out[:, batch.where] = change.times(batch, values[:, None])
    return out


class _Found(NamedTuple):
    """A value of a change: its place among those tried, its rank (low is likely), itself, and the times of the runs."""

    at: int
    rank: float
    value: float
    times: np.ndarray


def _nearest(change: _Change, questions: Sequence[RunBatch], seconds: np.ndarray) -> _Found:
    """The value of a change that brings the runs nearest.

    Of values that do as well, as many do where there is one run, it is the one that changes least.
    """
    values = change.values
    found = _best(change, questions, seconds, values)
    for _ in range(2 if len(values) > 1 else 0):  # finer, and finer again, between the neighbours of the best
        values = np.geomspace(values[max(found.at - 1, 0)], values[min(found.at + 1, len(values) - 1)], 25)
        found = _best(change, questions, seconds, values)
    return found


def _best(change: _Change, questions: Sequence[RunBatch], seconds: np.ndarray, values: np.ndarray) -> _Found:
    times = _times(questions, change, values)
    far = np.abs(np.log(values / change.believed)) if change.believed else 1.0
    ranks = np.mean(np.abs(times / seconds - 1), axis=1) + _LEAST * far
    at = int(np.argmin(ranks))
    return _Found(at, float(ranks[at]), float(values[at]), times[at])


def _step(batch: RunBatch) -> np.ndarray:
    return step(batch.model, batch.machine, batch.workload, batch.layout, software=batch.software).time


_UNCHANGED = _Change("nothing", "", lambda batch, _: _step(batch))


def _changes(mine: Run) -> Iterator[_Change]:
    """Yield all that may be otherwise with a run like this."""
    yield from _shares(mine)
    yield from _collisions(mine)
    for software in _other_stacks(mine):
        stack = f"a stack of {software.name}" if software.name.isdecimal() else software.name
        doubt = _NAMED_STACK if mine.stack else 0.0
        yield _Change(f"software {software.name}", f"as if it ran on {stack}", _by(software), unlikely=doubt)
    for name, what, switches in _OVERLAPS:
        if any(getattr(mine.software, switch) for switch in switches):
            yield _Change(name, f"as if {what} hid behind nothing", _without(switches))
    for how, says in (("full", "as if everything were recomputed"), ("none", "as if nothing were recomputed")):
        yield _Change("recomputation", says, _recomputing(how))
    # Time in which a rank does nothing that the model knows: input, a slow neighbour, the host.
    values = mine.seconds * np.geomspace(1e-3, 2, len(_FACTORS))
    yield _Change("waiting", "as if every step waited for {}", lambda batch, t: _step(batch) + t, values, 0.0, "s")


_NAMED_STACK = 0.05  # of error that another stack must save where one is named


def _other_stacks(mine: Run) -> list[Software]:
    """What a run may be by that names no stack; or what another stack than the one that is named does."""
    if mine.plausible:
        return [software for software, _ in mine.plausible]
    names = plausible_stacks(mine.machine.name)
    return [SOFTWARE[name] for name in names if name != mine.software.name]


_OVERLAPS = (
    ("overlap of gradients", "gradients and sharded weights", ("data_overlap",)),
    ("overlap of tensor parallelism", "its collectives", ("tensor_overlap_forward", "tensor_overlap_backward")),
    ("overlap of transfers", "transfers between stages", ("stage_overlap",)),
)


def _without(switches: Sequence[str]) -> _Times:
    """Times without what these switches of the software hide."""
    off = dict.fromkeys(switches, False)
    # Every switch of a software is a bool.
    return lambda batch, _: _step(batch._replace(software=replace(batch.software, **off)))  # type: ignore[arg-type]


def _by(software: Software) -> _Times:
    return lambda batch, _: _step(batch._replace(software=software))


def _recomputing(how: str) -> _Times:
    return lambda batch, _: _step(batch._replace(layout=replace(batch.layout, recompute=how)))


def _reaching(record: str, keys: Sequence[str], believed: float) -> _Times:
    """Times where shares of a machine are what they are believed to be, times what the value is of that."""

    def times(batch: RunBatch, share: np.ndarray) -> np.ndarray:
        here = getattr(batch.machine, record)
        changed = {key: np.minimum(getattr(here, key) * share / believed, 1.0) for key in keys}
        return _step(batch._replace(machine=replace(batch.machine, **{record: replace(here, **changed)})))

    return times


def _collisions(mine: Run) -> Iterator[_Change]:
    """Yield flows that a hash sends up the same cable; only runs that no set of leaves holds have any.

    The switch is the smallest on record that has ports of the network's rate; half of them are uplinks, each GPU of a
    server is on a rail of its own. No more flows meet than on the fullest uplink of a leaf that sends all of them out.
    An exchange among experts has many small flows, which even out.
    """
    ports = [one.ports for one in SWITCHES.values() if one.port == mine.machine.network_bandwidth]
    if not ports:
        return
    up = min(ports) / 2
    most, some, many = (float(fullest_link(up * pairs, up) / pairs) for pairs in (1, 4, 16))
    rails = min(mine.machine.domain, _SERVER)

    def times(batch: RunBatch, slower: np.ndarray) -> np.ndarray:
        links = batch.machine.link_efficiency
        across = np.where(np.asarray(batch.layout.gpus) > up * rails, slower, 1.0)
        links = replace(links, network_ring=links.network_ring / across)
        return _step(batch._replace(machine=replace(batch.machine, link_efficiency=links)))

    told = (
        "all_reduce_perf under one leaf, then across leaves with NCCL_IB_QPS_PER_CONNECTION 1, 4 and 16: hashed flows "
        f"of {up:.0f} uplinks may take {most:.1f}, {some:.1f} and {many:.1f} times as long, a slow link always as long"
    )
    says, values = "as if flows collided, {} on the fullest uplink", np.geomspace(1.0, most, 25)
    yield _Change("collisions", says, times, values, 1.0, unlikely=_NO_EVIDENCE, measure=told)


_SERVER = 8  # accelerators of a server, at most
_NO_EVIDENCE = 2e-3  # of error that collisions must save where a slow network explains as much


def _shares(mine: Run) -> Iterator[_Change]:
    """Yield the shares of a datasheet that the run's chips and wires may reach."""
    by_bits = {2.0: "gemm", 1.0: "gemm_8"}
    suspects = [
        ("GEMMs", "efficiency", by_bits.get(PRECISIONS[mine.workload.precision][1], "gemm_4"), "of peak"),
        ("memory", "efficiency", "memory", "of its bandwidth"),
        ("scale-up link", "link_efficiency", "scale_up_ring", "of its bandwidth"),
        ("network", "link_efficiency", "network_ring", "of its bandwidth"),
        ("all-to-all", "link_efficiency", "all_to_all", "of its bandwidth"),
    ]
    kernel = mine.software.attention  # in multiples of the share
    if kernel is not None:
        suspects.append(("attention", "efficiency", "attention", "of peak"))
    for name, record, key, whole in suspects:
        here = float(getattr(getattr(mine.machine, record), key))
        scale, most = (kernel, 9 / 16) if kernel is not None and name == "attention" else (1.0, 1.0)
        values = scale * here * _FACTORS[most / here >= _FACTORS]
        # What slows GEMMs slows them at every precision.
        times = _reaching(record, ("gemm", "gemm_8", "gemm_4") if name == "GEMMs" else (key,), scale * here)
        yield _Change(name, f"as if {name} ran at {{}} {whole}", times, values, scale * here, "%")
