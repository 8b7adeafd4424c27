"""Records: results that explain themselves, as aligned text, as an HTML table, and with their interval."""

from __future__ import annotations

import html
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import reduce
from operator import add
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar, Self, TypeVar

import numpy as np

from .checks import Numeric, nonnegative
from .units import fmt

if TYPE_CHECKING:
    from pandas import DataFrame

T = TypeVar("T")

# --- Records that explain themselves ---------------------------------------------------------------------------------


def summary(value: Numeric, unit: str = "", digits: int = 3) -> str:
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


def count_values(array: Numeric) -> str:
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


def with_interval(value: Numeric, low: Numeric, high: Numeric, unit: str = "", digits: int = 3) -> str:
    """A predicted number with its interval, as every record writes it; the unit stands once where it is the same.

    Examples
    --------
    >>> with_interval(6.04, 5.44, 6.78, "s"), with_interval(0.93, 0.88, 0.983, "%", digits=2)
    ('6.04 s (5.44 to 6.78)', '93% (88 to 98)')
    """
    if any(np.ndim(one) for one in (value, low, high)):
        return f"{summary(value, unit)} ({fmt(np.min(low), unit, digits)} to {fmt(np.max(high), unit, digits)})"
    first, *ends = (fmt(one, unit, digits) for one in (value, low, high))
    written, *others = (_unit_of(one) for one in (first, *ends))
    if written and {written} == set(others):
        ends = [one.replace(written, "", 1) for one in ends]
    return f"{first} ({' to '.join(ends)})"


def _unit_of(text: str) -> str:
    """What stands behind a number that fmt wrote; a figure's note at its end is none of it."""
    return re.sub("[\U000f0000-\U000ffffd]", "", text).lstrip("-0123456789.,")


def say(record: object, name: str, unit: str = "") -> str:
    """A number of a record with its interval, in words, where the record has ``NAME_low`` and ``NAME_high`` beside it.

    A number that is not known is the empty text, and one whose ends are not known stands alone.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> from clusterlab.units import day
    >>> say(SimpleNamespace(time=80 * day, time_low=73 * day, time_high=240 * day), "time", "s")
    '80 d (73 to 240)'
    """
    value, low, high = (getattr(record, key, math.nan) for key in (name, f"{name}_low", f"{name}_high"))
    if not math.isfinite(value):
        return ""
    return with_interval(value, low, high, unit) if low < high else fmt(value, unit)


Rows = Sequence[Sequence[str]]  # of text; the first is the heading
Value = str | float | bool | None  # a stored value, or an input
Json = Mapping[str, "Json"] | Sequence["Json"] | Value


class Explained:
    """Mixin for frozen records: a text table as ``repr``, an HTML table in a notebook.

    A record says what it is by ``_rows()``, a list of rows of text. The first row is the heading. By default a row
    is a dataclass field and its value, or what ``_shown`` names, with its unit (``"#"``: a whole number).
    """

    _shown: ClassVar[Mapping[str, str]] = MappingProxyType({})

    def _rows(self) -> Rows:
        if self._shown:
            cells = ((words(name), getattr(self, name), unit) for name, unit in self._shown.items())
            whole = ((name, np.asarray(x).astype(int)[()] if unit == "#" else x, unit) for name, x, unit in cells)
            return [("", "value"), *((name, summary(x, unit.strip("#"))) for name, x, unit in whole)]
        return [("", "value"), *((words(f.name), str(getattr(self, f.name))) for f in fields(self))]  # type: ignore[arg-type]  # a dataclass mixes it in

    def as_dict(self) -> dict[str, object]:
        """Every number and name of the record by name, records within it as dicts: its fields, and what follows.

        What a record works out only when asked, as a plan's front, is not in it.

        Examples
        --------
        >>> Parts({"GPUs": 5600.0, "fans": 1020.0}).as_dict()
        {'parts': {'GPUs': 5600.0, 'fans': 1020.0}, 'total': 6620.0}
        """
        held = {f.name: getattr(self, f.name) for f in fields(self) if not f.name.startswith("_")}  # type: ignore[arg-type]  # a dataclass mixes it in
        found = {name: _plain(value) for name, value in held.items() if not callable(value)}
        for kind in reversed(type(self).__mro__):
            for name, value in vars(kind).items():
                if isinstance(value, property) and not name.startswith("_") and name != "with_interval":
                    try:
                        got = getattr(self, name)
                    except (NotImplementedError, ValueError):  # it has none
                        continue
                    if isinstance(got, str | bool | int | float | np.ndarray | np.generic):
                        found[name] = _plain(got)
        return found

    def to_frame(self) -> DataFrame:
        """The record as a frame of pandas: a row for each element of its arrays, or one; names within it by a dot.

        Raises
        ------
        ImportError
            There is no pandas, which the library doesn't need otherwise.
        """
        return _frame([self.as_dict()])

    def __repr__(self) -> str:
        """Return the table as aligned text."""
        return f"{type(self).__name__}\n{aligned(self._rows())}"

    def _repr_html_(self) -> str:
        def line(row: Sequence[str], tag: str) -> str:
            tags = [tag if cell else "td" for cell in row]  # an empty cell is not a heading
            return "<tr>" + "".join(f"<{t}>{html.escape(c)}</{t}>" for t, c in zip(tags, row, strict=True)) + "</tr>"

        head, *body = self._rows()
        inside = "".join(line(row, "td") for row in body)
        # JupyterLab would set what stands between two dollars as a formula.
        parts = f"<thead>{line(head, 'th')}</thead><tbody>{inside}</tbody>"
        return f'<table class="dataframe mathjax_ignore">{parts}</table>'


def listed(record: Explained, unit: str, heading: str, *more: str) -> Rows:
    """Rows of a record of parts: each field that is there, and further names, all of one unit."""
    parts = {name: getattr(record, name) for name in (*(f.name for f in fields(record)), *more)}  # type: ignore[arg-type]  # a dataclass
    return [("", heading), *((words(name), summary(value, unit)) for name, value in parts.items() if np.any(value))]


def least(values: Mapping[str, Numeric], most: bool = False) -> tuple[Numeric, Numeric]:
    """The least of values by name, or the most, and its name; of arrays, element by element.

    Examples
    --------
    >>> least({"ring": 3.0, "tree": 2.0})[1], least({"ring": 3.0, "tree": 2.0}, most=True)[1]
    ('tree', 'ring')
    """
    at, of = (np.argmax, np.maximum) if most else (np.argmin, np.minimum)
    names = np.array(list(values))[at(np.broadcast_arrays(*values.values()), axis=0)]
    return reduce(of, values.values()), str(names) if np.ndim(names) == 0 else names


def pairs_of(what: str, of: str, given: Mapping[str, object]) -> Iterator[tuple[str, Numeric, Numeric]]:
    """Each name with the two numbers of its pair; a ValueError where there is none, or one is no pair."""
    if not given:
        raise ValueError(f"{what}, as name=({of})")
    for name, pair in given.items():
        if not (isinstance(pair, Sequence | np.ndarray) and len(pair) == 2) or isinstance(pair, str):
            raise ValueError(f"{name} must be a pair ({of}), got {pair!r}")
        yield name, pair[0], pair[1]


def _plain(value: object) -> object:
    """A value of a record as a dict holds it: records and mappings as dicts, NumPy's own numbers as Python's."""
    if isinstance(value, Explained):
        return value.as_dict()
    if isinstance(value, Mapping):
        return {name: _plain(one) for name, one in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(one) for one in value]
    return value.item() if isinstance(value, np.generic) else value


def frame_of(records: Sequence[Explained]) -> DataFrame:
    """Records of one kind as a frame of pandas, one under the other: see :meth:`Explained.to_frame`."""
    return _frame([one.as_dict() for one in records])


def _frame(dicts: Sequence[Mapping[str, object]]) -> DataFrame:
    """A frame of the rows that dicts of numbers, arrays and dicts are."""
    try:
        import pandas
    except ImportError:
        raise ImportError("to_frame needs pandas: install it, or take as_dict()") from None
    rows = [_columns(one) for one in dicts]
    names = dict.fromkeys(name for row in rows for name in row)
    return pandas.DataFrame({name: np.concatenate([_column(row, name) for row in rows]) for name in names})


def _columns(values: Mapping[str, object], before: str = "") -> dict[str, np.ndarray]:
    """The numbers and texts of nested dicts as columns of one length; what is a list or neither is left out."""
    found: dict[str, np.ndarray] = {}
    for name, value in values.items():
        if isinstance(value, Mapping):
            found |= _columns(value, f"{before}{name}.")
        elif isinstance(value, str | bool | int | float | np.ndarray) or value is None:
            found[f"{before}{name}"] = np.asarray(value)
    if before:
        return found
    shapes = Counter(one.shape for one in found.values() if one.shape)
    count = shapes.most_common(1)[0][0] if shapes else (1,)  # that of most arrays: others are of something else
    kept = {name: one for name, one in found.items() if one.shape in ((), count)}
    return {name: np.broadcast_to(one, count).ravel() for name, one in kept.items()}


def _column(row: Mapping[str, np.ndarray], name: str) -> np.ndarray:
    """A column of a row or more; None where they lack it."""
    return row[name] if name in row else np.full(len(next(iter(row.values()))), None)


def record(kind: type[T], values: Mapping[str, object]) -> T:
    """Return a record of these values, which nothing checks: all fields at once, not one by one as a dataclass does."""
    made = object.__new__(kind)
    made.__dict__.update(values)
    return made


class Predicted(Explained):
    """Mixin for records that predict a measurement: one number of theirs carries an 80 % interval.

    Of runs that no constant has seen, one in ten is below ``low`` and one in ten above ``high``
    (:data:`clusterlab.catalogue.PREDICTION_INTERVALS`). A record says the number, its ends and their unit by
    ``_predicted()``, and by ``_follow`` what rises and falls with it (1), or against it (-1): name to unit and
    direction.
    """

    _follow: ClassVar[Mapping[str, tuple[str, int]]] = MappingProxyType({})

    def _predicted(self) -> tuple[Numeric, Numeric, Numeric, str]:
        raise NotImplementedError

    def say(self, name: str) -> str:
        """Another number of the record with its interval, in words: ``step.say("mfu")`` is ``39.3% (35.3 to 43)``."""
        if name not in self._follow:
            raise ValueError(f"name must be one of {', '.join(self._follow)}; got {name!r}")
        unit, direction = self._follow[name]
        number, (centre, low, high, _) = getattr(self, name), self._predicted()
        if not np.all(centre):  # nobody is served
            return summary(number, unit)
        ends = (low / centre, high / centre) if direction > 0 else (centre / high, centre / low)
        return with_interval(number, number * ends[0], number * ends[1], unit)

    @property
    def low(self) -> Numeric:
        """The lower end of the 80 % interval."""
        return self._predicted()[1]

    @property
    def high(self) -> Numeric:
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

    def _rows(self) -> Rows:
        return list(self.rows)

    def to_frame(self) -> DataFrame:
        """The rows of text under their heading as a frame of pandas."""
        heading, *rows = self.rows
        return _frame([dict(zip(heading, row, strict=True)) for row in rows])

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
    def total(self) -> Numeric:
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

    def __rmul__(self, times: Numeric) -> Self:
        """Return ``times`` as much of every part."""
        return type(self)(MappingProxyType({name: times * amount for name, amount in self.parts.items()}))

    __mul__ = __rmul__

    def _rows(self) -> Rows:
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

    Examples
    --------
    >>> from clusterlab.units import GB
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


def _cells(name: str, values: Sequence | Numeric | None) -> Sequence | Numeric | None:
    """A column as a list, or the one value of all its rows."""
    if values is None or isinstance(values, str) or not np.ndim(values):
        return values
    if np.ndim(values) > 1:
        raise ValueError(f"a column has one dimension, but {name} has shape {np.shape(values)}")
    return list(values)


def _cell(value: Numeric | str | None, unit: str, digits: int) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else fmt(value, unit, digits)
