"""Hardware of one's own: a TOML beside the catalogue, audited as the catalogue is."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path

from .. import catalogue
from ..catalogue.prices import add_prices

VARIABLE = "CLUSTERLAB_HARDWARE"  # in the environment: the path of a TOML that every program here uses
_HARDWARE = ("accelerator", "memory", "link", "node", "rack")
_PRICES = ("price_list", "rent", "useful_life", "scaling_law")


def use_hardware(text: str, name: str = "the file") -> dict[str, list[str]]:
    r"""Add the records of a TOML to the catalogue, for as long as this program runs.

    Parameters
    ----------
    text
        Tables ``accelerator``, ``link``, ``node``, ``rack``, ``memory``, and of prices ``price_list``, ``rent``, in the
        form of the catalogue's ``hardware.toml`` and ``economics.toml``. Without a table ``sources``, and rows that
        name none, the source is the file itself and its numbers are ``assumed``. A record of a known name replaces it.
    name
        The file, for messages and as the source.

    Returns
    -------
    dict
        The names that were added, by table.

    Raises
    ------
    ValueError
        The text is no TOML, has a table that is none of these, or a number without its unit or source; every gap is
        named.

    Examples
    --------
    >>> use_hardware('[link."My fabric"]\nbandwidth = "25 GB/s"', "mine.toml")
    {'link': ['My fabric']}
    >>> catalogue.link("my fabric").bandwidth
    25000000000.0
    """
    try:
        document = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ValueError(f"{name}: not TOML: {error or 'nested too deeply'}") from None
    if unknown := set(document) - {"sources", *_HARDWARE, *_PRICES}:
        known = ", ".join((*_HARDWARE, *_PRICES, "sources"))
        raise ValueError(f"{name}: unknown table {', '.join(sorted(map(repr, unknown)))}; known: {known}")
    for table, rows in document.items():
        for key, row in rows.items() if isinstance(rows, Mapping) else ():
            called = row.get("aliases", "") if isinstance(row, Mapping) else ""
            if not isinstance(called, str) or not re.fullmatch(r"[\w ,.+-]*", called):
                raise ValueError(f"{name}: {table} {key}: aliases must be names between commas, got {called!r}")
    filled = {table: _with_source(rows) for table, rows in document.items() if table != "sources"}
    own = {"title": name, "document": name, "date": "own", "checked": "read"}
    sources = {**document.get("sources", {}), "own": own}
    try:
        hardware = {table: rows for table, rows in filled.items() if table in _HARDWARE}
        prices = {table: rows for table, rows in filled.items() if table in _PRICES}
        catalogue.add_hardware({"sources": sources, **hardware})
        add_prices({"sources": sources, **prices})
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None
    found = {table: list(rows) for table, rows in filled.items() if isinstance(rows, Mapping) and rows}
    if not found:
        raise ValueError(f'{name}: there is no record in it: a table such as [accelerator."Mine"]')
    return found


def _with_source(rows: object) -> object:
    """Rows that name no source have the file itself, and numbers that are assumed."""
    if not isinstance(rows, Mapping):
        return rows
    usual = {"source": "own", "kind": "assumed"}
    return {key: {**usual, **row} if isinstance(row, Mapping) else row for key, row in rows.items()}


def use_hardware_of_environment() -> None:
    """Add the records of the TOML that ``CLUSTERLAB_HARDWARE`` names, if it names one."""
    if path := os.environ.get(VARIABLE):
        use_hardware(Path(path).read_text(encoding="utf-8"), path)
