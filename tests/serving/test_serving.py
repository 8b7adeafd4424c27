"""Serving: a count kernel by kernel, experts drawn one by one, an engine run pass by pass, publications, refusals."""

import itertools
import time
from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterlab.catalogue import SERVING, machine
from clusterlab.interconnect import expert_all_to_all
from clusterlab.model import (
    Layout,
    attention_parameters,
    expert_parameters,
    kv_cache_bytes,
    mamba_parameters,
    parameters,
    state_bytes,
    transformer,
)
from clusterlab.parallelism import training
from clusterlab.roofline import experts_touched, kernel_time
from clusterlab.serving import (
    PARTS,
    Batch,
    Formats,
    Replica,
    Requests,
    accepted_tokens,
    balanced_loads,
    continuous_batch,
    disaggregate,
    faults,
    footprint,
    forward_pass,
    frontier,
    fullest_rank,
    largest_batch,
    replica,
    reuse,
    saturation,
    speculative_speedup,
    static_batch,
    token_price,
    train,
)
from laws import assert_equals_a_loop
from refusals import unreached

H100 = machine("H100 SXM")
SMALL, LARGE, MIXTURE, DEEPSEEK = (
    transformer(name) for name in ("Llama 3.1 8B", "Llama 3.1 70B", "Mixtral 8x7B", "DeepSeek-V3")
)
HYBRID, HYBRID_MIXTURE = transformer("Nemotron-H 8B"), transformer("Nemotron 3 Super")
# Nothing but the kernels: no launches, no host, experts all alike.
BARE = replace(SERVING["usual"], pass_time=0.0, layer_time=0.0, sequence_time=0.0, expert_skew=0.0)


def seconds(flops, read, moved, software, peak):
    return kernel_time(
        flops,
        read + moved,
        peak=peak,
        bandwidth=software.memory * H100.hbm_bandwidth,
        overlap_loss=software.overlap_loss,
    )


def gemm_rate(formats, software):
    name, share = {"bf16": ("bf16", "gemm"), "fp8": ("fp8", "gemm_8")}[formats.products]
    return H100.peaks[name] * getattr(H100.efficiency, share) * software.gemm


# --- One pass --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tp", [1, 4, 16])
@pytest.mark.parametrize(
    "batch", [Batch(sequences=48, context=3000, verified=3), Batch(prompt_tokens=4096, chunk=1024, cached=512)]
)
def test_a_dense_pass_is_its_kernels_counted_one_by_one(tp, batch):
    """Matrix by matrix, with a head of keys and values on every rank at least (Llama 3.1 70B has eight)."""
    shape, formats = LARGE, Formats("fp8", cache_bytes=1)
    found = forward_pass(Replica(shape, H100, Layout(tp=tp), formats, software=BARE), batch)
    h, d, f = shape.hidden, shape.head_dim, shape.ffn
    heads, kv = shape.heads / tp, max(shape.kv_heads / tp, 1)
    rate, tokens = gemm_rate(formats, BARE), batch.tokens
    projections = [(h, heads * d), (h, kv * d), (h, kv * d), (heads * d, h)]
    mlp = [(h, f / tp), (h, f / tp), (f / tp, h)]
    total = weights = 0.0
    for matrices, width in ((projections, 2 * heads * d), (mlp, 3 * f / tp)):
        size = sum(rows * columns for rows, columns in matrices)
        total += shape.layers * seconds(2 * tokens * size, size, 2 * tokens * (2 * h + width), BARE, rate)
        weights += shape.layers * size
    rows = batch.sequences * batch.verified + batch.prompt_tokens / batch.chunk
    logits = shape.vocab * h / tp
    total += seconds(2 * rows * logits, 2 * logits, 0, BARE, rate)
    assert found.weights + found.gemms == pytest.approx(total)
    assert found.weights == pytest.approx((weights + 2 * logits) / (BARE.memory * H100.hbm_bandwidth))
    # Attention: two products of a query with each key and value that it sees.
    pairs = batch.sequences * batch.verified * batch.context + batch.prompt_tokens / batch.chunk * sum(
        batch.cached + i + 1 for i in range(int(batch.chunk))
    )
    cached = batch.sequences * batch.context + batch.prompt_tokens / batch.chunk * (batch.cached + batch.chunk)
    each = seconds(4 * heads * d * pairs, 2 * kv * d * cached, 0, BARE, BARE.attention * H100.peaks["bf16"])
    assert found.caches + found.attention == pytest.approx(shape.layers * each)
    assert found.caches == pytest.approx(shape.layers * 2 * kv * d * cached / (BARE.memory * H100.hbm_bandwidth))
    # What only moves memory: norms with residuals, rotations, activations.
    moved = 8 * h + (2 * (shape.heads + shape.kv_heads) * d + 3 * f) / tp
    memory = BARE.memory * H100.hbm_bandwidth
    assert found.elementwise == pytest.approx(shape.layers * 2 * tokens * moved / memory)
    links = H100.link_efficiency
    size, nodes = 2 * tokens * h, max(tp // 8, 1)
    one = expert_all_to_all(
        size,
        tp,
        experts_per_token=1,
        node_size=min(tp, 8),
        bandwidth=links.all_to_all * H100.network_bandwidth,
        latency=H100.network_latency,
        node_bandwidth=links.all_to_all * H100.scale_up_bandwidth,
        node_latency=H100.scale_up_latency,
    )
    assert nodes == (2 if tp == 16 else 1)
    assert found.all_reduces == pytest.approx(2 * shape.layers * 2 * one.time)
    assert found.exchange == found.imbalance == found.transfers == found.stages == found.launches == found.host == 0


@pytest.mark.parametrize(
    ("ep", "etp", "dp", "tp"), [(8, 1, 8, 1), (1, 8, 1, 8), (4, 2, 1, 8), (8, 1, 2, 4), (2, 1, 8, 1)]
)
def test_experts_are_counted_one_by_one(ep, etp, dp, tp):
    shape, formats, batch = MIXTURE, Formats("fp8"), Batch(sequences=64, context=100)
    layout = Layout(dp=dp, tp=tp, ep=ep, etp=etp)
    found = forward_pass(Replica(shape, H100, layout, formats, software=BARE), batch)
    dense = replace(shape, experts=0, experts_per_token=0)
    copies = dp * tp // (ep * etp)
    together = 64 / copies  # tokens of one copy of all experts
    touched = experts_touched(together, experts=8, experts_per_token=2)
    weights = expert_parameters(shape) / etp
    held = 8 / ep
    rows = together * 2 / ep
    moved = 2 * rows * (2 * shape.hidden + 3 * shape.expert_ffn / etp)
    slow = replace(BARE, memory=BARE.memory * BARE.grouped_gemm)
    rate = gemm_rate(formats, BARE) * BARE.grouped_gemm
    filled = rows + 64 * held * touched  # half of a tile of 128 rows for each expert
    one = seconds(2 * filled * weights, held * touched * weights, moved, slow, rate)
    # The rest of the layers is that of a dense model without its MLP; the router goes with it.
    alone = forward_pass(Replica(dense, H100, Layout(dp=dp, tp=tp), formats, software=BARE), batch)
    h, tokens = shape.hidden, 64 / dp
    mlp_size = 3 * h * shape.ffn / tp
    mlp = seconds(
        2 * tokens * mlp_size, mlp_size, 2 * tokens * (2 * h + 3 * shape.ffn / tp), BARE, gemm_rate(formats, BARE)
    )
    router = seconds(2 * tokens * h * 8, h * 8, 2 * tokens * 2 * h, BARE, gemm_rate(formats, BARE))
    rest = alone.weights + alone.gemms - shape.layers * (mlp - router)
    assert found.weights + found.gemms == pytest.approx(rest + shape.layers * one)
    assert found.caches + found.attention == pytest.approx(alone.caches + alone.attention)
    # Middles of two experts instead of one, and rows sorted to experts and back.
    more = 64 / dp * (3 * shape.ffn / tp + 4 * 2 * shape.hidden) * 2 / (BARE.memory * H100.hbm_bandwidth)
    assert found.elementwise - alone.elementwise == pytest.approx(shape.layers * more)
    if dp == 1:  # all ranks have all tokens: outputs are summed, nothing is sent
        assert found.exchange == 0
        assert found.all_reduces == pytest.approx(alone.all_reduces)
    else:
        assert found.exchange > 0
        assert found.all_reduces == pytest.approx(alone.all_reduces / 2)


def test_tokens_travel_to_their_experts_and_back():
    """Decoding, every copy goes straight to its rank; of a prompt a token crosses to a node once."""
    links = {
        "bandwidth": 0.724 * 50e9,
        "latency": 14e-6 + 2 * 0.8e-6,
        "node_bandwidth": 0.724 * 450e9,
        "node_latency": H100.scale_up_latency,
    }
    layout = Layout(dp=32, ep=32)
    replica = Replica(DEEPSEEK, H100, layout, Formats("fp8"), software=replace(BARE, expert_skew=0.0))
    for batch, per_token in ((Batch(sequences=32 * 128, context=10), 1), (Batch(prompt_tokens=32 * 128, chunk=128), 8)):
        both = sum(
            8.4e-6
            + expert_all_to_all(128 * 8 * 7168 * size, 32, experts_per_token=per_token, node_size=8, **links).time
            for size in (1, 2)
        )
        assert forward_pass(replica, batch).exchange == pytest.approx(58 * both)


def test_ranks_that_split_an_expert_all_need_its_tokens():
    """Attention DP with experts split by eight: each token goes to all eight ranks, once for both its experts."""
    found = forward_pass(
        Replica(MIXTURE, H100, Layout(dp=8, etp=8), Formats("fp8"), software=BARE), Batch(sequences=8 * 64, context=10)
    )
    links = {
        "bandwidth": 1,
        "latency": 0,
        "node_bandwidth": 0.724 * 450e9,
        "node_latency": H100.scale_up_latency,
    }
    both = sum(
        expert_all_to_all(64 * 8 * 4096 * size, 8, experts_per_token=1, node_size=8, **links).time for size in (1, 2)
    )
    assert found.exchange == pytest.approx(32 * both)
    assert found.all_reduces == 0


def test_mla_reads_the_latents_once_for_all_heads_and_scores_in_their_space():
    replica = Replica(DEEPSEEK, H100, Layout(tp=8, ep=8), Formats("fp8"), software=BARE)
    found = forward_pass(replica, Batch(sequences=100, context=5000))
    bytes_ = 61 * (512 + 64) * 2 * 100 * 5000  # whole on each rank
    assert found.caches == pytest.approx(bytes_ / (BARE.memory * H100.hbm_bandwidth))
    flops = 61 * 2 * 16 * (2 * 512 + 64) * 100 * 5000  # 16 heads a rank
    both = seconds(flops, bytes_, 0, BARE, BARE.attention * H100.peaks["bf16"])
    assert found.caches + found.attention == pytest.approx(both)
    of_heads, shared = attention_parameters(DEEPSEEK)
    assert found.weights > 61 * (of_heads / 8 + shared) / (BARE.memory * H100.hbm_bandwidth)


def test_two_batches_hide_the_exchange_and_read_the_weights_twice():
    layout = Layout(dp=72, ep=72)
    one = Replica(DEEPSEEK, H100, layout, Formats("fp8"), redundant=32, software=BARE)
    two = replace(one, two_batches=True)
    small, large = (Batch(sequences=72 * n, context=2000) for n in (4, 256))
    first, second = forward_pass(one, large), forward_pass(two, large)
    dense_part = forward_pass(one, small)
    assert second.exchange < 0.5 * first.exchange
    assert second.caches == pytest.approx(first.caches)
    assert 1.9 * first.weights < second.weights <= 2 * first.weights
    assert second.time < first.time
    # In a small batch the weights that are read twice cost more than what is hidden.
    assert forward_pass(two, small).time > dense_part.time
    assert forward_pass(two, small).weights > 1.5 * dense_part.weights


def test_a_stage_that_computes_is_what_hides_and_contention_costs():
    replica = Replica(DEEPSEEK, H100, Layout(dp=72, ep=72), Formats("fp8"), True, 32, replace(BARE, contention=0.0))
    batch = Batch(sequences=72 * 64, context=30_000)  # long contexts: work enough
    assert forward_pass(replica, batch).exchange == 0
    slow = replace(replica, software=replace(BARE, contention=0.25))
    alone = forward_pass(replace(slow, two_batches=False), batch)
    halves = forward_pass(slow, batch)
    assert halves.exchange == 0  # decoding, the kernels that exchange hold no processors
    reading, near = Batch(prompt_tokens=72 * 8192, chunk=8192), replace(slow, machine=replace(H100, domain=72))
    alone = forward_pass(replace(near, two_batches=False), reading)
    halves = forward_pass(near, reading)
    once_more = 58 * 2 * H100.scale_up_latency  # each half has its latencies
    assert halves.exchange == pytest.approx(0.25 * (alone.exchange + once_more))


def test_the_fullest_rank_makes_all_wait():
    layout = Layout(dp=72, ep=72)
    batch = Batch(sequences=72 * 256, context=2000)
    even, skewed = (
        Replica(DEEPSEEK, H100, layout, Formats("fp8"), redundant=32, software=replace(BARE, expert_skew=skew))
        for skew in (0.0, 1.0)
    )
    first, second = forward_pass(even, batch), forward_pass(skewed, batch)
    assert second.imbalance > 5 * first.imbalance > 0
    for name in set(PARTS) - {"imbalance"}:
        assert getattr(first, name) == pytest.approx(getattr(second, name))
    factor = fullest_rank(72 * 256, experts=256, experts_per_token=8, ranks=72, skew=1.0, redundant=32)
    assert second.imbalance > (factor - 1) * second.exchange


def test_the_fullest_rank_sees_more_rows_and_touches_more_experts():
    """Eight ranks with 32 experts each, four tokens: the mean rank touches four of them."""
    replica = Replica(DEEPSEEK, H100, Layout(dp=8, ep=8), Formats("fp8"), software=BARE)
    found = forward_pass(replica, Batch(sequences=8, context=10))
    factor = fullest_rank(8, experts=256, experts_per_token=8, ranks=8)
    weights, slow = expert_parameters(DEEPSEEK), replace(BARE, memory=BARE.memory * BARE.grouped_gemm)

    def kernel(times):
        touched = 32 * experts_touched(8 * times, experts=256, experts_per_token=8)
        filled, moved = 8 * times + 64 * touched, 2 * 8 * times * (2 * 7168 + 3 * 2048)
        rate = gemm_rate(Formats("fp8"), BARE) * BARE.grouped_gemm
        return seconds(2 * filled * weights, touched * weights, moved, slow, rate)

    expected = 58 * (kernel(factor) - kernel(1)) + (factor - 1) * found.exchange
    assert factor > 1.3
    assert found.imbalance == pytest.approx(expected)


@pytest.mark.parametrize("pp", [2, 4, 8])
def test_a_pipeline_takes_its_layers_and_hand_offs_one_after_the_other(pp):
    """With 80 layers and an output layer, the last stage is the slowest, and the others wait for it."""
    single = Replica(LARGE, H100, Layout(tp=8), Formats("fp8"), software=BARE)
    staged = replace(single, layout=Layout(tp=8, pp=pp))
    one = forward_pass(single, Batch(sequences=64, context=1000))
    many = forward_pass(staged, Batch(sequences=64 * pp, context=1000))
    for name in ("weights", "caches", "gemms", "attention", "all_reduces"):
        assert getattr(many, name) == pytest.approx(getattr(one, name))
    logits = seconds(2 * 64 * 8192 * 128256 / 8, 2 * 8192 * 128256 / 8, 0, BARE, gemm_rate(Formats("fp8"), BARE))
    layers = one.time - logits
    assert many.stages == pytest.approx(pp * (layers / pp + logits) - one.time)
    hop = 2 * 64 * 8192 / (8 * 0.724 * H100.network_bandwidth)
    assert many.transfers == pytest.approx(pp * H100.network_latency + (pp - 1) * hop)
    assert many.host == 0


def test_layers_cut_along_both_axes_send_what_pope_et_al_say():
    """An MLP of width 4 h on n chips sends 8 T h/sqrt(n) with weights in place, and 4 h sqrt(T 4 h/n) when gathered."""
    shape = replace(transformer("Llama 2 7B"), hidden=16384, ffn=65536, gated=False)
    tpu = replace(machine("TPU v4"), scale_up_latency=0.0)
    reached = training._reached(tpu, "bf16")

    def sent(tokens, n):  # elements of 2 bytes
        return replica._along_both(shape, reached, n, Formats(), tokens, 0)[1] * reached.scale_up_ring / 2

    for n in (16.0, 64.0, 1024.0):
        full = 8 * 512 * 16384 / np.sqrt(n)  # a ring of k leaves out a k-th
        assert full / 2 < sent(512, n) <= full
        some = 2.0**20
        ideal = 4 * 16384 * np.sqrt(some * 65536 / n)
        assert 0.45 * ideal < sent(some, n) < 1.1 * ideal
        assert sent(some, n) < 0.7 * 8 * some * 16384 / np.sqrt(n)
    assert sent(512, 4096.0) > 0.9 * 8 * 512 * 16384 / 64


def test_few_ranks_of_a_mesh_use_few_of_its_links():
    mesh = machine("MI300X")
    switched = replace(mesh, peers=None)
    some = Batch(sequences=4096, context=100)
    for tp in (2, 4, 8):
        times = [forward_pass(Replica(LARGE, m, Layout(tp=tp)), some).all_reduces for m in (mesh, switched)]
        latency = 2 * 2 * 80 * mesh.scale_up_latency
        slower = [time - latency for time in times]
        assert slower[0] == pytest.approx(7 / (tp - 1) * slower[1], rel=0.02)


def test_two_axes_share_out_what_one_axis_repeats():
    """One key head: cut by heads each of 16 ranks reads all caches, cut by sequences a 16th of them."""
    one = Replica(transformer("PaLM 62B"), machine("TPU v4"), Layout(tp=16))
    both = replace(one, software=replace(one.software, two_axes=True))
    some = Batch(sequences=512, context=2048)
    a, b = forward_pass(one, some), forward_pass(both, some)
    assert b.caches == pytest.approx(a.caches / 16)
    assert b.elementwise < a.elementwise
    assert b.flops == a.flops
    few = Batch(sequences=4, context=2048)
    assert forward_pass(both, few).caches == pytest.approx(forward_pass(one, few).caches / 4)
    alone = replace(both, layout=Layout(), formats=Formats("int8", 0.01))
    assert forward_pass(alone, few).all_reduces == 0
    assert largest_batch(both, 2048) > 10 * largest_batch(one, 2048)


def test_the_host_works_while_the_gpu_does_where_there_is_one_stage():
    slow = replace(BARE, pass_time=1e-3, sequence_time=100e-6)
    one = Replica(SMALL, H100, Layout(), Formats("fp8"), software=slow)
    few, many = (forward_pass(one, Batch(sequences=n, context=100)) for n in (8, 1000))
    assert few.host == 0
    assert many.time == pytest.approx(1e-3 + 1000 * 100e-6)  # the host is what takes longer
    alone = forward_pass(replace(one, software=replace(slow, host_overlap=False)), Batch(sequences=8, context=100))
    assert alone.host == pytest.approx(1e-3 + 8 * 100e-6)
    ranks = forward_pass(replace(one, layout=Layout(dp=4)), Batch(sequences=4 * 1000, context=100))
    assert ranks.time == pytest.approx(many.time)  # each attention rank has a host of its own
    staged = forward_pass(replace(one, layout=Layout(pp=2)), Batch(sequences=8, context=100))
    assert staged.host == pytest.approx(2 * 1e-3 + 8 * 100e-6)
    wide = forward_pass(replace(one, software=replace(BARE, layer_time=10e-6)), Batch(sequences=8, context=100))
    assert wide.launches == pytest.approx(32 * 10e-6)


@st.composite
def replicas(draw):
    shape = draw(st.sampled_from([SMALL, MIXTURE, DEEPSEEK, transformer("gpt-oss 120B"), HYBRID, HYBRID_MIXTURE]))
    tp, pp, dp = (draw(st.sampled_from(values)) for values in ((1, 2, 8), (1, 3, 4), (1, 2, 16)))
    ep = draw(st.sampled_from([1, tp * dp])) if shape.experts else 1
    redundant = -shape.experts % ep if shape.experts else 0
    layout = Layout(tp=tp, pp=pp, dp=dp, ep=ep)
    chip = machine(draw(st.sampled_from(["H100 SXM", "GB200", "A100 80GB"])))
    formats = Formats("bf16", cache_bytes=draw(st.sampled_from([1, 2])))
    return Replica(shape, chip, layout, formats, draw(st.booleans()), redundant)


@st.composite
def batches(draw):
    number = st.floats(0.5, 1e5)
    decoding, reading = draw(st.sampled_from([(1, 0), (0, 1), (1, 1)]))
    return Batch(
        sequences=decoding * draw(number),
        context=draw(st.floats(1, 1e5)),
        verified=draw(st.floats(1, 5)),
        prompt_tokens=reading * draw(number),
        chunk=draw(st.floats(1, 1e4)),
        cached=draw(st.floats(0, 1e5)),
    )


@given(replicas(), batches())
def test_parts_are_never_negative_and_sum_to_the_pass(replica, batch):
    found = forward_pass(replica, batch)
    parts = [getattr(found, name) for name in PARTS]
    assert min(parts) >= -1e-15
    assert found.time == pytest.approx(sum(parts))
    assert 0 < found.mfu < 1


@given(replicas(), batches(), st.sampled_from(["hbm_bandwidth", "scale_up_bandwidth", "network_bandwidth"]))
def test_a_faster_machine_never_slows_a_pass(replica, batch, name):
    faster = replace(replica.machine, **{name: 2 * getattr(replica.machine, name)})
    before, after = forward_pass(replica, batch).time, forward_pass(replace(replica, machine=faster), batch).time
    assert after <= before * (1 + 1e-12)


@given(replicas(), batches())
def test_times_scale_with_the_machine(replica, batch):
    """Half as fast in everything, twice the time."""
    m, links = replica.machine, ("hbm_bandwidth", "scale_up_bandwidth", "network_bandwidth")
    slow = replace(
        m,
        peaks={name: peak / 2 for name, peak in m.peaks.items()},
        **{name: getattr(m, name) / 2 for name in links},
        **{name: getattr(m, name) * 2 for name in ("scale_up_latency", "network_latency", "dispatch_latency")},
    )
    soft = replica.software
    twice = replace(soft, **{name: 2 * getattr(soft, name) for name in ("pass_time", "layer_time", "sequence_time")})
    found = forward_pass(replace(replica, machine=slow, software=twice), batch)
    for name in PARTS:
        assert getattr(found, name) == pytest.approx(2 * getattr(forward_pass(replica, batch), name), abs=1e-15)


@pytest.mark.parametrize("shape", [DEEPSEEK, HYBRID_MIXTURE], ids=["MLA", "hybrid"])
def test_arrays_are_a_loop(shape):
    axes = {"tp": np.array([1, 2, 4, 8]), "pp": np.array([1, 2, 1, 4]), "dp": np.array([8, 2, 1, 2])}
    halves, sequences = np.array([True, False, False, True]), np.array([10.0, 100.0, 1000.0, 64.0])
    layout = Layout(**axes, ep=np.array([8, 4, 1, 16]), etp=np.array([1, 1, 4, 1]))
    many = Replica(shape, H100, layout, Formats("fp8"), halves)
    each = [replace(many, layout=layout[i], two_batches=bool(halves[i])) for i in range(4)]
    batch = Batch(sequences=sequences, context=1000)
    loop = [forward_pass(one, Batch(sequences=n, context=1000)) for one, n in zip(each, sequences, strict=True)]
    found = forward_pass(many, batch)
    for name in (*PARTS, "time", "mfu", "flops", "gpus"):
        np.testing.assert_allclose(getattr(found, name), [getattr(one, name) for one in loop], rtol=1e-12, atol=1e-18)


# --- Experts ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("skew", [0.0, 0.3, 0.6])
@pytest.mark.parametrize(("tokens", "ranks"), [(256, 8), (1024, 32), (2048, 128)])
def test_the_fullest_rank_is_what_drawing_experts_finds(tokens, ranks, skew):
    """Popularities from a gamma distribution; each token draws eight different experts of 256 by them."""
    rng, found = np.random.default_rng(5), []
    for _ in range(12):
        popular = rng.gamma(1 / skew**2, size=256) if skew else np.ones(256)
        keys = np.log(popular) + rng.gumbel(size=(tokens, 256)).astype(np.float32)
        chosen = np.argpartition(-keys, 8, axis=1)[:, :8]
        loads = np.bincount(chosen.ravel(), minlength=256).reshape(ranks, -1).sum(axis=1)
        found.append(loads.max() / loads.mean())
    law = fullest_rank(tokens, experts=256, experts_per_token=8, ranks=ranks, skew=skew)
    assert law == pytest.approx(np.mean(found), rel=0.05)


def test_one_rank_is_the_fullest_and_chance_vanishes_in_large_batches():
    load = {"experts": 256, "experts_per_token": 8}
    assert fullest_rank(100, ranks=1, skew=2, **load) == 1
    assert fullest_rank(1e12, ranks=64, **load) == pytest.approx(1, abs=1e-4)
    assert fullest_rank(1, ranks=64, experts=8, experts_per_token=8) == 1  # every token goes everywhere
    many = fullest_rank(np.array([10, 1000]), ranks=np.array([[8], [64], [8]]), **load)
    assert many.shape == (3, 2)
    assert many[0, 1] == fullest_rank(1000, ranks=8, **load)
    more = fullest_rank(1e9, ranks=64, skew=1, redundant=[0, 64], **load)
    assert more[1] < more[0]


@given(st.lists(st.integers(0, 100), min_size=4, max_size=4), st.sampled_from([0, 2, 4]))
def test_balancing_loses_no_token_and_gives_every_rank_as_many_copies(loads, redundant):
    found = balanced_loads(loads, 2, redundant=redundant)
    assert found.sum() == pytest.approx(sum(loads))
    best = min(
        max(sum(loads[i] for i in half), sum(loads) - sum(loads[i] for i in half))
        for half in itertools.combinations(range(4), 2)
    )
    if not redundant:
        assert best <= found.max() <= 4 / 3 * best + 1e-9  # the bound of greedy packing


def test_copies_even_out_what_skew_makes_uneven():
    """DeepSeek's 32 copies on 72 GPUs, popularities with a deviation of one mean."""
    rng = np.random.default_rng(1)
    loads = rng.gamma(1.0, size=(20, 256))
    plain = np.mean([balanced_loads(one, 64).max() / one.sum() * 64 for one in loads])
    copied = np.mean([balanced_loads(one, 72, redundant=32).max() / one.sum() * 72 for one in loads])
    placed_anyhow = np.mean([one.reshape(64, 4).sum(axis=1).max() / one.sum() * 64 for one in loads])
    assert placed_anyhow > 2
    assert copied < plain < placed_anyhow
    assert copied < 1.05


# --- Memory ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [SMALL, MIXTURE, DEEPSEEK, HYBRID, HYBRID_MIXTURE])
def test_the_weights_of_one_gpu_are_the_model(shape):
    formats = Formats("fp8")
    count = parameters(shape)
    ends = count.embedding + count.output
    expected = count.total - count.norms_and_biases - ends + 2 * ends
    assert footprint(Replica(shape, H100, formats=formats), sequences=0, context=0).weights == pytest.approx(expected)


def test_ranks_hold_the_model_once_and_what_they_share_in_each():
    ranks = Replica(DEEPSEEK, H100, Layout(dp=32, ep=32), Formats("fp8"))
    alone = Replica(DEEPSEEK, H100, formats=Formats("fp8"))
    held, once = (footprint(one, sequences=0, context=0).weights for one in (ranks, alone))
    experts = 58 * 256 * expert_parameters(DEEPSEEK)
    assert 32 * held == pytest.approx(experts + 32 * (once - experts))
    copied = footprint(replace(ranks, redundant=32), sequences=0, context=0).weights
    assert copied - held == pytest.approx(58 * expert_parameters(DEEPSEEK))
    halves = footprint(replace(alone, layout=Layout(tp=8, ep=8)), sequences=0, context=0).weights
    _, shared = attention_parameters(DEEPSEEK)
    beside = 61 * shared + 58 * 256 * 7168
    assert halves == pytest.approx((once - beside) / 8 + beside)


@pytest.mark.parametrize("layout", [{"tp": 4}, {"tp": 16}, {"dp": 4, "tp": 2}, {"pp": 4, "tp": 2}])
def test_the_largest_batch_fits_and_no_other(layout):
    soft = replace(SERVING["usual"], cache_share=1.0)
    replica = Replica(LARGE, H100, Layout(**layout), Formats("fp8", cache_bytes=1), software=soft)
    most = largest_batch(replica, 4096)
    dp = replica.layout.dp
    assert most % dp == 0
    assert footprint(replica, sequences=most, context=4096).total <= H100.hbm_capacity
    assert footprint(replica, sequences=most + dp, context=4096).total > H100.hbm_capacity
    one = footprint(replica, sequences=1, context=4096)
    whole = kv_cache_bytes(LARGE, 4096, bytes_per_element=1)
    assert one.caches == pytest.approx(whole * max(1 / replica.layout.tp, 1 / 8) / (dp * replica.layout.pp))
    assert one.total == one.weights + one.activations + one.caches


@pytest.mark.parametrize("layout", [{"tp": 4}, {"dp": 4, "tp": 2}, {"pp": 4, "tp": 2}])
@pytest.mark.parametrize("shape", [LARGE, transformer("gpt-oss 120B"), HYBRID], ids=["70B", "windows", "hybrid"])
def test_a_common_beginning_is_held_once_in_each_attention_group(shape, layout):
    soft = replace(SERVING["usual"], cache_share=1.0)
    replica = Replica(shape, H100, Layout(**layout), Formats("fp8", cache_bytes=1), software=soft)
    dp = replica.layout.dp
    most = largest_batch(replica, 4096, shared=1000)
    once = footprint(replica, sequences=dp, context=1000).caches
    own = [footprint(replica, sequences=n, context=3096).total for n in (most, most + dp)]
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


# --- A replica under load --------------------------------------------------------------------------------------------


def test_a_static_batch_is_its_passes_added_up():
    replica, requests = Replica(SMALL, H100, formats=Formats("fp8")), Requests(300, 40)
    prefill = forward_pass(replica, Batch(prompt_tokens=8 * 300, chunk=300)).time
    passes = [forward_pass(replica, Batch(sequences=8, context=300 + i)).time for i in range(1, 40)]
    found = static_batch(replica, requests, sequences=8)
    assert found.time_to_first_token == prefill
    assert found.latency == pytest.approx(prefill + sum(passes), rel=1e-6)
    assert found.tokens_per_second == pytest.approx(8 * 40 / found.latency)
    room = largest_batch(replica, 340)
    late = static_batch(replica, requests, sequences=2 * room)
    assert late.sequences == room
    assert late.latency == pytest.approx(2 * static_batch(replica, requests, sequences=room).latency)


@pytest.mark.parametrize(("prompt", "output", "slots"), [(400, 100, 50), (60, 240, 120)])
def test_a_continuous_batch_is_an_engine_run_pass_by_pass(prompt, output, slots):
    """Each slot has its own context; where an answer ends the next prompt is read whole in the pass that follows."""
    replica, requests = Replica(SMALL, H100, formats=Formats("fp8")), Requests(prompt, output)
    written = (np.arange(slots) * output / slots).round()  # answers end one after the other
    time = tokens = 0.0
    for _ in range(2 * output):
        reading = np.count_nonzero(written == 0)
        decoding = slots - reading
        context = prompt + np.mean(written[written > 0])
        batch = Batch(sequences=decoding, context=context, prompt_tokens=reading * prompt, chunk=prompt)
        time += forward_pass(replica, batch).time
        tokens += slots  # a prompt that is read gives its first token
        written = (written + 1) % output
    law = continuous_batch(replica, requests, sequences=slots)
    assert law.tokens_per_second == pytest.approx(tokens / time, rel=0.03)
    assert law.time_per_token == pytest.approx(slots / law.tokens_per_second)
    first = Batch(sequences=slots, context=prompt + output / 2, prompt_tokens=prompt, chunk=prompt)
    assert law.time_to_first_token == pytest.approx(forward_pass(replica, first).time)
    assert law.latency == pytest.approx(law.time_to_first_token + (output - 1) * law.time_per_token)
    assert law.tokens_per_second_per_gpu == law.tokens_per_second
    assert law.speed == 1 / law.time_per_token


def test_a_prompt_in_chunks_waits_longer_and_stalls_others_less():
    replica, requests = Replica(LARGE, H100, Layout(tp=4), Formats("fp8")), Requests(8000, 400)
    whole, chunked = (continuous_batch(replica, requests, sequences=32, chunk=chunk) for chunk in (None, 500))
    assert chunked.time_to_first_token > whole.time_to_first_token
    # Chunks ride on passes that read the weights anyway (Sarathi-Serve): mixed passes yield more, though caches are
    # read again with every chunk.
    assert 0.8 < chunked.time_per_token / whole.time_per_token < 0.95
    stall = forward_pass(replica, Batch(sequences=32, context=8200, prompt_tokens=500, chunk=500, cached=3750)).time
    assert chunked.time_to_first_token == pytest.approx(16 * stall, rel=1e-3)
    cached = continuous_batch(replica, replace(requests, cached=0.75), sequences=32)
    assert cached.time_to_first_token < 0.4 * whole.time_to_first_token
    assert cached.tokens_per_second > whole.tokens_per_second


def test_prompts_read_elsewhere_leave_passes_that_only_decode():
    replica = Replica(DEEPSEEK, H100, Layout(dp=32, ep=32), Formats("fp8", cache_bytes=1))
    both = continuous_batch(replica, Requests(4000, 1000, cached=[0.5, 1.0]), sequences=2048)
    alone = forward_pass(replica, Batch(sequences=2048, context=4500)).time
    assert both.time_per_token[1] == pytest.approx(alone)
    assert both.time_per_token[0] > 1.2 * alone
    assert both.time_to_first_token[1] == 0
    assert both.latency[1] == pytest.approx(999 * alone)


def test_saturation_is_the_first_limit_that_is_reached():
    replica = Replica(SMALL, H100, Layout(dp=2), Formats("fp8", cache_bytes=1))
    soft = replica.software
    assert saturation(replica, Requests(10, 10)) == 2 * soft.max_sequences
    assert saturation(replica, Requests(2000, 100)) == np.floor(2 * soft.max_tokens / 21)
    assert saturation(replica, Requests(50_000, 50_000)) == largest_batch(replica, 100_000)


# --- Hybrids ---------------------------------------------------------------------------------------------------------

# Of Nemotron-H 8B's published configuration: M is a Mamba-2 mixer, * attention, - a feed-forward.
PATTERN = "M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M-"


@pytest.mark.parametrize("tp", [1, 8])
def test_a_hybrid_s_bytes_are_those_of_its_blocks_counted_one_by_one(tp):
    heads, dim, state, groups, hidden, users, context = 128, 64, 128, 8, 4096, 20, 100_000
    inner, shared = heads * dim, groups * state
    weights, kept, passed = 0, 0, 0  # ... of a sequence: kept in memory, and passed by a decoding step
    for block in PATTERN:
        if block == "M":
            weights += hidden * (2 * inner + 2 * shared + heads) + inner * hidden
            own = 4 * (heads * dim * state + 3 * (inner + 2 * shared))
            kept, passed = kept + own, passed + 2 * own  # read and written
        elif block == "*":
            weights += hidden * 128 * (2 * 32 + 2 * 8)
            kept, passed = kept + context * 2 * 8 * 128 * 2, passed + context * 2 * 8 * 128 * 2
        else:
            weights += 2 * hidden * 21504
    weights += 131072 * hidden  # the output layer
    replica = Replica(HYBRID, H100, Layout(tp=tp), software=BARE)
    found = forward_pass(replica, Batch(sequences=users, context=context))
    rate = tp * BARE.memory * H100.hbm_bandwidth
    assert found.weights == pytest.approx(2 * weights / rate)
    assert found.caches == pytest.approx(users * passed / rate)
    held = footprint(replica, sequences=users, context=context)
    assert held.caches == pytest.approx(users * kept / tp)
    small = 24 * (mamba_parameters(HYBRID) - hidden * (3 * inner + 2 * shared + heads))  # convolutions, norms
    assert held.weights == pytest.approx(2 * (weights + small + 131072 * hidden) / tp)


@given(replicas(), st.floats(1, 1e6), st.floats(1, 1e6))
def test_a_state_does_not_depend_on_the_context(replica, one, other):
    """What two contexts differ by are keys and values; what is left without any is the state."""
    shape, formats, layout = replica.model, replica.formats, replica.layout
    caches = [footprint(replica, sequences=1, context=s).caches for s in (one, other)]
    keys = [kv_cache_bytes(shape, s, bytes_per_element=formats.cache_bytes) for s in (one, other)]
    held = 1.0 if shape.kv_rank else max(1 / layout.tp, 1 / shape.kv_heads)
    ranks = layout.dp * layout.pp
    expected = held * keys[0] + state_bytes(shape) / layout.tp
    assert caches[0] * ranks == pytest.approx(expected)
    assert caches[0] - caches[1] == pytest.approx(held * (keys[0] - keys[1]) / ranks, rel=1e-6, abs=1)


@pytest.mark.parametrize("batch", [Batch(sequences=100, context=9000), Batch(prompt_tokens=8192, chunk=2048)])
@pytest.mark.parametrize(("shape", "layout"), [(SMALL, Layout(tp=4)), (MIXTURE, Layout(dp=4, ep=4))])
def test_a_hybrid_whose_mixers_vanish_is_a_transformer(shape, layout, batch):
    """Each part is linear in the number of mixers: from one and two of them it leads to none."""
    ffn = shape.layers
    one, two = (
        replace(shape, layers=2 * ffn + n, feed_forward_layers=ffn, mamba_layers=n, mamba_heads=128) for n in (1, 2)
    )
    replicas_ = [Replica(each, H100, layout, software=BARE) for each in (one, two, shape)]
    passes = [forward_pass(each, batch) for each in replicas_]
    for name in (*PARTS, "flops"):
        first, second, none = (getattr(each, name) for each in passes)
        assert 2 * first - second == pytest.approx(none, rel=1e-9, abs=1e-15)
    held = [footprint(each, sequences=10, context=5000) for each in replicas_]
    for f in fields(held[0]):
        first, second, none = (getattr(each, f.name) for each in held)
        assert 2 * first - second == pytest.approx(none)


def test_a_hybrid_reads_long_prompts_at_the_pace_of_short_ones():
    pace = {
        shape: [forward_pass(Replica(shape, H100), Batch(prompt_tokens=65_536, chunk=n)).time for n in (2048, 65_536)]
        for shape in (SMALL, HYBRID)
    }
    growth = {shape: long / short for shape, (short, long) in pace.items()}
    assert growth[SMALL] - 1 > 6 * (growth[HYBRID] - 1) > 0  # it has attention in 4 layers, not 32


def test_nemotron_h_is_up_to_three_times_as_fast():
    """NVIDIA 2025 (Nemotron-H): up to 3x faster than Qwen-2.5 and Llama-3.1 of its sizes; the lengths are ours."""
    requests, hybrid = Requests(65_536, 1024), 0.0
    for pair, layout in (
        (("Nemotron-H 8B", "Llama 3.1 8B", "Qwen2.5 7B"), Layout()),
        (("Nemotron-H 56B", "Llama 3.1 70B"), Layout(tp=8)),
    ):
        rates = [
            continuous_batch(Replica(transformer(name), H100, layout), requests).tokens_per_second for name in pair
        ]
        assert min(rates[0] / np.array(rates[1:])) > 1.5
        hybrid = max(hybrid, rates[0] / min(rates[1:]))
    assert hybrid == pytest.approx(3, rel=0.1)


def test_a_mixture_served_by_vllm_is_slower_than_predicted():
    """Vultr 2026, inference cookbook: Nemotron 3 Nano on two B200, vLLM 0.16, 2,048 in, 512 out, 512 users."""
    replica = Replica(transformer("Nemotron 3 Nano"), machine("B200"), Layout(tp=2, etp=2), Formats("fp8"))
    found = continuous_batch(replica, Requests(2048, 512), sequences=512)
    assert found.tokens_per_second == pytest.approx(1.67 * 18_746, rel=0.1)


# --- The frontier ----------------------------------------------------------------------------------------------------


def test_100_000_layouts_a_second_on_one_core():
    """Four times as many, in truth: the best of three, by the time of this process alone."""
    replica = Replica(transformer("DeepSeek-V3"), machine("GB200"), formats=Formats("fp8", cache_bytes=1))
    rates = []
    for _ in range(3):
        begun = time.process_time()
        found = frontier(replica, Requests(4000, 1000), gpus=[16, 64, 72], batches=2.0 ** np.arange(-4, 11, 0.05))
        rates.append(found.service.sequences.size / (time.process_time() - begun))
    assert found.service.sequences.size > 10_000
    assert max(rates) > 100_000


@pytest.mark.parametrize("shape", [LARGE, DEEPSEEK, HYBRID_MIXTURE])
def test_the_frontier_holds_everything_that_scalar_calls_find(shape):
    replica, requests = Replica(shape, machine("GB200"), formats=Formats("fp8")), Requests(1000, 500)
    found = frontier(replica, requests, gpus=[8, 72], batches=[0.5, 4, 32])
    rng = np.random.default_rng(2)
    for i in rng.choice(found.two_batches.size, 10, replace=False):
        layout = found.layouts[int(i)]
        redundant = -max(shape.experts, 1) % layout.ep if layout.ep > 1 else 0
        one = replace(replica, layout=layout, redundant=redundant, two_batches=bool(found.two_batches[i]))
        alone = continuous_batch(one, requests, sequences=found.service.sequences[i])
        for f in fields(alone):
            assert getattr(found.service, f.name)[i] == pytest.approx(getattr(alone, f.name), rel=1e-12)
    speed, yields = found.service.speed, found.service.tokens_per_second_per_gpu
    beaten = [
        np.any((speed >= s) & (yields >= y) & ((speed > s) | (yields > y))) for s, y in zip(speed, yields, strict=True)
    ]
    front = {(speed[i], yields[i]) for i in np.flatnonzero(~np.array(beaten))}  # equals are there once
    assert front == {(speed[i], yields[i]) for i in found.front}
    assert len(front) == found.front.size
    best = found.best(speed=20)
    assert speed[best] >= 20
    assert yields[best] == yields[speed >= 20].max()
    assert set(found.layouts.gpus) == {8, 72}
    if shape is DEEPSEEK:
        assert {72.0} <= set(found.layouts.ep)
        assert found.two_batches.any()


@pytest.mark.parametrize("elsewhere", [True, False])
def test_a_larger_domain_never_loses_where_the_same_sizes_are_tried(elsewhere):
    asked = Requests(128_000, 1000, cached=float(elsewhere))
    found = [
        frontier(
            Replica(DEEPSEEK, machine("GB200", domain=n), formats=Formats("fp8", cache_bytes=1)),
            asked,
            gpus=[8, 72, 128],
            batches=[0.5, 2, 8, 16],
        )
        for n in (8, 72)
    ]
    small, large = (one.service for one in found)
    for speed in (10, 20, 40, 80):
        best = [np.max(np.where(s.speed >= speed, s.tokens_per_second_per_gpu, 0)) for s in (small, large)]
        assert best[1] >= best[0]


def test_a_larger_domain_serves_experts_faster_at_the_same_price():
    """Eight, 72 and 256 GPUs that share a scale-up domain: the best yield at 50 tokens a second for each user."""
    requests = Requests(4000, 500)
    yields = []
    for domain in (8, 72):
        replica = Replica(DEEPSEEK, machine("GB200", domain=domain), formats=Formats("fp8", cache_bytes=1))
        found = frontier(replica, requests, gpus=[8, 16, 64], batches=2.0 ** np.arange(-4, 10, 0.5))
        yields.append(found.service.tokens_per_second_per_gpu[found.best(speed=50)])
    assert yields[1] > 1.2 * yields[0]


# --- Pipelines, speculation, price -----------------------------------------------------------------------------------


def run_train(stages, microbatches, stage_time, hand_off, tokens=200):
    """Each microbatch goes round; a stage serves whoever comes first."""
    free, ready, done = np.zeros(stages), np.zeros(microbatches), []
    for _ in range(tokens):
        for m in range(microbatches):
            at = ready[m]
            for s in range(stages):
                start = max(at, free[s])
                free[s] = start + stage_time
                at = free[s] + hand_off
            ready[m] = at
        done.append(ready[0])
    return (done[-1] - done[len(done) // 2]) / (len(done) - 1 - len(done) // 2)


@pytest.mark.parametrize(
    ("stages", "microbatches", "hand_off"), [(4, 1, 0), (4, 4, 0), (4, 4, 0.3), (4, 6, 0.3), (3, 8, 0.1)]
)
def test_the_train_is_what_microbatches_that_go_round_take(stages, microbatches, hand_off):
    law = train(stages, microbatches, stage_time=1.0, hand_off=hand_off)
    assert law.token_time == pytest.approx(run_train(stages, microbatches, 1.0, hand_off))
    assert law.busy == pytest.approx(microbatches / law.token_time)
    full = train(stages, law.microbatches_to_fill, stage_time=1.0, hand_off=hand_off)
    assert full.busy == 1
    if law.microbatches_to_fill > 1:
        assert train(stages, law.microbatches_to_fill - 1, stage_time=1.0, hand_off=hand_off).busy < 1


@given(st.floats(0, 1), st.integers(0, 8))
def test_accepted_tokens_are_a_sum_of_chances(acceptance, drafted):
    assert accepted_tokens(acceptance, drafted) == pytest.approx(
        sum(acceptance**i for i in range(drafted + 1)), rel=1e-6
    )


def test_speculation_pays_while_reading_is_the_limit():
    assert speculative_speedup(0.0, 4, draft_time=0.0) == 1
    assert speculative_speedup(1.0, 4, draft_time=0.0) == 5
    assert speculative_speedup(0.6, 5, draft_time=0.02) == pytest.approx(2.38 / 1.1, rel=0.01)
    replica = Replica(SMALL, H100, formats=Formats("fp8"), software=BARE)
    gains = []
    for sequences in (1, 2000):
        plain, checked = (
            forward_pass(replica, Batch(sequences=sequences, context=500, verified=n)).time for n in (1, 5)
        )
        gains.append(speculative_speedup(0.8, 4, draft_time=0.05, verify_time=checked / plain))
    assert gains[0] > 2.5
    assert gains[1] < 1.3


def test_deepseek_accepts_1_8_tokens_a_pass():
    """The V3 report, section 5.4.3: 85 to 90 % of the second token, 1.8 times the tokens a second."""
    assert 1.8 <= accepted_tokens(0.85, 1) <= accepted_tokens(0.9, 1) <= 1.9


@given(st.floats(1e-3, 1e3), st.floats(1e-3, 1e3))
def test_both_kinds_of_gpus_keep_pace(prefill, decode):
    split = disaggregate(prefill, decode)
    assert split.prefill_share * prefill == pytest.approx((1 - split.prefill_share) * decode)
    assert split.requests_per_second == pytest.approx(split.prefill_share * prefill)


def test_a_price_is_that_of_the_time():
    assert token_price(2 / 3600, 2000) * 2000 * 3600 == pytest.approx(2)


# --- Records and refusals --------------------------------------------------------------------------------------------


def test_every_record_prints_itself():
    replica = Replica(LARGE, H100, Layout(tp=4), Formats("fp8"))
    found = forward_pass(replica, Batch(sequences=100, context=1000))
    assert "all-reduces" in repr(found)
    assert "MFU" in repr(found)
    service = continuous_batch(replica, Requests(100, 100))
    assert "tokens per second per gpu" in repr(service)
    assert "fit" in repr(frontier(replica, Requests(100, 100), gpus=8))
    assert "busy" in repr(train(4, 4, stage_time=1))
    assert "prefill share" in repr(disaggregate(1, 2))
    assert "fp8" in repr(replace(replica, two_batches=True))
    assert "caches" in repr(footprint(replica, sequences=1, context=1))


@pytest.mark.parametrize("law", [train, fullest_rank, disaggregate, token_price, accepted_tokens])
def test_laws_of_numbers_broadcast(law):
    calls = {
        train: (lambda n: train(4, n, stage_time=0.5), [1, 2, 9]),
        fullest_rank: (lambda n: fullest_rank(100, experts=64, experts_per_token=4, ranks=n), [1, 2, 64]),
        disaggregate: (lambda n: disaggregate(n, 3), [1, 2, 9]),
        token_price: (lambda n: token_price(n, 7), [1, 2, 9]),
        accepted_tokens: (lambda n: accepted_tokens(0.5, n), [1, 2, 9]),
    }
    call, values = calls[law]
    assert_equals_a_loop(call(np.array(values)), [call(value) for value in values])


MISTAKES = {
    "products must be one of bf16": lambda: Formats("fp3"),
    "products must be one of bf16, fp16, fp8, int8 on H100 SXM; got 'fp4'": lambda: Replica(
        SMALL, H100, formats=Formats("fp4")
    ),
    "cache_bytes must be positive": lambda: Formats(cache_bytes=0),
    "output must be at least 1": lambda: Requests(10, 0.5),
    "shared must be below context, got 10 of 10": lambda: largest_batch(Replica(SMALL, H100), 10, shared=10),
    "cached must be at most 1": lambda: Requests(10, 10, 1.1),
    "read must be positive": lambda: static_batch(Replica(SMALL, H100), Requests(10, 10, 1.0), sequences=1),
    "tokens must be positive": lambda: Batch(),
    "verified must be at least 1": lambda: Batch(sequences=1, verified=0.5),
    "two_batches must be True or False": lambda: Replica(SMALL, H100, two_batches=1),
    "experts_per_token must be at most experts, got 9 of 8": lambda: fullest_rank(
        1, experts=8, experts_per_token=9, ranks=2
    ),
    "loads must have one dimension": lambda: balanced_loads([[1, 2]], 2),
    "ranks must divide experts and copies, got 2 and 5": lambda: balanced_loads([1, 2, 3, 4], 2, redundant=1),
    "not one sequence fits": lambda: static_batch(
        Replica(LARGE, H100, formats=Formats("bf16")), Requests(10, 10), sequences=1
    ),
    "speed must be at most": lambda: frontier(Replica(SMALL, H100), Requests(10, 10), gpus=1).best(speed=1e9),
    "nothing fits": lambda: frontier(Replica(LARGE, H100), Requests(10, 10), gpus=1),
    "acceptance must be at most 1": lambda: accepted_tokens(1.1, 2),
    "tp must divide heads, got": lambda: Replica(SMALL, H100, Layout(tp=3)),
    "ep must divide experts with redundant": lambda: Replica(DEEPSEEK, H100, Layout(dp=72, ep=72)),
    "pp must be at most layers": lambda: Replica(SMALL, H100, Layout(pp=33)),
    "cp must be 1": lambda: Replica(SMALL, H100, Layout(cp=2)),
    "tp must divide mamba_groups, got tp 16, mamba_groups 8": lambda: Replica(HYBRID, H100, Layout(tp=16)),
    "two_axes of the software must be False where layers are Mamba-2": lambda: Replica(
        HYBRID, H100, software=replace(BARE, two_axes=True)
    ),
    "ep times etp must divide tp dp": lambda: Replica(MIXTURE, H100, Layout(dp=4, ep=8)),
}


def test_every_refusal_is_reached():
    assert unreached(replica, MISTAKES) == set()


def test_faults_say_which_layouts_can_serve():
    layouts = Layout(tp=[1, 3, 8], dp=[8, 1, 1], ep=[8, 1, 8])
    assert faults(MIXTURE, layouts).valid.tolist() == [True, False, True]
