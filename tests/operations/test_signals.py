"""Signals: each leads to a section of the book that exists, and what is no signal is refused."""

import re
import tomllib

import nbformat
import pytest

from building import ROOT
from clusterlab.catalogue import stored
from clusterlab.operations import SIGNALS, URGENCIES
from clusterlab.operations.signals import read_signals

FAMILIES = {"GPU driver", "NVSwitch driver", "GPU counters", "network port", "kernel log", "the job"}


def anchors(page):
    """The headings of a notebook as its page names them."""
    cells = nbformat.read(ROOT / "book" / page, as_version=4).cells
    text = "\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
    said = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {"", *(re.sub(r"[^a-z0-9]+", "-", heading.lower()).strip("-") for heading in said)}


def test_every_signal_leads_to_a_section_that_exists():
    pages = {signal.law.partition("#")[0] for signal in SIGNALS.values()}
    known = {page: anchors(page) for page in pages}
    wrong = [s.name for s in SIGNALS.values() if s.law.partition("#")[2] not in known[s.law.partition("#")[0]]]
    assert wrong == []


def test_the_table_covers_what_a_person_on_call_sees():
    assert {signal.where for signal in SIGNALS.values()} >= FAMILIES
    assert {signal.urgency for signal in SIGNALS.values()} == set(URGENCIES)
    assert len(SIGNALS) > 50
    for signal in SIGNALS.values():
        assert set(signal.facts) == {"where", "meaning", "cause", "action"}  # what is ours rests on no source
        assert all(fact.source.url for fact in signal.facts.values())


@pytest.mark.parametrize(
    ("field", "value", "why"),
    [("urgency", "soon", "urgency must be one of now"), ("cause", 3, "cause must be text"), ("law", "", "law must be")],
)
def test_a_row_that_is_no_signal_is_refused(field, value, why):
    document = tomllib.loads(stored("signals.toml"))
    document["signal"]["Xid 79"][field] = value
    with pytest.raises(ValueError, match=f"signal Xid 79: {why}"):
        read_signals(document)
