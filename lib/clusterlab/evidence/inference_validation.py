"""Validation of serving: inference runs, published or a reader's own, beside what the laws of serving predict.

``clusterlab validate FILE.csv`` sends tables of inference here (:mod:`clusterlab.evidence.inference_runs`).
:func:`fit_serving` fits the constants of one serving software to runs of it, and :func:`leave_one_source_out` shows
what such constants are worth for runs that they have not seen. All fits of a software are made in one go: its constants
are arrays, one for each fit and each nudge of a constant.
"""

from __future__ import annotations

import argparse
import csv
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from statistics import NormalDist

import numpy as np

from .. import serving
from ..catalogue import SERVING, SPREADS
from ..records import with_interval
from ..units import fmt
from . import validation
from .calibration import weighted_quantile
from .fleet import MANY, student_quantile
from .inference_runs import InferenceRun, at_peak, is_inference, parse_inference, predict, predict_inference
from .text import UNUSABLE, name_of, read_text
from .training_runs import Skipped
from .validation import Score, score, score_table

# What is fitted of a software, from where a fit begins, and the most that a constant may be.
START = {"gemm": 0.8, "memory": 0.85, "overlap_loss": 0.1, "sequence_time": 30e-6}
OF_SOFTWARE: Mapping[str, Mapping[str, float]] = {
    "LMDeploy": START | {"layer_time": 50e-6},
    "TensorRT-LLM": START | {"grouped_gemm": 0.5, "attention": 0.3},  # replays graphs: launches are not fitted
    "SGLang": {"layer_time": 20e-6, "expert_skew": 0.2, "contention": 0.2},
}
MOST = {"memory": 0.92, "attention": 0.75, "overlap_loss": 1.0, "contention": 1.0, "gemm": 1.2, "grouped_gemm": 1.0}
_NUDGE = 0.97


def compare(runs: Iterable[InferenceRun], skipped: Iterable[Skipped] = ()) -> tuple[list[Score], Score]:
    """Score every source, and all rows together.

    Parameters
    ----------
    runs, skipped : iterable
        From :func:`clusterlab.evidence.inference_runs.read_inference`.

    Returns
    -------
    tuple
        A list of :class:`~clusterlab.evidence.validation.Score`, in the order of the rows, and one for all rows.

    Examples
    --------
    >>> from clusterlab.evidence.inference_runs import published_inference
    >>> runs, skipped = published_inference()
    >>> scores, overall = compare(runs[-4:], skipped)
    >>> overall.rows, overall.predicted
    (5, 4)
    """
    runs = list(runs)
    return scores(runs, list(skipped), predict_inference(runs))


def scores(runs: Sequence[InferenceRun], skipped: Sequence[Skipped], times) -> tuple[list[Score], Score]:
    """Score predictions that are there already, as :func:`compare`.

    Examples
    --------
    >>> scores([], [], [])[1].rows
    0
    """
    seconds = np.array([run.seconds for run in runs])
    errors = np.asarray(times, float) / seconds - 1
    mfu = np.array([at_peak(run) for run in runs]) / seconds
    where: dict[str, list[int]] = {}
    for i, run in enumerate(runs):
        where.setdefault(run.source, []).append(i)
    left = Counter(row.source for row in skipped)
    spreads = [SPREADS[kind(run)] for run in runs]
    inside = np.array([s.low <= 1 / (1 + e) <= s.high for s, e in zip(spreads, errors, strict=True)], float)

    def scored(source, rows, skipped):
        return score(source, errors[rows], mfu[rows], skipped=skipped, inside=inside[rows])

    each = [scored(source, where.get(source, []), left[source]) for source in dict.fromkeys([*where, *left])]
    return each, scored("overall", slice(None), sum(left.values()))


def fit_serving(runs: Sequence[InferenceRun], software: str, *, rounds: int = 8) -> dict[str, float]:
    """Fit the constants of one serving software to runs of it, from the same neutral start every time.

    Parameters
    ----------
    runs : sequence of InferenceRun
        Every source has one vote, shared by its rows. Rows whose id begins with P are put aside and have none.
    software : str
        A name of ``OF_SOFTWARE``, which says what is fitted.
    rounds : int
        Steps of Gauss and Newton on the logarithms of times and constants.

    Returns
    -------
    dict
        Constants by their names in :class:`clusterlab.catalogue.ServingSoftware`.

    Raises
    ------
    ValueError
        There are no runs.

    Examples
    --------
    >>> from clusterlab.evidence.inference_runs import published_inference
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
    values = {name: np.full(len(kept), value) for name, value in OF_SOFTWARE[software].items()}
    weights = np.zeros(kept.shape)
    for fold, mask in enumerate(kept):
        sizes = Counter(sources[mask])
        weights[fold, mask] = [sizes[source] ** -0.5 for source in sources[mask]]
    for _ in range(rounds):
        nudged = {name: np.repeat(value[:, None], 1 + len(values), axis=1) for name, value in values.items()}
        for i, name in enumerate(values):
            nudged[name][:, 1 + i] *= _NUDGE
        misses = np.log(_times(runs, nudged) / seconds)
        for fold, mask in enumerate(kept):
            now = misses[fold, 0, mask]
            slopes = (misses[fold, 1:, mask] - now[:, None]) / np.log(_NUDGE)
            robust = weights[fold, mask] / np.sqrt(np.maximum(np.abs(now), 0.03))  # least absolute, not least squares
            damped = np.vstack([slopes * robust[:, None], 0.3 * np.eye(len(values))])
            change = np.linalg.lstsq(damped, np.concatenate([-now * robust, np.zeros(len(values))]), rcond=None)[0]
            for name, by in zip(values, np.clip(change, -0.4, 0.4), strict=True):
                values[name][fold] = min(values[name][fold] * np.exp(by), MOST.get(name, np.inf))
    return values


def _times(runs: Sequence[InferenceRun], constants: Mapping[str, np.ndarray]) -> np.ndarray:
    """Seconds of every run with other constants, whose arrays come first in the shape of the result."""
    shape = np.broadcast_shapes(*(np.shape(value) for value in constants.values()))
    out = np.empty((*shape, len(runs)))
    for i, run in enumerate(runs):
        out[..., i] = predict(run, replace(run.replica.software, **constants))
    return out


def leave_one_source_out(runs: Iterable[InferenceRun]) -> dict[str, float]:
    """Mean absolute error of each source under constants fitted to the other sources of its software.

    Parameters
    ----------
    runs : iterable of InferenceRun
        Software of which nothing is fitted is left out. The only source of a software is predicted with the usual
        software's constants: nobody would know better. The answer is remembered.

    Returns
    -------
    dict
        Source to error, a share of the measured time.

    Examples
    --------
    >>> leave_one_source_out([])
    {}
    """
    return dict(_leave_one_source_out(tuple(runs)))


def _leave_one_source_out(runs: tuple[InferenceRun, ...]) -> dict[str, float]:
    ratios = _unseen_ratios(runs)
    sources = np.array([run.source for run in runs if run.replica.software.name in OF_SOFTWARE])
    known = np.array([run.replica.software.name in OF_SOFTWARE for run in runs], bool)
    errors = np.abs(1 / ratios[known] - 1) if known.any() else ratios
    return {str(source): float(errors[sources == source].mean()) for source in dict.fromkeys(sources.tolist())}


@lru_cache(maxsize=4)
def _unseen_ratios(runs: tuple[InferenceRun, ...]) -> np.ndarray:
    """Measured over predicted time of every run, under constants that have not seen its source."""
    ratios = np.array([run.seconds / float(predict(run)) for run in runs])
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
                ratios[i] = runs[i].seconds / float(predict(runs[i], replace(own, **usual | even)))
            continue
        # A fold for each source, and one for rows put aside, which sees them all.
        seen = np.array([[run.source != source for run in voters] for source in [*sources, None]])
        found = _fit(voters, software, seen, 8)
        for i in where:
            fold = sources.index(runs[i].source) if _votes(runs[i]) else -1
            constants = {name: value[fold] for name, value in found.items()}
            ratios[i] = runs[i].seconds / float(predict(runs[i], replace(runs[i].replica.software, **constants)))
    return ratios


# --- Intervals -------------------------------------------------------------------------------------------------------


def kind(run: InferenceRun) -> str:
    """The kind of a run, of which its spread depends: a key of :data:`clusterlab.catalogue.SPREADS`.

    Examples
    --------
    >>> from clusterlab.evidence.inference_runs import published_inference
    >>> sorted({kind(run) for run in published_inference()[0]})[:2]
    ['serving: one pass', 'serving: saturated, dense']
    """
    how = {"static": "static batch", "saturated": "saturated"}.get(run.kind, "one pass")
    return serving.kind(run.replica.model, how)


def interval(ratios: np.ndarray, sources: np.ndarray) -> tuple[float, float]:
    r"""Ends of the 80 % interval of a source that nobody has fitted, in multiples of the prediction.

    .. math:: e^{\pm q f}, \qquad f = \sqrt{1 + 1/k} \;\text{ or }\; t_{0.9,k} / z_{0.9}

    q is what four fifths of the logarithms do not exceed, either way. A further source lies outside the k known ones as
    their mean does inside: that is f. With fewer than :data:`~clusterlab.evidence.fleet.MANY` rows it is Student's.

    Parameters
    ----------
    ratios : numpy.ndarray
        Measured over predicted times.
    sources : numpy.ndarray
        Of each: a source of n rows has the votes of sqrt(n).

    Returns
    -------
    tuple of float
        As far below one as above: a source that is slow says that another may be fast.

    Notes
    -----
    Source: the prediction interval of one more draw from k of unknown mean, and Student's for few of them.

    Examples
    --------
    >>> [round(end, 2) for end in interval(np.array([0.95, 1.0, 1.05]), np.array(["a", "b", "c"]))]
    [0.94, 1.07]
    """
    off, votes = np.abs(np.log(ratios)), validation._votes(sources, 0.5)
    known = len(set(sources.tolist()))
    wider = np.sqrt(1 + 1 / known) if off.size >= MANY else student_quantile(0.9, known) / NormalDist().inv_cdf(0.9)
    half = float(weighted_quantile(off, votes, 0.8) * wider)
    return float(np.exp(-half)), float(np.exp(half))


def learn_spreads(runs: Iterable[InferenceRun]) -> dict[str, tuple[float, float]]:
    """Learn the 80 % interval of each kind of run, from runs under constants that have not seen their source.

    Parameters
    ----------
    runs : iterable of InferenceRun

    Returns
    -------
    dict
        Kind to its :func:`interval`: low and high ratio of measured to predicted time.

    Examples
    --------
    >>> from clusterlab.evidence.inference_runs import published_inference
    >>> some = [run for run in published_inference()[0] if run.source == "deepseek_profile"]
    >>> list(learn_spreads(some))
    ['serving: one pass']
    """
    ratios, kinds, sources = _unseen(runs)
    return {name: interval(ratios[kinds == name], sources[kinds == name]) for name in dict.fromkeys(kinds.tolist())}


def constant_widths(runs: Sequence[InferenceRun]) -> dict[str, float]:
    """Upper over lower end of the same interval around one MFU for each kind: what a law's must be narrower than.

    Parameters
    ----------
    runs : sequence of InferenceRun

    Returns
    -------
    dict

    Examples
    --------
    >>> from clusterlab.evidence.inference_runs import published_inference
    >>> found = constant_widths(published_inference()[0])
    >>> all(SPREADS[kind].high / SPREADS[kind].low < width for kind, width in found.items())
    True
    """
    kinds, sources = np.array([kind(run) for run in runs]), np.array([run.source for run in runs])
    ratios = np.array([run.seconds / at_peak(run) for run in runs])
    found = {}
    for name in dict.fromkeys(kinds.tolist()):
        of_kind = ratios[kinds == name]
        low, high = interval(of_kind / np.median(of_kind), sources[kinds == name])
        found[name] = high / low
    return found


def coverage(runs: Iterable[InferenceRun]) -> dict[str, float]:
    """Share of the runs of each kind, and of all, inside an interval that has not seen their source.

    Nor have the constants of the prediction: this is what an interval is worth for a source that nobody has fitted.
    Every run counts as one.

    Parameters
    ----------
    runs : iterable of InferenceRun
        Kinds with one source alone are left out.

    Returns
    -------
    dict

    Examples
    --------
    >>> from clusterlab.evidence.inference_runs import published_inference
    >>> some = ("deepseek_profile", "deepseek_prod")
    >>> coverage([run for run in published_inference()[0] if run.source in some])
    {'serving: one pass': 0.75, 'all': 0.75}
    """
    ratios, kinds, sources = _unseen(runs)
    inside = np.full(ratios.size, np.nan)
    for mine in set(zip(kinds.tolist(), sources.tolist(), strict=True)):
        its = (kinds == mine[0]) & (sources == mine[1])
        others = (kinds == mine[0]) & ~its
        if others.any():
            low, high = interval(ratios[others], sources[others])
            inside[its] = (low <= ratios[its]) & (ratios[its] <= high)
    tested = np.isfinite(inside)
    found = {name: float(inside[tested & (kinds == name)].mean()) for name in dict.fromkeys(kinds[tested].tolist())}
    return found | {"all": float(inside[tested].mean())}


def _unseen(runs: Iterable[InferenceRun]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Ratio, kind and source of the runs, under constants that have not seen it."""
    runs = tuple(runs)
    kinds, sources = np.array([kind(run) for run in runs]), np.array([run.source for run in runs])
    return _unseen_ratios(runs), kinds, sources


# --- The command -----------------------------------------------------------------------------------------------------


def run_table(runs: Sequence[InferenceRun], times) -> str:
    """Return a line for each run: measured, predicted with an 80 % interval, the error, and what was filled in for it.

    Examples
    --------
    >>> run_table([], []).split()[:3]
    ['row', 'source', 'kind']
    """
    rows = [("row", "source", "kind", "measured", "predicted", "error", "filled in")]
    for run, time in zip(runs, times, strict=True):
        filled = ", ".join(f"{name} {text}" for name, text in run.filled.items()) or "-"
        error, spread = f"{time / run.seconds - 1:+.1%}", SPREADS[kind(run)]
        said = with_interval(time, time * spread.low, time * spread.high, "s")
        rows.append((run.row, run.source, run.kind, fmt(run.seconds, "s"), said, error, filled))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    align = (str.ljust, str.ljust, str.ljust, str.rjust, str.rjust, str.rjust, str.ljust)
    lines = (zip(align, row, widths, strict=True) for row in rows)
    return "\n".join("  ".join(put(cell, width) for put, cell, width in line).rstrip() for line in lines)


def run(arguments: argparse.Namespace) -> int:
    """Predict, compare and print; return the exit status.

    Tables of training go to :func:`clusterlab.evidence.validation.run`.
    """
    if arguments.template:
        return validation.run(arguments)
    text = read_text(arguments.file)
    first = next((line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")), "")
    if not is_inference(next(csv.reader([first]), [])):
        return validation.run(arguments, text)
    if arguments.calibrate is not None:
        raise ValueError(f"--calibrate takes training runs, but {name_of(arguments.file)} has runs of inference")
    runs, skipped = parse_inference(text, name_of(arguments.file))
    if arguments.leave_one_out:
        errors = leave_one_source_out(runs)
        lines = [f"{error:>6.1%}  {source}" for source, error in errors.items()]
        print(json.dumps(errors, indent=1) if arguments.json else "\n".join(lines))
        return 0 if errors else UNUSABLE
    times = predict_inference(runs)
    each, overall = scores(runs, skipped, times)
    if arguments.json:
        spreads = [SPREADS[kind(one)] for one in runs]
        ends = zip(runs, times, spreads, strict=True)
        rows = [validation._object(one, float(t), float(t * s.low), float(t * s.high)) for one, t, s in ends]
        rows += [validation._object(row) for row in skipped]
        found = {"sources": [vars(one) for one in each], "overall": vars(overall)}
        found |= {"skipped": [{"row": row.row, "why": row.why} for row in skipped], "rows": rows}
        print(json.dumps(found, indent=1, allow_nan=False))
    else:
        if runs and not arguments.summary:
            print(run_table(runs, times), end="\n\n")
        print(score_table([*each, overall]))
        validation._print_skipped(skipped)
    return validation._status(runs)
