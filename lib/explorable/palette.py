"""Palette: the colours of every figure of the book, each with one meaning.

Compute is blue, memory is green, what moves over a wire is orange, and what is wasted is plum; a shade is a part of its
meaning. Each colour comes for light pages and for dark ones. It keeps 3:1 against both, readers who see red, green or
blue weakly tell the four meanings apart, and it says in which ink text stands on it.
"""

from __future__ import annotations

from difflib import get_close_matches
from typing import NamedTuple

_PAPER, _INK = "#ffffff", "#0b0f14"  # text on a colour is one of the two


class Colour(NamedTuple):
    """A colour on light pages and on dark ones, as ``#rrggbb``."""

    light: str
    dark: str

    @property
    def text(self) -> Colour:
        """White or black, whichever is easier to read on this colour."""
        light, dark = (max(_PAPER, _INK, key=lambda ink: _contrast(ink, shade)) for shade in self)
        return Colour(light, dark)


# The four meanings and the ink of the page; then their shades; then what has no meaning of its own.
PALETTE = {
    "compute": Colour("#1a64bd", "#4a88de"),
    "memory": Colour("#43a17d", "#62c49d"),
    "wire": Colour("#d4671a", "#ef9350"),
    "waste": Colour("#9c4a7f", "#bd609b"),
    "ink": Colour("#222832", "#ced6dd"),
    "forward": Colour("#2784d5", "#73b6fa"),
    "backward": Colour("#1e4798", "#4170cb"),
    "weights": Colour("#054931", "#038660"),
    "gradients": Colour("#0e9035", "#45cd60"),
    "optimizer": Colour("#046d77", "#2aa7b5"),
    "activations": Colour("#949800", "#d4db47"),
    "cache": Colour("#1fa3a4", "#93f1ef"),
    "nvlink": Colour("#a84811", "#d6743d"),
    "network": Colour("#d6781c", "#f9b879"),
    "bubble": Colour("#b45e94", "#d885b8"),
    "lost": Colour("#812a5a", "#b3487e"),
    "idle": Colour("#9d7995", "#d7b0cd"),
    "ochre": Colour("#7d6201", "#cfad4e"),
    "grey": Colour("#6b6b6b", "#a4a4a4"),
    "violet": Colour("#6b63c9", "#9e9cf6"),
    "red": Colour("#c0364d", "#f16f7c"),
}

# The shades of each meaning.
SHADES = {
    "compute": ("forward", "backward"),
    "memory": ("weights", "gradients", "optimizer", "activations", "cache"),
    "wire": ("nvlink", "network"),
    "waste": ("bubble", "lost", "idle"),
}

# What curves, spans and marks are given in turn where a figure names no colours.
CYCLE = ("compute", "wire", "memory", "waste", "ochre", "grey", "violet", "red")


def colour(meaning: str) -> Colour:
    """Colour of a meaning or of one of its shades.

    Examples
    --------
    >>> colour("wire")
    Colour(light='#d4671a', dark='#ef9350')
    """
    if meaning not in PALETTE:
        near = get_close_matches(str(meaning), PALETTE, n=1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise ValueError(f"no colour means {meaning!r}; {hint}there are: {', '.join(PALETTE)}")
    return PALETTE[meaning]


def css() -> str:
    """Style sheet that sets ``--cl-c`` (the colour) and ``--cl-t`` (text on it).

    The class ``cl-s0`` has the first colour of the cycle, and so on; ``cl-c-wire`` has the colour of the wire. Which of
    light and dark holds is the page's ``color-scheme``.
    """
    named = [(f".cl-s{i}", meaning) for i, meaning in enumerate(CYCLE)] + [(f".cl-c-{name}", name) for name in PALETTE]
    return "".join(
        f"{selector} {{ --cl-c: light-dark({', '.join(colour(meaning))}); "
        f"--cl-t: light-dark({', '.join(colour(meaning).text)}); }}\n"
        for selector, meaning in named
    )


def _luminance(shade: str) -> float:
    """Relative luminance of an sRGB colour (WCAG 2.2)."""
    channels = [int(shade[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _contrast(one: str, other: str) -> float:
    """Contrast ratio of two colours (WCAG 2.2)."""
    low, high = sorted((_luminance(one), _luminance(other)))
    return (high + 0.05) / (low + 0.05)
