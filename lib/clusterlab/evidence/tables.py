"""Published tables: one reader for the measurements that come with the library, each row with its source.

Timed collectives and training runs have records of their own: :func:`clusterlab.evidence.published_timings`
and :func:`clusterlab.evidence.published_runs`.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping
from functools import cache
from importlib.resources import files
from types import MappingProxyType

from ..units import cent, hour, kW, kWh, minute, parse

# What engineers of halls and grids print, in SI units.
_FOOT, _BTU, _GALLON, _GRAM, _LITRE = 0.3048, 1055.05585262, 231 * 0.0254**3, 1e-3, 1e-3
_CUSTOMARY = {
    "CFM": _FOOT**3 / minute,
    "CFM/kW": _FOOT**3 / minute / kW,
    "L/min/kW": _LITRE / minute / kW,
    "Btu/h": _BTU / hour,
    "Btu/gal": _BTU / _GALLON,
    "g/kWh": _GRAM / kWh,
    "cent/kWh": cent / kWh,
    "L/kWh": _LITRE / kWh,
    "t": 1000.0,
}


def _in_si_units(row: Mapping[str, str]) -> dict[str, str | float]:
    """``value`` in SI units, and ``printed`` as the source has it."""
    printed = f"{row['value']} {row['unit']}".strip()
    scale = _CUSTOMARY.get(row["unit"])
    return {**row, "value": float(row["value"]) * scale if scale else parse(printed), "printed": printed}


# Of each table: its columns of numbers (None where the source prints none), and what else is done to a row.
_NUMBERS: Mapping[str, tuple[str, ...]] = {
    "device_measurements": (
        *("m", "k", "n", "output_bytes", "bytes_moved", "batch", "context", "parameters"),
        *("flops_per_second", "bandwidth", "tokens_per_second", "time"),
    ),
    "own_gpu": ("tokens", "context", "m", "n", "k", "kernels", "time", "flops", "bytes", "watts"),
    "failures": ("gpus", "nodes", "period", "low", "high"),
    "operations": ("gpus", "nodes", "period", "low", "high"),
    "contention": ("gpus", "nodes", "period", "low", "high"),
    "power": ("n_accelerators",),
    "economics": (),
}
_CONVERSIONS: Mapping[str, Callable[[dict], dict]] = {"power": _in_si_units, "economics": _in_si_units}


# --- Published tables ------------------------------------------------------------------------------------------------


def published(table: str, **where: str) -> tuple[Mapping, ...]:
    """Rows of a published table, each a mapping with its source; numbers are in SI units, or None where not printed.

    Parameters
    ----------
    table
        ``"device_measurements"`` (single accelerators: ``kind`` gemm, memory or decode), ``"own_gpu"`` (one H100 that
        ``bench/gpu.py`` measured: ``kind`` launch, gemm, attention, decode or training; ``bytes`` of a training step
        are its peak of memory), ``"failures"`` (failures, repairs and checkpoints of large runs: ``run``),
        ``"operations"`` (jobs, waits and use of shared clusters: ``run``), ``"contention"`` (flows and jobs that meet
        on a fabric: ``run``), ``"power"`` (power, cooling, energy, carbon, prices: ``group``) or ``"economics"``
        (bills, training runs, tiers: ``group``). Where there is a ``run``, ``low`` and ``high`` hold the value: equal
        where one number is printed, ``high`` None where the source says "more than".
    **where : str
        Columns and the value that a row must have there.

    Returns
    -------
    tuple of mapping
        The rows in the order of the file.

    Examples
    --------
    >>> row = published("device_measurements", kind="gemm")[0]
    >>> row["accelerator"], row["precision"], row["flops_per_second"]
    ('H800 SXM', 'fp8', 206000000000000.0)
    >>> [row["low"] for row in published("failures", run="Llama 3 405B", metric="interruptions")]
    [466.0]
    >>> published("power", group="carbon_intensity")[0]["printed"]
    '56.039 g/kWh'
    """
    if not isinstance(table, str) or table not in _NUMBERS:
        raise ValueError(f"table must be one of {', '.join(_NUMBERS)}, got {table!r}")
    rows = _rows(table)
    for column, value in where.items():
        if column not in rows[0]:
            raise ValueError(f"no column {column!r} in {table}; there are: {', '.join(rows[0])}")
        known = dict.fromkeys(row[column] for row in _rows(table))
        if not any(value == other for other in known):
            raise ValueError(f"{column} must be one of {', '.join(map(str, known))}, got {value!r}")
        rows = tuple(row for row in rows if row[column] == value)
    return rows


@cache
def _rows(table: str) -> tuple[Mapping, ...]:
    numbers, convert = _NUMBERS[table], _CONVERSIONS.get(table, dict)
    text = (files("clusterlab.evidence") / "data" / f"{table}.csv").read_text(encoding="utf-8")
    rows = [convert(row) for row in csv.DictReader(io.StringIO(text))]
    return tuple(MappingProxyType(row | {n: float(row[n]) if row[n] else None for n in numbers}) for row in rows)
