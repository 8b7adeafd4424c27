r"""Blocks: what a decoder is made of, and what each part of it holds, computes, moves, keeps and sends on a rank.

A decoder is a list of blocks (:attr:`Transformer.stacks`), and everything that is counted of it iterates over that
list: parameters, FLOPs, caches, the memory of a rank, the training step, the pass of a replica. None of them knows a
kind of block. **A new kind of layer is one class here**: what it does not say, it has not. A class with a ``prefix``
may stand in attention's place in some layers (``others`` of a :class:`Transformer`), and rows of the catalogue speak of
it by that prefix: ``mamba_layers = 24`` and ``mamba_heads = 128`` are ``(24, Mamba2(heads=128))``.

Counts are of one block. FLOPs are two per multiply-add; norms, activations and rotations are none of them, as in every
published count, but the bytes that they move are.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from ..catalogue import Software
from ..checks import WHOLE, WHOLE_OR_NONE, Numeric, check, pick
from ..quantities import Bytes, Flops, Number

if TYPE_CHECKING:
    from .shape import Transformer

TILE = 128  # rows of a tile of a grouped GEMM


class Rank(NamedTuple):
    """How blocks are cut on a rank, and what runs there.

    ``tokens`` are those of a microbatch, or of a pass, on the rank; ``expert_tp`` ranks split each expert, ``ep`` share
    them out. ``operand_bytes`` are of an operand of the layers' GEMMs.
    """

    tp: Number = 1.0
    ep: Number = 1.0
    expert_tp: Number = 1.0
    tokens: Number = 1.0
    sequence: Number = 1.0
    sequence_parallel: Numeric = True
    operand_bytes: float = 2.0
    software: Software | None = None

    @property
    def stream(self) -> Number:
        """Ranks that share what sequence parallelism splits: the stream between blocks."""
        return pick(self.sequence_parallel, self.tp, 1.0)


class Gemm(NamedTuple):
    """A GEMM of a block on a rank: each of ``rows`` meets ``met`` weights; ``weights`` are read.

    A row has ``io`` elements, in and out; ``fused_io`` where serving fuses what lies between GEMMs with them. In a
    ``grouped`` one every expert's rows meet its own weights.
    """

    rows: Number
    met: Number
    weights: Number
    io: Number
    fused_io: Number
    grouped: bool = False


class Traffic(NamedTuple):
    """Bytes that what is no GEMM moves, forward and backward, and kernels launched for each expert, each way."""

    forward: Bytes
    backward: Bytes
    launches: Number = 0.0

    def __add__(self, other: Traffic) -> Traffic:  # type: ignore[override]  # no concatenation
        """Return both together."""
        launches = self.launches + other.launches
        return Traffic(self.forward + other.forward, self.backward + other.backward, launches)


class Routing(NamedTuple):
    """A router's choice: each token takes ``per_token`` of so many ``experts``, on ``node_limit`` nodes at most.

    ``width`` elements of the token go to each and come back; an expert has ``weights``, and ``middle`` elements a token
    pass through it.
    """

    experts: Number
    per_token: Number
    node_limit: Number
    width: Number
    weights: Number
    middle: Number


class Columns(NamedTuple):
    """Elements a token that the GEMMs of a block make: ``again`` those of every second one, and ``total``."""

    again: Number
    total: Number


@dataclass(frozen=True)
class Block:
    """A part of a layer: a norm, something that works on the stream, and its addition to the stream."""

    prefix: ClassVar[str] = ""  # of its fields in rows of the catalogue
    feeds_forward: ClassVar[bool] = False  # rather than mixes tokens
    steps: ClassVar[str] = ""  # kernels of a pass of serving, one for each name

    def __post_init__(self) -> None:
        """Refuse a size that is none: a whole number of at least 1, or of 0 where that is the default."""
        for field in fields(self):
            check(WHOLE if field.default else WHOLE_OR_NONE, f"{self.prefix}_{field.name}", getattr(self, field.name))

    # What it is.

    def weights(self, shape: Transformer) -> tuple[Number, Number]:
        """Return the weights that each token is multiplied by: those that tp splits, and those that all ranks hold."""
        raise NotImplementedError

    def counts(self, shape: Transformer) -> dict[str, Number]:
        """Return its parameters by part of a :class:`~clusterlab.model.ParameterCount`, of a norm too."""
        return {"norms_and_biases": shape.hidden * (1 + shape.biases) + shape.biases * self.biases(shape)}

    def biases(self, shape: Transformer) -> Number:
        """Return the biases of its linear layers, where the model has them."""
        return 0

    def limits(self, shape: Transformer) -> dict[str, tuple[str, int]]:
        """Return what an axis must divide to cut it, by axis: a name and a number; 1 has no name."""
        return {}

    # What it computes.

    def flops(self, shape: Transformer) -> dict[str, Flops]:
        """Return FLOPs of a token in its GEMMs, by part of :class:`~clusterlab.model.ForwardFlops`."""
        return {"projections": 2 * sum(self.weights(shape))}

    def scores(self, shape: Transformer, sequence: Number, *, causal: bool) -> Flops:
        """Return FLOPs of a token with the others of its sequence, on average: with all, or with those before it."""
        return 0.0

    def decode_scores(self, shape: Transformer, context: Number) -> Flops:
        """Return FLOPs of a new token with ``context`` cached ones."""
        return self.scores(shape, context, causal=False)

    def score_elements(self, shape: Transformer, sequence: Number) -> Number:
        """Return scores of a token, which go to memory where no kernel keeps them on the chip."""
        return 0.0

    def scan(self, shape: Transformer) -> tuple[Flops, Number]:
        """Return FLOPs of a token in a scan over the sequence, and the elements that its kernels move, forward."""
        return 0.0, 0.0

    def gemms(self, shape: Transformer, rank: Rank) -> tuple[Gemm, ...]:
        """Return its GEMMs on a rank."""
        raise NotImplementedError

    def last_gemm(self, shape: Transformer, rank: Rank) -> Flops:
        """Return FLOPs of its last GEMM, if no gradient of its layer needs the output."""
        return 0.0

    def columns(self, shape: Transformer) -> Columns:
        """Return what its GEMMs make of a token."""
        return Columns(0, 0)

    def routing(self, shape: Transformer) -> Routing | None:
        """Return how its tokens choose experts, if they do."""
        return None

    def kernels(self, shape: Transformer) -> Number:
        """Return kernels that a pass of serving launches for it: its ``steps``, what is fused counted once."""
        return len(self.steps.split(", ")) if self.steps else 0

    # What it moves, besides the operands of its GEMMs.

    def traffic(self, shape: Transformer, rank: Rank) -> Traffic:
        """Return bytes that its norm, its addition and what lies between its GEMMs move in a training step.

        Of tensors as wide as the stream, 2 bytes an element: a norm (1, 2.5), an addition (1.5, 1.5), dropout and bias
        (0.25, 1.75), in so many forward and backward.
        """
        assert rank.software is not None
        stream, dropout = 2 * rank.tokens * shape.hidden / rank.stream, rank.software.dropout
        forward, backward = stream * (5 + dropout / 2), stream * (8 + 3.5 * dropout)
        if rank.operand_bytes == 2:
            return Traffic(forward, backward)
        casts = 2 * rank.tokens * shape.hidden  # an operand is written twice more, by rows and by columns
        return Traffic(forward + casts, backward + casts)

    def middle(self, shape: Transformer) -> Number:
        """Return elements of a token between its matrices, on all ranks."""
        return 0

    def fused_elements(self, shape: Transformer) -> tuple[Number, Number]:
        """Return elements of a token that serving's kernels besides GEMMs move: of the stream, and what tp splits."""
        return 4 * shape.hidden, 0

    # What it keeps.

    def cache_elements(self, shape: Transformer, context: Number) -> Number:
        """Return elements that it caches of a sequence."""
        return 0

    def read_elements(self, shape: Transformer, context: Number) -> Number:
        """Return elements of those that a new token reads."""
        return self.cache_elements(shape, context)

    def cache_share(self, shape: Transformer, tp: Number, sequences: Number | None = None) -> Number:
        """Return the share of its caches that each rank holds; where they may be cut by sequences, of so many."""
        return 1 / tp

    def state_elements(self, shape: Transformer) -> Number:
        """Return elements of the state that it keeps of a sequence, however long that is."""
        return 0

    def activations(self, shape: Transformer, rank: Rank) -> dict[str, Bytes]:
        """Return bytes kept for the backward pass, by part of :class:`~clusterlab.parallelism.LayerActivations`."""
        keeps = Kept(shape, rank)
        return {"norms": keeps.stream, "dropout": keeps.mask}

    def half_activations(self, shape: Transformer, rank: Rank) -> Bytes:
        """Return bytes kept where every second GEMM is computed again."""
        return sum(self.activations(shape, rank).values())

    def gradients(self, shape: Transformer, rank: Rank) -> Bytes:
        """Return bytes of gradients of activations that stand at once within it, besides those of its ends."""
        return 0.0

    def one_of_each(self, shape: Transformer, rank: Rank) -> Number:
        """Return weights of its GEMMs on a rank, with one of the routed experts."""
        return self.on_rank(shape, rank.tp)

    def copies(self, shape: Transformer, tp: Number) -> Number:
        """Return weights that ranks hold besides their share, on all of them together."""
        return 0.0

    def on_rank(self, shape: Transformer, tp: Number, *, copies: bool = True) -> Number:
        """Return weights of its GEMMs on a rank of tp, without routed experts: the one place that derives them."""
        split, shared = self.weights(shape)
        return (split + (self.copies(shape, tp) if copies else 0.0)) / tp + shared

    @property
    def extra(self) -> Number:
        """Parameters that are neither weights of GEMMs nor of the norm, nor biases."""
        return 0

    def besides_on_rank(self, shape: Transformer, tp: Number) -> Number:
        """Return parameters of a rank that are no weights of GEMMs: the norm, biases, and extra ones."""
        return shape.hidden * (1 + shape.biases) + (shape.biases * self.biases(shape) + self.extra) / tp

    def largest_matrix(self, shape: Transformer, tp: Number) -> Number:
        """Return parameters of its largest matrix on a rank."""
        return self.on_rank(shape, tp)

    # What it sends.

    def all_reduces(self, shape: Transformer, rank: Rank) -> Number:
        """Return all-reduces over tp that it ends in, forward."""
        return 1.0

    def context_elements(self, shape: Transformer, tp: Number) -> Number:
        """Return elements of a token that every rank of a split sequence needs of the others."""
        return 0.0

    def exchanged(self, shape: Transformer) -> Number | None:
        """Return elements of a new token that go to the rank with its caches, and return, where ranks share sequences.

        None: it cannot be cut along both axes of its weights.
        """
        return 0


class Kept:
    """Sizes, in bytes on a rank, of what a block keeps: a stream, and what tensor parallelism splits, by what it is."""

    def __init__(self, shape: Transformer, rank: Rank) -> None:
        software = rank.software
        assert software is not None
        size = software.activation_bytes
        self.lean = software.lean_activations
        self.narrow = self.lean and rank.operand_bytes < 2
        operand = rank.operand_bytes if self.narrow else size  # bytes of a GEMM's input
        self.stream = size * rank.tokens * shape.hidden / rank.stream  # one tensor as wide as the stream
        self.split = size * rank.tokens / rank.tp  # one number a token, where tensor parallelism splits
        self.stream_in, self.split_in = operand / size * self.stream, operand / size * self.split  # inputs of a GEMM
        self.mask = rank.tokens * shape.hidden / rank.stream if software.dropout else 0.0
        # Without fusion: the softmax, and with dropout its mask and what it leaves. A mask is one byte an element.
        of_scores = size + (1 + size if software.dropout else 0.0)
        self.score = 0.0 if software.fused_attention else of_scores * rank.tokens / rank.tp


# --- The ends, what training adds, and wider streams -----------------------------------------------------------------


@dataclass(frozen=True)
class HyperConnection(Block):
    r"""What stands before a block whose stream is n ``streams`` wide, in place of the addition behind it.

    .. math:: n h \cdot n\,(n + 2) \text{ weights}

    make, of all streams, n numbers by which these are put together for the block, n by which its result is shared out,
    and n by n by which streams are mixed, doubly stochastic. Streams are read once for the numbers, once for the block
    and once to be mixed, and written once; backward, by the chain rule, six pass in and out more than a plain addition
    has. Streams and the block's result are kept. Counted like any GEMM; published ones work in FP32.

    Source: Xie et al. 2025 (mHC), sections 4.1 and 4.3; DeepSeek-V4 2026, section 2.2.
    """

    steps: ClassVar[str] = "GEMM of coefficients, streams into one, one into streams"

    def weights(self, shape: Transformer) -> tuple[Number, Number]:
        return 0, shape.streams * (shape.streams + 2) * shape.streams * shape.hidden

    def counts(self, shape: Transformer) -> dict[str, Number]:
        return {"norms_and_biases": sum(self.weights(shape)) + self.besides_on_rank(shape, 1)}

    def gemms(self, shape: Transformer, rank: Rank) -> tuple[Gemm, ...]:
        met, io = self.on_rank(shape, rank.tp), shape.streams * (shape.hidden + shape.streams + 2)
        return (Gemm(rank.tokens / rank.stream, met, met, io, io),)

    def traffic(self, shape: Transformer, rank: Rank) -> Traffic:
        stream = 2 * rank.tokens * shape.hidden / rank.stream  # a block counts its addition: three and three
        return Traffic(stream * (3 * shape.streams - 1), stream * 6 * shape.streams)

    def fused_elements(self, shape: Transformer) -> tuple[Number, Number]:
        return (3 * shape.streams - 1) * shape.hidden, 0

    def activations(self, shape: Transformer, rank: Rank) -> dict[str, Bytes]:
        return {"norms": (shape.streams + 1) * Kept(shape, rank).stream}

    def besides_on_rank(self, shape: Transformer, tp: Number) -> Number:
        return shape.streams * (shape.streams + 2) + 3

    def all_reduces(self, shape: Transformer, rank: Rank) -> Number:
        return 0.0


@dataclass(frozen=True)
class MultiToken(Block):
    """What joins a depth of multi-token prediction to the one before: two streams, multiplied into one.

    Published numbers of parameters leave it out, and so do they here. Source: DeepSeek-V3 2024, section 2.2.
    """

    def weights(self, shape: Transformer) -> tuple[Number, Number]:
        return 0, 0

    def counts(self, shape: Transformer) -> dict[str, Number]:
        return {}

    def flops(self, shape: Transformer) -> dict[str, Flops]:
        return {}

    def gemms(self, shape: Transformer, rank: Rank) -> tuple[Gemm, ...]:
        met = 2 * shape.hidden**2 / rank.tp
        return (Gemm(rank.tokens, met, met, 3 * shape.hidden, 3 * shape.hidden),)

    def traffic(self, shape: Transformer, rank: Rank) -> Traffic:
        return Traffic(0.0, 0.0)

    def activations(self, shape: Transformer, rank: Rank) -> dict[str, Bytes]:
        return {}

    def besides_on_rank(self, shape: Transformer, tp: Number) -> Number:
        return 0.0

    def all_reduces(self, shape: Transformer, rank: Rank) -> Number:
        return 0.0


@dataclass(frozen=True)
class Embedding:
    """The table of tokens, and learned positions: a lookup, which costs no FLOPs."""

    def counts(self, shape: Transformer) -> dict[str, Number]:
        """Return its parameters by part."""
        return {"embedding": shape.vocab * shape.hidden, "positions": shape.positions * shape.hidden}

    def on_rank(self, shape: Transformer, tp: Number) -> Number:
        """Return the part of the table that a rank of tp holds."""
        return shape.vocab * shape.hidden / tp


@dataclass(frozen=True)
class Output:
    """The last norm, and the layer that makes a logit of each token of the vocabulary: 16 bits, whatever the others."""

    def counts(self, shape: Transformer) -> dict[str, Number]:
        """Return its parameters by part; none of its own where it is the embedding once more."""
        own = 0 * shape.hidden if shape.tied else shape.vocab * shape.hidden
        joined = (shape.streams > 1) * (shape.streams * (shape.streams * shape.hidden + 1) + 1)  # streams into one
        return {"output": own, "norms_and_biases": shape.hidden * (1 + shape.biases) + joined}

    def flops(self, shape: Transformer) -> Flops:
        """Return FLOPs of a token's logits."""
        return 2 * shape.hidden * shape.vocab

    def gemm(self, shape: Transformer, rank: Rank) -> Gemm:
        """Return its GEMM on a rank."""
        met, io = shape.vocab * shape.hidden / rank.tp, shape.hidden + shape.vocab / rank.tp
        return Gemm(rank.tokens, met, met, io, io)
