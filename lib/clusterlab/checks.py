"""Checks: what every law asks of its input, and the few array operations that cost nothing for plain numbers.

A check returns its values as floats or float arrays, or raises a ValueError that names the argument, the value and
what is allowed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import reduce
from operator import add
from typing import Any, NamedTuple

import numpy as np

Numeric = Any  # a number, an array of them, or a Pint quantity: what a law computes with


class Rule(NamedTuple):
    """Which numbers an argument may be: how a message says it, a test for an interval, and whether whole ones alone."""

    text: str
    allows: Callable[[Numeric], Numeric]
    whole: bool = False


POSITIVE = Rule("positive and finite", lambda x: x > 0)
NONNEGATIVE = Rule("zero or more and finite", lambda x: x >= 0)
FRACTION = Rule("above 0 and at most 1", lambda x: (x > 0) & (x <= 1))
SHARE = Rule("from 0 to 1", lambda x: (x >= 0) & (x <= 1))
CELSIUS = Rule("from -90 to 100 degrees Celsius", lambda x: (x >= -90) & (x <= 100))
AT_LEAST_ONE = Rule("at least 1", lambda x: x >= 1)
WHOLE = Rule("a whole number of at least 1", lambda x: x >= 1, whole=True)
WHOLE_OR_NONE = Rule("a whole number of at least 0", lambda x: x >= 0, whole=True)
BELOW_ONE = Rule("at least 0 and below 1", lambda x: (x >= 0) & (x < 1))
POSITIVE_BELOW_ONE = Rule("above 0 and below 1", lambda x: (x > 0) & (x < 1))


def check(rule: Rule, name: str, value: Numeric) -> Numeric:
    """Return a value as a float or a float array, or raise a ValueError that names it, what it is and what is allowed.

    A Pint quantity passes as it is.

    Examples
    --------
    >>> check(WHOLE, "ranks", [2, 8])
    array([2., 8.])
    >>> check(POSITIVE, "bandwidth", -1)
    Traceback (most recent call last):
    ...
    ValueError: bandwidth must be positive and finite, got -1
    """
    # Most arguments of most laws are a finite number of a plain type, no larger than NumPy's own integers.
    kind = type(value)
    if not (value.bit_length() < 64 if kind is int else kind in (float, np.float64, np.int64) and math.isfinite(value)):
        return _checked_array(name, rule, value)
    number = float(value)
    if not rule.allows(number) or (rule.whole and not number.is_integer()):
        raise ValueError(f"{name} must be {rule.text}, got {number:g}")
    return number


def _checked(rule: Rule, values: dict[str, Numeric]) -> list[Numeric]:
    """Each value as :func:`check` returns it, if all of them broadcast together."""
    out = [check(rule, name, value) for name, value in values.items()]
    if len({one.shape for one in out if type(one) is not float}) > 1:
        broadcastable(**dict(zip(values, out, strict=True)))
    return out


def _checked_array(name: str, rule: Rule, value: Numeric) -> Numeric:
    """One value as a float array, as a float where it has no dimensions, or as the Pint quantity that it is."""
    try:
        if hasattr(value, "dimensionality"):
            number = value
        else:
            number = _numeric(value)
            # An interval holds every element if it holds the least and the largest; NaN is both of them.
            low, high = float(number.min()), float(number.max())
            held = math.isfinite(low) and math.isfinite(high) and rule.allows(low) and rule.allows(high)
            if held and not (rule.whole and np.any(number != np.floor(number))):
                return number if number.ndim else low
        good = np.isfinite(number) & rule.allows(number)
        if rule.whole:
            good = good & (number == np.floor(number))
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be {rule.text}, got {value!r}") from None
    if not np.all(good):
        worst = np.asarray(getattr(number, "magnitude", number))[~np.asarray(good)].flat[0]
        raise ValueError(f"{name} must be {rule.text}, got {worst:g}")
    return number


def _numeric(value: Numeric) -> np.ndarray:
    """A float array; text that looks like a number is refused, and so is an empty list."""
    array = np.asarray(value)
    if array.dtype.kind not in "iuf" or not array.size:
        raise TypeError
    return array.astype(float)


def broadcastable(**values: Numeric) -> None:
    """Raise a ValueError that names the shapes of the values, unless they broadcast together.

    The checks below do so for the arguments of one call. A law that checks its arguments in several calls asks here.

    Examples
    --------
    >>> broadcastable(peak=[1, 2, 3], bandwidth=5)
    >>> broadcastable(peak=[1, 2, 3], bandwidth=[1, 2])
    Traceback (most recent call last):
    ...
    ValueError: shapes do not fit together: peak (3,), bandwidth (2,)
    """
    shapes = {name: np.shape(value) for name, value in values.items()}
    different = set(shapes.values())
    try:
        if len(different) > 1:
            np.broadcast_shapes(*different)
    except ValueError:
        listed = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
        raise ValueError(f"shapes do not fit together: {listed}") from None


def positive(**values: Numeric) -> list[Numeric]:
    """Return the values as floats or float arrays, or raise a ValueError naming the one that is not above zero.

    Examples
    --------
    >>> positive(peak=989e12, bandwidth=[1, 2])
    [989000000000000.0, array([1., 2.])]
    >>> positive(bandwidth=-1)
    Traceback (most recent call last):
    ...
    ValueError: bandwidth must be positive and finite, got -1
    """
    return _checked(POSITIVE, values)


def nonnegative(**values: Numeric) -> list[Numeric]:
    """Return the values as floats or float arrays, or raise a ValueError naming the one that is below zero.

    Examples
    --------
    >>> nonnegative(latency=0)
    [0.0]
    """
    return _checked(NONNEGATIVE, values)


def fraction(**values: Numeric) -> list[Numeric]:
    """Return the values as floats or float arrays, or raise a ValueError naming the one outside (0, 1].

    Examples
    --------
    >>> fraction(efficiency=1.5)
    Traceback (most recent call last):
    ...
    ValueError: efficiency must be above 0 and at most 1, got 1.5
    """
    return _checked(FRACTION, values)


def celsius(**values: Numeric) -> list[Numeric]:
    """Return the values as floats or float arrays, or raise a ValueError naming the one that no room on Earth has.

    Examples
    --------
    >>> celsius(temperature=295)
    Traceback (most recent call last):
    ...
    ValueError: temperature must be from -90 to 100 degrees Celsius, got 295
    """
    return _checked(CELSIUS, values)


def at_least_one(**values: Numeric) -> list[Numeric]:
    """Return the values as floats or float arrays, or raise a ValueError naming the one that is below 1.

    Examples
    --------
    >>> at_least_one(pue=0.9)
    Traceback (most recent call last):
    ...
    ValueError: pue must be at least 1, got 0.9
    """
    return _checked(AT_LEAST_ONE, values)


def whole(**values: Numeric) -> list[Numeric]:
    """Return the values as floats or float arrays, or raise a ValueError naming the one that is not a positive integer.

    Examples
    --------
    >>> whole(ranks=[2, 8])
    [array([2., 8.])]
    """
    return _checked(WHOLE, values)


def flags(**values: object) -> None:
    """Raise a ValueError that names a value which is neither True nor False.

    Examples
    --------
    >>> flags(fused=1)
    Traceback (most recent call last):
    ...
    ValueError: fused must be True or False, got 1
    """
    for name, value in values.items():
        if not isinstance(value, bool):
            raise ValueError(f"{name} must be True or False, got {value!r}")


def choose(options: Mapping[str, Numeric], **values: object) -> Numeric:
    """Return what ``options`` holds under the name given, element by element, or raise a ValueError with the names.

    Examples
    --------
    >>> choose({"none": 0, "full": 7}, recompute="full"), choose({"none": 0, "full": 7}, recompute=["none", "full"])
    (7, array([0, 7]))
    >>> choose({"none": 0, "full": 7}, recompute="all")
    Traceback (most recent call last):
    ...
    ValueError: recompute must be one of none, full; got 'all'
    """
    ((name, value),) = values.items()
    if isinstance(value, str) and value in options:
        return options[value]
    names = np.asarray(value)
    masks = [names == option for option in options]
    known = np.any(masks, axis=0)
    if not np.all(known) or not names.size:
        got = repr(str(names[~known].flat[0])) if names.dtype.kind == "U" and names.size else repr(value)
        raise ValueError(f"{name} must be one of {', '.join(options)}; got {got}")
    chosen, *others = options.values()
    for mask, option in zip(masks[1:], others, strict=True):
        chosen = np.where(mask, option, chosen)
    return chosen


def pick(condition: Numeric, yes: Numeric, no: Numeric) -> Numeric:
    """``np.where``, which keeps integers exact and costs nothing where the condition is one.

    Examples
    --------
    >>> pick(2 > 1, 10**20, 0), pick(np.array([True, False]), 1, 0)
    (100000000000000000000, array([1, 0]))
    """
    if condition is True:
        return yes
    if condition is False:
        return no
    if (isinstance(condition, np.ndarray) and condition.ndim) or np.ndim(condition):
        return np.where(condition, yes, no)
    return yes if condition else no


def some(mask: Numeric) -> bool:
    """``np.any``, which costs nothing where there is one.

    Examples
    --------
    >>> some(2 > 1), some(np.array([False, True]))
    (True, True)
    """
    if mask is True or mask is False:
        return mask
    return bool(mask.any()) if isinstance(mask, np.ndarray) else bool(mask)


def larger(one: Numeric, other: Numeric) -> Numeric:
    """``np.maximum``, at the price of a comparison where both are plain numbers.

    Examples
    --------
    >>> larger(1.0, 2.0), larger([1.0, 3.0], 2.0)
    (2.0, array([2., 3.]))
    """
    if type(one) is float is type(other) or (isinstance(one, float) and isinstance(other, float)):
        return one if one >= other else other
    return np.maximum(one, other)


def smaller(one: Numeric, other: Numeric) -> Numeric:
    """``np.minimum``, at the price of a comparison where both are plain numbers.

    Examples
    --------
    >>> smaller(1.0, 2.0), smaller([1.0, 3.0], 2.0)
    (1.0, array([1., 2.]))
    """
    if type(one) is float is type(other) or (isinstance(one, float) and isinstance(other, float)):
        return one if one <= other else other
    return np.minimum(one, other)


def shape_of(values: Collection[Numeric]) -> tuple[int, ...]:
    """Shape of the arrays among the values together; ``()`` where there are none.

    Examples
    --------
    >>> shape_of([2.0, np.ones(3), np.ones((2, 1))]), shape_of([2.0, "full", None])
    ((2, 3), ())
    """
    if np.ndarray not in map(type, values):
        return ()
    return np.broadcast_shapes(*(value.shape for value in values if isinstance(value, np.ndarray)))


def total(parts: Iterable[Numeric]) -> Numeric:
    """The sum, one term after the other, of numbers as of arrays.

    From Python 3.12 on ``sum`` of floats carries along what rounding drops, so a layout alone would differ from the
    same in an array by the last digit.

    Examples
    --------
    >>> total([0.1] * 3), total([np.ones(2), 1.0]).tolist()
    (0.30000000000000004, [2.0, 2.0])
    """
    return reduce(add, parts)


def ceiling(value: Numeric) -> Numeric:
    """``np.ceil``, at the price of a division where the value is a plain number.

    Examples
    --------
    >>> ceiling(2.5), ceiling(np.array([2.5, 3.0]))
    (3.0, array([3., 3.]))
    """
    return -(-value // 1) if type(value) is float else np.ceil(value)


def floor(value: Numeric) -> Numeric:
    """``np.floor``, at the price of a division where the value is a plain number.

    Examples
    --------
    >>> floor(2.5), floor(np.array([2.5, 3.0]))
    (2.0, array([2., 3.]))
    """
    return value // 1 if type(value) is float else np.floor(value)
