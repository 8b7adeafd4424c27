"""genai-perf and AIPerf: ``profile_export_genai_perf.json`` and ``profile_export_aiperf.json``.

A metric is ``{"unit": "ms", "avg": 118.1, "p50": ...}``; ``input_config`` says model and concurrency, each version in
its own place. Source: triton-inference-server/perf_analyzer, ``genai-perf/docs/files.md``; ai-dynamo/aiperf,
``docs/tutorials/working-with-profile-exports.md``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from ...records import Json
from .reading import ONLINE, Reading, cells

_NEEDED = ("time_to_first_token", "output_token_throughput")


def reads(text: str) -> bool:
    """Whether the text is such an export."""
    return text.lstrip().startswith("{") and all(f'"{name}"' in text for name in (*_NEEDED, "input_config"))


def read(text: str) -> Reading:
    """The run at its concurrency."""
    found = json.loads(text)
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
    config = found["input_config"]
    users = [value for value in _under(config, "concurrency") if isinstance(value, int)]
    # AIPerf lists phases, and what warms up comes first.
    row = cells(
        model=next(_models(config), None),
        isl=float(round(isl or 0)) or None,
        osl=float(round(osl or 0)) or None,
        concurrency=users[-1] if users else None,
        ttft_ms=first,
        tpot_ms=token,
        output_tok_s_total=rate,
    )
    requests = _average(found, "request_count")
    said = [f"{requests:g} requests, those that warm up not among them" if requests else "mean of all requests"]
    said.append("it doesn't say the server's software, ranks or precision")
    who = "AIPerf" if "aiperf_version" in found else "genai-perf"
    return Reading(who, ONLINE, (row,), tuple(said))


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
    """Names of models: of the tokenizer first, where the served name is one of its owner's."""
    for key in ("tokenizer", "model_names", "models", "model", "formatted_model_name"):
        for value in _under(config, key):
            for name in (
                [value, *_under(value, "name")] if not isinstance(value, list) else [*value, *_under(value, "name")]
            ):
                if isinstance(name, str) and name:
                    yield name
