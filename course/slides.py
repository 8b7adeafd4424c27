"""``python -m course.slides``: slides from a chapter's drawings and questions, one file each, that need no network.

The chapter runs as it does for the book, and its figures and checks are noted as they are made. A figure is a slide; a
process is one slide for each of its steps; what asks for a prediction asks it first; a check tells its answer when you
go on. Arrow keys turn the slides, D turns light to dark, and they print one to a page.
"""

from __future__ import annotations

import argparse
import contextlib
import html
import json
import re
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from unittest import mock

import nbformat
from nbclient import NotebookClient

from explorable import Question, check, explorer
from explorable._widget import escape
from explorable.explorer._markup import Figure

CHAPTERS: tuple[str, ...] = ("roofline", "interconnect", "contention", "sharding", "parallelism", "step", "serving")
CHAPTERS += ("rack", "fleet", "post_training", "failures", "operations", "on_call", "power", "scaling", "cost", "plan")
ROOT = Path(__file__).parents[1]
_HERE = Path(__file__)
_LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")
_ROLE = re.compile(r"\{term\}`([^`<]*?)(?: *<[^>]*>)?`")
_CITE = re.compile(r"\s*\{cite:\w\}`[^`]*`")


@contextlib.contextmanager
def noted() -> Iterator[list[dict]]:
    """Note every figure and every check that is made meanwhile: its frames as markup, in the order of making."""
    made: list[dict] = []
    drawn: list[tuple] = []  # of each figure what it was drawn from: table, combination, colours, what is hidden

    class Noting(Figure):
        def __init__(self, *parts) -> None:
            drawn.append(parts)
            super().__init__(*parts)

    def figure(build):
        def init(self, *arguments, **named):
            build(self, *arguments, **named)
            made.append(_figure(self, drawn[-1], named))

        return init

    def asked(build):
        def init(self, question):
            build(self, question)
            made.append(_check(question))

        return init

    with (
        mock.patch.object(explorer, "Figure", Noting),
        mock.patch.object(explorer.Explorer, "__init__", figure(explorer.Explorer.__init__)),
        mock.patch.object(check.Check, "__init__", asked(check.Check.__init__)),
    ):
        yield made


def _figure(figure: explorer.Explorer, drawn: tuple, named: dict) -> dict:
    """A figure at its start; of a process, at every step."""
    table, start, colours, _, *between = drawn
    stops = [control.start for control in figure._controls]
    process = [i for i, one in enumerate(named.get("controls", {}).values()) if isinstance(one, explorer.Play)]
    numbers = [start]
    if process:
        steps = range(len(figure._controls[process[0]].values))
        numbers = [figure._index([*stops[: process[0]], step, *stops[process[0] + 1 :]]) for step in steps]
    frames = [
        Figure(table, number, colours, frozenset(), *between).markup(named["title"], "", True) for number in numbers
    ]
    asked = named.get("predict")
    first = []
    if asked:
        answers = "".join(f"<li>{escape(answer)}</li>" for answer in asked.answers)
        first = [f"<p>{escape(asked.premise)}</p><p class='asked'>{escape(asked.question)}</p><ul>{answers}</ul>"]
    return {"title": named["title"], "frames": [*first, *frames], "asks": bool(asked)}


def _check(question: Question) -> dict:
    """A check, and then its answer."""
    choices = "".join(f"<li>{escape(choice)}</li>" for choice in question.choices)
    asked = f"<p class='asked'>{escape(question.text)}</p>" + (f"<ul>{choices}</ul>" if choices else "")
    told = f"{asked}<p class='told'>{escape(question.shown)}</p><p>{escape(question.explained)}</p>"
    return {"title": "Check", "frames": [asked, told], "asks": True}


def slides_of(path: Path) -> tuple[str, list[dict]]:
    """Run a chapter; return its title, and its slides: title, section, frames and caption of each.

    Raises
    ------
    nbclient.exceptions.CellExecutionError
        The chapter does not run.
    """
    notebook = nbformat.read(path, as_version=4)
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "made.json"
        start = (
            f"import sys; sys.path.insert(0, {str(ROOT)!r})\n"
            "from course.slides import noted as _noted\n"
            "_noting = _noted(); _made = _noting.__enter__(); _after = []"
        )
        end = f"import json as _json; open({str(out)!r}, 'w').write(_json.dumps([_made, _after]))"
        cells, sources = [nbformat.v4.new_code_cell(start)], []
        for cell in notebook.cells:
            cells.append(cell)
            sources.append(cell)
            if cell.cell_type == "code":
                cells.append(nbformat.v4.new_code_cell("_after.append(len(_made))"))
        notebook.cells = [*cells, nbformat.v4.new_code_cell(end)]
        NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(path.parent)}}).execute()
        made, after = json.loads(out.read_text())
    return assemble(sources, made, after)


def assemble(cells: Sequence, made: Sequence[dict], after: Sequence[int]) -> tuple[str, list[dict]]:
    """Put what was made under its section; ``after`` counts what had been made after each code cell."""
    opening = cells[0].source
    title = re.search(r"^# (.*)", opening, re.MULTILINE)
    question = re.search(r":class: tip\n(.*?)\n(?:\n|:::)", opening, re.DOTALL)
    name = title[1] if title else "Slides"
    slides = [
        {"title": name, "section": "", "frames": [f"<p class='asked'>{prose(question[1])}</p>" if question else ""]}
    ]
    section, done, code = "", 0, 0
    for number, cell in enumerate(cells):
        if cell.cell_type == "markdown":
            for heading in re.findall(r"^##+ (.*)", cell.source, re.MULTILINE):
                section = heading
            continue
        follows = (
            cells[number + 1].source if number + 1 < len(cells) and cells[number + 1].cell_type == "markdown" else ""
        )
        caption = re.match(r"\*([^*\n]+)\*\s*(\n|$)", follows.strip())
        if section != "Sources" and not section.startswith("Exercise"):
            slides += [
                one | {"section": prose(section), "caption": prose(caption[1]) if caption else ""}
                for one in made[done : after[code]]
            ]
        done, code = after[code], code + 1
    return name, slides


def prose(text: str) -> str:
    """A line of a chapter as markup: links, terms and citations become plain words, and what is bold stays so.

    Examples
    --------
    >>> prose("What does {term}`TP <tensor parallelism>` cost? **[Ask](power.ipynb)** {cite:p}`llama3`")
    'What does TP cost? <b>Ask</b>'
    """
    plain = _CITE.sub("", _ROLE.sub(r"\1", _LINK.sub(r"\1", text))).replace("\\$", "$")
    return re.sub(r"\*\*(.+?)\*\*", r"<b>\1</b>", html.escape(plain, quote=False)).replace("\n", " ").strip()


def page(title: str, slides: Sequence[dict]) -> str:
    """All slides of a chapter in one file."""
    sections = []
    for number, slide in enumerate(slides, 1):
        frames = "".join(f'<div class="frame">{frame}</div>' for frame in slide["frames"])
        over = f"<p class='over'>{slide['section']}</p>" if slide.get("section") else ""
        caption = f"<p class='caption'>{slide['caption']}</p>" if slide.get("caption") else ""
        level = "h1" if number == 1 else "h2"
        kept = " class='asks'" if slide.get("asks") else ""
        sections.append(
            f'<section{kept} aria-label="{number} of {len(slides)}">{over}<{level}>{escape(slide["title"])}</{level}>'
            f"{frames}{caption}</section>"
        )
    css = explorer.Explorer._css + _HERE.with_suffix(".css").read_text(encoding="utf-8")
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{css}</style></head><body><main>{''.join(sections)}</main>"
        f"<script>{_HERE.with_suffix('.js').read_text(encoding='utf-8')}</script></body></html>"
    )


def main(arguments: list[str] | None = None) -> int:
    """Write the slides of some chapters, or of all."""
    parser = argparse.ArgumentParser(prog="python -m course.slides", description=main.__doc__)
    parser.add_argument("chapters", nargs="*", metavar="chapter", help=f"of: {', '.join(CHAPTERS)}")
    parser.add_argument("--folder", type=Path, default=Path("_build/slides"), help="where the files go")
    given = parser.parse_args(arguments)
    if wrong := [name for name in given.chapters if name not in CHAPTERS]:
        print(f"no chapter {wrong[0]!r}; there are: {', '.join(CHAPTERS)}", file=sys.stderr)
        return 2
    given.folder.mkdir(parents=True, exist_ok=True)
    for name in given.chapters or CHAPTERS:
        title, slides = slides_of(ROOT / "book" / f"{name}.ipynb")
        path = given.folder / f"{name}.html"
        path.write_text(page(title, slides), encoding="utf-8")
        print(f"{path}: {len(slides)} slides, {path.stat().st_size / 1000:.0f} kB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
