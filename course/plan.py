"""``python -m course.plan``: the sessions of the course, from ``plan.toml`` and the chapters, as pages of the book.

A session lists sections of chapters. What these need is found in the chapters themselves: the laws that their code
calls, the terms that they link, and the chapters that the chapter's opening names. A plan is refused where a session
needs what neither it nor an earlier one has read.
"""

from __future__ import annotations

import ast
import contextlib
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import nbformat

import clusterlab

BOOK = Path(__file__).parents[1] / "book"
SOURCE = Path(__file__).with_suffix(".toml")
LABS = Path(__file__).with_name("labs")
ORDER: tuple[str, ...] = ("roofline", "interconnect", "ports", "fabrics", "contention", "sharding", "parallelism")
ORDER += ("pipeline", "layouts", "mix", "step", "serving", "rack", "fleet", "post_training", "failures", "operations")
ORDER += ("queue", "on_call", "symptoms", "power", "hall", "scaling", "cost", "plan")
# The chapters that teach a room's laws; a layout and a workload are the first things that one on parallelism needs.
TEACHES: dict[str, tuple[str, ...]] = {name: (name,) for name in ("roofline", "contention", "failures")}
TEACHES |= {
    "interconnect": ("interconnect", "ports", "fabrics"),
    "parallelism": ("sharding", "parallelism", "pipeline", "layouts", "mix", "step"),
    "serving": ("serving", "rack", "fleet", "post_training"),
}
TEACHES |= {
    "operations": ("operations", "queue", "on_call", "symptoms"),
    "power": ("power", "hall"),
    "scaling": ("scaling", "cost"),
}
TEACHES |= {"planning": ("plan",)}
RECORDS = {"Layout", "Workload"}
# What closes a chapter teaches nothing, and what a page only computes with teaches nothing either.
CLOSING = ("", "Exercises", "Sources", "Numbers to remember", "Misconceptions", "The answer", "What to remember")
UNSEEN = {"remove-cell", "hide-cell"}
MINUTES = 75


@dataclass(frozen=True)
class Section:
    """A section of a chapter: a part, under ``##``, or what stands in it under a ``###``."""

    chapter: str
    part: str
    section: str = ""

    @classmethod
    def named(cls, text: str) -> Section:
        """Read ``chapter: Part / Section``.

        Examples
        --------
        >>> Section.named("pipeline: Cut the layers: pipelines / The bubble")
        Section(chapter='pipeline', part='Cut the layers: pipelines', section='The bubble')
        """
        chapter, _, rest = text.partition(": ")
        part, _, section = rest.partition(" / ")
        return cls(chapter, part, section)

    @property
    def title(self) -> str:
        """Its heading; of the third law of a page called *The law*, that of its part."""
        return self.section if self.section and self.section != "The law" else self.part


@dataclass(frozen=True)
class Session:
    """A session: what is read before it, and what it asks, derives, moves, checks, and asks at the door."""

    name: str
    question: str
    turns: str
    read: tuple[Section, ...] = ()
    law: tuple[Section, ...] = ()
    vote: str = ""
    figure: str = ""
    check: str = ""
    exit: str = ""
    cut: str = ""


@dataclass(frozen=True)
class Week:
    """A week: its sessions, then a problem set, and a lab, one of these."""

    sessions: tuple[Session, ...]
    set: str = ""
    labs: tuple[str, ...] = ()


@dataclass(frozen=True)
class Plan:
    """A course: its weeks, and what is left to read."""

    title: str
    weeks: tuple[Week, ...]
    readings: tuple[str, ...]

    @property
    def sessions(self) -> list[Session]:
        """All sessions, in their order."""
        return [session for week in self.weeks for session in week.sessions]


@cache
def course() -> tuple[dict[str, Session], dict[str, Plan], dict[str, int]]:
    """The sessions, the plans, and the minutes of a session, part by part."""
    data = tomllib.loads(SOURCE.read_text(encoding="utf-8"))
    sessions = {}
    for name, given in data["sessions"].items():
        read, law = (tuple(map(Section.named, given.pop(key, ()))) for key in ("read", "law"))
        sessions[name] = Session(name, read=read, law=law, **given)
    plans = {
        name: Plan(
            given["title"],
            tuple(
                Week(tuple(sessions[one] for one in week["sessions"]), week["set"], tuple(week.get("labs", ())))
                for week in given["weeks"]
            ),
            tuple(given["readings"]),
        )
        for name, given in data["plans"].items()
    }
    return sessions, plans, data["minutes"]


def clock() -> dict[str, str]:
    r"""From which minute to which each part of a session goes.

    Examples
    --------
    >>> list(clock()), clock()["exit"].replace("\N{EN DASH}", " to ")
    (['vote', 'law', 'figure', 'check', 'exit'], '67 to 75')
    """
    found, now = {}, 0
    for part, minutes in course()[2].items():
        found[part] = f"{now}\u2013{now + minutes}"
        now += minutes
    return found


# What a section needs


@dataclass
class Uses:
    """What a part of a chapter uses: laws by room and name, terms, and its headings."""

    laws: set[tuple[str, str]] = field(default_factory=set)
    terms: set[str] = field(default_factory=set)


@cache
def cells(chapter: str) -> list[nbformat.NotebookNode]:
    """The cells of a chapter."""
    return list(nbformat.read(BOOK / f"{chapter}.ipynb", 4).cells)


@cache
def laws() -> dict[str, str]:
    """Each law that a reader can import, and the room that it lives in."""
    rooms = {name: getattr(clusterlab, name) for name in TEACHES}
    found = {name: room for room, module in rooms.items() for name in vars(module) if name[0].islower()}
    return {name: room for name, room in found.items() if callable(getattr(rooms[room], name))} | dict.fromkeys(
        RECORDS, "parallelism"
    )


def _trees(cell: nbformat.NotebookNode) -> Iterator[ast.AST]:
    with contextlib.suppress(SyntaxError):  # a magic is no Python
        yield from ast.walk(ast.parse(cell.source))


def _imported(chapter: str) -> dict[str, str]:
    """What a chapter has imported from the library: each name, and the room that it's from; a room is its own."""
    found: dict[str, str] = {}
    for cell in cells(chapter):
        for node in _trees(cell) if cell.cell_type == "code" else ():
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "clusterlab":
                room = (node.module or "").partition(".")[2].partition(".")[0]
                found |= {alias.asname or alias.name: room or alias.name for alias in node.names}
    return found


def _called(cell: nbformat.NotebookNode, imported: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for node in _trees(cell):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            name, known = node.attr, node.value.id in imported
        else:
            name, known = (node.id, node.id in imported) if isinstance(node, ast.Name) else ("", False)
        if known and name in laws():
            yield laws()[name], name


@cache
def uses() -> dict[tuple[str, str], Uses]:
    """What each part of each chapter uses, in the book's order."""
    found: dict[tuple[str, str], Uses] = {}
    for chapter in ORDER:
        part, imported = "", _imported(chapter)
        for cell in cells(chapter):
            if cell.cell_type == "markdown":
                opening, *rest = re.split(r"^## (.*)$", cell.source, flags=re.MULTILINE)
                for heading, text in zip([part, *rest[::2]], [opening, *rest[1::2]], strict=True):
                    part = heading
                    linked = re.findall(r"\{term\}`(?:[^`<]*<)?([^`>]*)>?`", text)
                    found.setdefault((chapter, part), Uses()).terms.update(linked)
            elif not UNSEEN & set(cell.metadata.get("tags", ())):
                found.setdefault((chapter, part), Uses()).laws.update(_called(cell, imported))
    return found


@cache
def homes() -> dict[object, list[tuple[str, str]]]:
    """Where each law and each term is taught: where the book first uses it; a law also where its own chapters do."""
    first = [place for place in uses() if place[0] == "parallelism" and place[1] not in CLOSING]
    found: dict[object, list[tuple[str, str]]] = {("parallelism", record): first for record in RECORDS}
    for place, used in uses().items():
        if place[1] not in CLOSING:
            for thing in (*used.laws, *used.terms):
                found.setdefault(thing, [place])
            for room, law in used.laws:
                if place[0] in TEACHES[room] and not any(at[0] in TEACHES[room] for at in found[room, law]):
                    found[room, law].append(place)
    return found


@cache
def asked(chapter: str) -> tuple[tuple[str, str], ...]:
    """What a chapter asks, shows and says wrongly, each with its part: checks, titles of figures, misconceptions."""
    found, part = [], ""
    for cell in cells(chapter):
        for output in cell.get("outputs", ()):
            text = "".join(output.get("data", {}).get("text/plain", ""))
            if text.startswith(("Check: ", "Explorer: ")):
                found.append((part, re.split(r"\n  ", text.partition(": ")[2])[0]))
        if cell.cell_type == "markdown":
            found += [(part, said) for said in re.findall(r"\*\*([\"\u201c][^*]+)\*\*", cell.source)]
            part = ([part, *re.findall(r"^## (.*)$", cell.source, re.MULTILINE)])[-1]
    return tuple(found)


def stands(session: Session, start: str) -> tuple[str, str, str]:
    """The question, misconception or figure of a session's chapters that begins so: chapter, part and text.

    Raises
    ------
    ValueError
        There is none.
    """
    chapters = dict.fromkeys(section.chapter for section in session.read)
    for chapter in chapters:
        for part, text in asked(chapter):
            if text.lstrip('"\u201c').startswith(start):
                return chapter, part, text
    raise ValueError(f"{session.name}: nothing in {', '.join(chapters)} begins with {start!r}")


def whole(session: Session, start: str) -> str:
    """The whole text of what begins so."""
    return stands(session, start)[2]


@cache
def prerequisites(chapter: str) -> tuple[str, ...]:
    """The chapters that a chapter's opening says you need."""
    said = "\n".join(cell.source for cell in cells(chapter) if cell.cell_type == "markdown")
    (needed,) = re.findall(r"\*You need\*(.*?)(?:\*Time|$)", said, re.MULTILINE) or [""]
    return tuple(name for name in re.findall(r"\]\((\w+)\.ipynb", needed) if name in ORDER)


@cache
def lab(name: str) -> Session:
    """A lab, as what its own table says to read before it; no session need have read that."""
    text = "\n".join(cell.source for cell in nbformat.read(LABS / name / f"{name}.ipynb", 4).cells)
    read = []
    for page, named in re.findall(r"^\| \*.+\* \(`(\w+)`\) \| (.+) \|$", text, re.MULTILINE):
        told = "\n".join(cell.source for cell in cells(page) if cell.cell_type == "markdown")
        parts = re.split(r"^## (.*)$", told, flags=re.MULTILINE)
        for heading in named.split("; "):
            part = next(
                part
                for part, under in zip(parts[1::2], parts[2::2], strict=True)
                if heading == part or re.search(rf"^### {re.escape(heading)}$", under, re.MULTILINE)
            )
            read.append(Section(page, part))
    return Session(f"lab {name}", question="", turns="", read=tuple(dict.fromkeys(read)))


def missing(plan: Plan) -> list[str]:
    """What a session or a lab of a plan needs and neither it nor an earlier one has read."""
    read: list[tuple[str, str]] = []
    found = []
    for session in (one for week in plan.weeks for one in (*week.sessions, *map(lab, week.labs))):
        read += [(one.chapter, one.part) for one in session.read]
        for section in session.read:
            place = section.chapter, section.part
            if place not in uses():
                found.append(f"{session.name}: {section.chapter} has no part {section.part!r}")
                continue
            for thing in (*uses()[place].laws, *uses()[place].terms):
                at = homes().get(thing, [place])
                if place not in at and not set(at) & set(read):
                    told = thing if isinstance(thing, str) else ".".join(thing)
                    taught = " or ".join(map(": ".join, at))
                    found.append(f"{session.name}: {' / '.join(place)} needs {told}, of {taught}")
            known = {chapter for chapter, _ in read}
            found += [
                f"{session.name}: {section.chapter} needs {name}"
                for name in prerequisites(section.chapter)
                if name not in known
            ]
        for start in filter(None, (session.figure, session.check, session.exit)):
            chapter, part, _ = stands(session, start)
            if part not in CLOSING and (chapter, part) not in read:
                found.append(f"{session.name}: {start!r} is of {chapter} / {part}, which nobody has read")
    return sorted(set(found))
