"""How fast a figure answers: an Explorer on a static page, and ``interactive`` with matplotlib in JupyterLab.

``python bench/widget.py`` prints the median time from a key press on the slider to the end of the frame that shows the
new picture, for the same curve, on this machine; and how soon and how light the static page is. It needs Chromium.
"""

import gzip
import statistics
import sys
import tempfile
from pathlib import Path

import nbformat

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "sphinx_ext")]

from pages import chromium, find_chromium, jupyter_lab, run_all_cells, static_page, widgets_ready  # noqa: E402

STEPS, LOADS = 40, 7

CURVE = """
import numpy as np
from explorable import Axis, Explorer, Picture, Slider
from clusterlab.roofline import attainable
from clusterlab.units import fmt

x, stops = np.geomspace(1, 4096, 100), [2**i for i in range(64)]
def rate(n):
    return attainable(x, 1e12 * (1 + stops.index(n)), 3.35e12)
explorer = Explorer(
    lambda n: Picture(curves={"Rate": rate(n)}, readouts={"Peak": fmt(rate(n).max(), "FLOP/s")}),
    controls={"n": Slider("Peak", stops)},
    x=Axis("Intensity", "FLOP/byte", log=True, values=x),
    y=Axis("Rate", "FLOP/s", log=True),
    title="A roofline",
)
"""
INTERACTIVE = """
import ipywidgets
import matplotlib.pyplot as plt
def draw(n):
    plt.loglog(x, rate(stops[n]))
    plt.xlabel("Intensity (FLOP/byte)")
    plt.ylabel("Rate (FLOP/s)")
    plt.ylim(1e12, 1e14)
    plt.show()
ipywidgets.interactive(draw, n=ipywidgets.IntSlider(0, 0, 63))
"""

# From the key's own time stamp, by way of the change that ``what`` names, to the end of the frame that paints it.
CLOCK = """([root, what]) => {
  window.steps = [];
  const look = () => { const p = root.querySelector(what); return p && (p.getAttribute("d") ?? p.src); };
  let pressed = null, shown = look();
  addEventListener("keydown", e => { pressed = e.timeStamp; }, true);
  new MutationObserver(async () => {
    const start = pressed, now = look();
    if (start === null || !now || now === shown) return;
    [pressed, shown] = [null, now];
    await root.querySelector(what).decode?.();
    requestAnimationFrame(() => {
      const after = new MessageChannel();
      after.port1.onmessage = () => window.steps.push(performance.now() - start);
      after.port2.postMessage(0);
    });
  }).observe(root, { subtree: true, childList: true, attributes: true, attributeFilter: ["d", "src"] });
}"""
READY = """new MutationObserver((_, watch) => {
  if (document.querySelector("[data-ready]")) { window.ready = performance.now(); watch.disconnect(); }
}).observe(document, { subtree: true, childList: true, attributes: true });"""


def step_times(page, slider, root, what: str) -> list[float]:
    """Press an arrow key on a slider, again and again; return the milliseconds until each new picture."""
    page.evaluate(CLOCK, [root.element_handle(), what])
    slider.focus()
    for done in range(STEPS):
        page.keyboard.press("ArrowRight")
        page.wait_for_function("done => window.steps.length > done", arg=done)
        page.wait_for_timeout(50)
    return page.evaluate("window.steps")


def static(browser, folder: Path) -> dict[str, float]:
    """Return what a static page with one Explorer takes."""
    namespace: dict = {}
    exec(CURVE, namespace)
    html = static_page(namespace["explorer"])
    (folder / "page.html").write_text(html)
    painted, ready = [], []
    for _ in range(LOADS):
        page = browser.new_page()
        page.add_init_script(READY)
        page.goto((folder / "page.html").as_uri())
        (figure,) = widgets_ready(page)
        page.wait_for_function("performance.getEntriesByName('first-contentful-paint').length > 0")
        painted.append(page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime"))
        ready.append(page.evaluate("window.ready"))
    return {
        "step": statistics.median(step_times(page, figure.locator("[name=n]"), figure, ".cl-curve")),
        "paint": statistics.median(painted),
        "ready": statistics.median(ready),
        "weight": len(gzip.compress(html.encode())) / 1000,
    }


def lab(browser, folder: Path) -> dict[str, float]:
    """Return what the same step takes in JupyterLab, made by an Explorer and by ``interactive``."""
    cells = [nbformat.v4.new_markdown_cell("# Bench"), nbformat.v4.new_code_cell(CURVE + "explorer")]
    cells.append(nbformat.v4.new_code_cell(INTERACTIVE))
    python = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata=python), folder / "bench.ipynb")
    times = {}
    with jupyter_lab(folder, folder) as (url, _):
        for name, root, slider, what in [
            ("explorer", ".cl-explorer", "[name=n]", ".cl-curve"),
            ("interactive", ".widget-interact", ".noUi-handle", "img"),
        ]:
            page = browser.new_page(viewport={"width": 1000, "height": 1600})
            page.goto(f"{url}/lab/tree/bench.ipynb?reset")
            run_all_cells(page)
            page.locator(".widget-interact img").wait_for()
            handle = page.locator(f"{root} {slider}").first
            # JupyterLab keeps arrow keys for itself unless told otherwise; an Explorer tells it.
            handle.evaluate("e => { e.dataset.lmSuppressShortcuts = 'true'; }")
            times[name] = statistics.median(step_times(page, handle, page.locator(root).first, what))
            page.close()
    return times


def main() -> None:
    """Measure, and print the table."""
    path = find_chromium()
    if not path:
        sys.exit("no Chromium here: install it, or name it in the environment variable CHROMIUM")
    with tempfile.TemporaryDirectory() as name, chromium(path) as browser:
        page, kernel = static(browser, Path(name)), lab(browser, Path(name))
    rows = [
        ("key press to new picture, Explorer on a static page", page["step"], "ms"),
        ("key press to new picture, Explorer in JupyterLab", kernel["explorer"], "ms"),
        ("key press to new picture, interactive + matplotlib in JupyterLab", kernel["interactive"], "ms"),
        ("ratio of the last to the first", kernel["interactive"] / page["step"], "x"),
        ("static page: first contentful paint", page["paint"], "ms"),
        ("static page: widget answers", page["ready"], "ms"),
        ("static page: weight, gzipped, everything in it", page["weight"], "kB"),
    ]
    print(f"Medians of {STEPS} steps and {LOADS} loads in headless Chromium {browser.version}")
    for what, value, unit in rows:
        print(f"{what:<66}{value:>8.1f} {unit}")


if __name__ == "__main__":
    main()
