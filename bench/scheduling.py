"""How fast :func:`replay` plays many draws of a cluster's jobs at once, against one after the other.

``python bench/scheduling.py`` prints the time of a draw of 400 jobs on 256 GPUs at a load of 90 %: many at once, event
by event on one node, and in simpy.
"""

import sys
import time
from pathlib import Path

sys.path.extend(str(Path(__file__).parents[1] / room) for room in ("book", "tests", "tests/operations"))

from drawings.operations import MIXES
from test_scheduling import by_witness

from clusterlab.operations import Cluster, draw_jobs, replay, simulate_cluster
from clusterlab.units import fmt

RUNS, ONE_BY_ONE, IN_SIMPY = 400, 20, 2


def clocked(work, times):
    """Seconds of each of so many pieces of work."""
    start = time.perf_counter()
    work()
    return (time.perf_counter() - start) / times


def main() -> None:
    """Time all three for both policies, and print the table."""
    draws = [draw_jobs(MIXES["large jobs"], gpus=256, load=0.9, jobs=400, seed=seed) for seed in range(RUNS)]
    node, how = Cluster(1, node_size=256, rack=1), {"placement": "anywhere"}
    print("400 jobs on 256 GPUs at a load of 90 %: seconds of a draw")
    for policy in ("fcfs", "conservative"):
        ours = clocked(lambda policy=policy: replay(draws, 256, policy=policy), RUNS)
        events = clocked(
            lambda policy=policy: [simulate_cluster(jobs, node, policy=policy, **how) for jobs in draws[:ONE_BY_ONE]],
            ONE_BY_ONE,
        )
        simpy = clocked(
            lambda policy=policy: [by_witness(jobs, node, policy=policy, **how) for jobs in draws[:IN_SIMPY]], IN_SIMPY
        )
        for name, each in {f"replay, {RUNS} at once": ours, "simulate, event by event": events, "simpy": simpy}.items():
            print(f"{policy:<14}{name:<26}{fmt(each, 's'):>10}{each / ours:>10,.0f}")


if __name__ == "__main__":
    main()
