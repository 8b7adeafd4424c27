"""Models: the shapes of published decoders, each with its source and its published number of parameters.

The numbers live in ``data/models.toml``. A published number of parameters is written as its source prints it
(``"405 billion"``, or all digits); :meth:`Published.agrees` compares it with what the shape gives.
``python -m clusterlab.models`` prints the catalogue with that comparison and fails on a gap.
"""

from __future__ import annotations

import argparse
import re
import sys
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from importlib.resources import files
from pathlib import Path
from types import MappingProxyType

from .hardware import CHECKED, KINDS, Fact, find, read_facts, read_sources
from .transformer import Transformer, parameters
from .units import Explained, fmt

_SHAPE = {f.name for f in fields(Transformer)} - {"name"}
_SIZES = {"": 1, "million": 10**6, "billion": 10**9, "trillion": 10**12}


@dataclass(frozen=True)
class Published:
    """A printed number of parameters and how far another count may be from it and still agree.

    A number with all digits must agree to 1 in a million, a rounded one to one unit of its last digit (some sources
    round, some cut off).
    """

    printed: str | int
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

    def _rows(self):
        rows = [(key.replace("_", " "), str(f.printed), f.kind, f.source.title) for key, f in self.facts.items()]
        return [(self.name, "value", "kind", "source"), *rows]


def _published(key: str, fact: Fact, tolerance) -> Published:
    """Read ``671026419200`` or ``"671 billion"``."""
    match = re.fullmatch(r"(\d+(?:\.(\d+))?)(?: (million|billion|trillion))?", str(fact.printed))
    if not match:
        raise ValueError(f"{key} must be a number, or one like '7.5 billion', got {fact.printed!r}")
    size = _SIZES[match[3] or ""]
    count = float(match[1]) * size
    unit = size * 10.0 ** -len(match[2] or "") if match[3] else 1e-6 * count
    return Published(fact.printed, count, unit if tolerance is None else tolerance.printed * count)


def load(document: Mapping) -> dict[str, Entry]:
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
        With every gap found: a number without a source, an unknown field, a shape that is none, or one whose parameters
        are not the published ones.
    """
    gaps = [f"unknown table {name!r}" for name in document if name not in ("sources", "model")]
    sources, missing = read_sources(document)
    gaps += missing
    entries = {}
    for name, row in document.get("model", {}).items():
        facts, missing = read_facts(f"model {name}", row, sources)
        gaps += missing
        try:
            entry = _entry(name, facts)
        except (TypeError, ValueError) as error:
            gaps.append(f"model {name}: {error}")
            continue
        entries[name] = entry
        gaps += [f"model {gap}" for gap in entry.gaps]
    if gaps:
        raise ValueError("model data:\n" + "\n".join(gaps))
    return entries


def _entry(name: str, facts: Mapping[str, Fact]) -> Entry:
    others = ("year", "parameters", "active_parameters", "tolerance")
    unknown = set(facts) - _SHAPE - set(others)
    needed = {"year", "parameters"} - set(facts)
    if unknown or needed:
        raise ValueError(f"unknown fields {sorted(unknown)}, missing fields {sorted(needed)}")
    shape = Transformer(**{key: fact.printed for key, fact in facts.items() if key not in others}, name=name)
    total, active = (
        _published(key, facts[key], facts.get("tolerance")) if key in facts else None
        for key in ("parameters", "active_parameters")
    )
    return Entry(shape, facts["year"].printed, total, active, MappingProxyType(dict(facts)))


@cache
def _entries() -> dict[str, Entry]:
    return load(tomllib.loads((files(__package__) / "data" / "models.toml").read_text(encoding="utf-8")))


def plain(name: object) -> str:
    """Return a name without case and punctuation, but where it parts two numbers: LLAMA3.1_405B is Llama 3.1 405B."""
    return re.sub(r"[\W_]", "", re.sub(r"(?<=\d)[\W_]+(?=\d)", "x", str(name))).casefold()


def entry(name: str) -> Entry:
    """Return the entry of the model called ``name``; case, spaces, hyphens and dots do not matter.

    Examples
    --------
    >>> entry("mixtral 8x7b").facts["experts"].source.title
    'Mixtral of Experts'
    """
    known = {plain(one): one for one in _entries()}
    return find("model", known.get(plain(name), name), _entries())


def model(name: str) -> Transformer:
    """Return the shape of the model called ``name``; a wrong name raises a ValueError that says the nearest right ones.

    Examples
    --------
    >>> model("LLAMA3.1_405B").layers
    126
    >>> model("Lama 3 8B")
    Traceback (most recent call last):
    ...
    ValueError: unknown model 'Lama 3 8B'; did you mean 'Llama 3 8B' or 'Llama 3.1 8B' or 'Llama 3 70B'?
    """
    return entry(name).shape


def models() -> tuple[Transformer, ...]:
    """Every shape in the catalogue, in the order of the file."""
    return tuple(entry.shape for entry in _entries().values())


def main(argv: list[str] | None = None) -> int:
    """Print each model, its parameters beside the published ones and what they rest on; exit with 1 on a gap."""
    parser = argparse.ArgumentParser(prog="python -m clusterlab.models", description=main.__doc__)
    parser.add_argument("file", nargs="?", help="a TOML file of the same form, instead of the one shipped")
    arguments = parser.parse_args(argv)
    try:
        if arguments.file:
            entries = load(tomllib.loads(Path(arguments.file).read_text(encoding="utf-8")))
        else:
            entries = _entries()
    except (OSError, ValueError) as error:
        print(error, file=sys.stderr)
        return 1
    facts = []
    for one in entries.values():
        counted = parameters(one.shape)
        print(f"\nmodel {one.name}")
        print(f"  {'counted here':<20} {counted.total:<16} active {counted.active}")
        for key, fact in one.facts.items():
            facts.append(fact)
            note = f"  ({fact.note})" if fact.note else ""
            print(f"  {key:<20} {fact.printed!s:<16} {fact.kind:<9} {fact.source.title}, {fact.source.date}{note}")
    kinds = ", ".join(f"{sum(f.kind == kind for f in facts)} {kind}" for kind in KINDS)
    checks = ", ".join(f"{sum(f.source.checked == c for f in facts)} {c}" for c in CHECKED)
    print(f"\n{len(entries)} models, {len(facts)} values, every one with a source: {kinds}; source {checks}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
