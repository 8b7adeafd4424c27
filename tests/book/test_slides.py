"""Slides: every figure and check of a chapter, each process step by step, in a file that asks for nothing else."""

import re

import nbformat
import pytest
from course import slides
from course.problems import SETS

from building import ROOT
from explorable import Axis, Box, Check, Explorer, Picture, Predict, Question, Scene, Slider

CHAPTER = [
    "# Rings <&>\n\n:::{admonition} The question\n:class: tip\n"
    "What does a {term}`ring <ring>` cost? **Say it.**\n\n*You need* it.\n:::",
    "import numpy as np\n"
    "from explorable.check import Check\n"
    "from explorable.explorer import Explorer, Picture, Play\n"
    "from explorable.question import Question\n"
    "from explorable.scene import Box, Scene",
    "## A ring\n\nIt turns.",
    "Explorer(lambda shown: Picture(scene=Scene(100, 40, [Box(0, 0, 90, 24, f'step {shown}')], f'step {shown}')),\n"
    "         controls={'shown': Play('Step', range(3), start=1)}, title='Round and round')",
    "*It ends where it began.*\n\nMore.",
    "## Exercises\n\nOne.",
    "Check(Question('How long?', 2.0, 's'))",
]


@pytest.fixture(scope="module")
def chapter(tmp_path_factory):
    """A small chapter, run in a kernel of its own, as its page."""
    path = tmp_path_factory.mktemp("slides") / "rings.ipynb"
    new = nbformat.v4.new_markdown_cell, nbformat.v4.new_code_cell
    cells = [new[not text.startswith(("#", "*"))](text) for text in CHAPTER]
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": kernel}), path)
    return slides.slides_of(path)


def test_a_chapter_becomes_its_question_and_its_drawings_with_their_captions(chapter):
    title, made = chapter
    assert title == "Rings <&>"
    assert [one["title"] for one in made] == [title, "Round and round"], "exercises stay in the book"
    assert "What does a ring cost? <b>Say it.</b>" in made[0]["frames"][0]
    assert (made[1]["section"], made[1]["caption"]) == ("A ring", "It ends where it began.")


def test_a_process_has_a_frame_for_each_step(chapter):
    frames = chapter[1][1]["frames"]
    assert [re.search(r'aria-label="(step \d)"', frame)[1] for frame in frames] == ["step 0", "step 1", "step 2"]


def test_the_file_holds_all_that_it_shows(chapter):
    page = slides.page(*chapter)
    assert page.count("<section") == 2
    assert "<title>Rings &lt;&amp;&gt;</title>" in page
    assert not re.search(r"""(src|href)=|url\(|https?://|@import""", page)


def test_a_prediction_and_a_check_ask_before_they_tell():
    first = Explorer.__init__, Check.__init__
    with slides.noted() as made:
        Explorer(
            lambda n: Picture(curves={"line": [n, 2 * n]}, readouts={"At 2": str(2 * n)}),
            controls={"n": Slider("N", [1, 2])},
            x=Axis("x", values=[1, 2]),
            y=Axis("y"),
            title="Straight",
            predict=Predict("It doubles.", "And then?", {"2": "No.", "4": "Yes."}, right="4", hides=["line"]),
        )
        Check(Question("How long?", 2.0, "s", way="Count."))
        Explorer(lambda: Picture(scene=Scene(100, 40, [Box(0, 0, 90, 24, "one")], "one")), title="Drawn")
    assert (Explorer.__init__, Check.__init__) == first
    predicted, asked, drawn = (one["frames"] for one in made)
    assert "And then?" in predicted[0]
    assert "<li>4</li>" in predicted[0]
    assert "<svg" not in predicted[0]
    assert "cl-answer" not in predicted[1]
    assert "2 s" not in asked[0]
    assert "2 s" in asked[1]
    assert "Count." in asked[1]
    assert len(drawn) == 1


def test_every_chapter_with_a_set_has_slides_and_a_wrong_name_is_said(capsys):
    second = {"contention", "sharding", "step", "rack", "fleet", "post_training", "on_call", "cost"}
    assert set(slides.CHAPTERS) == set(SETS) - {"capstone"} | second
    assert all((ROOT / "book" / f"{name}.ipynb").exists() for name in slides.CHAPTERS)
    assert slides.main(["rooflines"]) == 2
    assert "no chapter 'rooflines'" in capsys.readouterr().err
