"""``clusterlab post-training``: GPUs, days and dollars of a loop that writes answers, scores them and learns."""

from __future__ import annotations

import argparse
import json
import sys

from ...catalogue import RENTS, Machine, machine
from ...checks import nonnegative, positive
from ...own import accelerator_of, model_of
from ...planning import InfeasibleError, LoopPlan, PostTraining, loops_by_size, plan_loop
from ...post_training import SCHEDULES, Lengths
from ...records import Json, aligned
from ...units import day, fmt, hour
from ..command import Command, Input, Progress, read_count, read_input, say_unlikely

_INPUTS = (
    Input("output", "N", "tokens of a mean answer, before any is cut", ("100", "60k")),
    Input("limit", "N", "tokens at which an answer is cut (four times the mean)", ("500", "200k")),
    Input("spread", "N", "standard deviation of the logarithm of lengths (0.8, assumed); 0: all alike", ("0.3", "1.5")),
    Input("prompt", "N", "tokens of a prompt (100)", ("10", "100k")),
    Input("prompts", "N", "prompts of an iteration (64)", ("8", "4k")),
    Input("samples", "N", "answers to each prompt (16)", ("2", "256")),
    Input("iterations", "N", "updates of the weights (1000)", ("10", "50k")),
    Input("gpus", "N", "accelerators, in whole servers (from one server on, doubled)", ("8", "10k")),
    Input("replica", "N", "accelerators of a replica that writes (the quickest)", ("1", "32")),
    Input("deadline", "TIME", "done within: the fewest accelerators that do it", ("1h", "60d")),
    Input("rent", "$", "of a GPU-hour (a cloud's price of the catalogue)", ("$0.5", "$15")),
)
_USUAL = {"spread": "0.8", "prompt": "100", "prompts": "64", "samples": "16", "iterations": "1000"}
_MOST = 1024  # accelerators that are tried


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--model", metavar="NAME", required=True, help="such as 'Qwen3 32B', or a config.json")
    parser.add_argument("--accelerator", metavar="NAME", required=True, help="such as 'H100 SXM'")
    for one in _INPUTS:
        default = _USUAL.get(one.name)
        parser.add_argument(
            f"--{one.name}", metavar=one.kind, help=one.help, default=default, required=one.name == "output"
        )
    text = f"{', '.join(repr(name) for name in SCHEDULES)} (the quickest)"
    parser.add_argument("--schedule", metavar="NAME", help=text)
    parser.add_argument("--writes", metavar="NAME", default="bf16", help="format of what writes: bf16, fp8 (bf16)")
    parser.add_argument("--json", action="store_true", help="print one object: plans, parts of a round, intervals")


def _run(arguments: argparse.Namespace) -> int:
    """Plan loops, print them, and return the exit status."""
    texts = {one: text for one in _INPUTS if (text := getattr(arguments, one.name)) is not None}
    given = {one.name: float(read_input(one.name, text, one.kind)) for one, text in texts.items()}
    counts = {one: read_count(one, getattr(arguments, one)) for one in ("prompts", "samples", "iterations")}
    limit = given.setdefault("limit", 4 * given["output"])
    positive(output=given["output"], limit=limit, prompt=given["prompt"])
    nonnegative(spread=given["spread"])
    chips = machine(accelerator_of(arguments.accelerator).name)
    asked = PostTraining(
        model_of(arguments.model),
        counts["prompts"],
        counts["samples"],
        Lengths(given["output"], given["spread"], limit=limit),
        counts["iterations"],
        prompt=given["prompt"],
        writes=arguments.writes,
    )
    rent, whose = _rent(given, chips)
    with Progress() as progress:
        if progress:
            progress(0.0, f"loops of {asked.model.name} on {chips.name}")
        plans = _plans(asked, chips, arguments, rent)
    say_unlikely(given, _INPUTS)
    chosen = _chosen(plans, given.get("deadline"))
    if arguments.json:
        print(json.dumps({"chosen": _object(chosen), "tried": [_object(one) for one in plans]}, indent=1))
        return 0
    if len(plans) > 1:
        print(_table(plans), end="\n\n")
    print(chosen, chosen.iteration, _who_waits(chosen), sep="\n\n")
    print(f"assumed: lengths spread by {given['spread']:g}, none above {limit:g}; {whose}", file=sys.stderr)
    return 0


def _rent(given: dict[str, float], chips: Machine) -> tuple[float, str]:
    """Dollars a second of a GPU, and whose price that is."""
    if "rent" in given:
        return given["rent"], "your rent"
    of_chip = {k: r for k, r in RENTS.items() if k.startswith(f"{chips.name.split()[0]}, ") and "assumed" not in k}
    if not of_chip:
        return 0.0, f"no rent: the catalogue has none of {chips.name}; give --rent"
    name = max(of_chip, key=lambda one: of_chip[one].facts["price"].source.date)
    return of_chip[name].price, f"the rent of {name}, ${of_chip[name].price * hour:.2f} an hour"


def _plans(asked: PostTraining, chips: Machine, arguments: argparse.Namespace, rent: float) -> tuple[LoopPlan, ...]:
    """One loop of so many GPUs, or one for each size."""
    ranks = None if arguments.replica is None else read_count("replica", arguments.replica)
    if arguments.gpus is None:
        return loops_by_size(asked, chips, rent=rent, most=_MOST, schedule=arguments.schedule, ranks=ranks)
    if arguments.deadline is not None:
        raise ValueError("--deadline asks how many accelerators do it; leave out --gpus")
    count = read_count("gpus", arguments.gpus)
    if count % (server := int(min(chips.domain, 8))):
        raise ValueError(f"gpus must be whole servers of {server}, got {count}")
    return (plan_loop(asked, chips, gpus=count, rent=rent, schedule=arguments.schedule, ranks=ranks),)


def _chosen(plans: tuple[LoopPlan, ...], deadline: float | None) -> LoopPlan:
    """The fewest GPUs that keep a deadline; without one the fewest dollars, which rent or none is the fewest hours."""
    if deadline is None:
        return min(plans, key=lambda one: one.time * one.gpus)
    kept = [one for one in plans if one.time <= deadline]
    if not kept:
        best = min(plans, key=lambda one: one.time)
        raise InfeasibleError(
            f"nothing up to {_MOST:,} accelerators is done within {fmt(deadline, 's')}; "
            f"{best.gpus:,.0f} take {fmt(best.time, 's')}",
            {"deadline": float(best.time)},
        )
    return kept[0]


def _table(plans: tuple[LoopPlan, ...]) -> str:
    rows = [("GPUs", "schedule", "write", "learn", "a round", "all of it", "dollars")]
    for one in plans:
        loop, cost = one.loop, fmt(one.cost, "$") if one.rent else "-"
        pools = ("all", "all") if loop.schedule == SCHEDULES[0] else (f"{loop.generators:g}", f"{loop.trainers:g}")
        rows.append((f"{one.gpus:,.0f}", loop.schedule, *pools, fmt(one.iteration.time, "s"), fmt(one.time, "s"), cost))
    return aligned(rows)


def _who_waits(one: LoopPlan) -> str:
    made = one.iteration
    if one.loop.schedule == SCHEDULES[0]:
        return "all GPUs write, then all learn: the longest answer holds up everybody"
    waits = {"what writes": made.generators_wait, "what learns": made.trainers_wait}
    who = max(waits, key=lambda name: waits[name])
    share = waits[who] / (made.time - made.others)
    return f"{who} waits {fmt(share, '%', 2)} of a round: move GPUs to the other pool, if whole replicas allow it"


def _object(one: LoopPlan) -> dict[str, Json]:
    made, loop = one.iteration, one.loop
    parts = ("generation", "log_probs", "training", "weights", "hidden", "turns", "others")
    low, high = one.asked.iterations * made.low, one.asked.iterations * made.high
    return {
        "gpus": one.gpus,
        "schedule": loop.schedule,
        "generators": loop.generators,
        "replica_gpus": float(loop.replica.gpus),
        "trainers": loop.trainers,
        "layout": {axis: float(getattr(loop.layout, axis)) for axis in ("tp", "pp", "cp", "ep", "dp", "zero")},
        "versions_behind": one.staleness,
        "round": {"seconds": made.time, "low": made.low, "high": made.high},
        "parts": {name: float(getattr(made, name)) for name in parts},
        "generators_wait": made.generators_wait,
        "trainers_wait": made.trainers_wait,
        "days": {"value": one.time / day, "low": low / day, "high": high / day},
        "dollars": {"value": one.cost, "low": low * one.gpus * one.rent, "high": high * one.gpus * one.rent}
        if one.rent
        else None,
    }


COMMAND = Command(
    "plan post-training: GPUs, days and dollars of a loop that writes, scores and learns",
    "Answers are written in groups, scored and learned from, round after round. Schedules, splits of the GPUs and "
    "layouts are searched; each round comes with an 80 % interval. Without --gpus every size up to 1,024 is tried, and "
    "the cheapest is shown in full, or with --deadline the smallest that keeps it. Exits with 3 where none does.",
    """\
    %(prog)s --model "Qwen3 32B" --accelerator "H100 SXM" --output 4000 --gpus 64 --rent '$2.95'
    %(prog)s --model "Qwen3 32B" --accelerator "H100 SXM" --output 4000 --deadline 1d
    %(prog)s --model "Llama 3.1 8B" --accelerator H200 --output 1000 --schedule synchronous --writes fp8 --json
    """,
    _add_arguments,
    _run,
)
