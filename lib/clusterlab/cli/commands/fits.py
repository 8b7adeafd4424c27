"""``clusterlab fits``: which layouts of a model fit on so many accelerators, fastest first."""

from __future__ import annotations

import argparse
import json
import sys

from ...parallelism import STEP_PARTS, step_kind
from ...planning import Fit, Fitting, InfeasibleError, Training, fitting, from_inputs, not_named, not_timed
from ...records import Json, aligned
from ...units import fmt
from ..command import INPUTS, Command, read_count, read_input, read_layout, say_unlikely

_TAKEN = ("model", "accelerator", "gpus", "sequence", "global-batch", "precision", "network", "software", "memory")
_NEEDED = ("model", "accelerator", "gpus")
_MEMORY = ("weights", "gradients", "optimizer", "activations")


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    for one in INPUTS:
        if one.name in _TAKEN:
            parser.add_argument(f"--{one.name}", metavar=one.kind, help=one.help, required=one.name in _NEEDED)
    parser.add_argument("--layout", metavar="AXES", help="fixed axes of the layout: tp=8,pp=16")
    parser.add_argument("--most", metavar="N", default="10", help="cuts of the model that are shown (10)")
    parser.add_argument("--json", action="store_true", help="print one object")


def _run(arguments: argparse.Namespace) -> int:
    """Search, print, and return the exit status."""
    given = {name.replace("-", "_"): getattr(arguments, name.replace("-", "_")) for name in _TAKEN}
    given = {name: value for name, value in given.items() if value is not None} | read_layout(arguments.layout or "")
    inputs = {name: read_input(name, value) for name, value in given.items()}
    # Tokens say how large a batch is usual, and nothing else here.
    training, site = from_inputs({"tokens": 1e12, **inputs})
    say_unlikely(inputs)
    assert isinstance(training, Training)  # no rate is among the inputs
    found = fitting(training, site, most=read_count("most", arguments.most, most=1000))
    if arguments.json:
        print(json.dumps(_object(found), indent=1, allow_nan=False))
        return 0 if found.fits else 3
    if found.fits:
        print(_table(found))
        capacity = fmt(found.machine.hbm_capacity, "B")
        print(f"\n{found.ran:,} of {found.considered:,} layouts fit in {fmt(found.room, 'B')} of {capacity}.", end=" ")
        print("tight: the interval of its memory ends above that of the accelerator: try it before you build on it.")
        if flag := not_timed(found.machine, step_kind(training.model, training.precision)):
            print(flag)
        if site.software is None:
            one = found.fits[0].step
            print(not_named(float(one.spread_low), float(one.spread_high)))
    print(_host(found))
    if not found.fits:
        raise InfeasibleError(f"nothing fits: {found.short or 'no layout divides heads, layers and batch'}")
    print(
        f"assumed: {training.global_batch:g} sequences of {training.sequence:g} tokens, {training.precision}",
        file=sys.stderr,
    )
    return 0


def _table(found: Fitting) -> str:
    rows: list[tuple[str, ...]] = [("layout", "step", "", "MFU", "memory", "", *_MEMORY, "other", "")]
    for one in found.fits:
        parts = [float(getattr(one.memory, name)) for name in _MEMORY]
        shown = [fmt(part, "B") for part in (*parts, float(one.memory.total) - sum(parts))]
        tight = "tight" if one.tight(found.machine.hbm_capacity) else ""
        cells = (*one.step._cells(), one.step._cells("mfu")[0], *one.memory._cells(), *shown, tight)
        rows.append((one.axes, *cells))
    return aligned(rows)


def _host(found: Fitting) -> str:
    """What the optimizer on the host would change."""
    one = found.offloaded
    if one is None:
        return "With the optimizer on the host nothing more would fit."
    best = f"The optimizer on the host: {one.axes}, {fmt(one.time, 's')} a step"
    crossing = f"{fmt(one.crossing, 's')} of it to and from the host at the least ({fmt(one.offloaded, 'B')} there)"
    if not found.fits:
        return f"{best}, {crossing}: so it would fit."
    more = float(one.time / found.fits[0].time) - 1
    return f"{best}, {crossing}: {more:+.1%} beside the first line, before the host's own work."


def _object(found: Fitting) -> dict[str, Json]:
    return {
        "room": float(found.room),
        "considered": found.considered,
        "can_run": found.ran,
        "fits": [_one(one) for one in found.fits],
        "on_host": None if found.offloaded is None else _one(found.offloaded),
        "short": found.short or None,
    }


def _one(one: Fit) -> dict[str, Json]:
    names = ("tp", "pp", "dp", "cp", "ep", "chunks", "microbatch", "zero", "recompute")
    layout = {n: getattr(one.layout, n) for n in names}
    parts = {name: float(getattr(one.step, name)) for name in STEP_PARTS}
    held = {name: float(value) for name, value in vars(one.memory).items()}
    low, high = float(one.step.low + one.crossing), float(one.step.high + one.crossing)
    need = {"predicted": float(one.memory.total), "low": float(one.memory.low), "high": float(one.memory.high)}
    return {
        "layout": layout,
        "step": {"predicted": float(one.time), "low": low, "high": high, "parts": parts},
        "mfu": {"predicted": float(one.step.mfu), **_ends(one)},
        "memory": need | {"parts": held},
        "offloaded": float(one.offloaded),
        "crossing": float(one.crossing),
    }


def _ends(one: Fit) -> dict[str, Json]:
    step = one.step
    return {"low": float(step.mfu * step.time / step.high), "high": float(step.mfu * step.time / step.low)}


COMMAND = Command(
    "list the layouts of a model that fit on so many accelerators, fastest first",
    "Search TP, PP, CP, EP, ZeRO stage, microbatch, schedule and recomputation of a training run on so many GPUs: "
    "of each cut the fastest, with its step and its memory by part, both with an 80 % interval; and what the optimizer "
    "on the host would cost. Exits with 3 where nothing fits, and says by how much.",
    """\
    %(prog)s --model "Llama 3.1 70B" --accelerator "H100 SXM" --gpus 64
    %(prog)s --model "DeepSeek-V3" --accelerator "H200 SXM" --gpus 2048 --global-batch 4096 --software "NeMo 25.04"
    %(prog)s --model "Llama 3.1 8B" --accelerator "H100 SXM" --gpus 8 --layout pp=1 --json
    """,
    _add_arguments,
    _run,
)
