"""Shared fabrics: what was published of flows and jobs that meet, beside what the laws of contention say of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ..catalogue import link
from ..contention import blocked_rates, clos, fullest_link, hashed, least_loaded, max_min_rates, most_from_shifting
from ..interconnect import hierarchical_all_to_all, pairwise_all_to_all
from ..records import Explained, Rows, with_interval
from .tables import published


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
        return self.low <= self.measured <= self.high

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
