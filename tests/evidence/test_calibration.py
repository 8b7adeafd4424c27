"""Calibration: the law against drawn worlds and plain algebra, limits, the command."""

import argparse
import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clusterlab.catalogue import VARIANCE_COMPONENTS, VarianceComponents
from clusterlab.cli import main
from clusterlab.cli.commands import validate
from clusterlab.evidence import calibration, parse_runs, predict_runs
from clusterlab.evidence.calibration import calibrated, expected_misses, learn_scatter, leave_one_run_out
from clusterlab.parallelism import STEP_PARTS

HEAD = "model,gpu,n_gpus,tp,pp,global_batch,seq,precision,step_time_s"
EIGHT = ["Llama 3.1 8B,H100,8,1,1,64,8192,bf16,8.5", "Llama 3.1 8B,H100,16,1,1,128,8192,bf16,8.7"]
OTHER = ["Llama 3.1 70B,H100,64,8,1,256,8192,bf16,31", "Llama 3.1 70B,H100,64,8,1,256,8192,fp8,21"]


def runs_of(*lines):
    runs, skipped = parse_runs("\n".join([HEAD, *lines]), "mine.csv")
    assert not skipped
    return runs


MINE = runs_of(*EIGHT, *OTHER)


def scatter(sources=0.08, models=0.05, runs=0.04, reach=1.2816):
    deviations = {"between_sources": sources, "between_models": models, "between_runs": runs}
    return VarianceComponents(name="made", facts={}, **deviations, reach=reach)


# --- The law ---------------------------------------------------------------------------------------------------------


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.tuples(st.floats(-0.5, 0.5), st.integers(0, 2)), min_size=2, max_size=7),
    st.tuples(*[st.floats(0.01, 0.3)] * 3),
)
def test_what_is_expected_is_the_regression_on_the_other_runs(rows, deviations):
    """Dropped and solved anew, run by run: another way than through the inverse of all."""
    misses, models = map(np.array, zip(*rows, strict=True))
    tau, omega, sigma = deviations
    law = scatter(tau, omega, sigma)
    middle, deviation = expected_misses(law, misses, models)
    together = tau**2 + omega**2 * (models[:, None] == models) + sigma**2 * np.eye(len(models))
    for i in range(len(models)):
        rest = np.arange(len(models)) != i
        weights = np.linalg.solve(together[np.ix_(rest, rest)], together[rest, i])
        assert middle[i] == pytest.approx(weights @ misses[rest], abs=1e-9)
        variance = together[i, i] - weights @ together[rest, i]
        assert deviation[i] == pytest.approx(variance**0.5, rel=1e-9)
        once = calibration._expected(law, misses[rest], models[rest] == models[i], models[rest])
        assert once == pytest.approx((middle[i], deviation[i]), abs=1e-9)
        assert deviation[i] <= together[i, i] ** 0.5  # knowing more never widens


def test_many_runs_leave_only_what_runs_scatter_by():
    law = scatter()
    middle, deviation = expected_misses(law, np.full(400, 0.2), ["one model"] * 400)
    assert (middle[0], deviation[0]) == pytest.approx((0.2, law.between_runs), rel=5e-3)
    other, wider = expected_misses(law, [*np.full(400, 0.2), 0.0], ["one model"] * 400 + ["another"])
    share = law.between_sources**2 / (law.between_sources**2 + law.between_models**2)
    assert other[-1] == pytest.approx(0.2 * share, rel=5e-3)  # as much as the source is to blame
    assert deviation[0] < wider[-1] < np.sqrt(0.08**2 + 0.05**2 + 0.04**2)


def test_the_likelihood_is_that_of_correlated_normals():
    rng = np.random.default_rng(3)
    groups = [[rng.normal(size=3), rng.normal(size=1)], [rng.normal(size=2)]]
    found, expected = [], []
    for tau, omega, sigma in ((0.7, 0.4, 0.9), (0.1, 0.6, 0.3)):
        cost = 0.0
        for of_source in groups:
            x = np.concatenate(of_source)
            model = np.repeat(range(len(of_source)), [len(one) for one in of_source])
            together = tau**2 + omega**2 * (model[:, None] == model) + sigma**2 * np.eye(len(x))
            cost += (np.linalg.slogdet(together)[1] + x @ np.linalg.solve(together, x)) / 2 / len(x)
        expected.append(cost)
        found.append(calibration._unlikelihood(groups, tau, omega, sigma))
    assert found[1] - found[0] == pytest.approx(expected[1] - expected[0])


def test_four_drawn_runs_in_five_lie_inside():
    rng = np.random.default_rng(4)
    law = scatter(*learn_scatter(rng.normal(0, 0.05, 300), np.arange(300) // 3, np.zeros(300)).values())
    assert law.between_runs == pytest.approx(0.05, abs=0.01)
    law, inside = scatter(), []
    for _ in range(300):
        models = np.array([0, 0, 0, 1, 1])
        x = rng.normal(0, 0.08) + rng.normal(0, 0.05, 2)[models] + rng.normal(0, 0.04, 5)
        middle, deviation = expected_misses(law, x, models)
        inside += list(abs(x - middle) < law.reach * deviation)
    assert np.mean(inside) == pytest.approx(0.8, abs=0.025)


# --- Runs ------------------------------------------------------------------------------------------------------------


def test_a_machine_that_is_slower_throughout_is_expected_slower_and_with_less_doubt():
    slow = [replace(run, seconds=1.2 * time) for run, time in zip(MINE, predict_runs(MINE).time, strict=True)]
    plain, found = predict_runs(MINE), calibrated(MINE, slow)
    factor = found.time / plain.time
    assert np.all((factor > 1) & (factor < 1.2))
    assert factor[0] > factor[2]  # a run of the same model says more
    assert np.all(found.high / found.low < plain.high / plain.low)
    for name in STEP_PARTS:
        np.testing.assert_allclose(getattr(found, name), factor * getattr(plain, name))
    np.testing.assert_allclose(found.mfu * found.time, plain.mfu * plain.time)
    np.testing.assert_allclose(found.low * found.high, found.time**2)


def test_a_run_helps_neither_itself_nor_another_kind():
    eight_bits = MINE[-1:]  # the only one of its kind
    found, plain = calibrated(MINE, MINE), predict_runs(MINE)
    assert (found.time[-1], found.low[-1], found.high[-1]) == (plain.time[-1], plain.low[-1], plain.high[-1])
    assert calibrated(MINE[:3], eight_bits).time == pytest.approx(plain.time[:3])
    assert calibrated(MINE, []).time == pytest.approx(plain.time)
    moved = [replace(MINE[0], seconds=9 * MINE[0].seconds), *MINE[1:]]
    assert calibrated(moved, moved).time[0] == pytest.approx(found.time[0])
    assert calibrated(moved, moved).time[1] > found.time[1]
    again = runs_of(*EIGHT, *OTHER)  # the same rows, read from another table
    np.testing.assert_array_equal(calibrated(again, MINE).time, found.time)


def test_the_score_counts_errors_and_who_is_inside():
    sixteen, eight = leave_one_run_out(MINE)
    assert (sixteen.kind, sixteen.runs, eight.kind, eight.runs) == ("dense, 16 bits", 3, "dense, 8 or 4 bits", 1)
    found, seconds = calibrated(MINE, MINE), np.array([run.seconds for run in MINE])
    assert sixteen.error == pytest.approx(np.abs(found.time / seconds - 1)[:3].mean())
    assert sixteen.inside == np.mean((found.low <= seconds)[:3] & (seconds <= found.high)[:3])
    assert (eight.error, eight.width) == (eight.error_before, eight.width_before)
    assert leave_one_run_out([]) == []
    law = VARIANCE_COMPONENTS["dense, 16 bits"]
    misses = np.log(seconds / predict_runs(MINE).time)[:3]
    middle, deviation = expected_misses(law, misses, [0, 0, 1])
    assert found.time[:3] == pytest.approx(predict_runs(MINE).time[:3] * np.exp(middle))
    assert sixteen.width == pytest.approx(np.exp(2 * law.reach * deviation).mean())


# --- The command -----------------------------------------------------------------------------------------------------


@pytest.fixture
def table(tmp_path):
    def write(name, *lines):
        path = tmp_path / name
        path.write_text("\n".join([HEAD, *lines]) + "\n", encoding="utf-8")
        return str(path)

    return write


def command(*words):
    parser = argparse.ArgumentParser()
    validate.add_arguments(parser)
    return validate.run(parser.parse_args(words))


def test_the_command_corrects_narrows_and_says_what_that_is_worth(table, capsys):
    planned, mine = table("planned.csv", *OTHER[:1]), table("mine.csv", *EIGHT, EIGHT[0].replace("8.5", "fast"))
    assert command(planned, "--calibrate", mine) == 0
    out = capsys.readouterr().out
    found = calibrated(runs_of(*OTHER[:1]), runs_of(*EIGHT))
    assert f"{float(found.time[0]):.3g} s (" in out
    (one,) = leave_one_run_out(runs_of(*EIGHT))
    line = next(line for line in out.splitlines() if line.startswith(one.kind))
    assert line.split()[3:6] == ["2", f"{one.error_before:.1%}", f"{one.error:.1%}"]
    assert out.splitlines()[-1] == "skipped line 4 (runs): step_time_s must be a number, got 'fast'"
    assert command(planned, "--calibrate", mine, "--json") == 0
    said = json.loads(capsys.readouterr().out)
    assert list(said) == ["sources", "overall", "memory", "software", "skipped", "rows", "calibration"]
    assert said["calibration"]["kinds"] == [vars(one)]
    assert [row["row"] for row in said["calibration"]["skipped"]] == ["line 4"]
    (row,) = said["rows"]
    assert (row["low"], row["predicted"], row["high"]) == pytest.approx((found.low[0], found.time[0], found.high[0]))


def test_the_command_refuses_what_cannot_calibrate(table, tmp_path):
    planned, bad = table("planned.csv", *EIGHT), table("bad.csv", EIGHT[0].replace("8.5", "fast"))
    with pytest.raises(ValueError, match=r"bad\.csv, --calibrate: no row could be predicted \(line 2: step_time_s"):
        command(planned, "--calibrate", bad)
    with pytest.raises(ValueError, match="cannot both be standard input"):
        validate.run(argparse.Namespace(template=False, protocol=False, software=None, file="-", calibrate="-"))
    with pytest.raises(ValueError, match="does not go with --leave-one-out"):
        command(planned, "--calibrate", planned, "--leave-one-out")
    with pytest.raises(OSError, match=r"none\.csv"):
        command(planned, "--calibrate", str(tmp_path / "none.csv"))
    inference = tmp_path / "inference.csv"
    inference.write_text("model,gpu,isl,osl\nLlama 3.1 8B,H100,100,100\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"--calibrate takes training runs, but .*inference\.csv"):
        command(str(inference), "--calibrate", planned)


# --- What it does not reach ------------------------------------------------------------------------------------------


def test_a_run_of_another_kind_is_not_reached_and_one_alone_of_its_kind_does_not_help_itself():
    dense, mixture = runs_of(OTHER[1]), runs_of("Mixtral 8x7B,H100,64,2,4,128,4096,bf16,3")
    found = calibration.unreached([*MINE, *mixture], [*MINE])
    assert {kind: [run.model.name for run in some] for kind, some in found.items()} == {
        "dense, 8 or 4 bits": ["Llama 3.1 70B"],  # the only one of its kind
        "mixture of experts": [mixture[0].model.name],
    }
    assert calibration.unreached(dense, runs_of(OTHER[1].replace(",21", ",22"))) == {}
    plain, with_mine = predict_runs(mixture), calibrated(mixture, MINE)
    assert (plain.time, plain.low, plain.high) == (with_mine.time, with_mine.low, with_mine.high)


PLANNED = ["Llama 3.1 8B,H100,32,1,1,256,8192,bf16,", "Llama 3.1 8B,H100,32,1,1,256,8192,fp8,"]


@pytest.fixture
def tables(tmp_path):
    mine, planned = tmp_path / "mine.csv", tmp_path / "planned.csv"
    mine.write_text("\n".join([HEAD, *EIGHT]))
    planned.write_text("\n".join([HEAD, *PLANNED]))
    return str(planned), str(mine)


def test_a_run_that_is_only_planned_is_predicted_with_a_calibration(tables, capsys):
    planned, mine = tables
    assert main(["validate", planned]) == 2  # a table to validate has measurements
    capsys.readouterr()
    assert main(["validate", planned, "--calibrate", mine, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [row["measured"] for row in found["rows"]] == [None, None]
    assert all(row["low"] < row["predicted"] < row["high"] for row in found["rows"])
    assert found["overall"]["rows"] == 0
    assert found["calibration"]["not_reached"] == {"dense, 8 or 4 bits": ["line 3"]}


def test_what_a_calibration_does_not_reach_is_said(tables, capsys):
    planned, mine = tables
    assert main(["validate", planned, "--calibrate", mine]) == 0
    told = capsys.readouterr().out
    why = f"no other run of {mine} is dense, 8 or 4 bits; predicted without it"
    assert f"the calibration does not reach line 3: {why}" in told
    assert "does not reach line 2" not in told
    assert "line 2" in told


def test_planned_runs_need_no_column_of_measurements(tables, tmp_path, capsys):
    _, mine = tables
    bare = tmp_path / "bare.csv"
    bare.write_text("\n".join(line.rpartition(",")[0] for line in [HEAD, *PLANNED]))
    assert main(["validate", str(bare), "--calibrate", mine]) == 0
    assert "line 3" in capsys.readouterr().out
    assert main(["validate", str(bare)]) == 2
    assert "no column with a measurement" in capsys.readouterr().err
