"""Which machine is sick? What a student computes from the pairwise tests of seventeen servers."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from clusterlab import catalogue, operations
from clusterlab.evidence import by_source, fit_links, read_timings
from clusterlab.interconnect import all_to_all_local_share
from clusterlab.units import GB, fmt

DATA = Path(__file__).parent / "data"
SERVERS, SIZES = 17, (1, 4, 8)
SLOW = 20.0  # GB/s: with four or eight GPUs of each, every pair is well above or well below


def matrix(gpus: int) -> np.ndarray:
    """Task 1: bus bandwidth of every pair, GB/s; NaN where the test gave none."""
    return np.loadtxt(DATA / f"alltoall_{gpus}.txt")


def upper(square: np.ndarray) -> np.ndarray:
    """Each pair once."""
    return square[np.triu_indices(SERVERS, 1)]


def wire(bus_bandwidth: float, gpus: int) -> float:
    """Task 2: what crosses one GPU's port, of a bus bandwidth."""
    return float(bus_bandwidth * (1 - all_to_all_local_share(2 * gpus, node_size=gpus)))


def leaf() -> np.ndarray:
    """Task 4: which servers are as near to server 1 as servers can be, with all eight GPUs."""
    near = matrix(8)[0] > SLOW
    near[0] = True
    return near


def answers() -> dict[str, str]:
    """Every number of the sample report."""
    all_pairs = {gpus: upper(matrix(gpus)) for gpus in SIZES}
    usual = {gpus: float(np.nanmedian(pairs)) for gpus, pairs in all_pairs.items()}
    best = float(np.nanmax(all_pairs[8]))  # of two heaps: their median says nothing
    ports = {gpus: wire(usual[gpus] if gpus < 8 else best, gpus) for gpus in SIZES}

    rows, _ = read_timings(DATA / "pair.log", scale_up="NVLink 4", network="InfiniBand NDR")
    fitted = fit_links(by_source(rows)["pair"])
    largest = rows[-1]
    by_hand = largest.size / 2 / largest.seconds

    # 3. Who is slow with four GPUs of each?
    four = matrix(4)
    sick = np.isnan(four) | (four < SLOW)
    np.fill_diagonal(sick, False)
    pairs_of = sick.sum(axis=1)
    bad = int(pairs_of.sum() // 2)
    worst = int(np.argmax(pairs_of))
    slow_one = all_pairs[1][all_pairs[1] < 10]
    eight = matrix(8)[worst]

    # 4. Two halves.
    side = leaf()
    across = upper(matrix(8))[upper(side[:, None] ^ side[None, :])]
    within = upper(matrix(8))[~upper(side[:, None] ^ side[None, :])]
    across_4 = upper(four)[upper(side[:, None] ^ side[None, :])]
    healthy_across_4 = float(np.nanmax(across_4))
    lost = np.nanmedian(across) / np.nanmedian(within)
    ndr = catalogue.link("InfiniBand NDR").bandwidth
    return {
        "pairs": f"{len(all_pairs[1])}",
        **{f"failed_{g}": f"{int(np.isnan(all_pairs[g]).sum())}" for g in SIZES},
        **{f"usual_{g}": f"{usual[g]:.1f}" for g in SIZES},
        "best_8": f"{best:.1f}",
        **{f"share_{g}": f"{g}/{2 * g - 1}" for g in SIZES},
        **{f"leaves_{g}": fmt(1 - all_to_all_local_share(2 * g, node_size=g), "%", digits=2) for g in SIZES},
        **{f"port_{g}": f"{ports[g]:.1f} GB/s" for g in SIZES},
        "size": f"{largest.size / 1e6:.0f} MB",
        "time": f"{largest.seconds * 1e3:.2f} ms",
        "by_hand": f"{by_hand / GB:.1f} GB/s",
        "fitted": fmt(fitted.bandwidth, "B/s"),
        "alpha": fmt(fitted.alpha or 0, "s", digits=2),
        "bits": f"{usual[1] * 8:.0f} Gbit/s",
        "ndr": f"{ndr / GB:.0f} GB/s",
        "of_ndr": fmt(usual[1] * GB / ndr, "%", digits=2),
        "worst": f"{worst + 1}",
        "worst_pairs": f"{pairs_of[worst]}",
        "partners": f"{SERVERS - 1}",
        "bad": f"{bad}",
        "mean_pairs": f"{2 * bad / SERVERS:.1f}",
        "second": f"{np.sort(pairs_of)[-2]}",
        "slow_one": f"{len(slow_one)}",
        "slow_one_low": f"{slow_one.min():.1f}",
        "slow_one_high": f"{slow_one.max():.1f}",
        "worst_in_one": f"{int((matrix(1)[worst] < 10).sum())}",
        "worst_in_eight": f"{np.nanmin(eight[side & ~np.isnan(eight)]):.1f}",
        "side": ", ".join(str(n + 1) for n in np.flatnonzero(side)),
        "other": ", ".join(str(n + 1) for n in np.flatnonzero(~side)),
        "sizes": f"{side.sum()} and {(~side).sum()}",
        "within": f"{np.nanmedian(within):.1f}",
        "within_low": f"{np.nanmin(within):.1f}",
        "within_high": f"{np.nanmax(within):.1f}",
        "across": f"{np.nanmedian(across):.1f}",
        "across_low": f"{np.nanmin(across):.1f}",
        "across_high": f"{np.nanmax(across):.1f}",
        "lost": fmt(float(1 - lost), "%", digits=2),
        "spread_within": fmt(float(np.nanstd(within) / np.nanmean(within)), "%", digits=1),
        "spread_across": fmt(float(np.nanstd(across) / np.nanmean(across)), "%", digits=2),
        "across_4": f"{healthy_across_4:.1f}",
        "uplinks_4": f"{4 * wire(healthy_across_4, 4):.0f} GB/s",
        "uplinks_8": f"{8 * wire(float(np.nanmedian(across)), 8):.0f} GB/s",
        "wanted_8": f"{8 * ports[8]:.0f} GB/s",
        "least": f"{operations.least_tests(SERVERS, 1):.0f}",
        "pair_tests": f"{operations.pair_tests(SERVERS, 1):.0f}",
    }
