"""``clusterlab audit``: every stored number with what it rests on."""

from __future__ import annotations

import argparse
import json
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from functools import cache
from typing import NamedTuple

from ...catalogue import CHECKED, KINDS, Component, Fact, Sourced, efficiencies, hardware, prices, stored
from ...evidence.text import name_of, read_text
from ...model import Entry, parameters, published
from ...operations.signals import read_signals
from ...planning import published as presets
from ...planning.stacks import read_stacks
from ...post_training.software import read_loops
from ...records import Json
from ..command import Command

Record = Sourced | Component | Entry
# What builds the records of a catalogue, by the table: {table: {name: record with facts}}, or raises a ValueError that
# lists every gap.
CATALOGUES: Mapping[str, Callable[[Mapping], Mapping[str, Mapping[str, Record]]]] = {
    "hardware.toml": hardware.read_hardware,
    "models.toml": lambda document: {"model": published.read_models(document)},
    "efficiencies.toml": efficiencies.read_efficiencies,
    "economics.toml": prices.read_prices,
    "planner.toml": presets.load,
    "stacks.toml": read_stacks,
    "signals.toml": read_signals,
    "loops.toml": read_loops,
}


class Value(NamedTuple):
    """A stored number: the record that it is of, and the fact that it rests on."""

    table: str
    record: Record
    field: str
    fact: Fact


def audit(text: str, *, catalogue: str | None = None) -> list[Value]:
    """Return every number of a catalogue with what it rests on.

    Parameters
    ----------
    text
        A TOML file in the form of ``data/hardware.toml`` or another catalogue of the library.
    catalogue : optional
        The file name of that catalogue; by default the one that has the same tables.

    Returns
    -------
    list of Value

    Raises
    ------
    ValueError
        With every gap found. A file without a value is one.

    Examples
    --------
    >>> from clusterlab.catalogue import stored
    >>> value = audit(stored("models.toml"))[0]
    >>> value.record.name, value.field, value.fact.kind, value.fact.source.date
    ('GPT-3 175B', 'year', 'specified', '2020-07')
    """
    document = parsed(text)
    load = CATALOGUES[catalogue or _catalogue_of(document)]
    values = [
        Value(table, record, field, fact)
        for table, records in load(document).items()
        for record in records.values()
        for field, fact in record.facts.items()
    ]
    if not values:
        raise ValueError("there is no value in it")
    return values


def parsed(text: str) -> dict[str, Json]:
    """A TOML document, or a ValueError that says why it is none."""
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ValueError("not a catalogue: its tables are nested too deeply") from None


def _catalogue_of(document: Mapping) -> str:
    """The catalogue with which a document has most tables in common."""
    tables = _tables()
    nearest = max(tables, key=lambda name: len(tables[name] & document.keys()))
    if not tables[nearest] & document.keys():
        known = "; ".join(f"{name} has {', '.join(sorted(known))}" for name, known in tables.items())
        raise ValueError(f"no table of any catalogue: {known}")
    return nearest


@cache
def _tables() -> dict[str, set[str]]:
    """The tables of each catalogue."""
    return {name: tomllib.loads(stored(name)).keys() - {"sources"} for name in CATALOGUES}


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", nargs="?", help="a TOML file in the form of one of them; - is standard input")
    parser.add_argument("--json", action="store_true", help="print a list of objects, one for each value")


def _run(arguments: argparse.Namespace) -> int:
    """Print every value of a file, or of all catalogues; gaps go to stderr."""
    texts: dict[str, tuple[str, str | None]] = {name: (stored(name), name) for name in CATALOGUES}
    if arguments.file:
        texts = {(name := name_of(arguments.file)): ((text := read_text(arguments.file)), None)}
        try:
            parsed(text)
        except ValueError as error:  # it cannot be read: no gap, but a wrong call
            raise ValueError(f"{name}: not TOML: {error}") from None
    found, gaps = {}, []
    for name, (text, known) in texts.items():
        try:
            found[name] = audit(text, catalogue=known)
        except ValueError as error:
            gaps.append(f"{name}: {error}")
    if arguments.json:
        objects = [_object(name, value) for name, values in found.items() for value in values]
        lines = [json.dumps(objects, indent=1)] if found else []
    else:
        lines = [line for name, values in found.items() for line in _report(name, values)]
    for line in gaps:
        print(line, file=sys.stderr)
    for line in lines:
        print(line)
    return 1 if gaps else 0


def _object(name: str, value: Value) -> dict[str, Json]:
    source = {f"source_{key}": text for key, text in asdict(value.fact.source).items()}
    facts = {"field": value.field, "value": value.fact.printed, "kind": value.fact.kind, "note": value.fact.note}
    return {"file": name, "table": value.table, "name": value.record.name, **facts, **source}


def _report(name: str, values: list[Value]) -> Iterator[str]:
    """Lines of a block for each record, and one that counts."""
    before = None
    for table, record, field, fact in values:
        if record is not before:
            before = record
            yield f"\n{table} {record.name}"
            if isinstance(record, Entry):
                counted = parameters(record.shape)
                yield f"  {'counted here':<20} {counted.total:<16} active {counted.active}"
        note = f"  ({fact.note})" if fact.note else ""
        yield f"  {field:<20} {fact.printed!s:<16} {fact.kind:<9} {fact.source.title}, {fact.source.date}{note}"
    facts = [value.fact for value in values]
    kinds = ", ".join(f"{sum(fact.kind == kind for fact in facts)} {kind}" for kind in KINDS)
    checks = ", ".join(f"{sum(fact.source.checked == how for fact in facts)} {how}" for how in CHECKED)
    records = len({id(value.record) for value in values})
    yield f"\n{name}: {len(facts)} values of {records} records, every one with a source: {kinds}; source {checks}"


COMMAND = Command(
    "print every stored number with what it rests on",
    "Print every number that comes with the library, of hardware, of models and of what machines reach, with its "
    "kind (specified, measured, derived, fitted, assumed) and its source. Exits with 1, and the list on stderr, "
    "where a number lacks them "
    "or a model does not add up to its published size.",
    """\
    %(prog)s
    %(prog)s mine.toml
    %(prog)s --json | jq '.[] | select(.kind == "assumed")'
    """,
    _add_arguments,
    _run,
)
