"""Sphinx extension: pages that load what they show and nothing else.

The theme brings some ten style sheets (Bootstrap and an icon font among them), scripts that few pages use, and the
search index on every page. Here the style sheets become one, ``site.css``, of the rules that some page can use; the
icons are masks (``icons.css``); and the templates put the scripts at the end.
"""

from __future__ import annotations

import re
from pathlib import Path

RULE = re.compile(r"([^{}]*)\{((?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*)\}")  # a block may hold blocks, two deep
PARENTHESES = r"\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)"
NESTING = ("@media", "@supports", "@layer", "@container")


def setup(app):
    """Register with Sphinx."""
    app.connect("config-inited", configure, priority=1)
    app.connect("html-page-context", tidy_assets, priority=890)
    app.connect("build-finished", write_styles, priority=900)  # when every page is as it stays
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}


def configure(app, config):
    """Add the icons, before the book's own style sheet."""
    app.add_css_file("icons.css", priority=700)


def tidy_assets(app, pagename, templatename, context, doctree):
    """Take the shared style sheets off the page, for ``site.css`` holds them, and the scripts that it does not use."""
    # These lists are the builder's own for this page, so they are changed in place.
    sheets, scripts = context["css_files"], context["script_files"]
    app.shared_sheets = [str(sheet.filename) for sheet in sheets]
    sheets.clear()
    tabs = "sd-tab-set" in context.get("body", "")
    scripts[:] = [js for js in scripts if not _names(js, "thebe") and (tabs or not _names(js, "design-tabs"))]


def write_styles(app, exception):
    """Write ``site.css``."""
    if exception or app.builder.format != "html":
        return
    site = Path(app.outdir)
    # The theme's own two come first, as its template has them.
    names = ["basic.css", "styles/pydata-sphinx-theme.css"]
    names += [name.removeprefix("_static/") for name in app.shared_sheets if "thebe" not in name]
    whole = "\n".join((site / "_static" / name).read_text(encoding="utf-8") for name in names)
    (site / "_static" / "site.css").write_text(kept(whole, names_in_use(site)), encoding="utf-8")


def names_in_use(site: Path) -> set[str]:
    """Return every class and identifier of the pages, and every word of the scripts, which may add more."""
    used: set[str] = set()
    for page in site.rglob("*.html"):
        for value in re.findall(r'\b(?:class|id)="([^"]*)"', page.read_text(encoding="utf-8")):
            used.update(value.split())
    for script in (site / "_static").rglob("*.js"):
        if script.name != "fontawesome.js":  # every icon's name, and no page loads it
            used.update(re.findall(r"[\w-]+", script.read_text(encoding="utf-8")))
    return used


def kept(css: str, used: set[str]) -> str:
    """Return the rules that can apply where only these classes and identifiers are.

    >>> kept("a, .on:hover { x: y } .off > b { x: y } @media print { .off { x: y } }", {"on"})
    'a, .on:hover{ x: y }'
    """

    def possible(selector: str) -> bool:
        plain = re.sub(rf"{PARENTHESES}|\[[^]]*\]", "", selector)  # what :not(...) names may be missing
        names = re.findall(r"[.#](-?[A-Za-z_](?:[\w-]|\\.)*)", plain)
        return all(name.replace("\\", "") in used for name in names)

    def rule(match: re.Match[str]) -> str:
        prelude, block = match[1].strip(), match[2]
        if prelude.startswith(NESTING):
            block = kept(block, used)
            return f"{prelude}{{{block}}}" if block else ""
        if prelude.startswith("@"):
            return "" if prelude == "@font-face" and "awesome" in block.lower() else match[0].strip()
        selectors = ",".join(filter(possible, re.findall(rf"(?:[^,(]|{PARENTHESES})+", prelude)))
        return f"{selectors}{{{block}}}" if selectors else ""

    notices = re.findall(r"/\*!.*?\*/", css, flags=re.DOTALL)
    rules = RULE.finditer(re.sub(r"/\*.*?\*/", "", css, flags=re.DOTALL))
    return "".join([*dict.fromkeys(notices), *map(rule, rules)])


def _names(asset, what: str) -> bool:
    return what in f"{getattr(asset, 'filename', '')}{getattr(asset, 'attributes', {}).get('body', '')}".lower()
