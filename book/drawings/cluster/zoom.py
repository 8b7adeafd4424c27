"""The machine of so many GPUs: one drawing, seen from as far away as it takes."""

from __future__ import annotations

from collections.abc import Iterator

from clusterlab.catalogue import accelerator
from clusterlab.catalogue import machine as machine_of
from clusterlab.units import fmt
from explorable import LETTER, Arrow, Box, Label, Part, Scene

from .plane import (
    GPU,
    INK,
    KINDS,
    POD,
    RACK,
    SERVER,
    Camera,
    Line,
    Thing,
    colour_of,
    gpu_at,
    of_gpu,
    of_pod,
    of_rack,
    of_servers,
    of_site,
    of_switch,
    outline,
    pod_at,
    rack_at,
    server_at,
)
from .sizes import SIZES, Size, server_power, size
from .strip import strip

# The picture of each level: its place in the drawing, what it says above, and the chapters about it.
_FRAMES = {
    "GPU": (4.0, 44.0, 244.0, 184.0),
    "server": (8.0, 44.0, 384.0, 184.0),
    "rack": (16.0, 44.0, 100.0, 184.0),
    "fabric": (2.0, 62.0, 336.0, 150.0),
    "site": (4.0, 64.0, 392.0, 164.0),
}
_CHAPTERS = {
    "GPU": {"Roofline": "roofline"},
    "server": {"Interconnect": "interconnect", "Parallelism": "parallelism"},
    "rack": {"Serving": "rack"},
    "fabric": {"Training step": "step", "Operations": "operations"},
    "site": {"Failures": "failures", "Power": "power", "Cost": "cost"},
}
# What is lit in the strip below the picture.
_TRAIL = {
    "GPU": ("die", "stack"),
    "server": ("gpu", "nvlink", "nvswitch"),
    "rack": ("server", "switch"),
    "fabric": ("rack", "leaf", "spine", "web", "down"),
    "site": ("pod", "pylon", "feed", "cooler", "heat"),
}
_PODS = -(-SIZES[-1] // 256)  # as many as the largest site has
_DRAWN_RACKS = 8  # pods whose racks are drawn
_LEAST = 1.6  # units of the drawing: what is smaller is left out
_UNSEEN = Box(4, 146, 0.01, 0.01)  # stands for what a picture does not show; at one place, so that it need not move
_LINKS, _LABELS = 3, 4  # texts of every picture, beside the two above it


def machine(gpus: int) -> Scene:
    """The machine of so many H100s: the level that they fill, what is lit in it, and what its wires carry.

    Every picture has the same parts at another distance, so that a figure moves from one to the next.

    Parameters
    ----------
    gpus : int
        From 1 to 100,000.

    Examples
    --------
    >>> machine(8).alt
    'A server: 8 GPUs, so close that every wire is short.'
    """
    if not 1 <= gpus <= SIZES[-1]:
        raise ValueError(f"gpus must be from 1 to {SIZES[-1]:,}, got {gpus!r}")
    one = size(gpus)
    pods = -(-gpus // 256)
    columns = _columns(pods)
    level = one.level
    seen = {
        "GPU": (*gpu_at(0), *GPU),
        "server": (*server_at(0), *SERVER),
        "rack": (*rack_at(0), *RACK),
        "fabric": (0.0, 0.0, *POD),
        "site": outline(pods, columns),
    }[level]
    camera = Camera.onto(seen, _FRAMES[level])
    title, facts, labels = _said(one)
    fast = fmt(machine_of("H100 SXM").scale_up_bandwidth, "B/s")
    written = {"GPU": {"stack": "HBM"}, "server": {"nvswitch": f"NVLink, {fast} each way for each GPU"}}.get(level, {})
    parts: list[Part] = []
    for thing in _everything(pods, columns):
        kind, solid = _look(thing, gpus, level)
        if isinstance(thing, Line):
            line = camera.line(thing, kind or "ink")
            long = abs(line.x1 - line.x0) + abs(line.y1 - line.y0) > 3
            parts.append(line if kind and long else _UNSEEN)
        elif kind and min(camera.scale * thing.width, camera.scale * thing.height) >= _LEAST:
            parts.append(camera.box(thing, kind, solid, written.get(thing.name, "")))
        else:
            parts.append(_UNSEEN)
    parts += _lens(camera, level)
    parts += [Label(0, 9, title, "start", strong=True), Label(0, 27, facts, "start")]
    parts += [*labels, *(Label(20 + 20 * i, 232, " ") for i in range(_LABELS - len(labels)))]
    x, links = 400.0, list(_CHAPTERS[level].items())
    for name, page in reversed(links):
        text = f"see {name}" if name == links[0][0] else name
        parts.append(Label(x, 9, text, "end", link=f"{page}.ipynb"))
        x -= LETTER * (len(name) + 2)
    parts += [Label(120 + 20 * i, 232, " ") for i in range(_LINKS - len(links))]
    parts += strip({level: _TRAIL[level]}, lambda names: lambda name, _: colour_of(name) if name in names else INK, 240)
    return Scene(400, 310, parts, alt=f"{title}: {facts}.")


def _columns(pods: int) -> int:
    """Pods in a row of a hall: about two thirds as many as rows, and all rows full where that can be."""
    wanted = (0.67 * pods) ** 0.5
    full = [n for n in range(1, pods + 1) if pods % n == 0 and 0.75 * wanted <= n <= 1.4 * wanted]
    return min(full, key=lambda n: abs(n - wanted)) if full else max(round(wanted), 1)


def _everything(pods: int, columns: int) -> Iterator[Thing | Line]:
    """All that can be seen of the machine, from the outside in: always as many things, in the same order."""
    for thing in of_site(pods, columns):
        if thing.name != "pod":
            yield thing
    for pod in range(1, _PODS):
        yield Thing("pod", pod, *pod_at(pod, columns), *POD)
    for pod in range(1, _DRAWN_RACKS):
        x, y = pod_at(pod, columns)
        for i in range(8):
            rack = of_rack(i)
            yield Thing("far rack", 8 * pod + i, x + rack.x, y + rack.y, rack.width, rack.height)
    yield from of_pod()
    yield of_switch(0)
    yield from of_servers(32, gpus=False)
    yield from (thing for thing in of_servers(4) if thing.name != "server")
    for thing in of_gpu():
        if thing.name != "gpu":
            yield thing
    x, y = gpu_at(0)
    for i in range(132):  # the cores of the die
        yield Thing("core", i, x + 3.0 + 0.365 * (i % 11), y + 1.0 + 0.505 * (i // 11), 0.3, 0.44)


def _look(thing: Thing | Line, gpus: int, level: str) -> tuple[str, bool]:
    """The colour of a thing in a picture, and whether it is solid; no colour where it is not there."""
    name, number = thing.name, thing.number
    racks, servers = -(-gpus // 32), -(-gpus // 8)
    inside = {"GPU": 0, "server": 1, "rack": 2, "fabric": 3, "site": 4}[level]
    nothing = "", False
    if name in ("hall", "pylon", "feed", "cooler", "heat"):
        return nothing if inside < 4 else KINDS.get(name, INK)
    if name == "pod":
        there = (256 * number < gpus and inside == 4) or (number == 0 and inside == 3)
        if not there:
            return nothing
        return INK if inside == 3 or gpus <= 256 * _DRAWN_RACKS else ("compute", True)
    if name == "far rack":
        return ("compute", True) if inside == 4 and 32 * number < gpus <= 256 * _DRAWN_RACKS else nothing
    if name in ("web", "leaf", "down", "spine"):
        rack = number // 4 if name == "web" else number
        there = inside == 3 and (name == "spine" or rack < racks)
        return KINDS[name] if there else nothing
    if name == "rack":
        if inside == 4:
            return ("compute", True) if gpus <= 256 * _DRAWN_RACKS else nothing
        return INK if number < racks and inside in (2, 3) and (inside == 3 or number == 0) else nothing
    if name == "switch":
        return KINDS[name] if inside == 2 else nothing
    if name == "server":
        if number >= servers or inside not in (1, 2, 3) or (inside == 1 and number):
            return nothing
        return ("compute", True) if inside == 3 else INK
    if name in ("nvlink", "nvswitch"):
        if number and name == "nvswitch" and (inside != 2 or number >= servers):
            return nothing
        return KINDS[name] if inside == 1 or (inside == 2 and name == "nvswitch") else nothing
    if name == "gpu":
        if inside == 0:
            return INK if number == 0 else nothing
        if inside > 2 or number >= 8 * servers:
            return nothing
        return ("compute", True) if number < gpus else INK
    # Of the first GPU, its memory, its die and the cores of it.
    if inside:
        return nothing
    return {"stack": KINDS["stack"], "die": ("compute", False), "core": ("compute", True)}[name]


def _lens(camera: Camera, level: str) -> list[Part]:
    """One core of the die, enlarged; nothing where the die is not seen."""
    if level != "GPU":
        return [_UNSEEN] * 5
    x, y = gpu_at(0)
    core = camera.box(Thing("core", 10, x + 3.0 + 0.365 * 10, y + 1.0, 0.3, 0.44), "compute", True)
    frame = Box(286, 62, 110, 126, kind="ink")
    right, low = core.x + core.width, core.y + core.height
    return [
        Arrow(right, core.y, frame.x, frame.y + 2, kind="ink", heads=0),
        Arrow(right, low, frame.x, frame.y + frame.height - 2, kind="ink", heads=0),
        frame,
        Box(294, 70, 94, 64, "tensor cores\nmultiply\nand add", kind="compute", solid=True),
        Box(294, 142, 94, 38, "registers\nhold numbers", kind="memory", solid=True),
    ]


def _said(one: Size) -> tuple[str, str, list[Part]]:
    """What stands above a picture, and beside what it shows."""
    chip, wires = accelerator("H100 SXM"), machine_of("H100 SXM")
    each, server = fmt(wires.network_bandwidth, "B/s"), server_power()
    beside: list[tuple[float, float, str]] = []
    if one.level == "GPU":
        title = "A GPU"
        facts = f"{fmt(chip.peak('bf16'), 'FLOP/s')}, {fmt(chip.hbm_capacity, 'B')} at {fmt(chip.hbm_bandwidth, 'B/s')}"
        beside = [(300, 200, "one of its"), (300, 216, "132 cores")]
    elif one.level == "server":
        title = "A server" + f": {one.gpus} of 8 GPUs" * (one.gpus < 8)
        facts = "8 GPUs, so close that every wire is short"
    elif one.level == "rack":
        title, facts = f"A rack: {one.gpus} GPUs", f"{one.servers} servers that share a switch and a power feed"
        inside = fmt(wires.scale_up_bandwidth, "B/s")
        beside = [(130, 52, f"a switch: {each} to each GPU"), (130, 76, f"NVLink: {inside} to each GPU")]
        beside.append((130, 118, f"a server, up to {fmt(server, 'W')}"))
        beside.append((130, 204, f"four fill a rack: {fmt(4 * server, 'W')}"))
    elif one.level == "fabric":
        title = f"A fabric: {one.gpus} GPUs"
        facts = f"{one.racks} racks, a leaf switch each; spine switches join them"
        beside = [(344, 80, "spines"), (344, 110, "leaves"), (344, 165, "racks")]
    else:
        drawn = "each square 256 GPUs" if one.gpus > 256 * _DRAWN_RACKS else "each block a rack of 32"
        title, facts = f"A site: {one.gpus:,} GPUs", f"{one.racks:,} racks on {one.switches:,} switches; {drawn}"
        beside = [(0, 50, f"{fmt(one.power, 'W')} in"), (400, 50, "out again, as heat")]
    return title, facts, [Label(x, y, text, "end" if x == 400 else "start") for x, y, text in beside]
