"""Validation: training runs, published or a reader's own, beside what the model of a step predicts.

``clusterlab validate FILE.csv`` predicts every run of a table (:mod:`clusterlab.evidence.training_runs`) and compares,
run by run and source by source. :func:`fit_efficiency` fits the constants of one generation of accelerators to runs on
it, and :func:`leave_one_source_out` shows what such constants are worth for runs that they have not seen.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from ..training import step
from ..units import Explained, fmt
from .training_runs import Batch, Run, Skipped, batches, predict_runs, read_runs

# --- Scores ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class Score(Explained):
    """How well a source is predicted. Errors are shares of the measured step time; ``None`` where nothing is known.

    ``baseline_mean_abs_error`` is that of the one constant MFU that fits these rows best, ``skill`` is 1 minus the
    ratio of the two errors: above 0 the model beats that constant.
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


def score(source: str, errors, mfu, *, skipped: int = 0) -> Score:
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
    return Score(source, n + skipped, n, skipped, error, median, bias, baseline, skill)


def relative_errors(runs: Iterable[Run]) -> np.ndarray:
    """Predicted over measured time, minus 1, of each run.

    Examples
    --------
    >>> from clusterlab.evidence.training_runs import published_runs
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
    >>> from clusterlab.evidence.training_runs import published_runs
    >>> scores, overall = compare(*published_runs())
    >>> scores[0].source, overall.rows, overall.predicted
    ('megatron_sc21_tab1', 652, 625)
    """
    runs = list(runs)
    predicted, seconds = predict_runs(runs), np.array([run.seconds for run in runs])
    return _compare(runs, list(skipped), predicted, seconds)


def _compare(runs: list[Run], skipped: list[Skipped], predicted, seconds) -> tuple[list[Score], Score]:
    errors = predicted.time / seconds - 1
    mfu = predicted.model_flops / (predicted.gpus * predicted.peak) / seconds
    where: dict[str, list[int]] = {}
    for i, run in enumerate(runs):
        where.setdefault(run.source, []).append(i)
    left = Counter(row.source for row in skipped)
    scores = [
        score(source, errors[where.get(source, [])], mfu[where.get(source, [])], skipped=left[source])
        for source in dict.fromkeys([*where, *left])
    ]
    return scores, score("overall", errors, mfu, skipped=sum(left.values()))


# --- Fitting the shares of a generation, and leaving sources out -----------------------------------------------------

_START = {"gemm": 0.7, "gemm_8": 0.7, "gemm_4": 0.5, "memory": 0.7, "overlap_loss": 0.5}
_START |= {"attention": 0.3, "attention_2023": 0.3}
_NUDGE = 1.02


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
        Shares by their names in :class:`clusterlab.machine.Efficiency`. Those that no run shows stay as they began.

    Raises
    ------
    ValueError
        There are no runs.

    Examples
    --------
    >>> from clusterlab.evidence.training_runs import published_runs
    >>> runs = [run for run in published_runs()[0] if run.source.startswith("megatron_sc21")]
    >>> 0.8 < fit_efficiency(runs)["gemm"] < 0.9
    True
    """
    runs = list(runs)
    if not runs:
        raise ValueError("runs must be at least one run, got none")
    fitted = _fit(runs, batches(runs), np.ones((1, len(runs)), bool), rounds)
    return {name: float(value[0]) for name, value in fitted.items()}


def _fit(runs: list[Run], questions: list[Batch], kept: np.ndarray, rounds: int) -> dict[str, np.ndarray]:
    """One fit for each row of ``kept``, which says the runs that it sees; all fits together ask the model once."""
    folds, n = kept.shape
    seconds, sources = np.array([run.seconds for run in runs]), np.array([run.source for run in runs])
    values = {name: np.full(folds, value) for name, value in _START.items()}
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
            damped = np.vstack([slopes * robust[:, None], 0.3 * np.eye(len(values))])
            change = np.linalg.lstsq(damped, np.concatenate([-now * robust, np.zeros(len(values))]), rcond=None)[0]
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
    >>> from clusterlab.evidence.training_runs import published_runs
    >>> runs = [run for run in published_runs()[0] if run.source in ("megatron_sc21_tab1", "korthikanti_tab5")]
    >>> max(leave_one_source_out(runs).values()) < 0.1
    True
    """
    return dict(_leave_one_source_out(tuple(runs)))


@lru_cache(maxsize=8)
def _leave_one_source_out(runs: tuple[Run, ...]) -> dict[str, float]:
    generations: dict[str, list[Run]] = {}
    for run in runs:
        generations.setdefault(run.machine.efficiency.generation, []).append(run)
    errors: dict[str, list] = {}
    for some in generations.values():
        sources = list(dict.fromkeys(run.source for run in some))
        if len(sources) < 2:
            continue
        held = np.array([[run.source == source for run in some] for source in sources])
        questions = batches(some)
        times = _times(questions, len(some), _fit(some, questions, ~held, 4))
        misses = np.abs(times / np.array([run.seconds for run in some]) - 1)
        for source, mask, miss in zip(sources, held, misses, strict=True):
            errors.setdefault(source, []).extend(miss[mask])  # a source may have runs of several generations
    return {source: float(np.mean(found)) for source, found in errors.items()}


# --- Tables ----------------------------------------------------------------------------------------------------------


def score_table(scores: Iterable[Score]) -> str:
    """Return a line for each score.

    Examples
    --------
    >>> print(score_table([score("lab", [0.02, -0.02], [0.40, 0.50], skipped=1)]))
    source  rows  predicted   mean  median    bias  constant MFU  skill
    lab        3          2   2.0%    2.0%   +0.0%         10.0%  +0.80
    """
    scores = list(scores)
    width = max([len("source"), *(len(found.source) for found in scores)])
    lines = [f"{'source':<{width}}  rows  predicted   mean  median    bias  constant MFU  skill"]
    for found in scores:
        cells = [
            "-" if value is None else format(value, form)
            for value, form in (
                *((found.mean_abs_error, ".1%"), (found.median_abs_error, ".1%"), (found.bias, "+.1%")),
                *((found.baseline_mean_abs_error, ".1%"), (found.skill, "+.2f")),
            )
        ]
        padded = (cell.rjust(size) for cell, size in zip(cells, (5, 6, 6, 12, 5), strict=True))
        lines.append("  ".join([found.source.ljust(width), f"{found.rows:>4}", f"{found.predicted:>9}", *padded]))
    return "\n".join(lines)


def run_table(runs: Sequence[Run], times) -> str:
    """Return a line for each run: its measured step, the predicted one, the error, and what was filled in for it."""
    rows = [("row", "source", "measured", "predicted", "error", "filled in")]
    for run, time in zip(runs, times, strict=True):
        filled = ", ".join(f"{name} {text}" for name, text in run.filled.items()) or "-"
        error = f"{time / run.seconds - 1:+.1%}"
        rows.append((run.row, run.source, fmt(run.seconds, "s"), fmt(time, "s"), error, filled))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    align = (str.ljust, str.ljust, str.rjust, str.rjust, str.rjust, str.ljust)
    lines = (zip(align, row, widths, strict=True) for row in rows)
    return "\n".join("  ".join(put(cell, width) for put, cell, width in line).rstrip() for line in lines)


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


def run(arguments: argparse.Namespace) -> int:
    """Predict, compare and print; return the exit status: 1 where nothing could be predicted."""
    if arguments.template:
        print(TEMPLATE, end="")
        return 0
    runs, skipped = read_runs(arguments.file)
    if arguments.leave_one_out:
        return _print_left_out(runs, skipped, as_json=arguments.json)
    steps, seconds = predict_runs(runs), np.array([run.seconds for run in runs])
    scores, overall = _compare(runs, skipped, steps, seconds)
    if arguments.json:
        rows = [_object(run, time) for run, time in zip(runs, steps.time, strict=True)]
        rows += [_object(row, None) for row in skipped]
        found = {"sources": [vars(one) for one in scores], "overall": vars(overall)}
        found |= {"skipped": [{"row": row.row, "why": row.why} for row in skipped], "rows": rows}
        print(json.dumps(found, indent=1, allow_nan=False))
    else:
        if runs and not arguments.summary:
            print(run_table(runs, steps.time), end="\n\n")
        print(score_table([*scores, overall]))
        _print_skipped(skipped)
    return _status(runs)


def _object(row: Run | Skipped, time) -> dict:
    found = {"row": row.row, "source": row.source}
    if isinstance(row, Skipped):
        return found | {"measured": None, "predicted": None, "skipped": row.why, "filled": {}}
    return found | {"measured": row.seconds, "predicted": float(time), "skipped": None, "filled": dict(row.filled)}


def _print_skipped(skipped: Iterable[Skipped], file=None) -> None:
    for row in skipped:
        print(f"skipped {row.row} ({row.source}): {row.why}", file=file)


def _status(runs: Sequence[Run]) -> int:
    if not runs:
        print("no row could be predicted", file=sys.stderr)
    return 0 if runs else 1


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
    print(f"{why}; there is no such pair among: {named}", file=sys.stderr)
    return 1
