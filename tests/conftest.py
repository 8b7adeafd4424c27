"""What the tests share: a browser that may speak to nobody, the built site, and how nbval compares."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import settings
from xdist.scheduler import LoadScopeScheduling

from pages import CHROMIUMS, chromium, find_chromium

ROOT = Path(__file__).parents[1]
settings.register_profile("book", deadline=None)  # a busy machine is no fault of a law
settings.register_profile("thorough", deadline=None, max_examples=1000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "book"))
HOME = re.compile(r"(file|data|blob|about|chrome-error):|(http|ws)://127\.0\.0\.1[:/]")


def pytest_collectstart(collector):
    """Let nbval compare text, and not what committed notebooks leave out: pictures and HTML."""
    if hasattr(collector, "skip_compare"):
        pictures = "image/svg+xml", "text/html"
        collector.skip_compare += pictures + tuple(f"application/papermill.record/{kind}" for kind in pictures)


def pytest_collection_modifyitems(items):
    """Begin with what takes longest, so that no process waits for it at the end."""
    first = ["test_site", "test_reference", "test_look", "test_notebooks", "test_lab"]
    items.sort(key=lambda item: first.index(item.path.stem) if item.path.stem in first else len(first))


class OneSite(LoadScopeScheduling):
    """Share the tests out in their order; those of the site go together, so that one process builds it."""

    def _split_scope(self, nodeid):
        file, _, test = nodeid.partition("::")
        whole = dict.fromkeys(("tests/test_site.py", "tests/test_reference.py", "tests/test_look.py"), "site")
        whole["tests/test_notebooks.py"] = nodeid
        return whole.get(file, f"{file}::{test.partition('[')[0]}")


def pytest_xdist_make_scheduler(config, log):
    """Take the scheduler above; marks of groups, which pytest-xdist has for this, do nothing since pytest 9.2."""
    return OneSite(config, log)


@pytest.fixture(scope="session")
def browser():
    """Chromium; where there is none, tests that need it are skipped, and fail on CI."""
    path = find_chromium()
    if not path:
        reason = f"no browser: none of {', '.join(CHROMIUMS)} is installed, and CHROMIUM is not set"
        (pytest.fail if os.environ.get("CI") else pytest.skip)(reason)
    with chromium(path) as running:
        yield running


@pytest.fixture
def visit(browser):
    """Open a page: ``visit(url, blame=pattern, **context options)``.

    The test fails if any page asked another host for anything, could not load something, logged an error or threw one.
    Of errors count those whose text or address matches ``blame``; without it all do.
    """
    trouble, contexts = [], []

    def opened(url, blame="", **options):
        context = browser.new_context(**{"viewport": {"width": 1000, "height": 900}} | options)
        contexts.append(context)

        def heard(message):
            error = f"{message.text} ({message.location['url']})"
            if message.type == "error" and re.search(blame, error):
                trouble.append(f"{url}: console: {error}")

        def threw(error):
            error = error.error.stack or str(error.error)
            if re.search(blame, error):
                trouble.append(f"{url}: {error}")

        def asked(request):
            if not HOME.match(request.url):
                trouble.append(f"{url}: asked for {request.url}")

        def failed(request):
            # A page without scripts loads none, and a page that closes loads nothing more.
            if request.failure not in ("csp", "net::ERR_ABORTED"):
                trouble.append(f"{url}: could not load {request.url}: {request.failure}")

        for event, hear in {"console": heard, "weberror": threw, "request": asked, "requestfailed": failed}.items():
            context.on(event, hear)
        page = context.new_page()
        page.set_default_timeout(15_000)
        page.goto(url)
        return page

    yield opened
    for context in contexts:
        context.close()
    assert not trouble, "\n".join(dict.fromkeys(trouble))


@pytest.fixture
def violations():
    """Return what axe-core finds wrong on a page, as ``rule: element``."""
    from axe_playwright_python.sync_playwright import Axe

    def found(page):
        # Without preload, for axe would fetch style sheets by script, which no browser allows a page on disk.
        response = Axe().run(page, options={"resultTypes": ["violations"], "preload": False}).response
        return {f"{v['id']}: {' '.join(map(str, n['target']))}" for v in response["violations"] for n in v["nodes"]}

    return found


def build_book(source, output):
    """Build the book at ``source`` as the README does, warnings being errors; return success, log and HTML folder.

    Nothing is there before: a second build would say nothing of a notebook that raises, and the execution cache would
    answer for it. Both lie under ``output``.
    """
    script, html = Path(sys.executable).with_name("jupyter-book"), output / "_build" / "html"
    command = [script, "build", "--path-output", output, "-W", "--keep-going", source]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=600)
    reports = [path.read_text() for path in html.glob("reports/**/*.log")]
    return done.returncode == 0, "\n".join([done.stdout, *reports]), html


@pytest.fixture(scope="session")
def site(tmp_path_factory):
    """The built book's folder, from a cold build."""
    built, log, html = build_book(ROOT, tmp_path_factory.mktemp("site"))
    if not built:
        pytest.fail(f"the book does not build:\n{log}", pytrace=False)
    ran, chapters = log.count("Executed notebook in"), len(list(html.glob("_sources/**/*.ipynb")))
    assert ran == chapters, f"{ran} of {chapters} notebooks ran: the build was not cold"
    return html
