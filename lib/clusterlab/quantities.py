"""Quantities: what the arguments of a law are, said once, in its signature.

A law is a function whose arguments are annotated with quantities: a unit, and which numbers are allowed. From that
:func:`law` makes the check of every call, the section Raises of the docstring, and the unchecked core for laws that are
made of it; the tests read it too, and try every law's dimensions, shapes and refusals.

>>> @law
... def transfer(size: Bytes, *, bandwidth: BytesPerSecond, latency: Seconds = 0) -> Seconds:
...     return latency + size / bandwidth
>>> transfer(1e9, bandwidth=50e9), transfer([0, 1e9], bandwidth=50e9).tolist()
(0.02, [0.0, 0.02])
>>> transfer(1e9, bandwidth=0)
Traceback (most recent call last):
...
ValueError: bandwidth must be positive and finite, got 0

What any call may pass is a number or anything that NumPy makes an array of: arguments broadcast together.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import wraps
from typing import Annotated, ParamSpec, Protocol, TypeVar

from .checks import (
    AT_LEAST_ONE,
    BELOW_ONE,
    CELSIUS,
    FRACTION,
    NONNEGATIVE,
    POSITIVE,
    POSITIVE_BELOW_ONE,
    SHARE,
    WHOLE,
    WHOLE_OR_NONE,
    Numeric,
    Rule,
    broadcastable,
    check,
)


@dataclass(frozen=True)
class Quantity:
    """A unit (``""``: a plain number), and the numbers that are allowed."""

    unit: str
    rule: Rule


# Amounts: zero or more. Rates, and what divides: above zero.
Bytes = Annotated[Numeric, Quantity("B", NONNEGATIVE)]
Flops = Annotated[Numeric, Quantity("FLOP", NONNEGATIVE)]
Seconds = Annotated[Numeric, Quantity("s", NONNEGATIVE)]
Watts = Annotated[Numeric, Quantity("W", NONNEGATIVE)]
Joules = Annotated[Numeric, Quantity("J", NONNEGATIVE)]
Dollars = Annotated[Numeric, Quantity("$", NONNEGATIVE)]
PositiveBytes = Annotated[Numeric, Quantity("B", POSITIVE)]
PositiveFlops = Annotated[Numeric, Quantity("FLOP", POSITIVE)]
PositiveSeconds = Annotated[Numeric, Quantity("s", POSITIVE)]
PositiveWatts = Annotated[Numeric, Quantity("W", POSITIVE)]
PositiveDollars = Annotated[Numeric, Quantity("$", POSITIVE)]
BytesPerSecond = Annotated[Numeric, Quantity("B/s", POSITIVE)]
FlopsPerSecond = Annotated[Numeric, Quantity("FLOP/s", POSITIVE)]
FlopsPerByte = Annotated[Numeric, Quantity("FLOP/B", NONNEGATIVE)]
PositiveFlopsPerByte = Annotated[Numeric, Quantity("FLOP/B", POSITIVE)]
PerSecond = Annotated[Numeric, Quantity("1/s", POSITIVE)]
DollarsPerSecond = Annotated[Numeric, Quantity("$/s", NONNEGATIVE)]
DollarsPerJoule = Annotated[Numeric, Quantity("$/J", NONNEGATIVE)]
PositiveDollarsPerSecond = Annotated[Numeric, Quantity("$/s", POSITIVE)]
PositiveDollarsPerWatt = Annotated[Numeric, Quantity("$/W", POSITIVE)]
PositiveDollarsPerJoule = Annotated[Numeric, Quantity("$/J", POSITIVE)]
# Seconds that a law of yearly amounts divides by a year, which is a plain number: no unit goes in or comes out.
CalendarSeconds = Annotated[Numeric, Quantity("", NONNEGATIVE)]
PositiveCalendarSeconds = Annotated[Numeric, Quantity("", POSITIVE)]

# Rates of what flows or comes, if anything does, and ways.
Traffic = Annotated[Numeric, Quantity("B/s", NONNEGATIVE)]
Arrivals = Annotated[Numeric, Quantity("1/s", NONNEGATIVE)]
Metres = Annotated[Numeric, Quantity("m", NONNEGATIVE)]
MetresPerSecond = Annotated[Numeric, Quantity("m/s", POSITIVE)]

# Heat, carbon and water.
Kelvins = Annotated[Numeric, Quantity("K", POSITIVE)]
Kilograms = Annotated[Numeric, Quantity("kg", NONNEGATIVE)]
CubicMetres = Annotated[Numeric, Quantity("m^3", NONNEGATIVE)]
CubicMetresPerSecond = Annotated[Numeric, Quantity("m^3/s", NONNEGATIVE)]
PositiveCubicMetresPerSecond = Annotated[Numeric, Quantity("m^3/s", POSITIVE)]
KilogramsPerCubicMetre = Annotated[Numeric, Quantity("kg/m^3", POSITIVE)]
JoulesPerKilogramKelvin = Annotated[Numeric, Quantity("J/kg/K", POSITIVE)]
KilogramsPerJoule = Annotated[Numeric, Quantity("kg/J", NONNEGATIVE)]
CubicMetresPerJoule = Annotated[Numeric, Quantity("m^3/J", NONNEGATIVE)]

# Plain numbers.
Number = Annotated[Numeric, Quantity("", POSITIVE)]  # above zero
Amount = Annotated[Numeric, Quantity("", NONNEGATIVE)]  # zero or more
Count = Annotated[Numeric, Quantity("", WHOLE)]  # a whole number of at least 1
WholeAmount = Annotated[Numeric, Quantity("", WHOLE_OR_NONE)]  # a whole number of at least 0
Multiple = Annotated[Numeric, Quantity("", AT_LEAST_ONE)]  # at least 1
Share = Annotated[Numeric, Quantity("", SHARE)]  # from 0 to 1
PositiveShare = Annotated[Numeric, Quantity("", FRACTION)]  # above 0, at most 1
ShareBelowOne = Annotated[Numeric, Quantity("", BELOW_ONE)]  # from 0, below 1
PositiveShareBelowOne = Annotated[Numeric, Quantity("", POSITIVE_BELOW_ONE)]  # above 0, below 1
Celsius = Annotated[Numeric, Quantity("degC", CELSIUS)]

P = ParamSpec("P")
R = TypeVar("R")


class Law(Protocol[P, R]):
    """A law as :func:`law` leaves it: checked, with its core beside it."""

    __name__: str
    unchecked: Callable[P, R]
    quantities: Mapping[str, Quantity]

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Check the arguments, and apply the law."""


def law(function: Callable[P, R]) -> Law[P, R]:
    """Make a function of quantities a law: its arguments are checked, and ``unchecked`` is the function itself.

    Each argument with a quantity comes to the function as a float or a float array (or as the Pint quantity that it
    is), and all of them broadcast together. An argument whose default is None may be None, and a quantity of
    ``**parts`` holds for each of them. What more an argument must be, the function checks itself.
    """
    parameters = inspect.signature(function).parameters
    names = tuple(name for name, one in parameters.items() if one.kind is one.POSITIONAL_OR_KEYWORD)
    asked = {name: one for name, one in quantities_of(function).items() if name in parameters}
    rest = next((asked.get(name) for name, one in parameters.items() if one.kind is one.VAR_KEYWORD), None)
    quantities = {name: asked.get(name) for name in parameters}
    optional = {name for name in asked if parameters[name].default is None}

    call: Callable[..., R] = function

    @wraps(function)
    def checked(*args: object, **given: object) -> R:
        values = dict(zip(names, args, strict=False)) | given
        if len(args) > len(names) or len(values) < len(args) + len(given):
            return call(*args, **given)  # Python's own words for a wrong call
        shapes = set()
        for name, value in values.items():
            quantity = quantities.get(name, rest)
            if quantity is None or (value is None and name in optional):
                continue
            values[name] = number = check(quantity.rule, name, value)
            if type(number) is not float:
                shapes.add(number.shape)
        if len(shapes) > 1:
            broadcastable(**{n: value for n, value in values.items() if value is not None and quantities.get(n, rest)})
        return call(**values)

    checked.unchecked, checked.quantities = function, asked  # type: ignore[attr-defined]
    checked.__doc__ = _with_raises(function.__doc__, asked)
    return checked  # type: ignore[return-value]


def quantities_of(thing: type | Callable) -> dict[str, Quantity]:
    """Return the quantity of each argument of a function and of what it returns, or of each field of a record.

    Examples
    --------
    >>> from clusterlab.roofline import kernel_time
    >>> {name: one.unit for name, one in quantities_of(kernel_time).items()}["bytes_moved"]
    'B'
    """
    known = vars(sys.modules[thing.__module__])
    found = {}
    for holder in reversed(thing.__mro__) if isinstance(thing, type) else (thing,):
        for name, written in getattr(holder, "__annotations__", {}).items():
            # What is written is looked up and never evaluated: other annotations may speak of what is not there yet.
            for word in re.findall(r"\w+", written) if isinstance(written, str) else ():
                for one in getattr(known.get(word), "__metadata__", ()):
                    if isinstance(one, Quantity):
                        found[name] = one
    return found


def _with_raises(doc: str | None, asked: Mapping[str, Quantity]) -> str | None:
    """A docstring with what is refused of its quantities, after what is returned."""
    if not doc or not asked:
        return doc
    rules: dict[str, list[str]] = {}
    for name, quantity in asked.items():
        rules.setdefault(quantity.rule.text, []).append(f"``{name}``")
    said = "; ".join(f"{', '.join(names)} not {text}" for text, names in rules.items())
    said += "; or shapes do not fit together." if len(asked) > 1 else "."
    indent = " " * (len(doc) - len(doc.rstrip(" ")) if doc.rstrip(" ").endswith("\n") else 4)
    if f"\n{indent}Raises\n" in doc:
        head, rest = doc.split(f"\n{indent}Raises\n{indent}------\n", 1)
        first, others = rest.split("\n", 1)
        return f"{head}\n{indent}Raises\n{indent}------\n{first}\n{indent}    {said}\n{others}"
    section = f"{indent}Raises\n{indent}------\n{indent}ValueError\n{indent}    {said}\n\n"
    for title in ("Notes\n", "Examples\n"):
        if (at := doc.find(f"\n{indent}{title}")) >= 0:
            return doc[: at + 1] + section + doc[at + 1 :]
    return f"{doc.rstrip()}\n\n{section}{indent}"
