"""A session's deck: the slides of its chapters in the order of its minutes, and at the end what has no minute."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping

from ..plan import Section, Session, clock
from .chapter import Chapter, Slide
from .deck import Placed

ASKS = "vote", "wrong", "predict"
STEPS = {
    "vote": "A vote, and a reason for it",
    "law": "The law, at the board",
    "figure": "The figure, moved together",
    "check": "The check, in pairs",
    "exit": "The question at the door",
}


def deck(session: Session, chapters: Mapping[str, Chapter]) -> list[Placed]:
    """The slides of a session at their places.

    Raises
    ------
    ValueError
        The chapters have no slide that begins as the plan says.
    """
    pool = [
        (name, slide) for name in dict.fromkeys(one.chapter for one in session.read) for slide in chapters[name].slides
    ]
    slides = [slide for _, slide in pool]
    figure = _found(session, slides, session.figure, ("figure", "drawing"))
    vote, check, door = (_found(session, slides, text, ASKS) for text in (session.vote, session.check, session.exit))
    named = [vote, figure, check, door]
    law = [
        slide
        for section in session.law
        for slide in of_section(section, pool)
        if slide not in named and _tells(slide, slides)
    ]
    at = clock()
    wrong = "".join(one.notes for one in slides if one.kind == "title" and one not in named)
    placed = [Placed(_opening(session, wrong))]
    opening = next(slide for slide in slides if slide.kind == "title")
    placed += [Placed(opening, at["vote"]), Placed(vote, at["vote"])]
    placed += [Placed(slide, at["law"]) for slide in law]
    before = slides[slides.index(figure) - 1]
    if before.kind == "predict" and before is not vote:
        placed += [Placed(before, at["figure"])]
    placed += [Placed(figure, at["figure"]), Placed(check, at["check"]), Placed(door, at["exit"])]
    kept = {id(one.slide) for one in placed}
    spare = [
        slide for section in session.read for slide in of_section(section, pool, whole=True) if id(slide) not in kept
    ]
    return placed + [Placed(slide, "in reserve") for slide in dict.fromkeys(spare) if slide.kind != "title"]


def _found(session: Session, slides: list[Slide], start: str, kinds: tuple[str, ...]) -> Slide:
    """The slide that begins so; as a vote, the title of a figure means the prediction before it."""
    for before, slide in zip([None, *slides], slides, strict=False):
        if not slide.name.lstrip('"“').startswith(start):
            continue
        if slide.kind in kinds:
            return slide
        if before and before.kind == "predict":
            return before
    raise ValueError(f"{session.name}: no {' or '.join(kinds)} begins with {start!r}")


def of_section(section: Section, pool: Iterable[tuple[str, Slide]], *, whole: bool = False) -> list[Slide]:
    """The slides of a section; with ``whole`` also those of the sections in it."""
    return [
        slide
        for chapter, slide in pool
        if chapter == section.chapter and slide.part == section.part and (whole or slide.section == section.section)
    ]


def _tells(slide: Slide, slides: list[Slide]) -> bool:
    """Whether a slide is of the law itself; a figure with a prediction waits, for it would tell the answer."""
    if slide.kind in ASKS:
        return False
    before = slides[slides.index(slide) - 1]
    return before.kind != "predict"


def _opening(session: Session, wrong: str) -> Slide:
    rows = "".join(f"<tr><td>{clock()[part]}</td><td>{what}</td></tr>" for part, what in STEPS.items())
    notes = f"<p><b>Wrong turns:</b> {html.escape(session.turns)}</p>{wrong}<p>Slides in reserve stand at the end.</p>"
    return Slide("title", f"<table>{rows}</table>", notes, heading=html.escape(session.question))


def chapters_of(sessions: Iterable[Session]) -> list[str]:
    """The chapters that some sessions show."""
    return list(dict.fromkeys(section.chapter for session in sessions for section in session.read))


def models(session: Session, chapters: Mapping[str, Chapter]) -> dict:
    """What the figures of a session's chapters start with."""
    return {name: model for chapter in chapters_of([session]) for name, model in chapters[chapter].models.items()}
