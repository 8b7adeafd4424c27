"""Tables of timed collectives: a CSV in the form of ``data/collectives.csv``, row by row.

No row is dropped in silence: each that is not read or used has a line that says why.
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from dataclasses import replace
from decimal import Decimal
from functools import lru_cache

import numpy as np

from ..own import match_accelerator
from ..units import GB, us
from .timings import AGREE, EXPERTS, MOST_ROWS, TESTS, Timing, bus_factor_of, is_data, operation_of, whole_count
from .wires import SERVER, TRAY, Wires, fabric_of, near_links, network_rate, nvlink_domains, scale_up_wires, usual_port

_REQUIRED = ("group", "collective", "n_gpus")
_COUNTS = ("n_gpus", "n_nodes", "gpus_per_node", "scale_up_domain")
_MAY_BE_ZERO = ("algbw_gbps", "busbw_gbps", "scale_out_gbps_per_gpu")  # rounded to 0.00, or no network


def read_table(text: str, **given: object) -> tuple[list[Timing], list[str]]:
    """Read a table; of what is ``given`` about a log nothing may be there."""
    if told := [name for name, value in given.items() if value is not None]:
        raise ValueError(f"--{told[0].replace('_', '-')} is for logs; a CSV says this in its columns")
    lines = [line if is_data(line) else "" for line in text.splitlines()]
    first = next(filter(None, lines), "")
    reader = csv.reader(lines, delimiter=max(",;\t", key=first.count), skipinitialspace=True)
    names: list[str] = []
    rows: list[Timing] = []
    problems: list[str] = []
    for line in reader:
        cells = [cell.strip() for cell in line]
        if not any(cells):
            continue
        if not names:
            names = _heading(cells, f"line {reader.line_num}")
            continue
        if len(rows) + len(problems) >= MOST_ROWS:
            raise ValueError(f"line {reader.line_num}: more than {MOST_ROWS:,} rows: split the file")
        row = dict(zip(names, cells, strict=False)) | {"": "".join(cells[len(names) :])}  # too short, or too long
        where = f"line {reader.line_num}"
        name = row.get("row_id") or where
        where += f", row {name}" if row.get("row_id") else ""
        problem = "not read"
        try:
            counts, numbers = _numbers(row)
            problem = "skipped"
            rows.append(_timing(name, row, counts, numbers))
            if taken := _taken(row, counts, rows[-1]):
                problems.append(
                    f"{where}: read, with a port of {taken} for each GPU: {row.get('scale_out')!r} has no rate"
                )
        except ValueError as error:
            problems.append(f"{where}: {problem}, {error}")
    return rows, problems


def _heading(cells: list[str], where: str) -> list[str]:
    """The names of the columns, or a ValueError."""
    names = [name.casefold() for name in cells]
    if missing := [name for name in _REQUIRED if name not in names]:
        raise ValueError(f"{where}: columns are missing: {', '.join(missing)}; found: {', '.join(cells)}")
    if twice := [name for name, times in Counter(names).items() if name and times > 1]:
        raise ValueError(f"{where}: column {twice[0]} is there twice")
    return names


def _numbers(cells: dict[str, str]) -> tuple[dict[str, int], dict[str, float]]:
    """What a row counts, and what else it says in numbers; an empty cell, or one that says so, is left out."""
    if cells[""]:
        raise ValueError("more cells than columns")
    counts: dict[str, int] = {}
    numbers: dict[str, float] = {}
    for key in ("size_bytes", "time_us", *_COUNTS, *_MAY_BE_ZERO):
        text = cells.get(key, "")
        if text.casefold() in ("", "-", "n/a", "na"):
            continue
        try:
            value = float(text)
        except ValueError:
            raise ValueError(f"{key} must be a number, got {text!r}") from None
        if key in _COUNTS:
            counts[key] = whole_count(**{key: value})
        elif value or key not in _MAY_BE_ZERO:
            if not 0 < value < np.inf:
                raise ValueError(f"{key} must be positive and finite, got {text}")
            numbers[key] = value
    if "n_gpus" not in counts:
        raise ValueError("n_gpus is missing")
    return counts, numbers


def _timing(name: str, cells: dict[str, str], counts: dict[str, int], numbers: dict[str, float]) -> Timing:
    """A row as a timing, or a ValueError that says why it cannot be one."""
    operation, n = operation_of(cells.get("collective", "")), counts["n_gpus"]
    if operation is None:
        raise ValueError(f"no law for {cells.get('collective', '')!r}; there are: {TESTS}, p2p_write, moe_*")
    if n < 2:
        raise ValueError("one rank alone sends nothing")
    quality = cells.get("quality", "").upper() or "A"
    if quality not in ("A", "B", "C"):
        raise ValueError(f"quality must be A, B or C, got {quality!r}")
    gpu = cells.get("gpu", "")
    nodes, wires = _row_wires(cells, counts, numbers.get("scale_out_gbps_per_gpu"), gpu)
    if operation == "all-to-all" and re.match("PCIe", cells.get("scale_up") or cells.get("scale_out", ""), re.I):
        if nodes == 1:
            raise ValueError("PCIe is a tree of switches, whose shape an all-to-all would need")
        wires = replace(wires, scale_up=None)  # the network is slower than any such tree
    in_switch, network_adds = _reducing(f"{cells.get('algo', '')} {gpu}", switches=bool(wires.switch), nodes=nodes)
    experts, logical = 0, False
    if operation == EXPERTS:
        in_switch, network_adds = False, False
        experts, logical = _expert_fields(cells)
    source, part = cells.get("group", ""), match_accelerator(gpu)
    chip = re.sub(r" (SXM\d?|PCIe|\d+GB)$", "", part.name) if part else gpu
    return Timing(
        source=source or "unnamed",
        row=name,
        operation=operation,
        size=numbers.get("size_bytes", np.inf),
        seconds=_seconds(operation, n, cells, numbers),
        ranks=n,
        nodes=nodes,
        in_switch=in_switch,
        network_adds=network_adds,
        algorithm=forced[1].casefold() if (forced := _FORCED.fullmatch(cells.get("algo", ""))) else "",
        quality=quality,
        machine=f"{cells.get('source') or source}, {chip}",
        generation=next((name for name, form in _GENERATIONS.items() if re.search(form, gpu)), ""),
        host=bool(_ONE_BY_ONE.search(f"{cells.get('lib', '')} {cells.get('note', '')}")),
        experts=experts,
        logical=logical,
        **vars(wires),
    )


_GENERATIONS = {
    "Volta": "V100",
    "Ampere": "A100",
    "Hopper": "H100|H20|H800|SM90",
    "Blackwell": "B[23]00|SM100",
    "CDNA": "MI3",
}
_FORCED = re.compile(r"(Ring|Tree)(?: \(.*\))?", re.IGNORECASE)  # with anything else beside it, NCCL chose
# Benchmarks in PyTorch wait for every collective; one process for several GPUs launches on one after the other.
_ONE_BY_ONE = re.compile(r"\btorch\b|one process", re.IGNORECASE)
_TOP = 8  # experts of a token where a row does not say: DeepSeek-V3's


def _expert_fields(cells: dict[str, str]) -> tuple[int, bool]:
    """What a row says of an expert kernel: experts of a token, and whether its bytes are those of the whole buffer."""
    note = f"{cells.get('note', '')} {cells.get('algo', '')} {cells.get('lib', '')}"
    top = re.search(
        r"top-?\s*(\d+)(?!\s*groups)(?:\s*experts)?", re.sub(r"top-?\s*\d+\s*groups", "", note), re.IGNORECASE
    )
    logical = bool(re.search("logical|local.rank", note, re.IGNORECASE)) or bool(cells.get("size_bytes"))
    return int(top[1]) if top else _TOP, logical


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


def _seconds(operation: str, ranks: int, cells: dict[str, str], numbers: dict[str, float]) -> float:
    """Seconds from whichever column is filled, if all that are agree; for a plateau, seconds for each byte."""
    size = numbers.get("size_bytes")
    moved = {"algbw": size or 1.0, "busbw": bus_factor_of(operation, ranks) * (size or 1.0)}
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
        if abs(says - rate) > (AGREE + rounding) * rate + rounded * says:
            raise ValueError(f"{name}: {moved['algbw']:g} B in {seconds / us:g} us are {says:.2f} GB/s, not {rate:g}")
    return seconds


def _rounding(text: str) -> float:
    """Half a unit of the last printed digit, relative to the number."""
    number = Decimal(text)
    exponent = number.as_tuple().exponent
    if not isinstance(exponent, int):
        raise ValueError(f"a number must be finite, got {text!r}")
    return float(Decimal(5).scaleb(exponent - 1) / number)


# --- The wires of a row ----------------------------------------------------------------------------------------------


def _row_wires(cells: dict[str, str], counts: dict[str, int], port: float | None, gpu: str) -> tuple[int, Wires]:
    """Number of nodes, or of NVLink domains, and the wires inside and between them; ``port``: GB/s of a GPU."""
    inside, outside = cells.get("scale_up", ""), cells.get("scale_out", "")
    spans = bool(re.match(r"NVLink|PCIe", outside, re.IGNORECASE))  # a domain larger than a server
    wires = scale_up_wires(re.sub(r"\s*only$", "", outside) if spans else inside, gpu)
    n, hosts, partition = counts["n_gpus"], counts.get("n_nodes"), counts.get("scale_up_domain")
    if hosts and (n % hosts or n > hosts * counts.get("gpus_per_node", n)):
        said = f"{hosts} x {counts.get('gpus_per_node', '?')} and {n}"
        raise ValueError(f"n_nodes x gpus_per_node must be n_gpus, got {said}")
    domains = 1 if spans else nvlink_domains(n, f"{gpu} {inside} {cells.get('algo', '')}", partition)
    linked = wires.scale_up is not None
    nodes = domains or hosts or _nodes_unsaid(counts, outside, linked=linked, ported=port is not None)
    if nodes > 1:
        rate = port * GB * (n // nodes) if port else _row_network(outside, gpu, counts, nodes, domains)
        return nodes, wires.across(rate, fabric=fabric_of(outside, gpu))
    if not wires.scale_up:
        raise ValueError(f"no rate for the link {inside or outside!r}: {near_links(inside or outside, between=False)}")
    return nodes, wires


def _nodes_unsaid(counts: dict[str, int], outside: str, *, linked: bool, ported: bool) -> int:
    """Number of nodes where a row does not say: it has some if it names a network, or GPUs of a node.

    GPUs that nothing but a network joins, of which the row counts no ports, are one in a node.
    """
    n, host = counts["n_gpus"], counts.get("gpus_per_node", SERVER)
    if not linked and "gpus_per_node" not in counts and ported:
        return n
    several = n > host and (outside or ported or "gpus_per_node" in counts)
    nodes = n // host if several else 1
    if (n > host and n % host) or (nodes == 1 and outside and not linked):
        raise ValueError(f"n_nodes is missing, and {host} GPUs a node do not make {n}")
    return nodes


def _row_network(outside: str, gpu: str, counts: dict[str, int], nodes: int, domains: int | None) -> float:
    """Bytes/s of the ports that the GPUs of a node use, or of a domain, which has the ports of all its hosts."""
    gpus, hosts, host = counts["n_gpus"] // nodes, counts.get("n_nodes"), counts.get("gpus_per_node")
    if domains:  # of as many hosts as hold the domain's GPUs
        of_host = host or (counts["n_gpus"] // hosts if hosts else TRAY)
        printed, gpus_of = network_rate(outside, of_host, of_host), gpus / of_host
    else:
        printed, gpus_of = network_rate(outside, gpus, host or max(gpus, SERVER if gpus != TRAY else TRAY)), 1.0
    if printed:
        return printed * gpus_of
    if usual := usual_port(outside, gpu):
        return usual.bandwidth * gpus
    raise ValueError(f"no rate for the network {outside!r}: {near_links(outside, between=True)}")


def _taken(cells: dict[str, str], counts: dict[str, int], timing: Timing) -> str:
    """The port that was taken for the network of a row that names none."""
    outside, gpu = cells.get("scale_out", ""), cells.get("gpu", "")
    said = cells.get("scale_out_gbps_per_gpu") or network_rate(outside, 1, counts.get("gpus_per_node", SERVER))
    usual = None if said or timing.nodes == 1 else usual_port(outside, gpu)
    return usual.name if usual else ""
