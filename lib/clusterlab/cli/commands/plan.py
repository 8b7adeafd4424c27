"""``clusterlab plan``: a cluster for a model."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from pathlib import Path

from ...catalogue import find
from ...evidence.text import name_of, read_text
from ...parallelism import step_kind
from ...planning import (
    PRESETS,
    Fleet,
    Plan,
    Scenario,
    Serving,
    as_object,
    from_inputs,
    not_named,
    not_timed,
    page,
    plan,
    preset,
    restarted,
    serve,
)
from ...records import Json
from ...units import fmt
from ..command import (
    AXES,
    DRAWS,
    INPUTS,
    KINDS,
    Command,
    Progress,
    read_count,
    read_input,
    read_layout,
    say_unlikely,
    scenario_of,
    writable,
)
from ..incident_log import incidents_object, incidents_told, learned_from
from .audit import parsed

_SHOWN = 10  # plans to choose from, and assumptions, that are printed


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    text = "a TOML file of inputs, named as the options; - is standard input; options come before it"
    parser.add_argument("file", nargs="?", help=text)
    for one in INPUTS:
        parser.add_argument(f"--{one.name}", metavar=one.kind, help=one.help)
    parser.add_argument("--layout", metavar="AXES", help="fixed axes of the layout: tp=8,pp=16")
    parser.add_argument("--assume", metavar="NAME=VALUE", action="append", help="change an assumption: pue=1.1")
    names = ", ".join(f'"{name}"' for name in PRESETS)
    parser.add_argument("--incidents", metavar="LOG", help="a CSV of your interruptions: time, cause, lost_hours")
    parser.add_argument("--incident-gpus", metavar="N", help="accelerators that LOG is of, where it has no column gpus")
    parser.add_argument("--incident-days", metavar="N", help="days that LOG is of, where no column says it")
    parser.add_argument("--preset", metavar="NAME", help=f"a published cluster: {names}")
    parser.add_argument("--draws", metavar="N", default="1000", help="scenarios drawn for the intervals (1000)")
    parser.add_argument("--seed", metavar="N", default="0", help="of the random numbers (0)")
    parser.add_argument("--json", action="store_true", help="print one object: parts, intervals, joints, published")
    parser.add_argument("--report", metavar="FILE.html", help="write a page that a colleague can read and check")


def _run(arguments: argparse.Namespace) -> int:
    """Make a plan, print it, and write its page."""
    writable("report", arguments.report)
    inputs = _inputs(arguments)
    scenario = scenario_of(arguments.assume or [])
    if restarts := inputs.pop("restarts", ""):
        scenario = restarted(scenario, str(restarts))
    own = None
    if arguments.incidents is not None:
        own = learned_from(read_text(arguments.incidents), name_of(arguments.incidents), arguments, scenario)
        scenario = own.scenario(scenario)
    elif arguments.incident_gpus or arguments.incident_days:
        raise ValueError("--incident-gpus and --incident-days say what a log is of; give it as --incidents LOG")
    made = _planned(arguments, inputs, scenario)
    say_unlikely(inputs)
    if arguments.report:
        Path(arguments.report).write_text(page(made, scenario), encoding="utf-8")
    if arguments.json:
        found = as_object(made, scenario) | ({} if own is None else {"incidents": incidents_object(own)})
        print(json.dumps(found, indent=1))
    else:
        print("\n\n".join([*_told(made), *([] if own is None else incidents_told(own))]))
    return 0


def _planned(arguments: argparse.Namespace, inputs: dict[str, str | float], scenario: Scenario) -> Plan | Fleet:
    """The plan that is asked for: of a preset, of a fleet that serves, or of a training run."""
    draws, seed = read_count("draws", arguments.draws, **DRAWS), read_count("seed", arguments.seed, least=0)
    with Progress() as progress:
        if arguments.preset is not None:
            if inputs:
                raise ValueError(f"a preset says everything itself; leave out {min(inputs)}")
            return preset(arguments.preset, scenario=scenario, draws=draws, seed=seed, progress=progress)
        asked, site = from_inputs(inputs)
        site.refuse_more_memory()
        if isinstance(asked, Serving):
            return serve(asked, site, scenario=scenario, draws=draws, seed=seed, progress=progress)
        return plan(asked, site, scenario=scenario, draws=draws, seed=seed, progress=progress)


def _told(made: Plan | Fleet) -> list[str]:
    """What is printed of a plan, block by block."""
    told = [str(made)]
    if isinstance(made, Plan) and (need := made.design.step.memory):
        told.append(f"Memory\n{need.with_interval} of {fmt(made.design.machine.hbm_capacity, 'B')} on an accelerator")
    if isinstance(made, Plan):
        kind = step_kind(made.training.model, made.training.precision)
        told += [flag] if (flag := not_timed(made.design.machine, kind)) else []
    if isinstance(made, Plan) and made.site.software is None:
        told.append(not_named(*made.design.step_ends))
    if made.binding:
        told.append(f"What binds\n{made.binding}")
    if made.tornado:
        table = made.tornado_table(_SHOWN)
        told.append(f"What matters most, each assumption alone from end to end\n{table}")
    if len(made.front) > 1:
        told.append(f"Plans to choose from: none is both faster and cheaper\n{made.choices(_SHOWN)}")
    if made.published:
        notes = [f"{one.name.replace('_', ' ')}: {one.fact.note}" for one in made.published if one.fact.note]
        notes += sorted({f"source: {one.fact.source.title}" for one in made.published})
        told.append("\n".join(["Beside what was published", str(made.beside_published()), *notes]))
    return told


def _inputs(arguments: argparse.Namespace) -> dict[str, str | float]:
    """Inputs of a file and of the options, by the names that a plan has for them."""
    given: dict[str, Json] = {}
    if arguments.file is not None:
        try:
            given |= parsed(read_text(arguments.file))
        except ValueError as error:
            raise ValueError(f"{name_of(arguments.file)}: {error}") from None
    for name in (one.name for one in INPUTS):
        value = getattr(arguments, name.replace("-", "_"))
        given |= {} if value is None else {name: value}
    given = {key.replace("-", "_"): value for key, value in given.items()}
    layout = given.pop("layout", {})
    if not isinstance(layout, Mapping):
        raise ValueError(f"layout must be a table, got {layout!r}")
    given |= layout
    given |= read_layout(arguments.layout or "")
    known = {key: kind for key, kind in KINDS.items() if not ("rate" in given and key in AXES)}
    for key in given:
        if key != "recompute":
            find("input", key, known)
    return {key: read_input(key, value) for key, value in given.items()}


COMMAND = Command(
    "plan a cluster: what to build, what it does, what it costs, how sure",
    "Plan a training run, or a fleet that serves (--rate): accelerators, layout, fabric, checkpoints, spares, "
    "power and money, with intervals, what binds and which assumption matters most. What is "
    "not fixed is searched. Exits with 3 where nothing keeps within the limits, and says the nearest that does.",
    """\
    %(prog)s --model "Llama 3.1 405B" --tokens 15.6T --gpus 16384 --accelerator "H100 SXM"
    %(prog)s --model "Llama 3.1 70B" --tokens 15T --deadline 60d --budget '$10M' --report plan.html
    %(prog)s --model DeepSeek-V3 --rate 500 --speed 20 --precision fp8 --json
    %(prog)s --preset "Llama 3 405B" --incidents log.csv --incident-gpus 1024 --incident-days 93
    """,
    _add_arguments,
    _run,
)
