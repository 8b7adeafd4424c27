"""The drawing of the front page: five pictures, each a part of the next, and every number the plan's."""

import pytest
from room import crowded

from building import ROOT
from clusterlab import catalogue
from clusterlab.planning import Site, Training, plan
from clusterlab.units import fmt
from drawings import index as draw
from explorable import Arrow, Box, Label


@pytest.fixture(scope="module")
def made():
    return plan(Training("Llama 3.1 8B", 1e12, global_batch=512), Site("H100 SXM", gpus=1024), draws=2)


def test_every_text_has_its_room_and_every_number_is_the_plan_s(made):
    scene = draw.machine(made)
    assert crowded(scene) == []
    one, done, chip = made.design, made.outcome, catalogue.accelerator("H100 SXM")
    wanted = [fmt(chip.peak("bf16"), "FLOP/s"), fmt(chip.hbm_bandwidth, "B/s"), fmt(done.site.total, "W")]
    wanted += [f"{one.gpus:,.0f} GPUs", f"{one.fabric.switches:,.0f} switches", f"{one.racks:,.0f} racks"]
    wanted += [f"every {fmt(float(done.mtbf), 'h', 2)}", fmt(round(one.servers / one.racks) * one.server_power, "W")]
    for text in wanted:
        assert text in scene.alt


def test_the_lines_between_two_pictures_lead_to_a_part_of_the_lower_one(made):
    scene = draw.machine(made)
    corners = {(part.x + side * part.width, part.y) for part in scene.parts if isinstance(part, Box) for side in (0, 1)}
    lines = [part for part in scene.parts if isinstance(part, Arrow) and part.kind == "ink"]
    assert len(lines) == 2 * 4
    for line in lines:
        assert line.y1 > line.y0
        assert (line.x1, line.y1) in corners


def test_it_leads_to_every_chapter_of_a_part_of_the_machine(made):
    links = {part.link for part in draw.machine(made).parts if isinstance(part, Label) and part.link}
    assert len(links) == 8
    for link in links:
        assert (ROOT / "book" / link).is_file(), link
