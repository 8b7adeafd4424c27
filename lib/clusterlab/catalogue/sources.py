"""Sources: how a stored number is kept, with its kind, its source and its date, and read from a data file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Any, Self, TypeVar

import numpy as np

from ..checks import broadcastable, check
from ..quantities import Quantity, quantities_of
from ..records import Explained, Rows, Value, words
from ..units import parse

Found = TypeVar("Found")
Tables = dict[str, dict[str, Any]]  # {table: {name: record}}: those of a table are of one kind

KINDS = ("specified", "measured", "derived", "fitted", "assumed")
CHECKED = ("read", "cited", "memory")
ROLES = ("predicted", "fitted", "restated")  # what a law's agreement with a published number is worth


@dataclass(frozen=True)
class Source:
    """A document that stored numbers come from.

    ``checked`` says how: ``read`` in the document itself, ``cited`` by another text (``via``) that was read, or from
    ``memory`` of a well-known document.
    """

    title: str
    date: str
    checked: str
    url: str = ""
    document: str = ""
    via: str = ""


@dataclass(frozen=True)
class Fact:
    """One stored number: what the source prints, what kind of number it is, and where it comes from.

    A number that laws are held against says its ``role``. It is *predicted* where no constant of the laws has seen the
    publication, *fitted* where one has, and *restated* where an input or a constant of the same source comes back.
    ``by`` names what has seen it, or what comes back.
    """

    printed: str | float
    kind: str
    source: Source
    note: str = ""
    role: str = ""
    by: str = ""


_NOTHING = ("unfused", "wire", "fused")  # how the data says None: scores in memory; as fast as the wire; no cast


@dataclass(frozen=True, repr=False)
class Sourced(Explained):
    """Values by name, each with the :class:`Fact` that it rests on."""

    name: str
    facts: Mapping[str, Fact] = field(compare=False)

    def __post_init__(self) -> None:
        """Refuse switches that are neither on nor off, and what a field's quantity is not."""
        checked = {}
        for name, annotation, quantity in _fields(type(self)):  # type: ignore[arg-type]  # a class is hashable
            value = getattr(self, name)
            if annotation == "bool" and not isinstance(value, bool):
                raise ValueError(f"{name} must be True or False, got {value!r}")
            if quantity and not (value is None and annotation.endswith("| None")):
                checked[name] = check(quantity.rule, name, value)
        broadcastable(**checked)

    @classmethod
    def of(cls, name: str, facts: Mapping[str, Fact], _: Mapping | None = None) -> Self:
        """Return the record of a row: each value as :meth:`read` has it."""
        values = {key: cls.read(key, fact.printed) for key, fact in facts.items()}
        return cls(name=name, facts=MappingProxyType(facts), **values)

    @staticmethod
    def read(key: str, printed: str | float) -> Value:
        """Return a stored value as the record holds it: a switch, a share, a name, or a quantity in SI units."""
        if isinstance(printed, list | dict):
            raise ValueError(f"{key} must be one number, name or switch, got {printed!r}")
        if printed in _NOTHING:
            return None
        return parse(printed) if isinstance(printed, str) else printed

    def _rows(self) -> Rows:
        rows = [(self.name, "value", "kind", "date", "source")]
        for key, fact in self.facts.items():
            # A what-if made with dataclasses.replace must not borrow the source of the number that it replaced.
            now = getattr(self, key)
            same = np.ndim(now) == 0 and now == self.read(key, fact.printed)
            title = f"{fact.source.title} ({fact.note})" if fact.note else fact.source.title
            row = (str(fact.printed), fact.kind, fact.source.date, title)
            rows.append((words(key), *(row if same else (str(now), "changed", "", ""))))
        return rows


@cache
def _fields(record: type) -> list[tuple[str, str, Quantity | None]]:
    """The name, the annotation and the quantity of each field of a record."""
    quantities = quantities_of(record)
    return [(f.name, str(f.type), quantities.get(f.name)) for f in fields(record)]


def read_records(
    document: Mapping,
    subject: str,
    build: Mapping[str, Callable[..., Found | None]],
    faults: Callable[[dict[str, dict[str, Found]]], list[str]] = lambda _: [],
) -> dict[str, dict[str, Found]]:
    """Build the records of a parsed data file, refusing whatever rests on nothing: the base of every catalogue.

    Parameters
    ----------
    document
        A table ``sources``, and others of rows by name. A row's own ``source`` and ``kind`` hold for all its fields; a
        field written as a table may name its own.
    subject
        What the file is about, for the message.
    build
        Table to a function of name, facts and row that makes a record, or None of a row that is none.
    faults
        What is wrong with the records together: a list of lines.

    Returns
    -------
    dict
        ``{table: {name: record}}``

    Raises
    ------
    ValueError
        With every gap found: a value without a listed source, an unknown or missing field, a value that cannot be one.
    """
    gaps = [f"unknown table {name!r}" for name in document if name not in ("sources", *build)]
    sources, missing = _sources(document)
    gaps += missing
    records: dict[str, dict[str, Found]] = {}
    for table, made in build.items():
        records[table] = {}
        rows, missing = _rows_of(document, table)
        gaps += missing
        for name, row in rows.items():
            facts, missing = _facts(f"{table} {name}", row, sources)
            gaps += missing
            try:
                record = made(name, facts, row)
            except (TypeError, ValueError, OverflowError) as error:
                gaps.append(f"{table} {name}: {error}")
                continue
            if record is not None:
                records[table][name] = record
    gaps += faults(records)
    if gaps:
        raise ValueError(f"{subject} data:\n" + "\n".join(gaps))
    return records


def _rows_of(document: Mapping, table: str) -> tuple[dict[str, Mapping], list[str]]:
    """Read a table of a parsed data file: its rows by name, and the gaps found, for a row must be a table itself."""
    rows = document.get(table, {})
    if not isinstance(rows, Mapping):
        return {}, [f"{table} must be a table, got {rows!r}"]
    gaps = [
        f"{table} {name}: must be a table, got {row!r}" for name, row in rows.items() if not isinstance(row, Mapping)
    ]
    return {name: row for name, row in rows.items() if isinstance(row, Mapping)}, gaps


def _sources(document: Mapping) -> tuple[dict[str, Source], list[str]]:
    """Read the table ``sources`` of a parsed data file: the sources by key, and the gaps found."""
    sources = {}
    rows, gaps = _rows_of(document, "sources")
    for key, entry in rows.items():
        if odd := [name for name, text in entry.items() if not isinstance(text, str)]:
            gaps.append(f"source {key}: {odd[0]} must be text, got {entry[odd[0]]!r}")
            continue
        try:
            sources[key] = Source(**entry)
        except TypeError as error:
            gaps.append(f"source {key}: {error}")
            continue
        if not (entry["title"] and entry["date"]):
            gaps.append(f"source {key}: has no title or no date")
        if not (entry.get("url") or entry.get("document")):
            gaps.append(f"source {key}: has neither a url nor a document")
        if entry["checked"] not in CHECKED or (entry["checked"] == "cited" and not entry.get("via")):
            gaps.append(f"source {key}: checked must be one of {', '.join(CHECKED)}, and 'cited' names its via")
    return sources, gaps


def _facts(where: str, row: Mapping, sources: Mapping[str, Source]) -> tuple[dict[str, Fact], list[str]]:
    """Read a row of a data file: each field as a :class:`Fact`, and the gaps found."""
    facts, gaps = {}, []
    for key, entry in row.items():
        if key in ("source", "kind", "trap", "aliases"):
            continue
        entry = entry if isinstance(entry, Mapping) else {"value": entry}
        kind, source = entry.get("kind", row.get("kind")), entry.get("source", row.get("source"))
        role, by = entry.get("role", ""), entry.get("by", "")
        if unknown := set(entry) - {"value", "kind", "source", "note", "role", "by"}:
            gaps.append(f"{where}: {key} has unknown entries {', '.join(sorted(unknown))}")
        if "value" not in entry:
            gaps.append(f"{where}: {key} has no value")
        elif kind not in KINDS:
            gaps.append(f"{where}: {key} has kind {kind!r}, not one of {', '.join(KINDS)}")
        elif (role and role not in ROLES) or bool(by) != (role in ("fitted", "restated")):
            gaps.append(f"{where}: {key} must be one of {', '.join(ROLES)}, and say by what unless it is predicted")
        elif not isinstance(source, str) or source not in sources:
            gaps.append(f"{where}: {key} has no listed source (got {source!r})")
        else:
            facts[key] = Fact(entry["value"], kind, sources[source], entry.get("note", ""), role, by)
    return facts, gaps


def stored(name: str) -> str:
    """Return the text of a data file of the catalogue.

    Examples
    --------
    >>> stored("hardware.toml").splitlines()[0].startswith("#")
    True
    """
    return (files(__package__) / "data" / name).read_text(encoding="utf-8")


def find(what: str, name: str, rows: Mapping[str, Found]) -> Found:
    """Look ``name`` up in ``rows``, or raise a ValueError that says the nearest right ones."""
    if isinstance(name, str) and name in rows:
        return rows[name]
    by_folded = {known.casefold(): known for known in rows}
    folded = str(name).casefold()
    near = get_close_matches(folded, by_folded, n=3, cutoff=0.5) or [k for k in by_folded if folded and folded in k][:3]
    known = ", ".join(map(repr, rows))  # a name may hold a comma
    hint = f"did you mean {' or '.join(repr(by_folded[n]) for n in near)}?" if near else f"known: {known}"
    raise ValueError(f"unknown {what} {name!r}; {hint}")
