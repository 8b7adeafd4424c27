"""Networks of switches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from clusterlab.interconnect import FatTree
from clusterlab.units import fmt
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
    tops = {"core": 0, "spine": 76, "leaf": 152} if tree.cores else {"spine": 0, "leaf": 114}
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
    left_over, below = tree.host_cables, tops["leaf"] + 24
    for x in places["leaf"]:
        here, left_over = min(down, left_over), left_over - min(down, left_over)
        for i in range(here):
            at = x + (i - (here - 1) / 2) * min(10, 38 / here)
            parts += [Arrow(x, below, at, below + 20, kind="ink", heads=0)]
            parts += [Box(at - 2, below + 20, 4, 14, kind="compute", solid=True)]
    for tier, y in tops.items():
        plural = "leaves" if tier == "leaf" else f"{tier}s"
        parts.append(Label(0, y + 12, f"{counts[tier]} {plural}", "start"))
        parts += [Box(x - wide / 2, y, wide, 24, kind="network", solid=tier == "leaf") for x in places[tier]]
    parts.append(Label(0, below + 27, f"{tree.host_cables} GPUs", "start"))
    tail = f"a leaf has {down} down and {up} up."
    cores = f" and {tree.cores} cores" if tree.cores else ""
    parts.append(Label(200, below + 52, f"{radix} ports a switch; {tail}"))
    alt = (
        f"A fat tree of {tree.host_cables} hosts on {tree.leaves} leaves{',' if cores else ' and'} {tree.spines} "
        f"spines{cores} of {radix} ports each: {tail}"
    )
    return Scene(400, below + 62, parts, alt=alt)


def offers(gets: Mapping[tuple[str, str], tuple[float, float]]) -> Scene:
    """Draw what a GPU gets of each fabric: the rate to a neighbour in a ring, and to everybody in an all-to-all.

    Parameters
    ----------
    gets : mapping
        Of each fabric's name and what it's built of, bytes/s of either.

    Examples
    --------
    >>> offers({("Tree", "320 switches"): (50e9, 50e9), ("Torus", "no switch"): (600e9, 50e9)}).alt
    'Of tree a GPU gets 50 GB/s in a ring and 50 GB/s in an all-to-all; of torus 600 GB/s and 50 GB/s.'
    """
    left, longest, high = 112, 164, 60
    most = max(rate for rates in gets.values() for rate in rates)
    parts: list[Part] = []
    told = []
    for i, ((name, built), rates) in enumerate(gets.items()):
        top = 4 + high * i
        parts += [Label(0, top + 11, name, "start", strong=True), Label(0, top + 30, built, "start")]
        for j, (what, rate) in enumerate(zip(("ring", "all-to-all"), rates, strict=True)):
            y, wide = top + 22 * j, longest * rate / most
            parts.append(Box(left, y, wide, 19, kind=("nvlink", "network")[j], solid=True))
            parts.append(Label(left + wide + 6, y + 10, f"{what}: {fmt(rate, 'B/s')}", "start"))
        ring, everybody = (fmt(rate, "B/s") for rate in rates)
        who = name[0].lower() + name[1:]
        told.append(
            f"of {who} {ring} and {everybody}"
            if i
            else f"Of {who} a GPU gets {ring} in a ring and {everybody} in an all-to-all"
        )
    return Scene(400, high * len(gets), parts, alt="; ".join(told) + ".")


def torus(side: int) -> Scene:
    """Draw a torus of two dimensions: a row and a column close to rings, and what two bytes take up of its links.

    Parameters
    ----------
    side : int
        Chips along each dimension, an even number from 4 to 8.

    Raises
    ------
    ValueError
        It is another number.

    Examples
    --------
    >>> torus(4).alt
    'A torus of 4 by 4 chips: a byte to a neighbour takes up 1 link, one to the farthest chip 4.'
    """
    if side not in (4, 6, 8):
        raise ValueError(f"side must be 4, 6 or 8, got {side!r}")
    pitch, chip, left, top = 176 / side, 84 / side, 34, 16
    at = [chip / 2 + pitch * i for i in range(side)]
    half, end = side // 2, at[-1] + chip / 2
    parts: list[Part] = []
    # From the first chip: one link down to a neighbour; half a ring to the right and half a ring down to the farthest.
    far = {(0, x, "x") for x in range(half)} | {(y, half, "y") for y in range(half)}
    near = {(side - 1, 0, "x")}
    for row in range(side):
        for column in range(side):
            for along in "xy":
                x, y = left + at[column], top + at[row]
                wraps = (column if along == "x" else row) == side - 1
                used = (row, column, along) in far | near
                kind = ("nvlink" if (row, column, along) in near else "network") if used else "ink"
                heads = 1 if used else 0
                if wraps:  # a stub at either end of the row or the column
                    for start, out in ((0.0, -14.0), (end, 14.0)):
                        if along == "x":
                            parts.append(Arrow(left + start, y, left + start + out, y, kind=kind, heads=0))
                        else:
                            parts.append(Arrow(x, top + start, x, top + start + out, kind=kind, heads=0))
                elif along == "x":
                    parts.append(Arrow(x + chip / 2, y, x + pitch - chip / 2, y, kind=kind, heads=heads))
                else:
                    parts.append(Arrow(x, y + chip / 2, x, y + pitch - chip / 2, kind=kind, heads=heads))
    for row in range(side):
        for column in range(side):
            ends = (row, column) in {(0, 0), (half, half), (side - 1, 0), (side - 1, 1)}
            where = left + at[column] - chip / 2, top + at[row] - chip / 2, chip, chip
            parts.append(Box(*where, kind="compute", solid=ends))
    aside = left + end + 30
    says = (
        (top + at[0] + 6, f"to the farthest:\n{side} links"),
        (top + at[half], "ends meet behind"),
        (top + at[-1] - 6, "to a neighbour:\n1 link"),
    )
    parts += [Label(aside, y, text, "start") for y, text in says]
    alt = f"A torus of {side} by {side} chips: a byte to a neighbour takes up 1 link, one to the farthest chip {side}."
    return Scene(400, top + end + 18, parts, alt=alt)
