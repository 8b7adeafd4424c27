"""The bibliography: every source can be opened, and its label is what the text says."""

import re

import nbformat
import pytest
from pybtex.backends.html import Backend
from pybtex.database import Entry, Person, parse_file

import citations
from building import ROOT

ENTRIES = parse_file(ROOT / "book" / "references.bib").entries


def entry(*authors, year="2025", title="On links"):
    return Entry("misc", {"year": year, "title": title}, {"author": [Person(author) for author in authors]})


def style():
    return citations.Style(label_style=citations.Labels, sorting_style=citations.Order)


@pytest.fixture(scope="module")
def listed():
    return [*style().format_entries(ENTRIES.values())]


def test_every_source_can_be_opened(listed):
    shut = [one.label for one in listed if not re.search(r'href="https?://[^"]+"', one.text.render(Backend()))]
    assert shut == []


def test_every_source_is_cited_and_every_citation_has_a_source():
    """Looked for in the text of the pages, and in what they include from the library's docstrings."""
    pages = [cell.source for path in (ROOT / "book").glob("*.ipynb") for cell in nbformat.read(path, 4).cells]
    pages += [path.read_text() for path in (ROOT / "book").rglob("*.md")]
    cited = {
        key.strip() for text in pages for found in re.findall(r"{cite:?\w*}`([^`]+)`", text) for key in found.split(",")
    }
    assert cited == set(ENTRIES)


def test_a_label_is_author_and_year_and_stands_once(listed):
    labels = [one.label for one in listed]
    assert [label for label in labels if not re.fullmatch(r".+, (19|20)\d\d[a-z]?", label)] == []
    assert len(labels) == len({*labels}) == len(ENTRIES)


@pytest.mark.parametrize(
    ("authors", "label"),
    [
        (["Young, John W."], "Young, 2025"),
        (["Schroeder, Bianca", "Gibson, Garth A."], "Schroeder and Gibson, 2025"),
        (["Guerreiro, João", "Ilic, Aleksandar", "Roma, Nuno"], "Guerreiro et al., 2025"),
        (["{Llama Team, AI at Meta}"], "Llama Team, AI at Meta, 2025"),
    ],
)
def test_a_label_names_authors_as_a_citation_does(authors, label):
    assert [*citations.Labels().format_labels([entry(*authors)])] == [label]


def test_two_sources_of_an_author_and_a_year_have_letters_and_companies_stand_among_people():
    several = [
        entry("{NVIDIA}", title="B"),
        entry("Young, John W."),
        entry("{NVIDIA}", title="A"),
        entry("Bell, Ian H."),
    ]
    found = [*style().format_entries(several)]
    assert [one.label for one in found] == ["Bell, 2025", "NVIDIA, 2025a", "NVIDIA, 2025b", "Young, 2025"]
    assert [str(one.text).split("<newblock>")[1] for one in found[1:3]] == ["A.", "B."]
