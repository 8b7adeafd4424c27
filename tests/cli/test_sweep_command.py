"""The command ``sweep``: a row for each cell, and a line for what cannot be swept."""

import csv
import io
import json
import sys

import pytest

from clusterlab.cli import main

ASKED = ["sweep", "--models", "Llama 3.1 8B", "--accelerators", "H100 SXM", "--gpus", "8,101", "--tokens", "1T"]
ASKED += ["--draws", "10", "--global-batch", "512"]


def test_the_command_prints_a_row_for_each_cell(capsys, tmp_path):
    assert main([*ASKED, "--folder", str(tmp_path)]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [(row["model"], row["gpus"]) for row in rows] == [("Llama 3.1 8B", "8"), ("Llama 3.1 8B", "101")]
    assert rows[1]["time"] == ""
    assert main([*ASKED, "--folder", str(tmp_path), "--json"]) == 0
    objects = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    assert objects[0]["time"] == float(rows[0]["time"])
    assert objects[1]["why"]


def test_a_cell_that_fails_is_a_row_with_its_reason(capsys):
    """One accelerator without a rating on record, and the others go on; all that a plan takes, a sweep does."""
    more = ["--accelerators", "H100 SXM,TPU v5p", "--gpus", "8", "--layout", "tp=1", "--budget", "$10M"]
    assert main([*ASKED, *more, "--network", "RoCE 400 GbE", "--rent", "$2", "--software", "NeMo 25.04"]) == 0
    good, bad = csv.DictReader(io.StringIO(capsys.readouterr().out))
    assert float(good["time"]) > 0
    assert good["why"] == ""
    assert (bad["accelerator"], bad["time"]) == ("TPU v5p", "")
    assert bad["why"]
    assert main([*ASKED, "--accelerators", "TPU v5p", "--gpus", "8", "--server-power", "750W"]) == 0
    (row,) = csv.DictReader(io.StringIO(capsys.readouterr().out))
    assert float(row["time"]) > 0


def test_what_one_accelerator_lacks_is_the_reason_of_its_rows_alone(capsys):
    assert main([*ASKED, "--accelerators", "H100 SXM,B200", "--gpus", "8", "--memory", "150GB"]) == 0
    bad, good = csv.DictReader(io.StringIO(capsys.readouterr().out))
    assert bad["why"] == "memory must be at most the 80 GB of H100 SXM, got 1.5e+11"
    assert float(good["time"]) > 0


def test_with_a_rate_the_cells_are_fleets(capsys, tmp_path):
    """The numbers of ``plan --rate`` in a row, and the reason where the limit is too small; kept in a folder too."""
    of = ["--rate", "50", "--speed", "20", "--draws", "10"]
    many = ["sweep", "--models", "Llama 3.1 70B", "--accelerators", "H200 SXM", "--gpus", "4,64", *of]
    for _ in range(2):
        assert main([*many, "--folder", str(tmp_path), "--json"]) == 0
        bad, good = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
        assert (bad["gpus"], bad["replicas"]) == (4, None)
        assert bad["why"].startswith("no fleet keeps within the limits")
        assert good["why"] == ""
    assert main(["plan", "--model", "Llama 3.1 70B", "--accelerator", "H200 SXM", "--gpus", "64", *of, "--json"]) == 0
    parts = json.loads(capsys.readouterr().out)["parts"]
    for name in ("replicas", "speed", "cost_a_year"):
        assert good[name] == parts[name]["value"]
        assert good[f"{name}_low"] < good[f"{name}_high"]


def test_dask_is_asked_for_by_the_package_that_there_is(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    assert main([*ASKED, "--dask", "tcp://localhost:1"]) == 2
    assert capsys.readouterr().err == "--dask needs the package distributed: pip install distributed\n"


@pytest.mark.parametrize(
    ("more", "why"),
    [
        (["--processes", "0"], "processes must be a whole number from 1"),
        (["--processes", "some"], "processes must be a whole number from 1"),
        (["--gpus", "8,many"], "gpus must be a whole number from 1"),
        (["--models", ","], "a sweep needs at least one run"),
        (["--tokens", "-1"], "tokens"),
        (["--layout", "tp=8,tp=4"], "layout has tp twice: 8 and 4"),
        (["--layout", "tq=8"], "unknown input 'tq'"),
        (["--rate", "50"], "a sweep needs --tokens, of training runs, or --rate, of fleets that serve"),
        (["--prompt", "50"], "unknown input 'prompt'"),
        (["--accelerators", "H100 SXM,H900"], "unknown accelerator 'H900'"),
        (["--folder", ""], "--folder must name a file"),
        (["--folder", "/dev/null/atlas"], "Not a directory"),
    ],
)
def test_what_the_command_cannot_do_is_said_in_a_line(more, why, capsys):
    assert main([*ASKED, *more]) == 2
    heard = capsys.readouterr()
    assert (heard.out, heard.err.count("\n")) == ("", 1)
    assert why in heard.err


def test_dask_is_asked_for_where_it_is_not_there(capsys, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "distributed", None)
    assert main([*ASKED, "--dask", "tcp://nowhere:1"]) == 2
    assert capsys.readouterr().err == "--dask needs the package distributed: pip install distributed\n"


@pytest.mark.filterwarnings("default")  # what Dask itself warns of is its own
def test_the_command_runs_on_a_dask_cluster(capsys):
    distributed = pytest.importorskip("distributed", reason="Dask is not installed: pip install 'clusterlab[dask]'")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=False, dashboard_address=None
    ) as cluster:
        assert main([*ASKED, "--dask", cluster.scheduler_address]) == 0
    assert capsys.readouterr().out.count("\n") == 3
