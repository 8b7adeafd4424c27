"""The training step: published runs, a pipeline that runs, a count product by product, conservation, refusals."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clusterlab import calibration, training
from clusterlab.models import model
from clusterlab.pipeline import simulate
from clusterlab.roofline import matmul
from clusterlab.training import EFFICIENCIES, PARTS, PRECISIONS, SOFTWARE, machine, step, validity
from clusterlab.transformer import Transformer, training_flops
from laws import assert_equals_a_loop

A100, H100, GB200 = machine("A100 80GB"), machine("H100 SXM"), machine("GB200")
DENSE = Transformer(layers=16, hidden=1024, heads=16, kv_heads=4, ffn=4096, gated=True, vocab=32000)
MOE = replace(DENSE, experts=16, experts_per_token=4, expert_ffn=1024, shared_experts=1, dense_layers=2)
GPT = replace(DENSE, kv_heads=16, gated=False, positions=2048, tied=True)
LATENT = replace(MOE, kv_heads=16, kv_rank=256, rope_dim=32, query_rank=512)


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
    found = step(shape, mach, **layout)
    parts = {name: getattr(found, name) for name in PARTS}
    assert all(part >= 0 for part in parts.values()), parts
    assert found.time == sum(parts.values())
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
    assert (found.bubble > 0) == (layout["pp"] > 1)


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
        },
    }[what]
    now, then = step(shape, mach, **layout).time, step(shape, replace(mach, **better), **layout).time
    assert then <= now * (1 + 1e-12)


@settings(max_examples=100, deadline=None)
@given(settings_of_a_step(), st.floats(0.1, 10))
def test_time_has_the_dimension_of_time(setting, k):
    """A clock that ticks k times slower sees rates k times larger, latencies and the step k times smaller."""
    shape, mach, layout = setting
    rates = {name: getattr(mach, name) * k for name in ("hbm_bandwidth", "scale_up_bandwidth", "network_bandwidth")}
    rates |= {name: getattr(mach, name) / k for name in ("scale_up_latency", "network_latency")}
    scaled = replace(mach, **rates, peaks={name: peak * k for name, peak in mach.peaks.items()})
    soft = layout["software"]
    gather = None if soft.gather_rate is None else soft.gather_rate * k
    cast = None if soft.expert_cast is None else soft.expert_cast / k
    other = step(shape, scaled, **layout | {"software": replace(soft, gather_rate=gather, expert_cast=cast)})
    for name in PARTS:
        assert getattr(other, name) == pytest.approx(
            getattr(step(shape, mach, **layout), name) / k, rel=1e-9, abs=1e-15
        )


def test_doubling_the_batch_doubles_all_but_what_comes_once_a_step():
    layout = {"sequence": 2048, "tp": 2, "dp": 4, "pp": 4, "microbatch": 2}
    one, two = (step(DENSE, H100, **layout, global_batch=batch) for batch in (64, 128))
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
        whole = step(shape, H100, **fixed, **columns, **era)
        rows = ({name: column[i].item() for name, column in columns.items()} for i in range(len(layouts)))
        assert_equals_a_loop(whole, [step(shape, H100, **fixed, **row, **era) for row in rows])
    grid = step(DENSE, H100, **fixed, tp=[[1], [2], [4]], dp=[[1, 2, 4, 8]])
    assert grid.time.shape == (3, 4)
    assert repr(grid).startswith("Step\n")


# --- Independent ways to the same numbers ----------------------------------------------------------------------------


def test_products_are_counted_one_by_one():
    """FLOPs and bytes of every product of every layer, with roofline.matmul, for a GPT on one accelerator."""
    rows, h, f, v = 3 * 2048, GPT.hidden, GPT.ffn, GPT.vocab
    forward, weights = [], []
    for k, n in ((h, 3 * h), (h, h), (h, f), (f, h)):
        forward.append(matmul(rows, k, n))
        weights.append(k * n)
    e = A100.efficiency

    def seconds(flops, moved):
        work, memory = flops / (e.gemm * A100.peaks["bf16"]), moved / (e.memory * A100.hbm_bandwidth)
        return max(work, memory) + e.shows * min(work, memory)

    one = sum(forward)
    sums = 8 * sum(weights)  # read and write of the 4-byte sum of gradients, in the product that makes the gradient
    total = 0.0
    for _ in range(GPT.layers):
        total += seconds(one.flops, one.bytes)
        # Two products a weight: the gradient of its input moves weights and both sides, that of the weight both sides.
        backward = sum(2 * (forward_.bytes - 2 * w) + 2 * w for forward_, w in zip(forward, weights, strict=True))
        total += seconds(2 * one.flops, backward + sums)
    out = matmul(rows, h, v)
    total += seconds(out.flops, out.bytes) + seconds(2 * out.flops, 2 * (out.bytes - 2 * h * v) + 2 * h * v + 8 * h * v)
    found = step(GPT, A100, sequence=2048, global_batch=6, microbatch=3, software=SOFTWARE["2023"])
    assert found.gemms == pytest.approx(2 * total, rel=1e-12)
    # Optimizer: 38 bytes a parameter, here of the matrices alone.
    assert found.optimizer == pytest.approx(38 * (GPT.layers * sum(weights) + h * v) / (e.memory * A100.hbm_bandwidth))


@pytest.mark.parametrize(("pp", "chunks"), [(2, 1), (4, 1), (8, 1), (4, 2), (2, 4)])
@pytest.mark.parametrize("vocab", [1000, 400_000])
def test_the_composed_step_is_what_a_pipeline_does(pp, chunks, vocab):
    """Stage times from models of other depths on one stage; the schedule executes them."""
    shape, m = replace(DENSE, vocab=vocab), 16
    layout = {"sequence": 2048, "global_batch": m, "zero": 0, "microbatch": 1}

    def work(layers, words=vocab):
        found = step(replace(shape, layers=layers, vocab=words), H100, **layout)
        return (found.time - found.optimizer) / m

    layer = (work(8) - work(4)) / 4
    ends = work(8) - 8 * layer
    embedding = 6 * 2048 * shape.hidden / (H100.efficiency.memory * H100.hbm_bandwidth)
    pieces = np.full((pp, chunks), shape.layers / (pp * chunks) * layer)
    pieces[0, 0] += embedding
    pieces[-1, -1] += ends - embedding
    line = simulate(
        "interleaved", stages=pp, microbatches=m, chunks=chunks, forward=pieces / 3, backward=pieces * 2 / 3
    )
    found = step(shape, H100, **layout, pp=pp, chunks=chunks)
    assert found.time - found.transfers - found.optimizer == pytest.approx(line.time, rel=1e-3 if chunks == 1 else 0.04)


@pytest.mark.parametrize(("pp", "chunks"), [(4, 1), (8, 1), (4, 2)])
def test_transfers_are_at_least_what_a_pipeline_waits_for_and_little_more(pp, chunks):
    """A pipeline that works on during transfers waits for those of its fill and drain, and with plain 1F1B for most."""
    m = 16
    layout = {"sequence": 2048, "global_batch": m, "zero": 0, "pp": pp, "chunks": chunks}
    hop = 2 * 2048 * DENSE.hidden / (training.NETWORK * H100.network_bandwidth) + training.ACROSS * H100.network_latency
    far = replace(H100, domain=1)
    found = step(DENSE, far, **layout)
    stage = found.compute - found.optimizer
    setup = {"stages": pp, "microbatches": m, "chunks": chunks, "forward": stage / m / 3, "backward": stage / m * 2 / 3}
    waited = simulate("interleaved", **setup, communication=hop).time - simulate("interleaved", **setup).time
    fill = 2 * (pp - 1) * hop
    assert found.transfers == pytest.approx(fill + (2 * m * hop if chunks == 1 else 0), rel=1e-9)
    assert fill * (1 - 1e-9) <= waited
    if chunks == 1:
        assert waited <= found.transfers < 1.6 * waited


def test_uneven_stages_hold_all_layers_and_the_fullest_sets_the_pace():
    llama = model("Llama 3 405B")
    layout = {"sequence": 8192, "global_batch": 64, "tp": 8, "zero": 0}
    even, uneven = (step(replace(llama, layers=n), H100, **layout, pp=16) for n in (128, 126))
    # 126 layers on 16 stages: 7 on the first and the last, 8 between.
    assert uneven.attention == pytest.approx(even.attention, rel=1e-12)
    assert uneven.bubble < even.bubble


def test_shares_of_wires_are_those_that_timed_collectives_show():
    learnt = calibration.learn(calibration.published())
    for name, value in {"stream": training.STREAM, "exchange": training.EXCHANGE, "network": training.NETWORK}.items():
        assert learnt.shares[name] == pytest.approx(value, abs=1e-3)
    assert learnt.latencies["inside"] == pytest.approx(training.INSIDE, abs=0.01)
    assert learnt.latencies["network"] == pytest.approx(training.ACROSS, abs=0.01)


# --- Physics that must come out --------------------------------------------------------------------------------------


def test_zero_3_collapses_with_scale_because_tokens_shrink_and_parameters_do_not():
    """SC21 table 2: 144, 88 and 44 TFLOP/s of hardware FLOPs at 384, 768 and 1,536 GPUs."""
    layout = {"sequence": 2048, "global_batch": 1536, "zero": 3, "recompute": "full", "precision": "fp16"}
    layout |= {"software": SOFTWARE["2021"], "sequence_parallel": False}
    n, b = np.array([384, 768, 1536]), np.array([4, 2, 1])
    found = step(model("GPT 175B"), A100, **layout, dp=n, microbatch=b)
    rate = found.hfu * 312
    np.testing.assert_allclose(rate, [144, 88, 44], rtol=0.1)
    assert found.communication.max() / found.communication.min() < 1.2
    assert found.rho[2] > 3 * found.rho[0]
    # As fast as the wire allows, and with nothing of the kind measured, the collapse is later.
    wire = step(
        model("GPT 175B"),
        A100,
        **layout | {"software": replace(SOFTWARE["2021"], gather_rate=None)},
        dp=n,
        microbatch=b,
    )
    assert np.all(wire.time < found.time)


def test_zero_2_sends_gradients_after_every_microbatch_and_zero_1_once():
    """DeepSpeed issue 2252: a rank that keeps its share of the gradients cannot wait for the last microbatch."""
    layout = {"sequence": 2048, "dp": 64, "software": replace(SOFTWARE["2024"], data_overlap=False)}
    wires = replace(H100, scale_up_latency=0.0, network_latency=0.0)
    one, two = (
        [step(DENSE, wires, **layout, global_batch=64 * m, zero=zero).data for m in (1, 2, 8)] for zero in (1, 2)
    )
    assert one[0] == one[1] == one[2] == two[0]
    once = two[1] - two[0]
    assert two[2] == pytest.approx(two[0] + 7 * once)
    # What travels each time are 4 bytes for each of 64 parts of the gradients; the weights' 2 travel once.
    assert once / two[0] == pytest.approx(2 / 3)


def test_tensor_parallelism_stays_in_the_node():
    gpt = model("GPT 175B")
    share = [step(gpt, H100, sequence=4096, global_batch=8, tp=tp).tensor for tp in (2, 4, 8, 16)]
    assert all(a < b for a, b in pairwise(share))
    assert share[-1] / share[-2] > 1.4 * share[-2] / share[-3]
    assert step(gpt, GB200, sequence=4096, global_batch=8, tp=16).tensor < 0.6 * share[-1]


def test_experts_cost_little_inside_a_domain_and_much_across():
    layout = {"sequence": 4096, "global_batch": 64, "dp": 16, "microbatch": 4}
    inside, across = (step(MOE, H100, **layout, ep=ep).expert for ep in (8, 16))
    assert 0 < inside < across / 2
    assert step(MOE, H100, **layout).expert == 0
    full, none = (step(MOE, H100, **layout, ep=8, recompute=how).expert for how in ("full", "none"))
    assert full == pytest.approx(1.5 * none)


def test_casts_of_experts_cost_by_the_expert_until_they_are_fused():
    layout = {"sequence": 4096, "global_batch": 64, "dp": 8, "ep": 4, "microbatch": 2, "precision": "fp8"}
    old = SOFTWARE["2024"]
    slow, free = (step(MOE, GB200, **layout, software=replace(old, expert_cast=s)).elementwise for s in (1e-3, 0.0))
    # 14 layers of 4 experts a rank, 4 microbatches: the inputs of two products, and the gradients of their outputs.
    assert slow - free == pytest.approx(14 * 4 * 4 * (2 + 2) * 1e-3)
    now, fused = (step(MOE, GB200, **layout, software=SOFTWARE[name]) for name in ("2024", "2026"))
    assert fused.gemms == now.gemms
    # Rows of experts are read once less: input and gradient as wide as the model, activation and both gates' gradients.
    rows = 4 * 14 * 4 * 2 * 4096
    read = 2 * rows * (2 * MOE.hidden + 3 * MOE.expert_ffn) / (GB200.efficiency.memory * GB200.hbm_bandwidth)
    assert free - fused.elementwise == pytest.approx(read)
    sixteen = [
        step(MOE, GB200, **layout | {"precision": "bf16", "software": replace(old, expert_cast=s)}) for s in (1e-3, 0)
    ]
    assert sixteen[0].time == sixteen[1].time


def test_all_to_alls_hide_behind_another_microbatch_if_there_is_one():
    layout = {"sequence": 4096, "dp": 8, "ep": 8, "microbatch": 2}
    for batches, shown in ((1, 1.0), (4, 0.43)):
        now, then = (
            step(MOE, GB200, **layout, global_batch=16 * batches, software=SOFTWARE[name]) for name in ("2024", "2026")
        )
        assert then.expert == pytest.approx(shown * now.expert)
        assert then.communication == now.communication
    far = replace(GB200, domain=4, network_bandwidth=1e6)  # all that there is to do hides little of it
    now, then = (step(MOE, far, **layout, global_batch=64, software=SOFTWARE[name]) for name in ("2024", "2026"))
    assert 0.9 * now.expert < then.expert < now.expert


def test_long_sequences_hide_the_ring_of_keys_and_short_ones_do_not():
    share = []
    for s in (4096, 1_048_576):
        found = step(model("Llama 3.1 8B"), H100, sequence=s, global_batch=1, cp=64)
        share.append(found.context / found.communication)
    assert share[0] > 5 * share[1]


def test_eras_get_faster_and_recomputation_costs():
    layout = {"sequence": 2048, "global_batch": 64, "tp": 8, "pp": 4, "dp": 8, "precision": "fp16"}
    times = [step(model("GPT 175B"), A100, **layout, software=SOFTWARE[name]).time for name in SOFTWARE]
    assert all(a > b for a, b in pairwise(times[:-1]))
    assert times[-1] == times[-2]  # 2026 is new for experts alone
    again = [step(model("GPT 175B"), A100, **layout, recompute=how).time for how in ("none", "selective", "full")]
    assert again[0] < again[1] < again[2] < 4 / 3 * again[0]
    eight = step(model("GPT 175B"), H100, **layout | {"precision": "fp8"})
    sixteen = step(model("GPT 175B"), H100, **layout | {"precision": "bf16"})
    assert eight.attention == sixteen.attention
    assert eight.gemms < sixteen.gemms < 2.6 * eight.gemms
    assert eight.elementwise > sixteen.elementwise


def test_sharing_in_smaller_groups_keeps_traffic_inside():
    layout = {"sequence": 2048, "global_batch": 64, "dp": 64, "zero": 3}
    everywhere, hybrid = step(DENSE, H100, **layout), step(DENSE, H100, **layout, shard_group=8)
    assert hybrid.communication < everywhere.communication
    assert hybrid.optimizer == pytest.approx(8 * everywhere.optimizer)


def test_groups_that_share_sum_their_gradients_across_once_a_step():
    """64 ranks that share in eights: each sums an eighth of the gradients around a ring of 8 ports, twice 7/8 of it."""
    big = model("Llama 3.1 8B")
    layout = {"sequence": 8192, "zero": 3, "shard_group": 8}
    two = [step(big, H100, **layout, dp=dp, global_batch=2 * dp) for dp in (8, 64)]
    summed = 2 * 7 / 8 * 4 * 8.03e9 / 8 / (training.NETWORK * 50e9)
    assert summed < float(two[1].communication - two[0].communication) < 1.06 * summed  # latency is the rest
    alone, whole = (step(big, H100, **layout | {"shard_group": 64}, dp=64, global_batch=gb) for gb in (64, 128))
    assert float(whole.communication) == pytest.approx(2 * float(alone.communication))  # nothing once a step
    expert = replace(big, experts=16, experts_per_token=2)
    more = [step(expert, H100, **layout, dp=dp, global_batch=2 * dp, ep=8) for dp in (8, 64)]
    assert float(more[1].data) > float(two[1].data)


def test_one_table_holds_every_constant():
    text = repr(training.constants())
    assert all(name.replace("_", " ") in text for name in training.MEANING)
    assert all(name in text for name in (*EFFICIENCIES, *SOFTWARE, "stream", "exchange", "network", "inside", "across"))
    assert "0.43, 0.25" in text
    assert "expert cast" in text


def test_constants_say_what_they_mean_and_rest_on():
    for one in EFFICIENCIES.values():
        assert one.rests_on
        assert all(name in repr(one) for name in ("gemm", "memory", "shows", "rests on"))
    for one in SOFTWARE.values():
        assert one.rests_on
        assert "slows inside" in repr(one)
    assert "efficiency" in repr(A100)
    assert machine("MI300X").efficiency.generation == "other"
    assert machine("TPU v5p").efficiency.generation == "TPU"


# --- Refusals --------------------------------------------------------------------------------------------------------

FINE = {"sequence": 2048, "global_batch": 64}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"tp": 3}, "tp must divide heads, got tp 3, heads 16"),
        ({"pp": 10, "chunks": 2}, r"pp times chunks must be at most layers \+ 2, got pp 10, chunks 2, layers 16"),
        ({"chunks": 2}, "chunks above 1 need pp above 1, got pp 1, chunks 2"),
        ({"cp": 3}, "cp must divide sequence, got sequence 2048, cp 3"),
        ({"ep": 2}, "ep must divide experts, got ep 2, experts 0"),
        ({"dp": 3}, "dp times microbatch must divide global_batch, got global_batch 64, microbatch 1, dp 3"),
        ({"tp": 8, "gpus": 9}, "tp pp dp cp must be gpus, got tp 8, pp 1, dp 1, cp 1, gpus 9"),
        ({"dp": 8, "shard_group": 3}, "shard_group must divide dp cp"),
        ({"tp": [1, 3]}, "tp must divide heads, got tp 3, heads 16"),
        ({"tp": 0}, "tp must be a whole number"),
        ({"tp": 1.5}, "tp must be a whole number"),
        ({"sequence": np.nan}, "sequence must be a whole number"),
        ({"zero": 4}, "zero must be 0, 1, 2 or 3, got 4"),
        ({"recompute": "some"}, "recompute must be one of none, selective, full; got 'some'"),
        ({"precision": "fp4"}, "precision must be one of bf16, fp16, fp8, int8 on H100 SXM; got 'fp4'"),
        ({"sequence_parallel": 1}, "sequence_parallel must be True or False, got 1"),
    ],
)
def test_what_cannot_be_built_is_refused_by_name(change, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        step(DENSE, H100, **FINE | change)


def test_the_mask_agrees_with_what_a_step_refuses():
    rng = np.random.default_rng(0)
    names = ("tp", "pp", "dp", "cp", "ep", "chunks", "microbatch")
    draw = {name: rng.choice([1, 1, 2, 3, 4, 16], 200) for name in names}
    found = validity(MOE, **FINE, **draw)
    assert 0 < np.count_nonzero(found.mask) < 200
    for i, fine in enumerate(found.mask):
        layout = {name: int(values[i]) for name, values in draw.items()}
        if fine:
            step(MOE, H100, **FINE, **layout)
        else:
            with pytest.raises(ValueError, match=r"must|need"):
                step(MOE, H100, **FINE, **layout)
    assert repr(found).split()[-1] == str(np.count_nonzero(found.mask))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: machine("H100 SMX"), "unknown accelerator"),
        (lambda: machine("H100 SXM", network="Token Ring"), "unknown link"),
        (lambda: machine("H100 SXM", domain=0), "domain must be a whole number"),
        (lambda: replace(H100, network_bandwidth=0), "network_bandwidth must be positive"),
        (lambda: replace(H100, network_latency=-1), "network_latency must be zero or more"),
        (lambda: replace(H100.efficiency, gemm=1.1), "gemm must be above 0 and at most 1"),
        (lambda: replace(H100.efficiency, attention=0.6), "attention must be at most 0.5625"),
    ],
)
def test_machines_and_shares_that_are_none_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()
