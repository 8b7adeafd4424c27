"""Explain: one run, from its predicted time to its measured one, and what could hide the difference.

``clusterlab explain FILE.csv --row ID`` shows the parts of the predicted step, what is missing from them, and suspects:
one thing at a time that the machine, its software or its layout may do otherwise than the model believes. One time
can't tell a slow network from slow attention. Several runs of one source can, for no two suspects slow the same runs:
each suspect is set to what brings all of them nearest, and ranked by the error that is left.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from difflib import get_close_matches
from typing import NamedTuple

import numpy as np

from ..model import PRECISIONS
from ..parallelism import PARTS, Step, step
from ..records import Explained, summary
from ..units import fmt
from .training_runs import Batch, Run, batches, predict_run, read_runs

_FACTORS = np.geomspace(1 / 16, 16, 65)  # multiples of what the model believes


@dataclass(frozen=True)
class Suspect:
    """One thing that may be otherwise than the model believes.

    ``value`` is what brings the runs of the source nearest, where the model believes ``believed``; both are ``None``
    for a switch. ``time`` is the predicted time of the run then, and ``error`` the mean absolute error of all runs of
    the source, as a share of their measured time.
    """

    name: str
    says: str
    value: float | None
    believed: float | None
    time: float
    error: float


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

    def _rows(self):
        def line(name: str, seconds: float):
            return name, f"{'-' * (seconds < 0)}{fmt(abs(seconds), 's')}", f"{seconds / self.run.seconds:.1%}"

        parts = [(name, float(getattr(self.step, name))) for name in PARTS]
        rows = [(self.run.row, "time", "share"), *(line(name, t) for name, t in parts if t)]
        name, _, share = line("predicted", float(self.step.time))
        rows += [(name, self.step.with_interval, share), line("not explained", self.gap)]
        return [*rows, line("measured", self.run.seconds)]


def explain(runs: Sequence[Run], row: str) -> Explanation:
    """Explain the difference between the measured and the predicted time of a run.

    Parameters
    ----------
    runs : sequence of Run
        From :func:`clusterlab.evidence.training_runs.read_runs`. Those of the same source tell suspects apart.
    row : str
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

    >>> from clusterlab.evidence.training_runs import published_runs
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
        hint = f"; did you mean {', '.join(close)}?" if close else ""
        raise ValueError(f"row must name one run that can be predicted, and {row!r} names {ids.count(row)}{hint}")
    mine = runs[ids.index(row)]
    near = [run for run in runs if _alike(run, mine)]
    here, questions, seconds = near.index(mine), batches(near), np.array([run.seconds for run in near])
    error = float(np.mean(np.abs(_times(questions, _UNCHANGED, np.ones(1))[0] / seconds - 1)))
    judged = []
    for change in _changes(mine):
        rank, value, times = _nearest(change, questions, seconds)
        left = float(np.mean(np.abs(times / seconds - 1)))
        if left < _BETTER * error:
            value = None if change.believed is None else value
            says = change.says if value is None else change.says.format(summary(value, change.unit))
            judged.append((rank, Suspect(change.name, says, value, change.believed, float(times[here]), left)))
    ranked = tuple(found for _, found in sorted(judged, key=lambda pair: pair[0]))
    return Explanation(mine, predict_run(mine), len(near), error, ranked)


_BETTER = 0.95  # a suspect that leaves more of the error than this explains nothing
_LEAST = 1e-3  # of error, that a change by a factor of e must bring


def _alike(run: Run, mine: Run) -> bool:
    """Whether what ails one run ails the other: source, chips and software are the same."""
    chips = run.machine.efficiency == mine.machine.efficiency
    return run.source == mine.source and chips and run.software == mine.software


# --- Suspects --------------------------------------------------------------------------------------------------------


class _Change(NamedTuple):
    """What may be otherwise: the times of a batch at a column of values, and how far each is from what is believed."""

    name: str
    says: str
    times: Callable[[Batch, np.ndarray], np.ndarray]
    values: np.ndarray = np.ones(1)
    believed: float | None = None
    unit: str = ""


def _times(questions: Sequence[Batch], change: _Change, values: np.ndarray) -> np.ndarray:
    """Seconds of every run under a change, a row for each value."""
    out = np.empty((len(values), sum(len(batch.where) for batch in questions)))
    for batch in questions:
        out[:, batch.where] = change.times(batch, values[:, None])
    return out


def _nearest(change: _Change, questions: Sequence[Batch], seconds: np.ndarray) -> tuple[float, float, np.ndarray]:
    """The value of a change that brings the runs nearest: its rank (low is likely), itself, and the times of the runs.

    Of values that do as well, as many do where there is one run, it is the one that changes least.
    """
    values = change.values
    at, *found = _best(change, questions, seconds, values)
    for _ in range(2 if len(values) > 1 else 0):  # finer, and finer again, between the neighbours of the best
        values = np.geomspace(values[max(at - 1, 0)], values[min(at + 1, len(values) - 1)], 25)
        at, *found = _best(change, questions, seconds, values)
    return tuple(found)


def _best(change: _Change, questions: Sequence[Batch], seconds: np.ndarray, values: np.ndarray):
    times = _times(questions, change, values)
    far = np.abs(np.log(values / change.believed)) if change.believed else 1.0
    ranks = np.mean(np.abs(times / seconds - 1), axis=1) + _LEAST * far
    at = int(np.argmin(ranks))
    return at, float(ranks[at]), float(values[at]), times[at]


def _step(batch: Batch, **changed) -> np.ndarray:
    asked = {name: changed.get(name, getattr(batch, name)) for name in ("machine", "workload", "layout", "software")}
    return step(batch.model, asked["machine"], asked["workload"], asked["layout"], software=asked["software"]).time


_UNCHANGED = _Change("nothing", "", lambda batch, _: _step(batch))


def _changes(mine: Run) -> Iterator[_Change]:
    """Yield all that may be otherwise with a run like this."""
    yield from _shares(mine)
    for name, what, switches in _OVERLAPS:
        if any(getattr(mine.software, switch) for switch in switches):
            off = dict.fromkeys(switches, False)
            yield _Change(
                name,
                f"as if {what} hid behind nothing",
                lambda batch, _, off=off: _step(batch, software=replace(batch.software, **off)),
            )
    for how, says in (("full", "as if everything were recomputed"), ("none", "as if nothing were recomputed")):
        yield _Change(
            "recomputation", says, lambda batch, _, how=how: _step(batch, layout=replace(batch.layout, recompute=how))
        )
    # Time in which a rank does nothing that the model knows: input, a slow neighbour, the host.
    values = mine.seconds * np.geomspace(1e-3, 2, len(_FACTORS))
    yield _Change("waiting", "as if every step waited for {}", lambda batch, t: _step(batch) + t, values, 0.0, "s")


_OVERLAPS = (
    ("overlap of gradients", "gradients and sharded weights", ("data_overlap",)),
    ("overlap of tensor parallelism", "its collectives", ("tensor_overlap_forward", "tensor_overlap_backward")),
    ("overlap of transfers", "transfers between stages", ("stage_overlap",)),
)


def _shares(mine: Run) -> Iterator[_Change]:
    """Yield the shares of a datasheet that the run's chips and wires may reach."""
    chip, wires = ("efficiency", mine.machine.efficiency), ("link_efficiency", mine.machine.link_efficiency)
    by_bits = {2: "gemm", 1: "gemm_8"}
    suspects = [
        ("GEMMs", *chip, by_bits.get(PRECISIONS[mine.workload.precision][1], "gemm_4"), "of peak"),
        ("memory", *chip, "memory", "of its bandwidth"),
        ("scale-up link", *wires, "scale_up_ring", "of its bandwidth"),
        ("network", *wires, "network_ring", "of its bandwidth"),
        ("all-to-all", *wires, "all_to_all", "of its bandwidth"),
    ]
    kernel = mine.software.attention  # in multiples of the share
    if kernel is not None:
        suspects.append(("attention", *chip, "attention", "of peak"))
    for name, record, shares, key, whole in suspects:
        scale = kernel if name == "attention" else 1.0
        believed = scale * float(getattr(shares, key))
        values = believed * _FACTORS[(9 / 16 if name == "attention" else 1.0) / getattr(shares, key) >= _FACTORS]
        # What slows GEMMs slows them at every precision.
        keys = ("gemm", "gemm_8", "gemm_4") if name == "GEMMs" else (key,)

        def times(batch: Batch, share: np.ndarray, record=record, keys=keys, believed=believed) -> np.ndarray:
            here = getattr(batch.machine, record)
            changed = {key: np.minimum(getattr(here, key) * share / believed, 1.0) for key in keys}
            return _step(batch, machine=replace(batch.machine, **{record: replace(here, **changed)}))

        yield _Change(name, f"as if {name} ran at {{}} {whole}", times, values, believed, "%")


# --- The command -----------------------------------------------------------------------------------------------------


def suspect_table(found: Explanation) -> str:
    """Return a line for each suspect: what it says, the run's time under it, and the error of the source's runs."""
    if not found.suspects:
        return "nothing that the model knows brings its runs nearer"
    rows = [("suspect", "this run", "error left")]
    rows += [(one.says, fmt(one.time, "s"), f"{one.error:.1%}") for one in found.suspects]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    align = (str.ljust, str.rjust, str.rjust)
    lines = (zip(align, row, widths, strict=True) for row in rows)
    return "\n".join("  ".join(put(cell, width) for put, cell, width in line).rstrip() for line in lines)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Say what the command takes."""
    parser.add_argument("file", help="a CSV as for validate; - is standard input")
    parser.add_argument("--row", required=True, help="the run to explain, by its row or row_id")
    parser.add_argument("--json", action="store_true", help="print one object")


def run(arguments: argparse.Namespace) -> int:
    """Explain a run and print; return the exit status."""
    runs, skipped = read_runs(arguments.file)
    for row in skipped:
        if row.row == arguments.row:
            raise ValueError(f"row {row.row} can't be predicted: {row.why}")
    found = explain(runs, arguments.row)
    if arguments.json:
        parts = {name: float(getattr(found.step, name)) for name in PARTS}
        times = {"measured": found.run.seconds, "predicted": float(found.step.time), "not_explained": found.gap}
        times |= {"low": float(found.step.low), "high": float(found.step.high)}
        about = {"row": found.run.row, "source": found.run.source, "runs": found.runs, "error": found.error}
        suspects = [asdict(one) for one in found.suspects]
        print(json.dumps(about | times | {"parts": parts, "suspects": suspects}, indent=1, allow_nan=False))
        return 0
    print(found, end="\n\n")
    print(f"{found.runs} runs of {found.run.source} on these chips, {found.error:.1%} off. One change at a time:\n")
    print(suspect_table(found))
    if found.runs == 1:
        print("\nOne time can't tell these apart: give more runs of the same machine (column group).", file=sys.stderr)
    return 0
