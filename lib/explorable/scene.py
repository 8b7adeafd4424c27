"""Scene: a drawing of boxes, arrows, labels and bands, at the places that a view gives them.

Places are in units from the upper left corner: x to the right, y down. Text is 13 units high whatever it stands on, so
a scene may be at most 400 units wide: then its text is 11 pixels high on a phone, and as high as the page's where there
is room.
"""

from __future__ import annotations

import html
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Real

from ._phrases import unmarked
from .palette import colour

WIDEST = 400  # units
TEXT = 13  # units; explorer.css says so too
_LINE = 16  # units from line to line
LETTER = 7.2  # units, no less than the width of a letter in most faces
_HEAD = 7.0, 3.2  # an arrow's head: its length and half its width


@dataclass(frozen=True)
class Box:
    """A rounded rectangle with text in its middle; a newline starts a new line.

    Parameters
    ----------
    x, y : float
        Its upper left corner.
    width, height : float
        Its size.
    text : str
        What stands in it.
    kind : str
        What it is, and so its colour: a name of :data:`explorable.palette.PALETTE`.
    solid : bool
        Filled with its colour; else with a tint of it, under the ink of the page.
    key : str
        Its name from stop to stop: a box with a key slides from where it was to where it is.
    link : str
        What it leads to: a page of the book, as Markdown beside the figure would name it (``"power.ipynb#cooling"``).

    Raises
    ------
    ValueError
        The kind has no colour, a number is not finite, the size is not positive, or the link leads out of the book.

    Examples
    --------
    >>> Box(0, 0, 80, 24, "HBM", kind="memory").svg()
    '<g class="cl-box cl-c-memory"><rect width="80" height="24" rx="4"/><text x="40" y="16.6">HBM</text></g>'
    """

    x: float
    y: float
    width: float
    height: float
    text: str = ""
    kind: str = "ink"
    solid: bool = False
    key: str = ""
    link: str = ""

    def __post_init__(self) -> None:
        """Refuse what cannot be drawn."""
        colour(self.kind)
        _check_link(self.link)
        _check_numbers(self, self.x, self.y, self.width, self.height)
        if min(self.width, self.height) <= 0:
            raise ValueError(f"a box needs a width and a height above zero, got {self!r}")

    def reach(self) -> list[tuple[float, float]]:
        """Corners of the room it takes."""
        return [(self.x, self.y), (self.x + self.width, self.y + self.height)]

    def svg(self) -> str:
        """Markup."""
        place = f' transform="translate({_n(self.x)} {_n(self.y)})"' if (self.x or self.y) and not self.key else ""
        if self.key:  # as a style, which the script can animate
            at = f"transform:translate({_n(self.x)}px,{_n(self.y)}px)"
            place = f' data-key="{html.escape(self.key)}" style="{at}"'
        radius = min(4.0, self.width / 4, self.height / 4)
        drawn = (
            f'<g class="cl-box{" cl-solid" * self.solid} cl-c-{self.kind}"{place}>'
            f'<rect width="{_n(self.width)}" height="{_n(self.height)}" rx="{_n(radius)}"/>'
            f"{_text(self.width / 2, self.height / 2, self.text)}</g>"
        )
        return _linked(drawn, self.link, self.text)


@dataclass(frozen=True)
class Arrow:
    """A line from one place to another, with its text halfway.

    Parameters
    ----------
    x0, y0, x1, y1 : float
        Where it starts and where it ends.
    text : str
        What it carries.
    kind : str
        What it is, and so its colour: a name of :data:`explorable.palette.PALETTE`.
    bend : float
        How far it bows to its left, as a share of its length; to its right where negative.
    heads : int
        1 at its end, 2 at both ends, or 0: a line.
    faint : bool
        One of so many that only their web is to be seen.

    Raises
    ------
    ValueError
        The kind has no colour, a number is not finite, the arrow has no length, or another number of heads.

    Examples
    --------
    >>> Arrow(0, 10, 40, 10, heads=0).svg()
    '<g class="cl-arrow cl-c-wire"><path d="M0 10L40 10"/></g>'
    """

    x0: float
    y0: float
    x1: float
    y1: float
    text: str = ""
    kind: str = "wire"
    bend: float = 0.0
    heads: int = 1
    faint: bool = False

    def __post_init__(self) -> None:
        """Refuse what cannot be drawn."""
        colour(self.kind)
        _check_numbers(self, self.x0, self.y0, self.x1, self.y1, self.bend)
        if (self.x0, self.y0) == (self.x1, self.y1):
            raise ValueError(f"an arrow needs two different places, got {self!r}")
        if self.heads not in (0, 1, 2):
            raise ValueError(f"an arrow has 0, 1 or 2 heads, got {self.heads!r}")

    def _knee(self) -> tuple[float, float]:
        """The control point of the curve."""
        across, down = self.x1 - self.x0, self.y1 - self.y0
        return ((self.x0 + self.x1) / 2 + 2 * self.bend * down, (self.y0 + self.y1) / 2 - 2 * self.bend * across)

    def _middle(self) -> tuple[float, float]:
        """The place halfway along the curve."""
        return (
            (self.x0 + self.x1) / 2 + self.bend * (self.y1 - self.y0),
            (self.y0 + self.y1) / 2 - self.bend * (self.x1 - self.x0),
        )

    def reach(self) -> list[tuple[float, float]]:
        """Ends, and the place halfway."""
        return [(self.x0, self.y0), (self.x1, self.y1), self._middle()]

    def svg(self) -> str:
        """Markup."""
        knee, start, end, heads = self._knee(), (self.x0, self.y0), (self.x1, self.y1), ""
        if self.heads == 2:
            head, start = _head(knee, start)
            heads += head
        if self.heads:
            head, end = _head(knee, end)
            heads += head
        way = f"Q{_n(knee[0])} {_n(knee[1])} " if self.bend else "L"
        line = f'<path d="M{_n(start[0])} {_n(start[1])}{way}{_n(end[0])} {_n(end[1])}"/>'
        classes = f"cl-arrow{' cl-faint' * self.faint} cl-c-{self.kind}"
        return f'<g class="{classes}">{line}{heads}{_text(*self._middle(), self.text)}</g>'


@dataclass(frozen=True)
class Label:
    """Text on its own.

    Parameters
    ----------
    x, y : float
        Its place: in height its middle, in width where its ``anchor`` says.
    text : str
        What it says; a newline starts a new line.
    anchor : str
        ``"start"``, ``"middle"`` or ``"end"`` of the text stands at ``x``.
    strong : bool
        A heading of a part of the drawing.
    link : str
        As in :class:`Box`.

    Raises
    ------
    ValueError
        The text is empty, a number is not finite, the anchor is none of the three, or the link leads out of the book.

    Examples
    --------
    >>> Label(0, 20, "Server", anchor="start").svg()
    '<g class="cl-label cl-start"><text x="0" y="24.6">Server</text></g>'
    """

    x: float
    y: float
    text: str
    anchor: str = "middle"
    strong: bool = False
    link: str = ""

    def __post_init__(self) -> None:
        """Refuse what cannot be drawn."""
        _check_link(self.link)
        _check_numbers(self, self.x, self.y)
        if not self.text:
            raise ValueError(f"a label needs a text, got {self!r}")
        if self.anchor not in ("start", "middle", "end"):
            raise ValueError(f"the anchor of a label is 'start', 'middle' or 'end', got {self.anchor!r}")

    def reach(self) -> list[tuple[float, float]]:
        """Its place."""
        return [(self.x, self.y)]

    def svg(self) -> str:
        """Markup."""
        classes = "cl-label" + f" cl-{self.anchor}" * (self.anchor != "middle") + " cl-strong" * self.strong
        return _linked(f'<g class="{classes}">{_text(self.x, self.y, self.text)}</g>', self.link, self.text)


@dataclass(frozen=True)
class Band:
    """A flow from left to right, as wide as what flows, as in a Sankey diagram.

    Parameters
    ----------
    x0, y0, x1, y1 : float
        The upper left and the upper right corner.
    width0, width1 : float
        Its width at either end.
    kind : str
        What it is, and so its colour: a name of :data:`explorable.palette.PALETTE`.

    Raises
    ------
    ValueError
        The kind has no colour, a number is not finite, a width is not positive, or it does not lead to the right.

    Examples
    --------
    >>> Band(0, 0, 40, 10, width0=20, width1=20, kind="ochre").svg()
    '<g class="cl-band cl-c-ochre"><path d="M0 0C20 0 20 10 40 10L40 30C20 30 20 20 0 20z"/></g>'
    """

    x0: float
    y0: float
    x1: float
    y1: float
    width0: float
    width1: float
    kind: str = "ink"

    def __post_init__(self) -> None:
        """Refuse what cannot be drawn."""
        colour(self.kind)
        _check_numbers(self, self.x0, self.y0, self.x1, self.y1, self.width0, self.width1)
        if self.x1 <= self.x0 or min(self.width0, self.width1) <= 0:
            raise ValueError(f"a band leads to the right and has widths above zero, got {self!r}")

    def reach(self) -> list[tuple[float, float]]:
        """Corners of the room it takes."""
        return [
            (self.x0, self.y0),
            (self.x0, self.y0 + self.width0),
            (self.x1, self.y1),
            (self.x1, self.y1 + self.width1),
        ]

    def svg(self) -> str:
        """Markup."""
        (x0, y0), (_, y2), (x1, y1), (_, y3) = [(_n(x), _n(y)) for x, y in self.reach()]
        half = _n((self.x0 + self.x1) / 2)
        edges = f"M{x0} {y0}C{half} {y0} {half} {y1} {x1} {y1}L{x1} {y3}C{half} {y3} {half} {y2} {x0} {y2}z"
        return f'<g class="cl-band cl-c-{self.kind}"><path d="{edges}"/></g>'


Part = Box | Arrow | Label | Band


@dataclass(frozen=True)
class Scene:
    """A drawing: its size, its parts, of which later ones lie on earlier ones, and what it shows in words.

    Parameters
    ----------
    width, height : float
        Its size in units; at most 400 wide.
    parts : sequence of Box, Arrow, Label or Band
        What is drawn, each inside the scene.
    alt : str
        What a reader who does not see the drawing is told.

    Raises
    ------
    ValueError
        A part is none of these or reaches out of the scene, two boxes have one key, the scene is too wide, or
        nothing says what it shows.

    Examples
    --------
    >>> link = [Box(0, 0, 60, 30, "GPU 0"), Box(140, 0, 60, 30, "GPU 1"), Arrow(64, 15, 136, 15, "50 GB/s")]
    >>> Scene(200, 30, link, alt="GPU 0 sends to GPU 1 at 50 GB/s").width
    200
    """

    width: float
    height: float
    parts: Sequence[Part]
    alt: str

    def __post_init__(self) -> None:
        """Refuse what cannot be drawn or not be read."""
        if not (0 < self.width <= WIDEST and 0 < self.height < math.inf):
            raise ValueError(
                f"a scene is at most {WIDEST} units wide, or its text is too small on a phone; "
                f"got {self.width} x {self.height}"
            )
        if not (isinstance(self.alt, str) and self.alt.strip()):
            raise ValueError("a scene needs an alt, which says in words what it shows")
        for part in self.parts:
            if not isinstance(part, Part):
                raise ValueError(f"a scene is made of boxes, arrows, labels and bands, got {part!r}")
            if not all(0 <= x <= self.width and 0 <= y <= self.height for x, y in part.reach()):
                raise ValueError(f"this part reaches out of the scene of {self.width} x {self.height}: {part!r}")
        keys = [part.key for part in self.parts if isinstance(part, Box) and part.key]
        if twice := {key for key in keys if keys.count(key) > 1}:
            raise ValueError(f"two boxes of a scene have the key {min(twice)!r}")


def breadth(text: str) -> float:
    """Units that a line of text takes, at most.

    Examples
    --------
    >>> round(breadth("GPU 0"), 1)
    36.0
    """
    return LETTER * len(unmarked(text))


# --- Parts that belong together --------------------------------------------------------------------------------------


def grid(
    x: float,
    y: float,
    width: float,
    height: float,
    texts: Sequence[Sequence[str]],
    *,
    kind: str = "ink",
    solid: Sequence[tuple[int, int]] = (),
    gap: float = 2.0,
) -> list[Box]:
    """Boxes of equal size in rows and columns: a matrix in its blocks, the servers of a rack.

    Parameters
    ----------
    x, y, width, height : float
        The room that it takes.
    texts : sequence of rows of str
        What stands in each box.
    kind : str
        Their colour, a name of :data:`explorable.palette.PALETTE`.
    solid : sequence of (row, column)
        Which boxes are filled.
    gap : float
        Room between two boxes.

    Raises
    ------
    ValueError
        Rows differ in length, or no room is left for a box.

    Examples
    --------
    >>> [box.x for box in grid(0, 0, 100, 20, [["a", "b"]], kind="weights", solid=[(0, 1)])]
    [0.0, 51.0]
    """
    if not texts or not texts[0] or len({len(row) for row in texts}) > 1:
        raise ValueError(f"a grid needs rows of one length, got {texts!r}")
    across = (width - gap * (len(texts[0]) - 1)) / len(texts[0])
    down = (height - gap * (len(texts) - 1)) / len(texts)
    return [
        Box(x + j * (across + gap), y + i * (down + gap), across, down, text, kind, solid=(i, j) in solid)
        for i, row in enumerate(texts)
        for j, text in enumerate(row)
    ]


def legend(x: float, y: float, entries: Sequence[tuple[str, str, bool]], gap: float = 16.0) -> list[Part]:
    """A row of swatches with their meaning: text, kind, and whether it is filled.

    Examples
    --------
    >>> [part.text for part in legend(4, 10, [("weights", "weights", False), ("on the wire", "wire", True)])]
    ['', 'weights', '', 'on the wire']
    """
    parts: list[Part] = []
    for text, kind, solid in entries:
        parts += [Box(x, y - 6, 12, 12, kind=kind, solid=solid), Label(x + 18, y, text, anchor="start")]
        x += 18 + breadth(text) + gap
    return parts


def _check_numbers(part: object, *numbers: float) -> None:
    if not all(isinstance(v, Real) and math.isfinite(v) for v in numbers):
        raise ValueError(f"places and sizes are finite numbers, got {part!r}")


_PAGE = re.compile(r"[\w-][\w./-]*\.(?:ipynb|md)(?:#[\w.-]+)?")


def _check_link(link: str) -> None:
    if link and not _PAGE.fullmatch(link):
        raise ValueError(f"a link is a page of the book, such as 'power.ipynb#cooling', got {link!r}")


def _linked(drawn: str, link: str, text: str) -> str:
    """What leads to a page; lines of text would be told as one word."""
    told = f' aria-label="{html.escape(" ".join(text.split()))}"' if "\n" in text else ""
    return f'<a href="{html.escape(link)}"{told}>{drawn}</a>' if link else drawn


def _head(source: tuple[float, float], tip: tuple[float, float]) -> tuple[str, tuple[float, float]]:
    """An arrow's head at ``tip``, coming from ``source``, and the middle of its back, where the line ends."""
    length, half = _HEAD
    across, down = tip[0] - source[0], tip[1] - source[1]
    away = math.hypot(across, down)
    u, v = across / away, down / away
    x, y = tip[0] - length * u, tip[1] - length * v
    corners = tip, (x - half * v, y + half * u), (x + half * v, y - half * u)
    points = "L".join(f"{_n(a)} {_n(b)}" for a, b in corners)
    return f'<path class="cl-tip" d="M{points}z"/>', (x, y)


def _text(x: float, y: float, text: str) -> str:
    """Lines of text whose middle is at a place; nothing where there is none."""
    lines = text.split("\n") if text else []
    first = y + 0.35 * TEXT - (len(lines) - 1) * _LINE / 2
    # The space is not drawn: it keeps a link's words apart for who compares them with its name.
    return " ".join(
        f'<text x="{_n(x)}" y="{_n(first + i * _LINE)}">{html.escape(line)}</text>' for i, line in enumerate(lines)
    )


def _n(value: float) -> str:
    """A number of SVG: to a tenth, without a needless zero."""
    return f"{round(float(value), 1) + 0.0:g}"
