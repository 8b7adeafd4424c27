"""Drawings of layouts: what is drawn is what the law or the record says, and every text has its room."""

import pytest

from clusterlab.model import Layout, Workload, transformer
from clusterlab.parallelism import data_parallel_ratio, sent_bytes, tensor_parallel_ratio
from drawings import layouts as drawn
from explorable import Arrow, Box

LLAMA8, LLAMA70 = (transformer(f"Llama 3.1 {size}") for size in ("8B", "70B"))


def sent(layout, shape, work):
    return sent_bytes(shape, work, layout)


SCENES = {
    **{f"experts {i}": drawn.experts(i, 470e6) for i in range(4)},
    **{f"ring {i}": drawn.key_value_ring(i, 1.05e6) for i in range(4)},
    **{f"plain ring {i}": drawn.key_value_ring(i, 1.05e6, paired=False) for i in range(4)},
    **{f"tp {tp}": drawn.placement(Layout(tp=tp, dp=32 // tp)) for tp in (4, 8, 16)},
}


def test_the_bytes_that_stand_on_the_wires_are_those_of_the_laws_of_the_chapter():
    work = Workload(sequence=8192, global_batch=8)
    flops = 6 * 8192  # of a parameter, on each of eight
    tensor = sent(Layout(tp=8, sequence_parallel=False), LLAMA70, work)["tensor"]
    # The law takes 12 h^2 parameters a layer; so the bytes are its ratio times the time of so many.
    law = tensor_parallel_ratio(8, 8192, rate=1.0, bandwidth=1.0) * 8 * flops * 12 * 8192**2 * 80 / 8
    assert tensor == pytest.approx(law)
    assert sent(Layout(tp=8), LLAMA70, work)["tensor"] == pytest.approx(5 / 4 * law)
    data = sent(Layout(dp=8, zero=0), LLAMA70, work)["data"]
    parameters = 70.55e9
    law = data_parallel_ratio(8192, rate=1.0, bandwidth=1.0) * flops * parameters * 7 / 8
    assert data == pytest.approx(law, rel=1e-3)
    assert sent(Layout(pp=8), LLAMA70, work)["pipeline"] == 2 * 8 * 2 * 8192 * 8192
    keys = 3 * 80 * 8 * (2 * 8192 * 2 * 8 * 128) * 7 / 8
    assert sent(Layout(cp=8), LLAMA70, work)["context"] == keys


def test_zero_2_and_3_send_for_every_microbatch():
    of = {
        (zero, n): sent(Layout(dp=8, zero=zero), LLAMA8, Workload(sequence=8192, global_batch=8 * n))["data"]
        for zero in range(4)
        for n in (1, 4)
    }
    assert of[1, 1] == of[1, 4]
    assert of[3, 4] == pytest.approx(4 * of[3, 1])
    assert of[2, 4] - of[2, 1] == pytest.approx(3 * (of[2, 1] - of[1, 1] / 3))
    assert of[0, 1] == pytest.approx(8 / 6 * of[1, 1])


@pytest.mark.parametrize("tp", [4, 8, 16])
def test_tensor_parallel_peers_are_orange_exactly_where_they_leave_the_server(tp):
    boxes = [part for part in SCENES[f"tp {tp}"].parts if isinstance(part, Box) and part.text == "T"]
    kinds = [box.kind for box in boxes]
    assert len(kinds) == tp - 1
    assert kinds.count("network") == max(tp - 8, 0)


def test_peers_partition_what_a_layout_spans():
    layout = Layout(tp=4, cp=2, dp=2, pp=2)
    found = drawn.peers(layout)
    assert found == {"tensor": [1, 2, 3], "context": [4], "data": [8], "pipeline": [16]}
    with pytest.raises(ValueError, match="layout must be of 32 accelerators, got 8"):
        drawn.placement(Layout(tp=8))


@pytest.mark.parametrize(("ring", "of_rank"), [("ring", [2, 2, 2, 2]), ("plain ring", [0.5, 1.5, 2.5, 3.5])])
def test_keys_and_values_go_once_around_and_every_block_that_counts_is_scored_once(ring, of_rank):
    for moves in range(4):
        boxes = [part for part in SCENES[f"{ring} {moves}"].parts if isinstance(part, Box)]
        at = {box.key: (box.x, box.y) for box in boxes if box.key}
        assert len(set(at.values())) == 4
        blocks = [box for box in boxes if box.width == box.height == 26 and box.kind == "ink"]
        assert len(blocks) == 16
        pieces = [box for box in boxes if box.kind in ("forward", "compute") and box.width in (12, 25)]
        counted = [0.0] * 4
        for piece in pieces:
            (block,) = [one for one in blocks if 0 < piece.x - one.x < 26 and 0 < piece.y - one.y < 26]
            share = (1 if piece.solid else 0.5) * (piece.width > 20 or 0.25)
            counted[round((block.y - blocks[0].y) / 28)] += share
        told = f"scored {', '.join(f'{one:g}' for one in counted)} blocks"
        assert told in SCENES[f"{ring} {moves}"].alt
    assert counted == of_rank
    with pytest.raises(ValueError, match="step must be a whole number from 0 to 3, got 4"):
        drawn.key_value_ring(4, 1e6)


def test_every_token_reaches_its_expert_and_comes_home():
    boxes = {
        i: {part.key: part for part in SCENES[f"experts {i}"].parts if isinstance(part, Box) and part.key}
        for i in range(4)
    }
    for i in (1, 2):
        for token in boxes[i].values():
            assert "ABCD"[int(token.x // 103)] == token.text
    for i in range(4):  # one token, the same at each step, and where tokens travel its arrow, can be followed
        coloured = [key for key, token in boxes[i].items() if token.kind == "ochre"]
        arrows = [part for part in SCENES[f"experts {i}"].parts if isinstance(part, Arrow)]
        assert coloured == ["12"]
        assert sum(not arrow.faint for arrow in arrows) == (i in (1, 3))
    assert {k: (t.x, t.y) for k, t in boxes[0].items()} == {k: (t.x, t.y) for k, t in boxes[3].items()}
    assert len({(t.x, t.y) for t in boxes[1].values()}) == 16
    with pytest.raises(ValueError, match="step must be 0, 1, 2 or 3, got 7"):
        drawn.experts(7, 1e6)
