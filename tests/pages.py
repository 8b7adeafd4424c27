"""What the browser tests and the bench share: Chromium, JupyterLab, static pages, and what a figure shows."""

import contextlib
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from types import SimpleNamespace

import ipywidgets.embed

import book_widgets

CHROMIUMS = (
    "chromium",
    "chromium-browser",
    "google-chrome",
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
)
HOME = re.compile(r"(file|data|blob|about|chrome-error):|(http|ws)://127\.0\.0\.1[:/]")
CONTROLS = ".cl-controls :is(input:not(.cl-now), select)"  # a number typed beside a slider is asked on its own

MISPLACED = (Path(__file__).parent / "misplaced.js").read_text(encoding="utf-8")

# Everything that a reader sees move: the scene, the paths, the labels beside them with their places, and the read-outs.
# The names of curves and of bars are apart: where there is room for them depends on the screen.
DRAWN = """figure => ({
  scene: figure.querySelector(".cl-scene")?.innerHTML ?? "",
  paths: [...figure.querySelectorAll(".cl-area path:not(.cl-hair)")].map(p => p.getAttribute("d")),
  tags: [...figure.querySelectorAll(".cl-tag:not(.cl-along, .cl-kind)")].filter(t => !t.hidden).map(t => [
    t.className, t.textContent, ...["left", "bottom", "top"].map(side => Number.parseFloat(t.style[side]).toFixed(1))
  ]).sort(),
  readouts: Object.fromEntries([...figure.querySelectorAll(".cl-readouts div")].map(
    row => [row.querySelector("dt").textContent, row.querySelector("dd").textContent])),
})"""


def find_chromium() -> str | None:
    """Return the path of the system's Chromium; the environment variable CHROMIUM goes before."""
    return os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, CHROMIUMS)), None)


@contextlib.contextmanager
def chromium(path: str):
    """Run a browser that can speak to no other host than this one."""
    from playwright.sync_api import sync_playwright

    alone = ["--no-sandbox", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=alone)
        yield browser
        browser.close()


@contextlib.contextmanager
def jupyter_lab(notebooks: Path, scratch: Path):
    """Run a JupyterLab of its own over a folder; give its address, and the folder of its kernels' connection files."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    names = "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTERLAB_SETTINGS_DIR", "JUPYTERLAB_WORKSPACES_DIR"
    own = {name: str(scratch / name.lower()) for name in (*names, "JUPYTER_RUNTIME_DIR")}
    options = {"ip": "127.0.0.1", "port": port, "port_retries": 0, "root_dir": notebooks}
    command = [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", "--IdentityProvider.token="]
    command += ["--LabApp.news_url=None", *(f"--ServerApp.{name}={value}" for name, value in options.items())]
    url, log, deadline = f"http://127.0.0.1:{port}", scratch / "lab.log", time.monotonic() + 60
    with log.open("w") as out:
        server = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, env=os.environ | own)
        try:
            while True:
                with contextlib.suppress(OSError):
                    urllib.request.urlopen(f"{url}/api/status", timeout=5).close()
                    break
                if server.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError(f"JupyterLab did not start:\n{log.read_text()}")
                time.sleep(0.2)
            yield url, Path(own["JUPYTER_RUNTIME_DIR"])
        finally:
            server.terminate()
            server.wait(30)


def run_all_cells(page, widget=".cl-explorer"):
    """Run the notebook that JupyterLab shows, and wait until no cell of it is waiting for its kernel."""
    page.set_default_timeout(60_000)
    page.locator(".jp-MarkdownCell h1").first.wait_for()
    page.locator("#jp-main-statusbar").get_by_text("| Idle").wait_for()
    page.get_by_role("menuitem", name="Run", exact=True).click()
    page.get_by_role("menuitem", name="Run All Cells", exact=True).click()
    page.locator(f".jp-Notebook {widget}[data-ready]").first.wait_for(state="attached")
    page.locator(".jp-Notebook-ExecutionIndicator[data-status='idle']").wait_for()
    page.wait_for_function("![...document.querySelectorAll('.jp-InputPrompt')].some(p => p.textContent.includes('*'))")


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
        if self.options.get("java_script_enabled", True):  # what is for a second reading is looked at, too
            self.page.evaluate("document.querySelectorAll('details.second').forEach(fold => { fold.open = true; })")

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
        # Pictures that move would have to be waited for.
        options = {"viewport": {"width": 1000, "height": 900}, "reduced_motion": "reduce"} | options
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


def static_page(*widgets) -> str:
    """Build a whole HTML page that shows the widgets as the book does, and nothing else."""
    state = ipywidgets.embed.dependency_state(widgets, drop_defaults=False)
    views = "".join(
        f'<script type="application/vnd.jupyter.widget-view+json">{{"model_id": "{w.model_id}"}}</script>'
        for w in widgets
    )
    embedded = SimpleNamespace(attributes={"type": book_widgets.STATE, "body": json.dumps({"state": state})})
    context = {"script_files": [embedded], "body": views}
    kinds, models, css = book_widgets.find_widgets("test", context)
    host = (book_widgets.HERE / "assets" / "widget_host.js").read_text(encoding="utf-8")
    started = book_widgets.start_script(models, "")
    scripts = [host, *(book_widgets.kind_script(*kind) for kind in kinds.items()), started]
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Widgets</title>'
        f'<meta name="viewport" content="width=device-width"><style>{css}</style></head>'
        f"<body><main><h1>Widgets</h1>{context['body']}</main>"
        f"{''.join(f'<script>{text}</script>' for text in scripts)}</body></html>"
    )


def drawn(figure) -> dict:
    """Return what a figure (a Playwright locator) shows: its scene, paths, labels with their places, read-outs."""
    return figure.evaluate(DRAWN)


def widgets_ready(page) -> list:
    """Wait until every widget of the page runs, and return its figures; a check is a widget, and no figure."""
    page.wait_for_function(
        """() => { const hosts = [...document.querySelectorAll(".widget-host")];
                   return hosts.every(host => host.querySelector("[data-ready]")); }"""
    )
    return page.locator(".widget-host .cl-explorer").all()


def commit_prediction(page, figure, answer: int = 0) -> bool:
    """Answer, by keyboard, the question that some figures ask first; return whether this one did."""
    if not figure.locator(".cl-predict:visible").count():
        return False
    figure.locator(".cl-predict input").first.press("Space")
    for _ in range(answer):
        page.keyboard.press("ArrowDown")
    figure.locator(".cl-predict input:checked").press("Enter")
    return True


def keys(kind: str, options: int) -> list[str]:
    """Return keys that move a control: a little, for the next control may rest on it, and if need be to its ends."""
    if kind == "checkbox":
        return ["Space"]
    if kind == "range":
        return ["ArrowLeft", *["ArrowRight"] * 2, "Home", *["PageUp"] * 10, "End"]
    return ["ArrowUp"] * (options - 1) + ["ArrowDown"] * (options - 1)


# What a control is: its kind, and how many there are to choose from.
KIND = "({ type, options }) => [options ? 'select' : type, options?.length ?? 0]"


def move_by_keyboard(figure, control) -> bool:
    """Press keys on a control, up to its last stop, until its figure shows something else; return whether it did."""
    before = drawn(figure)
    for key in keys(*control.evaluate(KIND)):
        control.press(key)
        if drawn(figure) != before:
            return True
    return False
