"""Pools: GPUs that generate beside GPUs that train, what a schedule makes of them, and what is on its way."""

from __future__ import annotations

from dataclasses import dataclass

from ..quantities import Amount, Multiple, Number, PositiveSeconds, Seconds, Share, law
from ..records import Explained, Rows, summary


@dataclass(frozen=True, repr=False)
class PoolBalance(Explained):
    """GPUs that generate and GPUs that train, of which neither waits, and the seconds of an iteration."""

    generators: Number
    trainers: Number
    time: Seconds

    @property
    def share(self) -> Share:
        """Share of the GPUs that generate."""
        return self.generators / (self.generators + self.trainers)

    def _rows(self) -> Rows:
        rows = [("", "value"), ("generators", summary(self.generators)), ("trainers", summary(self.trainers))]
        return [*rows, ("share that generates", summary(self.share, "%")), ("iteration", summary(self.time, "s"))]


@law
def balance_pools(
    gpus: Number, *, generating: PositiveSeconds, training: PositiveSeconds, floor: Seconds = 0
) -> PoolBalance:
    r"""How many of the GPUs shall generate and how many train, where both work at the same time.

    .. math:: \phi + \frac{g}{x} = \frac{t}{N - x} = T, \qquad
        N - x = \frac{2\,t N}{b + \sqrt{b^2 - 4 \phi\, t N}}, \quad b = \phi N + g + t

    A pass has a floor :math:`\alpha` and takes :math:`\beta` longer for each sequence (:func:`pass_line`). So W tokens
    on x GPUs, r to a replica, take

    .. math:: \alpha P + \frac{\beta\, r\, W}{x}, \qquad \phi = \alpha P, \quad g = \beta\, r\, W

    with P passes: those of the longest answer where the batch empties, W over the answers in flight where it never
    does. More replicas share the answers, so each reads its weights for fewer: the floor is theirs as often as before.

    Parameters
    ----------
    gpus
        All of them, N. More or fewer than a whole replica or layout are allowed: round afterwards.
    generating, training
        GPU-seconds of work in an iteration that more GPUs share: what sequences add to passes, g, and all training, t.
    floor
        Seconds of generation that no further GPU shortens, phi.

    Returns
    -------
    PoolBalance
        The quickest iteration that two pools can have, as long as the answers in flight find places.

    Notes
    -----
    Derived: one side falls with x, the other rises, so the slower of both is least where they meet. Replicas that are
    run pass by pass are its witness. Source for the rule without a floor, x/N = g/(g + t): verl's guide to its fully
    asynchronous recipe ("make the rollout time and train time close").

    Examples
    --------
    Work of 6,000 and 2,000 GPU-seconds on 64 GPUs: three quarters generate. With a floor of a minute, more do.

    >>> for floor in (0, 60):
    ...     found = balance_pools(64, generating=6000, training=2000, floor=floor)
    ...     print(round(float(found.generators), 1), round(float(found.time), 1))
    48.0 125.0
    52.5 174.2
    """
    b = floor * gpus + generating + training
    trainers = 2 * training * gpus / (b + (b**2 - 4 * floor * gpus * training) ** 0.5)
    return PoolBalance(gpus - trainers, trainers, training / trainers)


@dataclass(frozen=True, repr=False)
class ScheduleTimes(Explained):
    """Seconds of an iteration on the same GPUs: all take turns, two pools a step apart, pools that never wait."""

    synchronous: Seconds
    one_step_off: Seconds
    asynchronous: Seconds

    @property
    def gain(self) -> Multiple:
        """How much sooner the last is done than the first."""
        return self.synchronous / self.asynchronous

    def _rows(self) -> Rows:
        names = ("synchronous", "one_step_off", "asynchronous")
        first = self.synchronous
        rows = [("", "iteration", "times as fast")]
        return rows + [
            (n.replace("_", " "), summary(getattr(self, n), "s"), summary(first / getattr(self, n))) for n in names
        ]


@law
def schedule_times(
    gpus: Number,
    *,
    generating: PositiveSeconds,
    training: PositiveSeconds,
    emptying: Seconds,
    steady: Seconds = 0,
    weights: Seconds = 0,
) -> ScheduleTimes:
    r"""An iteration under three schedules: turns on all GPUs, one step off, and asynchronous.

    .. math:: T_\text{sync} = \phi_e + \frac{g + t}{N} + w, \qquad T_\text{one off} = T(\phi_e) + w, \qquad
        T_\text{async} = T(\phi_s + w)

    with :math:`T(\phi)` the time of :func:`balance_pools`.

    Parameters
    ----------
    gpus
        All of them, N.
    generating, training
        As in :func:`balance_pools`.
    emptying, steady
        The floor of a pass as often as there are passes until the longest answer ends, and as often as there are where
        no batch ever empties: tokens over answers in flight.
    weights
        Seconds in which new weights travel, w. Where pools never wait, only those that generate pause for it.

    Returns
    -------
    ScheduleTimes

    Notes
    -----
    Derived. Asynchrony does no work sooner and saves none: what it saves is passes of a few sequences, each of which
    reads all weights. The more answers are in flight, the fewer passes.

    Examples
    --------
    >>> schedule_times(64, generating=1360, training=3500, emptying=159, steady=38)
    ScheduleTimes
                  iteration  times as fast
    synchronous    3.92 min              1
    one step off   3.15 min           1.24
    asynchronous     91.1 s           2.58
    """
    taking_turns = emptying + (generating + training) / gpus + weights + 0 * steady
    apart, free = (
        balance_pools.unchecked(gpus, generating=generating, training=training, floor=floor).time
        for floor in (emptying, steady + weights)
    )
    return ScheduleTimes(taking_turns, apart + weights + 0 * steady, free + 0 * emptying)


@law
def versions_behind(in_flight: Amount, batch: Number) -> Amount:
    r"""Training steps between the start of an answer and the step that learns from it, mean: how stale it is.

    .. math:: V = \frac{Q}{B}

    Parameters
    ----------
    in_flight
        Answers that are being written, or wait to be learned from, Q.
    batch
        Answers that a training step takes, B.

    Returns
    -------
    Amount

    Notes
    -----
    Derived: Little's law (:func:`clusterlab.serving.little_law`), with a training step as the clock: B answers leave in
    each. What staleness does to learning no law here says.

    Examples
    --------
    1,024 answers in flight, and 512 in a batch:

    >>> float(versions_behind(1024, 512))
    2.0
    """
    return in_flight / batch


@law
def answers_in_flight(places: Number, *, writing: PositiveSeconds, waiting: Seconds) -> Number:
    r"""Answers that must be on their way so that every place of a replica is taken, where tools make them wait.

    .. math:: Q = S \Big(1 + \frac{t_\text{waiting}}{t_\text{writing}}\Big)

    Parameters
    ----------
    places
        Sequences that shall write at a time, S.
    writing
        Seconds in which an answer is written, all its turns together.
    waiting
        Seconds in which it waits for tools, tests and environments.

    Returns
    -------
    Number

    Notes
    -----
    Derived: Little's law twice, S = lambda times writing, Q = lambda times both. Any distribution of either will do.

    Examples
    --------
    A minute of writing and four of waiting: 256 places need 1,280 answers, whose caches must be kept or read again.

    >>> float(answers_in_flight(256, writing=60, waiting=240))
    1280.0
    """
    return places * (1 + waiting / writing)
