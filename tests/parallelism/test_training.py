"""The training step: published runs, a pipeline that runs, a count GEMM by GEMM, conservation, refusals."""

import itertools
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clusterlab.catalogue import LINK_EFFICIENCY, SOFTWARE, machine
from clusterlab.checks import total
from clusterlab.model import (
    PRECISIONS,
    Attention,
    Experts,
    LatentAttention,
    Layout,
    Mamba2,
    Transformer,
    Workload,
    forward_flops,
    parameters,
    training_flops,
    transformer,
)
from clusterlab.parallelism import STEP_PARTS, footprint, simulate_pipeline, step, training
from clusterlab.roofline import matmul
from laws import assert_equals_a_loop
from records import records

A100, H100, GB200 = machine("A100 80GB"), machine("H100 SXM"), machine("GB200")
DENSE = Transformer(layers=16, hidden=1024, heads=16, kv_heads=4, ffn=4096, gated=True, vocab=32000)
MOE = replace(DENSE, experts=16, experts_per_token=4, expert_ffn=1024, shared_experts=1, dense_layers=2)
GPT = replace(DENSE, kv_heads=16, gated=False, positions=2048, tied=True)
LATENT = replace(MOE, kv_heads=16, kv_rank=256, rope_dim=32, query_rank=512)


def timed(shape, mach, *, software=SOFTWARE["2024"], gpus=None, **settings_):
    """A step of a workload and a layout whose fields are given together."""
    return step(shape, mach, *records(**settings_), software=software, gpus=gpus)


@st.composite
def settings_of_a_step(draw):
    """A model, a machine and a layout that can be built."""
    two = st.sampled_from([1, 2, 4, 8])
    shape = draw(st.sampled_from([DENSE, MOE, GPT, LATENT]))
    mach = draw(st.sampled_from([A100, H100, GB200]))
    tp, dp, cp, pp = (draw(two) for _ in range(4))
    layout = {"sequence": draw(st.sampled_from([1024, 8192, 131072])), "tp": tp, "dp": dp, "cp": cp, "pp": pp}
    layout["microbatch"] = draw(two)
    layout["global_batch"] = dp * layout["microbatch"] * draw(st.integers(1, 20))
    layout["chunks"] = draw(st.sampled_from([1, 2])) if pp > 1 else 1
    layout["ep"] = draw(st.sampled_from([x for x in (1, 2, 4, 8) if shape.experts and (tp * dp * cp) % x == 0] or [1]))
    layout["zero"] = draw(st.integers(0, 3))
    layout["recompute"] = draw(st.sampled_from(["none", "selective", "full"]))
    layout["sequence_parallel"] = draw(st.booleans())
    layout["precision"] = draw(st.sampled_from([p for p, (peak, _) in PRECISIONS.items() if peak in mach.peaks]))
    layout["software"] = SOFTWARE[draw(st.sampled_from(list(SOFTWARE)))]
    return shape, mach, layout


# --- Conservation ----------------------------------------------------------------------------------------------------


@settings(max_examples=300, deadline=None)
@given(settings_of_a_step())
def test_what_must_hold_of_every_step(setting):
    shape, mach, layout = setting
    found = timed(shape, mach, **layout)
    parts = {name: getattr(found, name) for name in STEP_PARTS}
    assert all(part >= 0 for part in parts.values()), parts
    assert found.time == total(parts.values())
    assert 0 < found.mfu <= found.hfu <= 1
    assert found.compute <= found.time
    assert 0 <= found.exposed <= found.communication * (1 + 1e-12)
    assert (found.mfu == found.hfu) == (layout["recompute"] == "none")
    assert found.tokens_per_second == found.tokens / found.time
    assert found.rho == found.communication / found.compute
    # No faster than the FLOPs at full speed, of which the causal mask hides at most half of attention.
    flops = training_flops(shape, layout["sequence"], causal=True).model * found.tokens
    assert found.time >= flops / (found.gpus * found.peak) * (1 - 1e-12)
    alone = layout["tp"] == layout["dp"] == layout["cp"] == layout["pp"] == 1
    assert (found.communication == 0) == alone
    ways = 2 if layout["software"].dual_pipe else 1  # DualPipe on two stages has no bubble
    assert (found.bubble > 0) == (layout["pp"] > ways)


@settings(max_examples=200, deadline=None)
@given(settings_of_a_step(), st.sampled_from(["scale_up", "network", "hbm", "peaks", "latency"]), st.floats(1.01, 10))
def test_a_faster_machine_is_never_slower(setting, what, factor):
    shape, mach, layout = setting
    better = {
        "scale_up": {"scale_up_bandwidth": mach.scale_up_bandwidth * factor},
        "network": {"network_bandwidth": mach.network_bandwidth * factor},
        "hbm": {"hbm_bandwidth": mach.hbm_bandwidth * factor},
        "peaks": {"peaks": {name: peak * factor for name, peak in mach.peaks.items()}},
        "latency": {
            "network_latency": mach.network_latency / factor,
            "scale_up_latency": mach.scale_up_latency / factor,
            "dispatch_latency": mach.dispatch_latency / factor,
        },
    }[what]
    now, then = timed(shape, mach, **layout).time, timed(shape, replace(mach, **better), **layout).time
    assert then <= now * (1 + 1e-12)


@settings(max_examples=100, deadline=None)
@given(settings_of_a_step(), st.floats(0.1, 10))
def test_time_has_the_dimension_of_time(setting, k):
    """A clock that ticks k times slower sees rates k times larger, latencies and the step k times smaller."""
    shape, mach, layout = setting
    rates = {name: getattr(mach, name) * k for name in ("hbm_bandwidth", "scale_up_bandwidth", "network_bandwidth")}
    rates |= {name: getattr(mach, name) / k for name in ("scale_up_latency", "network_latency", "dispatch_latency")}
    scaled = replace(mach, **rates, peaks={name: peak * k for name, peak in mach.peaks.items()})
    soft = layout["software"]
    gather = None if soft.zero3_gather_rate is None else soft.zero3_gather_rate * k
    cast = None if soft.expert_cast_time is None else soft.expert_cast_time / k
    now = timed(shape, mach, **layout)
    then = timed(shape, scaled, **layout | {"software": replace(soft, zero3_gather_rate=gather, expert_cast_time=cast)})
    for name in STEP_PARTS:
        assert getattr(then, name) == pytest.approx(getattr(now, name) / k, rel=1e-9, abs=1e-15)


def test_doubling_the_batch_doubles_all_but_what_comes_once_a_step():
    layout = {"sequence": 2048, "tp": 2, "dp": 4, "pp": 4, "microbatch": 2}
    one, two = (timed(DENSE, H100, **layout, global_batch=batch) for batch in (64, 128))
    for name in ("gemms", "attention", "elementwise", "tensor", "tokens", "model_flops"):
        assert getattr(two, name) == pytest.approx(2 * getattr(one, name), rel=1e-12)
    for name in ("bubble", "data", "optimizer"):
        assert getattr(two, name) == getattr(one, name)


def test_arrays_are_a_loop_of_scalars():
    layouts = [(1, 1, 8, 1, 1, 3), (2, 4, 4, 1, 2, 0), (4, 2, 2, 2, 1, 1), (8, 4, 1, 1, 2, 2), (1, 8, 2, 4, 1, 3)]
    columns = dict(
        zip(("tp", "pp", "dp", "cp", "chunks", "zero"), map(np.array, zip(*layouts, strict=True)), strict=True)
    )
    columns["recompute"] = np.array(["none", "full", "selective", "full", "none"])
    columns["sequence_parallel"] = np.array([True, False, True, True, False])
    fixed = {"sequence": 4096, "global_batch": 32, "microbatch": 1}
    for shape, soft in ((DENSE, "2024"), (MOE, "2023"), (GPT, "2021"), (LATENT, "2024")):
        era = {"software": SOFTWARE[soft]}
        whole = timed(shape, H100, **fixed, **columns, **era)
        rows = ({name: column[i].item() for name, column in columns.items()} for i in range(len(layouts)))
        assert_equals_a_loop(whole, [timed(shape, H100, **fixed, **row, **era) for row in rows])
    grid = timed(DENSE, H100, **fixed, tp=[[1], [2], [4]], dp=[[1, 2, 4, 8]])
    assert grid.time.shape == (3, 4)
    assert repr(grid).startswith("Step\n")


# --- Independent ways to the same numbers ----------------------------------------------------------------------------


@pytest.mark.parametrize(("zero", "kept"), [(1, 8), (3, 2)])
def test_gemms_are_counted_one_by_one(zero, kept):
    """FLOPs and bytes of every GEMM of every layer, with roofline.matmul, for a GPT on one accelerator.

    The GEMM that makes a gradient reads and writes its 4-byte sum; at stage 3 it writes 2 bytes, which are sent.
    """
    rows, h, f, v = 3 * 2048, GPT.hidden, GPT.ffn, GPT.vocab
    forward, weights = [], []
    for k, n in ((h, 3 * h), (h, h), (h, f), (f, h)):
        forward.append(matmul(rows, k, n))
        weights.append(k * n)
    e = A100.efficiency

    def seconds(flops, moved):
        rate = SOFTWARE["2023"].gemm * e.gemm * A100.peaks["bf16"]
        work, memory = flops / rate, moved / (e.memory * A100.hbm_bandwidth)
        return max(work, memory) + e.overlap_loss * min(work, memory)

    one = sum(forward)
    gradients = kept * sum(weights)
    total = 0.0
    for _ in range(GPT.layers):
        total += seconds(one.flops, one.bytes)
        # Two GEMMs a weight: the gradient of its input moves weights and both sides, that of the weight both sides.
        backward = sum(2 * (forward_.bytes - 2 * w) + 2 * w for forward_, w in zip(forward, weights, strict=True))
        total += seconds(2 * one.flops, backward + gradients)
    out = matmul(rows, h, v)
    total += seconds(out.flops, out.bytes) + seconds(2 * out.flops, 2 * (out.bytes - 2 * h * v) + (2 + kept) * h * v)
    found = timed(GPT, A100, sequence=2048, global_batch=6, microbatch=3, zero=zero, software=SOFTWARE["2023"])
    assert found.gemms == pytest.approx(2 * total, rel=1e-12)
    # Optimizer: 38 bytes a parameter, here of the matrices alone.
    assert found.optimizer == pytest.approx(38 * (GPT.layers * sum(weights) + h * v) / (e.memory * A100.hbm_bandwidth))


@pytest.mark.parametrize(
    ("pp", "chunks", "m"),
    [(2, 1, 16), (4, 1, 16), (8, 1, 16), (4, 2, 16), (2, 4, 16), (8, 1, 4), (8, 2, 4), (4, 1, 1), (4, 2, 1)],
)
@pytest.mark.parametrize("vocab", [1000, 50_000, 400_000])
@pytest.mark.parametrize(("layers", "recompute"), [(16, "none"), (14, "none"), (16, "full")])
def test_the_composed_step_is_what_a_pipeline_does(pp, chunks, m, vocab, layers, recompute):
    """Stage times from models of other depths on one stage; the schedule executes them."""
    shape = replace(DENSE, vocab=vocab, layers=layers)
    layout = {"sequence": 2048, "global_batch": m, "zero": 0, "microbatch": 1, "recompute": recompute}

    def work(layers, words=vocab):
        found = timed(replace(shape, layers=layers, vocab=words), H100, **layout)
        return (found.time - found.optimizer) / m

    layer = (work(8) - work(4)) / 4
    ends = work(8) - 8 * layer
    embedding = 6 * 2048 * shape.hidden / (H100.efficiency.memory * H100.hbm_bandwidth)
    # Two layers less: one on the last piece, one on the first.
    held = np.full((pp, chunks), 16 / (pp * chunks))
    held[0, 0] -= (16 - layers) / 2
    held[-1, -1] -= (16 - layers) / 2
    pieces = held * layer
    pieces[0, 0] += embedding
    pieces[-1, -1] += ends - embedding
    line = simulate_pipeline(
        "interleaved", stages=pp, microbatches=m, chunks=chunks, forward=pieces / 3, backward=pieces * 2 / 3
    )
    found = timed(shape, H100, **layout, pp=pp, chunks=chunks)
    # Exact, but where the slowest stage is not the last: it fills part of its wait with forward passes ahead.
    exact = m == 1 or (chunks == 1 and (layers == 16 or vocab > 1000))
    assert found.time - found.transfers - found.optimizer == pytest.approx(line.time, rel=1e-9 if exact else 0.04)


@pytest.mark.parametrize(("pp", "chunks"), [(4, 1), (8, 1), (4, 2)])
def test_transfers_are_at_least_what_a_pipeline_waits_for_and_little_more(pp, chunks):
    """A pipeline that works on during transfers waits for those of its fill and drain, and with plain 1F1B for most."""
    m = 16
    layout = {"sequence": 2048, "global_batch": m, "zero": 0, "pp": pp, "chunks": chunks}
    hop = 2 * 2048 * DENSE.hidden / (LINK_EFFICIENCY.network_ring * H100.network_bandwidth) + H100.network_latency
    far = replace(H100, domain=1)
    found = timed(DENSE, far, **layout)
    stage = found.compute - found.optimizer
    setup = {"stages": pp, "microbatches": m, "chunks": chunks, "forward": stage / m / 3, "backward": stage / m * 2 / 3}
    waited = (
        simulate_pipeline("interleaved", **setup, communication=hop).time
        - simulate_pipeline("interleaved", **setup).time
    )
    fill = 2 * (pp - 1) * hop
    assert found.transfers == pytest.approx(fill + (2 * m * hop if chunks == 1 else 0), rel=1e-9)
    assert fill * (1 - 1e-9) <= waited
    if chunks == 1:
        assert waited <= found.transfers < 1.6 * waited


def test_uneven_stages_hold_all_layers_and_the_fullest_sets_the_pace():
    llama = transformer("Llama 3 405B")
    layout = {"sequence": 8192, "global_batch": 64, "tp": 8, "zero": 0}
    even, uneven = (timed(replace(llama, layers=n), H100, **layout, pp=16) for n in (128, 126))
    # 126 layers on 16 stages: 7 on the first and the last, 8 between.
    assert uneven.attention == pytest.approx(even.attention, rel=1e-12)
    assert uneven.bubble < even.bubble


# What a group's collectives take, with nothing hidden: every second of them is seen.
OPEN = replace(SOFTWARE["2021"], zero3_gather_rate=None, contention_scale_up=1.0, contention_network=1.0)


@settings(max_examples=100, deadline=None)
@given(st.data(), st.sampled_from([2, 4, 8, 16]))
def test_a_part_feels_the_network_where_its_ranks_lie_in_different_nodes(data, domain):
    """Every rank is placed one by one, tp innermost, then cp, dp and pp."""
    tp, cp, dp, pp = (data.draw(st.sampled_from([1, 2, 4, 8])) for _ in range(4))
    ep = data.draw(st.sampled_from([x for x in (1, 2, 4, 8) if tp * cp * dp % x == 0]))
    nodes = (np.arange(tp * cp * dp * pp) // domain).reshape(pp, dp, cp, tp)
    split = 1 if ep > 1 else tp  # ranks that split an expert; those ep * split apart have the same part of the same one
    groups = {
        "tensor": nodes.reshape(-1, tp),
        "context": nodes.swapaxes(2, 3).reshape(-1, cp),
        "data": np.moveaxis(nodes, 3, 1).reshape(-1, dp * cp),
        "expert": nodes.reshape(-1, ep),
        "transfers": nodes.reshape(pp, -1).T,
    }
    same_expert = nodes.reshape(pp, -1, ep * split).swapaxes(1, 2).reshape(-1, tp * cp * dp // (ep * split))
    layout = {"sequence": 8192, "global_batch": 8 * dp, "tp": tp, "cp": cp, "dp": dp, "pp": pp, "ep": ep, "zero": 0}
    mach = replace(H100, domain=domain, network_latency=0.0, scale_up_latency=0.0)
    slow = replace(mach, network_bandwidth=1.0)
    fast, crawls = (timed(MOE, one, **layout, software=OPEN) for one in (mach, slow))
    for part, group in groups.items():
        apart = np.any(group != group[:, :1])
        if part == "data":
            apart |= np.any(same_expert != same_expert[:, :1])
        assert (getattr(crawls, part) > getattr(fast, part)) == apart, part
    # A ring leaves a node through as many ports as it has ranks there.
    own, alone = (timed(DENSE, one, **layout | {"ep": 1}, software=OPEN) for one in (slow, replace(slow, domain=1)))
    for part in ("tensor", "context", "data"):
        group = groups[part]
        if np.any(group != group[:, :1]):
            ports = np.count_nonzero(group[0] == group[0, 0])
            assert getattr(alone, part) == pytest.approx(ports * getattr(own, part), rel=1e-6), part


# One rank a node, no latency and nothing hidden: a part's seconds are the bytes that a rank sends.
FLAT = replace(H100, domain=1, network_latency=0.0, dispatch_latency=0.0)
RING, SWAP = LINK_EFFICIENCY.network_ring * FLAT.network_bandwidth, LINK_EFFICIENCY.all_to_all * FLAT.network_bandwidth


def matrices(shape):
    """Parameters in matrices: all but positions, norms and biases."""
    count = parameters(shape)
    return count.total - count.positions - count.norms_and_biases


@pytest.mark.parametrize("zero", [0, 1, 2, 3])
@pytest.mark.parametrize("shape", [DENSE, GPT])
def test_data_parallel_traffic_is_that_of_the_zero_paper(shape, zero):
    """Rajbhandari et al. 2020 (ZeRO; memory): twice the parameters, at stage 3 three times, in every pass."""
    layout = {"sequence": 1024, "dp": 8, "zero": zero}
    for grad in (2, 4):
        soft = replace(OPEN, gradient_bytes=float(grad))
        for m in (1, 4):
            found = timed(shape, FLAT, **layout, global_batch=8 * m, software=soft)
            # A parameter's bytes: gradients out and sums back; weights back; the same with gradients of every
            # microbatch; weights twice and gradients for every microbatch.
            moved = {0: 2 * grad, 1: grad + 2, 2: m * grad + 2, 3: m * (2 + 2 + grad)}[zero]
            assert found.data * RING == pytest.approx(moved * matrices(shape) * 7 / 8)
            if grad == 2 and m == 1:
                assert moved == 2 * (3 if zero == 3 else 2)


@pytest.mark.parametrize(("split", "again"), [(False, 0), (True, 2)])
@pytest.mark.parametrize(("recompute", "redone"), [("none", 0), ("full", 4)])
@pytest.mark.parametrize("shape", [GPT, MOE])
def test_tensor_parallel_traffic_is_that_of_sc21(shape, split, again, recompute, redone):
    """Narayanan et al. 2021 (SC21; memory): 8 b s h (t - 1)/t elements a layer; with split inputs, 2 more."""
    layout = {"sequence": 2048, "global_batch": 12, "microbatch": 3, "tp": 4, "sequence_parallel": split}
    layout |= {"recompute": recompute, "software": OPEN}
    found = timed(shape, FLAT, **layout)
    stream = 2 * 3 * 2048 * shape.hidden * 3 / 4
    each = (8 + again + redone) * shape.layers + 2 * 2  # two all-reduces more: embedding and output layer
    assert found.tensor * RING == pytest.approx(4 * each * stream)
    if shape.experts:  # that are whole end in no sum over ranks
        each -= (8 + again + redone) / 2 * shape.count(Experts)
        found = timed(replace(shape, shared_experts=0), FLAT, **layout, ep=2)
        assert found.tensor * RING == pytest.approx(4 * each * stream)


@pytest.mark.parametrize("chunks", [1, 2, 4])
@pytest.mark.parametrize("tp", [1, 4])
def test_stages_send_what_sc21_says(chunks, tp):
    """Narayanan et al. 2021 (SC21; memory): b s h / t a hop, chunks times as many, there and back."""
    found = timed(DENSE, FLAT, sequence=2048, global_batch=16, microbatch=2, pp=4, tp=tp, chunks=chunks, software=OPEN)
    hop = 2 * 2 * 2048 * DENSE.hidden / tp
    assert found.transfers * RING == pytest.approx((2 * 8 * chunks + 2 * 3) * hop)


@pytest.mark.parametrize(("recompute", "times"), [("none", 1 + 2), ("full", 2 + 2)])
def test_context_parallel_traffic_is_that_of_a_ring(recompute, times):
    """Liu et al. 2023: each rank passes on c - 1 blocks of keys and values, and backward their gradients too."""
    layout = {"sequence": 8192, "global_batch": 4, "cp": 4, "tp": 2, "zero": 0, "recompute": recompute}
    block = 2 * 2 * 2048 * DENSE.kv_heads / 2 * DENSE.head_dim
    sent = 4 * DENSE.layers * 3 * times * block
    found = timed(DENSE, FLAT, **layout, software=OPEN)
    assert (found.communication - found.data - found.tensor) * RING == pytest.approx(sent)
    # The blocks travel while attention works, which is nothing on a wire that slow.
    crawls = timed(DENSE, replace(FLAT, network_bandwidth=1.0), **layout, software=OPEN)
    assert crawls.context * LINK_EFFICIENCY.network_ring == pytest.approx(sent)


@pytest.mark.parametrize(
    ("ep", "recompute", "passes"), [(2, "none", 4), (4, "none", 4), (8, "none", 4), (4, "full", 6)]
)
def test_tokens_go_to_experts_and_back_in_every_pass(ep, recompute, passes):
    """Dispatch and combine, forward and backward, in each layer with experts; to a rank once, however many it has."""
    layout = {"sequence": 1024, "global_batch": 64, "microbatch": 2, "dp": 8, "ep": ep, "recompute": recompute}
    ranks = itertools.product(
        range(ep), repeat=MOE.experts_per_token
    )  # where a token's experts may be; it is on rank 0
    others = np.mean([len({*chosen} - {0}) for chosen in ranks])
    sent = 2 * 2 * 1024 * MOE.hidden * others
    found = timed(MOE, FLAT, **layout, software=OPEN)
    assert found.expert * SWAP == pytest.approx(4 * passes * MOE.count(Experts) * sent)
    held = timed(replace(MOE, node_limit=1), FLAT, **layout, software=OPEN)  # one copy, if not to its own rank
    one = (1 - 1 / ep) * 2 * 2 * 1024 * MOE.hidden
    assert held.expert * SWAP == pytest.approx(4 * passes * MOE.count(Experts) * one)


@pytest.mark.parametrize("zero", [0, 1, 3])
@pytest.mark.parametrize(
    "layout", [{"dp": 8}, {"dp": 4, "cp": 2}, {"dp": 8, "ep": 4}, {"dp": 2, "tp": 4, "ep": 8}, {"cp": 8, "ep": 4}]
)
def test_the_optimizer_updates_every_parameter_once(layout, zero):
    """Or, where its state is not shared, once for every copy: those of an expert are fewer."""
    found = timed(MOE, H100, sequence=1024, global_batch=8, zero=zero, **layout)
    routers = MOE.count(Experts) * MOE.experts * MOE.hidden
    experts = MOE.count(Experts) * MOE.experts * 3 * MOE.hidden * MOE.expert_ffn
    copies = 8 // layout.get("tp", 1) if zero == 0 else 1
    of_experts = 8 // layout.get("ep", 1) if zero == 0 else 1
    updated = copies * (matrices(MOE) - experts + (layout.get("tp", 1) - 1) * routers) + of_experts * experts
    done = 8 * found.optimizer * H100.efficiency.memory * H100.hbm_bandwidth / 38
    assert done == pytest.approx(updated, rel=1e-12)


@pytest.mark.parametrize("domain", [1, 4, 8])
@pytest.mark.parametrize(("ep", "cut"), [(1, 4), (2, 1), (8, 1)])
def test_gradients_of_experts_go_to_the_ranks_with_the_same_part_of_them(ep, cut, domain):
    """Back and forth in 4 bytes, through as many ports as a group has ranks on a node."""
    layout = {"sequence": 1024, "global_batch": 8, "dp": 4, "tp": 4, "ep": ep, "zero": 0}
    slow = replace(FLAT, domain=domain, network_bandwidth=1.0)
    nodes = np.arange(16) // domain
    routers = MOE.count(Experts) * MOE.experts * MOE.hidden
    experts = MOE.count(Experts) * MOE.experts * 3 * MOE.hidden * MOE.expert_ffn
    sent = 0.0
    held = ((matrices(MOE) - experts - routers) / 4 + routers, nodes[::4]), (experts / (ep * cut), nodes[:: ep * cut])
    for parameters_, group in held:
        ports = np.count_nonzero(group == group[0])
        sent += 8 * parameters_ * (group.size - 1) / group.size / ports
    assert timed(MOE, slow, **layout, software=OPEN).data * LINK_EFFICIENCY.network_ring == pytest.approx(sent)


def test_attention_computes_the_pairs_that_the_mask_leaves():
    """Dao 2023 (FlashAttention-2; memory): 4 s^2 d a head, half of it masked, and 2.5 times that backward."""
    s = 4096
    found = timed(DENSE, H100, sequence=s, global_batch=8, microbatch=2, tp=2, cp=2)
    pairs = s * (s + 1) / 2
    flops = 3.5 * 8 * DENSE.layers * 4 * DENSE.heads * DENSE.head_dim * pairs
    assert found.attention * 4 * H100.efficiency.attention * H100.peaks["bf16"] == pytest.approx(flops, rel=1e-12)


@pytest.mark.parametrize(("era", "attention", "left_out"), [("2022", 3, 0), ("2024", 3.5, 4 / 12)])
def test_full_recomputation_is_the_forward_pass_of_the_layers(era, attention, left_out):
    """Where nothing waits for memory; the later software leaves out the last of a layer's 12 h^2, which are 4 h^2."""
    shape = replace(GPT, vocab=1)
    layout = {"sequence": 2048, "global_batch": 4, "recompute": "full", "software": SOFTWARE[era]}
    found = timed(shape, replace(H100, hbm_bandwidth=1e25), **layout)
    forward = found.gemms / 3 * (1 - left_out) + found.attention / attention
    assert found.recomputation == pytest.approx(forward, rel=1e-4)
    # SC21, appendix (as transformer.forward_flops cites it): a layer's forward pass is 24 h^2 + 4 s h a token.
    h = shape.hidden
    redone = shape.layers * (24 * h**2 * (1 - left_out) + 4 * 2048 * h) * found.tokens
    assert found.hardware_flops - found.model_flops == pytest.approx(redone, rel=1e-12)


SWIFT = {"peaks": {name: 1e12 * peak for name, peak in H100.peaks.items()}}  # only memory takes time
BOUNDLESS = replace(H100, hbm_bandwidth=1e25)  # only computing does


@pytest.mark.parametrize(
    ("shape", "again", "gemms"),
    [
        (GPT, 1 + 1 + 4, 12),  # keys, output, up; queries, keys, values, output, up and down; in h^2
        (DENSE, 1 / 4 + 1 + 4, 2 * (1 + 1 / 4) + 3 * 4),
        (replace(MOE, dense_layers=0, shared_experts=0), 1 / 4 + 1 + 4, 2 * (1 + 1 / 4) + 3 * 4),
    ],
)
def test_alternate_recomputation_is_every_second_gemm_and_all_that_moves(shape, again, gemms):
    """Four experts of width h are 4 h wide; attention is not computed again, what lies between GEMMs is."""
    layout = {"sequence": 2048, "global_batch": 4, "microbatch": 4, "recompute": "alternate"}
    shape = replace(shape, vocab=1)
    found = timed(shape, BOUNDLESS, **layout)
    assert found.recomputation == pytest.approx(again / gemms * found.gemms / 3, rel=1e-4)
    forward = forward_flops(shape, 2048)
    redone = again / gemms * (forward.layers - forward.scores) * found.tokens
    assert found.hardware_flops - found.model_flops == pytest.approx(redone, rel=1e-12)
    assert training_flops(shape, 2048, recompute="alternate").recomputed * found.tokens == pytest.approx(redone)


@pytest.mark.parametrize(("shape", "again", "last"), [(GPT, 6 / 12, 4 / 12), (DENSE, 5.25 / 14.5, 4 / 14.5)])
def test_alternate_recomputation_does_all_that_only_moves_memory_again(shape, again, last):
    """Where nothing but memory takes time, beside full recomputation with and without a layer's last GEMM."""
    layout = {"sequence": 2048, "global_batch": 4, "microbatch": 4}
    every = replace(SOFTWARE["2024"], skip_last_gemm_in_recompute=False)
    swift, software = replace(H100, **SWIFT), SOFTWARE["2024"]
    every = replace(software, skip_last_gemm_in_recompute=False)
    ways = [("full", every), ("full", software), ("selective", software), ("alternate", software)]
    full, but_last, scores, alternate = (
        timed(shape, swift, **layout, recompute=how, software=one).recomputation for how, one in ways
    )
    gemms = (full - but_last) / last
    moved = full - scores - gemms
    assert moved > 0
    assert alternate == pytest.approx(again * gemms + moved, rel=1e-9)


def test_a_shared_expert_more_is_a_dense_feed_forward_more_in_every_layer_with_experts():
    """What it multiplies, reads and writes in a step, counted by hand; 14 layers, 1,024 wide, SwiGLU."""
    one, two = (replace(MOE, shared_experts=n) for n in (1, 2))
    layout, layers, tokens, h, f = {"sequence": 4096, "global_batch": 1}, 14, 4096, 1024, 1024
    memory = H100.efficiency.memory * H100.hbm_bandwidth
    before, after = (timed(shape, replace(H100, **SWIFT), **layout) for shape in (one, two))
    # Norms are there anyway. Gate and up read, product written; backward both and the product's gradient read, two
    # gradients written.
    assert after.elementwise - before.elementwise == pytest.approx(layers * 2 * tokens * (3 + 5) * f / memory)
    # Input in, gate and up out, product in, output out: once forward, twice backward. Weights are read twice, and their
    # gradients added to a sum of 4 bytes.
    passed, weights = 2 * tokens * (2 * h + 3 * f), 3 * h * f
    moved = 3 * passed + (2 + 2 + 2 * 4) * weights
    assert after.gemms - before.gemms == pytest.approx(layers * moved / memory, rel=1e-6)
    before, after = (timed(shape, BOUNDLESS, **layout) for shape in (one, two))
    peak = H100.efficiency.gemm * H100.peaks["bf16"]
    assert after.gemms - before.gemms == pytest.approx(layers * 6 * tokens * weights / peak, rel=1e-6)
    # Full recomputation leaves out the last GEMM of routed and of shared experts. Half a tile of each expert is empty.
    shape = replace(two, vocab=1, dense_layers=0)
    found = timed(shape, BOUNDLESS, **layout, recompute="full")
    rows, attention = 4 * tokens + 16 * 64, 2 * h * (1024 + 256)
    whole = rows * weights + tokens * (2 * weights + h * 16 + attention)
    last = (4 + 2) * tokens * h * f
    again = (1 - last / whole) * found.gemms / 3
    assert found.recomputation == pytest.approx(again + found.attention / 3.5, rel=1e-4)


@pytest.mark.parametrize("pp", [2, 4, 8])
def test_dualpipe_s_bubble_waits_for_the_exchange_of_experts_too(pp):
    """DeepSeek-V3 2024, table 2: (p/2 - 1)(t_fb + t_b - 3 t_w), by hand where nothing but the exchange takes time.

    A pair sends tokens there and back forward and backward, a backward pass alone once.
    """
    software = replace(OPEN, dual_pipe=True, expert_overlap=False)
    layout = {"sequence": 1024, "global_batch": 64, "microbatch": 2, "dp": 8, "ep": 4, "pp": pp, "software": software}
    shape = replace(MOE, layers=16, dense_layers=0)
    swift = replace(FLAT, **SWIFT, hbm_bandwidth=1e25)
    ranks = itertools.product(range(4), repeat=4)
    others = np.mean([len({*chosen} - {0}) for chosen in ranks])
    each_way = 2 * (16 / pp) * 2 * 2 * 1024 * shape.hidden * others / SWAP  # there and back in each layer of a stage
    found = timed(shape, swift, **layout)
    assert found.expert == pytest.approx(4 * 2 * each_way)  # four microbatches, forward and backward
    assert found.bubble == pytest.approx((pp / 2 - 1) * (2 * each_way + each_way), rel=1e-6)


@pytest.mark.parametrize("domain", [1, 2, 8, 16])
@pytest.mark.parametrize("dp", [2, 8, 16])
def test_rings_take_a_step_for_every_rank_but_one(dp, domain):
    """Patarasuk and Yuan 2009: n - 1 steps to scatter the sums, and as many to gather; here of one second each."""
    mach = replace(H100, domain=domain, scale_up_bandwidth=1e30, network_bandwidth=1e30)
    mach = replace(mach, scale_up_latency=1.0, network_latency=1.0)
    found = timed(DENSE, mach, sequence=2048, global_batch=16, dp=dp, software=OPEN)
    assert found.data == pytest.approx(2 * (dp - 1), rel=1e-6)


@pytest.mark.parametrize("shape", [DENSE, GPT, MOE, LATENT])
@pytest.mark.parametrize("layout", [{}, {"dp": 2}, {"cp": 4}, {"tp": 4}, {"tp": 2, "dp": 2, "ep": 4}])
def test_all_ranks_together_multiply_what_a_token_meets_three_times(shape, layout):
    """Forward, and two GEMMs backward; where nothing waits for memory. Counted by transformer.forward_flops."""
    if not shape.experts:
        layout = {name: n for name, n in layout.items() if name != "ep"}
    found = timed(shape, replace(H100, hbm_bandwidth=1e25), sequence=4096, global_batch=4, **layout)
    forward = forward_flops(shape, 4096)
    done = found.gpus * found.gemms * H100.efficiency.gemm * found.peak / 3
    # Routers and down-projections to latents are whole on every tensor-parallel rank.
    attention = LatentAttention() if shape.kv_rank else Attention()
    whole = 2 * shape.layers * attention.weights(shape)[1] + forward.router
    asked = (forward.total - forward.scores + (layout.get("tp", 1) - 1) * whole) * found.tokens
    # Half a tile of 128 rows is lost for each expert, wherever it or a part of it is.
    copies = found.gpus / (layout["ep"] if layout.get("ep", 1) > 1 else layout.get("tp", 1))
    passes = 4 / layout.get("dp", 1)
    lost = copies * passes * 64 * 2 * 3 * shape.count(Experts) * shape.experts * shape.hidden * shape.expert_ffn
    assert done == pytest.approx(asked + lost, rel=1e-9)


def test_gemms_of_eight_bits_read_half_and_write_whole():
    """Where inputs and results are all that counts: many more tokens than weights, and slow memory."""
    slow, job = replace(H100, hbm_bandwidth=1e6), {"sequence": 2**20, "global_batch": 1}
    eight, sixteen = (timed(replace(GPT, vocab=1), slow, **job, precision=name).gemms for name in ("fp8", "bf16"))
    read, written = 1 + 1 + 1 + 4, 3 + 1 + 4 + 1  # widths of the four GEMMs of a layer, in h
    assert eight / sixteen == pytest.approx((read + 2 * written) / (2 * read + 2 * written), rel=0.05)


def test_dropout_is_paid_in_both_passes():
    drops, keeps = (
        timed(
            GPT, H100, sequence=4096, global_batch=1, recompute="full", software=replace(SOFTWARE["2024"], dropout=on)
        )
        for on in (True, False)
    )
    once_more = drops.recomputation - keeps.recomputation
    assert 0 < once_more < drops.elementwise - keeps.elementwise


@pytest.mark.parametrize("shape", [DENSE, GPT])
def test_tensor_parallel_ranks_share_out_all_that_moves_but_the_embedding(shape):
    def moved(tp, **change):
        found = timed(shape, H100, sequence=4096, global_batch=1, tp=tp, **change)
        return (found.elementwise * H100.efficiency.memory * H100.hbm_bandwidth) - 6 * 4096 * shape.hidden

    assert moved(4) == pytest.approx(moved(1) / 4, rel=1e-12)
    assert moved(1) / 4 < moved(4, sequence_parallel=False) < moved(1)


def test_a_hidden_second_costs_its_share():
    """Where there is work enough to hide all; inside a node and across nodes."""
    layout = {"sequence": 8192, "global_batch": 64, "dp": 8}
    soft = replace(SOFTWARE["2024"], contention_scale_up=0.4, contention_network=0.3)
    for mach, share in ((H100, 0.4), (replace(H100, domain=4), 0.3)):
        for zero in (0, 1, 3):
            found = timed(DENSE, mach, **layout, zero=zero, software=soft)
            assert found.data == pytest.approx(share * found.communication), (share, zero)


@pytest.mark.parametrize("recompute", ["none", "full"])
def test_gathered_layers_hide_behind_all_layers_but_the_first(recompute):
    """A layer's weights travel while the layer before computes, on a wire that is slower than it."""
    shape, soft = replace(DENSE, vocab=1), replace(SOFTWARE["2024"], contention_network=0.0)
    layout = {"sequence": 2048, "global_batch": 8, "dp": 8, "zero": 3, "recompute": recompute}
    found = timed(shape, replace(FLAT, network_bandwidth=1e8), **layout, software=soft)
    work, wire = (whole / shape.layers for whole in (found.compute - found.optimizer, found.communication))
    assert work < wire / 3
    arrived = done = 0.0
    for _ in range(shape.layers):
        arrived += wire
        done = max(arrived, done) + work
    assert found.data == pytest.approx(done - shape.layers * work, rel=1e-6)


def test_attention_that_hides_keys_on_their_way_hides_nothing_else():
    layout = {"sequence": 262144, "global_batch": 8, "dp": 8, "cp": 8, "zero": 3}
    soft = replace(SOFTWARE["2024"], contention_network=0.0)
    slow = replace(FLAT, network_bandwidth=1e8)
    hides, waits = (timed(DENSE, slow, **layout, software=one) for one in (soft, replace(soft, contention_network=1.0)))
    assert 0 < waits.data - hides.data <= hides.gemms + hides.elementwise
    assert hides.attention > hides.gemms + hides.elementwise


@pytest.mark.parametrize("tp", [2, 4, 8])
def test_a_gemm_on_pieces_waits_for_the_first_of_them(tp):
    """Pieces of the input arrive one by one, and each is multiplied when it is there and the one before is done."""
    layout = {"sequence": 8192, "global_batch": 1, "tp": tp, "sequence_parallel": False}
    wire = replace(H100, scale_up_latency=0.0, scale_up_bandwidth=900e9)
    split = replace(
        SOFTWARE["2024"], tensor_overlap_forward=True, tensor_overlap_backward=False, contention_scale_up=0.0
    )
    hides, waits = (
        timed(DENSE, wire, **layout, software=one) for one in (split, replace(split, tensor_overlap_forward=False))
    )
    # Two all-reduces a layer, forward and backward, and one each for the embedding and the output layer.
    sent = waits.tensor * 2 * DENSE.layers / (4 * DENSE.layers + 2)
    work = waits.gemms / 3
    assert sent < work
    arrived = done = 0.0
    for _ in range(tp):
        arrived += sent / tp
        done = max(arrived, done) + work / tp
    assert waits.tensor - hides.tensor == pytest.approx(sent - (done - work))


def test_a_key_head_is_on_every_rank_that_has_one_of_its_queries():
    """With fewer key heads than ranks, each rank still has one: the step takes as long, part by part."""
    layout = {"sequence": 8192, "global_batch": 32, "tp": 8, "dp": 2, "cp": 2, "pp": 2}
    eight, *fewer = (timed(replace(DENSE, kv_heads=n), H100, **layout) for n in (8, 4, 2, 1))
    for found in fewer:
        for part in STEP_PARTS:
            assert getattr(found, part) == pytest.approx(getattr(eight, part), rel=1e-12), part


# --- Physics that must come out --------------------------------------------------------------------------------------


def test_zero_3_collapses_with_scale_because_tokens_shrink_and_parameters_do_not():
    """SC21 table 2: 144, 88 and 44 TFLOP/s of hardware FLOPs at 384, 768 and 1,536 GPUs."""
    layout = {"sequence": 2048, "global_batch": 1536, "zero": 3, "recompute": "full", "precision": "fp16"}
    layout |= {"software": SOFTWARE["2021"], "sequence_parallel": False}
    n, b = np.array([384, 768, 1536]), np.array([4, 2, 1])
    found = timed(transformer("GPT 175B"), A100, **layout, dp=n, microbatch=b)
    rate = found.hfu * 312
    np.testing.assert_allclose(rate, [144, 88, 44], rtol=0.1)
    assert found.communication.max() / found.communication.min() < 1.2
    assert found.rho[2] > 3 * found.rho[0]
    # As fast as the wire allows, and with nothing of the kind measured, the collapse is later.
    wire = timed(
        transformer("GPT 175B"),
        A100,
        **layout | {"software": replace(SOFTWARE["2021"], zero3_gather_rate=None)},
        dp=n,
        microbatch=b,
    )
    assert np.all(wire.time < found.time)


def test_keys_and_values_that_are_gathered_first_hide_behind_nothing():
    """Llama 3 gathers them before attention: 14.1 s become 15.6, and 15.3 were measured (its table 4, 380 TFLOP/s)."""
    layout = {"sequence": 131_072, "global_batch": 128, "tp": 8, "pp": 16, "cp": 16, "dp": 8, "chunks": 8}
    llama, gathers = transformer("Llama 3.1 405B"), replace(SOFTWARE["2024"], context_overlap=False)
    ring, gather = timed(llama, H100, **layout), timed(llama, H100, **layout, software=gathers)
    assert gather.communication == pytest.approx(ring.communication)
    assert gather.context > 10 * ring.context
    assert gather.time == pytest.approx(15.59, rel=0.01)
    alone = layout | {"cp": 1, "dp": 128}
    assert timed(llama, H100, **alone, software=gathers).time == timed(llama, H100, **alone).time


def test_zero_2_sends_gradients_after_every_microbatch_and_zero_1_once():
    """DeepSpeed issue 2252: a rank that keeps its share of the gradients cannot wait for the last microbatch."""
    layout = {"sequence": 2048, "dp": 64, "software": replace(SOFTWARE["2024"], data_overlap=False)}
    wires = replace(H100, scale_up_latency=0.0, network_latency=0.0)
    one, two = (
        [timed(DENSE, wires, **layout, global_batch=64 * m, zero=zero).data for m in (1, 2, 8)] for zero in (1, 2)
    )
    assert one[0] == one[1] == one[2] == two[0]
    once = two[1] - two[0]
    assert two[2] == pytest.approx(two[0] + 7 * once)
    # What travels each time are 4 bytes for each of 64 parts of the gradients; the weights' 2 travel once.
    assert once / two[0] == pytest.approx(2 / 3)


def test_tensor_parallelism_stays_in_the_node():
    gpt = transformer("GPT 175B")
    share = [timed(gpt, H100, sequence=4096, global_batch=8, tp=tp).tensor for tp in (2, 4, 8, 16)]
    assert all(a < b for a, b in pairwise(share))
    assert share[-1] / share[-2] > 1.3 * share[-2] / share[-3]
    assert timed(gpt, GB200, sequence=4096, global_batch=8, tp=16).tensor < 0.65 * share[-1]


def test_experts_cost_little_inside_a_domain_and_much_across():
    layout = {"sequence": 4096, "global_batch": 64, "dp": 16, "microbatch": 4}
    inside, across = (timed(MOE, H100, **layout, ep=ep).expert for ep in (8, 16))
    assert 0 < inside < across / 2
    assert timed(MOE, H100, **layout).expert == 0
    full, none = (timed(MOE, H100, **layout, ep=8, recompute=how).expert for how in ("full", "none"))
    assert full == pytest.approx(1.5 * none)


LLAMA_8B = transformer("Llama 3.1 8B")


def test_biases_of_experts_cost_what_their_kernels_move_until_they_are_fused():
    layout, oss = {"sequence": 4096, "global_batch": 64, "dp": 8, "ep": 8, "microbatch": 2}, transformer("gpt-oss 120B")
    none = timed(replace(oss, biases=False), H100, **layout).elementwise
    apart, fused = (
        timed(oss, H100, **layout, software=replace(SOFTWARE["2024"], fused_expert_bias=one)).elementwise
        for one in (False, True)
    )
    assert fused == none
    # Product, sum, concatenation and cast forward; the same backward with sums for bias and weight; that of the input.
    moved = 36 * 4 * (4096 * 8) * ((28 + 36) * 2880 + 2 * 2 * 2880)
    assert apart - none == pytest.approx(moved / (H100.efficiency.memory * H100.hbm_bandwidth))


def test_a_copy_for_each_expert_is_more_across_nodes_and_as_much_inside():
    layout = {"sequence": 4096, "global_batch": 64, "microbatch": 1}
    for ranks, most in ((8, 1), (32, 8)):
        once, copies = (
            timed(
                transformer("Qwen3 235B-A22B"),
                H100,
                **layout,
                dp=ranks,
                ep=ranks,
                software=replace(SOFTWARE["2024"], **change),
            ).expert
            for change in ({}, {"tokens_cross_once": False})
        )
        assert (once == copies) if most == 1 else (1.5 * once < copies < 8 * once)


def test_how_slow_attention_is_backward_says_only_what_recomputation_costs():
    even, uneven = (replace(SOFTWARE["2024"], attention_backward=rate) for rate in (1.0, 0.6))
    for recompute in ("none", "full"):
        one, other = (
            timed(LLAMA_8B, H100, sequence=32768, global_batch=8, dp=8, recompute=recompute, software=software)
            for software in (even, uneven)
        )
        assert one.attention == pytest.approx(other.attention)
        assert (other.recomputation < one.recomputation) if recompute == "full" else (other.time == one.time)


def test_the_output_layer_multiplies_at_16_bits():
    layout = {"sequence": 4096, "global_batch": 8, "dp": 8, "precision": "fp8"}
    twice = replace(LLAMA_8B, vocab=2 * LLAMA_8B.vocab)
    more = timed(twice, H100, **layout).gemms - timed(LLAMA_8B, H100, **layout).gemms
    flops = 6 * 4096 * LLAMA_8B.hidden * LLAMA_8B.vocab
    assert 1 < more / (flops / (H100.efficiency.gemm * H100.peaks["bf16"])) < 1.3


def test_deepseek_s_own_run_is_predicted_by_what_its_report_says_of_its_software():
    """2.664 million GPU-hours for 14.8 trillion tokens; no constant was fitted to it. Without DualPipe a third more."""
    work = Workload(sequence=4096, global_batch=15_360, precision="fp8")
    measured = work.tokens / 14.8e12 * 2.664e6 * 3600 / 2048
    layout, shape, h800 = Layout(pp=16, dp=128, ep=64), transformer("DeepSeek-V3"), machine("H800 SXM")
    software = SOFTWARE["DeepSeek"]
    hidden = step(shape, h800, work, layout, software=software)
    shown = step(shape, h800, work, layout, software=replace(software, expert_overlap=False, dual_pipe=False))
    assert hidden.time == pytest.approx(measured, rel=0.02)
    assert shown.time > 1.3 * measured
    one_way = step(shape, h800, work, layout, software=replace(software, dual_pipe=False))
    assert 0.5 < hidden.bubble / one_way.bubble < 0.8
    odd = [
        step(shape, h800, work, Layout(pp=61, dp=128, ep=64), software=s).bubble
        for s in (software, replace(software, dual_pipe=False))
    ]
    assert odd[0] == odd[1]


def test_casts_of_experts_cost_by_the_expert_until_they_are_fused():
    layout = {"sequence": 4096, "global_batch": 64, "dp": 8, "ep": 4, "microbatch": 2, "precision": "fp8"}
    old = SOFTWARE["2024"]
    slow, free = (
        timed(MOE, GB200, **layout, software=replace(old, expert_cast_time=s)).elementwise for s in (1e-3, 0.0)
    )
    # 14 layers of 4 experts a rank, 4 microbatches: the inputs of two GEMMs, and the gradients of their outputs.
    assert slow - free == pytest.approx(14 * 4 * 4 * (2 + 2) * 1e-3)
    now, fused = (timed(MOE, GB200, **layout, software=SOFTWARE[name]) for name in ("2024", "2026"))
    assert fused.gemms == now.gemms
    # Rows of experts are read once less: input and gradient as wide as the model, activation and both gates' gradients.
    rows = 4 * 14 * 4 * 2 * 4096
    read = 2 * rows * (2 * MOE.hidden + 3 * MOE.expert_ffn) / (GB200.efficiency.memory * GB200.hbm_bandwidth)
    assert free - fused.elementwise == pytest.approx(read)
    sixteen = [
        timed(MOE, GB200, **layout | {"precision": "bf16", "software": replace(old, expert_cast_time=s)})
        for s in (1e-3, 0)
    ]
    assert sixteen[0].time == sixteen[1].time


def test_all_to_alls_hide_behind_another_microbatch_if_there_is_one():
    layout = {"sequence": 4096, "dp": 8, "ep": 8, "microbatch": 2}
    for batches, shown in ((1, 1.0), (4, 0.43)):
        now, then = (
            timed(MOE, GB200, **layout, global_batch=16 * batches, software=SOFTWARE[name]) for name in ("2024", "2026")
        )
        assert then.expert == pytest.approx(shown * now.expert)
        assert then.communication == now.communication
    far = replace(GB200, domain=4, network_bandwidth=1e6)  # all that there is to do hides little of it
    now, then = (timed(MOE, far, **layout, global_batch=64, software=SOFTWARE[name]) for name in ("2024", "2026"))
    assert 0.9 * now.expert < then.expert < now.expert


def test_long_sequences_hide_the_ring_of_keys_and_short_ones_do_not():
    share = []
    for s in (4096, 1_048_576):
        found = timed(transformer("Llama 3.1 8B"), H100, sequence=s, global_batch=1, cp=64)
        share.append(found.context / found.communication)
    assert share[0] > 5 * share[1]


def test_eras_get_faster_and_recomputation_costs():
    layout = {"sequence": 2048, "global_batch": 64, "tp": 8, "pp": 4, "dp": 8, "precision": "fp16"}
    times = [
        timed(transformer("GPT 175B"), A100, **layout, software=one).time
        for name, one in SOFTWARE.items()
        if name.isdigit()
    ]
    assert all(a > b for a, b in pairwise(times[:-1]))
    assert times[-1] == times[-2]  # 2026 is new for experts alone
    again = [
        timed(transformer("GPT 175B"), A100, **layout, recompute=how).time for how in ("none", "selective", "full")
    ]
    assert again[0] < again[1] < again[2] < 4 / 3 * again[0]
    eight = timed(transformer("GPT 175B"), H100, **layout | {"precision": "fp8"})
    sixteen = timed(transformer("GPT 175B"), H100, **layout | {"precision": "bf16"})
    assert eight.attention == sixteen.attention
    assert eight.gemms < sixteen.gemms < 2.6 * eight.gemms
    assert eight.elementwise > sixteen.elementwise


def test_sharing_in_smaller_groups_keeps_traffic_inside():
    layout = {"sequence": 2048, "global_batch": 64, "dp": 64, "zero": 3}
    everywhere, hybrid = timed(DENSE, H100, **layout), timed(DENSE, H100, **layout, shard_group=8)
    assert hybrid.communication < everywhere.communication
    assert hybrid.optimizer == pytest.approx(8 * everywhere.optimizer)


def test_groups_that_share_sum_their_gradients_across_once_a_step():
    """64 ranks that share in eights: each sums an eighth of the gradients around a ring of 8 ports, twice 7/8 of it."""
    big = transformer("Llama 3.1 8B")
    layout = {"sequence": 8192, "zero": 3, "shard_group": 8}
    two = [timed(big, H100, **layout, dp=dp, global_batch=2 * dp) for dp in (8, 64)]
    summed = 2 * 7 / 8 * 4 * 8.03e9 / 8 / (LINK_EFFICIENCY.network_ring * 50e9)
    assert summed < float(two[1].communication - two[0].communication) < 1.06 * summed  # latency is the rest
    alone, whole = (timed(big, H100, **layout | {"shard_group": 64}, dp=64, global_batch=gb) for gb in (64, 128))
    assert float(whole.communication) == pytest.approx(2 * float(alone.communication))  # nothing once a step
    expert = replace(big, experts=16, experts_per_token=2)
    more = [timed(expert, H100, **layout, dp=dp, global_batch=2 * dp, ep=8) for dp in (8, 64)]
    assert float(more[1].data) > float(two[1].data)


# --- Refusals --------------------------------------------------------------------------------------------------------

FINE = {"sequence": 2048, "global_batch": 64}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"tp": 3}, "tp must divide heads, got tp 3, heads 16"),
        ({"pp": 10, "chunks": 2}, r"pp times chunks must be at most layers \+ 2, got pp 10, chunks 2, layers 16"),
        ({"chunks": 2}, "chunks above 1 need pp above 1, got pp 1, chunks 2"),
        ({"cp": 3}, "cp must divide sequence, got cp 3, sequence 2048"),
        ({"ep": 2}, "ep must divide experts, got ep 2, experts 0"),
        ({"dp": 3}, "dp times microbatch must divide global_batch, got dp 3, microbatch 1, global_batch 64"),
        ({"tp": 8, "gpus": 9}, "tp pp dp cp must be gpus, got tp 8, pp 1, dp 1, cp 1, gpus 9"),
        ({"dp": 8, "shard_group": 3}, "shard_group must divide dp cp, got dp 8, cp 1, shard_group 3"),
        ({"tp": 4, "etp": 2}, "etp must be tp, or 1 where ep is above 1: a step has no other; got 2"),
        ({"tp": [1, 3]}, "tp must divide heads, got tp 3, heads 16"),
        ({"tp": 0}, "tp must be a whole number"),
        ({"tp": 1.5}, "tp must be a whole number"),
        ({"sequence": np.nan}, "sequence must be a whole number"),
        ({"zero": 4}, "zero must be 0, 1, 2 or 3, got 4"),
        ({"recompute": "some"}, "recompute must be one of none, selective, alternate, full; got 'some'"),
        ({"precision": "fp4"}, "precision must be one of bf16, fp16, fp8, fp8-row, int8 on H100 SXM; got 'fp4'"),
        ({"sequence_parallel": 1}, "sequence_parallel must be True or False, got 1"),
    ],
)
def test_what_cannot_be_built_is_refused_by_name(change, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        timed(DENSE, H100, **FINE | change)


def test_the_mask_agrees_with_what_a_step_refuses():
    rng = np.random.default_rng(0)
    names = ("tp", "pp", "dp", "cp", "ep", "chunks", "microbatch")
    draw = {name: rng.choice([1, 1, 2, 3, 4, 16], 200) for name in names}
    found = Layout(**draw).violations(MOE, Workload(**FINE))
    assert 0 < np.count_nonzero(found.valid) < 200
    for i, fine in enumerate(found.valid):
        layout = {name: int(values[i]) for name, values in draw.items()}
        if fine:
            timed(MOE, H100, **FINE, **layout)
        else:
            with pytest.raises(ValueError, match=r"must|need"):
                timed(MOE, H100, **FINE, **layout)
    assert repr(found).split()[-1] == str(np.count_nonzero(found.valid))


# --- Hybrids ---------------------------------------------------------------------------------------------------------

HYBRID = transformer("Nemotron-H 8B")


def test_a_hybrid_s_step_grows_with_its_scans_and_barely_with_its_context():
    """Four layers of attention among 52: eight times the context costs it a fifth, and Llama 3.1 8B more than half."""
    layout = {"dp": 8, "zero": 3}
    short, long = ({"sequence": 8192 * k, "global_batch": 64 // k, **layout} for k in (1, 8))
    hybrid, dense = (timed(shape, H100, **long).time / timed(shape, H100, **short).time for shape in (HYBRID, LLAMA_8B))
    assert 1 < hybrid < 1.25
    assert dense > 1.5
    bigger = replace(HYBRID, others=((24, Mamba2(heads=128, state=256)),))
    assert timed(bigger, H100, **short).attention > timed(HYBRID, H100, **short).attention


def test_a_hybrid_s_blocks_are_split_and_sent_like_those_of_a_transformer():
    """A block ends in one all-reduce: 52 of them, where a transformer of 26 layers has as many."""
    layout = {"sequence": 8192, "global_batch": 8, "tp": 8, "sequence_parallel": False, "software": OPEN}
    plain = Transformer(layers=26, hidden=4096, heads=32, kv_heads=8, ffn=21504, vocab=131072, head_dim=128)
    found, like = timed(HYBRID, H100, **layout), timed(plain, H100, **layout)
    assert found.tensor == pytest.approx(like.tensor)
    assert found.model_flops == 3 * 8 * 8192 * forward_flops(HYBRID, 8192).total
    with pytest.raises(ValueError, match="tp must divide mamba_groups"):
        timed(HYBRID, H100, sequence=8192, global_batch=8, tp=16)
    with pytest.raises(ValueError, match="cp must be 1 where layers are Mamba2"):
        timed(HYBRID, H100, sequence=8192, global_batch=8, cp=2)


def test_further_tokens_cost_a_layer_and_a_pass_of_the_output_each():
    more = replace(LLAMA_8B, mtp_depth=1)
    layout = {"sequence": 8192, "global_batch": 8, "dp": 8, "zero": 3, "precision": "fp8"}
    one, two = timed(LLAMA_8B, H100, **layout), timed(more, H100, **layout)
    logits = 2 * LLAMA_8B.hidden * LLAMA_8B.vocab
    layer = forward_flops(replace(LLAMA_8B, layers=1), 8192).layers
    assert two.model_flops - one.model_flops == pytest.approx(3 * two.tokens * (logits + layer))
    a_layer = one.gemms - timed(replace(LLAMA_8B, layers=31), H100, **layout).gemms
    assert two.gemms - one.gemms > 1.5 * a_layer  # in 16 bits


@pytest.mark.parametrize("depth", [1, 3])
def test_each_further_token_has_a_loss_of_its_own(depth):
    """The loss moves 20 bytes a logit; a depth is a layer and such a loss, and no other embedding."""
    layout = {"sequence": 8192, "global_batch": 8, "dp": 8, "zero": 3}
    shapes = LLAMA_8B, replace(LLAMA_8B, mtp_depth=depth), replace(LLAMA_8B, layers=31)
    one, more, less = (timed(shape, H100, **layout).elementwise for shape in shapes)
    loss = 20 * 8192 * LLAMA_8B.vocab / (H100.efficiency.memory * H100.hbm_bandwidth)
    assert more - one == pytest.approx(depth * (one - less + loss), rel=1e-9)


def test_experts_in_a_latent_space_send_and_hold_as_much_less():
    narrow = replace(MOE, expert_latent=MOE.hidden // 4)
    layout = {"sequence": 8192, "global_batch": 64, "dp": 8, "ep": 8, "software": OPEN}
    flat = replace(H100, scale_up_latency=0.0, dispatch_latency=0.0)
    assert timed(narrow, flat, **layout).expert == pytest.approx(timed(MOE, flat, **layout).expert / 4)
    found, wide = parameters(narrow), parameters(MOE)
    assert found.selected_experts * 4 == wide.selected_experts
    assert found.router - wide.router == MOE.count(Experts) * 2 * MOE.hidden * narrow.expert_latent


# --- Whether it fits -------------------------------------------------------------------------------------------------

LLAMA_405 = transformer("Llama 3.1 405B")
BATCH = Workload(8192, 128)


def test_a_step_that_does_not_fit_says_so_and_keeps_its_time():
    tight = step(LLAMA_405, H100, BATCH, Layout(tp=8, pp=2, dp=2))
    wide = step(LLAMA_405, H100, BATCH, Layout(tp=8, pp=32, dp=4, recompute="full"))
    need = footprint(LLAMA_405, BATCH, Layout(tp=8, pp=2, dp=2))
    assert tight.memory.total == need.total > 80e9
    assert (bool(tight.fits), bool(wide.fits)) == (False, True)
    last = repr(tight).splitlines()[-1]
    assert last.split("  ")[0] == "does not fit 80 GB"
    assert last.split()[5:] == need.with_interval.split()
    assert "does not fit" not in repr(wide)
    roomy = step(LLAMA_405, replace(H100, hbm_capacity=1e12), BATCH, Layout(tp=8, pp=2, dp=2))
    assert bool(roomy.fits)
    assert roomy.time == tight.time


def test_of_many_layouts_it_says_how_many_do_not_fit():
    layouts = Layout(tp=8, pp=np.array([1, 2, 32]), dp=np.array([4, 2, 1]), recompute="full")
    some = step(LLAMA_405, H100, BATCH, layouts)
    assert some.fits.tolist() == [False, False, True]
    assert some.memory.total.tolist() == footprint(LLAMA_405, BATCH, layouts).total.tolist()
    assert repr(some).splitlines()[-1].split() == ["does", "not", "fit", "80", "GB", "2", "of", "3"]
    many = step(LLAMA_405, H100, BATCH, Layout(tp=8, pp=np.tile([2, 32], training.BLOCK), recompute="full"))
    assert np.count_nonzero(many.fits) == training.BLOCK


def test_memory_is_counted_when_it_is_asked_for_and_once(monkeypatch):
    counted = []
    law = training.rank_footprint
    monkeypatch.setattr(training, "rank_footprint", lambda *args: counted.append(args) or law(*args))
    one = step(DENSE, H100, Workload(4096, 8), Layout(dp=8))
    assert not counted
    assert one.fits
    assert one.memory.total > 0
    assert "does not fit" not in repr(one)
    assert len(counted) == 1
    alone = replace(one, gemms=0.0)  # no record of step()
    assert (alone.memory, alone.fits) == (None, None)
    assert repr(alone).startswith("Step")


def test_an_interval_is_wider_by_what_nobody_has_timed():
    """A chip of no published run, more of them than any run had, a kind of run that nobody published of it."""
    chips, job = machine("H100 SXM"), (Workload(8192, 64), Layout(dp=8))

    def width(**timed):
        reached = replace(chips.efficiency, **{"timed_dense": 0, "timed_dense_8": 0, "timed_experts": 0} | timed)
        found = step(transformer("Llama 3.1 8B"), replace(chips, efficiency=reached), *job)
        return float(found.high / found.low)

    known, larger, kind, none = (
        width(**timed) for timed in ({"timed_dense": 8}, {"timed_dense": 4}, {"timed_experts": 8}, {})
    )
    assert known < larger < none
    assert known < kind < none
