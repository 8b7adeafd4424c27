"""The course without nbgrader: notebooks that check themselves, and a CSV of marks.

A returned notebook runs in a kernel of its own, which holds no key; only its answers come back and are marked here.
"""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Sequence
from pathlib import Path

import nbformat
from nbclient import NotebookClient

from . import notebooks
from .marking import QUIET, failure, mark
from .problems import SETS, load, student_key
from .roster import Student

_ASK = """
import json as _json
def _plain(value):
    if value is None or isinstance(value, str):
        return value
    try:
        return float(value)
    except Exception:
        return repr(value)
print("ANSWERS" + _json.dumps({k[7:]: _plain(v) for k, v in dict(globals()).items() if k.startswith("answer_")}))
"""


class Plain:
    """A folder of notebooks, handed out and returned."""

    def __init__(self, folder: Path, students: Sequence[Student], secret: str) -> None:
        self.folder, self.students = folder.resolve(), students
        self.keys = {student.id: student_key(secret, student.id) for student in students}
        self._rows: dict[tuple[str, str], list[list]] = {}

    def release(self, sets: Sequence[str] = SETS) -> int:
        """Write a notebook for each student and set; return how many are new."""
        written = 0
        for name in sets:
            for student in self.students:
                own = self.folder / "handout" / student.id / f"{name}-{student.id}.ipynb"
                if not own.exists():
                    print(f"sealing {name}-{student.id}", file=sys.stderr)
                    own.parent.mkdir(parents=True, exist_ok=True)
                    nbformat.write(notebooks.plain(load(name), student, self.keys[student.id]), own)
                    written += 1
        return written

    def collect(self) -> list[tuple[str, str]]:
        """Say which notebooks lie in ``returned``, at any depth, under the name they were handed out with."""
        self._paths = {}
        for path in sorted((self.folder / "returned").rglob("*.ipynb")):
            name, _, student = path.stem.partition("-")
            if name in SETS and student in self.keys:
                self._paths[name, student] = path
            else:
                print(f"{path.name}: is no set-student.ipynb of this course, and is left alone")
        return list(self._paths)

    def grade(self, taken: Sequence[tuple[str, str]]) -> list[str]:
        """Run each notebook, mark its answers; return what went wrong."""
        trouble = []
        for number, (name, student) in enumerate(taken, 1):
            print(f"marking {number} of {len(taken)}: {name}-{student}", file=sys.stderr)
            problems = load(name).problems
            try:
                answers, cells = run(self._paths[name, student])
            except Exception as wrong:
                trouble.append(f"{name}-{student}: could not be run: {str(wrong).strip().splitlines()[-1][:200]}")
                most = sum(problem.points for problem in problems)
                self._rows[name, student] = [[student, name, "", 0, most, "", "could not be run"]]
                continue
            rows = self._rows[name, student] = []
            for p in problems:
                m = mark(p, self.keys[student], answers.get(p.name), answers.get(p.before))
                to_read = "yes" if m.points is None else ""
                failed = "" if p.name in answers else failure(cells, f"answer_{p.name}")
                rows.append([student, name, p.name, m.points or 0, m.most, to_read, failed or m.remark])
        return trouble

    def marks(self) -> Path:
        """Write ``marks.csv``."""
        path = self.folder / "marks.csv"
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("w", newline="", encoding="utf-8") as out:
            lines = csv.writer(out)
            lines.writerow(["student", "set", "problem", "points", "most", "to read", "remark"])
            for key in sorted(self._rows, key=lambda key: (key[1], SETS.index(key[0]))):
                lines.writerows(self._rows[key])
        return path


def run(path: Path) -> tuple[dict, list[nbformat.NotebookNode]]:
    """Run a notebook, cells that raise included; return its answers by problem, and its code cells."""
    notebook = nbformat.read(path, as_version=4)
    notebook.cells = [cell for cell in notebook.cells if cell.cell_type == "code"] + [nbformat.v4.new_code_cell(_ASK)]
    NotebookClient(notebook, timeout=120, allow_errors=True, extra_arguments=QUIET).execute()
    said = "".join(o.get("text", "") for o in notebook.cells[-1].outputs)
    return json.loads(said.rpartition("ANSWERS")[2]), notebook.cells[:-1]
