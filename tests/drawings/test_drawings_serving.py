"""Drawings of serving: what is drawn is what the laws say, and every text has its room."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterlab.serving import pipelined_decode, simulate_queue
from drawings import serving as draw
from explorable import Arrow, Box

RACKS = [
    draw.Held("8 H100s", 640e9, 1026e9, 0.0, "1.03 TB of weights: they don't fit"),
    draw.Held("128 H100s, servers of 8", 10.2e12, 1.5e12, 4e12, "4,096 users, 1,234 tokens/s a GPU, $0.83 a million"),
    draw.Held("a rack of 72 GB200s", 13.4e12, 2.1e12, 2.3e12, "13,033 users, 9,495 tokens/s a GPU, $0.16 a million"),
]
LENGTHS = [9, 3, 5, 2, 4, 7, 2, 6, 3, 8, 2, 5]
GUESTS = (2, 6, 9, 13, 17, 22, 26, 31)


def dispatch(domain, back=False):
    return draw.dispatch(GUESTS, 32, domain, size=7168.0 * (1 + back), back=back, time=179e-6)


def racks(microbatches, slot, stages=4):
    run = pipelined_decode(stages, microbatches, stage_time=20e-3)
    return draw.racks(stages, microbatches, slot, run=run, stage_time=20e-3, hand_off="14.3 kB")


def pools(readers, writers):
    return draw.pools(
        readers, writers, cache=141e6, rate=50e9, passes=("servers read\nprompts", "servers decode,\na token a pass")
    )


def hall(working):
    pools = [
        draw.Pool("read", working, 9, "rack: 72 GPUs, 380 requests/s"),
        draw.Pool("write", working, 10, "rack: 72 GPUs, 351 requests/s"),
    ]
    comes, goes = "3,000 requests/s, 4,000 tokens each", "3 million tokens/s"
    return draw.hall("15:00", pools, comes=comes, between="a cache of 141 MB for each request", goes=goes)


SCENES = {
    "memory": lambda: draw.memory(RACKS),
    "memory of two": lambda: draw.memory(RACKS[:2]),
    "batches": lambda: draw.batches(LENGTHS, 4),
    "dispatch in servers": lambda: dispatch(8),
    "combine in a rack": lambda: dispatch(32, True),
    "one microbatch": lambda: racks(1, 0),
    "four microbatches": lambda: racks(4, 7),
    "six microbatches": lambda: racks(6, 12),
    "pools": lambda: pools(95, 131),
    "pools, few that read": lambda: pools(10, 200),
    "hall by day": lambda: hall(8),
    "hall by night": lambda: hall(2),
}


def test_a_hall_fills_as_many_racks_as_work():
    boxes = [part for part in hall(3).parts if isinstance(part, Box)]
    assert [box.kind for box in boxes] == 3 * ["compute"] + 6 * ["grey"] + 3 * ["cache"] + 7 * ["grey"]


def test_memories_are_drawn_to_one_scale():
    boxes = [part for part in draw.memory(RACKS).parts if isinstance(part, Box)]
    frames = [box for box in boxes if not box.solid and box.height > 20]
    np.testing.assert_allclose([b.width / frames[-1].width for b in frames], [e.capacity / 13.4e12 for e in RACKS])
    assert [frame.kind for frame in frames] == ["waste", "ink", "ink"]
    filled = [box for box in boxes if box.solid and box.height > 20]
    shares = [value / 13.4e12 for each in RACKS[1:] for value in (each.weights, each.caches)]
    np.testing.assert_allclose([box.width / frames[-1].width for box in filled], shares)
    assert filled[1].x == pytest.approx(filled[0].x + filled[0].width)


@given(lengths=st.lists(st.integers(1, 30), min_size=1, max_size=20), slots=st.integers(1, 6))
def test_a_batch_that_is_refilled_ends_as_an_engine_run_pass_by_pass(lengths, slots):
    found = draw.seats(lengths, slots, continuous=True)
    run = simulate_queue(np.zeros(len(lengths)), lengths, np.ones(slots))
    assert [seat.end for seat in found] == pytest.approx(run.latency)
    assert [seat.start for seat in found] == pytest.approx(run.wait)
    together = draw.seats(lengths, slots, continuous=False)
    blocks = [lengths[i : i + slots] for i in range(0, len(lengths), slots)]
    assert max(seat.end for seat in together) == sum(max(block) for block in blocks[:-1]) + max(blocks[-1])
    for some in (found, together):
        for one, other in combinations(some, 2):
            assert one.slot != other.slot or one.end <= other.start or other.end <= one.start


def test_batches_are_as_long_as_they_take():
    solid = [part for part in draw.batches(LENGTHS, 4).parts if isinstance(part, Box) and part.solid]
    assert [box.text for box in solid if box.text][:1] == ["1"]
    unit = 392 / 24
    widths = [round((box.width + 1) / unit) for box in solid]
    assert widths == LENGTHS * 2


def test_copies_leave_the_server_where_the_expert_does():
    arrows = [part for part in dispatch(8).parts if isinstance(part, Arrow)]
    assert [arrow.kind for arrow in arrows] == ["nvlink" if gpu < 8 else "network" for gpu in GUESTS]
    assert {part.kind for part in dispatch(32).parts if isinstance(part, Arrow)} == {"nvlink"}
    there, back = (next(p for p in dispatch(8, b).parts if isinstance(p, Arrow)) for b in (False, True))
    assert (there.x0, there.y0, there.x1, there.y1) == (back.x1, back.y1, back.x0, back.y0)
    assert "2 over NVLink, 6 over the network" in dispatch(8).alt
    assert dispatch(8, True).alt.startswith("8 results of 14.3 kB come back to GPU 0")


@pytest.mark.parametrize("microbatches", [1, 2, 4, 6])
def test_racks_are_as_busy_as_the_train(microbatches):
    """Over a whole round, once the train is full, the boxes in the racks are the busy share of the law."""
    round_ = max(4, microbatches)
    inside = [
        sum(isinstance(part, Box) and part.solid for part in racks(microbatches, 24 + slot).parts)
        for slot in range(round_)
    ]
    assert np.mean(inside) / 4 == pytest.approx(float(pipelined_decode(4, microbatches, stage_time=20e-3).busy))
    token_time = pipelined_decode(4, microbatches, stage_time=20e-3).token_time
    assert f"{token_time * 1e3:.0f} ms for a token" in racks(microbatches, 9).alt


def test_a_microbatch_moves_a_rack_a_step():
    def where(slot):
        return {part.key: part.x for part in racks(4, slot).parts if isinstance(part, Box) and part.key}

    before, after = where(5), where(6)
    assert before.keys() == after.keys() == {f"batch {j}" for j in range(1, 5)}
    places = sorted(before.values())
    for key, x in before.items():
        assert after[key] == places[(places.index(x) + 1) % 4]


def test_pools_are_in_proportion():
    readers, writers = [part for part in pools(95, 131).parts if isinstance(part, Box)]
    assert readers.width / writers.width == pytest.approx(95 / 131)
    assert "in 2.82 ms" in pools(95, 131).alt
