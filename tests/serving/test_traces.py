"""Traces: requests that were served one by one, in a queue that grows, and what a replica run pass by pass makes of it.

Ten requests a second come to machines that can end four or two: whoever comes late waits for a place. Waiting shows an
error of the passes many times over, so the queue is tried twice: with the passes of the laws, and with passes that are
as fast as was measured.
"""

import csv
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from clusterlab.catalogue import SERVING, machine
from clusterlab.model import Layout, transformer
from clusterlab.serving import Replica, Requests
from serving_witness import Passes, run

PLACES = 128
MODELS = {"8B": ("Llama 3.1 8B", Layout()), "32B": ("Qwen3 32B", Layout(tp=2))}
MODELS["30B-A3B"] = ("Qwen3 30B-A3B", Layout())


@cache
def trace(name):
    """Prompts, answers, arrivals, first tokens and times per token, as measured."""
    with Path(__file__).with_name("traces.csv").open(encoding="utf-8") as stream:
        rows = [row for row in csv.DictReader(line for line in stream if line[0] != "#") if row["run"] == name]
    columns = ("prompt", "output", "arrival_s", "first_token_s", "token_s")
    return tuple(np.array([float(row[column]) for row in rows]) for column in columns)


@cache
def served(name, known_speed=False):
    """First tokens and times per token of the laws; with passes so many times as long that tokens are as measured."""
    prompts, outputs, arrivals, _, token = trace(name)
    model, layout = MODELS[name]
    software = replace(SERVING["vLLM"], max_sequences=PLACES)
    replica = Replica(transformer(model), machine("RTX PRO 6000"), layout, software=software)
    asked = Requests(prompts.mean(), outputs.mean(), 0, *(part.std() / part.mean() for part in (prompts, outputs)))
    passes = Passes(replica, asked, PLACES, prompts)
    if known_speed:
        times = token.mean() / served(name)[1].mean()
        for part in ("decoding", "reading_of", "alone_of"):
            setattr(passes, part, times * getattr(passes, part))
    return run(passes, outputs, arrivals=arrivals, places=PLACES)[:2]


def test_the_traces_are_whole():
    for name in MODELS:
        prompts, outputs, arrivals, first, token = trace(name)
        assert len(prompts) == 300
        assert 9 < 300 / arrivals[-1] < 11
        assert (prompts > 0).all() & (outputs > 1).all() & (first > 0).all() & (token > 0).all()
        assert 0.6 < prompts.std() / prompts.mean() < 0.7
        assert 0.1 < outputs.std() / outputs.mean() < 0.2


@pytest.mark.parametrize(("name", "error"), [("8B", 0.15), ("32B", 0.12)])
def test_a_token_of_dense_models_takes_as_long(name, error):
    token = served(name)[1]
    measured = trace(name)[4]
    assert token.mean() == pytest.approx(measured.mean(), rel=error)
    for share in (0.5, 0.95, 0.99):
        assert np.quantile(token, share) == pytest.approx(np.quantile(measured, share), rel=0.2)


@pytest.mark.parametrize("name", ["8B", "32B"])
def test_who_waits_for_a_place_waits_as_long(name):
    """Of every request, not of the mean alone: first tokens from a tenth of a second to a minute and a half."""
    first, measured = served(name, known_speed=True)[0], trace(name)[3]
    assert np.corrcoef(first, measured)[0, 1] > 0.99
    assert first.mean() == pytest.approx(measured.mean(), rel=0.12)
    for share in (0.5, 0.95, 0.99):
        assert np.quantile(first, share) == pytest.approx(np.quantile(measured, share), rel=0.12), share


def test_the_mixture_on_this_card_is_not_found():
    """Its passes are half as long again as measured, and 300 requests then wait for minutes: known, and open."""
    token = served("30B-A3B")[1]
    assert 1.35 < token.mean() / trace("30B-A3B")[4].mean() < 1.6
