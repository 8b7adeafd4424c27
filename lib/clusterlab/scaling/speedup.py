"""Speedup: what more accelerators can buy, what takes it back, and how many a job needs.

An efficiency is the share of the peak (the MFU) or of the ideal speed that survives at a size; the rules here are ways
to write one down, and :func:`clusterlab.parallelism.step` is the model that predicts it. What is useful of a cluster is
a chain of shares that multiply, each named once (:func:`chain`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import reduce
from operator import add, mul
from types import MappingProxyType

import numpy as np

from ..checks import FRACTION, Numeric, broadcastable, check, fraction, whole
from ..quantities import (
    Count,
    Flops,
    FlopsPerSecond,
    Multiple,
    Number,
    PositiveFlops,
    PositiveSeconds,
    PositiveShare,
    Seconds,
    Share,
    law,
)
from ..records import Explained, Rows, summary, words

Rule = Callable[[Numeric], Numeric]  # the efficiency of so many accelerators
Efficiency = float | np.ndarray | Rule  # a share, or the rule that gives it

# --- A job that does not grow, and one that does ---------------------------------------------------------------------


@law
def amdahl_speedup(serial: PositiveShare, n: Count) -> Multiple:
    r"""Speedup of a fixed job on n processors over one (strong scaling).

    .. math:: S = \frac{1}{s + (1 - s)/n} \le \frac{1}{s}

    Parameters
    ----------
    serial
        Serial share s of the time on one processor.
    n
        Processors.

    Notes
    -----
    Source: Amdahl 1967.

    Examples
    --------
    >>> round(amdahl_speedup(0.1, 1024), 1)
    9.9
    """
    return 1 / (serial + (1 - serial) / n)


@law
def gustafson_speedup(serial: PositiveShare, n: Count) -> Multiple:
    r"""Work that n processors do in the time in which one does 1, for a job that grows with the machine (weak scaling).

    .. math:: S = s + (1 - s)\,n

    Parameters
    ----------
    serial
        Serial share s of the time on n processors.
    n
        Processors.

    Notes
    -----
    Source: Gustafson 1988.

    Examples
    --------
    >>> round(gustafson_speedup(0.1, 1024), 1)
    921.7
    """
    return serial + (1 - serial) * n


@dataclass(frozen=True, repr=False)
class StrongScaling(Explained):
    """A fixed job on n processors, part by part, in units of its time on one. The parts sum to ``time``."""

    parallel: Share
    serial: Mapping[str, Share]  # by its causes

    @property
    def time(self) -> Share:
        """Time on n processors over the time on one."""
        return reduce(add, self.serial.values(), self.parallel)

    @property
    def speedup(self) -> Multiple:
        """Speedup over one processor."""
        return 1 / self.time

    @property
    def limit(self) -> Multiple:
        """Speedup that no number of processors exceeds."""
        return 1 / reduce(add, self.serial.values())

    def _rows(self) -> Rows:
        parts = {"parallel": self.parallel, **self.serial}
        rows = [(words(n), summary(t, "%"), summary(t / self.time, "%")) for n, t in parts.items()]
        rows = [("", "of the time on one", "of the time on n"), *rows]
        return [*rows, ("speedup", summary(self.speedup), ""), ("limit", summary(self.limit), "")]


@law
def strong_scaling(n: Count, **serial: Share) -> StrongScaling:
    r"""Amdahl's law with the serial part split into what causes it.

    .. math:: T_n / T_1 = \sum_i s_i + \frac{1 - \sum_i s_i}{n}

    Parameters
    ----------
    n
        Processors.
    **serial
        Share of the time on one processor that no processor shares, under a name of your choice for each cause:
        synchronisation, pipeline bubbles, checkpoints, Python.

    Returns
    -------
    StrongScaling

    Raises
    ------
    ValueError
        The shares do not sum to above 0 and at most 1.

    Notes
    -----
    Source: Amdahl 1967. MLSysBook, Fleet Foundations, names the four causes; how a tenth splits among them it does not
    say.

    Examples
    --------
    >>> strong_scaling(1024, synchronisation=0.06, bubble=0.02, checkpoints=0.01, python=0.01)
    StrongScaling
                     of the time on one  of the time on n
    parallel                    0.0879%            0.871%
    synchronisation                  6%             59.5%
    bubble                           2%             19.8%
    checkpoints                      1%             9.91%
    python                           1%             9.91%
    speedup                        9.91
    limit                            10
    """
    total = check(FRACTION, "the sum of serial shares", reduce(add, serial.values(), 0.0))
    return StrongScaling((1 - total) / n, MappingProxyType(serial))


# --- Efficiency at a size: rules -------------------------------------------------------------------------------------


@law
def logarithmic_efficiency(n: Count, *, first: PositiveShare, drop: PositiveShare) -> PositiveShare:
    r"""Efficiency that falls by the same points with every doubling.

    .. math:: \eta(n) = \eta_1 - d \log_2 n

    Parameters
    ----------
    n
        Accelerators.
    first
        Efficiency of one, eta_1.
    drop
        What each doubling takes, d: 0.02 is two points.

    Raises
    ------
    ValueError
        Nothing would be left at ``n``.

    Notes
    -----
    Source: Divergent Compute 2026, The data-center cluster: 0.62 - 0.02 log2 n, "illustrative". A straight line in
    log n has no mechanism behind it, and ends at zero.

    Examples
    --------
    >>> logarithmic_efficiency([1, 8, 512, 8192, 32768], first=0.62, drop=0.02).round(2)
    array([0.62, 0.56, 0.44, 0.36, 0.32])
    """
    left = first - drop * np.log2(n)
    if np.any(left <= 0):
        raise ValueError(f"n must be below 2 ** (first / drop), where nothing is left; got {np.max(n):g}")
    return left


@law
def geometric_efficiency(n: Count, *, at: Count, efficiency: PositiveShare, kept: PositiveShare) -> PositiveShare:
    r"""Efficiency of which every doubling keeps the same share.

    .. math:: \eta(n) = \eta_0\, k^{\log_2 (n / n_0)}

    Parameters
    ----------
    n, at
        Accelerators, and the number n_0 at which the efficiency is known.
    efficiency
        Efficiency at n_0.
    kept
        Share that a doubling keeps, k, as :func:`kept_per_doubling` reads it off two measurements.

    Returns
    -------
    PositiveShare
        Below n_0 at most 1.

    Notes
    -----
    Derived: a power law of exponent log2 k. A doubling always brings 2 k times as much.

    Examples
    --------
    Megatron-Core, 177 billion parameters: 47 % at 96 H100, 42 % at 4,608 (its README of July 2024).

    >>> kept = kept_per_doubling((96, 0.47), (4608, 0.42))
    >>> round(float(kept), 3), round(float(geometric_efficiency(32768, at=96, efficiency=0.47, kept=kept)), 3)
    (0.98, 0.397)
    """
    return np.minimum(1.0, efficiency * np.power(kept, np.log2(n / at)))


def kept_per_doubling(one: tuple[Count, PositiveShare], other: tuple[Count, PositiveShare]) -> Number:
    r"""Share of the efficiency that each doubling keeps, between two measurements.

    .. math:: k = (\eta_2 / \eta_1)^{1 / \log_2 (n_2 / n_1)}

    Parameters
    ----------
    one, other
        (accelerators, efficiency) of each measurement; the numbers of accelerators differ.

    Returns
    -------
    Number
        Above 1 where the larger run is the more efficient one, as weak scaling can be.

    Raises
    ------
    ValueError
        The numbers of accelerators are the same, or too close for what the efficiencies differ.

    Examples
    --------
    >>> round(float(kept_per_doubling((32, 0.9), (8192, 0.35))), 3)
    0.889
    """
    (n1, eta1), (n2, eta2) = one, other
    n1, n2 = whole(one=n1, other=n2)
    eta1, eta2 = fraction(**{"efficiency of one": eta1, "efficiency of other": eta2})
    broadcastable(**{"one": n1, "other": n2, "efficiency of one": eta1, "efficiency of other": eta2})
    if np.any(np.equal(n1, n2)):
        raise ValueError(f"other must have another number of accelerators than one, got {np.max(n2):g} twice")
    with np.errstate(over="ignore"):
        kept = (eta2 / eta1) ** (1 / np.log2(n2 / n1))
    if not np.all(np.isfinite(kept)):
        raise ValueError(f"one and other must be further apart for efficiencies so different, got {one} and {other}")
    return kept


@law
def marginal_return(rule: Rule, n: Count, *, factor: Count = 2) -> Number:
    r"""What ``factor`` times as many accelerators bring, over what they brought before.

    .. math:: \frac{f\,\eta(f n)}{\eta(n)}

    Parameters
    ----------
    rule
        Efficiency of so many accelerators, such as ``lambda n: logarithmic_efficiency(n, first=0.62, drop=0.02)``.
    n
        Accelerators.
    factor
        How many times as many.

    Returns
    -------
    Number
        At most ``factor``, unless efficiency grows with size. Below 1 the larger cluster does less.

    Notes
    -----
    Derived: work is accelerators times efficiency.

    Examples
    --------
    >>> round(float(marginal_return(lambda n: logarithmic_efficiency(n, first=0.62, drop=0.02), 16384)), 2)
    1.88
    """
    return factor * rule(factor * n) / rule(n)


@law
def most_useful_size(*, first: PositiveShare, drop: PositiveShare) -> Multiple:
    r"""Accelerators at which :func:`logarithmic_efficiency` realises the most compute: one more takes what it brings.

    .. math:: \log_2 n = \frac{\eta_1}{d} - \frac{1}{\ln 2}

    Parameters
    ----------
    first, drop
        As in :func:`logarithmic_efficiency`.

    Returns
    -------
    Multiple
        Not rounded.

    Notes
    -----
    Derived: n eta(n) is largest where its slope is zero.

    Examples
    --------
    >>> round(float(np.log2(most_useful_size(first=0.62, drop=0.02))), 2)
    29.56
    """
    return np.maximum(1.0, np.exp2(first / drop - 1 / np.log(2)))


# --- From peak to useful ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class Chain(Explained):
    """A rate and the shares of it that survive, one after the other; what is ``lost`` and the ``result`` sum to it."""

    start: FlopsPerSecond
    factors: Mapping[str, PositiveShare]

    @property
    def rates(self) -> Mapping[str, FlopsPerSecond]:
        """What is left after each factor, by its name."""
        left, rates = self.start, {}
        for name, factor in self.factors.items():
            left = left * factor
            rates[name] = left
        return MappingProxyType(rates)

    @property
    def lost(self) -> Mapping[str, Numeric]:
        """What each factor takes of what reached it, by its name."""
        left, lost = self.start, {}
        for name, rate in self.rates.items():
            lost[name] = left - rate
            left = rate
        return MappingProxyType(lost)

    @property
    def share(self) -> PositiveShare:
        """Product of all factors."""
        return reduce(mul, self.factors.values())

    @property
    def result(self) -> FlopsPerSecond:
        """What is left of the rate."""
        return self.start * self.share

    def _rows(self) -> Rows:
        rows = [("", "factor", "left"), ("peak", "", summary(self.start, "FLOP/s"))]
        rates = self.rates
        return rows + [(words(n), summary(f, "%"), summary(rates[n], "FLOP/s")) for n, f in self.factors.items()]


@law
def chain(start: FlopsPerSecond, **factors: PositiveShare) -> Chain:
    r"""What is left of a rate after every factor.

    .. math:: R = R_\text{peak} \prod_i f_i

    Parameters
    ----------
    start
        Peak of the cluster: accelerators times the peak of one.
    **factors
        Share that each loss leaves, under a name of your choice.

    Returns
    -------
    Chain

    Notes
    -----
    Source: MLSysBook, Fleet Foundations, compound loss. Each factor must be measured after the ones before it: an MFU
    that was measured at the full size holds the scaling efficiency already.

    Examples
    --------
    >>> chain(1024 * 989e12, MFU=0.50, scaling=0.50, goodput=0.77)
    Chain
             factor          left
    peak             1.01 EFLOP/s
    MFU         50%   506 PFLOP/s
    scaling     50%   253 PFLOP/s
    goodput     77%   195 PFLOP/s
    """
    if not factors:
        raise ValueError("chain needs at least one factor, as name=share")
    return Chain(start, MappingProxyType(factors))


# --- How large a batch may be ----------------------------------------------------------------------------------------


@law
def critical_batch(loss: Number, *, scale: Number = 2.1e8, exponent: Number = 0.21) -> Number:
    r"""Critical batch size: tokens of a batch at which a run needs twice the fewest steps and twice the fewest tokens.

    .. math:: B_\text{crit} = B_* \, L^{-1/\alpha_B}

    Parameters
    ----------
    loss
        Cross-entropy L of the model, nats a token, as it is at that point of the run.
    scale
        Tokens B_* at a loss of 1.
    exponent
        alpha_B.

    Returns
    -------
    Number
        In tokens.

    Notes
    -----
    Source: Kaplan et al. 2020, equation 1.4 and appendix A, fitted to models of up to 1.5 billion parameters on
    WebText2. A loss depends on the tokenizer, so another model's is a rough guide. Zhang et al. 2024 (arXiv 2410.21676)
    find that it grows with the tokens trained on, and hardly with the size of the model.

    Examples
    --------
    >>> critical_batch([3.0, 2.0]).round(-5)
    array([1100000., 7700000.])
    """
    return scale * np.power(loss, -1 / exponent)


@dataclass(frozen=True, repr=False)
class BatchCost(Explained):
    """What a batch costs: steps and tokens of a run, in multiples of the fewest possible."""

    steps: Multiple
    tokens: Multiple

    def _rows(self) -> Rows:
        rows = [("", "times the fewest")]
        return rows + [(name, summary(getattr(self, name))) for name in ("steps", "tokens")]


@law
def batch_cost(batch: Number, critical: Number) -> BatchCost:
    r"""Steps and tokens that a run needs with a batch size.

    .. math:: \frac{S}{S_\text{min}} = 1 + \frac{B_\text{crit}}{B}, \qquad
              \frac{E}{E_\text{min}} = 1 + \frac{B}{B_\text{crit}}

    Parameters
    ----------
    batch, critical
        Tokens of a batch, B, and :func:`critical_batch`.

    Notes
    -----
    Source: McCandlish et al. 2018, equations 2.11 and 2.12. It bounds data parallelism: replicas that double the
    batch beyond B_crit save less and less time, and their tokens are paid for.

    Examples
    --------
    >>> batch_cost([1e6, 4e6, 16e6], 4e6).tokens.tolist()
    [1.25, 2.0, 5.0]
    """
    return BatchCost(1 + critical / batch, 1 + batch / critical)


# --- Time and accelerators for a budget of FLOPs ---------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class TrainingRun(Explained):
    """A run of ``flops`` on ``gpus`` accelerators, each of which does ``rate`` useful FLOP/s while it lasts."""

    flops: Flops
    gpus: Count
    rate: FlopsPerSecond

    @property
    def time(self) -> Seconds:
        """From start to end."""
        return self.flops / (self.gpus * self.rate)

    @property
    def gpu_time(self) -> Seconds:
        """Of all accelerators together. Times a price, it is the bill."""
        return self.flops / self.rate

    def _rows(self) -> Rows:
        rows = [("", "value"), ("flops", f"{summary(self.flops / 1e24)} x 10²⁴"), ("gpus", summary(self.gpus))]
        rows += [("rate", summary(self.rate, "FLOP/s")), ("time", summary(self.time, "s"))]
        return [*rows, ("GPU-hours", summary(self.gpu_time / 3600))]


@law
def training_run(
    flops: PositiveFlops, gpus: Count, *, peak: FlopsPerSecond, efficiency: Efficiency, goodput: PositiveShare = 1
) -> TrainingRun:
    r"""Time of a run, from its FLOPs.

    .. math:: t = \frac{F}{n\,P\,\eta\,g}

    Parameters
    ----------
    flops
        Model FLOPs of the run, F: 6 N D for a dense decoder.
    gpus
        Accelerators, n.
    peak
        Dense peak of one, P.
    efficiency
        MFU, eta, or the rule that gives it for so many accelerators.
    goodput
        Share of the time in which the run makes progress, g.

    Notes
    -----
    Source: Narayanan et al. 2021 (SC21), equation 4, without its 8 FLOPs for recomputation.

    Examples
    --------
    Llama 3 405B on 16,384 H100 at the MFU that table 4 of its paper prints: 26.0 million GPU-hours. Its model card says
    30.84, which hold more than pre-training.

    >>> run = training_run(6 * 405e9 * 15.6e12, 16384, peak=989e12, efficiency=0.41)
    >>> round(run.time / 86400, 1), round(run.gpu_time / 3.6e9, 1)
    (66.0, 26.0)
    """
    (eta,) = fraction(efficiency=efficiency(gpus) if callable(efficiency) else efficiency)
    broadcastable(flops=flops, gpus=gpus, peak=peak, efficiency=eta, goodput=goodput)
    return TrainingRun(flops, gpus, peak * eta * goodput)


@law
def gpus_needed(
    flops: PositiveFlops,
    time: PositiveSeconds,
    *,
    peak: FlopsPerSecond,
    efficiency: Efficiency,
    goodput: PositiveShare = 1,
    most: Count = 2**24,
) -> Count:
    r"""Fewest accelerators that finish a run in a time.

    .. math:: \min \{\, n : n\,\eta(n)\, P\, g\, t \ge F \,\}

    Parameters
    ----------
    flops, time
        Model FLOPs of the run, F, and time, t.
    peak, goodput
        As in :func:`training_run`.
    efficiency
        As in :func:`training_run`. n eta(n) must not fall up to ``most``.
    most
        Accelerators that there are at most.

    Raises
    ------
    ValueError
        Even ``most`` are too few.

    Notes
    -----
    Derived from :func:`training_run`; found by bisection.

    Examples
    --------
    >>> rule = lambda n: logarithmic_efficiency(n, first=0.62, drop=0.02)
    >>> float(gpus_needed(3.79e25, 90 * 86400, peak=989e12, efficiency=rule))
    14332.0
    """
    if not callable(efficiency):
        (efficiency,) = fraction(efficiency=efficiency)
        broadcastable(flops=flops, time=time, peak=peak, efficiency=efficiency, goodput=goodput, most=most)

    def enough(n: Count) -> np.ndarray:
        return n * (efficiency(n) if callable(efficiency) else efficiency) >= flops / (peak * goodput * time)

    high = most + 0 * np.asarray(enough(most), float)
    if not np.all(enough(high)):
        short = f"{np.max(most):g} accelerators are too few for {np.min(time):g} s"
        raise ValueError(f"time must be longer: {short}")
    low = 0 * high
    for _ in range(int(np.ceil(np.log2(np.max(most)))) + 1):
        middle = np.maximum(np.floor((low + high) / 2), 1)
        good = enough(middle)
        low, high = np.where(good, low, middle), np.where(good, middle, high)
    return high[()]
