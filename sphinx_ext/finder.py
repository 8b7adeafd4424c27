"""Sphinx extension: a search that finds laws, terms, figures and sections by the words people use.

Sphinx's own index knows which words a page has, and nothing of what a page is about. This one writes ``things.js``: a
line for everything that has a name, and the words that people use for it (``book/synonyms.toml``). It is loaded when
somebody searches, and ``finder.js`` matches it in the browser, without a server.
"""

from __future__ import annotations

import html
import importlib
import json
import re
import tomllib
from pathlib import Path

from clusterlab import records
from reference import summary

SYNONYMS = Path(__file__).parents[1] / "book" / "synonyms.toml"

# What is looked for in a page, in its order: sections with their headings, calls of a law, terms and figures.
MARK = re.compile(
    r'<section\b[^>]*\bid="(?P<section>[^"]+)"[^>]*>\s*(?:<span id="[^"]*"></span>)*'
    r'<h\d>(?P<heading>.*?)<a class="headerlink"'
    r"|(?P<end></section>)"
    r'|sphinx-codeautolink-a" href="[^"#]*#(?P<law>clusterlab\.[\w.]+)"[^>]*>[^<]*</a>\('
    r'|<dt id="(?P<id>term-[^"]+)">(?P<term>.*?)<a class="headerlink".*?<dd>(?P<meaning>.*?)</dd>'
    r'|<div class="widget-host"[^>]*><figure class="cl-explorer[^>]*><figcaption>(?P<figure>.*?)</figcaption>',
    re.DOTALL,
)


def setup(app):
    """Register with Sphinx."""
    app.connect("config-inited", configure, priority=1)
    app.connect("build-finished", write_things, priority=890)  # when names in code are links, and before the styles
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}


def configure(app, config):
    """Add the style sheet of the hits."""
    app.add_css_file("finder.css", priority=800)


def write_things(app, exception):
    """Write ``things.js``."""
    if exception or app.builder.format != "html":
        return
    pages = {
        name: Path(app.outdir, f"{name}.html").read_text(encoding="utf-8")
        for name in app.config.external_site_map
        if not app.env.metadata.get(name, {}).get("reference")  # what a page of the reference has are laws
    }
    place = {name: at for at, name in enumerate(app.config.external_site_map)}  # pages may have been read in any order
    functions = {
        full: f"{entry.docname}.html#{entry.node_id}"
        for full, entry in sorted(app.env.get_domain("py").objects.items(), key=lambda named: place[named[1].docname])
        if entry.objtype == "function" and full.startswith("clusterlab.")
    }
    found = things(pages, functions, tomllib.loads(SYNONYMS.read_text(encoding="utf-8")))
    script = f"finder.things({json.dumps(found, ensure_ascii=False, separators=(',', ':'))});"
    Path(app.outdir, "things.js").write_text(script, encoding="utf-8")


def things(pages: dict[str, str], functions: dict[str, str], synonyms: dict[str, list[str]]) -> dict:
    """List what has a name, by kind, as ``finder.js`` reads it, and the other names as they are given.

    A section is its title, its page and its place; a figure too, at the place of its section; a term is its name, its
    first sentence, its place and the other names that its entry begins with; a law is its name as people write it, its
    first sentence, its place, its name as Python writes it, and the section that teaches it with its place: the first
    that calls it in the chapter of its room, else in any.

    >>> head = '<section id="{0}"><h1>{0}<a class="headerlink"'
    >>> things({"a": head.format("Bits") + head.format("One")}, {}, {})["sections"]
    [['Bits', '', 'a.html'], ['One', 'Bits', 'a.html#One']]
    """
    laws, terms, figures, sections = [], [], [], []
    taught: dict[str, dict[str, tuple[str, str]]] = {}  # law to page to the first section that calls it
    for name, text in pages.items():
        title = ""
        within: list[tuple[str, str]] = []  # the sections that are open, from the page's own inward
        for mark in MARK.finditer(text):
            here = within[-1] if within else (title, f"{name}.html")
            if mark["section"]:
                heading = plain(mark["heading"])
                title = title or heading
                within.append((heading, f"{name}.html#{mark['section']}" if within else f"{name}.html"))
                sections.append([heading, "" if heading == title else title, within[-1][1]])
            elif mark["end"] and within:
                within.pop()
            elif mark["law"]:
                taught.setdefault(mark["law"], {}).setdefault(name, (f"{title.split(':')[0]}: {here[0]}", here[1]))
            elif mark["term"]:
                told = re.fullmatch(r"(?:Also (.*?)\. )?(.*)", plain(mark["meaning"]), re.DOTALL)
                also, meaning = told.groups() if told else (None, "")
                terms.append([plain(mark["term"]), first(meaning), f"{name}.html#{mark['id']}", *filter(None, [also])])
            elif mark["figure"]:
                figures.append([plain(mark["figure"]), title, here[1]])
    written = {term.lower().replace("-", " "): term for term, *_ in terms if term != term.lower() or "-" in term}
    for full, place in functions.items():
        module, _, name = full.rpartition(".")
        said = records.words(name)
        for spaced, term in written.items():
            said = re.sub(rf"\b{re.escape(spaced)}\b", term, said)
        callers = taught.get(full, {})
        own = f"book/{module.split('.')[1]}"
        section = callers.get(own) or next(iter(callers.values()), ())
        about = summary(getattr(importlib.import_module(module), name))
        laws.append([said, re.sub(r":\w+:`~?([^`]*)`|`+([^`]*)`+", r"\1\2", about), place, name, *section])
    return {"laws": laws, "terms": terms, "figures": figures, "sections": sections, "synonyms": synonyms}


def plain(markup: str) -> str:
    """Return the text of some markup, on one line."""
    return " ".join(html.unescape(re.sub(r"<[^>]+>", "", markup)).split())


def first(text: str) -> str:
    """Return the first sentence of a text."""
    return re.split(r"(?<=\.)\s", text, maxsplit=1)[0]
