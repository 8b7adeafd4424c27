"""Laws that call laws: composed laws call the cores of public laws, and no law has a second copy."""

import ast
import importlib
import inspect
import pkgutil

import pytest

import clusterlab
from clusterlab import parallelism, serving
from clusterlab.interconnect import collectives
from clusterlab.model import shape


def modules(room) -> list:
    """The modules of a room."""
    return [importlib.import_module(f"{room.__name__}.{one.name}") for one in pkgutil.iter_modules(room.__path__)]


COMPOSED = (*modules(parallelism), *modules(serving))


def tree(module):
    return ast.parse(inspect.getsource(module))


def calls(node) -> set[str]:
    """Names of the functions that a piece of code calls."""
    return {call.func.id for call in ast.walk(node) if isinstance(call, ast.Call) and isinstance(call.func, ast.Name)}


def unchecked(module) -> set[str]:
    """Laws whose cores a module calls, by ``law.unchecked(...)``."""
    attributes = [node for node in ast.walk(tree(module)) if isinstance(node, ast.Attribute)]
    return {ast.unparse(node.value) for node in attributes if node.attr == "unchecked"}


CORES = [(module, name) for module in COMPOSED for name in sorted(unchecked(module))]


@pytest.mark.parametrize(
    ("module", "name"), CORES, ids=lambda part: part if isinstance(part, str) else part.__name__.rpartition(".")[2]
)
def test_a_core_is_that_of_a_public_law(module, name):
    law = getattr(module, name)
    _, room, *_ = law.__module__.split(".")
    public = getattr(importlib.import_module(f"clusterlab.{room}"), name)  # behind the guard that takes names
    assert law in (public, inspect.unwrap(public, stop=lambda one: one is law))
    assert law.quantities
    assert inspect.getdoc(law)


def test_no_private_function_repeats_the_name_of_a_law():
    """A private twin would be a second copy: a law's core is the law's own. Evidence reads rows, and no law sees it."""
    laws, private = set(), set()
    for one in pkgutil.walk_packages(clusterlab.__path__, "clusterlab."):
        if not one.name.endswith("__main__") and ".evidence" not in one.name:
            for name, value in vars(importlib.import_module(one.name)).items():
                if inspect.isfunction(value) and value.__module__ == one.name:
                    (private if name[0] == "_" else laws if hasattr(value, "quantities") else set()).add(name)
    assert laws & {name.lstrip("_") for name in private} == set()


def test_the_training_step_is_made_of_the_laws_that_the_book_teaches():
    laws = {"kernel_time", "multi_node_ring", "expert_all_to_all", "pipelined_time", "exposed_time"}
    laws |= {"critical_stage", "dualpipe_bubble", "forward_flops"}
    assert set().union(*map(unchecked, modules(parallelism))) >= laws


def test_the_pass_of_a_replica_is_made_of_the_laws_that_the_book_teaches():
    laws = {"kernel_time", "exposed_time", "critical_stage", "fullest_rank", "forward_flops"}
    assert set().union(*map(unchecked, modules(serving))) >= laws


def hides(node) -> bool:
    """Whether an expression has the form of the hiding law: ``a - b * min(c, d)``, in any order of the product."""
    if not (isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub)):
        return False
    return bool(calls(node.right) & {"smaller", "min", "minimum"}) or any(
        isinstance(part, ast.Attribute) and part.attr == "minimum" for part in ast.walk(node.right)
    )


def shares_contention(node) -> bool:
    """Whether an expression is one less a contention: ``1 - kappa``."""
    if not (isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub) and isinstance(node.left, ast.Constant)):
        return False
    names = {part.id for part in ast.walk(node.right) if isinstance(part, ast.Name)}
    names |= {part.attr for part in ast.walk(node.right) if isinstance(part, ast.Attribute)}
    return any("contention" in name or "kappa" in name for name in names)


OF_THE_STEP = {f"clusterlab.parallelism.{name}" for name in ("training", "work", "exchange", "rates")}


def test_the_hiding_law_stands_once():
    found = set()
    for module in (*COMPOSED, collectives, shape):
        in_step = module.__name__ in OF_THE_STEP or module is collectives
        for outer in tree(module).body:
            for node in ast.walk(outer):
                if shares_contention(node) or (in_step and hides(node)):
                    found.add((module.__name__, getattr(outer, "name", "?")))
    assert found == {("clusterlab.interconnect.collectives", "exposed_time")}
