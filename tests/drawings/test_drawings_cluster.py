"""The drawings of the machine: a plan's numbers, and in the strip every chapter its place, which alone is lit."""

import itertools

import pytest

from building import ROOT, table_of_contents
from clusterlab.planning import preset
from clusterlab.units import hour
from drawings import cluster as draw
from explorable import Arrow, Box, Label

CHAPTERS = [
    "roofline", "interconnect", "ports", "fabrics", "contention", "sharding", "parallelism", "pipeline", "layouts",
    "mix", "step", "serving", "rack", "fleet", "post_training", "failures", "operations", "queue", "power", "scaling",
    "cost", "plan",
]  # fmt: skip
META = preset("Llama 3 405B").design
SCENES = {f"here {name}": draw.here(name) for name in CHAPTERS}
SCENES |= {f"round {step}": draw.pieces(step) for step in range(7)}
SCENES["cut"] = draw.cut(META.layout, 126, 2048)
SCENES |= {f"{gpus:,} GPUs": draw.machine(gpus) for gpus in draw.SIZES}


def lit(scene):
    """The levels whose name is strong, from left to right."""
    return [part.text for part in scene.parts if isinstance(part, Label) and part.strong]


@pytest.mark.parametrize("name", CHAPTERS)
def test_a_strip_shows_five_levels_and_lights_those_of_its_chapter(name):
    scene = draw.here(name)
    assert (scene.width, scene.height) == (400, 70)
    assert [part.text for part in scene.parts if isinstance(part, Label)] == ["GPU", "server", "rack", "fabric", "site"]
    assert lit(scene)
    assert scene.alt.endswith(f"Lit: {', '.join(lit(scene))}.")
    coloured = [part for part in scene.parts if isinstance(part, Box | Arrow) and part.kind != "ink"]
    edges = {"GPU": (0, 57), "server": (71, 160), "rack": (176, 201), "fabric": (215, 305), "site": (315, 400)}
    for part in coloured:
        x = part.x if isinstance(part, Box) else part.x0
        assert any(low <= x <= high for level, (low, high) in edges.items() if level in lit(scene)), part


def test_the_strips_light_what_their_chapters_are_about():
    assert lit(draw.here("roofline")) == ["GPU"]
    assert lit(draw.here("interconnect")) == lit(draw.here("parallelism")) == ["server", "fabric"]
    assert lit(draw.here("serving")) == ["server"]
    assert lit(draw.here("rack")) == ["rack"]
    assert lit(draw.here("fleet")) == ["fabric"]
    assert (
        lit(draw.here("failures"))
        == lit(draw.here("power"))
        == lit(draw.here("scaling"))
        == lit(draw.here("cost"))
        == ["site"]
    )
    assert len(lit(draw.here("plan"))) == 5
    broken = [part for part in draw.here("failures").parts if isinstance(part, Box) and part.kind == "red"]
    assert len(broken) == 1


def test_every_chapter_in_the_book_has_its_strip():
    with pytest.raises(ValueError, match="no chapter 'sheet'; there are: roofline"):
        draw.here("sheet")
    numbered = {file.rpartition("/")[2].removesuffix(".ipynb") for file in table_of_contents()} & set(CHAPTERS)
    assert numbered >= set(CHAPTERS) - {"step"}
    assert all((ROOT / "book" / f"{name}.ipynb").is_file() for name in numbered)


def test_the_machine_of_a_published_run_has_the_numbers_of_its_plan():
    made, size = preset("Llama 3 405B"), draw.size(16_384)
    one, done = made.design, made.outcome
    assert (size.servers, size.spares, size.racks) == (one.servers, one.spares, one.racks)
    assert (size.switches, size.tiers) == (one.fabric.switches, 3)
    assert size.power == pytest.approx(float(done.site.total))
    assert size.mtbf == pytest.approx(float(done.mtbf))
    assert size.lost[0] == pytest.approx(1 - float(done.run.goodput), abs=0.001)
    assert size.price[0] == pytest.approx(float(done.cost / done.time), rel=1e-3)
    for number, low, high in (size.lost, size.price):
        assert low < number < high


def test_every_picture_of_the_machine_has_as_many_parts_so_that_it_can_move():
    assert len({len(draw.machine(gpus).parts) for gpus in draw.SIZES}) == 1


@pytest.mark.parametrize("gpus", draw.SIZES)
def test_as_many_gpus_are_lit_as_there_are(gpus):
    """Each lit box stands for what it holds: a GPU, a server, a rack or a pod."""
    scene, level = draw.machine(gpus), draw.size(gpus).level
    boxes = [one for one in scene.parts if isinstance(one, Box) and one.y < 236]  # above the strip
    lit = [one for one in boxes if one.kind == "compute" and one.solid and one.width > 1]
    each = {"GPU": 1, "server": 1, "rack": 1, "fabric": 8, "site": 256 if gpus > 2048 else 32}[level]
    if level == "GPU":
        assert len(lit) == 132 + 1  # the cores, and what computes in the enlarged one
    else:
        assert len(lit) == -(-gpus // each)
    assert scene.alt


def test_more_gpus_never_draw_or_cost_less_and_fail_more_often():
    sizes = [draw.size(gpus) for gpus in draw.SIZES]
    for one, more in itertools.pairwise(sizes):
        assert more.power >= one.power
        assert more.price >= one.price
        assert more.mtbf < one.mtbf
        assert more.racks >= one.racks
    assert sizes[0].mtbf == pytest.approx(50_000 * hour)
    with pytest.raises(ValueError, match="from 1 to 100,000"):
        draw.machine(0)


def test_the_machine_leads_to_the_chapters_about_it():
    links = {part.link for scene in SCENES.values() for part in scene.parts if isinstance(part, Label) and part.link}
    assert len(links) == 9
    for link in links:
        assert (ROOT / "book" / link).is_file(), link


def test_in_a_ring_a_piece_moves_from_each_gpu_in_every_round_until_all_hold_the_sums():
    scenes = [draw.pieces(step) for step in range(7)]
    whole = [str(sum(column)) for column in zip(*draw.LISTS, strict=True)]
    for step, scene in enumerate(scenes):
        numbers = [part for part in scene.parts if isinstance(part, Box) and part.text]
        assert len(numbers) == 16
        assert sorted(part.key for part in numbers if part.key) == ["0", "1", "2", "3"]
        assert sum(part.solid for part in numbers) == max(0, 4 * (step - 2))
        assert all(part.text in whole for part in numbers if part.solid)
    with pytest.raises(ValueError, match="6"):
        draw.pieces(7)


def test_a_cut_draws_each_gpu_of_a_server_each_server_of_a_line_and_each_copy():
    scene, layout = SCENES["cut"], META.layout
    boxes = [part for part in scene.parts if isinstance(part, Box) and part.kind == "compute"]
    assert len(boxes) == layout.tp + layout.pp + layout.dp
    assert sum(one.solid for one in boxes) == layout.tp + 1 + 1  # of the line and of the copies, what is enlarged
    assert f"= {META.gpus:,.0f} GPUs" in scene.alt
