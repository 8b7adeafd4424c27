"""Phrases: texts, and the markup of drawings, whose numbers can move.

While a view is drawn, :func:`clusterlab.units.fmt` tells :class:`Notes` of every number that it writes, and leaves a
mark behind it that nobody sees. Whatever the view then makes of the text, the mark says which number stands there and
how it is written, so that the browser can write the ones in between. In a drawing, places and sizes move too.
"""

from __future__ import annotations

import itertools
import re
from typing import NamedTuple

_PLANE, _SIZE = 0xF0000, 65_000  # a mark is two characters of a private plane of Unicode
_MARK = re.compile(r"([\U000f0000-\U000ffffd]{2})")
_ANY_MARK = re.compile(r"[\U000f0000-\U000ffffd]")
_PLACES = re.compile(r' (?:x|y|width|height|rx|d|transform|style)="([^"]*)')
_NUMBER = re.compile(r"(-?\d+(?:\.\d+)?)")
_WRITTEN = re.compile(r"-?[\d.,]*")
_SPACES = " \u00a0\u202f"
_SPACE = re.compile(f"[{_SPACES}]")


class Form(NamedTuple):
    """How a number of a text is written: the arguments of fmt, the space before its unit, and whether that was cut."""

    unit: str
    digits: int
    whole: bool
    space: str
    bare: bool


class Phrase(NamedTuple):
    """Words, and the numbers between them; a form of None is a place in a drawing."""

    words: tuple[str, ...]
    forms: tuple[Form | None, ...]
    numbers: tuple[float, ...]
    text: str


class Notes:
    """Every number that fmt wrote, under its mark."""

    _fresh = itertools.count()  # a text that outlives its figure, in a cache, must not name a number of the next

    def __init__(self) -> None:
        self._written: dict[str, tuple[str, float, str, int]] = {}
        self._marks: dict[tuple, str] = {}
        self._phrases: dict[tuple[str, bool], Phrase] = {}

    def __call__(self, text: str, value: float, unit: str, digits: int) -> str:
        told = (value, type(value), unit, digits)
        if told not in self._marks:
            high, low = divmod(next(self._fresh), _SIZE)
            self._marks[told] = mark = chr(_PLANE + high % _SIZE) + chr(_PLANE + low)
            self._written[mark] = text, value, unit, digits
        return text + self._marks[told]

    def phrase(self, text: str, drawn: bool = False) -> Phrase:
        """The words and numbers of a text; of a drawing's markup, where ``drawn``, with its places."""
        if (text, drawn) not in self._phrases:
            self._phrases[text, drawn] = self._parsed(text, drawn)
        return self._phrases[text, drawn]

    def _parsed(self, text: str, drawn: bool) -> Phrase:
        words, forms, numbers = [""], list[Form | None](), list[float]()

        def plain(piece: str) -> None:
            end = 0
            for match in _PLACES.finditer(piece) if drawn else ():
                first, *parts = _NUMBER.split(match[1])  # words, then a number and words in turn
                words[-1] += piece[end : match.start(1)] + first
                words.extend(parts[1::2])
                numbers.extend(map(float, parts[::2]))
                forms.extend([None] * (len(parts) // 2))
                end = match.end()
            words[-1] += piece[end:]

        pieces = _MARK.split(text)
        for before, mark in itertools.zip_longest(pieces[::2], pieces[1::2], fillvalue=""):
            form, size = self._form(before, mark)
            plain(before[: len(before) - size])
            if form:
                forms.append(form)
                numbers.append(float(self._written[mark][1]))
                words.append("")
        return Phrase(tuple(words), tuple(forms), tuple(numbers), unmarked(text))

    def _form(self, before: str, mark: str) -> tuple[Form | None, int]:
        """How the number at the end of a text is written, and its length; None where its text was changed."""
        if mark not in self._written:
            return None, 0
        text, value, unit, digits = self._written[mark]
        number = _WRITTEN.match(text)[0]  # type: ignore[index]
        whole = not isinstance(value, float) and number == f"{value:,}"
        for written in (text, number):
            end = before[len(before) - len(written) :]
            if written and (end == written or _SPACE.sub(" ", end) == written):
                space = next((letter for letter in end if letter in _SPACES), "")
                return Form(unit, digits, whole, space, written != text), len(written)
        return None, 0


def unmarked(text: str) -> str:
    """A text without the marks of its numbers."""
    return _ANY_MARK.sub("", text)
