"""How fast :func:`simulate_job` draws many runs of a job at once, against the event-driven model of the tests.

``python bench/failures.py`` prints the time of each for 54 days of work on 16,384 GPUs, and how long both say
that the job takes.
"""

import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from clusterlab.failures import Job, expected_run_time, optimal_interval, simulate_job, system_mtbf
from clusterlab.units import day, fmt, hour, minute
from failures_witness import EventDrivenRun

RUNS, EVENT_DRIVEN = 5000, 20


def main() -> None:
    """Time both, and print the table."""
    work, mtbf = 54 * day, system_mtbf(50_000 * hour, 16384)
    interval = optimal_interval(60, mtbf)
    job = Job(interval=interval, write=60, mtbf=mtbf, detection=2 * minute, restart=5 * minute)
    simulate_job(work, job, runs=10)
    start = time.perf_counter()
    runs = simulate_job(work, job, runs=RUNS)
    ours = time.perf_counter() - start
    start = time.perf_counter()
    event_driven = [sum(EventDrivenRun(seed, work, job).parts.values()) for seed in range(EVENT_DRIVEN)]
    theirs = (time.perf_counter() - start) / EVENT_DRIVEN
    print("54 days of work on 16,384 GPUs of 50,000 h each, checkpoints at the exact optimum")
    rows = [
        (f"simulate_job, {RUNS:,} runs", fmt(ours, "s"), runs.total),
        (f"simpy, {RUNS:,} runs at {fmt(theirs, 's')} each", fmt(theirs * RUNS, "s"), event_driven),
    ]
    for name, seconds, times in rows:
        error = np.std(times, ddof=1) / len(times) ** 0.5
        print(f"{name:<36}{seconds:>10}   mean {np.mean(times) / day:.3f} d, standard error {error / day:.3f} d")
    print(f"{'exact law':<46}   mean {expected_run_time(work, job).total / day:.3f} d")
    print(f"{'ratio of the times':<36}{theirs * RUNS / ours:>10,.0f}")


if __name__ == "__main__":
    main()
