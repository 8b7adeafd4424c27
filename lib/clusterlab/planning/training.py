"""A training run in a hall: what is decided, and what follows in a scenario.

A :class:`Design` is decided once; an :class:`Outcome` is what it does in a scenario. Both may hold arrays: one call
plans thousands of clusters, or one cluster in thousands of scenarios. Each number is that of a law of this library, and
each law's result is what the next one is given.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from .. import catalogue, failures, parallelism, power
from ..catalogue import SOFTWARE, Machine
from ..failures import Checkpoint, Estimate, Job, RunTime, SparePool
from ..model import Layout, parameters
from ..parallelism import footprint, step
from ..quantities import Amount, Bytes, BytesPerSecond, Multiple, Number, Seconds
from ..records import Rows, summary
from ..units import day, hour
from .building import Building, Server, Supply, build, server_of, spare_servers, supply, wired
from .mixtures import mixture
from .result import Sensitivity, counted, intervals, sensitivities
from .scenario import CENTRAL, Scenario, Site, Training
from .stacks import plausible_stacks

# --- What is decided -------------------------------------------------------------------------------------------------


PLANNED = 2026  # the year from which on a planned run may be, and its software


@dataclass(frozen=True, repr=False, kw_only=True)
class Design(Building):
    """What is decided for a run: one cluster, or an array of them.

    ``servers`` work, ``spares`` stand by, and ``hosts`` are the accelerators of both. ``interval`` is the work between
    two checkpoints.
    """

    training: Training
    site: Site
    step: parallelism.Step
    servers: Amount
    spares: Amount
    storage_bandwidth: BytesPerSecond
    checkpoint: Checkpoint
    interval: Seconds

    @property
    def gpus(self) -> Amount:
        """Accelerators that work."""
        return self.layout.gpus

    @property
    def step_ends(self) -> tuple[float, float]:
        """Ends of the interval of the step in multiples of its time; of the mixture, where no software is named."""
        timed = self.step
        if self.site.software is None:
            run = self.training.model, self.machine, self.training.workload, self.layout
            names = plausible_stacks(self.machine.name, year=PLANNED)
            mixed = mixture([step(*run, software=SOFTWARE[name]) for name in names])
            return float(mixed.low / timed.time), float(mixed.high / timed.time)
        return float(timed.spread_low), float(timed.spread_high)

    @property
    def thin(self) -> Multiple:
        """How many times as long the step takes as over leaves of 1:1, in the same layout."""
        if self.machine.oversubscription <= 1:
            return 1.0 + 0.0 * self.step.time
        even = replace(self.machine, oversubscription=1), self.training.workload, self.layout
        return self.step.time / step(self.training.model, *even, software=self.site.stack_on(self.accelerator)).time

    @property
    def memory(self) -> Bytes:
        """Bytes that an accelerator holds, by the law of memory."""
        software = self.site.stack_on(self.accelerator)
        return footprint(self.training.model, self.training.workload, self.layout, software=software).total

    def _rows(self) -> Rows:
        layout = ", ".join(f"{name} {value}" for name, value, *_ in self.layout._rows()[1:-1])
        rows = [("", "value"), ("accelerator", self.accelerator), ("GPUs", counted(self.gpus)), ("layout", layout)]
        rows += [("servers", counted(self.servers)), ("spare servers", counted(self.spares))]
        rows += [("racks", counted(self.racks)), ("switches", f"{counted(self.fabric.switches)} {self.fabric.name}")]
        if self.machine.oversubscription > 1:
            leaves = f"{self.machine.oversubscription:.3g}:1 above {self.machine.leaf:.0f} GPUs"
            rows.append(("oversubscription", f"{leaves}: step +{summary(self.thin - 1, '%')}"))
        rows += [("cables", counted(self.fabric.cables)), ("storage", summary(self.storage_bandwidth, "B/s"))]
        rows += [("checkpoint", summary(self.checkpoint.size, "B")), ("every", summary(self.interval, "s"))]
        low, high = self.step_ends
        timed = replace(self.step, spread_low=low, spread_high=high)
        return [*rows, ("step", timed.with_interval), ("MFU", timed.say("mfu"))]


def design(
    training: Training, site: Site, chips: Machine, layout: Layout, *, scenario: Scenario | None = None
) -> Design:
    """Decide everything but the layout: spares, racks, fabric, storage and checkpoints, in a central scenario.

    Parameters
    ----------
    training
        The model and its tokens.
    site
        What is fixed.
    chips
        From :func:`clusterlab.catalogue.machine`.
    layout
        One, or an array of them: as many designs.
    scenario : optional
        What is assumed; of numbers, not arrays.

    Returns
    -------
    Design

    Raises
    ------
    ValueError
        A layout breaks a rule, or no datasheet has the power of such a server.

    Examples
    --------
    >>> from clusterlab.catalogue import machine
    >>> run = Training("Llama 3.1 405B", 15.6e12, global_batch=2048)
    >>> made = design(run, Site(), machine("H100 SXM"), Layout(tp=8, pp=16, dp=128, chunks=8))
    >>> float(made.servers), float(made.spares), made.fabric.name
    (2048.0, 40.0, 'QM9700')
    """
    scenario = CENTRAL if scenario is None else scenario
    software, chips = site.stack_on(chips.name), wired(chips, site)
    timed = step(training.model, chips, training.workload, layout, software=software)
    gpus, server = np.asarray(layout.gpus, float)[()], server_of(chips.name, site, scenario)
    servers = np.ceil(gpus / server.gpus)
    spares = _spares(servers, server, site, scenario)
    building = build(chips, layout, servers + spares, gpus=gpus, site=site, scenario=scenario)
    given, hosts = site.storage_bandwidth, building.hosts
    storage = scenario.storage_per_gpu * hosts if given is None else given + 0.0 * hosts
    saved = failures.checkpoint(
        failures.checkpoint_size(
            parameters(training.model).total, bytes_per_parameter=software.weight_bytes + software.optimizer_bytes
        ),
        storage_bandwidth=storage,
        writers=gpus,
        local_bandwidth=scenario.local_bandwidth + 0.0 * gpus,
    )
    mtbf = failures.system_mtbf(scenario.gpu_mttf, gpus)
    best = failures.checkpoint_interval(saved.stall, mtbf, lag=saved.lag, share=scenario.storage_share)
    return Design(
        **vars(building),
        training=training,
        site=site,
        step=timed,
        servers=servers,
        spares=spares,
        storage_bandwidth=storage,
        checkpoint=saved,
        interval=np.maximum(best, timed.time),  # at the end of a step
    )


def _spares(servers: Amount, server: Server, site: Site, scenario: Scenario) -> Amount:
    """Servers on standby: those of the site, none of what is rented or stands alone, else as bad months need."""
    if site.spares is not None:
        return site.spares + 0.0 * servers
    if site.rent is not None:
        return 0.0 * servers
    return np.where(servers > 1, spare_servers(servers, server, scenario), 0.0)[()]  # who has one buys no second


# --- What follows ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False, kw_only=True)
class Outcome(Supply):
    """What a design does in one scenario, or in each of an array; a plan draws many, and has the intervals."""

    work: Seconds
    mtbf: Seconds
    pool: SparePool
    job: Job
    run: RunTime
    failures: Amount

    @property
    def time(self) -> Seconds:
        """From the first step to the last."""
        return self.run.total

    def _rows(self) -> Rows:
        rows = [("in one scenario", "value"), ("time", summary(self.time, "s"))]
        rows.append(("useful", summary(self.run.goodput, "%")))
        rows += [("failures", summary(self.failures)), ("site, rated", summary(self.site.total, "W"))]
        rows += [("site, mean", summary(self.mean_power, "W")), ("energy", summary(self.energy.energy, "MWh"))]
        rows.append(("carbon", summary(self.energy.carbon / 1000, "t CO2e")))
        if self.capital is not None:
            rows.append(("capital", summary(self.capital.total, "$")))
        return rows + ([("cost", summary(self.cost, "$"))] if self.bill is not None else [])


def outcome(made: Design, scenario: Scenario | None = None) -> Outcome:
    """What follows from a design in a scenario: time, failures, power, heat, carbon and money.

    Parameters
    ----------
    made
        One, or an array of them.
    scenario : optional
        One, or an array of them that broadcasts with the designs.

    Returns
    -------
    Outcome

    Raises
    ------
    ValueError
        Failures come so fast that the job would never end.

    Examples
    --------
    >>> from clusterlab.catalogue import machine
    >>> from clusterlab.units import fmt
    >>> run = Training("Llama 3.1 405B", 15.6e12, global_batch=2048)
    >>> made = design(run, Site(), machine("H100 SXM"), Layout(tp=8, pp=16, dp=128, chunks=8))
    >>> fmt(outcome(made).time, "s"), fmt(outcome(made).run.goodput, "%", 2)
    ('70.5 d', '93%')
    """
    scenario = CENTRAL if scenario is None else scenario
    site, node_mtbf = made.site, scenario.gpu_mttf / made.per_server
    slower = np.maximum(scenario.step, made.step.hfu)  # no scenario computes beyond the peak
    work = made.training.steps * made.step.time * slower
    mtbf = failures.system_mtbf(scenario.gpu_mttf, made.gpus)
    pool = failures.spare_pool(made.spares, nodes=made.servers, node_mtbf=node_mtbf, repair=scenario.repair)
    job = Job(
        interval=made.interval,
        write=made.checkpoint.stall,
        mtbf=mtbf,
        lag=made.checkpoint.lag,
        detection=scenario.detection,
        repair=0.0 if site.rent is not None else pool.wait,
        restart=scenario.restart + made.checkpoint.lag,  # a checkpoint is read as fast as it is written
    )
    law = failures.expected_run_time(work, job)
    run = RunTime(**{name: t if name == "useful" else scenario.lost_time * t for name, t in law.parts.items()})
    supplied = supply(made, gpus=made.gpus, rent=site.rent, time=run.total, scenario=scenario)
    return Outcome(
        **vars(supplied),
        work=work,
        mtbf=mtbf,
        pool=pool,
        job=job,
        run=run,
        failures=law.detection / scenario.detection if np.all(scenario.detection) else law.total / mtbf,
    )


# --- Every number of a run -------------------------------------------------------------------------------------------


class Metric(NamedTuple):
    """A result of a run: its unit, and how it comes from a design and its outcome."""

    unit: str
    of: Callable[[Design, Outcome], Number]


def _chip_carbon(made: Design, done: Outcome) -> Amount:
    """Tonnes for the accelerators alone at their rating, as model cards count it."""
    tdp = catalogue.accelerator(made.accelerator).tdp or np.nan
    each = done.energy.carbon / done.energy.energy
    return made.gpus * tdp * done.time * power.pue(done.site.total, done.load.total) * each / 1000


METRICS: Mapping[str, Metric] = MappingProxyType(
    {
        "step_time": Metric("s", lambda d, o: o.work / d.training.steps),
        "mfu": Metric("%", lambda d, o: d.step.mfu * d.step.time * d.training.steps / o.work),
        "time": Metric("s", lambda _d, o: o.time),
        "effective_time": Metric("%", lambda _d, o: o.run.goodput),
        "interruptions": Metric("", lambda _d, o: o.failures),
        "interruptions_per_day": Metric("", lambda _d, o: o.failures * day / o.time),
        "gpu_hours": Metric("", lambda d, o: d.gpus * o.time / hour),
        "cost": Metric("$", lambda _d, o: o.cost),
        "capital": Metric("$", lambda _d, o: np.nan * o.time if o.capital is None else o.capital.total),
        "site_power": Metric("W", lambda _d, o: o.site.total),
        "mean_power": Metric("W", lambda _d, o: o.mean_power),
        "server_power": Metric("W", lambda d, _o: d.hosts * d.server_power / d.per_server),
        "energy": Metric("MWh", lambda _d, o: o.energy.energy),
        "carbon": Metric("t", lambda _d, o: o.energy.carbon / 1000),
        "chip_carbon": Metric("t", _chip_carbon),
        "gpus": Metric("", lambda d, _o: d.gpus),
        "peak": Metric("FLOP/s", lambda d, _o: d.gpus * d.step.peak),
        "racks": Metric("", lambda d, _o: d.racks),
        "leaf_switches": Metric("", lambda d, _o: d.fabric.leaves),
        "spine_switches": Metric("", lambda d, _o: d.fabric.spines),
        "core_switches": Metric("", lambda d, _o: d.fabric.cores),
        "host_cables": Metric("", lambda d, _o: d.fabric.host_cables),
        "spine_cables": Metric("", lambda d, _o: d.fabric.spine_cables),
        "core_cables": Metric("", lambda d, _o: d.fabric.core_cables),
        "cables": Metric("", lambda d, _o: d.fabric.cables),
        "transceivers": Metric("", lambda d, _o: d.fabric.transceivers),
        "bisection": Metric("B/s", lambda d, _o: d.fabric.bisection),
        "storage_bandwidth": Metric("B/s", lambda d, _o: d.storage_bandwidth),
    }
)
UNCERTAIN: tuple[str, ...] = ("step_time", "mfu", "time", "effective_time", "interruptions", "gpu_hours", "cost")
UNCERTAIN += ("capital", "site_power", "mean_power", "energy", "carbon")
_ONLY_PUBLISHED = ("interruptions_per_day", "chip_carbon")  # as others count; a plan's table has them in other words


def run_intervals(made: Design, done: Outcome, drawn: Outcome) -> Mapping[str, Estimate]:
    """The central value of each uncertain result, and between which values eight of ten drawn scenarios have it."""
    uncertain = {name: METRICS[name] for name in (*UNCERTAIN, *_ONLY_PUBLISHED)}
    return intervals({name: (unit, of(made, done), of(made, drawn)) for name, (unit, of) in uncertain.items()})


def run_sensitivities(made: Design, scenario: Scenario) -> tuple[Sensitivity, ...]:
    """What each uncertain assumption alone does to the time and the cost of a run."""

    def time_and_cost(there: Scenario) -> tuple[float, float]:
        done = outcome(made, there)
        return float(done.time), float(done.cost)

    paid = made.prices is not None or made.site.rent is not None
    return sensitivities(scenario, made.step_ends, time_and_cost, paid=paid)
