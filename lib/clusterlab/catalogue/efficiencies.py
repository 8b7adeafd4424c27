"""Efficiencies: what machines reach of their datasheets, what software does, and how far predictions are off.

Shares of a generation of accelerators (:class:`Efficiency`) and of links (:class:`LinkEfficiency`), NCCL's constants,
:class:`~clusterlab.catalogue.Software` by era, and how measured times scatter about predicted ones
(:class:`PredictionInterval`, :class:`VarianceComponents`). All of it is data with a source or a basis for each value:
``data/efficiencies.toml``, printed by ``clusterlab audit``. What-ifs are made with ``dataclasses.replace``.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import cache
from types import MappingProxyType

import numpy as np

from ..quantities import Amount, Number, PositiveShare, Seconds
from .software import ServingSoftware, Software
from .sources import Fact, Sourced, Tables, read_records, stored

# --- Constants: what is not on a datasheet ---------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class Efficiency(Sourced):
    """Shares of its datasheet that a generation of accelerators reaches in a training step.

    They are effective shares: launches, clocks and whatever the model lacks settle in them. Kernels alone reach more.

    A fused attention kernel skips the half that the causal mask hides, while published FLOPs count it. A share above
    9/16 could so show more FLOPs than the peak, and is refused.
    """

    #: Of the dense peak at 16 bits, in the large GEMMs of a step.
    gemm: PositiveShare
    #: The same at 8 bits.
    gemm_8: PositiveShare
    #: The same at 4 bits.
    gemm_4: PositiveShare
    #: Of the HBM bandwidth.
    memory: PositiveShare
    #: Of a kernel's memory time that its compute does not hide, and the other way round.
    overlap_loss: PositiveShare
    #: Of the 16-bit peak in FlashAttention-2; other kernels are multiples of it (:class:`Software`).
    attention: PositiveShare
    #: The most accelerators of a published run that is dense, at 16 bits; 0 where there is none, as below. Beyond what
    #: was timed, intervals are wider (the spreads ``untimed: ...``).
    timed_dense: Amount
    #: The same of dense runs at 8 or 4 bits.
    timed_dense_8: Amount
    #: The same of mixtures of experts.
    timed_experts: Amount

    def __post_init__(self) -> None:
        """Refuse what is no share, and more than the mask allows."""
        super().__post_init__()
        if np.any(np.asarray(self.attention) > 9 / 16):
            raise ValueError(f"attention must be at most 0.5625, got {self.attention}")

    @property
    def generation(self) -> str:
        """The generation of accelerators."""
        return self.name


@dataclass(frozen=True, repr=False)
class LinkEfficiency(Sourced):
    """Shares that collectives reach of the links' datasheets."""

    #: Of a scale-up link, in rings.
    scale_up_ring: PositiveShare
    #: Of a scale-up link or a network port, in an all-to-all.
    all_to_all: PositiveShare
    #: Of a network port, in rings.
    network_ring: PositiveShare


@dataclass(frozen=True, repr=False)
class NCCL(Sourced):
    """Constants that NCCL plans with.

    The share of an NVLink's rate that switches sustain when they reduce (Hopper's NVLink 4, Blackwell's NVLink 5).
    """

    nvlink_4_reduction: PositiveShare
    nvlink_5_reduction: PositiveShare


@dataclass(frozen=True, repr=False)
class Protocol(Sourced):
    """How NCCL runs an algorithm: what it waits for and what is left of a wire's rate.

    Low-latency protocols send a flag with the data, so that nobody waits for a fence, and lose rate by it.

    Examples
    --------
    A hop of a long message over InfiniBand, and over the first EFA:

    >>> from clusterlab.units import fmt
    >>> simple = PROTOCOLS["ring, Simple"]
    >>> [fmt(simple.hop(FABRICS[name].latency), "s") for name in ("InfiniBand", "EFA v1")]
    ['15.6 µs', '153 µs']
    """

    #: For any collective.
    base: Seconds
    #: For each hop over NVLink.
    nvlink: Seconds
    #: For each hop over PCIe.
    pcie: Seconds
    #: For each hop across, without what the fabric adds (:class:`FabricLatency`).
    network: Seconds
    #: Of the rate that the algorithm's largest messages reach.
    share: PositiveShare

    @property
    def crossings(self) -> int:
        """How often a hop across pays for the fabric: with a fence behind the data twice, as NCCL counts it."""
        return 2 if self.name.endswith("Simple") else 1

    def hop(self, fabric: Seconds) -> Seconds:
        """Seconds of a hop across a fabric that adds ``fabric`` seconds to a crossing."""
        return self.network + self.crossings * fabric


@dataclass(frozen=True, repr=False)
class FabricLatency(Sourced):
    """What a network adds to NCCL's own latency of a hop.

    A message with a fence behind it pays it twice (:meth:`Protocol.hop`).
    """

    latency: Seconds


@dataclass(frozen=True, repr=False)
class PredictionInterval(Sourced):
    """How far measured times lie from predicted ones, for one kind of run: an 80 % interval, in multiples of a time.

    Of runs whose source no constant has seen, a tenth are faster than ``low`` times the prediction and a tenth slower
    than ``high`` times it. Every source has a vote with the square root of its rows:
    :func:`clusterlab.evidence.learn_training_spreads` for steps,
    :func:`clusterlab.evidence.learn_collective_spreads` for collectives.
    """

    low: Number
    high: Number

    def __post_init__(self) -> None:
        """Refuse what is no interval."""
        super().__post_init__()
        if np.any(np.asarray(self.low) >= self.high):
            raise ValueError(f"low must be below high, got {self.low} and {self.high}")


@dataclass(frozen=True, repr=False)
class VarianceComponents(Sourced):
    """How the logarithm of measured over predicted time scatters about zero, for runs of one kind.

    Every source has one vote: :func:`clusterlab.evidence.learn_scatters`.
    """

    #: Standard deviation of sources that no constant has seen.
    between_sources: Amount
    #: Standard deviation of models within a source.
    between_models: Amount
    #: Standard deviation of runs of a model.
    between_runs: Number
    #: So many standard deviations on either side of what is expected hold four fifths of the runs: 1.28 if they were
    #: normal, less where a few are far off.
    reach: Number


_RECORDS: dict[str, type[Sourced]] = {
    "efficiency": Efficiency,
    "link_efficiency": LinkEfficiency,
    "nccl": NCCL,
    "protocol": Protocol,
    "fabric": FabricLatency,
    "software": Software,
}
_RECORDS |= {"spread": PredictionInterval, "scatter": VarianceComponents, "serving": ServingSoftware}


def read_efficiencies(document: Mapping) -> Tables:
    """Build every record of a parsed ``efficiencies.toml``, refusing whatever rests on nothing.

    Parameters
    ----------
    document
        Tables ``sources``, ``efficiency``, ``link_efficiency``, ``nccl``, ``protocol``, ``fabric``, ``software``,
        ``spread``, ``scatter`` and ``serving``, in the form of
        :func:`~clusterlab.catalogue.read_records`; rows of ``software`` and ``serving`` take from their row ``default``
        what they do not say.

    Returns
    -------
    dict
        ``{"efficiency": {name: Efficiency}, "software": {name: Software}, ...}``
    """

    def built(table: str, record: type[Sourced]) -> Callable[..., Sourced | None]:
        usual: dict[str, Fact] = {}

        def of(name: str, facts: dict[str, Fact], _: Mapping) -> Sourced | None:
            if table in ("software", "serving") and name == "default":
                usual.update(facts)
                return None
            known = usual | facts
            return record.of(name, {f.name: known[f.name] for f in fields(record) if f.name in known} | facts)

        return of

    return read_records(document, "efficiency", {table: built(table, record) for table, record in _RECORDS.items()})


@cache
def _records() -> Tables:
    return read_efficiencies(tomllib.loads(stored("efficiencies.toml")))


EFFICIENCIES: Mapping[str, Efficiency] = MappingProxyType(_records()["efficiency"])
SOFTWARE: Mapping[str, Software] = MappingProxyType(_records()["software"])
SERVING: Mapping[str, ServingSoftware] = MappingProxyType(_records()["serving"])
PREDICTION_INTERVALS: Mapping[str, PredictionInterval] = MappingProxyType(_records()["spread"])
VARIANCE_COMPONENTS: Mapping[str, VarianceComponents] = MappingProxyType(_records()["scatter"])
LINK_EFFICIENCY: LinkEfficiency = _records()["link_efficiency"]["default"]
NCCL_CONSTANTS: NCCL = _records()["nccl"]["default"]
PROTOCOLS: Mapping[str, Protocol] = MappingProxyType(_records()["protocol"])
FABRICS: Mapping[str, FabricLatency] = MappingProxyType(_records()["fabric"])
