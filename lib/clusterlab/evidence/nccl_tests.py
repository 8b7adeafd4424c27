"""Timed collectives: the published ones, the reader's own CSV, and the output of nccl-tests.

No row is dropped in silence: :func:`read` returns a line for each row that it could not read or use, with the reason.
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import cache, lru_cache
from importlib.resources import files
from itertools import pairwise
from pathlib import Path

import numpy as np

from .. import catalogue
from ..catalogue import NCCL_CONSTANTS, match_fabric
from ..checks import whole
from ..interconnect import bus_factor
from ..units import GB, Gbit, us
from .text import name_of, read_text

# The operation whose law a name of nccl-tests or of our data follows, without case, spaces, dashes and number formats.
# One port bounds what a broadcast sends, as it bounds a single message.
_OPERATIONS = {
    "allreduce": "all-reduce",
    "allgather": "all-gather",
    "reducescatter": "reduce-scatter",
    "alltoall": "all-to-all",
    "alltoallv": "all-to-all",
    "broadcast": "broadcast",
    "reduce": "broadcast",
    "sendrecv": "send-receive",
    "p2pwrite": "send-receive",
}
EXPERTS = "expert all-to-all"  # the kernels that send tokens to their experts, and back
_EXPERT_KERNEL = re.compile(r"(?:moe|expert|ep)(?:dispatch|combine)")
_TESTS = "all_reduce, all_gather, reduce_scatter, alltoall, broadcast, reduce, sendrecv"
_SERVER = 8  # GPUs of a node where a row does not say: those of an HGX or DGX server
_MOST_GPUS = 10_000_000
_MOST_ROWS = 20_000  # of a file, which takes seconds: a sweep has some thirty


@dataclass(frozen=True)
class Timing:
    """One timed collective and the wires that it crossed. Bytes, seconds, bytes/s per direction."""

    source: str
    row: str  # its name in a message
    operation: str
    size: float  # infinite for a plateau: only the bandwidth of a long message is published
    seconds: float  # of a plateau: seconds for each byte
    ranks: int
    nodes: int = 1  # or NVLink domains, where these are wider than a host
    scale_up: float | None = None  # one GPU's NVLink or PCIe
    scale_up_latency: float | None = None
    network: float | None = None  # the ports of one node that its GPUs use, together
    tcp: bool = False
    fabric: str = ""  # of the network: a row of clusterlab.catalogue.FABRICS, if the row says it
    mesh: int = 0  # links of one GPU to as many others, which share the rate ``scale_up``; 0: switches join them all
    logical: bool = False  # whether the bytes counted include those that stay with the rank's own node
    experts: int = 0  # experts that a token is sent to
    host: bool = False  # whether the host launches collectives one by one, and nothing hides that
    in_switch: bool | None = False  # whether NVLink switches reduce (NVLS); None: where that is faster
    switch: float | None = None  # rate of one GPU's link into switches that reduce
    network_adds: bool = False  # whether the switches between nodes reduce, too (SHARP)
    quality: str = "A"  # of the source: C is good for the shape of a curve, not for a rate
    machine: str = ""  # the publication and the GPU; rows of one machine are not independent

    @property
    def payload(self) -> float:
        """Bytes that ``seconds`` are for: the size, or one byte for a plateau."""
        return self.size if np.isfinite(self.size) else 1.0

    @property
    def bus_bandwidth(self) -> float:
        """Bytes/s as nccl-tests prints them under busbw."""
        return _bus_factor(self.operation, self.ranks) * self.payload / self.seconds


@lru_cache(maxsize=1024)
def _bus_factor(operation: str, ranks: int) -> float:
    return 1.0 if operation == EXPERTS else float(bus_factor(operation, ranks))


@cache
def published_timings() -> tuple[Timing, ...]:
    """Published timings of collectives: ``data/collectives.csv``, whose rows carry their sources.

    Examples
    --------
    >>> row = published_timings()[0]
    >>> row.source, row.operation, row.ranks, row.size, row.seconds
    ('a100_8x_nvlink3', 'all-reduce', 8, 32768.0, 4.383e-05)
    """
    return tuple(_read_csv((files("clusterlab.evidence") / "data" / "collectives.csv").read_text(encoding="utf-8"))[0])


def read(
    path, *, ranks=None, nodes=None, scale_up=None, network=None, collective=None
) -> tuple[list[Timing], list[str]]:
    """Read timings from a CSV in the form of ``data/collectives.csv``, or from the text output of nccl-tests.

    Parameters
    ----------
    path : str or path
        The file; ``"-"`` is standard input. It is a log if it holds a heading or a row of nccl-tests, and otherwise a
        CSV if its first line has commas, semicolons or tabs. Of a log the out-of-place columns are read.
    ranks, nodes : int, optional
        Number of GPUs and of hosts, for a log that does not say.
    scale_up, network : str, optional
        Names of the links inside a node and between nodes, for a log. The network has one port for each GPU.
    collective : str, optional
        Its name, for a log that does not say.

    Returns
    -------
    tuple
        The timings, and a line for every row that was not read, was skipped, or has something wrong with it.

    Raises
    ------
    OSError
        The file cannot be read.
    ValueError
        It is not text, is empty, lacks a column, has more than 20,000 rows or no timing that can be used, or an
        argument has no such value. The message names the file.
    """
    text = read_text(path, errors="replace")  # a log may hold a few bytes that are not UTF-8
    stem = "stdin" if str(path) == "-" else Path(path).stem
    given = {"ranks": ranks, "nodes": nodes, "scale_up": scale_up, "network": network, "collective": collective}
    try:
        rows, problems = _read_log(text, stem, _told(**given)) if _is_log(text) else _read_csv(text, **given)
    except (csv.Error, ValueError) as error:
        raise ValueError(f"{name_of(path)}: {error}") from None
    if not rows:
        why = "\n".join(problems) or "there are no rows below the heading"
        raise ValueError(f"{name_of(path)}: no timing that can be used\n{why}")
    return rows, problems


def _is_log(text: str) -> bool:
    """Whether a text is the output of nccl-tests, rather than a CSV."""
    if not text.strip():
        raise ValueError("the file is empty")
    first = next(filter(_is_data, text.splitlines()), "")
    return bool(_COLUMNS.search(text) or _ROW.search(text) or not re.search(r"[,;\t]", first))


def _is_data(line: str) -> bool:
    return bool(line.strip()) and not line.lstrip().startswith("#")


def _operation(name: str) -> str | None:
    """The operation whose law a collective of this name follows."""
    folded = re.sub(r"[^a-z0-9]", "", name.casefold())
    if _EXPERT_KERNEL.match(folded):
        return EXPERTS
    return _OPERATIONS.get(re.sub(r"(fp8|bf16|fp16)?$", "", folded))


# --- Wires: what the names of GPUs, links and networks say -----------------------------------------------------------

# Share of a link's rate that NVLink switches sustain when they reduce, by generation. Earlier ones do not reduce.
_REDUCING = {4: NCCL_CONSTANTS.nvlink_4_reduction, 5: NCCL_CONSTANTS.nvlink_5_reduction}
_TRAY = 4  # GPUs of a host in an NVL72 rack, where a row does not say
_RATE = re.compile(r"(\d+(?:\.\d+)?)\s*([GT])(B(?:/s|ps|\b)|b(?:/s|ps|its?|E|\b)|BE|\b)")
_PORTS = r"(?:ports?|nics?|adapters?|rails?|links?|cards?)\b"
_PORT_NAMES = {"EDR": "RoCE 100 GbE"} | {name: f"InfiniBand {name}" for name in ("HDR", "NDR", "XDR")}  # EDR: 100, too
_ADAPTERS = {"6": "InfiniBand HDR", "7": "InfiniBand NDR", "8": "InfiniBand XDR"}  # ConnectX, by the rate of its port
_BETWEEN_NODES = re.compile("InfiniBand|RoCE|TCP|Cross|DCN")
_ONE_PORT = re.compile(r"(?:per|each|/)\s*(?:node|host|server)|\b(?:one|single|1)\s+" + _PORTS, re.IGNORECASE)
# EFA began with P3dn and P4d; from P5 on its adapters are others.
_OLD_EFA = ("V100", "A100")
_MESHES = {link.name: link.peers for link in catalogue.links() if link.peers}


@dataclass(frozen=True)
class _Wires:
    """The wires of a row, as :class:`Timing` has them."""

    scale_up: float | None = None
    scale_up_latency: float | None = None
    switch: float | None = None
    network: float | None = None
    tcp: bool = False
    fabric: str = ""
    mesh: int = 0

    def across(self, network: float, *, fabric: str) -> _Wires:
        """These, and a network."""
        return replace(self, network=network, tcp=fabric in ("TCP", "TCPX"), fabric=fabric)


@lru_cache(maxsize=1024)
def _fabric(text: str, gpu: str = "") -> str:
    """The fabric that a network's name says, or none."""
    name = match_fabric(text)
    part = catalogue.match_accelerator(gpu)
    if name == "EFA v1" and part and not part.name.startswith(_OLD_EFA):
        return "EFA"
    return name


@lru_cache(maxsize=1024)
def _nvlink_gpu(text: str) -> catalogue.Accelerator | None:
    """The accelerator that a text names, if the name alone says that NVLink switches join it."""
    part = catalogue.match_accelerator(text)
    return part if part and re.fullmatch(r"NVLink \d( \(H800\))?", part.scale_up_link or "") else None


_PARTITION = re.compile(r"NVL(\d+)\b|partitions?\s*(?:of\s*)?(\d+)|(\d+)[\s-]GPU\s+partitions?", re.IGNORECASE)
_NO_RACK = re.compile(r"(?:MNNVL|IMEX)\w*\s*(?:=\s*0|off|disabled)|(?:no|without)\s+(?:MNNVL|IMEX)", re.IGNORECASE)


@lru_cache(maxsize=1024)
def _domains(n: int, gpu: str, partition: int | None = None) -> int | None:
    """Over how many NVLink domains n GPUs spread evenly; None where a domain is one host.

    A rack may be cut into partitions, which the row says, or its driver may leave every host alone.
    """
    if _NO_RACK.search(gpu):
        return None
    named, part = [int(next(filter(None, found))) for found in _PARTITION.findall(gpu)], _nvlink_gpu(gpu)
    size = partition or (min(named) if named else part.scale_up_domain if part else 0)
    if size <= _SERVER and not partition and not named:
        return None
    least = -(-n // size)
    for domains in range(least, 2 * least):  # 128 GPUs are 2 x 64, and 1,024 are 16 x 64
        if n % domains == 0:
            return domains
    raise ValueError(f"{n} GPUs do not spread evenly over NVLink domains of {size}")


def _wires(link: catalogue.Link) -> _Wires:
    """What a link inside a node is to a timing."""
    generation = re.match(r"NVLink (\d)(?! bridge)", link.name)  # a bridge has no switch
    adding = _REDUCING.get(int(generation[1])) if generation else None
    return _Wires(
        mesh=_MESHES.get(link.name, 0),
        scale_up=link.bandwidth,
        scale_up_latency=link.latency or catalogue.link("NVLink 4").latency,  # no source has it: that of the usual link
        switch=adding * link.bandwidth if adding else None,
    )


def system_wires(scale_up: str, network: str, gpus: int) -> dict[str, object]:
    """The wires of a node of so many GPUs, each with a port, by the names of its links: arguments of :class:`Timing`.

    ``switched`` says whether the scale-up switches can reduce.
    """
    wires, port = _wires(catalogue.link(scale_up)), catalogue.link(network)
    fabric = _fabric(port.name)
    return vars(wires.across(gpus * port.bandwidth, fabric=fabric)) | {"switched": bool(wires.switch)}


@lru_cache(maxsize=1024)
def _scale_up(text: str, gpu: str) -> _Wires:
    """The wires that a text names ("NVLink4 450GB/s/dir", "PCIe5"), or that the GPU has. A printed rate goes first.

    Twice the link's rate is its brochure's, both directions added.
    """
    link = _named_link(text, gpu)
    wires = _wires(link) if link else _Wires()
    if wires.mesh:  # "7x64GB/s", "64 GB/s per link" and "448 GB/s" say the same
        return wires
    printed = re.search(r"(?:(\d+)\s*[x\u00d7*]\s*)?(\d+(?:\.\d+)?)\s*([GT])B(?:/s|ps)", text)
    if not printed:
        return wires
    rate = int(printed[1] or 1) * float(printed[2]) * GB * (1000 if printed[3] == "T" else 1)
    rate /= 2 if link and np.isclose(rate, link.bandwidth_both_ways) else 1
    return _Wires(
        scale_up=rate,
        scale_up_latency=wires.scale_up_latency or catalogue.link("NVLink 4").latency,
        switch=wires.switch and wires.switch * rate / link.bandwidth,
    )


def _named_link(text: str, gpu: str) -> catalogue.Link | None:
    """The link of the data that a text names, or that the GPU has where the text says no more than NVLink."""
    links = {link.name: link for link in catalogue.links()}
    if generation := re.match(r"(NVLink|PCIe)\s*(?:Gen\s*)?(\d)", text, re.IGNORECASE):
        nvlink = generation[1].lower() == "nvlink"
        return links.get(f"NVLink {generation[2]}" if nvlink else f"PCIe {generation[2]}.0 x16")
    if (part := _nvlink_gpu(gpu)) and (not text or re.match("NVLink", text, re.IGNORECASE)):
        return links[part.scale_up_link]
    part = catalogue.match_accelerator(gpu)
    if part and part.scale_up_link in _MESHES and re.match(r"$|Infinity|xGMI|IF\b", text, re.IGNORECASE):
        return links[part.scale_up_link]
    if (architecture := re.search(r"\bSM(90|100)\b", gpu)) and re.match(r"$|NVLink", text, re.IGNORECASE):
        return links[{"90": "NVLink 4", "100": "NVLink 5"}[architecture[1]]]
    return None


_LARGEST_PORT = catalogue.link("InfiniBand XDR").bandwidth  # a rate above it is that of all ports of a node


@lru_cache(maxsize=1024)
def _network(text: str, gpus: int, host: int) -> float | None:
    """Bytes/s of the network ports that so many GPUs of a node use, of a node that holds ``host``.

    Every GPU has its port, unless the row counts fewer or says that a rate is the node's. Of more ports than GPUs each
    GPU has its share; of fewer, all are used by as many GPUs. Sockets go through the one adapter of the host.
    """
    if rate := _RATE.search(text):
        bits = not rate[3].startswith("B") or rate[3] == "BE"
        port = float(rate[1]) * (Gbit if bits else GB) * (1000 if rate[2] == "T" else 1)
        before, after = text[: rate.start()], text[rate.end() :]
    elif name := re.search(r"\b(EDR|HDR|NDR|XDR)(\d+)?\b", text):
        port = int(name[2]) * Gbit if name[2] else catalogue.link(_PORT_NAMES[name[1]]).bandwidth
        before, after = text[: name.start()], text[name.end() :]
    elif name := re.search(r"\bC(?:onnect)?X-?([678])\b", text, re.IGNORECASE):
        port = catalogue.link(_ADAPTERS[name[1]]).bandwidth
        before, after = text[: name.start()], text[name.end() :]
    else:
        return None
    count = re.search(rf"(?<![\w.])(\d+)\s*(?:[x\u00d7*]|{_PORTS})", before, re.IGNORECASE)
    count = count or re.search(rf"[x\u00d7*]\s*(\d+)\b|\b(\d+)\s*{_PORTS}", after, re.IGNORECASE)
    if count:
        ports = int(next(filter(None, count.groups())))
    else:
        ports = 1 if port > _LARGEST_PORT or _ONE_PORT.search(text) or _fabric(text) == "TCP" else host
    if re.search(r"(?:per|each|/)\s*GPU", text, re.IGNORECASE) and ports != host:  # "8 x 400, one per GPU" is all
        ports *= host
    if port > _LARGEST_PORT:
        return ports * port * min(gpus / host, 1.0)
    return min(float(ports), gpus * max(ports / host, 1.0)) * port


# --- Our CSV ---------------------------------------------------------------------------------------------------------

_REQUIRED = ("group", "collective", "n_gpus")
_COUNTS = ("n_gpus", "n_nodes", "gpus_per_node", "scale_up_domain")
_MAY_BE_ZERO = ("algbw_gbps", "busbw_gbps", "scale_out_gbps_per_gpu")  # rounded to 0.00, or no network
_AGREE = 0.05  # by how much a printed time and a printed rate may differ, beyond rounding: they are often of two runs


def _read_csv(text: str, **given) -> tuple[list[Timing], list[str]]:
    if told := [name for name, value in given.items() if value is not None]:
        raise ValueError(f"--{told[0].replace('_', '-')} is for logs; a CSV says this in its columns")
    lines = [line if _is_data(line) else "" for line in text.splitlines()]
    first = next(filter(None, lines), "")
    reader = csv.reader(lines, delimiter=max(",;\t", key=first.count), skipinitialspace=True)
    names, rows, problems = None, [], []
    for cells in reader:
        cells = [cell.strip() for cell in cells]
        if not any(cells):
            continue
        if names is None:
            names = [name.casefold() for name in cells]
            if missing := [name for name in _REQUIRED if name not in names]:
                missing, found = ", ".join(missing), ", ".join(cells)
                raise ValueError(f"line {reader.line_num}: columns are missing: {missing}; found: {found}")
            if twice := [name for name, times in Counter(names).items() if name and times > 1]:
                raise ValueError(f"line {reader.line_num}: column {twice[0]} is there twice")
            continue
        if len(rows) + len(problems) >= _MOST_ROWS:
            raise ValueError(f"line {reader.line_num}: more than {_MOST_ROWS:,} rows: split the file")
        row = dict(zip(names, cells, strict=False)) | {"": "".join(cells[len(names) :])}  # too short, or too long
        where = f"line {reader.line_num}"
        name = row.get("row_id") or where
        where += f", row {name}" if row.get("row_id") else ""
        problem = "not read"
        try:
            numbers = _numbers(row)
            problem = "skipped"
            rows.append(_timing(name, row, numbers))
        except ValueError as error:
            problems.append(f"{where}: {problem}, {error}")
    return rows, problems


def _numbers(cells: dict[str, str]) -> dict[str, float]:
    """What a row says in numbers; an empty cell, or one that says so, is left out."""
    if cells[""]:
        raise ValueError("more cells than columns")
    numbers = {}
    for key in ("size_bytes", "time_us", *_COUNTS, *_MAY_BE_ZERO):
        text = cells.get(key, "")
        if text.casefold() in ("", "-", "n/a", "na"):
            continue
        try:
            value = float(text)
        except ValueError:
            raise ValueError(f"{key} must be a number, got {text!r}") from None
        if key in _COUNTS:
            numbers[key] = _count(**{key: value})
        elif value or key not in _MAY_BE_ZERO:
            if not 0 < value < np.inf:
                raise ValueError(f"{key} must be positive and finite, got {text}")
            numbers[key] = value
    if "n_gpus" not in numbers:
        raise ValueError("n_gpus is missing")
    return numbers


def _count(**count: float) -> int:
    """A number of GPUs or of nodes, checked; :func:`clusterlab.checks.whole` is slow for thousands of rows."""
    ((name, value),) = count.items()
    if value > _MOST_GPUS:
        raise ValueError(f"{name} must be at most {_MOST_GPUS:,}, got {value}")
    return int(value) if value >= 1 and value % 1 == 0 else int(whole(**count)[0])


def _timing(name: str, cells: dict[str, str], numbers: dict[str, float]) -> Timing:
    operation, n = _operation(cells.get("collective", "")), numbers["n_gpus"]
    if operation is None:
        raise ValueError(f"no law for {cells.get('collective', '')!r}; there are: {_TESTS}, p2p_write, moe_*")
    if n < 2:
        raise ValueError("one rank alone sends nothing")
    quality = cells.get("quality", "").upper() or "A"
    if quality not in ("A", "B", "C"):
        raise ValueError(f"quality must be A, B or C, got {quality!r}")
    gpu = cells.get("gpu", "")
    nodes, wires = _row_wires(cells, numbers, gpu)
    if operation == "all-to-all" and re.match("PCIe", cells.get("scale_up") or cells.get("scale_out", ""), re.I):
        if nodes == 1:
            raise ValueError("PCIe is a tree of switches, whose shape an all-to-all would need")
        wires = replace(wires, scale_up=None)  # the network is slower than any such tree
    in_switch, network_adds = _reducing(f"{cells.get('algo', '')} {gpu}", switches=bool(wires.switch), nodes=nodes)
    if operation == EXPERTS:
        in_switch, network_adds = False, False
    source, part = cells.get("group", ""), catalogue.match_accelerator(gpu)
    chip = re.sub(r" (SXM\d?|PCIe|\d+GB)$", "", part.name) if part else gpu
    return Timing(
        source=source or "unnamed",
        row=name,
        operation=operation,
        size=numbers.get("size_bytes", np.inf),
        seconds=_seconds(operation, cells, numbers),
        ranks=n,
        nodes=nodes,
        in_switch=in_switch,
        network_adds=network_adds,
        quality=quality,
        machine=f"{cells.get('source') or source}, {chip}",
        host=bool(_ONE_BY_ONE.search(f"{cells.get('lib', '')} {cells.get('note', '')}")),
        **(_expert_fields(cells) if operation == EXPERTS else {}),
        **vars(wires),
    )


# Benchmarks in PyTorch wait for every collective; one process for several GPUs launches on one after the other.
_ONE_BY_ONE = re.compile(r"\btorch\b|one process", re.IGNORECASE)
_TOP = 8  # experts of a token where a row does not say: DeepSeek-V3's


def _expert_fields(cells: dict[str, str]) -> dict:
    """What a row says of an expert kernel: experts of a token, and whether its bytes are those of the whole buffer."""
    note = f"{cells.get('note', '')} {cells.get('algo', '')} {cells.get('lib', '')}"
    top = re.search(
        r"top-?\s*(\d+)(?!\s*groups)(?:\s*experts)?", re.sub(r"top-?\s*\d+\s*groups", "", note), re.IGNORECASE
    )
    logical = bool(re.search("logical|local.rank", note, re.IGNORECASE)) or bool(cells.get("size_bytes"))
    return {"experts": int(top[1]) if top else _TOP, "logical": logical}


def _row_wires(cells: dict[str, str], numbers: dict[str, float], gpu: str) -> tuple[int, _Wires]:
    """Number of nodes of a row, or of NVLink domains, and the wires inside and between them."""
    inside, outside = cells.get("scale_up", ""), cells.get("scale_out", "")
    spans = bool(re.match(r"NVLink|PCIe", outside, re.IGNORECASE))  # a domain larger than a server
    wires = _scale_up(re.sub(r"\s*only$", "", outside) if spans else inside, gpu)
    n, hosts, partition = numbers["n_gpus"], numbers.get("n_nodes"), numbers.get("scale_up_domain")
    if hosts and (n % hosts or n > hosts * numbers.get("gpus_per_node", n)):
        said = f"{hosts} x {numbers.get('gpus_per_node', '?')} and {n}"
        raise ValueError(f"n_nodes x gpus_per_node must be n_gpus, got {said}")
    domains = 1 if spans else _domains(n, f"{gpu} {inside} {cells.get('algo', '')}", partition)
    nodes = domains or hosts or _nodes_unsaid(numbers, outside, linked=wires.scale_up is not None)
    if nodes > 1:
        rate = _row_network(outside, numbers, nodes, domains)
        return nodes, wires.across(rate, fabric=_fabric(outside, gpu))
    if not wires.scale_up:
        raise ValueError(f"no rate for the link {inside or outside!r}")
    return nodes, wires


def _nodes_unsaid(numbers: dict[str, float], outside: str, *, linked: bool) -> int:
    """Number of nodes where a row does not say: it has some if it names a network, or GPUs of a node.

    GPUs that nothing but a network joins, of which the row counts no ports, are one in a node.
    """
    n, host = numbers["n_gpus"], numbers.get("gpus_per_node", _SERVER)
    if not linked and "gpus_per_node" not in numbers and "scale_out_gbps_per_gpu" in numbers:
        return n
    several = n > host and (outside or "scale_out_gbps_per_gpu" in numbers or "gpus_per_node" in numbers)
    nodes = n // host if several else 1
    if (n > host and n % host) or (nodes == 1 and outside and not linked):
        raise ValueError(f"n_nodes is missing, and {host} GPUs a node do not make {n}")
    return nodes


def _row_network(outside: str, numbers: dict[str, float], nodes: int, domains: int | None) -> float:
    """Bytes/s of the ports that the GPUs of a node use, or of an NVLink domain, which has the ports of all its hosts.

    A rate per GPU goes first.
    """
    gpus, hosts, host = numbers["n_gpus"] // nodes, numbers.get("n_nodes"), numbers.get("gpus_per_node")
    if per_gpu := numbers.get("scale_out_gbps_per_gpu", 0.0) * GB:
        return per_gpu * gpus
    if domains:  # of as many hosts as hold the domain's GPUs
        of_host = host or (numbers["n_gpus"] // hosts if hosts else _TRAY)
        printed, gpus_of = _network(outside, of_host, of_host), gpus / of_host
    else:
        printed, gpus_of = _network(outside, gpus, host or max(gpus, _SERVER if gpus != _TRAY else _TRAY)), 1.0
    if not printed:
        raise ValueError(f"no rate for the network {outside!r}")
    return printed * gpus_of


@lru_cache(maxsize=1024)
def _reducing(text: str, *, switches: bool, nodes: int) -> tuple[bool | None, bool]:
    """Whether switches reduce, in nodes (None: where that is faster) and between them, by what a row says."""
    one_name = re.sub(r"NVLS\s*/\s*SHARP|SHARP\s*/\s*NVLS|NVLink SHARP|NVLS[\s_]?Tree", "NVLS", text, flags=re.I)
    off = bool(re.search(r"\b(?:no|off|disabled?|without|w/o)\b|=\s*0\b", one_name, re.IGNORECASE))
    adds = bool(re.search("NVLS|SHARP", one_name, re.IGNORECASE))
    ring = bool(re.search(r"\b(?:Ring|Tree)\b", one_name, re.IGNORECASE))
    in_switch = None
    if not switches or (adds and off) or (ring and not adds):
        in_switch = False
    elif adds and not ring:  # with both named, NCCL chose by size
        in_switch = True
    return in_switch, nodes > 1 and not off and bool(re.search("SHARP|CollNet", one_name, re.IGNORECASE))


def _rounding(text: str) -> float:
    """Half a unit of the last printed digit, relative to the number."""
    number = Decimal(text)
    return float(Decimal(5).scaleb(number.as_tuple().exponent - 1) / number)


def _seconds(operation: str, cells: dict[str, str], numbers: dict[str, float]) -> float:
    """Seconds from whichever column is filled, if all that are agree; for a plateau, seconds for each byte."""
    size = numbers.get("size_bytes")
    moved = {"algbw": size or 1.0, "busbw": _bus_factor(operation, numbers["n_gpus"]) * (size or 1.0)}
    rates = [(_rounding(cells[f"{k}_gbps"]), k) for k in moved if f"{k}_gbps" in numbers]
    if size and "time_us" in numbers:
        rounded, seconds = _rounding(cells["time_us"]), numbers["time_us"] * us
    elif rates:
        rounded, name = min(rates)
        seconds = moved[name] / (numbers[f"{name}_gbps"] * GB)
    else:
        raise ValueError("one of time_us (with size_bytes), algbw_GBps and busbw_GBps must be there")
    for rounding, name in rates:
        rate, says = numbers[f"{name}_gbps"], moved[name] / (seconds * GB)
        if abs(says - rate) > (_AGREE + rounding) * rate + rounded * says:
            raise ValueError(f"{name}: {moved['algbw']:g} B in {seconds / us:g} us are {says:.2f} GB/s, not {rate:g}")
    return seconds


# --- nccl-tests ------------------------------------------------------------------------------------------------------

_TYPES = r"(?:u?int\d+|char|half|float|double|bfloat16|fp?8_?e\dm\d)"
# Rows and headings are found anywhere in a line: srun, mpirun and log collectors put labels of their own before them.
_ROW = re.compile(rf"(?<![\w.])\d+\s+\d+\s+{_TYPES}\s.*")
_LIKE_A_ROW = re.compile(rf"\d\s+{_TYPES}\s|^\s*\d+[\s\d.]*$")
_COLUMNS = re.compile(r"\bsize\s+count\s+type\b.*")
_RANK = re.compile(r"\bRank\s+\d+\s.*\bon\s+(\S+)\s+device\s+\d+\s+\[\S+\]\s+(.+)")
_START = re.compile(r"Collective test starting: (\w+?)_perf|\bnThread \d+ nGpus \d|\bUsing devices\b")
_SEVERAL = re.compile(r"\bnThread (?!1 nGpus 1\b)\d+ nGpus \d+")
_END = re.compile(r"Out of bounds values|Avg bus bandwidth|Collective test concluded")
_USUAL = ("size", "count", "type", "redop", "root", "time", "algbw", "busbw")
_HALF = 0.005 * GB  # bandwidths are printed with two decimals
_LONGEST = 2000  # characters of a line: a row has some 150, and the labels before it


@dataclass
class _Line:
    """A row as nccl-tests printed it, out of place: bytes, seconds, bytes/s."""

    where: str
    size: float
    seconds: float
    algbw: float
    busbw: float
    reduces: bool


@dataclass
class _Block:
    """One table, and what stands before it."""

    collective: str | None = None
    hosts: list[str] = field(default_factory=list)
    gpu: str = ""
    columns: tuple[str, ...] = ()
    rows: list[_Line] = field(default_factory=list)
    ended: bool = False
    host: bool = False  # one process for several GPUs


@dataclass(frozen=True, kw_only=True)
class _Told:
    """What the caller says of a log."""

    ranks: int | None
    nodes: int | None
    scale_up: catalogue.Link | None
    network: catalogue.Link | None
    collective: str | None


def _told(*, ranks, nodes, scale_up, network, collective) -> _Told:
    """What the caller says of a log, checked."""
    ranks, nodes = (None if v is None else _count(**{k: v}) for k, v in (("ranks", ranks), ("nodes", nodes)))
    inside, across = (catalogue.link(name) if name else None for name in (scale_up, network))
    if inside and _BETWEEN_NODES.match(inside.name):
        raise ValueError(f"--scale-up must be a link inside a node, such as 'NVLink 4', got {inside.name!r}")
    if across and not _BETWEEN_NODES.search(across.name):
        raise ValueError(f"--network must be a link between nodes, such as 'InfiniBand NDR', got {across.name!r}")
    if collective and not _operation(collective):
        raise ValueError(f"--collective must be one of {_TESTS}, got {collective!r}; others have no law here")
    return _Told(ranks=ranks, nodes=nodes, scale_up=inside, network=across, collective=collective)


def _read_log(text: str, stem: str, told: _Told) -> tuple[list[Timing], list[str]]:
    """Rows of every table that nccl-tests printed, with what its heading says of ranks, hosts and GPUs."""
    blocks, problems = _blocks(text)
    found = []
    for block in blocks:
        try:
            rows, worse = _block_timings(block, stem, told)
            problems += worse
        except ValueError as error:
            rows = []
            problems.append(f"{block.rows[0].where}: not read, nor the rest of its table: {error}")
        if rows:
            found.append(rows)
    if len(found) > 1:
        found = _named_apart(found, stem)
    problems.sort(key=lambda line: int(re.search(r"\d+", line)[0]))
    return [row for rows in found for row in rows], problems


def _named_apart(tables: list[list[Timing]], stem: str) -> list[list[Timing]]:
    """The tables of one file as sources of their own, named by their operation, and numbered where that is the same."""
    names, apart = Counter(), []
    for rows in tables:
        name = f"{stem} {rows[0].operation}"
        names[name] += 1
        name += f" {names[name]}" if names[name] > 1 else ""
        apart.append([replace(row, source=name) for row in rows])
    return apart


def _blocks(text: str) -> tuple[list[_Block], list[str]]:
    """The tables of a log. Of the lines that are no rows, only those in a table that look like one are named."""
    block, blocks, problems, count = _Block(), [], [], 0
    for number, line in enumerate(text.splitlines(), 1):
        where = f"line {number}"
        if len(line) > _LONGEST:
            if _ROW.search(line):
                problems.append(f"{where}: not read, it has {len(line):,} characters")
            continue
        row, columns, rank, start = (form.search(line) for form in (_ROW, _COLUMNS, _RANK, _START))
        begins = (block.rows or block.columns) if rank or start else block.rows if columns else row and block.ended
        if begins:
            blocks.append(block)
            # What a test says of its hosts holds for the next one, until that says something else.
            block = _Block(columns=block.columns if row else ())
        if rank:
            block.hosts.append(rank[1])
            block.gpu = rank[2].strip()
        elif start:
            block.collective = start[1] or block.collective
            block.host = bool(_SEVERAL.search(line)) or block.host
        elif columns:
            block.columns = tuple(columns[0].split())
            if "cputime" in block.columns:
                problems.append(f"{where}: not read, its table has CPU times (-C), not those of the GPUs")
        elif _END.search(line):
            block.ended = True
        elif "cputime" in block.columns:
            continue
        elif row:
            _add_row(block, row[0].split(), where, problems)
            count += 1
            if count > _MOST_ROWS:
                raise ValueError(f"{where}: more than {_MOST_ROWS:,} rows: split the file")
        elif (block.rows or block.columns) and not block.ended and _LIKE_A_ROW.search(line):
            problems.append(f"{where}: not read, not a row of nccl-tests: {line.strip()!r}")
    blocks.append(block)
    for before, after in pairwise(blocks):
        if not after.hosts:
            after.hosts, after.gpu = before.hosts, before.gpu
    return [block for block in blocks if block.rows], problems


def _add_row(block: _Block, words: list[str], where: str, problems: list[str]) -> None:
    """Add a row to its table, or say what is wrong with it."""
    columns = list(block.columns or _USUAL)
    if "redop" in columns and not "".join(words[columns.index("redop") :][:1]).isalpha():
        columns.remove("redop")  # until 2022 an all-to-all left that cell blank
    try:
        at = columns.index("time")
        size, time, algbw, busbw = (float(words[i]) for i in (0, at, at + 1, at + 2))
    except (ValueError, IndexError):
        problems.append(f"{where}: not read, not a row of nccl-tests: {' '.join(words)!r}")
        return
    if size == 0 or time == 0:
        problems.append(f"{where}: skipped, nothing was sent or timed")
        return
    says = size / (time * 1e3)
    if not (0 < time < np.inf and abs(says - algbw) <= _HALF / GB + 0.001 + _AGREE * algbw):
        problems.append(f"{where}: not read, {size:g} B in {time:g} us are {says:.2f} GB/s, and it says {algbw:g}")
        return
    if columns[at + 3 : at + 4] == ["#wrong"] and re.fullmatch(r"[1-9]\d*", "".join(words[at + 3 : at + 4])):
        problems.append(f"{where}: read, though {words[at + 3]} of its results are wrong (#wrong)")
    reduces = "redop" in columns and words[columns.index("redop")] != "none"
    block.rows.append(
        _Line(where=where, size=size, seconds=time * us, algbw=algbw * GB, busbw=busbw * GB, reduces=reduces)
    )


def _block_timings(block: _Block, stem: str, told: _Told) -> tuple[list[Timing], list[str]]:
    """The timings of one table, and the rows whose two bandwidths do not fit the collective and the ranks."""
    operation, n = _what(block.rows, _block_operation(block, told), told.ranks or len(block.hosts) or None)
    nodes, wires = _block_wires(block, told, n)
    factor, rows, problems = _bus_factor(operation, n), [], []
    for line in block.rows:
        if abs(line.busbw - factor * line.algbw) > 1.01 * _HALF * (1 + factor) + 0.002 * line.busbw:
            is_, be = line.busbw / max(line.algbw, _HALF), f"{factor:.3f} for {operation} on {n} ranks"
            problems.append(f"{line.where}: not read, busbw / algbw is {is_:.3f}, not {be}; say --collective, --ranks")
            continue
        timing = Timing(
            source=stem,
            row=line.where,
            operation=operation,
            size=line.size,
            seconds=line.seconds,
            ranks=n,
            nodes=nodes,
            in_switch=None if wires.switch else False,
            host=block.host,
            machine=stem,
            **vars(wires),
        )
        rows.append(timing)
    return rows, problems


def _block_operation(block: _Block, told: _Told) -> str | None:
    """The operation that the heading of a table or the caller names."""
    if block.collective and told.collective and _operation(told.collective) != _operation(block.collective):
        raise ValueError(f"the heading says {block.collective}, and --collective says {told.collective}")
    name = block.collective or told.collective
    if name and not _operation(name):
        raise ValueError(f"no law for {name!r}; there are: {_TESTS}")
    return _operation(name) if name else None


def _block_wires(block: _Block, told: _Told, n: int) -> tuple[int, _Wires]:
    """Number of nodes of a table, and the wires inside and between them."""
    hosts = len(set(block.hosts))
    nodes = told.nodes or _domains(n, block.gpu) or hosts or 1
    if n % nodes:
        raise ValueError(f"--nodes must divide --ranks, got {nodes} and {n}")
    if told.nodes and hosts and told.nodes > hosts:  # an NVLink domain may be several hosts, a host no several nodes
        raise ValueError(f"the heading names {hosts} host{'s' * (hosts > 1)}, and --nodes says {told.nodes}")
    inside = told.scale_up
    if inside is None and (part := _nvlink_gpu(block.gpu)):
        inside = catalogue.link(part.scale_up_link)
    wires = _wires(inside) if inside else _Wires()
    if nodes == 1:
        return 1, wires
    if told.network is None:  # the busiest wire is not known: a bandwidth can be fitted, a share of it cannot
        return 1, _Wires()
    return nodes, wires.across(told.network.bandwidth * (n // nodes), fabric=_fabric(told.network.name))


def _what(rows: list[_Line], operation: str | None, ranks: int | None) -> tuple[str, int]:
    """Operation and ranks, told from the bus factor of the fastest row where the heading does not say."""
    if ranks == 1:
        raise ValueError("one rank alone sends nothing")
    if operation is None or ranks is None:
        best = max(rows, key=lambda row: row.busbw)
        if not best.algbw:
            raise ValueError("no row is long enough to have a bandwidth: say --collective and --ranks")
        low = (best.busbw - _HALF) / (best.algbw + _HALF)
        high = (best.busbw + _HALF) / (best.algbw - _HALF)
        operation = operation or _operation_between(low, high, ranks, best.reduces)
        ranks = ranks or _ranks_between(operation, low, high)
    return operation, ranks


def _operation_between(low: float, high: float, ranks: int | None, reduces: bool) -> str:
    """The operation whose bus factor lies between the two."""
    if high - low > 0.1 or (ranks is None and low <= 1 <= high):
        raise ValueError("busbw / algbw leaves the collective open: say --collective and --ranks")
    if low > 1 or (ranks == 2 and reduces and high > 1):
        return "all-reduce"
    if high < 1:
        return "reduce-scatter" if reduces else "all-gather"
    return "broadcast"


def _ranks_between(operation: str, low: float, high: float) -> int:
    """The only number of ranks whose bus factor lies between the two."""
    if operation not in ("broadcast", "send-receive"):
        top = 2 if operation == "all-reduce" else 1
        least, most = (1 / (1 - factor / top) if factor < top else np.inf for factor in (low, high))
        if np.floor(most) == np.ceil(least):
            return int(np.ceil(least))
    raise ValueError("the number of ranks cannot be told from the file: say --ranks")
