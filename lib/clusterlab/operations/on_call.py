r"""On call: testing what is new, rolling out what changes, living with what is broken, and swapping what flaps.

Time is what all of it costs. A test holds up a server, a miss holds up a job: both are seconds of servers, so one
number judges how long to test, and when to swap.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ..checks import Numeric, broadcastable, nonnegative, positive, whole
from ..quantities import Amount, Count, Number, PositiveSeconds, PositiveShare, Seconds, Share, WholeAmount, law
from ..records import Explained, Rows, summary

# --- What is new: burn-in and acceptance -----------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class BurnIn(Explained):
    """What a burn-in finds and costs, for each server that is tested.

    ``found`` and ``left`` are the bad servers that it finds and that it misses, as shares of all; ``false_alarms`` are
    the good ones that fail meanwhile, for each server. ``cost`` is time of servers for each server: that of the test,
    of the misses and of the false alarms.
    """

    found: Share
    left: Share
    false_alarms: Amount
    cost: Seconds

    def _rows(self) -> Rows:
        rows = [(name.replace("_", " "), summary(getattr(self, name), "%")) for name in ("found", "left")]
        rows += [("false alarms", summary(self.false_alarms, "%")), ("cost", summary(self.cost, "s"))]
        return [("", "of a server"), *rows]


@law
def burn_in(
    time: Seconds,
    *,
    bad: Share,
    shows: PositiveSeconds,
    missed: PositiveSeconds,
    coverage: PositiveShare = 1.0,
    mtbf: PositiveSeconds | None = None,
    false_cost: Seconds = 0.0,
) -> BurnIn:
    r"""Load on new servers before anybody uses them: how many of the bad ones show, and what it costs.

    .. math:: \text{found} = q\,c\,(1 - e^{-t/w}), \qquad
        \text{cost} = t + (q - \text{found})\,C + (1 - q)\,\frac{t}{m}\,F

    Parameters
    ----------
    time
        Seconds of the test, t.
    bad
        Share of the servers that are bad, q.
    shows
        Mean time under load until a bad server shows it, w: exponential.
    missed
        What a bad server costs that goes into use, C: seconds of servers, those of the whole job that stops.
    coverage
        Share of the bad ones that the test can find at all, however long it is, c.
    mtbf
        Mean time between failures of a good server, m: by default it has none.
    false_cost
        Seconds of a server that a good one costs when it fails in the test, and is looked at in vain, F.

    Returns
    -------
    BurnIn

    Notes
    -----
    Derived: infant mortality as a mixture of a few bad servers and many good ones (Jensen and Petersen 1982, Burn-In),
    each of a constant rate. Servers are tested all at once, and all for as long.

    Examples
    --------
    One server in twenty is bad, shows it within 12 hours on average, and costs a job of 2,048 servers 48 minutes:

    >>> from clusterlab.units import hour
    >>> new = {"bad": 0.05, "shows": 12 * hour, "missed": 2048 * 0.8 * hour}
    >>> burn_in(24 * hour, **new)
    BurnIn
                  of a server
    found               4.32%
    left               0.677%
    false alarms           0%
    cost               35.1 h
    """
    found = bad * coverage * -np.expm1(-time / shows)
    false_alarms = 0 * bad if mtbf is None else (1 - bad) * time / mtbf
    return BurnIn(found, bad - found, false_alarms, time + (bad - found) * missed + false_alarms * false_cost)


@law
def best_burn_in(
    *,
    bad: Share,
    shows: PositiveSeconds,
    missed: PositiveSeconds,
    coverage: PositiveShare = 1.0,
    mtbf: PositiveSeconds | None = None,
    false_cost: Seconds = 0.0,
) -> Seconds:
    r"""The length of a burn-in that costs least.

    .. math:: t^* = w \ln \frac{q\,c\,C}{w\,\left(1 + (1 - q) F / m\right)}

    Parameters
    ----------
    bad, shows, missed, coverage, mtbf, false_cost
        As in :func:`burn_in`.

    Returns
    -------
    Seconds
        0 where even the first hour costs more than it finds.

    Notes
    -----
    Derived: where the derivative of :func:`burn_in`'s cost is zero, so that another hour of all servers costs what the
    bad ones that it finds would.

    Examples
    --------
    The job decides: on 256 servers no hour pays for itself, on 2,048 a day does.

    >>> from clusterlab.units import hour
    >>> sizes = np.array([256, 2048])
    >>> (best_burn_in(bad=0.05, shows=12 * hour, missed=sizes * 0.8 * hour) / hour).round(1).tolist()
    [0.0, 23.1]
    """
    hour = 1 if mtbf is None else 1 + (1 - bad) * false_cost / mtbf  # what one costs, with its false alarms
    return shows * np.log(np.maximum(bad * coverage * missed / (shows * hour), 1))


@law
def accepted(allowed: WholeAmount, *, time: Seconds, mtbf: PositiveSeconds) -> Share:
    r"""Chance that a run of a whole cluster has no more failures than are allowed.

    .. math:: P = \sum_{k \le a} \frac{(t/M)^k}{k!}\, e^{-t/M}

    Parameters
    ----------
    allowed
        Failures that are allowed, a.
    time
        Length of the run, t.
    mtbf
        Mean time between failures of the cluster, M.

    Returns
    -------
    Share
        With the mean time that was promised, one less this is the seller's risk: that a good cluster is refused. With
        one that you could not live with, it is the buyer's: that a bad one is accepted.

    Notes
    -----
    Source: Epstein and Sobel 1953, life tests of exponential lives. The failures are independent here; in bursts both
    risks are higher.

    Examples
    --------
    Three days of a cluster that fails once a day, and of one that fails twice as often: no failure, four, six.

    >>> for days in (1, 0.5):
    ...     accepted([0, 4, 6], time=3, mtbf=days).round(2).tolist()
    [0.05, 0.82, 0.97]
    [0.0, 0.29, 0.61]
    """
    return _up_to(allowed, time / mtbf)


def _up_to(allowed: Numeric, mean: Numeric) -> Numeric:
    """Chance that a Poisson count of this mean is no larger: that of none, and that of one up to so many."""
    return np.minimum(np.exp(-mean) + _one_up_to(allowed, mean), 1.0)[()]


@np.vectorize(otypes=[float])
def _one_up_to(allowed: float, mean: float) -> float:
    k = np.arange(1, int(allowed) + 1)
    if not mean or not k.size:
        return 0.0
    return float(np.exp(k * math.log(mean) - mean - [math.lgamma(i + 1) for i in k]).sum())


# --- What changes: waves ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class Rollout(Explained):
    """A change that goes out in waves, if it brings a bug: how far it comes until it is stopped.

    ``reached`` is the chance that each wave starts, ``exposed`` the mean number of servers that have the bug when it is
    stopped, ``false_stops`` the chance that a change without a bug is stopped before its last wave, and ``time`` how
    long one takes that is not: to the start of its last wave.
    """

    reached: Share
    exposed: Amount
    false_stops: Share
    time: Seconds

    def _rows(self) -> Rows:
        rows = [("reach the last wave", summary(self.reached[..., -1], "%"))]
        rows += [("servers with the bug", summary(self.exposed)), ("false stops", summary(self.false_stops, "%"))]
        return [("", "value"), *rows, ("time", summary(self.time, "s"))]


def rollout(
    waves: Count, *, soak: Seconds, bug: PositiveSeconds, mtbf: PositiveSeconds | None = None, stop: Count = 1
) -> Rollout:
    r"""New firmware or a new driver in waves, each of which runs for a while before the next one starts.

    .. math:: E_j = \sum_{i \le j} s \sum_{l \le i} n_l, \qquad
        P(\text{wave } j + 1) = \sum_{k < r} \frac{(E_j/u)^k}{k!}\, e^{-E_j/u}, \qquad
        \frac1u = \frac1b + \frac1m

    Parameters
    ----------
    waves
        Servers of each wave, n, along the last axis.
    soak
        Seconds that each wave runs before the next, s.
    bug
        Mean time until the bug strikes a server that has it, b.
    mtbf
        Mean time between failures of a server that look alike and have another cause, m: by default there are none.
    stop
        Failures of updated servers at which it is stopped, r.

    Returns
    -------
    Rollout
        What is counted is E, the hours of updated servers: few for long tell as much as many for short.

    Raises
    ------
    ValueError
        ``waves`` has no axis.

    Notes
    -----
    Derived: the strikes are a Poisson process in the time of updated servers. A bug that waits, such as a leak that
    takes three weeks, strikes nobody before.

    Examples
    --------
    A bug that strikes a server every 1,000 hours. All at once; ten of 2,048 for a day; and three waves of a day.

    >>> from clusterlab.units import hour
    >>> bug = {"soak": 24 * hour, "bug": 1000 * hour}
    >>> plans = ([2048], [10, 2038], [10, 100, 1938])
    >>> [round(float(rollout(waves, **bug).exposed)) for waves in plans]
    [2048, 1613, 197]
    """
    if np.ndim(waves) == 0:
        raise ValueError(f"waves must be a list, the servers of each, got {waves!r}")
    (sizes, strikes), (soaked,) = whole(waves=waves, stop=stop), nonnegative(soak=soak)
    broadcastable(soak=soak, bug=bug, stop=stop, **({} if mtbf is None else {"mtbf": mtbf}))
    (struck,) = positive(bug=bug)
    others = 0 / struck if mtbf is None else 1 / positive(mtbf=mtbf)[0]
    soaked, rate, others, strikes = (np.expand_dims(x, -1) for x in (soaked, 1 / struck, others, strikes))
    updated = np.cumsum(sizes, axis=-1)
    before = np.cumsum(updated, axis=-1) - updated  # of the waves before each: servers, once for each soak
    chances = [_up_to(strikes - 1, before * soaked * rate) for rate in (rate + others, others)]
    exposed = (sizes * chances[0]).sum(axis=-1)
    time = (np.shape(sizes)[-1] - 1) * soaked[..., 0]
    return Rollout(chances[0], exposed, 1 - chances[1][..., -1], time[()])


# --- What is broken: k of n ------------------------------------------------------------------------------------------


@law
def k_of_n(k: WholeAmount, n: Count, up: Share) -> Share:
    r"""Chance that at least k of n are up: trays of a rack, or free servers of a block.

    .. math:: P = \sum_{j \ge k} \binom nj\, a^j (1 - a)^{n - j}

    Parameters
    ----------
    k, n
        How many are needed, and how many there are.
    up
        Chance of each to be up, a: of a part with a mean time to failure m and a repair of r, m / (m + r).

    Notes
    -----
    Source: Barlow and Proschan 1965, k-out-of-n systems. They fail independently: what takes all of them at once, a
    switch tray or a feed, comes on top.

    Examples
    --------
    A rack of 18 trays, of which each is up 99.6 % of the time: all of them, and 16 of them.

    >>> k_of_n([18, 16], 18, 0.996).round(4).tolist()
    [0.9304, 1.0]
    """
    return _at_least(k, n, up)[()]


@np.vectorize(otypes=[float])
def _at_least(k: float, n: float, up: float) -> float:
    if k <= 0:
        return 1.0
    if up in (0, 1) or k > n:
        return float(bool(up) and k <= n)
    j = np.arange(int(k), int(n) + 1)
    ways = np.array([math.lgamma(n + 1) - math.lgamma(i + 1) - math.lgamma(n - i + 1) for i in j])
    return min(1.0, float(np.exp(ways + j * math.log(up) + (n - j) * math.log1p(-up)).sum()))


# --- What flaps ------------------------------------------------------------------------------------------------------


@law
def flaps_to_swap(
    usual: Number, *, dispersion: Number, flap_cost: PositiveSeconds, swap_cost: PositiveSeconds, windows: Number = 1.0
) -> Count:
    r"""Fewest flaps of a link, in a window of time, after which swapping it pays.

    .. math:: \lambda(k) = \bar\lambda\,\frac{1 + \phi\,k}{1 + \phi\,\bar\lambda}, \qquad
        k^* = \min \{k : (\lambda(k) - \bar\lambda)\, h\, F \ge S \}

    Parameters
    ----------
    usual
        Mean number of flaps of a link in the window.
    dispersion
        Squared coefficient of variation of the links' own rates, phi.
    flap_cost
        What one flap costs, F: seconds of servers, those of the whole job that waits.
    swap_cost
        What a swap costs, S, in the same seconds.
    windows
        How long the swap is to pay for itself, in such windows, h.

    Returns
    -------
    Count

    Notes
    -----
    Derived from the rate that a count speaks for (Greenwood and Yule 1920, :func:`clusterlab.failures.lemons`): a link
    that flapped once was mostly unlucky. The new link flaps as usual.

    Examples
    --------
    One flap a link in ten months. A job of 256 servers waits 10 s for a short one, and restarts for 16 minutes after a
    long one. A swap costs an hour of a server at a stop, and a restart besides if it makes one.

    >>> from clusterlab.units import hour, minute
    >>> job = {"dispersion": 0.9, "flap_cost": 256 * np.array([10, 16 * minute]), "windows": 6}
    >>> [flaps_to_swap(0.1, **job, swap_cost=cost).tolist() for cost in (hour, hour + 256 * 16 * minute)]
    [[3.0, 1.0], [197.0, 3.0]]
    """
    extra = swap_cost / (flap_cost * windows)
    # A rounding error must not ask for one flap more.
    least = ((usual + extra) / usual * (1 + dispersion * usual) - 1) / dispersion
    return np.maximum(np.ceil(least * (1 - 1e-12)), 1)[()]
