"""Post-training: answers that are generated, scored and learned from; the longest, the pools, weights that travel."""

from .lengths import Lengths, expected_longest
from .loop import PACE, SCHEDULES, TURNS, Iteration, Loop, forward_time, iterate
from .pools import PoolBalance, ScheduleTimes, answers_in_flight, balance_pools, schedule_times, versions_behind
from .rollouts import Emptying, Rollout, empty_batch, emptying_time, rollout
from .weights import LOADING_RATE, WeightRoutes, adapter_parameters, weight_routes

__all__ = [
    "Lengths", "expected_longest", "Emptying", "empty_batch", "emptying_time", "Rollout", "rollout", "SCHEDULES",
    "Loop", "Iteration", "forward_time", "iterate", "PoolBalance", "balance_pools", "ScheduleTimes", "schedule_times",
    "versions_behind", "answers_in_flight", "PACE", "TURNS", "WeightRoutes", "weight_routes", "LOADING_RATE",
    "adapter_parameters",
]  # fmt: skip
