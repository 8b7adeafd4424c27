"""The pages for teachers and new colleagues hold what the library says."""

import re

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


def test_every_set_has_its_week_and_every_session_its_parts():
    ten = TEACHING.split("## Ten weeks")[1].split("## Five weeks")[0]
    assert [name for name in SETS if not re.search(rf"\| {name} \|", ten)] == []
    sessions = re.split(r"\n### \d+\. ", TEACHING.split("## The sessions")[1].split("## How to mark")[0])[1:]
    assert len(sessions) == 10
    for session in sessions[:-1]:
        for part in ("*Figure:*", "*Prediction:*", "*Exercise:*", "*Wrong", "*Cut:*"):
            assert part in session
    minutes = re.findall(r"^\| (\d+) \| ", TEACHING.split("## The sessions")[1].split("### 1.")[0], re.MULTILINE)
    assert sum(map(int, minutes)) == 90


@pytest.mark.parametrize(
    ("route", "minutes"), [("oncall", 45), ("cap", 120), ("train", 225), ("fac", 60), ("serve", 120)]
)
def test_the_minutes_of_a_route_sum_to_its_heading(route, minutes):
    import nbformat

    cells = {c.id: c.source for c in nbformat.read(ROOT / "book" / "onboarding.ipynb", 4).cells}
    rows = re.findall(r"\| (\d+) \|$", cells[f"onb-{route}"], re.MULTILINE)
    assert sum(map(int, rows)) == minutes
