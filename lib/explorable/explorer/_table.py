"""The table: every combination's picture in codes, and what cannot stand in one."""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from numbers import Real
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from clusterlab.units import fmt, ladder, noted

from .. import palette
from .._phrases import Form, Notes, Phrase, unmarked
from ._axes import NONE, STEPS, Scale
from ._controls import Control
from ._picture import KINDS, Axis, Picture

MOST = 20_000  # combinations; more would weigh down the page
COLOURS = len(palette.CYCLE)


def every_picture(view: Callable[..., Picture], controls: list[Control], notes: Notes) -> list[Picture]:
    """Every combination's picture, the last control changing fastest."""
    count = math.prod(len(control.values) for control in controls)
    if count > MOST:
        raise ValueError(f"an explorer has at most {MOST:,} combinations of stops, got {count:,}")
    pictures: list[Picture] = []
    for values in itertools.product(*(control.given for control in controls)):
        chosen = dict(zip((control.name for control in controls), values, strict=True))
        pictures.append(one_picture(view, chosen, controls, notes))
        check_alike(pictures[-1], pictures[0], chosen)
    return pictures


def one_picture(
    view: Callable[..., Picture], chosen: Mapping[str, object], controls: list[Control], notes: Notes
) -> Picture:
    """What the view returns; where something may stand between two stops, its numbers are noted."""
    if any(control.smooth for control in controls):
        with noted(notes):
            picture = view(**chosen)
    else:
        picture = view(**chosen)
    if not isinstance(picture, Picture):
        raise ValueError(f"the view must return a Picture, got {type(picture).__name__} at {chosen}")
    return picture


def check_alike(picture: Picture, first: Picture, chosen: Mapping[str, object]) -> None:
    """Refuse a picture that holds other things than the first."""
    for kind in KINDS:
        if list(getattr(picture, kind)) != list(getattr(first, kind)):
            raise ValueError(f"every picture needs the same {kind} in the same order; they differ at {chosen}")
    if scene_size(picture) != scene_size(first):
        raise ValueError(f"every picture needs a scene of the same size, or none; they differ at {chosen}")


def scene_size(picture: Picture) -> tuple[float, float] | None:
    return (picture.scene.width, picture.scene.height) if picture.scene else None


class Mark(NamedTuple):
    """One mark of a scatter plot, in data; the default is an empty slot."""

    x: float = math.nan
    y: float = math.nan
    name: str = ""


class Span(NamedTuple):
    """One span of a timeline, in data; the default is an empty slot."""

    lane: int = NONE
    start: float = math.nan
    end: float = math.nan
    text: str = ""


class Content:
    """What all pictures hold: numbers by combination (NaN is not there), and marks, spans and texts in its order.

    Pictures may have different numbers of marks or spans of a kind. Each gets as many slots as the fullest has.
    """

    def __init__(
        self,
        pictures: list[Picture],
        x: Axis | None,
        lanes: tuple[str, ...],
        slots: tuple[Mapping[str, int], Mapping[str, int]] | None = None,
    ) -> None:
        first, count = pictures[0], len(pictures)
        for picture in pictures:
            _check_places(picture)
        self.grid = _positions(x) if x else np.zeros(0)
        curves = [[_curve(name, c, self.grid) for name, c in p.curves.items()] for p in pictures]
        self.curves = np.array(curves)  # by combination, label and position on the grid
        points = np.array([list(p.points.values()) for p in pictures], dtype=float).reshape(count, -1, 2)
        self.point_x, self.point_y = points[..., 0], points[..., 1]
        self.rules = np.array([list(p.rules.values()) for p in pictures], dtype=float).reshape(count, -1)
        self.mark_slots, self.span_slots = slots or (
            {kind: max(len(p.marks[kind]) for p in pictures) for kind in first.marks},
            {kind: max(len(p.spans[kind]) for p in pictures) for kind in first.spans},
        )
        self.marks = [
            [_mark(p.marks[kind], i) for kind, n in self.mark_slots.items() for i in range(n)] for p in pictures
        ]
        self.spans = [
            [_span(p.spans[kind], i, lanes) for kind, n in self.span_slots.items() for i in range(n)] for p in pictures
        ]
        self.readouts = [[str(text) for text in p.readouts.values()] for p in pictures]

    def across(self) -> np.ndarray:
        """Everything that stands on the x axis."""
        marks, starts, ends = (
            _column(rows, name) for rows, name in ((self.marks, "x"), (self.spans, "start"), (self.spans, "end"))
        )
        return _flat(self.grid, self.point_x, marks, self.rules, starts, ends)

    def up(self) -> np.ndarray:
        """Everything that stands on the y axis."""
        return _flat(self.curves, self.point_y, _column(self.marks, "y"))

    def longest_name(self) -> str:
        """The longest name of a mark: the page makes room for it."""
        return max((unmarked(name) for row in _column(self.marks, "name") for name in row), key=len, default="")


def _column(rows: list[list], name: str) -> list[list]:
    """One field of the marks or spans of every combination."""
    return [list(map(operator.attrgetter(name), row)) for row in rows]


def _flat(*parts: ArrayLike) -> np.ndarray:
    return np.concatenate([np.ravel(np.asarray(part, dtype=float)) for part in parts])


class Pool:
    """Every different phrase, and every different template: words, and forms of the numbers between them.

    A template belongs to a place (a read-out, a part of a drawing), so that each place has its own way between stops.
    """

    def __init__(self, notes: Notes) -> None:
        self._notes = notes
        self.templates: dict[tuple, int] = {}
        self.forms: dict[Form | None, int] = {None: 0}
        self.phrases: list[Phrase] = []
        self.of: list[int] = []  # of each phrase, its template
        self._numbers: dict[tuple, int] = {}
        self.add("", "")

    def add(self, text: str, place: str, drawn: bool = False) -> int:
        """Number of the phrase of a text at a place."""
        key = text, place, drawn
        if key not in self._numbers:
            phrase = self._notes.phrase(text, drawn)
            if not any(phrase.forms):  # only a number that is told goes here by ratio and there by difference
                place = ""
            same = phrase.words, phrase.forms, phrase.numbers, place
            if same not in self._numbers:
                template = phrase.words, tuple(self.forms.setdefault(f, len(self.forms)) for f in phrase.forms), place
                self._numbers[same] = len(self.phrases)
                self.of.append(self.templates.setdefault(template, len(self.templates)))
                self.phrases.append(phrase)
            self._numbers[key] = self._numbers[same]
        return self._numbers[key]

    def numbers(self) -> tuple[np.ndarray, np.ndarray]:
        """The numbers of all phrases: those that are told, and in tenths the places of what is drawn."""
        both = [(form, v) for phrase in self.phrases for form, v in zip(phrase.forms, phrase.numbers, strict=True)]
        tenths = np.rint([10 * v for form, v in both if not form])
        if np.abs(tenths).max(initial=0) > np.iinfo("<i2").max:
            raise ValueError("a drawing reaches further than 3,276 units; draw it smaller")
        return np.array([v for form, v in both if form], dtype="<f8"), tenths.astype("<i2")

    def spec(self, by_ratio: Mapping[int, Sequence[int]]) -> dict:
        """Templates and forms for the browser, and along which controls each of a template's numbers goes by ratio."""
        forms = [form for form in self.forms if form]
        return {
            "templates": [
                [list(words), list(forms), list(by_ratio.get(i, [0] * len(forms)))]
                for i, (words, forms, _) in enumerate(self.templates)
            ],
            "forms": [None, *([f.unit, f.digits, f.whole, f.space, f.bare] for f in forms)],
            "ladders": {form.unit: ladder(form.unit) for form in forms},
        }

    def by_ratio(self, columns: np.ndarray, controls: Sequence[Control]) -> dict[int, list[int]]:
        """Along which controls each template's numbers lie nearer to the ratio of their neighbours than to their mean.

        A number has a bit for each control. ``columns`` has the phrase at each place (a column) of each combination.
        """
        shape = [len(control.values) for control in controls]
        smooth = [(i, c.places()) for i, c in enumerate(controls) if c.smooth and len(c.values) > 2]
        found: dict[int, list[int]] = {}
        if not smooth:
            return found
        of = np.asarray(self.of)
        for column in columns.T:
            templates = of[column]
            for template in np.unique(templates).tolist():
                size = len(list(self.templates)[template][1]) if template not in found else 0
                if not size:
                    continue
                values = np.full((len(column), size), np.nan)
                there = templates == template
                values[there] = [self.phrases[i].numbers for i in column[there].tolist()]
                found[template] = _nearer_by_ratio(values.reshape(*shape, size), smooth)
        return found


def _nearer_by_ratio(values: np.ndarray, smooth: Sequence[tuple[int, np.ndarray]]) -> list[int]:
    """Of each number, a bit for each control along which both neighbours tell it better by ratio than by difference."""
    bits = np.zeros(values.shape[-1], int)
    for axis, at in smooth:
        moved = np.moveaxis(values, axis, 0)
        low, here, high = moved[:-2], moved[1:-1], moved[2:]
        share = ((at[1:-1] - at[:-2]) / (at[2:] - at[:-2])).reshape(-1, *[1] * (moved.ndim - 1))
        errors = []
        with np.errstate(all="ignore"):
            straight = low + share * (high - low)
            ratio = np.where((low > 0) & (high > 0), low * (high / low) ** share, straight)
            size = np.maximum(np.abs(here), 1e-300)
            for guess in (straight, ratio):
                off = np.minimum(np.abs(guess - here) / size, 1.0)
                errors.append(np.nansum(off.reshape(-1, values.shape[-1]), axis=0))
        bits |= (errors[1] < errors[0]) << axis
    return bits.tolist()


class Table:
    """All pictures of an explorer in codes.

    There is one record for each combination, then a pool of distinct curves, of phrases and of scenes. A record holds,
    in this order: for each curve its row in the pool, for each read-out its phrase, for each point x and y, for each
    rule x, for each slot of each kind of mark x, y and phrase, for each slot of each kind of span its lane, start, end
    and phrase, and where there are scenes the number of its own. A scene is the phrase of its words, and of each part.
    """

    def __init__(
        self,
        pictures: list[Picture],
        x: Axis | None,
        y: Axis | None,
        lanes: tuple[str, ...],
        controls: Sequence[Control] = (),
        notes: Notes | None = None,
        like: Table | None = None,
    ) -> None:
        check_kinds(pictures[0], x, y, lanes)
        slots = (like.content.mark_slots, like.content.span_slots) if like else None
        content = Content(pictures, x, lanes, slots)
        self.content: Content = content
        self.first, self.lanes, self._controls = pictures[0], lanes, controls
        self.x: Scale | None = like.x if like else Scale(x, content.across()) if x else None
        self.y: Scale | None = like.y if like else Scale(y, content.up()) if y else None
        self.grid = self.x.encode(content.grid) if self.x else np.zeros(0, np.uint16)
        self.pool = Pool(notes or Notes())
        self.scenes = Scenes(pictures, self.pool)
        self.curves, rows = self._curves()
        if len(self.curves) > STEPS:
            raise ValueError("too many different curves for one explorer; use fewer stops")
        self.records = self._records(rows)

    def _curves(self) -> tuple[np.ndarray, np.ndarray]:
        """Every different curve in codes, and the row of each curve of each combination."""
        if not (self.first.curves and self.y):
            return np.zeros((0, 1), np.uint16), np.zeros(0, np.intp)
        codes = self.y.encode(self.content.curves).reshape(-1, self.content.grid.size)
        return np.unique(codes, axis=0, return_inverse=True)

    def _records(self, rows: np.ndarray) -> np.ndarray:
        """One record of codes for each combination."""
        content, count = self.content, len(self.content.readouts)

        def phrases(texts: list[list[str]], place: str = "") -> list[list[int]]:
            return [[self.pool.add(text, place or f"readout{i}") for i, text in enumerate(row)] for row in texts]

        def across(values: ArrayLike) -> np.ndarray:
            return self.x.encode(values) if self.x else np.zeros(np.shape(values))  # no axis: there are no values

        def up(values: ArrayLike) -> np.ndarray:
            return self.y.encode(values) if self.y else np.zeros(np.shape(values))

        def woven(*parts: ArrayLike) -> np.ndarray:
            """Slot by slot: the first of each part, the second of each part, and so on."""
            return np.stack([np.reshape(part, (count, -1)) for part in parts], axis=-1)

        points = woven(across(content.point_x), up(content.point_y))
        marks = woven(
            across(_column(content.marks, "x")),
            up(_column(content.marks, "y")),
            phrases(_column(content.marks, "name"), "mark"),
        )
        spans = woven(
            _column(content.spans, "lane"),
            across(_column(content.spans, "start")),
            across(_column(content.spans, "end")),
            phrases(_column(content.spans, "text"), "span"),
        )
        texts = phrases(content.readouts)
        parts = rows, texts, points, across(content.rules), marks, spans, self.scenes.numbers
        return np.concatenate([np.reshape(part, (count, -1)).astype("<u4") for part in parts], axis=1)

    def stored(self) -> dict:
        """The table as the browser reads it: numbers in one buffer, and the words between them.

        The buffer has the numbers that phrases tell (64-bit floats), the records and the scenes (16 bits, or 32 where
        there are more phrases than that), then of each phrase its template, the curves, and the places of drawings in
        tenths (16 bits).
        """
        told, drawn = self.pool.numbers()
        scenes = np.array([number for scene in self.scenes.scenes for number in scene])
        if len(self.pool.templates) > STEPS:
            raise ValueError("too many different read-outs for one explorer; write their numbers with fmt")
        of = np.array(self.pool.of, dtype="<u2")
        codes = "<u2" if len(of) <= NONE else "<u4"
        buffer = (told, self.records.astype(codes), scenes.astype(codes), of, self.curves.astype("<u2"), drawn)
        readouts = slice(len(self.first.curves), len(self.first.curves) + len(self.first.readouts))
        return {
            "sizes": [part.size for part in buffer],
            "ends": list(itertools.accumulate(map(len, self.scenes.scenes))),
            "width": self.records.shape[1],
            "codes": b"".join(part.tobytes() for part in buffer),
        } | self.pool.spec(self.pool.by_ratio(self.records[:, readouts], self._controls) | self._scenes_by_ratio())

    def _scenes_by_ratio(self) -> dict[int, list[int]]:
        """The same for the numbers that scenes tell; their places go by difference."""
        sizes = {len(scene) for scene in self.scenes.scenes}
        if len(sizes) != 1:
            return {}
        columns = np.array([self.scenes.scenes[number] for (number,) in self.scenes.numbers])
        found, templates = self.pool.by_ratio(columns, self._controls), list(self.pool.templates)
        return {
            i: [r * (form > 0) for r, form in zip(ratio, templates[i][1], strict=True)] for i, ratio in found.items()
        }

    def spec(self) -> dict:
        """What the browser needs to know to draw, and to make room before the table is there."""
        content = self.content
        return {
            "curves": list(self.first.curves),
            "marks": list(content.mark_slots.items()),
            "longest": content.longest_name(),
            "spans": list(content.span_slots.items()),
            "lanes": list(self.lanes),
            "grid": self.grid.tolist(),
            "at": [fmt(v, self.x.axis.unit, digits=4) for v in content.grid.tolist()] if self.x else [],
            "x": self.x.spec() if self.x else None,
            "y": self.y.spec() if self.y else None,
        }


class Scenes:
    """Every different scene: the phrase of what it shows in words, and of each of its parts."""

    def __init__(self, pictures: list[Picture], pool: Pool) -> None:
        scenes: dict[tuple[int, ...], int] = {}
        self.size = scene_size(pictures[0]) or (0, 0)
        self.numbers = []  # of each picture, its scene; none where there are no scenes
        for scene in (picture.scene for picture in pictures):
            own = []
            if scene:
                drawn = (pool.add(part.svg(), f"part{i}", drawn=True) for i, part in enumerate(scene.parts))
                own = [scenes.setdefault((pool.add(scene.alt, "alt"), *drawn), len(scenes))]
            self.numbers.append(own)
        self.scenes = list(scenes)


def check_colours(first: Picture, colours: Mapping[str, str]) -> None:
    """Refuse colours of what is not there, and meanings that have no colour."""
    kinds = [*first.curves, *first.marks, *first.spans]
    for kind, meaning in colours.items():
        if kind not in kinds:
            raise ValueError(f"colours names {kind!r}; the curves and kinds of marks or spans are: {', '.join(kinds)}")
        palette.colour(meaning)


def curve_pairs(first: Picture, bands: Sequence[tuple[str, str]]) -> list[tuple[int, int]]:
    """Numbers of the curves at both ends of each band."""
    names = list(first.curves)
    for band in bands:
        if len(band) != 2 or not set(band) <= set(names):
            raise ValueError(f"bands must be pairs of curves, of {', '.join(names)}; got {band!r}")
    return [(names.index(low), names.index(high)) for low, high in bands]


def check_kinds(first: Picture, x: Axis | None, y: Axis | None, lanes: tuple[str, ...]) -> None:
    """Refuse kinds of things that cannot stand in one figure."""
    if x is None and not first.scene:
        raise ValueError("a figure needs an x axis, or a scene")
    if x is None and (first.curves or first.points or first.marks or first.rules or first.spans):
        raise ValueError("what is drawn over axes needs an x axis")
    if (first.curves or first.points or first.marks) and y is None:
        raise ValueError("curves, points and marks need a y axis")
    if first.spans and not lanes:
        raise ValueError("spans need lanes, the names of their rows")
    if first.spans and (first.curves or first.points or first.marks):
        raise ValueError("a figure shows spans, or curves, points and marks, not both")
    if max(len(first.curves) + len(first.marks), len(first.spans)) > COLOURS:
        raise ValueError(f"a figure shows at most {COLOURS} curves and kinds of marks or spans, one for each colour")


def _check_places(picture: Picture) -> None:
    for name, at in picture.points.items():
        if np.shape(at) != (2,):
            raise ValueError(f"point {name!r} must be one (x, y), got {at!r}")
    for name, x in picture.rules.items():
        if np.ndim(x):
            raise ValueError(f"rule {name!r} must be one x, got {x!r}")


def _positions(x: Axis) -> np.ndarray:
    """The x positions of curves; none where the axis has no values."""
    grid = np.asarray(() if x.values is None else x.values, dtype=float)
    if grid.ndim != 1 or not np.isfinite(grid).all():
        raise ValueError(f"axis {x.label!r} needs values that are finite numbers in a row")
    return grid


def _curve(name: str, given: object, grid: np.ndarray) -> np.ndarray:
    values = np.asarray(given, dtype=float)
    if not grid.size:
        raise ValueError("curves need x.values, the positions they are drawn over")
    if values.shape not in ((), grid.shape):
        raise ValueError(f"curve {name!r} has shape {values.shape}; x.values has {grid.shape}")
    return np.broadcast_to(values, grid.shape)


def _mark(marks: Sequence[tuple], i: int) -> Mark:
    """Mark ``i``, or an empty slot."""
    if i >= len(marks):
        return Mark()
    if not (len(marks[i]) == 3 and isinstance(marks[i][2], str) and all(isinstance(v, Real) for v in marks[i][:2])):
        raise ValueError(f"a mark is (x, y, name), two numbers and a text, got {marks[i]!r}")
    return Mark(*marks[i])


def _span(spans: Sequence[tuple], i: int, lanes: tuple[str, ...]) -> Span:
    """Span ``i``, or an empty slot."""
    if i >= len(spans):
        return Span()
    if len(spans[i]) not in (3, 4):
        raise ValueError(f"a span is (lane, start, end) or (lane, start, end, text), got {spans[i]!r}")
    if np.isnan(spans[i][1:3]).any():
        return Span()
    lane, start, end = spans[i][:3]
    if lane not in range(len(lanes)):
        raise ValueError(f"a span's lane must be a whole number from 0 to {len(lanes) - 1}, got {lane}")
    text = str(spans[i][3]) if len(spans[i]) > 3 else ""
    return Span(int(lane), float(start), float(end), text)
