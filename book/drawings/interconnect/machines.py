"""Servers and racks: every link of a GPU, as wide as it is fast."""

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


def server(node: catalogue.Node, pcie: catalogue.Link) -> Scene:
    """Draw a server with every link of a GPU, each as wide as it is fast in one direction.

    Parameters
    ----------
    node : Node
        The server: its accelerators, their scale-up link and its network ports.
    pcie : Link
        The link between an accelerator and its network card.

    Raises
    ------
    ValueError
        The server has not one port for each accelerator, or no scale-up link.

    Examples
    --------
    >>> from clusterlab.catalogue import link, node
    >>> server(node("DGX H100"), link("PCIe 5.0 x16")).alt[:72]
    'DGX H100: each of 8 GPUs reaches the others by NVLink 4 at 450 GB/s, and'
    """
    chip = catalogue.accelerator(node.accelerator)
    up, port = _links(node)
    count, left, wide = node.accelerators, 272, 27.0
    pitch = left / count
    rows = {"switch": (0, 24), "gpu": (66, 34), "pcie": (134, 24), "card": (180, 24), "leaf": (246, 24)}
    (gpu, gpu_high), (bus, bus_high), (card, card_high) = (rows["gpu"], rows["pcie"], rows["card"])
    parts: list[Part] = []

    def wire(at: float, link: catalogue.Link, kind: str, top: float, bottom: float) -> Box:
        width = wide * link.bandwidth / up.bandwidth
        return Box(at - width / 2, top, width, bottom - top, kind=kind, solid=True)

    for i in range(count):
        at = pitch * (i + 0.5)
        parts += [
            wire(at, up, "nvlink", 24, gpu),
            wire(at, pcie, "wire", gpu + gpu_high, bus),
            wire(at, pcie, "wire", bus + bus_high, card),
            wire(at, port, "network", card + card_high, rows["leaf"][0]),
            Box(at - 15, gpu, 30, gpu_high, f"{i}", "compute", solid=True),
            Box(at - 15, card, 30, card_high, "NIC", "network"),
        ]
    bars = {"switch": ("NVSwitch", "nvlink"), "pcie": ("PCIe switches and CPUs", "wire")}
    for row, (text, kind) in (bars | {"leaf": ("leaf switches, one for each rail", "network")}).items():
        parts.append(Box(0, rows[row][0], left, rows[row][1], text, kind))
    beside = {
        45: (up.name, fmt(up.bandwidth, "B/s")),
        83: (f"{count} {TIMES} {chip.name}", f"HBM {fmt(chip.hbm_bandwidth, 'B/s')}"),
        146: (pcie.name, fmt(pcie.bandwidth, "B/s")),
        225: (port.name, fmt(port.bandwidth, "B/s")),
    }
    for y, (name, rate) in beside.items():
        parts += [Label(282, y - 8, name, "start", strong=True), Label(282, y + 8, rate, "start")]
    alt = (
        f"{node.name}: each of {count} GPUs reaches the others by {up.name} at {fmt(up.bandwidth, 'B/s')}, and the "
        f"network by {pcie.name} at {fmt(pcie.bandwidth, 'B/s')} and an {port.name} port at "
        f"{fmt(port.bandwidth, 'B/s')}, {up.bandwidth / port.bandwidth:g} times less than NVLink."
    )
    return Scene(400, 270, parts, alt=alt)


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


def rack(machine: catalogue.Rack, switches: ScaleUp) -> Scene:
    """Draw every link of a rack: from each GPU one to each scale-up switch, and one to the network.

    A line of the web is the links of a tray to a switch, one from each of its GPUs. The links of one GPU stand out.

    Parameters
    ----------
    machine : Rack
        A rack of trays of accelerators that is one domain.
    switches : ScaleUp
        Its scale-up switches, as :func:`clusterlab.interconnect.scale_up` counts them.

    Raises
    ------
    ValueError
        The switches are not those of this rack, or it has not one port for each accelerator.

    Examples
    --------
    >>> from clusterlab.catalogue import rack as named
    >>> from clusterlab.interconnect import scale_up
    >>> rack(named("GB200 NVL72"), scale_up(72, links=18, switch_ports=72)).alt[:66]
    'GB200 NVL72: every GPU has 18 links of NVLink 5, 50 GB/s each, one'
    """
    if switches.cables_per_switch != machine.accelerators:
        got = f"{switches.cables_per_switch} links of a switch for {machine.accelerators}"
        raise ValueError(f"each accelerator of a rack has one link to each switch, got {got}")
    up, port = _links(machine)
    count, trays, links = (machine.accelerators, machine.nodes or 1, int(switches.switches))
    rate, ndr = fmt(up.bandwidth / links, "B/s"), fmt(port.bandwidth, "B/s")
    top, low, high, gpu, leaf = (
        20,
        40,
        150,
        24,
        196,
    )  # switches, their lower edge, GPUs and their height, leaf switches
    wide, deep = 400 / trays, count // trays
    centre = [400 / links * (j + 0.5) for j in range(links)]
    place = [wide * (i // deep) + (wide - 3) * (i % deep + 0.5) / deep + 1.5 for i in range(count)]
    one = count // 3  # the GPU whose links stand out
    parts: list[Part] = []
    for x in (wide * (i + 0.5) for i in range(trays)):
        parts += [Arrow(x, high, y, low, kind="nvlink", heads=0, faint=True) for y in centre]
    parts += [Arrow(place[one], high, y, low, kind="nvlink", heads=0) for y in centre]
    parts += [Box(y - 7, top, 14, low - top, kind="nvlink", solid=True) for y in centre]
    for i, x in enumerate(place):
        parts.append(Arrow(x, high + gpu, x, leaf, kind="network", heads=0, faint=i != one))
        parts.append(Box(x - 1.4, high, 2.8, gpu, kind="compute", solid=i == one))
    parts += [
        Box(0, leaf, 400, 24, "leaf switches of the network", "network"),
        Label(0, 8, f"{links} NVLink switches, {fmt(count * up.bandwidth / links, 'B/s')} each", "start"),
        Label(0, leaf + 38, f"Up: {up.name}, {links} {TIMES} {rate} a GPU", "start"),
        Label(0, leaf + 55, f"Down: {port.name}, {ndr} a GPU", "start"),
        Label(0, leaf + 72, f"{trays} trays of {deep} GPUs; a thin line is {deep} links", "start"),
    ]
    alt = (
        f"{machine.name}: every GPU has {links} links of {up.name}, {rate} each, one to each of {links} switches. Out "
        f"of the rack it has one {port.name} port of {ndr}."
    )
    return Scene(400, leaf + 81, parts, alt=alt)


def ways(servers: int, gpus: int, times: Sequence[float]) -> Scene:
    """Draw the wires of two servers twice: one ring uses one port of each, a ring on every rail all of them.

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
    titles = ("One ring, one port", "A ring on every rail")
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
        f"One ring uses one port of each of {servers} servers and takes {fmt(times[0], 's')}; a ring on every rail "
        f"uses all {gpus} and takes {fmt(times[1], 's')}."
    )
    return Scene(400, 142, parts, alt=alt)
