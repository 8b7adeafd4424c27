"""Drawings of the symptoms: a row is a link, a lever does something, and its bar is as long as it is good."""

from dataclasses import replace

import pytest

from drawings import symptoms as drawn
from explorable import Box

BUBBLE = drawn.Lever(
    "nothing, at both ends", "nsys profile", "bubble", "pipeline.ipynb#the-bubble", "parallelism.bubble_fraction",
    "four chunks a stage", "39.7%", "42.4%", 1.07, (0.91, 1.12),
)  # fmt: skip
LEVERS = drawn.Levers([BUBBLE, replace(BUBBLE, lever="128 users on 2 B200s at $5.50, not 8 H100s", times=4.0)])
SCENES = {"sizes": drawn.sizes(LEVERS, 6)}


@pytest.mark.parametrize("times", [1.0, 0.84, float("nan")])
def test_a_lever_that_makes_nothing_better_is_refused(times):
    with pytest.raises(ValueError, match=r"must make something better, got .* by 'four chunks a stage'"):
        replace(BUBBLE, times=times)


def test_a_row_links_to_its_section_and_to_its_law_and_no_dollar_begins_a_formula():
    *_, cheap = LEVERS._repr_markdown_().splitlines()
    assert "[bubble](pipeline.ipynb#the-bubble)" in cheap
    assert "[law](#clusterlab.parallelism.bubble_fraction)" in cheap
    assert r"at \$5.50" in cheap


def test_a_gain_has_its_ends_and_says_where_it_may_be_nothing():
    assert BUBBLE.better == "1.07 times (0.974 to 1.2): may be nothing"
    assert replace(BUBBLE, times=1.37).better == "1.37 times (1.25 to 1.53)"
    assert replace(BUBBLE, sure=(1.0, 1.0)).better == "1.07 times"  # a sum, and no prediction
    assert replace(BUBBLE, sure=(1.0, 1.0), basis="untested").better == "1.07 times: untested"
    assert replace(BUBBLE, basis="borrowed").better.endswith(" (0.974 to 1.2): borrowed, may be nothing")
    with pytest.raises(ValueError, match="basis must be one of borrowed, untested, measured or empty, got 'hoped'"):
        replace(BUBBLE, basis="hoped")


def test_ends_are_raised_with_a_large_gain_and_cut_at_what_the_lever_can_give():
    doubled = replace(BUBBLE, times=1.5**2)
    assert doubled.ends == pytest.approx((2.25 * 0.91**2, 2.25 * 1.12**2))
    assert replace(doubled, own=True).ends == pytest.approx((2.25 * 0.91, 2.25 * 1.12))
    assert replace(BUBBLE, most=35 / 32).better == "1.07 times (0.974 to 1.09): may be nothing"
    with pytest.raises(ValueError, match=r"'four chunks a stage' gives at most 2 times, got 2\.25"):
        replace(doubled, most=2.0)


def test_bars_are_sorted_and_logarithmic_and_end_at_sixteen():
    widths = [part.width for part in SCENES["sizes"].parts if isinstance(part, Box)]
    assert widths[0] / widths[1] == pytest.approx(2 / 0.0976, rel=1e-3)  # log2 of 4 and of 1.07
    assert SCENES["sizes"].alt.startswith("128 users on 2 B200s")  # what is read aloud has the order of the bars
    far = drawn.sizes(drawn.Levers([replace(BUBBLE, times=t) for t in (16, 1000)]), 2)
    assert len({part.width for part in far.parts if isinstance(part, Box)}) == 1
