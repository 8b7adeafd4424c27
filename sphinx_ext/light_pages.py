"""Sphinx extension: pages that load what they show and nothing else, and show first what is read first.

The theme brings some ten style sheets (Bootstrap and an icon font among them), scripts that few pages use, and the
search index on every page. Here the style sheets become one, ``site.css``, of the rules that some page can use; the
icons are masks (``icons.css``); one script, ``frame.js``, does what the theme's did; and the templates put the scripts
at the end.

A chapter is forty screens long, and a browser lays out all of them before it answers. So blocks below the first screen
carry the class ``waits``: the style sheet lets the browser pass over them, and ``frame.js`` has them laid out in short
slices from the reader's first move on, or soon after the load.
"""

from __future__ import annotations

import re
from pathlib import Path

from docutils import nodes
from sphinx import addnodes

RULE = re.compile(r"([^{}]*)\{((?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*)\}")  # a block may hold blocks, two deep
PARENTHESES = r"\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)"
VARIABLE = re.compile(r"(--[\w-]+):[^;{}]*;?")
NESTING = ("@media", "@supports", "@layer", "@container")
AT_ONCE = 6  # blocks of a page that fill its first screen
BLOCKS = (
    nodes.Admonition,
    nodes.block_quote,
    nodes.bullet_list,
    nodes.container,
    nodes.definition_list,
    nodes.enumerated_list,
    nodes.figure,
    nodes.literal_block,
    nodes.math_block,
    nodes.paragraph,
    nodes.table,
    addnodes.desc,
)


def setup(app):
    """Register with Sphinx."""
    app.connect("config-inited", configure, priority=1)
    app.connect("doctree-resolved", mark_waiting)
    app.connect("html-page-context", tidy_assets, priority=890)
    app.connect("build-finished", write_styles, priority=900)  # when every page is as it stays
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}


def configure(app, config):
    """Add the icons, before the book's own style sheet."""
    app.add_css_file("icons.css", priority=700)
    app.add_js_file("frame.js")


def mark_waiting(app, doctree, docname):
    """Mark the blocks below the first screen."""
    if app.builder.format == "html":
        blocks = [node for node in doctree.findall(lambda node: isinstance(node, BLOCKS)) if in_section(node)]
        for node in blocks[AT_ONCE:]:
            node["classes"].append("waits")


def in_section(node: nodes.Node) -> bool:
    """Whether a block stands in the text itself, neither in a block nor in the margin; or is a class member."""
    member = isinstance(node, addnodes.desc) and isinstance(node.parent, addnodes.desc_content)
    return member or (isinstance(node.parent, nodes.section) and "margin" not in node["classes"])


def tidy_assets(app, pagename, templatename, context, doctree):
    """Take the shared style sheets off the page, for ``site.css`` holds them, and the scripts that it does not use."""
    # These lists are the builder's own for this page, so they are changed in place.
    sheets, scripts = context["css_files"], context["script_files"]
    app.shared_sheets = [str(sheet.filename) for sheet in sheets]
    sheets.clear()
    tabs = "sd-tab-set" in context.get("body", "")
    theme = "sphinx-book-theme", "documentation_options.pagename", "search_as_you_type"  # frame.js stands for them
    unused = "thebe", *theme, *([] if tabs else ["design-tabs"])
    scripts[:] = [js for js in scripts if not any(_names(js, what) for what in unused)]


def write_styles(app, exception):
    """Write ``site.css``."""
    if exception or app.builder.format != "html":
        return
    site = Path(app.outdir)
    # The theme's own two come first, as its template has them.
    names = ["basic.css", "styles/pydata-sphinx-theme.css"]
    names += [name.removeprefix("_static/") for name in app.shared_sheets if "thebe" not in name]
    whole = "\n".join(sheet(site / "_static", name) for name in names)
    used = names_in_use(site)
    (site / "_static" / "site.css").write_text(read_variables(kept(whole, used), used), encoding="utf-8")


def sheet(static: Path, name: str) -> str:
    """Return a style sheet as it may stand one folder higher: what it names is looked for where it was."""
    text, folder = (static / name).read_text(encoding="utf-8"), Path(name).parent.as_posix()
    return text if folder == "." else re.sub(r"url\((?=[.\w][^:)]*\))", f"url({folder}/", text)


def names_in_use(site: Path) -> set[str]:
    """Return every class and identifier of the pages, and every word of their scripts, which may add more."""
    used: set[str] = set()
    scripts: set[Path] = set()
    for page in site.rglob("*.html"):
        if "_static" in page.parts:  # the theme's templates, which are no pages
            continue
        text = page.read_text(encoding="utf-8")
        for value in re.findall(r'\b(?:class|id)="([^"]*)"', text):
            used.update(value.split())
        used.update(re.findall(r"--[\w-]+", text))
        sources = re.findall(r'<script[^>]*[ -]src="([^"?]+)', text)
        scripts.update((page.parent / source).resolve() for source in sources)
    for script in scripts:
        data = script.name in ("searchindex.js", "things.js") or "_widgets" in script.parts  # they hold every word
        if not data:
            used.update(re.findall(r"[\w-]+", script.read_text(encoding="utf-8")))
    return used


def read_variables(css: str, used: set[str]) -> str:
    """Return a style sheet without the variables that none of its rules reads, and no page or script names.

    >>> read_variables(".a{--x: 1;--y: var(--x);--z: 2;color: var(--z)}", set())
    '.a{--z: 2;color: var(--z)}'
    """
    read = set(re.findall(r"var\(\s*(--[\w-]+)", css)) | used
    less = VARIABLE.sub(lambda found: found[0] if found[1] in read else "", css)
    return css if less == css else read_variables(less, used)  # one may have been read by another alone


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
