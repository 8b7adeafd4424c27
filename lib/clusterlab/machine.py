"""Machines: accelerators with the wires between them, what they reach of their datasheets, and the software they run.

A :class:`Machine` is a datasheet (:mod:`clusterlab.hardware`) with two sets of shares: those of a generation of
accelerators (:class:`Efficiency`) and those of links (:class:`LinkEfficiency`). :class:`Software` says what a training
stack does at the same time, and what it keeps in memory, :class:`Spread` and :class:`Scatter` how far predictions are
off. All of it is data with a source or a basis for each value: ``data/efficiencies.toml``, printed by ``clusterlab
audit``. What-ifs are made with ``dataclasses.replace``.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Any

import numpy as np

from . import hardware
from .hardware import Fact, read_records
from .units import Explained, fmt, fraction, nonnegative, parse, positive, whole, words

# --- Constants: what is not on a datasheet ---------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class _Sourced(Explained):
    """Constants by name, each with the :class:`~clusterlab.hardware.Fact` that it rests on."""

    name: str
    facts: Mapping[str, Fact] = field(compare=False)

    def _rows(self):
        rows = [(self.name, "value", "kind", "basis")]
        for key, fact in self.facts.items():
            now = getattr(self, key)
            # A what-if made with dataclasses.replace must not borrow the source of the number that it replaced.
            same = np.ndim(now) == 0 and now == _read(key, fact.printed)
            basis = f"{fact.source.title} ({fact.note})" if fact.note else fact.source.title
            rows.append((words(key), str(now), *((fact.kind, basis) if same else ("changed", ""))))
        return rows


@dataclass(frozen=True, repr=False)
class Efficiency(_Sourced):
    """Shares of its datasheet that a generation of accelerators reaches in a training step.

    They are effective shares: launches, clocks and whatever the model lacks settle in them. Kernels alone reach more.
    ``gemm``, ``gemm_8``, ``gemm_4``: of the dense peak in the large GEMMs of a step, at 16, 8 and 4 bits. ``memory``:
    of the HBM bandwidth. ``overlap_loss``: of a kernel's memory time that its compute does not hide, and the other way
    round. ``attention``: of the 16-bit peak in FlashAttention-2; other kernels are multiples of it (:class:`Software`).

    A fused attention kernel skips the half that the causal mask hides, while published FLOPs count it. A share above
    9/16 could so show more FLOPs than the peak, and is refused.
    """

    gemm: float
    gemm_8: float
    gemm_4: float
    memory: float
    overlap_loss: float
    attention: float

    def __post_init__(self) -> None:
        """Refuse what is no share."""
        fraction(**{name: getattr(self, name) for name in EFFICIENCY_FIELDS})
        if np.any(np.asarray(self.attention) > 9 / 16):
            raise ValueError(f"attention must be at most 0.5625, got {self.attention}")

    @property
    def generation(self) -> str:
        """The generation of accelerators."""
        return self.name


EFFICIENCY_FIELDS = tuple(f.name for f in fields(Efficiency)[2:])


@dataclass(frozen=True, repr=False)
class LinkEfficiency(_Sourced):
    """What collectives reach of the links' datasheets.

    ``scale_up_ring``, ``network_ring``: share of a scale-up link and of a network port that rings reach.
    ``all_to_all``: share of either that an all-to-all reaches.
    """

    scale_up_ring: float
    all_to_all: float
    network_ring: float

    def __post_init__(self) -> None:
        """Refuse what is no share."""
        fraction(scale_up_ring=self.scale_up_ring, all_to_all=self.all_to_all, network_ring=self.network_ring)


@dataclass(frozen=True, repr=False)
class NCCL(_Sourced):
    """Constants that NCCL plans with.

    The share of an NVLink's rate that switches sustain when they reduce (Hopper's NVLink 4, Blackwell's NVLink 5).
    """

    nvlink_4_reduction: float
    nvlink_5_reduction: float


@dataclass(frozen=True, repr=False)
class Protocol(_Sourced):
    """How NCCL runs an algorithm: what it waits for and what is left of a wire's rate.

    Seconds: ``base`` for any collective, ``nvlink``, ``pcie`` and ``network`` for each hop over such a wire. ``share``:
    of the rate that the algorithm's largest messages reach. Low-latency protocols send a flag with the data, so that
    nobody waits for a fence, and lose rate by it.

    Examples
    --------
    A hop of a long message over InfiniBand, and over the first EFA:

    >>> simple = PROTOCOLS["ring, Simple"]
    >>> [fmt(simple.hop(FABRICS[name].latency), "s") for name in ("InfiniBand", "EFA v1")]
    ['15.6 µs', '160 µs']
    """

    base: float
    nvlink: float
    pcie: float
    network: float
    share: float

    def __post_init__(self) -> None:
        """Refuse what is no time and no share."""
        nonnegative(base=self.base, nvlink=self.nvlink, pcie=self.pcie, network=self.network)
        fraction(share=self.share)

    @property
    def crossings(self) -> int:
        """How often a hop across pays for the fabric: with a fence behind the data twice, as NCCL counts it."""
        return 2 if self.name.endswith("Simple") else 1

    def hop(self, fabric: float) -> float:
        """Seconds of a hop across a fabric that adds ``fabric`` seconds to a crossing."""
        return self.network + self.crossings * fabric


@dataclass(frozen=True, repr=False)
class Fabric(_Sourced):
    """What a network adds to NCCL's own latency of a hop: ``latency``, in seconds.

    A message with a fence behind it pays it twice (:meth:`Protocol.hop`).
    """

    latency: float

    def __post_init__(self) -> None:
        """Refuse what is no time."""
        nonnegative(latency=self.latency)


@dataclass(frozen=True, repr=False)
class Spread(_Sourced):
    """How far measured times lie from predicted ones, for one kind of run: an 80 % interval, in multiples of a time.

    Of runs whose source no constant has seen, a tenth are faster than ``low`` times the prediction and a tenth slower
    than ``high`` times it. Every source has a vote with the square root of its rows:
    :func:`clusterlab.evidence.validation.learn_spreads` for steps,
    :func:`clusterlab.evidence.link_fit.learn_spreads` for collectives.
    """

    low: float
    high: float

    def __post_init__(self) -> None:
        """Refuse what is no interval."""
        positive(low=self.low, high=self.high)
        if np.any(np.asarray(self.low) >= self.high):
            raise ValueError(f"low must be below high, got {self.low} and {self.high}")


@dataclass(frozen=True, repr=False)
class Scatter(_Sourced):
    """How the logarithm of measured over predicted time scatters about zero, for runs of one kind.

    Standard deviations of sources that no constant has seen (``between_sources``), of models within a source
    (``between_models``), and of runs of a model (``between_runs``). ``reach``: so many of them on either side of what
    is expected hold four fifths of the runs; 1.28 if they were normal, less where a few are far off. Every source has
    one vote: :func:`clusterlab.evidence.validation.learn_scatters`.
    """

    between_sources: float
    between_models: float
    between_runs: float
    reach: float

    def __post_init__(self) -> None:
        """Refuse what is no standard deviation."""
        nonnegative(between_sources=self.between_sources, between_models=self.between_models)
        positive(between_runs=self.between_runs, reach=self.reach)


@dataclass(frozen=True, repr=False)
class Software(_Sourced):
    """What training software of an era does at once, what one after the other, and what it keeps in memory.

    ``gemm``: rate of its GEMMs, in multiples of Megatron-LM's. ``attention``: rate of the kernel that keeps the scores
    on the chip, both ways together, in multiples of FlashAttention-2's (:class:`Efficiency`); ``None``: they go to
    memory. ``attention_backward``: rate of that kernel backward, in multiples of its rate forward.
    ``row_wise_gemm``: rate of 8-bit GEMMs with a scale for each row, in multiples of those with one for each tensor.
    ``tensor_overlap_forward``, ``tensor_overlap_backward``: whether tensor-parallel collectives hide behind GEMMs.
    ``stage_overlap``: whether transfers between stages hide behind other microbatches where stages are interleaved.
    ``dual_pipe``: whether microbatches go through the pipeline both ways at once, one forward while another goes
    backward (:func:`~clusterlab.pipeline.dualpipe_bubble`).
    ``data_overlap``: whether gradients travel during the last backward pass and weights during the first forward pass.
    ``fused_gradient_accumulation``: whether a GEMM adds its weight gradient to the sum, without a kernel for that
    alone. ``skip_last_gemm_in_recompute``: whether recomputation leaves out a layer's last GEMM, whose output nothing
    needs. ``context_overlap``: whether keys and values travel while attention works (ring attention), or before it.
    ``zero3_gather_rate``: bytes/s at which ZeRO 3 puts parameters together; ``None``: as fast as the wire.
    ``contention_scale_up``, ``contention_network``: seconds by which a hidden second of a collective slows what hides
    it. ``expert_cast_time``: seconds that a cast of one expert's rows costs besides its work, where every expert has
    kernels of its own; ``None``: one kernel multiplies for all experts of a rank, with activation and casts.
    ``expert_overlap``: whether all-to-alls hide behind the work of another microbatch. ``tokens_cross_once``: whether a
    token goes to a node once, or once for each of its experts there. ``fused_expert_bias``: whether the biases of
    experts are added where their products are made, or by kernels of their own. ``lean_activations``: whether GEMMs
    keep their inputs in the precision that they multiply, and routers weigh what goes into an expert's last GEMM, so
    that its output need not be kept; else both are kept as activations. ``gathers_matrices``: whether sharded weights
    of dense layers are put together matrix by matrix, and not layer by layer. The rest are bytes: of a parameter's
    weight, gradient and optimizer state, of an element of an activation, and of a logit.
    """

    gemm: float
    attention: float | None
    attention_backward: float
    row_wise_gemm: float
    dropout: bool
    tensor_overlap_forward: bool
    tensor_overlap_backward: bool
    stage_overlap: bool
    dual_pipe: bool
    data_overlap: bool
    fused_gradient_accumulation: bool
    skip_last_gemm_in_recompute: bool
    context_overlap: bool
    zero3_gather_rate: float | None
    contention_scale_up: float
    contention_network: float
    expert_cast_time: float | None
    expert_overlap: bool
    tokens_cross_once: bool
    fused_expert_bias: bool
    lean_activations: bool
    gathers_matrices: bool
    weight_bytes: float
    gradient_bytes: float
    optimizer_bytes: float
    activation_bytes: float
    logit_bytes: float

    def __post_init__(self) -> None:
        """Refuse switches that are none, and rates and bytes below zero."""
        positive(gemm=self.gemm)
        positive(attention_backward=self.attention_backward)
        fraction(row_wise_gemm=self.row_wise_gemm)
        if self.attention is not None:
            positive(attention=self.attention)
        for name in _SWITCHES:
            if not isinstance(getattr(self, name), bool):
                raise ValueError(f"{name} must be True or False, got {getattr(self, name)!r}")
        if self.zero3_gather_rate is not None:
            positive(zero3_gather_rate=self.zero3_gather_rate)
        if self.expert_cast_time is not None:
            nonnegative(expert_cast_time=self.expert_cast_time)
        for name in ("contention_scale_up", "contention_network"):
            (share,) = nonnegative(**{name: getattr(self, name)})
            if np.any(share > 1):
                raise ValueError(f"{name} must be at most 1, got {np.max(share):g}")
        nonnegative(**{f.name: getattr(self, f.name) for f in fields(self) if f.name.endswith("_bytes")})

    @property
    def fused_attention(self) -> bool:
        """Whether the attention kernel keeps the scores on the chip."""
        return self.attention is not None


@dataclass(frozen=True, repr=False)
class ServingSoftware(_Sourced):
    """What serving software reaches and costs.

    ``gemm``: rate of its GEMMs in multiples of what a training step reaches (:class:`Efficiency`); ``grouped_gemm``:
    rate of the experts' grouped GEMMs, computing and reading, in multiples of the others'. ``memory``: share of
    the HBM bandwidth at which weights and caches are read. ``attention``: share of the 16-bit peak in the products of
    attention. ``overlap_loss``: of a kernel's shorter part (computing or reading), the share that the longer does not
    hide. ``layer_time``: seconds that a layer costs besides (launches, small kernels). ``pass_time`` and
    ``sequence_time``: seconds of the host for a pass and for each sequence in it; ``host_overlap``: whether it prepares
    a pass while the GPU works on the last, where there is one stage. ``expert_skew``: standard deviation of the
    experts' popularity over its mean. ``contention``: seconds by which a hidden second of an exchange slows the work
    that hides it, where prompts are read. ``two_axes``: whether GEMMs are cut along both axes of their weights, the
    stream over all ranks of tp and caches by sequences besides heads (Pope et al. 2022). ``cache_share``: share of the
    memory left by weights and activations that caches get. ``max_sequences`` and ``max_tokens``: most sequences of a
    batch, and most tokens of a pass, on one attention rank.
    """

    gemm: float
    grouped_gemm: float
    memory: float
    attention: float
    overlap_loss: float
    pass_time: float
    layer_time: float
    sequence_time: float
    host_overlap: bool
    expert_skew: float
    contention: float
    two_axes: bool
    cache_share: float
    max_sequences: float
    max_tokens: float

    def __post_init__(self) -> None:
        """Refuse what is no share, no time and no count."""
        positive(gemm=self.gemm, grouped_gemm=self.grouped_gemm)
        for name in ("host_overlap", "two_axes"):
            if not isinstance(getattr(self, name), bool):
                raise ValueError(f"{name} must be True or False, got {getattr(self, name)!r}")
        fraction(memory=self.memory, attention=self.attention, cache_share=self.cache_share)
        times = {name: getattr(self, name) for name in ("pass_time", "layer_time", "sequence_time", "expert_skew")}
        nonnegative(**times)
        for name in ("overlap_loss", "contention"):
            (share,) = nonnegative(**{name: getattr(self, name)})
            if np.any(share > 1):
                raise ValueError(f"{name} must be at most 1, got {np.max(share):g}")
        whole(max_sequences=self.max_sequences, max_tokens=self.max_tokens)


_SWITCHES = tuple(f.name for f in fields(Software) if f.type == "bool")
_RECORDS: dict[str, type] = {
    "efficiency": Efficiency,
    "link_efficiency": LinkEfficiency,
    "nccl": NCCL,
    "protocol": Protocol,
    "fabric": Fabric,
    "software": Software,
}
_RECORDS |= {"spread": Spread, "scatter": Scatter, "serving": ServingSoftware}
_NOTHING = ("unfused", "wire", "fused")  # how the data says None: scores in memory; as fast as the wire; no cast


def _read(key: str, printed):
    """A value of the data as the records hold it: a switch, a share, a name, or a quantity in SI units."""
    if isinstance(printed, list | dict):
        raise ValueError(f"{key} must be one number, name or switch, got {printed!r}")
    if printed in _NOTHING:
        return None
    return parse(printed) if isinstance(printed, str) else printed


def load(document: Mapping) -> dict[str, dict[str, Any]]:
    """Build every record of a parsed ``efficiencies.toml``, refusing whatever rests on nothing.

    Parameters
    ----------
    document : mapping
        Tables ``sources``, ``efficiency``, ``link_efficiency``, ``nccl``, ``protocol``, ``fabric``, ``software``,
        ``spread``, ``scatter`` and ``serving``, in the form of :func:`clusterlab.hardware.load`; rows of ``software``
        and ``serving`` take from their row ``default`` what they do not say.

    Returns
    -------
    dict
        ``{"efficiency": {name: Efficiency}, "software": {name: Software}, ...}``

    Raises
    ------
    ValueError
        With every gap found: a value without a source, an unknown or missing field, a value that cannot be one.
    """

    def built(table, record):
        usual: dict[str, Fact] = {}

        def of(name, facts, _):
            if table in ("software", "serving") and name == "default":
                usual.update(facts)
                return None
            facts = {f.name: (usual | facts)[f.name] for f in fields(record) if f.name in usual | facts} | facts
            values = {key: _read(key, fact.printed) for key, fact in facts.items()}
            return record(name=name, facts=MappingProxyType(facts), **values)

        return of

    return read_records(document, "efficiency", {table: built(table, record) for table, record in _RECORDS.items()})


@cache
def _records() -> dict[str, dict[str, Any]]:
    return load(tomllib.loads((files(__package__) / "data" / "efficiencies.toml").read_text(encoding="utf-8")))


EFFICIENCIES: Mapping[str, Efficiency] = MappingProxyType(_records()["efficiency"])
SOFTWARE: Mapping[str, Software] = MappingProxyType(_records()["software"])
SERVING: Mapping[str, ServingSoftware] = MappingProxyType(_records()["serving"])
SPREADS: Mapping[str, Spread] = MappingProxyType(_records()["spread"])
SCATTERS: Mapping[str, Scatter] = MappingProxyType(_records()["scatter"])
LINK_EFFICIENCY: LinkEfficiency = _records()["link_efficiency"]["default"]
NCCL_CONSTANTS: NCCL = _records()["nccl"]["default"]
PROTOCOLS: Mapping[str, Protocol] = MappingProxyType(_records()["protocol"])
FABRICS: Mapping[str, Fabric] = MappingProxyType(_records()["fabric"])


# --- The machine -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class Machine(Explained):
    """Accelerators and the wires between them: SI units, one direction, for one accelerator.

    ``domain`` accelerators reach one another over the scale-up link; beyond, each has a port of the network. ``peers``:
    to how many the link goes straight, a part of its bandwidth to each (a full mesh); ``None``: to switches.
    Latencies are those of a hop of a long message: the scale-up link's own, and NCCL's with what the fabric adds
    (:meth:`Protocol.hop`). ``dispatch_latency`` is NCCL's base of a collective. Collectives are queued ahead, behind
    work; an exchange of tokens across the network pays it, for only the router says who sends to whom.
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
    dispatch_latency: float
    efficiency: Efficiency
    link_efficiency: LinkEfficiency
    peers: int | None = None

    def __post_init__(self) -> None:
        """Refuse what no machine has."""
        positive(**{f"peak {name}": peak for name, peak in self.peaks.items()})
        names = ("hbm_bandwidth", "hbm_capacity", "scale_up_bandwidth", "network_bandwidth")
        positive(**{name: getattr(self, name) for name in names})
        latencies = ("scale_up_latency", "network_latency", "dispatch_latency")
        nonnegative(**{name: getattr(self, name) for name in latencies})
        whole(domain=self.domain, **({} if self.peers is None else {"peers": self.peers}))

    def _rows(self):
        rows = [(self.name, "value")]
        rows += [(f"peak {name}", fmt(value, "FLOP/s")) for name, value in self.peaks.items()]
        units = {"bandwidth": "B/s", "capacity": "B", "latency": "s"}
        names = [f.name for f in fields(self)][2:-3]
        rows += [(words(n), fmt(getattr(self, n), units.get(n.rpartition("_")[2], ""))) for n in names]
        return [*rows, ("efficiency", self.efficiency.generation)]


_GENERATIONS = {"V100": "Volta", "A100": "Ampere", "H100": "Hopper", "H200": "Hopper", "H800": "Hopper"}
_GENERATIONS |= {"RTX": "Blackwell"}
_GENERATIONS |= {"B200": "Blackwell", "GB200": "Blackwell", "B300": "Blackwell Ultra", "GB300": "Blackwell Ultra"}
# The network of the reference servers and pods of a generation.
_NETWORKS = {"Ampere": "InfiniBand HDR", "Blackwell Ultra": "InfiniBand XDR", "Volta": "RoCE 100 GbE"}
_NETWORKS |= {name: "DCN (TPU v5p)" for name in EFFICIENCIES if name.startswith("TPU")}
_NETWORKS |= {"TPU v5e": "DCN (TPU v5e)", "TPU v6e": "DCN (TPU v6e)"}
# What a network is called, most telling first.
_FABRIC_NAMES = {
    "TCPXO": r"TCPXO|FasTrak",
    "TCPX": "TCPX",
    "TCP": r"\bTCP\b|sockets",
    "EFA": r"EFA\s*v[2-9]",
    "EFA v1": r"EFA",
    "RoCE": "RoCE",
    "InfiniBand": r"\bIB\b|InfiniBand|\b(?:EDR|HDR|NDR|XDR)",
}


def match_fabric(text: str) -> str:
    """Return the key of ``FABRICS`` that the name of a network says, or ``""``.

    Examples
    --------
    >>> match_fabric("InfiniBand NDR"), match_fabric("8 x 400G RoCEv2"), match_fabric("ICI (TPU v4)")
    ('InfiniBand', 'RoCE', '')
    """
    return next((name for name, form in _FABRIC_NAMES.items() if re.search(form, text, re.IGNORECASE)), "")


def machine(accelerator: str, *, network: str | None = None, domain: int | None = None) -> Machine:
    """The machine of an accelerator and a network, from their datasheets.

    Parameters
    ----------
    accelerator, network : str
        As in :mod:`clusterlab.hardware`. The network is a port for each accelerator; by default that of the reference
        servers: HDR InfiniBand for A100, NDR for Hopper and Blackwell, XDR for Blackwell Ultra; for TPUs a chip's share
        of the data centre's network.
    domain : int, optional
        Accelerators that share a scale-up link: less than a rack holds where it is cut into partitions. By default
        those of a reference server or rack.

    Returns
    -------
    Machine

    Raises
    ------
    ValueError
        An unknown accelerator or link, an accelerator without a scale-up link on record, or a domain that is not a
        positive integer.

    Examples
    --------
    >>> fmt(machine("H100 SXM").network_bandwidth, "B/s"), machine("A100 80GB").efficiency.generation
    ('50 GB/s', 'Ampere')
    """
    chip = hardware.accelerator(accelerator)
    generation = chip.name if chip.name in EFFICIENCIES else _GENERATIONS.get(chip.name.split()[0], "other")
    if chip.scale_up_link is None or chip.scale_up_bandwidth is None or chip.scale_up_domain is None:
        raise ValueError(f"accelerator must have a scale-up link on record, got {chip.name}")
    scale_up = hardware.link(chip.scale_up_link)
    port = hardware.link(network or _NETWORKS.get(generation, "InfiniBand NDR"))
    hop = PROTOCOLS["ring, Simple"]
    return Machine(
        name=chip.name,
        peaks=chip.peaks,
        hbm_bandwidth=chip.hbm_bandwidth,
        hbm_capacity=chip.hbm_capacity,
        domain=chip.scale_up_domain if domain is None else domain,
        scale_up_bandwidth=chip.scale_up_bandwidth,
        scale_up_latency=hop.nvlink if scale_up.latency is None else scale_up.latency,
        network_bandwidth=port.bandwidth,
        network_latency=hop.hop(FABRICS[match_fabric(port.name) or "other"].latency),
        dispatch_latency=hop.base,
        efficiency=EFFICIENCIES[generation],
        link_efficiency=LINK_EFFICIENCY,
        peers=scale_up.peers,
    )
