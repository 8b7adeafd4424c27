"""Caches: what a GPU of a replica holds, how many sequences fit, and a beginning that a second tier keeps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import NamedTuple

import numpy as np

from ..checks import BELOW_ONE, check, larger, nonnegative, pick, positive, smaller, whole
from ..model import Stack, state_bytes
from ..quantities import (
    Amount,
    Bytes,
    BytesPerSecond,
    Count,
    Number,
    PerSecond,
    PositiveBytes,
    Seconds,
    Share,
    ShareBelowOne,
    law,
)
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
            size = formats.of(feeds_forward=block.feeds_forward)[1]
            own = block.on_rank(model, tp, copies=not software.two_axes) + block.extra / tp
            weights = weights + held * size * own
            share = block.cache_share(model, tp, everywhere)
            cache = cache + stack.count * share * block.cache_elements(model, context)
            if routing := block.routing(model):
                routed = (routing.experts + replica.redundant) / (layout.ep * layout.expert_tp)
                weights = weights + held * size * routed * routing.weights
            wide = max(wide, block.middle(model))
    ends = pick((pp == 1) & (not model.tied), 2.0, 1.0) * model.vocab * model.hidden / tp
    activations = 2 * software.max_tokens * (4 * model.hidden + (1 + model.gated) * wide / tp)
    # States are there as soon as there is a token.
    kept = cache * formats.cache_bytes + pick(np.greater(context, 0), state_bytes(model), 0.0) / tp
    each = _Each(kept / (dp * pp), 4 * model.vocab / (tp * dp * pp))
    return weights + 2 * ends, activations, each


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
    if np.any(shared):
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


# --- Tiers that keep what users come back to -------------------------------------------------------------------------


def _kept_for(filled: np.ndarray, pause: float, again: float) -> np.ndarray:
    """Seconds in which so many seconds' conversations are used, each counted once however often its user came back."""
    low, high = np.zeros_like(filled), filled / (1 - again)
    for _ in range(60):
        middle = (low + high) / 2
        less = (1 - again) * middle + again * pause * (1 - np.exp(-middle / pause)) < filled
        low, high = np.where(less, middle, low), np.where(less, high, middle)
    return high


@dataclass(frozen=True, repr=False)
class Tier(Explained):
    """A place that keeps caches: ``capacity`` bytes, and ``bandwidth`` bytes/s from there to each GPU.

    A ``shared`` one serves all replicas together, others are in each.
    """

    capacity: PositiveBytes
    bandwidth: BytesPerSecond
    latency: Seconds = 0.0
    shared: bool = False

    def __post_init__(self) -> None:
        """Refuse a place that keeps nothing."""
        positive(capacity=self.capacity, bandwidth=self.bandwidth)
        nonnegative(latency=self.latency)

    def _rows(self) -> Rows:
        rows = [("", "value"), ("capacity", summary(self.capacity, "B")), ("bandwidth", summary(self.bandwidth, "B/s"))]
        return [*rows, ("shared", "yes" if self.shared else "no")]


@dataclass(frozen=True, repr=False)
class Prefixes(Explained):
    """What becomes of a conversation whose user comes back: tier by tier, in how many cases its beginning is found.

    ``hits`` are shares of all returns, ``keeps`` the seconds for which a tier keeps what is written, and ``fetch`` what
    bringing it back takes; ``compute`` is what reading it anew takes. A tier that is slower than that is left out.
    """

    hits: Share
    keeps: Seconds
    fetch: Seconds
    compute: Seconds

    @property
    def cached(self) -> Share:
        """Share of returns whose beginning is fetched: the ``cached`` of requests, times their beginning's share."""
        return np.sum(self.hits)

    @property
    def time(self) -> Seconds:
        """Mean seconds until the beginning of a conversation is there again."""
        return np.sum(self.hits * self.fetch) + (1 - self.cached) * self.compute

    def _rows(self) -> Rows:
        rows = [("", "share", "keeps", "takes")]
        for i, hits in enumerate(np.atleast_1d(self.hits)):
            keeps, takes = (summary(np.atleast_1d(part)[i], "s") for part in (self.keeps, self.fetch))
            rows.append((f"tier {i + 1}", summary(hits, "%"), keeps, takes))
        rows.append(("computed anew", summary(1 - self.cached, "%"), "", summary(self.compute, "s")))
        return [*rows, ("mean", "", "", summary(self.time, "s"))]


def prefix_hits(
    replica: Replica,
    tokens: Number,
    tiers: Sequence[Tier],
    *,
    rate: PerSecond,
    pause: Seconds,
    again: ShareBelowOne = 0.9,
    replicas: Count = 1,
    routed: bool = True,
) -> Prefixes:
    r"""How often the beginning of a conversation is still in a cache, and in which, when its user comes back.

    .. math:: \lambda\,c\,\big((1 - q)\,t_k + q\,\theta\,(1 - e^{-t_k/\theta})\big) = \sum_{j \le k} C_j, \qquad
        P(\text{tier } k) = e^{-t_{k - 1}/\theta} - e^{-t_k/\theta}

    What is used pushes out what was used longest ago, from tier to tier. So a tier keeps a conversation for as long as
    others take to fill it and those above it; and a user is in time who comes back before. Who has come back since is
    counted once.

    Parameters
    ----------
    replica : Replica
        One that serves.
    tokens
        Tokens of the conversation that come back as a prompt's beginning.
    tiers
        From the fastest to the slowest; shared ones last.
    rate
        Requests a second of all replicas, lambda; each writes c bytes, the cache of ``tokens``.
    pause
        Mean seconds until a user comes back, theta; exponential.
    again
        Share of requests after which the user comes back, q: 0.9 where a conversation has ten turns.
    replicas
        Replicas of the service.
    routed
        Whether a user is sent to the replica that served him last. Otherwise what is in a tier of one replica is
        found by chance, in one of ``replicas`` cases.

    Returns
    -------
    Prefixes

    Raises
    ------
    ValueError
        There is no tier, or a shared one comes before one that is not.

    Notes
    -----
    Source: Che, Tung and Wang 2002, for the time that a cache keeps what it has; derived for users who come back.
    All conversations are taken to be as long.

    Examples
    --------
    A hundred requests a second to ten servers, of 8,000 tokens each, whose users come back after two minutes:

    >>> from clusterlab.catalogue import machine
    >>> from clusterlab.model import Layout, transformer
    >>> from clusterlab.serving import Formats
    >>> server = Replica(transformer("Llama 3.1 70B"), machine("H100 SXM"), Layout(tp=8), Formats("fp8", cache_bytes=1))
    >>> tiers = [Tier(1e12, 50e9), Tier(30e12, 5e9)]  # a terabyte of the host's memory, thirty of its disks
    >>> prefix_hits(server, 8000, tiers, rate=100, pause=120, replicas=10)
    Prefixes
                   share    keeps    takes
    tier 1         60.4%    111 s  3.28 ms
    tier 2         39.6%  376 min  32.8 ms
    computed anew     0%            290 ms
    mean                             15 ms
    """
    shared = [tier.shared for tier in tiers]
    if not tiers:
        raise ValueError("tiers must be one or more, got none")
    if shared != sorted(shared):
        raise ValueError("tiers that are shared must come last")
    (each, away), (many,) = positive(rate=rate, pause=pause), whole(replicas=replicas)
    stays = check(BELOW_ONE, "again", again)
    found = [reuse.unchecked(replica, tokens, bandwidth=tier.bandwidth, latency=tier.latency) for tier in tiers]
    elements = sum(count * block.cache_elements(replica.model, tokens) for count, block in replica.model.counted)
    own = elements * replica.formats.cache_bytes + state_bytes(replica.model)
    held = np.cumsum([tier.capacity * (1 if tier.shared else many) for tier in tiers])
    keeps = _kept_for(held / (each * own), away, stays)
    in_time = 1 - np.exp(-keeps / away)
    chance = np.array([1.0 if routed or tier.shared else 1 / many for tier in tiers])
    hits, so_far = [], 0.0
    for there, one, tier in zip(in_time, chance, found, strict=True):
        more = max(one * there - so_far, 0.0) * bool(tier.speedup > 1)
        hits.append(more)
        so_far += more
    return Prefixes(np.array(hits), keeps, np.array([float(one.fetch) for one in found]), float(found[0].compute))
