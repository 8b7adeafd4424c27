"""genai-perf and AIPerf: ``profile_export_genai_perf.json``, ``profile_export_aiperf.json``, and the CSV beside each.

A metric is ``{"unit": "ms", "avg": 118.1, "p50": ...}``, in the first AIPerf under ``records``; ``input_config`` says
model and concurrency, each version in its own place. The CSV has a line a metric, ``Time to First Token (ms),49.87``,
under ``Metric,avg`` and ``Metric,Value``, and says nothing of the run. Source: triton-inference-server/perf_analyzer,
``genai-perf/docs/files.md`` and its issue 298; ai-dynamo/aiperf, ``docs/tutorials/working-with-profile-exports.md``.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator

from ...records import Json
from .reading import ONLINE, Reading, cells, precision_in

_NEEDED = ("time_to_first_token", "output_token_throughput")
_BACKENDS = {"vllm": "vLLM", "sglang": "SGLang", "tensorrtllm": "TensorRT-LLM"}


def reads(text: str) -> bool:
    """Whether the text is such an export."""
    if text.lstrip().startswith("{"):
        return '"input_config"' in text and all(name in _plain(text) for name in _NEEDED[:1])
    return bool(re.match(r"\s*Metric,\s*(avg|Value)\b", text)) and _NEEDED[0] in _plain(text)


def _plain(name: str) -> str:
    """``Time to First Token (ms)`` is time_to_first_token."""
    return re.sub(r"[ -]+", "_", re.sub(r" \(.*?\)", "", name).casefold())


def read(text: str) -> Reading:
    """The run at its concurrency."""
    found = json.loads(text) if text.lstrip().startswith("{") else _table(text)
    records = found.get("records")
    found |= {_plain(name): one for name, one in records.items()} if isinstance(records, dict) else {}
    if lacking := [name for name in _NEEDED if _average(found, name) is None]:
        raise ValueError(f"it has no {' and no '.join(lacking)}")
    isl, osl, first, token, rate = (
        _average(found, name)
        for name in (
            "input_sequence_length",
            "output_sequence_length",
            "time_to_first_token",
            "inter_token_latency",
            "output_token_throughput",
        )
    )
    config = found.get("input_config")
    users: list[int] = [value for value in _under(config, "concurrency") if isinstance(value, int)]
    # AIPerf lists phases, and what warms up comes first.
    requests, latency = _average(found, "request_count"), _average(found, "request_latency")
    said = [f"{requests:g} requests, those that warm up not among them" if requests else "mean of all requests"]
    if not users and latency and (each := _average(found, "request_throughput")):
        users = [max(round(each * latency / 1e3), 1)]
        said.append(f"it doesn't say the concurrency: {users[0]} in flight on average (throughput times latency)")
    if any(one is False for one in _under(config, "streaming")) or (first and first == latency):
        first = None
        said.append("answers came whole (no streaming): its time to a first token is that of the last, and not read")
    asked = next((one for one in _under(config, "output_tokens_mean") if isinstance(one, int) and one > 0), None)
    if asked and osl and osl > 2 * asked:
        said.append(
            f"answers of {osl:g} tokens where {asked} were asked for: genai-perf 24.11 and 24.12 count too many"
        )
    model = next(_models(config), None)
    backend = next((one for one in _under(config, "backend") if isinstance(one, str)), "")
    row = cells(
        model=model,
        precision=precision_in(model),
        isl=float(round(isl or 0)) or None,
        osl=float(round(osl or 0)) or None,
        concurrency=users[-1] if users else None,
        ttft_ms=first,
        tpot_ms=token,
        output_tok_s_total=rate,
        software=_BACKENDS.get(backend.casefold().replace("-", "").replace("_", "")),
    )
    lacks = [name for name in ("software", "precision") if name not in row]
    said.append(f"it doesn't say the server's {', '.join([*lacks, 'ranks'])}")
    who = "AIPerf" if "aiperf_version" in found or "records" in found else "genai-perf"
    return Reading(who if found.get("input_config") else "genai-perf or AIPerf", ONLINE, (row,), tuple(said))


def _table(text: str) -> dict[str, Json]:
    """The metrics of a CSV by the names that the JSON has for them; a part of its own has those without a spread."""
    rows = [row for row in csv.reader(text.splitlines()) if len(row) > 1]
    return {_plain(name): {"avg": float(value)} for name, value, *_ in rows if re.fullmatch(r"[\d.]+", value)}


def _average(found: dict[str, Json], name: str) -> float | None:
    one = found.get(name)
    value = one.get("avg") if isinstance(one, dict) else None
    return float(value) if isinstance(value, int | float) else None


def _under(value: Json, key: str) -> Iterator[Json]:
    """Every value of a key, wherever it stands."""
    if isinstance(value, dict):
        for name, inner in value.items():
            if name == key:
                yield inner
            yield from _under(inner, key)
    elif isinstance(value, list):
        for inner in value:
            yield from _under(inner, key)


def _models(config: Json) -> Iterator[str]:
    """Names of models: of the tokenizer first, where the served name is one of its owner's; no path is a name."""
    for key in ("tokenizer", "model_names", "models", "model", "formatted_model_name"):
        for value in _under(config, key):
            for name in (
                [value, *_under(value, "name")] if not isinstance(value, list) else [*value, *_under(value, "name")]
            ):
                if isinstance(name, str) and name and not name.startswith(("/", ".", "~")):
                    yield name
