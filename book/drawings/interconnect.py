"""Drawings of the fabric: servers and racks, collectives between their GPUs, and networks of switches.

What is drawn is taken from records of :mod:`clusterlab.catalogue` and from the laws of :mod:`clusterlab.interconnect` and
:mod:`clusterlab.interconnect`, or comes out of a collective that is run here, piece by piece. A piece of a buffer has the
colours of the ranks whose values it sums: one colour where it is one rank's own, stripes where it is a sum.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from clusterlab import catalogue
from clusterlab.interconnect import Collective, FatTree, ScaleUp, Torus
from clusterlab.units import fmt
from explorable.scene import Arrow, Band, Box, Label, Part, Scene, legend

RANKS = (
    "ochre",
    "violet",
    "red",
    "grey",
)  # colours of four ranks: they mean nothing else in the book
GPUS = len(RANKS)  # of a ring, and of the collectives
STEPS = 2 * (GPUS - 1)  # of a ring all-reduce
CHUNKS = "abcd"
TIMES = "\N{MULTIPLICATION SIGN}"

_CORNERS = ((0, 22), (240, 22), (240, 148), (0, 148))  # of the ring's GPUs, clockwise
_CELL, _APART = (30, 28), 37  # size of a chunk in the ring, and from chunk to chunk

Held = list[list[frozenset[int]]]  # of each rank, whose values each of its pieces sums; none where it holds nothing


def _piece(
    x: float,
    y: float,
    width: float,
    height: float,
    ranks: Collection[int],
    key: str = "",
) -> list[Box]:
    """A piece of a buffer: a stripe for each rank whose values it sums, an empty box where it is not there."""
    if not ranks:
        return [Box(x, y, width, height)]
    each = width / len(ranks)
    return [
        Box(
            x + i * each,
            y,
            each,
            height,
            kind=RANKS[rank],
            solid=True,
            key=f"{key}{rank}" if key else "",
        )
        for i, rank in enumerate(sorted(ranks))
    ]


# --- A server and a rack ---------------------------------------------------------------------------------------------


def _links(machine: catalogue.Node) -> tuple[catalogue.Link, catalogue.Link]:
    """Scale-up link and network port of each accelerator."""
    up, port = (
        catalogue.accelerator(machine.accelerator).scale_up_link,
        machine.network_link,
    )
    if not (up and port and machine.network_ports == machine.accelerators):
        got = f"{machine.name} with {machine.network_ports} of {port} and {up}"
        raise ValueError(f"a machine needs a scale-up link and a network port for each accelerator, got {got}")
    return catalogue.link(up), catalogue.link(port)


def server(node: catalogue.Node, pcie: catalogue.Link) -> Scene:
    """Draw a server with every link of a GPU, each as wide as it is fast in one direction.

    Parameters
    ----------
    node : Node
        The server: its accelerators, their scale-up link and its network ports.
    pcie : Link
        The link between an accelerator and its network card.

    Raises
    ------
    ValueError
        The server has not one port for each accelerator, or no scale-up link.

    Examples
    --------
    >>> from clusterlab.catalogue import link, node
    >>> server(node("DGX H100"), link("PCIe 5.0 x16")).alt[:72]
    'DGX H100: each of 8 GPUs reaches the others by NVLink 4 at 450 GB/s, and'
    """
    chip = catalogue.accelerator(node.accelerator)
    up, port = _links(node)
    count, left, wide = node.accelerators, 272, 27.0
    pitch = left / count
    rows = {
        "switch": (0, 24),
        "gpu": (66, 34),
        "pcie": (134, 24),
        "card": (180, 24),
        "leaf": (246, 24),
    }
    (gpu, gpu_high), (bus, bus_high), (card, card_high) = (
        rows["gpu"],
        rows["pcie"],
        rows["card"],
    )
    parts: list[Part] = []

    def wire(at: float, link: catalogue.Link, kind: str, top: float, bottom: float) -> Box:
        width = wide * link.bandwidth / up.bandwidth
        return Box(at - width / 2, top, width, bottom - top, kind=kind, solid=True)

    for i in range(count):
        at = pitch * (i + 0.5)
        parts += [
            wire(at, up, "nvlink", 24, gpu),
            wire(at, pcie, "wire", gpu + gpu_high, bus),
            wire(at, pcie, "wire", bus + bus_high, card),
            wire(at, port, "network", card + card_high, rows["leaf"][0]),
            Box(at - 15, gpu, 30, gpu_high, f"{i}", "compute", solid=True),
            Box(at - 15, card, 30, card_high, "NIC", "network"),
        ]
    bars = {
        "switch": ("NVSwitch", "nvlink"),
        "pcie": ("PCIe switches and CPUs", "wire"),
    }
    for row, (text, kind) in (bars | {"leaf": ("leaf switches, one for each rail", "network")}).items():
        parts.append(Box(0, rows[row][0], left, rows[row][1], text, kind))
    beside = {
        45: (up.name, fmt(up.bandwidth, "B/s")),
        83: (f"{count} {TIMES} {chip.name}", f"HBM {fmt(chip.hbm_bandwidth, 'B/s')}"),
        146: (pcie.name, fmt(pcie.bandwidth, "B/s")),
        225: (port.name, fmt(port.bandwidth, "B/s")),
    }
    for y, (name, rate) in beside.items():
        parts += [
            Label(282, y - 8, name, "start", strong=True),
            Label(282, y + 8, rate, "start"),
        ]
    alt = (
        f"{node.name}: each of {count} GPUs reaches the others by {up.name} at {fmt(up.bandwidth, 'B/s')}, and the "
        f"network by {pcie.name} at {fmt(pcie.bandwidth, 'B/s')} and an {port.name} port at "
        f"{fmt(port.bandwidth, 'B/s')}, {up.bandwidth / port.bandwidth:g} times less than NVLink."
    )
    return Scene(400, 270, parts, alt=alt)


def domains(node: catalogue.Node, rack: catalogue.Rack, switches: ScaleUp) -> Scene:
    """Draw four servers beside a rack: how many GPUs reach one another at the rate of the scale-up link.

    Parameters
    ----------
    node, rack : Node, Rack
        A server of eight accelerators, and a rack of 72 that is one domain.
    switches : ScaleUp
        The rack's scale-up switches, as :func:`clusterlab.interconnect.scale_up` counts them.

    Raises
    ------
    ValueError
        A machine has not one port for each accelerator, or no scale-up link.

    Examples
    --------
    >>> from clusterlab.catalogue import node, rack
    >>> from clusterlab.interconnect import scale_up
    >>> drawn = domains(node("DGX H100"), rack("GB200 NVL72"), scale_up(72, links=18, switch_ports=72))
    >>> sum(part.kind == "compute" for part in drawn.parts if isinstance(part, Box))
    104
    """
    ports, rates, totals = [], [], []
    for machine in (node, rack):
        up, port = _links(machine)
        rates.append(fmt(up.bandwidth, "B/s"))
        ports.append(fmt(port.bandwidth, "B/s"))
        totals.append(fmt(up.bandwidth * machine.accelerators, "B/s"))
    high, pitch, servers = 46, 54, 4
    parts: list[Part] = [
        Label(0, 8, f"{servers} {TIMES} {node.name}", "start", strong=True),
        Label(214, 8, rack.name, "start", strong=True),
        Box(166, 22, 16, servers * pitch - 8, kind="network", solid=True),
    ]
    for i in range(servers):
        top = 22 + pitch * i
        parts += [
            Arrow(152, top + high / 2, 166, top + high / 2, kind="network", heads=0),
            Box(0, top, 152, high),
            Box(
                4,
                top + 4,
                144,
                18,
                f"{rates[0]} to {node.accelerators - 1} others",
                "nvlink",
            ),
        ]
        for gpu in range(node.accelerators):
            parts.append(Box(4 + 18.25 * gpu, top + 26, 16, 16, kind="compute", solid=True))
    across, left, top = 9, 218, 22
    rows = rack.accelerators // across
    parts.append(Box(214, top, 168, servers * pitch - 8))
    for i in range(rack.accelerators):
        row, column = divmod(i, across)
        y = top + 7 + 19 * row + (46 if row >= rows // 2 else 0)
        parts.append(Box(left + 4 + 17.3 * column, y, 14, 14, kind="compute", solid=True))
    parts += [
        Box(
            left + 2,
            top + 9 + 19 * (rows // 2),
            156,
            36,
            f"{switches.switches} NVLink switches\n{rates[1]} to {rack.accelerators - 1} others",
            "nvlink",
        ),
        Arrow(382, 126, 388, 126, kind="network", heads=0),
        Box(388, 22, 12, servers * pitch - 8, kind="network", solid=True),
    ]
    below = 22 + servers * pitch + 6
    for i, (x, what) in enumerate(((0, " each"), (214, ""))):
        parts.append(Label(x, below, f"NVLink: {totals[i]}{what}", "start"))
        parts.append(Label(x, below + 17, f"Network: {ports[i]} a GPU", "start"))
    alt = (
        f"In a {node.name} a GPU reaches {node.accelerators - 1} others at {rates[0]}, in a {rack.name} "
        f"{rack.accelerators - 1} at {rates[1]}; beyond that either has {ports[0]} of network."
    )
    return Scene(400, below + 26, parts, alt=alt)


def rack(machine: catalogue.Rack, switches: ScaleUp) -> Scene:
    """Draw every link of a rack: from each GPU one to each scale-up switch, and one to the network.

    A line of the web is the links of a tray to a switch, one from each of its GPUs. The links of one GPU stand out.

    Parameters
    ----------
    machine : Rack
        A rack of trays of accelerators that is one domain.
    switches : ScaleUp
        Its scale-up switches, as :func:`clusterlab.interconnect.scale_up` counts them.

    Raises
    ------
    ValueError
        The switches are not those of this rack, or it has not one port for each accelerator.

    Examples
    --------
    >>> from clusterlab.catalogue import rack as named
    >>> from clusterlab.interconnect import scale_up
    >>> rack(named("GB200 NVL72"), scale_up(72, links=18, switch_ports=72)).alt[:66]
    'GB200 NVL72: every GPU has 18 links of NVLink 5, 50 GB/s each, one'
    """
    if switches.cables_per_switch != machine.accelerators:
        got = f"{switches.cables_per_switch} links of a switch for {machine.accelerators}"
        raise ValueError(f"each accelerator of a rack has one link to each switch, got {got}")
    up, port = _links(machine)
    count, trays, links = (
        machine.accelerators,
        machine.nodes or 1,
        int(switches.switches),
    )
    rate, ndr = fmt(up.bandwidth / links, "B/s"), fmt(port.bandwidth, "B/s")
    top, low, high, gpu, leaf = (
        20,
        40,
        150,
        24,
        196,
    )  # switches, their lower edge, GPUs and their height, leaf switches
    wide, deep = 400 / trays, count // trays
    centre = [400 / links * (j + 0.5) for j in range(links)]
    place = [wide * (i // deep) + (wide - 3) * (i % deep + 0.5) / deep + 1.5 for i in range(count)]
    one = count // 3  # the GPU whose links stand out
    parts: list[Part] = []
    for x in (wide * (i + 0.5) for i in range(trays)):
        parts += [Arrow(x, high, y, low, kind="nvlink", heads=0, faint=True) for y in centre]
    parts += [Arrow(place[one], high, y, low, kind="nvlink", heads=0) for y in centre]
    parts += [Box(y - 7, top, 14, low - top, kind="nvlink", solid=True) for y in centre]
    for i, x in enumerate(place):
        parts.append(Arrow(x, high + gpu, x, leaf, kind="network", heads=0, faint=i != one))
        parts.append(Box(x - 1.4, high, 2.8, gpu, kind="compute", solid=i == one))
    parts += [
        Box(0, leaf, 400, 24, "leaf switches of the network", "network"),
        Label(
            0,
            8,
            f"{links} NVLink switches, {fmt(count * up.bandwidth / links, 'B/s')} each",
            "start",
        ),
        Label(0, leaf + 38, f"Up: {up.name}, {links} {TIMES} {rate} a GPU", "start"),
        Label(0, leaf + 55, f"Down: {port.name}, {ndr} a GPU", "start"),
        Label(
            0,
            leaf + 72,
            f"{trays} trays of {deep} GPUs; a thin line is {deep} links",
            "start",
        ),
    ]
    alt = (
        f"{machine.name}: every GPU has {links} links of {up.name}, {rate} each, one to each of {links} switches. Out "
        f"of the rack it has one {port.name} port of {ndr}."
    )
    return Scene(400, leaf + 81, parts, alt=alt)


def ways(servers: int, gpus: int, times: Sequence[float]) -> Scene:
    """Draw the wires of two servers twice: one ring uses one port of each, a ring on every rail all of them.

    Parameters
    ----------
    servers, gpus : int
        Servers of the job, and GPUs of a server.
    times : sequence of two floats
        Seconds of the all-reduce either way.

    Examples
    --------
    >>> drawn = ways(32, 8, [0.56, 0.0723])
    >>> [sum(isinstance(part, Arrow) and part.kind == kind for part in drawn.parts) for kind in ("network", "ink")]
    [18, 14]
    """
    parts: list[Part] = []
    titles = ("One ring, one port", "A ring on every rail")
    for panel, (title, time) in enumerate(zip(titles, times, strict=True)):
        left, used = 212 * panel, (1, gpus)[panel]
        parts.append(Label(left, 8, title, "start", strong=True))
        for i in range(2):
            x = left + 100 * i
            parts += [
                Box(x, 22, 88, 54),
                Box(x + 4, 26, 80, 18, "NVLink", "nvlink", solid=bool(panel)),
            ]
            for gpu in range(gpus):
                at = x + 4 + 80 / gpus * (gpu + 0.5)
                kind = "network" if gpu < used else "ink"
                parts.append(Arrow(at, 76, at, 96, kind=kind, heads=0))
                parts.append(Box(at - 4, 50, 8, 20, kind="compute", solid=True))
        parts.append(Box(left, 96, 188, 22, f"network, {servers} servers", "network"))
        parts.append(Label(left, 132, f"{used} of {gpus} ports: {fmt(time, 's')}", "start"))
    alt = (
        f"One ring uses one port of each of {servers} servers and takes {fmt(times[0], 's')}; a ring on every rail "
        f"uses all {gpus} and takes {fmt(times[1], 's')}."
    )
    return Scene(400, 142, parts, alt=alt)


# --- Collectives -----------------------------------------------------------------------------------------------------

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
        "all-reduce": {
            "before": own,
            "reduce-scatter": scattered,
            "all-gather": summed,
        },
        "reduce-scatter": {"before": own, "after": scattered},
        "all-gather": {
            "before": [[frozenset({rank}) if piece == rank else none for piece in ranks] for rank in ranks],
            "after": [[frozenset({piece}) for piece in ranks] for _ in ranks],
        },
        "all-to-all": {
            "before": own,
            "after": [[frozenset({piece}) for piece in ranks] for _ in ranks],
        },
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
        parts += [
            Box(x, y, 160, 62),
            Label(x, y - 11, f"GPU {gpu}", "start", strong=True),
        ]
        for chunk, ranks in enumerate(held[gpu]):
            left, top = ring_cell(gpu, chunk)
            parts.append(Label(left + _CELL[0] / 2, y + 13, CHUNKS[chunk]))
            if (gpu - step) % GPUS == chunk:
                key = CHUNKS[chunk]
                frame = "wire" if more else "ink"
                moving.append(
                    Box(
                        left - 4,
                        top - 4,
                        _CELL[0] + 8,
                        _CELL[1] + 8,
                        kind=frame,
                        solid=more,
                        key=key,
                    )
                )
                moving += _piece(left, top, *_CELL, ranks, key)
            else:
                parts += _piece(left, top, *_CELL, ranks)
    paths = (
        (164, 53, 236, 53),
        (320, 88, 320, 126),
        (236, 179, 164, 179),
        (80, 126, 80, 88),
    )
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
            for rank, end in (
                (source, high * (row - 1) + 24),
                (to, high * row),
            ):  # what it has waits there
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
        parts.append(
            Box(
                left + pitch * rank - 14,
                high * row,
                28,
                24,
                f"{count}",
                "memory",
                solid=done,
            )
        )
    alt = (
        f"A tree all-reduce of {ranks} ranks takes {len(rounds)} rounds, {len(rounds) // 2} up and "
        f"{len(rounds) // 2} down; every message is the whole buffer."
    )
    return Scene(400, 24 + high * len(rounds) + 4, parts, alt=alt)


STAGES = (
    "before",
    "reduce-scatter inside",
    "all-reduce on each rail",
    "all-gather inside",
)


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
        parts += [
            Label(x, 8, f"Server {i}", "start", strong=True),
            Box(x, 20, 192, 146),
        ]
        bar = f"NVLink: {sent} each" if up else "NVLink"
        parts.append(Box(x + 6, 26, 180, 24, bar, "nvlink", solid=up))
        for gpu in range(4):
            left = x + 6 + 46.4 * gpu
            mid = left + 20.5
            parts.append(
                Arrow(
                    mid,
                    50,
                    mid,
                    66,
                    kind="nvlink" if up else "ink",
                    heads=2 if up else 0,
                )
            )
            parts.append(
                Arrow(
                    mid,
                    166,
                    49 + 100.7 * gpu,
                    200,
                    kind="network" if net else "ink",
                    heads=2 if net else 0,
                )
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


def all_to_all(hierarchical: bool, servers: int = 3, gpus: int = 4) -> Scene:
    """Draw what one GPU sends to other servers in an all-to-all, each message as wide as it is large.

    Parameters
    ----------
    hierarchical : bool
        In two stages, first inside the server to the GPU on the right rail; or straight to every GPU.
    servers, gpus : int
        Servers, and GPUs of each.

    Examples
    --------
    >>> [sum(isinstance(part, Band) for part in all_to_all(way).parts) for way in (False, True)]
    [8, 2]
    """
    n, others = servers * gpus, servers - 1
    pitch, high, gap = 29, 25, 14
    tall = others * gpus * pitch + (others - 1) * gap
    unit = high / (others * gpus)  # width of one of the n pieces of the buffer
    start = (tall - gpus * pitch) / 2 + 22
    parts: list[Part] = [
        Label(0, 8, "Sending server", "start", strong=True),
        Label(400, 8, "Other servers", "end", strong=True),
        Box(0, start - 4, 104, gpus * pitch + 4),
    ]

    def row(server: int, gpu: int) -> float:
        return 22 + (server - 1) * (gpus * pitch + gap) + gpu * pitch

    targets = [(server, gpu) for server in range(1, servers) for gpu in range(gpus)]
    if hierarchical:
        targets = [(server, 0) for server in range(1, servers)]
    width = unit * (gpus if hierarchical else 1)
    outs = start + high / 2 - unit * gpus * others / 2
    for i, (server, gpu) in enumerate(targets):
        y = row(server, gpu) + high / 2 - width / 2
        parts.append(Band(100, outs + i * width, 320, y, width, width, "network"))
    for server in range(1, servers):
        parts.append(Box(316, row(server, 0) - 4, 84, gpus * pitch + 4))
        for gpu in range(gpus):
            hit = (server, gpu) in targets
            parts.append(
                Box(
                    320,
                    row(server, gpu),
                    76,
                    high,
                    f"GPU {server * gpus + gpu}",
                    "compute",
                    solid=hit,
                )
            )
    for gpu in range(gpus):
        y = start + gpu * pitch
        parts.append(Box(38, y, 62, high, f"GPU {gpu}", "compute", solid=gpu == 0))
        if hierarchical and gpu:
            parts.append(
                Arrow(
                    38,
                    start + high / 2,
                    38,
                    y + high / 2,
                    kind="nvlink",
                    bend=-0.4 / gpu**0.2,
                )
            )
    count = len(targets)
    size = f"S/{servers}" if hierarchical else f"S/{n}"
    parts.append(Label(0, tall + 34, f"{count} messages of {size} cross", "start"))
    if hierarchical:
        parts.append(Label(0, start + gpus * pitch + 14, "NVLink first", "start"))
    alt = (
        f"GPU 0 sends {count} messages of {size} to other servers"
        + (", after an exchange over NVLink" if hierarchical else "")
        + f": {others * gpus} of the {n} pieces of its buffer either way."
    )
    return Scene(400, tall + 44, parts, alt=alt)


# --- Networks --------------------------------------------------------------------------------------------------------


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
            parts += [
                Arrow(x, 176, at, 196, kind="ink", heads=0),
                Box(at - 2, 196, 4, 14, kind="compute", solid=True),
            ]
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


def torus(sizes: Sequence[int], counted: Torus, rate: float) -> Scene:
    """Draw a torus of two dimensions, with its links around the edges, and the links of one chip.

    Parameters
    ----------
    sizes : sequence of two ints
        Rows and columns, three or four each.
    counted : Torus
        The same torus, as :func:`clusterlab.interconnect.torus` counts it.
    rate : float
        Bytes/s of one link in one direction.

    Raises
    ------
    ValueError
        The record is of another torus, or there are fewer rows or columns, or more.

    Examples
    --------
    >>> from clusterlab.interconnect import torus as count
    >>> drawn = torus((3, 4), count((3, 4)), 100e9)
    >>> sum(isinstance(part, Arrow) and not part.text for part in drawn.parts)
    24
    """
    rows, columns = sizes
    if not {rows, columns} <= {3, 4}:
        raise ValueError(f"sizes must be three or four rows and columns, got {rows} by {columns}")
    if rows * columns != counted.nodes:
        raise ValueError(f"counted must be a torus of {rows} by {columns}, got {counted.nodes} nodes")
    wide, high, across, down, top = 44, 28, 100, 68, 36
    one = 1, 1  # the chip whose links stand out

    def at(row: int, column: int) -> tuple[float, float]:
        return 12 + across * column, top + down * row

    def kind(row: int, column: int, to_row: int, to_column: int) -> str:
        return "nvlink" if one in ((row, column), (to_row, to_column)) else "ink"

    parts: list[Part] = []
    for row in range(rows):
        for column in range(columns):
            x, y = at(row, column)
            if column + 1 < columns:
                ends = x + wide, y + high / 2, x + across, y + high / 2
                parts.append(Arrow(*ends, kind=kind(row, column, row, column + 1), heads=0))
            else:
                ends = at(row, 0)[0] + wide / 2, y, x + wide / 2, y
                parts.append(Arrow(*ends, kind="violet", bend=30 / (ends[2] - ends[0]), heads=0))
            if row + 1 < rows:
                ends = x + wide / 2, y + high, x + wide / 2, y + down
                parts.append(Arrow(*ends, kind=kind(row, column, row + 1, column), heads=0))
            else:
                ends = x + wide, at(0, column)[1] + high / 2, x + wide, y + high / 2
                parts.append(Arrow(*ends, kind="violet", bend=30 / (ends[3] - ends[1]), heads=0))
    text = fmt(rate, "B/s")
    places = [(row, column) for row in range(rows) for column in range(columns)]
    parts += [Box(*at(*place), wide, high, kind="compute", solid=place == one) for place in places]
    alt = (
        f"A torus of {rows} by {columns} chips: each has a link of {text} to each of four neighbours, and links around "
        f"the edges join the ends of every row and column."
    )
    bottom = top + down * (rows - 1) + high
    entries = [
        (f"links of one chip, {text} each", "nvlink", True),
        ("wraparound", "violet", True),
    ]
    parts += legend(12, bottom + 20, entries)
    return Scene(400, bottom + 30, parts, alt=alt)
