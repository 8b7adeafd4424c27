"""Sphinx extension: the rules of all boxes in one place, for the card on the wall.

``{rules}`` lists, chapter by chapter, what every box that is called *Rule* begins with. It reads the notebooks of
the table of contents when the page is made, so a box that changes changes the card.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.util.docutils import SphinxDirective

BOX = re.compile(r"^:::+\{admonition\} Rules?\b[^\n]*\n(.*?)^:::+$", re.MULTILINE | re.DOTALL)
# A full stop ends a sentence where a space or the end follows, and none stands inside a formula; \$ is a price.
SENTENCE = re.compile(r"(?:\\.|\$[^$]*\$|[^.$\\]|\.(?=\S))*\.?")
LINE = 112  # characters that a rule has on the card, if its first sentence isn't longer


def setup(app):
    """Register with Sphinx."""
    app.add_directive("rules", Rules)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}


def rules(text: str) -> list[str]:
    r"""Return the rule of every box of a page: its first sentence, and what follows as far as a line has room.

    >>> rules(":::{admonition} Rule\nRates add: $M = m/n$. So **more** fail.\n:::")
    ['Rates add: $M = m/n$. So more fail.']
    """
    found = []
    for box in BOX.findall(text):
        body = re.sub(r"^:\w+:.*\n", "", box, flags=re.MULTILINE).replace("**", "")
        first, *others = filter(None, map(str.strip, SENTENCE.findall(" ".join(body.split()))))
        for one in others:
            if len(f"{first} {one}") > LINE:
                break
            first = f"{first} {one}"
        found.append(first)
    return found


def titles(texts: Iterable[str]) -> list[str]:
    """Return the heading of each page up to its colon, and on to a comma if others begin alike.

    >>> titles(["# Serving: one replica, at work", "# Serving: a rack", "# The queue: who gets the GPUs, and when"])
    ['Serving: one replica', 'Serving: a rack', 'The queue']
    """
    heads = [found[1] if (found := re.search(r"^# (.*)$", text, re.MULTILINE)) else "" for text in texts]
    short = [head.partition(":")[0] for head in heads]
    return [head.partition(",")[0] if short.count(one) > 1 else one for head, one in zip(heads, short, strict=True)]


class Rules(SphinxDirective):
    """``{rules}``."""

    def run(self) -> list[nodes.Node]:
        """Return a paragraph for each chapter that has rules."""
        texts: dict[Path, str] = {}
        for name in self.config.external_site_map:  # in the order of the table of contents
            path = Path(self.env.doc2path(name))
            if path.suffix != ".ipynb" or not path.exists():
                continue
            cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
            text = "\n\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
            if rules(text):
                self.env.note_dependency(str(path))
                texts[path] = text
        lines: list[str] = []
        for (path, text), title in zip(texts.items(), titles(texts.values()), strict=True):
            lines += [f"**[{title}]({path.name})**", "", *(f"- {one}" for one in rules(text)), ""]
        box = nodes.container(classes=["rules"])
        self.state.nested_parse(StringList(lines, self.env.docname), 0, box)
        return [box]
