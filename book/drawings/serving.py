"""Drawings of serving: what a machine holds, batches over time, tokens on their way to experts, a train of racks.

Weights and caches are memory, prompts and answers compute, what travels is wire, and who waits is waste.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from clusterlab.serving import PipelinedDecode
from clusterlab.units import fmt
from explorable import Arrow, Box, Label, Part, Scene, legend

_LINE = 16.0  # units from line to line


class Held(NamedTuple):
    """A machine's memory, and what of it a model's weights and its users' caches take: bytes."""

    name: str
    capacity: float
    weights: float
    caches: float
    note: str


def memory(machines: Sequence[Held]) -> Scene:
    """Memories to one scale: the weights, the caches of a batch, and what is free; a note under each.

    Parameters
    ----------
    machines : sequence of Held
        From the top down. Weights that are larger than the memory are drawn as waste: they don't fit.

    Examples
    --------
    >>> memory([Held("8 H100s", 640e9, 1026e9, 0, "no"), Held("a rack", 13.4e12, 1026e9, 6e12, "100 users")]).alt
    '8 H100s, 640 GB: 1.03 TB of weights do not fit. a rack, 13.4 TB: weights 1.03 TB, caches 6 TB. 100 users.'
    """
    row, high, wide = 78.0, 32.0, 398.0
    most = max(each.capacity for each in machines)
    parts: list[Part] = []
    said = []
    for i, each in enumerate(machines):
        y, unit = i * row, wide / most
        size, fits = fmt(each.capacity, "B"), each.weights <= each.capacity
        parts.append(Label(0, y + 8, each.name, "start", strong=True))
        parts.append(Label(400, y + 8, size, "end"))
        width = max(each.capacity * unit, 3.0)
        parts.append(Box(1, y + 18, width, high, kind="ink" if fits else "waste"))
        if fits:
            used = each.weights * unit
            parts.append(Box(1, y + 18, max(used, 2.0), high, kind="weights", solid=True))
            if each.caches > 0:
                parts.append(Box(1 + used, y + 18, max(each.caches * unit, 1.0), high, kind="cache", solid=True))
            held = f"weights {fmt(each.weights, 'B')}, caches {fmt(each.caches, 'B')}"
        else:
            held = f"{fmt(each.weights, 'B')} of weights do not fit"
        parts.append(Label(0, y + 18 + high + 10, each.note, "start"))
        said.append(f"{each.name}, {size}: {held}." + (f" {each.note}." if fits else ""))
    y = row * len(machines) + 2
    parts += legend(1, y, [("weights", "weights", True), ("caches of users", "cache", True), ("free", "ink", False)])
    return Scene(400, y + 8, parts, alt=" ".join(said))


class Seat(NamedTuple):
    """A request in a slot of a batch, from one pass to another."""

    request: int
    slot: int
    start: int
    end: int


def seats(lengths: Sequence[int], slots: int, *, continuous: bool) -> list[Seat]:
    """Which request has which slot of a batch when: a batch that ends together, or one that is refilled at once.

    Parameters
    ----------
    lengths : sequence of int
        Tokens of each answer, a pass each, in the order in which requests came.
    slots : int
        Sequences of the batch.
    continuous : bool
        Whether the next request takes a slot as soon as it is free.

    Examples
    --------
    >>> [seats([3, 1, 2], 2, continuous=c)[-1] for c in (False, True)]
    [Seat(request=2, slot=0, start=3, end=5), Seat(request=2, slot=1, start=1, end=3)]
    """
    free, found = [0] * slots, []
    for i, length in enumerate(lengths):
        if not continuous and i % slots == 0:
            free = [max(free)] * slots
        slot = int(np.argmin(free)) if continuous else i % slots
        found.append(Seat(i, slot, free[slot], free[slot] + length))
        free[slot] += length
    return found


def batches(lengths: Sequence[int], slots: int) -> Scene:
    """Answers of different lengths in the slots of a batch: above one that ends together, below one that is refilled.

    Parameters
    ----------
    lengths, slots
        As in :func:`seats`.

    Examples
    --------
    >>> batches([6, 2, 3, 1, 4, 2], 3).alt
    'A batch that ends together takes 10 passes and leaves 40% of its slots empty; refilled at once, 7 and 14%.'
    """
    left, high, top = 1.0, 18.0, 22.0
    both = [seats(lengths, slots, continuous=c) for c in (False, True)]
    ends = [max(seat.end for seat in found) for found in both]
    unit = 398 / max(ends)
    parts: list[Part] = []
    empty = [1 - sum(lengths) / (slots * end) for end in ends]
    names = ("A batch ends together", "A free slot is filled at once")
    for k, (found, end, name) in enumerate(zip(both, ends, names, strict=True)):
        y = k * (top + slots * (high + 2) + 16)
        parts.append(Label(0, y + 8, name, "start", strong=True))
        parts.append(Label(400, y + 8, f"{end} passes, {fmt(empty[k], '%', 2)} empty", "end"))
        parts.append(Box(left, y + top - 1, end * unit, slots * (high + 2), kind="idle"))
        for seat in found:
            width = (seat.end - seat.start) * unit - 1
            at = y + top + seat.slot * (high + 2)
            text = str(seat.request + 1) if width > 16 else ""
            parts.append(Box(left + seat.start * unit, at, width, high, text, "compute", solid=True))
    share = [fmt(each, "%", 2) for each in empty]
    alt = (
        f"A batch that ends together takes {ends[0]} passes and leaves {share[0]} of its slots empty; "
        f"refilled at once, {ends[1]} and {share[1]}."
    )
    return Scene(400, 2 * (top + slots * (high + 2)) + 18, parts, alt=alt)


def dispatch(chosen: Sequence[int], gpus: int, domain: int, *, size: float, back: bool, time: float) -> Scene:
    """One token on its way to the GPUs that have its experts, or its results on their way back.

    Parameters
    ----------
    chosen : sequence of int
        GPUs with its experts; it comes from GPU 0.
    gpus, domain : int
        GPUs that share the experts, and how many of them reach one another over NVLink.
    size : float
        Bytes of a copy.
    back : bool
        Whether the results return.
    time : float
        Seconds that this takes for all tokens of all GPUs, in a layer; it stands in the upper right corner.

    Examples
    --------
    >>> dispatch([3, 9, 17], 32, 8, size=7168, back=False, time=1e-4).alt
    '3 copies of 7.17 kB leave GPU 0: 1 over NVLink, 2 over the network. All tokens of a layer: 100 µs.'
    """
    groups = -(-gpus // domain)
    gap = 8.0 if groups > 1 else 0.0
    cell = (396 - gap * (groups - 1)) / gpus
    top, low = 12.0, 128.0
    near = sum(gpu < domain for gpu in chosen)
    way = "come back to" if back else "leave"
    said = f"{len(chosen)} {'results' if back else 'copies'} of {fmt(size, 'B')}"

    def middle(gpu: int) -> float:
        return 2 + gpu * cell + (gpu // domain) * gap + cell / 2

    parts: list[Part] = [
        Box(100, top, 200, 28, said, "activations"),
        Label(398, top + 14, fmt(time, "s"), "end", strong=True),
    ]
    for g in range(groups):
        inside = min(domain, gpus - g * domain)
        x = 2 + g * (domain * cell + gap)
        parts.append(Box(x - 2, low - 4, inside * cell + 4, 32, kind="nvlink"))
        name = f"server {g + 1}" if groups > 1 else f"{gpus} GPUs of one NVLink domain"
        parts.append(Label(x + inside * cell / 2, low + 40, name))
    for gpu in range(gpus):
        x = middle(gpu) - cell / 2
        parts.append(Box(x + 0.5, low, cell - 1, 24, kind="compute" if gpu in chosen else "grey", solid=gpu in chosen))
    for gpu in chosen:
        kind = "nvlink" if gpu < domain else "network"
        ends = (200 + 90 * (middle(gpu) - 200) / 200, top + 30, middle(gpu), low - 6)
        parts.append(Arrow(*((*ends[2:], *ends[:2]) if back else ends), kind=kind))
    y = low + 64
    far = len(chosen) - near
    found = [(f"over NVLink: {near}", "nvlink", True), (f"over the network: {far}", "network", True)]
    parts += legend(2, y, found, 24)
    alt = f"{said} {way} GPU 0: {near} over NVLink, {far} over the network. All tokens of a layer: {fmt(time, 's')}."
    return Scene(400, y + 10, parts, alt=alt)


def racks(
    stages: int, microbatches: int, slot: int, *, run: PipelinedDecode, stage_time: float, hand_off: str
) -> Scene:
    """Racks that hold the layers of a model one after the other, and microbatches that pass through them.

    Parameters
    ----------
    stages, microbatches : int
        Racks, and microbatches under way.
    slot : int
        The time, in steps of ``stage_time``: microbatch j comes j steps after the first.
    run : PipelinedDecode
        The same pipeline by :func:`clusterlab.serving.pipelined_decode`.
    stage_time : float
        Seconds of a microbatch in a rack.
    hand_off : str
        What a token hands from rack to rack.

    Examples
    --------
    >>> from clusterlab.serving import pipelined_decode
    >>> racks(4, 1, 5, run=pipelined_decode(4, 1, stage_time=20e-3), stage_time=20e-3, hand_off="16 kB").alt
    'After 100 ms, microbatch 1 is in rack 2; the others wait. A user waits 80 ms for a token; racks are busy 25%.'
    """
    gap = 26.0
    wide = (400 - gap * (stages - 1)) / stages
    top, high = 30.0, 74.0
    round_ = max(stages, microbatches)
    inside: dict[int, int] = {}
    for j in range(microbatches):
        if slot >= j and (stage := (slot - j) % round_) < stages:
            inside[stage] = j
    parts: list[Part] = [
        Label(0, 9, f"after {fmt(slot * stage_time, 's')}", "start", strong=True),
        Label(400, 9, f"each rack works {fmt(stage_time, 's')} on a microbatch", "end"),
    ]
    for s in range(stages):
        x = s * (wide + gap)
        parts.append(Box(x, top, wide, high, kind="compute" if s in inside else "bubble"))
        parts.append(Label(x + wide / 2, top + 14, f"rack {s + 1}", strong=True))
        if s not in inside:
            parts.append(Label(x + wide / 2, top + 46, "waits"))
        if s:
            parts.append(Arrow(x - gap + 3, top + high / 2, x - 3, top + high / 2, kind="network"))
    for s, j in inside.items():
        x = s * (wide + gap)
        parts.append(Box(x + 8, top + 30, wide - 16, 32, f"batch {j + 1}", "compute", solid=True, key=f"batch {j + 1}"))
    y = top + high + 22
    parts.append(Arrow(400 - wide / 2, top + high + 3, wide / 2, top + high + 3, kind="network", bend=0.06))
    token, busy = fmt(float(run.token_time), "s"), fmt(float(run.busy), "%", 2)
    parts.append(Label(200, y + 20, f"each arrow: {hand_off} a token"))
    parts.append(Label(0, y + 44, f"a user's next token: {token}", "start", strong=True))
    parts.append(Label(400, y + 44, f"racks busy: {busy}", "end", strong=True))
    places = sorted((j, s) for s, j in inside.items())
    where = ", ".join(f"microbatch {j + 1} is in rack {s + 1}" for j, s in places)
    wait = "; the others wait" if len(inside) < stages else ""
    alt = f"After {fmt(slot * stage_time, 's')}, {where or 'nothing is under way'}{wait}. "
    alt += f"A user waits {token} for a token; racks are busy {busy}."
    return Scene(400, y + 54, parts, alt=alt)


def pools(readers: float, writers: float, *, cache: float, rate: float, passes: Sequence[str]) -> Scene:
    """GPUs that only read prompts beside GPUs that only decode, in proportion, and the cache that goes between them.

    Parameters
    ----------
    readers, writers : float
        GPUs, or servers, of either kind.
    cache : float
        Bytes of a prompt's cache.
    rate : float
        Bytes a second at which it travels.
    passes : sequence of str
        What a pass of each kind is.

    Examples
    --------
    >>> pools(95, 131, cache=140e6, rate=50e9, passes=("prompts", "a token each")).alt
    '95 read prompts and 131 decode. A cache of 140 MB goes from one to the other in 2.8 ms.'
    """
    room, gap, top = 400.0, 118.0, 26.0
    wide = [(room - gap) * share / (readers + writers) for share in (readers, writers)]
    wide = [max(wide[0], 96.0), 0.0] if wide[0] < 96 else wide
    wide[1] = room - gap - wide[0]
    parts: list[Part] = [
        Label(wide[0] / 2, 9, "prefill", strong=True),
        Label(room - wide[1] / 2, 9, "decode", strong=True),
        Box(0, top, wide[0], 76, f"{readers:,.0f}\n{passes[0]}", "forward", solid=False),
        Box(room - wide[1], top, wide[1], 76, f"{writers:,.0f}\n{passes[1]}", "cache", solid=False),
        Arrow(wide[0] + 4, top + 38, room - wide[1] - 4, top + 38, kind="network"),
        Label(wide[0] + gap / 2, top + 14, fmt(cache, "B")),
        Label(wide[0] + gap / 2, top + 62, fmt(cache / rate, "s")),
    ]
    alt = (
        f"{readers:,.0f} read prompts and {writers:,.0f} decode. "
        f"A cache of {fmt(cache, 'B')} goes from one to the other in {fmt(cache / rate, 's')}."
    )
    return Scene(400, top + 78, parts, alt=alt)


class Pool(NamedTuple):
    """Racks that do one thing: what, how many of them work at this hour, how many are built, and what one is fed."""

    name: str
    busy: int
    built: int
    note: str


def hall(clock: str, pools: Sequence[Pool], *, comes: str, between: str, goes: str) -> Scene:
    """Racks that read prompts over racks that write answers at an hour of the day: who works, and who stands idle.

    Parameters
    ----------
    clock : str
        The hour.
    pools : sequence of Pool
        Those that read, then those that write.
    comes, between, goes : str
        What arrives, what one pool hands to the other for each request, and what leaves.

    Examples
    --------
    >>> read, write = Pool("read", 2, 3, "rack: 380 requests/s"), Pool("write", 3, 4, "rack: 350 requests/s")
    >>> hall("15:00", [read, write], comes="700 requests/s", between="141 MB", goes="700,000 tokens/s").alt
    '15:00: 700 requests/s come. 2 of 3 racks read, 3 of 4 racks write; 700,000 tokens/s leave.'
    """
    most = max(pool.built for pool in pools)
    step = min(30.0, 316 / most)
    left, high, row = 84.0, 46.0, 106.0
    parts: list[Part] = [
        Label(0, 9, clock, "start", strong=True),
        Label(400, 9, comes, "end", strong=True),
        Arrow(left + 40, 16, left + 40, 32, kind="ink"),
    ]
    for i, pool in enumerate(pools):
        y = 36 + i * row
        parts.append(Label(0, y + 14, pool.name, "start", strong=True))
        parts.append(Label(0, y + 32, f"{pool.busy} of {pool.built}", "start"))
        for n in range(pool.built):
            x, works = left + n * step, n < pool.busy
            kind = ("compute", "cache")[i] if works else "grey"
            parts.append(Box(x, y, step - 6, high, kind=kind, solid=works))
        parts.append(Label(left, y + high + 11, f"each {pool.note}", "start"))
    x, y = left + 40, 36 + high
    parts.append(Arrow(x, y + 18, x, 36 + row - 3, kind="network"))
    parts.append(Label(x + 10, y + 40, between, "start"))
    y = 36 + row + high
    parts += [Arrow(x, y + 18, x, y + 36, kind="ink"), Label(x + 10, y + 34, goes, "start", strong=True)]
    done = ", ".join(f"{pool.busy} of {pool.built} racks {pool.name}" for pool in pools)
    return Scene(400, y + 44, parts, alt=f"{clock}: {comes} come. {done}; {goes} leave.")
