"""Work: the seconds in which a rank computes, block by block, on all stages together."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

from ..catalogue import Software
from ..checks import pick, smaller, some, total
from ..model import ForwardFlops, Layout, Output, Rank, Transformer, Workload, alternate_share, forward_flops
from ..quantities import Bytes, Flops, Number, Seconds
from ..roofline import kernel_time
from .rates import Rates

# Times are seconds. Everything broadcasts over layouts. Laws are called unchecked: the layouts were checked once.


class Job(NamedTuple):
    """A workload under a layout, in numbers that one takes a part of; kinds of recomputation are 1 or 0."""

    sequence: Number
    global_batch: Number
    tp: Number
    pp: Number
    dp: Number
    cp: Number
    ep: Number
    chunks: Number
    zero: Number
    expert_tp: Number  # ranks that split an expert
    sharding_ranks: Number
    full: Number
    selective: Number
    alternate: Number
    sequence_parallel: Number
    microbatches: Number  # of a step on each replica
    tokens: Number  # of a microbatch on a rank

    @classmethod
    def of(cls, workload: Workload, layout: Layout) -> Job:
        """Return the job of a workload under a layout."""
        work = workload.sequence, workload.global_batch
        axes = layout.tp, layout.pp, layout.dp, layout.cp, layout.ep, layout.chunks, layout.zero
        groups = layout.expert_tp, layout.sharding_ranks
        full, selective, alternate = layout.full_recompute, layout.selective_recompute, layout.alternate_recompute
        kinds = 1.0 * full, 1.0 * selective, 1.0 * alternate, layout.sequence_parallel
        tokens = layout.microbatch * workload.sequence / layout.cp
        return cls(*work, *axes, *groups, *kinds, layout.microbatches(workload), tokens)

    def rank(self, software: Software, operand_bytes: float) -> Rank:
        """Return a rank of it, as blocks are asked for."""
        split = self.tp, self.ep, self.expert_tp
        return Rank(*split, self.tokens, self.sequence, self.sequence_parallel, operand_bytes, software)


class PassTime(NamedTuple):
    """Seconds of one direction through all layers: GEMMs, attention, and what only moves memory."""

    gemms: Seconds
    attention: Seconds
    memory: Seconds

    @property
    def time(self) -> Seconds:
        """Seconds of all three."""
        return self.gemms + self.attention + self.memory


class Compute(NamedTuple):
    """Seconds of the layers for one microbatch, on all stages together."""

    forward: PassTime
    backward: PassTime
    recompute_time: Seconds
    wanted: ForwardFlops  # of a token
    recomputed_flops: Flops
    gradient_bytes: Bytes  # of a weight, that its GEMM writes, and reads to add

    @property
    def time(self) -> Seconds:
        """Seconds without recomputation."""
        return self.forward.time + self.backward.time


class Weights(NamedTuple):
    """Weights of all layers on a rank: those that each of its tokens meets, and those of its routed experts."""

    dense: Number
    routed: Number


def rank_weights(model: Transformer, rank: Rank) -> Weights:
    """Return the weights of a rank, as if it were the only stage."""
    dense, routed = 0.0, 0.0
    for count, block in model.counted:
        dense = dense + count * block.on_rank(model, rank.tp)
    for count, routing in model.routings:
        routed = routed + count * (routing.experts / rank.ep * routing.weights / rank.expert_tp)
    return Weights(dense, routed)


class _Products(NamedTuple):
    """Seconds of all GEMMs, forward and backward, their FLOPs, and those of each layer's last one."""

    forward: Seconds
    backward: Seconds
    flops: Flops
    last: Flops


def compute_time(model: Transformer, rates: Rates, software: Software, job: Job, rank: Rank) -> Compute:
    """Return the seconds in which a rank computes for one microbatch, and what it computes again."""
    # Weight gradients are written (ZeRO 3) or added to a sum of all microbatches: read and written in its precision.
    sharded, size = job.zero >= 3, software.gradient_bytes
    if software.fused_gradient_accumulation:
        gradient_bytes, alone = pick(sharded, 2.0, 2 * size), pick(sharded, 2 + 3 * size, 0.0)
    else:  # ... by a kernel of its own; ZeRO 3 casts and scales the gradients of every microbatch
        gradient_bytes, alone = 2.0, pick(sharded, 2 + 3 * size, 2 + 2 * size)
    products = _products(model, rates, rank, gradient_bytes)
    token = _token(model, job.sequence, software.fused_attention)
    mixed_forward, mixed_backward, softmax_forward, softmax_backward = _mixing(rates, software, job, token)
    moved_forward, moved_backward = _memory_traffic(model, rates, software, rank)
    moved_forward = moved_forward + softmax_forward
    if some(alone > 0):
        moved_backward = moved_backward + alone * total(rank_weights(model, rank)) / rates.memory
    moved_backward = moved_backward + softmax_backward

    last = products.last / products.flops if software.skip_last_gemm_in_recompute else 0.0
    again = (1 - last) * products.forward + mixed_forward + moved_forward
    recompute_time = job.full * again + job.selective * (mixed_forward + softmax_forward)
    wanted = token.wanted
    recomputed_flops = job.selective * wanted.scores
    if some(job.alternate):
        share = alternate_share(model)
        recompute_time = recompute_time + job.alternate * (share * products.forward + moved_forward)
        recomputed_flops = recomputed_flops + job.alternate * share * (wanted.layers - wanted.scores)
    flops_again = wanted.layers - last * (wanted.layers - wanted.scores)
    return Compute(
        forward=PassTime(products.forward, mixed_forward, moved_forward),
        backward=PassTime(products.backward, mixed_backward, moved_backward),
        recompute_time=recompute_time,
        wanted=wanted,
        recomputed_flops=job.full * flops_again + recomputed_flops,
        gradient_bytes=gradient_bytes,
    )


class _Token(NamedTuple):
    """What a token of a sequence costs in the forward pass, under any layout."""

    wanted: ForwardFlops
    scores: Flops  # that the attention kernel computes: a fused one skips what the causal mask hides
    score_elements: Number  # that go to memory
    scans: tuple[tuple[Number, Flops, Number], ...]  # for each kind that scans: layers, FLOPs, elements


def _token(model: Transformer, sequence: Number, fused: bool) -> _Token:
    """Count a token; the last few models and lengths are remembered, for they hang on no layout."""
    return (_remembered_token if type(sequence) is float else _count_token)(model, sequence, fused)


def _count_token(model: Transformer, sequence: Number, fused: bool) -> _Token:
    wanted = forward_flops.unchecked(model, sequence)
    if model.mtp_depth:
        wanted = replace(wanted, logits=wanted.logits * (1 + model.mtp_depth))
    scores = elements = 0.0
    for count, block in model.counted:
        scores = scores + count * block.scores(model, sequence, causal=fused)
        if not fused:
            elements = elements + count * block.score_elements(model, sequence)
    scans = tuple((count, *block.scan(model)) for count, block in model.counted if block.scan(model)[0])
    return _Token(wanted, scores, elements, scans)


_remembered_token = lru_cache(maxsize=64)(_count_token)


def _products(model: Transformer, rates: Rates, rank: Rank, gradient_bytes: Bytes) -> _Products:
    forward = backward = total = last = 0.0
    for stack in model.stacks:
        time = rates.kernel_time_16 if stack.sixteen_bits else rates.kernel_time
        operand_bytes = 2.0 if stack.sixteen_bits else rates.operand_bytes
        flops = stored = passed = skipped = 0.0
        for block in stack.blocks:
            for gemm in block.gemms(model, rank):
                flops = flops + 2 * gemm.rows * gemm.met
                stored = stored + gemm.weights
                passed = passed + gemm.rows * gemm.io
            skipped = skipped + block.last_gemm(model, rank)
        passed = passed * (1 + operand_bytes / 2)
        backward_bytes = (operand_bytes + gradient_bytes) * stored + 2 * passed
        forward = forward + stack.count * time(flops, operand_bytes * stored + passed)
        backward = backward + stack.count * time(2 * flops, backward_bytes)
        total = total + stack.count * flops
        last = last + stack.count * skipped
    return _Products(forward, backward, total, last)


def _mixing(rates: Rates, software: Software, job: Job, token: _Token) -> tuple[Seconds, Seconds, Seconds, Seconds]:
    """Seconds in which tokens are mixed, forward and backward, and of a softmax whose scores go to memory."""
    scans = 0.0
    for count, *scan in token.scans:
        scans = scans + scan_time(rates, count * job.tokens / job.tp, *scan)
    scores = token.scores * job.tokens / job.tp
    if software.attention is not None:
        both = 3.5 * scores / smaller(software.attention * rates.attention, rates.attention_most)
        # Backward five GEMMs, not two: scores are made again.
        forward = both / (1 + 2.5 / software.attention_backward)
        return forward + scans, both - forward + 2.5 * scans, 0.0, 0.0
    elements = token.score_elements * job.tokens / job.tp
    loss = rates.overlap_loss
    forward = kernel_time.unchecked(scores, 4 * elements, peak=rates.gemm_16, bandwidth=rates.memory, overlap_loss=loss)
    one, dropout = elements / rates.memory, software.dropout
    softmax = (4 + 5 * dropout) * one, (6 + 5 * dropout) * one
    return forward + scans, 2 * forward + 2.5 * scans, *softmax


def scan_time(rates: Rates, tokens: Number, flops: Flops, elements: Number) -> Seconds:
    """Return the seconds of scans over so many tokens, forward; backward they take 2.5 times as long."""
    rate = smaller(rates.attention, rates.attention_most)
    moved, loss = 2 * tokens * elements, rates.overlap_loss
    return kernel_time.unchecked(tokens * flops, moved, peak=rate, bandwidth=rates.memory, overlap_loss=loss)


def _memory_traffic(model: Transformer, rates: Rates, software: Software, rank: Rank) -> tuple[Seconds, Seconds]:
    """Seconds, forward and backward, of what only moves memory."""
    forward = backward = launches = 0.0
    for count, block in model.counted:
        moved = block.traffic(model, rank)
        forward = forward + count * moved.forward
        backward = backward + count * moved.backward
        launches = launches + count * moved.launches
    cast_time = launches * (software.expert_cast_time or 0.0)
    return forward / rates.memory + cast_time, backward / rates.memory + cast_time


class Ends(NamedTuple):
    """Seconds of the ends of the model for one microbatch: output layer, its loss, embedding."""

    output: Seconds
    loss: Seconds
    embedding: Seconds


def ends_time(model: Transformer, rates: Rates, rank: Rank, gradient_bytes: Bytes) -> Ends:
    """Return the seconds of both ends, forward and backward; each depth of multi-token prediction has an output."""
    gemm, passes = Output().gemm(model, rank), 1 + model.mtp_depth
    passed = gemm.rows * gemm.io
    output = rates.kernel_time_16(2 * gemm.rows * gemm.met, 2 * (gemm.weights + passed))
    backward_bytes = (2 + gradient_bytes) * gemm.weights + 4 * passed
    output = output + rates.kernel_time_16(4 * gemm.rows * gemm.met, backward_bytes)
    loss = 20 * rank.tokens * model.vocab / rank.tp / rates.memory  # 20 B a logit
    return Ends(passes * output, passes * loss, 6 * rank.tokens * model.hidden / rates.memory)
