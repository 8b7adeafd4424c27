"""Whether every text of a drawing has its room: the one rule of all drawings."""

from itertools import combinations

from explorable import LETTER, Box, Label

LINE = 16  # units from line to line
INK = 13  # units: the part of a line that its letters take
STRONG = 1.06  # a bold letter beside a plain one


def extent(part, letter):
    """Left, right, top and bottom of a text, by the width of its letters."""
    lines = part.text.split("\n")
    wide, high = letter * max(map(len, lines)), LINE * (len(lines) - 1) + INK
    if isinstance(part, Box):
        left, middle = part.x + (part.width - wide) / 2, part.y + part.height / 2
    else:
        left, middle = part.x - wide * {"start": 0, "middle": 0.5, "end": 1}[part.anchor], part.y
    return left, left + wide, middle - high / 2, middle + high / 2


def crowded(scene, box=LETTER, edge=LETTER, tall=0.5) -> list[str]:
    """Every text that leaves its box or the drawing, or meets another one.

    ``box`` and ``edge`` are the widths of a letter that boxes and the edges of the drawing have room for, and ``tall``
    how far the lines of a text may be higher than their box.
    """
    texts = [part for part in scene.parts if isinstance(part, Box | Label) and part.text]
    found = []
    for part in texts:
        lines = part.text.split("\n")
        wide, high = box * max(map(len, lines)), LINE * len(lines)
        if isinstance(part, Box) and (wide > part.width or high > part.height + tall):
            found.append(f"{part.text!r} leaves its box")
        left, right, top, bottom = extent(part, edge if isinstance(part, Label) else box)
        if left < -1 or right > scene.width + 1 or top < -0.5 or bottom > scene.height + 0.5:
            found.append(f"{part.text!r} leaves the drawing")
    for one, other in combinations(texts, 2):
        a, b = (extent(part, LETTER * (STRONG if getattr(part, "strong", False) else 1)) for part in (one, other))
        if a[0] < b[1] and b[0] < a[1] and a[2] < b[3] and b[2] < a[3]:
            found.append(f"{one.text!r} meets {other.text!r}")
    return found
