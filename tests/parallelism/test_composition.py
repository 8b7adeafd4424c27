"""Laws that call laws: composed laws call the cores of public laws, and no law has a second copy."""

import ast
import importlib
import inspect

import pytest

from clusterlab.interconnect import collectives
from clusterlab.model import shape
from clusterlab.parallelism import memory, pipeline, training
from clusterlab.serving import replica

COMPOSED = (training, memory, pipeline, replica)


def tree(module):
    return ast.parse(inspect.getsource(module))


def cores():
    """Unchecked cores that a composed module takes from another: (module that takes it, that which has it, name)."""
    for module in COMPOSED:
        for node in ast.walk(tree(module)):
            if isinstance(node, ast.ImportFrom) and node.level:
                owner = importlib.import_module("." * node.level + node.module, module.__package__)
                for name in node.names:
                    if name.name.startswith("_") and name.name.islower():  # no class
                        yield module, owner, name.name


def calls(node) -> set[str]:
    """Names of the functions that a piece of code calls."""
    return {call.func.id for call in ast.walk(node) if isinstance(call, ast.Call) and isinstance(call.func, ast.Name)}


def unchecked(module) -> set[str]:
    """Laws whose cores a module calls, by ``law.unchecked(...)``."""
    attributes = [node for node in ast.walk(tree(module)) if isinstance(node, ast.Attribute)]
    return {ast.unparse(node.value) for node in attributes if node.attr == "unchecked"}


def function(module, name) -> ast.FunctionDef:
    return next(node for node in tree(module).body if isinstance(node, ast.FunctionDef) and node.name == name)


# What two modules share though it is no law of its own, and the public law that calls it.
HELPERS = {
    "_alternate_share": "training_flops",
    "_held": "stage_layers",
    "_short_pieces": "critical_stage",
    "_stage": "stage_layers",
    "_reached": "step",
    "_scan": "step",
}


@pytest.mark.parametrize(
    ("module", "owner", "core"),
    list(cores()),
    ids=lambda value: value if isinstance(value, str) else value.__name__.rpartition(".")[2],
)
def test_a_core_is_called_by_the_public_law_of_its_name_and_by_what_takes_it(module, owner, core):
    assert core in calls(tree(module)), "taken and not called"
    public = HELPERS.get(core, core[1:])
    law = getattr(owner, public)
    assert law.__module__ == owner.__name__
    assert inspect.getdoc(law)
    reached, todo = set(), {public}
    while todo:  # the public law calls it, itself or through its own core
        called = calls(function(owner, todo.pop()))
        private = {name for name in called if name.startswith("_") and inspect.isfunction(getattr(owner, name, None))}
        private = {name for name in private if getattr(owner, name).__module__ == owner.__name__}
        todo |= private - reached
        reached |= private
    assert core in reached
    if core not in HELPERS:
        assert core in calls(function(owner, public)), f"{public} has a second copy of its law"


def test_the_training_step_is_made_of_the_laws_that_the_book_teaches():
    taken = {(owner.__name__.rpartition(".")[2], core) for module, owner, core in cores() if module is training}
    assert taken >= {("pipeline", "_critical_stage"), ("shape", "_forward_flops")}
    laws = {"kernel_time", "multi_node_ring", "expert_all_to_all", "pipelined_time", "exposed_time"}
    assert unchecked(training) >= laws


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


def test_the_hiding_law_stands_once():
    found = set()
    for module in (*COMPOSED, collectives, shape):
        for outer in tree(module).body:
            for node in ast.walk(outer):
                if shares_contention(node) or (module in (training, collectives) and hides(node)):
                    found.add((module.__name__, getattr(outer, "name", "?")))
    assert found == {("clusterlab.interconnect.collectives", "exposed_time")}
