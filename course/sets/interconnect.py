"""Interconnect: links, rings, trees, hierarchies, fat trees."""

from __future__ import annotations

import math

from clusterlab import contention, interconnect
from clusterlab.units import GB, MB, fmt, us
from course.kinds import Estimate, Flaw, Line, flawed, rough
from course.problems import Draw, ProblemSet, Step
from explorable import Question

SET = ProblemSet("interconnect", "Interconnect: what it costs to exchange")


def _gbit(draw: Draw) -> tuple[int, float]:
    """A port: Gbit/s as its label says, and bytes/s each way."""
    label = draw.one_of((100, 200, 400, 800))
    return label, label * GB / 8


@SET.problem("A copy over a port", points=1)
def copy(draw: Draw) -> Question:
    """A warm-up: bits and bytes."""
    label, port = _gbit(draw)
    size = draw.number(20, 900) * GB
    right = size / port
    return Question(
        f"{fmt(size, 'GB')} of weights go from one server to another through one port of {label} Gbit/s. Latency aside, how"
        " long does it take?",
        right,
        "s",
        mistakes={
            "The port's label counts bits: eight of them are a byte.": size / (8 * port),
            "One direction alone carries the copy; both together would be twice as fast.": size / (2 * port),
            "Divided by eight twice.": 8 * right,
        },
        hints=["How many bytes pass in a second?"],
        way=f"{label} Gbit/s is {fmt(port, 'GB/s')}; {fmt(size, 'GB')} take {fmt(right, 's')}.",
    )


@SET.problem("Gradients, by hand")
def gradients(draw: Draw) -> Estimate:
    """Twice the buffer over the port."""
    size, n = draw.one_of((7, 13, 30, 70)), draw.one_of((64, 128, 256, 512))
    label, port = _gbit(draw)
    right = 2 * 4 * size * 1e9 / port
    return Estimate(
        f"{n} servers all-reduce the gradients of {size} billion parameters, 4 bytes each, on one ring of a port of {label} Gbit/s"
        " a server. How long does it take?",
        right,
        "s",
        mistakes={
            "Bits for bytes: the port's label counts bits.": right / 8,
            "A step of the ring moves a chunk, not the whole buffer.": n * right,
        },
        hints=["A large ring sends the buffer twice, and nearly nothing depends on its size."],
        way=f"Twice {4 * size} GB at {label / 8:g} GB/s: about {rough(right)} s.",
    )


@SET.problem("A ring all-reduce")
def ring(draw: Draw) -> Question:
    """Bandwidth and latency terms of a ring."""
    n, size = draw.one_of((8, 16, 32, 64, 128)), draw.number(20, 600, 2) * MB
    label, port = _gbit(draw)
    latency = draw.number(2, 20) * us
    right = float(interconnect.ring_all_reduce(size, n, bandwidth=port, latency=latency).time)
    half = float(interconnect.ring_all_gather(size, n, bandwidth=port, latency=latency).time)
    no_wait = float(interconnect.ring_all_reduce(size, n, bandwidth=port, latency=0).time)
    return Question(
        f"{n} GPUs, each with a port of {label} Gbit/s, all-reduce {fmt(size, 'MB')} on a ring; a hop costs"
        f" {fmt(latency, 's')} of latency. How long does it take?",
        right,
        "s",
        mistakes={
            "That is one pass around the ring: a reduce-scatter or an all-gather. An all-reduce is both.": half,
            "The latency of 2 (n - 1) hops is missing.": no_wait,
            "Bits for bytes: the port's label counts bits.": float(
                interconnect.ring_all_reduce(size, n, bandwidth=8 * port, latency=latency).time
            ),
            "A rank sends a chunk of 1/n in each step, not the whole buffer.": 2 * (n - 1) * (latency + size / port),
        },
        hints=[
            "A reduce-scatter, then an all-gather: how many steps?",
            "2 (n - 1) steps of one n-th of the buffer each.",
        ],
        way=f"2 x {n - 1} steps of {fmt(size / n, 'B')} at {fmt(port, 'GB/s')}, each after {fmt(latency, 's')}.",
    )


@SET.problem("Bus bandwidth")
def bus(draw: Draw) -> Question:
    """Read an nccl-tests line backwards."""
    n, size = draw.one_of((4, 8, 16, 32)), draw.number(200, 4000, 10) * MB
    rate = draw.number(80, 400, 2) * GB
    seconds = size / rate
    right = float(rate * interconnect.bus_factor("all-reduce", n))
    return Question(
        f"The benchmark nccl-tests times an all-reduce of {fmt(size, 'MB', 4)} over {n} GPUs at {fmt(seconds, 's', 4)}. What bus bandwidth"
        " does it print?",
        right,
        "B/s",
        mistakes={
            "That is the algorithm bandwidth, size over time.": rate,
            "That is the factor of an all-gather: an all-reduce sends twice that.": right / 2,
            "Bytes, not bits.": 8 * right,
        },
        hints=["Size over time is the algorithm bandwidth.", "For an all-reduce multiply it by 2 (n - 1) / n."],
        way=f"{fmt(rate, 'GB/s')} x 2 x {n - 1} / {n} = {fmt(right, 'GB/s')}.",
    )


@SET.problem("Ring or tree")
def crossover(draw: Draw) -> Question:
    """The size at which a ring overtakes a tree."""
    n, label = draw.one_of((64, 128, 256, 512, 1024)), draw.one_of((200, 400, 800))
    port, latency = label * GB / 8, draw.number(3, 25) * us
    link, rounds = {"bandwidth": port, "latency": latency}, math.log2(n)
    ring, doubling = (
        interconnect.ring_all_reduce(1.0, n, **link),
        interconnect.recursive_doubling_all_reduce(1.0, n, **link),
    )
    right = float(interconnect.crossover_size(doubling, ring))
    return Question(
        f"{n} ranks with ports of {label} Gbit/s and {fmt(latency, 's')} a message. Recursive doubling sends the whole buffer"
        " in log2(n) rounds; a ring sends 2 (n - 1) chunks of an n-th. From which buffer on is the ring faster?",
        right,
        "B",
        mistakes={
            "Bits for bytes: the port's label counts bits.": 8 * right,
            "A ring all-reduce has two passes of n - 1 steps, not one.": float(
                interconnect.crossover_size(doubling, interconnect.ring_all_gather(1.0, n, **link))
            ),
        },
        hints=["Write both times as steps x latency + bytes / bandwidth.", "Set them equal and solve for the buffer."],
        way=f"{fmt(latency, 's')} x (2 x {n - 1} - {rounds:.0f}) saved against"
        f" ({rounds:.0f} - 2 x {n - 1}/{n}) buffers of time: {fmt(right, 'B')}.",
    )


@SET.problem("Two levels", points=3)
def levels(draw: Draw) -> Question:
    """A hierarchical all-reduce: what the server saves the network."""
    nodes, size, node = draw.one_of((4, 8, 16, 32, 64)), draw.number(1, 40) * GB / 2, 8
    label, port = draw.one_of(((200, 25 * GB), (400, 50 * GB)))
    fast = draw.number(200, 900, 10) * GB
    wires = {"node_size": node, "bandwidth": port, "latency": 0.0, "node_bandwidth": fast, "node_latency": 0.0}
    right = float(interconnect.hierarchical_all_reduce(size, node * nodes, **wires).time)
    inside = 2 * float(interconnect.ring_all_gather(size, node, bandwidth=fast, latency=0).time)
    flat = float(interconnect.ring_all_reduce(size, node * nodes, bandwidth=port, latency=0).time)
    across = right - inside
    return Question(
        f"{nodes} servers of 8 GPUs all-reduce {fmt(size, 'GB')}: reduce-scatter inside each server at"
        f" {fmt(fast, 'GB/s')} a direction, all-reduce across servers, where each GPU has its own port of {label} Gbit/s, and"
        " all-gather inside. No latency, nothing overlaps. How long does it take?",
        right,
        "s",
        mistakes={
            "That is one flat ring over all ports: the server took nothing off the network.": flat,
            "Only the network is counted; the two passes inside the server are missing.": across,
            "Across the servers each GPU sends an eighth of the buffer, not the whole.": inside + node * across,
            "The buffer goes around inside the server twice: before and after.": across + inside / 2,
        },
        hints=[
            "After the reduce-scatter, how much does each GPU hold?",
            "A ring over the servers of an eighth of the buffer.",
        ],
        way=f"{fmt(inside, 's')} inside and {fmt(across, 's')} across.",
    )


@SET.problem("A fabric with a mistake", points=3)
def fabric(draw: Draw) -> Flaw:
    """Leaves, cables, spines, halves."""
    radix, size = draw.one_of((32, 64, 128)), draw.number(2, 40) * GB
    label, port = _gbit(draw)
    hosts = radix * draw.one_of([half for half in (4, 8, 16, 32) if half <= radix // 4])
    return flawed(
        draw,
        f"A fabric of {hosts:,} GPUs with a port of {label} Gbit/s each: switches of {radix} ports in two tiers, as many cables up"
        " as down.",
        (
            Line(
                "GPUs under a leaf", "GPUs", lambda _: radix / 2, {"Half of a leaf's ports lead up.": lambda _: radix}
            ),
            Line("Leaves", "leaves", lambda v: hosts / v[0]),
            Line(
                "Cables from leaves to spines",
                "cables",
                lambda v: v[1] * v[0],
                {"Every GPU has its cable up, not every server of eight.": lambda v: v[1] * v[0] / 8},
            ),
            Line(
                "Spines",
                "spines",
                lambda v: v[2] / radix,
                {"A spine has nothing above it: all of its ports lead down.": lambda v: v[2] / (radix / 2)},
            ),
            Line(
                "Bandwidth from one half of the GPUs to the other",
                "B/s",
                lambda _: hosts / 2 * port,
                {
                    "The port's label counts bits.": lambda _: hosts / 2 * port * 8,
                    "Half of the GPUs send, the other half receives.": lambda _: hosts * port,
                },
            ),
            Line(
                f"Ring all-reduce of {fmt(size, 'GB')} over all, latency aside",
                "s",
                lambda _: float(interconnect.ring_all_reduce(size, hosts, bandwidth=port, latency=0).time),
                {"An all-reduce goes around twice.": lambda _: size / port},
            ),
        ),
        ["Count ports: a leaf's go half down and half up, a spine's all go down."],
    )


@SET.design("The fullest uplink", "What it does to a copy")
def collide(draw: Draw) -> Step:
    """Flows that draw their uplinks, and the time of the slowest."""
    links, flows = draw.one_of((8, 16, 32)), draw.one_of((8, 12, 16, 24, 32, 64))
    label, port = _gbit(draw)
    size = draw.number(2, 60) * GB
    most = float(contention.fullest_link(flows, links))
    draw.require(flows >= links)
    time = most * size / port
    first = Question(
        f"{flows} flows leave a leaf switch, and each draws one of its {links} uplinks by a hash. How many flows are on the fullest"
        " uplink, on average?",
        most,
        "flows",
        mistakes={
            "That is the mean uplink; the collective waits for the fullest.": flows / links,
            "All on one uplink is the worst draw, not the mean one.": float(flows),
            "That is the share of uplinks that carry anything.": float(contention.busy_share(flows, links)),
        }
        if flows > links
        else {
            "That is the mean uplink; the collective waits for the fullest.": flows / links,
            "All on one uplink is the worst draw, not the mean one.": float(flows),
        },
        hints=["Balls in bins: `contention.fullest_link`."],
        way=f"{most:.3g} of {flows}, where the mean uplink has {flows / links:g}.",
    )
    second = Question(
        f"Each flow carries {fmt(size, 'GB')}; an uplink and a port have {label} Gbit/s, and flows on one uplink share it evenly. When is"
        " the slowest flow done, on average?",
        time,
        "s",
        mistakes={
            "That is a flow that has an uplink for itself.": size / port,
            "Bits for bytes: the label counts bits.": time / 8,
            "The uplink carries its flows side by side, not all flows of the leaf.": flows * size / port,
        },
        hints=["The fullest uplink must carry all its flows."],
        way=f"{most:.3g} x {fmt(size, 'GB')} / {fmt(port, 'GB/s')} = {fmt(time, 's')}.",
    )
    return first, second, lambda found: found * size / port


@SET.essay(
    "A slow all-reduce",
    {
        "Computes what the ring would need, and states the ratio to what was measured": 2,
        "Orders the suspects by a test that separates them, cheapest first": 2,
        "Says which measurement would prove the answer wrong": 1,
    },
)
def slow(draw: Draw) -> str:
    """Open: a number that does not fit."""
    n, size = draw.one_of((64, 128, 256, 512)), draw.number(1, 8) * GB
    label, port = _gbit(draw)
    seconds = draw.number(25, 90) / 10 * float(interconnect.ring_all_reduce(size, n, bandwidth=port, latency=0).time)
    return (
        f"On {n} GPUs with one port of {label} Gbit/s each an all-reduce of {fmt(size, 'GB')} takes {fmt(seconds, 's', 2)}."
        " The vendor says that the fabric is healthy. How far is it from what the wires allow? Name three causes that"
        " would give this number, and the order in which you would test them."
    )
