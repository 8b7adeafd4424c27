"""Markup: the figure at one combination, complete without a script."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple, cast

from .._widget import escape, together
from ..scene import TEXT
from ._axes import NONE, Scale
from ._bars import BAR, LANES, NARROW, PITCH, WIDE, Bar, Lanes, Stand, named_by_lane, width
from ._labels import Place, rule_stands, sides_of_both
from ._table import Table


class Mark(NamedTuple):
    """One mark in codes, and its name's phrase."""

    x: int
    y: int
    name: int


class Span(NamedTuple):
    """One span in codes, and its text's phrase."""

    lane: int
    start: int
    end: int
    text: int


EM = 16.0  # pixels of a figure's letters
ROOMY = 22.0  # percent of a narrow picture, enough for the label of a tick
LEAST = 0.5  # pixels of a bar that is there


class Figure:
    """The figure at one combination of a table, as markup that is complete without a script.

    The script redraws only what moves: the elements of class cl-between, cl-curve, cl-dot, cl-rule, cl-mark, cl-span
    and cl-tag and the read-outs, in the order of the record, and what is inside cl-scene. Positions in the picture are
    thousandths of the axes.
    """

    def __init__(
        self,
        table: Table,
        index: int,
        colours: Mapping[str, str],
        hidden: frozenset[str],
        bands: Sequence[tuple[int, int]] = (),
        places: Sequence[Place | None] = (),
    ) -> None:
        self.colours, self.hidden, self.bands, self.places = colours, hidden, bands, places
        self.first, self.lanes = table.first, table.lanes
        # Only what stands on an axis asks for it, and a table has the axes that its pictures stand on.
        self.x, self.y = cast(Scale, table.x), cast(Scale, table.y)
        self.phrases, self.grid, self.pool = table.pool.phrases, table.grid, table.curves
        record = iter(table.records[index].tolist())

        def take(count: int) -> list[int]:
            return list(itertools.islice(record, count))

        # In the order of the record: these lines read it.
        self.curves = take(len(self.first.curves))
        self.texts = [self.phrases[number].text for number in take(len(self.first.readouts))]
        self.points = [take(2) for _ in self.first.points]
        self.sides = sides_of_both(table, index)
        self.rules = take(len(self.first.rules))
        self.marks = {kind: [Mark(*take(3)) for _ in range(n)] for kind, n in table.content.mark_slots.items()}
        self.spans = {kind: [Span(*take(4)) for _ in range(n)] for kind, n in table.content.span_slots.items()}
        self.scenes, self.scene = table.scenes, take(len(table.scenes.numbers[index]))

    def markup(self, title: str, premise: str, drawn: bool) -> str:
        """The whole figure; with a premise a question comes first; ``drawn`` is what has no controls."""
        classes = f"cl-explorer{' cl-ask' if premise else ''}{' cl-drawn' if drawn else ''}"
        told = f'<p class="cl-premise">{escape(together(premise))}</p>' if premise else ""
        return (
            f'<figure class="{classes}"><figcaption>{escape(title)}</figcaption>{told}<div class="cl-controls"></div>'
            f"{self._scene()}{self._plot(title)}"
            f'<ul class="cl-legend">{self._legend()}</ul><dl class="cl-readouts">{self._readouts()}</dl></figure>'
        )

    def _plot(self, title: str) -> str:
        """What is drawn over axes, with them; nothing where there is only a scene."""
        if not self.x:
            return ""
        y_title = self.y.axis.title if self.y else ""
        head = f'<div class="cl-head">{escape(y_title)}</div>' if self.y else ""
        what = f"{title}. {self.x.axis.title} across" + (f", {y_title} up." if self.y else ".")
        lanes = height = above = ""
        names: list[str] = []
        if self.first.spans:
            (names, room), lanes = self._kind_tags(), " cl-lanes"
            height = f' style="height:{max(LANES, len(self.lanes)) * PITCH / EM:.1f}em"'
            above = f' style="--cl-room:{room[1] / EM:.2f}em;--cl-tight:{room[0] / EM:.2f}em"'
        paths = [_path("cl-grid", self._gridlines()), *self._moving_paths()]
        picture = f'<svg viewBox="0 0 1000 1000" preserveAspectRatio="none" aria-hidden="true">{"".join(paths)}</svg>'
        return (
            f'{head}<div class="cl-plot{lanes}"{above}>{self._left()}'
            f'<div class="cl-area"{height} role="img" aria-label="{escape(what)}">{picture}'
            f"{''.join(self._tags() + names)}</div>"
            f'{self._below()}</div><div class="cl-foot">{escape(self.x.axis.title)}</div>'
        )

    # What moves with the controls

    def _scene(self) -> str:
        """The scene as markup that scales as a whole; no larger than makes its text as high as the page's."""
        if not self.scene:
            return ""
        (width, height), numbers = self.scenes.size, self.scenes.scenes[self.scene[0]]
        alt, *parts = (self.phrases[number].text for number in numbers)
        # What an image holds, nobody who does not see it can reach: with links it is a group.
        role = "group" if any(phrase.text.startswith("<a ") for phrase in self.phrases) else "img"
        return (
            f'<svg class="cl-scene" viewBox="0 0 {width:g} {height:g}" style="max-width:{width / TEXT:.2f}em"'
            f' role="{role}" aria-label="{escape(alt)}">{"".join(parts)}</svg>'
        )

    def _shade(self, i: int, name: str) -> str:
        """Classes of a curve, or of a kind of marks or spans: its colour, its dashes, and whether it is an answer."""
        colour = f"cl-c-{self.colours[name]} " if name in self.colours else ""
        return f"{colour}cl-s{i}{self._answer(name)}"

    def _edge(self, i: int) -> str:
        """A class for a curve that bounds a band."""
        return " cl-edge" * any(i in band for band in self.bands)

    def _answer(self, label: str) -> str:
        """A class for what a prediction hides."""
        return " cl-answer" * (label in self.hidden)

    def _moving_paths(self) -> list[str]:
        """Spans, curves, marks, rules and points, each an SVG path that later ones lie on."""
        paths = [_path(f"cl-span {self._shade(i, k)}", self._boxes(s)) for i, (k, s) in enumerate(self.spans.items())]
        if self.spans:
            paths.append(_path("cl-break", self._breaks()))
        names, lines = list(self.first.curves), [self._line(row) for row in self.curves]
        for low, high in self.bands:
            paths.append(_path(f"cl-between {self._shade(low, names[low])}", _ring(lines[low], lines[high])))
        for i, (name, line) in enumerate(zip(names, lines, strict=True)):
            paths.append(_path(f"cl-curve{self._edge(i)} {self._shade(i, name)}", line))
        for i, (kind, marks) in enumerate(self.marks.items()):
            paths.append(self._shape(i, kind, "".join(self._spot(mark.x, mark.y) for mark in marks)))
        for label, code in zip(self.first.rules, self.rules, strict=True):
            line = f"M{self.x.place(code):.1f} 0V1000" if self._rule_is_there(code) else ""
            paths.append(_path("cl-rule" + self._answer(label), line))
        points = zip(self.first.points, self.points, strict=True)
        return paths + [_path("cl-dot" + self._answer(label), self._spot(x, y)) for label, (x, y) in points]

    def _tags(self) -> list[str]:
        """Labels in the picture: those of spans, rules and points."""
        tags = [
            self._span_tag(span, self._shade(i, kind))
            for i, (kind, spans) in enumerate(self.spans.items())
            for span in spans
            if self.phrases[span.text].text
        ]
        rules = zip(self.first.rules, self.rules, strict=True)
        standing = {label: self.x.place(code) for label, code in rules if self._rule_is_there(code)}
        stands = dict(zip(standing, rule_stands(list(standing.items())), strict=True))
        for label, code in zip(self.first.rules, self.rules, strict=True):
            left, row = stands.get(label, (False, 0))
            kind, place = "cl-top" + self._answer(label), self.x.place(code)
            tags.append(
                _tag(kind, place, 1000, label, label in standing, f"margin-bottom:{-row * 1.35:.2f}em", left=left)
            )
        for label, (x, y), (slim, wide) in zip(self.first.points, self.points, self.sides, strict=True):
            there, how = bool(self._spot(x, y)), f"transform:{wide.transform}"
            if slim != wide:  # explorer.css takes one or the other, until the script has placed it
                how = f"--cl-slim:{slim.transform};--cl-wide:{wide.transform}"
            tags.append(_tag("cl-at" + self._answer(label), self.x.place(x), self.y.place(y), label, there, how))
        return tags + [self._name_tag(i, place) for i, place in enumerate(self.places) if place]

    def _name_tag(self, i: int, place: Place) -> str:
        """The name of a curve, on it."""
        name = list(self.first.curves)[i]
        classes = f"cl-tag cl-along{'' if place.above else ' cl-under'}{'' if place.narrow else ' cl-roomy'}"
        style = f"left:{self.x.place(self.grid[place.at]) / 10:.2f}%;bottom:{place.edge / 10:.2f}%"
        shade = self._shade(i, name)
        return f'<span class="{classes} {shade}" style="{style}" data-curve="{i}">{escape(name)}</span>'

    def _span_tag(self, span: Span, shade: str) -> str:
        middle = (self.x.place(span.start) + self.x.place(span.end)) / 2
        place = f"left:{middle / 10:.2f}%;top:{self._lane(span.lane):.2f}%"
        return f'<span class="cl-tag cl-in {shade}" style="{place}">{escape(self.phrases[span.text].text)}</span>'

    def _kind_tags(self) -> tuple[list[str], tuple[float, float]]:
        """Names of kinds of spans, on a telephone and on a page; and how much room they take over the lanes there."""
        sizes = [width(total, self.lanes) for total in (NARROW, WIDE)]
        found = [self._stands(wide) for wide in sizes]
        tags = []
        for i, kind in enumerate(self.spans):
            if any(named_by_lane(lane, kind) for lane in self.lanes):
                continue
            both = zip((stand[i] for stand, _ in found), sizes, strict=True)
            one, other = (self._kind_tag(i, kind, stand, wide) for stand, wide in both)
            same = one == other
            tags += [other.replace("cl-kind", "cl-kind" if same else "cl-kind cl-roomy")]
            tags += [] if same else [one.replace("cl-kind", "cl-kind cl-tight")]
        return tags, (found[0][1], found[1][1])

    def _stands(self, wide: float) -> tuple[list[Stand | None], float]:
        """Where the names of the kinds stand in a picture so wide."""
        kinds = []
        for kind, spans in self.spans.items():
            bars = []
            for span in spans:
                if span.lane != NONE and not any(named_by_lane(lane, kind) for lane in self.lanes):
                    left, right = (min(max(self.x.place(at), 0.0), 1000.0) for at in (span.start, span.end))
                    letters = len(self.phrases[span.text].text)
                    bars.append(Bar(span.lane, left * wide / 1000, right * wide / 1000, letters))
            kinds.append((kind, [bar for bar in bars if bar.right - bar.left > LEAST]))
        rules = zip(self.first.rules, self.rules, strict=True)
        there = [(label, self.x.place(code) * wide / 1000) for label, code in rules if self._rule_is_there(code)]
        return Lanes(len(self.lanes), wide, there).stands(kinds)

    def _kind_tag(self, i: int, kind: str, stand: Stand | None, wide: float) -> str:
        """The name of a kind of spans, on one of them."""
        classes = f"cl-tag cl-kind cl-{stand.way if stand else 'in'} {self._shade(i, kind)}"
        place = " hidden"
        if stand:
            inside = stand.way in ("in", "side")
            up = 100 * (1 - (stand.lane + (0.5 if inside else (1 - BAR) / 2)) / len(self.lanes))
            place = f' style="left:{100 * stand.x / wide:.2f}%;bottom:{up:.2f}%;--cl-up:{stand.up:.0f}px"'
        return f'<span class="{classes}"{place} data-kind="{i}">{escape(kind)}</span>'

    def _rule_is_there(self, code: int) -> bool:
        return code != NONE and 0 <= self.x.place(code) <= 1000

    def _line(self, row: int) -> str:
        """A curve as an SVG path; it lifts the pen where a value is not there."""
        d, pen = [], "M"
        for gx, gy in zip(self.grid, self.pool[row], strict=True):
            if gy == NONE:
                pen = "M"
            else:
                d.append(f"{pen}{self.x.place(gx):.1f} {1000 - self.y.place(gy):.1f}")
                pen = "L"
        return "".join(d)

    def _spot(self, x: int, y: int) -> str:
        """A stroke so short that only its cap shows; nothing where the place is not there or out of the picture.

        With no length at all a square cap doesn't show on paper.
        """
        px, py = self.x.place(x), self.y.place(y)
        there = NONE not in (x, y) and 0 <= px <= 1000 and 0 <= py <= 1000
        return f"M{px:.1f} {1000 - py:.1f}h.1" if there else ""

    def _boxes(self, spans: list[Span]) -> str:
        """Spans as one SVG path of rectangles."""
        tall = 1000 * BAR / len(self.lanes)
        boxes = []
        for span in spans:
            if span.lane != NONE:
                left, right = self.x.place(span.start), self.x.place(span.end)
                top = 10 * self._lane(span.lane) - tall / 2
                boxes.append(f"M{left:.1f} {top:.1f}H{right:.1f}v{tall:.1f}H{left:.1f}z")
        return "".join(boxes)

    def _breaks(self) -> str:
        """A zigzag where a bar leaves the picture."""
        tall = 1000 * BAR / len(self.lanes)
        return "".join(
            f"M985 {10 * self._lane(span.lane) - tall / 2:.1f}" + f"l8 {tall / 4:.1f}l-8 {tall / 4:.1f}" * 2
            for spans in self.spans.values()
            for span in spans
            if span.lane != NONE and self.x.place(span.start) < 985 and self.x.place(span.end) > 1000.5
        )

    def _lane(self, lane: int) -> float:
        """Middle of a lane, in percent from the top."""
        return 100 * (lane + 0.5) / len(self.lanes)

    def _shape(self, i: int, kind: str, d: str) -> str:
        """Marks of one kind: dots, squares, rings, hollow squares, and then the same four smaller."""
        shade = self._shade(len(self.first.curves) + i, kind)
        classes = f"cl-mark{' cl-square' * (i % 2)}{' cl-small' * (i // 4)} {shade}"
        return _path(classes, d) + (_path(f"{classes} cl-hole", d) if i % 4 > 1 else "")

    def _readouts(self) -> str:
        return "".join(
            f'<div class="cl-read{self._answer(label)}"><dt>{escape(label)}</dt><dd>{escape(text)}</dd></div>'
            for label, text in zip(self.first.readouts, self.texts, strict=True)
        )

    # What stays

    def _gridlines(self) -> str:
        across = "".join(f"M{10 * tick.at:.1f} 0V1000" for tick in self.x.ticks())
        up = "".join(f"M0 {1000 - 10 * tick.at:.1f}H1000" for tick in self.y.ticks()) if self.y else ""
        return across + up

    def _left(self) -> str:
        """Labels of the y axis or of the lanes; an invisible copy of the longest makes room for them."""
        if self.first.spans:
            labels = [(f"top:{self._lane(i):.2f}%", lane, self._kind_of(lane)) for i, lane in enumerate(self.lanes)]
        else:
            labels = [(f"bottom:{tick.at:.2f}%", tick.text, "") for tick in (self.y.ticks() if self.y else [])]
        # Of those with as many letters the one without a point: "100%" is wider than "0.1%".
        widest = max((text for _, text, _ in labels), key=lambda one: (len(one), len(one.replace(".", ""))), default="")
        spans = "".join(f'<span style="{style}"{more}>{escape(text)}</span>' for style, text, more in labels)
        return f'<div class="cl-left" aria-hidden="true"><i>{escape(widest)}</i>{spans}</div>'

    def _kind_of(self, lane: str) -> str:
        """Which kind of spans the label of a lane names, as an attribute."""
        return next((f' data-kind="{i}"' for i, kind in enumerate(self.spans) if named_by_lane(lane, kind)), "")

    def _below(self) -> str:
        """Labels of the x axis; a narrow picture shows every second one, but where they stand far apart."""
        ticks, spans = self.x.ticks(), []
        close = min((b.at - a.at for a, b in itertools.pairwise(ticks)), default=100.0) < ROOMY
        for i, tick in enumerate(ticks):
            classes = " ".join(["cl-minor"] * (close and i % 2) + ["cl-end"] * (tick.at > 98))
            spans.append(f'<span class="{classes}" style="left:{tick.at:.2f}%">{escape(tick.text)}</span>')
        return f'<div class="cl-below" aria-hidden="true">{"".join(spans)}</div>'

    def _legend(self) -> str:
        """A key for each curve, which hides while its name stands on it, and for each kind of marks."""
        lines = []
        for i, name in enumerate(self.first.curves):
            place = self.places[i] if i < len(self.places) else None
            picture = _path(f"cl-stroke{self._edge(i)} {self._shade(i, name)}", "M0 5H30")
            when = "" if not place else ' class="cl-spare"' if place.narrow else ' class="cl-spare cl-tight"'
            lines.append(_key(30, picture, name, f' data-curve="{i}"{when}'))
        return "".join(lines + [_key(10, self._shape(i, kind, "M5 5h.1"), kind) for i, kind in enumerate(self.marks)])


def _key(width: int, picture: str, name: str, more: str = "") -> str:
    return f'<li{more}><svg viewBox="0 0 {width} 10" aria-hidden="true">{picture}</svg>{escape(name)}</li>'


def _ring(low: str, high: str) -> str:
    """Along one curve and back along the other."""
    there, back = (re.split("[ML]", line[1:]) for line in (low, high))
    return f"M{'L'.join([*there, *reversed(back)])}Z" if low and high else ""


def _path(classes: str, d: str) -> str:
    return f'<path class="{classes}" d="{d}"/>'


def _tag(kind: str, x: float, y: float, label: str, there: bool, style: str = "", *, left: bool | None = None) -> str:
    """A label in the picture, to the left of its mark in the right half or where that is said."""
    classes = f"cl-tag {kind}{' cl-left-of' if (x > 500 if left is None else left) else ''}"
    place = f"left:{x / 10:.2f}%;bottom:{y / 10:.2f}%;{style}"
    return f'<span class="{classes}" style="{place}"{"" if there else " hidden"}>{escape(label)}</span>'
