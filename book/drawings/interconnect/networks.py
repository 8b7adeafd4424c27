"""Networks of switches."""

from __future__ import annotations

from collections.abc import Iterator

from clusterlab.interconnect import FatTree
from explorable import Arrow, Box, Label, Part, Scene


def tree_links(tree: FatTree, radix: int) -> Iterator[tuple[str, int, int]]:
    """Pairs of switches of a fat tree that cables join: ("leaf", leaf, spine) and ("core", spine, core).

    Examples
    --------
    >>> from clusterlab.interconnect import fat_tree as count
    >>> sum(where == "core" for where, *_ in tree_links(count(16, 4, tiers=3), 4))
    16
    """
    if not tree.cores:
        yield from (("leaf", leaf, spine) for leaf in range(tree.leaves) for spine in range(tree.spines))
        return
    up = tree.spine_cables // tree.leaves  # spines of a pod; each has a group of cores of its own
    group = tree.cores // up
    for leaf in range(tree.leaves):
        pod = leaf // (radix // 2)
        yield from (("leaf", leaf, pod * up + j) for j in range(up))
    for spine in range(tree.spines):
        yield from (("core", spine, (spine % up) * group + j) for j in range(group))


def fat_tree(tree: FatTree, radix: int) -> Scene:
    """Draw a fat tree: its switches tier by tier, every pair that cables join, and the hosts below each leaf.

    Parameters
    ----------
    tree : FatTree
        Switches and cables, as :func:`clusterlab.interconnect.fat_tree` counts them; at most eight leaves.
    radix : int
        Ports of a switch.

    Raises
    ------
    ValueError
        The tree has more than eight leaves.

    Examples
    --------
    >>> from clusterlab.interconnect import fat_tree as count
    >>> fat_tree(count(16, 4, tiers=3), 4).alt
    'A fat tree of 16 hosts on 8 leaves, 8 spines and 4 cores of 4 ports each: a leaf has 2 down and 2 up.'
    """
    if tree.leaves > 8:
        raise ValueError(f"tree must have at most 8 leaves, got {tree.leaves}")
    up = tree.spine_cables // tree.leaves
    down = radix - up
    places: dict[str, list[float]] = {}
    tops = {"core": 0, "spine": 76, "leaf": 152} if tree.cores else {"spine": 38, "leaf": 152}
    counts = {"core": tree.cores, "spine": tree.spines, "leaf": tree.leaves}
    wide, left, room = 34, 68, 332
    for tier in tops:
        pitch = room / counts[tier]
        places[tier] = [left + pitch * (i + 0.5) for i in range(counts[tier])]
    parts: list[Part] = []
    for where, low, high in tree_links(tree, radix):
        bottom, top = ("leaf", "spine") if where == "leaf" else ("spine", "core")
        ends = places[bottom][low], tops[bottom], places[top][high], tops[top] + 24
        parts.append(Arrow(*ends, kind="network", heads=0))
    left_over = tree.host_cables
    for x in places["leaf"]:
        here, left_over = min(down, left_over), left_over - min(down, left_over)
        for i in range(here):
            at = x + (i - (here - 1) / 2) * min(10, 38 / here)
            parts += [Arrow(x, 176, at, 196, kind="ink", heads=0), Box(at - 2, 196, 4, 14, kind="compute", solid=True)]
    for tier, y in tops.items():
        plural = "leaves" if tier == "leaf" else f"{tier}s"
        parts.append(Label(0, y + 12, f"{counts[tier]} {plural}", "start"))
        parts += [Box(x - wide / 2, y, wide, 24, kind="network", solid=tier == "leaf") for x in places[tier]]
    parts.append(Label(0, 203, f"{tree.host_cables} GPUs", "start"))
    tail = f"a leaf has {down} down and {up} up."
    cores = f" and {tree.cores} cores" if tree.cores else ""
    parts.append(Label(200, 228, f"{radix} ports a switch; {tail}"))
    alt = (
        f"A fat tree of {tree.host_cables} hosts on {tree.leaves} leaves{',' if cores else ' and'} {tree.spines} "
        f"spines{cores} of {radix} ports each: {tail}"
    )
    return Scene(400, 238, parts, alt=alt)
