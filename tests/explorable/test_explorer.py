"""Explorer, the Python side: its table decodes to what was computed, its controls hold, and nonsense is refused."""

import base64
import gzip
import importlib
import itertools
import json
import math
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
import traitlets
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from py_mini_racer import MiniRacer

from clusterlab.units import fmt, parse
from explorable import (
    Axis,
    Box,
    Explorer,
    Label,
    Picture,
    Play,
    Predict,
    Scene,
    Select,
    Slider,
    Toggle,
    explorer,
    stacked,
    waterfall,
)
from refusals import unreached

LIBRARY = Path(explorer.__file__).parent
N = {"n": Slider("Exponent", [1, 2])}
X, Y = Axis("x", values=[1, 2, 3]), Axis("y")


def draw(picture, x=X, y=Y, **options):
    """An explorer that shows the same picture at both stops."""
    return Explorer(lambda **_: picture, controls=N, x=x, y=y, title="Test", **options)


def sketch(width=100, text="GPU", alt="One GPU"):
    return Scene(width, 30, [Box(0, 0, 40, 30, text)], alt=alt)


def powers(n):
    return Picture(curves={"power": np.array([1.0, 2.0, 3.0]) ** n}, readouts={"At 3": fmt(3**n)})


# --- the table: an independent reader --------------------------------------------------------------------------------


def unscaled(axis, codes):
    """Values of 16-bit codes: 0 to 65,534 divide the span of an axis, 65,535 is a value that is not there."""
    values = axis["first"] + axis["span"] * codes.astype(float) / 65534
    return np.where(codes == 65535, np.nan, 10**values if axis["log"] else values)


class Opened:
    """A widget's table as its buffer says: numbers told, records, scenes, templates of phrases, curves, places."""

    def __init__(self, widget):
        table, begun, parts = widget._table, 0, []
        codes = "<u2" if table["sizes"][3] <= 65535 else "<u4"
        for size, kind in zip(table["sizes"], ("<f8", codes, codes, "<u2", "<u2", "<i2"), strict=True):
            parts.append(np.frombuffer(table["codes"], kind, size, begun))
            begun += parts[-1].nbytes
        assert begun == len(table["codes"])
        self.numbers, records, self.scenes, self.of, curves, self.places = parts
        self.records = records.reshape(-1, table["width"])
        self.curves = curves.reshape(-1, len(widget._spec["grid"]) or 1)
        self.table = table

    def text(self, phrase):
        """A phrase, its numbers written again by fmt."""
        words, forms, _ = self.table["templates"][self.of[phrase]]
        before = [form for t in self.of[:phrase] for form in self.table["templates"][t][1]]
        numbers, places = iter(self.numbers[sum(map(bool, before)) :]), iter(self.places[before.count(0) :] / 10)
        told = [words[0]]
        for form, word in zip(forms, words[1:], strict=True):
            number = next(numbers if form else places)
            unit, digits, whole, _, bare = self.table["forms"][form] or ("", 9, False, "", True)
            number = fmt(int(number) if whole else float(number), unit, digits) if form else f"{number:g}"
            told += [number.split(" ")[0] if bare else number, word]
        return "".join(told)

    def scene(self, index):
        """The words and the markup of a combination's scene."""
        number, ends = self.records[index, -1], [0, *self.table["ends"]]
        alt, *parts = map(self.text, self.scenes[ends[number] : ends[number + 1]])
        return alt, "".join(parts)


def decoded(widget):
    """Every record of a widget's table as (curves, read-outs, the rest of the record as codes)."""
    spec, opened = widget._spec, Opened(widget)
    curves, texts = len(spec["curves"]), len(widget._first.readouts)
    for record in opened.records:
        yield (
            {name: unscaled(spec["y"], opened.curves[row]) for name, row in zip(spec["curves"], record, strict=False)},
            [opened.text(code) for code in record[curves : curves + texts]],
            record[curves + texts :],
        )


gap = st.just(math.nan)
linear = st.floats(-1e9, 1e9, allow_subnormal=False)
logarithmic = st.floats(-12, 12).map(lambda exponent: 10**exponent)


@st.composite
def drawings(draw):
    """Curves at every stop of a slider, over linear and log axes."""
    log_x, log_y = draw(st.booleans()), draw(st.booleans())
    xs = draw(st.lists(logarithmic if log_x else linear, min_size=2, max_size=6, unique=True))
    ys = logarithmic if log_y else linear
    shape = (draw(st.integers(2, 4)), draw(st.integers(1, 3)), len(xs))
    size = math.prod(shape)
    values = np.reshape(draw(st.lists(gap | ys, min_size=size, max_size=size)), shape)
    there = values[np.isfinite(values)]
    for axis, log in ((np.array(xs), log_x), (there, log_y)):
        assume(len(axis) and np.ptp(np.log10(axis) if log else [*axis, 0.0]) > 1e-3)
        assume(log or axis.max() - min(axis.min(), 0) > 1e-3)
    return Axis("x", log=log_x, values=xs), Axis("y", log=log_y), values


def assert_close(axis, found, exact):
    """Half a unit of the third significant digit on a log axis, 1/2000 of the axis on a linear one."""
    found, exact = np.asarray(found), np.asarray(exact)
    np.testing.assert_array_equal(np.isnan(found), np.isnan(exact))
    there = np.isfinite(exact)
    third_digit = 10.0 ** (np.floor(np.log10(exact[there])) - 2) if axis["log"] else axis["high"] - axis["low"]
    half = third_digit / 2 if axis["log"] else third_digit / 2000
    assert np.all(np.abs(found[there] - exact[there]) <= half)


@given(drawings())
@settings(deadline=None)
def test_the_table_decodes_to_the_curves_that_the_view_returned(drawing):
    x, y, values = drawing
    widget = Explorer(
        lambda stop: Picture(curves={f"curve {i}": curve for i, curve in enumerate(values[stop])}),
        controls={"stop": Slider("Stop", range(len(values)))},
        x=x,
        y=y,
        title="Random",
    )
    assert_close(widget._spec["x"], unscaled(widget._spec["x"], np.array(widget._spec["grid"])), x.values)
    for exact, (curves, _, _) in zip(values, decoded(widget), strict=True):
        assert_close(widget._spec["y"], list(curves.values()), exact)


@pytest.mark.parametrize("log", [False, True])
def test_values_inside_the_limits_stay_exact_when_others_reach_far_beyond(log):
    inside = np.linspace(0.1, 1, 10)
    widget = draw(
        Picture(curves={"runaway": [*inside, 1e5]}), Axis("x", values=range(11)), Axis("y", log=log, limits=(0.1, 1))
    )
    curves, _, _ = next(decoded(widget))
    assert_close(widget._spec["y"], curves["runaway"][:10], inside)


def test_a_value_that_is_not_there_comes_back_as_absent_wherever_it_stands():
    nan = math.nan
    picture = Picture(
        curves={"a": [1, nan, 3]}, points={"p": (2, nan), "q": (1, 3)}, rules={"r": nan, "s": 2}, readouts={"none": "-"}
    )
    curves, texts, rest = next(decoded(draw(picture)))
    assert np.isnan(curves["a"]).tolist() == [False, True, False]
    assert texts == ["-"]
    assert (rest == 65535).tolist() == [False, True, False, False, True, False]
    spans = {"busy": [(0, 0.0, 2.0, "first"), (1, nan, 3.0)]}
    _, _, slots = next(decoded(draw(Picture(spans=spans), y=None, lanes=["a", "b"])))
    assert (slots.reshape(2, 4) == 65535)[:, :3].tolist() == [[False] * 3, [True] * 3]
    marks = {"run": [(1.0, 2.0, "whole"), (nan, 1.0, "no x"), (2.0, nan, "no y")]}
    _, _, slots = next(decoded(draw(Picture(marks=marks))))
    assert (slots.reshape(3, 3) == 65535)[:, :2].tolist() == [[False, False], [True, False], [False, True]]


def test_points_rules_and_spans_decode_to_where_they_were_put():
    widget = draw(Picture(points={"p": (1.5, 40.0)}, rules={"r": 3.0}), Axis("x"), Axis("y"))
    _, _, (px, py, rule) = next(decoded(widget))
    x, y = widget._spec["x"], widget._spec["y"]
    assert unscaled(x, np.array([px, rule])) == pytest.approx([1.5, 3.0], abs=1e-3)
    assert unscaled(y, np.array([py])) == pytest.approx([40.0], abs=1e-2)
    widget = draw(Picture(spans={"busy": [(1, 2.0, 5.0, "step")]}), y=None, lanes=["a", "b"])
    _, _, (lane, start, end, text) = next(decoded(widget))
    assert (lane, Opened(widget).text(text)) == (1, "step")
    assert unscaled(widget._spec["x"], np.array([start, end])) == pytest.approx([2.0, 5.0], abs=1e-3)


@st.composite
def scatters(draw):
    """Marks of two kinds at every stop of a slider, as many as it happens, over linear and log axes."""
    log_x, log_y = draw(st.booleans()), draw(st.booleans())
    mark = st.tuples(gap | (logarithmic if log_x else linear), gap | (logarithmic if log_y else linear), st.text("ab"))
    kinds = st.tuples(*[st.lists(mark, max_size=4)] * 2).map(lambda lists: dict(zip("pq", lists, strict=True)))
    stops = draw(st.lists(kinds, min_size=2, max_size=4))
    values = np.array([m[:2] for stop in stops for kind in stop.values() for m in kind]).reshape(-1, 2)
    for there, log in zip(values.T, (log_x, log_y), strict=True):
        there = there[np.isfinite(there)]
        assume(there.size and np.ptp(np.log10(there) if log else [*there, 0.0]) > 1e-3)
    return Axis("x", log=log_x), Axis("y", log=log_y), stops


@given(scatters())
def test_the_table_decodes_to_the_marks_and_their_names_that_the_view_returned(scatter):
    x, y, stops = scatter
    widget = Explorer(
        lambda stop: Picture(marks=stops[stop], rules={"r": math.nan}),
        controls={"stop": Slider("Stop", range(len(stops)))},
        x=x,
        y=y,
        title="Random",
    )
    opened = Opened(widget)
    for exact, (_, _, rest) in zip(stops, decoded(widget), strict=True):
        slots = iter(rest[1:].reshape(-1, 3))
        for kind, most in widget._spec["marks"]:
            assert most == max(len(stop[kind]) for stop in stops)
            xs, ys, names = np.array(list(itertools.islice(slots, most)), dtype=int).reshape(-1, 3).T
            empty = [math.nan] * (most - len(exact[kind]))
            assert_close(widget._spec["x"], unscaled(widget._spec["x"], xs), [m[0] for m in exact[kind]] + empty)
            assert_close(widget._spec["y"], unscaled(widget._spec["y"], ys), [m[1] for m in exact[kind]] + empty)
            assert [opened.text(i) for i in names] == [m[2] for m in exact[kind]] + [""] * len(empty)
        assert not list(slots)


def test_four_hundred_named_marks_at_25_stops_weigh_less_than_60_kb():
    random = np.random.default_rng(0)
    x = random.uniform(1, 100, 400)
    names = [f"Run {i}, 1,024 accelerators, batch {random.integers(4096)}" for i in range(400)]
    errors = random.normal(1, 0.1, (25, 400))
    widget = Explorer(
        lambda stop: Picture(marks={"runs": list(zip(x, x * errors[stop], names, strict=True))}),
        controls={"stop": Slider("Stop", range(25))},
        x=Axis("x", "s"),
        y=Axis("y", "s"),
        title="Runs",
    )
    words = {key: value for key, value in widget._table.items() if key != "codes"}
    parts = widget._html.encode(), base64.b64encode(widget._table["codes"]), json.dumps([widget._spec, words]).encode()
    assert len(gzip.compress(b"".join(parts))) < 60_000


def test_equal_curves_and_equal_texts_are_stored_once():
    stops = Slider("Stop", range(50))
    same = Picture(curves={"a": [1, 2, 3], "b": [1, 2, 3], "c": [3, 2, 1]}, readouts={"r": "same", "s": "same"})
    widget = Explorer(lambda **_: same, controls={"stop": stops}, x=X, y=Y, title="Same")
    opened = Opened(widget)
    assert (opened.records.shape, opened.curves.shape) == ((50, 5), (2, len(X.values)))
    assert [opened.text(i) for i in range(len(opened.of))] == ["", "same"]  # without a number: once for all places


# --- views and controls ----------------------------------------------------------------------------------------------


def test_the_view_is_called_once_for_each_combination_with_what_the_options_stand_for():
    seen = []

    def view(batch, chip, fused):
        seen.append((batch, chip, fused))
        return Picture(curves={"a": [1, 2, 3]})

    chips = {"old": 989e12, "new": 2250e12}
    controls = {"batch": Slider("Batch", [1, 8, 64]), "chip": Select("Chip", chips), "fused": Toggle("Fused")}
    Explorer(view, controls=controls, x=X, y=Y, title="Calls")
    assert seen == list(itertools.product([1, 8, 64], chips.values(), [False, True]))


def test_a_process_that_plays_is_a_slider():
    def widget(**options):
        step = Play("Phase", range(3), labels=["send", "sum", "done"], **options)
        return Explorer(lambda **_: Picture(scene=sketch()), controls={"stage": step}, title="Steps")

    (spec,) = widget()._spec["controls"]
    assert (spec["kind"], spec["values"], spec["labels"]) == ("play", [0, 1, 2], ["send", "sum", "done"])
    stepped = widget(start=1)
    assert (stepped.stage, stepped.trait_metadata("stage", "sync")) == (1, True)
    with pytest.raises(traitlets.TraitError):
        stepped.stage = 3


@pytest.fixture
def widget():
    controls = {
        "n": Slider("Exponent", [1, 2, 3], start=2),
        "unit": Select("Unit", ["B", "s"]),
        "double": Toggle("Twice", start=True),
    }

    def view(n, unit, double):
        return Picture(curves={"a": [1, 2, 3]}, readouts={"Value": fmt((1 + double) * 10.0**n, unit)})

    question = Predict("There are two.", "Which?", {"B": "no", "s": "yes"}, right="s", hides=["Value"])
    return Explorer(view, controls=controls, x=X, y=Y, title="Traits", predict=question)


def test_a_control_is_a_synced_trait_that_starts_where_it_was_told(widget):
    assert (widget.n, widget.unit, widget.double, widget.guess) == (2, "B", True, "")
    assert all(widget.trait_metadata(name, "sync") for name in ("n", "unit", "double", "guess"))
    heard = []
    widget.observe(lambda change: heard.append(change["new"]), ["n", "unit", "double", "guess"])
    widget.n, widget.unit, widget.double, widget.guess = 3, "s", False, "s"
    assert heard == [3, "s", False, "s"]


@pytest.mark.parametrize(("name", "value"), [("n", 4), ("n", 0.5), ("n", "2"), ("unit", "W"), ("double", "yes")])
def test_a_control_refuses_what_it_does_not_take(widget, name, value):
    before = getattr(widget, name)
    with pytest.raises(traitlets.TraitError):
        setattr(widget, name, value)
    assert getattr(widget, name) == before


def test_two_explorers_keep_their_own_controls(widget):
    other = Explorer(powers, controls={"n": Slider("n", [5, 6])}, x=X, y=Y, title="Other")
    other.n = 6
    assert (widget.n, other.n) == (2, 6)
    assert not hasattr(other, "double")


def test_at_reads_the_table_at_the_values_named_and_at_the_present_ones(widget):
    assert widget.at() == {"Value": "200 B"}
    assert widget.at(n=1, unit="s", double=False) == {"Value": "10 s"}
    widget.unit = "s"
    assert widget.at(n=1) == {"Value": "20 s"}


def test_the_repr_names_the_controls_marks_the_start_and_gives_the_values_at_both_ends(widget):
    assert repr(widget).splitlines() == [
        "Explorer: Traits",
        "  Exponent: 1 to 3 [2]",
        "  Unit: [B], s",
        "  Twice: off, [on]",
        "  first: Value = 10 B",
        "  last:  Value = 33.3 min",
    ]


def test_a_figure_without_controls_is_drawn_once_and_says_what_it_shows():
    drawn = Explorer(lambda: Picture(scene=sketch(alt="One GPU alone"), readouts={"GPUs": "1"}), title="Alone")
    assert drawn.at() == {"GPUs": "1"}
    assert repr(drawn) == "Explorer: Alone\n  One GPU alone; GPUs = 1"
    assert 'class="cl-explorer cl-drawn"' in drawn._html
    assert "cl-area" not in drawn._html


# --- refusals --------------------------------------------------------------------------------------------------------


def show(**changed):
    """An explorer of powers with some of its arguments changed."""
    return Explorer(**{"view": powers, "controls": N, "x": X, "y": Y, "title": "Test"} | changed)


def controlled(control):
    return show(controls={"n": control})


SPANS = Picture(spans={"busy": [(0, 0.0, 1.0)]})
RUNS = Picture(marks={"run": [(1.0, 2.0, "first")]})
REFUSALS = {
    "control 'guess' must be an identifier that no widget": lambda: show(controls={"guess": N["n"]}),
    "control 'two words' must be an identifier": lambda: show(controls={"two words": N["n"]}),
    "no control 'm'; there are: n": lambda: show().at(m=1),
    "n must be from 1 to 2; got 7": lambda: show().at(n=7),
    "n must be one of 1, 2; got 7": lambda: controlled(Slider("n", [1, 2], snaps=True)).at(n=7),
    "control 'n' has labels, which name stops": lambda: controlled(Slider("n", [1, 2], labels=["one", "two"])),
    "control 'n' needs its stops in rising order, got [2, 1]": lambda: controlled(Slider("n", [2, 1])),
    "control 'n' is logarithmic, and its stop 0 is not above zero": lambda: controlled(Slider("n", [0, 1], log=True)),
    "drags names 'spot'; there are: ": lambda: show(drags={"spot": "n"}),
    "no control 'm'; there are: n, to drag 'r' by": lambda: draw(Picture(rules={"r": 1}), y=None, drags={"r": "m"}),
    "control 'n' must be a Slider, a Play, a Select or a Toggle": lambda: controlled([1, 2]),
    "control 'n' needs at least two different stops": lambda: controlled(Slider("n", [1])),
    "control 'n' needs at least two different": lambda: controlled(Slider("n", [1, 1])),
    "and a different label for each": lambda: controlled(Slider("n", [1, 2], labels=["one"], snaps=True)),
    "a different label": lambda: controlled(Slider("n", [1.00001, 1.00002], snaps=True)),
    "control 'n' has the stop nan": lambda: controlled(Slider("n", [1, math.nan])),
    "control 'n' has the stop 'two'": lambda: controlled(Slider("n", [1, "two"])),
    "control 'n' has the label 1; labels are text": lambda: controlled(Select("n", [1, 2])),
    "control 'n' needs a list or a mapping of options, got 'abc'": lambda: controlled(Select("n", "abc")),
    "control '_html' must be an identifier": lambda: show(controls={"_html": N["n"]}),
    "a prediction needs a premise": lambda: Predict(" ", "Which?", {"a": "", "b": ""}, right="a"),
    "a prediction needs at least two answers": lambda: Predict("So.", "Which?", {"one": ""}, right="one"),
    "the right answer 'c' is not one of 'a', 'b'": lambda: Predict("So.", "Which?", {"a": "", "b": ""}, right="c"),
    "a prediction hides 'nothing'; the picture has: ": lambda: show(
        predict=Predict("So.", "Which?", {"a": "", "b": ""}, right="a", hides=["nothing"])
    ),
    "control 'n' starts at 3, which is not one of 1, 2": lambda: controlled(Slider("n", [1, 2], start=3)),
    "control 'n' starts at 'c', which is not one of a, b": lambda: controlled(Select("n", ["a", "b"], start="c")),
    "at most 20,000 combinations of stops, got 20,001": lambda: controlled(Slider("n", range(20_001))),
    "the view must return a Picture, got dict at {'n': 1}": lambda: show(view=lambda **_: {}),
    "every picture needs the same curves in the same order; they differ at {'n': 2}": lambda: show(
        view=lambda n: Picture(curves={f"c{n}": 1})
    ),
    "every picture needs the same readouts": lambda: show(view=lambda n: Picture(readouts={"a": ""} if n == 1 else {})),
    "axis 'y' is logarithmic, and -2 is not above zero": lambda: draw(
        Picture(curves={"a": [1, -2, 3]}), y=Axis("y", log=True)
    ),
    "axis 'y' has nothing to show": lambda: draw(Picture(curves={"a": math.nan})),
    "axis 'x' needs limits with low < high": lambda: show(x=Axis("x", values=[1, 2, 3], limits=(5, 5))),
    "axis 'y' needs limits with low < high": lambda: show(y=Axis("y", limits=(0, math.nan))),
    "axis 'y' needs limits with low < high, got 0 and inf": lambda: show(y=Axis("y", limits=(0, math.inf))),
    "axis 'y' is logarithmic, and 0 is not above zero": lambda: show(y=Axis("y", log=True, limits=(0, 10))),
    "axis 'y' needs two limits": lambda: show(y=Axis("y", limits=())),
    "axis 'x' needs values that are finite numbers in a row": lambda: show(x=Axis("x", values=[1, math.nan, 3])),
    "bands must be pairs of curves, of a; got ('a', 'b')": lambda: draw(Picture(curves={"a": 1}), bands=[("a", "b")]),
    "point 'p' must be one (x, y), got (1, 2, 3)": lambda: draw(Picture(points={"p": (1, 2, 3)})),
    "rule 'r' must be one x, got (1, 2)": lambda: draw(Picture(curves={"a": 1}, rules={"r": (1, 2)})),
    "a span is (lane, start, end)": lambda: draw(Picture(spans={"busy": [(0, 1.0)]}), y=None, lanes=["lane"]),
    "at most 8 curves": lambda: draw(Picture(curves={str(i): i for i in range(9)})),
    "stacked bars need parts with the same number of lanes": lambda: stacked({"a": [1, 2], "b": [1]}),
    "losses must be zero or more and together at most 1, got [2]": lambda: waterfall(1, [2]),
    "axis 'y' cannot show infinity": lambda: draw(Picture(curves={"a": [1, math.inf, 3]})),
    "curves, points and marks need a y axis": lambda: show(y=None),
    "points and marks need a y axis": lambda: draw(RUNS, y=None),
    "spans need lanes": lambda: draw(SPANS, y=None),
    "spans, or curves, points and marks, not both": lambda: draw(
        Picture(curves={"a": 1}, spans=SPANS.spans), lanes=["lane"]
    ),
    "curves, points and marks, not both": lambda: draw(Picture(marks=RUNS.marks, spans=SPANS.spans), lanes=["lane"]),
    "a mark is (x, y, name), two numbers and a text, got (1.0, 2.0)": lambda: draw(Picture(marks={"k": [(1.0, 2.0)]})),
    "a mark is (x, y, name), two numbers and a text, got ('a', 1, 2)": lambda: draw(
        Picture(marks={"k": [("a", 1, 2)]})
    ),
    "two numbers and a text, got (None, 1, 'a')": lambda: draw(Picture(marks={"k": [(None, 1, "a")]})),
    "two numbers and a text, got (1, 2, 3)": lambda: draw(Picture(marks={"k": [(1, 2, 3)]})),
    "at most 8 curves and kinds of marks": lambda: draw(
        Picture(curves={str(i): i for i in range(4)}, marks={str(i): [] for i in range(5)})
    ),
    "every picture needs the same marks in the same order; they differ at {'n': 2}": lambda: show(
        view=lambda n: Picture(marks={f"kind {n}": [(1, 1, "a")]})
    ),
    "axis 'x' cannot show infinity": lambda: draw(Picture(marks={"k": [(math.inf, 1, "a")]})),
    "too many different curves": lambda: show(
        controls={"n": Slider("n", range(1, 17_000))},
        view=lambda n: Picture(curves={k: [n, n, n * i] for i, k in enumerate("abcd", 2)}),
    ),
    "too many different read-outs": lambda: show(
        controls={"n": Slider("n", range(20_000))},
        view=lambda n: Picture(curves={"a": 1}, readouts={k: f"{k} {n}" for k in "abcd"}),
    ),
    "curves need x.values": lambda: show(x=Axis("x")),
    "curve 'power' has shape (3,); x.values has (2,)": lambda: show(x=Axis("x", values=[1, 2])),
    "lane must be a whole number from 0 to 1, got 2": lambda: draw(
        Picture(spans={"busy": [(2, 0.0, 1.0)]}), y=None, lanes=["a", "b"]
    ),
    "a figure needs an x axis, or a scene": lambda: show(x=None),
    "what is drawn over axes needs an x axis": lambda: draw(Picture(rules={"r": 1}, scene=sketch()), x=None),
    "every picture needs a scene of the same size, or none; they differ at {'n': 2}": lambda: show(
        x=None, view=lambda n: Picture(scene=sketch(width=100 * n))
    ),
    "colours names 'power'; the curves and kinds of marks or spans are: a, k": lambda: draw(
        Picture(curves={"a": 1}, marks={"k": []}), colours={"power": "compute"}
    ),
    "no colour means 'memry'; did you mean 'memory'?": lambda: show(colours={"power": "memry"}),
    "a drawing reaches further than 3,276 units": lambda: show(
        view=lambda **_: Picture(scene=Scene(100, 4000, [Box(0, 3900, 50, 50)], alt="A high box.")), x=None, y=None
    ),
    "lane must be a whole number from 0 to 1, got 0.5": lambda: draw(
        Picture(spans={"busy": [(0.5, 0.0, 1.0)]}), y=None, lanes=["a", "b"]
    ),
}


@pytest.mark.parametrize("message", REFUSALS)
def test_what_makes_no_sense_is_refused_by_name(message):
    with pytest.raises(ValueError, match=re.escape(message)):
        REFUSALS[message]()


@pytest.mark.slow
def test_every_refusal_of_the_source_is_reached_by_one_of_these():
    rooms = [importlib.import_module(f"explorable.explorer.{path.stem}") for path in LIBRARY.glob("_[a-z]*.py")]
    assert len(rooms) == 7
    assert unreached(explorer, REFUSALS, *rooms) == set()


# --- scenes ----------------------------------------------------------------------------------------------------------


@given(st.lists(st.lists(st.tuples(st.integers(0, 80), st.text("ab")), max_size=3), min_size=2, max_size=5))
def test_the_table_decodes_to_the_scene_that_the_view_returned(stops):
    scenes = [Scene(100, 30, [Box(x, 0, 20, 20, text) for x, text in stop], alt=f"{len(stop)} boxes") for stop in stops]
    widget = Explorer(
        lambda stop: Picture(curves={"a": [1, 2, 3]}, rules={"r": stop}, scene=scenes[stop]),
        controls={"stop": Slider("Stop", range(len(stops)))},
        x=Axis("x", values=[1, 2, 3], limits=(0, 5)),
        y=Y,
        title="Scenes",
    )
    for i, scene in enumerate(scenes):
        assert Opened(widget).scene(i) == (scene.alt, "".join(part.svg() for part in scene.parts))
    assert Opened(widget).scene(0)[1] in widget._html


def test_equal_parts_and_equal_scenes_are_stored_once():
    still = [Label(50, 15, "still")]
    scenes = [Scene(100, 30, [*still, Box(10 * (i % 3), 0, 20, 20)], alt="A box") for i in range(30)]
    widget = Explorer(
        lambda i: Picture(scene=scenes[i]), controls={"i": Slider("Stop", range(30))}, title="Round and round"
    )
    opened = Opened(widget)
    assert (len(opened.table["ends"]), opened.scenes.size) == (3, 3 * 3)  # its words, the label, the box
    assert len(opened.of) == 1 + 1 + 1 + 3  # nothing, the words, the label, and the box at three places


def test_a_named_colour_goes_before_the_cycle_and_leaves_the_others_theirs():
    page = draw(
        Picture(curves={"a": 1, "b": 2}, marks={"k": [(1, 1, "m")]}), colours={"b": "waste", "k": "cache"}
    )._html
    assert re.findall(r'class="cl-curve ([^"]*)"', page) == ["cl-s0", "cl-c-waste cl-s1"]
    named = r'class="cl-tag cl-along(?: cl-under| cl-roomy)* ([^"]*)"'
    assert re.findall(named, page) == ["cl-s0", "cl-c-waste cl-s1"]
    assert re.findall(r'class="cl-mark ([^"]*)"', page) == ["cl-c-cache cl-s2"] * 2
    bars = Picture(spans={"busy": [(0, 0, 1, "step")], "idle": [(0, 1, 2)]})
    page = draw(bars, y=None, lanes=["lane"], colours={"busy": "forward"})._html
    assert re.findall(r'class="cl-span ([^"]*)"', page) == ["cl-c-forward cl-s0", "cl-s1"]
    assert re.findall(r'class="cl-tag cl-in ([^"]*)"', page) == ["cl-c-forward cl-s0"]
    css = Explorer._css
    assert css.index(".cl-c-forward {") > css.index(".cl-s7 {"), "the later of two rules holds"


def test_a_band_lies_between_two_curves_under_all_of_them():
    curves = {"low": np.array([1.0, 1.0, 1.0]), "high": np.array([2.0, np.nan, 3.0]), "mean": np.array([1.5, 1.5, 2.0])}
    figure = draw(Picture(curves=curves), bands=[("low", "high")], colours={"low": "compute"})
    assert figure._spec["bands"] == [(0, 1)]
    page = figure._html
    assert page.index("cl-between cl-c-compute cl-s0") < page.index("cl-curve cl-edge cl-c-compute cl-s0")
    paths = {kind: re.findall(rf'class="{kind}[ "][^>]*? d="([^"]*)"', page) for kind in ("cl-between", "cl-curve")}
    low, high, _ = ([spot for spot in re.split("[ML]", path) if spot] for path in paths["cl-curve"])
    assert paths["cl-between"] == ["M" + "L".join([*low, *high[::-1]]) + "Z"]
    assert (len(low), len(high)) == (3, 2)
    asked = Predict("Three runs.", "Which is longest?", {"a": "No.", "b": "Yes."}, right="b", hides=["low", "high"])
    asks = draw(Picture(curves=curves), bands=[("low", "high")], predict=asked)._html
    assert len(re.findall("cl-stroke cl-edge", asks)) == 2, "what is asked about has a key"
    none = draw(Picture(curves=curves | {"high": np.full(3, np.nan)}), bands=[("low", "high")])._html
    assert re.findall(r'class="cl-between[^>]*? d="([^"]*)"', none) == [""]


def test_the_script_is_read_whole():
    """A name that is declared twice in a function is an error of the whole script: no figure would start."""
    script = Explorer._esm.replace("export default", "var exported =")
    assert MiniRacer().eval(f"{script}\ntypeof exported.render") == "function"


def test_the_script_redraws_nothing_of_a_scene():
    """A class by which the script finds what it redraws of the axes is no class of a scene's parts."""
    redrawn = set(re.findall(r'all\("\.(cl-[\w-]+)"\)', Explorer._esm))
    assert {"cl-curve", "cl-between", "cl-span"} <= redrawn
    drawn = (LIBRARY.parent / "scene.py").read_text(encoding="utf-8")
    assert redrawn & set(re.findall(r"cl-[a-z]+", drawn)) == set()


# --- axes ------------------------------------------------------------------------------------------------------------


def tick_labels(axis, values=(1.0, 2.0)):
    """What the markup prints below the picture of an explorer over this x axis."""
    picture = Picture(rules={str(v): v for v in values})
    below = re.search(r'class="cl-below".*?</div>', draw(picture, axis, None)._html).group()
    return re.findall(r">([^<]+)</span>", below)


@given(st.floats(0, 3).map(lambda e: 10**e), st.floats(0.3, 12))
@settings(deadline=None)
def test_a_log_axis_has_at_least_two_ticks_and_no_two_alike(low, decades):
    labels = tick_labels(Axis("x", log=True, limits=(low, low * 10**decades)))
    assert len(labels) >= 2
    assert len(set(labels)) == len(labels)


@given(st.integers(-3000, 3000), st.floats(1, 1e5))
@settings(deadline=None)
def test_a_linear_axis_has_at_least_two_ticks_and_no_two_alike(low, width):
    """Years as well: 2016 to 2026."""
    labels = tick_labels(Axis("x", limits=(low, low + width)))
    assert len(labels) >= 2
    assert len(set(labels)) == len(labels)


def test_ticks_of_a_log_axis_of_time_are_round_on_the_clock():
    labels = tick_labels(Axis("Timeout", "s", log=True, limits=(20, 3600)))
    assert labels == ["20 s", "1 min", "2 min", "5 min", "10 min", "20 min", "1 h"]
    labels = tick_labels(Axis("From check to check", "s", log=True, limits=(600, 4 * 86_400)))
    assert labels == ["10 min", "1 h", "10 h", "1 d"]


@given(st.floats(-3, 9).map(lambda e: 10**e))
@settings(deadline=None)
def test_times_on_a_linear_axis_have_one_unit(high):
    """0 min, 1 min, 2 min, and not 100 s and then 3.33 min."""
    labels = tick_labels(Axis("Time", "s", limits=(0, high)))
    assert 3 <= len(labels) <= 8
    assert len({label.split()[1] for label in labels}) == 1
    assert all(len(label.split()[0].replace(".", "").replace(",", "")) <= 4 for label in labels)


@given(st.floats(-6, 6), st.floats(1, 9))
@settings(deadline=None)
def test_times_on_a_log_axis_are_round_in_their_units(start, decades):
    axis = Axis("Time", "s", log=True, limits=(10**start, 10 ** (start + decades)))
    assert all(re.match(r"[125]0*(,000)* ", label) for label in tick_labels(axis))


def test_labels_of_ticks_that_stand_far_apart_all_stay_on_a_telephone():
    def below(axis):
        html = draw(Picture(rules={"now": 1.0}), axis, None)._html
        return re.findall(r'class="([^"]*)" style="left:', re.search(r'class="cl-below".*?</div>', html).group())

    assert below(Axis("Mean", "%", limits=(-0.045, 0.095))) == ["", ""]
    assert "cl-minor" in below(Axis("Mean", limits=(0, 10)))[1]


@pytest.mark.parametrize(
    ("unit", "high"), [("GB/s", 450e9), ("ms", 5e-3), ("min", 3000.0), ("kW", 120e3), ("GiB", 9e10)]
)
def test_ticks_are_numbers_of_the_unit_that_the_axis_names(unit, high):
    """400 on an axis in GB/s, not 400 G; 5 on an axis in ms, not 0.005."""
    last = tick_labels(Axis("x", unit), (0.0, high))[-1]
    assert re.fullmatch(r"[\d.,]+", last)
    assert high / 2 < parse(f"{last} {unit}") <= high


# --- markup and files ------------------------------------------------------------------------------------------------


class Tags(HTMLParser):
    """The tags and the text of a page."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.text = set(), ""
        self.feed(page)

    def handle_starttag(self, tag, _attrs):
        self.tags.add(tag)

    def handle_data(self, data):
        self.text += data


@pytest.mark.parametrize("kind", ["curves", "spans"])
def test_labels_are_text_and_never_markup(kind):
    nasty = "</script><b onclick='x'>\"R&D\"</b>"
    shown = {"title": f"title {nasty}", "x": Axis(f"across {nasty}", values=[1, 2], unit=f"unit {nasty}")}
    if kind == "curves":
        shown |= {"y": Axis(f"up {nasty}")}
        picture = Picture(
            curves={f"curve {nasty}": [1, 2]},
            points={f"point {nasty}": (1, 1)},
            rules={f"rule {nasty}": 1},
            marks={f"mark {nasty}": [(1, 1, f"name {nasty}")]},
            readouts={f"label {nasty}": f"value {nasty}"},
            scene=Scene(
                100, 30, [Box(0, 0, 9, 9, f"box {nasty}", key=nasty), Label(9, 9, f"words {nasty}")], alt=nasty
            ),
        )
        words = ["title", "across", "unit", "up", "curve", "point", "rule", "mark", "label", "value", "box", "words"]
    else:
        shown |= {"lanes": [f"lane {nasty}"]}
        picture = Picture(spans={f"kind {nasty}": [(0, 0, 1, f"text {nasty}")]})
        words = ["title", "across", "unit", "lane", "kind", "text"]
    page = Explorer(lambda **_: picture, controls=N, **shown)._html
    found = Tags(page)
    assert found.tags.isdisjoint({"b", "script"})
    assert all(f"{word} {nasty}" in found.text for word in words)
    assert "onclick='x'>" not in page


def test_the_markup_shows_the_start_and_hides_it_where_a_question_is_asked():
    one, two = (show(controls={"n": Slider("Exponent", [1, 2], start=n)}) for n in (1, 2))
    assert "<dd>3</dd>" in one._html
    assert "<dd>9</dd>" in two._html
    assert 'class="cl-explorer"' in one._html
    asked = show(predict=Predict("So.", "Which?", {"a": "no", "b": "yes"}, right="b"))
    assert 'class="cl-explorer cl-ask"' in asked._html
    assert '<p class="cl-premise">So.</p>' in asked._html


def test_the_markup_draws_every_mark_once():
    nan = math.nan
    marks = {"k": [(1, 1, "a"), (9, 9, "outside"), (nan, 1, "b"), (1, nan, "c")], "l": [(2, 2, "d"), (3, 1, "e")]}
    picture = Picture(curves={"a": 1, "b": 2}, points={"p": (1, 1)}, rules={"r": 1, "s": 2, "t": 3}, marks=marks)
    page = draw(picture, Axis("x", values=[1, 2, 3], limits=(0, 4)), Axis("y", limits=(0, 4)))._html
    counts = {"cl-curve": 2, "cl-dot": 1, "cl-rule": 3, "cl-stroke": 2, "cl-mark": 4}
    assert {name: len(re.findall(rf'class="{name}\b', page)) for name in counts} == counts
    assert re.findall(r'class="cl-mark[^"]* (cl-s\d)" d="([^"]*)"', page) == [
        ("cl-s2", "M250.0 750.0h.1"),
        ("cl-s3", "M500.0 500.0h.1M750.0 750.0h.1"),
        *[("cl-s2", "M5 5h.1"), ("cl-s3", "M5 5h.1")],  # the legend
    ]
    assert re.findall(r"</svg>([^<]+)</li>", page) == ["a", "b", "k", "l"]


def test_a_label_far_from_its_point_on_a_telephone_stands_close_to_it_on_a_page():
    x = np.linspace(200, 760, 57)
    curves = {
        name: np.where(x < 413, low + (top - low) * (x - 200) / 213, top + (1 - top) * (x - 413) / 287)
        for name, (low, top) in {"a": (0.23, 0.8), "b": (0.41, 1.07), "c": (0.82, 1.36)}.items()
    }
    crowded = Picture(curves=curves, points={"cap": (450, 1.06)}, rules={"floor": 413})
    page = draw(crowded, Axis("x", values=x, limits=(200, 760)), Axis("y", limits=(0, 1.8)))._html
    (how,) = re.findall(r'class="cl-tag cl-at" style="[^"]*%;([^"]*)"', page)
    assert how == "--cl-slim:translate(-50%, -3.75em);--cl-wide:translate(-50%, -0.75em)"
    alone = draw(Picture(points={"cap": (2, 2)}))._html
    assert "--cl-slim" not in alone
    assert ";transform:translate(" in alone


def test_no_two_kinds_of_marks_differ_by_colour_alone():
    page = draw(Picture(marks={str(i): [(1, i + 1, "a")] for i in range(8)}))._html
    picture = page[: page.index("cl-legend")]
    shapes = [tuple(re.findall(rf'class="cl-mark([^"]*) cl-s{i}( cl-hole)?"', picture)) for i in range(8)]
    assert len(set(shapes)) == 8
    assert all(shapes)


def test_the_script_is_small_enough_to_be_embedded_with_every_figure():
    assert len(Explorer._esm) < 50_000  # a page has it once, and compressed it is a third of that


@given(
    st.dictionaries(
        st.sampled_from("abcde"), st.lists(st.floats(0, 1e6), min_size=3, max_size=3), min_size=1, max_size=5
    )
)
def test_stacked_bars_stand_end_to_end_and_reach_their_total(parts):
    spans = stacked(parts)
    assert list(spans) == list(parts)
    for lane in range(3):
        bars = [spans[name][lane] for name in parts]
        assert [bar[0] for bar in bars] == [lane] * len(bars)
        assert bars[0][1] == 0
        assert all(before[2] == after[1] for before, after in itertools.pairwise(bars))
        assert [end - start for _, start, end in bars] == pytest.approx([v[lane] for v in parts.values()], abs=1e-6)


@given(st.floats(0, 1e6), st.lists(st.floats(0, 1e5), min_size=1, max_size=8))
def test_a_waterfall_loses_what_it_is_told_and_keeps_the_rest(kept, losses):
    start = kept + math.fsum(losses)
    spans = waterfall(start, losses)
    (first,), (last,) = spans["whole"], spans["left"]
    assert first == (0, 0, start)
    assert last[:2] == (len(losses) + 1, 0)
    assert last[2] == pytest.approx(start - math.fsum(losses), abs=1e-6)
    assert [lane for lane, _, _ in spans["lost"]] == list(range(1, len(losses) + 1))
    assert [before - after for _, after, before in spans["lost"]] == pytest.approx(losses, abs=1e-6)
    assert [before for _, _, before in spans["lost"]] == [start, *(after for _, after, _ in spans["lost"])][:-1]
    assert spans["lost"][-1][1] == last[2]
