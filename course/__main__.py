"""``python -m course``: all that a teacher types."""

from __future__ import annotations

import argparse
import importlib.util
import sys
from pathlib import Path

from clusterlab.units import fmt

from . import progress, roster
from .kinds import Flaw
from .marking import lettered
from .plain import Plain
from .problems import SETS, load, student_key


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


def sheet(student: roster.Student, secret: str) -> str:
    """The answers of one student's problems, what known mistakes give, what essays ask: for who sits beside them."""
    key, lines = student_key(secret, student.id), [f"Answers of {student.name or student.id} ({student.id})"]
    for name in SETS:
        lines += ["", load(name).title]
        for number, problem in enumerate(load(name).problems, 1):
            head = f"{number:>3}. {problem.title}: "
            if problem.rubric:
                lines.append(f"{head}an essay. {problem.draw(key)[0]}")
                continue
            question = problem.question(key)
            right = question.shown
            if question.choices:
                right = next(letter for letter, choice in lettered(question, key).items() if choice == question.answer)
            lines.append(head + (f"line {question.line}, {right}" if isinstance(question, Flaw) else right))
            lines += [f"       {fmt(value, question.unit)}: {why}" for why, value in question.mistakes.items()]
            lines += [f"       {question.way}"] if question.way else []
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    """Write what students receive, take in what they sent back, mark it. Each run does what is left to do."""
    parser = argparse.ArgumentParser(prog="python -m course", description=main.__doc__)
    parser.add_argument("--students", type=Path, required=True, help="CSV file with a column id, and perhaps name")
    parser.add_argument("--secret", help="at least 12 characters; the same all term, known to you alone")
    parser.add_argument("--folder", type=Path, default=Path("course-work"), help="where everything lies")
    parser.add_argument("--plain", action="store_true", help="without nbgrader: notebooks that check themselves")
    parser.add_argument("--answers", metavar="ID", help="print one student's answers and mistakes, and do nothing else")
    parser.add_argument(
        "--progress", type=Path, metavar="FOLDER", help="print a table of the files that *Save my progress* wrote"
    )
    given = parser.parse_args(arguments)
    try:
        print(_done(given, roster.read(given.students)))
    except ValueError as wrong:
        print(wrong, file=sys.stderr)
        return 2
    return 0


def _done(given: argparse.Namespace, students: list[roster.Student]) -> str:
    """Do what is asked; return what there is to say."""
    if given.progress:
        return progress.report(given.progress, students)
    if given.secret is None:
        raise ValueError("the secret is missing: --secret 'a phrase that only you know'")
    student_key(given.secret, students[0].id)
    if given.answers:
        if given.answers not in (ids := [student.id for student in students]):
            raise ValueError(f"{given.students}: no student has the id {given.answers!r}")
        if given.folder.exists():
            _same_secret(given.folder, given.secret)
        return sheet(students[ids.index(given.answers)], given.secret)
    kind = _kind(given.plain, given.folder)
    _same_secret(given.folder, given.secret)
    course = kind(given.folder, students, given.secret)
    written = course.release()
    taken = course.collect()
    trouble = course.grade(taken)
    return "\n".join(
        [
            f"{len(students)} students; {written} notebooks written to {given.folder / 'handout'}",
            f"{len(taken)} new in {given.folder / 'returned'}; marks of all: {course.marks()}",
            *_essays(given.folder / "to-read"),
            *trouble,
        ]
    )


def _essays(folder: Path) -> list[str]:
    """Where the open questions wait, without nbgrader."""
    return (
        [f"open questions, each with everybody's answers: {folder} (their points go into marks.csv)"]
        if folder.exists()
        else []
    )


if __name__ == "__main__":
    sys.exit(main())
