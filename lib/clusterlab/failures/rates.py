"""Rates: how often components fail, how often what is made of them does, and how that changes with age."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from ..checks import positive, whole
from ..quantities import Amount, Count, Number, PositiveSeconds, Seconds, Share, law
from ..records import Explained, Rows, pairs_of, summary

# --- How often -------------------------------------------------------------------------------------------------------


@law
def system_mtbf(
    component_mtbf: PositiveSeconds, n: Count, *, exponent: Number = 1, reference: Count = 1
) -> PositiveSeconds:
    r"""Mean time between failures of n equal components, all of which are needed.

    .. math:: M = \frac{m}{n} \left(\frac{n_0}{n}\right)^{\beta - 1}

    Parameters
    ----------
    component_mtbf
        Mean time to failure of one component, m.
    n
        Components.
    exponent
        By which power of its size a job's failure rate grows, beta. At 1 a component fails as often in a large job as
        in a small one; above 1 large jobs have failures that small ones have not.
    reference
        Components of the job in which a component's mean time to failure is m, n_0; matters if beta is not 1.

    Notes
    -----
    Source: MLSysBook, Fleet Foundations, equation 1, for beta = 1. Exact for independent exponential lifetimes; for
    others the long-run mean, once the components' ages have mixed. Kokolis et al. 2025, figure 7: jobs of 8 GPUs ran
    47.7 days between failures, of 1,024 GPUs 7.9 hours, which is beta = 1.03.

    Examples
    --------
    >>> from clusterlab.units import day, fmt, hour
    >>> [fmt(system_mtbf(50_000 * hour, n), "min", digits=4) for n in (8192, 100_000)]
    ['366.2 min', '30 min']
    >>> fmt(system_mtbf(8 * 47.7 * day, 1024, exponent=1.0255, reference=8), "h")
    '7.9 h'
    """
    return component_mtbf / n * np.power(reference / n, exponent - 1)


@dataclass(frozen=True, repr=False)
class Series(Explained):
    """Kinds of components in series: a failure of any one stops the job. ``mtbfs``: MTBF of each kind."""

    mtbfs: Mapping[str, PositiveSeconds]

    @property
    def mtbf(self) -> PositiveSeconds:
        """Mean time between failures of any kind."""
        return 1 / sum(1 / mtbf for mtbf in self.mtbfs.values())

    @property
    def shares(self) -> Mapping[str, Share]:
        """Share of all failures that each kind causes; the shares sum to one."""
        return {name: self.mtbf / mtbf for name, mtbf in self.mtbfs.items()}

    def _rows(self) -> Rows:
        rows = [(name, summary(self.mtbfs[name], "s"), summary(self.shares[name], "%")) for name in self.mtbfs]
        return [("kind", "MTBF", "of failures"), *rows, ("all", summary(self.mtbf, "s"), "")]


def series_mtbf(**kinds: tuple[PositiveSeconds, Count]) -> Series:
    r"""Mean time between failures of several kinds of components in series: failure rates add.

    .. math:: \frac{1}{M} = \sum_i \frac{n_i}{m_i}

    Parameters
    ----------
    **kinds : (mtbf, n)
        For each kind, under a name of your choice, the mean time to failure of one component, seconds, and the number
        of components.

    Returns
    -------
    Series
        The MTBF of each kind and of all together, and the share of failures that each kind causes.

    Notes
    -----
    Derived: the minimum of independent exponential times is exponential, and its rate is the sum of their rates.

    Examples
    --------
    >>> series_mtbf(GPU=(5e8, 16384), switch=(1e9, 1024))
    Series
    kind       MTBF  of failures
    GPU     509 min          97%
    switch   11.3 d        3.03%
    all     493 min
    """
    mtbfs = {}
    for name, mtbf, n in pairs_of("series_mtbf needs at least one kind", "mtbf, n", kinds):
        whole(**{f"{name} n": n})
        mtbf, n = positive(**{f"{name} mtbf": mtbf, f"{name} n": n})
        mtbfs[name] = mtbf / n
    return Series(MappingProxyType(mtbfs))


@law
def failure_probability(window: Seconds, mtbf: PositiveSeconds) -> Share:
    r"""Probability of at least one failure in a window of time.

    .. math:: 1 - e^{-t/M}

    Parameters
    ----------
    window, mtbf
        Length of the window, t, and mean time between failures, M.

    Notes
    -----
    Source: the Poisson process; MLSysBook, Fleet Foundations, table 6.

    Examples
    --------
    >>> from clusterlab.units import day, fmt, hour
    >>> fmt(failure_probability(day, system_mtbf(50_000 * hour, 8192)), "%")
    '98%'
    """
    return -np.expm1(-window / mtbf)


@law
def infant_failures(window: Seconds, *, mtbf: PositiveSeconds, shape: Number, age: PositiveSeconds) -> Amount:
    r"""Mean number of failures of machines that were all new at the start of the window.

    .. math:: \Lambda(t) = \frac{a}{k M} \left(\frac{t}{a}\right)^k

    Parameters
    ----------
    window
        Time since all machines were new, t.
    mtbf, age
        Mean time between failures M of the system when its machines have the age a.
    shape
        Weibull shape k: below 1 is infant mortality, 1 is exponential, above 1 is wear-out.

    Returns
    -------
    Amount
        Mean number of failures; the failure rate at time t is (t/a)^(k-1) / M.

    Notes
    -----
    Source: Crow 1975, the power-law process: n components in series with Weibull lifetimes of scale eta, as long as few
    of them have been replaced; M = eta^k a^(1-k) / (n k).

    Examples
    --------
    The first week of a fleet with k = 0.5 whose MTBF reaches 3 h after 90 days, and what a constant rate would give:

    >>> from clusterlab.units import day, hour
    >>> round(infant_failures(7 * day, mtbf=3 * hour, shape=0.5, age=90 * day)), 7 * day / (3 * hour)
    (402, 56.0)
    """
    return age / (shape * mtbf) * np.power(window / age, shape)
