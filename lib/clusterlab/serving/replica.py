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

from dataclasses import dataclass, fields, replace
from statistics import NormalDist
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ..catalogue import SERVING, SPREADS, Machine, ServingSoftware
from ..checks import broadcastable, choose, larger, nonnegative, pick, positive, smaller, whole
from ..interconnect import exposed_time
from ..model import (
    PRECISIONS,
    Faults,
    Layout,
    Transformer,
    attention_parameters,
    beside_parameters,
    expert_input,
    expert_parameters,
    kv_cache_bytes,
    mamba_parameters,
    mamba_products,
    scan_flops,
    state_bytes,
)
from ..model.shape import _forward_flops
from ..parallelism.pipeline import _critical_stage
from ..parallelism.training import _Reached, _reached, _scan
from ..records import Explained, Predicted, summary, words
from ..roofline import experts_touched, kernel_time

_Numbers = float | np.ndarray
_ONE_GPU = Layout()

# --- What is served --------------------------------------------------------------------------------------------------


_PRODUCTS = tuple(name for name in PRECISIONS if name != "fp8-row")  # whose rate was measured in training alone


@dataclass(frozen=True, repr=False)
class Formats(Explained):
    """Number formats: of the GEMMs, of the weights in memory, of the caches.

    ``products`` is a precision of :data:`~clusterlab.model.PRECISIONS`. ``weight_bytes`` of a weight are by default
    those of an operand; ``cache_bytes`` are of an element of the caches. Output layer and embedding stay in 16 bits,
    states of a hybrid in 32.

    Examples
    --------
    >>> Formats("fp8", cache_bytes=1).weight_bytes
    1.0
    """

    products: str = "bf16"
    weight_bytes: float | None = None
    cache_bytes: float = 2.0

    def __post_init__(self) -> None:
        """Fill in the bytes of a weight, and refuse unknown precisions and sizes that are none."""
        if self.products not in _PRODUCTS:
            raise ValueError(f"products must be one of {', '.join(_PRODUCTS)}; got {self.products!r}")
        if self.weight_bytes is None:
            object.__setattr__(self, "weight_bytes", PRECISIONS[self.products][1])
        for name in ("weight_bytes", "cache_bytes"):
            object.__setattr__(self, name, positive(**{name: getattr(self, name)})[0])


@dataclass(frozen=True, repr=False)
class Requests(Explained):
    """What users ask: tokens of a prompt, tokens of its answer, and the share of the prompt that a cache has already.

    A ``cached`` of 1 is a prompt that other GPUs have read: this replica only decodes.

    Examples
    --------
    >>> Requests(prompt=4000, output=500, cached=0.5).read
    2000.0
    """

    prompt: float
    output: float
    cached: float = 0.0

    def __post_init__(self) -> None:
        """Refuse what no user asks."""
        for name, value in zip(
            ("prompt", "output", "cached"),
            [*positive(prompt=self.prompt, output=self.output), *nonnegative(cached=self.cached)],
            strict=True,
        ):
            object.__setattr__(self, name, value)
        if np.any(np.less(self.output, 1)):
            raise ValueError(f"output must be at least 1, got {np.min(self.output):g}")
        if np.any(np.greater(self.cached, 1)):
            raise ValueError(f"cached must be at most 1, got {np.max(self.cached):g}")
        broadcastable(prompt=self.prompt, output=self.output, cached=self.cached)

    @property
    def read(self):
        """Tokens of a prompt that no cache has."""
        return self.prompt * (1 - self.cached)

    @property
    def mean_context(self):
        """Tokens that a sequence has in its cache, averaged over the passes that write its answer."""
        return self.prompt + self.output / 2


@dataclass(frozen=True, repr=False)
class Batch(Explained):
    """What one pass of a replica works through, on all its attention ranks together.

    ``sequences`` are decoding: the pass reads ``context`` cached tokens of each and computes ``verified`` new ones
    (one, or one more than were drafted). ``prompt_tokens`` of prompts are read besides, in chunks of ``chunk`` tokens,
    each of which follows ``cached`` tokens of its own prompt.

    Examples
    --------
    >>> Batch(sequences=256, context=4096).tokens, Batch(prompt_tokens=8192, chunk=2048).tokens
    (256.0, 8192.0)
    """

    sequences: float = 0.0
    context: float = 1.0
    verified: float = 1.0
    prompt_tokens: float = 0.0
    chunk: float = 1.0
    cached: float = 0.0

    def __post_init__(self) -> None:
        """Refuse a pass without tokens."""
        names = [f.name for f in fields(self)]
        for name, value in zip(names, nonnegative(**{n: getattr(self, n) for n in names}), strict=True):
            object.__setattr__(self, name, value)
        positive(context=self.context, chunk=self.chunk, tokens=self.tokens)
        if np.any(np.less(self.verified, 1)):
            raise ValueError(f"verified must be at least 1, got {np.min(self.verified):g}")

    @property
    def tokens(self):
        """Tokens that the pass computes."""
        return self.sequences * self.verified + self.prompt_tokens


def faults(model, layout: Layout, *, redundant=0) -> Faults:
    """Which layouts cannot serve a model, and by which rule. Memory is no rule of this list.

    Parameters
    ----------
    model : Transformer
        The shape.
    layout : Layout
        tp, pp, dp, ep and etp of a replica.
    redundant : array_like
        Copies of experts besides the first.

    Returns
    -------
    Faults

    Raises
    ------
    ValueError
        ``redundant`` is negative.

    Examples
    --------
    DeepSeek-V3's 256 experts and 32 copies are 288, which 72 GPUs can share; 256 they cannot.

    >>> from clusterlab.model import transformer
    >>> layout = Layout(dp=72, ep=72)
    >>> faults(transformer("DeepSeek-V3"), layout, redundant=[0, 32]).valid
    array([False,  True])
    """
    (extra,) = nonnegative(redundant=redundant)
    t, p, d, x = layout.tp, layout.pp, layout.dp, layout.ep
    rules = {
        "tp must divide heads": model.heads % t != 0,
        "pp must be at most layers": p > model.layers,
        "cp must be 1": layout.cp != 1,
        "tp must divide mamba_groups": (model.mamba_layers > 0) & (model.mamba_groups % t != 0),
        "ep must divide experts with redundant": (max(model.experts, 1) + extra) % x != 0,
        "ep times etp must divide tp dp": (t * d) % (x * layout.expert_tp) != 0,
    }
    values = {f.name: getattr(layout, f.name) for f in fields(layout)} | {"etp": layout.expert_tp, "redundant": extra}
    names = ("heads", "layers", "experts", "mamba_groups")
    return Faults(rules, values | {name: getattr(model, name) for name in names})


@dataclass(frozen=True, repr=False)
class Replica(Explained):
    """One copy of a model, and the GPUs that serve it.

    Parameters
    ----------
    model : Transformer
        One shape.
    machine : Machine
        From :func:`clusterlab.catalogue.machine`.
    layout : Layout
        tp, pp, dp, ep and etp. Of arrays: as many replicas.
    formats : Formats
        Of products, weights and caches.
    two_batches : bool or array of bool
        Whether a batch is halved, so that one half computes while the other communicates.
    redundant : array_like
        Copies of experts besides the first.
    software : ServingSoftware
        From ``SERVING``, or one of your own.

    Raises
    ------
    ValueError
        The machine has no such precision, a layout breaks a rule of :func:`faults`, or the software cuts weights along
        two axes and layers are Mamba-2.

    Examples
    --------
    >>> from clusterlab.catalogue import machine
    >>> from clusterlab.model import transformer
    >>> Replica(transformer("Llama 3.1 70B"), machine("H100 SXM"), Layout(tp=4), Formats("fp8"))
    Replica
                         value
    model        Llama 3.1 70B
    machine           H100 SXM
    GPUs                     4
    products               fp8
    two batches             no
    software             usual
    """

    model: Transformer
    machine: Machine
    layout: Layout = _ONE_GPU
    formats: Formats = Formats()
    two_batches: Any = False
    redundant: Any = 0
    software: ServingSoftware = SERVING["usual"]

    def __post_init__(self) -> None:
        """Refuse what cannot be served."""
        faults(self.model, self.layout, redundant=self.redundant).refuse()
        peaks = self.machine.peaks
        if PRECISIONS[self.formats.products][0] not in peaks:
            known = [name for name in _PRODUCTS if PRECISIONS[name][0] in peaks]
            got = self.formats.products
            raise ValueError(f"products must be one of {', '.join(known)} on {self.machine.name}; got {got!r}")
        if self.model.mamba_layers and self.software.two_axes:
            raise ValueError("two_axes of the software must be False where layers are Mamba-2, got True")
        if np.asarray(self.two_batches).dtype != bool:
            raise ValueError(f"two_batches must be True or False, got {self.two_batches!r}")

    @property
    def gpus(self):
        """GPUs of the replica."""
        return self.layout.gpus

    def _rows(self):
        both = (np.ndim(self.two_batches) and "some") or ("yes" if self.two_batches else "no")
        rows = [("", "value"), ("model", self.model.name), ("machine", self.machine.name)]
        rows += [("GPUs", summary(self.gpus)), ("products", self.formats.products), ("two batches", both)]
        return [*rows, ("software", self.software.name)]


# --- Experts ---------------------------------------------------------------------------------------------------------


def fullest_rank(tokens, *, experts, experts_per_token, ranks, skew=0, redundant=0):
    r"""Tokens of the fullest of the ranks that share the experts, over the mean: all wait for it.

    .. math:: \left(1 - \tfrac{v^2}{9} + \tfrac{v}{3}\, z_n\right)^3, \qquad
        v^2 = \frac{n - 1}{n - 1/E}\,\frac{c^2}{s} + \frac{(n - 1)(E - k)}{T k (E - 1)}

    v is the standard deviation of a rank's load over its mean: the first part from experts that are not equally
    popular, with s = (E + R)/n experts on a rank, the second from chance, which vanishes in large batches.
    :math:`z_n = \Phi^{-1}\big((n - 0.375)/(n + 0.25)\big)` is where the largest of n normal numbers is expected.

    Parameters
    ----------
    tokens : array_like
        Tokens routed together, T.
    experts, experts_per_token, ranks : array_like
        Experts E of the layer, those each token selects, k, and the ranks n that share them.
    skew : array_like
        Standard deviation of the popularity of an expert over its mean, c. Copies in the right places make it smaller;
        :func:`balanced_loads` says by how much.
    redundant : array_like
        Copies of experts besides the first, R.

    Returns
    -------
    array_like
        At least 1; exactly 1 for one rank.

    Raises
    ------
    ValueError
        An argument is not a number that it can be, or a token selects more experts than there are.

    Notes
    -----
    Derived: the variance of a sum of draws without replacement; Blom 1958 for the place of the largest, and Wilson and
    Hilferty 1931 for a load that is skewed to the right (of a gamma distribution).

    Examples
    --------
    64 GPUs, 128 tokens on each, all experts alike; then with a skew of one half:

    >>> load = {"experts": 256, "experts_per_token": 8, "ranks": 64}
    >>> [round(float(fullest_rank(64 * 128, **load, skew=c)), 2) for c in (0, 0.5)]
    [1.07, 1.68]
    """
    t, (total, k, n) = (
        positive(tokens=tokens)[0],
        whole(experts=experts, experts_per_token=experts_per_token, ranks=ranks),
    )
    c, extra = nonnegative(skew=skew, redundant=redundant)
    broadcastable(tokens=t, experts=total, experts_per_token=k, ranks=n, skew=c, redundant=extra)
    if np.any(k > total):
        raise ValueError(f"experts_per_token must be at most experts, got {experts_per_token} of {experts}")
    return _fullest_rank(t, total, k, n, c, extra)


_QUANTILE = np.vectorize(NormalDist().inv_cdf, otypes=[float])


def _fullest_rank(tokens, experts, experts_per_token, ranks, skew, redundant):
    n = ranks
    sizes, where = np.unique(n, return_inverse=True)
    z = _QUANTILE((sizes - 0.375) / (sizes + 0.25))[where].reshape(np.shape(n))[()]
    popular = skew**2 * n / (experts + redundant) * (n - 1) / (n - 1 / experts)
    chance = (n - 1) * (experts - experts_per_token) / (tokens * experts_per_token * larger(experts - 1.0, 1.0))
    v = np.sqrt(popular + chance)
    return larger((1 - v**2 / 9 + v * z / 3) ** 3, 1.0)


def balanced_loads(loads, ranks, *, redundant=0) -> np.ndarray:
    """Load of each rank after the hottest experts are copied and all copies are dealt out evenly.

    Copies are given one at a time to the expert whose copies carry most; then the heaviest copy left goes to the
    lightest rank that has room. Every rank holds as many copies.

    Parameters
    ----------
    loads : array_like
        Tokens of each expert, one dimension.
    ranks : int
        Ranks that share the experts.
    redundant : int
        Copies besides the first of each expert.

    Returns
    -------
    numpy.ndarray
        Tokens of each rank.

    Raises
    ------
    ValueError
        ``loads`` is not one row of numbers, a count is not whole, or the ranks do not divide the copies.

    Notes
    -----
    Source: DeepSeek's EPLB (its global policy): replicate the heaviest, pack greedily into equal numbers.

    Examples
    --------
    One expert of four is asked by half of the tokens. Without copies its rank has 60; with two it is 46.7.

    >>> balanced_loads([50, 20, 10, 10], 2), balanced_loads([50, 20, 10, 10], 2, redundant=2).round(1)
    (array([60., 30.]), array([46.7, 43.3]))
    """
    (load,) = nonnegative(loads=loads)
    if np.ndim(load) != 1:
        raise ValueError(f"loads must have one dimension, got shape {np.shape(load)}")
    (n,), (extra,) = whole(ranks=ranks), nonnegative(redundant=redundant)
    n, extra = int(n), int(extra)
    slots = len(load) + extra
    if slots % n:
        raise ValueError(f"ranks must divide experts and copies, got {n} and {slots}")
    copies = np.ones(len(load))
    for _ in range(extra):
        copies[np.argmax(load / copies)] += 1
    each = np.sort(np.repeat(load / copies, copies.astype(int)))[::-1]
    out, room = np.zeros(n), np.full(n, slots // n)
    for weight in each:
        lightest = int(np.argmin(np.where(room > 0, out, np.inf)))
        out[lightest] += weight
        room[lightest] -= 1
    return out


# --- One pass --------------------------------------------------------------------------------------------------------

PARTS: tuple[str, ...] = ("weights", "caches", "gemms", "attention", "elementwise", "all_reduces", "exchange")
PARTS += ("imbalance", "transfers", "stages", "launches", "host")


@dataclass(frozen=True, repr=False)
class Pass(Predicted):
    """Seconds of one pass of a replica. ``PARTS`` sum to ``time``.

    ``weights`` and ``caches`` are the seconds that reading them takes; ``gemms`` and ``attention`` what their products
    add to it. ``exchange`` is what shows of sending tokens to experts and back, ``imbalance`` the wait for the fullest
    rank of experts, ``transfers`` the hand-offs between stages, ``stages`` the wait for the slowest of them. A pass of
    a pipeline is the whole way of a sequence through it; the batch then travels in as many microbatches as stages, so
    that no stage waits. ``spread_low`` and ``spread_high`` are those of its :func:`kind`, in multiples of ``time``.
    """

    weights: float
    caches: float
    gemms: float
    attention: float
    elementwise: float  # norms, residuals, rotations, activations, tokens sorted to experts and back
    all_reduces: float
    exchange: float
    imbalance: float
    transfers: float
    stages: float
    launches: float
    host: float
    sequences: float
    tokens: float
    gpus: float
    flops: float
    peak: float
    spread_low: float
    spread_high: float

    _follow: ClassVar = {"mfu": ("%", -1), "tokens_per_second": ("tokens/s", -1)}

    @property
    def time(self):
        """Seconds of the pass: the sum of its parts."""
        return sum(getattr(self, name) for name in PARTS)

    def _predicted(self):
        whole_pass = self.time
        return whole_pass, self.spread_low * whole_pass, self.spread_high * whole_pass, "s"

    @property
    def mfu(self):
        """FLOPs of the pass over what the peak could have done in the time."""
        return self.flops / (self.time * self.gpus * self.peak)

    @property
    def tokens_per_second(self):
        """Tokens a second that the replica computes, of prompts and answers."""
        return self.tokens / self.time

    def _rows(self):
        whole_pass = self.time
        rows = [("", "time", "share")]
        parts = {name: getattr(self, name) for name in PARTS}
        rows += [
            (name.replace("_", "-"), summary(t, "s"), summary(t / whole_pass, "%"))
            for name, t in parts.items()
            if np.any(t)
        ]
        return [*rows, ("pass", *self._cells()), ("MFU", *self._cells("mfu"))]


def kind(model, how: str = "one pass") -> str:
    """The kind of a prediction, of which its spread depends: a key of :data:`clusterlab.catalogue.SPREADS`.

    Parameters
    ----------
    model : Transformer
        One shape.
    how : str
        ``"one pass"``, ``"static batch"`` or ``"saturated"``.

    Returns
    -------
    str

    Raises
    ------
    ValueError
        ``how`` is another.

    Examples
    --------
    >>> from clusterlab.model import transformer
    >>> kind(transformer("DeepSeek-V3")), kind(transformer("DeepSeek-V3"), "saturated")
    ('serving: one pass', 'serving: saturated, experts')
    """
    names = dict.fromkeys(("one pass", "static batch"), "") | {"saturated": ", experts" if model.experts else ", dense"}
    return f"serving: {how}{choose(names, how=how)}"


def forward_pass(replica: Replica, batch: Batch) -> Pass:
    r"""Time of one pass of a replica, part by part: a decoding step, a prefill, or both at once.

    .. math:: T = \sum_\text{kernels} \big(\max(c, \mu) + \sigma \min(c, \mu)\big) + \text{all-reduces}
        + \big(C - (1 - \kappa)\min(C, H)\big) + \text{imbalance} + \text{launches}

    with c and :math:`\mu` the seconds of computing and of reading, C the exchange of tokens with their experts and H
    what hides it: nothing, or the other half of the batch (``two_batches``), at the price of reading all weights twice.

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
    parallelism, copies of experts and two batches. MLA decodes in its latent space (DeepSeek-V2 2024, section 2.1.2):
    scores cost 2 H (2 r_kv + d_r) a pair of tokens, and a rank reads the latents for all its heads. All-reduces are
    direct: a reduce-scatter and an all-gather, each with all messages posted at once. When prompts are read a token
    crosses to a node once; when all sequences decode it is sent to each expert, and what is hidden costs nothing
    (DeepEP's two kinds of kernels). A hybrid's Mamba-2 layers read and write a state of each sequence that decodes,
    which ``caches`` counts, and scan prompts as in training, in ``attention``; their projections are GEMMs like the
    others, and tensor parallelism splits their heads. Sampling is in ``launches``.

    Examples
    --------
    DeepSeek-V3 on 72 H100, 256 sequences of 2,000 tokens on each: 92 ms measured (LMSYS 2025).

    >>> from clusterlab.catalogue import machine
    >>> from clusterlab.model import transformer
    >>> layout, formats = Layout(dp=72, ep=72), Formats("fp8")
    >>> deepseek, h100 = transformer("DeepSeek-V3"), machine("H100 SXM")
    >>> replica = Replica(deepseek, h100, layout, formats, two_batches=True, redundant=32)
    >>> bool(0.08 < forward_pass(replica, Batch(sequences=72 * 256, context=2000)).time < 0.11)
    True
    """
    model, machine, formats, software = replica.model, replica.machine, replica.formats, replica.software
    layout = replica.layout
    halves = pick(np.asarray(replica.two_batches), 2.0, 1.0)
    job = _Job(layout.tp, layout.pp, layout.dp, layout.ep, layout.expert_tp, halves, replica.redundant)
    reached = _reached(machine, formats.products)
    reached = reached._replace(
        gemm=reached.gemm * software.gemm,
        memory=software.memory * machine.hbm_bandwidth,
        attention=software.attention * machine.peaks["bf16" if "bf16" in machine.peaks else "fp16"],
        overlap_loss=software.overlap_loss,
    )
    tp, pp, dp, halves, layers, moe = job.tp, job.pp, job.dp, job.halves, model.layers, model.moe_layers
    attentive, mixers = model.attention_layers, model.mamba_layers
    share = dp * pp * halves  # what a rank has of the batch at a time
    sequences = pick(np.greater(batch.sequences, 0), larger(batch.sequences / share, 1.0), 0.0)
    prompted = batch.prompt_tokens / share
    tokens = sequences * batch.verified + prompted
    both = software.two_axes
    projections, ffn, beside, output = _dense_work(model, reached, job, batch, formats, tokens, prompted, both)
    scores = _scores(model, reached, job, batch, formats, sequences, prompted, both)
    experts = fullest = states = _Kernel(0.0, 0.0)
    exchange, factor = 0.0, 1.0
    if moe:
        experts, fullest, factor = _expert_work(model, reached, job, formats, software, tokens)
        exchange = halves * moe * _exchange(model, reached, job, tokens, prompted)
    dense = model.ffn_layers - moe
    read = attentive * projections.read + dense * ffn.read + moe * (beside.read + experts.read)
    added = attentive * projections.added + dense * ffn.added + moe * (beside.added + experts.added)
    if mixers:
        mixer, states = _mixer_work(model, reached, job, batch, formats, tokens, sequences, prompted)
        read, added = read + mixers * mixer.read, added + mixers * mixer.added
    elementwise = _elementwise(model, reached, job, tokens, both)
    work = attentive * scores.time + states.time + read + added + elementwise
    # An all-reduce a block, two a layer that is no hybrid's; one where the experts' outputs return by an exchange.
    links = 1.0 if machine.peers is None else smaller((tp - 1) / machine.peers, 1.0)  # of a mesh, few ranks use few
    rate = larger(links, 1e-9) * reached.scale_up_all_to_all
    inside = reached._replace(scale_up_all_to_all=rate, dispatch_latency=0.0)
    one = 2 * inside.expert_all_to_all(2 * tokens * model.hidden, tp, 1.0) * (tp > 1)
    all_reduces = halves * one * (model.blocks - moe + moe * (1.0 * (dp == 1)))
    if both:
        of_layer = _along_both(model, reached, tp, formats, tokens, sequences * batch.verified)
        all_reduces = halves * (layers * of_layer[0] + dense * of_layer[1] + moe * one * (dp == 1))
    behind = pick(halves > 1, halves * work, 0.0)
    lost = pick(np.greater(prompted, 0), software.contention, 0.0)  # DeepEP's kernels for decoding hold no processors
    exposed, waited = (exposed_time.unchecked(times * exchange, behind, contention=lost) for times in (1.0, factor))
    imbalance = halves * moe * (fullest.time - experts.time) + waited - exposed
    layer_time = (halves * work + all_reduces + exposed + imbalance) / layers
    slowest = _critical_stage(layers, layer_time, 0.0, halves * output.time, pp, 1.0, 1.0)
    host = pp * software.pass_time + batch.sequences / dp * software.sequence_time
    columns: dict[str, Any] = {
        "weights": halves * (read + output.read),
        "caches": halves * (attentive * scores.read + states.read),
        "gemms": halves * (added + output.added),
        "attention": halves * (attentive * scores.added + states.added),
        "elementwise": halves * elementwise,
        "all_reduces": all_reduces,
        "exchange": exposed,
        "imbalance": imbalance,
        "transfers": _transfers(model, machine, reached, job, halves * tokens),
        "stages": larger((pp - 1) * slowest.time - slowest.bubble, 0.0),
        "launches": halves * (model.blocks / 2) * software.layer_time,
        "host": 0.0,
        "sequences": batch.sequences,
        "tokens": batch.tokens,
        "gpus": tp * pp * dp,
        "flops": _flops(model, batch),
        "peak": reached.peak,
        "spread_low": SPREADS[kind(model)].low,
        "spread_high": SPREADS[kind(model)].high,
    }
    # Where there is one stage the host may prepare the next pass meanwhile.
    meanwhile = pick(pp == 1, sum(columns[name] for name in PARTS), 0.0) if software.host_overlap else 0.0
    columns["host"] = exposed_time.unchecked(host, meanwhile, contention=0.0)
    shape = np.broadcast_shapes(*(np.shape(column) for column in columns.values()))
    if not shape:
        return Pass(**{name: float(column) for name, column in columns.items()})
    columns = {name: np.broadcast_to(column, shape) for name, column in columns.items()}
    return Pass(**columns)


class _Job(NamedTuple):
    """A layout in numbers: ranks of each axis, batches that take turns, copies of experts."""

    tp: _Numbers
    pp: _Numbers
    dp: _Numbers
    ep: _Numbers
    etp: _Numbers
    halves: _Numbers
    redundant: _Numbers


class _Kernel(NamedTuple):
    """Seconds: of reading, and what products add."""

    read: _Numbers
    added: _Numbers

    @property
    def time(self):
        return self.read + self.added


def _kernel(reached: _Reached, flops, read, moved=0.0, peak=None) -> _Kernel:
    """A kernel that reads weights or caches, and moves other bytes besides; only the former count as read."""
    time = kernel_time.unchecked(
        flops,
        read + moved,
        peak=reached.gemm if peak is None else peak,
        bandwidth=reached.memory,
        overlap_loss=reached.overlap_loss,
    )
    alone = read / reached.memory
    return _Kernel(alone, time - alone)


def _dense_work(model, reached: _Reached, job: _Job, batch: Batch, formats: Formats, tokens, prompted, both):
    """Kernels of a layer that every token meets, and the output layer: projections, MLP, beside experts, output."""
    h, tp, gates, size = model.hidden, job.tp, 1 + model.gated, formats.weight_bytes
    of_heads, for_all = attention_parameters(model)
    # A rank holds one head of keys and values at least, unless they too are cut along both axes.
    copied = 2 * h * model.head_dim * larger(tp - float(model.kv_heads), 0.0) * (model.kv_rank == 0 and not both)

    def kernel(weights, width):
        return _kernel(reached, 2 * tokens * weights, size * weights, 2 * tokens * (2 * h + width))

    projections = kernel((of_heads + copied) / tp + for_all, model.heads * (model.head_dim + model.value_dim) / tp)
    ffn = kernel((1 + gates) * h * model.ffn / tp, (1 + gates) * model.ffn / tp)
    shared = model.shared_experts * model.expert_ffn / tp
    latent = 2 * (h + expert_input(model)) if model.expert_latent else 0  # what goes to a latent space and back
    beside = kernel((1 + gates) * h * shared + beside_parameters(model)[1], (1 + gates) * shared + latent)
    weights = model.vocab * h / tp  # each sequence wants the logits of its last tokens
    rows = tokens - prompted + prompted / batch.chunk
    return projections, ffn, beside, _kernel(reached, 2 * rows * weights, 2 * weights)


def _mixer_work(model, reached: _Reached, job: _Job, batch: Batch, formats: Formats, tokens, sequences, prompted):
    """Kernels of a Mamba-2 mixer's projections, and of the states of all mixers.

    A pass reads and writes the state of each sequence that decodes, however many tokens went before. A prompt is
    scanned as in training: its states are what the scan moves.
    """
    (d, g), tp, met = model.mamba_width, job.tp, mamba_products(model) / job.tp
    moved = 2 * tokens * (2 * model.hidden + (3 * d + 2 * g + model.mamba_heads) / tp)
    projections = _kernel(reached, 2 * tokens * met, formats.weight_bytes * met, moved)
    flops = sequences * batch.verified * model.mamba_layers * scan_flops(model) / tp
    states = _kernel(reached, flops, 2 * sequences * state_bytes(model) / tp, peak=reached.attention)
    return projections, _Kernel(states.read, states.added + _scan(model, reached, prompted, tp))


def _elementwise(model, reached: _Reached, job: _Job, tokens, both):
    """Seconds of all layers in kernels that only move memory, 2 bytes an element.

    A norm with its residual reads two tensors of the stream and writes two, in each block; queries and keys are
    rotated, activations read what the MLP has made and write its middle; rows of experts are sorted and put back.
    """
    gates, moe = 1 + model.gated, model.moe_layers
    of_ffn = (model.ffn_layers - moe) * model.ffn
    of_ffn = of_ffn + moe * (model.experts_per_token + model.shared_experts) * model.expert_ffn
    rotated = 2 * (model.heads + model.kv_heads) * model.head_dim
    split = (model.attention_layers * rotated + (1 + gates) * of_ffn) / job.tp
    sorted_rows = 4 * moe * model.experts_per_token * expert_input(model)
    stream = (4 * model.blocks * model.hidden + sorted_rows) / (job.tp if both else 1.0)
    return 2 * tokens * (stream + split) / reached.memory


def _along_both(model, reached: _Reached, tp, formats: Formats, tokens, decoding):
    r"""Seconds of exchange of a layer's attention and of its MLP, cut along both axes of their weights.

    Of n ranks N gather the weights of S bytes, and share out the tokens; the other n/N are a grid of X by Y, that cut
    the stream of h and the inner width w. Two all-gathers and two reduce-scatters, and the best N and X:

    .. math:: \\frac{N S}{n B} + \\frac{2\\,T}{N B}\\Big(\\frac{2 h}{X} + \\frac{w_\\text{out} + w_\\text{in}}{Y}\\Big)

    Sequences that decode are dealt out to all ranks for attention: queries go there, and what they find comes back.
    Source: Pope et al. 2022, sections 3.2 and 3.3: with w = 4 h the least is 8 T h/sqrt(n), for N = 1.
    """
    h, size, gates = model.hidden, formats.weight_bytes, 1 + model.gated
    of_heads, _ = attention_parameters(model)
    inner = model.heads * model.value_dim
    asked = model.heads * model.head_dim + model.kv_heads * (model.head_dim + model.value_dim)
    powers = 2.0 ** np.arange(np.log2(np.max(tp)) + 1e-9)

    def least(weights, wide):
        best: Any = np.inf
        for gather in powers:
            for x in powers:
                y = tp / (gather * x)
                some = 2 * tokens / gather  # bytes of a column of the stream
                time = 2 * reached.ring(some * h / x, larger(y, 1.0), larger(y, 1.0))
                time = time + 2 * reached.ring(some * wide / 2 / larger(y, 1.0), x, x)
                time = time + reached.ring(size * weights * gather / tp, gather, gather)
                best = smaller(best, pick(y >= 1, time, np.inf))
        return best

    sent = reached.expert_all_to_all(2 * decoding * inner / tp, tp, 1.0)
    apart = pick(np.greater(decoding, 0), 2 * sent, 0.0) * (tp > 1)
    return least(of_heads, asked + inner) + apart, least((1 + gates) * h * model.ffn, (1 + gates) * model.ffn)


def _scores(model, reached: _Reached, job: _Job, batch: Batch, formats: Formats, sequences, prompted, both) -> _Kernel:
    """Attention of a layer that has it: the caches read, and the products of decoding sequences and of prompts."""
    heads = float(model.kv_heads)  # ... among which a rank's share of the caches is a whole one, at least
    if both:
        heads = heads * larger(sequences + prompted / batch.chunk, 1.0)
    held = pick(model.kv_rank > 0 and not both, 1.0, larger(1 / job.tp, 1 / heads))
    layers = max(model.attention_layers, 1)

    def cache(context):
        return held * kv_cache_bytes(model, context, bytes_per_element=formats.cache_bytes) / layers

    def products(context):  # FLOPs of a token
        return _forward_flops(model, context, causal=False).scores / (layers * job.tp)

    latent = 1.0
    if model.kv_rank:  # decoding, queries meet the latents themselves
        latent = (2 * model.kv_rank + model.rope_dim) / (model.head_dim + model.rope_dim + model.value_dim)
    decoding = latent * sequences * batch.verified * products(batch.context)
    seen = batch.cached + (batch.chunk + 1) / 2  # of its prompt, by the mean token of a chunk
    return _kernel(
        reached,
        decoding + prompted * products(seen),
        sequences * cache(batch.context) + prompted / batch.chunk * cache(batch.cached + batch.chunk),
        peak=reached.attention,
    )


def _expert_work(model, reached: _Reached, job: _Job, formats: Formats, software: ServingSoftware, tokens):
    """Experts of a layer on the mean rank and on the fullest, and the tokens of the fullest over the mean."""
    together = tokens * job.dp / (job.tp * job.dp / (job.ep * job.etp))  # tokens that share one copy of all experts
    rows = together * model.experts_per_token / job.ep
    weights = expert_parameters(model) / job.etp
    width = (2 + model.gated) * model.expert_ffn / job.etp
    held = (model.experts + job.redundant) / job.ep
    factor = _fullest_rank(
        together, float(model.experts), model.experts_per_token, job.ep, software.expert_skew, job.redundant
    )

    slower = reached._replace(gemm=reached.gemm * software.grouped_gemm, memory=reached.memory * software.grouped_gemm)

    def kernel(times):
        touched = experts_touched(times * together, experts=model.experts, experts_per_token=model.experts_per_token)
        moved = 2 * times * rows * (2 * expert_input(model) + width)
        filled = times * rows + 64 * held * touched  # each expert's last tile of 128 rows is half empty
        return _kernel(slower, 2 * filled * weights, formats.weight_bytes * held * touched * weights, moved)

    return kernel(1.0), kernel(factor), factor


def _exchange(model, reached: _Reached, job: _Job, tokens, prompted):
    """Seconds in which tokens of a layer travel to their experts and back."""
    copies = smaller(1.0 * model.experts_per_token, job.ep) * job.etp  # ... that split an expert need all its tokens
    sent = tokens / job.tp * copies * expert_input(model)
    # Decoding, every copy goes straight to its rank: as if a token had one expert, as often as it has.
    together = pick(np.greater(prompted, 0), 1.0 * model.experts_per_token, 1.0)
    most = model.node_limit or None
    there = reached.expert_all_to_all(larger(reached.operand_bytes, 1.0) * sent, job.ep * job.etp, together, most)
    back = reached.expert_all_to_all(2 * sent, job.ep * job.etp, together, most)
    return (there + back) * ((job.dp > 1) & (job.ep * job.etp > 1))


def _transfers(model, machine: Machine, reached: _Reached, job: _Job, tokens):
    """Seconds of a token's hand-offs from stage to stage, and of the way back of the token that was drawn."""
    inside = job.tp * job.dp * job.pp <= machine.domain
    bandwidth = pick(inside, reached.scale_up_all_to_all, reached.network_all_to_all)
    latency = pick(inside, reached.scale_up_latency, reached.network_latency)
    return (job.pp > 1) * (job.pp * latency + (job.pp - 1) * 2 * tokens * model.hidden / (job.tp * bandwidth))


def _flops(model, batch: Batch):
    """FLOPs that the model asks for, however they are computed."""
    decoding = _forward_flops(model, batch.context, causal=False).total
    reading = _forward_flops(model, batch.cached + (batch.chunk + 1) / 2, causal=False).layers
    return batch.sequences * batch.verified * decoding + batch.prompt_tokens * reading


# --- Memory ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class Footprint(Explained):
    """Bytes that a GPU of a replica holds; the parts sum to ``total``."""

    weights: float
    activations: float
    caches: float

    @property
    def total(self):
        """Bytes of all parts."""
        return self.weights + self.activations + self.caches

    def _rows(self):
        parts = {f.name: getattr(self, f.name) for f in fields(self)} | {"total": self.total}
        return [("", "bytes"), *((name, summary(value, "B")) for name, value in parts.items())]


def footprint(replica: Replica, *, sequences, context) -> Footprint:
    r"""Bytes on a GPU of a replica: weights, what a pass needs for a moment, and the caches of its sequences.

    .. math:: \text{caches} = \frac{S}{dp\,pp}\left(\text{cache}(s)\,\max(1/tp,\, 1/H_{kv}) + \text{state}/tp\right)

    Parameters
    ----------
    replica : Replica
        Model, machine, layout and software.
    sequences : array_like
        Sequences S that the replica holds.
    context : array_like
        Tokens s of each in its cache.

    Returns
    -------
    Footprint
        Of a stage with as many layers as any, the mixtures of experts first, and one of embedding and output layer.

    Raises
    ------
    ValueError
        An argument is negative or not finite.

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
    >>> from clusterlab.model import transformer
    >>> replica = Replica(transformer("Llama 3.1 70B"), machine("H100 SXM"), Layout(tp=4), Formats("fp8"))
    >>> footprint(replica, sequences=100, context=4000)
    Footprint
                   bytes
    weights      18.2 GB
    activations   785 MB
    caches       32.8 GB
    total        51.7 GB
    """
    held, s = nonnegative(sequences=sequences, context=context)
    weights, activations, each = _bytes(replica, s)
    return Footprint(weights, activations + held * each.logits, held * each.cache)


class _Each(NamedTuple):
    """Bytes of a sequence on a GPU."""

    cache: _Numbers
    logits: _Numbers


def _bytes(replica: Replica, context):
    """Bytes of weights and of activations on a GPU, and those of a sequence with so many tokens."""
    model: Any = replica.model
    layout, formats = replica.layout, replica.formats
    tp, pp, dp, h, gates = layout.tp, layout.pp, layout.dp, model.hidden, 1 + model.gated
    of_heads, for_all = attention_parameters(model)
    layers = np.ceil(model.layers / pp)
    attentive, mixers, moe = layers, 0.0, smaller(layers, float(model.moe_layers))
    dense = layers - moe
    if model.mamba_layers:
        counts = model.attention_layers, model.mamba_layers, model.moe_layers, model.ffn_layers - model.moe_layers
        attentive, mixers, moe, dense = (layers / model.layers * count for count in counts)
    weights = attentive * (of_heads / tp + for_all) + dense * (1 + gates) * h * model.ffn / tp
    weights = weights + mixers * mamba_parameters(model) / tp
    if model.moe_layers:
        expert = expert_parameters(model)
        routed = (model.experts + replica.redundant) / (layout.ep * layout.expert_tp)
        shared, router = beside_parameters(model)
        weights = weights + moe * (expert * (routed + shared / expert / tp) + router)
    ends = pick((pp == 1) & (not model.tied), 2.0, 1.0) * model.vocab * h / tp
    wide = max(model.ffn, (model.experts_per_token + model.shared_experts) * model.expert_ffn)
    activations = 2 * replica.software.max_tokens * (4 * h + gates * wide / tp)
    both = replica.software.two_axes
    held = pick(model.kv_rank > 0 and not both, 1.0, larger(1 / tp, 0.0 if both else 1 / model.kv_heads))
    cache = held * kv_cache_bytes(model, context, bytes_per_element=formats.cache_bytes) / (dp * pp)
    if model.mamba_layers:  # as soon as there is a token
        cache = cache + pick(np.greater(context, 0), state_bytes(model), 0.0) / (tp * dp * pp)
    each = _Each(cache, 4 * model.vocab / (tp * dp * pp))
    return formats.weight_bytes * weights + 2 * ends, activations, each


def largest_batch(replica: Replica, context, *, shared=0):
    r"""Sequences that a replica can hold, each with so many tokens in its cache.

    .. math:: S = dp \left\lfloor \frac{\gamma\,(\text{memory} - \text{weights} - \text{activations})
        - \text{shared cache}}{dp\;\text{bytes of a sequence}} \right\rfloor

    Parameters
    ----------
    replica : Replica
        Model, machine, layout and software, whose ``cache_share`` is :math:`\gamma`.
    context : array_like
        Tokens of each sequence at its longest: prompt and answer.
    shared : array_like
        Tokens with which all of them begin: their cache is there once on each attention rank.

    Returns
    -------
    array_like
        Sequences; 0 where not even the weights fit.

    Raises
    ------
    ValueError
        ``context`` is not positive, or ``shared`` is negative or not below it.

    Notes
    -----
    Source: Kwon et al. 2023 (paged attention): with pages nothing is lost between sequences, a page of a common
    beginning serves all, and memory alone decides. Derived for the rest.

    Examples
    --------
    A trillion parameters in 8 bits (Kimi K2) on a rack of GB200 leave room for 36 times the weights in caches.

    >>> from clusterlab.catalogue import machine
    >>> from clusterlab.model import transformer
    >>> rack = Replica(transformer("Kimi K2"), machine("GB200"), Layout(dp=72, ep=72), Formats("fp8"), redundant=48)
    >>> float(largest_batch(rack, 8192)) > 10_000
    True
    """
    (s,), (common,) = positive(context=context), nonnegative(shared=shared)
    broadcastable(context=s, shared=common)
    if np.any(np.greater_equal(common, s)):
        raise ValueError(f"shared must be below context, got {shared} of {context}")
    weights, activations, each = _bytes(replica, s - common)
    dp = replica.layout.dp
    left = replica.software.cache_share * (replica.machine.hbm_capacity - weights - activations)
    left = left - dp * _bytes(replica, common)[2].cache  # once in each attention group
    return dp * np.floor(larger(left, 0.0) / (dp * (each.cache + each.logits)) * (1 + 1e-12))


@dataclass(frozen=True, repr=False)
class Reuse(Explained):
    """A beginning of a prompt that a cache has, out of the accelerators' memory: fetched, or computed anew.

    ``size`` is in bytes, of what each GPU fetches; ``fetch`` and ``compute`` are seconds.
    """

    size: float
    fetch: float
    compute: float

    @property
    def speedup(self):
        """Time of computing it over that of fetching it: below 1 the cache is too slow to help."""
        return self.compute / self.fetch

    @property
    def enough(self):
        """Bytes/s to each GPU at which fetching takes as long as computing, without a latency."""
        return self.size / self.compute

    def _rows(self):
        rows = [("", "value"), ("size", summary(self.size, "B")), ("fetch", summary(self.fetch, "s"))]
        rows += [("compute", summary(self.compute, "s")), ("speedup", summary(self.speedup))]
        return [*rows, ("enough", summary(self.enough, "B/s"))]


def reuse(replica: Replica, tokens, *, bandwidth, latency=0) -> Reuse:
    r"""Time to bring back keys, values and states of a prompt's beginning from a second tier, beside computing them.

    .. math:: T = \alpha + \frac{\text{cache}(s)\,\max(1/tp,\, 1/H_{kv})}{pp\,B}

    Parameters
    ----------
    replica : Replica
        Model, machine, layout and software.
    tokens : array_like
        Tokens that the cache has, s. Each attention rank brings back as many at once.
    bandwidth : array_like
        Bytes/s from the tier to each GPU, B: of its lanes to the host's memory, of its share of a file system.
    latency : array_like
        Seconds until the first byte comes.

    Returns
    -------
    Reuse

    Raises
    ------
    ValueError
        ``tokens`` or ``bandwidth`` is not positive, or ``latency`` is negative.

    Notes
    -----
    Derived. Source of the idea at scale: Qin et al. 2024 (Mooncake); DeepSeek keeps caches of prompts on disks. A tier
    of C bytes into which caches are written at W bytes/s keeps each for C/W seconds
    (:func:`clusterlab.serving.little_law`).

    Examples
    --------
    4,000 tokens of a 70B model on eight H100s, from the host's memory at 64 GB/s and from SSDs at 5 GB/s for each GPU:

    >>> from clusterlab.catalogue import machine
    >>> from clusterlab.model import transformer
    >>> server = Replica(transformer("Llama 3.1 70B"), machine("H100 SXM"), Layout(tp=8), Formats("fp8", cache_bytes=1))
    >>> reuse(server, 4000, bandwidth=[64e9, 5e9]).speedup.round(0)
    array([110.,   9.])
    """
    count, rate = positive(tokens=tokens, bandwidth=bandwidth)
    (wait,) = nonnegative(latency=latency)
    broadcastable(tokens=count, bandwidth=rate, latency=wait)
    ranks = replica.layout.dp * replica.layout.pp
    size = _bytes(replica, count)[2].cache * replica.layout.dp  # of one sequence, where it is
    computed = forward_pass(replica, Batch(prompt_tokens=count * ranks, chunk=count)).time
    return Reuse(size, wait + size / rate, computed)


# --- A replica under load --------------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class Service(Predicted):
    """What users of a replica get, and what it yields.

    ``sequences`` are in the batch; ``time_to_first_token`` counts from when a request is taken up, without a queue;
    ``time_per_token`` is the mean between tokens of an answer. 0 sequences: it does not fit, and nobody is served.
    ``low`` and ``high`` are the ends of the 80 % interval of ``tokens_per_second_per_gpu``: a token's highest price, by
    :func:`token_price`, and its longest time go with the lower. ``spread_low`` and ``spread_high`` are those of its
    :func:`kind`, in multiples of its times.
    """

    sequences: float
    time_to_first_token: float
    time_per_token: float
    latency: float
    tokens_per_second: float
    gpus: float
    spread_low: float
    spread_high: float

    _follow: ClassVar = dict.fromkeys(("time_to_first_token", "time_per_token", "latency"), ("s", -1))
    _follow |= dict.fromkeys(("speed", "tokens_per_second"), ("tokens/s", 1))

    @property
    def speed(self):
        """Tokens a second of one user."""
        return 1 / self.time_per_token

    @property
    def tokens_per_second_per_gpu(self):
        """Tokens of answers a second of one GPU."""
        return self.tokens_per_second / self.gpus

    def _predicted(self):
        each = self.tokens_per_second_per_gpu
        return each, each / self.spread_high, each / self.spread_low, "tokens/s"

    def _rows(self):
        names = [f.name for f in fields(self) if not f.name.startswith("spread")]
        rows = [
            (words(name), self.say(name) if name in self._follow else summary(getattr(self, name))) for name in names
        ]
        return [("", "value"), *rows, ("tokens per second per gpu", self.with_interval)]


def _spread(model, how, shape):
    """Both ends of the spread of a kind, in the shape of what they belong to."""
    ends = SPREADS[kind(model, how)]
    return [np.broadcast_to(end, shape)[()] for end in (ends.low, ends.high)]


def static_batch(replica: Replica, requests: Requests, *, sequences) -> Service:
    r"""A batch that starts together and ends together: one prefill, then a pass for each further token.

    .. math:: T = T_\text{prefill} + (n - 1)\,T_\text{pass}(\bar s)

    Parameters
    ----------
    replica : Replica
        Model, machine, layout and software.
    requests : Requests
        Prompt and answer of n tokens, the same for all.
    sequences : array_like
        Sequences of the batch. Those that find no room wait for others to end.

    Returns
    -------
    Service

    Raises
    ------
    ValueError
        ``sequences`` is not positive, not one sequence fits, or there is nothing to read.

    Notes
    -----
    Derived. A pass is linear in the context, so the mean context gives the mean pass.

    Examples
    --------
    >>> from clusterlab.catalogue import machine
    >>> from clusterlab.model import transformer
    >>> replica = Replica(transformer("Llama 2 7B"), machine("A100 80GB"), formats=Formats("fp16"))
    >>> static_batch(replica, Requests(128, 128), sequences=1).latency < 1.6  # 1.25 s measured, LMDeploy 2023
    True
    """
    (wanted,) = positive(sequences=sequences)
    room = largest_batch(replica, requests.prompt + requests.output)
    if np.any(room < 1):
        raise ValueError("not one sequence fits into the memory")
    held = smaller(wanted, room)
    (read,) = positive(read=requests.read)
    prefill = forward_pass(replica, Batch(prompt_tokens=held * read, chunk=read, cached=requests.prompt - read)).time
    decode = forward_pass(replica, Batch(sequences=held, context=requests.mean_context)).time
    latency = (prefill + (requests.output - 1) * decode) * wanted / held
    spread = _spread(replica.model, "static batch", np.shape(latency))
    return Service(held, prefill, decode, latency, wanted * requests.output / latency, replica.gpus, *spread)


def continuous_batch(replica: Replica, requests: Requests, *, sequences=None, chunk=None) -> Service:
    r"""A batch that never ends: where an answer is complete another prompt is read, while the others decode.

    .. math:: R = S / \bar{T}, \qquad \bar{T} = (1 - k)\,T_\text{pass}(S,\; 0) + k\,T_\text{pass}(S,\; c)
        \;\text{ or }\; T_\text{pass}(S,\; k\,c)

    With S sequences in the batch, S/n of them end in each pass, and as many prompts of p tokens are read, k = S p/(n c)
    chunks of c tokens. Where that is less than one, some passes have a chunk and the others none.

    Parameters
    ----------
    replica : Replica
        Model, machine, layout and software.
    requests : Requests
        Prompts of p tokens that no cache has, and answers of n.
    sequences : array_like, optional
        Sequences of the batch; by default the most that memory and software allow (saturation).
    chunk : array_like, optional
        Most tokens of a prompt in one pass; by default the whole prompt.

    Returns
    -------
    Service
        Where more sequences are asked for than fit, NaN and a throughput of 0.

    Raises
    ------
    ValueError
        An argument is not positive.

    Notes
    -----
    Source: Yu et al. 2022 (Orca), for batches that change from pass to pass; Agrawal et al. 2024 (Sarathi-Serve) for
    chunks. Derived: the mean over passes. Prompts are spread evenly over attention ranks.

    Examples
    --------
    Llama 3.1 8B in 8 bits on one H100, prompts of 1,000 and answers of 2,000 tokens: 13,899 tokens/s measured
    (TensorRT-LLM 1.0).

    >>> from clusterlab.catalogue import machine
    >>> from clusterlab.model import transformer
    >>> replica = Replica(transformer("Llama 3.1 8B"), machine("H100 SXM"), formats=Formats("fp8", cache_bytes=1))
    >>> bool(11e3 < continuous_batch(replica, Requests(1000, 2000)).tokens_per_second < 17e3)
    True
    """
    read, layout = requests.read, replica.layout
    only_decodes = not np.any(read)
    read = pick(np.greater(read, 0), read, 1.0)  # nothing to read: no chunk, of any size
    if chunk is not None:
        (most,) = positive(chunk=chunk)
        read = smaller(most, read)
    room = saturation(replica, requests)
    held = room if sequences is None else positive(sequences=sequences)[0]
    fits = (held <= room) & (held > 0)
    held = pick(fits, held, 1.0)
    before = larger(requests.prompt - (requests.read + read) / 2, 0.0)  # of its prompt, before the mean chunk
    mixed = {"sequences": held, "context": requests.mean_context, "chunk": read, "cached": before}
    chunks = held * requests.read / (requests.output * read)
    alone = forward_pass(replica, Batch(sequences=held, context=requests.mean_context)).time
    if only_decodes:
        passes, first = alone, 0.0 * alone
    else:
        reading = forward_pass(replica, Batch(prompt_tokens=larger(chunks, 1.0) * read, **mixed)).time
        passes = reading + (alone - reading) * larger(1 - chunks, 0.0)
        taken = forward_pass(replica, Batch(prompt_tokens=read * layout.dp * layout.pp, **mixed)).time
        first = np.ceil(requests.read / read) * taken
    nobody = pick(fits, 1.0, np.nan)
    return Service(
        pick(fits, held, 0.0),
        first * nobody,
        passes * nobody,
        (first + (requests.output - 1) * passes) * nobody,
        pick(fits, held / passes, 0.0),
        replica.gpus,
        *_spread(replica.model, "saturated", np.shape(passes)),
    )


def saturation(replica: Replica, requests: Requests):
    """Sequences of the largest batch that memory and software allow.

    Parameters
    ----------
    replica : Replica
        Model, machine, layout and software; its ``max_sequences`` and ``max_tokens`` are per attention rank and stage.
    requests : Requests
        Prompts and answers; the cache of each is kept free to its last token.

    Returns
    -------
    array_like

    Examples
    --------
    Short answers to long prompts: the tokens of a pass are the limit, not the memory.

    >>> from clusterlab.catalogue import machine
    >>> from clusterlab.model import transformer
    >>> replica = Replica(transformer("Llama 3.1 8B"), machine("H200 SXM"), formats=Formats("fp8", cache_bytes=1))
    >>> [float(saturation(replica, Requests(p, n))) for p, n in ((128, 128), (2048, 128), (20_000, 2000))]
    [2048.0, 481.0, 81.0]
    """
    software, groups = replica.software, replica.layout.dp * replica.layout.pp
    tokens = groups * software.max_tokens / (1 + requests.read / requests.output)
    count = smaller(largest_batch(replica, requests.prompt + requests.output), groups * software.max_sequences)
    return np.floor(smaller(count, tokens))


# --- Every layout ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class Frontier(Explained):
    """Every layout and batch that fits: what a GPU yields against how fast a user reads.

    ``layouts``, ``two_batches`` and ``service`` go together, element by element.
    """

    considered: int
    layouts: Layout
    two_batches: np.ndarray
    service: Service

    @property
    def front(self) -> np.ndarray:
        """Indices of the Pareto front: nothing else yields more a GPU and is as fast for a user. Fastest first."""
        speed, yields = self.service.speed, self.service.tokens_per_second_per_gpu
        order = np.lexsort((-yields, -speed))
        most = np.maximum.accumulate(yields[order])
        return order[np.concatenate([[True], yields[order][1:] > most[:-1]])] if order.size else order

    def best(self, *, speed) -> int:
        """Return the index of the most tokens a second and GPU where each user gets ``speed`` tokens a second at least.

        Raises
        ------
        ValueError
            ``speed`` is not positive, or nothing is as fast.
        """
        (least,) = positive(speed=speed)
        fast = self.service.speed >= least
        if not np.any(fast):
            fastest = np.max(self.service.speed, initial=0.0)
            raise ValueError(f"speed must be at most {fastest:.3g} tokens/s, the fastest of all; got {least:g}")
        return int(np.argmax(np.where(fast, self.service.tokens_per_second_per_gpu, -1.0)))

    def _rows(self):
        rows = [("", "value"), ("considered", f"{self.considered:,}"), ("fit", f"{self.two_batches.size:,}")]
        if self.two_batches.size:
            service = self.service
            rows += [("speed of a user", service.say("speed")), ("on the front", f"{self.front.size:,}")]
            rows += [("tokens per second per gpu", service.with_interval)]
        return rows


def frontier(replica: Replica, requests: Requests, *, gpus, batches=None, chunk=None) -> Frontier:
    """Serve requests under every layout of so many GPUs and every batch.

    Parameters
    ----------
    replica : Replica
        Model, machine, formats and software. Its layout is not looked at.
    requests : Requests
        One kind of request.
    gpus : int or sequence of int
        GPUs of a replica. All powers of two that divide them are tried as tp and pp (and what is left of a size that is
        no power); dp follows. Experts are whole and shared by all GPUs of a stage, or split by tp and all there. Copies
        of experts fill the ranks evenly; with whole experts two batches are tried too.
    batches : sequence, optional
        Sequences for each GPU; by default from 1/64 to 4096 in steps of a quarter of an octave.
    chunk : float, optional
        As in :func:`continuous_batch`.

    Returns
    -------
    Frontier

    Raises
    ------
    ValueError
        A count is not a whole number of at least 1, or nothing fits.

    Examples
    --------
    >>> from clusterlab.catalogue import machine
    >>> from clusterlab.model import transformer
    >>> replica = Replica(transformer("Llama 3.1 70B"), machine("H100 SXM"), Layout(tp=8), Formats("fp8"))
    >>> found = frontier(replica, Requests(1000, 1000), gpus=8)
    >>> float(found.layouts[found.front[0]].tp)  # the fastest
    8.0
    """
    sizes = np.unique(whole(gpus=gpus)[0])
    some = 2.0 ** np.arange(-6, 12.25, 0.25) if batches is None else np.atleast_1d(positive(batches=batches)[0])
    candidates = _every_layout(replica, sizes)
    sequences = candidates.gpus[:, None] * some
    room = np.broadcast_to(saturation(candidates, requests)[:, None], sequences.shape)
    which, batch = np.nonzero((sequences <= room) & (sequences >= 1))
    if not which.size:
        counts = ", ".join(f"{size:g}" for size in sizes)
        raise ValueError(f"nothing fits: {replica.model.name} on {counts} of {replica.machine.name}")
    blocks = []
    for i in range(0, which.size, _BLOCK):
        now = which[i : i + _BLOCK]
        chosen = _taken(candidates, now)
        blocks.append(continuous_batch(chosen, requests, sequences=sequences[now, batch[i : i + _BLOCK]], chunk=chunk))
    columns: Any = (np.concatenate([getattr(block, f.name) for block in blocks]) for f in fields(Service))
    chosen = _taken(candidates, which)
    return Frontier(sequences.size, chosen.layout, np.asarray(chosen.two_batches), Service(*columns))


_BLOCK = 16384  # layouts and batches at a time: their intermediate results stay in the cache of one core


def _taken(replicas: Replica, which) -> Replica:
    """Some of a record of replicas, one dimension of them."""
    layout = replicas.layout[which]
    return replace(
        replicas, layout=layout, redundant=replicas.redundant[which], two_batches=replicas.two_batches[which]
    )


def _every_layout(replica: Replica, sizes) -> Replica:
    """Every layout of so many GPUs, as :func:`frontier` says, in one record."""
    model, experts = replica.model, max(replica.model.experts, 1)
    axes = np.unique(np.concatenate([_divisors(size) for size in sizes]))
    shared = [False, True] if model.experts else [False]
    grid = np.meshgrid(sizes, axes, axes, shared, shared, indexing="ij")
    size, tp, pp, ep_all, halves = (axis.ravel() for axis in grid)
    dp = size / (tp * pp)
    ep = np.where(ep_all, size / pp, 1.0)
    sound = (dp >= 1) & (dp % 1 == 0) & (model.heads % tp == 0) & (pp <= model.layers) & (tp <= replica.machine.domain)
    if model.mamba_layers:
        sound &= model.mamba_groups % tp == 0
    sound &= ((ep > 1) == ep_all) & (ep_all | ~halves)
    tp, pp, dp, ep, halves = (column[sound] for column in (tp, pp, dp, ep, halves))
    etp: Any = np.where(ep > 1, 1.0, tp)
    layout = Layout(tp=tp, pp=pp, dp=dp, ep=ep, etp=etp)
    redundant = np.where(ep > 1, -experts % ep, 0.0)
    return replace(replica, layout=layout, redundant=redundant, two_batches=halves)


def _divisors(size) -> np.ndarray:
    """Powers of two that divide a number, each alone and with the rest of it."""
    powers = 2.0 ** np.arange(int(np.log2(size)) + 1)
    powers = powers[size % powers == 0]
    return np.concatenate([powers, size / powers])


# --- A pipeline of racks ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class Train(Explained):
    """Microbatches that follow one another through the stages of a pipeline, each until its answers end.

    ``token_time`` is from one token of a sequence to its next, ``busy`` the share of its time that a stage works, and
    ``microbatches_to_fill`` the fewest with which no stage waits.
    """

    token_time: float
    busy: float
    microbatches_to_fill: float

    def _rows(self):
        rows = [("", "value"), ("token time", summary(self.token_time, "s")), ("busy", summary(self.busy, "%"))]
        return [*rows, ("microbatches to fill", summary(self.microbatches_to_fill))]


def train(stages, microbatches, *, stage_time, hand_off=0) -> Train:
    r"""Decoding in a pipeline: a microbatch returns to the first stage with its next token when the last has drawn it.

    .. math:: T = \max\big(p\,(\tau + h),\; m\,\tau\big), \qquad \text{busy} = m\,\tau / T

    Parameters
    ----------
    stages, microbatches : array_like
        Stages p (racks, say) and microbatches m on the way.
    stage_time : array_like
        Seconds of a microbatch in a stage, tau.
    hand_off : array_like
        Seconds from a stage to the next, and from the last to the first, h, in which neither stage is kept busy.

    Returns
    -------
    Train

    Raises
    ------
    ValueError
        A count is not a whole number of at least 1, ``stage_time`` is not positive or ``hand_off`` is negative.

    Notes
    -----
    Derived: each microbatch needs p stages and p hand-offs for a token, each stage serves m microbatches in that time.
    Unlike in training there is no bubble at the end of a step, because decoding has none.

    Examples
    --------
    Four racks of 20 ms: one batch keeps them busy a quarter of the time, four all of it. A user waits 80 ms either way.

    >>> many = train(4, [1, 4, 8], stage_time=20e-3)
    >>> many.busy, many.token_time
    (array([0.25, 1.  , 1.  ]), array([0.08, 0.08, 0.16]))
    """
    p, m = whole(stages=stages, microbatches=microbatches)
    (tau,), (h,) = positive(stage_time=stage_time), nonnegative(hand_off=hand_off)
    broadcastable(stages=p, microbatches=m, stage_time=tau, hand_off=h)
    way = p * (tau + h)
    time = larger(way, m * tau)
    return Train(time, m * tau / time, np.ceil(way / tau * (1 - 1e-12)) + 0 * m)


# --- Speculation -----------------------------------------------------------------------------------------------------


def accepted_tokens(acceptance, drafted):
    r"""Tokens that a sequence gains in a pass that verifies drafted tokens, its own new one included.

    .. math:: \frac{1 - a^{\gamma + 1}}{1 - a}

    Parameters
    ----------
    acceptance : array_like
        Probability that a drafted token is accepted, each on its own, from 0 to 1, a.
    drafted : array_like
        Tokens drafted, gamma.

    Returns
    -------
    array_like
        From 1 to gamma + 1.

    Raises
    ------
    ValueError
        An argument is negative or not finite, or ``acceptance`` is above 1.

    Notes
    -----
    Source: Leviathan, Kalman and Matias 2023, equation 1. Multi-token prediction is the same with heads of the model as
    the draft: DeepSeek-V3 2024, section 5.4.3, accepts 85 to 90 % of one drafted token.

    Examples
    --------
    >>> [round(float(accepted_tokens(a, g)), 2) for a, g in ((0.87, 1), (0.8, 4))]
    [1.87, 3.36]
    """
    a, g = nonnegative(acceptance=acceptance, drafted=drafted)
    if np.any(np.greater(a, 1)):
        raise ValueError(f"acceptance must be at most 1, got {np.max(a):g}")
    sure = np.equal(a, 1)
    return pick(sure, g + 1.0, (1 - a ** (g + 1)) / (1 - pick(sure, 0.0, a)))


def speculative_speedup(acceptance, drafted, *, draft_time, verify_time=1):
    r"""How much faster a sequence grows when a draft runs ahead and the model verifies.

    .. math:: \frac{1 - a^{\gamma + 1}}{1 - a} \cdot \frac{1}{\gamma\,c + v}

    Parameters
    ----------
    acceptance, drafted : array_like
        As in :func:`accepted_tokens`.
    draft_time, verify_time : array_like
        Time of drafting one token, c, and of the pass that verifies all, v, in plain passes. Where reading is the limit
        v is 1; in a large batch it is up to gamma + 1: :func:`forward_pass` of a batch with ``verified`` tokens knows.

    Returns
    -------
    array_like
        Below 1 it is slower.

    Raises
    ------
    ValueError
        An argument is negative or not finite, ``acceptance`` is above 1, or ``verify_time`` is zero.

    Notes
    -----
    Source: Leviathan, Kalman and Matias 2023, theorem 3.8, for v = 1.

    Examples
    --------
    Four drafts at a twentieth of a pass each; then with a pass that has become compute-bound:

    >>> [round(float(speculative_speedup(0.8, 4, draft_time=0.05, verify_time=v)), 2) for v in (1, 5)]
    [2.8, 0.65]
    """
    (v,) = positive(verify_time=verify_time)
    _, g, c = nonnegative(acceptance=acceptance, drafted=drafted, draft_time=draft_time)
    broadcastable(acceptance=acceptance, drafted=drafted, draft_time=draft_time, verify_time=verify_time)
    return accepted_tokens(acceptance, drafted) / (g * c + v)


# --- Prefill and decode apart, and the price -------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class Split(Explained):
    """GPUs that only read prompts beside GPUs that only decode.

    ``prefill_share`` is the share of the former, ``requests_per_second`` are those of one GPU of all.
    """

    prefill_share: float
    requests_per_second: float

    def _rows(self):
        rows = [("", "value"), ("prefill share", summary(self.prefill_share, "%"))]
        return [*rows, ("requests per second per gpu", summary(self.requests_per_second))]


def disaggregate(prefill_rate, decode_rate) -> Split:
    r"""How many GPUs shall read prompts, and how many decode, where each does only one.

    .. math:: \frac{n_p}{n_p + n_d} = \frac{r_d}{r_p + r_d}, \qquad r = \frac{r_p\, r_d}{r_p + r_d}

    Parameters
    ----------
    prefill_rate, decode_rate : array_like
        Requests a second of one GPU that only reads prompts, r_p, and of one that only decodes, r_d.

    Returns
    -------
    Split
        Neither kind waits for the other.

    Raises
    ------
    ValueError
        A rate is not positive.

    Notes
    -----
    Source: Zhong et al. 2024 (DistServe), for serving the phases apart; the balance is derived: n_p r_p = n_d r_d.

    Examples
    --------
    DeepSeek's day of February 2025: a node decodes 14,800 tokens/s or reads 73,700; 608 billion tokens in, 168 out.

    >>> split = disaggregate(73_700 / 608e9, 14_800 / 168e9)  # days' traffic a second
    >>> round(float(split.prefill_share), 3), round(1 / split.requests_per_second / 86_400, 1)  # nodes
    (0.421, 226.9)
    """
    r_p, r_d = positive(prefill_rate=prefill_rate, decode_rate=decode_rate)
    return Split(r_d / (r_p + r_d), r_p * r_d / (r_p + r_d))


def token_price(price, tokens_per_second):
    r"""Price of a token from the price of a GPU's time.

    .. math:: P / R

    Parameters
    ----------
    price : array_like
        $/s of a GPU, P: ``2 / 3600`` for two dollars an hour.
    tokens_per_second : array_like
        Tokens a second of one GPU, R: those that it reads for the price in, those that it writes for the price out.

    Returns
    -------
    array_like
        $ of a token. Its energy is the same quotient of watts: :func:`clusterlab.power.energy_per`.

    Raises
    ------
    ValueError
        ``price`` is negative, or ``tokens_per_second`` is not positive.

    Notes
    -----
    Derived. An idle GPU costs as much: divide by the share of the day in which it works.

    Examples
    --------
    LMSYS 2025: 22,282 tokens/s on eight H100, at two dollars an hour each, for a million tokens:

    >>> round(float(1e6 * token_price(2 / 3600, 22_282 / 8)), 2)
    0.2
    """
    (dollars,), (rate,) = nonnegative(price=price), positive(tokens_per_second=tokens_per_second)
    broadcastable(price=dollars, tokens_per_second=rate)
    return dollars / rate
