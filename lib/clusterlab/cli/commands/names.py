"""``clusterlab list``: what the catalogue holds, by name, with what people call it besides."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping

from ...catalogue import PRICE_LISTS, RENTS, Component, accelerators, links, nodes, racks
from ...model import parameters, transformers
from ...planning.stacks import STACKS
from ...records import Json, aligned
from ...units import fmt
from ..command import Command

Row = dict[str, str]


def _models() -> list[Row]:
    rows = []
    for shape in transformers():
        count = parameters(shape)
        active = "" if count.active == count.total else fmt(float(count.active))
        rows.append({"model": shape.name, "parameters": fmt(float(count.total)), "active": active})
    return rows


def _accelerators() -> list[Row]:
    found = []
    for one in accelerators():
        peaks = {name: fmt(one.peaks[name], "FLOP/s") if name in one.peaks else "-" for name in ("bf16", "fp8", "fp4")}
        memory = {"memory": fmt(one.hbm_capacity, "B"), "bandwidth": fmt(one.hbm_bandwidth, "B/s")}
        found.append({"accelerator": one.name, "vendor": one.vendor, "year": str(one.year), **peaks, **memory})
    return found


def _links() -> list[Row]:
    return [
        {
            "link": one.name,
            "each way": fmt(one.bandwidth, "B/s"),
            "latency": "-" if one.latency is None else fmt(one.latency, "s"),
        }
        for one in links()
    ]


def _servers() -> list[Row]:
    return [
        {
            "server": one.name,
            "accelerators": f"{one.accelerators} {one.accelerator}",
            "power": "-" if one.power is None else fmt(one.power, "W"),
        }
        for one in (*nodes(), *racks())
    ]


def _software() -> list[Row]:
    return [{"software": one.name, "since": str(one.since), "on": one.on, "also": one.names} for one in STACKS.values()]


def _prices() -> list[Row]:
    priced: Mapping[str, Component] = {**PRICE_LISTS, **RENTS}  # type: ignore[dict-item]  # both have facts
    return [
        {
            "prices": name,
            "of": "rent" if name in RENTS else "buying",
            "dated": max(fact.source.date for fact in one.facts.values()),
        }
        for name, one in priced.items()
    ]


LISTS: Mapping[str, Callable[[], list[Row]]] = {
    "models": _models,
    "accelerators": _accelerators,
    "links": _links,
    "servers": _servers,
    "software": _software,
    "prices": _prices,
}


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("what", choices=LISTS, help="what to list")
    parser.add_argument("--json", action="store_true", help="print a list of objects")


def _run(arguments: argparse.Namespace) -> int:
    rows = LISTS[arguments.what]()
    if arguments.json:
        objects: Json = [dict(row) for row in rows]
        print(json.dumps(objects, indent=1))
    else:
        left = len(rows[0]) if arguments.what == "software" else 1
        print(aligned([tuple(rows[0]), *(tuple(row.values()) for row in rows)], left))
    return 0


COMMAND = Command(
    "list what the catalogue holds",
    "List models, accelerators (peaks are dense), links (one direction), servers, training software or prices. Any "
    "case, and what people call them, is taken wherever a name is: 'h100', 'ib ndr', 'meta-llama/Llama-3.1-8B'. "
    "clusterlab audit prints each number with its source.",
    """\
    %(prog)s accelerators
    %(prog)s models --json | jq '.[].model'
    """,
    _add_arguments,
    _run,
)
