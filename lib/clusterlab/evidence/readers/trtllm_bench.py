"""TensorRT-LLM's ``trtllm-bench throughput``: its ``--report_json``, or the report that it prints.

JSON: ``engine``, ``world_info``, ``request_info``, ``performance``, ``streaming_metrics``. Printed: ``= ENGINE
DETAILS``, ``= WORLD + RUNTIME INFORMATION``, ``= PERFORMANCE OVERVIEW``. All requests are sent at once, unless it is
told a concurrency. Source: NVIDIA/TensorRT-LLM, ``tensorrt_llm/bench/dataclasses/reporting.py``.
"""

from __future__ import annotations

import json
import re

from ...records import Json
from .reading import OFFLINE, Reading, cells

_PRINTED = {
    "model": r"^Model:\s+(\S+)",
    "version": r"^TensorRT-LLM Version:\s+(\S+)",
    "dtype": r"^Dtype:\s+(\S+)",
    "quantization": r"^Quantization:\s+(\S+)",
    "tp": r"^TP Size:\s+(\d+)",
    "pp": r"^PP Size:\s+(\d+)",
    "ep": r"^EP Size:\s+(\d+)",
    "isl": r"^Average Input Length \(tokens\):\s+([\d.]+)",
    "osl": r"^Average Output Length \(tokens\):\s+([\d.]+)",
    "rate": r"^(?:Token Throughput|Total Output Throughput) \(tokens/sec\):\s+([\d.]+)",
    "requests": r"^Number of requests:\s+(\d+)",
}


def reads(text: str) -> bool:
    """Whether the text is such a report."""
    return "= PERFORMANCE OVERVIEW" in text or ('"performance"' in text and '"system_output_throughput_tok_s"' in text)


def read(text: str) -> Reading:
    """The run: its output tokens a second."""
    found = _of_report(json.loads(text)) if text.lstrip().startswith("{") else _of_print(text)
    quantized = found.get("quantization") or ""
    precision = next((name for name in ("fp4", "fp8") if name in quantized.casefold()), None)
    if precision is None:
        precision = {"bfloat16": "bf16", "float16": "fp16"}.get(found.get("dtype") or "")
    tp, pp = int(found.get("tp") or 1), int(found.get("pp") or 1)
    row = cells(
        model=found.get("model"),
        n_gpus=tp * pp,
        tp=tp,
        pp=pp,
        ep=found.get("ep") if int(found.get("ep") or 1) > 1 else None,
        precision=precision,
        framework=f"TensorRT-LLM {found['version']}" if found.get("version") else "TensorRT-LLM",
        isl=round(float(found["isl"])),
        osl=round(float(found["osl"])),
        output_tok_s_total=float(found["rate"]),
        mode="offline max throughput",
    )
    said = (f"{found.get('requests', 'its')} requests, all queued at once: output tokens a second of all GPUs",)
    return Reading("trtllm-bench", OFFLINE, (row,), said)


def _of_print(text: str) -> dict[str, str]:
    return {key: found[1] for key, form in _PRINTED.items() if (found := re.search(form, text, re.MULTILINE))}


def _of_report(report: dict[str, Json]) -> dict[str, str]:
    """The parts of a report as text by the names of the printed one."""

    def part(table: str, *names: str) -> str | None:
        rows = report.get(table)
        values = [rows[name] for name in names if isinstance(rows, dict) and rows.get(name) is not None]
        return str(values[0]) if values else None

    found = {
        "model": part("engine", "model"),
        "version": part("engine", "version"),
        "dtype": part("engine", "dtype"),
        "quantization": part("engine", "quantization"),
        "tp": part("world_info", "tp_size"),
        "pp": part("world_info", "pp_size"),
        "ep": part("world_info", "ep_size"),
        "isl": part("request_info", "avg_input_length"),
        "osl": part("request_info", "avg_output_length"),
        "rate": part("performance", "system_output_throughput_tok_s"),
        "requests": part("request_info", "num_requests"),
    }
    return {name: value for name, value in found.items() if value is not None}
