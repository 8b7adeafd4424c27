"""The roofline: how fast one accelerator can run a piece of work, and what stops it from going faster.

A piece of work is FLOPs done and bytes moved (:class:`Work`). Its arithmetic intensity is their ratio. A machine is a
peak rate and a bandwidth. Everything else on this page follows from those two pairs of numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from .checks import Numeric, broadcastable, flags, larger, nonnegative, positive, smaller, total
from .quantities import (
    Amount,
    Bytes,
    BytesPerSecond,
    Count,
    Flops,
    FlopsPerByte,
    FlopsPerSecond,
    Multiple,
    Number,
    PositiveBytes,
    PositiveFlops,
    PositiveFlopsPerByte,
    PositiveShare,
    Seconds,
    Share,
    law,
)
from .records import Explained, Rows, least, pairs_of, summary


@dataclass(frozen=True, repr=False)
class Work(Explained):
    """FLOPs done and bytes moved between memory and the compute units.

    Work adds (one kernel after another) and scales (``32 * layer``). Fields broadcast.

    Examples
    --------
    >>> layer = matmul(512, 4096, 4096) + elementwise(512 * 4096)
    >>> 32 * layer
    Work
                       value
    FLOP           550 GFLOP
    bytes            1.61 GB
    intensity  341 FLOP/byte
    """

    flops: Flops
    bytes: Bytes

    __array_ufunc__ = None  # an array times a Work is a Work of arrays, not an array of Works

    def __post_init__(self) -> None:
        """Refuse negative work, and hold lists as arrays."""
        for name, value in zip(("flops", "bytes"), nonnegative(flops=self.flops, bytes=self.bytes), strict=True):
            if isinstance(getattr(self, name), list | tuple):
                object.__setattr__(self, name, value)

    @property
    def intensity(self) -> FlopsPerByte:
        """Arithmetic intensity, FLOP per byte moved: I = FLOPs / bytes (*operational* in Williams et al. 2009)."""
        positive(bytes=self.bytes)  # work that moves nothing has no intensity
        return self.flops / self.bytes

    def __add__(self, other: Work) -> Work:
        """Return the work of both, one after the other."""
        if isinstance(other, int) and other == 0:  # where sum() starts
            return self
        return Work(self.flops + other.flops, self.bytes + other.bytes)

    __radd__ = __add__

    def __rmul__(self, times: Amount) -> Work:
        """Return the work done ``times`` times over."""
        return Work(times * self.flops, times * self.bytes)

    __mul__ = __rmul__

    def _rows(self) -> Rows:
        intensity = summary(self.intensity, "FLOP/byte") if np.all(self.bytes > 0) else "none"
        parts = [("FLOP", summary(self.flops, "FLOP")), ("bytes", summary(self.bytes, "B"))]
        return [("", "value"), *parts, ("intensity", intensity)]


# --- Work: what a kernel asks for ------------------------------------------------------------------------------------


@law
def matmul(
    m: Number,
    k: Number,
    n: Number,
    *,
    bytes_per_element: PositiveBytes = 2,
    output_bytes_per_element: PositiveBytes | None = None,
) -> Work:
    r"""Work of a GEMM, an (m x k) by (k x n) matrix multiplication that moves each operand once.

    .. math:: \text{FLOPs} = 2mkn, \qquad \text{bytes} = b\,(mk + kn) + b_\text{out}\,mn

    Parameters
    ----------
    m, k, n
        Rows of the left matrix (tokens), inner dimension, columns of the right matrix.
    bytes_per_element
        Bytes of one input element: 2 for BF16, 1 for FP8, 0.5 for FP4.
    output_bytes_per_element : optional
        Bytes of one output element, where it differs from the inputs.

    Returns
    -------
    Work
        FLOP and bytes, broadcast over the arguments. The bytes are the least possible: a cache too small for its tiles
        moves more.

    Notes
    -----
    Source: the FLOPs follow from the definition (m n dot products of k multiply-adds). The bytes are the compulsory
    traffic of the roofline model (Williams, Waterman and Patterson 2009, section 3).

    Examples
    --------
    >>> round(float(matmul(4096, 4096, 4096).intensity), 1)
    1365.3
    """
    size, out_size = bytes_per_element, output_bytes_per_element
    return Work(2 * m * k * n, size * (m * k + k * n) + (size if out_size is None else out_size) * m * n)


@law
def elementwise(
    elements: Number,
    *,
    inputs: Number = 1,
    outputs: Number = 1,
    flops_per_element: PositiveFlops = 1,
    bytes_per_element: PositiveBytes = 2,
) -> Work:
    r"""Work of an element-wise operation: an activation, a residual add, a normalisation.

    .. math:: \text{FLOPs} = f\,E, \qquad \text{bytes} = b\,E\,(\text{inputs} + \text{outputs})

    Parameters
    ----------
    elements
        Elements of one tensor, E.
    inputs, outputs
        Tensors of that size read and written.
    flops_per_element
        Operations per element, f.
    bytes_per_element
        Bytes of one element, b.

    Returns
    -------
    Work
        FLOP and bytes. The intensity f / (b (inputs + outputs)) does not depend on the size.

    Notes
    -----
    Source: compulsory traffic of the roofline model (Williams, Waterman and Patterson 2009, section 3).

    Examples
    --------
    A residual add reads two tensors and writes one: one FLOP for six bytes.

    >>> round(float(elementwise(1e6, inputs=2).intensity), 3)
    0.167
    """
    return Work(flops_per_element * elements, bytes_per_element * elements * (inputs + outputs))


@law
def attention(
    queries: Multiple,
    context: Number,
    *,
    heads: Number,
    head_dim: Number,
    kv_heads: Number | None = None,
    batch: Number = 1,
    bytes_per_element: PositiveBytes = 2,
    fused: bool = True,
) -> Work:
    r"""Work of causal attention of one layer: ``queries`` new tokens at the end of ``context`` tokens.

    With P = q s - q (q - 1) / 2 the (query, key) pairs that the causal mask keeps,

    .. math:: \text{FLOPs} = 4\,B H d\,P, \qquad \text{bytes} = b\,B\,(2 q H d + 2 s H_{kv} d \; [+\, 4 H P])

    Scores and weighted values cost 2d each for every pair. A fused kernel moves Q, K, V and the output once. An
    unfused one also writes and reads the scores and the probabilities (the term in brackets).

    Parameters
    ----------
    queries, context
        New tokens q of each sequence, and tokens s that the last of them sees, q <= s. Prefill of a prompt: q = s.
        Decoding: q = 1.
    heads, head_dim
        Query heads H, and the dimension d of a head.
    kv_heads : optional
        Key and value heads H_kv; the default is ``heads`` (no grouping).
    batch
        Sequences B.
    bytes_per_element
        Bytes of one element of Q, K, V and the output, b.
    fused : bool
        Whether scores stay on the chip (FlashAttention).

    Returns
    -------
    Work
        FLOP and bytes. The softmax is left out: a few operations per pair, against 4d.

    Raises
    ------
    ValueError
        ``queries`` exceed ``context``, or ``kv_heads`` do not divide ``heads``.

    Notes
    -----
    Source: Dao et al. 2022 (FlashAttention), section 3, for the traffic; Shazeer 2019 for the shared heads. A fused
    kernel reads the tiles of K and V again for each block of queries: those reads are taken to hit the cache.

    Examples
    --------
    Decoding reads all keys and values for one query: the intensity is the group size, heads / kv_heads.

    >>> round(float(attention(1, 8192, heads=32, kv_heads=8, head_dim=128).intensity), 2)
    4.0
    """
    if kv_heads is None:
        kv_heads = heads
    if np.any(queries > context):
        raise ValueError(f"queries must be at least 1 and at most context, got {queries} and {context}")
    if np.any(heads % kv_heads != 0):
        raise ValueError(f"kv_heads must divide heads, got {kv_heads} and {heads}")
    flags(fused=fused)
    q, s, h, kv, d, b = queries, context, heads, kv_heads, head_dim, batch
    pairs = q * s - q * (q - 1) / 2
    scores = 0 if fused else 4 * h * pairs
    return Work(4 * b * h * d * pairs, bytes_per_element * b * (2 * q * h * d + 2 * s * kv * d + scores))


@law
def decode(
    batch: Number,
    *,
    parameters: Number,
    active_parameters: Number | None = None,
    bytes_per_parameter: PositiveBytes = 2,
) -> Work:
    r"""Work of the weights in one decoding step: ``batch`` sequences each gain one token.

    .. math:: \text{FLOPs} = 2 B N_\text{active}, \qquad \text{bytes} = b N

    Every weight is read once for the whole batch, and each active weight does a multiply and an add for each sequence.
    Add ``layers * attention(1, context, ...)`` for the keys and values, which are read for each sequence on its own.

    Parameters
    ----------
    batch
        Sequences decoded together, B.
    parameters
        Weights read in the step, N.
    active_parameters : optional
        Weights that each token uses; the default is all of them (a dense model).
    bytes_per_parameter
        2 for BF16, 1 for FP8, 0.5 for FP4, b.

    Returns
    -------
    Work
        FLOP and bytes of the step.

    Raises
    ------
    ValueError
        More parameters are active than there are.

    Notes
    -----
    Source: Pope et al. 2022, "Efficiently scaling transformer inference", section 2: 2N FLOPs per token, weights loaded
    once per step. For a mixture of experts, reading all N holds once the batch touches every expert: see
    :func:`experts_touched`.

    Examples
    --------
    >>> from clusterlab.units import fmt
    >>> step = decode(1, parameters=8.03e9)
    >>> fmt(step.bytes, "B"), float(step.intensity)
    ('16.1 GB', 1.0)
    """
    active = parameters if active_parameters is None else active_parameters
    if np.any(active > parameters):
        raise ValueError(f"active_parameters must be at most parameters, got {active} of {parameters}")
    return Work(2 * batch * active, bytes_per_parameter * parameters)


@law
def experts_touched(tokens: Number, *, experts: Number, experts_per_token: Number) -> Share:
    r"""Share of a layer's experts that at least one of ``tokens`` tokens selects, under uniform routing.

    .. math:: 1 - (1 - k/E)^T

    Parameters
    ----------
    tokens
        Tokens routed together, T (decoding: the batch).
    experts, experts_per_token
        Experts E of the layer and those each token selects, k.

    Returns
    -------
    Share
        Expected share between 0 and 1: the share of the routed weights that the step must read.

    Raises
    ------
    ValueError
        A token selects more experts than there are.

    Notes
    -----
    Derived: each token misses a given expert with probability 1 - k/E, independently. Real routers are not uniform and
    touch fewer.

    Examples
    --------
    DeepSeek-V3 selects 8 of 256: one token touches 3 %, a batch of 128 nearly all.

    >>> from clusterlab.units import fmt
    >>> [fmt(experts_touched(t, experts=256, experts_per_token=8), "%") for t in (1, 32, 128)]
    ['3.12%', '63.8%', '98.3%']
    """
    if np.any(experts_per_token > experts):
        raise ValueError(f"experts_per_token must be at most experts, got {experts_per_token} of {experts}")
    return 1 - (1 - experts_per_token / experts) ** tokens


@law
def nodes_touched(nodes: Count, *, experts_per_token: Count, limit: Count | None = None) -> Number:
    r"""Nodes that the experts of one token are on, of all that share them: as often it crosses the network at most.

    .. math:: \min\left(M,\; m \left(1 - (1 - 1/m)^k\right)\right)

    Parameters
    ----------
    nodes
        Nodes m with as many experts each.
    experts_per_token
        Experts k that each token selects.
    limit
        Most nodes that the router may send a token to, M; by default any number.

    Returns
    -------
    Number
        Expected nodes, its own one among them where an expert is there: all but a share 1/m of them are across.

    Notes
    -----
    Source: DeepSeek-V3 2024, section 2.1.2, for routers that take the M nodes whose best experts score highest, and all
    experts there. Derived: k draws, evenly and with replacement. A node is taken for its best experts, so nearly all M
    are touched; where M is near what draws without a limit touch, the law is a few per cent too high.

    Examples
    --------
    DeepSeek-V3's eight experts on eight nodes, freely and with its limit of four; and on four nodes:

    >>> free, most = (nodes_touched(8, experts_per_token=8, limit=limit) for limit in (None, 4))
    >>> round(float(free), 2), float(most), round(float(nodes_touched(4, experts_per_token=8, limit=4)), 2)
    (5.25, 4.0, 3.6)
    """
    return smaller(nodes * (1 - (1 - 1 / nodes) ** experts_per_token), nodes if limit is None else limit)


# --- The machine: what it allows -------------------------------------------------------------------------------------


@law
def ridge_point(peak: FlopsPerSecond, bandwidth: BytesPerSecond) -> FlopsPerByte:
    r"""Arithmetic intensity at which a machine turns from memory-bound to compute-bound.

    .. math:: I_\text{ridge} = R_\text{peak} / \beta

    Parameters
    ----------
    peak
        Peak rate, FLOP/s (dense).
    bandwidth
        Memory bandwidth, bytes/s.

    Notes
    -----
    Source: Williams, Waterman and Patterson 2009, section 3.

    Examples
    --------
    >>> round(ridge_point(989e12, 3.35e12), 1)
    295.2
    """
    return peak / bandwidth


@law
def attainable(intensity: PositiveFlopsPerByte, peak: FlopsPerSecond, bandwidth: BytesPerSecond) -> FlopsPerSecond:
    r"""Highest rate a kernel of a given intensity can reach: the roofline itself.

    .. math:: R = \min(R_\text{peak},\; I \cdot \beta)

    Parameters
    ----------
    intensity
        Arithmetic intensity, FLOP/byte.
    peak
        Peak rate, FLOP/s (dense).
    bandwidth
        Bandwidth of the memory, or of the network, in bytes/s.

    Notes
    -----
    Source: Williams, Waterman and Patterson 2009, section 3.

    Examples
    --------
    >>> from clusterlab.units import fmt
    >>> [fmt(attainable(i, 989e12, 3.35e12), "FLOP/s") for i in (1, 100, 1000)]
    ['3.35 TFLOP/s', '335 TFLOP/s', '989 TFLOP/s']
    """
    return np.minimum(peak, intensity * bandwidth)


@law
def kernel_time(
    flops: Flops, bytes_moved: Bytes, *, peak: FlopsPerSecond, bandwidth: BytesPerSecond, overlap_loss: Share = 0
) -> Seconds:
    r"""Time of a kernel that computes and moves memory, between the roofline and the sum of both.

    .. math:: \max(c, \mu) + \sigma \min(c, \mu), \qquad c = F / P, \quad \mu = M / B

    Parameters
    ----------
    flops, bytes_moved
        FLOPs F and bytes M of the kernel.
    peak, bandwidth
        FLOP/s P and bytes/s B that it reaches: the datasheet's, or shares of them.
    overlap_loss
        Share of the shorter part that does not hide behind the longer, sigma: 0 is the roofline, 1 the sum of both.

    Notes
    -----
    Source: Williams, Waterman and Patterson 2009 for the bound; the share in between is derived here, and fitted for
    each generation of accelerators (``data/efficiencies.toml``).

    Examples
    --------
    A GEMM of 4,096 by 8,192 by 8,192 on an H100, with everything hidden and with nothing:

    >>> work = matmul(4096, 8192, 8192)
    >>> [
    ...     round(float(kernel_time(work.flops, work.bytes, peak=989e12, bandwidth=3.35e12, overlap_loss=s) * 1e6), 1)
    ...     for s in (0, 1)
    ... ]
    [555.9, 636.0]
    """
    compute, memory = flops / peak, bytes_moved / bandwidth
    return larger(compute, memory) + overlap_loss * smaller(compute, memory)


@dataclass(frozen=True, repr=False)
class Bound(Explained):
    """The least time of a piece of work, resource by resource.

    ``times`` maps each resource to the seconds it alone would need. If they all work at once, the slowest decides
    (``time``); if each waits for the last, they add (``serial``).
    """

    times: Mapping[str, Seconds]

    @property
    def time(self) -> Seconds:
        """Lower bound, seconds: the slowest resource, everything else hidden behind it."""
        return least(self.times, most=True)[0]

    @property
    def serial(self) -> Seconds:
        """Seconds when nothing overlaps: the sum of the parts."""
        return total(self.times.values())

    @property
    def binding(self) -> str | np.ndarray:
        """Name of the slowest resource (the first of equals)."""
        return least(self.times, most=True)[1]

    def _rows(self) -> Rows:
        rows = [("resource", "time")]
        rows += [(name, summary(time, "s")) for name, time in self.times.items()]
        return [*rows, ("lower bound", summary(self.time, "s"))]


def lower_bound(**demands: tuple[Numeric, Numeric]) -> Bound:
    r"""Least time of a piece of work under any number of ceilings, and which of them binds.

    .. math:: T \ge \max_r \; \text{demand}_r / \text{rate}_r

    Parameters
    ----------
    **demands : (demand, rate)
        One pair for each resource, under a name of your choice: FLOPs and FLOP/s, bytes and bytes/s. The network is a
        third ceiling, and each precision or memory level can be one more.

    Returns
    -------
    Bound
        The time of each resource, their maximum ``time`` and the name of the ``binding`` one.

    Notes
    -----
    Source: Williams, Waterman and Patterson 2009 for two ceilings; any further resource bounds in the same way.

    Examples
    --------
    >>> lower_bound(compute=(16e12, 989e12), HBM=(16e9, 3.35e12), network=(2e9, 50e9))
    Bound
    resource        time
    compute      16.2 ms
    HBM          4.78 ms
    network        40 ms
    lower bound    40 ms
    """
    times: dict = {}
    sizes: dict = {}
    for name, demand, rate in pairs_of("lower_bound needs at least one resource", "demand, rate", demands):
        (demand,) = nonnegative(**{f"{name} demand": demand})
        (rate,) = positive(**{f"{name} rate": rate})
        sizes |= {f"{name} demand": demand, f"{name} rate": rate}
        broadcastable(**sizes)
        times[name] = demand / rate
    return Bound(MappingProxyType(times))


@dataclass(frozen=True, repr=False)
class IronLaw(Explained):
    """The time of a task as the sum of three terms, in seconds."""

    data: Seconds
    compute: Seconds
    latency: Seconds

    @property
    def time(self) -> Seconds:
        """Seconds when nothing overlaps: the three terms added."""
        return self.data + self.compute + self.latency

    @property
    def overlapped(self) -> Seconds:
        """Seconds when data movement and compute overlap perfectly: the longer of the two, and the latency."""
        return np.maximum(self.data, self.compute) + self.latency

    def _rows(self) -> Rows:
        rows = [("term", "time", "share")]
        whole = np.where(self.time > 0, self.time, 1.0)[()]  # a task that takes no time has no shares
        parts = {"data movement": self.data, "compute": self.compute, "latency": self.latency, "total": self.time}
        return rows + [(name, summary(t, "s"), summary(t / whole, "%")) for name, t in parts.items()]


@law
def iron_law(
    *,
    data_volume: Bytes,
    bandwidth: BytesPerSecond,
    operations: Flops,
    peak: FlopsPerSecond,
    efficiency: PositiveShare = 1,
    latency: Seconds = 0,
) -> IronLaw:
    r"""Time of a task that moves data, computes and waits, with no overlap.

    .. math:: T \approx \frac{D}{\beta} + \frac{O}{R_\text{peak}\,\eta} + L

    Parameters
    ----------
    data_volume
        Bytes moved, D.
    bandwidth
        Bytes/s, :math:`\beta`.
    operations
        FLOPs, O.
    peak
        Peak rate, FLOP/s (dense).
    efficiency
        Share of the peak that the kernels reach, in (0, 1], the law's eta.
    latency
        Fixed cost, seconds, L: launches, handshakes, hops.

    Returns
    -------
    IronLaw
        The three terms. ``time`` is their sum, and ``overlapped`` the least it can be: never under half of ``time``,
        because a sum of two terms is at most twice the larger.

    Notes
    -----
    Source: Reddi et al., Machine Learning Systems (MLSysBook), appendix Fleet Foundations, "Foundations recap".

    Examples
    --------
    >>> iron_law(data_volume=16.06e9, bandwidth=3.35e12, operations=16.06e9, peak=989e12, efficiency=0.5, latency=20e-6)
    IronLaw
    term              time   share
    data movement  4.79 ms   98.9%
    compute        32.5 µs   0.67%
    latency          20 µs  0.413%
    total          4.85 ms    100%
    """
    return IronLaw(data_volume / bandwidth, operations / (peak * efficiency), latency)
