"""Robust fits: constants of a model, fitted to measured times by steps of Gauss and Newton on the logarithms.

Many fits are made in one go, one for each source that is left out: the model is asked for all of them at once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

_DAMPING = 0.3
_LONGEST = 0.4  # of a step, as a logarithm


@dataclass(frozen=True)
class Settings:
    """How constants are fitted.

    ``nudge`` is the factor that shows a slope. A row that is ``floor`` off or more counts by its error, not by its
    square; with ``centred`` it is that far from the median row. ``least`` and ``most`` bound the constants. ``tie``
    holds them near where they began.
    """

    nudge: float
    floor: float
    centred: bool = False
    least: float = 0.0
    most: Mapping[str, float] = field(default_factory=dict)
    tie: float = 0.0


def fit_constants(
    start: Mapping[str, np.ndarray],
    misses: Callable[[Mapping[str, np.ndarray]], np.ndarray],
    kept: np.ndarray,
    sources: np.ndarray,
    *,
    rounds: int,
    settings: Settings,
) -> dict[str, np.ndarray]:
    """Fit constants to rows: one fit for each row of ``kept``, which says the rows that it sees.

    Parameters
    ----------
    start
        Of each constant, the value from which each fit begins.
    misses
        Logarithms of predicted over measured time of all rows, for constants whose arrays come first in its shape.
    kept
        Bool: fits by rows.
    sources
        Of each row: every source has one vote, shared by its rows.
    rounds
        Steps.
    settings
        How steps are made and bounded.

    Returns
    -------
    dict
        Of each constant, its value in each fit.
    """
    values = {name: np.array(value) for name, value in start.items()}
    weights = _weights(sources, kept)
    for _ in range(rounds):
        found = misses(_nudged(values, settings.nudge))
        for fold, mask in enumerate(kept):
            rows, slopes = _equations(found[fold][:, mask], weights[fold, mask], settings)
            if settings.tie:
                away = [np.log(start[name][fold] / values[name][fold]) for name in values]
                rows = np.concatenate([rows, settings.tie * np.array(away)])
                slopes = np.vstack([slopes, settings.tie * np.eye(len(values))])
            change = np.linalg.lstsq(slopes, rows, rcond=None)[0]
            for name, by in zip(values, np.clip(change, -_LONGEST, _LONGEST), strict=True):
                most = settings.most.get(name, np.inf)
                values[name][fold] = np.clip(values[name][fold] * np.exp(by), settings.least, most)
    return values


def _weights(sources: np.ndarray, kept: np.ndarray) -> np.ndarray:
    """Of each row in each fit, the root of its vote."""
    found = np.zeros(kept.shape)
    for fold, mask in enumerate(kept):
        sizes = Counter(sources[mask])
        found[fold, mask] = [sizes[source] ** -0.5 for source in sources[mask]]
    return found


def _nudged(values: Mapping[str, np.ndarray], nudge: float) -> dict[str, np.ndarray]:
    """The constants of each fit as they are and, in a further column each, with one of them nudged."""
    found = {name: np.repeat(value[:, None], 1 + len(values), axis=1) for name, value in values.items()}
    for i, column in enumerate(found.values(), 1):
        column[:, i] *= nudge
    return found


def _equations(misses: np.ndarray, weights: np.ndarray, settings: Settings) -> tuple[np.ndarray, np.ndarray]:
    """What a step shall undo, and what each constant does to it: the rows of one fit, and the damping."""
    now = misses[0]
    slopes = (misses[1:] - now).T / np.log(settings.nudge)
    # Rows far off (a machine short of memory, say) count less: least absolute rather than least squares.
    far = np.abs(now - np.median(now)) if settings.centred else np.abs(now)
    robust = weights / np.sqrt(np.maximum(far, settings.floor))
    count = slopes.shape[1]
    return (
        np.concatenate([-now * robust, np.zeros(count)]),
        np.vstack([slopes * robust[:, None], _DAMPING * np.eye(count)]),
    )
