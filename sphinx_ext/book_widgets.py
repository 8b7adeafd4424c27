"""Sphinx extension: anywidgets on a static page, with no kernel, no CDN and nothing but a small script.

A default build loads RequireJS and the whole ipywidgets manager from a CDN before a widget appears. This one keeps the
widget state that myst-nb embeds, takes out of it what the page needs, and lets ``widget_host.js`` run each widget's own
script. Where a widget carries its starting picture as markup (the trait ``_html``), the page shows it before any script
runs, and also where none ever does.
"""

from __future__ import annotations

import hashlib
import html
import json
import os
import posixpath
import re
from pathlib import Path

from docutils import nodes
from sphinx.util import logging

HERE = Path(__file__).parent
LIBRARIES = HERE.parent / "lib", HERE.parent / "book" / "drawings"
STATE = "application/vnd.jupyter.widget-state+json"
VIEW = re.compile(r'<script type="application/vnd\.jupyter\.widget-view\+json">(.*?)</script>', re.DOTALL)

SHORTEST = 50  # characters of a description that says something

log = logging.getLogger(__name__)


def setup(app):
    """Register with Sphinx."""
    app.add_config_value("library_digest", "", "env")
    app.connect("config-inited", configure, priority=1)
    app.connect("source-read", part_citations)
    app.connect("html-page-context", tidy_page, priority=890)
    app.connect("html-page-context", place_widgets, priority=900)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}


def configure(app, config):
    """Load nothing from a CDN, and run every notebook again when the library changes."""
    config.nb_ipywidgets_js = {}
    add_repository(config)
    app.add_css_file("book.css", priority=800)
    config.library_digest = library_digest()
    if config.nb_execution_mode == "cache":
        cache = Path(config.nb_execution_cache_path or Path(app.outdir).parent / ".jupyter_cache")
        config.nb_execution_cache_path = str(cache / config.library_digest)


def library_digest():
    """Return a name for the library and the drawings as they are: what notebooks printed with others is no use."""
    digest = hashlib.sha256()
    paths = (path for library in LIBRARIES for path in library.rglob("*") if path.is_file())
    for path in sorted(p for p in paths if not {"__pycache__", "clusterlab.egg-info"} & set(p.parts)):
        digest.update(path.relative_to(HERE.parent).as_posix().encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def add_repository(config):
    """Point the launch and edit buttons to the repository in ``BOOK_REPOSITORY``; without it there are none."""
    url = os.environ.get("BOOK_REPOSITORY", "").rstrip("/")
    if url:
        config.html_theme_options |= {
            "repository_url": url,
            "repository_branch": os.environ.get("BOOK_BRANCH", "main"),
            "path_to_docs": "",
            "use_repository_button": True,
            "use_edit_page_button": True,
            "use_issues_button": True,
            "launch_buttons": {"binderhub_url": "https://mybinder.org", "notebook_interface": "jupyterlab"},
        }


def part_citations(app, docname, source):
    """Give every chapter a bibliography of its own: Sphinx wants the same key in two of them told apart by a prefix."""
    prefix = f"{Path(docname).name}-"

    def keys(role):
        return role[1] + ",".join(prefix + key.strip() for key in role[2].split(",")) + "`"

    text = re.sub(r"(\{cite:[a-z]+\}`)([^`]+)`", keys, source[0])
    newline = "\\n" if text.lstrip().startswith("{") else "\n"  # a notebook is JSON
    filters = ":filter: docname in docnames"
    source[0] = text.replace(filters, f"{filters}{newline}:keyprefix: {prefix}")


def tidy_page(app, pagename, templatename, context, doctree):
    """Give the page a description, and mend what the theme and its extensions leave wrong."""
    if doctree is not None:
        opening = ""
        for paragraph in doctree.findall(nodes.paragraph):
            if len(opening) < SHORTEST:
                opening += f" {paragraph.astext()}"
        description = html.escape(" ".join(opening.split())[:200], quote=True)
        context["metatags"] = context.get("metatags", "") + f'<meta name="description" content="{description}">'
    if "body" in context:  # docutils gives each reference a role that a list may not contain
        context["body"] = to_pages(context["body"]).replace('role="doc-biblioentry"', 'role="listitem"')
        # A fold's name is what it shows, not the theme's word for every one of them.
        context["body"] = context["body"].replace('<summary aria-label="Toggle hidden content">', "<summary>")


def place_widgets(app, pagename, templatename, context, doctree):
    """Put a host where each widget is shown, and what its script needs into files beside the page."""
    found = find_widgets(pagename, context)
    if found is None:
        return
    kinds, models, css = found
    for missing in sorted(lost_links(app, pagename, models)):
        log.warning("%s: a figure leads to %s, and there is no such page", pagename, missing)
    root = context["pathto"]("_static/widget_host.js", 1).removesuffix("_static/widget_host.js")
    files = {f"_static/widgets/{name}.js": kind_script(name, source) for name, source in kinds.items()}
    tables = {}
    for number, (model_id, model) in enumerate(models.items()):
        if table := table_script(model_id, model):
            name = f"_widgets/{pagename}/{number}.js"
            tables[name] = table
            model["table"] = f"{name}?v={digest_of(table)}"
    files[f"_widgets/{pagename}.js"] = start_script(models, root)
    for name, text in (files | tables).items():
        path = Path(app.outdir) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    # They stand before the text, so that of all that waits for the first paint they come first: see layout.html.
    digests = {name: digest_of(text) for name, text in files.items()}
    urls = ["_static/widget_host.js", *(f"{name}?v={digest}" for name, digest in digests.items())]
    scripts = "".join(f'<script type="text/plain" data-src="{root}{url}"></script>' for url in urls)
    context["metatags"] = context.get("metatags", "") + f"<style>{css}</style>{scripts}"


def find_widgets(pagename, context) -> tuple[dict[str, str], dict[str, dict], str] | None:
    """Take a page's widgets out of what myst-nb wrote, and put a host at the place of each.

    Returns the scripts by kind, what each widget starts with by model, and the kinds' style sheets; None where the page
    has no widgets.
    """
    scripts = context["script_files"]
    states = [js for js in scripts if getattr(js, "attributes", {}).get("type") == STATE]
    if not states:
        return None
    scripts[:] = [js for js in scripts if js not in states]
    models = json.loads(states[0].attributes["body"])["state"]
    shared, kept = {}, {}

    def host(match):
        model_id = json.loads(match[1])["model_id"]
        model = models.get(model_id, {})
        if model.get("model_module") != "anywidget":
            log.warning(
                "%s: a %s is no anywidget and cannot run on a static page", pagename, model.get("model_name", "widget")
            )
            return ""
        state = {key: value for key, value in model["state"].items() if key not in _PLUMBING}
        kind = state.pop("_anywidget_id")
        shared[kind] = {key: state.pop(key, "") for key in ("_esm", "_css")}
        markup = to_pages(state.pop("_html", ""))
        for words, *_ in state.get("_table", {}).get("templates", []):
            words[:] = map(to_pages, words)
        kept[model_id] = {"kind": kind, "state": state, "buffers": model.get("buffers", [])}
        return f'<div class="widget-host" data-model="{model_id}">{markup}</div>'

    context["body"] = VIEW.sub(host, context["body"])
    kinds = {name: kind["_esm"] for name, kind in shared.items()}
    return kinds, kept, "".join(kind["_css"] for kind in shared.values())


_LINK = re.compile(r'(<a href="[^"#]*)\.(?:ipynb|md)(?=["#])')


def to_pages(markup: str) -> str:
    """Turn what the links of a figure or a table name, notebooks and Markdown, into the pages that they become."""
    return _LINK.sub(r"\1.html", markup)


def lost_links(app, pagename: str, models: dict[str, dict]) -> set[str]:
    """Pages that the scenes of a page lead to and the book does not have."""
    tables = (one["state"].get("_table", {}) for one in models.values())
    words = (word for table in tables for words, *_ in table.get("templates", []) for word in words)
    named = {match[1] for word in words for match in re.finditer(r'<a href="([^"#]*)\.html', word)}
    folder = posixpath.dirname(pagename)
    return {name for name in named if posixpath.normpath(posixpath.join(folder, name)) not in app.env.found_docs}


def kind_script(name: str, source: str) -> str:
    """Return a script that names a widget's own."""
    return f"widgets.kind({json.dumps(name)}, {json.dumps(source)});".replace("<", "\\u003c")


def digest_of(text: str) -> str:
    """A few letters that differ where a file does, so that no browser keeps an old one."""
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def raw(value) -> str:
    """JSON in a script, to be read when its turn comes."""
    text = json.dumps(value, separators=(",", ":"))
    for character in "`$<":  # which would end the string, or the script
        text = text.replace(character, f"\\u{ord(character):04x}")
    return f"String.raw`{text}`"


def table_script(model_id: str, model: dict) -> str:
    """Take a widget's table out of what it starts with, unless it reads it there; return its script, if it moves."""
    state, spec = model["state"], model["state"].get("_spec", {})
    moves, asks = spec.get("controls"), spec.get("x") or spec.get("predict")
    if not state.get("_table") or not (moves or not asks):
        return ""
    own = [buffer for buffer in model["buffers"] if buffer["path"][0] == "_table"]
    model["buffers"] = [buffer for buffer in model["buffers"] if buffer["path"][0] != "_table"]
    table = {"value": {"_table": state.pop("_table")}, "buffers": own}
    if not moves:  # a drawing that stands as it is has all in its markup
        return ""
    return f"widgets.table({json.dumps(model_id)},{raw(table)});"


def start_script(models: dict[str, dict], root: str) -> str:
    """Return a script that starts a page's widgets, each from JSON that is read when its turn comes."""
    listed = ",".join(f"{json.dumps(name)}:{raw(model)}" for name, model in models.items())
    return f"widgets.start({{{listed}}},{json.dumps(root)});"


# What the Jupyter front end needs and a static page does not.
_PLUMBING = {
    "_dom_classes",
    "_model_module",
    "_model_module_version",
    "_model_name",
    "_view_count",
    "_view_module",
    "_view_module_version",
    "_view_name",
    "layout",
    "tabbable",
    "tooltip",
}
