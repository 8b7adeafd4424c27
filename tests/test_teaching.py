"""The pages for teachers and new colleagues hold what the library says."""

import math
import re

import nbformat
import pytest
from course.problems import SETS

from clusterlab import collectives, hardware, roofline, speedup, topology
from conftest import ROOT

TEACHING = (ROOT / "book" / "teaching.md").read_text()


def test_the_numbers_that_the_plan_tells_are_the_laws():
    h100 = hardware.accelerator("H100 SXM")
    assert f"it's {roofline.ridge_point(h100.peak('bf16'), h100.hbm_bandwidth):.0f}" in TEACHING
    assert f"it's {speedup.amdahl_speedup(0.01, 1024):.0f}" in TEACHING
    sent = [collectives.ring_all_reduce(1.0, n, bandwidth=1, latency=0).time for n in (8, 8000)]
    assert round(sent[1] / sent[0] - 1, 2) == round(1 / 7, 2)
    ratios = [speedup.tensor_parallel_ratio(8, 8192, rate=989e12 / 2, bandwidth=b) for b in (450e9, 50e9)]
    assert (1 + ratios[1]) / (1 + ratios[0]) > 2
    assert topology.fat_tree_capacity(64, tiers=3) >= 8192
    assert f"it's {2048 * (1 - 1 / 1.12):.0f}." in TEACHING
    assert f"it's {math.exp(math.hypot(math.log(1.3), math.log(1.3))) - 1:.0%}".replace("%", " %") in TEACHING
    assert f"{1.3**2 - 1:.0%}".replace("%", " %") in TEACHING


def test_every_set_has_its_week_and_every_session_its_parts():
    ten = TEACHING.split("## Ten weeks")[1].split("## Five weeks")[0]
    assert [name for name in SETS if not re.search(rf"\| {name} \|", ten)] == []
    sessions = re.split(r"\n### \d+\. ", TEACHING.split("## The sessions")[1].split("## Second sessions")[0])[1:]
    assert len(sessions) == 10
    for session in sessions[:-1]:
        for part in ("*Figure:*", "*Prediction:*", "*Exercise:*", "*Wrong", "*Cut:*"):
            assert part in session
    minutes = re.findall(r"^\| (\d+) \| ", TEACHING.split("## The sessions")[1].split("### 1.")[0], re.MULTILINE)
    assert sum(map(int, minutes)) == 90


CHAPTERS = [name for name in SETS if name != "capstone"]


def cells_of(name):
    return nbformat.read(ROOT / "book" / f"{name}.ipynb", 4).cells


@pytest.fixture(scope="module")
def reading():
    """Of each chapter, and of each of its sections, the minutes: shares of what the chapter states, by words."""
    minutes = {}
    for name in CHAPTERS:
        cells = cells_of(name)
        text = "\n".join(cell.source for cell in cells if cell.cell_type == "markdown").partition("\n## Exercises")[0]
        stated = float(re.search(r"\*Time:\* about (\d+) minutes", text)[1])
        words = len(re.findall(r"\w+", text))
        for part in re.split(r"\n(?=## )", text)[1:]:
            heading = re.match(r"## (.*)", part)[1]
            minutes[name, heading] = stated * len(re.findall(r"\w+", part)) / words
        minutes[name, ""] = stated
    return minutes


def places(cells):
    """Of the checks of a chapter before its exercises: where they stand, as a share of the words."""
    said, at = 0, []
    for cell in cells:
        if cell.cell_type == "markdown":
            said += len(re.findall(r"\w+", cell.source.partition("\n## Exercises")[0]))
            if re.search(r"^## Exercises", cell.source, re.MULTILINE):
                break
        elif "Check(" in cell.source:
            at.append(said)
    return [place / said for place in at]


@pytest.mark.parametrize("name", CHAPTERS)
def test_a_chapter_has_a_checkpoint_about_every_ten_minutes_and_exercises_to_type(name, reading):
    cells = cells_of(name)
    at = [share * reading[name, ""] for share in places(cells)]
    assert len(at) >= reading[name, ""] / 10
    assert max(b - a for a, b in zip([0, *at], at, strict=False)) <= 13
    asked = "".join(cell.source for cell in cells if cell.cell_type == "code")
    assert len(re.findall(r"Check\(\s*Question\(\s*\"Exercise \d", asked)) >= (1 if name == "failures" else 2)


ROUTES = {"oncall": 45, "capacity": 120, "training": 225, "facilities": 60, "serving": 120}


@pytest.mark.parametrize("route", ROUTES)
def test_the_minutes_of_a_route_are_those_of_its_sections_and_sum_to_its_heading(route, reading):
    cells = cells_of(f"onboarding_{route}")
    rows = re.findall(r"^\| (.+?) \| (\d+) \|$", cells[0].source, re.MULTILINE)
    assert sum(int(minutes) for _, minutes in rows) == ROUTES[route]
    chapter, off = "", []
    for what, minutes in rows:
        chapter = (re.search(r"\((\w+)\.ipynb\)", what) or ["", chapter])[1]
        sections = re.findall(r"\*(.+?)\*", what)
        if chapter in CHAPTERS and (sections or "exercises" in what) and "the fleet" not in what:
            honest = sum(reading[chapter, section] for section in sections or [""])
            off += [(what, honest)] if abs(int(minutes) - honest) > max(2, 0.2 * honest) else []
    assert off == []
    assert sum("Check(" in cell.source for cell in cells) >= 2
    assert cells[-1].source.startswith("## Your task")


def test_the_overview_links_each_route_with_its_time():
    said = (ROOT / "book" / "onboarding.md").read_text()
    assert re.findall(r"\(onboarding_(\w+)\.ipynb\)", said) == list(ROUTES)
