"""Feed-forwards: blocks that look at each token alone, dense or as a mixture of experts."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from ..checks import pick
from ..quantities import Bytes, Flops, Number
from .blocks import TILE, Block, Columns, Gemm, Kept, Rank, Routing, Traffic

if TYPE_CHECKING:
    from .shape import Transformer


@dataclass(frozen=True)
class FeedForward(Block):
    r"""Two matrices and an activation between them, or three where one gates another.

    .. math:: (2 + g)\,h\,f \text{ weights}

    Source: Shazeer 2020 (GLU variants): a gated feed-forward has a third matrix.
    """

    feeds_forward: ClassVar[bool] = True
    steps: ClassVar[str] = "norm with the addition, GEMM in, activation, GEMM out"

    def middle(self, shape: Transformer) -> Number:
        """Return elements of a token between its matrices, on all ranks."""
        return shape.ffn

    def weights(self, shape: Transformer) -> tuple[Number, Number]:
        return (2 + shape.gated) * shape.hidden * shape.ffn, 0

    def counts(self, shape: Transformer) -> dict[str, Number]:
        return super().counts(shape) | {"feed_forward": sum(self.weights(shape))}

    def biases(self, shape: Transformer) -> Number:
        return (1 + shape.gated) * shape.ffn + shape.hidden

    def flops(self, shape: Transformer) -> dict[str, Flops]:
        return {"feed_forward": 2 * sum(self.weights(shape))}

    def gemms(self, shape: Transformer, rank: Rank) -> tuple[Gemm, ...]:
        met, io = self.on_rank(shape, rank.tp), 2 * shape.hidden + (2 + shape.gated) * shape.ffn / rank.tp
        return (Gemm(rank.tokens, met, met, io, io),)

    def last_gemm(self, shape: Transformer, rank: Rank) -> Flops:
        return 2 * rank.tokens * (shape.hidden * shape.ffn / rank.tp)

    def columns(self, shape: Transformer) -> Columns:
        return Columns(self.middle(shape), (2 + shape.gated) * self.middle(shape))

    def traffic(self, shape: Transformer, rank: Rank) -> Traffic:
        """Return those of every block; the activation, which reads its inputs and writes its output; and casts."""
        gates, moved = 1 + shape.gated, 2 * rank.tokens / rank.tp * self.middle(shape)
        forward, backward = (1 + gates) * moved, (2 * gates + 1) * moved
        if rank.operand_bytes < 2:
            forward, backward = forward + moved, backward + (1 + gates) * moved
        return super().traffic(shape, rank) + Traffic(forward, backward)

    def fused_elements(self, shape: Transformer) -> tuple[Number, Number]:
        return 4 * shape.hidden, (2 + shape.gated) * self.middle(shape)

    def activations(self, shape: Transformer, rank: Rank) -> dict[str, Bytes]:
        keeps = Kept(shape, rank)
        kept = keeps.stream_in + keeps.split_in * shape.ffn + keeps.split * (1 + shape.gated) * shape.ffn
        return super().activations(shape, rank) | {"feed_forward": kept}

    def half_activations(self, shape: Transformer, rank: Rank) -> Bytes:
        keeps = Kept(shape, rank)
        return keeps.stream + keeps.split * self.middle(shape)

    def gradients(self, shape: Transformer, rank: Rank) -> Bytes:
        """Return those of the gate and of what it gates: the product's comes in the place of the product."""
        return Kept(shape, rank).split * (1 + shape.gated) * self.middle(shape)

    def largest_matrix(self, shape: Transformer, tp: Number) -> Number:
        return shape.hidden * 1.0 * shape.ffn / tp


@dataclass(frozen=True)
class Experts(FeedForward):
    r"""A mixture of experts: a router, routed experts of which each token takes some, and shared ones.

    .. math:: E\,(2 + g)\,l\,f_e + E_s\,(2 + g)\,h\,f_e + h\,(E + 2\,l') \text{ weights}

    Routed experts work on :math:`l` elements of a token: on the stream's h, or on a latent projection of it, whose
    two matrices (:math:`l' = l`, else 0) stand with the router on every rank of tp.

    Source: Shazeer et al. 2017; DeepSeek-V2 2024, section 2.2 (shared experts); NVIDIA 2025 (Nemotron 3), LatentMoE.
    """

    steps: ClassVar[str] = (
        "norm with the addition, router, choice, tokens sorted, tokens gathered, grouped GEMM in, activation, "
        "grouped GEMM out, weighted sum"
    )

    def kernels(self, shape: Transformer) -> Number:
        """Return those of routed experts, two GEMMs and an activation of shared ones, and two of a latent space."""
        return super().kernels(shape) + 3 * (shape.shared_experts > 0) + 2 * (shape.expert_latent > 0)

    def middle(self, shape: Transformer) -> Number:
        return (shape.experts_per_token + shape.shared_experts) * shape.expert_ffn

    def expert_input(self, shape: Transformer) -> Number:
        """Return elements of a token that a routed expert works on."""
        latent = shape.expert_latent
        return shape.hidden if isinstance(latent, int) and not latent else pick(latent > 0, latent, shape.hidden)

    def expert_weights(self, shape: Transformer) -> Number:
        """Return the weights of one routed expert."""
        return (2 + shape.gated) * self.expert_input(shape) * shape.expert_ffn

    def weights(self, shape: Transformer) -> tuple[Number, Number]:
        """Return those of shared experts, and those of the router and of the projections to a latent and back."""
        shared = shape.shared_experts * (2 + shape.gated) * shape.hidden * shape.expert_ffn
        return shared, shape.hidden * (shape.experts + 2 * shape.expert_latent)

    def counts(self, shape: Transformer) -> dict[str, Number]:
        shared, router = self.weights(shape)
        expert, chosen = self.expert_weights(shape), shape.experts_per_token
        found = Block.counts(self, shape) | {"selected_experts": chosen * expert, "shared_experts": shared}
        return found | {"unselected_experts": (shape.experts - chosen) * expert, "router": router}

    def flops(self, shape: Transformer) -> dict[str, Flops]:
        shared, router = self.weights(shape)
        met = shape.experts_per_token * self.expert_weights(shape) + shared
        return {"feed_forward": 2 * met, "router": 2 * router}

    def rows(self, shape: Transformer, rank: Rank) -> Number:
        """Return rows that a rank's routed experts see, evenly spread."""
        return shape.experts_per_token * rank.tokens * rank.expert_tp / rank.tp

    def gemms(self, shape: Transformer, rank: Rank) -> tuple[Gemm, ...]:
        tp, gates, width = rank.tp, 1 + shape.gated, self.expert_input(shape)
        split, local = shape.expert_ffn / rank.expert_tp, shape.experts / rank.ep
        each = (1 + gates) * width * split
        padded = self.rows(shape, rank) + TILE / 2 * local  # each expert's last tile is half empty
        io = 2 * width + (1 + gates) * split
        of_shared = (1 + gates) * shape.expert_ffn / tp
        latent = 2 * (shape.hidden + width) if shape.expert_latent else 0
        met = self.on_rank(shape, tp)
        beside = (2 * shape.hidden + of_shared) * shape.shared_experts + latent
        fused = 2 * shape.hidden + of_shared * shape.shared_experts + latent
        return Gemm(padded, each, local * each, io, io, grouped=True), Gemm(rank.tokens, met, met, beside, fused)

    def last_gemm(self, shape: Transformer, rank: Rank) -> Flops:
        routed = self.rows(shape, rank) * (shape.expert_ffn / rank.expert_tp) * self.expert_input(shape)
        shared = rank.tokens * shape.shared_experts * shape.expert_ffn / rank.tp
        return 2 * (routed + shape.hidden * shared)

    def columns(self, shape: Transformer) -> Columns:
        wide = shape.experts_per_token * shape.expert_ffn
        return Columns(wide, (2 + shape.gated) * wide)

    def routing(self, shape: Transformer) -> Routing:
        return Routing(
            experts=shape.experts,
            per_token=shape.experts_per_token,
            node_limit=1.0 * shape.node_limit or math.inf,
            width=self.expert_input(shape),
            weights=self.expert_weights(shape),
            middle=(2 + shape.gated) * shape.expert_ffn,
        )

    def traffic(self, shape: Transformer, rank: Rank) -> Traffic:
        """Return those of a feed-forward as wide; of tokens sorted to experts and back, of their biases and casts.

        A bias times a weight in FP32 is added expert by expert, put together, and cast back, by kernels of their own
        until software fuses them; so are the casts of each expert's rows.
        """
        software, gates = rank.software, 1 + shape.gated
        assert software is not None
        routed, sent, split = self.rows(shape, rank), self.expert_input(shape), shape.expert_ffn / rank.expert_tp
        found = super().traffic(shape, rank) + Traffic(8 * routed * sent, 8 * routed * sent)
        if shape.biases and not software.fused_expert_bias:
            h = shape.hidden
            found = found + Traffic(28 * routed * h, routed * (36 * h + 2 * gates * split))
        if rank.operand_bytes < 2:  # rows of experts are cast too; a kernel of its own also reads what it casts
            reads = 0 if software.expert_cast_time is None else 2
            rows = routed * ((2 + reads) * sent + reads * split), routed * ((2 + reads) * sent + reads * gates * split)
            # Inputs of two GEMMs, gradients of two outputs.
            kernels = 0.0 if software.expert_cast_time is None else 2 * (shape.experts / rank.ep)
            found = found + Traffic(*rows, launches=kernels)
        return found

    def fused_elements(self, shape: Transformer) -> tuple[Number, Number]:
        sorted_rows = 4 * shape.experts_per_token * self.expert_input(shape)
        return 4 * shape.hidden + sorted_rows, (2 + shape.gated) * self.middle(shape)

    def activations(self, shape: Transformer, rank: Rank) -> dict[str, Bytes]:
        """Return dispatched tokens, their way through the experts, and outputs, which the weighted sum needs."""
        keeps, wide = Kept(shape, rank), self.middle(shape)
        routed = shape.experts_per_token * self.expert_input(shape)
        kept = keeps.stream_in + keeps.split_in * (routed + wide)
        kept = kept + keeps.split * ((0 if keeps.lean else routed) + wide * (1 + shape.gated))
        return Block.activations(self, shape, rank) | {"experts": kept}

    def half_activations(self, shape: Transformer, rank: Rank) -> Bytes:
        """Return those of shared experts: grouped GEMMs are all computed again (torchtitan saves ``aten.mm`` alone)."""
        keeps = Kept(shape, rank)
        return keeps.stream + keeps.split * shape.shared_experts * shape.expert_ffn

    def gradients(self, shape: Transformer, rank: Rank) -> Bytes:
        """Return those of dispatched rows and of their way through the experts."""
        routed = shape.experts_per_token * self.expert_input(shape)
        return super().gradients(shape, rank) + Kept(shape, rank).split * routed

    def one_of_each(self, shape: Transformer, rank: Rank) -> Number:
        return self.on_rank(shape, rank.tp) + self.expert_weights(shape) / rank.expert_tp

    def largest_matrix(self, shape: Transformer, tp: Number) -> Number:
        return self.on_rank(shape, tp)

    def all_reduces(self, shape: Transformer, rank: Rank) -> Number:
        return 1.0 * ((rank.ep == 1) | (shape.shared_experts > 0))
