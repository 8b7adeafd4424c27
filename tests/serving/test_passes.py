"""Passes: a count kernel by kernel and expert by expert, conservation, machines that are faster, hybrids."""

from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterlab.catalogue import SERVING, machine
from clusterlab.interconnect import expert_all_to_all
from clusterlab.model import (
    Experts,
    FeedForward,
    LatentAttention,
    Layout,
    Mamba2,
    Rank,
    kv_cache_bytes,
    state_bytes,
    transformer,
)
from clusterlab.parallelism import reached
from clusterlab.roofline import experts_touched
from clusterlab.serving import (
    PASS_PARTS,
    Batch,
    Formats,
    Replica,
    Requests,
    closed_loop,
    continuous_batch,
    forward_pass,
    fullest_rank,
    largest_batch,
    passes,
    reading,
    replica_footprint,
    split_reading,
)
from serving_cases import (
    BARE,
    DEEPSEEK,
    H100,
    HYBRID,
    HYBRID_MIXTURE,
    LARGE,
    MIXTURE,
    SMALL,
    batches,
    gemm_rate,
    replicas,
    seconds,
)


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


def tile(rows):
    """The next power of two, from 16 to 128."""
    return next((size for size in (16, 32, 64) if rows <= size), 128)


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
    weights = Experts().expert_weights(shape) / etp
    held = 8 / ep
    rows = together * 2 / ep
    moved = 2 * rows * (2 * shape.hidden + 3 * shape.expert_ffn / etp)
    rate = gemm_rate(formats, BARE) * BARE.grouped_gemm  # computing; weights are read at full rate
    filled = rows + tile(rows / (held * touched)) / 2 * held * touched  # half of each expert's last tile
    one = seconds(2 * filled * weights, held * touched * weights, moved, BARE, rate)
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
    links = {"bandwidth": 1, "latency": 0, "node_bandwidth": 0.724 * 450e9, "node_latency": H100.scale_up_latency}
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
    of_heads, shared = LatentAttention().weights(DEEPSEEK)
    assert found.weights > 61 * (of_heads / 8 + shared) / (BARE.memory * H100.hbm_bandwidth)


def test_two_batches_hide_the_exchange_and_read_the_weights_twice():
    layout = Layout(dp=72, ep=72)
    one = Replica(DEEPSEEK, H100, layout, Formats("fp8"), redundant=32, software=BARE)
    two = replace(one, two_batch_overlap=True)
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
    alone = forward_pass(replace(slow, two_batch_overlap=False), batch)
    halves = forward_pass(slow, batch)
    assert halves.exchange == 0  # decoding, the kernels that exchange hold no processors
    reading, near = Batch(prompt_tokens=72 * 8192, chunk=8192), replace(slow, machine=replace(H100, domain=72))
    alone = forward_pass(replace(near, two_batch_overlap=False), reading)
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
    for name in set(PASS_PARTS) - {"imbalance"}:
        assert getattr(first, name) == pytest.approx(getattr(second, name))
    factor = fullest_rank(72 * 256, experts=256, experts_per_token=8, ranks=72, skew=1.0, redundant=32)
    assert second.imbalance > (factor - 1) * second.exchange


def test_the_fullest_rank_sees_more_rows_and_touches_more_experts():
    """Eight ranks with 32 experts each, four tokens: the mean rank touches four of them."""
    replica = Replica(DEEPSEEK, H100, Layout(dp=8, ep=8), Formats("fp8"), software=BARE)
    found = forward_pass(replica, Batch(sequences=8, context=10))
    factor = fullest_rank(8, experts=256, experts_per_token=8, ranks=8)
    weights = Experts().expert_weights(DEEPSEEK)

    def kernel(times):
        touched = 32 * experts_touched(8 * times, experts=256, experts_per_token=8)
        filled, moved = 8 * times + tile(8 * times / touched) / 2 * touched, 2 * 8 * times * (2 * 7168 + 3 * 2048)
        rate = gemm_rate(Formats("fp8"), BARE) * BARE.grouped_gemm
        return seconds(2 * filled * weights, touched * weights, moved, BARE, rate)

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
    rates = reached(replace(machine("TPU v4"), scale_up_latency=0.0), "bf16")

    def sent(tokens, n):  # elements of 2 bytes
        now = passes._Now(Rank(tp=n, tokens=tokens), 0.0, tokens, 1.0, 1.0)
        return passes._along_both(shape, FeedForward(), rates, Formats(), now, 0) * rates.scale_up_ring / 2

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
    wide = forward_pass(replace(one, software=replace(BARE, kernel_time=10e-6)), Batch(sequences=8, context=100))
    assert wide.launches == pytest.approx(32 * (6 + 4) * 10e-6)  # kernels of attention and of a feed-forward


@given(replicas(), batches())
def test_parts_are_never_negative_and_sum_to_the_pass(replica, batch):
    found = forward_pass(replica, batch)
    parts = [getattr(found, name) for name in PASS_PARTS]
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
    twice = replace(soft, **{name: 2 * getattr(soft, name) for name in ("pass_time", "kernel_time", "sequence_time")})
    found = forward_pass(replace(replica, machine=slow, software=twice), batch)
    for name in PASS_PARTS:
        assert getattr(found, name) == pytest.approx(2 * getattr(forward_pass(replica, batch), name), abs=1e-15)


@pytest.mark.parametrize("shape", [DEEPSEEK, HYBRID_MIXTURE], ids=["MLA", "hybrid"])
def test_arrays_are_a_loop(shape):
    axes = {"tp": np.array([1, 2, 4, 8]), "pp": np.array([1, 2, 1, 4]), "dp": np.array([8, 2, 1, 2])}
    halves, sequences = np.array([True, False, False, True]), np.array([10.0, 100.0, 1000.0, 64.0])
    layout = Layout(**axes, ep=np.array([8, 4, 1, 16]), etp=np.array([1, 1, 4, 1]))
    many = Replica(shape, H100, layout, Formats("fp8"), halves)
    each = [replace(many, layout=layout[i], two_batch_overlap=bool(halves[i])) for i in range(4)]
    batch = Batch(sequences=sequences, context=1000)
    loop = [forward_pass(one, Batch(sequences=n, context=1000)) for one, n in zip(each, sequences, strict=True)]
    found = forward_pass(many, batch)
    for name in (*PASS_PARTS, "time", "mfu", "flops", "gpus"):
        np.testing.assert_allclose(getattr(found, name), [getattr(one, name) for one in loop], rtol=1e-12, atol=1e-18)


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
    held = replica_footprint(replica, sequences=users, context=context)
    assert held.caches == pytest.approx(users * kept / tp)
    small = 24 * (5 * (inner + 2 * shared) + inner + 3 * heads)  # convolutions, gated norms, three numbers a head
    assert held.weights == pytest.approx(2 * (weights + small + 131072 * hidden) / tp)


@given(replicas(), st.floats(1, 1e6), st.floats(1, 1e6))
def test_a_state_does_not_depend_on_the_context(replica, one, other):
    """What two contexts differ by are keys and values; what is left without any is the state."""
    shape, formats, layout = replica.model, replica.formats, replica.layout
    caches = [replica_footprint(replica, sequences=1, context=s).caches for s in (one, other)]
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
        replace(shape, layers=2 * ffn + n, feed_forward_layers=ffn, others=((n, Mamba2(heads=128)),)) for n in (1, 2)
    )
    replicas_ = [Replica(each, H100, layout, software=BARE) for each in (one, two, shape)]
    passes = [forward_pass(each, batch) for each in replicas_]
    for name in (*PASS_PARTS, "flops"):
        first, second, none = (getattr(each, name) for each in passes)
        assert 2 * first - second == pytest.approx(none, rel=1e-9, abs=1e-15)
    held = [replica_footprint(each, sequences=10, context=5000) for each in replicas_]
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


def test_a_hybrid_mixture_served_online_by_vllm_is_predicted():
    """Vultr 2026, inference cookbook: Nemotron 3 Nano on two B200, vLLM 0.16, 2,048 in, 512 out, 512 users.

    18,746 tokens/s; no constant has seen a Mamba-2 layer at work. Offline the maximum is a third more.
    """
    formats, software = Formats("fp8"), SERVING["vLLM"]
    replica = Replica(transformer("Nemotron 3 Nano"), machine("B200"), Layout(tp=2, etp=2), formats, software=software)
    found = closed_loop(replica, Requests(2048, 512), users=512)
    low, high = found.interval("tokens_per_second")
    assert low < 18_746 < high
    offline = continuous_batch(replica, Requests(2048, 512), sequences=512)
    assert offline.tokens_per_second > found.tokens_per_second


# --- Mixed precision -------------------------------------------------------------------------------------------------


def test_attention_may_be_wider_than_experts():
    """Bytes and times of experts in 4 bits with attention in 8 lie between those of one precision for all."""
    chip, batch = machine("B200"), Batch(sequences=64, context=2000)
    layout = Layout(tp=8)
    found, held = {}, {}
    for name, formats in {
        "four": Formats("fp4", cache_bytes=2),
        "mixed": Formats("fp4", cache_bytes=2, mixing="fp8"),
        "wide": Formats("fp4", cache_bytes=2, mixing="bf16"),
    }.items():
        one = Replica(DEEPSEEK, chip, layout, formats)
        found[name] = forward_pass(one, batch)
        held[name] = replica_footprint(one, sequences=1, context=1).weights
    attention = sum(count * block.on_rank(DEEPSEEK, 8) for count, block in DEEPSEEK.counted if not block.feeds_forward)
    assert held["mixed"] - held["four"] == pytest.approx((1 - 0.5625) * attention)
    assert held["wide"] - held["mixed"] == pytest.approx(attention)
    reads = one.software.memory * chip.hbm_bandwidth
    assert found["wide"].weights - found["mixed"].weights == pytest.approx(attention / reads)
    assert found["four"].time < found["mixed"].time < found["wide"].time
    assert found["mixed"].caches == found["four"].caches


def test_the_same_precision_said_twice_is_the_same():
    batch = Batch(sequences=64, context=2000, prompt_tokens=1000, chunk=1000)
    once, twice = (
        forward_pass(Replica(DEEPSEEK, H100, Layout(dp=8, ep=8), Formats("fp8", mixing=name)), batch).time
        for name in (None, "fp8")
    )
    assert once == twice


# --- A prompt that several read --------------------------------------------------------------------------------------


def test_a_prompt_that_one_replica_reads_is_as_ever():
    one, asked = Replica(LARGE, H100, Layout(tp=8), Formats("fp8")), Requests(100_000, 100)
    assert split_reading(one, asked) == pytest.approx(reading(one, asked))


def test_ranks_share_a_prompt_and_gather_its_keys_and_values():
    """FLOPs fall by the ranks; of keys and values each receives what the others have, in every layer."""
    bare = replace(BARE, host_overlap=False)
    one = Replica(LARGE, machine("GB200"), Layout(tp=8), Formats("fp8"), software=bare)
    asked, ranks = Requests(64_000, 100), np.array([1.0, 2.0, 4.0, 8.0])
    found = split_reading(one, asked, ranks=ranks)
    kept = 2 * LARGE.kv_heads * LARGE.head_dim / 8 * LARGE.layers * 2 * 64_000  # bytes on each of eight
    rate = reached(one.machine, "fp8").scale_up_ring
    own = found - (ranks - 1) / ranks * kept / rate
    assert own * ranks == pytest.approx(own[0], rel=0.02)
    assert np.all(np.diff(found) < 0)
    # Between hosts it is the ports that gather.
    far = replace(one, machine=H100)
    gathered = split_reading(far, asked, ranks=4) - split_reading(far, asked) / 4
    assert gathered == pytest.approx(3 / 4 * kept / reached(H100, "fp8").network_ring, rel=0.1)
