"""Progress: what students' browsers saved of their checks, as one table for the teacher.

A student's file is what *Save my progress* writes. What can be told from it is told: a file that was edited, a question
that the book doesn't ask, more hints than there are, two students with one history. None of it is a proof: whoever can
program can write a file that holds together. Use it to see where a class gets stuck, and never for marks.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from .roster import Student

_BOOK = Path(__file__).parents[1] / "book"
_HEAD = ["question", "state", "tries", "hints", "answer", "mistakes", "last"]
_MINUTE = re.compile(r"20\d\d-\d\d-\d\dT\d\d:\d\d")
_STEPS = 5  # at so many checks, one history is no coincidence


class RefusedError(ValueError):
    """A file isn't of this book's checks, or doesn't hold together."""


@dataclass(frozen=True)
class Known:
    """A check of the book, as its page has stored it."""

    page: str
    hints: int
    mistakes: int
    choices: Sequence[str]


@dataclass(frozen=True)
class Entry:
    """What a browser remembers of one check."""

    question: str
    state: str
    tries: int
    hints: int
    answer: str
    mistakes: Mapping[str, int]
    last: str


def book(folder: Path = _BOOK) -> dict[str, Known]:
    """The checks of all chapters by their question, from the outputs that the notebooks store."""
    order = re.findall(r"file: book/(\w+)", (folder.parent / "_toc.yml").read_text(encoding="utf-8"))
    known: dict[str, Known] = {}
    for page in order:
        path = folder / f"{page}.ipynb"
        for cell in json.loads(path.read_text(encoding="utf-8"))["cells"] if path.exists() else ():
            for output in cell.get("outputs", ()):
                text = "".join(output.get("data", {}).get("text/plain", ""))
                question, _, how = text.removeprefix("Check: ").rpartition("\n  ")
                if text.startswith("Check: "):
                    choices = re.match(r"one of (.*); (?:\d+|no) hints?; fingerprint", how)
                    among = choices[1].split(" | ") if choices else []
                    wrong = len(among) - 1 if among else _count(r"(\d+) known mistake", how)
                    known.setdefault(question, Known(page, _count(r"(\d+) hints?; fingerprint", how), wrong, among))
    return known


def _count(pattern: str, text: str) -> int:
    found = re.search(pattern, text)
    return int(found[1]) if found else 0


def checksum(text: str) -> str:
    """FNV-1a over the characters, as the browser computes it.

    Examples
    --------
    >>> checksum(""), checksum("question")
    ('811c9dc5', '06d5a845')
    """
    total = 2166136261
    for letter in text:
        total = ((total ^ ord(letter)) * 16777619) & 0xFFFFFFFF
    return f"{total:08x}"


def read(path: Path, known: Mapping[str, Known], now: datetime | None = None) -> tuple[list[Entry], list[str]]:
    """What a file holds of this book's checks, and the questions in it that the book doesn't ask.

    Raises
    ------
    RefusedError
        It is no such file, or it doesn't hold together; the message says how.
    """
    try:
        text = path.read_bytes().decode("utf-8")
    except UnicodeDecodeError:
        raise RefusedError("is no text in UTF-8") from None
    if not text.startswith('"question","state"'):
        raise RefusedError("is not what *Save my progress* writes")
    rows, _, last = text.rstrip("\r\n").rpartition("\r\n")
    if not last.startswith('"checksum",'):
        raise RefusedError("has no checksum: an older edition of the book saved it, or a spreadsheet")
    if last != f'"checksum","{checksum(rows + chr(13) + chr(10))}"':
        raise RefusedError("was edited, or saved again by a spreadsheet, since the browser wrote it")
    lines = list(csv.reader(io.StringIO(rows)))
    if lines[0] != _HEAD:
        raise RefusedError(f"has columns of another edition: {', '.join(lines[0])}")
    entries = [_entry(number, line) for number, line in enumerate(lines[1:], 2)]
    mine = [entry for entry in entries if entry.question in known]
    foreign = [entry.question for entry in entries if entry.question not in known]
    if foreign and not mine:
        raise RefusedError("holds no question of this book")
    latest = f"{(now or datetime.now(UTC)) + timedelta(days=1):%Y-%m-%dT%H:%M}"
    for entry in mine:
        _hold_together(entry, known[entry.question], latest)
    if len({entry.question for entry in entries}) < len(entries):
        raise RefusedError("holds a question twice, which no browser writes")
    return mine, foreign


def _entry(number: int, line: Sequence[str]) -> Entry:
    try:
        question, state, tries, hints, answer, mistakes, last = (re.sub(r"^'(?=[=+@-])", "", cell) for cell in line)
        made = [re.fullmatch(r"([1-9]\d*) x (.+)", one) for one in mistakes.split(" | ") if mistakes]
        return Entry(question, state, int(tries), int(hints), answer, {m[2]: int(m[1]) for m in made if m}, last)
    except ValueError:
        raise RefusedError(f"line {number} is not what the browser writes") from None


def _hold_together(entry: Entry, check: Known, latest: str) -> None:
    """Refuse what no browser could have written."""
    short, made = entry.question[:50], sum(entry.mistakes.values())
    wrong = {
        "has a state that no check has": entry.state not in ("right", "open", "shown"),
        "is right without a try": entry.state == "right" and entry.tries < 1,
        "had more hints than there are": not 0 <= entry.hints <= check.hints + 1,
        "was shown, but not asked for all its hints": entry.state == "shown" and entry.hints <= check.hints,
        "has more mistakes than tries": made > entry.tries or (entry.state == "right" and made >= entry.tries),
        "has more mistakes than it knows": len(entry.mistakes) > check.mistakes,
        "was answered by none of its choices": bool(check.choices and entry.answer)
        and entry.answer not in check.choices,
        "has no date": not _MINUTE.fullmatch(entry.last),
        "was answered in the future": entry.last > latest,
    }
    for why, is_so in wrong.items():
        if is_so:
            raise RefusedError(f"{short!r} {why}")


def owner(path: Path, students: Sequence[Student]) -> str:
    """The student whose file this is, by the file's name or that of its folder; empty where neither is one's."""
    names = {student.id.lower(): student.id for student in students}
    return names.get(path.stem.lower()) or names.get(path.parent.name.lower(), "")


def gather(
    folder: Path, students: Sequence[Student], known: Mapping[str, Known]
) -> tuple[dict[str, list[Entry]], list[str]]:
    """Each student's entries, and what was refused, by file and reason."""
    found, refused, files = dict[str, list[Entry]](), [], dict[str, str]()
    for path in sorted(folder.rglob("*.csv")):
        name, told = owner(path, students), str(path.relative_to(folder))
        if not name or name in files:
            why = (
                f"is a second file of {name}, beside {files[name]}"
                if name
                else "is named after no student: ID.csv, or ID/any.csv"
            )
            refused.append(f"{told} {why}")
            continue
        try:
            found[name], foreign = read(path, known)
        except RefusedError as why:
            refused.append(f"{told} {why}")
            continue
        files[name] = told
        refused += [
            f"{told}: {question[:60]!r} is no question of this edition, and was left out" for question in foreign
        ]
    copies = _copies(found)
    refused += [f"{files[a]} and {files[b]}: the same answers in the same minutes; both left out" for a, b in copies]
    for name in {name for pair in copies for name in pair}:
        del found[name]
    return found, refused


def _copies(found: Mapping[str, Sequence[Entry]]) -> list[tuple[str, str]]:
    """Students whose files tell one history."""
    history = {name: {(e.question, e.answer, e.last) for e in entries} for name, entries in found.items()}
    names = sorted(history)
    return [
        (one, other)
        for i, one in enumerate(names)
        for other in names[i + 1 :]
        if len(history[one] & history[other]) >= max(_STEPS, 0.8 * min(len(history[one]), len(history[other])))
    ]


def report(folder: Path, students: Sequence[Student]) -> str:
    """The table of students and pages, the mistakes made most, and what was refused.

    Raises
    ------
    ValueError
        There is no such folder.
    """
    if not folder.is_dir():
        raise ValueError(f"{folder}: is no folder")
    known = book()
    found, refused = gather(folder, students, known)
    pages = list(dict.fromkeys(check.page for check in known.values()))
    asked = Counter(check.page for check in known.values())
    done: dict[tuple[str, str], list[Entry]] = defaultdict(list)
    for name, entries in found.items():
        for entry in entries:
            done[name, known[entry.question].page].append(entry)
    seen = [page for page in pages if any(done[name, page] for name in found)]
    lines = ["Right, of the checks of a page (+n: shown, after all hints).", ""]
    width = max([7, *(len(student.id) for student in students)])
    lines.append("student".ljust(width) + "".join(f"  {page:>13}" for page in seen))
    for student in students:
        cells = []
        for page in seen:
            states = Counter(entry.state for entry in done[student.id, page])
            shown = f"+{states['shown']}" if states["shown"] else ""
            cells.append(f"{states['right']}{shown} of {asked[page]}" if states else "-")
        said = "".join(f"  {cell:>13}" for cell in cells) if student.id in found else "  no file"
        lines.append(student.id.ljust(width) + said)
    made = [
        f"{len(who):>4} of {len(students)} students, {times:>3}x  {page}: {why}"
        for page, why, who, times in most(found, known)[:12]
    ]
    lines += ["", "Mistakes made most:", *made] if made else ["", "No known mistake was made."]
    if refused:
        lines += ["", "Refused:", *(f"  {line}" for line in refused)]
    lines += ["", "A browser's file is no proof of anything: see who is stuck, and give no marks for it."]
    return "\n".join(lines)


def most(found: Mapping[str, Sequence[Entry]], known: Mapping[str, Known]) -> list[tuple[str, str, set[str], int]]:
    """Named mistakes, that of the most students first: its page, what it says, who made it, and how often."""
    who, times = defaultdict[tuple[str, str], set[str]](set), Counter[tuple[str, str]]()
    for name, entries in found.items():
        for entry in entries:
            for why, count in entry.mistakes.items():
                who[known[entry.question].page, why].add(name)
                times[known[entry.question].page, why] += count
    order = sorted(who, key=lambda key: (-len(who[key]), -times[key], key))
    return [(*key, who[key], times[key]) for key in order]
