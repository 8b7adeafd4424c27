"""What the tests share: a browser that may speak to nobody, the built site, and the order of the tests."""

import functools
import os
from pathlib import Path

import pytest
from filelock import FileLock
from hypothesis import settings
from nbval.plugin import IPyNbFile
from xdist.scheduler import LoadScopeScheduling

from building import ROOT, build_book
from pages import CHROMIUMS, chromium, find_chromium, watched
from replay import Replay, executed

settings.register_profile("book", deadline=None)  # a busy machine is no fault of a law
settings.register_profile("thorough", deadline=None, max_examples=1000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "book"))


# One process builds the site and looks through its files. The other has all that needs no site to do meanwhile, and
# when that is done the site is there: nobody waits. Many small pieces at the end let both finish together.
FIRST = "test_site", "test_reference"
LAST = "test_card", "test_catalogue_tables", "test_symptoms", "test_notebooks", "test_lab", "test_browser"
LAST += "test_widget", "test_check", "test_look", "test_slides"
SAMPLE = "[book/index]", "[book/roofline]"  # what make test opens in a browser; make test-all opens every page
# Examples of docstrings that fit for longer than a second; an example can't carry a mark of its own.
FITTING = "learn_untimed_spreads", "collective_coverage", "calibration_worth"


def pytest_collection_modifyitems(config, items):
    """Order the tests by what they wait for, and the pages as the book does.

    Where nbval runs beside the tests of the site, each chapter is executed once, by the site's build, and nbval
    compares what that printed. Alone (``pytest --nbval book``) it does not read this file, and has its own kernels.
    """
    for item in items:
        unsampled = item.path.stem == "test_browser" and not item.name.endswith(SAMPLE)
        if unsampled or (isinstance(item, pytest.DoctestItem) and item.name.endswith(FITTING)):
            item.add_marker("slow")
    places = {name: place for place, name in enumerate((*FIRST, None, "nbval", *LAST))}
    cells = {item: item.parent for item in items if isinstance(item.parent, IPyNbFile)}
    items.sort(key=lambda item: places.get("nbval" if item in cells else item.path.stem, places[None]))
    for notebook in dict.fromkeys(cells.values()):
        notebook.setup = functools.partial(answer_for, config, notebook)


def answer_for(config, notebook):
    """Let the build's kernel answer for a notebook."""
    notebook.kernel = Replay(executed(built(config._tmp_path_factory, worker(config)), notebook.path))


class Scopes(LoadScopeScheduling):
    """Share the tests out in their order: those that look at one page together, and others by their function."""

    def _split_scope(self, nodeid):
        file, _, test = nodeid.partition("::")
        name, _, parameter = test.partition("[")
        stem = Path(file).stem
        if file.endswith(".ipynb") or stem in ("test_lab", "test_online_runs"):
            return file  # what is dear is made once: a chapter's cells, a JupyterLab, fits without a model or a machine
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
    script = (ROOT / "vendor/axe/axe.min.js").read_text(encoding="utf-8")

    def found(page, context=None, **options):
        if not page.evaluate("'axe' in window"):
            page.evaluate(script)
        # Without preload, for axe would fetch style sheets by script, which no browser allows a page on disk.
        options |= {"resultTypes": ["violations"], "preload": False}
        run = "([where, how]) => axe.run(where ?? document, how).then(r => r.violations)"
        violations = page.evaluate(run, [context, options])
        return {f"{v['id']}: {' '.join(map(str, n['target']))}" for v in violations for n in v["nodes"]}

    return found


def worker(config) -> str:
    """The name of this process among those that share the tests out."""
    return getattr(config, "workerinput", {}).get("workerid", "master")


def built(tmp_path_factory, worker_id):
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


@pytest.fixture(scope="session")
def site(tmp_path_factory, worker_id):
    """The built book's folder."""
    return built(tmp_path_factory, worker_id)
