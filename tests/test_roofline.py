"""The roofline: published numbers, brute-force counts, limits, conservation, and measurements that none may exceed."""

import itertools
import math

import numpy as np
import pint
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterlab import catalogue
from clusterlab.evidence import published
from clusterlab.roofline import (
    Work,
    attainable,
    attention,
    decode,
    elementwise,
    experts_touched,
    iron_law,
    kernel_time,
    lower_bound,
    matmul,
    nodes_touched,
    ridge_point,
)
from laws import assert_equals_a_loop, assert_fit_is_asked_for, assert_units, q

quantity = st.floats(1e-3, 1e18)
size = st.integers(1, 10**6)
close = {"rel": 1e-12}


# --- published numbers -----------------------------------------------------------------------------------------------


def test_the_ridge_of_an_h100_is_295_flop_per_byte():
    """MLSysBook, Fleet Foundations appendix: 989 TFLOP/s over 3.35 TB/s is a ridge of 295.2 FLOP/byte."""
    h100 = catalogue.accelerator("H100 SXM")
    assert ridge_point(h100.peak("bf16"), h100.hbm_bandwidth) == pytest.approx(295.2, abs=0.05)


def test_llama_3_8b_decodes_208_6_tokens_per_second_on_an_h100_at_batch_one():
    """Llama 3 8B has 8.03e9 parameters (Grattafiori et al. 2024): 16.1 GB in BF16, read once for each token."""
    h100 = catalogue.accelerator("H100 SXM")
    step = decode(1, parameters=8.03e9)
    bound = lower_bound(compute=(step.flops, h100.peak("bf16")), memory=(step.bytes, h100.hbm_bandwidth))
    assert step.bytes == pytest.approx(16.1e9, abs=0.05e9)
    assert step.intensity == 1
    assert (bound.binding, 1 / bound.time) == ("memory", pytest.approx(208.6, abs=0.05))


# --- brute force -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("m", "k", "n"), list(itertools.product((1, 2, 5), repeat=3)))
def test_a_matmul_costs_what_its_three_loops_do(m, k, n):
    operations, read, written = 0, set(), set()
    for i, j, p in itertools.product(range(m), range(n), range(k)):
        operations += 2  # one multiply, one add
        read |= {("A", i, p), ("B", p, j)}
        written.add(("C", i, j))
    work = matmul(m, k, n, bytes_per_element=1, output_bytes_per_element=4)
    assert (work.flops, work.bytes) == (operations, len(read) + 4 * len(written))


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize(
    ("queries", "context", "heads", "kv_heads"), [(1, 1, 1, 1), (1, 7, 4, 2), (3, 7, 4, 1), (7, 7, 2, 2), (5, 6, 6, 3)]
)
def test_attention_costs_what_its_causal_mask_keeps(queries, context, heads, kv_heads, fused):
    batch, head_dim = 2, 3
    operations, moved = 0, set()
    for b, h, i, j in itertools.product(range(batch), range(heads), range(queries), range(context)):
        if j > context - queries + i:
            continue  # the mask: query i stands at position context - queries + i
        operations += 2 * head_dim + 2 * head_dim  # score, then weighted value
        group = h * kv_heads // heads
        for x in range(head_dim):
            moved |= {("Q", b, h, i, x), ("O", b, h, i, x), ("K", b, group, j, x), ("V", b, group, j, x)}
        if not fused:
            pair = (b, h, i, j)
            moved |= {(tensor, way, pair) for tensor in ("score", "probability") for way in ("write", "read")}
    shape = {"heads": heads, "kv_heads": kv_heads, "head_dim": head_dim, "batch": batch}
    work = attention(queries, context, **shape, bytes_per_element=1, fused=fused)
    assert (work.flops, work.bytes) == (operations, len(moved))


@pytest.mark.parametrize(
    ("experts", "chosen", "nodes", "limit", "off"),
    [
        *[(256, 8, 8, 4, 0.02), (256, 8, 16, 4, 0.02), (256, 8, 4, 4, 0.02), (256, 8, 4, 2, 0.02)],
        *[(256, 8, 8, 8, 0.02), (160, 6, 20, 3, 0.02), (256, 8, 32, 4, 0.02), (256, 8, 8, 5, 0.08)],
    ],
)
def test_the_nodes_touched_are_those_of_a_router_that_takes_nodes_first(experts, chosen, nodes, limit, off):
    """DeepSeek-V3's gate, of random scores: nodes by the sum of their best k/M, then the best k experts there."""
    random = np.random.default_rng(20261122)
    scores = random.random((4000, nodes, experts // nodes))
    best = np.sort(scores, axis=-1)[..., -max(1, chosen // limit) :].sum(-1)
    left_out = np.argpartition(best, nodes - limit, axis=-1)[:, : nodes - limit]
    np.put_along_axis(scores, left_out[..., None], -1.0, axis=1)
    picks = np.argpartition(scores.reshape(4000, -1), -chosen, axis=-1)[:, -chosen:] // (experts // nodes)
    touched = np.mean([len(set(row)) for row in picks.tolist()])
    law = nodes_touched(nodes, experts_per_token=chosen, limit=limit)
    assert law == pytest.approx(touched, rel=off, abs=1e-12)
    assert law <= nodes_touched(nodes, experts_per_token=chosen)


@pytest.mark.parametrize(("tokens", "experts", "chosen"), [(1, 8, 2), (16, 8, 2), (32, 64, 6), (20, 256, 8)])
def test_the_experts_touched_are_those_of_a_simulated_router(tokens, experts, chosen):
    random = np.random.default_rng(20261121)
    scores = random.random((1000, tokens, experts))
    picks = np.argpartition(scores, chosen, axis=-1)[..., :chosen].reshape(1000, -1)
    shares = np.array([len(set(row)) for row in picks.tolist()]) / experts
    error = shares.std() / math.sqrt(len(shares))
    assert experts_touched(tokens, experts=experts, experts_per_token=chosen) == pytest.approx(
        shares.mean(), abs=4 * error + 1e-12
    )


# --- limits ----------------------------------------------------------------------------------------------------------


@given(size, size, size, st.sampled_from([0.5, 1, 2, 4]))
def test_the_intensity_of_a_matmul_is_a_harmonic_sum_of_its_sides(m, k, n, b):
    """I = (2/b) / (1/m + 1/k + 1/n): below the least side in BF16, and at least a third of it."""
    intensity = matmul(m, k, n, bytes_per_element=b).intensity
    assert intensity == pytest.approx(2 / b / (1 / m + 1 / k + 1 / n), **close)
    assert min(m, k, n) / 3 * (1 - 1e-12) <= intensity * b / 2 < min(m, k, n)


@given(st.integers(1, 10**5))
def test_the_intensity_of_a_square_matmul_grows_with_its_side(n):
    assert matmul(n, n, n).intensity < matmul(n + 1, n + 1, n + 1).intensity


@pytest.mark.parametrize(("heads", "kv_heads"), [(32, 32), (32, 8), (64, 8), (128, 1)])
def test_the_intensity_of_decoding_attention_climbs_to_the_size_of_a_group(heads, kv_heads):
    """Shazeer 2019 and Ainslie et al. 2023: every key and value read serves heads / kv_heads queries."""
    context = np.array([1, 10, 100, 10**4, 10**8])
    intensity = attention(1, context, heads=heads, kv_heads=kv_heads, head_dim=128).intensity
    assert np.all(np.diff(intensity) > 0)
    assert np.all(intensity < heads / kv_heads)
    assert intensity[-1] == pytest.approx(heads / kv_heads, rel=1e-5)


@given(size, st.integers(1, 16), st.integers(1, 16), st.sampled_from([0.5, 1, 2, 4]))
def test_the_intensity_of_an_elementwise_operation_does_not_depend_on_its_size(elements, inputs, flops, b):
    shape = {"inputs": inputs, "flops_per_element": flops, "bytes_per_element": b}
    assert elementwise(elements, **shape).intensity == pytest.approx(flops / (b * (inputs + 1)), **close)


@given(st.integers(1, 4096), st.floats(1e6, 1e12), st.sampled_from([0.5, 1, 2]))
def test_the_intensity_of_decoding_is_the_batch_and_a_sparse_model_divides_it(batch, parameters, b):
    dense = decode(batch, parameters=parameters, bytes_per_parameter=b)
    sparse = decode(batch, parameters=parameters, active_parameters=parameters / 8, bytes_per_parameter=b)
    assert dense.intensity == pytest.approx(2 * batch / b, **close)
    assert (sparse.bytes, sparse.flops) == (dense.bytes, pytest.approx(dense.flops / 8, **close))


@given(st.integers(1, 10**4), st.integers(1, 512), st.data())
def test_experts_touched_lie_between_one_token_and_all_experts(tokens, experts, data):
    chosen = data.draw(st.integers(1, experts))
    now, later = experts_touched([tokens, tokens + 1], experts=experts, experts_per_token=chosen)
    assert chosen / experts * (1 - 1e-12) <= now <= later <= 1
    assert now <= tokens * chosen / experts * (1 + 1e-12)


# --- conservation ----------------------------------------------------------------------------------------------------


@given(quantity, quantity, quantity, st.floats(1, 1e3))
def test_the_roof_is_never_above_a_ceiling_and_never_falls_with_a_better_machine(intensity, peak, bandwidth, better):
    rate = attainable(intensity, peak, bandwidth)
    assert rate <= peak
    assert rate <= intensity * bandwidth
    assert rate in (peak, intensity * bandwidth)
    for raised in ((better, 1, 1), (1, better, 1), (1, 1, better)):
        arguments = np.multiply((intensity, peak, bandwidth), raised)
        assert attainable(*arguments) >= rate


@given(quantity, quantity, st.floats(1, 1e3), st.floats(1e-3, 0.999))
def test_the_peak_is_reached_from_the_ridge_on_and_not_before(peak, bandwidth, above, below):
    ridge = ridge_point(peak, bandwidth)
    assert attainable(ridge, peak, bandwidth) == pytest.approx(peak, **close)
    assert attainable(ridge * above * (1 + 1e-12), peak, bandwidth) == peak
    assert attainable(ridge * below, peak, bandwidth) == pytest.approx(below * peak, **close)


works = st.builds(Work, quantity, quantity)


@given(works, works, st.integers(1, 100))
def test_works_add_and_scale_and_a_mixture_lies_between_its_parts(a, b, times):
    both = a + b
    assert (both.flops, both.bytes) == (a.flops + b.flops, a.bytes + b.bytes)
    low, high = sorted((a.intensity, b.intensity))
    assert low * (1 - 1e-12) <= both.intensity <= high * (1 + 1e-12)
    repeated = times * a
    assert (repeated.flops, repeated.bytes) == (times * a.flops, times * a.bytes)
    assert repeated.intensity == pytest.approx(a.intensity, **close)


def test_works_sum_like_numbers_and_refuse_to_be_negative():
    layer = matmul(2, 3, 4)
    assert sum([layer, layer, layer]) == 3 * layer == layer * 3
    nothing = 0 * layer
    assert "none" in repr(nothing)
    with pytest.raises(ValueError, match="bytes must be positive"):
        _ = nothing.intensity
    with pytest.raises(ValueError, match="flops must be zero or more and finite, got -48"):
        _ = -1 * layer


def test_shapes_that_do_not_fit_are_named():
    with pytest.raises(ValueError, match=r"shapes do not fit together: m \(2,\), k \(3,\)"):
        matmul([1, 2], [1, 2, 3], 4)


def test_works_scale_by_an_array_of_times():
    layer = matmul(2, 3, 4)
    depths = np.array([1, 2, 96])
    np.testing.assert_array_equal((depths * layer).flops, depths * layer.flops)
    np.testing.assert_array_equal((depths * layer).bytes, depths * layer.bytes)


demands = st.dictionaries(
    st.sampled_from(["compute", "memory", "network", "disk"]), st.tuples(st.just(0.0) | quantity, quantity), min_size=1
)


@given(demands, st.floats(1, 1e6))
def test_a_lower_bound_is_its_slowest_resource_and_a_faster_one_never_slows_it(demands, faster):
    bound = lower_bound(**demands)
    alone = {name: demand / rate for name, (demand, rate) in demands.items()}
    assert bound.times == pytest.approx(alone, **close)
    assert bound.time == max(bound.times.values()) == bound.times[bound.binding]
    assert bound.serial == pytest.approx(math.fsum(alone.values()), **close)
    assert bound.time <= bound.serial <= len(demands) * bound.time * (1 + 1e-12)
    for name, (demand, rate) in demands.items():
        assert lower_bound(**demands | {name: (demand, rate * faster)}).time <= bound.time


def test_the_first_of_equal_resources_binds_and_an_array_names_one_for_each():
    bound = lower_bound(compute=(1.0, 1.0), memory=([0.5, 1.0, 2.0], 1.0))
    assert list(bound.binding) == ["compute", "compute", "memory"]


terms = {"data_volume": quantity, "bandwidth": quantity, "operations": quantity, "peak": quantity}


@given(st.fixed_dictionaries({**terms, "efficiency": st.floats(1e-3, 1), "latency": st.floats(0, 1e3)}))
def test_the_iron_law_is_the_sum_of_its_terms(task):
    law = iron_law(**task)
    parts = (
        task["data_volume"] / task["bandwidth"],
        task["operations"] / (task["peak"] * task["efficiency"]),
        task["latency"],
    )
    assert (law.data, law.compute, law.latency) == pytest.approx(parts, **close)
    assert law.time == pytest.approx(math.fsum(parts), **close)


@given(st.fixed_dictionaries(terms))
def test_the_iron_law_lies_between_one_and_two_rooflines(task):
    """A sum of two terms is at least the larger and at most twice it."""
    roof = lower_bound(data=(task["data_volume"], task["bandwidth"]), compute=(task["operations"], task["peak"])).time
    assert iron_law(**task).overlapped == roof
    assert roof <= iron_law(**task).time <= 2 * roof * (1 + 1e-12)


@given(st.floats(1, 1e18), st.floats(1, 1e12), st.floats(1e9, 1e16), st.floats(1e9, 1e13), st.integers(0, 64))
def test_a_kernel_takes_between_its_roofline_and_the_iron_law(flops, moved, peak, bandwidth, share):
    machine_ = {"peak": peak, "bandwidth": bandwidth}
    roof = flops / attainable(flops / moved, **machine_)
    summed = iron_law(data_volume=moved, operations=flops, **machine_).time
    assert kernel_time(flops, moved, **machine_) == pytest.approx(roof, rel=1e-12)
    assert kernel_time(flops, moved, **machine_, overlap_loss=1) == pytest.approx(summed, rel=1e-12)
    some = kernel_time(flops, moved, **machine_, overlap_loss=share / 64)
    assert some == pytest.approx(roof + share / 64 * (summed - roof), rel=1e-12)
    for better in ("peak", "bandwidth"):
        faster = machine_ | {better: 2 * machine_[better]}
        assert kernel_time(flops, moved, **faster, overlap_loss=share / 64) <= some


def test_a_kernel_without_work_takes_the_time_of_what_it_moves():
    machine_ = {"peak": 989e12, "bandwidth": 3.35e12, "overlap_loss": 0.3}
    assert kernel_time(0, 3.35e12, **machine_) == kernel_time(989e12, 0, **machine_) == 1
    assert kernel_time(0, 0, **machine_) == 0


def test_a_task_that_takes_no_time_can_still_be_printed():
    assert "0 s" in repr(iron_law(data_volume=0, bandwidth=1, operations=0, peak=1))


# --- input -----------------------------------------------------------------------------------------------------------

# Each public law with three sets of sound arguments.
SOUND = {
    matmul: {"m": [1, 8, 3], "k": [64, 7, 5], "n": [9, 2, 3], "bytes_per_element": [2, 1, 0.5]}
    | {"output_bytes_per_element": [2, 4, 2]},
    elementwise: {"elements": [10, 1e6, 3], "inputs": [1, 2, 3], "outputs": [1, 2, 1], "flops_per_element": [1, 5, 2]}
    | {"bytes_per_element": [2, 4, 1]},
    attention: {"queries": [1, 4, 7], "context": [9, 8, 7], "heads": [8, 16, 4], "head_dim": [64, 32, 128]}
    | {"kv_heads": [1, 4, 2], "batch": [1, 3, 2], "bytes_per_element": [2, 1, 0.5]},
    decode: {"batch": [1, 16, 300], "parameters": [8e9, 7e10, 6e11], "active_parameters": [1e9, 7e9, 3e9]}
    | {"bytes_per_parameter": [2, 1, 0.5]},
    nodes_touched: {"nodes": [8, 4, 16], "experts_per_token": [8, 8, 2], "limit": [4, 8, 1]},
    experts_touched: {"tokens": [1, 32, 7], "experts": [8, 256, 64], "experts_per_token": [2, 8, 6]},
    ridge_point: {"peak": [989e12, 1e15, 5e13], "bandwidth": [3.35e12, 8e12, 1e11]},
    attainable: {"intensity": [1, 300, 5000], "peak": [989e12, 1e15, 5e13], "bandwidth": [3.35e12, 8e12, 1e11]},
    kernel_time: {"flops": [16e9, 0, 1e15], "bytes_moved": [16e9, 1e6, 0], "overlap_loss": [0, 1, 0.3]}
    | {"peak": [989e12, 1e15, 5e13], "bandwidth": [3.35e12, 8e12, 1e11]},
    iron_law: {"data_volume": [16e9, 0, 1e6], "bandwidth": [3.35e12, 8e12, 1e11], "operations": [16e9, 1e12, 0]}
    | {"peak": [989e12, 1e15, 5e13], "efficiency": [1, 0.5, 0.1], "latency": [0, 1e-5, 1e-3]},
}
MAY_BE_ZERO = {"data_volume", "operations", "latency", "flops", "bytes_moved", "overlap_loss"}


def one(law, i, **changed):
    """Call a law with its i-th set of sound arguments, some of them changed."""
    return law(**{name: values[i] for name, values in SOUND[law].items()} | changed)


@pytest.mark.parametrize(
    ("law", "changed", "named"),
    [
        (attention, {"queries": 10}, "queries must be at least 1 and at most context"),
        (attention, {"kv_heads": 9}, "kv_heads must divide heads"),
        (attention, {"kv_heads": 3}, "kv_heads must divide heads"),
        (attention, {"fused": "no"}, "fused must be True or False"),
        (decode, {"active_parameters": 9e9}, "active_parameters must be at most parameters"),
        (experts_touched, {"experts_per_token": 9}, "experts_per_token must be at most experts"),
    ],
)
def test_a_law_refuses_arguments_that_contradict_each_other(law, changed, named):
    with pytest.raises(ValueError, match=rf"^{named}, got "):
        one(law, 0, **changed)


@pytest.mark.parametrize(
    ("demand", "named"),
    [
        ((-1, 1), "HBM demand must be"),
        ((math.nan, 1), "HBM demand must be"),
        ((1, 0), "HBM rate must be"),
        ((1, -1), "HBM rate must be"),
        ((1, math.inf), "HBM rate must be"),
        (("much", 1), "HBM demand must be"),
        (5, "HBM must be a pair"),
        ((1, 2, 3), "HBM must be a pair"),
        (None, "HBM must be a pair"),
    ],
)
def test_a_lower_bound_refuses_nonsense_and_names_the_resource(demand, named):
    with pytest.raises(ValueError, match=rf"^{named}.*got "):
        lower_bound(compute=(1, 1), HBM=demand)


def test_a_lower_bound_needs_a_resource():
    with pytest.raises(ValueError, match="at least one resource"):
        lower_bound()


# --- broadcasting ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("law", SOUND)
def test_a_law_called_with_arrays_equals_a_loop_of_scalar_calls(law):
    assert_equals_a_loop(law(**{n: np.array(v) for n, v in SOUND[law].items()}), [one(law, i) for i in range(3)])


@pytest.mark.parametrize(("law", "name"), [(law, name) for law, names in SOUND.items() for name in names])
def test_a_law_mixes_an_array_with_scalars(law, name):
    first = SOUND[law][name][0]
    values = [first, first / 2, first / 4]  # smaller values break no rule between arguments, except for these two
    if law is attention and name in ("queries", "context", "heads"):
        values = [first, first * 2, first * 4]
    if (law, name) in ((decode, "parameters"), (experts_touched, "experts")):
        values = [first, first * 2, first * 4]
    assert_equals_a_loop(one(law, 0, **{name: np.array(values)}), [one(law, 0, **{name: v}) for v in values])


def test_a_lower_bound_broadcasts_and_names_what_binds_each():
    flops, rates = [1e12, 2e12, 8e12], [1e12, 3e12, 9e12]
    together = lower_bound(compute=(np.array(flops), 2e12), memory=(1e12, np.array(rates)))
    loop = [lower_bound(compute=(f, 2e12), memory=(1e12, r)) for f, r in zip(flops, rates, strict=True)]
    assert_equals_a_loop(together, loop)


def test_two_axes_broadcast_to_a_grid():
    grid = attainable(np.array([[1.0], [100.0], [1000.0]]), 989e12, np.array([2e12, 3.35e12]))
    assert grid.shape == (3, 2)
    assert grid[2, 0] == attainable(1000.0, 989e12, 2e12)


# --- held against measurements ---------------------------------------------------------------------------------------

INPUT_BYTES = {"fp16": 2, "bf16": 2, "fp8": 1, "fp4": 0.5}


def machine(row) -> tuple[float, float]:
    """Peak and bandwidth of the device that a row was measured on."""
    part = catalogue.accelerator(row["accelerator"])
    precision = row["precision"] if row["precision"] in part.peaks else "bf16"  # FP16 has the rate of BF16
    return part.peak(precision), part.hbm_bandwidth


MEASURED_GEMMS = published("device_measurements", kind="gemm")


@pytest.mark.parametrize("group", sorted({row["group"] for row in MEASURED_GEMMS}))
def test_no_published_gemm_is_faster_than_its_roof(group):
    for row in MEASURED_GEMMS:
        if row["group"] != group:
            continue
        inputs = INPUT_BYTES[row["precision"]]
        work = matmul(
            row["m"], row["k"], row["n"], bytes_per_element=inputs, output_bytes_per_element=row["output_bytes"]
        )
        roof = attainable(work.intensity, *machine(row))
        assert 0 < row["flops_per_second"] <= roof, f"{row['row_id']} {row['accelerator']} {row['note']}"


@pytest.mark.parametrize(
    "row", published("device_measurements", kind="memory"), ids=lambda row: f"{row['row_id']} {row['accelerator']}"
)
def test_no_published_memory_bandwidth_exceeds_the_specification(row):
    """Within 1 %, the rounding of a datasheet; no row needs an exception."""
    assert 0 < row["bandwidth"] <= 1.01 * catalogue.accelerator(row["accelerator"]).hbm_bandwidth


# --- units and shapes ------------------------------------------------------------------------------------------------


def test_a_bound_of_pairs_has_the_units_of_its_demands_over_their_rates():
    rates = {"compute": q("FLOP/s"), "memory": q("octet/s")}
    good = lower_bound(compute=(q("FLOP"), rates["compute"]), memory=(q("octet"), rates["memory"]))
    assert_units(good, time="s", serial="s")
    bad = lower_bound(compute=(q("FLOP"), rates["compute"]), memory=(q("FLOP"), rates["memory"]))
    for part in ("time", "serial", "binding"):
        with pytest.raises(pint.DimensionalityError):
            getattr(bad, part)


@pytest.mark.parametrize("other", [Work(q("octet"), q("octet")), Work(q("FLOP"), q("FLOP"))])
def test_work_of_other_units_does_not_add_up(other):
    with pytest.raises(pint.DimensionalityError):
        Work(q("FLOP"), q("octet")) + other


def test_a_share_with_a_dimension_is_refused_by_name():
    with pytest.raises(ValueError, match=r"^efficiency must be"):
        iron_law(data_volume=1, bandwidth=1, operations=1, peak=1, efficiency=q("s", 0.1))


def test_work_of_lists_is_work_of_arrays():
    assert Work([8, 6], (4, 2)).intensity.tolist() == [2, 3]


@pytest.mark.parametrize(
    "made",
    [
        lambda a, b: Work(a, b),
        lambda a, b: lower_bound(compute=(a, b)),
        lambda a, b: lower_bound(compute=(a, 1), memory=(b, 1)),
        lambda a, b: lower_bound(compute=(a, 1), memory=(1, b)),
    ],
)
def test_parts_whose_shapes_do_not_fit_are_refused_when_a_record_is_made(made):
    assert_fit_is_asked_for(made)
