r"""Training: the time of one step of a decoder under a layout, part by part.

A rank's work on a microbatch is counted: FLOPs and bytes of GEMMs, of attention, of everything that only moves memory,
and of every collective on the links that its group spans. The counts become seconds by laws of their own: the roofline
with a loss (:func:`~clusterlab.roofline.kernel_time`), the ring through all nodes
(:func:`~clusterlab.interconnect.multi_node_ring`) and the exchange of tokens
(:func:`~clusterlab.interconnect.expert_all_to_all`) at the rates that a :class:`~clusterlab.catalogue.Machine` reaches,
the hiding law (:func:`~clusterlab.interconnect.exposed_time`) for what :class:`~clusterlab.catalogue.Software` does at
the same time, and the slowest stage (:func:`~clusterlab.parallelism.critical_stage`), which sets the pace.

Ranks are placed as Megatron-LM places them: tp innermost, then cp, dp and pp, so that tp neighbours share a node. Not
modelled: input, checkpoints, failures, stragglers, dropped or badly balanced tokens, and memory, which has a module of
its own.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import ClassVar, NamedTuple

import numpy as np

from ..catalogue import SOFTWARE, SPREADS, Machine, Software
from ..checks import larger, pick, smaller
from ..interconnect import (
    expert_all_to_all,
    exposed_time,
    multi_node_ring,
    pipelined_time,
    ring_all_gather,
    ring_all_reduce,
    ring_reduce_scatter,
)
from ..model import (
    CHUNK,
    PRECISIONS,
    ForwardFlops,
    Layout,
    Workload,
    attention_parameters,
    beside_parameters,
    expert_input,
    mamba_products,
    parameters,
    scan_flops,
    trained,
)
from ..model.shape import _alternate_share, _forward_flops
from ..records import Predicted, summary
from ..roofline import kernel_time
from .pipeline import CriticalStage, _critical_stage

PARTS = ("gemms", "attention", "elementwise", "recomputation", "tensor", "context", "expert", "transfers", "bubble")
PARTS += ("data", "optimizer")


@dataclass(frozen=True, repr=False)
class Step(Predicted):
    """The time of a training step, seconds, as the slowest pipeline stage spends it. ``PARTS`` sum to ``time``.

    ``low`` and ``high`` are the ends of its 80 % interval, ``spread_low`` and ``spread_high`` those of its kind of run
    in multiples of ``time`` (:data:`clusterlab.catalogue.SPREADS`). Of collectives, what is exposed is a part;
    ``communication`` is all their time, hidden or not. ``model_flops`` and ``hardware_flops`` are those of the step,
    ``peak`` the FLOP/s of one accelerator at the precision.
    """

    gemms: float
    attention: float
    elementwise: float  # norms, residuals, activations, dropout, rotations, casts, the loss
    recomputation: float
    tensor: float
    context: float
    expert: float
    transfers: float  # between pipeline stages
    bubble: float
    data: float  # gradients and sharded weights
    optimizer: float
    communication: float
    tokens: float
    gpus: float
    model_flops: float
    hardware_flops: float
    peak: float
    spread_low: float
    spread_high: float

    _follow: ClassVar = {"mfu": ("%", -1), "hfu": ("%", -1), "tokens_per_second": ("tokens/s", -1)}

    @property
    def time(self):
        """Seconds of the step: the sum of its parts."""
        return sum(getattr(self, name) for name in PARTS)

    def _predicted(self):
        whole_step = self.time
        return whole_step, self.spread_low * whole_step, self.spread_high * whole_step, "s"

    @property
    def compute(self):
        """Seconds that the slowest stage computes."""
        return self.gemms + self.attention + self.elementwise + self.recomputation + self.optimizer

    @property
    def exposed(self):
        """Seconds of communication that nothing hides."""
        return self.tensor + self.context + self.expert + self.transfers + self.data

    @property
    def rho(self):
        """Communication over computation, hidden or not: above 1 it cannot all be hidden."""
        return self.communication / self.compute

    @property
    def mfu(self):
        """Model FLOPs over what the peak could have done in the time."""
        return self.model_flops / (self.time * self.gpus * self.peak)

    @property
    def hfu(self):
        """Hardware FLOPs, recomputed ones too, over what the peak could have done in the time."""
        return self.hardware_flops / (self.time * self.gpus * self.peak)

    @property
    def tokens_per_second(self):
        """Tokens a second of all accelerators."""
        return self.tokens / self.time

    def _rows(self):
        whole_step = self.time
        rows = [("", "time", "share")]
        parts = {name: getattr(self, name) for name in PARTS}
        rows += [(name, summary(t, "s"), summary(t / whole_step, "%")) for name, t in parts.items() if np.any(t)]
        rows.append(("step", *self._cells()))
        return [*rows, ("MFU", *self._cells("mfu")), ("HFU", *self._cells("hfu"))]


def kind(model, precision: str) -> str:
    """The kind of a run, of which its spread depends: a key of :data:`clusterlab.catalogue.SPREADS`.

    Parameters
    ----------
    model : Transformer
        One shape.
    precision : str
        Of its GEMMs, as in :class:`~clusterlab.model.Workload`.

    Returns
    -------
    str

    Examples
    --------
    >>> from clusterlab.model import transformer
    >>> kind(transformer("Llama 3.1 8B"), "bf16"), kind(transformer("DeepSeek-V3"), "fp8")
    ('dense, 16 bits', 'mixture of experts')
    """
    return _kind(model, PRECISIONS[precision][1])


def _kind(model, operand_bytes: float) -> str:
    if model.experts:
        return "mixture of experts"
    return "dense, 16 bits" if operand_bytes == 2 else "dense, 8 or 4 bits"


_BLOCK = 16384  # layouts at a time: their intermediate results stay in the cache of one core


def step(
    model,
    machine: Machine,
    workload: Workload,
    layout: Layout,
    *,
    software: Software = SOFTWARE["2024"],
    gpus=None,
) -> Step:
    r"""Time of one training step of a decoder under a layout, or of as many as the layout's arrays say.

    .. math:: T = m\,\tau + W + \text{transfers} + \text{data} + \text{optimizer}

    with m microbatches, :math:`\tau` the time of the slowest stage for one of them, forward and backward, and W its
    bubble (:func:`~clusterlab.parallelism.critical_stage`). A stage spends its time in GEMMs and other kernels, each
    :math:`\max(c, \mu) + \sigma \min(c, \mu)` (:func:`~clusterlab.roofline.kernel_time`), and in collectives, of which
    :math:`C - (1 - \kappa) \min(C, H)` shows where they hide (:func:`~clusterlab.interconnect.exposed_time`).

    Parameters
    ----------
    model : Transformer
        One shape; its counts are numbers, not arrays.
    machine : Machine
        From :func:`clusterlab.catalogue.machine`.
    workload : Workload
        Sequence, global batch and precision.
    layout : Layout
        The ranks of each axis, microbatch, chunks, ZeRO stage and recomputation. With ep above 1 experts are whole,
        else tp splits them; another ``etp`` is refused.
    software : Software
        An era from ``SOFTWARE``, or one of your own.
    gpus : array_like, optional
        GPUs that there are, if the layout shall be checked against them.

    Returns
    -------
    Step

    Raises
    ------
    ValueError
        The machine has no such precision, or a layout breaks a rule of :meth:`clusterlab.model.Layout.faults`; the
        message names the rule and the values.

    Notes
    -----
    Source: Narayanan et al. 2021 (SC21) for placement, schedule and communication of the three axes; Korthikanti et al.
    2022 for sequence parallelism and recomputation; Rajbhandari et al. 2020 for ZeRO (and DeepSpeed issue 2252 for
    stage 2); Liu et al. 2023 for the ring of keys and values; Dao et al. 2022 for the work of fused attention. The
    counts of memory traffic are derived here, tensor by tensor. Tokens are spread evenly over experts (benchmarks force
    it: Megatron-Bridge's performance summary, its note on mixtures of experts), and cross to a node once (as DeepSeek's
    DeepEP sends them), to as many nodes as the model's router may choose, unless software sends a copy to each expert.
    In 8 and 4 bits each expert's rows are cast by kernels of their own, twice forward and twice backward
    (TransformerEngine v2.9, ``multi_tensor_quantize_impl``), until software fuses them. The output layer multiplies at
    16 bits. Biases of experts are added in FP32, 28 bytes an element forward and 36 backward (Megatron-LM,
    ``TEGroupedMLP._apply_bias``: product, sum, concatenation and cast, and their gradients).

    Examples
    --------
    The 175-billion model of Korthikanti et al. 2022, table 5, on 64 A100: 13.75 s measured.

    >>> from clusterlab.catalogue import machine
    >>> from clusterlab.model import transformer
    >>> workload = Workload(sequence=2048, global_batch=64, precision="fp16")
    >>> layout = Layout(tp=8, pp=8, chunks=3, recompute="selective", zero=0)
    >>> step(transformer("GPT 175B"), machine("A100 80GB"), workload, layout, software=SOFTWARE["2022"])
    Step
                      time           share
    gemms           9.72 s           72.8%
    attention       480 ms           3.59%
    elementwise     728 ms           5.46%
    recomputation   391 ms           2.92%
    tensor           1.4 s           10.5%
    transfers       111 ms          0.828%
    bubble          452 ms           3.39%
    optimizer      70.4 ms          0.527%
    step            13.4 s    (12.2 to 15)
    MFU              52.9%    (47.2 to 58)
    HFU              53.4%  (47.7 to 58.5)
    """
    layout.faults(model, workload, gpus=gpus).refuse()
    model = trained(model)
    if layout.etp is not None and np.any(layout.etp != pick(layout.ep > 1, 1.0, layout.tp)):
        raise ValueError(f"etp must be tp, or 1 where ep is above 1: a step has no other; got {summary(layout.etp)}")
    if PRECISIONS[workload.precision][0] not in machine.peaks:
        known = [name for name, (peak, _) in PRECISIONS.items() if peak in machine.peaks]
        raise ValueError(f"precision must be one of {', '.join(known)} on {machine.name}; got {workload.precision!r}")
    job = _job(workload, layout)
    reached = _reached(machine, workload.precision)
    share = software.gemm * (software.row_wise_gemm if workload.precision == "fp8-row" else 1.0)
    reached = reached._replace(gemm=share * reached.gemm, gemm_16=software.gemm * reached.gemm_16)
    shape = np.broadcast_shapes(*(np.shape(one) for one in job if isinstance(one, np.ndarray)))
    count = int(np.prod(shape))
    if count <= _BLOCK:
        return _step(model, machine, reached, software, job)
    flat = [np.broadcast_to(one, shape).ravel() if np.ndim(one) else np.asarray(one) for one in job]
    blocks = []
    for i in range(0, count, _BLOCK):
        some = _Job._make(column[i : i + _BLOCK] if column.ndim else column[()] for column in flat)
        blocks.append(_step(model, machine, reached, software, some))
    columns = ([np.atleast_1d(getattr(block, f.name)) for block in blocks] for f in fields(Step))
    return Step(*(np.concatenate(column).reshape(shape) for column in columns))


_BYTES_ONLY = {"bandwidth": 1.0, "latency": 0.0}


def sent_bytes(model, workload: Workload, layout: Layout) -> dict[str, float]:
    """Bytes that an accelerator of an average stage sends in a training step of a dense model, by axis.

    Gradients travel in FP32, weights and activations in BF16. Tensor-parallel ranks reduce twice a layer in each
    direction, and gather their inputs once more under sequence parallelism; keys and values go around once forward and,
    with their gradients, twice backward.

    Parameters
    ----------
    model : Transformer
        A dense shape.
    workload : Workload
        Sequence and global batch.
    layout : Layout
        One layout.

    Returns
    -------
    dict
        Bytes under ``"tensor"``, ``"context"``, ``"pipeline"`` and ``"data"``.

    Examples
    --------
    The 70B model on eight GPUs, cut one way: tensor parallelism sends 280 times what a pipeline does.

    >>> from clusterlab.model import transformer
    >>> llama, work = transformer("Llama 3.1 70B"), Workload(sequence=8192, global_batch=8)
    >>> summary(sent_bytes(llama, work, Layout(tp=8, sequence_parallel=False))["tensor"], "B")
    '601 GB'
    >>> summary(sent_bytes(llama, work, Layout(pp=8))["pipeline"], "B")
    '2.15 GB'
    """
    m, ranks = layout.microbatches(workload), layout.dp * layout.cp
    tokens, layers = layout.microbatch * workload.sequence / layout.cp, model.layers / layout.pp
    stream = 2 * tokens * model.hidden
    halves = 10 if layout.sequence_parallel else 8
    keys = 2 * tokens * layout.cp * 2 * larger(float(model.kv_heads), layout.tp) * model.head_dim / layout.tp
    weights = parameters(model).total / (layout.tp * layout.pp)
    scatter = ring_reduce_scatter(4 * weights, ranks, **_BYTES_ONLY).sent_bytes
    gather = ring_all_gather(2 * weights, ranks, **_BYTES_ONLY).sent_bytes
    data = {
        0: ring_all_reduce(4 * weights, ranks, **_BYTES_ONLY).sent_bytes,
        1: scatter + gather,
        2: m * scatter + gather,
        3: m * (scatter + 2 * gather),
    }
    return {
        "tensor": float(halves * layers * m * ring_all_gather(stream, layout.tp, **_BYTES_ONLY).sent_bytes),
        "context": float(3 * layers * m * ring_all_gather(keys, layout.cp, **_BYTES_ONLY).sent_bytes),
        "pipeline": float(2 * layout.chunks * m * stream / layout.tp * (layout.pp > 1)),
        "data": float(data[int(layout.zero)]),
    }


# --- What all parts need: the layout in numbers, what the accelerator and the links reach -----------------------------
# Times are seconds. Everything broadcasts over layouts. What begins with an underscore here calls the unchecked core of
# a law that is public and checked elsewhere: the layouts were checked once.

_Numbers = float | np.ndarray  # one, or one for each layout


def _some(mask) -> bool:
    """``np.any``, which costs nothing where there is one layout."""
    return bool(mask.any()) if isinstance(mask, np.ndarray) else bool(mask)


class _Job(NamedTuple):
    """A workload under a layout, in numbers; kinds of recomputation are 1 or 0."""

    sequence: _Numbers
    global_batch: _Numbers
    tp: _Numbers
    pp: _Numbers
    dp: _Numbers
    cp: _Numbers
    ep: _Numbers
    chunks: _Numbers
    zero: _Numbers
    expert_tp: _Numbers  # ranks that split an expert
    sharding_ranks: _Numbers
    full: _Numbers
    selective: _Numbers
    alternate: _Numbers
    sequence_parallel: _Numbers
    microbatches: _Numbers  # of a step on each replica
    tokens: _Numbers  # of a microbatch on a rank


def _job(workload: Workload, layout: Layout) -> _Job:
    return _Job(
        sequence=workload.sequence,
        global_batch=workload.global_batch,
        tp=layout.tp,
        pp=layout.pp,
        dp=layout.dp,
        cp=layout.cp,
        ep=layout.ep,
        chunks=layout.chunks,
        zero=layout.zero,
        expert_tp=layout.expert_tp,
        sharding_ranks=layout.sharding_ranks,
        full=1.0 * layout.full_recompute,
        selective=1.0 * layout.selective_recompute,
        alternate=1.0 * layout.alternate_recompute,
        sequence_parallel=layout.sequence_parallel,
        microbatches=layout.microbatches(workload),
        tokens=layout.microbatch * workload.sequence / layout.cp,
    )


class _Reached(NamedTuple):
    """What a machine reaches of its datasheet at a precision: FLOP/s, bytes/s, seconds."""

    peak: float  # FLOP/s of the datasheet
    gemm: float
    gemm_16: float
    attention: float
    attention_most: float  # beyond it the half that the causal mask hides would count for more than the peak
    operand_bytes: float
    memory: float
    overlap_loss: float
    scale_up_ring: float
    network_ring: float
    scale_up_all_to_all: float
    network_all_to_all: float
    scale_up_latency: float
    network_latency: float
    dispatch_latency: float
    domain: float

    def kernel_time(self, flops, moved):
        """Seconds of a GEMM at the precision of the layers."""
        return kernel_time.unchecked(
            flops, moved, peak=self.gemm, bandwidth=self.memory, overlap_loss=self.overlap_loss
        )

    def kernel_time_16(self, flops, moved):
        """Seconds of a GEMM at 16 bits, whatever the layers have."""
        return kernel_time.unchecked(
            flops, moved, peak=self.gemm_16, bandwidth=self.memory, overlap_loss=self.overlap_loss
        )

    def local_ranks(self, ranks, stride=1.0):
        """Ranks of a group in one scale-up domain, equal in all; neighbours of the group are ``stride`` ranks apart."""
        most = np.floor(self.domain / stride)
        return ranks / np.ceil(ranks / larger(pick(most < ranks, most, ranks), 1.0))

    def ring(self, size, ranks, local_ranks, messages=1.0):
        """Seconds of an all-gather or a reduce-scatter of ``size`` bytes, ``local_ranks`` in each domain."""
        cost = multi_node_ring.unchecked(
            size,
            ranks,
            node_size=local_ranks,
            bandwidth=self.network_ring,
            latency=self.network_latency,
            node_bandwidth=self.scale_up_ring,
            node_latency=self.scale_up_latency,
            messages=messages,
        )
        return pipelined_time.unchecked(cost.latency, cost.transfer)

    def expert_all_to_all(self, size, ranks, experts_per_token, node_limit=None):
        """Seconds of sending ``size`` bytes of tokens from each rank to their experts, on so many nodes at most."""
        local_ranks = self.local_ranks(ranks)
        cost = expert_all_to_all.unchecked(
            size,
            ranks,
            experts_per_token=experts_per_token,
            node_size=local_ranks,
            bandwidth=self.network_all_to_all,
            latency=self.network_latency,
            node_bandwidth=self.scale_up_all_to_all,
            node_latency=self.scale_up_latency,
            node_limit=node_limit,
        )
        return cost.latency + self.dispatch_latency * (local_ranks < ranks) + cost.transfer


def _reached(machine: Machine, precision: str) -> _Reached:
    share, links = machine.efficiency, machine.link_efficiency
    peak_name, operand_bytes = PRECISIONS[precision]
    peak, peak_16 = machine.peaks[peak_name], machine.peaks["bf16" if "bf16" in machine.peaks else "fp16"]
    return _Reached(
        peak=peak,
        gemm=peak * {2.0: share.gemm, 1.0: share.gemm_8}.get(operand_bytes, share.gemm_4),
        gemm_16=peak_16 * share.gemm,
        attention=peak_16 * share.attention,
        attention_most=peak_16 * 9 / 16,
        operand_bytes=operand_bytes,
        memory=share.memory * machine.hbm_bandwidth,
        overlap_loss=share.overlap_loss,
        scale_up_ring=links.scale_up_ring * machine.scale_up_bandwidth,
        network_ring=links.network_ring * machine.network_bandwidth,
        scale_up_all_to_all=links.all_to_all * machine.scale_up_bandwidth,
        network_all_to_all=links.all_to_all * machine.network_bandwidth,
        scale_up_latency=machine.scale_up_latency,
        network_latency=machine.network_latency,
        dispatch_latency=machine.dispatch_latency,
        domain=machine.domain,
    )


# --- The layers of a rank --------------------------------------------------------------------------------------------


class _Gemm(NamedTuple):
    """GEMMs of a layer: each of ``rows`` meets ``met`` weights; ``weights`` are read; a row has ``io`` elements."""

    rows: _Numbers
    met: _Numbers
    weights: _Numbers
    io: _Numbers


class _Layers(NamedTuple):
    """What a rank holds of the layers, and the widths of what flows through them."""

    dense: float  # feed-forwards of each kind
    moe: float
    mamba: float  # layers of a hybrid that are Mamba-2 mixers
    attention_layers: float
    attention: _Gemm
    mixer: _Gemm
    qkv: _Numbers  # elements of queries, keys and values of a token
    kv: _Numbers  # ... of keys and values
    ffn: _Gemm
    experts: _Gemm
    beside: _Gemm  # shared experts and the router
    routed_rows: _Numbers  # rows that a rank's experts see
    expert_ffn: _Numbers  # width of an expert on this rank
    local_experts: _Numbers

    @property
    def kinds(self):
        """For dense layers and mixtures, or for each block of a hybrid: how many, and their GEMMs."""
        if self.mamba:
            blocks = [
                (self.attention_layers, (self.attention,)),
                (self.mamba, (self.mixer,)),
                (self.dense, (self.ffn,)),
            ]
            return [(count, gemms) for count, gemms in [*blocks, (self.moe, (self.experts, self.beside))] if count]
        kinds = [(self.dense, (self.attention, self.ffn))] if self.dense else []
        return [*kinds, (self.moe, (self.attention, self.experts, self.beside))] if self.moe else kinds

    @property
    def weights(self):
        """Weights of all layers."""
        return sum(count * sum(gemm.weights for gemm in gemms) for count, gemms in self.kinds)


_NO_GEMM = _Gemm(0.0, 0.0, 0.0, 0.0)


def _layers(model, job: _Job) -> _Layers:
    """A rank's part of the model. Tensor parallelism splits every matrix, but not those that all heads share."""
    tp, tokens, h, gates = job.tp, job.tokens, model.hidden, 1 + model.gated
    heads, dim, value_dim = model.heads, model.head_dim, model.value_dim
    if model.kv_rank:
        of_heads, for_all = attention_parameters(model)
        qkv = kv = heads * (2 * (dim + model.rope_dim) + value_dim) / tp
        attention = of_heads / tp + for_all
        io = 2 * h + 2 * (model.query_rank + model.kv_rank + model.rope_dim) + qkv + heads * value_dim / tp
    else:  # a key head is on every rank that has one of its query heads
        kv = 2 * larger(float(model.kv_heads), tp) * dim / tp
        qkv = heads * dim / tp + kv
        attention = h * (qkv + heads * dim / tp)
        io = 2 * h + qkv + heads * dim / tp
    ffn = (1 + gates) * h * model.ffn / tp
    moe, mixer = model.moe_layers, _NO_GEMM
    if model.mamba_layers:
        (d, g), met = model.mamba_width, mamba_products(model) / tp
        mixer = _Gemm(tokens, met, met, 2 * h + (3 * d + 2 * g + model.mamba_heads) / tp)
    experts, beside, routed_rows, expert_ffn, local_experts = _NO_GEMM, _NO_GEMM, 0.0, 0.0, 0.0
    if moe:
        routed_rows = model.experts_per_token * tokens * job.expert_tp / tp
        expert_ffn, local_experts = model.expert_ffn / job.expert_tp, model.experts / job.ep
        width = expert_input(model)
        each = (1 + gates) * width * expert_ffn
        padded = routed_rows + 64 * local_experts  # each expert's last tile of 128 rows is half empty
        experts = _Gemm(padded, each, local_experts * each, 2 * width + (1 + gates) * expert_ffn)
        shared, router = beside_parameters(model)
        shared = shared / tp + router
        beside_io = (2 * h + (1 + gates) * model.expert_ffn / tp) * model.shared_experts
        if model.expert_latent:
            beside_io = beside_io + 2 * (h + width)
        beside = _Gemm(tokens, shared, shared, beside_io)
    return _Layers(
        dense=model.ffn_layers - moe,
        moe=moe,
        mamba=model.mamba_layers,
        attention_layers=model.attention_layers,
        mixer=mixer,
        attention=_Gemm(tokens, attention, attention, io),
        qkv=qkv,
        kv=kv,
        ffn=_Gemm(tokens, ffn, ffn, 2 * h + (1 + gates) * model.ffn / tp),
        experts=experts,
        beside=beside,
        routed_rows=routed_rows,
        expert_ffn=expert_ffn,
        local_experts=local_experts,
    )


# --- Compute ---------------------------------------------------------------------------------------------------------


class _Pass(NamedTuple):
    """Seconds of one direction through all layers: GEMMs, attention, and what only moves memory."""

    gemms: _Numbers
    attention: _Numbers
    memory: _Numbers

    @property
    def time(self):
        return self.gemms + self.attention + self.memory


class _Compute(NamedTuple):
    """Seconds of the layers for one microbatch, on all stages together."""

    forward: _Pass
    backward: _Pass
    recompute_time: _Numbers
    wanted: ForwardFlops  # of a token
    recomputed_flops: _Numbers
    gradient_bytes: _Numbers  # of a weight, that its GEMM writes, and reads to add

    @property
    def time(self):
        """Seconds without recomputation."""
        return self.forward.time + self.backward.time


def _compute(model, reached: _Reached, software: Software, job: _Job, layers: _Layers) -> _Compute:
    # Weight gradients are written (ZeRO 3) or added to a sum of all microbatches: read and written in its precision.
    sharded, size = job.zero >= 3, software.gradient_bytes
    if software.fused_gradient_accumulation:
        gradient_bytes, alone = pick(sharded, 2.0, 2 * size), pick(sharded, 2 + 3 * size, 0.0)
    else:  # ... by a kernel of its own; ZeRO 3 casts and scales the gradients of every microbatch
        gradient_bytes, alone = 2.0, pick(sharded, 2 + 3 * size, 2 + 2 * size)
    gemm_forward = gemm_backward = flops_forward = 0.0
    kinds = [(count, gemms, reached.kernel_time, reached.operand_bytes) for count, gemms in layers.kinds]
    if depth := model.mtp_depth:  # of whose layers the first are counted, and these multiply at 16 bits
        join_weights = 2 * model.hidden**2 / job.tp
        join = _Gemm(job.tokens, join_weights, join_weights, 3 * model.hidden)
        more = (layers.attention, *((layers.experts, layers.beside) if layers.moe else (layers.ffn,)))
        kinds.append((-depth, more, reached.kernel_time, reached.operand_bytes))
        kinds.append((depth, (*more, join), reached.kernel_time_16, 2.0))
    for count, gemms, time, operand_bytes in kinds:
        flops = sum(2 * gemm.rows * gemm.met for gemm in gemms)
        stored = sum(gemm.weights for gemm in gemms)
        passed = sum(gemm.rows * gemm.io for gemm in gemms) * (1 + operand_bytes / 2)
        backward_bytes = (operand_bytes + gradient_bytes) * stored + 2 * passed
        gemm_forward = gemm_forward + count * time(flops, operand_bytes * stored + passed)
        gemm_backward = gemm_backward + count * time(2 * flops, backward_bytes)
        flops_forward = flops_forward + count * flops
    attention_forward, attention_backward, softmax_forward, softmax_backward = _attention(model, reached, software, job)
    memory_forward, memory_backward = _memory_traffic(model, reached, software, job, layers)
    if model.mamba_layers:
        scan_forward = _scan(model, reached, job.tokens, job.tp)
        attention_forward, attention_backward = (
            attention_forward + scan_forward,
            attention_backward + 2.5 * scan_forward,
        )
    memory_forward = memory_forward + softmax_forward
    memory_backward = memory_backward + alone * layers.weights / reached.memory + softmax_backward

    last = _last_gemm_flops(model, job, layers) / flops_forward if software.skip_last_gemm_in_recompute else 0.0
    again = (1 - last) * gemm_forward + attention_forward + memory_forward
    recompute_time = job.full * again + job.selective * (attention_forward + softmax_forward)
    wanted = _forward_flops(model, job.sequence, causal=False)
    if model.mtp_depth:
        wanted = replace(wanted, logits=wanted.logits * (1 + model.mtp_depth))
    recomputed_flops = job.selective * wanted.scores
    if _some(job.alternate):
        share = _alternate_share(model)
        recompute_time = recompute_time + job.alternate * (share * gemm_forward + memory_forward)
        recomputed_flops = recomputed_flops + job.alternate * share * (wanted.layers - wanted.scores)
    flops_again = wanted.layers - last * (wanted.layers - wanted.scores)
    return _Compute(
        forward=_Pass(gemm_forward, attention_forward, memory_forward),
        backward=_Pass(gemm_backward, attention_backward, memory_backward),
        recompute_time=recompute_time,
        wanted=wanted,
        recomputed_flops=job.full * flops_again + recomputed_flops,
        gradient_bytes=gradient_bytes,
    )


def _last_gemm_flops(model, job: _Job, layers: _Layers):
    """FLOPs of the last GEMM of every layer, whose output no gradient needs."""
    h, tokens = model.hidden, job.tokens
    last = layers.dense * 2 * tokens * (h * model.ffn / job.tp)
    if layers.moe:
        shared = tokens * model.shared_experts * model.expert_ffn / job.tp
        routed = layers.routed_rows * layers.expert_ffn * expert_input(model)
        last = last + layers.moe * 2 * (routed + h * shared)
    return last


def _attention(model, reached: _Reached, software: Software, job: _Job):
    """Seconds of attention, forward and backward, and of a softmax whose scores go to memory."""
    if software.attention is not None:
        scores = _forward_flops(model, job.sequence, causal=True).scores * job.tokens / job.tp
        both = 3.5 * scores / smaller(software.attention * reached.attention, reached.attention_most)
        forward = both / (1 + 2.5 / software.attention_backward)  # backward five GEMMs, not two: scores are made again
        return forward, both - forward, 0.0, 0.0
    scores = _forward_flops(model, job.sequence, causal=False).scores * job.tokens / job.tp
    elements = model.layers * job.tokens * job.sequence * model.heads / job.tp
    forward = kernel_time.unchecked(
        scores, 4 * elements, peak=reached.gemm_16, bandwidth=reached.memory, overlap_loss=reached.overlap_loss
    )
    one = elements / reached.memory
    return forward, 2 * forward, (4 + 5 * software.dropout) * one, (6 + 5 * software.dropout) * one


def _scan(model, reached: _Reached, tokens, tp):
    """Seconds of the scans of Mamba-2, with convolution and gated norm, forward.

    Triton's kernels pass elements a token: 8 (d + g + s) + 4 Q G forward, with d, g and Q G those of
    :func:`~clusterlab.model.scan_flops` and s the states of a chunk over its tokens. Backward they recompute all
    but the last and take gradients of each: 20 (d + g + s) + 10 Q G, and so 2.5 times.
    """
    (d, g), tokens = model.mamba_width, tokens * model.mamba_layers / tp
    states = d * model.mamba_state / CHUNK
    moved = 2 * tokens * (8 * (d + g + states) + 4 * CHUNK * model.mamba_groups)
    rate = smaller(reached.attention, reached.attention_most)
    return kernel_time.unchecked(
        tokens * scan_flops(model), moved, peak=rate, bandwidth=reached.memory, overlap_loss=reached.overlap_loss
    )


def _memory_traffic(model, reached: _Reached, software: Software, job: _Job, layers: _Layers):
    """Seconds, forward and backward, of what only moves memory.

    Tensors as wide as the stream, 2 bytes an element: two norms (2, 5), two additions (3, 3), dropout and bias (0.5,
    3.5); then what tensor parallelism splits: activation, rotation, queries, keys and values taken apart and put
    together, what the attention kernel needs besides.
    """
    tp, tokens, h, gates, moe = job.tp, job.tokens, model.hidden, 1 + model.gated, layers.moe
    count, pairs = model.attention_layers, model.blocks / 2  # of a norm and an addition there are two
    values = model.heads * model.value_dim
    wide = layers.dense * model.ffn  # elements of all feed-forwards of a token
    if moe:
        wide = wide + moe * (model.experts_per_token + model.shared_experts) * model.expert_ffn
    stream, split = 2 * tokens * h / pick(job.sequence_parallel, tp, 1.0), 2 * tokens / tp
    rotated = 2 * (model.heads * model.head_dim + layers.kv * tp / 2) if not model.positions else 0.0
    beside_forward, beside_backward = (0, 13) if software.fused_attention else (2, 8)
    forward = pairs * stream * (10 + software.dropout) + count * split * (rotated + beside_forward * values)
    backward = pairs * stream * (16 + 7 * software.dropout) + count * split * (rotated + beside_backward * values)
    forward, backward = forward + split * (1 + gates) * wide, backward + split * (2 * gates + 1) * wide
    routed, sent = moe * layers.routed_rows, expert_input(model)
    if moe:  # tokens are sorted to experts and back
        forward, backward = forward + 8 * routed * sent, backward + 8 * routed * sent
        if model.biases and not software.fused_expert_bias:
            # A bias times a weight in FP32 is added expert by expert, put together, and cast back.
            forward, backward = forward + 28 * routed * h, backward + routed * (36 * h + 2 * gates * layers.expert_ffn)
    launches = 0.0
    if reached.operand_bytes < 2:  # whoever makes an operand writes it twice more, by rows and by columns
        casts = tokens * (model.blocks * h + (count * values + model.mamba_layers * model.mamba_width[0] + wide) / tp)
        forward = forward + 2 * casts
        inner = model.mamba_layers * (2 * sum(model.mamba_width) + model.mamba_heads)
        backward = backward + 2 * (casts + tokens * (count * layers.qkv + (gates * wide + inner) / tp))
        if moe:  # rows of experts too; a kernel of its own also reads what it casts
            reads = 0 if software.expert_cast_time is None else 2
            forward = forward + routed * ((2 + reads) * sent + reads * layers.expert_ffn)
            backward = backward + routed * ((2 + reads) * sent + reads * gates * layers.expert_ffn)
            if software.expert_cast_time is not None:  # inputs of two GEMMs, gradients of two outputs
                launches = moe * layers.local_experts * 2 * software.expert_cast_time
    return forward / reached.memory + launches, backward / reached.memory + launches


# --- Communication inside the layers ---------------------------------------------------------------------------------


class _TensorParallel(NamedTuple):
    """Seconds of one all-reduce over the tensor-parallel ranks, what of all is exposed, and all."""

    all_reduce: _Numbers
    forward: _Numbers
    backward: _Numbers
    recompute: _Numbers
    total: _Numbers

    @property
    def exposed(self):
        return self.forward + self.backward + self.recompute


class _Communication(NamedTuple):
    """Seconds of the collectives inside the layers for one microbatch, on all stages together."""

    tensor: _TensorParallel
    exposed_context: _Numbers
    exposed_expert: _Numbers
    expert_forward: _Numbers
    total: _Numbers  # exposed or not


def _communication(
    model, reached: _Reached, software: Software, job: _Job, layers: _Layers, compute: _Compute
) -> _Communication:
    tensor = _tensor_parallel(model, reached, software, job, compute)
    ring, exposed_context = _context_parallel(model, reached, software, job, layers, compute)
    expert_forward = expert = exposed_expert = 0.0
    if layers.moe:
        expert_forward, expert, exposed_expert = _expert_parallel(model, reached, software, job, compute)
    return _Communication(
        tensor=tensor,
        exposed_context=exposed_context,
        exposed_expert=exposed_expert,
        expert_forward=expert_forward,
        total=tensor.total + ring + expert,
    )


def _tensor_parallel(model, reached: _Reached, software: Software, job: _Job, compute: _Compute) -> _TensorParallel:
    """Each half of a layer ends in an all-reduce, which hides behind GEMMs where the software does that."""
    tp, moe, kappa = job.tp, model.moe_layers, software.contention_scale_up
    size = 2 * job.tokens * model.hidden
    all_reduce = 2 * reached.ring(size, tp, reached.local_ranks(tp)) * (tp > 1)
    ends = model.blocks - moe  # blocks that end in an all-reduce
    if moe:
        ends = ends + moe * ((job.ep == 1) | (model.shared_experts > 0))
    forward = ends * all_reduce
    backward = forward * pick(job.sequence_parallel, 1.5, 1.0)  # the split inputs are gathered once more
    skipped = all_reduce * model.ffn_layers / 2 if software.skip_last_gemm_in_recompute else 0.0
    recompute = job.full * (forward - skipped)
    exposed_forward, exposed_backward = forward, backward
    if software.tensor_overlap_forward:  # in pieces, of which the first cannot hide
        exposed_forward = forward / tp + exposed_time.unchecked(
            forward * (1 - 1 / tp), compute.forward.gemms, contention=kappa
        )
    if software.tensor_overlap_backward:  # behind the weight gradients
        exposed_backward = exposed_time.unchecked(backward, compute.backward.gemms / 2, contention=kappa)
    exposed_recompute = recompute * exposed_forward / pick(forward > 0, forward, 1.0)
    return _TensorParallel(
        all_reduce=all_reduce,
        forward=exposed_forward,
        backward=exposed_backward,
        recompute=exposed_recompute,
        total=forward + backward + recompute,
    )


def _context_parallel(model, reached: _Reached, software: Software, job: _Job, layers: _Layers, compute: _Compute):
    """Seconds in which keys and values travel, and what of them is exposed.

    They go around the ring, and their gradients too; the first of the cp pieces is not hidden. Or they all are gathered
    first, as for Llama 3 (section 3.3.2).
    """
    cp, full = job.cp, job.full
    size, local_ranks = 2 * job.tokens * cp * layers.kv, reached.local_ranks(cp, job.tp)
    around = model.attention_layers * reached.ring(size, cp, local_ranks) * (cp > 1)
    forward, backward = around, 2 * around
    if software.context_overlap:
        first, rest = around / cp, 1 - 1 / cp
        forward = first + exposed_time.unchecked(around * rest, compute.forward.attention, contention=0.0)
        backward = first + exposed_time.unchecked(2 * around - first, compute.backward.attention, contention=0.0)
    return (3 + full) * around, forward * (1 + full) + backward


def _expert_parallel(model, reached: _Reached, software: Software, job: _Job, compute: _Compute):
    """Seconds of the all-to-alls of experts: of a forward pass, of all passes, and what of those is exposed."""
    ep, experts_per_token = job.ep, model.experts_per_token
    size = 2 * job.tokens * experts_per_token * expert_input(model) / job.tp
    crossing = experts_per_token if software.tokens_cross_once else 1  # a copy for each expert is as many tokens of one
    each = reached.expert_all_to_all(size, ep, crossing, model.node_limit or None)
    forward = 2 * model.moe_layers * each * (ep > 1)
    total = forward * (2 + job.full)
    if not software.expert_overlap:
        return forward, total, total
    across = reached.local_ranks(ep) < ep
    kappa = pick(across, software.contention_network, software.contention_scale_up)
    behind = (job.microbatches > 1) * compute.time  # another microbatch, if there is one
    return forward, total, exposed_time.unchecked(total, behind, contention=kappa)


def _stage_transfers(model, machine: Machine, reached: _Reached, software: Software, job: _Job):
    """Seconds of transfers between pipeline stages: those that are exposed, and all."""
    pp = job.pp
    local = job.tp * job.cp * job.dp * pp <= machine.domain
    rate = pick(local, reached.scale_up_ring, reached.network_ring)
    latency = pick(local, reached.scale_up_latency, reached.network_latency)
    hop = (2 * job.tokens * model.hidden / job.tp / rate + latency) * (pp > 1)
    fill, steady = 2 * (pp - 1) * hop, 2 * job.chunks * job.microbatches * hop
    return fill + pick((job.chunks > 1) & software.stage_overlap, 0.0, steady), fill + steady


# --- Data parallelism ------------------------------------------------------------------------------------------------


class _Shards(NamedTuple):
    """Parameters of a rank on the stage with the output layer, and the groups that share them out.

    Its layers are an average stage's. ``messages``: collectives of a group that carry them, one after the other.
    """

    dense_params: _Numbers
    expert_params: _Numbers
    ranks: _Numbers
    local_ranks: _Numbers
    expert_ranks: _Numbers
    local_expert_ranks: _Numbers

    def collective(self, reached: _Reached, bytes_per_parameter, messages=1.0):
        """Seconds to gather or reduce-scatter so many bytes of each parameter, once."""
        time = reached.ring(bytes_per_parameter * self.dense_params, self.ranks, self.local_ranks, messages)
        time = time * (self.ranks > 1)
        if _some(self.expert_params):
            size, ranks = bytes_per_parameter * self.expert_params, self.expert_ranks
            time = time + reached.ring(size, ranks, self.local_expert_ranks, messages) * (ranks > 1)
        return time


class _Windows(NamedTuple):
    """Seconds of one microbatch on a stage that gradients and sharded weights may hide behind."""

    forward: _Numbers
    backward: _Numbers
    recompute: _Numbers


def _shards(model, reached: _Reached, job: _Job, layers: _Layers) -> _Shards:
    tp, pp, ranks = job.tp, job.pp, job.sharding_ranks
    ends = model.vocab * model.hidden / tp * (1 + (pp == 1) * (not model.tied))
    dense = layers.attention_layers * layers.attention.weights + layers.mamba * layers.mixer.weights
    dense, expert_params = dense + layers.dense * layers.ffn.weights, 0.0
    expert_ranks = local_expert_ranks = 1.0
    if layers.moe:
        dense = dense + layers.moe * layers.beside.weights
        expert_params = layers.moe * layers.experts.weights / pp
        stride = job.ep * job.expert_tp
        expert_ranks = larger(tp * ranks / stride, 1.0)
        local_expert_ranks = reached.local_ranks(expert_ranks, stride)
    return _Shards(
        dense_params=dense / pp + ends,
        expert_params=expert_params,
        ranks=ranks,
        local_ranks=reached.local_ranks(ranks, tp),
        expert_ranks=expert_ranks,
        local_expert_ranks=local_expert_ranks,
    )


def _windows(software: Software, job: _Job, compute: _Compute, comm: _Communication) -> _Windows:
    pp, full = job.pp, job.full
    free = 1.0 * ((job.cp == 1) | (not software.context_overlap))  # attention that hides keys and values hides no more
    forward, backward = compute.forward, compute.backward
    in_forward = forward.gemms + free * forward.attention + forward.memory + comm.tensor.forward
    in_backward = backward.gemms + free * backward.attention + backward.memory + comm.tensor.backward
    again = compute.recompute_time - full * (1 - free) * forward.attention + comm.tensor.recompute
    return _Windows(
        forward=(in_forward + comm.expert_forward) / pp,
        backward=(in_backward + comm.expert_forward) / pp,
        recompute=(again + full * comm.expert_forward) / pp,
    )


def _data_parallel(model, reached: _Reached, software: Software, job: _Job, shards: _Shards, windows: _Windows):
    """Seconds of gradients and sharded weights in a step: what is exposed, and all."""
    exposed, total = _replicated_weights(reached, software, job, shards, windows)
    if _some(job.zero >= 3):
        exposed_3, total_3 = _sharded_weights(model, reached, software, job, shards, windows)
        exposed, total = pick(job.zero >= 3, exposed_3, exposed), pick(job.zero >= 3, total_3, total)
    groups = job.dp * job.cp / shards.ranks
    if _some(groups > 1):
        exposed_groups, total_groups = _between_groups(reached, software, job, shards, windows, groups)
        exposed, total = exposed + exposed_groups, total + total_groups
    return exposed, total


def _contention(software: Software, local_ranks, ranks):
    return pick(local_ranks < ranks, software.contention_network, software.contention_scale_up)


def _replicated_weights(reached: _Reached, software: Software, job: _Job, shards: _Shards, windows: _Windows):
    """ZeRO 0 to 2. Gradients leave once a step, or after every microbatch where no rank keeps them whole (stage 2).

    Then the updated weights are gathered; without ZeRO this second half of an all-reduce carries gradients.
    """
    gather, scatter = shards.collective(reached, 2.0), shards.collective(reached, software.gradient_bytes)
    second, times = pick(job.zero >= 1, gather, scatter), pick(job.zero == 2, job.microbatches, 1.0)
    total = times * scatter + second
    if not software.data_overlap:
        return total, total
    kappa = _contention(software, shards.local_ranks, shards.ranks)
    backward = windows.backward + windows.recompute
    exposed_second = exposed_time.unchecked(second, windows.forward, contention=kappa)
    sharded = times * exposed_time.unchecked(scatter, backward, contention=kappa) + exposed_second
    return pick(job.zero >= 1, sharded, exposed_time.unchecked(total, backward, contention=kappa)), total


def _sharded_weights(model, reached: _Reached, software: Software, job: _Job, shards: _Shards, windows: _Windows):
    """ZeRO 3: weights and gradients travel for every microbatch, a layer at a time, the first of them exposed."""
    kappa = _contention(software, shards.local_ranks, shards.ranks)
    pieces, backward = larger(model.layers / job.pp, 1.0), windows.backward + windows.recompute
    if software.zero3_gather_rate is None:
        gather = shards.collective(reached, 2.0, pieces)
        scatter = shards.collective(reached, software.gradient_bytes, pieces)
        each, but_first = 2 * gather + scatter, 1 - 1 / pieces
        exposed = exposed_time.unchecked(gather, windows.forward * but_first, contention=kappa)
        exposed = exposed + exposed_time.unchecked(gather + scatter, backward * but_first, contention=kappa)
    else:
        size = 2 * (shards.dense_params + shards.expert_params)
        waits = reached.ring(0.0, shards.ranks, shards.local_ranks, pieces)
        gather = (size / software.zero3_gather_rate + waits) * (shards.ranks > 1)
        each = (3 + job.full) * gather  # once more for recomputation, and the gradients, which nothing hides
        exposed = (
            gather
            + exposed_time.unchecked(gather, windows.forward, contention=kappa)
            + exposed_time.unchecked(gather, windows.backward, contention=kappa)
        )
        exposed = exposed + job.full * exposed_time.unchecked(gather, windows.recompute, contention=kappa)
    return job.microbatches * exposed, job.microbatches * each


def _between_groups(reached: _Reached, software: Software, job: _Job, shards: _Shards, windows: _Windows, groups):
    """Hybrid sharding: each rank sums its shard of the gradients with the other groups, once a step."""
    shard = shards.dense_params / shards.ranks + shards.expert_params / shards.expert_ranks
    local_ranks = reached.local_ranks(groups, job.tp * shards.ranks)
    total = 2 * reached.ring(software.gradient_bytes * shard, groups, local_ranks) * (groups > 1)
    if not software.data_overlap:
        return total, total
    kappa = _contention(software, local_ranks, groups)
    return exposed_time.unchecked(total, windows.backward + windows.recompute, contention=kappa), total


# --- The step, put together ------------------------------------------------------------------------------------------


class _Ends(NamedTuple):
    """Seconds of the ends of the model for one microbatch: output layer, its loss, embedding."""

    output: _Numbers
    loss: _Numbers
    embedding: _Numbers


def _ends(model, reached: _Reached, job: _Job, compute: _Compute) -> _Ends:
    h, vocab, tokens, tp = model.hidden, model.vocab, job.tokens, job.tp
    weights, io = vocab * h / tp, tokens * (h + vocab / tp)
    output = reached.kernel_time_16(2 * tokens * weights, 2 * (weights + io))
    output = output + reached.kernel_time_16(4 * tokens * weights, (2 + compute.gradient_bytes) * weights + 4 * io)
    passes = 1 + model.mtp_depth
    return _Ends(
        passes * output, passes * 20 * tokens * vocab / tp / reached.memory, 6 * tokens * h / reached.memory
    )  # 20 B a logit


def _step(model, machine: Machine, reached: _Reached, software: Software, job: _Job) -> Step:
    """The step itself, its arguments checked."""
    spread = SPREADS[_kind(model, reached.operand_bytes)]
    layers = _layers(model, job)
    compute = _compute(model, reached, software, job, layers)
    comm = _communication(model, reached, software, job, layers, compute)
    ends = _ends(model, reached, job, compute)
    per_layer = (
        compute.time + compute.recompute_time + comm.tensor.exposed + comm.exposed_expert + comm.exposed_context
    ) / model.layers
    slowest = _critical_stage(
        model.layers,
        per_layer,
        ends.embedding + comm.tensor.all_reduce,
        ends.output + ends.loss + comm.tensor.all_reduce,
        job.pp,
        job.microbatches,
        job.chunks,
    )
    if software.dual_pipe:
        slowest = replace(slowest, bubble=_dual_pipe_bubble(model, job, compute, comm, slowest))
    transfers, all_transfers = _stage_transfers(model, machine, reached, software, job)
    shards, windows = _shards(model, reached, job, layers), _windows(software, job, compute, comm)
    data, all_data = _data_parallel(model, reached, software, job, shards, windows)
    parts = _parts(model, job, compute, comm, ends, slowest)
    ends_comm = job.microbatches * (slowest.has_output + slowest.has_embedding) * comm.tensor.all_reduce
    share = job.microbatches * slowest.layers / model.layers
    wanted, tokens = 3 * compute.wanted.total, job.global_batch * job.sequence
    updated = shards.dense_params / pick(job.zero >= 1, shards.ranks, 1.0)
    updated = updated + shards.expert_params / pick(job.zero >= 1, shards.expert_ranks, 1.0)
    columns = parts | {
        "transfers": transfers,
        "data": data,
        # Adam: gradient, weight, moments read, the latter three and a 16-bit weight written, gradients scaled: 38 B.
        "optimizer": 38 * updated / reached.memory,
        "communication": share * comm.total + ends_comm + all_transfers + all_data,
        "tokens": tokens,
        "gpus": job.tp * job.pp * job.dp * job.cp,
        "model_flops": wanted * tokens,
        "hardware_flops": (wanted + compute.recomputed_flops) * tokens,
        "peak": reached.peak,
        "spread_low": spread.low,
        "spread_high": spread.high,
    }
    shapes = [column.shape for column in columns.values() if isinstance(column, np.ndarray)]
    if not shapes:
        return Step(**columns)
    shape = np.broadcast_shapes(*shapes)
    return Step(**{name: np.broadcast_to(column, shape)[()] for name, column in columns.items()})


def _dual_pipe_bubble(model, job: _Job, compute: _Compute, comm: _Communication, slowest: CriticalStage):
    """Seconds that a rank waits where one microbatch goes forward while another goes backward (DualPipe).

    An odd number of stages goes one way.
    """
    share = slowest.layers / model.layers
    backward = share * (compute.backward.time + compute.recompute_time + comm.expert_forward)
    weights = share * compute.backward.gemms / 2
    bubble = larger(job.pp / 2 - 1, 0.0) * larger(slowest.time + backward - 3 * weights, 0.0)
    return pick(job.pp % 2 == 0, bubble, slowest.bubble)


def _parts(model, job: _Job, compute: _Compute, comm, ends: _Ends, slowest: CriticalStage) -> dict:
    """Seconds that the slowest stage spends on all its microbatches, part by part."""
    m = job.microbatches
    share = m * slowest.layers / model.layers
    last, first = m * slowest.has_output, m * slowest.has_embedding
    forward, backward = compute.forward, compute.backward
    return {
        "gemms": share * (forward.gemms + backward.gemms) + last * ends.output,
        "attention": share * (forward.attention + backward.attention),
        "elementwise": share * (forward.memory + backward.memory) + last * ends.loss + first * ends.embedding,
        "recomputation": share * compute.recompute_time,
        "tensor": share * comm.tensor.exposed + (last + first) * comm.tensor.all_reduce,
        "context": share * comm.exposed_context,
        "expert": share * comm.exposed_expert,
        "bubble": slowest.bubble,
    }
