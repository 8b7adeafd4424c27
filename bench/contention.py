"""How fast :func:`max_min_rates` shares a fabric out, against a witness that goes link by link and event by event.

``python bench/contention.py`` prints the time of each on 1,024 hosts, and how it grows with the flows.
"""

import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from clusterlab.contention import Routes, clos, finish_times, hashed, max_min_rates
from clusterlab.units import fmt
from contention_witness import as_mappings, fill, run

FABRIC = clos(32, 32, 32, bandwidth=50e9)


def clocked(work, times=3):
    """Seconds of the processor for the fastest of so many tries, and what the work returns."""
    best = np.inf
    for _ in range(times):
        start = time.process_time()
        found = work()
        best = min(best, time.process_time() - start)
    return best, found


def ends(flows, seed=0):
    """Random sources and targets."""
    rng = np.random.default_rng(seed)
    source = rng.integers(0, FABRIC.hosts, flows)
    return source, (source + rng.integers(1, FABRIC.hosts, flows)) % FABRIC.hosts


def main() -> None:
    """Time all of them, and print the table."""
    print(f"{FABRIC.hosts:,} hosts, {len(FABRIC.capacity):,} links; seconds of one processor")
    for flows in (100, 1000, 10_000, 100_000):
        routes = hashed(FABRIC, *ends(flows))
        ours, rates = clocked(lambda routes=routes: max_min_rates(FABRIC.capacity, routes))
        line = f"{flows:>8,} flows{'rates, links at once':>32}{fmt(ours, 's'):>10}"
        if flows <= 1000:
            one = as_mappings(routes)
            theirs, found = clocked(lambda one=one: fill(FABRIC.capacity, one, [1.0] * len(one)), 1)
            apart = np.max(np.abs(rates / found - 1))
            line += f"{'link by link':>20}{fmt(theirs, 's'):>10}{theirs / ours:>8,.0f}   {apart:.0e} apart"
        print(line)
    source, target = ends(1000)
    ours, _ = clocked(lambda: max_min_rates(FABRIC.capacity, hashed(FABRIC, source, target, draws=1000)), 1)
    print(f"{'1,000':>8} flows{'drawn and shared 1,000 times':>32}{fmt(ours, 's'):>10}")
    for draws, flows in ((1, 100), (100, 100)):
        source, target = ends(flows)
        routes, size = hashed(FABRIC, source, target, draws=draws), np.arange(1, flows + 1) * 1e9
        ours, found = clocked(lambda routes=routes, size=size: finish_times(FABRIC.capacity, routes, size))
        one = as_mappings(Routes(routes.links[0]))
        numbers = size, [0.0] * flows, [1.0] * flows
        theirs, other = clocked(lambda one=one, numbers=numbers: run(FABRIC.capacity, one, *numbers), 1)
        apart = np.max(np.abs(found[0] / other - 1))
        print(
            f"{flows:>8,} flows{f'to their ends, {draws} draws':>32}{fmt(ours, 's'):>10}{'event by event':>20}"
            f"{fmt(theirs * draws, 's'):>10}{theirs * draws / ours:>8,.0f}   {apart:.0e} apart"
        )


if __name__ == "__main__":
    main()
