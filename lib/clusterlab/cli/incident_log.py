"""A log of incidents on the command line: how it is read, and how what it teaches is printed."""

from __future__ import annotations

import argparse

from ..evidence import OwnFailures, learn_incidents, parse_incidents
from ..failures import Estimate, TimeEstimate
from ..planning import CENTRAL, Scenario
from ..records import Json, aligned
from .command import read_count

_CAUSES = 10  # that are printed


def learned_from(text: str, name: str, arguments: argparse.Namespace, scenario: Scenario = CENTRAL) -> OwnFailures:
    """What a log teaches, whose GPUs and days the options say, or its columns; ``name`` stands in messages."""
    gpus = arguments.incident_gpus and read_count("incident-gpus", arguments.incident_gpus)
    days = arguments.incident_days and read_count("incident-days", arguments.incident_days)
    return learn_incidents(parse_incidents(text, name, gpus=gpus, days=days), scenario)


def incidents_told(own: OwnFailures) -> list[str]:
    """What is printed of a log, block by block: what it says in all, by cause, and what of it was not used."""
    log, (heading, *causes) = own.log, own.by_cause
    told = [f"{own.sentence}\n{aligned(own._rows())}", aligned([heading, *causes[:_CAUSES]])]
    rest = [one.incidents for one in own.causes[_CAUSES:]]
    notes = [f"{len(rest)} more causes, {sum(rest):,} incidents"] if rest else []
    if own.lost is None:
        notes.append("no line says what an incident cost: lost time stays the published one")
    if log.ignored:
        notes.append(f"columns that were not used: {', '.join(log.ignored)}")
    return told + (["\n".join([*notes, *log.unread])] if notes or log.unread else [])


def incidents_object(own: OwnFailures) -> dict[str, Json]:
    """The same as one object, in SI units, with times as lists: value, low, high."""

    def ends(one: Estimate | TimeEstimate) -> Json:
        return [float(one.value), float(one.low), float(one.high)]

    log = own.log
    return {
        "incidents": len(log.times),
        "gpus": log.gpus,
        "observed": log.observed,
        "mttf": ends(own.mttf),
        "weight_of_published": own.weight,
        "index_of_dispersion": float(own.bursts.index),
        "expected_by_published": ends(own.book),
        "lost": None if own.lost is None else ends(own.lost),
        "causes": [{"cause": c.name, "incidents": c.incidents, "mttf": ends(c.mttf)} for c in own.causes],
        "ignored": list(log.ignored),
        "unread": list(log.unread),
    }
