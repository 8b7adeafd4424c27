"""Speedup: published speedups, rules and chains, limits, and the two ratios against rings and FLOPs counted."""

import csv
import inspect
from dataclasses import replace
from importlib.resources import files

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from clusterlab.evidence import published
from clusterlab.failures import overhead_budget
from clusterlab.interconnect import ring_all_reduce
from clusterlab.model import Transformer, parameters, training_flops
from clusterlab.parallelism import data_parallel_ratio, tensor_parallel_ratio
from clusterlab.scaling import (
    amdahl_speedup,
    batch_cost,
    chain,
    critical_batch,
    geometric_efficiency,
    gpus_needed,
    gustafson_speedup,
    kept_per_doubling,
    logarithmic_efficiency,
    marginal_return,
    most_useful_size,
    strong_scaling,
    training_run,
)
from clusterlab.units import EFLOP, MW, TFLOP, day, hour
from laws import assert_equals_a_loop, assert_fit_is_asked_for

SHARES, COUNTS = st.floats(1e-6, 1), st.integers(1, 10**6)
H100 = {"rate": 989e12 / 2, "bandwidth": 50e9}


def test_the_speedups_of_fleet_foundations():
    """MLSysBook, Fleet Foundations, Amdahl's law at fleet scale: a tenth is serial."""
    found = amdahl_speedup(0.1, [32, 256, 1024, 8192])
    np.testing.assert_allclose(found, [7.8, 9.7, 9.9, 10.0], atol=0.05)


@given(SHARES, COUNTS)
def test_speedups_lie_between_one_and_the_processors(serial, n):
    same, grown = amdahl_speedup(serial, n), gustafson_speedup(serial, n)
    assert 1 - 1e-12 <= same <= min(1 / serial, n) * (1 + 1e-12)
    assert same <= grown * (1 + 1e-9)
    assert grown <= n * (1 + 1e-12)
    # The serial share of the large run, seen from one processor, makes the two laws one.
    assert amdahl_speedup(serial / grown, n) == pytest.approx(grown)


@given(st.floats(1e6, 1e12), st.floats(1e2, 1e7), st.sampled_from([2, 4]))
def test_data_parallel_ratio_is_a_ring_all_reduce_over_six_flops_per_parameter_and_token(size, tokens, grad):
    n = 10**6  # a ring of many ranks
    ring = ring_all_reduce(grad * size, n, bandwidth=H100["bandwidth"], latency=0).time
    work = 6 * size * tokens / H100["rate"]
    assert data_parallel_ratio(tokens, **H100, gradient_bytes=grad) == pytest.approx(ring / work, rel=1e-5)


@pytest.mark.parametrize("tp", [1, 2, 8, 64])
def test_tensor_parallel_ratio_is_four_ring_all_reduces_over_the_flops_of_a_layer(tp):
    """A GPT's layer, counted: its FLOPs without attention's scores, and two all-reduces forward and two backward."""
    one, two = (Transformer(layers=n, hidden=8192, heads=64, ffn=4 * 8192, vocab=1) for n in (1, 2))
    layer = parameters(two).total - parameters(one).total
    tokens = 4096
    flops = 6 * layer * tokens / tp
    assert flops < (training_flops(two, 4096).model - training_flops(one, 4096).model) * tokens / tp
    ring = ring_all_reduce(2 * tokens * 8192, tp, bandwidth=H100["bandwidth"], latency=0).time
    counted = 4 * ring / (flops / H100["rate"])
    assert tensor_parallel_ratio(tp, 8192, **H100) == pytest.approx(counted, rel=1e-3)


# --- the serial part by its causes -----------------------------------------------------------------------------------

CAUSES = ("synchronisation", "bubble", "checkpoints", "python")


@given(st.lists(st.floats(0, 0.2), min_size=4, max_size=4), st.integers(1, 10**6))
def test_a_serial_part_split_into_causes_is_amdahls(shares, n):
    shares[0] += 1e-3
    found = strong_scaling(n, **dict(zip(CAUSES, shares, strict=True)))
    assert found.speedup == pytest.approx(amdahl_speedup(sum(shares), n), rel=1e-12)
    assert found.limit == pytest.approx(1 / sum(shares))
    assert found.time == pytest.approx(found.parallel + sum(found.serial.values()))
    assert found.speedup <= found.limit * (1 + 1e-12)
    # Without a cause the job is as fast as if its work had been shared out.
    rest = dict(zip(CAUSES[1:], shares[1:], strict=True))
    if sum(rest.values()) > 0:
        assert strong_scaling(n, **rest).speedup >= found.speedup * (1 - 1e-12)


# --- efficiency rules ------------------------------------------------------------------------------------------------

TEXT = {"first": 0.62, "drop": 0.02}
SIZES = np.array([1, 8, 512, 8192, 32768])


def text_rule(n):
    return logarithmic_efficiency(n, **TEXT)


def test_the_five_scales_of_the_cluster_chapter():
    """Divergent Compute 2026, cluster.py: MFU, realised EFLOP/s and MW at 1 PFLOP/s and 1.4 kW a GPU."""
    mfu = text_rule(SIZES)
    np.testing.assert_allclose(mfu, [0.62, 0.56, 0.44, 0.36, 0.32], rtol=1e-12)
    realised = chain(SIZES * 1000 * TFLOP, MFU=mfu).result / EFLOP
    np.testing.assert_allclose(realised, [0.00062, 0.0045, 0.225, 2.95, 10.49], rtol=5e-3)
    np.testing.assert_allclose(SIZES * 1400 / MW, [0.0014, 0.011, 0.717, 11.5, 45.9], rtol=2e-2)


def test_by_the_text_a_doubling_brings_1_88_times_and_the_useful_size_is_huge():
    assert marginal_return(text_rule, 16384) == pytest.approx(2 * 0.32 / 0.34)
    assert np.log2(most_useful_size(**TEXT)) == pytest.approx(31 - 1 / np.log(2))


@given(st.floats(0.1, 1), st.floats(0.01, 0.05))
def test_the_most_useful_size_is_that_of_a_scan(first, drop):
    best = most_useful_size(first=first, drop=drop)
    n = np.unique(np.floor(np.geomspace(1, min(2 ** (first / drop), 2.0**60) * 0.999, 4000)))
    assert np.max(n * logarithmic_efficiency(n, first=first, drop=drop)) <= best * (first - drop * np.log2(best)) * (
        1 + 1e-9
    )
    if best > 100:  # whole numbers near it are as good
        around = np.floor(best)
        assert marginal_return(lambda n: logarithmic_efficiency(n, first=first, drop=drop), around) < 2
        beyond = np.floor(min(best * 1.5, 2 ** (first / drop) * 0.99))
        assert beyond * logarithmic_efficiency(beyond, first=first, drop=drop) < around * logarithmic_efficiency(
            around, first=first, drop=drop
        )


def test_what_megatron_core_kept_of_each_doubling():
    """README of Megatron-LM, July 2024: strong scaling of 177 billion parameters over 48 times the GPUs.

    0.89 over 5.6 doublings is 0.98 of each: a doubling brings 1.96 times, not 1.98. Its weak scaling gained.
    """
    rows = sorted((int(r["n_gpus"]), float(r["mfu_pct"]) / 100) for r in runs("mcore_h100_strong"))
    kept = kept_per_doubling(*rows)
    assert kept == pytest.approx(0.980, abs=5e-4)

    def rule(n):
        return geometric_efficiency(n, at=rows[0][0], efficiency=rows[0][1], kept=kept)

    assert rule(4608) == pytest.approx(0.42)
    assert marginal_return(rule, [96, 16384]) == pytest.approx(2 * kept)
    assert 48 * rule(4608) / rule(96) == pytest.approx(42.9, abs=0.05)
    weak = sorted((int(r["n_gpus"]), float(r["model_tflops_per_gpu"]) / 989) for r in runs("mcore_h100_weak"))
    assert kept_per_doubling(weak[0], weak[-1]) > 1


def runs(group):
    with (files("clusterlab.evidence") / "data" / "training_throughput.csv").open(
        encoding="utf-8", newline=""
    ) as stream:
        return [row for row in csv.DictReader(stream) if row["group"] == group]


@given(st.integers(1, 10**5), st.integers(1, 10**5), st.floats(0.05, 1), st.floats(0.05, 1))
def test_a_rule_through_two_measurements_gives_both_back(n1, n2, eta1, eta2):
    assume(abs(np.log2(n2 / n1)) > 0.01)
    kept = kept_per_doubling((n1, eta1), (n2, eta2))
    if 0.01 < kept <= 1:
        got = geometric_efficiency([n1, n2], at=n1, efficiency=eta1, kept=kept)
        np.testing.assert_allclose(got, [eta1, min(1, eta2)], rtol=1e-9)


def test_two_measurements_next_to_each_other_are_no_rule():
    with pytest.raises(ValueError, match="further apart for efficiencies so different"):
        kept_per_doubling((1478, 1.0), (1477, 0.5))


# --- the chain -------------------------------------------------------------------------------------------------------


def test_the_compound_loss_of_fleet_foundations():
    """1,012,736 TFLOP/s of peak become 194,951.7: 19.2 %. Their goodput is what their four overheads leave, summed."""
    goodput = overhead_budget(bubbles=0.05, checkpoints=0.03, recovery=0.10, maintenance=0.05).summed
    found = chain(1024 * 989 * TFLOP, MFU=0.50, scaling=0.50, goodput=goodput)
    assert found.start / TFLOP == pytest.approx(1_012_736)
    assert found.result / TFLOP == pytest.approx(194_951.7, abs=0.05)
    assert found.share == pytest.approx(0.1925)
    assert list(found.rates.values()) == pytest.approx([506_368e12, 253_184e12, found.result])


def test_an_mfu_measured_at_scale_holds_the_scaling_already():
    """Llama 3, table 4: 41 % on 16,384 H100. By a further 50 % for scaling, its 26 million GPU-hours would be 52."""
    once = training_run(6 * 405e9 * 15.6e12, 16384, peak=989e12, efficiency=0.41)
    twice = training_run(6 * 405e9 * 15.6e12, 16384, peak=989e12, efficiency=0.41 * 0.5)
    stated = next(r["value"] for r in published("power", name="Llama 3.1 405B", quantity="accelerator_time"))
    assert stated / once.gpu_time == pytest.approx(1.19, abs=0.01)
    assert stated / twice.gpu_time < 0.6
    assert stated == pytest.approx(30.84e6 * hour)


@given(st.floats(1, 1e18), st.lists(st.floats(0.01, 1), min_size=1, max_size=5))
def test_what_is_lost_and_what_is_left_sum_to_the_start(start, factors):
    found = chain(start, **{f"f{i}": f for i, f in enumerate(factors)})
    assert sum(found.lost.values()) + found.result == pytest.approx(start)
    assert found.result == pytest.approx(start * np.prod(factors))
    assert min(found.lost.values()) >= 0
    assert list(found.rates.values())[-1] == pytest.approx(found.result)


# --- batches ---------------------------------------------------------------------------------------------------------


def test_the_critical_batch_of_kaplan():
    """Kaplan et al. 2020, figure 10: about a million tokens at a loss of 3, and it doubles for every 13 % less loss."""
    np.testing.assert_allclose(critical_batch([3.0, 1.0]), [1.1e6, 2.1e8], rtol=0.03)
    assert critical_batch(3.0 * 0.87) / critical_batch(3.0) == pytest.approx(2, rel=0.04)


@given(st.floats(1e3, 1e9), st.floats(1e3, 1e9))
def test_steps_and_tokens_trade_on_a_hyperbola(batch, critical):
    """McCandlish et al. 2018, equation 2.11: (S/S_min - 1)(E/E_min - 1) = 1."""
    cost = batch_cost(batch, critical)
    assert (cost.steps - 1) * (cost.tokens - 1) == pytest.approx(1)
    # Steps times the batch is tokens: E = S B, and E_min = S_min B_crit.
    assert cost.steps * batch == pytest.approx(cost.tokens * critical)
    assert batch_cost(critical, critical).steps == batch_cost(critical, critical).tokens == 2


# --- time, and how many ----------------------------------------------------------------------------------------------


@given(st.floats(1e20, 1e26), st.floats(0.1, 1), st.floats(1, 400))
def test_the_fewest_gpus_are_enough_and_one_fewer_is_not(flops, goodput, days):
    settings = {"peak": 989e12, "efficiency": text_rule, "goodput": goodput}
    try:
        n = gpus_needed(flops, days * day, **settings)
    except ValueError as error:
        assert "are too few" in str(error)  # noqa: PT017, a rule realises only so much
        assert training_run(flops, 2**24, **settings).time > days * day
        return
    assert training_run(flops, n, **settings).time <= days * day * (1 + 1e-12)
    if n > 1:
        assert training_run(flops, n - 1, **settings).time > days * day * (1 - 1e-12)


def test_a_run_by_hand_and_its_parts():
    run = training_run(6e24, 1000, peak=1e15, efficiency=0.5, goodput=0.8)
    assert run.rate == pytest.approx(4e14)
    assert run.time == pytest.approx(1.5e7)
    assert run.gpu_time == pytest.approx(1.5e10)
    assert run.gpu_time / run.time == pytest.approx(run.gpus)
    assert replace(run, gpus=2000).time == pytest.approx(run.time / 2)
    assert gpus_needed(6e24, 1.5e7, peak=1e15, efficiency=0.5, goodput=0.8) in (1000, 1001)
    assert training_run(6e24, 512, peak=1e15, efficiency=text_rule).rate == pytest.approx(0.44e15)


def test_arrays_are_loops():
    tp, hidden = np.array([2, 8, 64]), np.array([4096, 8192, 16384])
    assert_equals_a_loop(
        tensor_parallel_ratio(tp, hidden, **H100),
        [tensor_parallel_ratio(t, h, **H100) for t, h in zip(tp, hidden, strict=True)],
    )
    assert_equals_a_loop(data_parallel_ratio(hidden, **H100), [data_parallel_ratio(d, **H100) for d in hidden])
    for law in (
        lambda n: strong_scaling(n, bubble=0.1, python=0.01),
        lambda n: marginal_return(text_rule, n),
        lambda n: chain(n * 1e15, MFU=text_rule(n), goodput=0.9),
        lambda n: training_run(1e24, n, peak=1e15, efficiency=text_rule),
        lambda n: gpus_needed(1e24, n * day, peak=1e15, efficiency=text_rule),
    ):
        assert_equals_a_loop(law(tp), [law(n) for n in tp])


RUN = {"flops": 1e24, "gpus": 8, "time": 1e9, "peak": 1e15, "efficiency": 0.4, "goodput": 0.9}


@pytest.mark.parametrize("law", [training_run, gpus_needed])
def test_efficiencies_of_another_shape_are_refused(law):
    names = [name for name in RUN if name in inspect.signature(law).parameters]
    for name in set(names) - {"efficiency"}:
        given = {one: RUN[one] for one in names} | {name: np.full(3, RUN[name])}
        law(**given | {"efficiency": np.full(3, 0.4)})
        with pytest.raises(ValueError, match=r"^shapes do not fit together: .*efficiency \(2,\)"):
            law(**given | {"efficiency": np.full(2, 0.4)})


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: strong_scaling(8, a=0.6, b=0.6), "the sum of serial shares must be above 0 and at most 1, got 1.2"),
        (lambda: strong_scaling(8), "the sum of serial shares must be above 0"),
        (lambda: logarithmic_efficiency(2**31, **TEXT), "n must be below"),
        (lambda: kept_per_doubling((8, 0.5), (8, 0.4)), "other must have another number of accelerators than one"),
        (lambda: kept_per_doubling((8, 0.5), (16, 1.4)), "efficiency of other must be"),
        (lambda: marginal_return(text_rule, 2**30), "n must be below"),
        (lambda: chain(1e15), "chain needs at least one factor"),
        (lambda: chain(1e15, MFU=0), "MFU must be above 0"),
        (lambda: training_run(1e24, 8, peak=1e15, efficiency=1.2), "efficiency must be above 0"),
        (lambda: gpus_needed(1e30, 1, peak=1e15, efficiency=0.4), "time must be longer: .* are too few for 1 s"),
        (lambda: data_parallel_ratio(0, **H100), "tokens must be positive and finite, got 0"),
        (lambda: data_parallel_ratio(8, **H100 | {"rate": np.inf}), "rate must be positive and finite, got inf"),
        (lambda: tensor_parallel_ratio(0, 8, **H100), "tp must be a whole number of at least 1, got 0"),
        (lambda: tensor_parallel_ratio(8, 8, **H100, activation_bytes=-2), "activation_bytes must be positive"),
    ],
)
def test_nonsense_is_refused_by_name(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_measurements_of_shapes_that_do_not_fit_are_refused():
    assert_fit_is_asked_for(lambda a, b: kept_per_doubling((a, 0.5), (2 * a, b)))
