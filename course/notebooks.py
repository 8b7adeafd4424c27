"""Notebooks: what nbgrader makes its release from, what each student receives, and the sets that check themselves."""

from __future__ import annotations

import json

import nbformat

from explorable import Check  # noqa: F401, the notebooks below import it: fail here if it is gone
from explorable.question import Question, base

from .marking import lettered
from .problems import Problem, ProblemSet
from .roster import Student

_KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}
_IMPORTS = (
    "import numpy as np\n\n"
    "from clusterlab import catalogue, failures, interconnect, model, operations, parallelism\n"
    "from clusterlab import power, roofline, scaling, serving\n"
    "from clusterlab.model import Layout, Workload, transformer\n"
    "from clusterlab.units import *"
)


def template(problems: ProblemSet, sample: bytes) -> nbformat.NotebookNode:
    """The master notebook of a set, for nbgrader: the same for everyone, so it holds no parameter and no answer.

    The texts of the problems stand in cells that nbgrader leaves alone: :func:`personal` writes each student's there.
    """
    cells = [_text(problems.title, "opening"), nbformat.v4.new_code_cell(_IMPORTS, id="imports")]
    for problem in problems.problems:
        cells.append(_text("", problem.name))
        if problem.rubric:
            cells.append(_graded("Write here.", f"essay_{problem.name}", problem.points, solution=True, text=True))
            continue
        answer = f"answer_{problem.name}"
        cells.append(_graded(f"### BEGIN SOLUTION\n### END SOLUTION\n{answer} = None", answer, 0, solution=True))
        question = problem.question(sample)
        asked = "'a'" if question.choices else repr(question.unit)
        cells.append(
            _graded(
                "# Says how your answer reads. It is marked when you have handed it in.\n"
                "from explorable.question import reads\n\n"
                f"reads({answer}, {asked})\n"
                "### BEGIN HIDDEN TESTS\n"
                "from course.marking import mark_here\n\n"
                f"mark_here({answer}, '{problem.full_name}')\n"
                "### END HIDDEN TESTS",
                f"mark_{problem.name}",
                problem.points,
            )
        )
    return _notebook(cells)


def personal(
    released: nbformat.NotebookNode, problems: ProblemSet, student: Student, key: bytes
) -> nbformat.NotebookNode:
    """The notebook that one student receives: nbgrader's release with the student's own texts."""
    notebook = nbformat.from_dict(json.loads(json.dumps(released)))
    texts = {f"text-{problem.name}": told(number, problem, key) for number, problem in enumerate(problems.problems, 1)}
    texts["text-opening"] = opening(problems, student)
    for cell in notebook.cells:
        if cell.get("id") in texts:
            cell.source = texts[cell.id]
    return notebook


def plain(problems: ProblemSet, student: Student, key: bytes) -> nbformat.NotebookNode:
    """A notebook that checks itself, for courses without nbgrader. Its sealed answers are hidden, not secret."""
    cells = [
        nbformat.v4.new_markdown_cell(opening(problems, student)),
        nbformat.v4.new_code_cell(_IMPORTS + "\nfrom explorable import Check, Question"),
    ]
    for number, problem in enumerate(problems.problems, 1):
        cells.append(nbformat.v4.new_markdown_cell(told(number, problem, key)))
        if problem.rubric:
            cells.append(nbformat.v4.new_markdown_cell("Write here."))
            continue
        question = problem.question(key)
        sealed = question.seal()
        cells.append(nbformat.v4.new_code_cell(f"answer_{problem.name} = None  # for your marks"))
        cells.append(nbformat.v4.new_code_cell(f"Check(Question.unseal({sealed!r}))"))
    return _notebook(cells)


def opening(problems: ProblemSet, student: Student) -> str:
    """Title, whose notebook it is, and how to answer."""
    points = sum(problem.points for problem in problems.problems)
    return (
        f"# {problems.title}\n\nProblem set for **{student.name or student.id}** ({student.id}), {points} points."
        " The numbers are yours alone; the way is everybody's.\n\nGive each answer as a number in SI base units or as a"
        ' text with its unit, such as `"3.35 ms"`, and a choice by its letter. A known mistake is named and gives half'
        " the points. `clusterlab` may be used throughout; show in the cell how you found the answer."
    )


def told(number: int, problem: Problem, key: bytes) -> str:
    """What the student reads of one problem."""
    drawn, _ = problem.draw(key)
    text = f"## {number}. {problem.title} ({problem.points} point{'s' * (problem.points != 1)})\n\n"
    if isinstance(drawn, Question):
        text += drawn.text
        if drawn.choices:
            text += "\n\n" + "\n".join(f"- **{letter})** {choice}" for letter, choice in lettered(drawn, key).items())
        elif drawn.unit == "%":
            text += ' Answer as a share (0.42) or in percent ("42 %").'
        elif drawn.unit:
            text += f" A bare number is read in {base(drawn.unit)}."
        return text
    rubric = "\n".join(f"| {criterion} | {points} |" for criterion, points in problem.rubric.items())
    return f"{text}{drawn}\n\n| What counts | points |\n|---|---|\n{rubric}"


def _text(source: str, name: str) -> nbformat.NotebookNode:
    return nbformat.v4.new_markdown_cell(source, id=f"text-{name}")


def _graded(source: str, name: str, points: int, *, solution=False, text=False) -> nbformat.NotebookNode:
    """A cell that nbgrader knows: an answer, a test, or an essay."""
    graded = not solution or text
    known = {"grade_id": name, "grade": graded, "solution": solution, "locked": not solution, "task": False}
    known |= {"schema_version": 3} | ({"points": points} if graded else {})
    make = nbformat.v4.new_markdown_cell if text else nbformat.v4.new_code_cell
    return make(source, id=name.replace("_", "-"), metadata={"nbgrader": known})


def _notebook(cells) -> nbformat.NotebookNode:
    for number, cell in enumerate(cells):
        if len(cell.get("id", "")) in (0, 8) and "metadata" in cell and not cell.metadata.get("nbgrader"):
            cell["id"] = cell["id"] if cell["id"].startswith(("text-", "imports")) else f"cell-{number}"
    return nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": _KERNEL, "language_info": {"name": "python"}})
