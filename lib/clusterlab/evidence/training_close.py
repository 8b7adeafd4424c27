"""Closing rows: of all layouts that a row of training leaves open, the fastest that fits in memory.

What a row says is then a run, with the seconds that were measured and all that was filled in.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from .. import catalogue
from ..catalogue import Machine
from ..model import PRECISIONS, Layout, Transformer, training_flops
from ..parallelism import footprint, step
from ..units import TFLOP, fmt
from .rows import Row, SkipRow
from .training_open import AXES, MEASURES, OpenRow
from .training_runs import HOST, NO_FIT, Run, grouped, layout_count, predict_runs, split_at, stacked

Refused = list[tuple[Row, Exception]]


def close_rows(rows: list[OpenRow]) -> tuple[list[Run], Refused]:
    """Each row as a run, of its candidates the fastest that fits in memory; and the rows that a law refuses.

    If none fits: with the next kind of recomputation; if not even weights and optimizer do, with the next ZeRO stage;
    at last of those that take least. Rows that share a model and software are asked about in one call.
    """
    try:
        fitting = _fitting(rows)
        layouts = _fastest(rows, fitting)
    except ValueError as why:
        if len(rows) == 1:
            return [], [(rows[0].row, why)]
        each = [close_rows([row]) for row in rows]  # one of them is to blame
        return [run for runs, _ in each for run in runs], [one for _, refused in each for one in refused]
    found: list[Run] = []
    refused: Refused = []
    for opened, layout in zip(rows, layouts, strict=True):
        try:
            found.append(_close(opened, layout))
        except (SkipRow, ValueError) as why:
            refused.append((opened.row, why))
    return found, refused


def _fitting(rows: list[OpenRow]) -> list[Layout]:
    """Of each row the candidates that fit, or that take least, with ZeRO stage, recomputation and sharding ranks."""
    found: dict[int, Layout] = {}
    pending = dict.fromkeys(range(len(rows)), 0)  # rows without an answer, and the try at which they are
    while pending:
        for group in grouped(pending, lambda i: (rows[i].model, rows[i].software)):
            for i, need in zip(group, _needs([rows[i] for i in group], [pending[i] for i in group]), strict=True):
                layout = _of_those_that_fit(rows[i], pending[i], need)
                if layout is None:
                    pending[i] += 1
                else:
                    found[i] = layout
                    del pending[i]
    return [found[i] for i in range(len(rows))]


class _Need(NamedTuple):
    """Bytes of a row's candidates: all, those of weights, gradients and optimizer, and those of activations."""

    total: np.ndarray
    state: np.ndarray
    activations: np.ndarray


def _needs(rows: list[OpenRow], tries: list[int]) -> list[_Need]:
    """What the candidates of each row take, of rows that share a model and software, each at one of its tries."""
    zeros, recomputes = zip(*(row.tries[at] for row, at in zip(rows, tries, strict=True)), strict=True)
    # Interleaving costs little memory.
    changed = {"zero": list(zeros), "recompute": list(recomputes), "chunks": [1.0] * len(rows)}
    layout, workload, ends = stacked([row.candidates for row in rows], [row.workload for row in rows], **changed)
    need = footprint(rows[0].model, workload, layout, software=rows[0].software)
    return [*map(_Need, *(split_at(np.asarray(column), ends) for column in (need.total, need.state, need.activations)))]


def _of_those_that_fit(opened: OpenRow, at: int, need: _Need) -> Layout | None:
    """The candidates that fit at one of the row's tries; None where another try may fit; at last those of least."""
    capacity, (zero, recompute) = _usable(opened.machine), opened.tries[at]
    fits = need.total <= capacity
    layout = replace(opened.candidates, zero=zero, recompute=recompute) if at else opened.candidates
    if not np.any(fits):
        # Further sharding is for weights and optimizer that do not fit; what activations lack it does not bring.
        settled = recompute == opened.tries[-1][1] and np.any(need.state <= capacity)
        if not settled and at + 1 < len(opened.tries):
            return None
        fits = need.total <= need.total.min()
        opened.row.filled["memory"] = _short_of_memory(opened, zero, need)
    return _shared(layout if np.all(fits) else layout[fits], opened.group)


# Why a published run that ran does not fit by the law: what its row says is not all that it does.
STATE = "weights, gradients and optimizer alone are more: fewer bits, or further sharded, than its row says"
UNSTATED = "what it recomputes or offloads is not stated"
INTERLEAVED = "its interleaving is not stated: the fastest holds more microbatches than fit"
UNEXPLAINED = "unexplained"


def _short_of_memory(opened: OpenRow, zero: int, need: _Need) -> str:
    """What becomes of the bytes that do not fit: the host may hold activations, if the row or its stack offloads them.

    NVIDIA's recipes offload layers where weights are fully sharded, MaxText's under a custom policy (Megatron-Bridge
    v0.2.0, ``cpu_offloading_num_layers``; tpu-recipes, ``decoder_layer_input: offload``).
    """
    least, capacity = int(np.argmin(need.total)), _usable(opened.machine)
    total, state = need.total[least], need.state[least]
    text = opened.row.text["recompute"].casefold()
    share = (total - capacity) / need.activations[least]
    offloads = re.search("offload|custom", text) or (opened.software.name.startswith("NeMo") and zero == 3)
    if share <= 1 and offloads:
        return f"{HOST} {fmt(share, '%', digits=2)} of the activations"
    # Where weights are fully sharded, the host may hold the inputs of layers too (DeepSpeed's cpu_checkpointing).
    open_ = not text or zero == 3 or re.search("not stated|custom|partial|minimal", text)
    why = STATE if state > capacity else UNSTATED if open_ else UNEXPLAINED
    return f"{NO_FIT} {fmt(total, 'B')} of {fmt(capacity, 'B')} ({why})"


def _usable(machine: Machine) -> float:
    """Bytes that a program may allocate: what tools show, or what the datasheet says."""
    return catalogue.accelerator(machine.name).usable_capacity or machine.hbm_capacity


def _shared(layout: Layout, group: float | None) -> Layout:
    """With the ranks that share under ZeRO, where they are some of those that could."""
    ranks = layout.dp * layout.cp
    if group and group > 1 and np.all(group < ranks) and np.all(ranks % group == 0) and np.all(group != layout.dp):
        return replace(layout, shard_group=group)
    return layout


def _fastest(rows: list[OpenRow], fitting: list[Layout]) -> list[Layout]:
    """Of each row the fastest layout."""
    found = [layout[0] if np.ndim(layout.tp) and layout_count(layout) == 1 else layout for layout in fitting]
    several = [i for i, layout in enumerate(fitting) if layout_count(layout) > 1]

    def alike(i: int) -> tuple[object, ...]:
        return rows[i].model, id(rows[i].machine), rows[i].workload.precision, rows[i].software

    for group in grouped(several, alike):
        layout, workload, ends = stacked([fitting[i] for i in group], [rows[i].workload for i in group])
        first = rows[group[0]]
        times = step(first.model, first.machine, workload, layout, software=first.software).time
        for i, time in zip(group, split_at(times, ends), strict=True):
            found[i] = fitting[i][int(np.argmin(time))]
    return found


def _close(opened: OpenRow, layout: Layout) -> Run:
    """A row as a run, and what was filled in."""
    row, filled = opened.row, opened.row.filled
    filled |= _filled_axes(opened, layout) | _filled_switches(opened, layout)
    if opened.group and (layout.dp * layout.cp) % opened.group:
        filled["shard_group"] = f"{layout.sharding_ranks:g} ({opened.group:g} do not divide dp cp)"
    if layout.chunks > 1 and "memory" not in filled:
        need = footprint(opened.model, opened.workload, layout, software=opened.software).total
        capacity = _usable(opened.machine)
        if need > capacity:
            why = UNEXPLAINED if row["vpp"] else INTERLEAVED
            filled["memory"] = f"{NO_FIT} {fmt(need, 'B')} of {fmt(capacity, 'B')} ({why})"
    first = {name: filled[name] for name in ("memory", "model") if name in filled}
    return Run(
        row=row.name,
        source=row.source,
        model=opened.model,
        machine=opened.machine,
        workload=opened.workload,
        layout=layout,
        software=opened.software,
        seconds=_seconds(opened, layout),
        filled=MappingProxyType(first | filled),
        role=row.text["role"],
        stack=opened.stack,
    )


def one_run_each(rows: list[list[Run]]) -> list[Run]:
    """Rows as one run each, from those of every stack that a row may be by: the one nearest to their mean time."""
    several = [run for runs in rows if len(runs) > 1 and not runs[0].stack for run in runs]
    times = iter(predict_runs(several).time if several else ())
    found = []
    for runs in rows:
        if runs[0].stack:
            found.append(runs[0])
            continue
        each = np.array([next(times) for _ in runs]) if len(runs) > 1 else np.zeros(1)
        middle = runs[int(np.argmin(np.abs(each - each.mean())))]
        names = ", ".join(dict.fromkeys(run.software.name for run in runs))
        filled = MappingProxyType({"software": f"not named (any of {names})"} | dict(middle.filled))
        plausible = tuple((run.software, run.layout) for run in runs) if len(runs) > 1 else ()
        found.append(replace(middle, filled=filled, plausible=plausible))
    return found


_COLUMNS = {"microbatch": "micro_batch", "chunks": "vpp"}  # of axes that a table calls otherwise


def _filled_axes(opened: OpenRow, layout: Layout) -> dict[str, str]:
    """Of the axes that a row leaves open, what was taken and why."""
    found = {}
    how = "takes least memory" if "memory" in opened.row.filled else "fastest that fits"
    for name in AXES:
        published = opened.row[_COLUMNS.get(name, name)]
        needless = (name == "chunks" and layout.pp == 1) or (name == "ep" and not opened.model.experts)
        if not (published or needless):
            several = np.unique(getattr(opened.candidates, name)).size > 1
            why = how if several else "usual" if name == "chunks" else "what is left"
            found[name] = f"{getattr(layout, name):g} ({why})"
    return found


def _filled_switches(opened: OpenRow, layout: Layout) -> dict[str, str]:
    """Of sharding, recomputation and sequence parallelism, the same."""
    found, (zero, recompute), text = {}, opened.tries[0], opened.row.text
    if not opened.sharding or len({stage for stage, _ in opened.tries}) > 1:
        found["zero"] = f"{layout.zero:g} ({'usual' if layout.zero == zero else 'a copy does not fit'})"
    if not re.match(r"sel|attention|attn|core|ful|yes|true|on|all|no|off|false|[01]|minimal", text["recompute"]):
        found["recompute"] = f"{layout.recompute} ({'usual' if layout.recompute == recompute else 'to fit'})"
    if not text["seq_parallel"] and layout.tp > 1:
        found["sequence_parallel"] = f"{'yes' if layout.sequence_parallel else 'no'} (usual)"
    return found


# --- The measured step -----------------------------------------------------------------------------------------------


def _seconds(opened: OpenRow, layout: Layout) -> float:
    """The measured step: as printed, or from throughput, or from FLOP/s or their utilisation by published FLOP counts.

    Model FLOPs are 6 P + 12 L h s a token, in full and without the mask; hardware FLOPs add what is recomputed.
    """
    row, machine, workload = opened.row, opened.machine, opened.workload
    if not any(row[name] for name in MEASURES):
        return np.nan
    tokens = workload.global_batch * workload.sequence / opened.gpus
    model_flops, hardware_flops = _flops(opened.model, workload.sequence, layout.recompute)
    peak = row["mfu_peak_tflops"]
    if peak is None and PRECISIONS[workload.precision][1] == 2.0:  # below 16 bits it may be either peak
        peak = machine.peaks[workload.precision] / TFLOP
    whole = peak or np.nan
    means: dict[str, Callable[[float], float]] = {
        "step_time_s": lambda value: value,
        "tokens_per_s_per_gpu": lambda value: tokens / value,
        "hw_tflops_per_gpu": lambda value: tokens * hardware_flops / (value * TFLOP),
        "model_tflops_per_gpu": lambda value: tokens * model_flops / (value * TFLOP),
        "hfu_pct": lambda value: tokens * hardware_flops / (value / 100 * whole * TFLOP),
        "mfu_pct": lambda value: tokens * model_flops / (value / 100 * whole * TFLOP),
    }
    measured = {name: value for name in means if (value := row[name]) and (peak or not name.endswith("_pct"))}
    if not measured:
        raise SkipRow("a utilisation is published, but not the peak that it refers to (mfu_peak_tflops)")
    found = {name: means[name](value) for name, value in measured.items()}
    name, seconds = next(iter(found.items()))
    mfu = tokens * model_flops / machine.peaks[PRECISIONS[workload.precision][0]] / seconds
    if not 0.001 <= mfu <= 1:  # more FLOP/s than there are, or next to none
        question = _QUESTIONS.get(name, "are its unit and the model right?").format(gpus=opened.gpus)
        said = f"{name} {measured[name]:g} means an MFU of {100 * mfu:.3g} %"
        raise SkipRow(f"{said}, which must be from 0.1 to 100 %: {question}")
    for other, also in found.items():
        # Publishers count FLOPs in different ways, but not seconds and tokens.
        most = 1.1 if other == "tokens_per_s_per_gpu" else 1.5
        if max(also / seconds, seconds / also) > most:
            step_of = f"a step of {fmt(also, 's')}, not of {fmt(seconds, 's')} as {name} says"
            raise SkipRow(f"{other} {measured[other]:g} contradicts {name} {measured[name]:g}: it means {step_of}")
    return seconds


_QUESTIONS = {
    "step_time_s": "is it in seconds, and of one step of the whole global_batch?",
    "tokens_per_s_per_gpu": "is it of one GPU, not of all {gpus:g}, and are seq and global_batch right?",
}


@lru_cache(maxsize=4096)
def _flops(model: Transformer, sequence: float, recompute: str) -> tuple[float, float]:
    """Model and hardware FLOPs of a token."""
    found = training_flops(model, sequence, recompute=recompute)
    return found.model, found.hardware
