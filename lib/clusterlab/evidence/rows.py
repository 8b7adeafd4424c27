"""Rows: a table of runs as cells and numbers; a row that cannot be used is skipped, with the reason.

One reader for all tables of runs, published or a reader's own: :class:`Form` says what columns a kind of table has,
:func:`read_rows` gives each row to a function that makes a run of it, or raises :class:`SkipRow`.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterable, Mapping
from copy import copy
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cached_property
from typing import TypeVar

T = TypeVar("T")


# --- Published tables ------------------------------------------------------------------------------------------------

EMPTY = frozenset({"n/a", "na", "#n/a", "-", "--", "null", "none"})  # what people write where nothing is published
_THOUSANDS = re.compile(r"\d{1,3}(,\d{3})+(\.\d+)?")
_RANGE = re.compile(r"(\d+(?:\.\d+)?)\s*(?:-|to)\s*(\d+(?:\.\d+)?)")


class SkipRow(Exception):  # noqa: N818, it is no error
    """Why a row cannot be predicted."""


@dataclass(frozen=True)
class Skipped:
    """A row that cannot be predicted, and why."""

    row: str
    source: str
    why: str


@dataclass(frozen=True)
class Form:
    """The columns of a kind of table.

    ``text`` names things, and ``notes`` are kept as they are. ``counts`` are whole numbers; ``measures``, of which a
    table has one at least if it is ``measured``, and ``others`` are any. ``aliases`` are other names that people give
    to columns, and are taken; ``hints`` are names that may mean a column, or something else, and are asked about. With
    ``ranges`` a number may be "45-50", which is taken at its middle.
    """

    text: tuple[str, ...]
    notes: tuple[str, ...]
    counts: tuple[str, ...]
    measures: tuple[str, ...]
    others: tuple[str, ...]
    aliases: Mapping[str, str]
    ranges: bool = False
    required: tuple[str, ...] = ("model", "gpu", "n_gpus")
    measured: bool = True
    hints: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def numbers(self) -> tuple[str, ...]:
        """All columns of numbers."""
        return (*self.counts, *self.measures, *self.others)

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """All columns."""
        return (*self.text, *self.numbers, *self.notes)

    def heading(self, cells: list[str], where: str) -> list[str]:
        """The names of the columns, in brackets those that are not used, or a ValueError.

        Commas at the end of the line are columns without a name. A name that is nearly one of a column that is not
        there is refused, for it may be a slip.
        """
        written = len(cells)
        while not cells[-1]:
            cells = cells[:-1]
        if len(cells) == 1 and re.search(r"[;\t]", cells[0]):
            raise ValueError(f"{where}: columns must be separated by commas, got {cells[0]!r}")
        names = [re.sub(r"[\s-]+", "_", cell.casefold()) for cell in cells]
        if twice := {name for name in names if names.count(name) > 1 and name in self.columns}:
            raise ValueError(f"{where}: columns there twice: {', '.join(sorted(twice))}")
        names = [self._meant(name, names) for name in names]
        others = [cell for cell, name in zip(cells, names, strict=True) if not name]
        slips = {cell: near for cell in others if (near := self._near(cell, names))}
        if slips:
            hints = "; ".join(f"{cell!r}: did you mean {near}?" for cell, near in slips.items())
            raise ValueError(f"{where}: unknown columns {', '.join(map(repr, slips))}; {hints}")
        if missing := [name for name in self.required if name not in names]:
            unused = f"; not used: {', '.join(map(repr, others))}" if others else ""
            raise ValueError(f"{where}: missing columns {', '.join(missing)}{unused}; known: {', '.join(self.columns)}")
        if self.measured and not set(self.measures) & set(names):
            raise ValueError(f"{where}: no column with a measurement; it needs one of {', '.join(self.measures)}")
        named = [name or f"({cell})" for cell, name in zip(cells, names, strict=True)]
        return named + [""] * (written - len(named))

    def _meant(self, name: str, names: list[str]) -> str:
        """The column that a name is: its own, or an alias's unless the column itself is there, or an earlier alias."""
        if name in self.columns:
            return name
        own = self.aliases.get(name, "")
        earlier = [other for other in names[: names.index(name)] if self.aliases.get(other) == own]
        return "" if own in names or earlier else own

    def _near(self, cell: str, names: list[str]) -> str | None:
        """The column that somebody may have meant by a name that is none, if it is not there."""
        name = re.sub(r"[\s-]+", "_", cell.casefold())
        if name in self.aliases:
            return None
        near = [self.hints[name]] if name in self.hints else get_close_matches(name, self.columns, n=1, cutoff=0.85)
        return near[0] if near and near[0] not in names else None

    def number(self, name: str, text: str) -> float | None:
        """A cell of numbers (None: not published), or a ValueError that says what is allowed."""
        if text.casefold() in EMPTY:
            return None
        whole, digits = name in self.counts, text
        if _THOUSANDS.fullmatch(text):
            if not whole and text.count(",") == 1 and "." not in text:
                raise ValueError(f"{name} may be {text.replace(',', '')} or {text.replace(',', '.')}, got {text!r}")
            digits = text.replace(",", "")
        try:
            value = float(digits)
        except ValueError:
            raise ValueError(f"{name} must be a number, got {text!r}") from None
        if not 0 < value < float("inf"):
            raise ValueError(f"{name} must be above zero and finite, got {text!r}")
        if name.endswith("_pct") and value > 100:
            raise ValueError(f"{name} must be at most 100, got {text!r}")
        if name.endswith("_pct") and value <= 1:
            raise ValueError(f"{name} must be in percent, above 1; is {text} a share, {100 * value:g} %?")
        if whole and value % 1:
            raise ValueError(f"{name} must be a whole number, got {text!r}")
        # Far above anything real, and far below where a double overflows.
        billions = name.startswith(("params", "active"))
        least, most = (1, 1e9) if whole else (1e-3, 1e6) if billions else (1e-9, 1e12)
        if not least <= value <= most:
            raise ValueError(f"{name} must be from {least:g} to {most:g}, got {text!r}")
        return value


class Row:
    """A row of a table: its cells as text and as numbers (None: not published), and what gets filled in for them."""

    def __init__(self, form: Form, line: int, heading: list[str], cells: list[str]) -> None:
        self.form, self.line = form, line
        self.filled: dict[str, str] = {}
        self.numbers: dict[str, float | None] = {}
        self.ranges: dict[str, str] = {}  # cells that are one, as "47.5 (middle of 45-50)"
        self.text = dict.fromkeys(form.columns, "") | {
            name: cell for name, cell in zip(heading, cells, strict=False) if name in form.columns
        }
        for name in form.text:
            if self.text[name].casefold() in EMPTY - {"none"}:  # which says something of sharding, and of recomputation
                self.text[name] = ""
        self.name, self.source = self.text["row_id"] or f"line {line}", self.text["group"] or "runs"
        self._fault = _fault(len(heading) - heading.count(""), len(heading), cells)

    def __getitem__(self, name: str) -> float | None:
        return self.numbers[name]

    def copy(self) -> Row:
        """The same row, to be filled in otherwise."""
        other = copy(self)
        other.filled = dict(self.filled)
        return other

    def read_numbers(self) -> None:
        """Read every number, or raise a ValueError; it names the line where the row's name does not."""
        where = f"line {self.line}: " if self.text["row_id"] else ""
        if self._fault:
            raise ValueError(f"{where}{self._fault}")
        self.numbers = dict.fromkeys(self.form.numbers)
        try:
            self.numbers |= {name: self._number(name, text) for name in self.form.numbers if (text := self.text[name])}
        except ValueError as error:
            raise ValueError(f"{where}{error}") from None

    def _number(self, name: str, text: str) -> float | None:
        ends = _RANGE.fullmatch(text) if self.form.ranges else None
        if not ends:
            return self.form.number(name, text)
        middle = (float(ends[1]) + float(ends[2])) / 2
        self.ranges[name] = f"{middle:g} (middle of {text})"
        return middle


def unused_columns(text: str, name: str, form: Form) -> list[str]:
    """The columns of a table that no rule reads, as they are written; ``name`` stands in messages."""
    for line in csv.reader(io.StringIO(text)):
        cells = [cell.strip() for cell in line]
        if any(cells) and not cells[0].startswith("#"):
            names = form.heading(cells, f"{name}, line 1")
            return [name[1:-1] for name in names if name.startswith("(")]
    return []


def _fault(columns: int, written: int, cells: list[str]) -> str:
    """What is wrong with the number of a row's cells, if anything: a comma in a number moves all behind it."""
    beyond = any(cells[columns:])
    if len(cells) in (columns, written) and not beyond:
        return ""
    why = "; a cell with a comma in it needs quotes" if beyond else "; a comma too many?"
    return f"{len(cells)} fields, but the heading has {columns}{why if len(cells) > columns else ''}"


def read_rows(text: str, name: str, form: Form, use: Callable[[Row], T]) -> tuple[list[T], list[tuple[Row, Exception]]]:
    """What ``use`` makes of each row of a table, and the rows that it refuses; ``name`` stands in messages."""
    lines = csv.reader(io.StringIO(text))
    heading: list[str] = []
    found: list[T] = []
    skipped: list[tuple[Row, Exception]] = []
    try:
        for line in lines:
            cells = [cell.strip() for cell in line]
            if not any(cells) or cells[0].startswith("#"):
                continue
            if not heading:
                heading = form.heading(cells, f"{name}, line {lines.line_num}")
                continue
            row = Row(form, lines.line_num, heading, cells)
            try:
                row.read_numbers()
                found.append(use(row))
            except (SkipRow, ValueError) as why:
                skipped.append((row, why))
    except csv.Error as error:
        raise ValueError(f"{name}, line {lines.line_num}: {error}") from None
    if not heading:
        raise ValueError(f"{name}, line 1: the file is empty; it needs a heading and rows")
    if not found and not skipped:
        raise ValueError(f"{name}, line {lines.line_num + 1}: no rows below the heading")
    return found, skipped


def skipped_in_order(skipped: Iterable[tuple[Row, Exception]]) -> list[Skipped]:
    """Rows that were refused, by their lines."""
    order = sorted(skipped, key=lambda pair: pair[0].line)
    return [Skipped(row.name, row.source, str(why)) for row, why in order]
