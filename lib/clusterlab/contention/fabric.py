"""Fabrics as arrays: every link has a number and a rate, and a way through the fabric is a list of links.

A link carries one direction. A cable is two of them, and so is a port. Switches are not modelled: all that they do to a
flow is the rate of the links that they join.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..checks import WHOLE, broadcastable, check, positive
from ..quantities import BytesPerSecond, Count
from ..records import Explained, Rows, summary

Links = NDArray[np.int64]
NONE = -1  # in a list of links: nothing; lists of one array have one length


@dataclass(frozen=True, repr=False)
class Fabric(Explained):
    """Links and their rates, ``capacity`` in bytes/s, and how many ways there are between two hosts, ``ways``."""

    hosts: int
    ways: int
    capacity: NDArray[np.float64]

    def route(self, source: ArrayLike, target: ArrayLike, way: ArrayLike = 0) -> Links:
        """Links from one host to another by one of the ways; the last axis is the links, ``NONE`` where there is none.

        Ways count from 0, and one past the last is the first again, so any whole number will do: a hash, for instance.
        """
        start, end = (_hosts(self.hosts, **{name: one}) for name, one in (("source", source), ("target", target)))
        if np.any(start == end):
            same = np.extract(start == end, start + 0 * end)[0]
            raise ValueError(f"target must be another host than source, got {same}")
        broadcastable(source=start, target=end, way=way)
        taken = np.asarray(way, np.int64) % self.ways
        hops = self._route(start, end, taken)
        shape = np.broadcast_shapes(start.shape, end.shape, taken.shape)
        links = np.empty((len(hops), *shape), np.int64)  # in memory a row for each place on the way
        for at, hop in enumerate(hops):
            links[at] = hop
        return np.moveaxis(links, 0, -1)

    def _route(self, start: Links, end: Links, way: Links) -> Sequence[Links]:
        """Links at each place on the way, of shapes that broadcast together."""
        raise NotImplementedError

    def without(self, links: ArrayLike) -> Self:
        """Return the same fabric with these links failed: what is routed avoids them."""
        capacity = self.capacity.copy()
        capacity[np.asarray(links)] = 0
        return replace(self, capacity=capacity)

    def _rows(self) -> Rows:
        alive = self.capacity[self.capacity > 0]
        rows = [("", "value"), ("hosts", summary(self.hosts)), ("ways between two hosts", summary(self.ways))]
        rows += [("links", summary(len(self.capacity))), ("failed", summary(len(self.capacity) - len(alive)))]
        return [*rows, ("rate of a link", summary(alive, "B/s"))]


def _hosts(many: int, **given: ArrayLike) -> Links:
    """Numbers of hosts, or a ValueError that names the argument."""
    ((name, value),) = given.items()
    number = np.asarray(value)
    if number.dtype.kind not in "iu" or np.any((number < 0) | (number >= many)):
        raise ValueError(f"{name} must be whole numbers from 0 to {many - 1:,}, got {value!r}")
    return number.astype(np.int64)


def _count(**values: Count) -> list[int]:
    """Whole numbers of at least 1, one each."""
    return [int(check(WHOLE, name, value)) for name, value in values.items()]


# --- Trees of switches -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class Clos(Fabric):
    """A fat tree: leaves above the hosts, spines above the leaves, cores above the spines where there are any."""

    hosts_per_leaf: int = 1
    leaves: int = 1
    spines: int = 0  # of a pod: each leaf has one link to each
    pods: int = 1
    cores: int = 0  # above each spine
    rails: int = 1
    domain: int = 1  # hosts of a scale-up domain

    @property
    def up(self) -> Links:
        """Numbers of the links from leaves to spines, leaf by leaf."""
        return 2 * self.hosts + np.arange(self._across).reshape(-1, self.spines)

    @property
    def down(self) -> Links:
        """Numbers of the links from spines to leaves, by leaf and spine."""
        return self.up + self._across

    @property
    def _across(self) -> int:
        return self.pods * self.leaves * self.spines

    def leaf(self, host: ArrayLike) -> Links:
        """Number of the leaf above a host: with R rails, neighbours are under R different leaves."""
        host = np.asarray(host)
        return host // self.rails // self.hosts_per_leaf * self.rails + host % self.rails

    def _route(self, start: Links, end: Links, way: Links) -> Sequence[Links]:
        leaf, last = self.leaf(start), self.leaf(end)
        inside = (start // self.domain == end // self.domain) & (self.domain > 1)
        over = (leaf != last) & ~inside
        if self.spines == 0:
            if np.any(over):
                here, there = (np.extract(over, np.broadcast_to(one, over.shape))[0] for one in (start, end))
                raise ValueError(f"a fabric without spines must have both hosts on one rail, got {here} and {there}")
            way = np.zeros_like(way)
        spine = way % max(self.spines, 1)
        cores_at = 2 * self.hosts + 2 * self._across
        many = self.pods * self.spines * self.cores  # links from spines to cores
        fast = cores_at + 2 * many  # links into the scale-up domain, then out of it
        ends = [np.where(inside, fast + start, start), np.where(inside, fast + self.hosts + end, self.hosts + end)]
        up, down = (2 * self.hosts + one * self.spines + spine for one in (leaf, last))
        middle = [np.where(over, one, NONE) for one in (up, down + self._across)]
        if self.cores:
            pod, other = leaf // self.leaves, last // self.leaves
            core = way // self.spines % self.cores
            tops = [(one * self.spines + spine) * self.cores + core for one in (pod, other)]
            far = over & (pod != other)
            tops = [np.where(far, cores_at + tops[0], NONE), np.where(far, cores_at + many + tops[1], NONE)]
            middle = [middle[0], *tops, middle[1]]
        return [ends[0], *middle, ends[1]]


def clos(
    hosts_per_leaf: Count,
    leaves: Count,
    spines: Count | None,
    *,
    bandwidth: BytesPerSecond,
    pods: Count = 1,
    cores: Count | None = None,
    rails: Count = 1,
    domain: Count = 1,
    scale_up: BytesPerSecond | None = None,
) -> Clos:
    r"""Fat tree as an array of links, each at the rate of a host's port.

    A leaf has one link to each spine of its pod, so its oversubscription is hosts per leaf over spines. In three tiers
    each spine has ``cores`` links up, one to each core of its group; the spines' oversubscription is leaves over cores.

    Parameters
    ----------
    hosts_per_leaf, leaves, spines
        Hosts under a leaf, and leaves and spines of a pod. Without spines (None) each rail is a switch of its own.
    bandwidth
        Rate of each link, bytes/s one way.
    pods, cores
        Pods, and links of a spine to the cores above it; None: no cores, in one pod.
    rails
        1: neighbours share a leaf. R: the hosts r of several servers do, as :func:`clusterlab.interconnect.path_tier`
        numbers them.
    domain, scale_up
        Hosts (GPUs) of a scale-up domain, and the rate of one's links inside; flows in a domain take those.

    Returns
    -------
    Clos
        ``ways`` is spines times cores: each names a path from leaf to leaf.

    Raises
    ------
    ValueError
        A number is not a whole one of at least 1, there are pods and no cores, ``rails`` do not divide the leaves, or
        ``domain`` does not divide the hosts.

    Examples
    --------
    Eight leaves of eight hosts under eight spines. Host 0 reaches host 9 by spine 3: port, up, down, port.

    >>> fabric = clos(8, 8, 8, bandwidth=50e9)
    >>> fabric.route(0, 9, 3).tolist(), len(fabric.capacity)
    ([0, 131, 203, 73], 256)
    """
    down, leaves, pods, rails, domain = _count(
        hosts_per_leaf=hosts_per_leaf, leaves=leaves, pods=pods, rails=rails, domain=domain
    )
    up = _count(spines=spines)[0] if spines is not None else 0
    top = _count(cores=cores)[0] if cores is not None else 0
    (rate,) = positive(bandwidth=bandwidth)
    hosts = down * leaves * pods
    if pods > 1 and not top:
        raise ValueError(f"cores must join {pods} pods, got None")
    for name, part, whole in (("rails", rails, leaves), ("domain", domain, hosts)):
        if whole % part:
            raise ValueError(f"{name} must divide {whole}, got {part}")
    links = 2 * hosts + 2 * pods * up * (leaves + top)
    capacity = np.full(links, rate)
    if scale_up is not None:
        capacity = np.concatenate([capacity, np.full(2 * hosts, positive(scale_up=scale_up)[0])])
    elif domain > 1:
        raise ValueError(f"scale_up must be given for a domain of {domain}, got None")
    return Clos(hosts, max(up, 1) * max(top, 1), capacity, down, leaves, up, pods, top, rails, domain)


# --- Without a tree --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class Dragonfly(Fabric):
    """Groups of hosts, each pair of groups joined by one link each way; inside a group nothing is in the way."""

    groups: int = 1

    def _route(self, start: Links, end: Links, way: Links) -> Sequence[Links]:
        per = self.hosts // self.groups
        here, there = start // per, end // per
        far = here != there
        # Ways but the first go through another group; one that is an end of the flow is no detour.
        by = np.where((way == here) | (way == there) | (way == 0), there, way)
        base = 2 * self.hosts
        first = np.where(far, base + here * self.groups + by, NONE)
        return [start, first, np.where(far & (by != there), base + by * self.groups + there, NONE), self.hosts + end]


def dragonfly(
    hosts_per_group: Count, groups: Count, *, bandwidth: BytesPerSecond, global_bandwidth: BytesPerSecond
) -> Dragonfly:
    r"""Groups in which all reach all at the rate of a port, each joined to each other by one bundle of links.

    Way 0 is the direct one. Way k goes through group k, which makes two hops between groups of one (Valiant's detour).

    Parameters
    ----------
    hosts_per_group, groups
        Hosts of a group, and groups.
    bandwidth, global_bandwidth
        Rate of a host's port, and of all links together from one group to one other, bytes/s one way.

    Returns
    -------
    Dragonfly

    Raises
    ------
    ValueError
        A number is not a whole one of at least 1, or a rate is not above zero.

    Examples
    --------
    >>> fabric = dragonfly(8, 5, bandwidth=50e9, global_bandwidth=100e9)
    >>> fabric.route(0, 9).tolist(), fabric.route(0, 9, 3).tolist()
    ([0, 81, -1, 49], [0, 83, 96, 49])
    """
    per, many = _count(hosts_per_group=hosts_per_group, groups=groups)
    port, between = positive(bandwidth=bandwidth, global_bandwidth=global_bandwidth)
    hosts = per * many
    capacity = np.concatenate([np.full(2 * hosts, port), np.full(many * many, between)])
    return Dragonfly(hosts, many, capacity, many)


@dataclass(frozen=True, repr=False)
class TorusLinks(Fabric):
    """A torus: each host has a link to either neighbour in each dimension."""

    sizes: tuple[int, ...] = ()

    def _route(self, start: Links, end: Links, way: Links) -> Sequence[Links]:
        """Dimension after dimension, the shorter way around; of two equal ones an odd way takes the one down."""
        hops: list[Links] = []
        start, end, way = np.broadcast_arrays(start, end, way)
        at = np.stack(np.unravel_index(start, self.sizes))
        goal = np.stack(np.unravel_index(end, self.sizes))
        for axis, size in enumerate(self.sizes):
            ahead = (goal[axis] - at[axis]) % size
            back = (2 * ahead > size) | ((2 * ahead == size) & (way % 2 == 1))
            left = np.where(back, size - ahead, ahead)
            for _ in range(size // 2):
                link = (np.ravel_multi_index(tuple(at), self.sizes) * len(self.sizes) + axis) * 2 + back
                hops.append(np.where(left > 0, link, NONE))
                at = at.copy()
                at[axis] = np.where(left > 0, (at[axis] + np.where(back, -1, 1)) % size, at[axis])
                left = left - 1
        return hops


def torus_links(sizes: Sequence[int], *, bandwidth: BytesPerSecond) -> TorusLinks:
    r"""Torus as an array of links, one from each host either way in each dimension.

    Parameters
    ----------
    sizes
        Hosts along each dimension, each at least 3: with two, both links would end at the same host.
    bandwidth
        Rate of a link, bytes/s one way.

    Returns
    -------
    TorusLinks
        A flow goes dimension after dimension, the shorter way around. Where both are equally long, way 0 goes up and
        way 1 down.

    Raises
    ------
    ValueError
        A dimension has fewer than three hosts, or the rate is not above zero.

    Examples
    --------
    >>> ring = torus_links((4,), bandwidth=50e9)
    >>> ring.route(0, 1).tolist(), ring.route(0, 3).tolist(), ring.route(0, 2).tolist(), ring.route(0, 2, 1).tolist()
    ([0, -1], [1, -1], [0, 2], [1, 7])
    """
    shape = tuple(_count(**{f"sizes[{i}]": size})[0] for i, size in enumerate(sizes))
    if not shape or min(shape) < 3:
        raise ValueError(f"sizes must be at least 3 in each dimension, got {sizes!r}")
    (rate,) = positive(bandwidth=bandwidth)
    hosts = int(np.prod(shape))
    return TorusLinks(hosts, 2, np.full(2 * hosts * len(shape), rate), shape)
