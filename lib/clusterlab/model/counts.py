"""Counts: what follows from a shape alone: its parameters, the FLOPs of a token, the bytes of its caches.

FLOPs are those of the GEMMs and of attention, two per multiply-add; norms, activations, rotary embeddings and the
softmax are left out, as in every published FLOP count.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np

from ..checks import broadcastable, choose, flags, pick
from ..quantities import Amount, Bytes, Flops, Number, PositiveBytes, law
from ..records import Explained, Rows, listed, summary
from .blocks import Embedding, Output
from .shape import Transformer, trained

# --- Parameters ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class ParameterCount(Explained):
    """The parameters of a decoder. The parts add up to ``total``; a token uses all but ``unselected_experts``."""

    embedding: Number
    positions: Number
    attention: Number
    recurrent: Number  # mixers that keep a state
    feed_forward: Number  # of the dense layers
    selected_experts: Number
    unselected_experts: Number
    shared_experts: Number
    router: Number  # and the projections to and from what experts work on
    norms_and_biases: Number
    output: Number  # 0 where it is tied to the embedding

    @property
    def total(self) -> Number:
        """All parameters."""
        return sum(getattr(self, f.name) for f in fields(self))

    @property
    def active(self) -> Number:
        """Parameters that one token uses. The whole embedding counts, although a token reads only one row."""
        return self.total - self.unselected_experts

    def _rows(self) -> Rows:
        return listed(self, "", "parameters", "total", "active")


@law
def parameters(model: Transformer) -> ParameterCount:
    r"""Parameters of a decoder, total and active.

    .. math:: N = (1 + [\text{untied}])\,V h + \sum_\text{blocks} N_\text{block} + \text{final norm, positions}

    What a block holds stands with its class: :class:`Attention`, :class:`LatentAttention`, :class:`FeedForward`,
    :class:`Experts`, :class:`Mamba2`, :class:`GatedDeltaNet`; each has a norm besides.

    Parameters
    ----------
    model : Transformer
        The shape.

    Returns
    -------
    ParameterCount
        Integers where the shape is of integers: the count of a checkpoint to the last element for most models.

    Notes
    -----
    Source: Narayanan et al. 2021 (SC21), equation 2, for GPT: 12 l h^2 (1 + 13/12h + (V + s)/12lh); this count is that
    one and the 2h of the final norm. Left out: norms of queries and keys or of MLA's latents, sinks, and the biases of
    a router and of experts, together below 4 in 10,000 of any model in the catalogue.

    Examples
    --------
    Mixtral 8x7B is not 8 times 7 billion: its experts share attention and embeddings.

    >>> mixtral = Transformer(layers=32, hidden=4096, heads=32, kv_heads=8, ffn=14336, gated=True, vocab=32000,
    ...                       experts=8, experts_per_token=2)
    >>> parameters(mixtral).total, parameters(mixtral).active
    (46702792704, 12879925248)
    """
    parts = [(count, block.counts(model)) for count, block in model.counted]
    parts += [(1, Embedding().counts(model)), (1, Output().counts(model))]
    found: dict[str, Number] = dict.fromkeys((f.name for f in fields(ParameterCount)), 0)
    for count, each in parts:
        for name, amount in each.items():
            found[name] = found[name] + count * amount
    return ParameterCount(**found)


# --- FLOPs of a token ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class ForwardFlops(Explained):
    """FLOPs of one token's forward pass, part by part; ``total`` is their sum."""

    projections: Flops  # of mixers
    scores: Flops  # queries with keys, and weights with values: the attention term
    scan: Flops  # of mixers that keep a state
    feed_forward: Flops
    router: Flops
    logits: Flops

    @property
    def total(self) -> Flops:
        """FLOPs of the whole pass."""
        return self.layers + self.logits

    @property
    def layers(self) -> Flops:
        """FLOPs of the layers: all but the output layer."""
        return self.projections + self.scores + self.scan + self.feed_forward + self.router

    def _rows(self) -> Rows:
        return listed(self, "FLOP", "FLOP per token", "total")


@law
def forward_flops(model: Transformer, sequence: Number, *, causal: bool = False) -> ForwardFlops:
    r"""FLOPs of one token's forward pass, averaged over a sequence.

    .. math:: 2\,(\text{weights that the token meets}) + 2 L H (d_{qk} + d_v)\,\bar{s} + \text{scans}

    The second term is attention itself. The mean context is the sequence s, as published FLOP counts take it, or
    (s + 1)/2 where the causal mask is exploited; a layer with a window w sees min(s, w) or the mean under the mask.

    Parameters
    ----------
    model : Transformer
        The shape.
    sequence
        Tokens of a sequence, s.
    causal : bool
        Whether to count only the (query, key) pairs that the causal mask keeps. MFU as published counts all s.

    Returns
    -------
    ForwardFlops
        Per token. The embedding is a lookup and costs none.

    Notes
    -----
    Source: Narayanan et al. 2021 (SC21), appendix, for GPT: 24 h^2 + 4 s h for each layer and 2 h V for the output;
    Chowdhery et al. 2022 (PaLM), appendix B, for 2N + 4 L H d s.

    Examples
    --------
    At 128k tokens, attention is four fifths of the work of an 8B model.

    >>> llama = Transformer(layers=32, hidden=4096, heads=32, kv_heads=8, ffn=14336, gated=True, vocab=128256)
    >>> short, long = forward_flops(llama, 8192), forward_flops(llama, 131072)
    >>> round(short.scores / short.total, 2), round(long.scores / long.total, 2)
    (0.22, 0.82)
    """
    model.broadcasts(sequence=sequence)
    flags(causal=causal)
    found: dict[str, Flops] = dict.fromkeys(_FORWARD, 0)
    for count, block in model.counted:
        for name, flops in block.flops(model).items():
            found[name] = found[name] + count * flops
        found["scores"] = found["scores"] + count * block.scores(model, sequence, causal=causal)
        found["scan"] = found["scan"] + count * block.scan(model)[0]
    found["logits"] = Output().flops(model)
    return ForwardFlops(**found)


_FORWARD = tuple(f.name for f in fields(ForwardFlops))


def alternate_share(model: Transformer) -> Number:
    """Return the share of a layer's GEMMs that is every second one: keys, output and up of q, k, v, o, gate, up, down.

    Examples
    --------
    >>> from clusterlab.model import transformer
    >>> round(alternate_share(transformer("Llama 3.1 8B")), 2)
    0.37
    """
    blocks = [(count, block, block.columns(model)) for count, block in model.counted]
    mixers = [columns for _, block, columns in blocks if not block.feeds_forward and np.any(columns.total)]
    again, total = mixers[0] if mixers else (0, 0)
    of_last: tuple[Number, Number] = (0, 0)
    for count, block, columns in blocks:
        if block.feeds_forward:  # the first layers come first; of many models, each has its own last
            of_last = tuple(pick(count > 0, *both) for both in zip(columns, of_last, strict=True))
    total = total + of_last[1]
    return (again + of_last[0]) / pick(total > 0, total, 1)


@dataclass(frozen=True, repr=False)
class TrainingFlops(Explained):
    """FLOPs of one token in training: ``model`` for MFU, and ``hardware``, with recomputation, for HFU."""

    forward: Flops
    backward: Flops
    recomputed: Flops

    @property
    def model(self) -> Flops:
        """Model FLOPs: forward and backward, without recomputation."""
        return self.forward + self.backward

    @property
    def hardware(self) -> Flops:
        """Hardware FLOPs: those of the model, and the recomputed ones."""
        return self.model + self.recomputed

    def _rows(self) -> Rows:
        parts = ((name, getattr(self, name)) for name in (*self.__dataclass_fields__, "model", "hardware"))
        return [("", "FLOP per token"), *((name, summary(value, "FLOP")) for name, value in parts)]


@law
def training_flops(
    model: Transformer, sequence: Number, *, recompute: str | Sequence[str] = "none", causal: bool = False
) -> TrainingFlops:
    r"""FLOPs of one token in training: a forward pass F, a backward pass of 2F, and what is recomputed.

    .. math:: \text{model} = 3F, \qquad
        \text{hardware} = 3F +
        \{0,\; F_\text{scores},\; \alpha\,(F_\text{layers} - F_\text{scores}),\; F_\text{layers}\}

    with :math:`\alpha` the share of keys, output and up projection in a layer's GEMMs.

    Parameters
    ----------
    model : Transformer
        The shape.
    sequence
        Tokens of a sequence.
    recompute : str or array of str
        ``"none"``; ``"selective"``: the scores and what follows up to the weighted values; ``"alternate"``: every
        second GEMM of a layer; ``"full"``: every layer from its input. The output layer is never recomputed.
    causal : bool
        As in :func:`forward_flops`.

    Returns
    -------
    TrainingFlops
        Per token.

    Notes
    -----
    Source: Narayanan et al. 2021 (SC21), equation 3: 96 B s l h^2 (1 + s/6h + V/16lh) is ``hardware`` under full
    recomputation for a GPT. Korthikanti et al. 2022, appendix A, for model FLOPs; they give selective recomputation
    hardware FLOPs of 72 B s l h^2 (1 + s/3h + V/12lh), their equation 8, but the 4 B s^2 h a layer that they add
    make it 2s/9h, not s/3h: their HFU counts the recomputed scores three times.

    Examples
    --------
    >>> gpt = Transformer(layers=96, hidden=12288, heads=96, ffn=49152, vocab=51200)
    >>> [round(training_flops(gpt, 2048, recompute=r).hardware / 1e9) for r in ("none", "selective", "full")]
    [1076, 1086, 1434]
    """
    model = trained(model)
    forward = forward_flops.unchecked(model, sequence, causal=causal)
    forward = replace(forward, logits=forward.logits * (1 + model.mtp_depth))
    broadcastable(**model._arrays, sequence=sequence, recompute=recompute)
    products = forward.layers - forward.scores
    again = {"none": 0 * forward.layers, "selective": forward.scores, "alternate": alternate_share(model) * products}
    recomputed = choose(again | {"full": forward.layers}, recompute=recompute)
    return TrainingFlops(forward.total, 2 * forward.total, recomputed)


# --- The key-value cache ---------------------------------------------------------------------------------------------


@law
def kv_bytes_per_token(model: Transformer, *, bytes_per_element: PositiveBytes = 2) -> Bytes:
    r"""Bytes of keys and values that one more token adds to the cache.

    .. math:: 2\,b\,L\,H_{kv}\,d \quad \text{(MHA, GQA, MQA)}, \qquad b\,L\,(r_{kv} + d_r) \quad \text{(MLA)}

    Parameters
    ----------
    model : Transformer
        The shape.
    bytes_per_element
        2 for BF16, 1 for FP8, b.

    Returns
    -------
    Bytes
        A layer with a window stops growing at its window: see :func:`kv_cache_bytes`.

    Notes
    -----
    Source: Shazeer 2019 and Ainslie et al. 2023 for shared heads; DeepSeek-V2 2024, table 1, for MLA.

    Examples
    --------
    Llama 2 7B keeps all its heads, Llama 3 8B a quarter of them.

    >>> from dataclasses import replace
    >>> llama = Transformer(layers=32, hidden=4096, heads=32, ffn=14336, gated=True, vocab=128256)
    >>> [kv_bytes_per_token(replace(llama, kv_heads=heads)) / 2**10 for heads in (32, 8, 1)]
    [512.0, 128.0, 16.0]
    """
    return kv_cache_bytes.unchecked(model, 1, bytes_per_element=bytes_per_element)


@law
def kv_cache_bytes(model: Transformer, context: Amount, *, bytes_per_element: PositiveBytes = 2) -> Bytes:
    r"""Bytes of the key-value cache of one sequence.

    .. math:: b\,e\left((L - L_w)\,s + L_w \min(s, w)\right)

    Parameters
    ----------
    model : Transformer
        The shape, with e cached elements a token and layer, and L_w layers of window w.
    context
        Tokens of the sequence so far, s.
    bytes_per_element
        2 for BF16, 1 for FP8, b.

    Notes
    -----
    Source: as :func:`kv_bytes_per_token`; Beltagy et al. 2020 for windows.

    Examples
    --------
    >>> from clusterlab.units import fmt
    >>> llama = Transformer(layers=126, hidden=16384, heads=128, kv_heads=8, ffn=53248, gated=True, vocab=128256)
    >>> fmt(kv_cache_bytes(llama, 131072), "B")
    '67.6 GB'
    """
    model.broadcasts(context=context, bytes_per_element=bytes_per_element)
    return sum(count * block.cache_elements(model, context) for count, block in model.counted) * bytes_per_element


@law
def state_bytes(model: Transformer, *, bytes_per_element: PositiveBytes = 4) -> Bytes:
    r"""Bytes of the states that a hybrid keeps of one sequence, however long it is.

    .. math:: b\,L_\text{Mamba} \left(N d + 3\,(d + 2 g)\right)

    The second term are the last tokens that the convolution over four still needs.

    Parameters
    ----------
    model : Transformer
        The shape: d, g and N as in :class:`Mamba2`.
    bytes_per_element
        4 for FP32, b.

    Notes
    -----
    Source: Dao and Gu 2024 (Mamba-2), section 7.

    Examples
    --------
    At 8,192 tokens Nemotron-H 8B keeps 235 MB of keys, values and states; Llama 3.1 8B 1.07 GB of keys and values.

    >>> from clusterlab.model import transformer
    >>> from clusterlab.units import fmt
    >>> hybrid = transformer("Nemotron-H 8B")
    >>> fmt(state_bytes(hybrid), "B"), fmt(kv_cache_bytes(hybrid, 8192), "B")
    ('104 MB', '134 MB')
    """
    model.broadcasts(bytes_per_element=bytes_per_element)
    return sum(count * block.state_elements(model) for count, block in model.counted) * bytes_per_element
