"""Drawings of the training step: what is drawn is what the law or the record says, and every text has its room."""

import re
from dataclasses import replace

import numpy as np
import pytest

from clusterlab.catalogue import machine
from clusterlab.interconnect import exposed_time
from clusterlab.model import Layout, Workload, transformer
from clusterlab.parallelism import footprint, sent_bytes, simulate_pipeline, step
from clusterlab.units import GB, fmt
from drawings import step as drawn
from explorable import Arrow, Box, Label

LLAMA8, LLAMA70, LLAMA405 = (transformer(f"Llama 3.1 {size}") for size in ("8B", "70B", "405B"))
WORK = Workload(sequence=8192, global_batch=2048)
META = Layout(tp=8, pp=16, dp=128, chunks=8)
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


def sent(layout, shape=LLAMA405, work=WORK):
    return sent_bytes(shape, work, layout)


SHARED = Layout(tp=8, pp=16, cp=2, dp=64, chunks=8)
SCENES = {
    "cluster": drawn.cluster(META, sent(META)),
    "cluster of shared sequences": drawn.cluster(SHARED, sent(SHARED)),
    "memory of 8B": drawn.rank_memory(held(LLAMA8), 80 * GB, most=200 * GB),
    "memory of 70B": drawn.rank_memory(held(LLAMA70) | {"CP": None}, 80 * GB, most=500 * GB),
    "hiding": drawn.hiding(forward=0.1, backward=0.2, gradients=0.3, weights=0.15, contention=0.25),
    **{f"{name} at {t}": drawn.pipeline_now(run, t) for name, run in RUNS.items() for t in range(0, 34, 3)},
}


def test_the_cluster_prints_the_bytes_that_it_is_given():
    scene, of = SCENES["cluster"], sent(META)
    texts = " ".join(getattr(part, "text", "") for part in scene.parts)
    for axis in ("tensor", "pipeline", "data"):
        assert fmt(of[axis], "B", 2) in texts
        assert fmt(of[axis], "B", 2) in scene.alt
    gpus = [part for part in scene.parts if isinstance(part, Box) and part.kind == "compute"]
    assert len(gpus) == 3 * 3 * 8
    assert {"stage 15", "replica 127"} <= {getattr(part, "text", "") for part in scene.parts}


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
    assert len(strong) == sum(one.total <= 80 * GB for one in found.values())


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


@pytest.mark.parametrize(("gradients", "weights"), [(0.3, 0.15), (0.1, 0.02), (0.2, 0.1)])
def test_what_shows_of_an_exchange_is_what_the_hiding_law_says(gradients, weights):
    times = {"forward": 0.1, "backward": 0.2, "gradients": gradients, "weights": weights, "contention": 0.25}
    scene = drawn.hiding(**times)
    lost = sum(
        part.width for part in scene.parts if isinstance(part, Box) and part.kind in ("lost", "idle") and part.y < 90
    )
    work = sum(part.width for part in scene.parts if isinstance(part, Box) and part.kind in ("forward", "backward"))
    law = exposed_time(gradients, 0.2, contention=0.25) + exposed_time(weights, 0.1, contention=0.25)
    assert lost / work == pytest.approx(law / 0.3, rel=1e-6)
    assert all(part.x >= -1e-6 for part in scene.parts if isinstance(part, Box))


def test_a_bar_of_shares_is_as_long_as_the_step():
    run = step(LLAMA405, machine("H100 SXM"), WORK, replace(META))
    of = {"work": ("gemms", "attention", "elementwise", "recomputation", "optimizer"), "wires": ("tensor", "data")}
    of |= {"rest": ("context", "expert", "transfers", "bubble")}
    assert sum(drawn.shares(of, run).values()) == pytest.approx(run.time)


def test_two_servers_that_share_a_sequence_are_two_rows_of_one_replica():
    scene, of = SCENES["cluster of shared sequences"], sent(SHARED)
    texts = [getattr(part, "text", "") for part in scene.parts]
    assert {"replica 0\nfirst half", "replica 0\nother half", "replica 63\nother half"} <= set(texts)
    assert fmt(of["context"], "B", 2) in texts
    assert "64 replicas of 32 servers of 8 GPUs" in scene.alt
