r"""Training: the time of one step of a decoder under a layout, part by part.

A rank's work on a microbatch is counted: FLOPs and bytes of GEMMs, of attention, of everything that only moves memory,
and of every collective on the links that its group spans. The counts become seconds by laws of their own: the roofline
with a loss (:func:`~clusterlab.roofline.kernel_time`), the ring through all nodes
(:func:`~clusterlab.interconnect.multi_node_ring`) and the exchange of tokens
(:func:`~clusterlab.interconnect.expert_all_to_all`) at the rates that a :class:`~clusterlab.catalogue.Machine` reaches,
the hiding law (:func:`~clusterlab.interconnect.exposed_time`) for what :class:`~clusterlab.catalogue.Software` does at
the same time, and the slowest stage (:func:`~clusterlab.parallelism.critical_stage`), which sets the pace.

Ranks are placed as Megatron-LM places them: tp innermost, then cp, dp and pp, so that tp neighbours share a node. Not
modelled: input, checkpoints, failures, stragglers, dropped or badly balanced tokens. Memory has a module of its own: a
step is timed whether it fits or not, and its record says when it does not.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import ClassVar

import numpy as np

from ..catalogue import PREDICTION_INTERVALS, SOFTWARE, Machine, Software, find
from ..checks import Numeric, larger, pick, shape_of, some, total
from ..interconnect import ring_all_gather, ring_all_reduce, ring_reduce_scatter
from ..model import PRECISIONS, Layout, Transformer, Workload, parameters, trained
from ..quantities import Bytes, Count, Flops, FlopsPerSecond, Number, PerSecond, Seconds, Share
from ..records import Predicted, Rows, record, summary
from ..units import fmt
from .exchange import Communication, data_parallel, layer_communication, shards_of, stage_transfers, windows_of
from .memory import Footprint, rank_footprint
from .pipeline import CriticalStage, critical_stage, dualpipe_bubble
from .rates import Rates, reached
from .work import Compute, Ends, Job, compute_time, ends_time, rank_weights

STEP_PARTS: tuple[str, ...] = ("gemms", "attention", "elementwise", "recomputation", "tensor", "context", "expert")
STEP_PARTS += ("transfers", "bubble", "data", "optimizer")


@dataclass(frozen=True, repr=False)
class Step(Predicted):
    """The time of a training step, seconds, as the slowest pipeline stage spends it. ``STEP_PARTS`` sum to ``time``.

    ``low`` and ``high`` are the ends of its 80 % interval, ``spread_low`` and ``spread_high`` those of its kind of run
    in multiples of ``time`` (:data:`clusterlab.catalogue.PREDICTION_INTERVALS`), wider where nobody has timed its
    accelerator, its kind there, or as many of them. Of collectives, what is
    exposed is a part; ``communication`` is all their time, hidden or not. ``model_flops`` and ``hardware_flops`` are
    those of the step, ``peak`` the FLOP/s of one accelerator at the precision.
    """

    gemms: Seconds
    attention: Seconds
    elementwise: Seconds  # norms, residuals, activations, dropout, rotations, casts, the loss
    recomputation: Seconds
    tensor: Seconds
    context: Seconds
    expert: Seconds
    transfers: Seconds  # between pipeline stages
    bubble: Seconds
    data: Seconds  # gradients and sharded weights
    optimizer: Seconds
    communication: Seconds
    tokens: Number
    gpus: Number
    model_flops: Flops
    hardware_flops: Flops
    peak: FlopsPerSecond
    spread_low: Number
    spread_high: Number

    _follow: ClassVar = {"mfu": ("%", -1), "hfu": ("%", -1), "tokens_per_second": ("tokens/s", -1)}
    _asked: ClassVar[tuple | None] = (
        None  # of a record that step() made: bytes there are, and what memory is counted of
    )

    @property
    def time(self) -> Seconds:
        """Seconds of the step: the sum of its parts."""
        return total(map(vars(self).__getitem__, STEP_PARTS))

    def _predicted(self) -> tuple[Numeric, Numeric, Numeric, str]:
        whole_step = self.time
        return whole_step, self.spread_low * whole_step, self.spread_high * whole_step, "s"

    @property
    def compute(self) -> Seconds:
        """Seconds that the slowest stage computes."""
        return self.gemms + self.attention + self.elementwise + self.recomputation + self.optimizer

    @property
    def exposed(self) -> Seconds:
        """Seconds of communication that nothing hides."""
        return self.tensor + self.context + self.expert + self.transfers + self.data

    @property
    def rho(self) -> Number:
        """Communication over computation, hidden or not: above 1 it cannot all be hidden."""
        return self.communication / self.compute

    @property
    def mfu(self) -> Share:
        """Model FLOPs over what the peak could have done in the time."""
        return self.model_flops / (self.time * self.gpus * self.peak)

    @property
    def hfu(self) -> Share:
        """Hardware FLOPs, recomputed ones too, over what the peak could have done in the time."""
        return self.hardware_flops / (self.time * self.gpus * self.peak)

    @property
    def tokens_per_second(self) -> PerSecond:
        """Tokens a second of all accelerators."""
        return self.tokens / self.time

    @cached_property
    def memory(self) -> Footprint | None:
        """What the fullest rank holds, counted when it is first asked for; None where :func:`step` made no record."""
        if self._asked is None:
            return None
        model, workload, layout, software = self._asked[1]
        return rank_footprint(model, workload, layout, software, "interleaved", None)

    @property
    def fits(self) -> bool | np.ndarray | None:
        """Whether the memory of the accelerators is enough; a time is that of a layout whether it fits or not."""
        return None if self._asked is None or self.memory is None else self.memory.fits(self._asked[0])

    def _rows(self) -> Rows:
        whole_step = self.time
        rows = [("", "time", "share")]
        parts = {name: getattr(self, name) for name in STEP_PARTS}
        rows += [(name, summary(t, "s"), summary(t / whole_step, "%")) for name, t in parts.items() if np.any(t)]
        rows.append(("step", *self._cells()))
        rows += [("MFU", *self._cells("mfu")), ("HFU", *self._cells("hfu"))]
        if self._asked is None or (need := self.memory) is None or np.all(fits := need.fits(self._asked[0])):
            return rows
        short = (
            (f"{np.count_nonzero(~np.asarray(fits)):,} of {np.size(fits):,}", "") if np.ndim(fits) else need._cells()
        )
        return [*rows, (f"does not fit {fmt(self._asked[0], 'B')}", *short)]


def step_kind(model: Transformer, precision: str) -> str:
    """The kind of a run, of which its spread depends: a key of :data:`clusterlab.catalogue.PREDICTION_INTERVALS`.

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
    >>> step_kind(transformer("Llama 3.1 8B"), "bf16"), step_kind(transformer("DeepSeek-V3"), "fp8")
    ('dense, 16 bits', 'mixture of experts')
    """
    return _kind(model, find("precision", precision, PRECISIONS)[1])


def _kind(model: Transformer, operand_bytes: float) -> str:
    return _KINDS[2 if model.experts else int(operand_bytes < 2)]


_KINDS = ("dense, 16 bits", "dense, 8 or 4 bits", "mixture of experts")
_TIMED = dict(zip(_KINDS, ("timed_dense", "timed_dense_8", "timed_experts"), strict=True))


def _spread(kind: str, machine: Machine, gpus: Number) -> tuple[Number, Number]:
    """Ends of the interval of a kind of run on a machine: wider by what nobody has timed there."""
    usual, reached = PREDICTION_INTERVALS[kind], machine.efficiency
    if not (reached.timed_dense or reached.timed_dense_8 or reached.timed_experts):
        return wider(usual.low, usual.high, _beyond("accelerator"))
    timed = getattr(reached, _TIMED[kind])
    if not some(untimed := gpus > timed):
        return usual.low, usual.high
    return wider(usual.low, usual.high, pick(untimed, _beyond("size") if timed else _beyond("kind"), 0.0))


def _beyond(what: str) -> float:
    return math.log(PREDICTION_INTERVALS[f"untimed: {what}"].high) ** 2


def wider(low: Number, high: Number, extra: Number) -> tuple[Number, Number]:
    """Ends of an interval that is wider by a half width, the square of a logarithm, which is independent of it.

    Examples
    --------
    >>> [round(float(end), 3) for end in wider(0.9, 1.1, 0.1**2)]
    [0.865, 1.148]
    """
    return np.exp(-np.sqrt(np.log(low) ** 2 + extra))[()], np.exp(np.sqrt(np.log(high) ** 2 + extra))[()]


BLOCK = 16384  # layouts at a time: their intermediate results stay in the cache of one core


def step(
    model: Transformer,
    machine: Machine,
    workload: Workload,
    layout: Layout,
    *,
    software: Software = SOFTWARE["2024"],
    gpus: Count | None = None,
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
    gpus : optional
        GPUs that there are, if the layout shall be checked against them.

    Returns
    -------
    Step

    Raises
    ------
    ValueError
        The machine has no such precision, or a layout breaks a rule of :meth:`clusterlab.model.Layout.violations`; the
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
    step            13.4 s    (12 to 14.8)
    MFU              52.9%  (47.8 to 58.7)
    HFU              53.4%  (48.2 to 59.2)
    """
    layout.violations(model, workload, gpus=gpus).refuse()
    model = trained(model)
    if layout.etp is not None and np.any(layout.etp != pick(layout.ep > 1, 1.0, layout.tp)):
        raise ValueError(f"etp must be tp, or 1 where ep is above 1: a step has no other; got {summary(layout.etp)}")
    if PRECISIONS[workload.precision][0] not in machine.peaks:
        known = [name for name, (peak, _) in PRECISIONS.items() if peak in machine.peaks]
        raise ValueError(f"precision must be one of {', '.join(known)} on {machine.name}; got {workload.precision!r}")
    job, rates = Job.of(workload, layout), reached(machine, workload.precision, software)
    found = (_step if math.prod(shape_of(job)) <= BLOCK else _by_blocks)(model, machine, rates, software, job)
    vars(found)["_asked"] = machine.hbm_capacity, (model, workload, layout, software)
    return found


def _by_blocks(model: Transformer, machine: Machine, rates: Rates, software: Software, job: Job) -> Step:
    """The steps of many layouts, so many at a time."""
    shape = shape_of(job)
    count = math.prod(shape)
    flat = [np.broadcast_to(one, shape).ravel() if np.ndim(one) else np.asarray(one) for one in job]
    blocks = []
    for i in range(0, count, BLOCK):
        some = Job._make(column[i : i + BLOCK] if column.ndim else column[()] for column in flat)
        blocks.append(_step(model, machine, rates, software, some))
    columns = ([np.atleast_1d(getattr(block, f.name)) for block in blocks] for f in fields(Step))
    return Step(*(np.concatenate(column).reshape(shape) for column in columns))


# --- The step, put together ------------------------------------------------------------------------------------------


def _step(model: Transformer, machine: Machine, rates: Rates, software: Software, job: Job) -> Step:
    """The step itself, its arguments checked."""
    low, high = _spread(_kind(model, rates.operand_bytes), machine, job.tp * job.pp * job.dp * job.cp)
    rank = job.rank(software, rates.operand_bytes)
    weights = rank_weights(model, rank)
    compute = compute_time(model, rates, software, job, rank)
    comm = layer_communication(model, rates, software, job, rank, compute)
    ends = ends_time(model, rates, rank, compute.gradient_bytes)
    in_layers = compute.time + compute.recompute_time + comm.tensor.exposed + comm.exposed_expert
    slowest = critical_stage.unchecked(
        model.layers,
        layer_time=(in_layers + comm.exposed_context) / model.layers,
        embedding_time=ends.embedding + comm.tensor.all_reduce,
        output_time=ends.output + ends.loss + comm.tensor.all_reduce,
        stages=job.pp,
        microbatches=job.microbatches,
        chunks=job.chunks,
    )
    if software.dual_pipe:
        slowest = replace(slowest, bubble=_dual_pipe_bubble(model, job, compute, comm, slowest))
    transfers, all_transfers = stage_transfers(model, machine, rates, software, job)
    shards, windows = shards_of(model, rates, job, weights), windows_of(software, job, compute, comm)
    data, all_data = data_parallel(model, rates, software, job, shards, windows)
    ends_comm = job.microbatches * (slowest.has_output + slowest.has_embedding) * comm.tensor.all_reduce
    share = job.microbatches * slowest.layers / model.layers
    wanted, tokens = 3 * compute.wanted.total, job.global_batch * job.sequence
    columns = {
        **_parts(model, job, compute, comm, ends, slowest),
        "transfers": transfers,
        "data": data,
        # Adam: gradient, weight, moments read, the latter three and a 16-bit weight written, gradients scaled: 38 B.
        "optimizer": 38 * shards.updated(job.zero) / rates.memory,
        "communication": share * comm.total + ends_comm + all_transfers + all_data,
        "tokens": tokens,
        "gpus": job.tp * job.pp * job.dp * job.cp,
        "model_flops": wanted * tokens,
        "hardware_flops": (wanted + compute.recomputed_flops) * tokens,
        "peak": rates.peak,
        "spread_low": low,
        "spread_high": high,
    }
    if shape := shape_of(columns.values()):
        columns = {n: one if np.shape(one) == shape else np.broadcast_to(one, shape) for n, one in columns.items()}
    return record(Step, columns)


def _dual_pipe_bubble(
    model: Transformer, job: Job, compute: Compute, comm: Communication, slowest: CriticalStage
) -> Seconds:
    """Seconds that a rank waits where one microbatch goes forward while another goes backward (DualPipe).

    An odd number of stages goes one way.
    """
    share = slowest.layers / model.layers
    backward = share * (compute.backward.time + compute.recompute_time + comm.expert_forward)
    weights = share * compute.backward.gemms / 2
    stages = larger(job.pp + job.pp % 2, 2.0)  # of an odd number it has no bubble to take
    bubble = dualpipe_bubble.unchecked(stages, backward=backward, weight=weights, paired=slowest.time)
    return pick(job.pp % 2 == 0, bubble, slowest.bubble)


def _parts(
    model: Transformer, job: Job, compute: Compute, comm: Communication, ends: Ends, slowest: CriticalStage
) -> dict[str, Seconds]:
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


# --- What an axis sends ----------------------------------------------------------------------------------------------

_BYTES_ONLY = {"bandwidth": 1.0, "latency": 0.0}


def sent_bytes(model: Transformer, workload: Workload, layout: Layout) -> dict[str, Bytes]:
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
        "pipeline": float(2 * layout.chunks * m * stream * model.streams / layout.tp * (layout.pp > 1)),
        "data": float(data[int(layout.zero)]),
    }
