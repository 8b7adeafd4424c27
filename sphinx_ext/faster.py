"""Sphinx extension: the same build in less time, on every core.

Jupyter Book starts Sphinx with one process and has no option for more. Chapters execute while they are read, so reading
side by side is most of the gain. Sphinx deals its documents out in advance, brings its whole environment back from each
hand, and resolves every document in one process; here who is free draws the next, and brings back what it has once.
"""

from __future__ import annotations

import functools
import gc
import html
import inspect
import multiprocessing
import os
import pickle
import re
from pathlib import Path

import pybtex.plugin
import pybtex.richtext
import sphinx.builders.html
import sphinx.pycode.parser
import sphinx_codeautolink.extension as codeautolink
from docutils import nodes
from jupyter_cache import get_cache
from jupyter_cache.cache.main import JupyterCacheBase
from sphinx.addnodes import toctree
from sphinx.builders import Builder
from sphinx.builders.html import StandaloneHTMLBuilder
from sphinx.domains.python import PythonDomain
from sphinx.environment.adapters.toctree import global_toctree_for_doc
from sphinx.search.en import SearchEnglish
from sphinx.util.build_phase import BuildPhase
from sphinx.util.parallel import ParallelTasks
from sphinx_codeautolink.extension import block

# A block of code on a page, as Sphinx writes it.
CODE = re.compile(r'(<div class="[^"]*\bhighlight-[^>]*>\s*<div class="highlight">.*?</pre></div>\s*</div>)', re.DOTALL)

TAG = re.compile(r"<[^>]+>")

# A token that book.css gives no colour of its own: names, operators and punctuation are most of a listing.
PLAIN = re.compile(r'<span class="(?!k|s|c|ow|nf|nc|nd|g)\w{1,2}">([^<]*)</span>')

FIND_ALL = nodes.Node.findall

# Extensions of Jupyter Book that keep nothing while they read, and do not say so.
SILENT = "sphinx_multitoc_numbering", "sphinx_jupyterbook_latex"


def setup(app):
    """Register with Sphinx."""
    app.parallel = max(app.parallel, os.cpu_count() or 1)
    gc.set_threshold(50_000)  # with 700, Python looks at every node of a document again and again, and all are in use
    app.connect("builder-inited", declare)
    app.connect("env-before-read-docs", sort)
    app.connect("build-finished", leave, priority=999)
    Builder._read_parallel = read  # type: ignore[method-assign]
    StandaloneHTMLBuilder._write_parallel = write  # type: ignore[method-assign]
    nodes.Node.findall = find_all
    # sphinxcontrib-bibtex asks for plugins at each citation, and each time every installed package is looked through.
    pybtex.plugin._load_entry_point = functools.cache(pybtex.plugin._load_entry_point)
    pybtex.richtext.Text.from_latex = functools.cache(pybtex.richtext.Text.from_latex)
    # It asks twice what is there, and takes what another process has added in between for too much.
    JupyterCacheBase.truncate_caches = keep_all
    # autodoc asks what stands above an attribute, never on which lines a function stands.
    sphinx.pycode.parser.Parser.parse_definition = pass_over  # type: ignore[method-assign]
    # autodoc takes the source of a function from its file for each question that it has.
    inspect.getsourcelines = functools.cache(inspect.getsourcelines)  # type: ignore[assignment]
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


def sort(app, env, docnames):
    """Put the chapters first: they take longest, and what is read last decides how long a core stands idle."""
    docnames.sort(key=lambda name: not env.doc2path(name).endswith(".ipynb"))
    if docnames:
        get_cache(app.config.nb_execution_cache_path).list_cache_records()  # two processes may not make it at once


def leave(app, exception):
    """Take all that is left out of the collector's sight: at its end, Python would look at every node once more."""
    gc.freeze()


def read(builder, docnames, nproc):
    """Read the documents; one process more than cores, because a process that reads a chapter waits for its kernel."""
    env = builder.env
    for name in docnames:
        builder.events.emit("env-purge-doc", env, name)
        env.clear_doc(name)

    def merge(names, pickled):
        env.merge_info_from(names, pickle.loads(pickled), builder.app)

    together(
        builder.app,
        "reading sources",
        docnames,
        nproc + 1,
        lambda name: builder.read_doc(name, _cache=False),
        lambda: pickle.dumps(env, pickle.HIGHEST_PROTOCOL),
        merge,
    )


def write(builder, docnames, nproc):
    """Resolve and write the pages; what Sphinx keeps of them, its images and its index of words, comes together."""
    app, index = builder.app, builder.indexer
    builder.templates.environment.auto_reload = False  # no template changes while pages are written
    by_page = [index._titles, index._filenames, index._all_titles, index._index_entries]
    by_word = [index._mapping, index._title_mapping]

    def resolve_and_write(name):
        app.phase = BuildPhase.RESOLVING
        page = builder.env.get_and_resolve_doctree(name, builder)
        app.phase = BuildPhase.WRITING
        builder.write_doc_serialized(name, page)
        builder.write_doc(name, page)

    def merge(_, kept):
        images, pages, words = kept
        builder.images.update(images)
        for mine, other in zip(by_page, pages, strict=True):
            mine.update(other)
        for mine, other in zip(by_word, words, strict=True):
            for word, names in other.items():
                mine.setdefault(word, set()).update(names)

    together(
        app,
        "writing output",
        docnames,
        nproc + 1,  # Sphinx keeps one for itself
        resolve_and_write,
        lambda: (builder.images, by_page, by_word),
        merge,
    )
    for table in (*by_page, *by_word):  # as if one process had gone through the pages
        ordered = sorted(table.items())
        table.clear()
        table.update(ordered)
    app.phase = BuildPhase.WRITING


def together(app, saying, names, processes, work, kept, merge):
    """Have processes draw name after name and work, then merge what each has kept of the names that it drew."""
    drawn = multiprocessing.get_context("fork").Value("i", 0)

    def draw(_):
        mine: list[str] = []
        while True:
            with drawn.get_lock():
                at = drawn.value
                drawn.value += 1
            if at >= len(names):
                return mine, kept()
            print(f"{saying}... [{(at + 1) / len(names):4.0%}] {names[at]}", file=app._status, flush=True)
            work(names[at])
            mine.append(names[at])

    tasks = ParallelTasks(processes)
    for number in range(processes):
        tasks.add_task(draw, number, lambda _, result: merge(*result))
    tasks.join()


def find_all(node, condition=None, include_self=True, descend=True, siblings=False, ascend=False):
    """Return the nodes of a kind, or that a function holds of, as docutils does with a generator for each level."""
    if siblings or ascend or not (include_self and descend):
        return FIND_ALL(node, condition, include_self, descend, siblings, ascend)
    if condition is None or isinstance(condition, type):
        return find(node, condition or nodes.Node)
    return filter(condition, find(node, nodes.Node))


def find(node, kind):
    """Yield a node and what is below it of a kind, each before its children."""
    if isinstance(node, kind):
        yield node
    levels = [iter(node.children)]
    while levels:
        for child in levels[-1]:
            if isinstance(child, kind):
                yield child
            if child.children:
                levels.append(iter(child.children))
                break
        else:
            levels.pop()


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
