"""What is a watt worth? What a student computes from the wall meter of one DGX A100."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from clusterlab import catalogue
from clusterlab.power import energy_footprint, energy_per, mean_draw, power_cap, power_swing
from clusterlab.units import MW, fmt, kWh

DATA = Path(__file__).parent / "data"
GPUS, RATED, CAP, CAP_SERVER, TDP = 8, 6500.0, 300.0, 275.0, 400.0
STATIC = 39 / 244  # of a busy chip's draw at its highest clock, and the voltage floor: the power page's V100
FLOOR = 0.80


def trace(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Task 1: seconds from the first line, and watts."""
    rows = [line.split(",") for line in (DATA / f"{name}.csv").read_text().splitlines()[1:]]
    clock = np.array([[int(part) for part in moment.split(":")] for moment, _ in rows]) @ [3600, 60, 1]
    return clock - clock[0], np.array([float(watts) for _, watts in rows])


def rates() -> tuple[float, float, float]:
    """Samples a second: with the cap, with the cap and a promise, without a cap."""
    found = re.findall(r"amples per second\s*: ([\d.]+)", (DATA / "summary.txt").read_text())
    capped, promised, free = (float(rate) for rate in found)
    return capped, promised, free


def answers() -> dict[str, str]:
    """Every number of the sample report."""
    seconds, watts = trace("offline")
    _, serving = trace("server")
    capped, promised, free = rates()
    idle, busy = float(watts[seconds > 840].mean()), float(np.median(watts[watts > 3500]))
    early = float(watts[:18].mean())
    online = float(np.median(serving))
    (start,) = np.flatnonzero((watts[1:] > 3000) & (watts[:-1] < 3000))
    end = np.flatnonzero((watts[1:] < 3000) & (watts[:-1] > 3000))[-1]

    # 2. The energy of the run, and of a sample.
    duration = 798.591256247
    joules = busy * duration
    gaps = np.diff(seconds) > 1

    # 3. What is not the GPUs.
    rest = busy - GPUS * CAP
    slope = (busy - idle) / capped

    # 4. The cap.
    predicted = power_cap(CAP, static=TDP * STATIC, dynamic=TDP * (1 - STATIC), voltage_floor=FLOOR)
    cube = ((CAP - TDP * STATIC) / (TDP * (1 - STATIC))) ** (1 / 3)
    uncapped = rest + GPUS * TDP
    doubt = 380.0
    fleet = {"capped": 1 * MW // busy, "free": 1 * MW // uncapped}

    # 5. Many servers at once.
    swing = power_swing(np.array([busy, idle]), np.array([0.8, 0.2]))
    rating = catalogue.accelerator("A100 80GB").tdp
    pue = 1.25
    at = {"pue": pue, "price": 0.08 / kWh}
    year, free_year = (energy_footprint(watts_, 365 * 24 * 3600.0, **at).cost for watts_ in (busy, uncapped))
    speed = capped / free  # a capped server pays off below this cost a year: (c + year) / speed = c + free_year
    even = (speed * free_year - year) / (1 - speed)
    return {
        "lines": f"{len(watts)}",
        "cut": f"{gaps.sum()}",
        "early": f"{early:,.0f} W",
        "idle": f"{idle:,.0f} W",
        "busy": f"{busy:,.0f} W",
        "jitter": f"{watts[(seconds > 60) & (watts > 3500)].std():.1f} W",
        "idle_share": fmt(idle / busy, "%", digits=2),
        "of_rated": fmt(busy / RATED, "%", digits=2),
        "rating": f"{GPUS * (rating or 0):,.0f} W",
        "guess": fmt(mean_draw(RATED, utilisation=2 / 3).power, "W", digits=2),
        "duration": f"{duration:.0f} s",
        "rate": f"{capped:,.0f}",
        "joules": f"{joules / 1e6:.2f} MJ",
        "kwh": f"{joules / kWh:.2f} kWh",
        "samples": f"{capped * duration / 1e6:.1f} million",
        "sample": f"{energy_per(busy, capped):.3f} J",
        "mean_naive": f"{watts.mean():,.0f} W",
        "naive_off": fmt(1 - watts.mean() / busy, "%", digits=2),
        "caps": f"{GPUS * CAP:,.0f} W",
        "rest": f"{rest:,.0f} W",
        "rest_gpu": f"{rest / GPUS:.0f} W",
        "slope": f"{slope:.3f} J",
        "promised": f"{promised:,.0f}",
        "load": fmt(promised / capped, "%", digits=2),
        "line": f"{idle + slope * promised:,.0f} W",
        "online": f"{online:,.0f} W",
        "line_off": fmt(1 - (idle + slope * promised) / online, "%", digits=2),
        "at_cap": f"{rest + GPUS * CAP_SERVER:,.0f} W",
        "at_cap_off": f"{100 * abs((rest + GPUS * CAP_SERVER) / online - 1):.1f} %",
        "online_sample": f"{energy_per(online, promised):.3f} J",
        "dearer": fmt(energy_per(online, promised) / energy_per(busy, capped) - 1, "%", digits=2),
        "tenth": f"{energy_per(idle + slope * capped / 10, capped / 10):.3f} J",
        "tenth_times": f"{energy_per(idle + slope * capped / 10, capped / 10) / energy_per(busy, capped):.1f}",
        "cap_ratio": fmt(CAP / TDP, "%", digits=2),
        "static": f"{TDP * STATIC:.0f} W",
        "dynamic": f"{TDP * (1 - STATIC):.0f} W",
        "cube": f"{cube:.3f}",
        "predicted": f"{100 * float(predicted.speed):.1f} %",
        "free": f"{free:,.0f}",
        "measured": f"{100 * capped / free:.1f} %",
        "slower": f"{100 - 100 * capped / free:.0f} %",
        "uncapped": f"{uncapped:,.0f} W",
        "uncapped_sample": f"{energy_per(uncapped, free):.3f} J",
        "doubt": f"{doubt:.0f} W",
        "doubt_saved": f"{100 * (1 - energy_per(busy, capped) / energy_per(rest + GPUS * doubt, free)):.0f} %",
        "saved": f"{100 * (1 - energy_per(busy, capped) / energy_per(uncapped, free)):.0f} %",
        "fleet_capped": f"{fleet['capped']:.0f}",
        "fleet_free": f"{fleet['free']:.0f}",
        "fleet_capped_rate": f"{fleet['capped'] * capped / 1e6:.2f} million",
        "fleet_free_rate": f"{fleet['free'] * free / 1e6:.2f} million",
        "fleet_gain": f"{100 * (fleet['capped'] * capped / (fleet['free'] * free) - 1):.0f} %",
        "year": f"{year:,.0f} dollars",
        "pue": f"{pue}",
        "even": f"{even:,.0f} dollars",
        "rise_from": f"{watts[start - 1]:,.0f} W",
        "rise_to": f"{watts[start + 1]:,.0f} W",
        "fall_from": f"{watts[end - 1]:,.0f} W",
        "fall_to": f"{watts[end + 2]:,.0f} W",
        "thousand": f"{1000 * (busy - idle) / MW:.1f} MW",
        "swing_buffer": f"{swing.buffer:.0f} J",
        "buffer_thousand": f"{1000 * swing.buffer / 1e3:.0f} kJ",
    }
