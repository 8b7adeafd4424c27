"""Failures: how often, what they cost, checkpoints, spares, and how much of the time is useful."""

from .checkpoints import (
    STORAGE_SHARE,
    Checkpoint,
    checkpoint,
    checkpoint_interval,
    checkpoint_size,
    daly_interval,
    optimal_interval,
    young_interval,
)
from .counts import (
    BURSTS,
    NODE_DISPERSION,
    Estimate,
    Lemons,
    TimeEstimate,
    expected_failures,
    implied_mttf,
    lemons,
    poisson_interval,
)
from .incidents import BY_HAND, LOSS_SCATTER, Burstiness, burstiness, posterior_loss, posterior_mttf
from .jobs import Budget, Goodput, Job, RunTime, expected_run_time, first_order_goodput, goodput, overhead_budget
from .rates import Series, failure_probability, infant_failures, series_mtbf, system_mtbf
from .simulation import Event, SimulatedRuns, simulate_job
from .spares import InRepair, SparePool, elastic_capacity, spare_pool, spares_for

__all__ = [
    "system_mtbf", "Series", "series_mtbf", "failure_probability", "infant_failures", "BURSTS", "NODE_DISPERSION",
    "Estimate", "TimeEstimate", "expected_failures", "poisson_interval", "implied_mttf", "Lemons", "lemons",
    "BY_HAND", "posterior_mttf", "Burstiness", "burstiness", "LOSS_SCATTER", "posterior_loss", "checkpoint_size",
    "Checkpoint", "checkpoint", "young_interval", "daly_interval", "optimal_interval", "Job", "first_order_goodput",
    "Goodput", "goodput", "RunTime", "expected_run_time", "Budget", "overhead_budget", "SparePool", "spare_pool",
    "InRepair", "spares_for", "elastic_capacity", "Event", "SimulatedRuns", "simulate_job", "STORAGE_SHARE",
    "checkpoint_interval",
]  # fmt: skip
