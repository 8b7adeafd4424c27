"""Sums made again: what leaves one law of a plan beside what another law makes of it.

They find a number that is lost on the way from law to law, as a spare server that nobody feeds. Whether the laws are
right they do not say.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..model import parameters, training_flops
from ..parallelism import model_state
from ..power import heat_removed
from ..quantities import Amount, Number, Seconds
from ..scaling import cost_per, training_run
from ..serving import little_law
from ..units import year
from .building import Building, Supply, coolant
from .choice import Plan
from .fleet import Fleet
from .scenario import Scenario
from .training import Design, Outcome


class Sum(NamedTuple):
    """A number that two laws give."""

    name: str
    left: Number
    right: Number
    unit: str

    @property
    def error(self) -> Amount:
        """How far apart the two are, over the larger."""
        most = np.maximum(np.abs(self.left), np.abs(self.right))
        return np.abs(self.left - self.right) / np.where(most > 0, most, 1.0)

    @property
    def holds(self) -> bool:
        """Whether both are one number, but for rounding."""
        return bool(np.all(self.error < 1e-9))


def recount(made: Plan | Fleet, scenario: Scenario) -> list[Sum]:
    """Every sum of a plan made again, in the scenario in which it was made."""
    return of_fleet(made, scenario) if isinstance(made, Fleet) else of_run(made.design, made.outcome, scenario)


def said(sums: Sequence[Sum]) -> str:
    """How many, and how far apart the worst two numbers are."""
    worst = max(float(np.max(one.error)) for one in sums)
    return f"{len(sums)} sums made again by another law, largest difference {worst:.1e}"


def of_run(made: Design, done: Outcome, scenario: Scenario) -> list[Sum]:
    """Of a training run, or an array of them."""
    training, timed, run = made.training, made.step, done.run
    model, tokens = training.model, training.workload.tokens * training.steps
    flops = timed.model_flops * training.steps
    slower = done.work / (training.steps * timed.time)
    reached = np.minimum(timed.mfu / slower, 1.0)  # above 1 by rounding alone: no scenario computes beyond the peak
    budget = training_run(flops, made.gpus, peak=timed.peak, efficiency=reached, goodput=run.goodput)
    up = run.useful + (run.checkpoint + run.rework + run.restart) / scenario.lost_time
    failing = made.servers * made.per_server / scenario.gpu_mttf
    software, shards = made.site.stack_on(made.accelerator), made.layout.dp * made.layout.cp
    kept = {"weight_bytes": software.weight_bytes, "optimizer_bytes": software.optimizer_bytes}
    each = model_state(parameters(model).total, shards=shards, zero=3, **kept)  # of every rank that shares
    of_tokens = training_flops(model, training.workload.sequence).model * training.workload.tokens * training.steps
    drained = made.checkpoint.size / made.checkpoint.lag
    sums = [
        Sum("FLOPs of the steps = FLOPs of the tokens", flops, of_tokens, "FLOP"),
        Sum("time of the run = FLOPs / (GPUs, peak, MFU, goodput)", run.total, budget.time, "s"),
        Sum("failures of the run = running time / MTBF", done.failures, up / done.mtbf, ""),
        Sum("bytes of a checkpoint = bytes of all shards", made.checkpoint.size, shards * each.checkpoint, "B"),
        Sum("bytes/s to storage = bytes of a checkpoint / lag", made.storage_bandwidth, drained, "B/s"),
        Sum("servers in repair = failures a second x repair", done.pool.load, little_law(failing, scenario.repair), ""),
    ]
    if done.bill is not None:
        rate = training.workload.tokens / (timed.time * slower * made.gpus)
        a_token = cost_per(done.cost / (run.total * made.gpus), rate, utilisation=run.goodput)
        sums.append(Sum("dollars of the run = tokens x $", done.cost, a_token * tokens, "$"))
    ends = made.gpus if np.all(np.equal(made.fabric.name, "torus")) else made.hosts
    return sums + _of_hall(made, done, scenario, run.total, ends)


def of_fleet(fleet: Fleet, scenario: Scenario) -> list[Sum]:
    """Of a fleet that serves."""
    service, tokens = fleet.service, fleet.serving.tokens_per_second
    in_flight = fleet.replicas * fleet.busy * service.sequences
    carried = fleet.busy * fleet.gpus * service.tokens_per_second_per_gpu / fleet.serving.output
    sums = [
        Sum(
            "sequences in flight = tokens a second x seconds a token",
            in_flight,
            little_law(tokens, service.time_per_token),
            "",
        ),
        Sum("requests a second asked = carried", fleet.serving.rate, carried, ""),
    ]
    if fleet.bill is not None:
        sums.append(Sum("dollars a year = tokens x $", fleet.cost, fleet.token_cost * tokens * year, "$"))
    return sums + _of_hall(fleet, fleet, scenario, year, fleet.hosts)


def _of_hall(made: Building, done: Supply, scenario: Scenario, time: Seconds, ends: Amount) -> list[Sum]:
    """Of whatever stands in a hall: GPUs, watts, joules and dollars."""
    rise, fluid = coolant(made, scenario)
    of_servers = done.load.total - done.load.parts["switches"]
    removed = heat_removed(done.coolant, rise, fluid)
    sums = [
        Sum("GPUs of servers and spares = ends of the fabric", ends, made.fabric.ends, ""),
        Sum("watts of servers = GPUs x rating", of_servers, made.hosts * made.server_power / made.per_server, "W"),
        Sum("watts of IT = heat removed", done.load.total, removed, "W"),
        Sum("watts at the meter = joules / time", done.mean_power, done.energy.energy / time, "W"),
    ]
    if done.bill is not None and "energy" in done.bill.parts:
        sums.append(Sum("dollars for energy = joules x $", done.bill.parts["energy"], done.energy.cost, "$"))
    if done.capital is not None and made.prices is not None:
        paid = done.capital.parts["network"] / (made.prices.network * scenario.capital)
        sums.append(Sum("GPUs paid for = GPUs built", paid, made.hosts, ""))
    return sums
