"""Lengths of answers: lognormal, cut at a limit, and how long the longest of many is."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import numpy as np

from ..checks import nonnegative, positive
from ..quantities import Amount, Count, Number, PositiveShareBelowOne, Share, law
from ..records import Explained, Rows, summary
from ..serving import Requests

_ENDS, _STEPS = 9.0, 8001  # standard deviations on each side, and how finely they are cut


@cache
def _normal() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Values of a standard normal variable, their weights, and the logarithms of the shares below and above each."""
    z = np.linspace(-_ENDS, _ENDS, _STEPS)
    weights = np.exp(-(z**2) / 2)
    below = np.array([math.erfc(-one / math.sqrt(2)) / 2 for one in z])
    return z, weights / weights.sum(), np.log(below), np.log(below[::-1])


@law
def expected_longest(
    mean: Number,
    spread: Amount,
    *,
    samples: Count,
    kept: PositiveShareBelowOne | None = None,
    limit: Number | None = None,
) -> Number:
    r"""Tokens of the longest of n answers of lognormal length, expected; or of the last that is waited for.

    .. math:: \mathrm{E}\big[X_{(r)}\big] = \int \min\!\big(m\,e^{\sigma z - \sigma^2/2},\, L\big)\; w_r(z)\,dz,
        \qquad w_r \propto \Phi^{r-1} (1 - \Phi)^{n-r}\, e^{-z^2/2}

    With all of them waited for, r is n. For many answers it is about
    :math:`m\,e^{\sigma \sqrt{2 \ln n} - \sigma^2/2}`, from above.

    Parameters
    ----------
    mean
        Tokens of a mean answer before any is cut, m.
    spread
        Standard deviation of the logarithms of lengths, sigma: 0 where all are alike.
    samples
        Answers that are begun, n.
    kept : optional
        Share of them that is waited for, r/n; the others are given up. By default all.
    limit : optional
        Tokens at which an answer is cut, L. By default none is.

    Returns
    -------
    Number
        Tokens, and so passes: a sequence gains one in each.

    Notes
    -----
    Source: order statistics (David and Nagaraja 2003, section 2.1). Derived for lognormal lengths; a mean over draws is
    its witness. Between whole answers r/n is taken as it is.

    Examples
    --------
    Of 1,024 answers the longest is ten times the mean; the last of the first nine tenths is twice it.

    >>> all_of, most = (expected_longest(1000, 0.8, samples=1024, kept=kept) for kept in (None, 0.9))
    >>> round(float(all_of)), round(float(most))
    (10188, 2021)
    """
    z, weights, below, above = _normal()
    m, sigma, n = (np.asarray(one)[..., None] for one in (mean, spread, samples))
    r = n if kept is None else np.maximum(np.asarray(kept)[..., None] * n, 1.0)
    density = np.log(weights) + (r - 1) * below + (n - r) * above
    density = np.exp(density - density.max(axis=-1, keepdims=True))
    tokens = m * np.exp(sigma * z - sigma**2 / 2)
    if limit is not None:
        tokens = np.minimum(tokens, np.asarray(limit)[..., None])
    return ((density * tokens).sum(axis=-1) / density.sum(axis=-1))[()]


@dataclass(frozen=True, repr=False)
class Lengths(Explained):
    """Tokens of answers: lognormal, and cut at a limit.

    ``mean`` is that of answers before any is cut, ``spread`` the standard deviation of their logarithms, ``limit`` the
    tokens at which an answer is cut (None: none is).

    Examples
    --------
    >>> Lengths(1000, 0.8, limit=4096)
    Lengths
             value
    mean     1,000
    spread     0.8
    limit    4,100
    written    976
    cut      1.53%
    """

    mean: Number
    spread: Amount = 0.8
    limit: Number | None = None

    def __post_init__(self) -> None:
        """Refuse what are no lengths."""
        object.__setattr__(self, "mean", positive(mean=self.mean)[0])
        object.__setattr__(self, "spread", nonnegative(spread=self.spread)[0])
        if self.limit is not None:
            object.__setattr__(self, "limit", positive(limit=self.limit)[0])

    @classmethod
    def of_written(cls, written: Number, *, limit: Number, spread: Amount = 0.8) -> Lengths:
        """Return lengths of which so many tokens are written on average, after the limit has cut.

        Examples
        --------
        >>> found = Lengths.of_written(3154, limit=4096)
        >>> round(float(found.written)), round(float(found.cut), 2)
        (3154, 0.46)
        """
        if np.any(np.greater_equal(written, limit)):
            raise ValueError(f"written must be below limit, got {np.max(written):g} of {np.min(limit):g}")
        low, high = written, 1e6 * limit
        for _ in range(60):
            middle = np.sqrt(low * high)
            low, high = (middle, high) if cls(middle, spread, limit).written < written else (low, middle)
        return cls(float(np.sqrt(low * high)), spread, limit)

    @property
    def written(self) -> Number:
        """Tokens that are written of a mean answer."""
        return written_moments(self.mean, self.spread, self.limit)[0]

    @property
    def squared(self) -> Number:
        """The mean square of written tokens: what reading caches grows with."""
        return written_moments(self.mean, self.spread, self.limit)[1]

    @property
    def cut(self) -> Share:
        """Share of answers that the limit cuts."""
        if self.limit is None:
            return 0.0
        z, weights, _, _ = _normal()
        return float((self.mean * np.exp(self.spread * z - self.spread**2 / 2) > self.limit) @ weights)

    def requests(self, prompt: Number = 1) -> Requests:
        """Return what a replica's places hold: answers of this spread, to prompts that are in their caches.

        Examples
        --------
        A place is met half-way through an answer that is no mean one: long ones hold it for longer.

        >>> alike, spread = (Lengths(4000, s, limit=16384).requests(100) for s in (0, 0.8))
        >>> round(float(alike.mean_context)), round(float(spread.mean_context))
        (2100, 3397)
        """
        written = max(float(self.written), 1.0)
        spread = math.sqrt(max(float(self.squared) / written**2 - 1, 0.0))
        return Requests(prompt, written, cached=1.0, output_spread=spread)

    def packed(self, prompt: Amount = 0) -> int:
        """Tokens of sequences all alike that attend as much as answers with their prompts, each to itself alone.

        The mean square over the mean, up to the next 256, so that a cut divides it.
        """
        squared = prompt**2 + 2 * prompt * self.written + self.squared
        return 256 * math.ceil(squared / (prompt + self.written) / 256)

    def longest(self, samples: Count, kept: Share = 1.0) -> Number:
        """Tokens of the longest of so many answers, or of the last of the share that is waited for."""
        share = None if kept == 1 else kept
        return float(expected_longest(self.mean, self.spread, samples=samples, kept=share, limit=self.limit))

    def typical(self, samples: int) -> np.ndarray:
        """Tokens of so many answers as their distribution has them, in an order in which any part is typical."""
        z, _, below, _ = _normal()
        places = (np.arange(samples) * 0.6180339887498949 + 0.5 / samples) % 1  # golden steps fill evenly
        ranks = (np.argsort(np.argsort(places)) + 0.5) / samples
        values = np.interp(ranks, np.exp(below), z)
        found = np.maximum(np.round(self.mean * np.exp(self.spread * values - self.spread**2 / 2)), 1.0)
        return found if self.limit is None else np.minimum(found, self.limit)

    def draw(self, samples: int, random: np.random.Generator) -> np.ndarray:
        """Tokens of so many answers, drawn."""
        drawn = self.mean * np.exp(self.spread * random.standard_normal(samples) - self.spread**2 / 2)
        drawn = np.maximum(np.round(drawn), 1.0)
        return drawn if self.limit is None else np.minimum(drawn, self.limit)

    def _rows(self) -> Rows:
        rows = [("", "value"), ("mean", summary(self.mean)), ("spread", summary(self.spread))]
        if self.limit is not None:
            rows += [
                ("limit", summary(self.limit)),
                ("written", summary(self.written)),
                ("cut", summary(self.cut, "%")),
            ]
        return rows


def written_moments(mean: Number, spread: Amount, limit: Number | None) -> tuple[Number, Number]:
    """Mean and mean square of written tokens; they broadcast."""
    z, weights, _, _ = _normal()
    m, sigma = (np.asarray(one)[..., None] for one in (mean, spread))
    tokens = m * np.exp(sigma * z - sigma**2 / 2)
    if limit is not None:
        tokens = np.minimum(tokens, np.asarray(limit)[..., None])
    return (tokens * weights).sum(axis=-1)[()], (tokens**2 * weights).sum(axis=-1)[()]
