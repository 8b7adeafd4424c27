"""DeepSpeed: samples a second of the whole job, every few steps.

``[timer.py:260:stop] epoch=0/micro_step=40/global_step=10, RunningAvgSamplesPerSec=25.03, CurrSamplesPerSec=25.70,
MemAllocated=4.32GB``. Until 2022 it wrote ``0/20, RunningAvgSamplesPerSec=...``. Its configuration is printed as
``train_batch_size ... 256`` and ``"train_micro_batch_size_per_gpu": 4``. Source: deepspeedai/DeepSpeed,
``deepspeed/utils/timer.py`` (``ThroughputTimer``) and ``runtime/config.py``.
"""

from __future__ import annotations

import re

from .reading import TRAINING, Reading, cells, steady

_LINE = re.compile(r"(?:global_step=|\b\d+/)(\d+), RunningAvgSamplesPerSec=[\d.]+, CurrSamplesPerSec=([\d.]+)")
_SETTINGS = {
    "global_batch": r"train_batch_size",
    "micro_batch": r"train_micro_batch_size_per_gpu",
    "n_gpus": r"world_size",
    "fsdp": r"zero_optimization_stage|\"stage\"",
}


def reads(text: str) -> bool:
    """Whether the text is such a log."""
    return bool(_LINE.search(text))


def read(text: str) -> Reading:
    """The run that a log is of: the step follows from the samples a second where the batch is known."""
    rate, sentence = steady([(int(step), float(rate)) for step, rate in _LINE.findall(text)], "samples/s")
    row = {}
    for column, form in _SETTINGS.items():
        if found := re.search(rf"(?:{form})[\"']?\s*(?:\.{{2,}}|[:=])\s*(\d+)", text):
            row[column] = f"zero-{found[1]}" if column == "fsdp" else found[1]
    row |= cells(software="DeepSpeed", samples_per_s=rate)
    said = (f"samples/s of the job: {sentence}",)
    return Reading("a log of DeepSpeed", TRAINING, (row,), said)
