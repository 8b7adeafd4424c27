"""Training runs: what the model of a step takes of a published run, or of a reader's own, and what it predicts."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from typing import NamedTuple, TypeVar

import numpy as np

from ..catalogue import Machine, Software
from ..model import Layout, Transformer, Workload
from ..parallelism import Step, step
from ..planning import mixture
from ..quantities import Count

T = TypeVar("T")


# --- Training runs ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Run:
    """One run: what :func:`clusterlab.parallelism.step` takes, and the measured seconds of a step.

    ``seconds`` is NaN where a run is only planned. ``filled`` names what the row leaves open, the value taken and why:
    ``{"microbatch": "2 (fastest that fits)"}``. ``role`` is that of its source, as the table has it: constants were
    fitted to published runs that are ``"given"``, and none to those that are ``"held"``. ``stack`` is the one that is
    named, a key of :data:`clusterlab.planning.STACKS`. Where it is empty, ``plausible`` are the software that the run
    may be by, each with its layout; the run's own are those whose time is nearest their mean.
    """

    row: str
    source: str
    model: Transformer
    machine: Machine
    workload: Workload
    layout: Layout
    software: Software
    seconds: float
    filled: Mapping[str, str]
    role: str = ""
    stack: str = ""
    plausible: tuple[tuple[Software, Layout], ...] = ()

    def __post_init__(self) -> None:
        """Refuse another layout or software beside those that are plausible, for it would change nothing."""
        for name, own, column in (("software", self.software, 0), ("layout", self.layout, 1)):
            if self.plausible and all(one[column] is not own for one in self.plausible):
                raise ValueError(
                    f"{name} must be one of the {len(self.plausible)} that are plausible for run {self.row}, "
                    "or plausible=() given with it: then that one is predicted"
                )

    def by_each(self) -> list[Run]:
        """The run by each software that it may be by, or itself where one is named."""
        return [replace(self, software=one, layout=how, plausible=()) for one, how in self.plausible] or [self]


# How ``filled["memory"]`` of a run begins whose bytes do not fit: it is refused, or the host holds some of them.
NO_FIT = "does not fit:"
HOST = "the host holds"


def why_refused(run: Run) -> str | None:
    """Why the law of memory refuses a run, or ``None`` where it fits.

    Examples
    --------
    >>> from clusterlab.evidence import published_runs
    >>> refused = [run for run in published_runs()[0] if why_refused(run)]
    >>> 0 < len(refused) < len(published_runs()[0]) / 15
    True
    """
    found = run.filled.get("memory", "")
    return found[found.index("(") + 1 : -1] if found.startswith(NO_FIT) else None


def predict_run(run: Run) -> Step:
    """Return the step that the model predicts for a run.

    Examples
    --------
    >>> from clusterlab.evidence import published_runs
    >>> run = published_runs()[0][0]
    >>> bool(abs(predict_run(run).time / run.seconds - 1) < 0.1)
    True
    """
    return mixture([_step(one) for one in run.by_each()])


def _step(run: Run) -> Step:
    return step(run.model, run.machine, run.workload, run.layout, software=run.software)


def predict_runs(runs: Iterable[Run]) -> Step:
    """Return the steps of many runs as one record of arrays, in the order of the runs: faster than one by one.

    Examples
    --------
    >>> from clusterlab.evidence import published_runs
    >>> runs = published_runs()[0][:3]
    >>> predict_runs(runs).time.shape
    (3,)
    """
    found = _predicted(tuple(runs))
    return Step(**{f.name: getattr(found, f.name).copy() for f in fields(Step)})


@lru_cache(maxsize=8)
def _predicted(runs: tuple[Run, ...]) -> Step:
    """The steps of many runs, remembered: scores, rivals and intervals of the same runs all begin with them."""
    each = [run.by_each() for run in runs]
    flat = [one for several in each for one in several]
    columns = {f.name: np.empty(len(flat)) for f in fields(Step)}
    for batch in batches(flat):
        found = step(batch.model, batch.machine, batch.workload, batch.layout, software=batch.software)
        for name, column in columns.items():
            column[batch.where] = getattr(found, name)
    if len(flat) == len(runs):
        return Step(**columns)
    first = np.cumsum([0, *map(len, each)])[:-1]
    mixed = {name: column[first] for name, column in columns.items()}
    for i, (at, several) in enumerate(zip(first, each, strict=True)):
        if len(several) > 1:
            one = mixture(
                [Step(**{name: col[j] for name, col in columns.items()}) for j in range(at, at + len(several))]
            )
            for name, column in mixed.items():
                column[i] = getattr(one, name)
    return Step(**mixed)


# --- Many runs in one call -------------------------------------------------------------------------------------------


class RunBatch(NamedTuple):
    """Runs that share model, machine, software and precision, as one question to the model of a step.

    ``where`` are their places among all runs.
    """

    where: list[int]
    model: Transformer
    machine: Machine
    workload: Workload
    layout: Layout
    software: Software


def batches(runs: Sequence[Run]) -> list[RunBatch]:
    """Return the runs in batches, each of which is one call of :func:`clusterlab.parallelism.step`."""

    def alike(i: int) -> tuple[object, ...]:
        return runs[i].model, id(runs[i].machine), runs[i].workload.precision, runs[i].software

    found = []
    for where in grouped(range(len(runs)), alike):
        layout, workload, _ = stacked([runs[i].layout for i in where], [runs[i].workload for i in where])
        run = runs[where[0]]
        found.append(RunBatch(where, run.model, run.machine, workload, layout, run.software))
    return found


def stacked(
    layouts: Sequence[Layout], workloads: Sequence[Workload], **changed: list[Count]
) -> tuple[Layout, Workload, np.ndarray]:
    """Layouts and their workloads one after another as two records of arrays, and where each ends.

    ``changed`` are fields of the layouts that shall be others.
    """
    sizes = [layout_count(layout) for layout in layouts]
    columns = {f.name: [getattr(layout, f.name) for layout in layouts] for f in fields(Layout)} | changed
    if any(group is not None for group in columns["shard_group"]):
        columns["shard_group"] = [layout.sharding_ranks for layout in layouts]
    layout = Layout(**{name: _column(values, sizes) for name, values in columns.items()})
    sequences, batches = ([getattr(w, name) for w in workloads] for name in ("sequence", "global_batch"))
    workload = Workload(_column(sequences, sizes), _column(batches, sizes), workloads[0].precision)
    return layout, workload, np.cumsum(sizes)


def _column(values: list[Count], sizes: list[int]) -> Count:
    """Values of several records one after another; one value where all are the same."""
    first = values[0]
    if not np.ndim(first) and all(value is first or (not np.ndim(value) and value == first) for value in values):
        return first
    if sum(sizes) == len(sizes):
        return np.array([value.item() if np.ndim(value) else value for value in values])
    return np.concatenate([np.broadcast_to(value, size) for value, size in zip(values, sizes, strict=True)])


def layout_count(layout: Layout) -> int:
    """How many layouts a record holds: candidates vary together, or there is one."""
    return int(np.size(layout.tp))


def split_at(values: np.ndarray, ends: np.ndarray) -> list[np.ndarray]:
    """Undo :func:`stacked`, of a result."""
    return np.split(np.broadcast_to(values, ends[-1]), ends[:-1])


def grouped(items: Iterable[T], key: Callable[[T], Hashable]) -> list[list[T]]:
    """Items of one key together, in the order of their first."""
    found: dict[Hashable, list[T]] = {}
    for item in items:
        found.setdefault(key(item), []).append(item)
    return list(found.values())
