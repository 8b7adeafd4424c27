"""A plan: joints that must agree, what binds, how sure, own or rent, and a decision to defend."""

from __future__ import annotations

import math

from clusterlab import power, scaling
from clusterlab.units import TFLOP, billion, day, fmt, hour, kW, trillion
from course.kinds import Estimate, Flaw, Line, flawed, rough
from course.problems import Draw, ProblemSet, Step
from explorable import Question

SET = ProblemSet("plan", "A plan: what to build, and how sure")


@SET.problem("Check a joint", points=1)
def joint(draw: Draw) -> Question:
    """A warm-up: the step time that a plan's days demand."""
    parameters, tokens = draw.number(30, 500, 5) * billion, draw.number(2, 16) * trillion
    sequences, length = 256 * draw.number(2, 12), draw.one_of((4096, 8192))
    days = draw.number(20, 120)
    steps = tokens / (sequences * length)
    right = days * day / steps
    draw.require(0.3 < right < 200)
    return Question(
        f"A plan trains {fmt(parameters / 1e9, 'billion')} parameters on {fmt(tokens / 1e12, 'trillion')} tokens, {sequences:,}"
        f" sequences of {length:,} tokens a step, in {days} days without a failure. Which step time must stand beside that, if"
        " its parts belong together?",
        right,
        "s",
        mistakes={
            "A step takes sequences times tokens: their length is missing.": days * day / (tokens / sequences),
            "A step takes sequences times tokens: their number is missing.": days * day / (tokens / length),
            "Days have 24 hours of 3,600 s.": days * hour / steps,
        },
        hints=["How many steps are there?", "Time over steps."],
        way=f"{fmt(steps)} steps in {days} days.",
    )


@SET.problem("Days of a run, by hand")
def days(draw: Draw) -> Estimate:
    """A plan on the back of an envelope."""
    size, tokens, gpus = (
        draw.one_of((8, 30, 70, 120, 400)),
        draw.one_of((2, 5, 10, 15)),
        1000 * draw.one_of((1, 2, 4, 8, 16)),
    )
    work, rate = 6 * size * billion * tokens * trillion, gpus * 4e14
    right = work / rate
    draw.require(day < right < 300 * day)
    return Estimate(
        f"{size} billion parameters, {tokens} trillion tokens, {gpus:,} GPUs that usefully do 400 TFLOP/s each. How long is the run?",
        right,
        "s",
        mistakes={
            "The backward pass is missing.": right / 3,
            "You counted servers; those are GPUs.": 8 * right,
            "A day has 86,400 seconds, not 3,600.": 24 * right,
        },
        hints=["6 N D, over all GPUs; a day has about 1e5 seconds."],
        way=f"{rough(work)} FLOP / {rough(rate)} a second is {rough(right)} s, over 1e5 s a day.",
    )


@SET.problem("Who pays for the spares")
def paid(draw: Draw) -> Question:
    """Dollars of a run, when a joint says GPUs paid for = GPUs built."""
    servers = draw.number(128, 2200, 8)
    spares = servers * draw.number(4, 12) // 100
    days, rent = draw.number(20, 120), draw.number(160, 380, 5) / 100
    good = draw.number(80, 96) / 100
    right = 8 * (servers + spares) * days * 24 / good * rent
    return Question(
        f"A run needs {days} days of useful time on {servers:,} servers of eight GPUs. {spares} spare servers stand by and are"
        f" paid too, at ${rent:.2f} a GPU-hour; {fmt(good, '%')} of the time is useful. What does it cost?",
        right,
        "$",
        tolerance=0.008,
        mistakes={
            "Spares are paid for as well: GPUs paid for = GPUs built.": right * servers / (servers + spares),
            "Lost hours are paid too.": right * good,
            "A server has eight GPUs.": right / 8,
        },
        hints=["How many GPUs are paid for, and for how long?", "Useful days over the share that is useful."],
        way=f"{8 * (servers + spares):,} GPUs for {days / good:.1f} days.",
    )


@SET.problem("What binds", points=3)
def binds(draw: Draw) -> Question:
    """GPUs that a hall takes: megawatts, racks, or the batch."""
    watts, pue = draw.number(95, 125) * kW / 10, draw.number(110, 160) / 100
    megawatts, racks, each = draw.number(2, 60) / 2, draw.number(60, 1500, 10), draw.number(1, 4)
    batch = 128 * draw.number(2, 40)
    site = power.capacity(
        power=(megawatts * 1e6 / pue, watts), racks=(racks, 1 / each), batch=(batch, 8)
    )  # in servers; a GPU takes a sequence at least
    right = 8 * float(site.count)
    few = {name: 8 * float(n) for name, n in site.counts.items()}
    no_pue = 8 * math.floor(megawatts * 1e6 / watts)
    draw.require(site.binding == draw.one_of(("power", "racks", "batch")))
    others = [v for v in few.values() if v > right]
    draw.require(bool(others))
    return Question(
        f"A hall has {megawatts:g} MW at the meter, a PUE of {pue:g}, and {racks} racks; a rack takes {each}"
        f" server{'s' * (each > 1)} of eight GPUs, and a server draws {fmt(watts, 'kW')}. The run's batch is {batch:,} sequences,"
        " and a GPU wants one at least. How many GPUs can work?",
        right,
        "GPUs",
        tolerance=0.004,
        mistakes={
            "That is not what binds: take the smallest of the three.": min(others),
            "Those are servers.": right / 8,
            "The PUE is missing: cooling takes its share of the megawatts.": no_pue,
        },
        hints=["Count the servers that each of the three allows.", "The smallest, in whole servers, times 8."],
        way=f"{site.binding.capitalize()}: " + ", ".join(f"{name} {n:,.0f}" for name, n in few.items()) + " GPUs.",
    )


@SET.problem("How sure")
def sure(draw: Draw) -> Question:
    """The upper end of an interval of a product of independent factors."""
    step, prices, life = draw.number(8, 25), draw.number(20, 60), draw.number(10, 40)
    middle = draw.number(20, 90)
    ends = [1 + x / 100 for x in (step, prices, life)]
    right = middle * math.exp(math.sqrt(sum(math.log(end) ** 2 for end in ends)))
    return Question(
        f"A plan costs ${middle}M. Three assumptions multiply it, and are independent: the step law, which in one world of ten"
        f" makes it over {step} % dearer, prices (over {prices} %) and the years of use (over {life} %). Take all as log-normal."
        " Above which cost, in millions, is one world in ten?",
        right,
        "million dollars",
        mistakes={
            "They won't all be unlucky at once: independent logarithms add in squares.": middle * math.prod(ends),
            "That is the largest of them alone.": middle * max(ends),
            "They multiply, so their logarithms add in squares, not their per cents in a line.": middle
            * (1 + (step + prices + life) / 100),
        },
        hints=["Take the logarithm of each factor.", "Their squares add; then the root, and e to it."],
        way=f"exp(sqrt({' + '.join(f'{math.log(e):.3f}²' for e in ends)})) = {right / middle:.3f}.",
    )


@SET.problem("A tighter date", points=1)
def tighter(draw: Draw) -> Question:
    """A choice: what narrows which interval."""
    gpus, days = 1024 * draw.number(2, 32), draw.number(40, 110)
    right = "a benchmark of the step at that size"
    return Question(
        f"Your plan for {gpus:,} GPUs you own says {days} days, and you are asked for a narrower interval of the *date*. What do"
        " you get?",
        right,
        choices={
            "a quotation for the servers": "That narrows the cost. The date doesn't depend on a price.",
            right: "Right. The step law moves the date most, then failures and restarts.",
            "a contract for the price of energy": "Energy is a few per cent of the cost, and nothing of the date.",
            "more worlds drawn at random": "More draws make the interval smoother, not narrower.",
        },
        hints=["Which assumption of the plan multiplies its time?"],
    )


@SET.problem("A plan with a mistake", points=3)
def whole(draw: Draw) -> Flaw:
    """From the model to the bill, with one joint that doesn't hold."""
    size, tokens = draw.number(30, 500, 5) * billion, draw.number(20, 160) * trillion / 10
    gpus, mfu, good = 256 * draw.number(8, 96), draw.number(33, 46) / 100, draw.number(70, 88) / 100
    watts, ratio, rent = draw.number(1150, 1500, 10), draw.number(126, 160) / 100, draw.number(160, 380, 5) / 100
    work, peak = 6 * size * tokens, 989 * TFLOP
    draw.require(3 * day < work / (gpus * peak * mfu) < 300 * day)
    return flawed(
        draw,
        f"{fmt(size / 1e9, 'billion')} parameters, {fmt(tokens / 1e12, 'trillion')} tokens, {gpus:,} GPUs of 989 TFLOP/s (dense). MFU"
        f" {fmt(mfu, '%')}, goodput {fmt(good, '%')}, {watts:,} W of IT a GPU, a PUE of {ratio:g}, ${rent:.2f} a GPU-hour.",
        (
            Line("Work", "FLOP", lambda _: work, {"The backward pass is missing.": lambda _: work / 3}),
            Line(
                "Useful time",
                "s",
                lambda v: v[0] / (gpus * peak * mfu),
                {
                    "That is a sparse peak; training is dense.": lambda v: v[0] / (2 * gpus * peak * mfu),
                    "The MFU is missing.": lambda v: v[0] / (gpus * peak),
                },
            ),
            Line(
                "Time on the calendar",
                "s",
                lambda v: v[1] / good,
                {"Lost time comes on top of the useful.": lambda v: v[1] * good},
            ),
            Line(
                "GPU-hours",
                "GPU-hours",
                lambda v: gpus * v[2] / hour,
                {"GPUs are paid for, not servers of eight.": lambda v: gpus * v[2] / hour / 8},
            ),
            Line(
                "Power at the meter",
                "W",
                lambda _: gpus * watts * ratio,
                {
                    "The PUE is missing.": lambda _: gpus * watts,
                    "The PUE multiplies what IT draws.": lambda _: gpus * watts / ratio,
                },
            ),
            Line("Energy at the meter", "MWh", lambda v: v[4] * v[2]),
            Line("Rent", "$", lambda v: v[3] * rent, {"Rent is of an hour, not of a day.": lambda v: v[3] * rent / 24}),
        ),
        ["6 N D, then over GPUs x peak x MFU, then over the goodput."],
    )


@SET.design("GPUs for a date", "What they cost, spares included")
def date(draw: Draw) -> Step:
    """GPUs for a deadline, then their rent with spares."""
    size, tokens, time = draw.number(30, 420, 5) * billion, draw.number(20, 160) * trillion / 10, draw.number(25, 120)
    mfu, good, spare = draw.number(33, 46) / 100, draw.number(80, 95) / 100, draw.number(3, 12) / 100
    rent = draw.number(160, 380, 5) / 100
    work, peak = 6 * size * tokens, 989 * TFLOP
    gpus = work / (peak * mfu * good * time * day)
    draw.require(500 < gpus < 40_000)

    def paid(found: float) -> float:
        return found * (1 + spare) * time * 24 * rent

    right = paid(gpus)
    first = Question(
        f"{fmt(size / 1e9, 'billion')} parameters on {fmt(tokens / 1e12, 'trillion')} tokens must be done in {time} days, at an MFU of"
        f" {fmt(mfu, '%')} of 989 TFLOP/s and a goodput of {fmt(good, '%')}. How many GPUs must work?",
        gpus,
        "GPUs",
        mistakes={
            "The backward pass is missing.": gpus / 3,
            "Goodput is missing: some of the days are lost.": gpus * good,
            "The MFU is missing.": gpus * mfu,
            "Those are servers of eight.": gpus / 8,
        },
        hints=["6 N D over what a GPU usefully does in that time."],
        way=f"{work:.3g} FLOP / ({fmt(peak * mfu * good, 'TFLOP/s')} x {time} d) = {gpus:,.0f}.",
    )
    second = Question(
        f"{fmt(spare, '%')} more GPUs stand by as spares, and all of them are paid for all {time} days at ${rent:.2f} an hour. What does it"
        " cost?",
        right,
        "$",
        tolerance=0.01,
        mistakes={
            "Spares are paid too.": right / (1 + spare),
            "That is a day.": right / time,
            "Those are servers: each GPU is paid.": right / 8,
        },
        hints=["GPUs that are paid x hours x rent."],
        way=f"{gpus * (1 + spare):,.0f} GPUs for {24 * time:,} hours.",
    )
    return first, second, paid


@SET.essay(
    "A decision",
    {
        "A plan made by `planning.plan` or by hand, with what binds and what one more of it would buy": 2,
        "Its interval, and the assumption that makes most of it": 2,
        "One joint checked in two independent ways": 2,
        "What would change the answer": 2,
    },
)
def decide(draw: Draw) -> str:
    """Open: decide, and say what would change it."""
    megawatts, tokens = draw.number(4, 80), draw.number(4, 16)
    budget, days = draw.number(20, 90, 5), draw.number(40, 150, 5)
    size = draw.one_of(("8B", "70B", "405B"))
    run = scaling.training_run(6 * 70e9 * tokens * trillion, 4096, peak=989 * TFLOP, efficiency=0.4)
    return (
        f"You have {megawatts} MW at a PUE of 1.3, ${budget}M and {days} days. Train Llama 3.1 {size} on {tokens} trillion"
        f" tokens: on H100s or on GB200s, how many, rented or bought? (70B takes 4,096 H100s {fmt(float(run.time), 'd')} at an MFU"
        " of 40 %.) If it can't be done, say which limit you would move, and by how much."
    )
