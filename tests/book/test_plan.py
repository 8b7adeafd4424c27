"""The plan of the course: no session uses what none before it has read, and the book prints the plan that there is."""

import re
from dataclasses import replace

import pytest
from course import plan, sessions
from course.labs import LABS
from course.problems import SETS

from building import ROOT

SESSIONS, PLANS, MINUTES = plan.course()
TEACHING, PAGE = ROOT / "book" / "teaching.md", ROOT / "book" / "sessions.md"


@pytest.mark.parametrize("name", PLANS)
def test_no_session_uses_what_no_earlier_one_has_read(name):
    assert plan.missing(PLANS[name]) == []


def with_weeks(*order):
    """The plan of five weeks in another order, or with some of its weeks only."""
    five = PLANS["five"]
    return replace(five, weeks=tuple(five.weeks[week - 1] for week in order))


@pytest.mark.parametrize(
    ("order", "missed"),
    [
        ((1, 5), "replica: serving / One pass needs parallelism.Layout"),  # a law that a figure calls
        ((1, 3), "copies: parallelism needs interconnect"),  # what the chapter's opening says you need
        ((1, 2, 5, 3, 4), "replica: serving needs parallelism"),
        ((2, 1, 3, 4, 5), "ring: interconnect / Rings and trees needs all-reduce"),  # a term that the section links
        ((1, 2, 4, 3, 5), "checkpoint: failures needs parallelism"),
    ],
)
def test_a_plan_in_a_wrong_order_is_refused_by_what_its_sections_use(order, missed):
    assert any(one.startswith(missed) for one in plan.missing(with_weeks(*order))), plan.missing(with_weeks(*order))


def test_a_lab_comes_when_what_it_tells_to_read_can_be_read():
    first, *others = PLANS["ten"].weeks
    early = replace(PLANS["ten"], weeks=(replace(first, labs=("laptop",)), *others))
    assert "lab laptop: parallelism needs sharding" in plan.missing(early)
    assert {lab for week in PLANS["ten"].weeks for lab in week.labs} == set(LABS)


def test_only_a_vote_may_ask_ahead():
    ahead = replace(SESSIONS["roof"], check=SESSIONS["decoding"].check)
    told = "roof: 'In Llama 3 70B each token passes' is of roofline / Batching: what it takes to reach the ridge"
    assert [one.startswith(told) for one in plan.missing(plan.Plan("One", (plan.Week((ahead,)),), ()))] == [True]
    assert plan.missing(plan.Plan("One", (plan.Week((replace(ahead, check=ahead.exit),)),), ())) == []


def test_a_part_that_a_chapter_no_longer_has_is_named():
    lost = replace(SESSIONS["roof"], read=(plan.Section("roofline", "A lost part"),))
    found = plan.missing(plan.Plan("One", (plan.Week((lost,)),), ()))
    assert found[-1] == "roof: roofline has no part 'A lost part'"


def test_the_book_prints_the_plan_that_there_is():
    again = "python -m course.sessions writes it again"
    assert sessions.page() == PAGE.read_text(encoding="utf-8"), again
    text = TEACHING.read_text(encoding="utf-8")
    assert sessions.teaching(text) == text, again
    for part, minutes in plan.clock().items():
        assert re.search(rf"^\| {minutes} \| \*\*", text, re.MULTILINE), part
    assert sum(MINUTES.values()) == plan.MINUTES


def test_every_session_has_a_plan_and_every_set_its_week():
    assert {session.name for one in PLANS.values() for session in one.sessions} == set(SESSIONS)
    given = " ".join(week.set for week in PLANS["ten"].weeks)
    assert [name for name in SETS if not re.search(rf"\b{name}\b", given)] == []
    pages = {section.chapter for session in PLANS["ten"].sessions for section in session.read}
    assert pages | set(PLANS["ten"].readings) >= set(plan.ORDER)


@pytest.mark.parametrize("name", [name for name, session in SESSIONS.items() if session.read])
def test_a_session_derives_what_it_has_read_and_moves_a_figure(name):
    session = SESSIONS[name]
    read = {(section.chapter, section.part) for section in session.read}
    assert {(section.chapter, section.part) for section in session.law} <= read
    figure = sessions.whole(session, session.figure)
    outputs = [
        "".join(output.get("data", {}).get("text/plain", ""))
        for chapter, _ in read
        for cell in plan.cells(chapter)
        for output in cell.get("outputs", ())
    ]
    assert any(text.startswith(f"Explorer: {figure}\n") and "\n  first: " in text for text in outputs), (
        "it doesn't move"
    )
    said = PAGE.read_text(encoding="utf-8").split(f" {session.question}\n")[1].split("\n## ")[0]
    for beat in ("*By hand:*", "$$ ", "*Rule:*", "?"):
        assert beat in said.split("At the board:")[1], beat
