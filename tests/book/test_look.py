"""How the book looks where a rule can say it: on a telephone, in print, in JupyterLab, and by weight."""

import copy
import re

import nbformat
import pytest
from bs4 import BeautifulSoup
from docutils import nodes

import look
import second
from building import ROOT
from refresh import clean, summary


@pytest.mark.slow
def test_the_book_s_own_face_is_loaded_and_light(site, visit):
    page = visit((site / "book/index.html").as_uri())
    page.wait_for_function("document.fonts.status === 'loaded'")
    faces = page.evaluate("[...document.fonts].filter(f => f.family.includes('Source Serif')).map(f => f.status)")
    assert "loaded" in faces
    assert 0 < sum(path.stat().st_size for path in (site / "_static/fonts").glob("*.woff2")) <= 40_000


@pytest.mark.slow
def test_print_has_the_text_alone_and_leaves_its_boxes_whole(site, visit):
    page = visit((site / "book/roofline.html").as_uri())
    page.emulate_media(media="print")
    for frame in (".bd-sidebar-primary", ".bd-sidebar-secondary", ".bd-header-article", ".prev-next-footer"):
        assert not page.locator(frame).first.is_visible(), frame
    folds = page.locator("details.hide > summary")
    assert folds.count()
    assert not any(fold.is_visible() for fold in folds.all())
    assert not page.locator("details.sd-dropdown").first.is_visible()  # a closed hint can't be opened on paper
    assert page.locator("#jb-print-docs-body h1").evaluate("h => getComputedStyle(h).textAlign") == "left"
    notes = page.locator(".bd-article aside.margin")  # however broad the paper, nothing stands beside the text
    assert set(notes.evaluate_all("notes => notes.map(n => getComputedStyle(n).cssFloat)")) == {"none"}
    assert set(notes.evaluate_all("notes => notes.map(n => getComputedStyle(n).marginRight)")) == {"0px"}
    for box in ("div.admonition", "table", ".cell_output pre", ".widget-host"):
        assert page.locator(f".bd-article {box}").first.evaluate("b => getComputedStyle(b).breakInside") == "avoid", box


@pytest.mark.slow
def test_a_second_reading_is_folded_until_a_key_or_a_link_opens_it_and_print_has_it(site, browser):
    name = next(
        path for path in sorted((site / "book").glob("*.html")) if '<details class="second">' in path.read_text()
    )
    for script in (True, False):  # a fold needs none
        page = browser.new_page(java_script_enabled=script)
        page.goto(name.as_uri())
        fold = page.locator("details.second").first
        inside = fold.locator("> :not(summary)").first
        assert not inside.is_visible()
        page.emulate_media(media="print")
        assert inside.is_visible()
        page.emulate_media(media="screen")
        fold.locator("summary").first.focus()
        page.keyboard.press("Enter")
        assert inside.is_visible()
        page.close()
    page = browser.new_page()
    anchor = BeautifulSoup(name.read_text(), "html.parser").select_one("details.second").parent["id"]
    page.goto(f"{name.as_uri()}#{anchor}")
    assert page.locator("details.second").first.evaluate("fold => fold.open")
    page.close()


def test_only_a_section_that_says_so_is_for_a_second_reading():
    def section(*below):
        return nodes.section("", nodes.title("", "A"), *below)

    marked = nodes.paragraph("", "", nodes.emphasis("", second.MARK), nodes.Text(" why."))
    plain = nodes.paragraph("", "", nodes.Text("Second reading: no."))
    inner = section(marked, nodes.paragraph("", "folded"), section(plain.deepcopy()))
    document = nodes.document(None, None, "", section(plain, inner))
    second.fold(None, document, "")
    (fold,) = document.findall(second.second_reading)
    assert fold.parent is inner
    assert [child.astext() for child in fold.children[:2]] == ["Second reading: why.", "folded"]
    assert isinstance(inner[0], nodes.title)


@pytest.mark.slow
def test_a_margin_note_never_makes_the_page_broader_than_the_screen(site, visit):
    page = visit((site / "book/roofline.html").as_uri())
    assert page.locator(".bd-article aside.margin").count()
    for width in (1000, 1199, 1200):  # the theme has no margin below 1,200 pixels
        page.set_viewport_size({"width": width, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") == width


@pytest.mark.parametrize("path", sorted((ROOT / "book").glob("*.ipynb")), ids=lambda path: path.stem)
def test_what_a_page_folds_is_folded_in_jupyterlab(path):
    notebook = nbformat.read(path, as_version=4)
    assert notebook == clean(copy.deepcopy(notebook)), "run: python tests/refresh.py"


def test_folded_code_says_in_its_first_line_what_it_computes():
    cell = nbformat.v4.new_code_cell("# The sum of two numbers\n1 + 1", metadata={"tags": ["hide-input"]})
    (cleaned,) = clean(nbformat.v4.new_notebook(cells=[cell])).cells
    assert set(cleaned.metadata.mystnb.values()) == {"Code: The sum of two numbers"}
    with pytest.raises(ValueError, match="begins with a comment"):
        summary("1 + 1")


def test_the_numbers_of_a_table_are_told_from_its_words():
    rows = "".join(
        f"<tr><td>{name}</td><td>{rate}</td></tr>" for name, rate in [("A100", "312 TFLOP/s"), ("GH200", "-")]
    )
    table = f"<table><thead><tr><th>chip</th><th>peak</th></tr></thead><tbody>{rows}</tbody></table>"
    page = {"body": table}
    look.annotate(None, "page", "page.html", page, None)
    assert [cell.text for cell in BeautifulSoup(page["body"], "html.parser").select(".right")] == [
        "peak",
        "312 TFLOP/s",
        "-",
    ]
    assert "stacks" not in page["body"]


def test_numbers_of_one_unit_stand_over_one_another_and_others_begin_at_one_place():
    def right(*told):
        rows = "".join(f"<tr><td>so</td><td>{text}</td></tr>" for text in told)
        table = f"<table><thead><tr><th>what</th><th>result</th></tr></thead><tbody>{rows}</tbody></table>"
        page = {"body": table}
        look.annotate(None, "page", "page.html", page, None)
        return len(BeautifulSoup(page["body"], "html.parser").select("td.right"))

    assert right("518 Tbit/s", "648", "19 kW") == 0
    assert right("3.8 ms", "12 µs", "7") == 3
    assert right("$741,000", "$1.39M", "$2B") == 3


@pytest.mark.parametrize(
    "told",
    ["94.8% (49 to 98.7)", "$741,000 ($626,000 to $1.39M)", "973 ms (889 ms to 1.09 s)", "0.777 million (0.7 to 1)"],
)
def test_a_number_and_its_interval_stay_on_a_line(told):
    row = f"<tr><td>1,024</td><td>{told}</td></tr>"
    page = {"body": f"<table><thead><tr><th>GPUs</th><th>goodput</th></tr></thead><tbody>{row}</tbody></table>"}
    look.annotate(None, "page", "page.html", page, None)
    cells = BeautifulSoup(page["body"], "html.parser").select("td")
    assert [cell["class"] for cell in cells] == [["number", "right"], ["number"]]


def test_only_a_wordy_table_stacks_and_each_cell_then_names_its_heading():
    cells = ["data", "dp", "the whole model, and its share of the batch that a step works through"]
    head, body = (
        "".join(f"<{tag}>{cell}</{tag}>" for cell in row)
        for tag, row in [("th", ["Way", "Name", "Keeps"]), ("td", cells)]
    )
    page = {"body": f"<table><thead><tr>{head}</tr></thead><tbody><tr>{body}</tr></tbody></table>"}
    look.annotate(None, "page", "page.html", page, None)
    table = BeautifulSoup(page["body"], "html.parser").table
    assert table["class"] == ["stacks"]
    assert [cell["data-head"] for cell in table.select("td")] == ["Way", "Name", "Keeps"]


@pytest.mark.parametrize(
    ("heads", "cells", "classes"),
    [
        (["", "value"], ["power", "560 W"], ["plain"]),
        (["", "time"], ["pass", "9 ms"], None),
        # The heads of the numbers leave the first column a few letters, over which its words would be broken.
        (
            ["served", "runs", "first token", "token", "throughput", "bias"],
            ["DeepSeek-V3, GB200, SGLang, apart", *["9%"] * 5],
            ["stacks"],
        ),
        (["served", "runs", "token"], ["DeepSeek-V3, B200, SGLang", "42", "54%"], None),
    ],
)
def test_a_heading_that_says_nothing_goes_and_a_squeezed_table_stacks(heads, cells, classes):
    head, row = ("".join(f"<td>{cell}</td>" for cell in line) for line in (heads, cells))
    page = {"body": f"<table><thead><tr>{head}</tr></thead><tbody><tr>{row}</tr></tbody></table>"}
    look.annotate(None, "page", "page.html", page, None)
    assert BeautifulSoup(page["body"], "html.parser").table.get("class") == classes


def test_a_number_that_names_a_row_says_of_what_where_a_table_stacks():
    rows = "".join(f"<tr><td>{at}</td><td>{'what they do ' * 5}</td><td>why</td></tr>" for at in ("0\u201310", "vote"))
    page = {
        "body": f"<table><thead><tr><th>minutes</th><th>what</th><th>why</th></tr></thead><tbody>{rows}</tbody></table>"
    }
    look.annotate(None, "page", "page.html", page, None)
    firsts = BeautifulSoup(page["body"], "html.parser").select("tbody tr > :first-child")
    assert ["bare" in cell.get("class", []) for cell in firsts] == [True, False]


def test_a_cell_without_a_word_is_empty_where_a_table_stacks():
    row = "<td>KV cache</td><td>" + "two numbers for each layer, head and token, " * 2 + "</td><td><p> </p></td>"
    heads = "<th>what</th><th>law</th><th>page</th>"
    page = {"body": f"<table><thead><tr>{heads}</tr></thead><tbody><tr>{row}</tr></tbody></table>"}
    look.annotate(None, "page", "page.html", page, None)
    assert BeautifulSoup(page["body"], "html.parser").select("td")[2].contents == []


def test_an_output_states_its_columns():
    printed = "<pre>a &lt; b\n<span>1234567</span>\n</pre>"
    page = {"body": f'<div class="output stream"><div class="highlight">{printed}</div></div>'}
    look.annotate(None, "page", "page.html", page, None)
    assert '<pre style="--columns: 7">' in page["body"]


def test_a_number_and_its_unit_stay_in_one_line():
    paragraph = nodes.paragraph(
        "", "", nodes.Text("93 % of 5.67 TB at 111 GB/s, 2 GBs, 8 bits"), nodes.literal("", "5 ms")
    )
    look.keep_units(None, nodes.section("", paragraph), "page")
    assert paragraph.astext() == "93\u00a0% of 5.67\u00a0TB at 111\u00a0GB/s, 2 GBs, 8 bits5 ms"


def test_the_sheet_of_formulas_prints_on_one_page(site, visit):
    page = visit((site / "book/sheet.html").as_uri())
    margin = dict.fromkeys(("top", "bottom", "left", "right"), "10mm")
    printed = page.pdf(format="A4", margin=margin)
    assert len(re.findall(rb"/Type\s*/Page\b[^s]", printed)) == 1
