"""Drawings of parallelism: a layer in shards, and a model in pipelines, on servers and in memory.

``cuts`` says what each GPU holds and sends in each way to cut a layer, and ``shards`` draws it; ``pipelines`` draws
whole layouts: which GPUs exchange what, where their memory goes, who waits, and what hides behind work.
"""

from .cuts import GPUS, PHASES, WAYS, Move, Phase, Sizes, Way, kept_bytes, sent_bytes, sent_so_far
from .pipelines import (
    cluster,
    experts,
    hiding,
    idle_spans,
    key_value_ring,
    peers,
    pipeline_now,
    placement,
    rank_memory,
    shares,
)
from .shards import layer, overview

__all__ = [
    "GPUS",
    "PHASES",
    "WAYS",
    "Move",
    "Phase",
    "Sizes",
    "Way",
    "cluster",
    "experts",
    "hiding",
    "idle_spans",
    "kept_bytes",
    "key_value_ring",
    "layer",
    "overview",
    "peers",
    "pipeline_now",
    "placement",
    "rank_memory",
    "sent_bytes",
    "sent_so_far",
    "shares",
]
