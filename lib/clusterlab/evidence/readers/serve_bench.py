"""``vllm bench serve`` and SGLang's ``bench_serving``: JSON, a line of JSONL a run, or the table that they print.

Both write ``request_rate``, ``max_concurrency``, ``completed``, ``total_input_tokens``, ``total_output_tokens``,
``output_throughput``, ``mean_ttft_ms``, ``mean_tpot_ms``; vLLM ``model_id`` and ``tokenizer_id``, SGLang
``dataset_name`` and, since 2025, ``server_info`` with the arguments of the server. Source: vllm-project/vllm,
``vllm/benchmarks/serve.py``; sgl-project/sglang, ``python/sglang/bench_serving.py``.
"""

from __future__ import annotations

import json
import re

from ...records import Json
from .reading import OFFLINE, ONLINE, Cells, Reading, cells, precision_in

_PRINTED = {
    "completed": r"Successful requests:\s+([\d.]+)",
    "max_concurrency": r"Max(?:imum)? request concurrency:\s+([\d.]+)",
    "total_input_tokens": r"Total input tokens:\s+([\d.]+)",
    "total_output_tokens": r"Total generated tokens:\s+([\d.]+)",
    "output_throughput": r"Output token throughput \(tok/s\):\s+([\d.]+)",
    "request_throughput": r"Request throughput \(req/s\):\s+([\d.]+)",
    "mean_ttft_ms": r"Mean TTFT \(ms\):\s+([\d.]+)",
    "mean_tpot_ms": r"Mean TPOT \(ms\):\s+([\d.]+)",
    "mean_e2el_ms": r"Mean E2EL? (?:Latency )?\(ms\):\s+([\d.]+)",
}
_TABLE = "Serving Benchmark Result"


def reads(text: str) -> bool:
    """Whether the text is such a result."""
    return _TABLE in text or bool(
        re.match(r"\s*[\[{]", text) and '"mean_ttft_ms"' in text and '"total_output_tokens"' in text
    )


def read(text: str) -> Reading:
    """The runs: at a concurrency, or all requests at once."""
    results = [_printed(part) for part in text.split(_TABLE)[1:]] if _TABLE in text else _objects(text)
    several = len(results) > 1
    rows, said, kinds = [], [], []
    for i, one in enumerate(results, 1):
        kind, row, sentences = _row(one)
        rows.append({**row, "row_id": f"run {i}"} if several else row)
        kinds.append(kind)
        said += [f"run {i}: {sentence}" if several else sentence for sentence in sentences]
    if len(set(kinds)) > 1:
        raise ValueError("some runs have a concurrency, and others send all requests at once: give one kind at a time")
    who = "SGLang's bench_serving" if _is_sglang(results[0]) else "vllm bench serve"
    return Reading(who, kinds[0], tuple(rows), tuple(dict.fromkeys(said)))


def _objects(text: str) -> list[dict[str, Json]]:
    """One object, a list of them, or one a line."""
    try:
        found = json.loads(text)
    except json.JSONDecodeError:
        found = [json.loads(line) for line in text.splitlines() if line.strip()]
    found = found if isinstance(found, list) else [found]
    return [one for one in found if isinstance(one, dict) and "mean_ttft_ms" in one]


def _printed(text: str) -> dict[str, Json]:
    return {name: float(found[1]) for name, form in _PRINTED.items() if (found := re.search(form, text))}


def _is_sglang(one: dict[str, Json]) -> bool:
    return "dataset_name" in one or "server_info" in one or one.get("backend") == "sglang"


def _number(one: dict[str, Json], name: str) -> float | None:
    value = one.get(name)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _row(one: dict[str, Json]) -> tuple[str, Cells, list[str]]:
    """A run as a row; of requests that come at a rate, those in flight by Little's law."""
    done = _number(one, "completed") or 0
    if not done:
        raise ValueError("no request was completed")
    isl, osl = ((_number(one, f"total_{way}_tokens") or 0) / done for way in ("input", "output"))
    rate, first, token = (_number(one, name) for name in ("output_throughput", "mean_ttft_ms", "mean_tpot_ms"))
    said = [
        f"{done:g} requests of {isl:g} tokens on average, answers of {osl:g}; mean TTFT and TPOT",
        "what warmed up the server is not in it",
    ]
    row = {**_server(one), **cells(isl=float(round(isl)), osl=float(round(osl)), output_tok_s_total=rate)}
    if first is None or token is None:
        said.append("without times, its throughput is compared with that of a queue that never runs dry")
        return OFFLINE, row, said
    users, paced = _number(one, "max_concurrency"), str(one.get("request_rate", "inf"))
    if users is None:
        # Little's law; of a burst the start and the end, when fewer are there, are within.
        latency = (first + max(osl - 1, 0) * token) / 1e3
        users = max(round(_number(one, "concurrency") or (rate or 0) / max(osl, 1) * latency), 1)
        how = "all at once" if paced.casefold() in ("inf", "infinity") else f"at {paced} a second"
        said.append(f"requests came {how}: {users} in flight on average (throughput times latency)")
    elif users > done:
        said.append(f"a concurrency of {users:g} was allowed, and there were {done:g} requests")
        users = done
    return ONLINE, {**row, **cells(concurrency=float(users), ttft_ms=first, tpot_ms=token)}, said


def _server(one: dict[str, Json]) -> dict[str, str]:
    """What is said of the server: its model, and of SGLang its ranks and formats."""
    info = one.get("server_info")
    info = info if isinstance(info, dict) else {}
    tp, pp, dp = (info.get(f"{axis}_size") for axis in ("tp", "pp", "dp"))
    gpus = int(tp) * int(pp or 1) if isinstance(tp, int) else None
    model = one.get("model_id") or info.get("model_path")
    quantized = info.get("quantization") or info.get("dtype")
    found = dict(cells(model=model, n_gpus=gpus, tp=tp, pp=pp if isinstance(pp, int) and pp > 1 else None))
    if isinstance(dp, int) and dp > 1 and info.get("enable_dp_attention"):
        found["attention_dp"] = str(dp)
    if isinstance(quantized, str) and re.search(r"fp8|fp4|bf16|bfloat16|fp16|float16", quantized):
        found["precision"] = quantized.replace("bfloat16", "bf16").replace("float16", "fp16")
    elif named := precision_in(model):
        found["precision"] = named
    found["software"] = "SGLang" if _is_sglang(one) else "vLLM"
    return found
