"""Sphinx extension: a list of sources whose labels are what the text says, author and year.

The usual labels are a code: GIRTomas18. Here an entry is [Guerreiro et al., 2018], and a citation in the text says the
same. Where an author has several sources of one year, both say 2025a, 2025b.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from types import SimpleNamespace

import sphinxcontrib.bibtex.plugin
from pybtex.plugin import register_plugin
from pybtex.richtext import Text
from pybtex.style.formatting.alpha import Style as AlphaStyle
from pybtex.style.labels import BaseLabelStyle
from pybtex.style.sorting import BaseSortingStyle
from sphinxcontrib.bibtex.style.referencing import GroupReferenceStyle, PersonStyle
from sphinxcontrib.bibtex.style.referencing.basic_author_year import (
    BasicAuthorYearParentheticalReferenceStyle,
    BasicAuthorYearTextualReferenceStyle,
)
from sphinxcontrib.bibtex.style.template import entry_label, join, node, reference

NAME = "author_year_label"
PERSONS = PersonStyle()


class Labels(BaseLabelStyle):
    """An entry's label: its author as the text names them, and its year; with a letter where two have the same."""

    def format_labels(self, sorted_entries):
        """Yield a label for each entry."""
        labels = [f"{named(entry)}, {entry.fields.get('year', 'n.d.')}" for entry in sorted_entries]
        count, seen = Counter(labels), Counter[str]()
        for label in labels:
            yield label + (chr(ord("a") + seen[label]) if count[label] > 1 else "")
            seen[label] += 1


def named(entry) -> str:
    """Return the authors of an entry as a citation names them."""
    data = {"entry": entry, "style": SimpleNamespace(person=PERSONS)}
    return str(PERSONS.author_or_editor_or_title(full=False).format_data(data))


class Order(BaseSortingStyle):
    """By author, be it a person or a company, then by year and title."""

    def sorting_key(self, entry):
        """Return what an entry is sorted by."""
        return named(entry).casefold(), entry.fields.get("year", ""), entry.fields.get("title", "")


class Style(AlphaStyle):
    """The list itself."""

    default_label_style = default_sorting_style = NAME


@node
def labelled_year(children, data):
    """The year of an entry's label, with its letter."""
    return Text(data["formatted_entry"].label.rpartition(", ")[2])


class Parenthetical(BasicAuthorYearParentheticalReferenceStyle):
    """[Author, year]."""

    def inner(self, role_name):
        """Return the label."""
        return reference[entry_label]


class Textual(BasicAuthorYearTextualReferenceStyle):
    """Author [year]."""

    def inner(self, role_name):
        """Return the authors, and the year in brackets."""
        year = join[self.bracket.left, reference[labelled_year], self.bracket.right]
        return join(sep=self.text_reference_sep)[self.person.author_or_editor_or_title(full="s" in role_name), year]


@dataclass
class References(GroupReferenceStyle):
    """Citations in the text."""

    person: PersonStyle = field(default_factory=PersonStyle)

    def __post_init__(self):
        """Know both forms."""
        self.styles.extend([Parenthetical(), Textual()])
        super().__post_init__()


def setup(app):
    """Register with Sphinx."""
    for kind, style in (("labels", Labels), ("sorting", Order), ("formatting", Style)):
        register_plugin(f"pybtex.style.{kind}", NAME, style)
    sphinxcontrib.bibtex.plugin.register_plugin("sphinxcontrib.bibtex.style.referencing", NAME, References)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
