"""Checks: a browser judges as Python does, names known mistakes, remembers, and gives nothing away."""

import csv
import json
import re
from pathlib import Path

import numpy as np
import pytest
from course import progress
from course.progress import Known
from hypothesis import given
from hypothesis import strategies as st
from py_mini_racer import MiniRacer

import explorable
from clusterlab.units import parse, spellings
from explorable import Axis, Check, Explorer, Picture, Slider
from explorable.question import Question
from pages import static_page, widgets_ready

COPY = Question(
    "A 100 GB checkpoint passes a port of 400 Gbit/s. How long does it take?",
    100e9 / (400e9 / 8),
    "s",
    mistakes={
        "The port counts bits, and 8 bits are a byte.": 100e9 / 400e9,
        "That counts both directions: one is half.": 100e9 / (2 * 400e9 / 8),
    },
    hints=["How many bytes pass in a second?", "Divide the bytes by that rate."],
    way="400 Gbit/s is 50 GB/s, and 100 GB / 50 GB/s = 2 s. <Done>",
)
SHARE = Question("3 of 8 GPUs wait. What share?", 3 / 8, "%", mistakes={"That is the share that works.": 5 / 8})
GPUS = Question("How many GPUs hold 18 trays of 4?", 72, "GPUs", tolerance=0)
PLAIN = Question("A ratio of 3 to 2?", 1.5)
WHICH = Question(
    "Which limits a decode step at batch 1?",
    "memory bandwidth",
    choices={
        "compute": "One token is two FLOPs a parameter.",
        "memory bandwidth": "Every weight is read for one token.",
    },
)
SCRIPT = (Path(explorable.__file__).parent / "check.js").read_text(encoding="utf-8")
ALL = [COPY, SHARE, GPUS, PLAIN, WHICH]
BYTES, MONEY, POWER = (Question(f"How many {unit}?", 3.0, unit) for unit in ("B/s", "$", "W"))

NUMBERS = st.one_of(
    st.integers(-(10**15), 10**15).map(lambda n: f"{n:,}"),
    st.integers(0, 10**15).map(str),
    st.floats(allow_nan=False).map(repr),
    st.floats(1e-12, 1e12).map(lambda v: f"{v:.4g}"),
    st.sampled_from(["", ".", "-", "3,35", "1,0000", ".5", "1.", "1e400", "0x10", "--1", "1e", "٣", "-.5e-3", "1_0"]),
)
UNITS = st.one_of(
    st.sampled_from(sorted({name for unit in ("B", "B/s", "s", "W", "J", "$", "FLOP/s") for name in spellings(unit)})),
    st.sampled_from(["", "%", "gpus", "GPUs", "GPUS", "constructor", "__proto__", "μs", "İ", "ms s", "\u00a0"]),
    st.text(max_size=3),
)
TEXTS = st.one_of(
    st.text(max_size=12),
    st.builds(
        lambda left, number, gap, unit, right: left + number + gap + unit + right,
        st.sampled_from(["", " ", "$", "$ ", "\u00a0"]),
        NUMBERS,
        st.sampled_from(["", " ", "\u202f", "\t", "\n"]),
        UNITS,
        st.sampled_from(["", " ", "\n"]),
    ),
)


@pytest.fixture(scope="module")
def script():
    """The browser's half in a bare JavaScript: ``script(function, text, question)``."""
    js = MiniRacer()
    js.eval(re.sub(r"^export (default.*)?", "", SCRIPT, flags=re.M))

    js.eval(
        "var specs = {}; "
        "function all(text, names) { return names.map(n => [read(text, specs[n]), judge(text, specs[n])]); }"
    )
    known = {}

    def called(text, questions):
        """What it reads and how it judges, question by question."""
        for question in questions:
            if question.text not in known:
                js.eval(f"specs[{json.dumps(question.text)}] = {json.dumps(question.spec())}")
                known[question.text] = question
        both = js.call("all", text, [question.text for question in questions])
        return [[reading and reading | {"value": float(reading["value"])}, verdict] for reading, verdict in both]

    return called


def judged(text, question):
    """What Python reads and how it judges, as JSON would hold it."""
    reading = None if question.choices else question.read(text)
    return [reading and {"value": reading.value, "bare": reading.bare}, question.judge(text)._asdict()]


@given(text=TEXTS)
def test_a_browser_reads_and_judges_what_python_does(script, text):
    questions = [COPY, SHARE, GPUS, PLAIN, BYTES, MONEY, POWER]
    assert script(text, questions) == [judged(text, question) for question in questions]


@given(factor=st.floats(0.05, 20), suffix=st.sampled_from(["", " s", " ms", " min", " GPUs", "%"]))
def test_a_browser_judges_near_the_edges_what_python_does(script, factor, suffix):
    for question in (COPY, SHARE, GPUS):
        text = f"{factor * question.answer:.15g}{suffix}"
        assert script(text, [question]) == [judged(text, question)]


@pytest.mark.parametrize("text", [*WHICH.choices, "", "neither", "constructor"])
def test_a_browser_judges_a_choice_as_python_does(script, text):
    assert script(text, [WHICH])[0][1] == WHICH.judge(text)._asdict()


@given(value=st.floats(1e-9, 1e15), unit=st.sampled_from(sorted(spellings("B/s"))))
def test_what_is_read_is_what_the_library_reads(value, unit):
    text = f"{value:.6g} {unit}"
    assert BYTES.read(text).value == pytest.approx(parse(text), rel=1e-15)


@pytest.mark.parametrize(
    ("question", "text", "kind"),
    [
        (COPY, "2 s", "right"),
        (SHARE, "62.5", "unit"),
        (COPY, "2,000 ms", "right"),
        (COPY, " 2.03 ", "right"),
        (COPY, "2.05 s", "high"),
        (COPY, "0.25 s", "mistake"),
        (COPY, "1 s", "mistake"),
        (COPY, "2e-3 s", "prefix"),
        (COPY, "2000", "unit"),
        (COPY, "5 GB", "unread"),
        (COPY, "2,5 s", "unread"),
        (COPY, "-2 s", "low"),
        (SHARE, "37.5 %", "right"),
        (SHARE, "37.5%", "right"),
        (SHARE, "0.375", "right"),
        (SHARE, "37.5", "unit"),
        (SHARE, "62.5 %", "mistake"),
        (GPUS, "72 gpus", "right"),
        (GPUS, "72", "right"),
        (GPUS, "71", "low"),
        (WHICH, "memory bandwidth", "right"),
        (WHICH, "compute", "mistake"),
        (WHICH, "neither", "unread"),
    ],
)
def test_each_kind_of_answer_has_its_verdict(question, text, kind):
    assert question.judge(text).kind == kind


def test_a_number_is_judged_in_si_units_and_nonsense_is_refused():
    check = Check(COPY)
    assert check(2.0).right
    assert check(np.float64(0.25)).text == "The port counts bits, and 8 bits are a byte."
    assert check(float("nan")).kind == "unread"
    with pytest.raises(ValueError, match="a text or a number"):
        check(None)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"text": " "}, "needs a text"),
        ({"answer": 0.0}, "not zero"),
        ({"answer": float("inf")}, "finite"),
        ({"tolerance": 0.5}, "tolerance"),
        ({"mistakes": {"same": 2.01}}, "cannot be told from 'the answer'"),
        ({"mistakes": {"one": 5.0, "other": 5.05}}, "cannot be told from 'one'"),
        ({"mistakes": {"none": float("nan")}}, "must be finite"),
        ({"answer": "A"}, "two or more choices"),
        ({"choices": {"A": "", "B": ""}}, "needs one of them"),
    ],
)
def test_a_question_that_cannot_be_asked_is_refused(change, message):
    fields = {"text": "How long?", "answer": 2.0, "unit": "s"} | change
    with pytest.raises(ValueError, match=message):
        Question(**fields)


def test_what_stands_in_a_notebook_moves_with_the_answer_and_does_not_tell_it():
    said = repr(Check(COPY))
    assert said.startswith("Check: A 100 GB checkpoint")
    assert "a number in s, within 2%; 2 known mistakes, 2 hints; fingerprint" in said
    assert "2 s" not in said
    moved = Question(COPY.text, 2.001, "s", mistakes=COPY.mistakes, hints=COPY.hints)
    assert repr(Check(moved)) != said
    assert "one of compute | memory bandwidth; no hints" in repr(Check(WHICH))


# --- In a browser ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    figure = Explorer(
        lambda n: Picture(curves={"line": [n, n]}),
        controls={"n": Slider("N", [1, 2])},
        x=Axis("x", values=[1, 2]),
        y=Axis("y"),
        title="A figure beside them",
    )
    path = tmp_path_factory.mktemp("check") / "page.html"
    path.write_text(static_page(Check(COPY), figure, Check(WHICH), Check(SHARE)))
    return path.as_uri()


@pytest.fixture
def opened(url, visit):
    def open_page(**options):
        page = visit(url, **options)
        widgets_ready(page)
        return page, page.locator(".cl-check").all()

    return open_page


def test_two_kinds_stand_on_one_page_and_each_script_is_there_once(url, opened, visit):
    page, checks = opened()
    assert len(checks) == 3
    assert page.locator(".cl-explorer[data-ready]").count() == 1
    source = visit(url, java_script_enabled=False).content()
    assert source.count("export function judge") == 1
    assert source.count(".cl-verdict:empty") == 1


def test_nothing_on_the_page_tells_the_answer_before_it_is_asked_for(opened):
    page, (copy, *_) = opened()
    told = page.evaluate("document.querySelector('main').textContent") + page.locator("main").aria_snapshot()
    for secret in ("2 s", "8 bits", "Divide the bytes", "50 GB/s", "Every weight", "62.5"):
        assert secret not in told
    assert copy.locator("noscript").count() == 0


def test_without_a_script_there_is_the_question_and_the_answer_in_a_fold(url, visit):
    page = visit(url, java_script_enabled=False)
    assert page.locator(".cl-check input, .cl-check button").count() == 0
    fold = page.locator(".cl-check details").first
    assert not fold.locator("p").first.is_visible()
    fold.locator("summary").click()
    assert fold.inner_text().split("\n")[-1] == COPY.way
    assert "2 s" in fold.inner_text()
    assert page.locator(".cl-check").nth(1).locator("li").all_inner_texts() == list(WHICH.choices)


def test_by_keyboard_alone_a_reader_is_told_the_mistake_takes_hints_and_gets_it_right(opened):
    page, (copy, *_) = opened()
    status = copy.get_by_role("status")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.closest('.cl-check') !== null")
    page.keyboard.press("Enter")
    assert "Type an answer first" in status.inner_text()
    page.keyboard.type("0.25 s")
    page.keyboard.press("Enter")
    assert status.inner_text() == "The port counts bits, and 8 bits are a byte."
    assert "cl-wrong" in status.get_attribute("class")
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Hint 1 of 2"
    page.keyboard.press("Enter")
    assert copy.locator("li").all_inner_texts() == [COPY.hints[0]]
    assert page.evaluate("document.activeElement.textContent") == "Hint 2 of 2"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.textContent") == "Show me how"
    copy.get_by_role("textbox").fill("2000 ms")
    copy.get_by_role("textbox").press("Enter")
    assert status.inner_text() == "Right: 2 s."
    assert copy.locator("li").all_inner_texts() == [*COPY.hints, COPY.way]
    assert copy.get_by_role("button", name="Show me how").count() == 0
    assert copy.locator("summary").inner_text() == "1 of 3 right"


def test_shown_is_not_right_and_the_keyboard_keeps_its_place(opened):
    _, (_, _, share) = opened()
    share.get_by_role("button", name="Show me how").press("Enter")
    assert share.locator("li").all_inner_texts() == ["Answer: 37.5%."]
    assert share.get_attribute("data-state") == "shown"
    assert share.evaluate("box => box.contains(document.activeElement)")
    share.get_by_role("textbox").fill("37.5 %")
    share.get_by_role("textbox").press("Enter")
    assert share.get_by_role("status").inner_text() == "Right: 37.5%."
    assert share.get_attribute("data-state") == "shown"
    assert share.locator("summary").inner_text() == "0 of 3 right"


def test_a_choice_is_judged_with_its_reason(opened):
    _, (_, which, _) = opened()
    which.get_by_label("compute").check()
    which.get_by_role("button", name="Check", exact=True).click()
    assert which.get_by_role("status").inner_text() == WHICH.choices["compute"]
    which.get_by_label("memory bandwidth").check()
    which.get_by_role("button", name="Check", exact=True).click()
    assert which.get_attribute("data-state") == "right"
    assert which.locator("li").count() == 0, "the verdict has given the reason"


def test_a_choice_that_is_shown_comes_with_its_reason(opened):
    _, (_, which, _) = opened()
    which.get_by_role("button", name="Show me how").click()
    assert which.locator("li").all_inner_texts() == [f"Answer: {WHICH.answer}. {WHICH.choices[WHICH.answer]}"]


def answer(check, text):
    check.get_by_role("textbox").fill(text)
    check.get_by_role("textbox").press("Enter")


def test_progress_is_remembered_saved_as_a_table_and_forgotten(opened, tmp_path):
    page, (copy, _, share) = opened()
    answer(copy, "1 s")
    answer(copy, "2 s")
    answer(share, "1 %")
    share.get_by_role("button", name="Show me how").click()
    page.reload()
    widgets_ready(page)
    copy, _, share = page.locator(".cl-check").all()
    assert copy.get_by_role("textbox").input_value() == "2 s"
    assert copy.get_by_role("status").inner_text() == "Right: 2 s."
    assert share.locator("li").all_inner_texts() == ["Answer: 37.5%."]
    copy.locator("summary").click()
    with page.expect_download() as saved:
        copy.get_by_role("button", name="Save my progress").click()
    saved.value.save_as(tmp_path / "mine.csv")
    rows = list(csv.DictReader((tmp_path / "mine.csv").read_text().splitlines()))[:-1]
    assert {row["question"]: (row["state"], row["tries"], row["hints"]) for row in rows} == {
        COPY.text: ("right", "2", "0"),
        SHARE.text: ("shown", "1", "1"),
    }
    known = {
        question.text: Known("page", len(question.hints), len(question.mistakes), ()) for question in (COPY, SHARE)
    }
    entries, foreign = progress.read(tmp_path / "mine.csv", known)
    assert foreign == []
    made = {entry.question: dict(entry.mistakes) for entry in entries}
    assert made == {COPY.text: {"That counts both directions: one is half.": 1}, SHARE.text: {}}
    copy.get_by_role("button", name="Forget it all").press("Enter")
    assert page.evaluate("Object.keys(localStorage).filter(k => k.includes('check'))") == []
    for check in (copy, share):
        assert check.get_by_role("textbox").input_value() == ""
        assert not check.get_by_role("status").is_visible()
        assert check.locator("li").count() == 0
    assert copy.locator("summary").inner_text() == "0 of 3 right"


def test_where_the_browser_may_not_remember_a_check_still_works(url, visit):
    page = visit("about:blank", own=True)
    page.add_init_script("Object.defineProperty(window, 'localStorage', { get() { throw new Error('no'); } })")
    page.goto(url)
    widgets_ready(page)
    copy = page.locator(".cl-check").first
    answer(copy, "2 s")
    assert copy.get_by_role("status").inner_text() == "Right: 2 s."
    copy.get_by_role("button", name="Start over").press("Enter")
    assert copy.get_by_role("textbox").input_value() == ""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_in_any_state(opened, violations, scheme):
    page, (copy, which, share) = opened(color_scheme=scheme)
    page.evaluate(
        """scheme => {
            document.documentElement.dataset.theme = scheme;
            document.documentElement.style.colorScheme = scheme;
        }""",
        scheme,
    )
    assert violations(page) == set()
    answer(copy, "1 s")
    answer(share, "37.5 %")
    which.get_by_role("button", name="Show me how").click()
    copy.locator("summary").click()
    assert violations(page) == set()


def test_it_fits_a_telephone_and_prints_without_its_buttons(opened):
    page, (copy, *_) = opened(viewport={"width": 320, "height": 700})
    answer(copy, "1 s")
    copy.locator("summary").click()
    assert page.evaluate("document.documentElement.scrollWidth") <= 320
    page.emulate_media(media="print")
    assert not copy.get_by_role("button").count()
    assert copy.get_by_role("textbox").is_visible()


def test_the_script_is_small():
    assert len(SCRIPT.encode()) < 8_800
