"""Bad calls of the library's public functions: a sound call of each, and one argument at a time that is none.

What comes back is sorted: a ``named`` refusal, a refusal that names ``another`` thing, a call that is ``accepted``
(a law takes 3 where it takes 8), and what must not be: an error that is none of ours (``leaked``), a warning of NumPy's
(``warned``), and a result that is not a number (``silent``).
"""

import importlib
import inspect
import io
import math
import random
import re
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import fields, is_dataclass
from pathlib import Path

import numpy as np

import clusterlab as cl
from arguments import ARGUMENTS
from clusterlab import failures, interconnect, operations, planning, serving
from clusterlab.catalogue import SOFTWARE
from clusterlab.quantities import Quantity

ROOMS = [
    "model",
    "roofline",
    "interconnect",
    "parallelism",
    "serving",
    "failures",
    "operations",
    "power",
    "scaling",
    "planning",
]
# What any argument may be given that somebody types in haste: other types, no number, ends of the range of floats.
BAD = (None, "x", "", -1, 0, 2.5, math.nan, math.inf, 1e308, -1e-308, [], {}, (), object(), b"x", True, [None])
BAD += (np.array([]), np.ones((2, 3)), cl.Workload(8192, 64))
SOUND = {  # by what a signature says
    "positive and finite": 2.0,
    "zero or more and finite": 2.0,
    "above 0 and at most 1": 0.5,
    "from 0 to 1": 0.5,
    "at least 0 and below 1": 0.5,
    "above 0 and below 1": 0.5,
    "at least 1": 2.0,
    "a whole number of at least 0": 2.0,
    "a whole number of at least 1": 2.0,
    "from -90 to 100 degrees Celsius": 20.0,
}


def pool() -> dict[str, object]:
    """A sound value of each kind of record, and of plain kinds."""
    model, chips = cl.transformer("Llama 3.1 8B"), cl.machine("H100 SXM")
    work, layout = cl.Workload(8192, 64), cl.Layout(dp=8)
    jobs = operations.draw_jobs({1: (0.7, 3600), 8: (0.3, 7200)}, gpus=32, load=0.8, jobs=20)
    ring = interconnect.ring_all_reduce(1e9, 8, bandwidth=1e11, latency=1e-6)
    replica = cl.Replica(model, chips)
    run, site = cl.Training(model, 1e11, global_batch=64), cl.Site("H100 SXM", gpus=8, layout={"tp": 1, "pp": 1})
    found = {"Transformer": model, "Machine": chips, "Workload": work, "Layout": layout, "Software": SOFTWARE["2024"]}
    found |= {"Replica": replica, "Requests": cl.Requests(1000, 300), "Batch": serving.Batch(8, 1000)}
    found |= {"Job": cl.Job(interval=1100, write=60, mtbf=1e4, detection=120, restart=300), "Jobs": jobs}
    found |= {"Cluster": operations.Cluster(4), "Collective": ring, "Training": run, "Site": site, "str": "x"}
    found |= {
        "Promise": serving.Promise(2.0, 0.05),
        "Scenario": planning.CENTRAL,
        "int": 2,
        "float": 2.0,
        "bool": False,
    }
    found |= {
        "bool": False,
        "Serving": cl.Serving(model, 5, 100, 30),
        "Estimate": failures.Estimate(2.0, 1.0, 3.0, "s"),
    }
    return found


# Machines that wear out fail ever faster: refused after 100,000 failures of a run, which takes some seconds.
_LONG_CALLS = {("simulate_job", "shape")}


def calls(seed: int, of_each: int) -> Iterator[tuple[str, object, str, dict[str, object]]]:
    """Bad calls: room and name, the function, the argument that is bad, and all arguments."""
    sound, chance = pool(), random.Random(seed)
    for room in ROOMS:
        module = importlib.import_module(f"clusterlab.{room}")
        listed = getattr(module, "__all__", None) or [name for name in vars(module) if name[0] != "_"]
        for name in listed:
            function = getattr(module, name)
            if not inspect.isfunction(function) or not function.__module__.startswith(f"clusterlab.{room}"):
                continue
            given, parameters = _sound_call(f"{room}.{name}", function, sound)
            for argument in parameters:
                if (name, argument) in _LONG_CALLS:
                    continue
                for bad in chance.sample(BAD, of_each):
                    yield f"{room}.{name}", function, argument, given | {argument: bad}


def _sound_call(name: str, function: object, sound: Mapping[str, object]) -> tuple[dict[str, object], list[str]]:
    """Arguments of a sound call, as far as they are known, and the names of all that it takes."""
    special = ARGUMENTS.get(name, {})
    known = vars(importlib.import_module(inspect.unwrap(function).__module__))
    given, names = {}, []
    for argument, one in inspect.signature(function).parameters.items():
        if one.kind in (one.VAR_POSITIONAL, one.VAR_KEYWORD):
            continue
        names.append(argument)
        written = str(one.annotation).split(" | ")[0]
        if argument in special:
            value = special[argument]
            given[argument] = value[0] if isinstance(value, tuple | list | np.ndarray) and len(value) == 2 else value
        elif one.default is not one.empty:
            continue
        elif written in sound:
            given[argument] = sound[written]
        else:
            rules = [q.rule.text for q in getattr(known.get(written), "__metadata__", ()) if isinstance(q, Quantity)]
            given[argument] = SOUND[rules[0]] if rules else 2.0
    return given, names


def outcome(function: object, argument: str, given: Mapping[str, object]) -> str:
    """What comes of a call: a word of the module's text, with what leaked behind it."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            result = function(**given)
    except RuntimeWarning as warning:
        return f"warned {warning}"
    except (ValueError, ImportError) as why:
        return "named" if re.search(rf"\b{argument.replace('_', '[ _]')}", str(why)) else "another"
    except Exception as error:  # what leaks is what is looked for
        return f"leaked {type(error).__name__}: {error}"
    known = ".planning" in function.__module__  # what a plan doesn't know, as a price, is no number there
    return "accepted" if known or all(map(_sane, _numbers(result))) else "silent"


def _numbers(result: object, depth: int = 0) -> Iterator[object]:
    """The numbers of a result, and of its fields."""
    if isinstance(result, float | np.ndarray):
        yield result
    elif depth < 3 and is_dataclass(result):
        for one in fields(result):
            yield from _numbers(getattr(result, one.name), depth + 1)
    elif depth < 3 and isinstance(result, tuple | list):
        for one in result[:50]:
            yield from _numbers(one, depth + 1)


def _sane(number: object) -> bool:
    array = np.asarray(number)
    return array.dtype.kind != "f" or not np.any(np.isnan(array))


def counted(seed: int = 0, of_each: int = 3) -> tuple[Counter[str], dict[str, list[str]]]:
    """How many calls came to what, and which came to what must not be."""
    counts: Counter[str] = Counter()
    wrong: dict[str, list[str]] = {}
    for name, function, argument, given in calls(seed, of_each):
        found = outcome(function, argument, given)
        counts[found.split()[0]] += 1
        if found.split()[0] in ("leaked", "warned", "silent"):
            wrong.setdefault(found.split()[0], []).append(f"{name}({argument}={given[argument]!r:.40}): {found}")
    return counts, wrong


# --- The command -----------------------------------------------------------------------------------------------------

# A sound call of each command, small enough to take no time where a bad value is taken after all.
FILES = Path(__file__).parent / "evidence" / "files"
_CUT = ("--layout", "tp=1,pp=1,cp=1,zero=3,microbatch=1")
COMMANDS: Mapping[str, tuple[str, ...]] = {
    "plan": ("--model", "Llama 3.1 8B", "--tokens", "1T", "--gpus", "64", "--accelerator", "H100 SXM", *_CUT),
    "sweep": ("--models", "Llama 3.1 8B", "--accelerators", "H100 SXM", "--gpus", "64", "--tokens", "1T", *_CUT),
    "fits": ("--model", "Llama 3.1 8B", "--accelerator", "H100 SXM", "--gpus", "64", *_CUT),
    "serve": ("--model", "Llama 3.1 8B", "--accelerator", "H100 SXM", "--rate", "10"),
    "post-training": ("--model", "Llama 3.1 8B", "--accelerator", "H100 SXM", "--output", "500", "--gpus", "8"),
    "expect": ("--accelerator", "H100 SXM", "--gpus", "8"),
    "mfu": ("--model", "Llama 3.1 8B", "--accelerator", "H100 SXM", "--gpus", "8", "--tokens-per-second", "64k"),
    "list": ("links",),
    "queue": (str(FILES / "sacct_oxford.txt"),),
    "fit": (str(FILES / "nccl_pair.log"), "--scale-up", "NVLink 4", "--network", "InfiniBand NDR"),
    "predict": (str(FILES / "nccl_pair.log"), "--scale-up", "NVLink 4", "--network", "InfiniBand NDR"),
    "explain": (str(FILES / "maxtext_v5p.log"),),
    "validate": (str(FILES / "maxtext_v5p.log"),),
}
# What somebody types in haste. Of a value that is taken nothing is asked but that it is answered.
TYPED = (
    "",
    " ",
    "x",
    "nan",
    "inf",
    "-inf",
    "-1",
    "-1GB",
    "1e308",
    "-1e-9",
    "1,5",
    "0x10",
    "tp=8",
    "50%%",
    "\N{SNOWMAN}",
)
TYPED += ("1e400", "--", "[]", "1 2", "1_000", "None", "=", "tp=", "pue=", "pue=nan", "0")
_LONG = {"--dask", "--processes", "--folder", "--report", "--json", "--sharp", "--help", "--seed"}  # wait, or write


def typed(seed: int, of_each: int) -> Iterator[tuple[str, list[str]]]:
    """Bad calls of the command: its name, and the arguments; the last of an option counts."""
    from clusterlab.cli import _parser

    chance = random.Random(seed)
    groups = next(one for one in _parser("clusterlab")._actions if one.choices and "plan" in one.choices).choices
    for name, sound in COMMANDS.items():
        options = [o for one in groups[name]._actions for o in one.option_strings if o.startswith("--")]
        for option in sorted(set(options) - _LONG):
            for bad in chance.sample(TYPED, of_each):
                draws = ["--draws", "10"] if name in ("plan", "sweep") and option != "--draws" else []
                yield name, [name, *sound, *draws, option, bad]


def answer(arguments: list[str]) -> str:
    """What the command makes of a call: ``refused`` by name, ``another`` refusal, ``accepted``, or what leaked."""
    from clusterlab.cli import main

    out, err = io.StringIO(), io.StringIO()
    try:
        with warnings.catch_warnings(), redirect_stdout(out), redirect_stderr(err):
            warnings.simplefilter("error")
            status = main(arguments)
    except SystemExit as ended:
        status = ended.code
    except Exception as error:  # what leaks is what is looked for
        return f"leaked {type(error).__name__}: {error}"
    option = arguments[-2].removeprefix("--")
    if status == 0:
        bad = re.search(r"\b(?:nan|inf)\b", out.getvalue(), re.IGNORECASE)
        return "silent" if bad else "accepted"
    if status not in (2, 3) or "Warning" in err.getvalue() or not err.getvalue().strip():
        return f"leaked status {status}: {err.getvalue()}"
    return "named" if re.search(re.escape(option).replace("\\-", "[-_ ]").rstrip("s"), err.getvalue()) else "another"


# --- Files -----------------------------------------------------------------------------------------------------------

_SPOILS = ("cut", "twice", "nan", "huge", "negative", "none", "control", "unquoted", "separator", "lines")


def spoiled(text: str, how: str, chance: random.Random) -> str:
    """A file as it comes of a copy that broke off, of an editor, or of a program that went wrong."""
    lines, at = text.splitlines(keepends=True), chance.randrange(len(text))
    number = {"nan": "nan", "huge": "9" * 400, "negative": "-1", "none": "0"}.get(how)
    if number is not None:
        return re.sub(r"\d+(?:\.\d+)?", lambda found: number if chance.random() < 0.2 else found[0], text)
    if how == "lines":
        return "".join(line for line in lines if chance.random() < 0.9)
    return {
        "cut": text[:at],
        "twice": "".join(lines[: len(lines) // 2] + lines),
        "control": f"{text[:at]}\x00\N{SNOWMAN}\r{text[at:]}",
        "unquoted": text.replace('"', ""),
        "separator": text.replace("|", "\t").replace(",", ";"),
    }[how]


def broken_files(seed: int) -> Iterator[tuple[str, str]]:
    """Every file that the readers' tests hold, spoiled in each way: what was done to it, and its text."""
    chance = random.Random(seed)
    for path in sorted(FILES.iterdir()):
        if path.suffix != ".md":
            for how in _SPOILS:
                yield f"{path.name}, {how}", spoiled(path.read_text("utf-8"), how, chance)
