"""Spares and interval: what a student computes from the chronicle of BLOOM 176B."""

from __future__ import annotations

from datetime import datetime

import numpy as np

from clusterlab.evidence import learn_incidents, parse_incidents
from clusterlab.failures import Job, goodput, implied_mttf, optimal_interval, spare_pool, young_interval
from clusterlab.units import day, fmt, hour, minute

NODES, SPARES, GPUS = 48, 4, 384
STEP, SAVE, EVALUATION = 105.0, 40.0, 12 * minute
EVERY_WEEK = 7 * day  # "every week or so we have hardware issues where one of the gpus dies"
INCIDENTS = """time,cause,lost_hours
2022-03-21 13:34,GPU,7.3
2022-03-22,maintenance,
2022-04-28,slow GPU,
2022-04-30,hang,18
2022-05-09,hang,6
2022-05-18,hang,11
"""
LAUNCH, FULL, END = datetime(2022, 3, 11, 11, 42), datetime(2022, 3, 18, 11, 42), datetime(2022, 7, 4, 21)
FIRST, LAST = 12_695, 94_767  # iterations at FULL and at END
EPOCH = datetime(2022, 6, 28), 85_376


def days(start: datetime, end: datetime) -> float:
    """Days from one moment to another."""
    return (end - start).total_seconds() / day


def overhead(steps: float) -> float:
    """Task 3, by hand: saving, and half an interval of work lost with each failure, as a share of the time."""
    interval = steps * STEP
    return SAVE / interval + interval / 2 / EVERY_WEEK


def answers() -> dict[str, str]:
    """Every number of the sample report."""
    # 1. and 2. The log as it is, and what its author says.
    watched = days(LAUNCH, END)
    log = learn_incidents(parse_incidents(INCIDENTS, "incidents.csv", gpus=GPUS, days=round(watched)))
    weekly = watched / 7
    mttf = EVERY_WEEK * GPUS
    llama = implied_mttf(419, components=16384, window=54 * day)

    # 3. The interval.
    best = optimal_interval(SAVE, EVERY_WEEK)
    shares = {steps: overhead(steps) for steps in (250, 100, 66)}
    exact = {steps: 1 - goodput(Job(interval=steps * STEP, write=SAVE, mtbf=EVERY_WEEK)).useful for steps in shares}

    # 4. Spares: a machine of the job fails once in 48 weeks.
    repairs = np.array([1, 3, 7, 14]) * day
    pools = {k: spare_pool(k, nodes=NODES, node_mtbf=NODES * EVERY_WEEK, repair=repairs) for k in range(SPARES + 1)}

    # 5. Where 8 % of the time went.
    elapsed = days(FULL, END)
    trained = (LAST - FIRST) * STEP / day
    parts = {
        "hangs": (18 + 6 + 11) * hour,
        "evaluations": (LAST - FIRST) / 1000 * EVALUATION,
        "saves": (LAST - FIRST) / 100 * SAVE,
        "rework": elapsed / 7 * 50 * STEP,
    }
    known = sum(parts.values()) / day
    alarm = 3 * (0.5 * hour + 50 * STEP)
    late = (LAST - EPOCH[1]) * STEP / day
    return {
        "watched": f"{watched:.0f}",
        "incidents": f"{len(log.log.times)}",
        "hours_lost": f"{sum(x for x in log.log.lost if x == x) / hour:.1f}",
        "hang_hours": f"{18 + 6 + 11}",
        "log_mttf": fmt(log.mttf.value, "h"),
        "log_low": fmt(log.mttf.low, "h"),
        "log_high": fmt(log.mttf.high, "h"),
        "before": fmt(log.before, "h"),
        "expected": f"{log.book.value:.0f} ({log.book.low:.0f} to {log.book.high:.0f})",
        "weekly": f"{weekly:.0f}",
        "missing": f"{weekly - 1:.0f}",
        "mttf": fmt(mttf, "h"),
        "years": f"{mttf / day / 365.25:.1f}",
        "llama": fmt(llama.value, "h"),
        "llama_ratio": f"{mttf / llama.value:.1f}",
        "week": f"{EVERY_WEEK:,.0f} s",
        "epoch": f"{EPOCH[1]:,}",
        "last": f"{LAST:,}",
        "young": f"{young_interval(SAVE, EVERY_WEEK):,.0f} s",
        "young_hours": f"{young_interval(SAVE, EVERY_WEEK) / hour:.1f} h",
        "young_steps": f"{young_interval(SAVE, EVERY_WEEK) / STEP:.0f}",
        "best_steps": f"{best / STEP:.0f}",
        **{f"overhead_{steps}": f"{100 * share:.2f} %" for steps, share in shares.items()},
        **{f"exact_{steps}": f"{100 * share:.2f} %" for steps, share in exact.items()},
        "interval_100": f"{100 * STEP / hour:.1f} h",
        "interval_250": f"{250 * STEP / hour:.1f} h",
        "gain": f"{(shares[250] - shares[100]) * watched * 24:.0f} h",
        "gain_best": f"{(shares[100] - shares[66]) * watched * 24:.0f} h",
        "month": f"{young_interval(SAVE, 4 * EVERY_WEEK) / STEP:.0f}",
        "spare_cost": f"{100 / 52:.1f} %",
        "spares_cost": f"{100 * SPARES / 52:.1f} %",
        **{
            f"waiting_{k}_{r:.0f}": f"{100 * float(pool.waiting[i]):.2g} %"
            for k, pool in pools.items()
            for i, r in enumerate(repairs / day)
        },
        **{f"none_{r:.0f}": f"{100 * float(pools[4].none_left[i]):.2g} %" for i, r in enumerate(repairs / day)},
        **{f"load_{r:.0f}": f"{float(pools[0].load[i]):.2g}" for i, r in enumerate(repairs / day)},
        "elapsed": f"{elapsed:.1f}",
        "steps": f"{LAST - FIRST:,}",
        "trained": f"{trained:.1f}",
        "goodput": f"{100 * trained / elapsed:.0f} %",
        "away": f"{elapsed - trained:.1f}",
        **{f"{name}_days": f"{seconds / day:.1f}" for name, seconds in parts.items()},
        "known": f"{known:.1f}",
        "unknown": f"{elapsed - trained - known:.1f}",
        "unknown_share": f"{100 * (elapsed - trained - known) / elapsed:.0f} %",
        "alarm": f"{alarm / hour:.0f} h",
        "alarm_saves": f"{35 - alarm / hour:.0f} h",
        "late_steps": f"{LAST - EPOCH[1]:,}",
        "late_days": f"{late:.1f}",
        "late_had": f"{days(EPOCH[0], END):.1f}",
    }
