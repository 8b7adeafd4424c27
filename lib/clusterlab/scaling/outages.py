"""Outages: what one costs, and how often there is one with units to spare."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from ..checks import broadcastable, fraction, nonnegative, whole
from ..records import Explained, summary
from ..units import year
from .bills import Bill


def outage_bill(price, duration, *, lost_work=0, restart=0, revenue=0) -> Bill:
    r"""What an outage costs: time in which a cluster is paid for and brings nothing, and sales that are lost.

    .. math:: C = p\,(t + w + s) + v\,(t + s)

    Parameters
    ----------
    price : array_like
        Dollars a second of the whole cluster, p.
    duration : array_like
        Seconds without it, t.
    lost_work, restart : array_like
        Seconds of work since the last checkpoint, w, and of starting again, s.
    revenue : array_like
        Dollars a second of sales that no other cluster makes meanwhile, v.

    Returns
    -------
    Bill

    Raises
    ------
    ValueError
        An argument is negative or not finite.

    Examples
    --------
    An hour of 16,384 GPUs at $2, half an hour of work lost, ten minutes to start again:

    >>> from clusterlab.units import fmt
    >>> fmt(outage_bill(16384 * 2 / 3600, 3600, lost_work=1800, restart=600).total, "$")
    '$54,600'
    """
    money, down, lost, again, sales = nonnegative(
        price=price, duration=duration, lost_work=lost_work, restart=restart, revenue=revenue
    )
    return Bill(
        MappingProxyType(
            {
                "idle": money * down,
                "work repeated": money * lost,
                "restart": money * again,
                "sales": sales * (down + again),
            }
        )
    )


@dataclass(frozen=True, repr=False)
class Redundancy(Explained):
    """Units that carry a load, units that are installed, and the share of time in which enough of them work."""

    needed: float
    installed: float
    availability: float

    @property
    def overbuild(self):
        """Units installed for each one needed."""
        return self.installed / self.needed

    @property
    def downtime(self):
        """Seconds a year without enough of them."""
        return (1 - self.availability) * year

    def _rows(self):
        rows = [("", "value")]
        rows += [(n, summary(np.asarray(getattr(self, n)).astype(int)[()])) for n in ("needed", "installed")]
        rows.append(("availability", summary(self.availability, "%") if np.ndim(self.availability) else ""))
        rows[-1] = ("availability", f"{100 * np.min(self.availability):.6g}%")
        return [*rows, ("downtime a year", summary(self.downtime, "s"))]


def redundancy(needed, availability, *, spares=0, paths=1) -> Redundancy:
    r"""Availability of power or cooling with N, N+1 or 2N units.

    .. math:: A = 1 - (1 - A_\text{path})^m, \qquad
              A_\text{path} = \sum_{j=0}^{s} \binom{N + s}{j} (1 - a)^j a^{N + s - j}

    Parameters
    ----------
    needed : array_like
        Units that carry the load, N.
    availability : array_like
        Share of the time in which one unit works, in (0, 1], a.
    spares : array_like
        Further units of each path, s: 1 is N+1.
    paths : array_like
        Paths of which each carries the whole load, m: 2 is 2N.

    Returns
    -------
    Redundancy

    Raises
    ------
    ValueError
        ``needed`` or ``paths`` is not a positive integer, ``spares`` is not a whole number of at least 0, or
        ``availability`` is outside (0, 1].

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
    units, copies = whole(needed=needed, paths=paths)
    (extra,) = nonnegative(spares=spares)
    (a,) = fraction(availability=availability)
    broadcastable(needed=units, availability=a, spares=extra, paths=copies)
    if np.any(extra != np.floor(extra)):
        raise ValueError(f"spares must be a whole number of at least 0, got {np.max(extra):g}")
    each = units + extra
    failed = _more_fail(each, extra, a)
    return Redundancy(units, copies * each, (1 - failed**copies)[()])


@np.vectorize
def _more_fail(units, spares, availability):
    """P(more than ``spares`` of ``units`` fail): terms that are all positive, each relative to the largest of them."""
    if availability == 1 or spares >= units:
        return 0.0
    j = np.arange(1, int(units) + 1)
    log = np.concatenate([[0.0], np.cumsum(np.log((units - j + 1) / j) + np.log((1 - availability) / availability))])
    weight = np.exp(log - log.max())
    return float(weight[int(spares) + 1 :].sum() / weight.sum())
