"""What runs and clusters are said to have cost, beside what the laws say: GPU-hours, bills, shares of a bill.

Hours are those of a plan, where a preset has the run, else the step model's over the goodput of a plan; dollars are
those of :mod:`clusterlab.scaling` at the prices of its lists. A chapter and the evidence page print the same rows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from .. import catalogue
from ..catalogue import PRICE_LISTS, RENTS, price_list
from ..parallelism import Step
from ..planning import preset
from ..quantities import Dollars
from ..records import Explained, Rows, Table, tabulate
from ..scaling import Bill, annuity, capital, compute_ledger, kept_per_doubling, yearly_bill
from ..units import GW, fmt, hour, year
from .fleet import planned_goodput, waits_for_people
from .tables import published
from .training_runs import Run, predict_run
from .training_tables import parse_runs, published_runs

# --- Stated costs ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class Claim(Explained):
    """One published figure beside the computed one.

    ``stated`` is what was printed, as (low, high) where a range was. ``low`` and ``high`` are the ends of the computed
    figure's 80 % interval, or None where it has none. ``why`` says where a difference comes from, ``role`` what an
    agreement is worth: the figure is predicted, fitted or restated, as :class:`clusterlab.catalogue.Fact` has it.
    """

    name: str
    unit: str
    stated: tuple[float, float]
    computed: float
    why: str
    low: float | None = None
    high: float | None = None
    role: str = "predicted"

    @property
    def error(self) -> float:
        """Computed over stated, less 1; against the nearer end of a range, and 0 within it."""
        return self.computed / min(max(self.computed, self.stated[0]), self.stated[1]) - 1

    @property
    def inside(self) -> bool | None:
        """Whether the stated figure lies in the interval of the computed one; None where there is no interval."""
        if self.low is None or self.high is None:
            return None
        return self.low <= self.stated[1] and self.stated[0] <= self.high

    @property
    def columns(self) -> tuple[str, str, str, str, str, str]:
        """Name, stated, computed with its interval, error, role and reason, as they are printed."""

        def printed(value: float) -> str:
            if self.unit == "GPU-hours":
                return fmt(value / 1e6, "million", 3)
            return fmt(value, self.unit, 3 if self.unit == "$" else 2)

        low, high = (printed(value) for value in self.stated)
        computed = printed(self.computed)
        if self.low is not None and self.high is not None:
            ends = [f"{end / 1e6:.3g}" for end in (self.low, self.high)]
            computed += f" ({ends[0]} to {ends[1]})"
        error = f"{100 * self.error:+.0f}%" if abs(self.error) >= 0.005 else "0%"
        return self.name, low if low == high else f"{low} to {high}", computed, error, self.role, self.why

    def _rows(self) -> Rows:
        names = ("", "stated", "computed", "error", "role", "why")
        return list(zip(names, self.columns, strict=True))


def claim_table(claims: Sequence[Claim], what: str = "what") -> Table:
    """Claims as a table, a row each: stated, computed with its interval, the error, what it is worth, and why.

    Examples
    --------
    >>> claim_table([Claim("a rack", "$", (5.9e6, 5.9e6), 6.2e6, "an example")])
    what    stated  computed  error       role         why
    a rack   $5.9M     $6.2M    +5%  predicted  an example
    """
    names = (what, "stated", "computed", "error", "role", "why")
    columns = zip(*(claim.columns for claim in claims), strict=True)
    return tabulate(dict(zip(names, map(list, columns), strict=True)))


def _stated(name: str, quantity: str) -> float:
    (row,) = published("economics", name=name, quantity=quantity)
    return row["value"]


# --- Stated GPU-hours ------------------------------------------------------------------------------------------------

# Where a run prints no number of accelerators, it is taken to have had these: what Llama 2's paper compares fabrics on.
_UNSTATED = 2048

# Of each run with stated hours: the preset that plans it; or the row of the table of training runs that holds its
# layout, and its accelerators; or the sequence and batch from which the reader of that table fills in the rest; its
# accelerator; and what its hours hold beside steps.
_PLANNED = {"Llama 3.1 405B": ("Llama 3 405B", "accelerator_time"), "DeepSeek-V3": ("DeepSeek-V3", "pretraining")}
_ROWS = {"BLOOM": ("T0685", 384), "LLaMA 65B": ("T0687", 2048), "PaLM 540B": ("T0683", 6144)}
_OPEN = {
    "Llama 3.1 8B": (8192, 2048),
    "Llama 3.1 70B": (8192, 2048),
    "Llama 2 7B": (4096, 1024),
    "Llama 2 13B": (4096, 1024),
    "Llama 2 70B": (4096, 1024),
}
_ACCELERATORS = {
    "DeepSeek-V3": "H800 SXM",
    "Llama 3.1 8B": "H100 SXM",
    "Llama 3.1 70B": "H100 SXM",
    "Llama 3.1 405B": "H100 SXM",
    "Llama 2 7B": "A100 80GB",
    "Llama 2 13B": "A100 80GB",
    "Llama 2 70B": "A100 80GB",
    "LLaMA 65B": "A100 80GB",
    "BLOOM": "A100 80GB",
    "OPT-175B": "A100 80GB",
    "Falcon 180B": "A100 40GB",
    "PaLM 540B": "TPU v4",
}
_WHY = {
    "Llama 3.1 405B": "of all training: smaller batches and long contexts too",
    "Llama 3.1 70B": "of all training; GPUs not published, 2,048 taken",
    "Llama 3.1 8B": "of all training, long contexts too; GPUs not published, 2,048 taken",
    "DeepSeek-V3": "its pre-training alone",
    "Llama 2 7B": "GPUs not published, 2,048 taken; some capped at 350 W",
    "Llama 2 13B": "the same",
    "Llama 2 70B": "the same",
    "LLaMA 65B": "layout not published: the fastest",
    "BLOOM": "steps measured at {measured} s, predicted {predicted}; its hours are 384 GPUs for 117 days",
    "OPT-175B": "33 days of 1,024, if nothing failed",
    "OPT-175B, as it went": "56 days of 992: 53 restarts, and waiting for people, as others waited",
    "PaLM 540B": "46 % of the peak in steps, 30 % over its days",
}


def _filled(name: str) -> Run:
    """A run whose layout is not published, as the reader of training runs completes it."""
    sequence, batch = _OPEN[name]
    rate = _stated(name, "tokens") / _stated(name, "accelerator_time")
    head = "model,gpu,n_gpus,gpus_per_node,global_batch,seq,precision,tokens_per_s_per_gpu,source"
    year_of = "2024" if name.startswith("Llama 3") else "2023"
    gpu = {"A100 80GB": "A100-SXM-80GB", "H100 SXM": "H100-SXM-80GB"}[_ACCELERATORS[name]]
    row = f"{name},{gpu},{_UNSTATED},8,{batch},{sequence},bf16,{rate:.1f},{year_of}"
    runs, skipped = parse_runs(f"{head}\n{row}", name)
    if not runs:
        raise ValueError(f"{name}: {skipped[0].why}")
    return runs[0]


def _hours(
    name: str, stated: float, tokens: float, run: Run, found: Step, gpus: int, *, holds: bool = False, wait: float = 0.0
) -> Claim:
    """GPU-hours of a run: its steps over the goodput of a plan, and the interval that both leave.

    Where people restarted it (``wait``), the plan waits as long as those of other sources made theirs wait.
    """
    plan, spread = (
        planned_goodput(gpus, by_hand=wait),
        catalogue.PREDICTION_INTERVALS["goodput, by hand" if wait else "goodput"],
    )
    kept = 1.0 if holds else float(plan.useful)
    least, most = (kept / (kept + odds * (1 - kept)) for odds in (spread.high, spread.low))
    of_batch = float(run.workload.global_batch * run.workload.sequence)
    steps = float(found.time) * gpus * tokens / of_batch / hour
    ends = []
    for time, share in ((found.low, most), (found.high, least)):
        ends.append(math.hypot(math.log(float(time) / float(found.time)), math.log(kept / share)))
    value = steps / kept
    why = _WHY[name].format(measured=round(run.seconds), predicted=round(float(found.time)))
    low, high = value * math.exp(-ends[0]), value * math.exp(ends[1])
    role = "fitted" if run.role == "given" else "predicted"
    return Claim(name, "GPU-hours", (stated, stated), value, why, low, high, role)


def _planned(name: str) -> Claim:
    """GPU-hours of a run that a preset plans, which are the plan's own on every page."""
    run, quantity = _PLANNED[name]
    stated = _stated(name, quantity) / hour
    (one,) = (check for check in preset(run).published if check.name == "gpu_hours")
    return Claim(name, "GPU-hours", (stated, stated), one.planned, _WHY[name], one.low, one.high, one.role)


@cache
def stated_hours() -> tuple[Claim, ...]:
    """GPU-hours that published training runs state, beside those of a plan or of the step model over its goodput.

    Layouts are the published ones where there are some. A run that prints no number of GPUs is taken to have had 2,048
    and what the reader of training runs fills in; the reason says so. OPT stands twice: as planned, and as it went.

    Examples
    --------
    >>> [(claim.name, round(claim.error, 1) + 0) for claim in stated_hours()[:2]]
    [('Llama 3.1 405B', -0.1), ('BLOOM', -0.3)]
    """
    rows = {run.row: run for run in published_runs()[0]}
    claims = [_planned("Llama 3.1 405B")]
    for name, (row, gpus) in _ROWS.items():
        run = rows[row]
        stated, tokens = _stated(name, "accelerator_time") / hour, _stated(name, "tokens")
        claims.append(_hours(name, stated, tokens, run, predict_run(run), gpus))
    opt = rows["T0684"]
    found, tokens = predict_run(opt), _stated("OPT-175B", "tokens")
    hours = _stated("OPT-175B", "accelerator_time") / hour
    claims.append(_hours("OPT-175B", hours, tokens, opt, found, 992, holds=True))
    hours = 992 * _stated("OPT-175B", "elapsed") / hour
    others = [math.log(wait) for source, wait in waits_for_people().items() if source != "OPT-175B"]
    wait = math.exp(sum(others) / len(others))
    claims.append(_hours("OPT-175B, as it went", hours, tokens, opt, found, 992, wait=wait))
    claims.append(_planned("DeepSeek-V3"))
    for name in _OPEN:
        run = _filled(name)
        stated, tokens = _stated(name, "accelerator_time") / hour, _stated(name, "tokens")
        claims.append(_hours(name, stated, tokens, run, predict_run(run), _UNSTATED))
    return tuple(claims)


# Rows of the table of training runs between which a cluster grew: with one batch, and with model and batch.
_PAIRS = {
    "Llama 3 405B, one batch": ("T0649", "T0650"),
    "177B, one batch": ("T0045", "T0046"),
    "1.7B to 462B, model and batch grow": ("T0036", "T0044"),
}


@cache
def stated_doublings() -> tuple[Claim, ...]:
    """How many times as much a doubling brought, on average between two published sizes, beside the step model.

    ``why`` names the sizes. Llama 3 405B is its paper's table 4, the others are Megatron-Core's README of 2024.

    Examples
    --------
    >>> for claim in stated_doublings():
    ...     print(claim.name, claim.why, round(claim.stated[0], 2))
    Llama 3 405B, one batch 8,192 to 16,384 1.86
    177B, one batch 96 to 4,608 1.96
    1.7B to 462B, model and batch grow 48 to 6,144 2.03
    """
    known = {run.row: run for run in published_runs()[0]}
    claims = []
    for name, rows in _PAIRS.items():
        runs = [known[row] for row in rows]
        found = [predict_run(run) for run in runs]
        gpus = [int(one.gpus) for one in found]
        said = [float(one.mfu) for one in found]
        seen = [mfu * float(one.time) / run.seconds for mfu, one, run in zip(said, found, runs, strict=True)]
        measured, predicted = (2 * float(kept_per_doubling(*zip(gpus, shares, strict=True))) for shares in (seen, said))
        role = "fitted" if any(run.role == "given" for run in runs) else "predicted"
        claims.append(Claim(name, "", (measured, measured), predicted, f"{gpus[0]:,} to {gpus[1]:,}", role=role))
    return tuple(claims)


@cache
def implied_mfu() -> dict[str, float]:
    """MFU that a run's stated hours imply: 6ND over hours times the dense BF16 peak, everything that held it up in it.

    D are the tokens of pretraining, so the hours are those of pretraining where a source tells them from the rest.

    Examples
    --------
    >>> {name: round(mfu, 2) for name, mfu in implied_mfu().items() if "405B" in name or "PaLM" in name}
    {'Llama 3.1 405B': 0.35, 'PaLM 540B': 0.3}
    """
    found = {}
    for name, accelerator in _ACCELERATORS.items():
        work = compute_ledger(_stated(name, "parameters"), _stated(name, "tokens")).pretraining
        peak = catalogue.accelerator(accelerator).peak("bf16")
        apart = published("economics", name=name, quantity="pretraining")
        hours = apart[0]["value"] if apart else _stated(name, "accelerator_time")
        found[name] = float(work / (hours * peak))
    return found


# --- Bills -----------------------------------------------------------------------------------------------------------

_SITE = ("substation", "generators", "electrical", "cooling", "building")
_FED = "our prices are read off it"
_AT_ITS_RENT = "its hours at its own $2"
_RACKS = 5932  # of 72 GPUs, in a gigawatt
_GPUS = 72 * _RACKS


@cache
def stated_bills() -> tuple[Claim, ...]:
    """Published bills of racks, clusters, gigawatts and runs, beside ours at the prices of the lists, 8 % a year.

    Examples
    --------
    >>> for claim in stated_bills()[1:3]:
    ...     print(*claim.columns[:4])
    1 GW, Bernstein $35B $35B 0%
    1 GW, NVIDIA $50B to $60B $35B -30%
    """
    return *_built_gigawatts(), *_yearly_gigawatts(), _programme(), *_h100_clusters(), *_deepseek_runs()


def _dollars(name: str, who: str, quantity: str, computed: Dollars, why: str) -> Claim:
    """A stated bill beside the computed one."""
    value = _stated(who, quantity)
    return Claim(name, "$", (value, value), float(computed), why, role=_role(who, quantity, why))


def _role(who: str, quantity: str, why: str) -> str:
    """What an agreement is worth: restated where we were fed with it, fitted where a price has the same source."""
    if why in (_FED, _AT_ITS_RENT):
        return "restated"
    (row,) = published("economics", name=who, quantity=quantity)
    seen = {fact.source.url for prices in PRICE_LISTS.values() for fact in prices.facts.values()}
    return "fitted" if row["url"] in seen else "predicted"


def _gigawatt() -> Bill:
    """What a gigawatt of GB200 NVL72 costs to build, at our prices."""
    return capital(_GPUS, GW, price_list("GB200 NVL72"))


def _built_gigawatts() -> list[Claim]:
    """A rack, and what fills a gigawatt, as three publishers price it."""
    rack, built = capital(72, GW / _RACKS, price_list("GB200 NVL72")), _gigawatt()
    site = sum(built.parts[name] for name in _SITE)
    hardware = built.total - site
    nvidia = _stated("NVIDIA", "capital_low"), _stated("NVIDIA", "capital_high")
    least, most = ((total - site) / hardware for total in nvidia)
    dearer = f"hardware {least:.1f} to {most:.1f} times as dear, in the same hall"
    pue = _stated("Epoch AI", "capital") / built.total
    of_it = f"a gigawatt of IT: with a PUE of {pue:.2f} ours would be one"
    return [
        _dollars("NVL72 rack, Bernstein", "Bernstein", "rack", rack.total, _FED),
        _dollars("1 GW, Bernstein", "Bernstein", "capital", built.total, _FED),
        Claim("1 GW, NVIDIA", "$", nvidia, float(built.total), dearer, role=_role("NVIDIA", "capital_low", dearer)),
        _dollars("1 GW, Epoch AI", "Epoch AI", "capital", built.total, of_it),
    ]


def _yearly_gigawatts() -> list[Claim]:
    """A gigawatt a year, by the years that servers live."""
    nvl72 = price_list("GB200 NVL72")
    three, five, seven = (yearly_bill(_GPUS, GW, nvl72, rate=0.08, life=n * year) for n in (3, 5, 7))
    chips = five.parts["GPUs"] + five.parts["servers"]
    ours, wired = fmt(chips, "$", 2), fmt(chips + five.parts["network"], "$", 2)
    servers = f"servers: {fmt(_stated('Epoch AI', 'servers'), '$')} there, {ours} here, {wired} with network"
    return [
        _dollars("1 GW a year, Epoch AI", "Epoch AI", "yearly", five.total, servers),
        _dollars("the same, servers 3 years", "Epoch AI", "yearly_3_year_life", three.total, "the same"),
        _dollars("the same, servers 7 years", "Epoch AI", "yearly_7_year_life", seven.total, "the same"),
    ]


def _programme() -> Claim:
    """Ten gigawatts, announced."""
    built = _stated("Stargate", "power") / GW * _gigawatt().total
    why = "later generations: $50B a gigawatt, as NVIDIA says"
    return _dollars("10 GW, Stargate", "Stargate", "programme", built, why)


def _h100_clusters() -> list[Claim]:
    """Servers and network of a sheet's two clusters of H100s."""
    claims = []
    for size, why in ((16384, _FED), (104858, "a third tier of switches")):
        # The sheet's total holds $50,000 a server for the hall and its running, over the life.
        stated = _stated(f"{size} H100", "capital") - size / 8 * 50e3
        parts = capital(size, 1.0, price_list("H100 SXM")).parts
        total = float(parts["servers"] + parts["network"])
        role = _role(f"{size} H100", "capital", why)
        claims.append(Claim(f"{size:,} H100s, networked", "$", (stated, stated), total, why, role=role))
    return claims


def _deepseek_runs() -> list[Claim]:
    """DeepSeek's hours of training at the rent that it assumes."""
    rent = RENTS["H800, assumed by DeepSeek"].price
    v3 = _stated("DeepSeek-V3", "accelerator_time")
    r1 = sum(_stated("DeepSeek-R1", part) for part in ("r1_zero", "data", "r1"))
    return [
        _dollars("DeepSeek-V3, all runs", "DeepSeek-V3", "cost", v3 * rent, _AT_ITS_RENT),
        _dollars("DeepSeek-R1, on top of it", "DeepSeek-R1", "cost", r1 * rent, _AT_ITS_RENT),
    ]


@cache
def development_shares() -> tuple[Claim, ...]:
    """Cottier et al.'s shares of what developing four frontier models cost, beside those of our bill of 16,384 H100s.

    Their staff is research, which our bill does not have, so energy is over energy and hardware; interconnect is over
    hardware.

    Examples
    --------
    >>> for claim in development_shares():
    ...     print(*claim.columns[:4])
    energy, of it and hardware 2.9% to 11% 5.7% 0%
    network, of hardware 19% 9.6% -50%
    """
    theirs = {
        f"{part}_{end}": _stated("four frontier models", f"{part}_{end}")
        for part in ("hardware", "energy", "interconnect")
        for end in ("low", "high")
    }
    low, high = (
        theirs[f"energy_{end}"] / (theirs[f"energy_{end}"] + theirs[f"hardware_{other}"])
        for end, other in (("low", "high"), ("high", "low"))
    )
    least, most = sorted(theirs[f"interconnect_{end}"] / theirs[f"hardware_{end}"] for end in ("low", "high"))
    one = yearly_bill(16384, 16384 * 1400, price_list("H100 SXM"), rate=0.08).parts
    machines = sum(one[name] for name in ("servers", "network", "storage"))
    hall = sum(one[name] for name in _SITE)
    return (
        Claim(
            "energy, of it and hardware",
            "%",
            (low, high),
            float(one["energy"] / (one["energy"] + machines + hall)),
            "the hall is in our bill, and not in theirs",
        ),
        Claim(
            "network, of hardware",
            "%",
            (least, most),
            float(one["network"] / machines),
            "our servers are priced with their NICs",
        ),
    )


@cache
def interest_of_epoch() -> tuple[float, float]:
    """Least and highest interest, in whole per cent, at which annuities give Epoch AI's three totals as it rounds them.

    Its capital is split in two at will: servers over 3, 5 or 7 years, and the site over 14.

    Examples
    --------
    >>> interest_of_epoch()
    (0.05, 0.09)
    """
    whole, running = _stated("Epoch AI", "capital"), _stated("Epoch AI", "operations")
    totals = {
        life: (_stated("Epoch AI", name), off * 1e9)
        for life, name, off in ((3, "yearly_3_year_life", 0.5), (5, "yearly", 0.05), (7, "yearly_7_year_life", 0.5))
    }
    servers = np.arange(0, whole, 1e8)
    fits = []
    for rate in np.arange(21) / 100:
        site = annuity(whole - servers, rate=rate, life=14 * year)
        inside = np.ones(len(servers), bool)
        for life, (stated, off) in totals.items():
            total = annuity(servers, rate=rate, life=life * year) + site + running
            inside &= np.abs(total - stated) <= off
        if inside.any():
            fits.append(float(rate))
    return min(fits), max(fits)
