"""Drawings of scaling and cost: a machine and what is left of its peak, a chain of losses, a bill, spare units.

Useful compute is compute, what is lost is waste, money is ochre; widths are to scale within a drawing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from clusterlab.scaling import Bill, Chain, Redundancy
from clusterlab.units import fmt
from explorable import Arrow, Band, Box, Label, Part, Scene

_LINE = 16.0  # units from line to line


def machine(chain: Chain, *, gpus: int, facts: Mapping[str, str]) -> Scene:
    """A cluster, the peak that it has, what is left of it, and what the cluster takes.

    Parameters
    ----------
    chain : Chain
        Its peak, FLOP/s, and the shares that are left of it.
    gpus : int
        How many GPUs it has.
    facts : mapping
        Up to three short facts by what they are of: power, money, time.

    Examples
    --------
    >>> from clusterlab.scaling import chain
    >>> machine(chain(32768e15, MFU=0.32), gpus=32768, facts={"power": "45.9 MW"}).alt
    '32,768 GPUs have a peak of 32.8 EFLOP/s; 10.5 EFLOP/s of it are left, 32%. power: 45.9 MW.'
    """
    top, high, gap = 26.0, 92.0, 16.0
    kept = high * float(chain.share)
    peak, left = fmt(float(chain.start), "FLOP/s"), fmt(float(chain.result), "FLOP/s")
    share = fmt(float(chain.share), "%", 2)
    parts: list[Part] = [
        Box(0, top, 92, high, f"{gpus:,}\nGPU{'s' * (gpus > 1)}", "compute"),
        Band(92, top, 186, top, high, high, "grey"),
        Label(139, 11, f"peak {peak}", strong=True),
        Band(186, top, 280, top, kept, kept, "compute"),
        Label(287, top + max(kept / 2, 14), f"{left}\nleft, {share}", "start", strong=True),
    ]
    if high - kept > 0.1:
        parts += [
            Band(186, top + kept, 280, top + kept + gap, high - kept, high - kept, "waste"),
            Label(287, top + max(kept, 28) + gap + (high - kept) / 2, "lost", "start"),
        ]
    width = (400 - 8 * (len(facts) - 1)) / max(len(facts), 1)
    y = top + high + gap + 14
    for i, (name, text) in enumerate(facts.items()):
        parts.append(Box(i * (width + 8), y, width, 40, f"{text}\n{name}", "ochre"))
    have = "GPU has" if gpus == 1 else "GPUs have"
    said = f"{gpus:,} {have} a peak of {peak}; {left} of it are left, {share}."
    return Scene(400, y + 40 if facts else y, parts, alt=" ".join([said, *(f"{n}: {t}." for n, t in facts.items())]))


def cascade(chain: Chain, unit: str = "FLOP/s") -> Scene:
    """A rate on its way through its losses, as wide as what is left of it; each loss leaves it to the right.

    Parameters
    ----------
    chain : Chain
        The rate and its factors.
    unit : str
        Unit of the rate.

    Examples
    --------
    >>> from clusterlab.scaling import chain
    >>> cascade(chain(1012736e12, MFU=0.5, scaling=0.5, goodput=0.77)).alt
    'Of 1.01 EFLOP/s, 195 PFLOP/s are useful: 19%. Lost: MFU 506 PFLOP/s, scaling 253 PFLOP/s, goodput 58.2 PFLOP/s.'
    """
    top, high, end = 26.0, 130.0, 236.0
    step, scale = end / (len(chain.factors) + 1), high / float(chain.start)
    left, x = float(chain.start), 0.0
    trunk: list[Part] = [Label(0, 11, f"peak {fmt(left, unit)}", "start", strong=True)]
    trunk.append(Band(0, top, step, top, high, high, "grey"))
    leaving: list[tuple[float, float, str]] = []
    for name in chain.factors:
        x += step
        left = float(chain.rates[name])
        trunk.append(Band(x, top, x + step, top, left * scale, left * scale, "compute"))
        leaving.insert(0, (x, top + left * scale, name))
    trunk.append(Label(end + 8, top + max(left * scale / 2, 15), f"useful\n{fmt(left, unit)}", "start", strong=True))
    y = top + max(left * scale, 34)
    gap = 10.0
    for start, at, name in leaving:  # the last to leave is drawn highest, so none crosses another
        width = float(chain.lost[name]) * scale
        y += gap
        if width > 0:
            trunk.append(Band(start, at, end, y, width, width, "waste"))
        trunk.append(Label(end + 8, y + max(width, 12) / 2, f"{name}: {fmt(float(chain.lost[name]), unit)}", "start"))
        y += max(width, 12)
    share = fmt(float(chain.share), "%", 2)
    lost = ", ".join(f"{name} {fmt(float(rate), unit)}" for name, rate in chain.lost.items())
    said = f"Of {fmt(float(chain.start), unit)}, {fmt(left, unit)} are useful: {share}. Lost: {lost}."
    return Scene(400, top + high + 12 * len(leaving) + 40, trunk, alt=said)


def items(bill: Bill, kinds: Mapping[str, str], *, largest: float | None = None, per: str = "") -> Scene:
    """A bill, an item a line: its name, its share as a bar, its dollars.

    Parameters
    ----------
    bill : Bill
        Dollars by part.
    kinds : mapping
        Part to its colour; ochre where it has none.
    largest : float, optional
        Dollars for which the bars have room, so that several bills have one scale.
    per : str
        What the dollars are for: ``" a year"``.

    Examples
    --------
    >>> from clusterlab.scaling import bill
    >>> items(bill(GPUs=3.0e9, energy=1.0e9), {"GPUs": "compute"}, per=" a year").alt
    'The bill is $4B a year: GPUs $3B, 75%; energy $1B, 25%.'
    """
    named, room, row = 84.0, 196.0, 24.0
    most = max(float(dollars) for dollars in bill.parts.values()) if largest is None else largest
    parts: list[Part] = []
    said = []
    for i, (name, dollars) in enumerate(bill.parts.items()):
        part = float(dollars / bill.total)
        y, share = i * row, fmt(part, "%", 2 if part >= 0.01 else 1)
        parts.append(Label(0, y + 10, name, "start"))
        parts.append(
            Box(named, y, max(room * float(dollars) / most, 1.0), 20, "", kinds.get(name, "ochre"), solid=True)
        )
        parts.append(Label(348, y + 10, fmt(float(dollars), "$"), "end"))
        parts.append(Label(400, y + 10, share, "end"))
        said.append(f"{name} {fmt(float(dollars), '$')}, {share}")
    y = row * len(bill.parts) + 8
    parts += [Arrow(0, y - 5, 400, y - 5, kind="ink", heads=0), Label(0, y + 8, "total", "start", strong=True)]
    parts.append(Label(400, y + 8, fmt(float(bill.total), "$") + per, "end", strong=True))
    return Scene(400, y + 18, parts, alt=f"The bill is {fmt(float(bill.total), '$')}{per}: {'; '.join(said)}.")


def spares(kinds: Mapping[str, Redundancy]) -> Scene:
    """Units that carry a load and units that wait, a row for each way to install them, and what it leaves unserved.

    Parameters
    ----------
    kinds : mapping
        Name to :class:`~clusterlab.scaling.Redundancy`; scalars.

    Examples
    --------
    >>> from clusterlab.scaling import redundancy
    >>> spares({"N": redundancy(4, 0.995), "N+1": redundancy(4, 0.995, spares=1)}).alt
    'N: 4 units for 4, 174 h a year without enough. N+1: 5 units for 4, 2.17 h a year without enough.'
    """
    left, right, row = 46.0, 112.0, 34.0
    most = max(int(kind.installed) for kind in kinds.values())
    width = (400 - left - right) / most
    parts: list[Part] = [Label(400, 8, "short of power", "end", strong=True)]
    said = []
    for i, (name, kind) in enumerate(kinds.items()):
        y, short = (22 + i * row, fmt(float(kind.downtime), "h" if kind.downtime >= 3600 else "min"))
        parts.append(Label(0, y + 12, name, "start", strong=True))
        for unit in range(int(kind.installed)):
            carries = unit < kind.needed
            at = left + unit * width
            parts.append(Box(at, y, width - 2, 24, kind="ochre" if carries else "idle", solid=carries))
        parts.append(Label(400, y + 12, f"{short} a year", "end"))
        said.append(f"{name}: {int(kind.installed)} units for {int(kind.needed)}, {short} a year without enough.")
    return Scene(400, 22 + row * len(kinds), parts, alt=" ".join(said))


def ladder(rungs: Sequence[tuple[str, str]]) -> Scene:
    """Steps of a division, from what is paid to what one unit of work costs: name and amount of each.

    Parameters
    ----------
    rungs : sequence of (name, amount)
        From the top down; an arrow leads from each to the next.

    Examples
    --------
    >>> ladder([("a year", "$243M"), ("a GPU-hour", "$1.69")]).alt
    'a year: $243M. a GPU-hour: $1.69.'
    """
    parts: list[Part] = []
    width = (400 - 22 * (len(rungs) - 1)) // len(rungs)
    for i, (name, amount) in enumerate(rungs):
        x = i * (width + 22)
        parts.append(Box(x, 0, width, 46, f"{amount}\n{name}", "ochre", solid=i == len(rungs) - 1))
        if i:
            parts.append(Arrow(x - 19, 23, x - 3, 23, kind="ink"))
    return Scene(400, 46, parts, alt=" ".join(f"{name}: {amount}." for name, amount in rungs))
