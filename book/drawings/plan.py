"""Drawings of a plan: the chain from a model to its bill, and the assumptions that move it.

What computes is compute, wires are wire, what is kept is memory, what is lost is waste, money is ochre. Every number
is the plan's own.
"""

from __future__ import annotations

import math

from clusterlab.planning import Plan
from clusterlab.records import with_interval, words
from clusterlab.units import fmt
from explorable import Arrow, Box, Label, Part, Scene

_LEFT, _WIDE, _SIDE, _NARROW = (0.0, 206.0, 246.0, 154.0)  # the spine of boxes, and what hangs on it
_HIGH, _GAP = 46.0, 32.0


def _flops(value: float) -> str:
    """FLOPs with a power of ten that is a multiple of three."""
    power = 3 * int(math.log10(value) // 3)
    return f"{value / 10**power:.3g} x 10{str(power).translate(str.maketrans('0123456789', '⁰¹²³⁴⁵⁶⁷⁸⁹'))} FLOP"


def chain(made: Plan) -> Scene:
    """A plan from its model to its bill: on each arrow what leaves one law and enters the next.

    Parameters
    ----------
    made : Plan
        From :func:`clusterlab.planning.plan`.

    Examples
    --------
    >>> from clusterlab.planning import Site, Training, plan
    >>> run = Training("Llama 3.1 8B", 1e12, global_batch=512)
    >>> chain(plan(run, Site("H100 SXM", gpus=64), draws=10)).alt
    '1T tokens of Llama 3.1 8B on 64 H100 SXM: 22.2 d (20.1 to 24.2), $67,700, 118 kW rated.'
    """
    one, done, training = made.design, made.outcome, made.training
    layout = one.layout
    cut = ", ".join(f"{name} {getattr(layout, name):.0f}" for name in ("tp", "pp", "dp"))
    tokens = fmt(training.tokens / 1e12) + "T tokens"
    flops = float(one.step.model_flops * training.steps)
    cost = _sure(made, "cost") if math.isfinite(float(done.cost)) else "no price known"
    spine = [
        (f"{training.model.name}\n{tokens}", "ink", _flops(flops)),
        (f"{one.gpus:,.0f} {one.accelerator}\n{cut}", "compute", f"{_sure(made, 'step_time')} a step"),
        (
            f"{_sure(made, 'time')}\n{_sure(made, 'effective_time', 2)} useful",
            "compute",
            f"{one.hosts:,.0f} GPUs with their spares",
        ),
        (
            f"{fmt(float(done.site.total), 'W')} rated\n{_sure(made, 'mean_power')} drawn",
            "wire",
            f"{_sure(made, 'energy')} metered",
        ),
        (f"{cost}\nthe run", "ochre", ""),
    ]
    racks = f"{one.racks:,.0f} rack{'s' if one.racks != 1 else ''}"
    sides = [
        (f"{fmt(float(one.checkpoint.size), 'B')} saved\nevery {fmt(float(one.interval), 's')}", "optimizer"),
        (f"{one.fabric.switches:,.0f} switches\n{one.fabric.cables:,.0f} cables", "network"),
        (f"{float(done.failures):,.3g} failures\n{one.spares:,.0f} spare servers", "lost"),
        (f"{racks}\n{fmt(float(done.energy.carbon) / 1000, 't CO2e')}", "grey"),
        None
        if done.capital is None
        else (_sure(made, "capital").replace(" (", " to build\n").removesuffix(")"), "ochre"),
    ]
    parts: list[Part] = []
    for i, ((text, kind, through), side) in enumerate(zip(spine, sides, strict=True)):
        y = i * (_HIGH + _GAP)
        parts.append(Box(_LEFT, y, _WIDE, _HIGH, text, kind, solid=i in (0, len(spine) - 1)))
        if through:
            parts.append(Arrow(_WIDE / 4, y + _HIGH + 2, _WIDE / 4, y + _HIGH + _GAP - 2, kind="ink"))
            parts.append(Label(_WIDE / 4 + 10, y + _HIGH + _GAP / 2, through, "start"))
        if side:
            parts.append(Arrow(_WIDE + 4, y + _HIGH / 2, _SIDE - 4, y + _HIGH / 2, kind="grey", heads=0))
            parts.append(Box(_SIDE, y, _NARROW, _HIGH, *side))
    bottom = len(spine) * (_HIGH + _GAP) - _GAP
    said = f"{tokens} of {training.model.name} on {one.gpus:,.0f} {one.accelerator}: {_sure(made, 'time')}, "
    said += f"{cost.partition(' (')[0]}, {fmt(float(done.site.total), 'W')} rated."
    return Scene(400, bottom, parts, alt=said)


def _sure(made: Plan, name: str, digits: int = 3) -> str:
    """A number of a plan with its interval."""
    one = made.intervals[name]
    return with_interval(one.value, one.low, one.high, one.unit, digits)


def tornado(made: Plan, *, of: str = "cost", most: int = 8) -> Scene:
    """What each assumption alone does to a plan, from one end of its interval to the other, the widest first.

    Parameters
    ----------
    made : Plan
        From :func:`clusterlab.planning.plan`.
    of : {"cost", "time"}
        What it moves.
    most : int
        Assumptions that are drawn.

    Raises
    ------
    ValueError
        ``of`` is neither, or the plan has no price.

    Examples
    --------
    >>> from clusterlab.planning import Site, Training, plan
    >>> run = Training("Llama 3.1 8B", 1e12, global_batch=512)
    >>> tornado(plan(run, Site("H100 SXM", gpus=64), draws=10), most=2).alt
    'The cost moves by -14% to +52% with capital; by -9.7% to +39% with life.'
    """
    moves = made.moves(of)[:most]
    low, high = min(0.0, *(one.less for one in moves)), max(0.0, *(one.more for one in moves))
    left, right, row = 146.0, 352.0, 24.0
    scale, bottom = (right - left) / (high - low or 1.0), row * len(moves)
    zero = left - low * scale
    parts: list[Part] = [Arrow(zero, 0, zero, bottom + 4, kind="ink", heads=0)]
    said = []
    for i, one in enumerate(moves):
        y = i * row
        start, end = zero + one.less * scale, zero + one.more * scale
        parts.append(Label(0, y + 10, words(one.name), "start"))
        parts.append(Box(start, y, max(end - start, 1.0), 20, kind="ochre" if of == "cost" else "waste", solid=True))
        less, more = one.said
        parts.append(Label(max(end, zero) + 5, y + 10, more, "start"))
        if less != more:
            parts.append(Label(min(start, zero) - 5, y + 10, less, "end"))
            said.append(f"by {less} to {more} with {words(one.name)}")
    step = next(step for step in (0.05, 0.1, 0.2, 0.5, 1.0, 2.0, math.inf) if (high - low) / step <= 4)
    for tick in (k * step for k in range(1, 5) if k * step <= high):
        x = zero + tick * scale  # a mark at the foot, for a line from the top would run through bars and numbers
        parts.append(Arrow(x, bottom, x, bottom + 4, kind="grey", heads=0))
        parts.append(Label(x, bottom + 12, f"{tick:+.0%}"))
    parts.append(Label(zero, bottom + 12, fmt(made.central[of == "cost"], "$" if of == "cost" else "s")))
    return Scene(400, bottom + 22, parts, alt=f"The {of} moves {'; '.join(said)}.")
