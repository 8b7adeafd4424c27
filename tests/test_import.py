"""Import: the laws need NumPy and nothing else, and arrows between the modules point one way."""

import ast
import importlib.util
import itertools
import json
import subprocess
import sys
from pathlib import Path

import pytest

LIBRARY = Path(importlib.util.find_spec("clusterlab").origin).parent
MODULES = {
    ".".join(path.relative_to(LIBRARY).with_suffix("").parts): ast.parse(path.read_text(encoding="utf-8"))
    for path in sorted(LIBRARY.rglob("*.py"))
}
# The book's widgets, which alone may import a widget library.
DRAWS = {module for module in MODULES if module.partition(".")[0] in {"_widget", "check", "explorer"}}
COMMANDS = {"__main__", "validate"}  # what only runs, and so may call on everything
EVIDENCE = {module for module in MODULES if module.partition(".")[0] == "evidence"}
DRAWINGS = {module for module in MODULES if module.partition(".")[0] == "drawings"}
LAWS = sorted(set(MODULES) - DRAWS - COMMANDS - EVIDENCE - DRAWINGS - {"__init__"})
QUIET = [
    *LAWS,
    *sorted((EVIDENCE | DRAWINGS) - {"evidence.__init__", "drawings.__init__"}),
]  # what needs NumPy and nothing else


def run(code: str) -> dict:
    """What a fresh interpreter prints as JSON after running some code."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def test_the_laws_import_the_standard_library_and_numpy_only():
    loaded = run(
        "import sys, json, numpy; before = set(sys.modules)\n"
        f"import clusterlab, {', '.join('clusterlab.' + name for name in QUIET)}\n"
        "print(json.dumps(sorted({name.partition('.')[0] for name in set(sys.modules) - before})))"
    )
    assert "clusterlab" in loaded
    assert set(loaded) <= {"clusterlab", "numpy", *sys.stdlib_module_names}


def test_importing_a_module_of_laws_takes_no_longer_than_importing_numpy():
    """The best of several fresh interpreters. A plotting or widget library takes several times as long."""
    code = (
        "import importlib, json, time\n"
        "def timed(name):\n"
        "    start = time.perf_counter(); importlib.import_module(name); return time.perf_counter() - start\n"
        f"print(json.dumps({{name: timed(name) for name in {['numpy', *('clusterlab.' + name for name in QUIET)]}}}))"
    )
    times = [run(code) for _ in range(3)]
    least = {name: min(t[name] for t in times) for name in times[0]}
    assert max(least, key=least.get) == "numpy"


def imported(module: str) -> set[str]:
    """Every module that a module imports, at the top or inside a function; one of the library as ``.name``.

    What only runs as a command may call on modules that build on this one.
    """
    names, package = set(), ["clusterlab", *module.split(".")[:-1]]
    runs = [node for node in MODULES[module].body if not (isinstance(node, ast.If) and "__main__" in ast.unparse(node))]
    for node in itertools.chain.from_iterable(map(ast.walk, runs)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            source = ".".join([*above, *filter(None, [node.module])])
            inside = [f"{source}.{alias.name}" for alias in node.names]
            known = [name for name in inside if name.removeprefix("clusterlab.") in MODULES]
            names |= set(known or [source])
    return {name.replace("clusterlab.", ".", 1) for name in names}


@pytest.mark.parametrize("module", MODULES)
def test_a_module_of_the_library_imports_no_plot_and_no_chapter(module):
    roots = {name.partition(".")[0] for name in imported(module) if name[0] != "."}
    widgets = {"anywidget", "traitlets"} if module in DRAWS else set()
    # PyTorch is looked for, inside a function, where the reader's own GPU is measured.
    # The command asks for Dask, inside a function, where a sweep shall run on many machines.
    optional = {"evidence.benchmark": {"torch"}, "__main__": {"distributed"}}.get(module, set())
    assert roots <= {"__future__", "numpy", *sys.stdlib_module_names, *widgets, *optional}


@pytest.mark.parametrize("module", QUIET)
def test_no_law_and_no_evidence_imports_the_explorer(module):
    assert not imported(module) & {f".{name.removesuffix('.__init__')}" for name in DRAWS}


@pytest.mark.parametrize("module", [*LAWS, *sorted(DRAWS)])
def test_no_law_imports_evidence_or_a_drawing(module):
    """Evidence and drawings look at the laws, and none of them looks back."""
    assert not {name for name in imported(module) if name.startswith((".evidence", ".drawings"))}


def test_imports_within_the_library_form_no_cycle():
    within = {m: {name[1:] for name in imported(m) if name[0] == "."} for m in MODULES}
    assert set().union(*within.values()) <= set(MODULES)
    while within:
        free = [module for module, needs in within.items() if not needs & set(within)]
        assert free, f"these modules import one another: {', '.join(within)}"
        for module in free:
            del within[module]


def test_units_import_nothing_of_the_library_and_hardware_only_units():
    """Vocabulary, laws, decisions: arrows point one way."""
    assert {name for name in imported("units") if name[0] == "."} == set()
    assert {name for name in imported("hardware") if name[0] == "."} == {".units"}
