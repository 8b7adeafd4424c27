"""Caches: what a GPU of a replica holds, how many sequences fit, and a beginning that a second tier keeps."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import NamedTuple

import numpy as np

from ..checks import larger, pick, smaller
from ..model import Stack, state_bytes
from ..quantities import Amount, Bytes, BytesPerSecond, Number, Seconds, law
from ..records import Explained, Rows, summary
from .passes import reading
from .replica import Replica, Requests


@dataclass(frozen=True, repr=False)
class ReplicaFootprint(Explained):
    """Bytes that a GPU of a replica holds; the parts sum to ``total``."""

    weights: Bytes
    activations: Bytes
    caches: Bytes

    @property
    def total(self) -> Bytes:
        """Bytes of all parts."""
        return self.weights + self.activations + self.caches

    def _rows(self) -> Rows:
        parts = {f.name: getattr(self, f.name) for f in fields(self)} | {"total": self.total}
        return [("", "bytes"), *((name, summary(value, "B")) for name, value in parts.items())]


@law
def replica_footprint(replica: Replica, *, sequences: Amount, context: Amount) -> ReplicaFootprint:
    r"""Bytes on a GPU of a replica: weights, what a pass needs for a moment, and the caches of its sequences.

    .. math:: \text{caches} = \frac{S}{dp\,pp}\left(\text{cache}(s)\,\max(1/tp,\, 1/H_{kv}) + \text{state}/tp\right)

    Parameters
    ----------
    replica : Replica
        Model, machine, layout and software.
    sequences
        Sequences S that the replica holds.
    context
        Tokens s of each in its cache.

    Returns
    -------
    ReplicaFootprint
        Of a stage with as many layers as any, the mixtures of experts first, and one of embedding and output layer.

    Notes
    -----
    Derived. MLA's latents are whole on each rank of tp. A hybrid's states are those of
    :func:`~clusterlab.model.state_bytes`, in 4 bytes, and its blocks are spread evenly over pp. A pass holds 2
    bytes of the stream four times and of the MLP's middle, for the most tokens that the software lets in, and 4 bytes
    a logit.

    Examples
    --------
    Llama 3.1 70B in 8 bits on four H100, with 100 users at 4,000 tokens each:

    >>> from clusterlab.catalogue import machine
    >>> from clusterlab.model import Layout, transformer
    >>> from clusterlab.serving import Formats
    >>> replica = Replica(transformer("Llama 3.1 70B"), machine("H100 SXM"), Layout(tp=4), Formats("fp8"))
    >>> replica_footprint(replica, sequences=100, context=4000)
    ReplicaFootprint
                   bytes
    weights      18.2 GB
    activations   785 MB
    caches       32.8 GB
    total        51.7 GB
    """
    weights, activations, each = _bytes(replica, context)
    return ReplicaFootprint(weights, activations + sequences * each.logits, sequences * each.cache)


class _Each(NamedTuple):
    """Bytes of a sequence on a GPU."""

    cache: Bytes
    logits: Bytes


def _bytes(replica: Replica, context: Amount) -> tuple[Bytes, Bytes, _Each]:
    """Bytes of weights and of activations on a GPU, and those of a sequence with so many tokens."""
    model, layout, formats, software = replica.model, replica.layout, replica.formats, replica.software
    tp, pp, dp, wide = layout.tp, layout.pp, layout.dp, model.ffn
    everywhere = np.inf if software.two_axes else None  # caches cut by sequences, over however many
    weights = cache = 0.0
    for stack, held in zip(model.stacks, _on_fullest_stage(model.stacks, pp), strict=True):
        for block in stack.blocks:
            weights = weights + held * (block.on_rank(model, tp, copies=not software.two_axes) + block.extra / tp)
            share = block.cache_share(model, tp, everywhere)
            cache = cache + stack.count * share * block.cache_elements(model, context)
            if routing := block.routing(model):
                routed = (routing.experts + replica.redundant) / (layout.ep * layout.expert_tp)
                weights = weights + held * routed * routing.weights
            wide = max(wide, block.middle(model))
    ends = pick((pp == 1) & (not model.tied), 2.0, 1.0) * model.vocab * model.hidden / tp
    activations = 2 * software.max_tokens * (4 * model.hidden + (1 + model.gated) * wide / tp)
    # States are there as soon as there is a token.
    kept = cache * formats.cache_bytes + pick(np.greater(context, 0), state_bytes(model), 0.0) / tp
    each = _Each(kept / (dp * pp), 4 * model.vocab / (tp * dp * pp))
    return formats.weight_bytes * weights + 2 * ends, activations, each


def _on_fullest_stage(stacks: tuple[Stack, ...], pp: Number) -> list[Number]:
    """Layers of each stack on a stage with as many layers as any, as few of those that come first as can be."""
    usual = sum(stack.count for stack in stacks if not stack.leading)
    leading = sum(stack.count for stack in stacks) - usual
    layers = np.ceil((leading + usual) / pp)
    of_usual = smaller(layers, float(usual))
    of_leading = layers - of_usual
    return [
        of_leading * (stack.count / leading) if stack.leading else of_usual * (stack.count / usual) for stack in stacks
    ]


_LEAST = 1 / 25  # of the memory, for caches


@law
def largest_batch(replica: Replica, context: Number, *, shared: Amount = 0) -> Amount:
    r"""Sequences that a replica can hold, each with so many tokens in its cache.

    .. math:: S = dp \left\lfloor \frac{\gamma\,\text{memory} - \text{weights} - \text{activations}
        - \text{shared cache}}{dp\;\text{bytes of a sequence}} \right\rfloor

    Parameters
    ----------
    replica : Replica
        Model, machine, layout and software, whose ``memory_share`` is :math:`\gamma`. Where that leaves less than a
        twenty-fifth of the memory, caches get so much of the rest: who is short of it raises the share.
    context
        Tokens of each sequence at its longest: prompt and answer.
    shared
        Tokens with which all of them begin: their cache is there once on each attention rank.

    Returns
    -------
    Amount
        Sequences; 0 where not even the weights fit.

    Raises
    ------
    ValueError
        ``shared`` is not below ``context``.

    Notes
    -----
    Source: Kwon et al. 2023 (paged attention): with pages nothing is lost between sequences, a page of a common
    beginning serves all, and memory alone decides. Derived for the rest.

    Examples
    --------
    A trillion parameters in 8 bits (Kimi K2) on a rack of GB200 leave room for 36 times the weights in caches.

    >>> from clusterlab.catalogue import machine
    >>> from clusterlab.model import Layout, transformer
    >>> from clusterlab.serving import Formats
    >>> rack = Replica(transformer("Kimi K2"), machine("GB200"), Layout(dp=72, ep=72), Formats("fp8"), redundant=48)
    >>> float(largest_batch(rack, 8192)) > 10_000
    True
    """
    if np.any(np.greater_equal(shared, context)):
        raise ValueError(f"shared must be below context, got {np.max(shared):g} of {np.min(context):g}")
    weights, activations, each = _bytes(replica, context - shared)
    dp = replica.layout.dp
    software, memory = replica.software, replica.machine.hbm_capacity
    left = software.memory_share * memory - weights - activations
    left = larger(left, smaller(_LEAST * memory, memory - weights - activations))
    left = left - dp * _bytes(replica, shared)[2].cache  # once in each attention group
    return dp * np.floor(larger(left, 0.0) / (dp * (each.cache + each.logits)) * (1 + 1e-12))


@dataclass(frozen=True, repr=False)
class Reuse(Explained):
    """A beginning of a prompt that a cache has, out of the accelerators' memory: fetched, or computed anew.

    ``size`` is in bytes, of what each GPU fetches; ``fetch`` and ``compute`` are seconds.
    """

    size: Bytes
    fetch: Seconds
    compute: Seconds

    @property
    def speedup(self) -> Number:
        """Time of computing it over that of fetching it: below 1 the cache is too slow to help."""
        return self.compute / self.fetch

    @property
    def enough(self) -> BytesPerSecond:
        """Bytes/s to each GPU at which fetching takes as long as computing, without a latency."""
        return self.size / self.compute

    def _rows(self) -> Rows:
        rows = [("", "value"), ("size", summary(self.size, "B")), ("fetch", summary(self.fetch, "s"))]
        rows += [("compute", summary(self.compute, "s")), ("speedup", summary(self.speedup))]
        return [*rows, ("enough", summary(self.enough, "B/s"))]


@law
def reuse(replica: Replica, tokens: Number, *, bandwidth: BytesPerSecond, latency: Seconds = 0) -> Reuse:
    r"""Time to bring back keys, values and states of a prompt's beginning from a second tier, beside computing them.

    .. math:: T = \alpha + \frac{\text{cache}(s)\,\max(1/tp,\, 1/H_{kv})}{pp\,B}

    Parameters
    ----------
    replica : Replica
        Model, machine, layout and software.
    tokens
        Tokens that the cache has, s. Each attention rank brings back as many at once.
    bandwidth
        Bytes/s from the tier to each GPU, B: of its lanes to the host's memory, of its share of a file system.
    latency
        Seconds until the first byte comes.

    Returns
    -------
    Reuse

    Notes
    -----
    Derived. Source of the idea at scale: Qin et al. 2024 (Mooncake); DeepSeek keeps caches of prompts on disks. A tier
    of C bytes into which caches are written at W bytes/s keeps each for C/W seconds
    (:func:`clusterlab.serving.little_law`).

    Examples
    --------
    4,000 tokens of a 70B model on eight H100s, from the host's memory at 64 GB/s and from SSDs at 5 GB/s for each GPU:

    >>> from clusterlab.catalogue import machine
    >>> from clusterlab.model import Layout, transformer
    >>> from clusterlab.serving import Formats
    >>> server = Replica(transformer("Llama 3.1 70B"), machine("H100 SXM"), Layout(tp=8), Formats("fp8", cache_bytes=1))
    >>> reuse(server, 4000, bandwidth=[64e9, 5e9]).speedup.round(0)
    array([112.,   9.])
    """
    size = _bytes(replica, tokens)[2].cache * replica.layout.dp  # of one sequence, where it is
    return Reuse(size, latency + size / bandwidth, reading(replica, Requests(tokens, 1)))
