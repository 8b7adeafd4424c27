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

import builtins
import inspect
import math
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, wraps
from types import ModuleType, NoneType, UnionType
from typing import Annotated, NamedTuple, ParamSpec, Protocol, TypeVar, get_args, get_origin

import numpy as np

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
T = TypeVar("T")


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


# --- What public functions take --------------------------------------------------------------------------------------


class _Kind(NamedTuple):
    """What an argument may be: how a message says it, whether a value is so, and which record it is, if any."""

    said: str
    holds: Callable[[object], bool]
    record: type | None = None


NAMED: dict[type, Callable[[str], object]] = {}  # what finds a record by its name; the package fills it
_PLAIN: Mapping[object, _Kind] = {
    str: _Kind("text", lambda one: isinstance(one, str)),
    int: _Kind("a whole number", lambda one: isinstance(one, int | np.number | np.ndarray) and np.size(one) == 1),
    float: _Kind("a number", lambda one: isinstance(one, int | float | np.number | np.ndarray) and np.size(one) == 1),
    bool: _Kind("True or False", lambda one: isinstance(one, bool | np.bool_)),
    None: _Kind("None", lambda one: one is None),
    NoneType: _Kind("None", lambda one: one is None),
}


def guard(room: ModuleType) -> None:
    """Let what a room lists take names where it takes records, and refuse by name what is neither.

    A law checks its numbers by itself (:func:`law`); this looks at all else that the signatures of public functions
    and the fields of public records say. Modules of the library took one another's functions before, and call them
    without it.
    """
    listed = getattr(room, "__all__", None) or [name for name in vars(room) if name[0] != "_"]
    for name in listed:
        thing = getattr(room, name)
        if not getattr(thing, "__module__", "").startswith(room.__name__):
            continue
        if inspect.isfunction(thing) and not hasattr(thing, "guarded"):
            made, home = _guarded(thing), sys.modules[thing.__module__]
            setattr(room, name, made)
            if getattr(home, name, None) is thing:  # where it is looked for by its own name, as pickle does
                setattr(home, name, made)
        elif isinstance(thing, type) and "__post_init__" in vars(thing):
            thing.__post_init__ = _guarded_record(thing, vars(thing)["__post_init__"])  # type: ignore[attr-defined]


def _guarded(function: Callable[..., R]) -> Callable[..., R]:
    """A function that takes names for records, and says which argument is wrong where one is."""
    nan = not hasattr(function, "quantities")
    signature: inspect.Signature | None = None  # read at the first call, when all that annotations speak of is there
    names: list[str] = []
    kinds: dict[str, list[_Kind]] = {}
    records: dict[str, _Records] = {}

    @wraps(function)
    def guarded(*args: object, **given: object) -> R:
        nonlocal signature
        if signature is None:
            signature = inspect.signature(function)
            names.extend(n for n, one in signature.parameters.items() if one.kind is one.POSITIONAL_OR_KEYWORD)
            kinds.update(_kinds_of(inspect.unwrap(function)))
            records.update(_with_records(kinds))
        for value in (*args, *given.values()):
            if isinstance(value, float) and not -_MOST <= value <= _MOST:
                _refuse_extremes([*zip(names, args, strict=False), *given.items()], nan)
        if records and len(args) <= len(names):
            args = tuple([_taken(name, one, records) for name, one in zip(names, args, strict=False)])
            for name in given:
                given[name] = _taken(name, given[name], records)
        try:
            with np.errstate(divide="raise", invalid="raise", over="raise"):
                return function(*args, **given)
        except (ArithmeticError, AttributeError, IndexError, KeyError, TypeError) as error:
            try:
                bound = signature.bind(*args, **given).arguments
            except TypeError:
                raise error from None  # Python's own words for a wrong call
            _blame(bound, kinds, {name: one.default for name, one in signature.parameters.items()}, error)
            raise

    guarded.guarded = True  # type: ignore[attr-defined]
    return guarded


def _guarded_record(record: type, check_fields: Callable[[T], None]) -> Callable[[T], None]:
    """What a record does after it is made: names become records, and a field that is wrong is named."""
    kinds: dict[str, list[_Kind]] = {}
    records: dict[str, _Records] = {}

    @wraps(check_fields)
    def guarded(self: T) -> None:
        if not kinds:
            kinds.update({"": []} | _kinds_of(record))
            records.update(_with_records(kinds))
        values = vars(self)
        _refuse_extremes(values.items(), False)
        for name in records:
            values[name] = _taken(name, values[name], records)
        try:
            check_fields(self)
        except (ArithmeticError, AttributeError, IndexError, KeyError, TypeError) as error:
            _blame(values, kinds, {name: getattr(record, name, None) for name in values}, error)
            raise

    return guarded


class _Records(NamedTuple):
    """What an argument that may be a record is allowed to be, and the types of which that has been seen."""

    allowed: list[_Kind]
    seen: set[type]


def _with_records(kinds: Mapping[str, list[_Kind]]) -> dict[str, _Records]:
    return {name: _Records(of, set()) for name, of in kinds.items() if any(one.record for one in of)}


def _taken(name: str, value: object, records: Mapping[str, _Records]) -> object:
    """An argument as the function takes it: a name of a record becomes that, and what is no such record is refused."""
    kind = type(value)
    if name not in records or kind in records[name].seen:
        return value
    allowed, seen = records[name]
    if any(one.holds(value) for one in allowed):
        if any(one.record and isinstance(value, one.record) for one in allowed) or value is None:
            seen.add(kind)  # of a type that is allowed whatever its value
        return value
    for one in allowed:
        if isinstance(value, str) and one.record and (find := NAMED.get(one.record)):
            return find(value)
    hint = " or the name of one" if any(one.record in NAMED for one in allowed) else ""
    raise ValueError(f"{name} must be {_said(allowed)}{hint}, got {_shown(value)}")


_MOST = 1e60  # beyond it are no bytes, no seconds and no dollars: their products overflow


def _refuse_extremes(values: Iterable[tuple[str, object]], nan: bool) -> None:
    """Refuse finite numbers that nothing in this library counts, and NaN; infinity is each function's own to allow."""
    for name, value in values:
        if isinstance(value, float) and not -_MOST <= value <= _MOST:
            if math.isfinite(value):
                raise ValueError(f"{name} must be at most {_MOST:g} in size; got {value:g}")
            if nan and math.isnan(value):
                raise ValueError(f"{name} must be a number, got nan")


def _blame(
    values: Mapping[str, object], kinds: Mapping[str, list[_Kind]], usual: Mapping[str, object], error: Exception
) -> None:
    """Raise a ValueError that names the first argument which is not what its annotation says, if there is one."""
    for name, value in values.items():
        allowed = kinds.get(name, ())
        if (
            allowed
            and value is not usual.get(name, inspect.Parameter.empty)
            and not any(k.holds(value) for k in allowed)
        ):
            raise ValueError(f"{name} must be {_said(allowed)}, got {_shown(value)}") from error
    if isinstance(error, ArithmeticError):
        raise ValueError(f"{', '.join(values)}: numbers leave what floats can hold ({error})") from error
    for name, value in values.items():
        if isinstance(value, np.ndarray) and value.ndim and isinstance(error, TypeError):
            raise ValueError(f"{name} must be one number here, got an array of shape {value.shape}") from error


def _said(kinds: Iterable[_Kind]) -> str:
    return " or ".join(dict.fromkeys(one.said for one in kinds))


def _shown(value: object) -> str:
    """A value in a message; a record by its kind alone, whose table would fill the screen."""
    text = repr(value)
    return text if len(text) <= 80 and "\n" not in text else f"a {type(value).__name__}"


def _kinds_of(thing: type | Callable) -> dict[str, list[_Kind]]:
    """What each argument of a function, or each field of a record, may be, as far as its annotation says it."""
    known = {"None": None, **vars(builtins), **vars(sys.modules[thing.__module__])}
    found = {}
    for name, written in getattr(thing, "__annotations__", {}).items():
        if name != "return" and isinstance(written, str):
            each = [_kinds_in(one, known) for one in re.split(r"\s*\|\s*(?![^\[]*\])", written)]
            if all(each):
                found[name] = [kind for kinds in each for kind in kinds]
    return found


_MANY: Mapping[object, _Kind] = {
    Sequence: _Kind("a sequence", lambda one: hasattr(one, "__len__") and not isinstance(one, str | bytes | Mapping)),
    Iterable: _Kind("a sequence", lambda one: hasattr(one, "__iter__") and not isinstance(one, str | bytes)),
    Mapping: _Kind("a mapping", lambda one: isinstance(one, Mapping)),
    Callable: _Kind("a function", callable),
    tuple: _Kind("a pair or more", lambda one: isinstance(one, tuple | list)),
}


def _kinds_in(written: str, known: Mapping[str, object]) -> list[_Kind]:
    """What one alternative of an annotation allows; nothing where it says nothing that can be looked at."""
    head, _, inside = written.partition("[")
    thing = getattr(np, head[3:]) if head.startswith("np.") else known.get(head, inspect.Parameter.empty)
    of = known.get(inside.removesuffix("]"))
    if thing in (Sequence, Iterable) and isinstance(of, type) and of.__module__.startswith("clusterlab."):
        many = _MANY[thing]
        return [_Kind(f"{many.said} of {of.__name__}", partial(_all_are, of, many.holds))]
    return _kinds_like(thing)


def _kinds_like(thing: object) -> list[_Kind]:
    """The same of what an annotation speaks of: a class, a quantity, or a name for several."""
    if isinstance(thing, UnionType):
        each = [_kinds_like(one) for one in get_args(thing)]
        return [kind for kinds in each for kind in kinds] if all(each) else []
    for one in getattr(thing, "__metadata__", ()):
        if isinstance(one, Quantity):
            return [_Kind(one.rule.text, partial(_is, one.rule))]
    thing = get_origin(thing) or thing
    for plain in (_PLAIN, _MANY):
        if thing.__hash__ and thing in plain:
            return [plain[thing]]
    if not isinstance(thing, type) or thing.__module__ == "typing":
        return []
    ours = thing.__module__.startswith("clusterlab.")
    return [_Kind(thing.__name__, lambda value: isinstance(value, thing), thing if ours else None)]


def _all_are(kind: type, holds: Callable[[object], bool], values: Iterable[object]) -> bool:
    """Whether values are a sequence of records of a kind; what can be gone through once is not looked into."""
    looked_into = isinstance(values, list | tuple | np.ndarray)
    return holds(values) and (not looked_into or all(isinstance(one, kind) for one in values))


def _is(rule: Rule, value: object) -> bool:
    try:
        check(rule, "value", value)
    except (TypeError, ValueError):
        return False
    return True
