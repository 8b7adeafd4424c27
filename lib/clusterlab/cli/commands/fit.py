"""``clusterlab fit``: alpha and beta of timed collectives, source by source; what ``predict`` reads and prints, too."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable

import numpy as np

from ...evidence import LinkFit, Timing, by_source, fit_links, how_sure, read_timings
from ...evidence.text import UNUSABLE, name_of
from ...records import aligned, say
from ...units import fmt
from ..command import Command

EXAMPLE = """\
        %(prog)s mine.txt
        all_reduce_perf -b 32K -e 16G -f 2 -g 8 | %(prog)s -
        %(prog)s mine.txt --network "InfiniBand NDR" --json
        """
# A summary, a description and an example.
HELP = (
    "fit alpha and beta to timed collectives",
    "Fit each source of the file. In JSON alpha_seconds is null where all rows are of one size or plateaus, and "
    "wire_fraction where the links are not known; it is above 1 where the rows move more than those. Behind alpha and "
    "bandwidth stand their 80 % intervals, where a source has eight rows and the file ten sources at most. Lines that "
    "could not be read or used go to stderr; the exit status is 2 if nothing is left.",
    EXAMPLE,
)


_SURE = 10  # sources at most whose fits are made again, eight times each, to say how sure they are


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Say what ``fit`` and ``predict`` take."""
    text = "text output of nccl-tests, whose out-of-place columns are read (not in-place), or a CSV in the form of "
    parser.add_argument("file", help=text + "data/collectives.csv; - is standard input")
    parser.add_argument("--json", action="store_true", help="print a list of objects, one for each source")
    only = parser.add_argument_group("for the output of nccl-tests, where its heading does not say")
    only.add_argument("--collective", help="all_reduce, all_gather, ...")
    only.add_argument("--ranks", type=int, help="number of GPUs")
    only.add_argument("--nodes", type=int, help="number of hosts, or of NVLink domains if these are wider")
    only.add_argument("--scale-up", metavar="LINK", help="link inside a node, such as 'NVLink 4'")
    only.add_argument("--network", metavar="LINK", help="link between nodes, a port for each GPU: 'InfiniBand NDR'")


def run(arguments: argparse.Namespace) -> int:
    """Fit every source of a file, print the results, and return the exit status."""
    found, problems = of_each_source(arguments, fit_links)
    if len(found) <= _SURE:
        found = [(how_sure(result, timings), timings) for result, timings in found]
    for result, _ in found:
        if (share := result.wire_fraction or 0.0) > 1.05:
            says = f"moves more than the wires that the row names ({fmt(share, '%')} of their rate)"
            problems.append(f"{name_of(arguments.file)}, {result.source}: {says}")
    print_problems(problems)
    if not found:
        return UNUSABLE
    if arguments.json:
        print(json.dumps([summary_of(result) for result, _ in found], indent=1))
    else:
        print(source_table(result for result, _ in found))
    return 0


def of_each_source(
    arguments: argparse.Namespace, law: Callable[[list[Timing]], LinkFit], *, assume: bool = False
) -> tuple[list[tuple[LinkFit, list[Timing]]], list[str]]:
    """What a law says of each source of a file, with its rows; and a line for all that could not be read or used."""
    known = {name: getattr(arguments, name) for name in ("collective", "ranks", "nodes", "scale_up", "network")}
    rows, problems = read_timings(arguments.file, **known, assume=assume)
    found = []
    for timings in by_source(rows).values():
        try:
            found.append((law(timings), timings))
        except ValueError as error:
            problems.append(f"{name_of(arguments.file)}, {error}")
    return found, problems


def print_problems(problems: Iterable[str]) -> None:
    """Say what could not be read or used."""
    for line in problems:
        print(line, file=sys.stderr)


def summary_of(result: LinkFit) -> dict[str, object]:
    """A source as an object of JSON."""
    return {
        "source": result.source,
        "rows": len(result.errors),
        "alpha_seconds": result.alpha,
        "bandwidth_bytes_per_second": result.bandwidth,
        **{
            f"{name}_{end}": value
            for name in ("alpha", "bandwidth")
            for end in ("low", "high")
            if np.isfinite(value := getattr(result, f"{name}_{end}"))
        },
        "wire_fraction": result.wire_fraction,
        "mean_abs_error": result.mean_abs_error,
    }


def source_table(results: Iterable[LinkFit]) -> str:
    """A line for each source, one for all rows together and, where some are of quality C, one for the rest.

    Examples
    --------
    >>> from clusterlab.evidence import published_timings
    >>> rows = [row for row in published_timings() if row.source == "h200_sharp_ramp"]
    >>> print(source_table([fit_links(rows)]))
    source           rows  alpha  bandwidth  wire  error
    h200_sharp_ramp    10      -   364 GB/s   81%   0.6%
    all rows           10                           0.6%
    """
    results = list(results)
    predicted = all(result.low for result in results)
    rows: list[tuple[str, ...]] = [("source", "rows", "alpha", "bandwidth", "wire", "error", "inside")]
    for result in results:
        alpha = "-" if result.alpha is None else say(result, "alpha", "s")
        wire = "-" if result.wire_fraction is None else f"{result.wire_fraction:.0%}"
        error, inside = f"{result.mean_abs_error:.1%}", f"{result.coverage:.0%}" if predicted else ""
        count = str(len(result.errors))
        rows.append((result.source, count, alpha, say(result, "bandwidth", "B/s"), wire, error, inside))
    errors = np.abs(np.concatenate([result.errors for result in results]))
    held = np.concatenate([result.inside for result in results]) if predicted else None
    sound = np.concatenate([result.qualities for result in results]) != "C"
    for name, kept in {"all rows": sound | True, "without quality C": sound}.items():
        if kept.any() and (name == "all rows" or not kept.all()):
            share = "" if held is None else f"{held[kept].mean():.0%}"
            rows.append((name, str(kept.sum()), "", "", "", f"{errors[kept].mean():.1%}", share))
    return aligned(rows if predicted else [row[:-1] for row in rows])


COMMAND = Command(*HELP, add_arguments, run)
