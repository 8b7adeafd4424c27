r"""Economics: what a cluster costs, what a unit of its work costs, and what that work is spent on.

A :class:`Bill` is dollars by named part, as a load is watts. Building costs once and is paid off over a life
(:func:`annuity`); energy and operations cost every year; all of it is divided by what came out (:func:`cost_per`).
Money is in dollars of the day, before taxes, and yearly amounts are dollars a year.

Prices, useful lives and scaling laws are data: ``data/economics.toml`` has each with its source and date. Prices age
within months. Every law takes them as arguments; ``dataclasses.replace`` makes a what-if of a list.

The ledger counts FLOPs: 6 for each parameter and token trained on, 2 for each one generated or read.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from types import MappingProxyType
from typing import Any

from ..checks import positive
from ..units import hour, kWh, parse
from .sources import Sourced, find, read_records, stored

# --- Data: prices, lives, scaling laws -------------------------------------------------------------------------------

_PER = {"GPU": 1.0, "W": 1.0, "kWh": kWh, "GPU-hour": hour, "W and year": 1.0}


@dataclass(frozen=True, repr=False)
class _Priced(Sourced):
    """Prices, lives and coefficients: numbers above zero."""

    def __post_init__(self) -> None:
        """Refuse what cannot be a price, a life or a coefficient."""
        positive(**{f.name: getattr(self, f.name) for f in fields(self)[2:] if getattr(self, f.name) is not None})

    @staticmethod
    def read(key: str, printed: Any) -> float:
        """Return a stored value in SI units: a number, a time, or dollars per something."""
        if isinstance(printed, int | float) and not isinstance(printed, bool):
            return float(printed)
        amount, _, per = str(printed).partition(" per ")
        if per not in ("", *_PER):
            raise ValueError(f"{key} must be dollars per {', '.join(_PER)}, got {printed!r}")
        return parse(amount) / _PER.get(per, 1.0)


@dataclass(frozen=True, repr=False)
class PriceList(_Priced):
    """Prices of a cluster: dollars a GPU, dollars a watt of the site, and what runs every year.

    ``gpus``, ``servers`` (without their GPUs), ``network`` and ``storage``: $ for each GPU. A list that knows no price
    of a GPU alone has ``gpus`` None, and ``servers`` hold them. ``substation``, ``generators``, ``electrical`` (what
    distributes power), ``cooling`` and ``building`` (the hall): $ for each watt of the site. ``energy`` and ``water``:
    $ for each joule used. ``staff`` and ``operations`` (maintenance, taxes, insurance): $ a year for each watt.
    """

    servers: float
    network: float
    storage: float
    substation: float
    generators: float
    electrical: float
    cooling: float
    building: float
    energy: float
    water: float
    staff: float
    operations: float
    gpus: float | None = None


@dataclass(frozen=True, repr=False)
class Rent(_Priced):
    """What a GPU is rented for: ``price`` in dollars for each second."""

    price: float


@dataclass(frozen=True, repr=False)
class UsefulLife(_Priced):
    """Over how long a company writes its servers off: ``years`` in seconds."""

    years: float


@dataclass(frozen=True, repr=False)
class ScalingLaw(_Priced):
    r"""Loss of a decoder by its parameters N and training tokens D: :math:`E + A N^{-\alpha} + B D^{-\beta}`.

    ``irreducible`` E, ``parameter_scale`` A, ``parameter_exponent`` alpha, ``token_scale`` B, ``token_exponent`` beta.
    """

    irreducible: float
    parameter_scale: float
    parameter_exponent: float
    token_scale: float
    token_exponent: float


_RECORDS: Mapping[str, type] = {
    "price_list": PriceList,
    "rent": Rent,
    "useful_life": UsefulLife,
    "scaling_law": ScalingLaw,
}


def load(document: Mapping) -> dict[str, dict[str, Any]]:
    """Build every record of a parsed ``economics.toml``, refusing whatever rests on nothing.

    Parameters
    ----------
    document : mapping
        Tables ``sources``, ``price_list``, ``rent``, ``useful_life`` and ``scaling_law``, in the form of
        :func:`clusterlab.catalogue.hardware.load`.

    Returns
    -------
    dict
        ``{"price_list": {name: PriceList}, "rent": {name: Rent}, ...}``

    Raises
    ------
    ValueError
        With every gap found: a value without a source, an unknown or missing field, a value that cannot be one.
    """

    def built(record):
        def of(name, facts, _):
            values = {key: record.read(key, fact.printed) for key, fact in facts.items()}
            return record(name=name, facts=MappingProxyType(facts), **values)

        return of

    return read_records(document, "economics", {table: built(record) for table, record in _RECORDS.items()})


@cache
def _records() -> dict[str, dict[str, Any]]:
    return load(tomllib.loads(stored("economics.toml")))


PRICE_LISTS: Mapping[str, PriceList] = MappingProxyType(_records()["price_list"])
RENTS: Mapping[str, Rent] = MappingProxyType(_records()["rent"])
USEFUL_LIVES: Mapping[str, UsefulLife] = MappingProxyType(_records()["useful_life"])
SCALING_LAWS: Mapping[str, ScalingLaw] = MappingProxyType(_records()["scaling_law"])


def price_list(name: str) -> PriceList:
    """Return the price list called ``name``; a wrong name raises a ValueError that says the nearest right ones.

    Examples
    --------
    >>> round(price_list("GB200 NVL72").network)
    10653
    """
    return find("price list", name, PRICE_LISTS)
