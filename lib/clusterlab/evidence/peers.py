"""Standing: where a run stands among published runs like it, and what the best layout of the search would give."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ..model import PRECISIONS, Layout, Recurrent, parameters, training_flops
from ..parallelism import Step, search, step
from ..planning import Site, Training
from ..planning.choice import axes_of_plan
from ..quantities import Share
from ..records import Explained, Rows
from ..units import fmt
from .training_runs import Run
from .training_tables import published_runs


class Peer(NamedTuple):
    """A published run beside which another stands."""

    source: str
    model: str
    machine: str
    gpus: int
    stack: str
    mfu: float

    @property
    def said(self) -> str:
        """The run in a line."""
        by = f", {self.stack}" if self.stack else ""
        return f"{self.model} on {self.gpus:,} {self.machine}{by} ({self.source})"


@dataclass(frozen=True, repr=False)
class Standing(Explained):
    """The MFU of a run among published ones: ``rank`` 1 is the best of ``of``, itself among them.

    ``alike`` is what they share with it, ``better`` and ``worse`` are its neighbours, the nearest first.
    """

    mfu: Share
    rank: int
    of: int
    alike: str
    better: tuple[Peer, ...]
    worse: tuple[Peer, ...]

    @property
    def sentence(self) -> str:
        """The same in words."""
        if self.of == 1:
            return f"MFU {fmt(self.mfu, '%')}; no published run is like it"
        below = (self.of - self.rank) / (self.of - 1)
        place = f"place {self.rank} of {self.of} published runs of {self.alike}"
        return f"MFU {fmt(self.mfu, '%')}, {place}: above {below:.0%} of them"

    def _rows(self) -> Rows:
        rows = [("MFU", "run")]
        rows += [(fmt(one.mfu, "%"), one.said) for one in reversed(self.better)]
        rows.append((fmt(self.mfu, "%"), "this run"))
        return rows + [(fmt(one.mfu, "%"), one.said) for one in self.worse]


def run_mfu(run: Run) -> float:
    """MFU of the measured time of a run, with attention in full, as steps count it.

    Examples
    --------
    >>> round(run_mfu(published_runs()[0][0]), 2)
    0.33
    """
    peak = run.machine.peaks[PRECISIONS[run.workload.precision][0]]
    flops = training_flops(run.model, run.workload.sequence).model * run.workload.tokens
    return float(flops / (run.seconds * run.layout.gpus * peak))


_ENOUGH = 5  # runs, of two sources or more: fewer say nothing of a place
_NEAR = 3.0  # times as large, or as small, is a model of its size


def standing(run: Run, published: Sequence[Run] | None = None, *, neighbours: int = 2) -> Standing:
    """Return where a run's MFU stands among published runs of such a model, machine and stack.

    Parameters
    ----------
    run
        From :func:`clusterlab.evidence.read_runs`, with a measured time.
    published : optional
        Runs to stand among, by default all that come with the library; those of its own source are left out.
    neighbours
        How many on either side are named.

    Returns
    -------
    Standing
        Among runs of its stack, its accelerator, its kind (dense or mixture), its precision and a third to three times
        its parameters; where these are fewer than five or of one source, of any stack, then of its generation, then of
        any size.

    Raises
    ------
    ValueError
        The run has no measured time.

    Examples
    --------
    >>> runs = published_runs()[0]
    >>> found = standing(runs[0], runs)
    >>> 1 <= found.rank <= found.of
    True
    """
    if not np.isfinite(run.seconds):
        raise ValueError(f"{run.row} has no measured time: it stands nowhere yet")
    others = [one for one in (published_runs()[0] if published is None else published) if one.source != run.source]
    alike, peers = _peers(run, [one for one in others if np.isfinite(one.seconds)])
    mine, shares = run_mfu(run), [run_mfu(one) for one in peers]
    order = np.argsort(shares, kind="stable")
    named = [_peer(peers[i], shares[i]) for i in order]
    better, worse = [one for one in named if one.mfu > mine], [one for one in reversed(named) if one.mfu <= mine]
    return Standing(mine, len(better) + 1, len(named) + 1, alike, tuple(better[:neighbours]), tuple(worse[:neighbours]))


def _peer(run: Run, mfu: float) -> Peer:
    return Peer(run.source, run.model.name, run.machine.name, int(run.layout.gpus), run.stack, mfu)


def _kind(run: Run) -> tuple[bool, bool, float]:
    return bool(run.model.experts), bool(run.model.count(Recurrent)), PRECISIONS[run.workload.precision][1]


def _peers(run: Run, others: Sequence[Run]) -> tuple[str, list[Run]]:
    """The published runs most like a run that are enough of them, and what they share with it."""
    sizes = {one.model: float(parameters(one.model).total) for one in [run, *others]}
    size, generation = sizes[run.model], run.machine.efficiency.generation
    rules: list[tuple[str, Callable[[Run], bool]]] = [
        (run.stack, lambda one: bool(run.stack) and one.stack == run.stack),
        (run.machine.name, lambda one: one.machine.name == run.machine.name),
        (
            f"{size / _NEAR / 1e9:.2g}B to {size * _NEAR / 1e9:.2g}B parameters",
            lambda one: 1 / _NEAR < sizes[one.model] / size < _NEAR,
        ),
    ]
    kind = "mixtures" if run.model.experts else "dense models"
    same = [one for one in others if _kind(one) == _kind(run)]
    here = [one for one in same if one.machine.efficiency.generation == generation]
    anyhow: tuple[str, Callable[[Run], bool]] = (generation, lambda _: True)
    looser = [rules, rules[1:], [anyhow, rules[2]], [rules[1]], [anyhow]]
    for asked in looser if run.stack else looser[1:]:
        found = [one for one in here if all(of(one) for _, of in asked)]
        if len(found) >= _ENOUGH and len({one.source for one in found}) > 1:
            return f"{kind} at {run.workload.precision} ({', '.join(said for said, _ in asked)})", found
    return f"{kind} at such a precision, on any accelerator", same


class Best(NamedTuple):
    """The best layout that a search finds for a run, and its step."""

    layout: Layout
    step: Step


def best_layout(run: Run) -> Best | None:
    """Return the fastest layout that fits for a run, on its machine with its software; None where none fits.

    Examples
    --------
    >>> run = published_runs()[0][0]
    >>> best_layout(run).step.time <= step(run.model, run.machine, run.workload, run.layout, software=run.software).time
    True
    """
    work, gpus = run.workload, int(run.layout.gpus)
    asked = Training(run.model, 1e12, work.sequence, work.global_batch, work.precision)
    _, values = axes_of_plan(asked, Site(run.machine.name, gpus=gpus), run.machine, [gpus])
    for axis, usual in values.items():  # its own are among those that are tried
        own = getattr(run.layout, axis)
        values[axis] = [*usual] if own in usual else [*usual, own]
    found = search(run.model, run.machine, work, gpus=gpus, software=run.software, values=values)
    if not found.memory.size:
        return None
    layout = found.best()
    return Best(layout, step(run.model, run.machine, work, layout, software=run.software))
