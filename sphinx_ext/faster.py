"""Sphinx extension: the same build in less time, on every core.

Jupyter Book starts Sphinx with one process and has no option for more. Chapters execute while they are read, so reading
side by side is most of the gain.
"""

from __future__ import annotations

import functools
import os
import re
from pathlib import Path

import pybtex.plugin
import sphinx_codeautolink.extension as codeautolink
from jupyter_cache import get_cache

# A block of code on a page, as Sphinx writes it.
CODE = re.compile(r'(<div class="[^"]*\bhighlight-[^>]*>\s*<div class="highlight">.*?</pre></div>\s*</div>)', re.DOTALL)

# A token that book.css gives no colour of its own: names, operators and punctuation are most of a listing.
PLAIN = re.compile(r'<span class="(?!k|s|c|ow|nf|nc|nd|g)\w{1,2}">([^<]*)</span>')

# Extensions of Jupyter Book that keep nothing while they read, and do not say so.
SILENT = "sphinx_multitoc_numbering", "sphinx_jupyterbook_latex"


def setup(app):
    """Register with Sphinx."""
    app.parallel = max(app.parallel, os.cpu_count() or 1)
    app.connect("builder-inited", declare)
    app.connect("env-before-read-docs", deal)
    # sphinxcontrib-bibtex asks for plugins at each citation, and each time every installed package is looked through.
    pybtex.plugin._load_entry_point = functools.cache(pybtex.plugin._load_entry_point)
    codeautolink.link_html = functools.partial(link_code, codeautolink.link_html)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}


def declare(app):
    """Say of the silent extensions that documents may be read side by side."""
    for name in SILENT:
        if name in app.extensions:
            app.extensions[name].parallel_read_safe = True


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


def link_code(link_html, document, folder, *arguments, **options):
    """Let sphinx-codeautolink parse a page's code alone, then mark only what has a colour.

    A third of a long chapter's elements were marks that change nothing, and a browser lays out each.
    """
    page = Path(folder, f"{document}.html")
    parts = CODE.split(page.read_text(encoding="utf-8"))
    page.write_text("\n".join(parts[1::2]), encoding="utf-8")
    link_html(document, folder, *arguments, **options)
    parts[1::2] = [PLAIN.sub(r"\1", code) for code in CODE.findall(page.read_text(encoding="utf-8"))]
    page.write_text("".join(parts), encoding="utf-8")
