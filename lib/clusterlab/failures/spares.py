"""Spares: machines on standby and in repair, how long a job waits for one, and how many are enough."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np

from ..checks import fraction, whole
from ..quantities import Amount, Count, PositiveSeconds, PositiveShareBelowOne, Seconds, Share, WholeAmount, law
from ..records import Explained

# --- Spares and repair -----------------------------------------------------------------------------------------------

# Machines that one failure takes: a number, or a mapping of each number to its share of the failures.
Machines = int | Mapping[int, float]


@dataclass(frozen=True, repr=False)
class SparePool(Explained):
    """How a pool of spares serves a job. ``load`` is the mean number of machines in repair if the job never waited.

    ``none_left`` is the probability that a failure finds no spare, ``waiting`` the share of time for which the job
    waits, and ``wait`` the mean wait per failure, which is the ``repair`` of a :class:`Job`.
    """

    spares: Amount
    load: Amount
    none_left: Share
    waiting: Share
    wait: Seconds

    _shown: ClassVar = {"spares": "", "load": "in repair", "none_left": "%", "waiting": "%", "wait": "s"}


@law
def spare_pool(spares: WholeAmount, *, nodes: Count, node_mtbf: PositiveSeconds, repair: Seconds) -> SparePool:
    r"""Probability that a failure finds no spare machine, and how long the job waits for one.

    .. math:: P(\text{no spare}) = B(k, a), \quad \text{waiting} = B(k + 1, a), \quad
        B(c, a) = \frac{a^c / c!}{\sum_{i \le c} a^i / i!}, \quad a = \frac{N r}{m}

    Parameters
    ----------
    spares
        Machines on standby, k, which do not fail.
    nodes
        Machines that the job needs, N.
    node_mtbf
        Mean time to failure of one machine in use, m.
    repair
        Mean time until a failed machine is back as a spare, r; any distribution.

    Notes
    -----
    Derived: with j machines in repair, failures arrive at rate N/m while j <= k; at j = k + 1 the job waits and nothing
    fails; repairs end at rate j/r. That birth-death chain is Erlang's loss system with k + 1 servers (Erlang 1917,
    formula B), which depends on the mean of the repair time alone (Sevastyanov 1957). A failure that finds no spare
    waits for the first of k + 1 repairs, r/(k + 1) on average.

    Examples
    --------
    2,048 nodes of 8 GPUs (50,000 h each), two days of repair, 16, 24 and 32 spares:

    >>> from clusterlab.units import day, fmt, hour
    >>> pool = spare_pool([16, 24, 32], nodes=2048, node_mtbf=6250 * hour, repair=2 * day)
    >>> [fmt(share, "%") for share in pool.none_left], [fmt(share, "%") for share in pool.waiting]
    (['16.7%', '1.27%', '0.011%'], ['13.4%', '0.795%', '0.00526%'])
    """
    load = nodes * repair / node_mtbf
    shape = np.broadcast_shapes(np.shape(spares), np.shape(load))
    blocked, none_left, waiting = 1 + 0 * load, np.zeros(shape), np.zeros(shape)  # B(0, a) = 1
    for servers in range(int(np.max(spares)) + 1):
        none_left = np.where(spares == servers, blocked, none_left)[()]
        blocked = load * blocked / (servers + 1 + load * blocked)
        waiting = np.where(spares == servers, blocked, waiting)[()]
    return SparePool(spares, load, none_left, waiting, none_left * repair / (spares + 1))


@dataclass(frozen=True, repr=False)
class InRepair(Explained):
    """Machines in repair at a moment: their mean ``load``, standard ``deviation``, and the ``spares`` that suffice."""

    load: Amount
    deviation: Amount
    spares: Amount

    _shown: ClassVar = {"load": "in repair", "deviation": "", "spares": ""}


@law
def spares_for(
    share: PositiveShareBelowOne,
    *,
    nodes: Count,
    node_mtbf: PositiveSeconds,
    repair: Seconds,
    machines: Machines = 1,
    dispersion: Amount = 0,
) -> InRepair:
    r"""Least number of spares that are enough for a share of the time, where failures come in crowds and in bursts.

    .. math:: \text{Var} = a\left(\frac{E[K^2]}{E[K]} + \alpha_d\, a\right), \quad a = \frac{N r}{m}, \qquad
        g_s = \sum_j \left(A + B\,\frac{j}{s}\right) f_j\, g_{s - j}

    Parameters
    ----------
    share
        Of the time, in which no more machines are in repair than there are spares.
    nodes, node_mtbf, repair
        As in :func:`spare_pool`: N, m and r.
    machines : int or mapping
        Machines that one failure takes, K, which come back together; or a mapping of each such number to its share of
        the failures, f. ``node_mtbf`` counts every machine that is taken.
    dispersion
        As in :func:`expected_failures`, alpha_d: the rate stays as it is for longer than a repair.

    Raises
    ------
    ValueError
        The shares of ``machines`` do not sum to 1.

    Notes
    -----
    Source: machines in repair are customers of a queue with a server for each, M/G/infinity, whose number is Poisson
    whatever the distribution of the repair time (Takacs 1962): a heavy tail alone needs no further spare. With crowds
    the number is compound Poisson, with bursts compound negative binomial, both by Panjer's recursion (1981).
    Machines that come back one by one, and bursts shorter than a repair, need fewer spares than this.

    Examples
    --------
    2,048 nodes of 6,250 h, two days of repair: 16 in repair on average. Spares for 99 % of the time; if one failure in
    fifty takes a rack of 8; and in a fleet whose months differ too.

    >>> from clusterlab.failures import BURSTS
    >>> from clusterlab.units import day, hour
    >>> fleet = {"nodes": 2048, "node_mtbf": 6250 * hour, "repair": 2 * day}
    >>> racks = {1: 0.98, 8: 0.02}
    >>> pools = [spares_for(0.99, **fleet, **more) for more in ({}, {"machines": racks}, {"dispersion": BURSTS})]
    >>> [(int(pool.spares), round(float(pool.deviation), 1)) for pool in pools]
    [(26, 4.0), (32, 5.6), (40, 8.1)]
    """
    load = nodes * repair / node_mtbf
    sizes, chances = _sizes(machines)
    mean, square = sizes @ chances, sizes**2 @ chances
    key = tuple(sizes), tuple(chances)
    of_one = np.vectorize(lambda a, d, q: _quantile(_compound(a / mean, d, *key), q), otypes=[float])
    enough = of_one(load, dispersion, share)
    return InRepair(load, np.sqrt(load * (square / mean + dispersion * load)), enough[()])


def _quantile(total: np.ndarray, probability: float) -> float:
    """Least number that is not exceeded with a probability."""
    return float(np.searchsorted(total, probability * total[-1]))


@lru_cache(maxsize=64)  # a curve over the share of the time, or a search of a plan, asks for few again and again
def _compound(mean: float, dispersion: float, sizes: tuple[float, ...], chances: tuple[float, ...]) -> np.ndarray:
    """The distribution of a sum of ``sizes`` over a count of failures, but for a factor (Panjer 1981)."""
    size, share, wide = np.asarray(sizes), np.asarray(chances), 1 + dispersion * mean
    a, b = float(dispersion * mean / wide), float(mean * (1 - dispersion) / wide)
    center = mean * (size @ share)
    deviation = math.sqrt(mean * (size**2 @ share) + dispersion * center**2)
    most = math.ceil(center + 12 * deviation + 60 * wide * max(sizes))
    taken = list(zip(map(int, sizes), map(float, chances), strict=True))
    chance = [1.0]  # all are relative to the first until the end: its own value may be too small for a float
    for s in range(1, most + 1):
        chance.append(sum((a + b * k / s) * of_all * chance[s - k] for k, of_all in taken if k <= s))
        if chance[s] > 1e200:
            chance = [one / 1e200 for one in chance]
    return np.cumsum(chance)


@law
def elastic_capacity(
    spares: WholeAmount, *, nodes: Count, node_mtbf: PositiveSeconds, repair: Seconds, replica: Count = 1
) -> Share:
    r"""Mean speed, as a share of full speed, of a job that shrinks when no spare is left instead of waiting.

    .. math:: \sum_j \pi_j \, \frac{g}{N} \left\lfloor \frac{N - (j - k)^+}{g} \right\rfloor, \qquad
        \frac{\pi_{j+1}}{\pi_j} = \frac{r}{m}\,\frac{N - (j - k)^+}{j + 1}

    Parameters
    ----------
    spares, nodes, node_mtbf, repair
        As in :func:`spare_pool`: k, N, m and r.
    replica
        Nodes of one data-parallel replica, g: the job drops whole replicas. Must divide ``nodes``.

    Returns
    -------
    Share
        A job that waits has 1 - ``waiting`` of :func:`spare_pool`. Each change of size costs a
        restart, which is not included.

    Raises
    ------
    ValueError
        ``replica`` does not divide ``nodes``.

    Notes
    -----
    Derived: the machine-repair model with spares and a repairer for each machine (Gross and Harris, Fundamentals of
    Queueing Theory, finite-source queues). The healthy nodes of a dropped replica stay on, and can fail.

    Examples
    --------
    16 spares for 2,048 nodes: the speed that is kept by waiting, by dropping replicas of 64 nodes, and single nodes.

    >>> from clusterlab.units import day, fmt, hour
    >>> fleet = {"nodes": 2048, "node_mtbf": 6250 * hour, "repair": 2 * day}
    >>> kept = [1 - spare_pool(16, **fleet).waiting, *(elastic_capacity(16, **fleet, replica=g) for g in (64, 1))]
    >>> [fmt(share, "%") for share in kept]
    ['86.6%', '98.7%', '99.9%']
    """
    if np.any(nodes % replica != 0):
        raise ValueError(f"replica must divide nodes, got {replica} and {nodes}")
    load = nodes * repair / node_mtbf
    weight = total = load * 0 + 1 + 0 * (spares + replica)
    speed = weight
    for j in range(int(np.max(nodes + spares))):
        healthy = np.maximum(nodes - np.maximum(j - spares, 0), 0)
        weight = weight * load * (healthy / nodes) / (j + 1)
        left = np.maximum(nodes - np.maximum(j + 1 - spares, 0), 0)
        total = total + weight
        speed = speed + weight * (np.floor(left / replica) * replica / nodes)
        scale = np.maximum(total, 1)  # keeps large loads finite
        weight, total, speed = weight / scale, total / scale, speed / scale
        if np.all((weight < 1e-18 * total) & (j > load)):
            break
    return speed / total


def _sizes(machines: Machines) -> tuple[np.ndarray, np.ndarray]:
    """Machines that a failure takes, in rising order, and the share of the failures that takes so many; checked."""
    shares = machines if isinstance(machines, Mapping) else {machines: 1.0}
    (sizes,) = whole(machines=list(shares))
    (probabilities,) = fraction(**{"the shares of machines": list(shares.values())})
    if abs(sum(probabilities) - 1) > 1e-9:
        raise ValueError(f"the shares of machines must sum to 1, got {sum(probabilities):g}")
    order = np.argsort(sizes)
    return np.asarray(sizes)[order], np.asarray(probabilities)[order]
