"""The files of the built book: every page, whatever chapters there are."""

import functools
import gzip
import json
import math
import re
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import unquote, urlsplit

import pytest
import yaml
from bs4 import BeautifulSoup
from test_browser import PAGES

import book_widgets
from building import ROOT
from edition import edition
from moved import GONE, MOVED

ICON = re.compile(r"\bfa-(?!solid\b|brands\b|lg\b|sm\b|fw\b)[a-z-]+")


class Page(HTMLParser):
    """The elements of one HTML file that the tests look at: each a tag and its attributes, and its own text."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path, self.elements = path, []
        self.feed(path.read_text())

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, {key: value or "" for key, value in attrs}, []))

    def handle_data(self, data):
        if self.elements:
            self.elements[-1][2].append(data)

    def all(self, *tags):
        return [(attrs, "".join(text)) for tag, attrs, text in self.elements if tag in tags]

    @functools.cached_property
    def anchors(self) -> set[str]:
        return {attrs[key] for _, attrs, _ in self.elements for key in ("id", "name") if key in attrs}


@pytest.fixture(scope="module")
def pages(site) -> dict[str, Page]:
    """Every page of the site by its path, but for the redirect at the top."""
    paths = sorted(path for path in site.rglob("*.html") if "_static" not in path.parts)
    return {
        path.relative_to(site).as_posix(): Page(path)
        for path in paths
        if 'http-equiv="Refresh"' not in path.read_text()
    }


def test_the_site_has_the_pages_that_a_browser_opens_in_its_tests(pages):
    assert {name.removesuffix(".html") for name in pages} == set(PAGES)


def test_the_side_bar_has_the_parts_and_numbers_their_chapters_as_the_pages_do(site):
    number = 0
    page = BeautifulSoup((site / "book/roofline.html").read_text(), "html.parser")
    parts = yaml.safe_load((ROOT / "_toc.yml").read_text())["parts"]
    captions = page.select("#pst-primary-sidebar p.caption")
    assert [caption.get_text() for caption in captions] == [part["caption"] for part in parts]
    for part, caption in zip(parts, captions, strict=True):
        entries = [item.find("a") for item in caption.find_next_sibling("ul").find_all("li", recursive=False)]
        for chapter, entry in zip(part["chapters"], entries, strict=True):
            article = (site / f"{chapter['file']}.html").read_text().partition('<article class="bd-article')[2]
            title = BeautifulSoup(re.search("<h1.*?</h1>", article, re.DOTALL)[0], "html.parser")
            numbered = title.select_one(".section-number")
            if "numbered" in part:
                number += 1
                assert entry.get_text() == f"{number}. {chapter['title']}"
                assert numbered.get_text().strip() == f"{number}."
            else:
                assert not entry.get_text()[0].isdigit()
                assert numbered is None
    assert number > 5


def test_nothing_stands_between_a_chapter_s_question_and_its_first_figure(pages):
    chapters = 0
    for name, page in pages.items():
        _, asked, rest = page.path.read_text().partition('admonition-title">The question<')
        if asked:
            before = rest.partition('class="widget-host"')[0]
            assert not re.search(r"<details|cell_input|<pre", before), name
            chapters += 1
    assert chapters > 5


def test_no_internal_link_is_dead(pages, site):
    dead, checked = [], 0
    for name, page in pages.items():
        for attrs, _ in page.all("a", "link", "img", "script", "iframe", "source"):
            url = urlsplit(attrs.get("href") or attrs.get("src") or attrs.get("data-src") or "")
            if url.scheme or url.netloc or not (url.path or url.fragment):
                continue
            checked += 1
            target = (page.path.parent / unquote(url.path)).resolve() if url.path else page.path
            if not target.is_file():
                dead.append(f"{name}: {url.path}")
            elif url.fragment and target.suffix == ".html":
                other = pages.get(target.relative_to(site).as_posix()) or Page(target)
                if unquote(url.fragment) not in other.anchors:
                    dead.append(f"{name}: {url.path}#{url.fragment}")
    assert checked > 50
    assert dead == []


def test_a_section_that_moved_is_no_longer_on_its_page_and_is_where_the_page_sends_the_reader(pages):
    for name, moved in MOVED.items():
        page = pages[f"{name}.html"]
        assert json.dumps(moved) in page.path.read_text()
        assert set(moved) & page.anchors == set()
        for to in moved.values():
            where, _, anchor = to.partition("#")
            there = pages[f"book/{where}"] if where else page
            assert not anchor or anchor in there.anchors, to  # a whole page has none


def test_a_page_that_is_gone_sends_the_reader_to_a_page_that_is_there(pages, site):
    for to, names in GONE.items():
        assert f"book/reference/{to}.html" in pages
        for name in names.split():
            assert f"book/reference/{name}.html" not in pages, name
            assert f'<a href="{to}.html">' in (site / f"book/reference/{name}.html").read_text()


def test_every_page_says_at_its_foot_which_edition_it_is(pages):
    says = f"Version {edition(ROOT)['version']}"
    for name, page in pages.items():
        assert [text for attrs, text in page.all("p") if attrs.get("class") == "edition" and says in text], name


def test_every_claim_of_the_corrections_leads_to_the_place_that_computes_it(pages, site):
    page = BeautifulSoup((site / "book/corrections.html").read_text(), "html.parser")
    tables = [table for table in page.select("table") if table.th and table.th.get_text() in ("claim", "source")]
    rows = [row for table in tables for row in table.select("tbody tr")]
    assert len(rows) == 119 + 3
    for row in rows:
        places = [link["href"] for link in row.select_one("td").select("a")]
        assert len(places) == 1, row
        name, _, anchor = places[0].partition("#")
        assert anchor in pages[f"book/{name}"].anchors, row


def test_every_citation_leads_to_the_bibliography_of_its_own_chapter(pages):
    cited = 0
    for name, page in pages.items():
        entries = {attrs["id"] for attrs, _ in page.all("div") if attrs.get("class") == "citation"}
        for attrs, _ in page.all("a"):
            if "title" in attrs and "headerlink" not in attrs.get("class", "") and re.search(r"#id\d+$", attrs["href"]):
                assert attrs["href"].removeprefix("#") in entries, (name, attrs)
                cited += 1
    assert cited > 50


def test_every_icon_on_a_page_has_a_shape(pages, site):
    styles, used = (site / "_static" / "site.css").read_text(), set()
    for page in pages.values():
        for classes in re.findall(r'class="([^"]*\bfa[bs]?(?:-solid)?\s[^"]*)"', page.path.read_text()):
            used.update(ICON.findall(classes))
    assert len(used) > 8
    assert [name for name in sorted(used) if not re.search(rf"\.{name}\s*{{ --icon: url", styles)] == []


def test_every_formula_is_there_without_a_script(pages):
    formulas = 0
    for name, page in pages.items():
        set_ = [attrs for attrs, _ in page.all("span") if attrs.get("class") == "katex"]
        assert len(page.all("math")) == len(set_), name
        formulas += len(set_)
        prose = "".join(text for tag in ("p", "li", "td", "dd", "h1", "h2", "h3") for _, text in page.all(tag))
        assert not re.search(r"\\[(\[]|\$\$", prose), name
    assert formulas > 100


def test_every_image_says_what_it_shows(pages):
    silent = []
    for name, page in pages.items():
        for attrs, _ in page.all("img"):
            alt, least = attrs.get("alt", ""), 3 if "_images/" in attrs.get("src", "") else 1
            if len(alt.split()) < least or re.search(r"[0-9a-f]{16}|\.(svg|png|jpe?g|gif)$", alt):
                silent.append(f"{name}: {attrs.get('src')}: {alt!r}")
    assert silent == []


def test_buttons_to_a_repository_are_there_only_where_one_is_set(site, monkeypatch):
    assert not [path.name for path in site.rglob("*.html") if re.search(r"mybinder|/edit/", path.read_text())]
    config = SimpleNamespace(html_theme_options={})
    monkeypatch.setenv("BOOK_REPOSITORY", "https://github.com/someone/book/")
    book_widgets.add_repository(config)
    assert config.html_theme_options["repository_url"] == "https://github.com/someone/book"
    assert config.html_theme_options["launch_buttons"]["notebook_interface"] == "jupyterlab"


def test_no_script_or_style_comes_from_another_host(pages):
    elsewhere = []
    for name, page in pages.items():
        for attrs, text in page.all("script", "link", "style", "iframe", "img"):
            urls = [*(attrs.get(key, "") for key in ("src", "data-src", "href")), *re.findall(r"url\((.*?)\)", text)]
            if attrs.get("type") != "application/json":
                urls += re.findall(r"""["'](https?://[^"']*)""", text)
            elsewhere += [f"{name}: {url}" for url in urls if re.match(r"""["']?(https?:)?//""", url)]
    assert elsewhere == []


def test_every_page_has_a_title_a_language_a_description_and_an_icon(pages):
    written = {name for name, page in pages.items() if "_sources/" in page.path.read_text()}
    assert written
    for name, page in pages.items():
        assert page.all("html")[0][0].get("lang") == "en", name
        assert page.all("title")[0][1].strip(), name
        icons = [attrs["href"] for attrs, _ in page.all("link") if "icon" in attrs.get("rel", "")]
        assert icons, name
        assert all((page.path.parent / urlsplit(icon).path).is_file() for icon in icons), name
        described = [attrs["content"] for attrs, _ in page.all("meta") if attrs.get("name") == "description"]
        if name in written:
            assert len(described) == 1, name
            assert len(described[0]) >= 50, name


@pytest.fixture(scope="module")
def hands(site):
    """What each figure shows between its stops, as the chapters' kernels said while the book was built."""
    return [json.loads(line) for line in (site.parents[1] / "hands.jsonl").read_text().splitlines()]


def test_what_a_figure_shows_between_its_stops_is_what_the_law_says(site, hands):
    """Within one per cent, of a number and of an axis, at control values that nobody chose."""
    stored = [path.read_text() for path in (site / "_widgets").rglob("*.js") if not path.stem.isdigit()]
    assert len(hands) >= sum(text.count('"kind":"explorable.explorer.Explorer"') for text in stored) > 50
    assert [one for one in hands if one["numbers"][0] > 0.01 or one["places"][0] > 0.01] == []
    assert sum(math.inf in one["controls"].values() for one in hands) > 10


def test_a_control_that_takes_a_number_has_25_positions(hands):
    assert {one["title"]: one["controls"] for one in hands if min(one["controls"].values(), default=25) < 25} == {}


def test_in_ten_figures_or_more_the_thing_itself_can_be_dragged(site):
    stored = [path.read_text() for path in (site / "_widgets").rglob("*.js") if not path.stem.isdigit()]
    assert sum(len(re.findall(r'"drags":\s?\[\[', text)) for text in stored) >= 10


def test_a_page_starts_with_its_widgets_and_without_their_tables(site):
    paths = [path for path in (site / "_widgets").rglob("*.js") if not path.stem.isdigit()]
    assert paths
    for path in paths:
        started, root = re.fullmatch(r'widgets\.start\(\{(.*)\},"([./]*)"\);', path.read_text()).groups()
        assert (path.parent / root).resolve().is_relative_to(site.resolve())
        models = re.findall(r'"(\w+)":String\.raw`([^`$]*)`,?', started)
        assert ",".join(f'"{name}":String.raw`{model}`' for name, model in models) == started  # and nothing else
        for _, text in models:
            model = json.loads(text)
            assert model.keys() - {"table"} == {"kind", "state", "buffers"}
            if "table" in model:
                assert "_table" not in model["state"]
                assert (site / urlsplit(model["table"]).path).is_file()


def test_a_page_weighs_less_than_350_kb_until_a_figure_comes_near(site, pages):
    """All that a browser asks for to show the page, as a server sends it: text and scripts packed."""
    weights = {}
    for name, page in pages.items():
        given = [attrs.get("src") or attrs.get("data-src") for attrs, _ in page.all("script")]
        given += [attrs["href"] for attrs, _ in page.all("link") if attrs.get("rel") in (["stylesheet"], "stylesheet")]
        files = {(page.path.parent / urlsplit(url).path).resolve() for url in given if url}
        weights[name] = sum(len(gzip.compress(file.read_bytes())) for file in [page.path, *files])
    assert {name: weight for name, weight in weights.items() if weight >= 350_000} == {}
    tables = {path: len(gzip.compress(path.read_bytes())) for path in (site / "_widgets").rglob("*.js")}
    assert {path.name: weight for path, weight in tables.items() if weight >= 250_000} == {}


@pytest.mark.parametrize(("spec", "kept"), [({"x": None}, False), ({"x": {"log": True}}, True)])
def test_a_drawing_that_stands_still_brings_no_table(spec, kept):
    model = {"state": {"_spec": {"controls": [], "predict": None} | spec, "_table": {"width": 1}}, "buffers": []}
    assert book_widgets.table_script("one", model) == ""
    assert ("_table" in model["state"]) is kept


def test_a_figure_that_leads_to_no_page_of_the_book_is_named():
    parts = [
        '<a href="power.html#cooling"><g/></a>',
        '<a href="../notes.html"><g/></a>',
        '<a href="gone.html"><g/></a>',
    ]
    app = SimpleNamespace(env=SimpleNamespace(found_docs={"book/power", "notes"}))
    models = {"one": {"state": {"_table": {"templates": [[parts]]}}}, "two": {"state": {}}}
    assert book_widgets.lost_links(app, "book/index", models) == {"gone"}
