"""From symptom to lever: every row leads to its law and to a section with a figure, and nothing is asked in vain."""

import re

import pytest
from bs4 import BeautifulSoup

from building import ROOT
from replay import executed

PAGE = ROOT / "book" / "symptoms.ipynb"
SYMPTOMS = [
    "low-mfu", "a-slow-all-reduce", "jitter", "a-step-that-got-slower", "out-of-memory", "a-slow-first-token",
    "tokens-that-stutter", "low-goodput", "a-full-queue", "throttling", "an-expensive-token",
]  # fmt: skip


@pytest.fixture(scope="module")
def page(site):
    return BeautifulSoup((site / "book/symptoms.html").read_text("utf-8"), "html.parser")


@pytest.mark.parametrize("symptom", SYMPTOMS)
def test_every_symptom_has_suspects_each_with_a_measurement_a_law_and_a_lever_that_was_tried(page, symptom):
    rows = page.find(id=symptom).select("table tbody tr")
    assert len(rows) >= 4
    for row in rows:
        measured, suspect, lever, before, after, better = (
            cell.get_text(" ", strip=True) for cell in row.find_all("td")
        )
        assert all((measured, suspect, lever, before, after))
        assert row.td.code.get_text(strip=True), measured  # a command, a counter, or a line of a log
        gain = re.fullmatch(
            r"([\d.]+)\stimes(?: \(([\d.]+)\sto\s[\d.]+\))?"
            r"(?::\s(?:borrowed|untested|measured)(?=,|$))?(?:[:,]\s(may\sbe\snothing))?",
            better,
        )
        assert float(gain[1]) > 1
        assert bool(gain[3]) == (gain[2] is not None and float(gain[2]) <= 1)
        assert len(row.select("a")) == 2


def test_the_first_table_leads_to_every_symptom(page):
    assert [a["href"] for a in page.table.select("a")] == [f"#{symptom}" for symptom in SYMPTOMS]


def test_every_row_leads_to_a_section_with_a_figure_and_to_its_law(page, site):
    pages, wrong = {}, []
    for row in page.select(", ".join(f"#{symptom} div.output table tbody tr" for symptom in SYMPTOMS)):
        at, law = (a["href"] for a in row.select("a"))
        name, _, anchor = at.partition("#")
        pages[name] = pages.get(name) or BeautifulSoup((site / "book" / name).read_text("utf-8"), "html.parser")
        section = pages[name].find(id=anchor)
        if section is None or not section.select(".cl-explorer, .widget-host, img"):
            wrong.append(f"{at} has no figure")
        name, _, anchor = law.partition("#")
        pages[name] = pages.get(name) or BeautifulSoup((site / "book" / name).read_text("utf-8"), "html.parser")
        if pages[name].find(id=anchor) is None:
            wrong.append(f"{law} is not there")
    assert wrong == []


def test_every_number_of_a_lever_is_computed(site):
    """A row's cells are what a cell printed: none is typed into the page."""
    shown = [
        output.data["text/markdown"]
        for cell in executed(site, PAGE).cells
        if cell.cell_type == "code"
        for output in cell.outputs
        if "text/markdown" in output.get("data", {})
    ]
    assert len(shown) == len(SYMPTOMS)
