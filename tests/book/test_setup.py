"""What is installed where: one lock for all that a reader does, its parts, and Binder's few lines of it."""

import ast
import importlib.metadata
import re
import sys
import tomllib

import nbformat
import pytest
from tools import release

import clusterlab
from building import ROOT


def pins(name: str) -> dict[str, set[str]]:
    """Return the versions that a lock allows (more than one where they hang on the Python), by package."""
    found: dict[str, set[str]] = {}
    for line in (ROOT / name).read_text().splitlines():
        if line and line[0] not in "# -":
            package, version = re.match(r"([a-z0-9._-]+)==([^ ;]+)", line).groups()
            found.setdefault(package, set()).add(version)
    return found


@pytest.mark.parametrize("name", ["requirements-book.txt", "binder/requirements.txt"])
def test_every_lock_is_a_part_of_the_widest(name):
    widest = pins("requirements.txt")
    assert pins(name)
    assert {package: versions for package, versions in pins(name).items() if widest.get(package) != versions} == {}


@pytest.mark.parametrize(
    ("name", "extras"),
    [
        ("requirements.txt", ["book", "lab", "test"]),
        ("requirements-book.txt", ["book"]),
        ("requirements-course.txt", ["book", "course"]),
    ],
)
def test_a_lock_holds_all_that_the_package_asks_for(name, extras):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = sum((project["optional-dependencies"][extra] for extra in extras), project["dependencies"])
    assert {re.match(r"[\w-]+", each)[0] for each in wanted} <= set(pins(name))


def test_a_teacher_s_lock_has_the_widest_one_s_versions_of_all_that_both_hold():
    widest, course = pins("requirements.txt"), pins("requirements-course.txt")
    assert "nbgrader" not in widest, "a reader and a test need none"
    assert {package: course[package] for package in course.keys() & widest if course[package] != widest[package]} == {}


def test_one_lock_is_enough_to_open_the_chapters_to_compare_them_and_to_import_the_library():
    assert {"jupyterlab", "jupyterlab-myst", "nbval", "pytest", "jupyter-book"} <= set(pins("requirements.txt"))
    assert (ROOT / "requirements.txt").read_text().splitlines()[-1] == "-e ."


def test_the_book_is_built_without_jupyterlab_and_without_a_browser():
    assert not set(pins("requirements-book.txt")) & {"jupyterlab", "playwright", "pytest", "mypy"}


def test_binder_gets_what_the_chapters_and_the_library_import_and_keeps_its_own_jupyterlab():
    ours = pins("binder/requirements.txt")
    notebooks = [nbformat.read(path, as_version=4) for path in (ROOT / "book").glob("*.ipynb")]
    cells = [cell.source for notebook in notebooks for cell in notebook.cells if cell.cell_type == "code"]
    nodes = [node for cell in cells for node in ast.walk(ast.parse(re.sub("(?m)^%.*", "", cell)))]
    modules = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    modules |= {node.module for node in nodes if isinstance(node, ast.ImportFrom)}
    imported = {module.partition(".")[0] for module in modules} - set(sys.stdlib_module_names)
    # The image brings these itself, in versions that fit one another.
    image = {"jupyterlab", "jupyter-server", "notebook", "ipykernel", "ipywidgets"}
    assert not set(ours) & image
    assert imported - {"clusterlab", "drawings", "explorable"} - image | {"anywidget", "jupyterlab-myst"} <= set(ours)


def test_the_version_is_said_once():
    assert clusterlab.__version__ == importlib.metadata.version("clusterlab")


@pytest.mark.slow
def test_the_wheel_holds_the_packages_with_their_data_and_types_and_needs_numpy_alone(tmp_path):
    assert release.missing(release.wheel(tmp_path)) == []


def test_the_files_that_state_the_version_agree_and_codemeta_is_made_of_the_citation():
    assert release.disagreements() == []
    assert "Unreleased" in release.entries()
