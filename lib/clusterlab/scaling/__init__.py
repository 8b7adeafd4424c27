"""Scaling and cost: what more accelerators bring, what they cost, and what a unit of work costs."""

from .bills import (
    Bill,
    annuity,
    bill,
    break_even_revenue,
    break_even_utilisation,
    capital,
    cost_per,
    waiting_bill,
    yearly_bill,
)
from .generations import economic_life, required_rent
from .ledger import Allocation, Ledger, compute_ledger, compute_optimal, lifetime_optimal, loss
from .outages import Redundancy, outage_bill, redundancy
from .speedup import (
    BatchCost,
    Chain,
    StrongScaling,
    TrainingRun,
    amdahl_speedup,
    batch_cost,
    chain,
    critical_batch,
    geometric_efficiency,
    gpus_needed,
    gustafson_speedup,
    kept_per_doubling,
    logarithmic_efficiency,
    marginal_return,
    most_useful_size,
    strong_scaling,
    training_run,
)

__all__ = [
    "amdahl_speedup", "gustafson_speedup", "StrongScaling", "strong_scaling", "logarithmic_efficiency",
    "geometric_efficiency", "kept_per_doubling", "marginal_return", "most_useful_size", "Chain", "chain",
    "critical_batch", "BatchCost", "batch_cost", "TrainingRun", "training_run", "gpus_needed", "Bill", "bill",
    "capital", "annuity", "yearly_bill", "cost_per", "break_even_utilisation", "break_even_revenue", "waiting_bill",
    "economic_life", "required_rent", "outage_bill", "Redundancy", "redundancy", "Ledger", "compute_ledger", "loss",
    "Allocation", "compute_optimal", "lifetime_optimal",
]  # fmt: skip
