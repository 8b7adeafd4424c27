"""Drawings of a plan: the chain from a model to its bill, and the assumptions that move it.

What computes is compute, wires are wire, what is kept is memory, what is lost is waste, money is ochre. Every number
is the plan's own.
"""

from __future__ import annotations

import math

from clusterlab import catalogue
from clusterlab.failures import Estimate
from clusterlab.model import training_flops
from clusterlab.planning import Fleet, InfeasibleError, Plan, Site, Training, least_memory
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
    '1T tokens of Llama 3.1 8B on 64 H100 SXM: 22.2 d (20 to 24.4), $67,700, 118 kW rated.'
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
        None if done.capital is None else ("{} to build\n{}".format(*_two(made.intervals["capital"])), "ochre"),
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


_ACROSS, _GUTTER, _BETWEEN, _APART = 140.0, 98.0, 22.0, 18.0  # of the chain with links
_TALL = (42.0, 58.0, 42.0, 58.0, 58.0, 42.0, 58.0)  # its rows: two lines, or three
_CHAPTERS = (
    ("Parallelism", "parallelism"),
    ("", "parallelism"),
    ("Interconnect", "interconnect"),
    ("Failures", "failures"),
    ("Power", "power"),
    ("Scaling\nand cost", "scaling"),
    ("Serving", "serving"),
)
_LAWS = (
    ("model.md#clusterlab.model.training_flops", "parallelism.md#clusterlab.parallelism.footprint"),
    ("parallelism.md#clusterlab.parallelism.search", "parallelism.md#clusterlab.parallelism.step"),
    ("interconnect.md#clusterlab.interconnect.fat_tree", "planning.md#clusterlab.planning.design"),
    ("failures.md#clusterlab.failures.expected_run_time", "failures.md#clusterlab.failures.RunTime"),
    ("power.md#clusterlab.power.facility", "power.md#clusterlab.power.energy_footprint"),
    ("scaling.md#clusterlab.scaling.capital", "scaling.md#clusterlab.scaling.yearly_bill"),
    ("serving.md#clusterlab.serving.frontier", "scaling.md#clusterlab.scaling.cost_per"),
)
_NOTHING = "\N{EN DASH}"


def answer(training: Training, site: Site, made: Plan | InfeasibleError, fleet: Fleet | InfeasibleError) -> Scene:
    """A model on so many accelerators, from its FLOPs to the price of a token: each box leads to its law.

    What is predicted has the ends of its 80 % interval on the line below it. The names on the left lead to the
    chapters. Where the model does not fit, it says by how much, and which number would do. Pages are named as from the
    front page of the book.

    Parameters
    ----------
    training : Training
        The model and its tokens.
    site : Site
        With an accelerator and ``gpus``, and no limits.
    made : Plan or InfeasibleError
        From :func:`clusterlab.planning.plan`.
    fleet : Fleet or InfeasibleError
        From :func:`clusterlab.planning.serve`, of whatever size: what serves the model on the same accelerators.

    Examples
    --------
    >>> from clusterlab.planning import Serving, plan, serve
    >>> run, site = Training("Llama 3.1 8B", 1e12, global_batch=512), Site("H100 SXM", gpus=64)
    >>> fleet = serve(Serving("Llama 3.1 8B", 1000, 1000, 300), Site("H100 SXM"), draws=10)
    >>> answer(run, site, plan(run, site, draws=10), fleet).alt
    'Llama 3.1 8B on 64 H100 SXM fits, and trains on 1T tokens in 22.2 d (20 to 24.4) for $67,700, at 118 kW rated.'
    """
    model, gpus = training.model.name, f"{site.gpus:,.0f} {site.accelerator}"
    flops = training_flops(training.model, training.sequence).model * training.workload.tokens * training.steps
    start = (f"{model}\n{_flops(float(flops))}", "ink")
    if isinstance(made, InfeasibleError):
        held, why = _misfit(training, site)
        rows = [[start, (f"{gpus}\n{held}", "lost")], *([(_NOTHING, "grey")] * 2 for _ in range(5))]
        verdict = [f"It does not fit: {why}.", f"The nearest number that does is {made.nearest['gpus']:,.0f}."]
        said = f"{model} on {gpus} does not fit: {why}. {verdict[1]}"
    else:
        first, *others = _numbers(made)
        rows = [[start, *first], *others]
        tokens, done = f"{fmt(training.tokens / 1e12)}T tokens", made.outcome
        time, cost = " (".join(_in_days(made.intervals["time"])) + ")", float(done.cost)
        more = made.binding
        buys = (
            f"{more.gpus:,.0f} more GPUs would save {_days(-more.time)}."
            if more.time < 0
            else "Cut like this, more GPUs would be no faster."
            if site.layout
            else "More GPUs would be no faster: the batch binds."
        )
        verdict = [f"It {_fits(made)}: {tokens} in {time}.", buys]
        said = f"{model} on {gpus} {_fits(made)}, and trains on {tokens} in {time}"
        said += f" for {fmt(cost, '$')}" if math.isfinite(cost) else ""
        said += f", at {fmt(float(done.site.total), 'W')} rated."
    rows.append(_served(site, fleet))
    parts: list[Part] = [Label(0, 9 + 19 * i, line, "start", strong=not i) for i, line in enumerate(verdict)]
    y, left, right = 46.0, _GUTTER, _GUTTER + _ACROSS + _BETWEEN
    for i, (row, tall, (chapter, page), laws) in enumerate(zip(rows, _TALL, _CHAPTERS, _LAWS, strict=True)):
        if chapter:
            parts.append(Label(0, y + tall / 2, chapter, "start", link=f"{page}.ipynb"))
        for x, (text, kind), law in zip((left, right), row, laws, strict=True):
            solid = kind == "lost" or text.endswith("tokens")
            link = "" if text == _NOTHING else f"reference/{law}"
            parts.append(Box(x, y, _ACROSS, tall, text, kind, solid=solid, link=link))
        parts.append(Arrow(left + _ACROSS + 3, y + tall / 2, right - 3, y + tall / 2, kind="ink"))
        y += tall + _APART
        if i < len(rows) - 1:
            parts.append(Arrow(right + 24, y - _APART + 2, left + _ACROSS - 24, y - 2, kind="ink"))
    return Scene(400, y - _APART, parts, alt=said)


def _days(seconds: float) -> str:
    """A time in the unit that people use for it."""
    return fmt(seconds, _unit_of_days(seconds))


def _unit_of_days(seconds: float) -> str:
    units = {"yr": 730 * 86400, "d": 36 * 3600, "h": 3600, "min": 60}
    return next((unit for unit, least in units.items() if seconds >= least), "s")


def _in_days(one: Estimate) -> tuple[str, str]:
    """A long time and the ends of its interval, in one unit."""
    return _two(one, _unit_of_days(one.value))


def _two(one: Estimate, unit: str | None = None, digits: int = 3) -> tuple[str, str]:
    """A number, and the ends of its interval for the line below it."""
    number, ends = with_interval(one.value, one.low, one.high, one.unit if unit is None else unit, digits).split(" (")
    return number, ends.removesuffix(")")


def _sure(made: Plan, name: str, digits: int = 3) -> str:
    """A number of a plan with its interval."""
    one = made.intervals[name]
    return with_interval(one.value, one.low, one.high, one.unit, digits)


def _misfit(training: Training, site: Site) -> tuple[str, str]:
    """What an accelerator would have to hold, and why the model does not fit."""
    room = catalogue.accelerator(str(site.accelerator)).hbm_capacity
    need = least_memory(training, site)
    if not math.isfinite(need):
        return "no equal parts", "model and batch have no such parts"
    return (f"{fmt(need, 'B')} of {fmt(room, 'B')}", f"{fmt(need, 'B')} a GPU, of {fmt(0.9 * room, 'B')} to use")


def _fits(made: Plan) -> str:
    """That it fits, or that it ran where the law of memory says that it would not: as it was published."""
    room = catalogue.accelerator(made.design.accelerator).hbm_capacity
    return "fits" if float(made.design.memory) <= room else "ran"


def _numbers(made: Plan) -> list[list[tuple[str, str]]]:
    """What stands in the boxes of a plan, row by row, after its FLOPs."""
    one, done = made.design, made.outcome
    layout, fabric = one.layout, one.fabric
    cut = [f"{name} {getattr(layout, name):.0f}" for name in ("tp", "pp", "dp", "cp")]
    cut += [f"ep {layout.ep:.0f}"] if made.training.model.experts else []
    room = fmt(catalogue.accelerator(one.accelerator).hbm_capacity, "B")
    held = f"{fmt(float(one.memory), 'B').removesuffix(' GB')} of {room}"
    links = f"{fabric.switches:,.0f} switches" if fabric.name != "torus" else "a torus"
    built = cost = ("no price\non record", "grey")
    if done.capital is not None:
        number, ends = _two(made.intervals["capital"])
        built = (f"{number} to build\n{ends}", "ochre")
    elif done.bill is not None:
        built = ("rented", "grey")
    if done.bill is not None:
        number, ends = _two(made.intervals["cost"])
        cost = (f"{number} the run\n{ends}", "ochre")
    racks = "1 rack" if one.racks == 1 else f"{one.racks:,.0f} racks"
    sure = made.intervals
    useful, kept = _two(sure["effective_time"], digits=2)
    stops = f"{_rounded(float(done.failures))} failures\n{useful} useful\n{kept}"
    energy, joules = _two(sure["energy"])
    carbon = f"{energy}\n{joules}\n{fmt(float(done.energy.carbon) / 1000, 't CO2e')}"
    drawn, watts = _two(sure["mean_power"])
    watts = f"{fmt(float(done.site.total), 'W')} rated\n{drawn} drawn\n{watts}"
    step, seconds = _two(sure["step_time"])
    mfu = _sure(made, "mfu", 2 if sure["mfu"].low >= 0.1 else 1)
    time, days = _in_days(sure["time"])
    return [
        [(f"{one.gpus:,.0f} {one.accelerator}\n{_fits(made)}: {held}", "memory")],
        [
            (f"{', '.join(cut[:2])}\n{', '.join(cut[2:])}", "compute"),
            (f"{step} a step\n{seconds}\nMFU {mfu}", "compute"),
        ],
        [
            (f"{links}\n{fabric.cables:,.0f} cables", "network"),
            (f"{racks}\n{one.spares:,.0f} spare servers", "network"),
        ],
        [(stops, "waste"), (f"{time} in all\n{days}", "compute")],
        [(watts, "wire"), (carbon, "wire")],
        [built, cost],
    ]


def _rounded(count: float) -> str:
    """A count to three digits, in full."""
    return f"{float(f'{count:.3g}'):,.12g}"


def _served(site: Site, fleet: Fleet | InfeasibleError) -> list[tuple[str, str]]:
    """What the same accelerators serve, and at what price."""
    nothing = (_NOTHING, "grey")
    if isinstance(fleet, InfeasibleError):
        return [("no replica\nis fast enough", "lost"), nothing]
    service, each = fleet.service, float(fleet.token_cost)
    replicas = float(site.gpus or fleet.gpus) // float(service.gpus)
    if not replicas:
        return [(f"a replica needs\n{service.gpus:,.0f} of them", "lost"), nothing]
    users = f"{_rounded(replicas * float(service.sequences * fleet.busy))} users"
    speed, ends = _two(fleet.intervals["speed"])
    said = [(f"{users}\nat {speed}\n{ends}", "cache"), ("no price\non record", "grey")]
    if math.isnan(each):
        return said
    price, ends = _two(fleet.intervals["cost_of_a_million_tokens"])
    return [said[0], (f"{price}\na million tokens\n{ends}", "ochre")]


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
    low, high = min(one.less for one in moves), max(one.more for one in moves)
    left, right, row = 116.0, 312.0, 24.0
    scale = (right - left) / (max(high, 0.0) - min(low, 0.0) or 1.0)
    zero = left - min(low, 0.0) * scale
    parts: list[Part] = []
    said = []
    for i, one in enumerate(moves):
        y = i * row
        start, end = zero + one.less * scale, zero + one.more * scale
        parts.append(Label(0, y + 10, words(one.name), "start"))
        parts.append(Box(start, y, max(end - start, 1.0), 20, kind="ochre" if of == "cost" else "waste", solid=True))
        less, more = one.said
        parts.append(Label(400, y + 10, more, "end"))
        if less != more:
            said.append(f"by {less} to {more} with {words(one.name)}")
    bottom = row * len(moves)
    parts.append(Arrow(zero, 0, zero, bottom, kind="ink", heads=0))
    parts.append(Label(zero, bottom + 10, fmt(made.central[of == "cost"], "$" if of == "cost" else "s")))
    return Scene(400, bottom + 20, parts, alt=f"The {of} moves {'; '.join(said)}.")
