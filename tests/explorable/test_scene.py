"""Scene: boxes, arrows, labels and bands become the markup that they say, stay inside, and nonsense is refused."""

import math
import re
import xml.etree.ElementTree as ET
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from explorable import Arrow, Band, Box, Label, Scene, grid, legend, scene
from refusals import unreached

place = st.floats(0, 400).map(lambda v: round(v, 1))
ends = st.tuples(place, place, place, place)


def points(path):
    """The places that a path goes through, control points included."""
    return np.array([float(v) for v in re.findall(r"-?[\d.]+", path)]).reshape(-1, 2)


@given(ends, st.floats(-0.5, 0.5), st.integers(0, 2))
def test_an_arrow_starts_and_ends_where_it_was_told_and_bows_by_its_bend(places, bend, heads):
    start, end = np.array(places[:2]), np.array(places[2:])
    length = np.hypot(*(end - start))
    assume(length > 20)
    paths = [path.get("d") for path in ET.fromstring(Arrow(*places, bend=bend, heads=heads).svg()).iter("path")]
    assert len(paths) == 1 + heads
    line, tips = points(paths[0]), [points(path)[0] for path in paths[1:]]
    first = tips[0] if heads == 2 else line[0]
    last = tips[-1] if heads else line[-1]
    np.testing.assert_allclose([first, last], [start, end], atol=0.06)
    if bend:
        # A quadratic curve passes halfway between its control point and the middle of its ends.
        across, down = (end - start) / length
        halfway = ((start + end) / 2 + line[1]) / 2
        sagitta = np.dot(halfway - (start + end) / 2, [down, -across])
        assert sagitta == pytest.approx(bend * length, abs=0.1)
        assert Arrow(*places, bend=bend).reach()[2] == pytest.approx(tuple(halfway), abs=0.1)
    else:
        assert Arrow(*places).reach()[2] == pytest.approx(tuple((start + end) / 2), abs=0.1)


def test_a_line_ends_at_the_back_of_its_heads():
    paths = [points(path.get("d")) for path in ET.fromstring(Arrow(0, 10, 100, 10, heads=2).svg()).iter("path")]
    assert paths[0].tolist() == [[7, 10], [93, 10]]
    assert paths[1].tolist() == [[0, 10], [7, 6.8], [7, 13.2]]
    assert paths[2].tolist() == [[100, 10], [93, 13.2], [93, 6.8]]


@given(place, place, st.floats(1, 100), st.floats(1, 100), st.lists(st.text("abc", min_size=1), min_size=1, max_size=4))
def test_the_lines_of_a_box_stand_around_its_middle(x, y, width, height, lines):
    group = ET.fromstring(Box(x, y, width, height, "\n".join(lines)).svg())
    texts = group.findall("text")
    assert [text.text for text in texts] == lines
    assert all(float(text.get("x")) == pytest.approx(width / 2, abs=0.06) for text in texts)
    heights = [float(text.get("y")) for text in texts]
    assert np.mean(heights) - 0.35 * 13 == pytest.approx(height / 2, abs=0.1)
    assert np.diff(heights) == pytest.approx([16] * (len(lines) - 1), abs=0.11)


def test_a_box_with_a_key_carries_its_place_where_a_script_can_move_it():
    still, moving = Box(5, 7, 20, 20), Box(5, 7, 20, 20, key="chunk 0")
    assert 'transform="translate(5 7)"' in still.svg()
    assert 'data-key="chunk 0" style="transform:translate(5px,7px)"' in moving.svg()


def test_text_is_text_and_never_markup():
    nasty = "</text><b onclick='x'>\"R&D\"</b>"
    for part in (Box(0, 0, 9, 9, nasty, key=nasty), Arrow(0, 0, 9, 9, nasty), Label(0, 0, nasty)):
        group = ET.fromstring(part.svg())
        assert [text.text for text in group.iter("text")] == [nasty]
        assert {node.tag for node in group.iter()} <= {"g", "rect", "path", "text"}


def test_what_has_a_link_leads_to_a_page_of_the_book_and_else_looks_the_same():
    for part in (Box(1, 2, 30, 20, "days", key="a"), Label(3, 4, "Power")):
        linked = replace(part, link="reference/power.md#clusterlab.power.pue").svg()
        assert linked == f'<a href="reference/power.md#clusterlab.power.pue">{part.svg()}</a>'
        assert ET.fromstring(linked).tag == "a"


def test_a_link_of_several_lines_is_told_in_words():
    lines = ET.fromstring(Box(0, 0, 90, 40, '80 d\n92% "useful"', link="power.ipynb").svg())
    assert lines.get("aria-label") == '80 d 92% "useful"'
    assert ET.fromstring(Label(0, 0, "Power", link="power.ipynb").svg()).get("aria-label") is None


@pytest.mark.parametrize("link", ["https://a.org/b.md", "javascript:alert(1)", "/a.md", "../a.md", "a.md#x y", "power"])
def test_a_link_stays_in_the_book(link):
    with pytest.raises(ValueError, match=re.escape("a link is a page of the book, such as 'power.ipynb#cooling', got")):
        Label(0, 0, "Power", link=link)


HALF = [Box(0, 0, 9, 9)]
REFUSALS = {
    "no colour means 'memori'; did you mean 'memory'?": lambda: Box(0, 0, 1, 1, kind="memori"),
    "no colour means 'link'": lambda: Arrow(0, 0, 1, 1, kind="link"),
    "places and sizes are finite numbers, got Box(x=nan": lambda: Box(math.nan, 0, 1, 1),
    "places and sizes are finite numbers, got Label(x='left'": lambda: Label("left", 0, "a"),
    "places and sizes are finite numbers, got Arrow(x0=0, y0=0, x1=inf": lambda: Arrow(0, 0, math.inf, 1),
    "a box needs a width and a height above zero": lambda: Box(0, 0, 0, 1),
    "an arrow needs two different places": lambda: Arrow(1, 2, 1, 2),
    "an arrow has 0, 1 or 2 heads, got 3": lambda: Arrow(0, 0, 1, 1, heads=3),
    "a label needs a text": lambda: Label(0, 0, ""),
    "the anchor of a label is 'start', 'middle' or 'end', got 'left'": lambda: Label(0, 0, "a", anchor="left"),
    "at most 400 units wide, or its text is too small on a phone; got 401 x 10": lambda: Scene(401, 10, HALF, alt="a"),
    "at most 400 units wide, or its text is too small on a phone; got 10 x 0": lambda: Scene(10, 0, HALF, alt="a"),
    "a scene needs an alt, which says in words what it shows": lambda: Scene(10, 10, HALF, alt=" "),
    "a scene is made of boxes, arrows, labels and bands, got 'box'": lambda: Scene(10, 10, ["box"], alt="a"),
    "this part reaches out of the scene of 8 x 10: Box(x=0": lambda: Scene(8, 10, HALF, alt="a"),
    "this part reaches out of the scene of 10 x 10: Arrow(x0=0, y0=0, x1=10, y1=0": lambda: Scene(
        10, 10, [Arrow(0, 0, 10, 0, bend=0.5)], alt="a"
    ),
    "a link is a page of the book, such as 'power.ipynb#cooling', got 'power'": lambda: Box(0, 0, 1, 1, link="power"),
    "a band leads to the right and has widths above zero, got Band(x0=9": lambda: Band(9, 0, 9, 0, 1, 1),
    "a grid needs rows of one length, got [['a'], ['b', 'c']]": lambda: grid(0, 0, 9, 9, [["a"], ["b", "c"]]),
    "two boxes of a scene have the key 'a'": lambda: Scene(9, 9, [Box(0, 0, 1, 1, key="a")] * 2, alt="a"),
}


@pytest.mark.parametrize("message", REFUSALS)
def test_what_makes_no_sense_is_refused_by_name(message):
    with pytest.raises(ValueError, match=re.escape(message)):
        REFUSALS[message]()


def test_every_refusal_of_the_source_is_reached_by_one_of_these():
    assert unreached(scene, REFUSALS) == set()


# --- parts that belong together --------------------------------------------------------------------------------------


def test_a_grid_fills_its_room_with_boxes_of_one_size():
    boxes = grid(10, 20, 100, 50, [["a", "b", "c"], ["d", "e", "f"]], kind="weights", solid=[(1, 2)], gap=4)
    assert [box.text for box in boxes] == list("abcdef")
    assert [box.solid for box in boxes] == [False] * 5 + [True]
    assert {(round(box.width, 9), box.height) for box in boxes} == {(round(92 / 3, 9), 23.0)}
    assert (boxes[-1].x + boxes[-1].width, boxes[-1].y + boxes[-1].height) == (pytest.approx(110), pytest.approx(70))


def test_a_legend_stands_in_a_row_without_overlap():
    parts = legend(4, 10, [("weights", "weights", False), ("on the wire", "wire", True)])
    first, text, second, _ = parts
    assert (first.kind, first.solid, second.kind, second.solid) == ("weights", False, "wire", True)
    assert first.x + first.width < text.x < second.x
