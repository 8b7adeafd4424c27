"""MFU: what people divide by what, and what each would print of one and the same run.

A rate of tokens is a fact; its MFU depends on which FLOPs a token is said to need and which peak an accelerator is said
to have. :func:`mfu_readings` gives the usual ways side by side, and :func:`readings_of` says which of them a number
that somebody printed can be.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass, replace
from types import MappingProxyType

from ..catalogue import Accelerator, find
from ..model import PRECISIONS, Transformer, forward_flops, parameters, training_flops
from ..quantities import Count, Flops, FlopsPerSecond, Number, PerSecond, PositiveShare, Share
from ..records import Explained, Rows
from ..units import fmt


@dataclass(frozen=True, repr=False)
class MfuReading(Explained):
    """One way to count: FLOPs of a token over the peak of an accelerator, and the share that a run then reaches."""

    says: str
    flops: Flops
    peak: FlopsPerSecond
    mfu: Number

    def _rows(self) -> Rows:
        shown = (
            ("FLOP a token", fmt(self.flops, "FLOP")),
            ("peak", fmt(self.peak, "FLOP/s")),
            ("MFU", fmt(self.mfu, "%")),
        )
        return [(self.says, "value"), *shown]


# How a token's FLOPs are counted. The first is the field's: three forward passes over active parameters and attention
# in full, as Narayanan et al. 2021 and most tables of training runs have it.
_FIELD = "active parameters, attention in full"
_COUNTS = MappingProxyType(
    {
        _FIELD: lambda m, s, _: training_flops(m, s).model,
        "active parameters, attention causal (half)": lambda m, s, _: training_flops(m, s, causal=True).model,
        "6 N active, no attention": lambda m, _s, _: 6 * (parameters(m).active - _lookup(m)),
        "6 N active with the embedding, no attention": lambda m, _s, _: 6 * parameters(m).active,
        "6 N with the embedding, attention in full (PaLM, appendix B)": lambda m, s, _: (
            6 * parameters(m).active + 3 * _scores(m, s)
        ),
        "6 N of all experts, no attention": lambda m, _s, _: 6 * parameters(m).total,
        "with what is recomputed (HFU)": lambda m, s, again: training_flops(m, s, recompute=again).hardware,
    }
)


def _lookup(model: Transformer) -> float:
    """Parameters of an input embedding that is a table of its own; a tied one multiplies at the output."""
    counted = parameters(model)
    return 0.0 if model.tied else float(counted.embedding)


def _scores(model: Transformer, sequence: Count) -> float:
    """Forward FLOPs of a token in scores and weighted values: what the length of the sequence adds."""
    return float(forward_flops(model, sequence).scores)


def mfu_readings(
    model: Transformer,
    accelerator: Accelerator,
    *,
    tokens_per_second: PerSecond,
    gpus: Count,
    sequence: Count,
    precision: str = "bf16",
    recompute: str = "none",
) -> list[MfuReading]:
    """Return what a rate of tokens is as MFU, the field's way first, then others' ways.

    Parameters
    ----------
    model, accelerator
        What trains on what.
    tokens_per_second
        Of all accelerators together.
    gpus
        Accelerators.
    sequence
        Tokens of a sequence.
    precision
        Of the GEMMs, whose dense peak counts.
    recompute
        As in :class:`~clusterlab.model.Layout`.

    Returns
    -------
    list of MfuReading
        Ways that differ from the field's for this run; those of a sparse peak (twice the dense one, NVIDIA from Ampere
        on) and of another precision's peak count FLOPs as the field does.

    Examples
    --------
    >>> from clusterlab.catalogue import accelerator
    >>> from clusterlab.model import transformer
    >>> run = transformer("Llama 3.1 8B"), accelerator("H100 SXM")
    >>> for one in mfu_readings(*run, tokens_per_second=64_000, gpus=8, sequence=8192)[:3]:
    ...     print(f"{one.mfu:.1%}  {one.says}")
    46.8%  active parameters, attention in full
    41.6%  active parameters, attention causal (half)
    36.4%  6 N active, no attention
    """
    rate = tokens_per_second / gpus
    name = find("precision", precision, PRECISIONS)[0]
    peak = accelerator.peak(name)
    field = training_flops(model, sequence).model
    found = [
        MfuReading(says, float(flops), peak, float(flops * rate / peak))
        for says, of in _COUNTS.items()
        for flops in [of(model, sequence, recompute)]
        if says == _FIELD or (abs(flops / field - 1) > 1e-9 and (model.experts or "all experts" not in says))
    ]
    peaks = {f"against the dense {other} peak": p for other, p in _peaks(accelerator).items() if other != name}
    if accelerator.vendor == "NVIDIA" and accelerator.year >= 2020:
        peaks |= {"against the sparse peak (2:4, twice the dense)": 2 * peak}
    found += [MfuReading(says, float(field), p, float(field * rate / p)) for says, p in peaks.items() if p != peak]
    return found


def _peaks(accelerator: Accelerator) -> dict[str, float]:
    """Dense peaks by precision, each rate once, under the name that is used most."""
    by_rate: dict[float, str] = {}
    for name in ("bf16", "fp16", "fp8", "fp4", "tf32"):
        if name in accelerator.peaks:
            by_rate.setdefault(accelerator.peaks[name], name)
    return {name: peak for peak, name in by_rate.items()}


def readings_of(claimed: PositiveShare, readings: Iterable[MfuReading], *, within: Share = 0.03) -> list[MfuReading]:
    """Return which ways give a number that somebody printed, nearest first: a count of FLOPs, a peak, or one of each.

    Parameters
    ----------
    claimed
        The MFU that was printed; above 1 where something is counted that was not there.
    readings
        From :func:`mfu_readings`.
    within
        How far off a way may be, as a share.

    Examples
    --------
    A run in FP8 is held against the peak of 16 bits:

    >>> from clusterlab.catalogue import accelerator
    >>> from clusterlab.model import transformer
    >>> run = transformer("Llama 3.1 8B"), accelerator("H100 SXM")
    >>> ways = mfu_readings(*run, tokens_per_second=142_000, gpus=8, sequence=8192, precision="fp8")
    >>> [one.says for one in readings_of(1.04, ways)]
    ['against the dense bf16 peak']
    """
    readings = list(readings)
    usual = readings[0]
    counts = [one for one in readings if one.peak == usual.peak]
    peaks = [usual, *(one for one in readings if one.peak != usual.peak)]
    both = [
        one
        if at is usual
        else replace(at, says=_joined(one, at, usual), flops=one.flops, mfu=one.mfu * at.mfu / usual.mfu)
        for one, at in itertools.product(counts, peaks)
    ]
    near = [one for one in both if abs(one.mfu / claimed - 1) <= within]
    return sorted(
        near,
        key=lambda one: (abs(one.mfu / claimed - 1) > within / 3, ", against" in one.says, abs(one.mfu / claimed - 1)),
    )


def _joined(count: MfuReading, peak: MfuReading, usual: MfuReading) -> str:
    return peak.says if count is usual else f"{count.says}, {peak.says}"
