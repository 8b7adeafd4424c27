"""Two numbers of a laptop, and two ranks on it: what a student computes from his own measurements.

``python -m course.labs.laptop.solution`` measures this machine and keeps the best of this run and of those before.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from .ranks import SIZES, all_reduce_times, as_nccl_tests, step_times  # first: it gives each rank one core

import numpy as np  # isort: skip

from clusterlab.evidence import by_source, fit_links, read_timings
from clusterlab.interconnect import ring_all_reduce
from clusterlab.roofline import attainable, ridge_point
from clusterlab.units import fmt

SAMPLE = Path(__file__).parent / "data" / "sample.json"
LOG = SAMPLE.with_name("all_reduce.txt")
COPIES = [2**power for power in range(14, 29, 2)]  # 16 KiB to 256 MiB
SQUARES = [32, 64, 128, 256, 512, 1024]
WIDTH, TOKENS = 1024, (32, 128, 512, 2048)
VECTOR = 4096


def best(work: Callable[[], object], repeats: int = 15) -> float:
    """Seconds of the fastest of some tries: what disturbs only makes slower."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def measure() -> dict[str, list[float]]:
    """Tasks 1, 2 and 4: everything that a student times."""
    copies, products = [], []
    for size in COPIES:
        source = np.ones(size // 4, dtype=np.float32)
        target = np.empty_like(source)
        copies.append(best(partial(np.copyto, target, source)))
    for n in SQUARES:
        square = np.ones((n, n), dtype=np.float32)
        products.append(best(partial(np.matmul, square, square)))
    big, vector = np.ones((VECTOR, VECTOR), dtype=np.float32), np.ones(VECTOR, dtype=np.float32)
    return {
        "copies": copies,
        "products": products,
        "vector": [best(lambda: big @ vector)],
        "all_reduces": all_reduce_times(2),
        "one": step_times(1, WIDTH, TOKENS),
        "two": step_times(2, WIDTH, TOKENS),
    }


def answers() -> dict[str, str]:
    """Every number of the sample report."""
    sample = {name: np.array(values) for name, values in json.loads(SAMPLE.read_text()).items()}
    rates = 2 * np.array(COPIES) / sample["copies"]  # a copy reads and writes
    flops = 2 * np.array(SQUARES, dtype=float) ** 3 / sample["products"]
    peak, memory, cache = float(flops.max()), float(rates[-1]), float(rates.max())

    # 3. A matrix times a vector: two FLOPs for the four bytes of each element.
    intensity = 2 / 4
    roof = float(attainable(intensity, peak, memory))
    got = 2 * VECTOR**2 / float(sample["vector"][0])
    read = 4 * VECTOR**2 / float(sample["vector"][0])

    # 4. Two ranks.
    rows, _ = read_timings(LOG, collective="all_reduce", ranks=2, nodes=1)
    (source,) = by_source(rows).values()
    fitted = fit_links(source)
    alpha, beta = float(fitted.alpha or 0), float(fitted.bandwidth)
    small, large = sample["all_reduces"][0], sample["all_reduces"][-1]
    by_hand, mid_by_hand = SIZES[-1] / float(large), SIZES[-2] / float(sample["all_reduces"][-2])

    # 5. Tokens that hide the gradients of a layer: four bytes each, six FLOPs for a parameter and token.
    one, two = sample["one"], sample["two"]
    exchange = float(ring_all_reduce(4 * WIDTH**2, 2, bandwidth=beta, latency=alpha).time)
    rho = [exchange / (6 * t * WIDTH**2 / peak) for t in TOKENS]
    speedup = 2 * one / two
    even = float(np.interp(0, np.log(1 / np.array(rho)), np.log(TOKENS)))
    return {
        "peak": fmt(peak, "FLOP/s", digits=2),
        "small_gemm": fmt(float(flops[0]), "FLOP/s", digits=2),
        "memory": fmt(memory, "B/s", digits=2),
        "cache": fmt(cache, "B/s", digits=2),
        "cache_size": fmt(COPIES[int(rates.argmax())], "B", digits=2),
        "cache_ratio": f"{cache / memory:.1f}",
        "ridge": f"{ridge_point(peak, memory):.1f}",
        "intensity": f"{intensity:.1f}",
        "roof": fmt(roof, "FLOP/s", digits=2),
        "got": fmt(got, "FLOP/s", digits=2),
        "read": fmt(read, "B/s", digits=2),
        "got_ratio": f"{got / roof:.1f}",
        "alpha": fmt(alpha, "s", digits=2),
        "beta": fmt(beta, "B/s", digits=2),
        "small": fmt(float(small), "s", digits=2),
        "large": fmt(float(large), "s", digits=2),
        "large_size": f"{SIZES[-1] / 1e6:.1f} MB",
        "by_hand": fmt(by_hand, "B/s", digits=2),
        "mid_size": f"{SIZES[-2] / 1e6:.1f} MB",
        "mid_by_hand": fmt(mid_by_hand, "B/s", digits=2),
        "of_memory": f"{memory / beta:.0f}",
        "half_size": fmt(alpha * beta, "B", digits=2),
        "gradient": f"{4 * WIDTH**2 / 1e6:.1f} MB",
        "exchange": fmt(exchange, "s", digits=2),
        "compute_128": fmt(6 * 128 * WIDTH**2 / peak, "s", digits=2),
        **{f"one_{t}": fmt(float(one[i]), "s", digits=2) for i, t in enumerate(TOKENS)},
        **{f"two_{t}": fmt(float(two[i]), "s", digits=2) for i, t in enumerate(TOKENS)},
        **{f"speedup_{t}": f"{float(speedup[i]):.2f}" for i, t in enumerate(TOKENS)},
        **{f"rho_{t}": f"{rho[i]:.2f}" for i, t in enumerate(TOKENS)},
        **{f"predicted_{t}": f"{2 / (1 + rho[i]):.2f}" for i, t in enumerate(TOKENS)},
        "even": f"{np.exp(even):.0f}",
    }


if __name__ == "__main__":
    now = measure()
    if SAMPLE.exists():
        old = json.loads(SAMPLE.read_text())
        now = {name: [min(pair) for pair in zip(old[name], times, strict=True)] for name, times in now.items()}
    SAMPLE.write_text(json.dumps({name: [float(f"{t:.4g}") for t in times] for name, times in now.items()}, indent=1))
    LOG.write_text(as_nccl_tests(2, SIZES, now["all_reduces"]))
