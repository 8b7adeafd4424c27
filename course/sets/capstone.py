"""The capstone: plan a run on 16k GPUs, and defend it."""

from __future__ import annotations

from clusterlab import failures, power, scaling
from clusterlab.units import GB, TFLOP, billion, day, fmt, hour, kWh, trillion
from course.kinds import Flaw, Line, flawed
from course.problems import Draw, ProblemSet
from explorable import Question

SET = ProblemSet("capstone", "Capstone: a run on 16k GPUs")


class _Plan:
    """One draw of the run that all problems of the capstone ask about, whatever their names."""

    def __init__(self, draw: Draw) -> None:
        self.parameters = draw.number(180, 620, 5) * billion
        self.tokens = draw.number(80, 200) * trillion / 10
        self.gpus = 128 * draw.number(120, 136)
        self.mfu, self.good = draw.number(36, 44) / 100, draw.number(84, 94) / 100
        self.life = draw.number(30_000, 70_000, 500) * hour
        self.storage = draw.number(60, 300, 10) * GB
        self.watts, self.pue = draw.number(1250, 1550, 10), draw.number(112, 135) / 100
        self.rent, self.price = draw.number(180, 320, 5) / 100, draw.number(45, 95) / 1000
        self.run = scaling.training_run(
            6 * self.parameters * self.tokens, self.gpus, peak=989 * TFLOP, efficiency=self.mfu, goodput=self.good
        )

    @property
    def model(self) -> str:
        return f"{fmt(self.parameters / 1e9, 'billion')} parameters on {fmt(self.tokens / 1e12, 'trillion')} tokens"

    @property
    def cluster(self) -> str:
        return f"{self.gpus:,} H100s (989 TFLOP/s dense)"


@SET.problem("Calendar", points=3)
def calendar(draw: Draw) -> Question:
    """Days of the run."""
    p = _Plan(draw.common)
    right = float(p.run.time)
    return Question(
        f"{p.model}, {p.cluster}, MFU {fmt(p.mfu, '%')}, goodput {fmt(p.good, '%')}. How long does the run take?",
        right,
        "s",
        mistakes={
            "The backward pass is missing.": right / 3,
            "Goodput is missing.": right * p.good,
            "The MFU is missing.": right * p.mfu,
        },
        hints=["6 N D over GPUs x peak x MFU x goodput."],
        way=f"{fmt(right, 'd')}.",
    )


@SET.problem("Interruptions", points=3)
def interruptions(draw: Draw) -> Question:
    """Failures of the run."""
    p = _Plan(draw.common)
    days = draw.number(40, 100)
    gap = float(failures.system_mtbf(p.life, p.gpus))
    right = float(failures.expected_failures(days * day, gap).value)
    return Question(
        f"{p.gpus:,} GPUs with an MTTF of {fmt(p.life, 'h', 5)} each, everything included. How many failures do you expect in"
        f" {days} days?",
        right,
        "failures",
        mistakes={"The MTTF is of a GPU; you counted servers.": right / 8, "That is in a day.": right / days},
        hints=["MTBF of the job first."],
        way=f"One every {fmt(gap, 'h')}.",
    )


@SET.problem("Checkpoints", points=3)
def checkpoints(draw: Draw) -> Question:
    """The interval, at this size and storage."""
    p = _Plan(draw.common)
    size = float(failures.checkpoint_size(p.parameters))
    write = float(failures.checkpoint(size, storage_bandwidth=p.storage).stall)
    gap = float(failures.system_mtbf(p.life, p.gpus))
    right = float(failures.young_interval(write, gap))
    return Question(
        f"{fmt(p.parameters / 1e9, 'billion')} parameters, 14 bytes each in a checkpoint, storage of {fmt(p.storage, 'GB/s')},"
        f" blocking; {p.gpus:,} GPUs with an MTTF of {fmt(p.life, 'h', 5)} each. How much work between two checkpoints, by"
        " Young's rule?",
        right,
        "s",
        tolerance=0.03,
        mistakes={
            "Weights alone: Adam's state belongs to it.": float(failures.young_interval(write / 7, gap)),
            "The MTBF of the job, not of a GPU.": float(failures.young_interval(write, p.life)),
            "The MTTF is of a GPU; you counted servers.": float(failures.young_interval(write, 8 * gap)),
        },
        hints=["Write time, then the job's MTBF.", "sqrt(2 x write x MTBF)."],
        way=f"{fmt(size, 'TB')} in {fmt(write, 's')}, a failure every {fmt(gap, 'h')}: {fmt(right, 's')}.",
    )


@SET.problem("Megawatts", points=2)
def megawatts(draw: Draw) -> Question:
    """The site's load."""
    p = _Plan(draw.common)
    right = float(power.facility(power.load(servers=(p.gpus, p.watts)), p.pue).total)
    return Question(
        f"{p.gpus:,} GPUs draw {p.watts:,} W each with their share of server and network; the PUE is {p.pue:g}. What does the"
        " site draw?",
        right,
        "W",
        mistakes={"The PUE is missing.": right / p.pue, "You counted servers.": right / 8},
        hints=["GPUs x watts x PUE."],
        way=f"{fmt(right, 'MW')}.",
    )


@SET.problem("Energy bill", points=2)
def energy(draw: Draw) -> Question:
    """Dollars of electricity in the run."""
    p = _Plan(draw.common)
    days = draw.number(40, 100)
    used = power.energy_footprint(p.gpus * p.watts, days * day, pue=p.pue, price=p.price / kWh)
    right = float(used.cost)
    return Question(
        f"{p.gpus:,} GPUs at {p.watts:,} W each, server and network included, PUE {p.pue:g}, {days} days, ${p.price:g} a kWh."
        " What does the electricity cost?",
        right,
        "$",
        mistakes={"The PUE is missing.": right / p.pue, "That is a day.": right / days},
        hints=["kW x hours x price."],
        way=f"{fmt(used.energy, 'MWh', 4)}.",
    )


@SET.problem("Rent", points=3)
def rent(draw: Draw) -> Question:
    """The whole run, rented."""
    p = _Plan(draw.common)
    right = float(p.run.gpu_time) / hour * p.rent
    return Question(
        f"{p.model}, {p.cluster}, MFU {fmt(p.mfu, '%')}, goodput {fmt(p.good, '%')}, ${p.rent:.2f} a GPU-hour. What does the"
        " run cost?",
        right,
        "$",
        mistakes={"The backward pass is missing.": right / 3, "Lost hours are paid too.": right * p.good},
        hints=["GPU-hours do not depend on the number of GPUs at one MFU."],
        way=f"{fmt(float(p.run.gpu_time) / hour / 1e6, 'million')} GPU-hours.",
    )


@SET.problem("A colleague's plan, with a mistake", points=3)
def colleague(draw: Draw) -> Flaw:
    """The run as somebody else has planned it."""
    p = _Plan(draw.common)
    work, peak = 6 * p.parameters * p.tokens, 989 * TFLOP
    gap = float(failures.system_mtbf(p.life, p.gpus))
    return flawed(
        draw,
        f"A colleague has planned this run: {p.model}, {p.cluster}, MFU {fmt(p.mfu, '%')}, goodput {fmt(p.good, '%')}, storage of {fmt(p.storage, 'GB/s')}, an MTTF of"
        f" {fmt(p.life, 'h', 5)} a GPU, {p.watts:,} W each with all that belongs to it, and a PUE of {p.pue:g}.",
        (
            Line("Work", "FLOP", lambda _: work, {"The backward pass is missing.": lambda _: work / 3}),
            Line(
                "Time on the calendar",
                "s",
                lambda v: v[0] / (p.gpus * peak * p.mfu * p.good),
                {"The MFU is missing.": lambda v: v[0] / (p.gpus * peak * p.good)},
            ),
            Line(
                "MTBF of the job", "s", lambda _: gap, {"The MTTF is of a GPU; a server has eight.": lambda _: 8 * gap}
            ),
            Line(
                "Interruptions", "failures", lambda v: v[1] / v[2], {"Days have 24 hours.": lambda v: v[1] / v[2] / 24}
            ),
            Line(
                "A checkpoint",
                "B",
                lambda _: float(failures.checkpoint_size(p.parameters)),
                {"Master weights and Adam's moments belong to it.": lambda _: 2 * p.parameters},
            ),
            Line(
                "Its write",
                "s",
                lambda v: v[4] / p.storage,
                {"Storage is rated in bytes, not in bits.": lambda v: 8 * v[4] / p.storage},
            ),
            Line(
                "Energy at the meter",
                "MWh",
                lambda v: p.gpus * p.watts * p.pue * v[1],
                {"A server has eight GPUs, and each draws that.": lambda v: p.gpus * p.watts * p.pue * v[1] / 8},
            ),
        ),
        ["Do each line again, from the ones before it."],
    )


@SET.essay(
    "The plan",
    {
        "A layout that fits, with memory by part and the step by part": 4,
        "Goodput by part, with interval, spares and restart chosen and justified": 4,
        "Time, energy and money, each with the assumption that moves it most": 4,
        "The two largest risks, how they would be seen within a week, and what you'd do": 4,
        "Every number has a unit and a computation that runs": 4,
    },
)
def plan(draw: Draw) -> str:
    """The plan itself."""
    p = _Plan(draw.common)
    deadline = round(p.run.time / day * draw.number(80, 130) / 100)
    return (
        f"Plan this run: {p.model}, {p.cluster} in servers of eight with one 400 Gbit/s port a GPU, storage of"
        f" {fmt(p.storage, 'GB/s')}, and a deadline {deadline} days away. Two pages and a notebook: layout, step"
        " time and MFU with its interval, checkpoints, spares, power, bill, and a decision."
    )


@SET.essay(
    "The defence",
    {
        "Answers the doubt with a computation, not with an opinion": 3,
        "Says what the model leaves out, and which way that would push the answer": 3,
        "Names a measurement that would change the plan": 2,
    },
)
def defence(draw: Draw) -> str:
    """One hard question for each student."""
    doubt = draw.one_of(
        (
            "Your fabric is oversubscribed 3:1 above the leaves, nobody told you. What changes, by how much?",
            "The storage reaches a third of its rating when all ranks write at once. What changes?",
            "The MTTF of the first month is half of what you assumed. Which numbers move, and what do you do?",
            "The site can give you only four fifths of the power for the first six weeks. Cap, or fewer GPUs?",
            "FP8 doubles the peak but asks for a week of validation. Is the week worth it?",
            "A competitor claims an MFU of 55 % at this size. Is that plausible? Which part of your step would shrink?",
        )
    )
    return f"In ten minutes and three slides: {doubt}"
