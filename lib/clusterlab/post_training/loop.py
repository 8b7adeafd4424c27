"""The loop: prompts are answered, answers scored, a policy learns from them, and its new weights travel back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..catalogue import PREDICTION_INTERVALS, SOFTWARE, Software
from ..checks import Numeric, choose, nonnegative, positive, whole
from ..model import Layout, Workload, parameters
from ..parallelism import Step, step
from ..quantities import Amount, Count, Number, PerSecond, Seconds, Share
from ..records import Explained, Predicted, Rows, summary
from ..serving import Replica
from .lengths import Lengths
from .pools import versions_behind
from .rollouts import Rollout, rollout
from .software import LOOP_CONSTANTS

SCHEDULES: tuple[str, ...] = ("synchronous", "one step off", "asynchronous")


@dataclass(frozen=True, repr=False)
class Loop(Explained):
    """One iteration of post-training: who answers what, who learns from it, and who waits for whom.

    Parameters
    ----------
    replica : Replica
        A copy of the model that generates.
    replicas
        How many there are.
    layout : Layout
        Of training. Synchronous schedules use the same GPUs for both; else these are others.
    lengths : Lengths
        Of the answers.
    prompts, group
        Prompts of an iteration, and samples of each.
    prompt
        Tokens of a prompt.
    steps
        Optimizer steps of an iteration.
    forwards
        Passes over all answers before training: log-probabilities of the policy as it trains, and of a reference.
    pack
        Tokens of a sequence that training works through. By default as long as answers must all be for a mean token to
        attend to as many as it does: packed end to end, each answer attends to itself alone.
    schedule : str
        One of ``SCHEDULES``: all take turns; a pool trains on the batch before while the other generates; or pools
        that never wait, where answers that are not done go on with new weights.
    lag
        Where pools never wait: iterations whose answers may be on their way at a time.
    precision : str
        Of training.
    software : Software
        Of training.

    Raises
    ------
    ValueError
        An unknown schedule, or a synchronous one whose two sides have not the same GPUs.
    """

    replica: Replica
    replicas: Count
    layout: Layout
    lengths: Lengths
    prompts: Count
    group: Count
    prompt: Number = 100
    steps: Count = 1
    forwards: Amount = 2
    pack: Count | None = None
    schedule: str = "synchronous"
    lag: Count = 1
    precision: str = "bf16"
    software: Software = SOFTWARE["2026"]

    def __post_init__(self) -> None:
        """Refuse what is no loop."""
        choose(dict.fromkeys(SCHEDULES, 0), schedule=self.schedule)
        whole(replicas=self.replicas, prompts=self.prompts, group=self.group, steps=self.steps, lag=self.lag)
        positive(prompt=self.prompt)
        nonnegative(forwards=self.forwards)
        if self.schedule == "synchronous" and self.generators != self.trainers:
            raise ValueError(
                f"synchronous needs the same GPUs for both, got {self.generators:g} that generate and "
                f"{self.trainers:g} that train"
            )

    @property
    def samples(self) -> Number:
        """Answers of an iteration."""
        return float(self.prompts * self.group)

    @property
    def generators(self) -> Number:
        """GPUs that generate."""
        return float(self.replicas * self.replica.gpus)

    @property
    def trainers(self) -> Number:
        """GPUs that train."""
        return float(self.layout.gpus)

    @property
    def gpus(self) -> Number:
        """All GPUs."""
        return self.trainers + (0.0 if self.schedule == "synchronous" else self.generators)

    def workload(self) -> Workload:
        """What one optimizer step works through: whole sequences for each of its ranks."""
        tokens = self.samples * (self.prompt + self.lengths.written) / self.steps
        sequence = float(self.pack or self.lengths.packed(self.prompt))
        each = self.layout.dp * self.layout.microbatch
        return Workload(sequence, float(max(np.ceil(tokens / sequence / each), 1.0) * each), self.precision)

    def _rows(self) -> Rows:
        rows = [("", "value"), ("model", self.replica.model.name), ("machine", self.replica.machine.name)]
        rows += [("schedule", self.schedule), ("answers", f"{self.prompts:,} x {self.group:,}")]
        rows += [("tokens of one", summary(self.lengths.written)), ("generators", summary(self.generators))]
        return [*rows, ("trainers", summary(self.trainers)), ("GPUs", summary(self.gpus))]


@dataclass(frozen=True, repr=False)
class Iteration(Predicted):
    """Seconds of one iteration: what is done, less what is done at the same time (``hidden``), and two fitted parts.

    ``turns`` are the seconds in which GPUs that take turns go from one role to the other and back, ``others`` all that
    no law counts: hosts, schedulers, packing, imbalance. ``generators_wait`` and ``trainers_wait`` are the seconds in
    which a pool has nothing to do; synchronous, there is one pool, which never waits as a whole. ``staleness`` are the
    updates of the weights between the start of a mean answer and the iteration that learns from it. ``tokens`` are
    those of answers.
    """

    generation: Seconds
    log_probs: Seconds
    training: Seconds
    weights: Seconds
    hidden: Seconds
    turns: Seconds
    others: Seconds
    generators_wait: Seconds
    trainers_wait: Seconds
    staleness: Amount
    tokens: Number
    gpus: Number
    rollout: Rollout
    step: Step
    spread_low: Number
    spread_high: Number

    _follow: ClassVar = {"tokens_per_second_per_gpu": ("tokens/s", -1)}

    @property
    def time(self) -> Seconds:
        """Seconds from one update of the weights to the next."""
        return self.counted + self.turns + self.others

    @property
    def counted(self) -> Seconds:
        """Seconds that laws count, and no constant of this room touches."""
        return self.generation + self.log_probs + self.training + self.weights - self.hidden

    @property
    def tokens_per_second_per_gpu(self) -> PerSecond:
        """Tokens of answers that are learned from, a second and GPU."""
        return self.tokens / self.time / self.gpus

    @property
    def generating(self) -> Share:
        """Share of the seconds of work that generate."""
        return self.generation / (self.counted + self.hidden)

    def _predicted(self) -> tuple[Numeric, Numeric, Numeric, str]:
        return self.time, self.time * self.spread_low, self.time * self.spread_high, "s"

    def _row(self, name: str) -> tuple[str, str, str]:
        part = getattr(self, name)
        return name.replace("_", " "), summary(part, "s"), summary(part / self.time, "%")

    def _rows(self) -> Rows:
        rows = [("", "time", "of the iteration")]
        rows += [self._row(name) for name in ("generation", "log_probs", "training", "weights")]
        if self.hidden:
            rows.append(
                ("at the same time", f"-{summary(self.hidden, 's')}", f"-{summary(self.hidden / self.time, '%')}")
            )
        rows += [self._row(name) for name in ("turns", "others") if getattr(self, name)]
        rows.append(("iteration", *self._cells()))
        return [*rows, ("tokens/s of a GPU", *self._cells("tokens_per_second_per_gpu"))]


def forward_time(trained: Step) -> Seconds:
    """Seconds of a step's forward passes alone, from those of the step: a third of its products, half of what it sends.

    Examples
    --------
    >>> from clusterlab.catalogue import machine
    >>> from clusterlab.model import transformer
    >>> whole = step(transformer("Llama 3.1 8B"), machine("H100 SXM"), Workload(4096, 64), Layout(dp=8))
    >>> bool(0.3 < forward_time(whole) / whole.time < 0.4)
    True
    """
    computed = trained.gemms + trained.attention + trained.elementwise + trained.bubble
    return computed / 3 + (trained.tensor + trained.context + trained.expert + trained.transfers) / 2


def iterate(loop: Loop) -> Iteration:
    r"""Time of one iteration of a loop, part by part.

    .. math:: T_\text{sync} = G + F + L + W, \qquad T_\text{one off} = \max(G, F + L) + W, \qquad
        T_\text{async} = \max(\bar G + W,\; F + L)

    times what software takes over what is counted, and for GPUs that take turns the seconds of turning.

    with G a batch that empties, :math:`\bar G` the same tokens of one that never does, F the passes for
    log-probabilities, L the training steps, W the weights.

    Parameters
    ----------
    loop : Loop
        What is generated and learned, on what.

    Returns
    -------
    Iteration

    Raises
    ------
    ValueError
        The layout breaks a rule of its model, or not one sequence fits.

    Notes
    -----
    Derived from :func:`rollout`, :func:`clusterlab.parallelism.step` and the rate at which engines load weights. A pool
    that trains apart learns from the batch before. Rewards are taken to be given while others still write. What no law
    counts is :data:`LOOP_CONSTANTS`.

    Examples
    --------
    >>> from dataclasses import replace
    >>> from clusterlab.catalogue import SERVING, machine
    >>> from clusterlab.model import transformer
    >>> vllm = replace(SERVING["vLLM"], memory_share=0.6)
    >>> replica = Replica(transformer("Qwen3 32B"), machine("H100 SXM"), Layout(tp=4), software=vllm)
    >>> written = Lengths.of_written(3206, limit=4096)
    >>> both = Loop(replica, 8, Layout(tp=4, pp=4, dp=2), written, 64, 32, prompt=110, steps=4, pack=4096)
    >>> iterate(both)  # 393 s measured (NeMo RL 0.4)
    Iteration
                               time  of the iteration
    generation                 95 s             22.3%
    log probs                76.2 s             17.9%
    training                  110 s             25.8%
    weights                  993 ms            0.233%
    turns                      45 s             10.6%
    others                   98.8 s             23.2%
    iteration               7.1 min    (5.08 to 9.93)
    tokens/s of a GPU  482 tokens/s      (344 to 674)
    """
    replica, model = loop.replica, loop.replica.model
    written = rollout(
        replica,
        loop.lengths,
        samples=loop.samples,
        prompt=loop.prompt,
        replicas=loop.replicas,
        group=loop.group,
        ahead=loop.lag if loop.schedule == "asynchronous" else 1,
    )
    trained = step(model, replica.machine, loop.workload(), loop.layout, software=loop.software)
    learning, scored = loop.steps * trained.time, loop.forwards * loop.steps * forward_time(trained)
    weights = float(parameters(model).total) * replica.formats.weight_bytes / LOOP_CONSTANTS["loading rate"].value
    generation, stale = written.time, {SCHEDULES[0]: 0.0, SCHEDULES[1]: 1.0}.get(loop.schedule, float(loop.lag))
    if loop.schedule == "synchronous":
        time = generation + scored + learning + weights
        waits = 0.0, 0.0
    elif loop.schedule == "one step off":
        time = max(generation, scored + learning) + weights
        waits = time - weights - generation, time - weights - scored - learning
    else:
        generation = written.steady
        time = max(generation + weights, scored + learning)
        waits = time - weights - generation, time - scored - learning
        if waits[0] <= 0:  # else whoever writes has all that may be on its way, and done answers wait
            stale = min(float(versions_behind.unchecked(written.held * loop.replicas, loop.samples)), stale)
    interval = PREDICTION_INTERVALS["post-training: iteration"]
    pace, turns = (float(LOOP_CONSTANTS[name].value) for name in ("pace", "turns"))
    return Iteration(
        generation=generation,
        log_probs=float(scored),
        training=float(learning),
        weights=weights,
        hidden=float(generation + scored + learning + weights - time),
        turns=turns if loop.schedule == "synchronous" else 0.0,
        others=float((pace - 1) * time),
        generators_wait=float(waits[0]),
        trainers_wait=float(waits[1]),
        staleness=stale,
        tokens=loop.samples * loop.lengths.written,
        gpus=loop.gpus,
        rollout=written,
        step=trained,
        spread_low=interval.low,
        spread_high=interval.high,
    )
