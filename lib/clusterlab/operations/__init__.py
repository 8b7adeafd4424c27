"""Operations: storage that feeds jobs, jobs that wait, the slowest of many, alarms, the bad machine, on call."""

from .jobs import Cluster, Jobs, draw_jobs
from .limits import Drain, drain, expected_wait
from .monitoring import (
    Detector,
    best_check_interval,
    best_timeout,
    find_bad,
    heartbeat,
    least_tests,
    pair_tests,
    result_checks,
    step_alarm,
)
from .on_call import BurnIn, Rollout, accepted, best_burn_in, burn_in, flaps_to_swap, k_of_n, rollout
from .replays import Replays, replay
from .schedules import CAUSES, Attempt, Schedule, Use, compare_policies
from .signals import SIGNALS, URGENCIES, Signal
from .simulation import simulate_cluster
from .storage import (
    Feeding,
    FileSystem,
    cache_hits,
    fair_shares,
    feed,
    file_system,
    reading_rate,
    servers_needed,
    time_to_starve,
)
from .stragglers import any_slow, repetitions, slowest

__all__ = [
    "reading_rate", "cache_hits", "FileSystem", "file_system", "servers_needed", "fair_shares", "time_to_starve",
    "Feeding", "feed", "Cluster", "Jobs", "draw_jobs", "Attempt", "CAUSES", "Use", "Schedule", "simulate_cluster",
    "compare_policies", "Replays", "replay", "expected_wait", "Drain", "drain", "slowest", "any_slow", "repetitions",
    "Detector", "heartbeat", "best_timeout", "step_alarm", "result_checks", "best_check_interval", "least_tests",
    "pair_tests", "find_bad", "Signal", "SIGNALS", "URGENCIES", "BurnIn", "burn_in", "best_burn_in", "accepted",
    "Rollout", "rollout", "k_of_n", "flaps_to_swap",
]  # fmt: skip
