r"""Serving: how many users a model on accelerators can answer, how fast, and at what price.

A replica runs passes. In a pass (:class:`Batch`) each sequence of the batch gains a token, and a chunk of some prompts
is read. What a GPU does in it is counted: weights and caches read, GEMMs, attention, all-reduces, tokens sent to their
experts and back. Counts become seconds by the laws of other chapters: the roofline with a loss
(:func:`~clusterlab.roofline.kernel_time`), the all-to-all (:func:`~clusterlab.interconnect.expert_all_to_all`), the
hiding law (:func:`~clusterlab.interconnect.exposed_time`), the slowest stage
(:func:`~clusterlab.parallelism.critical_stage`). Everything else on this page is made of such passes.

A replica is ``tp pp dp`` GPUs of a :class:`~clusterlab.model.Layout`: ``tp`` of them split attention, ``dp`` groups
have sequences and caches of their own (attention data parallelism), ``ep`` share out the experts, over all groups.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from ..catalogue import PREDICTION_INTERVALS, ServingSoftware
from ..checks import Numeric, choose, larger, pick, shape_of, smaller, some, total
from ..interconnect import exposed_time
from ..model import TILE, Block, Output, Rank, Routing, Transformer, forward_flops
from ..parallelism import Rates, critical_stage, reached, scan_time
from ..quantities import Amount, Bytes, Count, Flops, FlopsPerSecond, Multiple, Number, PerSecond, Seconds, Share, law
from ..records import Predicted, Rows, summary
from ..roofline import experts_touched, kernel_time
from .replica import Batch, Formats, Replica, Requests
from .routing import fullest_rank

PASS_PARTS: tuple[str, ...] = ("weights", "caches", "gemms", "attention", "elementwise", "all_reduces", "exchange")
PASS_PARTS += ("imbalance", "transfers", "stages", "launches", "host")


@dataclass(frozen=True, repr=False)
class Pass(Predicted):
    """Seconds of one pass of a replica. ``PASS_PARTS`` sum to ``time``.

    ``weights`` and ``caches`` are the seconds that reading them takes; ``gemms`` and ``attention`` what their products
    add to it. ``exchange`` is what shows of sending tokens to experts and back, ``imbalance`` the wait for the fullest
    rank of experts, ``transfers`` the hand-offs between stages, ``stages`` the wait for the slowest of them. A pass of
    a pipeline is the whole way of a sequence through it; the batch then travels in as many microbatches as stages, so
    that no stage waits. ``spread_low`` and ``spread_high`` are those of its :func:`serving_kind`, in multiples of
    ``time``.
    """

    weights: Seconds
    caches: Seconds
    gemms: Seconds
    attention: Seconds
    elementwise: Seconds  # norms, residuals, rotations, activations, tokens sorted to experts and back
    all_reduces: Seconds
    exchange: Seconds
    imbalance: Seconds
    transfers: Seconds
    stages: Seconds
    launches: Seconds
    host: Seconds
    sequences: Amount
    tokens: Number
    gpus: Number
    flops: Flops
    peak: FlopsPerSecond
    spread_low: Number
    spread_high: Number

    _follow: ClassVar = {"mfu": ("%", -1), "tokens_per_second": ("tokens/s", -1)}

    @property
    def time(self) -> Seconds:
        """Seconds of the pass: the sum of its parts."""
        return total(getattr(self, name) for name in PASS_PARTS)

    def _predicted(self) -> tuple[Numeric, Numeric, Numeric, str]:
        whole_pass = self.time
        return whole_pass, self.spread_low * whole_pass, self.spread_high * whole_pass, "s"

    @property
    def mfu(self) -> Share:
        """FLOPs of the pass over what the peak could have done in the time."""
        return self.flops / (self.time * self.gpus * self.peak)

    @property
    def tokens_per_second(self) -> PerSecond:
        """Tokens a second that the replica computes, of prompts and answers."""
        return self.tokens / self.time

    def _rows(self) -> Rows:
        whole_pass = self.time
        rows = [("", "time", "share")]
        parts = {name: getattr(self, name) for name in PASS_PARTS}
        rows += [
            (name.replace("_", "-"), summary(t, "s"), summary(t / whole_pass, "%"))
            for name, t in parts.items()
            if np.any(t)
        ]
        return [*rows, ("pass", *self._cells()), ("MFU", *self._cells("mfu"))]


def serving_kind(model: Transformer, how: str = "one pass") -> str:
    """The kind of a prediction, on which its interval depends, in :data:`clusterlab.catalogue.PREDICTION_INTERVALS`.

    Parameters
    ----------
    model : Transformer
        One shape.
    how : str
        ``"one pass"``, ``"static batch"`` or ``"saturated"``.

    Returns
    -------
    str

    Examples
    --------
    >>> from clusterlab.model import transformer
    >>> serving_kind(transformer("DeepSeek-V3")), serving_kind(transformer("DeepSeek-V3"), "saturated")
    ('serving: one pass', 'serving: saturated, experts')
    """
    names = dict.fromkeys(("one pass", "static batch"), "") | {"saturated": ", experts" if model.experts else ", dense"}
    return f"serving: {how}{choose(names, how=how)}"


def forward_pass(replica: Replica, batch: Batch) -> Pass:
    r"""Time of one pass of a replica, part by part: a decoding step, a prefill, or both at once.

    .. math:: T = \sum_\text{kernels} \big(\max(c, \mu) + \sigma \min(c, \mu)\big) + \text{all-reduces}
        + \big(C - (1 - \kappa)\min(C, H)\big) + \text{imbalance} + \text{launches}

    with c and :math:`\mu` the seconds of computing and of reading, C the exchange of tokens with their experts and H
    what hides it: nothing, or the other half of the batch (``two_batch_overlap``), at the price of reading all weights
    twice.

    Parameters
    ----------
    replica : Replica
        Model, machine, layout and software.
    batch : Batch
        What the pass works through, spread evenly over pp and dp. A rank has at least one sequence.

    Returns
    -------
    Pass

    Notes
    -----
    Source: Pope et al. 2022 for the parts of a pass; DeepSeek-AI 2024 (V3), section 3.4, for attention data
    parallelism, copies of experts and two-batch overlap. MLA decodes in its latent space (DeepSeek-V2 2024, section
    2.1.2): scores cost 2 H (2 r_kv + d_r) a pair of tokens, and a rank reads the latents for all its heads. All-reduces
    are direct: a reduce-scatter and an all-gather, each with all messages posted at once. When prompts are read a token
    crosses to a node once; when all sequences decode it is sent to each expert, and what is hidden costs nothing
    (DeepEP's two kinds of kernels). A hybrid's Mamba-2 layers read and write a state of each sequence that decodes,
    which ``caches`` counts, and scan prompts as in training, in ``attention``; their projections are GEMMs like the
    others, and tensor parallelism splits their heads. Sampling is in ``launches``.

    Examples
    --------
    DeepSeek-V3 on 72 H100, 256 sequences of 2,000 tokens on each: 92 ms measured (LMSYS 2025).

    >>> from clusterlab.catalogue import machine
    >>> from clusterlab.model import Layout, transformer
    >>> layout, formats = Layout(dp=72, ep=72), Formats("fp8")
    >>> deepseek, h100 = transformer("DeepSeek-V3"), machine("H100 SXM")
    >>> replica = Replica(deepseek, h100, layout, formats, two_batch_overlap=True, redundant=32)
    >>> bool(0.08 < forward_pass(replica, Batch(sequences=72 * 256, context=2000)).time < 0.11)
    True
    """
    model, rates = replica.model, _reached_rates(replica)
    interval = PREDICTION_INTERVALS[serving_kind(model)]
    counts = {"sequences": batch.sequences, "tokens": batch.tokens, "gpus": replica.gpus, "flops": _flops(model, batch)}
    given = {"peak": rates.peak, "spread_low": interval.low, "spread_high": interval.high}
    return Pass(**_of_one_shape(_parts(replica, rates, batch) | counts | given))


def pass_time(replica: Replica, batch: Batch) -> Seconds:
    """Seconds of a pass: the ``time`` of :func:`forward_pass`, where nobody asks for its parts."""
    time = total(_parts(replica, _reached_rates(replica), batch).values())
    shape = np.broadcast_shapes(np.shape(time), shape_of(vars(batch).values()))
    return np.broadcast_to(time, shape) if shape else float(time)


def _parts(replica: Replica, rates: Rates, batch: Batch) -> dict[str, Seconds]:
    """Seconds of each of ``PASS_PARTS``."""
    model, software, now = replica.model, replica.software, _Now.of(replica, batch)
    work, turns = _work(replica, rates, batch, now), now.turns
    all_reduces = turns * _all_reduces(replica, rates, batch, now)
    exchange, imbalance = _shown_exchange(work, software, now)
    layers_time = turns * work.layers_time + all_reduces + exchange + imbalance
    parts: dict[str, Seconds] = {
        "weights": turns * (work.gemms.read + work.experts.read + work.output.read),
        "caches": turns * (work.attention.read + work.states.read),
        "gemms": turns * (work.gemms.added + work.experts.added + work.output.added),
        "attention": turns * (work.attention.added + work.states.added),
        "elementwise": turns * work.elementwise,
        "all_reduces": all_reduces,
        "exchange": exchange,
        "imbalance": imbalance,
        "transfers": _transfers(replica, rates, turns * now.rank.tokens),
        "stages": _stage_wait(model, layers_time, turns * work.output.time, replica.layout.pp),
        "launches": sum(count * block.kernels(model) for count, block in model.counted) * software.kernel_time,
    }
    parts["host"] = _shown_host_time(replica, batch, total(parts.values()))
    return parts


def reading(replica: Replica, requests: Requests) -> Seconds:
    """Seconds of a prompt's way through a replica, with another one on each attention rank and in each stage.

    A pipeline begins the next prompt when its first stage is free, so an attention rank ends ``pp`` of them in this
    time. Nothing to read takes none. Of prompts that differ it is the mean: tokens of long ones have more before them.

    Examples
    --------
    Two stages read a prompt in about the same time as one GPU with twice the layers would, and meanwhile another:

    >>> from clusterlab.catalogue import machine
    >>> from clusterlab.model import Layout, transformer
    >>> from clusterlab.serving import Formats
    >>> llama, chip = transformer("Llama 3.1 8B"), machine("H100 SXM")
    >>> ways = [reading(Replica(llama, chip, Layout(pp=p)), Requests(4000, 100)) for p in (1, 2)]
    >>> bool(0.99 < ways[1] / ways[0] < 1.2)
    True
    """
    fresh = requests.read
    if not np.any(fresh):
        return 0.0
    on_way = replica.layout.dp * replica.layout.pp
    before = requests.prompt - fresh + fresh * requests.prompt_spread**2 / 2
    one = Batch(prompt_tokens=fresh * on_way, chunk=fresh, cached=before)
    return pass_time(replica, one)


def full_reading(replica: Replica, requests: Requests) -> Seconds:
    """Seconds of :func:`reading` for each prompt, where a pass is full of them: ``max_tokens`` on an attention rank.

    What a pass takes whatever it reads (weights, launches, half-empty tiles of experts) is then shared.
    """
    fresh = requests.read
    if not np.any(fresh):
        return 0.0
    prompts = larger(replica.software.max_tokens / fresh, 1.0)
    before = requests.prompt - fresh + fresh * requests.prompt_spread**2 / 2
    tokens = prompts * fresh * replica.layout.dp * replica.layout.pp
    return pass_time(replica, Batch(prompt_tokens=tokens, chunk=fresh, cached=before)) / prompts


@law
def split_reading(replica: Replica, requests: Requests, *, ranks: Count = 1) -> Seconds:
    r"""Seconds of a long prompt's way where so many replicas read it together, each a part of its tokens.

    .. math:: T(p/n) + L\,\frac{n - 1}{n}\,\frac{p\,k}{B}

    Each rank computes an n-th of the tokens, and meets all before them: those of a mean token are as many as before,
    since ranks take tokens from the beginning and from the end. In every layer that attends it needs the keys and
    values of the others.

    Parameters
    ----------
    replica : Replica
        One of the ranks: it has all weights.
    requests : Requests
        Prompts of which p tokens are read.
    ranks
        Replicas that share a prompt, n: context parallelism.

    Returns
    -------
    Seconds
        An upper bound: nothing hides the gathering.

    Notes
    -----
    Derived. L layers gather k bytes of keys and values a token, in 16 bits, on each of tp ranks; B is that of a ring in
    the scale-up domain, or between hosts where n replicas do not fit into one. Source of the idea: Liu et al. 2023
    (Ring Attention); Llama 3 2024, section 3.3.2, gathers as here.

    Examples
    --------
    A prompt of 128,000 tokens to 70B: one server of eight takes nine seconds, four a fourth of that.

    >>> from clusterlab.catalogue import machine
    >>> from clusterlab.model import Layout, transformer
    >>> from clusterlab.serving import Formats
    >>> server = Replica(transformer("Llama 3.1 70B"), machine("H100 SXM"), Layout(tp=8), Formats("fp8"))
    >>> one, four = split_reading(server, Requests(128_000, 100), ranks=[1, 4])
    >>> bool(3.5 < one / four < 4)
    True
    """
    fresh, n = requests.read, 1.0 * ranks
    if not np.any(fresh):
        return 0.0 * n
    model, tp, each = replica.model, replica.layout.tp, fresh / n
    on_way = replica.layout.dp * replica.layout.pp
    before = requests.prompt - fresh + (fresh - each) / 2 + fresh * requests.prompt_spread**2 / 2
    own = pass_time(replica, Batch(prompt_tokens=each * on_way, chunk=each, cached=before))
    rates = _reached_rates(replica)
    gathered = sum(count * block.context_elements(model, tp) for count, block in model.counted)
    inside = n * replica.gpus <= replica.machine.domain
    bandwidth = pick(inside, rates.scale_up_ring, rates.network_ring)
    return own + (n - 1) / n * 2 * fresh * gathered / bandwidth


def _reached_rates(replica: Replica, precision: str | None = None) -> Rates:
    """What kernels of its software reach on its machine, at the precision of most of its GEMMs or another."""
    machine, software = replica.machine, replica.software
    computed = precision or replica.formats.compute
    rates = reached(machine, computed)
    blocks = software.block_gemm if computed == "fp8" and "fp4" in machine.peaks else 1.0
    return rates._replace(
        gemm=rates.gemm * software.gemm * blocks,
        memory=software.memory * machine.hbm_bandwidth,
        attention=software.attention * machine.peaks["bf16" if "bf16" in machine.peaks else "fp16"],
        overlap_loss=software.overlap_loss,
    )


def _shown_exchange(work: _Work, software: ServingSoftware, now: _Now) -> tuple[Seconds, Seconds]:
    """Seconds of the exchange that no work hides, and those in which ranks wait for the fullest of them."""
    behind = pick(now.turns > 1, now.turns * work.layers_time, 0.0)
    # DeepEP's kernels for decoding hold no processors.
    contention = pick(np.greater(now.prompted, 0), software.contention, 0.0)
    of_mean, of_fullest = (
        exposed_time.unchecked(time, behind, contention=contention) for time in (work.exchange, work.fullest_exchange)
    )
    return of_mean, now.turns * (work.fullest.time - work.experts.time) + of_fullest - of_mean


def _stage_wait(model: Transformer, layers_time: Seconds, output_time: Seconds, stages: Count) -> Seconds:
    """Seconds that a microbatch waits for the slowest stage: the one that also has the output layer."""
    if not some(np.greater(stages, 1)):
        return 0.0
    slowest = critical_stage.unchecked(
        model.layers,
        layer_time=layers_time / model.layers,
        embedding_time=0.0,
        output_time=output_time,
        stages=stages,
        microbatches=1.0,
        chunks=1.0,
    )
    return larger((stages - 1) * slowest.time - slowest.bubble, 0.0)


def _shown_host_time(replica: Replica, batch: Batch, parts_time: Seconds) -> Seconds:
    """Seconds of the host that no pass hides: where there is one stage it may prepare the next pass meanwhile."""
    layout, software = replica.layout, replica.software
    host = layout.pp * software.pass_time + batch.sequences / layout.dp * software.sequence_time
    meanwhile = pick(layout.pp == 1, parts_time, 0.0) if software.host_overlap else 0.0
    return exposed_time.unchecked(host, meanwhile, contention=0.0)


def _of_one_shape(columns: Mapping[str, Numeric]) -> dict[str, Numeric]:
    """Numbers as floats, or all columns in the shape of the widest."""
    shape = shape_of(columns.values())
    if not shape:
        return {name: float(column) for name, column in columns.items()}
    return {
        name: column if getattr(column, "shape", ()) == shape else np.broadcast_to(column, shape)
        for name, column in columns.items()
    }


class _Now(NamedTuple):
    """What a rank has of the batch at a time: sequences that decode, and tokens of prompts; the rank has all tokens."""

    rank: Rank
    sequences: Amount
    prompted: Amount
    chunks: Amount  # of prompts
    turns: Number  # batches that take turns: two of them overlap

    @classmethod
    def of(cls, replica: Replica, batch: Batch) -> _Now:
        """Spread a batch over a replica; a rank has at least one sequence."""
        layout = replica.layout
        turns = pick(np.asarray(replica.two_batch_overlap), 2.0, 1.0)
        share = layout.dp * layout.pp * turns
        sequences = pick(np.greater(batch.sequences, 0), larger(batch.sequences / share, 1.0), 0.0)
        prompted = batch.prompt_tokens / share
        tokens = sequences * batch.verified + prompted
        cut = layout.tp, layout.ep, layout.expert_tp
        rank = Rank(*cut, tokens=tokens, sequence_parallel=replica.software.two_axes)
        return cls(rank, sequences, prompted, prompted / batch.chunk, turns)


class _Kernel(NamedTuple):
    """Seconds: of reading, and what products add."""

    read: Seconds
    added: Seconds

    @property
    def time(self) -> Seconds:
        """Seconds of both."""
        return self.read + self.added

    def plus(self, other: _Kernel, times: Number = 1.0) -> _Kernel:
        """Return both, the other so many times."""
        return _Kernel(self.read + times * other.read, self.added + times * other.added)


_NONE = _Kernel(0.0, 0.0)


def _kernel(rates: Rates, flops: Flops, read: Bytes, moved: Bytes = 0.0, peak: FlopsPerSecond | None = None) -> _Kernel:
    """A kernel that reads weights or caches, and moves other bytes besides; only the former count as read."""
    rate, loss = rates.gemm if peak is None else peak, rates.overlap_loss
    time = kernel_time.unchecked(flops, read + moved, peak=rate, bandwidth=rates.memory, overlap_loss=loss)
    alone = read / rates.memory
    return _Kernel(alone, time - alone)


class _Work(NamedTuple):
    """What the kernels of a rank take for one of the batches that take turns, all layers together."""

    gemms: _Kernel  # that every token meets
    experts: _Kernel  # of the mean rank
    fullest: _Kernel  # of the rank with the most tokens
    attention: _Kernel
    states: _Kernel
    elementwise: Seconds
    output: _Kernel
    exchange: Seconds  # tokens to their experts and back, of all batches
    fullest_exchange: Seconds  # ... of the fullest rank

    @property
    def layers_time(self) -> Seconds:
        """Seconds of all layers on the mean rank; what the fullest adds is ``imbalance``."""
        weights, gemms = self.gemms.read + self.experts.read, self.gemms.added + self.experts.added
        return self.attention.time + self.states.time + weights + gemms + self.elementwise


def _work(replica: Replica, rates: Rates, batch: Batch, now: _Now) -> _Work:
    """Count every kernel of a pass, block by block, and the exchange of tokens with their experts."""
    model = replica.model
    experts = fullest = _NONE
    exchange: Seconds = 0.0
    fullest_exchange: Seconds = 0.0
    for stack in model.stacks:
        for routing in filter(None, (block.routing(model) for block in stack.blocks)):
            of_mean, of_fullest, factor = _expert_work(routing, rates, replica, now)
            experts, fullest = experts.plus(of_mean, stack.count), fullest.plus(of_fullest, stack.count)
            sent = now.turns * stack.count * _exchange(routing, rates, replica, now)
            exchange, fullest_exchange = exchange + sent, fullest_exchange + factor * sent
    attention, states = _mixing_work(replica, rates, batch, now)
    return _Work(
        gemms=_gemm_work(replica, rates, now),
        experts=experts,
        fullest=fullest,
        attention=attention,
        states=states,
        elementwise=_elementwise_time(model, rates, now),
        output=_output_work(model, rates, batch, now),
        exchange=exchange,
        fullest_exchange=fullest_exchange,
    )


def _gemm_work(replica: Replica, rates: Rates, now: _Now) -> _Kernel:
    """GEMMs of all blocks that every token meets."""
    model, rank, formats = replica.model, now.rank, replica.formats
    copies = not replica.software.two_axes
    mixing = formats.of(feeds_forward=False)[0]
    of_mixing = rates if mixing == formats.compute else _reached_rates(replica, mixing)
    gemms = _NONE
    for stack in model.stacks:
        for block in stack.blocks:
            met, size = block.on_rank(model, rank.tp, copies=copies), formats.of(feeds_forward=block.feeds_forward)[1]
            (gemm,) = (gemm for gemm in block.gemms(model, rank) if not gemm.grouped)
            own = rates if block.feeds_forward else of_mixing
            one = _kernel(own, 2 * rank.tokens * met, size * met, 2 * rank.tokens * gemm.fused_io)
            gemms = gemms.plus(one, stack.count)
    return gemms


def _output_work(model: Transformer, rates: Rates, batch: Batch, now: _Now) -> _Kernel:
    """The output layer: each sequence wants the logits of its last tokens."""
    gemm = Output().gemm(model, now.rank)
    rows = now.rank.tokens - now.prompted + now.prompted / batch.chunk
    return _kernel(rates, 2 * rows * gemm.met, 2 * gemm.weights)


def _mixing_work(replica: Replica, rates: Rates, batch: Batch, now: _Now) -> tuple[_Kernel, _Kernel]:
    """Attention of all blocks: caches read, products of decoding sequences and of prompts; and states.

    A pass reads and writes the state of each sequence that decodes, however many tokens went before. A prompt is
    scanned as in training: its states are what the scan moves.
    """
    model, tp, new = replica.model, now.rank.tp, now.sequences * batch.verified
    seen = batch.cached + (batch.chunk + 1) / 2  # of its prompt, by the mean token of a chunk
    by_sequences = now.sequences + now.chunks if replica.software.two_axes else None
    decoding = prompts = caches = read = scans = states = scanned = 0.0
    for stack in model.stacks:
        for block in stack.blocks:
            count = stack.count
            decoding = decoding + count * block.decode_scores(model, batch.context)
            prompts = prompts + count * block.scores(model, seen, causal=False)
            held = count * block.cache_share(model, tp, by_sequences) * replica.formats.cache_bytes
            caches = caches + held * block.read_elements(model, batch.context)
            read = read + held * block.cache_elements(model, batch.cached + batch.chunk)
            flops, elements = block.scan(model)
            if flops:
                scans, states = scans + count * flops, states + count * block.state_elements(model)
                scanned = scanned + scan_time(rates, count * now.prompted / tp, flops, elements)
    products = new * decoding / tp + now.prompted * prompts / tp
    mixing = _kernel(rates, products, now.sequences * caches + now.chunks * read, peak=rates.attention)
    if not np.any(scans):
        return mixing, _NONE
    kept = _kernel(rates, new * scans / tp, 2 * now.sequences * 4 * states / tp, peak=rates.attention)
    return mixing, _Kernel(kept.read, kept.added + scanned)


def _elementwise_time(model: Transformer, rates: Rates, now: _Now) -> Seconds:
    """Seconds of all layers in kernels that only move memory, 2 bytes an element.

    A norm with its residual reads two tensors of the stream and writes two, in each block; queries and keys are
    rotated, activations read what the MLP has made and write its middle; rows of experts are sorted and put back.
    """
    stream = split = 0.0
    for stack in model.stacks:
        for block in stack.blocks:
            of_stream, of_split = block.fused_elements(model)
            stream, split = stream + stack.count * of_stream, split + stack.count * of_split
    return 2 * now.rank.tokens * (stream / now.rank.stream + split / now.rank.tp) / rates.memory


def _all_reduces(replica: Replica, rates: Rates, batch: Batch, now: _Now) -> Seconds:
    """Seconds of all-reduces, one a block; of experts only where their outputs do not return by an exchange."""
    model, machine, dp = replica.model, replica.machine, replica.layout.dp
    tp, tokens = now.rank.tp, now.rank.tokens
    links = 1.0 if machine.peers is None else smaller((tp - 1) / machine.peers, 1.0)  # of a mesh, few ranks use few
    rate = larger(links, 1e-9) * rates.scale_up_all_to_all
    inside = rates._replace(scale_up_all_to_all=rate, dispatch_latency=0.0)
    one = 2 * inside.expert_all_to_all(2 * tokens * model.hidden, tp, 1.0) * (tp > 1)
    total: Seconds = 0.0
    for stack in model.stacks:
        for block in stack.blocks:
            if block.routing(model):
                total = total + stack.count * one * (dp == 1)
            elif replica.software.two_axes:
                decoding = now.sequences * batch.verified
                total = total + stack.count * _along_both(model, block, rates, replica.formats, now, decoding)
            else:
                total = total + stack.count * one
    return total


def _along_both(
    model: Transformer, block: Block, rates: Rates, formats: Formats, now: _Now, decoding: Amount
) -> Seconds:
    r"""Seconds of exchange of a block that is cut along both axes of its weights.

    Of n ranks N gather the weights of S bytes, and share out the tokens; the other n/N are a grid of X by Y, that cut
    the stream of h and the inner width w. Two all-gathers and two reduce-scatters, and the best N and X:

    .. math:: \frac{N S}{n B} + \frac{2\,T}{N B}\Big(\frac{2 h}{X} + \frac{w_\text{out} + w_\text{in}}{Y}\Big)

    Sequences that decode are dealt out to all ranks for attention: queries go there, and what they find comes back.
    Source: Pope et al. 2022, sections 3.2 and 3.3: with w = 4 h the least is 8 T h/sqrt(n), for N = 1.
    """
    tp, tokens = now.rank.tp, now.rank.tokens
    weights, wide = block.weights(model)[0], block.columns(model).total
    best: Seconds = np.inf
    powers = 2.0 ** np.arange(np.log2(np.max(tp)) + 1e-9)
    for gather in powers:
        for x in powers:
            y = tp / (gather * x)
            some = 2 * tokens / gather  # bytes of a column of the stream
            time = 2 * rates.ring(some * model.hidden / x, rates.group(larger(y, 1.0)))
            time = time + 2 * rates.ring(some * wide / 2 / larger(y, 1.0), rates.group(x))
            size = formats.of(feeds_forward=block.feeds_forward)[1]
            time = time + rates.ring(size * weights * gather / tp, rates.group(gather))
            best = smaller(best, pick(y >= 1, time, np.inf))
    if not (moved := block.exchanged(model)):
        return best
    sent = rates.expert_all_to_all(2 * decoding * moved / tp, tp, 1.0)
    return best + pick(np.greater(decoding, 0), 2 * sent, 0.0) * (tp > 1)


def _expert_work(routing: Routing, rates: Rates, replica: Replica, now: _Now) -> tuple[_Kernel, _Kernel, Multiple]:
    """Experts of a block on the mean rank and on the fullest, and the tokens of the fullest over the mean."""
    rank, dp, software, size = now.rank, replica.layout.dp, replica.software, replica.formats.weight_bytes
    together = rank.tokens * dp / (rank.tp * dp / (rank.ep * rank.expert_tp))  # that share one copy of all experts
    rows = together * routing.per_token / rank.ep
    weights, width = routing.weights / rank.expert_tp, routing.middle / rank.expert_tp
    held = (routing.experts + replica.redundant) / rank.ep
    chosen = {"experts": float(routing.experts), "experts_per_token": routing.per_token}
    skew, copies = software.expert_skew, replica.redundant
    factor = fullest_rank.unchecked(together, **chosen, ranks=rank.ep, skew=skew, redundant=copies)
    slower = rates._replace(gemm=rates.gemm * software.grouped_gemm)

    def kernel(times: Number) -> _Kernel:
        touched = experts_touched(times * together, **chosen)
        moved = 2 * times * rows * (2 * routing.width + width)
        experts = held * touched
        # Of each expert's tiles the last is half empty.
        filled = times * rows + _tile(times * rows / experts) / 2 * experts
        return _kernel(slower, 2 * filled * weights, size * experts * weights, moved)

    return kernel(1.0), kernel(factor), factor


def _tile(rows: Number) -> Number:
    """Rows of the tile that a grouped GEMM picks for so many of an expert: the next power of two, from 16 to 128."""
    return smaller(larger(2.0 ** np.ceil(np.log2(larger(rows, 1.0))), 16.0), float(TILE))


def _exchange(routing: Routing, rates: Rates, replica: Replica, now: _Now) -> Seconds:
    """Seconds in which tokens of a block travel to their experts and back."""
    rank, per_token = now.rank, 1.0 * routing.per_token
    ranks = rank.ep * rank.expert_tp
    apart = np.greater(replica.layout.dp, 1) & np.greater(ranks, 1)
    if not some(apart):
        return 0.0
    copies = smaller(per_token, rank.ep) * rank.expert_tp  # ... that split an expert need all its tokens
    sent = rank.tokens / rank.tp * copies * routing.width
    # Decoding, every copy goes straight to its rank: as if a token had one expert, as often as it has.
    together = pick(np.greater(now.prompted, 0), per_token, 1.0)
    there = rates.expert_all_to_all(larger(rates.operand_bytes, 1.0) * sent, ranks, together, routing.node_limit)
    back = rates.expert_all_to_all(2 * sent, ranks, together, routing.node_limit)
    return (there + back) * apart


def _transfers(replica: Replica, rates: Rates, tokens: Number) -> Seconds:
    """Seconds of a token's hand-offs from stage to stage, and of the way back of the token that was drawn."""
    tp, pp = replica.layout.tp, replica.layout.pp
    inside = tp * replica.layout.dp * pp <= replica.machine.domain
    bandwidth = pick(inside, rates.scale_up_all_to_all, rates.network_all_to_all)
    latency = pick(inside, rates.scale_up_latency, rates.network_latency)
    size = 2 * tokens * replica.model.hidden * replica.model.streams
    return (pp > 1) * (pp * latency + (pp - 1) * size / (tp * bandwidth))


def _flops(model: Transformer, batch: Batch) -> Flops:
    """FLOPs that the model asks for, however they are computed."""
    decoding = forward_flops.unchecked(model, batch.context).total
    reading = forward_flops.unchecked(model, batch.cached + (batch.chunk + 1) / 2).layers
    return batch.sequences * batch.verified * decoding + batch.prompt_tokens * reading
