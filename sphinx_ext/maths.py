"""Sphinx extension: formulas set at build time by KaTeX, so that a page shows them without a script.

KaTeX (``vendor/katex``) runs in the V8 of mini-racer. Each distinct formula is set once, as HTML for the eye and MathML
for a screen reader; a formula that KaTeX refuses is a warning at its place. Only a page with maths loads the style
sheet, and a browser loads only the fonts that the page's formulas use.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable
from functools import cached_property
from multiprocessing.util import Finalize
from pathlib import Path

from docutils import nodes
from py_mini_racer import MiniRacer
from sphinx.util import logging
from sphinx.util.math import get_node_equation_number

KATEX = Path(__file__).parent.parent / "vendor" / "katex" / "katex.min.js"

GAP = re.compile(r"\\q?quad(?![a-z])")
MARK = re.compile(r"[.,;:!?)]+")
OPENED = re.compile(r"[(\[]$")
SHORT = 20  # letters of LaTeX: a formula so short stays in one line, with the bracket before it

SET_ALL = """function setAll(formulas) {
    return formulas.map(([tex, displayMode]) => {
        try {
            return [true, katex.renderToString(tex, {displayMode, output: "htmlAndMathml", strict: "error"})];
        } catch (error) {
            return [false, error.message];
        }
    });
}"""

log = logging.getLogger(__name__)


def setup(app):
    """Register with Sphinx."""
    setter = Setter()
    app.add_html_math_renderer("katex", (setter.visit_inline, None), (setter.visit_display, None))
    app.connect("config-inited", configure)
    app.connect("doctree-resolved", setter.prepare)
    app.add_css_file("katex/katex.min.css", priority=700)
    app.add_css_file("maths.css", priority=700)
    app.connect("build-finished", lambda *_: setter.close())
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}


def configure(app, config):
    """Take KaTeX for the maths of every page, and leave its script out of the site."""
    config.html_math_renderer = "katex"
    config.exclude_patterns.append("**/katex.min.js")


def display_source(text: str) -> str:
    r"""Return what LaTeX is to set: a block may hold several equations, parted by empty lines, and broken lines.

    One that is a line may break where it leaves a gap, as KaTeX lets it behind a sign.

    >>> display_source("a = b")
    'a = b'
    >>> display_source(r"a, \qquad \underbrace{b \quad c}_d")
    'a, \\qquad\\allowbreak  \\underbrace{b \\quad c}_d'
    >>> print(display_source("a &= b\n\nc &= d"))
    \begin{aligned}a &= b\\c &= d\end{aligned}
    """
    equations = [part.strip() for part in text.split("\n\n") if part.strip()]
    equations = [rf"\begin{{split}}{part}\end{{split}}" if r"\\" in part else part for part in equations]
    whole = r"\\".join(equations)
    if len(equations) > 1:
        return rf"\begin{{aligned}}{whole}\end{{aligned}}"
    return breakable(whole)


def breakable(tex: str, gap: str = "") -> str:
    r"""Let a formula break behind its gaps that stand in no braces and in no lines of its own, or replace these.

    >>> breakable(r"a, \qquad b", r"\ ")
    'a, \\ \\allowbreak  b'
    """
    if r"\begin" in tex:
        return tex

    def replaced(found: re.Match[str]) -> str:
        before = tex[: found.start()]
        return found[0] if before.count("{") > before.count("}") else (gap or found[0]) + r"\allowbreak "

    return GAP.sub(replaced, tex)


def source(node: nodes.Element) -> tuple[str, bool]:
    """Return what LaTeX is to set for a formula, and whether it stands on a line of its own."""
    tex = node.astext()
    if not isinstance(node, nodes.math_block):
        return breakable(tex, r"\ "), False  # in a sentence, a gap is a space
    return tex if node["nowrap"] else display_source(tex), True


class Setter:
    """KaTeX, and the formulas that it has set."""

    def __init__(self) -> None:
        self.done: dict[tuple[str, bool], tuple[bool, str]] = {}

    @cached_property
    def engine(self) -> MiniRacer:
        """A V8 that holds KaTeX, from the first formula on."""
        engine = MiniRacer()
        engine.eval(KATEX.read_text(encoding="utf-8"))
        engine.eval(SET_ALL)
        Finalize(self, self.close, exitpriority=1)  # a process that writes pages ends without an event
        return engine

    def close(self) -> None:
        """End the engine's threads, for which Python would wait; the next build starts another."""
        if "engine" in self.__dict__:
            self.engine.close()
            del self.engine

    def html(self, tex: str, *, display: bool) -> str:
        """Return a formula as HTML with MathML.

        Raises
        ------
        ValueError
            If KaTeX refuses it; the message says where.
        """
        self._set_all([(tex, display)])
        done, text = self.done[tex, display]
        if not done:
            raise ValueError(text)
        return text

    def _set_all(self, formulas: Iterable[tuple[str, bool]]) -> None:
        """Set the formulas that are not yet: every call of the engine waits for another thread."""
        new = [formula for formula in dict.fromkeys(formulas) if formula not in self.done]
        if new:
            self.done.update(zip(new, self.engine.call("setAll", new), strict=True))

    def prepare(self, app, doctree, docname):
        """Set a document's formulas together before its page is written."""
        if app.builder.format == "html":
            found = list(doctree.findall(lambda node: isinstance(node, nodes.math | nodes.math_block)))
            self._set_all(map(source, found))
            for node in found:
                node["set"] = self._set(node)
                if isinstance(node, nodes.math):
                    self._take_marks(node)

    @staticmethod
    def _take_marks(node: nodes.math) -> None:
        """Move the bracket before a formula and the mark after it to it: a browser may break the line between them."""
        before = node.parent[at - 1] if (at := node.parent.index(node)) else None
        if len(node.astext()) <= SHORT and isinstance(before, nodes.Text) and (bracket := OPENED.search(before)):
            node["opened"] = bracket[0]
            node.parent.replace(before, nodes.Text(before[: bracket.start()]))
        after = node.next_node(nodes.Text, descend=False, siblings=True)
        if after is not None and after is node.parent[node.parent.index(node) + 1] and (mark := MARK.match(after)):
            node["mark"] = mark[0]
            node.parent.replace(after, nodes.Text(after[mark.end() :]))

    def _set(self, node: nodes.Element) -> str:
        tex, display = source(node)
        try:
            return self.html(tex, display=display)
        except ValueError as error:
            log.warning("%s", error, location=node, type="maths")
            return f"<code>{html.escape(tex)}</code>"

    def visit_inline(self, translator, node):
        """Write an inline formula."""
        formula = node.get("set") or self._set(node)
        inline = f"{translator.starttag(node, 'span', '', CLASS='math')}{formula}</span>"
        opened, mark = node.get("opened", ""), node.get("mark", "")
        if len(node.astext()) > SHORT and inline.endswith("</span>" * 4):  # into what KaTeX keeps in a line at its end
            inline = inline.removesuffix("</span>" * 4) + html.escape(mark) + "</span>" * 4
            mark = ""
        if opened or mark:
            inline = f'<span class="marked">{opened}{inline}{html.escape(mark)}</span>'
        translator.body.append(inline)
        raise nodes.SkipNode

    def visit_display(self, translator, node):
        """Write a displayed formula, with its number where it has one."""
        # What may scroll on a narrow screen must be reached by the keyboard too.
        translator.body.append(translator.starttag(node, "div", "", CLASS="math", tabindex="0"))
        translator.body.append(node.get("set") or self._set(node))
        if node["number"]:
            translator.body.append(f'<span class="eqno">({get_node_equation_number(translator, node)})')
            translator.add_permalink_ref(node, "Link to this equation")
            translator.body.append("</span>")
        translator.body.append("</div>\n")
        raise nodes.SkipNode
