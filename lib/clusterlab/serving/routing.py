"""Routing: how full the fullest rank of experts is, and how copies of the hottest experts even it out."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from statistics import NormalDist

import numpy as np

from ..checks import larger, nonnegative, whole
from ..quantities import Amount, Count, Multiple, Number, law

_QUANTILE = np.vectorize(NormalDist().inv_cdf, otypes=[float])


@law
def fullest_rank(
    tokens: Number, *, experts: Count, experts_per_token: Count, ranks: Count, skew: Amount = 0, redundant: Amount = 0
) -> Multiple:
    r"""Tokens of the fullest of the ranks that share the experts, over the mean: all wait for it.

    .. math:: \left(1 - \tfrac{v^2}{9} + \tfrac{v}{3}\, z_n\right)^3, \qquad
        v^2 = \frac{n - 1}{n - 1/E}\,\frac{c^2}{s} + \frac{(n - 1)(E - k)}{T k (E - 1)}

    v is the standard deviation of a rank's load over its mean: the first part from experts that are not equally
    popular, with s = (E + R)/n experts on a rank, the second from chance, which vanishes in large batches.
    :math:`z_n = \Phi^{-1}\big((n - 0.375)/(n + 0.25)\big)` is where the largest of n normal numbers is expected.

    Parameters
    ----------
    tokens
        Tokens routed together, T.
    experts, experts_per_token, ranks
        Experts E of the layer, those each token selects, k, and the ranks n that share them.
    skew
        Standard deviation of the popularity of an expert over its mean, c. Copies in the right places make it smaller;
        :func:`balanced_loads` says by how much.
    redundant
        Copies of experts besides the first, R.

    Returns
    -------
    Multiple
        At least 1; exactly 1 for one rank.

    Raises
    ------
    ValueError
        A token selects more experts than there are.

    Notes
    -----
    Derived: the variance of a sum of draws without replacement; Blom 1958 for the place of the largest, and Wilson and
    Hilferty 1931 for a load that is skewed to the right (of a gamma distribution).

    Examples
    --------
    64 GPUs, 128 tokens on each, all experts alike; then with a skew of one half:

    >>> load = {"experts": 256, "experts_per_token": 8, "ranks": 64}
    >>> [round(float(fullest_rank(64 * 128, **load, skew=c)), 2) for c in (0, 0.5)]
    [1.07, 1.68]
    """
    if np.any(experts_per_token > experts):
        got = f"{np.max(experts_per_token):g} of {np.min(experts):g}"
        raise ValueError(f"experts_per_token must be at most experts, got {got}")
    n = ranks
    sizes, where = np.unique(np.asarray(n), return_inverse=True)
    z = _QUANTILE((sizes - 0.375) / (sizes + 0.25))[where].reshape(np.shape(n))[()]
    popular = skew**2 * n / (experts + redundant) * (n - 1) / (n - 1 / experts)
    chance = (n - 1) * (experts - experts_per_token) / (tokens * experts_per_token * larger(experts - 1.0, 1.0))
    v = np.sqrt(popular + chance)
    return larger((1 - v**2 / 9 + v * z / 3) ** 3, 1.0)


def balanced_loads(loads: Sequence[float] | np.ndarray, ranks: int, *, redundant: int = 0) -> np.ndarray:
    """Load of each rank after the hottest experts are copied and all copies are dealt out evenly.

    Copies are given one at a time to the expert whose copies carry most; then the heaviest copy left goes to the
    lightest rank that has room. Every rank holds as many copies.

    Parameters
    ----------
    loads
        Tokens of each expert, one dimension.
    ranks : int
        Ranks that share the experts.
    redundant : int
        Copies besides the first of each expert.

    Returns
    -------
    numpy.ndarray
        Tokens of each rank.

    Raises
    ------
    ValueError
        The ranks do not divide the copies.

    Notes
    -----
    Source: DeepSeek's EPLB (its global policy): replicate the heaviest, pack greedily into equal numbers.

    Examples
    --------
    One expert of four is asked by half of the tokens. Without copies its rank has 60; with two it is 46.7.

    >>> balanced_loads([50, 20, 10, 10], 2), balanced_loads([50, 20, 10, 10], 2, redundant=2).round(1)
    (array([60., 30.]), array([46.7, 43.3]))
    """
    (load,) = nonnegative(loads=loads)
    if np.ndim(load) != 1:
        raise ValueError(f"loads must have one dimension, got shape {np.shape(load)}")
    (n,), (extra,) = whole(ranks=ranks), nonnegative(redundant=redundant)
    n, extra = int(n), int(extra)
    slots = len(load) + extra
    if slots % n:
        raise ValueError(f"ranks must divide experts and copies, got {n} and {slots}")
    copies = np.ones(len(load))
    for _ in range(extra):
        copies[np.argmax(load / copies)] += 1
    each = np.sort(np.repeat(load / copies, copies.astype(int)))[::-1]
    out, with_room = np.zeros(n), [(0.0, rank, slots // n) for rank in range(n)]  # a heap: the lightest is first
    for weight in each.tolist():
        carried, rank, room = heapq.heappop(with_room)
        out[rank] = carried = carried + weight
        if room > 1:
            heapq.heappush(with_room, (carried, rank, room - 1))
    return out
