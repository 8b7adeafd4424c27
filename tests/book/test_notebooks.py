"""Every chapter as it is committed: complete, clean, and still true when it runs again."""

import os
import re
from pathlib import Path

import nbformat
import pytest
from nbval.plugin import IPyNbFile, NbCellError

from building import ROOT, build_book, table_of_contents
from kernels import OwnSockets
from refresh import LAB
from replay import NOT_STORED, Replay, executed

# What every chapter holds: (what, where to look, pattern). The opening is the text before the first code.
PARTS = [
    ("the question that it answers", "opening", r"\bquestion\b"),
    ("what the reader will be able to do", "opening", r"\bobjectives\b|\byou can\b|\bable to\b"),
    ("prerequisites", "opening", r"\bprerequisites?\b|\byou need\b"),
    ("numbers to remember", "headings", r"^numbers to remember\b"),
    ("misconceptions", "headings", r"^misconceptions\b"),
    ("a worked example", "headings", r"^worked examples?: "),
    ("exercises", "headings", r"^exercises\b"),
    ("the limits of its model", "headings", r"^what this model leaves out\b"),
    ("sources", "headings", r"^sources\b"),
]
ROUTES = {f"onboarding_{name}" for name in ("oncall", "capacity", "training", "facilities", "serving")}
NO_CHAPTERS = {"index", "cluster", "evidence", "evidence_rows", "corrections", "sheet", "levers"}
OTHERS = NO_CHAPTERS | ROUTES
MARKER = re.compile(r"^\s*#\s*(NBVAL_\w+|PYTEST_VALIDATE_IGNORE_OUTPUT)\s*$", re.MULTILINE)
SENTENCE = re.compile(r"[A-Z`].{15,}\.$")
TIMING = {"execution", "ExecuteTime", "papermill"}


def chapters() -> list[Path]:
    """Return the notebooks of the table of contents."""
    return [path for file in table_of_contents() if (path := (ROOT / file).with_suffix(".ipynb")).exists()]


def complaints(notebook) -> list[str]:
    """Return all that is wrong with a committed notebook."""
    wrong = [f"metadata: {key}" for key in {"widgets", *TIMING} & set(notebook.metadata)]
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    if [cell.execution_count for cell in code] != list(range(1, len(code) + 1)):
        wrong.append("the cells were not all run, in order, in a fresh kernel: nbval compares only what has a count")
    for cell in notebook.cells:
        here = f"cell {cell.id}: "
        wrong += [here + f"metadata: {key}" for key in TIMING & set(cell.metadata)]
        if cell.cell_type != "code":
            continue
        lines = [line for line in cell.source.splitlines() if line.split("#")[0].strip()]
        if lines and lines[-1].split("#")[0].rstrip().endswith(";"):
            wrong.append(here + "ends with ';', which nbval does not honour")
        for output in cell.outputs:
            if output.output_type == "error":
                wrong.append(here + f"raised {output.ename}")
            elif output.output_type == "stream":
                if output.name != "stdout":
                    wrong.append(here + f"wrote to {output.name}: {output.text[:80]}")
            else:
                wrong += [here + f"holds {kind}" for kind in output.data if not kind.endswith("text/plain")]
        tags = cell.metadata.get("tags", [])
        marks = [tag for tag in tags if tag.startswith("nbval-") or tag == "raises-exception"]
        marks += MARKER.findall(cell.source)
        if marks and not SENTENCE.match(cell.metadata.get("nbval_reason", "")):
            wrong.append(here + f"{marks[0]} needs a sentence in the cell's metadata nbval_reason")
    return wrong


def nbval(session, path, executed) -> list[str]:
    """Compare, as nbval does, what a notebook holds with what it printed when it was executed; return what differs."""
    file = IPyNbFile.from_parent(session, path=path)
    file.skip_compare += NOT_STORED
    file.kernel, differences = Replay(executed), []
    for cell in file.collect():
        try:
            cell.runtest()
        except NbCellError as error:
            differences.append(f"{error}\n{error.source}\n{error.inner_traceback}")
    assert next(file.kernel.cells, None) is None, "the build ran more cells than the notebook has"
    return differences


def test_every_notebook_of_the_book_is_in_its_table_of_contents():
    assert sorted(chapters()) == sorted((ROOT / "book").glob("**/*.ipynb"))


@pytest.mark.parametrize("path", chapters(), ids=lambda path: path.stem)
def test_a_committed_notebook_is_clean(path):
    wrong = complaints(nbformat.read(path, as_version=4))
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("path", [p for p in chapters() if p.stem not in OTHERS], ids=lambda path: path.stem)
def test_a_chapter_has_every_part(path):
    notebook = nbformat.read(path, as_version=4)
    text = [cell.source for cell in notebook.cells if cell.cell_type == "markdown"]
    lines = "\n".join(text).splitlines()
    look = {
        "opening": "\n".join(text).partition("\n## ")[0],
        "headings": "\n".join(line.lstrip("#").strip() for line in lines if re.match("##+ ", line)),
    }
    missing = [what for what, where, pattern in PARTS if not re.search(pattern, look[where], re.IGNORECASE | re.M)]
    assert missing == []


@pytest.mark.parametrize("path", [p for p in chapters() if p.stem not in OTHERS], ids=lambda path: path.stem)
def test_a_chapter_has_a_figure_that_moves(path):
    """An explorer with controls prints what it says at both ends of its table."""
    cells = [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]
    shown = [output.get("data", {}).get("text/plain", "") for cell in cells for output in cell.outputs]
    assert [text for text in shown if re.match(r"Explorer: .*\n  .*\n(.*\n)*  first: ", text)]


def test_one_cell_links_a_figure_to_a_control_of_ipywidgets_where_there_is_a_kernel():
    linked = [
        cell
        for path in chapters()
        for cell in nbformat.read(path, as_version=4).cells
        if cell.cell_type == "code" and re.search(r"ipywidgets\.(js)?link\(", cell.source)
    ]
    assert linked
    for cell in linked:  # a page has no kernel, and its host runs the book's own widgets alone
        assert {"remove-cell", LAB} <= set(cell.metadata.tags)
        assert "jupyter" not in cell.metadata, "JupyterLab folds it"


@pytest.mark.parametrize("path", [p for p in chapters() if "Predict(" in p.read_text()], ids=lambda path: path.stem)
def test_no_number_that_a_figure_asks_for_stands_above_it(path):
    above, given = "", []
    for cell in nbformat.read(path, as_version=4).cells:
        if cell.cell_type == "markdown":
            above += cell.source.replace("\N{NO-BREAK SPACE}", " ") + "\n"
            continue
        answers = re.findall(r'right="([^"{]*\d[^"{]*)"', cell.source)  # "TP16" is a name, not a number
        given += [a for a in answers if a[0] != "T" and re.search(rf"(?<![\d.,]){re.escape(a)}", above)]
        if "remove-cell" not in cell.metadata.get("tags", ()):
            above += "\n".join(one.get("text") or one.data.get("text/plain", "") for one in cell.outputs) + "\n"
    assert given == []


def plant(source="1 + 1", count=1, tags=(), metadata=None, outputs=()):
    """Return a notebook of one code cell."""
    cell = nbformat.v4.new_code_cell(source, execution_count=count, outputs=list(outputs))
    cell.metadata.update({"tags": list(tags)} | (metadata or {}))
    return nbformat.v4.new_notebook(cells=[cell])


def shown(**data):
    return nbformat.v4.new_output("display_data", data={kind.replace("_", "/"): text for kind, text in data.items()})


@pytest.mark.parametrize(
    ("planted", "complaint"),
    [
        (plant(count=None), "not all run"),
        (plant(count=2), "not all run"),
        (plant("x = 1\nx;  # quiet"), "ends with ';'"),
        (plant(outputs=[shown(image_png="AAAA")]), "holds image/png"),
        (plant(outputs=[shown(text_html="<b>")]), "holds text/html"),
        (plant(outputs=[nbformat.v4.new_output("stream", name="stderr", text="Warning")]), "wrote to stderr"),
        (plant(outputs=[nbformat.v4.new_output("error", ename="ValueError", evalue="", traceback=[])]), "raised"),
        (plant(metadata={"execution": {"iopub.execute_input": "2026"}}), "metadata: execution"),
        (plant(tags=["nbval-skip"]), "nbval_reason"),
        (plant("# NBVAL_IGNORE_OUTPUT\nx", metadata={"nbval_reason": "because"}), "nbval_reason"),
    ],
)
def test_a_dirty_notebook_is_found(planted, complaint):
    assert [complaint in wrong for wrong in complaints(planted)] == [True]


def test_a_clean_notebook_passes():
    reason = {"nbval_reason": "It measures the reader's own machine."}
    assert complaints(plant(tags=["nbval-ignore-output"], metadata=reason, outputs=[shown(text_plain="2")])) == []


@pytest.mark.parametrize("path", chapters(), ids=lambda path: path.stem)
def test_a_chapter_with_one_wrong_digit_fails(path, site, request, tmp_path):
    """The last digit that a chapter holds, for nbval compares all before it too."""
    notebook = nbformat.read(path, as_version=4)
    holder, key, cell = [
        (holder, key, cell)
        for cell in notebook.cells
        if cell.cell_type == "code" and "nbval" not in str(cell.metadata) + cell.source.lower()
        for output in cell.outputs
        for holder, key in [(output, "text"), (output.get("data", {}), "text/plain")]
        if re.search(r"\d", holder.get(key, "")) and "0x" not in holder[key]
    ][-1]
    holder[key] = re.sub(r"\d(?=\D*$)", lambda digit: str((int(digit[0]) + 1) % 10), holder[key], count=1)
    nbformat.write(notebook, tmp_path / path.name)
    (difference,) = nbval(request.session, tmp_path / path.name, executed(site, path))
    assert "Cell outputs differ" in difference
    assert cell.source in difference


@pytest.mark.parametrize(
    ("printed", "complaint"),
    [
        ([], "Missing output fields"),
        ([nbformat.v4.new_output("stream", name="stdout", text="4\n" * 2)], "mismatch 'stdout'"),
        ([nbformat.v4.new_output("stream", name="stderr", text="Warning\n")], "Missing output fields"),
        ([nbformat.v4.new_output("error", ename="ValueError", evalue="no", traceback=["no"])], "caused an exception"),
    ],
)
def test_a_cell_that_prints_something_else_is_found(printed, complaint, request, tmp_path):
    stored = plant("print(4)", outputs=[nbformat.v4.new_output("stream", name="stdout", text="4\n")])
    nbformat.write(stored, tmp_path / "one.ipynb")
    assert nbval(request.session, tmp_path / "one.ipynb", stored) == []
    (difference,) = nbval(request.session, tmp_path / "one.ipynb", plant("print(4)", outputs=printed))
    assert complaint in difference


@pytest.mark.slow
def test_a_cell_that_raises_fails_the_build(tmp_path):
    book = tmp_path / "book"
    book.mkdir()
    for name in ("_config.yml", "sphinx_ext", "lib", "vendor"):
        (tmp_path / name).symlink_to(ROOT / name)
    (tmp_path / "_toc.yml").write_text("format: jb-book\nroot: book/index\n")
    (book / "references.bib").write_text("")
    # What the build added to its own path, a chapter in JupyterLab does not have.
    raises = """
import os, sys, ipykernel
transport = ipykernel.get_connection_info(unpack=True)["transport"]
raise ZeroDivisionError(transport, [path for path in sys.path if "sphinx_ext" in path], os.getpgid(0) == os.getpid())
"""
    cells = [nbformat.v4.new_markdown_cell("# One"), nbformat.v4.new_code_cell(raises)]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), book / "index.ipynb")
    built, log, _ = build_book(tmp_path, tmp_path / "out")
    assert not built
    assert re.search(rf"ZeroDivisionError\S*: \('{OwnSockets().transport}', \[\], True\)", log)


def test_no_two_kernels_meet_their_chapters_at_the_same_place(monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", "/tmp")
    one, other = OwnSockets(), OwnSockets()
    assert {one.transport, other.transport} == {"ipc" if os.name == "posix" else "tcp"}
    assert one.ip != other.ip or os.name != "posix"
    monkeypatch.setattr("tempfile.tempdir", "/tmp/" + 80 * "x")
    assert OwnSockets().transport == "tcp"
