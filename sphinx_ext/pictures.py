"""Pictures of pages for those who share a link to them: the page's first scene, under its title.

A scene is markup of few kinds: boxes, lines, tips of arrows and words, each with a class that says its colour. So
matplotlib can draw it, without a browser.
"""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

from bs4 import BeautifulSoup, Tag

from explorable.palette import PALETTE

SCENE = re.compile(r'<svg[^>]* class="cl-scene".*?</svg>|<svg class="cl-scene".*?</svg>', re.DOTALL)
WIDTH, HEIGHT = 1200, 630  # pixels: what those who show such pictures ask for
EDGE = 60
INK = PALETTE["ink"].light


def opening(body: str) -> tuple[str, str]:
    """Return the first scene of a page, if it has one, and what it says that it shows."""
    found = SCENE.search(body)
    said = re.search(r'aria-label="([^"]*)"', found[0]) if found else None
    return (found[0], said[1] if said else "") if found else ("", "")


def draw(scene: str, title: str, book: str, path: Path) -> None:
    """Draw a scene under a title, and the name of the book below, into a file."""
    # Here and not above: a kernel, which is a fork of the build (kernels), shall find how it shows figures by itself.
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH / 100, HEIGHT / 100), dpi=100)
    axes = figure.add_axes((0, 0, 1, 1), xlim=(0, WIDTH), ylim=(HEIGHT, 0), frame_on=False, xticks=[], yticks=[])
    lines = textwrap.wrap(title, 40)
    heading = "\n".join(lines)
    axes.text(EDGE, EDGE, heading, size=36, weight="bold", va="top", linespacing=1.15, family="serif", color=INK)
    axes.text(EDGE, HEIGHT - EDGE / 2, book, size=17, va="bottom", family="serif", color=INK)
    (svg,) = BeautifulSoup(scene, "html.parser").select("svg")
    _, _, broad, high = map(float, str(svg["viewbox"]).split())
    top, bottom = EDGE + 62.0 * len(lines) + 20, HEIGHT - EDGE * (1.5 if book else 0.5)
    scale = min((WIDTH - 2 * EDGE) / broad, (bottom - top) / high)
    left = (WIDTH - scale * broad) / 2
    top += (bottom - top - scale * high) / 2
    for group in svg.select("g"):
        _draw_group(axes, group, scale, left, top)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Software": None})


def _draw_group(axes, group: Tag, scale: float, left: float, top: float) -> None:
    """Draw a box, an arrow or a label of a scene."""
    from matplotlib.patches import FancyBboxPatch, Polygon

    kinds = group.get_attribute_list("class")
    named = [kind.removeprefix("cl-c-") for kind in kinds if kind and kind.startswith("cl-c-")]
    colour = PALETTE[named[0] if named else "ink"].light
    place = str(group.get("transform") or group.get("style") or "0 0")
    right, down = map(float, re.findall(r"-?[\d.]+", place))
    faint = 0.4 if named == ["ink"] else 1.0

    def at(x: float, y: float) -> tuple[float, float]:
        return left + scale * (x + right), top + scale * (y + down)

    for part in group.find_all(recursive=False):
        numbers = [float(one) for one in re.findall(r"-?[\d.]+", str(part.get("d", "")))]
        points = [at(*pair) for pair in zip(numbers[::2], numbers[1::2], strict=True)]
        if part.name == "rect":
            broad, high = (scale * float(str(part[side])) for side in ("width", "height"))
            fill = 1.0 if "cl-solid" in kinds else 0.05 if named == ["ink"] else 0.16
            style = f"round,pad=0,rounding_size={scale * float(str(part['rx']))}"
            box = FancyBboxPatch(at(0, 0), broad, high, boxstyle=style, linewidth=1.2)
            box.set(facecolor=(colour, fill), edgecolor=(colour, faint))
            axes.add_patch(box)
        elif part.name == "path" and "cl-tip" in part.get_attribute_list("class"):
            axes.add_patch(Polygon(points, color=colour))
        elif part.name == "path":
            width = 0.7 if "cl-faint" in kinds else 1.6
            axes.plot(*zip(*points, strict=True), color=colour, alpha=faint, linewidth=width)
        elif part.name == "text":
            side = "left" if "cl-start" in kinds else "right" if "cl-end" in kinds else "center"
            weight = "bold" if "cl-strong" in kinds else "normal"
            x, y = at(float(str(part["x"])), float(str(part["y"])))
            axes.text(x, y, part.get_text(), size=8 * scale, ha=side, weight=weight, family="serif", color=INK)
