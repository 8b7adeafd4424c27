"""Models: the shapes of published decoders, each with its source and its published number of parameters.

The numbers live in ``data/models.toml``. A published number of parameters is written as its source prints it
(``"405 billion"``, or all digits); :meth:`Published.agrees` compares it with what the shape gives.
``clusterlab audit`` prints the catalogue with that comparison and fails on a gap.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from math import isfinite
from types import MappingProxyType
from typing import Any

from ..catalogue import Fact, find, read_records, stored
from ..records import Explained, Rows, words
from ..units import fmt
from .blocks import Block
from .counts import parameters
from .shape import Transformer

_SHAPE = {f.name for f in fields(Transformer)} - {"name", "others", "predicting"}
_SIZES = {"": 1, "million": 10**6, "billion": 10**9, "trillion": 10**12}


@dataclass(frozen=True)
class Published:
    """A printed number of parameters and how far another count may be from it and still agree.

    A number with all digits must agree to 1 in a million, a rounded one to one unit of its last digit (some sources
    round, some cut off).
    """

    printed: str | float
    count: float
    tolerance: float  # absolute

    def agrees(self, count: float) -> bool:
        """Whether ``count`` is the printed number within the tolerance."""
        return abs(count - self.count) <= self.tolerance


@dataclass(frozen=True, repr=False)
class Entry(Explained):
    """A model of the catalogue: its shape, its published sizes, and a :class:`.Fact` behind each number."""

    shape: Transformer
    year: int
    total: Published
    active: Published | None  # of a mixture of experts
    facts: Mapping[str, Fact] = field(compare=False)

    @property
    def name(self) -> str:
        """The name of the model."""
        return self.shape.name

    @property
    def gaps(self) -> list[str]:
        """Where a published size is not what the shape gives."""
        counted = parameters(self.shape)
        gaps = []
        if not self.total.agrees(counted.total):
            gaps.append(f"{self.name}: {fmt(counted.total)} parameters, published {self.total.printed}")
        # Some publishers leave the input embedding, a lookup, out of the active parameters.
        if self.active and not any(map(self.active.agrees, (counted.active, counted.active - counted.embedding))):
            gaps.append(f"{self.name}: {fmt(counted.active)} active parameters, published {self.active.printed}")
        return gaps

    def _rows(self) -> Rows:
        rows = [(words(key), str(f.printed), f.kind, f.source.title) for key, f in self.facts.items()]
        return [(self.name, "value", "kind", "source"), *rows]


def _published(key: str, fact: Fact, tolerance: float | None) -> Published:
    """Read ``671026419200`` or ``"671 billion"``."""
    match = re.fullmatch(r"(\d+(?:\.(\d+))?)(?: (million|billion|trillion))?", str(fact.printed))
    if not match:
        raise ValueError(f"{key} must be a number, or one like '7.5 billion', got {fact.printed!r}")
    size = _SIZES[match[3] or ""]
    count = float(match[1]) * size
    if not isfinite(count):
        raise ValueError(f"{key} must be finite, got a number of {len(match[1])} digits")
    unit = size * 10.0 ** -len(match[2] or "") if match[3] else 1e-6 * count
    return Published(fact.printed, count, unit if tolerance is None else tolerance * count)


def read_models(document: Mapping) -> dict[str, Entry]:
    """Build every model of a parsed ``models.toml``, refusing whatever has no source or does not add up.

    Parameters
    ----------
    document : mapping
        Tables ``sources`` and ``model``. A row's own ``source`` and ``kind`` hold for all its fields; a field written
        as a table may name its own. The fields are those of :class:`.Transformer`, and ``year``, ``parameters``,
        ``active_parameters``, and ``tolerance``, a share, where the published size is known to be loose.

    Returns
    -------
    dict
        ``{name: Entry}``

    Raises
    ------
    ValueError
        As :func:`~clusterlab.catalogue.read_records`, and for a shape whose parameters are not the published ones.
    """
    build = {"model": lambda name, facts, _: _entry(name, facts)}

    def faults(records: Mapping[str, Mapping[str, Entry]]) -> list[str]:
        return [f"model {gap}" for entry in records["model"].values() for gap in entry.gaps]

    return read_records(document, "model", build, faults)["model"]


def _entry(name: str, facts: Mapping[str, Fact]) -> Entry:
    values: dict[str, Any] = {key: fact.printed for key, fact in facts.items()}
    others = _others(values)
    sizes = {key: values.pop(key, None) for key in ("year", "parameters", "active_parameters", "tolerance")}
    unknown = set(values) - _SHAPE
    needed = {key for key in ("year", "parameters") if sizes[key] is None}
    if unknown or needed:
        raise ValueError(f"unknown fields {sorted(unknown)}, missing fields {sorted(needed)}")
    year, tolerance = sizes["year"], sizes["tolerance"]
    if type(year) is not int or year < 1:
        raise ValueError(f"year must be a whole number above zero, got {year!r}")
    if tolerance is not None and not (type(tolerance) is float and 0 < tolerance < 1):
        raise ValueError(f"tolerance must be a share above 0 and below 1, got {tolerance!r}")
    if lists := [key for key, value in values.items() if isinstance(value, list)]:
        raise ValueError(f"{lists[0]} must be one number, got {values[lists[0]]!r}")
    shape = Transformer(**values, others=others, name=name)
    total, active = (
        _published(key, facts[key], tolerance) if key in facts else None for key in ("parameters", "active_parameters")
    )
    assert total is not None
    return Entry(shape, year, total, active, MappingProxyType(dict(facts)))


def _mixers() -> dict[str, type[Block]]:
    """The kinds of blocks that may stand in attention's place, by the prefix of their fields."""
    found: dict[str, type[Block]] = {}
    left: list[type[Block]] = [Block]
    while left:
        for kind in left.pop().__subclasses__():
            left.append(kind)
            if "prefix" in vars(kind):
                found[kind.prefix] = kind
    return found


def _others(values: dict[str, Any]) -> tuple[tuple[int, Block], ...]:
    """Take the fields of mixers, which begin with the prefix of their kind, out of a row."""
    found = []
    for prefix, kind in _mixers().items():
        own = {key.removeprefix(f"{prefix}_"): values.pop(key) for key in list(values) if key.startswith(f"{prefix}_")}
        if own and "layers" not in own:
            raise ValueError(f"missing field {prefix}_layers")
        if own:
            if unknown := set(own) - {f.name for f in fields(kind)} - {"layers"}:
                raise ValueError(f"unknown fields {sorted(f'{prefix}_{key}' for key in unknown)}, missing fields []")
            found += [(each.pop("layers"), kind(**each)) for each in _one_by_one(own)]
    return tuple(found)


def _one_by_one(row: dict[str, Any]) -> list[dict[str, Any]]:
    """The rows that a row stands for whose fields are lists of one length: one for each place."""
    if len(lengths := {len(value) for value in row.values() if isinstance(value, list)}) > 1:
        raise ValueError(f"lists must be of one length, got {' and '.join(map(str, sorted(lengths)))}")
    each = range(max(lengths, default=1))
    return [{key: value[i] if isinstance(value, list) else value for key, value in row.items()} for i in each]


@cache
def _entries() -> dict[str, Entry]:
    return read_models(tomllib.loads(stored("models.toml")))


def normalize_name(name: object) -> str:
    """Return a name without case and punctuation, except between two numbers.

    Examples
    --------
    >>> normalize_name("LLAMA3.1_405B") == normalize_name("Llama 3.1 405B")
    True
    """
    return re.sub(r"[\W_]", "", re.sub(r"(?<=\d)[\W_]+(?=\d)", "x", str(name))).casefold()


@cache
def _by_normalized_name() -> dict[str, Entry]:
    return {normalize_name(name): entry for name, entry in _entries().items()}


def match_model(text: str) -> Entry | None:
    """Return the entry of the model called ``text``, as :func:`entry`; None where the catalogue lacks it.

    Examples
    --------
    >>> match_model("llama3 8b").name, match_model("Lama 3 8B")
    ('Llama 3 8B', None)
    """
    return _by_normalized_name().get(normalize_name(text))


def entry(name: str) -> Entry:
    """Return the entry of the model called ``name``; case, spaces, hyphens and dots do not matter.

    Examples
    --------
    >>> entry("mixtral 8x7b").facts["experts"].source.title
    'Mixtral of Experts'
    """
    return match_model(name) or find("model", name, _entries())


def transformer(name: str) -> Transformer:
    """Return the shape of the model called ``name``; a wrong name raises a ValueError that says the nearest right ones.

    Examples
    --------
    >>> transformer("LLAMA3.1_405B").layers
    126
    >>> transformer("Lama 3 8B")
    Traceback (most recent call last):
    ...
    ValueError: unknown model 'Lama 3 8B'; did you mean 'Llama 3 8B' or 'Llama 3.1 8B' or 'Llama 3 70B'?
    """
    return entry(name).shape


def transformers() -> tuple[Transformer, ...]:
    """Every shape in the catalogue, in the order of the file."""
    return tuple(entry.shape for entry in _entries().values())
