"""Intervals of predicted collectives: what sources left out teach of them, and how many rows lie inside."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from ..records import Explained
from .intervals import quantile_interval, symmetric_interval
from .link_plans import algorithms
from .link_prediction import UNKNOWN, predict_held_out
from .timings import Timing, by_source

# --- Intervals of collectives ----------------------------------------------------------------------------------------

_SOURCES = 10  # of fewer, a tenth is less than one, and an interval ends at the outermost rows


class Residuals(NamedTuple):
    """Measured over predicted time of rows whose machines the constants have not seen, with their kinds and sources."""

    ratios: np.ndarray
    kinds: np.ndarray
    sources: np.ndarray


def collective_residuals(timings: Iterable[Timing]) -> Residuals:
    """Leave every source out, with its machines, predict it, and divide: what intervals are learned from.

    Parameters
    ----------
    timings
        Rows of several sources.

    Returns
    -------
    Residuals

    Examples
    --------
    >>> from clusterlab.evidence import published_timings
    >>> found = collective_residuals(published_timings())
    >>> found.ratios.size, bool(0.9 < np.median(found.ratios) < 1.1)
    (364, True)
    """
    return _residuals(tuple(timings))


@lru_cache(maxsize=4)
def _residuals(timings: tuple[Timing, ...]) -> Residuals:
    results = predict_held_out(timings, timings)
    ratios = 1 / (1 + np.concatenate([result.errors for result in results]))
    kinds = np.concatenate([result.kinds for result in results])
    return Residuals(ratios, kinds, np.concatenate([[result.source] * len(result.errors) for result in results]))


@lru_cache(maxsize=4)
def _unknown_fabrics(timings: tuple[Timing, ...]) -> Residuals:
    """Residuals of every fabric as if nobody had timed it: all its rows are left out. Their sources are the fabrics."""
    ratios, fabrics = [], []
    for name, rows in _by_fabric(timings).items():
        for result in predict_held_out(rows, [row for row in timings if row.fabric != name]):
            ratios += [1 / (1 + error) for error in result.errors]
            fabrics += [name] * len(result.errors)
    return Residuals(np.array(ratios), np.full(len(ratios), UNKNOWN), np.array(fabrics))


def _by_fabric(timings: Iterable[Timing]) -> dict[str, list[Timing]]:
    """The rows between nodes of each fabric that show its latency, source by source."""
    fabrics: dict[str, list[Timing]] = {}
    for rows in by_source(timings).values():
        for row in rows:
            if row.fabric and row.nodes > 1 and np.isfinite(row.size):
                fabrics.setdefault(row.fabric, []).append(row)
    return fabrics


def learn_collective_spreads(timings: Iterable[Timing]) -> dict[str, tuple[float, float]]:
    r"""Learn the 80 % interval of each kind of collective, in multiples of the prediction, from rows nothing has seen.

    Between the ends lie four fifths of the ratios of the kind; a source of n rows has the votes of :math:`\sqrt{n}`. Of
    fewer than ten sources a tenth is less than one, so that the interval ends at the outermost rows. What a fabric is
    off that nobody has timed, is shown by every fabric when all its rows are left out: the interval is that of one more
    fabric (:func:`symmetric_interval`).

    Parameters
    ----------
    timings
        Rows of two sources or more.

    Returns
    -------
    dict
        Kind to its low and high ratio.

    Examples
    --------
    >>> from clusterlab.evidence import published_timings
    >>> low, high = learn_collective_spreads(published_timings())["one node, bandwidth"]
    >>> round(low, 2), round(high, 2)
    (0.95, 1.1)
    """
    timings = tuple(timings)
    ratios, kinds, sources = collective_residuals(timings)
    found = {kind: _interval(ratios[kinds == kind], sources[kinds == kind]) for kind in dict.fromkeys(kinds.tolist())}
    if UNKNOWN in found:
        fabrics = _unknown_fabrics(timings)
        found[UNKNOWN] = _interval(fabrics.ratios, fabrics.sources, UNKNOWN)
    return found


def _interval(ratios: np.ndarray, sources: np.ndarray, kind: str = "") -> tuple[float, float]:
    if kind == UNKNOWN:
        return symmetric_interval(ratios, sources)
    if len(set(sources.tolist())) < _SOURCES:
        return float(ratios.min()), float(ratios.max())
    return quantile_interval(ratios, sources)


@dataclass(frozen=True, repr=False)
class CollectiveCoverage(Explained):
    """How often rows of a kind lie in an interval that was learned from other sources only, and how wide it is.

    ``width`` is the mean of the upper end over the lower one; ``constant_width`` is that of the same kind of interval
    around one share of the busiest wire's rate for all rows of the kind.
    """

    kind: str
    rows: int
    sources: int
    share: float
    width: float
    constant_width: float


def collective_coverage(timings: Iterable[Timing]) -> list[CollectiveCoverage]:
    """Test the intervals: leave every source out, learn the interval from the others, and count who lies inside.

    Of fabrics that nobody has timed, fabrics are left out instead, each in turn.

    Parameters
    ----------
    timings
        Rows of two sources or more of a kind.

    Returns
    -------
    list of CollectiveCoverage
        One for each kind.

    Examples
    --------
    >>> from clusterlab.evidence import published_timings
    >>> [found.kind for found in collective_coverage(published_timings()) if not 0.75 < found.share < 0.85]
    []
    """
    timings = tuple(timings)
    rows = [row for of_source in by_source(timings).values() for row in of_source]
    known, unknown = collective_residuals(timings), _unknown_fabrics(timings)
    kept = known.kinds != UNKNOWN
    rows = [row for row, keep in zip(rows, kept, strict=True) if keep]
    rows += [row for of_fabric in _by_fabric(timings).values() for row in of_fabric]
    columns = zip(known, unknown, strict=True)
    ratios, kinds, sources = (np.concatenate([one[kept], other]) for one, other in columns)
    constant = np.array([row.seconds / min(max(wires.values()) for wires in algorithms(row)) for row in rows])
    found = []
    for name in dict.fromkeys(kinds.tolist()):
        of_kind = kinds == name
        inside, widths, constant_widths = [], [], []
        for source in dict.fromkeys(sources[of_kind].tolist()):
            mine, others = of_kind & (sources == source), of_kind & (sources != source)
            low, high = _interval(ratios[others], sources[others], name)
            inside += ((low <= ratios[mine]) & (ratios[mine] <= high)).tolist()
            widths += [high / low] * int(mine.sum())
            low, high = _interval(constant[others] / np.median(constant[others]), sources[others], name)
            constant_widths += [high / low] * int(mine.sum())
        count, means = len(set(sources[of_kind].tolist())), map(float, map(np.mean, (inside, widths, constant_widths)))
        found.append(CollectiveCoverage(name, len(inside), count, *means))
    return found
