"""Hardware: accelerators, links, nodes and racks, with a source behind every number.

The conventions are pinned. Peaks are **dense** matrix rates. Link bandwidths are **per direction**: the figure of the
brochure, both directions added, is the property ``bandwidth_both_ways``. Units are SI base units.

The numbers live in ``data/hardware.toml``, written as their source prints them. Each carries a kind (specified,
measured, derived or assumed) and a source; ``python -m clusterlab audit`` prints them all and fails on a gap.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from types import MappingProxyType

from ..checks import Numeric, positive
from ..quantities import BytesPerSecond, Count, FlopsPerSecond, PositiveBytes, PositiveSeconds, PositiveWatts
from ..records import Explained, Rows, words
from ..units import parse
from .sources import Fact, Tables, find, read_records, stored


@dataclass(frozen=True, repr=False)
class Component(Explained):
    """What every hardware record has: a name, and a :class:`Fact` behind each of its fields."""

    name: str
    facts: Mapping[str, Fact] = field(compare=False)

    def _rows(self) -> Rows:
        rows = [(self.name, "value", "kind", "source")]
        for key, fact in self.facts.items():
            now = self._value(key)
            same = now == _value(key, fact.printed)
            # A what-if made with dataclasses.replace must not borrow the source of the number that it replaced.
            row = (str(fact.printed), fact.kind, fact.source.title) if same else (f"{now:g}", "changed", "")
            rows.append((words(key), *row))
        return rows

    def _value(self, key: str) -> Numeric | str | None:
        return getattr(self, key)


@dataclass(frozen=True, repr=False)
class Accelerator(Component):
    """One accelerator. A field that no source gives is ``None``, and a law refuses it by name."""

    vendor: str
    year: Count
    #: Dense, by precision.
    peaks: Mapping[str, FlopsPerSecond] = field(hash=False)
    hbm_capacity: PositiveBytes
    hbm_bandwidth: BytesPerSecond
    #: What a program may allocate, where a tool shows it.
    usable_capacity: PositiveBytes | None = None
    hbm_latency: PositiveSeconds | None = None
    scale_up_link: str | None = None
    #: Per direction, all links of one accelerator together.
    scale_up_bandwidth: BytesPerSecond | None = None
    #: Accelerators that reach one another at that bandwidth.
    scale_up_domain: Count | None = None
    tdp: PositiveWatts | None = None
    #: What is commonly misquoted.
    trap: str = ""

    def peak(self, precision: str) -> FlopsPerSecond:
        """Dense matrix peak in FLOP/s at a ``precision``: ``"tf32"``, ``"fp16"``, ``"bf16"``, ``"fp8"`` and so on.

        Examples
        --------
        >>> from clusterlab.units import fmt
        >>> fmt(accelerator("H100 SXM").peak("bf16"), "FLOP/s")
        '989 TFLOP/s'
        """
        if str(precision) not in self.peaks:
            raise ValueError(f"{self.name} has no {precision!r} peak; it has: {', '.join(self.peaks)}")
        return self.peaks[precision]

    def _value(self, key: str) -> Numeric | str | None:
        return self.peaks.get(key.removeprefix("peak_")) if key.startswith("peak_") else getattr(self, key)


@dataclass(frozen=True, repr=False)
class Memory(Component):
    """One level of memory on an accelerator's die: what the whole chip has, and the time from load to use."""

    accelerator: str
    capacity: PositiveBytes
    bandwidth: BytesPerSecond
    latency: PositiveSeconds | None = None


@dataclass(frozen=True, repr=False)
class Link(Component):
    """One link: its bandwidth per direction, and its one-way latency where a source gives it."""

    bandwidth: BytesPerSecond
    latency: PositiveSeconds | None = None
    #: Accelerators that it goes straight to, a part of the bandwidth to each (a full mesh); none: to switches.
    peers: Count | None = None

    @property
    def bandwidth_both_ways(self) -> BytesPerSecond:
        """Both directions added: the figure that brochures print."""
        return 2 * self.bandwidth


@dataclass(frozen=True, repr=False)
class Node(Component):
    """One server: its accelerators, its network ports and its rated power."""

    vendor: str
    year: Count
    accelerator: str
    accelerators: Count
    network_link: str | None = None
    network_ports: Count | None = None
    power: PositiveWatts | None = None


@dataclass(frozen=True, repr=False)
class Rack(Node):
    """One rack sold as a unit: like a server, and the compute nodes in it."""

    nodes: Count | None = None


_RECORDS = {"accelerator": Accelerator, "memory": Memory, "link": Link, "node": Node, "rack": Rack}
# What a field's value looks like: text, a count, or a number with a unit of its quantity.
_COUNTS = ("year", "scale_up_domain", "accelerators", "nodes", "network_ports", "peers")
_UNITS = {"peak": "FLOP/s", "bandwidth": "(?:B|bit)/s", "capacity": "B", "latency": "s", "tdp": "W", "power": "W"}
_EXAMPLES = {
    "peak": "989 TFLOP/s",
    "bandwidth": "3.35 TB/s",
    "capacity": "80 GB",
    "latency": "5 us",
    "tdp": "700 W",
    "power": "10.2 kW",
}
_TEXT = ("vendor", "accelerator", "scale_up_link", "network_link")


def read_hardware(document: Mapping) -> dict[str, dict[str, Component]]:
    """Build every record of a parsed ``hardware.toml``, refusing whatever has no source.

    Parameters
    ----------
    document
        Tables ``sources`` and one for each of ``accelerator``, ``memory``, ``link``, ``node``, ``rack``, in the form of
        :func:`~clusterlab.catalogue.read_records`.

    Returns
    -------
    dict
        ``{"accelerator": {name: Accelerator}, "link": {name: Link}, ...}``

    Raises
    ------
    ValueError
        As :func:`~clusterlab.catalogue.read_records`, and for a reference to a part that is not there.
    """
    build = {
        table: lambda name, facts, row, record=record: _build(record, name, facts, row.get("trap", ""))
        for table, record in _RECORDS.items()
    }
    return read_records(document, "hardware", build, _dangling)


def _value(key: str, printed: object) -> str | int | float:
    """A field as the records hold it: text, a count, or a number in SI units, refusing what cannot be one."""
    if key in _TEXT:
        if not (isinstance(printed, str) and printed):
            raise ValueError(f"{key} must be text, got {printed!r}")
        return printed
    if key in _COUNTS:
        if type(printed) is not int or printed < 1:
            raise ValueError(f"{key} must be a whole number above zero, got {printed!r}")
        return printed
    quantity = "peak" if key.startswith("peak_") else key.rpartition("_")[2]
    if quantity not in _UNITS:
        raise ValueError(f"unknown field {key!r}")
    # The unit must belong to the quantity: a bandwidth in GB is refused.
    if not re.search(rf"\d\s*[a-zµ]?i?{_UNITS[quantity]}$", str(printed), re.IGNORECASE):
        raise ValueError(f"{key} must be a number and its unit, such as {_EXAMPLES[quantity]!r}, got {printed!r}")
    try:
        value = parse(str(printed))
    except ValueError as error:
        raise ValueError(f"{key}: {error}") from None
    return positive(**{key: value})[0]


def _build(record: type, name: str, facts: Mapping[str, Fact], trap: str) -> Component:
    values: dict = {key: _value(key, fact.printed) for key, fact in facts.items()}
    if record is Accelerator:
        peaks = {key.removeprefix("peak_"): values.pop(key) for key in list(values) if key.startswith("peak_")}
        values |= {"peaks": MappingProxyType(peaks), "trap": trap}
    return record(name=name, facts=MappingProxyType(dict(facts)), **values)


def _dangling(records: Mapping[str, Mapping[str, Component]]) -> list[str]:
    """References to a link or an accelerator that is not in the data."""
    gaps = []
    for table, rows in records.items():
        for name, part in rows.items():
            for key in ("accelerator", "scale_up_link", "network_link"):
                target = getattr(part, key, None)
                if target is not None and target not in records["accelerator" if key == "accelerator" else "link"]:
                    gaps.append(f"{table} {name}: {key} {target!r} is not in the data")
    return gaps


@cache
def _document() -> dict[str, dict[str, Mapping]]:
    return tomllib.loads(stored("hardware.toml"))


@cache
def _records() -> Tables:
    return read_hardware(_document())


def add_hardware(document: Mapping) -> None:
    """Add tables in the form of ``hardware.toml`` to the catalogue, or refuse them as ``read_hardware`` does."""
    merged = {table: {**_document().get(table, {}), **document.get(table, {})} for table in ("sources", *_RECORDS)}
    read_hardware(merged)
    _document().update(merged)
    for stale in (_records, _names, aliases):
        stale.cache_clear()


def folded(name: object) -> str:
    """A name without case, spaces and hyphens."""
    return re.sub(r"[^a-z0-9.]", "", str(name).casefold())


@cache
def aliases(table: str) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Each record of a table, and what people call it besides its name, as regular expressions."""
    rows = _document()[table].items()
    return tuple(
        (name, tuple(filter(None, map(str.strip, str(row.get("aliases", "")).split(","))))) for name, row in rows
    )


@cache
def _names(table: str) -> dict[str, str]:
    """The name of each record of a table by what people call it, folded."""
    others = {folded(one): name for name, called in aliases(table) for one in called}
    return others | {folded(name): name for name, _ in aliases(table)}


def _called(table: str, name: str) -> str:
    """The name of the record that is called so, or a ValueError that says the nearest."""
    known = _names(table).get(folded(name)) if isinstance(name, str) and name else None
    return known or find(table, name, {one: one for one in _records()[table]})


def accelerator(name: str) -> Accelerator:
    """Return the accelerator called ``name``; a wrong name raises a ValueError that says the nearest right ones.

    Examples
    --------
    >>> from clusterlab.units import fmt
    >>> fmt(accelerator("H100 SXM").hbm_bandwidth, "B/s")
    '3.35 TB/s'
    >>> accelerator("H100 SMX")
    Traceback (most recent call last):
    ...
    ValueError: unknown accelerator 'H100 SMX'; did you mean 'H100 SXM' or 'H800 SXM' or 'H200 SXM'?
    """
    return _records()["accelerator"][_called("accelerator", name)]


def memory(name: str) -> Memory:
    """Return the level of on-chip memory called ``name``; a wrong name raises a ValueError with the nearest right ones.

    Examples
    --------
    >>> from clusterlab.units import fmt
    >>> fmt(memory("H100 SXM L2").bandwidth, "B/s")
    '9.7 TB/s'
    """
    return _records()["memory"][_called("memory", name)]


def link(name: str) -> Link:
    """Return the link called ``name``; a wrong name raises a ValueError that says the nearest right ones.

    Examples
    --------
    >>> from clusterlab.units import fmt
    >>> nvlink = link("NVLink 4")
    >>> fmt(nvlink.bandwidth, "B/s"), fmt(nvlink.bandwidth_both_ways, "B/s")
    ('450 GB/s', '900 GB/s')
    """
    return _records()["link"][_called("link", name)]


def node(name: str) -> Node:
    """Return the server called ``name``; a wrong name raises a ValueError that says the nearest right ones.

    Examples
    --------
    >>> node("DGX H100").accelerators
    8
    """
    return _records()["node"][_called("node", name)]


def rack(name: str) -> Rack:
    """Return the rack called ``name``; a wrong name raises a ValueError that says the nearest right ones.

    Examples
    --------
    >>> rack("GB200 NVL72").accelerators
    72
    """
    return _records()["rack"][_called("rack", name)]


def accelerators() -> tuple[Accelerator, ...]:
    """Every accelerator in the data, in the order of the file."""
    return tuple(_records()["accelerator"].values())


def memories() -> tuple[Memory, ...]:
    """Every level of on-chip memory in the data, from the registers out."""
    return tuple(_records()["memory"].values())


def links() -> tuple[Link, ...]:
    """Every link in the data, in the order of the file."""
    return tuple(_records()["link"].values())


def nodes() -> tuple[Node, ...]:
    """Every server in the data, in the order of the file."""
    return tuple(_records()["node"].values())


def racks() -> tuple[Rack, ...]:
    """Every rack in the data, in the order of the file."""
    return tuple(_records()["rack"].values())
