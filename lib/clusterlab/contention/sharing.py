"""Sharing: what each flow gets of the links that it crosses with others, and when it is done.

A flow is a stream of bytes that takes all it can get. Flows that meet on a link share it by max-min fairness, which is
what congestion control aims at: nobody can get more without taking from somebody who has no more than he has.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..checks import NONNEGATIVE, POSITIVE, check
from ..quantities import Bytes, Number, Seconds
from .fabric import NONE, Links

Floats = NDArray[np.float64]
_SLACK = 1e-9  # links that fill at levels so close fill together
_AT_ONCE = 2**16  # links on ways of many draws that are shared out together: what fits a processor's cache


@dataclass(frozen=True)
class Routes:
    """Ways of flows: ``links`` of shape (..., flows, links), and the ``share`` of a flow's bytes on each, or None: all.

    Leading axes are draws, each with a fabric of its own: flows of different draws never meet.
    """

    links: Links
    share: Floats | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of what has one number for each flow."""
        return self.links.shape[:-1]


def joined(*routes: Routes) -> Routes:
    """Flows of several sets on one fabric, one set after the other along the axis of flows.

    Examples
    --------
    >>> joined(Routes(np.array([[0, 1]])), Routes(np.array([[2, 3], [4, -1]]))).links.tolist()
    [[0, 1], [2, 3], [4, -1]]
    """
    draws = np.broadcast_shapes(*(one.shape[:-1] for one in routes))
    wide = max(one.links.shape[-1] for one in routes)
    parts, shares = [], []
    for one in routes:
        pad = [(0, 0)] * (one.links.ndim - 1) + [(0, wide - one.links.shape[-1])]
        shape = (*draws, one.shape[-1], wide)
        parts.append(np.broadcast_to(np.pad(one.links, pad, constant_values=NONE), shape))
        share = np.ones(one.links.shape) if one.share is None else one.share
        shares.append(np.broadcast_to(np.pad(share, pad), shape))
    whole = all(one.share is None for one in routes)
    return Routes(np.concatenate(parts, axis=-2), None if whole else np.concatenate(shares, axis=-2))


def link_load(capacity: ArrayLike, routes: Routes, size: Bytes = 1) -> Floats:
    r"""Bytes that flows put on each link, of shape (..., links).

    .. math:: L_l = \sum_f s_{fl} S_f

    Parameters
    ----------
    capacity
        Rate of each link, bytes/s.
    routes
        Ways of the flows.
    size
        Bytes of each flow; 1 counts flows.

    Examples
    --------
    >>> link_load(np.ones(3), Routes(np.array([[0, 1], [0, 2]]))).tolist()
    [2.0, 1.0, 1.0]
    """
    amount = check(NONNEGATIVE, "size", size)
    _for_each_flow(routes, size=amount)
    links, share, rooms, amount = _flat(capacity, routes, amount)
    weight = np.broadcast_to(amount, links.shape).astype(float) if share is None else share * amount
    load = np.bincount(links.ravel(), weight.ravel(), minlength=len(rooms) + 1)[:-1].astype(float)
    return load.reshape(*routes.shape[:-1], -1)


def drain_time(capacity: ArrayLike, routes: Routes, size: Bytes) -> Seconds:
    r"""Time until the fullest link has carried all that it must: no sharing of the links is faster.

    .. math:: T \ge \max_l \frac{1}{c_l} \sum_f s_{fl} S_f

    Parameters
    ----------
    capacity, routes, size
        As for :func:`max_min_rates`; bytes of each flow.

    Returns
    -------
    Seconds
        One for each draw. For flows of equal size that start together, max-min fairness reaches it: the flows of the
        fullest link have the least rate, and keep it to their end.

    Examples
    --------
    Two flows of 1 GB from one port of 50 GB/s:

    >>> float(drain_time(np.full(3, 50e9), Routes(np.array([[0, 1], [0, 2]])), 1e9))
    0.04
    """
    load, rate = link_load(capacity, routes, size), np.asarray(capacity, float)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(load > 0, load / rate, 0.0).max(axis=-1)[()]


def max_min_rates(capacity: ArrayLike, routes: Routes, *, weight: Number = 1, priority: ArrayLike = 0) -> Floats:
    r"""Rates of flows that share links by max-min fairness.

    All flows grow together, each in proportion to its weight, until a link is full; its flows are held there and the
    others grow on. Every flow ends up with a bottleneck: a full link on which none has more for its weight.

    .. math:: \frac{x_f}{w_f} = \min_{l \in f} \lambda_l, \qquad \sum_f s_{fl}\, x_f \le c_l

    Links need not be filled one after the other. One that is the tightest of all the flows that cross it stays so,
    whatever happens elsewhere, so all links of that kind fill at once.

    Parameters
    ----------
    capacity
        Rate of each link, bytes/s; those that no flow crosses may be 0.
    routes
        Ways of the flows.
    weight
        Weight of each flow.
    priority
        Whole numbers: flows of a higher one are served first, and leave to the others what they do not take.

    Returns
    -------
    array
        Bytes/s of each flow, of shape (..., flows).

    Raises
    ------
    ValueError
        A link is not one of ``capacity``, a flow crosses none or a failed one, or shapes do not fit together.

    Notes
    -----
    Source: Bertsekas and Gallager 1992, section 6.5.2, for the filling and the bottlenecks. Derived: links at once.

    Examples
    --------
    Three flows on two links of 10: the first crosses both. The second link has two flows, so each gets 5 of it, and
    what is left of the first is the third's.

    >>> max_min_rates([10, 10], Routes(np.array([[0, 1], [1, -1], [0, -1]]))).tolist()
    [5.0, 5.0, 5.0]
    >>> max_min_rates([10, 4], Routes(np.array([[0, 1], [1, -1], [0, -1]]))).tolist()
    [2.0, 2.0, 8.0]
    """
    weights = check(POSITIVE, "weight", weight)
    _for_each_flow(routes, weight=weights, priority=priority)
    order = np.broadcast_to(priority, routes.shape).ravel()
    flows = routes.shape[-1]
    links, share, _, amount = _flat(capacity, routes, weights, spread=False)
    rate, room = np.empty(order.size), _checked(capacity)
    step = max(1, _AT_ONCE // (flows * len(links))) * flows
    for at in range(0, order.size, step):
        part = slice(at, min(at + step, order.size))
        many = (part.stop - at) // flows
        own = np.repeat(np.arange(many) * len(room), flows)
        here = np.where(links[:, part] == NONE, many * len(room), links[:, part] + own)
        parts = None if share is None else share[:, part]
        rate[part] = _by_priority(np.tile(room, many), here, parts, amount[part], order[part])
    return rate.reshape(routes.shape)


def _by_priority(room: Floats, links: Links, share: Floats | None, weight: Floats, order: NDArray) -> Floats:
    """Classes of flows one after the other, each with what those before left."""
    room = np.append(room, np.inf)  # of no link
    classes = np.unique(order)[::-1]
    if len(classes) == 1:
        return _fill(room, links, share, weight)
    rate = np.zeros(len(weight))
    for level in classes:
        own = order == level
        rate[own] = _fill(room, links[:, own], None if share is None else share[:, own], weight[own])
    return rate


def _fill(room: Floats, links: Links, share: Floats | None, weight: Floats) -> Floats:
    """Fill links with flows; ``room`` is what is left of each, and is left with what is left after.

    ``links`` and ``share`` have a row for the first link of every flow, one for its second, and so on.
    """
    rate, active, none = np.zeros(len(weight)), np.arange(len(weight)), len(room) - 1
    while active.size:
        use = np.tile(weight, len(links)) if share is None else (share * weight).ravel()
        load = np.bincount(links.ravel(), use, minlength=none + 1)
        with np.errstate(divide="ignore", invalid="ignore"):
            level = np.maximum(room, 0) / load
        level[none] = np.inf
        here = level[links]
        least = here.min(axis=0)
        above = here > least * (1 + _SLACK)
        held = np.zeros(none + 1, bool)  # by a flow that is tighter elsewhere
        held[links[above]] = True
        above |= held[links]
        wait = above.all(axis=0)
        done, keep = np.flatnonzero(~wait), np.flatnonzero(wait)
        got = least[done] * weight[done]
        rate[active[done]] = got
        taken = np.tile(got, len(links)) if share is None else (share[:, done] * got).ravel()
        room -= np.bincount(links[:, done].ravel(), taken, minlength=none + 1)
        active, links, weight = active[keep], links[:, keep], weight[keep]
        share = None if share is None else share[:, keep]
    return rate


def finish_times(
    capacity: ArrayLike, routes: Routes, size: Bytes, *, start: Seconds = 0, weight: Number = 1, priority: ArrayLike = 0
) -> Floats:
    r"""When each flow has sent its bytes, where those that end leave their share to the others.

    Rates are constant between two events, a flow's start or its end, so the simulation goes from event to event. Each
    draw has a clock of its own, and all draws advance together.

    Parameters
    ----------
    capacity, routes, weight, priority
        As for :func:`max_min_rates`.
    size
        Bytes of each flow.
    start
        When each flow starts, seconds.

    Returns
    -------
    array
        Seconds, of shape (..., flows). The cost grows with the events: at most two for each flow of a draw.

    Raises
    ------
    ValueError
        As for :func:`max_min_rates`.

    Notes
    -----
    Derived: a fluid of max-min rates; queues, round trips and packets are left out.

    Examples
    --------
    Two flows share a link of 10. The shorter is done after 2 s, and then the longer has all of it:

    >>> finish_times([10], Routes(np.array([[0], [0]])), [10, 30]).tolist()
    [2.0, 4.0]
    """
    given = [check(NONNEGATIVE, "size", size), check(NONNEGATIVE, "start", start)]
    _for_each_flow(routes, size=given[0], start=given[1], weight=weight, priority=priority)
    flows = routes.shape[-1]
    wide = (-1, flows)
    left, begin, heavy = (
        np.array(np.broadcast_to(one, routes.shape), float).reshape(wide)
        for one in (*given, check(POSITIVE, "weight", weight))
    )
    order = np.broadcast_to(priority, routes.shape).reshape(wide)
    ways = routes.links.reshape(-1, flows, routes.links.shape[-1])
    parts = None if routes.share is None else routes.share.reshape(ways.shape)
    max_min_rates(capacity, routes)  # refuses what it must
    room, end = np.asarray(capacity, float), np.full(left.shape, np.nan)
    none, clock, whole = len(room), np.zeros(len(left)), left.copy()
    while np.isnan(end).any():
        running = np.isnan(end) & (begin <= clock[:, None])
        draw, flow = np.nonzero(running)
        rate = np.zeros(left.shape)
        if draw.size:
            own, many = np.unique(draw, return_inverse=True)
            here = ways[draw, flow].T
            here = np.where(here == NONE, len(own) * none, here + many * none)
            some = None if parts is None else parts[draw, flow].T
            at = (draw, flow)
            rate[at] = _by_priority(np.tile(room, len(own)), here, some, heavy[at], order[at])
        with np.errstate(divide="ignore", invalid="ignore"):
            lasts = np.where(running & (rate > 0), left / rate, np.inf).min(axis=1)
        next_start = np.where(np.isnan(end) & ~running, begin, np.inf).min(axis=1)
        soon = np.minimum(clock + lasts, next_start)
        step = np.where(np.isfinite(soon), soon - clock, 0.0)[:, None]
        clock = np.where(np.isfinite(soon), soon, clock)
        left = np.where(running, left - rate * step, left)
        over = running & (left <= _SLACK * whole)
        end = np.where(over, clock[:, None], end)
    return end.reshape(routes.shape)


def _for_each_flow(routes: Routes, **values: ArrayLike) -> None:
    for name, value in values.items():
        shape = np.shape(value)
        pairs = zip(shape[::-1], routes.shape[::-1], strict=False)
        if len(shape) > len(routes.shape) or any(own not in (1, all_) for own, all_ in pairs):
            raise ValueError(f"{name} must have a number for each of the flows, {routes.shape}, or one, got {shape}")


def _checked(capacity: ArrayLike) -> Floats:
    room = np.asarray(check(NONNEGATIVE, "capacity", capacity), float)
    if room.ndim != 1:
        raise ValueError(f"capacity must have one axis, the links, got {room.ndim}")
    return room


def _flat(
    capacity: ArrayLike, routes: Routes, amount: Number, *, spread: bool = True
) -> tuple[Links, Floats | None, Floats, Floats]:
    """Links and shares of all flows by their place on the way, rates of all draws' links, and each flow's amount."""
    room, links = _checked(capacity), routes.links
    if links.dtype.kind not in "iu" or np.any((links < NONE) | (links >= len(room))):
        got = f"{links.min()} to {links.max()}"
        raise ValueError(f"links must be whole numbers from 0 to {len(room) - 1:,}, or -1 for none, got {got}")
    used = links != NONE
    if not used.any(axis=-1).all():
        raise ValueError("links must have at least one for each flow, got a flow without any")
    if np.any(room[links[used]] == 0):
        failed = links[used][room[links[used]] == 0][0]
        raise ValueError(f"links must not be failed ones, got {failed}, whose capacity is 0")
    flat = np.moveaxis(links, -1, 0).reshape(links.shape[-1], -1)  # a row for the first link of all, one for the second
    share = None
    if routes.share is not None:
        share = np.moveaxis(np.where(used, routes.share, 0.0), -1, 0).reshape(flat.shape)
    many = flat.shape[1] // routes.shape[-1]
    each = np.array(np.broadcast_to(amount, routes.shape), float).ravel()
    if not spread:
        return flat, share, room, each
    own = np.repeat(np.arange(many) * len(room), routes.shape[-1])
    return np.where(flat == NONE, many * len(room), flat + own), share, np.tile(room, many), each
