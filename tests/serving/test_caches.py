"""Caches: what ranks hold together, the largest batch, beginnings that are shared or brought back."""

from dataclasses import replace

import numpy as np
import pytest

from clusterlab.catalogue import SERVING, machine
from clusterlab.model import Experts, LatentAttention, Layout, SlidingWindow, kv_cache_bytes, parameters, transformer
from clusterlab.serving import (
    Batch,
    Formats,
    Replica,
    Requests,
    Tier,
    continuous_batch,
    forward_pass,
    frontier,
    largest_batch,
    prefix_hits,
    replica_footprint,
    reuse,
    static_batch,
)
from serving_cases import DEEPSEEK, H100, HYBRID, HYBRID_MIXTURE, LARGE, MIXTURE, SMALL

# The first two layers are dense, one with a window and one without.
BOTH = replace(MIXTURE, dense_layers=2, layers=8, others=((7, SlidingWindow(64)),))


@pytest.mark.parametrize("shape", [SMALL, MIXTURE, DEEPSEEK, HYBRID, HYBRID_MIXTURE, BOTH])
def test_the_weights_of_one_gpu_are_the_model(shape):
    formats = Formats("fp8")
    count = parameters(shape)
    ends = count.embedding + count.output
    expected = count.total - count.norms_and_biases - ends + 2 * ends
    assert replica_footprint(Replica(shape, H100, formats=formats), sequences=0, context=0).weights == pytest.approx(
        expected
    )


def test_ranks_hold_the_model_once_and_what_they_share_in_each():
    ranks = Replica(DEEPSEEK, H100, Layout(dp=32, ep=32), Formats("fp8"))
    alone = Replica(DEEPSEEK, H100, formats=Formats("fp8"))
    held, once = (replica_footprint(one, sequences=0, context=0).weights for one in (ranks, alone))
    experts = 58 * 256 * Experts().expert_weights(DEEPSEEK)
    assert 32 * held == pytest.approx(experts + 32 * (once - experts))
    copied = replica_footprint(replace(ranks, redundant=32), sequences=0, context=0).weights
    assert copied - held == pytest.approx(58 * Experts().expert_weights(DEEPSEEK))
    halves = replica_footprint(replace(alone, layout=Layout(tp=8, ep=8)), sequences=0, context=0).weights
    _, shared = LatentAttention().weights(DEEPSEEK)
    beside = 61 * shared + 58 * 256 * 7168
    assert halves == pytest.approx((once - beside) / 8 + beside)


@pytest.mark.parametrize("layout", [{"tp": 4}, {"tp": 16}, {"dp": 4, "tp": 2}, {"pp": 4, "tp": 2}])
def test_the_largest_batch_fits_and_no_other(layout):
    soft = replace(SERVING["usual"], memory_share=1.0)
    replica = Replica(LARGE, H100, Layout(**layout), Formats("fp8", cache_bytes=1), software=soft)
    most = largest_batch(replica, 4096)
    dp = replica.layout.dp
    assert most % dp == 0
    assert replica_footprint(replica, sequences=most, context=4096).total <= H100.hbm_capacity
    assert replica_footprint(replica, sequences=most + dp, context=4096).total > H100.hbm_capacity
    one = replica_footprint(replica, sequences=1, context=4096)
    whole = kv_cache_bytes(LARGE, 4096, bytes_per_element=1)
    assert one.caches == pytest.approx(whole * max(1 / replica.layout.tp, 1 / 8) / (dp * replica.layout.pp))
    assert one.total == one.weights + one.activations + one.caches


@pytest.mark.parametrize("layout", [{"tp": 4}, {"dp": 4, "tp": 2}, {"pp": 4, "tp": 2}])
@pytest.mark.parametrize("shape", [LARGE, transformer("gpt-oss 120B"), HYBRID], ids=["70B", "windows", "hybrid"])
def test_a_common_beginning_is_held_once_in_each_attention_group(shape, layout):
    soft = replace(SERVING["usual"], memory_share=1.0)
    replica = Replica(shape, H100, Layout(**layout), Formats("fp8", cache_bytes=1), software=soft)
    dp = replica.layout.dp
    most = largest_batch(replica, 4096, shared=1000)
    once = replica_footprint(replica, sequences=dp, context=1000).caches
    own = [replica_footprint(replica, sequences=n, context=3096).total for n in (most, most + dp)]
    assert own[0] + once <= H100.hbm_capacity < own[1] + once
    assert largest_batch(replica, 4096, shared=0) == largest_batch(replica, 4096) < most


def test_what_does_not_fit_serves_nobody():
    replica = Replica(LARGE, H100, formats=Formats("bf16"))
    assert largest_batch(replica, 100) == 0
    with pytest.raises(ValueError, match="not one sequence fits"):
        static_batch(replica, Requests(10, 10), sequences=1)
    service = continuous_batch(replica, Requests(10, 10))
    assert service.tokens_per_second == 0
    assert np.isnan(service.time_per_token)
    assert "nan s\n" in repr(service)
    with pytest.raises(ValueError, match=r"nothing fits: Llama 3\.1 70B on 1 of H100 SXM"):
        frontier(replica, Requests(10, 10), gpus=1)


def test_a_trillion_parameters_are_a_fourteenth_of_a_rack():
    rack = Replica(transformer("Kimi K2"), machine("GB200"), Layout(dp=72, ep=72), Formats("fp8"), redundant=48)
    memory = 72 * rack.machine.hbm_capacity
    assert 13 < memory / parameters(rack.model).total < 14
    assert largest_batch(rack, 8192) * kv_cache_bytes(rack.model, 8192) > 0.6 * memory


@pytest.mark.parametrize(
    ("name", "layout", "share"),
    [
        ("Llama 3.1 70B", Layout(tp=4), 1 / 4),
        ("Llama 3.1 70B", Layout(tp=16), 1 / 8),
        ("Llama 3.1 70B", Layout(tp=2, pp=4), 1 / 8),
        ("DeepSeek-V3", Layout(dp=32, ep=32), 1.0),
    ],
)
def test_a_cache_in_a_second_tier_is_its_bytes_over_the_way_to_each_gpu(name, layout, share):
    replica = Replica(transformer(name), H100, layout, Formats("fp8", cache_bytes=1))
    found = reuse(replica, 4096, bandwidth=5e9, latency=1e-3)
    size = share * kv_cache_bytes(transformer(name), 4096, bytes_per_element=1)
    assert found.size == pytest.approx(size)
    assert found.fetch == pytest.approx(1e-3 + size / 5e9)
    ranks = layout.dp * layout.pp
    assert found.compute == forward_pass(replica, Batch(prompt_tokens=4096 * ranks, chunk=4096)).time
    assert reuse(replica, 4096, bandwidth=found.enough).speedup == pytest.approx(1)
    # Keys and values grow with the tokens, computing them faster than that: long beginnings are worth keeping most.
    assert reuse(replica, 32768, bandwidth=5e9).speedup > reuse(replica, 8192, bandwidth=5e9).speedup


def test_a_router_with_a_limit_reads_prompts_faster_on_many_nodes_and_decodes_as_before():
    """Decoding sends every copy straight to its rank; and four nodes are within DeepSeek-V3's four anyway."""
    free = replace(DEEPSEEK, node_limit=0)
    for batch, faster in ((Batch(prompt_tokens=64 * 8192, chunk=4096), True), (Batch(sequences=64 * 64), False)):
        limited, open_ = (
            forward_pass(Replica(shape, H100, Layout(dp=64, ep=64), Formats("fp8")), batch).exchange
            for shape in (DEEPSEEK, free)
        )
        assert (limited < 0.8 * open_) if faster else limited == open_
    four = [
        forward_pass(Replica(shape, H100, Layout(dp=32, ep=32)), Batch(prompt_tokens=1e5, chunk=4096)).time
        for shape in (DEEPSEEK, free)
    ]
    assert four[0] == four[1]


# --- Tiers that keep what users come back to -------------------------------------------------------------------------

SERVER = Replica(LARGE, H100, Layout(tp=8), Formats("fp8", cache_bytes=1))
CONVERSATION = 8000 * kv_cache_bytes(LARGE, 1, bytes_per_element=1)
FAST, DISK = Tier(100 * CONVERSATION, 50e9), Tier(900 * CONVERSATION, 5e9)


def lru(sizes, arrivals, pauses, homes):
    """Hits of each tier: conversations in the order of use, of which the first so many are in the first, and so on.

    ``homes`` is the replica that serves each visit; every replica keeps what it has served.
    """
    visits = sorted(
        (when + k * pause, user, k)
        for user, (when, pause) in enumerate(zip(arrivals, pauses, strict=True))
        for k in (0, 1)
    )
    kept, hits, returned = {}, np.zeros(len(sizes)), 0
    counted = range(
        len(arrivals) // 3, len(arrivals) // 2
    )  # when it is full, and those who are still to come back will
    for _, user, again in visits:
        order = kept.setdefault(homes(user, again), [])
        if again:
            returned += user in counted
            if user in order:
                depth = len(order) - 1 - order.index(user)
                reached = np.searchsorted(np.cumsum(sizes), depth, side="right")
                if reached < len(sizes) and user in counted:
                    hits[reached] += 1
                order.remove(user)
        order.append(user)
        del order[: -int(sum(sizes))]
    return hits / returned


@pytest.mark.parametrize("pause", [20.0, 200.0])
def test_tiers_keep_what_users_come_back_to(pause):
    """A thousand conversations in two tiers, and 12,000 users who come twice, in the order of last use."""
    rng = np.random.default_rng(6)
    arrivals = np.cumsum(rng.exponential(1 / 4, 12_000))  # eight visits a second in all
    seen = lru((100, 900), arrivals, rng.exponential(pause, 12_000), lambda *_: 0)
    found = prefix_hits(SERVER, 8000, [FAST, DISK], rate=8, pause=pause, again=0.5)
    assert 100 / 8 < found.keeps[0] < found.keeps[1] < 2000 / 8
    assert seen == pytest.approx(found.hits, abs=0.03)


def test_routing_by_prefix_finds_what_chance_does_not():
    rng, many = np.random.default_rng(7), 4
    arrivals = np.cumsum(rng.exponential(1 / 4, 12_000))
    pauses = rng.exponential(60, 12_000)
    by_user = lru((25, 225), arrivals, pauses, lambda user, _: user % many)
    by_chance = lru((25, 225), arrivals, pauses, lambda *_: rng.integers(many))
    some = [Tier(25 * CONVERSATION, 50e9), Tier(225 * CONVERSATION, 5e9)]
    routed, lost = (
        prefix_hits(SERVER, 8000, some, rate=8, pause=60, again=0.5, replicas=many, routed=routed)
        for routed in (True, False)
    )
    assert by_user == pytest.approx(routed.hits, abs=0.03)
    assert by_chance == pytest.approx(lost.hits, abs=0.03)
    assert lost.cached == pytest.approx(routed.cached / many)
    # A tier that all share finds everybody.
    pool = prefix_hits(
        SERVER,
        8000,
        [some[0], Tier(900 * CONVERSATION, 5e9, shared=True)],
        rate=8,
        pause=60,
        again=0.5,
        replicas=many,
        routed=False,
    )
    assert pool.cached == pytest.approx(routed.cached)
    assert pool.time > routed.time


def test_a_tier_that_is_slower_than_computing_is_left_out():
    slow = Tier(900 * CONVERSATION, 0.1e9)
    found = prefix_hits(SERVER, 8000, [FAST, slow], rate=8, pause=60)
    assert found.hits[1] == 0 < found.hits[0]
    assert found.time == pytest.approx(found.cached * found.fetch[0] + (1 - found.cached) * found.compute)
    assert found.fetch[0] < found.compute < found.fetch[1]
    assert "computed anew" in repr(found)
    assert "bandwidth" in repr(slow)


def test_tiers_that_are_none_are_refused():
    with pytest.raises(ValueError, match="tiers must be one or more"):
        prefix_hits(SERVER, 8000, [], rate=8, pause=60)
    with pytest.raises(ValueError, match="tiers that are shared must come last"):
        prefix_hits(SERVER, 8000, [replace(FAST, shared=True), DISK], rate=8, pause=60)
    with pytest.raises(ValueError, match="capacity"):
        Tier(0, 1e9)
