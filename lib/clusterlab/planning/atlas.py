"""Sweeps: an atlas of plans, of many models on many machines in many sizes, on one core or on many machines.

A cell is a training run, or with a ``rate`` the cheapest fleet that serves it.

:func:`sweep` cuts the atlas into chunks, and gives each to an executor as ``concurrent.futures`` has them: none (this
process), a ``ProcessPoolExecutor``, or that of a Dask client (``Client(address).get_executor()``). With a folder, what
is done is kept there, chunk by chunk, and a sweep that was cut short goes on where it was. Nothing here imports Dask.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED as FIRST
from concurrent.futures import Executor, Future, wait
from dataclasses import asdict, dataclass, fields
from functools import cache
from importlib.resources import files
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from ..catalogue import accelerator as spec
from ..checks import whole
from ..quantities import Count
from ..records import Explained, Rows, Value, frame_of, say, words
from .choice import Plan, plan
from .fleet import FLEET_METRICS, Fleet, serve
from .scenario import CENTRAL, Scenario, Serving, Site, Training, from_inputs, supposed
from .training import METRICS

if TYPE_CHECKING:
    from pandas import DataFrame

RESULTS: tuple[str, ...] = ("time", "cost", "mfu", "effective_time", "site_power", "carbon")
FLEET_RESULTS = (
    "replicas",
    "busy_gpus",
    "speed",
    "first_token",
    "site_power",
    "cost_a_year",
    "cost_of_a_million_tokens",
)


class _Planned(Explained):
    """What a cell of an atlas is, whatever was planned."""

    shown: ClassVar[Mapping[str, str]]  # unit by result
    model: str
    accelerator: str
    gpus: int
    why: str

    @property
    def feasible(self) -> bool:
        """Whether there is a plan."""
        return not self.why

    def say(self, name: str) -> str:
        """One of its results with the interval, in words; nothing where it is not known."""
        return say(self, name, self.shown[name])

    def _rows(self) -> Rows:
        rows = [("", "value"), ("model", self.model), ("accelerator", self.accelerator), ("GPUs", f"{self.gpus:,}")]
        shown = ((words(name), self.say(name)) for name in self.shown) if self.feasible else [("none", self.why)]
        return rows + [(name, text) for name, text in shown if text]


@dataclass(frozen=True, repr=False)
class Cell(_Planned):
    """One plan of an atlas: its numbers in SI units (``carbon`` in tonnes), or ``why`` there is none.

    ``low`` and ``high`` of each hold eight of ten drawn scenarios.
    """

    model: str
    accelerator: str
    gpus: int
    time: float = math.nan
    time_low: float = math.nan
    time_high: float = math.nan
    cost: float = math.nan
    cost_low: float = math.nan
    cost_high: float = math.nan
    mfu: float = math.nan
    mfu_low: float = math.nan
    mfu_high: float = math.nan
    effective_time: float = math.nan
    effective_time_low: float = math.nan
    effective_time_high: float = math.nan
    site_power: float = math.nan
    site_power_low: float = math.nan
    site_power_high: float = math.nan
    carbon: float = math.nan
    carbon_low: float = math.nan
    carbon_high: float = math.nan
    why: str = ""

    shown: ClassVar[Mapping[str, str]] = MappingProxyType({name: METRICS[name].unit for name in RESULTS})


@dataclass(frozen=True, repr=False)
class FleetCell(_Planned):
    """One fleet of an atlas, on ``gpus`` at most: its numbers in SI units, or ``why`` there is none.

    ``low`` and ``high`` of each hold eight of ten drawn scenarios.
    """

    model: str
    accelerator: str
    gpus: int
    replicas: float = math.nan
    replicas_low: float = math.nan
    replicas_high: float = math.nan
    busy_gpus: float = math.nan
    busy_gpus_low: float = math.nan
    busy_gpus_high: float = math.nan
    speed: float = math.nan
    speed_low: float = math.nan
    speed_high: float = math.nan
    first_token: float = math.nan
    first_token_low: float = math.nan
    first_token_high: float = math.nan
    site_power: float = math.nan
    site_power_low: float = math.nan
    site_power_high: float = math.nan
    cost_a_year: float = math.nan
    cost_a_year_low: float = math.nan
    cost_a_year_high: float = math.nan
    cost_of_a_million_tokens: float = math.nan
    cost_of_a_million_tokens_low: float = math.nan
    cost_of_a_million_tokens_high: float = math.nan
    why: str = ""

    shown: ClassVar[Mapping[str, str]] = MappingProxyType({name: FLEET_METRICS[name].unit for name in FLEET_RESULTS})


_Either = Cell | FleetCell


@dataclass(frozen=True, repr=False)
class Atlas(Explained):
    """The plans of a sweep, in the order of models, accelerators and sizes."""

    cells: tuple[Cell | FleetCell, ...]

    def to_frame(self) -> DataFrame:
        """A row for each cell, as a frame of pandas."""
        return frame_of(self.cells)

    def column(self, name: str) -> np.ndarray:
        """One field of every cell."""
        known = [f.name for f in fields(self.cells[0])]
        if name not in known:
            raise ValueError(f"column must be one of {', '.join(known)}; got {name!r}")
        return np.array([getattr(cell, name) for cell in self.cells])

    def _rows(self) -> Rows:
        results = ("time", "cost") if isinstance(self.cells[0], Cell) else ("replicas", "cost_a_year")
        rows = [("model", "accelerator", "GPUs", *(words(name) for name in results))]
        for cell in self.cells:
            numbers = tuple(cell.say(name) for name in results)
            rows.append((cell.model, cell.accelerator, f"{cell.gpus:,}", *(numbers if cell.feasible else ("none", ""))))
        return rows


@cache
def _rests_on() -> str:
    """A digest of the data that every plan rests on: where it changes, what is kept is of no use."""
    data = files("clusterlab.catalogue") / "data"
    names = sorted(one.name for one in data.iterdir() if one.name.endswith(".toml"))
    return hashlib.sha256(b"".join((data / name).read_bytes() for name in names)).hexdigest()


@dataclass(frozen=True)
class _Chunk:
    """Some cells of one model, and all that their plans depend on: small, and the same on every machine."""

    inputs: tuple[tuple[str, Value], ...]
    sizes: tuple[tuple[str, int], ...]  # accelerator and number
    scenario: Scenario
    draws: int
    seed: int

    @property
    def name(self) -> str:
        """A name that changes with whatever changes the result."""
        text = json.dumps([_rests_on(), self.inputs, self.sizes, [*vars(self.scenario).items()], self.draws, self.seed])
        return hashlib.sha256(text.encode()).hexdigest()[:24]

    @property
    def kind(self) -> type[Cell] | type[FleetCell]:
        """What its cells are."""
        return FleetCell if "rate" in dict(self.inputs) else Cell


def _run_on(inputs: Mapping[str, Value], accelerator: str, gpus: int) -> tuple[Training | Serving, Site]:
    """One run, or one fleet, on so many accelerators."""
    asked, site = from_inputs({**inputs, "accelerator": accelerator, "gpus": gpus})
    site.refuse_more_memory()
    return asked, site


def _made(asked: Training | Serving, site: Site, chunk: _Chunk) -> Plan | Fleet:
    """The plan of a cell."""
    if isinstance(asked, Serving):
        return serve(asked, site, scenario=chunk.scenario, draws=chunk.draws, seed=chunk.seed)
    return plan(asked, site, scenario=chunk.scenario, draws=chunk.draws, seed=chunk.seed)


def run_chunk(chunk: _Chunk) -> list[_Either]:
    """Plan every cell of a chunk: what an executor runs. A cell without a plan says why.

    Parameters
    ----------
    chunk
        As :func:`sweep` makes them.

    Returns
    -------
    list of Cell, or of FleetCell
    """
    cells: list[_Either] = []
    for accelerator, gpus in chunk.sizes:
        name = str(dict(chunk.inputs)["model"])
        try:
            asked, site = _run_on(dict(chunk.inputs), accelerator, gpus)
            name = asked.model.name
            made = _made(asked, site, chunk)
        except ValueError as error:  # of one machine or size: the others go on
            cells.append(chunk.kind(name, accelerator, gpus, why=str(error)))
            continue
        numbers = {result: made.parts[result] for result in chunk.kind.shown}
        for result in chunk.kind.shown:
            one = made.intervals.get(result)
            numbers |= {f"{result}_low": one.low, f"{result}_high": one.high} if one else {}
        cells.append(chunk.kind(name, accelerator, gpus, **numbers, why=""))
    return cells


def sweep(
    runs: Iterable[Mapping[str, Value]],
    accelerators: Sequence[str],
    sizes: Iterable[float],
    *,
    executor: Executor | None = None,
    folder: str | os.PathLike | None = None,
    draws: Count = 200,
    scenario: Scenario | None = None,
    progress: Callable[[float, str], None] | None = None,
) -> Atlas:
    """Plan every run on every accelerator in every size.

    Parameters
    ----------
    runs
        Inputs of each run as in :func:`clusterlab.planning.from_inputs`, without accelerator and gpus; each with a
        ``rate``, or none.
    accelerators
        As in :mod:`clusterlab.catalogue`.
    sizes
        Accelerators of a cluster; of a fleet at most.
    executor : optional
        What runs the chunks; this process by default.
    folder : optional
        Where what is done is kept: one file for each chunk. A sweep with the same arguments, on the same data of
        the library, reads what is there; after a change of its laws, take an empty folder.
    draws
        Scenarios drawn for each interval.
    scenario : optional
        As in :func:`clusterlab.planning.plan`; of numbers.
    progress : optional
        Called with the share that is done and a word about it.

    Returns
    -------
    Atlas
        The same, whatever ran it.

    Examples
    --------
    >>> few = {"tp": 1, "pp": 1, "cp": 1, "zero": 3}
    >>> run = {"model": "Llama 3.1 8B", "tokens": 1e12, "global_batch": 512, **few}
    >>> [cell.say("time") for cell in sweep([run], ["H100 SXM"], [64, 128], draws=10).cells]
    ['23.8 d (21.4 to 25.5)', '12.1 d (11 to 13.2)']
    """
    chunks = _chunks(runs, accelerators, sizes, draws, CENTRAL if scenario is None else scenario)
    kept = None if folder is None else Path(folder)
    if kept:
        kept.mkdir(parents=True, exist_ok=True)
    found: dict[int, list[_Either]] = {}
    for i, chunk in enumerate(chunks):
        cells = _read(kept, chunk) if kept else None
        if cells is not None:
            found[i] = cells
    left = [i for i in range(len(chunks)) if i not in found]
    if progress:
        progress(len(found) / len(chunks), f"{len(found)} of {len(chunks)} chunks are there")
    for i, cells in _run(chunks, left, executor):
        found[i] = cells
        if kept:
            _write(kept, chunks[i], cells)
        if progress:
            progress(len(found) / len(chunks), f"{len(found)} of {len(chunks)} chunks")
    return Atlas(tuple(one for i in range(len(chunks)) for one in found[i]))


_SIZES = 4  # sizes of a chunk: some seconds of work, so that sending it costs little and losing it too


def _chunks(
    runs: Iterable[Mapping[str, Value]],
    accelerators: Sequence[str],
    sizes: Iterable[float],
    draws: Count,
    scenario: Scenario,
) -> list[_Chunk]:
    counts = [int(one) for one in np.atleast_1d(whole(sizes=list(sizes) or [0])[0])]
    (number,) = whole(draws=draws)
    assumed = supposed(scenario, {name: float(value) for name, value in vars(scenario).items() if name != "own"})
    chunks: list[_Chunk] = []
    for inputs in runs:
        _refuse(inputs, accelerators, counts[0])
        for accelerator in accelerators:
            for i in range(0, len(counts), _SIZES):
                named = tuple((accelerator, n) for n in counts[i : i + _SIZES])
                chunks.append(_Chunk(tuple(sorted(inputs.items())), named, assumed, int(number), 0))
    if not chunks:
        raise ValueError("a sweep needs at least one run, one accelerator and one size")
    if len({one.kind for one in chunks}) > 1:
        raise ValueError("rate must be given for every run of a sweep, or for none")
    return chunks


def _refuse(inputs: Mapping[str, Value], accelerators: Sequence[str], gpus: int) -> None:
    """Refuse a name that nothing has, and what no accelerator can do; what one of them cannot is its row's reason."""
    refused = []
    for name in accelerators:
        spec(name)
        try:
            _run_on(inputs, name, gpus)
        except ValueError as error:
            refused.append(error)
    if refused and len(refused) == len(accelerators):
        raise refused[0]


def _run(
    chunks: Sequence[_Chunk], left: Sequence[int], executor: Executor | None
) -> Iterator[tuple[int, list[_Either]]]:
    """The chunks that are left, each as it is done. At most some hundred wait at a time."""
    if executor is None:
        for i in left:
            yield i, run_chunk(chunks[i])
        return
    waiting: dict[Future, int] = {}
    queue = list(reversed(left))
    try:
        while queue or waiting:
            while queue and len(waiting) < 256:
                i = queue.pop()
                waiting[executor.submit(run_chunk, chunks[i])] = i
            for done in wait(waiting, return_when=FIRST).done:
                yield waiting.pop(done), done.result()
    finally:
        for future in waiting:
            future.cancel()


def _read(folder: Path, chunk: _Chunk) -> list[_Either] | None:
    """What a folder holds of a chunk; None where it holds nothing whole."""
    try:
        cells = [chunk.kind(**one) for one in json.loads((folder / f"{chunk.name}.json").read_text(encoding="utf-8"))]
    except (OSError, ValueError, TypeError):
        return None
    return cells if [(one.accelerator, one.gpus) for one in cells] == list(chunk.sizes) else None


def _write(folder: Path, chunk: _Chunk, cells: list[_Either]) -> None:
    """Keep a chunk: under another name first, so that no half of it is ever read."""
    path = folder / f"{chunk.name}.json"
    part = path.with_suffix(f".{os.getpid()}.part")
    # What a cell lacks, NaN, is no JSON.
    held = [{name: value for name, value in asdict(cell).items() if value == value} for cell in cells]
    part.write_text(json.dumps(held), encoding="utf-8")
    part.replace(path)
