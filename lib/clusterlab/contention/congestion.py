"""Congestion: what the fluid picture leaves to the switches, as bounds and balances, plainly simplified."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from ..checks import smaller
from ..quantities import (
    Arrivals,
    Bytes,
    BytesPerSecond,
    Count,
    Multiple,
    PositiveBytes,
    PositiveSeconds,
    PositiveShare,
    Seconds,
    Share,
    law,
)
from ..records import Explained, Rows, summary
from .fabric import NONE
from .sharing import Floats, Routes, max_min_rates


@law
def buffer_time(buffer: Bytes, senders: Count, *, bandwidth: BytesPerSecond) -> Seconds:
    r"""How long a buffer lasts when several senders at full rate meet on one link: an incast.

    .. math:: t = \frac{B}{(n - 1)\,\beta}, \qquad n > 1

    Parameters
    ----------
    buffer
        Bytes that the switch holds for this link, B.
    senders
        n, each with a port of the link's rate.
    bandwidth
        Rate of the link, and of a sender's port, bytes/s one way.

    Returns
    -------
    Seconds
        After that the switch must stop the senders or drop. Infinite for one sender.

    Notes
    -----
    Derived: n come in, and one goes out.

    Examples
    --------
    >>> float(buffer_time(16e6, 9, bandwidth=50e9).round(8))
    4e-05
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.divide(buffer, (senders - 1) * bandwidth)


@dataclass(frozen=True, repr=False)
class EcnBalance(Explained):
    """Where marks and growth balance: rate of a flow, share of its intervals with a mark, and the queue that stands."""

    rate: BytesPerSecond
    marked: Share
    queue: Bytes

    def _rows(self) -> Rows:
        units = {"rate": "B/s", "marked": "%", "queue": "B"}
        return [("", "value"), *((name, summary(getattr(self, name), unit)) for name, unit in units.items())]


@law
def ecn_balance(
    flows: Count,
    *,
    bandwidth: BytesPerSecond,
    increase: BytesPerSecond,
    interval: PositiveSeconds,
    packet: PositiveBytes,
    low: Bytes,
    high: PositiveBytes,
    most: PositiveShare,
) -> EcnBalance:
    r"""Balance of flows that marks hold back on one link, as in DCQCN: a simplification of it.

    In every interval a flow grows by a step. If a packet of it was marked, it is cut by half of the share of intervals
    in which that happens. Where both cancel,

    .. math:: R = \frac{\beta}{n}, \qquad P = \sqrt{2 \Delta / R}, \qquad
        q = q_0 + (q_1 - q_0)\,\frac{p}{p_1}, \quad p = 1 - (1 - P)^{s / (R \tau)}

    Parameters
    ----------
    flows
        n, on one link.
    bandwidth
        Rate of the link, bytes/s.
    increase, interval
        Step of the rate, bytes/s, and the seconds between two of them and between two cuts.
    packet
        Bytes of a packet, s.
    low, high, most
        Queue at which a switch begins to mark packets, and at which it marks the share ``most`` of them, and from there
        on all: Kmin, Kmax and Pmax.

    Returns
    -------
    EcnBalance
        ``queue`` is at most ``high``; there marks no longer suffice and the link's senders are paused. The rate is the
        max-min one: that is what justifies the fluid. What it costs is the queue.

    Notes
    -----
    Derived: growth and cuts set equal, as Zhu et al. 2016 do for the whole protocol. DCQCN also recovers fast after a
    cut, grows by bytes as well as by time, and may swing around its balance for ever; here it does not.

    Examples
    --------
    >>> parts = {"increase": 5e6, "interval": 50e-6, "packet": 1e3, "low": 5e3, "high": 200e3, "most": 0.01}
    >>> ecn_balance([2, 16], bandwidth=5e9, **parts).queue.round(-2)
    array([ 15200., 200000.])
    """
    rate = bandwidth / flows
    marked = smaller((2 * increase / rate) ** 0.5, 1.0)
    with np.errstate(divide="ignore"):
        each = 1 - np.exp(np.log1p(-marked) * packet / (rate * interval))
    queue = low + (high - low) * smaller(each / most, 1.0)
    return EcnBalance(rate, marked, queue)


def blocked_rates(capacity: ArrayLike, routes: Routes) -> Floats:
    r"""Rates where full links pause those before them, and a paused link stops for all of its flows: a lower bound.

    A link that is paused (PFC) stops also for flows that go elsewhere: head-of-line blocking. In the worst case
    a flow gets no more than the slowest that it meets on a link before that one's bottleneck, and slows others in turn.

    .. math:: y_f = \min\left(x_f,\; \min_{l \in f}\; \min_{g:\, l \text{ before } b(g)} y_g\right)

    Parameters
    ----------
    capacity
        Rate of each link, bytes/s.
    routes
        Ways of the flows in the order in which they are crossed, whole (without ``share``).

    Returns
    -------
    array
        Bytes/s of each flow, at most those of :func:`max_min_rates`: the truth is between the two.

    Raises
    ------
    ValueError
        As for :func:`max_min_rates`, or flows are split.

    Notes
    -----
    Derived: a bound. It takes buffers that are full, no congestion control, and senders that never end.

    Examples
    --------
    Three flows into host link 3, of which one shares link 0 with a fourth that goes to an idle host by link 4:

    >>> routes = Routes(np.array([[0, 3], [1, 3], [2, 3], [0, 4]]))
    >>> max_min_rates(np.full(5, 12), routes).tolist(), blocked_rates(np.full(5, 12), routes).tolist()
    ([4.0, 4.0, 4.0, 8.0], [4.0, 4.0, 4.0, 4.0])
    """
    if routes.share is not None:
        raise ValueError("routes must be whole, got flows that are split")
    rate, shape = max_min_rates(capacity, routes), routes.shape
    room = np.asarray(capacity, float)
    flows, many = shape[-1], int(np.prod(shape[:-1], dtype=int))
    links = routes.links.reshape(many * flows, -1)
    own = np.repeat(np.arange(many) * len(room), flows)[:, None]
    links = np.where(links == NONE, many * len(room), links + own)
    y = rate.ravel().copy()
    load = np.bincount(links.ravel(), np.repeat(y, links.shape[1]), minlength=many * len(room) + 1)
    full = load >= np.append(np.tile(room, many), np.inf) * (1 - 1e-9)
    place = np.arange(links.shape[1])
    fair = np.full(len(load), -np.inf)
    np.maximum.at(fair, links.ravel(), np.repeat(y, links.shape[1]))
    tight = full[links] & (y[:, None] >= fair[links] * (1 - 1e-9))
    bottleneck = np.where(tight, place, -1).max(axis=1)  # the last of them: what is before it may be paused
    while True:
        slow = np.full(len(load), np.inf)
        before = place < bottleneck[:, None]
        np.minimum.at(slow, links[before], np.repeat(y, before.sum(axis=1)))
        slow[-1] = np.inf
        worst = slow[links]
        least = worst.min(axis=1)
        lower = least < y * (1 - 1e-12)
        if not lower.any():
            return y.reshape(shape)
        y = np.where(lower, least, y)
        bottleneck = np.where(lower, np.where(worst <= least[:, None], place, -1).max(axis=1), bottleneck)


@law
def flapping_slowdown(flaps: Arrivals, *, outage: Seconds, stall: Seconds, slowdown: Multiple) -> Multiple:
    r"""Slowdown of a job that waits for its slowest flow, where one of its links goes down now and then and comes back.

    .. math:: 1 + \lambda\,\big( s + d\,(1 - 1/\sigma) \big)

    Parameters
    ----------
    flaps
        Flaps per second of useful time, lambda.
    outage
        Seconds until the link is back, d.
    stall
        Seconds until the flows of the dead link are sent another way, s: all wait for them.
    slowdown
        How many times as long a step takes without the link, sigma.

    Returns
    -------
    Multiple
        Time over the time without flaps.

    Notes
    -----
    Derived: each flap loses its stall, and the share 1 - 1/sigma of the outage.

    Examples
    --------
    A link that flaps four times an hour, is away for 30 s, stalls the job for 5 s, and whose loss costs 20 %:

    >>> from clusterlab.units import hour
    >>> round(float(flapping_slowdown(4 / hour, outage=30, stall=5, slowdown=1.2)), 4)
    1.0111
    """
    return 1 + flaps * (stall + outage * (1 - 1 / slowdown))
