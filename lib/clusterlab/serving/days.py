r"""Days: how many replicas a day of requests takes, from its trough to its peak, and how early the next must start.

A promise is kept at a rate (:mod:`clusterlab.serving.promises`); the rate of a day rises and falls. Who scales with it
must start a replica before it is needed, because a replica first loads its weights. Who doesn't pays for the peak all
night. Either way some replicas stand ready for what is no part of the curve: a replica that fails, a region that is
lost, a rollout that takes some of them down.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..checks import Numeric, larger, nonnegative, positive, whole
from ..quantities import (
    Amount,
    Arrivals,
    Bytes,
    BytesPerSecond,
    CalendarSeconds,
    Count,
    Number,
    PerSecond,
    Seconds,
    Share,
    WholeAmount,
    law,
)
from ..records import Explained, Rows, summary
from ..units import day, hour
from .promises import Kept


@dataclass(frozen=True, repr=False)
class Day(Explained):
    """Requests a second over a day: a wave between a ``trough`` and a ``peak``, which comes at ``peak_at`` seconds.

    Examples
    --------
    >>> office = Day(peak=1000, trough=200)
    >>> float(office.rate(15 * 3600)), float(office.rate(3 * 3600)), float(office.mean)
    (1000.0, 200.0, 600.0)
    """

    peak: PerSecond
    trough: Arrivals
    peak_at: CalendarSeconds = 15 * hour

    def __post_init__(self) -> None:
        """Refuse a day whose trough is above its peak."""
        positive(peak=self.peak)
        nonnegative(trough=self.trough, peak_at=self.peak_at)
        if np.any(np.greater(self.trough, self.peak)):
            raise ValueError(f"trough must be at most peak, got {np.max(self.trough):g} and {np.min(self.peak):g}")

    @property
    def mean(self) -> Arrivals:
        """Requests a second, over the whole day."""
        return (self.peak + self.trough) / 2

    @property
    def swing(self) -> Arrivals:
        """Requests a second by which the peak is above the mean."""
        return (self.peak - self.trough) / 2

    @property
    def steepest(self) -> Amount:
        """Requests a second by which the rate grows in a second, when it grows fastest: halfway up."""
        return 2 * np.pi / day * self.swing

    def rate(self, time: CalendarSeconds) -> Arrivals:
        """Requests a second at a time of the day."""
        return self.mean + self.swing * np.cos(2 * np.pi * (np.asarray(time) - self.peak_at) / day)

    def of_regions(self, regions: Count, apart: CalendarSeconds) -> Day:
        """Return the day of so many regions together, each with the same share and its peak so much after the last's.

        Waves that are out of step level one another out: of n regions evenly around the globe nothing is left of them.

        Examples
        --------
        >>> [round(float(Day(1000, 200).of_regions(3, h * 3600).peak)) for h in (0, 4, 8)]
        [1000, 867, 600]
        """
        angles = 2 * np.pi / day * apart * np.arange(int(regions))
        kept = round(float(np.abs(np.exp(1j * angles).mean())), 12)  # nothing, not rounding noise, around the globe
        middle = self.peak_at + apart * (int(regions) - 1) / 2
        return Day(self.mean + kept * self.swing, self.mean - kept * self.swing, middle)

    def _rows(self) -> Rows:
        rows = [("", "value"), ("peak", summary(self.peak, "/s")), ("trough", summary(self.trough, "/s"))]
        return [*rows, ("peak at", f"{summary(self.peak_at / hour)} h")]


@law
def cold_start(
    size: Bytes, *, into: BytesPerSecond, store: BytesPerSecond, new: Count = 1, start: Seconds = 0
) -> Seconds:
    r"""Seconds until new replicas serve: their programs start, and each loads its weights.

    .. math:: s + W \max\Big(\frac{1}{b},\; \frac{n}{B}\Big)

    Parameters
    ----------
    size
        Bytes of weights that a replica loads, W.
    into
        Bytes/s into one replica, b: of its ports, of its disks, of its lanes to the hosts' memory.
    store
        Bytes/s that all who load at once share, B. Where each has weights of its own (on its disks) or those that have
        them pass them on, that is no limit: ``np.inf`` is refused, so give n b.
    new
        Replicas that start at the same time, n.
    start
        Seconds of all else, s: a machine that is found, a container, programs that are compiled, graphs captured.

    Returns
    -------
    Seconds

    Notes
    -----
    Derived: a flow takes as long as its narrowest part.

    Examples
    --------
    A trillion parameters in 8 bits, into a rack of 18 hosts: from a store of 100 GB/s; from a disk of 12 GB/s in each;
    from their memory, at 64 GB/s into each of 72 GPUs; ten racks at once from the store.

    >>> flows = ((100e9, 1), (18 * 12e9, 1), (72 * 64e9, 1), (100e9, 10))
    >>> [round(float(cold_start(1e12, into=min(b, 72 * 50e9), store=b, new=n)), 1) for b, n in flows]
    [10.0, 4.6, 0.3, 100.0]
    """
    return start + size * larger(1 / into, new / store)


@dataclass(frozen=True, repr=False)
class Scaled(Explained):
    """Replicas over a day, quarter hour by quarter hour, of all regions together.

    ``needed`` keep the promise at the rate of each ``time``, wherever requests are served; ``running`` are those and
    ``ahead``, which have been started for what the rate grows by while a replica starts, and ``spares``. ``built`` are
    there at any time: enough for the peak without one region, with spares, and with those that a rollout takes down.
    What is built and does not run is lent to batch work: ``lent`` is its share of all GPU-hours. ``low`` and ``high``
    are the ends of the 80 % interval of ``gpus``.
    """

    time: CalendarSeconds
    needed: Amount
    ahead: WholeAmount
    spares: WholeAmount
    built: Count
    replica_gpus: Number
    low: Number
    high: Number

    @property
    def running(self) -> Amount:
        """Replicas that serve or stand ready, at each time."""
        return np.minimum(self.needed + self.ahead + self.spares, self.built)

    @property
    def gpus(self) -> Number:
        """GPUs that are built."""
        return self.built * self.replica_gpus

    @property
    def lent(self) -> Share:
        """Share of a day's GPU-hours that no user needs."""
        return 1 - float(np.mean(self.running)) / self.built

    @property
    def busy(self) -> Share:
        """Share of a day's GPU-hours without which the promise would not be kept."""
        return float(np.mean(self.needed)) / self.built

    def _rows(self) -> Rows:
        rows = [("", "value"), ("GPUs", f"{self.gpus:,.0f} ({self.low:,.0f} to {self.high:,.0f})")]
        rows += [("replicas built", f"{self.built:,.0f}"), ("needed at the peak", f"{np.max(self.needed):,.0f}")]
        rows += [("needed at the trough", f"{np.min(self.needed):,.0f}"), ("started ahead", f"{self.ahead:,.0f}")]
        rows += [("spares", f"{self.spares:,.0f}"), ("busy", summary(self.busy, "%"))]
        return [*rows, ("lent to batch work", summary(self.lent, "%"))]


def scale_over(
    kept: Kept,
    users: Day,
    *,
    cold: Seconds,
    spares: WholeAmount = 1,
    regions: Count = 1,
    apart: CalendarSeconds = 0,
    rollout: Share = 0,
) -> Scaled:
    r"""Replicas that keep a promise over a day: when they must be there, and how many are built.

    .. math:: n(t) = \Big\lceil N\,\frac{\lambda(t)}{\lambda} \Big\rceil, \qquad
        \text{ahead} = \Big\lceil N\,\frac{T\,\dot\lambda_\text{max}}{\lambda} \Big\rceil, \qquad
        \text{built} = R\,\Big(\Big\lceil \frac{n_\text{max}}{(R - 1)\,(1 - f)} \Big\rceil + \text{spares}\Big)

    Parameters
    ----------
    kept : Kept
        N replicas that keep the promise at a rate lambda.
    users : Day
        Requests of all regions, as if their days were one.
    cold
        Seconds from the decision to start a replica until it serves, T: :func:`cold_start`.
    spares
        Replicas of each region for those that fail.
    regions
        Places that serve, R, each with an equal share. Of several one may be lost at any time; one alone may not.
    apart
        Seconds by which the day of each region is behind that of the one before. Requests go wherever there is room.
    rollout
        Share of a region's replicas that a rollout of new weights may take down at a time, f, at the peak too: 0 where
        it waits for the night.

    Returns
    -------
    Scaled

    Notes
    -----
    Derived. A rollout of all replicas takes T/f. Rates are those of a curve that is known; a surge that no curve holds
    is met by what runs ahead of it, and by ``burstiness`` in the promise.

    Examples
    --------
    A thousand requests a second at three in the afternoon, and a fifth of it at night; two minutes to start a replica:

    >>> from clusterlab.catalogue import SERVING, machine
    >>> from clusterlab.model import Layout, transformer
    >>> from clusterlab.serving import Formats, Promise, Replica, Requests, replicas_for
    >>> formats = Formats("fp8", cache_bytes=1)
    >>> llama, h200 = transformer("Llama 3.1 70B"), machine("H200 SXM")
    >>> pair = Replica(llama, h200, Layout(tp=2), formats, software=SERVING["vLLM"])
    >>> kept = replicas_for(pair, Requests(1000, 300), Promise(1.0, 0.03), rate=1000)
    >>> one, three = (scale_over(kept, Day(1000, 200), cold=120, regions=n) for n in (1, 3))
    >>> bool(0.3 < one.lent < 0.4), bool(1.4 < three.gpus / one.gpus < 1.6)
    (True, True)
    """
    (seconds, standing, share), (places,) = (
        nonnegative(cold=cold, spares=spares, rollout=rollout),
        whole(regions=regions),
    )
    if share >= 1:
        raise ValueError(f"rollout must be below 1, got {share:g}")
    world, each = users.of_regions(places, apart), kept.replicas / kept.rate
    time = np.arange(0, day, hour / 4)
    needed = _whole(each * world.rate(time))
    ahead = float(_whole(each * seconds * world.steepest))
    rest = max(float(places) - 1, 1.0)
    built = float(places) * float(_whole(np.max(needed) / rest / (1 - share)) + standing)
    size = float(kept.gpus) / kept.replicas
    low, high = (float(_whole(built * end / kept.gpus)) * size for end in (kept.low, kept.high))
    return Scaled(time, needed, ahead, float(places) * standing, built, size, low, high)


def _whole(replicas: Numeric) -> Numeric:
    """The next whole number."""
    return np.ceil(np.asarray(replicas) * (1 - 1e-12))
