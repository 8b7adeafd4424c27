"""Drawings of parallelism: what is drawn is what the law or the record says, and every text has its room."""

import re
from dataclasses import replace

import numpy as np
import pytest

from clusterlab.catalogue import machine
from clusterlab.interconnect import exposed_time
from clusterlab.model import Layout, Workload, transformer
from clusterlab.parallelism import (
    data_parallel_ratio,
    footprint,
    sent_bytes,
    simulate_pipeline,
    step,
    tensor_parallel_ratio,
)
from clusterlab.units import GB, fmt
from drawings import parallelism as pipelines
from explorable import Box, Label

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


SCENES = {
    "cluster": pipelines.cluster(META, sent(META)),
    "memory of 8B": pipelines.rank_memory(held(LLAMA8), 80 * GB, most=200 * GB),
    "memory of 70B": pipelines.rank_memory(held(LLAMA70) | {"CP": None}, 80 * GB, most=500 * GB),
    "hiding": pipelines.hiding(forward=0.1, backward=0.2, gradients=0.3, weights=0.15, contention=0.25),
    **{f"experts {i}": pipelines.experts(i, 470e6) for i in range(4)},
    **{f"ring {i}": pipelines.key_value_ring(i, 1.05e6) for i in range(4)},
    **{f"tp {tp}": pipelines.placement(Layout(tp=tp, dp=32 // tp)) for tp in (4, 8, 16)},
    **{f"{name} at {t}": pipelines.pipeline_now(run, t) for name, run in RUNS.items() for t in range(0, 34, 3)},
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


def test_the_cluster_prints_the_bytes_that_it_is_given():
    scene, of = SCENES["cluster"], sent(META)
    texts = " ".join(getattr(part, "text", "") for part in scene.parts)
    for axis in ("tensor", "pipeline", "data"):
        assert fmt(of[axis], "B", 2) in texts
        assert fmt(of[axis], "B", 2) in scene.alt
    gpus = [part for part in scene.parts if isinstance(part, Box) and part.kind == "compute"]
    assert len(gpus) == 3 * 3 * 8
    assert {"stage 15", "replica 127"} <= {getattr(part, "text", "") for part in scene.parts}


@pytest.mark.parametrize("tp", [4, 8, 16])
def test_tensor_parallel_peers_are_orange_exactly_where_they_leave_the_server(tp):
    boxes = [part for part in SCENES[f"tp {tp}"].parts if isinstance(part, Box) and part.text == "T"]
    kinds = [box.kind for box in boxes]
    assert len(kinds) == tp - 1
    assert kinds.count("network") == max(tp - 8, 0)


def test_peers_partition_what_a_layout_spans():
    layout = Layout(tp=4, cp=2, dp=2, pp=2)
    found = pipelines.peers(layout)
    assert found == {"tensor": [1, 2, 3], "context": [4], "data": [8], "pipeline": [16]}
    with pytest.raises(ValueError, match="layout must be of 32 accelerators, got 8"):
        pipelines.placement(Layout(tp=8))


def test_the_stacks_of_memory_are_to_scale():
    found = held(LLAMA8)
    scene = pipelines.rank_memory(found, 80 * GB, most=200 * GB)
    boxes = [part for part in scene.parts if isinstance(part, Box) and part.width == 36]
    for i, one in enumerate(found.values()):
        here = [box for box in boxes if box.x == 8 + 50.5 * i]
        assert sum(box.height for box in here) == pytest.approx(one.total * 196 / 200e9, abs=1.5)
        weights = next(box for box in here if box.kind == "weights")
        assert weights.height == pytest.approx(one.weights * 196 / 200e9)
    strong = [part.text for part in scene.parts if isinstance(part, Label) and part.strong]
    assert len(strong) == sum(one.total <= 80 * GB for one in found.values())


def test_a_stack_that_is_too_high_is_broken_and_one_that_cannot_be_built_is_a_dash():
    scene = pipelines.rank_memory({"DP": held(LLAMA70)["DP"], "CP": None}, 80 * GB, most=500 * GB)
    tops = [part.y for part in scene.parts if isinstance(part, Box) and part.width == 36]
    assert min(tops) == pytest.approx(232 - 196 - 10)
    assert "CP: cannot be built" in scene.alt


@pytest.mark.parametrize("name", RUNS)
def test_what_the_stages_hold_reaches_what_the_timeline_says(name):
    run = RUNS[name]
    most = np.zeros(4)
    for now in np.arange(0, 34, 0.25):
        alt = pipelines.pipeline_now(run, now).alt
        most = np.maximum(most, [float(n) for n in re.findall(r"holds ([\d.]+?)[;.]?(?=;|\.$| |$)", alt)])
    assert most.tolist() == run.in_flight.tolist()


@pytest.mark.parametrize("name", RUNS)
def test_idle_spans_and_work_fill_the_time(name):
    run = RUNS[name]
    idle = np.zeros(4)
    for stage, start, end in pipelines.idle_spans(run):
        idle[stage] += end - start
    assert idle == pytest.approx(run.idle)


def test_keys_and_values_go_once_around_and_every_block_is_scored_once():
    for moves in range(4):
        boxes = [part for part in SCENES[f"ring {moves}"].parts if isinstance(part, Box)]
        at = {box.key: (box.x, box.y) for box in boxes if box.key}
        assert len(set(at.values())) == 4
        scored = [box for box in boxes if box.width == 30 and box.solid]
        assert len(scored) == 4 * (moves + 1)
        assert sum(box.text == str(moves + 1) for box in scored) == 4
    with pytest.raises(ValueError, match="step must be a whole number from 0 to 3, got 4"):
        pipelines.key_value_ring(4, 1e6)


def test_every_token_reaches_its_expert_and_comes_home():
    boxes = {
        i: {part.key: part for part in SCENES[f"experts {i}"].parts if isinstance(part, Box) and part.key}
        for i in range(4)
    }
    for i in (1, 2):
        for token in boxes[i].values():
            assert "ABCD"[int(token.x // 103)] == token.text
    assert {k: (t.x, t.y) for k, t in boxes[0].items()} == {k: (t.x, t.y) for k, t in boxes[3].items()}
    assert len({(t.x, t.y) for t in boxes[1].values()}) == 16
    with pytest.raises(ValueError, match="step must be 0, 1, 2 or 3, got 7"):
        pipelines.experts(7, 1e6)


@pytest.mark.parametrize(("gradients", "weights"), [(0.3, 0.15), (0.1, 0.02), (0.2, 0.1)])
def test_what_shows_of_an_exchange_is_what_the_hiding_law_says(gradients, weights):
    times = {"forward": 0.1, "backward": 0.2, "gradients": gradients, "weights": weights, "contention": 0.25}
    scene = pipelines.hiding(**times)
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
    assert sum(pipelines.shares(of, run).values()) == pytest.approx(run.time)
