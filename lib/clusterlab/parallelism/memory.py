"""Memory: what one accelerator must hold to train a model under a layout, and whether it fits.

What a rank holds is its share of the model state (weights, gradients, optimizer state, each divided further by a ZeRO
stage), the activations of the microbatches in flight, what recomputation needs for a moment, and what is reserved or
lost. A :class:`~clusterlab.model.Layout` of arrays is as many layouts.

Activations are counted as Korthikanti et al. 2022 count them, tensor by tensor, for any decoder. What the driver, the
communication library and the allocator take is not modelled: ``reserved`` and ``fragmentation`` are what you say.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import reduce
from typing import NamedTuple

import numpy as np

from ..catalogue import SOFTWARE, Software
from ..checks import choose, larger, nonnegative, pick, positive, smaller, whole
from ..model import (
    PRECISIONS,
    Layout,
    Transformer,
    Workload,
    attention_parameters,
    beside_parameters,
    expert_input,
    expert_parameters,
    mamba_parameters,
    trained,
)
from ..records import Explained, summary, words
from .pipeline import SCHEDULES, _held, _in_flight, _short_pieces, _stage


def _sum_rows(record, unit):
    """A record whose fields are parts in bytes: one row for each that is there, and the total."""
    parts = {name: getattr(record, name) for name in record.__dataclass_fields__}
    rows = [(words(name), summary(value, unit)) for name, value in parts.items() if np.any(value)]
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
        An argument is negative or not finite, ``shards`` is not a whole number of at least 1, or ``zero`` is not 0
        to 3.

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
    bytes_ = {"weight_bytes": weight_bytes, "gradient_bytes": gradient_bytes, "optimizer_bytes": optimizer_bytes}
    whole(shards=shards)
    count, *checked = nonnegative(parameters=parameters, shards=shards, zero=zero, **bytes_)
    return ModelState(*(count * size for size in _bytes_per_parameter(*checked)))


def _bytes_per_parameter(shards, zero, weight_bytes, gradient_bytes, optimizer_bytes):
    """Bytes of weight, gradient and optimizer state that a rank holds for each of its parameters."""
    if np.any((zero > 3) | (zero != np.floor(zero))):
        raise ValueError(f"zero must be 0, 1, 2 or 3, got {zero}")
    sizes = (weight_bytes, gradient_bytes, optimizer_bytes)
    return [size / np.where(zero >= first, shards, 1) for size, first in zip(sizes, (3, 2, 1), strict=True)]


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
    model, workload: Workload, layout: Layout, *, moe=False, software: Software = SOFTWARE["2024"]
) -> LayerActivations:
    r"""Activations that one layer keeps of one microbatch, without recomputation.

    For a GPT (f = 4h, dropout, attention not fused) with b sequences of s tokens on t tensor-parallel ranks this is

    .. math:: s b h \left(10 + \frac{24}{t} + \frac{5 a s}{h t}\right), \qquad
        \frac{s b h}{t}\left(34 + \frac{5 a s}{h}\right) \text{ with sequence parallelism.}

    Parameters
    ----------
    model : Transformer
        The shape.
    workload : Workload
        Its sequence counts here.
    layout : Layout
        Its microbatch, tp, cp and sequence_parallel count here: whether the tensor-parallel ranks share out what each
        would otherwise hold whole (inputs of norms and of the blocks, and dropout masks).
    moe : bool
        Whether the layer is one of the mixtures of experts.
    software : Software
        Whether the attention kernel keeps no scores, whether there is dropout (masks of one byte, after attention, the
        feed-forward and the softmax), and the bytes of an element.

    Returns
    -------
    LayerActivations
        Bytes on each tensor-parallel rank. Means and variances of norms, and the one number a query that a fused kernel
        keeps, are left out.

    Raises
    ------
    ValueError
        ``tp`` does not divide the heads, or ``moe`` is not a bool.

    Notes
    -----
    Source: Korthikanti et al. 2022, section 4 and table 2. Derived for the rest by their rule, the input of every
    operation whose gradient needs it: a gated feed-forward keeps gate, up and product; latent attention the latents as
    well; experts the dispatched tokens and their outputs, balanced over the ranks.

    Examples
    --------
    A layer of GPT-3, with the software of 2022 and with a fused kernel and no dropout.

    >>> from clusterlab.model import transformer
    >>> gpt, workload = transformer("GPT 175B"), Workload(sequence=2048, global_batch=1)
    >>> layer_activations(gpt, workload, Layout(tp=8), software=SOFTWARE["2022"])
    LayerActivations
                        B
    norms         12.6 MB
    attention     31.5 MB
    scores         252 MB
    feed forward  56.6 MB
    dropout       6.29 MB
    total          359 MB
    >>> round(layer_activations(gpt, workload, Layout(tp=8)).total / 1e6)
    101
    """
    if np.any(np.asarray(model.heads) % layout.tp != 0):
        raise ValueError(f"tp must divide heads, got {summary(layout.tp)} and {summary(model.heads)}")
    if not isinstance(moe, bool):
        raise ValueError(f"moe must be True or False, got {moe!r}")
    return _activations(model, workload, layout, software, moe)


def _tokens(workload: Workload, layout: Layout):
    """Tokens of a microbatch on a rank."""
    return layout.microbatch * workload.sequence / layout.cp


def _activations(model, workload: Workload, layout: Layout, software: Software, moe: bool) -> LayerActivations:
    """The count itself, its arguments checked."""
    size, tp, tokens = software.activation_bytes, layout.tp, _tokens(workload, layout)
    lean = software.lean_activations
    narrow = lean and PRECISIONS[workload.precision][1] < 2
    operand = PRECISIONS[workload.precision][1] if narrow else size  # bytes of a GEMM's input
    shared = pick(layout.sequence_parallel, tp, 1.0)  # ranks that share what sequence parallelism splits
    h, heads, d, value_dim, gates = model.hidden, model.heads, model.head_dim, model.value_dim, 1 + model.gated
    stream = size * tokens * h / shared  # one tensor as wide as the stream
    split = size * tokens / tp  # one number a token, where tensor parallelism splits
    stream_in, split_in = operand / size * stream, operand / size * split  # the same, as the input of a GEMM
    if np.any(model.kv_rank):
        # Both latents before and after their norm, and queries and keys with their rotary part.
        latents = size * tokens / shared * (2 * (model.query_rank + model.kv_rank) + model.rope_dim)
        qkv = heads * (2 * (d + model.rope_dim) + value_dim)
    else:
        latents = 0.0
        # A key head is on every rank that has one of its query heads.
        qkv = heads * d + 2 * larger(model.kv_heads * 1.0, tp) * d
    if moe:
        width = model.experts_per_token + model.shared_experts
        # Dispatched tokens, their way through the experts, and their outputs, which the weighted sum needs.
        routed = model.experts_per_token * expert_input(model)
        experts = stream_in + split_in * (routed + width * model.expert_ffn)
        experts = experts + split * ((0 if lean else routed) + width * gates * model.expert_ffn)
        feed_forward = 0.0
    else:
        experts = 0.0
        feed_forward = stream_in + split_in * model.ffn + split * gates * model.ffn
    attention = stream_in + latents + split * (qkv + heads * value_dim)
    if narrow:  # attention needs its output as it was, too
        attention = attention + split_in * heads * value_dim
    # Without fusion: the softmax, and with dropout its mask and what it leaves. A mask is one byte an element.
    masks, sequence = size + (1 + size if software.dropout else 0.0), workload.sequence
    return LayerActivations(
        norms=2 * stream,
        attention=attention,
        scores=0.0 if software.fused_attention else heads / tp * tokens * sequence * masks,
        feed_forward=feed_forward,
        experts=experts,
        dropout=2 * tokens * h / shared if software.dropout else 0.0,
    )


def _half_activations(model, workload: Workload, layout: Layout, software: Software, moe: bool):
    """Bytes that are kept where every second GEMM is recomputed: those of queries, values, gate and down, attention."""
    tokens, wide = _tokens(workload, layout), model.ffn
    if moe:
        wide = (model.experts_per_token + model.shared_experts) * model.expert_ffn
    values = larger(model.kv_heads * 1.0, layout.tp) * model.head_dim
    split = model.heads * (model.head_dim + model.value_dim) + values + wide
    shared = pick(layout.sequence_parallel, layout.tp, 1.0)
    return software.activation_bytes * tokens * (model.hidden / shared + split / layout.tp)


# --- Everything on one rank ------------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class Footprint(Explained):
    """Bytes on one rank, part by part; ``total`` is their sum."""

    weights: float
    gradients: float
    optimizer: float
    gathered: float  # layers held whole for a moment under ZeRO 2 and 3
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
    workload: Workload,
    layout: Layout,
    *,
    software: Software = SOFTWARE["2024"],
    schedule="interleaved",
    stage=None,
    fragmentation=0,
    reserved=0,
) -> Footprint:
    r"""Memory of one rank in training, part by part.

    .. math:: M = \underbrace{\frac{\text{state}}{t \cdot p \cdot \text{ZeRO}}}_\text{stays} + \underbrace{
        L_i\,F_i\,A + \text{gathered} + \text{recomputation} + \text{output}}_{D,\;\text{comes and goes}}
        + \varphi D + \text{reserved}

    with L_i layers on stage i, F_i microbatches in flight (:func:`clusterlab.parallelism.in_flight`) and A bytes a
    layer and microbatch (:func:`layer_activations`).

    Parameters
    ----------
    model : Transformer
        The shape.
    workload : Workload
        Its sequence and global batch.
    layout : Layout
        Ranks, chunks, microbatch, ZeRO stage, recomputation: ``"none"``, ``"selective"`` (keeps no scores),
        ``"alternate"`` (keeps attention's output and every second GEMM's) or ``"full"`` (keeps a layer's input).
    software : Software
        Bytes of weights, gradients, optimizer state, activations and logits, fused attention and dropout.
    schedule : str or array of str
        As in :func:`clusterlab.parallelism.simulate`.
    stage : array_like, optional
        The stage, counted from 0. By default the one that needs most.
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
        A layout breaks a rule of :meth:`clusterlab.model.Layout.faults`, there is no such stage or schedule, or
        ``fragmentation`` or ``reserved`` is negative or not finite.

    Notes
    -----
    Source: Korthikanti et al. 2022, section 4, whose sum over stages, in-flight factor and output terms these are;
    Rajbhandari et al. 2020 for ZeRO. A stage frees its output once it is sent (their appendix B). The first stage holds
    the embedding, the last the output layer, also where the two are tied. Assumed: two layers (or as much as the
    embedding, where that is larger) are gathered at a time under ZeRO 3, one at work and one ahead, in the precision of
    the activations, and one layer's gradients wait whole under ZeRO 2 and 3; the pieces of a stage weigh the same;
    software may gather dense layers matrix by matrix instead; experts are balanced; only norms, routers and MLA's
    down-projections are on every tensor-parallel rank.

    Examples
    --------
    The 530-billion model of Korthikanti et al. 2022 on 280 A100 of 80 GB: without recomputation it does not fit.

    >>> from dataclasses import replace
    >>> from clusterlab.model import transformer
    >>> from clusterlab.units import fmt
    >>> gpt, workload = transformer("MT-NLG 530B"), Workload(sequence=2048, global_batch=280)
    >>> layout = Layout(tp=8, pp=35, chunks=3, zero=0)
    >>> need = {
    ...     how: footprint(gpt, workload, replace(layout, recompute=how), software=SOFTWARE["2022"])
    ...     for how in ("none", "selective", "full")
    ... }
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
    layout.faults(model, workload).refuse()
    model = trained(model)
    lost, others = nonnegative(fragmentation=fragmentation, reserved=reserved)
    return _footprint(model, workload, layout, software, schedule, stage, lost, others)


def _footprint(model, workload, layout, software, schedule, stage, fragmentation, reserved) -> Footprint:
    """The footprint itself, of layouts without faults."""
    rank = _rank(model, workload, layout, software, schedule, fragmentation, reserved)
    if stage is not None:
        return _on_stage(rank, _stage(stage, layout.pp))
    return reduce(_larger, (_on_stage(rank, i) for i in _heaviest_stages(rank)))


class _LayerKind(NamedTuple):
    """Bytes that a layer keeps of a microbatch and that recomputing it takes; its parameters on a rank."""

    kept: float
    recomputed: float
    dense_params: float  # also norms, routers and shared experts
    expert_params: float
    gathered_params: float  # that are put together at a time


class _Rank(NamedTuple):
    """What a stage's footprint is made of, for every stage of a layout."""

    model: Transformer
    layout: Layout
    microbatches: float
    schedule: object
    kinds: dict[bool, _LayerKind]  # by whether the layer is a mixture of experts
    pieces: tuple[float, float, float]  # layers of a piece; pieces at the front and at the back that are one short
    dense_stages: list
    dense_bytes: list  # of weight, gradient and optimizer state, for each parameter of the rank
    expert_bytes: list
    gathered_bytes: float  # for each parameter that is put together
    input_bytes: float  # of the stream after the embedding, where dropout keeps its mask
    output_bytes: float  # of one microbatch that waits for the loss
    waiting: float  # microbatches that do
    fragmentation: float
    reserved: float


def _rank(model, workload, layout, software, schedule, fragmentation, reserved) -> _Rank:
    tp, zero, size = layout.tp, layout.zero, software.activation_bytes
    tokens, m = _tokens(workload, layout), layout.microbatches(workload)
    shared = pick(layout.sequence_parallel, tp, 1.0)
    stream = size * tokens * model.hidden / shared
    expert_ranks = tp * layout.cp * layout.dp / (layout.ep * layout.expert_tp)
    if layout.shard_group is not None:
        expert_ranks = smaller(layout.shard_group, expert_ranks)
    state = (zero, software.weight_bytes, software.gradient_bytes, software.optimizer_bytes)
    pieces = _short_pieces(model.layers, layout.pp, layout.chunks)
    return _Rank(
        model=model,
        layout=layout,
        microbatches=m,
        schedule=schedule,
        kinds=_layer_kinds(model, workload, layout, software, stream),
        pieces=pieces,
        dense_stages=_dense_stages(model, layout, *pieces),
        dense_bytes=_bytes_per_parameter(layout.sharding_ranks, *state),
        expert_bytes=_bytes_per_parameter(expert_ranks, *state),
        gathered_bytes=2.0 * (zero >= 3) * size + 1.0 * (zero >= 2) * software.gradient_bytes,
        input_bytes=tokens * model.hidden / shared if software.dropout else 0.0,
        output_bytes=2 * stream + software.logit_bytes * tokens * model.vocab / tp,
        waiting=choose(dict.fromkeys(SCHEDULES, 1.0) | {"gpipe": m}, schedule=schedule),
        fragmentation=fragmentation,
        reserved=reserved,
    )


def _layer_kinds(model, workload, layout, software, stream) -> dict[bool, _LayerKind]:
    """Dense layers, and mixtures of experts where there are some."""
    tp, kinds = layout.tp, {}
    full, selective, alternate = layout.full_recompute, layout.selective_recompute, layout.alternate_recompute
    routed = model.experts * expert_parameters(model) / (layout.ep * layout.expert_tp)
    if np.any(model.hybrid):
        return {False: _mean_block(model, workload, layout, software, stream)}
    for moe in (False, True)[: 1 + bool(np.any(model.moe_layers))]:
        layer = _activations(model, workload, layout, software, moe)
        total = layer.total
        if np.any(alternate):
            total = pick(alternate, _half_activations(model, workload, layout, software, moe) + stream, total)
        dense_params, expert_params = _layer_parameters(model, tp, moe), routed if moe else 0.0
        whole = dense_params + expert_params
        kinds[moe] = _LayerKind(
            kept=pick(full, stream, total - selective * layer.scores),
            recomputed=pick(full, total - stream, pick(selective, 1.0, 0.0) * layer.scores + layer.total - total),
            dense_params=dense_params,
            expert_params=expert_params,
            gathered_params=_largest_matrix(model, tp) if software.gathers_matrices and not moe else whole,
        )
    return kinds


def _mean_block(model, workload, layout, software, stream) -> _LayerKind:
    """The mean layer of a hybrid, whose layers are blocks of attention, of Mamba-2 or a feed-forward.

    A mixer keeps its inputs, what its projection makes of them, and what the scan returns, from which the rest is
    computed again (Megatron-Core, ``use_mem_eff_path``).
    """
    tp, (d, g), moe = layout.tp, model.mamba_width, bool(model.experts)
    layer = _activations(model, workload, layout, software, moe)
    narrow = software.lean_activations and PRECISIONS[workload.precision][1] < 2
    size = software.activation_bytes
    operand = PRECISIONS[workload.precision][1] if narrow else size
    inner = _tokens(workload, layout) / tp * (size * (3 * d + 2 * g + model.mamba_heads) + narrow * operand * d)
    mixer = stream + operand / size * stream + inner
    attention = stream + layer.attention + layer.scores + layer.dropout / 2
    feed_forward = stream + layer.feed_forward + layer.experts + layer.dropout / 2
    counts = model.attention_layers, model.mamba_layers, model.ffn_layers
    total = sum(count * one for count, one in zip(counts, (attention, mixer, feed_forward), strict=True)) / model.layers
    scores = model.attention_layers * layer.scores / model.layers
    h, weight = model.hidden, 1 + model.biases
    shared, router = beside_parameters(model)
    feed = shared / tp + router if moe else (2 + model.gated) * h * model.ffn / tp
    routed = model.ffn_layers * model.experts * expert_parameters(model) / (layout.ep * layout.expert_tp * model.layers)
    attend = _layer_parameters(model, tp, False) - (2 + model.gated) * h * model.ffn / tp - 2 * h * weight
    dense = model.attention_layers * attend
    dense = dense + model.mamba_layers * mamba_parameters(model) / tp + model.ffn_layers * feed
    dense = dense / model.layers + h * weight
    full = layout.full_recompute
    return _LayerKind(
        kept=pick(full, stream, total - layout.selective_recompute * scores),
        recomputed=pick(full, total - stream, pick(layout.selective_recompute, 1.0, 0.0) * layer.scores),
        dense_params=dense,
        expert_params=routed,
        gathered_params=dense + routed,
    )


def _largest_matrix(model, tp):
    """Parameters of a dense layer's largest matrix on each tensor-parallel rank."""
    return model.hidden * larger(1.0 * model.ffn, 1.0 * model.heads * model.head_dim) / tp


def _on_stage(rank: _Rank, i) -> Footprint:
    """The footprint of a rank of stage i."""
    model, layout = rank.model, rank.layout
    tp, pp, chunks = layout.tp, layout.pp, layout.chunks
    first, last = i == 0, i == pp - 1
    embedding = first * (model.vocab / tp + model.positions) * model.hidden
    own_output = (pp > 1) | (not model.tied)
    output = last * (own_output * model.vocab / tp + 1 + model.biases) * model.hidden
    dense_params, expert_params = embedding + output, 0.0
    activations = first * rank.input_bytes
    largest, recomputed = larger(embedding, output), 0.0  # put together at a time
    for moe, layers in _layers_by_kind(rank, i).items():
        kind = rank.kinds[moe]
        dense_params = dense_params + layers * kind.dense_params
        expert_params = expert_params + layers * kind.expert_params
        activations = activations + layers * kind.kept
        largest = larger(largest, (layers > 0) * kind.gathered_params)
        recomputed = larger(recomputed, (layers > 0) * kind.recomputed)
    gathered = largest * rank.gathered_bytes
    activations = activations * _in_flight(pp, rank.microbatches, i, rank.schedule, chunks)
    output = last * rank.waiting * rank.output_bytes
    weights, gradients, optimizer = (
        dense_params * dense + expert_params * expert
        for dense, expert in zip(rank.dense_bytes, rank.expert_bytes, strict=True)
    )
    return Footprint(
        weights=weights,
        gradients=gradients,
        optimizer=optimizer,
        gathered=gathered,
        activations=activations,
        recomputation=recomputed,
        output=output,
        fragmentation=rank.fragmentation * (gathered + activations + recomputed + output),
        reserved=rank.reserved,
    )


def _layers_by_kind(rank: _Rank, i) -> dict[bool, float]:
    """Layers of stage i that are dense, and that are mixtures of experts."""
    layers = _held(*rank.pieces, i, rank.layout.pp, rank.layout.chunks)
    if True not in rank.kinds:
        return {False: layers}
    dense = sum((there & (stage == i) for there, stage in rank.dense_stages), start=0.0 * layers)
    return {False: dense, True: layers - dense}


def _dense_stages(model, layout: Layout, size, front, back) -> list[tuple]:
    """For each of the first layers of a mixture of experts: whether it is there and dense, and its stage."""
    short = larger(size - 1, 1.0)  # of a piece short of a layer; one that is empty holds none
    before_middle, middle = front * (size - 1), layout.pp * layout.chunks - front - back
    before_back, found = before_middle + middle * size, []
    for layer in range(int(np.max(model.dense_layers))):
        piece = np.where(
            layer < before_middle,
            layer // short,
            np.where(
                layer < before_back,
                front + (layer - before_middle) // size,
                front + middle + (layer - before_back) // short,
            ),
        )
        found.append((layer < np.asarray(model.dense_layers), piece % layout.pp))
    return found


def _heaviest_stages(rank: _Rank) -> list:
    """The stages of which one needs most. Microbatches in flight only fall from stage to stage.

    So the worst is one of these: the ends, the first stage that is not short of a layer, and, with dense layers before
    mixtures of experts, each stage up to the first without.
    """
    model, pp = rank.model, rank.layout.pp
    size, front, _ = rank.pieces
    stages = [0 * pp, pp - 1, front % pp]
    if np.any(model.moe_layers):
        beyond = np.minimum(np.ceil((model.dense_layers + front) / size), pp - 1)
        stages.append(np.maximum(beyond, front % pp))
        if np.any(model.dense_layers):
            stages += [np.minimum(k, pp - 1) for k in range(1, int(np.max(beyond)) + 1)]
    return stages


def _larger(first: Footprint, second: Footprint) -> Footprint:
    """Return the larger footprint, layout by layout."""
    take = second.total > first.total
    names = [f.name for f in fields(Footprint)]
    return Footprint(**{name: pick(take, getattr(second, name), getattr(first, name)) for name in names})


def _layer_parameters(model, tp, moe):
    """Parameters of one layer on each of ``tp`` tensor-parallel ranks, without routed experts."""
    h, heads, d = model.hidden, model.heads, model.head_dim
    of_heads, for_all = attention_parameters(model)
    # A key head is on every rank that has one of its query heads.
    replicated = np.where(model.kv_rank == 0, 2 * h * d * (larger(model.kv_heads * 1.0, tp) - model.kv_heads), 0)
    biases = model.biases * ((heads + 2 * model.kv_heads) * d + (1 + model.gated) * model.ffn + 2 * h)
    if moe:
        feed_forward, router = beside_parameters(model)
        for_all = for_all + router
    else:
        feed_forward = (2 + model.gated) * h * model.ffn
    return (of_heads + replicated + feed_forward + biases) / tp + for_all + 2 * h * (1 + model.biases)
