"""The house: modules that one reads at a sitting, everything annotated, and no function that takes too much."""

import ast

import pytest

from test_import import BOOK, KIT, KIT_MODULES, LIBRARY, MODULES, code_lines, is_package

DRAWINGS = BOOK / "drawings"

LINES = 450  # of code, in a module
ARGUMENTS = 9  # of a public function


def path(package, module):
    place = package.joinpath(*filter(None, module.split(".")))
    return place / "__init__.py" if is_package(package, module) else place.with_suffix(".py")


def functions(tree):
    """Every function and method, with whether it stands in a class."""
    for node in ast.walk(tree):
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef):
                yield child, isinstance(node, ast.ClassDef)


def parameters(function, method) -> list[ast.arg]:
    spec = function.args
    static = any(ast.unparse(one) == "staticmethod" for one in function.decorator_list)
    named = [*spec.posonlyargs, *spec.args][1 if method and not static else 0 :]
    return [*named, *spec.kwonlyargs, *filter(None, [spec.vararg, spec.kwarg])]


EVERY = [(LIBRARY, module, tree) for module, tree in MODULES.items()]
EVERY += [(KIT, module, tree) for module, tree in KIT_MODULES.items()]
every_module = pytest.mark.parametrize(
    ("package", "module", "tree"), EVERY, ids=[".".join(filter(None, [p.name, module])) for p, module, _ in EVERY]
)


@every_module
def test_a_module_can_be_read_at_a_sitting(package, module, tree):
    assert code_lines(path(package, module).read_text(encoding="utf-8")) <= LINES


@every_module
def test_every_parameter_and_every_result_is_annotated(package, module, tree):
    bare = [
        f"{function.name}({argument.arg})"
        for function, method in functions(tree)
        for argument in parameters(function, method)
        if argument.annotation is None
    ]
    bare += [f"{function.name} ->" for function, _ in functions(tree) if function.returns is None]
    assert bare == []


@every_module
def test_no_public_function_takes_too_much(package, module, tree):
    counts = {f.name: len(parameters(f, method)) for f, method in functions(tree) if f.name[0] != "_"}
    assert {name: count for name, count in counts.items() if count > ARGUMENTS} == {}


@pytest.mark.parametrize("path", sorted(DRAWINGS.rglob("*.py")), ids=lambda path: str(path.relative_to(DRAWINGS)))
def test_a_module_of_drawings_can_be_read_at_a_sitting(path):
    assert code_lines(path.read_text(encoding="utf-8")) <= LINES


def test_only_numbers_and_rows_of_data_files_are_of_any_type():
    """``checks`` calls what a law computes with Numeric; a table of a data file has records of its own kind."""
    modules = {**MODULES, **KIT_MODULES}.items()
    loose = {
        name for name, tree in modules for node in ast.walk(tree) if isinstance(node, ast.Name) and node.id == "Any"
    }
    assert loose == {"checks", "catalogue.sources", "model.published"}
