"""Benchmark: the reader's own machine on the roofline.

What :func:`matmul_rate` and :func:`triad_bandwidth` return differs from run to run: never compare it in a test.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType

import numpy as np

from ..checks import positive, whole
from ..records import Explained, Rows
from ..roofline import matmul
from ..units import fmt

# --- A roof measured -------------------------------------------------------------------------------------------------


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

    def _rows(self) -> Rows:
        return [
            (self.what, self.where),
            ("best", fmt(self.best, self.unit)),
            ("median", fmt(self.median, self.unit)),
            ("spread", fmt(self.spread, "%", digits=2)),
            ("runs", str(len(self.runs))),
        ]


def matmul_rate(m: int, k: int, n: int, *, seconds: float = 1.0) -> Rate:
    """Measured rate of an (m x k) by (k x n) GEMM on this machine, FLOP/s.

    PyTorch in BF16 on a GPU where there is one, else NumPy in FP32 on the CPU.

    Parameters
    ----------
    m, k, n
        Shape of the GEMM.
    seconds
        How long to keep measuring, at least three runs.

    Returns
    -------
    Rate
    """
    m, k, n = map(int, whole(m=m, k=k, n=n))
    positive(seconds=seconds)
    torch = _gpu()
    if torch:
        a, b = (torch.randn(*shape, device="cuda", dtype=torch.bfloat16) for shape in ((m, k), (k, n)))
        out = torch.empty(m, n, device="cuda", dtype=torch.bfloat16)

        def run() -> None:
            torch.matmul(a, b, out=out)

    else:
        random = np.random.default_rng(0)
        a, b = (random.standard_normal(shape, dtype=np.float32) for shape in ((m, k), (k, n)))
        out = np.empty((m, n), np.float32)

        def run() -> None:
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
    elements
        Length of each array; the default (4 bytes each) is beyond the caches of most machines.
    seconds
        How long to keep measuring, at least three runs.

    Returns
    -------
    Rate

    Notes
    -----
    Source: McCalpin 1995, STREAM, the triad kernel.
    """
    (elements,) = map(int, whole(elements=elements))
    positive(seconds=seconds)
    torch = _gpu()
    if torch:
        a, b, c = (torch.ones(elements, device="cuda", dtype=torch.float32) for _ in range(3))

        def run() -> None:
            torch.add(b, c, alpha=3.0, out=a)

    else:
        a, b, c = (np.ones(elements, np.float32) for _ in range(3))

        def run() -> None:
            np.multiply(c, np.float32(3.0), out=a)
            np.add(a, b, out=a)

    moved = 4 * elements * (3 if torch else 5)
    return Rate(f"triad of {elements:,} FP32", _where(torch), "B/s", _rates(run, moved, seconds, torch))


def _gpu() -> ModuleType | None:
    """PyTorch where it is installed and sees a GPU, else None."""
    try:
        import torch
    except ImportError:
        return None
    return torch if torch.cuda.is_available() else None


def _where(torch: ModuleType | None) -> str:
    return torch.cuda.get_device_name() if torch else platform.processor() or platform.machine()


def _rates(run: Callable[[], None], amount: float, seconds: float, torch: ModuleType | None) -> tuple[float, ...]:
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
    rates: list[float] = []
    while len(rates) < 3 or time.perf_counter() < end:
        rates.append(amount / timed(times))
    return tuple(rates)
