"""Fits of a generation: the shares that its accelerators reach, and what they are worth for sources left out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache, lru_cache
from typing import NamedTuple

import numpy as np

from .. import catalogue
from ..catalogue import EFFICIENCIES, Machine, accelerator
from ..parallelism import step
from .robust_fits import Settings, fit_constants
from .tables import published
from .training_runs import Run, RunBatch, batches

# --- Sources left out ------------------------------------------------------------------------------------------------

_START = {"gemm": 0.7, "gemm_8": 0.7, "gemm_4": 0.5, "memory": 0.7, "overlap_loss": 0.5, "attention": 0.3}
_NUDGE = 1.02
_MOST = dict.fromkeys(_START, 1.0 / _NUDGE) | {"attention": 9 / 16 / _NUDGE}
_SETTINGS = Settings(nudge=_NUDGE, floor=0.02, centred=True, least=0.05, most=_MOST)
# A refreshed chip has the cores of the one before: its shares are held near those, all others near the mean of the
# rest. Where nothing shows a share (fused attention, without the only stack that has it) it stays there. A tie of 0.6
# leaves the least error of sources and of stacks left out, among 0.3 to 1.5. Two shares are known better than by that
# mean: attention, where its kernel was timed alone, and what is new in a refreshed chip: its board has more watts for
# GEMMs, and its exponentials take half the time.
_PARENT, _TIE = {"Blackwell Ultra": "Blackwell"}, 0.6


def fit_efficiency(runs: Sequence[Run], *, rounds: int = 4) -> dict[str, float]:
    """Fit the shares of one generation of accelerators to runs on it, from the same neutral start every time.

    Parameters
    ----------
    runs
        Runs on accelerators of one generation. Every source has one vote, shared by its rows.
    rounds
        Steps of Gauss and Newton on the logarithms of times and shares.

    Returns
    -------
    dict
        Shares by their names in :class:`clusterlab.catalogue.Efficiency`. Those that no run shows stay as they began.

    Examples
    --------
    >>> from clusterlab.evidence import published_runs
    >>> runs = [run for run in published_runs()[0] if run.source.startswith("megatron_sc21")]
    >>> 0.8 < fit_efficiency(runs)["gemm"] < 0.9
    True
    """
    runs = list(runs)
    if not runs:
        raise ValueError("runs must be at least one run, got none")
    start = {name: np.array([value]) for name, value in _START.items()}
    fitted = _fit(runs, batches(runs), np.ones((1, len(runs)), bool), rounds, start)
    return {name: float(value[0]) for name, value in fitted.items()}


def _fit(
    runs: list[Run],
    questions: list[RunBatch],
    kept: np.ndarray,
    rounds: int,
    start: Mapping[str, np.ndarray],
    tie: float = 0.0,
) -> dict[str, np.ndarray]:
    """One fit for each row of ``kept``, which says the runs that it sees; all fits together ask the model once.

    ``start``: shares that each fit begins with, and, with a ``tie``, is held near.
    """
    seconds, sources = np.array([run.seconds for run in runs]), np.array([run.source for run in runs])
    settings = replace(_SETTINGS, tie=tie)

    def misses(shares: Mapping[str, np.ndarray]) -> np.ndarray:
        return np.log(_times(questions, len(runs), shares) / seconds)

    return fit_constants(start, misses, kept, sources, rounds=rounds, settings=settings)


def _times(questions: list[RunBatch], n: int, shares: Mapping[str, np.ndarray]) -> np.ndarray:
    """Seconds of every run with other shares, whose arrays come first in the shape of the result."""
    out = np.empty((*np.shape(shares["gemm"]), n))
    columns = {name: np.asarray(value)[..., None] for name, value in shares.items()}
    changed: dict[int, Machine] = {}  # by the machine's id: few make many runs
    for where, model, machine, workload, layout, software in questions:
        if id(machine) not in changed:
            efficiency = replace(machine.efficiency, **columns)  # type: ignore[arg-type]  # shares, as arrays
            changed[id(machine)] = replace(machine, efficiency=efficiency)
        out[..., where] = step(model, changed[id(machine)], workload, layout, software=software).time
    return out


def leave_one_source_out(runs: Iterable[Run]) -> dict[str, float]:
    """Mean absolute error of each source under shares fitted to the other sources of its generation.

    Parameters
    ----------
    runs
        From :func:`clusterlab.evidence.read_runs`. Those whose source is alone in their generation are
        left out. The answer for the same records is remembered.

    Returns
    -------
    dict
        Source to error, a share of the measured time.

    Examples
    --------
    >>> from clusterlab.evidence import published_runs
    >>> runs = [run for run in published_runs()[0] if run.source in ("megatron_sc21_tab1", "korthikanti_tab5")]
    >>> max(leave_one_source_out(runs).values()) < 0.1
    True
    """
    return dict(_leave_one_source_out(tuple(runs)))


@lru_cache(maxsize=8)
def _leave_one_source_out(runs: tuple[Run, ...]) -> dict[str, float]:
    misses, sources = np.abs(unseen_times(runs) / [run.seconds for run in runs] - 1), [run.source for run in runs]
    errors: dict[str, list] = {}
    for source, miss in zip(sources, misses, strict=True):
        if not np.isnan(miss):
            errors.setdefault(source, []).append(miss)  # a source may have runs of several generations
    return {source: float(np.mean(found)) for source, found in errors.items()}


def unseen_times(
    runs: Iterable[Run], *, left_out: Sequence[str] | None = None, alone: bool = False, within: bool = False
) -> np.ndarray:
    """Predicted seconds of each run under shares fitted to the other sources of its generation.

    Those of Blackwell Ultra are held near what the other sources show of Blackwell, whose cores it has; those of any
    other generation near the mean of the rest of its kind.

    Parameters
    ----------
    runs
        From :func:`clusterlab.evidence.read_runs`.
    left_out : optional
        Of each run, what it is left out with: by default its source.
    alone
        Whether runs of which nothing of their generation is left are predicted too, by the mean of the others.
    within
        Whether nothing is left out after all: the constants have seen every run.

    Returns
    -------
    array
        Seconds, in the order of the runs; NaN where nothing of its generation is left, unless ``alone``.

    Examples
    --------
    >>> from clusterlab.evidence import published_runs
    >>> runs = [run for run in published_runs()[0] if run.source in ("megatron_sc21_tab1", "korthikanti_tab5")]
    >>> times = unseen_times(runs)
    >>> bool(np.max(np.abs(times / [run.seconds for run in runs] - 1)) < 0.2)
    True
    """
    runs = tuple(runs)
    return _unseen_times(runs, tuple(left_out or [run.source for run in runs]), alone, within).copy()


@lru_cache(maxsize=8)
def _unseen_times(runs: tuple[Run, ...], labels: tuple[str, ...], alone: bool, within: bool) -> np.ndarray:
    out = np.full(len(runs), np.nan)
    for fold in folds(runs, labels, within=within):
        if fold.seen or alone:
            out[fold.where] = shared_times([runs[i] for i in fold.where], fold.shares)
    return out


class Fold(NamedTuple):
    """Runs that are left out together, the shares that the others of their generation show, and whether any do."""

    where: np.ndarray
    shares: Mapping[str, float]
    seen: bool


@lru_cache(maxsize=8)
def folds(runs: tuple[Run, ...], labels: tuple[str, ...], *, within: bool = False) -> tuple[Fold, ...]:
    """Leave out what has one label after the other, in each generation: all fits of a generation are made at once.

    A generation of which nothing is left has the shares of its parent, or the mean of the rest of its kind.
    """
    places: dict[str, list[int]] = {}
    for i, run in enumerate(runs):
        places.setdefault(run.machine.efficiency.generation, []).append(i)
    labelled = {name: tuple((runs[i], labels[i]) for i in where) for name, where in places.items()}
    return tuple(
        fold._replace(where=np.array(where)[fold.where])
        for name, where in places.items()
        for fold in _folds_of(name, labelled[name], labelled.get(_PARENT.get(name, ""), ()), within)
    )


_Labelled = tuple[tuple[Run, str], ...]


@lru_cache(maxsize=64)
def _folds_of(generation: str, labelled: _Labelled, older: _Labelled, within: bool) -> tuple[Fold, ...]:
    """The folds of one generation, and the runs of its parent: tables that differ elsewhere share these fits."""
    runs, names = [run for run, _ in labelled], np.array([label for _, label in labelled])
    left = list(dict.fromkeys(names.tolist()))
    kept = names != np.array(left)[:, None]
    if within:
        kept[:] = True
    shares = _near(generation, runs, older, left) or _mean_of_others(generation, len(left))
    seen = kept.any(axis=1)
    if seen.any():
        begun = {name: value[seen] for name, value in shares.items()}
        for name, value in _fit(runs, batches(runs), kept[seen], 4, begun, _TIE).items():
            shares[name][seen] = value
    return tuple(
        Fold(np.flatnonzero(names == label), {name: float(value[i]) for name, value in shares.items()}, bool(seen[i]))
        for i, label in enumerate(left)
    )


def _near(generation: str, runs: list[Run], older: _Labelled, left: list[str]) -> dict[str, np.ndarray] | None:
    """What the generation before shows without each label, if there is one and it shows anything.

    Large GEMMs stand at the limit of the board, so with more watts for the same peak they reach more of it. Attention
    waits for exponentials (:func:`_softmax_gain`).
    """
    some, names = [run for run, _ in older], np.array([label for _, label in older], str)
    seen = np.array([names != label for label in left])
    if not some or not np.all(seen.any(axis=1)):
        return None
    shares = _fit(some, batches(some), seen, 4, _mean_of_others(_PARENT[generation], len(left)), _TIE)
    watts = _watts(runs) / _watts(some)
    more = dict.fromkeys(("gemm", "gemm_8", "gemm_4"), watts) | {"attention": _softmax_gain()}
    return shares | {name: np.minimum(by * shares[name], _MOST[name]) for name, by in more.items()}


_FORWARD = 1.35  # what Blackwell Ultra gains in the forward pass of DeepSeek-V3's attention in 8 bits: NVIDIA 2026


def _softmax_gain() -> float:
    """How much faster attention is in 16 bits, both ways, with exponentials at twice the rate.

    Of a score, matrix products take p and an exponential takes s: then (p + s) / (p + s / 2) is gained. In 8 bits p is
    half; so s follows from what the forward pass of DeepSeek-V3 gains, whose heads are 192 and 128 wide. Both ways
    there are seven products and, as the backward pass repeats it, two exponentials.

    Source: NVIDIA 2026, "Making Softmax More Efficient with NVIDIA Blackwell Ultra": twice the exponentials, and 35 %
    (the number as summaries of it repeat it).
    FlashAttention-4 (Zadouri et al. 2026) finds on Blackwell that a forward pass has as long to do with either.
    """
    forwards, both = 2 * (192 + 128) / 2, 7 * 2 * 128  # FLOP at the rate of 16 bits
    softmax = (_FORWARD - 1) * forwards / (1 - _FORWARD / 2)
    return (both + 2 * softmax) / (both + softmax)


def _watts(runs: Sequence[Run]) -> float:
    """Watts of the boards for a FLOP/s of their 16-bit peak, in the mean of the runs."""
    chips = [accelerator(run.machine.name) for run in runs]
    return float(np.mean([(chip.tdp or np.nan) / chip.peak("bf16") for chip in chips]))


class TimedAttention(NamedTuple):
    """What an attention kernel reaches alone.

    Its share of the 16-bit peak at long sequences, and the tokens by which every sequence seems longer to it.
    """

    share: float
    length: float


@cache
def timed_attention(variant: str = "flash") -> dict[str, TimedAttention]:
    """Fit a straight line to the seconds of a causal attention kernel alone, both ways, by length.

    Parameters
    ----------
    variant
        ``"flash"``, FlashAttention-2, or ``"cudnn"``.

    Returns
    -------
    dict
        Accelerator to what it reaches.

    Notes
    -----
    Source: ``published("own_gpu")`` for the H100, FlashAttention-2's figure 4 for the A100.

    Examples
    --------
    >>> {name: (round(found.share, 2), round(found.length)) for name, found in timed_attention().items()}
    {'A100 80GB': (0.62, 484), 'H100 SXM': (0.33, 743)}
    """
    rates: dict[str, dict[float, list]] = {}
    for row in published("device_measurements", kind="attention") if variant == "flash" else ():
        rates.setdefault(row["accelerator"], {})[row["context"]] = [row["flops_per_second"], 1.0]
    for row in published("own_gpu", kind="attention", variant=variant):
        summed = rates.setdefault(row["accelerator"], {}).setdefault(row["context"], [0.0, 0.0])
        summed[:] = summed[0] + row["flops"], summed[1] + row["time"]
    found = {}
    for name, by_length in rates.items():
        lengths = np.array(list(by_length))
        seconds = lengths * [time / flops for flops, time in by_length.values()]
        slope, start = np.polyfit(lengths, seconds, 1, w=1 / seconds)
        found[name] = TimedAttention(float(1 / slope / accelerator(name).peak("bf16")), float(start / slope))
    return found


def _mean_of_others(generation: str, count: int) -> dict[str, np.ndarray]:
    """The mean of other generations, TPUs or GPUs with tensor cores of 2020 and later, so many times.

    Where the attention kernel was timed alone, a step reaches as much of that as it does on others where it was.
    """
    tpu = generation.startswith("TPU")
    of_kind = [
        e for name, e in EFFICIENCIES.items() if name.startswith("TPU") == tpu and name not in ("other", "Volta")
    ]
    others = [one for one in of_kind if one.name != generation]
    shares = {name: np.exp(np.mean(np.log([getattr(one, name) for one in others]))) for name in _START}
    alone = {catalogue.machine(name).efficiency.generation: found.share for name, found in timed_attention().items()}
    of_alone = [one.attention / alone[one.name] for one in others if one.name in alone]
    if generation in alone and of_alone:
        shares["attention"] = alone[generation] * np.exp(np.mean(np.log(of_alone)))
    return {name: np.full(count, share) for name, share in shares.items()}


def shared_times(runs: Sequence[Run], shares: Mapping[str, float]) -> np.ndarray:
    """Seconds of every run, by the software that it is by, on chips that reach these shares."""
    return _times(batches(runs), len(runs), {name: np.asarray(value) for name, value in shares.items()})
