"""Drawings of a plan: every number is the plan's, every text has its room."""

import pytest
from room import crowded

from clusterlab.planning import Site, Training, plan, preset
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
