"""Drawings of pipelines and memory: what is drawn is what the law or the record says, and every text has its room."""

import re

import numpy as np
import pytest

from clusterlab.model import Layout, Workload, transformer
from clusterlab.parallelism import footprint, simulate_pipeline
from clusterlab.units import GB
from drawings import pipeline as drawn
from explorable import Arrow, Box, Label

LLAMA8, LLAMA70 = (transformer(f"Llama 3.1 {size}") for size in ("8B", "70B"))
ONE_WAY = {"DP": {"dp": 8, "zero": 0}, "ZeRO 3": {"dp": 8, "zero": 3}, "TP": {"tp": 8}, "PP": {"pp": 8}}
RUNS = {
    "gpipe": simulate_pipeline("gpipe", stages=4, microbatches=8),
    "1f1b": simulate_pipeline("1f1b", stages=4, microbatches=8),
    "chunks": simulate_pipeline("interleaved", stages=4, microbatches=8, chunks=2),
}


def held(shape):
    layouts = {name: Layout(**cut) for name, cut in ONE_WAY.items()}
    return {
        name: footprint(shape, Workload(sequence=8192, global_batch=cut.dp * cut.pp), cut)
        for name, cut in layouts.items()
    }


SCENES = {
    "memory of 8B": drawn.rank_memory(held(LLAMA8), 80 * GB, most=200 * GB),
    "memory of 70B": drawn.rank_memory(held(LLAMA70) | {"CP": None}, 80 * GB, most=500 * GB),
    "memory of 8B, kept or not": drawn.rank_memory(
        dict(zip(("8 chunks", "recompute"), held(LLAMA8).values(), strict=False)), 80 * GB, most=140 * GB
    ),
    **{f"{name} at {t}": drawn.pipeline_now(run, t) for name, run in RUNS.items() for t in range(0, 34, 3)},
    "sixteen stages": drawn.whole_schedule(simulate_pipeline("gpipe", stages=16, microbatches=16)),
    "two chunks": drawn.until_first_gradient(RUNS["chunks"]),
}


def test_the_stacks_of_memory_are_to_scale():
    found = held(LLAMA8)
    scene = drawn.rank_memory(found, 80 * GB, most=200 * GB)
    boxes = [part for part in scene.parts if isinstance(part, Box) and part.width == 36]
    for i, one in enumerate(found.values()):
        here = [box for box in boxes if box.x == 8 + 50.5 * i]
        assert sum(box.height for box in here) == pytest.approx(one.total * 190 / 200e9, abs=1.5)
        weights = next(box for box in here if box.kind == "weights")
        assert weights.height == pytest.approx(one.weights * 190 / 200e9)
    strong = [part.text for part in scene.parts if isinstance(part, Label) and part.strong]
    low, high = drawn.maybe(found, 80 * GB)
    assert len(strong) == sum(one.high <= 80 * GB for one in found.values())
    (band,) = [box for box in scene.parts if isinstance(box, Box) and box.kind == "red" and box.width > 100]
    assert (band.y + band.height, band.y) == pytest.approx((232 - low * 190 / 200e9, 232 - high * 190 / 200e9))


def test_a_stack_above_the_picture_is_cut_off_and_goes_on_as_an_arrow_and_one_that_cannot_be_built_is_a_dash():
    found = {"DP": held(LLAMA70)["DP"], "TP": held(LLAMA70)["TP"], "CP": None}
    scene = drawn.rank_memory(found, 80 * GB, most=500 * GB)
    assert found["DP"].total > 1000e9
    stack = [part for part in scene.parts if isinstance(part, Box) and part.x == 8 and part.width == 36]
    assert min(box.y for box in stack) == pytest.approx(232 - 190)
    assert sum(box.height for box in stack) == pytest.approx(190, abs=1)
    (arrow,) = [part for part in scene.parts if isinstance(part, Arrow) and part.heads]
    assert (arrow.x0, arrow.x1) == (8 + 18, 8 + 18)
    assert arrow.y1 < arrow.y0 < 232 - 190
    assert "CP: cannot be built" in scene.alt


@pytest.mark.parametrize("name", RUNS)
def test_what_the_stages_hold_reaches_what_the_timeline_says(name):
    run = RUNS[name]
    most = np.zeros(4)
    for now in np.arange(0, 34, 0.25):
        alt = drawn.pipeline_now(run, now).alt
        most = np.maximum(most, [float(n) for n in re.findall(r"holds ([\d.]+?)[;.]?(?=;|\.$| |$)", alt)])
    assert most.tolist() == run.in_flight.tolist()


@pytest.mark.parametrize("name", RUNS)
def test_idle_spans_and_work_fill_the_time(name):
    run = RUNS[name]
    idle = np.zeros(4)
    for stage, start, end in drawn.idle_spans(run):
        idle[stage] += end - start
    assert idle == pytest.approx(run.idle)


def test_a_whole_schedule_is_to_scale_and_every_row_is_full():
    run = simulate_pipeline("gpipe", stages=16, microbatches=16)
    boxes = [part for part in SCENES["sixteen stages"].parts if isinstance(part, Box) and part.solid]
    wide = {
        kind: sum(box.width for box in boxes[:-3] if box.kind == kind) for kind in ("forward", "backward", "bubble")
    }
    assert wide["backward"] == pytest.approx(2 * wide["forward"])
    assert wide["bubble"] == pytest.approx(15 / 16 * (wide["forward"] + wide["backward"]))
    assert sum(wide.values()) == pytest.approx(16 * 330)
    assert "Each works 48 slots and waits 45" in SCENES["sixteen stages"].alt
    assert run.time == 93


def test_what_stage_0_holds_until_its_first_gradient_grows_by_a_piece_to_what_the_timeline_says():
    bars = [part for part in SCENES["two chunks"].parts if isinstance(part, Box) and part.kind == "activations"][:-2]
    assert [round(bar.height / bars[0].height) for bar in bars] == list(range(1, 12))
    assert [bar.solid for bar in bars] == [False] * 8 + [True] * 3
    assert len(bars) / 2 == RUNS["chunks"].in_flight[0]
    (strong,) = [part.text for part in SCENES["two chunks"].parts if isinstance(part, Label) and part.strong]
    assert strong == "11"
