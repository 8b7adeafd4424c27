"""Laws: what holds for every function whose arguments are quantities, tried from its signature alone.

A law is called with Pint quantities and must return what its annotations say. Called with arrays it is a loop of scalar
calls. Shapes that do not fit and numbers that are not allowed are refused by name. What a law needs to be called
soundly beyond its quantities stands in ``tests/arguments``.
"""

import dataclasses
import importlib
import inspect
import math
import pkgutil
import re
import warnings
from collections.abc import Mapping

import numpy as np
import pint
import pytest

import clusterlab
from arguments import ARGUMENTS, IN_UNITS
from clusterlab.quantities import quantities_of
from laws import assert_equals_a_loop, registry

# A FLOP and a byte are dimensions of their own here, so a FLOP count where bytes belong is an error.
UNITS = {"B": "octet", "B/s": "octet/s", "FLOP/B": "FLOP/octet", "$": "dollar", "$/J": "dollar/J", "degC": ""}
UNITS |= {"$/s": "dollar/s"}
# Two sound numbers of each rule, by what it says; and what it refuses.
SOUND = {
    "positive and finite": (2.0, 4.0),
    "zero or more and finite": (2.0, 4.0),
    "above 0 and at most 1": (0.25, 0.5),
    "from 0 to 1": (0.25, 0.5),
    "at least 0 and below 1": (0.25, 0.5),
    "above 0 and below 1": (0.25, 0.5),
    "at least 1": (2.0, 3.0),
    "a whole number of at least 0": (2.0, 4.0),
    "a whole number of at least 1": (2.0, 4.0),
    "from -90 to 100 degrees Celsius": (20.0, 30.0),
}
REFUSED = {
    "positive and finite": (0, -1),
    "zero or more and finite": (-1,),
    "above 0 and at most 1": (0, 1.5),
    "from 0 to 1": (-0.5, 1.5),
    "at least 0 and below 1": (-0.5, 1),
    "above 0 and below 1": (0, 1),
    "at least 1": (0.5,),
    "a whole number of at least 0": (-1, 2.5),
    "a whole number of at least 1": (0, 2.5),
    "from -90 to 100 degrees Celsius": (295, -300),
}


def laws() -> dict:
    """Every law by its room and name."""
    found = {}
    for one in pkgutil.walk_packages(clusterlab.__path__, "clusterlab."):
        if one.name.endswith("__main__"):
            continue
        module = importlib.import_module(one.name)
        for name, law in vars(module).items():
            if hasattr(law, "quantities") and law.__module__ == one.name:
                found[f"{one.name.split('.')[1]}.{name}"] = law
    return found


LAWS = laws()


def arguments(name: str) -> dict:
    """Two sound values of each argument that has a quantity, and the other arguments."""
    special, given = ARGUMENTS.get(name, {}), {}
    for argument, quantity in LAWS[name].quantities.items():
        given[argument] = np.array(special.get(argument, SOUND[quantity.rule.text]))
    return given | {argument: value for argument, value in special.items() if argument not in given}


def in_units(name: str) -> dict:
    """The same in units; a temperature, which is an offset, stays a number."""
    quantities, given = LAWS[name].quantities, arguments(name)
    units = {a: UNITS.get(one.unit, one.unit) for a, one in quantities.items() if one.unit != "degC"}
    return given | {a: registry.Quantity(given[a], unit) for a, unit in units.items()} | IN_UNITS.get(name, {})


def parts(result, annotations: dict) -> dict:
    """Each part of a result with the quantity that it should be."""
    if not dataclasses.is_dataclass(result):
        return {"the result": (result, annotations.get("return"))}
    record = type(result)
    said = quantities_of(record)
    for member, value in vars(record).items():
        if isinstance(value, property) and value.fget:
            said |= {member: quantities_of(value.fget)["return"]} if "return" in quantities_of(value.fget) else {}
    found = {member: (getattr(result, member), quantity) for member, quantity in said.items()}
    maps = {member: found.pop(member) for member, (value, _) in list(found.items()) if isinstance(value, Mapping)}
    return found | {f"{m} {key}": (value, one) for m, (held, one) in maps.items() for key, value in held.items()}


def not_as_said(name: str, given: dict) -> list[str]:
    """Parts of a law's result that have not the dimension of what its signature says."""
    law, wrong = LAWS[name], []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pint.UnitStrippedWarning)
        found = parts(law(**given), quantities_of(law.unchecked))
    assert found, "annotate what it returns, or the fields of its record, with quantities"
    has_flops = any("FLOP" in one.unit for one in law.quantities.values())
    for part, (value, quantity) in found.items():
        assert quantity is not None, f"{part} has no quantity"
        expected = registry.Unit(UNITS.get(quantity.unit, quantity.unit) or "dimensionless")
        dimension = getattr(value, "dimensionality", registry.dimensionless.dimensionality)
        # A FLOP count that follows from counts alone is one itself, without a unit.
        allowed = {expected.dimensionality}
        if "FLOP" in quantity.unit and not has_flops:
            allowed.add((expected / registry.FLOP).dimensionality)
        if dimension not in allowed:
            wrong.append(f"{part}: {dimension}, not {expected.dimensionality}")
    return wrong


TRIED = [name for name in LAWS if IN_UNITS.get(name, {}) is not None]


@pytest.mark.parametrize("name", TRIED)
def test_a_law_returns_what_its_signature_says(name):
    assert not_as_said(name, in_units(name)) == []


MEASURED = [(name, a) for name in TRIED for a, one in LAWS[name].quantities.items() if one.unit not in ("", "degC")]


@pytest.mark.parametrize(("name", "argument"), MEASURED)
def test_a_law_does_not_take_another_unit_for_its_own(name, argument):
    """A FLOP count where bytes belong does not add up, or shows in the result."""
    parameters = inspect.signature(LAWS[name]).parameters
    given = in_units(name)
    needed = {argument, *ARGUMENTS.get(name, {})} | {a for a, one in parameters.items() if one.default is not None}
    given = {a: value for a, value in given.items() if a in needed}
    try:
        wrong = not_as_said(name, given | {argument: given[argument] * registry.candela})
    except pint.DimensionalityError:
        return
    assert wrong


@pytest.mark.parametrize("name", LAWS)
def test_a_law_of_arrays_is_a_loop(name):
    law, given = LAWS[name], arguments(name)
    scalars = [{a: (v[i].item() if isinstance(v, np.ndarray) else v) for a, v in given.items()} for i in range(2)]
    assert_equals_a_loop(law(**given), [law(**one) for one in scalars])


@pytest.mark.parametrize("name", LAWS)
def test_a_law_is_its_core_where_its_arguments_are_sound(name):
    law, given = LAWS[name], arguments(name)
    given = {a: (v[0].item() if isinstance(v, np.ndarray) else v) for a, v in given.items()}
    assert repr(law(**given)) == repr(law.unchecked(**given))


@pytest.mark.parametrize("name", LAWS)
def test_a_law_takes_by_position_what_its_signature_does(name):
    kinds = [one.kind for one in inspect.signature(LAWS[name]).parameters.values()]
    places = kinds.count(inspect.Parameter.POSITIONAL_OR_KEYWORD)
    with pytest.raises(TypeError, match="positional argument"):
        LAWS[name](*[1.0] * (places + 1))


CASES = [(name, argument) for name, law in LAWS.items() for argument in law.quantities]


@pytest.mark.parametrize(("name", "argument"), CASES)
def test_a_law_refuses_what_its_quantity_is_not_and_names_it(name, argument):
    law, given = LAWS[name], arguments(name)
    rule = law.quantities[argument].rule
    optional = inspect.signature(law).parameters[argument].default is None
    for wrong in (*REFUSED[rule.text], math.nan, math.inf, "2", [], *([] if optional else [None])):
        with pytest.raises(ValueError, match=rf"^{argument} must be {re.escape(rule.text)}, got"):
            law(**given | {argument: wrong})


@pytest.mark.parametrize(("name", "argument"), [case for case in CASES if len(LAWS[case[0]].quantities) > 1])
def test_a_law_refuses_shapes_that_do_not_fit_and_names_them(name, argument):
    given = arguments(name)
    with pytest.raises(ValueError, match=rf"^shapes do not fit together: .*{argument} \(3,\)"):
        LAWS[name](**given | {argument: np.resize(given[argument], 3)})


@pytest.mark.parametrize("name", LAWS)
def test_a_law_says_what_it_rests_on_and_shows_an_example(name):
    doc = inspect.getdoc(LAWS[name])
    assert ".. math::" in doc, "its formula"
    assert re.search(r"Source|Derived|Counted", doc), "its source"
    assert ">>> " in doc
    assert "ValueError" in doc or not LAWS[name].quantities


# Rooms and modules without laws of their own: what things are, what was measured, what decides with laws.
NO_LAWS = {"catalogue", "model.published", "model.layout", "operations.making_room", "operations.state", "evidence"}
NO_LAWS |= {"units", "checks", "quantities", "records", "own", "planning", "cli", "__main__"}
# Functions that no signature of quantities says enough of: their rooms try their units and shapes. Some take pairs,
# records or rows of numbers; others simulate, search, or make a step or a pass of thousands of laws.
BY_HAND = {
    "roofline": "lower_bound",
    "model": "trained alternate_share",
    "interconnect": "crossover_size overlap_stages torus hierarchy",
    "contention": "clos dragonfly torus_links joined link_load drain_time max_min_rates finish_times hashed pinned "
    "least_loaded sprayed ring_traffic tree_traffic hierarchical_traffic all_to_all_traffic exchange_time "
    "blocked_rates simulate_jobs",
    "parallelism": "layer_activations simulate_pipeline simulate_dualpipe step_kind sent_bytes step "
    "reached scan_time wider axes search",
    "serving": "violations forward_pass reading saturation frontier balanced_loads serving_kind simulate_queue "
    "batch_queue slo_attainment replicas_for pools_for scale_over prefix_hits",
    "post_training": "empty_batch rollout pass_line forward_time iterate",
    "failures": "series_mtbf first_order_goodput goodput expected_run_time simulate_job burstiness posterior_loss",
    "operations": "fair_shares feed find_bad simulate_cluster replay draw_jobs compare_policies rollout",
    "power": "load power_swing capacity outside_envelope",
    "scaling": "bill kept_per_doubling",
}


def test_every_public_function_is_a_law_or_is_tried_by_hand():
    found = {}
    for one in pkgutil.walk_packages(clusterlab.__path__, "clusterlab."):
        path = one.name.removeprefix("clusterlab.")
        room = path.partition(".")[0]
        if {path, room} & NO_LAWS:
            continue
        public = getattr(importlib.import_module(f"clusterlab.{room}"), "__all__", None)  # a module has nothing else
        for name, function in inspect.getmembers(importlib.import_module(one.name), inspect.isfunction):
            listed = name[0] != "_" if public is None else name in public
            if listed and function.__module__ == one.name and not hasattr(function, "quantities"):
                found.setdefault(room, set()).add(name)
    assert found == {room: set(names.split()) for room, names in BY_HAND.items()}
