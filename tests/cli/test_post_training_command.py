"""The command ``clusterlab post-training``: what it prints, as one object too, and how it refuses."""

import json
import re

import pytest

from clusterlab.cli import main

ASKED = ["post-training", "--model", "Llama 3.1 8B", "--accelerator", "H100 SXM", "--output", "1000"]
ONE = [*ASKED, "--gpus", "16", "--iterations", "200"]


def test_a_plan_is_gpus_days_and_dollars_with_their_intervals(capsys):
    assert main([*ONE, "--rent", "$2"]) == 0
    heard = capsys.readouterr()
    assert re.search(r"^GPUs +16 ", heard.out, re.MULTILINE)
    for row in ("time", "cost"):
        assert re.search(rf"^{row} .*\(.* to .*\)", heard.out, re.MULTILINE)
    assert "waits" in heard.out
    assert heard.err == "assumed: lengths spread by 0.8, none above 4000; your rent\n"


def test_replicas_that_a_block_of_the_model_cannot_be_cut_into_are_passed_over(capsys):
    """Sixteen ranks don't divide eight groups of a Mamba-2 mixer, though they do the heads: the others are planned."""
    assert main([*ONE[:2], "Nemotron 3 Nano", *ONE[3:], "--gpus", "32", "--json"]) == 0
    assert 8 % json.loads(capsys.readouterr().out)["chosen"]["replica_gpus"] == 0


def test_one_object_whose_parts_are_its_round(capsys):
    assert main([*ONE, "--json", "--schedule", "synchronous", "--replica", "2"]) == 0
    found = json.loads(capsys.readouterr().out)
    chosen = found["chosen"]
    parts = chosen["parts"]
    assert sum(parts.values()) - 2 * parts["hidden"] == pytest.approx(chosen["round"]["seconds"])
    assert chosen["days"]["value"] == pytest.approx(200 * chosen["round"]["seconds"] / 86400)
    assert chosen["dollars"]["low"] < chosen["dollars"]["value"] < chosen["dollars"]["high"]
    assert (chosen["schedule"], chosen["versions_behind"], len(found["tried"])) == ("synchronous", 0.0, 1)
    assert chosen["replica_gpus"] == 2.0


@pytest.mark.slow
def test_a_deadline_is_kept_by_the_fewest_of_the_sizes_that_are_tried(capsys):
    assert main([*ASKED, "--deadline", "6h", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    days = {one["gpus"]: one["days"]["value"] for one in found["tried"]}
    kept = [gpus for gpus, value in days.items() if value <= 0.25]
    assert found["chosen"]["gpus"] == min(kept) > min(days)


def test_without_a_rent_of_its_own_a_chip_has_no_dollars(capsys):
    assert main(["post-training", "--model", "Llama 3.1 8B", "--accelerator", "H20", *ONE[5:]]) == 0
    heard = capsys.readouterr()
    assert "cost" not in heard.out
    assert "give --rent" in heard.err


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--model", "Lama 3.1 8B"], "did you mean 'Llama 3.1 8B'"),
        (["--accelerator", "H1000"], "unknown accelerator 'H1000'"),
        (["--gpus", "12"], "gpus must be whole servers of 8, got 12"),
        (["--output", "-3"], "output must be positive"),
        (["--spread", "-1"], "spread must be zero or more"),
        (["--schedule", "now"], "schedule must be one of"),
        (["--writes", "fp9"], "writes must be one of"),
        (["--deadline", "1"], "deadline: cannot read '1'; write it as 60d or 12h or 30s"),
        (["--deadline", "1d"], "leave out --gpus"),
        (["--samples", "0"], "samples must be a whole number"),
        (["--output", "1000 words"], "output: cannot read '1000 words'; write it as 16384 or 15.6T"),
    ],
)
def test_what_is_wrong_is_said(capsys, more, said):
    assert main([*ONE, *more]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.slow
def test_what_cannot_be_is_said_as_json_too(capsys):
    assert main([*ASKED, "--deadline", "1min", "--json"]) == 3
    heard = capsys.readouterr()
    assert "accelerators is done within" in heard.err
    assert json.loads(heard.out)["nearest"]["deadline"] > 60


def test_a_slip_of_the_unit_is_said_to_be_unlikely(capsys):
    assert main([*ONE, "--limit", "400"]) == 0
    assert "unlikely: limit is usually from 500 to 200k" in capsys.readouterr().err
