"""Memory: what one accelerator must hold to train a model under a layout, and whether it fits.

A layout says how many ranks share what: ``tp`` split every matrix, ``pp`` the layers, ``cp`` the sequence, ``dp`` the
batch, ``ep`` the experts. What a rank holds is its share of the model state (weights, gradients, optimizer state, each
divided further by a ZeRO stage), the activations of the microbatches in flight, what recomputation needs for a moment,
and what is reserved or lost. Every argument broadcasts: a layout of arrays is as many layouts.

Activations are counted as Korthikanti et al. 2022 count them, tensor by tensor, for any decoder. What the driver, the
communication library and the allocator take is not modelled: ``reserved`` and ``fragmentation`` are what you say.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

import numpy as np

from .pipeline import SCHEDULES, in_flight
from .transformer import attention_parameters, expert_parameters
from .units import Explained, choose, nonnegative, positive, summary, whole


def _sum_rows(record, unit):
    """A record whose fields are parts in bytes: one row for each that is there, and the total."""
    parts = {name: getattr(record, name) for name in record.__dataclass_fields__}
    rows = [(name.replace("_", " "), summary(value, unit)) for name, value in parts.items() if np.any(value)]
    return [("", unit), *rows, ("total", summary(record.total, unit))]


# --- Model state -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class ModelState(Explained):
    """Bytes of the model state on one rank; ``total`` is their sum."""

    weights: float
    gradients: float
    optimizer: float

    @property
    def total(self):
        """Bytes of weights, gradients and optimizer state."""
        return self.weights + self.gradients + self.optimizer

    @property
    def checkpoint(self):
        """Bytes that a checkpoint keeps: weights and optimizer state. Gradients are computed again."""
        return self.weights + self.optimizer

    def _rows(self):
        return [*_sum_rows(self, "B"), ("checkpoint", summary(self.checkpoint, "B"))]


def model_state(parameters, *, shards=1, zero=0, weight_bytes=2, gradient_bytes=4, optimizer_bytes=12) -> ModelState:
    r"""Model state of one rank, part of it shared out over the ranks that hold the same parameters.

    .. math:: N\left(\frac{b_w}{[z \ge 3]\,n} + \frac{b_g}{[z \ge 2]\,n} + \frac{b_o}{[z \ge 1]\,n}\right),
        \quad [\cdot]\,n = 1 \text{ where not so}

    Parameters
    ----------
    parameters : array_like
        Parameters N of a rank before sharing.
    shards : array_like
        Ranks n that share: those of data (and context) parallelism, or fewer in hybrid sharding.
    zero : array_like
        ZeRO stage z: 0 nothing is shared, 1 the optimizer state, 2 and the gradients, 3 and the weights (FSDP).
    weight_bytes, gradient_bytes, optimizer_bytes : array_like
        Bytes of each a parameter. By default BF16 weights, gradients summed in FP32 (Megatron-LM; DeepSpeed keeps 2),
        and for Adam an FP32 copy of the weight and two moments.

    Returns
    -------
    ModelState

    Raises
    ------
    ValueError
        An argument is negative or not finite, ``shards`` is no whole number of at least 1, or ``zero`` is not 0 to 3.

    Notes
    -----
    Source: Rajbhandari et al. 2020 (ZeRO), section 5 and figure 1, for 2 + 2 + 12 bytes and the three stages; NVIDIA
    Megatron-LM, distributed optimizer, for 4-byte gradients: 18 bytes, or 6 + 12/n at stage 1.

    Examples
    --------
    A checkpoint of a mixed-precision Adam run is 14 bytes a parameter; training needs the gradients too.

    >>> model_state(175e9)
    ModelState
                      B
    weights      350 GB
    gradients    700 GB
    optimizer    2.1 TB
    total       3.15 TB
    checkpoint  2.45 TB
    """
    (count,) = nonnegative(parameters=parameters)
    each = _bytes_per_parameter(shards, zero, weight_bytes, gradient_bytes, optimizer_bytes)
    return ModelState(*(count * size for size in each))


def _bytes_per_parameter(shards, zero, weight_bytes, gradient_bytes, optimizer_bytes):
    """Bytes of weight, gradient and optimizer state that a rank holds for each of its parameters."""
    (n,) = whole(shards=shards)
    stage, *sizes = nonnegative(
        zero=zero, weight_bytes=weight_bytes, gradient_bytes=gradient_bytes, optimizer_bytes=optimizer_bytes
    )
    if np.any((stage > 3) | (stage != np.floor(stage))):
        raise ValueError(f"zero must be 0, 1, 2 or 3, got {zero}")
    return [size / np.where(stage >= first, n, 1) for size, first in zip(sizes, (3, 2, 1), strict=True)]


# --- Activations -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class LayerActivations(Explained):
    """Bytes that one layer keeps of one microbatch for the backward pass; ``total`` is their sum."""

    norms: float  # inputs of the two norms
    attention: float  # inputs of the projections; queries, keys and values; latents
    scores: float  # what selective recomputation drops and a fused kernel never keeps
    feed_forward: float
    experts: float  # of the selected and the shared experts
    dropout: float  # masks

    @property
    def total(self):
        """Bytes of the layer."""
        return self.norms + self.attention + self.scores + self.feed_forward + self.experts + self.dropout

    def _rows(self):
        return _sum_rows(self, "B")


def layer_activations(
    model,
    *,
    sequence,
    microbatch=1,
    tp=1,
    cp=1,
    moe=False,
    sequence_parallel=True,
    fused_attention=True,
    dropout=False,
    activation_bytes=2,
) -> LayerActivations:
    r"""Activations that one layer keeps of one microbatch, without recomputation.

    For a GPT (f = 4h, dropout, attention not fused) with b sequences of s tokens on t tensor-parallel ranks this is

    .. math:: s b h \left(10 + \frac{24}{t} + \frac{5 a s}{h t}\right), \qquad
        \frac{s b h}{t}\left(34 + \frac{5 a s}{h}\right) \text{ with sequence parallelism.}

    Parameters
    ----------
    model : Transformer
        The shape.
    sequence, microbatch : array_like
        Tokens of a sequence, and sequences of a microbatch.
    tp, cp : array_like
        Ranks of tensor and of context parallelism.
    moe : bool
        Whether the layer is one of the mixtures of experts.
    sequence_parallel : bool or array of bool
        Whether the tensor-parallel ranks share out what each would otherwise hold whole: inputs of norms and of the
        blocks, and dropout masks.
    fused_attention : bool
        Whether the attention kernel keeps no scores (FlashAttention).
    dropout : bool
        Whether masks of one byte are kept, after attention, the feed-forward and the softmax.
    activation_bytes : array_like
        Bytes of an element.

    Returns
    -------
    LayerActivations
        Bytes on each tensor-parallel rank. Means and variances of norms, and the one number a query that a fused kernel
        keeps, are left out.

    Raises
    ------
    ValueError
        An argument is not a positive, finite number, a count is none, ``tp`` does not divide the heads, or a switch is
        no bool.

    Notes
    -----
    Source: Korthikanti et al. 2022, section 4 and table 2. Derived for the rest by their rule, the input of every
    operation whose gradient needs it: a gated feed-forward keeps gate, up and product; latent attention the latents as
    well; experts the dispatched tokens and their outputs, balanced over the ranks.

    Examples
    --------
    A layer of GPT-3, as in 2022 and with a fused kernel and no dropout.

    >>> from clusterlab.models import model
    >>> gpt = model("GPT 175B")
    >>> layer_activations(gpt, sequence=2048, tp=8, fused_attention=False, dropout=True)
    LayerActivations
                        B
    norms         12.6 MB
    attention     31.5 MB
    scores         252 MB
    feed forward  56.6 MB
    dropout       6.29 MB
    total          359 MB
    >>> round(layer_activations(gpt, sequence=2048, tp=8).total / 1e6)
    101
    """
    s, b, size = positive(sequence=sequence, microbatch=microbatch, activation_bytes=activation_bytes)
    t, c = whole(tp=tp, cp=cp)
    _divides("tp", t, "heads", model.heads)
    _switches(moe=moe, fused_attention=fused_attention, dropout=dropout)
    shared = np.where(_flag("sequence_parallel", sequence_parallel), t, 1)
    tokens = s * b / c
    return _activations(model, s, tokens, t, shared, size, moe, fused_attention, dropout)


def _activations(model, s, tokens, t, shared, size, moe, fused, dropout) -> LayerActivations:
    """The count itself, its arguments checked. ``shared`` ranks share what sequence parallelism splits."""
    h, heads, d, value_dim, gates = model.hidden, model.heads, model.head_dim, model.value_dim, 1 + model.gated
    stream = size * tokens * h / shared  # one tensor as wide as the stream
    split = size * tokens / t  # one number a token, where tensor parallelism splits
    if np.any(model.kv_rank):
        # Both latents before and after their norm, and queries and keys with their rotary part.
        latents = size * tokens / shared * (2 * (model.query_rank + model.kv_rank) + model.rope_dim)
        qkv = heads * (2 * (d + model.rope_dim) + value_dim)
    else:
        latents = 0.0
        # A key head is on every rank that has one of its query heads.
        qkv = heads * d + 2 * np.maximum(model.kv_heads, t) * d
    if moe:
        width = model.experts_per_token + model.shared_experts
        # Dispatched tokens, their way through the experts, and their outputs, which the weighted sum needs.
        routed = model.experts_per_token * 2 * h
        experts = stream + split * (routed + width * (1 + gates) * model.expert_ffn)
        feed_forward = 0.0
    else:
        experts = 0.0
        feed_forward = stream + split * (1 + gates) * model.ffn
    # Without fusion: the softmax, and with dropout its mask and what it leaves. A mask is one byte an element.
    return LayerActivations(
        norms=2 * stream,
        attention=stream + latents + split * (qkv + heads * value_dim),
        scores=0.0 if fused else heads / t * tokens * s * (size + (1 + size if dropout else 0.0)),
        feed_forward=feed_forward,
        experts=experts,
        dropout=2 * tokens * h / shared if dropout else 0.0,
    )


def _flag(name, value):
    flags = np.asarray(value)
    if flags.dtype != bool:
        raise ValueError(f"{name} must be True or False, got {value!r}")
    return flags


def _switches(**values):
    for name, value in values.items():
        if not isinstance(value, bool):
            raise ValueError(f"{name} must be True or False, got {value!r}")


def _divides(name, part, of, count):
    if np.any(np.asarray(count) % part != 0):
        raise ValueError(f"{name} must divide {of}, got {summary(part)} and {summary(count)}")


# --- Stages ----------------------------------------------------------------------------------------------------------


def stage_layers(layers, stages, stage=0, *, chunks=1):
    r"""Layers of one pipeline stage, where they are shared out as evenly as can be.

    The model is cut into stages times chunks pieces of ceil(layers / pieces) layers. Where that is too many, the last
    piece has one less, then the first, the last but one, and so on: the ends also have the loss and the embedding.

    Parameters
    ----------
    layers, stages : array_like
        Layers of the model and stages of the pipeline.
    stage : array_like
        The stage, counted from 0.
    chunks : array_like
        Pieces a stage, dealt in turn: stage i has pieces i, i + stages, i + 2 stages and so on.

    Returns
    -------
    array_like
        Layers of the stage. They add up to ``layers`` over the stages.

    Raises
    ------
    ValueError
        A count is no whole number of at least 1, there is no such stage, or more than two pieces would be empty.

    Notes
    -----
    Source: The Llama 3 Herd of Models 2024, section 3.3.2: one layer less on the first and on the last stage; here for
    any number.

    Examples
    --------
    Llama 3 405B: 126 layers on 16 stages.

    >>> [float(stage_layers(126, 16, i)) for i in (0, 1, 14, 15)]
    [7.0, 8.0, 8.0, 7.0]
    """
    n, p, v = whole(layers=layers, stages=stages, chunks=chunks)
    i = _stage(stage, p)
    _, front, back, size = _pieces(n, p, v)
    return v * size - _pieces_before(front, i, p, v) - _pieces_before(back, p - 1 - i, p, v)


def _stage(stage, stages):
    (i,) = nonnegative(stage=stage)
    if np.any(i >= stages) or np.any(i != np.floor(i)):
        raise ValueError(f"stage must be a whole number from 0 to stages - 1, got {stage} of {stages}")
    return i


def _pieces(layers, p, v):
    """Pieces of the model, how many at the front and at the back are short of a layer, and the layers of the others."""
    pieces = p * v
    if np.any(pieces > layers + 2):
        raise ValueError(f"stages times chunks must be at most layers + 2, got {np.max(pieces):g} and {layers:g}")
    size = np.ceil(layers / pieces)
    short = pieces * size - layers
    return pieces, np.floor(short / 2), np.ceil(short / 2), size


def _pieces_before(limit, i, p, v):
    """Pieces of stage i that are among the first ``limit``."""
    return np.clip(np.ceil((limit - i) / p), 0, v)


def _dense_layers(model, i, p, v):
    """Layers of a stage that are among the first ``dense_layers`` of a mixture of experts."""
    pieces, front, back, size = _pieces(model.layers, p, v)
    found, chunk = 0.0 * i, 0
    while True:
        piece = i + chunk * p
        start = piece * size - np.minimum(piece, front) - np.maximum(piece - (pieces - back), 0)
        if not np.any((chunk < v) & (start < model.dense_layers)):
            return found
        held = size - (piece < front) - (piece >= pieces - back)
        found = found + (chunk < v) * np.clip(model.dense_layers - start, 0, held)
        chunk += 1


# --- Everything on one rank ------------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class Footprint(Explained):
    """Bytes on one rank, part by part; ``total`` is their sum."""

    weights: float
    gradients: float
    optimizer: float
    gathered: float  # layers put together again under ZeRO 2 and 3
    activations: float  # of all microbatches in flight
    recomputation: float  # the layer that is being recomputed
    output: float  # logits and the input of the output layer, on the last stage
    fragmentation: float
    reserved: float

    @property
    def state(self):
        """Bytes of the model state."""
        return self.weights + self.gradients + self.optimizer

    @property
    def dynamic(self):
        """Bytes that come and go within a step."""
        return self.gathered + self.activations + self.recomputation + self.output

    @property
    def total(self):
        """Bytes in all."""
        return self.state + self.dynamic + self.fragmentation + self.reserved

    def headroom(self, capacity):
        """Bytes left of ``capacity``; below zero, the bytes that are missing."""
        (capacity,) = positive(capacity=capacity)
        return capacity - self.total

    def fits(self, capacity):
        """Whether ``capacity`` bytes are enough."""
        return self.headroom(capacity) >= 0

    def _rows(self):
        return _sum_rows(self, "B")


def footprint(
    model,
    *,
    sequence,
    microbatches,
    microbatch=1,
    tp=1,
    pp=1,
    dp=1,
    cp=1,
    ep=1,
    etp=None,
    chunks=1,
    schedule="interleaved",
    stage=None,
    zero=1,
    shard_group=None,
    recompute="none",
    sequence_parallel=True,
    fused_attention=True,
    dropout=False,
    weight_bytes=2,
    gradient_bytes=4,
    optimizer_bytes=12,
    activation_bytes=2,
    logit_bytes=4,
    fragmentation=0,
    reserved=0,
) -> Footprint:
    r"""Memory of one rank in training, part by part.

    .. math:: M = \underbrace{\frac{\text{state}}{t \cdot p \cdot \text{ZeRO}}}_\text{stays} + \underbrace{
        L_i\,F_i\,A + \text{gathered} + \text{recomputation} + \text{output}}_{D,\;\text{comes and goes}}
        + \varphi D + \text{reserved}

    with L_i layers on stage i, F_i microbatches in flight (:func:`clusterlab.pipeline.in_flight`) and A bytes a layer
    and microbatch (:func:`layer_activations`).

    Parameters
    ----------
    model : Transformer
        The shape.
    sequence, microbatch, microbatches : array_like
        Tokens of a sequence, sequences of a microbatch, and microbatches of a step on each data-parallel rank.
    tp, pp, dp, cp : array_like
        Ranks of tensor, pipeline, data and context parallelism.
    ep, etp : array_like
        Ranks that share out the experts, and those that split each: by default ``tp``, or 1 where ``ep`` is above 1, as
        in :func:`clusterlab.training.step`. Together they divide tp cp dp.
    chunks, schedule : array_like, str or array of str
        Pieces a stage and the schedule, as in :func:`clusterlab.pipeline.simulate`.
    stage : array_like, optional
        The stage, counted from 0. By default the one that needs most.
    zero : array_like
        ZeRO stage, 0 to 3, over the dp cp ranks with the same parameters; 1 as in :func:`clusterlab.training.step`.
    shard_group : array_like, optional
        Ranks that share under ZeRO where not all do (hybrid sharding).
    recompute : str or array of str
        ``"none"``, ``"selective"`` (keeps no scores) or ``"full"`` (keeps the input of each layer).
    sequence_parallel, fused_attention, dropout, activation_bytes
        As in :func:`layer_activations`.
    weight_bytes, gradient_bytes, optimizer_bytes : array_like
        As in :func:`model_state`.
    logit_bytes : array_like
        Bytes of one logit: FP32, or 2 where the loss is computed from BF16.
    fragmentation : array_like
        Bytes that the allocator loses, as a share of those that come and go, phi.
    reserved : array_like
        Bytes that others hold: driver, kernels, buffers of the communication library.

    Returns
    -------
    Footprint
        Bytes; ``headroom(capacity)`` and ``fits(capacity)`` compare them with the memory of an accelerator.

    Raises
    ------
    ValueError
        A count or size is none, ``tp`` does not divide the heads, ``ep`` the experts or ``shard_group`` the ranks,
        ``ep`` times ``etp`` does not divide tp cp dp, there are more than two empty pieces, or a switch is no bool.

    Notes
    -----
    Source: Korthikanti et al. 2022, section 4, whose sum over stages, in-flight factor and output terms these are;
    Rajbhandari et al. 2020 for ZeRO. A stage frees its output once it is sent (their appendix B). The first stage holds
    the embedding, the last the output layer, also where the two are tied. Assumed: two layers (or as much as the
    embedding, where that is larger) are gathered at a time under ZeRO 3, one at work and one ahead, in the precision of
    the activations, and one layer's gradients wait whole under ZeRO 2 and 3; the pieces of a stage weigh the same;
    experts are balanced; only norms, routers and MLA's down-projections are on every tensor-parallel rank.

    Examples
    --------
    The 530-billion model of Korthikanti et al. 2022 on 280 A100 of 80 GB: without recomputation it does not fit.

    >>> from clusterlab.models import model
    >>> from clusterlab.units import fmt
    >>> setup = {"sequence": 2048, "tp": 8, "pp": 35, "chunks": 3, "microbatches": 280, "dropout": True}
    >>> setup |= {"fused_attention": False, "zero": 0}
    >>> gpt = model("MT-NLG 530B")
    >>> need = {how: footprint(gpt, **setup, recompute=how) for how in ("none", "selective", "full")}
    >>> {how: fmt(one.headroom(80e9), "B") for how, one in need.items()}
    {'none': '-28.8 GB', 'selective': '17.5 GB', 'full': '40.7 GB'}
    >>> need["selective"]
    Footprint
                         B
    weights        4.12 GB
    gradients      8.24 GB
    optimizer      24.7 GB
    activations      25 GB
    recomputation   336 MB
    total          62.5 GB
    """
    s, b, size = positive(sequence=sequence, microbatch=microbatch, activation_bytes=activation_bytes)
    t, p, d, c, e, v, m = whole(tp=tp, pp=pp, dp=dp, cp=cp, ep=ep, chunks=chunks, microbatches=microbatches)
    (et,) = whole(etp=np.where(e > 1, 1, t) if etp is None else etp)
    logit, lost, others = nonnegative(logit_bytes=logit_bytes, fragmentation=fragmentation, reserved=reserved)
    _switches(fused_attention=fused_attention, dropout=dropout)
    shared = np.where(_flag("sequence_parallel", sequence_parallel), t, 1)
    _divides("tp", t, "heads", model.heads)
    _divides("ep times etp", e * et, "tp cp dp", t * c * d)
    _divides("ep", e, "experts", np.where(np.asarray(model.experts) > 0, model.experts, e))
    group, expert_group = c * d, t * c * d / (e * et)
    if shard_group is not None:
        (group,) = whole(shard_group=shard_group)
        _divides("shard_group", group, "dp cp", c * d)
        expert_group = np.minimum(group, expert_group)

    tokens = s * b / c
    stream = size * tokens * model.hidden / shared
    routed = model.experts * expert_parameters(model) / (e * et)  # of one layer
    kinds = {}  # of layer: what it keeps, what its recomputation takes, its parameters, those shared with other experts
    for moe in (False, True)[: 1 + bool(np.any(model.moe_layers))]:
        one = _activations(model, s, tokens, t, shared, size, moe, fused_attention, dropout)
        keeps = {"none": one.total, "selective": one.total - one.scores, "full": stream + 0 * one.total}
        again = {"none": 0 * one.total, "selective": one.scores, "full": one.total - stream}
        chosen = (choose(options, recompute=recompute) for options in (keeps, again))
        kinds[moe] = (*chosen, _layer_parameters(model, t, moe), routed if moe else 0.0)
    sizes = (zero, weight_bytes, gradient_bytes, optimizer_bytes)
    own_bytes, expert_bytes = (_bytes_per_parameter(n, *sizes) for n in (group, expert_group))
    z = np.asarray(zero)
    gathered = 2 * size * (z >= 3) + gradient_bytes * (z >= 2)  # bytes a parameter
    logits = logit * tokens * model.vocab / t
    waiting = choose(dict.fromkeys(SCHEDULES, 1.0) | {"gpipe": m}, schedule=schedule)

    def on_stage(i) -> Footprint:
        layers = {False: stage_layers(model.layers, p, i, chunks=v)}
        if True in kinds:
            dense = _dense_layers(model, i, p, v)
            layers = {False: dense, True: layers[False] - dense}
        embedding = (i == 0) * (model.vocab / t + model.positions) * model.hidden
        own_output = (p > 1) | (not model.tied)
        output = (i == p - 1) * (own_output * model.vocab / t + 1 + model.biases) * model.hidden
        own, shared_out = embedding + output, 0.0
        activations = (i == 0) * tokens * model.hidden / shared if dropout else 0.0
        largest, busiest = np.maximum(embedding, output), []
        for moe, (keeps, again, mine, experts) in kinds.items():
            own = own + layers[moe] * mine
            shared_out = shared_out + layers[moe] * experts
            activations = activations + layers[moe] * keeps
            largest = np.maximum(largest, (layers[moe] > 0) * (mine + experts))
            busiest.append((layers[moe] > 0) * again)
        parts = {
            "gathered": largest * gathered,
            "activations": activations * in_flight(p, m, i, schedule=schedule, chunks=v),
            "recomputation": reduce(np.maximum, busiest),
            "output": (i == p - 1) * waiting * (2 * stream + logits),
        }
        return Footprint(
            *(own * mine + shared_out * theirs for mine, theirs in zip(own_bytes, expert_bytes, strict=True)),
            **parts,
            fragmentation=lost * sum(parts.values()),
            reserved=others,
        )

    if stage is not None:
        return on_stage(_stage(stage, p))
    # Microbatches in flight only fall from stage to stage. So the worst is one of these: the ends, the first stage that
    # is not short of a layer, and, with dense layers before mixtures of experts, each stage up to the first without.
    _, front, _, most = _pieces(model.layers, p, v)
    candidates = [0 * p, p - 1, front % p]
    if True in kinds:
        beyond = np.minimum(np.ceil((model.dense_layers + front) / most), p - 1)
        candidates.append(np.maximum(beyond, front % p))
        if np.any(model.dense_layers):
            candidates += [np.minimum(k, p - 1) for k in range(1, int(np.max(beyond)) + 1)]
    return reduce(_larger, map(on_stage, candidates))


def _larger(one: Footprint, other: Footprint) -> Footprint:
    """Return the larger footprint, layout by layout."""
    take = other.total > one.total
    pairs = ((getattr(one, name), getattr(other, name)) for name in one.__dataclass_fields__)
    return Footprint(*(np.where(take, b, a)[()] for a, b in pairs))


def _layer_parameters(model, t, moe):
    """Parameters of one layer on each of t tensor-parallel ranks, without routed experts."""
    h, heads, d = model.hidden, model.heads, model.head_dim
    of_heads, for_all = attention_parameters(model)
    # A key head is on every rank that has one of its query heads.
    copies = np.where(model.kv_rank == 0, 2 * h * d * (np.maximum(model.kv_heads, t) - model.kv_heads), 0)
    biases = model.biases * ((heads + 2 * model.kv_heads) * d + (1 + model.gated) * model.ffn + 2 * h)
    if moe:
        for_all = for_all + h * model.experts
        feed_forward = model.shared_experts * expert_parameters(model)
    else:
        feed_forward = (2 + model.gated) * h * model.ffn
    return (of_heads + copies + feed_forward + biases) / t + for_all + 2 * h * (1 + model.biases)
