"""Sphinx extension: what the style sheet must know of a page and cannot see.

How wide a printed output is, so that its type can shrink until it fits; which columns of a table are numbers; whose
heading says nothing; and which table is too wordy for a telephone, where its rows then stand one below the other, each
cell under its heading. And a number keeps its unit in its line.
"""

from __future__ import annotations

import html
import itertools
import re

from docutils import nodes

PRINTED = re.compile(
    r'(<div class="output (?:stream|text_plain)[^>]*>\s*<div class="highlight">)<pre>(.*?)</pre>', re.DOTALL
)
TABLE = re.compile(r"<table.*?</table>", re.DOTALL)
ROW = re.compile(r"<tr\b.*?</tr>", re.DOTALL)
CELL = re.compile(r"<(t[hd])\b([^>]*)>(.*?)</\1>", re.DOTALL)
TAG = re.compile(r"<[^>]+>")
NUMBER = re.compile(r"[-+\u2212~≈<>]?\s?\$?\d[\d,.]*(\s?[^\s\d]{1,10})?")
_END = r"\$?\d[\d,.]*( ?[^\s\d)]{1,10})?"
INTERVAL = re.compile(rf"{NUMBER.pattern} \({_END} to {_END}\)")
APART = re.compile(r"(?<=\d) (?=(?:%|[kMGTPE]?B(?:/s)?|[kMG]?W|[mµ]s)(?!\w))")
PHONE = 44  # characters that a line of a table holds on a narrow screen


def setup(app):
    """Register with Sphinx."""
    app.connect("doctree-resolved", keep_units)
    app.connect("html-page-context", annotate, priority=950)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}


def keep_units(app, doctree, docname):
    """Put a space that doesn't break between a number and its unit."""
    for text in list(doctree.findall(nodes.Text)):
        if isinstance(text.parent, nodes.paragraph | nodes.strong | nodes.emphasis | nodes.title) and APART.search(
            text
        ):
            text.parent.replace(text, nodes.Text(APART.sub("\u00a0", text)))


def annotate(app, pagename, templatename, context, doctree):
    """Write what the style sheet needs into the page."""
    if "body" in context:
        body = PRINTED.sub(_measured, context["body"])
        context["body"] = TABLE.sub(_tabulated, body)


def _measured(match) -> str:
    """State the columns of a printed output."""
    text = html.unescape(re.sub(r"<[^>]+>", "", match[2]))
    columns = max(map(len, text.splitlines()), default=0)
    return f'{match[1]}<pre style="--columns: {columns}">{match[2]}</pre>'


class _Cell:
    """A cell of a table: what it says, and what is to be written of it.

    No table holds another, so patterns find its cells: to parse them all as trees was a twentieth of a build.
    """

    def __init__(self, match) -> None:
        self.match, self.attributes, self.inside = match, "", match[3]
        self.classes: list[str] = []
        self.strings = [html.unescape(one) for one in TAG.split(match[3])]
        self.text = " ".join(filter(None, (one.strip() for one in self.strings)))

    @property
    def empty(self) -> bool:
        """Whether there is neither text nor a picture."""
        return not (self.text or re.search("<(?:img|svg)", self.inside))

    def written(self) -> str:
        """Return it with its classes and attributes."""
        opening = _with_classes(f"<{self.match[1]}{self.match[2]}>", self.classes)
        return f"{opening[:-1]}{self.attributes}>{self.inside}</{self.match[1]}>"


def _with_classes(opening: str, names: list[str]) -> str:
    """A tag with further classes."""
    if not names:
        return opening
    if 'class="' in opening:
        return re.sub('class="([^"]*)"', lambda found: f'class="{" ".join([*found[1].split(), *names])}"', opening)
    return f'{opening[:-1]} class="{" ".join(names)}">'


def _tabulated(match) -> str:
    """Mark the numbers of a table and, where its words need more than a narrow screen, the heading of each cell."""
    table = match[0]
    parts = {part[1]: part.span() for part in re.finditer("<(thead|tbody).*?</\\1>", table, re.DOTALL)}

    def cells(start: int, end: int) -> list[_Cell]:
        return [_Cell(one) for one in CELL.finditer(table, start, end)]

    heads = cells(*parts.get("thead", (0, 0)))
    rows = [cells(*row.span()) for row in ROW.finditer(table, *parts.get("tbody", (0, 0)))]
    columns, classes = list(zip(*rows, strict=False)), []
    least, room = 2 * len(columns), PHONE
    for head, column in zip(heads, columns, strict=False):
        numbers = [cell for cell in column if NUMBER.fullmatch(cell.text)]
        intervals = [cell for cell in column if INTERVAL.fullmatch(cell.text)]
        right = len(numbers) + sum(cell.text in ("", "-", "\u2013") for cell in column) == len(column)
        for cell in numbers:
            cell.classes.append("number")
        for cell in (head, *column) if right else ():
            cell.classes.append("right")
        for cell in intervals:
            cell.classes.append("number")
        whole = {*numbers, *intervals}
        unbroken = [word for cell in column for word in ([cell.text] if cell in whole else cell.text.split())]
        least += max(map(len, [*unbroken, ""]))
        if column is not columns[0]:  # what the others leave to the first, whose words may be broken
            room -= 2 + max(map(len, [*unbroken, *head.text.split()]), default=0)
    if heads and {head.text for head in heads} <= {"", "value"}:
        classes.append("plain")
    first = columns[0] if columns else ()
    wordy = any(len("".join(cell.strings)) > PHONE for column in columns for cell in column)
    wordy = wordy or any(len("".join(map(str.strip, cell.strings))) > 3 * max(room, 1) for cell in first)
    if len(columns) > 2 and (wordy or least > PHONE):
        classes.append("stacks")
        for head, column in zip(heads, columns, strict=False):
            for cell in column:
                cell.attributes = f' data-head="{html.escape(head.text)}"'
                if cell.empty:
                    cell.inside = ""  # so that the style sheet sees it
    at, written = 0, ""
    for cell in [*heads, *itertools.chain(*rows)]:
        written += table[at : cell.match.start()] + cell.written()
        at = cell.match.end()
    opening, rest = (written + table[at:]).split(">", 1)
    return f"{_with_classes(f'{opening}>', classes)}{rest}"
