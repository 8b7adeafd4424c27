"""Weights & Biases: CSVs as its pages export them.

A chart: ``"Step","run - metric","run - metric__MIN","run - metric__MAX"``, a column for each run. A table of runs:
``"Name","State","Created","Runtime",...`` and whatever configuration and summary its columns are. Source: exports in
public repositories, for a chart ``Step`` or ``Relative Time (Process)`` first.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Mapping

from ..training_tables import FORM
from .reading import TRAINING, Cells, Reading, cells, steady

# Metrics that mean one thing, as the loggers of training stacks call them: column, and what makes it SI.
_METRICS: Mapping[str, tuple[str, float]] = {
    "iteration-time": ("step_time_s", 1.0),
    "train_step_timing in s": ("step_time_s", 1.0),
    "step_time_s": ("step_time_s", 1.0),
    "step_time_seconds": ("step_time_s", 1.0),
    "time_metrics/end_to_end(s)": ("step_time_s", 1.0),
    "elapsed_time_per_iteration_ms": ("step_time_s", 1e-3),
    "throughput/device/tokens_per_sec": ("tokens_per_s_per_gpu", 1.0),
    "throughput/device/tokens_per_second": ("tokens_per_s_per_gpu", 1.0),
    "tokens_per_s_per_gpu": ("tokens_per_s_per_gpu", 1.0),
    "tokens_per_sec_per_gpu": ("tokens_per_s_per_gpu", 1.0),
    "tokens_per_second_per_gpu": ("tokens_per_s_per_gpu", 1.0),
    "throughput(tps)": ("tokens_per_s_per_gpu", 1.0),
    "throughput/device/mfu": ("mfu_pct", 100.0),
    "mfu(%)": ("mfu_pct", 1.0),
    "tflops_per_gpu": ("model_tflops_per_gpu", 1.0),
    "throughput per gpu (tflop/s/gpu)": ("model_tflops_per_gpu", 1.0),
}
_SHOWN = 12  # metrics that a message names
_UNITS = {"step_time_s": "s", "tokens_per_s_per_gpu": "tokens/s", "mfu_pct": "%", "model_tflops_per_gpu": "TFLOP/s"}
_ALIASES = {
    **FORM.aliases,
    "gpu_count": "gpus_per_node",
}  # the GPUs of the host that logs, however many hosts there are
_ENDED = ("crashed", "failed", "killed")
_ABOUT_RUNS = {"state", "created", "runtime", "user", "notes", "tags", "hostname", "github", "sweep", "report"}


def reads(text: str) -> bool:
    """Whether the text is such a CSV."""
    heading = _heading(text)
    return any(name.endswith("__MIN") for name in heading) or len(_ABOUT_RUNS & {n.casefold() for n in heading}) >= 3


def read(text: str) -> Reading:
    """The runs of a chart, or of a table."""
    return _chart(text) if any(name.endswith("__MIN") for name in _heading(text)) else _runs(text)


def _heading(text: str) -> list[str]:
    return next(csv.reader([text.lstrip().partition("\n")[0]]), [])


def _chart(text: str) -> Reading:
    lines = list(csv.DictReader(io.StringIO(text)))
    names = [name for name in lines[0] if name and not name.endswith(("__MIN", "__MAX"))] if lines else []
    found: dict[str, dict[str, str]] = {}
    said, unused = [], []
    counted = (
        bool(names) and re.search("step|iter", names[0], re.IGNORECASE) and all(_number(x[names[0]]) for x in lines)
    )
    steps = [int(float(line[names[0]])) if counted else i for i, line in enumerate(lines, 1)]
    for name in names[1:]:
        run, _, metric = name.rpartition(" - ")
        known = _known(metric)
        if known is None:
            unused += [] if metric in ("_step", "_runtime", "_timestamp") else [name]
            continue
        values = [(at, float(line[name])) for at, line in zip(steps, lines, strict=True) if _number(line[name])]
        if not values:
            continue
        column, scale = known
        value, sentence = steady([(at, value * scale) for at, value in values], _UNITS[column])
        found.setdefault(run, {"row_id": run})[column] = f"{value:.10g}"
        said.append(f"{run}, {metric}: {sentence}")
    if not found:
        raise _without_speed(name.rpartition(" - ")[2] for name in unused)
    return Reading("a chart of Weights & Biases", TRAINING, tuple(found.values()), tuple(said), tuple(unused))


def _runs(text: str) -> Reading:
    rows: list[Cells] = []
    said: list[str] = []
    unused: dict[str, None] = {}
    ended: list[str] = []
    for line in csv.DictReader(io.StringIO(text)):
        if (line.get("State") or "").casefold() in _ENDED:
            ended.append(str(line.get("Name")))
            continue
        row = dict(cells(row_id=line.get("Name")))
        for name, cell in line.items():
            short = _short(str(name or ""))
            known = _known(short)
            if known and _number(cell):
                row[known[0]] = f"{float(cell) * known[1]:.10g}"
            elif name and name != "Name" and cell:
                plain = re.sub(r"[\s-]+", "_", short.casefold())
                column = _ALIASES.get(plain, plain)
                if column in FORM.columns and name.casefold() not in _ABOUT_RUNS:
                    row[column] = cell
                else:
                    unused[name] = None
        rows.append(row)
    if not any(column in row for row in rows for column in _UNITS):
        raise _without_speed(unused)
    if ended:
        said.append(f"left out, for they {', '.join(_ENDED[:-1])} or were killed: {', '.join(ended)}")
    if rows:
        said.append("what a table of runs says last of each: no warm-up can be left out")
    return Reading("a table of runs of Weights & Biases", TRAINING, tuple(rows), tuple(said), tuple(unused))


def _short(metric: str) -> str:
    return re.sub(r"^(config|summary|train|perf)[./]", "", metric.strip())


def _known(metric: str) -> tuple[str, float] | None:
    """The column of a metric, and what makes it SI."""
    return _METRICS.get(metric.strip().casefold()) or _METRICS.get(_short(metric).casefold())


def _without_speed(names: Iterable[str]) -> ValueError:
    """What there is instead of a speed, each metric once."""
    there = [name for name in dict.fromkeys(names) if name and not name.startswith("_")]
    some = ", ".join(there[:_SHOWN]) + (f" and {len(there) - _SHOWN} more" if len(there) > _SHOWN else "")
    return ValueError(
        f"none of its metrics says how fast a run is: {some or 'it has none'}; known: {', '.join(_METRICS)}"
    )


def _number(cell: str | None) -> bool:
    return bool(cell) and bool(re.fullmatch(r"-?\d+\.?\d*(e[+-]?\d+)?", str(cell).strip(), re.IGNORECASE))
