"""Failures: MTBF, checkpoints, goodput, spares."""

from __future__ import annotations

from dataclasses import replace

from clusterlab import failures
from clusterlab.units import GB, billion, day, fmt, hour, minute
from course.kinds import Estimate, Flaw, Line, flawed, rough
from course.problems import Draw, ProblemSet, Step
from explorable import Question

SET = ProblemSet("failures", "Failures: MTBF, checkpoints, goodput")


@SET.problem("The next failure", points=1)
def mtbf(draw: Draw) -> Question:
    """A warm-up: one over n."""
    life, servers = draw.number(20_000, 90_000, 500) * hour, draw.number(64, 4000, 8)
    right = float(failures.system_mtbf(life, 8 * servers))
    return Question(
        f"A job runs on {servers:,} servers of 8 GPUs; the MTTF of a GPU is {fmt(life, 'h', 5)}, everything else included."
        " What is the job's MTBF?",
        right,
        "s",
        mistakes={
            "Each server has eight GPUs.": float(failures.system_mtbf(life, servers)),
            "The MTTF is of a GPU, not of a server.": float(failures.system_mtbf(8 * life, servers)),
        },
        hints=["How many GPUs are there?", "Their rates add."],
        way=f"{fmt(life, 'h', 5)} / {8 * servers:,} = {fmt(right, 's')}.",
    )


@SET.problem("Interruptions, by hand")
def stops(draw: Draw) -> Estimate:
    """GPU-hours over the MTTF of a GPU."""
    gpus, life, days = 1024 * draw.number(2, 32), draw.number(20, 80, 5) * 1000, draw.number(10, 90, 5)
    right = gpus * days * 24 / life
    draw.require(right > 4)
    return Estimate(
        f"A job runs on {gpus:,} GPUs for {days} days. A GPU with all that belongs to it fails every {life:,} hours. How many"
        " interruptions are to be expected?",
        right,
        "failures",
        mistakes={
            "You counted servers; the MTTF is a GPU's.": right / 8,
            "The MTTF counts hours; a day has 24.": right / 24,
        },
        hints=["GPU-hours over hours between failures of one."],
        way=f"{gpus:,} x {24 * days:,} h is about {rough(gpus * days * 24.0)} GPU-hours, over {rough(life)}: {rough(right)}.",
    )


@SET.problem("A quiet night")
def night(draw: Draw) -> Question:
    """Probability of no failure in a window."""
    gap, window = draw.number(20, 240) * hour / 10, draw.number(4, 48) * hour / 2
    some = float(failures.failure_probability(window, gap))
    draw.require(0.05 < some < 0.97)
    return Question(
        f"A job's MTBF is {fmt(gap, 'h')}. What is the chance that it runs for {fmt(window, 'h')} without a failure?",
        1 - some,
        "%",
        tolerance=0.03,
        mistakes={
            "That is the chance of at least one failure.": some,
            "A chance does not grow in a straight line: e^(-t/M), not 1 - t/M.": 1 - window / gap
            if window != gap
            else 2.0,
            "That is window over MTBF, the mean number of failures.": window / gap,
        },
        hints=["Failures at a constant rate: the gaps are exponential.", "P(none) = exp(-t / M)."],
        way=f"exp(-{fmt(window, 'h')} / {fmt(gap, 'h')}) = {fmt(1 - some, '%')}.",
    )


def _job(draw: Draw) -> failures.Job:
    write, gap = draw.number(20, 240, 5), draw.number(20, 200) * hour / 10
    return failures.Job(
        interval=draw.number(10, 60) * minute,
        write=write,
        mtbf=gap,
        detection=draw.number(1, 12) * minute,
        restart=draw.number(2, 20) * minute,
    )


def _told(job: failures.Job) -> str:
    return (
        f"a checkpoint every {fmt(job.interval, 'min')} of work, {fmt(job.write, 's')} to write (blocking), an MTBF of"
        f" {fmt(job.mtbf, 'h')}, {fmt(job.detection, 'min')} to notice a failure, {fmt(job.restart, 'min')} to restart"
    )


@SET.problem("Goodput", points=3)
def goodput(draw: Draw) -> Question:
    """The ledger of a job."""
    job = _job(draw)
    parts = failures.goodput(job).parts
    right = float(parts["useful"])
    draw.require(0.5 < right < 0.97)
    return Question(
        f"A job has {_told(job)}. What share of the time is useful?",
        right,
        "%",
        tolerance=0.004,
        mistakes={
            "Work since the last checkpoint is lost and done again: rework is missing.": right + float(parts["rework"]),
            "Restart and detection are missing.": float(failures.goodput(replace(job, detection=0, restart=0)).useful),
            "The writes are missing.": float(failures.goodput(replace(job, write=0)).useful),
            "Those are the writes alone: failures are missing.": job.interval / (job.interval + job.write),
            "That is what is lost.": 1 - right,
        },
        hints=["Three losses: writes, work done again, and detection with restart.", "`failures.goodput(Job(...))`."],
        way="By part: "
        + ", ".join(f"{name} {fmt(float(part), '%')}" for name, part in parts.items() if part > 0)
        + ".",
    )


@SET.problem("Spares")
def spares(draw: Draw) -> Question:
    """How likely a failure finds none."""
    nodes, life = draw.number(128, 2500, 4), draw.number(3000, 12_000, 100) * hour
    repair = draw.number(1, 10) * day / 2
    kept = draw.number(4, 30)
    pool = failures.spare_pool(kept, nodes=nodes, node_mtbf=life, repair=repair)
    right = float(pool.none_left)
    draw.require(0.02 < right < 0.6)
    per_gpu = failures.spare_pool(kept, nodes=nodes, node_mtbf=life / 8, repair=repair)
    return Question(
        f"A job needs {nodes:,} servers; a server fails every {fmt(life, 'h', 5)} and is repaired in {fmt(repair, 'd')}"
        f" on average. {kept} spares stand by. How likely is it that a failure finds no spare?",
        right,
        "%",
        tolerance=0.04,
        mistakes={
            "The MTTF given is of a server already.": float(per_gpu.none_left),
            "That is the share of time waited.": float(pool.waiting),
            "That is the chance of finding one.": 1 - right,
        },
        hints=["How many servers are in repair on average?", "Erlang's formula B: `failures.spare_pool`."],
        way=f"{fmt(float(pool.load))} servers in repair on average, {kept} spares: {fmt(right, '%')}.",
    )


@SET.problem("Mean and schedule", points=1)
def memoryless(draw: Draw) -> Question:
    """A choice: no failure is overdue."""
    gap = draw.number(2, 9)
    first = float(failures.failure_probability(hour, gap * hour))
    right = f"the same as in any other hour: {fmt(first, '%')}"
    return Question(
        f"A job with an MTBF of {gap} hours, failing at a constant rate, has run {3 * gap} hours without a failure. How likely"
        " is a failure in the next hour?",
        right,
        choices={
            "nearly certain: it is long overdue": "A constant rate has no memory: nothing is ever overdue.",
            right: "Right: 1 - exp(-1/M), whatever went before.",
            "less than before: it has proved itself": "That holds for infant failures, not for a constant rate.",
            f"exactly {fmt(1 / gap, '%')}": "Close to it, but 1 - exp(-t/M) stays below t/M.",
        },
        hints=["What does a constant rate remember?"],
    )


@SET.problem("A budget with a mistake", points=3)
def budget(draw: Draw) -> Flaw:
    """From the MTTF of a GPU to the calendar."""
    gpus, life, size = (
        1024 * draw.number(4, 24),
        draw.number(25, 70, 5) * 1000 * hour,
        draw.number(60, 600, 10) * billion,
    )
    storage, away, days = draw.number(40, 300, 10) * GB, draw.number(5, 25) * minute, draw.number(20, 90)
    gap = life / gpus
    draw.require(failures.young_interval(14 * size / storage, gap) < gap / 3)
    return flawed(
        draw,
        f"{gpus:,} GPUs train {fmt(size / 1e9, 'billion')} parameters, which takes {days} days of useful work. A GPU fails every"
        f" {fmt(life, 'h', 5)}; a checkpoint has 14 bytes a parameter, blocks, and goes to storage of {fmt(storage, 'GB/s')}; to notice"
        f" and restart takes {fmt(away, 'min')}.",
        (
            Line(
                "MTBF of the job",
                "s",
                lambda _: float(failures.system_mtbf(life, gpus)),
                {"The MTTF is of a GPU; a server has eight.": lambda _: 8 * gap},
            ),
            Line(
                "A checkpoint",
                "B",
                lambda _: float(failures.checkpoint_size(size)),
                {"Master weights and Adam's moments belong to it.": lambda _: 2 * size},
            ),
            Line(
                "Its write",
                "s",
                lambda v: float(failures.checkpoint(v[1], storage_bandwidth=storage).stall),
                {"Storage is rated in bytes, not in bits.": lambda v: 8 * v[1] / storage},
            ),
            Line(
                "Work between two, by Young's rule",
                "s",
                lambda v: float(failures.young_interval(v[2], v[0])),
                {
                    "The 2 under the root is missing.": lambda v: (v[2] * v[0]) ** 0.5,
                    "The job's MTBF belongs there, not a GPU's.": lambda v: float(failures.young_interval(v[2], life)),
                },
            ),
            Line(
                "Share lost, to first order",
                "%",
                lambda v: v[2] / v[3] + (v[3] / 2 + away) / v[0],
                {
                    "The writes are missing.": lambda v: (v[3] / 2 + away) / v[0],
                    "Work since the last checkpoint is lost too.": lambda v: v[2] / v[3] + away / v[0],
                },
            ),
            Line("On the calendar", "s", lambda v: days * day / (1 - v[4])),
        ),
        [
            "Rates add, so the job's MTBF is a GPU's over their number.",
            "Lost: write / interval + (interval / 2 + restart) / MTBF.",
        ],
    )


@SET.design("How long a write stops it", "How often to write")
def save(draw: Draw) -> Step:
    """Checkpoint size and write time, then Young's rule."""
    size, storage, gap = (
        draw.number(30, 1200, 5) * billion,
        draw.number(20, 400, 5) * GB,
        draw.number(15, 120) * hour / 10,
    )
    write = float(failures.checkpoint(failures.checkpoint_size(size), storage_bandwidth=storage).stall)
    right = float(failures.young_interval(write, gap))
    draw.require(write > 2 and right > 4 * write)
    first = Question(
        f"A model of {fmt(size / 1e9, 'billion', 4)} parameters checkpoints 14 bytes a parameter to storage of"
        f" {fmt(storage, 'GB/s')}; training stops meanwhile. How long does it stop?",
        write,
        "s",
        mistakes={
            "Weights alone: master weights and Adam's moments belong to the checkpoint.": write / 7,
            "Bits for bytes: storage is rated in bytes.": 8 * write,
        },
        hints=["Bytes of the checkpoint over bytes a second."],
        way=f"{fmt(14 * size, 'TB')} / {fmt(storage, 'GB/s')} = {fmt(write, 's')}.",
    )
    second = Question(
        f"The job's MTBF is {fmt(gap, 'h')}. How much work should lie between two checkpoints, by Young's rule?",
        right,
        "s",
        tolerance=0.03,
        mistakes={
            "The 2 under the root is missing.": right / 2**0.5,
            "Write and MTBF stand under the root together.": 2 * write * gap,
            "That is the MTBF: by then a failure is likely.": gap,
        },
        hints=["sqrt(2 x write x MTBF)."],
        way=f"sqrt(2 x {fmt(write, 's')} x {fmt(gap, 'h')}) = {fmt(right, 's')}.",
    )
    return first, second, lambda found: float(failures.young_interval(found, gap))


@SET.essay(
    "A policy for the night shift",
    {
        "The present goodput by part, computed": 2,
        "Ranks three remedies by points of goodput for their price": 2,
        "States what would be measured for a month, and which number would change the ranking": 2,
    },
)
def policy(draw: Draw) -> str:
    """Open: a ranking of remedies."""
    job, gpus = _job(draw), 1024 * draw.one_of((4, 8, 16, 24))
    return (
        f"You run {gpus:,} GPUs at $2 an hour with {_told(job)}. You may buy one of these for $150,000 a month: storage twice"
        " as fast; a health check that halves detection and restart; a driver update that makes the MTBF 15 % longer. Rank them for this job, and say where the order would turn."
    )
