"""``clusterlab explain``: one run from its predicted time to its measured one, and suspects for the difference."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict

from ...evidence import Best, Explanation, best_layout, explain, parse_runs, standing
from ...evidence.outputs import JobList, Reading, read_output
from ...evidence.text import name_of, read_text
from ...parallelism import STEP_PARTS
from ...planning import not_named
from ...records import aligned
from ...units import fmt
from ..command import SOFTWARE_HELP, Command
from ..outputs import add_arguments as add_outputs
from ..outputs import as_table, refuse_given


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Say what the command takes."""
    text = "a log or a JSON of a training run, or a CSV as for validate; - is standard input"
    parser.add_argument("file", help=text)
    parser.add_argument("--row", help="the run to explain, by its row or row_id, where there is more than one")
    parser.add_argument("--software", metavar="NAME", help=SOFTWARE_HELP)
    parser.add_argument("--json", action="store_true", help="print one object")
    add_outputs(parser)


def run(arguments: argparse.Namespace) -> int:
    """Explain a run and print; return the exit status."""
    text, name = read_text(arguments.file, errors="replace"), name_of(arguments.file)
    told, output = None, read_output(text, name)
    if isinstance(output, JobList) or (output and output.kind != "training"):
        raise ValueError(f"{name} says nothing of a training run; clusterlab validate reads it")
    if isinstance(output, Reading):
        told = as_table(output, name, arguments)
    else:
        refuse_given(arguments, name, text)
    runs, skipped = parse_runs(told.table if told else text, name, software=arguments.software or None)
    for row in skipped:
        if arguments.row in (row.row, None):
            raise ValueError(f"row {row.row} can't be explained: {row.why}")
    if arguments.row is None and len(runs) > 1:
        raise ValueError(f"{name} has {len(runs)} runs; give one as --row: {', '.join(one.row for one in runs[:9])}")
    found = explain(runs, runs[0].row if arguments.row is None else arguments.row)
    place, best = standing(found.run), best_layout(found.run)
    if arguments.json:
        parts = {name: float(getattr(found.step, name)) for name in STEP_PARTS}
        times = {"measured": found.run.seconds, "predicted": float(found.step.time), "not_explained": found.gap}
        times |= {"low": float(found.step.low), "high": float(found.step.high)}
        about = {"row": found.run.row, "source": found.run.source, "runs": found.runs, "error": found.error}
        about |= {"software": _unnamed(found) or None}
        suspects = [asdict(one) | {"measure": one.measure} for one in found.suspects]
        said = (
            about
            | times
            | {"parts": parts, "suspects": suspects, "standing": asdict(place), "best": _best_object(best)}
            | ({"output": told.said} if told else {})
        )
        print(json.dumps(said, indent=1, allow_nan=False))
        return 0
    if told:
        print("\n".join(told.lines), end="\n\n")
    print(found, end="\n\n")
    if unnamed := _unnamed(found):
        print(unnamed, end="\n\n")
    print(f"{place.sentence}\n{aligned(place._rows(), left=2)}", end="\n\n")
    print(_best_said(found, best), end="\n\n")
    runs_of = "This one run" if found.runs == 1 else f"{found.runs} runs of {found.run.source}"
    print(f"{runs_of} on these chips, {found.error:.1%} off. One change at a time:\n")
    print(suspect_table(found))
    if found.runs == 1:
        print("\nOne time can't tell these apart: give more runs of the same machine (column group).", file=sys.stderr)
    return 0


def _best_said(found: Explanation, best: Best | None) -> str:
    """What the best layout of the search would give, in words."""
    if best is None:
        return "No layout of the search fits this run by the law of memory."
    axes = ", ".join(f"{name} {value}" for name, value, *_ in best.layout._rows()[1:-1])
    saved = 1 - float(best.step.time) / float(found.step.time)
    if saved < _SAME:
        return f"No layout of the search is predicted faster than this one by more than {_SAME:.0%}."
    return f"The best layout of the search, {axes}: {best.step.with_interval}, {saved:.0%} less than this one."


_SAME = 0.02  # a share of the step that no two layouts are worth changing for


def _best_object(best: Best | None) -> dict[str, object] | None:
    if best is None:
        return None
    names = ("tp", "pp", "dp", "cp", "ep", "chunks", "microbatch", "zero", "recompute")
    ends = {"predicted": float(best.step.time), "low": float(best.step.low), "high": float(best.step.high)}
    return {"layout": {name: getattr(best.layout, name) for name in names}, **ends}


def _unnamed(found: Explanation) -> str:
    ends = float(found.step.spread_low), float(found.step.spread_high)
    return "" if found.run.stack else not_named(*ends)


def suspect_table(found: Explanation) -> str:
    """Return a line for each suspect: what it says, the run's time under it, and the error of the source's runs."""
    if not found.suspects:
        return "nothing that the model knows brings its runs nearer"
    rows = [(one.says, fmt(one.time, "s"), f"{one.error:.1%}") for one in found.suspects]
    table = aligned([("suspect", "this run", "error left"), *rows]).splitlines()
    told = ["next measurement", *(one.measure for one in found.suspects)]
    return "\n".join(f"{line.ljust(max(map(len, table)))}  {text}" for line, text in zip(table, told, strict=True))


COMMAND = Command(
    "show where a training run's time goes, and what could hide its difference from the prediction",
    "Show one run, of a program's log or of a table as for validate: the parts of the predicted step, what is left to "
    "the measured time, where its MFU stands among published runs like it, what the best layout would give, and what "
    "could hide the difference, one change at a time, with the measurement that would tell. The other runs of its "
    "source (column group) tell suspects apart.",
    """\
    %(prog)s train.log --model "Llama 3.1 8B" --accelerator "H100 SXM" --gpus 64
    %(prog)s mine.csv --row run7
    %(prog)s --json mine.csv --row run7 | jq '.suspects[0].says'
    """,
    add_arguments,
    run,
)
