"""Validation: published training runs against the model of a step, source by source.

``python -m clusterlab.validate FILE.csv`` reads runs in the form of ``data/training_throughput.csv`` (a reader's own
too), predicts the time of a step of each, and compares. A row that cannot be predicted is named with the reason.

What a row leaves open is filled by rule, the same for every row (:func:`read`): choices that people tune and did not
publish are taken as the fastest that fit.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from pathlib import Path

import numpy as np

from . import hardware, models
from .memory import footprint
from .training import SOFTWARE, Machine, Step, machine, step
from .transformer import Transformer, parameters, training_flops
from .units import Explained, fmt

TEXT = ("row_id", "group", "model", "gpu", "recompute", "seq_parallel", "precision", "fsdp")
TEXT += ("metric_note", "derived", "source", "source_loc", "source_check", "quality")
SHAPE = ("layers", "hidden", "heads", "kv_heads", "ffn", "vocab")
COUNTS = ("seq", "n_gpus", "gpus_per_node", "tp", "pp", "dp", "cp", "ep", "vpp", "micro_batch", "global_batch")
MEASURES = ("step_time_s", "tokens_per_s_per_gpu", "model_tflops_per_gpu", "hw_tflops_per_gpu", "mfu_pct", "hfu_pct")
NUMBERS = ("params_b", "active_params_b", *SHAPE, *COUNTS, *MEASURES, "mfu_peak_tflops")
COLUMNS = (*TEXT, *NUMBERS)
REQUIRED = ("row_id", "group", "model", "gpu", "n_gpus")


VPP_FROM = "2023"


class _Skip(Exception):  # noqa: N818, it is no error
    """Why a row cannot be predicted."""


@dataclass(frozen=True)
class Run:
    """One published run: its layout as :func:`clusterlab.training.step` takes it, and its measured seconds a step."""

    row: str
    source: str
    quality: str
    model: Transformer
    machine: Machine
    layout: dict
    seconds: float


def published():
    """Read the runs that come with the library."""
    return read(files(__package__) / "data" / "training_throughput.csv")


def read(path) -> tuple[list[Run], list[dict]]:
    path = Path(str(path))
    text = path.read_text(encoding="utf-8-sig")
    lines = csv.reader(io.StringIO(text))
    heading = next(lines, None)
    if not heading:
        raise ValueError(f"{path}, line 1: the file is empty; it needs a heading and rows")
    heading = [name.strip() for name in heading]
    if unknown := [name for name in heading if name not in COLUMNS]:
        raise ValueError(f"{path}, line 1: unknown columns {', '.join(map(repr, unknown))}; known: {', '.join(COLUMNS)}")
    if missing := [name for name in REQUIRED if name not in heading]:
        raise ValueError(f"{path}, line 1: missing columns {', '.join(missing)}")
    runs, skipped = [], []
    for cells in lines:
        if not cells:
            continue
        where = f"{path}, line {lines.line_num}"
        if len(cells) != len(heading):
            raise ValueError(f"{where}: {len(cells)} fields, the heading has {len(heading)}")
        row = dict.fromkeys(COLUMNS, "") | {k: c.strip() for k, c in zip(heading, cells, strict=True)}
        values = _numbers(row, where)
        try:
            runs.append(_run(row, values))
        except _Skip as why:
            skipped.append({"row": row["row_id"], "group": row["group"], "why": str(why)})
        except ValueError as error:
            skipped.append({"row": row["row_id"], "group": row["group"], "why": str(error)})
    return runs, skipped


def _numbers(row, where):
    values = {}
    for name in NUMBERS:
        if row[name] == "":
            values[name] = None
            continue
        try:
            value = float(row[name])
        except ValueError:
            raise ValueError(f"{where}, row {row['row_id']}: {name} must be a number, got {row[name]!r}") from None
        if not (np.isfinite(value) and value > 0):
            raise ValueError(f"{where}, row {row['row_id']}: {name} must be above zero, got {row[name]!r}")
        values[name] = value
    return values


# --- What a row says --------------------------------------------------------------------------------------------------

_ACCELERATORS = (
    (r"gb300", "GB300"), (r"gb200", "GB200"), (r"b300", "B300"), (r"b200", "B200"),
    (r"h200", "H200 SXM"), (r"h800", "H800 SXM"), (r"h100.*pcie", "H100 PCIe"), (r"h100", "H100 SXM"),
    (r"a100.*40", "A100 40GB"), (r"a100", "A100 80GB"), (r"v100", "V100 SXM2"),
    (r"mi300x", "MI300X"), (r"mi325x", "MI325X"), (r"mi355x", "MI355X"), (r"mi250x?", "MI250X"),
    (r"tpu.?v4", "TPU v4"), (r"tpu.?v5p", "TPU v5p"), (r"tpu.?(v5e|v5.?lite)", "TPU v5e"),
    (r"(tpu.?v6e|trillium)", "TPU v6e"), (r"(tpu.?v?7|ironwood)", "TPU v7"),
    (r"gaudi.?3", "Gaudi 3"), (r"trainium.?2|trn2", "Trainium2"),
)


def _machine(row, values) -> Machine:
    name = row["gpu"].casefold()
    for pattern, known in _ACCELERATORS:
        if re.search(pattern, name):
            break
    else:
        raise _Skip(f"no data on the accelerator {row['gpu']!r}")
    chip = hardware.accelerator(known)
    domain = chip.scale_up_domain
    if values["gpus_per_node"] and domain <= 16:
        domain = int(values["gpus_per_node"])
    one = machine(known, domain=domain)
    if match := re.search(r"(\d+(?:\.\d+)?) ?tb/s", name):
        one = replace(one, hbm_bandwidth=float(match[1]) * 1e12)
    if (match := re.search(r"(\d+) ?w cap", name)) and chip.tdp:
        slower = min(float(match[1]) / chip.tdp, 1.0) ** (1 / 3)
        one = replace(one, peaks={k: v * slower for k, v in one.peaks.items()})
    return one


def _model(row, values) -> Transformer:
    name = re.sub(r"\(.*?\)|PTD-P|ZeRO-3", "", row["model"]).strip()
    known = None
    for guess in (name, f"{name} (Megatron-Core)", f"MaxText {name.removesuffix(' dense')}"):
        try:
            found = models.model(guess)
        except ValueError:
            continue
        if all(values[k] is None or values[k] == getattr(found, k) for k in ("layers", "hidden", "heads")):
            known = found
    given = {k: int(values[k]) for k in SHAPE if values[k] is not None}
    if known is not None:
        return replace(known, **{k: v for k, v in given.items() if k in ("vocab",)}) if given else known
    if values["active_params_b"] and values["active_params_b"] != values["params_b"]:
        raise _Skip(f"a mixture of experts that is not in the catalogue: {row['model']}")
    lacking = [k for k in ("layers", "hidden", "heads") if k not in given]
    if lacking:
        raise _Skip(f"{row['model']} is not in the catalogue, and the row lacks {', '.join(lacking)}")
    given.setdefault("vocab", 50304)
    if given["hidden"] % given["heads"]:
        given["head_dim"] = 128
    if "ffn" in given:
        options = [{"gated": g, "tied": t} for g in (False, True) for t in (True, False)]
        if values["params_b"]:
            def off(o):
                return abs(parameters(Transformer(**given, **o)).total / (values["params_b"] * 1e9) - 1)
            best = min(options, key=off)
        else:
            best = options[0]
    else:
        given["ffn"], best = 4 * given["hidden"], {"tied": True}
    return Transformer(**given, **best, name=row["model"])


_PRECISION = ((r"nvfp4|fp4", "fp4"), (r"fp8|f8|float8", "fp8"), (r"fp16|float16|half", "fp16"), (r"bf16|^$|not stated", "bf16"))


def _precision(row, one: Machine) -> str:
    text = row["precision"].casefold()
    for pattern, name in _PRECISION:
        if re.search(pattern, text):
            break
    else:
        raise _Skip(f"no data on the precision {row['precision']!r}")
    if name == "bf16" and "bf16" not in one.peaks:
        name = "fp16"
    if name not in one.peaks and name != "fp4":
        raise _Skip(f"{one.name} has no {name} peak")
    if name not in one.peaks:
        raise _Skip(f"{one.name} has no {name} peak")
    return name


def _software(row, one: Machine, precision):
    text = f"{row['source']} {row['source_loc']}"
    years = [2000 + int(y) for y in re.findall(r"arXiv:(\d\d)\d\d\.", text)]
    years += [int(y) for y in re.findall(r"(?<!\d)(20[12]\d)(?:\d\d)?(?!\d)", text)]
    if years:
        year = max(years)
    elif one.efficiency.generation == "Volta":
        year = 2021
    elif precision == "fp16":
        year = 2022
    else:
        year = 2023 if row["precision"].startswith("amp") or one.efficiency.generation == "Ampere" else 2024
    return SOFTWARE[str(min(max(year, 2021), 2024))]


def _run(row, values) -> Run:
    one = _machine(row, values)
    shape = _model(row, values)
    precision = _precision(row, one)
    software = _software(row, one, precision)
    if values["n_gpus"] is None:
        raise _Skip("n_gpus is not published")
    if values["seq"] is None:
        raise _Skip("seq is not published")
    n, s = values["n_gpus"], int(values["seq"])
    tp, cp = values["tp"], values["cp"] or 1
    pp, dp = values["pp"], values["dp"]
    if tp is None:
        raise _Skip("tp is not published")
    if pp is None and dp is None:
        raise _Skip("neither pp nor dp is published")
    if dp is None:
        dp = n / (tp * pp * cp)
    if pp is None:
        pp = n / (tp * dp * cp)
    if tp * pp * dp * cp != n or min(dp, pp) < 1:
        raise _Skip(f"tp {tp:g} x pp {pp:g} x dp {dp:g} x cp {cp:g} is not {n:g} GPUs")
    ep = values["ep"] or 1
    layout = dict(sequence=s, tp=int(tp), pp=int(pp), dp=int(dp), cp=int(cp), ep=int(ep), precision=precision, software=software)
    fsdp = row["fsdp"]
    zero, group = 1 if software.data_overlap else 0, None
    if fsdp:
        number = re.fullmatch(r"\d+", fsdp)
        zero = 2 if "not reshard" in fsdp else zero
        if number and int(fsdp) > 1:
            zero = 3
            if int(fsdp) < dp * cp and int(fsdp) != dp:
                group = int(fsdp)
    layout |= dict(zero=zero)
    if group and (dp * cp) % group == 0:
        layout["shard_group"] = group
    sp = row["seq_parallel"].casefold()
    layout["sequence_parallel"] = not (sp.startswith("no") and "not stated" not in sp) if sp else software.name != "2021"
    layout["sequence_parallel"] = layout["sequence_parallel"] and tp > 1
    gb = values["global_batch"]
    if gb is None:
        if pp > 1 or values["micro_batch"] is None:
            raise _Skip("global_batch is not published")
        gb = dp * values["micro_batch"]
    layout["global_batch"] = gb
    if gb % dp:
        raise _Skip(f"dp {dp:g} does not divide global_batch {gb:g}")
    text = row["recompute"].casefold()
    if text.startswith(("none", "no ")) or text == "no":
        again = ["none"]
    elif text.startswith("full"):
        again = ["full"]
    elif text.startswith("sel"):
        again = ["selective"]
    else:
        again = ["none"] if software.attention else ["full"]
    each = gb / dp
    micro = [values["micro_batch"]] if values["micro_batch"] else [b for b in (1, 2, 4, 8, 16, 32) if each % b == 0]
    micro = [b for b in micro if each % b == 0]
    if not micro:
        raise _Skip(f"micro_batch {values['micro_batch']:g} does not divide the {each:g} sequences of a rank")
    if pp == 1:
        chunks = [1]
    elif values["vpp"]:
        chunks = [values["vpp"]]
    elif software.name < VPP_FROM:
        chunks = [1]
    else:
        chunks = [v for v in range(1, 17) if v * pp <= shape.layers + 2]
    b, r, v = (x.ravel() for x in np.meshgrid(micro, again, chunks, indexing="ij"))
    if len(b) > 1:
        need = footprint(shape, sequence=s, microbatches=each / b, microbatch=b, tp=tp, pp=pp, dp=dp, cp=cp, ep=ep,
            etp=1 if ep > 1 else None, chunks=v, zero=zero, recompute=r, sequence_parallel=layout["sequence_parallel"],
            fused_attention=software.attention is not None, dropout=software.dropout, shard_group=layout.get("shard_group"))
        fits = need.total <= one.hbm_capacity
        if not fits.any():
            fits = b == b.min()
        b, r, v = b[fits], r[fits], v[fits]
    time = np.broadcast_to(step(shape, one, **layout, microbatch=b, recompute=r, chunks=v).time, b.shape)
    k = int(np.argmin(time))
    layout |= {"microbatch": float(b[k]), "recompute": str(r[k]), "chunks": int(v[k])}
    return Run(row["row_id"], row["group"], row["quality"], shape, one, layout, _seconds(row, values, shape, layout))


def _seconds(row, values, shape, layout):
    n = layout["tp"] * layout["pp"] * layout["dp"] * layout["cp"]
    tokens = layout["global_batch"] * layout["sequence"]
    if values["step_time_s"]:
        return values["step_time_s"]
    if values["tokens_per_s_per_gpu"]:
        return tokens / (values["tokens_per_s_per_gpu"] * n)
    flops = training_flops(shape, layout["sequence"], recompute=layout["recompute"])
    for name, count in (("hw_tflops_per_gpu", flops.hardware), ("model_tflops_per_gpu", flops.model)):
        if values[name]:
            return tokens * float(count) / (values[name] * 1e12 * n)
    for name, count in (("hfu_pct", flops.hardware), ("mfu_pct", flops.model)):
        if values[name] and values["mfu_peak_tflops"]:
            return tokens * float(count) / (values[name] / 100 * values["mfu_peak_tflops"] * 1e12 * n)
    raise _Skip("no step time, throughput or utilisation is published")


def predict(run: Run) -> Step:
    return step(run.model, run.machine, **run.layout)
