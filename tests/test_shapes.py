"""Shapes: records of arrays, and a law of such a record, refuse what does not broadcast when they are called, by name.

Without that a record is made of parts of different shapes, and fails only when it is added up or printed. What a law's
signature says of its arguments is tried in ``test_laws.py``.
"""

import inspect
import itertools

import numpy as np
import pytest

from clusterlab import model
from clusterlab.model import Transformer, parameters
from clusterlab.roofline import Work, lower_bound
from clusterlab.scaling import bill, chain, kept_per_doubling, strong_scaling

SHAPE = {"layers": 4, "hidden": 64, "heads": 4, "ffn": 128, "vocab": 100}
ARRAYS = {
    "recompute": lambda n: np.full(n, "full"),
    "model": lambda n: Transformer(**SHAPE | {"vocab": np.full(n, 100)}),
}


def array(name: str, n: int):
    """A sound argument of that name with the shape (n,)."""
    return ARRAYS.get(name, np.ones)(n)


def laws() -> dict:
    """Every law of a model, and its arguments that may be arrays or records of arrays."""
    found = {}
    for law in (getattr(model, name) for name in model.__all__):
        if hasattr(law, "quantities"):
            names = inspect.signature(law).parameters
            found[law] = [name for name in names if name in ARRAYS or name in law.quantities]
    return found


LAWS = laws()


@pytest.mark.parametrize(
    ("law", "pair"),
    [(law, pair) for law, arguments in LAWS.items() for pair in itertools.combinations(arguments, 2)],
    ids=lambda part: part.__name__ if callable(part) else "-".join(part),
)
def test_a_law_refuses_shapes_that_do_not_fit_when_it_is_called(law, pair):
    parameters_ = inspect.signature(law).parameters
    needed = [name for name, parameter in parameters_.items() if parameter.default is parameter.empty]
    for sizes in ((3, 2), (2, 3)):
        sound = {name: array(name, 1) for name in needed} | {name: array(name, 3) for name in pair}
        law(**sound)  # it is the shapes alone that are wrong below
        with pytest.raises(ValueError, match=r"^shapes do not fit together: .*\([23],\)"):
            law(**sound | {name: array(name, n) for name, n in zip(pair, sizes, strict=True)})


def test_every_law_of_a_model_takes_arrays():
    assert {law.__name__ for law, arguments in LAWS.items() if len(arguments) < 2} == {"parameters"}


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
