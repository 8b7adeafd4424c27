"""What software of post-training takes: constants that no law counts, each with what it rests on."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from ..catalogue import Fact, Sourced, read_records, stored
from ..quantities import Number


@dataclass(frozen=True, repr=False)
class LoopConstant(Sourced):
    """One constant of a loop's software: its ``value``, and between what it lies (``low``, ``high``).

    Examples
    --------
    >>> LOOP_CONSTANTS["turns"].low, LOOP_CONSTANTS["turns"].value, LOOP_CONSTANTS["turns"].high
    (45.0, 45.0, 50.0)
    """

    value: Number
    low: Number
    high: Number

    def __post_init__(self) -> None:
        """Refuse a value that is not between its ends."""
        super().__post_init__()
        if not self.low <= self.value <= self.high:
            raise ValueError(f"value must lie from low to high, got {self.value:g} of {self.low:g} and {self.high:g}")


def read_loops(document: Mapping) -> dict[str, dict[str, LoopConstant]]:
    """Build the constants of a parsed ``loops.toml``, refusing whatever rests on nothing.

    Parameters
    ----------
    document
        Tables ``sources`` and ``constant``, in the form of :func:`clusterlab.catalogue.read_records`.

    Returns
    -------
    dict
        ``{"constant": {name: LoopConstant}}``
    """

    def of(name: str, facts: dict[str, Fact], _: Mapping) -> LoopConstant:
        values = {key: LoopConstant.read(key, fact.printed) for key, fact in facts.items()}
        return LoopConstant(name=name, facts=MappingProxyType(facts), **values)

    return read_records(document, "loop", {"constant": of})


LOOP_CONSTANTS: Mapping[str, LoopConstant] = MappingProxyType(
    read_loops(tomllib.loads(stored("loops.toml")))["constant"]
)
"""Constants of software by name; those that were fitted, by :mod:`clusterlab.evidence`."""
