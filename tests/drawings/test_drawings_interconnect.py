"""Drawings of the fabric: what is drawn equals the law or the record, and every text has room."""

import re

import numpy as np
import pytest

from clusterlab import catalogue, interconnect
from clusterlab.units import fmt
from drawings import interconnect as fabric
from explorable import Arrow, Band, Box, Label
from refusals import unreached

LETTER = 6.4  # units, about the width of a letter
DGX, NVL72 = catalogue.node("DGX H100"), catalogue.rack("GB200 NVL72")
NVLINK, PORT = {"bandwidth": 450e9, "latency": 3.33e-6}, {"bandwidth": 50e9, "latency": 5e-6}
INSIDE = interconnect.ring_reduce_scatter(14e9, 8, **NVLINK)
ACROSS = interconnect.ring_all_reduce(14e9 / 8, 32, **PORT)
SWITCHES = interconnect.scale_up(72, links=18, switch_ports=72)
OFFERS = {
    ("Fat tree", "320 switches"): (400e9, 50e9),
    ("Thin tree", "168 switches"): (400e9, 50e9 / 3),
    ("Torus", "no switch"): (600e9, 50e9),
}
TREES = {
    (32, 8, 2, 1): interconnect.fat_tree(32, 8),
    (32, 8, 2, 3): interconnect.fat_tree(32, 8, oversubscription=3),
    (16, 4, 3, 1): interconnect.fat_tree(16, 4, tiers=3),
    (12, 4, 3, 1): interconnect.fat_tree(12, 4, tiers=3),
}


def scenes():
    """Every drawing that the book shows, by name."""
    yield "domains", fabric.domains(DGX, NVL72, SWITCHES)
    yield "ways", fabric.ways(32, 8, [0.5604, 0.0723])
    yield from ((name, fabric.collective(name)) for name in fabric.COLLECTIVES)
    yield from ((f"ring {step}", fabric.ring(step)) for step in range(fabric.STEPS + 1))
    yield from ((f"tree {n}", fabric.tree(n)) for n in (2, 4, 8))
    yield from ((f"two trees {rank}", fabric.two_trees(rank, 1e9)) for rank in range(fabric.TREE_RANKS))
    yield from ((f"rails {stage}", fabric.rails(stage, INSIDE, ACROSS)) for stage in range(4))
    yield "offers", fabric.offers(OFFERS)
    yield from ((f"torus {side}", fabric.torus(side)) for side in (4, 8))
    yield from ((f"fat tree {shape}", fabric.fat_tree(tree, shape[1])) for shape, tree in TREES.items())


SCENES = dict(scenes())


def boxes(scene, **wanted):
    return [p for p in scene.parts if isinstance(p, Box) and all(getattr(p, k) == v for k, v in wanted.items())]


def arrows(scene, kind):
    return [part for part in scene.parts if isinstance(part, Arrow) and part.kind == kind]


def texts(scene):
    return [part.text for part in scene.parts if not isinstance(part, Band) and part.text]


def extent(label):
    """Left, right, top and bottom of a label."""
    lines = label.text.split("\n")
    wide = LETTER * max(map(len, lines))
    left = label.x - {"start": 0, "middle": wide / 2, "end": wide}[label.anchor]
    return left, left + wide, label.y - 8 * len(lines), label.y + 8 * len(lines)


@pytest.mark.parametrize("name", SCENES)
def test_no_label_touches_another_or_lies_on_a_box_with_colour(name):
    scene = SCENES[name]
    labels = [part for part in scene.parts if isinstance(part, Label)]
    for i, one in enumerate(labels):
        left, right, top, bottom = extent(one)
        for other in labels[i + 1 :]:
            a, b, c, d = extent(other)
            assert right <= a or b <= left or bottom <= c + 1 or d <= top + 1, (one, other)
        for box in boxes(scene, solid=True):
            apart = right <= box.x or box.x + box.width <= left or bottom <= box.y + 4 or box.y + box.height <= top + 4
            assert apart, (one, box)


# --- a server and a rack ---------------------------------------------------------------------------------------------


def test_a_rack_and_four_servers_show_their_gpus_domains_and_rates():
    scene = fabric.domains(DGX, NVL72, SWITCHES)
    assert len(boxes(scene, kind="compute")) == 4 * 8 + 72
    said = " ".join(texts(scene))
    assert said.count("450 GB/s to 7 others") == 4
    assert said.count("18 NVLink switches\n900 GB/s to 71 others") == 1
    assert ("NVLink: 3.6 TB/s each" in said, "NVLink: 64.8 TB/s" in said) == (True, True)
    assert said.count("50 GB/s a GPU") == 2


def test_one_ring_uses_one_port_of_a_server_and_rails_use_all():
    scene = fabric.ways(32, 8, [0.5604, 0.0723])
    left = [arrow for arrow in arrows(scene, "network") if arrow.x0 < 200]
    right = [arrow for arrow in arrows(scene, "network") if arrow.x0 > 200]
    assert (len(left), len(right)) == (2, 16)
    assert {"1 of 8 ports: 560 ms", "8 of 8 ports: 72.3 ms"} <= set(texts(scene))


# --- collectives -----------------------------------------------------------------------------------------------------


def run(name, data):
    """What each rank holds after a collective of arrays: data[rank][piece]."""
    total = data.sum(axis=0)
    if name == "all-reduce":
        return np.stack([total] * len(data))
    if name == "reduce-scatter":
        return np.where(np.eye(len(data), dtype=bool), total, 0)
    if name == "all-gather":
        return np.stack([np.diag(data)] * len(data))
    if name == "all-to-all":
        return data.T
    return np.stack([data[0]] * len(data))


@pytest.mark.parametrize("name", fabric.COLLECTIVES)
def test_a_collective_ends_with_what_it_computes(name):
    """Rank r's value counts for 10**r, so that a sum tells whose values are in it."""
    n = fabric.GPUS
    panels = list(fabric.states(name).values())
    values = [np.array([[sum(10**r for r in ranks) for ranks in pieces] for pieces in held]) for held in panels]
    whole = np.stack([np.full(n, 10**rank) for rank in range(n)])
    assert (values[-1] == run(name, whole)).all()
    if name == "all-reduce":
        assert (values[1] == run("reduce-scatter", whole)).all()


def test_a_piece_of_a_sum_has_a_stripe_for_every_rank_in_it():
    scene = fabric.collective("reduce-scatter")
    stripes = [box for box in boxes(scene, solid=True) if box.width < 10]
    assert sorted(box.kind for box in stripes) == sorted(fabric.RANKS * fabric.GPUS)


def test_the_ring_sums_every_chunk_in_half_of_its_steps_and_gathers_it_in_the_other():
    n = fabric.GPUS
    after = [np.array([[len(c) for c in gpu] for gpu in fabric.ring_sums(s)]) for s in range(fabric.STEPS + 1)]
    assert (after[0] == 1).all()
    assert (after[-1] == n).all()
    assert [(sums == n).sum() for sums in after] == [0] * (n - 1) + [n * k for k in range(1, n + 1)]


@pytest.mark.parametrize("step", range(1, fabric.STEPS + 1))
def test_each_step_of_the_ring_changes_the_chunks_that_moved_and_no_other(step):
    before, now = fabric.ring(step - 1), fabric.ring(step)
    sums = [fabric.ring_sums(s) for s in (step - 1, step)]
    frames = [{box.key: (box.x + 4, box.y + 4) for box in boxes(s) if box.key in tuple("abcd")} for s in (before, now)]
    assert frames[0].keys() == frames[1].keys() == set("abcd")
    places = [(gpu, chunk) for gpu in range(fabric.GPUS) for chunk in range(fabric.GPUS)]
    changed = {fabric.ring_cell(g, c) for g, c in places if sums[0][g][c] != sums[1][g][c]}
    assert changed == set(frames[1].values())
    sent = set(re.findall(r"GPU (\d) sends ([a-d]) to GPU (\d)", before.alt))
    cells = {(fabric.ring_cell(int(to), "abcd".index(chunk)), chunk) for _, chunk, to in sent}
    assert cells == {(at, chunk) for chunk, at in frames[1].items()}
    assert f"Step {step} of 6" in now.alt


@pytest.mark.parametrize("step", range(fabric.STEPS + 1))
def test_a_chunk_of_the_ring_shows_whose_values_it_sums(step):
    scene = fabric.ring(step)
    for gpu, chunks in enumerate(fabric.ring_sums(step)):
        for chunk, ranks in enumerate(chunks):
            x, y = fabric.ring_cell(gpu, chunk)
            inside = [b for b in boxes(scene, solid=True, y=y) if x - 0.1 <= b.x < x + 30 and b.kind in fabric.RANKS]
            assert [box.kind for box in inside] == [fabric.RANKS[rank] for rank in sorted(ranks)]
            assert sum(box.width for box in inside) == pytest.approx(30)


@pytest.mark.parametrize("ranks", [2, 4, 8])
def test_a_tree_takes_the_rounds_of_its_law_and_ends_with_the_sum_everywhere(ranks):
    rounds = fabric.tree_rounds(ranks)
    law = interconnect.tree_all_reduce(1.0, ranks, **PORT)
    assert len(rounds) == law.rounds
    held = [{rank} for rank in range(ranks)]
    for pairs in rounds:
        assert len({rank for pair in pairs for rank in pair}) == 2 * len(pairs), "one message for each rank in a round"
        for source, to in pairs:
            held[to] = held[to] | held[source]
    assert held == [set(range(ranks))] * ranks
    scene = fabric.tree(ranks)
    assert len(arrows(scene, "wire")) == 2 * (ranks - 1)
    assert len(boxes(scene, text=f"{ranks}", solid=True)) == ranks
    assert f"takes {len(rounds)} rounds" in scene.alt


def test_in_two_trees_each_rank_adds_in_one_and_is_a_leaf_in_the_other_and_together_they_send_what_a_ring_sends():
    ranks = range(fabric.TREE_RANKS)
    above = {tree: fabric.parents(tree) for tree in fabric.TREES}
    assert [sum(rank in up for up in above.values()) for rank in ranks] == [1] * len(ranks)
    for up in above.values():
        assert max(up.count(rank) for rank in ranks) == 2, "binary"
        (top,) = [rank for rank in ranks if up[rank] is None]
        held = {rank: {rank} for rank in ranks}
        order = []  # from the leaves up
        while len(order) < len(ranks) - 1:
            free = [r for r in ranks if r not in order and r != top and all(c in order for c in ranks if up[c] == r)]
            for rank in free:
                held[up[rank]] |= held[rank]
            order += free
        assert held[top] == set(ranks)
    halves = [sum(fabric.sends(rank)) for rank in ranks]
    law = interconnect.ring_all_reduce(1.0, len(ranks), **PORT)
    assert sum(halves) / 2 == len(ranks) * law.sent_bytes
    assert max(halves) / 2 == 2


@pytest.mark.parametrize("rank", range(fabric.TREE_RANKS))
def test_two_trees_draw_the_messages_of_one_rank(rank):
    scene = fabric.two_trees(rank, 1e9)
    moves = arrows(scene, "wire")
    assert len(moves) == sum(fabric.sends(rank))
    said = [*moves, *(part for part in scene.parts if isinstance(part, Label))]
    assert sum(part.text == "500 MB" for part in said) == len(moves)
    assert sum(move.y1 < move.y0 for move in moves) == fabric.sends(rank)[0]
    assert len(moves) + len(arrows(scene, "ink")) == 2 * (fabric.TREE_RANKS - 1)
    solid = [box for box in boxes(scene, kind="compute", solid=True) if box.text]
    assert sorted(box.text for box in solid) == [f"{r}" for r in range(fabric.TREE_RANKS)]


def test_the_stages_of_a_hierarchy_send_what_the_laws_say():
    said = [" ".join(texts(fabric.rails(stage, INSIDE, ACROSS))) for stage in range(4)]
    assert fmt(INSIDE.sent_bytes, "B") == "12.2 GB"
    assert fmt(ACROSS.sent_bytes, "B") == "3.39 GB"
    assert [text.count("12.2 GB each") for text in said] == [0, 2, 0, 2]
    assert ["Ports: 3.39 GB each" in text for text in said] == [False, False, True, False]
    whole = interconnect.hierarchical_all_reduce(
        14e9, 256, node_size=8, **PORT, node_bandwidth=450e9, node_latency=3.33e-6
    )
    assert 2 * INSIDE.sent_bytes + ACROSS.sent_bytes == pytest.approx(whole.sent_bytes)


def test_a_hierarchy_sums_four_gpus_then_eight_and_then_gives_all_to_each():
    counts = [
        sorted(box.text for box in boxes(fabric.rails(stage, INSIDE, ACROSS), kind="memory")) for stage in range(4)
    ]
    assert counts == [["1"] * 32, ["4"] * 8, ["8"] * 8, ["8"] * 32]


# --- networks --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", TREES)
def test_a_fat_tree_has_the_switches_and_hosts_of_its_record_and_a_line_for_every_joined_pair(shape):
    tree, radix = TREES[shape], shape[1]
    scene = fabric.fat_tree(tree, radix)
    links = list(fabric.tree_links(tree, radix))
    switches = boxes(scene, kind="network")
    assert len(switches) == tree.switches
    assert len(boxes(scene, kind="network", solid=True)) == tree.leaves
    assert len(boxes(scene, kind="compute")) == tree.host_cables
    assert len(arrows(scene, "network")) == len(set(links)) == len(links)
    # Cables are spread evenly over the pairs that they join.
    lower = sum(where == "leaf" for where, *_ in links)
    assert tree.spine_cables % lower == 0
    if tree.cores:
        assert tree.core_cables % (len(links) - lower) == 0
        assert {core for where, _, core in links if where == "core"} == set(range(tree.cores))


@pytest.mark.parametrize("shape", TREES)
def test_every_leaf_of_a_fat_tree_reaches_every_other(shape):
    tree, radix = TREES[shape], shape[1]
    links = list(fabric.tree_links(tree, radix))
    groups = {("leaf", leaf): {leaf} for leaf in range(tree.leaves)}
    spines = {s: {leaf for w, leaf, to in links if w == "leaf" and to == s} for s in range(tree.spines)}
    cores = [set().union(*(spines[s] for w, s, to in links if w == "core" and to == c)) for c in range(tree.cores)]
    assert any(reach == set(range(tree.leaves)) for reach in cores or spines.values())
    assert len(groups) == tree.leaves


def test_the_bars_of_an_offer_are_as_long_as_its_rates():
    wide = [box.width for box in boxes(SCENES["offers"], solid=True)]
    rates = [rate for pair in OFFERS.values() for rate in pair]
    assert np.array(wide) / wide[-2] == pytest.approx(np.array(rates) / 600e9)
    assert {"ring: 600 GB/s", "all-to-all: 16.7 GB/s"} <= set(texts(SCENES["offers"]))


@pytest.mark.parametrize("side", [4, 8])
def test_a_torus_has_two_links_a_chip_and_its_farthest_byte_takes_its_diameter(side):
    scene, law = SCENES[f"torus {side}"], interconnect.torus((side, side))
    assert len(boxes(scene, kind="compute")) == law.nodes
    inside = [arrow for arrow in scene.parts if isinstance(arrow, Arrow)]
    assert len(inside) - 2 * side == law.links  # a link that wraps is drawn as two stubs
    assert len(arrows(scene, "network")) == law.diameter
    assert len(arrows(scene, "nvlink")) == 1


REFUSALS = {
    "name must be one of all-reduce, reduce-scatter": lambda: fabric.states("gather"),
    "step must be a whole number from 0 to 6, got 7": lambda: fabric.ring(7),
    "tree must be one of A, B, got 'C'": lambda: fabric.parents("C"),
    "rank must be a whole number from 0 to 7, got 8": lambda: fabric.sends(8),
    "stage must be a whole number from 0 to 3, got 4": lambda: fabric.rails(4, INSIDE, ACROSS),
    "a network port for each accelerator, got DGX H100 with 4 of InfiniBand NDR and NVLink 4": lambda: fabric.domains(
        catalogue.Node(**(vars(DGX) | {"network_ports": 4})), NVL72, SWITCHES
    ),
    "ranks must be 2, 4 or 8, got 6": lambda: fabric.tree(6),
    "side must be 4, 6 or 8, got 5": lambda: fabric.torus(5),
    "tree must have at most 8 leaves, got 9": lambda: fabric.fat_tree(interconnect.fat_tree(36, 8, tiers=3), 8),
}


@pytest.mark.parametrize("message", REFUSALS)
def test_what_cannot_be_drawn_is_refused_by_name(message):
    with pytest.raises(ValueError, match=re.escape(message)):
        REFUSALS[message]()


def test_every_refusal_of_the_source_is_reached_by_one_of_these():
    assert unreached(fabric, REFUSALS) == set()
