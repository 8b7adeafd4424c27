"""Serving: passes of a replica, users and queues, the frontier of speed and yield, the price of a token."""

from .batches import Service, continuous_batch, saturation, static_batch
from .caches import Footprint, Reuse, footprint, largest_batch, reuse
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
from .passes import PARTS, Pass, forward_pass, kind
from .queueing import Impatient, Queue, Run, batch_queue, goodput, impatient_queue, little_law, network_time, simulate
from .replica import Batch, Formats, Replica, Requests, faults
from .routing import balanced_loads, fullest_rank

__all__ = [
    "Formats", "Requests", "Batch", "Replica", "faults", "Pass", "PARTS", "forward_pass", "kind", "fullest_rank",
    "balanced_loads", "Footprint", "footprint", "largest_batch", "Service", "static_batch", "continuous_batch",
    "saturation", "Frontier", "frontier", "Reuse", "reuse", "PipelinedDecode", "pipelined_decode", "accepted_tokens",
    "speculative_speedup", "Split", "disaggregate", "token_price", "little_law", "Queue", "batch_queue", "goodput",
    "Impatient", "impatient_queue", "Run", "simulate", "network_time",
]  # fmt: skip
