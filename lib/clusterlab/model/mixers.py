"""Mixers: blocks that look at other tokens, by attention or through a state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from ..checks import larger, pick, smaller
from ..quantities import Bytes, Flops, Number
from .blocks import Block, Columns, Gemm, Kept, Rank, Traffic

if TYPE_CHECKING:
    from .shape import Transformer

# --- Attention -------------------------------------------------------------------------------------------------------


def _mean(most: Number, sequence: Number, causal: bool) -> Number:
    """The mean over a sequence's tokens, each of which sees those before it under the mask, and ``most`` at most."""
    return most - most * (most - 1) / (2 * sequence) if causal else most


@dataclass(frozen=True)
class Attention(Block):
    r"""Attention with heads of its own, or with keys and values that groups of heads share.

    .. math:: 2\,h\,d\,(H + H_{kv}) \text{ weights}, \qquad 4\,H\,d\,\bar s \text{ FLOPs with } \bar s \text{ tokens}

    Source: Vaswani et al. 2017, section 3.2; Shazeer 2019 (MQA); Ainslie et al. 2023 (GQA). A key head is on every rank
    that has one of its query heads.
    """

    steps: ClassVar[str] = "norm with the addition, GEMM in, rotation and cache, attention, sum of its parts, GEMM out"

    def weights(self, shape: Transformer) -> tuple[Number, Number]:
        return 2 * shape.hidden * shape.head_dim * (shape.heads + shape.kv_heads), 0

    def counts(self, shape: Transformer) -> dict[str, Number]:
        return super().counts(shape) | {"attention": sum(self.weights(shape))}

    def biases(self, shape: Transformer) -> Number:
        return (shape.heads + 2 * shape.kv_heads) * shape.head_dim + shape.hidden

    def seen(self, context: Number) -> Number:
        """Return tokens that the last of so many sees."""
        return context

    def met(self, sequence: Number, *, causal: bool) -> Number:
        """Return tokens that one of a sequence meets, on average."""
        return _mean(self.seen(sequence), sequence, causal)

    def scores(self, shape: Transformer, sequence: Number, *, causal: bool) -> Flops:
        wide = shape.head_dim + shape.rope_dim + shape.value_dim
        return 2 * shape.heads * wide * self.met(sequence, causal=causal)

    def decode_scores(self, shape: Transformer, context: Number) -> Flops:
        return Attention.scores(self, shape, context, causal=False)

    def score_elements(self, shape: Transformer, sequence: Number) -> Number:
        return shape.heads * sequence

    def copies(self, shape: Transformer, tp: Number) -> Number:
        return 2 * shape.hidden * shape.head_dim * (larger(shape.kv_heads * 1.0, tp) - shape.kv_heads)

    def qkv(self, shape: Transformer, tp: Number) -> tuple[Number, Number]:
        """Return elements of a token's queries, keys and values on a rank, and those of keys and values."""
        kv = 2 * larger(shape.kv_heads * 1.0, tp) * shape.head_dim / tp
        return shape.heads * shape.head_dim / tp + kv, kv

    def gemms(self, shape: Transformer, rank: Rank) -> tuple[Gemm, ...]:
        tp = rank.tp
        met, (qkv, _) = self.on_rank(shape, tp), self.qkv(shape, tp)
        io = 2 * shape.hidden + self.latents(shape) + qkv + shape.heads * shape.value_dim / tp
        fused = 2 * shape.hidden + shape.heads * (shape.head_dim + shape.value_dim) / tp
        return (Gemm(rank.tokens, met, met, io, fused),)

    def latents(self, shape: Transformer) -> Number:
        """Return elements of latents, written and read."""
        return 0

    def columns(self, shape: Transformer) -> Columns:
        keys, output = shape.kv_heads * shape.head_dim, shape.heads * shape.value_dim
        return Columns(keys + output, shape.heads * shape.head_dim + 2 * keys + output)

    def traffic(self, shape: Transformer, rank: Rank) -> Traffic:
        """Return those of every block; what rotates and takes apart queries, keys and values; and casts of its output.

        A fused kernel needs its inputs and outputs once more backward.
        """
        assert rank.software is not None
        tp, values = rank.tp, shape.heads * shape.value_dim
        qkv, kv = self.qkv(shape, tp)
        split, fused = 2 * rank.tokens / tp, rank.software.fused_attention
        rotated = 2 * (shape.heads * shape.head_dim + kv * tp / 2) if not shape.positions else 0.0
        beside_forward, beside_backward = (0, 13) if fused else (2, 8)
        forward, backward = split * (rotated + beside_forward * values), split * (rotated + beside_backward * values)
        if rank.operand_bytes < 2:
            made = 2 * rank.tokens * values / tp
            forward, backward = forward + made, backward + made + 2 * rank.tokens * qkv
        return super().traffic(shape, rank) + Traffic(forward, backward)

    def fused_elements(self, shape: Transformer) -> tuple[Number, Number]:
        return 4 * shape.hidden, 2 * (shape.heads + shape.kv_heads) * shape.head_dim

    def cache_elements(self, shape: Transformer, context: Number) -> Number:
        return 2 * shape.kv_heads * shape.head_dim * context

    def cache_share(self, shape: Transformer, tp: Number, sequences: Number | None = None) -> Number:
        heads = float(shape.kv_heads)  # ... among which a rank's share of the caches is a whole one, at least
        return larger(1 / tp, 1 / (heads if sequences is None else heads * larger(sequences, 1.0)))

    def kept(self, shape: Transformer, rank: Rank) -> tuple[Number, Bytes]:
        """Return elements of a token that the kernel needs, on all ranks of tp, and bytes of latents."""
        return shape.heads * shape.head_dim + 2 * larger(shape.kv_heads * 1.0, rank.tp) * shape.head_dim, 0.0

    def activations(self, shape: Transformer, rank: Rank) -> dict[str, Bytes]:
        keeps, values = Kept(shape, rank), shape.heads * shape.value_dim
        qkv, latents = self.kept(shape, rank)
        kept = keeps.stream_in + latents + keeps.split * (qkv + values)
        if keeps.narrow:  # attention needs its output as it was, too
            kept = kept + keeps.split_in * values
        scores = keeps.score * self.score_elements(shape, rank.sequence)
        return super().activations(shape, rank) | {"attention": kept, "scores": scores}

    def gradients(self, shape: Transformer, rank: Rank) -> Bytes:
        """Return those of queries, keys and values, and of what attention made of them."""
        return Kept(shape, rank).split * (self.kept(shape, rank)[0] + shape.heads * shape.value_dim)

    def half_activations(self, shape: Transformer, rank: Rank) -> Bytes:
        values = larger(shape.kv_heads * 1.0, rank.tp) * shape.head_dim
        return Kept(shape, rank).split * (shape.heads * (shape.head_dim + shape.value_dim) + values)

    def largest_matrix(self, shape: Transformer, tp: Number) -> Number:
        return shape.hidden * 1.0 * shape.heads * shape.head_dim / tp

    def context_elements(self, shape: Transformer, tp: Number) -> Number:
        return self.qkv(shape, tp)[1]

    def exchanged(self, shape: Transformer) -> Number:
        return shape.heads * shape.value_dim


@dataclass(frozen=True)
class SlidingWindow(Attention):
    """Attention of a token to the last ``size`` tokens: its scores and its cache stop to grow there.

    Source: Beltagy et al. 2020; gpt-oss and Gemma have it in some of their layers. Under context parallelism keys and
    values are gathered as if the window were open.
    """

    prefix: ClassVar[str] = "window"

    size: int = 4096

    def seen(self, context: Number) -> Number:
        return smaller(context, float(self.size))

    def cache_elements(self, shape: Transformer, context: Number) -> Number:
        return super().cache_elements(shape, self.seen(context))


@dataclass(frozen=True)
class LatentAttention(Attention):
    r"""Multi-head latent attention: keys and values come from one vector a token, and so may queries.

    .. math:: H\left(r_q (d + d_r) + r_{kv} (d + d_v) + d_v h\right) + h\,(r_q + r_{kv} + d_r) \text{ weights}

    Without a query rank queries come from the stream: :math:`r_q` is h in the first term and 0 in the second, which is
    on every rank of tp. The cache holds :math:`r_{kv} + d_r` elements a token, whole on each rank, and decoding meets
    the latents themselves. Source: DeepSeek-V2 2024, section 2.1.
    """

    steps: ClassVar[str] = (
        "norm with the addition, GEMM to latents, norm of queries, norm of keys, GEMM of queries, rotation and cache, "
        "GEMM into the latent space, attention, sum of its parts, GEMM out of the latent space, GEMM out"
    )

    def weights(self, shape: Transformer) -> tuple[Number, Number]:
        query_from = pick(shape.query_rank > 0, shape.query_rank, shape.hidden)
        split = query_from * (shape.head_dim + shape.rope_dim) + shape.kv_rank * (shape.head_dim + shape.value_dim)
        shared = shape.hidden * (shape.query_rank + shape.kv_rank + shape.rope_dim)
        return shape.heads * (split + shape.value_dim * shape.hidden), shared

    def decode_scores(self, shape: Transformer, context: Number) -> Flops:
        latent = 2 * shape.kv_rank + shape.rope_dim
        wide = shape.head_dim + shape.rope_dim + shape.value_dim
        return latent / wide * super().decode_scores(shape, context)

    def copies(self, shape: Transformer, tp: Number) -> Number:
        return 0.0

    def qkv(self, shape: Transformer, tp: Number) -> tuple[Number, Number]:
        both = shape.heads * (2 * (shape.head_dim + shape.rope_dim) + shape.value_dim) / tp
        return both, both

    def latents(self, shape: Transformer) -> Number:
        return 2 * (shape.query_rank + shape.kv_rank + shape.rope_dim)

    def cache_elements(self, shape: Transformer, context: Number) -> Number:
        return (shape.kv_rank + shape.rope_dim) * context

    def cache_share(self, shape: Transformer, tp: Number, sequences: Number | None = None) -> Number:
        return 1.0 if sequences is None else super().cache_share(shape, tp, sequences)

    def kept(self, shape: Transformer, rank: Rank) -> tuple[Number, Bytes]:
        assert rank.software is not None
        # Both latents before and after their norm, and queries and keys with their rotary part.
        latents = 2 * (shape.query_rank + shape.kv_rank) + shape.rope_dim
        kept = shape.heads * (2 * (shape.head_dim + shape.rope_dim) + shape.value_dim)
        return kept, rank.software.activation_bytes * rank.tokens / rank.stream * latents


@dataclass(frozen=True)
class SparseAttention(Attention):
    r"""Attention of a token to the ``top`` tokens in the blocks that an indexer picks: MiniMax sparse attention.

    .. math:: h\,d_i\,(n_i + 1) \text{ weights}, \qquad 2\,n_i d_i\,s \text{ FLOPs of a token}

    of the indexer, beside those of :class:`Attention`: ``heads`` :math:`n_i` of ``head_dim`` :math:`d_i` score every
    token before, of which it caches :math:`d_i` elements more. A new token reads these, and keys and values of ``top``
    tokens. Without heads a layer takes the choice of the one before. Source: huggingface/transformers,
    ``models/minimax_m3_vl``: of 16 blocks of 128 tokens.
    """

    prefix: ClassVar[str] = "picked"
    steps: ClassVar[str] = f"{Attention.steps}, GEMM of the index, norm and rotation, its cache, its scores, choice"

    top: int = 2048
    heads: int = 0
    head_dim: int = 128

    def index_weights(self, shape: Transformer) -> Number:
        """Return the weights of the indexer, which are on every rank of tp."""
        return shape.hidden * self.head_dim * (self.heads + 1)

    def entries(self, tokens: Number) -> Number:
        """Return keys that the indexer has of so many tokens."""
        return tokens * (self.heads > 0)

    def weights(self, shape: Transformer) -> tuple[Number, Number]:
        split, shared = super().weights(shape)
        return split, shared + (self.heads > 0) * self.index_weights(shape)

    def seen(self, context: Number) -> Number:
        return smaller(context, float(self.top))

    def scores(self, shape: Transformer, sequence: Number, *, causal: bool) -> Flops:
        met = self.entries(_mean(sequence, sequence, causal))  # by the indexer, which sees every token before
        return super().scores(shape, sequence, causal=causal) + 2 * self.heads * self.head_dim * met

    def decode_scores(self, shape: Transformer, context: Number) -> Flops:
        return super().decode_scores(shape, context) + 2 * self.heads * self.head_dim * self.entries(context)

    def cache_elements(self, shape: Transformer, context: Number) -> Number:
        return super().cache_elements(shape, context) + self.head_dim * self.entries(context)

    def read_elements(self, shape: Transformer, context: Number) -> Number:
        return super().cache_elements(shape, self.seen(context)) + self.head_dim * self.entries(context)


@dataclass(frozen=True)
class SparseLatentAttention(SparseAttention, LatentAttention):
    r"""Latent attention of a token to the ``top`` tokens that an indexer picks: DeepSeek sparse attention.

    .. math:: r_q n_i d_i + h\,(d_i + n_i) \text{ weights}

    of the indexer, beside those of :class:`LatentAttention`; else as :class:`SparseAttention`. Source: DeepSeek-V3.2
    2025, section 2.1; GLM-5 2026 has it in all layers, and in GLM-5.2 three of four layers share another's choice.
    """

    prefix: ClassVar[str] = "sparse"
    steps: ClassVar[str] = (
        f"{LatentAttention.steps}, GEMM of index queries, GEMM of index keys, norm of index keys, rotation, transform, "
        "GEMM of index weights, index cache, index scores, choice of tokens"
    )

    def index_weights(self, shape: Transformer) -> Number:
        query_from = pick(shape.query_rank > 0, shape.query_rank, shape.hidden)
        return query_from * self.heads * self.head_dim + shape.hidden * (self.head_dim + self.heads)


@dataclass(frozen=True)
class CompressedAttention(SparseAttention):
    r"""Attention to a window and to compressed keys: DeepSeek-V4's three kinds.

    A token has one vector of d elements, key and value of all heads. Each ``ratio`` m tokens make one entry more, which
    stands for them however long ago they are: the mean of their vectors, and of the m before them where there is an
    indexer, by learned weights. A token sees the last ``window`` tokens and all entries (heavily compressed, m = 128),
    or the ``top`` entries that an indexer picks by entries of its own (compressed sparse, m = 4), or no entries
    (ratio 0). Queries come from ``query_rank`` :math:`r_q` elements; the output goes through ``output_rank``
    :math:`r_o` elements of each of G ``groups`` of heads:

    .. math:: H d\,(r_q + r_o) + G r_o h + h\,(r_q + d + c) \text{ weights}, \qquad c = 2 d,\; 4 d + 4 d_i + n_i
        \text{ or } 0

    with :math:`r_q n_i d_i` more of the indexer. A sequence caches :math:`d\,(w + s/m) + d_i s/m` elements. Left out,
    as norms of queries and keys are: a bias for each place of an entry, and sinks. Source: DeepSeek-V4 2026, section
    2.3; huggingface/transformers, ``models/deepseek_v4``. Under context parallelism vectors are gathered as if the
    window were open.
    """

    prefix: ClassVar[str] = "compressed"
    steps: ClassVar[str] = (
        f"{Attention.steps}, norms, GEMM of queries, GEMM of entries, entries, turned back, GEMM of groups"
    )

    top: int = 0
    heads: int = 0
    ratio: int = 0
    window: int = 128
    query_rank: int = 1024
    groups: int = 8
    output_rank: int = 1024

    def _of_entries(self, shape: Transformer) -> Number:
        """Elements of a token of which entries are made, vectors and their weights."""
        own = 2 * shape.head_dim * (1 + (self.heads > 0))
        return (self.ratio > 0) * own + (self.heads > 0) * 4 * self.head_dim

    def entries(self, tokens: Number) -> Number:
        return tokens / self.ratio if self.ratio else 0.0 * tokens

    def weights(self, shape: Transformer) -> tuple[Number, Number]:
        wide, inner = shape.heads * shape.head_dim, self.groups * self.output_rank
        shared = self.query_rank + shape.head_dim + self._of_entries(shape) + self.heads
        index = self.query_rank * self.heads * self.head_dim
        return wide * (self.query_rank + self.output_rank) + inner * shape.hidden, shape.hidden * shared + index

    def met(self, sequence: Number, *, causal: bool) -> Number:
        near = _mean(smaller(sequence, float(self.window)), sequence, causal)
        reach = smaller(sequence, self.top * self.ratio * 1.0) if self.top else sequence
        return near + self.entries(_mean(reach, sequence, causal))

    def copies(self, shape: Transformer, tp: Number) -> Number:
        return 0.0

    def qkv(self, shape: Transformer, tp: Number) -> tuple[Number, Number]:
        return shape.heads * shape.head_dim / tp + shape.head_dim, shape.head_dim

    def latents(self, shape: Transformer) -> Number:
        return 2 * (self.query_rank + self.groups * self.output_rank + self._of_entries(shape))

    def limits(self, shape: Transformer) -> dict[str, tuple[str, int]]:
        return {"tp": ("compressed_groups", self.groups)}

    def cache_elements(self, shape: Transformer, context: Number) -> Number:
        return self._cached(shape, smaller(context, float(self.window)) + self.entries(context), context)

    def read_elements(self, shape: Transformer, context: Number) -> Number:
        return self._cached(shape, self.met(context, causal=False), context)

    def _cached(self, shape: Transformer, vectors: Number, context: Number) -> Number:
        return shape.head_dim * vectors + (self.heads > 0) * self.head_dim * self.entries(context)

    def kept(self, shape: Transformer, rank: Rank) -> tuple[Number, Bytes]:
        assert rank.software is not None
        latents = 2 * self.query_rank + self._of_entries(shape)  # before and after their norm
        kept = (shape.heads + rank.tp) * shape.head_dim + self.groups * self.output_rank
        return kept, rank.software.activation_bytes * rank.tokens / rank.stream * latents


# --- Mixers that keep a state ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Recurrent(Block):
    """A mixer that keeps a state of ``state`` numbers for each of ``width`` elements, and looks at no token again.

    A subclass says its ``heads``, its ``width``, and ``inputs``: elements of a token besides that steer the states.
    """

    @property
    def width(self) -> Number:
        """Elements of the inner stream."""
        raise NotImplementedError

    @property
    def inputs(self) -> Number:
        """Elements of what a convolution sees besides the inner stream."""
        raise NotImplementedError

    @property
    def gates(self) -> Number:
        """Further elements that the projection in makes."""
        raise NotImplementedError

    @property
    def state_size(self) -> Number:
        """Numbers of all states of a sequence."""
        raise NotImplementedError

    def weights(self, shape: Transformer) -> tuple[Number, Number]:
        return shape.hidden * (2 * self.width + self.inputs + self.gates), 0

    def counts(self, shape: Transformer) -> dict[str, Number]:
        return super().counts(shape) | {"recurrent": sum(self.weights(shape)) + self.extra}

    def gemms(self, shape: Transformer, rank: Rank) -> tuple[Gemm, ...]:
        met = self.on_rank(shape, rank.tp)
        io = 2 * shape.hidden + (2 * self.width + self.inputs + self.gates) / rank.tp
        return (Gemm(rank.tokens, met, met, io, io),)

    def traffic(self, shape: Transformer, rank: Rank) -> Traffic:
        casts = 2 * rank.tokens / rank.tp * (rank.operand_bytes < 2)
        made = self.width + self.inputs + self.gates
        return super().traffic(shape, rank) + Traffic(casts * self.width, casts * (self.width + made))

    def state_elements(self, shape: Transformer) -> Number:
        return self.state_size

    def activations(self, shape: Transformer, rank: Rank) -> dict[str, Bytes]:
        """Return its inputs, what its projection makes of them, and what the scan returns.

        The rest is computed again from these (Megatron-Core, ``use_mem_eff_path``).
        """
        keeps = Kept(shape, rank)
        made = 2 * self.width + self.inputs + self.gates
        kept = keeps.stream_in + keeps.split * made + (keeps.split_in * self.width if keeps.narrow else 0.0)
        return {"norms": keeps.stream, "attention": kept}

    def gradients(self, shape: Transformer, rank: Rank) -> Bytes:
        return Kept(shape, rank).split * (2 * self.width + self.inputs + self.gates)

    def exchanged(self, shape: Transformer) -> Number | None:
        return None


@dataclass(frozen=True)
class Mamba2(Recurrent):
    r"""A Mamba-2 mixer: n ``heads`` of ``head_dim`` P, states of ``state`` N, inputs and outputs of G ``groups``.

    .. math:: h\,(3 d + 2 g + n) + 5\,(d + 2 g) + d + 3 n \text{ parameters}, \qquad d = n P, \quad g = G N

    Projections in and out, a convolution over four tokens with its bias, the gated norm, and three numbers a head.
    The scan works by chunks of Q = 128 tokens: :math:`2 Q\,(g + d) + 4 N d` FLOPs a token. Within a chunk inputs and
    outputs of the groups are multiplied, and the result with the values, as attention does with its scores; each chunk
    adds to the states, and reads what those before it left. Triton's kernels move 8 (d + g + s) + 4 Q G elements a
    token forward, with s the states of a chunk over its tokens, and 2.5 times as many backward, where they compute all
    but the last again. A sequence keeps its states and the last three tokens of the convolution.

    Source: Dao and Gu 2024 (Mamba-2), sections 6 and 7.1 and figure 6; Megatron-Core, ``ssm/mamba_mixer.py``, whose
    FLOP count is 7 N d.
    """

    prefix: ClassVar[str] = "mamba"
    steps: ClassVar[str] = "norm with the addition, GEMM in, convolution, states, gated norm, GEMM out"
    chunk: ClassVar[int] = 128  # tokens: Megatron-Core's and Nemotron's

    heads: int = 64
    head_dim: int = 64
    state: int = 128
    groups: int = 8

    @property
    def width(self) -> Number:
        return self.heads * self.head_dim

    @property
    def _of_groups(self) -> Number:
        return self.groups * self.state

    @property
    def inputs(self) -> Number:
        return self.width + 2 * self._of_groups

    @property
    def gates(self) -> Number:
        return self.heads

    @property
    def extra(self) -> Number:
        return 5 * self.inputs + self.width + 3 * self.heads

    @property
    def state_size(self) -> Number:
        return self.state * self.width + 3 * self.inputs

    def limits(self, shape: Transformer) -> dict[str, tuple[str, int]]:
        return {"tp": ("mamba_groups", self.groups), "cp": ("", 1)}

    def scan(self, shape: Transformer) -> tuple[Flops, Number]:
        d, g = self.width, self._of_groups
        moved = 8 * (d + g + d * self.state / self.chunk) + 4 * self.chunk * self.groups
        return 2 * self.chunk * (g + d) + 4 * self.state * d, moved


@dataclass(frozen=True)
class GatedDeltaNet(Recurrent):
    r"""A gated delta rule: ``heads`` of queries and keys of ``head_dim`` K, and ``value_heads`` of ``value_dim`` V.

    .. math:: h\,(2 d_k + 3 d_v + 2 n_v) + 4\,(2 d_k + d_v) + 2 n_v + V \text{ parameters}

    with :math:`d_k` the width of queries (and of keys), :math:`d_v` that of the values, and :math:`n_v` value heads:
    projections of queries, keys, values and an output gate, two numbers a head (how much to forget, how much to write),
    a convolution over four tokens, and a norm a head. Each value head keeps a state of K by V, from which the key's old
    value is taken before its new one is written. By chunks of Q = 64 tokens a token costs
    :math:`2 Q\,(3 K + 2 V)\,n_v + 6 K d_v` FLOPs: keys meet keys and queries, the triangle that follows meets keys and
    values, scores meet values, and the state is read twice and written once. The triangle's inverse is left
    out: :math:`Q^2/3` for each value head, below a hundredth. Assumed: elements pass memory as often as Mamba-2's do.

    Source: Yang et al. 2024 (Gated Delta Networks), section 3, in the chunks of flash-linear-attention.
    """

    prefix: ClassVar[str] = "delta"
    steps: ClassVar[str] = (
        "norm with the addition, GEMM in, GEMM of two numbers a head, convolution, norm of keys and queries, gates, "
        "states, gated norm, GEMM out"
    )
    chunk: ClassVar[int] = 64  # tokens

    heads: int = 16
    head_dim: int = 128
    value_heads: int = 32
    value_dim: int = 128

    def __post_init__(self) -> None:
        """Refuse what is no mixer."""
        super().__post_init__()
        if self.value_heads % self.heads:
            own, got = self.prefix, f"{self.heads} and {self.value_heads}"
            raise ValueError(f"{own}_heads must divide {own}_value_heads, got {got}")

    @property
    def width(self) -> Number:
        return self.value_heads * self.value_dim

    @property
    def inputs(self) -> Number:
        return self.width + 2 * self.heads * self.head_dim

    @property
    def gates(self) -> Number:
        return 2 * self.value_heads

    @property
    def extra(self) -> Number:
        return 4 * self.inputs + 2 * self.value_heads + self.value_dim

    @property
    def state_size(self) -> Number:
        return self.head_dim * self.width + 3 * self.inputs

    def limits(self, shape: Transformer) -> dict[str, tuple[str, int]]:
        return {"tp": (f"{self.prefix}_heads", self.heads), "cp": ("", 1)}

    def scan(self, shape: Transformer) -> tuple[Flops, Number]:
        values, heads = self.width, self.value_heads
        moved = 8 * (self.inputs + values * self.head_dim / self.chunk) + 4 * self.chunk * heads
        return 2 * self.chunk * (3 * self.head_dim * heads + 2 * values) + 6 * self.head_dim * values, moved


@dataclass(frozen=True)
class KimiDelta(GatedDeltaNet):
    r"""Kimi delta attention: a gated delta rule that forgets each element of a key at a rate of its own.

    .. math:: h\,(2 d_k + 2 d_v + n_v + 2 V) + V (d_k + d_v) \text{ weights}

    with the sizes of :class:`GatedDeltaNet`. The rates of forgetting, as many as a key has elements, and the output's
    gate come through V elements each. The scan is taken to cost what that of :class:`GatedDeltaNet` does.

    Source: Kimi Linear 2025, section 3; flash-linear-attention, ``layers/kda.py``.
    """

    prefix: ClassVar[str] = "kda"
    steps: ClassVar[str] = f"{GatedDeltaNet.steps}, GEMM into both ranks, GEMM of rates, GEMM of gates"

    def weights(self, shape: Transformer) -> tuple[Number, Number]:
        own, through = self.inputs + self.width + self.value_heads, self.heads * self.head_dim + self.width
        return shape.hidden * own + self.value_dim * through, 2 * shape.hidden * self.value_dim

    @property
    def gates(self) -> Number:
        return self.heads * self.head_dim + self.value_heads + 2 * self.value_dim

    @property
    def extra(self) -> Number:
        return 4 * self.inputs + self.heads * self.head_dim + self.width + self.value_heads + self.value_dim
