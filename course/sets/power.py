"""Power: watts, PUE, heat, energy, carbon, caps."""

from __future__ import annotations

from clusterlab import catalogue, power
from clusterlab.units import MW, TFLOP, MWh, day, fmt, hour, kW, kWh, minute
from course.problems import Draw, ProblemSet
from explorable import Question

SET = ProblemSet("power", "Power: from the chip to the grid")


def _fleet(draw: Draw):
    """GPUs, watts of one, server overhead and network share, PUE."""
    return (
        128 * draw.number(8, 256),
        draw.one_of((400, 700, 1000, 1200)),
        draw.number(130, 185) / 100,
        draw.number(4, 15) / 100,
        draw.number(108, 150) / 100,
    )


@SET.problem("Megawatts of a site", points=1)
def site(draw: Draw) -> Question:
    """A warm-up: chip to meter."""
    gpus, watts, overhead, network, ratio = _fleet(draw)
    it = power.cluster_load(gpus, watts, server_overhead=overhead, network_share=network)
    right = float(power.facility(it, ratio).total)
    return Question(
        f"{gpus:,} GPUs of {watts} W; a server draws {overhead:g} times its GPUs, network and storage add {fmt(network, '%')},"
        f" and the PUE is {ratio:g}. What must the site supply?",
        right,
        "W",
        mistakes={
            "That is the IT load: cooling and distribution are missing.": float(it.total),
            "GPUs and PUE alone: the rest of the server is missing.": gpus * watts * ratio,
            "The network is missing.": float(
                power.facility(power.cluster_load(gpus, watts, server_overhead=overhead), ratio).total
            ),
            "The GPUs are counted one by one, not by server.": right / 8,
        },
        hints=["GPUs, servers, network: that is IT.", "Times the PUE."],
        way=f"IT {fmt(it.total, 'MW')}, times {ratio:g}: {fmt(right, 'MW')}.",
    )


@SET.problem("Servers in a rack")
def rack(draw: Draw) -> Question:
    """Whole servers within power and space."""
    node = catalogue.node(draw.one_of(("DGX A100", "DGX H100", "DGX B200")))
    assert node.power
    limit, units = draw.number(12, 120) * kW, draw.number(42, 52)
    draw.require(limit > 1.2 * node.power)
    height = draw.one_of((6, 8, 10))
    fit = power.capacity(power=(limit, node.power), space=(units, height))
    right, alone = float(fit.count), {name: float(count) for name, count in fit.counts.items()}
    draw.require(right >= 1 and alone["power"] != alone["space"])
    return Question(
        f"A rack has {units} rack units and {fmt(limit, 'kW')}. A server takes {height} units and {fmt(node.power, 'kW')} and has"
        f" {node.accelerators} GPUs. How many GPUs fit into a rack?",
        8 * right,
        "GPUs",
        tolerance=0,
        mistakes={
            "Power and space both hold: the smaller counts.": 8 * max(alone.values()),
            "Only whole servers fit.": 8 * min(limit / node.power, units / height),
            "Those are servers; each has eight GPUs.": right,
        },
        hints=["How many servers does the power allow, and how many the space?", "Only whole servers count."],
        way=f"Power {alone['power']:.0f}, space {alone['space']:.0f}: {right:.0f} servers of 8 GPUs.",
    )


@SET.problem("A year's energy")
def energy(draw: Draw) -> Question:
    """kWh, dollars."""
    it, ratio, share = draw.number(2, 80) * MW / 2, draw.number(108, 150) / 100, draw.number(55, 90) / 100
    price = draw.number(40, 140) / 1000
    used = power.energy_footprint(share * it, 365 * day, pue=ratio, price=price / kWh)
    right = float(used.cost)
    return Question(
        f"An IT load rated at {fmt(it, 'MW')} draws {fmt(share, '%')} of it on average; the PUE is {ratio:g}; a kWh costs"
        f" ${price:g}. What does a year of 365 days cost?",
        right,
        "$",
        mistakes={
            "That is at the rating, not at the mean draw.": right / share,
            "The PUE is missing.": right / ratio,
            "That is a month of 30 days.": right * 30 / 365,
            "That is one hour: a year has 8,760.": right / (365 * 24),
        },
        hints=["Mean draw x PUE x hours.", "8,760 hours."],
        way=f"{fmt(used.energy, 'MWh', 4)} at ${price:g} a kWh: {fmt(right, '$')}.",
    )


@SET.problem("Water through a rack")
def coolant(draw: Draw) -> Question:
    """Litres a minute."""
    heat, rise = draw.number(40, 160) * kW, draw.number(5, 15)
    flow = float(power.coolant_flow(heat, rise, power.WATER))
    right = flow * 1000 * minute
    air = float(power.coolant_flow(heat, rise, power.AIR)) * 1000 * minute
    return Question(
        f"Cold plates take {fmt(heat, 'kW')} out of a rack. Water (995.6 kg/m³, 4,180 J/(kg K)) warms by {rise} K. How many"
        " litres a minute must flow?",
        right,
        "l/min",
        mistakes={
            "That is air's flow.": air,
            "That is litres a second.": right / 60,
            "That is cubic metres an hour.": flow * hour,
        },
        hints=["Heat = flow x density x heat capacity x rise.", "A cubic metre has 1,000 litres, a minute 60 seconds."],
        way=f"{flow:.3g} m³/s, or {fmt(right, 'l/min')}.",
    )


@SET.problem("Energy of a token")
def token(draw: Draw) -> Question:
    """Joules of training a token, at the meter."""
    parameters, watts = draw.number(7, 450) * 1e9, draw.number(900, 2200, 20)
    mfu, ratio, peak = draw.number(28, 52) / 100, draw.number(108, 140) / 100, 989 * TFLOP
    right = 6 * parameters * float(power.energy_per(watts * ratio, mfu * peak))
    return Question(
        f"Training runs at an MFU of {fmt(mfu, '%')} on GPUs of {fmt(peak, 'TFLOP/s')}; each draws {watts:,} W with its share of"
        f" server and network, and the PUE is {ratio:g}. How much energy does a token take, for a dense model of"
        f" {fmt(parameters / 1e9, 'billion')} parameters?",
        right,
        "J",
        mistakes={
            "The backward pass is missing: 6 FLOPs a parameter, not 2.": right / 3,
            "That is at the full peak: the MFU is missing.": right * mfu,
            "The PUE is missing.": right / ratio,
            "That is a sparse peak; training is dense.": right / 2,
        },
        hints=["Joules a FLOP: watts over FLOP/s reached.", "Times 6 N."],
        way=f"{fmt(watts * ratio, 'W', 4)} / {fmt(mfu * peak, 'TFLOP/s')} x 6 N = {fmt(right, 'J')}.",
    )


@SET.problem("More GPUs under one budget", points=3)
def capped(draw: Draw) -> Question:
    """Throughput of a fixed budget with capped chips."""
    static, dynamic = draw.number(90, 180, 5), draw.number(400, 800, 10)
    floor, fixed, rest = draw.number(60, 80) / 100, draw.number(5, 30) / 100, draw.number(150, 500, 10)
    share = draw.number(60, 85) / 100
    full = static + dynamic
    task = power.power_cap(share * full, static=static, dynamic=dynamic, voltage_floor=floor, fixed=fixed, rest=rest)
    more = (full + rest) / (float(task.power) + rest)
    right = float(task.speed) * more
    draw.require(abs(right - 1) > 0.03)
    return Question(
        f"A chip draws {static} W + {dynamic} W x f v(f)² with v(f) = max(f, {floor:g}); {fmt(fixed, '%')} of a task's time does"
        f" not depend on the clock; server and network add {rest} W a chip. All chips are capped at {fmt(share, '%')} of their"
        " full draw, and the megawatts saved buy more chips. How many times the work of before does the site do?",
        right,
        "",
        tolerance=0.015,
        mistakes={
            "That is the speed of one chip; there are more of them now.": float(task.speed),
            "The rest of the server draws its watts under a cap too.": float(task.speed) / share,
            "Power does not fall in proportion to speed.": more * share,
        },
        hints=["Clock under the cap, then the speed of one chip.", "How many more chips does the site feed?"],
        way=f"Speed {fmt(float(task.speed), '%')} of one, {fmt(more)} times as many.",
    )


@SET.problem("Riding through")
def ride(draw: Draw) -> Question:
    """Minutes of a battery."""
    stored, it = draw.number(5, 80) * MWh / 10, draw.number(20, 300) * MW / 10
    ratio, eta = draw.number(108, 145) / 100, draw.number(85, 97) / 100
    right = float(power.holdover(stored, ratio * it, efficiency=eta))
    return Question(
        f"A battery of {fmt(stored, 'MWh')}, of which {fmt(eta, '%')} reach the load, carries a site with {fmt(it, 'MW')} of IT"
        f" at a PUE of {ratio:g}, cooling included. For how long?",
        right,
        "s",
        mistakes={
            "Cooling must run too: the PUE is missing.": right * ratio,
            "The battery's losses are missing.": right / eta,
            "A watt-hour is 3,600 joules.": right / 3600,
        },
        hints=["Energy that arrives over the power of the whole site."],
        way=f"{eta:g} x {fmt(stored, 'MWh')} / {fmt(ratio * it, 'MW')} = {fmt(right, 'min')}.",
    )


@SET.essay(
    "Where to build",
    {
        "Energy, money and carbon of both sites, with units": 2,
        "A price of carbon, or of time, at which the answer turns": 2,
        "One risk that is not in the numbers": 1,
    },
)
def where(draw: Draw) -> str:
    """Open: two grids."""
    it = draw.number(20, 120, 5)
    cheap, clean = draw.number(30, 60) / 1000, draw.number(60, 110) / 1000
    dirty, low = draw.number(400, 700, 10), draw.number(15, 90, 5)
    return (
        f"{it} MW of IT for three years. Site A: ${cheap:g} a kWh, {dirty} g CO2e a kWh, PUE 1.35. Site B: ${clean:g} a kWh,"
        f" {low} g a kWh, PUE 1.12, but ready a year later. Which one, for whom, and at which price of carbon does it turn?"
    )
