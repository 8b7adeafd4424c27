"""Wires: what the names of GPUs, links and networks in a row say of its rates and domains."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import lru_cache

import numpy as np

from .. import catalogue
from ..catalogue import NCCL_CONSTANTS, match_fabric
from ..own import match_accelerator
from ..units import GB, Gbit


@dataclass(frozen=True)
class Wires:
    """The wires of a row, as :class:`Timing` has them."""

    scale_up: float | None = None
    scale_up_latency: float | None = None
    nvlink: str = ""
    switch: float | None = None
    network: float | None = None
    tcp: bool = False
    fabric: str = ""
    mesh: int = 0

    def across(self, network: float, *, fabric: str) -> Wires:
        """These, and a network."""
        return replace(self, network=network, tcp=fabric in ("TCP", "TCPX"), fabric=fabric)


# --- Inside a node ---------------------------------------------------------------------------------------------------

# Share of a link's rate that NVLink switches sustain when they reduce, by generation. Earlier ones do not reduce.
_REDUCING = {4: NCCL_CONSTANTS.nvlink_4_reduction, 5: NCCL_CONSTANTS.nvlink_5_reduction}
_MESHES = {link.name: link.peers for link in catalogue.links() if link.peers}


def link_wires(link: catalogue.Link) -> Wires:
    """What a link inside a node is to a timing."""
    generation = re.match(r"NVLink (\d)(?! bridge)", link.name)  # a bridge has no switch
    adding = _REDUCING.get(int(generation[1])) if generation else None
    return Wires(
        mesh=_MESHES.get(link.name, 0),
        scale_up=link.bandwidth,
        scale_up_latency=link.latency or catalogue.link("NVLink 4").latency,  # no source has it: that of the usual link
        nvlink=generation[0] if generation else "",
        switch=adding * link.bandwidth if adding else None,
    )


@lru_cache(maxsize=1024)
def scale_up_wires(text: str, gpu: str) -> Wires:
    """The wires that a text names ("NVLink4 450GB/s/dir", "PCIe5"), or that the GPU has. A printed rate goes first.

    Twice the link's rate is its brochure's, both directions added.
    """
    link = _named_link(text, gpu)
    wires = link_wires(link) if link else Wires()
    if wires.mesh:  # "7x64GB/s", "64 GB/s per link" and "448 GB/s" say the same
        return wires
    printed = re.search(r"(?:(\d+)\s*[x\u00d7*]\s*)?(\d+(?:\.\d+)?)\s*([GT])B(?:/s|ps)", text)
    if not printed:
        return wires
    rate = int(printed[1] or 1) * float(printed[2]) * GB * (1000 if printed[3] == "T" else 1)
    rate /= 2 if link and np.isclose(rate, link.bandwidth_both_ways) else 1
    return Wires(
        scale_up=rate,
        scale_up_latency=wires.scale_up_latency or catalogue.link("NVLink 4").latency,
        nvlink=wires.nvlink,
        switch=wires.switch * rate / link.bandwidth if link and wires.switch else None,
    )


def _named_link(text: str, gpu: str) -> catalogue.Link | None:
    """The link of the data that a text names, or that the GPU has where the text says no more than NVLink."""
    links = {link.name: link for link in catalogue.links()}
    if generation := re.match(r"(NVLink|PCIe)\s*(?:Gen\s*)?(\d)", text, re.IGNORECASE):
        nvlink = generation[1].lower() == "nvlink"
        return links.get(f"NVLink {generation[2]}" if nvlink else f"PCIe {generation[2]}.0 x16")
    if (part := nvlink_gpu(gpu)) and (not text or re.match("NVLink", text, re.IGNORECASE)):
        return links.get(part.scale_up_link or "")
    part = match_accelerator(gpu)
    if part and part.scale_up_link in _MESHES and re.match(r"$|Infinity|xGMI|IF\b", text, re.IGNORECASE):
        return links[part.scale_up_link]
    if (architecture := re.search(r"\bSM(90|100)\b", gpu)) and re.match(r"$|NVLink", text, re.IGNORECASE):
        return links[{"90": "NVLink 4", "100": "NVLink 5"}[architecture[1]]]
    return None


@lru_cache(maxsize=1024)
def nvlink_gpu(text: str) -> catalogue.Accelerator | None:
    """The accelerator that a text names, if the name alone says that NVLink switches join it."""
    part = match_accelerator(text)
    if part is None or part.name == "GH200":  # alone on its board, or one of four that join without switches
        return None
    return part if re.fullmatch(r"NVLink \d( \(H800\))?", part.scale_up_link or "") else None


SERVER = 8  # GPUs of a node where a row does not say: those of an HGX or DGX server
_PARTITION = re.compile(r"NVL(\d+)\b|partitions?\s*(?:of\s*)?(\d+)|(\d+)[\s-]GPU\s+partitions?", re.IGNORECASE)
_NO_RACK = re.compile(r"(?:MNNVL|IMEX)\w*\s*(?:=\s*0|off|disabled)|(?:no|without)\s+(?:MNNVL|IMEX)", re.IGNORECASE)


@lru_cache(maxsize=1024)
def nvlink_domains(n: int, gpu: str, partition: int | None = None) -> int | None:
    """Over how many NVLink domains n GPUs spread evenly; None where a domain is one host.

    A rack may be cut into partitions, which the row says, or its driver may leave every host alone.
    """
    if _NO_RACK.search(gpu):
        return None
    named, part = [int(next(filter(None, found))) for found in _PARTITION.findall(gpu)], nvlink_gpu(gpu)
    size = partition or (min(named) if named else (part and part.scale_up_domain) or 0)
    if size <= SERVER and not partition and not named:
        return None
    least = -(-n // size)
    for domains in range(least, 2 * least):  # 128 GPUs are 2 x 64, and 1,024 are 16 x 64
        if n % domains == 0:
            return domains
    raise ValueError(f"{n} GPUs do not spread evenly over NVLink domains of {size}")


# --- Between nodes ---------------------------------------------------------------------------------------------------

# EFA began with P3dn and P4d; from P5 on its adapters are others.
_OLD_EFA = ("V100", "A100")


@lru_cache(maxsize=1024)
def fabric_of(text: str, gpu: str = "") -> str:
    """The fabric that a network's name says, or none."""
    name = match_fabric(text)
    part = match_accelerator(gpu)
    if name == "EFA v1" and part and not part.name.startswith(_OLD_EFA):
        return "EFA"
    return name


TRAY = 4  # GPUs of a host in an NVL72 rack, where a row does not say
_RATE = re.compile(r"(\d+(?:\.\d+)?)\s*([GT])(B(?:/s|ps|\b)|b(?:/s|ps|its?|E|\b)|BE|\b)")
_PORTS = r"(?:ports?|nics?|adapters?|rails?|links?|cards?)\b"
_PORT_NAMES = {"EDR": "RoCE 100 GbE"} | {name: f"InfiniBand {name}" for name in ("HDR", "NDR", "XDR")}  # EDR: 100, too
_ADAPTERS = {"6": "InfiniBand HDR", "7": "InfiniBand NDR", "8": "InfiniBand XDR"}  # ConnectX, by the rate of its port
# Gbit/s of a port, by the names of switches and adapters; Ethernet is sold under several rates.
_PRODUCTS = {r"Quantum[- ]X800": 800, r"Quantum[- ]?2": 400, r"Blue ?Field[- ]?3": 400}
_PRODUCTS |= {r"Slingshot[- ]?10": 100, r"Slingshot(?:[- ]?11)?": 200}
BETWEEN_NODES = re.compile("InfiniBand|RoCE|TCP|Cross|DCN")


@lru_cache(maxsize=64)
def reference_network(chip: catalogue.Accelerator) -> catalogue.Link | None:
    """The network of reference servers of an accelerator, a port for each; None where no such server is on record."""
    try:
        rate = catalogue.machine(chip.name).network_bandwidth
    except ValueError:
        return None
    return next((one for one in catalogue.links() if BETWEEN_NODES.match(one.name) and one.bandwidth == rate), None)


_ONE_PORT = re.compile(r"(?:per|each|/)\s*(?:node|host|server)|\b(?:one|single|1)\s+" + _PORTS, re.IGNORECASE)
_LARGEST_PORT = catalogue.link("InfiniBand XDR").bandwidth  # a rate above it is that of all ports of a node


@lru_cache(maxsize=1024)
def network_rate(text: str, gpus: int, host: int) -> float | None:
    """Bytes/s of the network ports that so many GPUs of a node use, of a node that holds ``host``.

    Every GPU has its port, unless the row counts fewer or says that a rate is the node's. Of more ports than GPUs each
    GPU has its share; of fewer, all are used by as many GPUs. Sockets go through the one adapter of the host.
    """
    if rate := _RATE.search(text):
        bits = not rate[3].startswith("B") or rate[3] == "BE"
        port = float(rate[1]) * (Gbit if bits else GB) * (1000 if rate[2] == "T" else 1)
        before, after = text[: rate.start()], text[rate.end() :]
    elif name := re.search(r"\b(EDR|HDR|NDR|XDR)(\d+)?\b", text, re.IGNORECASE):
        port = int(name[2]) * Gbit if name[2] else catalogue.link(_PORT_NAMES[name[1].upper()]).bandwidth
        before, after = text[: name.start()], text[name.end() :]
    elif name := re.search(r"\bC(?:onnect)?X-?([678])\b", text, re.IGNORECASE):
        port = catalogue.link(_ADAPTERS[name[1]]).bandwidth
        before, after = text[: name.start()], text[name.end() :]
    elif name := re.search("|".join(_PRODUCTS), text, re.IGNORECASE):
        port = next(rate for form, rate in _PRODUCTS.items() if re.fullmatch(form, name[0], re.IGNORECASE)) * Gbit
        before, after = text[: name.start()], text[name.end() :]
    else:
        return None
    count = re.search(rf"(?<![\w.])(\d+)\s*(?:[x\u00d7*]|{_PORTS})", before, re.IGNORECASE)
    count = count or re.search(rf"[x\u00d7*]\s*(\d+)\b|\b(\d+)\s*{_PORTS}", after, re.IGNORECASE)
    if count:
        ports = int(next(filter(None, count.groups())))
    else:
        ports = 1 if port > _LARGEST_PORT or _ONE_PORT.search(text) or fabric_of(text) == "TCP" else host
    if re.search(r"(?:per|each|/)\s*GPU", text, re.IGNORECASE) and ports != host:  # "8 x 400, one per GPU" is all
        ports *= host
    if port > _LARGEST_PORT:
        return ports * port * min(gpus / host, 1.0)
    return min(float(ports), gpus * max(ports / host, 1.0)) * port


def usual_port(text: str, gpu: str) -> catalogue.Link | None:
    """The port that a GPU of the reference servers has, where a text names InfiniBand or RoCE and no rate."""
    part, fabric = match_accelerator(gpu), fabric_of(text, gpu)
    if part is None or fabric not in ("InfiniBand", "RoCE"):
        return None
    rate = catalogue.machine(part.name).network_bandwidth if part.scale_up_link else 0.0
    ports = [link for link in catalogue.links() if BETWEEN_NODES.match(link.name) and link.bandwidth == rate]
    return next((link for link in ports if fabric_of(link.name) == fabric), None)


def near_links(text: str, *, between: bool) -> str:
    """What a message says of a link that is not known: links between nodes, or inside them, of nearly that name."""
    names = [link.name for link in catalogue.links() if bool(BETWEEN_NODES.search(link.name)) == between]
    folded = {name.casefold(): name for name in names}
    near = [folded[name] for name in get_close_matches(text.casefold(), folded, n=2, cutoff=0.5)]
    example = "8x400Gb/s" if between else "450GB/s"
    return (
        f"did you mean {' or '.join(map(repr, near))}?"
        if near
        else f"say a rate ({example}), or one of {', '.join(names)}"
    )


def system_wires(scale_up: str, network: str, gpus: int) -> Wires:
    """The wires of a node of so many GPUs, each with a port, by the names of its links."""
    port = catalogue.link(network)
    return link_wires(catalogue.link(scale_up)).across(gpus * port.bandwidth, fabric=fabric_of(port.name))
