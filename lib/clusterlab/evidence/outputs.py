"""Outputs: what programs print or write, found by its content by one of :mod:`clusterlab.evidence.readers`."""

from __future__ import annotations

import csv
import re
from dataclasses import replace
from types import ModuleType

from ..own import match_accelerator
from .readers import (
    deepspeed,
    genai_perf,
    jobs,
    maxtext,
    megatron,
    nemo,
    serve_bench,
    torchtitan,
    trainer,
    trtllm_bench,
    wandb,
)
from .readers.jobs import JobList
from .readers.reading import OFFLINE, ONLINE, TRAINING, Reading

# In this order: a log of Megatron-DeepSpeed has DeepSpeed's lines too, and a trainer's summary may end any.
READERS: tuple[ModuleType, ...] = (jobs, serve_bench, genai_perf, trtllm_bench, wandb)
READERS += (megatron, nemo, torchtitan, maxtext, deepspeed, trainer)

# What a driver calls its GPUs, in the lines that programs and nvidia-smi print at their start.
_CARD = re.compile(r"\b(?:NVIDIA (?:GeForce |RTX )?[A-Z]+\d\w*[\w -]{0,20}|Tesla V100[\w-]*|AMD Instinct MI\d+\w*)")

__all__ = ["OFFLINE", "ONLINE", "READERS", "TRAINING", "JobList", "Reading", "read_output"]


def read_output(text: str, name: str) -> Reading | JobList | None:
    r"""What a program's output says, or None where no reader knows it: then it is a table, or nothing.

    Examples
    --------
    >>> log = "\n".join(f"completed step: {i}, seconds: 5.{i}, TFLOP/s/device: 1" for i in range(9))
    >>> read_output(log, "mine.log").rows
    ({'step_time_s': '5.65', 'software': 'MaxText'},)
    >>> read_output("model,gpu", "mine.csv")
    """
    for reader in READERS:
        try:
            if reader.reads(text):
                found = reader.read(text)
                return found if isinstance(found, JobList) else _with_card(found, text)
        except (ValueError, LookupError, TypeError, AssertionError, ArithmeticError, csv.Error) as why:
            said = str(why) if isinstance(why, ValueError | csv.Error) else f"{type(why).__name__}: {why}"
            if isinstance(why, ArithmeticError):
                said = "a number in it is too large, or zero where it cannot be"
            title = (reader.__doc__ or "").partition("\n")[0].rstrip(".")
            raise ValueError(f"{name}: not read ({title}): {said}") from None
    return None


def _with_card(reading: Reading, text: str) -> Reading:
    """The same with the accelerator that its text names as a driver does, where it names one alone."""
    named = {chip.name for card in set(_CARD.findall(text)) if (chip := match_accelerator(card))}
    if len(named) != 1 or any(row.get("gpu") for row in reading.rows):
        return reading
    (name,) = named
    rows = tuple({**row, "gpu": name} for row in reading.rows)
    return replace(reading, rows=rows, said=(*reading.said, f"gpu {name}: its text names no other"))
