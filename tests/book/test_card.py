"""The card for the wall: it holds the rule of every box, and agrees with the predictor."""

import nbformat
import pytest
from bs4 import BeautifulSoup

import card
from building import ROOT, table_of_contents
from clusterlab.evidence import predict_collective
from clusterlab.units import GB


def chapters():
    """The texts of the notebooks of the book, by name."""
    for file in table_of_contents():
        path = (ROOT / file).with_suffix(".ipynb")
        if path.exists():
            cells = nbformat.read(path, as_version=4).cells
            yield path.stem, "\n\n".join(cell.source for cell in cells if cell.cell_type == "markdown")


def test_every_box_is_on_the_card(site):
    shown = BeautifulSoup((site / "book/sheet.html").read_text("utf-8"), "html.parser").select_one(".rules")
    per_chapter = {a["href"].removesuffix(".html"): 0 for a in shown.select("p > strong > a")}
    for title, items in zip(shown.find_all("p", recursive=False), shown.find_all("ul", recursive=False), strict=True):
        per_chapter[title.a["href"].removesuffix(".html")] = len(items.find_all("li", recursive=False))
    boxes = {name: text.count("{admonition} Rule\n") for name, text in chapters()}
    assert per_chapter == {name: count for name, count in boxes.items() if count}
    assert sum(boxes.values()) > 40


@pytest.mark.parametrize(
    ("box", "rule"),
    [
        ("One half is 0.5. Two are one.", "One half is 0.5. Two are one."),
        (f"{'Long ' * 20}first. {'Long ' * 20}second.", f"{'Long ' * 19}Long first."),
        (":class: tip\n**Rates add.**", "Rates add."),
        ("At $M = m. n$ it holds. So there.", "At $M = m. n$ it holds. So there."),
        (r"\$0.31 out, \$0.07 in and at most \$0.01. So.", r"\$0.31 out, \$0.07 in and at most \$0.01. So."),
    ],
)
def test_a_rule_is_its_first_sentence_and_what_a_line_has_room_for(box, rule):
    assert card.rules(f":::{{admonition}} Rule\n{box}\n:::") == [rule]


def test_the_card_says_what_the_predictor_says():
    notebook = nbformat.read(ROOT / "book" / "sheet.ipynb", as_version=4)
    printed = "\n".join(
        output.data["text/plain"] for c in notebook.cells for output in c.get("outputs", ()) if "data" in output
    )
    for ranks in (8, 64, 512):
        said = predict_collective("all-reduce", GB, ranks).with_interval
        assert f"1 GB all-reduced over {ranks} H100s" in printed
        assert said in printed
