"""Software: what a training stack does at the same time and keeps in memory, and what a serving stack reaches."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from ..checks import fraction, nonnegative, positive, whole
from .sources import Sourced


@dataclass(frozen=True, repr=False)
class Software(Sourced):
    """What training software of an era does at once, what one after the other, and what it keeps in memory.

    ``gemm``: rate of its GEMMs, in multiples of Megatron-LM's. ``attention``: rate of the kernel that keeps the scores
    on the chip, both ways together, in multiples of FlashAttention-2's (:class:`Efficiency`); ``None``: they go to
    memory. ``attention_backward``: rate of that kernel backward, in multiples of its rate forward.
    ``row_wise_gemm``: rate of 8-bit GEMMs with a scale for each row, in multiples of those with one for each tensor.
    ``tensor_overlap_forward``, ``tensor_overlap_backward``: whether tensor-parallel collectives hide behind GEMMs.
    ``stage_overlap``: whether transfers between stages hide behind other microbatches where stages are interleaved.
    ``dual_pipe``: whether microbatches go through the pipeline both ways at once, one forward while another goes
    backward (:func:`~clusterlab.parallelism.dualpipe_bubble`).
    ``data_overlap``: whether gradients travel during the last backward pass and weights during the first forward pass.
    ``fused_gradient_accumulation``: whether a GEMM adds its weight gradient to the sum, without a kernel for that
    alone. ``skip_last_gemm_in_recompute``: whether recomputation leaves out a layer's last GEMM, whose output nothing
    needs. ``context_overlap``: whether keys and values travel while attention works (ring attention), or before it.
    ``zero3_gather_rate``: bytes/s at which ZeRO 3 puts parameters together; ``None``: as fast as the wire.
    ``contention_scale_up``, ``contention_network``: seconds by which a hidden second of a collective slows what hides
    it. ``expert_cast_time``: seconds that a cast of one expert's rows costs besides its work, where every expert has
    kernels of its own; ``None``: one kernel multiplies for all experts of a rank, with activation and casts.
    ``expert_overlap``: whether all-to-alls hide behind the work of another microbatch. ``tokens_cross_once``: whether a
    token goes to a node once, or once for each of its experts there. ``fused_expert_bias``: whether the biases of
    experts are added where their products are made, or by kernels of their own. ``lean_activations``: whether GEMMs
    keep their inputs in the precision that they multiply, and routers weigh what goes into an expert's last GEMM, so
    that its output need not be kept; else both are kept as activations. ``gathers_matrices``: whether sharded weights
    of dense layers are put together matrix by matrix, and not layer by layer. The rest are bytes: of a parameter's
    weight, gradient and optimizer state, of an element of an activation, and of a logit.
    """

    gemm: float
    attention: float | None
    attention_backward: float
    row_wise_gemm: float
    dropout: bool
    tensor_overlap_forward: bool
    tensor_overlap_backward: bool
    stage_overlap: bool
    dual_pipe: bool
    data_overlap: bool
    fused_gradient_accumulation: bool
    skip_last_gemm_in_recompute: bool
    context_overlap: bool
    zero3_gather_rate: float | None
    contention_scale_up: float
    contention_network: float
    expert_cast_time: float | None
    expert_overlap: bool
    tokens_cross_once: bool
    fused_expert_bias: bool
    lean_activations: bool
    gathers_matrices: bool
    weight_bytes: float
    gradient_bytes: float
    optimizer_bytes: float
    activation_bytes: float
    logit_bytes: float

    def __post_init__(self) -> None:
        """Refuse switches that are none, and rates and bytes below zero."""
        positive(gemm=self.gemm)
        positive(attention_backward=self.attention_backward)
        fraction(row_wise_gemm=self.row_wise_gemm)
        if self.attention is not None:
            positive(attention=self.attention)
        for name in _SWITCHES:
            if not isinstance(getattr(self, name), bool):
                raise ValueError(f"{name} must be True or False, got {getattr(self, name)!r}")
        if self.zero3_gather_rate is not None:
            positive(zero3_gather_rate=self.zero3_gather_rate)
        if self.expert_cast_time is not None:
            nonnegative(expert_cast_time=self.expert_cast_time)
        for name in ("contention_scale_up", "contention_network"):
            (share,) = nonnegative(**{name: getattr(self, name)})
            if np.any(share > 1):
                raise ValueError(f"{name} must be at most 1, got {np.max(share):g}")
        nonnegative(**{f.name: getattr(self, f.name) for f in fields(self) if f.name.endswith("_bytes")})

    @property
    def fused_attention(self) -> bool:
        """Whether the attention kernel keeps the scores on the chip."""
        return self.attention is not None


@dataclass(frozen=True, repr=False)
class ServingSoftware(Sourced):
    """What serving software reaches and costs.

    ``gemm``: rate of its GEMMs in multiples of what a training step reaches (:class:`Efficiency`); ``grouped_gemm``:
    rate of the experts' grouped GEMMs, computing and reading, in multiples of the others'. ``memory``: share of
    the HBM bandwidth at which weights and caches are read. ``attention``: share of the 16-bit peak in the products of
    attention. ``overlap_loss``: of a kernel's shorter part (computing or reading), the share that the longer does not
    hide. ``layer_time``: seconds that a layer costs besides (launches, small kernels). ``pass_time`` and
    ``sequence_time``: seconds of the host for a pass and for each sequence in it; ``host_overlap``: whether it prepares
    a pass while the GPU works on the last, where there is one stage. ``expert_skew``: standard deviation of the
    experts' popularity over its mean. ``contention``: seconds by which a hidden second of an exchange slows the work
    that hides it, where prompts are read. ``two_axes``: whether GEMMs are cut along both axes of their weights, the
    stream over all ranks of tp and caches by sequences besides heads (Pope et al. 2022). ``cache_share``: share of the
    memory left by weights and activations that caches get. ``max_sequences`` and ``max_tokens``: most sequences of a
    batch, and most tokens of a pass, on one attention rank.
    """

    gemm: float
    grouped_gemm: float
    memory: float
    attention: float
    overlap_loss: float
    pass_time: float
    layer_time: float
    sequence_time: float
    host_overlap: bool
    expert_skew: float
    contention: float
    two_axes: bool
    cache_share: float
    max_sequences: float
    max_tokens: float

    def __post_init__(self) -> None:
        """Refuse what is no share, no time and no count."""
        positive(gemm=self.gemm, grouped_gemm=self.grouped_gemm)
        for name in ("host_overlap", "two_axes"):
            if not isinstance(getattr(self, name), bool):
                raise ValueError(f"{name} must be True or False, got {getattr(self, name)!r}")
        fraction(memory=self.memory, attention=self.attention, cache_share=self.cache_share)
        times = {name: getattr(self, name) for name in ("pass_time", "layer_time", "sequence_time", "expert_skew")}
        nonnegative(**times)
        for name in ("overlap_loss", "contention"):
            (share,) = nonnegative(**{name: getattr(self, name)})
            if np.any(share > 1):
                raise ValueError(f"{name} must be at most 1, got {np.max(share):g}")
        whole(max_sequences=self.max_sequences, max_tokens=self.max_tokens)


_SWITCHES = tuple(f.name for f in fields(Software) if f.type == "bool")
