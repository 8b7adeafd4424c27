"""Models: a decoder as a list of blocks, its layout over accelerators, and what follows from its shape alone."""

from .blocks import TILE, Block, Columns, Embedding, Gemm, HyperConnection, MultiToken, Output, Rank, Routing, Traffic
from .counts import (
    ForwardFlops,
    ParameterCount,
    TrainingFlops,
    alternate_share,
    forward_flops,
    kv_bytes_per_token,
    kv_cache_bytes,
    parameters,
    state_bytes,
    training_flops,
)
from .feed_forwards import Experts, FeedForward
from .layout import PRECISIONS, RECOMPUTE, Layout, Violations, Workload, block_violations, precision_of
from .mixers import (
    Attention,
    CompressedAttention,
    GatedDeltaNet,
    LatentAttention,
    Mamba2,
    Recurrent,
    SlidingWindow,
    SparseAttention,
    SparseLatentAttention,
)
from .published import Entry, Published, entry, match_model, normalize_name, transformer, transformers
from .shape import Stack, Transformer, trained

__all__ = [
    "Transformer", "Stack", "transformer", "transformers", "Block", "Attention", "LatentAttention", "SlidingWindow",
    "FeedForward", "Experts", "Recurrent", "Mamba2", "GatedDeltaNet",
    "MultiToken", "HyperConnection", "Embedding", "Output",
    "ParameterCount", "parameters", "ForwardFlops", "forward_flops", "TrainingFlops", "training_flops", "trained",
    "alternate_share", "kv_bytes_per_token", "kv_cache_bytes", "state_bytes", "Workload", "Layout", "Violations",
    "block_violations", "PRECISIONS", "RECOMPUTE", "Rank", "Gemm", "Traffic", "Routing", "Columns", "TILE", "Entry",
    "Published", "entry", "match_model", "normalize_name", "SparseLatentAttention", "SparseAttention",
    "CompressedAttention", "precision_of",
]  # fmt: skip
