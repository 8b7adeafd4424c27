"""Intervals of predicted steps: what sources left out teach of them, how runs scatter, and how many lie inside."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from ..catalogue import VarianceComponents
from ..parallelism import step_kind
from ..records import Explained, Rows
from ..units import fmt
from .calibration import Calibrated, expected_misses, learn_scatter
from .efficiency_fit import unseen_times
from .intervals import quantile_interval
from .training_runs import Run, predict_runs
from .validation import rivals

# --- Sources left out ------------------------------------------------------------------------------------------------


def training_residuals(runs: Iterable[Run]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Measured time over the time under shares fitted to other sources: what intervals are learned from.

    Parameters
    ----------
    runs
        Of two sources or more in a generation; those whose source is alone there are left out.

    Returns
    -------
    tuple of array
        The ratio, the kind and the source of each run.

    Examples
    --------
    >>> from clusterlab.evidence import published_runs
    >>> ratios, kinds, sources = training_residuals(published_runs()[0])
    >>> ratios.size, bool(0.9 < np.median(ratios) < 1.1)
    (636, True)
    """
    runs = list(runs)
    ratios = np.array([run.seconds for run in runs]) / unseen_times(runs)
    kinds = np.array([step_kind(run.model, run.workload.precision) for run in runs])
    known = ~np.isnan(ratios)
    return ratios[known], kinds[known], np.array([run.source for run in runs])[known]


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

    def _rows(self) -> Rows:
        rows = [
            (self.kind, "by the law", "by a constant"),
            ("runs", f"{self.runs:,}", ""),
            ("sources", f"{self.sources:,}", ""),
        ]
        rows.append(("inside", fmt(self.share, "%", 2), fmt(self.constant_share, "%", 2)))
        return [*rows, ("width", fmt(self.width, "", 2), fmt(self.constant_width, "", 2))]


def training_coverage(runs: Iterable[Run]) -> list[Coverage]:
    """Test the intervals: leave every source out, learn the interval from the others, and count who lies inside.

    Parameters
    ----------
    runs
        Of two sources or more of a kind.

    Returns
    -------
    list of Coverage
        One for each kind of run.

    Examples
    --------
    >>> from clusterlab.evidence import published_runs
    >>> [found.kind for found in training_coverage(published_runs()[0]) if 0.75 <= found.share <= 0.87]
    ['dense, 16 bits', 'mixture of experts', 'dense, 8 or 4 bits']
    """
    runs = list(runs)
    ratios, kinds, sources = training_residuals(runs)
    steps, seconds = predict_runs(runs), np.array([run.seconds for run in runs])
    mfu = steps.model_flops / (steps.gpus * steps.peak) / seconds
    constant = rivals(runs)[0] / mfu  # measured time over that at the constant MFU
    all_kinds = np.array([step_kind(run.model, run.workload.precision) for run in runs])
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
        low, high = quantile_interval(ratios[~mine], sources[~mine])
        inside[mine] = (low <= ratios[mine]) & (ratios[mine] <= high)
        widths[mine] = high / low
    return float(inside.mean()), float(widths.mean())


# --- What published runs teach ---------------------------------------------------------------------------------------


def learn_scatters(runs: Iterable[Run]) -> dict[str, dict[str, float]]:
    """Learn how runs of each kind scatter about their predictions, from runs no constant has seen.

    Parameters
    ----------
    runs
        Of two sources or more in a generation.

    Returns
    -------
    dict
        Kind (:func:`clusterlab.parallelism.step_kind`) to the fields of a
        :class:`clusterlab.catalogue.VarianceComponents`.

    Examples
    --------
    >>> from clusterlab.evidence import published_runs
    >>> found = learn_scatters(published_runs()[0])["dense, 16 bits"]
    >>> round(found["between_sources"], 2), round(found["between_runs"], 2)
    (0.07, 0.05)
    """
    return {name: learn_scatter(*columns) for name, columns in _scattered(runs).items()}


def _scattered(runs: Iterable[Run]) -> dict[str, tuple[np.ndarray, list[str], list]]:
    """Of each kind of run: logarithms of what :func:`training_residuals` returns, their sources and their models."""
    found: dict[str, tuple[list, list, list]] = {}
    runs = list(runs)
    for run, time in zip(runs, unseen_times(runs), strict=True):
        if not np.isnan(time):
            columns = found.setdefault(step_kind(run.model, run.workload.precision), ([], [], []))
            for column, value in zip(columns, (np.log(run.seconds / time), run.source, run.model), strict=True):
                column.append(value)
    return {name: (np.array(misses), sources, models) for name, (misses, sources, models) in found.items()}


def calibration_worth(runs: Iterable[Run], *, least: int = 4) -> list[Calibrated]:
    """Test calibration: every source is a machine whose runs are predicted with the help of its other runs.

    How runs scatter is learned from the other sources each time, and so are the constants.

    Parameters
    ----------
    runs
        Of two sources or more of a kind.
    least
        Sources with fewer runs of a kind are left out.

    Returns
    -------
    list of Calibrated
        One for each kind of run.

    Examples
    --------
    >>> from clusterlab.evidence import published_runs
    >>> [found.kind for found in calibration_worth(published_runs()[0]) if 0.75 < found.inside < 0.86]
    ['dense, 16 bits', 'mixture of experts', 'dense, 8 or 4 bits']
    """
    found = []
    for name, (misses, sources, models) in _scattered(runs).items():
        rows = []
        for source, size in Counter(sources).items():
            mine = np.array([one == source for one in sources])
            if size < least or mine.all():
                continue
            theirs = np.flatnonzero(~mine)
            others = [sources[i] for i in theirs], [models[i] for i in theirs]
            scatter = VarianceComponents(name=name, facts={}, **learn_scatter(misses[~mine], *others))
            low, high = quantile_interval(np.exp(misses[~mine]), np.array(sources)[~mine])
            middle, deviation = expected_misses(scatter, misses[mine], [models[i] for i in np.flatnonzero(mine)])
            ends = np.exp(middle - scatter.reach * deviation), np.exp(middle + scatter.reach * deviation)
            for ratio, factor, *interval in zip(np.exp(misses[mine]), np.exp(middle), *ends, strict=True):
                before = abs(1 / ratio - 1), low <= ratio <= high, high / low
                after = abs(factor / ratio - 1), interval[0] <= ratio <= interval[1], interval[1] / interval[0]
                rows.append([value for pair in zip(before, after, strict=True) for value in pair])
        if rows:
            found.append(Calibrated(name, len(rows), *map(float, np.mean(rows, axis=0))))
    return found
