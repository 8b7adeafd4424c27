"""Sphinx extension: the same build in less time, on every core.

Jupyter Book starts Sphinx with one process and has no option for more. Chapters execute while they are read, so reading
side by side is most of the gain.
"""

from __future__ import annotations

import functools
import gc
import html
import os
import re
from pathlib import Path

import pybtex.plugin
import pybtex.richtext
import sphinx.builders
import sphinx.builders.html
import sphinx.pycode.parser
import sphinx_codeautolink.extension as codeautolink
from jupyter_cache import get_cache
from jupyter_cache.cache.main import JupyterCacheBase
from sphinx.addnodes import toctree
from sphinx.domains.python import PythonDomain
from sphinx.environment.adapters.toctree import global_toctree_for_doc
from sphinx.search.en import SearchEnglish
from sphinx.util.parallel import make_chunks
from sphinx_codeautolink.extension import block

# A block of code on a page, as Sphinx writes it.
CODE = re.compile(r'(<div class="[^"]*\bhighlight-[^>]*>\s*<div class="highlight">.*?</pre></div>\s*</div>)', re.DOTALL)

TAG = re.compile(r"<[^>]+>")

# A token that book.css gives no colour of its own: names, operators and punctuation are most of a listing.
PLAIN = re.compile(r'<span class="(?!k|s|c|ow|nf|nc|nd|g)\w{1,2}">([^<]*)</span>')

# Extensions of Jupyter Book that keep nothing while they read, and do not say so.
SILENT = "sphinx_multitoc_numbering", "sphinx_jupyterbook_latex"


def setup(app):
    """Register with Sphinx."""
    app.parallel = max(app.parallel, os.cpu_count() or 1)
    gc.set_threshold(50_000)  # with 700, Python looks at every node of a document again and again, and all are in use
    app.connect("builder-inited", declare)
    app.connect("env-before-read-docs", deal)
    sphinx.builders.make_chunks = functools.partial(make_chunks, maxbatch=3)  # with ten, the last has a core to itself
    # sphinxcontrib-bibtex asks for plugins at each citation, and each time every installed package is looked through.
    pybtex.plugin._load_entry_point = functools.cache(pybtex.plugin._load_entry_point)
    pybtex.richtext.Text.from_latex = functools.cache(pybtex.richtext.Text.from_latex)
    # It asks twice what is there, and takes what another process has added in between for too much.
    JupyterCacheBase.truncate_caches = keep_all
    # autodoc asks what stands above an attribute, never on which lines a function stands.
    sphinx.pycode.parser.Parser.parse_definition = pass_over  # type: ignore[method-assign]
    # To find a name of a signature it goes through all names, and a page says the same few again and again.
    PythonDomain.find_obj = functools.cache(PythonDomain.find_obj)  # type: ignore[method-assign]
    SearchEnglish.stem = functools.cache(SearchEnglish.stem)  # type: ignore[method-assign]
    sphinx.builders.html.global_toctree_for_doc = table_of_contents
    codeautolink.link_html = link_code
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}


def keep_all(cache):
    """Truncate no cache: a book never has a thousand chapters."""


def pass_over(parser):
    """Leave a module's definitions alone: to find their lines, Sphinx takes it apart into tokens once more."""


def declare(app):
    """Say of the silent extensions that documents may be read side by side, and number no figures."""
    for name in SILENT:
        if name in app.extensions:
            app.extensions[name].parallel_read_safe = True
    app.config.numfig = False  # no figure has a number, for which every page would be read once more


def deal(app, env, docnames):
    """Deal the documents out like cards: Sphinx gives each process a run of them, and chapters take longest."""
    chapters = [name for name in docnames if env.doc2path(name).endswith(".ipynb")]
    others = [name for name in docnames if name not in chapters]
    if chapters:
        get_cache(app.config.nb_execution_cache_path).list_cache_records()  # two processes may not make it at once
        each = -(-len(others) // len(chapters))
        docnames[:] = [
            name for i, chapter in enumerate(chapters) for name in (chapter, *others[i * each : (i + 1) * each])
        ]


def table_of_contents(env, docname, builder, collapse=False, includehidden=True, maxdepth=0, titles_only=False):
    """Return the table of contents at a page as Sphinx does: where it has titles alone, from such tables.

    Sphinx copies every heading of every page into it, and then takes them out again: for each page, a fifth of a build.
    """
    options = collapse, includehidden, maxdepth, titles_only
    if not titles_only:
        return global_toctree_for_doc(env, docname, builder, *options)
    whole = env.tocs
    if not hasattr(builder, "tables_of_titles"):
        builder.tables_of_titles = {name: titles(table) for name, table in whole.items()}
    try:
        env.tocs = builder.tables_of_titles
        return global_toctree_for_doc(env, docname, builder, *options)
    finally:
        env.tocs = whole


def titles(table):
    """Return a page's table of contents with its title, and the pages below it, alone."""
    table = table.deepcopy()
    for entry in table.children:
        if len(entry) > 1:
            if below := list(entry.findall(toctree)):
                entry[1][:] = below
            else:
                entry.pop(1)
    return table


def link_code(document, folder, transforms, inventory, *_, **__):
    """Link the names in a page's code as sphinx-codeautolink does, then mark only what has a colour.

    Its own function parses every listing anew, which was a fifth of a build; here its patterns search the text as
    Pygments wrote it. A third of a long chapter's elements were marks that change nothing, and a browser lays out each.
    """
    page = Path(folder, f"{document}.html")
    parts = CODE.split(page.read_text(encoding="utf-8"))
    listings = {i: html.unescape(TAG.sub("", parts[i])).strip() for i in range(1, len(parts), 2)}
    for listing in transforms:
        at = next((i for i, text in listings.items() if text == listing.source.strip()), None)
        if at is None:
            warn(f"Could not match a code example to HTML, source:\n{listing.source}", "match_block", document)
            continue
        del listings[at]
        lines = parts[at].split("\n")
        first = next(number for number, line in enumerate(lines) if "<pre" in line) - 1
        for name in listing.names:
            here = slice(first + name.lineno, first + name.end_lineno + 1)
            code = "\n".join(lines[here])
            matches = list(re.finditer(block.construct_name_pattern(name), code))
            if not matches:
                warn(f"Could not match transformation of `{name.code_str}`:\n{listing.source}", "match_name", document)
                continue
            start, end = matches[-1].span()  # in a.b = a.b the right one comes first
            start += len(matches[-1][1])
            location = name.resolved_location
            said = re.sub(r"\s+", "", html.unescape(TAG.sub("", code[start:end])))
            title = "" if said == location else f' title="{location}"'
            link = "" if inventory[location].startswith("http") else "../" * document.count("/")
            opening = f'<a class="sphinx-codeautolink-a" href="{link}{inventory[location]}"{title}>'
            lines[here] = f"{code[:start]}{opening}{code[start:end]}</a>{code[end:]}".split("\n")
        parts[at] = "\n".join(lines)
    parts[1::2] = [PLAIN.sub(r"\1", code) for code in parts[1::2]]
    page.write_text("".join(parts), encoding="utf-8")


def warn(message, kind, document):
    """Warn as sphinx-codeautolink does."""
    block.logger.warning(message, type=block.warn_type, subtype=kind, location=document)
