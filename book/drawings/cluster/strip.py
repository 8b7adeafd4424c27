"""The strip at the head of a chapter: five pictures of the machine, with the part lit that the chapter is about."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from explorable import Arrow, Box, Explorer, Label, Part, Picture, Scene

from .plane import (
    GPU,
    INK,
    POD,
    RACK,
    SERVER,
    Camera,
    Line,
    Style,
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
    rack_at,
    server_at,
)

# Of each chapter: what it lights in each of the five pictures, and what of the machine it is about.
_WIRES = {"server": ("nvlink", "nvswitch"), "fabric": ("leaf", "spine", "web", "down")}
_WHERE: dict[str, tuple[dict[str, tuple[str, ...]], str]] = {
    "roofline": ({"GPU": ("die", "stack")}, "one GPU and its memory"),
    "interconnect": (_WIRES, "the wires, in the server and between the racks"),
    "ports": (
        {"server": ("gpu", "nvlink", "nvswitch"), "fabric": ("leaf", "down")},
        "the ports of a server, and the NVLink between them",
    ),
    "fabrics": (
        {"rack": ("gpu", "switch"), "fabric": ("leaf", "spine", "web", "down")},
        "the switches: of a rack, and between the racks",
    ),
    "contention": ({"fabric": ("leaf", "spine", "web", "down")}, "the fabric, and the flows that share it"),
    "sharding": ({"server": ("gpu", "nvlink", "nvswitch")}, "eight GPUs that share two matrices"),
    "parallelism": (
        {"server": ("gpu", "nvlink", "nvswitch"), "fabric": ("server",)},
        "a model cut over GPUs and racks",
    ),
    "pipeline": (
        {"GPU": ("stack",), "fabric": ("server", "leaf")},
        "servers one behind the other, and the memory of their GPUs",
    ),
    "layouts": (
        {"server": ("gpu", "nvlink", "nvswitch"), "fabric": ("server", "leaf")},
        "which GPUs share what, in the servers and between them",
    ),
    "mix": ({"rack": ("gpu", "switch")}, "a rack whose GPUs share matrices, sequences and experts"),
    "step": (
        {
            "GPU": ("die", "stack"),
            "server": ("gpu", "nvlink", "nvswitch"),
            "rack": ("gpu", "switch"),
            "fabric": ("server", "leaf", "spine", "web", "down"),
        },
        "the whole job, from the GPU's memory to the fabric",
    ),
    "serving": ({"server": ("gpu", "nvlink", "nvswitch")}, "a server that answers"),
    "rack": ({"rack": ("gpu", "switch")}, "a rack that answers"),
    "fleet": ({"fabric": ("server",)}, "racks that answer together"),
    "post_training": (
        {"server": ("gpu", "nvlink", "nvswitch"), "fabric": ("server", "leaf", "spine", "web", "down")},
        "servers that answer beside servers that learn, and the fabric between them",
    ),
    "failures": ({"site": ("pod",)}, "the site's machines, one of them broken"),
    "operations": ({"fabric": ("server",)}, "the servers, and what they wait for"),
    "queue": ({"fabric": ("server", "leaf")}, "the servers, and the jobs that share them"),
    "on_call": (
        {"server": ("gpu", "nvlink", "nvswitch"), "rack": ("gpu", "switch"), "fabric": ("server", "leaf", "spine")},
        "every part that can call somebody at night",
    ),
    "symptoms": (
        {"GPU": ("die",), "server": ("gpu", "nvlink", "nvswitch"), "fabric": ("server", "leaf", "spine")},
        "what a rank does in a step, and what it waits for",
    ),
    "power": ({"site": ("pylon", "feed", "cooler", "heat")}, "what feeds the site and what cools it"),
    "hall": (
        {"rack": ("gpu", "switch"), "site": ("hall", "cooler", "heat")},
        "the racks, and the hall that cools them",
    ),
    "scaling": ({"site": ("hall", "pod")}, "the site, and one more like it"),
    "cost": ({"site": ("hall", "pod")}, "the site and its price"),
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


def you_are_here(chapter: str) -> Explorer:
    """The strip as the figure that opens a chapter.

    Parameters
    ----------
    chapter : str
        The name of its notebook.

    Examples
    --------
    >>> you_are_here("power")
    Explorer: You are here
      Where this chapter stands in the machine: what feeds the site and what cools it. Lit: site.
    """
    scene = here(chapter)
    return Explorer(lambda: Picture(scene=scene), title="You are here")


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
    parts = strip(lit, lambda names: _lighting(chapter, names))
    if chapter == "cost":
        parts.append(Box(382, 2, 16, 17, "$", kind="ochre", solid=True))
    return Scene(400, 70, parts, alt=f"Where this chapter stands in the machine: {about}. Lit: {', '.join(lit)}.")


def strip(
    lit: Mapping[str, tuple[str, ...]], lighting: Callable[[tuple[str, ...]], Style], top: float = 0.0
) -> list[Part]:
    """Five pictures side by side, 70 units high, each a part of the next, and what is lit in each."""
    seen = outline(*_SITE)
    # Of each picture: the part of the plane that it shows, its place, what is drawn, and what of it the one before shows.
    shown = {
        "GPU": ((*gpu_at(0), *GPU), (2, 54), of_gpu(), None),
        "server": ((*server_at(0), *SERVER), (71, 88), of_servers(1), (*gpu_at(0), *GPU)),
        "rack": ((*rack_at(0), *RACK), (176, 24), _in_rack("gpu" in lit.get("rack", ())), (*server_at(0), *SERVER)),
        "fabric": ((0, 0, *POD), (216, 88), _in_pod("server" in lit.get("fabric", ())), (*rack_at(0), *RACK)),
        "site": (seen, (316, 82), of_site(*_SITE), (0, 0, *POD)),
    }
    parts: list[Part] = []
    before: tuple[float, float, float, float] | None = None
    for level, (part, (left, across), things, inner) in shown.items():
        camera = Camera.onto(part, (left, top + 2.0, across, 48.0))
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


def _in_rack(gpus: bool) -> Iterator[Thing | Line]:
    """A rack's servers, and their GPUs or not."""
    yield of_rack(0)
    yield of_switch(0)
    for one in of_servers(4, gpus):
        if one.name in ("server", "gpu"):
            yield one


def _in_pod(servers: bool) -> Iterator[Thing | Line]:
    """A pod's racks, and their servers or not."""
    yield from of_pod()
    if servers:
        yield from of_servers(32, gpus=False)


def _lighting(chapter: str, lit: tuple[str, ...]) -> Style:
    """What is lit has its colour; all else is ink."""

    def style(name: str, number: int) -> tuple[str, bool]:
        if name not in lit:
            return INK
        if chapter == "failures":
            return ("red", True) if number == _BROKEN else ("compute", False)
        if chapter == "operations":  # two jobs, and what stands idle between them
            rack = number // 4
            return ("compute", True) if rack < 4 else ("idle", True) if rack == 4 else ("backward", True)
        return colour_of(name)

    return style
