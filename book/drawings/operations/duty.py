"""Drawings of the person on call: signals to look up, servers under test, waves of an update, a rack, free blocks."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from clusterlab.operations import URGENCIES, Rollout, Signal
from clusterlab.units import fmt
from explorable import Box, Label, Part, Scene

_SAID = {"now": "now", "next stop": "at the next stop", "watch": "watch the rate", "the user's": "the user's"}


@dataclass(frozen=True, repr=False)
class Signals:
    """A list of signals to look up: each a line that opens, with buttons that leave some; needs no script."""

    signals: Mapping[str, Signal]

    def __repr__(self) -> str:
        """Return how many there are, by urgency."""
        counts = {urgency: sum(s.urgency == urgency for s in self.signals.values()) for urgency in URGENCIES}
        return f"Signals: {len(self.signals)}, " + ", ".join(f"{count} {name}" for name, count in counts.items())

    def _repr_html_(self) -> str:
        places = list(dict.fromkeys(signal.where for signal in self.signals.values()))
        groups = {"How soon": ("u", list(URGENCIES), _SAID), "Where": ("w", places, {})}
        rules, buttons = [], []
        for title, (group, names, said) in groups.items():
            buttons.append(f"<fieldset><legend>{title}</legend>")
            for i, name in enumerate(["all", *names]):
                key = f"cl-{group}{i}"
                checked = "" if i else " checked"
                text = html.escape(said.get(name, name))
                buttons.append(f'<label><input type="radio" name="cl-{group}" id="{key}"{checked}> {text}</label>')
                if i:
                    rules.append(f".cl-signals:has(#{key}:checked) .cl-list > div:not(.{key}) {{ display: none; }}")
            buttons.append("</fieldset>")
        lines = "".join(_line(signal, URGENCIES, places) for signal in self.signals.values())
        listed = f'<div class="cl-list" tabindex="0" role="region" aria-label="Signals">{lines}</div>'
        told = f"<p>{len(self.signals)} signals: the list goes on in its box. Each line opens.</p>"
        return f'<div class="cl-signals"><style>{_STYLE}{"".join(rules)}</style>{"".join(buttons)}{listed}{told}</div>'


_STYLE = """
.cl-signals fieldset { display: flex; flex-wrap: wrap; gap: 0.2em 1.1em; border: 0; margin: 0 0 0.5em; padding: 0; }
html[data-theme] .bd-content div.cell_output .text_html:has(div.cl-signals) { background: none; color: inherit; padding: 0; }
.cl-signals legend { float: left; padding: 0; margin: 0 0.9em 0 0; font-size: 1em; width: auto; font-weight: 600; }
.cl-signals label { white-space: nowrap; margin: 0; }
.cl-signals .cl-list {
  --cl-page: var(--pst-color-background, Canvas); --cl-edge: color-mix(in srgb, currentColor 30%, transparent);
  max-height: 34rem; overflow: auto; border: 1px solid var(--cl-edge); border-radius: 4px; padding-inline: 0.6em;
  background: linear-gradient(var(--cl-page) 40%, transparent) top / 100% 2.5rem no-repeat local,
    linear-gradient(transparent, var(--cl-page) 60%) bottom / 100% 2.5rem no-repeat local,
    linear-gradient(var(--cl-edge), transparent) top / 100% 0.9rem no-repeat,
    linear-gradient(transparent, var(--cl-edge)) bottom / 100% 0.9rem no-repeat;
}
.cl-signals .cl-list > div:first-child { border-top: 0; }
.cl-signals p { margin: 0.3em 0 0; font-size: 0.9em; }
.cl-signals .cl-list > div { border-top: 1px solid color-mix(in srgb, currentColor 25%, transparent); padding: 0.25em 0; }
.cl-signals summary { cursor: pointer; overflow-wrap: anywhere; }
.cl-signals summary b { margin-right: 0.5em; }
.cl-signals summary i { float: right; margin-left: 1em; font-style: normal; color: var(--cl-u); font-weight: 600; }
.cl-signals dl { display: grid; grid-template-columns: max-content 1fr; gap: 0.1em 1em; margin: 0.3em 0 0.5em 1.1em; }
.cl-urgency-0 { --cl-u: light-dark(#c0364d, #f16f7c); }
.cl-urgency-1 { --cl-u: light-dark(#7d6201, #cfad4e); }
.cl-urgency-2 { --cl-u: light-dark(#1a64bd, #73b6fa); }
.cl-urgency-3 { --cl-u: light-dark(#5b5b5b, #a4a4a4); }
@media (max-width: 40rem) { .cl-signals summary i { float: none; margin: 0 0.4em 0 0; } }
@media print {
  .cl-signals :is(fieldset, p) { display: none; }
  .cl-signals .cl-list { max-height: none; padding: 0; border: 0; background: none; }
  .cl-signals summary { list-style: none; }
}
.cl-signals :is(dt, dd) { margin: 0; }
.cl-signals dt { font-weight: 600; }
"""


def _line(signal: Signal, urgencies: Sequence[str], places: Sequence[str]) -> str:
    say = {name: html.escape(getattr(signal, name)) for name in ("meaning", "cause", "action", "where")}
    source = signal.facts["meaning"].source
    page, _, section = signal.law.partition("#")
    about = html.escape((section or page.removesuffix(".ipynb")).replace("-", " "))
    keys = f"cl-u{urgencies.index(signal.urgency) + 1} cl-w{places.index(signal.where) + 1}"
    rows = {
        "seen in": say["where"],
        "cause": say["cause"],
        "do": say["action"],
        "arithmetic": f'<a href="{html.escape(signal.law)}">{about}</a>',
        "source": f'<a href="{html.escape(source.url)}">{html.escape(source.title)}</a> ({source.date})',
    }
    told = "".join(f"<dt>{name}</dt><dd>{text}</dd>" for name, text in rows.items())
    name = html.escape(signal.name)
    mark = f'<i class="cl-urgency-{urgencies.index(signal.urgency)}">{_SAID[signal.urgency]}</i>'
    line = f"<summary>{mark}<b>{name}</b> {say['meaning']}</summary>"
    return f'<div class="{keys}"><details>{line}<dl>{told}</dl></details></div>'


def signal_table(signals: Mapping[str, Signal]) -> Signals:
    """A list of signals to look up, each a line that opens; buttons leave those of one urgency, or of one place.

    Parameters
    ----------
    signals : mapping
        Name to signal.

    Examples
    --------
    >>> from clusterlab.operations import SIGNALS
    >>> signal_table({"Xid 79": SIGNALS["Xid 79"]})
    Signals: 1, 1 now, 0 next stop, 0 watch, 0 the user's
    """
    return Signals(signals)


def load_test(shows: Sequence[float], end: float, span: float) -> Scene:
    """Servers under load, a line for each: good ones run through, bad ones run until they show it.

    Parameters
    ----------
    shows : sequence of float
        Seconds after which each server shows that it is bad; infinite for a good one.
    end : float
        Seconds that the test takes.
    span : float
        Seconds that are drawn.

    Examples
    --------
    >>> load_test([3600, 7200, 90000, float("inf")], 86400, 96 * 3600).alt
    'Of 4 servers 3 are bad: 2 show it within the 24 h of the test, 1 does not.'
    """
    left, right, top = 1.0, 399.0, 24.0
    pitch = min(9.0, 150.0 / len(shows))
    per, bottom = (right - left) / span, top + pitch * len(shows)
    drawn: list[Part] = []
    found = [time <= end for time in shows]
    for i, time in enumerate(shows):
        y, until = top + pitch * i, min(time, span)
        drawn.append(Box(left, y, until * per, pitch * 0.75, kind="compute" if time > span else "waste"))
        if time <= span:
            drawn.append(Box(max(left + until * per - 2, 0), y - 1, 4, pitch * 0.75 + 2, kind="lost", solid=True))
    drawn.append(Box(left + end * per - 0.75, top - 6, 1.5, bottom - top + 10, kind="ink", solid=True))
    anchor = "end" if end * per > 250 else "start"
    shift = -6 if anchor == "end" else 6
    drawn.append(Label(left + end * per + shift, 9, f"the test ends: {fmt(end, 'h', 3)}", anchor, strong=True))
    bad = sum(time < float("inf") for time in shows)
    alt = f"Of {len(shows)} servers {bad} are bad: {sum(found)} show it within the {fmt(end, 'h', 3)} of the test, "
    alt += f"{bad - sum(found)} do{'es' if bad - sum(found) == 1 else ''} not."
    return Scene(400, bottom + 8, drawn, alt=alt)


def waves(sizes: Sequence[int], found: Rollout, rows: int = 0) -> Scene:
    """A rollout wave by wave: as wide as its servers, as solid as the chance that a bug gets there.

    Parameters
    ----------
    sizes : sequence of int
        Servers of each wave.
    found : Rollout
        What the waves come to.
    rows : int
        Waves that there is room for.

    Examples
    --------
    >>> from clusterlab.operations import rollout
    >>> waves([4, 16, 236], rollout([4, 16, 236], soak=24 * 3600, bug=500 * 3600)).alt
    'Wave 1 has 4 servers, wave 2 16 and starts in 83% of cases, wave 3 236 and starts in 32% of cases.'
    """
    left, right, row, high = 58.0, 300.0, 34.0, 24.0
    drawn: list[Part] = [Label(400, 8, "bug gets here", "end", strong=True), Label(left, 8, "servers", "start")]
    said, top = [], 20.0
    for i, (size, chance) in enumerate(zip(sizes, found.reached, strict=True)):
        y, width = top + row * i, max((right - left) * size / max(sizes), 3.0)
        drawn.append(Label(0, y + high / 2, f"wave {i + 1}", "start"))
        drawn.append(Box(left, y, width, high, kind="compute"))
        if chance * width > 0.5:
            drawn.append(Box(left, y + high * (1 - chance), width, high * chance, kind="waste", solid=True))
        drawn.append(Label(left + width + 6, y + high / 2, fmt(size), "start"))
        often = fmt(float(chance), "%", 2) if chance > 1e-3 else "under 0.1%"
        drawn.append(Label(400, y + high / 2, often, "end"))
        starts = f" and starts in {often} of cases" if i else ""
        said.append(f"wave {i + 1} {'has ' if not i else ''}{size:,}{' servers' if not i else ''}{starts}")
    alt = ", ".join(said) + "."
    return Scene(400, top + row * max(rows, len(sizes)), drawn, alt=alt[0].upper() + alt[1:])


def rack(failed: Sequence[int], used: int, trays: int = 18, gpus: int = 4) -> Scene:
    """A rack tray by tray: those that work for the job, those that wait as spares, and those that failed.

    Parameters
    ----------
    failed : sequence of int
        Trays that have failed, numbered from 0.
    used : int
        Trays that the job needs in one rack.
    trays, gpus : int
        Trays of the rack, and GPUs of a tray.

    Examples
    --------
    >>> rack([3], used=16).alt
    'A rack of 18 trays: 1 failed, the job runs on 16 of the other 17, and 1 waits as a spare. 64 of 72 GPUs work.'
    """
    up = [tray for tray in range(trays) if tray not in failed]
    enough = len(up) >= used
    at_work = set(up[:used]) if enough else set()
    columns = 3
    rows = -(-trays // columns)
    wide, high = 400 / columns, 22.0
    drawn: list[Part] = []
    for tray in range(trays):
        x, y = wide * (tray // rows), (high + 4) * (tray % rows)
        kind = "lost" if tray in failed else "compute" if tray in at_work else "idle"
        drawn.append(Box(x + 1, y, wide - 4, high, kind="grey"))
        part = (wide - 46) / gpus
        for gpu in range(gpus):
            solid = kind != "idle"
            drawn.append(Box(x + 38 + part * gpu, y + 4, part - 3, high - 8, kind=kind, solid=solid))
        drawn.append(Label(x + 8, y + high / 2, str(tray + 1), "start"))
    waiting = len(up) - used if enough else len(up)
    working = len(at_work) * gpus
    said = f"the job runs on {used} of the other {len(up)}" if enough else f"the job needs {used} and stands still"
    spare = f"{waiting} wait{'s' if waiting == 1 else ''}{' as a spare' if waiting == 1 and enough else ''}"
    spare += " as spares" if waiting != 1 and enough else ""
    alt = f"A rack of {trays} trays: {len(failed)} failed, {said}, and {spare}. {working} of {trays * gpus} GPUs work."
    return Scene(400, (high + 4) * rows, drawn, alt=alt)


def blocks(free: Sequence[Sequence[bool]], needed: int) -> Scene:
    """Servers in blocks, a row for each: free ones, and whether a gang fits into one block or only anywhere.

    Parameters
    ----------
    free : sequence of rows
        Of each block, which servers are free.
    needed : int
        Servers of the gang.

    Examples
    --------
    >>> blocks([[True, False], [True, True], [False, False]], 2).alt
    '3 blocks of 2 servers, 3 free in all: 2 fit anywhere, and into 1 of the blocks.'
    """
    left, top = 62.0, 2.0
    size, high = len(free[0]), min(17.0, 270 / len(free))
    wide = (356 - left) / size
    drawn: list[Part] = []
    fits = [sum(row) >= needed for row in free]
    for i, (row, fit) in enumerate(zip(free, fits, strict=True)):
        y = top + high * i
        drawn.append(Label(0, y + high / 2 - 1, f"block {i + 1}", "start", strong=fit))
        drawn += [
            Box(left + wide * j, y, wide - 2, high - 3, kind="compute" if one else "grey", solid=one)
            for j, one in enumerate(row)
        ]
        drawn.append(Label(400, y + high / 2 - 1, f"{sum(row)}", "end", strong=fit))
    total = sum(map(sum, free))
    anywhere = "fit anywhere" if total >= needed else "fit nowhere"
    count = sum(fits)
    alt = f"{len(free)} blocks of {size} servers, {total} free in all: {needed} {anywhere}, and into "
    alt += f"{count if count else 'none'} of the blocks."
    return Scene(400, top + high * len(free) + 2, drawn, alt=alt)
