"""``clusterlab sweep``: many models on many machines in many sizes."""

from __future__ import annotations

import argparse
import csv
import json
import sys
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict

from ...catalogue import find
from ...planning import restarted, sweep
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

# All that a plan takes but what a sweep has many of.
_SHARED = [one for one in INPUTS if one.name not in ("model", "accelerator", "gpus")]


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--models", metavar="NAMES", required=True, help="models of the catalogue, between commas")
    parser.add_argument("--accelerators", metavar="NAMES", required=True, help="accelerators, between commas")
    parser.add_argument(
        "--gpus", metavar="NUMBERS", required=True, help="sizes, between commas: 64,128,256; of fleets at most"
    )
    for one in _SHARED:
        parser.add_argument(f"--{one.name}", metavar=one.kind, help=one.help)
    parser.add_argument("--layout", metavar="AXES", help="fixed axes of the layout: tp=8,pp=16")
    parser.add_argument("--assume", metavar="NAME=VALUE", action="append", help="change an assumption: pue=1.1")
    parser.add_argument("--draws", metavar="N", default="200", help="scenarios drawn for each interval (200)")
    parser.add_argument("--folder", metavar="DIR", help="keep what is done, and go on from it")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--processes", metavar="N", help="processes of this machine (1)")
    where.add_argument(
        "--dask", metavar="ADDRESS", help="scheduler of a Dask cluster: tcp://host:8786 (needs distributed)"
    )
    parser.add_argument("--json", action="store_true", help="print a list of objects, one for each cell, not CSV")


def _run(arguments: argparse.Namespace) -> int:
    """Plan every cell of an atlas and print it."""
    given = {one.name.replace("-", "_"): getattr(arguments, one.name.replace("-", "_")) for one in _SHARED}
    given = {name: value for name, value in given.items() if value is not None} | read_layout(arguments.layout or "")
    if ("tokens" in given) == ("rate" in given):
        raise ValueError("a sweep needs --tokens, of training runs, or --rate, of fleets that serve")
    known = {key: kind for key, kind in KINDS.items() if not ("rate" in given and key in AXES)}
    for name in given:
        if name != "recompute":
            find("input", name, known)
    inputs = {name: read_input(name, value) for name, value in given.items()}
    scenario = scenario_of(arguments.assume or [])
    if restarts := inputs.pop("restarts", ""):
        scenario = restarted(scenario, str(restarts))
    writable("folder", arguments.folder)
    models, chips, sizes = (_listed(text) for text in (arguments.models, arguments.accelerators, arguments.gpus))
    with _executor(arguments.processes, arguments.dask) as executor, Progress() as progress:
        atlas = sweep(
            [{"model": name, **inputs} for name in models],
            chips,
            [read_count("gpus", size) for size in sizes],
            executor=executor,
            folder=arguments.folder,
            draws=read_count("draws", arguments.draws, **DRAWS),
            scenario=scenario,
            progress=progress,
        )
    say_unlikely(inputs)
    rows = [asdict(cell) for cell in atlas.cells]
    if arguments.json:
        plain = [{key: None if value != value else value for key, value in row.items()} for row in rows]
        print(json.dumps(plain, indent=1))
        return 0
    writer = csv.DictWriter(sys.stdout, rows[0], lineterminator="\n")
    writer.writeheader()
    writer.writerows({key: "" if value != value else value for key, value in row.items()} for row in rows)
    return 0


def _listed(text: str) -> list[str]:
    """What stands between commas."""
    return [one.strip() for one in text.split(",") if one.strip()]


@contextmanager
def _executor(processes: str | None, address: str | None) -> Iterator[Executor | None]:
    """What runs a sweep: this process, others of this machine, or a Dask cluster."""
    if address is not None:
        try:
            from distributed import Client
        except ImportError:
            raise ValueError("--dask needs the package distributed: pip install distributed") from None
        with Client(address, timeout="10s", set_as_default=False) as client, client.get_executor() as executor:
            yield executor
        return
    count = read_count("processes", processes) if processes is not None else 1
    if count == 1:
        yield None
        return
    with ProcessPoolExecutor(count) as executor:
        yield executor


COMMAND = Command(
    "plan many models on many machines in many sizes",
    "Plan a run of every model, or a fleet that serves it (--rate), on every accelerator in every size, on one core, "
    "on more, or on a Dask cluster, and print a row for each; one without a plan says why. With a folder what is done "
    "is kept, and a sweep that was cut short goes on where it was.",
    """\
    %(prog)s --models "Llama 3.1 8B,Llama 3.1 70B" --accelerators "H100 SXM,GB200" --gpus 256,512,1024 --tokens 15T
    %(prog)s --models "Llama 3.1 70B" --accelerators "H100 SXM,H200 SXM" --gpus 64,128 --rate 50 --speed 20
    %(prog)s ... --folder atlas --processes 8 > atlas.csv
    %(prog)s ... --folder atlas --dask tcp://scheduler:8786 --json
    """,
    _add_arguments,
    _run,
)
