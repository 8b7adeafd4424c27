"""Units: SI constants, one formatter, one reader, and the checks every law makes on its input.

Inside the library every quantity is a plain number in SI base units: bytes, seconds, FLOP, watts, joules,
dollars. The constants make numbers readable where they are written (``900 * GB``, ``989 * TFLOP``, ``5 * us``),
:func:`fmt` makes them readable where they are printed, and :func:`parse` reads what a datasheet prints.
Bits appear only there: a ``400 Gbit/s`` port is 50 GB/s from the moment it is read.
"""

from __future__ import annotations

import html
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache, reduce
from operator import add
from types import MappingProxyType
from typing import Any, ClassVar, Self

import numpy as np

# Decimal prefixes, bytes and bits. 1 GB is 10**9 bytes; 1 GiB is 2**30.
KB, MB, GB, TB, PB, EB = 1e3, 1e6, 1e9, 1e12, 1e15, 1e18
KiB, MiB, GiB, TiB = 2.0**10, 2.0**20, 2.0**30, 2.0**40
Kbit, Mbit, Gbit, Tbit = 1e3 / 8, 1e6 / 8, 1e9 / 8, 1e12 / 8  # in bytes

# Work. A FLOP is one floating-point operation; a rate is a FLOP count divided by seconds.
MFLOP, GFLOP, TFLOP, PFLOP, EFLOP, ZFLOP = 1e6, 1e9, 1e12, 1e15, 1e18, 1e21

# Time, in seconds. A year is 365.25 days.
ns, us, ms, minute, hour, day, year = 1e-9, 1e-6, 1e-3, 60.0, 3600.0, 86400.0, 365.25 * 86400.0

# Power in watts, energy in joules.
kW, MW, GW = 1e3, 1e6, 1e9
kWh, MWh, GWh = 3.6e6, 3.6e9, 3.6e12

# Money in dollars, and counts.
cent = 0.01
thousand, million, billion, trillion = 1e3, 1e6, 1e9, 1e12

_PREFIXES = {"n": 1e-9, "µ": 1e-6, "m": 1e-3, "": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18}
_ABOVE_ONE = ["", "k", "M", "G", "T", "P", "E"]
# Which prefixes each base unit takes when the formatter chooses.
_AUTOMATIC = {
    "B": _ABOVE_ONE,
    "B/s": _ABOVE_ONE,
    "FLOP": _ABOVE_ONE,
    "FLOP/s": _ABOVE_ONE,
    "FLOP/J": _ABOVE_ONE,
    "W": ["m", *_ABOVE_ONE],
    "J": ["µ", "m", *_ABOVE_ONE],
}
_TIME = {"ns": ns, "µs": us, "ms": ms, "s": 1.0, "min": minute, "h": hour, "d": day, "yr": year}
_MONEY = {"$": 1.0, "$k": 1e3, "$M": 1e6, "$B": 1e9, "$T": 1e12}


def _families() -> dict[str, dict[str, float]]:
    """Every unit with a fixed size, by its base unit and the name it is printed and read under."""
    families = {
        unit: {
            prefix + unit: scale for prefix, scale in _PREFIXES.items() if prefix in _ABOVE_ONE or unit in ("W", "J")
        }
        for unit in _AUTOMATIC
    }
    for per in ("", "/s"):
        families["B" + per] |= {f"{p}bit{per}": _PREFIXES[p] / 8 for p in ("", "k", "M", "G", "T")}
        families["B" + per] |= {f"{p}iB{per}": 2.0**power for p, power in zip("KMGT", (10, 20, 30, 40), strict=True)}
    families["J"] |= {p + "Wh": _PREFIXES[p] * hour for p in ("", "k", "M", "G", "T")}
    return families | {"s": _TIME | {"us": us}, "$": _MONEY}


_FAMILIES = _families()
_SCALES = {name: size for family in _FAMILIES.values() for name, size in family.items()}


def spellings(unit: str) -> Mapping[str, float]:
    """Names under which a quantity of this unit may be written, and the size of each in SI base units.

    A unit that the library does not scale (``"tokens/s"``) has one spelling, its own.

    Examples
    --------
    >>> spellings("GB/s")["Gbit/s"], list(spellings("h"))
    (125000000.0, ['ns', 'µs', 'ms', 's', 'min', 'h', 'd', 'yr', 'us'])
    >>> dict(spellings("%")), dict(spellings("GPUs"))
    ({'%': 0.01}, {'GPUs': 1.0})
    """
    family = next((family for family in _FAMILIES.values() if unit in family), None)
    return MappingProxyType(family or {unit: 0.01 if unit == "%" else 1.0})


def ladder(unit: str) -> list[tuple[float, float, str]]:
    """The scaled units that :func:`fmt` chooses from: (from this magnitude on, size, name), smallest first.

    Time changes unit where a reader would: 90 s, 366 min, 195 h, 54 d, 5.7 yr. A unit without prefixes has one rung.

    Examples
    --------
    >>> ladder("W")[:3]
    [(0.0, 0.001, 'mW'), (1.0, 1.0, 'W'), (1000.0, 1000.0, 'kW')]
    """
    return list(_ladder(unit))


@cache
def _ladder(unit: str) -> list[tuple[float, float, str]]:
    if unit == "s":
        limits = [0.0, us, ms, 1.0, 120.0, 1000 * minute, 240 * hour, 1000 * day]
        return [(limit, size, name) for limit, (name, size) in zip(limits, _TIME.items(), strict=True)]
    if unit == "$":  # $12,300 reads better than $12.3k
        rungs = [(size, name) for name, size in _MONEY.items() if name != "$k"]
    elif unit in _AUTOMATIC:
        rungs = [(_PREFIXES[prefix], prefix + unit) for prefix in _AUTOMATIC[unit]]
    else:
        rungs = [(0.01 if unit == "%" else _SCALES.get(unit, 1.0), unit)]
    return [(size if i else 0.0, size, name) for i, (size, name) in enumerate(rungs)]


def _digits(value: float, digits: int) -> str:
    """``value`` to ``digits`` significant digits, thousands separated, no trailing zeros, no exponent."""
    if value == 0:
        return "0"
    decimals = digits - 1 - math.floor(math.log10(abs(value)))
    text = f"{round(value, decimals):,.{max(decimals, 0)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def fmt(value: float, unit: str = "", digits: int = 3) -> str:
    """Write an SI ``value`` for a human reader.

    Parameters
    ----------
    value : float
        A number in SI base units. An ``int`` is a count and is printed exactly when the unit has no prefix.
    unit : str
        A base unit (``"B"``, ``"B/s"``, ``"FLOP"``, ``"FLOP/s"``, ``"s"``, ``"W"``, ``"J"``, ``"$"``): the prefix is
        chosen. A scaled unit (``"GB/s"``, ``"min"``, ``"kW"``): it is kept. ``"%"``: a fraction as a percentage.
        Anything else (``"tokens/s"``) is a label: no prefix.
    digits : int
        Significant digits, at least 1. Trailing zeros are dropped.

    Returns
    -------
    str

    Raises
    ------
    ValueError
        ``value`` is not one number, ``unit`` is not text, or ``digits`` is not a whole number of at least 1.

    Examples
    --------
    >>> fmt(2.45e12, "B"), fmt(9.8e6, "W"), fmt(366.2 * minute, "s"), fmt(5e-6, "s")
    ('2.45 TB', '9.8 MW', '366 min', '5 µs')
    >>> fmt(3.35e12, "GB/s", digits=4), fmt(0.41, "%"), fmt(8192, "GPUs"), fmt(1.2e9, "$")
    ('3,350 GB/s', '41%', '8,192 GPUs', '$1.2B')
    """
    if not isinstance(unit, str):
        raise ValueError(f"unit must be text, got {unit!r}")
    if not isinstance(digits, int | np.integer) or digits < 1:
        raise ValueError(f"digits must be a whole number of at least 1, got {digits!r}")
    try:
        finite = math.isfinite(value)
    except (TypeError, ValueError, OverflowError):  # text, None, a list, an int beyond any float
        raise ValueError(f"value must be one number, got {value!r}") from None
    if not finite:
        return _join(str(float(value)), unit)
    if isinstance(value, int | np.integer) and unit not in _SCALES and unit != "%":
        return _join(f"{value:,}", unit)
    # Round before choosing the rung, so that 999.9 GB becomes 1 TB and never 1000 GB.
    magnitude = abs(float(f"{value:.{digits - 1}e}"))
    _, size, name = next(rung for rung in reversed(_ladder(unit)) if magnitude >= rung[0] * (1 - 1e-12))
    return _join(_digits(value / size, digits), unit if value == 0 else name)


def _join(number: str, unit: str) -> str:
    """Number and unit as they are written together: ``9.8 MW``, ``41%``, ``-$1.2M``."""
    if unit.startswith("$"):
        sign = "-" if number.startswith("-") else ""
        return f"{sign}${number.removeprefix('-')}{unit[1:]}"
    return number + ("" if unit in ("", "%") else " ") + unit


# Thousands separators only where they separate thousands: "3,35" is refused, not read as 335.
_QUANTITY = re.compile(
    r"\s*(?P<sign>-?)(?P<currency>\$?)"
    r"(?P<number>(?:\d{1,3}(?:,\d{3})+|\d+)?(?:\.\d+)?(?:[eE][+-]?\d+)?)(?<=\d)"
    r"\s*(?P<unit>\S*)\s*"
)


def parse(text: str) -> float:
    """Read a quantity as a datasheet prints it and return it in SI base units.

    Bits become bytes here and nowhere else.

    Parameters
    ----------
    text : str
        A number, optionally with thousands separators, and a unit: ``"3.35 TB/s"``, ``"400 Gbit/s"``, ``"5 us"``.

    Returns
    -------
    float
        Bytes, bytes/s, FLOP, FLOP/s, seconds, watts, joules or dollars.

    Raises
    ------
    ValueError
        The text is not a finite number with a known unit; the message names the units.

    Examples
    --------
    >>> parse("3.35 TB/s"), parse("400 Gbit/s"), parse("5 us"), parse("1,979 TFLOP/s")
    (3350000000000.0, 50000000000.0, 5e-06, 1979000000000000.0)
    >>> parse("$1.2B"), parse("41%")
    (1200000000.0, 0.41)
    """
    match = _QUANTITY.fullmatch(str(text))
    if match and math.isfinite(number := float(match["sign"] + match["number"].replace(",", ""))):
        unit = match["currency"] + match["unit"]
        if unit in ("", "%"):
            return number / 100 if unit else number
        if unit in _SCALES:
            return _scaled(number, _SCALES[unit])
    raise ValueError(f"cannot read {text!r} as a quantity; write a number and one of these units: {', '.join(_SCALES)}")


def _scaled(number: float, scale: float) -> float:
    """``number * scale``, exact for decimal prefixes: 3.35 TB/s is 3.35e12 and not 3.3499999999999995e12."""
    exponent = round(math.log10(scale))
    if scale == float(f"1e{exponent}") and "e" not in str(number):
        return float(f"{number}e{exponent}")
    return number * scale


# --- Checks: what every law asks of its input ------------------------------------------------------------------------


def _checked(rule: str, allowed, values: dict, *, counts: bool = False) -> list:
    """Each value as a float or float array (Pint quantities pass), or a ValueError that names the offender.

    ``allowed`` tests for an interval, and ``counts`` asks for whole numbers besides.
    """
    out, shapes = [], set()
    for name, value in values.items():
        if _is_scalar(value):  # most arguments of most laws: checked without NumPy
            number = float(value)
            if not allowed(number) or (counts and not number.is_integer()):
                raise ValueError(f"{name} must be {rule}, got {number:g}")
        else:
            number = _checked_array(name, rule, allowed, counts, value)
            shapes.add(np.shape(number))
        out.append(number)
    if len(shapes) > 1:
        broadcastable(**dict(zip(values, out, strict=True)))
    return out


def _checked_array(name: str, rule: str, allowed, counts: bool, value):
    """One value as a float array, as a float where it has no dimensions, or as the Pint quantity that it is."""
    try:
        if hasattr(value, "dimensionality"):
            number = value
        else:
            number = _numeric(value)
            # An interval holds every element if it holds the least and the largest; NaN is both of them.
            low, high = float(number.min()), float(number.max())
            held = math.isfinite(low) and math.isfinite(high) and allowed(low) and allowed(high)
            if held and not (counts and np.any(number != np.floor(number))):
                return number if number.ndim else low
        good = np.isfinite(number) & allowed(number)
        if counts:
            good = good & (number == np.floor(number))
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be {rule}, got {value!r}") from None
    if not np.all(good):
        worst = np.asarray(getattr(number, "magnitude", number))[~np.asarray(good)].flat[0]
        raise ValueError(f"{name} must be {rule}, got {worst:g}")
    return number


def _is_scalar(value) -> bool:
    """Whether a value is a finite number of a plain type, and no larger than NumPy's own integers."""
    kind = type(value)
    if kind is int:
        return value.bit_length() < 64
    return kind in (float, np.float64, np.int64) and math.isfinite(value)


def _numeric(value) -> np.ndarray:
    """A float array; text that looks like a number is refused, and so is an empty list."""
    array = np.asarray(value)
    if array.dtype.kind not in "iuf" or not array.size:
        raise TypeError
    return array.astype(float)


def broadcastable(**values) -> None:
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
    shapes = {name: () if _is_scalar(value) else np.shape(value) for name, value in values.items()}
    different = set(shapes.values())
    try:
        if len(different) > 1:
            np.broadcast_shapes(*different)
    except ValueError:
        listed = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
        raise ValueError(f"shapes do not fit together: {listed}") from None


def positive(**values) -> list:
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
    return _checked("positive and finite", lambda x: x > 0, values)


def nonnegative(**values) -> list:
    """Return the values as floats or float arrays, or raise a ValueError naming the one that is below zero.

    Examples
    --------
    >>> nonnegative(latency=0)
    [0.0]
    """
    return _checked("zero or more and finite", lambda x: x >= 0, values)


def fraction(**values) -> list:
    """Return the values as floats or float arrays, or raise a ValueError naming the one outside (0, 1].

    Examples
    --------
    >>> fraction(efficiency=1.5)
    Traceback (most recent call last):
    ...
    ValueError: efficiency must be above 0 and at most 1, got 1.5
    """
    return _checked("above 0 and at most 1", lambda x: (x > 0) & (x <= 1), values)


def celsius(**values) -> list:
    """Return the values as floats or float arrays, or raise a ValueError naming the one that no room on Earth has.

    Examples
    --------
    >>> celsius(temperature=295)
    Traceback (most recent call last):
    ...
    ValueError: temperature must be from -90 to 100 degrees Celsius, got 295
    """
    return _checked("from -90 to 100 degrees Celsius", lambda x: (x >= -90) & (x <= 100), values)


def at_least_one(**values) -> list:
    """Return the values as floats or float arrays, or raise a ValueError naming the one that is below 1.

    Examples
    --------
    >>> at_least_one(pue=0.9)
    Traceback (most recent call last):
    ...
    ValueError: pue must be at least 1, got 0.9
    """
    return _checked("at least 1", lambda x: x >= 1, values)


def whole(**values) -> list:
    """Return the values as floats or float arrays, or raise a ValueError naming the one that is not a positive integer.

    Examples
    --------
    >>> whole(ranks=[2, 8])
    [array([2., 8.])]
    """
    return _checked("a whole number of at least 1", lambda x: x >= 1, values, counts=True)


def choose(options, **values):
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


def pick(condition, yes, no):
    """``np.where``, which keeps integers exact and costs nothing where the condition is one.

    Examples
    --------
    >>> pick(2 > 1, 10**20, 0), pick(np.array([True, False]), 1, 0)
    (100000000000000000000, array([1, 0]))
    """
    if isinstance(condition, bool | np.bool_) or not np.ndim(condition):
        return yes if condition else no
    return np.where(condition, yes, no)


def larger(one, other):
    """``np.maximum``, at the price of a comparison where both are plain numbers.

    Examples
    --------
    >>> larger(1.0, 2.0), larger([1.0, 3.0], 2.0)
    (2.0, array([2., 3.]))
    """
    if isinstance(one, float) and isinstance(other, float):
        return one if one >= other else other
    return np.maximum(one, other)


def smaller(one, other):
    """``np.minimum``, at the price of a comparison where both are plain numbers.

    Examples
    --------
    >>> smaller(1.0, 2.0), smaller([1.0, 3.0], 2.0)
    (1.0, array([1., 2.]))
    """
    if isinstance(one, float) and isinstance(other, float):
        return one if one <= other else other
    return np.minimum(one, other)


# --- Records that explain themselves ---------------------------------------------------------------------------------


def summary(value, unit: str = "", digits: int = 3) -> str:
    """One number as :func:`fmt` writes it, or the range of an array and how many it has: a cell of a record's table.

    Examples
    --------
    >>> summary(2e9, "B"), summary(np.array([1e9, 4e9]), "B"), summary(np.ones((2, 3)), "s")
    ('2 GB', '1 GB to 4 GB, 2 values', '1 s, all 2 x 3 values')
    """
    if np.ndim(value) == 0:
        return fmt(value, unit, digits)
    low, high = fmt(np.min(value), unit, digits), fmt(np.max(value), unit, digits)
    return f"{low}, all {count_values(value)}" if low == high else f"{low} to {high}, {count_values(value)}"


def count_values(array) -> str:
    """How many values an array has, axis by axis.

    Examples
    --------
    >>> count_values(np.ones(9729)), count_values([[1.0, 2.0]])
    ('9,729 values', '1 x 2 values')
    """
    return f"{' x '.join(f'{n:,}' for n in np.shape(array))} values"


# Field names that are abbreviations, as people write them.
_ABBREVIATIONS = {short: short.upper() for short in ("gpu", "mfu", "hfu", "pue", "mttf", "mtbf")} | {"gpus": "GPUs"}


def words(name: str) -> str:
    """A field's name as people write it.

    Examples
    --------
    >>> words("gpu_mttf"), words("energy_price"), words("gpus")
    ('GPU MTTF', 'energy price', 'GPUs')
    """
    return " ".join(_ABBREVIATIONS.get(word, word) for word in name.split("_"))


def with_interval(value, low, high, unit: str = "", digits: int = 3) -> str:
    """A predicted number with its interval, as every record writes it; the unit stands once where it is the same.

    Examples
    --------
    >>> with_interval(6.04, 5.44, 6.78, "s"), with_interval(0.93, 0.88, 0.983, "%", digits=2)
    ('6.04 s (5.44 to 6.78)', '93% (88 to 98)')
    """
    if any(np.ndim(one) for one in (value, low, high)):
        return f"{summary(value, unit)} ({fmt(np.min(low), unit, digits)} to {fmt(np.max(high), unit, digits)})"
    first, *ends = (fmt(one, unit, digits) for one in (value, low, high))
    written = first.lstrip("-0123456789.,")
    if all(one.lstrip("-0123456789.,") == written for one in ends):
        ends = [one.removesuffix(written) for one in ends]
    return f"{first} ({' to '.join(ends)})"


def say(record, name: str, unit: str = "") -> str:
    """A number of a record with its interval, in words, where the record has ``NAME_low`` and ``NAME_high`` beside it.

    A number that is not known is the empty text, and one whose ends are not known stands alone.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> say(SimpleNamespace(time=80 * day, time_low=73 * day, time_high=240 * day), "time", "s")
    '80 d (73 to 240)'
    """
    value, low, high = (getattr(record, key, math.nan) for key in (name, f"{name}_low", f"{name}_high"))
    if not math.isfinite(value):
        return ""
    return with_interval(value, low, high, unit) if low < high else fmt(value, unit)


class Explained:
    """Mixin for frozen records: a text table as ``repr``, an HTML table in a notebook.

    A record says what it is by ``_rows()``, a list of rows of text. The first row is the heading. By default a row
    is a dataclass field and its value.
    """

    def _rows(self) -> list[tuple[str, ...]]:
        return [("", "value"), *((words(f.name), str(getattr(self, f.name))) for f in fields(self))]

    def __repr__(self) -> str:
        """Return the table as aligned text."""
        return f"{type(self).__name__}\n{aligned(self._rows())}"

    def _repr_html_(self) -> str:
        def line(row, tag):
            tags = [tag if cell else "td" for cell in row]  # an empty cell is not a heading
            return "<tr>" + "".join(f"<{t}>{html.escape(c)}</{t}>" for t, c in zip(tags, row, strict=True)) + "</tr>"

        head, *body = self._rows()
        inside = "".join(line(row, "td") for row in body)
        return f'<table class="dataframe"><thead>{line(head, "th")}</thead><tbody>{inside}</tbody></table>'


class Predicted(Explained):
    """Mixin for records that predict a measurement: one number of theirs carries an 80 % interval.

    Of runs that no constant has seen, one in ten is below ``low`` and one in ten above ``high``
    (:data:`clusterlab.machine.SPREADS`). A record says the number, its ends and their unit by ``_predicted()``, and by
    ``_follow`` what rises and falls with it (1), or against it (-1): name to unit and direction.
    """

    _follow: ClassVar[Mapping[str, tuple[str, int]]] = MappingProxyType({})

    def _predicted(self) -> tuple[Any, Any, Any, str]:
        raise NotImplementedError

    def say(self, name: str) -> str:
        """Another number of the record with its interval, in words: ``step.say("mfu")`` is ``39.3% (35.3 to 43)``.

        Raises
        ------
        ValueError
            ``name`` is no number that has an interval; the message lists those that have.
        """
        if name not in self._follow:
            raise ValueError(f"name must be one of {', '.join(self._follow)}; got {name!r}")
        unit, direction = self._follow[name]
        number, (centre, low, high, _) = getattr(self, name), self._predicted()
        if not np.all(centre):  # nobody is served
            return summary(number, unit)
        ends = (low / centre, high / centre) if direction > 0 else (centre / high, centre / low)
        return with_interval(number, number * ends[0], number * ends[1], unit)

    @property
    def low(self):
        """The lower end of the 80 % interval."""
        return self._predicted()[1]

    @property
    def high(self):
        """The upper end of the 80 % interval."""
        return self._predicted()[2]

    @property
    def with_interval(self) -> str:
        """The number with its interval, in words: ``6.04 s (5.44 to 6.78)``."""
        return with_interval(*self._predicted())

    def _cells(self, name: str | None = None) -> tuple[str, str]:
        """The number (or another, by name) and its interval, as two cells of a table."""
        number, space, ends = (self.say(name) if name else self.with_interval).partition(" (")
        return number, space.lstrip() + ends


def aligned(rows: Sequence[Sequence[str]], left: int = 1) -> str:
    """Rows of text as lines: so many columns to the left, the others to the right.

    Examples
    --------
    >>> print(aligned([("link", "rate"), ("NVLink 4", "450 GB/s")]))
    link          rate
    NVLink 4  450 GB/s
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    places = [str.ljust] * left + [str.rjust] * (len(widths) - left)
    lines = (zip(places, row, widths, strict=True) for row in rows)
    return "\n".join("  ".join(put(cell, width) for put, cell, width in line).rstrip() for line in lines)


@dataclass(frozen=True, repr=False)
class Table(Explained):
    """Rows of text under a heading, as :func:`tabulate` makes them."""

    rows: tuple[tuple[str, ...], ...]

    def _rows(self) -> list[tuple[str, ...]]:
        return list(self.rows)

    def __repr__(self) -> str:
        """Return the table as aligned text."""
        return aligned(self.rows)


@dataclass(frozen=True, repr=False)
class Parts(Explained):
    """An amount part by part: the base of loads, in watts, and of bills, in dollars; ``total`` is their sum.

    Two of the same kind add (parts of the same name are summed), and each scales (``4 * load``). Parts broadcast.
    """

    parts: Mapping[str, float]

    _heading: ClassVar[str] = "amount"
    _unit: ClassVar[str] = ""

    __array_ufunc__ = None  # an array times it is one record of arrays, not an array of records

    def __post_init__(self) -> None:
        """Refuse a negative part, and parts whose shapes do not fit together."""
        nonnegative(**self.parts)

    @property
    def total(self):
        """Sum of all parts."""
        return reduce(add, self.parts.values())

    def __add__(self, other: Self) -> Self:
        """Return both together."""
        if isinstance(other, int) and other == 0:  # where sum() starts
            return self
        if type(other) is not type(self):
            return NotImplemented
        parts = dict(self.parts)
        for name, amount in other.parts.items():
            parts[name] = parts[name] + amount if name in parts else amount
        return type(self)(MappingProxyType(parts))

    __radd__ = __add__

    def __rmul__(self, times) -> Self:
        """Return ``times`` as much of every part."""
        return type(self)(MappingProxyType({name: times * amount for name, amount in self.parts.items()}))

    __mul__ = __rmul__

    def _rows(self):
        everything = np.where(self.total > 0, self.total, 1.0)[()]  # nothing has no shares
        rows = [("", self._heading, "share")]
        parts = {**self.parts, "total": self.total}
        return rows + [(words(n), summary(a, self._unit), summary(a / everything, "%")) for n, a in parts.items()]


def amounts(what: str, each: str, parts: Mapping) -> Mapping[str, float]:
    """Return amounts by name from numbers and pairs of a count and the amount of one, as ``load`` and ``bill`` do.

    Examples
    --------
    >>> dict(amounts("load", "watts", {"GPUs": (8, 700), "fans": 1020}))
    {'GPUs': 5600.0, 'fans': 1020.0}
    """
    if not parts:
        raise ValueError(f"{what} needs at least one part, as name={each} or name=(count, {each} each)")
    total = {}
    for name, part in parts.items():
        count, one = part if isinstance(part, tuple) and len(part) == 2 else (1.0, part)
        number, amount = nonnegative(**{f"{name} count": count, name: one})
        total[name] = number * amount
    return MappingProxyType(total)


def tabulate(columns: Mapping[str, object], units: str | Mapping[str, str] = "", digits: int = 3) -> Table:
    """Set values side by side: a column for each name, a row for each value.

    Parameters
    ----------
    columns : mapping
        Heading to values: a sequence or an array of n numbers or texts, or one of either for all n rows. None is an
        empty cell.
    units : str or mapping
        Unit of the numbers, as for :func:`fmt`: one for all columns, or one by heading.
    digits : int
        Significant digits of numbers.

    Returns
    -------
    Table

    Raises
    ------
    ValueError
        There is no column, columns differ in length, have no rows or more than one dimension, or a unit has no column.

    Examples
    --------
    >>> n = np.array([2, 8, 64])
    >>> tabulate({"ranks": n, "sent": 2 * (n - 1) / n * GB}, units={"sent": "B"})
    ranks     sent
    2         1 GB
    8      1.75 GB
    64     1.97 GB
    """
    if not isinstance(units, str) and (unknown := set(units) - set(columns)):
        raise ValueError(f"a unit for {min(unknown)!r}, but the columns are {', '.join(columns)}")
    lists = {name: _cells(name, values) for name, values in columns.items()}
    lengths = {name: len(cells) for name, cells in lists.items() if isinstance(cells, list)}
    if len(set(lengths.values())) > 1 or not all(lengths.values()) or not lists:
        listed = ", ".join(f"{name} {length}" for name, length in lengths.items()) or "none"
        raise ValueError(f"a table needs columns of one length, and at least one row; got {listed}")
    count = max(lengths.values(), default=1)
    texts = []
    for name, cells in lists.items():
        unit = units if isinstance(units, str) else units.get(name, "")
        column = cells if isinstance(cells, list) else [cells] * count
        texts.append([_cell(value, unit, digits) for value in column])
    return Table((tuple(lists), *zip(*texts, strict=True)))


def _cells(name: str, values):
    """A column as a list, or the one value of all its rows."""
    if values is None or isinstance(values, str) or not np.ndim(values):
        return values
    if np.ndim(values) > 1:
        raise ValueError(f"a column has one dimension, but {name} has shape {np.shape(values)}")
    return list(values)


def _cell(value, unit: str, digits: int) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else fmt(value, unit, digits)
