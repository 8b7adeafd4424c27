"""Dimensions: every public law is called with Pint quantities and must return what its formula says.

A FLOP and a byte are dimensions of their own here, so a FLOP count where bytes belong is an error, and so is a
forgotten factor with a unit. Counts (rows, heads, tokens, parameters) are dimensionless, and a FLOP count that a law
derives from counts alone is one too.
"""

import importlib
import inspect
import pkgutil

import numpy as np
import pint
import pytest

import clusterlab
from clusterlab.roofline import (
    Work,
    attainable,
    attention,
    decode,
    elementwise,
    experts_touched,
    iron_law,
    lower_bound,
    matmul,
    ridge_point,
)

registry = pint.UnitRegistry()
registry.define("FLOP = [flop]")
registry.define("octet = [memory]")  # Pint's own byte is a dimensionless count of bits


def q(unit, value=2.0):
    """An array of quantities: the laws broadcast over it like over any other."""
    return registry.Quantity(np.array([value, 2 * value]), unit)


PEAK, BANDWIDTH = q("FLOP/s"), q("octet/s")

# Law: (result, {part of the result: unit}). "" is dimensionless. The empty part is the result itself.
DIMENSIONS = {
    matmul: (
        lambda: matmul(q("", 8), q("", 8), q("", 8), bytes_per_element=q("octet"), output_bytes_per_element=q("octet")),
        {"flops": "", "bytes": "octet"},
    ),
    elementwise: (
        lambda: elementwise(q(""), flops_per_element=q("FLOP"), bytes_per_element=q("octet")),
        {"flops": "FLOP", "bytes": "octet", "intensity": "FLOP/octet"},
    ),
    attention: (
        lambda: attention(
            q("", 1), q("", 8), heads=q("", 4), head_dim=q(""), bytes_per_element=q("octet"), fused=False
        ),
        {"flops": "", "bytes": "octet"},
    ),
    decode: (
        lambda: decode(q(""), parameters=q("", 8), active_parameters=q(""), bytes_per_parameter=q("octet")),
        {"flops": "", "bytes": "octet"},
    ),
    experts_touched: (
        lambda: experts_touched(q(""), experts=q("", 8), experts_per_token=q("")),
        {"": ""},
    ),
    ridge_point: (
        lambda: ridge_point(PEAK, BANDWIDTH),
        {"": "FLOP/octet"},
    ),
    attainable: (
        lambda: attainable(q("FLOP/octet"), PEAK, BANDWIDTH),
        {"": "FLOP/s"},
    ),
    lower_bound: (
        lambda: lower_bound(compute=(q("FLOP"), PEAK), memory=(q("octet"), BANDWIDTH)),
        {"time": "s", "serial": "s"},
    ),
    iron_law: (
        lambda: iron_law(
            data_volume=q("octet"), bandwidth=BANDWIDTH, operations=q("FLOP"), peak=PEAK, efficiency=0.5, latency=q("s")
        ),
        {"data": "s", "compute": "s", "latency": "s", "time": "s", "overlapped": "s"},
    ),
}
# Modules that hold no laws: what things are, what was measured, what is drawn.
NOT_LAWS = {"units", "hardware", "measure", "explorer"}


@pytest.mark.parametrize(
    ("law", "part"), [(law, part) for law, (_, dimensions) in DIMENSIONS.items() for part in dimensions]
)
def test_a_law_has_the_dimension_of_its_formula(law, part):
    call, dimensions = DIMENSIONS[law]
    result = getattr(call(), part) if part else call()
    assert registry.Quantity(result).dimensionality == registry.Unit(dimensions[part]).dimensionality


@pytest.mark.parametrize(
    "mistake",
    [
        lambda: attainable(q("FLOP/octet"), PEAK, PEAK),
        lambda: attainable(q("FLOP"), PEAK, BANDWIDTH),
        lambda: attainable(q("octet/FLOP"), PEAK, BANDWIDTH),
        lambda: lower_bound(compute=(q("FLOP"), PEAK), memory=(q("FLOP"), BANDWIDTH)).time,
        lambda: lower_bound(compute=(q("FLOP"), PEAK), memory=(q("FLOP"), BANDWIDTH)).serial,
        lambda: lower_bound(compute=(q("FLOP"), PEAK), memory=(q("FLOP"), BANDWIDTH)).binding,
        lambda: iron_law(data_volume=q("FLOP"), bandwidth=BANDWIDTH, operations=q("FLOP"), peak=PEAK).time,
        lambda: iron_law(data_volume=q("octet"), bandwidth=PEAK, operations=q("FLOP"), peak=PEAK).time,
        lambda: Work(q("FLOP"), q("octet")) + Work(q("octet"), q("octet")),
        lambda: Work(q("FLOP"), q("octet")) + Work(q("FLOP"), q("FLOP")),
        lambda: matmul(8, 8, 8, bytes_per_element=q("octet"), output_bytes_per_element=q("FLOP")),
    ],
)
def test_a_flop_count_where_bytes_belong_does_not_add_up(mistake):
    with pytest.raises(pint.DimensionalityError):
        mistake()


def test_a_share_with_a_dimension_is_refused_by_name():
    with pytest.raises(ValueError, match=r"^efficiency must be"):
        iron_law(data_volume=1, bandwidth=1, operations=1, peak=1, efficiency=q("s", 0.1))


def test_every_public_law_is_in_the_table():
    laws = set()
    for found in pkgutil.iter_modules(clusterlab.__path__):
        if found.name not in NOT_LAWS:
            module = importlib.import_module(f"clusterlab.{found.name}")
            functions = inspect.getmembers(module, inspect.isfunction)
            laws |= {f for name, f in functions if f.__module__ == module.__name__ and name[0] != "_"}
    assert laws == set(DIMENSIONS)
