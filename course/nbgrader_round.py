"""The round with nbgrader: release, hand out, collect, autograde, feedback, marks. Needs the extra ``course``.

Everything lies in one folder, which is nbgrader's course directory too, so that its own pages (the formgrader)
open it for what a person must read.
"""

from __future__ import annotations

import csv
import os
import re
import shutil
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path

import nbformat
from nbgrader.api import Gradebook
from nbgrader.apps import NbGraderAPI
from traitlets.config import Config

from . import notebooks
from .marking import KEY, QUIET, failure
from .problems import SETS, load, student_key
from .roster import Student

_CONFIG = """\
# Written by `python -m course`: nbgrader's own commands, run in this folder, find the course here.
c = get_config()
c.CourseDirectory.course_id = "gpu-clusters"
c.ClearSolutions.code_stub = {"python": "# Your work"}
c.ZipCollectApp.collector_plugin = "nbgrader.plugins.FileNameCollectorPlugin"
c.FileNameCollectorPlugin.named_regexp = r"(?:.*/)?(?P<file_id>[a-z]+)-(?P<student_id>[A-Za-z0-9_.@-]+)\\.ipynb"
"""


class Round:
    """A course directory, and what is done in it. Each step can be done again: what is there already is kept."""

    def __init__(self, folder: Path, students: Sequence[Student], secret: str) -> None:
        self.folder, self.students = folder.resolve(), students
        self.keys = {student.id: student_key(secret, student.id) for student in students}
        programs = str(Path(sys.executable).parent)
        if programs not in os.environ["PATH"].split(os.pathsep):  # nbgrader calls alembic by its bare name
            os.environ["PATH"] = programs + os.pathsep + os.environ["PATH"]
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "nbgrader_config.py").write_text(_CONFIG)
        self.config = Config()
        self.config.CourseDirectory.root = str(self.folder)
        self.config.CourseDirectory.course_id = "gpu-clusters"
        self.config.ClearSolutions.code_stub = {"python": "# Your work"}
        self.config.ExecutePreprocessor.timeout = 120
        self.config.ExecutePreprocessor.extra_arguments = QUIET
        self.api = NbGraderAPI(config=self.config)
        self.database = f"sqlite:///{self.folder / 'gradebook.db'}"

    def release(self, sets: Sequence[str] = SETS) -> int:
        """Let nbgrader make its release of each set, and write a notebook for each student; return how many."""
        with Gradebook(self.database) as book:
            for student in self.students:
                book.update_or_create_student(student.id, first_name=student.name)
        written = 0
        for name in sets:
            problems, source = load(name), self.folder / "source" / name
            source.mkdir(parents=True, exist_ok=True)
            released = self.folder / "release" / name / f"{name}.ipynb"
            if not released.exists():
                sample = next(iter(self.keys.values()))
                nbformat.write(notebooks.template(problems, sample), source / f"{name}.ipynb")
                _worked(self.api.generate_assignment(name, create=True), f"the release of {name}")
            blank = nbformat.read(released, as_version=4)
            for student in self.students:
                own = self.folder / "handout" / student.id / f"{name}-{student.id}.ipynb"
                if not own.exists():
                    own.parent.mkdir(parents=True, exist_ok=True)
                    nbformat.write(notebooks.personal(blank, problems, student, self.keys[student.id]), own)
                    written += 1
        return written

    def collect(self) -> list[tuple[str, str]]:
        """Take in what lies in ``returned``, at any depth, under the name it was handed out with."""
        taken = []
        for path in sorted((self.folder / "returned").rglob("*.ipynb")):
            name, _, student = path.stem.partition("-")
            if name not in SETS or student not in self.keys:
                print(f"{path.name}: is no set-student.ipynb of this course, and is left alone")
                continue
            target = self.folder / "submitted" / student / name / f"{name}.ipynb"
            target.parent.mkdir(parents=True, exist_ok=True)
            if not target.exists() or target.read_bytes() != path.read_bytes():
                shutil.copyfile(path, target)
                taken.append((name, student))
        return taken

    def grade(self, taken: Sequence[tuple[str, str]]) -> list[str]:
        """Autograde each submission with its author's key alone, and write the feedback; return what went wrong."""
        trouble = []
        here = os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
        before = dict(os.environ)
        try:
            warnings.filterwarnings("ignore", module="nbgrader")  # what its own database says to itself
            for number, (name, student) in enumerate(taken, 1):
                print(f"marking {number} of {len(taken)}: {name}-{student}", file=sys.stderr)
                os.environ |= {KEY: self.keys[student].hex(), "PYTHONPATH": here}
                done = self.api.autograde(name, student, create=False, force=True)
                if not done["success"]:
                    trouble.append(f"{name}-{student}: could not be run: {_last(done)}")
                    self._nothing(name, student)
                    continue
                done = self.api.generate_feedback(name, student, force=True)
                if not done["success"]:
                    trouble.append(f"{name}-{student}: no feedback: {_last(done)}")
        finally:
            os.environ.clear()
            os.environ.update(before)
        return trouble

    def _nothing(self, name: str, student: str) -> None:
        """Leave a word for the author of a notebook that could not be run."""
        page = self.folder / "feedback" / student / name / f"{name}.html"
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(
            f"<!doctype html><html lang='en'><title>{name}</title><p>This notebook could not be opened or run, so it"
            " has no marks yet. Start again from the one you received, run all cells, and hand it in again."
        )

    def marks(self) -> Path:
        """Write ``marks.csv``: a line for each problem of each student, with its points and its remark."""
        path = self.folder / "marks.csv"
        with path.open("w", newline="", encoding="utf-8") as out, Gradebook(self.database) as book:
            lines = csv.writer(out)
            lines.writerow(["student", "set", "problem", "points", "most", "to read", "remark"])
            for student in self.students:
                for name in SETS:
                    lines.writerows(self._lines(book, student.id, name))
        return path

    def _lines(self, book: Gradebook, student: str, name: str):
        graded = self.folder / "autograded" / student / name / f"{name}.ipynb"
        if not graded.exists():
            if (self.folder / "submitted" / student / name).exists():
                yield [student, name, "", 0, sum(p.points for p in load(name).problems), "", "could not be run"]
            return
        (submitted,) = book.find_submission(name, student).notebooks
        code = [cell for cell in nbformat.read(graded, 4).cells if cell.cell_type == "code"]
        places = {cell.id: place for place, cell in enumerate(code)}
        grades = {grade.name: grade for grade in submitted.grades}
        for problem in load(name).problems:
            grade = grades[f"essay_{problem.name}" if problem.rubric else f"mark_{problem.name}"]
            ran = code[: places.get(f"mark-{problem.name.replace('_', '-')}", -1) + 1]
            said = ran[-1].outputs if ran else []
            remark = "".join(o.get("text", "") for o in said if o.output_type == "stream").strip()
            if any(o.output_type == "error" for o in said):
                remark = remark or failure(ran, f"answer_{problem.name}")
            yield [
                student,
                name,
                problem.name,
                grade.score,
                problem.points,
                "yes" if grade.needs_manual_grade else "",
                remark,
            ]


def _worked(done: dict, what: str) -> None:
    if not done["success"]:
        raise RuntimeError(f"nbgrader could not make {what}: {_last(done)}")


def _last(done: dict) -> str:
    """The last line that gives a reason: nbgrader's own last one only points at those above it."""
    lines = [line.strip() for line in f"{done.get('log') or ''}\n{done.get('error') or ''}".splitlines()]
    reasons = [
        line for line in lines if re.match(r"[\w.]*(Error|Exception)\b", line) and "NbGraderException" not in line
    ]
    return (reasons or [line for line in lines if line] or ["no reason given"])[-1]
