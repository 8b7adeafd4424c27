"""Validation: training runs, published or a reader's own, beside what the model of a step predicts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from ..model import parameters
from ..parallelism import Step
from ..records import Explained
from .intervals import votes, weighted_quantile
from .rows import Skipped
from .training_runs import HOST, Run, predict_runs, why_refused
from .training_tables import published_runs

Floats = Sequence[float] | np.ndarray


# --- Steps beside their measured times -------------------------------------------------------------------------------


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


def score(
    source: str,
    errors: Floats,
    mfu: Floats,
    *,
    skipped: int = 0,
    inside: Floats | None = None,
    rival_errors: tuple[Floats, Floats] | None = None,
) -> Score:
    """Score one source.

    Parameters
    ----------
    source
        Its name.
    errors
        Predicted over measured time, minus 1.
    mfu
        Time at the full peak over measured time: the published MFU of each row.
    skipped
        Rows that could not be predicted.
    inside
        Whether the measured time lies in the interval of the prediction.
    rival_errors
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


def compare_runs(runs: Iterable[Run], skipped: Iterable[Skipped] = ()) -> tuple[list[Score], Score]:
    """Score every source, and all rows together.

    Parameters
    ----------
    runs, skipped
        From :func:`clusterlab.evidence.read_runs`.

    Returns
    -------
    tuple
        A list of :class:`Score`, in the order of the rows, and one for all rows.

    Examples
    --------
    >>> scores, overall = compare_runs(*published_runs())
    >>> scores[0].source, overall.rows, overall.predicted
    ('megatron_sc21_tab1', 705, 692)
    """
    runs = list(runs)
    return score_runs(runs, list(skipped), predict_runs(runs))


def score_runs(runs: Sequence[Run], skipped: Sequence[Skipped], predicted: Step) -> tuple[list[Score], Score]:
    """Score predictions that are there already, as :func:`compare_runs`.

    Examples
    --------
    >>> runs = published_runs()[0][:3]
    >>> score_runs(runs, [], predict_runs(runs))[1].predicted
    3
    """
    seconds = np.array([run.seconds for run in runs])
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


def memory_fit(runs: Iterable[Run]) -> dict[str, int]:
    """How many runs fit by the law of memory, how many with the host's help, and how many do not, for each reason.

    Every run of a table ran, so a refusal is a fault of the law or a gap in the row.

    Examples
    --------
    >>> found = memory_fit(published_runs()[0])
    >>> sum(found.values()), found["fits"]
    (692, 633)
    """
    found = Counter({"fits": 0})
    for run in runs:
        helped = run.filled.get("memory", "").startswith(HOST)
        found[why_refused(run) or ("fits, the host holds some activations" if helped else "fits")] += 1
    return dict(found)


# --- Rivals that know published runs of other sources ----------------------------------------------------------------


class _Known(NamedTuple):
    """What rivals know of runs, as arrays."""

    source: np.ndarray
    group: np.ndarray  # generation of accelerators and precision
    place: np.ndarray  # where runs are near each other: a row for each
    mfu: np.ndarray


@lru_cache(maxsize=2)
def _known(runs: tuple[Run, ...]) -> _Known:
    steps, seconds = predict_runs(runs), np.array([run.seconds for run in runs])
    mfu = steps.model_flops / (steps.gpus * steps.peak) / seconds
    names = np.array([f"{run.machine.efficiency.generation}, {run.workload.precision}" for run in runs])
    # A factor of ten in parameters, accelerators or tokens is as far as dense is from a mixture; another generation or
    # precision is farther than any of these.
    counted = {run.model: parameters(run.model).total for run in runs}
    sizes = np.array([[counted[run.model] for run in runs], steps.gpus, steps.tokens])
    place = np.column_stack([*np.log10(sizes), [bool(run.model.experts) for run in runs]])
    return _Known(np.array([run.source for run in runs]), names, place, mfu)


def rivals(runs: Sequence[Run]) -> tuple[np.ndarray, np.ndarray]:
    """MFU of each run by two rules that know the published runs of other sources, and no law.

    Parameters
    ----------
    runs
        From :func:`clusterlab.evidence.read_runs`.

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
    here, known = _known(tuple(runs)), _known(published_runs()[0])
    one, nearest = np.full(len(here.mfu), np.nan), np.full(len(here.mfu), np.nan)
    for i, source in enumerate(here.source):
        other = known.source != source
        same = other & (known.group == here.group[i])
        if same.any():
            one[i] = weighted_quantile(known.mfu[same], votes(known.source[same], 1.0), 0.5)
        distance = np.abs(known.place - here.place[i]).sum(axis=1) + 100.0 * (known.group != here.group[i])
        if other.any():
            nearest[i] = known.mfu[other][np.argmin(distance[other])]
    return one, nearest
