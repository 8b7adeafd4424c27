"""Fleets as they are: counts wider than Poisson, bad nodes, crowds, draws; against logs and simulations."""

import math

import numpy as np
import pytest

from clusterlab import catalogue, power
from clusterlab.evidence import fleet, published
from clusterlab.evidence.intervals import MANY, further_source_interval, student_quantile
from clusterlab.failures import (
    BURSTS,
    BY_HAND,
    NODE_DISPERSION,
    Job,
    expected_failures,
    goodput,
    lemons,
    simulate_job,
    spare_pool,
    spares_for,
    system_mtbf,
)
from clusterlab.failures.counts import _counts
from clusterlab.failures.spares import _compound, _quantile
from clusterlab.power import WAITING_DRAW, mean_draw
from clusterlab.units import day, hour

FLEET = {"nodes": 2048, "node_mtbf": 6250 * hour, "repair": 2 * day}
RACKS = {1: 0.98, 8: 0.02}


@pytest.fixture(scope="module")
def lanl():
    """Each metric of Los Alamos' systems, by name."""
    found = {}
    for row in published("failures", run="LANL"):
        found.setdefault(row["metric"], {})[row["what"]] = row["low"]
    return found


# --- counts ----------------------------------------------------------------------------------------------------------


def test_the_dispersions_are_medians_of_published_logs(lanl):
    bursts, nodes = (list(lanl[f"dispersion of {what}"].values()) for what in ("30 days", "nodes"))
    assert len(bursts) == len(nodes) == 12
    assert np.median(bursts) == pytest.approx(BURSTS, abs=0.02)
    assert np.median(nodes) == pytest.approx(NODE_DISPERSION, abs=0.05)
    titan = [row["low"] for row in published("failures", run="Titan")]
    assert BURSTS < min(titan) < max(titan) < 0.5  # GPUs came in waves too


@pytest.mark.parametrize(("mean", "dispersion"), [(0.3, 0.5), (8, 0.2), (425, 0.2), (425, 0), (5000, 1.5)])
def test_the_range_of_a_count_is_that_of_drawn_fleets(mean, dispersion):
    random, many = np.random.default_rng(3), 200_000
    rate = random.gamma(1 / dispersion, dispersion, many) if dispersion else np.ones(many)
    drawn = random.poisson(mean * rate)
    law = expected_failures(mean, 1, 0.8, dispersion=dispersion)
    below, above = np.mean(drawn < law.low), np.mean(drawn > law.high)
    assert below <= 0.1 + 0.003
    assert above <= 0.1 + 0.003
    assert np.mean(drawn <= law.low) >= 0.1 - 0.003
    assert np.mean(drawn >= law.high) >= 0.1 - 0.003


def test_counts_are_negative_binomial_term_by_term():
    mean, dispersion = 12.0, 0.3
    n, chance = _counts(mean, dispersion)
    k = 1 / dispersion
    log = [math.lgamma(k + i) - math.lgamma(k) - math.lgamma(i + 1) for i in n]
    exact = np.exp(log + k * np.log(k / (k + mean)) + n * np.log(mean / (k + mean)))
    assert chance == pytest.approx(exact, rel=1e-9, abs=1e-15)
    assert chance @ (n - mean) ** 2 == pytest.approx(mean * (1 + dispersion * mean), rel=1e-6)


def test_llama_3_was_inside_poisson_s_range_and_months_that_differ_make_it_six_times_as_wide():
    run = 54 * day, system_mtbf(50_000 * hour, 16384)
    plain, wide = expected_failures(*run, dispersion=0), expected_failures(*run)
    assert (plain.low, plain.high) == (385, 466)
    assert (wide.low, wide.high) == (136, 872)
    assert 8 < (wide.high - wide.low) / (plain.high - plain.low) < 10


def test_a_job_of_1024_gpus_fails_hardly_more_a_gpu_than_one_of_eight():
    """Kokolis et al. 2025, figure 7: 47.7 days and 7.9 hours."""
    rows = published("failures", run="Meta RSC-1", metric="MTTF of a job")
    found = {row["gpus"]: row["low"] for row in rows if row["kind"] == "measured"}
    assert found == {8: pytest.approx(47.7 * day), 1024: pytest.approx(7.9 * hour)}
    exponent = math.log(found[8] / found[1024]) / math.log(1024 / 8)
    assert exponent == pytest.approx(1.0255, abs=1e-4)
    assert system_mtbf(8 * found[8], 1024, exponent=exponent, reference=8) == pytest.approx(found[1024])
    assert system_mtbf(1e8, 64, exponent=1.3, reference=64) == system_mtbf(1e8, 64)


# --- bad nodes -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("share", "mean", "dispersion"), [(0.05, 1.2, 0.9), (0.01, 0.2, 3.0), (0.3, 5.0, 0.5)])
def test_lemons_are_those_of_drawn_nodes_counted_twice(share, mean, dispersion):
    random, many = np.random.default_rng(5), 300_000
    rate = random.gamma(1 / dispersion, dispersion * mean, many)
    first, second = random.poisson(rate), random.poisson(rate)
    worst = np.lexsort((random.random(many), -first))[: round(share * many)]
    law = lemons(share, failures=mean, dispersion=dispersion)
    assert law.past == pytest.approx(first[worst].sum() / first.sum(), rel=0.03)
    assert law.future == pytest.approx(second[worst].sum() / second.sum(), rel=0.05)  # some 3,000 failures
    assert law.without == pytest.approx((1 - law.future) / (1 - share))


def test_nodes_that_are_alike_have_no_lemons():
    law = lemons(0.02, failures=0.5, dispersion=0)
    assert law.past > 0.08
    assert law.future == pytest.approx(0.02)


def test_lemons_of_los_alamos_come_out_within_a_factor_of_two():
    """One dispersion for all of them: the worst 5 % had 22 to 77 % of the failures, and 7 to 30 % of the later ones."""
    found = fleet.lemon_nodes()
    ratios = np.array([one.ratio for one in found])
    assert len(found) == 12
    assert ratios.min() > 0.5
    assert ratios.max() < 2.1
    assert np.median(ratios) == pytest.approx(1, abs=0.12)
    assert min(one.measured for one in found) > 0.06


# --- repairs and crowds ----------------------------------------------------------------------------------------------

REPAIRS = {
    "of one length": lambda _, n: np.ones(n),
    "exponential": lambda random, n: random.exponential(size=n),
    "lognormal": lambda random, n: random.lognormal(-(1.2**2) / 2, 1.2, n),
    "Pareto": lambda random, n: (random.pareto(2.5, n) + 1) * 0.6,
}


def in_repair(load, repair, *, machines, dispersion, moments=2500):
    """Machines in repair at separate moments: every failure of the long past drawn, kept if its repair is not over."""
    random = np.random.default_rng(7)
    sizes, shares = np.array(list(machines)), np.array(list(machines.values()))
    past = 60.0  # in mean repair times
    rate = random.gamma(1 / dispersion, dispersion, moments) if dispersion else np.ones(moments)
    events = random.poisson(load / (sizes @ shares) * past * rate)
    moment = np.repeat(np.arange(moments), events)
    lasts = REPAIRS[repair](random, moment.size) > past * random.random(moment.size)
    taken = random.choice(sizes, lasts.sum(), p=shares)
    return np.bincount(moment[lasts], weights=taken, minlength=moments)


@pytest.mark.parametrize("repair", REPAIRS)
@pytest.mark.parametrize(("machines", "dispersion"), [({1: 1.0}, 0), ({1: 0.9, 8: 0.1}, 0), ({1: 1.0}, 0.2)])
def test_the_number_in_repair_depends_on_the_mean_repair_alone(repair, machines, dispersion):
    law = spares_for(0.95, nodes=10, node_mtbf=1, repair=1, machines=machines, dispersion=dispersion)
    seen = in_repair(10, repair, machines=machines, dispersion=dispersion)
    assert seen.mean() == pytest.approx(law.load, abs=4 * law.deviation / seen.size**0.5)
    assert seen.std() == pytest.approx(law.deviation, rel=0.06)
    assert np.mean(seen > law.spares) <= 0.05 + 0.015
    assert np.mean(seen >= law.spares) >= 0.05 - 0.015


def test_a_compound_count_is_that_of_every_combination():
    """Two failures or fewer, by hand; and a load at which the chance of none is no float any more."""
    counted = _compound(0.2, 0.0, (1.0, 3.0), (0.75, 0.25))
    none, one, two = (math.exp(-0.2) * 0.2**k / math.factorial(k) for k in range(3))
    within = {0: none, 1: none + 0.75 * one, 2: none + 0.75 * one + 0.5625 * two}
    for most, chance in within.items():
        assert _quantile(counted, chance - 1e-4) <= most
    assert _quantile(counted, within[1] + 0.002) > 1
    large = spares_for(0.99, nodes=2000, node_mtbf=1, repair=1)
    assert large.spares == pytest.approx(2000 + 2.326 * 2000**0.5, abs=2)


def test_the_pool_for_poisson_is_too_small_for_a_fleet_of_crowds_and_bursts():
    """16 in repair on average: 26 spares were enough for 99 % of the time; racks want 32, bursts 40, both 43."""
    wider = [{}, {"machines": RACKS}, {"dispersion": BURSTS}, {"machines": RACKS, "dispersion": BURSTS}]
    pools = [spares_for(0.99, **FLEET, **more) for more in wider]
    assert [int(pool.spares) for pool in pools] == [26, 32, 40, 43]
    assert len({round(float(pool.load), 9) for pool in pools}) == 1
    assert spare_pool(26, **FLEET).none_left < 0.01  # the law of old agrees with the first
    short = in_repair(float(pools[0].load), "lognormal", machines=RACKS, dispersion=BURSTS) > pools[0].spares
    assert 0.08 < short.mean() < 0.14  # of the time, and not 1 %


def test_a_heavy_tail_makes_no_wait_longer_on_average_but_the_bad_runs_worse():
    """The pool of a job that waits is Erlang's loss system: of the repair time only the mean matters."""
    job = Job(interval=hour, write=0, mtbf=6 * hour, repair=10 * hour)
    law = spare_pool(2, nodes=8, node_mtbf=48 * hour, repair=10 * hour)
    short, long = (simulate_job(60 * day, job, spares=2, tail=tail, runs=300, seed=2) for tail in (None, 1.2))
    for runs in (short, long):
        assert runs.repair.sum() / runs.failures.sum() == pytest.approx(law.wait, rel=0.06)
    assert np.quantile(long.repair, 0.95) > 1.05 * np.quantile(short.repair, 0.95)


def test_a_tail_is_one_of_repairs_of_machines():
    job = Job(interval=hour, write=10, mtbf=6 * hour)
    with pytest.raises(ValueError, match="tail must be None without spares, got 2"):
        simulate_job(day, job, tail=2)
    with pytest.raises(ValueError, match="tail must be positive"):
        simulate_job(day, job, spares=2, tail=0)


def test_a_pool_refuses_shares_that_do_not_sum_to_one():
    with pytest.raises(ValueError, match=r"^the shares of machines must sum to 1, got 0\.9"):
        spares_for(0.99, **FLEET, machines={1: 0.5, 8: 0.4})


def test_pools_broadcast():
    together = spares_for(np.array([0.9, 0.99]), **FLEET, dispersion=np.array([0, 0.2]))
    alone = [spares_for(q, **FLEET, dispersion=d).spares for q, d in ((0.9, 0), (0.99, 0.2))]
    assert together.spares.tolist() == alone


# --- draws -----------------------------------------------------------------------------------------------------------


def test_a_server_that_waits_draws_half_of_what_it_draws_at_work():
    """MLPerf Training v4.0: five jobs on many servers, each beside the same job on one."""
    rows = fleet._named("draw")
    alone = {row["name"].split(",")[0]: row["power"] for row in rows if ", 1 server" in row["name"]}
    found = []
    for row in rows:
        if "speed" in row:
            lost, left = 1 - row["speed"], row["power"] / alone[row["name"].split(",")[0]]
            found.append(1 - (1 - left) / lost)
            assert left > 0.7
            assert 1 - left < 0.6 * lost  # throughput falls far more than power
    assert len(found) == 5
    assert np.median(found) == pytest.approx(WAITING_DRAW, abs=0.01)
    assert (min(found), max(found)) == pytest.approx((0.41, 0.64), abs=0.005)


def test_waiting_costs_energy_and_a_server_that_only_waits_does_nothing():
    drawn = mean_draw(10e3, utilisation=0.7, waiting=np.array([0, 0.5, 1.0]), waiting_draw=0.4)
    assert drawn.power == pytest.approx([7000, 4900, 2800])
    assert drawn.speed == pytest.approx([1, 0.5, 0])
    with pytest.raises(ValueError, match=r"waiting must be from 0 to 1, got 1\.5"):
        mean_draw(1, utilisation=1, waiting=1.5)


def test_servers_in_liquid_draw_a_fifth_more_than_their_accelerators_are_rated_at():
    rows = [row for row in fleet._named("draw") if "speed" not in row and row["name"][:4] not in ("idle", "serv")]
    shares = [row["power"] / (8 * {"H100 SXM": 700, "B200": 1000}[row["accelerator"]]) for row in rows]
    assert len(shares) == 11
    assert 1.19 < min(shares) < max(shares) < 1.30
    idle = {row["name"]: row["power"] for row in fleet._named("draw") if row["name"].startswith("idle")}
    assert [round(watts / 1e3, 1) for watts in idle.values()] == [2.2, 2.8, 2.4]


# --- intervals -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def kinds():
    return {kind: of() for kind, of in fleet.FLEET_KINDS.items()}


def test_the_stored_spreads_are_those_that_the_published_rows_teach(kinds):
    for kind, runs in kinds.items():
        ends = further_source_interval([run.ratio for run in runs], [run.source for run in runs])
        stored = catalogue.PREDICTION_INTERVALS[kind]
        assert (stored.low, stored.high) == pytest.approx(ends, rel=5e-3)


def test_accelerators_are_enough_to_test_coverage_and_the_others_are_not(kinds):
    runs = fleet.accelerator_draws()
    assert len(runs) >= MANY
    assert 0.75 <= fleet.fleet_coverage(runs) <= 0.85
    assert all(len(rows) < MANY for rows in kinds.values())


def test_an_interval_is_narrower_than_a_constant_s_or_the_constant_s_holds_too_few():
    """Of goodput see below: six rows test no coverage."""
    for of, narrower in ((fleet.lemon_nodes, True), (fleet.accelerator_draws, True), (fleet.server_draws, False)):
        runs = of()
        sources = [run.source for run in runs]
        law, constant = (
            further_source_interval([getattr(run, w) for run in runs], sources) for w in ("ratio", "constant")
        )
        assert (law[1] / law[0] < constant[1] / constant[0]) == narrower
        assert fleet.fleet_coverage(runs) >= 0.75
        assert narrower or fleet.fleet_coverage(runs, "constant") < 0.6


def test_a_published_goodput_without_a_count_of_accelerators_is_not_compared():
    runs = {run.source for restarts in fleet.RESTARTS for run in fleet.goodput_runs(restarts)}
    printed = {r["run"]: r["low"] for r in published("failures") if r["metric"] == "effective training time"}
    assert printed.keys() - runs == {"GLM-65B", "Gemini 1.0", "Kling-Omni", "Alibaba C4"}


# As printed in the tables of textbooks, with a decimal more.
STUDENT = {(0.9, 1): 3.0777, (0.9, 2): 1.8856, (0.9, 4): 1.5332, (0.9, 9): 1.3830, (0.9, 30): 1.3104}
STUDENT |= {(0.9, 120): 1.2886, (0.95, 10): 1.8125, (0.975, 5): 2.5706}


@pytest.mark.parametrize(("share", "freedom"), STUDENT)
def test_students_quantiles_are_those_of_the_table(share, freedom):
    assert student_quantile(share, freedom) == pytest.approx(STUDENT[share, freedom], abs=6e-5)


def test_an_interval_of_few_sources_holds_four_fifths_of_further_ones():
    random, inside, trials = np.random.default_rng(1), 0, 2000
    for _ in range(trials):
        drawn = np.exp(random.normal(0.3, 0.5, 6))
        low, high = further_source_interval(drawn[:5], list("abcde"))
        inside += low <= drawn[5] <= high
    assert inside / trials == pytest.approx(0.8, abs=0.03)
    with pytest.raises(ValueError, match="sources must be at least two, got 1"):
        further_source_interval([1.0, 1.1], ["a", "a"])


def test_automatic_restarts_are_told_from_those_by_hand_and_few_rows_say_so():
    """Six sources that restart by themselves, three that people restart: Student's t of each, and what it holds."""
    soft, hand = (fleet.goodput_runs(how) for how in fleet.RESTARTS)
    assert (len(soft), len({run.source for run in soft})) == (6, 6)
    assert (len(hand), len({run.source for run in hand})) == (3, 3)
    assert not {run.name for run in soft} & {run.name for run in hand}
    # One of six is worth 17 points: 80 % is between four and five.
    assert round(6 * fleet.fleet_coverage(soft)) == 4
    assert round(3 * fleet.fleet_coverage(hand)) == 3
    law, constant = (
        further_source_interval([getattr(run, of) for run in soft], [run.source for run in soft])
        for of in ("ratio", "constant")
    )
    assert law[1] / law[0] < constant[1] / constant[0] / 3
    with pytest.raises(ValueError, match="restarts must be one of automatic, by hand; got 'both'"):
        fleet.goodput_runs("both")


def test_the_wait_for_people_is_the_mean_of_three_fleets_and_makes_their_plans_keep_what_was_kept():
    waits = fleet.waits_for_people()
    assert math.exp(np.mean(np.log(list(waits.values())))) == pytest.approx(BY_HAND, rel=0.03)
    kept = {row["run"]: row["low"] for row in published("failures") if row["restarts"] == "by hand" and row["gpus"]}
    hlat = fleet.planned_goodput(4096, by_hand=waits["AWS HLAT"]).useful
    assert hlat == pytest.approx(kept["AWS HLAT"], rel=1e-9)
    ends = further_source_interval([wait / BY_HAND for wait in waits.values()], list(waits))
    stored = catalogue.PREDICTION_INTERVALS["goodput, by hand"]
    assert (stored.low, stored.high) == pytest.approx(ends, rel=5e-3)


def test_a_goodput_and_a_draw_carry_their_intervals(kinds):
    law = goodput(Job(interval=1100, write=60, mtbf=3 * hour, restart=300))
    spread = catalogue.PREDICTION_INTERVALS["goodput"]
    odds = (1 - law.useful) / law.useful
    assert (1 - law.low) / law.low == pytest.approx(odds * spread.high)
    assert (1 - law.high) / law.high == pytest.approx(odds * spread.low)
    assert 0 < law.low < law.useful < law.high < 1
    drawn = mean_draw(1000, utilisation=0.8)
    assert (drawn.low, drawn.high) == pytest.approx(
        (800 * catalogue.PREDICTION_INTERVALS["power"].low, 800 * catalogue.PREDICTION_INTERVALS["power"].high)
    )
    assert power.Draw(1.0, 1.0).low < 1


def test_no_row_of_an_interval_comes_from_a_publication_that_is_kept_apart(kinds):
    for run in [run for runs in kinds.values() for run in runs]:
        assert not any(name in run.source for name in ("Latif", "Newkirk", "Fernandez", "Delta", "ByteRobust"))
