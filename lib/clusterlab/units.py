"""Units: SI constants, one formatter, one reader.

Inside the library every quantity is a plain number in SI base units: bytes, seconds, FLOP, watts, joules,
dollars. The constants make numbers readable where they are written (``900 * GB``, ``989 * TFLOP``, ``5 * us``),
:func:`fmt` makes them readable where they are printed, and :func:`parse` reads what a datasheet prints.
Bits appear only there: a ``400 Gbit/s`` port is 50 GB/s from the moment it is read.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from types import MappingProxyType

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
_AUTOMATIC = dict.fromkeys(("B", "B/s", "FLOP", "FLOP/s", "FLOP/J"), _ABOVE_ONE)
_AUTOMATIC |= {"W": ["m", *_ABOVE_ONE], "J": ["µ", "m", *_ABOVE_ONE]}
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
        text = _join(f"{value:,}", unit)
    else:
        # Round before choosing the rung, so that 999.9 GB becomes 1 TB and never 1000 GB.
        magnitude = abs(float(f"{value:.{digits - 1}e}"))
        _, size, name = next(rung for rung in reversed(_ladder(unit)) if magnitude >= rung[0] * (1 - 1e-12))
        text = _join(_digits(value / size, digits), unit if value == 0 else name)
    return text if _note is None else _note(text, value, unit, digits)


# What is told of every number that is written, and what it makes of the text: see noted.
Note = Callable[[str, float, str, int], str]
_note: Note | None = None


@contextmanager
def noted(note: Note) -> Iterator[None]:
    """Tell ``note`` of every number that :func:`fmt` writes: its text, value, unit and digits; write what it returns.

    A figure learns in this way which numbers stand in a text, so that it can write the ones in between.

    Examples
    --------
    >>> with noted(lambda text, value, unit, digits: f"<{text}>"):
    ...     f"a step of {fmt(6.07, 's')}"
    'a step of <6.07 s>'
    """
    global _note
    before, _note = _note, note
    try:
        yield
    finally:
        _note = before


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
