"""Drawings of a plan: every number is the plan's, every text has its room."""

from dataclasses import replace
from importlib import import_module

import pytest
from room import crowded

from clusterlab.parallelism import footprint
from clusterlab.planning import InfeasibleError, Serving, Site, Training, least_memory, plan, preset, serve
from clusterlab.records import words
from clusterlab.units import fmt
from drawings import plan as draw
from explorable import Arrow, Box, Label

ROOM = {"box": 7.0, "edge": 6.4}  # the widths of a letter that they were laid out for
FEW = {"tp": 1, "pp": 1, "cp": 1, "zero": 3}


@pytest.fixture(scope="module")
def plans():
    small = Training("Llama 3.1 8B", 1e12, global_batch=512)
    return {
        "small": plan(small, Site("H100 SXM", gpus=64, layout=FEW), draws=10),
        "one rack": plan(small, Site("GB200", gpus=64, layout=FEW), draws=10),
        "rented": plan(small, Site("H100 SXM", gpus=64, layout=FEW, rent=2 / 3600), draws=10),
        "without a price": plan(small, Site("MI300X", gpus=64, layout=FEW), draws=10),
        **{name: preset(name, draws=10) for name in ("Llama 3 405B", "TPU v5p, 8,960", "220,000 GPUs")},
    }


NAMES = ["small", "one rack", "rented", "without a price", "Llama 3 405B", "TPU v5p, 8,960", "220,000 GPUs"]


@pytest.mark.parametrize("name", NAMES)
def test_every_text_of_a_chain_has_its_room(name, plans):
    assert crowded(draw.chain(plans[name]), **ROOM) == []


@pytest.mark.parametrize("name", NAMES)
def test_a_chain_holds_the_numbers_of_its_plan(name, plans):
    made = plans[name]
    texts = " ".join(part.text for part in draw.chain(made).parts if hasattr(part, "text"))
    one, done = made.design, made.outcome
    wanted = [fmt(float(done.time), "s"), f"{one.gpus:,.0f}", f"{one.fabric.cables:,.0f} cables"]
    wanted += [fmt(float(done.site.total), "W"), fmt(float(done.energy.energy), "MWh"), f"{one.hosts:,.0f} GPUs"]
    wanted += [fmt(float(one.checkpoint.size), "B"), f"{one.spares:,.0f} spare", fmt(float(one.step.time), "s")]
    wanted += [fmt(float(done.cost), "$")] if done.bill is not None else ["no price known"]
    for text in wanted:
        assert text in texts
    assert ("to build" in texts) == (done.capital is not None)


def test_an_arrow_leads_from_each_law_to_the_next(plans):
    scene = draw.chain(plans["small"])
    down = [part for part in scene.parts if isinstance(part, Arrow) and part.heads]
    spine = [part for part in scene.parts if isinstance(part, Box) and part.x == 0]
    assert len(down) == len(spine) - 1
    for arrow, above, below in zip(down, spine, spine[1:], strict=False):
        assert above.y + above.height < arrow.y0 < arrow.y1 < below.y


def test_flops_have_a_power_of_a_thousand():
    assert draw._flops(4.0957e25) == "41 x 10²⁴ FLOP"
    assert draw._flops(999e21) == "999 x 10²¹ FLOP"


@pytest.fixture(scope="module")
def fleets():
    asked = {"rate": 1000, "prompt": 1000, "output": 300, "precision": "fp8"}
    names = ("H100 SXM", "GB200", "MI300X")
    return {name: serve(Serving("Llama 3.1 8B", **asked), Site(name), draws=2) for name in names}


def texts(scene):
    return " | ".join(part.text.replace("\n", " ") for part in scene.parts if isinstance(part, Box))


@pytest.mark.parametrize("name", ["small", "one rack", "without a price"])
def test_an_answer_holds_the_numbers_of_its_plan_and_of_its_fleet(name, plans, fleets):
    made = plans[name]
    one, done, fleet = made.design, made.outcome, fleets[made.design.accelerator]
    scene = draw.answer(made.training, made.site, made, fleet)
    assert crowded(scene, **ROOM) == []
    said = texts(scene)
    wanted = [
        f"{fmt(float(one.step.time), 's')} a step",
        f"{one.fabric.switches:,.0f} switches",
        "64 " + one.accelerator,
    ]
    wanted += [fmt(float(done.time), "d"), fmt(float(done.site.total), "W"), fmt(float(done.energy.energy), "MWh")]
    held = footprint(made.training.model, made.training.workload, one.layout).total
    wanted += [f"fits: {fmt(float(held), 'B').removesuffix(' GB')} of"]
    wanted += [f"users at {fmt(float(fleet.service.speed), 'tokens/s')}"]
    for sure in (made.intervals, fleet.intervals):
        shown = {"step_time", "mean_power", "energy", "capital", "cost", "speed", "cost_of_a_million_tokens"} & {*sure}
        shown -= {"mean_power", "capital"} if sure is fleet.intervals else set()
        wanted += [sure[key].with_interval.split(" (")[1].removesuffix(")") for key in shown]
    if name == "without a price":
        assert said.count("no price on record") == 3
    else:
        wanted += [fmt(float(done.cost), "$"), fmt(1e6 * float(fleet.token_cost), "$") + " a million tokens"]
    for text in wanted:
        assert text in said
    assert scene.alt.startswith(f"Llama 3.1 8B on 64 {one.accelerator} fits, and trains on 1T tokens in ")


def test_an_answer_counts_the_users_of_the_replicas_that_stand_in_the_cluster(plans, fleets):
    made, fleet = plans["small"], fleets["H100 SXM"]
    users = 64 // fleet.service.gpus * fleet.service.sequences * fleet.busy
    assert f"{float(f'{users:.3g}'):,.0f} users" in texts(draw.answer(made.training, made.site, made, fleet))
    one = replace(made.site, gpus=1)
    big = replace(fleet, service=replace(fleet.service, gpus=16.0))
    assert "a replica needs 16 of them" in texts(draw.answer(made.training, one, made, big))


def test_an_answer_says_by_how_much_a_model_does_not_fit_and_which_number_would_do(fleets):
    run, site = Training("Llama 3.1 405B", 15.6e12), Site("H100 SXM", gpus=64)
    with pytest.raises(InfeasibleError) as refused:
        plan(run, site, draws=2)
    scene = draw.answer(run, site, refused.value, fleets["H100 SXM"])
    assert crowded(scene, **ROOM) == []
    need = fmt(least_memory(run, site), "B")
    assert f"64 H100 SXM {need} of 80 GB" in texts(scene)
    assert f"does not fit: {need} a GPU, of 72 GB to use. The nearest number that does is 128." in scene.alt
    assert "users" in texts(scene)  # it can be served all the same
    odd = replace(site, gpus=1_000_001)
    scene = draw.answer(run, odd, InfeasibleError("", {"gpus": 1024}), InfeasibleError("too slow"))
    assert "no equal parts" in texts(scene)
    assert "no replica is fast enough" in texts(scene)


def test_an_answer_of_every_state_is_of_one_size_and_leads_to_its_laws(plans, fleets):
    run, site = Training("Llama 3.1 405B", 15.6e12), Site("H100 SXM", gpus=64)
    scenes = [draw.answer(run, site, InfeasibleError("", {"gpus": 128}), fleets["H100 SXM"])]
    scenes += [draw.answer(p.training, p.site, p, fleets["H100 SXM"]) for p in (plans["small"], plans["rented"])]
    assert len({(scene.width, scene.height) for scene in scenes}) == 1
    links = [[part.link for part in scene.parts if getattr(part, "link", "")] for scene in scenes]
    assert links[1] == links[2]
    assert len(links[1]) == 14 + 6
    assert set(links[0]) < set(links[1])
    assert len(links[0]) == 4 + 6  # what has no number has no law
    for link in links[1]:
        page, _, name = link.partition("#")
        if name:  # a law: it is there under that name
            module, _, law = name.rpartition(".")
            assert page == f"reference/{module.removeprefix('clusterlab.')}.md"
            assert hasattr(import_module(module), law), link
    assert "rented" in texts(scenes[2])


@pytest.mark.parametrize(("seconds", "text"), [(59, "59 s"), (3700, "1.03 h"), (40 * 3600, "1.67 d"), (7e7, "2.22 yr")])
def test_a_time_is_said_in_the_unit_that_people_use(seconds, text):
    assert draw._days(seconds) == text


@pytest.mark.parametrize("name", [name for name in NAMES if name != "without a price"])
def test_a_tornado_is_to_scale_and_its_widest_bar_is_first(name, plans):
    made = plans[name]
    scene = draw.tornado(made)
    assert crowded(scene, **ROOM) == []
    bars = [part for part in scene.parts if isinstance(part, Box)]
    widths = [bar.width for bar in bars]
    assert widths == sorted(widths, reverse=True)
    first = made.tornado[0]
    spans = {words(bar.name): abs(bar.cost[1] - bar.cost[0]) for bar in made.tornado}
    named = [part.text for part in scene.parts if isinstance(part, Label) and part.x == 0]
    assert named[0] == max(spans, key=spans.get)
    assert widths[1] / widths[0] == pytest.approx(spans[named[1]] / spans[named[0]], rel=1e-6) or widths[1] == 1
    assert words(first.name) in scene.alt


def test_a_tornado_of_time_needs_no_price(plans):
    made = plans["without a price"]
    assert crowded(draw.tornado(made, of="time"), **ROOM) == []
    with pytest.raises(ValueError, match="has no price"):
        draw.tornado(made)
    with pytest.raises(ValueError, match="of must be 'cost' or 'time', got 'carbon'"):
        draw.tornado(made, of="carbon")
