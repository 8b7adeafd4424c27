"""Energy: joules of a token by what GPUs alone draw, beside a leaderboard that measured both; gaps nobody fitted."""

import csv
from functools import cache
from pathlib import Path

import numpy as np

from clusterlab.catalogue import SERVING, machine
from clusterlab.model import Layout, transformer
from clusterlab.power import energy_per
from clusterlab.serving import Batch, Formats, Replica, forward_pass

FORMATS = {"bfloat16": Formats(), "fp8": Formats("fp8"), "mxfp4": Formats("bf16", weight_bytes=0.53)}
RATED = {"H100": 700, "B200": 1000}  # W


@cache
def rows():
    with Path(__file__).with_name("energy.csv").open(encoding="utf-8") as stream:
        return list(csv.DictReader(line for line in stream if line[0] != "#"))


def column(name):
    return np.array([float(row[name]) for row in rows()])


@cache
def gaps():
    """Milliseconds of a pass with so many sequences, halfway through their answers, as vLLM is taken to run it."""
    found = []
    for row in rows():
        model, gpus = transformer(row["model"]), int(row["gpus"])
        chip = machine({"H100": "H100 SXM", "B200": "B200"}[row["gpu"]])
        layout = (
            Layout(dp=gpus, ep=gpus) if int(row["ep"]) > 1 else Layout(tp=gpus, etp=gpus if model.experts else None)
        )
        one = Replica(model, chip, layout, FORMATS[row["precision"]], software=SERVING["vLLM"])
        batch = Batch(sequences=float(row["batch"]), context=float(row["output"]) / 2)
        sent = batch.sequences / layout.dp * one.software.stream_time
        found.append(1e3 * float(forward_pass(one, batch).time + sent))
    return np.array(found)


def test_joules_are_watts_over_tokens():
    assert len(rows()) == 183
    stated = energy_per(column("watts"), column("tokens_s"))
    assert np.all(np.abs(stated / column("joules") - 1) < 0.02)


def test_a_gpu_that_serves_draws_half_to_all_of_its_rating():
    """So rated watts over the law's tokens are an upper bound of the watts, not of the tokens."""
    rated = np.array([RATED[row["gpu"]] for row in rows()])
    share = column("watts") / column("gpus") / rated
    assert np.all((share > 0.25) & (share < 1))
    assert 0.7 < np.median(share) < 0.8
    # In nearly every setup the largest batch draws more than the smallest.
    setups = {}
    for row, drawn in zip(rows(), share, strict=True):
        setups.setdefault((row["model"], row["gpu"], row["gpus"], row["precision"]), []).append(drawn)
    more = [drawn[-1] > drawn[0] for drawn in setups.values() if len(drawn) > 1]
    assert len(more) > 15
    assert np.mean(more) > 0.85


def test_gaps_that_nobody_fitted_are_longer_than_the_laws_say():
    """Known, and open: a quarter too short in the mean, most for small models and for experts that are dealt out.

    A pass of these runs lasts some milliseconds longer than its kernels, whatever the model: a host that isn't hidden.
    """
    ratio = gaps() / column("gap_ms")
    assert -0.30 < np.mean(ratio) - 1 < -0.18
    assert 0.18 < np.mean(np.abs(ratio - 1)) < 0.30
    dense = np.array([not transformer(row["model"]).experts for row in rows()])
    large = np.array([row["model"] in ("Llama 3.1 70B", "Llama 3.1 405B") for row in rows()])
    assert np.mean(np.abs(ratio[large] - 1)) < 0.2 < np.mean(np.abs(ratio[dense & ~large] - 1))


def test_joules_by_rated_watts_and_the_laws_tokens():
    """Both errors work against each other: a GPU draws less than its rating, and writes fewer tokens than predicted."""
    rated = np.array([RATED[row["gpu"]] for row in rows()]) * column("gpus")
    predicted = energy_per(rated, column("batch") / (gaps() / 1e3))
    ratio = predicted / column("joules")
    assert 0.8 < np.median(ratio) < 1.1
    assert np.mean((ratio > 0.5) & (ratio < 2)) > 0.9
