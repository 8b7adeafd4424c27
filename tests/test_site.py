"""The built book in a browser: every page, whatever chapters there are."""

import functools
import gzip
import http.server
import json
import re
import threading
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import unquote, urlsplit

import pytest

import book_widgets
from pages import CONTROLS, commit_prediction, drawn, move_by_keyboard, widgets_ready


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


@pytest.fixture(scope="module")
def root(site, request):
    """The address of the site: on disk, or on a server of this machine."""
    if request.param == "from disk":
        yield site.as_uri()
        return

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=site)) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("root", ["from disk", "from a server"], indirect=True)
def test_every_page_opens_complete_and_asks_no_other_host_for_anything(root, pages, visit):
    # The fixture fails the test on any foreign request, missing file, console error and uncaught exception.
    widgets = 0
    for name in pages:
        page = visit(f"{root}/{name}")
        widgets += len(widgets_ready(page))
        assert page.locator(".math:not(:has(.katex))").count() == 0, name
        broken = page.locator("img").evaluate_all(
            "all => all.filter(i => i.complete && !i.naturalWidth).map(i => i.src)"
        )
        assert broken == [], name
        page.context.close()
    assert widgets == sum(len(re.findall('class="widget-host"', page.path.read_text())) for page in pages.values()) > 0


def test_every_control_of_every_widget_moves_its_figure_by_keyboard(pages, visit):
    moved = {}
    for name, built in pages.items():
        if "widget-host" not in built.path.read_text():
            continue
        page = visit(built.path.as_uri())
        for figure in widgets_ready(page):
            commit_prediction(page, figure)
            start = drawn(figure)
            for control in figure.locator(CONTROLS).all():
                title = figure.locator("figcaption").inner_text()
                moved[name, title, control.get_attribute("name")] = move_by_keyboard(page, figure, control)
            figure.get_by_role("button", name="Reset").press("Enter")
            assert drawn(figure) == start
    assert [which for which, did in moved.items() if not did] == []
    assert moved


def test_every_chapter_with_a_widget_shows_it_before_any_script_runs(pages, visit):
    for name, built in pages.items():
        hosts = len(re.findall('class="widget-host"', built.path.read_text()))
        figures = visit(built.path.as_uri(), java_script_enabled=False).locator(".cl-explorer").all() if hosts else []
        assert len(figures) == hosts, name
        for figure in figures:
            assert figure.locator("figcaption").is_visible()
            assert any(drawn(figure)["paths"][1:]), "no curve and no bar"
            assert all(drawn(figure)["readouts"].values())


def test_axe_finds_nothing(pages, visit, violations):
    found = []
    for name, built in pages.items():
        page = visit(built.path.as_uri(), color_scheme="light")
        widgets_ready(page)
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            page.wait_for_function("scheme => document.documentElement.dataset.theme === scheme", arg=scheme)
            page.wait_for_function("document.getAnimations().every(fading => fading.playState !== 'running')")
            found += sorted(f"{name}, {scheme}: {violation}" for violation in violations(page))
        page.context.close()
    assert not found, "\n".join(found)


def test_no_internal_link_is_dead(pages, site):
    dead, checked = [], 0
    for name, page in pages.items():
        for attrs, _ in page.all("a", "link", "img", "script", "iframe", "source"):
            url = urlsplit(attrs.get("href") or attrs.get("src") or "")
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


def test_every_citation_leads_to_the_bibliography_of_its_own_chapter(pages):
    cited = 0
    for name, page in pages.items():
        entries = {attrs["id"] for attrs, _ in page.all("div") if attrs.get("class") == "citation"}
        for attrs, _ in page.all("a"):
            if "title" in attrs and re.search(r"#id\d+$", attrs["href"]):
                assert attrs["href"].removeprefix("#") in entries, (name, attrs)
                cited += 1
    assert cited > 50


def test_no_page_is_wider_than_a_telephone(pages, visit):
    wide = {}
    for name, built in pages.items():
        page = visit(built.path.as_uri(), viewport={"width": 375, "height": 700})
        widgets_ready(page)
        wide[name] = page.evaluate("document.documentElement.scrollWidth")
        page.context.close()
    assert {name: width for name, width in wide.items() if width > 375} == {}


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
            urls = [attrs.get("src", ""), attrs.get("href", ""), *re.findall(r"url\((.*?)\)", text)]
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


def test_every_widget_weighs_less_than_100_kb(pages):
    weights = {}
    for name, page in pages.items():
        for attrs, text in page.all("script"):
            if attrs.get("id") == "widget-state":
                for model_id, model in json.loads(text)["models"].items():
                    weights[name, model_id] = len(gzip.compress(json.dumps(model).encode()))
    assert weights
    assert {which: weight for which, weight in weights.items() if weight >= 100_000} == {}
