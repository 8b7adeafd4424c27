"""Promises: how many GPUs keep a first token and a speed that users were promised, with an interval of the count."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from ..catalogue import PREDICTION_INTERVALS
from ..checks import BELOW_ONE, check, positive
from ..quantities import Count, Number, PerSecond, PositiveSeconds, ShareBelowOne
from ..records import Explained, Rows, summary
from .online import MEASURES, Load, prompt_varies, prompt_wait, prompts_quantile
from .passes import reading
from .replica import Replica, Requests

_STEPS = 40  # of halving a rate


@dataclass(frozen=True, repr=False)
class Promise(Explained):
    """What users are promised: seconds to a first token and from token to token, kept for a ``share`` of requests.

    ``burstiness`` is that of :func:`open_loop`.

    Examples
    --------
    >>> Promise(first_token=1.0, time_per_token=0.05).share
    0.95
    """

    first_token: PositiveSeconds
    time_per_token: PositiveSeconds
    share: ShareBelowOne = 0.95
    burstiness: Number = 1.0

    def __post_init__(self) -> None:
        """Refuse what is no promise."""
        names = ("first_token", "time_per_token", "burstiness")
        for name, value in zip(names, positive(**{n: getattr(self, n) for n in names}), strict=True):
            object.__setattr__(self, name, value)
        check(BELOW_ONE, "share", self.share)

    def _rows(self) -> Rows:
        rows = [("", "at most"), ("first token", summary(self.first_token, "s"))]
        return [*rows, ("time per token", summary(self.time_per_token, "s")), ("of requests", summary(self.share, "%"))]


@dataclass(frozen=True, repr=False)
class Kept(Explained):
    """Replicas that keep a promise, and the GPUs of them all with the ends of an 80 % interval.

    ``low`` and ``high`` are the counts if both times were at the one or at the other end of their own intervals: of
    measured first tokens and of measured times per token, 80 % of runs lie between these, of models and of machines
    that no constant has seen. ``rate`` is that of all.
    ``binds`` is the part of the promise that a replica meets first as its load grows; ``prefill`` is one of those that
    only read prompts.
    """

    replicas: Count
    prefill_replicas: int
    gpus: Number
    low: Number
    high: Number
    rate: PerSecond
    rate_of_replica: PerSecond
    binds: str
    prefill: Replica | None = None

    def _rows(self) -> Rows:
        rows = [("", "value"), ("GPUs", f"{self.gpus:,.0f} ({self.low:,.0f} to {self.high:,.0f}, 80 % of runs)")]
        rows += [("replicas", f"{self.replicas:,}")]
        if self.prefill_replicas:
            rows += [("that only read prompts", f"{self.prefill_replicas:,}")]
        return [*rows, ("rate of a replica", summary(self.rate_of_replica, "/s")), ("what binds", self.binds)]


def replicas_for(replica: Replica, requests: Requests, promise: Promise, *, rate: PerSecond) -> Kept:
    """The fewest replicas that keep a promise at a rate of requests, each with an even share of them.

    Parameters
    ----------
    replica : Replica
        One of them.
    requests : Requests
        Prompt and answer, mean lengths.
    promise : Promise
        Of the first token and of the mean time per token of an answer.
    rate
        Requests a second, of all replicas together.

    Returns
    -------
    Kept

    Raises
    ------
    ValueError
        Not even one request alone is served as promised.

    Notes
    -----
    Derived: :func:`open_loop` at the largest rate that keeps both.

    Examples
    --------
    A thousand requests a second to Llama 3.1 70B on pairs of H200s:

    >>> from clusterlab.catalogue import SERVING, machine
    >>> from clusterlab.model import Layout, transformer
    >>> from clusterlab.serving import Formats
    >>> formats = Formats("fp8", cache_bytes=1)
    >>> llama, h200 = transformer("Llama 3.1 70B"), machine("H200 SXM")
    >>> pair = Replica(llama, h200, Layout(tp=2), formats, software=SERVING["vLLM"])
    >>> found = replicas_for(pair, Requests(1000, 300), Promise(1.0, 0.03), rate=1000)
    >>> bool(found.low < found.gpus < found.high), found.binds
    (True, 'time per token')
    """
    (asked,) = positive(rate=rate)
    load = Load(replica, requests)

    def keeps(promised: Promise) -> Callable[[float], str]:
        return lambda one: _broken(load, promised, one)

    rates = [_largest(keeps(one), load.limit) for one in _at_ends(promise)]
    (each, binds), (slow, _), (fast, _) = rates
    if not each:
        raise ValueError(f"not even one request alone is served as promised: {binds} is longer")
    count, few, many = (math.ceil(asked / one) if one else math.inf for one in (each, fast, slow))
    size = float(replica.gpus)
    return Kept(int(count), 0, count * size, few * size, many * size, asked, each, binds)


def pools_for(
    prefill: Replica | Sequence[Replica], decode: Replica, requests: Requests, promise: Promise, *, rate: PerSecond
) -> Kept:
    """The fewest replicas of both kinds where some only read prompts and the others only decode.

    Parameters
    ----------
    prefill, decode : Replica
        One of each; of prefill also several, of which the one is taken that makes for the fewest GPUs.
    requests : Requests
        Prompt and answer, mean lengths.
    promise : Promise
        As for :func:`replicas_for`: decoding replicas keep the time per token, the others the first token.
    rate
        Requests a second.

    Returns
    -------
    Kept
        ``rate_of_replica`` is that of a decoding one.

    Raises
    ------
    ValueError
        As :func:`replicas_for`.

    Examples
    --------
    Long prompts, short answers and a strict speed: apart, nobody's tokens wait for a prompt.

    >>> from clusterlab.catalogue import SERVING, machine
    >>> from clusterlab.model import Layout, transformer
    >>> from clusterlab.serving import Formats
    >>> formats = Formats("fp8", cache_bytes=1)
    >>> llama, h200 = transformer("Llama 3.1 70B"), machine("H200 SXM")
    >>> pair = Replica(llama, h200, Layout(tp=2), formats, software=SERVING["vLLM"])
    >>> asked, promise = Requests(4000, 200), Promise(2.0, 0.025)
    >>> together, apart = replicas_for(pair, asked, promise, rate=500), pools_for(pair, pair, asked, promise, rate=500)
    >>> bool(apart.gpus < together.gpus)
    True
    """
    (asked,) = positive(rate=rate)
    readers = [prefill] if isinstance(prefill, Replica) else list(prefill)
    writing, ends = Load(decode, replace(requests, cached=1.0)), _at_ends(promise)
    writes: list[tuple[float, str]] = []
    for one in ends:

        def slow(r: float, one: Promise = one) -> str:
            return "time per token" if writing.token_quantile(r, one.share) > one.time_per_token else ""

        writes.append(_largest(slow, writing.limit))
    if not writes[0][0]:
        raise ValueError(f"not even one request alone is served as promised: {writes[0][1]} is longer")
    passes = [decode.software.first_passes * writing.at(r).time_per_token if r else math.inf for r, _ in writes]
    found = []
    for k, reader in enumerate(readers):
        reads = [_reads(reader, requests, kept, float(some)) for kept, some in zip(ends, passes, strict=True)]
        if reads[0]:
            rates = zip((w for w, _ in writes), reads, strict=True)
            counts = [[math.ceil(asked / r) if r else math.inf for r in both] for both in rates]
            found.append((k, counts, [w * float(decode.gpus) + x * float(reader.gpus) for w, x in counts]))
    if not found:
        raise ValueError("not even one request alone is served as promised: first token is longer")
    k, counts, (now, high, low) = min(found, key=lambda some: some[2][0])
    (writers, reading), (each, binds) = counts[0], writes[0]
    return Kept(int(writers + reading), int(reading), now, low, high, asked, each, binds, readers[k])


def _reads(replica: Replica, requests: Requests, promise: Promise, passes: float) -> float:
    """The largest rate at which one replica reads prompts in time for a first token so many seconds of passes later."""
    ranks, prompt = float(replica.layout.dp), float(reading(replica, requests))
    apart, varies = prompt / float(replica.layout.pp), float(prompt_varies(replica, requests))

    def late(rate: float) -> str:
        waits, meets = prompt_wait(apart, rate * apart / ranks, promise.burstiness, varies)
        there = passes + float(prompts_quantile(prompt, varies, waits, meets, promise.share))
        return "first token" if there > promise.first_token else ""

    return _largest(late, ranks / apart)[0]


def _at_ends(promise: Promise) -> list[Promise]:
    """The promise as it is, and as it must be met by predictions if all is slow, and if all is fast."""
    found = [promise]
    for end in ("high", "low"):
        first, token = (
            getattr(PREDICTION_INTERVALS[f"serving: online, {MEASURES[name]}"], end)
            for name in ("time_to_first_token", "time_per_token")
        )
        slower = replace(
            promise, first_token=promise.first_token / first, time_per_token=promise.time_per_token / token
        )
        found.append(slower)
    return found


def _broken(load: Load, promise: Promise, rate: float) -> str:
    """The part of a promise that is not kept at a rate, or ``""``."""
    if load.token_quantile(rate, promise.share) > promise.time_per_token:
        return "time per token"
    late = load.at(rate, promise.burstiness).first_token_quantile(promise.share) > promise.first_token
    return "first token" if late else ""


def _largest(broken: Callable[[float], str], limit: float) -> tuple[float, str]:
    """The largest rate at which nothing is broken (0: none), and what breaks beyond it."""
    if why := broken(1e-6 * limit):
        return 0.0, why
    low, high, why = 1e-6 * limit, (1 - 1e-6) * limit, "places"
    for _ in range(_STEPS):
        middle = (low + high) / 2
        if said := broken(middle):
            high, why = middle, said
        else:
            low = middle
    return low, why
