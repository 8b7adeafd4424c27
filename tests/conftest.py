"""What the tests share: a browser that may speak to nobody, the built site, and how nbval compares."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
HOME = re.compile(r"(file|data|blob|about|chrome-error):|(http|ws)://127\.0\.0\.1[:/]")
CHROMIUMS = "chromium", "chromium-browser", "google-chrome"


def pytest_collectstart(collector):
    """Let nbval compare text, and not what committed notebooks leave out: pictures and HTML."""
    if hasattr(collector, "skip_compare"):
        pictures = "image/svg+xml", "text/html"
        collector.skip_compare += pictures + tuple(f"application/papermill.record/{kind}" for kind in pictures)


@pytest.fixture(scope="session")
def browser():
    """Chromium; where there is none, tests that need it are skipped, and fail on CI."""
    path = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, CHROMIUMS)), None)
    if not path:
        reason = f"no browser: none of {', '.join(CHROMIUMS)} is installed, and CHROMIUM is not set"
        (pytest.fail if os.environ.get("CI") else pytest.skip)(reason)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(
            executable_path=path,
            args=["--no-sandbox", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"],
        )
        yield chromium
        chromium.close()


@pytest.fixture
def visit(browser):
    """Open a page: ``visit(url, **context options)``.

    The test fails if any page asked another host for anything, logged an error or threw one.
    """
    trouble, contexts = [], []

    def heard(message):
        if message.type == "error":
            trouble.append(f"{message.page.url}: console: {message.text}")

    def asked(request):
        if not HOME.match(request.url):
            trouble.append(f"{request.frame.url}: asked for {request.url}")

    def opened(url, **options):
        context = browser.new_context(**{"viewport": {"width": 1000, "height": 900}} | options)
        contexts.append(context)
        context.on("request", asked)
        context.on("console", heard)
        context.on("weberror", lambda e: trouble.append(f"{e.page.url if e.page else url}: threw {e.error}"))
        context.on("requestfailed", lambda r: trouble.append(f"{url}: could not load {r.url}: {r.failure}"))
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
        response = Axe().run(page).response
        return {f"{v['id']}: {' '.join(map(str, n['target']))}" for v in response["violations"] for n in v["nodes"]}

    return found


def build_book(source, output):
    """Build the book at ``source`` as the README does, warnings being errors; return the process and its HTML folder.

    Nothing is there before: a second build would say nothing of a notebook that raises, and the execution cache would
    answer for it. Both lie under ``output``.
    """
    script = Path(sys.executable).with_name("jupyter-book")
    command = [script, "build", "--path-output", output, "-W", "--keep-going", source]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=600)
    return done, output / "_build" / "html"


@pytest.fixture(scope="session")
def site(tmp_path_factory):
    """The built book's folder, from a cold build."""
    output = tmp_path_factory.mktemp("site")
    done, html = build_book(ROOT, output)
    if done.returncode:
        pytest.fail(f"the book does not build:\n{done.stdout}", pytrace=False)
    ran = done.stdout.count("Executed notebook in")
    chapters = len(list(html.rglob("_sources/**/*.ipynb")))
    assert ran == chapters, f"{ran} of {chapters} notebooks ran: the build was not cold"
    return html
