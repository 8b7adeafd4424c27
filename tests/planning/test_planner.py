"""Plans: published clusters, the certificate over thousands of random ones, limits, intervals, what is infeasible."""

import itertools
import math
from dataclasses import fields, replace
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clusterlab import catalogue, failures, interconnect, planning
from clusterlab.catalogue import SPREADS, machine
from clusterlab.model import Layout, transformer
from clusterlab.parallelism import search, step
from clusterlab.planning import (
    ASSUMPTIONS,
    METRICS,
    PRESETS,
    SWITCHES,
    WORLD,
    InfeasibleError,
    Serving,
    Site,
    Training,
    certificate,
    design,
    least_memory,
    outcome,
    plan,
    planner,
    preset,
    quantity,
    serve,
    worlds,
)
from clusterlab.scaling import redundancy
from clusterlab.units import MW, day, hour, kWh, minute, year

LLAMA = Training("Llama 3.1 405B", 15.6e12, global_batch=2048)
H100 = machine("H100 SXM")
META = Layout(tp=8, pp=16, dp=128, chunks=8)


@pytest.fixture(scope="module")
def llama():
    return design(LLAMA, Site(), H100, META)


# --- published -------------------------------------------------------------------------------------------------------

# Planned over published, less one. What is beyond ten per cent is explained in the note of the published number.
ERRORS = {
    "Llama 3 405B": {
        "mfu": 0.087,
        "gpu_hours": -0.099,
        "interruptions_per_day": 0.014,
        "effective_time": 0.032,
        "chip_carbon": -0.050,
    },
    "DeepSeek-V3": {"gpu_hours": 0.023, "cost": 0.023},
    "Meta 24,576": {"gpus": 0, "racks": 0, "bisection": 0.002, "storage_bandwidth": 0},
    "SuperPOD, 256": dict.fromkeys(
        ("racks", "leaf_switches", "spine_switches", "host_cables", "spine_cables", "server_power"), 0
    ),
    "SuperPOD, 4,096": dict.fromkeys(
        ("leaf_switches", "spine_switches", "core_switches", "host_cables", "spine_cables", "core_cables"), 0
    ),
    "TPU v5p, 8,960": {"peak": 0.001, "cables": 0, "bisection": 0, "mfu": 0.125},
    "100,000 H100": {"site_power": 0.080, "mean_power": -0.107},
    "220,000 GPUs": {"mean_power": -0.021},
    "DeepSeek's day": {"busy_gpus": -0.165, "gpus": -0.022, "cost_a_day": 0.2},
}


@pytest.mark.parametrize("name", PRESETS)
def test_a_published_cluster_is_planned_to_within_ten_per_cent_or_its_note_says_why_not(name):
    made = preset(name, draws=20)
    assert made.holds
    assert {check.name: check.error for check in made.published} == pytest.approx(ERRORS[name], abs=2e-3)
    assert all(check.fact.note for check in made.published if abs(check.error) > 0.1)


def test_what_was_published_of_runs_lies_within_their_intervals():
    for name in ("Llama 3 405B", "DeepSeek-V3", "DeepSeek's day"):
        for check in preset(name).published:
            if check.low < check.high:
                assert check.low <= check.published <= check.high, (name, check.name)


def test_the_requests_of_a_day_are_those_that_its_tokens_make():
    asked = serving_of(PRESETS["DeepSeek's day"])
    assert asked.rate * asked.output * 86400 == pytest.approx(168e9, rel=1e-3)
    assert asked.rate * asked.prompt * 86400 == pytest.approx(608e9, rel=1e-3)
    assert asked.requests.mean_context == pytest.approx(4989, rel=1e-3)
    assert asked.cached == pytest.approx(342 / 608, rel=1e-3)


def serving_of(one):
    return planning.fleet_from_inputs(one.inputs)[0]


def test_what_a_cache_has_already_is_not_read_again():
    half = serve(replace(ASKED, prompt=8000, cached=0.5), Site("H100 SXM"), draws=2)
    none, all_of_it = (serve(replace(ASKED, prompt=8000, cached=c), Site("H100 SXM"), draws=2) for c in (0.0, 1.0))
    assert none.gpus > half.gpus > all_of_it.gpus
    assert all(joint.holds for one in (none, half, all_of_it) for joint in one.joints)


def test_a_fleet_without_a_price_has_none_for_a_token():
    fleet = serve(replace(ASKED, rate=50), Site("MI300X"), draws=2)
    assert np.isnan(fleet.token_cost)
    assert fleet.holds


def test_the_leanest_layout_is_what_a_search_finds_and_infinite_where_nothing_divides():
    run = Training("Llama 3.1 8B", 1e12, global_batch=512)
    site = Site("H100 SXM", gpus=64, layout=FEW | {"recompute": "none"})
    made = plan(run, site, draws=2)
    assert least_memory(run, site) == pytest.approx(float(made.design.memory))  # there is one layout alone
    assert least_memory(run, replace(site, gpus=7)) == np.inf
    with pytest.raises(ValueError, match="accelerator and gpus must be given"):
        least_memory(run, Site("H100 SXM"))


def test_the_mfu_of_llama_3_is_its_own_with_four_chunks_a_stage():
    """Table 4 prints 41 % and no number of chunks: the plan's 45 % are those of the best, eight."""
    four, eight = (step(LLAMA.model, H100, LLAMA.workload, replace(META, chunks=v)).mfu for v in (4, 8))
    assert (four, eight) == (pytest.approx(0.407, abs=0.001), pytest.approx(0.447, abs=0.001))


# --- the certificate -------------------------------------------------------------------------------------------------

MODELS = {
    "Llama 3.1 8B": (8, 64),
    "Llama 3.1 70B": (128, 512),
    "Mixtral 8x7B": (64, 256),
}
CHIPS = ("H100 SXM", "GB200", "A100 80GB")


@pytest.fixture(scope="module")
def some_layouts():
    """Thousands of layouts that run, of three models on three accelerators."""
    found = {}
    for name, sizes in MODELS.items():
        for chip in CHIPS:
            run = Training(name, 1e12, sequence=4096, global_batch=512)
            few = {"chunks": [1, 2, 4], "microbatch": [1, 2], "cp": [1, 2]}
            layouts = search(run.model, machine(chip), run.workload, gpus=list(sizes), values=few).layouts
            found[name, chip] = layouts
    return found


factors = st.floats(0.2, 5)


@st.composite
def some_world(draw):
    """A world within reason, one number for each assumption."""
    values = {name: draw(st.floats(0.3, 3)) * one.value for name, one in ASSUMPTIONS.items()}
    for name in ("draw", "utilisation", "availability", "spare_risk"):
        values[name] = min(values[name], 1.0)
    values["pue"] = max(values["pue"], 1.0)
    values["servers_per_rack"] = float(draw(st.integers(1, 9)))
    return planning.World(**values, step=draw(st.floats(0.7, 1.5)), lost_time=draw(st.floats(0.2, 20)))


@given(
    which=st.sampled_from([(m, c) for m in MODELS for c in CHIPS]),
    world=some_world(),
    tokens=st.floats(1e9, 1e14),
    rented=st.booleans(),
    ratio=st.sampled_from([1, 3, 7]),
    seed=st.integers(0, 2**32 - 1),
)
@settings(max_examples=100, deadline=None)
def test_every_joint_of_random_plans_holds(some_layouts, which, world, tokens, rented, ratio, seed):
    """A hundred times a hundred plans, each with a layout of its own: what leaves a law is what enters the next."""
    layouts = some_layouts[which]
    taken = np.random.default_rng(seed).integers(0, layouts.shape[0], 100)
    site = Site(rent=2 / hour if rented else None, server_power=1000, oversubscription=ratio)
    run = Training(which[0], tokens, sequence=4096, global_batch=512)
    made = design(run, site, machine(which[1]), layouts[taken], world=world)
    done = outcome(made, world)
    for joint in certificate(made, done, world):
        assert joint.holds, (joint.name, np.max(joint.error))
    # Conservation: parts make the whole, and nothing is for nothing.
    assert np.all(done.time >= done.work)
    assert np.all((done.run.goodput > 0) & (done.run.goodput <= 1))
    assert np.all(done.mean_power <= done.site.total * (1 + 1e-12))
    assert np.all(made.hosts >= made.gpus)
    assert np.all(made.racks * np.maximum(world.servers_per_rack * 8, 72) >= made.hosts / made.per_server)
    assert np.all(np.isfinite(done.cost) | (done.bill is None))


def test_a_plan_in_many_worlds_is_as_many_plans():
    made = design(LLAMA, Site(), H100, META)
    drawn = worlds(WORLD, 7, seed=3)
    together = outcome(made, drawn)
    for i in range(7):
        each = {f.name: getattr(drawn, f.name) for f in fields(drawn)}
        alone = outcome(made, replace(drawn, **{n: v[i] for n, v in each.items() if np.ndim(v)}))
        for _, get in METRICS.values():
            np.testing.assert_allclose(np.broadcast_to(get(made, together), 7)[i], get(made, alone), rtol=1e-12)
    assert all(joint.holds for joint in certificate(made, together, drawn))


def test_a_joint_that_does_not_fit_is_seen(llama):
    """A planted fault on each side of every joint: a hundredth of a per cent does not go through."""
    for joint in certificate(llama, outcome(llama)):
        assert joint.holds
        assert not replace(joint, left=joint.left * 1.0001).holds
        assert not replace(joint, right=joint.right * 1.0001).holds


FAULTS = {
    "servers": ["servers in repair"],
    "hosts": ["GPUs of servers", "watts of servers", "GPUs paid for"],
    "server_power": ["watts of servers"],
    "storage_bandwidth": ["bytes/s to storage"],
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_design_that_is_changed_after_its_outcome_breaks_the_joints_that_it_should(name, llama):
    done = outcome(llama)
    changed = replace(llama, **{name: getattr(llama, name) * 1.01})
    broken = [joint.name for joint in certificate(changed, done) if not joint.holds]
    assert len(broken) == len(FAULTS[name])
    assert all(b.startswith(f) for b, f in zip(broken, FAULTS[name], strict=True))


WORLD_FAULTS = {
    "gpu_mttf": ["servers in repair"],
    "repair": ["servers in repair"],
    "pue": [],
    "energy_price": [],
    "capital": ["GPUs paid for"],
    "step": [],  # what the run's own work says is used
    "air_rise": ["watts of IT"],
}


@pytest.mark.parametrize("name", WORLD_FAULTS)
def test_a_certificate_of_another_world_does_not_hold(name, llama):
    done = outcome(llama)
    other = replace(WORLD, **{name: getattr(WORLD, name) * 1.01})
    broken = [joint.name for joint in certificate(llama, done, other) if not joint.holds]
    assert [b for b in broken if any(b.startswith(f) for f in WORLD_FAULTS[name])] == broken
    assert len(broken) >= min(len(WORLD_FAULTS[name]), 1)


# --- witnesses and limits --------------------------------------------------------------------------------------------


def test_the_run_is_what_a_simulation_of_its_job_finds(llama):
    done = outcome(llama)
    job = replace(done.job, interval=float(done.job.interval), write=float(done.job.write))
    runs = failures.simulate_job(float(done.work), job, runs=60, seed=1)
    assert np.mean(runs.total) == pytest.approx(done.time, rel=0.01)
    assert np.mean(runs.failures) == pytest.approx(done.failures, rel=0.03)


def test_without_failures_a_run_takes_its_steps_and_its_checkpoints(llama):
    sure = outcome(llama, replace(WORLD, gpu_mttf=1e30))
    assert sure.time == pytest.approx(sure.work * (1 + llama.checkpoint.stall / llama.interval), rel=1e-4)
    assert sure.failures < 1e-15


def test_twice_the_tokens_take_twice_the_time_the_energy_and_the_money(llama):
    once = outcome(llama)
    twice = outcome(replace(llama, training=replace(LLAMA, tokens=2 * LLAMA.tokens)))
    for get in (lambda o: o.time, lambda o: o.energy.energy, lambda o: o.energy.carbon, lambda o: o.cost):
        assert get(twice) / get(once) == pytest.approx(2, rel=1e-4)
    assert twice.site.total == once.site.total


@pytest.mark.parametrize(
    ("name", "metric", "power_of"),
    [
        ("pue", "mean_power", 1),
        ("draw", "mean_power", 1),
        ("draw", "site_power", 0),
        ("carbon_intensity", "carbon", 1),
        ("step", "step_time", 1),
        ("step", "mfu", -1),
        ("gpu_mttf", "interruptions_per_day", -1),
        ("energy_price", "time", 0),
        ("capital", "capital", 1),
    ],
)
def test_half_of_an_assumption_halves_what_it_should(name, metric, power_of, llama):
    world = replace(WORLD, **{name: getattr(WORLD, name) * 0.85})
    get = METRICS[metric][1]
    ratio = get(llama, outcome(llama, world)) / get(llama, outcome(llama))
    assert ratio == pytest.approx(0.85**power_of, rel=1e-9 if metric != "interruptions_per_day" else 1e-6)


def test_a_checkpoint_is_read_again_after_each_failure(llama):
    """The storage that takes it in a lag gives it back in as long, on top of what starting takes."""
    slow = replace(llama, checkpoint=replace(llama.checkpoint, lag=llama.checkpoint.lag * 5))
    assert outcome(slow).job.restart - WORLD.restart == pytest.approx(5 * llama.checkpoint.lag)


def test_the_bill_of_a_run_is_its_share_of_a_year_counted_by_hand(llama):
    done = outcome(llama)
    listed = llama.prices
    each = listed.servers + listed.network + listed.storage
    watts = listed.substation + listed.generators + listed.electrical + listed.cooling + listed.building

    def annuity(money, years):
        return money * 0.08 / (1 - 1.08**-years)

    yearly = annuity(each * llama.hosts, 5) + annuity(watts * done.site.total, 14)
    yearly += 0.8 * done.site.total * year * (0.083 / kWh + listed.water)
    yearly += (listed.staff + listed.operations) * done.site.total
    assert done.cost == pytest.approx(yearly * done.time / year, rel=1e-12)


def test_spares_are_the_fewest_that_keep_the_risk(llama):
    low = ASSUMPTIONS["gpu_mttf"].low
    pool = {"nodes": llama.servers, "node_mtbf": low / 8, "repair": WORLD.repair}
    risk = [failures.spare_pool(k, **pool).none_left for k in (llama.spares - 1, llama.spares)]
    assert risk[1] <= WORLD.spare_risk < risk[0]


def test_the_interval_is_the_best_that_saving_allows():
    """Among all intervals that the storage can keep up with, none ends sooner."""
    made = design(LLAMA, Site(storage_bandwidth=20e12), H100, META)
    times = {f: outcome(replace(made, interval=made.interval * f)).time for f in (1, 1.2, 2, 4)}
    assert min(times, key=times.get) == 1
    assert made.interval >= max(made.step.time, made.checkpoint.lag)


# --- fabrics, racks, servers -----------------------------------------------------------------------------------------


@given(hosts=st.integers(1, 200_000), ratio=st.sampled_from([1, 3, 7]))
@settings(max_examples=30)
def test_the_fabric_is_the_one_of_least_watts(hosts, ratio):
    made = planner._fabric(hosts, hosts, H100, Site(oversubscription=ratio))
    watts = []
    for switch in SWITCHES.values():
        if switch.port == 50e9:
            most = interconnect.fat_tree_capacity(switch.ports, tiers=3, oversubscription=ratio)
            if hosts <= most:
                tree = interconnect.fat_tree(hosts, switch.ports, oversubscription=ratio)
                watts.append(tree.switches * switch.power)
    assert made.power == pytest.approx(min(watts))
    assert made.switches * SWITCHES[made.name].power == pytest.approx(made.power)


@pytest.mark.parametrize(("n", "sizes"), [(8960, (16, 20, 28)), (4096, (16, 16, 16)), (7, (7,)), (256, (4, 8, 8))])
def test_a_torus_is_next_to_a_cube(n, sizes):
    assert planner._torus_sizes(n) == sizes


def test_racks_hold_what_their_watts_allow():
    layouts = Layout(tp=8, pp=16, dp=[64, 128], chunks=8)
    for watts, each in ((12e3, 1), (25e3, 2), (45e3, 4), (100e3, 4)):
        made = design(LLAMA, Site(rack_power=watts, spares=0), H100, layouts)
        np.testing.assert_array_equal(made.racks, [8192 / 8 / each, 16384 / 8 / each])
    assert np.isinf(design(LLAMA, Site(rack_power=10e3), H100, META).racks)
    rack = design(LLAMA, Site(spares=0), machine("GB200"), replace(META, dp=32))
    assert rack.racks == math.ceil(4096 / 72)
    assert rack.per_server == 4


def test_a_server_without_a_rating_is_refused_by_name():
    with pytest.raises(ValueError, match="server_power must be given: no datasheet has the rating of H800 SXM"):
        plan(Training("Llama 3.1 8B", 1e12), Site("H800 SXM", gpus=64))


# --- worlds and intervals --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name, one in ASSUMPTIONS.items() if one.low])
def test_a_tenth_of_the_worlds_is_on_either_side_of_an_interval(name):
    one, drawn = ASSUMPTIONS[name], worlds(WORLD, 40_000)
    values = getattr(drawn, name)
    np.testing.assert_allclose(np.quantile(values, [0.1, 0.5, 0.9]), [one.low, one.value, one.high], rtol=0.03)


def test_lost_time_and_draw_have_the_spreads_that_published_fleets_taught():
    drawn = worlds(WORLD, 40_000)
    for name, kind in planning.LEARNED.items():
        spread, ratios = SPREADS[kind], getattr(drawn, name) / getattr(WORLD, name)
        np.testing.assert_allclose(np.quantile(ratios, [0.1, 0.9]), [spread.low, spread.high], rtol=0.03)


def test_a_world_that_loses_so_many_times_the_time_has_so_many_times_the_odds(llama):
    """The end of a plan's goodput is that of the record of a goodput, whose spread it has."""
    usual, worse = (outcome(llama, replace(WORLD, lost_time=odds)) for odds in (1.0, SPREADS["goodput"].high))
    assert worse.run.goodput == pytest.approx(failures.goodput(usual.job).low, rel=1e-3)
    assert (worse.failures, worse.work) == (usual.failures, usual.work)


@pytest.mark.parametrize("step_kind", ["dense, 16 bits", "mixture of experts"])
def test_the_time_of_a_step_has_the_spread_that_was_learned(step_kind):
    drawn = worlds(WORLD, 40_000, step_kind=step_kind).step
    spread = SPREADS[step_kind]
    np.testing.assert_allclose(np.quantile(drawn, [0.1, 0.9]), [spread.low, spread.high], rtol=0.01)


def test_a_tenth_of_a_normal_distribution_is_where_it_is():
    assert pytest.approx(NormalDist().inv_cdf(0.9), rel=1e-15) == planner._TENTH


def test_worlds_are_the_same_for_a_seed_and_no_two_assumptions_move_together():
    one, same, other = (worlds(WORLD, 2000, seed=s) for s in (1, 1, 2))
    np.testing.assert_array_equal(one.pue, same.pue)
    assert not np.array_equal(one.pue, other.pue)
    moved = [getattr(one, f.name) for f in fields(one) if np.ndim(getattr(one, f.name))]
    across = np.corrcoef(np.log(moved)) - np.eye(len(moved))
    assert np.max(np.abs(across)) < 0.1


@pytest.fixture(scope="module")
def small():
    return plan(Training("Llama 3.1 8B", 1e12, global_batch=512), Site("H100 SXM", gpus=64))


def test_an_interval_holds_its_value_and_a_certain_result_has_none(small):
    for one in small.intervals.values():
        assert one.low <= one.value <= one.high
    step_time = small.intervals["step_time"]
    spread = SPREADS["dense, 16 bits"]
    assert step_time.low / step_time.value == pytest.approx(spread.low, rel=0.02)
    assert step_time.high / step_time.value == pytest.approx(spread.high, rel=0.02)


def test_a_tornado_says_which_assumption_moves_the_cost_most(small):
    widths = []
    for bar in small.tornado:
        for end, cost, time in zip((bar.low, bar.high), bar.cost, bar.time, strict=True):
            done = outcome(small.design, replace(WORLD, **{bar.name: end}))
            assert (done.cost, done.time) == (pytest.approx(cost), pytest.approx(time))
        widths.append(abs(math.log(bar.cost[1] / bar.cost[0])))
    assert widths == sorted(widths, reverse=True)
    assert {bar.name for bar in small.tornado} >= {"capital", "life", "step", "pue", "energy_price"}


# --- choices ---------------------------------------------------------------------------------------------------------


EIGHT = {"tp": 8, "cp": 1, "microbatch": 1, "zero": 1}


@pytest.fixture(scope="module")
def table():
    """Every candidate for Llama 3.1 70B in sixty days, without any limit but that."""
    asked = Training("Llama 3.1 70B", 2e12, global_batch=512, deadline=60 * day)
    site = Site("H100 SXM", layout=EIGHT)
    return asked, planner._table(list(planner._candidates(asked, site, WORLD, None)), WORLD)


def test_with_a_deadline_the_cheapest_is_taken_and_the_front_is_a_front(table):
    asked, all_of = table
    made = plan(asked, Site("H100 SXM", layout=EIGHT), draws=10)
    keeps = all_of["time"] <= asked.deadline
    assert made.outcome.cost == pytest.approx(np.min(all_of["cost"][keeps]))
    points = np.array([(p.time, p.cost) for p in made.front])
    assert np.all(np.diff(points[:, 0]) > 0)
    assert np.all(np.diff(points[:, 1]) < 0)
    for time, cost in zip(all_of["time"][keeps], all_of["cost"][keeps], strict=True):  # nothing beats it
        assert not np.any((time < points[:, 0] * (1 - 1e-9)) & (cost < points[:, 1] * (1 - 1e-9)))
    assert made.considered == len(all_of["time"])


def test_without_a_deadline_the_fastest_within_the_limits_is_taken(table):
    asked, _ = table
    free = replace(asked, deadline=None)
    made = plan(free, Site("H100 SXM", power=2 * MW, layout=EIGHT), draws=10)
    assert made.outcome.site.total <= 2 * MW
    assert made.binding.name == "power"
    more = plan(free, Site("H100 SXM", power=4 * MW, layout=EIGHT), draws=10)
    assert more.outcome.time < made.outcome.time


def test_what_one_more_unit_buys_is_a_slope_of_the_plans(table):
    """A megawatt more, by the slope between the neighbours, against the plans on either side."""
    asked, all_of = table
    made = plan(replace(asked, deadline=None), Site("H100 SXM", power=2 * MW, layout=EIGHT), draws=10)
    n = made.design.gpus
    near = np.sort(all_of["gpus"][(all_of["gpus"] > n / 2) & (all_of["gpus"] < 2 * n)])
    low, high = near[near < n].max(), near[near > n].min()
    time = dict(zip(all_of["gpus"], all_of["time"], strict=True))
    slope = math.log(time[high] / time[low]) / math.log(high / low)
    more = made.binding.gpus
    assert more == pytest.approx(n * MW / made.outcome.site.total)
    assert made.binding.time == pytest.approx(made.outcome.time * slope * more / n)
    assert made.binding.time < 0


FEW = {"tp": 1, "pp": 1, "cp": 1, "chunks": 1, "microbatch": 1, "zero": 3}  # for speed: nearly nothing to search
LIMITS = [
    ({"deadline": 5 * day}, {"power": 0.3 * MW}),
    ({"deadline": 20 * day}, {"budget": 10e3}),
    ({"deadline": 10 * day}, {"racks": 4}),
    ({}, {"budget": 1e3}),
]


@pytest.mark.parametrize(("of_run", "of_site"), LIMITS)
def test_the_nearest_feasible_change_is_feasible_and_less_is_not(of_run, of_site):
    run = Training("Llama 3.1 8B", 1e12, global_batch=512, **of_run)
    site = Site("H100 SXM", **of_site, layout=FEW)
    with pytest.raises(InfeasibleError) as refused:
        plan(run, site, draws=10)
    assert refused.value.nearest
    for name, value in refused.value.nearest.items():
        for times, works in ((1 + 1e-6, True), (1 - 1e-3, False)):
            changed = {name: value * times}
            if name == "racks":
                changed = {name: value if works else value - 1}
            one = replace(run, **changed) if name == "deadline" else run
            other = site if name == "deadline" else replace(site, **changed)
            if works:
                assert plan(one, other, draws=10).holds
            else:
                with pytest.raises(InfeasibleError):
                    plan(one, other, draws=10)


def test_what_does_not_fit_says_how_many_gpus_would_do():
    with pytest.raises(InfeasibleError, match=r"Llama 3.1 405B on 8 H100 SXM fits .* gpus 128") as refused:
        plan(LLAMA, Site("H100 SXM", gpus=8))
    assert plan(LLAMA, Site("H100 SXM", gpus=refused.value.nearest["gpus"]), draws=10).holds


def test_a_rack_that_feeds_no_server_says_what_would():
    with pytest.raises(InfeasibleError, match="rack_power 12 kW feeds no server; the nearest that does: 120 kW"):
        plan(Training("Llama 3.1 8B", 1e12), Site("GB200", gpus=64, rack_power=12e3))


def test_more_gpus_than_any_switch_joins_are_refused_with_the_most_that_are():
    with pytest.raises(
        InfeasibleError, match=r"no switch on record joins 700,000 accelerators.*reach 524,288"
    ) as refused:
        design(replace(LLAMA, global_batch=7000), Site(spares=0), H100, Layout(tp=8, pp=25, dp=3500))
    assert refused.value.nearest == {"gpus": 524288}
    most = plan(Training("Llama 3.1 8B", 1e12, global_batch=2**19), Site("H100 SXM", gpus=2**19, spares=0, layout=FEW))
    assert most.design.fabric.ends == 2**19
    with pytest.raises(InfeasibleError, match="no switch on record joins"):
        serve(replace(ASKED, rate=1e9), Site("H100 SXM"))


def test_servers_that_break_faster_than_they_are_repaired_are_no_cluster():
    with pytest.raises(InfeasibleError, match="servers break faster than they are repaired"):
        plan(LLAMA, Site("H100 SXM", gpus=16384, layout=EIGHT), world=replace(WORLD, gpu_mttf=10))
    with pytest.raises(InfeasibleError, match="gpu_mttf or storage_bandwidth must be larger"):
        plan(LLAMA, Site("H100 SXM", gpus=16384, layout=EIGHT, storage_bandwidth=1))


def test_a_deadline_that_nothing_keeps_says_one_that_something_does():
    run, site = Training("Llama 3.1 8B", 1e12, global_batch=512, deadline=1), Site("H100 SXM", layout=FEW)
    with pytest.raises(InfeasibleError, match="no plan keeps within deadline 1 s") as refused:
        plan(run, site)
    again = replace(run, deadline=refused.value.nearest["deadline"] * 1.001)
    assert plan(again, site, draws=10).holds


def test_of_a_number_that_does_not_divide_the_nearest_is_said_on_either_side():
    with pytest.raises(InfeasibleError, match="the nearest that does: gpus") as refused:
        plan(Training("Llama 3.1 8B", 1e12, global_batch=512), Site("H100 SXM", gpus=1_000_001, layout=FEW))
    assert refused.value.nearest["gpus"] == 512


def test_a_first_token_that_no_replica_has_says_the_soonest():
    with pytest.raises(InfeasibleError, match="no replica has a first token within 1 µs") as refused:
        serve(replace(ASKED, first_token=1e-6), Site("H100 SXM"))
    soonest = refused.value.nearest["first_token"]
    assert serve(replace(ASKED, first_token=soonest * 1.001), Site("H100 SXM"), draws=10).holds


def test_a_fixed_layout_is_kept_and_one_that_cannot_be_is_refused():
    made = plan(
        LLAMA, Site("H100 SXM", gpus=16384, layout={"tp": 8, "pp": 8, "zero": 1, "recompute": "full"}), draws=10
    )
    assert (made.design.layout.tp, made.design.layout.pp, made.design.layout.zero) == (8, 8, 1)
    with pytest.raises(InfeasibleError, match="with tp 7 fixed"):
        plan(LLAMA, Site("H100 SXM", gpus=16384, layout={"tp": 7}), draws=10)


@pytest.mark.parametrize(
    ("call", "why"),
    [
        (lambda: plan(LLAMA, Site()), "give at least one of gpus, deadline, budget, power and racks"),
        (lambda: plan(LLAMA, Site("MI300X", budget=1e9)), "budget needs a rent"),
        (lambda: Site("H1000"), "unknown accelerator 'H1000'"),
        (lambda: Site(gpus=1.5), "gpus must be a whole number"),
        (lambda: Site(power=-1), "power must be positive"),
        (lambda: Site(layout={"tq": 8}), "layout has no axis 'tq'"),
        (lambda: Site(software="1999"), "unknown software '1999'"),
        (lambda: Training("Lama", 1e12), "unknown model"),
        (lambda: Training("Llama 3.1 8B", math.nan), "tokens must be positive and finite"),
        (lambda: Training("Llama 3.1 8B", 1e12, deadline=0), "deadline must be positive"),
        (lambda: Training("Llama 3.1 8B", 1e12, precision="fp7"), "precision must be one of"),
        (lambda: replace(WORLD, pue=0), "pue must be positive"),
        (lambda: worlds(WORLD, 0), "draws must be a whole number"),
        (lambda: preset("Llama 4"), "unknown preset"),
        (lambda: quantity("12 parsecs"), "cannot read"),
        (lambda: quantity("$2 per GPU"), "an amount is per kWh or per GPU-hour"),
        (lambda: quantity(True), "cannot read True"),
    ],
)
def test_what_cannot_be_is_refused_by_name(call, why):
    with pytest.raises(ValueError, match=why):
        call()


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("15.6T", 15.6e12),
        ("405B", 405e9),
        ("30 MW", 30e6),
        ("90d", 90 * day),
        ("$50M", 50e6),
        ("8 GB", 8e9),
        ("8930 t", 8.93e6),
        ("0.37 kg per kWh", 0.37 / 3.6e6),
        ("$3.6 per GPU-hour", 1e-3),
        (7, 7.0),
        ("8 min", 8 * minute),
    ],
)
def test_a_quantity_is_read_as_it_is_printed(text, value):
    assert quantity(text) == pytest.approx(value)


# --- fleets ----------------------------------------------------------------------------------------------------------

ASKED = Serving("Llama 3.1 70B", 100, 1000, 300, speed=30, precision="fp8")


@given(
    name=st.sampled_from(["Llama 3.1 8B", "Llama 3.1 70B", "Qwen3 30B-A3B"]),
    rate=st.floats(1, 3000),
    prompt=st.floats(50, 8000),
    output=st.floats(20, 2000),
    chip=st.sampled_from(["H100 SXM", "GB200"]),
)
@settings(max_examples=6, deadline=None)
def test_every_joint_of_random_fleets_holds_and_so_does_the_promise(name, rate, prompt, output, chip):
    asked = Serving(name, rate, prompt, output, speed=15, first_token=20, precision="fp8")
    fleet = serve(asked, Site(chip), draws=10)
    assert fleet.holds, [joint for joint in fleet.joints if not joint.holds]
    assert fleet.service.speed >= asked.speed
    assert fleet.service.time_to_first_token <= asked.first_token
    assert fleet.busy <= WORLD.utilisation * (1 + 1e-9)
    assert rate * output / (max(fleet.replicas - 1, 1) * fleet.service.tokens_per_second) > WORLD.utilisation or (
        fleet.replicas == 1
    )


def test_ten_times_the_requests_take_ten_times_the_replicas():
    many, more = (serve(replace(ASKED, rate=r), Site("H100 SXM"), draws=10) for r in (1e4, 1e5))
    assert more.gpus / many.gpus == pytest.approx(10, rel=0.02)
    assert more.cost / many.cost == pytest.approx(10, rel=0.05)


@pytest.fixture(scope="module")
def promised():
    return serve(replace(ASKED, rate=20_000, speed=60), Site("H100 SXM"), draws=2)


def test_a_faster_promise_costs_what_the_binding_says_and_a_free_one_is_not_what_binds(promised):
    one = promised.binding
    assert one.name == "speed"
    faster = serve(replace(promised.serving, speed=75), Site("H100 SXM"), draws=2)
    assert 15 * one.gpus == pytest.approx(faster.gpus - promised.gpus, rel=0.05)
    assert 15 * one.cost == pytest.approx(faster.cost - promised.cost, rel=0.1)
    free = serve(replace(promised.serving, speed=0.1), Site("H100 SXM"), draws=2)
    assert free.binding.name == "rate"
    assert free.binding.gpus == pytest.approx(free.gpus / 20_000)
    soon = serve(replace(promised.serving, speed=0.1, first_token=0.045), Site("H100 SXM"), draws=2)
    assert soon.binding.name == "first_token"
    assert soon.binding.gpus < 0


def test_the_front_of_fleets_is_a_front(promised):
    front = serve(replace(ASKED, rate=2000, speed=10), Site("H100 SXM"), draws=2).front
    assert len(front) > 1
    assert all(a.time < b.time and a.cost > b.cost for a, b in itertools.pairwise(front))


def test_the_tornado_of_a_fleet_carries_the_same_load_in_each_world(promised):
    bars = {bar.name: bar for bar in promised.tornado}
    assert {"step", "capital", "utilisation", "pue"} <= set(bars)
    step, spread = bars["step"], SPREADS["serving: saturated, dense"]
    assert step.time == pytest.approx([promised.service.time_per_token * end for end in (spread.low, spread.high)])
    assert step.cost[1] / step.cost[0] == pytest.approx(spread.high / spread.low, rel=0.05)
    widths = [math.log(max(bar.cost) / min(bar.cost)) for bar in promised.tornado]
    assert widths == sorted(widths, reverse=True)


def test_spare_replicas_are_the_fewest_that_keep_the_promise():
    for rate in (5, 100, 1e4):
        fleet = serve(replace(ASKED, rate=rate), Site("H100 SXM"), draws=10)
        up = WORLD.gpu_mttf / (WORLD.gpu_mttf + fleet.service.gpus * WORLD.repair)
        kept = [
            redundancy(fleet.replicas, up, spares=s).availability
            for s in (fleet.spare_replicas, max(fleet.spare_replicas - 1, 0))
        ]
        assert kept[0] >= WORLD.availability > kept[1] if fleet.spare_replicas else kept[0] >= WORLD.availability


def test_a_speed_that_no_replica_has_says_the_fastest():
    with pytest.raises(InfeasibleError, match=r"no replica gives each user 1e.06 tokens/s") as refused:
        serve(replace(ASKED, speed=1e6), Site("H100 SXM"))
    fastest = refused.value.nearest["speed"]
    assert serve(replace(ASKED, speed=fastest * 0.999), Site("H100 SXM"), draws=10).holds


def test_a_fleet_beyond_a_limit_says_what_would_do():
    site = Site("H100 SXM", power=20e3)
    with pytest.raises(InfeasibleError, match="each of these alone would do: power") as refused:
        serve(ASKED, site)
    assert serve(ASKED, replace(site, power=refused.value.nearest["power"] * 1.001), draws=10).holds


def test_a_model_that_no_replica_holds_is_refused():
    with pytest.raises(InfeasibleError, match="fits on no replica"):
        serve(Serving("MaxText 1024B", 1, 1000, 1e6), Site("A100 40GB", network="InfiniBand HDR"))


def test_progress_is_told_and_only_rises():
    told = []
    site = Site(layout=FEW)
    plan(Training("Llama 3.1 8B", 1e12, deadline=20 * day), site, draws=10, progress=lambda *said: told.append(said[0]))
    assert told == sorted(told)
    assert 0 <= told[0] < told[-1] < 1


def test_plans_stand_side_by_side_with_their_intervals(small):
    heading, row = planning.compare({"small": small}, "gpus", "time").rows
    assert heading == ("", "GPUs", "time")
    assert row == ("small", "64", small.intervals["time"].with_interval)
    assert small.intervals["time"].low < small.intervals["time"].high
    with pytest.raises(ValueError, match="unknown result 'luck'"):
        planning.compare({"small": small}, "luck")


def test_the_certificate_as_a_table_has_both_numbers_of_every_joint(small):
    _, *rows = small.certificate.rows
    assert [row[0] for row in rows] == [joint.name for joint in small.joints]
    for (_, left, right), joint in zip(rows, small.joints, strict=True):
        assert float(left.split()[0]) == pytest.approx(float(joint.left), rel=1e-5)
        assert float(right.split()[0]) == pytest.approx(float(joint.right), rel=1e-5)


def test_the_default_batch_is_next_to_the_critical_one():
    assert LLAMA.global_batch == 2048
    assert Training("Llama 3.1 405B", 15.6e12).global_batch in (1024, 2048)
    assert Training(transformer("Llama 3.1 8B"), 1e9).global_batch >= 1


def test_every_price_and_every_preset_is_of_hardware_that_is_on_record():
    names = {one.name for one in catalogue.accelerators()}
    assert set(planning.PRICES) <= names
    assert {one.inputs["accelerator"] for one in PRESETS.values()} <= names
