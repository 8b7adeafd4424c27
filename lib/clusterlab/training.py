r"""Training: the time of one step of a decoder under a layout, part by part.

A layout cuts a model over ``tp`` tensor-parallel ranks, ``pp`` pipeline stages, ``cp`` ranks of a sequence, ``dp``
copies of all that and, among the copies, ``ep`` ranks that share out the experts. A rank's work on a microbatch is
counted: FLOPs and bytes of matrix products, of attention, of everything that only moves memory, and of every collective
on the wire that its group spans. Work and wires become seconds by the rates of datasheets, a few shares of them
(:class:`Efficiency`, one set for a generation of accelerators), and what the software of an era does at the same time
(:class:`Software`). The slowest stage sets the pace of the pipeline.

Ranks are placed as Megatron-LM places them: tp innermost, then cp, dp and pp, so that tp neighbours share a node. Not
modelled: input, checkpoints, failures, stragglers, dropped or badly balanced tokens, and memory, which has a module of
its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from . import hardware
from .evidence.nccl_tests import RDMA_STEP
from .transformer import attention_parameters, forward_flops
from .units import GB, Explained, choose, fmt, fraction, nonnegative, positive, summary, us, whole

# --- Constants: what is not on a datasheet ---------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class Efficiency(Explained):
    """What a generation of accelerators reaches of its datasheet in a step; ``MEANING`` says what each number is.

    They are effective shares: launches, clocks and whatever the model lacks settle in them. Kernels alone reach more.

    A fused attention kernel skips the half that the causal mask hides, while published FLOPs count it. A share above
    9/16 could so show more FLOPs than the peak, and is refused.
    """

    generation: str
    gemm: float
    gemm_8: float
    gemm_4: float
    memory: float
    shows: float
    attention: float
    attention_2023: float
    rests_on: str

    def __post_init__(self) -> None:
        """Refuse shares that are none."""
        fraction(**{name: getattr(self, name) for name in MEANING})
        for name in ("attention", "attention_2023"):
            if np.any(np.asarray(getattr(self, name)) > 9 / 16):
                raise ValueError(f"{name} must be at most 0.5625, got {getattr(self, name)}")

    def _rows(self):
        rows = [(self.generation, "value", "meaning")]
        rows += [(name.replace("_", " "), f"{getattr(self, name):.3g}", text) for name, text in MEANING.items()]
        return [*rows, ("rests on", "", self.rests_on)]


MEANING = MappingProxyType(
    {
        "gemm": "share of the dense peak in the large matrix products of a step, at 16 bits",
        "gemm_8": "the same at 8 bits",
        "gemm_4": "the same at 4 bits",
        "memory": "share of the HBM bandwidth in a step",
        "shows": "share of a product's memory time that its compute does not hide, and the other way round",
        "attention": "share of the 16-bit peak in fused attention",
        "attention_2023": "the same for the first fused kernels, written in Triton",
    }
)
_A100 = "fitted to SC21 tables 1 and 2, Korthikanti et al. table 5 and LLM Foundry's A100 tables"
_UNSEEN = "; no run shows the rest: as at 16 bits, attention near FlashAttention-2's paper, unchecked"
_ONE = "fitted to the Megatron-Bridge summary of this one chip; attention_2023 as attention"
_TPU = "gemm fitted to MaxText's and Google's dense 16-bit runs on this chip; the rest assumed, near Ampere"
_TPU_GEMM = {"TPU v4": 0.84, "TPU v5e": 0.90, "TPU v5p": 0.78, "TPU v6e": 0.76, "TPU v7": 0.82}
EFFICIENCIES = MappingProxyType(
    {
        one.generation: one
        for one in (
            Efficiency("Volta", 0.75, 0.75, 0.75, 0.85, 0.5, 0.3, 0.3, "Megatron-LM's DGX-2 tables of 2020, roughly"),
            Efficiency("Ampere", 0.85, 0.85, 0.85, 0.74, 0.77, 0.45, 0.292, _A100 + _UNSEEN),
            Efficiency(
                *("Hopper", 0.65, 0.73, 0.73, 0.46, 0.14, 0.25, 0.18),
                "fitted to LLM Foundry's H100 tables, Megatron-Core's weak scaling, torchtitan and Megatron-Bridge; "
                "8 bits: the best product that MAMF finds (H100 0.71, H200 0.73)",
            ),
            Efficiency("Blackwell", 0.55, 0.64, 0.51, 0.55, 0.74, 0.35, 0.35, _ONE),
            Efficiency("Blackwell Ultra", 0.67, 0.70, 0.45, 0.63, 0.50, 0.54, 0.54, _ONE),
            *(Efficiency(name, gemm, 0.8, 0.8, 0.85, 0.5, 0.4, 0.4, _TPU) for name, gemm in _TPU_GEMM.items()),
            Efficiency("other", 0.66, 0.7, 0.5, 0.6, 0.5, 0.3, 0.3, "assumed, between Hopper and Blackwell"),
        )
    }
)
# Shares of a wire's rate. Latency of a step: inside a node in multiples of the link's on record, across it in multiples
# of NCCL's constant. Source: clusterlab.evidence.link_fit.learn, which no training run enters.
STREAM, EXCHANGE, NETWORK = 0.813, 0.724, 0.960
INSIDE, ACROSS = 0.91, 1.69
WIRES = MappingProxyType(
    {
        "stream": (STREAM, "share of a scale-up link that rings reach"),
        "exchange": (EXCHANGE, "share of a wire that all-to-alls reach"),
        "network": (NETWORK, "share of a port that rings reach"),
        "inside": (INSIDE, "latency of a step inside a domain, times the link's own"),
        "across": (ACROSS, "latency of a step across the network, times NCCL's 14 us"),
    }
)


@dataclass(frozen=True, repr=False)
class Software(Explained):
    """What an era's training software does at once, and what one after the other.

    ``attention`` names the kernel (a field of :class:`Efficiency`) that keeps the scores on the chip; ``None``: they go
    to memory. ``tensor_overlap``: whether tensor-parallel collectives hide behind products, forward and backward.
    ``stage_overlap``: whether transfers between stages hide behind other microbatches where stages are interleaved.
    ``data_overlap``: whether gradients travel during the last backward pass and weights during the first forward pass.
    ``fused_sums``: whether a product adds its weight gradient to the sum, without a kernel for that alone.
    ``stops_early``: whether recomputation leaves out a layer's last product, whose output nothing needs.
    ``context_overlap``: whether keys and values travel while attention works (ring attention), or before it.
    ``gather_rate``: bytes/s at which ZeRO 3 puts parameters together; ``None``: as fast as the wire. ``slows_inside``
    and ``slows_across``: seconds by which a hidden second of a collective slows what hides it, in the scale-up domain
    and across the network. ``expert_cast``: seconds that a cast of one expert's rows costs besides its work, where
    every expert has kernels of its own; ``None``: one kernel multiplies for all experts of a rank, with activation and
    casts, and all-to-alls hide behind the work of other microbatches.
    """

    name: str
    attention: str | None
    dropout: bool
    tensor_overlap: tuple[bool, bool]
    stage_overlap: bool
    data_overlap: bool
    fused_sums: bool
    stops_early: bool
    gather_rate: float | None
    rests_on: str
    context_overlap: bool = True
    gradient_bytes: float = 4.0
    slows_inside: float = 0.43
    slows_across: float = 0.25
    expert_cast: float | None = 45 * us

    def _rows(self):
        rows = [(self.name, "value")]
        return rows + [(f.name.replace("_", " "), str(getattr(self, f.name))) for f in fields(self)[1:]]


_DEEPSPEED = (
    "DeepSpeed issue 1174 of June 2021 (read in part): 5.1 billion parameters gathered in 420 of 480 ms on eight "
    "A100, 24 GB/s over NVLink; it gathers once more for recomputation (issue 4784)"
)
_FUSED = (
    "Megatron-Bridge's MXFP8 recipes for GB200 and GB300 of June 2026 (v0.5.0: cutedsl_fused_grouped_mlp, "
    "moe_a2a_overlap, full_iteration graphs); else as 2024, whose TransformerEngine (v2.9) casts expert by expert"
)
SOFTWARE = MappingProxyType(
    {
        one.name: one
        for one in (
            Software("2021", None, True, (False, False), False, False, False, False, 24 * GB, _DEEPSPEED),
            Software(
                *("2022", None, True, (False, True), False, False, True, False, 24 * GB),
                "Megatron-LM of Korthikanti et al. 2022: backward collectives beside weight gradients; else as 2021",
            ),
            Software(
                *("2023", "attention_2023", False, (False, True), False, True, True, True, None),
                "PyTorch FSDP with FlashAttention in Triton; non-reentrant checkpointing stops early",
            ),
            Software(
                *("2024", "attention", False, (True, True), True, True, True, True, None),
                "Megatron-Core r0.8 (its README names the three overlaps), torchtitan",
            ),
            Software(
                *("2026", "attention", False, (True, True), True, True, True, True, None, _FUSED), expert_cast=None
            ),
        )
    }
)


@dataclass(frozen=True, repr=False)
class Constants(Explained):
    """Every constant of the model that is on no datasheet, in one table: value by value, its meaning, its grounds."""

    efficiencies: Mapping[str, Efficiency]
    software: Mapping[str, Software]

    def _rows(self):
        names = list(self.efficiencies)
        rows = [("constant", *names, "meaning, or what it rests on")]
        for name, meaning in MEANING.items():
            values = (f"{getattr(one, name):.3g}" for one in self.efficiencies.values())
            rows.append((name.replace("_", " "), *values, meaning))
        empty = [""] * (len(names) - 1)
        rests = [(f"rests on, {one.generation}", "", *empty, one.rests_on) for one in self.efficiencies.values()]
        rests += [
            (name, f"{value:.3g}", *empty, f"{meaning}; from timed collectives")
            for name, (value, meaning) in WIRES.items()
        ]
        for one in self.software.values():
            slows = f"{one.slows_inside:.3g}, {one.slows_across:.3g}"
            meaning = (
                "seconds lost to a hidden second of a collective, in a domain and across; fitted with the shares above"
            )
            rests.append((f"software {one.name}", slows, *empty, f"{meaning}. {one.rests_on}"))
        meaning = "seconds that a cast of one expert's rows costs besides its work, before 2026; fitted likewise"
        rests.append(("expert cast", f"{self.software['2024'].expert_cast:.3g}", *empty, meaning))
        return [*rows, *rests]


def constants() -> Constants:
    """Return the table of all constants.

    Examples
    --------
    >>> constants().efficiencies["Ampere"].gemm
    0.85
    """
    return Constants(EFFICIENCIES, SOFTWARE)


# --- The machine -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class Machine(Explained):
    """Accelerators and the wires between them: SI units, one direction, for one accelerator.

    ``domain`` accelerators reach one another over the scale-up link; beyond, each has a port of the network. What-ifs
    are made with ``dataclasses.replace``.
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
        positive(**{f"peak {name}": peak for name, peak in self.peaks.items()})
        names = ("hbm_bandwidth", "hbm_capacity", "scale_up_bandwidth", "network_bandwidth")
        positive(**{name: getattr(self, name) for name in names})
        nonnegative(scale_up_latency=self.scale_up_latency, network_latency=self.network_latency)
        whole(domain=self.domain)

    def _rows(self):
        rows = [(self.name, "value")]
        rows += [(f"peak {name}", fmt(value, "FLOP/s")) for name, value in self.peaks.items()]
        units = {"bandwidth": "B/s", "capacity": "B", "latency": "s"}
        names = [f.name for f in fields(self)][2:-1]
        rows += [(n.replace("_", " "), fmt(getattr(self, n), units.get(n.rpartition("_")[2], ""))) for n in names]
        return [*rows, ("efficiency", self.efficiency.generation)]


_GENERATIONS = {"V100": "Volta", "A100": "Ampere", "H100": "Hopper", "H200": "Hopper", "H800": "Hopper"}
_GENERATIONS |= {"B200": "Blackwell", "GB200": "Blackwell", "B300": "Blackwell Ultra", "GB300": "Blackwell Ultra"}
_NETWORKS = {"Ampere": "InfiniBand HDR", "Blackwell Ultra": "InfiniBand XDR", "Volta": "RoCE 100 GbE"}
_NETWORKS |= dict.fromkeys(_TPU_GEMM, "DCN (TPU v5p)") | {"TPU v5e": "DCN (TPU v5e)", "TPU v6e": "DCN (TPU v6e)"}


def machine(accelerator: str, *, network: str | None = None, domain: int | None = None) -> Machine:
    """The machine of an accelerator and a network, from their datasheets.

    Parameters
    ----------
    accelerator, network : str
        As in :mod:`clusterlab.hardware`. The network is a port for each accelerator; by default that of the reference
        servers: HDR InfiniBand for A100, NDR for Hopper and Blackwell, XDR for Blackwell Ultra; for TPUs a chip's share
        of the data centre's network.
    domain : int, optional
        Accelerators that share a scale-up link; by default those of a reference server or rack.

    Returns
    -------
    Machine

    Raises
    ------
    ValueError
        An unknown accelerator or link, or a domain that is no whole number of at least 1.

    Examples
    --------
    >>> fmt(machine("H100 SXM").network_bandwidth, "B/s"), machine("A100 80GB").efficiency.generation
    ('50 GB/s', 'Ampere')
    """
    chip = hardware.accelerator(accelerator)
    first = chip.name.split()[0]
    generation = chip.name if chip.name in EFFICIENCIES else _GENERATIONS.get(first, "other")
    inside = hardware.link(chip.scale_up_link)
    across = hardware.link(network or _NETWORKS.get(generation, "InfiniBand NDR"))
    return Machine(
        name=chip.name,
        peaks=chip.peaks,
        hbm_bandwidth=chip.hbm_bandwidth,
        hbm_capacity=chip.hbm_capacity,
        domain=chip.scale_up_domain if domain is None else domain,
        scale_up_bandwidth=chip.scale_up_bandwidth,
        scale_up_latency=3.4 * us if inside.latency is None else inside.latency,  # NCCL's constant for NVLink
        network_bandwidth=across.bandwidth,
        network_latency=RDMA_STEP,
        efficiency=EFFICIENCIES[generation],
    )


# --- Collectives on the wires that a group spans ---------------------------------------------------------------------


def _near(size, stride, domain):
    """Ranks of a group in one scale-up domain, neighbours of the group ``stride`` ranks apart; equal in all domains."""
    most = np.clip(np.floor(domain / stride), 1, size)
    return size / np.ceil(size / most)


def _ring(size, n, near, m: Machine, pieces=1.0):
    """Seconds of an all-gather or a reduce-scatter of ``size`` bytes over n ranks, ``near`` in each domain.

    In so many ``pieces``, one after the other, each of which pays the latency.

    A ring through all ranks: inside a domain over its links, from one to the next over the ports of all ranks in it.
    """
    domains = n / near
    wire = STREAM * m.scale_up_bandwidth
    rate = np.where(
        domains > 1, np.minimum(np.where(near > 1, wire, np.inf), NETWORK * m.network_bandwidth * near), wire
    )
    latency = pieces * ((n - domains) * INSIDE * m.scale_up_latency + (domains - 1) * ACROSS * m.network_latency)
    transfer = size * (n - 1) / n / rate
    return latency + transfer + np.sqrt(latency * transfer)  # collectives.pipelined_time


def _all_to_all(size, n, near, copies, m: Machine):
    """Seconds of an all-to-all of ``size`` bytes on each of n ranks, ``near`` in each domain.

    Every token goes to ``copies`` experts anywhere. It crosses to another domain once and is copied there.
    """
    domains = n / near
    inside = size * (near - 1) / near / (EXCHANGE * m.scale_up_bandwidth)
    visited = (domains - 1) * (1 - (1 - 1 / domains) ** copies)
    across = size * visited / copies / (EXCHANGE * m.network_bandwidth)
    latency = (near > 1) * INSIDE * m.scale_up_latency + (domains > 1) * ACROSS * m.network_latency
    return latency + np.maximum(inside, across)


# --- Which layouts there are -----------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class Validity(Explained):
    """Which layouts can be built. ``faults`` maps each rule to a mask of the layouts that break it."""

    faults: Mapping[str, np.ndarray]

    @property
    def mask(self):
        """True where no rule is broken."""
        return ~np.any(np.broadcast_arrays(*self.faults.values()), axis=0)

    def _rows(self):
        rows = [("rule", "broken by")]
        rows += [(rule, f"{np.count_nonzero(broken):,}") for rule, broken in self.faults.items()]
        return [*rows, ("valid", f"{np.count_nonzero(self.mask):,}")]


def validity(
    model,
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
    shard_group=None,
    gpus=None,
) -> Validity:
    """Which layouts can be built, and which rule each of the others breaks.

    Parameters
    ----------
    model, sequence, global_batch, microbatch, tp, pp, dp, cp, ep, chunks, shard_group, gpus
        As in :func:`step`.

    Returns
    -------
    Validity
        ``mask`` over the broadcast layouts, and one mask for each rule. Memory is no rule of this list.

    Raises
    ------
    ValueError
        A count is no whole number of at least 1.

    Examples
    --------
    >>> from clusterlab.models import model
    >>> found = validity(model("Llama 3.1 8B"), sequence=8192, global_batch=64, tp=[1, 3, 8], dp=[8, 1, 3], gpus=8)
    >>> found.mask
    array([ True, False, False])
    >>> [rule for rule, broken in found.faults.items() if broken[2]]
    ['tp pp dp cp must be gpus', 'dp times microbatch must divide global_batch']
    """
    s, gb, b, t, p, d, c, x, v = whole(
        sequence=sequence,
        global_batch=global_batch,
        microbatch=microbatch,
        tp=tp,
        pp=pp,
        dp=dp,
        cp=cp,
        ep=ep,
        chunks=chunks,
    )
    experts = np.maximum(model.experts, 1)
    faults = {
        "tp must divide heads": model.heads % t != 0,
        "pp times chunks must be at most layers + 2": p * v > model.layers + 2,
        "chunks above 1 need pp above 1": (v > 1) & (p == 1),
        "cp must divide sequence": s % c != 0,
        "ep must divide experts": experts % x != 0,
        "ep must divide tp cp dp": (t * c * d) % x != 0,
        "dp times microbatch must divide global_batch": gb % (d * b) != 0,
    }
    if gpus is not None:
        (n,) = whole(gpus=gpus)
        faults = {"tp pp dp cp must be gpus": t * p * d * c != n} | faults
    if shard_group is not None:
        (group,) = whole(shard_group=shard_group)
        faults["shard_group must divide dp cp"] = (d * c) % group != 0
    return Validity(MappingProxyType(dict(zip(faults, np.broadcast_arrays(*faults.values()), strict=True))))


# --- The step --------------------------------------------------------------------------------------------------------

PARTS = ("gemms", "attention", "elementwise", "recomputation", "tensor", "context", "expert", "transfers", "bubble")
PARTS += ("data", "optimizer")


@dataclass(frozen=True, repr=False)
class Step(Explained):
    """The time of a training step, seconds, as the slowest pipeline stage spends it. ``PARTS`` sum to ``time``.

    Of collectives, what is exposed is a part; ``communication`` is all their time, hidden or not. ``model_flops`` and
    ``hardware_flops`` are those of the step, ``peak`` the FLOP/s of one accelerator at the precision.
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

    @property
    def time(self):
        """Seconds of the step: the sum of its parts."""
        return sum(getattr(self, name) for name in PARTS)

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
        rows.append(("step", summary(whole_step, "s"), ""))
        return [*rows, ("MFU", "", summary(self.mfu, "%")), ("HFU", "", summary(self.hfu, "%"))]


# Peak that a precision uses, and bytes of an operand of its products: NVFP4 has a byte of scale for 16 values.
PRECISIONS = MappingProxyType(
    {
        "bf16": ("bf16", 2.0),
        "fp16": ("fp16", 2.0),
        "fp8": ("fp8", 1.0),
        "int8": ("int8", 1.0),
        "fp4": ("fp4", 0.5625),
    }
)

_BLOCK = 16384  # layouts at a time: their intermediate results stay in the cache of one core


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
    software: Software = SOFTWARE["2024"],
    gpus=None,
) -> Step:
    r"""Time of one training step of a decoder under a layout, or of as many as the arrays say.

    .. math:: T = m\,\tau + \frac{\sum_i \tau_i - \tau}{v} + \text{transfers} + \text{data} + \text{optimizer},
        \qquad \tau = \max_i \tau_i

    with m microbatches and :math:`\tau_i` the time of stage i for one of them, forward and backward: its layers, and
    the embedding or the output layer. The first two terms are never less than :math:`\sum_i \tau_i + (m - 1)\,\pi`,
    with :math:`\pi` the longest piece of a stage: that is more where interleaved stages get few microbatches. A product
    of F FLOPs that moves B bytes takes, with the shares of :class:`Efficiency`,

    .. math:: \max(c, \mu) + \sigma \min(c, \mu), \qquad c = F / (\eta R), \quad \mu = B / (\beta\,\text{BW})

    so small or thin products are less efficient. A collective that hides behind H seconds of work costs
    :math:`C - (1 - \kappa) \min(C, H)`.

    Parameters
    ----------
    model : Transformer
        One shape; its counts are numbers, not arrays.
    machine : Machine
        From :func:`machine`.
    sequence, global_batch, microbatch : array_like
        Tokens of a sequence; sequences of a step, and of a microbatch.
    tp, pp, dp, cp, ep : array_like
        Ranks of tensor, pipeline, data, context and expert parallelism. The experts are shared out over ranks of the
        other axes: tp pp dp cp is the number of GPUs. With ep above 1 experts are whole, else tp splits them.
    chunks : array_like
        Pieces of the model that each stage holds (interleaved 1F1B).
    zero : array_like
        ZeRO stage, 0 to 3; FSDP is 3, Megatron-LM's distributed optimizer 1. Stage 2 keeps only its share of the
        gradients, so they travel after every microbatch, and not once a step.
    shard_group : array_like, optional
        Ranks that share under ZeRO where not all dp cp do (hybrid sharding).
    recompute : str or array of str
        ``"none"``, ``"selective"`` (attention) or ``"full"``.
    sequence_parallel : bool or array of bool
        Whether tensor-parallel ranks split norms, additions and dropout too.
    precision : str
        Of the products of the layers: ``"bf16"``, ``"fp16"``, ``"fp8"``, ``"int8"`` or ``"fp4"``. All else is in 16
        bits or more.
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
        An argument is not what it should be, or a layout breaks a rule of :func:`validity`; the message names the rule
        and the values.

    Notes
    -----
    Source: Narayanan et al. 2021 (SC21) for placement, schedule and communication of the three axes; Korthikanti et al.
    2022 for sequence parallelism and recomputation; Rajbhandari et al. 2020 for ZeRO (and DeepSpeed issue 2252 for
    stage 2); Liu et al. 2023 for the ring of keys and values; Dao et al. 2022 for the work of fused attention. The
    counts of memory traffic are derived here, tensor by tensor. Tokens are spread evenly over experts (benchmarks force
    it: Megatron-Bridge's performance summary, its note on mixtures of experts), and cross to a node once (as DeepSeek's
    DeepEP sends them). In 8 and 4 bits each expert's rows are cast by kernels of their own, twice forward and twice
    backward (TransformerEngine v2.9, ``multi_tensor_quantize_impl``), until software fuses them.

    Examples
    --------
    The 175-billion model of Korthikanti et al. 2022, table 5, on 64 A100: 13.75 s measured.

    >>> from clusterlab.models import model
    >>> layout = {"sequence": 2048, "global_batch": 64, "tp": 8, "pp": 8, "chunks": 3, "recompute": "selective"}
    >>> step(model("GPT 175B"), machine("A100 80GB"), **layout, precision="fp16", zero=0, software=SOFTWARE["2022"])
    Step
                      time   share
    gemms           9.72 s   72.9%
    attention       480 ms    3.6%
    elementwise     728 ms   5.47%
    recomputation   391 ms   2.93%
    tensor          1.37 s   10.3%
    transfers       114 ms  0.853%
    bubble          451 ms   3.39%
    optimizer      70.4 ms  0.528%
    step            13.3 s
    MFU                        53%
    HFU                      53.5%
    """
    given = {"sequence": sequence, "global_batch": global_batch, "microbatch": microbatch}
    given |= {"tp": tp, "pp": pp, "dp": dp, "cp": cp, "ep": ep, "chunks": chunks}
    given = dict(zip(given, whole(**given), strict=True))
    _refuse(model, gpus, validity(model, **given, shard_group=shard_group, gpus=gpus), given)
    (z,) = nonnegative(zero=zero)
    if np.any((z > 3) | (z != np.floor(z))):
        raise ValueError(f"zero must be 0, 1, 2 or 3, got {zero}")
    full = choose({"none": 0.0, "selective": 0.0, "full": 1.0}, recompute=recompute)
    selective = choose({"none": 0.0, "selective": 1.0, "full": 0.0}, recompute=recompute)
    splits = np.asarray(sequence_parallel)
    if splits.dtype != bool:
        raise ValueError(f"sequence_parallel must be True or False, got {sequence_parallel!r}")
    if precision not in PRECISIONS or PRECISIONS[precision][0] not in machine.peaks:
        known = [name for name, (peak, _) in PRECISIONS.items() if peak in machine.peaks]
        raise ValueError(f"precision must be one of {', '.join(known)} on {machine.name}; got {precision!r}")
    group = given["dp"] * given["cp"] if shard_group is None else whole(shard_group=shard_group)[0]
    arguments = (*given.values(), z, group, full, selective, splits)
    shape = np.broadcast_shapes(*map(np.shape, arguments))
    count = int(np.prod(shape))
    if count <= _BLOCK:
        return _step(model, machine, software, precision, *arguments)
    flat = [one if np.ndim(one) == 0 else np.broadcast_to(one, shape).ravel() for one in arguments]
    blocks = [
        _step(model, machine, software, precision, *(one if np.ndim(one) == 0 else one[i : i + _BLOCK] for one in flat))
        for i in range(0, count, _BLOCK)
    ]
    columns = ([np.atleast_1d(getattr(block, f.name)) for block in blocks] for f in fields(Step))
    return Step(*(np.concatenate(column).reshape(shape) for column in columns))


def _refuse(model, gpus, found: Validity, given: dict) -> None:
    """Raise a ValueError that names a broken rule, and what the first layout to break it has there."""
    given = given | {"heads": model.heads, "layers": model.layers, "experts": model.experts, "gpus": gpus}
    for rule, broken in found.faults.items():
        if np.any(broken):
            first = np.argmax(broken)
            named = [name for name in given if name in rule.split()]
            values = (np.broadcast_to(given[name], broken.shape).flat[first] for name in named)
            raise ValueError(f"{rule}, got {', '.join(f'{n} {x:g}' for n, x in zip(named, values, strict=True))}")


# --- The parts of a step: what a microbatch costs a rank in all layers, and what comes once ---------------------------
# Times are seconds, a name's last letter the pass: forward (f) or backward (b). Everything broadcasts over layouts.


_Numbers = float | np.ndarray  # one, or one for each layout


class _Layout(NamedTuple):
    """A layout in the letters of the formulas, its arguments checked; ``full`` and ``selective`` are 1 or 0."""

    s: _Numbers
    gb: _Numbers
    b: _Numbers
    t: _Numbers
    p: _Numbers
    d: _Numbers
    c: _Numbers
    x: _Numbers
    v: _Numbers
    z: _Numbers
    group: _Numbers
    full: _Numbers
    selective: _Numbers
    splits: _Numbers

    @property
    def microbatches(self):
        return self.gb / (self.d * self.b)

    @property
    def tokens(self):
        """Tokens of a microbatch on a rank."""
        return self.b * self.s / self.c


class _Rates(NamedTuple):
    """What the accelerator reaches: FLOP/s of products and bytes/s of memory; ``operand``: bytes of an operand."""

    peak: float
    peak_16: float
    operand: float
    gemm: float
    hbm: float
    shows: float

    def times(self, flops, moved, rate=None):
        """Seconds of products that do ``flops`` and move bytes: the longer of both, and a share of the shorter."""
        work, memory = flops / (self.gemm if rate is None else rate), moved / self.hbm
        return np.maximum(work, memory) + self.shows * np.minimum(work, memory)


def _rates(mach: Machine, precision) -> _Rates:
    e = mach.efficiency
    name, operand = PRECISIONS[precision]
    peak, peak_16 = mach.peaks[name], mach.peaks["bf16"] if "bf16" in mach.peaks else mach.peaks["fp16"]
    gemm = peak * {2.0: e.gemm, 1.0: e.gemm_8}.get(operand, e.gemm_4)
    return _Rates(peak, peak_16, operand, gemm, e.memory * mach.hbm_bandwidth, e.shows)


class _Products(NamedTuple):
    """The matrix products of a rank: FLOPs forward, and weights, by what they belong to."""

    kinds: list  # for dense layers and mixtures: how many, and (rows, weights a row meets, weights, elements of a row)
    attention: _Numbers  # weights of a layer's attention
    ffn: _Numbers
    experts: _Numbers
    beside: _Numbers  # shared experts and the router
    qkv: _Numbers  # elements of queries, keys and values of a token
    kv: _Numbers  # ... of keys and values
    routed: _Numbers  # rows that a rank's experts see
    cut: _Numbers  # ranks that split an expert
    local: _Numbers  # experts of a rank
    expert_ffn: _Numbers
    last: _Numbers  # FLOPs of the layers' last products
    wide: _Numbers  # elements of all feed-forwards of a token
    weights: _Numbers  # of all layers


def _products(model, lay: _Layout) -> _Products:
    t, tokens, h, gates = lay.t, lay.tokens, model.hidden, 1 + model.gated
    heads, dim, value_dim = model.heads, model.head_dim, model.value_dim
    moe = model.moe_layers
    dense = model.layers - moe
    of_heads, for_all = attention_parameters(model)
    if model.kv_rank:
        qkv = kv = heads * (2 * (dim + model.rope_dim) + value_dim) / t
        attention = of_heads / t + for_all
        io = 2 * h + 2 * (model.query_rank + model.kv_rank + model.rope_dim) + qkv + heads * value_dim / t
    else:  # a key head is on every rank that has one of its query heads
        kv = 2 * np.maximum(model.kv_heads, t) * dim / t
        qkv = heads * dim / t + kv
        attention = h * (qkv + heads * dim / t)
        io = 2 * h + qkv + heads * dim / t
    ffn = (1 + gates) * h * model.ffn / t
    of_attention = (tokens, attention, attention, io)
    kinds = [(dense, [of_attention, (tokens, ffn, ffn, 2 * h + (1 + gates) * model.ffn / t)])] if dense else []
    last, wide = dense * 2 * tokens * (h * model.ffn / t), dense * model.ffn
    weights = dense * (attention + ffn)
    experts, beside, routed, cut, local, expert_ffn = 0.0, 0.0, 0.0, 1.0, 0.0, 0.0
    if moe:
        cut = np.where(lay.x > 1, 1.0, t)  # with expert parallelism, none
        routed = model.experts_per_token * tokens * cut / t
        expert_ffn, local = model.expert_ffn / cut, model.experts / lay.x
        each = (1 + gates) * h * expert_ffn
        experts = local * each
        beside = model.shared_experts * (1 + gates) * h * model.expert_ffn / t + h * model.experts
        padded = routed + 64 * local  # each expert's last tile of 128 rows is half empty
        io_beside = (2 * h + (1 + gates) * model.expert_ffn / t) * model.shared_experts
        of_experts = (padded, each, experts, 2 * h + (1 + gates) * expert_ffn)
        kinds.append((moe, [of_attention, of_experts, (tokens, beside, beside, io_beside)]))
        weights = weights + moe * (attention + experts + beside)
        last = last + moe * 2 * h * (routed * expert_ffn + tokens * model.shared_experts * model.expert_ffn / t)
        wide = wide + moe * (model.experts_per_token + model.shared_experts) * model.expert_ffn
    return _Products(
        kinds, attention, ffn, experts, beside, qkv, kv, routed, cut, local, expert_ffn, last, wide, weights
    )


class _Compute(NamedTuple):
    """Seconds of products, of attention and of what only moves memory; ``again``: of recomputation."""

    gemm_f: _Numbers
    gemm_b: _Numbers
    attention_f: _Numbers
    attention_b: _Numbers
    move_f: _Numbers
    move_b: _Numbers
    again: _Numbers
    inside: _Numbers  # bytes of a weight's gradient that its product writes, and reads to add
    repeated: _Numbers  # FLOPs of a token that recomputation repeats

    @property
    def total(self):
        """Seconds without recomputation."""
        return self.gemm_f + self.gemm_b + self.attention_f + self.attention_b + self.move_f + self.move_b


def _compute(model, rates: _Rates, e: Efficiency, soft, lay: _Layout, prods: _Products) -> _Compute:
    # Weight gradients are written (ZeRO 3) or added to a sum of all microbatches: read and written in its precision.
    sums = np.where(lay.z >= 3, 2.0, 2 * soft.gradient_bytes)
    inside = sums if soft.fused_sums else np.where(lay.z >= 3, sums, 2.0)
    # ... or by a kernel of its own; ZeRO 3 casts and scales the gradients of every microbatch.
    alone = np.where(lay.z >= 3, 2 + 3 * soft.gradient_bytes, 0.0 if soft.fused_sums else 2 + sums)
    gemm_f = gemm_b = flops_f = 0.0
    for count, products in prods.kinds:
        flops = sum(2 * rows * weights for rows, weights, _, _ in products)
        stored = sum(weights for _, _, weights, _ in products)
        passed = sum(rows * elements for rows, _, _, elements in products) * (1 + rates.operand / 2)
        gemm_f = gemm_f + count * rates.times(flops, rates.operand * stored + passed)
        gemm_b = gemm_b + count * rates.times(2 * flops, (rates.operand + inside) * stored + 2 * passed)
        flops_f = flops_f + count * flops
    attention_f, attention_b, softmax_f, softmax_b = _attention(model, rates, e, soft, lay)
    move_f, move_b = _moves(model, rates, soft, lay, prods)
    move_f, move_b = move_f + softmax_f, move_b + alone * prods.weights / rates.hbm + softmax_b

    skip = prods.last / flops_f if soft.stops_early else 0.0
    again = lay.full * ((1 - skip) * gemm_f + attention_f + move_f) + lay.selective * (attention_f + softmax_f)
    asked = forward_flops(model, lay.s)
    repeated = lay.full * (asked.layers - skip * (asked.layers - asked.scores)) + lay.selective * asked.scores
    return _Compute(gemm_f, gemm_b, attention_f, attention_b, move_f, move_b, again, inside, repeated)


def _attention(model, rates: _Rates, e: Efficiency, soft, lay: _Layout):
    """Seconds of attention, forward and backward, and of a softmax whose scores go to memory."""
    if soft.attention:
        scores = forward_flops(model, lay.s, causal=True).scores * lay.tokens / lay.t
        forward = scores / (getattr(e, soft.attention) * rates.peak_16)
        return forward, 2.5 * forward, 0.0, 0.0  # five products instead of two: the scores are computed again
    scores = forward_flops(model, lay.s).scores * lay.tokens / lay.t
    elements = model.layers * lay.tokens * lay.s * model.heads / lay.t
    forward = rates.times(scores, 4 * elements, rates.peak_16 * e.gemm)
    one = elements / rates.hbm
    return forward, 2 * forward, (4 + 5 * soft.dropout) * one, (6 + 5 * soft.dropout) * one


def _moves(model, rates: _Rates, soft, lay: _Layout, prods: _Products):
    """Seconds, forward and backward, of what only moves memory.

    Tensors as wide as the stream, 2 bytes an element: two norms (2, 5), two additions (3, 3), dropout and bias (0.5,
    3.5); then what tensor parallelism splits: activation, rotation, queries, keys and values taken apart and put
    together, what the attention kernel needs besides.
    """
    t, tokens, h, gates, layers, moe = lay.t, lay.tokens, model.hidden, 1 + model.gated, model.layers, model.moe_layers
    values = model.heads * model.value_dim
    stream, split = 2 * tokens * h / np.where(lay.splits, t, 1.0), 2 * tokens / t
    rotated = 2 * (model.heads * model.head_dim + prods.kv * t / 2) if not model.positions else 0.0
    beside_f, beside_b = (0, 13) if soft.attention else (2, 8)
    move_f = layers * (stream * (10 + soft.dropout) + split * (rotated + beside_f * values))
    move_b = layers * (stream * (16 + 7 * soft.dropout) + split * (rotated + beside_b * values))
    move_f, move_b = move_f + split * (1 + gates) * prods.wide, move_b + split * (2 * gates + 1) * prods.wide
    if moe:  # tokens are sorted to experts and back
        move_f, move_b = move_f + moe * 8 * prods.routed * h, move_b + moe * 8 * prods.routed * h
    if rates.operand < 2:  # whoever makes an operand writes it twice more, in the low precision, by rows and by columns
        casts = layers * tokens * (2 * h + values / t) + tokens * prods.wide / t
        move_f = move_f + 2 * casts
        move_b = move_b + 2 * (casts + tokens * (layers * prods.qkv + gates * prods.wide / t))
        if moe:  # rows of experts too; a kernel of its own also reads what it casts
            reads = 0 if soft.expert_cast is None else 2
            move_f = move_f + moe * prods.routed * ((2 + reads) * h + reads * prods.expert_ffn)
            move_b = move_b + moe * prods.routed * ((2 + reads) * h + reads * gates * prods.expert_ffn)
    launches = 0.0
    if moe and rates.operand < 2 and soft.expert_cast is not None:  # inputs of two products, gradients of two outputs
        launches = moe * prods.local * 2 * soft.expert_cast
    return move_f / rates.hbm + launches, move_b / rates.hbm + launches


class _Exchanges(NamedTuple):
    """Seconds of the collectives inside the layers: ``open``: those that nothing hides; ``all``: hidden or not."""

    reduced: _Numbers  # one sum over the tensor-parallel ranks
    open_f: _Numbers  # tensor
    open_b: _Numbers
    open_again: _Numbers
    context: _Numbers
    expert_f: _Numbers
    open_expert: _Numbers
    all: _Numbers


def _exchanges(model, mach: Machine, soft, lay: _Layout, prods: _Products, work: _Compute) -> _Exchanges:
    t, c, x, h, tokens, full, moe = lay.t, lay.c, lay.x, model.hidden, lay.tokens, lay.full, model.moe_layers
    reduced = 2 * _ring(2 * tokens * h, t, _near(t, 1.0, mach.domain), mach) * (t > 1)
    blocks = 2 * (model.layers - moe) + moe * (1 + ((x == 1) | (model.shared_experts > 0)))  # that end in such a sum
    tensor_f = blocks * reduced
    tensor_b = tensor_f * np.where(lay.splits, 1.5, 1.0)  # the split inputs are gathered once more
    tensor_again = full * (tensor_f - (reduced * model.layers / 2 if soft.stops_early else 0.0))
    hidden_f = soft.tensor_overlap[0] * np.minimum(tensor_f * (1 - 1 / t), work.gemm_f) * (1 - soft.slows_inside)
    hidden_b = soft.tensor_overlap[1] * np.minimum(tensor_b, work.gemm_b / 2) * (1 - soft.slows_inside)
    open_f, open_b = tensor_f - hidden_f, tensor_b - hidden_b
    open_again = tensor_again * open_f / np.where(tensor_f > 0, tensor_f, 1.0)
    expert_f = 0.0
    if moe:
        sent = 2 * tokens * model.experts_per_token * h / t
        one = _all_to_all(sent, x, _near(x, 1.0, mach.domain), model.experts_per_token, mach)
        expert_f = 2 * moe * one * (x > 1)
    expert = open_expert = expert_f * (2 + full)
    if moe and soft.expert_cast is None:  # behind another microbatch, if there is one
        lost = np.where(_near(x, 1.0, mach.domain) < x, soft.slows_across, soft.slows_inside)
        open_expert = expert - (lay.microbatches > 1) * np.minimum(expert, work.total) * (1 - lost)
    # Keys and values go around the ring, and their gradients too; the first of the c pieces is not hidden. Or they all
    # are gathered first, as for Llama 3 (section 3.3.2).
    around = model.layers * _ring(2 * tokens * c * prods.kv, c, _near(c, t, mach.domain), mach) * (c > 1)
    context_f, context_b = around, 2 * around
    if soft.context_overlap:
        context_f = np.maximum(around - work.attention_f, around / c)
        context_b = np.maximum(2 * around - work.attention_b, around / c)
    every = tensor_f + tensor_b + tensor_again + (3 + full) * around + expert
    return _Exchanges(
        reduced, open_f, open_b, open_again, context_f * (1 + full) + context_b, expert_f, open_expert, every
    )


class _Pace(NamedTuple):
    """The slowest stage: its share of the layers, whether it has the ends of the model, and the bubble."""

    share: _Numbers
    has_output: _Numbers
    has_embedding: _Numbers
    bubble: _Numbers


def _pace(layers, layer, first, final, lay: _Layout) -> _Pace:
    """Which stage is slowest: the first, the last or one between. ``layer``, ``first``, ``final``: seconds of each."""
    p, v, m = lay.p, lay.v, lay.microbatches
    most = v * np.ceil(layers / (p * v))
    short = p * most - layers
    front, back = np.floor(short / 2), np.ceil(short / 2)

    def held(i):
        return most - np.clip(np.ceil((front - i) / p), 0, v) - np.clip(np.ceil((back - (p - 1 - i)) / p), 0, v)

    single = 1.0 * (p == 1)
    staged = 1.0 - single
    first_layers, last_layers, middle_layers = held(0), held(p - 1), held(np.floor(p / 2)) * staged
    last_time = last_layers * layer + final + single * first
    first_time = (first_layers * layer + first) * staged
    pace = np.maximum(np.maximum(first_time, last_time), middle_layers * layer)
    has_output = 1.0 * (last_time == pace)
    at_first = (1.0 - has_output) * (first_time == pace)
    share = np.where(has_output, last_layers, np.where(at_first, first_layers, middle_layers)) / layers
    # Few microbatches wait for themselves: one goes through all pieces, the others behind it through the slowest.
    size, others = most / v, layers * layer + first + final - pace
    piece = np.maximum(layer * (size - (front > 0)) + first, layer * (size - (back > 0)) + final)
    piece = np.maximum(piece, layer * size)
    bubble = np.maximum(others / v, others - (m - 1) * (pace - piece)) * staged
    return _Pace(share, has_output, at_first + single, bubble)


def _transfers(model, mach: Machine, soft, lay: _Layout):
    """Seconds of transfers between stages: those in the open, and all."""
    p, near = lay.p, lay.t * lay.c * lay.d * lay.p <= mach.domain
    rate = np.where(near, STREAM * mach.scale_up_bandwidth, NETWORK * mach.network_bandwidth)
    latency = np.where(near, INSIDE * mach.scale_up_latency, ACROSS * mach.network_latency)
    hop = (2 * lay.tokens * model.hidden / lay.t / rate + latency) * (p > 1)
    fill, steady = 2 * (p - 1) * hop, 2 * lay.v * lay.microbatches * hop
    return fill + np.where((lay.v > 1) & soft.stage_overlap, 0.0, steady), fill + steady


def _sharing(model, mach: Machine, soft, lay: _Layout, prods: _Products, work: _Compute, sent: _Exchanges):
    """Data parallelism: seconds in the open, all seconds, and parameters that the optimizer updates.

    On the stage with the output layer, its layers an average stage's.
    """
    t, p, d, c, z, m, full, group = lay.t, lay.p, lay.d, lay.c, lay.z, lay.microbatches, lay.full, lay.group
    moe = model.moe_layers
    ends = model.vocab * model.hidden / t * (1 + (p == 1) * (not model.tied))
    own = ((model.layers - moe) * (prods.attention + prods.ffn) + moe * (prods.attention + prods.beside)) / p + ends
    theirs = moe * prods.experts / p
    near = _near(group, t, mach.domain)
    shards_e, near_e = 1.0, 1.0
    if moe:
        shards_e = np.maximum(t * group / (lay.x * prods.cut), 1.0)
        near_e = _near(shards_e, lay.x * prods.cut, mach.domain)

    def gathered(size, pieces=1.0):
        """Seconds to gather or reduce-scatter ``size`` bytes for each parameter of this rank, once."""
        one = _ring(size * own, group, near, mach, pieces) * (group > 1)
        return one + _ring(size * theirs, shards_e, near_e, mach, pieces) * (shards_e > 1) if moe else one

    free = 1.0 * ((c == 1) | (not soft.context_overlap))  # attention that hides keys and values hides nothing else
    forward = (work.gemm_f + free * work.attention_f + work.move_f + sent.open_f + sent.expert_f) / p
    backward = (work.gemm_b + free * work.attention_b + work.move_b + sent.open_b + sent.expert_f) / p
    redone = (work.again - full * (1 - free) * work.attention_f + sent.open_again + full * sent.expert_f) / p
    slows = np.where(near < group, soft.slows_across, soft.slows_inside)
    gather, scatter = gathered(2.0), gathered(soft.gradient_bytes)
    # ZeRO 0 and 1: once a step; ZeRO 2 keeps no whole gradients: they leave after every microbatch. The gather of the
    # second half of an all-reduce carries gradients.
    second, times_out = np.where(z >= 1, gather, scatter), np.where(z == 2, m, 1.0)
    once = open_once = times_out * scatter + second
    if soft.data_overlap:
        behind = np.where(
            z >= 1,
            times_out * np.minimum(scatter, backward + redone) + np.minimum(second, forward),
            np.minimum(once, backward + redone),
        )
        open_once = once - behind * (1 - slows)
    # ZeRO 3: for every microbatch, a layer at a time, the first of them in the open.
    pieces = np.maximum(model.layers / p, 1.0)
    if soft.gather_rate is None:
        gather, scatter = gathered(2.0, pieces), gathered(soft.gradient_bytes, pieces)
        each = 2 * gather + scatter
        behind = np.minimum(gather, forward * (1 - 1 / pieces))
        behind = behind + np.minimum(gather + scatter, (backward + redone) * (1 - 1 / pieces))
    else:
        gather = (2 * (own + theirs) / soft.gather_rate + _ring(0.0, group, near, mach, pieces)) * (group > 1)
        each = (3 + full) * gather  # once more for recomputation, and the gradients
        behind = np.minimum(gather, forward) + full * np.minimum(gather, redone) + np.minimum(gather, backward)
    data = np.where(z >= 3, m * (each - behind * (1 - slows)), open_once)
    data_all = np.where(z >= 3, m * each, once)
    # Where only some of the copies share, each rank sums its share of the gradients with the others, once a step.
    others = d * c / group
    if np.any(others > 1):
        near_o = _near(others, t * group, mach.domain)
        summed = 2 * _ring(soft.gradient_bytes * (own / group + theirs / shards_e), others, near_o, mach) * (others > 1)
        slows_o = np.where(near_o < others, soft.slows_across, soft.slows_inside)
        hidden = np.minimum(summed, backward + redone) if soft.data_overlap else 0.0
        data, data_all = data + summed - hidden * (1 - slows_o), data_all + summed
    return data, data_all, own / np.where(z >= 1, group, 1) + theirs / np.where(z >= 1, shards_e, 1)


def _step(model, mach, soft, precision, *arguments) -> Step:
    """The step itself, its arguments checked: the parts above, put together."""
    lay, rates = _Layout(*arguments), _rates(mach, precision)
    h, vocab, layers, m, tokens = model.hidden, model.vocab, model.layers, lay.microbatches, lay.tokens
    prods = _products(model, lay)
    work = _compute(model, rates, mach.efficiency, soft, lay, prods)
    sent = _exchanges(model, mach, soft, lay, prods, work)

    # Output layer with its loss (20 bytes a logit), and embedding.
    w_output, rows = vocab * h / lay.t, tokens * (h + vocab / lay.t)
    output = rates.times(2 * tokens * w_output, 2 * (w_output + rows))
    output = output + rates.times(4 * tokens * w_output, (2 + work.inside) * w_output + 4 * rows)
    loss, embedding = 20 * tokens * vocab / lay.t / rates.hbm, 6 * tokens * h / rates.hbm
    first, final = embedding + sent.reduced, output + loss + sent.reduced

    tensor = sent.open_f + sent.open_b + sent.open_again
    layer = (work.total + work.again + tensor + sent.open_expert + sent.context) / layers
    pace = _pace(layers, layer, first, final, lay)
    transfers, all_transfers = _transfers(model, mach, soft, lay)
    data, all_data, updated = _sharing(model, mach, soft, lay, prods, work, sent)

    slowest = m * pace.share
    ends = m * (pace.has_output + pace.has_embedding) * sent.reduced
    asked, total = 3 * forward_flops(model, lay.s).total, lay.gb * lay.s
    columns = {
        "gemms": slowest * (work.gemm_f + work.gemm_b) + m * pace.has_output * output,
        "attention": slowest * (work.attention_f + work.attention_b),
        "elementwise": slowest * (work.move_f + work.move_b)
        + m * (pace.has_output * loss + pace.has_embedding * embedding),
        "recomputation": slowest * work.again,
        "tensor": slowest * tensor + ends,
        "context": slowest * sent.context,
        "expert": slowest * sent.open_expert,
        "transfers": transfers,
        "bubble": pace.bubble,
        "data": data,
        # Adam: gradient, weight, moments read, the latter three and a 16-bit weight written, gradients scaled: 38 B.
        "optimizer": 38 * updated / rates.hbm,
        "communication": slowest * sent.all + ends + all_transfers + all_data,
        "tokens": total,
        "gpus": lay.t * lay.p * lay.d * lay.c,
        "model_flops": asked * total,
        "hardware_flops": (asked + work.repeated) * total,
        "peak": rates.peak,
    }
    parts = np.broadcast_arrays(*columns.values())
    return Step(**{name: part[()] for name, part in zip(columns, parts, strict=True)})
