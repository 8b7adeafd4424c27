"""Topology: what a fabric of switches is made of, how much of it a cut leaves, and how far apart two GPUs are.

A scale-out fabric is a fat tree: leaf switches below, spines above them and cores above those. A TPU pod is a torus,
without packet switches. A scale-up domain is one stage of switches inside a server or a rack. Each is counted here in
cables and switches, cut in half, and crossed. A cable has a port at each end, and its bandwidth in each direction.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from .. import catalogue
from ..checks import Numeric, flags, nonnegative, pick
from ..quantities import Amount, BytesPerSecond, Count, Multiple, Number, Seconds, Share, law
from ..records import Explained, Rows, summary, words
from ..units import fmt

# How far a message travels, as :func:`path_tier` numbers it.
TIERS = ("device", "scale-up domain", "leaf", "pod", "core")
_MOST = 2**20  # of anything but hosts and GPUs: counts multiplied together stay exact integers


# --- Fat trees -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class FatTree(Explained):
    """Switches and cables of a fat tree, tier by tier, and its bisection. A two-tier tree has no cores.

    ``host_cables`` end at a leaf, ``spine_cables`` join leaf and spine, ``core_cables`` spine and core.
    """

    leaves: Count
    spines: Count
    cores: Amount
    host_cables: Count
    spine_cables: Count
    core_cables: Amount
    bisection_links: Amount  # with a host at every port of every leaf
    copper_hosts: bool = False

    @property
    def switches(self) -> Count:
        """Switches in all tiers."""
        return self.leaves + self.spines + self.cores

    @property
    def cables(self) -> Count:
        """Cables in all tiers."""
        return self.host_cables + self.spine_cables + self.core_cables

    @property
    def transceivers(self) -> Count:
        """Optical transceivers: two per cable, none for hosts' copper cables."""
        return 2 * (self.cables - self.host_cables * self.copper_hosts)

    def _rows(self) -> Rows:
        switches = self.leaves, self.spines, self.cores, self.switches
        cables = self.host_cables, self.spine_cables, self.core_cables, self.cables
        optics = self.host_cables * (not self.copper_hosts), self.spine_cables, self.core_cables
        columns = (switches, cables, (*(2 * number for number in optics), self.transceivers))
        names = "leaf", "spine", "core", "total"
        body = [(name, *map(summary, row)) for name, *row in zip(names, *columns, strict=True)]
        return [("tier", "switches", "cables below", "transceivers"), *body]


@law
def fat_tree_capacity(radix: Count, *, tiers: Count, oversubscription: Multiple = 1) -> Count:
    r"""Hosts that a full fat tree of identical switches connects.

    .. math:: N_2 = d\,k, \qquad N_3 = d\,k^2 / 2, \qquad d = k\,\frac{o}{1 + o}

    Without oversubscription these are k²/2 and k³/4. A leaf has d ports down and u = k - d ports up.

    Parameters
    ----------
    radix
        Ports of a switch, k: even, 2 to 65,536.
    tiers
        2 (leaf, spine) or 3 (leaf, spine, core).
    oversubscription
        A leaf's ports down over its ports up, o = d/u, at least 1. The tiers above are not oversubscribed.

    Returns
    -------
    Count
        Hosts (network ports of GPUs), an integer.

    Raises
    ------
    ValueError
        ``radix`` is odd or above 65,536, ``tiers`` is neither 2 nor 3, or ``oversubscription`` is not a ratio of whole
        ports (the message names the nearest).

    Notes
    -----
    Source: Al-Fares, Loukissas and Vahdat 2008, section 2.2, for k³/4; Leiserson 1985 for fat trees.

    Examples
    --------
    >>> [int(fat_tree_capacity(64, tiers=t)) for t in (2, 3)]
    [2048, 65536]
    """
    (tiers,) = _integers(2, 3, tiers=tiers)
    k, down, _ = _ports(radix, oversubscription)
    return down * k * np.where(tiers == 3, k // 2, 1)[()]


@law
def fat_tree(
    hosts: Count,
    radix: Count,
    *,
    tiers: Count | None = None,
    oversubscription: Multiple = 1,
    copper_hosts: bool = False,
) -> FatTree:
    r"""Smallest fat tree of identical switches for a number of hosts.

    With d ports down and u up on a leaf, L leaves and, in three tiers, P pods of up to k/2 leaves,

    .. math:: L = \lceil N/d \rceil, \qquad
        S_2 = \min\{s : s \mid u,\; s k \ge L u\}, \qquad
        P = \lceil 2L/k \rceil, \quad S_3 = P u, \quad
        C = u \cdot \min\{g : g \mid k/2,\; 2 g \ge P\}

    .. math:: \text{cables} = N + L u\; [+\, S_3\, k/2], \qquad
        \text{bisection} = \lfloor L/2 \rfloor\, u + (L \bmod 2) \lfloor d/2 \rfloor

    Each leaf has the same number of cables to every spine (of its pod), and each spine to every core of its group:
    otherwise traffic could not be spread evenly. That is why s and g are divisors.

    What is counted: one cable per host; every leaf that has a host, with all of its uplinks; every pod that has such a
    leaf, with all of its u spines and all of their uplinks, even if the last pod holds few leaves; and the fewest
    spines (two tiers) or cores (three) that the rule above allows. The top tier is built even where one leaf would do.

    Parameters
    ----------
    hosts
        Hosts to connect, N: network ports, in most clusters one per GPU.
    radix
        Ports of a switch, k: even, 2 to 65,536.
    tiers
        2 (leaf, spine) or 3 (leaf, spine, core); the default is 2 where they suffice.
    oversubscription
        A leaf's ports down over its ports up, o = d/u, at least 1. The tiers above are not oversubscribed.
    copper_hosts
        Whether the cables between hosts and leaves are copper, which needs no transceivers.

    Returns
    -------
    FatTree
        Switches and cables by tier, broadcast over the arguments. ``bisection_links`` is the least number of cables
        between any two halves of the hosts, with all ports of the leaves populated.

    Raises
    ------
    ValueError
        As for :func:`fat_tree_capacity`, or ``hosts`` are more than the tiers connect (the message says how many they
        do).

    Notes
    -----
    Source: Al-Fares, Loukissas and Vahdat 2008, section 2.2, for the complete tree of three tiers. The partly populated
    trees are those of NVIDIA's DGX SuperPOD reference architectures (B200, and B300 with XDR: component counts).

    Examples
    --------
    4,096 GPUs on switches of 64 ports, as in a DGX SuperPOD of 16 scalable units:

    >>> fat_tree(4096, 64)
    FatTree
    tier   switches  cables below  transceivers
    leaf        128         4,096         8,192
    spine       128         4,096         8,192
    core         64         4,096         8,192
    total       320        12,288        24,576
    """
    flags(copper_hosts=copper_hosts)
    n, (k, down, up) = _plain(hosts), _ports(radix, oversubscription)
    if tiers is None:
        tiers = pick(n <= fat_tree_capacity.unchecked(radix, tiers=2, oversubscription=oversubscription), 2, 3)
    (tiers,) = _integers(2, 3, tiers=tiers)
    most = fat_tree_capacity.unchecked(radix, tiers=tiers, oversubscription=oversubscription)
    if np.any(over := n > most):
        n, most, k, ratio, tiers = _first(over, n, most, k, down / up, tiers)
        of = f"{tiers} tiers of radix {k} and oversubscription {ratio:g}"
        raise ValueError(f"hosts must be at most {most:,} for {of}, got {n:,.12g}")
    (n,) = _integers(1, 2**53, hosts=n)
    three = np.equal(tiers, 3)
    leaves = _ceil_div(n, down)
    pods = _ceil_div(leaves, k // 2)
    spines = np.where(three, pods * up, _divisor(up, _ceil_div(leaves * up, k)))
    cores = np.where(three, up * _divisor(k // 2, _ceil_div(pods, 2)), 0)
    parts = {
        "leaves": leaves,
        "spines": spines,
        "cores": cores,
        "host_cables": n,
        "spine_cables": leaves * up,
        "core_cables": np.where(three, spines * (k // 2), 0),
        "bisection_links": leaves // 2 * up + leaves % 2 * (down // 2),
    }
    same_shape = zip(parts, np.broadcast_arrays(*parts.values()), strict=True)
    return FatTree(**{name: part[()] for name, part in same_shape}, copper_hosts=copper_hosts)


def _ports(radix: Count, oversubscription: Multiple) -> tuple[Numeric, Numeric, Numeric]:
    """Radix, and a leaf's downlinks and uplinks."""
    (k,) = _integers(2, 2**16, radix=radix)
    if np.any(odd := k % 2 == 1):
        raise ValueError(f"radix must be even, got {_first(odd, k)[0]}")
    ratio = _plain(oversubscription)
    up = np.clip(np.rint(k / (1 + ratio)), 1, k // 2).astype(np.int64)
    if np.any(split := np.abs(k / up - 1 - ratio) > 1e-9 * ratio):
        k, up, ratio = _first(split, k, up, ratio)
        raise ValueError(
            "oversubscription must be a ratio of whole ports down to whole ports up, "
            f"got {ratio:g} for radix {k}; near it: {k - up}/{up} = {(k - up) / up:.6g}"
        )
    return k, k - up, up


def _ceil_div(number: Numeric, per: Numeric) -> Numeric:
    return -(-number // per)


@np.vectorize(otypes=[np.int64])
def _divisor(number: int, least: int) -> int:
    """The smallest divisor of ``number`` from ``least`` on; ``number`` itself where that is larger still."""
    return next((d for d in range(max(int(least), 1), int(number)) if number % d == 0), number)


@law
def bisection_bandwidth(links: Number, bandwidth: BytesPerSecond) -> BytesPerSecond:
    r"""Bandwidth between the halves of a fabric, one direction.

    .. math:: B = \text{links} \cdot \beta

    Parameters
    ----------
    links
        Cables between the halves: ``bisection_links`` of a :class:`FatTree` or a :class:`Torus`.
    bandwidth
        Bandwidth of one cable, bytes/s per direction.

    Returns
    -------
    BytesPerSecond
        A fat tree without oversubscription gives half the hosts their full bandwidth.

    Notes
    -----
    Source: Dally and Towles 2004, chapter 3, who add both directions.

    Examples
    --------
    >>> float(bisection_bandwidth(fat_tree(2048, 64).bisection_links, 50e9) / 50e9)
    1024.0
    """
    return links * bandwidth


# --- Tori ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class Torus(Explained):
    """Nodes and links of a torus, its bisection, and the hops of its shortest paths."""

    nodes: Count
    links: Count
    bisection_links: Count
    diameter: Count
    average_hops: Multiple

    def _rows(self) -> Rows:
        counts = [(name, summary(getattr(self, name))) for name in ("nodes", "links", "bisection_links", "diameter")]
        rows = [*counts, ("average_hops", f"{self.average_hops:.4g}")]
        return [("", "value"), *((words(name), value) for name, value in rows)]


def torus(sizes: Sequence[int]) -> Torus:
    r"""Links, bisection and distances of a torus: a grid whose rows and columns wrap around into rings.

    .. math:: \text{links} = \frac{N}{2} \sum_i r_i, \qquad
        D = \sum_i \lfloor k_i/2 \rfloor, \qquad
        \bar h = \frac{N}{N-1} \sum_i \frac{\lfloor k_i^2/4 \rfloor}{k_i}, \qquad
        \text{bisection} = \sum_{i=1}^{e} r_i \prod_{j>i} k_j

    with r = 2 links at each node along a dimension. A dimension of size 2 has no wrap-around: it would be a second
    cable between the same two nodes, so r = 1 there, and a torus of sizes 2 is a hypercube. The sum takes the longest
    rings first and ends at the first even one, e: a cut of an even ring halves the nodes, with 2N/k links; an odd ring
    leaves a layer between the halves, which the cut must halve in turn. In that order a ring of 2 counts as one of 4:
    it costs as much to cut.

    Parameters
    ----------
    sizes
        Nodes along each dimension, each at least 2; one torus, any number of dimensions.

    Returns
    -------
    Torus
        ``bisection_links`` is the least number of links between any two halves (an odd number of nodes splits into
        halves that differ by one). ``average_hops`` is the mean over all pairs of different nodes.

    Raises
    ------
    ValueError
        A dimension has fewer than two nodes.

    Notes
    -----
    Source: Dally and Towles 2004, chapter 5, for even k (they count both directions: 4N/k); Arjona Aroca and Fernández
    Anta 2014 for the bisection with odd sizes.

    Examples
    --------
    A TPU v4 pod:

    >>> torus((16, 16, 16))
    Torus
                      value
    nodes             4,096
    links            12,288
    bisection links     512
    diameter             24
    average hops         12
    """
    if np.ndim(sizes) != 1:
        raise ValueError(f"sizes must be a sequence of whole numbers, one for each dimension, got {sizes!r}")
    (whole,) = _integers(2, sizes=nonnegative(sizes=sizes)[0])
    k = whole.tolist()
    n = math.prod(k)
    cut, layer = 0, n
    for size in sorted(k, key=lambda size: 4 if size == 2 else size, reverse=True):
        layer //= size
        cut += layer * min(size - 1, 2)
        if size % 2 == 0:
            break
    links = sum(n // size * (size if size > 2 else 1) for size in k)
    hops = n / (n - 1) * math.fsum(size**2 // 4 / size for size in k)
    return Torus(n, links, cut, sum(size // 2 for size in k), hops)


# --- Scale-up domains ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class ScaleUp(Explained):
    """Switches of a scale-up domain, and the cables between them and the GPUs."""

    cables: Count
    switches: Count

    @property
    def cables_per_switch(self) -> Count:
        """Ports of each switch in use."""
        return self.cables // self.switches

    _shown: ClassVar = {"cables": "", "switches": "", "cables_per_switch": ""}


@law
def scale_up(gpus: Count, *, links: Count, switch_ports: Count) -> ScaleUp:
    r"""Cables and switches of a scale-up domain: every GPU wired to every switch of one stage.

    .. math:: \text{cables} = G\,l, \qquad s = \min\{s : s \mid l,\; s\,p \ge G\,l\}

    Cables grow with the domain and with the bandwidth of a GPU, and all of them end in the same rack. One stage holds
    at most as many GPUs as a switch has ports, G <= p. A second stage would take at least G l cables more.

    Parameters
    ----------
    gpus
        GPUs of the domain, G.
    links
        Links of each GPU, l.
    switch_ports
        Ports of a switch chip, p.

    Returns
    -------
    ScaleUp
        Cables (one per link, both directions) and the fewest switches to which each GPU has equally many links. Any GPU
        reaches any other at its full bandwidth.

    Raises
    ------
    ValueError
        ``gpus`` exceed ``switch_ports``, or a number is above 1,048,576.

    Notes
    -----
    Derived from the wiring of NVIDIA's NVLink switches; a vendor may fit more switches than the fewest (a DGX H100 has
    four where three have the ports).

    Examples
    --------
    A GB200 NVL72: nine trays of two switch chips, all of whose 72 ports are in use.

    >>> scale_up(72, links=18, switch_ports=72)
    ScaleUp
                       value
    cables             1,296
    switches              18
    cables per switch     72
    """
    g, each, ports = _integers(gpus=gpus, links=links, switch_ports=switch_ports)
    if np.any(over := np.greater(g, ports)):
        g, ports = _first(over, g, ports)
        raise ValueError(f"gpus must be at most switch_ports, {ports:,}, in one stage, got {g:,}")
    cables, switches = np.broadcast_arrays(g * each, _divisor(each, _ceil_div(g * each, ports)))
    return ScaleUp(cables[()], switches[()])


# --- The hierarchy: from the registers to another data centre --------------------------------------------------------


@dataclass(frozen=True)
class Tier:
    """One level of the hierarchy: bytes/s of one accelerator per direction, seconds, and what usually travels there."""

    name: str
    bandwidth: BytesPerSecond
    latency: Seconds | None
    carries: str


@dataclass(frozen=True, repr=False)
class Hierarchy(Explained):
    """The tiers of one machine, from the chip outwards."""

    node: str
    tiers: tuple[Tier, ...]

    def _rows(self) -> Rows:
        rows = [(self.node, "bandwidth", "latency", "carries")]
        for tier in self.tiers:
            latency = "-" if tier.latency is None else fmt(tier.latency, "s")
            rows.append((tier.name, fmt(tier.bandwidth, "B/s"), latency, tier.carries))
        return rows


def hierarchy(node: str = "DGX H100") -> Hierarchy:
    """Tiers from the registers of one accelerator of a server or a rack to another data centre.

    Parameters
    ----------
    node
        Name of a server or a rack in :mod:`clusterlab.catalogue`. On-chip memories are listed where the data holds
        them.

    Returns
    -------
    Hierarchy
        For each tier the bandwidth of one accelerator, per direction, the latency (None where no source gives it), and
        what usually travels there. The accelerators share the network ports of their machine evenly.

    Notes
    -----
    Source: the records of :mod:`clusterlab.catalogue`, each with its own source; what a tier carries is common
    practice. The last tier is one wavelength of 400 Gbit/s and MLSysBook's planning value for latency.

    Examples
    --------
    >>> [tier.name for tier in hierarchy("DGX B200").tiers]
    ['HBM', 'NVLink 5', 'InfiniBand NDR', 'other data centre']
    """
    machines = {machine.name: machine for machine in (*catalogue.nodes(), *catalogue.racks())}
    machine = catalogue.find("node", node, machines)
    chip = catalogue.accelerator(machine.accelerator)
    on_chip = {
        "registers": "operands of one thread",
        "L1": "tiles of a matrix product",
        "L2": "tiles that multiprocessors share",
    }
    tiers = []
    for level in catalogue.memories():
        if level.accelerator == chip.name:
            kind = level.name.removeprefix(f"{chip.name} ")
            tiers.append(Tier(kind, level.bandwidth, level.latency, on_chip.get(kind, "data close to the arithmetic")))
    tiers.append(Tier("HBM", chip.hbm_bandwidth, chip.hbm_latency, "weights, activations, key-value cache"))
    ports = (machine.network_ports or machine.accelerators) / machine.accelerators
    for name, many, carries in (
        (chip.scale_up_link, 1, "tensor and expert parallelism"),
        (machine.network_link, ports, "data and pipeline parallelism"),
        ("Cross-data-centre", 1, "checkpoints, data, replicas"),
    ):
        if name:
            link, shown = catalogue.link(name), "other data centre" if name == "Cross-data-centre" else name
            tiers.append(Tier(shown, many * link.bandwidth, link.latency, carries))
    return Hierarchy(node, tuple(tiers))


# --- Placement: how far apart two GPUs are ---------------------------------------------------------------------------


@law
def path_tier(
    source: Amount,
    target: Amount,
    *,
    domain: Count,
    hosts_per_leaf: Count,
    leaves_per_pod: Count | None = None,
    rails: Count = 1,
    forward: bool = False,
) -> Amount:
    r"""Highest tier on the path between two GPUs, an index into ``TIERS``.

    GPU i has one port, on leaf

    .. math:: \text{leaf}(i) = R \left\lfloor \frac{\lfloor i/R \rfloor}{d} \right\rfloor + i \bmod R

    With R = 1 rail, neighbours share a leaf (top of rack). With R rails, one per GPU of a node, the GPUs r of d
    nodes share one (rail-optimised), and the other GPUs of those nodes are on R - 1 other leaves.

    Parameters
    ----------
    source, target
        Indices of the GPUs, from 0, node by node.
    domain
        GPUs of a scale-up domain: 8 in an HGX server, 72 in an NVL72 rack.
    hosts_per_leaf
        Ports down of a leaf, d.
    leaves_per_pod
        Leaves of a pod in a fabric of three tiers; by default there are two, and no core.
    rails
        Rails, R: 1, or the GPUs of a node. It divides ``domain``.
    forward
        Whether the message first moves over the scale-up links to the GPU of its node that is on the target's rail
        (NCCL's PXN).

    Returns
    -------
    Amount
        0 (same device), 1 (same scale-up domain), 2 (same leaf), 3 (same pod) or 4 (across the core).

    Raises
    ------
    ValueError
        ``rails`` does not divide ``domain``, an index is not a whole number, or a number is too large.

    Notes
    -----
    Source: NVIDIA DGX SuperPOD reference architecture, for rails; Grattafiori et al. 2024 (Llama 3), section 3.3.1, for
    racks under a leaf of their own.

    Examples
    --------
    GPU 3 of the first node, and GPUs 3 and 5 of the second: the same leaf, another leaf, and one leaf after forwarding.

    >>> rail = {"domain": 8, "hosts_per_leaf": 32, "rails": 8}
    >>> [TIERS[path_tier(3, 8 + r, **rail)] for r in (3, 5)], TIERS[path_tier(3, 8 + 5, **rail, forward=True)]
    (['leaf', 'pod'], 'leaf')
    """
    flags(forward=forward)
    a, b = _integers(0, 2**53, source=source, target=target)
    width, down, rails = _integers(domain=domain, hosts_per_leaf=hosts_per_leaf, rails=rails)
    if np.any(apart := np.not_equal(width % rails, 0)):
        width, rails = _first(apart, width, rails)
        raise ValueError(f"rails must divide domain, got {rails} and {width}")
    sender = a // rails * rails + b % rails if forward else a
    leaf_a, leaf_b = (gpu // rails // down * rails + gpu % rails for gpu in (sender, b))
    network = 2 + np.not_equal(leaf_a, leaf_b).astype(np.int64)
    if leaves_per_pod is not None:
        (pod,) = _integers(leaves_per_pod=leaves_per_pod)
        network = network + np.not_equal(leaf_a // pod, leaf_b // pod)  # of leaves that differ: pods do not share one
    return np.where(np.equal(a, b), 0, np.where(np.equal(a // width, b // width), 1, network))[()]


@law
def leaf_reach(hosts_per_leaf: Count, *, rails: Count = 1, forward: bool = False) -> Count:
    r"""GPUs that reach one another through a single leaf switch.

    .. math:: d \quad\text{direct}, \qquad d\,R \quad\text{forwarded on the target's rail}

    Parameters
    ----------
    hosts_per_leaf
        Ports down of a leaf, d.
    rails
        Rails, R: 1 (top of rack), or the GPUs of a node (rail-optimised).
    forward
        Whether a message first moves to the target's rail over the scale-up links: see :func:`path_tier`.

    Returns
    -------
    Count
        GPUs, the sender among them.

    Raises
    ------
    ValueError
        A number is above 1,048,576.

    Notes
    -----
    Source: NVIDIA DGX SuperPOD reference architecture, where a scalable unit is 32 nodes under eight leaves.

    Examples
    --------
    >>> leaf_reach(32), leaf_reach(32, rails=8, forward=True)
    (32, 256)
    """
    down, rails = _integers(hosts_per_leaf=hosts_per_leaf, rails=rails)
    flags(forward=forward)
    return down * (rails if forward else rails // rails)


@law
def path_bandwidth(
    tier: Amount,
    *,
    memory: BytesPerSecond,
    scale_up: BytesPerSecond,
    network: BytesPerSecond,
    leaf_oversubscription: Multiple = 1,
    core_oversubscription: Multiple = 1,
) -> BytesPerSecond:
    r"""Bandwidth of each GPU when all send that far at once: what the worst pair gets.

    .. math:: \beta = \left( \beta_\text{memory},\; \beta_\text{up},\; \beta_\text{net},\;
        \frac{\beta_\text{net}}{o_\text{leaf}},\;
        \frac{\beta_\text{net}}{o_\text{leaf}\, o_\text{core}} \right)_t

    Parameters
    ----------
    tier
        Highest tier on the path, t: see :func:`path_tier`.
    memory, scale_up, network
        Bandwidth of the GPU's memory, of its scale-up links together, and of its network port, bytes/s per direction.
    leaf_oversubscription, core_oversubscription
        Downlink over uplink bandwidth of the leaves, and of the spines, each at least 1.

    Returns
    -------
    BytesPerSecond
        A pair that sends alone has the bandwidth of its port at every tier from the leaf on.

    Raises
    ------
    ValueError
        ``tier`` is not a whole number from 0 to 4.

    Notes
    -----
    Source: Al-Fares, Loukissas and Vahdat 2008, section 2.1.2: oversubscription is the ratio of the worst case. Traffic
    is taken to be spread evenly; collisions of flows lose more.

    Examples
    --------
    H100s in a fabric of the Llama 3 paper's shape, 1:7 at the core:

    >>> from clusterlab.catalogue import accelerator, link
    >>> parts = {"memory": accelerator("H100 SXM"), "scale_up": link("NVLink 4"), "network": link("RoCE 400 GbE")}
    >>> rates = {n: p.hbm_bandwidth if n == "memory" else p.bandwidth for n, p in parts.items()}
    >>> path_bandwidth([0, 1, 2, 3, 4], **rates, core_oversubscription=7).round(-8) / 1e9
    array([3350. ,  450. ,   50. ,   50. ,    7.1])
    """
    (tier,) = _integers(0, 4, tier=tier)
    pod = network / leaf_oversubscription
    steps = (memory, scale_up, network, pod, pod / core_oversubscription)
    return sum(np.equal(tier, i) * step for i, step in enumerate(steps))


@law
def crossing_slowdown(crossing: Share, oversubscription: Multiple) -> Multiple:
    r"""How many times as long traffic takes of which a share crosses thin leaves, where all ports send at once.

    .. math:: \max(1,\; s\, o)

    A leaf's ports send the bytes S of each host at their rate, and its uplinks, 1/o of that, the share that leaves.

    Parameters
    ----------
    crossing
        Share of what the ports under a leaf send that goes to hosts under others, s. A ring in the order of its hosts
        sends 1/m out of a leaf that has m of them, since one of m hosts has its neighbour elsewhere; and a ring under
        one leaf nothing. An all-to-all of n hosts sends (n - m)/(n - 1).
    oversubscription
        Downlink over uplink bandwidth of a leaf, o, at least 1.

    Returns
    -------
    Multiple
        1 as long as no more leaves than there are uplinks for.

    Notes
    -----
    Derived: the fullest link sets the time, and that is a port or an uplink. Traffic is spread evenly over the uplinks;
    collisions of flows lose more.

    Examples
    --------
    Leaves of 32 hosts at 4:1. A ring does not feel them, an all-to-all of 64 hosts does, and neighbours of which none
    is under the same leaf feel all of it.

    >>> crossing_slowdown([1 / 32, 32 / 63, 1], 4).round(2)
    array([1.  , 2.03, 4.  ])
    """
    return np.maximum(crossing * oversubscription, 1)


@law
def path_latency(tier: Amount, *, scale_up: Seconds, network: Seconds, switch: Seconds) -> Seconds:
    r"""One-way latency of a message that travels up to a tier.

    .. math:: T = \left( 0,\; T_\text{up},\; T_\text{net},\; T_\text{net} + 2 T_\text{switch},\;
        T_\text{net} + 4 T_\text{switch} \right)_t

    Parameters
    ----------
    tier
        Highest tier on the path, t: see :func:`path_tier`.
    scale_up
        Latency inside the scale-up domain, seconds.
    network
        Latency between two GPUs under one leaf, seconds: adapters, two cables and the leaf.
    switch
        Latency that each further switch and its cable add, seconds.

    Returns
    -------
    Seconds
        Without queueing; 0 on the device itself.

    Raises
    ------
    ValueError
        ``tier`` is not a whole number from 0 to 4.

    Notes
    -----
    Derived: each tier adds a switch on the way up and one on the way down.

    Examples
    --------
    DeepSeek measured 2.8 µs under one leaf of an InfiniBand fabric and 3.7 µs across leaves: 0.45 µs for each switch.

    >>> path_latency([1, 2, 3, 4], scale_up=3.33e-6, network=2.8e-6, switch=0.45e-6).round(9) * 1e6
    array([3.33, 2.8 , 3.7 , 4.6 ])
    """
    (tier,) = _integers(0, 4, tier=tier)
    return np.equal(tier, 1) * scale_up + np.greater(tier, 1) * network + 2 * np.maximum(tier - 2, 0) * switch


# --- Whole numbers, exactly ------------------------------------------------------------------------------------------


def _plain(value: Numeric) -> Numeric:
    """A number or an array; of a Pint quantity without a dimension, its magnitude."""
    return value.to("").magnitude if hasattr(value, "dimensionality") else value


def _integers(least: int = 1, most: int = _MOST, **values: Numeric) -> list[Numeric]:
    """Each number as an int or an integer array, or a ValueError naming the one that is not whole or out of range."""
    integers = []
    for name, value in values.items():
        if getattr(value, "dimensionality", None):
            raise ValueError(f"{name} must be a plain number, got a quantity in {value.units}")
        number = _plain(value)
        wrong = (number < least) | (number > most) | (number != np.floor(number))
        if np.any(wrong):
            worst = np.asarray(number)[np.asarray(wrong)].flat[0]
            raise ValueError(f"{name} must be a whole number from {least:,} to {most:,}, got {worst:,.12g}")
        integers.append(int(number) if np.ndim(number) == 0 else number.astype(np.int64))
    return integers


def _first(wrong: Numeric, *values: Numeric) -> list[Numeric]:
    """The values, one number each, at the first place where something is wrong."""
    at, *same_shape = np.broadcast_arrays(wrong, *values)
    return [value[at][0] for value in same_shape]
