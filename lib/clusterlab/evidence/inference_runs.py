"""Inference runs: published ones, or a reader's own, read from a table as what the laws of serving take.

:func:`published_inference` and :func:`read_inference` turn rows into records of type :class:`InferenceRun`;
:func:`predict_inference` predicts them with :mod:`clusterlab.serving`. A row that cannot be predicted is named, with
the reason.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache
from importlib.resources import files
from typing import NamedTuple

import numpy as np

from ..catalogue import SERVING, Machine, ServingSoftware, machine
from ..model import PRECISIONS, Layout, Transformer, forward_flops, parameters
from ..own import match_accelerator
from ..quantities import Number, Seconds
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
from ..units import fmt
from .naming import model_named
from .rows import Form, Row, Skipped, SkipRow, read_rows, skipped_in_order
from .text import TextFile, name_of, read_text

# --- Inference runs --------------------------------------------------------------------------------------------------

FORM = Form(
    text=("row_id", "group", "model", "gpu", "precision", "framework", "mode", "note"),
    notes=("derived", "source", "source_loc", "source_check", "quality"),
    counts=("n_gpus", "tp", "pp", "ep", "batch", "concurrency", "isl", "osl", "context_len"),
    measures=("ttft_ms", "tpot_ms", "latency_s", "output_tok_s_total", "output_tok_s_per_gpu", "input_tok_s_total"),
    others=("params_b", "active_params_b", "mfu_pct"),
    aliases={
        **dict.fromkeys(("gpus", "num_gpus", "world_size"), "n_gpus"),
        "batch_size": "batch",
        "input_len": "isl",
        "output_len": "osl",
        "max_concurrency": "concurrency",
        "software": "framework",
        "engine": "framework",
        "dtype": "precision",
        "quantization": "precision",
        "tp_size": "tp",
        "pp_size": "pp",
        "ep_size": "ep",
        "accelerator": "gpu",
        "model_id": "model",
        "output_throughput": "output_tok_s_total",
        "mean_ttft_ms": "ttft_ms",
        "mean_tpot_ms": "tpot_ms",
    },
    ranges=True,
)


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
    sequences: Number | None
    context: Number
    tokens: Number  # of prompts, in a prefill
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
    own = {"isl", "osl", "input_len", "output_len", "concurrency", "context_len", *FORM.measures}
    return bool(own & {name.strip().casefold() for name in heading})


def read_inference(path: TextFile) -> tuple[list[InferenceRun], list[Skipped]]:
    """Read a table of runs.

    Parameters
    ----------
    path
        A CSV file as for :func:`read_runs`, with columns such as those of ``data/inference.csv``.

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

    Notes
    -----
    Four kinds of measurements are read: a batch that starts and ends together (``static``), an endless queue of
    requests (``saturated``), and passes of replicas that only decode (``decode``) or only read prompts (``prefill``).

    What a row leaves open is filled in by rules that are the same for every row, and ``InferenceRun.filled`` says what
    and why. Software is that of ``framework``, or ``usual``. A batch that is not published is the largest that fits;
    where a throughput and a time per token are, it is their product (Little's law). Experts of a mixture are split as
    attention is unless ``ep`` says otherwise; "attention DP" in the note makes data-parallel ranks of tensor-parallel
    ones. Ranks left open are tensor-parallel; heads are padded where they do not divide. Caches have 8 bits where
    products have 8 or 4.
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
    runs, refused = read_rows(text, name, FORM, _run)
    return runs, skipped_in_order(refused)


# --- What a row names ------------------------------------------------------------------------------------------------

_PRECISIONS = {
    "fp4": "fp4|w4a4|w4a16",
    "fp8": "fp8|w8a8|w8a16|e4m3",
    "int8": "int8",
    "fp16": "(?<!b)(?:fp16|float16)|half",
    "bf16": "bf16|bfloat16|not stated",
}
_FRAMEWORKS = {
    "TensorRT-LLM": r"tensorrt|trt|\bnim\b",
    "LMDeploy": "lmdeploy|turbomind",
    "DeepSeek": "deepseek",
    "SGLang": "sglang",
    "vLLM": "vllm",
    "JAX": r"\bjax\b|saxml|jetstream|pathways",
}


def framework(row: Row) -> ServingSoftware:
    """The software that a row names, or the usual."""
    text = row.text.get("framework", row.text.get("software", "")).casefold()
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


def plain_name(written: str) -> str:
    """A model's name without what does not change its shape."""
    if re.search(r"deepseek[-_ ]*(?:v3(?!\.2)|r1)", written, re.IGNORECASE):
        return "DeepSeek-V3"
    return _BEHIND.sub("", written)


def _formats(row: Row, chip: Machine) -> Formats:
    """Bits of operands, weights and caches; operands have those that the chip multiplies."""
    text = (row.text["precision"] or row.text["model"]).casefold()
    named = next((name for name, pattern in _PRECISIONS.items() if re.search(pattern, text)), None)
    if row.text["precision"] and (named is None or re.search(r"disabled|without|\bno\b|\boff\b", text)):
        raise SkipRow(f"no data on the precision {row.text['precision']!r}: one of bf16, fp16, fp8, fp4, int8, w4a16")
    compute = named or "bf16"
    weights = PRECISIONS[compute][1]
    if re.search("weights? only|weight-only|w4a16|w8a16", f"{text} {row.text['note'].casefold()}") and weights < 2:
        compute = "bf16"
    # Weights are unpacked to what the chip multiplies.
    wider = ["int8", "bf16", "fp16"] if compute == "int8" else ["fp4", "fp8", "bf16", "fp16"]
    taken = next(name for name in [compute, *wider[wider.index(compute) :]] if PRECISIONS[name][0] in chip.peaks)
    if taken != compute:
        row.filled["products"] = f"{taken} (no {compute} peak of {chip.name})"
        compute = taken
    if not row.text["precision"]:
        row.filled["precision"] = compute
    wide = row.source.startswith("deepseek") or "caches in 16 bits" in row.text["note"].casefold()
    return Formats(compute, weights, 1.0 if PRECISIONS[compute][1] < 2 and not wide else 2.0)


def _layout(row: Row, model: Transformer) -> tuple[Transformer, Layout, float]:
    """The layout of a replica, with heads padded where tp does not divide them; and the replicas of the row's GPUs."""
    gpus, tp, pp, ep = row["n_gpus"] or 1.0, row["tp"], row["pp"] or 1.0, row["ep"] or 1.0
    note = row.text["note"].casefold()
    if ep > gpus:  # a row that counts per node of a larger deployment
        row.filled["n_gpus"] = f"{ep:g} (those that share the experts)"
        layout = Layout(dp=ep, ep=ep)
        return model, layout, gpus / ep
    if tp is None and ep == 1 and pp == 1 and model.kv_rank and model.experts:
        # Ranks of tp would each hold all latents, those of attention data parallelism only their own sequences'.
        domain = machine_of(row.text["gpu"]).domain
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
        raise SkipRow(f"tp {tp:g}, pp {pp:g} and ep {ep:g} do not divide {gpus:g} GPUs")
    if model.heads % tp:
        padded = int(np.ceil(model.heads / tp) * tp)
        row.filled["heads"] = f"{padded} (padded from {model.heads})"
        kv = model.kv_heads if model.kv_heads and padded % model.kv_heads == 0 else padded
        model = replace(model, heads=padded, kv_heads=kv)
    return model, Layout(tp=tp, pp=pp, dp=dp, ep=ep, etp=None if ep > 1 else tp), gpus / (tp * pp * dp)


@cache
def machine_of(text: str) -> Machine:
    """Return the machine of an accelerator that a row names."""
    chip = match_accelerator(text)
    if chip is None:
        raise SkipRow(f"no data on the accelerator {text!r}")
    return machine(chip.name)


def _throughput(row: Row) -> float | None:
    """Tokens of answers a second of all GPUs of the row."""
    total, each = row["output_tok_s_total"], row["output_tok_s_per_gpu"]
    return total if total or not each else each * (row["n_gpus"] or 1.0)


def _run(row: Row) -> InferenceRun:
    """A row as a run: what it names, and what was measured."""
    for name in FORM.required:
        if not row.text[name]:
            raise SkipRow(f"no {name}")
    chip, software = machine_of(row.text["gpu"]), framework(row)
    model, note = model_named(plain_name(row.text["model"]), (), row["params_b"], row["active_params_b"], 1)
    if note:
        row.filled["model"] = note
    shape, layout, replicas = _layout(row, model)
    text = row.text["note"].casefold()
    copies = re.search(r"(\d+) redundant", text)
    redundant = float(copies[1]) if copies else float(-shape.experts % layout.ep if shape.experts else 0)
    if redundant and not copies:
        row.filled["redundant experts"] = f"{redundant:g} (so that the ranks share them evenly)"
    overlapped = "two-batch" in text or "two batches" in text or software.name == "DeepSeek"
    formats = _formats(row, chip)
    replica = Replica(shape, chip, layout, formats, overlapped, redundant, software)
    found = _measured(row, replica, replicas)
    if (
        found.kind == "saturated"
        and found.seconds * chip.peaks[formats.compute] * layout.gpus < 2 * parameters(shape).active
    ):
        rate = fmt(1 / found.seconds, "tokens/s")
        raise SkipRow(f"{rate} of a replica are more than its GPUs can compute: is it of all of them, and in tokens/s?")
    if found.kind in ("static", "saturated") and saturation(replica, found.requests) < 1:
        raise SkipRow("not one sequence fits into the memory")
    return InferenceRun(
        row=row.name,
        source=row.source,
        kind=found.kind,
        seconds=found.seconds,
        replica=replica,
        requests=found.requests,
        sequences=found.sequences,
        context=found.context,
        tokens=found.tokens,
        filled=row.filled,
    )


class _Measured(NamedTuple):
    kind: str
    seconds: float
    requests: Requests
    sequences: float | None = None
    context: float = 1.0
    tokens: float = 0.0


def _measured(row: Row, replica: Replica, replicas: float) -> _Measured:
    """What was measured, of one replica: by the row's mode, or by what it has numbers of."""
    row.filled |= row.ranges
    mode, rate = row.text["mode"].casefold(), _throughput(row)
    batch = _batch_of_replica(row, replicas)
    isl, osl = row["isl"], row["osl"]
    if "prefill" in mode or (row["input_tok_s_total"] and not rate):
        return _prefill(row, batch, replicas)
    context = row["context_len"] or (isl + osl / 2 if isl and osl else isl)
    if "decode" in mode or (not isl and context):
        if not context:
            raise SkipRow("no context_len")
        return _decode(row, replica, batch, rate and rate / replicas, context)
    if not (isl and osl):
        raise SkipRow("no isl and osl")
    return _served(row, batch, rate, replicas, Requests(isl, osl))


def _batch_of_replica(row: Row, replicas: float) -> float | None:
    """Sequences at a time; the note may say that the number is that of each GPU."""
    batch = row["batch"] or row["concurrency"]
    if not batch:
        return None
    if re.search(rf"\b{batch:g}\b[^;,.]*?(?:per|a|each|/) ?(?:gpu|device|rank)", row.text["note"].casefold()):
        batch *= row["n_gpus"] or 1.0
        row.filled["batch"] = f"{batch:g} (the note says for each GPU)"
    return max(batch / max(replicas, 1.0), 1.0)


def _decode(row: Row, replica: Replica, batch: float | None, rate: float | None, context: float) -> _Measured:
    """A pass in which every sequence gets a token: by the throughput of the replica, or by the time of a token."""
    each = row["tpot_ms"]
    if not rate:
        if each and batch:
            return _Measured("decode", each / 1e3, Requests(context, 1), batch, context)
        raise SkipRow("a decode row needs a throughput, or a time per token and a batch")
    if not batch and each:
        batch = rate * each / 1e3
        row.filled["batch"] = f"{batch:g} (throughput times time per token)"
    if not batch:
        most = replica.software.max_sequences * replica.layout.dp * replica.layout.pp
        batch = float(np.minimum(largest_batch(replica, context), most))
        row.filled["batch"] = f"{batch:g} (largest that fits)"
    if batch < 1:
        raise SkipRow("not one sequence fits into the memory")
    return _Measured("decode", batch / rate, Requests(context, 1), batch, context)


def _served(row: Row, batch: float | None, rate: float | None, replicas: float, requests: Requests) -> _Measured:
    """Whole requests: a batch that starts and ends together, or a queue without end; or a part of one request."""
    latency, each, first = row["latency_s"], row["tpot_ms"], row["ttft_ms"]
    if rate and not (batch and "static" in row.text["mode"].casefold()):
        if not batch:
            row.filled["batch"] = "largest that fits"
        return _Measured("saturated", replicas / rate, requests, batch)
    if batch and rate:
        return _Measured("static", batch * requests.output / (rate / replicas), requests, batch)
    if batch and latency:
        return _Measured("static", latency, requests, batch)
    if batch and each:
        return _Measured("decode", each / 1e3, requests, batch, requests.prompt + requests.output / 2)
    if first and not each and not latency:
        return _Measured("prefill", first / 1e3, Requests(requests.prompt, 1), None, 1.0, requests.prompt)
    raise SkipRow("no batch, and no throughput at saturation")


def _prefill(row: Row, batch: float | None, replicas: float) -> _Measured:
    """A pass that reads prompts: by the throughput of the row's GPUs, or by the time to a first token."""
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
    raise SkipRow("a prefill row needs a throughput, or a latency and a batch")


# --- Predictions of inference runs -----------------------------------------------------------------------------------


def predict_inference_run(run: InferenceRun, software: ServingSoftware | None = None) -> Seconds:
    """Seconds that the laws of serving give for what was measured.

    Parameters
    ----------
    run
        From :func:`read_inference`.
    software
        In place of the run's own; of arrays: as many predictions.

    Returns
    -------
    float or array

    Examples
    --------
    >>> runs, _ = published_inference()
    >>> static = next(run for run in runs if run.kind == "static")
    >>> bool(abs(predict_inference_run(static) / static.seconds - 1) < 0.2)
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
        batch = Batch(sequences=1.0 if run.sequences is None else run.sequences, context=run.context)
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
    return times_under(inference_batches(runs), len(runs), {})


class InferenceBatch(NamedTuple):
    """Runs of a kind on replicas that are alike, as one run of arrays; ``where`` are their places among all runs."""

    where: list[int]
    run: InferenceRun


def inference_batches(runs: Sequence[InferenceRun]) -> list[InferenceBatch]:
    """Return the runs in batches, each of which is one prediction: most tables sweep prompts and answers."""
    alike: list[tuple[tuple, list[int]]] = []
    for i, run in enumerate(runs):
        key = run.kind, run.sequences is None, run.replica
        where = next((places for known, places in alike if known == key), None)
        if where is None:
            alike.append((key, where := []))
        where.append(i)
    return [InferenceBatch(where, _side_by_side([runs[i] for i in where])) for _, where in alike]


def _side_by_side(runs: Sequence[InferenceRun]) -> InferenceRun:
    """Runs on one replica as a run of arrays."""

    def column(values: Iterable[Number | None]) -> np.ndarray:
        return np.array(list(values))

    first, asked = runs[0], [run.requests for run in runs]
    return replace(
        first,
        requests=Requests(*(column(getattr(one, f.name) for one in asked) for f in fields(Requests))),
        sequences=None if first.sequences is None else column(run.sequences for run in runs),
        context=column(run.context for run in runs),
        tokens=column(run.tokens for run in runs),
    )


def times_under(questions: Iterable[InferenceBatch], n: int, constants: Mapping[str, np.ndarray]) -> np.ndarray:
    """Seconds of n runs with other constants of their software, whose arrays come first in the shape of the result."""
    out = np.empty((*np.broadcast_shapes(*(np.shape(value) for value in constants.values())), n))
    columns = {name: np.asarray(value)[..., None] for name, value in constants.items()}
    for where, run in questions:
        software = replace(run.replica.software, **columns)  # type: ignore[arg-type]  # as arrays
        out[..., where] = predict_inference_run(run, software)
    return out


def at_peak(run: InferenceRun) -> float:
    """Seconds in which the peak of all GPUs would do the FLOPs of what was measured.

    Examples
    --------
    >>> runs, _ = published_inference()
    >>> all(0 < at_peak(run) < run.seconds for run in runs)
    True
    """
    replica, requests = run.replica, run.requests
    model, peak = replica.model, replica.machine.peaks[PRECISIONS[replica.formats.compute][0]]
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
