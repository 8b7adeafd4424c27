"""The built book in a browser: one visit to every page, whatever chapters there are."""

import functools
import http.server
import re
import threading

import pytest

from conftest import table_of_contents, watched
from pages import CONTROLS, commit_prediction, drawn, move_by_keyboard, widgets_ready

PAGES = [*table_of_contents(), "genindex", "search"]

# Folded code is read too. A chapter has ten thousand tokens, of a dozen kinds: the first of each stays an element.
FEW_TOKENS = """() => {
  for (const fold of document.querySelectorAll("details")) fold.open = true;
  const met = new Set();
  for (const token of document.querySelectorAll(".highlight :is(span, a):not(:has(*))")) {
    const kind = [token, token.parentElement].map(e => e.tagName + e.className).join();
    if (met.has(kind)) token.replaceWith(token.textContent); else met.add(kind);
  }
  document.querySelectorAll(".highlight pre").forEach(pre => pre.normalize());
}"""

# Mark one element for each look of text on the page: its colour, its size and what it stands on.
EVERY_LOOK = """() => {
  document.querySelectorAll("[data-look]").forEach(e => e.removeAttribute("data-look"));
  const met = new Set(), texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const element = texts.currentNode.parentElement;
    if (!texts.currentNode.data.trim() || !element.checkVisibility()) continue;
    const { color, fontSize, fontWeight } = getComputedStyle(element), look = [color, fontSize, fontWeight];
    for (let e = element; e; e = e.parentElement) {
      const { backgroundColor, backgroundImage, opacity } = getComputedStyle(e);
      look.push(backgroundColor, backgroundImage, opacity);
    }
    const key = look.filter(style => !["rgba(0, 0, 0, 0)", "none", "1"].includes(style)).join();
    if (!met.has(key)) element.dataset.look = "";
    met.add(key);
  }
  return met.size;
}"""


@pytest.fixture(scope="module", params=PAGES)
def page(request, site, browser):
    """One page from disk, complete; a foreign request, a missing file or an error fails the last test that uses it."""
    with watched(browser) as visit:
        page = visit((site / f"{request.param}.html").as_uri(), color_scheme="light")
        widgets_ready(page)
        yield page


@pytest.fixture
def hosts(site, page) -> int:
    """How many widgets the page's file has."""
    return len(re.findall('class="widget-host"', (site / page.url.split("/html/")[1]).read_text()))


def complaints(page) -> list[str]:
    """Return what a page that has loaded does not show."""
    maths = page.locator(".math:not(:has(mjx-container))").all_inner_texts()
    wrong = page.locator("mjx-merror").all_inner_texts()
    broken = page.locator("img").evaluate_all("all => all.filter(i => i.complete && !i.naturalWidth).map(i => i.src)")
    return maths + wrong + broken


def test_a_page_opens_complete_and_its_widgets_run(page, hosts):
    page.wait_for_function("[...document.querySelectorAll('.math')].every(m => m.querySelector('mjx-container'))")
    assert complaints(page) == []
    assert page.locator(".cl-explorer[data-ready]").count() == hosts


def test_every_control_of_a_widget_moves_its_figure_by_keyboard(page, hosts):
    stuck = []
    for figure in widgets_ready(page):
        commit_prediction(page, figure)
        start, title, controls = (
            drawn(figure),
            figure.locator("figcaption").inner_text(),
            figure.locator(CONTROLS).all(),
        )
        assert controls
        stuck += [
            (title, control.get_attribute("name"))
            for control in controls
            if not move_by_keyboard(page, figure, control)
        ]
        figure.get_by_role("button", name="Reset").press("Enter")
        assert drawn(figure) == start
    assert stuck == []


def test_a_page_is_no_wider_than_a_telephone(page):
    page.set_viewport_size({"width": 375, "height": 700})
    assert page.evaluate("document.documentElement.scrollWidth") <= 375
    page.set_viewport_size({"width": 1000, "height": 900})


def test_axe_finds_nothing(page, violations):
    page.evaluate(FEW_TOKENS)
    assert violations(page, rules={"color-contrast": {"enabled": False}}) == set()


def test_every_text_has_contrast(page, violations):
    found = {}
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        page.wait_for_function("scheme => document.documentElement.dataset.theme === scheme", arg=scheme)
        page.wait_for_function("document.getAnimations().every(fading => fading.playState !== 'running')")
        assert page.evaluate(EVERY_LOOK) > 3
        found[scheme] = violations(page, "[data-look]", runOnly=["color-contrast"])
    assert found == {"light": set(), "dark": set()}


def test_a_widget_shows_its_figure_before_any_script_runs(page, hosts, visit):
    figures = visit(page.url, java_script_enabled=False).locator(".cl-explorer").all() if hosts else []
    assert len(figures) == hosts
    for figure in figures:
        assert figure.locator("figcaption").is_visible()
        assert any(drawn(figure)["paths"][1:]), "no curve and no bar"
        assert all(drawn(figure)["readouts"].values())


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
    page.wait_for_function("[...document.querySelectorAll('.math')].every(m => m.querySelector('mjx-container'))")
    assert complaints(page) == []
