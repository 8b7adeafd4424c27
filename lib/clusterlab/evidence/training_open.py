"""Open rows: what a row of training says, and every layout that it leaves open.

Sequence, batch and the split over accelerators are read or filled in here; :mod:`clusterlab.evidence.training_close`
chooses among the candidates.
"""

from __future__ import annotations

import re
from itertools import product
from typing import NamedTuple

import numpy as np

from ..catalogue import Machine, Software
from ..checks import some
from ..model import Layout, Transformer, Violations, Workload
from ..quantities import Count
from .naming import in_catalogue
from .rows import Row, SkipRow
from .training_naming import (
    recomputations,
    row_machine,
    row_model,
    row_precision,
    row_stacks,
    sequence_parallel,
    sharding,
    software_year,
    tpu_slices,
)

MEASURES = ("step_time_s", "tokens_per_s_per_gpu", "hw_tflops_per_gpu", "model_tflops_per_gpu", "hfu_pct", "mfu_pct")
Split = tuple[float, float, float]  # tp, pp, dp


class OpenRow(NamedTuple):
    """A row as far as it goes by itself: its candidates, all valid, and how to choose among them.

    ``sharding`` is what the row says of it, or means; ``tries`` are pairs of ZeRO stage and recomputation, the
    likeliest first; ``group`` ranks share under ZeRO.
    """

    row: Row
    gpus: float
    model: Transformer
    machine: Machine
    workload: Workload
    stack: str
    software: Software
    sharding: str
    candidates: Layout
    tries: list[tuple[int, str]]
    group: float | None


def open_row(row: Row) -> list[OpenRow]:
    """A row as records: what it says, and every layout that it leaves open; one for each stack that it may be by."""
    gpus = _gpus(row)
    machine, model = row_machine(row, gpus), row_model(row)
    precision = row_precision(row, machine)
    stack, several = row_stacks(row, machine, precision, model)
    if gpus is None:
        raise SkipRow("n_gpus is not published")
    if row.form.measured and not any(row[name] for name in MEASURES):
        raise SkipRow("no step time, throughput or utilisation is published")
    year = max(map(software_year, several))
    found: list[OpenRow] = []
    refused: list[Exception] = []
    for software in several:
        own = row.copy() if len(several) > 1 else row
        try:
            found.append(_opened(own, gpus, model, machine, precision, stack, software, year))
        except (SkipRow, ValueError) as why:
            refused.append(why)
    if not found:
        raise refused[0]
    return found


def _opened(
    row: Row,
    gpus: float,
    model: Transformer,
    machine: Machine,
    precision: str,
    stack: str,
    software: Software,
    year: int,
) -> OpenRow:
    """A row by one stack; ``year`` is that of its usual sequence and batch."""
    by_time = not any(row[name] for name in MEASURES[1:])
    sequence = _sequence(row, gpus, year, measured_by_time=by_time)

    tpu, cp = machine.name.startswith("TPU"), row["cp"] or 1.0
    known, shards = _known_split(row, gpus / cp, machine, software)
    splits = _splits(known, gpus / cp, machine.domain)
    batch = _global_batch(row, gpus, sequence, splits, year, by_chip=tpu, measured_by_time=by_time)
    workload = Workload(sequence=sequence, global_batch=batch, precision=precision)
    stages, group = sharding(shards, machine, software, staged=all(pp > 1 for _, pp, _ in splits))
    if tpu:  # no more tensor ranks than it takes to give each chip a part of the batch
        splits = [split for split in splits if batch % split[2] == 0][:1] or splits
        if group is None and (slices := tpu_slices(row)) > 1:
            group = splits[0][2] * cp / slices

    tries = list(product(stages, recomputations(row, machine, software)))
    zero, recompute = tries[0]
    microbatches = [batch / splits[0][2]] if tpu else [row["micro_batch"]] if row["micro_batch"] else MICROBATCHES
    axes = _candidates(splits, microbatches, _chunks(row, software), _expert_ranks(row, model))
    split_sequence = sequence_parallel(row, software)
    layouts = Layout(**axes, cp=cp, sequence_parallel=split_sequence, zero=zero, recompute=recompute)
    layouts = _valid(layouts, model, workload, gpus)
    return OpenRow(row, gpus, model, machine, workload, stack, software, shards, layouts, tries, group)


def _gpus(row: Row) -> float | None:
    """Accelerators: published, or what the split makes."""
    tp, pp, dp = row["tp"], row["pp"], row["dp"]
    if row["n_gpus"] or not (tp and pp and dp):
        return row["n_gpus"]
    gpus = tp * pp * dp * (row["cp"] or 1.0)
    row.filled["n_gpus"] = f"{gpus:g} (tp pp dp cp)"
    return gpus


def _known_split(
    row: Row, gpus: float, machine: Machine, software: Software
) -> tuple[tuple[float | None, float | None, float | None], str]:
    """What a row says of (tp, pp, dp), which make so many GPUs, and of sharding; or what it means by the rest."""
    tp, pp, dp, said = row["tp"], row["pp"], row["dp"], row.text["fsdp"]
    stages, _ = sharding(said, machine, software, staged=False)
    if machine.name.startswith("TPU"):
        pp = pp or 1.0
    elif not (tp or pp or dp):
        of_each = row["global_batch"] is None and row["micro_batch"]  # sequences of each accelerator
        if of_each or (stages == [3] and (row["global_batch"] or 0) % gpus == 0):
            tp, pp, said = 1.0, 1.0, said or "FSDP"  # sharded data parallelism
    ranks = int(said) if said.isdecimal() else 0
    if ranks and dp and (tp or 1) * (pp or 1) * dp * ranks == gpus:
        dp *= ranks  # replicas of groups that share: hybrid sharding
    return (tp, pp, dp), said


CHIP_BATCH = 4.0  # sequences of a chip where no batch is published, the middle of MaxText's scripts

# Tokens of a step where no batch is published: LLaMA's and PaLM's 4 million, since 2024 Llama 3's 16.
BATCH_TOKENS = {"until 2023": 2**22, "since": 2**24}
MICROBATCHES = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0]  # that are tried where none is published


def _sequence(row: Row, gpus: float, software_year: int, *, measured_by_time: bool) -> float:
    """Tokens of a sequence: published, or from rate and time, or usual in the year of the model or its software."""
    rate, batch = row["tokens_per_s_per_gpu"], row["global_batch"]
    if row["seq"]:
        return row["seq"]
    if rate and batch and row["step_time_s"]:
        found, why = float(round(rate * gpus * row["step_time_s"] / batch)), "from rate and step time"
    elif measured_by_time:
        raise SkipRow("seq is not published")
    else:
        known = in_catalogue(row.text["model"], (), None)
        year = known.year if known else software_year
        found, why = (2048.0 if year <= 2023 else 4096.0), "usual"
        if known and known.shape.positions:
            found, why = float(known.shape.positions), "positions of the model"
    row.filled["sequence"] = f"{found:g} ({why})"
    return found


def _global_batch(
    row: Row, gpus: float, sequence: float, splits: list[Split], year: int, *, by_chip: bool, measured_by_time: bool
) -> float:
    """Sequences of a step: published, or from the microbatch, or from rate and time, or of ``BATCH_TOKENS``."""
    rate, micro = row["tokens_per_s_per_gpu"], row["micro_batch"]
    if row["global_batch"]:
        return row["global_batch"]
    if rate and row["step_time_s"]:
        found, why = float(round(rate * gpus * row["step_time_s"] / sequence)), "from rate and step time"
    elif by_chip and (micro or not measured_by_time):
        found, why = (micro or CHIP_BATCH) * gpus, f"{micro or CHIP_BATCH:g} a chip"
    elif micro and len(splits) == 1 and splits[0][1] == 1:  # without a pipeline, one microbatch
        found, why = micro * splits[0][2], "one microbatch"
    elif measured_by_time:
        raise SkipRow("global_batch is not published")
    else:
        one_dp = len({dp for _, _, dp in splits}) == 1
        least = splits[0][2] if one_dp else gpus / 2 ** np.floor(np.log2(np.gcd(int(gpus), 2**30)))
        least *= (micro or 1) if least > 1 else 1
        tokens = BATCH_TOKENS["until 2023" if year <= 2023 else "since"]
        found, why = float(least * 2 ** max(round(np.log2(tokens / (sequence * least))), 0)), "usual"
    row.filled["global_batch"] = f"{found:g} ({why})"
    return found


def _splits(known: tuple[float | None, float | None, float | None], gpus: float, domain: int) -> list[Split]:
    """The split of the GPUs into (tp, pp, dp), or all splits that agree with what the row says."""
    tp, pp, dp = known
    tps = [tp] if tp else _powers(min(domain, 16))
    if pp:
        pps = [pp]
    elif dp:
        pps = [gpus / (dp * tp) for tp in tps]
    else:
        pps = [float(p) for p in range(1, 65) if gpus % p == 0]
    splits = {(tp, pp, dp or gpus / (tp * pp)) for tp in tps for pp in pps}
    found = sorted(s for s in splits if s[0] * s[1] * s[2] == gpus and all(part % 1 == 0 for part in s))
    if not found:
        named = " x ".join(f"{axis} {part:g}" for axis, part in zip(("tp", "pp", "dp"), known, strict=True) if part)
        raise SkipRow(f"{named} does not make {gpus:g} GPUs (without cp)")
    return found


def _chunks(row: Row, software: Software) -> list[float]:
    """Chunks of a stage: interleaving spread with the schedules of 2023."""
    if row["vpp"]:
        return [row["vpp"]]
    return [1.0] if software_year(software) < 2023 else [float(chunks) for chunks in range(1, 17)]


def _expert_ranks(row: Row, model: Transformer) -> list[float]:
    return [row["ep"] or 1.0] if row["ep"] or not model.experts else _powers(model.experts)


def _powers(most: float) -> list[float]:
    return [2.0**i for i in range(int(np.log2(most)) + 1)]


AXES = ("tp", "pp", "dp", "microbatch", "chunks", "ep")


def _candidates(
    splits: list[Split], microbatches: list[float], chunks: list[float], eps: list[float]
) -> dict[str, Count]:
    """Every combination, the splits outermost; one stage has one chunk. Arrays, or numbers if there is only one."""
    if len(splits) * len(microbatches) * len(eps) == 1 and (len(chunks) == 1 or splits[0][1] == 1):
        only = (*splits[0], microbatches[0], chunks[0] if splits[0][1] > 1 else 1, eps[0])
        return dict(zip(AXES, only, strict=True))
    grid = np.meshgrid(np.arange(len(splits)), microbatches, chunks, eps, indexing="ij")
    index, micro, chunk, ep = (axis.ravel() for axis in grid)
    tp, pp, dp = np.array(splits).T[:, index]
    keep = (pp > 1) | (chunk == chunks[0])
    values = (tp, pp, dp, micro, np.where(pp > 1, chunk, 1), ep)
    return {name: value[keep] for name, value in zip(AXES, values, strict=True)}


def _valid(layouts: Layout, model: Transformer, workload: Workload, gpus: float) -> Layout:
    """Those of the layouts that can be built."""
    violations = layouts.violations(model, workload, gpus=gpus)
    if not any(map(some, violations.broken.values())):
        return layouts
    valid = violations.valid
    if not np.any(valid):
        raise SkipRow(f"not a layout: {_most_broken(violations)}")
    return layouts[valid]


def _most_broken(violations: Violations) -> str:
    """The rule that most candidates break, and what the first of them has there."""
    rules = {rule: np.atleast_1d(mask) for rule, mask in violations.rules.items()}
    rule = max(rules, key=lambda rule: np.count_nonzero(rules[rule]))
    first = int(np.argmax(rules[rule]))
    values = {name: violations.values[name] for name in violations.values if re.search(rf"\b{name}\b", rule)}
    got = ", ".join(f"{n} {np.broadcast_to(v, rules[rule].shape)[first]:g}" for n, v in values.items())
    return f"{rule}; {'for example' if rules[rule].size > 1 else 'got'} {got}"
