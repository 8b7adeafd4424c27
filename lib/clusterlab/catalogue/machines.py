"""Machines: accelerators with the wires between them, and the shares of their datasheets that they reach."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields

from ..checks import nonnegative, positive, whole
from ..quantities import BytesPerSecond, Count, FlopsPerSecond, Number, PositiveBytes, Seconds
from ..records import Explained, Rows, words
from ..units import fmt
from . import hardware
from .efficiencies import EFFICIENCIES, FABRICS, LINK_EFFICIENCY, PROTOCOLS, Efficiency, LinkEfficiency

# --- The machine -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class Machine(Explained):
    """Accelerators and the wires between them: one direction, for one accelerator.

    Latencies are those of a hop of a long message: the scale-up link's own, and NCCL's with what the fabric adds
    (:meth:`Protocol.hop`).
    """

    name: str
    #: Dense, by precision.
    peaks: Mapping[str, FlopsPerSecond]
    hbm_bandwidth: BytesPerSecond
    hbm_capacity: PositiveBytes
    #: Accelerators that reach one another over the scale-up link; beyond, each has a port of the network.
    domain: Count
    scale_up_bandwidth: BytesPerSecond
    scale_up_latency: Seconds
    network_bandwidth: BytesPerSecond
    network_latency: Seconds
    #: NCCL's base of a collective. Collectives are queued ahead, behind work; an exchange of tokens across the network
    #: pays it, for only the router says who sends to whom.
    dispatch_latency: Seconds
    efficiency: Efficiency
    link_efficiency: LinkEfficiency
    #: To how many the scale-up link goes straight, a part of its bandwidth to each (a full mesh); ``None``: to
    #: switches.
    peers: Count | None = None
    #: Downlink over uplink bandwidth of the leaves, and accelerators below one, or below one set of rails.
    oversubscription: Number = 1
    leaf: Count = 1

    def __post_init__(self) -> None:
        """Refuse what no machine has."""
        positive(**{f"peak {name}": peak for name, peak in self.peaks.items()})
        names = ("hbm_bandwidth", "hbm_capacity", "scale_up_bandwidth", "network_bandwidth", "oversubscription")
        positive(**{name: getattr(self, name) for name in names})
        latencies = ("scale_up_latency", "network_latency", "dispatch_latency")
        nonnegative(**{name: getattr(self, name) for name in latencies})
        whole(domain=self.domain, leaf=self.leaf, **({} if self.peers is None else {"peers": self.peers}))

    def _rows(self) -> Rows:
        rows = [(self.name, "value")]
        rows += [(f"peak {name}", fmt(value, "FLOP/s")) for name, value in self.peaks.items()]
        units = {"bandwidth": "B/s", "capacity": "B", "latency": "s"}
        names = [f.name for f in fields(self)][2:-5]
        rows += [(words(n), fmt(getattr(self, n), units.get(n.rpartition("_")[2], ""))) for n in names]
        return [*rows, ("efficiency", self.efficiency.generation)]


_GENERATIONS = {"V100": "Volta", "A100": "Ampere", "H100": "Hopper", "H200": "Hopper", "H800": "Hopper"}
_GENERATIONS |= {"GH200": "Hopper", "H20": "Hopper", "RTX": "Blackwell"}
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
    "Slingshot": "Slingshot",
    "RoCE": "RoCE|Spectrum-?X",
    "InfiniBand": r"\bIB\b|InfiniBand|Quantum|\b(?:EDR|HDR|NDR|XDR)",
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
    accelerator, network
        As in :mod:`clusterlab.catalogue`. The network is a port for each accelerator; by default that of the reference
        servers: HDR InfiniBand for A100, NDR for Hopper and Blackwell, XDR for Blackwell Ultra; for TPUs a chip's share
        of the data centre's network.
    domain : optional
        Accelerators that share a scale-up link: less than a rack holds where it is cut into partitions. By default
        those of a reference server or rack.

    Returns
    -------
    Machine

    Raises
    ------
    ValueError
        The accelerator has no scale-up link on record.

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
