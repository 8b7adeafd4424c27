"""Serving: passes of a replica, users and queues, the frontier of speed and yield, the price of a token."""

from .batches import NO_DRAFTS, Drafts, MixedPasses, Service, continuous_batch, mixed_passes, saturation, static_batch
from .caches import Prefixes, ReplicaFootprint, Reuse, Tier, largest_batch, prefix_hits, replica_footprint, reuse
from .days import Day, Scaled, cold_start, scale_over
from .decoding import (
    PipelinedDecode,
    Split,
    accepted_tokens,
    disaggregate,
    pipelined_decode,
    speculative_speedup,
    token_price,
)
from .frontiers import Frontier, frontier
from .online import MEASURES, Online, Pools, closed_loop, open_loop, split_loop
from .passes import PASS_PARTS, Pass, forward_pass, reading, serving_kind, split_reading
from .promises import Kept, Promise, pools_for, replicas_for
from .queueing import (
    Impatient,
    Queue,
    SimulatedRequests,
    batch_queue,
    impatient_queue,
    little_law,
    network_time,
    simulate_queue,
    slo_attainment,
)
from .replica import Batch, Formats, Replica, Requests, violations
from .routing import balanced_loads, fullest_rank

__all__ = [
    "Formats", "Requests", "Batch", "Replica", "violations", "Pass", "PASS_PARTS", "forward_pass", "reading",
    "split_reading",
    "serving_kind",
    "fullest_rank", "balanced_loads", "ReplicaFootprint", "replica_footprint", "largest_batch", "Service",
    "static_batch", "Online", "closed_loop", "open_loop", "Pools", "split_loop", "MEASURES", "MixedPasses", "Drafts",
    "NO_DRAFTS", "mixed_passes",
    "continuous_batch", "saturation", "Frontier", "frontier", "Reuse", "reuse", "Tier", "Prefixes", "prefix_hits",
    "PipelinedDecode", "pipelined_decode",
    "accepted_tokens", "speculative_speedup", "Split", "disaggregate", "token_price", "little_law", "Queue",
    "batch_queue", "slo_attainment", "Impatient", "impatient_queue", "SimulatedRequests", "simulate_queue",
    "network_time",
    "Promise", "Kept", "replicas_for", "pools_for", "Day", "cold_start", "Scaled", "scale_over",
]  # fmt: skip
