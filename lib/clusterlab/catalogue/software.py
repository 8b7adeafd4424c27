"""Software: what a training stack does at the same time and keeps in memory, and what a serving stack reaches."""

from __future__ import annotations

from dataclasses import dataclass

from ..quantities import Amount, Bytes, BytesPerSecond, Count, Number, PositiveShare, Seconds, Share
from .sources import Sourced


@dataclass(frozen=True, repr=False)
class Software(Sourced):
    """What training software of an era does at once, what one after the other, and what it keeps in memory."""

    #: Rate of its GEMMs, in multiples of Megatron-LM's.
    gemm: Number
    #: Rate of the kernel that keeps the scores on the chip, both ways together, in multiples of FlashAttention-2's
    #: (:class:`Efficiency`); ``None``: they go to memory.
    attention: Number | None
    #: Rate of that kernel backward, in multiples of its rate forward.
    attention_backward: Number
    #: Rate of 8-bit GEMMs with a scale for each row, in multiples of those with one for each tensor.
    row_wise_gemm: PositiveShare
    #: Whether activations are dropped out, which costs a pass over them, and a mask to keep.
    dropout: bool
    #: Whether tensor-parallel collectives hide behind GEMMs of the forward pass.
    tensor_overlap_forward: bool
    #: The same of the backward pass.
    tensor_overlap_backward: bool
    #: Whether transfers between stages hide behind other microbatches where stages are interleaved.
    stage_overlap: bool
    #: Whether microbatches go through the pipeline both ways at once, one forward while another goes backward
    #: (:func:`~clusterlab.parallelism.dualpipe_bubble`).
    dual_pipe: bool
    #: Whether gradients travel during the last backward pass and weights during the first forward pass.
    data_overlap: bool
    #: Whether a GEMM adds its weight gradient to the sum, without a kernel for that alone.
    fused_gradient_accumulation: bool
    #: Whether recomputation leaves out a layer's last GEMM, whose output nothing needs.
    skip_last_gemm_in_recompute: bool
    #: Whether keys and values travel while attention works (ring attention), or before it.
    context_overlap: bool
    #: Rate at which ZeRO 3 puts parameters together; ``None``: as fast as the wire.
    zero3_gather_rate: BytesPerSecond | None
    #: Seconds by which a hidden second of a collective inside a node slows what hides it.
    contention_scale_up: Share
    #: The same of a collective across the network.
    contention_network: Share
    #: What a cast of one expert's rows costs besides its work, where every expert has kernels of its own; ``None``: one
    #: kernel multiplies for all experts of a rank, with activation and casts.
    expert_cast_time: Seconds | None
    #: Whether all-to-alls hide behind the work of another microbatch.
    expert_overlap: bool
    #: Whether a token goes to a node once, or once for each of its experts there.
    tokens_cross_once: bool
    #: Whether the biases of experts are added where their products are made, or by kernels of their own.
    fused_expert_bias: bool
    #: Whether GEMMs keep their inputs in the precision that they multiply, and routers weigh what goes into an expert's
    #: last GEMM, so that its output need not be kept; else both are kept as activations.
    lean_activations: bool
    #: Whether sharded weights of dense layers are put together matrix by matrix, and not layer by layer.
    gathers_matrices: bool
    #: Of a parameter's weight.
    weight_bytes: Bytes
    #: Of a parameter's gradient.
    gradient_bytes: Bytes
    #: Of a parameter's optimizer state.
    optimizer_bytes: Bytes
    #: Of an element of an activation.
    activation_bytes: Bytes
    #: Of a logit where the loss is taken: all copies of it that stand at once.
    logit_bytes: Bytes
    #: The same where tensor-parallel ranks share the vocabulary.
    split_logit_bytes: Bytes
    #: Whether an empty gradient stays of each shape of a matrix, as wide as an activation, for all that have the shape.
    gradient_placeholders: bool
    #: Whether a peak is of one moment, either where the loss is taken or where the gradients of a layer's activations
    #: are most, as measured peaks say; else what is recomputed and the logits count together, and no such gradients.
    peak_of_a_moment: bool

    @property
    def fused_attention(self) -> bool:
        """Whether the attention kernel keeps the scores on the chip."""
        return self.attention is not None


@dataclass(frozen=True, repr=False)
class ServingSoftware(Sourced):
    """What serving software reaches and costs."""

    #: Rate of its GEMMs, in multiples of what a training step reaches (:class:`Efficiency`).
    gemm: Number
    #: Rate at which the experts' grouped GEMMs compute, in multiples of the others'; they read as fast.
    grouped_gemm: Number
    #: Rate of 8-bit GEMMs, in multiples of the others', on chips that scale blocks of 32 (those with a 4-bit peak):
    #: checkpoints in 8 bits mostly have a scale for each 128 weights, which kernels then multiply in by themselves.
    block_gemm: Number
    #: Share of the HBM bandwidth at which weights and caches are read.
    memory: PositiveShare
    #: Share of the 16-bit peak in the products of attention.
    attention: PositiveShare
    #: Of a kernel's shorter part (computing or reading), the share that the longer does not hide.
    overlap_loss: Share
    #: What the host takes for a pass.
    pass_time: Seconds
    #: What each kernel of a pass costs besides its work: to start, to fill the chip, to drain.
    kernel_time: Seconds
    #: What the host takes for each sequence of a pass.
    sequence_time: Seconds
    #: Whether the host prepares a pass while the GPU works on the last, where there is one stage.
    host_overlap: bool
    #: Standard deviation of the experts' popularity over its mean.
    expert_skew: Amount
    #: Seconds by which a hidden second of an exchange slows the work that hides it, where prompts are read.
    contention: Share
    #: Whether GEMMs are cut along both axes of their weights, the stream over all ranks of tp and caches by sequences
    #: besides heads (Pope et al. 2022).
    two_axes: bool
    #: What sending its next token to one more user takes, which no pass hides; a maximum without users has none.
    stream_time: Seconds
    #: Passes until a request's first token is with its user: scheduling, and tokens that are sent some at a time.
    first_passes: Amount
    #: Passes between two looks at what has come: who comes meanwhile waits for half of them.
    poll_interval: Number
    #: Passes that a prompt waits at most until every attention rank has one to read.
    balance_passes: Amount
    #: Of an element of the caches where a model is served in 8 or 4 bits and nobody says otherwise.
    cache_bytes: Bytes
    #: Share of drafted tokens that is accepted where prompts are drawn at random, as benchmarks draw them.
    random_acceptance: Share
    #: Whether all prompts that wait are read before anybody decodes further, or among the passes that decode.
    prompts_first: bool
    #: Share of the memory that weights, activations and caches get together.
    memory_share: PositiveShare
    #: Whether a sequence takes memory as it grows, or has it all from its start.
    grows: bool
    #: Most sequences of a batch, on one attention rank.
    max_sequences: Count
    #: Most tokens of a pass, on one attention rank.
    max_tokens: Count
