"""The protocol: how far predictions of training steps are off on publications of a stack that nobody here has timed.

Leaving out one source of many flatters where others are of the same stack and chips. Here all publications of a family
of stacks on a generation of accelerators are left out together, and each of their runs is predicted twice: with its
stack named, and as if nobody had said it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from ..catalogue import PREDICTION_INTERVALS
from ..parallelism import step_kind, wider
from ..planning import STACKS, mixture_interval
from ..quantities import Number
from ..records import Explained, Rows
from ..units import fmt
from .efficiency_fit import folds, shared_times, unseen_times
from .intervals import symmetric_interval, votes
from .training_runs import Run

# --- Stacks left out -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class Protocol(Explained):
    """How well runs of a kind are predicted without any publication of their stack on their generation.

    ``error`` is the mean of predicted over measured time less 1, without its sign, ``inside`` the share of runs in an
    80 % interval that other publications taught, and ``width`` the mean of its upper end over its lower one: with the
    stack named, and ``unnamed``. ``publications`` counts pairs of a family of stacks and a generation. What an interval
    promises is of the next publication, whose runs share what it counts: ``each_inside`` has every publication once.
    """

    kind: str
    runs: int
    publications: int
    error: float
    inside: float
    width: float
    unnamed_error: float
    unnamed_inside: float
    unnamed_width: float
    each_inside: float
    unnamed_each_inside: float

    def _rows(self) -> Rows:
        rows = [(self.kind, "named", "unnamed"), ("runs", f"{self.runs:,}", "")]
        rows.append(("publications", f"{self.publications:,}", ""))
        rows.append(("error", fmt(self.error, "%", 2), fmt(self.unnamed_error, "%", 2)))
        rows.append(("inside", fmt(self.inside, "%", 2), fmt(self.unnamed_inside, "%", 2)))
        rows.append(("each publication once", fmt(self.each_inside, "%", 2), fmt(self.unnamed_each_inside, "%", 2)))
        return [*rows, ("width", fmt(self.width, "", 3), fmt(self.unnamed_width, "", 3))]


class Unseen(NamedTuple):
    """Runs under constants that no publication of their stack on their generation has taught, as arrays.

    ``times`` are seconds with the stack named; ``each`` has those of every software that an unnamed run may be by.
    ``seen`` says whether anything else of the generation was there to teach the constants.
    """

    runs: tuple[Run, ...]
    kinds: np.ndarray
    publications: np.ndarray
    times: np.ndarray
    each: tuple[np.ndarray, ...]
    seen: np.ndarray

    @property
    def ratios(self) -> np.ndarray:
        """Measured over predicted time, with the stack named."""
        return np.array([run.seconds for run in self.runs]) / self.times


def publication(run: Run) -> str:
    """What a run is left out with: the family of its stack (its source, where none is named), and its generation.

    Examples
    --------
    >>> from clusterlab.evidence import published_runs
    >>> publication(published_runs()[0][0])
    'Megatron on Ampere'
    """
    family = STACKS[run.stack].family if run.stack else run.source
    return f"{family} on {run.machine.efficiency.generation}"


def unseen_runs(runs: Iterable[Run], unnamed: Iterable[Run] = ()) -> Unseen:
    """Predict every run without the publications of its stack on its generation.

    Parameters
    ----------
    runs
        With their stacks named.
    unnamed
        The same rows, read without the column ``software``; those that are missing count as named.

    Returns
    -------
    Unseen

    Examples
    --------
    >>> from clusterlab.evidence import published_runs
    >>> found = unseen_runs(published_runs()[0])
    >>> bool(0.9 < np.median(found.ratios) < 1.1)
    True
    """
    return _unseen_runs(tuple(runs), tuple(unnamed))


@lru_cache(maxsize=4)
def _unseen_runs(runs: tuple[Run, ...], unnamed: tuple[Run, ...]) -> Unseen:
    labels = np.array([publication(run) for run in runs])
    blank = {run.row: run for run in unnamed}
    times, seen = np.empty(len(runs)), np.empty(len(runs), bool)
    each: list[np.ndarray] = [np.empty(0)] * len(runs)
    for fold in folds(runs, tuple(labels.tolist())):
        several = [blank.get(runs[i].row, runs[i]).by_each() for i in fold.where]
        flat = [runs[i] for i in fold.where] + [one for some in several for one in some]
        found = shared_times(flat, fold.shares)
        count = len(fold.where)
        times[fold.where], seen[fold.where] = found[:count], fold.seen
        ends = np.cumsum([len(some) for some in several])
        for i, some in zip(fold.where, np.split(found[count:], ends[:-1]), strict=True):
            each[i] = some
    kinds = np.array([step_kind(run.model, run.workload.precision) for run in runs])
    return Unseen(runs, kinds, labels, times, tuple(each), seen)


def learn_training_spreads(runs: Iterable[Run]) -> dict[str, tuple[float, float]]:
    """Learn the 80 % interval of each kind of run, in multiples of the prediction, from stacks that are left out.

    A publication of n rows has the votes of the square root of n, and a slow one says that another may be fast
    (:func:`clusterlab.evidence.symmetric_interval`): it is wider where few publications stand behind it.

    Parameters
    ----------
    runs
        With their stacks named, of two publications or more of a kind.

    Returns
    -------
    dict
        Kind (:func:`clusterlab.parallelism.step_kind`) to its low and high ratio.

    Examples
    --------
    >>> from clusterlab.evidence import published_runs
    >>> low, high = learn_training_spreads(published_runs()[0])["dense, 16 bits"]
    >>> round(low, 2), round(high, 2)
    (0.9, 1.11)
    """
    found = unseen_runs(runs)
    return _spreads(found, np.ones(len(found.runs), bool))


def _spreads(found: Unseen, others: np.ndarray) -> dict[str, tuple[float, float]]:
    learned = {}
    for kind in dict.fromkeys(found.kinds.tolist()):
        some = (found.kinds == kind) & found.seen & others
        if some.any():
            learned[kind] = symmetric_interval(found.ratios[some], found.publications[some])
    return learned


def learn_untimed_spreads(runs: Iterable[Run]) -> dict[str, tuple[float, float]]:
    r"""Learn what a prediction is further off where something is new: the accelerator, the kind of model, the size.

    .. math:: x = \sqrt{h_\text{out}^2 - h_\text{in}^2}

    :math:`h_\text{out}` is half the interval of runs, as a logarithm, under constants that have seen nothing of the
    kind, and :math:`h_\text{in}` that of the same runs under constants that have. An accelerator is new where nothing
    of its generation is left; a kind, where all runs of it on a generation are left out; a size, where those on more
    than a quarter of the most accelerators are.

    Returns
    -------
    dict
        ``"untimed: accelerator"``, ``"untimed: kind"`` and ``"untimed: size"`` to :math:`e^{\mp x}`.

    Examples
    --------
    Size is what costs least:

    >>> from clusterlab.evidence import published_runs
    >>> found = learn_untimed_spreads(published_runs()[0])
    >>> [round(high, 2) for _, high in found.values()]
    [1.24, 1.15, 1.08]
    """
    runs = tuple(runs)
    generations = np.array([run.machine.efficiency.generation for run in runs])
    kinds = np.array([step_kind(run.model, run.workload.precision) for run in runs])
    sizes = np.array([float(np.max(run.layout.gpus)) for run in runs])
    most = {name: sizes[generations == name].max() for name in set(generations)}
    large = np.array([size > most[name] / 4 for size, name in zip(sizes, generations, strict=True)])
    seconds, publications = np.array([run.seconds for run in runs]), np.array([publication(run) for run in runs])
    known = seconds / unseen_times(runs, left_out=["nothing"] * len(runs), within=True)
    learned = {}
    for name, labels, which in (
        ("accelerator", generations, np.ones(len(runs), bool)),
        ("kind", np.char.add(kinds, generations), np.ones(len(runs), bool)),
        ("size", np.where(large, "large", "small"), large),
    ):
        alone, units = name == "accelerator", publications if name == "size" else labels
        new = seconds / unseen_times(runs, left_out=labels.tolist(), alone=alone)
        some = which & ~np.isnan(new)
        out, known_half = (math.log(symmetric_interval(ratios[some], units[some])[1]) for ratios in (new, known))
        extra = math.sqrt(max(out**2 - known_half**2, 0.0))
        learned[f"untimed: {name}"] = math.exp(-extra), math.exp(extra)
    return learned


def training_protocol(runs: Iterable[Run], unnamed: Iterable[Run]) -> list[Protocol]:
    """Leave out every stack on every generation in turn, and count how far off and how often inside its runs are.

    Intervals are learned from the other publications each time (:func:`learn_training_spreads`). Where nothing else of
    a generation is left, its shares are the mean of the others', and its interval is wider, as nobody has timed it.

    Parameters
    ----------
    runs, unnamed
        As for :func:`unseen_runs`: ``published_runs()[0]`` and ``published_runs(named=False)[0]``.

    Returns
    -------
    list of Protocol
        All runs, then those of each kind.
    """
    found = unseen_runs(runs, unnamed)
    seconds = np.array([run.seconds for run in found.runs])
    spreads = np.empty((2, len(seconds)))
    for name in dict.fromkeys(found.publications.tolist()):
        mine = found.publications == name
        learned = _spreads(found, ~mine)
        for i in np.flatnonzero(mine):
            interval: tuple[Number, Number] = learned[found.kinds[i]]
            if not found.seen[i]:
                interval = wider(*interval, math.log(PREDICTION_INTERVALS["untimed: accelerator"].high) ** 2)
            spreads[:, i] = interval
    ends, unnamed_ends = spreads * found.times, np.empty_like(spreads)
    counts = np.array([len(times) for times in found.each])
    for count in set(counts.tolist()):  # those of as many stacks in one call
        some = np.flatnonzero(counts == count)
        times = np.transpose([found.each[i] for i in some])
        unnamed_ends[:, some] = mixture_interval(*(end * times for end in spreads[:, some]))
    middle = np.array([times.mean() for times in found.each])
    rows = []
    for kind in ("all runs", *dict.fromkeys(found.kinds.tolist())):
        some = found.kinds == kind if kind != "all runs" else np.ones(len(seconds), bool)
        once, numbers, each = votes(found.publications[some], 1.0), list[float](), list[float]()
        for times, (low, high) in ((found.times, ends), (middle, unnamed_ends)):
            inside = (low <= seconds) & (seconds <= high)
            numbers += [np.abs(times / seconds - 1)[some].mean(), inside[some].mean(), (high / low)[some].mean()]
            each.append(np.average(inside[some], weights=once))
        rows.append(Protocol(kind, int(some.sum()), len(set(found.publications[some])), *map(float, numbers + each)))
    return rows
