"""The roster: who takes the course. A wrong one is refused, and every wrong line named."""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass
from pathlib import Path

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.@-]{0,63}")


@dataclass(frozen=True)
class Student:
    """One line of the roster."""

    id: str
    name: str = ""


def read(path: Path) -> list[Student]:
    """Return the students of a CSV file with a column ``id`` and, if you like, ``name``.

    Raises
    ------
    ValueError
        A line of the file is wrong; the message names all of them.
    """
    try:
        rows = list(csv.reader(path.read_text(encoding="utf-8-sig").splitlines()))
    except (OSError, UnicodeDecodeError) as wrong:
        raise ValueError(f"{path}: cannot be read as a CSV file in UTF-8: {wrong}") from None
    head = [cell.strip().lower() for cell in rows[0]] if rows else []
    if "id" not in head:
        raise ValueError(
            f"{path}, line 1: the heading needs a column 'id' (and may have 'name'), got {', '.join(head)!r}"
        )
    seen: dict[str, int] = {}
    students, wrong_lines = [], []
    for line, row in enumerate(rows[1:], start=2):
        if not any(cell.strip() for cell in row):
            continue
        cells = dict(zip(head, map(str.strip, row), strict=False))
        known = cells.get("id", "")
        if len(row) != len(head):
            wrong_lines.append(f"line {line}: {len(row)} cells under {len(head)} headings")
        elif not _ID.fullmatch(known):
            wrong_lines.append(f"line {line}: id {known!r} must be letters, digits and _ . @ -, up to 64 of them")
        elif known.lower() in seen:
            wrong_lines.append(f"line {line}: id {known!r} is that of line {seen[known.lower()]}")
        else:
            students.append(Student(known, cells.get("name", "")))
            seen[known.lower()] = line
    if wrong_lines:
        raise ValueError("\n".join(f"{path}, {one}" for one in wrong_lines))
    if not students:
        raise ValueError(f"{path}: no student in it")
    return students
