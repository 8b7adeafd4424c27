"""The command ``clusterlab``, and ``python -m clusterlab``: audit, fit, predict, validate, explain.

It exits with 0, with 1 where the input cannot be used or an audit finds a gap, and with 2 where it was called wrongly;
results go to stdout, and everything else to stderr.
"""

from __future__ import annotations

import argparse
import codecs
import csv
import json
import os
import sys
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict
from importlib.resources import files
from pathlib import Path
from textwrap import dedent, fill
from typing import Any, NamedTuple

from . import __version__, economics, hardware, machine, models
from .evidence import explain, inference_validation, link_fit, validation
from .evidence.text import name_of, read_text
from .transformer import parameters

# --- audit -----------------------------------------------------------------------------------------------------------

# What builds the records of a catalogue, by the table: {table: {name: record with facts}}, or raises a ValueError that
# lists every gap.
_CATALOGUES: Mapping[str, Callable[[Mapping], Mapping[str, Mapping]]] = {
    "hardware.toml": hardware.load,
    "models.toml": lambda document: {"model": models.load(document)},
    "efficiencies.toml": machine.load,
    "economics.toml": economics.load,
}


class Value(NamedTuple):
    """A stored number: the record that it is of, and the fact that it rests on."""

    table: str
    record: Any
    field: str
    fact: hardware.Fact


def audit(text: str, *, catalogue: str | None = None) -> list[Value]:
    """Return every number of a catalogue with what it rests on.

    Parameters
    ----------
    text : str
        A TOML file in the form of ``data/hardware.toml`` or another catalogue of the library.
    catalogue : str, optional
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
    >>> value = audit((files("clusterlab") / "data" / "models.toml").read_text(encoding="utf-8"))[0]
    >>> value.record.name, value.field, value.fact.kind, value.fact.source.date
    ('GPT-2 2B', 'year', 'specified', '2020-09')
    """
    document = _parsed(text)
    load = _CATALOGUES[catalogue or _catalogue_of(document)]
    values = [
        Value(table, record, field, fact)
        for table, records in load(document).items()
        for record in records.values()
        for field, fact in record.facts.items()
    ]
    if not values:
        raise ValueError("there is no value in it")
    return values


def _shipped(catalogue: str) -> str:
    return (files(__package__) / "data" / catalogue).read_text(encoding="utf-8")


def _parsed(text: str) -> dict:
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ValueError("not a catalogue: its tables are nested too deeply") from None


def _catalogue_of(document: Mapping) -> str:
    """The catalogue with which a document has most tables in common."""
    tables = {name: tomllib.loads(_shipped(name)).keys() - {"sources"} for name in _CATALOGUES}
    nearest = max(tables, key=lambda name: len(tables[name] & document.keys()))
    if not tables[nearest] & document.keys():
        known = "; ".join(f"{name} has {', '.join(sorted(known))}" for name, known in tables.items())
        raise ValueError(f"no table of any catalogue: {known}")
    return nearest


def _audit_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", nargs="?", help="a TOML file in the form of one of them; - is standard input")
    parser.add_argument("--json", action="store_true", help="print a list of objects, one for each value")


def _run_audit(arguments: argparse.Namespace) -> int:
    """Print every value of a file, or of all catalogues; gaps go to stderr."""
    texts: dict[str, tuple[str, str | None]] = {name: (_shipped(name), name) for name in _CATALOGUES}
    if arguments.file:
        texts = {name_of(arguments.file): (read_text(arguments.file), None)}
    found, gaps = {}, []
    for name, (text, catalogue) in texts.items():
        try:
            found[name] = audit(text, catalogue=catalogue)
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


def _object(name: str, value: Value) -> dict:
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
            if isinstance(record, models.Entry):
                counted = parameters(record.shape)
                yield f"  {'counted here':<20} {counted.total:<16} active {counted.active}"
        note = f"  ({fact.note})" if fact.note else ""
        yield f"  {field:<20} {fact.printed!s:<16} {fact.kind:<9} {fact.source.title}, {fact.source.date}{note}"
    facts = [value.fact for value in values]
    kinds = ", ".join(f"{sum(fact.kind == kind for fact in facts)} {kind}" for kind in hardware.KINDS)
    checks = ", ".join(f"{sum(fact.source.checked == how for fact in facts)} {how}" for how in hardware.CHECKED)
    records = len({id(value.record) for value in values})
    yield f"\n{name}: {len(facts)} values of {records} records, every one with a source: {kinds}; source {checks}"


# --- the command -----------------------------------------------------------------------------------------------------


class Command(NamedTuple):
    """A subcommand: what it does in a line and in full, an example, and its two functions."""

    summary: str
    description: str
    example: str
    add_arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]


_COMMANDS = {
    "audit": Command(
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
        _audit_arguments,
        _run_audit,
    ),
    "fit": Command(*link_fit.FIT_HELP, link_fit.add_arguments, link_fit.run),
    "predict": Command(*link_fit.PREDICT_HELP, link_fit.add_arguments, link_fit.run),
    "validate": Command(
        "predict training or inference runs and compare with their measured times",
        "Predict published training or inference runs, or your own, and compare source by source. The columns say "
        "which: those of inference have isl, osl or context_len.",
        """\
        %(prog)s --template > mine.csv
        %(prog)s mine.csv
        %(prog)s --json - < mine.csv
        """,
        validation.add_arguments,
        inference_validation.run,
    ),
    "explain": Command(
        "show where a training run's time goes, and what could hide its difference from the prediction",
        "Show one run of a table as for validate: the parts of the predicted step, what is left to the measured time, "
        "and what could hide the difference, one change at a time. The other runs of its source (column group) tell "
        "suspects apart.",
        """\
        %(prog)s mine.csv --row run7
        %(prog)s --json mine.csv --row run7 | jq '.suspects[0].says'
        """,
        explain.add_arguments,
        explain.run,
    ),
}


def _parser(prog: str | None, commands: Iterable[str]) -> argparse.ArgumentParser:
    if prog is None:
        prog = "python -m clusterlab" if Path(sys.argv[0]).name == "__main__.py" else "clusterlab"
    text = "The laws of GPU clusters held against data: what comes with the library, and your own."
    parser = argparse.ArgumentParser(prog=prog, description=text)
    parser.add_argument("--version", action="version", version=f"clusterlab {__version__}")
    subparsers = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name in commands:
        command = _COMMANDS[name]
        one = subparsers.add_parser(
            name,
            help=command.summary,
            description=fill(command.description, 80),
            epilog="examples:\n" + "\n".join(f"  {line}" for line in dedent(command.example).splitlines()),
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        command.add_arguments(one)
        one.set_defaults(run=command.run)
    return parser


def main(argv: list[str] | None = None, *, prog: str | None = None, commands: Iterable[str] = tuple(_COMMANDS)) -> int:
    """Run a command, and answer whatever goes wrong with a line on stderr and an exit status, never a traceback."""
    codecs.register_error("clusterlab", _in_other_words)
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError):  # a notebook's streams write anything
            stream.reconfigure(errors="clusterlab")  # type: ignore[union-attr]
    try:
        try:
            arguments = _parser(prog, commands).parse_args(argv)
            return arguments.run(arguments)
        finally:
            if sys.stdout:
                sys.stdout.flush()
    except BrokenPipeError:  # head has read what it wanted; what fails has failed before the first line of a result
        _silence()
        return 0
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    except (OSError, ValueError, ArithmeticError, RecursionError, MemoryError, csv.Error) as error:
        print(str(error) or type(error).__name__, file=sys.stderr)
        with suppress(OSError):
            sys.stdout.flush()
            return 1
        _silence()
        return 1


def _in_other_words(error: UnicodeError) -> tuple[str, int]:
    """What a terminal without Unicode shows for a character that it has not."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    lost = error.object[error.start : error.end]
    return "".join({"\N{MICRO SIGN}": "u", "\N{MULTIPLICATION SIGN}": "x"}.get(sign, "?") for sign in lost), error.end


def _silence() -> None:
    """Let the interpreter flush its streams into nothing as it ends."""
    nothing = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):
            os.dup2(nothing, stream.fileno())


if __name__ == "__main__":
    sys.exit(main())
