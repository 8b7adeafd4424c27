"""What a figure shows between two stops, held against the law: the browser's interpolation, once more in Python.

A kernel that imports this file, with ``HANDS_REPORT`` in its environment, writes a line for every figure of its chapter
into a report: the largest error of a number that is told and of a place that is drawn, at control values that nobody
chose.
"""

from __future__ import annotations

import json
import math
import os
import random
import re
import sys
import time
from pathlib import Path
from typing import NamedTuple

import nbformat
import numpy as np

from building import REPORT
from clusterlab.units import fmt
from explorable import Explorer
from explorable._phrases import Notes
from explorable.explorer._axes import NONE
from explorable.explorer._table import Table

TRIES = 6


class Told(NamedTuple):
    """The worst of a figure: an error and where it stands."""

    error: float = 0.0
    where: str = ""


def value_between(control, part: float):
    """A value that is no stop, at a part of the slider."""
    at = control.places()
    value = at[0] + part * (at[-1] - at[0])
    value = float(np.exp(value) if control.log else value)
    return round(value) if control.whole else value


class Corner(NamedTuple):
    """A row of the table, its weight, and its number in the order in which the last control changes fastest."""

    row: int
    weight: float
    nth: int


Axes = list[tuple[int, float]]  # number of a control that stands between two stops, and the share of the second


def corners(controls, values) -> tuple[list[Corner], Axes]:
    """The stops around these values, the nearest first."""
    mix, axes = [(0, 1.0)], []
    for number, control in enumerate(controls):
        stop, value = control.stop(values[control.name]), values[control.name]
        if stop is None:
            at, here = control.places(), math.log(value) if control.log else value
            above = next(i for i, v in enumerate(control.values) if v > value)
            share = float((here - at[above - 1]) / (at[above] - at[above - 1]))
            axes.append((number, share))
            stops = [(above - 1, 1 - share), (above, share)]
        else:
            stops = [(stop, 1.0)]
        mix = [(row * len(control.values) + i, weight * w) for row, weight in mix for i, w in stops]
    found = [Corner(row, weight, nth) for nth, (row, weight) in enumerate(mix)]
    return sorted(found, key=lambda one: -one.weight), axes


def _by_axes(values: list[float], axes: Axes, bits: int) -> float:
    """Control by control, each by difference or by ratio."""
    for number, share in reversed(axes):
        pairs = zip(values[::2], values[1::2], strict=True)
        values = [
            a ** (1 - share) * b**share if bits >> number & 1 and min(a, b) > 0 else a + share * (b - a)
            for a, b in pairs
        ]
    return values[0]


def _numbers(table: Table, ids: list[int], mix: list[Corner], axes: Axes, ratios: dict):
    """Words of the nearest phrase, the numbers between them, and whether all around have the same words."""
    phrases = [table.pool.phrases[i] for i in ids]
    first, numbers = phrases[0], []
    alike = [(p, one) for p, one in zip(phrases, mix, strict=True) if p.words == first.words]
    whole = sum(one.weight for _, one in alike)
    bits = ratios.get(table.pool.of[ids[0]], [0] * len(first.forms))
    for i in range(len(first.numbers)):
        if len(alike) == 2 ** len(axes):
            values = [p.numbers[i] for p, _ in sorted(alike, key=lambda pair: pair[1].nth)]
            numbers.append(_by_axes(values, axes, bits[i]))
        else:
            numbers.append(sum(one.weight * p.numbers[i] for p, one in alike) / whole)
    return first.words, numbers, len(alike) == len(phrases)


def _told_apart(shown: tuple[tuple[str, ...], list, bool], exact, what: str, numbers: Told) -> Told:
    """The worse of what was found so far and the numbers of one text."""
    words, values, alike = shown
    if words != exact.words:
        plain = [re.sub(r"[\d.,]+", "#", " ".join(one)) for one in (words, exact.words)]
        if plain[0] == plain[1] or alike:  # a number that fmt did not write, or a word that no stop around shows
            return max(numbers, Told(math.inf, f"{what}: {words} for {exact.words}"))
        return numbers
    for value, right, form in zip(values, exact.numbers, exact.forms, strict=True):
        if form is None:
            continue
        if form.whole:
            value = round(value)
        same = fmt(value, form.unit, form.digits) == fmt(right, form.unit, form.digits)
        off = 0.0 if same else abs(value - right) / abs(right) if right else math.inf
        numbers = max(numbers, Told(off, f"{what}: {fmt(value, form.unit, 4)} for {fmt(right, form.unit, 4)}"))
    return numbers


def errors(explorer: Explorer, tries: int = TRIES, seed: int = 1) -> tuple[Told, Told]:
    """The largest error of a number (as a share of it) and of a place (as a share of its axis) of a figure."""
    table, controls = explorer._whole, explorer._controls
    dice, numbers, places = random.Random(seed), Told(), Told()
    if not any(control.smooth for control in controls):
        return numbers, places
    first = len(table.first.curves)
    columns = table.records[:, first : first + len(table.first.readouts)]
    ratios = table.pool.by_ratio(columns, controls) | table._scenes_by_ratio()
    for _ in range(tries):
        values = {c.name: value_between(c, dice.random()) if c.smooth else dice.choice(c.values) for c in controls}
        notes = Notes()
        exact = Table([explorer._picture(values, notes)], *explorer._axes, notes=notes, like=table)
        mix, axes = corners(controls, values)
        ids, weights = [one.row for one in mix], [one.weight for one in mix]
        where = ", ".join(
            f"{name}={value if isinstance(value, str) else round(value, 4)}" for name, value in values.items()
        )
        right = exact.records[0]
        kinds = [
            *["curve"] * len(table.first.curves), *["text"] * len(table.first.readouts),
            *["x", "y"] * len(table.first.points), *["x"] * len(table.first.rules),
            *["x", "y", "text"] * sum(table.content.mark_slots.values()),
            *["lane", "x", "x", "text"] * sum(table.content.span_slots.values()),
        ]  # fmt: skip
        for column, kind in enumerate(kinds):
            codes = table.records[ids, column]
            if kind == "text":
                shown = _numbers(table, codes.tolist(), mix, axes, ratios)
                label = f"{column}"
                if column - len(table.first.curves) in range(len(table.first.readouts)):
                    label = list(table.first.readouts)[column - len(table.first.curves)]
                told = exact.pool.phrases[int(right[column])]
                numbers = _told_apart(shown, told, f"{label} at {where}", numbers)
            elif kind == "curve":
                drawn = table.curves[codes]
                law = exact.curves[int(right[column])]
                there = (drawn != NONE).all(axis=0) & (law != NONE)
                mean = np.average(drawn.astype(float), axis=0, weights=weights)
                off = [_apart(table.y, m, e) for m, e in zip(mean[there], law[there], strict=True)]
                label = list(table.first.curves)[column]
                places = max(places, Told(max(off, default=0.0), f"{label} at {where}"))
            elif kind in "xy" and (codes != NONE).all() and right[column] != NONE:
                scale = table.x if kind == "x" else table.y
                off = _apart(scale, float(np.average(codes.astype(float), weights=weights)), float(right[column]))
                places = max(places, Told(off, f"place {column} at {where}"))
        if table.first.scene:
            drawings = [table.scenes.scenes[int(table.records[row, -1])] for row in ids]
            law = exact.scenes.scenes[0]
            same = [(d, one) for d, one in zip(drawings, mix, strict=True) if len(d) == len(drawings[0])]
            if len(drawings[0]) == len(law):
                for i, told in enumerate(law):
                    shown = _numbers(table, [d[i] for d, _ in same], [one for _, one in same], axes, ratios)
                    phrase = exact.pool.phrases[told]
                    numbers = _told_apart(shown, phrase, f"part {i} of the drawing at {where}", numbers)
                    if shown[0] == phrase.words:
                        moved = [
                            abs(a - b) / 400
                            for a, b, form in zip(shown[1], phrase.numbers, phrase.forms, strict=True)
                            if form is None
                        ]
                        places = max(places, Told(max(moved, default=0.0), f"part {i} of the drawing at {where}"))
            elif len(same) == len(drawings):
                numbers = max(numbers, Told(math.inf, f"the drawing at {where} has another structure than its stops"))
    return numbers, places


def _apart(scale, shown: float, right: float) -> float:
    """How far apart two codes stand, as a share of the axis; what lies outside of the picture doesn't count."""
    a, b = (min(max(scale.place(code), 0.0), 1000.0) for code in (shown, right))
    return abs(a - b) / 1000


def positions(explorer: Explorer) -> dict[str, float]:
    """How many positions each control has that takes a number; infinity where it is continuous."""
    return {
        c.label: (math.inf if not c.whole else c.values[-1] - c.values[0] + 1) if c.smooth else len(c.values)
        for c in explorer._controls
        if c.kind == "slider"
    }


def line(explorer: Explorer) -> dict:
    """What the report says of a figure."""
    numbers, places = errors(explorer)
    return {
        "title": explorer._title, "controls": positions(explorer), "stops": len(explorer._whole.records),
        "numbers": numbers, "places": places,
    }  # fmt: skip


def watch(report: str) -> None:
    """From now on write a line for every figure that is made."""
    made = Explorer.__init__

    def making(self, *arguments, **options):
        made(self, *arguments, **options)
        with Path(report).open("a", encoding="utf-8") as file:
            file.write(json.dumps(line(self)) + "\n")

    Explorer.__init__ = making


if os.environ.get(REPORT):
    watch(os.environ[REPORT])


def main(paths: list[str]) -> None:
    """Say how far off each figure of the notebooks is."""
    seen: list[tuple[Explorer, float]] = []
    made = Explorer.__init__

    def making(self, *arguments, **options):
        begun = time.perf_counter()
        made(self, *arguments, **options)
        seen.append((self, time.perf_counter() - begun))

    Explorer.__init__ = making
    book = Path(__file__).parents[1] / "book"
    sys.path.insert(0, str(book))
    os.chdir(book)
    for path in paths:
        space: dict = {"__name__": "__main__"}
        for cell in nbformat.read(book.parent / path, 4).cells:
            if cell.cell_type == "code":
                code = "\n".join(row for row in cell.source.splitlines() if not row.startswith("%"))
                exec(compile(code, path, "exec"), space)
    for explorer, took in seen:
        if explorer._controls:
            told, drawn = errors(explorer, tries=40, seed=2)
            print(f"{explorer._title}: {len(explorer._whole.records)} pictures in {took:.2f} s; {positions(explorer)}")
            print(f"    number {told.error:.4f} {told.where[:300]}\n    place  {drawn.error:.4f} {drawn.where[:200]}")


if __name__ == "__main__":
    main(sys.argv[1:])
