"""Which training run: every candidate that the limits leave, the one that is taken, and what binds it.

:func:`plan` takes what shall be done and what there is, and decides: accelerators and their number, layout, fabric,
checkpoints, spares. It decides only; its numbers are those of :mod:`clusterlab.planning.training`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import partial
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from .. import failures
from ..catalogue import Machine, Software
from ..model import PRECISIONS, Layout, parameters, training_flops
from ..parallelism import Search, axes, search
from ..quantities import Amount, Bytes, Count
from ..records import Rows, Table, tabulate, words
from ..units import day, fmt
from .building import machine_of, server_of
from .result import Binding, InfeasibleError, Point, Result, ends, shown, undominated
from .scenario import CENTRAL, PRICES, Scenario, Site, Training, samples
from .training import METRICS, UNCERTAIN, Design, Outcome, design, outcome, run_intervals, run_sensitivities

Progress = Callable[[float, str], None]


@dataclass(frozen=True, repr=False, kw_only=True)
class Plan(Result):
    """A training run as it was planned: its design, what follows from it, and how far it may be trusted."""

    training: Training
    site: Site
    design: Design
    outcome: Outcome
    binding: Binding
    considered: int

    @property
    def results(self) -> Mapping[str, tuple[str, float]]:
        """Everything that is to be built, and what comes of it: unit and value, by name."""
        made, done = self.design, self.outcome
        return MappingProxyType({name: (unit, float(of(made, done))) for name, (unit, of) in METRICS.items()})

    @property
    def central(self) -> tuple[float, float]:
        """Time and cost of the run."""
        return float(self.outcome.time), float(self.outcome.cost)

    def _rows(self) -> Rows:
        made = self.design._rows()[1:]
        rows = [("", "value"), *((name, value) for name, value, *_ in made if name not in ("step", "MFU"))]
        rows += [(words(name), one.with_interval) for name, one in self.intervals.items() if name in UNCERTAIN]
        return [*rows, ("binds", self.binding.name)]


def plan(
    training: Training,
    site: Site,
    *,
    scenario: Scenario | None = None,
    draws: Count = 1000,
    seed: int = 0,
    progress: Progress | None = None,
) -> Plan:
    """Plan a training run: accelerators, layout, fabric, checkpoints, spares; time, power, money; and how sure it is.

    Parameters
    ----------
    training
        What shall be trained, and by when.
    site
        What there is. Accelerators, their number and the axes of the layout are searched where they are not fixed. With
        a deadline the cheapest plan that keeps it is taken, otherwise the fastest within the limits.
    scenario : optional
        What is assumed; ``CENTRAL`` by default.
    draws, seed
        Scenarios that are drawn for the intervals, and the seed of their random numbers.
    progress : optional
        Called with the share of the search that is done, and what is looked at.

    Returns
    -------
    Plan

    Raises
    ------
    InfeasibleError
        No plan keeps within the limits. The message says the nearest that does.
    ValueError
        There is no limit at all.

    Examples
    --------
    >>> made = plan(Training("Llama 3.1 8B", 1e12, global_batch=512), Site("H100 SXM", gpus=512))
    >>> fmt(made.outcome.time, "s"), made.binding.name
    ('69 h', 'gpus')
    """
    scenario = CENTRAL if scenario is None else scenario
    limits = limits_of(training, site)
    if not limits and site.gpus is None:
        raise ValueError(
            "give at least one of gpus, deadline, budget, power and racks: without a limit no plan is best"
        )
    if "budget" in limits and site.rent is None and site.accelerator and site.accelerator not in PRICES:
        raise ValueError(f"budget needs a rent: no price list is on record for {site.accelerator}")
    all_of = candidates(training, site, scenario, progress)
    if not limits and not np.any(all_of.gpus == site.gpus):  # the sizes around it can
        raise _does_not_fit(training, site)
    chosen = all_of.chosen(limits, site)
    made = all_of.design(chosen, training, site, scenario)
    done = outcome(made, scenario)
    drawn = samples(scenario, draws, step_kind=made.step_ends, seed=seed)
    return Plan(
        training=training,
        site=site,
        design=made,
        outcome=done,
        intervals=run_intervals(made, done, outcome(made, drawn)),
        weigh=partial(run_sensitivities, made, scenario),
        rank=partial(_front, all_of, limits, training, site, scenario, drawn),
        binding=_binding(all_of, chosen, limits, site),
        considered=all_of.gpus.size,
    )


def compare_plans(plans: Mapping[str, Plan], *results: str) -> Table:
    """Set plans side by side: a row for each, a column for each result, with its interval where it is uncertain.

    Parameters
    ----------
    plans
        Plans by name.
    *results
        Keys of ``METRICS``: ``"time"``, ``"cost"``, ``"site_power"``, ...

    Returns
    -------
    Table

    Examples
    --------
    >>> run = Training("Llama 3.1 8B", 1e12, global_batch=512)
    >>> compare_plans({n: plan(run, Site("H100 SXM", gpus=n), draws=10) for n in (64, 128)}, "gpus", "racks")
         GPUs  racks
    64     64      3
    128   128      5
    """
    if unknown := [name for name in results if name not in METRICS]:
        raise ValueError(f"unknown result {unknown[0]!r}; known: {', '.join(METRICS)}")
    columns: dict[str, list[str]] = {"": [str(name) for name in plans]}
    for name in results:
        columns[words(name)] = [
            one.intervals[name].with_interval if name in one.intervals else shown(one.parts[name], METRICS[name].unit)
            for one in plans.values()
        ]
    return tabulate(columns)


# --- Limits ----------------------------------------------------------------------------------------------------------


class Limit(NamedTuple):
    """What a limit is of, what one more of it is, and in which unit."""

    column: str
    unit: float
    dimension: str

    def said(self, value: float) -> str:
        """A value of it in words."""
        return fmt(value, self.dimension)


LIMITS: Mapping[str, Limit] = MappingProxyType(
    {
        "deadline": Limit("time", day, "s"),
        "budget": Limit("cost", 1e6, "$"),
        "power": Limit("site_power", 1e6, "W"),
        "racks": Limit("racks", 1.0, ""),
    }
)


def limits_of(training: Training, site: Site) -> dict[str, float]:
    """The limits that are given, by name."""
    given = {"deadline": training.deadline, "budget": site.budget, "power": site.power, "racks": site.racks}
    return {name: value for name, value in given.items() if value is not None}


def _said(limits: Mapping[str, float], site: Site) -> str:
    parts = [f"{name} {LIMITS[name].said(value)}" for name, value in limits.items()]
    return ", ".join([*([f"gpus {site.gpus:,.0f}"] if site.gpus else []), *parts])


# --- Candidates ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Candidates:
    """Every cluster that was looked at, their numbers side by side, and for each the design that it is one of.

    ``rack_needs`` is what a rack must feed. A cost that is not known is infinite.
    """

    designs: list[Design] = field(repr=False)
    group: np.ndarray
    at: np.ndarray
    gpus: np.ndarray
    time: np.ndarray
    cost: np.ndarray
    site_power: np.ndarray
    racks: np.ndarray
    rack_needs: np.ndarray

    def limited(self, name: str) -> np.ndarray:
        """What each candidate takes of a limit."""
        return getattr(self, LIMITS[name].column)

    def within(self, limits: Mapping[str, float], site: Site) -> np.ndarray:
        """Which of them keep within limits, and have as many accelerators as the site."""
        good = np.isfinite(self.site_power) & np.isfinite(self.racks)
        if site.gpus is not None:
            good &= self.gpus == site.gpus
        for name, most in limits.items():
            good &= self.limited(name) <= most * (1 + 1e-12)
        return good

    def best(self, good: np.ndarray, *, cheapest: bool) -> int | None:
        """The cheapest of some of them, or the fastest; None where there is none."""
        if not np.any(good):
            return None
        first, second = (self.cost, self.time) if cheapest else (self.time, self.cost)
        order = np.lexsort((self.gpus, second, np.where(good, first, np.inf)))
        return int(next(i for i in order if good[i]))

    def chosen(self, limits: Mapping[str, float], site: Site) -> int:
        """The one that is taken, or an InfeasibleError that says the nearest that would be."""
        chosen = self.best(self.within(limits, site), cheapest="deadline" in limits)
        if chosen is None:
            raise _beyond(self, limits, site)
        return chosen

    def alike(self, i: int) -> np.ndarray:
        """Those of the same accelerator, by their number of it."""
        same = np.flatnonzero(self.group == self.group[i])
        return same[np.argsort(self.gpus[same])]

    def design(self, i: int, training: Training, site: Site, scenario: Scenario) -> Design:
        """One of them, alone."""
        group = self.designs[int(self.group[i])]
        return design(training, site, group.machine, group.layout[int(self.at[i])], scenario=scenario)


def candidates(training: Training, site: Site, scenario: Scenario, progress: Progress | None = None) -> Candidates:
    """Every candidate for a run on a site, with its numbers."""
    designs = list(_designs(training, site, scenario, progress))
    if not designs and training.deadline is not None:  # where all that would be in time is too much for the model
        designs = list(_designs(replace(training, deadline=None), site, scenario, progress))
    if not designs:
        raise _does_not_fit(training, site)
    columns: dict[str, list[np.ndarray]] = {}
    for i, made in enumerate(designs):
        ending = _that_end(made, scenario)
        if ending is None:
            continue
        designs[i], done = ending
        count = designs[i].gpus.size
        server = server_of(made.accelerator, site, scenario)
        numbers: dict[str, Amount] = {"group": i, "at": np.arange(count), "rack_needs": server.power * server.in_rack}
        numbers |= {n: METRICS[n].of(designs[i], done) for n in ("gpus", "time", "cost", "site_power", "racks")}
        for name, values in numbers.items():
            columns.setdefault(name, []).append(np.broadcast_to(values, (count,)))
    if not columns:
        raise InfeasibleError(
            "failures come faster than any plan can save its work: gpu_mttf or storage_bandwidth must be larger"
        )
    table = {name: np.concatenate(column) for name, column in columns.items()}
    table["cost"] = np.where(np.isnan(table["cost"]), np.inf, table["cost"])
    return Candidates(designs, **table)


def _that_end(made: Design, scenario: Scenario) -> tuple[Design, Outcome] | None:
    """Those of an array of designs that failures let end, and their outcome; None where there is none."""
    try:
        return made, outcome(made, scenario)
    except ValueError:  # among them is one that never ends
        mtbf = failures.system_mtbf(scenario.gpu_mttf, made.gpus)
        attempt = made.interval + made.checkpoint.time + made.checkpoint.lag + scenario.restart
        good = np.flatnonzero(attempt / mtbf < 400)
        if not good.size:
            return None
        made = design(made.training, made.site, made.machine, made.layout[good], scenario=scenario)
        return made, outcome(made, scenario)


def _designs(training: Training, site: Site, scenario: Scenario, progress: Progress | None) -> Iterator[Design]:
    """For each accelerator the best layout of every number of them that can run the model: an array of designs."""
    names = site.accelerators
    for i, name in enumerate(names):
        chips = machine_of(name, site)
        sizes = _sizes(training, site, chips, scenario)
        best: list[Layout] = []
        left = sizes
        while left:
            if progress:
                progress((i + 1 - len(left) / len(sizes)) / len(names), f"{left[0]:,} {name}")
            now, values = axes_of_plan(training, site, chips, left)
            best += _best_layouts(training, site, chips, now, values)
            left = left[len(now) :]
        if best:
            layouts = _side_by_side(best)
            try:
                yield design(training, site, chips, layouts, scenario=scenario)
            except InfeasibleError as error:  # more of them than any switch joins, with their spares
                most = site.gpus or error.nearest.get("gpus", 0.0) / 1.2
                few = np.flatnonzero(np.asarray(layouts.gpus) <= most)
                if not 0 < few.size < len(best):
                    raise
                yield design(training, site, chips, layouts[few], scenario=scenario)


def _side_by_side(layouts: list[Layout]) -> Layout:
    """Layouts as one record of arrays."""
    columns: dict[str, list] = {f.name: [getattr(one, f.name) for one in layouts] for f in fields(Layout)}
    alike = {name: columns.pop(name)[0] for name in ("etp", "shard_group", "sequence_parallel")}
    return Layout(**columns, **alike)


_MOST_GPUS = 2**18
_COUNTS = tuple(int(m * 2**k) for k in range(16) for m in (8, 10, 12, 14) if m * 2**k <= _MOST_GPUS)


def _sizes(training: Training, site: Site, chips: Machine, scenario: Scenario) -> list[int]:
    """Numbers of accelerators that are worth a search: from what can hold the model to what the limits allow."""
    server = server_of(chips.name, site, scenario)
    if site.gpus:  # and its neighbours: one more server, the next usual number, twice and half as many
        n = int(site.gpus)
        usual = next((m for m in _COUNTS if m > n and m % server.gpus == 0), 2 * n)
        return sorted({n, n + int(server.gpus), min(usual, 2 * n), 2 * n, *([n // 2] if n % 2 == 0 else [])})
    most = float(min(_MOST_GPUS, training.workload.global_batch * 8 * 16))
    if site.power is not None:  # beyond it, to say what would do
        most = min(most, 4 * site.power / float(scenario.pue) / (server.power / server.gpus))
    state = 6 * parameters(training.model).total  # weights and gradients, the optimizer's state shared out
    least = state / chips.hbm_capacity
    if training.deadline is not None:  # around what the peak alone would take
        peak = chips.peaks.get(PRECISIONS[training.precision][0], max(chips.peaks.values()))
        flops = training_flops(training.model, training.sequence).model * training.tokens
        bare = flops / (peak * training.deadline)
        least, most = max(least, bare / 8), max(min(most, 32 * bare), least)
    return [n for n in _COUNTS if least <= n <= most] or [n for n in _COUNTS if n >= least][:1]


_MOST_LAYOUTS = 300_000  # that one search looks at: more at once would fill the memory, fewer take longer in all


def _pieces(training: Training, gpus: float) -> list[int]:
    """Into how many pieces a sequence may be cut: down to 4,096 tokens, and finer where its batch is short.

    That's into as many pieces as there are accelerators for each sequence of the batch. With more of them a replica has
    more sequences than it has accelerators to a piece, so every stage is busy, and larger pieces would do.
    """
    most = max(training.sequence / 4096, gpus / training.global_batch, 1)
    return [c for c in range(1, 17) if training.sequence % c == 0 and c <= most]


def axes_of_plan(training: Training, site: Site, chips: Machine, sizes: list[int]) -> tuple[list[int], dict[str, list]]:
    """The first of these sizes that one search takes together, and the values of its axes."""
    fused = site.stack_on(chips.name).fused_attention
    pieces = [_pieces(training, n) for n in sizes]
    alike = next((i for i, some in enumerate(pieces) if some != pieces[0]), len(sizes))
    for count in (64, 16, 4, 1):
        now = sizes[: min(count, alike)]
        usual = axes(training.model, chips, training.workload, gpus=now)
        some: dict[str, list] = {"chunks": [1, 2, 4, 8], "zero": [1] if training.model.experts else [1, 3]}
        some |= {"microbatch": [b for b in (1, 2) if b in usual["microbatch"]]}
        some |= {"cp": [c for c in usual["cp"] if c in pieces[0]]}
        some |= {"recompute": ["none", "full"] if fused else ["none", "selective", "full"]}
        some |= site.fixed
        if math.prod(len(values) for values in (usual | some).values()) <= _MOST_LAYOUTS:
            break
    return now, some


def _best_layouts(
    training: Training, site: Site, chips: Machine, sizes: list[int], values: Mapping[str, list]
) -> list[Layout]:
    """The fastest layout of each number of accelerators for which one can run."""
    found = search(
        training.model,
        chips,
        training.workload,
        gpus=sizes,
        software=site.stack_on(chips.name),
        capacity=site.room(chips.hbm_capacity),
        values=values,
    )
    order = np.argsort(found.step.time, kind="stable") if found.memory.size else np.array([], int)
    gpus, first = np.unique(np.broadcast_to(found.layouts.gpus, found.memory.shape)[order], return_index=True)
    return [found.layouts[int(order[i])] for i in first[np.argsort(gpus)]]


# --- The front, and what binds ---------------------------------------------------------------------------------------


def _front(
    all_of: Candidates, limits: Mapping[str, float], training: Training, site: Site, scenario: Scenario, drawn: Scenario
) -> tuple[Point, ...]:
    """Plans within the limits of which none is both faster and cheaper, the fastest first."""
    good = np.flatnonzero(all_of.within(limits, site))
    front = []
    for i in good[undominated(all_of.time[good], all_of.cost[good])]:
        made = all_of.design(i, training, site, scenario)
        sure = run_intervals(made, outcome(made, scenario), outcome(made, drawn))
        point = Point(
            accelerator=made.accelerator,
            gpus=float(all_of.gpus[i]),
            time=float(all_of.time[i]),
            cost=float(all_of.cost[i]),
            power=float(all_of.site_power[i]),
            racks=float(all_of.racks[i]),
            **ends(sure, {"time": "time", "cost": "cost", "power": "site_power"}),
        )
        front.append(point)
    return tuple(front)


def _binding(all_of: Candidates, chosen: int, limits: Mapping[str, float], site: Site) -> Binding:
    """The limit without which another plan would be taken, and the neighbour that a little more of it would allow.

    The neighbour is one of the candidates, planned like every other: the first beyond the limit that is better, or the
    next number of accelerators.
    """
    name = _what_binds(all_of, chosen, limits, site)
    then = _beyond_the_limit(all_of, chosen, name, limits, site) if name in limits else _more(all_of, chosen)
    columns = (all_of.gpus, all_of.time, all_of.cost)
    gpus, time, cost = (float(column[then]) - float(column[chosen]) for column in columns)
    if name not in limits:
        return Binding(name, float(all_of.gpus[chosen]), gpus, "", gpus, time, cost)
    more = float(all_of.limited(name)[then]) - limits[name]
    return Binding(name, limits[name], more, LIMITS[name].dimension, gpus, time, cost)


def _beyond_the_limit(all_of: Candidates, chosen: int, name: str, limits: Mapping[str, float], site: Site) -> int:
    """Of those that a limit alone keeps out and that are better than the chosen one, the one nearest to it."""
    price = all_of.cost if "deadline" in limits and name != "budget" else all_of.time
    others = {other: most for other, most in limits.items() if other != name}
    better = all_of.within(others, site) & (price < price[chosen]) & (all_of.limited(name) > limits[name])
    return int(np.argmin(np.where(better, all_of.limited(name), np.inf))) if np.any(better) else chosen


def _more(all_of: Candidates, chosen: int) -> int:
    """The larger number of the same accelerator of which each one more saves most time; where none does, the next."""
    alike = all_of.alike(chosen)
    larger = alike[all_of.gpus[alike] > all_of.gpus[chosen]]
    if not larger.size:
        return chosen
    saved = (all_of.time[chosen] - all_of.time[larger]) / (all_of.gpus[larger] - all_of.gpus[chosen])
    return int(larger[int(np.argmax(saved))] if np.max(saved) > 0 else larger[0])


def _what_binds(all_of: Candidates, chosen: int, limits: Mapping[str, float], site: Site) -> str:
    """The limit without which the plan would gain most in time and money; where none is, what ends the search."""
    cheapest = "deadline" in limits
    gains: dict[str, float] = {}
    for name in limits:
        others = {other: most for other, most in limits.items() if other != name}
        best = all_of.best(all_of.within(others, site), cheapest=cheapest and name != "deadline")
        if best is not None and best != chosen:
            gains[name] = all_of.time[chosen] / all_of.time[best]
            if np.isfinite(all_of.cost[chosen]):
                gains[name] += all_of.cost[chosen] / all_of.cost[best]
    if gains:
        return max(gains, key=lambda one: gains[one])
    if site.gpus is not None:
        return "gpus"
    alike = all_of.gpus[all_of.alike(chosen)]
    if cheapest and all_of.gpus[chosen] == alike[0]:
        return "memory"
    return "money" if cheapest and all_of.gpus[chosen] < alike[-1] else "batch"


# --- Where there is no plan ------------------------------------------------------------------------------------------


def _beyond(all_of: Candidates, limits: Mapping[str, float], site: Site) -> InfeasibleError:
    """Why no candidate keeps within the limits, and the nearest that would: one limit moved, or all of some."""
    asked = _said(limits, site)
    nearest, ways = _nearest(all_of, limits, site)
    if ways:
        why = f"no plan keeps within {asked}; each of these alone would do: {'; '.join(ways)}"
        return InfeasibleError(why, nearest)
    anyhow = all_of.within({}, site)
    if not np.any(anyhow):
        if site.rack_power and not np.any(np.isfinite(all_of.racks)):
            least = float(np.min(all_of.rack_needs))
            why = f"rack_power {fmt(site.rack_power, 'W')} feeds no server; the nearest that does: {fmt(least, 'W')}"
            return InfeasibleError(why, {"rack_power": least})
        return InfeasibleError(f"nothing runs on {asked}")
    beyond = np.max([all_of.limited(name) / most for name, most in limits.items()], axis=0)
    near = int(np.argmin(np.where(anyhow, beyond, np.inf)))
    needs = {name: all_of.limited(name)[near] for name in limits}
    parts = [f"{name} {LIMITS[name].said(value)}" for name, value in needs.items() if value > limits[name]]
    return InfeasibleError(f"no plan keeps within {asked}; the nearest needs all of: {', '.join(parts)}")


def _nearest(all_of: Candidates, limits: Mapping[str, float], site: Site) -> tuple[dict[str, float], list[str]]:
    """Each limit that alone would do if it were moved: the nearest value of it, and how that is said."""
    nearest: dict[str, float] = {}
    ways = []
    for name, most in limits.items():
        good = all_of.within({other: value for other, value in limits.items() if other != name}, site)
        if np.any(good):
            nearest[name] = float(np.min(all_of.limited(name)[good]))
            ways.append(f"{name} {LIMITS[name].said(nearest[name])} in place of {LIMITS[name].said(most)}")
    if site.gpus is not None:
        good = all_of.within(limits, replace(site, gpus=None))
        if np.any(good):
            nearest["gpus"] = float(np.min(all_of.gpus[good]))
            ways.append(f"gpus {nearest['gpus']:,.0f}")
    return nearest, ways


def _does_not_fit(training: Training, site: Site) -> InfeasibleError:
    """Why not one layout runs, and the fewest accelerators with which one does."""
    name = site.accelerators[0]
    chips = machine_of(name, site)
    what = f"{training.model.name} on {site.gpus:,.0f} {name}" if site.gpus else f"{training.model.name} on {name}"
    near = sorted(_COUNTS, key=lambda n: abs(math.log(n / site.gpus)) if site.gpus else n)
    nearest = None
    while near and nearest is None:
        now, values = axes_of_plan(training, site, chips, near[:8])
        runs = {int(one.gpus) for one in _best_layouts(training, site, chips, now, values)}
        nearest = next((n for n in now if n in runs), None)
        near = near[len(now) :]
    if nearest:
        why = f"no layout of {what} fits and divides the batch"
        if site.gpus:
            why += f": {_short(training, site)}"
        return InfeasibleError(f"{why}; the nearest that does: gpus {nearest:,}", {"gpus": nearest})
    if site.layout:
        given = ", ".join(f"{axis} {value}" for axis, value in site.layout.items())
        short = f": {_short(training, site)}" if site.gpus else ""
        return InfeasibleError(f"no layout of {what} fits with {given} fixed{short}; leave some of them free")
    return InfeasibleError(f"no layout of {what} fits, with any number up to {_MOST_GPUS:,}; take one with more memory")


def _short(training: Training, site: Site) -> str:
    """What keeps every layout of so many accelerators from running: memory, or what does not divide."""
    if short := search_layouts(training, replace(site, accelerator=site.accelerators[0])).short:
        return short
    batch = f"{training.global_batch:,.0f} sequences" if training.global_batch else "its sequences"
    return f"none cuts {batch} and {training.model.layers:.0f} layers into {site.gpus:,.0f} equal parts"


def least_memory(training: Training, site: Site) -> Bytes:
    """Bytes that the leanest layout needs on an accelerator, whether it has them or not.

    Parameters
    ----------
    training
        The model and its batch.
    site
        With an accelerator and ``gpus``; fixed axes of the layout are kept.

    Returns
    -------
    float
        Bytes; infinite where no layout cuts the model and its batch into so many equal parts.

    Examples
    --------
    >>> fmt(least_memory(Training("Llama 3.1 405B", 15e12), Site("H100 SXM", gpus=64)), "B")
    '119 GB'
    """
    return float(search_layouts(training, replace(site, memory=1.0)).least)


def asked(site: Site) -> tuple[Machine, int]:
    """The machine of a site and the number of its accelerators; a ValueError where either is left open."""
    if site.accelerator is None or site.gpus is None:
        raise ValueError("accelerator and gpus must be given: without them there is no layout to look at")
    return machine_of(site.accelerator, site), int(site.gpus)


def search_layouts(training: Training, site: Site, software: Software | None = None) -> Search:
    """Search the layouts of one number of accelerators as :func:`plan` does, which takes the fastest.

    Parameters
    ----------
    training
        The model, its sequence and batch.
    site
        With an accelerator and ``gpus``; ``layout`` fixes axes, ``memory`` is what a layout may need.
    software : optional
        In place of the site's own.

    Returns
    -------
    Search

    Examples
    --------
    >>> run = Training("Llama 3.1 405B", 15.6e12, global_batch=2048)
    >>> [search_layouts(run, Site("H100 SXM", gpus=n)).best().cp for n in (16384, 65536)]
    [2.0, 4.0]
    """
    chips, gpus = asked(site)
    software, room = software or site.stack_on(chips.name), site.room(chips.hbm_capacity)
    _, values = axes_of_plan(training, site, chips, [gpus])
    return search(training.model, chips, training.workload, gpus=gpus, software=software, capacity=room, values=values)
