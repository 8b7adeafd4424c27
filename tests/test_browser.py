"""The built book in a browser: one visit to every page, whatever chapters there are."""

import functools
import gzip
import http.server
import re
import threading
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import unquote, urlsplit

import pytest

from conftest import table_of_contents, watched
from pages import CONTROLS, commit_prediction, drawn, move_by_keyboard, widgets_ready

PAGES = [*table_of_contents(), "genindex", "search"]
LOOKS: dict[str, None] = {}  # of text with contrast, on the pages that this process has seen
HEAVIEST = 500_000  # bytes that a page may ask for, gzipped as a server sends them

# A chapter has ten thousand tokens of code, of a dozen kinds: the first of each stays an element.
FEW_TOKENS = """() => {
  const met = new Set();
  for (const token of document.querySelectorAll(".highlight :is(span, a):not(:has(*))")) {
    const kind = [token, token.parentElement].map(e => e.tagName + e.className).join();
    if (met.has(kind)) token.replaceWith(token.textContent); else met.add(kind);
  }
  document.querySelectorAll(".highlight pre").forEach(pre => pre.normalize());
}"""

# Mark one element for each look of text that no page before had, by its colour, its size and what it stands on.
NEW_LOOKS = """before => {
  document.querySelectorAll("[data-look]").forEach(e => e.removeAttribute("data-look"));
  const met = new Set(before), under = new Map([[null, ""]]);
  const ground = element => { // what an element stands on: every colour and picture up to the page
    if (!under.has(element)) {
      const { backgroundColor, backgroundImage, opacity } = getComputedStyle(element);
      const own = [backgroundColor, backgroundImage, opacity].join().replace("rgba(0, 0, 0, 0),none,1", "");
      under.set(element, own + ground(element.parentElement));
    }
    return under.get(element);
  };
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const element = texts.currentNode.parentElement;
    if (!texts.currentNode.data.trim() || !element.checkVisibility()) continue;
    const { color, fontSize, fontWeight } = getComputedStyle(element);
    const key = [color, fontSize, fontWeight, ground(element)].join();
    if (!met.has(key)) element.dataset.look = "";
    met.add(key);
  }
  return [...met].slice(before.length);
}"""


# Boxes of the text that hide or scroll sideways what is in them. Not formulas: they cannot be broken.
OVERFLOWING = """() => [...document.querySelectorAll(".bd-article *")].filter(box =>
  box.clientWidth && getComputedStyle(box).display !== "inline" && box.scrollWidth > box.clientWidth + 1
  && getComputedStyle(box).overflowX !== "visible" && getComputedStyle(box).visibility !== "hidden"
  && !box.closest(".math, svg")
).map(box => `${box.tagName} ${box.className}: ${box.textContent.trim().slice(0, 40)}`)"""

# Printed outputs that broke a line although they had no more columns than fit: [columns, height in lines, lines].
BROKEN = """most => [...document.querySelectorAll(".cell_output .output pre")].map(pre => {
  const style = getComputedStyle(pre), [above, below, line] =
    [style.paddingTop, style.paddingBottom, style.lineHeight].map(Number.parseFloat);
  const high = Math.round((pre.clientHeight - above - below) / line);
  return [Number(style.getPropertyValue("--columns")), high, pre.textContent.trimEnd().split("\\n").length];
}).filter(([columns, high, lines]) => columns && columns <= most && high > lines)"""


@pytest.fixture(scope="module", params=PAGES)
def visited(request, site, browser):
    """One page from disk, its file and what it asked for; the last test of a page fails on any trouble."""
    path, asked = site / f"{request.param}.html", set()
    with watched(browser) as visit:
        page = visit(path.as_uri(), asked=asked, color_scheme="light")
        widgets_ready(page)
        yield SimpleNamespace(name=request.param, page=page, text=path.read_text(), asked=asked)


@pytest.fixture
def page(visited):
    """The page itself."""
    return visited.page


@pytest.fixture
def hosts(visited) -> int:
    """How many widgets the page's file has."""
    return visited.text.count('class="widget-host"')


def broken_images(page) -> list[str]:
    """Return the images that a page did not get."""
    return page.locator("img").evaluate_all("all => all.filter(i => i.complete && !i.naturalWidth).map(i => i.src)")


@functools.cache
def weight(path: Path) -> int:
    """Return the bytes of a file as it travels."""
    return len(gzip.compress(path.read_bytes()))


def test_a_page_opens_complete_and_its_widgets_run(page, hosts):
    assert broken_images(page) == []
    assert page.locator(".cl-explorer[data-ready]").count() == hosts


def test_a_page_is_light_and_loads_only_what_it_needs(visited):
    page, maths = visited.page, 'class="katex"' in visited.text
    page.evaluate("document.querySelectorAll('img').forEach(img => { img.loading = 'eager'; })")
    page.evaluate("Promise.all([document.fonts.ready, ...[...document.images].map(img => img.decode())])")
    files = {Path(unquote(url.path)) for url in map(urlsplit, visited.asked) if url.scheme == "file"}
    assert sum(map(weight, files)) < HEAVIEST
    assert not [path.name for path in files if re.search(r"mathjax|katex\.min\.js|awesome", str(path))]
    assert maths == any("katex" in path.parts for path in files)
    assert (visited.name == "search") == any(path.name == "searchindex.js" for path in files)


def test_every_control_of_a_widget_moves_its_figure_by_keyboard(page, hosts):
    stuck = []
    for figure in widgets_ready(page):
        if "cl-drawn" in figure.get_attribute("class"):
            continue  # it has no controls
        commit_prediction(page, figure)
        start, title, controls = (
            drawn(figure),
            figure.locator("figcaption").inner_text(),
            figure.locator(CONTROLS).all(),
        )
        assert controls
        stuck += [
            (title, control.get_attribute("name")) for control in controls if not move_by_keyboard(figure, control)
        ]
        figure.get_by_role("button", name="Reset").press("Enter")
        assert drawn(figure) == start
    assert stuck == []


def test_nothing_is_clipped_or_scrolls_sideways_on_a_telephone(page):
    page.set_viewport_size({"width": 375, "height": 700})
    page.evaluate("document.querySelectorAll('details').forEach(fold => fold.open = true)")
    assert page.evaluate("document.documentElement.scrollWidth") <= 375
    assert page.evaluate(OVERFLOWING) == []
    assert page.evaluate(BROKEN, 78) == []
    page.set_viewport_size({"width": 1000, "height": 900})


def test_axe_finds_nothing(page, violations):
    page.evaluate(FEW_TOKENS)
    # The name of a button or a fold is what it shows: axe asks only when told to.
    rules = {"label-content-name-mismatch": {"enabled": True}, "color-contrast": {"enabled": False}}
    # KaTeX's boxes are hidden from screen readers, and what it says to them is MathML.
    assert violations(page, {"exclude": [[".katex"]]}, rules=rules) == set()


def test_every_text_has_contrast(page, violations):
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        page.wait_for_function("scheme => document.documentElement.dataset.theme === scheme", arg=scheme)
        page.wait_for_function("document.getAnimations().every(fading => fading.playState !== 'running')")
        new = page.evaluate(NEW_LOOKS, [*LOOKS])
        assert LOOKS or len(new) > 3
        found = violations(page, "[data-look]", runOnly=["color-contrast"]) if new else set()
        assert found == set()
        LOOKS.update(dict.fromkeys(new))


def test_a_widget_shows_its_figure_before_any_script_runs(page, hosts, visit):
    figures = visit(page.url, java_script_enabled=False).locator(".cl-explorer").all() if hosts else []
    assert len(figures) == hosts
    for figure in figures:
        assert figure.locator("figcaption").is_visible()
        shown = drawn(figure)
        assert shown["scene"] or any(shown["paths"][1:]), "no scene, no curve and no bar"
        assert all(shown["readouts"].values())


@pytest.fixture(scope="module")
def server(site):
    """The address of the site on a server of this machine."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=site)) as running:
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{running.server_port}"
        running.shutdown()
        thread.join()


@pytest.mark.parametrize("name", ["book/index", "book/roofline", "book/reference/training", "search"])
def test_a_page_opens_complete_from_a_server_too(server, visit, name):
    page = visit(f"{server}/{name}.html")
    widgets_ready(page)
    assert broken_images(page) == []


def test_a_wide_formula_scrolls_in_its_own_box(site, visit):
    page = visit((site / "book" / "roofline.html").as_uri(), viewport={"width": 375, "height": 700})
    page.evaluate("""() => {
        const box = document.querySelector("div.math"), formula = box.querySelector(".katex-html");
        for (let i = 0; i < 4; i++) formula.append(...[...formula.children].map(part => part.cloneNode(true)));
    }""")
    inner, outer = page.locator("div.math").first.evaluate("box => [box.scrollWidth, box.clientWidth]")
    assert inner > outer
    assert page.evaluate("document.documentElement.scrollWidth") == 375


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_in_the_results_of_a_search(server, visit, violations, scheme):
    page = visit(f"{server}/search.html?q=memory", color_scheme=scheme)
    page.locator("#search-results .highlighted").first.wait_for()
    page.wait_for_load_state("networkidle")
    assert violations(page) == set()
