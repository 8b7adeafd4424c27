"""Sums made again: over thousands of random plans what leaves a law is what enters the next, and a fault is seen."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clusterlab.catalogue import machine
from clusterlab.parallelism import search
from clusterlab.planning import ASSUMPTIONS, CENTRAL, Scenario, Site, Training, design, outcome, plan, serve
from clusterlab.planning.recount import of_run, recount, said
from clusterlab.units import hour
from planned import ASKED, FEW, H100, LLAMA, META


@pytest.fixture(scope="module")
def llama():
    return design(LLAMA, Site(), H100, META)


MODELS = {"Llama 3.1 8B": (8, 64), "Llama 3.1 70B": (128, 512), "Mixtral 8x7B": (64, 256)}


CHIPS = ("H100 SXM", "GB200", "A100 80GB")


@pytest.fixture(scope="module")
def some_layouts():
    """Thousands of layouts that run, of three models on three accelerators."""
    found = {}
    for name, sizes in MODELS.items():
        for chip in CHIPS:
            run = Training(name, 1e12, sequence=4096, global_batch=512)
            few = {"chunks": [1, 2, 4], "microbatch": [1, 2], "cp": [1, 2]}
            layouts = search(run.model, machine(chip), run.workload, gpus=list(sizes), values=few).layouts
            found[name, chip] = layouts
    return found


@st.composite
def some_scenario(draw):
    """A world within reason, one number for each assumption."""
    values = {name: draw(st.floats(0.3, 3)) * one.value for name, one in ASSUMPTIONS.items()}
    for name in ("draw", "utilisation", "availability", "spare_risk"):
        values[name] = min(values[name], 1.0)
    values["pue"] = max(values["pue"], 1.0)
    values["servers_per_rack"] = float(draw(st.integers(1, 9)))
    return Scenario(**values, step=draw(st.floats(0.7, 1.5)), lost_time=draw(st.floats(0.2, 20)))


@pytest.mark.slow
@given(
    which=st.sampled_from([(m, c) for m in MODELS for c in CHIPS]),
    scenario=some_scenario(),
    tokens=st.floats(1e9, 1e14),
    rented=st.booleans(),
    ratio=st.sampled_from([1, 3, 7]),
    seed=st.integers(0, 2**32 - 1),
)
@settings(max_examples=100, deadline=None)
def test_every_sum_of_random_plans_is_the_same_again(some_layouts, which, scenario, tokens, rented, ratio, seed):
    """A hundred times a hundred plans, each with a layout of its own: what leaves a law is what enters the next."""
    layouts = some_layouts[which]
    taken = np.random.default_rng(seed).integers(0, layouts.shape[0], 100)
    site = Site(rent=2 / hour if rented else None, server_power=1000, oversubscription=ratio)
    run = Training(which[0], tokens, sequence=4096, global_batch=512)
    made = design(run, site, machine(which[1]), layouts[taken], scenario=scenario)
    done = outcome(made, scenario)
    for one in of_run(made, done, scenario):
        assert one.holds, (one.name, np.max(one.error))
    # Conservation: parts make the whole, and nothing is for nothing.
    assert np.all(done.time >= done.work)
    assert np.all((done.run.goodput > 0) & (done.run.goodput <= 1))
    assert np.all(done.mean_power <= done.site.total * (1 + 1e-12))
    assert np.all(made.hosts >= made.gpus)
    assert np.all(made.racks * np.maximum(scenario.servers_per_rack * 8, 72) >= made.hosts / made.per_server)
    assert np.all(np.isfinite(done.cost) | (done.bill is None))


def test_a_sum_that_does_not_fit_is_seen(llama):
    """A planted fault on each side of every sum: a hundredth of a per cent does not go through."""
    for one in of_run(llama, outcome(llama), CENTRAL):
        assert one.holds
        assert not one._replace(left=one.left * 1.0001).holds
        assert not one._replace(right=one.right * 1.0001).holds


FAULTS = {
    "servers": ["servers in repair"],
    "hosts": ["GPUs of servers", "watts of servers", "GPUs paid for"],
    "server_power": ["watts of servers"],
    "storage_bandwidth": ["bytes/s to storage"],
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_design_that_is_changed_after_its_outcome_breaks_the_sums_that_it_should(name, llama):
    done = outcome(llama)
    changed = replace(llama, **{name: getattr(llama, name) * 1.01})
    broken = [one.name for one in of_run(changed, done, CENTRAL) if not one.holds]
    assert len(broken) == len(FAULTS[name])
    assert all(b.startswith(f) for b, f in zip(broken, FAULTS[name], strict=True))


SCENARIO_FAULTS = {
    "gpu_mttf": ["servers in repair"],
    "repair": ["servers in repair"],
    "pue": [],
    "energy_price": [],
    "capital": ["GPUs paid for"],
    "step": [],  # what the run's own work says is used
    "air_rise": ["watts of IT"],
}


@pytest.mark.parametrize("name", SCENARIO_FAULTS)
def test_the_sums_of_another_scenario_do_not_hold(name, llama):
    done = outcome(llama)
    other = replace(CENTRAL, **{name: getattr(CENTRAL, name) * 1.01})
    broken = [one.name for one in of_run(llama, done, other) if not one.holds]
    assert [b for b in broken if any(b.startswith(f) for f in SCENARIO_FAULTS[name])] == broken
    assert len(broken) >= min(len(SCENARIO_FAULTS[name]), 1)


def test_a_plan_says_how_many_sums_were_made_again_and_how_far_apart_they_are():
    made = plan(Training("Llama 3.1 8B", 1e12, global_batch=512), Site("H100 SXM", gpus=64, layout=FEW), draws=2)
    sums = recount(made, CENTRAL)
    assert said(sums).startswith("13 sums made again by another law, largest difference ")
    assert float(said(sums).split()[-1]) < 1e-12
    off = [sums[0]._replace(left=sums[0].right * 1.001), *sums[1:]]
    assert said(off).endswith("largest difference 1.0e-03")


def test_a_fleet_of_a_torus_with_spares_adds_up():
    fleet = serve(replace(ASKED, precision="bf16"), Site("TPU v5p", server_power=750, spares=8), draws=2)
    assert fleet.hosts > fleet.gpus
    assert all(one.holds for one in recount(fleet, CENTRAL))
