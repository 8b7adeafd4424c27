"""The command ``clusterlab``, and ``python -m clusterlab``: its subcommands are :data:`COMMANDS`.

Results go to stdout, everything else to stderr. The exit status:

- 0: done.
- 1: an audit found a gap.
- 2: it was called wrongly, or what it was given cannot be read or used, or the result cannot be written.
- 3: nothing keeps within the limits of a plan; the message names the nearest that does, where there is one.
- 130: interrupted.
"""

from __future__ import annotations

import argparse
import codecs
import csv
import json
import os
import re
import sys
from contextlib import suppress
from pathlib import Path
from textwrap import dedent, fill

from .. import __version__
from ..evidence.text import UNUSABLE, name_of, read_text
from ..own import use_hardware
from ..own.hardware import VARIABLE
from ..planning import InfeasibleError
from .command import Waiting
from .commands import audit as audit_command
from .commands import (
    expect,
    explain,
    fit,
    fits,
    mfu,
    names,
    plan,
    post_training,
    predict,
    queue,
    serve,
    sweep,
    validate,
)
from .commands.audit import audit

__all__ = ["audit", "main"]

COMMANDS = {
    "list": names.COMMAND,
    "audit": audit_command.COMMAND,
    "fit": fit.COMMAND,
    "predict": predict.COMMAND,
    "validate": validate.COMMAND,
    "explain": explain.COMMAND,
    "expect": expect.COMMAND,
    "mfu": mfu.COMMAND,
    "fits": fits.COMMAND,
    "queue": queue.COMMAND,
    "serve": serve.COMMAND,
    "plan": plan.COMMAND,
    "post-training": post_training.COMMAND,
    "sweep": sweep.COMMAND,
}


HARDWARE = "accelerators, links, servers and prices of your own, in the form of the catalogue's hardware.toml"


def _use_hardware(arguments: argparse.Namespace) -> None:
    """Add what a file says to the catalogue, here and in processes that start from here."""
    if getattr(arguments, "dask", None):
        raise ValueError(
            f"--hardware isn't known to workers elsewhere: start them with {VARIABLE}={arguments.hardware}"
        )
    use_hardware(read_text(arguments.hardware), name_of(arguments.hardware))
    os.environ[VARIABLE] = str(Path(arguments.hardware).resolve())


def _parser(prog: str | None) -> argparse.ArgumentParser:
    if prog is None:
        prog = "python -m clusterlab" if Path(sys.argv[0]).name == "__main__.py" else "clusterlab"
    text = "The laws of GPU clusters held against data: what comes with the library, and your own."
    status = (
        "exit status: 0 done; 1 an audit found a gap; 2 called wrongly, or what was given cannot be read or used; "
        "3 no plan keeps within the limits"
    )
    parser = argparse.ArgumentParser(prog=prog, description=text, epilog=status)
    parser.add_argument("--version", action="version", version=f"clusterlab {__version__}")
    subparsers = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, command in COMMANDS.items():
        one = subparsers.add_parser(
            name,
            help=command.summary,
            description=fill(command.description, 80),
            epilog="examples:\n" + "\n".join(f"  {line}" for line in dedent(command.example).splitlines()),
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        command.add_arguments(one)
        one.add_argument("--hardware", metavar="TOML", help=HARDWARE)
        one._negative_number_matcher = re.compile(r"-\.?\d")  # "-1GB" is a wrong value of an option, and no option
        one.set_defaults(run=command.run)
    return parser


def main(argv: list[str] | None = None, *, prog: str | None = None) -> int:
    """Run a command, and answer whatever goes wrong with a line on stderr and an exit status, never a traceback."""
    codecs.register_error("clusterlab", _in_other_words)
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError):  # a notebook's streams write anything
            stream.reconfigure(errors="clusterlab")  # type: ignore[union-attr]
    arguments: argparse.Namespace | None = None
    try:
        try:
            arguments = _parser(prog).parse_args(argv)
            if arguments.hardware:
                _use_hardware(arguments)
            with Waiting(arguments.command):
                return arguments.run(arguments)
        finally:
            if sys.stdout:
                sys.stdout.flush()
    except BrokenPipeError:  # head has read what it wanted; what fails has failed before the first line of a result
        _silence()
        return 0
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    except (OSError, ValueError, ArithmeticError, RecursionError, MemoryError, csv.Error) as error:
        if isinstance(error, InfeasibleError) and arguments is not None and getattr(arguments, "json", False):
            print(json.dumps({"infeasible": str(error), "nearest": error.nearest}, indent=1))
        print(str(error) or type(error).__name__, file=sys.stderr)
        try:
            sys.stdout.flush()
        except OSError:
            _silence()
        return 3 if isinstance(error, InfeasibleError) else UNUSABLE


def _in_other_words(error: UnicodeError) -> tuple[str, int]:
    """What a terminal without Unicode shows for a character that it has not."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    lost = error.object[error.start : error.end]
    return "".join({"\N{MICRO SIGN}": "u", "\N{MULTIPLICATION SIGN}": "x"}.get(sign, "?") for sign in lost), error.end


def _silence() -> None:
    """Let the interpreter flush its streams into nothing as it ends."""
    nothing = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):
            os.dup2(nothing, stream.fileno())
