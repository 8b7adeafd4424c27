"""Axes: data to 16-bit codes, codes to places in the picture, and the ticks."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from clusterlab.units import day, fmt, hour, ladder, minute, ms, ns, us, year

from ._picture import Axis

NONE = 65535  # the code of a value that is not there (NaN in a picture)
STEPS = 65534  # codes 0..STEPS divide the range of the data


class Tick(NamedTuple):
    """A label of an axis, and where it stands: in percent from the low end."""

    at: float
    text: str


class Scale:
    """One axis in the table: data to codes, codes to positions between 0 and 1000 in the picture."""

    def __init__(self, axis: Axis, values: np.ndarray) -> None:
        self.axis = axis
        if np.isinf(values).any():
            raise ValueError(f"axis {axis.label!r} cannot show infinity; NaN is what is not there")
        finite = values[np.isfinite(values)]
        if axis.log and np.any(finite <= 0):
            raise ValueError(f"axis {axis.label!r} is logarithmic, and {finite[finite <= 0][0]:g} is not above zero")
        if not finite.size and axis.limits is None:
            raise ValueError(f"axis {axis.label!r} has nothing to show")
        limits = (finite.min(), finite.max()) if axis.limits is None else tuple(map(float, axis.limits))
        if axis.log and min(limits) <= 0:
            raise ValueError(f"axis {axis.label!r} is logarithmic, and {min(limits):g} is not above zero")
        if len(limits) != 2:
            raise ValueError(f"axis {axis.label!r} needs two limits, got {limits}")
        self.low, self.high = (float(v) for v in self._warp(np.asarray(limits, dtype=float)))
        if axis.limits is None and not axis.log:
            self.low, self.high = min(self.low, 0.0), max(self.high, 0.0)
        if not -math.inf < self.low < self.high < math.inf:
            raise ValueError(f"axis {axis.label!r} needs limits with low < high, got {limits[0]:g} and {limits[1]:g}")
        # Codes span the data, which may reach beyond the limits: the picture is clipped, with the right slope there.
        # What lies more than two widths outside is moved there, or it would cost the inside its precision.
        outside = 2 * (self.high - self.low)
        codes = self._warp(finite) if finite.size else np.array([self.low, self.high])
        codes = np.clip(codes, self.low - outside, self.high + outside)
        self.first = float(codes.min())
        self.span = float(codes.max() - codes.min()) or 1.0

    def _warp(self, values: np.ndarray) -> np.ndarray:
        return np.log10(values) if self.axis.log else values

    def encode(self, values: ArrayLike) -> np.ndarray:
        values = np.asarray(values, dtype=float)
        there = np.isfinite(values)
        warped = self._warp(np.where(there, values, 1.0))
        codes = np.clip(np.rint((warped - self.first) / self.span * STEPS), 0, STEPS)
        return np.where(there, codes, NONE).astype(np.uint16)

    def place(self, code: float) -> float:
        """Position in the picture, in thousandths of the axis."""
        return 1000 * (self.first + self.span * float(code) / STEPS - self.low) / (self.high - self.low)

    def ticks(self) -> list[Tick]:
        times: list[str] = []
        if self.axis.unit == "s":
            values, times = self._times()
        elif self.axis.log:
            values = _powers(10**self.low, 10**self.high)
        else:
            values = _round_numbers(self.low, self.high)
        # Digits enough to tell neighbours apart: 2,016 and 2,018 need four.
        near = min(b - a for a, b in itertools.pairwise(values))
        digits = 3 if self.axis.log else self._digits(near)
        warped = self._warp(np.asarray(values, dtype=float))
        texts = [_tick_text(v, self.axis.unit, digits) for v in values]
        if times:
            texts = [f"{fmt(v / _CLOCK[name][0], digits=digits)} {name}" for v, name in zip(values, times, strict=True)]
        warped = self._warp(np.asarray(values, dtype=float))
        return [
            Tick(at=float(100 * (w - self.low) / (self.high - self.low)), text=text)
            for w, text in zip(warped, texts, strict=True)
        ]

    def _times(self) -> tuple[list[float], list[str]]:
        """Times, and the unit that each is round in; on a linear axis all have one."""
        if self.axis.log:
            values = _clock(10**self.low, 10**self.high)
            if len(values) > 1:
                longest = 1.0 if 10**self.high <= 2 * minute else math.inf
                return values, [_unit(min(v * (1 + 1e-9), longest)) for v in values]
            low, high = 10**self.low, 10**self.high
        else:
            low, high = self.low, self.high
        most = max(abs(low), abs(high))
        unit = _unit(most / 3 if most > 3 * minute else min(most, 1.0))
        size, steps = _CLOCK[unit]
        values = [size * v for v in _round_numbers(low / size, high / size, steps)]
        return values, [unit] * len(values)

    def _digits(self, step: float) -> int:
        """Significant digits that tell values a ``step`` apart, at least three."""
        return max(3, 1 + math.ceil(math.log10(max(abs(self.low), abs(self.high)) / step) - 1e-9))

    def spec(self) -> dict:
        return {
            "unit": self.axis.unit,
            "ladder": ladder(self.axis.unit),
            # Digits that tell a thousandth of a linear axis: 2,017 between 2,016 and 2,018 needs more than three.
            "digits": 3 if self.axis.log else self._digits((self.high - self.low) / 1000),
            "log": self.axis.log,
            "low": self.low,
            "high": self.high,
            "first": self.first,
            "span": self.span,
        }


def _nice(step: float) -> float:
    """The round number (1, 2, 5 times a power of ten) nearest above ``step``."""
    power = 10.0 ** math.floor(math.log10(step))
    return next(m * power for m in (1, 2, 5, 10) if m * power >= step * (1 - 1e-9))


def _round_numbers(low: float, high: float, steps: tuple[float, ...] = ()) -> list[float]:
    """About five round numbers between two limits; ``steps`` are round where they are long enough, not only short."""
    step = (high - low) / 5
    step = next((m for m in steps if m / 2 < step <= m * (1 + 1e-9)), None) or _nice(step)
    return [i * step for i in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]


def _powers(low: float, high: float) -> list[float]:
    """Powers of ten between two limits; 1, 2 and 5 times them, or round numbers, where there are too few."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    if len(decades := _inside((10.0**p for p in powers[:: max(1, len(powers) // 7)]), low, high)) > 2:
        return decades
    finer = _inside((m * 10.0**p for p in powers for m in (1, 2, 5)), low, high)
    return finer if len(finer) > 1 else _round_numbers(low, high)


def _inside(values: Iterable[float], low: float, high: float) -> list[float]:
    return [v for v in values if low * (1 - 1e-9) <= v <= high * (1 + 1e-9)]


# Units of time: seconds, and the steps that are round in them. A minute is round, 100 seconds are not.
_CLOCK = {
    "ns": (ns, ()),
    "µs": (us, ()),
    "ms": (ms, ()),
    "s": (1.0, ()),
    "min": (minute, (0.5, 1, 2, 5, 10, 20, 30, 60)),
    "h": (hour, (0.5, 1, 2, 3, 6, 12, 24)),
    "d": (day, ()),
    "yr": (year, ()),
}


def _unit(seconds: float) -> str:
    """The largest unit of time that is no longer than this."""
    return next((name for name, (size, _) in reversed(_CLOCK.items()) if size <= seconds), "ns")


def _clock(low: float, high: float) -> list[float]:
    """Round times between two limits: 10 s, 1 min, 10 min, 1 h; where these are few, 1, 2 and 5 of each as well."""
    if high <= 2 * minute:
        return _powers(low, high)
    sizes = itertools.pairwise((1.0, minute, hour, day, year, math.inf))
    start = min(0, math.floor(math.log10(low)))
    tens = [(10.0**p * size, more) for size, more in sizes for p in range(start if size == 1 else 0, 15)]
    room = (high / low) ** (1 / 12)  # a label's
    values: list[float] = []
    for each in ((1,), (1, 2, 5)):
        values = []
        for value in _inside((m * ten for ten, more in tens for m in each if m * ten < more / 2), low, high):
            if not values or value > values[-1] * room:
                values.append(value)
        if len(values) > 3:
            break
    return values


def _tick_text(value: float, unit: str, digits: int) -> str:
    """What a tick says: the number and its prefix; the axis title carries the unit."""
    if unit in ("%", "$"):
        return fmt(value, unit, digits)
    (_, size, _), *more = ladder(unit)
    if size != 1 and not more:  # a scaled unit, such as GB/s: its numbers need no prefix
        return fmt(value / size, digits=digits)
    text = fmt(value, "FLOP", digits) if value == 0 or abs(value) >= 1 else fmt(value, digits=digits)
    return text.removesuffix("FLOP").rstrip().replace(" ", "\N{NARROW NO-BREAK SPACE}")
