"""Drawings of a shared fabric: what is drawn is what the laws say, and every text has its room."""

import itertools

import numpy as np
import pytest

from clusterlab.contention import clos, hashed, max_min_rates, sprayed
from drawings import contention as drawn
from explorable import Arrow, Box

SHIFT = np.arange(32), np.roll(range(32), -8)
CASES = list(itertools.product((8, 4, 2), (None, 1)))


def case(spines, failed):
    fabric = clos(8, 4, spines, bandwidth=drawn.PORT)
    whole = fabric if failed is None else fabric.without(fabric.up[0, failed])
    return whole, hashed(whole, *SHIFT, seed=spines)


SCENES = {
    "uplinks": drawn.uplinks([0, 0, 0, 3, 4, 5, 5, 7], range(8)),
    "two links": drawn.two_links(50e9, 20e9),
    **{f"tree of {s}, {f} failed": drawn.tree(*case(s, f), 16, f) for s, f in CASES},
}


def test_the_uplinks_carry_the_flows_that_are_drawn():
    boxes = [part for part in SCENES["uplinks"].parts if isinstance(part, Box) and part.text]
    assert [box.text for box in boxes[:8]] == list("30011201")
    assert [box.text for box in boxes[8:]] == ["1"] * 8


def test_the_links_are_as_high_as_their_rates():
    boxes = [part for part in SCENES["two links"].parts if isinstance(part, Box) and ":" in part.text]
    assert [box.height for box in boxes] == pytest.approx([96 * 0.8, 96 * 0.2, 96 * 0.2, 96 * 0.2])


@pytest.mark.parametrize(("spines", "failed"), CASES)
def test_a_tree_shows_every_cable_and_which_gpus_are_slowed(spines, failed):
    fabric, routes = case(spines, failed)
    scene, rates = drawn.tree(fabric, routes, 16, failed), max_min_rates(fabric.capacity, routes)
    cables = [part for part in scene.parts if isinstance(part, Arrow)]
    assert len(cables) == 4 * spines
    assert sum(cable.kind == "red" for cable in cables) == (failed is not None)
    gpus = [part for part in scene.parts if isinstance(part, Box) and part.width == 8.4]
    assert [gpu.kind for gpu in gpus] == ["compute"] * 16 + ["grey"] * 16
    assert [gpu.solid for gpu in gpus] == (rates > 0.99 * drawn.PORT).tolist()


def test_spraying_leaves_no_cable_over_full_where_nothing_is_oversubscribed():
    fabric = clos(8, 4, 8, bandwidth=drawn.PORT)
    scene = drawn.tree(fabric, sprayed(fabric, *SHIFT), 32)
    assert {part.kind for part in scene.parts if isinstance(part, Arrow)} == {"network"}
