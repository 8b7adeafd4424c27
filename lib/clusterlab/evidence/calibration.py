"""Calibration: what a machine's own measured runs say about its next prediction.

Published runs scatter in three ways, each learned for a kind of run and stored beside the intervals
(:data:`clusterlab.catalogue.VARIANCE_COMPONENTS`): a source is off as a whole, a model is off within its source, and
runs are off within their model. So a few runs of one's own tell how much one's machine and one's models are off, and
leave less to doubt: :func:`calibrated` corrects predictions and narrows their intervals. :func:`leave_one_run_out` says
what that is worth, by leaving out each of those runs in turn.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..catalogue import VARIANCE_COMPONENTS, VarianceComponents
from ..parallelism import STEP_PARTS, Step, step_kind
from ..quantities import Amount
from ..records import Explained
from .intervals import weighted_quantile
from .training_runs import Run, predict_runs

Floats = Sequence[float] | np.ndarray


# --- Calibration -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class Calibrated(Explained):
    """What a machine's own runs of a kind are worth to each of them, left out in turn: without the others, and with.

    ``error`` is the mean of predicted over measured time less 1, without its sign; ``inside`` the share of runs in
    their 80 % interval; ``width`` the mean of the interval's upper end over its lower one.
    """

    kind: str
    runs: int
    error_before: float
    error: float
    inside_before: float
    inside: float
    width_before: float
    width: float


def calibrated(runs: Iterable[Run], mine: Iterable[Run]) -> Step:
    r"""Predict runs of a machine with the help of other runs that were measured on it.

    Parameters
    ----------
    runs
        What to predict; its measured times are not looked at.
    mine
        Runs of the same machine and software. A run helps those of its kind (:func:`clusterlab.parallelism.step_kind`),
        and most those of its model; one that is among ``runs`` too does not help itself. It does not reach a run of
        another kind: see :func:`unreached`.

    Returns
    -------
    Step
        Arrays in the order of ``runs``. Every part of a step is scaled alike; ``low`` and ``high`` are the ends of
        the narrower interval. A run of a kind that ``mine`` lacks is predicted as without it.

    Notes
    -----
    The logarithm of measured over predicted time is expected as if it were normal about zero: with :math:`x` those of
    one's own runs of a kind, the next is expected at

    .. math:: c^T C^{-1} x, \qquad \text{with variance } \tau^2 + \omega^2 + \sigma^2 - c^T C^{-1} c

    where two runs have in common :math:`\tau^2`, the variance between sources, and :math:`\omega^2`, that between
    models, where they are of one model; :math:`C` adds :math:`\sigma^2`, that between runs, on its diagonal. A few runs
    are far off, so that four fifths lie nearer than a normal law has them: how near is learned too.

    Examples
    --------
    LLM Foundry's 40 GB A100, each run by the help of the 77 others:

    >>> from clusterlab.evidence import published_runs
    >>> mine = [run for run in published_runs()[0] if run.source == "llmfoundry_a100_40gb"]
    >>> seconds = np.array([run.seconds for run in mine])
    >>> found = [predict_runs(mine).time, calibrated(mine, mine).time]
    >>> [round(float(np.mean(abs(time / seconds - 1))), 3) for time in found]
    [0.053, 0.035]
    """
    runs, mine = list(runs), list(mine)
    steps, misses, facts = predict_runs(runs), _misses(mine), [_facts(run) for run in mine]
    kinds = np.array([step_kind(run.model, run.workload.precision) for run in mine])
    models = _numbered(run.model for run in [*mine, *runs])
    factor, low, high = np.ones(len(runs)), np.array(steps.spread_low), np.array(steps.spread_high)
    for i, run in enumerate(runs):
        name, own = step_kind(run.model, run.workload.precision), _facts(run)
        others = [j for j in np.flatnonzero(kinds == name) if facts[j] != own]
        if others:
            theirs = models[others]
            middle, deviation = _expected(
                VARIANCE_COMPONENTS[name], misses[others], theirs == models[len(mine) + i], theirs
            )
            factor[i] = np.exp(middle)
            low[i], high[i] = np.exp(VARIANCE_COMPONENTS[name].reach * deviation * np.array([-1, 1]))
    scaled = {name: factor * getattr(steps, name) for name in (*STEP_PARTS, "communication")}
    return replace(steps, **scaled, spread_low=low, spread_high=high)


def unreached(runs: Iterable[Run], mine: Iterable[Run]) -> dict[str, list[Run]]:
    """Runs that a calibration says nothing of, by their kind: none of the others in ``mine`` is of it.

    Examples
    --------
    >>> from clusterlab.evidence import published_runs
    >>> runs = published_runs()[0]
    >>> mine = [run for run in runs if run.source == "llmfoundry_a100_40gb"]
    >>> {kind: len(found) > 50 for kind, found in unreached(runs, mine).items()}
    {'mixture of experts': True, 'dense, 8 or 4 bits': True}
    """
    known: dict[str, list[tuple[object, ...]]] = {}
    for run in mine:
        known.setdefault(step_kind(run.model, run.workload.precision), []).append(_facts(run))
    found: dict[str, list[Run]] = {}
    for run in runs:
        kind, own = step_kind(run.model, run.workload.precision), _facts(run)
        if all(facts == own for facts in known.get(kind, ())):
            found.setdefault(kind, []).append(run)
    return found


def _facts(run: Run) -> tuple[object, ...]:
    """What makes a run the same as another, in whatever table it stands."""
    layout = tuple(vars(run.layout).values())
    return run.model, run.machine.name, run.workload, layout, run.seconds


def _misses(runs: Sequence[Run]) -> np.ndarray:
    """Logarithm of measured over predicted time."""
    return np.log(np.array([run.seconds for run in runs]) / predict_runs(runs).time)


def leave_one_run_out(mine: Iterable[Run]) -> list[Calibrated]:
    """Test a calibration on the runs that it rests on: predict each of them by the others.

    Parameters
    ----------
    mine
        Runs of one machine and its software.

    Returns
    -------
    list of Calibrated
        One for each kind of run, in the order of the runs.

    Examples
    --------
    >>> from clusterlab.evidence import published_runs
    >>> mine = [run for run in published_runs()[0] if run.source == "llmfoundry_a100_40gb"]
    >>> (found,) = leave_one_run_out(mine)
    >>> found.runs, round(found.error_before, 3), round(found.error, 3)
    (78, 0.053, 0.035)
    >>> round(found.width_before, 2), round(found.width, 2)
    (1.23, 1.14)
    """
    mine = list(mine)
    before, after, seconds = predict_runs(mine), calibrated(mine, mine), np.array([run.seconds for run in mine])
    kinds = np.array([step_kind(run.model, run.workload.precision) for run in mine])
    found = []
    for name in dict.fromkeys(kinds.tolist()):
        scores = []
        for steps in (before, after):
            low, time, high = (column[kinds == name] for column in (steps.low, steps.time, steps.high))
            took = seconds[kinds == name]
            inside = (low <= took) & (took <= high)
            scores.append((np.abs(time / took - 1).mean(), inside.mean(), (high / low).mean()))
        pairs = (float(value) for pair in zip(*scores, strict=True) for value in pair)
        found.append(Calibrated(name, int(np.sum(kinds == name)), *pairs))
    return found


# --- What a source's other runs let expect ---------------------------------------------------------------------------


def _shared(scatter: VarianceComponents, same: np.ndarray | bool) -> np.ndarray:
    """Covariance of two runs of one source; ``same``: whether they are of one model."""
    return scatter.between_sources**2 + scatter.between_models**2 * np.asarray(same, float)


def _covariance(scatter: VarianceComponents, models: np.ndarray) -> np.ndarray:
    return _shared(scatter, models[:, None] == models) + scatter.between_runs**2 * np.eye(len(models))


def _numbered(models: Iterable[Hashable]) -> np.ndarray:
    """Models as numbers, which are quickly told apart."""
    numbers: dict[Hashable, int] = {}
    return np.array([numbers.setdefault(model, len(numbers)) for model in models])


def _expected(
    scatter: VarianceComponents, misses: np.ndarray, same: np.ndarray, models: np.ndarray
) -> tuple[float, float]:
    """Mean and deviation of the next run of a source whose runs missed so; ``same``: which are of its model."""
    weights = np.linalg.solve(_covariance(scatter, models), _shared(scatter, same))
    variance = _shared(scatter, True) + scatter.between_runs**2 - weights @ _shared(scatter, same)
    return float(weights @ misses), float(np.sqrt(variance))


def expected_misses(
    scatter: VarianceComponents, misses: Floats, models: Sequence[Hashable]
) -> tuple[np.ndarray, np.ndarray]:
    """What to expect of each run of a source, from its others.

    Parameters
    ----------
    scatter
        How runs of this kind scatter.
    misses
        Logarithms of measured over predicted time of the source's runs.
    models
        The model of each.

    Returns
    -------
    tuple of array
        Mean and standard deviation of each run's logarithm, which itself is not looked at.

    Examples
    --------
    Two runs of one model were 10 % slower than predicted; so is a third, most likely.

    >>> scatter = VARIANCE_COMPONENTS["dense, 16 bits"]
    >>> middle, deviation = expected_misses(scatter, [0.1, 0.1, 0.0], ["8B"] * 3)
    >>> bool(0.06 < middle[2] < 0.1), bool(deviation[2] < 0.08)
    (True, True)
    """
    # The inverse of the covariance of all has every run's regression on the others in its rows.
    inverse = np.linalg.inv(_covariance(scatter, _numbered(models)))
    variance, misses = 1 / np.diag(inverse), np.asarray(misses, float)
    return misses - variance * (inverse @ misses), np.sqrt(variance)


# --- What published runs teach ---------------------------------------------------------------------------------------

_LEAST, _MOST, _STEPS, _ZOOMS = 0.005, 0.5, 9, 4  # standard deviations that are tried, on grids ever finer


def learn_scatter(misses: Floats, sources: Sequence[Hashable], models: Sequence[Hashable]) -> dict[str, float]:
    """How runs of one kind scatter: :class:`clusterlab.catalogue.VarianceComponents` of greatest likelihood, as fields.

    Every source has one vote, shared by its rows.

    Parameters
    ----------
    misses
        Logarithms of measured over predicted time, under constants that have not seen the source.
    sources, models
        The source and the model of each.

    Returns
    -------
    dict

    Examples
    --------
    A hundred sources of four runs, two of each model:

    >>> rng = np.random.default_rng(0)
    >>> misses = np.repeat(rng.normal(0, 0.06, 100), 4) + np.repeat(rng.normal(0, 0.04, 200), 2)
    >>> found = learn_scatter(misses + rng.normal(0, 0.02, 400), np.arange(400) // 4, np.arange(400) // 2)
    >>> {name: round(value, 2) for name, value in found.items()}
    {'between_sources': 0.06, 'between_models': 0.04, 'between_runs': 0.02, 'reach': 1.23}
    """
    misses = np.asarray(misses, float)
    by_source: dict[Hashable, dict[Hashable, list[float]]] = {}
    for miss, source, model in zip(misses.tolist(), sources, models, strict=True):
        by_source.setdefault(source, {}).setdefault(model, []).append(miss)
    groups = [[np.array(of_model) for of_model in of_source.values()] for of_source in by_source.values()]
    ends = np.log([[_LEAST, _MOST]] * 3)
    best = ends.mean(axis=1)
    for _ in range(_ZOOMS):
        axes = [np.linspace(low, high, _STEPS) for low, high in ends]
        grid = np.exp(np.meshgrid(*axes, indexing="ij"))
        found = _unlikelihood(groups, *grid)
        place = np.unravel_index(np.argmin(found), found.shape)
        best = np.array([axis[i] for axis, i in zip(axes, place, strict=True)])
        step = np.array([axis[1] - axis[0] for axis in axes])
        ends = np.clip(np.stack([best - step, best + step], axis=1), np.log(_LEAST), np.log(_MOST))
    names = ("between_sources", "between_models", "between_runs")
    found = dict(zip(names, map(float, np.exp(best)), strict=True))
    return found | {"reach": _reach(VarianceComponents(name="", facts={}, **found, reach=1.0), by_source)}


def _reach(scatter: VarianceComponents, by_source: Mapping[Hashable, Mapping[Hashable, Sequence[float]]]) -> float:
    """Deviations about what a source's other runs let expect that hold four fifths of the runs.

    Every source has one vote. As many runs as the votes are worth are few: the next one is as likely to lie beyond the
    last of n as between two of them (conformal prediction), so that the share is higher by one in n.
    """
    far, votes = [], []
    for of_source in by_source.values():
        misses = np.concatenate([np.asarray(found) for found in of_source.values()])
        models = np.repeat(np.arange(len(of_source)), [len(found) for found in of_source.values()])
        middle, deviation = expected_misses(scatter, misses, models.tolist())
        far.append(np.abs(misses - middle) / deviation)
        votes.append(np.full(misses.size, 1 / misses.size))
    weights = np.concatenate(votes)
    count = weights.sum() ** 2 / np.sum(weights**2)
    return weighted_quantile(np.concatenate(far), weights, min(0.8 * (1 + 1 / count), 1.0))


def _unlikelihood(
    groups: Sequence[Sequence[np.ndarray]], of_sources: Amount, of_models: Amount, of_runs: Amount
) -> Amount:
    """Negative log-likelihood of the misses, a constant aside; the deviations broadcast.

    Means of models are independent but for what their source has in common: a matrix of rank one more, whose inverse
    and determinant are known.
    """
    cost: Amount = 0.0
    own, log_own = of_runs**2, np.log(of_runs**2)
    variances = {size: of_models**2 + own / size for size in {len(one) for of_source in groups for one in of_source}}
    log_variances = {size: np.log(variance) for size, variance in variances.items()}
    for of_source in groups:
        count = sum(len(one) for one in of_source)
        ones = means = squares = logs = 0.0
        for one in of_source:
            mean, variance = one.mean(), variances[len(one)]
            ones, means = ones + 1 / variance, means + mean / variance
            squares = squares + mean**2 / variance + np.sum((one - mean) ** 2) / own
            logs = logs + log_variances[len(one)] + (len(one) - 1) * log_own
        logs = logs + np.log1p(of_sources**2 * ones)
        cost = cost + (logs + squares - means**2 / (ones + of_sources**-2)) / count / 2
    return cost
