"""Timings: collectives that somebody timed. Published ones, the reader's own CSV, and the output of nccl-tests.

A row that cannot be used is never dropped in silence: :func:`read` returns what it skipped and why, and it refuses a
row that looks like data and does not add up, with its line.
"""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path

import numpy as np

from . import hardware
from .collectives import bus_factor
from .units import GB, Gbit, us, whole

# Names of nccl-tests and of our data: the operation whose law they follow. One port bounds what a broadcast or a
# mixture of experts' dispatch sends, as it bounds a single message.
_OPERATIONS = {
    "all_reduce": "all-reduce",
    "all_gather": "all-gather",
    "reduce_scatter": "reduce-scatter",
    "all_to_all": "all-to-all",
    "alltoall": "all-to-all",
    "broadcast": "broadcast",
    "reduce": "broadcast",
    "sendrecv": "send-receive",
    "p2p_write": "send-receive",
    "moe_dispatch_fp8": "send-receive",
    "moe_combine_bf16": "send-receive",
}
_SERVER = 8  # GPUs of a node, where a row of several nodes does not say


@dataclass(frozen=True)
class Timing:
    """One timed collective and the wires that it crossed. Bytes, seconds, bytes/s per direction."""

    source: str
    row: str  # what to call it in a message
    operation: str
    size: float  # infinite for a plateau: only the bandwidth of a long message is published
    seconds: float  # of a plateau: seconds for each byte
    ranks: int
    nodes: int = 1
    scale_up: float | None = None  # one GPU's NVLink or PCIe
    scale_up_latency: float | None = None
    network: float | None = None  # all ports of one node
    network_latency: float | None = None
    tcp: bool = False
    in_switch: bool | None = False  # whether NVLink switches add; None: where that is faster
    switch: float | None = None  # rate of one GPU's link into switches that add
    network_adds: bool = False  # whether the switches between nodes add, too
    quality: str = "A"  # of the source: C is good for a shape, not for a rate

    @property
    def bus_bandwidth(self) -> float:
        """Bytes/s as nccl-tests prints them under busbw."""
        return float(bus_factor(self.operation, self.ranks)) * self._bytes / self.seconds

    @property
    def _bytes(self) -> float:
        return self.size if np.isfinite(self.size) else 1.0


# --- Our CSV ---------------------------------------------------------------------------------------------------------

_ROUNDED = ("algbw_GBps", "busbw_GBps")
_REQUIRED = ("group", "collective", "n_gpus")
# Share of a link's rate that NVLink switches sustain when they add, by generation: the nvlsEfficiency of Hopper and of
# Blackwell in NCCL 2.30.7, src/graph/tuning.cc. Earlier switches do not add.
_ADDING = {4: 0.85, 5: 0.74}
_NETWORKS = {"TCP": "TCP 100 GbE", "RoCE": "RoCE 400 GbE", "EFA": "RoCE 400 GbE", "GbE": "RoCE 400 GbE"}


@cache
def published() -> tuple[Timing, ...]:
    """Published timings of collectives: ``data/collectives.csv``, whose rows carry their sources.

    Examples
    --------
    >>> row = published()[0]
    >>> row.source, row.operation, row.ranks, row.size, row.seconds
    ('a100_8x_nvlink3', 'all-reduce', 8, 32768.0, 4.383e-05)
    """
    return tuple(_read_csv((files(__package__) / "data" / "collectives.csv").read_text(encoding="utf-8"))[0])


def read(path, **known) -> tuple[list[Timing], list[str]]:
    """Read timings from a CSV in the form of ``data/collectives.csv``, or from the text output of nccl-tests.

    Parameters
    ----------
    path : str or path
        The file. Text without a heading of nccl-tests whose first line has commas is a CSV.
    **known
        For the output of nccl-tests, what it does not print: ``ranks`` and ``nodes`` (counts), ``scale_up`` and
        ``network`` (names of links; the network's ports are one for each GPU), ``collective`` (its name).

    Returns
    -------
    tuple
        The timings, and a line for every row that was skipped, with the reason.

    Raises
    ------
    ValueError
        The file is empty or holds no timing; a column is missing; a line of data cannot be read. The message names the
        file and the line.
    """
    text = Path(path).read_text(encoding="utf-8", errors="replace").removeprefix("\ufeff")
    name = Path(path).stem
    if not text.strip():
        raise ValueError(f"{path}: the file is empty")
    first = next(line for line in text.splitlines() if line.strip())
    try:
        if "," in first and not _HEADING.search(text):
            rows, skipped = _read_csv(text, **known)
        else:
            rows, skipped = _read_nccl_tests(text, name, **known)
    except ValueError as error:
        raise ValueError(f"{path}, {error}") from None
    if not rows:
        why = "\n".join(skipped) or "there are no rows below the heading"
        raise ValueError(f"{path}: no timing that can be used\n{why}")
    return rows, skipped


def _read_csv(text: str, **known) -> tuple[list[Timing], list[str]]:
    if told := [name for name, value in known.items() if value is not None]:
        raise ValueError(f"{', '.join(told)}: a CSV says this in its columns")
    table = csv.DictReader(text.splitlines(), restkey="beyond the last column", restval="")
    if missing := [name for name in _REQUIRED if name not in (table.fieldnames or ())]:
        raise ValueError(f"line 1: columns are missing: {', '.join(missing)}")
    rows, skipped = [], []
    for cells in table:
        where = f"line {table.line_num}"
        where += f", row {cells['row_id']}" if cells.get("row_id") else ""
        if "beyond the last column" in cells:
            raise ValueError(f"{where}: more cells than columns")
        try:
            rows.append(_row({key: (cell or "").strip() for key, cell in cells.items()}, where))
        except _Skip as reason:
            skipped.append(f"{where}: skipped, {reason}")
        except ValueError as error:
            raise ValueError(f"{where}: {error}") from None
    return rows, skipped


class _Skip(Exception):  # noqa: N818, it is no error
    """A row that is sound and that no law here describes."""


def _row(cells: dict[str, str], where: str) -> Timing:
    def number(key: str) -> float | None:
        text = cells.get(key, "")
        try:
            value = float(text) if text else None
        except ValueError:
            raise ValueError(f"{key} must be a number, got {text!r}") from None
        if value == 0 and key in _ROUNDED:
            return None  # 0.00 GB/s: the time is there
        if value is not None and not (np.isfinite(value) and value > 0):
            raise ValueError(f"{key} must be positive and finite, got {text}")
        return value

    def count(key: str) -> int | None:
        value = number(key)
        return None if value is None else int(whole(**{key: value})[0])

    operation = _OPERATIONS.get(cells["collective"])
    if operation is None:
        raise _Skip(f"no law for {cells['collective']!r}; there are: {', '.join(_OPERATIONS)}")
    n = count("n_gpus")
    if n is None:
        raise ValueError("n_gpus is missing")
    if n < 2:
        raise _Skip("one rank alone sends nothing")
    inside, outside = cells.get("scale_up", ""), cells.get("scale_out", "")
    if re.match(r"NVLink|PCIe", outside):  # a domain larger than a server
        inside, outside = outside, ""
    per_node = count("gpus_per_node")
    nodes = count("n_nodes") or (max(1, n // (per_node or _SERVER)) if outside else 1)
    if n % nodes:
        raise _Skip(f"n_nodes must divide n_gpus, got {nodes} and {n}")
    wires = _scale_up(inside) if inside else {}
    if nodes > 1:
        near = next((link for key, link in _NETWORKS.items() if key in outside), "InfiniBand NDR")
        network = _network(outside, number("scale_out_GBps_per_gpu"), n // nodes if per_node else None)
        wires |= {"network": network, "network_latency": hardware.link(near).latency, "tcp": "TCP" in outside}
    elif not wires.get("scale_up"):
        raise _Skip(f"no rate for the link {inside or outside!r}")
    if operation == "all-to-all" and inside.startswith("PCIe"):
        raise _Skip("PCIe is a tree of switches, whose shape an all-to-all would need")
    size = number("size_bytes")
    seconds = _seconds(
        operation, size, n, number("time_us"), number("algbw_GBps") if size else None, number("busbw_GBps")
    )
    algorithm = cells.get("algo", "") + " " + cells.get("gpu", "")
    in_switch: bool | None = None if wires.get("switch") else False
    if re.search(r"NVLS|SHARP", algorithm):
        in_switch = "off" not in algorithm
    elif re.match(r"Ring|Tree", algorithm):
        in_switch = False
    wires["network_adds"] = nodes > 1 and "SHARP" in algorithm
    source, row = cells["group"] or "unnamed", cells.get("row_id") or where
    return Timing(
        source,
        row,
        operation,
        size or np.inf,
        seconds,
        n,
        nodes,
        in_switch=in_switch,
        quality=cells.get("quality") or "A",
        **wires,
    )


def _seconds(operation, size, n, time, algbw, busbw) -> float:
    """Seconds from whichever column is filled, if all that are agree; for a plateau, seconds for each byte."""
    moved = float(bus_factor(operation, n)) * (size or 1.0)
    rates = [(name, of, rate) for name, of, rate in (("algbw", size, algbw), ("busbw", moved, busbw)) if of and rate]
    found = [time * us] if time and size else [of / (rate * GB) for _, of, rate in rates]
    for name, of, rate in rates:
        if abs(of / (found[0] * GB) - rate) > 0.012 + 0.01 * rate:
            says = of / (found[0] * GB)
            raise _Skip(f"{name}: {size:g} B in {found[0] / us:g} us are {says:.2f} GB/s, and it says {rate:g}")
    if found:
        return found[0]
    raise ValueError("one of time_us (with size_bytes), algbw_GBps and busbw_GBps must be there")


def _scale_up(text: str) -> dict[str, float | None]:
    """Rate and latency of the link that a text names ("NVLink4 450GB/s/dir", "PCIe5"); a printed rate goes first.

    Twice the link's rate is its brochure's, both directions added.
    """
    generation = re.match(r"(NVLink|PCIe)\s*(?:Gen)?(\d)", text)
    printed = re.search(r"([\d.]+)\s*GB/s", text)
    links = {link.name: link for link in hardware.links()}
    link = None
    if generation:
        kind, digit = generation.groups()
        link = links.get(f"NVLink {digit}" if kind == "NVLink" else f"PCIe {digit}.0 x16")
    wires = _wires(link) if link else {}
    if printed:
        rate = float(printed[1]) * GB
        rate /= 2 if link and np.isclose(rate, link.bandwidth_both_ways) else 1
        adding = {"switch": wires["switch"] * rate / link.bandwidth} if "switch" in wires else {}
        wires = {"scale_up_latency": links["NVLink 4"].latency} | wires | adding | {"scale_up": rate}
    return wires


def _wires(link: hardware.Link) -> dict[str, float | None]:
    """What a link inside a node is to a timing."""
    generation = re.match(r"NVLink (\d)(?! bridge)", link.name)  # a bridge has no switch
    adding = _ADDING.get(int(generation[1])) if generation else None
    wires = {"scale_up": link.bandwidth, "scale_up_latency": link.latency}
    return wires | ({"switch": adding * link.bandwidth} if adding else {})


def _network(text: str, per_gpu: float | None, gpus: int | None) -> float:
    """Bytes/s of all network ports of a node together."""
    if per_gpu and gpus:
        return per_gpu * GB * gpus
    if ports := re.search(r"(?:(\d+)\s*x\s*)?(\d+(?:\.\d+)?)\s*Gb", text):
        return int(ports[1] or 1) * float(ports[2]) * Gbit
    raise _Skip(f"no rate for the network {text!r}")


# --- nccl-tests ------------------------------------------------------------------------------------------------------

_RANK = re.compile(r"#?\s*Rank\s+\d+\s.*\bon\s+(\S+)\s+device\s+\d+\s+\[\S+\]\s+(.+)")
_HEADING = re.compile(r"^.*\bsize\s+count\s.*\btime\s+algbw\b", re.MULTILINE)
_LABEL = re.compile(r"^\s*(\d+:|\[\d+,\d+\]<std\w+>:)")  # of srun --label and mpirun --tag-output
_HALF = 0.005 * GB  # bandwidths are printed with two decimals
_TYPE = re.compile(r"\s(u?int\d+|char|half|float|double|bfloat16|fp?8_?e\dm\d)\s")
_BOARD = re.compile(r"PCIe|NVL\b", re.IGNORECASE)  # cards whose NVLink, if any, is a bridge
_GPU = re.compile(r"\b(GB300|GB200|B300|B200|H200|H800|H100|A100|V100)\b")


def _read_nccl_tests(text, name, *, ranks=None, nodes=None, scale_up=None, network=None, collective=None):
    """Rows of the table that nccl-tests prints (out of place), with what its heading says of ranks, hosts and GPUs."""
    hosts, gpu, columns, table, skipped = [], "", None, [], []
    for number, labelled in enumerate(text.splitlines(), 1):
        line = _LABEL.sub("", labelled)
        words = line.lstrip("# ").split()
        if rank := _RANK.search(line):
            hosts.append(rank[1])
            gpu = rank[2].strip()
        elif found := re.search(r"Collective test starting: (\w+?)_perf", line):
            collective = collective or found[1]
        elif words[:2] == ["size", "count"] and "time" in words:
            columns = words
        elif re.match(r"\s*\d+\s+\d+\s", line):
            if row := _nccl_row(line.split(), columns, f"line {number}"):
                table.append((number, *row))
            else:
                skipped.append(f"line {number}: skipped, nothing was sent or timed")
        elif re.match(r"\s*\d", line) and (_TYPE.search(line) or re.fullmatch(r"[\s\d.]+", line)):
            raise ValueError(f"line {number}: not a row of nccl-tests: {line.strip()!r}")
        elif line.strip() and not line.lstrip().startswith("#"):
            skipped.append(f"line {number}: skipped, not a row of nccl-tests: {line.strip()[:60]!r}")
    if not table:
        return [], skipped
    ranks = (len(hosts) or None) if ranks is None else int(whole(ranks=ranks)[0])
    operation, n = _what(table, collective, ranks)
    nodes = int(whole(nodes=len(set(hosts)) or 1 if nodes is None else nodes)[0])
    if n % nodes:
        raise ValueError(f"nodes must divide ranks, got {nodes} and {n}")
    if scale_up is None and (model := _GPU.search(gpu)) and not _BOARD.search(gpu):
        scale_up = next(a.scale_up_link for a in hardware.accelerators() if a.name.split()[0] == model[1])
    wires = _wires(hardware.link(scale_up)) if scale_up else {}
    if nodes > 1 and network:
        across = hardware.link(network)
        wires |= {"network": across.bandwidth * n // nodes, "network_latency": across.latency}
        wires["tcp"] = across.name.startswith("TCP")
    elif nodes > 1:  # the busiest wire is not known: a bandwidth can be fitted, a share of it cannot
        wires, nodes = {}, 1
    wires["in_switch"] = None if wires.get("switch") else False
    rows = [
        Timing(name, f"line {number}", operation, size, seconds, n, nodes, **wires)
        for number, size, seconds, *_ in table
    ]
    return rows, skipped


def _nccl_row(words: list[str], columns: list[str] | None, where: str):
    """Size, seconds, algorithm and bus bandwidth (bytes/s) and the reduction of a row; None where nothing was sent."""
    columns = columns or ["size", "count", "type", "redop", "root", "time", "algbw", "busbw"]
    if "redop" in columns and not "".join(words[columns.index("redop") :][:1]).isalpha():
        columns = [name for name in columns if name != "redop"]  # until 2022 an all-to-all left that cell blank
    at = columns.index("time")
    try:
        size, time, algbw, busbw = (float(words[i]) for i in (0, at, at + 1, at + 2))
    except (ValueError, IndexError):
        raise ValueError(f"{where}: not a row of nccl-tests: {' '.join(words)!r}") from None
    if size == 0 or time == 0:
        return None
    if not (0 < time < np.inf and abs(size / (time * 1e3) - algbw) <= 0.006 + 0.01 * algbw):
        raise ValueError(
            f"{where}: {size:g} B in {time:g} us are {size / (time * 1e3):.2f} GB/s, and it says {algbw:g}"
        )
    return size, time * us, algbw * GB, busbw * GB, words[columns.index("redop")] if "redop" in columns else ""


def _what(table, collective: str | None, ranks: int | None) -> tuple[str, int]:
    """Operation and ranks, told from the bus factor of the fastest row where the heading does not say."""
    operation = _OPERATIONS.get(collective) if collective else None
    if collective and operation is None:
        raise ValueError(f"collective must be one of {', '.join(_OPERATIONS)}, got {collective!r}")
    if ranks == 1:
        raise ValueError("one rank alone sends nothing")
    if operation is None or ranks is None:
        *_, algbw, busbw, reduction = max(table, key=lambda row: row[3])
        if not algbw:
            raise ValueError("no row is long enough to have a bandwidth: say the collective and the ranks")
        low, high = (busbw - _HALF) / (algbw + _HALF), (busbw + _HALF) / (algbw - _HALF)
        operation = operation or _operation(low, high, ranks, reduction not in ("", "none"))
        ranks = ranks or _ranks(operation, low, high)
    factor = float(bus_factor(operation, ranks))
    for number, _, _, algbw, busbw, _ in table:
        if abs(busbw - factor * algbw) > 1.01 * _HALF * (1 + factor) + 0.002 * busbw:
            raise ValueError(
                f"line {number}: busbw / algbw is {busbw / max(algbw, _HALF):.3f}, "
                f"and {factor:.3f} for {operation} on {ranks} ranks"
            )
    return operation, ranks


def _operation(low: float, high: float, ranks: int | None, reduces: bool) -> str:
    if high - low > 0.1 or (ranks is None and low <= 1 <= high):
        raise ValueError("busbw / algbw leaves the collective open: say which, and the ranks")
    if low > 1 or (ranks == 2 and reduces and high > 1):
        return "all-reduce"
    if high < 1:
        return "reduce-scatter" if reduces else "all-gather"
    return "broadcast"


def _ranks(operation: str, low: float, high: float) -> int:
    """The only number of ranks whose bus factor lies between the two."""
    if operation not in ("broadcast", "send-receive"):
        top = 2 if operation == "all-reduce" else 1
        least, most = (1 / (1 - factor / top) if factor < top else np.inf for factor in (low, high))
        if np.floor(most) == np.ceil(least):
            return int(np.ceil(least))
    raise ValueError("the number of ranks cannot be told from the file: say it")
