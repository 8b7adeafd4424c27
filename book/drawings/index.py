"""Drawing of the machine that the book is about, from one GPU to a site.

Every number is a plan's own. What computes is compute, what is kept is memory, wires are wire, electricity is ochre and
what leaves as heat is waste.
"""

from __future__ import annotations

from clusterlab import catalogue
from clusterlab.planning import Plan
from clusterlab.units import fmt
from explorable import LETTER, Arrow, Box, Label, Part, Scene, grid

_WIDE, _HIGH, _GAP = 148.0, 80.0, 22.0  # the pictures and what lies between them
_TEXT, _LINE = 170.0, 18.0  # where what is said of them begins, and from line to line

# What a picture is: its parts, its frame, and the one of its parts that the picture above shows.
_Drawn = tuple[list[Part], Box, Box]


def machine(made: Plan) -> Scene:
    """The machine of a plan in five pictures, each a part of the next, and the chapters about it.

    Parameters
    ----------
    made : Plan
        From :func:`clusterlab.planning.plan`: of servers with eight GPUs, four to a rack, as they are drawn.

    Examples
    --------
    >>> from clusterlab.planning import Site, Training, plan
    >>> made = plan(Training("Llama 3.1 8B", 1e12, global_batch=512), Site("H100 SXM", gpus=1024), draws=2)
    >>> machine(made).alt[:79]
    'One GPU: 989 TFLOP/s, on 80 GB at 3.35 TB/s. A server: 8 GPUs, at 450 GB/s each'
    """
    one, done = made.design, made.outcome
    chip, wires = catalogue.accelerator(one.accelerator), one.machine
    in_rack = round(one.servers / one.racks)
    rows = (
        (
            _gpu,
            "One GPU",
            (fmt(chip.peak("bf16"), "FLOP/s"), f"on {fmt(chip.hbm_capacity, 'B')} at {fmt(chip.hbm_bandwidth, 'B/s')}"),
            {"Roofline": "roofline"},
        ),
        (
            _server,
            "A server",
            (f"{one.per_server:.0f} GPUs", f"at {fmt(wires.scale_up_bandwidth, 'B/s')} each way"),
            {"Interconnect": "interconnect", "Parallelism": "parallelism"},
        ),
        (
            _rack,
            "A rack",
            (f"{in_rack} servers", f"that draw up to {fmt(in_rack * one.server_power, 'W')}"),
            {"Serving": "serving"},
        ),
        (
            _fabric,
            "The fabric",
            (
                f"{one.gpus:,.0f} GPUs at {fmt(wires.network_bandwidth, 'B/s')}",
                f"on {one.fabric.switches:,.0f} switches",
            ),
            {"Interconnect": "interconnect", "Operations": "operations"},
        ),
        (
            _site,
            "The site",
            (
                f"{fmt(float(done.site.total), 'W')} for {one.racks:,.0f} racks",
                f"a failure every {fmt(float(done.mtbf), 'h', 2)}",
            ),
            {"Failures": "failures", "Power": "power", "Cost": "scaling"},
        ),
    )
    parts: list[Part] = []
    above: Box | None = None
    for i, (draw, title, facts, chapters) in enumerate(rows):
        y = i * (_HIGH + _GAP)
        drawn, frame, shown = draw(y)
        parts += drawn
        if above:
            for side in (0, 1):  # from the corners of the picture above to those of what it shows
                start = above.x + side * above.width
                parts.append(Arrow(start, y - _GAP, shown.x + side * shown.width, shown.y, kind="ink", heads=0))
        top = y + _HIGH / 2 - 1.5 * _LINE
        parts.append(Label(_TEXT, top, title, "start", strong=True))
        parts += [Label(_TEXT, top + j * _LINE, fact, "start") for j, fact in enumerate(facts, 1)]
        x = _TEXT
        for name, page in chapters.items():
            parts.append(Label(x, top + 3 * _LINE, name, "start", link=f"{page}.ipynb"))
            x += LETTER * (len(name) + 2)
        above = frame
    said = " ".join(f"{title}: {', '.join(facts)}." for _, title, facts, _ in rows)
    return Scene(400, len(rows) * (_HIGH + _GAP) - _GAP, parts, alt=said)


def _frame(y: float, width: float) -> Box:
    return Box((_WIDE - width) / 2, y, width, _HIGH)


def _gpu(y: float) -> _Drawn:
    """A die between its stacks of memory."""
    frame = _frame(y, 100)
    stacks = [
        Box(frame.x + side, y + 8 + 22 * i, 18, 20, kind="memory", solid=True) for side in (6, 76) for i in range(3)
    ]
    die = Box(frame.x + 28, y + 8, 44, 64, kind="compute", solid=True)
    return [frame, *stacks, die], frame, frame


def _server(y: float) -> _Drawn:
    """Eight GPUs and the switches between them."""
    frame = _frame(y, 124)
    gpus = [Box(frame.x + 8 + 29 * j, y + top, 21, 24, kind="compute", solid=True) for top in (6, 50) for j in range(4)]
    bar = Box(frame.x + 8, y + 36, 108, 8, kind="nvlink", solid=True)
    wires: list[Part] = []
    for gpu in gpus:
        x, edge = gpu.x + gpu.width / 2, gpu.y + gpu.height if gpu.y < bar.y else gpu.y
        wires.append(Arrow(x, edge, x, bar.y + bar.height / 2, kind="nvlink", heads=0))
    return [frame, *wires, bar, *gpus], frame, gpus[1]


def _rack(y: float) -> _Drawn:
    """Four servers below the switch that joins them."""
    frame = _frame(y, 58)
    switch = Box(frame.x + 6, y + 5, 46, 5, kind="network", solid=True)
    servers = [Box(frame.x + 6, y + 14 + 16 * i, 46, 13) for i in range(4)]
    gpus = [
        gpu
        for one in servers
        for gpu in grid(one.x + 4, one.y + 2.5, 38, 8, [[""] * 4] * 2, kind="compute", solid=_ALL, gap=2)
    ]
    return [frame, switch, *servers, *gpus], frame, servers[0]


def _fabric(y: float) -> _Drawn:
    """Racks below two tiers of switches, each joined to each."""
    frame = _frame(y, 148)
    racks = [Box(frame.x + 7 + 17 * i, y + 46, 14, 29) for i in range(8)]
    servers = [
        Box(rack.x + 2.5, rack.y + 4 + 6 * i, 9, 4, kind="compute", solid=True) for rack in racks for i in range(4)
    ]
    leaves = [Box(rack.x, y + 33, 14, 6, kind="network", solid=True) for rack in racks]
    spines = [Box(frame.x + 25 + 28 * i, y + 6, 14, 6, kind="network", solid=True) for i in range(4)]
    web: list[Part] = [
        Arrow(leaf.x + 7, leaf.y, spine.x + 7, spine.y + 6, kind="network", heads=0, faint=True)
        for leaf in leaves
        for spine in spines
    ]
    down = [Arrow(leaf.x + 7, leaf.y + 6, leaf.x + 7, leaf.y + 13, kind="network", heads=0) for leaf in leaves]
    return [frame, *web, *down, *leaves, *spines, *racks, *servers], frame, racks[2]


def _site(y: float) -> _Drawn:
    """A hall of racks between the line that feeds it and the plant that takes its heat away."""
    frame = _frame(y, 148)
    hall = Box(frame.x + 34, y + 14, 82, 60)
    racks = grid(hall.x + 6, hall.y + 6, 70, 48, [[""] * 12] * 4, kind="compute", solid=_ALL, gap=2.4)
    mast = [(4, 74, 14, 14), (24, 74, 14, 14), (5, 24, 23, 24), (3, 36, 25, 36), (8, 58, 20, 58)]
    pylon = [Arrow(frame.x + a, y + b, frame.x + c, y + d, kind="ochre", heads=0) for a, b, c, d in mast]
    line = Arrow(frame.x + 24, y + 36, hall.x, y + 44, kind="ochre", heads=0)
    coolers = [Box(frame.x + 124, y + 40 + 18 * i, 18, 16, kind="waste") for i in range(2)]
    heat = [Arrow(frame.x + 128 + 10 * i, y + 36, frame.x + 128 + 10 * i, y + 18, kind="waste") for i in range(2)]
    return [frame, *pylon, line, hall, *racks, *coolers, *heat], frame, hall


_ALL = [(i, j) for i in range(4) for j in range(12)]  # every box of a grid
