"""Routing: which of its ways a flow takes, and how many flows then meet on the fullest link."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..checks import WHOLE, check
from ..quantities import Count, Multiple, Share, law
from .fabric import NONE, Clos, Fabric, Links
from .sharing import Floats, Routes

# --- Balls in bins ---------------------------------------------------------------------------------------------------


@law
def busy_share(flows: Count, links: Count) -> Share:
    r"""Share of equal links that at least one of some flows takes, where each flow draws its link.

    .. math:: 1 - \left(1 - \frac{1}{n}\right)^m

    Parameters
    ----------
    flows, links
        m and n.

    Returns
    -------
    Share
        Expected. For as many flows as links it tends to 1 - 1/e: 63 %.

    Notes
    -----
    Derived: a link is missed by one flow with probability 1 - 1/n, and by all of them independently.

    Examples
    --------
    >>> round(float(busy_share(8, 8)), 3)
    0.656
    """
    return 1 - (1 - 1 / links) ** flows


@law
def fullest_link(flows: Count, links: Count) -> Multiple:
    r"""Flows on the fullest of some equal links, where each flow draws its link: balls in bins.

    .. math:: E[M] = \sum_{k \ge 0} \big(1 - P(M \le k)\big), \qquad
        P(M \le k) = \frac{m!}{n^m}\,[x^m] \left(\sum_{j=0}^{k} \frac{x^j}{j!}\right)^{n}

    Parameters
    ----------
    flows, links
        m and n.

    Returns
    -------
    Multiple
        Expected, exact. The slowest flow gets one part in so many of a link.

    Notes
    -----
    Source: Raab and Steger 1998 for what it grows like, ln n / ln ln n for as many flows as links. Derived: the
    polynomial counts the ways to deal m flows out to n links with at most k on each; here by its Fourier series.

    Examples
    --------
    >>> fullest_link([8, 64], [8, 64]).round(2)
    array([2.6 , 3.96])
    """
    return _fullest(flows, links)


@np.vectorize(otypes=[float])
def _fullest(flows: float, links: float) -> float:
    mean, most = flows / links, int(flows)
    # Counts that are Poisson with this mean, given that they sum to the flows, are those of balls in bins. Their sum is
    # within sixteen deviations of the flows: so many points of its Fourier series tell one sum from all others.
    points = 2 ** math.ceil(math.log2(16 * flows**0.5 + 64))
    angle = 2j * np.pi * np.arange(points) / points
    whole = math.exp(flows * math.log(flows) - flows - math.lgamma(flows + 1))
    expected, few = 0.0, np.zeros(points, complex)
    for k in range(most):
        few += math.exp(k * math.log(mean) - mean - math.lgamma(k + 1)) * np.exp(angle * k)
        missed = 1 - float(np.mean(few**links * np.exp(-angle * flows)).real) / whole if k >= mean else 1.0
        expected += missed
        if missed < 1e-10:
            break
    return expected


@law
def collision_chance(flows: Count, links: Count) -> Share:
    r"""Chance that at least two of some flows draw the same of some equal links: the birthday problem.

    .. math:: 1 - \prod_{i=0}^{m-1} \left(1 - \frac{i}{n}\right)

    Parameters
    ----------
    flows, links
        m and n.

    Returns
    -------
    Share
        1 for more flows than links.

    Notes
    -----
    Derived: flow i + 1 finds i links taken.

    Examples
    --------
    >>> collision_chance([2, 4, 8], 8).round(4)
    array([0.125 , 0.5898, 0.9976])
    """
    most = np.arange(int(np.max(flows)))
    free = np.maximum(1 - most / np.asarray(links)[..., None], 0)
    return (1 - np.where(most < np.asarray(flows)[..., None], free, 1).prod(axis=-1))[()]


# --- Which way -------------------------------------------------------------------------------------------------------


def hashed(
    fabric: Fabric,
    source: ArrayLike,
    target: ArrayLike,
    *,
    draws: Count | None = None,
    queue_pairs: Count = 1,
    seed: int = 0,
) -> Routes:
    r"""ECMP: each flow's way is drawn by a hash, and it keeps it.

    Parameters
    ----------
    fabric, source, target
        Hosts at both ends of each flow.
    draws
        How often to draw all of it, with a new seed of the hash: a first axis. None: once.
    queue_pairs
        Queue pairs of a flow, each with a way of its own and an equal part of the bytes. They keep step, so the slowest
        sets the flow's rate.
    seed
        Of the generator that stands for the hash.

    Returns
    -------
    Routes
        Of the links that have failed none is taken. A flow that is hashed again at every pause (a flowlet) goes through
        many of the draws one after the other, so it gets the mean of their rates.

    Raises
    ------
    ValueError
        A number is not a whole one of at least 1, a flow's ends are the same host, or no way is left between them.

    Notes
    -----
    Source: RFC 2992 for the hash of a flow; Gangidi et al. 2024, section 4, for queue pairs.

    Examples
    --------
    >>> from clusterlab.contention import clos
    >>> hashed(clos(8, 8, 8, bandwidth=50e9), range(8), range(8, 16), draws=1000).links.shape
    (1000, 8, 4)
    """
    pairs = int(check(WHOLE, "queue_pairs", queue_pairs))
    lead = () if draws is None else (int(check(WHOLE, "draws", draws)),)
    start, end = np.broadcast_arrays(np.asarray(source), np.asarray(target))
    rolls = np.random.default_rng(seed).random((*lead, *start.shape, pairs))
    alive = _alive(fabric, start, end)
    if alive is None:
        way = (rolls * fabric.ways).astype(np.int64)
    else:
        rank = (rolls * alive.sum(axis=-1)[..., None]).astype(np.int64)
        nth = np.cumsum(alive, axis=-1)
        way = (nth[..., None, :] <= rank[..., None]).sum(axis=-1)
    links = fabric.route(start[..., None], end[..., None], way)
    if pairs == 1:
        return Routes(links[..., 0, :])
    same = (links == links[..., :1, :]).all(axis=tuple(range(links.ndim - 1)))  # as a port is: it counts once
    once, apart = links[..., 0, same], links[..., ~same]
    links = np.concatenate([once, apart.reshape(*once.shape[:-1], -1)], axis=-1)
    share = np.where(np.arange(links.shape[-1]) < once.shape[-1], 1.0, 1 / pairs)
    return Routes(links, np.broadcast_to(share, links.shape))


def _alive(fabric: Fabric, start: Links, end: Links) -> NDArray[np.bool_] | None:
    """Which ways of each flow have not failed; None where all are alive."""
    failed = fabric.capacity == 0
    if not failed.any():
        return None
    links = fabric.route(start[..., None], end[..., None], np.arange(fabric.ways))
    alive: NDArray[np.bool_] = np.logical_not(((links != NONE) & failed[links]).any(axis=-1))
    if not alive.any(axis=-1).all():
        at = np.argmin(alive.any(axis=-1).ravel())
        here, there = start.ravel()[at], end.ravel()[at]
        raise ValueError(f"a way must be left from {here} to {there}, got none that has not failed")
    return alive


def pinned(fabric: Clos, source: ArrayLike, target: ArrayLike) -> Routes:
    r"""Static routes: the way is that of the target's place under its leaf, so that all to one host take one way.

    Parameters
    ----------
    fabric, source, target
        Hosts at both ends of each flow.

    Returns
    -------
    Routes
        With as many spines as hosts per leaf no two flows to different hosts of a leaf meet on the way down, and those
        of a shift (each host to the one so many further on) do not meet at all. Other patterns collide on the way up.

    Raises
    ------
    ValueError
        A flow's ends are the same host, or its way has failed.

    Notes
    -----
    Source: Zahavi 2012, routing by target (D-mod-K) in fat trees.

    Examples
    --------
    >>> from clusterlab.contention import clos, max_min_rates
    >>> fabric = clos(8, 8, 8, bandwidth=50e9)
    >>> routes = pinned(fabric, range(64), [(host + 11) % 64 for host in range(64)])
    >>> max_min_rates(fabric.capacity, routes).min() / 50e9
    np.float64(1.0)
    """
    start, end = np.broadcast_arrays(np.asarray(source), np.asarray(target))
    place = end // fabric.rails % fabric.hosts_per_leaf
    return Routes(fabric.route(start, end, place))


def least_loaded(fabric: Fabric, source: ArrayLike, target: ArrayLike) -> Routes:
    r"""Chosen ways: each flow in turn takes the way whose fullest link has the fewest flows for its rate.

    Parameters
    ----------
    fabric, source, target
        Hosts at both ends of each flow.

    Returns
    -------
    Routes
        What a controller that knows all flows does, or adaptive routing after it has settled. One pass, so it may miss
        the best.

    Raises
    ------
    ValueError
        A flow's ends are the same host, or no way is left between them.

    Notes
    -----
    Derived: greedy, as controllers of paths do (Dong et al. 2024, C4P; Gangidi et al. 2024, section 4.3).

    Examples
    --------
    >>> from clusterlab.contention import clos, max_min_rates
    >>> fabric = clos(8, 8, 8, bandwidth=50e9)
    >>> max_min_rates(fabric.capacity, least_loaded(fabric, range(8), range(8, 16))).min() / 50e9
    np.float64(1.0)
    """
    start, end = (one.ravel() for one in np.broadcast_arrays(np.asarray(source), np.asarray(target)))
    shape = np.broadcast_shapes(np.shape(source), np.shape(target))
    alive = _alive(fabric, start, end)
    taken = np.zeros(len(fabric.capacity) + 1)
    cost = np.append(1 / np.where(fabric.capacity > 0, fabric.capacity, np.inf), 0.0)  # the last is of no link
    picked = []
    for at, links in enumerate(fabric.route(start[:, None], end[:, None], np.arange(fabric.ways))):
        full = np.sort((taken[links] + 1) * cost[links], axis=-1)[:, ::-1].T  # the fullest counts first, then the next
        if alive is not None:
            full = np.where(alive[at], full, np.inf)
        way = links[np.lexsort(full[::-1])[0]]
        taken[way[way != NONE]] += 1
        picked.append(way)
    return Routes(np.array(picked).reshape(*shape, -1))


def sprayed(fabric: Fabric, source: ArrayLike, target: ArrayLike) -> Routes:
    r"""Packet spraying: every flow uses all of its ways evenly.

    Parameters
    ----------
    fabric, source, target
        Hosts at both ends of each flow.

    Returns
    -------
    Routes
        The ideal of it: no way is ever fuller than another because of chance.

    Raises
    ------
    ValueError
        A flow's ends are the same host, or no way is left between them.

    Notes
    -----
    Source: Dixit et al. 2013, random packet spraying, in the limit of many packets.

    Examples
    --------
    >>> from clusterlab.contention import clos, max_min_rates
    >>> fabric = clos(8, 8, 4, bandwidth=50e9)
    >>> max_min_rates(fabric.capacity, sprayed(fabric, range(8), range(8, 16))).tolist()[:2]
    [25000000000.0, 25000000000.0]
    """
    start, end = np.broadcast_arrays(np.asarray(source), np.asarray(target))
    links = fabric.route(start[..., None], end[..., None], np.arange(fabric.ways))
    alive = _alive(fabric, start, end)
    live = np.ones(links.shape[:-1]) if alive is None else alive.astype(float)
    share: Floats = np.broadcast_to((live / live.sum(axis=-1, keepdims=True))[..., None], links.shape)
    links = np.where(share > 0, links, NONE)
    return Routes(links.reshape(*start.shape, -1), share.reshape(*start.shape, -1))
