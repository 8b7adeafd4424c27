"""Drawings of the training step: what is drawn is what the law or the record says, and every text has its room."""

from dataclasses import replace

import pytest

from clusterlab.catalogue import machine
from clusterlab.interconnect import exposed_time
from clusterlab.model import Layout, Workload, transformer
from clusterlab.parallelism import sent_bytes, step
from clusterlab.units import fmt
from drawings import step as drawn
from explorable import Box

LLAMA405 = transformer("Llama 3.1 405B")
WORK = Workload(sequence=8192, global_batch=2048)
META = Layout(tp=8, pp=16, dp=128, chunks=8)


def sent(layout, shape=LLAMA405, work=WORK):
    return sent_bytes(shape, work, layout)


SHARED = Layout(tp=8, pp=16, cp=2, dp=64, chunks=8)
SCENES = {
    "cluster": drawn.cluster(META, sent(META)),
    "cluster of shared sequences": drawn.cluster(SHARED, sent(SHARED)),
    "hiding": drawn.hiding(forward=0.1, backward=0.2, gradients=0.3, weights=0.15, contention=0.25),
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
