"""What the tests share: a browser that may speak to nobody, the built site, and the order of the tests."""

import contextlib
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from filelock import FileLock
from hypothesis import settings
from xdist.scheduler import LoadScopeScheduling

from pages import CHROMIUMS, chromium, find_chromium

ROOT = Path(__file__).parents[1]
settings.register_profile("book", deadline=None)  # a busy machine is no fault of a law
settings.register_profile("thorough", deadline=None, max_examples=1000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "book"))
HOME = re.compile(r"(file|data|blob|about|chrome-error):|(http|ws)://127\.0\.0\.1[:/]")


# One process builds the site and looks through its files. The other has all that needs no site to do meanwhile, and
# when that is done the site is there: nobody waits. Many small pieces at the end let both finish together.
FIRST = "test_site", "test_reference"
LAST = "test_notebooks", "test_lab", "test_browser", "test_widget", "test_check", "test_look"


def pytest_collection_modifyitems(items):
    """Order the tests by what they wait for, and the pages as the book does."""
    places = {name: place for place, name in enumerate((*FIRST, None, *LAST))}
    items.sort(key=lambda item: places.get(item.path.stem, places[None]))


class Scopes(LoadScopeScheduling):
    """Share the tests out in their order: those that look at one page together, and others by their function."""

    def _split_scope(self, nodeid):
        file, _, test = nodeid.partition("::")
        name, _, parameter = test.partition("[")
        stem = Path(file).stem
        return "site" if stem in FIRST else f"page {parameter}" if stem == "test_browser" else f"{file}::{name}"


def pytest_xdist_make_scheduler(config, log):
    """Take the scheduler above; marks of groups, which pytest-xdist has for this, do nothing since pytest 9.2."""
    return Scopes(config, log)


@pytest.fixture(scope="session")
def browser():
    """Chromium; where there is none, tests that need it are skipped, and fail on CI."""
    path = find_chromium()
    if not path:
        reason = f"no browser: none of {', '.join(CHROMIUMS)} is installed, and CHROMIUM is not set"
        (pytest.fail if os.environ.get("CI") else pytest.skip)(reason)
    with chromium(path) as running:
        yield running


class Window:
    """A page of the browser, in a context of its own, that notes what goes wrong in it."""

    def __init__(self, browser, options):
        context = browser.new_context(**options)
        for event in ("console", "weberror", "request", "requestfailed"):
            context.on(event, getattr(self, event))
        self.options, self.page = options, context.new_page()
        self.page.set_default_timeout(60_000)
        self.trouble = []

    def open(self, url, blame, asked):
        self.url, self.blame, self.asked, self.trouble = url, blame, asked, []
        self.page.goto(url)

    def console(self, message):
        error = f"{message.text} ({message.location['url']})"
        if message.type == "error" and re.search(self.blame, error):
            self.trouble.append(f"{self.url}: console: {error}")

    def weberror(self, error):
        error = error.error.stack or str(error.error)
        if re.search(self.blame, error):
            self.trouble.append(f"{self.url}: {error}")

    def request(self, request):
        if self.asked is not None:
            self.asked.add(request.url)
        if not HOME.match(request.url):
            self.trouble.append(f"{self.url}: asked for {request.url}")

    def requestfailed(self, request):
        # A page without scripts loads none, and a page that closes loads nothing more.
        if request.failure not in ("csp", "net::ERR_ABORTED"):
            self.trouble.append(f"{self.url}: could not load {request.url}: {request.failure}")

    def forget(self):
        """Leave the page as if nobody had been there."""
        if self.options.get("java_script_enabled", True):
            self.page.evaluate("try { localStorage.clear(); sessionStorage.clear(); } catch { /* it has none */ }")
        self.page.goto("about:blank")
        self.page.set_viewport_size(self.options["viewport"])
        scheme, motion = self.options.get("color_scheme", "light"), self.options.get("reduced_motion", "no-preference")
        self.page.emulate_media(media="null", color_scheme=scheme, reduced_motion=motion)


@contextlib.contextmanager
def watched(browser, windows=None):
    """Give ``visit(url, blame=pattern, asked=set, own=False, **context options)``, which opens a page and watches it.

    At the end it fails the test if any page asked another host for anything, could not load something, logged an error
    or threw one. Of errors count those whose text or address matches ``blame``; without it all do. A new window is
    dearer than all that most tests do in it: where ``windows`` is a dictionary, the next visit with the same options
    takes an old one. A visit that gives a page scripts, routes or a clock says ``own``.
    """
    taken = []

    def opened(url, blame="", asked=None, own=False, **options):
        options = {"viewport": {"width": 1000, "height": 900}} | options
        kind = None if own or windows is None else repr(sorted(options.items()))
        window = (windows or {}).pop(kind, None) or Window(browser, options)
        taken.append((kind, window))
        window.open(url, blame, asked)
        return window.page

    yield opened
    for kind, window in taken:
        if kind and not window.page.is_closed():
            window.forget()
            windows[kind] = window
        else:
            window.page.context.close()
    trouble = dict.fromkeys(line for _, window in taken for line in window.trouble)
    assert not trouble, "\n".join(trouble)


@pytest.fixture(scope="session")
def windows() -> dict:
    """The windows that wait for the next visit."""
    return {}


@pytest.fixture
def visit(browser, windows):
    """Open a page, and fail the test on any trouble: see ``watched``."""
    with watched(browser, windows) as opened:
        yield opened


@pytest.fixture(scope="session")
def violations():
    """Return what axe-core finds wrong on a page, or in a context of it, as ``rule: element``."""
    from axe_playwright_python.sync_playwright import Axe

    axe = Axe()

    def found(page, context=None, **options):
        if not page.evaluate("'axe' in window"):
            page.evaluate(axe.axe_script)
        # Without preload, for axe would fetch style sheets by script, which no browser allows a page on disk.
        options |= {"resultTypes": ["violations"], "preload": False}
        run = "([where, how]) => axe.run(where ?? document, how).then(r => r.violations)"
        violations = page.evaluate(run, [context, options])
        return {f"{v['id']}: {' '.join(map(str, n['target']))}" for v in violations for n in v["nodes"]}

    return found


def table_of_contents() -> list[str]:
    """Return what ``_toc.yml`` lists, in its order, without suffix."""
    entries, files = [yaml.safe_load((ROOT / "_toc.yml").read_text())], []
    while entries:
        entry = entries.pop(0)
        files += [entry[key] for key in ("root", "file") if key in entry]
        entries += [child for key in ("parts", "chapters", "subtrees", "sections") for child in entry.get(key, ())]
    return files


def build_book(source, output):
    """Build the book at ``source`` as the README does, warnings being errors; return success, log and HTML folder.

    Nothing is there before: a second build would say nothing of a notebook that raises, and the execution cache would
    answer for it. Both lie under ``output``.
    """
    script, html = Path(sys.executable).with_name("jupyter-book"), output / "_build" / "html"
    command = [script, "build", "--path-output", output, "-W", "--keep-going", source]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=1800)
    reports = [path.read_text() for path in html.glob("reports/**/*.log")]
    return done.returncode == 0, "\n".join([done.stdout, *reports]), html


@pytest.fixture(scope="session")
def site(tmp_path_factory, worker_id):
    """The built book's folder, from a cold build: the first process that asks builds it, the others wait."""
    base = tmp_path_factory.getbasetemp()
    folder = (base if worker_id == "master" else base.parent) / "site"
    log = folder / "build.log"
    with FileLock(folder.with_suffix(".lock")):
        if not log.exists():
            folder.mkdir(parents=True)
            log.write_text("failed\nIt came to no end.")  # what another process is told where this one gives up
            built, said, _ = build_book(ROOT, folder)
            log.write_text(f"{'built' if built else 'failed'}\n{said}")
    verdict, said = log.read_text().split("\n", 1)
    if verdict != "built":
        pytest.fail(f"the book does not build:\n{said}", pytrace=False)
    html = folder / "_build" / "html"
    ran, chapters = said.count("Executed notebook in"), len(list(html.glob("_sources/**/*.ipynb")))
    assert ran == chapters, f"{ran} of {chapters} notebooks ran: the build was not cold"
    return html
