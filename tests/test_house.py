"""The house: modules that one reads at a sitting, everything annotated, and no function that takes too much."""

import ast

import pytest

from test_import import KIT, KIT_MODULES, LIBRARY, MODULES, code_lines, is_package

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


@pytest.mark.parametrize("module", MODULES)
def test_a_module_can_be_read_at_a_sitting(module):
    assert code_lines(path(LIBRARY, module).read_text(encoding="utf-8")) <= LINES


@pytest.mark.parametrize("module", MODULES)
def test_every_parameter_and_every_result_is_annotated(module):
    bare = [
        f"{function.name}({argument.arg})"
        for function, method in functions(MODULES[module])
        for argument in parameters(function, method)
        if argument.annotation is None
    ]
    bare += [f"{function.name} ->" for function, _ in functions(MODULES[module]) if function.returns is None]
    assert bare == []


@pytest.mark.parametrize("module", KIT_MODULES)
def test_a_module_of_the_widget_kit_can_be_read_at_a_sitting(module):
    assert code_lines(path(KIT, module).read_text(encoding="utf-8")) <= LINES


@pytest.mark.parametrize("module", MODULES)
def test_no_public_function_takes_too_much(module):
    counts = {f.name: len(parameters(f, method)) for f, method in functions(MODULES[module]) if f.name[0] != "_"}
    assert {name: count for name, count in counts.items() if count > ARGUMENTS} == {}
