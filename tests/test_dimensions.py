"""Dimensions: every public law is called with Pint quantities and must return what its formula says.

A FLOP and a byte are dimensions of their own here, so a FLOP count where bytes belong is an error, and so is a
forgotten factor with a unit. Counts (rows, heads, tokens, parameters) are dimensionless, and a FLOP count that a law
derives from counts alone is one too.
"""

import importlib
import inspect
import pkgutil
from dataclasses import replace

import numpy as np
import pint
import pytest

import clusterlab
from clusterlab import failures, interconnect, model, operations, parallelism, serving
from clusterlab.catalogue import SOFTWARE, price_list
from clusterlab.failures import (
    Job,
    checkpoint,
    expected_run_time,
    first_order_goodput,
    goodput,
    optimal_interval,
    overhead_budget,
    series_mtbf,
)
from clusterlab.interconnect import (
    crossover_size,
    hierarchical_all_reduce,
    hierarchical_all_to_all,
    overlap_stages,
    ring_all_reduce,
    torus,
    tree_all_reduce,
)
from clusterlab.model import Layout, SlidingWindow, Transformer, Workload, trained
from clusterlab.operations import fair_shares, file_system, servers_needed
from clusterlab.parallelism import data_parallel_ratio, layer_activations, tensor_parallel_ratio
from clusterlab.power import (
    Coolant,
    best_cap,
    budget_fleet,
    capacity,
    convert,
    coolant_flow,
    facility,
    heat_removed,
    load,
    outside_envelope,
    power_cap,
    power_swing,
    site,
)
from clusterlab.roofline import Work, attainable, iron_law, lower_bound, matmul
from clusterlab.scaling import bill, capital, chain, kept_per_doubling, strong_scaling, waiting_bill, yearly_bill
from laws import registry


def q(unit, value=2.0):
    """An array of quantities: the laws broadcast over it like over any other."""
    return registry.Quantity(np.array([value, 2 * value]), unit)


PEAK, BANDWIDTH = q("FLOP/s"), q("octet/s")
BUFFER, RANKS, LINK = q("octet"), q("", 8), {"bandwidth": BANDWIDTH, "latency": q("s")}
SHAPE = Transformer(layers=2, hidden=64, heads=8, ffn=256, vocab=100, others=((1, SlidingWindow(4)),))
WORKLOAD = Workload(sequence=8, global_batch=2)
IN_BYTES = replace(SOFTWARE["2024"], **{name: q("octet") for name in vars(SOFTWARE["2024"]) if name.endswith("_bytes")})
NODE = {"node_size": q("", 4), "node_bandwidth": BANDWIDTH, "node_latency": q("s")}
SECONDS = q("s")
JOB = Job(
    interval=q("s", 8),
    write=SECONDS,
    mtbf=q("s", 900),
    lag=SECONDS,
    detection=SECONDS,
    repair=SECONDS,
    restart=SECONDS,
    maintenance=q("", 0.1),
)
PARTS = ("useful", "checkpoint", "rework", "detection", "restart", "repair", "maintenance", "total")


WATTS, SERVERS = q("W"), load(servers=(q(""), q("W")))
COOLANT = Coolant("any", q("kg/m^3"), q("J/kg/K"), "")
CHIP = {"static": q("W"), "dynamic": q("W", 5.0), "voltage_floor": q("", 0.4), "fixed": q("", 0.1), "rest": WATTS}
MONEY = q("dollar")
IN_DOLLARS = replace(
    price_list("GB200 NVL72"),
    **{name: q("dollar", 2.0) for name in ("gpus", "servers", "network", "storage")},
    **{name: q("dollar/W", 2.0) for name in ("substation", "generators", "electrical", "cooling", "building")},
    **{name: q("dollar/W", 2.0) for name in ("staff", "operations")},
    # A year's energy is so many of the library's seconds, without a unit.
    **{name: q("dollar/W", 2.0) for name in ("energy", "water")},
)

FILES = {"drives": q("", 8), "drive_read": BANDWIDTH, "drive_write": BANDWIDTH, "drive_capacity": BUFFER}

# Law: (result, {part of the result: unit}). "" is dimensionless. The empty part is the result itself.
DIMENSIONS = {
    lower_bound: (
        lambda: lower_bound(compute=(q("FLOP"), PEAK), memory=(q("octet"), BANDWIDTH)),
        {"time": "s", "serial": "s"},
    ),
    crossover_size: (
        lambda: crossover_size(tree_all_reduce(BUFFER, RANKS, **LINK), ring_all_reduce(BUFFER, RANKS, **LINK)),
        {"": "octet"},
    ),
    overlap_stages: (
        lambda: overlap_stages(tree_all_reduce(BUFFER, RANKS, **LINK), ring_all_reduce(BUFFER, RANKS, **LINK)),
        {"chunks": "", "latency": "s", "transfer": "s", "fill": "s", "time": "s"},
    ),
    torus: (lambda: torus(q("", 4)), {"links": "", "bisection_links": "", "diameter": "", "average_hops": ""}),
    series_mtbf: (lambda: series_mtbf(gpu=(SECONDS, q("", 8)), switch=(SECONDS, 2)), {"mtbf": "s"}),
    first_order_goodput: (lambda: first_order_goodput(JOB), {"": ""}),
    goodput: (lambda: goodput(JOB), dict.fromkeys(PARTS, "")),
    expected_run_time: (lambda: expected_run_time(q("s", 90), JOB), dict.fromkeys(PARTS, "s") | {"goodput": ""}),
    overhead_budget: (lambda: overhead_budget(a=q("", 0.1), b=0.2), {"summed": "", "multiplied": ""}),
    layer_activations: (
        lambda: layer_activations(SHAPE, WORKLOAD, Layout(tp=2), software=IN_BYTES),
        {"total": "octet", "norms": "octet", "attention": "octet", "feed_forward": "octet"},
    ),
    parallelism.simulate_pipeline: (
        lambda: parallelism.simulate_pipeline(
            "1f1b", stages=2, microbatches=2, **dict.fromkeys(("forward", "backward"), 1.0)
        ),
        {"bubble_fraction": ""},
    ),
    parallelism.simulate_dualpipe: (
        lambda: parallelism.simulate_dualpipe(2, 4, **dict.fromkeys(("forward", "backward"), 1.0)),
        {"bubble_fraction": ""},
    ),
    bill: (lambda: bill(gpus=(q("", 8), MONEY), network=MONEY), {"total": "dollar"}),
    capital: (lambda: capital(q("", 8), WATTS, IN_DOLLARS), {"total": "dollar"}),
    yearly_bill: (lambda: yearly_bill(q("", 8), WATTS, IN_DOLLARS, rate=0.1), {"total": "dollar"}),
    waiting_bill: (lambda: waiting_bill(bill(a=MONEY), 3.0, revenue=MONEY), {"total": "dollar"}),
    strong_scaling: (lambda: strong_scaling(RANKS, bubble=q("", 0.1)), {"time": "", "speedup": "", "limit": ""}),
    kept_per_doubling: (lambda: kept_per_doubling((RANKS, 0.5), (4 * RANKS, 0.4)), {"": ""}),
    chain: (lambda: chain(PEAK, MFU=q("", 0.4), goodput=0.9), {"result": "FLOP/s", "share": ""}),
    # FLOPs of tokens and parameters alone are a plain count here, so what is left of a rate is a FLOP.
    data_parallel_ratio: (
        lambda: data_parallel_ratio(q("", 8), rate=PEAK, bandwidth=BANDWIDTH, gradient_bytes=q("octet")),
        {"": "FLOP"},
    ),
    tensor_parallel_ratio: (
        lambda: tensor_parallel_ratio(RANKS, q("", 8), rate=PEAK, bandwidth=BANDWIDTH, activation_bytes=q("octet")),
        {"": "FLOP"},
    ),
    load: (lambda: SERVERS + load(switches=WATTS), {"total": "W"}),
    convert: (lambda: convert(SERVERS, q("", 0.4)), {"total": "W"}),
    facility: (lambda: facility(SERVERS, q("")), {"total": "W"}),
    site: (lambda: site(SERVERS, distribution=q("", 0.4), cop=q(""), other=WATTS), {"total": "W"}),
    coolant_flow: (lambda: coolant_flow(WATTS, q("K"), COOLANT), {"": "m^3/s"}),
    heat_removed: (lambda: heat_removed(q("m^3/s"), q("K"), COOLANT), {"": "W"}),
    power_swing: (
        lambda: power_swing(WATTS, q("s")),
        {"mean": "W", "peak": "W", "trough": "W", "swing": "W", "period": "s", "buffer": "J"},
    ),
    capacity: (lambda: capacity(power=(q("W", 9.0), WATTS), space=(q("m", 9.0), q("m"))), {"count": ""}),
    servers_needed: (
        lambda: servers_needed(
            file_system(q(""), **FILES, network=BANDWIDTH), read=BANDWIDTH, write=BANDWIDTH, capacity=BUFFER
        ),
        {"": ""},
    ),
    fair_shares: (lambda: fair_shares(BANDWIDTH, BANDWIDTH[0]), {"": "octet/s"}),
}
# Modules that hold no laws: what things are, what was measured and fitted, what is drawn.
NOT_LAWS = {
    "units",
    "checks",
    "quantities",
    "records",
    "catalogue",
    "model.published",
    "model.layout",
    "operations.making_room",
    "operations.state",
    "evidence",
    "cli",
    "__main__",
    "planning",  # decides with laws, and has none of its own
}
# Functions that are no laws: simulations, the training step and what is made of passes of a replica (their own tests
# scale times instead), and look-ups.
NO_LAWS = {
    trained,
    failures.simulate_job,
    interconnect.hierarchy,
    parallelism.step_kind,
    parallelism.wider,
    serving.serving_kind,
    parallelism.sent_bytes,
    parallelism.step,
    parallelism.reached,
    parallelism.scan_time,
    model.alternate_share,
    parallelism.axes,
    parallelism.search,
}
NO_LAWS |= {serving.violations, serving.forward_pass, serving.saturation, serving.frontier, serving.balanced_loads}
NO_LAWS |= {operations.feed, operations.find_bad, outside_envelope}  # degrees Celsius
NO_LAWS |= {operations.simulate_cluster, operations.replay, operations.draw_jobs, operations.compare_policies}
NO_LAWS |= {serving.fullest_rank, serving.simulate_queue, serving.batch_queue, serving.slo_attainment}
NO_LAWS |= {serving.simulate_queue, serving.batch_queue, serving.slo_attainment, serving.impatient_queue}


@pytest.mark.parametrize(
    ("law", "part"), [(law, part) for law, (_, dimensions) in DIMENSIONS.items() for part in dimensions]
)
def test_a_law_has_the_dimension_of_its_formula(law, part):
    call, dimensions = DIMENSIONS[law]
    result = getattr(call(), part) if part else call()
    assert registry.Quantity(result).dimensionality == registry.Unit(dimensions[part]).dimensionality


@pytest.mark.parametrize(
    "mistake",
    [
        lambda: attainable(q("FLOP/octet"), PEAK, PEAK),
        lambda: attainable(q("FLOP"), PEAK, BANDWIDTH),
        lambda: attainable(q("octet/FLOP"), PEAK, BANDWIDTH),
        lambda: lower_bound(compute=(q("FLOP"), PEAK), memory=(q("FLOP"), BANDWIDTH)).time,
        lambda: lower_bound(compute=(q("FLOP"), PEAK), memory=(q("FLOP"), BANDWIDTH)).serial,
        lambda: lower_bound(compute=(q("FLOP"), PEAK), memory=(q("FLOP"), BANDWIDTH)).binding,
        lambda: iron_law(data_volume=q("FLOP"), bandwidth=BANDWIDTH, operations=q("FLOP"), peak=PEAK).time,
        lambda: iron_law(data_volume=q("octet"), bandwidth=PEAK, operations=q("FLOP"), peak=PEAK).time,
        lambda: Work(q("FLOP"), q("octet")) + Work(q("octet"), q("octet")),
        lambda: Work(q("FLOP"), q("octet")) + Work(q("FLOP"), q("FLOP")),
        lambda: matmul(8, 8, 8, bytes_per_element=q("octet"), output_bytes_per_element=q("FLOP")),
        lambda: ring_all_reduce(q("FLOP"), 8, **LINK).time,
        lambda: ring_all_reduce(q("octet"), 8, bandwidth=PEAK, latency=q("s")).time,
        lambda: ring_all_reduce(q("octet"), 8, bandwidth=BANDWIDTH, latency=q("1/s")).time,
        lambda: hierarchical_all_reduce(BUFFER, RANKS, **NODE | {"node_bandwidth": PEAK}, **LINK).time,
        lambda: optimal_interval(SECONDS, BUFFER),
        lambda: goodput(replace(JOB, restart=BUFFER)),
        lambda: replace(JOB, write=BUFFER),
        lambda: checkpoint(q("FLOP"), storage_bandwidth=BANDWIDTH, writers=8, local_bandwidth=PEAK).time,
        lambda: series_mtbf(gpu=(SECONDS, 8), switch=(BUFFER, 2)).mtbf,
        lambda: hierarchical_all_to_all(BUFFER, RANKS, **NODE | {"node_latency": BUFFER}, **LINK).time,
        lambda: load(servers=WATTS, stored=q("J")).total,
        lambda: (SERVERS + load(stored=q("J"))).total,
        lambda: site(SERVERS, distribution=0.9, cop=3, other=q("J")).total,
        lambda: power_cap(q("J", 6.0), **CHIP),
        lambda: best_cap(**CHIP | {"rest": q("J")}),
        lambda: budget_fleet(q("J", 1e3), q("", 8), **CHIP),
    ],
)
def test_a_flop_count_where_bytes_belong_does_not_add_up(mistake):
    with pytest.raises(pint.DimensionalityError):
        mistake()


def test_a_share_with_a_dimension_is_refused_by_name():
    with pytest.raises(ValueError, match=r"^efficiency must be"):
        iron_law(data_volume=1, bandwidth=1, operations=1, peak=1, efficiency=q("s", 0.1))


def test_every_public_law_is_in_the_table():
    laws = set()
    for found in pkgutil.walk_packages(clusterlab.__path__, "clusterlab."):
        path = found.name.removeprefix("clusterlab.")
        if not {path, path.partition(".")[0]} & NOT_LAWS:
            module = importlib.import_module(found.name)
            # A room says what is public; a room of one module has nothing else.
            public = getattr(importlib.import_module(f"clusterlab.{path.partition('.')[0]}"), "__all__", None)
            functions = inspect.getmembers(module, inspect.isfunction)
            functions = [(name, f) for name, f in functions if f.__module__ == module.__name__ and name[0] != "_"]
            laws |= {f for name, f in functions if public is None or name in public}
    asked = {law for law in laws if not hasattr(law, "quantities")}  # test_laws tries the others
    assert asked - NO_LAWS == set(DIMENSIONS)
