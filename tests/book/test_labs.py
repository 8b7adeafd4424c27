"""The labs: what is handed out runs, what stays is computed, and every file says where it's from."""

import re
import shlex
import sys
from importlib import import_module

import nbformat
import numpy as np
import pytest
from course.labs import HERE, LABS, hand_out, report
from course.labs.__main__ import main
from course.labs.laptop import ranks

from building import ROOT
from clusterlab.cli import main as clusterlab

NUMBER = re.compile(r"\d[\d,]*\.?\d*")
LICENCES = "Apache-2.0", "CC-BY-4.0", "MIT"
EACH = pytest.mark.parametrize("name", LABS)


def numbers(text: str) -> set[str]:
    """Numbers of a text that are more than a count or a guess."""
    found = {number.rstrip(".,") for number in NUMBER.findall(text)}
    return {number for number in found if not (number.isdigit() and int(number) <= 100)}


def notebook(name: str):
    return nbformat.read(HERE / name / f"{name}.ipynb", 4)


@pytest.fixture(scope="module")
def answers():
    """What the solution of each lab computes, once."""
    return {name: import_module(f"course.labs.{name}.solution").answers() for name in LABS}


@EACH
def test_a_report_has_only_numbers_that_the_solution_computes_or_the_lab_gives(name, answers):
    template = (HERE / name / "report.md").read_text()
    asked = set(re.findall(r"{(\w+)}", template))
    assert len(asked) > 25
    assert asked <= set(answers[name])
    given = [cell.source for cell in notebook(name).cells] + [p.read_text() for p in HERE.glob(f"{name}/data/*.md")]
    typed = numbers(re.sub(r"{\w+}", " ", template))
    assert typed <= numbers(" ".join([*given, *answers[name].values()]))


@EACH
def test_a_report_is_marked_part_by_part_by_the_rubric(name):
    text = (HERE / name / "report.md").read_text()
    parts = re.findall(r"^\| (The .+?|By hand) \|", (HERE / "rubric.md").read_text(), re.M)
    assert len(parts) == 5
    assert re.findall(r"^## \d\. (.+)$", text, re.M) == parts
    marks = [int(mark) for mark in re.findall(r"^> \*\*(\d) of 4\.\*\*", text, re.M)]
    assert len(marks) == len(parts)
    assert all(0 <= mark <= 4 for mark in marks)
    assert f"**{sum(marks)} of 20.**" in text


@EACH
def test_a_lab_is_two_hours_and_names_sections_that_are_there(name):
    text = "\n".join(cell.source for cell in notebook(name).cells if cell.cell_type == "markdown")
    minutes = re.findall(r"^\| (\d+) \| ", text.split("## By the minute")[1].split("\n## ")[0], re.M)
    assert sum(map(int, minutes)) == 120
    rows = re.findall(r"^\| \*(.+)\* \(`(\w+)`\) \| (.+) \|$", text, re.M)
    assert rows
    for _, page, sections in rows:
        cells = nbformat.read(ROOT / "book" / f"{page}.ipynb", 4).cells
        headings = re.findall(r"^#+ (.+)$", "\n".join(c.source for c in cells if c.cell_type == "markdown"), re.M)
        assert [section for section in sections.split("; ") if section not in headings] == []


@EACH
def test_a_lab_is_small_and_says_where_its_data_are_from(name):
    source = (HERE / name / "SOURCE.md").read_text()
    data = sorted((HERE / name / "data").iterdir())
    assert data
    assert [path.name for path in data if f"`{path.name}`" not in source] == []
    assert sum(path.stat().st_size for path in data) < 60_000
    licences = re.findall(r"^\| `.+?` \|.*\| (\S+) \|$", source, re.M)
    assert len(licences) == len(data)
    assert set(licences) <= set(LICENCES)


@pytest.mark.slow
@EACH
def test_what_a_student_gets_is_clean_and_runs(name, tmp_path, monkeypatch, capsys):
    own = hand_out(name, tmp_path)
    assert {path.name for path in own.iterdir()} - {"ranks.py"} == {
        "APACHE-2.0.txt",
        "SOURCE.md",
        "data",
        "rubric.md",
        f"{name}.ipynb",
    }
    for cell in (code := [cell for cell in notebook(name).cells if cell.cell_type == "code"]):
        assert not cell.outputs
        assert cell.execution_count is None
    assert sum("# Yours" in cell.source for cell in code) >= 4
    monkeypatch.chdir(own)
    monkeypatch.syspath_prepend(str(own))
    monkeypatch.setitem(sys.modules, "ranks", ranks)
    monkeypatch.setattr(ranks, "all_reduce_times", lambda _: [1e-4 + size / 1e9 for size in ranks.SIZES])
    monkeypatch.setattr(ranks, "step_times", lambda _: [1e-3, 1e-2])
    scope: dict = {}
    for cell in code:
        command = cell.source.removeprefix("%run -m clusterlab ")
        if command != cell.source:
            assert clusterlab(shlex.split(command)) == 0, capsys.readouterr().err
            assert capsys.readouterr().out
        else:
            exec(compile(cell.source, f"{name}.ipynb", "exec"), scope)


def test_two_processes_add_up_and_one_trains_alone():
    """The sum itself is asserted in each process."""
    assert np.all(np.array(ranks.all_reduce_times(2, [1024, 4096])) > 0)
    assert len(ranks.step_times(1, 16, (4, 8))) == 2


def test_the_command_hands_out_what_is_asked_for_and_keeps_the_report(tmp_path, capsys):
    assert main(["training_log", "--folder", str(tmp_path)]) == 0
    assert [path.name for path in (tmp_path / "students").iterdir()] == ["training_log"]
    kept = (tmp_path / "teacher" / "training_log.md").read_text()
    assert kept == report("training_log")
    assert "{" not in kept
    assert main(["no_lab"]) == 2
    assert "no lab 'no_lab'" in capsys.readouterr().err
