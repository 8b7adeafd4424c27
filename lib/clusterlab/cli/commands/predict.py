"""``clusterlab predict``: timed collectives, predicted from the datasheets of their links."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable

import numpy as np

from ...evidence import LinkFit, Timing, predict_held_out, published_timings
from ...evidence.text import UNUSABLE
from ...records import aligned, with_interval
from ...units import fmt
from ..command import Command
from .fit import EXAMPLE, add_arguments, of_each_source, print_problems, source_table, summary_of

__all__ = ["HELP", "add_arguments", "run", "timing_table"]

HELP = (
    "predict timed collectives from their links' datasheets",
    "Predict each source from its links, with efficiencies fitted to the published timings of other machines that come "
    "with clusterlab, never on other sources of the file. Links that neither a log nor an option says are those of "
    "reference servers of its GPUs, and said. A line for each time, measured and predicted with its 80 % "
    "interval (low and high in JSON), then one for each source. Lines that could not be read or used go to stderr; the "
    "exit status is 2 if nothing is left.",
    EXAMPLE,
)


def run(arguments: argparse.Namespace) -> int:
    """Predict every source of a file, print the results, and return the exit status."""
    found, problems = of_each_source(arguments, _predicted, assume=True)
    print_problems(problems)
    if not found:
        return UNUSABLE
    if arguments.json:
        print(json.dumps([_object(*both) for both in found], indent=1))
    else:
        print(timing_table(found), end="\n\n")
        print(source_table(result for result, _ in found))
    return 0


def _predicted(timings: list[Timing]) -> LinkFit:
    (result,) = predict_held_out(timings, published_timings())
    return result


def _object(result: LinkFit, timings: list[Timing]) -> dict[str, object]:
    rows = zip(timings, result.times, result.low, result.high, result.kinds, strict=True)
    predictions = [
        {"row": row.row, "measured": row.seconds, "predicted": time, "low": low, "high": high, "kind": kind}
        for row, time, low, high, kind in rows
    ]
    return summary_of(result) | {"coverage": result.coverage, "predictions": predictions}


def timing_table(found: Iterable[tuple[LinkFit, list[Timing]]]) -> str:
    """Return a line for each timing: measured and predicted with an 80 % interval. Of a plateau, its bus bandwidth.

    Examples
    --------
    >>> rows = [row for row in published_timings() if row.source == "h200_sharp_ramp"][:2]
    >>> print(timing_table([(_predicted(rows), rows)]))
    row    source           operation      size  measured               predicted  error
    C0081  h200_sharp_ramp  all-reduce  8.59 GB   35.5 ms  36.2 ms (32.4 to 40.5)  +2.2%
    C0082  h200_sharp_ramp  all-reduce  8.59 GB   35.5 ms  36.2 ms (32.4 to 40.5)  +2.2%
    """
    rows = [("row", "source", "operation", "size", "measured", "predicted", "error")]
    for result, timings in found:
        ends = zip(timings, result.times, result.low, result.high, result.errors, strict=True)
        for row, time, low, high, error in ends:
            if np.isfinite(row.size):
                size, measured = fmt(row.size, "B"), fmt(row.seconds, "s")
                predicted = with_interval(time, low, high, "s")
            else:  # seconds of a byte: as a rate the longest time is the lowest
                moved = row.bus_bandwidth * row.seconds
                size, measured = "plateau", fmt(row.bus_bandwidth, "B/s")
                predicted = with_interval(moved / time, moved / high, moved / low, "B/s")
            rows.append((row.row, row.source, row.operation, size, measured, predicted, f"{error:+.1%}"))
    return aligned(rows, left=3)


COMMAND = Command(*HELP, add_arguments, run)
