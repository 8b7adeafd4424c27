"""Inference runs: published ones, or a reader's own, read from a table as what the laws of serving take.

:func:`published_inference` and :func:`read_inference` turn rows into records of type :class:`InferenceRun`;
:func:`predict_inference` predicts them with :mod:`clusterlab.serving`. A row that cannot be predicted is named, with
the reason. Four kinds of measurements are read: a batch that starts and ends together (``static``), an endless queue of
requests (``saturated``), and passes of replicas that only decode (``decode``) or only read prompts (``prefill``).

What a row leaves open is filled in by rules that are the same for every row, and ``InferenceRun.filled`` says what and
why. Software is that of ``framework``, or ``usual``. A batch that is not published is the largest that fits; where a
throughput and a time per token are, it is their product (Little's law). Experts of a mixture are split as attention is
unless ``ep`` says otherwise; "attention DP" in the note makes data-parallel ranks of tensor-parallel ones. Ranks left
open are tensor-parallel; heads are padded where they do not divide. Caches have 8 bits where products have 8 or 4.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import NamedTuple

import numpy as np

from .. import catalogue
from ..catalogue import SERVING, Machine, ServingSoftware, machine
from ..model import PRECISIONS, Layout, Transformer, forward_flops
from ..serving import (
    Batch,
    Formats,
    Replica,
    Requests,
    continuous_batch,
    forward_pass,
    largest_batch,
    saturation,
    static_batch,
)
from .text import name_of, read_text
from .training_runs import _EMPTY, Skipped, _model_of, _Skip

TEXT = ("row_id", "group", "model", "gpu", "precision", "framework", "mode", "note")
NOTES = ("derived", "source", "source_loc", "source_check", "quality")
COUNTS = ("n_gpus", "tp", "pp", "ep", "batch", "concurrency", "isl", "osl", "context_len")
MEASURES = ("ttft_ms", "tpot_ms", "latency_s", "output_tok_s_total", "output_tok_s_per_gpu", "input_tok_s_total")
NUMBERS = ("params_b", "active_params_b", *COUNTS, *MEASURES, "mfu_pct")
COLUMNS = (*TEXT, *NUMBERS, *NOTES)
REQUIRED = ("model", "gpu", "n_gpus")


@dataclass(frozen=True, eq=False)
class InferenceRun:
    """One row: what the laws of serving take, and the seconds that were measured.

    ``kind`` is ``"static"``, ``"saturated"``, ``"decode"`` or ``"prefill"``. ``seconds`` are those of the batch, of a
    token of a saturated replica, or of a pass. ``replicas`` is how many the row's GPUs are.
    """

    row: str
    source: str
    kind: str
    seconds: float
    replica: Replica
    requests: Requests
    sequences: float | None
    context: float
    tokens: float  # of prompts, in a prefill
    filled: Mapping[str, str]


@cache
def published_inference() -> tuple[tuple[InferenceRun, ...], tuple[Skipped, ...]]:
    """Return the runs that come with the library, and the rows that cannot be predicted.

    Examples
    --------
    >>> runs, skipped = published_inference()
    >>> sorted({run.kind for run in runs})
    ['decode', 'prefill', 'saturated', 'static']
    """
    runs, skipped = read_inference(files("clusterlab.evidence") / "data" / "inference.csv")
    return tuple(runs), tuple(skipped)


def is_inference(heading: Iterable[str]) -> bool:
    """Whether a table with these columns is one of inference, and not of training.

    Examples
    --------
    >>> is_inference(["model", "gpu", "isl", "osl"]), is_inference(["model", "gpu", "global_batch", "seq"])
    (True, False)
    """
    own = {"isl", "osl", "framework", "concurrency", "context_len", *MEASURES}
    return bool(own & {name.strip().casefold() for name in heading})


def read_inference(path) -> tuple[list[InferenceRun], list[Skipped]]:
    """Read a table of runs.

    Parameters
    ----------
    path : path-like
        A CSV file with columns from ``COLUMNS``, in any case: those of ``REQUIRED`` and one of ``MEASURES`` at least.
        ``"-"`` is standard input. An empty cell, ``N/A``, ``-`` and ``null`` mean not published; lines that begin with
        ``#`` are comments. Without ``row_id`` a row is called by its line, without ``group`` its source is ``"runs"``.

    Returns
    -------
    tuple of list
        The runs, and the rows that cannot be predicted.

    Raises
    ------
    OSError
        The file cannot be read.
    ValueError
        It is not text, is empty, or has a heading with a column that is unknown, missing or there twice.
    """
    return parse_inference(read_text(path), name_of(path))


def parse_inference(text: str, name: str) -> tuple[list[InferenceRun], list[Skipped]]:
    r"""Read the text of a table, as :func:`read_inference`; ``name`` stands in messages.

    Examples
    --------
    >>> table = "model,gpu,n_gpus,precision,isl,osl,output_tok_s_total\nLlama 3.1 8B,H100,1,fp8,1000,1000,15220"
    >>> (run,), _ = parse_inference(table, "mine.csv")
    >>> run.kind, dict(run.filled)["batch"]
    ('saturated', 'largest that fits')
    """
    lines = csv.reader(io.StringIO(text))
    heading: list[str] = []
    runs, skipped = [], []
    try:
        for cells in lines:
            cells = [cell.strip() for cell in cells]
            if not any(cells) or cells[0].startswith("#"):
                continue
            if not heading:
                heading = _heading(cells, f"{name}, line {lines.line_num}")
                continue
            row = _Row(lines.line_num, heading, cells)
            try:
                runs.append(_run(row))
            except (_Skip, ValueError) as why:
                skipped.append(Skipped(row.name, row.source, str(why)))
    except csv.Error as error:
        raise ValueError(f"{name}, line {lines.line_num}: {error}") from None
    if not heading:
        raise ValueError(f"{name}, line 1: the file is empty; it needs a heading and rows")
    if not runs and not skipped:
        raise ValueError(f"{name}, line {lines.line_num + 1}: no rows below the heading")
    return runs, skipped


def _heading(cells: list[str], where: str) -> list[str]:
    names = [re.sub(r"[\s-]+", "_", cell.casefold()) for cell in cells]
    if unknown := [name for name in names if name and name not in COLUMNS]:
        raise ValueError(f"{where}: unknown columns {', '.join(unknown)}; known: {', '.join(COLUMNS)}")
    if twice := sorted({name for name in names if name and names.count(name) > 1}):
        raise ValueError(f"{where}: columns there twice: {', '.join(twice)}")
    if missing := [name for name in REQUIRED if name not in names]:
        raise ValueError(f"{where}: missing columns {', '.join(missing)}")
    if not set(MEASURES) & set(names):
        raise ValueError(f"{where}: no column with a measurement; it needs one of {', '.join(MEASURES)}")
    return names


class _Row:
    """A row of the table: its cells as text and as numbers (None: not published), and what gets filled in for them."""

    def __init__(self, line: int, heading: list[str], cells: list[str]) -> None:
        self.line, self.whole = line, len(cells) == len(heading)
        self.filled: dict[str, str] = {}
        given = {name: cell for name, cell in zip(heading, cells, strict=False) if cell.casefold() not in _EMPTY}
        self.text = dict.fromkeys(COLUMNS, "") | given
        self.name, self.source = self.text["row_id"] or f"line {line}", self.text["group"] or "runs"

    def __getitem__(self, name: str) -> float | None:
        """Return a number; a range, "45-50", is its middle."""
        text = self.text[name].replace(",", "")
        if not text:
            return None
        ends = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(?:-|to)\s*(\d+(?:\.\d+)?)", text)
        try:
            value = (float(ends[1]) + float(ends[2])) / 2 if ends else float(text)
        except ValueError:
            raise _Skip(f"{name} must be a number, got {self.text[name]!r}") from None
        if not 0 < value < 1e12:
            raise _Skip(f"{name} must be above zero and below 1e12, got {self.text[name]!r}")
        if ends:
            self.filled[name] = f"{value:g} (middle of {text})"
        return value


# --- What a row names ------------------------------------------------------------------------------------------------

_PRECISIONS = {"fp4": "fp4|w4a4|mxfp4", "fp8": "fp8|w8a8|e4m3", "int8": "int8", "fp16": "(?<!b)(?:fp16|float16)|half"}
_FRAMEWORKS = {
    "TensorRT-LLM": r"tensorrt|trt|\bnim\b",
    "LMDeploy": "lmdeploy|turbomind",
    "DeepSeek": "deepseek",
    "SGLang": "sglang",
    "JAX": r"\bjax\b|saxml|jetstream|pathways",
}


def _software(row: _Row) -> ServingSoftware:
    text = row.text["framework"].casefold()
    name = next((name for name, pattern in _FRAMEWORKS.items() if re.search(pattern, text)), "usual")
    if name == "usual":
        row.filled["software"] = "usual"
    found = SERVING[name]
    if re.search(r"perfect balance|balanced experts", row.text["note"]):
        found = replace(found, expert_skew=0.0)
    return found


# What people write behind a model's name: its number format, and the month of a checkpoint.
_BEHIND = re.compile(
    r"[-_ ]+(?:nvfp4|mxfp4|fp4|fp8|bf16|fp16|int[48]|awq|gptq|w\d+a\d+|\d{4})(?![\da-z])", re.IGNORECASE
)


def _plain_name(written: str) -> str:
    """A model's name without what does not change its shape."""
    if re.search(r"deepseek[-_ ]*(?:v3|r1)", written, re.IGNORECASE):
        return "DeepSeek-V3"
    return _BEHIND.sub("", written)


def _formats(row: _Row, chip: Machine) -> Formats:
    text = (row.text["precision"] or row.text["model"]).casefold()
    products = next((name for name, pattern in _PRECISIONS.items() if re.search(pattern, text)), "bf16")
    weights = PRECISIONS[products][1]
    if re.search("weights? only|weight-only|w4a16|w8a16", f"{text} {row.text['note'].casefold()}") and weights < 2:
        products = "bf16"
    # Weights are unpacked to what the chip multiplies.
    wider = ["int8", "bf16", "fp16"] if products == "int8" else ["fp4", "fp8", "bf16", "fp16"]
    taken = next(name for name in [products, *wider[wider.index(products) :]] if PRECISIONS[name][0] in chip.peaks)
    if taken != products:
        row.filled["products"] = f"{taken} (no {products} peak of {chip.name})"
        products = taken
    if not row.text["precision"]:
        row.filled["precision"] = products
    wide = row.source.startswith("deepseek") or "caches in 16 bits" in row.text["note"].casefold()
    return Formats(products, weights, 1.0 if PRECISIONS[products][1] < 2 and not wide else 2.0)


def _layout(row: _Row, model: Transformer) -> tuple[Transformer, Layout, float]:
    """The layout of a replica, with heads padded where tp does not divide them; and the replicas of the row's GPUs."""
    gpus, tp, pp, ep = row["n_gpus"] or 1.0, row["tp"], row["pp"] or 1.0, row["ep"] or 1.0
    note = row.text["note"].casefold()
    if ep > gpus:  # a row that counts per node of a larger deployment
        row.filled["n_gpus"] = f"{ep:g} (those that share the experts)"
        layout = Layout(dp=ep, ep=ep)
        return model, layout, gpus / ep
    if tp is None and ep == 1 and pp == 1 and model.kv_rank and model.experts:
        # Ranks of tp would each hold all latents, those of attention data parallelism only their own sequences'.
        domain = _machine(row.text["gpu"]).domain
        ep = domain if domain > 8 and gpus % domain == 0 else gpus  # a replica may span servers, but not racks
        row.filled["ep"] = f"{ep:g} (attention data parallelism, as latents ask for)"
    if tp is None and ep > 1:
        tp = 1.0
    if tp is None:
        tp = gpus / pp
        row.filled["tp"] = f"{tp:g} (all GPUs of a stage)"
    if model.experts and "attention dp" in note and tp > 1 and ep == 1:
        return model, Layout(dp=tp, pp=pp, etp=tp), gpus / (tp * pp)
    dp = ep / tp if ep > tp else 1.0
    if gpus % (tp * pp * dp) or dp % 1:
        raise _Skip(f"tp {tp:g}, pp {pp:g} and ep {ep:g} do not divide {gpus:g} GPUs")
    if model.heads % tp:
        padded = int(np.ceil(model.heads / tp) * tp)
        row.filled["heads"] = f"{padded} (padded from {model.heads})"
        kv = model.kv_heads if padded % model.kv_heads == 0 else padded
        model = replace(model, heads=padded, kv_heads=kv)
    return model, Layout(tp=tp, pp=pp, dp=dp, ep=ep, etp=None if ep > 1 else tp), gpus / (tp * pp * dp)


@cache
def _machine(text: str) -> Machine:
    chip = catalogue.match_accelerator(text)
    if chip is None:
        raise _Skip(f"no data on the accelerator {text!r}")
    return machine(chip.name)


def _throughput(row: _Row) -> float | None:
    """Tokens of answers a second of all GPUs of the row."""
    total, each = row["output_tok_s_total"], row["output_tok_s_per_gpu"]
    return total if total or not each else each * (row["n_gpus"] or 1.0)


def _run(row: _Row) -> InferenceRun:
    if not row.whole:
        raise _Skip("it has not as many fields as the heading")
    for name in REQUIRED:
        if not row.text[name]:
            raise _Skip(f"no {name}")
    chip, software = _machine(row.text["gpu"]), _software(row)
    model, note = _model_of(_plain_name(row.text["model"]), (), row["params_b"], row["active_params_b"], 1)
    if note:
        row.filled["model"] = note
    shape, layout, replicas = _layout(row, model)
    text = row.text["note"].casefold()
    copies = re.search(r"(\d+) redundant", text)
    redundant = float(copies[1]) if copies else float(-shape.experts % layout.ep if shape.experts else 0)
    if redundant and not copies:
        row.filled["redundant experts"] = f"{redundant:g} (so that the ranks share them evenly)"
    halves = "two-batch" in text or "two batches" in text or software.name == "DeepSeek"
    replica = Replica(shape, chip, layout, _formats(row, chip), halves, redundant, software)
    kind, seconds, requests, sequences, context, tokens = _measured(row, replica, replicas)
    if kind in ("static", "saturated") and saturation(replica, requests) < 1:
        raise _Skip("not one sequence fits into the memory")
    return InferenceRun(row.name, row.source, kind, seconds, replica, requests, sequences, context, tokens, row.filled)


class _Measured(NamedTuple):
    kind: str
    seconds: float
    requests: Requests
    sequences: float | None = None
    context: float = 1.0
    tokens: float = 0.0


def _measured(row: _Row, replica: Replica, replicas: float) -> _Measured:
    """What was measured, of one replica."""
    mode, batch = row.text["mode"].casefold(), row["batch"] or row["concurrency"]
    isl, osl, rate, latency = row["isl"], row["osl"], _throughput(row), row["latency_s"]
    each, first = row["tpot_ms"], row["ttft_ms"]
    if batch and re.search(rf"\b{batch:g}\b[^;,.]*?(?:per|a|each|/) ?(?:gpu|device|rank)", row.text["note"].casefold()):
        batch *= row["n_gpus"] or 1.0
        row.filled["batch"] = f"{batch:g} (the note says for each GPU)"
    if batch:
        batch = max(batch / max(replicas, 1.0), 1.0)
    if "prefill" in mode or (row["input_tok_s_total"] and not rate):
        return _prefill(row, batch, replicas)
    context = row["context_len"] or (isl + osl / 2 if isl and osl else isl)
    if "decode" in mode or (not isl and context):
        if not context:
            raise _Skip("no context_len")
        if rate:
            rate = rate / replicas
            if not batch and each:
                batch = rate * each / 1e3
                row.filled["batch"] = f"{batch:g} (throughput times time per token)"
            if not batch:
                most = replica.software.max_sequences * replica.layout.dp * replica.layout.pp
                batch = float(np.minimum(largest_batch(replica, context), most))
                row.filled["batch"] = f"{batch:g} (largest that fits)"
            if batch < 1:
                raise _Skip("not one sequence fits into the memory")
            return _Measured("decode", batch / rate, Requests(context, 1), batch, context)
        if each and batch:
            return _Measured("decode", each / 1e3, Requests(context, 1), batch, context)
        raise _Skip("a decode row needs a throughput, or a time per token and a batch")
    if not (isl and osl):
        raise _Skip("no isl and osl")
    requests = Requests(isl, osl)
    if batch and (rate or latency or each):
        static = "static" in mode or not rate
        if static:
            total = batch * osl / (rate / replicas) if rate else latency
            if total:
                return _Measured("static", total, requests, batch)
            return _Measured("decode", each / 1e3, requests, batch, isl + osl / 2)
        return _Measured("saturated", replicas / rate, requests, batch)
    if rate:
        row.filled["batch"] = "largest that fits"
        return _Measured("saturated", replicas / rate, requests)
    if first and not each and not latency:
        return _Measured("prefill", first / 1e3, Requests(isl, 1), None, 1.0, isl)
    raise _Skip("no batch, and no throughput at saturation")


def _prefill(row: _Row, batch: float | None, replicas: float) -> _Measured:
    isl, rate, latency = row["isl"], row["input_tok_s_total"], row["latency_s"] or (row["ttft_ms"] or 0) / 1e3
    if not isl:
        isl = row["context_len"] or 4096.0
        row.filled["isl"] = f"{isl:g}" + (" (context_len)" if row["context_len"] else " (usual)")
    cached = re.search(r"(\d+(?:\.\d+)?) ?% hit", row.text["note"])
    requests = Requests(isl, 1, cached=float(cached[1]) / 100 if cached else 0.0)
    if rate:
        if cached:
            row.filled["input_tok_s_total"] = f"less {cached[1]} % that a cache had"
        if not batch:
            batch = max((row["ep"] or 1.0) * 16_384 / requests.read, 1.0)
            row.filled["batch"] = f"{batch:g} (16,384 tokens a GPU)"
        return _Measured("prefill", batch * isl / (rate / replicas), requests, None, 1.0, batch * requests.read)
    if latency and batch:
        return _Measured("prefill", latency, requests, None, 1.0, batch * requests.read)
    raise _Skip("a prefill row needs a throughput, or a latency and a batch")


# --- Predictions -----------------------------------------------------------------------------------------------------


def predict(run: InferenceRun, software: ServingSoftware | None = None):
    """Seconds that the laws of serving give for what was measured.

    Parameters
    ----------
    run : InferenceRun
        From :func:`read_inference`.
    software : ServingSoftware, optional
        In place of the run's own; of arrays: as many predictions.

    Returns
    -------
    array_like

    Examples
    --------
    >>> runs, _ = published_inference()
    >>> static = next(run for run in runs if run.kind == "static")
    >>> bool(abs(predict(static) / static.seconds - 1) < 0.2)
    True
    """
    replica, requests = run.replica, run.requests
    if software is not None:
        replica = replace(replica, software=software)
    if run.kind == "static":
        return static_batch(replica, requests, sequences=run.sequences).latency
    if run.kind == "saturated":
        held = run.sequences
        if held is not None:  # more than fit wait
            held = np.minimum(held, saturation(replica, requests))
        return 1 / continuous_batch(replica, requests, sequences=held).tokens_per_second
    if run.kind == "decode":
        batch = Batch(sequences=run.sequences or 1.0, context=run.context)
    else:
        batch = Batch(prompt_tokens=run.tokens, chunk=requests.read, cached=requests.prompt - requests.read)
    return forward_pass(replica, batch).time


def predict_inference(runs: Sequence[InferenceRun]) -> np.ndarray:
    """Predict many runs, in seconds.

    Examples
    --------
    >>> runs, _ = published_inference()
    >>> predict_inference(runs[:3]).shape
    (3,)
    """
    return np.array([float(predict(run)) for run in runs])


def at_peak(run: InferenceRun) -> float:
    """Seconds in which the peak of all GPUs would do the FLOPs of what was measured.

    Examples
    --------
    >>> runs, _ = published_inference()
    >>> all(0 < at_peak(run) < run.seconds for run in runs)
    True
    """
    replica, requests = run.replica, run.requests
    model, peak = replica.model, replica.machine.peaks[PRECISIONS[replica.formats.products][0]]
    if run.kind == "decode":
        flops = (run.sequences or 1.0) * forward_flops(model, run.context).total
    elif run.kind == "prefill":
        seen = requests.prompt - requests.read / 2
        flops = run.tokens * forward_flops(model, seen).layers
    else:
        each = requests.prompt * forward_flops(model, requests.prompt, causal=True).layers
        each = each + requests.output * forward_flops(model, requests.mean_context).total
        flops = each * (run.sequences or 1.0) if run.kind == "static" else each / requests.output
    return float(flops / (peak * replica.gpus))
