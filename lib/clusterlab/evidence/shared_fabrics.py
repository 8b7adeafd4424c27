"""Shared fabrics: what was published of flows and jobs that meet, beside what the laws of contention say of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from ..catalogue import link
from ..contention import (
    Clos,
    PeriodicJob,
    Routes,
    blocked_rates,
    clos,
    drain_time,
    fullest_link,
    hashed,
    least_loaded,
    max_min_rates,
    most_from_shifting,
    simulate_jobs,
)
from ..interconnect import hierarchical_all_to_all, pairwise_all_to_all
from ..records import Explained, Rows, with_interval
from .tables import published

_ROUNDED = 2e-3  # as figures of three digits are


@dataclass(frozen=True, repr=False)
class FabricClaim(Explained):
    """One published figure, and the range in which the law puts it, from what the source leaves open.

    ``role`` is ``"predicted"``, or ``"bound"``: the law says only what it cannot exceed.
    """

    run: str
    what: str
    measured: float
    low: float
    high: float
    role: str
    unit: str
    source: str
    url: str

    @property
    def inside(self) -> bool:
        """Whether the published figure is in the range."""
        return self.low * (1 - _ROUNDED) <= self.measured <= self.high * (1 + _ROUNDED)

    @property
    def error(self) -> float:
        """The middle of the range over the published figure, less 1."""
        return (self.low + self.high) / 2 / self.measured - 1

    def _rows(self) -> Rows:
        middle = with_interval((self.low + self.high) / 2, self.low, self.high, self.unit)
        return [
            ("", "value"),
            ("run", self.run),
            ("what", self.what),
            ("published", f"{self.measured:g}"),
            (self.role, middle),
        ]


def fabric_claims(*, patterns: int = 20) -> list[FabricClaim]:
    """Published figures of shared fabrics beside the laws; nothing was fitted to any of them.

    Parameters
    ----------
    patterns
        Random pairs of a fabric that a figure over many such patterns is predicted from.

    Examples
    --------
    >>> for claim in fabric_claims(patterns=5):
    ...     print(f"{claim.run:14} {claim.measured:5.3f}  {claim.low:.3f} to {claim.high:.3f}  {claim.role}")
    Myri-10G       0.380  0.398 to 0.418  predicted
    Myri-10G       0.770  0.418 to 0.886  bound
    HotNets '22    1.300  1.000 to 1.500  bound
    CASSINI        1.600  1.000 to 2.000  bound
    MLTCP          2.000  1.000 to 2.000  bound
    Meta RoCE      1.400  1.000 to 2.063  bound
    Rail-only      0.082  0.073 to 0.111  predicted
    Rail-only      0.112  0.073 to 0.111  predicted
    HPN            1.501  1.367 to 2.000  predicted
    HPN            1.637  1.367 to 2.000  predicted
    HPN            2.582  1.000 to 2.984  bound
    HPN            1.347  1.000 to 2.033  bound
    Crux           0.375  0.375 to 0.375  predicted
    Crux           0.417  0.417 to 0.417  predicted
    InfiniBand     0.550  0.526 to 0.706  predicted
    InfiniBand     0.600  0.526 to 0.706  predicted
    UCCL           2.500  1.000 to 1.817  bound
    BlueField-2    0.217  1.000 to 1.000  predicted
    """
    drawn, blocked, chosen = _random_pairs(patterns)
    limit = 2.0  # what most_from_shifting tends to with ever more jobs
    ranges: Mapping[tuple[str, str], tuple[float, float, str]] = {
        ("Myri-10G", "static routes"): (blocked, drawn, "predicted"),
        ("Myri-10G", "adaptive routes"): (drawn, chosen, "bound"),
        ("HotNets '22", "two jobs"): (1.0, float(most_from_shifting(2)), "bound"),
        ("CASSINI", "several jobs"): (1.0, limit, "bound"),
        ("MLTCP", "several jobs"): (1.0, limit, "bound"),
        ("Meta RoCE", "all-reduce"): (1.0, _queue_pair_gain(), "bound"),
        ("Rail-only", "all-to-all"): (*_forwarding(), "predicted"),
        ("HPN", "all-reduce"): (_one_plane(16), _one_plane(1), "predicted"),
        # Of a segment's two switches each has 128 ports of 200G down and 64 of 400G up; at worst all flows cross.
        ("HPN", "eight all-reduces"): (1.0, float(fullest_link(128, 64)) / 2, "bound"),
        # Half of 64 servers under a switch of each rail and plane, 60 uplinks of 400G; at worst all 64 flows cross.
        ("HPN", "four all-reduces"): (1.0, float(fullest_link(64, 60)) / 2, "bound"),
        ("Crux", "long job first"): (_used(1), _used(1), "predicted"),
        ("Crux", "short job first"): (_used(0), _used(0), "predicted"),
        ("InfiniBand", "one way"): (*_one_way(patterns), "predicted"),
        # Eight rings leave a rack of three servers, which has 24 ports and as many uplinks.
        ("UCCL", "all-reduce"): (1.0, float(fullest_link(8, 24)), "bound"),
        ("BlueField-2", "incast"): (_into_one(), _into_one(), "predicted"),
    }
    found = []
    for row in published("contention"):
        low, high, role = ranges[row["run"], row["what"]]
        unit = "%" if high <= 1 else ""
        for value in sorted({row["low"], row["high"]}):
            what = f"{row['metric']}, {row['what']}"
            found.append(FabricClaim(row["run"], what, value, low, high, role, unit, row["source"], row["url"]))
    return found


def _random_pairs(patterns: int) -> tuple[float, float, float]:
    """Mean rate of 256 random pairs that exchange on the Clos of 512 nodes, over a port's: drawn, blocked, chosen.

    An exchange ends when both directions have, so a pair has the lower of its two rates.
    """
    fabric = clos(16, 32, 16, bandwidth=1.0)
    rates = []
    for seed in range(patterns):
        one, other = np.random.default_rng(seed).permutation(512).reshape(2, 256)
        source, target = np.concatenate([one, other]), np.concatenate([other, one])
        ways = hashed(fabric, source, target, seed=seed)
        chosen = least_loaded(fabric, source, target)
        found = [max_min_rates(fabric.capacity, ways), blocked_rates(fabric.capacity, ways)]
        found.append(max_min_rates(fabric.capacity, chosen))
        rates.append([np.minimum(one[:256], one[256:]).mean() for one in found])
    drawn, blocked, chosen_rate = np.mean(rates, axis=0).tolist()
    return drawn, blocked, chosen_rate


def _one_way(patterns: int) -> tuple[float, float]:
    """Mean rate of random halves that send to the other half, over a port's, in fabrics of crossbars of 24 ports.

    How large the clusters were is not said where we read it: from 288 hosts in two tiers to 3,456 in three, and from
    queues that block to queues that don't.
    """

    def rates(fabric: Clos, share: Callable[[np.ndarray, Routes], np.ndarray], times: int) -> float:
        halves = [np.random.default_rng(seed).permutation(fabric.hosts).reshape(2, -1) for seed in range(times)]
        ways = [hashed(fabric, *ends, seed=seed) for seed, ends in enumerate(halves)]
        return float(np.mean([share(fabric.capacity, one).mean() for one in ways]))

    large = clos(12, 12, 12, bandwidth=1.0, pods=24, cores=12)
    return rates(large, blocked_rates, 1), rates(clos(12, 24, 12, bandwidth=1.0), max_min_rates, patterns)


def _one_plane(queue_pairs: int) -> float:
    """How many times as long an all-reduce takes where either port of an adapter may be hit.

    An adapter has two ports of half its rate, on two switches, and a flow from each of a sender's ports. Which port it
    comes in by, a hash decides on the way down; with two planes it is the one it left by. Each of eight rails crosses
    twice, and all wait for the last.
    """
    adapters = clos(2, 32, 2, bandwidth=1.0)  # a leaf is an adapter, its uplinks are the two switches
    flows = hashed(adapters, range(32), range(32, 64), draws=200, queue_pairs=queue_pairs)
    return float(drain_time(adapters.capacity, flows, 1.0).mean())


def _used(first: int) -> float:
    """Share of twelve seconds that two jobs on one link compute, by steps that are done, if one of them goes first."""
    link_of_both = Routes(np.array([[0]]))
    jobs = [PeriodicJob(each, each, link_of_both, priority=int(each == first + 1)) for each in (1, 2)]
    done = (simulate_jobs([1.0], jobs, iterations=7) <= 12 * (1 + 1e-9)).sum(axis=1)
    return float(done @ np.array([1, 2])) / (2 * 12)


def _into_one() -> float:
    """Rate of two senders together into one receiver, over that of one: shares are fair, and the port is full."""
    alone, together = (clos(n, 1, 1, bandwidth=1.0) for n in (2, 3))
    one, both = (max_min_rates(f.capacity, hashed(f, range(1, f.hosts), 0)).sum() for f in (alone, together))
    return float(both / one)


def _queue_pair_gain() -> float:
    """Faster by queue pairs, at most: from one flow between two GPUs to flows that are spread evenly.

    A rack of Meta's has two servers of eight GPUs (Llama 3, section 3.3.1), so on each rail one flow of a ring leaves
    it: eight, on the sixteen uplinks of a leaf that blocks nobody. How many flows there were before is not said.
    """
    return float(fullest_link(8, 16))


def _forwarding() -> tuple[float, float]:
    """What a stage on the scale-up links adds to an all-to-all, from eight A100s to a domain of 256 H100s."""
    added = []
    for port, inside, size in (("InfiniBand HDR", "NVLink 3", 8), ("InfiniBand NDR", "NVLink 4", 256)):
        n, ports, within = 256 * size, link(port).bandwidth, link(inside).bandwidth
        links = {"bandwidth": ports, "latency": 0.0, "node_bandwidth": within, "node_latency": 0.0}
        there = hierarchical_all_to_all(1e9, n, node_size=size, **links)
        across = pairwise_all_to_all(1e9, n / size, bandwidth=ports, latency=0.0)
        added.append(float(there.time / across.time) - 1)
    return added[0], added[1]
