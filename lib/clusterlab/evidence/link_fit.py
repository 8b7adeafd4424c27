"""The fit of links: alpha and beta of a real fabric, of the timed collectives of one source."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ..interconnect import pipelined_time
from ..records import Explained, Rows, say
from ..units import fmt
from .link_plans import algorithms, ring_of
from .timings import Timing

# --- Links of one source ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class LinkFit(Explained):
    """What was fitted to, or predicted for, the rows of one source, and the error that is left.

    ``alpha`` (seconds a step) and ``bandwidth`` (bytes/s of a long message, as a bus bandwidth) are those that a ring
    would have, whatever the operation. ``wire_fraction`` is the share of the busiest wire's rate; a fit finds more than
    1 where the rows move more than the wires that they name. None: the rows do not tell. ``pipelined`` says which form
    the law has. Errors are relative; ``qualities`` are those of the rows. ``low`` and ``high``, of a prediction, are
    the ends of the 80 % interval of each time, in seconds, and ``kinds`` what they are learned by; ``bandwidth_low``
    and ``bandwidth_high`` are those of the bandwidth. Of a fit, those of alpha and bandwidth say how far its rows leave
    them open: eight of ten fits to rows that are drawn from them lie between.
    """

    source: str
    alpha: float | None
    bandwidth: float
    wire_fraction: float | None
    pipelined: bool
    times: tuple[float, ...]
    errors: tuple[float, ...]
    qualities: tuple[str, ...]
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()
    kinds: tuple[str, ...] = ()
    bandwidth_low: float = math.nan
    bandwidth_high: float = math.nan
    alpha_low: float = math.nan
    alpha_high: float = math.nan

    @property
    def mean_abs_error(self) -> float:
        """Mean of the absolute relative errors."""
        return float(np.mean(np.abs(self.errors)))

    @property
    def inside(self) -> np.ndarray:
        """Whether the measured time of each row lies in its interval."""
        measured = np.array(self.times) / (1 + np.array(self.errors))
        return (np.array(self.low) <= measured) & (measured <= np.array(self.high))

    @property
    def coverage(self) -> float | None:
        """Share of the rows whose measured time lies in its interval; None for a fit, which has none."""
        return float(np.mean(self.inside)) if self.low else None

    def _rows(self) -> Rows:
        covered = self.coverage
        return [
            (self.source, "value"),
            ("rows", str(len(self.errors))),
            ("alpha", "-" if self.alpha is None else say(self, "alpha", "s")),
            ("bandwidth", say(self, "bandwidth", "B/s")),
            ("wire fraction", "-" if self.wire_fraction is None else fmt(self.wire_fraction, "%")),
            ("mean absolute error", fmt(self.mean_abs_error, "%")),
            *([] if covered is None else [("within the interval", fmt(covered, "%"))]),
        ]


def fit_links(timings: Iterable[Timing], *, pipelined: bool | None = None) -> LinkFit:
    r"""Alpha and the share of the wires' rate that leave the least mean absolute error on the rows of one source.

    Parameters
    ----------
    timings
        Rows of one source. If one of them names no wire, the share stays unknown and only the bandwidth is fitted. If
        they are of several operations, alpha and bandwidth are those of a ring that does them all.
    pipelined
        Whether the law has the root: see the notes. By default it is the form that fits better.

    Returns
    -------
    LinkFit
        ``alpha`` is None, and taken as zero, where all rows are of one size or plateaus, or show no latency.

    Raises
    ------
    ValueError
        There is no row, or there are several sources.

    Notes
    -----
    A row is one timed collective. Its bytes cross wires whose rates a datasheet gives, so it has a least time, w. A
    system is fitted by two constants, the latency alpha of one step of the ring and the share f of the wires' rate that
    it gets:

    .. math:: T = L + X \quad\text{or}\quad T = L + X + \sqrt{L X}, \qquad L = \rho\,\alpha, \quad X = w / f,

    with rho the steps of the ring. The second form is :func:`~clusterlab.interconnect.pipelined_time`; the one that
    fits better is taken. Of all curves through two of the rows, the fit is the one with the least mean absolute
    relative error.

    Examples
    --------
    >>> from clusterlab.evidence import published_timings
    >>> rows = [row for row in published_timings() if row.source == "h200_8x_nvlink4"]
    >>> fit_links(rows)
    LinkFit
    h200_8x_nvlink4                       value
    rows                                     20
    alpha                2.34 µs (2.28 to 2.55)
    bandwidth             511 GB/s (496 to 523)
    wire fraction                           86%
    mean absolute error                   3.77%
    """
    rows = one_source(timings)
    times, sizes = (np.array([getattr(row, name) for row in rows]) for name in ("seconds", "size"))
    steps, ring_bytes = np.array([ring_of(row) for row in rows]).T
    wired = all(row.scale_up or row.nodes > 1 for row in rows)
    # At the rates of the datasheet; a prediction weighs algorithms by fitted efficiencies, and may take another.
    wire = np.array([min(max(wires.values()) for wires in algorithms(row)) for row in rows]) if wired else ring_bytes
    known = len(set(sizes[np.isfinite(sizes)])) > 1
    steps = steps * (np.isfinite(sizes) & known)
    forms = (False, True) if pipelined is None else (pipelined,)
    curves = [_best_curve(steps, wire, times, pipelined=form, wired=wired) for form in forms]
    curve = min(curves, key=lambda curve: round(curve.error, 9))  # a tie goes to the simpler form
    alpha, share = curve.alpha, curve.share
    latency, transfer = steps * alpha, wire / share
    predicted = pipelined_time(latency, transfer) if curve.pipelined else latency + transfer
    ring_share = float(np.median(ring_bytes / wire))
    alpha_ends, share_ends = curve.ends
    if not alpha:
        alpha_ends = math.nan, math.nan
    return LinkFit(
        bandwidth_low=share_ends[0] * ring_share,
        bandwidth_high=share_ends[1] * ring_share,
        alpha_low=alpha_ends[0],
        alpha_high=alpha_ends[1],
        source=rows[0].source,
        alpha=alpha or None,
        bandwidth=float(np.median(share * ring_bytes / wire)),
        wire_fraction=share if wired else None,
        pipelined=curve.pipelined,
        times=tuple(predicted.tolist()),
        errors=tuple((predicted / times - 1).tolist()),
        qualities=tuple(row.quality for row in rows),
    )


def one_source(timings: Iterable[Timing]) -> list[Timing]:
    """The rows, or a ValueError where they are of several sources or of none."""
    rows = list(timings)
    sources = dict.fromkeys(row.source for row in rows)
    if len(sources) != 1:
        raise ValueError(f"timings must be rows of one source, got {len(sources)}: {', '.join(sources) or 'no rows'}")
    return rows


# --- Curves through one row or two -----------------------------------------------------------------------------------

_ENDS = 150  # rows that a curve may go through: of 2,000 rows, 150 give nearly the least error, in a second
_JUDGES = 5000  # rows that choose between the curves, so that a file of any length is fitted in seconds
_UNSEEN = 0.01  # where the wires are not known either, the transfer is taken as this part of the fastest row


class _Curve(NamedTuple):
    """A fitted curve: its mean absolute relative error, alpha, the share of the wires' rate, and its form."""

    error: float
    alpha: float
    share: float
    pipelined: bool
    ends: tuple[tuple[float, float], tuple[float, float]] = ((math.nan, math.nan), (math.nan, math.nan))


class _Rows(NamedTuple):
    """Of each row: steps s, seconds at full rate w, their geometric mean x, and measured seconds t."""

    s: np.ndarray
    w: np.ndarray
    x: np.ndarray
    t: np.ndarray

    def spread(self, most: int) -> np.ndarray:
        """Places of so many rows at most, as far apart as they go, from the shortest transfer to the longest."""
        order = np.lexsort((self.t, self.w))
        return order[np.unique(np.linspace(0, len(order) - 1, min(len(order), most)).round().astype(int))]

    def at(self, places: np.ndarray) -> _Rows:
        """The rows at these places."""
        return _Rows(*(column[places] for column in self))


_Curves = tuple[np.ndarray, np.ndarray]  # their alphas and slopes, which are seconds for each second at full rate


def _best_curve(steps: np.ndarray, wire: np.ndarray, times: np.ndarray, *, pipelined: bool, wired: bool) -> _Curve:
    """Of the curves t = alpha s + root sqrt(alpha slope) x + slope w through a row or two, the one of least error.

    ``root`` is 1 for the pipelined form and 0 for the other. A slope is 1 over the share of the wires' rate.
    """
    rows, root = _Rows(steps, wire, np.sqrt(steps * wire), times), 1.0 * pipelined
    ends = rows.at(rows.spread(_ENDS))
    no_latency = np.zeros_like(ends.t), ends.t / ends.w
    curves = [no_latency, *_through_pairs(ends, root), _through_each(ends, root, wired=wired)]
    alpha, slope = (np.concatenate(column) for column in zip(*curves, strict=True))
    between, judges = root * np.sqrt(alpha * slope), rows.at(np.sort(rows.spread(_JUDGES)))
    errors = np.zeros(len(alpha))
    for s, w, x, t in zip(*judges, strict=True):  # one row at a time: 150 ends make 10,000 curves
        errors += np.abs((s * alpha + w * slope + x * between) / t - 1) / len(judges.t)
    k = int(np.argmin(errors))
    open_to = _ends_of(rows.at(rows.spread(_ENDS)), alpha, slope, errors, root)
    return _Curve(float(errors[k]), float(alpha[k]), float(1 / slope[k]), pipelined, open_to)


_DRAWS, _NEAR, _FEWEST = 400, 2000, 4  # draws of the rows, curves that may fit a draw best, and rows that say anything


def _ends_of(
    rows: _Rows, alpha: np.ndarray, slope: np.ndarray, errors: np.ndarray, root: float
) -> tuple[tuple[float, float], tuple[float, float]]:
    """Between which alpha and share of the rate eight of ten draws of the rows, with replacement, have their best."""
    count = len(rows.t)
    if count < _FEWEST:
        return (math.nan, math.nan), (math.nan, math.nan)
    near = np.argsort(errors, kind="stable")[:_NEAR]
    a, b = alpha[near, None], slope[near, None]
    off = np.abs((rows.s * a + rows.w * b + rows.x * root * np.sqrt(a * b)) / rows.t - 1)
    weights = np.random.default_rng(0).multinomial(count, np.full(count, 1 / count), _DRAWS)
    best = near[np.argmin(weights @ off.T, axis=1)]
    low, high = np.quantile([alpha[best], 1 / slope[best]], (0.1, 0.9), axis=1)
    return (float(low[0]), float(high[0])), (float(low[1]), float(high[1]))


def _through_pairs(rows: _Rows, root: float) -> Iterator[_Curves]:
    """Yield the curves through each row and every other, whose r, the root of slope / alpha, solves a quadratic."""
    s, w, x, t = rows
    for i in range(len(t)):
        with np.errstate(all="ignore"):
            a = t * w[i] - t[i] * w
            b = root * (t * x[i] - t[i] * x)
            c = t * s[i] - t[i] * s
            ratio = (np.sqrt(b**2 - 4 * a * c) - b) / (2 * a)  # the other root belongs to the rows in other order
            alpha = t[i] / (s[i] + root * x[i] * ratio + w[i] * ratio**2)
            slope = alpha * ratio**2
        sound = np.isfinite(slope) & (ratio > 0) & (alpha > 0)
        yield alpha[sound], slope[sound]


def _through_each(rows: _Rows, root: float, *, wired: bool) -> _Curves:
    """The curves through one row, where latency is all there is to see: the rate is that of the wires."""
    s, w, x, t = rows
    slope = 1.0 if wired and np.all(t > w) else _UNSEEN * np.min(t / w)
    rest = np.sqrt((root * x) ** 2 * slope + 4 * s * (t - w * slope)) - root * x * np.sqrt(slope)
    stepped = s > 0
    return (rest[stepped] / s[stepped] / 2) ** 2, np.full(int(np.sum(stepped)), slope)
