"""Fits of a generation: the shares that its accelerators reach, and what they are worth for sources left out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np

from ..parallelism import step
from .robust_fits import Settings, fit_constants
from .training_runs import Run, RunBatch, batches

# --- Sources left out ------------------------------------------------------------------------------------------------

_START = {"gemm": 0.7, "gemm_8": 0.7, "gemm_4": 0.5, "memory": 0.7, "overlap_loss": 0.5, "attention": 0.3}
_NUDGE = 1.02
_MOST = dict.fromkeys(_START, 1.0 / _NUDGE) | {"attention": 9 / 16 / _NUDGE}
_SETTINGS = Settings(nudge=_NUDGE, floor=0.02, centred=True, least=0.05, most=_MOST)
# A refreshed chip has the cores of the one before: its shares are held near those. A tie of 1 leaves the
# least error of sources left out, among 0.4 to 3.
_PARENT, _TIE = {"Blackwell Ultra": "Blackwell"}, 1.0


def fit_efficiency(runs: Sequence[Run], *, rounds: int = 4) -> dict[str, float]:
    """Fit the shares of one generation of accelerators to runs on it, from the same neutral start every time.

    Parameters
    ----------
    runs
        Runs on accelerators of one generation. Every source has one vote, shared by its rows.
    rounds
        Steps of Gauss and Newton on the logarithms of times and shares.

    Returns
    -------
    dict
        Shares by their names in :class:`clusterlab.catalogue.Efficiency`. Those that no run shows stay as they began.

    Examples
    --------
    >>> from clusterlab.evidence import published_runs
    >>> runs = [run for run in published_runs()[0] if run.source.startswith("megatron_sc21")]
    >>> 0.8 < fit_efficiency(runs)["gemm"] < 0.9
    True
    """
    runs = list(runs)
    if not runs:
        raise ValueError("runs must be at least one run, got none")
    fitted = _fit(runs, batches(runs), np.ones((1, len(runs)), bool), rounds)
    return {name: float(value[0]) for name, value in fitted.items()}


def _fit(
    runs: list[Run],
    questions: list[RunBatch],
    kept: np.ndarray,
    rounds: int,
    parent: Mapping[str, np.ndarray] | None = None,
) -> dict[str, np.ndarray]:
    """One fit for each row of ``kept``, which says the runs that it sees; all fits together ask the model once.

    ``parent``: shares that each fit begins with, and is held near.
    """
    seconds, sources = np.array([run.seconds for run in runs]), np.array([run.source for run in runs])
    start = parent or {name: np.full(len(kept), value) for name, value in _START.items()}
    settings = replace(_SETTINGS, tie=_TIE) if parent else _SETTINGS

    def misses(shares: Mapping[str, np.ndarray]) -> np.ndarray:
        return np.log(_times(questions, len(runs), shares) / seconds)

    return fit_constants(start, misses, kept, sources, rounds=rounds, settings=settings)


def _times(questions: list[RunBatch], n: int, shares: Mapping[str, np.ndarray]) -> np.ndarray:
    """Seconds of every run with other shares, whose arrays come first in the shape of the result."""
    out = np.empty((*np.shape(shares["gemm"]), n))
    columns = {name: np.asarray(value)[..., None] for name, value in shares.items()}
    for where, model, machine, workload, layout, software in questions:
        efficiency = replace(machine.efficiency, **columns)  # type: ignore[arg-type]  # shares, as arrays
        changed = replace(machine, efficiency=efficiency)
        out[..., where] = step(model, changed, workload, layout, software=software).time
    return out


def leave_one_source_out(runs: Iterable[Run]) -> dict[str, float]:
    """Mean absolute error of each source under shares fitted to the other sources of its generation.

    Parameters
    ----------
    runs
        From :func:`clusterlab.evidence.read_runs`. Those whose source is alone in their generation are
        left out. The answer for the same records is remembered.

    Returns
    -------
    dict
        Source to error, a share of the measured time.

    Examples
    --------
    >>> from clusterlab.evidence import published_runs
    >>> runs = [run for run in published_runs()[0] if run.source in ("megatron_sc21_tab1", "korthikanti_tab5")]
    >>> max(leave_one_source_out(runs).values()) < 0.1
    True
    """
    return dict(_leave_one_source_out(tuple(runs)))


@lru_cache(maxsize=8)
def _leave_one_source_out(runs: tuple[Run, ...]) -> dict[str, float]:
    misses, sources = np.abs(unseen_times(runs) / [run.seconds for run in runs] - 1), [run.source for run in runs]
    errors: dict[str, list] = {}
    for source, miss in zip(sources, misses, strict=True):
        if not np.isnan(miss):
            errors.setdefault(source, []).append(miss)  # a source may have runs of several generations
    return {source: float(np.mean(found)) for source, found in errors.items()}


def unseen_times(runs: Iterable[Run]) -> np.ndarray:
    """Predicted seconds of each run under shares fitted to the other sources of its generation.

    Those of Blackwell Ultra are held near what the other sources show of Blackwell, whose cores it has.

    Parameters
    ----------
    runs
        From :func:`clusterlab.evidence.read_runs`.

    Returns
    -------
    array
        Seconds, in the order of the runs; NaN where a run's source is alone in its generation.

    Examples
    --------
    >>> from clusterlab.evidence import published_runs
    >>> runs = [run for run in published_runs()[0] if run.source in ("megatron_sc21_tab1", "korthikanti_tab5")]
    >>> times = unseen_times(runs)
    >>> bool(np.max(np.abs(times / [run.seconds for run in runs] - 1)) < 0.2)
    True
    """
    return _unseen_times(tuple(runs)).copy()


@lru_cache(maxsize=8)
def _unseen_times(runs: tuple[Run, ...]) -> np.ndarray:
    generations: dict[str, list[int]] = {}
    for i, run in enumerate(runs):
        generations.setdefault(run.machine.efficiency.generation, []).append(i)
    out = np.full(len(runs), np.nan)
    for generation, where in generations.items():
        some = [runs[i] for i in where]
        sources = list(dict.fromkeys(run.source for run in some))
        if len(sources) < 2:
            continue
        held = np.array([[run.source == source for run in some] for source in sources])
        questions = batches(some)
        older = [runs[i] for i in generations.get(_PARENT.get(generation, ""), ())]
        seen = np.array([[run.source != source for run in older] for source in sources])
        parent = _fit(older, batches(older), seen, 4) if older and np.all(seen.any(axis=1)) else None
        times = _times(questions, len(some), _fit(some, questions, ~held, 4, parent))
        for mask, of_fold in zip(held, times, strict=True):
            out[np.array(where)[mask]] = of_fold[mask]
    return out
