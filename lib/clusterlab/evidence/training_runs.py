"""Validation: published training runs against the model of a step, source by source.

``python -m clusterlab.validate FILE.csv`` reads runs in the form of ``data/training_throughput.csv``, a reader's own
too, predicts each with :func:`clusterlab.training.step` and compares. A row that cannot be predicted is named, with the
reason.

What a row leaves open is filled in by rules that are the same for every row. The era of the software follows from the
year that the source names, or from NVIDIA's container, the accelerator and the precision. What people tune and did not
publish (microbatch, interleaving since 2023, the split into tensor, pipeline and expert ranks) is taken as the fastest
that fits in memory. Interleaving before 2023 and recomputation since then are off unless published; before,
recomputation is full. Weights are sharded where a copy and its optimizer do not fit. TPU programs shard weights,
compute again what does not fit, have no pipeline, and count the batch by the chip. Where a rate is published, so that
the batch hardly matters, a missing batch is what was usual (``BATCH_TOKENS``, ``CHIP_BATCH``), a missing sequence too.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from itertools import product
from pathlib import Path

import numpy as np

from .. import hardware, models
from ..memory import footprint
from ..training import PRECISIONS, SOFTWARE, Machine, Software, Step, machine, step, validity
from ..transformer import Transformer, parameters, training_flops
from ..units import TFLOP, Explained

SHAPE = ("layers", "hidden", "heads", "kv_heads", "ffn", "vocab")
LAYOUT = ("seq", "n_gpus", "gpus_per_node", "tp", "pp", "dp", "cp", "ep", "vpp", "micro_batch", "global_batch")
MEASURES = ("step_time_s", "tokens_per_s_per_gpu", "hw_tflops_per_gpu", "model_tflops_per_gpu", "hfu_pct", "mfu_pct")
TEXT = ("row_id", "group", "model", "gpu", "fsdp", "recompute", "seq_parallel", "precision")
NOTES = ("metric_note", "derived", "source", "source_loc", "source_check", "quality")
NUMBERS = ("params_b", "active_params_b", *SHAPE, *LAYOUT, *MEASURES, "mfu_peak_tflops")
COLUMNS = (*TEXT, *NUMBERS, *NOTES)
REQUIRED = ("row_id", "group", "model", "gpu", "n_gpus")


class _Skip(Exception):  # noqa: N818, it is no error
    """Why a row cannot be predicted."""


@dataclass(frozen=True)
class Run:
    """One published run: what :func:`clusterlab.training.step` takes, and the measured seconds of a step."""

    row: str
    source: str
    model: Transformer
    machine: Machine
    layout: dict
    seconds: float


@dataclass(frozen=True)
class Skipped:
    """A row that cannot be predicted, and why."""

    row: str
    source: str
    why: str


# --- Reading ---------------------------------------------------------------------------------------------------------


def published_runs() -> tuple[list[Run], list[Skipped]]:
    """Return the runs that come with the library, and the rows that cannot be predicted.

    Examples
    --------
    >>> runs, skipped = published_runs()
    >>> len({run.source for run in runs}) > 15
    True
    """
    return read(files("clusterlab") / "data" / "training_throughput.csv")


def read(path) -> tuple[list[Run], list[Skipped]]:
    """Read a table of runs.

    Parameters
    ----------
    path : path-like
        A CSV file with columns from ``COLUMNS``, at least those of ``REQUIRED``. An empty cell means not published.

    Returns
    -------
    tuple of list
        The runs, and the rows that cannot be predicted.

    Raises
    ------
    ValueError
        The file is empty, a column is unknown, missing or there twice, a row has too few or too many fields, or a
        number is none; the message names the line.
    """
    try:
        text = path.read_text(encoding="utf-8-sig") if hasattr(path, "read_text") else Path(path).read_text("utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError(f"{path}, line 1: not a text file in UTF-8") from None
    lines = csv.reader(io.StringIO(text))
    heading = [name.strip() for name in next(lines, [])]
    if not any(heading):
        raise ValueError(f"{path}, line 1: the file is empty; it needs a heading and rows")
    if unknown := [name for name in heading if name not in COLUMNS]:
        raise ValueError(
            f"{path}, line 1: unknown columns {', '.join(map(repr, unknown))}; known: {', '.join(COLUMNS)}"
        )
    if twice := {name for name in heading if heading.count(name) > 1}:
        raise ValueError(f"{path}, line 1: columns there twice: {', '.join(sorted(twice))}")
    if missing := [name for name in REQUIRED if name not in heading]:
        raise ValueError(f"{path}, line 1: missing columns {', '.join(missing)}")
    runs, skipped = [], []
    try:
        for cells in lines:
            if not any(cell.strip() for cell in cells):
                continue
            where = f"{path}, line {lines.line_num}"
            if len(cells) != len(heading):
                raise ValueError(f"{where}: {len(cells)} fields, but the heading has {len(heading)}")
            row = dict.fromkeys(COLUMNS, "") | dict(zip(heading, (cell.strip() for cell in cells), strict=True))
            numbers = _numbers(row, where)
            try:
                runs.append(_run(row, numbers))
            except (_Skip, ValueError) as why:
                skipped.append(Skipped(row["row_id"], row["group"], str(why)))
    except csv.Error as error:
        raise ValueError(f"{path}, line {lines.line_num}: {error}") from None
    if not runs and not skipped:
        raise ValueError(f"{path}, line 2: no rows below the heading")
    return runs, skipped


def _numbers(row: dict[str, str], where: str) -> dict[str, float | None]:
    """The numbers of a row; an empty cell is ``None``."""
    numbers: dict[str, float | None] = {}
    for name in NUMBERS:
        try:
            numbers[name] = float(row[name]) if row[name] else None
        except ValueError:
            raise ValueError(f"{where}, row {row['row_id']}: {name} must be a number, got {row[name]!r}") from None
        if numbers[name] is not None and not 0 < numbers[name] < np.inf:
            raise ValueError(f"{where}, row {row['row_id']}: {name} must be above zero and finite, got {row[name]!r}")
        if name.endswith("_pct") and (numbers[name] or 0) > 100:
            raise ValueError(f"{where}, row {row['row_id']}: {name} must be at most 100, got {row[name]!r}")
    return numbers


_ACCELERATORS = (
    *((rf"(?<![a-z]){name}", name.upper()) for name in ("gb300", "gb200", "b300", "b200")),
    *((r"(?<!g)h200", "H200 SXM"), (r"h800", "H800 SXM"), (r"h100.*pcie", "H100 PCIe"), (r"h100", "H100 SXM")),
    *((r"a100.*40 ?gb?\b", "A100 40GB"), (r"a100", "A100 80GB"), (r"v100", "V100 SXM2")),
    *((rf"mi{name}x?\b", f"MI{name}X") for name in (250, 300, 325, 355)),
    *((r"\bv5[ -]?(e|lite)", "TPU v5e"), (r"\bv5p", "TPU v5p"), (r"\bv6e|trillium", "TPU v6e")),
    *((r"tpu[ -]?v?4|\bv4-", "TPU v4"), (r"tpu[ -]?v?7|ironwood", "TPU v7")),
    *((r"gaudi[ -]?3", "Gaudi 3"), (r"trainium[ -]?2|trn2", "Trainium2")),
)


def _machine(row, numbers) -> Machine:
    """The accelerator that a row names. "2.4TB/s" and "500 W cap" in the name change its memory and its clock."""
    text = row["gpu"].casefold()
    known = next((name for pattern, name in _ACCELERATORS if re.search(pattern, text)), None)
    if known is None:
        raise _Skip(f"no data on the accelerator {row['gpu']!r}")
    chip = hardware.accelerator(known)
    # A rack or a pod is one domain however many of its accelerators share a host.
    host = numbers["gpus_per_node"]
    one = machine(known, domain=int(host) if host and chip.scale_up_domain <= 16 else None)
    if one.name.startswith("TPU") and (slices := _slices(row)) > 1:
        one = replace(one, domain=max(int((numbers["n_gpus"] or 1) / slices), 1))
    if found := re.search(r"(\d+(?:\.\d+)?) ?tb/s", text):
        one = replace(one, hbm_bandwidth=float(found[1]) * 1e12)
    if (found := re.search(r"(\d+) ?w cap", text)) and chip.tdp:
        slower = min(float(found[1]) / chip.tdp, 1.0) ** (1 / 3)  # dynamic power goes as the cube of the clock
        one = replace(one, peaks={name: peak * slower for name, peak in one.peaks.items()})
    return one


def _slices(row) -> int:
    """The slices of a TPU run, "2x v5e-256": wires between chips end at the slice, the data centre's network begins."""
    found = re.search(r"\b(\d+) ?x ?v\d\w*-\d+", f"{row['gpu']} {row['metric_note']}".casefold())
    return int(found[1]) if found else 1


# Words around the name of a model that do not change its shape.
_AROUND = r"PTD-P|ZeRO-3|\b(meta|nvidia|google|instruct|base|chat|hf|llm|pre-?train(ing)?|dense|maxtext|model|moe)\b"
_AROUND += r"|-v\d\.\d"
_NAMES = {"nemotron 15b": "Nemotron-4 15B", "nemotron 340b": "Nemotron-4 340B", "nemotron 8b": "Nemotron-3 8B"}
_NAMES |= {"nemotron 22b": "Nemotron-3 22B", "gpt-neox": "GPT-NeoX-20B", "llama 3.3 70b": "Llama 3.1 70B"}
_NAMES |= {"deepseek r1": "DeepSeek-V3", "llama 30b": "LLaMA 33B", "palm": "PaLM 540B", "mt-nlg": "MT-NLG 530B"}
_NAMES |= {"deepseek-v2": "DeepSeek-V2 236B", "bloom": "BLOOM 176B", "gpt-3": "GPT-3 175B"}
_SAME = {models.plain(name): known for name, known in _NAMES.items()}


def _known(row, given: dict, size: float | None = None) -> tuple[str, Transformer] | None:
    """A model of the catalogue, by its name with and without what stands around it; its shape and size must agree."""
    whole = row["model"].split("/")[-1] if row["model"].count("/") == 1 and " " not in row["model"] else row["model"]
    short = re.sub(r"\(.*?\)", "", whole).strip()
    bare = [re.sub(_AROUND, "", name, flags=re.IGNORECASE).strip(" -_") for name in (short, whole)]
    if (found := re.fullmatch(r"(.*?)[ _-]+(\d+(?:\.\d+)?)B", bare[0], re.IGNORECASE)) and not size:  # "Grok-1 314B"
        bare, size = [*bare, found[1]], float(found[2])
    guesses = [short, whole, *bare, *(_SAME.get(models.plain(name), "") for name in bare)]
    for guess in (*guesses, *(f"{name} (Megatron-Core)" for name in bare), *(f"MaxText {name}" for name in bare)):
        try:
            known = models.model(guess)
        except ValueError:
            continue
        agrees = [given[key] == getattr(known, key) for key in ("layers", "hidden", "heads") if key in given]
        if not agrees and size:
            agrees = [0.75 < parameters(known).total / (size * 1e9) < 1.25]
        if all(agrees):
            return known.name, replace(known, vocab=given.get("vocab", known.vocab))
    return None


def _model(row, numbers) -> Transformer:
    """The model that a row names, from the catalogue, or one made of its shape, or of its size.

    Of published dense models hidden is about 100 layers, so that 12 layers hidden^2 is their size; heads have 128.
    """
    given = {key: int(numbers[key]) for key in SHAPE if numbers[key] is not None}
    if known := _known(row, given, numbers["params_b"]):
        return known[1]
    if numbers["active_params_b"] and numbers["active_params_b"] != numbers["params_b"]:
        raise _Skip(f"{row['model']} is a mixture of experts that the catalogue lacks")
    if numbers["params_b"] and not {"layers", "hidden", "heads"} & set(given):
        layers = max(round((numbers["params_b"] * 1e9 / 12e4) ** (1 / 3)), 1)
        heads = 8 * max(round((numbers["params_b"] * 1e9 / 12 / layers) ** 0.5 / 1024), 1)
        given = {"layers": layers, "hidden": 128 * heads, "heads": heads} | given
    if lacking := [key for key in ("layers", "hidden", "heads") if key not in given]:
        raise _Skip(f"the catalogue lacks {row['model']}, and the row its {', '.join(lacking)}")
    given = {"ffn": 4 * given["hidden"], "vocab": 50304} | given
    if given["hidden"] % given["heads"]:
        given["head_dim"] = 128
    options = [{"gated": gated, "tied": tied} for gated in (False, True) for tied in (True, False)]
    if numbers["params_b"]:  # whether gated and tied: what comes nearest to the published size
        options.sort(key=lambda o: abs(parameters(Transformer(**given, **o)).total - numbers["params_b"] * 1e9))
    return Transformer(**given, **options[0], name=row["model"])


def _precision(row, one: Machine) -> str:
    text = row["precision"].casefold()
    patterns = (
        ("fp4", "fp4"),
        ("fp8|float8|e4m3", "fp8"),
        ("int8", "int8"),
        ("(?<!b)(fp16|float16)|half", "fp16"),
        ("bf16|bfloat16|^$|not stated|mixed|^amp$", "bf16"),
    )
    name = next((name for pattern, name in patterns if re.search(pattern, text)), None)
    if name is None:
        raise _Skip(f"no data on the precision {row['precision']!r}")
    if name == "bf16" and "bf16" not in one.peaks:
        name = "fp16"
    if PRECISIONS[name][0] not in one.peaks:
        raise _Skip(f"no {name} peak of {one.name}")
    return name


def _software(row, one: Machine, precision: str) -> Software:
    """The era: by the latest year that the source names, else by the precision and the accelerator.

    The compiler of TPUs overlapped, fused and sharded from the start.
    """
    if one.name.startswith("TPU"):
        return SOFTWARE["2024"]
    text = f"{row['source']} {row['source_loc']}"
    # NVIDIA's containers from June 2026 on fuse experts in 8 and 4 bits on racks of Blackwell.
    container = max(re.findall(r"\b(?:section|container) (\d\d\.\d\d)", f"{text} {row['metric_note']}"), default="")
    if container >= "26.06" and precision in ("fp8", "fp4") and one.domain > 16:
        return SOFTWARE["2026"]
    years = [2000 + int(year) for year in re.findall(r"arXiv:(\d\d)\d\d\.", text)]
    years += [int(year) for year in re.findall(r"(?<!\d)(20[12]\d)(?:\d\d)?(?!\d)", text)]
    if years:
        year = max(years)
    elif one.efficiency.generation == "Volta" or (precision == "fp16" and one.efficiency.generation == "Ampere"):
        year = 2022
    else:  # "amp" is PyTorch's automatic mixed precision
        year = 2023 if row["precision"].startswith("amp") or one.efficiency.generation == "Ampere" else 2024
    return SOFTWARE[str(min(max(year, 2021), 2024))]


def _zero(row, one: Machine, soft: Software, *, staged: bool = False) -> tuple[list[int], float | None]:
    """ZeRO stages that the row allows, the likeliest first, and the ranks that share if it says how many.

    FSDP in a pipeline takes the time of stage 1: weights stay gathered, and gradients are added up whole and leave with
    the last microbatch. Source: PyTorch, ``torch.distributed.pipelining.stage``; torchtitan reshards only without one.
    """
    text = row["fsdp"].casefold()
    usual = 1 if soft.data_overlap else 0
    if staged and (re.search(r"fsdp|not reshard|grad.op", text) or (text.isdigit() and int(text) > 1)):
        return [1], None
    if text.isdigit() and int(text) > 1:
        return [3], float(text)
    if text in ("0", "no", "none", "false") or re.search(r"\bddp\b|replicated", text):
        return [usual], None
    if text in ("", "1", "not stated"):  # sharded only if it must; the 1 is a switch in some tables
        return ([3] if one.name.startswith("TPU") else [usual, 3]), None
    if "not reshard" in text or "grad_op" in text or "grad op" in text:
        return [2], None
    if re.search(r"hybrid|hsdp", text):
        return [3], float(one.domain)
    found = re.search(r"(?:zero|stage)\D*([0-3])", text)
    return [int(found[1]) if found else 3], None


def _recompute(row, one: Machine, soft: Software) -> list[str]:
    """What the row allows, the likeliest first."""
    text = row["recompute"].casefold()
    if text.startswith(("sel", "attention", "attn", "core")):
        return ["selective"]
    if text.startswith(("ful", "yes", "true", "on", "all")) or "checkpoint" in text:
        return ["full"]
    if re.match(r"(no|off|false|0|minimal|save_dot)(?!t stated)", text):
        return ["none"]
    if one.name.startswith("TPU"):
        return ["none", "full"]
    return ["none"] if soft.attention else ["full"]


CHIP_BATCH = 4.0  # sequences of a chip where no batch is published, the middle of MaxText's scripts
# Tokens of a step where no batch is published: LLaMA's and PaLM's 4 million, since 2024 Llama 3's 16.
BATCH_TOKENS = {"until 2023": 2**22, "since": 2**24}


def _sequence(row, numbers, soft: Software, measured_by_time: bool) -> float:
    """Tokens of a sequence: published, or from rate and time, or usual in the year of the model or its software."""
    rate, gb, n = numbers["tokens_per_s_per_gpu"], numbers["global_batch"], numbers["n_gpus"]
    if numbers["seq"]:
        return numbers["seq"]
    if rate and gb and numbers["step_time_s"]:
        return float(round(rate * n * numbers["step_time_s"] / gb))
    if measured_by_time:
        raise _Skip("seq is not published")
    known = _known(row, {})
    if known and known[1].positions:
        return float(known[1].positions)
    year = models.entry(known[0]).year if known else int(soft.name)
    return 2048.0 if year <= 2023 else 4096.0


def _batch(numbers, s: float, splits, by_chip: bool, measured_by_time: bool, soft: Software) -> float:
    """Sequences of a step: published, or from the microbatch, or from rate and time, or of ``BATCH_TOKENS``."""
    rate, n, b = numbers["tokens_per_s_per_gpu"], numbers["n_gpus"], numbers["micro_batch"]
    if numbers["global_batch"]:
        return numbers["global_batch"]
    if rate and numbers["step_time_s"]:
        return float(round(rate * n * numbers["step_time_s"] / s))
    if by_chip and (b or not measured_by_time):
        return (b or CHIP_BATCH) * n
    if b and len(splits) == 1 and splits[0][1] == 1:
        return b * splits[0][2]  # without a pipeline, one microbatch
    if measured_by_time:
        raise _Skip("global_batch is not published")
    least = splits[0][2] if len({dp for _, _, dp in splits}) == 1 else n / 2 ** np.floor(np.log2(np.gcd(int(n), 2**30)))
    least *= (b or 1) if least > 1 else 1
    tokens = BATCH_TOKENS["until 2023" if soft.name <= "2023" else "since"]
    return float(least * 2 ** max(round(np.log2(tokens / (s * least))), 0))


def _run(row, numbers) -> Run:
    """A row as a run: what it says, and by rule what it does not say."""
    axes = [numbers[axis] for axis in ("tp", "pp", "dp")]
    if numbers["n_gpus"] is None and all(axes):
        numbers = numbers | {"n_gpus": float(np.prod(axes)) * (numbers["cp"] or 1.0)}
    one, shape = _machine(row, numbers), _model(row, numbers)
    precision = _precision(row, one)
    soft = _software(row, one, precision)
    if (n := numbers["n_gpus"]) is None:
        raise _Skip("n_gpus is not published")
    if not any(numbers[name] for name in MEASURES):
        raise _Skip("no step time, throughput or utilisation is published")
    tpu = one.name.startswith("TPU")
    by_time = not any(numbers[name] for name in MEASURES[1:])
    s = _sequence(row, numbers, soft, by_time)
    cp, b = numbers["cp"] or 1.0, numbers["micro_batch"]
    if tpu:
        numbers = numbers | {"pp": numbers["pp"] or 1.0}
    elif not any(axes) and (
        (numbers["global_batch"] is None and b)  # sequences of each accelerator
        or (_zero(row, one, soft)[0] == [3] and (numbers["global_batch"] or 0) % (n / cp) == 0)
    ):
        numbers = numbers | {"tp": 1.0, "pp": 1.0}  # sharded data parallelism
        row = row | {"fsdp": row["fsdp"] or "FSDP"}
    splits = _splits(numbers, n / cp, one.domain)
    gb = _batch(numbers, s, splits, tpu, by_time, soft)
    spread = row["seq_parallel"].casefold()
    layout = {"sequence": s, "global_batch": gb, "cp": cp, "precision": precision, "software": soft}
    layout["sequence_parallel"] = not spread.startswith("no") or spread == "not stated"
    if not spread:
        layout["sequence_parallel"] = soft.name != "2021"
    stages, group = _zero(row, one, soft, staged=all(pp > 1 for _, pp, _ in splits))
    micro = [b] if b else [1, 2, 4, 8, 16, 32, 64]
    if tpu:  # one microbatch, and no more tensor ranks than it takes to give each chip a part of it
        splits = [split for split in splits if gb % split[2] == 0][:1] or splits
        micro = [gb / splits[0][2]]
        if group is None and (slices := _slices(row)) > 1:
            group = splits[0][2] * cp / slices
    chunks = [numbers["vpp"]] if numbers["vpp"] else range(1, 2 if soft.name < "2023" else 17)
    eps = [numbers["ep"]] if numbers["ep"] or not shape.experts else _powers(shape.experts)
    choices = [
        (*split, size, v, x or 1.0)
        for split in splits
        for size in dict.fromkeys(micro)
        for v in (chunks if split[1] > 1 else [1])
        for x in eps
    ]
    layout |= _fastest(shape, one, layout, choices, n, stages, _recompute(row, one, soft), group)
    return Run(row["row_id"], row["group"], shape, one, layout, _seconds(numbers, shape, one, layout, n))


def _powers(most: float) -> list[float]:
    return [2.0**i for i in range(int(np.log2(most)) + 1)]


def _splits(numbers, n: float, domain: int) -> list[tuple[float, float, float]]:
    """The split of n GPUs into (tp, pp, dp), or all splits that agree with what the row says."""
    known = [numbers[axis] for axis in ("tp", "pp", "dp")]
    tps = [known[0]] if known[0] else _powers(min(domain, 16))
    if known[1]:
        pps = [known[1]]
    elif known[2]:
        pps = [n / (known[2] * tp) for tp in tps]
    else:
        pps = [float(p) for p in range(1, 65) if n % p == 0]
    splits = {(tp, pp, known[2] or n / (tp * pp)) for tp in tps for pp in pps}
    found = sorted(split for split in splits if np.prod(split) == n and all(part % 1 == 0 for part in split))
    if not found:
        named = " x ".join(f"{axis} {part:g}" for axis, part in zip(("tp", "pp", "dp"), known, strict=True) if part)
        raise _Skip(f"{named} does not make {n:g} GPUs (without cp)")
    return found


def _fastest(shape, one: Machine, layout: dict, choices, n: float, stages, recompute, group: float | None) -> dict:
    """Of the choices (tp, pp, dp, microbatch, chunks, ep) the fastest that fits in memory.

    If none fits: with the next kind of recomputation; if not even weights and optimizer do, with the next ZeRO stage;
    at last of those that take least.
    """
    names = ("tp", "pp", "dp", "microbatch", "chunks", "ep")
    options = dict(zip(names, np.array(choices, dtype=float).T, strict=True))
    rules = {key: layout[key] for key in ("sequence", "global_batch", "cp")}
    found = validity(shape, **rules, **options, gpus=n)
    if not np.any(found.mask):
        broken = {rule: np.count_nonzero(mask) for rule, mask in found.faults.items()}
        raise _Skip(f"not a layout: {max(broken, key=broken.get)}")
    options = {name: values[found.mask] for name, values in options.items()}
    for zero, again in product(stages, recompute):
        extra = {"zero": zero, "recompute": again}
        total, state = _memory(shape, layout | extra, options)
        fits = total <= one.hbm_capacity
        if np.any(fits) or (again == recompute[-1] and np.any(state <= one.hbm_capacity)):
            break
    if not np.any(fits):
        fits = total <= total.min()
    options = {name: values[fits] for name, values in options.items()}
    ranks = options["dp"] * layout["cp"]
    if group and group > 1 and np.all(group < ranks) and np.all(ranks % group == 0) and np.all(group != options["dp"]):
        extra["shard_group"] = group
    layout = layout | extra
    keep = 0
    if options["tp"].size > 1:
        keep = int(np.argmin(np.broadcast_to(step(shape, one, **layout, **options).time, options["tp"].shape)))
    return extra | {name: float(values[keep]) for name, values in options.items()}


def _memory(shape, layout: dict, options: dict):
    """Bytes that each choice takes, and those of weights, gradients and optimizer. Interleaving costs little memory."""
    soft = layout["software"]
    need = footprint(
        shape,
        **{name: options[name] for name in ("tp", "pp", "dp", "microbatch", "ep")},
        **{name: layout[name] for name in ("sequence", "cp", "zero", "recompute", "sequence_parallel")},
        microbatches=layout["global_batch"] / (options["dp"] * options["microbatch"]),
        fused_attention=soft.attention is not None,
        dropout=soft.dropout,
    )
    return tuple(np.broadcast_to(part, options["tp"].shape) for part in (need.total, need.state))


def _seconds(numbers, shape, one: Machine, layout, n: float) -> float:
    """The measured step: as printed, or from throughput, or from FLOP/s or their utilisation by published FLOP counts.

    Model FLOPs are 6 P + 12 L h s a token, in full and without the mask; hardware FLOPs add what is recomputed.
    """
    tokens = layout["global_batch"] * layout["sequence"] / n
    if numbers["step_time_s"]:
        return numbers["step_time_s"]
    if numbers["tokens_per_s_per_gpu"]:
        return tokens / numbers["tokens_per_s_per_gpu"]
    flops = training_flops(shape, layout["sequence"], recompute=layout["recompute"])
    for kind, count in (("hw_tflops_per_gpu", flops.hardware), ("model_tflops_per_gpu", flops.model)):
        if numbers[kind]:
            return tokens * count / (numbers[kind] * TFLOP)
    peak = numbers["mfu_peak_tflops"]
    if peak is None and PRECISIONS[layout["precision"]][1] == 2.0:  # below 16 bits it may be either peak
        peak = one.peaks[layout["precision"]] / TFLOP
    for kind, count in (("hfu_pct", flops.hardware), ("mfu_pct", flops.model)):
        if numbers[kind] and peak:
            return tokens * count / (numbers[kind] / 100 * peak * TFLOP)
    raise _Skip("a utilisation is published, but not the peak that it refers to (mfu_peak_tflops)")


# --- Comparing -------------------------------------------------------------------------------------------------------


def predict(run: Run) -> Step:
    """Return the step that the model predicts for a run."""
    return step(run.model, run.machine, **run.layout)


@dataclass(frozen=True, repr=False)
class Score(Explained):
    """How well a source is predicted. Errors are shares of the measured step time; ``None`` where nothing is known.

    ``baseline_mean_abs_error`` is that of the one constant MFU that fits these rows best, ``skill`` is 1 minus the
    ratio of the two errors: above 0 the model beats that constant.
    """

    source: str
    rows: int
    predicted: int
    skipped: int
    mean_abs_error: float | None
    median_abs_error: float | None
    bias: float | None
    baseline_mean_abs_error: float | None
    skill: float | None


def score(source: str, errors, constant, *, skipped: int = 0) -> Score:
    """Score one source.

    Parameters
    ----------
    source : str
        Its name.
    errors : array_like
        Predicted over measured time, minus 1.
    constant : array_like
        Time at the full peak over measured time: the published MFU of each row.
    skipped : int
        Rows that could not be predicted.

    Returns
    -------
    Score

    Examples
    --------
    >>> found = score("lab", [0.02, -0.02], [0.40, 0.50])
    >>> round(found.baseline_mean_abs_error, 3), round(found.skill, 2)
    (0.1, 0.8)
    """
    errors, constant = np.asarray(errors, float), np.asarray(constant, float)
    n = len(errors)
    if not n:
        return Score(source, skipped, 0, skipped, None, None, None, None, None)
    # The mean of |constant / mfu - 1| is piecewise linear in 1 / mfu: its least is at one of the rows.
    baseline = min(float(np.mean(np.abs(constant / mfu - 1))) for mfu in constant)
    error = float(np.mean(np.abs(errors)))
    skill = 1 - error / baseline if baseline > 0 else None
    median, bias = float(np.median(np.abs(errors))), float(errors.mean())
    return Score(source, n + skipped, n, skipped, error, median, bias, baseline, skill)


def compare(runs: Iterable[Run], skipped: Iterable[Skipped] = ()) -> tuple[list[Score], Score]:
    """Score every source, and all rows together.

    Parameters
    ----------
    runs, skipped : iterable
        From :func:`read`.

    Returns
    -------
    tuple
        A list of :class:`Score`, in the order of the rows, and one for all rows.
    """
    found: dict[str, tuple[list, list]] = {}
    for run in runs:
        errors, constants = found.setdefault(run.source, ([], []))
        predicted = predict(run)
        errors.append(float(predicted.time) / run.seconds - 1)
        constants.append(float(predicted.model_flops / (predicted.gpus * predicted.peak)) / run.seconds)
    left: dict[str, int] = {}
    for one in skipped:
        left[one.source] = left.get(one.source, 0) + 1
    sources = dict.fromkeys([*found, *left])
    scores = [score(source, *found.get(source, ([], [])), skipped=left.get(source, 0)) for source in sources]
    everything = [np.concatenate([part[i] for part in found.values()]) if found else [] for i in (0, 1)]
    return scores, score("overall", *everything, skipped=sum(left.values()))


_NEUTRAL = {"gemm": 0.7, "gemm_8": 0.7, "gemm_4": 0.5, "memory": 0.7, "shows": 0.5}
_NEUTRAL |= {"attention": 0.3, "attention_2023": 0.3}


def calibrate(runs: Sequence[Run], *, rounds: int = 4) -> dict[str, float]:
    """Fit the constants of one generation of accelerators to runs on it, from the same neutral start every time.

    Parameters
    ----------
    runs : sequence of Run
        Runs on accelerators of one generation. Every source has one vote, shared by its rows.
    rounds : int
        Steps of Gauss and Newton on the logarithms of times and constants.

    Returns
    -------
    dict
        Constants by their names in :class:`clusterlab.training.Efficiency`. Those that no run shows stay as they began.
    """
    sizes: dict[str, int] = {}
    for run in runs:
        sizes[run.source] = sizes.get(run.source, 0) + 1
    weight = np.array([sizes[run.source] ** -0.5 for run in runs])
    values, nudge = dict(_NEUTRAL), 1.02
    for _ in range(rounds):
        # One call for each run: the constants as they are, and with each of them nudged.
        nudged = {name: np.full(1 + len(values), value) for name, value in values.items()}
        for i, name in enumerate(values):
            nudged[name][1 + i] *= nudge
        misses = np.log([_time_with(run, nudged) / run.seconds for run in runs])
        now, slopes = misses[:, 0], (misses[:, 1:] - misses[:, :1]) / np.log(nudge)
        # Rows far off (a machine short of memory, say) count less: least absolute rather than least squares.
        robust = weight / np.sqrt(np.maximum(np.abs(now - np.median(now)), 0.02))
        damped = np.vstack([slopes * robust[:, None], 0.3 * np.eye(len(values))])
        change = np.linalg.lstsq(damped, np.concatenate([-now * robust, np.zeros(len(values))]), rcond=None)[0]
        for name, by in zip(values, np.clip(change, -0.4, 0.4), strict=True):
            most = 9 / 16 if name.startswith("attention") else 1.0
            values[name] = float(np.clip(values[name] * np.exp(by), 0.05, most / nudge))
    return values


def _time_with(run: Run, constants: dict):
    one = replace(run.machine, efficiency=replace(run.machine.efficiency, **constants))
    return np.broadcast_to(step(run.model, one, **run.layout).time, np.shape(constants["gemm"]))


def leave_one_out(runs: Iterable[Run]) -> dict[str, float]:
    """Mean absolute error of each source under constants fitted to the other sources of its generation.

    Parameters
    ----------
    runs : iterable of Run
        From :func:`read`. Those whose source is alone in their generation are left out.

    Returns
    -------
    dict
        Source to error, a share of the measured time.
    """
    generations: dict[str, dict[str, list[Run]]] = {}
    for run in runs:
        generations.setdefault(run.machine.efficiency.generation, {}).setdefault(run.source, []).append(run)
    errors: dict[str, list] = {}
    for sources in generations.values():
        for source, held in sources.items():
            others = [run for other, rows in sources.items() if other != source for run in rows]
            if others:  # a source may have runs of several generations
                constants = calibrate(others)
                errors.setdefault(source, []).extend(abs(_time_with(run, constants) / run.seconds - 1) for run in held)
    return {source: float(np.mean(found)) for source, found in errors.items()}


# --- Command line ----------------------------------------------------------------------------------------------------


def main(argv: list[str] | None = None) -> int:
    """Predict the step time of published training runs, and compare source by source."""
    parser = argparse.ArgumentParser(prog="python -m clusterlab.validate", description=main.__doc__)
    parser.add_argument("file", help="a CSV in the form of data/training_throughput.csv")
    parser.add_argument("--json", action="store_true", help="print one object")
    text = "instead, fit the constants of each generation to all sources but one, and print the error of that one"
    parser.add_argument("--leave-one-out", action="store_true", help=text)
    arguments = parser.parse_args(argv)
    try:
        runs, skipped = read(arguments.file)
        scores, overall = compare(runs, skipped)
    except (OSError, ValueError) as error:
        print(error, file=sys.stderr)
        return 1
    if arguments.leave_one_out:
        left = leave_one_out(runs)
        print(json.dumps(left, indent=1) if arguments.json else "\n".join(f"{e:>6.1%}  {s}" for s, e in left.items()))
    elif arguments.json:
        sources = [vars(one) for one in scores]
        rows = [{"row": one.row, "why": one.why} for one in skipped]
        print(json.dumps({"sources": sources, "overall": vars(overall), "skipped": rows}, indent=1, allow_nan=False))
    else:
        print(table([*scores, overall]))
        for one in skipped:
            print(f"skipped {one.row} ({one.source}): {one.why}")
    return 0


def table(scores: Iterable[Score]) -> str:
    """A line for each score.

    Examples
    --------
    >>> print(table([score("lab", [0.02, -0.02], [0.40, 0.50], skipped=1)]))
    source  rows  predicted   mean  median    bias  constant MFU  skill
    lab        3          2   2.0%    2.0%   +0.0%         10.0%  +0.80
    """
    scores = list(scores)
    width = max(len(one.source) for one in scores)
    width = max(width, len("source"))
    lines = [f"{'source':<{width}}  rows  predicted   mean  median    bias  constant MFU  skill"]
    for one in scores:
        cells = [
            "-" if value is None else format(value, form)
            for value, form in (
                *((one.mean_abs_error, ".1%"), (one.median_abs_error, ".1%"), (one.bias, "+.1%")),
                *((one.baseline_mean_abs_error, ".1%"), (one.skill, "+.2f")),
            )
        ]
        padded = (cell.rjust(size) for cell, size in zip(cells, (5, 6, 6, 12, 5), strict=True))
        lines.append("  ".join([one.source.ljust(width), f"{one.rows:>4}", f"{one.predicted:>9}", *padded]))
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
