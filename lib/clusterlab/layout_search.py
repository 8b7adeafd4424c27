"""Layout search: every layout of a model on a cluster, which can run and why the others cannot, and the best of them.

:func:`search` makes all combinations of the axes that it is given, drops those that break a rule of
:func:`clusterlab.training.validity` or do not fit in memory, and times the rest in one call. Nothing is pruned by
guesswork.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from .memory import footprint
from .training import SOFTWARE, Machine, Software, Step, step, validity
from .units import Explained, choose, fmt, positive, summary, whole

AXES = ("gpus", "tp", "pp", "cp", "ep", "microbatch", "chunks", "zero", "recompute")
_RECOMPUTE = ("none", "selective", "full")


@dataclass(frozen=True, repr=False)
class Search(Explained):
    """What a search found. ``layouts`` are the columns of all that can run; ``step`` and ``memory`` go with them.

    ``rejected`` maps each reason to how many layouts it dropped; a layout counts for the first of its reasons.
    """

    considered: int
    rejected: Mapping[str, int]
    layouts: Mapping[str, np.ndarray]
    step: Step
    memory: np.ndarray

    @property
    def cost(self):
        """Accelerator seconds of a step."""
        return self.step.time * self.layouts["gpus"]

    def best(self, by: str = "time") -> dict:
        """Return the layout with the least ``"time"``, ``"memory"`` or ``"cost"``.

        Raises
        ------
        ValueError
            ``by`` is none of these, or no layout can run.
        """
        least = choose({"time": self.step.time, "memory": self.memory, "cost": self.cost}, by=by)
        if not np.size(least):
            raise ValueError(f"no layout can run: {dict(self.rejected)}")
        return self.layout(int(np.argmin(least)))

    def layout(self, i: int) -> dict:
        """Return layout i as arguments of :func:`clusterlab.training.step`."""
        return {name: values[i].item() for name, values in self.layouts.items()}

    @property
    def front(self) -> np.ndarray:
        """Indices of the Pareto front of time and memory: nothing else is both faster and smaller. Fastest first."""
        order = np.lexsort((self.memory, self.step.time))
        least = np.minimum.accumulate(self.memory[order])
        return order[np.concatenate([[True], self.memory[order][1:] < least[:-1]])] if order.size else order

    def _rows(self):
        rows = [("", "layouts"), ("considered", f"{self.considered:,}")]
        rows += [(f"rejected: {reason}", f"{count:,}") for reason, count in self.rejected.items() if count]
        rows.append(("can run", f"{self.memory.size:,}"))
        if self.memory.size:
            rows += [("step", summary(self.step.time, "s")), ("memory", summary(self.memory, "B"))]
            best = {name: value for name, value in self.best().items() if value not in (1, "none")}
            rows.append(("fastest", ", ".join(f"{name} {value}" for name, value in best.items())))
        return rows


def axes(model, machine: Machine, *, gpus, global_batch) -> dict[str, np.ndarray]:
    """The values of each axis that :func:`search` combines by default.

    Parameters
    ----------
    model, machine, gpus, global_batch
        As in :func:`search`.

    Returns
    -------
    dict
        ``tp``: divisors of the heads up to the scale-up domain and 16. ``pp`` and ``cp``: divisors of the GPUs, up to
        the layers and up to 16. ``ep``: divisors of the experts. ``microbatch``: powers of 2 up to 8. ``chunks``: 1 to
        8. ``zero``: 0 to 3. ``recompute``: all three.

    Examples
    --------
    >>> from clusterlab.models import model
    >>> from clusterlab.training import machine
    >>> axes(model("Llama 3.1 405B"), machine("H100 SXM"), gpus=16384, global_batch=2048)["tp"]
    array([1, 2, 4, 8])
    """
    sizes = np.unique(np.asarray(whole(gpus=gpus)[0]).astype(int))
    (batch,) = whole(global_batch=global_batch)

    def divisors(of, most):
        return np.array([k for k in range(1, int(most) + 1) if np.any(np.asarray(of) % k == 0)])

    return {
        "gpus": sizes,
        "tp": divisors(model.heads, min(machine.domain, 16)),
        "pp": divisors(sizes, model.layers),
        "cp": divisors(sizes, 16),
        "ep": divisors(model.experts, model.experts) if model.experts else np.array([1]),
        "microbatch": np.array([b for b in (1, 2, 4, 8) if b <= batch]),
        "chunks": np.arange(1, 9),
        "zero": np.arange(4),
        "recompute": np.array(_RECOMPUTE),
    }


def search(
    model,
    machine: Machine,
    *,
    gpus,
    sequence,
    global_batch,
    precision="bf16",
    software: Software = SOFTWARE["2024"],
    capacity=None,
    **values,
) -> Search:
    """Time every layout of a model on a cluster that can be built and fits.

    Parameters
    ----------
    model : Transformer
        The shape.
    machine : Machine
        From :func:`clusterlab.training.machine`.
    gpus : int or sequence of int
        Accelerators of the cluster, or sizes to compare. dp follows from them and the other axes.
    sequence, global_batch : int
        Tokens of a sequence, sequences of a step.
    precision, software
        As in :func:`clusterlab.training.step`.
    capacity : float, optional
        Bytes that a layout may need; by default the memory of the accelerator less a tenth for what is not modelled.
    **values : sequence
        Values of an axis of :func:`axes`, in place of its default.

    Returns
    -------
    Search

    Raises
    ------
    ValueError
        An axis is unknown or empty, or a count is none.

    Examples
    --------
    >>> from clusterlab.models import model
    >>> from clusterlab.training import machine
    >>> found = search(model("Llama 3.1 8B"), machine("H100 SXM"), gpus=8, sequence=8192, global_batch=128)
    >>> found.best()["tp"], found.considered == sum(found.rejected.values()) + found.memory.size
    (1, True)
    """
    (limit,) = positive(capacity=0.9 * machine.hbm_capacity if capacity is None else capacity)
    grid = axes(model, machine, gpus=gpus, global_batch=global_batch)
    if unknown := sorted(set(values) - set(grid)):
        raise ValueError(f"unknown axes {', '.join(unknown)}; known: {', '.join(grid)}")
    grid |= {name: np.asarray(given) for name, given in values.items()}
    if empty := [name for name, given in grid.items() if given.ndim != 1 or not given.size]:
        raise ValueError(f"{empty[0]} must be a sequence of values, got {grid[empty[0]]}")
    n, tp, pp, cp, *_ = mesh = np.meshgrid(*grid.values(), indexing="ij", sparse=True)
    considered = int(np.prod([given.size for given in grid.values()]))
    shape = tuple(given.size for given in grid.values())
    # Where the axes do not divide the GPUs, dp is rounded, and the rule about their product breaks.
    dp = np.maximum(n // (tp * pp * cp), 1)
    layout = dict(zip(grid, mesh, strict=True)) | {"dp": dp}
    counts = {name: layout[name] for name in ("tp", "pp", "dp", "cp", "ep", "chunks", "microbatch")}
    rules = validity(model, sequence=sequence, global_batch=global_batch, gpus=n, **counts).faults
    rejected, alive = {}, np.ones(shape, dtype=bool)
    for rule, broken in rules.items():
        drops = alive & broken
        rejected[rule] = int(np.count_nonzero(drops))
        alive &= ~drops
    where = np.flatnonzero(alive)
    columns = {name: np.broadcast_to(given, shape).ravel()[where] for name, given in layout.items()}
    if where.size:
        need = footprint(
            model,
            sequence=sequence,
            microbatches=global_batch / (columns["dp"] * columns["microbatch"]),
            **{name: columns[name] for name in (*counts, "zero", "recompute")},
            sequence_parallel=True,
            fused_attention=software.attention is not None,
            dropout=software.dropout,
        )
        memory = np.broadcast_to(need.total, where.shape)
    else:
        memory = np.zeros(0)
    fits = memory <= limit
    rejected[f"more than {fmt(limit, 'B')} of memory"] = int(np.count_nonzero(~fits))
    columns = {name: given[fits] for name, given in columns.items()}
    chosen = {name: columns[name] for name in (*counts, "zero", "recompute")}
    fixed = {"sequence": sequence, "global_batch": global_batch, "precision": precision, "software": software}
    if not np.any(fits):  # nothing to time: the record of an empty array
        one = step(model, machine, **fixed | {"global_batch": 1})
        timed = Step(*(np.zeros(0) for _ in vars(one)))
    else:
        timed = step(model, machine, **fixed, **chosen)
    return Search(considered, MappingProxyType(rejected), MappingProxyType(columns), timed, memory[fits])
