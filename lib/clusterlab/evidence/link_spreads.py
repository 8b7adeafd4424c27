"""Intervals of predicted collectives: what generations and fabrics left out teach, and how many rows lie inside."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from ..quantities import Number
from ..records import Explained
from .intervals import quantile_interval, student_quantile, symmetric_interval, votes, weighted_quantile
from .link_plans import algorithms
from .link_prediction import GROWTH, TESTED, UNKNOWN, predict_held_out, predict_unseen_generations
from .timings import Timing, by_source

# --- Intervals of collectives ----------------------------------------------------------------------------------------


class Residuals(NamedTuple):
    """Measured over predicted time of rows that the constants have not seen, with what is left out together: folds."""

    ratios: np.ndarray
    kinds: np.ndarray
    sources: np.ndarray
    folds: np.ndarray
    nodes: np.ndarray

    def where(self, mask: np.ndarray) -> Residuals:
        """Some of the rows."""
        return Residuals(*(column[mask] for column in self))


def collective_residuals(timings: Iterable[Timing]) -> Residuals:
    """Leave out every generation of GPUs on every fabric, predict it, and divide: what intervals are learned from.

    Parameters
    ----------
    timings
        Rows of several generations.

    Returns
    -------
    Residuals
        In the order of :func:`predict_unseen_generations`.

    Examples
    --------
    >>> from clusterlab.evidence import published_timings
    >>> found = collective_residuals(published_timings())
    >>> found.ratios.size, bool(0.9 < np.median(found.ratios) < 1.1)
    (776, True)
    """
    return _residuals(tuple(timings))


@lru_cache(maxsize=4)
def _residuals(timings: tuple[Timing, ...]) -> Residuals:
    results = predict_unseen_generations(timings, timings)
    ratios = 1 / (1 + np.concatenate([result.errors for result in results]))
    kinds = np.concatenate([result.kinds for result in results])
    rows = _in_order(timings)
    columns = zip(*((row.source, ", ".join(row.fold), row.nodes) for row in rows), strict=True)
    return Residuals(ratios, kinds, *map(np.array, columns))


def _in_order(timings: Iterable[Timing]) -> list[Timing]:
    """Rows by source, and in a source by fold."""
    found = []
    for rows in by_source(timings).values():
        for fold in dict.fromkeys(row.fold for row in rows):
            found += [row for row in rows if row.fold == fold]
    return found


@lru_cache(maxsize=4)
def _unknown_fabrics(timings: tuple[Timing, ...]) -> Residuals:
    """Residuals of every fabric as if nobody had timed it: all its rows are left out. Their folds are the fabrics."""
    ratios: list[float] = []
    rows: list[Timing] = []
    for name, mine in _by_fabric(timings).items():
        for result in predict_held_out(mine, [row for row in timings if row.fabric != name]):
            ratios += [1 / (1 + error) for error in result.errors]
        rows += mine
    columns = zip(*((UNKNOWN, row.fabric, row.fabric, row.nodes) for row in rows), strict=True)
    return Residuals(np.array(ratios), *map(np.array, columns))


def _by_fabric(timings: Iterable[Timing]) -> dict[str, list[Timing]]:
    """The rows between nodes of each fabric that show its latency, source by source."""
    fabrics: dict[str, list[Timing]] = {}
    for rows in by_source(timings).values():
        for row in rows:
            if row.fabric and 1 < row.nodes <= TESTED and np.isfinite(row.size):
                fabrics.setdefault(row.fabric, []).append(row)
    return fabrics


def learn_collective_spreads(timings: Iterable[Timing]) -> dict[str, tuple[float, float]]:
    r"""Learn the 80 % interval of each kind of collective, in multiples of the prediction, from rows nothing has seen.

    Between the ends lie four fifths of the ratios of the kind, of rows on 64 servers at most; a source of n rows has
    the votes of :math:`\sqrt{n}`. Then the ends are moved apart, by one factor of their logarithms, until intervals
    learned without a generation and fabric hold four fifths of what was left out; where fewer than eight of them show a
    kind, the interval reaches as far below as above, since one that is slow says that a further one may be as fast
    (:func:`symmetric_interval`). What a fabric is off that nobody has
    timed, is shown by every fabric when all its rows are left out: the interval is that of one more fabric
    (:func:`symmetric_interval`). Over 64 servers each doubling raises the upper end by what four fifths of the rows
    there need, and more for the few machines that show it.

    Parameters
    ----------
    timings
        Rows of two generations or more.

    Returns
    -------
    dict
        Kind to its low and high ratio; the last are those of each doubling over 64 servers.

    Examples
    --------
    >>> from clusterlab.evidence import published_timings
    >>> low, high = learn_collective_spreads(published_timings())["one node, bandwidth"]
    >>> round(low, 2), round(high, 2)
    (0.9, 1.12)
    """
    timings = tuple(timings)
    known, unknown = collective_residuals(timings), _unknown_fabrics(timings)
    return _learned(known, unknown)


def _learned(known: Residuals, unknown: Residuals) -> dict[str, tuple[float, float]]:
    """The intervals that these rows show."""
    near = known.where(known.nodes <= TESTED)
    found = {kind: _interval(near.where(near.kinds == kind)) for kind in dict.fromkeys(near.kinds.tolist())}
    found[UNKNOWN] = symmetric_interval(unknown.ratios, unknown.folds)
    return found | {GROWTH: (1.0, _growth(known.where(known.nodes > TESTED), found))}


def _interval(rows: Residuals) -> tuple[float, float]:
    """The interval of a kind, wide enough for a generation and fabric that it has not seen."""
    folds = dict.fromkeys(rows.folds.tolist())
    if len(folds) < _SOME:
        return symmetric_interval(rows.ratios, rows.sources)
    stretch = _stretch([(rows.where(rows.folds == fold), rows.where(rows.folds != fold)) for fold in folds])
    low, high = _stretched(quantile_interval(rows.ratios, rows.sources), stretch)
    return float(low), float(high)


_SOME = 8  # of fewer, one that is slow says that a further one may be as fast
_STRETCHES = np.linspace(1, 4, 301)


def _stretch(left_out: list[tuple[Residuals, Residuals]]) -> float:
    """The least factor with which intervals of the others hold four fifths of what was left out."""
    held = np.zeros_like(_STRETCHES)
    for mine, others in left_out:
        low, high = _stretched(quantile_interval(others.ratios, others.sources), _STRETCHES)
        ratios = mine.ratios[:, None]
        held += ((low <= ratios) & (ratios <= high)).sum(axis=0)
    enough = held >= 0.8 * sum(mine.ratios.size for mine, _ in left_out)
    return float(_STRETCHES[np.argmax(enough)]) if enough.any() else float(_STRETCHES[-1])


def _stretched(ends: tuple[float, float], by: Number) -> tuple[Number, Number]:
    """An interval whose ends are so many times as far from its middle."""
    low, high = map(math.log, ends)
    middle, half = (low + high) / 2, (high - low) / 2 * by
    return np.exp(middle - half), np.exp(middle + half)


def _growth(far: Residuals, spreads: dict[str, tuple[float, float]]) -> float:
    """By what each doubling of servers must raise the upper ends, for four fifths of the rows; more where few show it.

    Fabrics are slower at scale, and no faster than their wires. However many rows they have, few sources do not say how
    a further one scatters: Student's factor is by sources.
    """
    high = np.log([spreads[kind][1] for kind in far.kinds.tolist()])
    short = np.maximum(0.0, np.log(far.ratios) - high) / np.log2(far.nodes / TESTED)
    known = _count(far.sources)
    wider = student_quantile(0.9, known) / NormalDist().inv_cdf(0.9)
    return math.exp(weighted_quantile(short, votes(far.sources, 0.5), 0.8) * wider)


@dataclass(frozen=True, repr=False)
class CollectiveCoverage(Explained):
    """How often rows of a kind lie in an interval that was learned from others only, and how wide it is.

    Left out are a generation of GPUs and a fabric, with all that was published of them. ``error`` is the mean absolute
    error of the rows, and ``sources`` how many publish them. ``width`` is the mean of the upper end over the lower one;
    ``constant_width`` is that of the same kind of interval around one share of the busiest wire's rate for all rows of
    the kind.
    """

    kind: str
    rows: int
    sources: int
    error: float
    share: float
    width: float
    constant_width: float


def collective_coverage(timings: Iterable[Timing]) -> list[CollectiveCoverage]:
    """Test the intervals: leave every generation on every fabric out, learn from the others, and count who lies inside.

    Of fabrics that nobody has timed, fabrics are left out instead, each in turn; over 64 servers, sources.

    Parameters
    ----------
    timings
        Rows of two generations or more of a kind.

    Returns
    -------
    list of CollectiveCoverage
        One for each kind; the last is of what runs on more than 64 servers.

    Examples
    --------
    >>> from clusterlab.evidence import published_timings
    >>> [found.kind for found in collective_coverage(published_timings()) if not 0.745 < found.share < 0.855]
    []
    """
    timings = tuple(timings)
    rows = _in_order(timings)
    known, unknown = collective_residuals(timings), _unknown_fabrics(timings)
    fabric_rows = [row for of_fabric in _by_fabric(timings).values() for row in of_fabric]
    constant, fabric_constant = map(_wire_ratios, (rows, fabric_rows))
    near, far = known.nodes <= TESTED, known.nodes > TESTED
    found = []
    for kind in dict.fromkeys(known.kinds[near].tolist()):
        if kind != UNKNOWN:
            mask = near & (known.kinds == kind)
            found.append(_covered(kind, known.where(mask), constant[mask], _interval))
    found.append(_covered(UNKNOWN, unknown, fabric_constant, lambda kept: symmetric_interval(kept.ratios, kept.folds)))
    return [*found, _covered_far(known, unknown, constant[far])]


def _wire_ratios(rows: list[Timing]) -> np.ndarray:
    """Measured over least time on the wires."""
    return np.array([row.seconds / min(max(wires.values()) for wires in algorithms(row)) for row in rows])


def _covered(
    kind: str, rows: Residuals, constant: np.ndarray, learn: Callable[[Residuals], tuple[float, float]]
) -> CollectiveCoverage:
    """Leave every fold out of the rows of a kind."""
    inside, widths, constant_widths = [], [], []
    for fold in dict.fromkeys(rows.folds.tolist()):
        mine, others = rows.where(rows.folds == fold), rows.where(rows.folds != fold)
        low, high = learn(others)
        inside += ((low <= mine.ratios) & (mine.ratios <= high)).tolist()
        widths += [high / low] * mine.ratios.size
        shares = constant[rows.folds != fold]
        low, high = learn(others._replace(ratios=shares / np.median(shares)))
        constant_widths += [high / low] * mine.ratios.size
    means = (float(np.mean(column)) for column in (np.abs(1 / rows.ratios - 1), inside, widths, constant_widths))
    return CollectiveCoverage(kind, len(inside), _count(rows.sources), *means)


def _count(names: np.ndarray) -> int:
    """How many different names there are."""
    return len(set(names.tolist()))


def _covered_far(known: Residuals, unknown: Residuals, constant: np.ndarray) -> CollectiveCoverage:
    """Leave every source out of what runs on many servers."""
    far = known.where(known.nodes > TESTED)
    inside, widths = [], []
    for source in dict.fromkeys(far.sources.tolist()):
        spreads = _learned(known.where(known.sources != source), unknown)
        mine = far.where(far.sources == source)
        for ratio, kind, nodes in zip(mine.ratios, mine.kinds, mine.nodes, strict=True):
            grows = spreads[GROWTH][1] ** math.log2(nodes / TESTED)
            low, high = spreads[kind][0], spreads[kind][1] * grows
            inside.append(low <= ratio <= high)
            widths.append(high / low)
    low, high = symmetric_interval(constant / np.median(constant), far.sources)
    error, share, width = (float(np.mean(column)) for column in (np.abs(1 / far.ratios - 1), inside, widths))
    return CollectiveCoverage(
        f"over {TESTED} servers", len(inside), _count(far.sources), error, share, width, high / low
    )
