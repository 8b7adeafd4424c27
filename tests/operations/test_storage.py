"""Storage: published file systems and results, brute force, a reader played in simpy, conservation, refusals."""

import itertools

import numpy as np
import pytest
import simpy
from hypothesis import given
from hypothesis import strategies as st

from clusterlab.evidence import published
from clusterlab.failures import checkpoint, checkpoint_size
from clusterlab.interconnect import exposed_time
from clusterlab.operations import (
    cache_hits,
    fair_shares,
    feed,
    file_system,
    reading_rate,
    servers_needed,
    storage,
    time_to_starve,
)
from clusterlab.power import holdover
from clusterlab.units import GB, PB, TB, TiB
from laws import assert_equals_a_loop, q
from refusals import unreached

DRIVE = {"drive_read": 7 * GB, "drive_write": 4 * GB, "drive_capacity": 15 * TB}
PARTS = {"drives": 16, "network": 50 * GB, **DRIVE}
amounts, shares = st.floats(1e-3, 1e3), st.floats(0.01, 1)


def stated(run, what):
    """A published number of the table."""
    (row,) = published("operations", run=run, what=what)
    return row["low"]


# --- published -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("run", "busy"),
    [
        ("3D U-Net, DDN AI400X2T", 0.908),
        ("ResNet-50, DDN AI400X2T", 0.921),
        ("CosmoFlow, DDN AI400X2T", 0.687),
        ("3D U-Net, HPE Cray C500", 0.902),
        ("ResNet-50, HPE Cray C500", 0.913),
    ],
)
def test_mlperf_storage_reads_what_its_accelerators_ask_for_at_the_utilisation_that_it_demands(run, busy):
    """A submitter adds accelerators until they are just as busy as the rules ask: 90 %, or 70 %."""
    workload = run.split(",")[0]
    per_step = {what: stated(workload, what) for what in ("samples", "sample bytes", "step time")}
    demand = stated(run, "accelerators") * reading_rate(*per_step.values())
    measured = stated(run, "samples rate") * per_step["sample bytes"]
    assert measured / demand == pytest.approx(busy, abs=5e-4)
    assert measured == pytest.approx(demand * stated(workload, "utilisation"), rel=0.025)


def test_two_workloads_find_the_same_limit_of_one_appliance():
    """99 and 92 GiB/s of scans and of photographs; the small files of CosmoFlow find another, at a third of it."""
    rates = {
        name: stated(f"{name}, DDN AI400X2T", "samples rate") * stated(name, "sample bytes")
        for name in ("3D U-Net", "ResNet-50", "CosmoFlow")
    }
    assert rates["3D U-Net"] == pytest.approx(103.8 * GB, rel=1e-3)
    assert rates["ResNet-50"] == pytest.approx(rates["3D U-Net"], rel=0.08)
    assert rates["CosmoFlow"] < 0.35 * rates["3D U-Net"]


def test_3fs_is_bound_by_its_servers_ports():
    """6.6 TiB/s is 81 % of them, with traffic of training jobs on top that is not counted."""
    of = {what: stated("3FS", what) for what in ("drives", "network", "drive capacity")}
    clients = stated("3FS", "clients") * stated("3FS", "client network")
    found = file_system(
        stated("3FS", "servers"),
        drives=of["drives"],
        network=of["network"],
        clients=clients,
        **DRIVE | {"drive_capacity": of["drive capacity"]},
    )
    assert min(found.reads, key=found.reads.get) == "network"
    assert found.read == pytest.approx(9 * TB)
    assert stated("3FS", "read") / found.read == pytest.approx(0.806, abs=1e-3)
    # Each drive reads 2.5 GB/s of what was measured: any NVMe drive does.
    assert stated("3FS", "read") / (180 * 16) == pytest.approx(2.52 * GB, rel=1e-2)


def test_llama_3_writes_its_checkpoint_in_three_seconds():
    size = checkpoint_size(405e9)
    assert checkpoint(size, storage_bandwidth=stated("Llama 3", "sustained")).stall == pytest.approx(2.84, abs=5e-3)
    assert checkpoint(size, storage_bandwidth=stated("Llama 3", "peak")).stall == pytest.approx(0.81, abs=5e-3)
    each = stated("Llama 3", "capacity") / stated("Llama 3", "servers")
    assert each == pytest.approx(32 * TB)
    assert stated("Llama 3", "capacity") / size > 40_000


def test_the_guidelines_plan_for_all_nodes_less_than_for_each():
    """A good SuperPOD gives a node 4 GB/s, and 128 nodes together 60: not all read at once."""
    for level, of_all in (("good", 0.117), ("better", 0.156), ("best", 0.098)):
        name = f"SuperPOD H100 {level}"
        read, node, write = (stated(name, what) for what in ("read", "node read", "write"))
        assert read / (128 * node) == pytest.approx(of_all, abs=1e-3)
        assert write == read / 2


# --- what training reads ---------------------------------------------------------------------------------------------


def test_a_rate_is_counted_sample_by_sample():
    times = np.cumsum(np.full(60, 0.25))
    read = sum(7 * 100 for _ in times)
    assert reading_rate(7, 100, 0.25) == pytest.approx(read / times[-1])


@pytest.mark.parametrize(("cache", "epochs"), [(3, 1), (3, 4), (10, 5), (20, 3), (0, 2)])
def test_hits_are_those_of_a_cache_that_keeps_what_it_has(cache, epochs):
    random, kept, hits = np.random.default_rng(1), set(), 0
    for _ in range(epochs):
        for sample in random.permutation(10):
            hits += sample in kept
            if len(kept) < cache:
                kept.add(sample)
    assert hits / (10 * epochs) == pytest.approx(cache_hits(cache, 10, epochs=epochs))


def test_a_cache_of_what_was_used_last_keeps_nothing_of_a_longer_scan():
    kept, hits = [], 0
    for sample in list(range(10)) * 5:
        hits += sample in kept
        kept = [*[s for s in kept if s != sample], sample][-9:]
    assert hits == 0
    assert cache_hits(9, 10, epochs=5) > 0.7


# --- a file system ---------------------------------------------------------------------------------------------------


@given(st.integers(1, 100), st.integers(1, 30), st.floats(1, 4), amounts, amounts, amounts)
def test_a_file_system_gives_the_least_of_its_parts_and_writes_no_faster_than_it_reads(n, k, copies, read, write, port):
    drive = {"drive_read": read, "drive_write": min(read, write), "drive_capacity": 1.0}
    found = file_system(n, drives=k, network=port, copies=copies, **drive)
    assert found.read == pytest.approx(min(n * k * read, n * port))
    assert found.write <= found.read * (1 + 1e-12)
    assert found.write * copies == pytest.approx(min(n * k * min(read, write), n * port))
    assert found.capacity * copies == pytest.approx(n * k)
    twice = file_system(2 * n, drives=k, network=port, copies=copies, **drive)
    assert twice.read == pytest.approx(2 * found.read)
    slower = file_system(n, drives=k, network=port, copies=copies, clients=found.read / 3, **drive)
    assert slower.read == pytest.approx(found.read / 3)


def test_every_copy_goes_through_a_port():
    """Chains of three servers, block by block: what comes into each server's port, and to its drives."""
    servers, copies, blocks = 6, 3, 6 * 500
    into = np.zeros(servers)
    for block in range(blocks):
        into[[(block + i) % servers for i in range(copies)]] += 1
    found = file_system(servers, drives=2, network=10.0, copies=copies, drive_read=90, drive_write=90, drive_capacity=1)
    seconds = into.max() / 10.0  # until the busiest port has taken its blocks
    assert blocks / seconds == pytest.approx(found.write)


@given(amounts, amounts, amounts)
def test_the_servers_needed_suffice_and_one_fewer_does_not(read, write, capacity):
    one = file_system(1, drives=2, network=3.0, copies=1.5, drive_read=2, drive_write=1.7, drive_capacity=8)
    n = servers_needed(one, read=read, write=write, capacity=capacity)
    for servers, enough in ((n, True), (n - 1, False)):
        if servers:
            has = file_system(
                servers, drives=2, network=3.0, copies=1.5, drive_read=2, drive_write=1.7, drive_capacity=8
            )
            gives = [has.read >= read, has.write >= write, has.capacity >= capacity]
            assert all(gives) == enough
    seven = file_system(
        7, drives=2, network=3.0, copies=1.5, drive_read=2, drive_write=1.7, drive_capacity=8, clients=1
    )
    assert servers_needed(seven, read=read, write=write, capacity=capacity) == n


def test_what_n_servers_hold_asks_for_n_servers():
    """Whatever the last digit of a floating-point number says."""
    one = file_system(1, copies=1.5, **PARTS | {"drive_capacity": 14 * TiB})
    n = np.arange(1, 400)
    assert np.array_equal(servers_needed(one, capacity=n * one.capacity), n)


def test_a_file_system_shows_what_it_reads_writes_and_holds():
    text = repr(file_system(180, copies=3, clients=12.5e12, **PARTS))
    assert [line.split()[0] for line in text.splitlines()[2:]] == ["drives", "network", "clients", "all", "holds"]
    assert "14.4 PB" in text


# --- sharing ---------------------------------------------------------------------------------------------------------


@given(st.lists(st.floats(0, 100), min_size=1, max_size=8), st.floats(0.1, 300))
def test_fair_shares_use_all_there_is_and_no_flow_gets_less_than_one_that_wants_as_much(demands, capacity):
    got = fair_shares(demands, capacity)
    assert np.all(got <= np.array(demands) + 1e-12)
    assert got.sum() == pytest.approx(min(sum(demands), capacity), abs=1e-9)
    level = got.max()
    short = got < np.array(demands) - 1e-9
    assert got[short] == pytest.approx(np.full(short.sum(), level))


def test_fair_shares_are_those_of_packets_served_in_turn():
    """Round robin, packet by packet, for a second of which each flow has its demand to send."""
    demands, capacity = [100, 4000, 9000, 2500], 10_000
    sent = [0] * 4
    for flow in itertools.cycle(range(4)):
        if sum(sent) == capacity:
            break
        sent[flow] += sent[flow] < demands[flow]
    assert fair_shares(demands, capacity) == pytest.approx(sent, abs=2)


# --- between the two -------------------------------------------------------------------------------------------------


@given(amounts, amounts, shares)
def test_a_buffer_lasts_until_what_is_missing_adds_up_to_it(held, demand, share):
    lasts = time_to_starve(held, demand=demand, supply=share * demand / 2)
    assert lasts * (demand - share * demand / 2) == pytest.approx(held)
    assert time_to_starve(held, demand=demand, supply=demand) == np.inf
    assert time_to_starve(held, demand=demand, supply=0) == pytest.approx(holdover(held, demand))


def played(reads, compute, prefetch):
    """The same reader and trainer as processes of simpy: when each step starts."""
    world, starts = simpy.Environment(), []
    places = simpy.Container(world, capacity=prefetch, init=prefetch)
    ready = simpy.Store(world)

    def reader():
        for time in reads:
            yield places.get(1)
            yield world.timeout(time)
            yield ready.put(time)

    def trainer():
        for _ in reads:
            yield ready.get()
            starts.append(world.now)
            places.put(1)
            yield world.timeout(compute)

    world.process(reader())
    world.process(trainer())
    world.run()
    return starts


@given(st.lists(st.floats(0, 4), min_size=1, max_size=30), st.floats(0.1, 3), st.integers(1, 5))
def test_feeding_is_what_a_reader_and_a_trainer_play(reads, compute, prefetch):
    found = feed(reads, compute, prefetch=prefetch)
    assert found.step_start == pytest.approx(played(reads, compute, prefetch))
    assert 0 <= found.starved < 1
    assert found.compute == pytest.approx(len(reads) * compute)
    assert np.all(found.step_start >= found.read_end)
    assert feed(reads, compute, prefetch=prefetch + 1).time <= found.time + 1e-9


@given(st.lists(st.floats(0, 4), min_size=2, max_size=20), st.floats(0.1, 3))
def test_without_prefetch_nothing_overlaps_and_with_all_of_it_nothing_is_read_late(reads, compute):
    serial = feed(reads, compute, prefetch=0)
    assert serial.time == pytest.approx(sum(reads) + len(reads) * compute)
    assert serial.starved == pytest.approx(sum(reads) / serial.time)
    ahead = feed(reads, compute, prefetch=len(reads))
    assert ahead.read_end == pytest.approx(np.cumsum(reads))


def test_even_reads_cost_what_is_not_hidden_behind_the_step():
    """In the long run, prefetch of one is the overlap of the collectives: exposed_time."""
    for read in (0.5, 1.0, 1.7):
        found = feed(np.full(2000, read), 1.0, prefetch=1)
        assert found.time / 2000 == pytest.approx(1 + exposed_time(read, 1.0), rel=1e-3)


def test_a_buffer_of_k_steps_rides_out_k_steps_without_storage():
    reads = np.full(60, 0.1)
    for outage, waits in ((7.9, 0), (10.9, 3)):
        reads[30] = outage
        found = feed(reads, 1.0, prefetch=8)
        late = found.step_start[-1] - (found.step_start[0] + 59 * 1.0)
        assert late == pytest.approx(waits, abs=0.2)


# --- arrays and refusals ---------------------------------------------------------------------------------------------


def test_arrays_are_loops():
    n, one = np.array([1, 10, 200]), file_system(1, **PARTS)
    assert_equals_a_loop(servers_needed(one, capacity=n * PB), [servers_needed(one, capacity=i * PB) for i in n])
    flows = np.array([[1.0, 5, 9], [0, 0, 2]])
    assert_equals_a_loop(fair_shares(flows, 8), [fair_shares(row, 8) for row in flows])
    reads = np.array([[1.0, 0.2, 3], [0, 0, 2]])
    assert_equals_a_loop(
        feed(reads, [1, 2], prefetch=1).time, [feed(r, c, prefetch=1).time for r, c in zip(reads, [1, 2], strict=True)]
    )
    assert feed([1.0, 2.0], [1, 2, 3], prefetch=1).starved.shape == (3,)


MISTAKES = {
    "demands must be a list of flows, got 3": lambda: fair_shares(3, 5),
    "reads must be a list, a time for each batch, got 3": lambda: feed(3, 1, prefetch=1),
    "prefetch must be a whole number of at least 0, got -1": lambda: feed([3], 1, prefetch=-1),
}
CHECKED = {
    "read must be zero or more and finite, got -1": lambda: servers_needed(file_system(1, **PARTS), read=-1),
    "capacity must be positive and finite, got 0": lambda: fair_shares([1], 0),
    "compute must be positive and finite, got 0": lambda: feed([1], 0, prefetch=1),
    "reads must be zero or more and finite, got -1": lambda: feed([-1], 1, prefetch=1),
    "got True": lambda: feed([1], 1, prefetch=True),
}


def test_mistakes_are_refused_by_name():
    assert unreached(storage, MISTAKES) == set()
    for message, mistake in CHECKED.items():
        with pytest.raises(ValueError, match=message):
            mistake()


def test_3fs_holds_what_its_drives_hold():
    parts = PARTS | {"drive_capacity": 14 * TiB}
    assert file_system(180, **parts).capacity == pytest.approx(180 * 16 * 14 * TiB)


def test_fair_shares_of_bytes_a_second_are_bytes_a_second():
    rate = q("octet/s")
    assert fair_shares(rate, rate[0]).dimensionality == rate.dimensionality
