"""Scaling: Amdahl, efficiency rules, the chain from peak to useful, batches, GPUs for a budget."""

from __future__ import annotations

from clusterlab import scaling
from clusterlab.units import TFLOP, billion, day, fmt, hour, million, trillion
from course.kinds import Estimate, Flaw, Line, flawed, rough
from course.problems import Draw, ProblemSet, Step
from explorable import Question

SET = ProblemSet("scaling", "Scaling: what more GPUs bring")


@SET.problem("Amdahl", points=1)
def amdahl(draw: Draw) -> Question:
    """A warm-up: the speedup of a fixed job."""
    serial, n = draw.number(2, 90) / 1000, 2 ** draw.number(3, 12)
    right = float(scaling.amdahl_speedup(serial, n))
    return Question(
        f"{fmt(serial, '%')} of a job's time on one GPU cannot be shared out. How many times faster than one do {n:,} GPUs run it?",
        right,
        "",
        mistakes={
            "That is the limit for endlessly many GPUs.": 1 / serial,
            "That is Gustafson's: the job grew with the GPUs.": float(scaling.gustafson_speedup(serial, n)),
            "That is the efficiency, speedup over GPUs.": right / n,
        },
        hints=["Time on n: s + (1 - s)/n.", "The speedup is one over it."],
        way=f"1 / ({serial:g} + {1 - serial:g}/{n}) = {fmt(right)}.",
    )


@SET.problem("The rent of a run, by hand")
def rent(draw: Draw) -> Estimate:
    """FLOPs to GPU-hours to dollars."""
    size, tokens, price = draw.one_of((8, 30, 70, 120, 400)), draw.one_of((1, 2, 5, 10, 15)), draw.one_of((2, 2.5, 3))
    work = 6 * size * billion * tokens * trillion
    hours = work / (4e14 * hour)
    right = hours * price
    draw.require(right > 2e4)
    return Estimate(
        f"A dense model of {size} billion parameters trains on {tokens} trillion tokens, on GPUs that reach 400 TFLOP/s each, goodput"
        f" included, and cost ${price:g} an hour. What does the run cost?",
        right,
        "$",
        mistakes={
            "The backward pass is missing.": right / 3,
            "GPUs are rented by the hour, not by the second.": 3600 * right,
            "You counted servers of eight.": right / 8,
        },
        hints=["6 N D, over what a GPU does in an hour."],
        way=f"6 x {size:g}e9 x {tokens:g}e12 = {rough(work)} FLOP; an hour of a GPU does 1.4e18: {rough(hours)} GPU-hours.",
    )


@SET.problem("From peak to useful")
def chain(draw: Draw) -> Question:
    """A product of factors."""
    gpus, peak = 1024 * draw.number(2, 32), draw.number(300, 2300, 10) * TFLOP
    mfu, good, ran = draw.number(33, 50) / 100, draw.number(80, 96) / 100, draw.number(80, 97) / 100
    whole = scaling.chain(gpus * peak, mfu=mfu, goodput=good, utilisation=ran)
    right = float(whole.result)
    return Question(
        f"{gpus:,} GPUs, whose datasheet prints {fmt(2 * peak, 'TFLOP/s', 4)} with sparsity. MFU {fmt(mfu, '%')}, goodput"
        f" {fmt(good, '%')}, and jobs run {fmt(ran, '%')} of the time. How much useful work does the cluster do?",
        right,
        "FLOP/s",
        mistakes={
            "That is the sparse peak; training is dense.": 2 * right,
            "Losses multiply: they do not add.": gpus * peak * (mfu - (1 - good) - (1 - ran)),
            "Goodput is missing.": right / good,
            "The time without a job is missing.": right / ran,
        },
        hints=["What is the dense peak?", "Multiply the shares."],
        way=f"{fmt(gpus * peak, 'EFLOP/s')} x {mfu:g} x {good:g} x {ran:g} = {fmt(right, 'EFLOP/s')}.",
    )


@SET.problem("A larger batch")
def batch(draw: Draw) -> Question:
    """Time saved against tokens paid."""
    critical, b = draw.number(2, 16) * million, draw.number(3, 60) * million / 2
    tokens = draw.number(2, 20) * trillion
    cost = scaling.batch_cost(b, critical)
    right = float(cost.tokens) * tokens
    return Question(
        f"With small batches a run needs {fmt(tokens / 1e12, 'trillion')} tokens. The critical batch is"
        f" {fmt(critical / 1e6, 'million')} tokens. How many tokens does it need with batches of {fmt(b / 1e6, 'million')}?",
        right / 1e12,
        "trillion tokens",
        mistakes={
            "That is the steps' factor: fewer steps, more tokens.": float(cost.steps) * tokens / 1e12,
            "That is what is added.": b / critical * tokens / 1e12,
            "At the critical batch it is twice; this batch is another.": 2 * tokens / 1e12,
        },
        hints=["E / E_min = 1 + B / B_crit."],
        way=f"1 + {fmt(b / 1e6)} / {fmt(critical / 1e6)} = {fmt(float(cost.tokens))} times {fmt(tokens / 1e12, 'trillion')}.",
    )


@SET.problem("GPUs for a deadline", points=3)
def gpus(draw: Draw) -> Question:
    """How many GPUs finish in time, when efficiency falls."""
    parameters, tokens = draw.number(30, 420, 5) * billion, draw.number(20, 160) * trillion / 10
    time, good = draw.number(40, 120) * day, draw.number(82, 96) / 100
    first, drop = draw.number(52, 66) / 100, draw.number(10, 22) / 1000
    peak, work = 989 * TFLOP, 6 * parameters * tokens

    def rule(n):
        return scaling.logarithmic_efficiency(n, first=first, drop=drop)

    budget = {"peak": peak, "most": 2**17}
    flat = work / (peak * first * good * time)
    draw.require(flat < 30_000)
    right = float(scaling.gpus_needed(work, time, efficiency=rule, goodput=good, **budget))
    draw.require(1000 < right < 60_000)
    return Question(
        f"{fmt(parameters / 1e9, 'billion')} parameters, {fmt(tokens / 1e12, 'trillion')} tokens, {fmt(time, 'd')}, a goodput of"
        f" {fmt(good, '%')}. MFU is {fmt(first, '%')} on one GPU of {fmt(peak, 'TFLOP/s')} and falls by {fmt(100 * drop)} points"
        " with every doubling. How many GPUs do you need?",
        right,
        "GPUs",
        mistakes={
            "That is at the MFU of one GPU: it falls with every doubling.": flat,
            "Goodput is missing.": float(scaling.gpus_needed(work, time, efficiency=rule, **budget)),
            "The backward pass is missing.": float(
                scaling.gpus_needed(work / 3, time, efficiency=rule, goodput=good, **budget)
            ),
        },
        hints=["Guess n, take its MFU, see what it gives, guess again.", "`speedup.gpus_needed` does it by bisection."],
        way=f"At {right:,.0f} GPUs the MFU is {fmt(float(rule(right)), '%')}.",
    )


@SET.problem("Strong or weak", points=1)
def kind(draw: Draw) -> Question:
    """A choice: what doubling means."""
    n = 2 ** draw.number(9, 14)
    right = "strong scaling: each replica gets half the sequences, and fixed costs weigh twice as much"
    return Question(
        f"A run keeps its global batch of {draw.number(4, 32)} million tokens and goes from {n:,} to {2 * n:,} GPUs by doubling"
        " data parallelism. What happens?",
        right,
        choices={
            "weak scaling: twice the work in the same time": "The batch stayed: the work of a step did too.",
            right: "Right. Fewer microbatches a pipeline, the same all-reduce: efficiency falls.",
            "nothing: the GPUs are independent": "They all-reduce gradients each step, and share one batch.",
            "the loss falls faster for each token": "The batch is the same, so each token teaches as much as before.",
        },
        hints=["What grew, and what stayed?"],
    )


@SET.problem("A GPU of your own, with a mistake", points=3)
def owned(draw: Draw) -> Flaw:
    """What an hour of use costs who owns it."""
    server, hall, rate = draw.number(24, 60) * 1000, draw.number(12, 40) * 1000, draw.number(9, 14) / 100
    watts, price, staff = draw.number(1200, 1900, 20), draw.number(40, 120, 5) / 1000, draw.number(8, 40) * 100
    used, run = draw.number(50, 78) / 100, draw.number(2, 60)
    year, hours = 365.25 * day, 365.25 * 24

    def yearly(capital: float, life: int) -> float:
        return float(scaling.annuity(capital, rate=rate, life=life * year))

    return flawed(
        draw,
        f"A GPU of your own: ${server:,} for its share of server and network, which lasts 5 years, ${hall:,} for its share of the hall, which"
        f" lasts 14; money costs {fmt(rate, '%')} a year. It draws {watts:,} W at the meter all year, at ${price:g} a kWh; staff and repairs"
        f" take ${staff:,} a year. It's used {fmt(used, '%')} of its 8,766 hours.",
        (
            Line(
                "Server, a year",
                "$",
                lambda _: yearly(server, 5),
                {
                    "Interest is missing.": lambda _: server / 5,
                    "A server doesn't last as long as a hall.": lambda _: yearly(server, 14),
                },
            ),
            Line(
                "Hall, a year",
                "$",
                lambda _: yearly(hall, 14),
                {
                    "A hall outlives the servers: it is paid off over its own life.": lambda _: yearly(hall, 5),
                    "Interest is missing.": lambda _: hall / 14,
                },
            ),
            Line(
                "Electricity, a year",
                "$",
                lambda _: watts / 1000 * hours * price,
                {"It draws day and night.": lambda _: watts / 1000 * hours / 2 * price},
            ),
            Line(
                "All, a year",
                "$",
                lambda v: v[0] + v[1] + v[2] + staff,
                {"The hall is missing.": lambda v: v[0] + v[2] + staff},
            ),
            Line(
                "An hour of use",
                "$",
                lambda v: v[3] / (hours * used),
                {"Idle hours are paid too: the used ones carry them.": lambda v: v[3] / hours},
            ),
            Line(f"A run of {run} million GPU-hours", "$", lambda v: v[4] * run * million),
        ),
        ["A capital costs an annuity each year of its own life: `scaling.annuity`."],
    )


@SET.design("The efficiency at four times the size", "The days that it leaves")
def onward(draw: Draw) -> Step:
    """Carry an efficiency to a larger size, then the time of a run there."""
    small, first_mfu = draw.one_of((128, 256, 512)), draw.number(440, 560) / 1000
    large = small * draw.one_of((4, 8, 16))
    second_mfu, target = first_mfu * (1 - draw.number(60, 220) / 1000), 4 * large
    size, tokens = draw.number(30, 400, 5) * billion, draw.number(10, 120) * trillion / 10
    kept = float(scaling.kept_per_doubling((small, first_mfu), (large, second_mfu)))
    right = float(scaling.geometric_efficiency(target, at=small, efficiency=first_mfu, kept=kept))
    work, peak = 6 * size * tokens, target * 989 * TFLOP
    time = work / (peak * right)
    draw.require(right < 0.97 * second_mfu and day < time < 300 * day)
    first = Question(
        f"A stack reaches an MFU of {fmt(first_mfu, '%')} on {small} GPUs and {fmt(second_mfu, '%', 4)} on {large:,}. If each doubling keeps"
        f" the same share, what does it reach on {target:,}?",
        right,
        "%",
        tolerance=0.006,
        mistakes={
            "That is the efficiency of the larger measurement.": second_mfu,
            "That loses the same once more, not the same share a doubling.": 2 * second_mfu - first_mfu,
            "A straight line in GPUs: efficiency falls with doublings.": first_mfu
            - (first_mfu - second_mfu) * (target - small) / (large - small),
        },
        hints=["How many doublings lie between the two measurements?"],
        way=f"A doubling keeps {fmt(kept, '%', 4)}; at {target:,} GPUs {fmt(right, '%')} are left.",
    )
    second = Question(
        f"At that MFU, {target:,} GPUs of 989 TFLOP/s train {fmt(size / 1e9, 'billion')} parameters on {fmt(tokens / 1e12, 'trillion')}"
        " tokens. How long does it take?",
        time,
        "s",
        mistakes={
            "The backward pass is missing.": time / 3,
            "The MFU is missing.": time * right,
            "A sparse peak is twice too high.": time / 2,
        },
        hints=["6 N D over GPUs x peak x MFU."],
        way=f"{work:.3g} FLOP / {fmt(peak * right, 'EFLOP/s')} = {fmt(time, 'd')}.",
    )
    return first, second, lambda found: work / (peak * found)


@SET.essay(
    "Twice the GPUs?",
    {
        "Computes time and bill before and after, with the efficiency that was assumed": 2,
        "States the marginal return and where it falls below one half": 2,
        "Names what would have to be measured first": 1,
    },
)
def twice(draw: Draw) -> str:
    """Open: a request from above."""
    n, now, left = 1024 * draw.number(4, 16), draw.number(36, 46), draw.number(40, 120, 5)
    return (
        f"Your run on {n:,} GPUs reaches an MFU of {now} % and has {left} days to go. You're offered the same number of GPUs"
        " again, at the same price. Should you take them? Say what you assume about efficiency, batch and failures."
    )
