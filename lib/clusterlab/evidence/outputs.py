"""Outputs: what programs print or write, found by its content by one of :mod:`clusterlab.evidence.readers`."""

from __future__ import annotations

import csv
from types import ModuleType

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
                return reader.read(text)
        except (ValueError, LookupError, TypeError, AssertionError, ArithmeticError, csv.Error) as why:
            said = str(why) if isinstance(why, ValueError | csv.Error) else f"{type(why).__name__}: {why}"
            if isinstance(why, ArithmeticError):
                said = "a number in it is too large, or zero where it cannot be"
            title = (reader.__doc__ or "").partition("\n")[0].rstrip(".")
            raise ValueError(f"{name}: not read ({title}): {said}") from None
    return None
