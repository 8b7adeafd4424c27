"""torchtitan: a line for each step that it logs, from every rank that may print.

``[rank0]:[titan] ... - root - INFO - step: 10  loss: 8.3  grad_norm: 2.1  memory: 47.5GiB(50.1%)  tps: 7,110  tflops:
411.74  mfu: 41.63%``. ``tps`` are tokens a second of one GPU; ``validate step:`` is a pass forward, and no step. Before
that it says which model it builds, of what shape and size, its mesh, its sequence and its batch, in words that have
changed over the years. Source: pytorch/torchtitan, ``torchtitan/components/metrics.py``, ``train.py`` and
``distributed/parallel_dims.py``.
"""

from __future__ import annotations

import math
import re

from .reading import TRAINING, Cells, Reading, cells, steady

_LINE = re.compile(r"(?<!validate )\bstep:\s*(\d+)\s.*?\btps:\s*([\d,]+)")
# "Building llama3 8B with TransformerModelArgs(...)", and "Building qwen3 0.6Bwith {...}"; a mesh is built too.
_BUILDS = re.compile(r"Building (\w+) ([\w.-]+?) ?with (\{.*?\n\}|\w+\(.*?\)\s*$)", re.DOTALL | re.MULTILINE)
_SIZE = re.compile(r"Model (\S+) (\S+) size: ([\d,]+) total parameters")
_TRAINER = re.compile(r"local batch size:? (\d+), global batch size:? (\d+).*?sequence length:? (\d+)")
_CARD = re.compile(r"(?:CUDA|GPU|HIP|XPU) capacity: (.+?) with")
_MESH = re.compile(r"Building \d+-D device mesh with \[(.*?)\], \[(.*?)\]|mesh with parallelism: ((?:\w+=\d+(?:, )?)+)")
_SAVED = re.compile(r"Applied (full|selective)\w* activation checkpointing", re.IGNORECASE)
_SHARDED = re.compile(r"Applied (FSDP|HSDP|fully_shard)")
_SYNTAX = re.compile(r"\x1b\[[0-9;]*m")  # colours


def reads(text: str) -> bool:
    """Whether the text is such a log."""
    return bool(_LINE.search(_SYNTAX.sub("", text)))


def read(text: str) -> Reading:
    """The run that a log is of: its tokens a second of a GPU."""
    text = _SYNTAX.sub("", text)
    lines = [(int(step), float(rate.replace(",", ""))) for step, rate in _LINE.findall(text)]
    rate, sentence = steady(lines, "tokens/s")
    row = {**_model(text), **cells(tokens_per_s_per_gpu=rate, software="torchtitan"), **_mesh(text)}
    if trained := _TRAINER.search(text):
        row |= cells(global_batch=trained[2], seq=trained[3])
        row |= cells(micro_batch=trained[1]) if row.get("pp", "1") == "1" else {}
    if card := _CARD.search(text):
        row |= cells(gpu=card[1])
    if saved := _SAVED.search(text):
        row |= cells(recompute=saved[1].casefold())
    if _SHARDED.search(text):
        row |= cells(fsdp="FSDP")
    said = [f"tokens/s of a GPU: {sentence}"]
    if skipped := text.count("validate step:"):
        said.append(f"{skipped} lines of validation left out")
    return Reading("a log of torchtitan", TRAINING, (row,), tuple(said))


def _model(text: str) -> Cells:
    """Its name, its size, and its shape where its arguments say the whole of it."""
    built, size = _BUILDS.search(text), _SIZE.search(text)
    named = built or size
    found = dict(cells(model=_name(named[1], named[2]) if named else None))
    if size:
        found |= cells(params_b=float(f"{int(size[3].replace(',', '')) / 1e9:.6g}"))
    return {**found, **(_shape(built[3]) if built else {})}


def _shape(arguments: str) -> Cells:
    """Sizes of a dense model; the width of Llama's feed-forward follows from three arguments, as its code has it."""
    said = dict(re.findall(r"\b(\w+)['\"]?\s*[=:]\s*([\d.]+|None|null|true|True)\b", arguments))
    number = {name: float(value) for name, value in said.items() if re.fullmatch(r"\d+\.?\d*", value)}
    if {"n_layers", "dim", "n_heads", "vocab_size"} - set(number) or not number["vocab_size"]:
        return {}
    if said.get("moe_enabled") in ("true", "True") or "kv_lora_rank" in said:
        return {}
    if not (ffn := number.get("hidden_dim")):
        if not (multiple := number.get("multiple_of")):
            return {}
        wide = int(number.get("ffn_dim_multiplier", 1.0) * int(8 * number["dim"] / 3))
        ffn = multiple * math.ceil(wide / multiple)
    heads = number["n_heads"]
    if number.get("head_dim", number["dim"] / heads) != number["dim"] / heads:
        return {}  # no column says it
    return cells(
        model="own shape",
        layers=number["n_layers"],
        hidden=number["dim"],
        heads=heads,
        kv_heads=number.get("n_kv_heads", heads),
        ffn=ffn,
        vocab=number["vocab_size"],
        gated="yes",
    )


def _mesh(text: str) -> Cells:
    """GPUs and axes of the mesh."""
    if not (mesh := _MESH.search(text)):
        return {}
    if mesh[3]:
        axes = dict(re.findall(r"(\w+)=(\d+)", mesh[3]))
        gpus = math.prod(int(axes.get(axis, 1)) for axis in ("pp", "dp_replicate", "dp_shard", "cp", "tp"))
    else:
        sizes = re.findall(r"\d+", mesh[2])
        axes = {"tp": "1", "pp": "1", "cp": "1", **dict(zip(re.findall(r"\w+", mesh[1]), sizes, strict=False))}
        gpus = math.prod(map(int, sizes))
    return {axis: axes[axis] for axis in ("tp", "pp", "cp", "ep") if axis in axes} | cells(n_gpus=gpus)


def _name(family: str, flavor: str) -> str:
    """``llama3 8B`` is Llama 3 8B."""
    found = re.fullmatch(r"([a-z]+)(\d.*)?", family.casefold())
    return " ".join(filter(None, [*(found.groups() if found else (family,)), flavor]))
