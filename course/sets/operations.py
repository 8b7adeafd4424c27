"""Operations: storage, bursts, the slowest rank, timeouts, drains, symptoms."""

from __future__ import annotations

import numpy as np

from clusterlab import failures, operations
from clusterlab.units import GB, day, fmt, hour, minute
from course.kinds import Estimate, Flaw, Line, flawed, rough
from course.problems import Draw, ProblemSet, Step
from explorable import Question

SET = ProblemSet("operations", "Operations: feed it, share it, watch it")


@SET.problem("What a job reads", points=1)
def reads(draw: Draw) -> Question:
    """A warm-up: samples, bytes, seconds."""
    gpus, each = 64 * draw.number(2, 32), draw.number(8, 200, 4)
    size, step = draw.number(60, 3000, 20) * 1e3, draw.number(15, 90) / 100
    right = float(operations.reading_rate(gpus * each, size, step))
    return Question(
        f"{gpus:,} GPUs train on images of {fmt(size, 'kB')}, {each} of them on each GPU in a step of {fmt(step, 's')}. How fast"
        " must storage deliver, if no GPU is to wait?",
        right,
        "B/s",
        mistakes={
            "That is one GPU's share.": float(operations.reading_rate(each, size, step)),
            "Those are the bytes of a step, not of a second.": float(operations.reading_rate(gpus * each, size, 1)),
            "Bytes are asked for, not bits.": 8 * right,
        },
        hints=["Samples of a step: GPUs x samples of each.", "Times bytes, over the step's time."],
        way=f"{gpus * each:,} x {fmt(size, 'kB')} / {fmt(step, 's')} = {fmt(right, 'GB/s')}.",
    )


@SET.problem("What a pause costs, by hand")
def pause(draw: Draw) -> Estimate:
    """Minutes that all GPUs wait, in dollars a month."""
    gpus, rent = 1024 * draw.number(2, 24), draw.one_of((2, 2.5, 3, 4))
    minutes, every = draw.number(10, 40, 5), draw.number(3, 12)
    right = gpus * rent * 720 * minutes / (60 * every)
    return Estimate(
        f"{gpus:,} GPUs at ${rent:g} an hour stand still for {minutes} minutes every {every} hours. What does that cost in a month of 30"
        " days?",
        right,
        "$",
        mistakes={
            "That is a day.": right / 30,
            "You counted servers: every GPU waits.": right / 8,
            "They stand still for a part of the time, not all of it.": gpus * rent * 720.0,
        },
        hints=["Rent of a month, times the share of the time."],
        way=f"{gpus:,} x ${rent:g} x 720 h is about ${rough(gpus * rent * 720)}; of it {rough(minutes / (60 * every))}.",
    )


@SET.problem("A checkpoint meets the data")
def burst(draw: Draw) -> Question:
    """How long a prefetch lasts while a checkpoint is written."""
    demand, buffered = draw.number(20, 240, 5), draw.number(2, 40)
    capacity, others = draw.number(100, 500, 10), draw.number(2, 9)
    got = float(operations.fair_shares(np.array([demand, *[1e6] * others]) * GB, capacity * GB)[0])
    draw.require(got < 0.9 * demand * GB and capacity / others < 0.97 * demand)
    held = buffered * demand * GB / 10
    right = float(operations.time_to_starve(held, demand=demand * GB, supply=got))
    return Question(
        f"A job reads {demand} GB/s and has {fmt(held, 'GB', 4)} read ahead. Then {others} other jobs write checkpoints as fast as"
        f" they're let, to the same file system of {capacity} GB/s, which shares fairly between the {others + 1} jobs. For how"
        " long can the job go on before its GPUs wait?",
        right,
        "s",
        mistakes={
            "It still gets its fair share: the buffer empties at what is missing.": float(
                operations.time_to_starve(held, demand=demand * GB, supply=0)
            ),
            "That is the time to read the buffer, not to empty it.": held / got,
            "The reader takes a share too.": float(
                operations.time_to_starve(held, demand=demand * GB, supply=capacity * GB / others)
            ),
        },
        hints=["What does the job get now?", "Bytes read ahead over what is missing each second."],
        way=f"It gets {fmt(got, 'GB/s')}, so {fmt(demand * GB - got, 'GB/s')} are missing.",
    )


@SET.problem("The slowest of n")
def ranks(draw: Draw) -> Question:
    """GPUs' worth of work lost to one slow rank, and to noise."""
    gpus, slow, spread = 512 * draw.number(2, 48), draw.number(8, 35), draw.number(1, 5) / 1000
    draw.require(float(operations.slowest(gpus, spread=spread)) < 1 + slow / 100)
    right = gpus * (1 - 1 / (1 + slow / 100))
    return Question(
        f"{gpus:,} GPUs step together. One computes {slow} % longer than the others, always; noise is below that. How many GPUs'"
        " worth of work is lost, compared with a step of the others' length?",
        right,
        "GPUs",
        mistakes={
            "All the others wait for it, not only the slow one.": 1 - 1 / (1 + slow / 100),
            "A step that takes 1 + s times as long does 1/(1 + s) of the work, not 1 - s.": gpus * slow / 100,
            "That is in servers of eight.": right / 8,
        },
        hints=["How much longer is a step?", "Work lost: 1 - 1 / (1 + s), of all GPUs."],
        way=f"{fmt(1 - 1 / (1 + slow / 100), '%')} of {gpus:,}.",
    )


@SET.problem("Set the timeout", points=3)
def timeout(draw: Draw) -> Question:
    """The loss at the best timeout."""
    job = {
        "pause": draw.number(5, 60),
        "every": draw.number(4, 15) * minute,
        "mtbf": draw.number(4, 32) * hour / 4,
        "restart": draw.number(6, 30) * minute,
    }
    best = float(operations.best_timeout(**job))
    draw.require(best > 3 * job["pause"])
    kept = operations.heartbeat(best, **job)
    right = float(kept.lost)
    default = float(operations.heartbeat(600, **job).lost)
    draw.require(0.006 < right < 0.3 and default < 0.95)
    return Question(
        f"A rank hangs every {fmt(job['mtbf'], 'h')}. Healthy ranks pause for {job['pause']} s on average (exponential), every"
        f" {fmt(job['every'], 'min')}; a stop costs {fmt(job['restart'], 'min')}. What share of the time is lost with the best"
        " timeout, to late alarms and false ones together?",
        right,
        "%",
        tolerance=0.03,
        mistakes={
            "That is with ten minutes, the usual default.": default,
            "False alarms are missing.": float(kept.late),
            "That is what the false alarms cost alone.": float(kept.false),
        },
        hints=["T* = pause x ln(R M / (every x pause)).", "lost = T / M + (R / every) e^(-T / pause)."],
        way=f"T* = {fmt(best, 's')}; late {fmt(float(kept.late), '%')}, false {fmt(float(kept.false), '%')}.",
    )


@SET.problem("Read the symptom", points=1)
def symptom(draw: Draw) -> Question:
    """A choice: what slows an all-reduce."""
    n, late = draw.number(32, 512, 8), draw.number(3, 20)
    right = "a late rank: all sizes wait for it alike"
    return Question(
        f"An all-reduce over {n} servers takes {late} ms longer than it should, at 8 kB, at 8 MB and at 1 GB alike. What do you"
        " look for?",
        right,
        choices={
            "a port at half its rate": "That doubles large buffers and leaves small ones alone.",
            "a detour that doubles the latency": f"That adds 2(n - 1) hops of microseconds to each size: less than"
            f" {fmt(2 * (n - 1) * 5e-6, 'ms')} with 5 µs a hop, and it hardly shows at 1 GB.",
            right: "Right. Time the compute before it, and look for the rank with the shortest all-reduce.",
            "oversubscription above the leaves": "That slows large buffers by a whole factor.",
        },
        hints=["What grows with the bytes, what with the hops, what with neither?"],
    )


@SET.problem("A repair shop with a mistake", points=3)
def shop(draw: Draw) -> Flaw:
    """From failures of servers to what a job loses."""
    servers, life, repair = draw.number(200, 3000, 20), draw.number(2000, 9000, 100), draw.number(2, 10)
    false, hands, stop = draw.one_of((0.5, 0.6, 0.7, 0.75, 0.8)), draw.number(5, 30) / 10, draw.number(15, 60, 5)
    share = draw.number(20, 70, 5)
    used = servers * share // 100
    draw.require(servers * 24 / life * stop * minute * share / 100 < 0.5 * day)
    return flawed(
        draw,
        f"A cluster of {servers:,} servers of eight GPUs; one fails every {life:,} hours of its own and is away for {repair} days."
        f" {fmt(false, '%')} of the alarms are false. Looking after an alarm takes a technician {hands:g} h. A job on {used:,} of the servers"
        f" stops for {stop} minutes when one of its own fails.",
        (
            Line(
                "Failures a day",
                "failures",
                lambda _: servers * 24 / life,
                {"The rate is a server's, not a GPU's.": lambda _: 8 * servers * 24 / life},
            ),
            Line(
                "Servers away, on average",
                "servers",
                lambda v: v[0] * repair,
                {"Each stays away for days, not for one: Little's law.": lambda v: v[0]},
            ),
            Line(
                "Alarms a day",
                "alarms",
                lambda v: v[0] / (1 - false),
                {"The false ones come on top of the true ones.": lambda v: v[0]},
            ),
            Line(
                "Hours of technicians a day",
                "hours",
                lambda v: v[2] * hands,
                {"A false alarm takes as long as a true one.": lambda v: v[0] * hands},
            ),
            Line(
                "Share of the time that the job stands",
                "%",
                lambda v: v[0] * used / servers * stop * minute / day,
                {"The job stops for its own servers alone.": lambda v: v[0] * stop * minute / day},
            ),
            Line(
                "GPUs' worth of work lost to that",
                "GPUs",
                lambda v: v[4] * 8 * used,
                {"A server has eight GPUs.": lambda v: v[4] * used},
            ),
        ),
        ["Servers away = failures a day x days away."],
    )


@SET.design("What a canary can see", "The chance that it sees nothing")
def canary(draw: Draw) -> Step:
    """A slow bug in new firmware: expected strikes, then the chance of none."""
    bug, servers, soak = draw.number(500, 6000, 50), draw.number(4, 64, 2), draw.number(6, 96, 2)
    strikes = servers * soak / bug
    draw.require(0.1 < strikes < 3)
    right = float(1 - failures.failure_probability(servers * soak * hour, bug * hour))
    first = Question(
        f"New firmware has a bug that strikes once in {bug:,} server-hours. A canary of {servers} servers runs it for {soak} hours. How many"
        " strikes are to be expected?",
        strikes,
        "strikes",
        mistakes={
            "That is one server's share.": soak / bug,
            "That is upside down.": bug / (servers * soak),
            "Server-hours are counted, not GPU-hours.": 8 * strikes,
        },
        hints=["Server-hours that ran, over server-hours of a strike."],
        way=f"{servers} x {soak} / {bug:,} = {fmt(strikes)}.",
    )
    second = Question(
        "The bug strikes at a constant rate. What is the chance that the canary sees nothing of it, and the firmware goes everywhere?",
        right,
        "%",
        mistakes={
            "That is the chance to see it.": 1 - right,
            "A chance doesn't fall in a straight line: e^-x, not 1 - x.": 1 - strikes if strikes != 1 else 3.0,
        },
        hints=["No strike at all: e to the minus of what is expected."],
        way=f"e^-{strikes:.3g} = {fmt(right, '%')}.",
    )
    return first, second, lambda found: float(np.exp(-found))


@SET.essay(
    "Busy, and slow",
    {
        "A chain of shares from allocated to useful, each with its law and its assumption": 2,
        "Ranks three repairs by GPUs brought back for their price": 2,
        "Names for each repair the measurement that would show it worked": 2,
        "Says which loss it can't tell apart from the outside": 1,
    },
)
def busy(draw: Draw) -> str:
    """Open: a cluster that is busy and a run that is slow."""
    gpus, share, slow = 512 * draw.number(2, 16), draw.number(85, 95), draw.number(20, 40)
    return (
        f"The dashboard of your {gpus:,} GPUs says {share} % allocated; the largest run is {slow} % slower than planned. Batches"
        f" are read {draw.one_of((1, 2))} ahead, one read in {draw.number(10, 40)} takes {draw.number(3, 6)} times a step, steps"
        f" vary by {draw.number(1, 4)} %, the timeout is ten minutes and a rank hangs every {draw.number(2, 12)} hours. A week of"
        " one engineer is yours. What do you do first, and how many GPUs do you expect back?"
    )
