"""The Explorer in a browser, on a static page with no kernel: what it draws is what Python computed."""

import itertools
import math
import random
import re
import statistics
from pathlib import Path

import numpy as np
import pytest

import drawn as pictures
import explorable
from clusterlab.records import with_interval
from clusterlab.units import fmt, ladder, parse
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
    stacked,
    waterfall,
)
from explorable.palette import colour
from hands import errors
from pages import CONTROLS, MISPLACED, commit_prediction, drawn, move_by_keyboard, static_page, widgets_ready

pytestmark = pytest.mark.slow

LIBRARY = Path(explorable.__file__).parent
X = np.geomspace(0.5, 4096, 40)
T = np.linspace(0, 90, 31)
DECADES = np.geomspace(0.5, 100, 5)
NASTY = '</script><b>"5 < 6" & more</b>'
MICROBATCHES = {"two": 2, "four": 4}


def roof(chip, batch, slope):
    """Two curves over log axes, beyond the limits of the picture, with a gap and a mark that is not always there."""
    peak = {"old": 3e14, "new": 2.2e15}[chip]
    curve = np.minimum(X * 3e12 / batch, peak)
    if slope:
        curve = np.where((X > 10) & (X < 20), np.nan, curve)
    return Picture(
        curves={"Roof": curve, "Slope": X * 3e12},
        points={"decode": (float(batch), min(batch * 3e12, peak) if batch < 64 else np.nan)},
        rules={"ridge": peak / 3e12, "end": 64.0},
        readouts={"Rate": fmt(peak / batch, "FLOP/s"), NASTY: f"{NASTY} {batch}"},
    )


def cost(price):
    """A linear axis in dollars over one in seconds, behind a question."""
    return Picture(curves={"Rent": price * T, "Own": 40 + 0.2 * price * T}, readouts={"After": fmt(90 * price, "$")})


def bars(n):
    """Stacked bars."""
    return Picture(spans=stacked({"compute": [n, 2, 3], "network": [0.5, 1, 2]}), readouts={"First": fmt(n + 0.5, "s")})


def losses(rate):
    """A waterfall."""
    return Picture(spans=waterfall(1.0, [rate, 0.1]), readouts={"Kept": fmt(0.9 - rate, "%")})


def schedule(microbatches, backward):
    """A timeline with labelled spans, whose number changes, and a rule."""
    forward = [(s, s + i, s + i + 1, f"F{i}") for s in range(8) for i in range(microbatches)]
    back = [(s, 24 - s + i, 25 - s + i) for s in range(8) for i in range(microbatches if backward else 0)]
    return Picture(
        spans={"forward": forward, "backward": back},
        rules={"flush": 8.0 + microbatches},
        readouts={"Bubble": fmt(7 / (microbatches + 7), "%")},
    )


LONG = "A model of 530 billion parameters with selective recomputation, 2,240 accelerators, batch 1"
RUNS = {  # time measured and predicted, in the order of what was measured: the last lies outside of the picture
    "fifth, whose prediction falls off": (50.0, 60.0),
    LONG: (4.0, 5.0),
    "first": (1.0, 1.0),
    NASTY: (9.0, 30.0),
    "twin": (20.0, 15.0),
    "outside": (2000.0, 10.0),
}
SPOTS = [spot for name, spot in RUNS.items() if name != "outside"] + [(20.0, 40.0)]
BY_TIME = ["first", LONG, NASTY, "twin", "twin", "fifth, whose prediction falls off"]


def scatter(speed, long):
    """Marks of three kinds over log axes, beside a line, a point and a rule: some absent, two of one name."""
    marks = [(x, y / speed, name) for name, (x, y) in RUNS.items() if long or name != LONG]
    return Picture(
        curves={"Equal": DECADES},
        points={"here": (3.0, 30.0)},
        rules={"limit": 70.0},
        marks={"even": marks[::2], "odd": marks[1::2], "rest": [(np.nan, 2.0, "absent"), (20.0, 40.0 / speed, "twin")]},
        readouts={"Runs": fmt(len(marks))},
    )


@pytest.fixture(scope="module")
def explorers() -> dict[str, Explorer]:
    """One of every kind, by what it shows."""
    return {
        "roof": Explorer(
            roof,
            controls={
                "chip": Select("Accelerator", ["old", "new"], "new"),
                "batch": Slider("Batch", [2**i for i in range(8)], "sequences", start=4, snaps=True),
                "slope": Toggle("With a gap"),
            },
            x=Axis("Intensity", "FLOP/byte", log=True, values=X, limits=(1, 4096)),
            y=Axis("Rate", "FLOP/s", log=True, limits=(1e11, 1e16)),
            title=f"A roof {NASTY}",
        ),
        "cost": Explorer(
            cost,
            controls={"price": Slider("Price", [1, 2.5, 4], "$", snaps=True)},
            x=Axis("Time", "s", values=T),
            y=Axis("Spent", "$"),
            title="Rent or own",
            predict=Predict(
                "Renting costs $1 a second, owning $40 and $0.20 a second.",
                "When is owning cheaper?",
                {"At once": "It starts at $40.", "After 50 s": "Each second saves $0.80."},
                right="After 50 s",
                hides=["Own", "After"],
            ),
        ),
        "bars": Explorer(
            bars,
            controls={"n": Slider("N", [1, 2, 3], snaps=True)},
            x=Axis("Time", "s"),
            lanes=["one", "two", "three"],
            title="Bars",
        ),
        "losses": Explorer(
            losses,
            controls={"rate": Slider("Loss", [0.05, 0.2], "%", snaps=True)},
            x=Axis("Share", "%"),
            lanes=["start", "failures", "bubbles", "left"],
            title="Losses",
        ),
        "schedule": Explorer(
            schedule,
            controls={"microbatches": Select("Microbatches", MICROBATCHES), "backward": Toggle("Backward")},
            x=Axis("Time", "s"),
            lanes=[f"stage {i}" for i in range(8)],
            title="Schedule",
        ),
        "scatter": Explorer(
            scatter,
            controls={
                "speed": Slider("Speed", [1, 2, 200], snaps=True),
                "long": Toggle("With the long name", start=True),
            },
            x=Axis("Measured", "s", log=True, values=DECADES, limits=(0.5, 100)),
            y=Axis("Predicted", "s", log=True, limits=(0.5, 100)),
            title="Runs",
        ),
    }


@pytest.fixture(scope="module")
def url(explorers, tmp_path_factory) -> str:
    path = tmp_path_factory.mktemp("widget") / "page.html"
    path.write_text(static_page(*explorers.values()))
    return path.as_uri()


@pytest.fixture
def gallery(explorers, url, visit):
    """Open the page; return it with the figure of every explorer, by name, and its prediction made."""

    def opened(predicted=True, **options):
        page = visit(url, **options)
        figures = dict(zip(explorers, widgets_ready(page), strict=True))
        if predicted:
            commit_prediction(page, figures["cost"], answer=1)
        return page, figures

    return opened


def choose(figure, **values):
    """Set controls by the index of the stop."""
    for name, index in values.items():
        control = figure.locator(f"[name={name}]")
        if control.get_attribute("type") == "range":
            control.fill(str(index))
        elif control.get_attribute("type") == "checkbox":
            control.set_checked(bool(index))
        else:
            control.select_option(index=index)


def legend(figure) -> dict[str, str]:
    """Return what the cursor reads, curve by curve."""
    return dict(
        figure.locator("[data-curve]").evaluate_all(
            "all => all.map(key => [key.childNodes[1].data ?? key.firstChild.data, key.querySelector('b').textContent])"
        )
    )


def test_the_script_draws_the_very_picture_that_the_markup_showed_before_it_ran(url, visit, gallery):
    still = [drawn(figure) for figure in visit(url, java_script_enabled=False).locator(".cl-explorer").all()]
    _, figures = gallery()
    assert still == [drawn(figure) for figure in figures.values()]
    assert all(any(picture["paths"]) and picture["readouts"] for picture in still)


def test_without_a_script_the_reader_sees_the_default_state_and_no_dead_control(url, visit, explorers):
    page = visit(url, java_script_enabled=False)
    for explorer, figure in zip(explorers.values(), page.locator(".cl-explorer").all(), strict=True):
        assert drawn(figure)["readouts"] == explorer.at()
        assert figure.locator("dd").first.is_visible()
        assert (
            figure.locator(".cl-curve, .cl-span, .cl-mark").first.evaluate("p => getComputedStyle(p).visibility")
            == "visible"
        )
    assert page.locator("input, select, button, [tabindex]").count() == 0


def test_the_page_shows_for_every_combination_what_python_computed(gallery, explorers):
    _, figures = gallery()
    for chip, batch, slope in [(0, 0, 0), (0, 7, 1), (1, 3, 1), (1, 7, 0)]:
        choose(figures["roof"], chip=chip, batch=batch, slope=slope)
        expected = explorers["roof"].at(chip=["old", "new"][chip], batch=2**batch, slope=bool(slope))
        assert drawn(figures["roof"])["readouts"] == expected
    for i, n in enumerate([1, 2, 3]):
        choose(figures["bars"], n=i)
        assert drawn(figures["bars"])["readouts"] == explorers["bars"].at(n=n)
    for m, label in enumerate(MICROBATCHES):
        choose(figures["schedule"], microbatches=m, backward=1)
        shown = drawn(figures["schedule"])
        assert shown["readouts"] == explorers["schedule"].at(microbatches=label, backward=True)
        assert [path.count("M") for path in shown["paths"][1:3]] == [8 * MICROBATCHES[label]] * 2
        texts = [text for kind, text, *_ in shown["tags"] if "cl-in" in kind]
        assert sorted(texts) == sorted(f"F{i}" for i in range(MICROBATCHES[label]) for _ in range(8))


def test_bars_and_steps_of_a_waterfall_are_as_long_as_their_values(gallery):
    _, figures = gallery()

    def boxes(name):
        return [
            [(float(a), float(b)) for a, b in re.findall(r"M([\d.]+) [\d.]+H([\d.]+)v", path)]
            for path in drawn(figures[name])["paths"][1:4]
            if path
        ]

    # The axis ends at the longest bar of all stops: five seconds.
    compute, network = boxes("bars")
    assert np.array(compute) == pytest.approx(np.array([(0, 200), (0, 400), (0, 600)]), abs=0.1)
    assert np.array(network) == pytest.approx(np.array([(200, 300), (400, 600), (600, 1000)]), abs=0.1)
    whole, lost, left = boxes("losses")
    assert [*whole, *left] == [pytest.approx((0, 1000), abs=0.1), pytest.approx((0, 850), abs=0.1)]
    assert np.array(lost) == pytest.approx(np.array([(950, 1000), (850, 950)]), abs=0.1)


def test_a_bar_that_leaves_the_picture_is_broken_where_it_does(tmp_path, visit):
    long = Explorer(
        lambda n: Picture(spans=stacked({"work": [n, 2], "waste": [1, 1]})),
        controls={"n": Slider("N", [1, 5, 9], snaps=True)},
        x=Axis("Time", "s", limits=(0, 4)),
        lanes=["long", "short"],
        title="Broken",
    )
    path = tmp_path / "broken.html"
    path.write_text(static_page(long))
    (still,) = visit(path.as_uri(), java_script_enabled=False).locator(".cl-break").all()
    assert still.get_attribute("d") == ""
    (figure,) = widgets_ready(visit(path.as_uri()))
    breaks = figure.locator(".cl-break")
    for n in (1, 2):
        choose(figure, n=n)
        assert breaks.get_attribute("d") == "M985 100.0l8 75.0l-8 75.0l8 75.0l-8 75.0"
    choose(figure, n=0)
    assert breaks.get_attribute("d") == ""


def test_every_control_is_reached_by_tab_and_moves_its_figure_by_keyboard_alone(gallery, explorers):
    page, _ = gallery(predicted=False)
    reached, names = [], [control["name"] for e in explorers.values() for control in e._spec["controls"]]
    for _ in range(40):
        page.keyboard.press("Tab")
        focused = page.locator(":focus")
        if not focused.count():
            break
        if focused.get_attribute("type") == "radio":
            page.keyboard.press("Space")
            page.keyboard.press("Enter")
            continue
        if name := focused.get_attribute("name"):
            figure = focused.locator("xpath=ancestor::figure")
            assert move_by_keyboard(figure, focused), name
            reached.append(name)
    assert sorted(reached) == sorted(names)


def test_every_control_moves_its_figure_by_mouse(gallery):
    page, figures = gallery()
    for name, control, x in [("roof", "batch", 0.9), ("cost", "price", 0.95), ("roof", "slope", 0.5)]:
        before, box = drawn(figures[name]), figures[name].locator(f"[name={control}]").bounding_box()
        page.mouse.click(box["x"] + x * box["width"], box["y"] + box["height"] / 2)
        assert drawn(figures[name]) != before, control
    before = drawn(figures["roof"])
    figures["roof"].get_by_label("Accelerator", exact=True).select_option("old")
    assert drawn(figures["roof"]) != before


def test_reset_restores_the_default_picture_and_controls(gallery):
    _, figures = gallery()
    default = drawn(figures["roof"]), figures["roof"].locator(CONTROLS).evaluate_all("all => all.map(c => c.value)")
    choose(figures["roof"], chip=0, batch=7, slope=1)
    assert drawn(figures["roof"]) != default[0]
    figures["roof"].get_by_role("button", name="Reset").click()
    restored = drawn(figures["roof"]), figures["roof"].locator(CONTROLS).evaluate_all("all => all.map(c => c.value)")
    assert restored == default
    assert not figures["roof"].get_by_label("With a gap", exact=True).is_checked()


def visible(figure, parts) -> list[bool]:
    """Whether a reader sees each of these parts of a figure."""
    return figure.locator(parts).evaluate_all("all => all.map(e => e.checkVisibility({ visibilityProperty: true }))")


def test_a_question_hides_the_answer_alone_and_nobody_can_peek(gallery, explorers):
    page, figures = gallery(predicted=False)
    figure, area = figures["cost"], figures["cost"].locator(".cl-area")
    assert " ".join(figure.locator(".cl-premise").inner_text().split()).startswith("Renting costs $1 a second")
    assert visible(figure, ".cl-curve") == [True, False]
    assert figure.locator("dd").all_inner_texts() == ["?"]
    area.hover()
    area.focus()
    page.keyboard.press("End")
    assert legend(figure) == {"Rent": "$90", "Own": "?"}
    told = figure.inner_text() + figure.aria_snapshot() + str(area.get_attribute("aria-valuetext"))
    assert fmt(40 + 0.2 * 90, "$") not in told
    assert move_by_keyboard(figure, figure.get_by_label("Price", exact=True)), "the rest of the figure moves"
    assert figure.locator("dd").all_inner_texts() == ["?"]


@pytest.mark.parametrize(
    ("answer", "verdict", "said"),
    [
        (0, "cl-wrong", "You said: At once. It starts at $40. The answer: After 50 s."),
        (1, "cl-right", "Right: After 50 s. Each second saves $0.80."),
    ],
)
def test_a_committed_prediction_is_judged_with_the_reason_and_shows_the_picture(gallery, answer, verdict, said):
    page, figures = gallery(predicted=False)
    figure, status = figures["cost"], figures["cost"].get_by_role("status")
    figure.get_by_role("button", name="Commit my prediction").click()
    assert "Pick an answer" in status.inner_text()
    assert figure.locator("dd").all_inner_texts() == ["?"]
    assert commit_prediction(page, figure, answer=answer)
    assert status.inner_text() == said
    assert verdict in status.get_attribute("class")
    assert figure.locator("dd").all_inner_texts() == ["$90"]
    assert visible(figure, ".cl-curve") == [True, True]
    assert not figure.locator(".cl-predict").is_visible()
    assert figure.evaluate("f => f.contains(document.activeElement)"), "the keyboard's place is lost"


def test_show_me_shows_the_picture_and_says_the_answer(gallery):
    page, figures = gallery(predicted=False)
    figure = figures["cost"]
    figure.get_by_role("button", name="Show me").focus()
    page.keyboard.press("Enter")
    assert visible(figure, ".cl-curve") == [True, True]
    assert figure.get_by_role("status").inner_text() == "The answer: After 50 s. Each second saves $0.80."


def test_the_legend_says_which_curve_waits_for_the_prediction(gallery):
    page, figures = gallery(predicted=False)
    keys = figures["cost"].locator(".cl-legend li:not(.cl-spare)")
    notes = [key.evaluate("li => getComputedStyle(li, '::after').content") for key in keys.all()]
    assert notes == ['"\xa0(hidden until you answer)"'], "what is not asked about has its name in the picture"
    commit_prediction(page, figures["cost"])
    assert [key.evaluate("li => getComputedStyle(li, '::after').content") for key in keys.all()] == ["none"]


def test_an_answer_is_remembered_over_a_reload_and_can_be_asked_again(gallery):
    page, figures = gallery(predicted=False)
    commit_prediction(page, figures["cost"])
    page.reload()
    cost = widgets_ready(page)[1]
    assert "You said: At once." in cost.get_by_role("status").inner_text()
    assert visible(cost, ".cl-curve") == [True, True]
    cost.get_by_role("button", name="Ask me first").press("Enter")
    assert visible(cost, ".cl-curve") == [True, False]
    assert cost.locator(".cl-predict input").first.evaluate("e => e === document.activeElement")
    page.reload()
    assert visible(widgets_ready(page)[1], ".cl-curve") == [True, False]


def test_one_switch_stops_every_question_of_the_book(explorers, tmp_path, visit):
    path = tmp_path / "asked.html"
    other = Explorer(
        lambda n: Picture(curves={"line": [n, n]}),
        controls={"n": Slider("N", [1, 2], snaps=True)},
        x=Axis("x", values=[1, 2]),
        y=Axis("y"),
        title="Another",
        predict=Predict("It is flat.", "How high?", {"one": "By default.", "two": "Only later."}, "one", ["line"]),
    )
    path.write_text(static_page(explorers["cost"], other))
    page = visit(path.as_uri())
    for _ in range(2):
        cost, another = widgets_ready(page)
        assert [*visible(cost, ".cl-curve"), *visible(another, ".cl-curve")] == [True, False, False]
        cost.get_by_role("button", name="Stop asking").press("Enter")
        for _ in range(2):
            assert [*visible(cost, ".cl-curve"), *visible(another, ".cl-curve")] == [True, True, True]
            assert not cost.locator(".cl-said").is_visible()
            page.reload()
            cost, another = widgets_ready(page)
        another.get_by_role("button", name="Ask me first").press("Enter")


def test_a_browser_that_remembers_nothing_asks_all_the_same(url, visit, browser):
    page = visit("about:blank", own=True)
    page.add_init_script("Object.defineProperty(window, 'localStorage', { get() { throw new Error('not here'); } })")
    page.goto(url)
    cost = widgets_ready(page)[1]
    assert commit_prediction(page, cost, answer=1)
    assert cost.get_by_role("status").inner_text().startswith("Right")


def test_the_cursor_reads_log_curves_to_three_digits(gallery, explorers):
    page, figures = gallery()
    choose(figures["roof"], chip=1, batch=3, slope=1)
    curves = roof("new", 8, True).curves
    error = 10 ** (explorers["roof"]._spec["y"]["span"] / 65534 / 2) - 1
    figures["roof"].locator(".cl-area").focus()
    page.keyboard.press("Home")
    for i in range(X.size):
        read = legend(figures["roof"])
        for name, values in curves.items():
            near = {fmt(values[i] * (1 + e), "FLOP/s") for e in (-error, 0, error)}
            assert read[name] in ({"none"} if np.isnan(values[i]) else near)
        page.keyboard.press("ArrowRight")
    assert any(np.isnan(curves["Roof"]))
    assert drawn(figures["roof"])["paths"][1].count("M") == 2, "the pen lifts over the gap"


def test_the_cursor_reads_linear_curves_to_a_thousandth_of_the_axis(gallery):
    page, figures = gallery()
    choose(figures["cost"], price=1)
    top = 4 * 90
    figures["cost"].locator(".cl-area").focus()
    page.keyboard.press("Home")
    for i in range(T.size):
        read = legend(figures["cost"])
        for name, values in cost(2.5).curves.items():
            assert parse(read[name]) == pytest.approx(values[i], abs=0.51 * top / 1000 + 0.005 * values[i])
        page.keyboard.press("ArrowRight")
    here = figures["cost"].locator(".cl-here").inner_text()
    said = figures["cost"].locator(".cl-area").get_attribute("aria-valuetext")
    assert (here, said) == ("90 s", f"90 s: Rent {read['Rent']}, Own {read['Own']}")


def test_the_cursor_follows_the_mouse_and_the_controls(gallery):
    page, figures = gallery()
    figures["cost"].locator(".cl-area").scroll_into_view_if_needed()
    box = figures["cost"].locator(".cl-area").bounding_box()
    page.mouse.move(box["x"] + box["width"] - 2, box["y"] + 20)
    assert legend(figures["cost"])["Rent"] == "$90"
    choose(figures["cost"], price=2)
    assert legend(figures["cost"])["Rent"] == "$360"


def place(x, y) -> tuple[float, float]:
    """Where a mark stands in the picture of runs, as shares from the left and from the top."""
    across, up = (np.log(v / 0.5) / np.log(200) for v in (x, y))
    return across, 1 - up


def named(figure) -> tuple[str, str | None, tuple[float, float] | None]:
    """What is shown of the mark under the cursor: its name, as printed and as announced, and where its ring stands."""
    name, said, ring = figure.evaluate(
        """f => { const r = f.querySelector(".cl-ring").getBoundingClientRect(), area = f.querySelector(".cl-area"),
                   a = area.querySelector(":scope > svg").getBoundingClientRect();
          return [f.querySelector(".cl-here").innerText, area.getAttribute("aria-valuetext"),
            r.width && [(r.x + r.width / 2 - a.x) / a.width, (r.y + r.height / 2 - a.y) / a.height]]; }"""
    )
    return name, said, ring and pytest.approx(ring, abs=0.002)


def point_at(page, figure, share, tap=False):
    """Move the mouse to a share of the picture from the left and from the top, or tap there."""
    at = figure.locator(".cl-area > svg").evaluate(
        """(svg, [across, down]) => { svg.scrollIntoView({ block: "nearest" }); const box = svg.getBoundingClientRect();
          return [box.x + across * box.width, box.y + down * box.height]; }""",
        list(share),
    )
    (page.touchscreen.tap if tap else page.mouse.move)(*at)


@pytest.mark.parametrize("tap", [False, True])
def test_pointing_names_the_nearest_mark_in_pixels_and_rings_it(gallery, tap):
    page, figures = gallery(has_touch=tap)
    figure = figures["scatter"]
    assert named(figure) == ("", "no mark chosen", 0)
    for name, (x, y) in RUNS.items():
        if name != "outside":
            across, down = place(x, y)
            point_at(page, figure, (across - 0.01, down + 0.01), tap)
            assert named(figure) == (name, name, place(x, y))
    # Nearest in pixels is not nearest in shares of the picture, which is wider than high.
    box, differ = figure.locator(".cl-area > svg").bounding_box(), 0
    for at in itertools.product(np.linspace(0.05, 0.95, 4), np.linspace(0.05, 0.95, 3)):
        point_at(page, figure, at, tap)
        apart = [np.subtract(place(*spot), at) for spot in SPOTS]
        pixels, shares = (np.hypot(*np.transpose(apart * np.array(s))) for s in ((box["width"], box["height"]), (1, 1)))
        assert named(figure)[2] == place(*SPOTS[np.argmin(pixels)])
        differ += np.argmin(pixels) != np.argmin(shares)
    assert differ
    assert figure.locator(".cl-legend b").count() == 0


def test_arrow_keys_step_from_mark_to_mark_in_the_order_of_x_and_stop_at_both_ends(gallery):
    page, figures = gallery()
    area = figures["scatter"].locator(".cl-area")
    assert (area.get_attribute("role"), area.get_attribute("tabindex")) == ("slider", "0")
    area.focus()
    page.keyboard.press("Home")
    for i, name in enumerate(BY_TIME):
        shown, said, _ = named(figures["scatter"])
        assert (shown, said, area.get_attribute("aria-valuenow")) == (name, name, str(i))
        page.keyboard.press("ArrowRight")
    assert area.get_attribute("aria-valuemax") == str(len(BY_TIME) - 1)
    last = named(figures["scatter"])
    assert last == (BY_TIME[-1], BY_TIME[-1], place(*RUNS[BY_TIME[-1]]))
    for key, name in [
        ("PageUp", -1),
        ("ArrowLeft", -2),
        ("End", -1),
        ("PageDown", 0),
        ("ArrowDown", 0),
        ("ArrowUp", 1),
    ]:
        page.keyboard.press(key)
        assert named(figures["scatter"])[0] == BY_TIME[name], key


def test_the_ring_stays_on_its_mark_while_it_is_there(gallery):
    page, figures = gallery()
    figure = figures["scatter"]
    point_at(page, figure, place(*RUNS[NASTY]))
    choose(figure, speed=1)
    assert named(figure) == (NASTY, NASTY, place(9.0, 15.0))
    choose(figure, long=0)  # every later mark has another slot, and some another kind
    assert named(figure) == (NASTY, NASTY, place(9.0, 15.0))
    assert figure.locator(".cl-area").get_attribute("aria-valuenow") == "1"
    choose(figure, speed=2)
    assert named(figure) == ("", "no mark chosen", 0), "it lies below the picture now"
    choose(figure, speed=0, long=1)
    assert named(figure) == ("", "no mark chosen", 0)


def test_of_marks_with_one_name_the_ring_keeps_the_one_that_it_was_on(gallery):
    page, figures = gallery()
    for y in (15.0, 40.0):
        choose(figures["scatter"], speed=0)
        point_at(page, figures["scatter"], place(20.0, y))
        choose(figures["scatter"], speed=1)
        assert named(figures["scatter"]) == ("twin", "twin", place(20.0, y / 2))


def test_where_no_mark_is_left_the_cursor_finds_none(gallery):
    page, figures = gallery()
    figure = figures["scatter"]
    choose(figure, speed=2)
    point_at(page, figure, (0.5, 0.5))
    figure.locator(".cl-area").focus()
    for key in ("Home", "End", "ArrowLeft"):
        page.keyboard.press(key)
        assert named(figure) == ("", "no mark chosen", 0)
    assert figure.locator(".cl-area").get_attribute("aria-valuemax") == "0"


@pytest.mark.parametrize("width", [320, 1000])
def test_a_long_name_wraps_and_moves_nothing(gallery, width):
    page, figures = gallery(viewport={"width": width, "height": 700})
    figure = figures["scatter"]

    def boxes(what):
        return [element.bounding_box() for element in figure.locator(what).all()]

    figure.locator(".cl-area").focus()
    before = boxes(".cl-area, .cl-foot, .cl-legend, .cl-readouts")
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    assert named(figure)[0] == LONG
    assert len(LONG) >= 90
    assert boxes(".cl-area, .cl-foot, .cl-legend, .cl-readouts") == before
    (name,), (legend,), (area,) = boxes(".cl-here"), boxes(".cl-legend"), boxes(".cl-area")
    assert name["x"] >= 0
    assert name["x"] + name["width"] <= width
    assert area["y"] + area["height"] <= name["y"] < name["y"] + name["height"] <= legend["y"]
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_marks_wait_for_the_prediction(tmp_path, visit):
    asked = Explorer(
        lambda n: Picture(marks={"runs": [(1, n, "the fast one"), (2, n, "the slow one")]}),
        controls={"n": Slider("N", [1, 2], snaps=True)},
        x=Axis("x"),
        y=Axis("y"),
        title="Asked",
        predict=Predict("Two ran.", "Which?", {"this": "No.", "that": "Yes."}, right="that", hides=["runs"]),
    )
    path = tmp_path / "asked.html"
    path.write_text(static_page(asked))
    page = visit(path.as_uri())
    (figure,) = widgets_ready(page)
    figure.locator(".cl-area").hover()
    figure.locator(".cl-area").focus()
    page.keyboard.press("End")
    assert figure.locator(".cl-mark").first.evaluate("p => getComputedStyle(p).visibility") == "hidden"
    assert "the slow one" not in figure.inner_text() + figure.aria_snapshot()
    commit_prediction(page, figure)
    assert figure.locator(".cl-mark").first.evaluate("p => getComputedStyle(p).visibility") == "visible"
    figure.locator(".cl-area").focus()
    page.keyboard.press("End")
    assert named(figure)[:2] == ("the slow one", "the slow one")


def test_axes_carry_their_unit_and_rising_ticks_inside_the_picture(gallery):
    _, figures = gallery()
    for name, expected in {"roof": ["1", "10", "100", "1 k"], "cost": ["0 s", "20 s", "40 s", "60 s", "80 s"]}.items():
        ticks = figures[name].locator(".cl-below span")
        assert [text.replace("\N{NARROW NO-BREAK SPACE}", " ") for text in ticks.all_inner_texts()] == expected
        places = ticks.evaluate_all("all => all.map(tick => Number.parseFloat(tick.style.left))")
        assert places == sorted(places)
        assert places[0] == 0
        assert places[-1] <= 100
        assert figures[name].locator(".cl-left span").count() > 2
    assert figures["roof"].locator(".cl-foot").inner_text() == "Intensity (FLOP/byte)"
    assert figures["roof"].locator(".cl-head").inner_text() == "Rate (FLOP/s)"


def test_text_is_text_whatever_it_holds(gallery):
    _, figures = gallery()
    assert figures["roof"].locator("figcaption").inner_text() == f"A roof {NASTY}"
    choose(figures["roof"], batch=1)
    assert drawn(figures["roof"])["readouts"][NASTY] == f"{NASTY} 2"
    assert figures["roof"].locator("figcaption b, dt b, dd b").count() == 0


def test_a_screen_reader_is_told_names_values_and_changes(gallery):
    page, figures = gallery()
    batch = figures["roof"].get_by_role("slider", name="Batch", exact=True)
    assert batch.get_attribute("aria-valuetext") == "4 sequences"
    batch.focus()
    page.keyboard.press("ArrowRight")
    assert batch.get_attribute("aria-valuetext") == "8 sequences"
    for role, name in [("combobox", "Accelerator"), ("checkbox", "With a gap"), ("button", "Reset")]:
        assert figures["roof"].get_by_role(role, name=name, exact=True).count() == 1
    assert page.get_by_role("figure", name="Rent or own").count() == 1
    assert page.get_by_role("img", name="Bars. Time across.").count() == 1
    for figure in figures.values():
        assert figure.locator(".cl-readouts").get_attribute("aria-live") == "polite"


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("predicted", [False, True])
def test_axe_finds_nothing(gallery, violations, scheme, predicted):
    page, figures = gallery(predicted, color_scheme=scheme)
    if scheme == "dark":
        page.add_style_tag(content=":root { color-scheme: dark; background: #14181e; color: #ced6dd }")
    figures["bars"].get_by_label("N", exact=True).focus()
    assert violations(page) == set()


def test_nothing_leaves_a_screen_of_320_pixels(gallery):
    page, figures = gallery(viewport={"width": 320, "height": 600}, has_touch=True)
    choose(figures["roof"], batch=6)
    assert page.evaluate("document.documentElement.scrollWidth") <= 320
    outside = page.evaluate(
        """() => [...document.querySelectorAll(".cl-explorer *:not(path)")].filter(e => {
          const box = e.getBoundingClientRect();
          return box.width && getComputedStyle(e).visibility === "visible" && (box.left < 0 || box.right > 320);
        }).map(e => `${e.tagName}.${e.className} ${e.textContent}`)"""
    )
    assert outside == []


def linked(n):
    """Two boxes that lead to pages, and one that does not."""
    parts = [Box(0, 0, 90, 40, f"{n} days", link="power.ipynb"), Box(100, 0, 90, 40, "still")]
    parts.append(Label(0, 60, "Scaling", "start", link="reference/scaling.md#cost"))
    return Picture(scene=Scene(200, 80, parts, alt=f"It takes {n} days"))


def test_what_a_scene_links_is_reached_by_keyboard_from_each_picture(tmp_path, visit, violations):
    path = tmp_path / "linked.html"
    path.write_text(static_page(Explorer(linked, controls={"n": Slider("N", [1, 2], snaps=True)}, title="Linked")))
    page = visit(path.as_uri())
    (figure,) = widgets_ready(page)
    assert violations(page) == set()
    slider, links = figure.get_by_role("slider", name="N"), figure.get_by_role("link")
    slider.focus()
    page.keyboard.press("End")
    assert figure.get_by_role("group", name="It takes 2 days").count() == 1
    assert [one.strip() for one in links.all_text_contents()] == ["2 days", "Scaling"]
    reached = []
    for _ in range(4):  # past the field beside the slider, and Reset
        page.keyboard.press("Tab")
        reached.append(page.evaluate("document.activeElement.getAttribute('href')"))
    assert reached[-2:] == ["power.html", "reference/scaling.html#cost"]
    page.keyboard.press("Shift+Tab")
    figure.evaluate("f => { const s = f.querySelector('input'); s.value = 0; s.dispatchEvent(new Event('input')); }")
    assert links.first.text_content() == "1 days"
    assert page.evaluate("document.activeElement.textContent") == "1 days"  # the picture changed under it
    assert violations(page) == set()


def test_print_shows_the_present_state_and_no_controls(gallery):
    page, figures = gallery()
    choose(figures["roof"], batch=7)
    on_screen = drawn(figures["roof"])
    page.emulate_media(media="print")
    assert drawn(figures["roof"]) == on_screen
    assert on_screen["readouts"][NASTY] == f"{NASTY} 128"
    assert figures["roof"].locator("dd").first.is_visible()
    visible = page.locator("input, select, button").evaluate_all("all => all.filter(c => c.checkVisibility()).length")
    assert visible == 0


def test_print_tells_what_a_question_hides(gallery, explorers):
    page, figures = gallery(predicted=False)
    page.emulate_media(media="print")
    told = (
        figures["cost"]
        .locator("dd")
        .evaluate_all("""all => all.map(dd =>
        [getComputedStyle(dd).fontSize, getComputedStyle(dd, "::after").content.slice(1, -1)])""")
    )
    assert told == [["0px", text] for text in explorers["cost"].at().values()]
    assert visible(figures["cost"], ".cl-curve") == [True, True]
    assert figures["cost"].locator(".cl-premise").is_visible()
    assert not figures["cost"].locator(".cl-predict").is_visible()


def test_two_views_of_one_explorer_move_together(explorers, tmp_path, visit):
    path = tmp_path / "twice.html"
    path.write_text(static_page(explorers["roof"], explorers["cost"], explorers["roof"], explorers["cost"]))
    page = visit(path.as_uri())
    roof, cost, roof_again, cost_again = widgets_ready(page)
    before = drawn(roof_again)
    assert move_by_keyboard(roof, roof.get_by_label("Batch", exact=True))
    assert before != drawn(roof_again) == drawn(roof)
    assert (
        roof_again.get_by_label("Batch", exact=True).input_value()
        == roof.get_by_label("Batch", exact=True).input_value()
    )
    commit_prediction(page, cost)
    assert cost_again.locator("dd").all_inner_texts() == ["$90"], (
        "the guess is a trait of the model, and so of both views"
    )


def test_whatever_has_the_focus_shows_a_ring(gallery):
    page, _ = gallery(predicted=False)
    seen = set()
    for _ in range(40):
        page.keyboard.press("Tab")
        ring = page.evaluate(
            """() => { const e = document.activeElement, s = getComputedStyle(e);
              return e === document.body ? null : [e.className || e.name || e.type, e.matches(":focus-visible"),
                s.outlineStyle, Number.parseFloat(s.outlineWidth)]; }"""
        )
        if ring is None:
            break
        name, visible, style, width = ring
        assert visible, name
        assert style not in ("none", "hidden"), name
        assert width >= 2, name
        seen.add(name)
    assert {"chip", "batch", "slope", "cl-reset", "cl-area"} <= seen


def test_nothing_is_animated_for_a_reader_who_asked_for_less_motion(gallery):
    page, figures = gallery(reduced_motion="reduce")
    choose(figures["roof"], batch=6)
    assert page.evaluate("document.getAnimations().length") == 0
    moving = page.evaluate(
        """() => [...document.querySelectorAll(".cl-explorer, .cl-explorer *")].filter(e => {
          const s = getComputedStyle(e);
          return s.transitionDuration !== "0s" || s.animationName !== "none";
        }).length"""
    )
    assert moving == 0


def test_a_step_of_the_slider_takes_less_than_a_frame(gallery):
    """From the key's own time stamp to the new path, laid out: all work but the wait for the screen's next refresh."""
    page, figures = gallery()
    page.evaluate(
        """() => {
          const figure = document.querySelector(".cl-explorer");
          let pressed; window.steps = [];
          addEventListener("keydown", e => { pressed = e.timeStamp; }, true);
          new MutationObserver(() => {
            figure.getBoundingClientRect();
            window.steps.push(performance.now() - pressed);
          }).observe(figure.querySelector(".cl-curve"), { attributes: true, attributeFilter: ["d"] });
        }"""
    )
    figures["roof"].get_by_label("Batch", exact=True).focus()
    for i in range(50):
        page.keyboard.press("ArrowRight" if i // 5 % 2 == 0 else "ArrowLeft")
    steps = page.evaluate("window.steps")
    assert len(steps) == 50
    assert statistics.median(steps) < 16


# --- scenes ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def drawn_explorers() -> dict[str, Explorer]:
    """The drawings, one that begins again at its end, and one behind a question."""
    lamps = ["red", "green", "amber"]

    def lamp(number):
        box = Box(10 + 60 * number, 5, 50, 20, lamps[number], kind="compute", solid=True, key="lamp")
        return Picture(
            scene=Scene(200, 30, [box], alt=f"The lamp is {lamps[number]}"), readouts={"Lamp": lamps[number]}
        )

    return pictures.explorers() | {
        "lamps": Explorer(lamp, controls={"number": Play("Lamp", range(3), labels=lamps)}, title="Lamps"),
        "asked": Explorer(
            lamp,
            controls={"number": Slider("Lamp", range(3), snaps=True)},
            title="Asked",
            predict=Predict("A lamp.", "Which?", {"red": "Yes.", "green": "No."}, right="red", hides=["Lamp"]),
        ),
    }


@pytest.fixture
def stage(drawn_explorers, tmp_path, visit):
    """Open a page of the drawings; return it with the figure of each."""
    path = tmp_path / "stage.html"
    path.write_text(static_page(*drawn_explorers.values()))

    def opened(dark=False, **options):
        page = visit(path.as_uri(), **options)
        if dark:
            page.add_style_tag(content=":root { color-scheme: dark; background: #14181e; color: #ced6dd }")
        figures = page.locator(".cl-explorer").all()
        if options.get("java_script_enabled", True):
            figures = widgets_ready(page)
        return page, dict(zip(drawn_explorers, figures, strict=True))

    return opened


def scene(figure) -> tuple[str, list[str], dict[str, str]]:
    """Return what a figure's scene says, its texts, and the place of each part that has a key."""
    return figure.locator(".cl-scene").evaluate(
        """svg => [svg.getAttribute("aria-label"), [...svg.querySelectorAll("text")].map(t => t.textContent),
          Object.fromEntries([...svg.querySelectorAll("[data-key]")].map(g => [g.dataset.key, g.style.transform]))]"""
    )


def computed(drawing) -> list:
    """Return the same of a scene in Python."""
    boxes = [part for part in drawing.parts if isinstance(part, Box)]
    return [
        drawing.alt,
        [line for part in drawing.parts for line in part.text.split("\n") if line],
        {box.key: f"translate({box.x:g}px, {box.y:g}px)" for box in boxes if box.key},
    ]


def test_a_scene_is_there_before_the_script_and_shows_at_every_stop_what_python_computed(stage):
    _, still = stage(java_script_enabled=False)
    page, figures = stage()
    assert {name: scene(figure) for name, figure in still.items()} == {n: scene(f) for n, f in figures.items()}
    assert scene(still["fat tree"]) == computed(pictures.fat_tree().scene)
    figures["ring"].locator("input").focus()
    for step in range(pictures.STEPS + 1):
        assert scene(figures["ring"]) == computed(pictures.ring(step).scene)
        now = figures["ring"].locator(".cl-top").evaluate("tag => Number.parseFloat(tag.style.left)")
        assert now == pytest.approx(100 * step / pictures.STEPS, abs=0.01)
        page.keyboard.press("ArrowRight")
    for cut in ("rows", "columns"):
        figures["product"].get_by_label("W is cut by", exact=True).select_option(cut)
        assert scene(figures["product"]) == computed(pictures.product(cut).scene)


def test_the_buttons_of_a_step_go_on_and_back_and_stop_at_both_ends(stage):
    page, figures = stage()
    ring = figures["ring"]
    group = ring.get_by_role("group", name="Step")
    back, on = (group.get_by_role("button", name=f"{which} step") for which in ("Previous", "Next"))
    slider = group.get_by_role("slider", name="Step")
    seen = []
    for button in [back, on, on, back] + [on] * 6:
        button.focus()
        page.keyboard.press("Enter")
        seen.append(slider.input_value())
    assert seen == list("0121234566")
    said = f"6. {pictures.ring(6).scene.alt}"
    assert (slider.get_attribute("aria-valuetext"), ring.locator(".cl-now").inner_text()) == (said, "6")
    ring.get_by_role("button", name="Reset").click()
    assert scene(ring) == computed(pictures.ring(0).scene)


def test_playing_takes_step_after_step_until_the_end_or_until_it_is_paused(stage):
    page, figures = stage(own=True, reduced_motion="no-preference")
    ring = figures["ring"]
    page.clock.install()

    def shown(figure):
        return figure.locator("input").input_value()

    play = ring.locator(".cl-step button").nth(1)
    play.focus()
    page.keyboard.press("Space")
    assert (play.get_attribute("aria-label"), ring.locator(".cl-readouts").get_attribute("aria-live")) == (
        "Pause",
        "off",
    )
    page.clock.run_for(2500)
    assert shown(ring) == "2"
    page.keyboard.press("Space")
    page.clock.run_for(5000)
    assert (play.get_attribute("aria-label"), shown(ring)) == ("Play", "2")
    assert ring.locator(".cl-readouts").get_attribute("aria-live") == "polite"
    play.click()
    page.clock.run_for(20_000)
    assert (play.get_attribute("aria-label"), shown(ring)) == ("Play", "6")
    play.click()
    assert shown(ring) == "0", "from the end it begins again"
    ring.locator("input").press("ArrowRight")
    page.clock.run_for(5000)
    assert (play.get_attribute("aria-label"), shown(ring)) == ("Play", "1"), "the reader's own step pauses"


def test_a_part_with_a_key_slides_to_its_place_and_with_less_motion_stands_there_at_once(stage):
    page, figures = stage(reduced_motion="no-preference")
    # What slides is noted as it begins: it is over in a fifth of a second, and a busy machine looks later.
    noted = """() => {
      const animate = Element.prototype.animate;
      window.slid = [];
      Element.prototype.animate = function (...how) {
        window.slid.push(this.dataset.key);
        return animate.apply(this, how);
      };
    }"""
    sliding = "[...new Set(window.slid)].sort().join('')"
    page.evaluate(noted)
    figures["ring"].get_by_role("button", name="Next step").click()
    before, now = (computed(pictures.ring(step).scene)[2] for step in (0, 1))
    moved = sorted(key for key in before.keys() & now.keys() if before[key] != now[key])
    assert {key[0] for key in moved} == set("abcd")
    assert page.evaluate(sliding) == "".join(moved)
    page.wait_for_function("document.getAnimations().length === 0")
    page, figures = stage(reduced_motion="reduce")
    page.evaluate(noted)
    assert figures["ring"].get_by_role("button").count() == 3
    assert figures["ring"].get_by_role("button", name="Play").count() == 0
    figures["ring"].get_by_role("button", name="Next step").click()
    assert scene(figures["ring"]) == computed(pictures.ring(1).scene)
    assert page.evaluate(sliding) == ""


def test_a_drawn_figure_has_no_controls_and_prints_as_it_stands_in_the_colours_of_paper(stage):
    page, figures = stage(dark=True)
    tree = figures["fat tree"]
    assert tree.locator("button, input, select, [tabindex]").count() == 0
    assert tree.get_by_role("img", name=pictures.fat_tree().scene.alt).count() == 1
    on_screen = scene(tree), tree.locator(".cl-scene").bounding_box()["width"]

    def fill():
        return tree.locator(".cl-solid.cl-c-compute rect").first.evaluate("r => getComputedStyle(r).fill")

    def rgb(shade):
        return f"rgb({', '.join(str(int(shade[i : i + 2], 16)) for i in (1, 3, 5))})"

    assert fill() == rgb(colour("compute").dark)
    page.emulate_media(media="print")
    assert fill() == rgb(colour("compute").light)
    assert (scene(tree), tree.locator(".cl-scene").bounding_box()["width"]) == on_screen
    assert tree.locator(".cl-scene").is_visible()
    ink = figures["ring"].locator(".cl-scene text").first.evaluate("t => getComputedStyle(t).fill")
    assert ink == rgb(colour("ink").light)


@pytest.mark.parametrize("width", [320, 375, 1280])
def test_a_scene_is_read_on_every_screen_and_no_text_leaves_its_box(stage, width):
    page, figures = stage(viewport={"width": width, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    for name, figure in figures.items():
        box = figure.bounding_box()
        assert box["x"] >= 0, name
        assert box["x"] + box["width"] <= width, name
        across, down, high, size = figure.locator(".cl-scene").evaluate(
            """svg => { const b = svg.getBoundingClientRect(), v = svg.viewBox.baseVal;
              return [b.width / v.width, b.height / v.height, 13 * b.width / v.width,
                Number.parseFloat(getComputedStyle(svg.closest("figure")).fontSize)]; }"""
        )
        assert across == pytest.approx(down, abs=0.01), "undistorted"
        assert (10 if width >= 375 else 8) <= high <= size + 0.01, name
        outside = figure.locator(".cl-box").evaluate_all(
            """all => all.flatMap(box => [...box.querySelectorAll("text")].filter(text => {
              const t = text.getBBox(), r = box.querySelector("rect").getBBox();
              return t.x < r.x || t.x + t.width > r.x + r.width || t.y < r.y || t.y + t.height > r.y + r.height;
            }).map(text => text.textContent))"""
        )
        assert outside == []


@pytest.mark.parametrize("dark", [False, True])
def test_axe_finds_nothing_in_scenes(stage, violations, dark):
    page, _ = stage(dark)
    assert violations(page) == set()


# --- hands: what lies between two stops ------------------------------------------------------------------------------


def reach(gpus, share):
    """A curve, a point, a rule, a bar and a drawing that all go by two numbers."""
    xs = np.geomspace(1, 1000, 21)
    time = 1000 * share / gpus + 0.5
    return Picture(
        curves={"time": 1000 * share / xs + 0.5},
        points={"here": (gpus, time)},
        rules={"GPUs": gpus},
        readouts={
            "Time": f"about {fmt(time, 's')} of {fmt(share, '%')}",
            "Days": with_interval(time * 3e4, time * 2e4, time * 5e4, "s"),
            "GPUs": fmt(gpus, "GPUs"),
            "Limit": "work" if gpus < 100 else "fixed cost",
        },
        scene=Scene(
            200,
            40,
            [Box(10, 10, 20 + gpus / 10, 20, fmt(time, "s")), Label(150, 20, fmt(gpus, digits=4))],
            alt=f"{fmt(time, 's')}",
        ),
    )


@pytest.fixture(scope="module")
def hand() -> Explorer:
    stops = np.geomspace(1, 1000, 25)
    return Explorer(
        reach,
        title="By hand",
        controls={
            "gpus": Slider("GPUs", stops, "GPUs", 10, log=True),
            "share": Slider("Share", np.linspace(0.2, 1, 9), "%", 0.6),
        },
        x=Axis("GPUs", log=True, values=np.geomspace(1, 1000, 21)),
        y=Axis("Time", "s", log=True, limits=(0.1, 2000)),
        drags={"here": "gpus", "GPUs": "gpus"},
    )


@pytest.fixture
def handed(hand, tmp_path, visit):
    path = tmp_path / "hand.html"
    path.write_text(static_page(hand))

    def opened(query="", **options):
        page = visit(path.as_uri() + query, **options)
        return page, *widgets_ready(page)

    return opened


def test_between_two_stops_the_page_shows_what_the_law_says(handed, hand):
    _, figure = handed()
    for gpus, share in [(3.7, 0.37), (41, 0.93), (250, 0.2), (777, 0.5)]:
        for name, value in (("GPUs", gpus), ("Share", f"{100 * share:g} %")):
            field = figure.get_by_label(f"{name}, typed")
            field.fill(str(value))
            field.press("Enter")
        law, shown = hand.at(gpus=float(gpus), share=share), drawn(figure)
        for label, text in law.items():
            numbers = [
                [float(n.replace(",", "")) for n in re.findall(r"\d[\d,.]*", one)]
                for one in (text, shown["readouts"][label])
            ]
            assert numbers[1] == pytest.approx(numbers[0], rel=0.011), (label, text, shown["readouts"][label])
        dot = float(re.findall(r"M([\d.]+) ", figure.locator(".cl-dot").get_attribute("d"))[0])
        assert dot == pytest.approx(1000 * math.log10(gpus) / 3, abs=2)
        assert float(figure.locator(".cl-box rect").get_attribute("width")) == pytest.approx(20 + gpus / 10, rel=0.02)
    assert errors(hand) < ((0.01, "~"), (0.01, "~"))


def test_numbers_are_written_as_python_writes_them(handed):
    page, _ = handed()
    dice, cases = random.Random(4), []
    for unit in ("", "s", "B", "B/s", "FLOP/s", "W", "%", "$", "GB/s", "tokens/s"):
        values = [float(f"{10 ** dice.uniform(-4, 16):.{dice.randint(1, 6)}e}") for _ in range(300)]
        cases += [(value, unit, dice.randint(1, 5)) for value in values]
        cases += [
            (value, unit, digits) for value in (0.0, 0.5, 2.5, 12.5, 999.95, 1000.0, -3.2) for digits in (1, 2, 3)
        ]
    ladders = {unit: ladder(unit) for _, unit, _ in cases}
    script = Explorer._esm.replace("export default", "const unused =")
    wrote = page.evaluate(
        f"""([cases, ladders]) => {{
          {script}
          return cases.map(([value, unit, digits]) => write(value, {{ unit, digits, ladder: ladders[unit] }}));
        }}""",
        [cases, ladders],
    )
    assert wrote == [fmt(*case) for case in cases]


@pytest.mark.parametrize(("typed", "value"), [("12k", 1000), ("12", 12), ("1e2", 100), ("250 GPUs", 250), ("0.4", 1)])
def test_a_field_takes_what_people_type_and_keeps_to_the_range(handed, hand, typed, value):
    _, figure = handed()
    field = figure.get_by_label("GPUs, typed")
    field.fill(typed)
    field.press("Enter")
    assert field.input_value() == fmt(float(value), "GPUs", 4)
    said = figure.get_by_text("GPUs goes from 1 GPUs to 1,000 GPUs.")
    assert said.count() == (typed in ("12k", "0.4"))


def test_a_field_says_what_it_cannot_read_and_keeps_the_value(handed):
    _, figure = handed()
    field = figure.get_by_label("Share, typed")
    before = drawn(figure)
    field.fill("much")
    field.press("Enter")
    assert field.get_attribute("aria-invalid") == "true"
    assert figure.get_by_text("Write a number and a unit, such as %").count() == 1
    field.press("Escape")
    assert (field.input_value(), drawn(figure)) == ("60%", before)


def test_keys_take_small_steps_large_ones_and_both_ends(handed):
    _, figure = handed()
    slider, field = figure.get_by_role("slider", name="GPUs", exact=True), figure.get_by_label("GPUs, typed")
    seen = []
    for key in ("ArrowRight", "PageUp", "ArrowLeft", "Home", "End"):
        slider.press(key)
        seen.append(parse(field.input_value().removesuffix(" GPUs")))
    up, page_up, down, home, end = seen
    assert 10 < up < 11 < 15 < page_up < 25
    assert 0.9 * page_up < down < page_up
    assert (home, end) == (1, 1000)


def test_what_is_drawn_can_be_taken_by_mouse_and_by_keys(handed):
    page, figure = handed()
    field, grip = figure.get_by_label("GPUs, typed"), figure.locator(".cl-grip-point")
    box, area = grip.bounding_box(), figure.locator(".cl-area").bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.mouse.down()
    page.mouse.move(area["x"] + area["width"] * 2 / 3, area["y"] + area["height"] / 2, steps=5)
    page.mouse.up()
    assert parse(field.input_value().removesuffix(" GPUs")) == pytest.approx(100, rel=0.15)
    rule = figure.locator(".cl-grip-rule")
    rule.press("Home")
    assert field.input_value() == "1 GPUs"
    assert rule.get_attribute("aria-valuetext") == "1 GPUs"


def test_what_is_drawn_can_be_taken_by_a_finger_and_does_not_scroll_the_page(handed):
    page, figure = handed(viewport={"width": 375, "height": 500}, has_touch=True)
    field, grip = figure.get_by_label("GPUs, typed"), figure.locator(".cl-grip-point")
    grip.scroll_into_view_if_needed()
    box, area, above = grip.bounding_box(), figure.locator(".cl-area").bounding_box(), page.evaluate("scrollY")
    start = (box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    end = (area["x"] + area["width"] * 2 / 3, area["y"] + area["height"] * 0.58)
    hand = page.context.new_cdp_session(page)

    def touch(kind, *points):
        hand.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": [{"x": x, "y": y} for x, y in points]})

    touch("touchStart", start)
    for part in (0.25, 0.5, 0.75, 1.0):
        touch("touchMove", tuple(a + part * (b - a) for a, b in zip(start, end, strict=True)))
    touch("touchEnd")
    assert parse(field.input_value().removesuffix(" GPUs")) == pytest.approx(100, rel=0.2)
    assert page.evaluate("scrollY") == above


@pytest.mark.parametrize("width", [1280, 375])
def test_the_name_of_a_curve_stands_on_it_and_covers_none(gallery, width):
    _, figures = gallery(viewport={"width": width, "height": 900})
    named = [figure for figure in figures.values() if figure.locator(".cl-along").count()]
    assert len(named) >= 2
    for figure in named:
        assert figure.evaluate(MISPLACED) == []
        for control in figure.locator(CONTROLS).all():
            for key in ("Home", "End"):
                control.press(key)
                assert figure.evaluate(MISPLACED) == []


PARTS = ("weights", "caches", "arithmetic", "all-reduces", "launches", "sending", "others' prompts", "start")


def crowded(users, now):
    """Stacked bars of a part with room for its name, and of many without; bars named by their lane; a rule."""
    sizes = np.array([[60, 50, 40], [2, 8, 30], [3, 5, 8], [2, 2.5, 3], [0.7] * 3, [0.4, 1, 3], [0, 4 * users, 9]])
    parts = stacked(dict(zip(PARTS, sizes, strict=False)))
    return Picture(spans=parts | {"start": [(3, 0, 10 * users, "1")]}, rules={"now": now})


@pytest.fixture(scope="module")
def named_bars(tmp_path_factory) -> str:
    """A page of bars that stand close: over three lanes, over one, and on a timeline."""
    axis, sweep = Axis("Time", "s"), {"users": Slider("Users", [1, 2, 4, 8]), "now": Slider("Now", [0, 30, 60, 90])}
    lanes = ["1 user", "64 users", "200 users", "start: ten"]
    alone = {"size": Slider("Size", [1, 3, 10, 60])}

    def one(size):
        return Picture(spans=stacked({"pretraining": [30], "rollouts": [0.3], "updates": [1], "inference": [size]}))

    def stages(now):
        ahead = [(s, s + i, s + i + 1) for s in range(4) for i in range(8)]
        back = [(s, 14 - s + 2 * i, 16 - s + 2 * i) for s in range(4) for i in range(8)]
        return Picture(spans={"forward": ahead, "backward": back, "idle": [(0, 8, 14), (3, 0, 3)]}, rules={"now": now})

    figures = (
        Explorer(crowded, title="Close", controls=sweep, x=axis, lanes=lanes),
        Explorer(one, title="Alone", controls=alone, x=axis, lanes=["FLOPs"]),
        Explorer(stages, title="Time", controls={"now": Play("Now", range(31))}, x=axis, lanes=list("abcd")),
    )
    path = tmp_path_factory.mktemp("named") / "bars.html"
    path.write_text(static_page(*figures))
    return path.as_uri()


@pytest.mark.parametrize("width", [1280, 375])
@pytest.mark.parametrize("script", [True, False])
def test_a_name_stands_on_bars_of_its_own_kind_and_on_no_other(named_bars, visit, width, script):
    page = visit(named_bars, viewport={"width": width, "height": 900}, java_script_enabled=script)
    figures = widgets_ready(page) if script else page.locator(".cl-explorer").all()
    assert len(figures) == 3
    for figure in figures:
        assert figure.locator(".cl-legend li").count() == 0
        assert figure.locator(".cl-kind:visible").count() > 1
        assert figure.evaluate(MISPLACED) == []
        for control in figure.locator(CONTROLS).all() if script else ():
            for key in ("Home", "End", *["PageDown"] * 3):
                control.press(key)
                assert figure.evaluate(MISPLACED) == [], (control.get_attribute("name"), key)


def test_what_misplaces_a_name_of_bars_is_found(named_bars, visit):
    page = visit(named_bars)
    figure = widgets_ready(page)[0]
    name = figure.locator(".cl-kind.cl-start, .cl-kind.cl-end").first
    told = name.text_content()
    name.evaluate("name => { name.style.left = '3%'; name.style.bottom = '50%'; }")
    assert any(told in wrong for wrong in figure.evaluate(MISPLACED))
    name.evaluate("name => name.remove()")
    assert any("has 0 names" in wrong for wrong in figure.evaluate(MISPLACED))


def test_bars_and_their_name_light_up_with_the_word_in_the_text(named_bars, tmp_path, visit):
    path = tmp_path / "lit.html"
    page = Path(named_bars.removeprefix("file://")).read_text()
    text = "<p>The <em>weights</em> are read, and <em>start</em> is a lane.</p>"
    path.write_text(page.replace("<main>", f"<main><section>{text}", 1).replace("</main>", "</section></main>"))
    page = visit(path.as_uri())
    figure = widgets_ready(page)[0]
    words = page.locator("em.cl-ref")
    words.nth(1).wait_for()
    for word, parts in ((words.nth(0), {"cl-span", "cl-tag"}), (words.nth(1), {"cl-span", ""})):
        word.focus()
        lit = figure.locator(".cl-lit").evaluate_all("all => all.map(one => one.getAttribute('class').split(' ')[0])")
        assert {one.replace("cl-lit", "") for one in lit} == parts
    page.mouse.move(1, 1)
    words.nth(1).blur()
    figure.locator(".cl-span").first.hover(position={"x": 5, "y": 5})
    assert "cl-lit" in words.nth(0).get_attribute("class")


def test_what_has_one_name_lights_up_together_in_figure_and_text(hand, tmp_path, visit):
    path = tmp_path / "lit.html"
    told = "".join(f"<b>{one}</b><i aria-hidden='true'>{one}</i>" for one in hand.at().values())
    text = f"<p>The <em>time</em> falls, and at ten it takes longer: {told}.</p>"
    path.write_text(
        static_page(hand).replace("<main>", f"<main><section>{text}").replace("</main>", "</section></main>")
    )
    page = visit(path.as_uri())
    (figure,) = widgets_ready(page)
    word = page.locator("em.cl-ref")
    word.wait_for()
    assert page.locator("b .cl-ref").count() > 0
    assert page.locator("i .cl-ref").count() == 0, "what is hidden from a reader's ears takes no focus"
    word.focus()
    lit = figure.locator(".cl-lit")
    assert {one.get_attribute("class").split()[0] for one in lit.all()} >= {"cl-curve"}
    assert "cl-dims" in figure.get_attribute("class")
    word.blur()
    assert lit.count() == 0
    figure.locator(".cl-read").first.hover()
    assert "cl-lit" in word.get_attribute("class")


def test_the_address_remembers_what_was_moved_and_a_colleague_sees_it(handed, hand):
    page, figure = handed("?by-hand.gpus=250&by-hand.share=9")
    assert figure.get_by_label("GPUs, typed").input_value() == "250 GPUs"
    assert figure.get_by_label("Share, typed").input_value() == "100%", "what is out of range stops at its end"
    figure.get_by_role("slider", name="Share", exact=True).press("Home")
    page.wait_for_function("location.search.includes('by-hand.share=0.2')")
    figure.get_by_role("button", name="Reset").click()
    page.wait_for_function("location.search === ''")


def test_pictures_of_one_structure_move_from_state_to_state(tmp_path, visit):
    path = tmp_path / "moving.html"
    sizes = Select("Size", {"small": 1, "large": 100})
    path.write_text(
        static_page(
            Explorer(
                lambda size: Picture(rules={"size": size}, readouts={"Size": fmt(size)}),
                title="Moving", controls={"size": sizes}, x=Axis("Size", limits=(0, 100)),
            )
        )
    )  # fmt: skip
    page = visit(path.as_uri(), reduced_motion="no-preference")
    (figure,) = widgets_ready(page)
    places = figure.evaluate(
        """async (figure) => {
          const seen = [], rule = figure.querySelector(".cl-rule"), select = figure.querySelector("select");
          const note = () => seen.push(Number(/M([\\d.]+)/.exec(rule.getAttribute("d"))[1]));
          new MutationObserver(note).observe(rule, { attributes: true });
          select.selectedIndex = 1;
          select.dispatchEvent(new Event("change"));
          seen.push(figure.querySelector("dd").textContent);
          await new Promise((done) => setTimeout(done, 600));
          return seen;
        }"""
    )
    told, *moved = places
    assert told == "100", "what is told is told at once"
    assert moved[-1] == 1000
    assert sorted(moved) == moved
    assert any(20 < at < 980 for at in moved)


def test_a_kernel_s_exact_picture_goes_before_the_table(hand):
    hand.gpus = 3.3
    assert hand._exact["values"] == {"gpus": 3.3, "share": 0.6}
    seen = hand._exact
    hand.gpus = 10.0
    assert hand._exact is seen, "a stop is in the table"
