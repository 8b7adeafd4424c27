"""Shapes: a law given arrays that do not broadcast together refuses them when it is called, and names them.

Without that a record is made of parts of different shapes, and fails only when it is added up or printed.
"""

import importlib
import inspect
import itertools
import re

import numpy as np
import pytest

from clusterlab.model import Transformer, parameters
from clusterlab.roofline import Work, lower_bound
from clusterlab.scaling import bill, chain, kept_per_doubling, strong_scaling

# A module of laws is one line here. Every argument that its docstrings call an array is tried with every other.
MODULES = ["model.shape", "roofline", "interconnect.topology", "scaling.speedup", "scaling.economics"]
MODULES = ["model.counts", "roofline", "operations.monitoring", "operations.stragglers"]

SHAPE = {"layers": 4, "hidden": 64, "heads": 4, "ffn": 128, "vocab": 100}
# Arguments for which an array of ones would be nonsense.
ARRAYS = {
    "n": lambda n: np.full(n, 8),
    "recompute": lambda n: np.full(n, "full"),
    "model": lambda n: Transformer(**SHAPE | {"vocab": np.full(n, 100)}),
}


def array(name: str, n: int):
    """A sound argument of that name with the shape (n,)."""
    return ARRAYS.get(name, np.ones)(n)


def laws() -> dict:
    """Every public function of the modules, and its arguments that may be arrays or records of arrays."""
    found = {}
    for module in map(importlib.import_module, (f"clusterlab.{name}" for name in MODULES)):
        for name, law in inspect.getmembers(module, inspect.isfunction):
            if law.__module__ == module.__name__ and name[0] != "_":
                section = re.search(r"Parameters\n\s*-+\n(.*?)(\n\n|\Z)", inspect.getdoc(law), re.DOTALL)
                found[law] = [
                    argument
                    for arguments, kind in re.findall(r"^(\w.*?) : (.*)$", section[1] if section else "", re.MULTILINE)
                    for argument in arguments.split(", ")
                    if "array" in kind or argument in ARRAYS
                ]
    return found


LAWS = laws()


@pytest.mark.parametrize(
    ("law", "pair"),
    [(law, pair) for law, arguments in LAWS.items() for pair in itertools.combinations(arguments, 2)],
    ids=lambda part: part.__name__ if callable(part) else "-".join(part),
)
def test_a_law_refuses_shapes_that_do_not_fit_when_it_is_called(law, pair):
    needed = [
        name
        for name, parameter in inspect.signature(law).parameters.items()
        if parameter.default is parameter.empty and parameter.kind is not parameter.VAR_KEYWORD
    ]
    for sizes in ((3, 2), (2, 3)):
        sound = {name: array(name, 1) for name in needed} | {name: array(name, 3) for name in pair}
        law(**sound)  # it is the shapes alone that are wrong below
        with pytest.raises(ValueError, match=r"^shapes do not fit together: .*\([23],\)"):
            law(**sound | {name: array(name, n) for name, n in zip(pair, sizes, strict=True)})


def test_every_argument_of_a_law_is_read_from_its_docstring():
    """A law whose docstring calls nothing an array would go untested: these take one record, none, or pairs."""
    few = {law.__name__ for law, arguments in LAWS.items() if len(arguments) < 2}
    assert few == {"lower_bound", "find_bad", "parameters", "alternate_share"}


def test_a_record_of_lists_is_a_record_of_arrays():
    assert Work([8, 6], (4, 2)).intensity.tolist() == [2, 3]
    listed = Transformer(**SHAPE | {"layers": [2, 4], "hidden": (64, 128)})
    assert parameters(listed).total.tolist() == [
        parameters(Transformer(**SHAPE | {"layers": n, "hidden": h})).total for n, h in ((2, 64), (4, 128))
    ]


@pytest.mark.parametrize(
    "record",
    [
        lambda a, b: Work(a, b),
        lambda a, b: bill(gpus=(a, b)),
        lambda a, b: bill(gpus=a, network=b),
        lambda a, b: chain(a, MFU=b),
        lambda a, b: strong_scaling(a, bubble=b / 10),
        lambda a, b: kept_per_doubling((a, 0.5), (2, b)),
        lambda a, b: lower_bound(compute=(a, b)),
        lambda a, b: lower_bound(compute=(a, 1), memory=(b, 1)),
        lambda a, b: lower_bound(compute=(a, 1), memory=(1, b)),
        lambda a, b: Transformer(**SHAPE | {"layers": a, "vocab": b}),
        lambda a, b: Transformer(**SHAPE, experts=a, experts_per_token=1, expert_ffn=b),
        lambda a, b: Transformer(**SHAPE | {"ffn": a}, positions=b),
    ],
)
def test_a_record_refuses_shapes_that_do_not_fit_when_it_is_made(record):
    record(np.ones(3, int), np.ones(3, int))
    with pytest.raises(ValueError, match=r"^shapes do not fit together: .*\([23],\)"):
        record(np.ones(3, int), np.ones(2, int))
