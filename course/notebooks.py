"""Notebooks: what nbgrader makes its release from, what each student receives, and the sets that check themselves."""

from __future__ import annotations

import json

import nbformat

from explorable.question import Question, base
from explorable.sealed import COST, Sealed

from .kinds import Estimate, Flaw
from .marking import lettered
from .problems import Problem, ProblemSet
from .roster import Student

_CHECKED = (
    "The cell below each answer checks it: it names a known mistake, and shows the way to who has found the answer. A"
    " second step is checked against the right first one; when it is marked, it counts from yours."
)
_KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}
_IMPORTS = (
    "import numpy as np\n\n"
    "from clusterlab import catalogue, contention, failures, interconnect, model, operations\n"
    "from clusterlab import parallelism, post_training, power, roofline, scaling, serving\n"
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
        asked = repr("a" if question.choices else getattr(question, "units", question.unit))
        before = f", globals().get('answer_{problem.before}')" if problem.before else ""
        cells.append(
            _graded(
                "# Says how your answer reads. It is marked when you have handed it in.\n"
                "from explorable.question import reads\n\n"
                f"reads({answer}, {asked})\n"
                "### BEGIN HIDDEN TESTS\n"
                "from course.marking import mark_here\n\n"
                f"mark_here({answer}, '{problem.full_name}'{before})\n"
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


def plain(problems: ProblemSet, student: Student, key: bytes, cost: int = COST) -> nbformat.NotebookNode:
    """A notebook that checks itself, for courses without nbgrader. Its answers lie under slow hashes of themselves."""
    cells, seals = [], []
    for number, problem in enumerate(problems.problems, 1):
        cells.append(nbformat.v4.new_markdown_cell(told(number, problem, key)))
        if problem.rubric:
            cells.append(nbformat.v4.new_markdown_cell("Write here."))
            continue
        question = problem.question(key)
        seals.append(
            f"    {problem.name!r}: Sealed({Sealed.of(question, letters=lettered(question, key), cost=cost)!r}),"
        )
        cells.append(nbformat.v4.new_code_cell(f"answer_{problem.name} = None"))
        first = f"  # against the right answer to problem {number - 1}" * bool(problem.before)
        cells.append(nbformat.v4.new_code_cell(f"check[{problem.name!r}](answer_{problem.name}){first}"))
    sealed = "# What your answers are checked with. Nothing to read here: run it, and go on.\n"
    sealed += "from explorable.sealed import Sealed\n\ncheck = {\n" + "\n".join(seals) + "\n}"
    head = [
        nbformat.v4.new_markdown_cell(opening(problems, student) + " " + _CHECKED),
        nbformat.v4.new_code_cell(_IMPORTS),
        nbformat.v4.new_code_cell(sealed, metadata={"jupyter": {"source_hidden": True}}),
    ]
    return _notebook(head + cells)


def opening(problems: ProblemSet, student: Student) -> str:
    """Title, whose notebook it is, and how to answer."""
    points = sum(problem.points for problem in problems.problems)
    return (
        f"# {problems.title}\n\nProblem set for **{student.name or student.id}** ({student.id}), {points} points."
        " The numbers are yours alone; the way is everybody's.\n\nGive each answer as a number in SI base units or as a"
        ' text with its unit, such as `"3.35 ms"`, and a choice by its letter. A known mistake is named and gives half'
        " the points. `clusterlab` may be used, except where *by hand* is asked; show in the cell how you found the"
        " answer."
    )


def told(number: int, problem: Problem, key: bytes) -> str:
    """What the student reads of one problem."""
    drawn, _ = problem.draw(key)
    text = f"## {number}. {problem.title} ({problem.points} point{'s' * (problem.points != 1)})\n\n"
    if isinstance(drawn, Question):
        text += drawn.text
        if drawn.choices:
            text += "\n\n" + "\n".join(f"- **{letter})** {choice}" for letter, choice in lettered(drawn, key).items())
        elif isinstance(drawn, Flaw):
            text += '\n\nAnswer with the line and what it should say, within 2 %, such as `"4: 3.35 ms"`.'
            text += " The right line is worth half by itself."
        elif drawn.unit == "%":
            text += ' Answer as a share (0.42) or in percent ("42 %").'
        elif drawn.unit:
            text += f" A bare number is read in {base(drawn.unit)}."
        if isinstance(drawn, Estimate):
            text += " By hand, without `clusterlab`: right is within a factor of two. Show your sum in the cell."
        if problem.before:
            text += f" Go on from your answer to problem {number - 1}: it counts in full even if that one was wrong."
        return text.replace("$", r"\$")  # else two prices make a formula
    rubric = "\n".join(f"| {criterion} | {points} |" for criterion, points in problem.rubric.items())
    return f"{text}{drawn}".replace("$", r"\$") + f"\n\n| What counts | points |\n|---|---|\n{rubric}"


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
