"""``clusterlab expect``: what a healthy machine shows, before there is a log to print it beside."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence

import numpy as np

from ... import catalogue
from ...catalogue import Machine, machine
from ...evidence import Reached, TimedCollective, Timing, expect_gemm, expect_memory, predict_collective, read_timings
from ...evidence.wires import reference_network
from ...model import Layout
from ...own import accelerator_of
from ...parallelism import Step
from ...planning import fitting, from_inputs
from ...records import Json, aligned, with_interval
from ...units import fmt
from ..command import Command, read_count, read_input

_OPERATIONS = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all", "broadcast", "send-receive")
_SIZES = tuple(2.0**power for power in range(13, 34, 2))  # bytes: 8 KiB to 8 GiB


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--accelerator", metavar="NAME", required=True, help="such as 'H100 SXM'")
    parser.add_argument("--gpus", metavar="N", default="8", help="accelerators that take part (8)")
    parser.add_argument("--network", metavar="NAME", help="between servers (that of reference servers)")
    parser.add_argument("--collective", metavar="NAME", default="all-reduce", help=f"{', '.join(_OPERATIONS)}")
    parser.add_argument("--sharp", action="store_true", help="switches between servers add (SHARP)")
    parser.add_argument("--log", metavar="FILE", help="output of nccl-tests to print beside it; - is standard input")
    parser.add_argument("--model", metavar="NAME", help="of a training step, by the fastest layout that fits")
    parser.add_argument("--sequence", metavar="N", default="8192", help="tokens of a sequence (8192)")
    parser.add_argument("--global-batch", metavar="N", help="sequences of a step (next to the critical batch)")
    parser.add_argument("--precision", metavar="NAME", default="bf16", help="of the GEMM and the step (bf16)")
    parser.add_argument("--software", metavar="NAME", help="training stack: 'NeMo 25.04' (any that is plausible)")
    parser.add_argument("--json", action="store_true", help="print one object")


def _run(arguments: argparse.Namespace) -> int:
    """Predict, print, and return the exit status."""
    name = accelerator_of(arguments.accelerator).name
    chips, gpus = machine(name, network=arguments.network), read_count("gpus", arguments.gpus)
    operation = arguments.collective.strip().casefold().replace("_", "-").replace("alltoall", "all-to-all")
    if operation.replace("-", "") in {one.replace("-", "") for one in _OPERATIONS}:
        operation = next(one for one in _OPERATIONS if one.replace("-", "") == operation.replace("-", ""))
    measured = [] if arguments.log is None else _measured(arguments, operation)
    if measured:
        gpus = measured[0].ranks
    sizes = sorted({row.size for row in measured if np.isfinite(row.size)}) or _SIZES
    timed = _collective(arguments, chips, name, operation, np.array(sizes), gpus) if gpus > 1 else None
    single = [expect_gemm(chips, arguments.precision), expect_memory(chips)]
    step, layout = _step(arguments, name, gpus) if arguments.model else (None, None)
    if arguments.json:
        print(json.dumps(_object(timed, single, step, layout, measured), indent=1, allow_nan=False))
        return 0
    told = [_singles(single, name)]
    if timed is not None:
        told.insert(0, f"{timed.operation} on {gpus:,} {name}\n{_table(timed, measured)}\n" + "\n".join(timed.rests_on))
    if step is not None and layout is not None:
        axes = ", ".join(f"{n} {value}" for n, value, *_ in layout._rows()[1:-1])
        rate = f"{step.say('tokens_per_second')}, MFU {step.say('mfu')}"
        told.append(f"A step of {arguments.model} on {gpus:,} {name} ({axes})\n{step.with_interval}: {rate}")
    print("\n\n".join(told))
    return 0


def _collective(
    arguments: argparse.Namespace, chips: Machine, name: str, operation: str, sizes: np.ndarray, gpus: int
) -> TimedCollective:
    chip = catalogue.accelerator(name)
    usual = reference_network(chip)
    network = arguments.network or (usual.name if usual else "InfiniBand NDR")
    return predict_collective(
        operation,
        sizes,
        gpus,
        node_size=int(min(chips.domain, gpus)),
        scale_up=str(chip.scale_up_link),
        network=network,
        sharp=arguments.sharp,
    )


def _measured(arguments: argparse.Namespace, operation: str) -> list[Timing]:
    """The rows of a log that are of the collective."""
    rows, problems = read_timings(arguments.log, ranks=None, nodes=None, scale_up=None, network=None, collective=None)
    for line in problems:
        print(line, file=sys.stderr)
    of = [row for row in rows if row.operation == operation]
    if not of:
        known = ", ".join(dict.fromkeys(row.operation for row in rows))
        raise ValueError(f"--log has no row of {operation}; it has: {known} (say --collective)")
    return [row for row in of if row.ranks == of[0].ranks]


def _step(arguments: argparse.Namespace, name: str, gpus: int) -> tuple[Step, Layout]:
    given = {"model": arguments.model, "accelerator": name, "tokens": 1e12, "precision": arguments.precision}
    given |= {"sequence": read_count("sequence", arguments.sequence), "gpus": gpus}
    for key in ("global_batch", "software", "network"):
        if (value := getattr(arguments, key)) is not None:
            given[key] = read_input(key, value)
    training, site = from_inputs(given)
    found = fitting(training, site, most=1)  # type: ignore[arg-type]  # gpus are given
    if not found.fits:
        raise ValueError(f"{arguments.model} on {gpus:,} {name}: {found.short or 'no layout divides it'}")
    return found.fits[0].step, found.fits[0].layout


def _table(timed: TimedCollective, measured: Sequence[Timing]) -> str:
    """As nccl-tests print it: size, time and bus bandwidth, each with its interval; beside it what was measured."""
    beside: Mapping[float, Timing] = {row.size: row for row in measured}
    rows = [("size", "time", "", "busbw", "", *(("measured", "") if measured else ()))]
    for i, size in enumerate(np.atleast_1d(timed.size)):
        time, low, high, rate = (np.atleast_1d(x)[i] for x in (timed.time, timed.low, timed.high, timed.bus_bandwidth))
        ends = with_interval(time, low, high, "s").partition(" (")
        rates = with_interval(rate, rate * time / high, rate * time / low, "B/s").partition(" (")
        row = [fmt(size, "B"), ends[0], f"({ends[2]}", rates[0], f"({rates[2]}"]
        if measured:
            row += _judged(beside.get(float(size)), low, high)
        rows.append(tuple(row))
    return aligned(rows)


def _judged(row: Timing | None, low: float, high: float) -> list[str]:
    if row is None:
        return ["", ""]
    verdict = "slow" if row.seconds > high else "fast" if row.seconds < low else "as expected"
    return [fmt(row.seconds, "s"), verdict]


def _singles(single: Sequence[Reached], name: str) -> str:
    rows = [(f"one {name}", "expect", "from")]
    rows += [(one.what, one.with_interval, f"{one.rows} rows of {one.of}") for one in single]
    return aligned(rows)


def _object(
    timed: TimedCollective | None,
    single: Sequence[Reached],
    step: Step | None,
    layout: Layout | None,
    measured: Sequence[Timing],
) -> dict[str, Json]:
    found: dict[str, Json] = {}
    if timed is not None:
        beside = {row.size: row.seconds for row in measured}
        columns = (timed.size, timed.time, timed.low, timed.high, timed.bus_bandwidth)
        cells = zip(*(np.atleast_1d(one).tolist() for one in columns), strict=True)
        found["collective"] = {
            "operation": timed.operation,
            "ranks": timed.ranks,
            "rows": [
                {"size": s, "predicted": t, "low": low, "high": high, "bus_bandwidth": rate, "measured": beside.get(s)}
                for s, t, low, high, rate in cells
            ],
            "rests_on": list(timed.rests_on),
        }
    found["single"] = [
        {"what": one.what, "predicted": one.rate} | {n: getattr(one, n) for n in ("low", "high", "unit", "rows", "of")}
        for one in single
    ]
    if step is not None and layout is not None:
        axes = {name: getattr(layout, name) for name in ("tp", "pp", "dp", "cp", "ep", "chunks", "microbatch", "zero")}
        ends = {"predicted": float(step.time), "low": float(step.low), "high": float(step.high)}
        found["step"] = {**ends, "layout": axes}
    return found


COMMAND = Command(
    "say what a healthy machine shows: nccl-tests by size, a GEMM, memory, a training step",
    "What to expect of a machine before there is a log: a collective by size as nccl-tests print it, and a large GEMM "
    "and the memory of one accelerator, each with an 80 % interval from published measurements; with --model a "
    "training step; with --log a log beside it, size by size.",
    """\
    %(prog)s --accelerator "H100 SXM" --gpus 64
    %(prog)s --accelerator "H100 SXM" --gpus 512 --collective all-gather --model "Llama 3.1 70B"
    all_reduce_perf -b 8M -e 8G -f 2 -g 8 | %(prog)s --accelerator "H100 SXM" --log - --json
    """,
    _add_arguments,
    _run,
)
