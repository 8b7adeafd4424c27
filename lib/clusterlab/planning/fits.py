"""Fitting: the layouts in which a model trains on so many accelerators, fastest first, and what the host could hold.

What a plan of one size searches, shown in full: of each cut of the model the fastest microbatch and schedule, its time
and memory with their intervals. Where little or nothing fits, the optimizer's state may live on the host.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ..catalogue import SOFTWARE, Machine, link
from ..model import Layout
from ..parallelism import Footprint, Search, Step, footprint, step
from ..quantities import Bytes, Seconds
from ..records import Explained, Rows
from ..units import fmt
from .choice import asked, search_layouts
from .mixtures import mixture
from .scenario import Site, Training
from .stacks import plausible_stacks
from .training import PLANNED

HOST_LINK = "PCIe 5.0 x16"  # of each accelerator to its host, where a server is of 2022 or later
_OLDER = ("Volta", "Ampere")


@dataclass(frozen=True, repr=False)
class Fit(Explained):
    """A layout that fits: its step, and what a rank holds. ``offloaded`` is what the host holds instead, in bytes.

    ``crossing`` are the seconds that gradients and weights take over the host's link each step, where nothing hides
    them; they are not in ``step``.
    """

    layout: Layout
    step: Step
    memory: Footprint
    offloaded: Bytes = 0.0
    crossing: Seconds = 0.0

    @property
    def time(self) -> Seconds:
        """Seconds of a step, with what crosses to the host."""
        return self.step.time + self.crossing

    def tight(self, capacity: Bytes) -> bool:
        """Whether the upper end of its memory's interval is more than there is."""
        return bool(self.memory.high > capacity)

    @property
    def axes(self) -> str:
        """The layout in a line."""
        return ", ".join(f"{name} {value}" for name, value, *_ in self.layout._rows()[1:-1])

    def _rows(self) -> Rows:
        rows = [("", "value"), ("layout", self.axes), ("step", self.step.with_interval), ("MFU", self.step.say("mfu"))]
        rows.append(("memory", self.memory.with_interval))
        if self.offloaded:
            rows += [("on the host", fmt(self.offloaded, "B")), ("crossing takes", fmt(self.crossing, "s"))]
        return rows


@dataclass(frozen=True, repr=False)
class Fitting(Explained):
    """What fits: of each cut its fastest, the fastest cut first; and the best with the optimizer on the host."""

    training: Training
    machine: Machine
    room: Bytes
    considered: int
    ran: int  # of them that can run
    fits: tuple[Fit, ...]
    offloaded: Fit | None = None
    short: str = ""  # where nothing fits: what the leanest layout needs

    def _rows(self) -> Rows:
        rows = [("layout", "step", "", "MFU", "memory", "", "")]
        for one in self.fits:
            tight = "tight" if one.tight(self.machine.hbm_capacity) else ""
            rows.append((one.axes, *one.step._cells(), one.step._cells("mfu")[0], *one.memory._cells(), tight))
        return rows


def fitting(training: Training, site: Site, *, most: int = 10) -> Fitting:
    """Return the layouts in which a model trains on so many accelerators, fastest first.

    Parameters
    ----------
    training
        The model, its sequence and batch.
    site
        With an accelerator and ``gpus``; ``layout`` fixes axes, ``memory`` is what a layout may need.
    most
        Cuts (tp, pp, cp, ep, ZeRO stage) that are shown; of each the fastest microbatch, schedule and recomputation.

    Returns
    -------
    Fitting
        Where nothing fits, ``fits`` is empty and ``short`` says what the leanest layout needs.

    Notes
    -----
    On the host are the optimizer's state and the FP32 weights; each step a rank sends its share of the gradients down
    and fetches as many 16-bit weights (Ren et al. 2021, ZeRO-Offload, section 4). The link is at its datasheet's rate,
    and the host's own update of the weights is not counted: the time is a lower bound.

    Examples
    --------
    >>> found = fitting(Training("Llama 3.1 8B", 1e12, global_batch=64), Site("H100 SXM", gpus=8), most=2)
    >>> [one.axes for one in found.fits]
    ['tp 2, dp 4, zero 1', 'tp 2, dp 2, cp 2, microbatch 2, zero 1']
    """
    chips, _ = asked(site)
    if not 0 < most <= 1000:
        raise ValueError(f"most must be from 1 to 1,000, got {most}")
    site.refuse_more_memory()
    room = site.room(chips.hbm_capacity)
    found = search_layouts(training, site)
    software = site.stack_on(chips.name)
    fits = []
    for i in _fastest_of_each_cut(found)[:most]:
        layout = found.layouts[int(i)]
        held = footprint(training.model, training.workload, layout, software=software)
        fits.append(Fit(layout, _timed(training, site, chips, layout), held))
    ran = int(found.memory.size)
    offloaded = _best_offloaded(training, site, chips)
    return Fitting(training, chips, room, found.considered, ran, tuple(fits), offloaded, found.short)


def _timed(training: Training, site: Site, chips: Machine, layout: Layout) -> Step:
    """The step of a layout by the site's software, or by the usual one within what any would take."""
    run = training.model, chips, training.workload, layout
    timed = step(*run, software=site.stack_on(chips.name))
    if site.software is not None:
        return timed
    mixed = mixture([step(*run, software=SOFTWARE[name]) for name in plausible_stacks(chips.name, year=PLANNED)])
    return replace(timed, spread_low=mixed.low / timed.time, spread_high=mixed.high / timed.time)


def _fastest_of_each_cut(found: Search) -> list[int]:
    """Places of the fastest layout of each cut, the fastest first."""
    if not found.memory.size:
        return []
    layouts, shape = found.layouts, found.memory.shape
    cuts = [np.broadcast_to(getattr(layouts, axis), shape) for axis in ("tp", "pp", "cp", "ep", "zero")]
    first: dict[tuple[float, ...], int] = {}
    for i in np.argsort(found.step.time, kind="stable"):
        first.setdefault(tuple(float(cut[i]) for cut in cuts), int(i))
    return list(first.values())


def _best_offloaded(training: Training, site: Site, chips: Machine) -> Fit | None:
    """The fastest layout with the optimizer on the host, by its step and what crosses; None where none fits either."""
    software = site.stack_on(chips.name)
    found = search_layouts(training, site, replace(software, optimizer_bytes=0.0))  # nor has a rank FP32 weights
    if not found.memory.size:
        return None
    rate = link("PCIe 4.0 x16" if chips.efficiency.generation in _OLDER else HOST_LINK).bandwidth
    best: Fit | None = None
    for i in _fastest_of_each_cut(found)[:20]:
        layout = found.layouts[int(i)]
        held = footprint(training.model, training.workload, layout, software=software)
        timed = _timed(training, site, chips, layout)
        shard = held.optimizer / software.optimizer_bytes  # parameters that this rank updates
        crossing = shard * max(software.gradient_bytes, software.weight_bytes) / rate  # one each way, at once
        on_chip = replace(held, optimizer=0.0 * held.optimizer)
        one = Fit(layout, timed, on_chip, float(held.optimizer), float(crossing))
        if best is None or one.time < best.time:
            best = one
    return best
