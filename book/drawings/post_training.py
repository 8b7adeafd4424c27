"""Drawings of post-training: the loop, attempts that wait for the longest, the ways of new weights, two roles in a GPU.

What generates reads memory, what trains computes, what travels is wire, and who waits is waste.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from clusterlab.post_training import Iteration, Loop, WeightRoutes
from clusterlab.units import fmt
from explorable import Arrow, Box, Label, Part, Scene, breadth, legend


def circle(loop: Loop, found: Iteration, size: float) -> Scene:
    """The loop as four boxes, with what goes from one to the next and what each takes.

    Parameters
    ----------
    loop, found : Loop, Iteration
        What is asked, and its time.
    size : float
        Bytes of the weights.

    Examples
    --------
    >>> from clusterlab.catalogue import machine
    >>> from clusterlab.model import Layout, transformer
    >>> from clusterlab.post_training import Lengths, iterate
    >>> from clusterlab.serving import Replica
    >>> small = Replica(transformer("Llama 3.1 8B"), machine("H100 SXM"))
    >>> one = Loop(small, 8, Layout(dp=8), Lengths(500, limit=2000), 8, 8)
    >>> circle(one, iterate(one), 16e9).alt.split(":")[0]
    'One iteration'
    """
    answers, tokens = f"{loop.samples:,.0f} answers", f"{fmt(found.tokens, digits=2)} tokens"
    times = {"write": found.generation, "learn": found.log_probs + found.training}
    parts: list[Part] = [
        Box(1, 30, 116, 58, f"write\n{times['write']:.0f} s", "cache"),
        Box(283, 30, 116, 58, f"learn\n{times['learn']:.0f} s", "compute"),
        Box(150, 84, 100, 40, "score\n(CPUs)", "grey"),
        Label(59, 12, f"{loop.prompts:,.0f} prompts", "middle"),
        Label(341, 12, "one update", "middle"),
        Arrow(100, 92, 148, 110, kind="wire", bend=-0.12),
        Arrow(252, 110, 300, 92, kind="wire", bend=-0.12),
        Label(74, 124, answers, "middle"),
        Label(326, 124, tokens, "middle"),
        Arrow(281, 44, 119, 44, kind="network", bend=0.05),
        Label(200, 26, f"weights, {fmt(size, 'B')}", "middle"),
    ]
    said = f"One iteration: {answers} are written in {times['write']:.0f} s, scored, and learned from in "
    return Scene(400, 138, parts, alt=f"{said}{times['learn']:.0f} s; then {fmt(size, 'B')} of weights go back.")


def attempts(tokens: Sequence[float], floor: float) -> Scene:
    """Attempts of one replica, each as long as its tokens, and the passes that go on until the longest is done.

    Parameters
    ----------
    tokens : sequence of float
        Of each, from the top down.
    floor : float
        Seconds of a pass, whatever it holds.

    Examples
    --------
    >>> attempts([1000, 7000], 10e-3).alt
    '2 attempts of 1,000, 7,000 tokens: 7,000 passes, in 86% of which one writes alone. At 10 ms each they take 70 s.'
    """
    row, left, wide, longest = 25.0, 52.0, 346.0, max(tokens)
    first = tokens.index(longest)
    parts: list[Part] = [Label(0, 7, "tokens of each attempt, one written in each pass", "start", strong=True)]
    for i, one in enumerate(tokens):
        y, width = 18 + i * row, wide * one / longest
        parts.append(Label(left - 6, y + 11, f"{one:,.0f}", "end"))
        parts.append(Box(left, y, width, 21, "the longest: the batch ends with it" if i == first else "", "cache"))
        if width < wide - 1:
            empty = "its place is empty" if one == min(tokens) else ""
            parts.append(Box(left + width, y, wide - width, 21, empty, "waste"))
    low = 18 + len(tokens) * row + 8
    parts.append(Arrow(left, low, left + wide, low, kind="weights", heads=1))
    took = f"{longest:,.0f} passes, each with a floor of {fmt(floor, 's', 2)}: {longest * floor:.0f} s"
    parts.append(Label(200, low + 16, took, "middle"))
    alone = 1 - sorted(tokens)[-2] / longest
    said = f"{len(tokens)} attempts of {', '.join(f'{one:,.0f}' for one in tokens)} tokens: {longest:,.0f} passes, in "
    said += f"{alone:.0%} of which one writes alone. At {fmt(floor, 's', 2)} each they take {longest * floor:.0f} s."
    return Scene(400, low + 26, parts, alt=said)


ROUTES = {"one source": "one_source", "broadcast": "broadcast", "shards": "shards"}
_SAID = {
    "one source": "one port sends a whole copy to each replica, in turn",
    "broadcast": "every GPU is passed all, and keeps its share",
    "shards": "each GPU is sent its own share, by many at a time",
}


def routes(route: str, found: WeightRoutes, *, senders: int, copies: int, ranks: int, size: float) -> Scene:
    """The GPUs that train above, those that generate below, and what goes between them on one of three routes.

    Parameters
    ----------
    route : str
        A name of ``ROUTES``.
    found : WeightRoutes
        Seconds of each.
    senders, copies, ranks : int
        GPUs that train, replicas, and GPUs of one; at most 16 and 4 of them are drawn.
    size : float
        Bytes of the weights.

    Examples
    --------
    >>> from clusterlab.post_training import weight_routes
    >>> found = weight_routes(1e12, ranks=16, copies=16, senders=256, bandwidth=50e9)
    >>> routes("shards", found, senders=256, copies=16, ranks=16, size=1e12).alt
    'Shards: each GPU is sent its own share, by many at a time. 1 TB reach 16 replicas of 16 GPUs in 1.25 s.'
    """
    seconds = fmt(float(getattr(found, ROUTES[route])), "s")
    above, groups, inside = min(senders, 16), min(copies, 4), min(ranks, 4)
    step, top, low = 392 / above, 24.0, 120.0
    parts: list[Part] = [
        Label(0, 8, f"{senders:,} GPUs train", "start", strong=True),
        Label(400, 8, f"{fmt(size, 'B')}: {seconds}", "end", strong=True),
    ]
    at = [4 + (i + 0.5) * step for i in range(above)]
    one = route == "one source"
    parts += [
        Box(x - step / 2 + 1, top, step - 2, 22, kind="weights", solid=not one or i == 0) for i, x in enumerate(at)
    ]
    wide = 392 / groups
    below = []
    for g in range(groups):
        left = 4 + g * wide + 4
        parts.append(Box(left - 2, low - 4, wide - 4, 32, kind="nvlink"))
        cell = (wide - 8) / inside
        below += [left + (i + 0.5) * cell for i in range(inside)]
        parts += [
            Box(left + i * cell + 1, low, cell - 2, 24, kind="cache", solid=route == "broadcast") for i in range(inside)
        ]
    if one:
        parts += [
            Arrow(at[0], top + 24, below[g * inside] + 6, low - 6, kind="network", faint=g > 0) for g in range(groups)
        ]
    elif route == "broadcast":
        parts.append(Arrow(at[0], top + 24, below[0], low - 6, kind="network"))
        parts += [Arrow(a + 3, low + 36, b - 3, low + 36, kind="network") for a, b in pairwise(below)]
    else:
        parts += [Arrow(at[i * above // len(below)], top + 24, x, low - 6, kind="network") for i, x in enumerate(below)]
    parts.append(Label(0, low + 52, f"{copies:,} replicas of {ranks} GPUs write", "start", strong=True))
    parts.append(Label(0, low + 72, _SAID[route], "start"))
    said = (
        f"{route.capitalize()}: {_SAID[route]}. {fmt(size, 'B')} reach {copies} replicas of {ranks} GPUs in {seconds}."
    )
    return Scene(400, low + 82, parts, alt=said)


class Role(NamedTuple):
    """What one role keeps in a GPU's memory: kind of part to bytes."""

    name: str
    parts: Mapping[str, float]


_KINDS = {"weights": "weights", "gradients": "gradients", "optimizer": "optimizer", "activations": "activations"}
_KINDS |= {"caches": "cache"}


def roles(held: Sequence[Role], capacity: float) -> Scene:
    """Memories of one GPU to one scale: what each role keeps in it, and both at once.

    Parameters
    ----------
    held : sequence of Role
        From the top down.
    capacity : float
        Bytes of the GPU's memory; what is beyond it is drawn beyond the line.

    Examples
    --------
    >>> roles([Role("trains", {"weights": 10e9, "optimizer": 40e9}), Role("both", {"weights": 90e9})], 80e9).alt
    'Of 80 GB, trains keeps 50 GB: weights 10 GB, optimizer 40 GB; both keeps 90 GB: weights 90 GB.'
    """
    most = max(capacity, *(sum(one.parts.values()) for one in held))
    unit, row, high = 396 / most, 58.0, 26.0
    parts: list[Part] = []
    said, named, edge = [], set(), 2 + capacity * unit
    for i, one in enumerate(held):
        y, x, total = i * row, 2.0, sum(one.parts.values())
        parts.append(Label(0, y + 8, f"{one.name}: {fmt(total, 'B')}", "start", strong=True))
        for kind, size in one.parts.items():
            if size * unit >= 0.5:
                room = size * unit > breadth(kind) + 6
                named |= {kind} if room else set()
                parts.append(Box(x, y + 20, size * unit, high, kind if room else "", _KINDS[kind], solid=True))
            x += size * unit
        if edge - x > 1:
            parts.append(Box(x, y + 20, edge - x, high))  # what is free
        listed = ", ".join(f"{kind} {fmt(size, 'B')}" for kind, size in one.parts.items())
        said.append(f"{one.name} keeps {fmt(total, 'B')}: {listed}")
    low = row * len(held)
    parts.append(Label(edge, 8, fmt(capacity, "B"), "end"))
    parts.insert(0, Arrow(edge, 16, edge, low - 6, kind="ink", heads=0))  # below the names that it would strike through
    shown = dict.fromkeys(kind for one in held for kind in one.parts)
    names = [name for name in shown if name not in named]  # which no mark has room for
    for start in range(0, len(names), 3):
        shades = [(name, _KINDS[name], True) for name in names[start : start + 3]]
        parts += legend(1, low + 4 + 20 * (start // 3), shades)
    return Scene(400, low - 2 + 20 * -(-len(shown) // 3), parts, alt=f"Of {fmt(capacity, 'B')}, {'; '.join(said)}.")
