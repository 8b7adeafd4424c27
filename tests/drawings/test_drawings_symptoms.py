"""Drawings of the symptoms: a row is a link, a lever does something, and its mark stands where its gain is."""

import math
from dataclasses import replace

import pytest
from room import crowded

from drawings import symptoms as drawn
from explorable import Box, Label

BUBBLE = drawn.Lever(
    "idle at both ends", "`nsys profile`", "bubble", "pipeline.ipynb#the-bubble", "parallelism.bubble_fraction",
    "four chunks a stage", "39.7%", "42.4%", 1.07, (0.91, 1.12),
)  # fmt: skip
LEVERS = drawn.Levers([BUBBLE, replace(BUBBLE, lever="128 users on 2 B200s at $5.50, not 8 H100s", times=4.0)])
LATE = [[("GEMMs", 1.0), ("waits", 0.2), ("sends", 0.1)], [("idle", 0.2), ("GEMMs", 1.0), ("sends", 0.1)]]
BARS = {"one": {"passes": (0.093, "ochre"), "own prompt": (0.039, "compute")}, "two": {"passes": (0.331, "ochre")}}
SHARES = {
    "useful": (0.318, "compute"), "twice": (0.0799, "lost"), "below the peak": (0.338, "forward"),
    "other": (0.0378, "ochre"), "NCCL": (0.144, "wire"), "bubble": (0.0823, "waste"),
}  # fmt: skip
SCENES = {
    "sizes": drawn.sizes(LEVERS, 6),
    "heaps": drawn.heaps(BARS),
    "as seen": drawn.who_waits(LATE, seen=True),
    "as it is": drawn.who_waits(LATE, seen=False),
    "shares": drawn.heaps({"this run": SHARES}, "%", digits=2),
    "a group": drawn.columns({str(i): 1.6 - 1.53 * (i == 11) for i in range(16)}),
}


@pytest.mark.parametrize("times", [1.0, 0.84, float("nan")])
def test_a_lever_that_makes_nothing_better_is_refused(times):
    with pytest.raises(ValueError, match=r"must make something better, got .* by 'four chunks a stage'"):
        replace(BUBBLE, times=times)


def test_a_row_links_to_its_section_and_to_its_law_and_no_dollar_begins_a_formula():
    *_, cheap, _, _ = LEVERS._repr_markdown_().splitlines()
    assert "[bubble](pipeline.ipynb#the-bubble)" in cheap
    assert "[law](#clusterlab.parallelism.bubble_fraction)" in cheap
    assert r"at \$5.50" in cheap


def test_a_gain_has_its_ends_and_says_how_it_is_known():
    assert (BUBBLE.better, BUBBLE.known) == ("1.07 times (0.97 to 1.2)", "computed, may be nothing")
    assert replace(BUBBLE, times=1.37).better == "1.37 times (1.25 to 1.53)"
    assert replace(BUBBLE, times=1.37).known == "computed"
    sum_ = replace(BUBBLE, sure=(1.0, 1.0))  # and no prediction
    assert (sum_.better, sum_.known, sum_.size) == ("1.07 times", "computed", "39.7% → 42.4%: 1.07 times")
    assert replace(sum_, simulated=True).known == "simulated"
    assert replace(sum_, basis="measured").known == "measured"
    assert replace(BUBBLE, basis="borrowed").known == "computed, borrowed, may be nothing"
    assert replace(sum_, times=19.14).better == "19 times"


def test_what_nobody_has_tested_has_neither_a_factor_nor_hours():
    row = replace(BUBBLE, times=27.8, sure=(1.0, 1.0), basis="untested", frees=True)
    assert (row.better, row.size, row.known) == ("", "39.7% → 42.4%", "computed, untested")
    assert row.hours == ""


def test_gpu_hours_come_back_where_the_same_gpus_do_more():
    assert BUBBLE.hours == ""
    assert replace(BUBBLE, times=1.25, frees=True).hours == "20"
    assert replace(BUBBLE, times=1.57, frees=True, basis="untested").hours == ""


def test_a_basis_that_is_none_is_refused():
    with pytest.raises(ValueError, match="basis must be one of borrowed, untested, measured or empty, got 'hoped'"):
        replace(BUBBLE, basis="hoped")


def test_ends_are_raised_with_a_large_gain_and_cut_at_what_the_lever_can_give():
    doubled = replace(BUBBLE, times=1.5**2)
    assert doubled.ends == pytest.approx((2.25 * 0.91**2, 2.25 * 1.12**2))
    assert replace(doubled, own=True).ends == pytest.approx((2.25 * 0.91, 2.25 * 1.12))
    assert replace(BUBBLE, most=35 / 32).better == "1.07 times (0.97 to 1.09)"
    with pytest.raises(ValueError, match=r"'four chunks a stage' gives at most 2 times, got 2\.25"):
        replace(doubled, most=2.0)


def test_a_case_is_folded_behind_its_lever():
    shown = drawn.Levers([replace(BUBBLE, case="32 microbatches at $1"), BUBBLE])._repr_markdown_().splitlines()
    assert r"four chunks a stage<details><summary>the case</summary>32 microbatches at \$1</details> |" in shown[4]
    assert "details" not in shown[5]
    assert (shown[0], shown[-1]) == ('<div class="catalogue">', "</div>")  # sorted by the value of a cell
    assert '<span data-value="1.07">' in shown[4]


def test_a_mark_stands_in_its_band_on_a_logarithmic_scale_and_what_nobody_tested_is_grey():
    rows = [replace(BUBBLE, times=t, own=True, basis=b) for t, b in ((2.0, ""), (4.0, "untested"), (1000.0, ""))]
    boxes = [part for part in drawn.sizes(drawn.Levers(rows), 3).parts if isinstance(part, Box)]
    bands, marks = ([part for part in boxes if (part.width == 5) == mark] for mark in (False, True))
    assert [mark.kind for mark in marks] == ["compute", "grey", "compute"]
    for band, mark in zip(bands, marks, strict=True):
        assert band.x < mark.x + mark.width / 2 < band.x + band.width
    a, b, c = (mark.x for mark in marks)
    assert (b - a) / (c - a) == pytest.approx(math.log(2) / math.log(500))
    alone = drawn.sizes(drawn.Levers([replace(BUBBLE, sure=(1.0, 1.0))]), 1)
    assert len([part for part in alone.parts if isinstance(part, Box)]) == 1  # a sum has no band


@pytest.mark.parametrize("most", [1.2, 1.4, 2.1, 8.0, 32.0, 102.0])
def test_the_scale_ends_at_the_farthest_lever_and_its_numbers_have_room(most):
    scene = drawn.sizes(drawn.Levers([BUBBLE, replace(BUBBLE, times=most, own=True, sure=(1.0, 1.0))]), 6)
    *_, mark = (part for part in scene.parts if isinstance(part, Box))
    assert mark.x + mark.width / 2 > 390 or most < 1.5
    assert mark.x + mark.width <= 400
    assert crowded(scene) == []


def test_few_levers_fill_their_drawing_as_many_do():
    marks = [part for part in SCENES["sizes"].parts if isinstance(part, Box) and part.width == 5]
    assert SCENES["sizes"].height == 26 + 6 * 50
    assert marks[1].y - marks[0].y == 3 * 50  # two in the room of six


def test_what_can_be_pasted_is_code_and_the_words_beside_it_are_not():
    row = replace(BUBBLE, how="`DCGM_FI_DEV_XID`: a NAME_OF_MINE", lever="no `--enforce-eager`")
    shown = drawn.Levers([row])
    assert "`DCGM_FI_DEV_XID`: a NAME_<wbr>OF_<wbr>MINE" in shown._repr_markdown_()
    assert "| no `--enforce-eager` |" in shown._repr_markdown_()
    assert "`" not in repr(shown) + drawn.sizes(shown, 1).alt


def test_levers_stand_in_the_order_of_their_table_and_are_read_aloud_with_their_ends():
    assert SCENES["sizes"].alt.startswith(
        "four chunks a stage: 1.07 times (0.97 to 1.2), computed, may be nothing; 128 users"
    )


def test_a_profile_shows_a_rank_that_waits_as_one_that_sends():
    assert SCENES["as seen"].alt.startswith("rank 0: GEMMs 1 s, NCCL 300 ms; rank 1: idle 200 ms")
    assert "waits 200 ms, sends 100 ms" in SCENES["as it is"].alt
    orange = [part for part in SCENES["as seen"].parts if isinstance(part, Box) and part.kind == "wire"]
    assert [round(part.width / orange[1].width, 3) for part in orange] == [3, 1]


def test_heaps_are_on_one_scale_and_name_below_what_has_no_room():
    boxes = [part for part in SCENES["heaps"].parts if isinstance(part, Box)]
    bars, keys = ([part for part in boxes if (part.height == 22) == bar] for bar in (True, False))
    assert [(key.kind, key.solid) for key in keys] == [("compute", True)]  # beside the name, the part's colour
    assert [part.width for part in bars] == pytest.approx([400 * t / 0.331 for t in (0.093, 0.039, 0.331)])
    assert "own prompt 39 ms" in [part.text for part in SCENES["heaps"].parts if isinstance(part, Label)]
