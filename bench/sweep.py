"""How a sweep scales: rows a second in this process, in two processes, and on a local Dask cluster of two workers.

``python bench/sweep.py`` plans the same atlas each way, checks that the results are the same to the last digit, and
prints rows a second and the efficiency: the speed over that of this process, for each worker. Starting processes or a
cluster is counted apart, as a large sweep does it once. Where others use the machine too, look at the processor's time:
what all processes worked, start and end included, is what an executor adds. Dask is timed where it is installed.
"""

import os

os.environ["OMP_NUM_THREADS"] = "1"

import resource
import time
from collections.abc import Callable
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import ExitStack

from clusterlab.planning import Atlas, sweep
from clusterlab.units import fmt

WORKERS = 2
RUNS = [{"model": name, "tokens": 15e12} for name in ("Llama 3.1 8B", "Llama 3.1 70B", "Llama 3.1 405B", "DeepSeek-V3")]
CHIPS = ["H100 SXM", "B200", "GB200"]
SIZES = [2**k for k in range(8, 16)]  # 256 to 32,768


def processes(stack: ExitStack) -> Executor:
    """Processes of this machine, already started."""
    pool = stack.enter_context(ProcessPoolExecutor(WORKERS))
    list(pool.map(time.sleep, [0.2] * WORKERS))
    return pool


def dask(stack: ExitStack) -> Executor:
    """A local Dask cluster of one-threaded workers, each a process."""
    from distributed import Client, LocalCluster

    local = {"n_workers": WORKERS, "threads_per_worker": 1, "dashboard_address": None}
    client = stack.enter_context(Client(stack.enter_context(LocalCluster(**local))))
    return stack.enter_context(client.get_executor())


def worked() -> float:
    """Seconds that the processor worked for this process and for those that it started and ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def timed(start: Callable[[ExitStack], Executor] | None) -> tuple[float, float, Atlas]:
    """Seconds to start, seconds of the sweep, and what it found."""
    with ExitStack() as stack:
        before = time.perf_counter()
        executor = start(stack) if start else None
        sweep(RUNS[:1], CHIPS[:1], SIZES[:2] * WORKERS, draws=10, executor=executor)  # every worker imports the library
        ready = time.perf_counter()
        atlas = sweep(RUNS, CHIPS, SIZES, executor=executor)
        return ready - before, time.perf_counter() - ready, atlas


def main() -> None:
    """Time each way and print the table."""
    ways: dict[str, tuple[int, Callable[[ExitStack], Executor] | None]] = {
        "this process": (1, None),
        f"{WORKERS} processes": (WORKERS, processes),
        f"Dask, {WORKERS} workers": (WORKERS, dask),
    }
    print(f"{len(RUNS) * len(CHIPS) * len(SIZES)} plans, 200 draws each; {os.cpu_count()} cores here")
    print(f"{'':<18}{'start':>10}{'sweep':>10}{'rows/s':>10}{'efficiency':>12}{'processor':>12}")
    one, first = 0.0, None
    for name, (workers, start) in ways.items():
        before = worked()
        try:
            starting, seconds, atlas = timed(start)
        except ImportError:
            print(f"{name:<18}  not installed: .venv/bin/pip install distributed")
            continue
        first = first or atlas
        if repr(atlas.cells) != repr(first.cells):  # NaN is not itself
            raise SystemExit(f"{name}: not the same atlas")
        rate = len(atlas.cells) / seconds
        one = one or rate
        share = f"{rate / one / workers:.0%}"
        times = [
            fmt(starting, "s"),
            fmt(seconds, "s"),
            f"{rate:.1f}",
            f"{share:>12}",
            f"{fmt(worked() - before, 's'):>12}",
        ]
        print(f"{name:<18}" + "".join(f"{text:>10}" for text in times), flush=True)


if __name__ == "__main__":
    main()
