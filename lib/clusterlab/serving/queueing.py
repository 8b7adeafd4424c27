r"""Queueing: requests that come when they like, on replicas whose passes take longer the more there are.

A replica takes requests into its batch as they come, up to the most that its memory holds; the others wait. With n in
the batch a pass takes :math:`\tau_n` and each request gains a token. That is a birth-death process: requests come at a
rate lambda, and with n there they end at the rate

.. math:: \mu_n = \frac{\min(n, S)}{m\,\tau_{\min(n, S)}}

with S the largest batch and m tokens of a mean answer. :func:`batch_queue` is its steady state, and
:func:`simulate_queue` runs the passes one by one. Requests come as a Poisson process, all replicas are alike, and each
has a queue of its own.

:func:`impatient_queue` is for people: who waits too long gives up.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import numpy as np

from ..checks import BELOW_ONE, Numeric, check, nonnegative, positive, whole
from ..quantities import (
    Amount,
    Arrivals,
    Count,
    Metres,
    MetresPerSecond,
    Multiple,
    Number,
    PerSecond,
    PositiveSeconds,
    Seconds,
    Share,
    ShareBelowOne,
    law,
)
from ..records import Explained, Rows, summary, words
from .batches import MixedPasses


@law
def little_law(rate: Arrivals, time: Seconds) -> Amount:
    r"""Requests in a system, from the rate at which they come and the time that each stays: Little's law.

    .. math:: Q = \lambda\,T

    Parameters
    ----------
    rate
        Requests a second, lambda.
    time
        Time that a request stays, mean, T.

    Returns
    -------
    Amount
        Mean number in the system. It holds for any distribution and any order of service.

    Notes
    -----
    Source: Little 1961. Turned around it says what traffic a batch needs: lambda = B / T.

    Examples
    --------
    A batch of 2,400 (300 FLOP a byte, one expert in eight) that answers 500 tokens at 20 ms each asks for

    >>> round(2400 / (500 * 20e-3))  # new requests a second
    240
    >>> float(little_law(240, 10))
    2400.0
    """
    return rate * time


@dataclass(frozen=True, repr=False)
class Queue(Explained):
    """The steady state of one replica under load.

    ``states[n]`` is the probability of n requests, in the batch or waiting, up to where the rest is a geometric tail of
    ratio ``ratio``; ``pass_times`` are those of 1 to S requests. ``rate`` is requests a second, ``tokens`` those of a
    mean answer. ``passes`` are the two lengths that ``pass_times`` are means of, where some passes read prompts.
    """

    rate: PerSecond
    tokens: Number
    pass_times: PositiveSeconds
    states: Share
    ratio: Share
    passes: MixedPasses | None = None

    @property
    def most(self) -> Count:
        """The largest batch, S."""
        return len(self.pass_times)

    @property
    def waits(self) -> Share:
        """Share of requests that wait before they are taken into the batch."""
        return float(self.states[-1] / (1 - self.ratio))

    @property
    def batch(self) -> Amount:
        """Mean size of the batch."""
        inside = self.states[:-1] @ np.arange(self.most)
        return float(inside + self.most * self.waits)

    @property
    def waiting(self) -> Amount:
        """Mean number that wait."""
        return float(self.states[-1] * self.ratio / (1 - self.ratio) ** 2)

    @property
    def wait(self) -> Seconds:
        """Mean seconds in the queue."""
        return self.waiting / self.rate

    @property
    def latency(self) -> Seconds:
        """Mean seconds from arrival to the last token: by Little's law."""
        return (self.batch + self.waiting) / self.rate

    @property
    def time_per_token(self) -> Seconds:
        """Seconds between tokens, mean over all tokens."""
        return self.batch / (self.rate * self.tokens)

    def wait_quantile(self, share: ShareBelowOne) -> Seconds:
        """Seconds in the queue that so large a share of requests does not exceed.

        With S or more there when it comes, a request waits for as many to end as are before it and one more; that is an
        exponential time of the rate mu_S - lambda, as in the M/M/S queue.

        Examples
        --------
        >>> queue = batch_queue(0.9, np.full(1, 1.0), tokens=1)
        >>> round(queue.wait_quantile(0.5), 2), queue.wait_quantile(0.05)
        (5.88, 0.0)
        """
        p = check(BELOW_ONE, "share", share)
        ends = self.rate / self.ratio
        return float(np.log(self.waits / (1 - p)) / (ends - self.rate)) if 1 - p < self.waits else 0.0

    def token_quantile(self, share: ShareBelowOne) -> Seconds:
        """Seconds between two tokens that so large a share of tokens does not exceed: a percentile of gaps.

        A gap is one pass. Where only some passes read a prompt it has two lengths, and their mean may be no gap at all.

        Examples
        --------
        >>> batch_queue(1.0, 0.1 + 0.01 * np.arange(1, 9), tokens=10).token_quantile(0.99)
        0.16

        One sequence alone, of whose passes one in ten reads a prompt:

        >>> from clusterlab.serving import MixedPasses
        >>> one = batch_queue(1.0, MixedPasses(np.full(1, 0.01), np.full(1, 0.05), np.full(1, 0.1)), tokens=10)
        >>> round(one.time_per_token, 3), one.token_quantile(0.5), one.token_quantile(0.99)
        (0.014, 0.01, 0.05)
        """
        p = check(BELOW_ONE, "share", share)
        # A pass of n lasts tau_n and gives n tokens: of tokens, a batch of n has the share of n / tau_n.
        held = np.append(self.states[1:-1], self.waits)
        weights, gaps = held * np.arange(1, self.most + 1) / self.pass_times, self.pass_times
        if self.passes is not None:
            gaps = np.append(self.passes.decoding, self.passes.reading)
            weights = np.append(weights * (1 - self.passes.share), weights * self.passes.share)
        order = np.argsort(gaps)
        reached = np.cumsum(weights[order]) / weights.sum()
        return float(gaps[order][np.searchsorted(reached, p * (1 - 1e-12))])

    def _rows(self) -> Rows:
        rows = [("", "mean", "99 %"), ("batch", summary(self.batch), "")]
        rows += [("wait", summary(self.wait, "s"), summary(self.wait_quantile(0.99), "s"))]
        rows += [("time per token", summary(self.time_per_token, "s"), summary(self.token_quantile(0.99), "s"))]
        return [*rows, ("latency", summary(self.latency, "s"), "")]


def batch_queue(rate: PerSecond, pass_times: PositiveSeconds | MixedPasses, *, tokens: Number) -> Queue:
    r"""Steady state of a replica under load: how full its batch is, how long requests wait.

    .. math:: \pi_n \propto \prod_{j \le n} \frac{\lambda}{\mu_j}, \qquad
        \mu_n = \frac{\min(n, S)}{m\,\tau_{\min(n, S)}}

    Parameters
    ----------
    rate
        Requests a second that come to this replica, lambda: with r replicas, an r-th of all.
    pass_times
        Times of a pass with 1 to S sequences, tau, prompts included: means, or the two lengths that each is a mean of
        (:func:`clusterlab.serving.mixed_passes`). States and waits are the same; percentiles of gaps need the two.
    tokens
        Tokens of a mean answer, m.

    Returns
    -------
    Queue
        Exact for answers of geometric length, but for the passes, which are taken as short against an answer. Up to S
        requests at once it holds for any distribution of lengths (a processor that is shared evenly does not see it).

    Raises
    ------
    ValueError
        Requests come faster than the largest batch can end them.

    Notes
    -----
    Source: Kleinrock 1975, section 3.1, for birth-death processes; Kelly 1979 for the insensitivity; the rates are
    derived here. With a constant tau of one request at a time it is the M/M/1 queue.

    Examples
    --------
    A pass of 10 ms and 0.1 ms for each of up to 128 requests, 200 tokens an answer, 26 requests a second:

    >>> batch_queue(26, 10e-3 + 0.1e-3 * np.arange(1, 129), tokens=200)
    Queue
                       mean     99 %
    batch               109
    wait            73.3 ms   1.31 s
    time per token    21 ms  22.8 ms
    latency          4.28 s
    """
    passes = pass_times if isinstance(pass_times, MixedPasses) else None
    means: Numeric = pass_times if passes is None else passes.mean
    (arrivals, length), (times,) = positive(rate=rate, tokens=tokens), positive(pass_times=np.atleast_1d(means))
    if np.ndim(times) != 1 or np.ndim(arrivals) or np.ndim(length):
        raise ValueError("rate and tokens must be numbers and pass_times a row of them")
    ends = np.arange(1, len(times) + 1) / (length * times)
    if arrivals >= ends[-1]:
        raise ValueError(f"rate must be below {ends[-1]:.4g}, what the largest batch can end; got {arrivals:g}")
    logs = np.concatenate([[0.0], np.cumsum(np.log(arrivals / ends))])
    states = np.exp(logs - logs.max())
    ratio = arrivals / ends[-1]
    states /= states.sum() + states[-1] * ratio / (1 - ratio)
    return Queue(arrivals, length, times, states, float(ratio), passes)


def slo_attainment(queue: Queue, *, wait: Seconds, time_per_token: Seconds) -> Share:
    r"""Share of requests that are served as promised: taken up in time, and written at a speed.

    .. math:: P(\text{wait} \le w)\; P(\tau_n \le t)

    The speed is that of an answer, so its time per token is a mean of passes with prompts and without. Single gaps are
    longer: :meth:`Queue.token_quantile`.

    Parameters
    ----------
    queue
        From :func:`batch_queue`.
    wait
        Time in the queue that is promised at most, w.
    time_per_token
        Time per token of an answer that is promised at most, t.

    Returns
    -------
    Share
        Of all requests; the two are taken from the same state, the one in which a request comes.

    Notes
    -----
    Derived: Poisson arrivals see the steady state. Zhong et al. 2024 (DistServe) for goodput under two promises.

    Examples
    --------
    >>> queue = batch_queue(24, 10e-3 + 0.1e-3 * np.arange(1, 257), tokens=200)
    >>> [round(slo_attainment(queue, wait=1, time_per_token=t), 2) for t in (15e-3, 20e-3, 25e-3)]
    [0.0, 0.69, 1.0]
    """
    most_wait, most_time = nonnegative(wait=wait, time_per_token=time_per_token)
    kept = queue.pass_times <= most_time
    inside = float(queue.states[:-1] @ kept)  # who finds n makes n + 1
    if not kept[-1]:
        return inside
    ends = queue.rate / queue.ratio
    return inside + queue.waits * float(1 - np.exp(-(ends - queue.rate) * most_wait))


@dataclass(frozen=True, repr=False)
class Impatient(Explained):
    """The steady state of a queue whose customers give up: arrays over loads, servers and patience.

    ``busy`` is the share of the servers' time that they work, ``waiting`` the mean number that wait, ``queued`` the
    share of time in which anybody waits, and ``gone`` the share of all who come that give up.
    """

    busy: Share
    waiting: Amount
    queued: Share
    gone: Share

    def _rows(self) -> Rows:
        shares = [(name, summary(getattr(self, name), "%")) for name in ("busy", "queued", "gone")]
        return [("", "value"), *shares, ("waiting", summary(self.waiting))]


def _impatient(load: float, servers: int, patience: float) -> tuple[float, float, float, float]:
    """Busy, waiting, queued and gone of one queue: its states up to where each is half of the last, and 60 more."""
    # Behind the servers a state is load / (servers + (n - servers) / patience) of the one before.
    halved = (2 * load - servers) * patience
    if load < servers:
        halved = min(halved, 60 / np.log(servers / load))
    if halved > 1e7:
        raise ValueError(f"patience must be less, for a queue of ten million at most; got {patience:g}")
    states = np.arange(1, servers + max(int(np.ceil(halved)), 0) + 60)
    behind = np.maximum(states - servers, 0)
    logs = np.append(0, np.cumsum(np.log(load / (np.minimum(states, servers) + behind / patience))))
    shares = np.exp(logs - logs.max())
    shares /= shares.sum()
    waiting = float(shares[1:] @ behind)
    busy = float(shares[1:] @ np.minimum(states, servers)) / servers
    return busy, waiting, float(shares[servers + 1 :].sum()), waiting / (patience * load)


@law
def impatient_queue(load: Number, servers: Count, *, patience: Number = 1.0) -> Impatient:
    r"""Jobs that wait for a place and give up in time: what a queue is when people look at it (Erlang A).

    .. math:: \pi_n \propto \prod_{j \le n} \frac{a}{\min(j, k) + \max(j - k, 0) / \theta}

    Parameters
    ----------
    load
        Servers that all who come would keep busy, a: arrivals a second times the mean seconds of a job.
    servers
        Jobs that run at once, k.
    patience
        Mean wait until one gives up, over the mean time of a job, theta: exponential, and above 0. At 1 the number in
        the system is a Poisson variable of mean a. The larger, the nearer to Erlang's queue that nobody leaves
        (:func:`batch_queue`); the smaller, the nearer to his loss formula.

    Returns
    -------
    Impatient
        It is steady at any load: a queue that is too long sheds whoever is too many.

    Raises
    ------
    ValueError
        So patient a queue would be longer than ten million.

    Notes
    -----
    Source: Palm 1957; Gans, Koole and Mandelbaum 2003, section 4.2. Exact for Poisson arrivals, exponential times and
    exponential patience.

    Examples
    --------
    A team with four places and work for four and a half, whose people wait as long as a job takes:

    >>> impatient_queue(4.5, 4)
    Impatient
             value
    busy     85.3%
    queued   46.8%
    gone     24.2%
    waiting   1.09
    """
    of_one = np.vectorize(lambda x, n, t: _impatient(x, int(n), t), otypes=[float] * 4)
    return Impatient(*(part[()] for part in of_one(load, servers, patience)))


@dataclass(frozen=True, repr=False)
class SimulatedRequests(Explained):
    """What requests of a simulation got: seconds each waited and stayed, and its tokens."""

    wait: Seconds
    latency: Seconds
    tokens: Count
    #: Mean size of the batch, over the time from the first arrival to the last token.
    batch: Amount

    @property
    def time_per_token(self) -> PositiveSeconds:
        """Seconds between tokens of each request."""
        return (self.latency - self.wait) / self.tokens

    def _rows(self) -> Rows:
        rows = [("", "50 %", "99 %")]
        for name in ("wait", "time_per_token", "latency"):
            low, high = np.quantile(getattr(self, name), (0.5, 0.99))
            rows.append((words(name), summary(low, "s"), summary(high, "s")))
        return rows


def simulate_queue(arrivals: Seconds, tokens: Count, pass_times: PositiveSeconds) -> SimulatedRequests:
    """Run a replica pass by pass: whoever has come joins the next pass with room, and leaves with its last token.

    Parameters
    ----------
    arrivals
        Times at which requests come, in order.
    tokens
        Tokens that each wants.
    pass_times
        Times of a pass with 1 to S sequences.

    Returns
    -------
    SimulatedRequests

    Raises
    ------
    ValueError
        Arrivals are not in order, or arrays do not belong together.

    Notes
    -----
    Source: Yu et al. 2022 (Orca), scheduling by iterations. The rest of an event is found at once: passes alike until
    somebody comes or leaves are taken in one step.

    Examples
    --------
    Two requests of two tokens, room for one; then for both, at a slower pass:

    >>> simulate_queue([0, 0], [2, 2], [1.0]).latency, simulate_queue([0, 0], [2, 2], [1.0, 1.5]).latency
    (array([2., 4.]), array([3., 3.]))
    """
    (come,), (want,), (times,) = nonnegative(arrivals=arrivals), whole(tokens=tokens), positive(pass_times=pass_times)
    if np.ndim(come) != 1 or np.shape(come) != np.shape(want) or np.ndim(times) != 1:
        raise ValueError("arrivals, tokens and pass_times must be rows, the first two of one length")
    if np.any(np.diff(come) < 0):
        raise ValueError("arrivals must be in order")
    n, most = len(come), len(times)
    start, end = np.empty(n), np.empty(n)
    now, first, passes, area = 0.0, 0, 0, 0.0  # first: the next that has not been taken into the batch
    running: list[tuple[int, int]] = []  # (pass after which it has all its tokens, request), a heap
    while first < n or running:
        if not running and come[first] > now:
            now = float(come[first])
        while first < n and len(running) < most and come[first] <= now:
            start[first] = now
            heapq.heappush(running, (passes + int(want[first]), first))
            first += 1
        each = float(times[len(running) - 1])
        count = running[0][0] - passes
        if first < n and len(running) < most:  # somebody may join before that
            count = min(count, max(int(np.ceil((come[first] - now) / each)), 1))
        now, passes, area = now + count * each, passes + count, area + count * each * len(running)
        while running and running[0][0] == passes:
            end[heapq.heappop(running)[1]] = now
    return SimulatedRequests(start - come, end - come, want, area / (now - float(come[0])))


@law
def network_time(distance: Metres, *, speed: MetresPerSecond = 2e8, detour: Multiple = 1.0) -> Seconds:
    r"""Round trip to a region: what a request pays for being served elsewhere.

    .. math:: 2\,k\,d / v

    Parameters
    ----------
    distance
        As the crow flies, d.
    speed
        Of light in glass, v: two thirds of that in vacuum.
    detour
        Length of the cable over the distance, k.

    Returns
    -------
    Seconds
        Without switches and handshakes: 10 ms for each 1,000 km.

    Notes
    -----
    Source: the refractive index of fibre, about 1.47 (ITU-T G.652).

    Examples
    --------
    >>> float(network_time(1e6))
    0.01
    """
    return 2 * detour * distance / speed
