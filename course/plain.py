"""The course without nbgrader: notebooks that check themselves, a CSV of marks, and the essays of a class on a page.

A returned notebook runs in a kernel of its own, which holds no key; only its answers come back and are marked here. One
that hasn't changed is not marked again, and what a person has typed into ``marks.csv`` stays.
"""

from __future__ import annotations

import csv
import hashlib
import json
import re
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


_HEAD = ["student", "set", "problem", "points", "most", "to read", "remark"]


class Plain:
    """A folder of notebooks, handed out and returned."""

    def __init__(self, folder: Path, students: Sequence[Student], secret: str) -> None:
        self.folder, self.students = folder.resolve(), students
        self.keys = {student.id: student_key(secret, student.id) for student in students}
        self._rows: dict[tuple[str, str], list[list]] = {}
        self._paths: dict[tuple[str, str], Path] = {}
        self._digests: dict[str, str] = {}

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
        """Say which notebooks in ``returned``, at any depth, under the name they were handed out with, are new."""
        new = []
        self._rows, self._digests = self._marked()
        for path in sorted((self.folder / "returned").rglob("*.ipynb")):
            name, _, student = path.stem.partition("-")
            if name not in SETS or student not in self.keys:
                print(f"{path.name}: is no set-student.ipynb of this course, and is left alone")
                continue
            self._paths[name, student] = path
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
            if self._digests.get(path.stem) != digest or (name, student) not in self._rows:
                new.append((name, student))
            self._digests[path.stem] = digest
        return new

    def _marked(self) -> tuple[dict[tuple[str, str], list[list]], dict[str, str]]:
        """What ``marks.csv`` says, a person's points among it, and the notebooks that it was made from."""
        rows: dict[tuple[str, str], list[list]] = {}
        if (table := self.folder / "marks.csv").exists():
            with table.open(newline="", encoding="utf-8-sig") as lines:
                for row in csv.DictReader(lines):
                    if (key := (row["set"], row["student"])) and row["set"] in SETS and row["student"] in self.keys:
                        rows.setdefault(key, []).append([row[name] for name in _HEAD])
        kept = self.folder / "marked.json"
        return rows, json.loads(kept.read_text(encoding="utf-8")) if kept.exists() else {}

    def grade(self, taken: Sequence[tuple[str, str]]) -> list[str]:
        """Run each notebook, mark its answers; return what went wrong."""
        trouble = []
        for number, (name, student) in enumerate(taken, 1):
            print(f"marking {number} of {len(taken)}: {name}-{student}", file=sys.stderr)
            problems = load(name).problems
            before = {row[2]: row for row in self._rows.get((name, student), ())}
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
                points, remark = m.points, m.remark
                if points is None and (read := before.get(p.name)) and read[3]:
                    points, remark = read[3], f"Handed in again: read it again. {read[6]}"
                failed = "" if p.name in answers else failure(cells, f"answer_{p.name}")
                to_read = "yes" if m.points is None else ""
                rows.append(
                    [student, name, p.name, "" if points is None else points, m.most, to_read, failed or remark]
                )
        return trouble

    def marks(self) -> Path:
        """Write ``marks.csv``, and the essays of each problem on a page in ``to-read``."""
        path = self.folder / "marks.csv"
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("w", newline="", encoding="utf-8") as out:
            lines = csv.writer(out)
            lines.writerow(_HEAD)
            for key in sorted(self._rows, key=lambda key: (key[1], SETS.index(key[0]))):
                lines.writerows(self._rows[key])
        (self.folder / "marked.json").write_text(json.dumps(self._digests, indent=0), encoding="utf-8")
        self._to_read()
        return path

    def _to_read(self) -> None:
        """Each open question with everybody's answers below it: they are marked a criterion at a time."""
        pages: dict[str, list[str]] = {}
        for (name, student), path in self._paths.items():
            try:
                cells = nbformat.read(path, as_version=4).cells
            except Exception:  # it could not be run either, and marks.csv says so
                continue
            for number, problem in enumerate(load(name).problems, 1):
                if problem.rubric:
                    told = "\n\n".join(_below(cells, number)) or "*Nothing.*"
                    asked = notebooks.told(number, problem, self.keys[student]).partition("\n\n")[2]
                    page = pages.setdefault(f"{name}-{problem.name}", [f"# {load(name).title}: {problem.title}"])
                    page += [f"## {student}", "> " + asked.replace("\n", "\n> "), told]
        folder = self.folder / "to-read"
        for name, page in pages.items():
            folder.mkdir(exist_ok=True)
            (folder / f"{name}.md").write_text("\n\n".join(page) + "\n", encoding="utf-8")


def _below(cells: Sequence[nbformat.NotebookNode], number: int) -> list[str]:
    """What stands under a problem's text, code in fences; the text itself may be gone."""
    found: list[str] = []
    under = False
    for cell in cells:
        if cell.cell_type == "markdown" and (heading := re.match(r"## (\d+)\. ", cell.source)):
            under = int(heading[1]) == number
        elif under and cell.source.strip():
            found.append(cell.source if cell.cell_type == "markdown" else f"```\n{cell.source}\n```")
    return found


def run(path: Path) -> tuple[dict, list[nbformat.NotebookNode]]:
    """Run a notebook, cells that raise included; return its answers by problem, and its code cells."""
    notebook = nbformat.read(path, as_version=4)
    notebook.cells = [cell for cell in notebook.cells if cell.cell_type == "code"] + [nbformat.v4.new_code_cell(_ASK)]
    NotebookClient(notebook, timeout=120, allow_errors=True, extra_arguments=QUIET).execute()
    said = "".join(o.get("text", "") for o in notebook.cells[-1].outputs)
    return json.loads(said.rpartition("ANSWERS")[2]), notebook.cells[:-1]
