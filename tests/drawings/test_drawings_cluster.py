"""The drawings of the machine: every chapter has its place in the strip, and only that place is lit."""

import pytest

from building import ROOT, table_of_contents
from drawings import cluster as draw
from explorable import Arrow, Box, Label

CHAPTERS = [
    "roofline", "interconnect", "parallelism", "step", "serving", "failures", "operations", "power", "scaling", "plan",
]  # fmt: skip
SCENES = {f"here {name}": draw.here(name) for name in CHAPTERS}


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
    assert lit(draw.here("serving")) == ["rack"]
    assert lit(draw.here("failures")) == lit(draw.here("power")) == lit(draw.here("scaling")) == ["site"]
    assert len(lit(draw.here("plan"))) == 5
    broken = [part for part in draw.here("failures").parts if isinstance(part, Box) and part.kind == "red"]
    assert len(broken) == 1


def test_every_chapter_in_the_book_has_its_strip():
    with pytest.raises(ValueError, match="no chapter 'sheet'; there are: roofline"):
        draw.here("sheet")
    numbered = {file.rpartition("/")[2].removesuffix(".ipynb") for file in table_of_contents()} & set(CHAPTERS)
    assert numbered >= set(CHAPTERS) - {"step"}
    assert all((ROOT / "book" / f"{name}.ipynb").is_file() for name in numbered)
