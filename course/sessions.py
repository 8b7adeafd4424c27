"""``python -m course.sessions``: write the plan into the book, from ``plan.toml`` and the chapters.

``book/sessions.md`` is written whole. In ``book/teaching.md`` the tables of weeks stand between two marks, and the rest
is nobody's but its author's.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from functools import cache

from .plan import BOOK, Plan, Section, Session, cells, clock, course, missing, whole
from .slides.passages import SUM, Block, Reader, sentences, words

WHAT = {
    "vote": "Everybody commits to an answer; neighbours argue for a minute; vote again",
    "law": "The law at the board: its question, one by hand, the formula, why, the rule",
    "figure": "The figure, moved together: say what will happen, then move",
    "check": "The check, in pairs and on paper; then the vote, and the usual mistakes",
    "exit": "The question at the door: alone, written down, handed in",
}
_SUM = re.compile(r"\d\D*[=≈/\u00d7]\D*\d")
OPEN, CLOSE = "<!-- weeks: written by python -m course.sessions -->", "<!-- end of weeks -->"


@cache
def anchors(chapter: str) -> dict[tuple[str, str], str]:
    """The anchor of each section of a chapter."""
    found: dict[tuple[str, str], str] = {}
    seen: dict[str, int] = {}
    part = ""
    for level, heading in _headings(chapter):
        name = slug(heading)
        count = seen[name] = seen.get(name, -1) + 1
        if level == 2:
            part = heading
        # A second heading of one name has no sure anchor: its part has.
        found.setdefault((part, heading if level == 3 else ""), found[part, ""] if count else name)
    return found


def _headings(chapter: str) -> Iterator[tuple[int, str]]:
    for cell in cells(chapter):
        if cell.cell_type == "markdown":
            yield from ((len(marks), text) for marks, text in re.findall(r"^(#{2,3}) (.*)$", cell.source, re.MULTILINE))


def link(section: Section) -> str:
    """A section as a link to it."""
    anchor = anchors(section.chapter)[section.part, section.section]
    return f"[{section.title}]({section.chapter}.ipynb#{anchor})"


def blocks(section: Section, reader: Reader) -> Iterator[Block]:
    """The blocks of a section: from its heading to the next."""
    part = inner = ""
    for cell in cells(section.chapter):
        for block in reader.blocks(cell.source) if cell.cell_type == "markdown" else ():
            if block.kind == "heading":
                part, inner = (part, block.text) if block.name == "h3" else (block.text, "")
            elif (part, inner) == (section.part, section.section):
                yield block


def law(section: Section, reader: Reader) -> str:
    """A law in a paragraph, from its section: what it asks, its sums by hand, its formula, its rule."""
    found = list(blocks(section, reader))
    lines = [line for one in found for line in (one.items or ((one.text,) if one.kind == "text" else ()))]
    said = [sentence for line in lines for sentence in sentences(line)]
    question = next((one for one in said if re.search(r"\?\**$", one) and words(one) > 2), "")
    sums = [one for one in said if _SUM.search(re.sub(r"\$[^$]*\$", "", one)) and words(one) < 45][:2]
    sums = sums or [one for one in said if SUM.search(one)][:1]
    formulas = [one.text for one in found if one.kind == "formula"]
    rules = [" ".join(one.text.split()) for one in found if one.kind == "box" and one.name.startswith("Rule")]
    opening = [_bare(question)] if question else []
    opening += [_bare(f"*By hand:* {' '.join(re.sub(':$', '.', one) for one in sums)}")] if sums else []
    parts = [" ".join([f"**{link(section)}.**", *opening])]
    parts += [f"$$ {' '.join(formulas[-1].split())} $$"] if formulas else []
    parts += [_bare(f"*Rule:* {rules[-1]}")] if rules else []
    return "\n\n  ".join(parts) if sums or len(parts) > 1 else ""  # of one item of a list


def _bare(text: str) -> str:
    """On one line, without the links of the chapter, whose anchors are not this page's, and not bold."""
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text).replace("**", "")
    return " ".join(re.sub(r"\{term\}`([^`<]*?)(?: *<[^>]*>)?`", r"\1", plain).split())


def of_session(number: int, session: Session, reader: Reader) -> str:
    """A session, by the minute."""
    lines = [f"## {number}. {session.question}", ""]
    if not session.read:
        return "\n".join([*lines, DEFENCE, "", f"*Wrong turns:* {session.turns}"])
    at = clock()
    read = dict.fromkeys(section.chapter for section in session.read)
    for chapter in read:
        read[chapter] = ", ".join(link(one) for one in session.read if one.chapter == chapter)
    sections = "; ".join(f"{chapter}: {links}" for chapter, links in read.items())
    end = "" if re.search(r"\?\]\([^)]*\)$", sections) else "."
    lines += [f"*Slides:* `session-{session.name}.html`. *Read before:* {sections}{end}"]
    vote, check, door = (whole(session, text) for text in (session.vote, session.check, session.exit))
    asks = f"The prediction of *{vote}*" if vote in figures(session) else vote
    said = f"A colleague says: {door} What's wrong? One sentence, with a number." if door[0] in '"\u201c' else door
    rows = [
        (at["vote"], f"**Vote.** {asks}"),
        (at["law"], f"**At the board.** {'; '.join(link(one) for one in session.law)}"),
        (at["figure"], f"**Move it.** *{whole(session, session.figure)}*"),
        (at["check"], f"**In pairs.** {check}"),
        (at["exit"], f"**At the door.** {said}"),
    ]
    lines += [
        "",
        "| minutes | what happens |",
        "|---|---|",
        *(f"| {when} | {_cell(what)} |" for when, what in rows),
        "",
    ]
    lines += ["At the board:", "", *(f"- {said}" for section in session.law if (said := law(section, reader))), ""]
    return "\n".join([*lines, f"*Wrong turns:* {session.turns} *If time runs short, leave out:* {session.cut}."])


def figures(session: Session) -> list[str]:
    """The titles of the figures of a session's chapters."""
    chapters = dict.fromkeys(section.chapter for section in session.read)
    outputs = (one for chapter in chapters for cell in cells(chapter) for one in cell.get("outputs", ()))
    texts = ("".join(one.get("data", {}).get("text/plain", "")) for one in outputs)
    return [text.partition(": ")[2].partition("\n")[0] for text in texts if text.startswith("Explorer: ")]


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("$", "\\$").replace("_", "\\_")


DEFENCE = (
    "Fifteen minutes each, so five in a session: three slides in ten of them, one of the plan and two of the doubt "
    "that the set has drawn, then questions and marks. With more than five, halve the class between two rooms, or "
    "take a second session. All marks are for what is said when the doubt lands: a computation, what the model leaves "
    "out and which way that pushes the answer, and a measurement that would change the plan."
)


def ordered() -> list[Session]:
    """All sessions: those of ten weeks, then those that only five have, and the defence last."""
    plans = course()[1]
    found = list(dict.fromkeys([*plans["ten"].sessions, *plans["five"].sessions]))
    return sorted(found, key=lambda one: one.name == "defence")


def slug(heading: str) -> str:
    """The anchor that MyST gives a heading.

    Examples
    --------
    >>> slug("3. What's a ring?")
    '3-whats-a-ring'
    """
    return re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")


def page() -> str:
    """The page of all sessions."""
    order = ordered()
    reader = Reader()
    try:
        texts = [of_session(number, session, reader) for number, session in enumerate(order, 1)]
    finally:
        reader.close()
    head = (
        "<!-- Written by python -m course.sessions from course/plan.toml and the chapters: change those. -->\n"
        "# The sessions, by the minute\n\n"
        "Seventy-five minutes each, and all of one shape ([why](teaching.md#one-session)). `make slides` writes a deck "
        "for each, in this order, with these minutes on the slides and what to say in the notes. The questions, sums "
        "and rules below are the chapters' own, word for word."
    )
    return "\n\n".join([head, *texts]) + "\n"


def weeks(plan: Plan) -> str:
    """A plan as a table of weeks."""
    rows = []
    for number, week in enumerate(plan.weeks, 1):
        numbered = [(f"{ordered().index(one) + 1}. {one.question}", one.question) for one in week.sessions]
        asked = "<br>".join(f"[{question}](sessions.md#{slug(heading)})" for heading, question in numbered)
        pages = dict.fromkeys(section.chapter for session in week.sessions for section in session.read)
        read = ", ".join(f"[{name.replace('_', ' ')}]({name}.ipynb)" for name in pages)
        lab = f"; lab {' or '.join(week.labs)}" if week.labs else ""
        rows.append(f"| {number} | {asked} | {read or 'none'} | {week.set}{lab} |")
    left = ", ".join(f"[{title(name)}]({name}.ipynb)" for name in plan.readings)
    table = [
        "| week | its two sessions | pages | set, lab |",
        "|---|---|---|---|",
        *rows,
        "",
        f"*To read beside it:* {left}.",
    ]
    return "\n".join([f"## {plan.title}", "", *table])


@cache
def title(chapter: str) -> str:
    """A chapter's title."""
    return re.search(r"^# (.*)", cells(chapter)[0].source, re.MULTILINE)[1]  # type: ignore[index]


def teaching(text: str) -> str:
    """The page for teachers, with its weeks as they are now."""
    before, _, rest = text.partition(OPEN)
    _, _, after = rest.partition(CLOSE)
    tables = "\n\n".join(weeks(plan) for plan in reversed(course()[1].values()))
    return f"{before}{OPEN}\n\n{tables}\n\n{CLOSE}{after}"


def main() -> int:
    """Write both pages, or say what a session needs that none before it has read."""
    if wrong := [f"{plan.title}: {one}" for plan in course()[1].values() for one in missing(plan)]:
        print(*wrong, sep="\n", file=sys.stderr)
        return 1
    (BOOK / "sessions.md").write_text(page(), encoding="utf-8")
    path = BOOK / "teaching.md"
    path.write_text(teaching(path.read_text(encoding="utf-8")), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
