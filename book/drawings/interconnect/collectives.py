"""Collectives, run piece by piece: a piece has the colours of the ranks whose values it sums."""

from __future__ import annotations

from collections.abc import Collection

from clusterlab.interconnect import Collective
from clusterlab.units import fmt
from explorable import Arrow, Box, Label, Part, Scene, legend

RANKS = ("ochre", "violet", "red", "grey")  # colours of four ranks: they mean nothing else in the book
GPUS = len(RANKS)  # of a ring, and of the collectives
STEPS = 2 * (GPUS - 1)  # of a ring all-reduce
CHUNKS = "abcd"

_CORNERS = ((0, 22), (240, 22), (240, 148), (0, 148))  # of the ring's GPUs, clockwise
_CELL, _APART = (30, 28), 37  # size of a chunk in the ring, and from chunk to chunk

Held = list[list[frozenset[int]]]  # of each rank, whose values each of its pieces sums; none where it holds nothing


def _piece(x: float, y: float, width: float, height: float, ranks: Collection[int], key: str = "") -> list[Box]:
    """A piece of a buffer: a stripe for each rank whose values it sums, an empty box where it is not there."""
    if not ranks:
        return [Box(x, y, width, height)]
    each = width / len(ranks)
    return [
        Box(x + i * each, y, each, height, kind=RANKS[rank], solid=True, key=f"{key}{rank}" if key else "")
        for i, rank in enumerate(sorted(ranks))
    ]


COLLECTIVES = ("all-reduce", "reduce-scatter", "all-gather", "all-to-all", "broadcast")


def states(name: str) -> dict[str, Held]:
    """What four ranks hold before a collective and after it; of an all-reduce also between its two halves.

    Parameters
    ----------
    name : str
        One of ``COLLECTIVES``.

    Raises
    ------
    ValueError
        There is no such collective.

    Examples
    --------
    >>> [sorted(piece) for piece in states("reduce-scatter")["after"][1]]
    [[], [0, 1, 2, 3], [], []]
    """
    if name not in COLLECTIVES:
        raise ValueError(f"name must be one of {', '.join(COLLECTIVES)}, got {name!r}")
    ranks, none, everyone = range(GPUS), frozenset[int](), frozenset(range(GPUS))
    own = [[frozenset({rank})] * GPUS for rank in ranks]
    scattered = [[everyone if piece == rank else none for piece in ranks] for rank in ranks]
    summed = [[everyone] * GPUS for _ in ranks]
    return {
        "all-reduce": {"before": own, "reduce-scatter": scattered, "all-gather": summed},
        "reduce-scatter": {"before": own, "after": scattered},
        "all-gather": {
            "before": [[frozenset({rank}) if piece == rank else none for piece in ranks] for rank in ranks],
            "after": [[frozenset({piece}) for piece in ranks] for _ in ranks],
        },
        "all-to-all": {"before": own, "after": [[frozenset({piece}) for piece in ranks] for _ in ranks]},
        "broadcast": {
            "before": [[frozenset({0}) if rank == 0 else none for _ in ranks] for rank in ranks],
            "after": [[frozenset({0})] * GPUS for _ in ranks],
        },
    }[name]


_SAID = {
    "all-reduce": "An all-reduce is a reduce-scatter, which leaves each rank a piece of the sum, and an all-gather.",
    "reduce-scatter": "After a reduce-scatter each rank has one piece of the sum.",
    "all-gather": "After an all-gather each rank has the pieces of all.",
    "all-to-all": "After an all-to-all each rank has one piece from every other.",
    "broadcast": "After a broadcast all ranks have what the first one had.",
}


def collective(name: str) -> Scene:
    """Draw what four ranks hold before and after a collective: a row for each rank, a column for each piece.

    Parameters
    ----------
    name : str
        One of ``COLLECTIVES``.

    Examples
    --------
    >>> collective("all-reduce").alt[:44]
    'An all-reduce is a reduce-scatter, which lea'
    """
    panels = states(name)
    cell, gap, wide = 21.0, 4.0, 96.0
    parts: list[Part] = []
    first = 58 if len(panels) == 3 else 120
    parts += [Label(first - 10, 36.5 + 28 * rank, f"rank {rank}", "end") for rank in range(GPUS)]
    for i, (title, held) in enumerate(panels.items()):
        left = first + (wide + 25) * i
        parts.append(Label(left + wide / 2, 8, title, strong=True))
        for rank, pieces in enumerate(held):
            for piece, ranks in enumerate(pieces):
                parts += _piece(left + (cell + gap) * piece, 26 + 28 * rank, cell, cell, ranks)
        if i:
            parts.append(Arrow(left - 21, 78, left - 4, 78))
    return Scene(400, 134, parts, alt=_SAID[name])


def ring_sums(step: int) -> Held:
    """Whose values each chunk of each GPU sums after a number of steps of a ring all-reduce of four.

    Parameters
    ----------
    step : int
        Steps done, 0 to ``STEPS``.

    Raises
    ------
    ValueError
        There is no such step.

    Examples
    --------
    >>> [[len(chunk) for chunk in gpu] for gpu in ring_sums(3)]
    [[1, 4, 3, 2], [2, 1, 4, 3], [3, 2, 1, 4], [4, 3, 2, 1]]
    """
    if step not in range(STEPS + 1):
        raise ValueError(f"step must be a whole number from 0 to {STEPS}, got {step!r}")
    held = [[frozenset({gpu})] * GPUS for gpu in range(GPUS)]
    for s in range(step):
        sent = {(gpu, (gpu - s) % GPUS): held[gpu][(gpu - s) % GPUS] for gpu in range(GPUS)}
        for (gpu, chunk), sums in sent.items():
            held[(gpu + 1) % GPUS][chunk] |= sums
    return held


def ring_cell(gpu: int, chunk: int) -> tuple[float, float]:
    """Upper left corner of a chunk of a GPU in :func:`ring`.

    Examples
    --------
    >>> ring_cell(1, 2)
    (324, 46)
    """
    x, y = _CORNERS[gpu]
    return x + 10 + chunk * _APART, y + 24


def ring(step: int) -> Scene:
    """Draw four GPUs in a ring after a step of an all-reduce: their chunks, whose values each sums, what moves next.

    Parameters
    ----------
    step : int
        Steps done, 0 to ``STEPS``. A chunk that moves keeps its key from step to step.

    Examples
    --------
    >>> ring(0).alt[:84]
    'Step 0 of 6: no GPU has a chunk of the sum. Reduce-scatter: GPU 0 sends a to GPU 1, '
    """
    held, more = ring_sums(step), step < STEPS
    phase = "reduce-scatter" if step < GPUS - 1 else "all-gather"
    parts: list[Part] = []
    moving: list[Part] = []
    moves = []
    for gpu, (x, y) in enumerate(_CORNERS):
        parts += [Box(x, y, 160, 62), Label(x, y - 11, f"GPU {gpu}", "start", strong=True)]
        for chunk, ranks in enumerate(held[gpu]):
            left, top = ring_cell(gpu, chunk)
            parts.append(Label(left + _CELL[0] / 2, y + 13, CHUNKS[chunk]))
            if (gpu - step) % GPUS == chunk:
                key = CHUNKS[chunk]
                frame = "wire" if more else "ink"
                moving.append(Box(left - 4, top - 4, _CELL[0] + 8, _CELL[1] + 8, kind=frame, solid=more, key=key))
                moving += _piece(left, top, *_CELL, ranks, key)
            else:
                parts += _piece(left, top, *_CELL, ranks)
    paths = ((164, 53, 236, 53), (320, 88, 320, 126), (236, 179, 164, 179), (80, 126, 80, 88))
    for gpu, path in enumerate(paths):
        name = CHUNKS[(gpu - step) % GPUS]
        if more:
            moves.append(f"GPU {gpu} sends {name} to GPU {(gpu + 1) % GPUS}")
        parts.append(Arrow(*path, name, "wire") if more else Arrow(*path, kind="ink"))
    parts += moving
    entries = [(f"GPU {gpu}", RANKS[gpu], True) for gpu in range(GPUS)]
    parts += legend(4, 235, [*entries, ("moves next", "wire", True)])
    complete = sum(len(ranks) == GPUS for ranks in held[0])
    has = "no GPU has a chunk of the sum" if not complete else f"each GPU has {complete} of {GPUS} chunks of the sum"
    then = f"{phase.capitalize()}: {', '.join(moves)}." if moves else "Done."
    return Scene(400, 246, parts, alt=f"Step {step} of {STEPS}: {has}. {then}")


def tree_rounds(ranks: int) -> list[list[tuple[int, int]]]:
    """Who sends to whom in each round of an all-reduce up a binomial tree and down again.

    Examples
    --------
    >>> tree_rounds(4)
    [[(1, 0), (3, 2)], [(2, 0)], [(0, 2)], [(0, 1), (2, 3)]]
    """
    strides = [1 << level for level in range((ranks - 1).bit_length())]
    up = [[(r, r - stride) for r in range(stride, ranks, 2 * stride)] for stride in strides]
    return up + [[(to, source) for source, to in pairs] for pairs in reversed(up)]


def tree(ranks: int = 8) -> Scene:
    """Draw an all-reduce up a binomial tree and down: ranks across, rounds downward, each box with the ranks it sums.

    Parameters
    ----------
    ranks : int
        2, 4 or 8.

    Raises
    ------
    ValueError
        Another number of ranks.

    Examples
    --------
    >>> tree().alt
    'A tree all-reduce of 8 ranks takes 6 rounds, 3 up and 3 down; every message is the whole buffer.'
    """
    if ranks not in (2, 4, 8):
        raise ValueError(f"ranks must be 2, 4 or 8, got {ranks!r}")
    rounds = tree_rounds(ranks)
    held = [{rank} for rank in range(ranks)]
    pitch, high, left = 39.5, 44, 104
    parts: list[Part] = [Label(0, 12, "before", "start")]
    boxes = [(rank, 0, 1) for rank in range(ranks)]
    last = dict.fromkeys(range(ranks), 0)  # the row of the latest box of each rank
    for row, pairs in enumerate(rounds, start=1):
        way = "up" if row <= len(rounds) // 2 else "down"
        parts.append(Label(0, 12 + high * row, f"round {row}, {way}", "start"))
        for source, to in pairs:
            held[to] = held[to] | held[source]
            for rank, end in ((source, high * (row - 1) + 24), (to, high * row)):  # what it has waits there
                if end > 24 + high * last[rank]:
                    at = left + pitch * rank
                    parts.append(Arrow(at, 24 + high * last[rank], at, end, kind="ink", heads=0))
            lead = 14 if to < source else -14
            x0, x1 = left + pitch * source, left + pitch * to + lead
            parts.append(Arrow(x0, high * (row - 1) + 24, x1, high * row + 4, kind="wire"))
            boxes.append((to, row, len(held[to])))
        last |= {source: row - 1 for source, _ in pairs}
        last |= {to: row for _, to in pairs}
    for rank, row, count in boxes:
        done = count == ranks
        parts.append(Box(left + pitch * rank - 14, high * row, 28, 24, f"{count}", "memory", solid=done))
    alt = (
        f"A tree all-reduce of {ranks} ranks takes {len(rounds)} rounds, {len(rounds) // 2} up and "
        f"{len(rounds) // 2} down; every message is the whole buffer."
    )
    return Scene(400, 24 + high * len(rounds) + 4, parts, alt=alt)


STAGES = ("before", "reduce-scatter inside", "all-reduce on each rail", "all-gather inside")


def rails(stage: int, inside: Collective, across: Collective) -> Scene:
    """Draw two servers of four GPUs after a stage of a hierarchical all-reduce, and what each GPU has sent in it.

    Parameters
    ----------
    stage : int
        0 (before), then after the reduce-scatter in the servers (1), the all-reduce on the rails (2), and the
        all-gather in the servers (3).
    inside, across : Collective
        What a GPU sends in the first stage, and the third, and what it sends in the second, of the real job.

    Raises
    ------
    ValueError
        There is no such stage.

    Examples
    --------
    >>> from clusterlab.interconnect import ring_all_reduce, ring_reduce_scatter
    >>> nvlink, port = {"bandwidth": 450e9, "latency": 0}, {"bandwidth": 50e9, "latency": 0}
    >>> rails(2, ring_reduce_scatter(14e9, 8, **nvlink), ring_all_reduce(14e9 / 8, 32, **port)).alt
    'After the all-reduce on each rail: each GPU has a quarter of the sum over both servers; it sent 3.39 GB.'
    """
    if stage not in range(len(STAGES)):
        raise ValueError(f"stage must be a whole number from 0 to {len(STAGES) - 1}, got {stage!r}")
    sent = fmt((across if stage == 2 else inside).sent_bytes, "B")
    up, net = stage in (1, 3), stage == 2
    parts: list[Part] = []
    for i in range(2):
        x = 208 * i
        parts += [Label(x, 8, f"Server {i}", "start", strong=True), Box(x, 20, 192, 146)]
        bar = f"NVLink: {sent} each" if up else "NVLink"
        parts.append(Box(x + 6, 26, 180, 24, bar, "nvlink", solid=up))
        for gpu in range(4):
            left = x + 6 + 46.4 * gpu
            mid = left + 20.5
            parts.append(Arrow(mid, 50, mid, 66, kind="nvlink" if up else "ink", heads=2 if up else 0))
            parts.append(
                Arrow(mid, 166, 49 + 100.7 * gpu, 200, kind="network" if net else "ink", heads=2 if net else 0)
            )
            parts.append(Box(left, 66, 41, 94, kind="compute"))
            for piece in range(4):
                mine = piece == gpu
                count = {0: 1, 1: 4 if mine else 0, 2: 8 if mine else 0, 3: 8}[stage]
                where = left + 5, 70 + 22 * piece, 31, 20
                parts.append(Box(*where, f"{count}", "memory", solid=count == 8) if count else Box(*where))
    parts += [Box(4 + 100.7 * rail, 200, 90, 24, f"rail {rail}", "network", solid=net) for rail in range(4)]
    ports = f"Ports: {sent} each" if net else "One leaf switch for each rail"
    parts.append(Label(200, 238, ports))
    says = (
        "each of eight GPUs has the gradients of its own batch.",
        f"each GPU has a quarter of its server's sum; it sent {sent}.",
        f"each GPU has a quarter of the sum over both servers; it sent {sent}.",
        f"each GPU has all of the sum; it sent {sent}.",
    )[stage]
    before = "Before" if stage == 0 else f"After the {STAGES[stage]}"
    return Scene(400, 248, parts, alt=f"{before}: {says}")
