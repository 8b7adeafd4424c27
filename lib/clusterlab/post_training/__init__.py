"""Post-training: answers that are generated, scored and learned from; the longest, the pools, weights that travel."""

from .lengths import Lengths, expected_longest
from .loop import SCHEDULES, Iteration, Loop, forward_time, iterate
from .pools import PoolBalance, ScheduleTimes, answers_in_flight, balance_pools, schedule_times, versions_behind
from .rollouts import Emptying, PassLine, Rollout, empty_batch, emptying_time, pass_line, rollout
from .software import LOOP_CONSTANTS, LoopConstant
from .weights import WeightRoutes, adapter_parameters, weight_routes

__all__ = [
    "Lengths", "expected_longest", "Emptying", "empty_batch", "emptying_time", "PassLine", "pass_line", "Rollout",
    "rollout", "SCHEDULES", "Loop", "Iteration", "forward_time", "iterate", "PoolBalance", "balance_pools",
    "ScheduleTimes", "schedule_times", "versions_behind", "answers_in_flight", "LoopConstant", "LOOP_CONSTANTS",
    "WeightRoutes", "weight_routes", "adapter_parameters",
]  # fmt: skip
