"""What a page loads and says: its weight, its formulas without a script, its icons, and the names of its buttons."""

import functools
import gzip
import http.server
import re
import threading
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from pages import widgets_ready

HEAVIEST = 500_000  # bytes that a page may ask for, gzipped as a server sends them
ICON = re.compile(r"\bfa-(?!solid\b|brands\b|lg\b|sm\b|fw\b)[a-z-]+")


@pytest.fixture(scope="module")
def paths(site) -> dict[str, Path]:
    """Every page of the site by its name, but for the redirect at the top."""
    found = sorted(path for path in site.rglob("*.html") if "_static" not in path.parts)
    return {path.relative_to(site).as_posix(): path for path in found if 'http-equiv="Refresh"' not in path.read_text()}


@pytest.fixture
def requested(browser):
    """Return the files that a browser asks for to show a page, from its top to its end."""

    def files(path: Path) -> set[Path]:
        context, asked = browser.new_context(), []
        context.on("request", lambda request: asked.append(urlsplit(request.url)))
        page = context.new_page()
        page.goto(path.as_uri())
        widgets_ready(page)
        page.evaluate("document.querySelectorAll('img').forEach(img => { img.loading = 'eager'; })")
        page.evaluate("Promise.all([document.fonts.ready, ...[...document.images].map(img => img.decode())])")
        context.close()
        return {Path(unquote(url.path)) for url in asked if url.scheme == "file"}

    return files


def test_every_page_weighs_less_than_500_kb_and_loads_maths_only_where_it_has_some(paths, requested):
    heavy, out_of_place, formulas = {}, [], 0
    for name, path in paths.items():
        files = requested(path)
        weight = sum(len(gzip.compress(file.read_bytes())) for file in files)
        if weight >= HEAVIEST:
            heavy[name] = weight
        maths = 'class="katex"' in path.read_text()
        formulas += maths
        out_of_place += [(name, file.name) for file in files if "katex" in file.parts and not maths]
        out_of_place += [(name, file.name) for file in files if re.search(r"mathjax|katex\.min\.js|awesome", str(file))]
        assert maths == any(file.name == "katex.min.css" for file in files), name
        assert (name == "search.html") == any(file.name == "searchindex.js" for file in files), name
    assert heavy == {}
    assert out_of_place == []
    assert formulas > 5


def test_formulas_are_read_without_a_script(paths, visit):
    seen = 0
    for name, path in paths.items():
        if 'class="katex"' not in path.read_text():
            continue
        page = visit(path.as_uri(), java_script_enabled=False)
        for formula in page.locator(".math").all()[:3]:
            assert formula.locator("math").count() == 1, name
            assert formula.locator(".katex-html").first.inner_text().strip(), name
            seen += 1
        assert not re.search(r"\\[(\[]|\$\$", page.locator("article").inner_text()), name
        page.context.close()
    assert seen > 5


def test_a_wide_formula_scrolls_in_its_own_box(paths, visit):
    page = visit(paths["book/roofline.html"].as_uri(), viewport={"width": 375, "height": 700})
    page.evaluate("""() => {
        const box = document.querySelector("div.math"), formula = box.querySelector(".katex-html");
        for (let i = 0; i < 4; i++) formula.append(...[...formula.children].map(part => part.cloneNode(true)));
    }""")
    inner, outer = page.locator("div.math").first.evaluate("box => [box.scrollWidth, box.clientWidth]")
    assert inner > outer
    assert page.evaluate("document.documentElement.scrollWidth") == 375


def test_every_icon_on_a_page_has_a_shape(paths, site):
    styles, used = (site / "_static" / "site.css").read_text(), set()
    for path in paths.values():
        for classes in re.findall(r'class="([^"]*\bfa[bs]?(?:-solid)?\s[^"]*)"', path.read_text()):
            used.update(ICON.findall(classes))
    assert len(used) > 8
    assert [name for name in sorted(used) if not re.search(rf"\.{name}\s*{{ --icon: url", styles)] == []


def test_buttons_and_folds_are_named_by_what_they_show(paths, visit):
    from axe_playwright_python.sync_playwright import Axe

    options = {"runOnly": ["label-content-name-mismatch", "button-name", "summary-name"], "preload": False}
    wrong, buttons = [], 0
    for name, path in paths.items():
        page = visit(path.as_uri())
        buttons += page.locator("button:visible").count()
        found = Axe().run(page, options=options).response["violations"]
        wrong += [(name, each["id"], node["html"]) for each in found for node in each["nodes"]]
        page.context.close()
    assert wrong == []
    assert buttons > len(paths)


@pytest.fixture(scope="module")
def root(site):
    """The address of the site on a server of this machine: a search reads pages, which none may from disk."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=site)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_in_the_results_of_a_search(root, visit, violations, scheme):
    page = visit(f"{root}/search.html?q=memory", color_scheme=scheme)
    page.locator("#search-results .highlighted").first.wait_for()
    page.wait_for_load_state("networkidle")
    assert violations(page) == set()
