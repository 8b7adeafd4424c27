"""Drawings of operations: what is drawn equals the law or the record, labels stay inside, and words say the point."""

import math
import re
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from drawings.operations import (
    blocks,
    burst,
    descent,
    load_test,
    losses,
    pipe,
    profile,
    rack,
    ranks,
    search,
    signal_table,
    tail,
    waves,
)

from clusterlab.operations import SIGNALS, fair_shares, file_system, find_bad, rollout
from clusterlab.scaling import chain
from clusterlab.units import GB, TB, hour
from explorable import Arrow, Band, Box

PARTS = {"drives": 16, "drive_read": 7 * GB, "drive_write": 4 * GB, "drive_capacity": 15 * TB, "network": 50 * GB}
SYSTEM = file_system(180, clients=12.5 * TB, copies=3, **PARTS)
CHAIN = chain(2048, allocated=0.9, fed=0.91, together=0.85, noticed=0.944)
NAMES = dict(zip(CHAIN.factors, ("wait for a job", "wait for data", "wait for a rank", "hang unnoticed"), strict=True))
KINDS = {"data": "compute", "checkpoint": "memory"}


def shared(capacity, write):
    wants = {"data": 210 * GB, "checkpoint": write}
    got = fair_shares(list(wants.values()), capacity)
    return wants, dict(zip(wants, got.tolist(), strict=True))


SCENES = {
    "losses": losses(CHAIN, NAMES),
    "pipe, reads": pipe(SYSTEM),
    "pipe, writes": pipe(SYSTEM, writes=True),
    "burst": burst(*shared(300 * GB, 3.2 * TB), 300 * GB, KINDS),
    "quiet": burst(*shared(600 * GB, 64 * GB), 600 * GB, KINDS),
    "ranks": ranks([1.0, 0.98, 1.2, 1.02]),
    "profile": profile([4.0, 4.0, 4.6, 4.0], 0.8),
    "tail": tail(16_384),
    "descent": descent([("replicas", ["0", "1"], [0.85, 0.25]), ("ranks", ["0", "1", "2"], [1.4, 0.8, 1.4])]),
    "search": search(16, find_bad(16, lambda group: 11 in group)[1], [11]),
}


def of(scene, kind):
    return [part for part in scene.parts if isinstance(part, kind)]


def test_bars_of_losses_are_what_the_chain_leaves():
    left = [box for box in of(SCENES["losses"], Box) if box.kind in ("grey", "compute")]
    widths = np.array([box.width for box in left])
    assert widths / widths[0] == pytest.approx(np.cumprod([1, *CHAIN.factors.values()]))
    lost = [box.width for box in of(SCENES["losses"], Box) if box.kind == "waste"]
    assert widths[-1] + sum(lost) == pytest.approx(widths[0])
    numbers = re.findall(r"\d[\d,]*", SCENES["losses"].alt)
    assert sum(int(n.replace(",", "")) for n in numbers[1:]) == 2048
    shown = [int(box.text.replace(",", "")) for box in left]
    taken = [int(n.replace(",", "")) for n in numbers[2:]]
    assert [a - b for a, b in pairwise(shown)] == taken  # as the bars say it


def test_a_pipe_is_as_wide_as_its_parts_and_the_narrowest_is_filled():
    for name, rates in (("pipe, reads", SYSTEM.reads), ("pipe, writes", SYSTEM.writes)):
        boxes = of(SCENES[name], Box)
        assert [b.height / boxes[0].height for b in boxes] == pytest.approx(
            [r / rates["drives"] for r in rates.values()]
        )
        assert [b.solid for b in boxes] == [r == min(rates.values()) for r in rates.values()]
    assert "It writes 3 TB/s" in SCENES["pipe, writes"].alt


def test_a_burst_ends_as_wide_as_what_each_flow_gets():
    for name, capacity, write in (("burst", 300 * GB, 3.2 * TB), ("quiet", 600 * GB, 64 * GB)):
        _, gets = shared(capacity, write)
        (system,) = of(SCENES[name], Box)
        granted = [band for band in of(SCENES[name], Band) if band.kind != "idle"]
        assert [b.width1 / system.height for b in granted] == pytest.approx([g / capacity for g in gets.values()])
        assert granted[0].y1 == system.y
    assert [b.kind for b in of(SCENES["quiet"], Band)] == ["compute", "memory"]
    assert sum(band.kind == "idle" for band in of(SCENES["burst"], Band)) == 2
    assert SCENES["burst"].height == SCENES["quiet"].height
    assert [len(of(SCENES[name], Arrow)) for name in ("burst", "quiet")] == [2, 0]  # what is cut has a break


def test_every_rank_ends_with_the_slowest():
    times = [1.0, 0.98, 1.2, 1.02]
    scene = SCENES["ranks"]
    work = [box for box in of(scene, Box) if box.kind == "compute"]
    assert [b.width / work[2].width for b in work] == pytest.approx([t / 1.2 for t in times])
    wait = [box for box in of(scene, Box) if box.kind == "idle"]
    assert {round(b.x + b.width, 6) for b in wait} == {round(work[2].x + work[2].width, 6)}
    share = 1 - np.mean(times) / 1.2
    assert f"{share:.1%}" in scene.alt


def test_the_slow_rank_is_the_shortest_in_the_profile():
    boxes = of(SCENES["profile"], Box)
    inside = [box for box in boxes if box.kind == "wire"]
    assert [b.solid for b in inside] == [False, False, True, False]
    assert min(inside, key=lambda b: b.width) is inside[2]
    assert inside[2].width / inside[0].width == pytest.approx(0.8 / 1.4)


def test_the_box_beyond_the_slowest_is_as_high_as_the_curve_and_as_large_as_the_tail():
    (box,) = of(SCENES["tail"], Box)
    beyond = [band for band in of(SCENES["tail"], Band) if band.kind == "waste"]
    assert max(band.width0 for band in beyond) == pytest.approx(box.height)
    area = sum((band.x1 - band.x0) * (band.width0 + band.width1) / 2 for band in beyond)
    assert 0.9 < area / (box.width * box.height) < 1


def test_the_way_down_goes_through_the_shortest_of_each_level():
    solid = [box for box in of(SCENES["descent"], Box) if box.solid]
    assert len(solid) == 2
    for level in {box.y for box in solid}:
        row = [box for box in of(SCENES["descent"], Box) if box.y == level]
        assert min(row, key=lambda box: box.width).solid
    (down,) = of(SCENES["descent"], Arrow)
    assert solid[0].x < down.x0 < solid[0].x + 20


def test_a_search_shows_the_groups_that_were_tested():
    _, tests = find_bad(16, lambda group: 11 in group)
    for shown in (1, 3, len(tests)):
        scene = search(16, tests, [11], shown)
        boxes = of(scene, Box)
        for row, group in enumerate(tests):
            filled = [i for i, box in enumerate(boxes[16 * row : 16 * row + 16]) if box.solid]
            assert filled == (sorted(group) if row < shown else [])
        assert scene.alt.count("Test") == shown
    assert search(16, tests, [11], 0).alt == "16 machines, none tested yet."
    assert not of(SCENES["search"], Arrow)


# --- on call ---------------------------------------------------------------------------------------------------------

WAVES = [4, 16, 64, 172]
ROLLED = rollout(WAVES, soak=24 * hour, bug=500 * hour)
SCENES |= {
    "load test": load_test([hour, 30 * hour, math.inf, math.inf], 24 * hour, 60 * hour),
    "waves": waves(WAVES, ROLLED, rows=4),
    "one wave": waves([256], rollout([256], soak=hour, bug=hour), rows=4),
    **{f"rack, {n} failed": rack(range(n), used) for n, used in ((0, 18), (1, 16), (3, 16))},
    "blocks": blocks([[True] * 3, [False] * 3, [True, False, True]], 3),
}


def test_a_rack_draws_every_tray_once_as_it_is():
    for failed, used, working in (([], 18, 72), ([1], 16, 64), ([0, 1, 2], 16, 0), ([4], 18, 0)):
        scene = rack(failed, used)
        kinds = Counter(box.kind for box in of(scene, Box))
        assert kinds["compute"] == working
        assert kinds["lost"] == 4 * len(failed)
        assert kinds["idle"] == 72 - working - 4 * len(failed)
        assert f"{working} of 72 GPUs work" in scene.alt


def test_a_wave_that_a_bug_hardly_ever_reaches_says_so_without_a_row_of_noughts():
    seldom = waves([4, 16, 236], rollout([4, 16, 236], soak=hour, bug=hour))
    assert seldom.alt.endswith("wave 3 236 and starts in under 0.1% of cases.")


def test_waves_are_as_wide_as_their_servers_and_as_full_as_the_bug_is_likely():
    outer = [box for box in of(SCENES["waves"], Box) if box.kind == "compute"]
    assert [box.width / outer[-1].width for box in outer] == pytest.approx([max(n / 172, 3 / 242) for n in WAVES])
    inner = [box for box in of(SCENES["waves"], Box) if box.kind == "waste"]
    assert [box.height / 24 for box in inner] == pytest.approx(ROLLED.reached[: len(inner)].tolist())


def test_a_load_test_ends_a_bad_server_where_it_shows():
    ends = [box.x + 2 for box in of(SCENES["load test"], Box) if box.kind == "lost"]
    assert ends == pytest.approx([1 + 398 * t / 60 for t in (1, 30)])
    assert "1 show it within the 24 h of the test, 1 does not" in SCENES["load test"].alt


def test_blocks_say_where_a_gang_fits():
    assert SCENES["blocks"].alt == "3 blocks of 3 servers, 5 free in all: 3 fit anywhere, and into 1 of the blocks."
    assert sum(box.solid for box in of(SCENES["blocks"], Box)) == 5


def test_the_list_of_signals_has_every_signal_and_a_rule_for_every_button():
    text = signal_table(SIGNALS)._repr_html_()
    assert text.count("<details") == len(SIGNALS)
    buttons = set(re.findall(r'id="(cl-[uw]\d+)"', text)) - {"cl-u0", "cl-w0"}
    assert buttons == set(re.findall(r":has\(#(cl-[uw]\d+):checked\)", text))
    used = {key for keys in re.findall(r'<div class="([^"]*)"><details>', text) for key in keys.split()}
    assert used == buttons
    assert "http" not in re.sub(r'href="[^"]*"', "", text)  # nothing is loaded
