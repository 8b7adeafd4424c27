"""Marks: what an answer is worth, and what its author is told.

A right answer has all points. A known mistake, a wrong prefix and a missing unit have half: the way was right. The
second step of a design has all of them too where it follows from a first step that was wrong. What is said names the
mistake and gives the first hint, never the answer, so that the problem can be tried again.
"""

from __future__ import annotations

import hmac
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass

from nbformat import NotebookNode

from explorable.question import Question, Verdict

from .problems import Problem, load

KEY = "COURSE_STUDENT_KEY"  # environment variable: the key, in hex, of the one student whose work is being marked
QUIET = ["--log-level=ERROR"]  # of a kernel, which would warn a hundred times that it speaks over this machine's ports
_HALF = {"mistake", "prefix", "unit"}
_FAR = 1000  # a first step that is wrong by more makes the second one trivial


@dataclass(frozen=True)
class Mark:
    """Points of one answer and the remark that goes with them; None where a person must read it."""

    points: float | None
    most: int
    remark: str


def lettered(question: Question, key: bytes) -> dict[str, str]:
    """The choices of a question under letters, in an order of the student's own."""
    order = sorted(question.choices, key=lambda choice: hmac.digest(key, choice.encode(), "sha256"))
    return dict(zip("abcdefgh", order, strict=False))


def judge(question: Question, key: bytes, answer: object) -> Verdict:
    """Judge an answer of any kind: text, number, the letter of a choice, or something that is no answer."""
    if isinstance(answer, str):
        letter = answer.strip().lower().rstrip(").")
        return question.judge(lettered(question, key).get(letter, answer))
    try:
        return question.judge(float(answer))  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return question.judge("")


def follows(problem: Problem, key: bytes, answer: object, before: object) -> bool:
    """Whether the answer to a second step is right for what its author found, wrongly, in the first."""
    if not problem.before:
        return False
    first = load(problem.set)[problem.before].question(key)
    try:
        reading = first.read(before if isinstance(before, str) else repr(float(before)))  # type: ignore[arg-type]
        if reading is None or not 1 / _FAR < reading.value / float(first.answer) < _FAR:
            return False
        return judge(problem.onward(key, reading.value), key, answer).right
    except (TypeError, ValueError, ArithmeticError):  # no number, or one from which nothing follows
        return False


def mark(problem: Problem, key: bytes, answer: object, before: object = None) -> Mark:
    """Mark one answer; ``before`` is what its author gave for the step that it goes on from, if it does."""
    if problem.rubric:
        return Mark(None, problem.points, "To be read by a person.")
    if answer is None:
        return Mark(0.0, problem.points, "No answer.")
    question = problem.question(key)
    verdict = judge(question, key, answer)
    if verdict.right:
        return Mark(float(problem.points), problem.points, "Right.")
    if follows(problem, key, answer, before):
        return Mark(float(problem.points), problem.points, "Right for your answer to the step before, which is wrong.")
    half = verdict.kind in _HALF and not question.choices
    hint = f" Hint: {question.hints[0]}" if question.hints and verdict.kind != "unread" else ""
    return Mark(problem.points / 2 if half else 0.0, problem.points, verdict.text + hint)


def failure(cells: Sequence[NotebookNode], name: str) -> str:
    """Say which of the code cells that ran should have given a name and failed, and how; nothing where none did.

    Where that cell misses a name in turn, and the cell that should have given it has failed, it is that one.
    """
    for at in reversed(range(len(cells))):
        error = next((out for out in cells[at].outputs if out.output_type == "error"), None)
        if error and re.search(rf"\b{re.escape(name)}\b", cells[at].source):
            missed = re.match(r"name '(\w+)' is not defined", error.evalue)
            says = re.sub(r" \(\S+, (line \d+)\)$", r" (\1)", error.evalue)
            return (missed and failure(cells[:at], missed[1])) or f"{error.ename} in code cell {at + 1}: {says}"
    return ""


def mark_here(answer: object, full_name: str, before: object = None) -> float:
    """Mark an answer in a notebook that is being graded: print the remark, return the points.

    Raises
    ------
    RuntimeError
        This is not the teacher's machine: no key is set.
    """
    if KEY not in os.environ:
        raise RuntimeError("answers are marked on the teacher's machine alone")
    set_name, _, name = full_name.partition("/")
    given = mark(load(set_name)[name], bytes.fromhex(os.environ[KEY]), answer, before)
    print(given.remark)
    return float(given.points or 0.0)
