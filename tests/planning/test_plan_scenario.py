"""What is asked and assumed: inputs are read or refused, and drawn scenarios have the spreads that their data say."""

import math
from dataclasses import fields, replace
from statistics import NormalDist

import numpy as np
import pytest

from clusterlab import catalogue
from clusterlab.catalogue import PREDICTION_INTERVALS
from clusterlab.model import transformer
from clusterlab.planning import (
    ASSUMPTIONS,
    CENTRAL,
    LEARNED,
    PRICES,
    SWITCHES,
    Serving,
    Site,
    Training,
    from_inputs,
    quantity,
    samples,
)
from clusterlab.planning.scenario import _TENTH
from clusterlab.units import day, minute
from planned import LLAMA


def test_the_default_batch_is_next_to_the_critical_one():
    assert LLAMA.global_batch == 2048
    assert Training("Llama 3.1 405B", 15.6e12).global_batch in (1024, 2048)
    assert Training(transformer("Llama 3.1 8B"), 1e9).global_batch >= 1


def test_an_input_with_a_rate_is_of_a_fleet_and_one_without_of_a_run():
    asked, site = from_inputs({"model": "Llama 3.1 8B", "rate": 50, "accelerator": "H100 SXM"})
    assert isinstance(asked, Serving)
    assert (asked.prompt, asked.output, site.accelerator) == (1000, 300, "H100 SXM")
    asked, site = from_inputs({"model": "Llama 3.1 8B", "tokens": 1e12, "tp": 8, "software": 2024})
    assert isinstance(asked, Training)
    assert (dict(site.layout), site.software) == ({"tp": 8}, "2024")


@pytest.mark.parametrize(
    ("inputs", "why"),
    [
        ({"model": "Llama 3.1 8B"}, "tokens must be given"),
        ({"rate": 5}, "model must be given"),
        ({"model": "Llama 3.1 8B", "tokens": 1, "colour": 1}, "unknown input 'colour'; known: model"),
        ({"model": "Llama 3.1 8B", "rate": 1, "tokens": 1}, "tokens is not for a fleet that serves; leave it out"),
    ],
)
def test_inputs_that_no_plan_has_are_refused_by_name(inputs, why):
    with pytest.raises(ValueError, match=why):
        from_inputs(inputs)


@pytest.mark.parametrize(
    ("call", "why"),
    [
        (lambda: Site("H1000"), "unknown accelerator 'H1000'"),
        (lambda: Site(gpus=1.5), "gpus must be a whole number"),
        (lambda: Site(power=-1), "power must be positive"),
        (lambda: Site(layout={"tq": 8}), "layout has no axis 'tq'"),
        (lambda: Site(software="1999"), "unknown software '1999'"),
        (lambda: Training("Lama", 1e12), "unknown model"),
        (lambda: Training("Llama 3.1 8B", math.nan), "tokens must be positive and finite"),
        (lambda: Training("Llama 3.1 8B", 1e12, deadline=0), "deadline must be positive"),
        (lambda: Training("Llama 3.1 8B", 1e12, precision="fp7"), "precision must be one of"),
        (lambda: replace(CENTRAL, pue=0), "pue must be positive"),
        (lambda: samples(CENTRAL, 0), "draws must be a whole number"),
        (lambda: quantity("12 parsecs"), "cannot read"),
        (lambda: quantity("$2 per GPU"), "an amount is per kWh or per GPU-hour"),
        (lambda: quantity(True), "cannot read True"),
    ],
)
def test_what_cannot_be_is_refused_by_name(call, why):
    with pytest.raises(ValueError, match=why):
        call()


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("15.6T", 15.6e12),
        ("405B", 405e9),
        ("30 MW", 30e6),
        ("90d", 90 * day),
        ("$50M", 50e6),
        ("8 GB", 8e9),
        ("8930 t", 8.93e6),
        ("0.37 kg per kWh", 0.37 / 3.6e6),
        ("$3.6 per GPU-hour", 1e-3),
        (7, 7.0),
        ("8 min", 8 * minute),
    ],
)
def test_a_quantity_is_read_as_it_is_printed(text, value):
    assert quantity(text) == pytest.approx(value)


def test_an_assumption_that_was_changed_does_not_borrow_the_source_of_the_old_one():
    stored, changed = ASSUMPTIONS["pue"], replace(ASSUMPTIONS["pue"], value=1.35)
    title, printed = stored.facts["value"].source.title, str(stored.facts["value"].printed)
    row = {row[0]: row for row in stored._rows()}["value"]
    assert (row[1], row[-1].startswith(title)) == (printed, True)
    assert {row[0]: row for row in changed._rows()}["value"] == ("value", "1.35", "changed", "", "")
    assert {row[0]: row for row in changed._rows()}["low"] == {row[0]: row for row in stored._rows()}["low"]
    switch = next(iter(SWITCHES.values()))
    assert ("link", "Other", "changed", "", "") in replace(switch, link="Other")._rows()


@pytest.mark.parametrize("name", [name for name, one in ASSUMPTIONS.items() if one.low])
def test_a_tenth_of_the_scenarios_is_on_either_side_of_an_interval(name):
    one, drawn = ASSUMPTIONS[name], samples(CENTRAL, 40_000)
    values = getattr(drawn, name)
    np.testing.assert_allclose(np.quantile(values, [0.1, 0.5, 0.9]), [one.low, one.value, one.high], rtol=0.03)


def test_lost_time_and_draw_have_the_spreads_that_published_fleets_taught():
    drawn = samples(CENTRAL, 40_000)
    for name, kind in LEARNED.items():
        spread, ratios = PREDICTION_INTERVALS[kind], getattr(drawn, name) / getattr(CENTRAL, name)
        np.testing.assert_allclose(np.quantile(ratios, [0.1, 0.9]), [spread.low, spread.high], rtol=0.03)


@pytest.mark.parametrize("step_kind", ["dense, 16 bits", "mixture of experts"])
def test_the_time_of_a_step_has_the_spread_that_was_learned(step_kind):
    drawn = samples(CENTRAL, 40_000, step_kind=step_kind).step
    spread = PREDICTION_INTERVALS[step_kind]
    np.testing.assert_allclose(np.quantile(drawn, [0.1, 0.9]), [spread.low, spread.high], rtol=0.01)


def test_a_tenth_of_a_normal_distribution_is_where_it_is():
    assert pytest.approx(NormalDist().inv_cdf(0.9), rel=1e-15) == _TENTH


def test_scenarios_are_the_same_for_a_seed_and_no_two_assumptions_move_together():
    one, same, other = (samples(CENTRAL, 2000, seed=s) for s in (1, 1, 2))
    np.testing.assert_array_equal(one.pue, same.pue)
    assert not np.array_equal(one.pue, other.pue)
    moved = [getattr(one, f.name) for f in fields(one) if np.ndim(getattr(one, f.name))]
    across = np.corrcoef(np.log(moved)) - np.eye(len(moved))
    assert np.max(np.abs(across)) < 0.1


def test_every_price_is_of_hardware_that_is_on_record():
    assert set(PRICES) <= {one.name for one in catalogue.accelerators()}
