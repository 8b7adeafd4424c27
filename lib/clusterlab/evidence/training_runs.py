"""Training runs: published ones, or a reader's own, read from a table as what the model of a step takes.

:func:`published_runs` and :func:`read_runs` turn rows into records of type :class:`Run`; :func:`predict_run` and
:func:`predict_runs` predict their steps with :func:`clusterlab.parallelism.step`. A row that cannot be predicted is
named, with the reason. :mod:`clusterlab.evidence.validation` holds predictions against measurements.

What a row leaves open is filled in by rules that are the same for every row, and ``Run.filled`` says what and why. The
era of the software follows from the year that the source names, or from NVIDIA's container, the accelerator and the
precision. What people tune and did not publish (microbatch, interleaving since 2023, the split into tensor, pipeline
and expert ranks) is taken as the fastest that fits in memory. Interleaving before 2023 and recomputation since then are
off unless published; before, recomputation is full. Weights are sharded where a copy and its optimizer do not fit. TPU
programs shard weights, recompute what does not fit, have no pipeline, and count the batch by the chip. Where a rate is
published, so that the batch hardly matters, a missing batch is what was usual (``BATCH_TOKENS``, ``CHIP_BATCH``), a
missing sequence too.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from difflib import get_close_matches
from functools import cache, lru_cache
from importlib.resources import files
from itertools import product
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from .. import catalogue
from ..catalogue import SOFTWARE, Machine, Software, machine
from ..model import (
    PRECISIONS,
    Entry,
    Layout,
    Recurrent,
    Transformer,
    Workload,
    match_model,
    normalize_name,
    parameters,
    training_flops,
    transformer,
    transformers,
)
from ..parallelism import Step, footprint, step
from ..units import TFLOP, fmt
from .text import name_of, read_text

SHAPE = ("layers", "hidden", "heads", "kv_heads", "ffn", "vocab")
LAYOUT = ("seq", "n_gpus", "gpus_per_node", "tp", "pp", "dp", "cp", "ep", "vpp", "micro_batch", "global_batch")
MEASURES = ("step_time_s", "tokens_per_s_per_gpu", "hw_tflops_per_gpu", "model_tflops_per_gpu", "hfu_pct", "mfu_pct")
TEXT = ("row_id", "group", "model", "gpu", "fsdp", "recompute", "seq_parallel", "precision")
NOTES = ("metric_note", "derived", "source", "source_loc", "source_check", "quality", "role")
NUMBERS = ("params_b", "active_params_b", *SHAPE, *LAYOUT, *MEASURES, "mfu_peak_tflops")
COLUMNS = (*TEXT, *NUMBERS, *NOTES)
REQUIRED = ("model", "gpu", "n_gpus")


class _Skip(Exception):  # noqa: N818, it is no error
    """Why a row cannot be predicted."""


@dataclass(frozen=True, eq=False)
class Run:
    """One run: what :func:`clusterlab.parallelism.step` takes, and the measured seconds of a step.

    ``filled`` names what the row leaves open, the value taken and why: ``{"microbatch": "2 (fastest that fits)"}``.
    ``role`` is that of its source, as the table has it: constants were fitted to published runs that are ``"given"``,
    and none to those that are ``"held"``.
    """

    row: str
    source: str
    model: Transformer
    machine: Machine
    workload: Workload
    layout: Layout
    software: Software
    seconds: float
    filled: Mapping[str, str]
    role: str = ""


@dataclass(frozen=True)
class Skipped:
    """A row that cannot be predicted, and why."""

    row: str
    source: str
    why: str


# --- Reading a table -------------------------------------------------------------------------------------------------


@cache
def published_runs() -> tuple[tuple[Run, ...], tuple[Skipped, ...]]:
    """Return the runs that come with the library, and the rows that cannot be predicted.

    Examples
    --------
    >>> runs, skipped = published_runs()
    >>> len({run.source for run in runs}) > 15
    True
    """
    runs, skipped = read_runs(files("clusterlab.evidence") / "data" / "training_throughput.csv")
    return tuple(runs), tuple(skipped)


def read_runs(path) -> tuple[list[Run], list[Skipped]]:
    """Read a table of runs.

    Parameters
    ----------
    path : path-like
        A CSV file with columns from ``COLUMNS``, in any case: those of ``REQUIRED`` and one of ``MEASURES`` at least.
        ``"-"`` is standard input. An empty cell, ``N/A``, ``-`` and ``null`` mean not published; lines that begin with
        ``#`` are comments. Without ``row_id`` a row is called by its line, without ``group`` its source is ``"runs"``.

    Returns
    -------
    tuple of list
        The runs, and the rows that cannot be predicted.

    Raises
    ------
    OSError
        The file cannot be read.
    ValueError
        It is not text, is empty, or has a heading with a column that is unknown, missing or there twice.
    """
    return parse_runs(read_text(path), name_of(path))


def parse_runs(text: str, name: str) -> tuple[list[Run], list[Skipped]]:
    r"""Read the text of a table, as :func:`read_runs`; ``name`` stands in messages.

    Examples
    --------
    >>> head = "model,gpu,n_gpus,tp,pp,global_batch,seq,step_time_s"
    >>> (run,), _ = parse_runs(f"{head}\nGPT 175B,A100,64,8,8,64,2048,13.75", "mine.csv")
    >>> run.seconds
    13.75
    """
    lines = csv.reader(io.StringIO(text))
    heading, rows, skipped = [], [], []
    try:
        for cells in lines:
            cells = [cell.strip() for cell in cells]
            if not any(cells) or cells[0].startswith("#"):
                continue
            if not heading:
                heading = _heading(cells, f"{name}, line {lines.line_num}")
                continue
            row = _Row(lines.line_num, heading, cells)
            try:
                rows.append(_open_row(row))
            except (_Skip, ValueError) as why:
                skipped.append((row, why))
    except csv.Error as error:
        raise ValueError(f"{name}, line {lines.line_num}: {error}") from None
    if not heading:
        raise ValueError(f"{name}, line 1: the file is empty; it needs a heading and rows")
    if not rows and not skipped:
        raise ValueError(f"{name}, line {lines.line_num + 1}: no rows below the heading")
    runs = []
    for found in _close_rows(rows):
        (skipped if isinstance(found, tuple) else runs).append(found)
    order = sorted(skipped, key=lambda pair: pair[0].line)
    return runs, [Skipped(row.name, row.source, str(why)) for row, why in order]


_ALIASES = {
    "global_batch": "batch batch_size global_batch_size gbs sequences_per_step",
    "micro_batch": "microbatch micro_batch_size mbs microbatch_size device_batch",
    "seq": "sequence seq_len seqlen seq_length sequence_length context context_length",
    "n_gpus": "gpus num_gpus gpu_count world_size accelerators chips",
    "gpu": "accelerator gpu_type chip device",
    "tokens_per_s_per_gpu": "tokens/s tokens_per_s tokens_per_second tokens/s/gpu tps tgs throughput",
    "step_time_s": "step_time time time_s seconds iteration_time iter_time s/step",
    "mfu_pct": "mfu",
    "hfu_pct": "hfu",
    "model_tflops_per_gpu": "tflops tflops_per_gpu tflop/s tflop/s/gpu",
    "params_b": "params parameters size size_b",
    "precision": "dtype",
    "fsdp": "zero zero_stage sharding",
    "recompute": "activation_checkpointing checkpointing remat recomputation",
    "seq_parallel": "sequence_parallel sp",
    "vpp": "chunks virtual_stages interleaving",
    "gpus_per_node": "node_size gpus/node",
    "row_id": "id row run",
    "model": "name model_name",
    "layers": "n_layers num_layers",
    "hidden": "hidden_size d_model",
    "heads": "n_heads num_heads",
}
_ALIASES = {alias: name for name, aliases in _ALIASES.items() for alias in aliases.split()}


def _heading(cells: list[str], where: str) -> list[str]:
    """The names of the columns, or a ValueError."""
    written = len(cells)
    while not cells[-1]:  # commas at the end
        cells = cells[:-1]
    if len(cells) == 1 and re.search(r"[;\t]", cells[0]):
        raise ValueError(f"{where}: columns must be separated by commas, got {cells[0]!r}")
    names = [re.sub(r"[\s-]+", "_", cell.casefold()) for cell in cells]
    if unknown := [(cell, name) for cell, name in zip(cells, names, strict=True) if name not in COLUMNS]:
        hints = {}
        for cell, name in unknown:
            near = [_ALIASES[name]] if name in _ALIASES else get_close_matches(name, COLUMNS, n=1, cutoff=0.6)
            hints |= dict.fromkeys([f"{cell!r}: did you mean {near[0]}?"] if near else [])
        known = [] if len(hints) == len(unknown) else [f"known: {', '.join(COLUMNS)}"]
        raise ValueError(
            f"{where}: unknown columns {', '.join(repr(cell) for cell, _ in unknown)}; {'; '.join([*hints, *known])}"
        )
    if twice := {name for name in names if names.count(name) > 1}:
        raise ValueError(f"{where}: columns there twice: {', '.join(sorted(twice))}")
    if missing := [name for name in REQUIRED if name not in names]:
        raise ValueError(f"{where}: missing columns {', '.join(missing)}")
    if not set(MEASURES) & set(names):
        raise ValueError(f"{where}: no column with a measurement; it needs one of {', '.join(MEASURES)}")
    return names + [""] * (written - len(names))


class _Row:
    """A row of the table: its cells as text and as numbers (None: not published), and what gets filled in for them."""

    def __init__(self, line: int, heading: list[str], cells: list[str]) -> None:
        self.line, self.filled = line, {}
        columns = len(heading) - heading.count("")
        self.complete = len(cells) in (columns, len(heading)) and not any(cells[columns:])
        self.fields = f"{len(cells)} fields, but the heading has {columns}"
        if len(cells) > columns:  # dropping the last could hide that "1,024" moved all behind it
            self.fields += "; a cell with a comma in it needs quotes" if any(cells[columns:]) else "; a comma too many?"
        self.text = dict.fromkeys(COLUMNS, "") | dict(zip(heading, cells, strict=False))
        for name in TEXT:
            if self.text[name].casefold() in _EMPTY - {"none"}:
                self.text[name] = ""
        self.numbers: dict[str, float | None] = {}
        self.name, self.source = self.text["row_id"] or f"line {line}", self.text["group"] or "runs"

    def __getitem__(self, name: str) -> float | None:
        return self.numbers[name]

    def read_numbers(self) -> None:
        """Read every number, or raise a ValueError; it names the line where the row's name does not."""
        where = f"line {self.line}: " if self.text["row_id"] else ""
        if not self.complete:
            raise ValueError(f"{where}{self.fields}")
        self.numbers = dict.fromkeys(NUMBERS)
        try:
            self.numbers |= {name: _number(name, text) for name in NUMBERS if (text := self.text[name])}
        except ValueError as error:
            raise ValueError(f"{where}{error}") from None


_EMPTY = {"n/a", "na", "#n/a", "-", "--", "null", "none"}
_COUNTS = {*SHAPE, *LAYOUT}
# Far above anything real, and far below where a double overflows.
_MOST = dict.fromkeys(NUMBERS, 1e12) | dict.fromkeys(_COUNTS, 1e9) | {"params_b": 1e6, "active_params_b": 1e6}
_THOUSANDS = re.compile(r"\d{1,3}(,\d{3})+(\.\d+)?")


def _number(name: str, text: str) -> float | None:
    """A cell of numbers, or a ValueError that says what is allowed."""
    if text.casefold() in _EMPTY:
        return None
    digits = text
    if _THOUSANDS.fullmatch(text):
        if name not in _COUNTS and text.count(",") == 1 and "." not in text:
            raise ValueError(f"{name} may be {text.replace(',', '')} or {text.replace(',', '.')}, got {text!r}")
        digits = text.replace(",", "")
    try:
        value = float(digits)
    except ValueError:
        raise ValueError(f"{name} must be a number, got {text!r}") from None
    if not 0 < value < np.inf:
        raise ValueError(f"{name} must be above zero and finite, got {text!r}")
    if name.endswith("_pct") and value > 100:
        raise ValueError(f"{name} must be at most 100, got {text!r}")
    if name.endswith("_pct") and value <= 1:
        raise ValueError(f"{name} must be in percent, above 1; is {text} a share, {100 * value:g} %?")
    if name in _COUNTS and value % 1:
        raise ValueError(f"{name} must be a whole number, got {text!r}")
    least = 1 if name in _COUNTS else 1e-3 if name.startswith(("params", "active")) else 1e-9
    if not least <= value <= _MOST[name]:
        raise ValueError(f"{name} must be from {least:g} to {_MOST[name]:g}, got {text!r}")
    return value


# --- What a row names: machine, model, precision, software -----------------------------------------------------------


def _machine(row: _Row) -> Machine:
    """The accelerator that a row names. "2.4TB/s" and "500 W cap" in the name change its memory and its clock."""
    text = row.text["gpu"].casefold()
    chip = catalogue.match_accelerator(text)
    if chip is None:
        raise _Skip(f"no data on the accelerator {row.text['gpu']!r}")
    gpus, host, domain = row["n_gpus"], row["gpus_per_node"], None
    if gpus and host and gpus > host and gpus % host:
        raise _Skip(f"gpus_per_node must divide n_gpus, or be no less; got {host:g} and {gpus:g}")
    # A rack or a pod is one domain however many of its accelerators share a host.
    if (chip.scale_up_domain or 1) <= 16:
        domain = int(host) if host else None
        if not host and gpus and chip.scale_up_domain and gpus > chip.scale_up_domain:
            row.filled["gpus_per_node"] = f"{chip.scale_up_domain} (reference server)"
    if chip.name.startswith("TPU") and (slices := _slices(row)) > 1:
        domain = max(int((gpus or 1) / slices), 1)
    bandwidth, cap = re.search(r"(\d+(?:\.\d+)?) ?tb/s", text), re.search(r"(\d+) ?w cap", text)
    return _machine_of(
        chip.name, domain, float(bandwidth[1]) * 1e12 if bandwidth else None, float(cap[1]) if cap else 0
    )


@lru_cache(maxsize=1024)
def _machine_of(name: str, domain: int | None, bandwidth: float | None, cap: float) -> Machine:
    """One record for all rows that name it, so that they can be told to be alike by what they share."""
    found, tdp = machine(name, domain=domain), catalogue.accelerator(name).tdp
    if bandwidth:
        found = replace(found, hbm_bandwidth=bandwidth)
    if cap and tdp:
        slower = min(cap / tdp, 1.0) ** (1 / 3)  # dynamic power goes as the cube of the clock
        found = replace(found, peaks={precision: peak * slower for precision, peak in found.peaks.items()})
    return found


def _slices(row: _Row) -> int:
    """The slices of a TPU run, "2x v5e-256": wires between chips end at the slice, the data centre's network begins."""
    found = re.search(r"\b(\d+) ?x ?v\d\w*-\d+", f"{row.text['gpu']} {row.text['metric_note']}".casefold())
    return int(found[1]) if found else 1


# Words around the name of a model that do not change its shape.
_AROUND = re.compile(
    r"PTD-P|ZeRO-3|\b(meta|nvidia|google|instruct|base|chat|hf|llm|pre-?train(ing)?|dense|maxtext|model|moe)\b|-v\d\.\d",
    re.IGNORECASE,
)
_OTHER_NAMES = {"nemotron 15b": "Nemotron-4 15B", "nemotron 340b": "Nemotron-4 340B", "nemotron 8b": "Nemotron-3 8B"}
_OTHER_NAMES |= {"nemotron 22b": "Nemotron-3 22B", "gpt-neox": "GPT-NeoX-20B", "llama 3.3 70b": "Llama 3.1 70B"}
_OTHER_NAMES |= {"deepseek r1": "DeepSeek-V3", "llama 30b": "LLaMA 33B", "palm": "PaLM 540B", "mt-nlg": "MT-NLG 530B"}
_OTHER_NAMES |= {"deepseek-v2": "DeepSeek-V2 236B", "bloom": "BLOOM 176B", "gpt-3": "GPT-3 175B"}
_OTHER_NAMES = {normalize_name(name): known for name, known in _OTHER_NAMES.items()}


@lru_cache(maxsize=4096)
def _in_catalogue(written: str, shape: tuple, size: float | None) -> Entry | None:
    """A model of the catalogue, by its name with and without what stands around it; its shape and size must agree."""
    given = dict(shape)
    whole = written.split("/")[-1] if written.count("/") == 1 and " " not in written else written
    short = re.sub(r"\(.*?\)", "", whole).strip()
    bare = [_AROUND.sub("", name).strip(" -_") for name in (short, whole)]
    # "Grok-1 314B": a size behind the name, which must be that of the row, if it has one.
    found = re.fullmatch(r"(.*?)[ _-]+(\d+(?:\.\d+)?)B", bare[0], re.IGNORECASE)
    if found and 0.75 < float(found[2]) / (size or float(found[2])) < 1.25:
        bare, size = [*bare, found[1]], size or float(found[2])
    guesses = [short, whole, *bare, *(_OTHER_NAMES.get(normalize_name(name), "") for name in bare)]
    guesses += [*(f"{name} (Megatron-Core)" for name in bare), *(f"MaxText {name}" for name in bare)]
    for known in filter(None, map(match_model, guesses)):
        agrees = {key: given[key] == getattr(known.shape, key) for key in ("layers", "hidden", "heads") if key in given}
        if not agrees and size:
            agrees["size"] = _near(known.shape, size)
        if all(agrees.values()):
            return known
        if agrees.keys() & {"layers"} and all(agree for key, agree in agrees.items() if key != "layers"):
            # A proxy: some of the layers of a known model.
            proxy = replace(known.shape, layers=given["layers"])
            if given["layers"] < known.shape.layers and (len(agrees) > 1 or (size and _near(proxy, size))):
                return replace(known, shape=proxy)
    return None


def _near(shape: Transformer, size: float) -> bool:
    """Whether a shape has that many billion parameters, within a quarter."""
    return bool(0.75 < parameters(shape).total / (size * 1e9) < 1.25)


def _model(row: _Row) -> Transformer:
    """The model that a row names, from the catalogue, or one made of its shape, or of its size."""
    shape = tuple((key, int(row[key])) for key in SHAPE if row[key] is not None)
    found, note = _model_of(row.text["model"], shape, row["params_b"], row["active_params_b"], row["tp"] or 1)
    if note:
        row.filled["model"] = note
    return found


@lru_cache(maxsize=4096)
def _model_of(
    written: str, shape: tuple, size: float | None, active: float | None, tp: float
) -> tuple[Transformer, str]:
    """A model, and what is filled in for it.

    Of published dense models hidden is about 100 layers, so that 12 layers hidden^2 is their size; heads have 128, and
    are a multiple of the tensor-parallel ranks.
    """
    given = dict(shape)
    if known := _in_catalogue(written, shape, size):
        vocab, layers = given.get("vocab", known.shape.vocab), transformer(known.name).layers
        proxy = f"{known.shape.layers} of the {layers} layers of {known.name}" if known.shape.layers < layers else ""
        return known.shape if vocab == known.shape.vocab else replace(known.shape, vocab=vocab), proxy
    if active and active != size:
        raise _Skip(f"{written} is a mixture of experts that the catalogue lacks")
    lacking = [key for key in ("layers", "hidden", "heads") if key not in given]
    if lacking and not size:
        raise _Skip(f"the catalogue lacks {written}, and the row its {', '.join(lacking)}{_nearest(written)}")
    if lacking:
        params = size * 1e9
        cubic = (params / 12e4) ** (1 / 3)
        layers = given.get("layers") or max(
            round(params / 12 / given["hidden"] ** 2 if "hidden" in given else cubic), 1
        )
        hidden = given.get("hidden") or 1024 * max(round((params / 12 / layers) ** 0.5 / 1024), 1)
        given = {"layers": layers, "hidden": hidden, "heads": int(tp * max(round(hidden / 128 / tp), 1))} | given
    note = (
        [f"{given['layers']} layers of hidden {given['hidden']}, the usual shape of {size:g} billion"]
        if lacking
        else []
    )
    given = {"ffn": 4 * given["hidden"], "vocab": 50304} | given
    if given["hidden"] % given["heads"]:
        given["head_dim"] = 128
    options = [{"gated": gated, "tied": tied} for gated in (False, True) for tied in (True, False)]
    if size:  # whether gated and tied: what comes nearest to the published size
        options.sort(key=lambda o: abs(parameters(Transformer(**given, **o)).total - size * 1e9))
    if other := _in_catalogue(written, (), None):
        why = f"size of {parameters(other.shape).total / 1e9:.3g} billion" if lacking else "shape"
        note.append(f"not {other.name} of the catalogue with its {why}")
    return Transformer(**given, **options[0], name=written), ", ".join(note)


@lru_cache(maxsize=4096)
def _nearest(written: str) -> str:
    """A hint where a model of the catalogue has nearly that name."""
    names = {normalize_name(model.name): model.name for model in transformers()}
    near = get_close_matches(normalize_name(written), names, n=2, cutoff=0.8)
    return f"; did you mean {' or '.join(repr(names[name]) for name in near)}?" if near else ""


_PRECISIONS = (
    ("fp4", "fp4"),
    ("fp8.*row|row.*fp8", "fp8-row"),
    ("fp8|float8|e4m3", "fp8"),
    ("int8", "int8"),
    ("(?<!b)(fp16|float16)|half", "fp16"),
    ("bf16|bfloat16|^$|not stated|mixed|^amp$", "bf16"),
)


def _precision(row: _Row, machine: Machine) -> str:
    text = row.text["precision"].casefold()
    name = next((name for pattern, name in _PRECISIONS if re.search(pattern, text)), None)
    if name is None:
        raise _Skip(f"no data on the precision {row.text['precision']!r}")
    if name == "bf16" and "bf16" not in machine.peaks:
        name = "fp16"
    if PRECISIONS[name][0] not in machine.peaks:
        raise _Skip(f"no {name} peak of {machine.name}")
    if not re.search(r"\d", text):
        row.filled["precision"] = f"{name} (usual)"
    return name


# Stacks by what a source calls them. PyTorch's FSDP and Megatron-Core's release 0.8 are the rows of their years.
_STACKS = (
    (r"megatron.?bridge|\bnemo\b(?!.{0,12}automodel)", "NeMo"),
    (r"torchtitan", "torchtitan"),
    (r"llm.?foundry|mosaic", "2023"),
)


def _software(row: _Row, machine: Machine, precision: str, model: Transformer) -> Software:
    """The stack that the source names, else the era: by its latest year, else by the precision and the accelerator.

    The compiler of TPUs overlapped, fused and sharded from the start.
    """
    if machine.name.startswith("TPU"):
        return SOFTWARE["MaxText"]
    text = f"{row.text['source']} {row.text['source_loc']}"
    stack = next((name for pattern, name in _STACKS if re.search(pattern, text, re.IGNORECASE)), None)
    if stack == "NeMo":
        # NVIDIA's containers from June 2026 on fuse experts in 8 and 4 bits on racks of Blackwell and hide all-to-alls,
        # but not in recipes of hybrids, whose graphs hold mixers and routers alone and which set no tp_comm_overlap
        # (nemotron_3_workload_base_configs.py, recipes/nemotronh).
        container = max(
            re.findall(r"\b(?:section|container) (\d\d\.\d\d)", f"{text} {row.text['metric_note']}"), default=""
        )
        if container >= "26.06" and PRECISIONS[precision][1] < 2 and machine.domain > 16 and not model.count(Recurrent):
            stack = "NeMo 26.06"
    if stack:
        row.filled["software"] = f"{stack} (of the source)"
        if stack == "NeMo" and model.count(Recurrent):
            return replace(SOFTWARE[stack], tensor_overlap_forward=False, tensor_overlap_backward=False)
        return _switched(stack, tuple(bool(re.search(switch, row.text["metric_note"])) for switch in _SWITCHES))
    years = [2000 + int(year) for year in re.findall(r"arXiv:(\d\d)\d\d\.", text)]
    years += [int(year) for year in re.findall(r"(?<!\d)(20[12]\d)(?:\d\d)?(?!\d)", text)]
    generation = machine.efficiency.generation
    if years:
        year = max(years)
    elif generation == "Volta" or (precision == "fp16" and generation == "Ampere"):
        year = 2022
    else:  # "amp" is PyTorch's automatic mixed precision
        year = 2023 if row.text["precision"].startswith("amp") or generation == "Ampere" else 2024
    era = str(min(max(year, 2021), 2024))
    row.filled["software"] = f"{era} ({'year of the source' if years else 'usual for accelerator and precision'})"
    return SOFTWARE[era]


# What a recipe switches, by what the note of a row calls it: tensor parallelism cut into pieces, which travel while
# others are multiplied; all-to-alls behind another microbatch; a copy of a token for each of its experts.
_SWITCHES: dict[str, dict[str, bool]] = {
    "(?i:async)": {"tensor_overlap_forward": True, "tensor_overlap_backward": True},
    "moe_a2a_overlap": {"expert_overlap": True},
    "alltoall dispatcher": {"tokens_cross_once": False},
}


@cache
def _switched(stack: str, switches: tuple[bool, ...]) -> Software:
    """The stack with what a row switches."""
    changes: dict[str, bool] = {}
    for on, change in zip(switches, _SWITCHES.values(), strict=True):
        changes |= change if on else {}
    return replace(SOFTWARE[stack], **changes) if changes else SOFTWARE[stack]


def _year(software: Software) -> int:
    """The year of an era; stacks with a name are of 2024 and later."""
    return int(software.name) if software.name.isdecimal() else 2024


def _allowed(row: _Row, column: str, allowed: str) -> _Skip:
    """A text that no rule reads: using it as the usual one would be a silent fallback."""
    return _Skip(f"{column} must be {allowed}, or empty; got {row.text[column]!r}")


def _sharding(row: _Row, machine: Machine, software: Software, *, staged: bool) -> tuple[list[int], float | None]:
    """ZeRO stages that the row allows, the likeliest first, and the ranks that share if it says how many.

    FSDP in a pipeline takes the time of stage 1: weights stay gathered, and gradients are added up whole and leave with
    the last microbatch. Source: PyTorch, ``torch.distributed.pipelining.stage``; torchtitan reshards only without one.
    """
    text = row.text["fsdp"].casefold()
    usual, ranks = 1 if software.data_overlap else 0, int(text) if text.isdecimal() else 0
    if staged and (re.search(r"fsdp|not reshard|grad.op", text) or ranks > 1):
        return [1], None
    if ranks > 1:
        return [3], float(ranks)
    if text in ("0", "no", "none", "false", "off") or re.search(r"\bddp\b|replicated", text):
        return [usual], None
    if text == "1" and software.name == "torchtitan":  # over the ranks of dp and cp
        return [3], None
    if text in ("", "1", "not stated"):  # sharded only if it must; the 1 is a switch in some tables
        return ([3] if machine.name.startswith("TPU") else [usual, 3]), None
    if re.search(r"not reshard|grad[_ ]op", text):
        return [2], None
    if re.search(r"hybrid|hsdp", text):
        return [3], float(machine.domain)
    if found := re.search(r"(?:zero|stage)\D*(\d+)", text):
        if int(found[1]) <= 3:
            return [int(found[1])], None
    elif re.search(r"fsdp|zero|full.?shard", text) or text in ("yes", "true", "on", "full"):
        return [3], None
    raise _allowed(row, "fsdp", "the number of ranks that share, or one of none, ddp, fsdp, hsdp, zero-0 to zero-3")


def _recomputations(row: _Row, machine: Machine, software: Software) -> list[str]:
    """What the row allows, the likeliest first."""
    text = row.text["recompute"].casefold()
    if re.match("sel", text) and software.name == "torchtitan":  # by operators, its default; the other way is by layers
        return ["alternate"]
    if re.match("sel|attention|attn|core", text):
        return ["selective"]
    if re.match(r"(full|yes|true|on|all|1)(?![a-z\d])", text) or "checkpoint" in text:
        return ["full"]
    if re.match(r"(none|no|off|false|0)(?![a-z\d])|minimal|save_dot", text):
        return ["none"]
    if text and not re.search(r"not stated|custom|partial|offload", text):
        raise _allowed(row, "recompute", "one of none, selective, full")
    if machine.name.startswith("TPU"):
        return ["none", "full"]
    return ["none"] if software.fused_attention else ["full"]


def _sequence_parallel(row: _Row, software: Software) -> bool:
    text = row.text["seq_parallel"].casefold()
    if not text:
        return software.name != "2021"
    if re.match(r"(yes|true|on|1|not stated)(?![a-z\d])", text):
        return True
    if re.match(r"(no|none|false|off|0)(?![a-z\d])", text):
        return False
    raise _allowed(row, "seq_parallel", "yes or no")


# --- Sequence, batch and split ---------------------------------------------------------------------------------------

CHIP_BATCH = 4.0  # sequences of a chip where no batch is published, the middle of MaxText's scripts
# Tokens of a step where no batch is published: LLaMA's and PaLM's 4 million, since 2024 Llama 3's 16.
BATCH_TOKENS = {"until 2023": 2**22, "since": 2**24}


def _sequence(row: _Row, software: Software, *, measured_by_time: bool) -> float:
    """Tokens of a sequence: published, or from rate and time, or usual in the year of the model or its software."""
    rate, batch = row["tokens_per_s_per_gpu"], row["global_batch"]
    if row["seq"]:
        return row["seq"]
    if rate and batch and row["step_time_s"]:
        found, why = float(round(rate * row["n_gpus"] * row["step_time_s"] / batch)), "from rate and step time"
    elif measured_by_time:
        raise _Skip("seq is not published")
    else:
        known = _in_catalogue(row.text["model"], (), None)
        year = known.year if known else _year(software)
        found, why = (2048.0 if year <= 2023 else 4096.0), "usual"
        if known and known.shape.positions:
            found, why = float(known.shape.positions), "positions of the model"
    row.filled["sequence"] = f"{found:g} ({why})"
    return found


def _global_batch(
    row: _Row, sequence: float, splits, software: Software, *, by_chip: bool, measured_by_time: bool
) -> float:
    """Sequences of a step: published, or from the microbatch, or from rate and time, or of ``BATCH_TOKENS``."""
    rate, gpus, micro = row["tokens_per_s_per_gpu"], row["n_gpus"], row["micro_batch"]
    if row["global_batch"]:
        return row["global_batch"]
    if rate and row["step_time_s"]:
        found, why = float(round(rate * gpus * row["step_time_s"] / sequence)), "from rate and step time"
    elif by_chip and (micro or not measured_by_time):
        found, why = (micro or CHIP_BATCH) * gpus, f"{micro or CHIP_BATCH:g} a chip"
    elif micro and len(splits) == 1 and splits[0][1] == 1:  # without a pipeline, one microbatch
        found, why = micro * splits[0][2], "one microbatch"
    elif measured_by_time:
        raise _Skip("global_batch is not published")
    else:
        one_dp = len({dp for _, _, dp in splits}) == 1
        least = splits[0][2] if one_dp else gpus / 2 ** np.floor(np.log2(np.gcd(int(gpus), 2**30)))
        least *= (micro or 1) if least > 1 else 1
        tokens = BATCH_TOKENS["until 2023" if _year(software) <= 2023 else "since"]
        found, why = float(least * 2 ** max(round(np.log2(tokens / (sequence * least))), 0)), "usual"
    row.filled["global_batch"] = f"{found:g} ({why})"
    return found


def _powers(most: float) -> list[float]:
    return [2.0**i for i in range(int(np.log2(most)) + 1)]


def _splits(known: Sequence[float | None], gpus: float, domain: int) -> list[tuple[float, float, float]]:
    """The split of the GPUs into (tp, pp, dp), or all splits that agree with what the row says."""
    tps = [known[0]] if known[0] else _powers(min(domain, 16))
    if known[1]:
        pps = [known[1]]
    elif known[2]:
        pps = [gpus / (known[2] * tp) for tp in tps]
    else:
        pps = [float(p) for p in range(1, 65) if gpus % p == 0]
    splits = {(tp, pp, known[2] or gpus / (tp * pp)) for tp in tps for pp in pps}
    found = sorted(s for s in splits if s[0] * s[1] * s[2] == gpus and all(part % 1 == 0 for part in s))
    if not found:
        named = " x ".join(f"{axis} {part:g}" for axis, part in zip(("tp", "pp", "dp"), known, strict=True) if part)
        raise _Skip(f"{named} does not make {gpus:g} GPUs (without cp)")
    return found


class _Open(NamedTuple):
    """A row as far as it goes by itself: its candidates, all valid, and how to choose among them.

    ``tries`` are pairs of ZeRO stage and recomputation, the likeliest first; ``group`` ranks share under ZeRO.
    """

    row: _Row
    model: Transformer
    machine: Machine
    workload: Workload
    software: Software
    candidates: Layout
    tries: list[tuple[int, str]]
    group: float | None


def _open_row(row: _Row) -> _Open:
    """A row as records: what it says, and every layout that it leaves open."""
    row.read_numbers()
    numbers, split = row.numbers, [row[axis] for axis in ("tp", "pp", "dp")]
    if row["n_gpus"] is None and all(split):
        numbers["n_gpus"] = float(np.prod(split)) * (row["cp"] or 1.0)
        row.filled["n_gpus"] = f"{numbers['n_gpus']:g} (tp pp dp cp)"
    machine, model = _machine(row), _model(row)
    precision = _precision(row, machine)
    software = _software(row, machine, precision, model)
    if (gpus := row["n_gpus"]) is None:
        raise _Skip("n_gpus is not published")
    if not any(row[name] for name in MEASURES):
        raise _Skip("no step time, throughput or utilisation is published")
    tpu = machine.name.startswith("TPU")
    by_time = not any(row[name] for name in MEASURES[1:])
    sequence = _sequence(row, software, measured_by_time=by_time)
    cp, micro = row["cp"] or 1.0, row["micro_batch"]
    fsdp, _ = _sharding(row, machine, software, staged=False)
    if tpu:
        split[1] = split[1] or 1.0
    elif not any(split) and (
        (row["global_batch"] is None and micro)  # sequences of each accelerator
        or (fsdp == [3] and (row["global_batch"] or 0) % (gpus / cp) == 0)
    ):
        split[:2] = 1.0, 1.0  # sharded data parallelism
        row.text["fsdp"] = row.text["fsdp"] or "FSDP"
    shards = row.text["fsdp"].strip()
    if shards.isdecimal() and split[2] and (split[0] or 1) * (split[1] or 1) * split[2] * int(shards) == gpus / cp:
        split[2] *= int(shards)  # replicas of groups that share: hybrid sharding
    splits = _splits(split, gpus / cp, machine.domain)
    batch = _global_batch(row, sequence, splits, software, by_chip=tpu, measured_by_time=by_time)
    workload = Workload(sequence=sequence, global_batch=batch, precision=precision)
    stages, group = _sharding(row, machine, software, staged=all(pp > 1 for _, pp, _ in splits))
    micros = [micro] if micro else [1, 2, 4, 8, 16, 32, 64]
    if tpu:  # one microbatch, and no more tensor ranks than it takes to give each chip a part of it
        splits = [split for split in splits if batch % split[2] == 0][:1] or splits
        micros = [batch / splits[0][2]]
        if group is None and (slices := _slices(row)) > 1:
            group = splits[0][2] * cp / slices
    chunks = [row["vpp"]] if row["vpp"] else list(range(1, 2 if _year(software) < 2023 else 17))
    eps = [row["ep"] or 1.0] if row["ep"] or not model.experts else _powers(model.experts)
    tries = list(product(stages, _recomputations(row, machine, software)))
    given = {"cp": cp, "sequence_parallel": _sequence_parallel(row, software), "zero": tries[0][0]}
    candidates = Layout(**_candidates(splits, micros, chunks, eps), **given, recompute=tries[0][1])
    faults = candidates.faults(model, workload, gpus=gpus)
    if not np.all(valid := faults.valid):
        if not np.any(valid):
            raise _Skip(f"not a layout: {_most_broken(faults)}")
        candidates = candidates[valid]
    return _Open(row, model, machine, workload, software, candidates, tries, group)


_AXES = ("tp", "pp", "dp", "microbatch", "chunks", "ep")


def _candidates(splits, micros, chunks, eps) -> dict:
    """Every combination, the splits outermost; one stage has one chunk. Arrays, or numbers if there is only one."""
    if len(splits) * len(micros) * len(eps) == 1 and (len(chunks) == 1 or splits[0][1] == 1):
        (tp, pp, dp), chunk = splits[0], chunks[0] if splits[0][1] > 1 else 1
        return dict(zip(_AXES, (tp, pp, dp, micros[0], chunk, eps[0]), strict=True))
    grid = np.meshgrid(np.arange(len(splits)), micros, chunks, eps, indexing="ij")
    index, micro, chunk, ep = (axis.ravel() for axis in grid)
    tp, pp, dp = np.array(splits).T[:, index]
    keep = (pp > 1) | (chunk == chunks[0])
    values = (tp, pp, dp, micro, np.where(pp > 1, chunk, 1), ep)
    return {name: value[keep] for name, value in zip(_AXES, values, strict=True)}


def _most_broken(faults) -> str:
    """The rule that most candidates break, and what the first of them has there."""
    rules = {rule: np.atleast_1d(mask) for rule, mask in faults.rules.items()}
    rule = max(rules, key=lambda rule: np.count_nonzero(rules[rule]))
    first = int(np.argmax(rules[rule]))
    values = {name: faults.values[name] for name in faults.values if re.search(rf"\b{name}\b", rule)}
    got = ", ".join(f"{n} {np.broadcast_to(v, rules[rule].shape)[first]:g}" for n, v in values.items())
    return f"{rule}; {'for example' if rules[rule].size > 1 else 'got'} {got}"


# --- Many rows in one call -------------------------------------------------------------------------------------------


def _grouped(items: Iterable, key: Callable) -> list[list]:
    found: dict = {}
    for item in items:
        found.setdefault(key(item), []).append(item)
    return list(found.values())


def _column(values: list, sizes: list[int]):
    """Values of several records one after another; one value where all are the same."""
    first = values[0]
    if not np.ndim(first) and all(value is first or (not np.ndim(value) and value == first) for value in values):
        return first
    if sum(sizes) == len(sizes):
        return np.array([value.item() if np.ndim(value) else value for value in values])
    return np.concatenate([np.broadcast_to(value, size) for value, size in zip(values, sizes, strict=True)])


def _stacked(layouts: Sequence[Layout], workloads: Sequence[Workload], **columns: list):
    """Layouts and their workloads one after another as two records of arrays, and where each ends.

    ``columns`` are fields of the layouts that shall be others.
    """
    sizes = [_size(layout) for layout in layouts]
    columns = {f.name: [getattr(layout, f.name) for layout in layouts] for f in fields(Layout)} | columns
    if any(group is not None for group in columns["shard_group"]):
        columns["shard_group"] = [layout.sharding_ranks for layout in layouts]
    layout = Layout(**{name: _column(values, sizes) for name, values in columns.items()})
    sequences, batches = ([getattr(w, name) for w in workloads] for name in ("sequence", "global_batch"))
    workload = Workload(_column(sequences, sizes), _column(batches, sizes), workloads[0].precision)
    return layout, workload, np.cumsum(sizes)


def _size(layout: Layout) -> int:
    return int(np.size(layout.tp))  # candidates vary together, or there is one


def _split(values, ends: np.ndarray) -> list[np.ndarray]:
    return np.split(np.broadcast_to(values, ends[-1]), ends[:-1])


def _close_rows(rows: list[_Open]) -> list[Run | tuple[_Row, Exception]]:
    """Each row as a run: of its candidates the fastest that fits in memory.

    If none fits: with the next kind of recomputation; if not even weights and optimizer do, with the next ZeRO stage;
    at last of those that take least. Rows that share a model and software are asked about in one call.
    """
    try:
        fitting = _fitting(rows)
        layouts = _fastest(rows, fitting)
    except ValueError as why:
        if len(rows) == 1:
            return [(rows[0].row, why)]
        return [found for row in rows for found in _close_rows([row])]  # one of them is to blame
    found = []
    for opened, layout in zip(rows, layouts, strict=True):
        try:
            found.append(_close(opened, layout))
        except (_Skip, ValueError) as why:
            found.append((opened.row, why))
    return found


def _fitting(rows: list[_Open]) -> list[Layout]:
    """Of each row the candidates that fit, or that take least, with ZeRO stage, recomputation and sharding ranks."""
    found: list = [None] * len(rows)
    pending = dict.fromkeys(range(len(rows)), 0)
    while pending:
        for group in _grouped(pending, lambda i: (rows[i].model, rows[i].software)):
            tries = [rows[i].tries[pending[i]] for i in group]
            zeros, recomputes = ([one[part] for one in tries] for part in (0, 1))
            candidates, workloads = [rows[i].candidates for i in group], [rows[i].workload for i in group]
            # Interleaving costs little memory.
            columns = {"zero": zeros, "recompute": recomputes, "chunks": [1.0] * len(group)}
            layout, workload, ends = _stacked(candidates, workloads, **columns)
            need = footprint(rows[group[0]].model, workload, layout, software=rows[group[0]].software)
            columns = (_split(column, ends) for column in (need.total, need.state, need.activations))
            for i, total, state, kept in zip(group, *columns, strict=True):
                opened, capacity = rows[i], _usable(rows[i].machine)
                zero, recompute = opened.tries[pending[i]]
                fits = total <= capacity
                settled = recompute == opened.tries[-1][1] and np.any(state <= capacity)
                if not (np.any(fits) or settled or pending[i] + 1 == len(opened.tries)):
                    pending[i] += 1
                    continue
                layout = opened.candidates
                if pending.pop(i):
                    layout = replace(layout, zero=zero, recompute=recompute)
                if not np.any(fits):
                    fits = total <= total.min()
                    opened.row.filled["memory"] = _short_of_memory(opened, zero, total, state, kept)
                found[i] = _shared(layout if np.all(fits) else layout[fits], opened.group)
    return found


# Why a published run that ran does not fit by the law: what its row says is not all that it does.
STATE = "weights, gradients and optimizer alone are more: fewer bits, or further sharded, than its row says"
UNSTATED = "what it recomputes or offloads is not stated"
INTERLEAVED = "its interleaving is not stated: the fastest holds more microbatches than fit"
UNEXPLAINED = "unexplained"
HOST = "the host holds"


def _short_of_memory(opened: _Open, zero: int, total, state, kept) -> str:
    """What becomes of the bytes that do not fit: the host may hold activations, if the row or its stack offloads them.

    NVIDIA's recipes offload layers where weights are fully sharded, MaxText's under a custom policy (Megatron-Bridge
    v0.2.0, ``cpu_offloading_num_layers``; tpu-recipes, ``decoder_layer_input: offload``).
    """
    least, capacity = int(np.argmin(total)), _usable(opened.machine)
    text = opened.row.text["recompute"].casefold()
    share = (total[least] - capacity) / kept[least]
    offloads = re.search("offload|custom", text) or (opened.software.name.startswith("NeMo") and zero == 3)
    if share <= 1 and offloads:
        return f"{HOST} {fmt(share, '%', digits=2)} of the activations"
    # Where weights are fully sharded, the host may hold the inputs of layers too (DeepSpeed's cpu_checkpointing).
    open_ = not text or zero == 3 or re.search("not stated|custom|partial|minimal", text)
    why = STATE if state[least] > capacity else UNSTATED if open_ else UNEXPLAINED
    return f"{_NO_FIT} {fmt(total[least], 'B')} of {fmt(capacity, 'B')} ({why})"


_NO_FIT = "does not fit:"


def why_refused(run: Run) -> str | None:
    """Why the law of memory refuses a run, or ``None`` where it fits.

    Examples
    --------
    >>> refused = [run for run in published_runs()[0] if why_refused(run)]
    >>> 0 < len(refused) < len(published_runs()[0]) / 15
    True
    """
    found = run.filled.get("memory", "")
    return found[found.index("(") + 1 : -1] if found.startswith(_NO_FIT) else None


def _usable(machine: Machine) -> float:
    """Bytes that a program may allocate: what tools show, or what the datasheet says."""
    return catalogue.accelerator(machine.name).usable_capacity or machine.hbm_capacity


def _shared(layout: Layout, group: float | None) -> Layout:
    """With the ranks that share under ZeRO, where they are some of those that could."""
    ranks = layout.dp * layout.cp
    if group and group > 1 and np.all(group < ranks) and np.all(ranks % group == 0) and np.all(group != layout.dp):
        return replace(layout, shard_group=group)
    return layout


def _fastest(rows: list[_Open], fitting: list[Layout]) -> list[Layout]:
    """Of each row the fastest layout."""
    found = [layout[0] if np.ndim(layout.tp) and _size(layout) == 1 else layout for layout in fitting]
    several = [i for i, layout in enumerate(fitting) if _size(layout) > 1]

    def alike(i):
        return rows[i].model, id(rows[i].machine), rows[i].workload.precision, rows[i].software

    for group in _grouped(several, alike):
        layout, workload, ends = _stacked([fitting[i] for i in group], [rows[i].workload for i in group])
        first = rows[group[0]]
        times = step(first.model, first.machine, workload, layout, software=first.software).time
        for i, time in zip(group, _split(times, ends), strict=True):
            found[i] = fitting[i][int(np.argmin(time))]
    return found


def _close(opened: _Open, layout: Layout) -> Run:
    """A row as a run, and what was filled in."""
    row, model, machine, workload, software, candidates, tries, group = opened
    columns = {"microbatch": "micro_batch", "chunks": "vpp"}
    how = "takes least memory" if "memory" in row.filled else "fastest that fits"
    for name in _AXES:
        if (
            row[columns.get(name, name)]
            or (name == "chunks" and layout.pp == 1)
            or (name == "ep" and not model.experts)
        ):
            continue
        options = np.unique(getattr(candidates, name))
        why = how if options.size > 1 else "usual" if name == "chunks" else "what is left"
        row.filled[name] = f"{getattr(layout, name):g} ({why})"
    if not row.text["fsdp"] or len({zero for zero, _ in tries}) > 1:
        row.filled["zero"] = f"{layout.zero:g} ({'usual' if layout.zero == tries[0][0] else 'a copy does not fit'})"
    if not re.match(r"sel|attention|attn|core|ful|yes|true|on|all|no|off|false|[01]|minimal", row.text["recompute"]):
        row.filled["recompute"] = f"{layout.recompute} ({'usual' if layout.recompute == tries[0][1] else 'to fit'})"
    if not row.text["seq_parallel"] and layout.tp > 1:
        row.filled["sequence_parallel"] = f"{'yes' if layout.sequence_parallel else 'no'} (usual)"
    if group and (layout.dp * layout.cp) % group:
        row.filled["shard_group"] = f"{layout.sharding_ranks:g} ({group:g} do not divide dp cp)"
    if layout.chunks > 1 and "memory" not in row.filled:
        need, capacity = footprint(model, workload, layout, software=software).total, _usable(machine)
        if need > capacity:
            why = UNEXPLAINED if row["vpp"] else INTERLEAVED
            row.filled["memory"] = f"{_NO_FIT} {fmt(need, 'B')} of {fmt(capacity, 'B')} ({why})"
    seconds = _seconds(row, model, machine, workload, layout)
    filled = {name: row.filled[name] for name in ("memory", "model") if name in row.filled} | row.filled
    filled_in, role = MappingProxyType(filled), row.text["role"]
    return Run(row.name, row.source, model, machine, workload, layout, software, seconds, filled_in, role)


@lru_cache(maxsize=4096)
def _flops(model: Transformer, sequence: float, recompute: str) -> tuple[float, float]:
    """Model and hardware FLOPs of a token."""
    found = training_flops(model, sequence, recompute=recompute)
    return found.model, found.hardware


def _seconds(row: _Row, model: Transformer, machine: Machine, workload: Workload, layout: Layout) -> float:
    """The measured step: as printed, or from throughput, or from FLOP/s or their utilisation by published FLOP counts.

    Model FLOPs are 6 P + 12 L h s a token, in full and without the mask; hardware FLOPs add what is recomputed.
    """
    tokens = workload.global_batch * workload.sequence / row["n_gpus"]
    model_flops, hardware_flops = _flops(model, workload.sequence, layout.recompute)
    peak = row["mfu_peak_tflops"]
    if peak is None and PRECISIONS[workload.precision][1] == 2.0:  # below 16 bits it may be either peak
        peak = machine.peaks[workload.precision] / TFLOP
    found = {
        "step_time_s": lambda value: value,
        "tokens_per_s_per_gpu": lambda value: tokens / value,
        "hw_tflops_per_gpu": lambda value: tokens * hardware_flops / (value * TFLOP),
        "model_tflops_per_gpu": lambda value: tokens * model_flops / (value * TFLOP),
    }
    if peak:
        found["hfu_pct"] = lambda value: tokens * hardware_flops / (value / 100 * peak * TFLOP)
        found["mfu_pct"] = lambda value: tokens * model_flops / (value / 100 * peak * TFLOP)
    found = {name: of(row[name]) for name, of in found.items() if row[name]}
    if not found:
        raise _Skip("a utilisation is published, but not the peak that it refers to (mfu_peak_tflops)")
    name, seconds = next(iter(found.items()))
    _plausible(row, name, seconds, tokens * model_flops / machine.peaks[PRECISIONS[workload.precision][0]])
    for other, also in found.items():
        # Publishers count FLOPs in different ways, but not seconds and tokens.
        most = 1.1 if other == "tokens_per_s_per_gpu" else 1.5
        if max(also / seconds, seconds / also) > most:
            means = f"a step of {fmt(also, 's')}, not of {fmt(seconds, 's')} as {name} says"
            raise _Skip(f"{other} {row[other]:g} contradicts {name} {row[name]:g}: it means {means}")
    return seconds


_QUESTIONS = {
    "step_time_s": "is it in seconds, and of one step of the whole global_batch?",
    "tokens_per_s_per_gpu": "is it of one GPU, not of all {gpus:g}, and are seq and global_batch right?",
}


def _plausible(row: _Row, name: str, seconds: float, at_peak: float) -> None:
    """Refuse a measurement that means more FLOP/s than there are, or next to none; ``at_peak``: seconds at the peak."""
    mfu = at_peak / seconds
    if 0.001 <= mfu <= 1:
        return
    question = _QUESTIONS.get(name, "are its unit and the model right?").format(gpus=row["n_gpus"])
    raise _Skip(f"{name} {row[name]:g} means an MFU of {100 * mfu:.3g} %, which must be from 0.1 to 100 %: {question}")


# --- Predicting ------------------------------------------------------------------------------------------------------


def predict_run(run: Run) -> Step:
    """Return the step that the model predicts for a run.

    Examples
    --------
    >>> run = published_runs()[0][0]
    >>> bool(abs(predict_run(run).time / run.seconds - 1) < 0.1)
    True
    """
    return step(run.model, run.machine, run.workload, run.layout, software=run.software)


class Batch(NamedTuple):
    """Runs that share model, machine, software and precision, as one question to the model of a step.

    ``where`` are their places among all runs.
    """

    where: list[int]
    model: Transformer
    machine: Machine
    workload: Workload
    layout: Layout
    software: Software


def batches(runs: Sequence[Run]) -> list[Batch]:
    """Return the runs in batches, each of which is one call of :func:`clusterlab.parallelism.step`."""
    found = []
    for where in _grouped(
        range(len(runs)),
        lambda i: (runs[i].model, id(runs[i].machine), runs[i].workload.precision, runs[i].software),
    ):
        layout, workload, _ = _stacked([runs[i].layout for i in where], [runs[i].workload for i in where])
        run = runs[where[0]]
        found.append(Batch(where, run.model, run.machine, workload, layout, run.software))
    return found


def predict_runs(runs: Iterable[Run]) -> Step:
    """Return the steps of many runs as one record of arrays, in the order of the runs: faster than one by one.

    Examples
    --------
    >>> runs = published_runs()[0][:3]
    >>> predict_runs(runs).time.shape
    (3,)
    """
    runs = list(runs)
    columns = {f.name: np.empty(len(runs)) for f in fields(Step)}
    for batch in batches(runs):
        found = step(batch.model, batch.machine, batch.workload, batch.layout, software=batch.software)
        for name, column in columns.items():
            column[batch.where] = getattr(found, name)
    return Step(**columns)
