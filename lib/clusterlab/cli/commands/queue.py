"""``clusterlab queue``: a job list under other policies, with the limits that its users asked for."""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ...evidence import Queued, parse_jobs, queued
from ...evidence.text import name_of, read_text
from ...operations import Cluster, Jobs, Schedule, simulate_cluster
from ...records import aligned
from ...units import day, fmt
from ..command import Command, Progress, read_count

_CELLS = 200_000_000  # of a table of jobs and nodes, four bytes each
_SHOWN = 12  # columns that are named
_FEW = 500  # jobs up to which a plan for each that waits is tried too: it takes a second for a hundred


class _Way(NamedTuple):
    says: str
    policy: str
    order: str = "arrival"
    perfect: bool = False


_WAYS = (
    _Way("first come, first served", "fcfs"),
    _Way("backfill (EASY)", "backfill"),
    _Way("backfill, shortest first", "backfill", order="shortest"),
    _Way("backfill, if limits were right", "backfill", perfect=True),
    _Way("conservative backfill", "conservative"),
    _Way("whatever fits starts", "greedy"),
)


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", help="what sacct prints, a CSV like it, or kubectl's JSON; - is standard input")
    parser.add_argument("--nodes", metavar="N", help="of the cluster (as many as ran at once)")
    parser.add_argument("--gpus-per-node", metavar="N", default="8", help="GPUs of a node (8)")
    parser.add_argument("--most", metavar="N", default="5000", help="jobs that are simulated, the first of them (5000)")
    parser.add_argument("--json", action="store_true", help="print one object, times in seconds")


def _run(arguments: argparse.Namespace) -> int:
    """Simulate each policy, print, and return the exit status."""
    size, most = (
        read_count("gpus-per-node", arguments.gpus_per_node, most=1024),
        read_count("most", arguments.most, most=200_000),
    )
    name = name_of(arguments.file)
    listed = parse_jobs(read_text(arguments.file), name)
    try:
        found = queued(listed, node_size=size)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None
    jobs, waited = _first(found, most)
    nodes = (
        read_count("nodes", arguments.nodes, most=100_000)
        if arguments.nodes
        else max(found.nodes, math.ceil(jobs.gpus.max() / size))
    )
    if nodes * len(jobs) > _CELLS:
        raise ValueError(f"{len(jobs):,} jobs on {nodes:,} nodes would fill the memory: take fewer with --most")
    ways = [way for way in _WAYS if way.policy != "conservative" or len(jobs) <= _FEW]
    made: dict[str, Schedule] = {}
    with Progress() as progress:
        for i, way in enumerate(ways):
            if progress:
                progress(i / len(ways), way.says)
            asked = replace(jobs, limit=jobs.duration) if way.perfect else jobs
            made[way.says] = simulate_cluster(asked, Cluster(nodes, size, rack=1), policy=way.policy, order=way.order)
    groups = _groups(jobs, size)
    if arguments.json:
        print(json.dumps(_object(jobs, waited, made, groups, found, nodes, listed.ignored), indent=1))
        return 0
    print(_table(waited, made, groups))
    longer = jobs.limit / jobs.duration
    many = "1 job" if len(jobs) == 1 else f"{len(jobs):,} jobs"
    of = f"{many} of {jobs.arrival[-1] / day:.3g} days on {nodes:,} nodes of {size}"
    said = f"limits are {np.median(longer):.2g} times the run (median), {np.quantile(longer, 0.9):.2g} for one in ten"
    print(f"\n{of}; {said if found.unlimited < len(found.jobs) else 'no job has a limit'}")
    print("Mean wait, and in brackets what nine of ten stay below. Priorities, partitions and reservations aren't in a")
    print("list: hold the policy that you have against the first line before you trust another.")
    for why, count in found.unread.items():
        print(f"left out: {count:,} {why}", file=sys.stderr)
    if found.unlimited:
        print(f"{found.unlimited:,} jobs without a limit have the longest", file=sys.stderr)
    if len(jobs) < len(found.jobs):
        print(f"the first {len(jobs):,} of {len(found.jobs):,} jobs; more with --most", file=sys.stderr)
    if not np.isfinite(listed.gpus).any():
        print(f"no job says GPUs: each is taken to have whole nodes, of {size}", file=sys.stderr)
    if listed.ignored:
        more = f" and {len(listed.ignored) - _SHOWN} more" if len(listed.ignored) > _SHOWN else ""
        print(f"columns that were not used: {', '.join(listed.ignored[:_SHOWN])}{more}", file=sys.stderr)
    return 0


def _first(found: Queued, most: int) -> tuple[Jobs, np.ndarray]:
    jobs = found.jobs
    if len(jobs) <= most:
        return jobs, found.waited
    columns = {name: value[:most] for name, value in vars(jobs).items()}
    return Jobs(**columns), found.waited[:most]


def _groups(jobs: Jobs, size: int) -> dict[str, np.ndarray]:
    """Jobs by size, in steps of four from a part of a node on; those that there are."""
    edges = [0, size - 1, size, 4 * size, 16 * size, 64 * size, 256 * size, 10**9]
    names = ["part of a node", "a node", "2-4 nodes", "5-16", "17-64", "65-256", "more"]
    found = {}
    for low, high, name in zip(edges, edges[1:], names, strict=False):
        of = (jobs.gpus > low) & (jobs.gpus <= high)
        if np.any(of):
            found[name] = of
    return found


def _table(waited: np.ndarray, made: Mapping[str, Schedule], groups: Mapping[str, np.ndarray]) -> str:
    rows = [
        ("wait of jobs of", *groups, "all"),
        ("jobs", *(f"{of.sum():,}" for of in groups.values()), f"{len(waited):,}"),
    ]
    every = {**groups, "all": np.ones(len(waited), bool)}
    for says, waits in {"as it was": waited, **{name: one.wait for name, one in made.items()}}.items():
        rows.append(
            (
                says,
                *(
                    f"{fmt(float(np.mean(waits[of])), 's')} ({fmt(float(np.quantile(waits[of], 0.9)), 's')})"
                    for of in every.values()
                ),
            )
        )
    return aligned(rows)


def _object(
    jobs: Jobs,
    waited: np.ndarray,
    made: Mapping[str, Schedule],
    groups: Mapping[str, np.ndarray],
    found: Queued,
    nodes: int,
    ignored: Sequence[str],
) -> dict[str, object]:
    every = {**groups, "all": np.ones(len(jobs), bool)}

    def of(waits: np.ndarray) -> dict[str, object]:
        means = {name: (float(np.mean(waits[m])), float(np.quantile(waits[m], 0.9))) for name, m in every.items()}
        return {n: {"jobs": int(every[n].sum()), "mean": mean, "p90": tail} for n, (mean, tail) in means.items()}

    about = {"jobs": len(jobs), "nodes": nodes, "left_out": dict(found.unread), "ignored": list(ignored)}
    return about | {"as_it_was": of(waited), "policies": {name: of(one.wait) for name, one in made.items()}}


COMMAND = Command(
    "hold a job list against other policies: waits by size, with the limits that users asked for",
    "Read what sacct prints (Submit, Start, End, Timelimit, AllocNodes or AllocTRES), or kubectl get jobs -o json, run "
    "the same jobs through the cluster under other policies, and print how long jobs of each size wait, beside how "
    "long they did.",
    """\
    sacct -aP -X -S 2025-03-01 -o JobID,Submit,Start,End,Timelimit,AllocNodes,AllocTRES > jobs.txt
    %(prog)s jobs.txt --nodes 128
    %(prog)s jobs.txt --gpus-per-node 4 --json
    kubectl get jobs -A -o json | %(prog)s - --nodes 16
    """,
    _add_arguments,
    _run,
)
