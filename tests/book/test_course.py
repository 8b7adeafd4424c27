"""The course: hundreds of students' draws, marks, rosters, and the round that needs no nbgrader."""

import base64
import csv
import doctest
import json
import math
import re
from pathlib import Path

import nbformat
import numpy as np
import pytest
from course import kinds, notebooks, progress, roster
from course.__main__ import main, sheet
from course.kinds import Estimate, Flaw
from course.marking import KEY, judge, lettered, mark, mark_here
from course.plain import Plain
from course.problems import SETS, DegenerateDrawError, Draw, Problem, load, student_key
from course.roster import Student

from clusterlab.units import parse
from explorable import Question

SECRET = "correct horse battery"
STUDENTS = [f"student{number}" for number in range(300)]
PROBLEMS = [problem for name in SETS for problem in load(name).problems]
TYPED = [problem for problem in PROBLEMS if not problem.rubric]
EXAMPLE = Path(roster.__file__).with_name("roster.csv")
ALICE = student_key(SECRET, "alice")


STEPS = [problem for problem in TYPED if problem.before]


def by_name(problem):
    return problem.full_name


def typed(question):
    """What who has it right types."""
    return f"{question.line}: {question.answer:.4g}" if isinstance(question, Flaw) else f"{question.answer:.4g}"


@pytest.fixture(scope="module")
def keys():
    return [student_key(SECRET, student) for student in STUDENTS]


@pytest.mark.parametrize("name", SETS)
def test_hundreds_of_students_get_sets_of_their_own_that_can_be_solved(name, keys):
    """A question is built only of a finite answer, and of mistakes that differ from it and from each other."""
    problems, sets, tries = load(name).problems, set(), 0
    for key in keys:
        drawn = [problem.draw(key) for problem in problems]
        sets.add("\n".join(q.text if isinstance(q, Question) else q for q, _ in drawn))
        tries += sum(attempts for _, attempts in drawn)
        for question, _ in drawn:
            if isinstance(question, Question) and not question.choices:
                assert question.judge(typed(question)).right
    assert len(sets) == len(STUDENTS)
    assert tries < 1.7 * len(STUDENTS) * len(problems)


@pytest.mark.parametrize("problem", TYPED, ids=by_name)
def test_a_problem_draws_widely_names_its_mistakes_and_hides_its_answer(problem, keys):
    questions = [problem.question(key) for key in keys[:60]]
    assert len({question.answer if problem.before else question.text for question in questions}) >= 6
    for question in questions:
        if question.choices:
            assert len(question.choices) >= 3
            continue
        assert len(question.mistakes) >= 2 or isinstance(question, Flaw)
        assert len(question.hints) >= 1
        assert question.way
        for why, value in question.mistakes.items():
            assert question.judge(float(value)).text == why
        asked = [getattr(one, "units", one.unit) for one in (question, questions[0])]
        assert asked[0] == asked[1], "the released notebook names the unit, for all students"


# What an answer may be, by its unit: a law called for the wrong thing gives a share where a count belongs.
PLAUSIBLE = {
    "%": (0.005, 1),
    "s": (1e-6, 400 * 86400),
    "B": (1e3, 1e15),
    "B/s": (1e9, 1e13),
    "FLOP": (1e21, 1e27),
    "FLOP/s": (1e17, 1e20),
    "FLOP/byte": (30, 2000),
    "W": (1e5, 1e9),
    "J": (0.01, 1000),
    "$": (1e4, 1e10),
    "tokens/s": (1, 1e5),
    "l/min": (10, 1000),
    "trillion tokens": (1, 1000),
    "": (0.3, 2000),
    "million requests": (0.1, 1000),
    "serving/price": (0.05, 100),  # dollars, of a million tokens
    "flows": (2, 40),
    "strikes": (0.1, 3),
    # A line of a plan, by its unit: dollars of a million tokens or of an hour, up to those of a run.
    "a line in $": (0.1, 1e9),
    "a line in MWh": (1e11, 1e16),
    "a line in W": (1e5, 1e9),
    "a line in B/s": (1e11, 1e15),
    "a line in GPU-hours": (1e5, 1e9),
    "a line in l/min": (100, 1e5),
    "a line in GPUs": (1, 1e6),
    "a line in FLOP": (1e16, 1e27),
    "a line in B": (1e8, 1e14),
}


@pytest.mark.parametrize("problem", TYPED, ids=by_name)
def test_an_answer_is_plausible(problem, keys):
    for question in map(problem.question, keys[:60]):
        if not question.choices:
            kind = f"a line in {question.unit}" if isinstance(question, Flaw) else problem.full_name
            low, high = PLAUSIBLE.get(kind, PLAUSIBLE.get(question.unit, (1, 1e7)))  # what is counted
            assert low <= question.answer <= high, question.text


def test_experts_are_counted_as_a_throw_of_dice_counts_them():
    question = load("roofline")["experts"].question(ALICE)
    count, used, tokens = map(int, re.findall(r"has (\d+) experts.* to (\d+) of .* of (\d+) tokens", question.text)[0])
    random = np.random.default_rng(1)
    thrown = [
        len({expert for _ in range(tokens) for expert in random.choice(count, used, replace=False)}) for _ in range(300)
    ]
    assert question.answer == pytest.approx(np.mean(thrown), rel=0.02)


def test_two_levels_are_what_their_three_stages_sum_to(keys):
    for question in map(load("interconnect")["levels"].question, keys[:20]):
        nodes, size = re.match(r"(\d+) servers of 8 GPUs all-reduce (.*?):", question.text).groups()
        fast, label = re.search(r"server at (.*?) a direction.* port of (\d+) Gbit/s", question.text).groups()
        inside = 2 * 7 / 8 * parse(size) / parse(fast)
        across = 2 * (int(nodes) - 1) / int(nodes) * parse(size) / 8 / (int(label) * 1e9 / 8)
        assert question.answer == pytest.approx(inside + across, rel=1e-3)


@pytest.mark.parametrize("problem", PROBLEMS, ids=by_name)
def test_a_problem_reads_well(problem):
    text = problem.text(ALICE)
    assert text[0].isupper() or text[0].isdigit()
    assert len(text) < 650
    assert "  " not in text
    assert not re.search(r"\binf\b|\bnan\b|\d{5,}\.\d", text)
    assert problem.points > 0


@pytest.mark.parametrize("name", SETS)
def test_a_set_goes_from_a_warm_up_to_an_open_end(name):
    problems = load(name).problems
    assert 8 <= len(problems) <= 10
    assert problems[-1].rubric
    drawn = [problem.draw(ALICE)[0] for problem in problems]
    assert sum(isinstance(question, Flaw) for question in drawn) == 1
    if name != "capstone":
        assert sum(isinstance(question, Estimate) for question in drawn) == 1
        assert sum(bool(problem.before) for problem in problems) == 1
    assert len({problem.name for problem in problems}) == len(problems)
    assert name == "capstone" or problems[0].points == 1


def test_the_same_student_gets_the_same_and_another_something_else():
    bob, otherwise = student_key(SECRET, "bob"), student_key("another secret", "alice")
    for problem in TYPED[:5]:
        texts = [problem.question(key).text for key in (ALICE, bytes(ALICE), bob, otherwise)]
        assert texts[0] == texts[1]
    assert len({problem.question(key).text for problem in TYPED[:1] for key in (ALICE, bob, otherwise)}) == 3
    with pytest.raises(ValueError, match="at least 12"):
        student_key("short", "alice")


def test_all_problems_of_the_capstone_ask_about_one_run():
    texts = [problem.text(ALICE) for problem in load("capstone").problems]
    counts = {found for text in texts for found in re.findall(r"([\d,]+) (?:H100s|GPUs)\b", text)}
    assert len(counts) == 1


def test_a_draw_is_even_and_within_its_bounds():
    draws = [Draw(ALICE, "some/problem", attempt) for attempt in range(3000)]
    numbers = [draw.number(10, 30, 10) for draw in draws]
    assert set(numbers) == {10, 20, 30}
    assert all(abs(numbers.count(n) - 1000) < 5 * math.sqrt(3000 * 2 / 9) for n in set(numbers))
    assert {draw.one_of("ab") for draw in draws} == {"a", "b"}


def test_an_implausible_draw_is_drawn_again_and_an_impossible_problem_is_an_error():
    def make(draw):
        draw.require(draw.below(2) == 1)
        return Question("Why?", 1.0)

    tries = [Problem("x", "y", "Y", make, 1).draw(student_key(SECRET, s))[1] for s in STUDENTS[:200]]
    assert 1.5 < sum(tries) / 200 < 2.5
    with pytest.raises(RuntimeError, match="x/y: no plausible draw"):
        Problem("x", "y", "Y", lambda draw: draw.require(False), 1).draw(ALICE)

    def broken(draw):
        raise ValueError("bandwidth must be positive")

    with pytest.raises(ValueError, match="bandwidth"):
        Problem("x", "y", "Y", broken, 1).draw(ALICE)
    assert issubclass(DegenerateDrawError, ValueError)


def test_an_estimate_is_right_within_a_factor_of_two_and_its_way_shows_the_sum(keys):
    for problem in TYPED:
        question = problem.question(ALICE)
        if isinstance(question, Estimate):
            judged = {f: question.judge(f * question.answer).right for f in (0.49, 0.51, 1, 1.96, 2.04)}
            assert list(judged.values()) == [False, True, True, True, False]
            assert re.search(r"\d.*(x|/|over|Twice|about)", question.way)
            assert "By hand" in notebooks.told(1, problem, ALICE)


@pytest.mark.parametrize("name", SETS)
def test_one_line_of_a_plan_is_wrong_and_the_lines_after_it_go_on_from_it(name, keys):
    """Whoever mends the wrong line gets its value from those before; no line is always the wrong one."""
    (problem,) = [problem for problem in load(name).problems if isinstance(problem.draw(ALICE)[0], Flaw)]
    plans = [problem.question(key) for key in keys[:60]]
    assert len({plan.line for plan in plans}) >= 3
    assert len({plan.slip for plan in plans}) >= 5
    for plan in plans:
        lines = re.findall(r"^\d\. .*: (.+)\.$", plan.text, re.MULTILINE)
        assert len(lines) == len(plan.units)
        said = plan.read(re.sub(r"e(\d)", r"e+\1", lines[plan.line - 1]))
        assert said is not None, "a line says what can be read"
        assert not plan.judge(f"{plan.line}: {said.value!r}").right
        assert [plan.judge(f"line {n}, 1").kind for n in range(1, len(lines) + 1)].count("line") == len(lines) - 1
        assert plan.judge(f"{plan.line}: {1.03 * plan.answer!r}").kind == "mistake"
        assert plan.judge("7").kind == plan.judge(7.0).kind == "unread"


@pytest.mark.parametrize("problem", STEPS, ids=by_name)
def test_a_second_step_counts_from_the_first_that_its_author_found(problem, keys):
    for key in keys[:20]:
        first, second = load(problem.set)[problem.before].question(key), problem.question(key)
        assert problem.onward(key, first.answer).answer == pytest.approx(second.answer, rel=1e-12)
        wrong = next(value for value in first.mistakes.values() if 1e-3 < value / first.answer < 1e3)
        follows = problem.onward(key, wrong).answer
        assert mark(problem, key, second.answer, wrong).points == problem.points, "right is right, whatever came before"
        if second.judge(follows).right or second.judge(follows).kind == "mistake":
            continue
        given = mark(problem, key, follows, wrong)
        assert given.points == problem.points
        assert "step before" in given.remark
        assert mark(problem, key, follows, f"{wrong!r}").points == problem.points
        for before in (None, "", "much", first.answer, 0.0, -1.0, float("inf"), [1], 1e-300):
            assert mark(problem, key, follows, before).points < problem.points


# --- Marks -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("problem", TYPED, ids=by_name)
def test_right_is_full_a_known_mistake_half_and_anything_else_nothing(problem):
    question = problem.question(ALICE)
    assert mark(problem, ALICE, None).points == 0
    if question.choices:
        letters = lettered(question, ALICE)
        for letter, choice in letters.items():
            expected = problem.points if choice == question.answer else 0
            assert mark(problem, ALICE, letter).points == expected
            assert mark(problem, ALICE, f" {letter.upper()}) ").points == expected
        return
    right = f"{question.line}: {question.shown}" if isinstance(question, Flaw) else question.shown
    assert mark(problem, ALICE, right).points == problem.points
    if isinstance(question, Flaw):
        assert mark(problem, ALICE, f"{question.line}: 1e-30").points == problem.points / 2
        assert mark(problem, ALICE, f"{question.line % len(question.units) + 1}: {question.shown}").points == 0
    for why, value in question.mistakes.items():
        given = mark(problem, ALICE, value)
        assert given.points == problem.points / 2
        assert given.remark.startswith(why)
        assert given.remark.endswith(question.hints[0])
        assert question.shown not in given.remark
    assert mark(problem, ALICE, 12345.678 * question.answer).points == 0
    for nonsense in ("much", "", [1, 2], object(), float("nan"), "apples, 3"):
        assert mark(problem, ALICE, nonsense).points == 0


def test_a_letter_is_a_choice_and_no_number():
    problem = load("failures")["memoryless"]
    question = problem.question(ALICE)
    assert judge(question, ALICE, question.answer).right
    assert judge(question, ALICE, "z").kind == "unread"
    orders = {tuple(lettered(question, student_key(SECRET, student)).values()) for student in STUDENTS[:50]}
    assert len(orders) > 10


def test_an_essay_waits_for_a_reader():
    given = mark(load("capstone")["plan"], ALICE, "anything")
    assert (given.points, given.most) == (None, 20)


def test_a_notebook_is_marked_with_its_author_s_key_alone(monkeypatch, capsys):
    problem = load("roofline")["ridge"]
    monkeypatch.delenv(KEY, raising=False)
    with pytest.raises(RuntimeError, match="teacher's machine"):
        mark_here(1.0, "roofline/ridge")
    monkeypatch.setenv(KEY, ALICE.hex())
    assert mark_here(problem.question(ALICE).answer, "roofline/ridge") == problem.points
    assert capsys.readouterr().out == "Right.\n"


# --- Notebooks -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SETS)
def test_the_template_holds_no_parameter_and_a_student_reads_each_problem(name):
    problems = load(name)
    template = notebooks.template(problems, ALICE)
    nbformat.validate(template)
    other = notebooks.template(problems, student_key(SECRET, "bob"))
    assert [cell.source for cell in template.cells] == [cell.source for cell in other.cells]
    own = notebooks.personal(template, problems, Student("alice", "Alice <A>"), ALICE)
    text = "\n".join(cell.source for cell in own.cells)
    for problem in problems.problems:
        assert problem.text(ALICE).replace("$", r"\$") in text, "two prices make no formula"
        for criterion in problem.rubric:
            assert criterion in text
    assert len({cell.id for cell in own.cells}) == len(own.cells)


@pytest.fixture(scope="module", params=SETS)
def checking(request):
    """A set, its plain notebook for Alice, and the checks that its cells make; hashed lightly."""
    problems = load(request.param)
    notebook = notebooks.plain(problems, Student("alice"), ALICE, cost=2)
    nbformat.validate(notebook)
    (cell,) = [cell for cell in notebook.cells if cell.source.startswith("# What your answers")]
    scope = {}
    exec(cell.source, scope)
    return problems, notebook, scope["check"]


def test_a_plain_notebook_checks_itself(checking):
    problems, notebook, check = checking
    asked = [cell.source.partition("  #")[0] for cell in notebook.cells if cell.source.startswith("check[")]
    kept = [problem for problem in problems.problems if not problem.rubric]
    assert asked == [f"check[{problem.name!r}](answer_{problem.name})" for problem in kept]
    for problem in kept:
        question, judged = problem.question(ALICE), check[problem.name]
        assert judged(None).kind == "unread"
        if question.choices:
            letters = lettered(question, ALICE)
            assert {letters[letter]: judged(letter).kind for letter in letters} == {
                choice: "right" if choice == question.answer else "mistake" for choice in question.choices
            }
            continue
        right = judged(typed(question))
        assert right.right
        assert right.text.endswith(question.way)
        for why, value in question.mistakes.items():
            assert judged(float(value)) == ("mistake", f"{why} Hint: {question.hints[0]}")
        for line, value in getattr(question, "later", {}).items():
            assert (
                judged(f"{line}: {value!r}")
                == question.judge(f"{line}: {value!r}")
                == ("mistake", question.symptom(line))
            )
        assert judged(f"{question.line}: 1e-30" if isinstance(question, Flaw) else 1e-30).kind == "wrong"


def test_a_plain_notebook_cannot_be_read_back(checking):
    """Neither the file, nor what its seals decode to, holds an answer, a mistake, a hint or a way."""
    problems, notebook, _ = checking
    whole = json.dumps(notebook, ensure_ascii=False)
    outer = [base64.b64decode(text) for text in re.findall(r"Sealed\(\\?['\"]([\w+/=]+)", whole)]
    inner = [base64.b64decode(one) for text in outer for one in json.loads(text)["kept"]]
    assert len(outer) == sum(not problem.rubric for problem in problems.problems)
    turned = [data.translate(bytes(other ^ byte for other in range(256))) for data in outer for byte in (0, 42, 255)]
    texts = [whole, *(data.decode("latin-1") for data in (*turned, *inner))]
    for problem in problems.problems:
        if problem.rubric:
            continue
        question = problem.question(ALICE)
        secrets = [*question.hints, *question.choices.values()]
        secrets += [] if question.choices else [question.way, *question.mistakes, f"{question.answer:.6g}"]
        assert not [secret for secret in secrets if len(secret) > 5 and any(secret in text for text in texts)]


def test_a_sheet_for_who_sits_beside_a_student_has_all_answers_and_mistakes():
    told = sheet(Student("alice", "Alice"), SECRET)
    for problem in TYPED:
        question = problem.question(ALICE)
        assert all(why in told for why in question.mistakes)
        assert question.choices or question.shown in told
    assert load("capstone")["defence"].text(ALICE) in told, "who examines knows the doubt"


def test_one_student_s_answers_are_printed_with_the_folder_s_secret_alone(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("course.__main__.SETS", ("failures",))
    asked = ["--students", str(EXAMPLE), "--folder", str(tmp_path), "--answers"]
    (tmp_path / "secret.check").write_text(student_key(SECRET, "").hex()[:16])
    assert main([*asked, "ada", "--secret", SECRET]) == 0
    assert capsys.readouterr().out.startswith("Answers of Ada Example (ada)")
    assert main([*asked, "zoe", "--secret", SECRET]) == main([*asked, "ada", "--secret", SECRET + "."]) == 2
    assert "no student has the id 'zoe'" in (said := capsys.readouterr().err)
    assert "not the secret" in said


@pytest.mark.parametrize("module", [kinds, progress], ids=lambda module: module.__name__)
def test_the_examples_of_the_course_hold(module):
    failed, tried = doctest.testmod(module)
    assert tried
    assert failed == 0


# --- The roster ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1: the heading needs a column 'id'"),
        ("name\nAda\n", "line 1: the heading needs a column 'id'"),
        ("id,name\nada,Ada\nben\n", "line 3: 1 cells under 2 headings"),
        ("id,name\na b,Ada\n", "line 2: id 'a b' must be"),
        ("id,name\n,Ada\n", "line 2: id ''"),
        ("id,name\n../up,Ada\n", "line 2: id '../up'"),
        ("id,name\nada,Ada\nben,Ben\nADA,Ada\n", "line 4: id 'ADA' is that of line 2"),
        ("id\n\n", "no student"),
    ],
)
def test_a_wrong_roster_is_named_by_line(tmp_path, text, message, capsys):
    path = tmp_path / "roster.csv"
    path.write_text(text)
    with pytest.raises(ValueError, match=re.escape(message)):
        roster.read(path)
    assert main(["--plain", "--students", str(path), "--secret", SECRET, "--folder", str(tmp_path / "out")]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_short_secret_and_a_missing_nbgrader_are_said_in_words(tmp_path, capsys, monkeypatch):
    asked = ["--students", str(EXAMPLE), "--folder", str(tmp_path / "out")]
    assert main([*asked, "--secret", "short"]) == 2
    assert "at least 12 characters" in capsys.readouterr().err
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    assert main([*asked, "--secret", SECRET]) == 2
    assert "nbgrader is not installed" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_folder_is_of_one_secret_and_does_not_tell_it(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(Plain, "release", lambda _: 0)
    asked = ["--plain", "--students", str(EXAMPLE), "--folder", str(tmp_path / "out"), "--secret"]
    assert main([*asked, SECRET]) == main([*asked, SECRET]) == 0
    before = {path: path.read_text() for path in (tmp_path / "out").rglob("*") if path.is_file()}
    assert not [path for path, text in before.items() if SECRET in text]
    capsys.readouterr()
    assert main([*asked, SECRET + "."]) == 2
    assert "not the secret" in capsys.readouterr().err
    assert before == {path: path.read_text() for path in (tmp_path / "out").rglob("*") if path.is_file()}


def test_a_folder_is_of_one_kind(tmp_path, capsys):
    (tmp_path / "handout").mkdir()
    asked = ["--students", str(EXAMPLE), "--folder", str(tmp_path), "--secret", SECRET]
    assert main(asked) == 2
    assert "begun without nbgrader" in capsys.readouterr().err
    (tmp_path / "gradebook.db").write_text("")
    assert main([*asked, "--plain"]) == 2
    assert "begun with nbgrader" in capsys.readouterr().err


def test_every_wrong_line_of_a_roster_is_named_at_once(tmp_path):
    path = tmp_path / "roster.csv"
    path.write_text("\ufeffID;name\n")
    with pytest.raises(ValueError, match="line 1"):
        roster.read(path)
    path.write_text("\ufeffID , Name\n!,x\nada,Ada\n?,y\n")
    with pytest.raises(ValueError, match=r"line 2(.|\n)*line 4"):
        roster.read(path)
    path.write_text("\ufeffID , Name\n\nada,Ada\n")
    assert roster.read(path) == [Student("ada", "Ada")]
    with pytest.raises(ValueError, match="cannot be read"):
        roster.read(tmp_path / "none.csv")


def test_the_example_roster_is_right():
    assert [student.id for student in roster.read(EXAMPLE)] == ["ada", "ben"]


# --- The round without nbgrader --------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_plain_round_marks_right_wrong_and_broken(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(notebooks.plain, "__defaults__", (2,))  # a light hash
    students = [Student("alice", "Alice"), Student("bob"), Student("carol"), Student("dave")]
    course = Plain(tmp_path, students, SECRET)
    assert course.release(["failures"]) == 4
    assert course.release(["failures"]) == 0, "what a student has is not written again"
    problems = load("failures")
    returned = tmp_path / "returned"
    returned.mkdir()
    for student, answers in {"alice": "right", "bob": "mistake"}.items():
        notebook = nbformat.read(tmp_path / "handout" / student / f"failures-{student}.ipynb", 4)
        for cell in notebook.cells:
            if found := re.match(r"answer_(\w+) = None", cell.source):
                cell.source = f"{found[0].split('=')[0]}= {submitted(problems[found[1]], student, answers)!r}"
        notebook.cells.insert(3, nbformat.v4.new_code_cell("1 / 0"))
        nbformat.write(notebook, returned / f"failures-{student}.ipynb")
    (returned / "failures-carol.ipynb").write_text('{"cells": [')
    first, second, third, *_ = (problem.name for problem in problems.problems if not problem.rubric)
    cells = [f"answer_{first} = (3600 +", "half = 1 / 0", f"answer_{second} = half", f"answer_{third} = 'soon'"]
    cells = [nbformat.v4.new_code_cell(cell) for cell in cells]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), returned / "failures-dave.ipynb")
    (returned / "holiday.ipynb").write_text("")
    trouble = course.grade(course.collect())
    heard = capsys.readouterr()
    assert "holiday.ipynb" in heard.out
    sealing = [f"sealing failures-{s.id}" for s in students]
    assert heard.err.splitlines() == [
        *sealing,
        *(f"marking {n} of 4: failures-{s.id}" for n, s in enumerate(students, 1)),
    ]
    assert [line.split(":")[0] for line in trouble] == ["failures-carol"]
    rows = list(csv.DictReader(course.marks().read_text().splitlines()))
    remarks = {row["problem"]: row["remark"] for row in rows if row["student"] == "dave"}
    assert remarks[first].startswith("SyntaxError in code cell 1: ")
    assert remarks[first].endswith(" (line 1)")
    assert remarks[second] == "ZeroDivisionError in code cell 2: division by zero"
    assert remarks[third].startswith("That cannot be read.")
    assert set(list(remarks.values())[3:]) == {"No answer.", "To be read by a person."}
    expect([row for row in rows if row["student"] != "dave"], problems)
    essay = next(problem.name for problem in problems.problems if problem.rubric)
    page = (tmp_path / "to-read" / f"failures-{essay}.md").read_text()
    assert [page.count(f"\n## {who}\n") for who in ("alice", "bob", "carol", "dave")] == [1, 1, 0, 1]
    assert page.count("Write here.") == 2

    # A person types points into the table: they stay, also when the notebook comes again.
    table = tmp_path / "marks.csv"
    typed = table.read_text().replace(f"alice,failures,{essay},,6,", f"alice,failures,{essay},5,6,")
    assert typed != table.read_text()
    table.write_text(typed)
    monkeypatch.setattr("course.plain.run", lambda _: ({}, []))
    again = Plain(tmp_path, students, SECRET)
    assert (again.collect(), again.marks().read_text()) == ([], typed)
    with (returned / "failures-alice.ipynb").open("a") as back:
        back.write("\n")
    again = Plain(tmp_path, students, SECRET)
    assert again.grade(again.collect()) == []
    rows = list(csv.DictReader(again.marks().read_text().splitlines()))
    (read,) = [row for row in rows if row["student"] == "alice" and row["to read"]]
    assert (read["points"], read["remark"][:15]) == ("5", "Handed in again")


def submitted(problem, student, how):
    """What a made-up student hands in."""
    question = problem.question(student_key(SECRET, student))
    if how == "right":
        return f"{question.line}: {question.answer!r}" if isinstance(question, Flaw) else question.answer
    if isinstance(question, Flaw):
        return f"{question.line}: 0"
    if question.choices:
        return next(choice for choice in question.choices if choice != question.answer)
    return float(next(iter(question.mistakes.values())))


def expect(rows, problems):
    """Alice has all right, Bob each by a known mistake, and Carol's notebook is broken."""
    typed = [problem for problem in problems.problems if not problem.rubric]
    for problem in typed:
        alice, bob = (
            next(row for row in rows if (row["student"], row["problem"]) == (who, problem.name))
            for who in ("alice", "bob")
        )
        question = problem.question(student_key(SECRET, "bob"))
        assert (float(alice["points"]), alice["remark"]) == (problem.points, "Right.")
        assert float(bob["points"]) == (0 if question.choices else problem.points / 2)
        if question.mistakes:
            assert bob["remark"] == f"{next(iter(question.mistakes))} Hint: {question.hints[0]}"
    assert [row["student"] for row in rows if row["to read"]] == ["alice", "bob"]
    (carol,) = [row for row in rows if row["student"] == "carol"]
    assert (float(carol["points"]), carol["remark"]) == (0, "could not be run")
