r"""Training: the time of one step of a decoder under a layout, part by part.

A layout cuts a model over ``tp`` tensor-parallel ranks, ``pp`` pipeline stages, ``cp`` ranks of a sequence, ``dp`` copies
of all that and, among the copies, ``ep`` ranks that share out the experts. A rank's work on a microbatch is counted: FLOPs
and bytes of the matrix products, of attention, of everything that only moves memory, and of every collective on the wire
that its group spans. Work and wires become seconds by datasheet rates and a few shares of them (:class:`Efficiency`, one
set for a generation of accelerators), and by what software does at the same time (:class:`Software`). The slowest stage
sets the pace of the pipeline.

Ranks are placed as Megatron-LM places them: tp innermost, then cp, dp and pp, so that tp neighbours share a node. Not
modelled: input, checkpoints, failures, stragglers, dropped or badly balanced tokens, memory (see
:mod:`clusterlab.memory`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from types import MappingProxyType

import numpy as np

from . import hardware
from .transformer import attention_parameters, expert_parameters, forward_flops
from .units import GB, Explained, choose, fmt, fraction, nonnegative, positive, summary, us, whole

RECOMPUTE = ("none", "selective", "full")

# --- Constants -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class Efficiency(Explained):
    """What a generation of accelerators reaches of its datasheet. ``MEANING`` says what each number means."""

    generation: str
    gemm: float
    low_precision: float
    memory: float
    shows: float
    attention: float
    attention_2023: float
    ramp: float
    rests_on: str = ""

    def __post_init__(self) -> None:
        """Refuse shares that are none, and an attention that would pass the peak."""
        fraction(gemm=self.gemm, low_precision=self.low_precision, memory=self.memory, attention=self.attention)
        nonnegative(shows=self.shows, ramp=self.ramp)

    def _rows(self):
        rows = [(self.generation, "value", "meaning")]
        rows += [(name, f"{getattr(self, name):.3g}", meaning) for name, meaning in MEANING.items()]
        return [*rows, ("rests on", "", self.rests_on)]


MEANING = MappingProxyType(
    {
        "gemm": "share of the dense peak that large matrix products reach at 16 bits",
        "low_precision": "the same at 8 bits and below",
        "memory": "share of the HBM bandwidth that kernels reach",
        "shows": "share of a matrix product's memory time (or compute time, if less) that does not hide behind the other",
        "attention": "share of the 16-bit peak that a fused attention kernel reaches",
        "attention_2023": "the same for the first fused kernels, in Triton",
        "ramp": "seconds that a kernel needs to start, fill the chip and drain it",
    }
)

EFFICIENCIES = MappingProxyType(
    {
        one.generation: one
        for one in (
            Efficiency("Volta", 0.75, 0.75, 0.85, 0.5, 0.3, 0.3, 0 * us),
            Efficiency("Ampere", 0.845, 0.845, 0.74, 0.79, 0.45, 0.295, 0 * us),
            Efficiency("Hopper", 0.67, 0.88, 0.51, 0.5, 0.23, 0.18, 0 * us),
            Efficiency("Blackwell", 0.60, 0.68, 0.77, 0.7, 0.31, 0.31, 0 * us),
            Efficiency("TPU", 0.85, 0.8, 0.85, 0.5, 0.4, 0.4, 0 * us),
        )
    }
)


@dataclass(frozen=True, repr=False)
class Software(Explained):
    """What an era's training software does at once, and what one after the other."""

    name: str
    attention: str | None  # whose kernel keeps the scores on the chip: the field of Efficiency; None: they go to memory
    dropout: bool
    tensor_overlap: tuple[bool, bool]  # whether tensor-parallel collectives hide behind products, forward and backward
    pipeline_overlap: bool  # transfers between stages hide behind work on other microbatches
    data_overlap: bool  # gradients and parameters travel while the backward and the forward pass work
    gradient_bytes: float
    shard_gather: float | None  # bytes/s at which ZeRO 3 puts parameters together; None: what the wire gives
    shard_gathers: int  # times that ZeRO 3 gathers the parameters under full recomputation
    fused_accumulation: bool  # weight gradients are added to their sum inside the product, not by a kernel of its own
    stops_early: bool  # recomputation leaves out the last product of a layer, whose output nothing needs
    fusion: float  # share of the memory traffic between products that fused kernels leave
    contention: float  # part of the time of a hidden collective by which it slows the work that hides it
    note: str = ""


SOFTWARE = MappingProxyType(
    {
        one.name: one
        for one in (
            Software("2021", None, True, (False, False), False, False, 4, 24 * GB, 3, False, False, 1.0, 0.33),
            Software("2022", None, True, (False, True), False, False, 4, 24 * GB, 3, True, False, 1.0, 0.33),
            Software("2023", "attention_2023", False, (False, True), False, True, 4, None, 2, True, True, 1.0, 0.33),
            Software("2024", "attention", False, (True, True), True, True, 4, None, 2, True, True, 1.0, 0.33),
        )
    }
)


# --- The machine -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class Machine(Explained):
    """Accelerators and the wires between them, SI units, one direction, for one accelerator each.

    ``domain`` accelerators reach one another over the scale-up link; beyond, each has a share of the network.
    """

    name: str
    peaks: Mapping[str, float]
    hbm_bandwidth: float
    hbm_capacity: float
    domain: int
    scale_up_bandwidth: float
    scale_up_latency: float
    network_bandwidth: float
    network_latency: float
    efficiency: Efficiency

    def __post_init__(self) -> None:
        """Refuse what no machine has."""
        rates = {name: getattr(self, name) for name in ("hbm_bandwidth", "hbm_capacity")}
        rates |= {name: getattr(self, name) for name in ("scale_up_bandwidth", "network_bandwidth")}
        positive(**rates)
        nonnegative(scale_up_latency=self.scale_up_latency, network_latency=self.network_latency)
        whole(domain=self.domain)

    def peak(self, precision: str) -> float:
        """Dense peak in FLOP/s at a precision."""
        if precision not in self.peaks:
            raise ValueError(f"precision must be one of {', '.join(self.peaks)} on {self.name}; got {precision!r}")
        return self.peaks[precision]

    def _rows(self):
        rows = [(self.name, "value")]
        rows += [(f"peak {name}", fmt(value, "FLOP/s")) for name, value in self.peaks.items()]
        units = {"bandwidth": "B/s", "capacity": "B", "latency": "s"}
        for f in fields(self)[2:-1]:
            rows.append((f.name.replace("_", " "), fmt(getattr(self, f.name), units.get(f.name.split("_")[-1], ""))))
        return [*rows, ("efficiency", self.efficiency.generation)]


# Shares of a wire's rate and latencies in multiples of the link's, as learnt from timed collectives:
# clusterlab.calibration.learn(published()).
STREAM, EXCHANGE, NETWORK = 0.825, 0.727, 0.960
INSIDE, ACROSS = 0.83, 6.23
GENERATIONS = MappingProxyType({"V100": "Volta", "A100": "Ampere", "H": "Hopper", "B": "Blackwell", "GB": "Blackwell"})


def machine(accelerator: str, *, network: str | None = None, domain: int | None = None) -> Machine:
    """The machine of an accelerator and a network link, from their datasheets.

    Parameters
    ----------
    accelerator : str
        As in :func:`clusterlab.hardware.accelerator`.
    network : str, optional
        Link for each accelerator between nodes; by default that of the generation's reference server.
    domain : int, optional
        Accelerators that share a scale-up link; by default those of its node or rack.

    Returns
    -------
    Machine

    Raises
    ------
    ValueError
        An unknown accelerator or link, or one without a scale-up link.
    """
    chip = hardware.accelerator(accelerator)
    generation = _generation(chip.name)
    inside = hardware.link(chip.scale_up_link)
    across = hardware.link(network or _NETWORKS[generation])
    return Machine(
        name=chip.name,
        peaks=chip.peaks,
        hbm_bandwidth=chip.hbm_bandwidth,
        hbm_capacity=chip.hbm_capacity,
        domain=domain or chip.scale_up_domain,
        scale_up_bandwidth=chip.scale_up_bandwidth,
        scale_up_latency=inside.latency or 3.4 * us,
        network_bandwidth=across.bandwidth,
        network_latency=across.latency,
        efficiency=EFFICIENCIES[generation],
    )


_NETWORKS = {
    "Volta": "RoCE 100 GbE",
    "Ampere": "InfiniBand HDR",
    "Hopper": "InfiniBand NDR",
    "Blackwell": "InfiniBand NDR",
    "TPU": "RoCE 100 GbE",
}


def _generation(name: str) -> str:
    for start, generation in (
        ("V100", "Volta"),
        ("A100", "Ampere"),
        ("H", "Hopper"),
        ("B", "Blackwell"),
        ("GB", "Blackwell"),
        ("TPU", "TPU"),
    ):
        if name.startswith(start):
            return generation
    return "Hopper"


# --- Collectives on the wire that a group spans ----------------------------------------------------------------------


def _group(size, stride, domain):
    """Ranks of a group inside one scale-up domain, where neighbours in the group are ``stride`` ranks apart."""
    near = np.clip(np.floor(domain / stride), 1, size)
    return size / np.ceil(size / near)  # equal parts


def _ring(size, n, near, turns, m: Machine):
    """Seconds of an all-gather (one turn) or an all-reduce (two) of ``size`` bytes over n ranks, ``near`` in a node.

    A ring through all ranks: inside nodes over the scale-up link, between nodes over the ports of the ranks in it.
    """
    nodes = n / near
    rate = np.where(
        nodes > 1,
        np.minimum(STREAM * m.scale_up_bandwidth * np.where(near > 1, 1.0, np.inf), NETWORK * m.network_bandwidth * near),
        STREAM * m.scale_up_bandwidth,
    )
    inside, across = INSIDE * m.scale_up_latency, ACROSS * m.network_latency
    latency = turns * ((n - nodes) * inside + (nodes - 1) * across)
    if turns == 2:
        tree = 2 * ((near - 1) * inside + np.ceil(np.log2(nodes)) * across)
        latency = np.minimum(latency, tree)
    transfer = turns * size * (n - 1) / n / rate
    return np.where(n > 1, latency + transfer + np.sqrt(latency * transfer), 0.0)


def _exchange(size, n, near, m: Machine, copies=1.0):
    """Seconds of an all-to-all of ``size`` bytes on each of n ranks, ``near`` of them in a node.

    Every token is sent ``copies`` times; to the ranks of another node it goes once and is copied there.
    """
    nodes = n / near
    once = (nodes - 1) * (1 - (1 - 1 / nodes) ** copies) / copies  # share of the copies that cross
    inside = size * (near - 1) / near / (EXCHANGE * m.scale_up_bandwidth)
    across = size * once / (EXCHANGE * m.network_bandwidth)
    transfer = np.maximum(inside, across)
    latency = INSIDE * m.scale_up_latency * (near > 1) + ACROSS * m.network_latency * (n > near)
    return np.where(n > 1, latency + transfer, 0.0)


# --- The step --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class Step(Explained):
    """The time of a training step in seconds. The parts sum to ``time``.

    Collectives count with what is exposed of them; ``communication`` is all their time, hidden or not.
    """

    gemms: float
    attention: float
    elementwise: float
    recomputation: float
    tensor: float
    context: float
    expert: float
    transfers: float  # between stages
    bubble: float
    data: float
    optimizer: float
    communication: float
    tokens: float  # of the step
    gpus: float
    model_flops: float  # of the step
    hardware_flops: float
    peak: float

    @property
    def time(self):
        """Seconds of the step: the sum of its parts."""
        return sum(getattr(self, name) for name in PARTS)

    @property
    def compute(self):
        """Seconds that the slowest stage works."""
        return self.gemms + self.attention + self.elementwise + self.recomputation

    @property
    def exposed(self):
        """Seconds of communication that nothing hides."""
        return self.tensor + self.context + self.expert + self.transfers + self.data

    @property
    def mfu(self):
        """Model FLOPs over what the peak would do in that time."""
        return self.model_flops / (self.time * self.gpus * self.peak)

    @property
    def hfu(self):
        """Hardware FLOPs, with recomputation, over what the peak would do in that time."""
        return self.hardware_flops / (self.time * self.gpus * self.peak)

    @property
    def tokens_per_second(self):
        """Tokens a second of all accelerators."""
        return self.tokens / self.time

    def _rows(self):
        whole = self.time
        rows = [("", "time", "share")]
        parts = {name: getattr(self, name) for name in PARTS}
        rows += [(name, summary(t, "s"), summary(t / whole, "%")) for name, t in parts.items() if np.any(t)]
        rows.append(("step", summary(whole, "s"), ""))
        return [*rows, ("MFU", "", summary(self.mfu, "%")), ("HFU", "", summary(self.hfu, "%"))]


PARTS = (
    *("gemms", "attention", "elementwise", "recomputation"),
    *("tensor", "context", "expert", "transfers", "bubble", "data", "optimizer"),
)
# How a precision multiplies matrices: the peak that it uses and the bytes of an operand.
PRECISIONS = MappingProxyType(
    {"bf16": ("bf16", 2.0), "fp16": ("fp16", 2.0), "fp8": ("fp8", 1.0), "fp4": ("fp4", 0.5625)}
)


def step(
    model,
    machine: Machine,
    *,
    sequence,
    global_batch,
    microbatch=1,
    tp=1,
    pp=1,
    dp=1,
    cp=1,
    ep=1,
    chunks=1,
    zero=1,
    shard_group=None,
    recompute="none",
    sequence_parallel=True,
    precision="bf16",
    software=SOFTWARE["2024"],
) -> Step:
    """Time of one training step."""
    e, sw, m_ = machine.efficiency, software, machine
    s, b, gb = float(sequence), np.asarray(microbatch, float)[()], np.asarray(global_batch, float)[()]
    t, p, d, c, x, v = (np.asarray(one, float)[()] for one in (tp, pp, dp, cp, ep, chunks))
    z = np.asarray(zero, float)[()]
    m = gb / (d * b)
    h, layers = model.hidden, model.layers
    moe = model.moe_layers
    dense = layers - moe
    shared = np.where(sequence_parallel, t, 1.0)
    T = b * s / c  # tokens on a rank
    peak_name, operand = PRECISIONS[precision]
    peak16 = m_.peaks.get("bf16") or m_.peaks["fp16"]
    peak = m_.peak(peak_name)
    low = operand < 2
    gemm_rate = peak * (e.low_precision if low else e.gemm)
    bw = e.memory * m_.hbm_bandwidth

    # -- matrix products of one layer, forward: FLOPs, weights, and elements in and out
    H, K, dq, dv = model.heads, np.maximum(model.kv_heads, t), model.head_dim, model.value_dim
    of_heads, for_all = attention_parameters(model)
    w_attn = of_heads / t + for_all
    if model.kv_rank:
        lat = model.query_rank + model.kv_rank + model.rope_dim
        qkv = H * (2 * (dq + model.rope_dim) + dv) / t
        io_attn = 2 * h + 2 * lat + qkv + H * dv / t
        k_attn = 5
    else:
        qkv = (H * dq + 2 * K * dq) / t
        w_attn = (2 * h * dq * H + 2 * h * dq * K) / t
        io_attn = 2 * h + qkv + H * dv / t
        k_attn = 2
    g = 1 + model.gated
    w_ffn = (1 + g) * h * model.ffn / t
    io_ffn = 2 * h + (g + 1) * model.ffn / t
    fe = model.expert_ffn
    share_e = np.where(x > 1, 1.0, t)  # ranks that split an expert
    R = model.experts_per_token * T * share_e / t  # rows in the experts of a rank
    local = np.maximum(model.experts / x, 1.0) if model.experts else 0.0
    w_exp = local * (1 + g) * h * fe / share_e
    w_sh = model.shared_experts * (1 + g) * h * fe / t
    io_exp = 2 * h + (g + 1) * fe / share_e

    def gemms(flops, byts, kernels):
        work, move = flops / gemm_rate, byts / bw
        return np.maximum(work, move) + e.shows * np.minimum(work, move) + kernels * e.ramp

    # dense layer and mixture layer: (flops, bytes fwd, bytes bwd)
    sums = np.where(z >= 3, 2.0, 2 * sw.gradient_bytes)  # bytes a weight to write its gradient, or to add it to a sum
    acc = sums if sw.fused_accumulation else 2.0
    alone = np.where(z >= 3, 2.0 + 3 * sw.gradient_bytes, 0.0 if sw.fused_accumulation else 2.0 + sums)

    def matrices(rows_w_io):
        flops = fwd = bwd = kern = 0.0
        for rows, w, w_all, io, k in rows_w_io:
            flops = flops + 2 * rows * w
            fwd = fwd + operand * w_all + rows * io * 2 * (1 + operand / 2) / 2
            bwd = bwd + (operand + acc) * w_all + 2 * rows * io * 2 * (1 + operand / 2) / 2
            kern = kern + k
        return flops, fwd, bwd, kern

    attn_m = (T, w_attn, w_attn, io_attn, k_attn)
    kinds = {}
    if np.any(dense):
        kinds["dense"] = (dense, matrices([attn_m, (T, w_ffn, w_ffn, io_ffn, 2)]))
    if np.any(moe):
        rows_e = R + 64.0 * local  # half a tile lost in each expert
        per_w = (1 + g) * h * fe / share_e
        parts = [attn_m, (rows_e, per_w, w_exp, io_exp, 2)]
        if model.shared_experts:
            parts.append((T, w_sh, w_sh, 2 * h + (g + 1) * fe * model.shared_experts / t, 2))
        kinds["moe"] = (moe, matrices(parts))
    gemm_f = gemm_b = 0.0
    for count, (flops, fwd, bwd, kern) in kinds.values():
        gemm_f = gemm_f + count * gemms(flops, fwd, kern)
        gemm_b = gemm_b + count * gemms(2 * flops, bwd, 2 * kern)
    w_layer = (dense * (w_attn + w_ffn) + moe * (w_attn + w_sh + w_exp)) / layers

    # -- attention
    if sw.attention:
        kernel = getattr(e, sw.attention)
        scores = forward_flops(model, s, causal=True).scores * T / t
        attn_f = scores / (kernel * peak16) + layers * e.ramp
        attn_b = 2.5 * scores / (kernel * peak16) + 2 * layers * e.ramp
        soft_f = soft_b = 0.0
    else:
        scores = forward_flops(model, s).scores * T / t
        elements = layers * T * s * H / t
        a_rate = peak16 * e.gemm
        work, move = scores / a_rate, 4 * elements / bw
        attn_f = np.maximum(work, move) + e.shows * np.minimum(work, move) + 2 * layers * e.ramp
        work, move = 2 * scores / a_rate, 8 * elements / bw
        attn_b = np.maximum(work, move) + e.shows * np.minimum(work, move) + 4 * layers * e.ramp
        drop_f, drop_b = (5, 5) if sw.dropout else (0, 0)
        soft_f, soft_b = (4 + drop_f) * elements / bw, (6 + drop_b) * elements / bw

    # -- what only moves memory
    stream = 2 * T * h / shared
    split = 2 * T / t
    f_eff = (dense * model.ffn + moe * (model.experts_per_token + model.shared_experts) * fe) / layers
    drop_f, drop_b = (1.0, 7.0) if sw.dropout else (0.0, 0.0)
    own_f, own_b = (0, 7) if sw.attention else (2, 2)
    rope = 2 * (H + K) * dq * (np.asarray(model.positions) == 0)
    el_f = stream * (10 + drop_f) + split * ((1 + g) * f_eff + rope + own_f * H * dv)
    el_b = stream * (16 + drop_b) + split * ((2 * g + 1) * f_eff + rope + (6 + own_b) * H * dv)
    if np.any(moe):
        permute = moe / layers * 2 * R * h * 2
        el_f, el_b = el_f + 2 * permute, el_b + 2 * permute
    if low:
        casts = T * (h / 1 + H * dv / t + h + f_eff / t)
        el_f, el_b = el_f + 2 * casts, el_b + 2 * (casts + T * (qkv + g * f_eff / t))
    el_f = layers * (sw.fusion * el_f / bw + 8 * e.ramp) + soft_f
    el_b = layers * ((sw.fusion * el_b + alone * w_layer) / bw + 12 * e.ramp) + soft_b

    # -- collectives of a microbatch, all layers
    near_t = _group(t, 1.0, m_.domain)
    one_ar = 2 * _ring(2 * T * h, t, near_t, 1, m_) if True else 0
    per_moe = 1.0 + ((x <= 1) | (model.shared_experts > 0))
    tensor_f = one_ar * (2 * dense + per_moe * moe)
    tensor_b = tensor_f * np.where(sequence_parallel, 1.5, 1.0)  # the split inputs are gathered again
    near_x = _group(x, 1.0, m_.domain)
    expert_f = moe * 2 * _exchange(2 * T * model.experts_per_token * h / t, x, near_x, m_, model.experts_per_token) if np.any(moe) else 0.0 * T
    expert_b = expert_f
    near_c = _group(c, t, m_.domain)
    kv = 2 * T * c * 2 * K * dq / t if not model.kv_rank else 2 * T * c * H * (dq + model.rope_dim + dv) / t
    ring_c = layers * _ring(kv, c, near_c, 1, m_)
    context_f = np.maximum(ring_c - attn_f, ring_c / np.maximum(c, 1)) * (c > 1)
    context_b = np.maximum(2 * ring_c - attn_b, ring_c / np.maximum(c, 1)) * (c > 1)
    # -- ends
    lw = model.vocab * h / t
    head_flops = 2 * T * lw
    head_el = 20 * T * model.vocab / t
    head_f = gemms(head_flops, 2 * (lw + T * h + T * model.vocab / t), 1)
    head_b = gemms(2 * head_flops, (2 + acc) * lw + 4 * (T * h + T * model.vocab / t), 2)
    embed = (6 * T * h) / bw
    # -- recomputation
    full, sel = (np.asarray(recompute) == name for name in ("full", "selective"))
    last = T * h * (dense * model.ffn / t + moe * (R / T * fe / share_e + model.shared_experts * fe / t)) * 2
    all_ = 2 * T * (layers * w_attn + dense * w_ffn) + moe * 2 * (R * (1 + g) * h * fe / share_e + T * w_sh)
    skip = last / all_ * gemm_f if sw.stops_early else 0.0
    skip_t = one_ar / 2 * layers if sw.stops_early else 0.0
    again = np.where(full, gemm_f - skip + attn_f + el_f, np.where(sel, attn_f + soft_f, 0.0))
    tensor_again = np.where(full, tensor_f - np.minimum(skip_t, tensor_f), 0.0)
    expert_again = np.where(full, expert_f, 0.0)
    context_again = np.where(full, context_f, 0.0)

    # hidden tensor collectives
    tensor_all = tensor_f + tensor_b + tensor_again
    ahead, behind = sw.tensor_overlap
    hid_f = ahead * np.minimum(tensor_f * (1 - 1 / t), gemm_f) * (1 - sw.contention)
    hid_b = behind * np.minimum(tensor_b, gemm_b / 2) * (1 - sw.contention)
    open_f, open_b, open_again = tensor_f - hid_f, tensor_b - hid_b, np.where(full, (tensor_f - hid_f) * (tensor_again / np.maximum(tensor_f, 1e-30)), 0.0)
    tensor_exposed = open_f + open_b + open_again

    # -- stages: layers of the first, a middle and the last
    size = np.ceil(layers / (p * v))
    short = p * v * size - layers
    front, back = np.floor(short / 2), np.ceil(short / 2)
    first_l = v * size - np.clip(np.ceil(front / p), 0, v) - np.clip(np.ceil((back - p + 1) / p), 0, v)
    last_l = v * size - np.clip(np.ceil((front - p + 1) / p), 0, v) - np.clip(np.ceil(back / p), 0, v)
    mid = np.floor(p / 2)
    mid_l = v * size - np.clip(np.ceil((front - mid) / p), 0, v) - np.clip(np.ceil((back - p + 1 + mid) / p), 0, v)

    context_all = context_f + context_b + context_again
    expert_all = expert_f + expert_b + expert_again
    per_layer = (gemm_f + gemm_b + attn_f + attn_b + el_f + el_b + again + tensor_exposed + context_all + expert_all) / layers
    head = head_f + head_b + head_el / bw
    head_tensor = one_ar
    stage = np.stack(np.broadcast_arrays(
        np.where(p > 1, first_l, layers) * per_layer + embed + np.where(p > 1, 0.0, head + head_tensor) + one_ar,
        np.where(p > 1, last_l, layers) * per_layer + head + head_tensor + np.where(p > 1, 0.0, embed + one_ar),
        np.where(p > 1, mid_l, 0) * per_layer,
    ))
    slow = np.argmax(stage, axis=0)
    n_l = np.choose(slow, np.broadcast_arrays(np.where(p > 1, first_l, layers), np.where(p > 1, last_l, layers), mid_l))
    has_head = (slow == 1) | (p == 1)
    has_embed = (slow == 0) | (p == 1)
    pace = np.max(stage, axis=0)
    total_work = layers * per_layer + head + head_tensor + embed + one_ar
    bubble = np.maximum(total_work - pace, 0.0) * (p > 1) / v + np.maximum(p - m, 0.0) * pace * (1 - 1 / v)
    # transfers between stages
    near_p = (t * c * d * p <= m_.domain)
    hop_rate = np.where(near_p, STREAM * m_.scale_up_bandwidth, NETWORK * m_.network_bandwidth)
    hop_latency = np.where(near_p, INSIDE * m_.scale_up_latency, ACROSS * m_.network_latency)
    hop = (p > 1) * (2 * T * h / t / hop_rate + hop_latency)
    fill = 2 * (p - 1) * hop
    steady = 2 * v * m * hop
    transfers = fill + (0.0 if sw.pipeline_overlap else steady)
    frac = n_l / layers

    # -- data parallelism
    n_dense = (dense * (w_attn + w_ffn) + moe * (w_attn + w_sh + h * model.experts if model.experts else 0.0)) / p
    n_dense = n_dense + np.where(p > 1, lw, lw * (1 + (not model.tied)))
    n_exp = moe * w_exp / p if np.any(moe) else 0.0
    n_rank = n_dense + n_exp
    group = d * c
    group_s = group if shard_group is None else np.asarray(shard_group, float)
    near_d = _group(group_s, t, m_.domain)
    group_e = np.maximum(t * group / (x * share_e), 1.0)
    near_e = _group(group_e, np.maximum(x * share_e, 1.0), m_.domain)
    mb_f = frac * (gemm_f + attn_f + el_f + open_f + expert_f)
    mb_b = frac * (gemm_b + attn_b + el_b + again + open_b + open_again + expert_b + expert_again)
    wb, gbytes = 2.0, sw.gradient_bytes

    def collect(size_d, size_e, turns, near):
        one = _ring(size_d, group_s, near, turns, m_)
        if np.any(moe):
            one = one + _ring(size_e, group_e, near_e, turns, m_)
        return one

    reduce_ = collect(gbytes * n_dense, gbytes * n_exp, 1, near_d)
    gather = collect(wb * n_dense, wb * n_exp, 1, near_d)
    allred = collect(gbytes * n_dense, gbytes * n_exp, 2, near_d)
    # ZeRO 0 to 2: once a step
    if sw.data_overlap:
        once = np.where(z >= 1, reduce_ + gather, allred)
        hid = np.where(z >= 1, np.minimum(reduce_, mb_b) + np.minimum(gather, mb_f), np.minimum(allred, mb_b))
        once_exposed = once - hid * (1 - sw.contention)
    else:
        once = once_exposed = np.where(z >= 1, reduce_ + gather, allred)
    # ZeRO 3: for every microbatch, layer by layer
    pieces = np.maximum(layers / p, 1.0)
    if sw.shard_gather is None:
        ag = pieces * collect(wb * n_dense / pieces, wb * n_exp / pieces, 1, near_d)
        rs = pieces * collect(gbytes * n_dense / pieces, gbytes * n_exp / pieces, 1, near_d)
        hid = np.minimum(ag, mb_f * (1 - 1 / pieces)) + np.minimum(ag + rs, mb_b * (1 - 1 / pieces))
        all3 = m * (2 * ag + rs)
        exp3 = all3 - m * hid * (1 - sw.contention)
    else:
        lat = _ring(0.0, group_s, near_d, 1, m_)
        ag = (wb * n_rank / sw.shard_gather + pieces * lat) * (group_s > 1)
        rs = ag
        frw = mb_f
        rec = np.where(full, mb_f, 0.0)
        bk = mb_b - rec
        all3 = m * (ag * (2 + full) + rs)
        hid = np.minimum(ag, frw) + np.where(full, np.minimum(ag, rec), 0.0) + np.minimum(ag, bk)
        exp3 = all3 - m * hid * (1 - sw.contention)
    data_all = np.where(z >= 3, all3, once)
    data_exposed = np.where(z >= 3, exp3, once_exposed)

    shards = np.where(z >= 1, group_s, 1.0)
    opt = 38.0 * (n_dense / shards + n_exp / np.where(z >= 1, group_e, 1.0)) / bw + 2 * e.ramp

    ends = m * (has_head * 1.0)
    comm = m * frac * (tensor_all + (ring_c * 3) * (c > 1) + expert_all) + m * (has_head + 0.0 + has_embed) * one_ar + fill + steady + data_all
    forward = forward_flops(model, s)
    tokens = gb * s
    model_fl = 3 * forward.total * tokens
    hw_fl = model_fl + tokens * np.where(full, forward.layers, np.where(sel, forward.scores, 0.0))
    return Step(
        gemms=m * frac * (gemm_f + gemm_b) + ends * (head_f + head_b),
        attention=m * frac * (attn_f + attn_b),
        elementwise=m * (frac * (el_f + el_b) + has_head * head_el / bw + has_embed * embed),
        recomputation=m * frac * again,
        tensor=m * (frac * tensor_exposed + (has_head + 0.0 + has_embed) * one_ar),
        context=m * frac * context_all,
        expert=m * frac * expert_all,
        transfers=transfers,
        bubble=bubble,
        data=data_exposed,
        optimizer=opt,
        communication=comm,
        tokens=tokens,
        gpus=t * p * d * c,
        model_flops=model_fl,
        hardware_flops=hw_fl,
        peak=peak,
    )
