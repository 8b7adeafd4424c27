"""Outputs of programs on the command line: what they say of a run, with what their owner says, as a table."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import NamedTuple

from ..evidence.outputs import JobList, Reading
from ..records import Json, aligned

_OPTIONS = {"model": "model", "accelerator": "gpu", "gpus": "n_gpus", "software": "software"}  # and their columns


class Told(NamedTuple):
    """A table made of an output, and what is to be said of it."""

    table: str
    kind: str
    lines: tuple[str, ...]
    said: Mapping[str, Json]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Say what an output may lack."""
    group = parser.add_argument_group("for the output of a program, which does not say all of these")
    group.add_argument("--model", metavar="NAME", help="a model, or the path of a config.json")
    group.add_argument("--accelerator", metavar="NAME", help="such as 'H100 SXM'")
    group.add_argument("--gpus", metavar="N", help="accelerators of the run")
    text = "any other column of the table: --set tp=8 --set seq=4096"
    group.add_argument("--set", metavar="COLUMN=VALUE", action="append", default=[], help=text)


def given(arguments: argparse.Namespace) -> dict[str, str]:
    """What the owner of an output says, by columns."""
    found = {column: str(value) for option, column in _OPTIONS.items() if (value := getattr(arguments, option))}
    for text in arguments.set:
        column, equals, value = text.partition("=")
        if not (equals and column.strip() and value.strip()):
            raise ValueError(f"--set must be COLUMN=VALUE, got {text!r}")
        found[column.strip()] = value.strip()
    return found


def refuse_given(arguments: argparse.Namespace, name: str, text: str) -> None:
    """Refuse what is neither an output nor a table, and for a table the options that say what an output lacks."""
    lines = (line.strip() for line in text.splitlines())
    heading = next((line for line in lines if line and not line.startswith("#")), "")
    if heading and (heading[0] in "{[" or not set(heading) & set(",;\t")):
        raise ValueError(f"{name}: no reader knows it, and its first line is no heading of a table; read are {_READ}")
    options = [f"--{option}" for option in ("model", "accelerator", "gpus", "set") if getattr(arguments, option)]
    if options:
        raise ValueError(
            f"{', '.join(options)} {'go' if len(options) > 1 else 'goes'} with the output of a program; "
            f"{name} is a table, with columns for it"
        )


_READ = (
    "outputs of Megatron, NeMo, torchtitan, DeepSpeed, MaxText, Hugging Face's Trainer, LLaMA-Factory, W&B, vllm bench"
)
_READ += (
    " serve, SGLang's bench, genai-perf, AIPerf, trtllm-bench and nccl-tests, job lists of Slurm and Kubernetes, and"
)
_READ += " incidents; a table"
_READ += " has the columns of clusterlab validate --template"


def as_table(reading: Reading, name: str, arguments: argparse.Namespace) -> Told:
    """What an output and its owner say together, or a ValueError that names what neither says."""
    own = given(arguments)
    if "software" in own and any(row.get("software") for row in reading.rows):
        own.pop("software")  # that option is of what names none
    if reading.kind == "inference" and "software" in own:
        own["framework"] = own.pop("software")
    told = reading.with_given(own)
    lines = [f"{name}: {reading.program}", *reading.said]
    if reading.unused:
        lines.append(f"not used: {', '.join(reading.unused)}")
    says = {key: value for row in reading.rows[:1] for key, value in row.items() if key != "row_id"}
    lines.append(f"it says {', '.join(f'{key} {value}' for key, value in says.items())}")
    if own:
        lines.append(f"you say {', '.join(f'{key} {value}' for key, value in own.items())}")
    said: dict[str, Json] = {
        "program": reading.program,
        "said": list(reading.said),
        "rows": [dict(r) for r in told.rows],
    }
    said |= {"not_used": list(reading.unused)}
    return Told(told.table(name), told.kind, tuple(lines), said)


def jobs_told(jobs: JobList) -> str:
    """A list of jobs: in all, and by size."""
    notes = [f"left out: {line}" for line in _left_out(jobs)]
    return "\n\n".join(filter(None, [repr(jobs), aligned(jobs.by_size()), "\n".join(notes)]))


def jobs_object(jobs: JobList) -> dict[str, Json]:
    """The same as one object."""
    heading, *rows = jobs.by_size()
    sizes: list[Json] = [dict(zip(heading, row, strict=True)) for row in rows]
    used = jobs.gpu_seconds
    return {"jobs": len(jobs.names), "gpu_seconds": used, "sizes": sizes, "unread": _left_out(jobs)}


def _left_out(jobs: JobList) -> list[str]:
    return [f"{count:,} {what}" for what, count in jobs.unread.items()]
