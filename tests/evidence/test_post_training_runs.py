"""Published iterations of post-training, and weights on their way, beside the laws."""

import numpy as np
import pytest

from clusterlab.catalogue import PREDICTION_INTERVALS
from clusterlab.evidence import (
    fit_loading_rate,
    fit_post_training,
    learn_post_training_spread,
    leave_one_model_out,
    predict_post_training,
    published_post_training,
    published_weight_updates,
)
from clusterlab.post_training import LOOP_CONSTANTS

RUNS = published_post_training()
SECONDS = np.array([run.seconds for run in RUNS])


LOADING_RATE = LOOP_CONSTANTS["loading rate"].value


def test_the_constants_are_what_the_runs_give_and_their_ends_what_they_give_without_a_model():
    constants = [LOOP_CONSTANTS[name] for name in ("pace", "turns")]
    assert fit_post_training(RUNS) == tuple(one.value for one in constants)
    names = [run.loop.replica.model.name for run in RUNS]
    left = [fit_post_training([r for r, n in zip(RUNS, names, strict=True) if n != name]) for name in set(names)]
    for one, values in zip(constants, zip(*left, strict=True), strict=True):
        assert (one.low, one.high) == (min(values), max(values))


def test_rounds_that_no_constant_has_seen():
    """NeMo RL v0.5: 21 %, and 19 of 22 inside. verl's one round takes twice as long as predicted, and lies outside."""
    held = published_post_training("held")
    ratios = np.array([one.time for one in predict_post_training(held)]) / [run.seconds for run in held]
    inside = [one.low < run.seconds < one.high for one, run in zip(predict_post_training(held), held, strict=True)]
    assert [run.source for run in held][-1] == "verl"
    assert round(np.abs(ratios[:-1] - 1).mean(), 2) == 0.21
    assert (len(held), sum(inside[:-1])) == (23, 19)
    assert (round(ratios[-1], 2), inside[-1]) == (0.52, False)


def test_the_interval_is_what_runs_of_unseen_models_give():
    spread = PREDICTION_INTERVALS["post-training: iteration"]
    assert learn_post_training_spread(RUNS) == pytest.approx((spread.low, spread.high), abs=6e-4)


def test_errors_stay_what_they_are():
    """Without any constant 39 %, fitted 18 %, of a model left out 20 %."""
    found = predict_post_training(RUNS)
    counted = np.abs([one.counted for one in found] / SECONDS - 1).mean()
    fitted = np.abs([one.time for one in found] / SECONDS - 1).mean()
    left = np.abs(leave_one_model_out(RUNS) - 1)
    assert (round(counted, 2), round(fitted, 2), round(left.mean(), 2)) == (0.39, 0.18, 0.2)


def test_the_interval_holds_four_fifths():
    spread = PREDICTION_INTERVALS["post-training: iteration"]
    ratios = 1 / leave_one_model_out(RUNS)
    inside = (spread.low <= ratios) & (ratios <= spread.high)
    assert inside.mean() >= 0.7


def test_tokens_per_second_of_the_tables_agree_with_their_step_times():
    """The tables' own rate, times the step, is the answers' tokens with a short prompt."""
    import csv
    from importlib.resources import files

    text = (files("clusterlab.evidence") / "data" / "post_training.csv").read_text(encoding="utf-8")
    for row in csv.DictReader(text.splitlines()):
        if not row["tokens_s_gpu"]:
            continue
        each = float(row["tokens_s_gpu"]) * float(row["step_s"]) * float(row["n_gpus"])
        each /= int(row["prompts"]) * int(row["samples"])
        least = 0.97 if row["role"] == "fitted" else 0.92  # the tables average five steps, each column for itself
        assert least < each / (float(row["written"]) + 110) < 1.2, row["row_id"]


def test_loading_is_that_of_the_one_table_and_others_are_slower():
    updates = published_weight_updates()
    one = [update for update in updates if update.source == "checkpoint-engine"]
    assert fit_loading_rate(one) == pytest.approx(LOADING_RATE, rel=0.005)
    rates = np.array([update.size / update.seconds for update in one])
    assert 0.85 < (rates / LOADING_RATE).min() < (rates / LOADING_RATE).max() < 1.17
    others = [u for u in updates if u.route == "broadcast" and u.source != "checkpoint-engine"]
    assert all(update.size / update.seconds < LOADING_RATE for update in others)
