"""The built book in a browser: one visit to every page, whatever chapters there are."""

import functools
import gzip
import http.server
import io
import re
import threading
import time
import urllib.request
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import unquote, urlsplit

import matplotlib.image
import pytest

from building import table_of_contents
from pages import CONTROLS, DRAWN, KIND, MISPLACED, commit_prediction, drawn, keys, watched, widgets_ready

PAGES = [*table_of_contents(), "genindex", "search", "404"]
LOOKS: dict[str, None] = {}  # of text with contrast, on the pages that this process has seen
OF_COLOUR = ["color-contrast", "link-in-text-block"]
TELEPHONE, TABLET, WINDOW = {"width": 375, "height": 700}, 768, {"width": 1280, "height": 900}
PAPER = {"width": 642, "height": 971}  # A4 within its margins
HEAVIEST = 500_000  # bytes that a page may ask for, gzipped as a server sends them

# A chapter has ten thousand tokens of code, of a dozen kinds: the first of each stays an element. The reference has
# hundreds of definitions of seven makes: five of each stay. KaTeX's boxes are hidden from screen readers, and what it
# says to them is MathML.
LESS = """() => {
  const met = new Set(), makes = {};
  for (const one of document.querySelectorAll("dl.py")) {
    makes[one.className] = (makes[one.className] ?? 0) + 1;
    if (makes[one.className] > 5) one.remove();
  }
  for (const token of document.querySelectorAll(".highlight :is(span, a):not(:has(*))")) {
    const kind = [token, token.parentElement].map(e => e.tagName + e.className).join();
    if (met.has(kind)) token.replaceWith(token.textContent); else met.add(kind);
  }
  document.querySelectorAll(".highlight pre").forEach(pre => pre.normalize());
  document.querySelectorAll(".katex").forEach(formula => formula.replaceWith("x"));
}"""

# Mark one element for each look of text that no page before had, by its colour, its size and what it stands on; of a
# link, by its line and the text around it too.
NEW_LOOKS = """([before, scheme]) => {
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
    const link = element.closest("a[href]"), around = link && getComputedStyle(link.parentElement);
    const own = link ? [getComputedStyle(link).textDecorationLine, around.color, around.display] : [];
    const key = [color, fontSize, fontWeight, ground(element), ...own].join();
    if (!met.has(key)) (link ?? element).setAttribute(`data-${scheme}`, "");
    met.add(key);
  }
  return [...met].slice(before.length);
}"""

# Take the blocks without a new look out of the text, for axe compares every element with all that may lie under it; and
# put them back.
TAKE_OUT = """() => [...document.querySelectorAll("section > *, dd > *, nav li")]
  .filter(block => block.isConnected && !block.matches("[data-light], [data-dark]")
    && !block.querySelector("[data-light], [data-dark]"))
  .map(block => {
    const place = document.createComment("");
    block.replaceWith(place);
    return [place, block];
  })"""
PUT_BACK = "blocks => blocks.reverse().forEach(([place, block]) => place.replaceWith(block))"


# Boxes of the text that hide or scroll sideways what is in them.
OVERFLOWING = """() => [...document.querySelectorAll(".bd-article *")].filter(box =>
  box.clientWidth && getComputedStyle(box).display !== "inline" && box.scrollWidth > box.clientWidth + 1
  && getComputedStyle(box).overflowX !== "visible" && getComputedStyle(box).visibility !== "hidden"
  && !box.closest("span.math, .katex, svg")
  && ![...box.querySelectorAll(":scope.math .katex-base")].some(part => part.offsetWidth > box.clientWidth)
).map(box => `${box.tagName} ${box.className}: ${box.textContent.trim().slice(0, 40)}`)"""

# The elements that show text of their own, but for formulas.
TEXTS = """[...document.querySelectorAll("body :not(script, style)")].filter(element =>
  !element.closest(".katex") && element.checkVisibility()
  && [...element.childNodes].some(node => node.nodeType === Node.TEXT_NODE && node.data.trim()))"""

# What a page says in letters of less than 11 pixels.
SMALL = f"""() => {TEXTS}.filter(element =>
  parseFloat(getComputedStyle(element).fontSize) * (element.matches("text") ? element.getScreenCTM().a : 1) < 10.95
).map(element => element.textContent)"""

# Texts that are not in the book's face, but for code.
OTHER_FACES = f"""() => {TEXTS}.filter(element =>
  !element.closest("pre, code, kbd, dt.sig") && !getComputedStyle(element).fontFamily.startsWith('"Source Serif"')
).map(element => element.textContent)"""

# Texts in the very colour of what they stand on, which axe passes over. Names in a figure stand on what is drawn below
# them, not on what holds them.
UNSEEN = f"""() => {TEXTS}.filter(element => {{
  if (element.closest("svg, .cl-explorer")) return false;
  const clear = "rgba(0, 0, 0, 0)", ground = box => getComputedStyle(box).backgroundColor;
  let under = element;
  while (under && ground(under) === clear) under = under.parentElement;
  return under && getComputedStyle(element).color === ground(under);
}}).map(element => element.textContent)"""

# What does not begin at the left edge of the text and end at its right edge: blocks, what a cell shows, drawings. A
# wide cell ends at the right edge of the margin, and a picture of matplotlib only begins with the others.
OFF_THE_EDGES = """() => {
  const article = document.querySelector(".bd-article"), box = article?.getBoundingClientRect();
  if (!article) return []; // the page of a search
  const { paddingLeft, paddingRight } = getComputedStyle(article);
  const left = box.left + Number.parseFloat(paddingLeft), right = box.right - Number.parseFloat(paddingRight);
  const margin = document.querySelector(".bd-sidebar-secondary")?.getBoundingClientRect().width;
  const parts = "section > :not(section, .margin), .cell > *, .cell_output > *, .cell_input pre";
  const all = `.bd-article :is(${parts}, .cl-explorer, .cl-check, .cl-scene, .pst-scrollable-table-container)`;
  return [...document.querySelectorAll(all)].flatMap(part => {
    const at = part.getBoundingClientRect(), end = part.closest(".tag_wide") ? right + margin : right;
    const off = [at.left - left, part.matches("img") ? 0 : at.right - end];
    const inside = part.parentElement.closest(".admonition, blockquote, dd, li, details, .margin");
    const wrong = at.width && at.height && !inside && off.some(by => Math.abs(by) > 1);
    return wrong ? [[part.outerHTML.slice(0, 80), ...off]] : [];
  });
}"""

# Boxes of the text that end beyond the paper, and what has a use on a screen alone.
OFF_THE_PAPER = """() => {
  const width = document.documentElement.clientWidth, shown = box => box.checkVisibility() && box.clientWidth;
  const beyond = box => !box.closest("svg, .katex") && box.getBoundingClientRect().right > width + 1;
  const handle = "input[type=range], input[type=search], .headerlink, .copybtn, .cl-reset";
  return [...document.querySelectorAll(".bd-article *")]
    .filter(box => shown(box) && (beyond(box) || box.matches(handle)))
    .map(box => `${box.tagName} ${box.className}: ${box.textContent.trim().slice(0, 40)}`);
}"""

# Folds, but for those of a widget, that are more than a line of text: banners, boxes.
BANNERS = """() => [...document.querySelectorAll(".bd-article :is(details, .dropdown)")].filter(fold => {
  const line = fold.querySelector("summary") ?? fold, [box, own] = [fold, line].map(part => getComputedStyle(part));
  const edges = own.borderTopWidth + own.borderBottomWidth + box.borderTopWidth + box.borderBottomWidth;
  const grounds = [own.backgroundColor, box.backgroundColor].filter(colour => colour !== "rgba(0, 0, 0, 0)");
  const [words, left] = [fold.querySelector(".sd-summary-text"), fold.getBoundingClientRect().left];
  const aside = words?.offsetParent && words.getBoundingClientRect().left > left + 40; // far from its mark
  const boxed = edges !== "0px".repeat(4) || grounds.length || box.boxShadow !== "none";
  return !fold.closest(".widget-host") && (boxed || aside);
}).map(fold => fold.textContent.trim().slice(0, 40))"""

# Printed outputs that broke a line although they had no more columns than fit: [columns, height in lines, lines].
BROKEN = """most => [...document.querySelectorAll(".cell_output .output pre")].map(pre => {
  const style = getComputedStyle(pre), [above, below, line] =
    [style.paddingTop, style.paddingBottom, style.lineHeight].map(Number.parseFloat);
  const high = Math.round((pre.clientHeight - above - below) / line);
  return [Number(style.getPropertyValue("--columns")), high, pre.textContent.trimEnd().split("\\n").length];
}).filter(([columns, high, lines]) => columns && columns <= most && high > lines)"""


# Lay out at once what waits for the reader's first move: before, a page has no width but that of its first screen.
ALL_LAID_OUT = "document.querySelectorAll('.waits').forEach(block => block.classList.remove('waits'))"


@pytest.fixture(scope="module", params=PAGES)
def visited(request, site, browser, windows):
    """One page from disk, its file and what it asked for; the last test of a page fails on any trouble."""
    path, asked = site / f"{request.param}.html", set()
    with watched(browser, windows) as visit:
        page = visit(path.as_uri(), asked=asked, viewport=TELEPHONE, color_scheme="light")
        widgets_ready(page)
        page.evaluate(ALL_LAID_OUT)
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
    assert page.locator(".widget-host > [data-ready]").count() == hosts


def test_a_chapter_opens_with_a_drawing_and_its_folds_are_lines_of_text(page, visited):
    assert page.evaluate(BANNERS) == []
    if 'admonition-title">The question<' in visited.text:
        for width, height in ((1000, 900), (375, 812)):
            page.set_viewport_size({"width": width, "height": height})
            figure = page.locator(".bd-article .widget-host").first
            top = figure.evaluate("figure => figure.getBoundingClientRect().top + scrollY")
            assert top < 0.7 * height, (width, top)  # so that some of it is seen
        page.set_viewport_size(TELEPHONE)


def test_a_page_is_light_and_loads_only_what_it_needs(visited):
    page, maths = visited.page, 'class="katex"' in visited.text
    page.evaluate("document.querySelectorAll('img').forEach(img => { img.loading = 'eager'; })")
    page.evaluate("Promise.all([document.fonts.ready, ...[...document.images].map(img => img.decode())])")
    files = {Path(unquote(url.path)) for url in map(urlsplit, visited.asked) if url.scheme == "file"}
    assert sum(map(weight, files)) < HEAVIEST
    assert not [path.name for path in files if re.search(r"mathjax|katex\.min\.js|awesome", str(path))]
    assert maths == any("katex" in path.parts for path in files)
    assert (visited.name == "search") == any(path.name == "searchindex.js" for path in files)


def test_nothing_is_clipped_or_scrolls_sideways_on_a_telephone(page):
    page.evaluate("document.querySelectorAll('details').forEach(fold => fold.open = true)")
    assert page.evaluate("document.documentElement.scrollWidth") <= TELEPHONE["width"]
    assert page.evaluate(OVERFLOWING) == []
    assert page.evaluate(BROKEN, 50) == []  # as many as fit in letters of 11 pixels
    assert page.evaluate(SMALL) == []


# What is wrong with the names in the figures of a page: as they open, and with every control at its ends.
# Wait for a figure's table; a browser may lose a request, and a test must end.
COME = """for (const until = performance.now() + 20_000; !figure.dataset.table; ) {
  if (performance.now() > until) throw new Error("no table has come");
  await new Promise(requestAnimationFrame);
}"""

NAMES = f"""async () => {{
  const misplaced = {MISPLACED}, wrong = [];
  for (const figure of document.querySelectorAll(".widget-host .cl-explorer:has(.cl-area)")) {{
    figure.scrollIntoView();
    {COME}
    const title = figure.querySelector("figcaption").textContent;
    const look = (where) => wrong.push(...misplaced(figure, where !== "").map((told) => [title, where, told]));
    look("");
    for (const control of figure.querySelectorAll("{CONTROLS}")) {{
      const choices = control.options?.length ?? 2;
      for (const last of [1, 0]) {{
        if (control.type === "checkbox") control.checked = Boolean(last);
        else if (control.options) control.selectedIndex = last * (choices - 1);
        else control.value = last ? control.max : control.min;
        control.dispatchEvent(new Event(control.type === "range" ? "input" : "change"));
        look(`${{control.name}} at its ${{last ? "end" : "start"}}`);
      }}
    }}
    figure.querySelector(".cl-reset")?.click();
  }}
  return wrong;
}}"""


def test_a_name_in_a_picture_covers_nothing_on_a_telephone(page):
    assert page.evaluate(NAMES) == []


@pytest.fixture
def wide(page):
    """The page as wide as a small window: a new one is as wide as a telephone."""
    if page.viewport_size != WINDOW:
        page.set_viewport_size(WINDOW)
    return page


def test_a_page_has_one_column_and_one_face(wide):
    assert wide.evaluate(OFF_THE_EDGES) == []
    assert wide.evaluate(OTHER_FACES) == []
    for width in (WINDOW["width"], TABLET):
        wide.set_viewport_size(WINDOW | {"width": width})
        assert wide.evaluate("document.documentElement.scrollWidth") == width
    wide.set_viewport_size(WINDOW)


def test_paper_has_a_page_whole_and_without_its_handles(wide):
    wide.emulate_media(media="print")
    wide.set_viewport_size(PAPER)
    assert wide.evaluate(OFF_THE_PAPER) == []
    assert wide.evaluate(OVERFLOWING) == []  # nobody scrolls there
    wide.emulate_media(media="screen")
    wide.set_viewport_size(WINDOW)


def test_a_name_in_a_picture_covers_nothing_on_a_wide_page(wide):
    assert wide.evaluate(NAMES) == []


# A hand on the figures of a page, for each word with the browser costs more than what it says.
HAND = f"""() => {{
  const shown = {DRAWN}, figures = [...document.querySelectorAll(".widget-host .cl-explorer:not(.cl-drawn)")];
  let figure, control, start, before;
  const picture = () => JSON.stringify(shown(figure));
  return {{
    figures,
    async take(which) {{ // its table comes when it is near
      figure = which;
      figure.scrollIntoView();
      {COME}
      start = picture();
      return figure.querySelectorAll("{CONTROLS}").length;
    }},
    focus(i) {{ // give the control's name, its kind, and how many there are to choose from
      control = figure.querySelectorAll("{CONTROLS}")[i];
      control.focus();
      before = picture();
      return [control.name, ...({KIND})(control)];
    }},
    moved: () => picture() !== before,
    reset: () => figure.querySelector(".cl-reset").focus(),
    restored: () => picture() === start,
  }};
}}"""


def test_every_control_of_a_widget_moves_its_figure_by_keyboard(wide, hosts):
    if not hosts:
        return
    for figure in wide.locator(".widget-host .cl-explorer:has(.cl-predict)").all():
        commit_prediction(wide, figure)
    hand, press, stuck = wide.evaluate_handle(HAND), wide.keyboard.press, []
    for i in range(hand.evaluate("hand => hand.figures.length")):
        controls = hand.evaluate("(hand, i) => hand.take(hand.figures[i])", i)
        assert controls
        for j in range(controls):
            name, *kind = hand.evaluate("(hand, j) => hand.focus(j)", j)
            if not any(press(key) or hand.evaluate("hand => hand.moved()") for key in keys(*kind)):
                stuck.append((i, name))
        hand.evaluate("hand => hand.reset()")
        press("Enter")
        assert hand.evaluate("hand => hand.restored()"), i
    assert stuck == []


def test_what_can_be_dragged_in_a_picture_moves_its_control_by_mouse_and_by_keys(wide):
    for grip in wide.locator(".cl-grip").all():
        figure = grip.locator("xpath=ancestor::figure")
        figure.evaluate("figure => figure.scrollIntoView()")
        figure.and_(wide.locator("[data-table]")).wait_for()
        commit_prediction(wide, figure)
        grip.wait_for()
        before = drawn(figure)
        assert any(grip.press(key) or drawn(figure) != before for key in ("Home", "End"))
        box, area = grip.bounding_box(), figure.locator(".cl-area, .cl-scene").first.bounding_box()
        x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
        before = drawn(figure)
        wide.mouse.move(x, y)
        wide.mouse.down()
        wide.mouse.move(area["x"] + 0.6 * area["width"], y, steps=3)
        wide.mouse.up()
        assert drawn(figure) != before
        figure.locator(".cl-reset").click()


def in_scheme(page, scheme):
    """Turn a page light or dark, as the reader's system does."""
    if page.evaluate("document.documentElement.dataset.theme") != scheme:
        page.emulate_media(color_scheme=scheme)
        page.wait_for_function("scheme => document.documentElement.dataset.theme === scheme", arg=scheme)
    page.evaluate("document.getAnimations().forEach(fading => fading.finish())")


def test_every_text_has_contrast_and_every_link_is_told_from_it(wide, violations):
    looks, new, found = dict(LOOKS), {}, set()
    for scheme in ("light", "dark"):
        in_scheme(wide, scheme)
        assert wide.evaluate(UNSEEN) == []
        new[scheme] = wide.evaluate(NEW_LOOKS, [[*looks], scheme])
        assert looks or len(new[scheme]) > 3
        looks.update(dict.fromkeys(new[scheme]))
    if any(new.values()):
        taken_out = wide.evaluate_handle(TAKE_OUT)
        for scheme in filter(new.get, ("dark", "light")):
            in_scheme(wide, scheme)
            found |= violations(wide, f"[data-{scheme}]", runOnly=OF_COLOUR)
        taken_out.evaluate(PUT_BACK)
    assert found == set()
    LOOKS.update(looks)


def test_axe_finds_nothing(wide, violations):
    wide.evaluate(LESS)
    wide.evaluate("scrollTo(0, 0)")  # the head of a long table stays in sight, and would lie under the page's own
    # The name of a button or a fold is what it shows, and a finger meets one target: axe asks only when told to.
    asked = "label-content-name-mismatch", "target-size"
    rules = {name: {"enabled": True} for name in asked} | {name: {"enabled": False} for name in OF_COLOUR}
    assert violations(wide, rules=rules) == set()


# What a page without scripts hides of a widget that its reader should see, and which figures are blank.
HIDDEN = """widgets => widgets.flatMap(widget => {
  const check = widget.classList.contains("cl-check"), parts = check ? [".cl-question", "summary"] : ["figcaption"];
  const hidden = parts.filter(part => !widget.querySelector(part)?.checkVisibility({ visibilityProperty: true }));
  const paths = [...widget.querySelectorAll(".cl-area path:not(.cl-hair)")].slice(1);
  const drawn = check || widget.querySelector(".cl-scene")?.innerHTML || paths.some(path => path.getAttribute("d"));
  if (!drawn) hidden.push("no scene, no curve and no bar");
  if ([...widget.querySelectorAll(".cl-readouts dd")].some(value => !value.textContent)) hidden.push("a read-out");
  return hidden.map(what => [widget.textContent.trim().slice(0, 40), what]);
})"""


def test_a_widget_shows_its_figure_before_any_script_runs(page, hosts, visit):
    if not hosts:
        return
    plain, one = visit(page.url, java_script_enabled=False), ":is(.cl-explorer, .cl-check)"
    assert plain.locator(one).count() == hosts
    assert plain.locator(f"{one}:not(details.second *)").evaluate_all(HIDDEN) == []  # the others are folded


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


@pytest.mark.parametrize("name", ["book/index", "book/roofline", "book/reference/parallelism", "search"])
def test_a_page_opens_complete_from_a_server_too(server, visit, name):
    page = visit(f"{server}/{name}.html")
    widgets_ready(page)
    assert broken_images(page) == []


def test_a_wide_formula_goes_on_below_and_one_that_cannot_scrolls_in_its_own_box(site, visit):
    page = visit((site / "book" / "roofline.html").as_uri(), viewport=TELEPHONE)
    laid_out(page)
    sizes = "box => [box.scrollWidth, box.clientWidth, box.clientHeight]"
    _, outer, high = page.locator("div.math").first.evaluate(sizes)
    page.evaluate("""() => {
        const box = document.querySelector("div.math"), formula = box.querySelector(".katex-html");
        for (let i = 0; i < 4; i++) formula.append(...[...formula.children].map(part => part.cloneNode(true)));
    }""")
    inner, _, higher = page.locator("div.math").first.evaluate(sizes)
    assert inner == outer
    assert higher > 2 * high
    page.evaluate("document.querySelector('div.math .katex-base').style.minWidth = '500px'")
    assert page.locator("div.math").first.evaluate(sizes)[0] > outer
    begins = (
        "box => box.querySelector('.katex-display').getBoundingClientRect().left - box.getBoundingClientRect().left"
    )
    assert page.locator("div.math").first.evaluate(begins) >= 0  # its beginning is in sight
    assert page.evaluate("document.documentElement.scrollWidth") == 375


def test_a_formula_that_scrolls_has_a_shade_where_it_goes_on(site, visit):
    page = visit((site / "book" / "roofline.html").as_uri(), viewport=TELEPHONE)
    laid_out(page)
    box = page.locator("div.math").first
    box.evaluate("box => { box.querySelector('.katex-base').style.minWidth = '500px'; }")
    box.evaluate("box => { box.querySelector('.katex').style.opacity = 0; }")  # the ground alone

    def edges(box) -> tuple[bool, bool]:
        """Whether the outermost columns are dark, left and right."""
        image = matplotlib.image.imread(io.BytesIO(box.screenshot()))[..., :3].mean(axis=(0, 2))
        return bool(image.max() - image[:4].min() > 0.02), bool(image.max() - image[-4:].min() > 0.02)

    assert edges(box) == (False, True)
    box.evaluate("box => { box.scrollLeft = box.scrollWidth; }")
    assert edges(box) == (True, False)
    page.add_style_tag(content=".katex { opacity: 0; }")
    page.set_viewport_size({"width": 800, "height": 900})
    for other in page.locator("div.math").all()[1:6]:  # which don't
        width = other.evaluate("box => box.clientWidth")
        for part in (0.3, 0.5, 0.7):  # a browser rounds
            other.evaluate(f"box => {{ box.style.width = '{width - 9 + part}px'; }}")
            assert edges(other) == (False, False)


def test_paper_is_light_whatever_the_screen_is(server, visit):
    page = visit(f"{server}/{CHAPTER}.html", color_scheme="dark")
    laid_out(page)
    colours = "['color', 'backgroundColor'].map(what => getComputedStyle(document.body)[what])"
    page.evaluate(f"addEventListener('beforeprint', () => {{ window.printed = {colours}; }})")
    seen = page.evaluate(colours)
    page.pdf()
    ink, ground = (sum(map(int, re.findall(r"\d+", colour)[:3])) for colour in page.evaluate("printed"))
    assert ink < 200 < 700 < ground
    assert page.evaluate(colours) == seen  # and the screen is as it was


# What a student types, and what the first hits of all kinds must have.
ASKED = {
    "arithmetic intensity": ("term", "arithmetic intensity"),
    "memory bound or compute bound": ("term", "memory-bound"),
    "kv cache size": ("law", "kv cache bytes"),
    "allreduce time": ("law", "best all-reduce"),
    "ring vs tree": ("section", "Rings and trees"),
    "nvlink or infiniband": ("section", "One link"),
    "pipeline bubble": ("law", "bubble fraction"),
    "layers per stage": ("section", "Where to cut"),
    "fsdp": ("term", "ZeRO"),
    "tensor parallel": ("term", "tensor parallelism"),
    "gradient accumulation": ("term", "microbatch"),
    "activation checkpointing": ("law", "layer activations"),
    "flash attention": ("law", "attention"),
    "time to first token": ("term", "TTFT"),
    "tokens per second": ("law", "frontier"),
    "cost per million tokens": ("law", "token price"),
    "speculative decoding": ("law", "speculative speedup"),
    "how often to checkpoint": ("law", "optimal interval"),
    "out of memory": ("law", "footprint"),
    "stragglers": ("term", "straggler"),
    "hot spare nodes": ("law", "spares for"),
    "how much power does an h100 use": ("section", "From the chip to the meter"),
    "liquid cooling": ("law", "coolant flow"),
    "amdahl's law": ("law", "amdahl speedup"),
    "chinchilla": ("law", "compute optimal"),
    "cheapest gpu hour": ("law", "required rent"),
    "fat tree switches": ("term", "fat tree"),
    "grpo rollouts": ("section", "The longest attempt"),
    "weight sync": ("section", "Weights travel"),
    "ecmp hash collision": ("section", "Eight flows on eight uplinks"),
    "warm water cooling": ("section", "From the cold plate to the dry cooler"),
    "confidence interval of mttf": ("section", "Which cluster has 50,000 hours?"),
    "batch fills gpu memory": ("figure", "A batch fills the memory of an H100: Llama 3 8B, BF16"),
}


def test_the_search_finds_laws_terms_figures_and_sections_by_the_words_people_use(server, visit):
    page = visit(f"{server}/search.html")
    page.locator("form.bd-search input:visible").first.fill("roofline")
    page.locator(".found-kind").first.wait_for()
    found = page.evaluate("asked => asked.map(finder.find)", [*ASKED])
    kinds = {"law": "laws", "term": "terms", "figure": "figures", "section": "sections"}
    poor = {}
    for query, (kind, title), hits in zip(ASKED, ASKED.values(), found, strict=True):
        same = [name for of, name in hits if of == kinds[kind]]
        if not any(name == title or name.endswith(f" {title}") for name in same[:3]):
            poor[query] = hits[:4]
    assert poor == {}


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_in_the_results_of_a_search(server, visit, violations, scheme):
    page = visit(f"{server}/search.html?q=weibull", color_scheme=scheme)
    page.locator("#search-results .highlighted").first.wait_for()
    page.wait_for_load_state("networkidle")
    assert violations(page) == set()


CHAPTER = "book/interconnect"

# What moves under the reader's eyes, summed as browsers do.
SHIFTS = """window.shifts = 0;
new PerformanceObserver(met => met.getEntries().forEach(e => { if (!e.hadRecentInput) window.shifts += e.value; }))
  .observe({ type: "layout-shift", buffered: true });"""

# How many of some blocks a browser need not lay out.
PASSED_OVER = "all => all.filter(b => getComputedStyle(b).contentVisibility !== 'visible').length"


def laid_out(page):
    """Do what a reader does first, and wait until every block of a page is laid out."""
    page.mouse.move(5, 5)
    page.mouse.move(6, 6)  # a window that was used before may have its mouse at the first place
    page.wait_for_function(
        "'whole' in document.documentElement.dataset && !document.querySelector('.waits')", polling=50
    )


def test_a_chapter_s_first_paint_waits_for_its_text_and_its_styles_alone(site):
    """A script that a browser must run first, or one more style sheet, is seen on every telephone."""
    text = (site / f"{CHAPTER}.html").read_text()
    assert re.findall(r"<script[^>]* src=", text) == []
    sheets = re.findall(r'<link[^>]*rel="stylesheet"[^>]*>', text)
    assert [re.search(r"_static/([\w./]+)", sheet)[1] for sheet in sheets] == ["site.css"]
    assert weight(site / "_static" / "site.css") < 35_000
    assert weight(site / f"{CHAPTER}.html") < 80_000


def test_a_face_that_comes_late_moves_little(server, browser):
    with watched(browser) as visit:
        page = visit("about:blank", viewport={"width": 412, "height": 823})
        page.add_init_script(SHIFTS)
        page.route("**/*.woff2", lambda route: (time.sleep(0.4), route.continue_()))
        page.goto(f"{server}/{CHAPTER}.html")
        page.wait_for_function("document.fonts.status === 'loaded'")
        laid_out(page)
        page.wait_for_timeout(300)
        assert page.evaluate("document.fonts.check('16px \"Source Serif\"')")
        assert page.evaluate("shifts") < 0.05


def test_blocks_wait_for_the_load_and_none_waits_for_who_comes_to_a_place(server, visit, browser):
    text = urllib.request.urlopen(f"{server}/{CHAPTER}.html").read().decode()
    assert len(re.findall(r'class="[^"]*\bwaits\b', text)) > 50
    with watched(browser) as opened:
        page = opened("about:blank")
        page.add_init_script(f"""addEventListener("DOMContentLoaded", () => {{
            const passed = {PASSED_OVER};
            const all = selector => [...document.querySelectorAll(selector)];
            window.early = [passed(all(".waits:not(table)")), passed(all("div:has(> table.waits)"))];
        }});""")
        page.goto(f"{server}/{CHAPTER}.html")
        blocks, tables = page.evaluate("early")
        assert blocks > 50
        assert tables > 0
        page.wait_for_selector("html[data-whole]", state="attached")  # with no hand on the mouse
        assert page.locator(".waits").count() == 0
    page = visit(f"{server}/{CHAPTER}.html#exercises")
    assert page.locator(".waits").evaluate_all(PASSED_OVER) == 0
    for wait in (widgets_ready, laid_out):
        wait(page)
        assert 0 <= page.locator("#exercises h2").first.bounding_box()["y"] < 300


def test_without_a_script_nothing_waits(server, visit):
    page = visit(f"{server}/{CHAPTER}.html", java_script_enabled=False)
    assert page.locator(".waits").count() > 50
    assert page.locator(".waits").evaluate_all(PASSED_OVER) == 0


def test_a_link_to_a_section_that_moved_arrives_where_it_is_now(server, visit):
    page = visit(f"{server}/book/parallelism.html#the-bubble")
    page.wait_for_url(f"{server}/book/pipeline.html#the-bubble")
    page.goto(f"{server}/book/step.html#where-to-cut")
    page.wait_for_url(f"{server}/book/pipeline.html#where-to-cut")
    page.goto(f"{server}/book/parallelism.html#experts-tokens-travel")
    page.wait_for_url(f"{server}/book/mix.html#experts-tokens-travel")
    page.goto(f"{server}/book/parallelism.html")
    page.evaluate("location.hash = '#twenty-lines'")
    page.wait_for_url(f"{server}/book/step.html#in-26-lines")
    page.goto(f"{server}/book/parallelism.html#the-tokens-cancel")  # has not moved
    assert page.url.endswith("parallelism.html#the-tokens-cancel")
    page.goto(f"{server}/book/reference/collectives.html#clusterlab.collectives.ring_all_reduce")
    page.wait_for_url(f"{server}/book/reference/interconnect.html#clusterlab.interconnect.ring_all_reduce")


def test_the_frame_answers(server, visit):
    page = visit(f"{server}/{CHAPTER}.html", viewport={"width": 1300, "height": 900}, color_scheme="light")
    laid_out(page)
    # The colour mode goes from the system's to the other, and is kept over a reload.
    page.get_by_role("button", name="Color mode").click()
    assert page.locator("html").get_attribute("data-theme") == "dark"
    page.reload()
    assert page.locator("html").get_attribute("data-theme") == "dark"
    laid_out(page)
    # The side bar has a line for each page, marks this one, and ticks it when its end has been seen, here and later.
    entries = page.locator("#pst-primary-sidebar .bd-links a")
    assert entries.evaluate_all("all => all.filter(a => a.getClientRects().length > 1).map(a => a.textContent)") == []
    here, ticked = page.locator(".bd-links a.current"), page.locator(".bd-links a.read")
    assert "Interconnect" in here.inner_text()
    assert ticked.count() == 0
    page.locator(".prev-next-footer").scroll_into_view_if_needed()
    page.wait_for_function("document.querySelector('.bd-links a.current.read')")
    page.reload()
    laid_out(page)
    assert ticked.count() == 1
    assert ticked.inner_text() == here.inner_text()
    # Search opens by key and by button, and closes.
    dialog = page.locator("#pst-search-dialog")
    page.keyboard.press("Control+k")
    assert dialog.is_visible()
    assert page.evaluate("document.activeElement.name") == "q"
    page.keyboard.press("Escape")
    assert not dialog.is_visible()
    # The menu of downloads opens and closes.
    menu, button = page.locator(".dropdown-menu"), page.get_by_role("button", name="Download this page")
    button.click()
    assert menu.is_visible()
    assert button.get_attribute("aria-expanded") == "true"
    box = menu.bounding_box()
    assert box["x"] + box["width"] <= 1300
    page.mouse.move(0, 0)  # the theme opens it for the pointer too
    page.keyboard.press("Escape")
    assert not menu.is_visible()
    # The contents mark where the reader is.
    page.locator("#pst-page-toc-nav a[href='#exercises']").click()
    assert page.locator("#pst-page-toc-nav a[aria-current]").get_attribute("href") == "#exercises"
    # The first side bar hides.
    page.get_by_role("button", name="Toggle primary sidebar").click()
    assert "pst-sidebar-hidden" in page.locator("#pst-primary-sidebar").get_attribute("class")


def test_side_bars_open_as_dialogs_on_a_telephone(server, visit):
    page = visit(f"{server}/{CHAPTER}.html", viewport=TELEPHONE)
    laid_out(page)
    for name, link in [("primary", "1. Roofline"), ("secondary", "Exercises")]:
        page.get_by_role("button", name=f"Toggle {name} sidebar").click()
        dialog = page.locator(f"#pst-{name}-sidebar-modal")
        assert dialog.get_by_role("link", name=link).is_visible()
        page.keyboard.press("Escape")
        dialog.wait_for(state="hidden")
        assert page.locator(f"#pst-{name}-sidebar").locator("a").count() > 5
