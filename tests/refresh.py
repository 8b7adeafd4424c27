"""Execute the book's notebooks and store what belongs in the repository: text outputs, in order, without timing.

Images, widget views and HTML are made again by every build; what nbval compares is text. ``python tests/refresh.py``
refreshes every chapter, ``python tests/refresh.py book/roofline.ipynb`` one.
"""

from __future__ import annotations

import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient

BOOK = Path(__file__).parents[1] / "book"
# What a page folds or leaves out is folded in JupyterLab too.
FOLDED = {
    "hide-input": ("source_hidden",),
    "remove-input": ("source_hidden",),
    "hide-output": ("outputs_hidden",),
    "remove-output": ("outputs_hidden",),
    "hide-cell": ("source_hidden", "outputs_hidden"),
    "remove-cell": ("source_hidden", "outputs_hidden"),
}
LAB = "lab"  # the tag of a cell that a page leaves out because it needs a kernel, and JupyterLab shows
SOLUTION = {"code_prompt_show": "Show the solution", "code_prompt_hide": "Hide the solution"}


def summary(source: str) -> str:
    """Return what a cell whose code is folded computes: its first line, a comment, which JupyterLab shows of it too."""
    first = source.partition("\n")[0]
    if not first.startswith("# "):
        raise ValueError(f"folded code begins with a comment that says what it computes, not {first!r}")
    return first.removeprefix("# ")


def clean(notebook):
    """Strip, in place, what a committed notebook must not hold, fold what its page folds, and name it; return it."""
    notebook.metadata.pop("widgets", None)
    notebook.metadata.language_info = {"name": "python"}
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
        cell.metadata.pop("jupyter", None)
        if cell.cell_type == "code":
            tags = cell.metadata.get("tags", ())
            if folded := {} if LAB in tags else {key: True for tag in tags for key in FOLDED.get(tag, ())}:
                cell.metadata["jupyter"] = folded
            if "hide-input" in tags:
                line = dict.fromkeys(SOLUTION, f"Code: {summary(cell.source)}")
                cell.metadata["mystnb"] = cell.metadata.get("mystnb", {}) | line
            elif "hide-cell" in tags:
                cell.metadata["mystnb"] = SOLUTION | cell.metadata.get("mystnb", {})
            if "nbval-ignore-output" in cell.metadata.get("tags", ()):
                cell.outputs = []  # it measures the machine that ran it
            for output in cell.outputs:
                if "data" in output:
                    output.data = {kind: data for kind, data in output.data.items() if kind == "text/plain"}
                    output.metadata = {}
    return notebook


def main(paths: list[str]) -> None:
    sys.path.append(str(BOOK.parent / "sphinx_ext"))
    from kernels import OwnSockets

    for path in [Path(p) for p in paths] or sorted(BOOK.glob("*.ipynb")):
        notebook = nbformat.read(path, as_version=4)
        how = {"record_timing": False, "store_widget_state": False, "coalesce_streams": True}
        client = NotebookClient(notebook, timeout=300, kernel_manager_class=OwnSockets, **how)
        client.execute(cwd=str(path.parent))
        nbformat.write(clean(notebook), path)
        print(f"refreshed {path}")


if __name__ == "__main__":
    main(sys.argv[1:])
