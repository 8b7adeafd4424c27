"""Which run is taken: limits, the front, what binds, what matters most, and what is said where there is none."""

import math
from dataclasses import replace

import numpy as np
import pytest

from clusterlab.catalogue import PREDICTION_INTERVALS
from clusterlab.model import Layout
from clusterlab.planning import (
    CENTRAL,
    InfeasibleError,
    Site,
    Training,
    compare_plans,
    design,
    least_memory,
    outcome,
    plan,
    search_layouts,
    serve,
)
from clusterlab.planning.choice import candidates
from clusterlab.units import MW, day, fmt
from planned import ASKED, EIGHT, FEW, H100, LLAMA, adds_up

LLAMA_SMALL = replace(LLAMA, global_batch=1024)
PIECES = [  # of a sequence, in the best of all layouts
    ("Llama 3.1 8B", 512, 512, 1),
    ("Llama 3.1 70B", 8192, 1024, 2),
    ("Llama 3.1 405B", 32768, 1024, 4),
    ("Llama 3.1 405B", 65536, 1024, 8),
]


@pytest.fixture(scope="module")
def small():
    return plan(Training("Llama 3.1 8B", 1e12, global_batch=512), Site("H100 SXM", gpus=64))


@pytest.fixture(scope="module")
def table():
    """Every candidate for Llama 3.1 70B in sixty days, without any limit but that."""
    asked = Training("Llama 3.1 70B", 2e12, global_batch=512, deadline=60 * day)
    return asked, candidates(asked, Site("H100 SXM", layout=EIGHT), CENTRAL)


# --- How sure, and what matters most ---------------------------------------------------------------------------------


def test_an_interval_holds_its_value_and_a_certain_result_has_none(small):
    for one in small.intervals.values():
        assert one.low <= one.value <= one.high
    step_time = small.intervals["step_time"]
    low, high = small.design.step_ends
    assert step_time.low / step_time.value == pytest.approx(low, rel=0.02)
    assert step_time.high / step_time.value == pytest.approx(high, rel=0.02)


def test_a_plan_whose_software_is_named_is_surer(small):
    named = plan(small.training, replace(small.site, software="NeMo 25.04"), draws=10).design.step_ends
    usual = PREDICTION_INTERVALS["dense, 16 bits"]
    assert named == (usual.low, usual.high)
    low, high = small.design.step_ends
    assert high / low > 1.05 * named[1] / named[0]


def test_a_tornado_says_which_assumption_moves_the_cost_most(small):
    widths = []
    for bar in small.tornado:
        for end, cost, time in zip((bar.low, bar.high), bar.cost, bar.time, strict=True):
            done = outcome(small.design, replace(CENTRAL, **{bar.name: end}))
            assert (done.cost, done.time) == (pytest.approx(cost), pytest.approx(time))
        widths.append(abs(math.log(bar.cost[1] / bar.cost[0])))
    assert widths == sorted(widths, reverse=True)
    assert {bar.name for bar in small.tornado} >= {"capital", "life", "step", "pue", "energy_price"}


def test_moves_are_shares_of_the_plan_and_are_said_in_one_way(small):
    for of, centre in (("time", small.outcome.time), ("cost", small.outcome.cost)):
        bars = {bar.name: sorted(getattr(bar, of)) for bar in small.tornado}
        for one in small.moves(of):
            assert [one.less, one.more] == pytest.approx([end / centre - 1 for end in bars[one.name]])
    widths = [one.more - one.less for one in small.moves()]
    assert widths == sorted(widths, reverse=True)
    assert small.moves()[0].said == ("-14%", "+52%")
    _, *rows = small.tornado_table().rows
    told = {one.name: " to ".join(one.said) for one in small.moves() if one.said[0] != one.said[1]}
    assert {row[0].replace(" ", "_").lower() for row in rows} == {bar.name for bar in small.tornado}
    assert [row[-1] for row in rows if row[0] == "capital"] == [told["capital"]] == ["-14% to +52%"]
    assert [row[1:3] for row in rows if row[0] == "life"] == [("3 yr", "6 yr")]  # as the data prints them


# --- Choices ---------------------------------------------------------------------------------------------------------


def test_with_a_deadline_the_cheapest_is_taken_and_the_front_is_a_front(table):
    asked, all_of = table
    made = plan(asked, Site("H100 SXM", layout=EIGHT), draws=10)
    keeps = all_of.time <= asked.deadline
    assert made.outcome.cost == pytest.approx(np.min(all_of.cost[keeps]))
    points = np.array([(p.time, p.cost) for p in made.front])
    assert np.all(np.diff(points[:, 0]) > 0)
    assert np.all(np.diff(points[:, 1]) < 0)
    for time, cost in zip(all_of.time[keeps], all_of.cost[keeps], strict=True):  # nothing beats it
        assert not np.any((time < points[:, 0] * (1 - 1e-9)) & (cost < points[:, 1] * (1 - 1e-9)))
    assert made.considered == all_of.time.size


def test_without_a_deadline_the_fastest_within_the_limits_is_taken(table):
    asked, _ = table
    free = replace(asked, deadline=None)
    made = plan(free, Site("H100 SXM", power=2 * MW, layout=EIGHT), draws=10)
    assert made.outcome.site.total <= 2 * MW
    assert made.binding.name == "power"
    more = plan(free, Site("H100 SXM", power=4 * MW, layout=EIGHT), draws=10)
    assert more.outcome.time < made.outcome.time


def test_the_front_has_the_chosen_plan_with_its_intervals(small):
    (one,), sure = small.front, small.intervals
    assert (one.gpus, one.accelerator, one.racks) == (64, "H100 SXM", small.design.racks)
    for name, of in (("time", "time"), ("cost", "cost"), ("power", "site_power")):
        ends = [getattr(one, f"{name}{end}") for end in ("", "_low", "_high")]
        assert ends == pytest.approx([sure[of].value, sure[of].low, sure[of].high])
    assert [row[:2] for row in small.choices().rows[1:]] == [("H100 SXM", "64")]


# --- What binds ------------------------------------------------------------------------------------------------------


def test_a_little_more_of_a_limit_allows_the_plan_that_the_binding_names(table):
    """Planned again with so much more power or so many more racks; with a little less, it is the same plan."""
    asked, _ = table
    for name, limit in (("power", 2 * MW), ("racks", 30)):
        site = Site("H100 SXM", **{name: limit}, layout=EIGHT)
        made = plan(replace(asked, deadline=None), site, draws=10)
        one = made.binding
        assert (one.name, one.limit) == (name, limit)
        for less, changed in ((0, True), (1, False)):  # a watt, or a rack
            more = limit + one.unit + 1e-6 * (name == "power") - less
            again = plan(replace(asked, deadline=None), replace(site, **{name: more}), draws=10)
            added = again.design.gpus - made.design.gpus, again.outcome.time - made.outcome.time
            assert added == (pytest.approx((one.gpus, one.time)) if changed else (0, 0))
        assert one.time < 0 < one.gpus


def test_a_later_deadline_allows_the_cheaper_plan_that_the_binding_names(table):
    asked, _ = table
    due = replace(asked, deadline=asked.deadline / 2)
    made = plan(due, Site("H100 SXM", layout=EIGHT), draws=10)
    one = made.binding
    assert one.name == "deadline"
    later = plan(replace(due, deadline=due.deadline + one.unit), Site("H100 SXM", layout=EIGHT), draws=10)
    assert later.design.gpus - made.design.gpus == one.gpus
    assert later.outcome.cost - made.outcome.cost == pytest.approx(one.cost)
    assert one.cost < 0 < one.time


def test_a_larger_budget_allows_the_faster_plan_that_the_binding_names():
    run = Training("Llama 3.1 70B", 2e12, global_batch=512)
    free = Site("H100 SXM", layout=EIGHT)
    all_of = candidates(run, replace(free, budget=1e9), CENTRAL)
    least, fastest = np.min(all_of.cost), all_of.cost[np.argmin(all_of.time)]
    made = plan(run, replace(free, budget=math.sqrt(least * fastest)), draws=10)
    one = made.binding
    richer = plan(run, replace(free, budget=made.site.budget + one.unit), draws=10)
    assert one.name == "budget"
    assert richer.outcome.time - made.outcome.time == pytest.approx(one.time)
    assert richer.outcome.cost - made.outcome.cost == pytest.approx(one.cost)
    assert one.time < 0 < one.gpus


def test_one_more_server_is_planned_and_saves_no_more_than_there_is():
    """A slope said that eight more GPUs beside eight save 365 days of 361."""
    run = Training("Llama 3.1 8B", 2e12, global_batch=512)
    made, twice = (plan(run, Site("H100 SXM", gpus=n), draws=10) for n in (8, 16))
    one = made.binding
    assert (one.name, one.limit, one.unit, one.gpus) == ("gpus", 8, 8, 8)
    assert one.time == pytest.approx(twice.outcome.time - made.outcome.time)
    assert one.cost == pytest.approx(twice.outcome.cost - made.outcome.cost)
    assert 0.45 < -one.time / made.outcome.time < 0.55


def test_where_the_batch_is_shared_out_more_accelerators_are_slower():
    """With finer cuts a step still gets shorter; twice the failures take more than that."""
    made = plan(LLAMA_SMALL, Site("H100 SXM", gpus=65536), draws=10)
    assert made.binding.time > 0
    more = plan(LLAMA_SMALL, Site("H100 SXM", gpus=int(65536 + made.binding.gpus)), draws=10)
    assert more.outcome.time - made.outcome.time == pytest.approx(made.binding.time)


@pytest.mark.parametrize(("model", "gpus", "batch", "pieces"), PIECES)
def test_no_cut_of_a_sequence_that_the_search_leaves_out_is_faster(model, gpus, batch, pieces):
    """As many pieces as there are accelerators for a sequence lose nothing against every number up to sixteen."""
    run, site = Training(model, 1e12, global_batch=batch), Site("H100 SXM", gpus=gpus)
    found = search_layouts(run, site)
    each = [search_layouts(run, replace(site, layout={"cp": c})).step.time for c in (1, 2, 4, 8, 16)]
    assert found.best().cp == pieces
    assert np.min(found.step.time) == min(np.min(times) for times in each if times.size)


def test_what_binds_is_said_in_words(table):
    asked, _ = table
    made = plan(replace(asked, deadline=None), Site("H100 SXM", power=2 * MW, layout=EIGHT), draws=10)
    one = made.binding
    assert one.sentence.startswith(
        f"power binds; {fmt(one.unit, 'W')} more of it would change: {one.gpus:+,.0f} GPUs, -"
    )
    assert replace(one, unit=0).sentence == "power binds; no plan beyond it would be better"


# --- Where there is no plan ------------------------------------------------------------------------------------------


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
                assert adds_up(plan(one, other, draws=10))
            else:
                with pytest.raises(InfeasibleError):
                    plan(one, other, draws=10)


def test_what_does_not_fit_says_how_many_gpus_would_do():
    with pytest.raises(InfeasibleError, match=r"Llama 3.1 405B on 8 H100 SXM fits .* gpus 128") as refused:
        plan(LLAMA, Site("H100 SXM", gpus=8))
    assert adds_up(plan(LLAMA, Site("H100 SXM", gpus=refused.value.nearest["gpus"]), draws=10))


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
        plan(LLAMA, Site("H100 SXM", gpus=16384, layout=EIGHT), scenario=replace(CENTRAL, gpu_mttf=10))
    with pytest.raises(InfeasibleError, match="gpu_mttf or storage_bandwidth must be larger"):
        plan(LLAMA, Site("H100 SXM", gpus=16384, layout=EIGHT, storage_bandwidth=1))


def test_a_deadline_that_nothing_keeps_says_one_that_something_does():
    run, site = Training("Llama 3.1 8B", 1e12, global_batch=512, deadline=1), Site("H100 SXM", layout=FEW)
    with pytest.raises(InfeasibleError, match="no plan keeps within deadline 1 s") as refused:
        plan(run, site)
    again = replace(run, deadline=refused.value.nearest["deadline"] * 1.001)
    assert adds_up(plan(again, site, draws=10))


def test_of_a_number_that_does_not_divide_the_nearest_is_said_on_either_side():
    with pytest.raises(InfeasibleError, match="the nearest that does: gpus") as refused:
        plan(Training("Llama 3.1 8B", 1e12, global_batch=512), Site("H100 SXM", gpus=1_000_001, layout=FEW))
    assert refused.value.nearest["gpus"] == 512


def test_a_fixed_layout_is_kept_and_one_that_cannot_be_is_refused():
    made = plan(
        LLAMA, Site("H100 SXM", gpus=16384, layout={"tp": 8, "pp": 8, "zero": 1, "recompute": "full"}), draws=10
    )
    assert (made.design.layout.tp, made.design.layout.pp, made.design.layout.zero) == (8, 8, 1)
    with pytest.raises(InfeasibleError, match="with tp 7 fixed"):
        plan(LLAMA, Site("H100 SXM", gpus=16384, layout={"tp": 7}), draws=10)


@pytest.mark.parametrize(
    ("site", "why"),
    [
        (Site(), "give at least one of gpus, deadline, budget, power and racks"),
        (Site("MI300X", budget=1e9), "budget needs a rent"),
    ],
)
def test_a_site_without_a_limit_or_a_price_for_it_is_refused(site, why):
    with pytest.raises(ValueError, match=why):
        plan(LLAMA, site)


def test_the_leanest_layout_is_what_a_search_finds_and_infinite_where_nothing_divides():
    run = Training("Llama 3.1 8B", 1e12, global_batch=512)
    site = Site("H100 SXM", gpus=64, layout=FEW | {"recompute": "none"})
    made = plan(run, site, draws=2)
    assert least_memory(run, site) == pytest.approx(float(made.design.memory))  # there is one layout alone
    assert least_memory(run, replace(site, gpus=7)) == np.inf
    with pytest.raises(ValueError, match="accelerator and gpus must be given"):
        least_memory(run, Site("H100 SXM"))


def test_a_plan_that_does_not_fit_says_by_how_much():
    run = Training("Llama 3.1 405B", 15e12, global_batch=512)
    least = fmt(least_memory(run, Site("H100 SXM", gpus=32)), "B")
    with pytest.raises(
        InfeasibleError, match=f"the nearest needs {least} of 72 GB: tp 8, .*the nearest that does: gpus"
    ):
        plan(run, Site("H100 SXM", gpus=32))
    fixed = Site("H100 SXM", gpus=32, layout={"tp": 1, "pp": 1, "cp": 1, "zero": 1})
    why = "fits with tp 1, pp 1, cp 1, zero 1 fixed: the nearest needs [0-9.]+ TB of 72 GB: .*; leave some of them free"
    with pytest.raises(InfeasibleError, match=why):
        plan(run, fixed)


def test_progress_is_told_and_only_rises():
    told = []
    site = Site(layout=FEW)
    plan(Training("Llama 3.1 8B", 1e12, deadline=20 * day), site, draws=10, progress=lambda *said: told.append(said[0]))
    assert told == sorted(told)
    assert 0 <= told[0] < told[-1] < 1


def test_plans_stand_side_by_side_with_their_intervals(small):
    heading, row = compare_plans({"small": small}, "gpus", "time").rows
    assert heading == ("", "GPUs", "time")
    assert row == ("small", "64", small.intervals["time"].with_interval)
    assert small.intervals["time"].low < small.intervals["time"].high
    with pytest.raises(ValueError, match="unknown result 'luck'"):
        compare_plans({"small": small}, "luck")
