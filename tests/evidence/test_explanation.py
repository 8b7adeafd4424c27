"""Explain: faults injected on purpose are named, and a run that is explained alone says what it can't tell."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest

from clusterlab.cli import main
from clusterlab.cli.commands.explain import suspect_table
from clusterlab.cli.commands.validate import TEMPLATE
from clusterlab.contention import fullest_link
from clusterlab.evidence import explain, predict_run, predict_runs, published_runs


def shares(record, **factors):
    """A fault: what a run's chips or wires reach, times factors."""

    def faulty(run):
        here = getattr(run.machine, record)
        slower = replace(here, **{name: getattr(here, name) * factor for name, factor in factors.items()})
        return replace(run, machine=replace(run.machine, **{record: slower}))

    return faulty


def software(**changed):
    return lambda run: replace(run, software=replace(run.software, **changed))


FAULTS = {
    "GEMMs": shares("efficiency", gemm=0.7, gemm_8=0.7, gemm_4=0.7),
    "memory": shares("efficiency", memory=0.5),
    "attention": shares("efficiency", attention=0.4),
    "scale-up link": shares("link_efficiency", scale_up_ring=0.3),
    "network": shares("link_efficiency", network_ring=0.3),
    "all-to-all": shares("link_efficiency", all_to_all=0.3),
    "overlap of gradients": software(data_overlap=False),
    "overlap of tensor parallelism": software(tensor_overlap_forward=False, tensor_overlap_backward=False),
    "overlap of transfers": software(stage_overlap=False),
    "recomputation": lambda run: replace(run, layout=replace(run.layout, recompute="full")),
}


def injected(source, noise):
    """Every fault that costs a source 5 % or more: its name, and the runs as measured with it."""
    runs = [run for run in published_runs()[0] if run.source == source]
    most = max(runs, key=lambda one: sum(run.software == one.software for run in runs)).software
    runs = [run for run in runs if run.software == most]
    usual, scatter = predict_runs(runs).time, np.exp(noise * np.random.default_rng(7).standard_normal(len(runs)))
    times = {name: predict_runs([fault(run) for run in runs]).time for name, fault in FAULTS.items()}
    times["waiting"] = usual + 0.2 * usual.min()
    for name, time in times.items():
        if np.mean(np.log(time / usual)) > 0.05:
            made = [replace(run, seconds=float(t)) for run, t in zip(runs, time * scatter, strict=True)]
            yield name, made, made[int(np.argmax(time / usual))].row


# Four sources whose runs differ in size and layout. Over all 30 with four runs of one software it names 160 of 170.
@pytest.mark.slow
def test_nine_injected_faults_of_ten_are_named_under_a_percent_of_noise():
    sources = ("mcore_h100_weak", "megatron_sc21_tab1", "nemo_h100_2407", "mbridge_h100_moe")
    cases = [case for source in sources for case in injected(source, 0.01)]
    named = [explain(runs, row).suspects[0].name == fault for fault, runs, row in cases]
    assert len({fault for fault, *_ in cases}) >= 9
    assert len(cases) >= 25
    assert np.mean(named) >= 0.9, [fault for (fault, *_), right in zip(cases, named, strict=True) if not right]


@pytest.mark.slow
def test_the_value_of_the_fault_is_found():
    for name, runs, row in injected("mcore_h100_weak", 0.0):
        first = explain(runs, row).suspects[0]
        assert first.name == name
        assert first.error < 0.02, "what is left is the grid of values"
        if name == "GEMMs":
            assert first.value / first.believed == pytest.approx(0.7, rel=0.03)


@pytest.mark.parametrize(("source", "first"), [("mcore_h100_weak", "collisions"), ("llama3_paper_tab4", "network")])
def test_collisions_are_a_suspect_apart_and_runs_under_one_leaf_tell(source, first):
    """Flows that meet slow only what leaves the 256 GPUs of a set of leaves. Where all runs do, both say as much."""
    runs = [run for run in published_runs()[0] if run.source == source and run.machine.name == "H100 SXM"]
    beyond = shares("link_efficiency", network_ring=1 / 2.5)
    faulty = [beyond(run) if run.layout.gpus > 256 else run for run in runs]
    made = [replace(run, seconds=float(t)) for run, t in zip(runs, predict_runs(faulty).time, strict=True)]
    suspects = {one.name: one for one in explain(made, made[-1].row).suspects}
    assert next(iter(suspects)) == first
    found = suspects["collisions"]
    assert found.value == pytest.approx(2.5, rel=0.03)
    assert found.error < 1e-3
    # What would tell: the law of balls in bins, by queue pairs, on the 32 uplinks of the switch.
    some = [f"{fullest_link(32 * pairs, 32) / pairs:.1f}" for pairs in (1, 4, 16)]
    assert f"32 uplinks may take {some[0]}, {some[1]} and {some[2]} times as long" in found.measure


def test_parts_and_gap_sum_to_the_measured_time():
    runs = [run for run in published_runs()[0] if run.source == "mcore_h100_weak"]
    found = explain(runs, runs[0].row)
    assert float(found.step.time) + found.gap == pytest.approx(found.run.seconds)
    assert "not explained" in repr(found)


def test_only_runs_of_the_source_tell_suspects_apart():
    runs = [run for run in published_runs()[0] if run.source in ("mcore_h100_weak", "mcore_h100_strong")]
    alone = [run for run in runs if run.source == "mcore_h100_weak"]
    assert explain(runs, alone[0].row).suspects == explain(alone, alone[0].row).suspects


def test_one_run_alone_names_many_and_the_least_change_first():
    run = next(run for run in published_runs()[0] if run.source == "mcore_h100_weak")
    found = explain([replace(run, seconds=1.1 * float(predict_run(run).time))], run.row)
    assert found.runs == 1
    assert len(found.suspects) > 3
    assert found.suspects[0].name == "GEMMs", "a tenth of a step needs the least change where most time goes"
    assert suspect_table(found).count("\n") == len(found.suspects)


def test_a_run_as_predicted_has_no_suspects():
    runs = [run for run in published_runs()[0] if run.source == "mcore_h100_weak"]
    as_predicted = [replace(run, seconds=float(t)) for run, t in zip(runs, predict_runs(runs).time, strict=True)]
    found = explain(as_predicted, runs[0].row)
    assert found.suspects == ()
    assert suspect_table(found) == "nothing that the model knows brings its runs nearer"


@pytest.mark.parametrize(("row", "says"), [("nothing", "names 0; rows: P02"), ("P028", "did you mean P02")])
def test_a_row_that_is_none_is_refused_with_near_names(row, says):
    with pytest.raises(ValueError, match=says):
        explain([run for run in published_runs()[0] if run.row.startswith("P02")], row)


def test_the_command_prints_a_waterfall_suspects_and_json(tmp_path, capsys):
    path = tmp_path / "runs.csv"
    path.write_text(TEMPLATE)
    runs = [line for line in TEMPLATE.splitlines() if line and not line.startswith("#")]
    path.write_text("\n".join([f"row_id,{runs[0]}", *(f"run{i},{line}" for i, line in enumerate(runs[1:]))]))
    assert main(["explain", str(path), "--row", "run0"]) == 0
    out = capsys.readouterr()
    assert "not explained" in out.out
    assert "One change at a time" in out.out
    assert re.search(r"^MFU [\d.]+%, place \d+ of \d+ published runs of dense models at ", out.out, re.MULTILINE)
    assert re.search(r"^[\d.]+% +this run$", out.out, re.MULTILINE)
    best = r"^(The best layout of the search, .* less than this one\.|No layout of the search )"
    assert re.search(best, out.out, re.MULTILINE)
    assert "next measurement" in out.out
    assert "can't tell these apart" in out.err
    assert main(["explain", str(path), "--row", "run0", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert sum(found["parts"].values()) + found["not_explained"] == pytest.approx(found["measured"])
    assert {"name", "says", "value", "believed", "time", "error", "measure"} == set(found["suspects"][0])
    assert 1 <= found["standing"]["rank"] <= found["standing"]["of"]
    assert found["best"]["low"] < found["best"]["predicted"] < found["best"]["high"]
    assert main(["explain", str(path), "--row", "nobody"]) == 2
    assert "'nobody' names 0; rows: run0, run1" in capsys.readouterr().err


def test_a_row_that_cannot_be_predicted_is_named_with_its_reason(tmp_path, capsys):
    path = tmp_path / "runs.csv"
    path.write_text("row_id,model,gpu,n_gpus,tp,pp,global_batch,seq,step_time_s\na,Llama 3.1 8B,H100,8,3,1,8,8192,1\n")
    assert main(["explain", str(path), "--row", "a"]) == 2
    assert "can't be explained" in capsys.readouterr().err
