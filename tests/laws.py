"""What the tests of every law module share: units, and that a law called with arrays is a loop of scalar calls."""

from collections.abc import Mapping

import numpy as np
import pint
import pytest

from clusterlab.records import Explained

# One for all tests, for it reads a thousand definitions.
registry = pint.UnitRegistry()
for definition in ("FLOP = [flop]", "dollar = [money]", "CFM = cubic_foot / minute", "@alias byte = B"):
    registry.define(definition)
registry.define("octet = [memory]")  # Pint's own byte is a dimensionless count of bits


def q(unit: str, value: float = 2.0):
    """An array of quantities: the laws broadcast over it like over any other."""
    return registry.Quantity(np.array([value, 2 * value]), unit)


def assert_units(result, **parts: str):
    """Each part of a result has the dimension of its unit."""
    found = {name: registry.Quantity(getattr(result, name)).dimensionality for name in parts}
    assert found == {name: registry.Unit(unit).dimensionality for name, unit in parts.items()}


def numbers(result) -> dict:
    """Every number (and name) of a result by name: its fields, what its mappings hold, and its properties."""
    if not isinstance(result, Explained):
        return {"value": result}
    held = {name: value for name, value in vars(result).items() if not name.startswith("_")}
    for name, value in vars(type(result)).items():
        if isinstance(value, property):
            try:
                held[name] = getattr(result, name)
            except ValueError:  # refused for some of its elements: one rank alone has no bandwidth
                continue
    for mapping in [value for value in held.values() if isinstance(value, Mapping)]:
        held |= mapping
    held.pop("with_interval", None)  # a text of the others
    held.pop("fits", None)  # a step's, of its memory
    for name, record in [(name, value) for name, value in held.items() if isinstance(value, Explained)]:
        held |= {f"{name}.{part}": value for part, value in numbers(record).items()}
    return {name: value for name, value in held.items() if not isinstance(value, bool | Mapping | Explained)}


def assert_equals_a_loop(result, loop):
    """Each number of one vectorised result equals that of the scalar results, one by one."""
    each = [numbers(scalar) for scalar in loop]
    for name, array in numbers(result).items():
        column = np.array([scalar[name] for scalar in each])
        np.testing.assert_array_equal(np.broadcast_to(array, column.shape), column, err_msg=name)


def assert_fit_is_asked_for(made):
    """What is made of two arrays refuses them by name where their shapes do not fit together."""
    made(np.ones(3, int), np.ones(3, int))
    with pytest.raises(ValueError, match=r"^shapes do not fit together: .*\([23],\)"):
        made(np.ones(3, int), np.ones(2, int))
