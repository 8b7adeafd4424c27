"""``clusterlab mfu``: a run's tokens a second as MFU, as the field counts it and as others do."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence

from ...evidence import MfuReading, mfu_readings, readings_of
from ...model import RECOMPUTE
from ...own import accelerator_of, model_of
from ...records import aligned
from ...units import fmt
from ..command import Command, read_count, read_input

_LIKELY = 0.75  # beyond it no published run of training stands


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--model", metavar="NAME", required=True, help="such as 'Llama 3.1 70B'")
    parser.add_argument("--accelerator", metavar="NAME", required=True, help="such as 'H100 SXM'")
    parser.add_argument("--gpus", metavar="N", required=True, help="accelerators of the run")
    parser.add_argument("--sequence", metavar="N", default="8192", help="tokens of a sequence (8192)")
    rate = parser.add_mutually_exclusive_group(required=True)
    rate.add_argument("--tokens-per-second", metavar="N", help="of all accelerators together")
    rate.add_argument("--tokens-per-second-per-gpu", metavar="N", help="of one accelerator; 100 to 100k")
    rate.add_argument("--step-time", metavar="TIME", help="of a step of --global-batch sequences: 6.2s")
    parser.add_argument("--global-batch", metavar="N", help="sequences of a step, with --step-time")
    parser.add_argument("--precision", metavar="NAME", default="bf16", help="of the GEMMs: bf16, fp16, fp8, fp4 (bf16)")
    parser.add_argument("--recompute", metavar="WHAT", default="none", help=f"{', '.join(RECOMPUTE)} (none)")
    parser.add_argument("--claimed", metavar="SHARE", help="an MFU that somebody printed: 104%% or 0.42")
    parser.add_argument("--json", action="store_true", help="print one object")


def _run(arguments: argparse.Namespace) -> int:
    """Count, print, and return the exit status."""
    gpus, sequence = read_count("gpus", arguments.gpus), read_count("sequence", arguments.sequence)
    rate = _rate(arguments, gpus, sequence)
    ways = mfu_readings(
        model_of(arguments.model),
        accelerator_of(arguments.accelerator),
        tokens_per_second=rate,
        gpus=gpus,
        sequence=sequence,
        precision=arguments.precision,
        recompute=arguments.recompute,
    )
    claimed = None if arguments.claimed is None else _read("claimed", "cached", arguments.claimed)
    if claimed is not None and not 0 < claimed < 100:
        raise ValueError(f"claimed must be a share above 0, such as 42% or 0.42; got {arguments.claimed}")
    near = [] if claimed is None else readings_of(claimed, ways)
    if arguments.json:
        found = {"tokens_per_second": rate, "mfu": ways[0].mfu, "ways": [_object(one) for one in ways]}
        print(
            json.dumps(
                found | ({} if claimed is None else {"claimed": claimed, "may_be": [_object(o) for o in near]}),
                indent=1,
            )
        )
        return 0
    print(_table(ways))
    print(*_verdict(ways, claimed, near, arguments), sep="\n")
    if rate / gpus > 1e6:
        print(f"unlikely: {rate / gpus:.3g} tokens a second of one accelerator", file=sys.stderr)
    return 0


def _read(option: str, kind: str, text: str) -> float:
    """A number as an input of that kind is written; a message names the option."""
    try:
        return float(read_input(kind, text))
    except ValueError as why:
        raise ValueError(str(why).replace(kind, option, 1)) from None


def _rate(arguments: argparse.Namespace, gpus: int, sequence: int) -> float:
    if arguments.step_time is not None:
        if arguments.global_batch is None:
            raise ValueError("--step-time needs --global-batch: sequences of a step")
        seconds = _read("step-time", "first_token", arguments.step_time)
        if seconds <= 0:
            raise ValueError(f"step-time must be above zero, got {arguments.step_time}")
        return read_count("global-batch", arguments.global_batch) * sequence / seconds
    text = arguments.tokens_per_second or arguments.tokens_per_second_per_gpu
    rate = _read("tokens-per-second", "tokens", text) * (1 if arguments.tokens_per_second else gpus)
    if not rate > 0:
        raise ValueError(f"tokens-per-second must be above zero, got {text}")
    return rate


def _object(one: MfuReading) -> dict[str, str | float]:
    return {"says": one.says, "mfu": one.mfu, "flops_per_token": one.flops, "peak": one.peak}


def _table(ways: Sequence[MfuReading]) -> str:
    rows = [("counted so", "MFU", "FLOP a token", "peak")]
    rows += [(one.says, fmt(one.mfu, "%"), fmt(one.flops, "FLOP"), fmt(one.peak, "FLOP/s")) for one in ways]
    return aligned(rows)


def _verdict(
    ways: Sequence[MfuReading], claimed: float | None, near: Sequence[MfuReading], arguments: argparse.Namespace
) -> list[str]:
    """What the numbers say: where a claim comes from, and why a share is more than there can be."""
    usual, told = ways[0], []
    told.append(f"As the field counts it: {fmt(usual.mfu, '%')}.")
    if claimed is not None:
        by = " or ".join(one.says for one in near[:3])
        said = (
            f"it is this run {by}"
            if near
            else "no usual way gives it: is the rate, the model or the number of GPUs another?"
        )
        told.append(f"{fmt(claimed, '%')}: {said}.")
    if usual.mfu > 1 or (claimed or 0) > 1:
        told.append(
            "More than 100 % is not possible: FLOPs are counted that weren't done, or a peak that isn't the run's."
        )
    if usual.mfu > _LIKELY:
        sane = [one for one in ways[1:] if 0.05 < one.mfu < _LIKELY]
        told += [f"It would be {fmt(one.mfu, '%')} {one.says}." for one in sane]
        told.append(f"Or the rate isn't that of {arguments.gpus} GPUs with {arguments.precision} GEMMs.")
    return told


COMMAND = Command(
    "turn tokens a second into MFU as the field counts it, and as others do",
    "The MFU of a run by its active parameters with attention in full, and what it would be with attention causal, "
    "without attention, with embeddings, with all experts, with what is recomputed (HFU), and against other peaks. "
    "With --claimed: which way gives a number that somebody printed.",
    """\
    %(prog)s --model "Llama 3.1 8B" --accelerator "H100 SXM" --gpus 8 --tokens-per-second-per-gpu 8000
    %(prog)s --model "Llama 3.1 8B" --accelerator H100 --gpus 8 --tokens-per-second 142k --precision fp8 --claimed 104%%
    %(prog)s --model "DeepSeek-V3" --accelerator "H800 SXM" --gpus 2048 --step-time 19s --global-batch 15360
    """,
    _add_arguments,
    _run,
)
