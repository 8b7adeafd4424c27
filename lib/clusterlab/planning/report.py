"""Reports: a plan as a page that a colleague can read and check, and as an object that a program can read.

The page is one file of HTML without a script, and asks nothing of any other host.
"""

from __future__ import annotations

import html
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from typing import SupportsFloat

from ..catalogue import PREDICTION_INTERVALS, Fact
from ..failures import Estimate
from ..quantities import Number
from ..records import Explained, Json, words
from ..scaling import Bill
from ..units import fmt
from .choice import Plan
from .fleet import Fleet
from .recount import Sum, recount, said
from .result import Binding, Point, PublishedComparison, Sensitivity
from .scenario import ASSUMPTIONS, LEARNED, Scenario

# --- An object -------------------------------------------------------------------------------------------------------


def as_object(made: Plan | Fleet, scenario: Scenario) -> dict[str, Json]:
    """Return a plan as what JSON can hold.

    Parameters
    ----------
    made
        From :func:`clusterlab.planning.plan` or :func:`clusterlab.planning.serve`.
    scenario
        In which it was made.

    Returns
    -------
    dict
        ``asked``, ``parts`` (each with ``value`` and ``unit``), ``intervals``, ``joints`` (sums made again by another
        law: ``name``, ``left``, ``right``, ``unit``, ``holds``), ``front``, ``binding``, ``tornado``, ``assumptions``,
        and ``published`` where it is a preset; of a training run also ``time``, of a fleet ``gpus_apart``. SI units;
        None where a number is not known.

    Examples
    --------
    >>> from clusterlab.planning import CENTRAL, Site, Training, plan
    >>> made = plan(Training("Llama 3.1 8B", 1e11, global_batch=512), Site("H100 SXM", gpus=8), draws=10)
    >>> as_object(made, CENTRAL)["joints"][0]["name"]
    'FLOPs of the steps = FLOPs of the tokens'
    """
    found: dict[str, Json] = {
        "kind": "training" if isinstance(made, Plan) else "serving",
        "asked": _asked(made),
        "parts": {name: {"value": _plain(value), "unit": unit} for name, (unit, value) in made.results.items()},
        "intervals": {name: _record(one) for name, one in made.intervals.items()},
        "joints": [_sum(one) for one in recount(made, scenario)],
        "front": [_record(point) for point in made.front],
        "assumptions": _record(scenario),
    }
    if made.binding:
        found["binding"] = _record(made.binding)
    found["tornado"] = [_record(bar) for bar in made.tornado]
    if isinstance(made, Plan):
        found["time"] = {name: _plain(seconds) for name, seconds in made.outcome.run.parts.items()}
    else:
        found["gpus_apart"] = _plain(made.apart)
    if made.published:
        found["published"] = [_check(one) for one in made.published]
    return found


def _plain(value: SupportsFloat | str | tuple | list | None) -> Json:
    """A number that JSON has, text, or a list of them."""
    if isinstance(value, str | bool) or value is None:
        return value
    if isinstance(value, tuple | list):
        return [_plain(one) for one in value]
    number = float(value)
    return number if math.isfinite(number) else None


def _record(one: Estimate | Point | Binding | Sensitivity | Scenario) -> dict[str, Json]:
    return {f.name: _plain(getattr(one, f.name)) for f in fields(one)}


def _sum(one: Sum) -> dict[str, Json]:
    return {name: _plain(value) for name, value in one._asdict().items()} | {"holds": one.holds}


def _check(one: PublishedComparison) -> dict[str, Json]:
    names = ("name", "unit", "planned", "low", "high", "published", "error")
    source = {"source": one.fact.source.title, "url": one.fact.source.url, "date": one.fact.source.date}
    told = {"kind": one.fact.kind, "role": one.role, "by": one.fact.by, "note": one.fact.note}
    return {n: _plain(getattr(one, n)) for n in names} | source | told


def _asked(made: Plan | Fleet) -> dict[str, Json]:
    asked, site = (made.training, made.site) if isinstance(made, Plan) else (made.serving, made.place)
    told = {f.name: getattr(asked, f.name) for f in fields(asked)} | {"model": asked.model.name}
    told |= {f.name: getattr(site, f.name) for f in fields(site) if f.name != "layout"}
    layout = made.design.layout if isinstance(made, Plan) else made.layout
    told["layout"] = {f.name: _plain(getattr(layout, f.name)) for f in fields(layout)}
    return {key: value for key, value in told.items() if value is not None}


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


def page(made: Plan | Fleet, scenario: Scenario) -> str:
    """Return a plan as one HTML page: what to build, what it does and costs, how sure, and everything to check it by.

    Parameters
    ----------
    made
        From :func:`clusterlab.planning.plan` or :func:`clusterlab.planning.serve`.
    scenario
        In which it was made.

    Returns
    -------
    str
        A whole document.

    Examples
    --------
    >>> from clusterlab.planning import CENTRAL, Site, Training, plan
    >>> made = plan(Training("Llama 3.1 8B", 1e11, global_batch=512), Site("H100 SXM", gpus=8), draws=10)
    >>> page(made, CENTRAL).startswith("<!doctype html>")
    True
    """
    title, answer = _training(made) if isinstance(made, Plan) else _serving(made)
    parts = [f"<p>{answer} Each range holds eight of ten drawn scenarios.</p>"]
    parts += [f"<p>{html.escape(made.binding.sentence)}.</p>"] if made.binding else []
    parts += _published(made)
    parts += _run(made) if isinstance(made, Plan) else _fleet(made)
    if made.tornado:
        parts.append(_section("Which assumption matters most", _tornado(made)))
    parts += [_front(made), f"<p>{said(recount(made, scenario))}.</p>", _assumed(scenario)]
    body = "\n".join(parts)
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{html.escape(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
        f"<h1>{html.escape(title)}</h1>\n{body}\n</body>\n</html>\n"
    )


def _training(made: Plan) -> tuple[str, str]:
    """What is asked of a run, and the answer."""
    training, money = made.training, made.intervals.get("cost")
    title = f"{training.model.name}, {training.tokens / 1e12:.3g} trillion tokens: "
    title += f"{made.design.gpus:,.0f} {made.design.accelerator}"
    answer = f"It takes <b>{_span(made.intervals['time'])}</b>"
    answer += f" and costs <b>{_span(money)}</b>" if money else "; no price is known for it"
    return title, f"{answer}, at {_span(made.intervals['mean_power'])}."


def _serving(made: Fleet) -> tuple[str, str]:
    """What is asked of a fleet, and the answer."""
    asked, money = made.serving, made.intervals.get("cost_a_year")
    title = f"{asked.model.name}, {asked.rate:,.3g} requests a second: {made.gpus:,.0f} {made.accelerator}"
    answer = f"Each user gets <b>{_span(made.intervals['speed'])}</b>"
    answer += f"; a year costs <b>{_span(money)}</b>" if money else "; no price is known for it"
    return title, f"{answer}."


def _run(made: Plan) -> list[str]:
    done, (heading, *spent, _) = made.outcome, made.outcome.run._rows()  # the total has its interval above
    shares = {name: float(s) for name, s in done.run.parts.items() if s > 0}
    results = [(words(name), one.with_interval) for name, one in made.intervals.items()]
    return [
        _section("What to build", _record_table(made.design)),
        _section("The fabric", _record_table(made.design.fabric)),
        _section("What it does, and how sure", _table(("", "value"), results)),
        _section("Where the time goes", _bars(shares, "s") + _table(heading, spent)),
        _section("Where the power goes", _bars(_floats(done.site.parts), "W") + _record_table(done.site)),
        *_money(**{"Where the money goes": done.bill, "What it takes to build": done.capital}),
    ]


def _fleet(made: Fleet) -> list[str]:
    return [
        _section("What to build, what it does, how sure", _record_table(made)),
        _section("The fabric", _record_table(made.fabric)),
        _section("Where the power goes", _bars(_floats(made.site.parts), "W") + _record_table(made.site)),
        *_money(**{"What a year costs": made.bill, "What it takes to build": made.capital}),
    ]


def _published(made: Plan | Fleet) -> list[str]:
    if not made.published:
        return []
    heading, *rows = made.beside_published().rows
    more = [(*row, _source(one.fact), one.fact.note) for row, one in zip(rows, made.published, strict=True)]
    return [_section("Beside what was published", _table((*heading, "source", "note"), more, 2))]


def _money(**bills: Bill | None) -> list[str]:
    return [
        _section(name, _bars(_floats(bill.parts), "$") + _record_table(bill)) for name, bill in bills.items() if bill
    ]


def _floats(parts: Mapping[str, Number]) -> dict[str, float]:
    return {name: float(value) for name, value in parts.items() if float(value) > 0}


def _span(one: Estimate) -> str:
    return html.escape(one.with_interval)


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
    of = "cost" if made.paid else "time"
    moves = made.moves(of)
    furthest = max(abs(end) for one in moves for end in (one.less, one.more)) or 1.0
    lines, step = [], 24
    for i, one in enumerate(moves):
        low, high = (440 + 170 * end / furthest for end in (one.less, one.more))
        y = i * step
        lines.append(f'<text x="0" y="{y + 16}">{html.escape(words(one.name))}</text>')
        lines.append(f'<rect class="soft" x="{low:.1f}" y="{y + 4}" width="{max(high - low, 1):.1f}" height="16"/>')
        lines.append(f'<text x="130" y="{y + 16}">{" to ".join(one.said)}</text>')
    height = len(moves) * step + 4
    lines.append(f'<line class="rule" x1="440" y1="0" x2="440" y2="{height}"/>')
    what = "cost" if made.paid else "time" if isinstance(made, Plan) else "time of a token"
    alt = html.escape(f"{moves[0].name} moves the {what} most, by {' to '.join(moves[0].said)}", quote=True)
    told = f"<p>The {what} with one assumption at each end of its interval, all others at their centre.</p>"
    heading, *rows = made.tornado_table().rows
    return told + _drawing(height, alt, lines) + _table(heading, rows)


def _front(made: Plan | Fleet) -> str:
    told = "<p>None of these is both faster and cheaper than another.</p>"
    heading, *rows = made.choices().rows
    return _section("The plans to choose from", told + _table(heading, rows))


def _assumed(scenario: Scenario) -> str:
    rows, own = [], {name: ends for name, *ends in scenario.own or ()}
    for name, one in ASSUMPTIONS.items():
        now, fact = float(getattr(scenario, name)), one.facts["value"]
        same = math.isclose(now, one.value)
        shown = str(fact.printed) if same else f"{now:.6g} (SI units)"
        ends = [str(one.facts[end].printed) if end in one.facts else "" for end in ("low", "high")]
        if name in LEARNED:
            spread = PREDICTION_INTERVALS[LEARNED[name]]
            ends = [f"{now * spread.low:.3g}", f"{now * spread.high:.3g}"]
        if name in own:
            ends = [f"{now * end:.3g} (own records)" for end in own[name]]
        basis = (fact.kind, _source(fact), fact.note) if same else ("changed", "", "")
        rows.append((words(name), shown, *ends, *basis))
    lost = PREDICTION_INTERVALS[LEARNED["lost_time"]]
    basis = (lost.facts["low"].kind, _source(lost.facts["low"]), "multiplies the odds of lost time")
    ends = [f"{end:.3g}" for end in own.get("lost_time", (lost.low, lost.high))]
    rows.append(("lost time", f"{float(scenario.lost_time):g}", *ends, *basis))
    heading = ("assumption", "value", "1 in 10 below", "1 in 10 above", "kind", "source", "note")
    return _section("What is assumed", _table(heading, rows, 3))


def _source(fact: Fact) -> str:
    title = html.escape(f"{fact.source.title}, {fact.source.date}")
    if fact.source.url.startswith("https://"):
        return _Markup(f'<a href="{html.escape(fact.source.url, quote=True)}">{title}</a>')
    return f"{fact.source.title}, {fact.source.date}"
