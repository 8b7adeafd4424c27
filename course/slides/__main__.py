"""``python -m course.slides``: write slides of chapters and of sessions, each in a file of its own.

Arrow keys turn, N shows the notes, S opens them in a window, O lists the slides; printed it is a handout. With
``--pdf`` a browser prints each file twice: the slides, and the handout with its notes.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from ..plan import BOOK, course
from . import CHAPTERS
from .chapter import Chapter, read
from .deck import Placed, page
from .running import executed
from .session import chapters_of, deck, models

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")


def write(name: str, chapters: dict[str, Chapter], folder: Path) -> Path:
    """Write the deck of a chapter, or of a session whose chapters have run."""
    sessions = course()[0]
    if name.startswith("session-"):
        session = sessions[name.removeprefix("session-")]
        title, places, used = session.question, deck(session, chapters), models(session, chapters)
    else:
        chapter = chapters[name]
        title, places, used = chapter.title, [Placed(slide) for slide in chapter.slides], chapter.models
    path = folder / f"{name}.html"
    path.write_text(page(title, places, used), encoding="utf-8")
    return path


def browser() -> str | None:
    """A browser that can print, or None."""
    return next(filter(None, map(shutil.which, BROWSERS)), None)


def pdf(path: Path, program: str) -> None:
    """Print a deck, as slides and as a handout.

    Raises
    ------
    subprocess.CalledProcessError
        The browser did not print it.
    """
    for kind, ending in (("slides", ".pdf"), ("handout", "-handout.pdf")):
        out = path.with_name(path.stem + ending)
        command = [
            program,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--no-pdf-header-footer",
            "--virtual-time-budget=60000",
        ]
        command += ["--window-size=1280,720", f"--print-to-pdf={out}", f"{path.resolve().as_uri()}?{kind}"]
        subprocess.run(command, check=True, capture_output=True, timeout=300)
        print(f"{out}: {out.stat().st_size / 1000:.0f} kB")


def main(arguments: Sequence[str] | None = None) -> int:
    """Write slides of some chapters or sessions, or of all."""
    sessions = {name: one for name, one in course()[0].items() if one.read}
    parser = argparse.ArgumentParser(prog="python -m course.slides", description=main.__doc__)
    parser.add_argument(
        "names", nargs="*", metavar="name", help=f"chapters: {', '.join(CHAPTERS)}; sessions: see --sessions"
    )
    parser.add_argument("--folder", type=Path, default=Path("_build/slides"), help="where the files go")
    parser.add_argument("--sessions", action="store_true", help="list the sessions, and write nothing")
    parser.add_argument("--pdf", action="store_true", help="print each with a browser, too")
    given = parser.parse_args(arguments)
    if given.sessions:
        print("\n".join(f"session-{name}: {one.question}" for name, one in sessions.items()))
        return 0
    wanted = given.names or [*CHAPTERS, *(f"session-{name}" for name in sessions)]
    known = {*CHAPTERS, *(f"session-{name}" for name in sessions)}
    if wrong := [name for name in wanted if name not in known]:
        print(
            f"no chapter or session {wrong[0]!r}; chapters: {', '.join(CHAPTERS)}; --sessions lists the others",
            file=sys.stderr,
        )
        return 2
    program = browser() if given.pdf else None
    if given.pdf and program is None:
        print(f"no browser to print with: none of {', '.join(BROWSERS)}", file=sys.stderr)
        return 2
    given.folder.mkdir(parents=True, exist_ok=True)
    chosen = [sessions[name.removeprefix("session-")] for name in wanted if name.startswith("session-")]
    names = dict.fromkeys([*(name for name in wanted if name in CHAPTERS), *chapters_of(chosen)])
    ran = executed([BOOK / f"{name}.ipynb" for name in names])
    chapters: dict[str, Chapter] = {path.stem: read(notebook) for path, notebook in ran}
    for name in wanted:
        path = write(name, chapters, given.folder)
        print(f"{path}: {path.stat().st_size / 1000:.0f} kB")
        if program:
            pdf(path, program)
    return 0


if __name__ == "__main__":
    sys.exit(main())
