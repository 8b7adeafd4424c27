"""The plane on which the whole machine stands, and a camera that shows a part of it.

A GPU is ten units wide. What computes is compute, what is kept is memory, wires are wire, electricity is ochre, and
what leaves as heat is waste.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from explorable import Arrow, Box, Part

GPU = 10.0, 8.0
SERVER = 48.0, 24.0  # eight GPUs above and below the switches between them
RACK = 52.8, 114.0  # four servers below a switch
POD = 494.4, 214.0  # eight racks below two tiers of switches
PITCH = 530.0, 290.0  # from pod to pod in a hall
MARGIN = 60.0  # between a hall's walls and its pods


@dataclass(frozen=True)
class Thing:
    """A box of the plane: what it is, its number among its kind, and its place."""

    name: str
    number: int
    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True)
class Line:
    """A line of the plane, from one place to another."""

    name: str
    number: int
    x0: float
    y0: float
    x1: float
    y1: float
    heads: int = 0


def pod_at(pod: int, columns: int) -> tuple[float, float]:
    return pod % columns * PITCH[0], pod // columns * PITCH[1]


def rack_at(rack: int) -> tuple[float, float]:
    return 8 + 60.8 * rack, 92.0


def server_at(server: int) -> tuple[float, float]:
    x, y = rack_at(server // 4)
    return x + 2.4, y + 8 + 26 * (server % 4)


def gpu_at(gpu: int) -> tuple[float, float]:
    x, y = server_at(gpu // 8)
    return x + 1.6 + 11.6 * (gpu % 4), y + (1.6, 14.4)[gpu % 8 // 4]


def of_gpu() -> Iterator[Thing]:
    """A die between its stacks of memory."""
    x, y = gpu_at(0)
    yield Thing("gpu", 0, x, y, *GPU)
    for i in range(6):
        yield Thing("stack", i, x + (0.5, 7.6)[i // 3], y + 0.8 + 2.2 * (i % 3), 1.9, 2.0)
    yield Thing("die", 0, x + 2.8, y + 0.8, 4.4, 6.4)


def of_servers(count: int, gpus: bool = True) -> Iterator[Thing | Line]:
    """Servers with their eight GPUs and the switches between them, and in the first the wires."""
    for i in range(count):
        yield Thing("server", i, *server_at(i), *SERVER)
    for i in range(8 if gpus else 0):
        left, top = gpu_at(i)
        yield Line("nvlink", i, left + 5, top + (8, 0)[i // 4], left + 5, server_at(0)[1] + 12)
    for i in range(count if gpus else 0):
        x, y = server_at(i)
        yield Thing("nvswitch", i, x + 1.6, y + 10.8, 44.8, 2.4)
    for i in range(8 * count if gpus else 0):
        yield Thing("gpu", i, *gpu_at(i), *GPU)


def of_rack(rack: int) -> Thing:
    return Thing("rack", rack, *rack_at(rack), *RACK)


def of_switch(rack: int) -> Thing:
    x, y = rack_at(rack)
    return Thing("switch", rack, x + 2.4, y + 2, 48, 4)


def of_pod(racks: int = 8) -> Iterator[Thing | Line]:
    """Racks below two tiers of switches, each joined to each."""
    yield Thing("pod", 0, 0, 0, *POD)
    spines = [Thing("spine", i, 75 + 101 * i, 12, 42, 18) for i in range(4)]
    leaves = [Thing("leaf", i, rack_at(i)[0], 60, RACK[0], 16) for i in range(racks)]
    for leaf in leaves:
        middle = leaf.x + leaf.width / 2
        for spine in spines:
            yield Line("web", 4 * leaf.number + spine.number, middle, leaf.y, spine.x + 21, spine.y + 18)
        yield Line("down", leaf.number, middle, leaf.y + 16, middle, 92)
    yield from leaves
    yield from spines
    for i in range(racks):
        yield of_rack(i)


def of_site(pods: int, columns: int) -> Iterator[Thing | Line]:
    """A hall of pods between the line that feeds it and the plant that takes its heat away."""
    rows = -(-pods // columns)
    wide, high = columns * PITCH[0] + 2 * MARGIN, rows * PITCH[1] + 2 * MARGIN
    left, top, unit = -MARGIN, -MARGIN, high / 60  # what stands outside is as high as the hall
    mast = [(4, 58, 14, 4), (24, 58, 14, 4), (4, 14, 24, 14), (2, 27, 26, 27), (8, 44, 20, 44)]
    x = left - 42 * unit
    for i, (a, b, c, d) in enumerate(mast):
        yield Line("pylon", i, x + a * unit, top + b * unit, x + c * unit, top + d * unit)
    yield Line("feed", 0, x + 26 * unit, top + 27 * unit, left, top + 27 * unit, 1)
    yield Thing("hall", 0, left, top, wide, high)
    x = left + wide + 8 * unit
    for i in range(2):
        yield Thing("cooler", i, x, top + (26 + 18 * i) * unit, 18 * unit, 15 * unit)
        yield Line("heat", i, x + (4 + 10 * i) * unit, top + 23 * unit, x + (4 + 10 * i) * unit, top + 4 * unit, 1)
    for i in range(pods):
        yield Thing("pod", i, *pod_at(i, columns), *POD)


Style = Callable[[str, int], tuple[str, bool]]  # of a thing by its name and number: its colour, and whether it is solid


@dataclass(frozen=True)
class Camera:
    """Where the plane's upper left corner stands in a drawing, and how large a unit of the plane is."""

    x: float
    y: float
    scale: float

    @classmethod
    def onto(cls, seen: tuple[float, float, float, float], frame: tuple[float, float, float, float]) -> Camera:
        """Show a part of the plane as large as a frame allows, in its middle."""
        x, y, wide, high = seen
        left, top, across, down = frame
        scale = min(across / wide, down / high)
        return cls(left + (across - scale * wide) / 2 - scale * x, top + (down - scale * high) / 2 - scale * y, scale)

    def box(self, thing: Thing, kind: str, solid: bool, text: str = "") -> Box:
        """A thing of the plane, in the drawing."""
        x, y = self.x + self.scale * thing.x, self.y + self.scale * thing.y
        return Box(x, y, self.scale * thing.width, self.scale * thing.height, text, kind=kind, solid=solid)

    def line(self, line: Line, kind: str) -> Arrow:
        """A line of the plane, in the drawing; where it is not lit, without its head."""
        x0, x1 = (self.x + self.scale * x for x in (line.x0, line.x1))
        y0, y1 = (self.y + self.scale * y for y in (line.y0, line.y1))
        heads = 0 if kind == "ink" else line.heads
        return Arrow(x0, y0, x1, y1, kind=kind, heads=heads, faint=line.name == "web")

    def parts(self, things: Iterator[Thing | Line], style: Style) -> list[Part]:
        """Things and lines of the plane, each in its colour."""
        return [
            self.box(one, *style(one.name, one.number))
            if isinstance(one, Thing)
            else self.line(one, style(one.name, one.number)[0])
            for one in things
        ]


# What each thing is, where it is lit: its colour, and whether it is solid. What holds others is ink.
KINDS = {
    "die": ("compute", True), "stack": ("memory", True), "gpu": ("compute", True),
    "nvlink": ("nvlink", False), "nvswitch": ("nvlink", True), "switch": ("network", True),
    "leaf": ("network", True), "spine": ("network", True), "web": ("network", False), "down": ("network", False),
    "pylon": ("ochre", False), "feed": ("ochre", False), "cooler": ("waste", True), "heat": ("waste", False),
}  # fmt: skip
INK = "ink", False


def colour_of(name: str) -> tuple[str, bool]:
    """What is lit has its colour."""
    return KINDS.get(name, ("compute", True) if name in ("server", "rack", "pod") else INK)


def outline(pods: int, columns: int) -> tuple[float, float, float, float]:
    """What a site takes of the plane, with what stands outside its hall."""
    wide, high = columns * PITCH[0] + 2 * MARGIN, -(-pods // columns) * PITCH[1] + 2 * MARGIN
    aside = 42 / 60 * high
    return -MARGIN - aside, -MARGIN, wide + aside + 28 / 60 * high, high
