"""A faster build is the same build: what stands for a function of Sphinx or its extensions gives what that gives."""

import html
import io
import itertools
import json
import logging
import re
from types import SimpleNamespace

import pytest
from docutils import nodes
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer
from sphinx.application import Sphinx
from sphinx.builders import Builder
from sphinx.builders.html import StandaloneHTMLBuilder
from sphinx.environment.adapters.toctree import global_toctree_for_doc
from sphinx.errors import SphinxParallelError
from sphinx_codeautolink.extension import block
from sphinx_codeautolink.parse import LinkContext, Name

import faster

SOURCES = [
    "from lab import law\n\nlaw.ring(law.ring(\"a < b\", 'c'), law)  # & more\n",
    "law.ring(4)\n",
    "made = (\n    law\n    .ring(1)\n).best = law.ring(2) if law.ring else law.ring(3)\n",
    "law.ring(4)\n",
]
INVENTORY = {
    "lab": "ref/lab.html#module-lab",
    "lab.law": "ref/lab.html#law",
    "lab.law.ring": "https://lab.example/ring",
}
IMPORTED, NONE = (LinkContext.import_from, LinkContext.import_target), LinkContext.none


def name(code, location, lineno, end_lineno=None, context=NONE):
    return Name(None, code, lineno, end_lineno or lineno, context, location)


NAMES = [
    [
        name("lab", "lab", 1, context=IMPORTED[0]),
        name("law", "lab.law", 1, context=IMPORTED[1]),
        name("law.ring", "lab.law.ring", 3),
        name("law.ring", "lab.law.ring", 3),
        name("law", "lab.law", 3),
    ],
    [name("law.ring", "lab.law.ring", 1)],
    [name("law.ring", "lab.law.ring", 4), name("law.ring", "lab.law.ring", 4), name("law.ring", "lab.law.ring", 2, 3)],
    [name("law.ring", "lab.law.ring", 1)],
]


@pytest.fixture
def page(tmp_path):
    """A page with the listings above, and an output between them: its path and its text."""
    listing = '<div class="highlight-{}notranslate"><div class="highlight"><pre>{}</pre></div>\n</div>'
    code = ["<span></span>" + highlight(source, PythonLexer(), HtmlFormatter(nowrap=True)) for source in SOURCES]
    parts = [listing.format("python ", text) for text in code]
    parts.insert(1, listing.format("text ", "<span></span>1\n"))
    path = tmp_path / "book" / "page.html"
    path.parent.mkdir()
    path.write_text("<h1>Laws &amp; &quot;more&quot;</h1>\n" + "\n<p>a law</p>\n".join(parts))
    return path, path.read_text()


def links(text) -> list:
    """Where a link leads, its title, its text, and how many letters stand before it."""
    found = re.finditer(r"<a ([^>]*)>(.*?)</a>", text, re.DOTALL)
    plain = lambda part: html.unescape(re.sub(r"<[^>]+>", "", part))  # noqa: E731
    return [(sorted(re.findall(r'\w+="[^"]*"', m[1])), plain(m[2]), len(plain(text[: m.start()]))) for m in found]


def test_links_are_those_of_sphinx_codeautolink_and_the_rest_stays(page):
    path, text = page
    transforms = [block.SourceTransform(*pair, None, 1) for pair in zip(SOURCES, NAMES, strict=True)]
    block.link_html("book/page", path.parents[1], transforms, INVENTORY, {}, [], disable_link_titles=False)
    theirs = path.read_text()
    path.write_text(text)
    faster.link_code("book/page", path.parents[1], transforms, INVENTORY)
    ours = path.read_text()
    assert len(links(ours)) == 10
    assert links(ours) == links(theirs)
    unlinked = re.sub(r"</?a\b[^>]*>", "", ours)
    assert unlinked == faster.CODE.sub(lambda code: faster.PLAIN.sub(r"\1", code[0]), text)


@pytest.mark.parametrize(
    ("source", "names", "said"),
    [
        ("y = 2\n", [], "Could not match a code example"),
        (SOURCES[0], [name("law.tree", "lab.law.ring", 3)], "Could not match transformation of `law.tree`"),
    ],
)
def test_what_finds_no_place_is_a_warning(page, monkeypatch, source, names, said):
    heard = []
    monkeypatch.setattr(block, "logger", logging.getLogger("test"))
    monkeypatch.setattr(block.logger, "warning", lambda message, **how: heard.append((message, how)))
    faster.link_code("book/page", page[0].parents[1], [block.SourceTransform(source, names, None, 1)], INVENTORY)
    assert [(message.startswith(said), how["location"]) for message, how in heard] == [(True, "book/page")]


PAGES = {
    "index": "Book\n====\n\n.. toctree::\n\n   a\n   b\n",
    "a": "A\n=\n\nOne\n---\n\nDeep\n~~~~\n\nTwo\n---\n\n.. toctree::\n\n   c\n",
    "b": "B\n=\n\nThree\n-----\n",
    "c": "C\n=\n\nFour\n----\n",
}


def test_a_table_of_titles_is_the_one_that_sphinx_makes(tmp_path):
    for name, text in PAGES.items():
        (tmp_path / f"{name}.rst").write_text(text)
    app = Sphinx(tmp_path, None, tmp_path / "out", tmp_path / "out", "dummy", status=None, warning=None)
    app.build()
    for page in PAGES:
        for collapse, titles_only in ((False, True), (True, True), (False, False)):
            asked = app.env, page, app.builder, collapse, True, 0, titles_only
            theirs, ours = global_toctree_for_doc(*asked), faster.table_of_contents(*asked)
            assert ours.pformat() == theirs.pformat()
            assert ("Deep" in ours.astext()) != titles_only
        assert "Deep" in app.env.tocs["a"].astext()


def built(folder, name, processes):
    """The pages, the index of words and what was said, of a small book; and the builder."""
    out, log = folder / name, folder / f"{name}.log"
    with log.open("w") as said:
        app = Sphinx(folder, None, out, out / "trees", "html", status=said, warning=said, parallel=processes)
        app.build()
    index = json.loads((out / "searchindex.js").read_text().removeprefix("Search.setIndex(").removesuffix(")"))
    return {page.stem: page.read_text() for page in out.glob("*.html")}, index, log.read_text(), app.builder


def test_pages_that_processes_draw_one_by_one_are_those_of_a_single_process(tmp_path, monkeypatch):
    monkeypatch.setattr(Builder, "_read_parallel", faster.read)
    monkeypatch.setattr(StandaloneHTMLBuilder, "_write_parallel", faster.write)
    texts = PAGES | {
        name: f"{name.upper()}\n=\n\nWords {name} :ref:`search`\n\n.. image:: dot.png\n" for name in "defghi"
    }
    texts["index"] += "".join(f"   {name}\n" for name in "defghi")
    texts["f"] += "\n:ref:`nowhere`\n"
    for name, text in texts.items():
        (tmp_path / f"{name}.rst").write_text(text)
    (tmp_path / "dot.png").touch()
    pages, index, said, builder = built(tmp_path, "one", 1)
    drawn, together, heard, other = built(tmp_path, "three", 3)
    assert {*texts} < {*pages}
    assert drawn == pages
    assert together == index
    assert list(together["terms"]) == sorted(together["terms"])
    assert other.images == builder.images == {"dot.png": "dot.png"}
    assert said.count("'nowhere'") == heard.count("'nowhere'") == 1
    for name in texts:
        assert heard.count(f"] {name}\n") == 2  # read, and written


def test_what_fails_in_one_process_fails_the_build():
    app = SimpleNamespace(_status=io.StringIO())
    with pytest.raises(SphinxParallelError, match="ZeroDivisionError"):
        faster.together(app, "dividing", [1, 0, 2], 2, lambda number: 1 / number, int, lambda *_: None)


def test_nodes_are_found_as_docutils_finds_them():
    tree = nodes.section("", nodes.title("", "a"), nodes.section("", nodes.paragraph("", "b", nodes.strong("", "c"))))
    conditions = [None, nodes.section, nodes.Text, nodes.image, lambda node: "c" in node.astext()]
    ways = [{}, {"include_self": False}, {"descend": False}, {"siblings": True}, {"ascend": True}]
    for node in tree.findall():
        for condition, way in itertools.product(conditions, ways):
            assert list(faster.find_all(node, condition, **way)) == list(faster.FIND_ALL(node, condition, **way))


def test_what_is_changed_below_a_node_that_was_found_is_seen():
    """Transforms replace children as they go."""
    for search in (faster.find_all, faster.FIND_ALL):
        tree = nodes.section("", nodes.paragraph("", "a"), nodes.paragraph("", "b"))
        seen = []
        for node in search(tree):
            seen.append(type(node).__name__)
            if isinstance(node, nodes.paragraph) and node.astext() == "a":
                node[0] = nodes.strong("", "c")
        assert seen == ["section", "paragraph", "strong", "Text", "paragraph", "Text"]
