"""Validation of serving online: what is fitted, what a model or a machine that was left out is worth, the intervals.

Few constants are fitted, none of which a datasheet states: a kernel's time, a streamed token's, how many passes lie
before a first token, which each framework chooses, how many drafts are accepted, and how fast SGLang's kernels multiply
blocks of 8 bits on Blackwell. The rest of a prediction is the pass, and what the software was told when it started.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from ..catalogue import PREDICTION_INTERVALS
from ..records import Explained, Rows, summary, words
from ..serving import MEASURES
from .online_runs import OnlineRun, measured_once, online_batches, predict_online
from .robust_fits import Settings, fit_constants

# What is fitted, and from where a fit begins; the last for each framework on its own.
START = {"kernel_time": 5e-6, "stream_time": 20e-6, "random_acceptance": 0.7}
FIRST_PASSES = 10.0
# Of SGLang alone: the others' 8-bit rows on Blackwell ask for none.
BLOCKS = {"block_gemm": 0.7}
_FRAMEWORKS = ("TensorRT-LLM", "vLLM", "SGLang")
_SETTINGS = Settings(nudge=0.97, floor=0.05, most={"random_acceptance": 0.99})
_ROUNDS = 12


def left_out_by(runs: Sequence[OnlineRun]) -> dict[str, np.ndarray]:
    """Return what each run is left out with: its model, and its machine."""
    return {
        "model": np.array([run.decoding.model.name for run in runs]),
        "machine": np.array([run.decoding.machine.name for run in runs]),
    }


def fit_online(runs: Sequence[OnlineRun]) -> dict[str, float]:
    """Fit the constants of serving online to runs.

    Parameters
    ----------
    runs
        A model on a machine with a framework has one vote with the square root of its rows; a measurement that is
        listed twice counts once.

    Returns
    -------
    dict
        ``kernel_time`` and ``stream_time`` in seconds and ``random_acceptance``, of all; ``block_gemm`` of SGLang; and
        ``first_passes`` of each framework, by its name.

    Examples
    --------
    >>> from clusterlab.evidence import published_online
    >>> some = [run for run in published_online()[0] if run.model == "Llama 3.1 70B"]
    >>> 3e-6 < fit_online(some)["kernel_time"] < 8e-6
    True
    """
    return {name: float(of["nothing"][0]) for name, of in _left_out(measured_once(runs)).items()}


def _fit(runs: list[OnlineRun], kept: np.ndarray) -> dict[str, np.ndarray]:
    """One fit for each row of ``kept``, which says the runs that it sees."""
    fits = len(kept)
    start = START | BLOCKS | dict.fromkeys(_FRAMEWORKS, FIRST_PASSES)
    seconds = {name: _measured(runs, name) for name in MEASURES}
    by = left_out_by(runs)
    own = np.array([run.software.name for run in runs])
    alike = np.array(["|".join(names) for names in zip(by["model"], by["machine"], own, strict=True)])
    predict = _under(runs)

    def misses(constants: Mapping[str, np.ndarray]) -> np.ndarray:
        predicted = predict(constants)
        pairs = (np.log(predicted[name] / seconds[name]) for name in ("time_to_first_token", "time_per_token"))
        return np.nan_to_num(np.concatenate(list(pairs), axis=-1))

    begin = {name: np.full(fits, value) for name, value in start.items()}
    twice, names = np.concatenate([kept, kept], axis=1), np.concatenate([alike, alike])
    return fit_constants(begin, misses, twice, names, rounds=_ROUNDS, settings=_SETTINGS)


def _under(runs: list[OnlineRun]) -> Callable[[Mapping[str, np.ndarray]], dict[str, np.ndarray]]:
    """A function from constants, whose arrays come first in the shape, to predictions of the runs."""
    batches = online_batches(runs)

    def predict(constants: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        shape = np.shape(constants["kernel_time"])
        found = {name: np.empty((*shape, len(runs))) for name in MEASURES}
        for batch in batches:
            own = runs[batch.where[0]].software
            columns = {name: constants[name] for name in START if name != "random_acceptance" or np.any(batch.drafted)}
            if own.name == "SGLang":
                columns |= {name: constants[name] for name in BLOCKS}
            columns["first_passes"] = constants.get(own.name, np.full(shape, own.first_passes))
            # Many differ in constants of other software alone: each of a batch's own is asked once.
            flat = np.reshape(list(columns.values()), (len(columns), -1))
            asked, again = np.unique(flat, axis=1, return_inverse=True)
            online = batch.under(dict(zip(columns, asked[..., None], strict=True)))
            for name, values in found.items():
                values[..., batch.where] = getattr(online, name)[again].reshape(*shape, -1)
        return found

    return predict


# --- What is left out ------------------------------------------------------------------------------------------------


@lru_cache(maxsize=2)
def unseen_online(runs: tuple[OnlineRun, ...], by: str) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Predict every run under constants that have not seen its model, or its machine.

    Parameters
    ----------
    runs
        A tuple: the answer is remembered.
    by
        ``"model"`` or ``"machine"``.

    Returns
    -------
    tuple of dict
        Predictions of each of :data:`MEASURES`, and the constants of each fit.
    """
    groups = left_out_by(runs)[by]
    names = list(dict.fromkeys(groups.tolist()))
    constants = {name: values[by] for name, values in _left_out(runs).items()}
    fold = np.array([names.index(name) for name in groups.tolist()])
    each = _under(list(runs))(constants)
    return {name: values[fold, np.arange(len(runs))] for name, values in each.items()}, constants


@lru_cache(maxsize=2)
def _left_out(runs: tuple[OnlineRun, ...]) -> dict[str, dict[str, np.ndarray]]:
    """Constants by what is left out, a fit for each: made side by side, since a call costs more than its rows."""
    once = np.array([not run.repeats for run in runs])
    kept = {"nothing": [once]}
    for by, names in left_out_by(runs).items():
        kept[by] = [once & (names != one) for one in dict.fromkeys(names.tolist())]
    found = _fit(list(runs), np.concatenate([np.array(each) for each in kept.values()]))
    ends = np.cumsum([len(each) for each in kept.values()])[:-1]
    return {name: dict(zip(kept, np.split(values, ends), strict=True)) for name, values in found.items()}


@dataclass(frozen=True, repr=False)
class OnlineScore(Explained):
    """How well a measure is predicted: given the constants, and with models or machines left out of their fit.

    Errors are means of absolute shares; ``inside`` the shares of runs in the 80 % interval.
    """

    measure: str
    runs: int
    given: float
    model_left_out: float
    machine_left_out: float
    inside_model: float
    inside_machine: float

    def _rows(self) -> Rows:
        rows = [("", words(self.measure)), ("runs", f"{self.runs:,}")]
        names = ("given", "model_left_out", "machine_left_out", "inside_model", "inside_machine")
        return [*rows, *((words(name), summary(getattr(self, name), "%")) for name in names)]


def online_scores(runs: Iterable[OnlineRun]) -> list[OnlineScore]:
    """Score each measure, given and left out.

    Parameters
    ----------
    runs
        From :func:`published_online`, or of your own; a measurement that is listed twice counts once.

    Returns
    -------
    list of OnlineScore
    """
    runs = measured_once(runs)
    given, unseen = predict_online(runs), {by: unseen_online(runs, by)[0] for by in ("model", "machine")}
    found = []
    for name in MEASURES:
        measured = _measured(runs, name)
        known, ends = np.isfinite(measured), PREDICTION_INTERVALS[f"serving: online, {MEASURES[name]}"]

        of_model, of_machine = unseen["model"][name], unseen["machine"][name]
        errors = [float(np.nanmean(np.abs(one / measured - 1))) for one in (given[name], of_model, of_machine)]
        ratios = [(measured / one)[known] for one in (of_model, of_machine)]
        inside = [float(np.mean((ends.low <= ratio) & (ratio <= ends.high))) for ratio in ratios]
        found.append(OnlineScore(name, int(known.sum()), *errors, *inside))
    return found


def learn_online_spreads(runs: Iterable[OnlineRun]) -> dict[str, tuple[float, float]]:
    """Learn the 80 % interval of each measure, from runs whose model, or machine, no constant has seen.

    Parameters
    ----------
    runs
        Each measurement counts as one, twice: once with its model left out, once with its machine.

    Returns
    -------
    dict
        Kind, as in :data:`clusterlab.catalogue.PREDICTION_INTERVALS`, to low and high ratio of measured to predicted.
    """
    runs = measured_once(runs)
    found = {}
    for name, said in MEASURES.items():
        measured = _measured(runs, name)
        ratios = np.concatenate([measured / unseen_online(runs, by)[0][name] for by in ("model", "machine")])
        ratios = ratios[np.isfinite(ratios)]
        low, high = (float(np.quantile(ratios, share)) for share in (0.1, 0.9))
        found[f"serving: online, {said}"] = (low, high)
    return found


@dataclass(frozen=True, repr=False)
class OnlineGroup(Explained):
    """How far a model on a machine with a framework is off: mean absolute error and bias, measure by measure."""

    group: str
    runs: int
    errors: tuple[float, ...]
    biases: tuple[float, ...]

    def _rows(self) -> Rows:
        rows = [(self.group, "error", "bias")]
        for name, error, bias in zip(MEASURES, self.errors, self.biases, strict=True):
            rows.append((words(name), summary(error, "%"), f"{100 * bias:+.0f}%"))
        return rows


def compare_online(runs: Iterable[OnlineRun]) -> list[OnlineGroup]:
    """Compare every model, machine and framework with what was measured, each measurement once.

    Examples
    --------
    >>> from clusterlab.evidence import published_online
    >>> minimax = [run for run in published_online()[0] if run.model == "MiniMax M2.5"]
    >>> [(one.group, one.runs) for one in compare_online(minimax)][:2]
    [('MiniMax M2.5, B200, vLLM', 150), ('MiniMax M2.5, H200 SXM, vLLM', 33)]
    """
    runs = measured_once(runs)
    predicted, by = predict_online(runs), left_out_by(runs)
    where: dict[str, list[int]] = {}
    for i, run in enumerate(runs):
        pools = ", apart" if run.pools else ""
        where.setdefault(f"{by['model'][i]}, {by['machine'][i]}, {run.software.name}{pools}", []).append(i)
    off = [values / _measured(runs, name) - 1 for name, values in predicted.items()]
    return [
        OnlineGroup(
            group,
            len(rows),
            tuple(float(np.nanmean(np.abs(one[rows]))) for one in off),
            tuple(float(np.nanmean(one[rows])) for one in off),
        )
        for group, rows in where.items()
    ]


def _measured(runs: Sequence[OnlineRun], name: str) -> np.ndarray:
    """What was measured of each run; NaN: nothing."""
    return np.array([run.measured[name] or np.nan for run in runs])
