"""Expectation: what a healthy machine shows before there is a log, from published measurements of its kind.

Collectives as nccl-tests print them (:func:`~clusterlab.evidence.predict_collective`), a large GEMM, and a triad of
memory as published single accelerators reached them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..catalogue import Accelerator, Machine, accelerator, accelerators, find
from ..model import PRECISIONS
from ..quantities import Number
from ..records import Explained, Rows, with_interval
from .tables import published

_LARGE = 4096  # of each side of a GEMM that shows what a chip reaches


@dataclass(frozen=True, repr=False)
class Reached(Explained):
    """What one accelerator reaches of a datasheet's rate: the middle of published measurements, and eight of ten.

    ``rows`` are how many, ``of`` what they are of: of its own kind, or of other accelerators, as shares of theirs.
    """

    what: str
    rate: Number
    low: Number
    high: Number
    unit: str
    rows: int
    of: str

    @property
    def with_interval(self) -> str:
        """The rate with its interval, in words."""
        return with_interval(self.rate, self.low, self.high, self.unit)

    def _rows(self) -> Rows:
        return [(self.what, "value"), ("expect", self.with_interval), ("from", f"{self.rows} rows of {self.of}")]


def expect_gemm(machine: Machine, precision: str = "bf16") -> Reached:
    """Return the rate of a large GEMM, all sides 4,096 or more, that a healthy accelerator shows.

    Examples
    --------
    >>> from clusterlab.catalogue import machine
    >>> expect_gemm(machine("H100 SXM")).with_interval
    '779 TFLOP/s (730 to 804)'
    """
    chip, name = accelerator(machine.name), find("precision", precision, PRECISIONS)[0]
    shares: dict[str, list[float]] = {}
    for row in published("device_measurements", kind="gemm"):
        large = all(row[side] is not None and row[side] >= _LARGE for side in "mnk")
        own = accelerator(row["accelerator"])
        of = PRECISIONS.get(row["precision"], ("", 0))[0]
        if large and of in own.peaks and _width(of) == _width(name):
            shares.setdefault(own.name, []).append(row["flops_per_second"] / own.peaks[of])
    return _reached(f"GEMM, {precision}", chip.peak(name), "FLOP/s", chip, shares)


def expect_memory(machine: Machine) -> Reached:
    """Return the bandwidth of a copy or a triad that a healthy accelerator shows.

    Examples
    --------
    >>> from clusterlab.catalogue import machine
    >>> expect_memory(machine("H100 SXM")).rows > 0
    True
    """
    chip = accelerator(machine.name)
    shares: dict[str, list[float]] = {}
    for row in published("device_measurements", kind="memory"):
        if row["bandwidth"] is not None and row["group"] != _STARVED:
            own = accelerator(row["accelerator"])
            shares.setdefault(own.name, []).append(row["bandwidth"] / own.hbm_bandwidth)
    return _reached("memory", chip.hbm_bandwidth, "B/s", chip, shares)


def _width(peak: str) -> str:
    return "16" if peak in ("bf16", "fp16") else peak


_STARVED = "gpubenches_occupancy"  # rows of too few threads on purpose: they show latency, not the memory's rate
_ENOUGH = 3  # rows of its own, below which other accelerators are asked too


def _reached(what: str, full: float, unit: str, chip: Accelerator, shares: dict[str, list[float]]) -> Reached:
    """The middle and eight of ten of the shares of a chip, or of all where it has too few of its own."""
    mine, of = shares.get(chip.name, []), chip.name
    if len(mine) < _ENOUGH:
        alike = [one.name for one in accelerators() if one.vendor == chip.vendor and one.name in shares]
        mine = [share for name in alike or shares for share in shares[name]]
        of = f"other accelerators of {chip.vendor}" if alike else "other accelerators"
    low, middle, high = np.quantile(mine, (0.1, 0.5, 0.9)) * full
    return Reached(what, float(middle), float(low), float(high), unit, len(mine), of)
