"""The shape of a decoder: its sizes, and the blocks that follow from them.

A decoder is ``layers`` of a mixer and a feed-forward on a stream ``hidden`` wide, between an embedding and an output
layer. :class:`Transformer` holds its sizes; :attr:`Transformer.stacks` are its blocks (:mod:`clusterlab.model.blocks`),
which is all that the laws look at.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from ..checks import WHOLE, WHOLE_OR_NONE, Numeric, broadcastable, check, flags, pick, some, whole
from ..quantities import Number
from ..records import Explained, Rows, summary, words
from .blocks import Block, HyperConnection, MultiToken, Routing
from .feed_forwards import Experts, FeedForward
from .mixers import Attention, LatentAttention


class Stack(NamedTuple):
    """So many layers of the same blocks.

    ``leading`` ones are the first layers; the others are mixed evenly. ``sixteen_bits``: their GEMMs multiply at 16
    bits, whatever the precision of the others.
    """

    count: Number
    blocks: tuple[Block, ...]
    leading: bool = False
    sixteen_bits: bool = False


@dataclass(frozen=True, repr=False)
class Transformer(Explained):
    """The shape of a decoder. Counts may be arrays: one record is then many models.

    ``kv_heads`` below ``heads`` is grouped-query attention, 1 is multi-query. ``kv_rank`` above 0 is multi-head latent
    attention: keys and values come from one vector of that size, queries from one of ``query_rank`` (0: straight from
    the stream), and ``rope_dim`` more dimensions of queries and keys carry the position. ``experts`` above 0 make every
    layer but the first ``dense_layers`` a mixture of experts. ``positions`` are learned position embeddings. ``biases``
    says whether linear layers and norms have them. ``node_limit`` above 0 is the most nodes that the router sends a
    token to. ``expert_latent`` above 0 is the width of a projection of the stream that routed experts work on.
    ``streams`` above 1 is how many residual streams, each ``hidden`` wide, run beside one another
    (:class:`HyperConnection`).

    ``others`` are pairs of a number of layers and the block that stands there in attention's place, spread evenly:
    ``((18, SlidingWindow(128)),)``; where all layers are such, multi-token prediction takes the last, which may have no
    layer else. ``feed_forward_layers``, where it is given, makes a layer one block, a mixer or one
    of so many feed-forwards. ``mtp_depth`` is how many further tokens training predicts (:func:`trained`).

    Examples
    --------
    >>> from clusterlab.model import parameters
    >>> llama = Transformer(layers=32, hidden=4096, heads=32, kv_heads=8, ffn=14336, gated=True, vocab=128256)
    >>> parameters(llama).total
    8030261248
    >>> [(stack.count, [type(block).__name__ for block in stack.blocks]) for stack in llama.stacks]
    [(32, ['Attention', 'FeedForward'])]
    """

    layers: Number
    hidden: Number
    heads: Number
    ffn: Number
    vocab: Number
    kv_heads: Number = None  # as many as heads
    head_dim: Number = None  # hidden / heads
    gated: bool = False
    tied: bool = False
    biases: bool = False
    positions: Number = 0
    experts: Number = 0
    experts_per_token: Number = 0
    shared_experts: Number = 0
    expert_ffn: Number = None  # ffn
    dense_layers: Number = 0
    query_rank: Number = 0
    kv_rank: Number = 0
    rope_dim: Number = 0
    value_dim: Number = None  # head_dim
    node_limit: Number = 0  # none
    expert_latent: Number = 0  # the stream itself
    streams: Number = 1
    others: tuple[tuple[int, Block], ...] = ()
    feed_forward_layers: int | None = None  # one in every layer
    mtp_depth: Number = 0
    predicting: Number = 0  # depths of it that are layers of this shape
    name: str = ""

    def __post_init__(self) -> None:
        """Fill in what follows from the rest, hold lists as arrays, and refuse what cannot be a decoder."""
        self._fill_in()
        whole(**{field: getattr(self, field) for field in ("head_dim", "kv_heads", "expert_ffn", "value_dim")})
        for field in _MAY_BE_ZERO:
            check(WHOLE_OR_NONE, field, getattr(self, field))
        self.broadcasts()
        flags(gated=self.gated, tied=self.tied, biases=self.biases)
        self._check_together()
        self._check_others()

    def _fill_in(self) -> None:
        """Hold lists as arrays, and give fields that are left open what they usually are."""
        for field, value in list(vars(self).items()):
            if isinstance(value, list | tuple) and field != "others":
                object.__setattr__(self, field, np.asarray(value))
        whole(**{field: getattr(self, field) for field in ("layers", "hidden", "heads", "ffn", "vocab", "streams")})
        if self.head_dim is None:
            if np.any(self.hidden % self.heads != 0):
                raise ValueError(f"heads must divide hidden, or give head_dim; got {self.heads} of {self.hidden}")
            object.__setattr__(self, "head_dim", self.hidden // self.heads)
        for field, value in {"kv_heads": self.heads, "expert_ffn": self.ffn, "value_dim": self.head_dim}.items():
            if getattr(self, field) is None:
                object.__setattr__(self, field, value)

    def _check_together(self) -> None:
        if np.any(self.heads % np.asarray(self.kv_heads) != 0):
            raise ValueError(f"kv_heads must divide heads, got {self.kv_heads} and {self.heads}")
        for field, limit in _AT_MOST.items():
            if np.any(np.asarray(getattr(self, field)) > getattr(self, limit)):
                raise ValueError(f"{field} must be at most {limit}, got {getattr(self, field)}")
        for field, needed in _NEEDS.items():
            if np.any((np.asarray(getattr(self, field)) > 0) & (np.asarray(getattr(self, needed)) < 1)):
                raise ValueError(f"{field} above 0 needs {needed} above 0, got {getattr(self, needed)}")
        if np.any((np.asarray(self.kv_rank) == 0) & (self.value_dim != np.asarray(self.head_dim))):
            raise ValueError(f"value_dim must be head_dim where kv_rank is 0, got {self.value_dim}")

    def _check_others(self) -> None:
        for _, block in self.others:
            if not (isinstance(block, Block) and block.prefix):
                raise ValueError(f"others must be pairs of a number of layers and a mixer, got {block!r}")
        counts: list[tuple[str, Number]] = [(f"{block.prefix}_layers", count) for count, block in self.others]
        counts += [] if self.feed_forward_layers is None else [("feed_forward_layers", self.feed_forward_layers)]
        for name, count in counts:  # a kind without layers is what multi-token prediction takes
            check(WHOLE_OR_NONE if self.mtp_depth or name == "feed_forward_layers" else WHOLE, name, count)
        if counts and np.any(sum(count for _, count in counts) > np.asarray(self.layers)):
            names, got = (" and ".join(map(str, dict.fromkeys(each))) for each in zip(*counts, strict=True))
            raise ValueError(f"{names} must be at most layers, got {got} of {self.layers}")

    @cached_property
    def stacks(self) -> tuple[Stack, ...]:
        """The layers by their blocks."""
        return tuple(stack for stack in self._stacks() if not (np.ndim(stack.count) == 0 and stack.count == 0))

    @cached_property
    def counted(self) -> tuple[tuple[Number, Block], ...]:
        """The blocks of every stack, and how many layers have them."""
        return tuple((stack.count, block) for stack in self.stacks for block in stack.blocks)

    @cached_property
    def blocks(self) -> tuple[Block, ...]:
        """Each kind of block that it has, once."""
        return tuple(dict.fromkeys(block for _, block in self.counted))

    @cached_property
    def routings(self) -> tuple[tuple[Number, Routing], ...]:
        """How tokens choose experts, and how many layers have them choose."""
        return tuple((count, routing) for count, block in self.counted if (routing := block.routing(self)))

    @cached_property
    def limits(self) -> tuple[tuple[Block, str, str, int], ...]:
        """What an axis must divide to cut a block: the block, the axis, and a name and a number; 1 has no name."""
        return tuple((block, axis, *most) for block in self.blocks for axis, most in block.limits(self).items())

    def _stacks(self) -> Iterator[Stack]:
        depth, mixing, of_others = self.predicting, self.layers, sum(count for count, _ in self.others)
        if self.feed_forward_layers is not None:
            mixing = self.layers - self.feed_forward_layers
        rest = mixing - of_others - depth
        if self.feed_forward_layers is not None:
            for count, block in (*self._attention(rest), *self.others):
                yield Stack(count, (block,))
            yield Stack(self.feed_forward_layers - depth, (self._feed_forward,))
        else:
            # The first layers, which mix tokens as most do; of many models, all of those without experts.
            dense = self.dense_layers * (self.experts > 0)
            if np.any(self.experts) and not np.all(self.experts):
                dense = np.where(np.asarray(self.experts) > 0, dense, self.layers)
            for count, block in (*self._attention(rest), *self.others):
                leading = pick(count < dense, count, dense)
                yield Stack(leading, self._joined(block, FeedForward()), leading=True)
                yield Stack(count - leading, self._joined(block, self._feed_forward))
                dense = dense - leading
        last = [(depth, self.others[-1][1])] if self.others and np.all(np.equal(rest, 0)) else self._attention(depth)
        for count, block in last:
            yield Stack(count, (*self._joined(block, self._feed_forward), MultiToken()), sixteen_bits=True)

    def _joined(self, *blocks: Block) -> tuple[Block, ...]:
        """Blocks of a layer; where there are several streams, each with what puts these together for it."""
        return blocks if self.streams == 1 else tuple(one for block in blocks for one in (HyperConnection(), block))

    def _attention(self, count: Number) -> list[tuple[Number, Block]]:
        """So many layers of attention; of many models, with and without latents."""
        latent = np.asarray(self.kv_rank) > 0
        if np.all(latent) or not np.any(latent):
            return [(count, LatentAttention() if np.all(latent) else Attention())]
        return [(count * latent, LatentAttention()), (count * ~latent, Attention())]

    @cached_property
    def _deeper(self) -> Transformer:
        """What :func:`trained` returns where there is multi-token prediction."""
        depth, halves = self.mtp_depth, self.feed_forward_layers  # of layers that are one block each
        if halves is None:
            return replace(self, layers=self.layers + depth, predicting=depth)
        return replace(self, layers=self.layers + 2 * depth, feed_forward_layers=halves + depth, predicting=depth)

    @property
    def _feed_forward(self) -> Block:
        return Experts() if np.any(self.experts) else FeedForward()

    def count(self, kind: type[Block]) -> Number:
        """Return how many of its blocks are of a kind.

        Examples
        --------
        >>> from clusterlab.model import Attention, Mamba2, transformer
        >>> nano = transformer("Nemotron 3 Nano")
        >>> nano.layers, nano.count(Attention), nano.count(Mamba2)
        (52, 6, 23)
        """
        return sum(count * isinstance(block, kind) for count, block in self.counted)

    @cached_property
    def _arrays(self) -> dict[str, np.ndarray]:
        values = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "others"}
        return {name: value for name, value in values.items() if np.ndim(value)}

    def broadcasts(self, **values: Numeric) -> None:
        """Raise a ValueError unless the fields of the model and the values beside them broadcast together."""
        if self._arrays:
            broadcastable(**self._arrays, **values)

    def _rows(self) -> Rows:
        shown = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in ("name", "others")}
        for count, block in self.others:
            for name, value in {"layers": count, **vars(block)}.items():
                shown[f"{block.prefix}_{name}"] = [*shown.get(f"{block.prefix}_{name}", []), value]
        shown["streams"] = self.streams * (self.streams != 1)
        texts = {name: _shown(value) for name, value in shown.items() if np.any(value)}
        return [(self.name, "shape"), *((words(name), value) for name, value in texts.items())]


def _shown(value: Numeric | list[Numeric]) -> str:
    """A size as a record shows it: of several kinds of one block, each where they differ."""
    if isinstance(value, list):
        return ", ".join(map(summary, value if len(set(value)) > 1 else value[:1]))
    return "yes" if value is True else summary(value)


_MAY_BE_ZERO: tuple[str, ...] = ("positions", "experts", "experts_per_token", "shared_experts", "dense_layers")
_MAY_BE_ZERO += ("query_rank", "kv_rank", "rope_dim", "node_limit", "expert_latent", "mtp_depth", "predicting")
_AT_MOST = {"experts_per_token": "experts", "dense_layers": "layers"}
_NEEDS = {"experts": "experts_per_token", "shared_experts": "experts", "query_rank": "kv_rank", "rope_dim": "kv_rank"}
_NEEDS |= {"node_limit": "experts", "expert_latent": "experts"}


def trained(model: Transformer) -> Transformer:
    """The shape that training runs: each depth of multi-token prediction is one more layer with a feed-forward.

    And one more pass of the output layer. Published numbers of parameters leave it out, and so does serving. A step
    multiplies it at 16 bits (Megatron-Bridge, ``keep_mtp_spec_in_bf16``), and joins each depth to the one before.

    Parameters
    ----------
    model : Transformer
        One shape.

    Returns
    -------
    Transformer

    Notes
    -----
    Source: Gloeckle et al. 2024; DeepSeek-V3 2024, section 2.2.

    Examples
    --------
    >>> from clusterlab.model import FeedForward, transformer
    >>> super_ = transformer("Nemotron 3 Super")
    >>> super_.layers, trained(super_).layers, trained(super_).count(FeedForward)
    (88, 92, 42)
    """
    return model._deeper if some(model.mtp_depth != 0) and not some(model.predicting != 0) else model
