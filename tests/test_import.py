"""Imports: rooms build on one another in one order, and the library needs NumPy and nothing else."""

import ast
import importlib.util
import itertools
import json
import subprocess
import sys
from pathlib import Path

import pytest

import clusterlab

LIBRARY = Path(importlib.util.find_spec("clusterlab").origin).parent
KIT = LIBRARY.with_name("explorable")
BOOK = Path(__file__).parents[1] / "book"

# The order in which the book teaches them: a room takes from those before it, and from no other.
ROOMS = ("units", "checks", "quantities", "records", "catalogue", "model", "own", "roofline", "interconnect")
ROOMS += ("contention", "parallelism", "serving", "post_training", "failures", "operations", "power", "scaling")
ROOMS += ("planning", "evidence", "cli", "__main__")
CORE = {
    "units",
    "checks",
    "records",
    "catalogue",
    "model",
    "roofline",
    "interconnect",
    "parallelism",
    "failures",
    "power",
}
CORE_LINES = 5500  # of what teaches: ``checks``, ``quantities`` and ``records`` are tools of every room
TOOLS = {"checks", "records"}
# Of five subjects: the wires have three pages, power two, parallelism five.
CHAPTERS_OF_THE_CORE = ("roofline", "interconnect", "ports", "fabrics", "parallelism", "pipeline", "layouts", "mix")
CHAPTERS_OF_THE_CORE += ("step", "failures", "power", "hall")


def modules(package: Path) -> dict[str, ast.Module]:
    """Each module of a package by its dotted name below it; a package's own module by the package's name."""
    found = {}
    for path in sorted(package.rglob("*.py")):
        parts = path.relative_to(package).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found[name] = ast.parse(path.read_text(encoding="utf-8"))
    return found


MODULES = modules(LIBRARY)
KIT_MODULES = modules(KIT)


def is_package(package: Path, module: str) -> bool:
    return (package / Path(*filter(None, module.split("."))) / "__init__.py").exists()


def imported(package: Path, module: str, tree: ast.Module) -> set[tuple[str, str]]:
    """(module, name) of everything that a module imports from, at the top or inside a function, by absolute names."""
    own = [package.name, *filter(None, module.split("."))]
    own = own if is_package(package, module) else own[:-1]
    found = set()
    typed = [node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"]
    skipped = {id(each) for node in typed for each in ast.walk(node)}  # for types alone: nothing is loaded
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.Import):
            found |= {(alias.name, "") for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            above = own[: len(own) - node.level + 1] if node.level else []
            source = ".".join([*above, *filter(None, [node.module])])
            found |= {(source, alias.name) for alias in node.names}
    return found


def room_of(source: str, name: str) -> str:
    """The room that an import reaches into, ``""`` for what the package itself holds."""
    parts = source.split(".")
    return parts[1] if len(parts) > 1 else name if name in ROOMS else ""


def within(module: str) -> set[tuple[str, str, str]]:
    """(room, module, name) of what a module imports of the library."""
    taken = imported(LIBRARY, module, MODULES[module])
    return {(room_of(s, name), s, name) for s, name in taken if s.split(".")[0] == "clusterlab"}


def test_every_module_stands_in_a_room_of_the_order():
    assert {module.partition(".")[0] for module in MODULES} - {""} == set(ROOMS)


@pytest.mark.parametrize("module", [module for module in MODULES if module])
def test_arrows_between_rooms_point_one_way(module):
    """No exemptions: a room takes from those before it in the order, and never from the package as a whole."""
    at = ROOMS.index(own := module.partition(".")[0])
    back = {(room, name) for room, _, name in within(module) if room != own and (not room or ROOMS.index(room) > at)}
    assert back <= {("", "__version__")}


def test_imports_within_a_room_form_no_circle():
    """With the order of the rooms, none in the library does."""
    for room in ROOMS:
        own = {module for module in MODULES if module.partition(".")[0] == room and module != room}
        needs = {m: set() for m in own}
        for module in own:
            for _, source, name in within(module):
                path = source.removeprefix("clusterlab.")
                needs[module] |= {path, f"{path}.{name}"} & own
        while needs:
            free = [module for module, after in needs.items() if not after & set(needs)]
            assert free, f"these modules import one another: {', '.join(needs)}"
            for module in free:
                del needs[module]


@pytest.mark.parametrize("module", [module for module in MODULES if module])
def test_what_is_private_to_a_room_is_imported_by_nobody_else(module):
    own = module.partition(".")[0]
    others = {(source, name) for room, source, name in within(module) if room != own}
    assert {f"{source}.{name}" for source, name in others if name.startswith("_") and name != "__version__"} == set()


@pytest.mark.parametrize("module", MODULES)
def test_nothing_is_loaded_by_string(module):
    calls = [ast.unparse(node.func) for node in ast.walk(MODULES[module]) if isinstance(node, ast.Call)]
    assert not [call for call in calls if call.rpartition(".")[2] in ("import_module", "__import__", "run_module")]


@pytest.mark.parametrize("module", MODULES)
def test_the_library_imports_numpy_and_the_standard_library_only(module):
    roots = {source.partition(".")[0] for source, _ in imported(LIBRARY, module, MODULES[module])}
    # PyTorch is looked for, inside a function, where the reader's own GPU is measured; pandas for a frame of a record.
    # The command asks for Dask, inside a function, where a sweep shall run on many machines.
    optional = {"evidence.benchmark": {"torch"}, "records": {"pandas"}}.get(
        module, {"distributed"} if module.startswith("cli") else set()
    )
    assert roots <= {"__future__", "clusterlab", "numpy", *sys.stdlib_module_names, *optional}


@pytest.mark.parametrize("module", KIT_MODULES)
def test_the_widget_kit_knows_of_the_library_its_units_alone(module):
    taken = imported(KIT, module, KIT_MODULES[module])
    roots = {source.partition(".")[0] for source, _ in taken}
    assert roots <= {
        "__future__",
        "explorable",
        "anywidget",
        "traitlets",
        "numpy",
        "clusterlab",
        *sys.stdlib_module_names,
    }
    assert {source for source, _ in taken if source.startswith("clusterlab")} <= {"clusterlab.units"}


def test_what_a_room_lists_is_there_once_and_no_module_has_the_name_of_a_law():
    for room in ROOMS:
        listed = getattr(package := getattr(clusterlab, room, None), "__all__", ())
        assert len(set(listed)) == len(listed), room
        assert all(hasattr(package, name) for name in listed), room
        assert not {module.partition(".")[2] for module in MODULES if module.partition(".")[0] == room} & set(listed)


def test_the_package_lists_what_it_takes_and_no_room_is_hidden_by_a_name():
    taken = {name for room, _, name in within("") if room != "quantities"} - {"", "__version__", *ROOMS}
    assert set(clusterlab.__all__) == taken
    assert 35 <= len(taken) <= 60
    assert not taken & set(ROOMS)


def code_lines(text: str) -> int:
    """Lines that are neither empty, nor a comment, nor of a docstring."""
    tree = ast.parse(text)
    prose = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node, clean=False):
            prose |= set(range(node.body[0].lineno, node.body[0].end_lineno + 1))
    lines = enumerate(text.splitlines(), 1)
    return sum(1 for at, line in lines if at not in prose and line.strip() and not line.strip().startswith("#"))


def test_the_core_is_small():
    taught = CORE - TOOLS
    paths = [path for path in LIBRARY.rglob("*.py") if path.relative_to(LIBRARY).with_suffix("").parts[0] in taught]
    assert sum(code_lines(path.read_text(encoding="utf-8")) for path in paths) <= CORE_LINES


@pytest.mark.parametrize("chapter", CHAPTERS_OF_THE_CORE)
def test_a_chapter_of_the_core_takes_no_law_from_outside_it(chapter):
    cells = json.loads((BOOK / f"{chapter}.ipynb").read_text(encoding="utf-8"))["cells"]
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    trees = [ast.parse("\n".join(line for line in text.splitlines() if line[:1] not in "%!")) for text in code if text]
    rooms = set()
    for node in itertools.chain.from_iterable(map(ast.walk, trees)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "clusterlab":
            rooms |= {room_of(node.module, alias.name) for alias in node.names}
    # What was measured is no law: a chapter holds its laws against it.
    assert rooms <= CORE | {"evidence"}


def run(code: str) -> dict:
    """What a fresh interpreter prints as JSON after running some code."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def test_importing_everything_loads_numpy_and_the_standard_library_only():
    every = ", ".join(f"clusterlab.{module}" for module in MODULES if module and module != "__main__")
    loaded = run(
        f"import sys, json, numpy; before = set(sys.modules)\nimport clusterlab, {every}\n"
        "print(json.dumps(sorted({name.partition('.')[0] for name in set(sys.modules) - before})))"
    )
    assert "clusterlab" in loaded
    assert set(loaded) - set(sys.stdlib_module_names) <= {"clusterlab", "numpy", "__future__", "__mp_main__"}


def test_the_library_alone_loads_no_evidence_and_no_command():
    """Published tables and the parser of a command cost time that a law does not ask for."""
    loaded = run("import sys, json, clusterlab; print(json.dumps(list(sys.modules)))")
    assert not {name for name in loaded if name.startswith(("clusterlab.evidence", "clusterlab.cli", "explorable"))}
