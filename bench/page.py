"""How light and how soon a page is: what it weighs, when it paints, when its controls answer.

``python bench/page.py`` serves the built book as a static host does, gzipped, and prints for the index and every
chapter the weight of all that a cold load asks for, and medians over loads on this machine. ``--lighthouse`` adds the
mobile performance score of Lighthouse (needs Node's ``npx``, which fetches it). It needs Chromium, and ``make book``
before.
"""

import contextlib
import functools
import gzip
import http.server
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

ROOT = Path(__file__).parents[1]
SITE = ROOT / "_build" / "html"
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "sphinx_ext")]

from pages import chromium, find_chromium  # noqa: E402

LOADS = 5
LIGHTHOUSE = "lighthouse@13"
TEXT = {".html", ".css", ".js", ".svg", ".json"}

# When every figure of the page answers, seen from inside the page.
WATCH = """new MutationObserver((_, watch) => {
  const hosts = document.querySelectorAll(".widget-host").length;
  if (hosts && document.querySelectorAll(".widget-host [data-ready]").length === hosts) {
    window.live = performance.now();
    watch.disconnect();
  }
}).observe(document, { subtree: true, childList: true, attributes: true, attributeFilter: ["data-ready"] });"""


class Host(http.server.SimpleHTTPRequestHandler):
    """A static host: text is sent gzipped, and each body's bytes are counted."""

    protocol_version = "HTTP/1.1"
    sent = 0

    def log_message(self, *_):
        """Say nothing."""

    def do_GET(self):
        """Send a file."""
        path = Path(self.translate_path(self.path))
        if not path.is_file():
            self.send_error(404)
            return
        body = path.read_bytes()
        self.send_response(200)
        self.send_header("Content-Type", self.guess_type(path))
        if path.suffix in TEXT:
            body = compressed(path)
            self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        Host.sent += len(body)
        self.wfile.write(body)


@functools.cache
def compressed(path: Path) -> bytes:
    """Return a file as it travels."""
    return gzip.compress(path.read_bytes(), 6)


@contextlib.contextmanager
def served(folder: Path):
    """Serve a folder on this machine; give its address."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Host, directory=folder)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def load(browser, url: str) -> tuple[float, float, float | None]:
    """Load a page cold; return its kilobytes, and the milliseconds to its first paint and to live controls."""
    context, Host.sent = browser.new_context(viewport={"width": 1280, "height": 900}), 0
    page = context.new_page()
    page.add_init_script(WATCH)
    page.goto(url, wait_until="networkidle")
    if page.locator(".widget-host").count():
        page.wait_for_function("window.live")
    paint = page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
    live = page.evaluate("window.live ?? null")
    context.close()
    return Host.sent / 1000, paint, live


def lighthouse(chrome: str, url: str) -> float:
    """Return Lighthouse's score for performance on a telephone, of 1."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        command = ["npx", "--yes", LIGHTHOUSE, url, "--quiet", "--only-categories=performance"]
        command += ["--output=json", f"--output-path={report}", "--chrome-flags=--headless=new --no-sandbox"]
        subprocess.run(command, check=True, cwd=folder, env=os.environ | {"CHROME_PATH": chrome}, timeout=300)
        return json.loads(report.read_text())["categories"]["performance"]["score"]


def main() -> None:
    """Measure, and print the table."""
    path = find_chromium()
    if not path:
        sys.exit("no Chromium here: install it, or name it in the environment variable CHROMIUM")
    names = sorted(f"book/{file.stem}.html" for file in (ROOT / "book").glob("*.ipynb"))
    if not (SITE / names[0]).is_file():
        sys.exit("no book here: make book")
    scored = "--lighthouse" in sys.argv[1:]
    print(f"{'page':<28}{'weight':>10}{'paint':>10}{'live':>10}{'Lighthouse' if scored else '':>12}")
    with served(SITE) as root, chromium(path) as browser:
        for name in names:
            loads = [load(browser, f"{root}/{name}") for _ in range(LOADS)]
            weight, paint = loads[0][0], statistics.median(paint for _, paint, _ in loads)
            lives = [live for _, _, live in loads if live is not None]
            live = f"{statistics.median(lives):.0f} ms" if lives else ""
            score = f"{lighthouse(path, f'{root}/{name}'):.2f}" if scored else ""
            print(f"{name:<28}{weight:>7.0f} kB{paint:>7.0f} ms{live:>10}{score:>12}", flush=True)


if __name__ == "__main__":
    main()
