"""Scaling: Amdahl, efficiency rules, the chain from peak to useful, batches, GPUs for a budget."""

from __future__ import annotations

from clusterlab import scaling
from clusterlab.units import TFLOP, billion, day, fmt, hour, million, trillion
from course.problems import Draw, ProblemSet
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


@SET.problem("From two measurements")
def doubling(draw: Draw) -> Question:
    """Carry an efficiency to a larger size."""
    small, first = draw.one_of((64, 96, 128, 256)), draw.number(440, 560) / 1000
    large = small * draw.one_of((8, 16, 32))
    second = first * (1 - draw.number(40, 220) / 1000)
    target = large * draw.one_of((4, 8))
    kept = float(scaling.kept_per_doubling((small, first), (large, second)))
    right = float(scaling.geometric_efficiency(target, at=small, efficiency=first, kept=kept))
    draw.require(right < 0.97 * second)
    drop = first - second
    straight = first - drop * (target - small) / (large - small)
    return Question(
        f"A stack reaches an MFU of {fmt(first, '%')} on {small} GPUs and {fmt(second, '%', 4)} on {large:,}. If each doubling"
        f" keeps the same share, what does it reach on {target:,}?",
        right,
        "%",
        tolerance=0.006,
        mistakes={
            "That is the efficiency of the larger measurement.": second,
            "That loses the same once more, not the same share a doubling.": first - 2 * drop,
            "A straight line in GPUs: efficiency falls with doublings.": straight,
        },
        hints=[
            "How many doublings lie between the two measurements?",
            "The share a doubling keeps, then on from there.",
        ],
        way=f"A doubling keeps {fmt(kept, '%', 4)}; at {target:,} GPUs {fmt(right, '%')} are left.",
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


@SET.problem("The bill")
def bill(draw: Draw) -> Question:
    """GPU-hours and dollars."""
    parameters, tokens = draw.number(7, 420) * billion, draw.number(10, 160) * trillion / 10
    count, mfu, good = 512 * draw.number(2, 48), draw.number(33, 48) / 100, draw.number(84, 97) / 100
    rent = draw.number(150, 400, 5) / 100
    run = scaling.training_run(6 * parameters * tokens, count, peak=989 * TFLOP, efficiency=mfu, goodput=good)
    right = float(run.gpu_time) / hour * rent
    return Question(
        f"{fmt(parameters / 1e9, 'billion')} parameters, {fmt(tokens / 1e12, 'trillion')} tokens, {count:,} GPUs of 989 TFLOP/s at"
        f" {fmt(mfu, '%')} MFU and {fmt(good, '%')} goodput, ${rent:.2f} a GPU-hour. What does the run cost?",
        right,
        "$",
        mistakes={
            "The backward pass is missing.": right / 3,
            "Goodput is missing: lost hours are paid too.": right * good,
            "Those are hours of a server of eight.": right / 8,
            "That is a single GPU's hours at the full peak.": right * mfu,
        },
        hints=["GPU-seconds: FLOPs over what one GPU usefully does.", "Divide by 3,600, times the rent."],
        way=f"{fmt(float(run.gpu_time) / hour / 1e6, 'million')} GPU-hours.",
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
