"""What the book's widgets share: they start as markup, wear the palette, and remember in the browser.

A widget is a class of :class:`Widget` with a script and a style sheet of its own::

    class Check(Widget):
        _esm, _css = script(HERE / "check.js"), style(HERE / "check.css")

Its script may use what stands in ``_widget.js``: ``make`` for elements, ``recall`` and ``remember`` for notes. On the
page everything of a widget stands in an element of class ``cl-explorer``, ``cl-check`` and the like.
"""

from __future__ import annotations

import html
import re
from pathlib import Path

from . import palette

try:
    import anywidget
    import traitlets
except ImportError as missing:
    raise ImportError(f"explorable needs {missing.name}: pip install 'clusterlab[book]'") from None


class Widget(anywidget.AnyWidget):
    """A widget whose starting picture is markup, so that a page shows it without a script, and before one runs."""

    _html = traitlets.Unicode().tag(sync=True)


def script(path: Path) -> str:
    """A widget's script, below what the widgets share: each travels alone, so each has its own copy."""
    return Path(__file__).with_suffix(".js").read_text(encoding="utf-8") + path.read_text(encoding="utf-8")


def style(path: Path) -> str:
    """A widget's style sheet, below the palette."""
    return palette.css() + path.read_text(encoding="utf-8")


def together(text: str) -> str:
    """Text in which a number and its unit stay on one line."""
    return re.sub(r"(?<=\d) (?=\S)", "\u00a0", text)


def escape(text: object) -> str:
    """Text as it may stand in markup and in an attribute."""
    return html.escape(str(text), quote=True)
