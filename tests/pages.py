"""Static pages for the browser tests, built by the same extension that builds the book."""

from types import SimpleNamespace

import book_widgets
import ipywidgets.embed


def static_page(*widgets) -> str:
    """A whole HTML page that shows the widgets as the book does, and nothing else."""
    state = ipywidgets.embed.dependency_state(widgets, drop_defaults=False)
    views = "".join(
        f'<script type="application/vnd.jupyter.widget-view+json">{{"model_id": "{w.model_id}"}}</script>'
        for w in widgets
    )
    embedded = SimpleNamespace(attributes={"type": book_widgets.STATE, "body": _json({"state": state})})
    context = {"script_files": [embedded], "body": views}
    book_widgets.place_widgets(SimpleNamespace(add_js_file=lambda *_, **__: None), "test", "", context, None)
    host = (book_widgets.HERE / "assets" / "widget_host.js").read_text()
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>t</title>'
        f'<meta name="viewport" content="width=device-width">{context["metatags"]}</head>'
        f"<body><main>{context['body']}</main><script>{host}</script></body></html>"
    )


def _json(value):
    import json

    return json.dumps(value)
