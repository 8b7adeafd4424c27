"""Sphinx extension: what can wait for a second reading folds, under the line that says what it is.

A section whose first paragraph begins with ``*Second reading:*`` is a second-order part of its page. On the site all
below that paragraph folds into a ``<details>`` with the paragraph as its summary; the heading stays where it was, so
that the contents list it and a link to it arrives. In JupyterLab it is a section like others, and print has it whole.
"""

from __future__ import annotations

from docutils import nodes

MARK = "Second reading:"


class second_reading(nodes.Element):  # noqa: N801  docutils finds how a node is written by the name of its class
    """What a section holds below its mark; the first child is the summary."""


def setup(app):
    """Register with Sphinx."""
    skipped = _inside, _inside
    app.add_node(second_reading, html=(_open, _close), latex=skipped, text=skipped)
    app.connect("doctree-resolved", fold, priority=800)  # when the blocks that wait for the load are marked
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}


def fold(app, doctree, docname):
    """Fold the sections that are marked."""
    for section in list(doctree.findall(nodes.section)):
        at = next((i for i, child in enumerate(section.children) if isinstance(child, nodes.paragraph)), None)
        if at is not None and is_marked(section[at]):
            below = section.children[at:]
            del section.children[at:]
            section += second_reading("", *below)


def is_marked(paragraph: nodes.Element) -> bool:
    """Whether a paragraph says that its section is for a second reading."""
    first = paragraph[0] if len(paragraph) else None
    return isinstance(first, nodes.emphasis) and first.astext() == MARK


def _open(writer, node):
    writer.body.append('<details class="second"><summary>')
    for part in node.pop(0).children:  # a summary holds words, and no paragraph
        part.walkabout(writer)
    writer.body.append("</summary>\n")


def _close(writer, node):
    writer.body.append("</details>\n")


def _inside(writer, node):
    """Write what is in it, and nothing around."""
