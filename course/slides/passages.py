"""A chapter's Markdown in blocks and sentences, as slides need it: what it links and cites stays in the book."""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from markdown_it import MarkdownIt
from markdown_it.token import Token
from mdit_py_plugins.colon_fence import colon_fence_plugin
from mdit_py_plugins.dollarmath import dollarmath_plugin
from mdit_py_plugins.myst_role import myst_role_plugin

from maths import Setter, display_source

SUM = re.compile(r"[=≈]|\d\s*[\u00d7/]\s*\d|\*\*[^*]*\d[^*]*\*\*")  # a sum that is written out
REASON = re.compile(r"\b(because|so|but|since|why|cancels?|only|can't|whatever|however)\b", re.IGNORECASE)


@dataclass(frozen=True)
class Block:
    """A block of Markdown: ``kind`` is heading, text, list, table, formula or box.

    ``text`` is its source; of a list ``items`` are its items; a box has its ``name``: that of an admonition, or of a
    directive in braces.
    """

    kind: str
    text: str
    name: str = ""
    items: tuple[str, ...] = ()


class Reader:
    """Reads a chapter's Markdown, and writes it as markup with formulas set by KaTeX."""

    def __init__(self) -> None:
        self._katex = Setter()

    @cached_property
    def _parser(self) -> MarkdownIt:
        parser = MarkdownIt("commonmark").enable("table")
        parser.use(dollarmath_plugin).use(colon_fence_plugin).use(myst_role_plugin)
        written = {
            "math_inline": lambda token: self.formula(token.content, display=False),
            "math_block": lambda token: self.formula(token.content),
            "myst_role": _role,
        } | dict.fromkeys(("link_open", "link_close", "colon_fence"), lambda _: "")
        for kind, write in written.items():
            parser.add_render_rule(kind, _rule(write))
        return parser

    def close(self) -> None:
        """End KaTeX."""
        self._katex.close()

    def formula(self, tex: str, *, display: bool = True) -> str:
        """A formula as markup."""
        return self._katex.html(display_source(tex) if display else tex, display=display)

    def markup(self, text: str) -> str:
        """Blocks of Markdown as markup."""
        return _together(self._parser.render(_cited(text)))

    def line(self, text: str) -> str:
        """Markdown of one line, or one sentence, as markup."""
        return _together(self._parser.renderInline(_cited(text).strip()))

    def plain(self, text: str) -> str:
        """Markdown of one line as bare text.

        Examples
        --------
        >>> Reader().plain("What does {term}`TP <tensor parallelism>` cost? **[Ask](power.ipynb)** {cite:p}`llama3`")
        'What does TP cost? Ask'
        """
        return html.unescape(re.sub(r"<[^>]*>", "", self.line(text)))

    def blocks(self, text: str) -> list[Block]:
        """What stands on the page, block by block."""
        tokens, lines = self._parser.parse(_cited(text)), _cited(text).splitlines()
        found = []
        for i, token in enumerate(tokens):
            if token.level or token.nesting < 0 or not token.map:
                continue
            source = "\n".join(lines[token.map[0] : token.map[1]])
            match token.type:
                case "heading_open":
                    found.append(Block("heading", tokens[i + 1].content, token.tag))
                case "math_block":
                    found.append(Block("formula", token.content.strip()))
                case "bullet_list_open" | "ordered_list_open":
                    found.append(Block("list", source, items=tuple(_items(tokens[i:], lines))))
                case "colon_fence" | "fence":
                    found.append(_box(token))
                case "table_open":
                    found.append(Block("table", source))
                case _:
                    found.append(Block("text", source))
        return found


def _rule(write: Callable[[Token], str]) -> Callable[..., str]:
    """What writes a token, as the parser calls it: with itself and all tokens."""
    return lambda _, tokens, i, *__: write(tokens[i])


def _role(token: Token) -> str:
    """A role's words: of a term what is shown, of a citation nothing."""
    words = str(token.content)
    if str(token.meta.get("name", "")).startswith("cite"):
        return ""
    return re.sub(r"\s*<[^>]*>$", "", words)


def _cited(text: str) -> str:
    """Take citations away, and what is in brackets only to lead elsewhere, with the space before them."""
    return re.sub(r"\s*(?:\{cite:\w+\}`[^`]*`|\((?:\[[^\]]*\]\([^)]*\)(?:, )?)+\))", "", text)


def _together(markup: str) -> str:
    """Keep a number and its unit in one line."""
    return re.sub(r"(?<=\d) (?=(?:%|[kMGTPE]?B(?:/s)?|[kMG]?W|[mµ]?s|[kMGTPE]?FLOPs?(?:/s)?)\b)", "\u00a0", markup)


def _items(tokens: Sequence[Token], lines: Sequence[str]) -> Iterable[str]:
    for token in tokens:
        if token.type == "list_item_open" and token.level == 1 and token.map:
            source = "\n".join(lines[token.map[0] : token.map[1]])
            yield re.sub(r"^\s*(?:[-*]|\d+\.)\s+", "", source).strip()
        if token.nesting < 0 and token.level == 0:
            return


def _box(token: Token) -> Block:
    """An admonition by its title; another directive by its name, in braces."""
    match = re.match(r"\{(\w+)\}\s*(.*)", token.info.strip())
    kind, title = match.groups() if match else (token.info, "")
    body = re.sub(r"\A(?::[\w-]+:.*\n)+", "", token.content)
    return Block("box", body.strip(), title.strip() if kind == "admonition" else f"{{{kind}}}")


_ENDS = re.compile(r"(?<=[.!?])(\*{0,2}[)\"”]?\*{0,2})\s+(?=[\"“(*$A-Z\d])")


def sentences(text: str) -> list[str]:
    """Part a paragraph into its sentences; bold and formulas stay whole.

    Examples
    --------
    >>> sentences("It's 4 GB. **Why so much? Ask.** In $a. B$ it isn't, e.g. here.")
    ["It's 4 GB.", '**Why so much? Ask.**', "In $a. B$ it isn't, e.g. here."]
    """
    flat, parts, start = " ".join(text.split()), [], 0
    for match in _ENDS.finditer(flat):
        piece = flat[start : match.end(1)]
        if not (
            piece.count("**") % 2 or piece.count("$") % 2 or piece.count("`") % 2 or piece.endswith(("e.g.", "vs."))
        ):
            parts.append(piece)
            start = match.end()
    return [*parts, flat[start:]] if flat[start:] else parts


def words(text: str) -> int:
    """How long a sentence is for an eye: a formula counts as three words."""
    return len(re.sub(r"\$[^$]+\$", "a b c", text).split())
