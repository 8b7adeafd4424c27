"""Measured peaks of memory beside the law of memory: what a rank of a training run held at most.

Nothing is fitted to them but the interval that :class:`~clusterlab.parallelism.Footprint` carries, and the share by
which an allocator holds more than it was asked for.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files

import numpy as np

from ..catalogue import SOFTWARE, Software
from ..model import Layout, Transformer, Workload, transformer
from ..parallelism import Footprint, footprint
from ..quantities import Bytes
from ..records import Explained
from .intervals import symmetric_interval


@dataclass(frozen=True, eq=False)
class MemoryPeak:
    """What the fullest rank of a run held at most, and what :func:`clusterlab.parallelism.footprint` takes of the run.

    ``allocated`` are the bytes of all tensors at their peak, ``reserved`` those that the allocator held for them at
    most; a row has at least one of them. ``peer`` is what its publisher predicted. ``repeats`` are rows that differ in
    the number of microbatches alone, and print this peak again.
    """

    row: str
    group: str
    source: str
    model: Transformer
    workload: Workload
    layout: Layout
    software: Software
    allocated: Bytes | None
    reserved: Bytes | None
    peer: Bytes | None
    repeats: int = 1


@cache
def published_peaks() -> tuple[MemoryPeak, ...]:
    """Published peaks, each once: ``data/memory.csv``, whose 48 rows carry their sources.

    A model is the one of the catalogue with the layers, key heads and leading dense layers of the row.

    Examples
    --------
    >>> peaks = published_peaks()
    >>> len(peaks), sum(peak.repeats for peak in peaks)
    (24, 48)
    """
    text = (files("clusterlab.evidence") / "data" / "memory.csv").read_text(encoding="utf-8")
    found: dict[tuple[str, ...], MemoryPeak] = {}
    for row in csv.DictReader(io.StringIO(text)):
        key = tuple(v for name, v in row.items() if name not in ("row_id", "global_batch", "source_loc", "peer_bytes"))
        found[key] = replace(found[key], repeats=found[key].repeats + 1) if key in found else _peak(row)
    return tuple(found.values())


_SHAPE, _CUT = ("layers", "kv_heads", "dense_layers"), ("tp", "pp", "dp", "cp", "ep", "zero")


def _peak(row: dict[str, str]) -> MemoryPeak:
    said = {name: int(row[name]) for name in (*_SHAPE, *_CUT) if row[name]}
    shape = transformer(row["model"])
    model = replace(
        shape,
        layers=said["layers"],
        kv_heads=said.get("kv_heads", shape.kv_heads),
        dense_layers=said.get("dense_layers", shape.dense_layers),
        mtp_depth=0,
    )
    cut = {name: said[name] for name in _CUT if name in said}
    layout = Layout(**cut, microbatch=int(row["micro_batch"]), recompute=row["recompute"])
    allocated, reserved, peer = (
        float(row[name]) if row[name] else None for name in ("allocated_bytes", "reserved_bytes", "peer_bytes")
    )
    stack = SOFTWARE[row["stack"]]
    return MemoryPeak(
        row=row["row_id"],
        group=row["group"],
        source=row["source"],
        model=model,
        workload=Workload(int(row["seq"]), int(row["global_batch"]), row["precision"]),
        layout=layout,
        software=replace(stack, gradient_bytes=int(row["gradient_bytes"])) if row["gradient_bytes"] else stack,
        allocated=allocated,
        reserved=reserved,
        peer=peer,
    )


def predict_peak(peak: MemoryPeak) -> Footprint:
    """The footprint of the fullest rank of a run, without interleaving.

    Examples
    --------
    >>> peak = published_peaks()[0]
    >>> round(predict_peak(peak).total / peak.allocated, 3)
    1.0
    """
    return footprint(peak.model, peak.workload, peak.layout, software=peak.software, schedule="1f1b")


def reserved_share() -> float:
    """Bytes that PyTorch's allocator reserves for each that it hands out, at their peaks: the median of the peaks.

    A byte of it is no need: the allocator gives back what it holds in vain before it runs out of memory.

    Examples
    --------
    >>> round(reserved_share(), 3)
    1.052
    """
    both = [peak.reserved / peak.allocated for peak in published_peaks() if peak.reserved and peak.allocated]
    return float(np.median(both))


def peak_ratios(peaks: Iterable[MemoryPeak]) -> np.ndarray:
    """Measured over predicted bytes; what is reserved is compared with as much more as allocators reserve.

    Examples
    --------
    >>> off = np.abs(peak_ratios(published_peaks()[:12]) - 1)
    >>> bool(off.max() < 0.01)
    True
    """
    more = reserved_share()
    needs = ((peak, predict_peak(peak).total) for peak in peaks)
    return np.array(
        [p.allocated / need if p.allocated else (p.reserved or np.nan) / (more * need) for p, need in needs]
    )


# --- How far off -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class PeakScore(Explained):
    """How far predictions are off in a group of peaks; ``peer_error`` is that of the publisher's own, or ``None``."""

    group: str
    rows: int
    peaks: int
    mean_abs_error: float
    bias: float
    peer_error: float | None


def compare_peaks(peaks: Sequence[MemoryPeak] | None = None) -> list[PeakScore]:
    """Score the peaks of each model of each source, those of sequences cut over ranks apart. Errors are shares.

    Examples
    --------
    >>> for one in compare_peaks()[:2]:
    ...     print(f"{one.group}: {one.mean_abs_error:.1%} of {one.peaks}, {one.peer_error:.1%} by its publisher")
    simumax_b200, Llama 3 70B: 0.2% of 4, 0.3% by its publisher
    simumax_b200, DeepSeek-V2 236B: 0.8% of 2, 0.6% by its publisher
    """
    peaks = published_peaks() if peaks is None else peaks
    errors, groups = 1 / peak_ratios(peaks) - 1, [_group(peak) for peak in peaks]
    found = []
    for group in dict.fromkeys(groups):
        at = [i for i, other in enumerate(groups) if other == group]
        theirs = [abs(one.peer / one.allocated - 1) for one in (peaks[i] for i in at) if one.peer and one.allocated]
        ours, peer = errors[at], float(np.mean(theirs)) if theirs else None
        rows = sum(peaks[i].repeats for i in at)
        found.append(PeakScore(group, rows, len(at), float(np.abs(ours).mean()), float(ours.mean()), peer))
    return found


def _group(peak: MemoryPeak) -> str:
    return f"{peak.group}, {peak.model.name}{', sequences cut' if peak.layout.cp > 1 else ''}"


def learn_memory_spreads(peaks: Sequence[MemoryPeak] | None = None) -> dict[str, tuple[float, float]]:
    """Learn both intervals of a footprint: what :data:`clusterlab.catalogue.PREDICTION_INTERVALS` holds of them.

    That of stacks whose peaks were measured, and that of any other: of the same peaks, as if their stack were not
    known. Sources are publications, and few of them make an interval wider (:func:`symmetric_interval`).

    Examples
    --------
    >>> {kind: [round(end, 3) for end in ends] for kind, ends in learn_memory_spreads().items()}
    {'memory: measured stack': [0.939, 1.065], 'memory: other stack': [0.647, 1.545]}
    """
    peaks = published_peaks() if peaks is None else peaks
    sources = np.array([peak.source for peak in peaks])
    unknown = [replace(peak, software=SOFTWARE["2024"]) for peak in peaks]
    found = {"memory: measured stack": peaks, "memory: other stack": unknown}
    return {kind: symmetric_interval(peak_ratios(some), sources) for kind, some in found.items()}


def memory_coverage(of: str = "source") -> tuple[float, float]:
    """Share of peaks inside the interval that was learned without their source, or without their ``"model"``.

    Returns
    -------
    tuple of float
        Every peak having a vote, and every one that is left out.

    Examples
    --------
    >>> [round(share, 2) for share in memory_coverage()]
    [0.92, 0.58]
    """
    peaks, kind = published_peaks(), "memory: measured stack"
    names = np.array([{"source": peak.source, "model": peak.model.name}[of] for peak in peaks])
    ratios, inside = peak_ratios(peaks), np.zeros(len(peaks), bool)
    for name in dict.fromkeys(names.tolist()):
        low, high = learn_memory_spreads([p for p, other in zip(peaks, names, strict=True) if other != name])[kind]
        inside |= (names == name) & (low <= ratios) & (ratios <= high)
    by_name = [inside[names == name].mean() for name in dict.fromkeys(names.tolist())]
    return float(inside.mean()), float(np.mean(by_name))
