"""The command ``validate``: published training runs, or a reader's own, beside what the model of a step predicts."""

from __future__ import annotations

import argparse

from . import training_runs


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Say what the command takes."""
    parser.add_argument("file", help="a CSV in the form of data/training_throughput.csv")
    parser.add_argument("--json", action="store_true", help="print one object")
    text = "instead, fit the constants of each generation to all sources but one, and print the error of that one"
    parser.add_argument("--leave-one-out", action="store_true", help=text)


def run(arguments: argparse.Namespace) -> int:
    """Predict, compare and print; return the exit status."""
    options = {"--json": arguments.json, "--leave-one-out": arguments.leave_one_out}
    return training_runs.main([arguments.file, *(name for name, given in options.items() if given)])
