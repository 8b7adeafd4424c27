"""Drawings of a shared fabric: flows on the uplinks of a leaf, two links and three flows, and a fat tree flow by flow.

A cable that more flows want than it has room for is drawn in the colour of waste. Loads and rates are those that
:mod:`clusterlab.contention` computes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from clusterlab.contention import NONE, Clos, Routes, link_load, max_min_rates
from clusterlab.units import fmt
from explorable import Arrow, Box, Label, Part, Scene, legend

PORT = 50e9  # bytes/s: a port of 400 Gbit/s


def _kind(load: float) -> str:
    """The colour of a link by the flows on it, a whole port's worth each."""
    return "idle" if load < 1e-9 else "network" if load <= 1 + 1e-9 else "lost"


def uplinks(drawn: Sequence[int], dealt: Sequence[int]) -> Scene:
    """Draw eight flows of a leaf on its eight uplinks twice: as a hash drew them, and dealt out.

    Parameters
    ----------
    drawn, dealt : sequence of int
        The uplink of each of eight flows.

    Examples
    --------
    >>> uplinks([0, 0, 0, 3, 4, 5, 5, 7], range(8)).alt
    'Eight flows on eight uplinks. By a hash: 3 0 0 1 1 2 0 1 flows, the slowest has 16.7 GB/s. Dealt out: 1 each, 50 GB/s.'
    """
    parts: list[Part] = []
    pitch, counts = 23.5, [np.bincount(ways, minlength=8) for ways in (drawn, dealt)]
    titles = "Drawn by a hash", "Dealt out"
    for panel, (ways, count) in enumerate(zip((drawn, dealt), counts, strict=True)):
        left = 208 * panel
        parts.append(Label(left, 8, titles[panel], "start", strong=True))
        for spine, flows in enumerate(count):
            parts.append(Box(left + pitch * spine, 38, 20, 24, f"{flows}", _kind(flows), solid=bool(flows)))
        for gpu, way in enumerate(ways):
            ends = left + pitch * gpu + 10, 142, left + pitch * way + 10, 63
            parts.append(Arrow(*ends, kind=_kind(count[way])))
            parts.append(Box(left + pitch * gpu + 1, 142, 18, 18, kind="compute", solid=bool(count[way] == 1)))
        slowest = fmt(PORT / max(count), "B/s")
        parts.append(Label(left, 176, f"slowest flow: {slowest}", "start"))
        parts.append(Label(left, 25, "flows on each of 8 uplinks", "start"))
    told = " ".join(map(str, counts[0]))
    alt = (
        f"Eight flows on eight uplinks. By a hash: {told} flows, the slowest has {fmt(PORT / max(counts[0]), 'B/s')}. "
        f"Dealt out: 1 each, {fmt(PORT / max(counts[1]), 'B/s')}."
    )
    return Scene(400, 184, parts, alt=alt)


def two_links(wide: float, narrow: float) -> Scene:
    """Draw three flows on two links, each link as high as its rate and cut into what the flows get of it.

    Parameters
    ----------
    wide, narrow : float
        Rates of the links in bytes/s. The first flow crosses both, the second the narrow one, the third the wide one.

    Examples
    --------
    >>> two_links(50e9, 20e9).alt
    'Flow a crosses both links, b the narrow, c the wide one. a and b get 10 GB/s, c gets 40 GB/s.'
    """
    rates = max_min_rates([wide, narrow], Routes(np.array([[0, 1], [1, NONE], [0, NONE]])))
    said = [fmt(rate, "B/s") for rate in rates]
    unit, top, across = 96 / wide, 40.0, 120.0
    parts: list[Part] = []
    for at, (x, rate, flows) in enumerate(((50, wide, (2, 0)), (232, narrow, (0, 1)))):
        y = top + (wide - rate) * unit
        parts.append(Label(x + across / 2, 12, f"link {at + 1}: {fmt(rate, 'B/s')}", strong=True))
        for flow in flows:
            high = rates[flow] * unit
            kind = ("wire", "nvlink", "network")[flow]
            parts.append(Box(x, y, across, high, f"{'abc'[flow]}: {said[flow]}", kind, solid=flow == 2))
            y += high
    parts += [Box(2, 88, 34, 40, "A"), Box(184, 88, 34, 40, "B"), Box(366, 88, 34, 40, "C")]
    parts.append(Arrow(36, 126, 50, 126, kind="wire", heads=0))
    parts.append(Arrow(170, 126, 184, 126, kind="wire", heads=0))
    parts.append(Arrow(218, 108, 232, 108, kind="wire", heads=0))
    parts.append(Arrow(352, 108, 366, 108, kind="wire", heads=0))
    alt = (
        f"Flow a crosses both links, b the narrow, c the wide one. a and b get {said[0]}, c gets {said[2]}."
        if said[0] == said[1]
        else f"Flow a gets {said[0]}, b {said[1]}, c {said[2]}."
    )
    return Scene(400, 140, parts, alt=alt)


def tree(fabric: Clos, routes: Routes, yours: int, failed: int | None = None) -> Scene:
    """Draw a small fat tree with what its cables carry, and what each GPU gets.

    Parameters
    ----------
    fabric : Clos
        Of two tiers, at most eight leaves and eight spines.
    routes : Routes
        Flows, each from another host; the first ``yours`` are your job's.
    yours : int
        How many flows are yours.
    failed : int, optional
        The uplink that has failed, between the first leaf and this spine: as if its switch did not know the cable.

    Examples
    --------
    >>> from clusterlab.contention import clos, sprayed
    >>> fabric = clos(8, 4, 4, bandwidth=50e9)
    >>> tree(fabric, sprayed(fabric, range(32), np.roll(range(32), -8)), 32).alt
    '4 leaves of 8 GPUs under 4 spines. The fullest cable carries 2 flows; your slowest flow has 25 GB/s.'
    """
    rates = max_min_rates(fabric.capacity, routes)
    load = link_load(fabric.capacity, routes)
    both = np.maximum(load[fabric.up], load[fabric.down])
    source = routes.links[:, 0]
    left, room = 62.0, 338.0
    spine_at = left + room / fabric.spines * (np.arange(fabric.spines) + 0.5)
    leaf_at = left + room / fabric.leaves * (np.arange(fabric.leaves) + 0.5)
    parts: list[Part] = []
    for leaf in range(fabric.leaves):
        for spine in range(fabric.spines):
            dead = failed == spine and leaf == 0
            kind = "red" if dead else _kind(both[leaf, spine])
            ends = leaf_at[leaf], 128, spine_at[spine], 46
            parts.append(Arrow(*ends, kind=kind, heads=0, faint=kind == "idle"))
    for spine, x in enumerate(spine_at):
        most = both[:, spine].max()
        wide = min(34.0, room / fabric.spines - 4)
        parts.append(Box(x - wide / 2, 22, wide, 24, f"{most:.2g}", _kind(most), solid=bool(most > 1e-9)))
    per = fabric.hosts_per_leaf
    for leaf, x in enumerate(leaf_at):
        parts.append(Box(x - 38, 128, 76, 20, kind="network"))
        for i in range(per):
            host = leaf * per + i
            at = np.flatnonzero(source == host)
            kind, solid = "ink", False
            if at.size:
                kind = "compute" if at[0] < yours else "grey"
                solid = bool(rates[at[0]] > 0.99 * PORT)
            parts.append(Box(x - 38 + 9.6 * i, 154, 8.4, 16, kind=kind, solid=solid))
    parts += [Label(0, 34, "spines", "start"), Label(0, 138, "leaves", "start"), Label(0, 162, "GPUs", "start")]
    parts.append(Label(left, 8, "flows on the fullest cable of each", "start"))
    parts += legend(
        2,
        190,
        [("full", "network", True), ("over-full", "lost", True), ("idle", "idle", False), ("failed", "red", True)],
    )
    parts += legend(2, 210, [("full rate", "compute", True), ("slowed", "compute", False), ("other job", "grey", True)])
    slowest = fmt(rates[:yours].min(), "B/s")
    alt = (
        f"{fabric.leaves} leaves of {per} GPUs under {fabric.spines} spines. The fullest cable carries {both.max():.2g} "
        f"flows; your slowest flow has {slowest}."
    )
    return Scene(400, 220, parts, alt=alt)
