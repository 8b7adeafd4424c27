"""Loops: how many GPUs, days and dollars a model's post-training takes, and which of them write and which learn."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from ..catalogue import SERVING, Machine, machine
from ..checks import Numeric, nonnegative, positive, whole
from ..model import PRECISIONS, Layout, Transformer, Workload, transformer
from ..parallelism import search
from ..post_training import LOOP_CONSTANTS, SCHEDULES, Iteration, Lengths, Loop, iterate
from ..quantities import Amount, Count, Dollars, Number, Seconds
from ..records import Explained, Predicted, Rows, summary
from ..serving import Formats, Replica, saturation, violations
from .result import InfeasibleError

_RANKS = (1, 2, 4, 8, 16, 32)  # sizes of a replica that are tried


@dataclass(frozen=True, repr=False)
class PostTraining(Explained):
    """What is to be learned, and from how many attempts.

    Parameters
    ----------
    model : Transformer or str
        A shape, or the name of one in the catalogue.
    prompts, group
        Prompts of an iteration, and samples of each.
    lengths : Lengths
        Of the answers, with a limit. Training packs them end to end.
    iterations
        Updates of the weights that the writers get.
    prompt
        Tokens of a prompt.
    writes : str
        Number format in which answers are written: ``"bf16"`` or ``"fp8"``.

    Examples
    --------
    >>> PostTraining("Qwen3 32B", 64, 16, Lengths(4000, limit=16384), iterations=1000).samples
    1024.0
    """

    model: Transformer
    prompts: Count
    group: Count
    lengths: Lengths
    iterations: Count
    prompt: Number = 100
    writes: str = "bf16"

    def __post_init__(self) -> None:
        """Look up the model, and refuse what nobody asks."""
        if not isinstance(self.model, Transformer):
            object.__setattr__(self, "model", transformer(self.model))
        whole(prompts=self.prompts, group=self.group, iterations=self.iterations)
        positive(prompt=self.prompt)
        if self.writes not in PRECISIONS:
            raise ValueError(f"writes must be one of {', '.join(PRECISIONS)}; got {self.writes!r}")
        if self.lengths.limit is None:
            raise ValueError("lengths must have a limit, got None")

    @property
    def samples(self) -> Number:
        """Answers of an iteration."""
        return float(self.prompts * self.group)

    def _rows(self) -> Rows:
        rows = [("", "value"), ("model", self.model.name), ("answers", f"{self.prompts:,} x {self.group:,}")]
        rows += [("tokens of one", summary(self.lengths.written)), ("limit", summary(self.lengths.limit))]
        return [*rows, ("iterations", summary(self.iterations))]


@dataclass(frozen=True, repr=False)
class LoopPlan(Predicted):
    """A loop that does what was asked: its days and dollars, with the interval of an iteration."""

    asked: PostTraining
    loop: Loop
    iteration: Iteration
    rent: Amount

    _follow: ClassVar = {"cost": ("$", 1), "iteration_time": ("s", 1)}

    @property
    def gpus(self) -> Number:
        """All GPUs."""
        return self.loop.gpus

    @property
    def staleness(self) -> Amount:
        """Versions that the weights have moved on between the start of an answer and the step that learns from it."""
        return self.iteration.staleness

    @property
    def time(self) -> Seconds:
        """Seconds of all iterations."""
        return self.asked.iterations * self.iteration.time

    @property
    def iteration_time(self) -> Seconds:
        """Seconds of one."""
        return self.iteration.time

    @property
    def cost(self) -> Dollars:
        """Rent of all GPUs for all of the time."""
        return self.time * self.gpus * self.rent

    def _predicted(self) -> tuple[Numeric, Numeric, Numeric, str]:
        low, high = self.asked.iterations * self.iteration.low, self.asked.iterations * self.iteration.high
        return self.time, low, high, "s"

    def _rows(self) -> Rows:
        loop = self.loop
        rows = [("", "value", ""), ("GPUs", summary(self.gpus), loop.schedule)]
        rows += [("write", summary(loop.generators), f"replicas of {summary(loop.replica.gpus)}")]
        axes = ", ".join(f"{name} {value}" for name, value, *_ in loop.layout._rows()[1:-1])
        rows += [
            ("learn", summary(loop.trainers), axes),
            ("answers", summary(self.staleness), "versions old, on a mean"),
        ]
        rows += [("iteration", *self._cells("iteration_time")), ("time", *self._cells())]
        return [*rows, ("cost", *self._cells("cost"))] if self.rent else rows


def plan_loop(
    asked: PostTraining,
    accelerator: Machine | str,
    *,
    gpus: Count,
    rent: Amount = 0.0,
    schedule: str | None = None,
    ranks: Count | None = None,
) -> LoopPlan:
    """The quickest loop on so many GPUs: its schedule, who writes, who learns, and how each side is cut.

    Parameters
    ----------
    asked : PostTraining
        What is learned.
    accelerator : Machine or str
        From :func:`clusterlab.catalogue.machine`, or its name.
    gpus
        All of them. Pools are whole servers.
    rent
        Dollars a second of a GPU.
    schedule : str, optional
        One of :data:`clusterlab.post_training.SCHEDULES`; by default the quickest.
    ranks : optional
        GPUs of a replica that writes; by default the quickest, too.

    Returns
    -------
    LoopPlan

    Raises
    ------
    InfeasibleError
        Nothing that was tried fits.

    Examples
    --------
    >>> asked = PostTraining("Qwen3 32B", 64, 16, Lengths(4000, limit=16384), iterations=1000)
    >>> plan_loop(asked, "H100 SXM", gpus=64, rent=2 / 3600)
    LoopPlan
                value
    GPUs           64                        asynchronous
    write          24                       replicas of 4
    learn          40  pp 5, dp 8, zero 1, recompute full
    answers      1.51             versions old, on a mean
    iteration   119 s                (85.3 s to 2.78 min)
    time       33.1 h                      (23.7 to 46.3)
    cost       $4,240                  ($3,030 to $5,930)
    """
    chips = machine(accelerator) if isinstance(accelerator, str) else accelerator
    (count,) = whole(gpus=gpus)
    (price,) = nonnegative(rent=rent)
    if schedule is not None and schedule not in SCHEDULES:
        raise ValueError(f"schedule must be one of {', '.join(SCHEDULES)}; got {schedule!r}")
    best: tuple[Seconds, Loop, Iteration] | None = None
    sizes = _RANKS if ranks is None else tuple(int(one) for one in whole(ranks=ranks))
    for loop in _loops(asked, chips, int(count), [schedule] if schedule else list(SCHEDULES), sizes):
        found = iterate(loop)
        if best is None or found.time < best[0]:
            best = found.time, loop, found
    if best is None:
        raise InfeasibleError(f"{asked.model.name} neither fits to write nor to learn on {count:g} {chips.name}")
    return LoopPlan(asked, best[1], best[2], price)


def loops_by_size(
    asked: PostTraining,
    accelerator: Machine | str,
    *,
    rent: Amount = 0.0,
    most: Count = 1024,
    schedule: str | None = None,
    ranks: Count | None = None,
) -> tuple[LoopPlan, ...]:
    """The quickest loop on one server, on two, on four and so on: what more GPUs buy, and what they cost.

    Parameters
    ----------
    asked, accelerator, rent, schedule, ranks
        As in :func:`plan_loop`.
    most
        GPUs, at most.

    Returns
    -------
    tuple of LoopPlan
        Those that fit, the smallest first.

    Raises
    ------
    InfeasibleError
        None does.

    Examples
    --------
    >>> asked = PostTraining("Llama 3.1 8B", 32, 8, Lengths(1000, limit=4096), iterations=500)
    >>> [(plan.gpus, plan.loop.schedule) for plan in loops_by_size(asked, "H100 SXM", most=16)]
    [(8.0, 'synchronous'), (16.0, 'asynchronous')]
    """
    chips = machine(accelerator) if isinstance(accelerator, str) else accelerator
    (top,) = whole(most=most)
    size, found = int(min(chips.domain, 8)), []
    while size <= top:
        with suppress(InfeasibleError):
            found.append(plan_loop(asked, chips, gpus=size, rent=rent, schedule=schedule, ranks=ranks))
        size *= 2
    if not found:
        raise InfeasibleError(f"{asked.model.name} neither fits to write nor to learn on {top:g} {chips.name}")
    return tuple(found)


def _loops(
    asked: PostTraining, chips: Machine, gpus: int, schedules: list[str], ranks: tuple[int, ...]
) -> Iterator[Loop]:
    """Loops that fit: together on all GPUs, or apart on whole servers."""
    server, share = int(min(chips.domain, 8)), float(LOOP_CONSTANTS["memory share"].value)
    layouts: dict[int, Layout | None] = {}  # of so many learners: two schedules ask for the same
    for schedule in schedules:
        together = schedule == SCHEDULES[0]
        for writers in [gpus] if together else range(server, gpus, max(server, gpus // 8 // server * server)):
            learners = gpus if together else gpus - writers
            if learners not in layouts:
                layouts[learners] = _layout(asked, chips, learners)
            if (layout := layouts[learners]) is None:
                continue
            for replica in _replicas(asked, chips, writers, share if together else None, ranks):
                yield Loop(
                    replica,
                    int(writers // replica.gpus),
                    layout,
                    asked.lengths,
                    asked.prompts,
                    asked.group,
                    prompt=asked.prompt,
                    forwards=1,
                    schedule=schedule,
                    lag=2,
                )


def _replicas(
    asked: PostTraining, chips: Machine, writers: int, share: float | None, sizes: tuple[int, ...]
) -> Iterator[Replica]:
    """Replicas of these sizes that hold at least one answer."""
    software = SERVING["vLLM"] if share is None else replace(SERVING["vLLM"], memory_share=share)
    for ranks in sizes:
        if writers % ranks or not np.all(violations(asked.model, Layout(tp=ranks)).valid):
            continue
        replica = Replica(asked.model, chips, Layout(tp=ranks), Formats(asked.writes), software=software)
        if saturation(replica, asked.lengths.requests(asked.prompt)) >= 1:
            yield replica


def _layout(asked: PostTraining, chips: Machine, learners: int) -> Layout | None:
    """The quickest layout of a step of all answers, packed end to end, on so many GPUs."""
    tokens, sequence = asked.samples * (asked.prompt + asked.lengths.written), asked.lengths.packed(asked.prompt)
    packs = math.ceil(tokens / sequence / learners) * learners
    values = {"recompute": ["full"], "chunks": [1], "microbatch": [1]}
    found = search(asked.model, chips, Workload(sequence, packs), gpus=learners, values=values)
    return found.best() if np.size(found.memory) else None
