"""Validation of serving: inference runs, published or a reader's own, beside what the laws of serving predict.

:func:`fit_serving` fits the constants of one serving software to runs of it, and
:func:`leave_one_inference_source_out` shows what such constants are worth for runs that they have not seen. All fits of
a software are made in one go: its constants are arrays, one for each fit and each nudge of a constant.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np

from .. import serving
from ..catalogue import PREDICTION_INTERVALS, SERVING
from .inference_runs import (
    InferenceRun,
    at_peak,
    inference_batches,
    predict_inference,
    predict_inference_run,
    times_under,
)
from .intervals import symmetric_interval
from .robust_fits import Settings, fit_constants
from .rows import Skipped
from .validation import Score, score

# --- Serving software ------------------------------------------------------------------------------------------------

# What is fitted of a software, from where a fit begins, and the most that a constant may be.
START = {"gemm": 0.8, "memory": 0.85, "overlap_loss": 0.1, "sequence_time": 30e-6}
OF_SOFTWARE: Mapping[str, Mapping[str, float]] = {
    "LMDeploy": START | {"kernel_time": 5e-6},
    "TensorRT-LLM": START | {"attention": 0.3},  # replays graphs: launches are not fitted
    "SGLang": {"expert_skew": 0.2, "contention": 0.2},
}
MOST = {"memory": 0.92, "attention": 0.75, "overlap_loss": 1.0, "contention": 1.0, "gemm": 1.2, "grouped_gemm": 1.0}
_SETTINGS = Settings(nudge=0.97, floor=0.03, most=MOST)


def compare_inference(runs: Iterable[InferenceRun], skipped: Iterable[Skipped] = ()) -> tuple[list[Score], Score]:
    """Score every source, and all rows together.

    Parameters
    ----------
    runs, skipped
        From :func:`clusterlab.evidence.read_inference`.

    Returns
    -------
    tuple
        A list of :class:`~clusterlab.evidence.Score`, in the order of the rows, and one for all rows.

    Examples
    --------
    >>> from clusterlab.evidence import published_inference
    >>> runs, skipped = published_inference()
    >>> scores, overall = compare_inference(runs[-4:], skipped)
    >>> overall.rows, overall.predicted
    (5, 4)
    """
    runs = list(runs)
    return score_inference(runs, list(skipped), predict_inference(runs))


def score_inference(
    runs: Sequence[InferenceRun], skipped: Sequence[Skipped], times: Sequence[float] | np.ndarray
) -> tuple[list[Score], Score]:
    """Score predictions that are there already, as :func:`compare_inference`.

    Examples
    --------
    >>> score_inference([], [], [])[1].rows
    0
    """
    seconds = np.array([run.seconds for run in runs])
    errors = np.asarray(times, float) / seconds - 1
    mfu = np.array([at_peak(run) for run in runs]) / seconds
    where: dict[str, list[int]] = {}
    for i, run in enumerate(runs):
        where.setdefault(run.source, []).append(i)
    left = Counter(row.source for row in skipped)
    spreads = [PREDICTION_INTERVALS[inference_kind(run)] for run in runs]
    inside = np.array([s.low <= 1 / (1 + e) <= s.high for s, e in zip(spreads, errors, strict=True)], float)

    def scored(source: str, rows: list[int] | slice, skipped: int) -> Score:
        return score(source, errors[rows], mfu[rows], skipped=skipped, inside=inside[rows])

    each = [scored(source, where.get(source, []), left[source]) for source in dict.fromkeys([*where, *left])]
    return each, scored("overall", slice(None), sum(left.values()))


def fit_serving(runs: Sequence[InferenceRun], software: str, *, rounds: int = 8) -> dict[str, float]:
    """Fit the constants of one serving software to runs of it, from the same neutral start every time.

    Parameters
    ----------
    runs
        Every source has one vote, shared by its rows. Rows whose id begins with P are put aside and have none.
    software
        A name of ``OF_SOFTWARE``, which says what is fitted.
    rounds
        Steps of Gauss and Newton on the logarithms of times and constants.

    Returns
    -------
    dict
        Constants by their names in :class:`clusterlab.catalogue.ServingSoftware`.

    Examples
    --------
    >>> from clusterlab.evidence import published_inference
    >>> runs = [run for run in published_inference()[0] if run.source == "lmdeploy_a100_internlm-20b"]
    >>> 0.8 < fit_serving(runs, "LMDeploy", rounds=4)["memory"] <= 0.92
    True
    """
    if not runs:
        raise ValueError("runs must be at least one run, got none")
    voters = [run for run in runs if _votes(run)] or list(runs)
    found = _fit(voters, software, np.ones((1, len(voters)), bool), rounds)
    return {name: float(value[0]) for name, value in found.items()}


def _votes(run: InferenceRun) -> bool:
    """Whether constants may be fitted to a run: not where its id puts it aside."""
    return not run.row.startswith("P")


def _fit(runs: list[InferenceRun], software: str, kept: np.ndarray, rounds: int) -> dict[str, np.ndarray]:
    """One fit for each row of ``kept``, which says the runs that it sees."""
    seconds, sources = np.array([run.seconds for run in runs]), np.array([run.source for run in runs])
    start = {name: np.full(len(kept), value) for name, value in OF_SOFTWARE[software].items()}
    questions = inference_batches(runs)

    def misses(constants: Mapping[str, np.ndarray]) -> np.ndarray:
        return np.log(times_under(questions, len(runs), constants) / seconds)

    return fit_constants(start, misses, kept, sources, rounds=rounds, settings=_SETTINGS)


def leave_one_inference_source_out(runs: Iterable[InferenceRun]) -> dict[str, float]:
    """Mean absolute error of each source under constants fitted to the other sources of its software.

    Parameters
    ----------
    runs
        Software of which nothing is fitted is left out. The only source of a software is predicted with the usual
        software's constants: nobody would know better. Those are round values between fitted ones, its own among
        them, which is no clean test. The answer is remembered.

    Returns
    -------
    dict
        Source to error, a share of the measured time.

    Examples
    --------
    >>> leave_one_inference_source_out([])
    {}
    """
    return dict(_leave_one_inference_source_out(tuple(runs)))


def _leave_one_inference_source_out(runs: tuple[InferenceRun, ...]) -> dict[str, float]:
    ratios = _unseen_ratios(runs)
    sources = np.array([run.source for run in runs if run.replica.software.name in OF_SOFTWARE])
    known = np.array([run.replica.software.name in OF_SOFTWARE for run in runs], bool)
    errors = np.abs(1 / ratios[known] - 1) if known.any() else ratios
    return {str(source): float(errors[sources == source].mean()) for source in dict.fromkeys(sources.tolist())}


@lru_cache(maxsize=4)
def _unseen_ratios(runs: tuple[InferenceRun, ...]) -> np.ndarray:
    """Measured over predicted time of every run, under constants that have not seen its source."""
    times = predict_inference(runs)
    for software in OF_SOFTWARE:
        where = np.array([i for i, run in enumerate(runs) if run.replica.software.name == software], int)
        voters = [runs[i] for i in where if _votes(runs[i])]
        sources = list(dict.fromkeys(run.source for run in voters))
        if len(sources) < 2:
            usual = {name: getattr(SERVING["usual"], name) for name in OF_SOFTWARE[software]}
            for i in where:
                own = runs[i].replica.software
                # Perfect balance is the run's, not the software's.
                even = {} if own.expert_skew else {"expert_skew": 0.0}
                times[i] = float(predict_inference_run(runs[i], replace(own, **usual | even)))
            continue
        # A fold for each source, and one for rows put aside, which sees them all.
        seen = np.array([[run.source != source for run in voters] for source in [*sources, None]])
        found = _fit(voters, software, seen, 8)
        mine = [runs[i] for i in where]
        fold = [sources.index(run.source) if _votes(run) else -1 for run in mine]
        times[where] = times_under(inference_batches(mine), len(mine), found)[fold, np.arange(len(mine))]
    return np.array([run.seconds for run in runs]) / times


# --- Intervals of serving --------------------------------------------------------------------------------------------


def inference_kind(run: InferenceRun) -> str:
    """The kind of a run, of which its spread depends: a key of :data:`clusterlab.catalogue.PREDICTION_INTERVALS`.

    Examples
    --------
    >>> from clusterlab.evidence import published_inference
    >>> sorted({inference_kind(run) for run in published_inference()[0]})[:2]
    ['serving: one pass', 'serving: saturated, dense']
    """
    how = {"static": "static batch", "saturated": "saturated"}.get(run.kind, "one pass")
    return serving.serving_kind(run.replica.model, how)


def learn_serving_spreads(runs: Iterable[InferenceRun]) -> dict[str, tuple[float, float]]:
    """Learn the 80 % interval of each kind of run, from runs under constants that have not seen their source.

    Parameters
    ----------
    runs

    Returns
    -------
    dict
        Kind to its :func:`~clusterlab.evidence.symmetric_interval`: low and high ratio of measured to predicted time.

    Examples
    --------
    >>> from clusterlab.evidence import published_inference
    >>> some = [run for run in published_inference()[0] if run.source == "deepseek_profile"]
    >>> list(learn_serving_spreads(some))
    ['serving: one pass']
    """
    ratios, kinds, sources = _unseen(runs)
    return {
        name: symmetric_interval(ratios[kinds == name], sources[kinds == name])
        for name in dict.fromkeys(kinds.tolist())
    }


def constant_serving_widths(runs: Sequence[InferenceRun]) -> dict[str, float]:
    """Upper over lower end of the same interval around one MFU for each kind: what a law's must be narrower than.

    Parameters
    ----------
    runs

    Returns
    -------
    dict

    Examples
    --------
    >>> from clusterlab.evidence import published_inference
    >>> found = constant_serving_widths(published_inference()[0])
    >>> all(PREDICTION_INTERVALS[kind].high / PREDICTION_INTERVALS[kind].low < width for kind, width in found.items())
    True
    """
    kinds, sources = np.array([inference_kind(run) for run in runs]), np.array([run.source for run in runs])
    ratios = np.array([run.seconds / at_peak(run) for run in runs])
    found = {}
    for name in dict.fromkeys(kinds.tolist()):
        of_kind = ratios[kinds == name]
        low, high = symmetric_interval(of_kind / np.median(of_kind), sources[kinds == name])
        found[name] = high / low
    return found


def serving_coverage(runs: Iterable[InferenceRun]) -> dict[str, float]:
    """Share of the runs of each kind, and of all, inside an interval that has not seen their source.

    Nor have the constants of the prediction: this is what an interval is worth for a source that nobody has fitted.
    Every run counts as one.

    Parameters
    ----------
    runs
        Kinds with one source alone are left out.

    Returns
    -------
    dict

    Examples
    --------
    >>> from clusterlab.evidence import published_inference
    >>> some = ("deepseek_profile", "deepseek_prod")
    >>> serving_coverage([run for run in published_inference()[0] if run.source in some])
    {'serving: one pass': 0.75, 'all': 0.75}
    """
    ratios, kinds, sources = _unseen(runs)
    inside = np.full(ratios.size, np.nan)
    for mine in set(zip(kinds.tolist(), sources.tolist(), strict=True)):
        its = (kinds == mine[0]) & (sources == mine[1])
        others = (kinds == mine[0]) & ~its
        if others.any():
            low, high = symmetric_interval(ratios[others], sources[others])
            inside[its] = (low <= ratios[its]) & (ratios[its] <= high)
    tested = np.isfinite(inside)
    found = {name: float(inside[tested & (kinds == name)].mean()) for name in dict.fromkeys(kinds[tested].tolist())}
    return found | {"all": float(inside[tested].mean())}


def _unseen(runs: Iterable[InferenceRun]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Ratio, kind and source of the runs, under constants that have not seen it."""
    runs = tuple(runs)
    kinds, sources = np.array([inference_kind(run) for run in runs]), np.array([run.source for run in runs])
    return _unseen_ratios(runs), kinds, sources
