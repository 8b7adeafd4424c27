"""What a row of training names: its machine, model, precision and software, and how it shards and recomputes."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache, lru_cache

from .. import catalogue
from ..catalogue import SOFTWARE, Machine, Software, machine
from ..model import PRECISIONS, Recurrent, Transformer
from ..own import match_accelerator
from ..planning import match_stack, plausible_stacks
from .naming import in_catalogue, model_named
from .rows import Row, SkipRow

SHAPE = ("layers", "hidden", "heads", "kv_heads", "ffn", "vocab")
EXPERTS = ("experts", "experts_per_token", "shared_experts", "expert_ffn", "dense_layers")


def row_machine(row: Row, gpus: float | None) -> Machine:
    """The accelerator that a row names, of which it has so many.

    "2.4TB/s" and "500 W cap" in the name change its memory and its clock.
    """
    text = row.text["gpu"].casefold()
    chip = match_accelerator(text)
    if chip is None:
        raise SkipRow(f"no data on the accelerator {row.text['gpu']!r}")
    host, domain = row["gpus_per_node"], None
    if gpus and host and gpus > host and gpus % host:
        raise SkipRow(f"gpus_per_node must divide n_gpus, or be no less; got {host:g} and {gpus:g}")
    # A rack or a pod is one domain however many of its accelerators share a host.
    if (chip.scale_up_domain or 1) <= 16:
        domain = int(host) if host else None
        if not host and gpus and chip.scale_up_domain and gpus > chip.scale_up_domain:
            row.filled["gpus_per_node"] = f"{chip.scale_up_domain} (reference server)"
    if chip.name.startswith("TPU") and (slices := tpu_slices(row)) > 1:
        domain = max(int((gpus or 1) / slices), 1)
    bandwidth, cap = re.search(r"(\d+(?:\.\d+)?) ?tb/s", text), re.search(r"(\d+) ?w cap", text)
    rate = float(bandwidth[1]) * 1e12 if bandwidth else None
    return _machine_of(chip.name, domain, rate, float(cap[1]) if cap else 0)


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


def tpu_slices(row: Row) -> int:
    """The slices of a TPU run, "2x v5e-256": wires between chips end at the slice, the data centre's network begins."""
    found = re.search(r"\b(\d+) ?x ?v\d\w*-\d+", f"{row.text['gpu']} {row.text['metric_note']}".casefold())
    return int(found[1]) if found else 1


def row_model(row: Row) -> Transformer:
    """The model that a row names, from the catalogue, or one made of its shape, or of its size."""
    shape = tuple((key, int(value)) for key in (*SHAPE, *EXPERTS) if (value := row[key]) is not None)
    if (gated := yes_or_no(row, "gated")) is not None:
        shape = (*shape, ("gated", gated))
    found, note = model_named(row.text["model"], shape, row["params_b"], row["active_params_b"], row["tp"] or 1)
    if note:
        row.filled["model"] = note
    return found


# What people write for a precision, whole: a text that says more, such as "bf16 (fp8 disabled)", is refused.
_PRECISIONS = (
    (r"(?:nv|mx)?fp4", "fp4"),
    (r"(?:fp8|float8).?row.?wise", "fp8-row"),
    (
        r"(?:mx)?fp8|float8|e4m3|"
        r"fp8[ _-](?:cs|mx|ds|full|hybrid|blockwise|block|tensorwise|delayed|current)(?: \(fp8-mx\))?",
        "fp8",
    ),
    (r"int8", "int8"),
    (r"(?:amp_)?(?:fp16|float16)|half|16-mixed", "fp16"),
    (r"(?:amp_)?(?:bf16|bfloat16)|bf16-mixed|not stated|mixed|amp|", "bf16"),
)


def row_precision(row: Row, machine: Machine) -> str:
    """The precision that a row names, if its chip has a peak for it."""
    text = row.text["precision"].casefold()
    name = next((name for pattern, name in _PRECISIONS if re.fullmatch(pattern, text)), None)
    if name is None:
        raise SkipRow(
            f"no data on the precision {row.text['precision']!r}: one of bf16, fp16, fp8, mxfp8, fp4, nvfp4, int8"
        )
    if name == "bf16" and "bf16" not in machine.peaks:
        name = "fp16"
    if PRECISIONS[name][0] not in machine.peaks:
        raise SkipRow(f"no {name} peak of {machine.name}")
    if not re.search(r"\d", text):
        row.filled["precision"] = f"{name} (usual)"
    return name


def row_stacks(row: Row, machine: Machine, precision: str, model: Transformer) -> tuple[str, list[Software]]:
    """The stack that the column ``software`` names and what it does; or "", and what every plausible one does.

    What nobody names is a mixture over the stacks of the machine's and the model's years: half precision says until
    2022 on Ampere, bfloat16 from then on.
    """
    named = match_stack(row.text["software"], machine.name)
    if named:
        return named.stack.name, [_as_run(SOFTWARE[named.record], row, machine, precision, model)]
    entry, generation = in_catalogue(row.text["model"], (), None), machine.efficiency.generation
    year, until = entry.year if entry else 0, None
    if precision == "fp16" and generation == "Ampere":
        until = 2022
    elif precision == "bf16" and generation == "Ampere":
        year = max(year, 2022)
    names = plausible_stacks(machine.name, year=int(year), until=until)
    return "", list(dict.fromkeys(_as_run(SOFTWARE[name], row, machine, precision, model) for name in names))


def _as_run(software: Software, row: Row, machine: Machine, precision: str, model: Transformer) -> Software:
    """A stack as a row runs it: in the recipes of its models, and with what the row switches."""
    recurrent = bool(model.count(Recurrent))
    fuses = PRECISIONS[precision][1] < 2 and machine.domain > 16 and not recurrent
    if software.name == "NeMo 26.06" and not fuses:
        # NVIDIA's containers from June 2026 on fuse experts in 8 and 4 bits on racks of Blackwell and hide all-to-alls,
        # but not in recipes of hybrids, whose graphs hold mixers and routers alone and which set no tp_comm_overlap
        # (nemotron_3_workload_base_configs.py, recipes/nemotronh).
        software = SOFTWARE["NeMo"]
    changes: dict[str, object] = {}
    if software.name == "NeMo" and recurrent:
        changes |= dict.fromkeys(SWITCHES["tp_overlap"], False)
    for column, fields in SWITCHES.items():
        if (on := yes_or_no(row, column)) is not None:
            changes |= dict.fromkeys(fields, on)
    if said := row.text["dispatcher"].casefold():
        if not re.search("all.?to.?all|deepep|hybridep|flex|all.?gather", said):
            raise _allowed(row.text["dispatcher"], "dispatcher", "alltoall, DeepEP, HybridEP or allgather")
        changes["tokens_cross_once"] = not re.search("all.?to.?all", said)
    if said := row.text["attention_kernel"].casefold():
        kernel = next((name for pattern, name in _KERNELS if re.search(pattern, said)), None)
        if kernel is None:
            raise _allowed(row.text["attention_kernel"], "attention_kernel", "one of unfused, Triton, FA2, FA3, cuDNN")
        changes |= {key: getattr(SOFTWARE[kernel], key) for key in ("attention", "attention_backward")}
    return _changed(software.name, tuple(sorted(changes.items())))


# What a run switches, by the column that says it.
SWITCHES: dict[str, tuple[str, ...]] = {
    "tp_overlap": ("tensor_overlap_forward", "tensor_overlap_backward"),
    "pp_overlap": ("stage_overlap",),
    "dp_overlap": ("data_overlap",),
    "ep_overlap": ("expert_overlap",),
}
# Kernels of attention, and the stack that is known to run each.
_KERNELS = (
    ("unfused|none|eager", "2021"),
    ("triton", "2023"),
    (r"cudnn|\bte\b|transformer.?engine|^f(?:lash)?.?a(?:ttention|ttn)?.?v?3", "NeMo"),
    ("flash|^fa|sdpa|aiter", "2024"),
)


@cache
def _changed(name: str, changes: tuple[tuple[str, object], ...]) -> Software:
    """The stack with what a row changes."""
    return replace(SOFTWARE[name], **dict(changes)) if changes else SOFTWARE[name]  # type: ignore[arg-type]  # fields


def software_year(software: Software) -> int:
    """The year of an era; stacks with a name are of 2024 and later."""
    return int(software.name) if software.name.isdecimal() else 2024


def sharding(said: str, machine: Machine, software: Software, *, staged: bool) -> tuple[list[int], float | None]:
    """ZeRO stages that a row allows by what it says, the likeliest first; the ranks that share if it says how many.

    FSDP in a pipeline takes the time of stage 1: weights stay gathered, and gradients are added up whole and leave with
    the last microbatch. Source: PyTorch, ``torch.distributed.pipelining.stage``; torchtitan reshards only without one.
    """
    text = said.casefold()
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
    raise _allowed(said, "fsdp", "the number of ranks that share, or one of none, ddp, fsdp, hsdp, zero-0 to zero-3")


def recomputations(row: Row, machine: Machine, software: Software) -> list[str]:
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
        raise _allowed(row.text["recompute"], "recompute", "one of none, selective, full")
    if machine.name.startswith("TPU"):
        return ["none", "full"]
    return ["none"] if software.fused_attention else ["full"]


def sequence_parallel(row: Row, software: Software) -> bool:
    """Whether activations are split along the sequence over tensor-parallel ranks, as Megatron does since 2022."""
    said = yes_or_no(row, "seq_parallel")
    return software.name != "2021" if said is None else said


def yes_or_no(row: Row, column: str) -> bool | None:
    """A switch of a row; None where it says nothing."""
    text = row.text[column].casefold()
    if not text:
        return None
    if re.match(r"(yes|true|on|1|not stated)(?![a-z\d])", text):
        return True
    if re.match(r"(no|none|false|off|0)(?![a-z\d])", text):
        return False
    raise _allowed(row.text[column], column, "yes or no")


def _allowed(said: str, column: str, allowed: str) -> SkipRow:
    """A text that no rule reads: using it as the usual one would be a silent fallback."""
    return SkipRow(f"{column} must be {allowed}, or empty; got {said!r}")
