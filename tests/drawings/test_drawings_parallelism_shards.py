"""Drawings of shards: every GPU holds what its way of cutting says, and nothing leaves its place."""

import itertools

import numpy as np
import pytest
from drawings.parallelism import ports, shards

from clusterlab.parallelism import model_state
from clusterlab.units import fmt
from explorable import Arrow, Box, Label

SIZES = shards.Sizes(tokens=8192, width=8192, hidden=28_672, kv=2048)
EVERY = list(itertools.product(shards.WAYS, range(len(shards.PHASES))))


SCENES = {f"{way}, {shards.PHASES[step]}": shards.layer(way, step, SIZES) for way, step in EVERY}
SCENES |= {f"Step {step}": shards.trade(step) for step in range(len(shards.TRADES))} | {"GPU 0": shards.halves()}
SCENES |= {"X[B, D]": shards.holders(shards.Sizes(tokens=8, width=4, hidden=16))}
SCENES |= {"Cut the batch": shards.three(), "TP8": ports(50e9), "side by side": shards.overview(SIZES)}


def test_a_drawing_says_which_way_and_which_step_it_shows():
    assert [name for name in list(SCENES)[:-1] if not SCENES[name].alt.startswith(name)] == []


@pytest.mark.parametrize("written", shards.HELD)
def test_a_gpu_holds_the_block_that_its_ranks_on_the_cutting_axes_say(written):
    """Each block of X by the arrays themselves, split over a mesh of two by two."""
    whole, cut = np.arange(32).reshape(8, 4), shards.HELD[written]
    n = [2 if axis else 1 for axis in cut]
    blocks = [np.split(rows, n[1], axis=1) for rows in np.split(whole, n[0])]
    held = {}
    for gpu, (dp, tp) in enumerate(itertools.product(range(2), repeat=2)):
        rank = {"dp": dp, "tp": tp, None: 0}
        held.setdefault((rank[cut[0]], rank[cut[1]]), []).append(gpu)
    expected = [
        " ".join(map(str, held.get((row, column), ["nobody"]))) for row in range(n[0]) for column in range(n[1])
    ]
    scene = shards.holders(shards.Sizes(tokens=8, width=4, hidden=16))
    (name,) = [part for part in scene.parts if isinstance(part, Label) and part.text == written]
    found = [p for p in scene.parts if isinstance(p, Box) and name.x <= p.x < name.x + 104 and 0 < p.y - name.y < 100]
    assert [box.text for box in found] == expected
    assert [box.solid for box in found] == [0 in held.get(divmod(i, n[1]), []) for i in range(len(found))]
    rows, columns = blocks[0][0].shape
    shape = f"GPU 0: {rows} \N{MULTIPLICATION SIGN} {columns}"
    assert any(isinstance(p, Label) and (p.x, p.y, p.text) == (name.x, name.y + 114, shape) for p in scene.parts)
    assert area((b.x, b.y, b.width, b.height) for b in found) == pytest.approx(104 * 88)


def area(pieces):
    return sum(width * height for _, _, width, height in pieces)


@pytest.mark.parametrize("cut", ["rows", "columns", "routed"])
def test_the_shards_of_all_gpus_are_the_array_once(cut):
    place = (10.0, 20.0, 40.0, 32.0)
    pieces = [piece for rank in range(shards.GPUS) for piece in shards._pieces(place, cut, rank)]
    assert area(pieces) == pytest.approx(40 * 32)
    assert len({(x, y) for x, y, _, _ in pieces}) == len(pieces)


@pytest.mark.parametrize("way", shards.WAYS)
def test_a_phase_holds_what_it_can_be_read_to_hold(way):
    """Nothing in a text is left over, and an array is not held twice."""
    for phase in shards.WAYS[way].phases:
        for holds in phase.holds if isinstance(phase.holds, tuple) else (phase.holds,):
            found = shards._HELD.findall(holds)
            assert shards._HELD.sub("", holds).strip() == ""
            assert len({name for _, _, name, _, _ in found}) == len(found)


@pytest.mark.parametrize(("way", "step"), EVERY)
def test_what_is_received_comes_from_an_exchange_of_that_step(way, step):
    phase = shards.WAYS[way].phases[step]
    texts = phase.holds if isinstance(phase.holds, tuple) else (phase.holds,)
    received = {d + name for text in texts for how, d, name, _, _ in shards._HELD.findall(text) if how == "@"}
    moved = {name.partition(":")[0] for move in phase.moves for name in move.what.split()}
    neighbours = {"X": "Y", "dY": "dX"} if way == "PP" else {}  # what one layer calls Y is the X of the next
    assert {neighbours.get(name, name) for name in received} <= moved


@pytest.mark.parametrize("way", shards.WAYS)
def test_a_partial_sum_is_exchanged_before_the_update(way):
    phases = shards.WAYS[way].phases
    pending = set()
    for phase in phases:
        texts = phase.holds if isinstance(phase.holds, tuple) else (phase.holds,)
        pending |= {d + name for text in texts for _, d, name, _, plus in shards._HELD.findall(text) if plus}
    summed = {
        name.partition(":")[0]
        for phase in phases
        for move in phase.moves
        if move.collective in ("all-reduce", "reduce-scatter")
        for name in move.what.split()
    }
    assert pending <= summed


def test_what_a_gpu_keeps_is_the_law_of_the_model_s_state():
    whole = 2 * SIZES.width * SIZES.hidden
    kept = {way: shards.kept_bytes(way, SIZES) for way in shards.WAYS}
    assert kept["DP"] == kept["CP"] == model_state(whole).total
    assert kept["ZeRO 1"] == model_state(whole, shards=4, zero=1).total
    assert kept["ZeRO 2"] == model_state(whole, shards=4, zero=2).total
    assert kept["ZeRO 3"] < kept["ZeRO 2"] < kept["ZeRO 1"] < kept["DP"]
    assert kept["ZeRO 3"] == kept["TP"] == kept["TP + SP"] == kept["DP"] / 4
    assert kept["PP"] == kept["DP"]  # of its own layer; the others have theirs


def test_the_picture_tells_tensor_from_data_parallelism():
    """TP sends activations, DP gradients; sequence parallelism sends a quarter more than TP, in the backward pass."""

    def total(way):
        return sum(shards.sent_bytes(m, SIZES) for phase in shards.WAYS[way].phases for m in phase.moves)

    assert total("TP + SP") == pytest.approx(1.25 * total("TP"))
    assert total("ZeRO 1") == pytest.approx(0.75 * total("DP"))
    more = shards.Sizes(2 * SIZES.tokens, SIZES.width, SIZES.hidden)
    for way, grows in {"DP": 1, "TP": 2, "EP": 2}.items():
        sums = [sum(shards.sent_bytes(m, s) for p in shards.WAYS[way].phases for m in p.moves) for s in (SIZES, more)]
        assert sums[1] == pytest.approx(grows * sums[0])


@pytest.mark.parametrize("way", shards.WAYS)
def test_gpu_0_has_sent_what_stands_on_the_wires_of_its_steps(way):
    last = len(shards.PHASES) - 1
    moves = [move for phase in shards.WAYS[way].phases for move in phase.moves]
    every = sum(shards.sent_bytes(move, SIZES) for move in moves)
    back = shards.sent_bytes(shards.Move("send", "dX", ranks=2), SIZES) if way == "PP" else 0  # by GPU 1
    assert shards.sent_so_far(way, last, SIZES) == every - back
    assert shards.sent_so_far(way, 0, SIZES) == 0


def test_the_ways_side_by_side_say_what_each_keeps_and_sends_and_show_their_shares():
    scene, last = shards.overview(SIZES), len(shards.PHASES) - 1
    for way, told in zip(shards.WAYS, scene.alt.split("; "), strict=True):
        kept, sent = (fmt(b, "B") for b in (shards.kept_bytes(way, SIZES), shards.sent_so_far(way, last, SIZES)))
        assert told == f"{way}: keeps {kept}, sends {sent}"
        assert any(isinstance(part, Label) and part.text == f"keeps\n{kept}" for part in scene.parts)
    wires = [part.text.split("\n")[0] for part in scene.parts if isinstance(part, Box) and part.kind == "wire"]
    assert wires[:-1] == [  # the last is the legend's
        *("dW", "dW, W", "dW, W", "W, dW"),
        *("Y, dX", "X, Y, dY, dX", "Y", "K, V, dK, dV, dW", "X, Y, dY, dX"),
    ]
    full = 0.8 * shards._TILE  # the tiles are smaller, side by side
    for kind, shares in {"gradients": [1, 1, 1 / 4, 1 / 4], "optimizer": [1, 1 / 4, 1 / 4, 1 / 4]}.items():
        bars = [part.width for part in scene.parts if isinstance(part, Box) and part.kind == kind and part.height < 8]
        assert [bar / full for bar in bars[:4]] == pytest.approx(shares)


def test_the_gradients_of_a_server_leave_it_once_an_eighth_through_each_port():
    scene = ports(50e9)
    pieces = [part for part in scene.parts if isinstance(part, Box) and part.kind == "gradients"]
    rows = {}  # of eight GPUs: parts under TP8, replicas, and the replicas' sum
    for gpu in (part for part in scene.parts if isinstance(part, Box) and part.kind == "compute"):
        inside = [p for p in pieces if gpu.x < p.x < gpu.x + gpu.width and gpu.y < p.y < gpu.y + gpu.height]
        rows.setdefault(gpu.y, []).append(sorted(p.y - gpu.y for p in inside))
    parts_of_one, replicas, summed = rows.values()
    assert parts_of_one == summed
    assert [len(held) for held in replicas] == [8] * 8
    assert sorted(itertools.chain(*summed)) == replicas[0]  # each piece on one GPU
    crossing = [part for part in scene.parts if isinstance(part, Arrow) and part.kind == "network"]
    assert len(crossing) == 8 + 8
    assert "50 GB/s" in scene.alt
    assert "400 GB/s" in scene.alt
