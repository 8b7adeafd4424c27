"""Validation: training runs, published or a reader's own, beside what the model of a step predicts.

``clusterlab validate FILE.csv`` predicts every run of a table (:mod:`clusterlab.evidence.training_runs`) and compares,
run by run and source by source. :func:`fit_efficiency` fits the constants of one generation of accelerators to runs on
it, and :func:`leave_one_source_out` shows what such constants are worth for runs that they have not seen. Its residuals
are what the intervals of predictions are learned from (:func:`learn_spreads`), and :func:`coverage` tests these.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from ..catalogue import Scatter
from ..model import parameters
from ..parallelism import Step, kind, step
from ..records import Explained, with_interval
from ..units import fmt
from .calibration import (
    Calibrated,
    calibrated,
    calibration_table,
    expected_misses,
    learn,
    leave_one_run_out,
    weighted_quantile,
)
from .text import UNUSABLE, name_of
from .training_runs import (
    HOST,
    Batch,
    Run,
    Skipped,
    batches,
    parse_runs,
    predict_runs,
    published_runs,
    read_runs,
    why_refused,
)

# --- Scores ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class Score(Explained):
    """How well a source is predicted. Errors are shares of the measured step time; ``None`` where nothing is known.

    ``baseline_mean_abs_error`` is that of the one constant MFU that fits these rows best, ``skill`` is 1 minus the
    ratio of the two errors: above 0 the model beats that constant. ``coverage`` is the share of rows inside their 80 %
    interval. The last two are the errors of fair rivals, which know published runs of other sources only
    (:func:`rivals`): one MFU for a generation and precision, and the MFU of the nearest run.
    """

    source: str
    rows: int
    predicted: int
    skipped: int
    mean_abs_error: float | None
    median_abs_error: float | None
    bias: float | None
    baseline_mean_abs_error: float | None
    skill: float | None
    coverage: float | None = None
    generation_mean_abs_error: float | None = None
    nearest_mean_abs_error: float | None = None


def score(source: str, errors, mfu, *, skipped: int = 0, inside=None, rival_errors=None) -> Score:
    """Score one source.

    Parameters
    ----------
    source : str
        Its name.
    errors : array_like
        Predicted over measured time, minus 1.
    mfu : array_like
        Time at the full peak over measured time: the published MFU of each row.
    skipped : int
        Rows that could not be predicted.
    inside : array_like of bool, optional
        Whether the measured time lies in the interval of the prediction.
    rival_errors : tuple of two array_like, optional
        Of the two rivals, as ``errors``; NaN where a rival knows nothing.

    Returns
    -------
    Score

    Examples
    --------
    >>> found = score("lab", [0.02, -0.02], [0.40, 0.50])
    >>> round(found.baseline_mean_abs_error, 3), round(found.skill, 2)
    (0.1, 0.8)
    """
    errors, mfu = np.asarray(errors, float), np.asarray(mfu, float)
    n = len(errors)
    if not n:
        return Score(source, skipped, 0, skipped, None, None, None, None, None)
    # The mean of |mfu / constant - 1| is piecewise linear in 1 / constant: its least is at one of the rows.
    baseline = min(float(np.mean(np.abs(mfu / constant - 1))) for constant in mfu)
    error = float(np.mean(np.abs(errors)))
    skill = 1 - error / baseline if baseline > 0 else None
    median, bias = float(np.median(np.abs(errors))), float(errors.mean())
    covered = None if inside is None else float(np.mean(inside))
    others = [_mean_of_known(np.abs(np.asarray(errors))) for errors in rival_errors or ((), ())]
    return Score(source, n + skipped, n, skipped, error, median, bias, baseline, skill, covered, *others)


def _mean_of_known(values: np.ndarray) -> float | None:
    known = values[~np.isnan(values)]
    return float(known.mean()) if known.size else None


def relative_errors(runs: Iterable[Run]) -> np.ndarray:
    """Predicted over measured time, minus 1, of each run.

    Examples
    --------
    >>> bool(np.median(np.abs(relative_errors(published_runs()[0]))) < 0.06)
    True
    """
    runs = list(runs)
    return predict_runs(runs).time / np.array([run.seconds for run in runs]) - 1


def compare(runs: Iterable[Run], skipped: Iterable[Skipped] = ()) -> tuple[list[Score], Score]:
    """Score every source, and all rows together.

    Parameters
    ----------
    runs, skipped : iterable
        From :func:`clusterlab.evidence.training_runs.read_runs`.

    Returns
    -------
    tuple
        A list of :class:`Score`, in the order of the rows, and one for all rows.

    Examples
    --------
    >>> scores, overall = compare(*published_runs())
    >>> scores[0].source, overall.rows, overall.predicted
    ('megatron_sc21_tab1', 652, 643)
    """
    runs = list(runs)
    predicted, seconds = predict_runs(runs), np.array([run.seconds for run in runs])
    return _compare(runs, list(skipped), predicted, seconds)


def _compare(runs: list[Run], skipped: list[Skipped], predicted, seconds) -> tuple[list[Score], Score]:
    errors = predicted.time / seconds - 1
    inside = (predicted.low <= seconds) & (seconds <= predicted.high)
    mfu = predicted.model_flops / (predicted.gpus * predicted.peak) / seconds
    rival_errors = [mfu / guess - 1 for guess in rivals(runs)] if runs else [errors, errors]
    where: dict[str, list[int]] = {}
    for i, run in enumerate(runs):
        where.setdefault(run.source, []).append(i)
    left = Counter(row.source for row in skipped)

    def of(name: str, rows: list[int] | slice, skipped: int) -> Score:
        others = (rival_errors[0][rows], rival_errors[1][rows])
        return score(name, errors[rows], mfu[rows], skipped=skipped, inside=inside[rows], rival_errors=others)

    scores = [of(source, where.get(source, []), left[source]) for source in dict.fromkeys([*where, *left])]
    return scores, of("overall", slice(None), sum(left.values()))


# --- Rivals that know published runs of other sources ----------------------------------------------------------------


class _Known(NamedTuple):
    """What rivals know of runs, as arrays."""

    source: np.ndarray
    group: np.ndarray  # generation of accelerators and precision
    place: np.ndarray  # where runs are near each other: a row for each
    mfu: np.ndarray


def _known(runs: Sequence[Run]) -> _Known:
    steps, seconds = predict_runs(runs), np.array([run.seconds for run in runs])
    mfu = steps.model_flops / (steps.gpus * steps.peak) / seconds
    names = np.array([f"{run.machine.efficiency.generation}, {run.workload.precision}" for run in runs])
    # A factor of ten in parameters, accelerators or tokens is as far as dense is from a mixture; another generation or
    # precision is farther than any of these.
    counted = {run.model: parameters(run.model).total for run in runs}
    sizes = [[counted[run.model] for run in runs], steps.gpus, steps.tokens]
    place = np.column_stack([*np.log10(sizes), [bool(run.model.experts) for run in runs]])
    return _Known(np.array([run.source for run in runs]), names, place, mfu)


@lru_cache(maxsize=1)
def _published() -> _Known:
    return _known(published_runs()[0])


def rivals(runs: Sequence[Run]) -> tuple[np.ndarray, np.ndarray]:
    """MFU of each run by two rules that know the published runs of other sources, and no law.

    Parameters
    ----------
    runs : sequence of Run
        From :func:`clusterlab.evidence.training_runs.read_runs`.

    Returns
    -------
    tuple of array
        The median MFU of the same generation of accelerators and precision, every source having one vote shared by its
        rows, and the MFU of the nearest run: of that generation and precision, if there is one, by parameters,
        accelerators, tokens of a step, and whether it is a mixture. NaN where there is no such run for the first.

    Examples
    --------
    >>> one, nearest = rivals(published_runs()[0][:3])
    >>> bool(np.all((0.3 < one) & (one < 0.6)))
    True
    """
    here, known = _known(runs), _published()
    one, nearest = np.full(len(here.mfu), np.nan), np.full(len(here.mfu), np.nan)
    for i, source in enumerate(here.source):
        other = known.source != source
        same = other & (known.group == here.group[i])
        if same.any():
            one[i] = weighted_quantile(known.mfu[same], _votes(known.source[same], 1.0), 0.5)
        distance = np.abs(known.place - here.place[i]).sum(axis=1) + 100.0 * (known.group != here.group[i])
        if other.any():
            nearest[i] = known.mfu[other][np.argmin(distance[other])]
    return one, nearest


# --- Fitting the shares of a generation, and leaving sources out -----------------------------------------------------

_START = {"gemm": 0.7, "gemm_8": 0.7, "gemm_4": 0.5, "memory": 0.7, "overlap_loss": 0.5}
_START |= {"attention": 0.3}
_NUDGE = 1.02
# A refreshed chip has the cores of the one before: its shares are held near those. A tie of 1 leaves the
# least error of sources left out, among 0.4 to 3.
_PARENT, _TIE = {"Blackwell Ultra": "Blackwell"}, 1.0


def fit_efficiency(runs: Sequence[Run], *, rounds: int = 4) -> dict[str, float]:
    """Fit the shares of one generation of accelerators to runs on it, from the same neutral start every time.

    Parameters
    ----------
    runs : sequence of Run
        Runs on accelerators of one generation. Every source has one vote, shared by its rows.
    rounds : int
        Steps of Gauss and Newton on the logarithms of times and shares.

    Returns
    -------
    dict
        Shares by their names in :class:`clusterlab.catalogue.Efficiency`. Those that no run shows stay as they began.

    Raises
    ------
    ValueError
        There are no runs.

    Examples
    --------
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
    runs: list[Run], questions: list[Batch], kept: np.ndarray, rounds: int, parent: Mapping | None = None
) -> dict[str, np.ndarray]:
    """One fit for each row of ``kept``, which says the runs that it sees; all fits together ask the model once.

    ``parent``: shares that each fit begins with, and is held near.
    """
    folds, n = kept.shape
    seconds, sources = np.array([run.seconds for run in runs]), np.array([run.source for run in runs])
    values = {name: np.array(value) for name, value in (parent or {}).items()}
    values = values or {name: np.full(folds, value) for name, value in _START.items()}
    weights = np.zeros(kept.shape)
    for fold, mask in enumerate(kept):
        sizes = Counter(sources[mask])
        weights[fold, mask] = [sizes[source] ** -0.5 for source in sources[mask]]
    for _ in range(rounds):
        # The shares as they are, and with each of them nudged.
        nudged = {name: np.repeat(value[:, None], 1 + len(values), axis=1) for name, value in values.items()}
        for i, name in enumerate(values):
            nudged[name][:, 1 + i] *= _NUDGE
        misses = np.log(_times(questions, n, nudged) / seconds)
        for fold, mask in enumerate(kept):
            now = misses[fold, 0, mask]
            slopes = (misses[fold, 1:, mask] - now[:, None]) / np.log(_NUDGE)
            # Rows far off (a machine short of memory, say) count less: least absolute rather than least squares.
            robust = weights[fold, mask] / np.sqrt(np.maximum(np.abs(now - np.median(now)), 0.02))
            damped = [slopes * robust[:, None], 0.3 * np.eye(len(values))]
            aims = [-now * robust, np.zeros(len(values))]
            if parent:
                damped.append(_TIE * np.eye(len(values)))
                aims.append(_TIE * np.log([parent[name][fold] / values[name][fold] for name in values]))
            change = np.linalg.lstsq(np.vstack(damped), np.concatenate(aims), rcond=None)[0]
            for name, by in zip(values, np.clip(change, -0.4, 0.4), strict=True):
                most = 9 / 16 if name.startswith("attention") else 1.0
                values[name][fold] = np.clip(values[name][fold] * np.exp(by), 0.05, most / _NUDGE)
    return values


def _times(questions: list[Batch], n: int, shares: Mapping[str, np.ndarray]) -> np.ndarray:
    """Seconds of every run with other shares, whose arrays come first in the shape of the result."""
    shape = np.shape(shares["gemm"])
    out = np.empty((*shape, n))
    columns = {name: np.asarray(value)[..., None] for name, value in shares.items()}
    for where, model, machine, workload, layout, software in questions:
        changed = replace(machine, efficiency=replace(machine.efficiency, **columns))
        out[..., where] = step(model, changed, workload, layout, software=software).time
    return out


def leave_one_source_out(runs: Iterable[Run]) -> dict[str, float]:
    """Mean absolute error of each source under shares fitted to the other sources of its generation.

    Parameters
    ----------
    runs : iterable of Run
        From :func:`clusterlab.evidence.training_runs.read_runs`. Those whose source is alone in their generation are
        left out. The answer for the same records is remembered.

    Returns
    -------
    dict
        Source to error, a share of the measured time.

    Examples
    --------
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
    runs : iterable of Run
        From :func:`clusterlab.evidence.training_runs.read_runs`.

    Returns
    -------
    array
        Seconds, in the order of the runs; NaN where a run's source is alone in its generation.

    Examples
    --------
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


# --- Intervals -------------------------------------------------------------------------------------------------------

_TENTH = 0.1  # of runs below the interval, and of runs above it


def _votes(sources: np.ndarray, power: float) -> np.ndarray:
    """Weights of rows: a source with n of them has n to the power of 1 less ``power`` votes."""
    _, where, counts = np.unique(sources, return_inverse=True, return_counts=True)
    return counts[where] ** -power


def _interval(ratios: np.ndarray, sources: np.ndarray) -> tuple[float, float]:
    votes = _votes(sources, 0.5)
    low, high = (weighted_quantile(ratios, votes, share) for share in (_TENTH, 1 - _TENTH))
    return low, high


def learn_spreads(runs: Iterable[Run]) -> dict[str, tuple[float, float]]:
    r"""Learn the 80 % interval of each kind of run, in multiples of the prediction, from runs no constant has seen.

    A run's ratio is its measured time over the time under shares fitted to the other sources of its generation. Between
    the ends of the interval lie four fifths of the ratios of the kind; a source of n rows has the votes of
    :math:`\sqrt{n}`.

    Parameters
    ----------
    runs : iterable of Run
        Of two sources or more in a generation.

    Returns
    -------
    dict
        Kind (:func:`clusterlab.parallelism.kind`) to its low and high ratio.

    Examples
    --------
    >>> low, high = learn_spreads(published_runs()[0])["dense, 16 bits"]
    >>> round(low, 2), round(high, 2)
    (0.91, 1.12)
    """
    runs = list(runs)
    ratios, kinds, sources = residuals(runs)
    return {kind: _interval(ratios[kinds == kind], sources[kinds == kind]) for kind in dict.fromkeys(kinds.tolist())}


def residuals(runs: Iterable[Run]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Measured time over the time under shares fitted to other sources: what intervals are learned from.

    Parameters
    ----------
    runs : iterable of Run
        Of two sources or more in a generation; those whose source is alone there are left out.

    Returns
    -------
    tuple of array
        The ratio, the kind and the source of each run.

    Examples
    --------
    >>> ratios, kinds, sources = residuals(published_runs()[0])
    >>> ratios.size, bool(0.9 < np.median(ratios) < 1.1)
    (587, True)
    """
    runs = list(runs)
    ratios = np.array([run.seconds for run in runs]) / unseen_times(runs)
    kinds = np.array([kind(run.model, run.workload.precision) for run in runs])
    known = ~np.isnan(ratios)
    return ratios[known], kinds[known], np.array([run.source for run in runs])[known]


def learn_scatters(runs: Iterable[Run]) -> dict[str, dict[str, float]]:
    """Learn how runs of each kind scatter about their predictions, from runs no constant has seen.

    Parameters
    ----------
    runs : iterable of Run
        Of two sources or more in a generation.

    Returns
    -------
    dict
        Kind (:func:`clusterlab.parallelism.kind`) to the fields of a :class:`clusterlab.catalogue.Scatter`.

    Examples
    --------
    >>> found = learn_scatters(published_runs()[0])["dense, 16 bits"]
    >>> round(found["between_sources"], 2), round(found["between_runs"], 2)
    (0.08, 0.05)
    """
    return {name: learn(*columns) for name, columns in _scattered(runs).items()}


def _scattered(runs: Iterable[Run]) -> dict[str, tuple[np.ndarray, list[str], list]]:
    """Of each kind of run: logarithms of what :func:`residuals` returns, their sources and their models."""
    found: dict[str, tuple[list, list, list]] = {}
    runs = list(runs)
    for run, time in zip(runs, unseen_times(runs), strict=True):
        if not np.isnan(time):
            columns = found.setdefault(kind(run.model, run.workload.precision), ([], [], []))
            for column, value in zip(columns, (np.log(run.seconds / time), run.source, run.model), strict=True):
                column.append(value)
    return {name: (np.array(misses), sources, models) for name, (misses, sources, models) in found.items()}


def calibration_worth(runs: Iterable[Run], *, least: int = 4) -> list[Calibrated]:
    """Test calibration: every source is a machine whose runs are predicted with the help of its other runs.

    How runs scatter is learned from the other sources each time, and so are the constants.

    Parameters
    ----------
    runs : iterable of Run
        Of two sources or more of a kind.
    least : int
        Sources with fewer runs of a kind are left out.

    Returns
    -------
    list of Calibrated
        One for each kind of run.

    Examples
    --------
    >>> [found.kind for found in calibration_worth(published_runs()[0]) if 0.75 < found.inside < 0.85]
    ['dense, 16 bits', 'mixture of experts', 'dense, 8 or 4 bits']
    """
    found = []
    for name, (misses, sources, models) in _scattered(runs).items():
        rows = []
        for source, size in Counter(sources).items():
            mine = np.array([one == source for one in sources])
            if size < least or mine.all():
                continue
            others = [[column[i] for i in np.flatnonzero(~mine)] for column in (misses, sources, models)]
            scatter = Scatter(name=name, facts={}, **learn(*others))
            low, high = _interval(np.exp(misses[~mine]), np.array(sources)[~mine])
            middle, deviation = expected_misses(scatter, misses[mine], [models[i] for i in np.flatnonzero(mine)])
            ends = np.exp(middle - scatter.reach * deviation), np.exp(middle + scatter.reach * deviation)
            for ratio, factor, *interval in zip(np.exp(misses[mine]), np.exp(middle), *ends, strict=True):
                before = abs(1 / ratio - 1), low <= ratio <= high, high / low
                after = abs(factor / ratio - 1), interval[0] <= ratio <= interval[1], interval[1] / interval[0]
                rows.append([value for pair in zip(before, after, strict=True) for value in pair])
        if rows:
            found.append(Calibrated(name, len(rows), *map(float, np.mean(rows, axis=0))))
    return found


@dataclass(frozen=True, repr=False)
class Coverage(Explained):
    """How often runs of a kind lie in an interval that was learned from other sources only.

    ``width`` is the mean of the interval's upper end over its lower end; ``constant_width`` is that of the same kind of
    interval around one MFU for each generation and precision, which covers ``constant_share``.
    """

    kind: str
    runs: int
    sources: int
    share: float
    width: float
    constant_share: float
    constant_width: float

    def _rows(self):
        rows = [
            (self.kind, "by the law", "by a constant"),
            ("runs", f"{self.runs:,}", ""),
            ("sources", f"{self.sources:,}", ""),
        ]
        rows.append(("inside", fmt(self.share, "%", 2), fmt(self.constant_share, "%", 2)))
        return [*rows, ("width", fmt(self.width, "", 2), fmt(self.constant_width, "", 2))]


def coverage(runs: Iterable[Run]) -> list[Coverage]:
    """Test the intervals: leave every source out, learn the interval from the others, and count who lies inside.

    Parameters
    ----------
    runs : iterable of Run
        Of two sources or more of a kind.

    Returns
    -------
    list of Coverage
        One for each kind of run.

    Examples
    --------
    >>> [found.kind for found in coverage(published_runs()[0]) if 0.75 <= found.share <= 0.85]
    ['dense, 16 bits', 'mixture of experts', 'dense, 8 or 4 bits']
    """
    runs = list(runs)
    ratios, kinds, sources = residuals(runs)
    steps, seconds = predict_runs(runs), np.array([run.seconds for run in runs])
    mfu = steps.model_flops / (steps.gpus * steps.peak) / seconds
    constant = rivals(runs)[0] / mfu  # measured time over that at the constant MFU
    all_kinds = np.array([kind(run.model, run.workload.precision) for run in runs])
    all_sources = np.array([run.source for run in runs])
    found = []
    for name in dict.fromkeys(kinds.tolist()):
        ours = kinds == name
        theirs = (all_kinds == name) & ~np.isnan(constant)
        share, width = _covered(ratios[ours], sources[ours])
        other_share, other_width = _covered(constant[theirs], all_sources[theirs])
        found.append(Coverage(name, int(ours.sum()), len(set(sources[ours])), share, width, other_share, other_width))
    return found


def _covered(ratios: np.ndarray, sources: np.ndarray) -> tuple[float, float]:
    """The share of ratios inside the interval of the other sources, and its mean width as a ratio."""
    inside, widths = np.zeros(len(ratios), bool), np.zeros(len(ratios))
    for source in dict.fromkeys(sources.tolist()):
        mine = sources == source
        if mine.all():
            return float("nan"), float("nan")
        low, high = _interval(ratios[~mine], sources[~mine])
        inside[mine] = (low <= ratios[mine]) & (ratios[mine] <= high)
        widths[mine] = high / low
    return float(inside.mean()), float(widths.mean())


# --- Tables ----------------------------------------------------------------------------------------------------------


def score_table(scores: Iterable[Score]) -> str:
    """Return a line for each score.

    Examples
    --------
    >>> print(score_table([score("lab", [0.02, -0.02], [0.40, 0.50], skipped=1)]))
    source  rows  predicted   mean  median    bias  constant MFU  skill  inside  one MFU  nearest
    lab        3          2   2.0%    2.0%   +0.0%         10.0%  +0.80       -        -        -
    """
    scores = list(scores)
    width = max([len("source"), *(len(found.source) for found in scores)])
    head = f"{'source':<{width}}  rows  predicted   mean  median    bias  constant MFU  skill"
    lines = [f"{head}  inside  one MFU  nearest"]
    for found in scores:
        cells = [
            "-" if value is None else format(value, form)
            for value, form in (
                *((found.mean_abs_error, ".1%"), (found.median_abs_error, ".1%"), (found.bias, "+.1%")),
                *((found.baseline_mean_abs_error, ".1%"), (found.skill, "+.2f"), (found.coverage, ".0%")),
                *((found.generation_mean_abs_error, ".1%"), (found.nearest_mean_abs_error, ".1%")),
            )
        ]
        padded = (cell.rjust(size) for cell, size in zip(cells, (5, 6, 6, 12, 5, 6, 7, 7), strict=True))
        lines.append("  ".join([found.source.ljust(width), f"{found.rows:>4}", f"{found.predicted:>9}", *padded]))
    return "\n".join(lines)


def run_table(runs: Sequence[Run], steps: Step) -> str:
    """Return a line for each run: its step, measured and predicted with an 80 % interval, and what was filled in."""
    rows = [("row", "source", "measured", "predicted", "error", "filled in")]
    for run, time, low, high in zip(runs, steps.time, steps.low, steps.high, strict=True):
        filled = ", ".join(f"{name} {text}" for name, text in run.filled.items()) or "-"
        error = f"{time / run.seconds - 1:+.1%}"
        predicted = with_interval(time, low, high, "s")
        rows.append((run.row, run.source, fmt(run.seconds, "s"), predicted, error, filled))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    align = (str.ljust, str.ljust, str.rjust, str.rjust, str.rjust, str.ljust)
    lines = (zip(align, row, widths, strict=True) for row in rows)
    return "\n".join("  ".join(put(cell, width) for put, cell, width in line).rstrip() for line in lines)


def memory_fit(runs: Iterable[Run]) -> dict[str, int]:
    """How many runs fit by the law of memory, how many with the host's help, and how many do not, for each reason.

    Every run of a table ran, so a refusal is a fault of the law or a gap in the row.

    Examples
    --------
    >>> found = memory_fit(published_runs()[0])
    >>> sum(found.values()), found["fits"]
    (643, 592)
    """
    found = Counter({"fits": 0})
    for run in runs:
        helped = run.filled.get("memory", "").startswith(HOST)
        found[why_refused(run) or ("fits, the host holds some activations" if helped else "fits")] += 1
    return dict(found)


# --- The command -----------------------------------------------------------------------------------------------------

# Two published runs: Korthikanti et al. 2022, table 5, and NVIDIA's NeMo documentation, container 24.07.
TEMPLATE = """\
# A line for each run, and one measurement at least; lines like this one are comments.
# Needed: model, gpu, n_gpus, tp, pp, global_batch, seq. What else is left empty is filled in, and the table says how.
model,gpu,n_gpus,tp,pp,global_batch,seq,micro_batch,recompute,precision,step_time_s,tokens_per_s_per_gpu
GPT 175B,A100 80GB,64,8,8,64,2048,1,selective,fp16,13.75,
Llama 2 70B,H100,64,4,4,128,4096,1,,fp8,,1707
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Say what the command takes."""
    group = parser.add_mutually_exclusive_group(required=True)
    text = "a CSV with columns such as those of --template; - is standard input"
    group.add_argument("file", nargs="?", help=text)
    group.add_argument("--template", action="store_true", help="print a CSV to fill in, with two published runs")
    parser.add_argument("--json", action="store_true", help="print one object")
    parser.add_argument("--summary", action="store_true", help="print the scores alone, not every run")
    text = "instead, fit the constants of each generation to all sources but one, and print the error of that one"
    parser.add_argument("--leave-one-out", action="store_true", help=text)
    text = "a CSV of runs of your machine: they correct the predictions of FILE, and narrow the intervals"
    parser.add_argument("--calibrate", metavar="RUNS", help=text)


def run(arguments: argparse.Namespace, text: str | None = None) -> int:
    """Predict, compare and print; return the exit status: not 0 where nothing could be predicted.

    ``text`` is what stands in the file, where it has been read already.
    """
    if arguments.template:
        print(TEMPLATE, end="")
        return 0
    if arguments.calibrate is not None and arguments.leave_one_out:
        raise ValueError("--calibrate does not go with --leave-one-out, which predicts sources by one another")
    if arguments.calibrate == arguments.file == "-":
        raise ValueError("FILE and --calibrate cannot both be standard input")
    runs, skipped = read_runs(arguments.file) if text is None else parse_runs(text, name_of(arguments.file))
    if arguments.leave_one_out:
        return _print_left_out(runs, skipped, as_json=arguments.json)
    mine, unused = ([], []) if arguments.calibrate is None else _own_runs(arguments.calibrate)
    worth = leave_one_run_out(mine)
    steps, seconds = calibrated(runs, mine) if mine else predict_runs(runs), np.array([run.seconds for run in runs])
    scores, overall = _compare(runs, skipped, steps, seconds)
    if arguments.json:
        ends = zip(runs, steps.time, steps.low, steps.high, strict=True)
        rows = [_object(run, *map(float, of_run)) for run, *of_run in ends]
        rows += [_object(row) for row in skipped]
        found = {"sources": [vars(one) for one in scores], "overall": vars(overall)}
        found |= {"memory": memory_fit(runs)}
        found |= {"skipped": [_why(row) for row in skipped], "rows": rows}
        if mine:
            found["calibration"] = {"kinds": [vars(one) for one in worth], "skipped": [_why(row) for row in unused]}
        print(json.dumps(found, indent=1, allow_nan=False))
    else:
        if runs and not arguments.summary:
            print(run_table(runs, steps), end="\n\n")
        print(score_table([*scores, overall]))
        for why, count in memory_fit(runs).items():
            print(f"memory, {count} of {len(runs)}: {why}")
        _print_skipped(skipped)
        if mine:
            print("\n" + calibration_table(worth))
            _print_skipped(unused)
    return _status(runs)


def _own_runs(path: str) -> tuple[list[Run], list[Skipped]]:
    """The runs of a machine that calibrate it, or a ValueError where there are none."""
    mine, unused = read_runs(path)
    if not mine:
        whys = "; ".join(f"{row.row}: {row.why}" for row in unused)
        raise ValueError(f"{name_of(path)}, --calibrate: no row could be predicted ({whys})")
    return mine, unused


def _why(row: Skipped) -> dict[str, str]:
    return {"row": row.row, "why": row.why}


def _object(row: Run | Skipped, predicted=None, low=None, high=None) -> dict:
    why, filled = (row.why, {}) if isinstance(row, Skipped) else (None, dict(row.filled))
    found = {"row": row.row, "source": row.source, "measured": getattr(row, "seconds", None), "predicted": predicted}
    return found | {"low": low, "high": high, "skipped": why, "filled": filled}


def _print_skipped(skipped: Iterable[Skipped], file=None) -> None:
    for row in skipped:
        print(f"skipped {row.row} ({row.source}): {row.why}", file=file)


def _status(runs: Sequence[Run]) -> int:
    if not runs:
        print("no row could be predicted", file=sys.stderr)
    return 0 if runs else UNUSABLE


def _print_left_out(runs: list[Run], skipped: list[Skipped], *, as_json: bool) -> int:
    errors = leave_one_source_out(runs)
    if as_json:
        print(json.dumps(errors, indent=1))
    elif errors:
        print("\n".join(f"{error:>6.1%}  {source}" for source, error in errors.items()))
    if errors:
        return 0
    _print_skipped(skipped, file=sys.stderr)
    if status := _status(runs):
        return status
    named = ", ".join(dict.fromkeys(run.source for run in runs))
    why = "leaving one out takes two sources (column group) on accelerators of one generation"
    raise ValueError(f"{why}; there is no such pair among: {named}")
