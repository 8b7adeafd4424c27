"""A training run: every number of it counted again by hand, its limits, and a simulation as a witness."""

import math
from dataclasses import fields, replace

import numpy as np
import pytest

from clusterlab import failures, interconnect
from clusterlab.catalogue import PREDICTION_INTERVALS, price_list
from clusterlab.model import parameters
from clusterlab.parallelism import step
from clusterlab.planning import CENTRAL, METRICS, SWITCHES, Site, design, outcome, samples
from clusterlab.planning.recount import of_run
from clusterlab.planning.training import run_intervals
from clusterlab.units import hour, year
from planned import H100, LLAMA, META


@pytest.fixture(scope="module")
def llama():
    return design(LLAMA, Site(), H100, META)


# --- By hand ---------------------------------------------------------------------------------------------------------

GPUS, SERVERS, SPARES = 16_384, 2048, 40
HOSTS = 8 * (SERVERS + SPARES)


def annuity(money, rate, years):
    return money * rate / (1 - (1 + rate) ** -years)


def by_hand(assumed=CENTRAL):
    """Every number of Llama 3's run on Meta's layout, from datasheets, prices and assumptions alone."""
    timed = step(LLAMA.model, H100, LLAMA.workload, META)
    steps = math.ceil(15.6e12 / (2048 * 8192))
    work = steps * timed.time
    tree = interconnect.fat_tree(HOSTS, 64)
    mtbf = assumed.gpu_mttf / GPUS
    size = 14 * parameters(LLAMA.model).total
    lag = size / (assumed.storage_per_gpu * HOSTS)
    stall = size / GPUS / assumed.local_bandwidth
    job = failures.Job(
        interval=max(failures.optimal_interval(stall, mtbf), timed.time, (lag + stall) / 0.05 - stall),
        write=stall,
        mtbf=mtbf,
        lag=lag,
        detection=assumed.detection,
        repair=failures.spare_pool(SPARES, nodes=SERVERS, node_mtbf=assumed.gpu_mttf / 8, repair=assumed.repair).wait,
        restart=assumed.restart + lag,
    )
    ran = failures.expected_run_time(work, job)
    time = ran.total
    up = time - ran.detection - ran.repair
    servers = HOSTS / 8 * 10.2e3
    rated = (servers + tree.switches * SWITCHES["QM9700"].power) * assumed.pue
    listed = price_list("H100 SXM")
    hall = rated * (listed.substation + listed.generators + listed.electrical + listed.cooling + listed.building)
    bought = HOSTS * (listed.servers + listed.network + listed.storage)
    yearly = annuity(bought * assumed.capital, assumed.interest, assumed.life / year)
    yearly += annuity(hall * assumed.capital, assumed.interest, 14) + (listed.staff + listed.operations) * rated
    yearly += assumed.draw * rated * year * (assumed.energy_price + listed.water)
    cables = {"host_cables": HOSTS, "spine_cables": tree.spine_cables, "core_cables": tree.core_cables}
    return cables | {
        "step_time": timed.time,
        "mfu": timed.model_flops / (GPUS * 989e12 * timed.time),
        "time": time,
        "effective_time": work / time,
        "interruptions": up / mtbf,
        "interruptions_per_day": 86_400 * up / mtbf / time,  # of the calendar, as logs count
        "gpu_hours": GPUS * time / 3600,
        "cost": yearly * time / year,
        "capital": (bought + hall) * assumed.capital,
        "site_power": rated,
        "mean_power": assumed.draw * rated,
        "server_power": servers,
        "energy": assumed.draw * rated * time,
        "carbon": assumed.draw * rated * time * assumed.carbon_intensity / 1000,
        "chip_carbon": GPUS * 700 * assumed.pue * time * assumed.carbon_intensity / 1000,
        "gpus": GPUS,
        "peak": GPUS * 989e12,
        "racks": math.ceil((SERVERS + SPARES) / 4),
        "leaf_switches": math.ceil(HOSTS / 32),
        "spine_switches": tree.spines,
        "core_switches": tree.cores,
        "cables": sum(cables.values()),
        "transceivers": 2 * sum(cables.values()),
        "bisection": HOSTS / 2 * 50e9,
        "storage_bandwidth": assumed.storage_per_gpu * HOSTS,
    }


def test_every_number_of_a_run_is_counted_by_hand():
    assert set(by_hand()) == set(METRICS)


@pytest.mark.parametrize("name", METRICS)
def test_a_number_of_a_run_is_that_which_one_counts_by_hand(name, llama):
    unit, of = METRICS[name]
    assert float(of(llama, outcome(llama))) == pytest.approx(float(by_hand()[name]), rel=1e-9), unit


CHANGED = {"repair": 1.3, "pue": 1.1, "draw": 0.9, "capital": 1.4, "life": 0.7, "energy_price": 2, "detection": 3}


@pytest.mark.parametrize("name", CHANGED)
def test_so_it_is_in_another_scenario(name, llama):
    """What is decided stays; what follows is counted again."""
    there = replace(CENTRAL, **{name: CHANGED[name] * getattr(CENTRAL, name)})
    done, hand = outcome(llama, there), by_hand(there)
    for result in ("time", "cost", "capital", "site_power", "mean_power", "energy", "carbon", "interruptions"):
        assert float(METRICS[result].of(llama, done)) == pytest.approx(float(hand[result]), rel=1e-9), result


def test_a_rented_run_pays_for_the_accelerators_that_work_and_not_for_spares():
    rented = design(LLAMA, Site(rent=2 / hour, spares=100), H100, META)
    done = outcome(rented)
    assert rented.hosts == GPUS + 800
    assert done.cost == pytest.approx(GPUS * done.time / hour * 2)
    assert done.capital is None
    assert done.job.repair == 0  # who lets a server replaces it


def test_storage_grows_with_every_server_that_stands_there():
    few, many = (design(LLAMA, Site(spares=n), H100, META) for n in (0, 100))
    assert few.storage_bandwidth == CENTRAL.storage_per_gpu * GPUS
    assert many.storage_bandwidth == CENTRAL.storage_per_gpu * (GPUS + 800)
    assert design(LLAMA, Site(storage_bandwidth=2e12), H100, META).storage_bandwidth == 2e12


def test_the_interval_of_a_result_is_that_of_as_many_runs_by_hand(llama):
    drawn = samples(CENTRAL, 40, seed=5)
    sure = run_intervals(llama, outcome(llama), outcome(llama, drawn))
    slower = np.maximum(drawn.step, llama.step.hfu)
    of_step = llama.step.time * slower
    assert (sure["step_time"].low, sure["step_time"].high) == pytest.approx(np.quantile(of_step, (0.1, 0.9)))
    # A slower step leaves less of the peak: the ends change places.
    assert (sure["mfu"].low, sure["mfu"].high) == pytest.approx(np.quantile(llama.step.mfu / slower, (0.1, 0.9)))
    each = {f.name: getattr(drawn, f.name) for f in fields(drawn)}
    runs = [outcome(llama, replace(drawn, **{n: v[i] for n, v in each.items() if np.ndim(v)})) for i in range(40)]
    for name in ("time", "cost", "capital", "mean_power", "energy", "carbon", "interruptions", "gpu_hours"):
        values = [float(METRICS[name].of(llama, one)) for one in runs]
        low, high = np.quantile(values, (0.1, 0.9))
        assert (min(low, sure[name].value), max(high, sure[name].value)) == pytest.approx(
            (sure[name].low, sure[name].high), rel=1e-12
        ), name


# --- Witnesses and limits --------------------------------------------------------------------------------------------


def test_the_mfu_of_llama_3_is_its_own_with_four_chunks_a_stage():
    """Table 4 prints 41 % and no number of chunks: the plan's 45 % are those of the best, eight."""
    four, eight = (step(LLAMA.model, H100, LLAMA.workload, replace(META, chunks=v)).mfu for v in (4, 8))
    assert (four, eight) == (pytest.approx(0.407, abs=0.001), pytest.approx(0.447, abs=0.001))


def test_a_plan_in_many_scenarios_is_as_many_plans():
    made = design(LLAMA, Site(), H100, META)
    drawn = samples(CENTRAL, 7, seed=3)
    together = outcome(made, drawn)
    for i in range(7):
        each = {f.name: getattr(drawn, f.name) for f in fields(drawn)}
        alone = outcome(made, replace(drawn, **{n: v[i] for n, v in each.items() if np.ndim(v)}))
        for _, get in METRICS.values():
            np.testing.assert_allclose(np.broadcast_to(get(made, together), 7)[i], get(made, alone), rtol=1e-12)
    assert all(one.holds for one in of_run(made, together, drawn))


def test_the_run_is_what_a_simulation_of_its_job_finds(llama):
    done = outcome(llama)
    job = replace(done.job, interval=float(done.job.interval), write=float(done.job.write))
    runs = failures.simulate_job(float(done.work), job, runs=60, seed=1)
    assert np.mean(runs.total) == pytest.approx(done.time, rel=0.01)
    assert np.mean(runs.failures) == pytest.approx(done.failures, rel=0.03)


def test_without_failures_a_run_takes_its_steps_and_its_checkpoints(llama):
    sure = outcome(llama, replace(CENTRAL, gpu_mttf=1e30))
    assert sure.time == pytest.approx(sure.work * (1 + llama.checkpoint.stall / llama.interval), rel=1e-4)
    assert sure.failures < 1e-15


def test_twice_the_tokens_take_twice_the_time_the_energy_and_the_money(llama):
    once = outcome(llama)
    twice = outcome(replace(llama, training=replace(LLAMA, tokens=2 * LLAMA.tokens)))
    for get in (lambda o: o.time, lambda o: o.energy.energy, lambda o: o.energy.carbon, lambda o: o.cost):
        assert get(twice) / get(once) == pytest.approx(2, rel=1e-4)
    assert twice.site.total == once.site.total


@pytest.mark.parametrize(
    ("name", "metric", "power_of"),
    [
        ("pue", "mean_power", 1),
        ("draw", "mean_power", 1),
        ("draw", "site_power", 0),
        ("carbon_intensity", "carbon", 1),
        ("step", "step_time", 1),
        ("step", "mfu", -1),
        ("energy_price", "time", 0),
        ("capital", "capital", 1),
    ],
)
def test_half_of_an_assumption_halves_what_it_should(name, metric, power_of, llama):
    scenario = replace(CENTRAL, **{name: getattr(CENTRAL, name) * 0.85})
    get = METRICS[metric][1]
    ratio = get(llama, outcome(llama, scenario)) / get(llama, outcome(llama))
    assert ratio == pytest.approx(0.85**power_of, rel=1e-9)


def test_a_checkpoint_is_read_again_after_each_failure(llama):
    """The storage that takes it in a lag gives it back in as long, on top of what starting takes."""
    slow = replace(llama, checkpoint=replace(llama.checkpoint, lag=llama.checkpoint.lag * 5))
    assert outcome(slow).job.restart - CENTRAL.restart == pytest.approx(5 * llama.checkpoint.lag)


def test_a_scenario_that_loses_so_many_times_the_time_has_so_many_times_the_odds(llama):
    """The end of a plan's goodput is that of the record of a goodput, whose spread it has."""
    usual, worse = (
        outcome(llama, replace(CENTRAL, lost_time=odds)) for odds in (1.0, PREDICTION_INTERVALS["goodput"].high)
    )
    assert worse.run.goodput == pytest.approx(failures.goodput(usual.job).low, rel=1e-3)
    assert (worse.failures, worse.work) == (usual.failures, usual.work)


def test_spares_are_the_fewest_that_are_enough_in_bad_months(llama):
    """Machines in repair in months whose rates are gamma distributed, as a count of negative binomial chances."""
    load = 2048 * CENTRAL.repair / (CENTRAL.gpu_mttf / 8)
    n, p = 1 / failures.BURSTS, 1 / (1 + failures.BURSTS * load)
    chances = [
        math.exp(math.lgamma(k + n) - math.lgamma(n) - math.lgamma(k + 1)) * p**n * (1 - p) ** k for k in range(99)
    ]
    short = 1 - np.cumsum(chances)
    assert short[int(llama.spares)] <= CENTRAL.spare_risk < short[int(llama.spares) - 1]


def test_a_plan_saves_as_often_as_the_law_of_failures_says_and_its_storage_bears(llama):
    saved = llama.checkpoint
    bound = failures.checkpoint_interval(saved.stall, CENTRAL.gpu_mttf / GPUS, lag=saved.lag)
    assert llama.interval == bound
    assert saved.time / (llama.interval + saved.stall) == pytest.approx(failures.STORAGE_SHARE)
    assert CENTRAL.storage_share == failures.STORAGE_SHARE  # one default
    often = design(LLAMA, Site(), H100, META, scenario=replace(CENTRAL, storage_share=1))
    assert often.interval == failures.optimal_interval(saved.stall, CENTRAL.gpu_mttf / GPUS) < 0.5 * llama.interval
    assert outcome(often).time < outcome(llama).time  # what the floor costs


def test_the_interval_is_the_best_that_saving_allows():
    """Among all intervals that the storage bears, none ends sooner."""
    made = design(LLAMA, Site(storage_bandwidth=20e12), H100, META)
    times = {f: outcome(replace(made, interval=made.interval * f)).time for f in (1, 1.2, 2, 4)}
    assert min(times, key=times.get) == 1
    assert made.interval >= max(made.step.time, made.checkpoint.time)


# --- Thin leaves -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ratio", [1, 3, 7])
def test_thin_leaves_save_switches_and_cost_what_crosses_them(llama, ratio):
    """Gradients go around rings of neighbours, so only transfers between stages, which all cross, feel the leaves."""
    made = design(LLAMA, Site(oversubscription=ratio), H100, META)
    assert made.fabric.switches <= llama.fabric.switches
    same = [getattr(made.step, name) == getattr(llama.step, name) for name in ("gemms", "tensor", "data", "bubble")]
    assert all(same)
    shown = {name: value for name, value, *_ in made._rows()}
    if ratio == 1:
        assert (made.step.time, made.thin) == (llama.step.time, 1)
        assert "oversubscription" not in shown
    else:
        longer = made.step.time - llama.step.time
        assert longer > 0
        assert longer == pytest.approx(made.step.transfers - llama.step.transfers)
        assert made.thin == pytest.approx(made.step.time / llama.step.time)
        assert shown["oversubscription"].startswith(f"{ratio}:1 above {64 * ratio // (ratio + 1) * 8} GPUs: step +")
    assert outcome(made).work == pytest.approx(made.training.steps * made.step.time)
