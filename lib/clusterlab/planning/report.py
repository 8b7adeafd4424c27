"""Reports: a plan as a page that a colleague can read and check, and as an object that a program can read.

The page is one file of HTML without a script, and asks nothing of any other host.
"""

from __future__ import annotations

import html
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any

from ..catalogue import SPREADS
from ..failures import Estimate, RunTime
from ..records import Explained, words
from ..scaling import Bill
from ..units import fmt
from .planner import (
    ASSUMPTIONS,
    FLEET_METRICS,
    LEARNED,
    METRICS,
    Binding,
    Check,
    Fleet,
    Joint,
    Plan,
    Point,
    Swing,
    World,
)

# --- An object -------------------------------------------------------------------------------------------------------


def as_object(made: Plan | Fleet, world: World) -> dict[str, Any]:
    """Return a plan as what JSON can hold.

    Parameters
    ----------
    made : Plan or Fleet
        From :func:`clusterlab.planning.plan` or :func:`clusterlab.planning.serve`.
    world : World
        In which it was made.

    Returns
    -------
    dict
        ``asked``, ``parts`` (each with ``value`` and ``unit``), ``intervals``, ``joints`` (``name``, ``left``,
        ``right``, ``unit``, ``holds``), ``front``, ``binding``, ``tornado``, ``assumptions``, and ``published`` where
        it is a preset; of a training run also ``time``. SI units; None where a number is not known.

    Examples
    --------
    >>> from clusterlab.planning import WORLD, Site, Training, plan
    >>> made = plan(Training("Llama 3.1 8B", 1e11, global_batch=512), Site("H100 SXM", gpus=8), draws=10)
    >>> as_object(made, WORLD)["joints"][0]["name"]
    'FLOPs of the steps = FLOPs of the tokens'
    """
    found: dict[str, Any] = {
        "kind": "training" if isinstance(made, Plan) else "serving",
        "asked": _asked(made),
        "parts": {name: {"value": _plain(value), "unit": unit} for name, (value, unit) in _parts(made).items()},
        "intervals": {
            name: {"value": _plain(one.value), "low": _plain(one.low), "high": _plain(one.high), "unit": one.unit}
            for name, one in made.intervals.items()
        },
        "joints": [_joint(joint) for joint in made.joints],
        "front": [_record(point) for point in made.front],
        "assumptions": {f.name: _plain(getattr(world, f.name)) for f in fields(world)},
    }
    if made.binding:
        found["binding"] = _record(made.binding)
    found["tornado"] = [_record(bar) for bar in made.tornado]
    if isinstance(made, Plan):
        found["time"] = {name: _plain(seconds) for name, seconds in made.outcome.run.parts.items()}
    if made.published:
        found["published"] = [
            {name: _plain(getattr(one, name)) for name in ("name", "unit", "planned", "low", "high", "published")}
            | {"error": _plain(one.error), "source": one.fact.source.title, "url": one.fact.source.url}
            | {"date": one.fact.source.date, "kind": one.fact.kind, "note": one.fact.note}
            for one in made.published
        ]
    return found


def _plain(value):
    """A number that JSON has, text, or a list of them."""
    if isinstance(value, str | bool) or value is None:
        return value
    if isinstance(value, tuple | list):
        return [_plain(one) for one in value]
    number = float(value)
    return number if math.isfinite(number) else None


def _record(one: Any) -> dict[str, Any]:
    return {f.name: _plain(getattr(one, f.name)) for f in fields(one)}


def _joint(joint: Joint) -> dict[str, Any]:
    return _record(joint) | {"holds": joint.holds}


def _asked(made: Plan | Fleet) -> dict[str, Any]:
    asked: Any = made.training if isinstance(made, Plan) else made.serving
    site: Any = made.site if isinstance(made, Plan) else made.place
    said = {f.name: getattr(asked, f.name) for f in fields(asked)} | {"model": asked.model.name}
    said |= {f.name: getattr(site, f.name) for f in fields(site) if f.name != "layout"}
    chosen = made.design.layout if isinstance(made, Plan) else made.layout
    said["layout"] = {f.name: _plain(getattr(chosen, f.name)) for f in fields(chosen)}
    return {key: value for key, value in said.items() if value is not None}


def _parts(made: Plan | Fleet) -> dict[str, tuple[Any, str]]:
    """Everything that is to be built or comes of it: value and unit."""
    if isinstance(made, Plan):
        return {name: (get(made.design, made.outcome), unit) for name, (unit, get) in METRICS.items()}
    return {name: (get(made), unit) for name, (unit, get) in FLEET_METRICS.items()}


# --- A page ----------------------------------------------------------------------------------------------------------

_STYLE = """
:root { color-scheme: light dark; --ink: #1b1b1f; --paper: #fff; --line: #d5d5da; --bar: #1f6fb2; --soft: #9cc3e4 }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e8e8ec; --paper: #16161a; --line: #3c3c44; --bar: #6db3ee; --soft: #2f5d82 }
}
body { color: var(--ink); background: var(--paper); font: 16px/1.5 system-ui, sans-serif }
body { max-width: 60rem; margin: 0 auto; padding: 1rem }
h1 { font-size: 1.7rem; line-height: 1.25 }
h2 { font-size: 1.25rem; margin-top: 2.2rem }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums }
th, td { border-bottom: 1px solid var(--line); padding: .25rem .5rem; text-align: right; vertical-align: top }
th:first-child, td:first-child, .text { text-align: left }
td.text { min-width: 10rem }
.scroll { overflow-x: auto }
svg { width: 100%; min-width: 32rem; height: auto; display: block }
svg text { fill: var(--ink); font: 13px system-ui, sans-serif }
.bar { fill: var(--bar) }
.soft { fill: var(--soft) }
.rule { stroke: var(--ink) }
a { color: inherit }
@media (max-width: 30rem) { table { font-size: .8rem } th, td { padding: .25rem .3rem } }
"""


_UNIT = re.compile(r"(?<=\d) (?=[^\d\W])")  # the space between a number and its unit


class _Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


def page(made: Plan | Fleet, world: World) -> str:
    """Return a plan as one HTML page: what to build, what it does and costs, how sure, and everything to check it by.

    Parameters
    ----------
    made : Plan or Fleet
        From :func:`clusterlab.planning.plan` or :func:`clusterlab.planning.serve`.
    world : World
        In which it was made.

    Returns
    -------
    str
        A whole document.

    Examples
    --------
    >>> from clusterlab.planning import WORLD, Site, Training, plan
    >>> made = plan(Training("Llama 3.1 8B", 1e11, global_batch=512), Site("H100 SXM", gpus=8), draws=10)
    >>> page(made, WORLD).startswith("<!doctype html>")
    True
    """
    title, parts = _training(made) if isinstance(made, Plan) else _serving(made)
    parts += [_joints(made.joints), _front(made.front, isinstance(made, Plan)), _assumed(world)]
    body = "\n".join(parts)
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{html.escape(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
        f"<h1>{html.escape(title)}</h1>\n{body}\n</body>\n</html>\n"
    )


def _training(made: Plan) -> tuple[str, list[str]]:
    training, done, money = made.training, made.outcome, made.intervals.get("cost")
    title = f"{training.model.name}, {training.tokens / 1e12:.3g} trillion tokens: "
    title += f"{made.design.gpus:,.0f} {made.design.accelerator}"
    time = made.intervals["time"]
    answer = f"It takes <b>{_span(time)}</b>"
    answer += f" and costs <b>{_span(money)}</b>" if money else "; no price is known for it"
    answer += f", at {_span(made.intervals['mean_power'])}. Each range holds eight of ten drawn worlds."
    parts = [f"<p>{answer}</p>", f"<p>{_bound(made.binding)}</p>"]
    parts += _published(made.published)
    parts.append(_section("What to build", _record_table(made.design)))
    parts.append(_section("The fabric", _record_table(made.design.fabric)))
    parts.append(_section("What it does, and how sure", _results(made.intervals)))
    shares = {name: float(s) for name, s in done.run.parts.items() if s > 0}
    parts.append(_section("Where the time goes", _bars(shares, "s") + _table(*_spent(done.run))))
    parts.append(_section("Where the power goes", _bars(_floats(done.site.parts), "W") + _record_table(done.site)))
    parts += _money(**{"Where the money goes": done.bill, "What it takes to build": done.capital})
    if made.tornado:
        parts.append(_section("Which assumption matters most", _tornado(made)))
    return title, parts


def _serving(made: Fleet) -> tuple[str, list[str]]:
    asked = made.serving
    title = f"{asked.model.name}, {asked.rate:,.3g} requests a second: {made.gpus:,.0f} {made.machine.name}"
    speed, cost = made.intervals["speed"], made.intervals.get("cost_a_year")
    answer = f"Each user gets <b>{_span(speed)}</b>"
    answer += f"; a year costs <b>{_span(cost)}</b>" if cost else "; no price is known for it"
    parts = [f"<p>{answer}. Each range holds eight of ten drawn worlds.</p>"]
    parts += [f"<p>{_bound(made.binding)}</p>"] if made.binding else []
    parts += _published(made.published)
    parts.append(_section("What to build, what it does, how sure", _record_table(made)))
    parts.append(_section("The fabric", _record_table(made.fabric)))
    parts.append(_section("Where the power goes", _bars(_floats(made.site.parts), "W") + _record_table(made.site)))
    parts += _money(**{"What a year costs": made.bill, "What it takes to build": made.capital})
    if made.tornado:
        parts.append(_section("Which assumption matters most", _tornado(made)))
    return title, parts


def _published(checks: Sequence[Check]) -> list[str]:
    if not checks:
        return []
    rows = []
    for one in checks:
        numbers = one.with_interval, fmt(one.published, one.unit), f"{one.error:+.1%}"
        rows.append((words(one.name), *numbers, _source(one.fact), one.fact.note))
    heading = ("", "planned", "published", "error", "source", "note")
    return [_section("Beside what was published", _table(heading, rows, 2))]


def _spent(run: RunTime) -> tuple[Sequence[str], list[Sequence[str]]]:
    """What a run's time is spent on, without its total: that stands above, with the interval of the plan."""
    heading, *parts, _ = run._rows()
    return heading, parts


def _money(**bills: Bill | None) -> list[str]:
    return [
        _section(name, _bars(_floats(bill.parts), "$") + _record_table(bill)) for name, bill in bills.items() if bill
    ]


def _floats(parts: Mapping[str, Any]) -> dict[str, float]:
    return {name: float(value) for name, value in parts.items() if float(value) > 0}


def _span(one: Estimate) -> str:
    return html.escape(one.with_interval)


def _bound(one: Binding) -> str:
    """What keeps the plan where it is, in a sentence."""
    unit = fmt(one.unit, one.dimension) if one.dimension else f"{one.unit:.0f}"
    unit += " more of it" if one.dimension else " more"
    changes = []
    for value, dimension, name in ((one.gpus, "", "GPUs"), (one.time, "s", "of time"), (one.cost, "$", "of cost")):
        if math.isfinite(value) and value and not (one.name == "deadline" and dimension == "s"):
            count = f"{value:+,.0f}" if abs(value) >= 10 else f"{value:+.2g}"
            shown = count if not dimension else ("+" if value > 0 else "") + fmt(value, dimension)
            changes.append(f"{shown} {name}")
    said = ", ".join(changes) or "nothing"
    return f"What binds is <b>{html.escape(words(one.name))}</b>; {unit} would change: {said}."


def _section(title: str, inside: str) -> str:
    return f"<section>\n<h2>{html.escape(title)}</h2>\n{inside}\n</section>"


def _table(heading: Sequence[str], rows: Iterable[Sequence[str]], texts: int = 0) -> str:
    """Rows of text under a heading; the last ``texts`` columns are words, which stand on the left."""
    wide = len(heading) - texts

    def line(row: Sequence[str], tag: str) -> str:
        cells = []
        for i, cell in enumerate(row):
            inside = cell if isinstance(cell, _Markup) else html.escape(_UNIT.sub("\u00a0", cell))
            cells.append(f"<{tag}{' class=text' if i >= wide else ''}>{inside}</{tag}>")
        return f"<tr>{''.join(cells)}</tr>"

    inside = "\n".join(line(row, "td") for row in rows)
    return (
        f'<div class="scroll"><table>\n<thead>{line(heading, "th")}</thead>\n<tbody>\n{inside}\n</tbody></table></div>'
    )


def _record_table(one: Explained) -> str:
    heading, *rows = one._rows()
    return _table(heading, rows)


def _results(intervals: Mapping[str, Estimate]) -> str:
    return _table(("", "value"), [(words(name), one.with_interval) for name, one in intervals.items()])


def _bars(parts: Mapping[str, float], unit: str) -> str:
    """Parts of a whole as bars, the largest first."""
    total, step = sum(parts.values()) or 1.0, 24
    lines = []
    for i, (name, value) in enumerate(sorted(parts.items(), key=lambda pair: -pair[1])):
        width, y = 380 * value / total, i * step
        label = html.escape(f"{fmt(value, unit)}, {fmt(value / total, '%')}")
        lines.append(f'<text x="0" y="{y + 16}">{html.escape(words(name))}</text>')
        lines.append(f'<rect class="bar" x="170" y="{y + 4}" width="{max(width, 1):.1f}" height="16"/>')
        lines.append(f'<text x="{176 + width:.1f}" y="{y + 16}">{label}</text>')
    alt = html.escape("; ".join(f"{name} {fmt(value / total, '%')}" for name, value in parts.items()), quote=True)
    return _drawing(len(parts) * step + 4, alt, lines)


def _drawing(height: int, alt: str, lines: Sequence[str]) -> str:
    """Marks as a picture, which keeps its type readable where the page is narrow."""
    picture = f'<svg viewBox="0 0 720 {height}" role="img" aria-label="{alt}">{"".join(lines)}</svg>'
    return f'<div class="scroll">{picture}</div>'


def _tornado(made: Plan | Fleet) -> str:
    """Bars of what each assumption does to the cost (or the time, where no price is known), and their ends."""
    if isinstance(made, Plan):
        paid, cost, time, what = made.outcome.bill is not None, made.outcome.cost, made.outcome.time, "time"
    else:
        paid, cost, time, what = made.bill is not None, made.cost, made.service.time_per_token, "time of a token"
    centre = float(cost if paid else time)
    ends = [bar.cost if paid else bar.time for bar in made.tornado]
    furthest = max(abs(end / centre - 1) for pair in ends for end in pair) or 1.0
    lines, step = [], 24
    for i, (bar, pair) in enumerate(zip(made.tornado, ends, strict=True)):
        low, high = (440 + 170 * (end / centre - 1) / furthest for end in pair)
        left, y = min(low, high), i * step
        lines.append(f'<text x="0" y="{y + 16}">{html.escape(words(bar.name))}</text>')
        lines.append(
            f'<rect class="soft" x="{left:.1f}" y="{y + 4}" width="{max(abs(high - low), 1):.1f}" height="16"/>'
        )
        shown = f"{min(pair) / centre - 1:+.1%} to {max(pair) / centre - 1:+.1%}"
        lines.append(f'<text x="130" y="{y + 16}">{shown}</text>')
    height = len(ends) * step + 4
    lines.append(f'<line class="rule" x1="440" y1="0" x2="440" y2="{height}"/>')
    what = "cost" if paid else what
    first = made.tornado[0]
    alt = html.escape(f"{first.name} moves the {what} most, from {_ends(ends[0], paid)}", quote=True)
    rows = []
    for bar in made.tornado:
        costs = (fmt(end, "$") if math.isfinite(end) else "" for end in bar.cost)
        times = (fmt(end, "s") for end in bar.time)
        rows.append((words(bar.name), *_printed(bar), *times, *costs))
    heading = ("assumption", "low", "high", "time at low", "time at high", "cost at low", "cost at high")
    said = f"<p>The {what} with one assumption at each end of its interval, all others at their centre.</p>"
    return said + _drawing(height, alt, lines) + _table(heading, rows)


def _printed(bar: Swing) -> tuple[str, str]:
    """The ends of an interval as the data prints them, where they are those of the data."""
    one = ASSUMPTIONS.get(bar.name)
    if one and one.low and one.high and math.isclose(bar.low, one.low) and math.isclose(bar.high, one.high):
        return str(one.facts["low"].printed), str(one.facts["high"].printed)
    return f"{bar.low:.4g}", f"{bar.high:.4g}"


def _ends(pair: Sequence[float], paid: bool) -> str:
    """Two ends of a bar in words."""
    return " to ".join(fmt(end, "$" if paid else "s") for end in pair)


def _joints(joints: Sequence[Joint]) -> str:
    rows = [
        (j.name, f"{float(j.left):.10g}", f"{float(j.right):.10g}", j.unit, "yes" if j.holds else "NO") for j in joints
    ]
    good = sum(joint.holds for joint in joints)
    said = f"<p>{good} of {len(joints)} hold: what leaves one law is what enters the next. SI units.</p>"
    return _section("The certificate", said + _table(("joint", "left", "right", "unit", "holds"), rows, 2))


def _front(front: Sequence[Point], training: bool) -> str:
    rows = []
    for one in front:
        numbers = one.say("time"), one.say("cost"), one.say("power"), f"{one.racks:,.0f}"
        rows.append((f"{one.gpus:,.0f} {one.accelerator}", *numbers))
    what = "time" if training else "time a token"
    said = "<p>None of these is both faster and cheaper than another.</p>" if training else ""
    heading = ("GPUs", what, "cost" if training else "cost a year", "site, rated", "racks")
    return _section("The plans to choose from", said + _table(heading, rows))


def _assumed(world: World) -> str:
    rows = []
    for name, one in ASSUMPTIONS.items():
        now, fact = float(getattr(world, name)), one.facts["value"]
        same = math.isclose(now, one.value)
        shown = str(fact.printed) if same else f"{now:.6g} (SI units)"
        ends = [str(one.facts[end].printed) if end in one.facts else "" for end in ("low", "high")]
        if name in LEARNED:
            spread = SPREADS[LEARNED[name]]
            ends = [f"{now * spread.low:.3g}", f"{now * spread.high:.3g}"]
        basis = (fact.kind, _source(fact), fact.note) if same else ("changed", "", "")
        rows.append((words(name), shown, *ends, *basis))
    lost = SPREADS[LEARNED["lost_time"]]
    basis = (lost.facts["low"].kind, _source(lost.facts["low"]), "multiplies the odds of lost time")
    rows.append(("lost time", f"{float(world.lost_time):g}", f"{lost.low:g}", f"{lost.high:g}", *basis))
    heading = ("assumption", "value", "1 in 10 below", "1 in 10 above", "kind", "source", "note")
    return _section("What is assumed", _table(heading, rows, 3))


def _source(fact) -> str:
    title = html.escape(f"{fact.source.title}, {fact.source.date}")
    if fact.source.url.startswith("https://"):
        return _Markup(f'<a href="{html.escape(fact.source.url, quote=True)}">{title}</a>')
    return f"{fact.source.title}, {fact.source.date}"
