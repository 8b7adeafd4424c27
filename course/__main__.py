"""``python -m course``: all that a teacher types."""

from __future__ import annotations

import argparse
import importlib.util
import sys
from pathlib import Path

from . import roster
from .plain import Plain
from .problems import student_key


def _kind(plain: bool, folder: Path):
    if (folder / "handout").exists() and plain == (folder / "gradebook.db").exists():
        begun = "with" if plain else "without"
        raise ValueError(f"{folder} was begun {begun} nbgrader: go on so, or move it away")
    if plain:
        return Plain
    if importlib.util.find_spec("nbgrader") is None:
        raise ValueError("nbgrader is not installed: `make course` installs it, and --plain does without")
    from .nbgrader_round import Round

    return Round


def _same_secret(folder: Path, secret: str) -> None:
    """Refuse another secret than the one that the folder was begun with: it would mark right answers wrong."""
    mark, kept = student_key(secret, "").hex()[:16], folder / "secret.check"  # no student has an empty id
    if not kept.exists():
        folder.mkdir(parents=True, exist_ok=True)
        kept.write_text(mark + "\n")
    elif kept.read_text().strip() != mark:
        raise ValueError(f"this is not the secret that {folder} was begun with: nothing was written or marked")


def main(arguments: list[str] | None = None) -> int:
    """Write what students receive, take in what they sent back, mark it. Each run does what is left to do."""
    parser = argparse.ArgumentParser(prog="python -m course", description=main.__doc__)
    parser.add_argument("--students", type=Path, required=True, help="CSV file with a column id, and perhaps name")
    parser.add_argument("--secret", required=True, help="at least 12 characters; the same all term, known to you alone")
    parser.add_argument("--folder", type=Path, default=Path("course-work"), help="where everything lies")
    parser.add_argument("--plain", action="store_true", help="without nbgrader: notebooks that check themselves")
    given = parser.parse_args(arguments)
    try:
        students = roster.read(given.students)
        student_key(given.secret, students[0].id)
        kind = _kind(given.plain, given.folder)
        _same_secret(given.folder, given.secret)
        course = kind(given.folder, students, given.secret)
    except ValueError as wrong:
        print(wrong, file=sys.stderr)
        return 2
    written = course.release()
    taken = course.collect()
    trouble = course.grade(taken)
    print(f"{len(students)} students; {written} notebooks written to {given.folder / 'handout'}")
    print(f"{len(taken)} new in {given.folder / 'returned'}; marks of all: {course.marks()}")
    print("\n".join(trouble))
    return 0


if __name__ == "__main__":
    sys.exit(main())
