"""Layout search: every layout of a model on a cluster, which can run and why the others cannot, and the best of them.

:func:`search` makes all combinations of the axes that it is given, drops those that break a rule of
:meth:`clusterlab.model.Layout.violations` or do not fit in memory, and times the rest in one call. Nothing is pruned by
guesswork. Where nothing fits it says by how much.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from types import MappingProxyType

import numpy as np

from ..catalogue import SOFTWARE, Machine, Software
from ..checks import Numeric, choose, positive, whole
from ..model import Layout, Transformer, Workload
from ..quantities import Bytes, Seconds
from ..records import Explained, Rows, with_interval
from ..units import fmt
from .memory import rank_footprint
from .training import BLOCK, Step, step

_PLACES = ("fastest", "second", "third")  # what a record shows of all that can run


@dataclass(frozen=True, repr=False)
class Search(Explained):
    """What a search found. ``layouts`` are all that can run, in one record; ``step`` and ``memory`` go with them.

    ``rejected`` maps each reason to how many layouts it dropped; a layout counts for the first of its reasons. Where
    nothing fits, ``nearest`` is the layout that needs least, ``least`` the bytes that it needs; ``short`` says both.
    """

    considered: int
    rejected: Mapping[str, int]
    layouts: Layout
    step: Step
    memory: np.ndarray
    nearest: Layout | None = None
    least: Bytes = math.inf
    short: str = ""

    @property
    def cost(self) -> Seconds:
        """Accelerator seconds of a step."""
        return self.step.time * self.layouts.gpus

    def best(self, by: str = "time") -> Layout:
        """Return the layout with the least ``"time"``, ``"memory"`` or ``"cost"``.

        Raises
        ------
        ValueError
            No layout can run.
        """
        least = choose({"time": self.step.time, "memory": self.memory, "cost": self.cost}, by=by)
        if not np.size(least):
            raise ValueError(f"no layout can run: {self.short or dict(self.rejected)}")
        return self.layouts[int(np.argmin(least))]

    @property
    def front(self) -> np.ndarray:
        """Indices of the Pareto front of time and memory: nothing else is both faster and smaller. Fastest first."""
        order = np.lexsort((self.memory, self.step.time))
        least = np.minimum.accumulate(self.memory[order])
        return order[np.concatenate([[True], self.memory[order][1:] < least[:-1]])] if order.size else order

    def _rows(self) -> Rows:
        rows = [("", "layouts"), ("considered", f"{self.considered:,}")]
        rows += [(f"rejected: {reason}", f"{count:,}") for reason, count in self.rejected.items() if count]
        rows += [("does not fit", self.short)] if self.short else []
        rows.append(("can run", f"{self.memory.size:,}"))
        for place, i in zip(_PLACES, np.argsort(self.step.time, kind="stable"), strict=False):
            time = with_interval(self.step.time[i], self.step.low[i], self.step.high[i], "s")
            rows.append((place, f"{_axes_of(self.layouts[int(i)])}: {time}, {fmt(self.memory[i], 'B')}"))
        return rows


def _axes_of(layout: Layout) -> str:
    """A layout in a line."""
    return ", ".join(f"{name} {value}" for name, value, *_ in layout._rows()[1:])


def axes(
    model: Transformer, machine: Machine, workload: Workload, *, gpus: int | Sequence[int]
) -> dict[str, np.ndarray]:
    """The values of each axis that :func:`search` combines by default.

    Parameters
    ----------
    model, machine, workload, gpus
        As in :func:`search`.

    Returns
    -------
    dict
        ``gpus``. ``tp``: divisors of the heads up to the scale-up domain and 16. ``pp`` and ``cp``: divisors of the
        GPUs, up to the layers and up to 16. ``ep``: divisors of the experts. ``microbatch``: powers of 2 up to 8.
        ``chunks``: 1 to 8. ``zero``: 0 to 3. ``recompute``: none, selective and full.

    Examples
    --------
    >>> from clusterlab.catalogue import machine
    >>> from clusterlab.model import transformer
    >>> workload = Workload(sequence=8192, global_batch=2048)
    >>> axes(transformer("Llama 3.1 405B"), machine("H100 SXM"), workload, gpus=16384)["tp"]
    array([1, 2, 4, 8])
    """
    sizes = np.unique(np.asarray(whole(gpus=gpus)[0]).astype(int))

    def divisors(of: Numeric, most: Numeric) -> np.ndarray:
        return np.array([k for k in range(1, int(most) + 1) if np.any(np.asarray(of) % k == 0)])

    return {
        "gpus": sizes,
        "tp": divisors(model.heads, min(machine.domain, 16)),
        "pp": divisors(sizes, model.layers),
        "cp": divisors(sizes, 16),
        "ep": divisors(model.experts, model.experts) if model.experts else np.array([1]),
        "microbatch": np.array([b for b in (1, 2, 4, 8) if b <= workload.global_batch]),
        "chunks": np.arange(1, 9),
        "zero": np.arange(4),
        "recompute": np.array(["none", "selective", "full"]),
    }


def search(
    model: Transformer,
    machine: Machine,
    workload: Workload,
    *,
    gpus: int | Sequence[int],
    software: Software = SOFTWARE["2024"],
    capacity: Bytes | None = None,
    values: Mapping[str, Numeric] | None = None,
) -> Search:
    """Time every layout of a model on a cluster that can be built and fits.

    Parameters
    ----------
    model : Transformer
        The shape.
    machine : Machine
        From :func:`clusterlab.catalogue.machine`.
    workload : Workload
        One sequence length, global batch and precision.
    gpus : int or sequence of int
        Accelerators of the cluster, or sizes to compare. dp follows from them and the other axes.
    software : Software
        As in :func:`clusterlab.parallelism.step`.
    capacity : float, optional
        Bytes that a layout may need; by default the memory of the accelerator less a tenth for what is not modelled.
    values : mapping, optional
        Values of axes of :func:`axes`, in place of their defaults: ``{"zero": [3], "pp": [1]}``.

    Returns
    -------
    Search

    Raises
    ------
    ValueError
        An axis is unknown or empty.

    Examples
    --------
    >>> from clusterlab.catalogue import machine
    >>> from clusterlab.model import transformer
    >>> workload = Workload(sequence=8192, global_batch=128)
    >>> found = search(transformer("Llama 3.1 8B"), machine("H100 SXM"), workload, gpus=8)
    >>> found.best().tp, found.considered == sum(found.rejected.values()) + found.memory.size
    (2.0, True)
    """
    (limit,) = positive(capacity=0.9 * machine.hbm_capacity if capacity is None else capacity)
    grid = _grid(axes(model, machine, workload, gpus=gpus), values or {})
    shape = tuple(given.size for given in grid.values())
    mesh = dict(zip(grid, np.meshgrid(*grid.values(), indexing="ij", sparse=True), strict=True))
    there = mesh.pop("gpus")
    # Where the axes do not divide the GPUs, dp is rounded, and the rule about their product breaks.
    mesh["dp"] = np.maximum(there // (mesh["tp"] * mesh["pp"] * mesh["cp"]), 1)
    candidates = Layout(**mesh)
    rejected, alive = {}, np.ones(shape, dtype=bool)
    left = alive.size
    for rule, broken in candidates.violations(model, workload, gpus=there).broken.items():
        alive &= ~np.asarray(broken)
        now = int(np.count_nonzero(alive))
        rejected[rule], left = left - now, now
    built = candidates[alive]
    layouts, memory = _fitting(model, workload, built, software, limit)
    rejected[f"more than {fmt(limit, 'B')} of memory"] = left - memory.size
    timed = Step(*(memory for _ in fields(Step)))
    found = alive.size, MappingProxyType(rejected), layouts
    if memory.size:
        timed = step(model, machine, workload, layouts, software=software)
    elif left:
        need = _fitting(model, workload, built, software, math.inf)[1]
        nearest, least = built[int(np.argmin(need))], float(np.min(need))
        short = f"the nearest needs {fmt(least, 'B')} of {fmt(limit, 'B')}: {_axes_of(nearest)}"
        return Search(*found, timed, memory, nearest, least, short)
    return Search(*found, timed, memory)


def _fitting(
    model: Transformer, workload: Workload, layouts: Layout, software: Software, limit: Bytes
) -> tuple[Layout, np.ndarray]:
    """The layouts that fit, and the bytes that each needs. What fails on its first stage is not looked at again."""
    memory = np.full(layouts.shape, np.inf)
    for start in range(0, memory.size, BLOCK):
        left = np.arange(start, min(start + BLOCK, memory.size))
        for stage in (0.0, None):
            need = rank_footprint(model, workload, layouts[left], software, "interleaved", stage).total
            fits = np.broadcast_to(need, left.shape) <= limit
            left = left[fits]
            if not left.size:
                break
        memory[left] = np.broadcast_to(need, fits.shape)[fits]
    fits = memory <= limit
    return layouts[fits], memory[fits]


def _grid(usual: dict[str, np.ndarray], values: Mapping) -> dict[str, np.ndarray]:
    """The values of every axis, a sequence each."""
    if unknown := sorted(set(values) - set(usual)):
        raise ValueError(f"unknown axes {', '.join(unknown)}; known: {', '.join(usual)}")
    grid = usual | {name: np.asarray(given) for name, given in values.items()}
    if empty := [name for name, given in grid.items() if given.ndim != 1 or not given.size]:
        raise ValueError(f"{empty[0]} must be a sequence of values, got {grid[empty[0]]}")
    return grid
