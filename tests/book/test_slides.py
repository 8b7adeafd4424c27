"""Slides: the beats of each law, every figure and check of a chapter, its sessions, in files that ask for no other."""

import re
from dataclasses import replace

import ipywidgets.embed
import nbformat
import pytest
from course import plan
from course.problems import SETS
from course.slides import CHAPTERS, __main__, chapter, deck, passages, running, session

from building import ROOT
from explorable import Axis, Check, Explorer, Picture, Predict, Question, Slider
from replay import executed

pytestmark = pytest.mark.slow

TEXT = [
    "# Rings <&>\n\n:::{admonition} The question\n:class: tip\n"
    "You have 4 ranks. **What does a {term}`ring <ring>` cost?**\n:::",
    "*You need* nothing.\n\n## A ring\n\n### The law\n\n"
    "Who sends? Each rank sends 3 chunks of 2 GB {cite:p}`x`, so 3 / 2 = 1.5 GB. It always waits.\n\n"
    "With $n$ ranks and [chunks](x.ipynb#y) of $c$:\n\n$$ S = (n - 1)\\,c $$\n\nThe ranks cancel, because all send.\n\n"
    ":::{admonition} Rule\nSend *once*.\n:::",
    "Move it:",
    "*It ends where it began.*\n\nMore.",
    '## Misconceptions\n\n- **"Twice the ranks, twice the time."** No: the bytes stay.',
    "## Exercises\n\nOne.",
]


def view(n):
    return Picture(curves={"line": [n, 2 * n]}, readouts={"At 2": str(2 * n)})


@pytest.fixture(scope="module")
def small():
    """A small chapter as it has run: a figure with a prediction, a check, and an exercise that stays in the book."""
    predict = Predict("It doubles.", "And then?", {"2": "No.", "4": "Yes."}, right="4", hides=["line"])
    axes = {"x": Axis("x", values=[1, 2]), "y": Axis("y")}
    figure = Explorer(view, controls={"n": Slider("N", [1, 2])}, title="Straight", predict=predict, **axes)
    known = {"You took bits.": 0.25, "Two passes.": 4.0}
    check = Check(Question("How long?", 2.0, "s", mistakes=known, hints=["Divide."], way="Count."))
    exercise = Check(Question("Exercise 1: how long?", 2.0, "s"))
    state = ipywidgets.embed.dependency_state([figure, check, exercise], drop_defaults=False)

    def shown(widget):
        data = {"text/plain": repr(widget), chapter.VIEW: {"model_id": widget.model_id}}
        return nbformat.v4.new_code_cell(outputs=[nbformat.v4.new_output("display_data", data)])

    cells = list(map(nbformat.v4.new_markdown_cell, TEXT))
    cells[3:3] = [shown(figure)]
    cells[5:5] = [shown(check)]
    cells.append(shown(exercise))
    return chapter.read(nbformat.v4.new_notebook(cells=cells, metadata={"widgets": {chapter.STATE: {"state": state}}}))


def bare(markup):
    """The text of a slide, its formulas as LaTeX."""
    told = re.sub(
        r"<span class=\"katex\">.*?<annotation[^>]*>(.*?)</annotation>.*?</span></span></span>(</span>)*", r"\1", markup
    )
    return " ".join(re.sub(r"<[^>]+>", " ", told).split())


def test_a_law_is_its_five_beats_in_their_order_and_nothing_else(small):
    assert [one.kind for one in small.slides] == [
        "title", "question", "hand", "formula", "why", "rule", "predict", "figure", "vote", "wrong",
    ]  # fmt: skip
    title, question, hand, formula, why, rule = small.slides[:6]
    assert (small.title, bare(title.body)) == ("Rings <&>", "You have 4 ranks. What does a ring cost?")
    assert (question.heading, bare(question.body)) == ("A ring: the law", "Who sends?")
    assert bare(hand.body) == "Each rank sends 3 chunks of 2 GB, so 3 / 2 = 1.5 GB. It always waits."
    assert "katex" in formula.body
    assert "chunks of" in bare(formula.body)
    assert bare(why.body) == "The ranks cancel, because all send."
    assert "<em>once</em>" in rule.body
    assert "katex" in rule.body, "the rule stands below its formula"


def test_a_prediction_is_a_vote_before_its_figure_which_hides_nothing(small):
    vote, figure = small.slides[6:8]
    assert "<li>2</li><li class=right>4</li>" in vote.body
    assert "<b>2</b>: No." in vote.notes
    assert figure.body.endswith("<p class='caption'>It ends where it began.</p>")
    assert "N: 1 to 2 [1]" in figure.notes
    page = deck.page("Rings", [deck.Placed(figure)], small.models)
    assert "cl-premise" not in page.split("<body>")[1].split("<script>")[0]
    assert '"predict":null' in page


def test_a_check_is_a_vote_between_its_answer_and_its_named_mistakes(small):
    vote = small.slides[8]
    assert "<li>250\xa0ms</li><li class=right>2\xa0s</li><li>4\xa0s</li>" in vote.body.replace(" ms", "\xa0ms").replace(
        " s<", "\xa0s<"
    )
    assert "You took bits." not in vote.body
    for said in ("You took bits.", "Two passes.", "Divide.", "Count."):
        assert said in vote.notes


def test_a_misconception_is_asked_and_then_told_and_stands_in_the_chapters_notes(small):
    wrong = small.slides[9]
    asked, told = wrong.body.split("<div class='told step'>")
    assert "Twice the ranks" in asked
    assert "the bytes stay" not in asked
    assert "the bytes stay" in told
    assert "the bytes stay" in small.slides[0].notes


def test_a_session_puts_the_slides_of_its_chapters_at_their_minutes(small):
    part = plan.Section("rings", "A ring")
    asks = plan.Session("one", "What now?", "None.", (part,), (plan.Section("rings", "A ring", "The law"),))
    asks = replace(asks, vote="Twice", figure="Straight", check="How long", exit="How long")
    placed, at = session.deck(asks, {"rings": small}), plan.clock()
    assert [(one.minutes, one.slide.kind) for one in placed] == [
        ("", "title"), (at["vote"], "title"), (at["vote"], "wrong"),
        *((at["law"], kind) for kind in ("question", "hand", "formula", "why", "rule")),
        (at["figure"], "predict"), (at["figure"], "figure"), (at["check"], "vote"), (at["exit"], "vote"),
    ]  # fmt: skip
    lost = replace(asks, vote="Nothing of the kind")
    with pytest.raises(ValueError, match="one: no vote or wrong or predict begins with 'Nothing of the kind'"):
        session.deck(lost, {"rings": small})


def test_a_sentence_keeps_its_bold_and_its_formulas():
    assert passages.sentences("A is 2. **B? C.** In $a. B$ no.") == ["A is 2.", "**B? C.**", "In $a. B$ no."]


def test_every_chapter_with_a_set_has_slides_and_a_wrong_name_is_said(capsys):
    second = {"ports", "fabrics", "contention", "sharding", "pipeline", "layouts", "mix", "step", "rack", "fleet"}
    second |= {"post_training", "queue", "on_call", "symptoms", "hall", "cost"}
    assert set(CHAPTERS) == set(SETS) - {"capstone"} | second
    assert all((ROOT / "book" / f"{name}.ipynb").exists() for name in CHAPTERS)
    assert __main__.main(["rooflines"]) == 2
    assert "no chapter or session 'rooflines'" in capsys.readouterr().err
    assert __main__.main(["--sessions"]) == 0
    assert "session-ring: What does it cost to add up a buffer?" in capsys.readouterr().out


def test_a_chapter_that_has_run_with_this_library_does_not_run_again(tmp_path, monkeypatch, capsys):
    paths = [tmp_path / "one.ipynb", tmp_path / "two.ipynb"]
    for path in paths:
        nbformat.write(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(f"'{path.stem}'")]), path)
    ran = []

    def run(path):
        ran.append(path.stem)
        notebook = nbformat.read(path, as_version=4)
        said = nbformat.v4.new_output("execute_result", {"text/plain": path.stem}, execution_count=1)
        notebook.cells[0].outputs, notebook.metadata["widgets"] = [said], {chapter.STATE: {}}
        return notebook

    monkeypatch.setattr(running, "run", run)
    for given in (paths[:1], paths, paths):
        found = dict(running.executed(given, kept=tmp_path / "kept"))
        assert {path.stem: notebook.cells[0].outputs[0].data["text/plain"] for path, notebook in found.items()} == {
            path.stem: path.stem for path in given
        }
        assert all(chapter.STATE in notebook.metadata["widgets"] for notebook in found.values())
    assert ran == ["one", "two"]
    monkeypatch.setattr(running, "library_digest", lambda: "another")
    list(running.executed(paths, kept=tmp_path / "kept"))
    assert sorted(ran[2:]) == ["one", "two"]
    assert "running one, two (" in capsys.readouterr().out


# A whole session in a browser, from the chapter as the build has run it


@pytest.fixture(scope="module")
def roof(site, tmp_path_factory):
    """The first session's deck, as a file."""
    roofline = chapter.read(executed(site, ROOT / "book" / "roofline.ipynb"))
    given = plan.course()[0]["roof"]
    path = tmp_path_factory.mktemp("slides") / "roof.html"
    places = session.deck(given, {"roofline": roofline})
    path.write_text(deck.page(given.question, places, roofline.models), encoding="utf-8")
    return path


@pytest.fixture
def shown(visit, roof):
    """Show the deck as a wall does, and wait until its figures run."""

    def opened(where="", **options):
        page = visit(roof.as_uri() + where, viewport={"width": 1280, "height": 720}, **options)
        page.locator("html[data-ready]").wait_for()
        return page

    return opened


NOW = "section.now"
PARTS = "p, li, td, .katex-base, .cl-scene, .cl-plot, .cl-readouts, select"
CLIPPED = """async (parts) => {
  const found = [], frame = () => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
  for (const slide of document.querySelectorAll("main > section")) {
    location.hash = slide.id;
    await frame();
    slide.querySelectorAll(".off").forEach((one) => one.classList.remove("off"));
    const body = slide.querySelector(".body"), box = body.getBoundingClientRect();
    const boxes = [...body.querySelectorAll(parts)].map((one) => one.getBoundingClientRect());
    const inside = boxes.every((one) => !one.width ||
      one.left > box.left - 2 && one.right < box.right + 2 && one.top > box.top - 2 && one.bottom < box.bottom + 2);
    const size = parseFloat(getComputedStyle(body).fontSize), least = slide.querySelector(".widget-host") ? 13 : 22;
    const shown = slide.classList.contains("now") && body.scrollHeight <= body.clientHeight;
    if (!inside || !shown || size < least) found.push([slide.id, slide.className, size]);
  }
  return found;
}"""


def test_nothing_is_clipped_and_all_can_be_read_from_the_last_row(shown):
    assert shown().evaluate(CLIPPED, PARTS) == []


def test_a_figure_moves_on_its_slide_by_mouse_and_by_keys_and_the_arrows_stay_its_own(shown):
    page = shown()
    number = page.locator("section", has=page.locator("[title], .cl-controls select")).first.get_attribute("id")
    page.evaluate("n => { location.hash = n; }", number)
    figure = page.locator(f"{NOW} .cl-explorer")
    before = figure.locator(".cl-scene").inner_html()
    figure.get_by_role("combobox").select_option(index=0)
    after = figure.locator(".cl-scene").inner_html()
    assert after != before
    figure.locator("input[type=range]").press("ArrowLeft")
    assert figure.locator(".cl-scene").inner_html() != after
    assert page.locator(NOW).get_attribute("id") == number
    page.keyboard.press("Escape")
    page.keyboard.press("ArrowRight")
    assert page.locator(NOW).get_attribute("id") == str(int(number) + 1)


def test_a_formula_is_drawn_with_its_own_fonts(shown):
    page = shown()
    page.evaluate("() => { location.hash = document.querySelector('section.formula').id; }")
    formula = page.locator(f"{NOW} .formula .katex-html")
    assert formula.bounding_box()["height"] > 40
    page.wait_for_function("() => document.fonts.check('20px KaTeX_Main')")
    assert page.evaluate(
        "[...document.fonts].filter(f => f.family.includes('KaTeX_M')).some(f => f.status === 'loaded')"
    )


def test_a_vote_keeps_its_answer_until_the_lecturer_goes_on(shown):
    page = shown("#3")
    told, right = page.locator(f"{NOW} .told"), page.locator(f"{NOW}.untold")
    assert told.is_hidden()
    assert right.count() == 1
    page.keyboard.press("ArrowRight")
    assert told.is_visible()
    assert right.count() == 0
    page.keyboard.press("ArrowLeft")
    assert told.is_hidden()
    page.keyboard.press("PageDown")
    assert page.locator(NOW).get_attribute("id") == "4", "the answer has not been told"
    page.keyboard.press("PageUp")
    assert told.is_hidden()


def test_the_notes_come_below_and_in_a_window_of_their_own_and_follow(shown):
    page = shown(own=True)
    assert page.locator(f"{NOW} .notes").is_hidden()
    page.keyboard.press("n")
    assert page.locator(f"{NOW} .notes").is_visible()
    page.keyboard.press("n")
    with page.expect_popup() as popup:
        page.keyboard.press("s")
    notes = popup.value
    assert "The sparse peak of the datasheet" in notes.locator("main").inner_text()
    page.evaluate("() => { location.hash = [...document.querySelectorAll('section.vote')][0].id; }")
    notes.get_by_text("Usual wrong answers, and what to say").wait_for()


@pytest.mark.parametrize("paper", ["handout", "slides"])
def test_on_paper_a_slide_has_its_page_and_tells_its_answer_and_a_handout_its_notes(shown, paper):
    page = shown(f"?{paper}")
    count = page.locator("main > section").count()
    page.emulate_media(media="print")
    assert page.locator("main > section:visible").count() == count
    assert page.locator(".notes:visible").count() == (count if paper == "handout" else 0)
    assert page.locator(".told:visible").count() == page.locator(".told").count() > 0
    assert page.locator("section.untold, nav:visible").count() == 0
    assert len(re.findall(rb"/MediaBox", page.pdf(prefer_css_page_size=True))) == count


def test_a_deck_holds_all_that_it_shows_and_is_of_a_size_to_mail(roof):
    text = roof.read_text(encoding="utf-8")
    assert len(text) < 2e6
    assert not re.search(
        r"""(?:src|href)=["']?(?!data:)[\w/.]|url\((?!["']?data:)|@import""",
        re.sub(r"<script>.*?</script>", "", text, flags=re.DOTALL),
    )
    assert set(re.findall(r"https?://([\w.]+)", text)) <= {"www.w3.org"}
