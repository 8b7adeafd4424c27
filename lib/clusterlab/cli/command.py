"""What every subcommand is made of, and how inputs are read that several take."""

from __future__ import annotations

import argparse
import math
import re
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import ClassVar, NamedTuple

from ..catalogue import find
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


class Input(NamedTuple):
    """An input of a plan: how it is called and written, what it means, and between what it usually is."""

    name: str
    kind: str
    text: str
    usual: tuple[str, str] | None = None

    @property
    def help(self) -> str:
        """What it means, with what is usual, for argparse."""
        between = f"; {self.usual[0]} to {self.usual[1]}" if self.usual else ""
        return f"{self.text}{between}".replace("%", "%%")


INPUTS = (
    Input("model", "NAME", "a model of the catalogue, such as 'Llama 3.1 405B'"),
    Input("tokens", "N", "tokens to train on", ("1B", "100T")),
    Input("sequence", "N", "tokens of a sequence (8192)", ("512", "1M")),
    Input("global-batch", "N", "sequences of a step (next to the critical batch)", ("8", "100k")),
    Input("precision", "NAME", "of the GEMMs: bf16, fp8, fp4"),
    Input("deadline", "TIME", "done within", ("1d", "1yr")),
    Input("gpus", "N", "accelerators that work", ("1", "200k")),
    Input("accelerator", "NAME", "such as 'H100 SXM' (every one with a price list)"),
    Input("network", "NAME", "such as 'RoCE 400 GbE' (that of reference servers)"),
    Input("budget", "$", "dollars of the run, of a year of a fleet", ("$10k", "$10B")),
    Input("power", "WATTS", "rating of the site at its meter", ("10kW", "1GW")),
    Input("racks", "N", "racks that there are", ("1", "50k")),
    Input("rack-power", "WATTS", "of a rack", ("10kW", "600kW")),
    Input("servers-per-rack", "N", "servers in a rack (4)", ("1", "16")),
    Input("rent", "$", "of a GPU-hour (bought, where it is not given)", ("$0.5", "$15")),
    Input("spares", "N", "servers on standby (as many as the repairs need; none for a single server)", ("0", "2000")),
    Input("storage-bandwidth", "RATE", "of the storage", ("1GB/s", "20TB/s")),
    Input(
        "memory", "BYTES", "that a layout may need on an accelerator (nine tenths of what it has)", ("10GB", "300GB")
    ),
    Input("server-power", "WATTS", "of an accelerator with its share of a server (datasheet)", ("200W", "3kW")),
    Input("oversubscription", "N", "of the leaves: fewer switches, a longer step (1)", ("1", "8")),
    Input("software", "NAME", "training stack, such as 'NeMo 25.04' (any that is plausible)"),
    Input("restarts", "WHO", "of a job that failed: automatic (software), or 'by hand'"),
    Input("rate", "N", "serve instead: requests a second at the peak", ("0.1", "100k")),
    Input("prompt", "N", "serve: tokens of a prompt (1000)", ("10", "1M")),
    Input("output", "N", "serve: tokens of an answer (300)", ("1", "100k")),
    Input("cached", "SHARE", "serve: of a prompt that a cache has already (0)", ("0", "95%")),
    Input("speed", "N", "serve: tokens a second that a user gets at least (20)", ("5", "500")),
    Input("first-token", "TIME", "serve: within so long", ("50ms", "60s")),
)
FOR_SERVING = ("rate", "prompt", "output", "cached", "speed", "first-token")
KINDS = {one.name.replace("-", "_"): one.kind for one in INPUTS} | dict.fromkeys(AXES, "N")
_WORDS = ("model", "accelerator", "network", "precision", "software", "recompute", "restarts")
# How an input of each kind is written: the unit that it may have, and an example. A number alone is in SI units.
_FORMS = {
    "N": (r"[kMBT]?", "16384 or 15.6T"),
    "SHARE": (r"%?", "0.5 or 50%"),
    "$": (r"[kMBT]?( per GPU-hour)?", "$10M"),
    "TIME": (r"(ns|us|µs|ms|s|min|h|d|yr)", "60d or 12h or 30s, with its unit"),
    "WATTS": (r"[kMGT]?W?", "30MW"),
    "BYTES": (r"([kMGTPE]?B|[KMGT]iB)?", "90GB"),
    "RATE": (r"(([kMGTPE]?B|[KMGT]iB|[kMGTPE]?bit)/s)?", "2TB/s"),
}


def read_input(key: str, value: Json, kind: str = "") -> str | float:
    """One input as a plan takes it: a name, or a quantity in SI units; ``kind`` is of one that plans don't have."""
    if key in _WORDS:
        if not isinstance(value, str | int) or isinstance(value, bool):
            raise ValueError(f"{key} must be text, got {value!r}")
        return str(value)
    unit, example = _FORMS[kind := kind or find("input", key, KINDS)]
    currency = r"\$?" if kind == "$" else ""
    if isinstance(value, str) and not re.fullmatch(rf"\s*[-+]?{currency}[\d.,]+(e[-+]?\d+)?\s*{unit}\s*", value):
        raise ValueError(f"{key}: cannot read {value!r}; write it as {example}")
    try:
        number = quantity(value)
    except ValueError:
        raise ValueError(f"{key}: cannot read {value!r}; write it as {example}") from None
    return number / 3600 if key == "rent" and " per " not in str(value) else number


def say_unlikely(values: Mapping[str, Json], inputs: Iterable[Input] = INPUTS) -> None:
    """Say on stderr which inputs lie beyond what anybody has: a slip of the unit, most likely."""
    for one in inputs:
        value = values.get(one.name.replace("-", "_"))
        if one.usual and isinstance(value, float | int):
            low, high = (float(read_input(one.name.replace("-", "_"), end, one.kind)) for end in one.usual)
            if not low <= value <= high:
                print(f"unlikely: {one.name} is usually from {one.usual[0]} to {one.usual[1]}", file=sys.stderr)


def read_layout(text: str) -> dict[str, str]:
    """Axes of a layout as an option has them, ``tp=8,pp=16``: each once."""
    found: dict[str, str] = {}
    for part in text.split(",") if text else ():
        name, equals, value = (one.strip() for one in part.partition("="))
        if not equals or not value:
            raise ValueError(f"layout must be AXIS=NUMBER, got {part!r}")
        if name in found:
            raise ValueError(f"layout has {name} twice: {found[name]} and {value}")
        found[name] = value
    return found


def writable(option: str, path: str | None) -> str | None:
    """The path that an option names, if it names one."""
    if path is not None and not path.strip():
        raise ValueError(f"--{option} must name a file, got an empty text")
    return path


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

    shows: ClassVar[bool] = False  # whether one is under way, which tells more than a clock

    def __init__(self) -> None:
        self.watched = sys.stderr is not None and sys.stderr.isatty()

    def __enter__(self) -> Callable[[float, str], None] | None:
        Progress.shows = True
        return self._show if self.watched else None

    def __exit__(self, *_error: object) -> None:
        Progress.shows = False
        if self.watched:
            print("\r\033[K", end="", file=sys.stderr)

    @staticmethod
    def _show(share: float, what: str) -> None:
        print(f"\r\033[K{share:4.0%}  {what}", end="", file=sys.stderr, flush=True)


class Waiting:
    """A line on stderr that says how long a command works, where somebody watches and more than two seconds pass."""

    first: ClassVar[float] = 1.0  # seconds before anything is said: with those of the start, some two

    def __init__(self, what: str) -> None:
        self.what, self.done = what, threading.Event()
        self.watched = sys.stderr is not None and sys.stderr.isatty()

    def __enter__(self) -> None:
        if self.watched:
            threading.Thread(target=self._count, daemon=True).start()

    def _count(self) -> None:
        seconds = self.first
        while not self.done.wait(self.first if seconds == self.first else 1.0):
            if not Progress.shows:
                print(f"\r\033[K{seconds:>4.0f} s  {self.what}", end="", file=sys.stderr, flush=True)
            seconds += 1

    def __exit__(self, *_error: object) -> None:
        self.done.set()
        if self.watched:
            print("\r\033[K", end="", file=sys.stderr, flush=True)
