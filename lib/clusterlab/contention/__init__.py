"""Contention: flows that meet on the links of a fabric, and what that costs a collective and a job."""

from .congestion import EcnBalance, blocked_rates, buffer_time, ecn_balance, flapping_slowdown
from .fabric import NONE, Clos, Dragonfly, Fabric, TorusLinks, clos, dragonfly, torus_links
from .jobs import PeriodicJob, interleaved_period, most_from_shifting, shared_period, simulate_jobs
from .routing import busy_share, collision_chance, fullest_link, hashed, least_loaded, pinned, sprayed
from .sharing import Routes, drain_time, finish_times, joined, link_load, max_min_rates
from .traffic import (
    Exchange,
    Stage,
    all_to_all_traffic,
    exchange_time,
    hierarchical_traffic,
    ring_traffic,
    tree_traffic,
)

__all__ = [
    "collision_chance", "busy_share", "fullest_link", "Fabric", "NONE", "Clos", "clos", "Dragonfly", "dragonfly",
    "TorusLinks", "torus_links", "Routes", "joined", "link_load", "drain_time", "max_min_rates", "finish_times",
    "hashed", "pinned", "least_loaded", "sprayed", "Stage", "ring_traffic", "tree_traffic", "hierarchical_traffic",
    "all_to_all_traffic", "Exchange", "exchange_time", "shared_period", "interleaved_period", "most_from_shifting",
    "PeriodicJob", "simulate_jobs", "buffer_time", "EcnBalance", "ecn_balance", "blocked_rates", "flapping_slowdown",
]  # fmt: skip
