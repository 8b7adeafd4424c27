"""Sphinx extension: what the style sheet must know of a page and cannot see.

How wide a printed output is, so that its type can shrink until it fits; which columns of a table are numbers; whose
heading says nothing; and which table is too wordy for a telephone, where its rows then stand one below the other, each
cell under its heading. And a number keeps its unit in its line.
"""

from __future__ import annotations

import html
import re

from bs4 import BeautifulSoup
from docutils import nodes

from clusterlab.units import spellings

PRINTED = re.compile(
    r'(<div class="output (?:stream|text_plain)[^>]*>\s*<div class="highlight">)<pre>(.*?)</pre>', re.DOTALL
)
TABLE = re.compile(r"<table.*?</table>", re.DOTALL)
NUMBER = re.compile(r"[-+\u2212~≈<>]?\s?\$?\d[\d,.]*(\s?[^\s\d]{1,10})?")
UNIT = re.compile(r"[-+\u2212~≈<>]?\s?\d[\d,.]*(\s?[^\s\d]{1,10})")
_END = r"\$?\d[\d,.]*( ?[^\s\d)]{1,10})?"
INTERVAL = re.compile(rf"{NUMBER.pattern} \({_END} to {_END}\)")
APART = re.compile(r"(?<=\d) (?=(?:%|[kMGTPE]?B(?:/s)?|[kMG]?W|[mµ]s)(?!\w))")
BARE = re.compile(r"\d+([-\u2013]\d+)?")
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


def _tabulated(match) -> str:
    """Mark the numbers of a table and, where its words need more than a narrow screen, the heading of each cell."""
    (table,) = BeautifulSoup(match[0], "html.parser").select("table")
    heads, body = table.select("thead th, thead td"), table.select("tbody tr")
    columns = list(zip(*(row.find_all(["th", "td"]) for row in body), strict=False))
    least, room = 2 * len(columns), PHONE
    for head, column in zip(heads, columns, strict=False):
        texts = [cell.get_text(" ", strip=True) for cell in column]
        numbers = [cell for cell, text in zip(column, texts, strict=True) if NUMBER.fullmatch(text)]
        for cell in numbers:
            _add_class(cell, "number")
        units = {tuple(spellings(found[1].strip())) for text in texts if (found := UNIT.fullmatch(text))}
        # Digits that stand over one another are compared: those of a power and of a rate are not.
        if len(units) < 2 and len(numbers) + sum(text in ("", "-", "\u2013") for text in texts) == len(texts):
            for cell in (head, *column):
                _add_class(cell, "right")
        for cell, text in zip(column, texts, strict=True):
            if INTERVAL.fullmatch(text):
                _add_class(cell, "number")
        whole = [NUMBER.fullmatch(text) or INTERVAL.fullmatch(text) for text in texts]
        unbroken = [word for text, one in zip(texts, whole, strict=True) for word in ([text] if one else text.split())]
        least += max(map(len, [*unbroken, ""]))
        if column is not columns[0]:  # what the others leave to the first, whose words may be broken
            room -= 2 + max(map(len, [*unbroken, *head.get_text(" ", strip=True).split()]), default=0)
    if heads and {head.get_text(strip=True) for head in heads} <= {"", "value"}:
        _add_class(table, "plain")
    wordy = any(len(cell.get_text()) > PHONE for column in columns for cell in column)
    wordy = wordy or any(len(cell.get_text(strip=True)) > 3 * max(room, 1) for column in columns[:1] for cell in column)
    if len(columns) > 2 and (wordy or least > PHONE):
        _add_class(table, "stacks")
        for head, column in zip(heads, columns, strict=False):
            for cell in column:
                cell["data-head"] = head.get_text(" ", strip=True)
                if column is columns[0] and BARE.fullmatch(cell.get_text(strip=True)):
                    _add_class(cell, "bare")  # such as a week, which says little alone
                if not (cell.get_text(strip=True) or cell.find(["img", "svg"])):
                    cell.clear()  # so that the style sheet sees it
    return str(table)


def _add_class(tag, name: str) -> None:
    tag["class"] = [*tag.get("class", []), name]
