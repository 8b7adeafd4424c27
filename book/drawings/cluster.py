"""The machine: one drawing, from a GPU to a site, that every page looks at from its own distance.

Everything stands at its place in one plane, in which a GPU is ten units wide. A camera shows a part of that plane: the
strip at the head of a chapter is five of them side by side. What computes is compute, what is kept is memory, wires are
wire, electricity is ochre, and what leaves as heat is waste.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache

from clusterlab.catalogue import accelerator, node, price_list
from clusterlab.catalogue import machine as machine_of
from clusterlab.failures import (
    BURSTS,
    Job,
    checkpoint,
    checkpoint_interval,
    checkpoint_size,
    goodput,
    spares_for,
    system_mtbf,
)
from clusterlab.interconnect import fat_tree
from clusterlab.model import parameters, transformer
from clusterlab.planning import CENTRAL, SWITCHES, yearly_cost
from clusterlab.power import facility, load
from clusterlab.records import with_interval
from clusterlab.units import TB, day, fmt, hour, minute, year
from explorable import LETTER, Arrow, Box, Label, Part, Scene

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
    """Servers with their eight GPUs and the switches between them, and in the first the wires."""
    for i in range(count):
        yield _Thing("server", i, *_server_at(i), *_SERVER)
    for i in range(8 if gpus else 0):
        left, top = _gpu_at(i)
        yield _Line("nvlink", i, left + 5, top + (8, 0)[i // 4], left + 5, _server_at(0)[1] + 12)
    for i in range(count if gpus else 0):
        x, y = _server_at(i)
        yield _Thing("nvswitch", i, x + 1.6, y + 10.8, 44.8, 2.4)
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

    def box(self, thing: _Thing, kind: str, solid: bool, text: str = "") -> Box:
        """A thing of the plane, in the drawing."""
        x, y = self.x + self.scale * thing.x, self.y + self.scale * thing.y
        return Box(x, y, self.scale * thing.width, self.scale * thing.height, text, kind=kind, solid=solid)

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
    parts = _strip(lit, lambda names: _lighting(chapter, names))
    if chapter == "scaling":
        parts.append(Box(382, 2, 16, 17, "$", kind="ochre", solid=True))
    return Scene(400, 70, parts, alt=f"Where this chapter stands in the machine: {about}. Lit: {', '.join(lit)}.")


def _strip(
    lit: Mapping[str, tuple[str, ...]], lighting: Callable[[tuple[str, ...]], _Style], top: float = 0.0
) -> list[Part]:
    """Five pictures side by side, 70 units high, each a part of the next, and what is lit in each."""
    seen = _outline(*_SITE)
    # Of each picture: the part of the plane that it shows, its place, what is drawn, and what of it the one before shows.
    shown = {
        "GPU": ((*_gpu_at(0), *_GPU), (2, 54), _gpu(), None),
        "server": ((*_server_at(0), *_SERVER), (71, 88), _servers(1), (*_gpu_at(0), *_GPU)),
        "rack": ((*_rack_at(0), *_RACK), (176, 24), _in_rack("gpu" in lit.get("rack", ())), (*_server_at(0), *_SERVER)),
        "fabric": ((0, 0, *_POD), (216, 88), _in_pod("server" in lit.get("fabric", ())), (*_rack_at(0), *_RACK)),
        "site": (seen, (316, 82), _site(*_SITE), (0, 0, *_POD)),
    }
    parts: list[Part] = []
    before: tuple[float, float, float, float] | None = None
    for level, (part, (left, across), things, inner) in shown.items():
        camera = _Camera.onto(part, (left, top + 2.0, across, 48.0))
        parts += camera.parts(things, lighting(lit.get(level, ())))
        if before and inner:
            # From the corners of the picture before to those of what it shows.
            x, y, _, high = (camera.scale * v for v in inner)
            for side in (0, 1):
                start = before[1] + side * (before[3] - before[1])
                parts.append(Arrow(before[2], start, camera.x + x, camera.y + y + side * high, kind="ink", heads=0))
        right, low = (camera.scale * (part[i] + part[i + 2]) for i in (0, 1))
        before = (
            camera.x + camera.scale * part[0],
            camera.y + camera.scale * part[1],
            camera.x + right,
            camera.y + low,
        )
        parts.append(Label(left + across / 2, top + 61, level, strong=level in lit))
    return parts


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


def _colour(name: str) -> tuple[str, bool]:
    """What is lit has its colour."""
    return _KINDS.get(name, ("compute", True) if name in ("server", "rack", "pod") else _INK)


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
        return _colour(name)

    return style


# --- The machine of so many GPUs -------------------------------------------------------------------------------------

# How many GPUs a reader looks at: what each level holds is among them.
SIZES = (
    1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 512, 1024, 2048, 4096, 8192, 16_384, 32_768, 65_536,
    100_000,
)  # fmt: skip
_GPUS_OF = {"GPU": 1, "server": 8, "rack": 32, "fabric": 256}  # the most GPUs of a level
_SPARED = 1024  # GPUs from which a run keeps servers on standby
_STORAGE = 2 * TB  # bytes a second, of Meta's file system


@dataclass(frozen=True)
class Size:
    """What a number of H100s takes, draws, loses and costs: the laws of the book, as a plan uses them.

    ``lost`` is the share of the time that goes to failures and to saving against them, ``price`` is dollars a second;
    each is the number with the ends of its 80 % interval.
    """

    gpus: int
    servers: int
    spares: int
    racks: int
    switches: int
    tiers: int
    power: float
    mtbf: float
    lost: tuple[float, float, float]
    price: tuple[float, float, float]

    @property
    def level(self) -> str:
        """What it is: a GPU, a server, a rack, a fabric of racks, or a site."""
        return next((level for level, most in _GPUS_OF.items() if self.gpus <= most), "site")

    @property
    def readouts(self) -> dict[str, str]:
        """What is told beside the drawing."""
        standby = f" + {self.spares:,} spare" if self.spares else ""
        return {
            "Servers": f"{self.servers:,}{standby}",
            "Network": _TIERS[self.tiers],
            "Electricity, at most": fmt(self.power, "W"),
            "A failure every": span(self.mtbf),
            "Time lost to failures": with_interval(*self.lost, "%", 2) if self.lost[0] >= 0.01 else "under 1%",
            "An hour costs": with_interval(*_hourly(self.price), "$", 3),
        }


def span(seconds: float) -> str:
    """A time in words: years, days, hours or minutes, whichever are more than one and a half.

    Examples
    --------
    >>> [span(time) for time in (180e6, 900e3, 11e3, 1800)]
    ['5.7 years', '10 days', '3.1 hours', '30 minutes']
    """
    for name, unit in (("years", year), ("days", day), ("hours", hour)):
        if seconds > 1.5 * unit:
            return f"{fmt(seconds / unit, digits=2)} {name}"
    return f"{seconds / minute:.0f} minutes"


_TIERS = "none", "one switch", "two tiers", "three tiers"


def _hourly(rate: tuple[float, float, float]) -> tuple[float, float, float]:
    """A number and its ends, of a second, as of an hour."""
    value, low, high = rate
    return hour * value, hour * low, hour * high


def _server_power() -> float:
    """Watts that a server of eight H100s is rated at."""
    return float(node("DGX H100").power or 0)


@cache
def size(gpus: int) -> Size:
    """What so many H100s take, draw, lose and cost, with the assumptions of a plan.

    A job that must go on keeps servers on standby, from 1,024 GPUs on. Eight GPUs and fewer need no network.

    Examples
    --------
    >>> size(16_384).readouts["A failure every"]
    '3.1 hours'
    """
    servers = -(-gpus // 8)
    spares = 0
    if gpus >= _SPARED:
        fleet = {"node_mtbf": CENTRAL.gpu_mttf / 8, "repair": CENTRAL.repair, "dispersion": BURSTS}
        spares = int(spares_for(1 - CENTRAL.spare_risk, nodes=servers, **fleet).spares)
    hosts = 8 * (servers + spares)
    switches, tiers, fed = 0, 0, 0.0
    if servers > 1:
        # The switch that a plan takes for this network; a rack alone needs but one.
        kind = next(one for one in SWITCHES.values() if one.link == "RoCE")
        tree = fat_tree(hosts, kind.ports)
        tiers = 1 if servers <= 4 else 3 if tree.cores else 2
        switches = 1 if tiers == 1 else int(tree.switches)
        fed = switches * kind.power
    each = _server_power() / 8
    it = load(servers=(min(gpus, 8) if servers == 1 else hosts, each), **({"switches": fed} if fed else {}))
    power = float(facility(it, CENTRAL.pue).total)
    mtbf = float(system_mtbf(CENTRAL.gpu_mttf, gpus))
    saved_bytes = checkpoint_size(parameters(transformer("Llama 3.1 405B")).total)
    saved = checkpoint(saved_bytes, storage_bandwidth=_STORAGE, writers=gpus, local_bandwidth=CENTRAL.local_bandwidth)
    interval = checkpoint_interval(saved.stall, mtbf, lag=saved.lag, share=CENTRAL.storage_share)
    costs = {"detection": CENTRAL.detection, "restart": CENTRAL.restart + saved.lag}
    job = Job(interval=interval, write=saved.stall, lag=saved.lag, mtbf=mtbf, **costs)
    kept = goodput(job)
    bill = yearly_cost(hosts if servers > 1 else gpus, power, price_list("H100 SXM"))
    return Size(
        gpus=gpus,
        servers=servers,
        spares=spares,
        racks=-(-(servers + spares) // 4),
        switches=switches,
        tiers=tiers,
        power=power,
        mtbf=mtbf,
        lost=(1 - float(kept.useful), 1 - float(kept.high), 1 - float(kept.low)),
        price=(bill.value / year, bill.low / year, bill.high / year),
    )


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
    "rack": {"Serving": "serving"},
    "fabric": {"Interconnect": "interconnect", "Operations": "operations"},
    "site": {"Failures": "failures", "Power": "power", "Cost": "scaling"},
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
_LINKS, _LABELS = 3, 3  # texts of every picture, beside the two above it


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
    level, (left, top, across, down) = one.level, _FRAMES[one.level]
    seen = {
        "GPU": (*_gpu_at(0), *_GPU),
        "server": (*_server_at(0), *_SERVER),
        "rack": (*_rack_at(0), *_RACK),
        "fabric": (0.0, 0.0, *_POD),
        "site": _outline(pods, columns),
    }[level]
    camera = _Camera.onto(seen, (left, top, across, down))
    title, facts, labels = _said(one)
    fast = fmt(machine_of("H100 SXM").scale_up_bandwidth, "B/s")
    written = {"GPU": {"stack": "HBM"}, "server": {"nvswitch": f"NVLink, {fast} each way for each GPU"}}.get(level, {})
    outer = seen[0] + (42 / 60 * seen[3] if level == "site" else 0)
    hidden = camera.x + camera.scale * outer, top + down / 2  # on the left edge of what holds all else
    parts: list[Part] = []
    for thing in _everything(pods, columns):
        kind, solid = _look(thing, gpus, level)
        if isinstance(thing, _Line):
            line = camera.line(thing, kind or "ink")
            long = abs(line.x1 - line.x0) + abs(line.y1 - line.y0) > 3
            parts.append(line if kind and long else Box(*hidden, 0.01, 0.01))
        elif kind and min(camera.scale * thing.width, camera.scale * thing.height) >= _LEAST:
            parts.append(camera.box(thing, kind, solid, written.get(thing.name, "")))
        else:
            parts.append(Box(*hidden, 0.01, 0.01))
    parts += _lens(camera, level, hidden)
    parts += [Label(0, 9, title, "start", strong=True), Label(0, 27, facts, "start")]
    parts += [*labels, *(Label(20 + 20 * i, 232, " ") for i in range(_LABELS - len(labels)))]
    x, links = 400.0, list(_CHAPTERS[level].items())
    for name, page in reversed(links):
        parts.append(Label(x, 9, name, "end", link=f"{page}.ipynb"))
        x -= LETTER * (len(name) + 2)
    parts += [Label(120 + 20 * i, 232, " ") for i in range(_LINKS - len(links))]
    parts += _strip({level: _TRAIL[level]}, lambda names: lambda name, _: _colour(name) if name in names else _INK, 240)
    return Scene(400, 310, parts, alt=f"{title}: {facts}.")


def _columns(pods: int) -> int:
    """Pods in a row of a hall: about two thirds as many as rows, and all rows full where that can be."""
    wanted = (0.67 * pods) ** 0.5
    full = [n for n in range(1, pods + 1) if pods % n == 0 and 0.75 * wanted <= n <= 1.4 * wanted]
    return min(full, key=lambda n: abs(n - wanted)) if full else max(round(wanted), 1)


def _outline(pods: int, columns: int) -> tuple[float, float, float, float]:
    """What a site takes of the plane, with what stands outside its hall."""
    wide, high = columns * _PITCH[0] + 2 * _MARGIN, -(-pods // columns) * _PITCH[1] + 2 * _MARGIN
    aside = 42 / 60 * high
    return -_MARGIN - aside, -_MARGIN, wide + aside + 28 / 60 * high, high


def _everything(pods: int, columns: int) -> Iterator[_Thing | _Line]:
    """All that can be seen of the machine, from the outside in: always as many things, in the same order."""
    for thing in _site(pods, columns):
        if thing.name != "pod":
            yield thing
    for pod in range(1, _PODS):
        yield _Thing("pod", pod, *_pod_at(pod, columns), *_POD)
    for pod in range(1, _DRAWN_RACKS):
        x, y = _pod_at(pod, columns)
        for i in range(8):
            rack = _rack(i)
            yield _Thing("far rack", 8 * pod + i, x + rack.x, y + rack.y, rack.width, rack.height)
    yield from _pod()
    yield _switch(0)
    yield from _servers(32, gpus=False)
    yield from (thing for thing in _servers(4) if thing.name != "server")
    for thing in _gpu():
        if thing.name != "gpu":
            yield thing
    x, y = _gpu_at(0)
    for i in range(132):  # the cores of the die
        yield _Thing("core", i, x + 3.0 + 0.365 * (i % 11), y + 1.0 + 0.505 * (i // 11), 0.3, 0.44)


def _look(thing: _Thing | _Line, gpus: int, level: str) -> tuple[str, bool]:
    """The colour of a thing in a picture, and whether it is solid; no colour where it is not there."""
    name, number = thing.name, thing.number
    racks, servers = -(-gpus // 32), -(-gpus // 8)
    inside = {"GPU": 0, "server": 1, "rack": 2, "fabric": 3, "site": 4}[level]
    nothing = "", False
    if name in ("hall", "pylon", "feed", "cooler", "heat"):
        return nothing if inside < 4 else _KINDS.get(name, _INK)
    if name == "pod":
        there = (256 * number < gpus and inside == 4) or (number == 0 and inside == 3)
        if not there:
            return nothing
        return _INK if inside == 3 or gpus <= 256 * _DRAWN_RACKS else ("compute", True)
    if name == "far rack":
        return ("compute", True) if inside == 4 and 32 * number < gpus <= 256 * _DRAWN_RACKS else nothing
    if name in ("web", "leaf", "down", "spine"):
        rack = number // 4 if name == "web" else number
        there = inside == 3 and (name == "spine" or rack < racks)
        return _KINDS[name] if there else nothing
    if name == "rack":
        if inside == 4:
            return ("compute", True) if gpus <= 256 * _DRAWN_RACKS else nothing
        return _INK if number < racks and inside in (2, 3) and (inside == 3 or number == 0) else nothing
    if name == "switch":
        return _KINDS[name] if inside == 2 else nothing
    if name == "server":
        if number >= servers or inside not in (1, 2, 3) or (inside == 1 and number):
            return nothing
        return ("compute", True) if inside == 3 else _INK
    if name in ("nvlink", "nvswitch"):
        if number and name == "nvswitch" and (inside != 2 or number >= servers):
            return nothing
        return _KINDS[name] if inside == 1 or (inside == 2 and name == "nvswitch") else nothing
    if name == "gpu":
        if inside == 0:
            return _INK if number == 0 else nothing
        if inside > 2 or number >= 8 * servers:
            return nothing
        return ("compute", True) if number < gpus else _INK
    # Of the first GPU, its memory, its die and the cores of it.
    if inside:
        return nothing
    return {"stack": _KINDS["stack"], "die": ("compute", False), "core": ("compute", True)}[name]


def _lens(camera: _Camera, level: str, hidden: tuple[float, float]) -> list[Part]:
    """One core of the die, enlarged; nothing where the die is not seen."""
    if level != "GPU":
        return [Box(*hidden, 0.01, 0.01)] * 5
    x, y = _gpu_at(0)
    core = camera.box(_Thing("core", 10, x + 3.0 + 0.365 * 10, y + 1.0, 0.3, 0.44), "compute", True)
    frame = Box(286, 62, 110, 126, kind="ink")
    right, low = core.x + core.width, core.y + core.height
    return [
        Arrow(right, core.y, frame.x, frame.y + 2, kind="ink", heads=0),
        Arrow(right, low, frame.x, frame.y + frame.height - 2, kind="ink", heads=0),
        frame,
        Box(294, 70, 94, 64, "tensor\ncores", kind="compute", solid=True),
        Box(294, 142, 94, 38, "registers", kind="memory", solid=True),
    ]


def _said(one: Size) -> tuple[str, str, list[Part]]:
    """What stands above a picture, and beside what it shows."""
    chip, wires = accelerator("H100 SXM"), machine_of("H100 SXM")
    each, server = fmt(wires.network_bandwidth, "B/s"), _server_power()
    beside: list[tuple[float, float, str]] = []
    if one.level == "GPU":
        title = "A GPU"
        facts = f"{fmt(chip.peak('bf16'), 'FLOP/s')}, {fmt(chip.hbm_capacity, 'B')} at {fmt(chip.hbm_bandwidth, 'B/s')}"
        beside = [(300, 200, "one of its"), (300, 216, "132 cores")]
    elif one.level == "server":
        title = "A server" + f": {one.gpus} of 8 GPUs" * (one.gpus < 8)
        facts = "8 GPUs, so close that every wire is short"
    elif one.level == "rack":
        title, facts = f"A rack: {one.gpus} GPUs", f"{one.servers} servers that share a switch and a feed"
        beside = [(130, 52, f"a switch: {each} to each GPU"), (130, 78, f"a server, up to {fmt(server, 'W')}")]
        beside.append((130, 204, f"four fill a rack: {fmt(4 * server, 'W')}"))
    elif one.level == "fabric":
        title = f"A fabric: {one.gpus} GPUs"
        facts = f"{one.racks} racks under two tiers of switches, {each} a GPU"
        beside = [(344, 80, "spines"), (344, 110, "leaves"), (344, 165, "racks")]
    else:
        drawn = "each square 256 GPUs" if one.gpus > 256 * _DRAWN_RACKS else "each block a rack of 32"
        title, facts = f"A site: {one.gpus:,} GPUs", f"{one.racks:,} racks on {one.switches:,} switches; {drawn}"
        beside = [(0, 50, f"{fmt(one.power, 'W')} in"), (268, 50, "out again, as heat")]
    return title, facts, [Label(x, y, text, "start") for x, y, text in beside]


# --- What everybody needs --------------------------------------------------------------------------------------------

HELD = 3, 1, 4, 2  # what each of four GPUs has found


def everyone(step: int) -> Scene:
    """Four GPUs in a ring that add up their numbers: in each round, all pass on what they were given last.

    Parameters
    ----------
    step : int
        From 0, before anything is sent, to 3, when each holds the sum.

    Examples
    --------
    >>> everyone(3).alt
    'After 3 rounds the GPUs hold the sums 10, 10, 10, 10.'
    """
    n = len(HELD)
    if not 0 <= step < n:
        raise ValueError(f"step must be from 0 to {n - 1}, got {step!r}")
    sums = [sum(HELD[(i - k) % n] for k in range(step + 1)) for i in range(n)]
    places = [(20.0, 26.0), (266.0, 26.0), (266.0, 136.0), (20.0, 136.0)]  # clockwise
    parts: list[Part] = []
    for i, (x, y) in enumerate(places):
        done = sums[i] == sum(HELD)
        parts.append(Box(x, y, 114, 48, f"GPU {i} has {HELD[i]}\nsum so far: {sums[i]}", kind="compute", solid=done))
    ways = [
        (138.0, 50.0, 262.0, 50.0),
        (323.0, 78.0, 323.0, 132.0),
        (262.0, 160.0, 138.0, 160.0),
        (77.0, 132.0, 77.0, 78.0),
    ]
    for i, way in enumerate(ways):
        passed = str(HELD[(i - step + 1) % n]) if step else ""
        parts.append(Arrow(*way, passed, kind="wire"))
    said = "Nothing is sent yet" if not step else f"Round {step}: on each arrow what is passed on"
    parts.append(Label(200, 9, said, strong=True))
    told = ", ".join(map(str, sums))
    return Scene(400, 190, parts, alt=f"After {step} rounds the GPUs hold the sums {told}.")
