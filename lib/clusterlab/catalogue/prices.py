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
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType

from ..quantities import (
    Number,
    PositiveDollars,
    PositiveDollarsPerJoule,
    PositiveDollarsPerSecond,
    PositiveDollarsPerWatt,
    PositiveSeconds,
)
from ..units import hour, kWh, parse
from .sources import Sourced, Tables, find, read_records, stored

# --- Data: prices, lives, scaling laws -------------------------------------------------------------------------------

_PER = {"GPU": 1.0, "W": 1.0, "kWh": kWh, "GPU-hour": hour, "W and year": 1.0}


@dataclass(frozen=True, repr=False)
class _Priced(Sourced):
    """Prices, lives and coefficients, in SI units."""

    @staticmethod
    def read(key: str, printed: str | float) -> float:
        """Return a stored value in SI units: a number, a time, or dollars per something."""
        if isinstance(printed, int | float) and not isinstance(printed, bool):
            return float(printed)
        amount, _, per = str(printed).partition(" per ")
        if per not in ("", *_PER):
            raise ValueError(f"{key} must be dollars per {', '.join(_PER)}, got {printed!r}")
        return parse(amount) / _PER.get(per, 1.0)


@dataclass(frozen=True, repr=False)
class PriceList(_Priced):
    """Prices of a cluster: dollars a GPU, dollars a watt of the site, and what runs every year."""

    #: Servers without their GPUs, for each GPU.
    servers: PositiveDollars
    #: For each GPU.
    network: PositiveDollars
    #: For each GPU.
    storage: PositiveDollars
    #: For each watt of the site.
    substation: PositiveDollarsPerWatt
    #: For each watt of the site.
    generators: PositiveDollarsPerWatt
    #: What distributes power, for each watt of the site.
    electrical: PositiveDollarsPerWatt
    #: For each watt of the site.
    cooling: PositiveDollarsPerWatt
    #: The hall, for each watt of the site.
    building: PositiveDollarsPerWatt
    #: For each joule used.
    energy: PositiveDollarsPerJoule
    #: For each joule used.
    water: PositiveDollarsPerJoule
    #: A year, for each watt of the site.
    staff: PositiveDollarsPerWatt
    #: A year, for each watt of the site: maintenance, taxes, insurance.
    operations: PositiveDollarsPerWatt
    #: For each; None of a list that knows no price of a GPU alone: then ``servers`` hold them.
    gpus: PositiveDollars | None = None


@dataclass(frozen=True, repr=False)
class Rent(_Priced):
    """What a GPU is rented for: the price of a second."""

    price: PositiveDollarsPerSecond


@dataclass(frozen=True, repr=False)
class UsefulLife(_Priced):
    """Over how long a company writes its servers off: ``years`` in seconds."""

    years: PositiveSeconds


@dataclass(frozen=True, repr=False)
class ScalingLaw(_Priced):
    r"""Loss of a decoder by its parameters N and training tokens D: :math:`E + A N^{-\alpha} + B D^{-\beta}`.

    ``irreducible`` E, ``parameter_scale`` A, ``parameter_exponent`` alpha, ``token_scale`` B, ``token_exponent`` beta.
    """

    irreducible: Number
    parameter_scale: Number
    parameter_exponent: Number
    token_scale: Number
    token_exponent: Number


_RECORDS: Mapping[str, type[_Priced]] = {
    "price_list": PriceList,
    "rent": Rent,
    "useful_life": UsefulLife,
    "scaling_law": ScalingLaw,
}


def read_prices(document: Mapping) -> Tables:
    """Build every record of a parsed ``economics.toml``, refusing whatever rests on nothing.

    Parameters
    ----------
    document
        Tables ``sources``, ``price_list``, ``rent``, ``useful_life`` and ``scaling_law``, in the form of
        :func:`~clusterlab.catalogue.read_records`.

    Returns
    -------
    dict
        ``{"price_list": {name: PriceList}, "rent": {name: Rent}, ...}``
    """
    return read_records(document, "economics", {table: record.of for table, record in _RECORDS.items()})


@cache
def _records() -> Tables:
    return read_prices(tomllib.loads(stored("economics.toml")))


def add_prices(document: Mapping) -> None:
    """Add tables in the form of ``economics.toml`` to the catalogue, or refuse them as :func:`read_prices` does."""
    for table, rows in read_prices(document).items():
        _records()[table].update(rows)


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
