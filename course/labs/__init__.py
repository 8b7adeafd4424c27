"""Labs: two hours, a real file, a report. What students get, and what stays with the teacher."""

from __future__ import annotations

import re
import shutil
from importlib import import_module
from pathlib import Path

HERE = Path(__file__).parent
LABS = ("training_log", "sick_machine", "failure_log", "power_trace", "serving_sweep", "laptop")
KEPT = ("solution.py", "report.md")  # from students


def report(name: str) -> str:
    """For the teacher: the sample report of a lab with its marks, and every number that the solution computes."""
    numbers = import_module(f"course.labs.{name}.solution").answers()
    told = (HERE / name / "report.md").read_text(encoding="utf-8").format_map(numbers)
    rows = "\n".join(f"| {key.replace('_', ' ')} | {value} |" for key, value in numbers.items())
    told = re.sub(r"(\d)%", r"\1 %", told)
    return f"{told}\n## Every number of the solution\n\n| what | number |\n|---|---|\n{rows}\n"


def hand_out(name: str, folder: Path) -> Path:
    """Copy what a student gets of a lab: the notebook, the data, their sources and licence, and the rubric."""
    own = folder / name
    shutil.copytree(HERE / name, own, ignore=shutil.ignore_patterns(*KEPT, "__pycache__"), dirs_exist_ok=True)
    for shared in ("rubric.md", "APACHE-2.0.txt"):
        shutil.copy(HERE / shared, own)
    return own
