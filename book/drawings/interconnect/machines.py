"""Servers and racks: who reaches whom, and by which port."""

from __future__ import annotations

from collections.abc import Sequence

from clusterlab import catalogue
from clusterlab.interconnect import ScaleUp
from clusterlab.units import fmt
from explorable import Arrow, Box, Label, Part, Scene

TIMES = "\N{MULTIPLICATION SIGN}"


def _links(machine: catalogue.Node) -> tuple[catalogue.Link, catalogue.Link]:
    """Scale-up link and network port of each accelerator."""
    up, port = (catalogue.accelerator(machine.accelerator).scale_up_link, machine.network_link)
    if not (up and port and machine.network_ports == machine.accelerators):
        got = f"{machine.name} with {machine.network_ports} of {port} and {up}"
        raise ValueError(f"a machine needs a scale-up link and a network port for each accelerator, got {got}")
    return catalogue.link(up), catalogue.link(port)


def domains(node: catalogue.Node, rack: catalogue.Rack, switches: ScaleUp) -> Scene:
    """Draw four servers beside a rack: how many GPUs reach one another at the rate of the scale-up link.

    Parameters
    ----------
    node, rack : Node, Rack
        A server of eight accelerators, and a rack of 72 that is one domain.
    switches : ScaleUp
        The rack's scale-up switches, as :func:`clusterlab.interconnect.scale_up` counts them.

    Raises
    ------
    ValueError
        A machine has not one port for each accelerator, or no scale-up link.

    Examples
    --------
    >>> from clusterlab.catalogue import node, rack
    >>> from clusterlab.interconnect import scale_up
    >>> drawn = domains(node("DGX H100"), rack("GB200 NVL72"), scale_up(72, links=18, switch_ports=72))
    >>> sum(part.kind == "compute" for part in drawn.parts if isinstance(part, Box))
    104
    """
    ports, rates, totals = [], [], []
    for machine in (node, rack):
        up, port = _links(machine)
        rates.append(fmt(up.bandwidth, "B/s"))
        ports.append(fmt(port.bandwidth, "B/s"))
        totals.append(fmt(up.bandwidth * machine.accelerators, "B/s"))
    high, pitch, servers = 46, 54, 4
    parts: list[Part] = [
        Label(0, 8, f"{servers} {TIMES} {node.name}", "start", strong=True),
        Label(214, 8, rack.name, "start", strong=True),
        Box(166, 22, 16, servers * pitch - 8, kind="network", solid=True),
    ]
    for i in range(servers):
        top = 22 + pitch * i
        parts += [
            Arrow(152, top + high / 2, 166, top + high / 2, kind="network", heads=0),
            Box(0, top, 152, high),
            Box(4, top + 4, 144, 18, f"{rates[0]} to {node.accelerators - 1} others", "nvlink"),
        ]
        for gpu in range(node.accelerators):
            parts.append(Box(4 + 18.25 * gpu, top + 26, 16, 16, kind="compute", solid=True))
    across, left, top = 9, 218, 22
    rows = rack.accelerators // across
    parts.append(Box(214, top, 168, servers * pitch - 8))
    for i in range(rack.accelerators):
        row, column = divmod(i, across)
        y = top + 7 + 19 * row + (46 if row >= rows // 2 else 0)
        parts.append(Box(left + 4 + 17.3 * column, y, 14, 14, kind="compute", solid=True))
    parts += [
        Box(
            left + 2,
            top + 9 + 19 * (rows // 2),
            156,
            36,
            f"{switches.switches} NVLink switches\n{rates[1]} to {rack.accelerators - 1} others",
            "nvlink",
        ),
        Arrow(382, 126, 388, 126, kind="network", heads=0),
        Box(388, 22, 12, servers * pitch - 8, kind="network", solid=True),
    ]
    below = 22 + servers * pitch + 6
    for i, (x, what) in enumerate(((0, " each"), (214, ""))):
        parts.append(Label(x, below, f"NVLink: {totals[i]}{what}", "start"))
        parts.append(Label(x, below + 17, f"Network: {ports[i]} a GPU", "start"))
    alt = (
        f"In a {node.name} a GPU reaches {node.accelerators - 1} others at {rates[0]}, in a {rack.name} "
        f"{rack.accelerators - 1} at {rates[1]}; beyond that either has {ports[0]} of network."
    )
    return Scene(400, below + 26, parts, alt=alt)


def ways(servers: int, gpus: int, times: Sequence[float]) -> Scene:
    """Draw the wires of two servers twice: one ring uses one port of each, as many rings as GPUs use all of them.

    Parameters
    ----------
    servers, gpus : int
        Servers of the job, and GPUs of a server.
    times : sequence of two floats
        Seconds of the all-reduce either way.

    Examples
    --------
    >>> drawn = ways(32, 8, [0.56, 0.0723])
    >>> [sum(isinstance(part, Arrow) and part.kind == kind for part in drawn.parts) for kind in ("network", "ink")]
    [18, 14]
    """
    parts: list[Part] = []
    titles = ("One ring, one port", f"{gpus} rings, {gpus} ports")
    for panel, (title, time) in enumerate(zip(titles, times, strict=True)):
        left, used = 212 * panel, (1, gpus)[panel]
        parts.append(Label(left, 8, title, "start", strong=True))
        for i in range(2):
            x = left + 100 * i
            parts += [Box(x, 22, 88, 54), Box(x + 4, 26, 80, 18, "NVLink", "nvlink", solid=bool(panel))]
            for gpu in range(gpus):
                at = x + 4 + 80 / gpus * (gpu + 0.5)
                kind = "network" if gpu < used else "ink"
                parts.append(Arrow(at, 76, at, 96, kind=kind, heads=0))
                parts.append(Box(at - 4, 50, 8, 20, kind="compute", solid=True))
        parts.append(Box(left, 96, 188, 22, f"network, {servers} servers", "network"))
        parts.append(Label(left, 132, f"{used} of {gpus} ports: {fmt(time, 's')}", "start"))
    alt = (
        f"One ring uses one port of each of {servers} servers and takes {fmt(times[0], 's')}; {gpus} rings "
        f"use all {gpus} and take {fmt(times[1], 's')}."
    )
    return Scene(400, 142, parts, alt=alt)


def ring_orders(gpus: int) -> list[tuple[list[int], list[int]]]:
    """For each of as many rings as a server has GPUs: its order in every other server, and in those between.

    A ring enters a server at the GPU whose number it left the last one by, so that it crosses on that GPU's rail.

    Examples
    --------
    >>> ring_orders(4)[1]
    ([1, 2, 3, 0], [0, 3, 2, 1])
    """
    there = [[(ring + step) % gpus for step in range(gpus)] for ring in range(gpus)]
    return [(order, order[::-1]) for order in there]


def rings(gpus: int) -> Scene:
    """Draw in which order each ring visits two servers: a row for each ring, the GPU by whose port it leaves last.

    Parameters
    ----------
    gpus : int
        GPUs of a server, and rings; at most eight.

    Examples
    --------
    >>> rings(8).alt[:87]
    '8 rings of two servers. Ring 0: 0 1 2 3 4 5 6 7, rail 7, then 7 6 5 4 3 2 1 0, rail 0. '
    """
    wide, high, left, cross = 16.2, 23, 46, 47
    second = left + gpus * wide + cross
    parts: list[Part] = [
        Label(left, 8, "one server", "start", strong=True),
        Label(second, 8, "the next", "start", strong=True),
    ]
    told = []
    for ring, orders in enumerate(ring_orders(gpus)):
        y = 22 + high * ring
        parts.append(Label(0, y + 9, f"ring {ring}", "start"))
        for x, order in zip((left, second), orders, strict=True):
            for i, gpu in enumerate(order):
                out = i == gpus - 1
                where = x + wide * i, y, wide - 1.4, 18
                parts.append(Box(*where, f"{gpu}", "network" if out else "nvlink", solid=out))
            end = x + wide * gpus
            parts.append(Label(end + 2, y + 9, f"rail {order[-1]}", "start"))
        said = [" ".join(map(str, order)) for order in orders]
        told.append(f"Ring {ring}: {said[0]}, rail {orders[0][-1]}, then {said[1]}, rail {orders[1][-1]}.")
    return Scene(400, 22 + high * gpus, parts, alt=f"{gpus} rings of two servers. {' '.join(told)}")
