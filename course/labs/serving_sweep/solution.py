"""Which promise can it keep? What a student computes from a sweep of Llama 3.1 70B."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import numpy as np

from clusterlab import catalogue
from clusterlab.evidence import parse_online, predict_online
from clusterlab.model import kv_bytes_per_token, transformer
from clusterlab.serving import MEASURES, little_law
from clusterlab.units import GB, fmt

DATA = Path(__file__).parent / "data"
MEAN = 0.9  # lengths are uniform from 0.8 to 1.0 of isl and osl
MEMORY = 0.9  # of the GPUs' memory: what vLLM takes, unless it is told otherwise
TENSOR = (2, 4, 8)
STUCK = "O2777"  # TP2, long prompts, 64 users


def sweep() -> list[dict[str, str]]:
    """Task 1: the rows."""
    with (DATA / "sweep.csv").open() as lines:
        return list(csv.DictReader(lines))


def row(tp: int, prompt: int, output: int, users: int) -> dict[str, str]:
    """One row of the sweep."""
    asked = {"tp": tp, "isl": prompt, "osl": output, "concurrency": users}
    (found,) = [each for each in sweep() if all(each[name] == str(value) for name, value in asked.items())]
    return found


def seconds(each: dict[str, str]) -> tuple[float, float, float]:
    """To the first token, from token to token, and of the whole answer."""
    first, gap = float(each["ttft_ms"]) / 1e3, float(each["tpot_ms"]) / 1e3
    return first, gap, first + gap * MEAN * int(each["osl"])


def yields(each: dict[str, str]) -> float:
    """Task 3: tokens a second of one GPU, by Little's law."""
    return int(each["concurrency"]) / seconds(each)[2] * MEAN * int(each["osl"]) / int(each["n_gpus"])


def writing(each: dict[str, str]) -> float:
    """Task 4: requests that are being written at once, and not waiting: Little's law for the batch alone."""
    _, gap, whole = seconds(each)
    return float(little_law(rate=int(each["concurrency"]) / whole, time=gap * MEAN * int(each["osl"])))


def kept(prompt: int, output: int, first: float, gap: float) -> dict[str, str]:
    """Task 5: the row that keeps a promise and yields most."""
    good = [
        each
        for each in sweep()
        if (int(each["isl"]), int(each["osl"])) == (prompt, output)
        and seconds(each)[0] <= first
        and seconds(each)[1] <= gap
    ]
    return max(good, key=yields)


def errors(**column: int) -> tuple[dict[str, float], dict[str, float]]:
    """Task 5: mean error of each measure, and what is predicted of the row that waits a minute.

    A ``column`` is added to the table, as a student adds it.
    """
    table = [{**each, **{name: str(value) for name, value in column.items()}} for each in sweep()]
    text = io.StringIO()
    lines = csv.DictWriter(text, list(table[0]))
    lines.writeheader()
    lines.writerows(table)
    runs, _ = parse_online(text.getvalue(), "sweep.csv")
    predicted = predict_online(runs)
    here = next(i for i, each in enumerate(table) if each["row_id"] == STUCK)
    means = {name: float(np.mean(np.abs(v / [r.measured[name] for r in runs] - 1))) for name, v in predicted.items()}
    return means, {name: float(values[here]) for name, values in predicted.items()}


def answers() -> dict[str, str]:
    """Every number of the sample report."""
    model, gpu = transformer("Llama 3.1 70B"), catalogue.accelerator("H100 SXM")
    weights = 70.6e9
    gaps = {tp: seconds(row(tp, 1024, 1024, 4))[1] for tp in TENSOR}
    by_hand = {tp: weights / tp / gpu.hbm_bandwidth for tp in TENSOR}
    slope, rest = np.polyfit([1 / tp for tp in TENSOR], [gaps[tp] for tp in TENSOR], 1)

    # 4. Why does anybody wait a minute?
    stuck, before = row(2, 8192, 1024, 64), row(2, 8192, 1024, 32)
    token = {bits: kv_bytes_per_token(model, bytes_per_element=bits // 8) for bits in (16, 8)}
    tokens = MEAN * (8192 + 1024 / 2)
    room = 2 * gpu.hbm_capacity * MEMORY - weights
    fits = {bits: room / (tokens * size) for bits, size in token.items()}
    long = row(2, 1024, 8192, 64)

    # 5. What the library says.
    first, gap, rate = MEASURES
    (as_it_is, of_stuck), (in_fp8, of_stuck_fp8) = errors(), errors(cache_bytes=1)

    # 6. Promises.
    chat, reader = kept(1024, 1024, 0.5, 0.020), kept(8192, 1024, 1.0, 0.030)
    strict = kept(1024, 1024, 0.5, 0.0125)
    most = max((each for each in sweep() if each["isl"] == each["osl"]), key=yields)
    return {
        "rows": f"{len(sweep())}",
        **{f"by_hand_{tp}": f"{by_hand[tp] * 1e3:.1f} ms" for tp in TENSOR},
        **{f"gap_{tp}": f"{gaps[tp] * 1e3:.1f} ms" for tp in TENSOR},
        **{f"ratio_{tp}": f"{gaps[tp] / by_hand[tp]:.1f}" for tp in TENSOR},
        "speedup": f"{gaps[2] / gaps[8]:.1f}",
        "slope": f"{slope * 1e3:.1f} ms",
        "slope_by_hand": f"{weights / gpu.hbm_bandwidth * 1e3:.1f} ms",
        "of_peak": fmt(weights / slope / gpu.hbm_bandwidth, "%", digits=2),
        "rest": f"{rest * 1e3:.1f} ms",
        "each": f"{rest / 160 * 1e6:.0f} µs",
        "yield_chat_8": f"{yields(row(8, 1024, 1024, 64)):,.0f}",
        "yield_chat_2": f"{yields(row(2, 1024, 1024, 64)):,.0f}",
        "yield_chat_4": f"{yields(row(4, 1024, 1024, 64)):,.0f}",
        "yield_one": f"{yields(row(8, 1024, 1024, 4)):,.0f}",
        "yield_naive": f"{64 / seconds(row(2, 1024, 1024, 64))[1] / 2:.0f}",
        "first_stuck": f"{seconds(stuck)[0]:.0f} s",
        "first_before": f"{seconds(before)[0]:.1f} s",
        "first_16": f"{seconds(row(2, 8192, 1024, 16))[0]:.1f} s",
        "gap_stuck": f"{seconds(stuck)[1] * 1e3:.1f} ms",
        "gap_before": f"{seconds(before)[1] * 1e3:.1f} ms",
        "whole": f"{seconds(stuck)[2]:.0f} s",
        "rate": f"{64 / seconds(stuck)[2]:.2f}",
        "spoken": f"{seconds(stuck)[1] * MEAN * 1024:.1f} s",
        "writing": f"{writing(stuck):.0f}",
        "writing_before": f"{writing(before):.0f}",
        "tokens": f"{tokens:,.0f}",
        "token_16": f"{token[16] / 1e3:.0f} kB",
        "token_8": f"{token[8] / 1e3:.0f} kB",
        "memory": f"{2 * gpu.hbm_capacity / GB:.0f} GB",
        "room": f"{room / GB:.0f} GB",
        "fits_16": f"{fits[16]:.0f}",
        "fits_8": f"{fits[8]:.0f}",
        "writing_long": f"{writing(long):.0f}",
        "fits_long": f"{room / (MEAN * (1024 + 8192 / 2) * token[16]):.0f}",
        "gap_error": f"{100 * as_it_is[gap]:.1f} %",
        "rate_error": f"{100 * as_it_is[rate]:.1f} %",
        "first_error": f"{100 * as_it_is[first]:.0f} %",
        "gap_error_8": f"{100 * in_fp8[gap]:.1f} %",
        "rate_error_8": f"{100 * in_fp8[rate]:.1f} %",
        "first_predicted": f"{of_stuck[first]:.0f} s",
        "first_predicted_8": f"{of_stuck_fp8[first]:.0f} s",
        "gap_predicted": f"{of_stuck[gap] * 1e3:.0f} ms",
        "chat": f"TP{chat['tp']} and {chat['concurrency']} users",
        "chat_yield": f"{yields(chat):,.0f}",
        "chat_gap": f"{seconds(chat)[1] * 1e3:.1f} ms",
        "strict": f"TP{strict['tp']} and {strict['concurrency']} users",
        "strict_yield": f"{yields(strict):,.0f}",
        "dearer": f"{yields(chat) / yields(strict):.1f}",
        "reader": f"TP{reader['tp']} and {reader['concurrency']} users",
        "reader_yield": f"{yields(reader):,.0f}",
        "reader_first": f"{seconds(reader)[0]:.2f} s",
        "most": f"TP{most['tp']} and {most['concurrency']} users",
        "price_chat": f"{2 / 3600 / yields(chat) * 1e6:.2f}",
        "price_strict": f"{2 / 3600 / yields(strict) * 1e6:.2f}",
    }
