"""Dimensions: every public law is called with Pint quantities and must return what its formula says.

A FLOP and a byte are dimensions of their own here, so a FLOP count where bytes belong is an error, and so is a
forgotten factor with a unit. Counts (rows, heads, tokens, parameters) are dimensionless, and a FLOP count that a law
derives from counts alone is one too.
"""

import importlib
import inspect
import pkgutil
import warnings
from dataclasses import replace

import numpy as np
import pint
import pytest

import clusterlab
from clusterlab import catalogue, failures, interconnect, operations, parallelism, serving
from clusterlab.catalogue import SOFTWARE, price_list, prices
from clusterlab.failures import (
    Job,
    checkpoint,
    checkpoint_size,
    daly_interval,
    elastic_capacity,
    expected_failures,
    expected_run_time,
    failure_probability,
    first_order_goodput,
    goodput,
    implied_mttf,
    infant_failures,
    lemons,
    optimal_interval,
    overhead_budget,
    poisson_interval,
    restart_time,
    series_mtbf,
    spare_pool,
    spares_for,
    system_mtbf,
    young_interval,
)
from clusterlab.interconnect import (
    all_to_all_local_share,
    best_all_reduce,
    binomial_broadcast,
    bisection_bandwidth,
    bus_factor,
    crossover_size,
    double_tree_all_reduce,
    double_tree_chunks,
    expert_all_to_all,
    exposed_time,
    fat_tree,
    fat_tree_capacity,
    halving_doubling_all_reduce,
    hierarchical_all_reduce,
    hierarchical_all_to_all,
    in_network_all_reduce,
    leaf_reach,
    mesh_all_gather,
    multi_node_ring,
    multicast_all_reduce,
    network_hops,
    overlap_stages,
    pairwise_all_to_all,
    path_bandwidth,
    path_latency,
    path_tier,
    pipelined_time,
    point_to_point,
    posted_all_to_all,
    recursive_doubling_all_gather,
    recursive_doubling_all_reduce,
    recursive_halving_reduce_scatter,
    ring_all_gather,
    ring_all_reduce,
    ring_reduce_scatter,
    scale_up,
    scatter_all_gather_broadcast,
    torus,
    tree_all_reduce,
)
from clusterlab.model import (
    Layout,
    Transformer,
    Workload,
    attention_parameters,
    beside_parameters,
    expert_input,
    expert_parameters,
    forward_flops,
    kv_bytes_per_token,
    kv_cache_bytes,
    mamba_parameters,
    mamba_products,
    parameters,
    scan_flops,
    state_bytes,
    trained,
    training_flops,
)
from clusterlab.operations import (
    any_slow,
    best_check_interval,
    best_timeout,
    cache_hits,
    drain,
    fair_shares,
    file_system,
    heartbeat,
    least_tests,
    pair_tests,
    reading_rate,
    repetitions,
    result_checks,
    servers_needed,
    slowest,
    step_alarm,
    time_to_starve,
)
from clusterlab.parallelism import (
    bubble_fraction,
    critical_stage,
    data_parallel_ratio,
    dualpipe_bubble,
    in_flight,
    layer_activations,
    model_state,
    stage_layers,
    tensor_parallel_ratio,
)
from clusterlab.power import (
    Coolant,
    best_cap,
    budget_fleet,
    capacity,
    clocked_power,
    cluster_load,
    convert,
    coolant_flow,
    dew_point,
    energy_footprint,
    energy_per,
    facility,
    fan_power,
    heat_removed,
    holdover,
    load,
    mean_draw,
    outside_envelope,
    power_cap,
    power_swing,
    pue,
    site,
)
from clusterlab.roofline import (
    Work,
    attainable,
    iron_law,
    lower_bound,
    matmul,
)
from clusterlab.scaling import (
    amdahl_speedup,
    annuity,
    batch_cost,
    bill,
    break_even_revenue,
    break_even_utilisation,
    capital,
    chain,
    competitive_rent,
    compute_ledger,
    compute_optimal,
    cost_per,
    critical_batch,
    economic_life,
    geometric_efficiency,
    gpus_needed,
    gustafson_speedup,
    kept_per_doubling,
    lifetime_optimal,
    logarithmic_efficiency,
    loss,
    marginal_return,
    most_useful_size,
    outage_bill,
    redundancy,
    required_rent,
    strong_scaling,
    tokens_for_loss,
    training_run,
    waiting_bill,
    yearly_bill,
)
from clusterlab.serving import (
    accepted_tokens,
    disaggregate,
    little_law,
    network_time,
    speculative_speedup,
    token_price,
    train,
)
from laws import registry


def q(unit, value=2.0):
    """An array of quantities: the laws broadcast over it like over any other."""
    return registry.Quantity(np.array([value, 2 * value]), unit)


PEAK, BANDWIDTH = q("FLOP/s"), q("octet/s")
BUFFER, RANKS, LINK = q("octet"), q("", 8), {"bandwidth": BANDWIDTH, "latency": q("s")}
SHAPE = Transformer(layers=2, hidden=64, heads=8, ffn=256, vocab=100, window=4, window_layers=1)
WORKLOAD = Workload(sequence=8, global_batch=2)
IN_BYTES = replace(
    SOFTWARE["2024"],
    **{name: q("octet") for name in vars(SOFTWARE["2024"]) if name.endswith("_bytes")},
)
NODE = {"node_size": q("", 4), "node_bandwidth": BANDWIDTH, "node_latency": q("s")}
COLLECTIVE = {
    "size": "octet",
    "rounds": "",
    "path_bytes": "octet",
    "sent_bytes": "octet",
    "latency": "s",
    "transfer": "s",
} | {"time": "s", "bus_factor": "", "algorithm_bandwidth": "octet/s", "bus_bandwidth": "octet/s"}
FLAT_COLLECTIVES = (
    binomial_broadcast,
    scatter_all_gather_broadcast,
    ring_reduce_scatter,
    ring_all_gather,
    recursive_halving_reduce_scatter,
    recursive_doubling_all_gather,
    ring_all_reduce,
    tree_all_reduce,
    recursive_doubling_all_reduce,
    halving_doubling_all_reduce,
    pairwise_all_to_all,
    multicast_all_reduce,
)
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
FLEET = {"nodes": q("", 8), "node_mtbf": q("s", 100), "repair": SECONDS}


def counted(window, mtbf):
    """Expected failures: the range around the mean is of plain counts, so the unit is stripped on the way there."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pint.UnitStrippedWarning)
        return expected_failures(window, mtbf)


def pooled(share):
    """Spares for a share of the time: they are a plain count, so the unit is stripped on the way there."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pint.UnitStrippedWarning)
        return spares_for(share, **FLEET)


def redundant(needed, availability):
    """Units beside units: counts and shares, so the unit is stripped on the way here too."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pint.UnitStrippedWarning)
        return redundancy(needed, availability)


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
CAPPED = {"power": "W", "frequency": "", "time": "", "energy": "", "speed": ""}

FILES = {"drives": q("", 8), "drive_read": BANDWIDTH, "drive_write": BANDWIDTH, "drive_capacity": BUFFER}
DETECTOR = {"delay": "s", "false_alarms": "1/s", "late": "", "false": "", "lost": ""}

# Law: (result, {part of the result: unit}). "" is dimensionless. The empty part is the result itself.
DIMENSIONS = {
    lower_bound: (
        lambda: lower_bound(compute=(q("FLOP"), PEAK), memory=(q("octet"), BANDWIDTH)),
        {"time": "s", "serial": "s"},
    ),
    **{law: (lambda law=law: law(BUFFER, RANKS, **LINK), COLLECTIVE) for law in FLAT_COLLECTIVES},
    point_to_point: (lambda: point_to_point(BUFFER, **LINK), COLLECTIVE),
    double_tree_all_reduce: (
        lambda: double_tree_all_reduce(BUFFER, RANKS, **LINK, chunks=q("")),
        COLLECTIVE,
    ),
    double_tree_chunks: (lambda: double_tree_chunks(BUFFER, RANKS, **LINK), {"": ""}),
    hierarchical_all_reduce: (lambda: hierarchical_all_reduce(BUFFER, RANKS, **NODE, **LINK), COLLECTIVE),
    hierarchical_all_to_all: (lambda: hierarchical_all_to_all(BUFFER, RANKS, **NODE, **LINK), COLLECTIVE),
    posted_all_to_all: (lambda: posted_all_to_all(BUFFER, RANKS, **NODE, **LINK), COLLECTIVE),
    multi_node_ring: (lambda: multi_node_ring(BUFFER, RANKS, **NODE, **LINK, messages=q("")), COLLECTIVE),
    expert_all_to_all: (lambda: expert_all_to_all(BUFFER, RANKS, experts_per_token=q(""), **NODE, **LINK), COLLECTIVE),
    in_network_all_reduce: (lambda: in_network_all_reduce(BUFFER, RANKS, levels=q(""), **LINK), COLLECTIVE),
    mesh_all_gather: (lambda: mesh_all_gather(BUFFER, RANKS, **LINK), COLLECTIVE),
    all_to_all_local_share: (lambda: all_to_all_local_share(RANKS, node_size=q("", 4)), {"": ""}),
    bus_factor: (lambda: bus_factor("all-reduce", RANKS), {"": ""}),
    crossover_size: (
        lambda: crossover_size(tree_all_reduce(BUFFER, RANKS, **LINK), ring_all_reduce(BUFFER, RANKS, **LINK)),
        {"": "octet"},
    ),
    overlap_stages: (
        lambda: overlap_stages(tree_all_reduce(BUFFER, RANKS, **LINK), ring_all_reduce(BUFFER, RANKS, **LINK)),
        {"chunks": "", "latency": "s", "transfer": "s", "fill": "s", "time": "s"},
    ),
    pipelined_time: (lambda: pipelined_time(q("s"), q("s", 5)), {"": "s"}),
    exposed_time: (lambda: exposed_time(q("s"), q("s", 5), contention=q("", 0.1)), {"": "s"}),
    best_all_reduce: (lambda: best_all_reduce(BUFFER, RANKS, **LINK), {"time": "s"}),
    fat_tree_capacity: (lambda: fat_tree_capacity(q("", 28), tiers=q("")[:1], oversubscription=q("", 3)), {"": ""}),
    fat_tree: (
        lambda: fat_tree(q("", 8), q("", 64)),
        {"switches": "", "cables": "", "transceivers": "", "bisection_links": ""},
    ),
    torus: (lambda: torus(q("", 4)), {"links": "", "bisection_links": "", "diameter": "", "average_hops": ""}),
    scale_up: (lambda: scale_up(q("", 8), links=q("", 9), switch_ports=q("", 36)), {"cables": "", "switches": ""}),
    path_tier: (lambda: path_tier(q("", 8), q("", 9), domain=q("", 8), hosts_per_leaf=q(""), rails=q("")), {"": ""}),
    network_hops: (lambda: network_hops(q("")), {"": ""}),
    leaf_reach: (lambda: leaf_reach(q("", 8), rails=q("")), {"": ""}),
    bisection_bandwidth: (lambda: bisection_bandwidth(q("", 8), BANDWIDTH), {"": "octet/s"}),
    path_bandwidth: (
        lambda: path_bandwidth(
            q(""), memory=BANDWIDTH, scale_up=BANDWIDTH, network=BANDWIDTH, core_oversubscription=q("", 7)
        ),
        {"": "octet/s"},
    ),
    system_mtbf: (lambda: system_mtbf(SECONDS, q("", 8)), {"": "s"}),
    series_mtbf: (lambda: series_mtbf(gpu=(SECONDS, q("", 8)), switch=(SECONDS, 2)), {"mtbf": "s"}),
    expected_failures: (lambda: counted(SECONDS, SECONDS), {"value": "", "low": "", "high": ""}),
    lemons: (lambda: lemons([0.1, 0.2], failures=2, dispersion=0.5), {"past": "", "future": ""}),
    restart_time: (lambda: restart_time(SECONDS, 0.5, delay=SECONDS), {"value": "s", "low": "s", "high": "s"}),
    spares_for: (lambda: pooled(0.9), {"load": "", "deviation": ""}),
    failure_probability: (lambda: failure_probability(SECONDS, SECONDS), {"": ""}),
    infant_failures: (lambda: infant_failures(SECONDS, mtbf=SECONDS, shape=0.5, age=SECONDS), {"": ""}),
    poisson_interval: (lambda: poisson_interval([2, 4]), {"low": "", "high": ""}),
    implied_mttf: (
        lambda: implied_mttf([2, 4], components=q("", 8), window=SECONDS),
        {"value": "s", "low": "s", "high": "s"},
    ),
    checkpoint_size: (lambda: checkpoint_size(q(""), bytes_per_parameter=q("octet")), {"": "octet"}),
    checkpoint: (
        lambda: checkpoint(
            BUFFER,
            storage_bandwidth=BANDWIDTH,
            writers=q("", 8),
            writer_bandwidth=BANDWIDTH,
            local_bandwidth=BANDWIDTH,
        ),
        {"size": "octet", "stall": "s", "lag": "s", "time": "s"},
    ),
    young_interval: (lambda: young_interval(SECONDS, SECONDS), {"": "s"}),
    daly_interval: (lambda: daly_interval(SECONDS, SECONDS), {"": "s"}),
    optimal_interval: (lambda: optimal_interval(SECONDS, SECONDS), {"": "s"}),
    first_order_goodput: (lambda: first_order_goodput(JOB), {"": ""}),
    goodput: (lambda: goodput(JOB), dict.fromkeys(PARTS, "")),
    expected_run_time: (
        lambda: expected_run_time(q("s", 90), JOB),
        dict.fromkeys(PARTS, "s") | {"goodput": ""},
    ),
    overhead_budget: (lambda: overhead_budget(a=q("", 0.1), b=0.2), {"summed": "", "multiplied": ""}),
    spare_pool: (
        lambda: spare_pool(q(""), **FLEET),
        {"load": "", "none_left": "", "waiting": "", "wait": "s"},
    ),
    elastic_capacity: (lambda: elastic_capacity(q(""), **FLEET), {"": ""}),
    attention_parameters: (lambda: attention_parameters(SHAPE)[0], {"": ""}),
    expert_parameters: (lambda: expert_parameters(SHAPE), {"": ""}),
    expert_input: (lambda: expert_input(SHAPE), {"": ""}),
    beside_parameters: (lambda: beside_parameters(SHAPE)[0], {"": ""}),
    parameters: (lambda: parameters(SHAPE), {"total": "", "active": ""}),
    forward_flops: (lambda: forward_flops(SHAPE, q("", 8)), {"total": ""}),
    training_flops: (lambda: training_flops(SHAPE, q("", 8), recompute="full"), {"model": "", "hardware": ""}),
    mamba_parameters: (lambda: mamba_parameters(SHAPE), {"": ""}),
    mamba_products: (lambda: mamba_products(SHAPE), {"": ""}),
    scan_flops: (lambda: scan_flops(SHAPE), {"": ""}),
    state_bytes: (lambda: state_bytes(SHAPE, bytes_per_element=q("octet")), {"": "octet"}),
    kv_bytes_per_token: (lambda: kv_bytes_per_token(SHAPE, bytes_per_element=q("octet")), {"": "octet"}),
    kv_cache_bytes: (lambda: kv_cache_bytes(SHAPE, q("", 8), bytes_per_element=q("octet")), {"": "octet"}),
    model_state: (
        lambda: model_state(
            q(""),
            shards=q(""),
            zero=2,
            **dict.fromkeys(("weight_bytes", "gradient_bytes", "optimizer_bytes"), q("octet")),
        ),
        {"weights": "octet", "gradients": "octet", "optimizer": "octet", "total": "octet", "checkpoint": "octet"},
    ),
    layer_activations: (
        lambda: layer_activations(SHAPE, WORKLOAD, Layout(tp=2), software=IN_BYTES),
        {"total": "octet", "norms": "octet", "attention": "octet", "feed_forward": "octet"},
    ),
    parallelism.footprint: (
        lambda: parallelism.footprint(SHAPE, WORKLOAD, Layout(zero=3), software=IN_BYTES, reserved=q("octet")),
        {"weights": "octet", "gathered": "octet", "activations": "octet", "output": "octet", "total": "octet"},
    ),
    stage_layers: (lambda: stage_layers(q("", 16), q("", 4), q("", 1), chunks=q("")), {"": ""}),
    critical_stage: (
        lambda: critical_stage(
            q("", 16),
            **dict.fromkeys(("layer_time", "embedding_time", "output_time"), q("s")),
            **dict.fromkeys(("stages", "microbatches", "chunks"), q("")),
        ),
        {"layers": "", "time": "s", "has_embedding": "", "has_output": "", "bubble": "s"},
    ),
    parallelism.simulate: (
        lambda: parallelism.simulate("1f1b", stages=2, microbatches=2, **dict.fromkeys(("forward", "backward"), 1.0)),
        {"bubble_fraction": ""},
    ),
    parallelism.simulate_dualpipe: (
        lambda: parallelism.simulate_dualpipe(2, 4, **dict.fromkeys(("forward", "backward"), 1.0)),
        {"bubble_fraction": ""},
    ),
    dualpipe_bubble: (
        lambda: dualpipe_bubble(q("", 4), forward=q("s"), backward=q("s"), weight=q("s", 0.1), paired=q("s")),
        {"": "s"},
    ),
    bubble_fraction: (
        lambda: bubble_fraction(q(""), q(""), schedule="zb-h1", forward=q("s"), backward=q("s"), weight=q("s", 1)),
        {"": ""},
    ),
    amdahl_speedup: (lambda: amdahl_speedup(q("", 0.1), RANKS), {"": ""}),
    gustafson_speedup: (lambda: gustafson_speedup(q("", 0.1), RANKS), {"": ""}),
    bill: (lambda: bill(gpus=(q("", 8), MONEY), network=MONEY), {"total": "dollar"}),
    capital: (lambda: capital(q("", 8), WATTS, IN_DOLLARS), {"total": "dollar"}),
    # Yearly amounts count years, so a life is a number of the library's seconds and a year has no unit.
    annuity: (lambda: annuity(MONEY, rate=q("", 0.1), life=1e8), {"": "dollar"}),
    yearly_bill: (lambda: yearly_bill(q("", 8), WATTS, IN_DOLLARS, rate=0.1), {"total": "dollar"}),
    required_rent: (lambda: required_rent(MONEY, running=MONEY, rate=0.1, life=1e8, decline=0.1), {"": "dollar"}),
    cost_per: (lambda: cost_per(q("dollar/s"), PEAK), {"": "dollar/FLOP"}),
    break_even_utilisation: (lambda: break_even_utilisation(q("dollar/s"), q("dollar/s")), {"": ""}),
    competitive_rent: (
        lambda: competitive_rent(q("dollar/s"), SECONDS, gain=q(""), period=SECONDS),
        {"": "dollar/s"},
    ),
    economic_life: (lambda: economic_life(MONEY, MONEY, gain=q(""), period=SECONDS), {"": "s"}),
    break_even_revenue: (lambda: break_even_revenue(MONEY, variable=0.2, wait=1.0, rate=0.1), {"": "dollar"}),
    waiting_bill: (lambda: waiting_bill(bill(a=MONEY), 3.0, revenue=MONEY), {"total": "dollar"}),
    outage_bill: (
        lambda: outage_bill(q("dollar/s"), SECONDS, lost_work=SECONDS, restart=SECONDS, revenue=q("dollar/s")),
        {"total": "dollar"},
    ),
    redundancy: (lambda: redundant(q("", 8), q("", 0.4)), {"availability": "", "overbuild": ""}),
    compute_ledger: (lambda: compute_ledger(q(""), q(""), served_tokens=q("")), {"total": "", "training": ""}),
    loss: (lambda: loss(q("", 1e9), q("", 1e9)), {"": ""}),
    compute_optimal: (lambda: compute_optimal(q("", 1e20)), {"parameters": "", "tokens": "", "ratio": ""}),
    tokens_for_loss: (lambda: tokens_for_loss(q("", 1e10), q("", 2.5)), {"": ""}),
    lifetime_optimal: (lambda: lifetime_optimal(q("", 2.5), q("", 1e12)), {"parameters": "", "tokens": ""}),
    strong_scaling: (lambda: strong_scaling(RANKS, bubble=q("", 0.1)), {"time": "", "speedup": "", "limit": ""}),
    logarithmic_efficiency: (lambda: logarithmic_efficiency(RANKS, first=q("", 0.4), drop=0.01), {"": ""}),
    geometric_efficiency: (lambda: geometric_efficiency(RANKS, at=8, efficiency=q("", 0.4), kept=0.9), {"": ""}),
    kept_per_doubling: (lambda: kept_per_doubling((RANKS, 0.5), (4 * RANKS, 0.4)), {"": ""}),
    marginal_return: (lambda: marginal_return(lambda n: 1 / n, RANKS), {"": ""}),
    most_useful_size: (lambda: most_useful_size(first=q("", 0.4), drop=0.1), {"": ""}),
    chain: (lambda: chain(PEAK, MFU=q("", 0.4), goodput=0.9), {"result": "FLOP/s", "share": ""}),
    critical_batch: (lambda: critical_batch(q("")), {"": ""}),
    batch_cost: (lambda: batch_cost(q(""), q("")), {"steps": "", "tokens": ""}),
    training_run: (
        lambda: training_run(q("FLOP"), RANKS, peak=PEAK, efficiency=q("", 0.4)),
        {"flops": "FLOP", "rate": "FLOP/s", "time": "s", "gpu_time": "s"},
    ),
    gpus_needed: (lambda: gpus_needed(q("FLOP", 40), SECONDS, peak=PEAK, efficiency=0.5), {"": ""}),
    # FLOPs of tokens and parameters alone are a plain count here, so what is left of a rate is a FLOP.
    data_parallel_ratio: (
        lambda: data_parallel_ratio(q("", 8), rate=PEAK, bandwidth=BANDWIDTH, gradient_bytes=q("octet")),
        {"": "FLOP"},
    ),
    tensor_parallel_ratio: (
        lambda: tensor_parallel_ratio(RANKS, q("", 8), rate=PEAK, bandwidth=BANDWIDTH, activation_bytes=q("octet")),
        {"": "FLOP"},
    ),
    in_flight: (lambda: in_flight(q("", 8), q(""), q("", 1), chunks=q("")), {"": ""}),
    path_latency: (lambda: path_latency(q(""), scale_up=q("s"), network=q("s"), switch=q("s")), {"": "s"}),
    load: (lambda: SERVERS + load(switches=WATTS), {"total": "W"}),
    convert: (lambda: convert(SERVERS, q("", 0.4)), {"total": "W"}),
    cluster_load: (
        lambda: cluster_load(q("", 8), WATTS, server_overhead=q(""), network_share=q("")),
        {"total": "W"},
    ),
    pue: (lambda: pue(q("W", 4.0), WATTS), {"": ""}),
    facility: (lambda: facility(SERVERS, q("")), {"total": "W"}),
    site: (lambda: site(SERVERS, distribution=q("", 0.4), cop=q(""), other=WATTS), {"total": "W"}),
    energy_footprint: (
        lambda: energy_footprint(
            WATTS, q("s"), pue=q(""), price=q("1/J"), carbon_intensity=q("kg/J"), water_usage=q("m^3/J")
        ),
        {"it_energy": "J", "overhead_energy": "J", "energy": "J", "cost": "", "carbon": "kg", "water": "m^3"},
    ),
    coolant_flow: (lambda: coolant_flow(WATTS, q("K"), COOLANT), {"": "m^3/s"}),
    heat_removed: (lambda: heat_removed(q("m^3/s"), q("K"), COOLANT), {"": "W"}),
    fan_power: (lambda: fan_power(q("m^3/s"), rated_flow=q("m^3/s"), rated_power=WATTS), {"": "W"}),
    energy_per: (lambda: energy_per(WATTS, PEAK), {"": "J/FLOP"}),
    clocked_power: (
        lambda: clocked_power(q("", 0.4), **{name: CHIP[name] for name in ("static", "dynamic", "voltage_floor")}),
        {"": "W"},
    ),
    mean_draw: (lambda: mean_draw(WATTS, utilisation=0.7, waiting=q("", 0.3)), {"power": "W", "speed": ""}),
    power_cap: (lambda: power_cap(q("W", 6.0), **CHIP), CAPPED),
    best_cap: (lambda: best_cap(**CHIP), CAPPED),
    budget_fleet: (
        lambda: budget_fleet(q("W", 1e3), q("", 8), **CHIP),
        {"accelerators": "", "cap": "W", "power": "W", "speed": ""},
    ),
    power_swing: (
        lambda: power_swing(WATTS, q("s")),
        {"mean": "W", "peak": "W", "trough": "W", "swing": "W", "period": "s", "buffer": "J"},
    ),
    capacity: (lambda: capacity(power=(q("W", 9.0), WATTS), space=(q("m", 9.0), q("m"))), {"count": ""}),
    train: (
        lambda: train(q(""), q(""), stage_time=SECONDS, hand_off=SECONDS),
        {"token_time": "s", "busy": "", "microbatches_to_fill": ""},
    ),
    accepted_tokens: (lambda: accepted_tokens(q("", 0.4), q("")), {"": ""}),
    speculative_speedup: (lambda: speculative_speedup(0.4, q(""), draft_time=q("")), {"": ""}),
    disaggregate: (lambda: disaggregate(q("1/s"), q("1/s")), {"prefill_share": "", "requests_per_second": "1/s"}),
    token_price: (lambda: token_price(q("kg/s"), q("1/s")), {"": "kg"}),  # kilograms stand for dollars
    little_law: (lambda: little_law(q("1/s"), SECONDS), {"": ""}),
    network_time: (lambda: network_time(q("m"), speed=q("m/s")), {"": "s"}),
    reading_rate: (lambda: reading_rate(q(""), BUFFER, SECONDS), {"": "octet/s"}),
    cache_hits: (lambda: cache_hits(BUFFER, q("octet", 9), epochs=q("")), {"": ""}),
    file_system: (
        lambda: file_system(q(""), **FILES, network=BANDWIDTH, clients=BANDWIDTH),
        {"read": "octet/s", "write": "octet/s", "capacity": "octet"},
    ),
    servers_needed: (
        lambda: servers_needed(
            file_system(q(""), **FILES, network=BANDWIDTH), read=BANDWIDTH, write=BANDWIDTH, capacity=BUFFER
        ),
        {"": ""},
    ),
    fair_shares: (lambda: fair_shares(BANDWIDTH, BANDWIDTH[0]), {"": "octet/s"}),
    time_to_starve: (lambda: time_to_starve(BUFFER, demand=q("octet/s", 9.0), supply=BANDWIDTH), {"": "s"}),
    slowest: (lambda: slowest([2, 4], spread=0.1), {"": ""}),
    any_slow: (lambda: any_slow(q(""), 0.1), {"": ""}),
    repetitions: (lambda: repetitions(0.1, 0.1), {"": ""}),
    heartbeat: (lambda: heartbeat(SECONDS, pause=SECONDS, every=SECONDS, mtbf=SECONDS, restart=SECONDS), DETECTOR),
    best_timeout: (lambda: best_timeout(pause=SECONDS, every=SECONDS, mtbf=SECONDS, restart=SECONDS), {"": "s"}),
    step_alarm: (
        lambda: step_alarm(0.1, steps=2, slowdown=0.1, spread=0.1, step_time=SECONDS, mtbf=SECONDS, false_cost=SECONDS),
        DETECTOR,
    ),
    result_checks: (lambda: result_checks(SECONDS, cost=SECONDS, mtbf=SECONDS, coverage=0.5), DETECTOR),
    best_check_interval: (lambda: best_check_interval(cost=SECONDS, mtbf=SECONDS), {"": "s"}),
    least_tests: (lambda: least_tests(8, 2), {"": ""}),
    pair_tests: (lambda: pair_tests(8, 2), {"": ""}),
    drain: (lambda: drain(8, SECONDS, needed=4), {"time": "s", "idle": "s", "share": ""}),
    holdover: (lambda: holdover(q("J"), WATTS, efficiency=q("", 0.4)), {"": "s"}),
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
    "evidence",
    "cli",
    "__main__",
    "planning",  # decides with laws, and has none of its own
}
# Functions that are no laws: simulations, the training step and what is made of passes of a replica (their own tests
# scale times instead), and look-ups.
NO_LAWS = {
    trained,
    failures.simulate,
    interconnect.hierarchy,
    parallelism.kind,
    serving.kind,
    serving.reuse,
    parallelism.sent_bytes,
    prices.load,
    catalogue.price_list,
    parallelism.step,
    parallelism.axes,
    parallelism.search,
}
NO_LAWS |= {serving.faults, serving.forward_pass, serving.footprint, serving.largest_batch, serving.saturation}
NO_LAWS |= {serving.static_batch, serving.continuous_batch, serving.frontier, serving.balanced_loads}
NO_LAWS |= {operations.feed, operations.find_bad, dew_point, outside_envelope}  # degrees Celsius
NO_LAWS |= {operations.simulate, operations.replay, operations.draw_jobs, operations.expected_wait, operations.compare}
NO_LAWS |= {operations.packing_bound, operations.makespan_bound, operations.internal_fragmentation}
NO_LAWS |= {serving.fullest_rank, serving.simulate, serving.batch_queue, serving.goodput, serving.impatient_queue}


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
            functions = inspect.getmembers(module, inspect.isfunction)
            laws |= {f for name, f in functions if f.__module__ == module.__name__ and name[0] != "_"}
    asked = {law for law in laws if not hasattr(law, "quantities")}  # test_laws tries the others
    assert asked - NO_LAWS == set(DIMENSIONS)
