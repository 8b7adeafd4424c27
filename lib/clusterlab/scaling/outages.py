"""Outages: what one costs, and how often there is one with units to spare."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from ..quantities import (
    CalendarSeconds,
    Count,
    DollarsPerSecond,
    Multiple,
    PositiveShare,
    Seconds,
    Share,
    WholeAmount,
    law,
)
from ..records import Explained, Rows, summary
from ..units import year
from .bills import Bill

# --- Outages, and what it costs to avoid them ------------------------------------------------------------------------


@law
def outage_bill(
    price: DollarsPerSecond,
    duration: Seconds,
    *,
    lost_work: Seconds = 0,
    restart: Seconds = 0,
    revenue: DollarsPerSecond = 0,
) -> Bill:
    r"""What an outage costs: time in which a cluster is paid for and brings nothing, and sales that are lost.

    .. math:: C = p\,(t + w + s) + v\,(t + s)

    Parameters
    ----------
    price
        What the whole cluster costs, p.
    duration
        Time without the cluster, t.
    lost_work, restart
        Work since the last checkpoint, w, and the time to start again, s.
    revenue
        Sales that no other cluster makes meanwhile, v.

    Notes
    -----
    Derived: lost work is paid for twice, and sales are lost only while nothing runs, for t + s.

    Examples
    --------
    An hour of 16,384 GPUs at $2, half an hour of work lost, ten minutes to start again:

    >>> from clusterlab.units import fmt
    >>> fmt(outage_bill(16384 * 2 / 3600, 3600, lost_work=1800, restart=600).total, "$")
    '$54,600'
    """
    sales = revenue * (duration + restart)
    parts = {"idle": price * duration, "work repeated": price * lost_work, "restart": price * restart, "sales": sales}
    return Bill(MappingProxyType(parts))


@dataclass(frozen=True, repr=False)
class Redundancy(Explained):
    """Units that carry a load, units that are installed, and the share of time in which enough of them work."""

    needed: Count
    installed: Count
    availability: Share

    @property
    def overbuild(self) -> Multiple:
        """Units installed for each one needed."""
        return self.installed / self.needed

    @property
    def downtime(self) -> CalendarSeconds:
        """Seconds a year without enough of them."""
        return (1 - self.availability) * year

    def _rows(self) -> Rows:
        rows = [("", "value")]
        rows += [(n, summary(np.asarray(getattr(self, n)).astype(int)[()])) for n in ("needed", "installed")]
        rows.append(("availability", f"{100 * np.min(self.availability):.6g}%"))
        return [*rows, ("downtime a year", summary(self.downtime, "s"))]


@law
def redundancy(needed: Count, availability: PositiveShare, *, spares: WholeAmount = 0, paths: Count = 1) -> Redundancy:
    r"""Availability of power or cooling with N, N+1 or 2N units.

    .. math:: A = 1 - (1 - A_\text{path})^m, \qquad
              A_\text{path} = \sum_{j=0}^{s} \binom{N + s}{j} (1 - a)^j a^{N + s - j}

    Parameters
    ----------
    needed
        Units that carry the load, N.
    availability
        Share of the time in which one unit works, a.
    spares
        Further units of each path, s: 1 is N+1.
    paths
        Paths of which each carries the whole load, m: 2 is 2N.

    Notes
    -----
    Derived: units fail and are repaired independently. A shared switch, a common mistake or a flood fails all of them,
    and sets what a real site reaches: the Uptime Institute's four tiers are 28.8, 22, 1.6 and 0.8 hours a year.

    Examples
    --------
    Ten generators of 99.5 %: hours a year without enough of them, with N, N+1 and 2N.

    >>> kinds = [redundancy(10, 0.995, spares=s, paths=m) for s, m in ((0, 1), (1, 1), (0, 2))]
    >>> [(kind.overbuild, round(float(kind.downtime) / 3600, 1)) for kind in kinds]
    [(1.0, 428.6), (1.1, 11.7), (2.0, 21.0)]
    """
    each = needed + spares
    failed = _more_fail(each, spares, availability)
    return Redundancy(needed, paths * each, (1 - np.power(failed, paths))[()])


@np.vectorize
def _more_fail(units: float, spares: float, availability: float) -> float:
    """P(more than ``spares`` of ``units`` fail): terms that are all positive, each relative to the largest of them."""
    if availability == 1 or spares >= units:
        return 0.0
    j = np.arange(1, int(units) + 1)
    log = np.concatenate([[0.0], np.cumsum(np.log((units - j + 1) / j) + np.log((1 - availability) / availability))])
    weight = np.exp(log - log.max())
    return float(weight[int(spares) + 1 :].sum() / weight.sum())
