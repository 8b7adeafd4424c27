"""What the browser tests and the bench share: static pages, and what an Explorer's figure shows."""

import json
from types import SimpleNamespace

import book_widgets
import ipywidgets.embed

CONTROLS = ".cl-controls :is(input, select)"

# Everything that a reader sees move: the paths, the labels beside them with their places, and the read-outs.
_DRAWN = """figure => ({
  paths: [...figure.querySelectorAll(".cl-area path:not(.cl-hair)")].map(p => p.getAttribute("d")),
  tags: [...figure.querySelectorAll(".cl-tag")].filter(t => !t.hidden).map(t => [
    t.className, t.textContent, ...["left", "bottom", "top"].map(side => Number.parseFloat(t.style[side]).toFixed(1))
  ]).sort(),
  readouts: Object.fromEntries([...figure.querySelectorAll(".cl-readouts div")].map(
    row => [row.querySelector("dt").textContent, row.querySelector("dd").textContent])),
})"""


def static_page(*widgets) -> str:
    """Build a whole HTML page that shows the widgets as the book does, and nothing else."""
    state = ipywidgets.embed.dependency_state(widgets, drop_defaults=False)
    views = "".join(
        f'<script type="application/vnd.jupyter.widget-view+json">{{"model_id": "{w.model_id}"}}</script>'
        for w in widgets
    )
    embedded = SimpleNamespace(attributes={"type": book_widgets.STATE, "body": json.dumps({"state": state})})
    context = {"script_files": [embedded], "body": views}
    book_widgets.place_widgets(SimpleNamespace(add_js_file=lambda *_, **__: None), "test", "", context, None)
    host = (book_widgets.HERE / "assets" / "widget_host.js").read_text()
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>t</title>'
        f'<meta name="viewport" content="width=device-width">{context["metatags"]}</head>'
        f"<body><main>{context['body']}</main><script>{host}</script></body></html>"
    )


def drawn(figure) -> dict:
    """Return what a figure (a Playwright locator) shows: paths, labels with their places, read-outs."""
    return figure.evaluate(_DRAWN)


def widgets_ready(page) -> list:
    """Wait until every widget of the page runs, and return their figures."""
    page.wait_for_function(
        """() => { const hosts = [...document.querySelectorAll(".widget-host")];
                   return hosts.every(host => host.querySelector("[data-ready]")); }"""
    )
    return page.locator(".cl-explorer").all()


def commit_prediction(page, figure, answer: int = 0) -> bool:
    """Answer, by keyboard, the question that some figures ask first; return whether this one did."""
    if not figure.locator(".cl-predict").count():
        return False
    figure.locator(".cl-predict input").first.focus()
    page.keyboard.press("Space")
    for _ in range(answer):
        page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    return True


def move_by_keyboard(page, figure, control) -> bool:
    """Press keys on a control, up to its last stop, until its figure shows something else; return whether it did."""
    before = drawn(figure)
    control.focus()
    if control.get_attribute("type") == "checkbox":
        keys = ["Space"]
    else:
        stops = control.evaluate("c => c.options ? c.options.length : Number(c.max) + 1")
        keys = ["ArrowLeft"] * stops + ["ArrowRight"] * stops
    for key in keys:
        page.keyboard.press(key)
        if drawn(figure) != before:
            return True
    return False
