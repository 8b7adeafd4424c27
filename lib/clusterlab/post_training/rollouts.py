r"""Rollouts: a batch of answers that empties, because its sequences end one by one and none comes after the last.

In a pass each sequence of the batch gains a token. While answers wait for a place the batch is full; then it empties,
and the passes of its longest answers are those of a batch of a few. Passes come from
:func:`clusterlab.serving.forward_pass`; what is new here is only when each sequence is there.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..catalogue import PREDICTION_INTERVALS
from ..checks import POSITIVE, Numeric, check, nonnegative, positive, whole
from ..quantities import Amount, Count, Multiple, Number, PerSecond, Seconds, Share, law
from ..records import Explained, Predicted, Rows, summary
from ..serving import Batch, Replica, forward_pass, saturation, serving_kind
from .lengths import Lengths, expected_longest, written_moments


@dataclass(frozen=True, repr=False)
class Emptying(Explained):
    """Stretches of a batch in which nobody comes or goes: passes, sequences in each, and their mean context."""

    passes: np.ndarray
    sequences: np.ndarray
    context: np.ndarray
    samples: Count

    @property
    def full(self) -> Share:
        """Share of the passes with as many sequences as there ever are."""
        return float(self.passes[self.sequences == self.sequences.max()].sum() / self.passes.sum())

    @property
    def mean(self) -> Number:
        """Mean sequences of a pass."""
        return float(self.passes @ self.sequences / self.passes.sum())

    def _rows(self) -> Rows:
        rows = [("", "value"), ("samples", summary(self.samples)), ("passes", summary(self.passes.sum()))]
        return [*rows, ("mean sequences", summary(self.mean)), ("passes that are full", summary(self.full, "%"))]


def empty_batch(lengths: Sequence[float] | np.ndarray, *, places: Count, prompt: Amount = 0) -> Emptying:
    """How a batch fills its places and empties: where an answer ends the next one starts, while there is one.

    Parameters
    ----------
    lengths
        Tokens of each answer, in the order in which they start.
    places
        Most sequences at a time.
    prompt
        Tokens of a prompt, which are in its sequence's cache from the start.

    Returns
    -------
    Emptying

    Raises
    ------
    ValueError
        A length is not above zero, or ``places`` is not a whole number of at least 1.

    Notes
    -----
    Source: Yu et al. 2022 (Orca), for batches that change from pass to pass. Counted, event by event.

    Examples
    --------
    Three answers on two places: both write until the first ends, the third takes its place.

    >>> found = empty_batch([2, 6, 3], places=2)
    >>> found.passes, found.sequences
    (array([2., 3., 1.]), array([2., 2., 1.]))
    """
    tokens = np.atleast_1d(check(POSITIVE, "lengths", lengths))
    (most,) = whole(places=places)
    (read,) = nonnegative(prompt=prompt)
    ends: list[float] = []
    waiting, now, starts = iter(tokens.tolist()), 0.0, 0.0  # starts: the sum over those in the batch
    began: dict[float, list[float]] = {}
    stretches: list[tuple[float, int, float]] = []

    def start() -> bool:
        nonlocal starts
        if len(ends) >= most or (length := next(waiting, None)) is None:
            return False
        heapq.heappush(ends, now + length)
        began.setdefault(now + length, []).append(now)
        starts += now
        return True

    while start():
        pass
    while ends:
        end = ends[0]
        held = len(ends)
        stretches.append((end - now, held, read + (now + end) / 2 - starts / held))
        now = end
        while ends and ends[0] == now:
            heapq.heappop(ends)
            starts -= began[now].pop()
        while start():
            pass
    passes, sequences, context = (np.array(column, float) for column in zip(*stretches, strict=True))
    return Emptying(passes, sequences, context, len(tokens))


@law
def emptying_time(
    samples: Count,
    mean: Number,
    spread: Amount,
    *,
    floor: Seconds,
    each: Seconds,
    cache: Seconds = 0,
    prompt: Amount = 0,
    limit: Number | None = None,
) -> Seconds:
    r"""Time of a batch in which all answers start together, where a pass is linear in what it holds.

    .. math:: T = \alpha\, \mathrm{E}[X_{(n)}] + n\,\beta\, \mathrm{E}[X]
        + n\,\gamma \Big(p\,\mathrm{E}[X] + \tfrac{1}{2}\mathrm{E}[X^2]\Big),
        \qquad \tau = \alpha + \beta\,\text{sequences} + \gamma\,\text{cached tokens}

    The floor of a pass is paid until the longest answer ends. All else is paid by the token, whenever it is written:
    it does not matter how the batch empties.

    Parameters
    ----------
    samples
        Answers of one replica, n.
    mean, spread, limit
        Of their lengths X, as in :func:`expected_longest`.
    floor
        Seconds of a pass whatever it holds, alpha: weights that are read, kernels that are launched.
    each
        What a sequence adds to a pass, beta.
    cache
        What each cached token adds, gamma.
    prompt
        Tokens of a prompt, p.

    Returns
    -------
    Seconds

    Notes
    -----
    Derived: the mean of a sum is the sum of the means, so the time is exact however lengths depend on one another.

    Examples
    --------
    256 answers of 1,000 tokens, at 10 ms and 0.05 ms a sequence: the floor costs 10 s if all are alike, else 73.

    >>> for spread in (0, 0.8):
    ...     print(round(float(emptying_time(256, 1000, spread, floor=10e-3, each=0.05e-3)), 1))
    22.8
    86.3
    """
    written, squared = written_moments(mean, spread, limit)
    longest = expected_longest.unchecked(mean, spread, samples=samples, limit=limit)
    return floor * longest + samples * (each * written + cache * (prompt * written + squared / 2))


@dataclass(frozen=True, repr=False)
class PassLine(Explained):
    """A pass as a line: seconds of its ``floor``, whatever it holds, and what ``each`` sequence adds."""

    floor: Seconds
    each: Seconds

    def _rows(self) -> Rows:
        return [("", "time"), *((name, summary(getattr(self, name), "s")) for name in ("floor", "each"))]


def pass_line(replica: Replica, lengths: Lengths, *, sequences: Count, prompt: Number = 1) -> PassLine:
    r"""The floor of a replica's pass, and what a sequence adds to it, between one and so many of them.

    .. math:: T_\text{pass}(S) = \alpha + \beta S

    Parameters
    ----------
    replica : Replica
        One that generates.
    lengths : Lengths
        Of the answers; a sequence of a pass is half of :math:`\mathrm{E}[X^2]/\mathrm{E}[X]` long, as a mean token is.
    sequences
        Of the larger pass.
    prompt
        Tokens of a prompt.

    Returns
    -------
    PassLine

    Notes
    -----
    A chord of :func:`~clusterlab.serving.forward_pass`. It bends where attention takes longer than the reading of
    caches that it hides behind.

    Examples
    --------
    >>> from clusterlab.catalogue import SERVING, machine
    >>> from clusterlab.model import Layout, transformer
    >>> from clusterlab.serving import Replica
    >>> replica = Replica(transformer("Qwen3 32B"), machine("H100 SXM"), Layout(tp=4), software=SERVING["vLLM"])
    >>> pass_line(replica, Lengths(4000, limit=16384), sequences=64)
    PassLine
              time
    floor  9.61 ms
    each   85.5 µs
    """
    (held,) = whole(sequences=sequences)
    if held < 2:
        raise ValueError(f"sequences must be at least 2, got {held:g}")
    (read,) = positive(prompt=prompt)
    one, many = _pass_times(replica, np.array([1.0, float(held)]), lengths.requests(read).mean_context)
    each = (many - one) / (held - 1)
    return PassLine(float(one - each), float(each))


@dataclass(frozen=True, repr=False)
class Rollout(Predicted):
    """A batch of answers, generated: ``prompts`` seconds of reading, ``full`` with every place taken, ``emptying``.

    ``steady`` are the seconds that the same tokens take a batch that never empties, in which a replica has ``held``
    sequences. ``tokens`` and ``samples`` are those of all replicas, ``gpus`` all their GPUs.
    """

    prompts: Seconds
    full: Seconds
    emptying: Seconds
    steady: Seconds
    passes: Number
    sequences: Number
    places: Number
    held: Number
    samples: Number
    tokens: Number
    gpus: Number
    spread_low: Number
    spread_high: Number

    _follow: ClassVar = {"tokens_per_second": ("tokens/s", -1)}

    @property
    def time(self) -> Seconds:
        """Seconds until the last answer is there."""
        return self.prompts + self.full + self.emptying

    @property
    def tokens_per_second(self) -> PerSecond:
        """Tokens of answers a second, of all GPUs."""
        return self.tokens / self.time

    @property
    def stretch(self) -> Multiple:
        """How much longer it takes than a batch that never empties."""
        return self.time / self.steady

    def _predicted(self) -> tuple[Numeric, Numeric, Numeric, str]:
        return self.time, self.time * self.spread_low, self.time * self.spread_high, "s"

    def _rows(self) -> Rows:
        rows = [("", "time", "share")]
        parts = {"prompts": self.prompts, "places full": self.full, "emptying": self.emptying}
        rows += [(name, summary(t, "s"), summary(t / self.time, "%")) for name, t in parts.items()]
        rows += [("rollout", *self._cells()), ("a batch that never empties", summary(self.steady, "s"), "")]
        return [*rows, ("mean sequences", summary(self.sequences), f"of {summary(self.places)} places")]


def rollout(
    replica: Replica,
    lengths: Lengths,
    *,
    samples: Count,
    prompt: Number = 1,
    replicas: Count = 1,
    group: Count = 1,
    kept: Share = 1.0,
    ahead: Count = 1,
) -> Rollout:
    r"""Time in which replicas answer a batch of prompts, each with samples of its own lengths.

    .. math:: T = T_\text{prompts} + \sum_i n_i\, T_\text{pass}(S_i,\, \bar s_i)

    over stretches of :math:`n_i` passes in which nobody comes or goes.

    Parameters
    ----------
    replica : Replica
        One of them; its software says how many sequences may be there at a time.
    lengths : Lengths
        Of the answers.
    samples
        Answers of the batch, all replicas together.
    prompt
        Tokens of a prompt.
    replicas
        Copies of the model, which share the samples evenly.
    group
        Samples of a prompt, which is read once for all of them.
    kept
        Share of the answers that is waited for; ``samples`` is what is begun, the others are given up.
    ahead
        Batches whose answers may be on their way at a time where a batch never empties.

    Returns
    -------
    Rollout
        It ends with the longest answer of all that are waited for, on whichever replica that is.

    Raises
    ------
    ValueError
        Not one sequence fits, or an argument is not allowed.

    Notes
    -----
    Source: Yu et al. 2022 (Orca) for the batch; :func:`~clusterlab.serving.forward_pass` for the passes. Lengths of a
    replica are typical ones, and the longest is that of all samples: simulations with drawn lengths are its witness.

    Examples
    --------
    Qwen3 32B on four H100s: 256 answers of 3,200 tokens on average, none above 4,096.

    >>> from clusterlab.catalogue import SERVING, machine
    >>> from clusterlab.model import Layout, transformer
    >>> from clusterlab.serving import Replica
    >>> replica = Replica(transformer("Qwen3 32B"), machine("H100 SXM"), Layout(tp=4), software=SERVING["vLLM"])
    >>> found = rollout(replica, Lengths.of_written(3200, limit=4096), samples=256, prompt=110)
    >>> bool(80 < found.time < 200)
    True
    """
    total, copies, each, batches = whole(samples=samples, replicas=replicas, group=group, ahead=ahead)
    (read,) = positive(prompt=prompt)
    (share,) = positive(kept=kept)
    if share > 1:
        raise ValueError(f"kept must be at most 1, got {share:g}")
    shared = int(np.ceil(total / copies))
    asked = lengths.requests(read)
    places = float(saturation(replica, asked))
    if places < 1:
        raise ValueError("not one sequence fits into the memory")
    tokens = lengths.typical(shared)
    last = lengths.longest(total, float(share))
    tokens[np.argmax(tokens)] = max(last, 1.0)
    batch = empty_batch(np.minimum(tokens, max(last, 1.0)), places=places, prompt=read)
    times = batch.passes * _pass_times(replica, batch.sequences, batch.context)
    most = batch.sequences == batch.sequences.max()
    reading = _reading_time(replica, shared * read / each, read)
    there = float(min(places, shared * batches))
    steady = float(_pass_times(replica, there, asked.mean_context)) / there
    interval = PREDICTION_INTERVALS[serving_kind(replica.model, "saturated")]
    return Rollout(
        prompts=reading,
        full=float(times[most].sum()),
        emptying=float(times[~most].sum()),
        steady=reading + steady * shared * lengths.written,
        passes=float(batch.passes.sum()),
        sequences=batch.mean,
        places=places,
        held=there,
        samples=float(total),
        tokens=copies * float(np.sort(tokens)[: int(np.ceil(share * shared))].sum()),
        gpus=float(replica.gpus * copies),
        spread_low=interval.low,
        spread_high=interval.high,
    )


def _pass_times(replica: Replica, sequences: Numeric, context: Numeric) -> Seconds:
    return forward_pass(replica, Batch(sequences=sequences, context=np.maximum(context, 1.0))).time


def _reading_time(replica: Replica, tokens: float, prompt: float) -> float:
    """Seconds in which a replica reads its prompts, as many to a pass as its software takes."""
    taken = min(replica.software.max_tokens * replica.layout.dp * replica.layout.pp, tokens)
    chunk = Batch(prompt_tokens=max(taken, 1.0), chunk=min(prompt, taken))
    return float(forward_pass(replica, chunk).time * tokens / max(taken, 1.0))
