"""torchtitan: a line for each step that it logs, from every rank that may print.

``[rank0]:[titan] ... - root - INFO - step: 10  loss: 8.3  grad_norm: 2.1  memory: 47.5GiB(50.1%)  tps: 7,110  tflops:
411.74  mfu: 41.63%``. ``tps`` are tokens a second of one GPU. Before, it says which model it builds, its sequence and
its batch. Source: pytorch/torchtitan, ``torchtitan/components/metrics.py`` and ``train.py``.
"""

from __future__ import annotations

import re

from .reading import TRAINING, Reading, cells, steady

_LINE = re.compile(r"\bstep:\s*(\d+)\s.*?\btps:\s*([\d,]+)")
_BUILDS = re.compile(r"Building (\w+) (\w+)")
_TRAINER = re.compile(r"local batch size:? (\d+), global batch size:? (\d+).*?sequence length:? (\d+)")
_CARD = re.compile(r"(?:CUDA|GPU|HIP|XPU) capacity: (.+?) with")
_AXES = {"dp_shard": "dp_shard", "tp": "tp", "pp": "pp", "cp": "cp", "ep": "ep"}
_SYNTAX = re.compile(r"\x1b\[[0-9;]*m")  # colours


def reads(text: str) -> bool:
    """Whether the text is such a log."""
    return bool(_LINE.search(_SYNTAX.sub("", text)))


def read(text: str) -> Reading:
    """The run that a log is of: its tokens a second of a GPU."""
    text = _SYNTAX.sub("", text)
    lines = [(int(step), float(rate.replace(",", ""))) for step, rate in _LINE.findall(text)]
    rate, sentence = steady(lines, "tokens/s")
    row = cells(tokens_per_s_per_gpu=rate, software="torchtitan")
    if built := _BUILDS.search(text):
        row |= cells(model=_name(built[1], built[2]))
    if trained := _TRAINER.search(text):
        row |= cells(global_batch=trained[2], seq=trained[3])
    if card := _CARD.search(text):
        row |= cells(gpu=card[1])
    if mesh := re.search(r"Building (\d+)-D device mesh with \[(.*?)\], \[(.*?)\]", text):
        names = re.findall(r"\w+", mesh[2])
        row |= {
            axis: size
            for axis, size in zip(names, re.findall(r"\d+", mesh[3]), strict=False)
            if axis in ("tp", "pp", "cp")
        }
    said = f"tokens/s of a GPU: {sentence}"
    return Reading("a log of torchtitan", TRAINING, (row,), (said,))


def _name(family: str, flavor: str) -> str:
    """``llama3 8B`` is Llama 3 8B."""
    found = re.fullmatch(r"([a-z]+)(\d.*)?", family.casefold())
    return " ".join(filter(None, [*(found.groups() if found else (family,)), flavor]))
