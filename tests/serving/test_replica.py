"""Records and refusals of serving: every place that refuses is reached."""

from dataclasses import replace

from clusterlab.model import Layout
from clusterlab.serving import (
    Batch,
    Drafts,
    Formats,
    Replica,
    Requests,
    Tier,
    balanced_loads,
    caches,
    continuous_batch,
    decoding,
    disaggregate,
    forward_pass,
    frontier,
    frontiers,
    fullest_rank,
    largest_batch,
    passes,
    pipelined_decode,
    prefix_hits,
    replica,
    replica_footprint,
    routing,
    static_batch,
    violations,
)
from clusterlab.serving import batches as load_batches
from refusals import unreached
from serving_cases import BARE, DEEPSEEK, H100, HYBRID, LARGE, MIXTURE, SMALL


def test_every_record_prints_itself():
    replica = Replica(LARGE, H100, Layout(tp=4), Formats("fp8"))
    found = forward_pass(replica, Batch(sequences=100, context=1000))
    assert "all-reduces" in repr(found)
    assert "MFU" in repr(found)
    service = continuous_batch(replica, Requests(100, 100))
    assert "tokens per second per gpu" in repr(service)
    assert "fit" in repr(frontier(replica, Requests(100, 100), gpus=8))
    assert "busy" in repr(pipelined_decode(4, 4, stage_time=1))
    assert "prefill share" in repr(disaggregate(1, 2))
    assert "fp8" in repr(replace(replica, two_batch_overlap=True))
    assert "caches" in repr(replica_footprint(replica, sequences=1, context=1))


MISTAKES = {
    "compute must be one of bf16": lambda: Formats("fp3"),
    "compute must be one of bf16, fp16, fp8, int8 on H100 SXM; got 'fp4'": lambda: Replica(
        SMALL, H100, formats=Formats("fp4")
    ),
    "mixing must be one of bf16": lambda: Formats("fp8", mixing="fp3"),
    "mixing must be one of bf16, fp16, fp8, int8 on H100 SXM; got 'fp4'": lambda: Replica(
        SMALL, H100, formats=Formats("fp8", mixing="fp4")
    ),
    "cache_bytes must be positive": lambda: Formats(cache_bytes=0),
    "output must be at least 1": lambda: Requests(10, 0.5),
    "shared must be below context, got 10 of 10": lambda: largest_batch(Replica(SMALL, H100), 10, shared=10),
    "cached must be at most 1": lambda: Requests(10, 10, 1.1),
    "read must be positive": lambda: static_batch(Replica(SMALL, H100), Requests(10, 10, 1.0), sequences=1),
    "output_spread must be 0": lambda: static_batch(
        Replica(SMALL, H100), Requests(10, 10, output_spread=1), sequences=1
    ),
    "tiers must be one or more": lambda: prefix_hits(Replica(SMALL, H100), 100, [], rate=1, pause=1),
    "tiers that are shared must come last": lambda: prefix_hits(
        Replica(SMALL, H100), 100, [Tier(1e9, 1e9, shared=True), Tier(1e9, 1e9)], rate=1, pause=1
    ),
    "tokens must be positive": lambda: Batch(),
    "verified must be at least 1": lambda: Batch(sequences=1, verified=0.5),
    "two_batch_overlap must be True or False": lambda: Replica(SMALL, H100, two_batch_overlap=1),
    "experts_per_token must be at most experts, got 9 of 8": lambda: fullest_rank(
        1, experts=8, experts_per_token=9, ranks=2
    ),
    "loads must have one dimension": lambda: balanced_loads([[1, 2]], 2),
    "ranks must divide experts and copies, got 2 and 5": lambda: balanced_loads([1, 2, 3, 4], 2, redundant=1),
    "not one sequence fits": lambda: static_batch(
        Replica(LARGE, H100, formats=Formats("bf16")), Requests(10, 10), sequences=1
    ),
    "acceptance must be at most 1, got 2": lambda: Drafts(acceptance=2),
    "speed must be at most": lambda: frontier(Replica(SMALL, H100), Requests(10, 10), gpus=1).best(speed=1e9),
    "nothing fits": lambda: frontier(Replica(LARGE, H100), Requests(10, 10), gpus=1),
    "tp must divide heads, got": lambda: Replica(SMALL, H100, Layout(tp=3)),
    "ep must divide experts with redundant": lambda: Replica(DEEPSEEK, H100, Layout(dp=72, ep=72)),
    "pp must be at most layers": lambda: Replica(SMALL, H100, Layout(pp=33)),
    "cp must be 1": lambda: Replica(SMALL, H100, Layout(cp=2)),
    "tp must divide mamba_groups, got tp 16, mamba_groups 8": lambda: Replica(HYBRID, H100, Layout(tp=16)),
    "two_axes of the software must be False where layers are Mamba2": lambda: Replica(
        HYBRID, H100, software=replace(BARE, two_axes=True)
    ),
    "ep times etp must divide tp dp": lambda: Replica(MIXTURE, H100, Layout(dp=4, ep=8)),
}


def test_every_refusal_is_reached():
    assert unreached(replica, MISTAKES, routing, caches, load_batches, frontiers, decoding, passes) == set()


def test_faults_say_which_layouts_can_serve():
    layouts = Layout(tp=[1, 3, 8], dp=[8, 1, 1], ep=[8, 1, 8])
    assert violations(MIXTURE, layouts).valid.tolist() == [True, False, True]
