"""Intervals: what ratios of measured to predicted values say of the next one.

A ratio is of a row whose source the constants have not seen. Rows of a source are not independent: what it counts, they
share. So sources vote, and where few have, the interval is wide on purpose.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from statistics import NormalDist

import numpy as np

# --- Intervals -------------------------------------------------------------------------------------------------------

MANY = 30  # rows from which on an interval holds four fifths of them, and its coverage is tested
_TENTH = 0.1  # of rows below an interval, and of rows above it


def votes(sources: np.ndarray, power: float) -> np.ndarray:
    """Weights of rows: a source with n of them has n to the power of 1 less ``power`` votes.

    Examples
    --------
    >>> votes(np.array(["a", "a", "b"]), 1.0).tolist()
    [0.5, 0.5, 1.0]
    """
    _, where, counts = np.unique(sources, return_inverse=True, return_counts=True)
    return counts[where] ** -power


def weighted_quantile(values: np.ndarray, weights: np.ndarray, share: float) -> float:
    """The least of the values at or below which lies a share of the weight.

    Examples
    --------
    >>> weighted_quantile(np.array([1.0, 2.0, 3.0]), np.array([1.0, 1.0, 8.0]), 0.5)
    3.0
    """
    order = np.argsort(values)
    heaped = np.cumsum(weights[order])
    return float(values[order][np.searchsorted(heaped, share * heaped[-1])])


def quantile_interval(ratios: np.ndarray, sources: np.ndarray) -> tuple[float, float]:
    """Ends between which lie four fifths of the ratios, where a source of n rows has the votes of sqrt(n).

    Examples
    --------
    >>> quantile_interval(np.linspace(0.9, 1.1, 21), np.arange(21)) == (0.92, 1.08)
    True
    """
    weights = votes(sources, 0.5)
    low, high = (weighted_quantile(ratios, weights, share) for share in (_TENTH, 1 - _TENTH))
    return low, high


def symmetric_interval(ratios: np.ndarray, sources: np.ndarray) -> tuple[float, float]:
    r"""Ends of the 80 % interval of a source that nobody has fitted, in multiples of the prediction.

    .. math:: e^{\pm q f}, \qquad f = \sqrt{1 + 1/k} \;\text{ or }\; t_{0.9,k} / z_{0.9}

    q is what four fifths of the logarithms do not exceed, either way. A further source lies outside the k known ones as
    their mean does inside: that is f. With fewer than ``MANY`` rows it is Student's.

    Parameters
    ----------
    ratios
        Measured over predicted times.
    sources
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
    >>> [round(end, 2) for end in symmetric_interval(np.array([0.95, 1.0, 1.05]), np.array(["a", "b", "c"]))]
    [0.94, 1.07]
    """
    known, off = len(set(sources.tolist())), np.abs(np.log(ratios))
    wider = math.sqrt(1 + 1 / known) if off.size >= MANY else student_quantile(0.9, known) / NormalDist().inv_cdf(0.9)
    half = weighted_quantile(off, votes(sources, 0.5), 0.8) * wider
    return math.exp(-half), math.exp(half)


def further_source_interval(
    ratios: Sequence[float] | np.ndarray, sources: Sequence[str] | np.ndarray
) -> tuple[float, float]:
    """Ends of the 80 % interval of a further source's ratio.

    From ``MANY`` rows on, what holds four fifths of them, as for training. With fewer, Student's t interval of a
    further source's logarithm, each source being the mean of its own: the wider the fewer.

    Raises
    ------
    ValueError
        The rows are of one source.

    Examples
    --------
    Three sources that agree within 10 % say less of a fourth than they seem to:

    >>> [round(end, 2) for end in further_source_interval([0.95, 1.0, 1.05], ["a", "b", "c"])]
    [0.9, 1.11]
    """
    logs, names = np.log(ratios), np.asarray(sources)
    if len(logs) >= MANY:
        return quantile_interval(np.exp(logs), names)
    means = np.array([logs[names == name].mean() for name in dict.fromkeys(names.tolist())])
    if means.size < 2:
        raise ValueError(f"sources must be at least two, got {means.size}")
    half = student_quantile(0.9, means.size - 1) * means.std(ddof=1) * math.sqrt(1 + 1 / means.size)
    return math.exp(means.mean() - half), math.exp(means.mean() + half)


@cache
def student_quantile(share: float, freedom: int) -> float:
    """Quantile of Student's t distribution, for a share above a half, by halving.

    Parameters
    ----------
    share
        Of the distribution that lies below.
    freedom
        Degrees of freedom.

    Notes
    -----
    Source: Abramowitz and Stegun 1964, 26.7.3 and 26.7.4, which with t = sqrt(freedom) tan(angle) are sums of
    powers of a cosine.

    Examples
    --------
    >>> round(student_quantile(0.9, 4), 3), round(student_quantile(0.9, 1), 3)
    (1.533, 3.078)
    """

    def within(angle: float) -> float:
        """The share that is nearer to zero than sqrt(freedom) tan(angle)."""
        odd, cosine, total = freedom % 2, math.cos(angle), 0.0
        term = cosine if odd else 1.0
        for power in range(odd, freedom - 1, 2):
            total += term
            term *= (power + 1) / (power + 2) * cosine**2
        total *= math.sin(angle)
        return 2 / math.pi * (angle + total) if odd else total

    low, high = 0.0, math.pi / 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if within(middle) < 2 * share - 1 else (low, middle)
    return math.sqrt(freedom) * math.tan(low)
