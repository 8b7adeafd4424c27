"""The catalogue as tables: every stored number is on a page with its kind, its source and its date."""

import html
import re
import tomllib
from importlib.resources import files

import pytest
from bs4 import BeautifulSoup

import tables
from clusterlab.catalogue import stored
from clusterlab.operations.signals import URGENCIES

DATA = files("clusterlab.catalogue") / "data"
FILES = sorted(path.name for path in DATA.iterdir() if path.name.endswith(".toml"))
NO_FACTS = {"source", "kind", "trap", "aliases"}  # what people call it is for finding a record, and rests on no source
JUDGED = {("signal", "law"), ("signal", "urgency")}  # the book's own judgement, which no source gives: see on_call
HARDWARE = "book/reference/tables_hardware.html"


@pytest.fixture(scope="module")
def rows(site) -> dict[tuple[str, str, str], list[str]]:
    """What the built pages have of each number: table, record and field to the texts of its row."""
    found = {}
    for page in (site / "book" / "reference").glob("tables_*.html"):
        text = page.read_text("utf-8")
        for name, table in re.findall(r'data-name="facts-([\w-]+)".*?(<tbody>.*?</tbody>)', text, re.DOTALL):
            for row in re.findall(r"<tr\b.*?</tr>", table, re.DOTALL):
                record, field = re.search(r'data-record="(.*?)"', row)[1], re.search(r'data-field="(.*?)"', row)[1]
                cells = [
                    re.sub(r"<[^>]+>", "", cell).replace("\u00a0", " ")
                    for cell in re.findall(r"<td\b.*?</td>", row, re.DOTALL)
                ]
                found[name, html.unescape(record), field] = [html.unescape(cell).strip() for cell in cells]
    return found


def as_stored(file):
    """The numbers of a data file, read without the library: table, record, field, value, kind, source."""
    document = tomllib.loads((DATA / file).read_text("utf-8"))
    sources = document.pop("sources")
    for table, records in document.items():
        for name, row in records.items():
            for field, entry in row.items():
                if field not in NO_FACTS and (table, field) not in JUDGED:
                    one = entry if isinstance(entry, dict) else {"value": entry}
                    source = sources[one.get("source", row.get("source"))]
                    yield table, name, field, one["value"], one.get("kind", row.get("kind")), source


@pytest.mark.parametrize("file", FILES)
def test_every_stored_number_is_on_a_page_with_its_kind_its_source_and_its_date(file, rows):
    missing, count = [], 0
    for table, name, field, value, kind, source in as_stored(file):
        if table in ("software", "serving") and name in ("default", "usual"):
            continue  # what each of the others has unless it says otherwise
        count += 1
        cells = rows.get((table, name, field))
        written = ("yes" if value else "no") if isinstance(value, bool) else re.sub(r" us$", " \u00b5s", str(value))
        if cells is None:
            missing.append(f"{table} {name}: {field}")
        elif cells[1].replace(",", "") != written.replace(",", "") or cells[2:4] != [kind, source["date"]]:
            missing.append(f"{table} {name}: {field} is {cells}")
        elif source["title"] not in cells[4]:
            missing.append(f"{table} {name}: {field} names another source: {cells[4]}")
    assert missing == []
    assert count


def test_no_number_is_on_a_page_that_is_not_stored(rows):
    documents = [tomllib.loads((DATA / file).read_text("utf-8")) for file in FILES]
    known = {(table, name) for one in documents for table, records in one.items() for name in records}
    assert {(table, name) for table, name, _ in rows} <= known


def test_what_the_book_judges_of_a_signal_is_on_call(site):
    page = BeautifulSoup((site / "book" / "on_call.html").read_text("utf-8"), "html.parser")
    lines = {line.select_one("summary b").get_text(): line for line in page.select(".cl-signals details")}
    signals = tomllib.loads(stored("signals.toml"))["signal"]
    assert lines.keys() == signals.keys()
    for name, row in signals.items():
        assert lines[name].select_one(f"i.cl-urgency-{URGENCIES.index(row['urgency'])}"), name
        assert lines[name].select_one(f'a[href="{row["law"].replace(".ipynb", ".html")}"]'), name


def test_a_record_says_beside_the_others_what_its_source_prints(site):
    page = BeautifulSoup((site / HARDWARE).read_text("utf-8"), "html.parser")
    table = page.find(attrs={"data-name": "records-accelerator"})
    heads = [head.get_text() for head in table.select("thead th")]
    row = dict(
        zip(
            heads,
            (
                cell.get_text().replace("\u00a0", " ")
                for cell in page.find(id="accelerator-h100-sxm").find_all(["th", "td"])
            ),
            strict=True,
        )
    )
    assert (row["Name"], row["BF16"], row["HBM rate"], row["Ridge, BF16"]) == (
        "H100 SXM",
        "989 TFLOP/s",
        "3.35 TB/s",
        "295",
    )
    assert len(table.select("tbody tr")) == len(tomllib.loads(stored("hardware.toml"))["accelerator"])


def test_the_first_mention_of_a_chip_or_model_leads_to_its_row(site):
    page = BeautifulSoup((site / "book" / "roofline.html").read_text("utf-8"), "html.parser")
    links = page.select("a.in-catalogue")
    assert links[0].get_text() in ("H100", "H100s")
    where = [link["href"] for link in links]
    assert len(where) == len(set(where)) >= 5
    for target in where:
        name, _, anchor = target.partition("#")
        assert f'id="{anchor}"' in (site / "book" / name).read_text("utf-8")


@pytest.mark.parametrize(
    ("printed", "number"),
    [("989 TFLOP/s", 989e12), (2020, 2020.0), (True, None), ("NVLink 4", None), ("$2.95/h", None)],
)
def test_what_is_sorted_as_a_number(printed, number):
    found = tables._number(printed)
    assert found == number or (printed == "$2.95/h" and found)  # a price sorts too where units.parse reads it


@pytest.mark.slow
def test_tables_sort_filter_and_compare_in_a_browser(site, visit):
    page, chips = visit((site / HARDWARE).as_uri()), tomllib.loads(stored("hardware.toml"))["accelerator"]
    records, facts = (page.locator(f"[data-name={kind}-accelerator]") for kind in ("records", "facts"))
    first = records.locator("tbody tr").first
    head = records.locator("thead th", has_text="HBM rate")
    head.locator("button").press("Enter")
    assert head.get_attribute("aria-sort") == "ascending"
    assert first.locator("th").inner_text() == "TPU v5e"
    head.locator("button").press("Enter")
    assert head.get_attribute("aria-sort") == "descending"
    fastest = [
        float(cell)
        for cell in records.locator("tbody tr td:nth-child(7)").evaluate_all("c => c.map(x => x.dataset.value)")
    ]
    assert fastest == sorted(fastest, reverse=True)
    records.locator("input").fill("tpu 2024")
    assert records.locator("output").inner_text() == f"1 of {len(chips)} rows"
    records.locator("input").fill("")
    records.locator("tbody button", has_text="GB200").click()
    assert facts.locator("input").input_value() == '"GB200"'
    entries = set(chips["GB200"]) - NO_FACTS
    assert facts.locator("tbody tr:visible").count() == len(entries)
    second = page.get_by_label("Second accelerator")
    second.select_option("H200 SXM")
    times = page.locator(".side-by-side tr", has_text="HBM bandwidth").locator("td").last.inner_text()
    assert times == "1.43"  # 4.8 over 3.35 TB/s
    page.set_viewport_size({"width": 375, "height": 700})
    assert second.is_visible()  # a telephone chooses, too


@pytest.mark.slow
def test_one_field_filters_the_levers_of_all_symptoms_and_each_table_is_sorted_by_its_gains(site, visit):
    page = visit((site / "book" / "levers.html").as_uri())
    field, low_mfu = page.locator(".filters-all input"), page.locator("section#low-mfu .catalogue")
    assert page.locator(".catalogue input").count() == 1
    field.fill("gdrdma")
    assert page.locator(".catalogue tbody tr:visible").count() == 1
    assert page.locator("section#a-slow-all-reduce").is_visible()
    assert not page.locator("section#low-mfu").is_visible()
    field.fill("")
    head = low_mfu.locator("thead th", has_text="Its size")
    for _ in range(2):
        head.locator("button").press("Enter")
    gains = low_mfu.locator("tbody tr td:nth-child(4) [data-value]").evaluate_all("c => c.map(x => +x.dataset.value)")
    assert len(gains) == 10
    assert gains == sorted(gains, reverse=True)
