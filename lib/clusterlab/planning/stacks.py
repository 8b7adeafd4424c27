"""Stacks: training software by the names that people give it, and what each version of it does."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache, lru_cache
from types import MappingProxyType
from typing import NamedTuple

from ..catalogue import SOFTWARE, Fact, Software, Sourced, accelerator, find, read_records, stored

Version = tuple[int, ...]


@dataclass(frozen=True, repr=False)
class Stack(Sourced):
    """A training stack by its names, and the record of :class:`Software` that each of its versions is."""

    #: How people write it, between commas; letters and figures count.
    names: str
    #: Stacks that share their code: they are left out together (:func:`clusterlab.evidence.training_protocol`).
    family: str
    #: ``"2021: 2021, 2023: 2023"``: from which year on it is which record.
    years: str
    #: The record where no version is written.
    usual: str
    #: The makers of the machines that it runs on, between commas.
    on: str
    #: Its first year.
    since: int
    #: Whether a run may be by it whose stack nobody named.
    plausible: bool
    #: As ``years``, by releases.
    releases: str = ""

    @staticmethod
    def read(key: str, printed: object) -> str | int | bool:
        """Return a stored value as it is."""
        kind = {"since": int, "plausible": bool}.get(key, str)
        if not isinstance(printed, str | int) or type(printed) is not kind:
            raise ValueError(f"{key} must be {kind.__name__}, got {printed!r}")
        return printed


def read_stacks(document: Mapping) -> dict[str, dict[str, Stack]]:
    """Build every record of a parsed ``stacks.toml``, refusing whatever rests on nothing, and records that are none.

    Raises
    ------
    ValueError
        With every gap found.
    """

    def of(name: str, facts: dict[str, Fact], _row: Mapping) -> Stack:
        values = {key: Stack.read(key, fact.printed) for key, fact in facts.items()}
        made = Stack(name=name, facts=MappingProxyType(facts), **values)  # type: ignore[arg-type]  # each is of its kind
        for _since, record in [*_rules(made.years), *_rules(made.releases), ((), made.usual)]:
            find("software", record, SOFTWARE)
        return made

    return read_records(document, "stack", {"stack": of})


class StackMatch(NamedTuple):
    """A stack as somebody wrote it: which one, in which version (none: empty), and the key of ``SOFTWARE`` it is."""

    stack: Stack
    version: Version
    record: str


def match_stack(text: str, machine: str = "") -> StackMatch | None:
    """Return the stack that a text names, with its version if it has one; None where it names none.

    A version is a release (``0.12``), a year (``2023``) or a container (``25.04``: a year and a month). What stands
    behind a comma, a plus or in brackets may add the year, and else says nothing. A year alone is a stack of that year.

    Parameters
    ----------
    text
        As people write it.
    machine : optional
        The accelerator, where a name means one program on TPUs and another on GPUs.

    Raises
    ------
    ValueError
        The name is unknown; the message says the nearest names, and all that are known.

    Examples
    --------
    >>> for text in ("NeMo 25.04", "Megatron-Core 0.12", "PyTorch FSDP", "Megatron-LM (2022)", "2023"):
    ...     found = match_stack(text)
    ...     print(found.stack.name, found.version, found.record)
    NeMo (2025, 4) NeMo
    Megatron-Core (0, 12) Megatron-Core
    PyTorch FSDP () 2024
    Megatron-LM (2022,) 2022
    of its own (2023,) 2023
    >>> match_stack("not stated")
    """
    head, _, tail = re.sub(r"\s*(?:[(,+;]|\bwith\b)\s*", "\0", str(text).strip(), count=1).partition("\0")
    if re.fullmatch(r"|unknown|not stated|unnamed|any|n/?a|none|-+", head.casefold()):
        return None
    names, key = _spellings(_maker(machine)), _folded(head)
    version: Version = ()
    if key not in names and (found := _VERSIONED.search(head)):
        key, version = _folded(head[: found.start()] + head[found.end() :]), _version(found[1])
        if not key and version[0] > 2000:
            key = "own"
    if key not in names:
        raise ValueError(_unknown(str(text), key, names))
    if not version and (year := re.search(r"(?<!\d)(20[12]\d)(?:[.-](\d\d))?(?!\d)", tail)):
        version = tuple(int(part) for part in year.groups() if part)
    elif not version and (container := re.search(r"container (\d\d)\.(\d\d)", tail)):
        version = _version(f"{container[1]}.{container[2]}")
    stack = names[key]
    return StackMatch(stack, version, record_of(stack, version))


def stack(text: str, machine: str = "") -> Software:
    """Return what a stack does that is called ``text``, as :func:`match_stack` reads it.

    Raises
    ------
    ValueError
        The text names no stack that is known.

    Examples
    --------
    >>> stack("NeMo 25.04").attention, stack("MosaicML").attention
    (1.75, 0.75)
    >>> try:
    ...     stack("torchtitn 2025")
    ... except ValueError as error:
    ...     print(str(error).partition("?")[0])
    unknown software 'torchtitn 2025'; did you mean 'torchtitan' or 'PyTorch torchtitan' or 'PyTorch Lightning'
    """
    found = match_stack(text, machine)
    if found is None:
        raise ValueError(_unknown(str(text), "", _spellings(_maker(machine))))
    return SOFTWARE[found.record]


def record_of(stack: Stack, version: Version) -> str:
    """Return the key of ``SOFTWARE`` that a version of a stack is.

    Examples
    --------
    >>> record_of(STACKS["DeepSpeed"], (0, 9)), record_of(STACKS["DeepSpeed"], (2025, 3))
    ('2023', '2024')
    """
    rules = _rules(stack.years if version and version[0] > 2000 else stack.releases)
    if not version or not rules:
        return stack.usual
    return [record for since, record in rules if since <= version or since == rules[0][0]][-1]


def plausible_stacks(machine: str, *, year: int | None = None, until: int | None = None) -> list[str]:
    """Return the keys of ``SOFTWARE`` that a run on a machine may be by, where nobody says which.

    Parameters
    ----------
    machine
        The accelerator.
    year : optional
        The earliest in which it can have run: that of its model. It is not before the year after the accelerator's.
    until : optional
        The latest; by default two years later.

    Returns
    -------
    list of str
        Each once: stacks that are the same record count as one.

    Examples
    --------
    >>> plausible_stacks("A100 80GB", year=2020, until=2022)
    ['2021', '2022']
    >>> plausible_stacks("H100 SXM", year=2024), plausible_stacks("TPU v5e")
    (['NeMo', 'NeMo 26.06', '2024', 'Megatron-Core', 'torchtitan'], ['MaxText'])
    """
    return list(_plausible_stacks(machine, year, until))


@lru_cache(maxsize=256, typed=True)
def _plausible_stacks(machine: str, year: int | None, until: int | None) -> tuple[str, ...]:
    """Remembered: a table asks for the same few machines and years with every row."""
    maker, chip = _maker(machine), accelerator(machine)
    first = max(year or 0, chip.year + 1)
    last = max(first + 2 if until is None else until, first)
    found: dict[str, None] = {}
    for one in STACKS.values():
        if one.plausible and maker in _listed(one.on):
            years = range(max(first, one.since), last + 1)
            found |= dict.fromkeys(record_of(one, (now, 12)) for now in years)
    return (*found,) or ("2024",)


# --- Names -----------------------------------------------------------------------------------------------------------

_VERSIONED = re.compile(
    r"(?:(?<![a-z0-9])(?:v|r|core_r|version|release|container)\s?|(?<![a-z0-9.]))(\d+(?:[.-]\d+)*)[a-z]*\d*(?![a-z0-9])",
    re.IGNORECASE,
)


def _folded(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.casefold())


def _listed(text: str) -> list[str]:
    return [one.strip() for one in text.split(",") if one.strip()]


def _maker(machine: str) -> str:
    """Whose the machine is, as the table says it; "" where nobody says which machine."""
    if not machine:
        return ""
    vendor = accelerator(machine).vendor
    return "TPU" if machine.startswith("TPU") else vendor if vendor in ("NVIDIA", "AMD") else "other"


@cache
def _spellings(maker: str) -> Mapping[str, Stack]:
    """Every name, folded: the stack that runs on such machines comes before its namesake on others."""
    found: dict[str, Stack] = {}
    for one in sorted(STACKS.values(), key=lambda one: maker not in _listed(one.on)):
        for name in _listed(one.names):
            found.setdefault(_folded(name), one)
    return found


def _version(text: str) -> Version:
    """Figures of a version; 25.04 is April 2025."""
    parts = tuple(int(part) for part in re.split("[.-]", text))
    return (2000 + parts[0], *parts[1:]) if 19 <= parts[0] < 100 and len(parts) > 1 else parts


@cache
def _rules(text: str) -> list[tuple[Version, str]]:
    """Pairs of a version and the record from it on, in order."""
    pairs = (one.partition(":") for one in _listed(text))
    return sorted((_version(since.strip()), record.strip()) for since, _, record in pairs)


def _unknown(text: str, key: str, names: Mapping[str, Stack]) -> str:
    written = {_folded(name): name for one in STACKS.values() for name in _listed(one.names)}
    near = [written[name] for name in get_close_matches(key, names, n=3, cutoff=0.6)]
    hint = f"did you mean {' or '.join(map(repr, near))}? " if near else ""
    known = ", ".join(one.name for one in STACKS.values() if one.name != "MaxText on GPUs")
    return f"unknown software {text!r}; {hint}Known, each with a version or a year behind it: {known}; or a year alone"


STACKS: Mapping[str, Stack] = MappingProxyType(read_stacks(tomllib.loads(stored("stacks.toml")))["stack"])
