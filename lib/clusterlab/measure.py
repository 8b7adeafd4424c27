"""Measure: the reader's own machine on the roofline, and published measurements to hold the laws against.

What :func:`matmul_rate` and :func:`triad_bandwidth` return differs from run to run: never compare it in a test.
"""

from __future__ import annotations

import csv
import platform
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from types import MappingProxyType

import numpy as np

from .roofline import matmul
from .units import Explained, cent, fmt, hour, kW, kWh, minute, parse, positive, whole


@dataclass(frozen=True, repr=False)
class Rate(Explained):
    """A rate measured several times, in SI units per second.

    ``best`` is the figure for a roof: interference only ever slows a run. ``median`` is what to expect.
    """

    what: str
    where: str
    unit: str
    runs: tuple[float, ...]

    @property
    def best(self) -> float:
        """The fastest run."""
        return max(self.runs)

    @property
    def median(self) -> float:
        """The middle run."""
        return float(np.median(self.runs))

    @property
    def spread(self) -> float:
        """Distance from the slowest to the fastest run, as a share of the median."""
        return (max(self.runs) - min(self.runs)) / self.median

    def _rows(self):
        return [
            (self.what, self.where),
            ("best", fmt(self.best, self.unit)),
            ("median", fmt(self.median, self.unit)),
            ("spread", fmt(self.spread, "%", digits=2)),
            ("runs", str(len(self.runs))),
        ]


def matmul_rate(m: int, k: int, n: int, *, seconds: float = 1.0) -> Rate:
    """Measured rate of an (m x k) by (k x n) matrix product on this machine, FLOP/s.

    PyTorch in BF16 on a GPU where there is one, else NumPy in FP32 on the CPU.

    Parameters
    ----------
    m, k, n : int
        Shape of the product.
    seconds : float
        How long to keep measuring, at least three runs.

    Returns
    -------
    Rate

    Raises
    ------
    ValueError
        A size is not a whole number above zero, or ``seconds`` is not positive.
    """
    m, k, n = map(int, whole(m=m, k=k, n=n))
    positive(seconds=seconds)
    torch = _gpu()
    if torch:
        a, b = (torch.randn(*shape, device="cuda", dtype=torch.bfloat16) for shape in ((m, k), (k, n)))
        out = torch.empty(m, n, device="cuda", dtype=torch.bfloat16)

        def run():
            torch.matmul(a, b, out=out)

    else:
        random = np.random.default_rng(0)
        a, b = (random.standard_normal(shape, dtype=np.float32) for shape in ((m, k), (k, n)))
        out = np.empty((m, n), np.float32)

        def run():
            np.matmul(a, b, out=out)

    name = f"matmul {m} x {k} x {n}, {'BF16' if torch else 'FP32'}"
    return Rate(name, _where(torch), "FLOP/s", _rates(run, matmul(m, k, n).flops, seconds, torch))


def triad_bandwidth(elements: int = 2**25, *, seconds: float = 1.0) -> Rate:
    """Measured memory bandwidth of this machine by the STREAM triad a = b + s c, bytes/s.

    PyTorch on a GPU where there is one: one kernel that moves three arrays. NumPy has no fused triad, so on the CPU it
    is two passes that move five (read c, write a; read a and b, write a). On many CPUs the first pass also reads a
    before writing it, which is not counted: the true traffic is up to one fifth more.

    Parameters
    ----------
    elements : int
        Length of each array; the default (4 bytes each) is beyond the caches of most machines.
    seconds : float
        How long to keep measuring, at least three runs.

    Returns
    -------
    Rate

    Raises
    ------
    ValueError
        A size is not a whole number above zero, or ``seconds`` is not positive.

    Notes
    -----
    Source: McCalpin 1995, STREAM, the triad kernel.
    """
    (elements,) = map(int, whole(elements=elements))
    positive(seconds=seconds)
    torch = _gpu()
    if torch:
        a, b, c = (torch.ones(elements, device="cuda", dtype=torch.float32) for _ in range(3))

        def run():
            torch.add(b, c, alpha=3.0, out=a)

    else:
        a, b, c = (np.ones(elements, np.float32) for _ in range(3))

        def run():
            np.multiply(c, np.float32(3.0), out=a)
            np.add(a, b, out=a)

    moved = 4 * elements * (3 if torch else 5)
    return Rate(f"triad of {elements:,} FP32", _where(torch), "B/s", _rates(run, moved, seconds, torch))


def _gpu():
    """PyTorch where it is installed and sees a GPU, else None."""
    try:
        import torch
    except ImportError:
        return None
    return torch if torch.cuda.is_available() else None


def _where(torch) -> str:
    return torch.cuda.get_device_name() if torch else platform.processor() or platform.machine()


def _rates(run: Callable[[], None], amount: float, seconds: float, torch) -> tuple[float, ...]:
    """Amount per second of repeated runs, after one that warms up caches, threads and clocks."""

    def timed(times: int) -> float:
        start = time.perf_counter()
        for _ in range(times):
            run()
        if torch:
            torch.cuda.synchronize()
        return (time.perf_counter() - start) / times

    timed(1)
    # Group short runs, so that the clock and a kernel's launch are a small part of what is timed.
    times = max(1, int(seconds / 20 / max(timed(1), 1e-9)))
    end = time.perf_counter() + seconds
    rates = []
    while len(rates) < 3 or time.perf_counter() < end:
        rates.append(amount / timed(times))
    return tuple(rates)


@cache
def published(kind: str | None = None) -> tuple[Mapping, ...]:
    """Published measurements of one accelerator, each a row with its source.

    Parameters
    ----------
    kind : str, optional
        ``"gemm"``, ``"memory"`` or ``"decode"``; the default is all of them.

    Returns
    -------
    tuple of mapping
        The columns of ``data/device_measurements.csv``: numbers in SI units, or None where the source prints none.

    Raises
    ------
    ValueError
        There is no such kind.

    Examples
    --------
    >>> row = published("gemm")[0]
    >>> row["accelerator"], row["precision"], fmt(row["flops_per_second"], "FLOP/s")
    ('H800 SXM', 'fp8', '206 TFLOP/s')
    """
    rows = _rows("device_measurements.csv", _cell)
    kinds = dict.fromkeys(row["kind"] for row in rows)
    if kind is not None and kind not in kinds:
        raise ValueError(f"kind must be one of {', '.join(kinds)}, got {kind!r}")
    return tuple(row for row in rows if kind in (None, row["kind"]))


def _rows(name: str, cell: Callable[[str, str], str | float | None]) -> list[Mapping]:
    with (files(__package__) / "data" / name).open(encoding="utf-8", newline="") as stream:
        return [MappingProxyType({key: cell(key, text) for key, text in row.items()}) for row in csv.DictReader(stream)]


_NUMBERS = (
    "m",
    "k",
    "n",
    "output_bytes",
    "bytes_moved",
    "batch",
    "context",
    "parameters",
    "flops_per_second",
    "bandwidth",
    "tokens_per_second",
    "time",
)


def _cell(key: str, text: str) -> str | float | None:
    if key not in _NUMBERS:
        return text
    return float(text) if text else None


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


@cache
def published_power(group: str | None = None) -> tuple[Mapping, ...]:
    """Published power, cooling, energy and carbon, and the reference values of sites and grids, each with its source.

    Parameters
    ----------
    group : str, optional
        ``"cluster"``, ``"pue"``, ``"carbon_intensity"``, ``"price"``, ``"run"`` and so on; the default is all of them.

    Returns
    -------
    tuple of mapping
        The columns of ``data/power.csv``. ``value`` is in SI units: kg/J, $/J, m³/J and m³/s where the source prints
        g/kWh, cent/kWh, L/kWh and CFM; ``printed`` is as the source has it. A run or a cap is several rows of one name.

    Raises
    ------
    ValueError
        There is no such group.

    Examples
    --------
    >>> row = published_power("carbon_intensity")[0]
    >>> row["name"], row["printed"], fmt(row["value"] * kWh, "kg/kWh")
    ('France', '56.039 g/kWh', '0.056 kg/kWh')
    """
    rows = []
    for row in _rows("power.csv", lambda _, text: text):
        printed = f"{row['value']} {row['unit']}".strip()
        customary = _CUSTOMARY.get(row["unit"])
        value = float(row["value"]) * customary if customary else parse(printed)
        count = float(row["n_accelerators"]) if row["n_accelerators"] else None
        rows.append(MappingProxyType({**row, "value": value, "printed": printed, "n_accelerators": count}))
    groups = dict.fromkeys(row["group"] for row in rows)
    if group is not None and group not in groups:
        raise ValueError(f"group must be one of {', '.join(groups)}, got {group!r}")
    return tuple(row for row in rows if group in (None, row["group"]))
