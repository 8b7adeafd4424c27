"""Memory: what one accelerator must hold to train a model under a layout, and whether it fits.

What a rank holds is its share of the model state (weights, gradients, optimizer state, each divided further by a ZeRO
stage), the activations of the microbatches in flight, what recomputation needs for a moment, and what is reserved or
lost. A :class:`~clusterlab.model.Layout` of arrays is as many layouts.

Activations are counted as Korthikanti et al. 2022 count them, tensor by tensor, for any decoder. What the driver, the
communication library and the allocator take is not modelled: ``reserved`` and ``fragmentation`` are what you say.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import reduce
from typing import ClassVar, NamedTuple

import numpy as np

from ..catalogue import PREDICTION_INTERVALS, SOFTWARE, Software
from ..checks import Numeric, choose, flags, larger, pick, positive, smaller
from ..model import PRECISIONS, Layout, Rank, Stack, Transformer, Workload, trained
from ..quantities import Amount, Bytes, Count, Number, PositiveBytes, law
from ..records import Explained, Predicted, Rows, listed, summary
from .pipeline import SCHEDULES, check_stage, held_layers, in_flight, short_pieces

# --- Model state -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class ModelState(Explained):
    """Bytes of the model state on one rank; ``total`` is their sum."""

    weights: Bytes
    gradients: Bytes
    optimizer: Bytes

    @property
    def total(self) -> Bytes:
        """Bytes of weights, gradients and optimizer state."""
        return self.weights + self.gradients + self.optimizer

    @property
    def checkpoint(self) -> Bytes:
        """Bytes that a checkpoint keeps: weights and optimizer state. Gradients are computed again."""
        return self.weights + self.optimizer

    def _rows(self) -> Rows:
        return listed(self, "B", "B", "total", "checkpoint")


@law
def model_state(
    parameters: Amount,
    *,
    shards: Count = 1,
    zero: Amount = 0,
    weight_bytes: Bytes = 2,
    gradient_bytes: Bytes = 4,
    optimizer_bytes: Bytes = 12,
) -> ModelState:
    r"""Model state of one rank, part of it shared out over the ranks that hold the same parameters.

    .. math:: N\left(\frac{b_w}{[z \ge 3]\,n} + \frac{b_g}{[z \ge 2]\,n} + \frac{b_o}{[z \ge 1]\,n}\right),
        \quad [\cdot]\,n = 1 \text{ where not so}

    Parameters
    ----------
    parameters
        Parameters N of a rank before sharing.
    shards
        Ranks n that share: those of data (and context) parallelism, or fewer in hybrid sharding.
    zero
        ZeRO stage z: 0 nothing is shared, 1 the optimizer state, 2 and the gradients, 3 and the weights (FSDP).
    weight_bytes, gradient_bytes, optimizer_bytes
        Bytes of each a parameter. By default BF16 weights, gradients summed in FP32 (Megatron-LM; DeepSpeed keeps 2),
        and for Adam an FP32 copy of the weight and two moments.

    Returns
    -------
    ModelState

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
    sizes = _bytes_per_parameter(shards, zero, weight_bytes, gradient_bytes, optimizer_bytes)
    return ModelState(*(parameters * size for size in sizes))


def _bytes_per_parameter(
    shards: Count, zero: Amount, weight_bytes: Bytes, gradient_bytes: Bytes, optimizer_bytes: Bytes
) -> list[Bytes]:
    """Bytes of weight, gradient and optimizer state that a rank holds for each of its parameters."""
    if np.any(wrong := (zero > 3) | (zero != np.floor(zero))):
        raise ValueError(f"zero must be 0, 1, 2 or 3, got {np.extract(wrong, zero)[0]:g}")
    sizes = (weight_bytes, gradient_bytes, optimizer_bytes)
    return [size / pick(zero >= first, shards, 1.0) for size, first in zip(sizes, (3, 2, 1), strict=True)]


# --- Activations -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class LayerActivations(Explained):
    """Bytes that one layer keeps of one microbatch for the backward pass; ``total`` is their sum."""

    norms: Bytes  # inputs of the norms
    attention: Bytes  # inputs of the projections; queries, keys and values; latents; of other mixers too
    scores: Bytes  # what selective recomputation drops and a fused kernel never keeps
    feed_forward: Bytes
    experts: Bytes  # of the selected and the shared experts
    dropout: Bytes  # masks

    @property
    def total(self) -> Bytes:
        """Bytes of the layer."""
        return self.norms + self.attention + self.scores + self.feed_forward + self.experts + self.dropout

    def _rows(self) -> Rows:
        return listed(self, "B", "B", "total")


def layer_activations(
    model: Transformer, workload: Workload, layout: Layout, *, moe: bool = False, software: Software = SOFTWARE["2024"]
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
        ``tp`` does not divide the heads.

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
    flags(moe=moe)
    of_kind = [stack.blocks for stack in model.stacks if moe == any(block.routing(model) for block in stack.blocks)]
    if not of_kind:
        raise ValueError(f"moe must be {not moe}: {model.name or 'the model'} has no other layers")
    rank = _rank(workload, layout, software)
    parts = _sum_parts(block.activations(model, rank) for block in of_kind[-1])
    return LayerActivations(**dict.fromkeys((f.name for f in fields(LayerActivations)), 0.0) | parts)


def _rank(workload: Workload, layout: Layout, software: Software) -> Rank:
    tokens = layout.microbatch * workload.sequence / layout.cp
    operand_bytes = PRECISIONS[workload.precision][1]
    cut = layout.tp, layout.ep, layout.expert_tp
    return Rank(*cut, tokens, workload.sequence, layout.sequence_parallel, operand_bytes, software)


def _sum_parts(parts: Iterable[Mapping[str, Bytes]]) -> dict[str, Bytes]:
    found: dict[str, Bytes] = {}
    for each in parts:
        for name, size in each.items():
            found[name] = found.get(name, 0.0) + size
    return found


# --- Everything on one rank ------------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class Footprint(Predicted):
    """Bytes on one rank, part by part; ``total`` is their sum, with an 80 % interval learned from measured peaks."""

    weights: Bytes
    gradients: Bytes
    optimizer: Bytes
    placeholders: Bytes  # empty gradients, where software keeps some
    gathered: Bytes  # layers held whole for a moment under ZeRO 2 and 3
    activations: Bytes  # of all microbatches in flight
    recomputation: Bytes  # the layer that is being recomputed
    backward: Bytes  # gradients of activations
    output: Bytes  # logits and the input of the output layer, on the last stage
    fragmentation: Bytes
    reserved: Bytes

    _kind: ClassVar = "memory: other stack"

    @property
    def state(self) -> Bytes:
        """Bytes of the model state."""
        return self.weights + self.gradients + self.optimizer

    @property
    def dynamic(self) -> Bytes:
        """Bytes that come and go within a step."""
        return self.gathered + self.activations + self.recomputation + self.backward + self.output

    @property
    def total(self) -> Bytes:
        """Bytes in all."""
        return self.state + self.placeholders + self.dynamic + self.fragmentation + self.reserved

    def headroom(self, capacity: PositiveBytes) -> Bytes:
        """Bytes left of ``capacity``; below zero, the bytes that are missing."""
        (capacity,) = positive(capacity=capacity)
        return capacity - self.total

    def fits(self, capacity: PositiveBytes) -> bool | np.ndarray:
        """Whether ``capacity`` bytes are enough."""
        return self.headroom(capacity) >= 0

    def _predicted(self) -> tuple[Numeric, Numeric, Numeric, str]:
        total, spread = self.total, PREDICTION_INTERVALS[self._kind]
        return total, spread.low * total, spread.high * total, "B"

    def _rows(self) -> Rows:
        return [*listed(self, "B", "B"), ("total", self.with_interval)]


@law
def footprint(
    model: Transformer,
    workload: Workload,
    layout: Layout,
    *,
    software: Software = SOFTWARE["2024"],
    schedule: str | Sequence[str] = "interleaved",
    stage: Amount | None = None,
    fragmentation: Amount = 0.0,
    reserved: Bytes = 0.0,
) -> Footprint:
    r"""Memory of one rank in training, part by part.

    .. math:: M = \underbrace{\frac{\text{state}}{t \cdot p \cdot \text{ZeRO}}}_\text{stays} + \underbrace{
        L_i\,F_i\,A + \max(\text{gathered} + \text{recomputation} + \text{backward},\ \text{output})}_{D,\;\text{comes
        and goes}} + \text{placeholders} + \varphi D + \text{reserved}

    with L_i layers on stage i, F_i microbatches in flight (:func:`clusterlab.parallelism.in_flight`) and A bytes a
    layer and microbatch (:func:`layer_activations`). The largest moment is either the loss, with all copies of the
    logits, or the backward pass of one layer, with the gradients of its activations: for stacks whose peaks were
    measured. Of others what is recomputed and the logits count together, and no gradients of activations.

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
        Bytes of weights, gradients, optimizer state, activations and logits, fused attention and dropout, empty
        gradients, and whether its peaks were measured (``peak_of_a_moment``).
    schedule : str or array of str
        As in :func:`clusterlab.parallelism.simulate_pipeline`.
    stage : optional
        The stage, counted from 0. By default the one that needs most.
    fragmentation
        Bytes that the allocator loses, as a share of those that come and go, phi.
    reserved
        Bytes that others hold: driver, kernels, buffers of the communication library.

    Returns
    -------
    Footprint
        Bytes, as PyTorch counts those of tensors at their peak; an allocator reserves some 5 % more
        (:func:`clusterlab.evidence.reserved_share`). ``headroom(capacity)`` and ``fits(capacity)`` compare them with
        the memory of an accelerator.

    Raises
    ------
    ValueError
        A layout breaks a rule of :meth:`clusterlab.model.Layout.violations`, or there is no such stage or schedule.

    Notes
    -----
    Source: Korthikanti et al. 2022, section 4, whose sum over stages, in-flight factor and output terms these are;
    Rajbhandari et al. 2020 for ZeRO; TransformerEngine, ``get_dummy_wgrad``, for empty gradients: one for each shape of
    a matrix, two bytes an element, from the first backward pass to the end. Held against measured peaks in
    :func:`clusterlab.evidence.compare_peaks`. The gradient of a gated feed-forward's product comes in the place of the
    product, so that its gate and what it gates are most of ``backward``; two whole tensors as wide as the stream stand
    beside, one gathered and one that is a gradient. A stage frees its output once it is sent (Korthikanti et al.,
    appendix B). The first stage holds the embedding, the last the output layer, also where the two are tied. Assumed:
    two layers (or as much as the embedding, where that is larger) are gathered at a time under ZeRO 3, one at work and
    one ahead, in the precision of the activations, but the output layer alone while the loss is taken, and one layer's
    gradients wait whole under ZeRO 2 and 3; the pieces of a stage weigh the same; software may gather dense layers
    matrix by matrix instead; experts are balanced; only norms, routers and MLA's down-projections are on every
    tensor-parallel rank. Left out: what an exchange of heads for sequences keeps of attention's output once more
    (TransformerEngine from 2.8 on), 1 to 3 % of two models at 131,072 tokens.

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
    weights                       4.12 GB
    gradients                     8.24 GB
    optimizer                     24.7 GB
    activations                     25 GB
    recomputation                  336 MB
    total          62.5 GB (40.4 to 96.5)
    """
    layout.violations(model, workload).refuse()
    if stage is not None:
        check_stage(stage, layout.pp)
    return rank_footprint(trained(model), workload, layout, software, schedule, stage, fragmentation, reserved)


def rank_footprint(
    model: Transformer,
    workload: Workload,
    layout: Layout,
    software: Software,
    schedule: str | Sequence[str],
    stage: Amount | None,
    fragmentation: Amount = 0.0,
    reserved: Bytes = 0.0,
) -> Footprint:
    """Return the footprint of layouts without violations, of a model as it is trained."""
    held = _held(model, workload, layout, software, schedule)
    stages = _heaviest_stages(held) if stage is None else [stage]
    found = reduce(_larger, (_on_stage(held, i, fragmentation, reserved) for i in stages))
    if software.peak_of_a_moment:
        vars(found)["_kind"] = "memory: measured stack"
    return found


class _Kind(NamedTuple):
    """The mean of some layers of a rank: bytes kept of a microbatch, and to recompute one; parameters."""

    kept: Bytes
    recomputed: Bytes
    gradients: Bytes  # of activations, at most
    placeholders: Number
    dense_params: Number  # also norms, routers and shared experts
    expert_params: Number
    gathered_params: Number  # that are put together at a time


class _Held(NamedTuple):
    """What a stage's footprint is made of, for every stage of a layout."""

    model: Transformer
    layout: Layout
    software: Software
    microbatches: Number
    schedule: str | Sequence[str]
    leading: _Kind | None  # of the layers that come first, where they are others
    usual: _Kind
    pieces: tuple[Number, Number, Number]  # layers of a piece; pieces at the front and at the back that are one short
    leading_stages: list[tuple[Number, Number]]
    dense_bytes: list[Bytes]  # of weight, gradient and optimizer state, for each parameter of the rank
    expert_bytes: list[Bytes]
    gathered_bytes: Bytes  # for each parameter that is put together
    input_bytes: Bytes  # of the stream after the embedding, where dropout keeps its mask
    whole_bytes: Bytes  # of a tensor as wide as the stream, not shared out
    output_bytes: Bytes  # of one microbatch that waits for the loss
    waiting: Number  # microbatches that do


def _held(
    model: Transformer, workload: Workload, layout: Layout, software: Software, schedule: str | Sequence[str]
) -> _Held:
    rank, zero = _rank(workload, layout, software), layout.zero
    whole = software.activation_bytes * rank.tokens * model.hidden
    stream, wide = whole / rank.stream, whole * model.streams / rank.stream
    logit_bytes = pick(layout.tp > 1, software.split_logit_bytes, software.logit_bytes)
    expert_ranks = layout.tp * layout.cp * layout.dp / (layout.ep * layout.expert_tp)
    if layout.shard_group is not None:
        expert_ranks = smaller(layout.shard_group, expert_ranks)
    state = (zero, software.weight_bytes, software.gradient_bytes, software.optimizer_bytes)
    pieces, microbatches = short_pieces(model.layers, layout.pp, layout.chunks), layout.microbatches(workload)
    leading = [stack for stack in model.stacks if stack.leading]
    usual = [stack for stack in model.stacks if not stack.leading]
    if not usual:  # all layers are as the first
        leading, usual = [], leading
    return _Held(
        model=model,
        layout=layout,
        software=software,
        microbatches=microbatches,
        schedule=schedule,
        leading=_mean_layer(model, leading, layout, rank, wide, usual) if leading else None,
        usual=_mean_layer(model, usual, layout, rank, wide),
        pieces=pieces,
        leading_stages=_leading_stages(sum(stack.count for stack in leading), layout, *pieces) if leading else [],
        dense_bytes=_bytes_per_parameter(layout.sharding_ranks, *state),
        expert_bytes=_bytes_per_parameter(expert_ranks, *state),
        gathered_bytes=2.0 * (zero >= 3) * software.activation_bytes + 1.0 * (zero >= 2) * software.gradient_bytes,
        input_bytes=rank.tokens * model.hidden / rank.stream if software.dropout else 0.0,
        whole_bytes=whole * model.streams,
        output_bytes=wide + stream + logit_bytes * rank.tokens * model.vocab / layout.tp,
        waiting=choose(dict.fromkeys(SCHEDULES, 1.0) | {"gpipe": microbatches}, schedule=schedule),
    )


def _mean_layer(
    model: Transformer, stacks: list[Stack], layout: Layout, rank: Rank, stream: Bytes, others: Sequence[Stack] = ()
) -> _Kind:
    """The mean of some layers, block by block: whatever is recomputed is so a layer at a time.

    Blocks that ``others`` have too keep their placeholders there.
    """
    full, selective, alternate = layout.full_recompute, layout.selective_recompute, layout.alternate_recompute
    halves, software = np.any(alternate), rank.software
    assert software is not None
    count = total = half = dense = routed = gathered = 0.0
    scores: Number = 0.0
    most_scores: Number = 0.0
    for stack in stacks:
        parts = _sum_parts(block.activations(model, rank) for block in stack.blocks)
        of_scores = parts.get("scores", 0.0)
        total, scores = total + stack.count * sum(parts.values()), scores + stack.count * of_scores
        most_scores = larger(most_scores, 1.0 * of_scores)
        if halves:
            kept = sum(block.half_activations(model, rank) for block in stack.blocks)
            half = half + stack.count * (kept + stream)
        weights = sum(block.on_rank(model, rank.tp) + block.besides_on_rank(model, rank.tp) for block in stack.blocks)
        of_experts = [block.routing(model) for block in stack.blocks]
        experts = sum(r.experts * r.weights / (rank.ep * rank.expert_tp) for r in of_experts if r)
        dense, routed = dense + stack.count * weights, routed + stack.count * experts
        by_matrix = software.gathers_matrices and not any(of_experts)
        one = reduce(larger, (1.0 * b.largest_matrix(model, rank.tp) for b in stack.blocks)) if by_matrix else None
        gathered = gathered + stack.count * (weights + experts if one is None else one)
        # Depths of multi-token prediction in a hybrid are two of its layers each.
        single = model.feed_forward_layers is not None and stack.sixteen_bits
        count = count + stack.count * (2 if single else 1)
    blocks = [block for stack in stacks for block in stack.blocks]
    there = [block for stack in others for block in stack.blocks]
    total, scores, dense, routed, gathered = (x / count for x in (total, scores, dense, routed, gathered))
    kept = pick(alternate, half / count, total) if halves else total
    return _Kind(
        kept=pick(full, stream, kept - selective * scores),
        recomputed=pick(full, total - stream, pick(selective, 1.0, 0.0) * most_scores + total - kept),
        gradients=reduce(larger, (1.0 * block.gradients(model, rank) for block in blocks)),
        placeholders=sum(block.one_of_each(model, rank) for block in dict.fromkeys(blocks) if block not in there),
        dense_params=dense,
        expert_params=routed,
        gathered_params=gathered,
    )


def _on_stage(held: _Held, i: Amount, fragmentation: Amount, reserved: Bytes) -> Footprint:
    """The footprint of a rank of stage i."""
    model, layout, software = held.model, held.layout, held.software
    tp, pp, chunks = layout.tp, layout.pp, layout.chunks
    first, last = i == 0, i == pp - 1
    embedding = first * (model.vocab / tp + model.positions) * model.hidden
    own_output = (pp > 1) | (not model.tied)
    head = last * (own_output * model.vocab / tp + 1 + model.biases) * model.hidden
    dense_params, expert_params = embedding + head, 0.0
    activations = first * held.input_bytes
    largest, recomputed, backward = larger(1.0 * embedding, 1.0 * head), 0.0, 0.0
    matrix = placeholders = last * model.vocab / tp * model.hidden  # of the output layer
    layers = held_layers(*held.pieces, i, pp, chunks)
    of_leading = sum((there & (stage == i) for there, stage in held.leading_stages), start=0.0 * layers)
    kinds = [(layers - of_leading, held.usual)] + ([(of_leading, held.leading)] if held.leading else [])
    for count, kind in kinds:
        dense_params = dense_params + count * kind.dense_params
        expert_params = expert_params + count * kind.expert_params
        placeholders = placeholders + (count > 0) * kind.placeholders
        activations = activations + count * kind.kept
        largest = larger(largest, (count > 0) * kind.gathered_params)
        recomputed = larger(recomputed, (count > 0) * kind.recomputed)
        backward = larger(backward, (count > 0) * kind.gradients)
    activations = activations * in_flight.unchecked(pp, held.microbatches, i, schedule=held.schedule, chunks=chunks)
    gathered, output = largest * held.gathered_bytes, held.output_bytes
    at_loss = matrix * (layout.zero >= 3) * software.activation_bytes
    if software.peak_of_a_moment:  # where the loss is taken, or within a layer; other microbatches wait with theirs
        loss = last & (output + at_loss > recomputed + backward + gathered)
        gathered, recomputed = pick(loss, at_loss, gathered), pick(loss, 0.0, recomputed)
        backward = 2 * held.whole_bytes + pick(loss, 0.0, backward)
        output = last * (held.waiting - 1.0 + loss) * output
    else:
        backward, output = 0.0 * backward, last * held.waiting * output
    weights, gradients, optimizer = (
        dense_params * dense + expert_params * expert
        for dense, expert in zip(held.dense_bytes, held.expert_bytes, strict=True)
    )
    empty = 1.0 * software.gradient_placeholders * placeholders * software.activation_bytes
    moving = gathered, activations, recomputed, backward, output
    return Footprint(weights, gradients, optimizer, empty, *moving, fragmentation * sum(moving), reserved)


def _leading_stages(
    leading: Number, layout: Layout, size: Number, front: Number, back: Number
) -> list[tuple[Number, Number]]:
    """For each of the layers that come first: whether it is there, and its stage."""
    short = larger(size - 1, 1.0)  # of a piece short of a layer; one that is empty holds none
    before_middle, middle = front * (size - 1), layout.pp * layout.chunks - front - back
    before_back, found = before_middle + middle * size, []
    for layer in range(int(np.max(leading))):
        in_middle = front + (layer - before_middle) // size
        in_back = front + middle + (layer - before_back) // short
        piece = np.where(layer < before_middle, layer // short, np.where(layer < before_back, in_middle, in_back))
        found.append((layer < np.asarray(leading), piece % layout.pp))
    return found


def _heaviest_stages(held: _Held) -> list[Amount]:
    """The stages of which one needs most. Microbatches in flight only fall from stage to stage.

    So the worst is one of these: the ends, the first stage that is not short of a layer, and, with other layers before
    the usual ones, each stage up to the first without.
    """
    model, pp = held.model, held.layout.pp
    size, front, _ = held.pieces
    stages = [0 * pp, pp - 1, front % pp]
    if held.leading_stages:
        leading = sum(stack.count for stack in model.stacks if stack.leading)
        beyond = np.minimum(np.ceil((leading + front) / size), pp - 1)
        stages.append(np.maximum(beyond, front % pp))
        stages += [np.minimum(k, pp - 1) for k in range(1, int(np.max(beyond)) + 1)]
    return stages


def _larger(first: Footprint, second: Footprint) -> Footprint:
    """Return the larger footprint, layout by layout."""
    take = second.total > first.total
    names = [f.name for f in fields(Footprint)]
    return Footprint(**{name: pick(take, getattr(second, name), getattr(first, name)) for name in names})
