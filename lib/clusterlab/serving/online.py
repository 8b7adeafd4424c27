r"""Serving online: users who wait for a first token, and then from token to token.

A maximum of throughput, measured offline, has all its requests at once and no user. Online a request comes while the
replica is at work. It waits for a place in the batch, for the pass in progress, for prompts that came before it, and
its own prompt is read; then it gains a token a pass, and in some of the passes prompts of others are read. All of these
are passes (:func:`~clusterlab.serving.forward_pass`), so the laws here add only who waits for how many of them.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from ..catalogue import PREDICTION_INTERVALS, ServingSoftware
from ..checks import Numeric, choose, larger, pick, smaller, whole
from ..quantities import Amount, Count, Multiple, Number, PerSecond, PositiveShareBelowOne, Seconds, Share, law
from ..records import Explained, Rows, summary, words
from .batches import NO_DRAFTS, Drafts, MixedPasses, mixed_passes, saturation
from .passes import full_reading, reading
from .queueing import Queue, batch_queue
from .replica import Replica, Requests

# What is measured online, by the name of its interval.
MEASURES = {"time_to_first_token": "first token", "time_per_token": "token", "tokens_per_second": "throughput"}


@dataclass(frozen=True, repr=False)
class Online(Explained):
    """What users of a replica get while it is at work.

    ``sequences`` are in the batch, ``waiting`` the requests that find no place in it. ``time_to_first_token`` is the
    sum of ``place`` (the wait for a place), ``prompts`` (its own prompt, and those read before it) and ``passes`` (the
    pass in progress, and those until its token is sent). ``time_per_token`` is a mean: of ``gap`` where no prompt is
    read, and of ``gap_with_prompt`` in a ``prompt_share`` of gaps. ``own`` is what one's own prompt takes of
    ``prompts``, and ``busy`` the share of requests that find another one's before it. Each measure has an 80 % interval
    of its own. ``varies`` is the standard deviation of a prompt's time over its mean, and ``full`` the share of
    requests that find no place; 0 in a closed loop, where all who wait for a place wait about as long. ``begins`` is
    the share of requests that come together with all others, and ``start`` what they wait behind these on average.
    ``gain`` tokens come together where some are drafted, and gaps are between such groups.
    """

    sequences: Amount
    waiting: Amount
    place: Seconds
    prompts: Seconds
    passes: Seconds
    gap: Seconds
    gap_with_prompt: Seconds
    prompt_share: Share
    own: Seconds
    busy: Share
    varies: Amount
    full: Share
    start: Seconds
    begins: Share
    gain: Multiple
    output: Number
    gpus: Number

    @property
    def time_to_first_token(self) -> Seconds:
        """Mean seconds from when a request comes to its first token."""
        return self.place + self.prompts + self.passes

    @property
    def time_per_token(self) -> Seconds:
        """Mean seconds between tokens of an answer."""
        return (self.gap + self.prompt_share * (self.gap_with_prompt - self.gap)) / self.gain

    @property
    def latency(self) -> Seconds:
        """Mean seconds from when a request comes to its last token."""
        return self.time_to_first_token + (self.output - 1) * self.time_per_token

    @property
    def tokens_per_second(self) -> PerSecond:
        """Tokens of answers a second, of the replica: by Little's law."""
        return (self.sequences + self.waiting) * self.output / self.latency

    @property
    def tokens_per_second_per_gpu(self) -> PerSecond:
        """Tokens of answers a second of one GPU."""
        return self.tokens_per_second / self.gpus

    def gap_quantile(self, share: PositiveShareBelowOne) -> Seconds:
        """Seconds between two tokens that so large a share of tokens does not exceed.

        A share of gaps has a prompt in it, which is as long as that prompt takes. Of tokens that were drafted all but
        the first come with the one before.

        Examples
        --------
        >>> from clusterlab.catalogue import machine
        >>> from clusterlab.model import transformer
        >>> from clusterlab.units import fmt
        >>> llama = Replica(transformer("Llama 3.1 8B"), machine("H100 SXM"))
        >>> found = closed_loop(llama, Requests(1000, 500), users=16)
        >>> [fmt(found.gap_quantile(share), "s") for share in (0.5, 0.95, 0.99)]
        ['7.86 ms', '7.86 ms', '31.3 ms']

        With prompts as different as a chat's, the longest of them make the rare gaps:

        >>> found = closed_loop(llama, Requests(1000, 500, prompt_spread=1), users=16)
        >>> [fmt(found.gap_quantile(share), "s") for share in (0.5, 0.95, 0.99)]
        ['7.86 ms', '7.86 ms', '33 ms']
        """
        p, share_with = 1 - (1 - np.asarray(share)) * self.gain, np.asarray(self.prompt_share)
        among = (p - (1 - share_with)) / larger(share_with, 1e-300)  # of those with a prompt
        some = np.clip(among, 1e-9, 1 - 1e-9)
        longer = self.gap + (self.gap_with_prompt - self.gap) * drawn_quantile(self.varies, some)
        return pick(among > 0, longer, pick(p < 0, 0.0, self.gap))

    def first_token_quantile(self, share: PositiveShareBelowOne) -> Seconds:
        r"""Seconds to a first token that so large a share of requests does not exceed.

        .. math:: P(X + w > t - f\,\text{TPOT} - W) = 1 - p

        with X the time of one's own prompt, lognormal, and w the wait for others' prompts: of those who wait, the wait
        is taken as exponential. Where prompts are alike that is :math:`P + (w/\rho) \ln(\rho/(1 - p))` more than the
        passes. The wait for a place, W, is taken at the same percentile, since both are long at the same time; in a
        closed loop, at its mean. Who begins together with all others waits behind any number of them alike.

        Examples
        --------
        >>> from clusterlab.catalogue import machine
        >>> from clusterlab.model import transformer
        >>> from clusterlab.units import fmt
        >>> llama = Replica(transformer("Llama 3.1 8B"), machine("H100 SXM"))
        >>> found = open_loop(llama, Requests(4000, 200), rate=2)
        >>> [fmt(t, "s") for t in (found.time_to_first_token, found.first_token_quantile(0.95))]
        ['246 ms', '348 ms']
        """
        place = pick(np.greater(self.full, 0), wait_quantile(self.place, self.full, share), self.place)
        others = self.prompts - self.own - self.begins * self.start
        together = self.start, self.begins
        prompts = prompts_quantile(self.own, self.varies, others, self.busy, share, together)
        return place + self.passes + prompts

    def interval(self, measure: str) -> tuple[Numeric, Numeric]:
        """Return the 80 % interval of ``"time_to_first_token"``, ``"time_per_token"`` or ``"tokens_per_second"``."""
        ends = PREDICTION_INTERVALS[f"serving: online, {choose(MEASURES, measure=measure)}"]
        return getattr(self, measure) * ends.low, getattr(self, measure) * ends.high

    def _rows(self) -> Rows:
        rows = [("", "value", "")]
        for name in MEASURES:
            unit = "tokens/s" if name == "tokens_per_second" else "s"
            low, high = (summary(end, unit) for end in self.interval(name))
            rows.append((words(name), summary(getattr(self, name), unit), f"({low} to {high})"))
        rows += [(name, summary(getattr(self, name), "s"), "") for name in ("place", "prompts", "passes")]
        for name, share in (("gap", 1 - self.prompt_share), ("gap_with_prompt", self.prompt_share)):
            rows.append((words(name), summary(getattr(self, name), "s"), summary(share, "%")))
        for name, of in (("first token", self.first_token_quantile), ("gap", self.gap_quantile)):
            rows += [(f"{name}, {share:.0%}", summary(of(share), "s"), "") for share in (0.5, 0.95, 0.99)]
        return [*rows, *((name, summary(getattr(self, name)), "") for name in ("sequences", "waiting"))]


class _Held(NamedTuple):
    """A replica with so many sequences in its batch."""

    gap: Seconds
    gap_with_prompt: Seconds
    share: Share
    prompt: Seconds  # its way, alone on each attention rank
    apart: Seconds  # after which an attention rank has read the next
    varies: Amount  # standard deviation of a prompt's time over its mean
    gain: Multiple  # tokens that a sequence gains in a pass

    @property
    def mean_pass(self) -> Seconds:
        return self.gap + self.share * (self.gap_with_prompt - self.gap)

    @property
    def token(self) -> Seconds:
        return self.mean_pass / self.gain

    def until_sent(self, software: ServingSoftware, arrivals: Number, ranks: Count) -> Seconds:
        """Return the passes before a first token that are no prompt's: until it is seen, scheduled and sent.

        ``arrivals`` come in a pass. Where ranks wait for each other, the first that comes opens a wait that ends when
        each has a prompt, d H_d arrivals later on average (the coupon collector's), or after the most that is waited;
        who comes meanwhile waits for the rest of it. Both are over when the longer one is.
        """
        collected = ranks * (np.log(ranks) + 0.5772 + 0.5 / ranks) / larger(arrivals, 1e-12)
        window = pick(np.greater(ranks, 1), smaller(software.balance_passes, collected), 0.0)
        company = window * (1 + arrivals * window / 2) / (1 + arrivals * window)
        return larger(software.first_passes + (software.poll_interval - 1) / 2, company) * self.mean_pass

    def busy(self, replica: Replica, held: Number, output: Number) -> Share:
        """Return the share of time in which an attention rank reads prompts."""
        each = held / replica.layout.dp * self.apart
        return smaller(each / larger((output - 1) * self.token + 2 * self.prompt, 1e-12), _MOST_BUSY)


_MOST_BUSY = 0.95  # a closed loop cannot be busier: who waits sends nothing


def _held(replica: Replica, requests: Requests, held: Number, drafts: Drafts = NO_DRAFTS) -> _Held:
    """The passes of a batch that never ends, with what its users' tokens cost the host."""
    passes = mixed_passes.unchecked(replica, requests, sequences=held, drafts=drafts)
    sent = drafts.gain * held / replica.layout.dp * replica.software.stream_time
    prompt, varies = reading(replica, requests), prompt_varies(replica, requests)
    apart = prompt / replica.layout.pp
    return _Held(passes.decoding + sent, passes.reading + sent, passes.share, prompt, apart, varies, drafts.gain)


def prompt_varies(replica: Replica, requests: Requests) -> Amount:
    """Standard deviation of a prompt's time over its mean: what one that is longer by its own takes more."""
    if not (np.any(requests.prompt_spread) and np.any(requests.read)):
        return 0.0
    usual = replace(requests, prompt_spread=0.0)
    long = replace(usual, prompt=requests.prompt * (1 + requests.prompt_spread))
    return reading(replica, long) / reading(replica, usual) - 1


@law
def closed_loop(
    replica: Replica,
    requests: Requests,
    *,
    users: Number,
    rounds: Number = 10,
    alike: Numeric = False,
    drafts: Drafts = NO_DRAFTS,
) -> Online:
    r"""A replica and so many users, each of whom sends the next request when the last is answered.

    .. math:: \text{TPOT} = \tau_S + k\,(\tau_{S+1\,\text{prompt}} - \tau_S), \qquad
        \text{TTFT} = P\Big(1 + \frac{S - 1}{2 r} + \frac{\rho\,(1 + c^2)}{2 (1 - \rho)}\Big) + f\,\text{TPOT} + W

    S of the users are in the batch. A token comes with every pass; in a share k of them somebody's prompt is read too,
    and all who decode wait for it. A first token waits for its own prompt, P; for those that are read already or came
    before it, as in any queue whose server is busy a share rho of the time, with work whose standard deviation is c of
    its mean; for f passes until it is scheduled and sent; and for a place, W, if there are more users than places. A
    measurement begins with all users at once, half of whose prompts come before one's own, in one of r rounds. With
    stages, each prompt before one's own takes P/pp. To the f passes come half of those between two looks at what has
    come (``poll_interval``); where attention ranks wait for each other's prompts (``balance_passes``), f is at least
    that wait. Of drafted tokens a pass gives several, and TPOT is a pass over them.

    Parameters
    ----------
    replica : Replica
        Model, machine, layout and software.
    requests : Requests
        Prompt and answer, mean lengths.
    users
        Requests at any time: in the batch, or waiting for a place.
    rounds
        Requests of each user, r: those of benchmarks, by default. Of a service that has run for long: 1e9.
    alike : bool or array of bool
        Whether all requests have exactly these lengths. Software that reads prompts first then serves in waves: all
        prompts, and then all answers, which end together. Half of the other prompts come before one's own, and half
        behind it, before one's second token.
    drafts : Drafts
        Tokens that a pass verifies besides the one that it would write.

    Returns
    -------
    Online

    Raises
    ------
    ValueError
        Not one sequence fits.

    Notes
    -----
    Source: Yu et al. 2022 (Orca) and Agrawal et al. 2024 (Sarathi-Serve) for passes that read and decode; Kleinrock
    1975, section 5.6, for the wait before a server (Pollaczek and Khinchine); derived for the rest. For W: the
    time of a place over the places, for each of the users without one.

    Examples
    --------
    Llama 3.1 70B in 8 bits on four H100 with 64 users, 1,024 tokens in and out: 19.5 ms a token and 256 ms to the
    first were measured (vLLM, InferenceX 2025).

    >>> from clusterlab.catalogue import SERVING, machine
    >>> from clusterlab.model import Layout, transformer
    >>> from clusterlab.serving import Formats
    >>> formats = Formats("fp8", cache_bytes=1)
    >>> llama, h100 = transformer("Llama 3.1 70B"), machine("H100 SXM")
    >>> replica = Replica(llama, h100, Layout(tp=4), formats, software=SERVING["vLLM"])
    >>> found = closed_loop(replica, Requests(922, 922), users=64)
    >>> bool(0.017 < found.time_per_token < 0.022), bool(0.2 < found.time_to_first_token < 0.35)
    (True, True)
    """
    places = saturation(replica, requests)
    if np.any(places < 1):
        raise ValueError("not one sequence fits into the memory")
    held = smaller(users, places)
    now = _held(replica, requests, held, drafts)
    busy = now.busy(replica, held, requests.output)
    waves = np.logical_and(alike, replica.software.prompts_first)
    older = pick(waves, 0.0, (1 + now.varies**2) * busy / (2 * (1 - busy)))
    start = now.apart * larger(held - 1, 0.0) / (2 * replica.layout.dp)
    begins = pick(waves, 1.0, 1.0 / rounds)
    prompts = now.prompt + now.apart * older + begins * start
    now = now._replace(share=pick(waves, 0.5, 1.0) * now.share)
    passes = now.until_sent(replica.software, held * now.gain / requests.output, replica.layout.dp)
    waiting = users - held
    place = waiting / held * (prompts + passes + (requests.output - 1) * now.token)
    own = now.gap, now.gap_with_prompt, now.share, now.prompt, busy, now.varies, 0.0, start, begins, now.gain
    return _spread((held, waiting, place, prompts, passes, *own), requests.output, replica.gpus)


@law
def open_loop(replica: Replica, requests: Requests, *, rate: PerSecond, burstiness: Number = 1.0) -> Online:
    r"""A replica and requests that come when they like.

    .. math:: \text{TTFT} = P\Big(1 + \frac{\rho\,(1 + c^2) + b - 1}{2 (1 - \rho)}\Big) + f\,\text{TPOT}
        + \frac{c_n^2 + b}{2} W, \qquad \rho = \lambda P / d

    How many are in the batch, and how long who finds no place waits, W, is :func:`batch_queue`'s. Prompts are read one
    after the other by each of d attention ranks. c is the standard deviation of a prompt's time over its mean, c_n that
    of an answer's tokens.

    Parameters
    ----------
    replica : Replica
        Model, machine, layout and software.
    requests : Requests
        Prompt and answer, mean lengths.
    rate
        Requests a second, lambda.
    burstiness
        Variance over mean of the number that come in a while, b: 1 for a Poisson process, more where they come in
        groups. Below 1 they are spaced, and rho (b + c^2) takes the place of rho (1 + c^2) + b - 1.

    Returns
    -------
    Online

    Raises
    ------
    ValueError
        Not one sequence fits, or requests come faster than the replica can answer them.

    Notes
    -----
    Source: Gross and Harris 1985, section 3.1, for groups before a server; Kingman 1961 below b = 1; Allen and Cunneen
    for the wait before many places.

    Examples
    --------
    Twice the load, and in bursts: both times grow, and the wait for prompts trebles.

    >>> from clusterlab.catalogue import machine
    >>> from clusterlab.model import transformer
    >>> from clusterlab.units import fmt
    >>> llama = Replica(transformer("Llama 3.1 8B"), machine("H100 SXM"))
    >>> few, many = (open_loop(llama, Requests(4000, 200), rate=r, burstiness=b) for r, b in ((2, 1), (4, 3)))
    >>> [fmt(one.time_per_token, "s") for one in (few, many)], [fmt(one.prompts, "s") for one in (few, many)]
    (['9.91 ms', '17.6 ms'], ['137 ms', '396 ms'])
    """
    load = Load(replica, requests)
    pairs = np.broadcast_arrays(rate, burstiness)
    found = [load.at(float(one), float(b)) for one, b in zip(*map(np.ravel, pairs), strict=True)]
    columns = [np.array([getattr(one, f.name) for one in found]).reshape(pairs[0].shape)[()] for f in fields(Online)]
    return Online(*columns)


class Load:
    """One replica under load: its passes with every batch that has a place, worked out once."""

    def __init__(self, replica: Replica, requests: Requests) -> None:
        places = np.floor(saturation(replica, requests))
        if places < 1:
            raise ValueError("not one sequence fits into the memory")
        self.replica, self.requests = replica, requests
        self.each = _held(replica, requests, np.arange(1.0, places + 1))
        self.passes = MixedPasses(self.each.gap, self.each.gap_with_prompt, self.each.share)
        ends = float(places / (requests.output * self.each.token[-1]))
        reads = float(replica.layout.dp / self.each.apart) if self.each.apart else np.inf
        #: Requests a second that the largest batch can end, or attention ranks can read.
        self.limit = min(ends, reads)

    def queue(self, rate: float) -> Queue:
        """Return the steady state of its batch."""
        if rate >= self.limit:
            raise ValueError(f"rate must be below {self.limit:.4g}, what a replica can answer; got {rate:g}")
        return batch_queue(rate, self.passes, tokens=self.requests.output)

    def token_quantile(self, rate: float, share: float) -> float:
        """Return the mean time per token of an answer that so large a share of requests does not exceed."""
        queue = self.queue(rate)
        reached = np.cumsum(queue.states[:-1])
        return float(queue.pass_times[min(int(np.searchsorted(reached, share)), queue.most - 1)])

    def at(self, rate: float, burstiness: float = 1.0) -> Online:
        """Return what users get at a rate."""
        queue, replica = self.queue(rate), self.replica
        batches = np.arange(1.0, queue.most + 1)
        now = _Held(*(np.interp(queue.batch, batches, np.broadcast_to(part, batches.shape)) for part in self.each))
        others, meets = prompt_wait(now.apart, rate * now.apart / replica.layout.dp, burstiness, float(now.varies))
        place = queue.wait * (float(self.requests.output_spread) ** 2 + burstiness) / 2
        own = now.gap, now.gap_with_prompt, now.share, now.prompt, meets, now.varies, queue.waits, 0.0, 0.0, 1.0
        passes = now.until_sent(replica.software, rate * now.mean_pass, replica.layout.dp)
        parts = (queue.batch, queue.waiting, place, now.prompt + others, passes, *own)
        return _spread(parts, self.requests.output, replica.gpus)


def prompt_wait(prompt: float, busy: float, burstiness: float, varies: float) -> tuple[float, float]:
    """Mean wait behind others' prompts, and the share of requests that find one before theirs, of its group or older.

    Examples
    --------
    >>> [[round(float(x), 3) for x in prompt_wait(0.1, 0.5, b, c)] for b, c in ((1, 0), (3, 0), (1, 1))]
    [[0.05, 0.5], [0.25, 0.75], [0.1, 0.5]]
    """
    own = varies**2
    others = busy * (1 + own) + burstiness - 1 if burstiness >= 1 else busy * (burstiness + own)
    return prompt * others / (2 * (1 - busy)), 1 - (1 - busy) / max((burstiness + 1) / 2, 1.0)


def wait_quantile(wait: Seconds, meets: Share, share: Share) -> Seconds:
    """A percentile of a wait of which a share ``meets`` has any, exponential where there is one.

    Examples
    --------
    >>> round(float(wait_quantile(0.05, 0.5, 0.95)), 3), float(wait_quantile(0.05, 0.5, 0.4))
    (0.23, 0.0)
    """
    some = larger(meets, 1e-300)
    return wait / some * larger(np.log(some / (1 - np.asarray(share))), 0.0)


def drawn_quantile(spread: Amount, share: Share) -> Multiple:
    """A percentile of a lognormal length over its mean, with a standard deviation of so many means.

    Examples
    --------
    >>> [round(float(drawn_quantile(1.0, share)), 2) for share in (0.5, 0.95)]
    [0.71, 2.78]
    """
    variance = np.log1p(np.asarray(spread) ** 2)
    return np.exp(np.sqrt(variance) * _NORMAL(share) - variance / 2)


_NORMAL = np.vectorize(NormalDist().inv_cdf, otypes=[float])
_BELOW = np.vectorize(NormalDist().cdf, otypes=[float])
_WAITS = (np.arange(120) + 0.5) / 10  # of an exponential wait, in means; the rest is below a hundred-thousandth
_ODDS = np.exp(-_WAITS) / np.exp(-_WAITS).sum()


def prompts_quantile(
    own: Seconds,
    varies: Amount,
    others: Seconds,
    meets: Share,
    share: Share,
    together: tuple[Seconds, Share] = (0.0, 0.0),
) -> Seconds:
    """A percentile of the time of one's own prompt, which may be drawn, and of those before it, if there are any.

    ``together`` says of those who begin with all others their mean wait behind these, and their share of requests.
    """
    if not (np.any(varies) or np.any(together[1])):
        return own + wait_quantile(others, meets, share)
    columns = np.broadcast_arrays(own, varies, others, meets, share, *together)
    found = [_prompts_quantile(*map(float, one)) for one in zip(*map(np.ravel, columns), strict=True)]
    return np.reshape(found, columns[0].shape)[()]


def _prompts_quantile(
    own: float, varies: float, others: float, meets: float, share: float, start: float, begins: float
) -> float:
    """One percentile, halfway between times that fewer and more do not exceed."""
    waits = np.append(0.0, _WAITS * others / max(meets, 1e-300))
    odds = np.append(1 - meets, meets * _ODDS)
    variance = np.log1p(varies**2)

    def reached(time: float) -> float:
        if varies:
            left = np.maximum(time - waits, 1e-300) / own
            steady = float(odds @ _BELOW((np.log(left) + variance / 2) / np.sqrt(variance)))
        elif others:
            steady = 1 - meets * float(np.exp(-(time - own) * meets / others)) if time >= own else 0.0
        else:
            steady = float(time >= own)
        if not begins:
            return steady
        return (1 - begins) * steady + begins * float(np.clip((time - own) / max(2 * start, 1e-300), 0, 1))

    longest = own * float(drawn_quantile(varies, 1 - 1e-9)) + float(waits[-1])
    low, high = 0.0, max(longest, own + 2 * start)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if reached(middle) < share else (low, middle)
    return high


_HALVINGS = 30


def _spread(parts: tuple[Numeric, ...], output: Number, gpus: Number) -> Online:
    """A record of parts in one shape."""
    shape = np.broadcast_shapes(*(np.shape(part) for part in parts))
    values = dict(
        zip((f.name for f in fields(Online)), (np.broadcast_to(part, shape)[()] for part in parts), strict=False)
    )
    return Online(**values, output=output, gpus=gpus)


@dataclass(frozen=True, repr=False)
class Pools(Explained):
    """So many replicas that only read prompts, and so many that only decode."""

    prefill: Replica
    decode: Replica
    prefill_replicas: Count = 1
    decode_replicas: Count = 1

    def __post_init__(self) -> None:
        """Refuse pools without replicas, and of two models."""
        whole(prefill_replicas=self.prefill_replicas, decode_replicas=self.decode_replicas)
        if self.prefill.model != self.decode.model:
            raise ValueError(
                f"both pools must have one model, got {self.prefill.model.name} and {self.decode.model.name}"
            )

    @property
    def gpus(self) -> Number:
        """GPUs of both pools."""
        return self.prefill_replicas * self.prefill.gpus + self.decode_replicas * self.decode.gpus

    def _rows(self) -> Rows:
        rows = [("", "prefill", "decode"), ("replicas", summary(self.prefill_replicas), summary(self.decode_replicas))]
        return [*rows, ("GPUs of each", summary(self.prefill.gpus), summary(self.decode.gpus))]


@law
def split_loop(
    pools: Pools, requests: Requests, *, users: Number, rounds: Number = 10, drafts: Drafts = NO_DRAFTS
) -> Online:
    r"""Pools that read prompts and pools that decode, and so many users in a closed loop.

    .. math:: \text{TTFT} = \max\Big(P + \tfrac{U - 1}{2 r d} P' + \frac{b}{B} + f\,\text{TPOT},\;
        \frac{U P'}{d} - (n - 1)\,\text{TPOT}\Big)

    Nobody's tokens wait for a prompt. But users whose d ranks read prompts slower than the others decode wait for a
    prompt to be read: then U users go round once while all their prompts are read, U P'/d, and what is left of that
    when an answer is written is the time to its first token. P' is what a prompt takes where passes are full of them,
    which is less than P where prompts are short: what a pass reads of experts is then shared.

    Parameters
    ----------
    pools : Pools
        Replicas of both kinds.
    requests : Requests
        Prompt and answer of n tokens, mean lengths.
    users
        Requests at any time, U.
    rounds
        As in :func:`closed_loop`, r.
    drafts : Drafts
        As in :func:`closed_loop`.

    Returns
    -------
    Online
        ``place`` is the wait behind prompts.

    Notes
    -----
    Source: Zhong et al. 2024 (DistServe); the two asymptotes of a closed loop are Muntz and Wong 1974. Derived. b are
    bytes of a prompt's cache, B the ports of a decoding replica.

    Examples
    --------
    One pool of each kind, eight GPUs each, too many users for the first: they wait where the time is missing.

    >>> from clusterlab.catalogue import machine
    >>> from clusterlab.model import Layout, transformer
    >>> from clusterlab.serving import Formats
    >>> eight = Replica(transformer("DeepSeek-V3"), machine("H200 SXM"), Layout(dp=8, ep=8), Formats("fp8"))
    >>> some, many = (split_loop(Pools(eight, eight), Requests(7000, 900), users=u) for u in (16, 512))
    >>> bool(some.place < some.prompts), bool(many.place > many.prompts)
    (True, True)
    """
    prefill, decode, software = pools.prefill, pools.decode, pools.decode.software
    prompt = reading(prefill, requests)
    ranks = pools.prefill_replicas * prefill.layout.dp * prefill.layout.pp  # prompts on their way
    after = replace(requests, cached=1.0)
    cached = sum(count * block.cache_elements(decode.model, requests.prompt) for count, block in decode.model.counted)
    ports = decode.layout.tp * decode.machine.network_bandwidth
    sent = cached * decode.formats.cache_bytes / ports
    apart = full_reading(prefill, requests)
    start, begins = apart * larger(users - 1, 0.0) / ranks / 2, 1.0 / rounds
    alone = prompt + begins * start + sent
    each = pools.decode_replicas

    def decodes(held: Numeric) -> tuple[_Held, Seconds, Numeric]:
        """Where so many decode: their passes, the wait for a first token, and how many then decode."""
        now = _held(decode, after, larger(held, 1.0), drafts)
        written = (requests.output - 1) * now.token
        first = larger(alone + now.until_sent(software, 0.0, 1.0), users * apart / ranks - written)
        return now, first, users / each * written / (first + written)

    # How many decode while others wait for their prompts lies between nobody and all: false position, where an end
    # that stays counts half (Illinois).
    fewest, most = 0.0 * users, users / each
    above, below = decodes(fewest)[2], decodes(most)[2] - most
    was_over: Numeric = False
    for _ in range(_ROUNDS):
        held = (fewest * below - most * above) / (below - above)
        now, first, then = decodes(held)
        over, off = held > then, then - held
        stays = pick(np.equal(over, was_over), 0.5, 1.0)
        fewest, above = pick(over, fewest, held), pick(over, above * stays, off)
        most, below = pick(over, held, most), pick(over, off, below * stays)
        was_over = over
    passes = now.until_sent(software, 0.0, 1.0)
    place = larger(first - alone - passes, 0.0)
    decoding = each * held
    own = now.gap, now.gap, 0.0 * now.gap, prompt, 1.0, prompt_varies(prefill, requests), 0.0, start, begins, now.gain
    return _spread((decoding, users - decoding, place, alone, passes, *own), requests.output, pools.gpus)


_ROUNDS = 6  # to nine digits
