"""The command ``clusterlab``, and ``python -m clusterlab``: audit, fit, predict, validate, explain, plan, sweep.

Results go to stdout, everything else to stderr. The exit status:

- 0: done.
- 1: an audit found a gap.
- 2: it was called wrongly, or what it was given cannot be read or used, or the result cannot be written.
- 3: nothing keeps within the limits of a plan; the message names the nearest that does, where there is one.
- 130: interrupted.
"""

from __future__ import annotations

import argparse
import codecs
import csv
import json
import os
import re
import sys
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from pathlib import Path
from textwrap import dedent, fill
from typing import Any, NamedTuple

from .. import __version__, catalogue, planning
from ..catalogue import efficiencies, hardware, prices
from ..catalogue.sources import stored
from ..evidence import explain, inference_validation, link_fit, validation
from ..evidence.text import UNUSABLE, name_of, read_text
from ..model import Entry, parameters, published
from ..planning import planner
from ..records import tabulate, words
from ..units import fmt

# --- audit -----------------------------------------------------------------------------------------------------------

# What builds the records of a catalogue, by the table: {table: {name: record with facts}}, or raises a ValueError that
# lists every gap.
_CATALOGUES: Mapping[str, Callable[[Mapping], Mapping[str, Mapping]]] = {
    "hardware.toml": hardware.read_hardware,
    "models.toml": lambda document: {"model": published.load(document)},
    "efficiencies.toml": efficiencies.read_efficiencies,
    "economics.toml": prices.read_prices,
    "planner.toml": planner.load,
}


class Value(NamedTuple):
    """A stored number: the record that it is of, and the fact that it rests on."""

    table: str
    record: Any
    field: str
    fact: catalogue.Fact


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
    >>> from clusterlab.catalogue import stored
    >>> value = audit(stored("models.toml"))[0]
    >>> value.record.name, value.field, value.fact.kind, value.fact.source.date
    ('GPT-3 175B', 'year', 'specified', '2020-07')
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
    return stored(catalogue)


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
            if isinstance(record, Entry):
                counted = parameters(record.shape)
                yield f"  {'counted here':<20} {counted.total:<16} active {counted.active}"
        note = f"  ({fact.note})" if fact.note else ""
        yield f"  {field:<20} {fact.printed!s:<16} {fact.kind:<9} {fact.source.title}, {fact.source.date}{note}"
    facts = [value.fact for value in values]
    kinds = ", ".join(f"{sum(fact.kind == kind for fact in facts)} {kind}" for kind in catalogue.KINDS)
    checks = ", ".join(f"{sum(fact.source.checked == how for fact in facts)} {how}" for how in catalogue.CHECKED)
    records = len({id(value.record) for value in values})
    yield f"\n{name}: {len(facts)} values of {records} records, every one with a source: {kinds}; source {checks}"


# --- plan ------------------------------------------------------------------------------------------------------------

# What the options are called, what they are in a plan, and what they mean.
_PLAN_OPTIONS = (
    ("model", "NAME", "a model of the catalogue, such as 'Llama 3.1 405B'"),
    ("tokens", "N", "tokens to train on: 15.6T"),
    ("sequence", "N", "tokens of a sequence (8192)"),
    ("global-batch", "N", "sequences of a step (next to the critical batch)"),
    ("precision", "NAME", "of the GEMMs: bf16, fp8, fp4"),
    ("deadline", "TIME", "done within: 90d"),
    ("gpus", "N", "accelerators that work"),
    ("accelerator", "NAME", "such as 'H100 SXM' (every one with a price list)"),
    ("network", "NAME", "such as 'RoCE 400 GbE' (that of reference servers)"),
    ("budget", "$", "dollars of the run, of a year of a fleet: '$50M'"),
    ("power", "WATTS", "rating of the site at its meter: 30MW"),
    ("racks", "N", "racks that there are"),
    ("rack-power", "WATTS", "of a rack: 40kW"),
    ("servers-per-rack", "N", "servers in a rack (4)"),
    ("rent", "$", "of a GPU-hour: 2.95 (bought, where it is not given)"),
    ("spares", "N", "servers on standby (as many as the repairs need)"),
    ("storage-bandwidth", "RATE", "of the storage: 2TB/s"),
    ("memory", "BYTES", "that a layout may need on an accelerator (nine tenths of it)"),
    ("server-power", "WATTS", "of an accelerator with its share of a server"),
    ("oversubscription", "N", "of the leaves (1)"),
    ("software", "YEAR", "era of the training software (2024)"),
    ("rate", "N", "serve instead: requests a second at the peak"),
    ("prompt", "N", "serve: tokens of a prompt (1000)"),
    ("output", "N", "serve: tokens of an answer (300)"),
    ("cached", "SHARE", "serve: of a prompt that a cache has already: 0.5 (0)"),
    ("speed", "N", "serve: tokens a second that a user gets at least (20)"),
    ("first-token", "TIME", "serve: within so long"),
)
_WORDS = ("model", "accelerator", "network", "precision", "software", "recompute")
_AXES = ("tp", "pp", "cp", "ep", "microbatch", "chunks", "zero")
# How an input of each kind is written: the unit that it may have, and an example. A number alone is in SI units.
_FORMS = {
    "N": (r"[kMBT]?", "16384 or 15.6T"),
    "SHARE": (r"%?", "0.5 or 50%"),
    "$": (r"[kMBT]?( per GPU-hour)?", "$10M"),
    "TIME": (r"(ns|us|µs|ms|s|min|h|d|yr)?", "60d or 12h"),
    "WATTS": (r"[kMGT]?W?", "30MW"),
    "BYTES": (r"([kMGTPE]?B|[KMGT]iB)?", "90GB"),
    "RATE": (r"(([kMGTPE]?B|[KMGT]iB|[kMGTPE]?bit)/s)?", "2TB/s"),
}
_KINDS = {name.replace("-", "_"): kind for name, kind, _ in _PLAN_OPTIONS} | dict.fromkeys(_AXES, "N")
_SHOWN = 10  # plans to choose from, and assumptions, that are printed


def _plan_arguments(parser: argparse.ArgumentParser) -> None:
    text = "a TOML file of inputs, named as the options; - is standard input; options come before it"
    parser.add_argument("file", nargs="?", help=text)
    for name, kind, text in _PLAN_OPTIONS:
        parser.add_argument(f"--{name}", metavar=kind, help=text)
    parser.add_argument("--layout", metavar="AXES", help="fixed axes of the layout: tp=8,pp=16")
    parser.add_argument("--assume", metavar="NAME=VALUE", action="append", help="change an assumption: pue=1.1")
    names = ", ".join(f'"{name}"' for name in planning.PRESETS)
    parser.add_argument("--preset", metavar="NAME", help=f"a published cluster: {names}")
    parser.add_argument("--draws", metavar="N", default="1000", help="worlds drawn for the intervals (1000)")
    parser.add_argument("--seed", metavar="N", default="0", help="of the random numbers (0)")
    parser.add_argument("--json", action="store_true", help="print one object: parts, intervals, joints, published")
    parser.add_argument("--report", metavar="FILE.html", help="write a page that a colleague can read and check")


def _run_plan(arguments: argparse.Namespace) -> int:
    """Make a plan, print it, and write its page."""
    world = _assumed(arguments.assume or [])
    options: dict[str, Any] = {
        "world": world,
        "draws": planning.quantity(arguments.draws),
        "seed": _seed(arguments.seed),
    }
    shown = sys.stderr is not None and sys.stderr.isatty()
    options["progress"] = _show_progress if shown else None
    inputs = _inputs(arguments)
    made: planning.Plan | planning.Fleet
    try:
        if arguments.preset is not None:
            if inputs:
                raise ValueError(f"a preset says everything itself; leave out {min(inputs)}")
            made = planning.preset(arguments.preset, **options)
        elif "rate" in inputs:
            made = planning.serve(*planning.fleet_from_inputs(inputs), **options)
        else:
            made = planning.plan(*planning.from_inputs(inputs), **options)
    finally:
        if shown:
            print("\r\033[K", end="", file=sys.stderr)
    if arguments.report:
        Path(arguments.report).write_text(planning.page(made, world), encoding="utf-8")
    if arguments.json:
        print(json.dumps(planning.as_object(made, world), indent=1))
        return 0
    print(made)
    if made.binding:
        print(f"\nWhat binds\n{made.binding}")
    if made.tornado:
        print(f"\nWhat matters most, each assumption alone from end to end\n{_swings(made)}")
    if len(made.front) > 1:
        print(f"\nPlans to choose from: none is both faster and cheaper\n{_choices(made)}")
    if made.published:
        print(f"\nBeside what was published\n{_beside(made)}")
    return 0


def _choices(made: planning.Plan | planning.Fleet) -> str:
    """The front as a table: every so many of its points where there are more than a screen holds."""
    points = made.front[:: -(-len(made.front) // _SHOWN)]
    serves = isinstance(made, planning.Fleet)
    columns = {"accelerator": [one.accelerator for one in points], "GPUs": [f"{one.gpus:,.0f}" for one in points]}
    columns["a token takes" if serves else "time"] = [one.say("time") for one in points]
    columns["a year" if serves else "cost"] = [one.say("cost") for one in points]
    columns |= {"power": [one.say("power") for one in points], "racks": [f"{one.racks:,.0f}" for one in points]}
    return str(tabulate(columns))


def _swings(made: planning.Plan | planning.Fleet) -> str:
    """The widest bars of the tornado, and these as shares of the central plan."""
    bars = made.tornado[:_SHOWN]
    if isinstance(made, planning.Plan):
        paid, cost, time, timed = made.outcome.bill is not None, made.outcome.cost, made.outcome.time, "time"
    else:
        paid, cost, time, timed = made.bill is not None, made.cost, made.service.time_per_token, "a token takes"
    columns = {"": [words(bar.name) for bar in bars]}
    for name, said, unit, centre in (("time", timed, "s", time), ("cost", "cost", "$", cost)):
        if name == "time" or paid:
            ends = [sorted(getattr(bar, name)) for bar in bars]
            columns[said] = [f"{fmt(low, unit)} to {fmt(high, unit)}" if low < high else "" for low, high in ends]
            columns[f"{said}, against the plan"] = [
                f"{low / centre - 1:+.0%} to {high / centre - 1:+.0%}" if low < high else "" for low, high in ends
            ]
    return str(tabulate(columns))


def _beside(made: planning.Plan | planning.Fleet) -> str:
    """Each published number beside the plan's, and what the data say of it."""
    columns = {"": [words(one.name) for one in made.published]}
    columns["planned"] = [one.with_interval for one in made.published]
    columns["published"] = [fmt(one.published, one.unit) for one in made.published]
    columns["error"] = [f"{one.error:+.1%}" for one in made.published]
    notes = [f"{one.name.replace('_', ' ')}: {one.fact.note}" for one in made.published if one.fact.note]
    sources = sorted({one.fact.source.title for one in made.published})
    return "\n".join([str(tabulate(columns)), *notes, *(f"source: {title}" for title in sources)])


def _show_progress(share: float, what: str) -> None:
    print(f"\r\033[K{share:4.0%}  {what}", end="", file=sys.stderr, flush=True)


def _seed(text: str) -> int:
    number = planning.quantity(text)
    if number % 1 or number > 2**63:
        raise ValueError(f"seed must be a whole number, got {text}")
    return int(number)


def _assumed(changes: Iterable[str]) -> planning.World:
    """The central world with some assumptions changed."""
    values = {}
    for change in changes:
        name, equals, value = change.partition("=")
        name = name.strip().replace("-", "_")
        if not equals:
            raise ValueError(f"assume must be NAME=VALUE, got {change!r}")
        if name not in planning.ASSUMPTIONS:
            raise ValueError(f"unknown assumption {name!r}; known: {', '.join(planning.ASSUMPTIONS)}")
        values[name] = planning.quantity(value.strip())
    return replace(planning.WORLD, **values)


def _inputs(arguments: argparse.Namespace) -> dict[str, Any]:
    """Inputs of a file and of the options, by the names that a plan has for them."""
    given: dict[str, Any] = {}
    if arguments.file is not None:
        name = name_of(arguments.file)
        try:
            given |= _parsed(read_text(arguments.file))
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None
    for name, *_ in _PLAN_OPTIONS:
        value = getattr(arguments, name.replace("-", "_"))
        given |= {} if value is None else {name: value}
    given = {key.replace("-", "_"): value for key, value in given.items()}
    layout = given.pop("layout", {})
    if not isinstance(layout, Mapping):
        raise ValueError(f"layout must be a table, got {layout!r}")
    given |= layout
    for part in (arguments.layout or "").split(",") if arguments.layout else ():
        name, equals, value = part.partition("=")
        if not equals:
            raise ValueError(f"layout must be AXIS=NUMBER, got {part!r}")
        given[name.strip()] = value.strip()
    for key in given:
        if key != "recompute":
            catalogue.find("input", key, _KINDS)
    return {key: _input(key, value) for key, value in given.items()}


def _input(key: str, value):
    """One input as a plan takes it: a name, or a quantity in SI units."""
    if key in _WORDS:
        if not isinstance(value, str | int) or isinstance(value, bool):
            raise ValueError(f"{key} must be text, got {value!r}")
        return str(value)
    unit, example = _FORMS[_KINDS[key]]
    if isinstance(value, str) and not re.fullmatch(rf"\s*[-+]?\$?[\d.,]+(e[-+]?\d+)?\s*{unit}\s*", value):
        raise ValueError(f"{key}: cannot read {value!r}; write it as {example}")
    try:
        number = planning.quantity(value)
    except ValueError:
        raise ValueError(f"{key}: cannot read {value!r}; write it as {example}") from None
    return number / 3600 if key == "rent" and " per " not in str(value) else number


# --- sweep -----------------------------------------------------------------------------------------------------------


def _sweep_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--models", metavar="NAMES", required=True, help="models of the catalogue, between commas")
    parser.add_argument("--accelerators", metavar="NAMES", required=True, help="accelerators, between commas")
    parser.add_argument("--gpus", metavar="NUMBERS", required=True, help="sizes, between commas: 64,128,256")
    parser.add_argument("--tokens", metavar="N", required=True, help="tokens to train on: 15T")
    parser.add_argument("--sequence", metavar="N", help="tokens of a sequence (8192)")
    parser.add_argument("--global-batch", metavar="N", help="sequences of a step (next to the critical batch)")
    parser.add_argument("--precision", metavar="NAME", help="of the GEMMs: bf16, fp8, fp4")
    parser.add_argument("--assume", metavar="NAME=VALUE", action="append", help="change an assumption: pue=1.1")
    parser.add_argument("--draws", metavar="N", default="200", help="worlds drawn for each interval (200)")
    parser.add_argument("--folder", metavar="DIR", help="keep what is done, and go on from it")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--processes", metavar="N", help="processes of this machine (1)")
    where.add_argument(
        "--dask", metavar="ADDRESS", help="scheduler of a Dask cluster: tcp://host:8786 (needs distributed)"
    )
    parser.add_argument("--json", action="store_true", help="print a list of objects, one for each cell, not CSV")


def _run_sweep(arguments: argparse.Namespace) -> int:
    """Plan every cell of an atlas and print it."""
    shared = {"tokens": arguments.tokens, "sequence": arguments.sequence, "global_batch": arguments.global_batch}
    shared |= {"precision": arguments.precision}
    inputs = {name: _input(name, value) for name, value in shared.items() if value is not None}
    names = [name.strip() for name in arguments.models.split(",") if name.strip()]
    chips = [name.strip() for name in arguments.accelerators.split(",") if name.strip()]
    sizes = [planning.quantity(size.strip()) for size in arguments.gpus.split(",") if size.strip()]
    shown = sys.stderr is not None and sys.stderr.isatty()
    with _executor(arguments.processes, arguments.dask) as executor:
        atlas = planning.sweep(
            [{"model": name, **inputs} for name in names],
            chips,
            sizes,  # type: ignore[arg-type]  # whole numbers, which the sweep checks
            executor=executor,
            folder=arguments.folder,
            draws=planning.quantity(arguments.draws),  # type: ignore[arg-type]
            world=_assumed(arguments.assume or []),
            progress=_show_progress if shown else None,
        )
    if shown:
        print("\r\033[K", end="", file=sys.stderr)
    rows = [asdict(cell) for cell in atlas.cells]
    if arguments.json:
        plain = [{key: None if value != value else value for key, value in row.items()} for row in rows]
        print(json.dumps(plain, indent=1))
        return 0
    writer = csv.DictWriter(sys.stdout, rows[0], lineterminator="\n")
    writer.writeheader()
    writer.writerows({key: "" if value != value else value for key, value in row.items()} for row in rows)
    return 0


@contextmanager
def _executor(processes: str | None, address: str | None) -> Iterator[Executor | None]:
    """What runs a sweep: this process, others of this machine, or a Dask cluster."""
    if address is not None:
        try:
            from distributed import Client
        except ImportError:
            raise ValueError("--dask needs the package distributed: pip install 'clusterlab[dask]'") from None
        with Client(address, timeout="10s", set_as_default=False) as client, client.get_executor() as executor:
            yield executor
        return
    count = int(planning.quantity(processes)) if processes is not None else 1
    if count < 1:
        raise ValueError(f"processes must be a whole number of at least 1, got {processes}")
    if count == 1:
        yield None
        return
    with ProcessPoolExecutor(count) as executor:
        yield executor


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
        %(prog)s planned.csv --calibrate mine.csv
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
    "plan": Command(
        "plan a cluster: what to build, what it does, what it costs, how sure",
        "Plan a training run, or a fleet that serves (--rate): accelerators, layout, fabric, checkpoints, spares, "
        "power and money, with intervals and a certificate that what leaves one law is what enters the next. What is "
        "not fixed is searched. Exits with 3 where nothing keeps within the limits, and says the nearest that does.",
        """\
        %(prog)s --model "Llama 3.1 405B" --tokens 15.6T --gpus 16384 --accelerator "H100 SXM"
        %(prog)s --model "Llama 3.1 70B" --tokens 15T --deadline 60d --budget '$10M' --report plan.html
        %(prog)s --model DeepSeek-V3 --rate 500 --speed 20 --precision fp8 --json
        %(prog)s --preset "Llama 3 405B"
        """,
        _plan_arguments,
        _run_plan,
    ),
    "sweep": Command(
        "plan many models on many machines in many sizes",
        "Plan every model on every accelerator in every size, on one core, on more, or on a Dask cluster, and print "
        "a row for each. With a folder what is done is kept, and a sweep that was cut short goes on where it was.",
        """\
        %(prog)s --models "Llama 3.1 8B,Llama 3.1 70B" --accelerators "H100 SXM,GB200" --gpus 256,512,1024 --tokens 15T
        %(prog)s ... --folder atlas --processes 8 > atlas.csv
        %(prog)s ... --folder atlas --dask tcp://scheduler:8786 --json
        """,
        _sweep_arguments,
        _run_sweep,
    ),
}


def _parser(prog: str | None) -> argparse.ArgumentParser:
    if prog is None:
        prog = "python -m clusterlab" if Path(sys.argv[0]).name == "__main__.py" else "clusterlab"
    text = "The laws of GPU clusters held against data: what comes with the library, and your own."
    status = (
        "exit status: 0 done; 1 an audit found a gap; 2 called wrongly, or what was given cannot be read or used; "
        "3 no plan keeps within the limits"
    )
    parser = argparse.ArgumentParser(prog=prog, description=text, epilog=status)
    parser.add_argument("--version", action="version", version=f"clusterlab {__version__}")
    subparsers = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, command in _COMMANDS.items():
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


def main(argv: list[str] | None = None, *, prog: str | None = None) -> int:
    """Run a command, and answer whatever goes wrong with a line on stderr and an exit status, never a traceback."""
    codecs.register_error("clusterlab", _in_other_words)
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError):  # a notebook's streams write anything
            stream.reconfigure(errors="clusterlab")  # type: ignore[union-attr]
    try:
        try:
            arguments = _parser(prog).parse_args(argv)
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
        try:
            sys.stdout.flush()
        except OSError:
            _silence()
        return 3 if isinstance(error, planning.InfeasibleError) else UNUSABLE


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
