"""Power: watts, PUE, heat, energy, carbon, caps."""

from __future__ import annotations

from clusterlab import catalogue, power
from clusterlab.units import MW, TFLOP, MWh, billion, day, fmt, hour, kW, minute, trillion
from course.kinds import Estimate, Flaw, Line, flawed, rough
from course.problems import Draw, ProblemSet, Step
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


@SET.problem("A year of electricity, by hand")
def year(draw: Draw) -> Estimate:
    """Megawatts to dollars."""
    it, ratio, price = draw.number(5, 120, 5), draw.number(110, 150, 5) / 100, draw.number(4, 14) / 100
    right = it * 1000 * ratio * 8760 * price
    return Estimate(
        f"{it} MW of IT run all year at a PUE of {ratio:g}; a kWh costs ${price:g}. What does the electricity cost in a year?",
        right,
        "$",
        mistakes={
            "That is a month.": right / 12,
            "A megawatt is a thousand kilowatts.": right / 1000,
            "That is an hour.": right / 8760,
        },
        hints=["kW x hours x price; a year has about 9,000 hours."],
        way=f"{rough(it * ratio * 1000)} kW x 9e3 h x ${price:g}: about ${rough(right)}.",
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


@SET.problem("A hall with a mistake", points=3)
def hall(draw: Draw) -> Flaw:
    """From the meter to servers, water and the bill."""
    meter, ratio, server = draw.number(4, 60) * MW / 2, draw.number(126, 165) / 100, draw.number(98, 150) * kW / 10
    rise, busy, price = draw.number(6, 14), draw.number(60, 90, 5) / 100, draw.number(40, 140, 5) / 1000
    return flawed(
        draw,
        f"A hall has {fmt(meter, 'MW')} at the meter and a PUE of {ratio:g}. A server of eight GPUs of 700 W draws {fmt(server, 'kW')}, its"
        f" share of the network included. Water (1 kg a litre, 4,180 J/(kg K)) takes the heat of the IT and warms by {rise} K. On"
        f" average {fmt(busy, '%')} of the power is drawn; a kWh costs ${price:g}.",
        (
            Line(
                "Power for IT",
                "W",
                lambda _: meter / ratio,
                {"Cooling and distribution take their share of the meter's.": lambda _: meter},
            ),
            Line(
                "Servers, before rounding down",
                "servers",
                lambda v: v[0] / server,
                {"A server draws more than its eight chips.": lambda v: v[0] / 5600},
            ),
            Line("GPUs", "GPUs", lambda v: 8 * v[1], {"A server has eight GPUs.": lambda v: v[1]}),
            Line(
                "Water at full load",
                "l/min",
                lambda v: v[0] / (4180 * rise) * 60,
                {"A minute has sixty seconds.": lambda v: v[0] / (4180 * rise)},
            ),
            Line(
                "Energy of a year, at the meter",
                "MWh",
                lambda _: busy * meter * 8760 * hour,
                {
                    "The meter counts cooling as well.": lambda v: busy * v[0] * 8760 * hour,
                    "A year has 8,760 hours.": lambda _: busy * meter * 720 * hour,
                },
            ),
            Line("Its price", "$", lambda v: v[4] / 3.6e6 * price),
        ),
        ["The PUE is what the meter shows over what IT draws.", "Heat = flow x heat capacity x rise."],
    )


@SET.design("GPUs that the megawatts feed", "A run on them")
def feed(draw: Draw) -> Step:
    """GPUs of a site, then the days of a run."""
    meter, ratio, watts = draw.number(10, 160) * MW / 2, draw.number(112, 150) / 100, draw.number(1150, 1900, 10)
    size, tokens, mfu = (
        draw.number(30, 420, 5) * billion,
        draw.number(20, 200) * trillion / 10,
        draw.number(33, 48) / 100,
    )
    gpus = meter / ratio / watts
    work, peak = 6 * size * tokens, 989 * TFLOP
    time = work / (gpus * peak * mfu)
    draw.require(day < time < 400 * day and gpus > 2000)
    first = Question(
        f"A site has {fmt(meter, 'MW')} at the meter and a PUE of {ratio:g}. A GPU draws {watts:,} W with its share of server and network. How"
        " many GPUs does the site feed?",
        gpus,
        "GPUs",
        tolerance=0.01,
        mistakes={
            "The PUE is missing: cooling takes its share.": gpus * ratio,
            "The PUE divides the megawatts; it doesn't add to them.": gpus * ratio**2,
            "Those are servers of eight.": gpus / 8,
        },
        hints=["Megawatts for IT first."],
        way=f"{fmt(meter / ratio, 'MW')} / {watts:,} W = {gpus:,.0f}.",
    )
    second = Question(
        f"On all of them, {fmt(size / 1e9, 'billion')} parameters train on {fmt(tokens / 1e12, 'trillion')} tokens, at an MFU of"
        f" {fmt(mfu, '%')} of 989 TFLOP/s. How long does it take?",
        time,
        "s",
        mistakes={
            "The backward pass is missing.": time / 3,
            "The MFU is missing.": time * mfu,
            "A sparse peak is twice too high.": time / 2,
        },
        hints=["6 N D over GPUs x peak x MFU."],
        way=f"{work:.3g} FLOP / {fmt(gpus * peak * mfu, 'EFLOP/s')} = {fmt(time, 'd')}.",
    )
    return first, second, lambda found: work / (found * peak * mfu)


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
