"""What a log of incidents teaches a plan: rate, bursts, causes and costs, each weighed against what is published."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from ..catalogue import PREDICTION_INTERVALS
from ..failures import (
    Burstiness,
    Estimate,
    TimeEstimate,
    burstiness,
    expected_failures,
    posterior_loss,
    posterior_mttf,
    system_mtbf,
)
from ..planning import ASSUMPTIONS, CENTRAL, Scenario, supposed
from ..quantities import PositiveSeconds
from ..records import Explained, Rows, with_interval
from ..units import day, fmt
from .incidents import Incidents, plain_name
from .tables import published

_TENTH = 1.2815515655446004  # a tenth of a normal distribution is beyond so many standard deviations

# Words of a cause that say which category of Llama 3's table it is of; the first that fits.
_CATEGORIES = {
    "Unplanned Maintenance": "maintenance",
    "GPU": "gpu xid ecc hbm nvlink nvswitch sxm accelerator cuda sram thermal",
    "Network": "network switch cable infiniband ib roce rdma link optic optics transceiver flap port fabric",
    "Host": "host node server cpu memory dimm disk ssd nvme power psu chassis nic pcie kernel reboot",
    "Dependency": "software bug nccl driver framework oom python code storage filesystem dependency application user",
}


@dataclass(frozen=True, repr=False)
class Cause(Explained):
    """Incidents of one cause: how many, the time to one of them on a GPU, and the mean of what each cost."""

    name: str
    incidents: int
    mttf: TimeEstimate
    lost: float


@dataclass(frozen=True, repr=False)
class OwnFailures(Explained):
    """What a log teaches: each estimate weighs it against what is published of others, with its 80 % interval.

    ``mttf`` is that of one GPU; ``before`` the published one, which counts for ``weight`` incidents; ``lost`` the mean
    cost of an incident, None where the log does not say it; ``book`` how many incidents the published rate lets expect,
    bursts included.
    """

    log: Incidents
    mttf: TimeEstimate
    before: PositiveSeconds
    weight: float
    bursts: Burstiness
    window: float
    lost: TimeEstimate | None
    causes: tuple[Cause, ...]
    book: Estimate

    @property
    def sentence(self) -> str:
        """The rate in words, and what the published one weighs."""
        log = self.log
        seen = f"{len(log.times):,} incidents in {log.observed / day:,.0f} days of {log.gpus:,.0f} GPUs"
        weighs = f"the published {fmt(self.before, 'h')} weigh as {self.weight:.0f} incidents"
        return f"{seen}: MTTF of a GPU {_hours(self.mttf)}; {weighs}"

    def _rows(self) -> Rows:
        log, bursts = self.log, self.bursts
        expects = f"{self.book.value:,.0f} ({self.book.low:,.0f} to {self.book.high:,.0f})"
        scatter = f"{bursts.index:.2g}, over {bursts.windows} windows of {self.window / day:.3g} d"
        rows = [("", "own log"), ("MTTF of a GPU", _hours(self.mttf)), ("incidents", f"{len(log.times):,}")]
        rows += [("the published rate expects", expects), ("index of dispersion", scatter)]
        rows.append(("worth, for their bursts", f"{len(log.times) / bursts.index:,.0f} incidents"))
        if self.lost is not None:
            rows.append(("lost by an incident", _hours(self.lost)))
        hands = [hand for hand in log.by_hand if hand is not None]
        if hands:
            by_people = [lost for lost, hand in zip(log.lost, log.by_hand, strict=True) if hand and math.isfinite(lost)]
            mean = f", {fmt(float(np.mean(by_people)), 'h')} each" if by_people else ""
            rows.append(("restarted by hand", f"{sum(hands):,} of {len(hands):,}{mean}"))
        return rows

    @property
    def by_cause(self) -> Rows:
        """The causes as rows of a table, the most frequent first."""
        rows = [("cause", "incidents", "MTTF of a GPU", "lost by one")]
        said = (fmt(one.lost, "h") if math.isfinite(one.lost) else "" for one in self.causes)
        return [
            *rows,
            *((c.name, f"{c.incidents:,}", _hours(c.mttf), lost) for c, lost in zip(self.causes, said, strict=True)),
        ]

    def scenario(self, scenario: Scenario = CENTRAL) -> Scenario:
        """The scenario with this log's rate and losses in place of the published ones, and their narrower intervals.

        The rate of a further stretch as long as the log swings by its bursts once more. What an incident costs is taken
        as time without work: until the job trains again. What was done since the last checkpoint is lost on top, by the
        plan's own interval; what no line tells of (planned windows, slow nodes) is not in it.
        """
        kept = [one for one in scenario.own or () if one[0] != "gpu_mttf"]
        own = [*kept, ("gpu_mttf", *_multiples(self.mttf, self.bursts.dispersion / self.bursts.windows))]
        changed = {"gpu_mttf": float(self.mttf.value)}
        if self.lost is not None:
            own = [one for one in own if one[0] != "lost_time"] + [("lost_time", *_multiples(self.lost))]
            times = float(self.lost.value) / float(scenario.detection + scenario.restart)
            changed |= {name: float(getattr(scenario, name)) * times for name in ("detection", "restart")}
        return replace(supposed(scenario, changed), own=tuple(own))


def _hours(one: Estimate) -> str:
    return with_interval(one.value, one.low, one.high, "h")


def _multiples(one: Estimate, more: float = 0.0) -> tuple[float, float]:
    """Ends in multiples of the value, wider by so much more variance of the logarithm."""
    low, high = (math.hypot(math.log(end / one.value), _TENTH * math.sqrt(more)) for end in (one.low, one.high))
    return math.exp(-low), math.exp(high)


def learn_incidents(log: Incidents, scenario: Scenario = CENTRAL) -> OwnFailures:
    r"""Weigh a log against what is published: rate, bursts, causes and cost of its incidents.

    The rate of a GPU is gamma distributed about that of the scenario, with the interval of published fleets. The log
    narrows it (:func:`clusterlab.failures.posterior_mttf`), by less where its counts come in bursts
    (:func:`clusterlab.failures.burstiness`). A cause has the share of that prior that its category has of Llama 3's
    interruptions. The cost of an incident starts at the scenario's detection and restart, with the interval of
    published goodputs (:func:`clusterlab.failures.posterior_loss`).

    Parameters
    ----------
    log
        From :func:`read_incidents`.
    scenario
        What was believed before.

    Examples
    --------
    >>> from clusterlab.units import hour
    >>> times = tuple(i * day / 4 for i in range(400))
    >>> log = Incidents(4096, 100 * day, times, ("Xid 79",) * 400, (hour,) * 400, (None,) * 400)
    >>> for part in learn_incidents(log).sentence.split("; "):
    ...     print(part)
    400 incidents in 100 days of 4,096 GPUs: MTTF of a GPU 25,200 h (23,400 to 27,400)
    the published 50,000 h weigh as 7 incidents
    """
    low, high = (float(getattr(ASSUMPTIONS["gpu_mttf"], end)) for end in ("low", "high"))
    weight, prior = prior_weight(high / low), float(scenario.gpu_mttf)
    window, counts = _windows(log)
    bursts = burstiness(counts)
    exposure = log.gpus * log.observed

    def mttf(count: int, share: float = 1.0) -> TimeEstimate:
        index = 1 + bursts.dispersion * count / bursts.windows
        return posterior_mttf(count, exposure, prior=prior / share, weight=weight * share, index=index)

    spread = PREDICTION_INTERVALS["goodput"]
    doubt = math.log(spread.high / spread.low) / 2 / _TENTH
    said = [lost for lost in log.lost if math.isfinite(lost)]
    before = float(scenario.detection + scenario.restart)
    return OwnFailures(
        log=log,
        mttf=mttf(len(log.times)),
        before=prior,
        weight=weight,
        bursts=bursts,
        window=window,
        lost=posterior_loss(said, prior=before, doubt=doubt) if said else None,
        causes=tuple(_causes(log, mttf)),
        book=expected_failures(log.observed, system_mtbf(prior, log.gpus), 0.8),
    )


def prior_weight(width: float) -> float:
    r"""How many failures a belief is worth whose 80 % interval is so wide, upper end over lower.

    .. math:: a: \quad Q_{0.9}(a) / Q_{0.1}(a) = \text{width}

    for the quantiles Q of a gamma distribution of shape a, whatever its scale.

    Examples
    --------
    Meta's two clusters, 29,536 and 82,051 h a GPU, are worth seven: a week of a large fleet outweighs them.

    >>> round(prior_weight(82_051 / 29_536), 1)
    6.7
    """
    low, high = 0.1, 1e6
    for _ in range(60):
        middle = math.sqrt(low * high)
        one = posterior_mttf.unchecked(0.0, 0.0, prior=1.0, weight=middle, index=1.0, confidence=0.8)
        low, high = (middle, high) if one.high > width * one.low else (low, middle)
    return middle


def _windows(log: Incidents) -> tuple[PositiveSeconds, np.ndarray]:
    """Counts of equal windows: of 30 days, of 7 or of one, the longest of which there are eight; else eight."""
    length = next((w * day for w in (30, 7, 1) if log.observed >= 8 * w * day), log.observed / 8)
    number = int(log.observed / length * (1 + 1e-9))
    length = log.observed / number
    return length, np.bincount(np.minimum(np.asarray(log.times) / length, number - 1).astype(int), minlength=number)


def _causes(log: Incidents, mttf: Callable[[int, float], TimeEstimate]) -> list[Cause]:
    """The causes of a log, the most frequent first."""
    lost: dict[str, list[float]] = {}
    for name, cost in zip(log.causes, log.lost, strict=True):
        lost.setdefault(name, []).append(cost)
    kinds = {name: _category(name) for name in lost}
    shares = _published_shares()
    many = {name: sum(kind == kinds[name] for kind in kinds.values()) for name in lost}
    found = []
    for name, costs in lost.items():
        told = [cost for cost in costs if math.isfinite(cost)]
        mean = math.fsum(told) / len(told) if told else math.nan
        found.append(Cause(name, len(costs), mttf(len(costs), shares[kinds[name]] / many[name]), mean))
    return sorted(found, key=lambda one: (-one.incidents, one.name))


def _category(cause: str) -> str:
    said = set(plain_name(cause).split("_"))
    return next((kind for kind, words in _CATEGORIES.items() if said & set(words.split())), "Unknown")


def _published_shares() -> dict[str, float]:
    """Of Llama 3's interruptions, those of each category: table 5."""
    found: dict[str, float] = {}
    for row in published("failures", run="Llama 3 405B", metric="unexpected interruptions by cause"):
        kind = row["note"].removeprefix("category ").split(";")[0]
        found[kind] = found.get(kind, 0.0) + row["low"]
    total = sum(found.values())
    return {kind: count / total for kind, count in found.items()}
