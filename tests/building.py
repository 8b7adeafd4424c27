"""The book as the tests build it: what it lists, and a cold build."""

import os
import subprocess
import sys
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[1]
REPORT = "HANDS_REPORT"  # where a kernel leaves what its figures show between their stops: see hands.py


def table_of_contents() -> list[str]:
    """Return what ``_toc.yml`` lists, in its order, without suffix."""
    entries, files = [yaml.safe_load((ROOT / "_toc.yml").read_text())], []
    while entries:
        entry = entries.pop(0)
        files += [entry[key] for key in ("root", "file") if key in entry]
        entries += [child for key in ("parts", "chapters", "subtrees", "sections") for child in entry.get(key, ())]
    return files


def build_book(source, output):
    """Build the book at ``source`` as the README does, warnings being errors; return success, log and HTML folder.

    Nothing is there before: a second build would say nothing of a notebook that raises, and the execution cache would
    answer for it. Both lie under ``output``, and beside them what the figures show between their stops: see ``hands``.
    """
    startup = output / "ipython" / "profile_default" / "startup"
    startup.mkdir(parents=True)
    (startup / "watch_hands.py").write_text("import hands\ndel hands\n")
    paths = os.pathsep.join(filter(None, [str(ROOT / "tests"), os.environ.get("PYTHONPATH")]))
    own = {"IPYTHONDIR": str(output / "ipython"), "PYTHONPATH": paths, REPORT: str(output / "hands.jsonl")}
    script, html = Path(sys.executable).with_name("jupyter-book"), output / "_build" / "html"
    command = [script, "build", "--path-output", output, "-W", "--keep-going", source]
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=1800, env=os.environ | own
    )
    reports = [path.read_text() for path in html.glob("reports/**/*.log")]
    return done.returncode == 0, "\n".join([done.stdout, *reports]), html
