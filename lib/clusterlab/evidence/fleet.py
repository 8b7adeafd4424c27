"""A fleet's published figures against the laws: lost time, drawn power, and the intervals that so few of them allow.

A prediction of a row rests on no figure of its own source. A source has one vote: its rows share what it counts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from .. import catalogue
from ..failures import BY_HAND, Goodput, Job, goodput, lemons, optimal_interval, system_mtbf
from ..power import mean_draw
from ..quantities import Count, PositiveSeconds, Seconds
from ..records import Explained
from ..units import hour, minute
from .intervals import further_source_interval
from .tables import published

# --- Fleets ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class Comparison(Explained):
    """One published figure beside what a law says of it, and the multiples of that in which an interval is learned.

    ``ratio`` is the measured figure over the predicted one; of a goodput, that of the odds of lost time. ``constant``
    is the same over one number for all rows: any odds, or any share of the rating.
    """

    name: str
    source: str
    measured: float
    predicted: float
    ratio: float
    constant: float

    @property
    def error(self) -> float:
        """Predicted over measured, less 1."""
        return self.predicted / self.measured - 1


# --- Failures --------------------------------------------------------------------------------------------------------

# What a plan takes where a source prints nothing: 50,000 h a GPU, the planner's 8 and 5 minutes, writes of a minute.
_LIFE, _NOTICE, _RESTART, _WRITE = 50_000 * hour, 8 * minute, 5 * minute, minute


def planned_goodput(accelerators: Count, mtbf: PositiveSeconds | None = None, by_hand: Seconds = 0.0) -> Goodput:
    """Goodput that a plan promises where a source prints only how many accelerators there are, or what stopped them.

    50,000 h between failures of one accelerator, 8 minutes until one is noticed and 5 until all run again, checkpoints
    of a minute, each at the best interval.

    Parameters
    ----------
    accelerators
        How many run together.
    mtbf
        Seconds between failures of all of them, where they are published.
    by_hand
        Seconds that a job waits for people after each failure, on top: :data:`clusterlab.failures.BY_HAND` is what it
        took where they restart it.

    Examples
    --------
    >>> from clusterlab.failures import BY_HAND
    >>> [round(float(planned_goodput(1024, by_hand=wait).useful), 2) for wait in (0, BY_HAND)]
    [0.97, 0.85]
    """
    between = system_mtbf(_LIFE, accelerators) if mtbf is None else mtbf
    best = optimal_interval(_WRITE, between)
    return goodput(Job(interval=best, write=_WRITE, mtbf=between, detection=_NOTICE + by_hand, restart=_RESTART))


def goodput_runs(restarts: str = "automatic") -> list[Comparison]:
    """Published effective training times, beside the goodput that a plan would have promised.

    The plan knows the number of accelerators, the stops if the source counts them, and who restarts: software, or
    people, for whom it waits as long as for those of the other sources. A source that prints "over 90 %" is taken at
    90 %. Meta's jobs of 2,048 to 4,096 GPUs are one of 3,072. A source that prints no number of accelerators is left
    out: nothing can be planned for it.

    Parameters
    ----------
    restarts
        ``"automatic"`` or ``"by hand"``, as each source says.

    Raises
    ------
    ValueError
        It is neither.

    Examples
    --------
    >>> for run in goodput_runs():
    ...     print(f"{run.name:42} {run.measured:.2f} {run.predicted:.2f}")
    Llama 3 405B                               0.90 0.84
    Meta RSC-1                                 0.90 0.94
    MegaScale                                  0.90 0.88
    AWS HLAT, automatic restarts               0.99 0.93
    Ant Group, one week with elastic training  0.59 0.92
    Meta FT-HSDP                               0.44 0.51
    >>> for run in goodput_runs("by hand"):
    ...     print(f"{run.name:45} {run.measured:.2f} {run.predicted:.2f}")
    AWS HLAT, manual restarts                     0.78 0.48
    OPT-175B                                      0.59 0.64
    Ant Group, one week without elastic training  0.33 0.62
    """
    if restarts not in RESTARTS:
        raise ValueError(f"restarts must be one of {', '.join(RESTARTS)}; got {restarts!r}")
    found, waits = [], {} if restarts == "automatic" else waits_for_people()
    for row in _told_goodputs(restarts):
        name = row["run"] + (f", {row['what']}" if row["run"] in ("AWS HLAT", "Ant Group") else "")
        others = [math.log(wait) for run, wait in waits.items() if run != row["run"]]
        wait = math.exp(sum(others) / len(others)) if others else 0.0
        plan, kept = float(planned_goodput(*_known(row), by_hand=wait).useful), row["low"]
        odds = 1 / kept - 1
        found.append(Comparison(name, row["run"], kept, plan, odds / (1 / plan - 1), odds))
    return found


RESTARTS = ("automatic", "by hand")  # who starts a job again
_STOPS = ("unexpected interruptions", "manual restarts", "automatic restarts")


def _told_goodputs(restarts: str) -> list[Mapping]:
    """Rows of effective training times that a plan can be made for."""
    rows = published("failures", metric="effective training time", restarts=restarts)
    return [row for row in rows if row["gpus"]]


def _known(row: Mapping) -> tuple[float, float | None]:
    """What a plan knows of a row: the accelerators, and the seconds between failures where they are counted."""
    counts = [r for r in published("failures", run=row["run"]) if r["metric"] in _STOPS]
    mtbf = counts[0]["period"] / sum(r["low"] for r in counts) if counts else None
    return (3072 if row["run"] == "Meta RSC-1" else row["gpus"]), mtbf


def waits_for_people() -> dict[str, float]:
    """Seconds that a job waited for people after each failure, by source: what makes the plan keep what was kept.

    Examples
    --------
    :data:`clusterlab.failures.BY_HAND` is their geometric mean.

    >>> {run: round(wait / 3600, 1) for run, wait in waits_for_people().items()}
    {'AWS HLAT': 2.4, 'OPT-175B': 8.1, 'Ant Group': 16.4}
    """
    found = {}
    for row in _told_goodputs("by hand"):
        accelerators, mtbf = _known(row)
        # Goodput is a factor over M + d: what is missing to the one that was kept is all of it waiting.
        plan = planned_goodput(accelerators, mtbf)
        between = system_mtbf(_LIFE, accelerators) if mtbf is None else mtbf
        found[row["run"]] = float((between + _NOTICE) * (plan.useful / row["low"] - 1))
    return found


def lemon_nodes() -> list[Comparison]:
    """Share of the later failures that the worst twentieth of the nodes had, beside :func:`clusterlab.failures.lemons`.

    The dispersion of nodes is the median of the other systems.

    Examples
    --------
    >>> found = lemon_nodes()
    >>> len(found), round(float(np.median([one.ratio for one in found])), 2)
    (12, 1.09)
    """
    rows = published("failures", run="LANL")
    named: dict[str, dict] = {}
    for row in rows:
        named.setdefault(row["what"], {})[row["metric"]] = row
    systems = {name: row for name, row in named.items() if "dispersion of nodes" in row}
    found = []
    for name, row in systems.items():
        others = [other["dispersion of nodes"]["low"] for key, other in systems.items() if key != name]
        mean = row["failures of a half, each node"]
        law = lemons(0.05, failures=(mean["low"] + mean["high"]) / 2, dispersion=np.median(others))
        seen, said = row["later failures of the worst 5 %"]["low"], float(law.future)
        found.append(Comparison(name, name, seen, said, seen / said, seen))
    return found


# --- Power -----------------------------------------------------------------------------------------------------------

_FANS = 0.10  # of an air-cooled server's draw: data/power.csv, row E0021


def _named(group: str) -> list[dict]:
    """Rows of a group by name, each quantity under its own."""
    found: dict[str, dict] = {}
    for row in published("power", group=group):
        one = found.setdefault(row["name"], {"name": row["name"], "source": row["source"]})
        one |= {"n": row["n_accelerators"], "accelerator": row["accelerator"], row["quantity"]: row["value"]}
    return list(found.values())


def server_draws() -> list[Comparison]:
    """Measured watts of servers, beside their accelerators' rating times the utilisation of the other sources.

    Where a server waits for others the law takes its speed from the row (:func:`clusterlab.power.mean_draw`). Frontier
    and GPT-3's V100s are an accelerator with its share of everything.

    Examples
    --------
    >>> found = server_draws()
    >>> len(found), len({run.source for run in found})
    (24, 5)
    """
    rows = [row | {"servers": 8} for row in _named("draw") if not row["name"].startswith("idle")]
    (frontier,) = (row for row in _named("measured") if row["name"].startswith("Frontier"))
    (gpt3,) = (row for row in _named("run") if row["name"] == "GPT-3")
    rows.append(frontier | {"servers": 1, "power": frontier["power"] / frontier["n"]})
    rows.append(gpt3 | {"servers": 1})
    rated = np.array([row["servers"] * catalogue.accelerator(row["accelerator"]).tdp for row in rows])
    rating = rated
    rated = rated / np.array([1 - _FANS if "air-cooled" in row["name"] else 1 for row in rows])
    drawn = np.array([row["power"] for row in rows])
    speed = np.array([row.get("speed", 1.0) for row in rows])
    sources = np.array([row["source"] for row in rows])
    found = []
    for i, row in enumerate(rows):
        others = (sources != sources[i]) & (speed == 1)
        used = _median_of_medians((drawn / rated)[others], sources[others])
        law = float(mean_draw(rated[i], utilisation=used, waiting=1 - speed[i]).power)
        found.append(Comparison(row["name"], row["source"], drawn[i], law, drawn[i] / law, drawn[i] / rating[i]))
    return found


def _median_of_medians(values: np.ndarray, sources: np.ndarray) -> float:
    return float(np.median([np.median(values[sources == source]) for source in dict.fromkeys(sources.tolist())]))


def accelerator_draws() -> list[Comparison]:
    """Measured watts of accelerators that serve, beside their rating times the share that other models draw.

    A dense model and one of experts draw different shares: the second waits more. The sources are the models.

    Examples
    --------
    >>> found = accelerator_draws()
    >>> len(found), round(float(np.mean([abs(one.error) for one in found])), 2)
    (38, 0.09)
    """
    rows = _named("accelerator draw")
    rated = np.array([catalogue.accelerator(row["accelerator"]).tdp for row in rows])
    drawn = np.array([row["power"] for row in rows])
    model = np.array([row["name"].split(" on ")[0].removesuffix("-FP8") for row in rows])
    experts = np.array([any(part in name for part in ("A22B", "A3B", "-16E", "-128E", "DeepSeek")) for name in model])
    found = []
    for i, row in enumerate(rows):
        others = (model != model[i]) & (experts == experts[i])
        law = float(rated[i] * np.median((drawn / rated)[others]))
        found.append(Comparison(row["name"], str(model[i]), drawn[i], law, drawn[i] / law, drawn[i] / rated[i]))
    return found


# --- Intervals of fleets ---------------------------------------------------------------------------------------------

FLEET_KINDS: dict[str, Callable[[], list[Comparison]]] = {"goodput": goodput_runs, "power": server_draws}


def learn_fleet_spreads() -> dict[str, tuple[float, float]]:
    """Learn the interval of each kind: what :data:`clusterlab.catalogue.PREDICTION_INTERVALS` holds of them.

    Where people restart, nearly all that is lost is waiting for them: the interval is that of a further source's wait
    over :data:`clusterlab.failures.BY_HAND`, and it knows that this is a mean of three.

    Examples
    --------
    >>> {kind: [round(end, 2) for end in ends] for kind, ends in learn_fleet_spreads().items()}
    {'goodput': [0.14, 8.28], 'power': [0.82, 1.15], 'goodput, by hand': [0.12, 7.99]}
    """
    found = {kind: of() for kind, of in FLEET_KINDS.items()}
    ends = {
        kind: further_source_interval([r.ratio for r in runs], [r.source for r in runs]) for kind, runs in found.items()
    }
    waits = waits_for_people()
    return ends | {"goodput, by hand": further_source_interval([w / BY_HAND for w in waits.values()], list(waits))}


def fleet_coverage(runs: Sequence[Comparison], of: str = "ratio") -> float:
    """Share of rows inside the interval that was learned without their source; every source has one vote.

    ``of`` is ``"ratio"``, or ``"constant"`` for the same kind of interval around one number.

    Examples
    --------
    >>> 0.75 <= fleet_coverage(accelerator_draws()) <= 0.85
    True
    """
    shares = []
    for source in dict.fromkeys(run.source for run in runs):
        others = [run for run in runs if run.source != source]
        low, high = further_source_interval([getattr(run, of) for run in others], [run.source for run in others])
        shares.append(np.mean([low <= getattr(run, of) <= high for run in runs if run.source == source]))
    return float(np.mean(shares))
