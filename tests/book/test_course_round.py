"""The whole round with nbgrader: release, hand out, collect, autograde, feedback, marks. ``make round`` runs it."""

import csv
import re
import shutil

import nbformat
import pytest
from course.problems import load, student_key
from course.roster import Student
from test_course import SECRET, expect, submitted

pytest.importorskip("nbgrader", reason="nbgrader has an environment of its own: make round")
# nbgrader's own, of SQLAlchemy, Jinja and the kernels that it starts.
pytestmark = [pytest.mark.filterwarnings("ignore")]

SET = "failures"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("course")


@pytest.fixture(scope="module")
def course(folder):
    """Three students, their notebooks handed out, and what came back marked."""
    from course.nbgrader_round import Round

    course = Round(folder, [Student("alice", "Alice"), Student("bob"), Student("carol")], SECRET)
    assert course.release([SET]) == 3
    assert course.release([SET]) == 0
    (folder / "returned").mkdir()
    for student, how in {"alice": "right", "bob": "mistake"}.items():
        notebook = nbformat.read(folder / "handout" / student / f"{SET}-{student}.ipynb", 4)
        for cell in notebook.cells:
            known = cell.metadata.get("nbgrader", {}).get("grade_id", "")
            if known.startswith("answer_"):
                answer = submitted(load(SET)[known.removeprefix("answer_")], student, how)
                cell.source = f"1 + 1  # my way\n{known} = {answer!r}"
            elif known.startswith("essay_"):
                cell.source = "I would halve the restart first."
        # A test that its author has bent is put right before it is marked.
        marked = next(c for c in notebook.cells if c.metadata.get("nbgrader", {}).get("grade"))
        marked.source = "1.0"
        nbformat.write(notebook, folder / "returned" / f"{SET}-{student}.ipynb")
    (folder / "returned" / f"{SET}-carol.ipynb").write_text('{"cells": [')
    course.trouble = course.grade(course.collect())
    return course


def test_marks_and_remarks_are_as_expected_and_a_broken_notebook_stops_nobody(course):
    assert [line.split(":")[0] for line in course.trouble] == [f"{SET}-carol"]
    assert "JSON" in course.trouble[0], "the reason is said, not where it was said"
    rows = list(csv.DictReader(course.marks().read_text().splitlines()))
    expect(rows, load(SET))


def test_nothing_that_a_student_receives_holds_an_answer(course, folder):
    received = [*(folder / "handout").rglob("*.ipynb"), *(folder / "release").rglob("*.ipynb")]
    assert len(received) == 4
    for path in received:
        text = path.read_text()
        assert SECRET not in text
        assert "mark_here" not in text
        assert "HIDDEN" not in text
        for student in ("alice", "bob", "carol"):
            key = student_key(SECRET, student)
            assert key.hex() not in text
            for problem in load(SET).problems:
                if problem.rubric:
                    continue
                question = problem.question(key)
                secrets = [*question.hints] if question.choices else [question.way, *question.mistakes, *question.hints]
                assert not [secret for secret in secrets if secret in text]
                if not question.choices and len(digits := f"{question.answer:.6g}") > 4:
                    assert digits not in text


def test_a_notebook_as_it_is_handed_out_runs_from_top_to_bottom(folder, course):
    from nbclient import NotebookClient

    notebook = nbformat.read(folder / "handout" / "alice" / f"{SET}-alice.ipynb", 4)
    NotebookClient(notebook, timeout=60).execute()
    said = [cell.outputs[0].data["text/plain"] for cell in notebook.cells if "reads(" in cell.source]
    assert set(said) == {"'no answer yet'"}


def test_feedback_names_the_mistake_and_gives_the_hint(course, folder):
    pages = {path.parts[-3]: path.read_text() for path in (folder / "feedback").rglob("*.html")}
    assert set(pages) == {"alice", "bob", "carol"}
    for problem in load(SET).problems:
        if problem.rubric or not problem.question(student_key(SECRET, "bob")).mistakes:
            continue
        question = problem.question(student_key(SECRET, "bob"))
        assert next(iter(question.mistakes))[:20] in pages["bob"]
        assert question.hints[0][:20] in pages["bob"]
    assert "could not be opened or run" in pages["carol"]


def test_a_better_notebook_takes_the_place_of_a_broken_one(course, folder):
    shutil.copy(folder / "returned" / f"{SET}-alice.ipynb", folder / "aside.ipynb")
    notebook = nbformat.read(folder / "handout" / "carol" / f"{SET}-carol.ipynb", 4)
    cell = next(cell for cell in notebook.cells if "\nanswer_" in cell.source)
    cell.source = cell.source.replace(" = None", " = half an hour")
    nbformat.write(notebook, folder / "returned" / f"{SET}-carol.ipynb")
    assert course.collect() == [(SET, "carol")]
    assert course.grade([(SET, "carol")]) == []
    rows = [row for row in csv.DictReader(course.marks().read_text().splitlines()) if row["student"] == "carol"]
    remarks = {row["remark"] for row in rows} - {"No answer.", ""}
    assert len(remarks) == 1, "a cell that Python cannot read is named, and no other has failed"
    assert re.match(r"SyntaxError in code cell 2: invalid syntax.* \(line 2\)$", *remarks)
    assert sum(float(row["points"]) for row in rows) == 0
