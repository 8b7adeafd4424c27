"""Standing: a run's place among published ones, the best layout of a search, and what single accelerators reach."""

from dataclasses import replace

import numpy as np
import pytest

from clusterlab.catalogue import machine
from clusterlab.evidence import (
    best_layout,
    by_source,
    expect_gemm,
    expect_memory,
    explain,
    fit_links,
    how_sure,
    predict_run,
    predict_runs,
    published,
    published_runs,
    published_timings,
    run_mfu,
    standing,
)


@pytest.fixture(scope="module")
def runs():
    return published_runs()[0]


def test_the_mfu_of_a_run_is_that_of_its_step_at_the_measured_time(runs):
    some = runs[::60]
    steps = predict_runs(some)
    expected = steps.mfu * steps.time / np.array([run.seconds for run in some])
    np.testing.assert_allclose([run_mfu(run) for run in some], expected, rtol=1e-12)


def test_a_run_stands_where_its_mfu_does_and_never_beside_itself(runs):
    mine = next(run for run in runs if run.source == "mcore_h100_weak")
    found = standing(mine, runs)
    assert found.of > 5
    assert all(one.source != mine.source for one in (*found.better, *found.worse))
    assert all(one.mfu > found.mfu for one in found.better)
    assert all(one.mfu <= found.mfu for one in found.worse)
    best, worst = (standing(replace(mine, seconds=mine.seconds * factor), runs) for factor in (0.1, 10))
    assert (best.rank, worst.rank) == (1, worst.of)
    assert (best.better, worst.worse) == ((), ())
    assert "above 100% of them" in best.sentence
    assert "above 0% of them" in worst.sentence


def test_peers_are_alike_as_far_as_there_are_enough(runs):
    """Without runs of its stack and accelerator the net is wider, and the sentence says how wide."""
    mine = [run for run in runs if run.source == "mcore_h100_weak"][1]
    narrow = standing(mine, runs)
    few = [run for run in runs if run.machine.name != mine.machine.name]
    wide = standing(mine, few)
    assert narrow.alike != wide.alike
    assert "H100 SXM" in narrow.alike
    assert wide.of <= len(few) + 1
    with pytest.raises(ValueError, match="has no measured time: it stands nowhere yet"):
        standing(replace(mine, seconds=np.nan), runs)


def test_the_best_layout_fits_and_is_no_slower_than_the_run_s_own(runs):
    mine = next(run for run in runs if run.source == "mcore_h100_weak")
    found = best_layout(mine)
    assert found.layout.gpus == mine.layout.gpus
    assert found.step.time <= predict_run(mine).time * 1.0001
    assert best_layout(replace(mine, machine=replace(mine.machine, hbm_capacity=1e9))) is None


def test_another_stack_is_a_suspect_of_a_run_that_names_one(runs):
    """A run that says torchtitan and was by NeMo: the stack is among the suspects, each with its next measurement."""
    mine = [run for run in runs if run.source == "torchtitan_h100" or run.stack == "torchtitan"][:6]
    mine = [run for run in mine if run.source == mine[0].source]
    other = next(run.software for run in runs if run.stack == "NeMo" and run.software.name == "NeMo")
    made = [replace(run, seconds=float(predict_run(replace(run, software=other)).time)) for run in mine]
    found = explain(made, made[0].row)
    assert any(one.name.startswith("software NeMo") for one in found.suspects)
    assert all(one.measure for one in found.suspects)


# --- What one accelerator reaches ------------------------------------------------------------------------------------


def test_a_gemm_is_expected_as_published_ones_of_its_kind_were():
    found = expect_gemm(machine("H100 SXM"))
    rows = [
        r for r in published("device_measurements", kind="gemm", accelerator="H100 SXM") if r["precision"] == "bf16"
    ]
    large = [r["flops_per_second"] for r in rows if min(r["m"], r["n"], r["k"]) >= 4096]
    assert found.rows == len(large)
    assert found.rate == pytest.approx(np.median(large))
    assert found.low <= found.rate <= found.high <= machine("H100 SXM").peaks["bf16"]


def test_where_nobody_published_its_own_others_of_its_maker_stand_in():
    found = expect_gemm(machine("H200 SXM"))
    assert found.of == "other accelerators of NVIDIA"
    assert 0.6 < found.rate / machine("H200 SXM").peaks["bf16"] < 0.9


def test_memory_of_too_few_threads_is_no_expectation():
    found = expect_memory(machine("A100 80GB"))
    assert found.low > 0.7 * machine("A100 80GB").hbm_bandwidth


# --- How sure a fit is -----------------------------------------------------------------------------------------------


def test_a_fit_says_how_far_its_rows_leave_latency_and_bandwidth_open():
    """Made rows, 5 % of noise: the ends hold the truth about as often as eight times of ten."""
    rows = by_source(published_timings())["h200_8x_nvlink4"]
    true, random = fit_links(rows), np.random.default_rng(1)
    held = np.zeros(2)
    for _ in range(40):
        noise = np.exp(0.05 * random.standard_normal(len(rows)))
        made = [replace(row, seconds=t * e) for row, t, e in zip(rows, true.times, noise, strict=True)]
        found = how_sure(fit_links(made), made)
        assert found.alpha_low <= found.alpha_high
        held += [
            found.alpha_low <= true.alpha <= found.alpha_high,
            found.bandwidth_low <= true.bandwidth <= found.bandwidth_high,
        ]
    assert np.all(held / 40 > 0.65)
    assert np.all(held / 40 < 0.98)


def test_few_rows_say_nothing_of_how_sure_they_are():
    rows = by_source(published_timings())["h200_bucketing"]
    found = how_sure(fit_links(rows), rows)
    assert len(rows) < 4
    assert np.isnan([found.bandwidth_low, found.bandwidth_high, found.alpha_low, found.alpha_high]).all()
