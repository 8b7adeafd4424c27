"""What every subcommand is made of, and how inputs are read that several take."""

from __future__ import annotations

import argparse
import math
import re
import sys
from collections.abc import Callable, Iterable
from typing import NamedTuple

from ..planning import ASSUMPTIONS, CENTRAL, Scenario, quantity, supposed
from ..records import Json


class Command(NamedTuple):
    """A subcommand: what it does in a line and in full, an example, and its two functions."""

    summary: str
    description: str
    example: str
    add_arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]


# Of commands that read tables of training runs.
SOFTWARE_HELP = "training stack of rows that name none: 'NeMo 25.04', 'Megatron-Core 0.12', 'FSDP', '2023'"


# --- Inputs of a plan ------------------------------------------------------------------------------------------------

AXES = ("tp", "pp", "cp", "ep", "microbatch", "chunks", "zero")
# What the inputs are called, how each is written, and what it means.
INPUTS = (
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
    ("software", "NAME", "training stack, such as 'NeMo 25.04' (any that is plausible)"),
    ("restarts", "WHO", "of a job that failed: automatic (software), or 'by hand'"),
    ("rate", "N", "serve instead: requests a second at the peak"),
    ("prompt", "N", "serve: tokens of a prompt (1000)"),
    ("output", "N", "serve: tokens of an answer (300)"),
    ("cached", "SHARE", "serve: of a prompt that a cache has already: 0.5 (0)"),
    ("speed", "N", "serve: tokens a second that a user gets at least (20)"),
    ("first-token", "TIME", "serve: within so long"),
)
KINDS = {name.replace("-", "_"): kind for name, kind, _ in INPUTS} | dict.fromkeys(AXES, "N")
_WORDS = ("model", "accelerator", "network", "precision", "software", "recompute", "restarts")
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


def read_input(key: str, value: Json) -> str | float:
    """One input as a plan takes it: a name, or a quantity in SI units."""
    if key in _WORDS:
        if not isinstance(value, str | int) or isinstance(value, bool):
            raise ValueError(f"{key} must be text, got {value!r}")
        return str(value)
    unit, example = _FORMS[kind := KINDS[key]]
    currency = r"\$?" if kind == "$" else ""
    if isinstance(value, str) and not re.fullmatch(rf"\s*[-+]?{currency}[\d.,]+(e[-+]?\d+)?\s*{unit}\s*", value):
        raise ValueError(f"{key}: cannot read {value!r}; write it as {example}")
    try:
        number = quantity(value)
    except ValueError:
        raise ValueError(f"{key}: cannot read {value!r}; write it as {example}") from None
    return number / 3600 if key == "rent" and " per " not in str(value) else number


def read_count(name: str, text: str, least: int = 1, most: int = 2**53) -> int:
    """A whole number as people write it, ``1,000`` or ``2k``: no time, no price, and none that would never end."""
    try:
        number = float(read_input("gpus", text))
    except ValueError:
        number = math.nan
    if number % 1 or not least <= number <= most:
        raise ValueError(f"{name} must be a whole number from {least:,} to {most:,}, got {text}")
    return int(number)


DRAWS = {"least": 1, "most": 100_000}  # scenarios; a plan of the most takes seconds


def scenario_of(changes: Iterable[str]) -> Scenario:
    """The central scenario with some assumptions changed, each written NAME=VALUE."""
    values = {}
    for change in changes:
        name, equals, value = change.partition("=")
        name = name.strip().replace("-", "_")
        if not equals:
            raise ValueError(f"assume must be NAME=VALUE, got {change!r}")
        if name not in ASSUMPTIONS:
            raise ValueError(f"unknown assumption {name!r}; known: {', '.join(ASSUMPTIONS)}")
        values[name] = quantity(value.strip())
    return supposed(CENTRAL, values)


# --- Progress --------------------------------------------------------------------------------------------------------


class Progress:
    """A line on stderr that says how far a search is, where somebody watches; it is gone when the search is over."""

    def __init__(self) -> None:
        self.watched = sys.stderr is not None and sys.stderr.isatty()

    def __enter__(self) -> Callable[[float, str], None] | None:
        return self._show if self.watched else None

    def __exit__(self, *_error: object) -> None:
        if self.watched:
            print("\r\033[K", end="", file=sys.stderr)

    @staticmethod
    def _show(share: float, what: str) -> None:
        print(f"\r\033[K{share:4.0%}  {what}", end="", file=sys.stderr, flush=True)
