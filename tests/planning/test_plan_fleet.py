"""A fleet that serves: every number of it counted again by hand, its promise, and what binds it."""

import itertools
import math
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clusterlab import interconnect
from clusterlab.catalogue import PREDICTION_INTERVALS, price_list
from clusterlab.planning import CENTRAL, FLEET_METRICS, SWITCHES, InfeasibleError, Serving, Site, samples, serve
from clusterlab.planning.recount import recount
from clusterlab.scaling import redundancy
from clusterlab.serving import Replica, Requests, frontier
from clusterlab.units import hour, year
from planned import ASKED, adds_up


@pytest.fixture(scope="module")
def promised():
    return serve(replace(ASKED, rate=20_000, speed=60), Site("H100 SXM"), draws=200)


# --- By hand ---------------------------------------------------------------------------------------------------------


def annuity(money, rate, years):
    return money * rate / (1 - (1 + rate) ** -years)


@cache
def fewest_spares(replicas, gpus):
    """With which enough replicas are up: counted one by one, in the scenario in which the fleet is planned."""
    up = CENTRAL.gpu_mttf / (CENTRAL.gpu_mttf + gpus * CENTRAL.repair)
    kept = (redundancy(replicas, up, spares=s).availability for s in itertools.count())
    return next(s for s, one in enumerate(kept) if one >= CENTRAL.availability)


def by_hand(fleet, assumed=CENTRAL):
    """Every number of a fleet on H100s, from its replica, datasheets, prices and assumptions alone."""
    tokens, service = 20_000 * 300, fleet.service
    replicas = math.ceil(tokens * assumed.step / service.tokens_per_second / assumed.utilisation)
    spares = fewest_spares(replicas, service.gpus)
    hosts = 8 * math.ceil((replicas + spares) * service.gpus / 8)
    trees = {name: interconnect.fat_tree(hosts, SWITCHES[name].ports) for name in ("QM9700", "SN5600")}
    name = min(trees, key=lambda one: trees[one].switches * SWITCHES[one].power)
    tree = trees[name]
    rated = (hosts / 8 * 10.2e3 + tree.switches * SWITCHES[name].power) * assumed.pue
    listed = price_list("H100 SXM")
    hall = rated * (listed.substation + listed.generators + listed.electrical + listed.cooling + listed.building)
    bought = hosts * (listed.servers + listed.network + listed.storage)
    yearly = annuity(bought * assumed.capital, assumed.interest, assumed.life / year)
    yearly += annuity(hall * assumed.capital, assumed.interest, 14) + (listed.staff + listed.operations) * rated
    yearly += assumed.draw * rated * year * (assumed.energy_price + listed.water)
    return {
        "gpus": replicas * service.gpus,
        "busy_gpus": tokens * assumed.step / (service.tokens_per_second / service.gpus),
        "hosts": hosts,
        "replicas": replicas,
        "spare_replicas": spares,
        "racks": math.ceil(hosts / 8 / 4),
        "leaf_switches": tree.leaves,
        "spine_switches": tree.spines,
        "core_switches": tree.cores,
        "cables": tree.host_cables + tree.spine_cables + tree.core_cables,
        "transceivers": 2 * (tree.host_cables + tree.spine_cables + tree.core_cables),
        "site_power": rated,
        "mean_power": assumed.draw * rated,
        "cost_a_day": yearly * 86_400 / year,
        "cost_a_year": yearly,
        "cost_of_a_million_tokens": 1e6 * yearly / (tokens * year),
        "speed": 1 / (service.time_per_token * assumed.step),
        "first_token": service.time_to_first_token * assumed.step,
    }


@pytest.mark.parametrize("name", FLEET_METRICS)
def test_a_number_of_a_fleet_is_that_which_one_counts_by_hand(name, promised):
    assert promised.parts[name] == pytest.approx(float(by_hand(promised)[name]), rel=1e-9)
    assert promised.fabric.cores > 0  # so large that a third tier counts
    assert promised.spare_replicas > 0


def test_the_intervals_of_a_fleet_are_those_of_as_many_fleets_by_hand(promised):
    """A step so many times as long leaves each user less, and the same load needs so many times the replicas."""
    drawn = samples(CENTRAL, 200, step_kind="serving: saturated, dense")
    columns = {name: np.broadcast_to(values, 200) for name, values in vars(drawn).items() if name != "own"}
    worlds = [replace(CENTRAL, **{name: float(values[i]) for name, values in columns.items()}) for i in range(200)]
    service = promised.service
    hands = [by_hand(promised, one) for one in worlds]
    wanted = {name: [hand[name] for hand in hands] for name in set(hands[0]) & set(promised.intervals)}
    wanted["requests_at_most"] = promised.replicas * service.tokens_per_second / drawn.step / 300
    assert set(wanted) == set(promised.intervals) - {"capital"}
    for name, values in wanted.items():
        one = promised.intervals[name]
        low, high = np.quantile(values, (0.1, 0.9))
        assert (one.low, one.high) == pytest.approx((min(low, one.value), max(high, one.value)), rel=1e-9), name


def test_the_count_of_a_fleet_has_an_interval_and_its_cost_moves_with_it(promised):
    """The step alone moves a fleet: its cost is at least as uncertain as with the step at either end."""
    sure, step = promised.intervals, {bar.name: bar for bar in promised.tornado}["step"]
    assert sure["gpus"].high > 1.2 * promised.gpus > promised.gpus > 1.2 * sure["gpus"].low
    assert sure["cost_a_year"].low < min(step.cost) < max(step.cost) < sure["cost_a_year"].high


def test_prompts_that_are_read_apart_take_fewer_of_a_fast_promise():
    """Both kinds together carry the requests: one decodes at the promised speed, the other only reads."""
    asked = Serving("DeepSeek-V3", 1000, 1000, 300, speed=50, precision="fp8")
    fleet = serve(asked, Site("H100 SXM"), draws=2)
    assert fleet.apart < 0.6 * fleet.gpus
    replica = replace(Replica(asked.model, fleet.machine, formats=asked.formats), layout=fleet.layout)
    (reads, decodes) = (
        max(
            np.max(one.service.tokens_per_second_per_gpu[one.service.speed >= least])
            for one in [frontier(replica, requests, gpus=[16, 32, 64])]
        )
        for requests, least in ((Requests(1000, 1), 0), (Requests(1000, 300, 1.0), 50))
    )
    assert fleet.apart == pytest.approx((1000 / reads + 300_000 / decodes) / CENTRAL.utilisation, rel=0.05)
    assert np.isnan(serve(replace(asked, cached=1.0), Site("H100 SXM"), draws=2).apart)


def test_a_rented_fleet_pays_for_the_accelerators_that_work():
    fleet = serve(replace(ASKED, rate=1000), Site("H100 SXM", rent=2 / hour, spares=3), draws=2)
    assert fleet.hosts > fleet.gpus
    assert fleet.cost == pytest.approx(fleet.gpus * 2 * year / hour)
    assert fleet.capital is None


# --- The promise -----------------------------------------------------------------------------------------------------


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
    assert adds_up(fleet), [one for one in recount(fleet, CENTRAL) if not one.holds]
    assert fleet.service.speed >= asked.speed
    assert fleet.service.time_to_first_token <= asked.first_token
    assert fleet.busy <= CENTRAL.utilisation * (1 + 1e-9)
    assert rate * output / (max(fleet.replicas - 1, 1) * fleet.service.tokens_per_second) > CENTRAL.utilisation or (
        fleet.replicas == 1
    )


def test_ten_times_the_requests_take_ten_times_the_replicas():
    many, more = (serve(replace(ASKED, rate=r), Site("H100 SXM"), draws=10) for r in (1e4, 1e5))
    assert more.gpus / many.gpus == pytest.approx(10, rel=0.02)
    assert more.cost / many.cost == pytest.approx(10, rel=0.05)


def test_what_a_cache_has_already_is_not_read_again():
    half = serve(replace(ASKED, prompt=8000, cached=0.5), Site("H100 SXM"), draws=2)
    none, all_of_it = (serve(replace(ASKED, prompt=8000, cached=c), Site("H100 SXM"), draws=2) for c in (0.0, 1.0))
    assert none.gpus > half.gpus > all_of_it.gpus
    assert all(adds_up(one) for one in (none, half, all_of_it))


def test_a_fleet_without_a_price_has_none_for_a_token():
    fleet = serve(replace(ASKED, rate=50), Site("MI300X"), draws=2)
    assert np.isnan(fleet.token_cost)
    assert adds_up(fleet)


def test_spare_replicas_are_the_fewest_that_keep_the_promise():
    for rate in (5, 100, 1e4):
        fleet = serve(replace(ASKED, rate=rate), Site("H100 SXM"), draws=10)
        up = CENTRAL.gpu_mttf / (CENTRAL.gpu_mttf + fleet.service.gpus * CENTRAL.repair)
        kept = [
            redundancy(fleet.replicas, up, spares=s).availability
            for s in (fleet.spare_replicas, max(fleet.spare_replicas - 1, 0))
        ]
        assert kept[0] >= CENTRAL.availability > kept[1] if fleet.spare_replicas else kept[0] >= CENTRAL.availability


# --- What binds, and what matters most -------------------------------------------------------------------------------


def test_a_faster_promise_costs_what_the_binding_says_and_a_free_one_is_not_what_binds(promised):
    one = promised.binding
    assert one.name == "speed"
    faster = serve(replace(promised.serving, speed=75), Site("H100 SXM"), draws=2)
    assert (one.limit, one.unit) == (60, 15)
    assert one.gpus == pytest.approx(faster.gpus - promised.gpus, rel=0.1)  # counts jump from layout to layout
    assert one.cost == pytest.approx(faster.cost - promised.cost, rel=0.1)
    free = serve(replace(promised.serving, speed=0.1), Site("H100 SXM"), draws=2)
    assert free.binding.name == "rate"
    assert free.binding.gpus == pytest.approx(free.gpus / 20_000)
    soon = serve(replace(promised.serving, speed=0.1, first_token=0.045), Site("H100 SXM"), draws=2)
    assert soon.binding.name == "first_token"
    assert soon.binding.gpus < 0


def test_a_quarter_more_time_saves_what_the_binding_says():
    """Planned again with a quarter more time for the first token."""
    asked = replace(ASKED, rate=20_000, speed=0.1, first_token=0.08)
    soon = serve(asked, Site("H100 SXM"), draws=2)
    later = serve(replace(asked, first_token=0.08 * 1.25), Site("H100 SXM"), draws=2)
    assert (soon.binding.name, soon.binding.unit, soon.binding.dimension) == ("first_token", 0.02, "s")
    assert soon.binding.gpus == pytest.approx(later.gpus - soon.gpus, rel=0.02)
    assert soon.binding.cost == pytest.approx(later.cost - soon.cost, rel=0.1)


def test_the_front_of_fleets_is_a_front(promised):
    front = serve(replace(ASKED, rate=2000, speed=10), Site("H100 SXM"), draws=2).front
    assert len(front) > 1
    assert all(a.time < b.time and a.cost > b.cost for a, b in itertools.pairwise(front))


@pytest.mark.slow
def test_the_front_of_fleets_has_the_chosen_one_with_its_intervals(promised):
    """A user who gets fewest tokens a second waits longest for one."""
    sure = promised.intervals
    (one,) = [point for point in promised.front if point.cost == promised.cost]
    assert one.time == promised.service.time_per_token
    assert (one.time_low, one.time_high) == pytest.approx((1 / sure["speed"].high, 1 / sure["speed"].low))
    assert (one.cost_low, one.cost_high) == (sure["cost_a_year"].low, sure["cost_a_year"].high)
    assert (one.power, one.power_low, one.power_high) == (
        promised.site.total,
        sure["site_power"].low,
        sure["site_power"].high,
    )


def test_the_tornado_of_a_fleet_carries_the_same_load_in_each_scenario(promised):
    bars = {bar.name: bar for bar in promised.tornado}
    assert {"step", "capital", "utilisation", "pue"} <= set(bars)
    step, spread = bars["step"], PREDICTION_INTERVALS["serving: saturated, dense"]
    assert step.time == pytest.approx([promised.service.time_per_token * end for end in (spread.low, spread.high)])
    assert step.cost[1] / step.cost[0] == pytest.approx(spread.high / spread.low, rel=0.05)
    widths = [math.log(max(bar.cost) / min(bar.cost)) for bar in promised.tornado]
    assert widths == sorted(widths, reverse=True)


# --- Where there is no fleet -----------------------------------------------------------------------------------------


def test_a_first_token_that_no_replica_has_says_the_soonest():
    with pytest.raises(InfeasibleError, match="no replica has a first token within 1 µs") as refused:
        serve(replace(ASKED, first_token=1e-6), Site("H100 SXM"))
    soonest = refused.value.nearest["first_token"]
    assert adds_up(serve(replace(ASKED, first_token=soonest * 1.001), Site("H100 SXM"), draws=10))


def test_a_speed_that_no_replica_has_says_the_fastest():
    with pytest.raises(InfeasibleError, match=r"no replica gives each user 1e.06 tokens/s") as refused:
        serve(replace(ASKED, speed=1e6), Site("H100 SXM"))
    fastest = refused.value.nearest["speed"]
    assert adds_up(serve(replace(ASKED, speed=fastest * 0.999), Site("H100 SXM"), draws=10))


def test_a_fleet_beyond_a_limit_says_what_would_do():
    site = Site("H100 SXM", power=20e3)
    with pytest.raises(InfeasibleError, match="each of these alone would do: power") as refused:
        serve(ASKED, site)
    assert adds_up(serve(ASKED, replace(site, power=refused.value.nearest["power"] * 1.001), draws=10))


def test_a_model_that_no_replica_holds_is_refused():
    with pytest.raises(InfeasibleError, match="fits on no replica"):
        serve(Serving("MaxText 1024B", 1, 1000, 1e6), Site("A100 40GB", network="InfiniBand HDR"))


def test_what_an_accelerator_cannot_compute_is_no_question_of_room():
    """Only what does not fit is passed over; a format that the chip lacks is said."""
    with pytest.raises(ValueError, match="compute must be one of bf16, fp16, int8 on A100 80GB; got 'fp8'"):
        serve(ASKED, Site("A100 80GB"))


def test_racks_that_feed_no_server_say_what_would():
    with pytest.raises(InfeasibleError, match="rack_power 12 kW feeds no server; the nearest that does: 120 kW"):
        serve(ASKED, Site("GB200", rack_power=12e3))
