"""Validation: published training runs against the model of a step, source by source.

``python -m clusterlab.validate FILE.csv`` reads runs in the form of ``data/training_throughput.csv``, a reader's own
too, predicts each with :func:`clusterlab.training.step` and compares. A row that cannot be predicted is named, with the
reason.

What a row leaves open is filled in by rules that are the same for every row. The era of the software follows from the
year that the source names, or from the accelerator and the precision. What people tune and did not publish (microbatch,
interleaving since 2023, the split into tensor and pipeline ranks) is taken as the fastest that fits in memory.
Interleaving before 2023 and recomputation since then are off unless published; before, recomputation is full.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path

import numpy as np

from . import hardware, models
from .memory import footprint
from .training import PRECISIONS, SOFTWARE, Machine, Software, Step, machine, step, validity
from .transformer import Transformer, parameters, training_flops
from .units import TFLOP, Explained

SHAPE = ("layers", "hidden", "heads", "kv_heads", "ffn", "vocab")
LAYOUT = ("seq", "n_gpus", "gpus_per_node", "tp", "pp", "dp", "cp", "ep", "vpp", "micro_batch", "global_batch")
MEASURES = ("step_time_s", "tokens_per_s_per_gpu", "hw_tflops_per_gpu", "model_tflops_per_gpu", "hfu_pct", "mfu_pct")
TEXT = ("row_id", "group", "model", "gpu", "fsdp", "recompute", "seq_parallel", "precision")
NOTES = ("metric_note", "derived", "source", "source_loc", "source_check", "quality")
NUMBERS = ("params_b", "active_params_b", *SHAPE, *LAYOUT, *MEASURES, "mfu_peak_tflops")
COLUMNS = (*TEXT, *NUMBERS, *NOTES)
REQUIRED = ("row_id", "group", "model", "gpu", "n_gpus")


class _Skip(Exception):  # noqa: N818, it is no error
    """Why a row cannot be predicted."""


@dataclass(frozen=True)
class Run:
    """One published run: what :func:`clusterlab.training.step` takes, and the measured seconds of a step."""

    row: str
    source: str
    model: Transformer
    machine: Machine
    layout: dict
    seconds: float


@dataclass(frozen=True)
class Skipped:
    """A row that cannot be predicted, and why."""

    row: str
    source: str
    why: str


# --- Reading ---------------------------------------------------------------------------------------------------------


def published() -> tuple[list[Run], list[Skipped]]:
    """Return the runs that come with the library, and the rows that cannot be predicted.

    Examples
    --------
    >>> runs, skipped = published()
    >>> len({run.source for run in runs}) > 15
    True
    """
    return read(files(__package__) / "data" / "training_throughput.csv")


def read(path) -> tuple[list[Run], list[Skipped]]:
    """Read a table of runs.

    Parameters
    ----------
    path : path-like
        A CSV file with columns from ``COLUMNS``, at least those of ``REQUIRED``. An empty cell means not published.

    Returns
    -------
    tuple of list
        The runs, and the rows that cannot be predicted.

    Raises
    ------
    ValueError
        The file is empty, a column is unknown, missing or there twice, a row has too few or too many fields, or a
        number is none; the message names the line.
    """
    try:
        text = path.read_text(encoding="utf-8-sig") if hasattr(path, "read_text") else Path(path).read_text("utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError(f"{path}, line 1: not a text file in UTF-8") from None
    lines = csv.reader(io.StringIO(text))
    heading = [name.strip() for name in next(lines, [])]
    if not any(heading):
        raise ValueError(f"{path}, line 1: the file is empty; it needs a heading and rows")
    if unknown := [name for name in heading if name not in COLUMNS]:
        raise ValueError(
            f"{path}, line 1: unknown columns {', '.join(map(repr, unknown))}; known: {', '.join(COLUMNS)}"
        )
    if twice := {name for name in heading if heading.count(name) > 1}:
        raise ValueError(f"{path}, line 1: columns there twice: {', '.join(sorted(twice))}")
    if missing := [name for name in REQUIRED if name not in heading]:
        raise ValueError(f"{path}, line 1: missing columns {', '.join(missing)}")
    runs, skipped = [], []
    try:
        for cells in lines:
            if not any(cell.strip() for cell in cells):
                continue
            where = f"{path}, line {lines.line_num}"
            if len(cells) != len(heading):
                raise ValueError(f"{where}: {len(cells)} fields, but the heading has {len(heading)}")
            row = dict.fromkeys(COLUMNS, "") | dict(zip(heading, (cell.strip() for cell in cells), strict=True))
            numbers = _numbers(row, where)
            try:
                runs.append(_run(row, numbers))
            except (_Skip, ValueError) as why:
                skipped.append(Skipped(row["row_id"], row["group"], str(why)))
    except csv.Error as error:
        raise ValueError(f"{path}, line {lines.line_num}: {error}") from None
    if not runs and not skipped:
        raise ValueError(f"{path}, line 2: no rows below the heading")
    return runs, skipped


def _numbers(row: dict[str, str], where: str) -> dict[str, float | None]:
    """The numbers of a row; an empty cell is ``None``."""
    numbers: dict[str, float | None] = {}
    for name in NUMBERS:
        try:
            numbers[name] = float(row[name]) if row[name] else None
        except ValueError:
            raise ValueError(f"{where}, row {row['row_id']}: {name} must be a number, got {row[name]!r}") from None
        if numbers[name] is not None and not 0 < numbers[name] < np.inf:
            raise ValueError(f"{where}, row {row['row_id']}: {name} must be above zero and finite, got {row[name]!r}")
        if name.endswith("_pct") and (numbers[name] or 0) > 100:
            raise ValueError(f"{where}, row {row['row_id']}: {name} must be at most 100, got {row[name]!r}")
    return numbers


_ACCELERATORS = (
    *((rf"\b{name}", name.upper()) for name in ("gb300", "gb200", "b300", "b200")),
    *((r"h200", "H200 SXM"), (r"h800", "H800 SXM"), (r"h100.*pcie", "H100 PCIe"), (r"h100", "H100 SXM")),
    *((r"a100.*40 ?gb", "A100 40GB"), (r"a100", "A100 80GB"), (r"v100", "V100 SXM2")),
    *((rf"mi{name}x", f"MI{name}X") for name in (250, 300, 325, 355)),
    *((r"tpu.*v5 ?(e|lite)", "TPU v5e"), (r"tpu.*v4", "TPU v4"), (r"tpu.*v5p", "TPU v5p"), (r"tpu.*v6e", "TPU v6e")),
    *((r"tpu.*v?7", "TPU v7"), (r"gaudi ?3", "Gaudi 3"), (r"trainium ?2|trn2", "Trainium2")),
)


def _machine(row, numbers) -> Machine:
    """The accelerator that a row names. "2.4TB/s" and "500 W cap" in the name change its memory and its clock."""
    text = row["gpu"].casefold()
    known = next((name for pattern, name in _ACCELERATORS if re.search(pattern, text)), None)
    if known is None:
        raise _Skip(f"no data on the accelerator {row['gpu']!r}")
    chip = hardware.accelerator(known)
    # A rack or a pod is one domain however many of its accelerators share a host.
    host = numbers["gpus_per_node"]
    one = machine(known, domain=int(host) if host and chip.scale_up_domain <= 16 else None)
    if found := re.search(r"(\d+(?:\.\d+)?) ?tb/s", text):
        one = replace(one, hbm_bandwidth=float(found[1]) * 1e12)
    if (found := re.search(r"(\d+) ?w cap", text)) and chip.tdp:
        slower = min(float(found[1]) / chip.tdp, 1.0) ** (1 / 3)  # dynamic power goes as the cube of the clock
        one = replace(one, peaks={name: peak * slower for name, peak in one.peaks.items()})
    return one


def _model(row, numbers) -> Transformer:
    """The model that a row names, from the catalogue, or one made of its shape."""
    name = re.sub(r"\(.*?\)|PTD-P|ZeRO-3", "", row["model"]).strip()
    given = {key: int(numbers[key]) for key in SHAPE if numbers[key] is not None}
    for guess in (name, f"{name} (Megatron-Core)", f"MaxText {name.removesuffix(' dense')}"):
        try:
            known = models.model(guess)
        except ValueError:
            continue
        if all(given.get(key, getattr(known, key)) == getattr(known, key) for key in ("layers", "hidden", "heads")):
            return replace(known, vocab=given.get("vocab", known.vocab))
    if numbers["active_params_b"] and numbers["active_params_b"] != numbers["params_b"]:
        raise _Skip(f"{row['model']} is a mixture of experts that the catalogue lacks")
    if lacking := [key for key in ("layers", "hidden", "heads") if key not in given]:
        raise _Skip(f"the catalogue lacks {row['model']}, and the row its {', '.join(lacking)}")
    given = {"ffn": 4 * given["hidden"], "vocab": 50304} | given
    if given["hidden"] % given["heads"]:
        given["head_dim"] = 128
    options = [{"gated": gated, "tied": tied} for gated in (False, True) for tied in (True, False)]
    if numbers["params_b"]:  # whether gated and tied: what comes nearest to the published size
        options.sort(key=lambda o: abs(parameters(Transformer(**given, **o)).total - numbers["params_b"] * 1e9))
    return Transformer(**given, **options[0], name=row["model"])


def _precision(row, one: Machine) -> str:
    text = row["precision"].casefold()
    patterns = (
        ("fp4", "fp4"),
        ("fp8|float8", "fp8"),
        ("fp16|float16|half", "fp16"),
        ("bf16|bfloat16|^$|not stated", "bf16"),
    )
    name = next((name for pattern, name in patterns if re.search(pattern, text)), None)
    if name is None:
        raise _Skip(f"no data on the precision {row['precision']!r}")
    if name == "bf16" and "bf16" not in one.peaks:
        name = "fp16"
    if PRECISIONS[name][0] not in one.peaks:
        raise _Skip(f"no {name} peak of {one.name}")
    return name


def _software(row, one: Machine, precision: str) -> Software:
    """The era: by the latest year that the source names, else by the precision and the accelerator."""
    text = f"{row['source']} {row['source_loc']}"
    years = [2000 + int(year) for year in re.findall(r"arXiv:(\d\d)\d\d\.", text)]
    years += [int(year) for year in re.findall(r"(?<!\d)(20[12]\d)(?:\d\d)?(?!\d)", text)]
    if years:
        year = max(years)
    elif one.efficiency.generation == "Volta" or precision == "fp16":
        year = 2022
    else:  # "amp" is PyTorch's automatic mixed precision
        year = 2023 if row["precision"].startswith("amp") or one.efficiency.generation == "Ampere" else 2024
    return SOFTWARE[str(min(max(year, 2021), 2024))]


def _zero(row, soft: Software, ranks: float, dp: float, stages: float) -> tuple[int, float | None]:
    """ZeRO stage and the ranks that share, where that is not all of them.

    FSDP in a pipeline takes the time of stage 1: weights stay gathered, and gradients are added up whole and leave with
    the last microbatch. Source: PyTorch, ``torch.distributed.pipelining.stage``; torchtitan reshards only without one.
    """
    text = row["fsdp"].casefold()
    usual = 1 if soft.data_overlap else 0
    if text.isdigit():
        share = int(text)
        return (3 if share > 1 else usual), (share if 1 < share < ranks and share != dp else None)
    if text in ("", "no", "none", "false", "not stated"):
        return usual, None
    if "not reshard" in text or ("fsdp" in text and stages > 1):
        return (1 if stages > 1 else 2), None
    found = re.search(r"zero[- ]?([0-3])", text)
    return (int(found[1]) if found else 3), None


def _run(row, numbers) -> Run:
    """A row as a run: what it says, and by rule what it does not say."""
    one, shape = _machine(row, numbers), _model(row, numbers)
    precision = _precision(row, one)
    soft = _software(row, one, precision)
    n, s, gb = numbers["n_gpus"], numbers["seq"], numbers["global_batch"]
    if n is None or s is None:
        raise _Skip(f"{'n_gpus' if n is None else 'seq'} is not published")
    if not any(numbers[name] for name in MEASURES):
        raise _Skip("no step time, throughput or utilisation is published")
    cp, ep = numbers["cp"] or 1.0, numbers["ep"] or 1.0
    if gb is None and numbers["micro_batch"] and not (numbers["tp"] or numbers["pp"] or numbers["dp"]):
        splits = [(1.0, 1.0, n / cp)]  # sequences of each accelerator, and no split: sharded data parallelism
        row = row | {"fsdp": row["fsdp"] or "FSDP"}
    else:
        splits = _splits(numbers, n / cp, one.domain)
    if gb is None:
        if len(splits) > 1 or splits[0][1] > 1 or numbers["micro_batch"] is None:
            raise _Skip("global_batch is not published")
        gb = splits[0][2] * numbers["micro_batch"]  # without a pipeline, one microbatch
    text = row["recompute"].casefold()
    again = next((name for name in ("selective", "full") if text.startswith(name[:3])), "none")
    if text in ("", "not stated") and not soft.attention:
        again = "full"
    spread = row["seq_parallel"].casefold()
    layout = {"sequence": s, "global_batch": gb, "cp": cp, "ep": ep, "recompute": again, "precision": precision}
    layout |= {"software": soft, "sequence_parallel": not spread.startswith("no") or spread == "not stated"}
    if not spread:
        layout["sequence_parallel"] = soft.name != "2021"
    layout["zero"], group = _zero(row, soft, splits[0][2] * cp, splits[0][2], splits[0][1])
    if group is not None:
        layout["shard_group"] = group
    micro = [numbers["micro_batch"]] if numbers["micro_batch"] else [1, 2, 4, 8, 16, 32, 64]
    chunks = [numbers["vpp"]] if numbers["vpp"] else range(1, 2 if soft.name < "2023" else 17)
    choices = [(*split, b, v) for split in splits for b in micro for v in (chunks if split[1] > 1 else [1])]
    layout |= _fastest(shape, one, layout, choices, n)
    return Run(row["row_id"], row["group"], shape, one, layout, _seconds(numbers, shape, layout, n))


def _splits(numbers, n: float, domain: int) -> list[tuple[float, float, float]]:
    """The split of n GPUs into (tp, pp, dp), or all splits that agree with what the row says."""
    known = [numbers[axis] for axis in ("tp", "pp", "dp")]
    tps = [known[0]] if known[0] else [2.0**i for i in range(int(np.log2(min(domain, 16))) + 1)]
    if known[1]:
        pps = [known[1]]
    elif known[2]:
        pps = [n / (known[2] * tp) for tp in tps]
    else:
        pps = [float(p) for p in range(1, 65) if n % p == 0]
    splits = {(tp, pp, known[2] or n / (tp * pp)) for tp in tps for pp in pps}
    found = sorted(split for split in splits if np.prod(split) == n and all(part % 1 == 0 for part in split))
    if not found:
        named = " x ".join(f"{axis} {part:g}" for axis, part in zip(("tp", "pp", "dp"), known, strict=True) if part)
        raise _Skip(f"{named} does not make {n:g} GPUs (without cp)")
    return found


def _fastest(shape, one: Machine, layout: dict, choices: Sequence[tuple], n: float) -> dict:
    """Of (tp, pp, dp, microbatch, chunks) the fastest that fits in memory; if none does, of the smallest microbatch."""
    tp, pp, dp, b, v = np.array(choices, dtype=float).T
    options = {"tp": tp, "pp": pp, "dp": dp, "microbatch": b, "chunks": v}
    gb, ep = layout["global_batch"], layout["ep"]
    rules = {key: layout[key] for key in ("sequence", "global_batch", "cp", "ep", "shard_group") if key in layout}
    found = validity(shape, **rules, **options, gpus=n)
    keep = np.flatnonzero(found.mask)
    if not keep.size:
        broken = {rule: np.count_nonzero(mask) for rule, mask in found.faults.items()}
        raise _Skip(f"not a layout: {max(broken, key=broken.get)}")
    if keep.size > 1:
        options = {name: values[keep] for name, values in options.items()}
        soft = layout["software"]
        need = footprint(
            shape,
            **{name: options[name] for name in ("tp", "pp", "dp", "microbatch")},  # interleaving costs little memory
            **{name: layout[name] for name in ("sequence", "cp", "ep", "zero", "recompute", "sequence_parallel")},
            etp=1 if ep > 1 else None,
            microbatches=gb / (options["dp"] * options["microbatch"]),
            fused_attention=soft.attention is not None,
            dropout=soft.dropout,
        )
        fits = need.total <= one.hbm_capacity
        if not np.any(fits):
            fits = options["microbatch"] == options["microbatch"].min()
        options = {name: values[fits] for name, values in options.items()}
        times = np.broadcast_to(step(shape, one, **layout, **options).time, options["tp"].shape)
        keep = [int(np.argmin(times))]
    return {name: float(values[keep[0]]) for name, values in options.items()}


def _seconds(numbers, shape, layout, n: float) -> float:
    """The measured step: as printed, or from throughput, or from FLOP/s or their utilisation by published FLOP counts.

    Model FLOPs are 6 P + 12 L h s a token, in full and without the mask; hardware FLOPs add what is recomputed.
    """
    tokens = layout["global_batch"] * layout["sequence"] / n
    if numbers["step_time_s"]:
        return numbers["step_time_s"]
    if numbers["tokens_per_s_per_gpu"]:
        return tokens / numbers["tokens_per_s_per_gpu"]
    flops = training_flops(shape, layout["sequence"], recompute=layout["recompute"])
    for kind, count in (("hw_tflops_per_gpu", flops.hardware), ("model_tflops_per_gpu", flops.model)):
        if numbers[kind]:
            return tokens * count / (numbers[kind] * TFLOP)
    peak = numbers["mfu_peak_tflops"]
    for kind, count in (("hfu_pct", flops.hardware), ("mfu_pct", flops.model)):
        if numbers[kind] and peak:
            return tokens * count / (numbers[kind] / 100 * peak * TFLOP)
    raise _Skip("a utilisation is published, but not the peak that it refers to (mfu_peak_tflops)")


# --- Comparing -------------------------------------------------------------------------------------------------------


def predict(run: Run) -> Step:
    """Return the step that the model predicts for a run."""
    return step(run.model, run.machine, **run.layout)


@dataclass(frozen=True, repr=False)
class Score(Explained):
    """How well a source is predicted. Errors are shares of the measured step time; ``None`` where nothing is known.

    ``baseline_mean_abs_error`` is that of the one constant MFU that fits these rows best, ``skill`` is 1 minus the
    ratio of the two errors: above 0 the model beats that constant.
    """

    source: str
    rows: int
    predicted: int
    skipped: int
    mean_abs_error: float | None
    median_abs_error: float | None
    bias: float | None
    baseline_mean_abs_error: float | None
    skill: float | None


def score(source: str, errors, constant, *, skipped: int = 0) -> Score:
    """Score one source.

    Parameters
    ----------
    source : str
        Its name.
    errors : array_like
        Predicted over measured time, minus 1.
    constant : array_like
        Time at the full peak over measured time: the published MFU of each row.
    skipped : int
        Rows that could not be predicted.

    Returns
    -------
    Score

    Examples
    --------
    >>> found = score("lab", [0.02, -0.02], [0.40, 0.50])
    >>> round(found.baseline_mean_abs_error, 3), round(found.skill, 2)
    (0.1, 0.8)
    """
    errors, constant = np.asarray(errors, float), np.asarray(constant, float)
    n = len(errors)
    if not n:
        return Score(source, skipped, 0, skipped, None, None, None, None, None)
    # The mean of |constant / mfu - 1| is piecewise linear in 1 / mfu: its least is at one of the rows.
    baseline = min(float(np.mean(np.abs(constant / mfu - 1))) for mfu in constant)
    error = float(np.mean(np.abs(errors)))
    skill = 1 - error / baseline if baseline > 0 else None
    median, bias = float(np.median(np.abs(errors))), float(errors.mean())
    return Score(source, n + skipped, n, skipped, error, median, bias, baseline, skill)


def compare(runs: Iterable[Run], skipped: Iterable[Skipped] = ()) -> tuple[list[Score], Score]:
    """Score every source, and all rows together.

    Parameters
    ----------
    runs, skipped : iterable
        From :func:`read`.

    Returns
    -------
    tuple
        A list of :class:`Score`, in the order of the rows, and one for all rows.
    """
    found: dict[str, tuple[list, list]] = {}
    for run in runs:
        errors, constants = found.setdefault(run.source, ([], []))
        predicted = predict(run)
        errors.append(float(predicted.time) / run.seconds - 1)
        constants.append(float(predicted.model_flops / (predicted.gpus * predicted.peak)) / run.seconds)
    left: dict[str, int] = {}
    for one in skipped:
        left[one.source] = left.get(one.source, 0) + 1
    sources = dict.fromkeys([*found, *left])
    scores = [score(source, *found.get(source, ([], [])), skipped=left.get(source, 0)) for source in sources]
    everything = [np.concatenate([part[i] for part in found.values()]) if found else [] for i in (0, 1)]
    return scores, score("overall", *everything, skipped=sum(left.values()))


_NEUTRAL = {"gemm": 0.7, "gemm_8": 0.7, "gemm_4": 0.5, "memory": 0.7, "shows": 0.5}
_NEUTRAL |= {"attention": 0.3, "attention_2023": 0.3}


def calibrate(runs: Sequence[Run], *, rounds: int = 4) -> dict[str, float]:
    """Fit the constants of one generation of accelerators to runs on it, from the same neutral start every time.

    Parameters
    ----------
    runs : sequence of Run
        Runs on accelerators of one generation. Every source has one vote, shared by its rows.
    rounds : int
        Steps of Gauss and Newton on the logarithms of times and constants.

    Returns
    -------
    dict
        Constants by their names in :class:`clusterlab.training.Efficiency`. Those that no run shows stay as they began.
    """
    sizes: dict[str, int] = {}
    for run in runs:
        sizes[run.source] = sizes.get(run.source, 0) + 1
    weight = np.array([sizes[run.source] ** -0.5 for run in runs])
    values, nudge = dict(_NEUTRAL), 1.02
    for _ in range(rounds):
        # One call for each run: the constants as they are, and with each of them nudged.
        nudged = {name: np.full(1 + len(values), value) for name, value in values.items()}
        for i, name in enumerate(values):
            nudged[name][1 + i] *= nudge
        misses = np.log([_time_with(run, nudged) / run.seconds for run in runs])
        now, slopes = misses[:, 0], (misses[:, 1:] - misses[:, :1]) / np.log(nudge)
        # Rows far off (a machine short of memory, say) count less: least absolute rather than least squares.
        robust = weight / np.sqrt(np.maximum(np.abs(now - np.median(now)), 0.02))
        damped = np.vstack([slopes * robust[:, None], 0.3 * np.eye(len(values))])
        change = np.linalg.lstsq(damped, np.concatenate([-now * robust, np.zeros(len(values))]), rcond=None)[0]
        for name, by in zip(values, np.clip(change, -0.4, 0.4), strict=True):
            most = 9 / 16 if name.startswith("attention") else 1.0
            values[name] = float(np.clip(values[name] * np.exp(by), 0.05, most / nudge))
    return values


def _time_with(run: Run, constants: dict):
    one = replace(run.machine, efficiency=replace(run.machine.efficiency, **constants))
    return np.broadcast_to(step(run.model, one, **run.layout).time, np.shape(constants["gemm"]))


def leave_one_out(runs: Iterable[Run]) -> dict[str, float]:
    """Mean absolute error of each source under constants fitted to the other sources of its generation.

    Parameters
    ----------
    runs : iterable of Run
        From :func:`read`. A source that is alone in its generation is left out.

    Returns
    -------
    dict
        Source to error, a share of the measured time.
    """
    generations: dict[str, dict[str, list[Run]]] = {}
    for run in runs:
        generations.setdefault(run.machine.efficiency.generation, {}).setdefault(run.source, []).append(run)
    errors = {}
    for sources in generations.values():
        for source, held in sources.items():
            others = [run for other, rows in sources.items() if other != source for run in rows]
            if others:
                constants = calibrate(others)
                errors[source] = float(np.mean([abs(_time_with(run, constants) / run.seconds - 1) for run in held]))
    return errors


# --- Command line ----------------------------------------------------------------------------------------------------


def main(argv: list[str] | None = None) -> int:
    """Predict the step time of published training runs, and compare source by source."""
    parser = argparse.ArgumentParser(prog="python -m clusterlab.validate", description=main.__doc__)
    parser.add_argument("file", help="a CSV in the form of data/training_throughput.csv")
    parser.add_argument("--json", action="store_true", help="print one object")
    text = "instead, fit the constants of each generation to all sources but one, and print the error of that one"
    parser.add_argument("--leave-one-out", action="store_true", help=text)
    arguments = parser.parse_args(argv)
    try:
        runs, skipped = read(arguments.file)
        scores, overall = compare(runs, skipped)
    except (OSError, ValueError) as error:
        print(error, file=sys.stderr)
        return 1
    if arguments.leave_one_out:
        left = leave_one_out(runs)
        print(json.dumps(left, indent=1) if arguments.json else "\n".join(f"{e:>6.1%}  {s}" for s, e in left.items()))
    elif arguments.json:
        sources = [vars(one) for one in scores]
        rows = [{"row": one.row, "why": one.why} for one in skipped]
        print(json.dumps({"sources": sources, "overall": vars(overall), "skipped": rows}, indent=1, allow_nan=False))
    else:
        print(table([*scores, overall]))
        for one in skipped:
            print(f"skipped {one.row} ({one.source}): {one.why}")
    return 0


def table(scores: Iterable[Score]) -> str:
    """A line for each score.

    Examples
    --------
    >>> print(table([score("lab", [0.02, -0.02], [0.40, 0.50], skipped=1)]))
    source  rows  predicted   mean  median    bias  constant MFU  skill
    lab        3          2   2.0%    2.0%   +0.0%         10.0%  +0.80
    """
    scores = list(scores)
    width = max(len(one.source) for one in scores)
    width = max(width, len("source"))
    lines = [f"{'source':<{width}}  rows  predicted   mean  median    bias  constant MFU  skill"]
    for one in scores:
        cells = [
            "-" if value is None else format(value, form)
            for value, form in (
                *((one.mean_abs_error, ".1%"), (one.median_abs_error, ".1%"), (one.bias, "+.1%")),
                *((one.baseline_mean_abs_error, ".1%"), (one.skill, "+.2f")),
            )
        ]
        padded = (cell.rjust(size) for cell, size in zip(cells, (5, 6, 6, 12, 5), strict=True))
        lines.append("  ".join([one.source.ljust(width), f"{one.rows:>4}", f"{one.predicted:>9}", *padded]))
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
