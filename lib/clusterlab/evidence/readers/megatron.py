"""Megatron-LM and Megatron-Core (and what logs as they do: Megatron-Bridge, Primus, Megatron-DeepSpeed).

A line an interval: ``iteration 50/ 5000 | ... | elapsed time per iteration (ms): 61674.3 | throughput per GPU
(TFLOP/s/GPU): 68.2 | global batch size: 128 |``. Before training it prints its arguments, a line each, filled with
dots. Source: NVIDIA/Megatron-LM, ``megatron/training/training.py`` (``training_log``) and ``arguments.py``
(``_print_args``); argonne-lcf/Megatron-DeepSpeed writes ``elapsed_time_per_iteration_ms=3415.3``.
"""

from __future__ import annotations

import re

from .reading import TRAINING, Cells, Reading, cells, dotted, first, steady

_LINE = re.compile(r"\biteration[ =]\s*(\d+)\s*/\s*\d+\s*\|(.*elapsed[ _]time[ _]per[ _]iteration.*)")
_TIME = re.compile(r"elapsed[ _]time[ _]per[ _]iteration[ _]\(?(m?s)\)?\s*[:=]\s*([\d.]+)")
_UNIT = {"ms": 1e-3, "s": 1.0}  # BigScience's Megatron-DeepSpeed writes seconds
_BATCH = re.compile(r"glo(?:ba|ab)l[ _]batch[ _]size\s*[:=]\s*(\d+)")  # a fork prints "gloabl"
_WORLD = re.compile(r"using world size: (\d+)|world_size\s*[=:]\s*(\d+)")

# Columns that an argument says as it is.
_AS_IT_IS = {
    "seq": ("seq_length", "encoder_seq_length"),
    "micro_batch": ("micro_batch_size",),
    "tp": ("tensor_model_parallel_size",),
    "pp": ("pipeline_model_parallel_size",),
    "cp": ("context_parallel_size",),
    "layers": ("num_layers",),
    "hidden": ("hidden_size",),
    "heads": ("num_attention_heads",),
    "ffn": ("ffn_hidden_size",),
    "vocab": ("padded_vocab_size",),
    "expert_ffn": ("moe_ffn_hidden_size",),
    "n_gpus": ("world_size",),
}


def reads(text: str) -> bool:
    """Whether the text is such a log."""
    return bool(_LINE.search(text))


def read(text: str) -> Reading:
    """The run that a log is of."""
    lines = [(int(found[1]), found[2]) for found in _LINE.finditer(text)]
    batches = [int(found[1]) if (found := _BATCH.search(line)) else None for _, line in lines]
    batch = batches[-1]
    kept = [entry for entry, own in zip(lines, batches, strict=True) if own == batch]
    steps = [(step, float(found[2]) * _UNIT[found[1]]) for step, line in kept if (found := _TIME.search(line))]
    seconds, sentence = steady(steps)
    said = [f"step: {sentence}"]
    if len(kept) < len(lines):
        said.append(f"{len(lines) - len(kept)} lines left out, whose global batch is not yet {batch}")
    arguments = dotted(text)
    if not {"micro_batch_size", "hidden_size"} & set(arguments):  # its timers have dots too
        arguments = {}
    row = {**_of(arguments), **cells(global_batch=batch or first(("global_batch_size",), arguments))}
    if "n_gpus" not in row and (world := _WORLD.search(text)):
        row["n_gpus"] = world[1] or world[2]
    if not arguments:
        said.append("the log has none of Megatron's arguments")
    stack = (
        "Megatron-DeepSpeed" if "DeepSpeed" in text else "Primus" if "primus" in text.casefold() else "Megatron-Core"
    )
    row |= cells(step_time_s=seconds, software=stack)
    return Reading("a log of Megatron", TRAINING, (row,), tuple(said))


def _of(arguments: dict[str, str]) -> dict[str, str]:
    """What the arguments say, as columns; nothing of what they leave at None."""
    found = {column: value for column, names in _AS_IT_IS.items() if (value := first(names, arguments))}
    on = {name for name, value in arguments.items() if value == "True"}
    if "swiglu" in arguments:  # a log that somebody cut may lack it
        found["gated"] = "yes" if "swiglu" in on else "no"
    if not {"layers", "hidden", "heads", "ffn", "vocab"} - set(found):  # its owner may give the model a name
        found["model"] = "own shape"
    if "group_query_attention" in on and (groups := first(("num_query_groups",), arguments)):
        found["kv_heads"] = groups
    if experts := first(("num_experts",), arguments):
        found |= cells(experts=experts, experts_per_token=first(("moe_router_topk",), arguments))
        found |= cells(ep=first(("expert_model_parallel_size",), arguments))
        found.setdefault("expert_ffn", found.get("ffn", ""))
    else:
        found.pop("expert_ffn", None)
    if chunks := first(("virtual_pipeline_model_parallel_size",), arguments):
        found["vpp"] = chunks
    return {**found, **_switches(arguments, on)}


def _switches(arguments: dict[str, str], on: set[str]) -> Cells:
    """Precision, recomputation and overlap, where the arguments say them."""

    def switch(name: str) -> str | None:
        return None if name not in arguments else "yes" if name in on else "no"

    precision: str | None = next((name for name in ("fp16", "bf16") if name in on), None)
    if first(("fp8",), arguments):
        precision = "mxfp8" if first(("fp8_recipe",), arguments) == "mxfp8" else "fp8"
    recompute = first(("recompute_granularity",), arguments) or "none" if "recompute_granularity" in arguments else None
    return cells(
        precision=precision,
        recompute=recompute,
        seq_parallel=switch("sequence_parallel"),
        dp_overlap=switch("overlap_grad_reduce"),
        tp_overlap="yes" if "tp_comm_overlap" in on else None,
    )
