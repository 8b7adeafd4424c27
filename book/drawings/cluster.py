"""The machine: one drawing, from a GPU to a site, that every page looks at from its own distance.

Everything stands at its place in one plane, in which a GPU is ten units wide. A camera shows a part of that plane: the
strip at the head of a chapter is five of them side by side. What computes is compute, what is kept is memory, wires are
wire, electricity is ochre, and what leaves as heat is waste.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from explorable import Arrow, Box, Label, Part, Scene

# --- The plane -------------------------------------------------------------------------------------------------------

_GPU = 10.0, 8.0
_SERVER = 48.0, 24.0  # eight GPUs above and below the switches between them
_RACK = 52.8, 114.0  # four servers below a switch
_POD = 494.4, 214.0  # eight racks below two tiers of switches
_PITCH = 530.0, 290.0  # from pod to pod in a hall
_MARGIN = 60.0  # between a hall's walls and its pods


@dataclass(frozen=True)
class _Thing:
    """A box of the plane: what it is, its number among its kind, and its place."""

    name: str
    number: int
    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True)
class _Line:
    """A line of the plane, from one place to another."""

    name: str
    number: int
    x0: float
    y0: float
    x1: float
    y1: float
    heads: int = 0


def _pod_at(pod: int, columns: int) -> tuple[float, float]:
    return pod % columns * _PITCH[0], pod // columns * _PITCH[1]


def _rack_at(rack: int) -> tuple[float, float]:
    return 8 + 60.8 * rack, 92.0


def _server_at(server: int) -> tuple[float, float]:
    x, y = _rack_at(server // 4)
    return x + 2.4, y + 8 + 26 * (server % 4)


def _gpu_at(gpu: int) -> tuple[float, float]:
    x, y = _server_at(gpu // 8)
    return x + 1.6 + 11.6 * (gpu % 4), y + (1.6, 14.4)[gpu % 8 // 4]


def _gpu() -> Iterator[_Thing]:
    """A die between its stacks of memory."""
    x, y = _gpu_at(0)
    yield _Thing("gpu", 0, x, y, *_GPU)
    for i in range(6):
        yield _Thing("stack", i, x + (0.5, 7.6)[i // 3], y + 0.8 + 2.2 * (i % 3), 1.9, 2.0)
    yield _Thing("die", 0, x + 2.8, y + 0.8, 4.4, 6.4)


def _servers(count: int, gpus: bool = True) -> Iterator[_Thing | _Line]:
    """Servers with their eight GPUs, and in the first the wires between them."""
    for i in range(count):
        yield _Thing("server", i, *_server_at(i), *_SERVER)
    x, y = _server_at(0)
    for i in range(8 if gpus else 0):
        left, top = _gpu_at(i)
        yield _Line("nvlink", i, left + 5, top + (8, 0)[i // 4], left + 5, y + 12)
    if gpus:
        yield _Thing("nvswitch", 0, x + 1.6, y + 11.2, 44.8, 1.6)
    for i in range(8 * count if gpus else 0):
        yield _Thing("gpu", i, *_gpu_at(i), *_GPU)


def _rack(rack: int) -> _Thing:
    return _Thing("rack", rack, *_rack_at(rack), *_RACK)


def _switch(rack: int) -> _Thing:
    x, y = _rack_at(rack)
    return _Thing("switch", rack, x + 2.4, y + 2, 48, 4)


def _pod(racks: int = 8) -> Iterator[_Thing | _Line]:
    """Racks below two tiers of switches, each joined to each."""
    yield _Thing("pod", 0, 0, 0, *_POD)
    spines = [_Thing("spine", i, 75 + 101 * i, 12, 42, 18) for i in range(4)]
    leaves = [_Thing("leaf", i, _rack_at(i)[0], 60, _RACK[0], 16) for i in range(racks)]
    for leaf in leaves:
        middle = leaf.x + leaf.width / 2
        for spine in spines:
            yield _Line("web", 4 * leaf.number + spine.number, middle, leaf.y, spine.x + 21, spine.y + 18)
        yield _Line("down", leaf.number, middle, leaf.y + 16, middle, 92)
    yield from leaves
    yield from spines
    for i in range(racks):
        yield _rack(i)


def _site(pods: int, columns: int) -> Iterator[_Thing | _Line]:
    """A hall of pods between the line that feeds it and the plant that takes its heat away."""
    rows = -(-pods // columns)
    wide, high = columns * _PITCH[0] + 2 * _MARGIN, rows * _PITCH[1] + 2 * _MARGIN
    left, top, unit = -_MARGIN, -_MARGIN, high / 60  # what stands outside is as high as the hall
    mast = [(4, 58, 14, 4), (24, 58, 14, 4), (4, 14, 24, 14), (2, 27, 26, 27), (8, 44, 20, 44)]
    x = left - 42 * unit
    for i, (a, b, c, d) in enumerate(mast):
        yield _Line("pylon", i, x + a * unit, top + b * unit, x + c * unit, top + d * unit)
    yield _Line("feed", 0, x + 26 * unit, top + 27 * unit, left, top + 27 * unit, 1)
    yield _Thing("hall", 0, left, top, wide, high)
    x = left + wide + 8 * unit
    for i in range(2):
        yield _Thing("cooler", i, x, top + (26 + 18 * i) * unit, 18 * unit, 15 * unit)
        yield _Line("heat", i, x + (4 + 10 * i) * unit, top + 23 * unit, x + (4 + 10 * i) * unit, top + 4 * unit, 1)
    for i in range(pods):
        yield _Thing("pod", i, *_pod_at(i, columns), *_POD)


# --- A camera --------------------------------------------------------------------------------------------------------

_Style = Callable[
    [str, int], tuple[str, bool]
]  # of a thing by its name and number: its colour, and whether it is solid


@dataclass(frozen=True)
class _Camera:
    """Where the plane's upper left corner stands in a drawing, and how large a unit of the plane is."""

    x: float
    y: float
    scale: float

    @classmethod
    def onto(cls, seen: tuple[float, float, float, float], frame: tuple[float, float, float, float]) -> _Camera:
        """Show a part of the plane as large as a frame allows, in its middle."""
        x, y, wide, high = seen
        left, top, across, down = frame
        scale = min(across / wide, down / high)
        return cls(left + (across - scale * wide) / 2 - scale * x, top + (down - scale * high) / 2 - scale * y, scale)

    def box(self, thing: _Thing, kind: str, solid: bool) -> Box:
        """A thing of the plane, in the drawing."""
        x, y = self.x + self.scale * thing.x, self.y + self.scale * thing.y
        return Box(x, y, self.scale * thing.width, self.scale * thing.height, kind=kind, solid=solid)

    def line(self, line: _Line, kind: str) -> Arrow:
        """A line of the plane, in the drawing; where it is not lit, without its head."""
        x0, x1 = (self.x + self.scale * x for x in (line.x0, line.x1))
        y0, y1 = (self.y + self.scale * y for y in (line.y0, line.y1))
        heads = 0 if kind == "ink" else line.heads
        return Arrow(x0, y0, x1, y1, kind=kind, heads=heads, faint=line.name == "web")

    def parts(self, things: Iterator[_Thing | _Line], style: _Style) -> list[Part]:
        """Things and lines of the plane, each in its colour."""
        return [
            self.box(one, *style(one.name, one.number))
            if isinstance(one, _Thing)
            else self.line(one, style(one.name, one.number)[0])
            for one in things
        ]


# What each thing is, where it is lit: its colour, and whether it is solid. What holds others is ink.
_KINDS = {
    "die": ("compute", True), "stack": ("memory", True), "gpu": ("compute", True),
    "nvlink": ("nvlink", False), "nvswitch": ("nvlink", True), "switch": ("network", True),
    "leaf": ("network", True), "spine": ("network", True), "web": ("network", False), "down": ("network", False),
    "pylon": ("ochre", False), "feed": ("ochre", False), "cooler": ("waste", True), "heat": ("waste", False),
}  # fmt: skip
_INK = "ink", False

# --- The strip at the head of a chapter ------------------------------------------------------------------------------

# Of each chapter: what it lights in each of the five pictures, and what of the machine it is about.
_LEVELS = "GPU", "server", "rack", "fabric", "site"
_WIRES = {"server": ("nvlink", "nvswitch"), "fabric": ("leaf", "spine", "web", "down")}
_WHERE: dict[str, tuple[dict[str, tuple[str, ...]], str]] = {
    "roofline": ({"GPU": ("die", "stack")}, "one GPU and its memory"),
    "interconnect": (_WIRES, "the wires, in the server and between the racks"),
    "parallelism": (
        {"server": ("gpu", "nvlink", "nvswitch"), "fabric": ("server",)},
        "a model cut over GPUs and racks",
    ),
    "step": (
        {
            "GPU": ("die", "stack"),
            "server": ("gpu", "nvlink", "nvswitch"),
            "rack": ("gpu", "switch"),
            "fabric": ("server", "leaf", "spine", "web", "down"),
        },
        "the whole job, from the GPU's memory to the fabric",
    ),
    "serving": ({"rack": ("gpu", "switch")}, "a rack that answers"),
    "failures": ({"site": ("pod",)}, "the site's machines, one of them broken"),
    "operations": ({"fabric": ("server",)}, "the fabric, and the jobs that share it"),
    "power": ({"site": ("pylon", "feed", "cooler", "heat")}, "what feeds the site and what cools it"),
    "scaling": ({"site": ("hall", "pod")}, "the site and its price"),
    "plan": (
        {
            "GPU": ("die", "stack"),
            "server": ("gpu", "nvlink", "nvswitch"),
            "rack": ("gpu", "switch"),
            "fabric": ("server", "leaf", "spine", "web", "down"),
            "site": ("pod", "pylon", "feed", "cooler", "heat"),
        },
        "all of it",
    ),
}
_SITE = 24, 4  # pods of the strip's site, and in a row
_BROKEN = 14  # the pod that has failed, in the strip of the chapter on failures


def here(chapter: str) -> Scene:
    """The machine as a strip, from a GPU to the site, with the part lit that a chapter is about.

    Parameters
    ----------
    chapter : str
        The name of its notebook.

    Examples
    --------
    >>> here("power").alt
    'Where this chapter stands in the machine: what feeds the site and what cools it. Lit: site.'
    """
    if chapter not in _WHERE:
        raise ValueError(f"no chapter {chapter!r}; there are: {', '.join(_WHERE)}")
    lit, about = _WHERE[chapter]
    pods, columns = _SITE
    hall = columns * _PITCH[0] + 2 * _MARGIN, pods // columns * _PITCH[1] + 2 * _MARGIN
    aside = 42 / 60 * hall[1]
    # Of each picture: the part of the plane that it shows, its place, what is drawn, and what of it the one before shows.
    shown = {
        "GPU": ((*_gpu_at(0), *_GPU), (2, 54), _gpu(), None),
        "server": ((*_server_at(0), *_SERVER), (71, 88), _servers(1), (*_gpu_at(0), *_GPU)),
        "rack": ((*_rack_at(0), *_RACK), (176, 24), _in_rack("rack" in lit), (*_server_at(0), *_SERVER)),
        "fabric": ((0, 0, *_POD), (216, 88), _in_pod("server" in lit.get("fabric", ())), (*_rack_at(0), *_RACK)),
        "site": (
            (-_MARGIN - aside, -_MARGIN, hall[0] + 1.72 * aside, hall[1]),
            (316, 82),
            _site(*_SITE),
            (0, 0, *_POD),
        ),
    }
    parts: list[Part] = []
    before: tuple[float, float, float, float] | None = None
    for level, (seen, (left, across), things, inner) in shown.items():
        frame = left, 2.0, across, 48.0
        camera = _Camera.onto(seen, frame)
        parts += camera.parts(things, _lighting(chapter, lit.get(level, ())))
        if before and inner:
            # From the corners of the picture before to those of what it shows.
            x, y, _, high = (camera.scale * v for v in inner)
            for side in (0, 1):
                start = before[1] + side * (before[3] - before[1])
                parts.append(Arrow(before[2], start, camera.x + x, camera.y + y + side * high, kind="ink", heads=0))
        right = camera.x + camera.scale * (seen[0] + seen[2])
        low = camera.y + camera.scale * (seen[1] + seen[3])
        before = (camera.x + camera.scale * seen[0], camera.y + camera.scale * seen[1], right, low)
        parts.append(Label(left + across / 2, 61, level, strong=level in lit))
    if chapter == "scaling":
        parts.append(Box(382, 2, 16, 17, "$", kind="ochre", solid=True))
    return Scene(400, 70, parts, alt=f"Where this chapter stands in the machine: {about}. Lit: {', '.join(lit)}.")


def _in_rack(gpus: bool) -> Iterator[_Thing | _Line]:
    """A rack's servers, and their GPUs or not."""
    yield _rack(0)
    yield _switch(0)
    for one in _servers(4, gpus):
        if one.name in ("server", "gpu"):
            yield one


def _in_pod(servers: bool) -> Iterator[_Thing | _Line]:
    """A pod's racks, and their servers or not."""
    yield from _pod()
    if servers:
        yield from _servers(32, gpus=False)


def _lighting(chapter: str, lit: tuple[str, ...]) -> _Style:
    """What is lit has its colour; all else is ink."""

    def style(name: str, number: int) -> tuple[str, bool]:
        if name not in lit:
            return _INK
        if chapter == "failures":
            return ("red", True) if number == _BROKEN else ("compute", False)
        if chapter == "operations":  # two jobs, and what stands idle between them
            rack = number // 4
            return ("compute", True) if rack < 4 else ("idle", True) if rack == 4 else ("backward", True)
        return _KINDS.get(name, ("compute", True) if name in ("server", "pod") else _INK)

    return style
