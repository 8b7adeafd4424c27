"""Contention: a witness that fills link by link, certificates of fairness, today's laws from flows, publications."""

import itertools
import math
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clusterlab import interconnect
from clusterlab.catalogue import machine as machine_of
from clusterlab.contention import (
    NONE,
    PeriodicJob,
    Routes,
    Stage,
    all_to_all_traffic,
    blocked_rates,
    buffer_time,
    busy_share,
    clos,
    collision_chance,
    dragonfly,
    drain_time,
    ecn_balance,
    exchange_time,
    finish_times,
    flapping_slowdown,
    fullest_link,
    hashed,
    hierarchical_traffic,
    interleaved_period,
    joined,
    least_loaded,
    link_load,
    max_min_rates,
    most_from_shifting,
    pinned,
    ring_traffic,
    shared_period,
    simulate_jobs,
    sprayed,
    torus_links,
    tree_traffic,
)
from clusterlab.parallelism.rates import reached
from contention_witness import as_mappings, fill, run

some = settings(max_examples=25)
NDR = 50e9
H100 = machine_of("H100 SXM")


@st.composite
def shared(draw, most=9):
    """Links with rates, and flows that cross some of them, whole or in parts, with weights."""
    many = draw(st.integers(1, 6))
    capacity = np.array(draw(st.lists(st.floats(1, 100), min_size=many, max_size=many)))
    flows = draw(st.integers(1, most))
    links = [draw(st.permutations(range(many)))[: draw(st.integers(1, min(many, 4)))] for _ in range(flows)]
    wide = max(map(len, links))
    table = np.array([one + [NONE] * (wide - len(one)) for one in links])
    share = None
    if draw(st.booleans()):
        share = np.array(draw(st.lists(st.floats(0.1, 1), min_size=table.size, max_size=table.size))).reshape(
            table.shape
        )
    weight = np.array(draw(st.lists(st.floats(0.2, 5), min_size=flows, max_size=flows)))
    return capacity, Routes(table, share), weight


def all_pairs(fabric):
    """Both ends of a flow from every host to every other."""
    return np.array(list(itertools.permutations(range(fabric.hosts), 2))).T


# --- Max-min fairness ------------------------------------------------------------------------------------------------


@given(shared())
@some
def test_rates_are_those_of_filling_link_by_link(case):
    capacity, routes, weight = case
    rates = max_min_rates(capacity, routes, weight=weight)
    np.testing.assert_allclose(rates, fill(capacity, as_mappings(routes), weight), rtol=1e-7)


@given(shared())
@some
def test_no_link_carries_more_than_it_can_and_every_flow_has_a_bottleneck(case):
    """The certificate of max-min fairness: a full link on which no other flow has more for its weight."""
    capacity, routes, weight = case
    rates = max_min_rates(capacity, routes, weight=weight)
    load = link_load(capacity, routes, rates)
    assert np.all(load <= capacity * (1 + 1e-7))
    full, level = load >= capacity * (1 - 1e-7), rates / weight
    for flow, links in enumerate(routes.links):
        used = links[links != NONE]
        most = [level[(routes.links == link).any(axis=1)].max() for link in used]
        assert any(full[link] and level[flow] >= top * (1 - 1e-6) for link, top in zip(used, most, strict=True))


@given(shared(), st.integers(0, 5))
@some
def test_doubling_every_link_doubles_every_rate_and_a_lone_flow_has_its_narrowest_link(case, at):
    capacity, routes, weight = case
    np.testing.assert_allclose(
        max_min_rates(2 * capacity, routes, weight=3 * weight), 2 * max_min_rates(capacity, routes, weight=weight)
    )
    one = Routes(routes.links[:1])
    assert max_min_rates(capacity, one)[0] == capacity[one.links[one.links != NONE]].min()


@given(shared())
@some
def test_a_higher_priority_does_not_see_the_others(case):
    capacity, routes, weight = case
    order = np.arange(len(weight)) % 2
    first = Routes(routes.links[order == 1], None if routes.share is None else routes.share[order == 1])
    rates = max_min_rates(capacity, routes, weight=weight, priority=order)
    if len(first.links):
        np.testing.assert_allclose(rates[order == 1], max_min_rates(capacity, first, weight=weight[order == 1]))
    assert np.all(link_load(capacity, routes, rates) <= capacity * (1 + 1e-7))


def test_draws_are_fabrics_of_their_own():
    fabric = clos(4, 4, 4, bandwidth=NDR)
    routes = hashed(fabric, range(16), np.roll(range(16), 5), draws=7)
    together = max_min_rates(fabric.capacity, routes)
    for draw, rates in zip(routes.links, together, strict=True):
        np.testing.assert_array_equal(max_min_rates(fabric.capacity, Routes(draw)), rates)
    ends = finish_times(fabric.capacity, routes, np.arange(1, 17) * 1e9)
    alone = [finish_times(fabric.capacity, Routes(draw), np.arange(1, 17) * 1e9) for draw in routes.links]
    np.testing.assert_allclose(ends, alone, rtol=1e-12)


# --- Flows that end --------------------------------------------------------------------------------------------------


@given(shared(most=6), st.data())
@some
def test_flows_end_when_an_event_driven_simulation_says(case, data):
    capacity, routes, weight = case
    numbers = st.lists(st.floats(0.5, 50), min_size=len(weight), max_size=len(weight))
    size, start = (np.array(data.draw(numbers)) for _ in range(2))
    ends = finish_times(capacity, routes, size, start=start, weight=weight)
    np.testing.assert_allclose(ends, run(capacity, as_mappings(routes), size, start, weight), rtol=1e-6)
    assert np.all(ends > start)
    assert ends.max() >= drain_time(capacity, routes, size) * (1 - 1e-9)


@given(shared())
@some
def test_flows_of_one_size_end_when_the_fullest_link_is_done(case):
    capacity, routes, _ = case
    whole = Routes(routes.links)
    ends = finish_times(capacity, whole, 7.0)
    assert ends.max() == pytest.approx(drain_time(capacity, whole, 7.0), rel=1e-9)
    assert ends.max() == pytest.approx(7.0 / max_min_rates(capacity, whole).min(), rel=1e-9)


def test_a_low_priority_waits_for_the_high_one():
    ends = finish_times([10], Routes(np.array([[0], [0]])), [20, 30], priority=[1, 0])
    assert ends.tolist() == [2.0, 5.0]


# --- Fabrics ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("hosts", "radix", "over"), [(64, 16, 1), (64, 12, 2), (144, 32, 3)])
def test_a_clos_has_the_cables_of_the_fat_tree(hosts, radix, over):
    tree = interconnect.fat_tree(hosts, radix, tiers=2, oversubscription=over)
    up = int(tree.spine_cables // tree.leaves)
    fabric = clos(hosts // tree.leaves, tree.leaves, up, bandwidth=NDR)
    assert len(fabric.capacity) == 2 * (tree.host_cables + tree.spine_cables)
    # Half of the hosts send to the other half, spread evenly: the fat tree's bisection, a link from each.
    half = hosts // 2
    rates = max_min_rates(fabric.capacity, sprayed(fabric, range(half), range(half, hosts)))
    assert rates.sum() == pytest.approx(interconnect.bisection_bandwidth(tree.bisection_links, NDR), rel=1e-9)


def test_the_oversubscription_of_leaf_and_core_is_path_bandwidths():
    """All send as far as they can, spread evenly: 4 hosts on 2 uplinks, and 7 leaves on one core link of each spine."""
    fabric = clos(4, 7, 2, bandwidth=NDR, pods=2, cores=1)
    leaf = max_min_rates(fabric.capacity, sprayed(fabric, range(28), np.roll(range(28), -4)))
    core = max_min_rates(fabric.capacity, sprayed(fabric, range(28), range(28, 56)))
    rates = {"memory": 3e12, "scale_up": 450e9, "network": NDR}
    law = interconnect.path_bandwidth([3, 4], **rates, leaf_oversubscription=2, core_oversubscription=7)
    assert (leaf.min(), core.min()) == pytest.approx(tuple(law))


@pytest.mark.parametrize(
    "fabric",
    [
        clos(2, 4, 3, bandwidth=NDR),
        clos(2, 2, 2, bandwidth=NDR, pods=2, cores=2),
        clos(4, 4, 2, bandwidth=NDR, rails=4, domain=4, scale_up=9 * NDR),
        dragonfly(3, 4, bandwidth=NDR, global_bandwidth=2 * NDR),
        torus_links((3, 4), bandwidth=NDR),
    ],
    ids=["leaf-spine", "three tiers", "rails", "dragonfly", "torus"],
)
def test_a_way_is_a_chain_of_links_and_each_link_has_one_place(fabric):
    """A link's number names one wire: the first is the sender's, the last the receiver's, whatever the way."""
    source, target = all_pairs(fabric)
    for way in range(fabric.ways):
        links = fabric.route(source, target, way)
        assert links.max() < len(fabric.capacity)
        for at in range(0, len(source), 7):
            used = links[at][links[at] != NONE]
            assert len(set(used.tolist())) == len(used) > 0
    every = fabric.route(source[:, None], target[:, None], np.arange(fabric.ways))
    unused = set(range(len(fabric.capacity))) - set(every.ravel().tolist())
    # Only links of a group to itself, and ports inside the domain, are never crossed.
    assert len(unused) <= len(fabric.capacity) // 3


def test_neighbours_of_a_rail_share_the_leaf_that_path_tier_says():
    fabric = clos(4, 8, 4, bandwidth=NDR, rails=4, domain=4, scale_up=9 * NDR)
    source, target = all_pairs(fabric)
    tier = interconnect.path_tier(source, target, domain=4, hosts_per_leaf=4, rails=4)
    crossed = (fabric.route(source, target) != NONE).sum(axis=1)
    assert crossed.tolist() == np.choose(tier, [0, 2, 2, 4, 0]).tolist()


def test_a_torus_takes_as_many_hops_as_its_law_says():
    fabric, law = torus_links((4, 5, 3), bandwidth=NDR), interconnect.torus((4, 5, 3))
    hops = (fabric.route(*all_pairs(fabric)) != NONE).sum(axis=1)
    assert (hops.mean(), hops.max()) == (pytest.approx(law.average_hops), law.diameter)


def test_a_detour_through_another_group_relieves_the_only_link_between_two():
    fabric = dragonfly(8, 5, bandwidth=NDR, global_bandwidth=2 * NDR)
    source, target = np.arange(8), np.arange(8, 16)
    direct = max_min_rates(fabric.capacity, Routes(fabric.route(source, target)))
    around = max_min_rates(fabric.capacity, least_loaded(fabric, source, target))
    assert (direct.sum(), around.sum()) == (2 * NDR, pytest.approx(8 * NDR))


def test_a_failed_link_is_taken_by_nobody_and_costs_a_leaf_its_share():
    fabric = clos(4, 4, 4, bandwidth=NDR)
    broken = fabric.without(fabric.up[1, 2])
    source, target = np.arange(4, 8), np.arange(8, 12)
    for routes in (
        hashed(broken, source, target, draws=50),
        sprayed(broken, source, target),
        least_loaded(broken, source, target),
    ):
        assert link_load(broken.capacity, routes)[..., fabric.up[1, 2]].max() == 0
    rates = max_min_rates(broken.capacity, sprayed(broken, source, target))
    assert rates == pytest.approx(np.full(4, NDR * 3 / 4))
    with pytest.raises(ValueError, match=r"links must not be failed ones, got 38"):
        max_min_rates(broken.capacity, pinned(broken, source, target))
    cut_off = fabric.without(fabric.up[1])
    with pytest.raises(ValueError, match="a way must be left from 4 to 8"):
        hashed(cut_off, source, target)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: clos(8, 8, 8, bandwidth=0), "bandwidth must be positive"),
        (lambda: clos(8, 8, 2.5, bandwidth=1), "spines must be a whole number"),
        (lambda: clos(8, 8, 8, bandwidth=1, pods=2), "cores must join 2 pods"),
        (lambda: clos(8, 9, 8, bandwidth=1, rails=8), "rails must divide 9, got 8"),
        (lambda: clos(8, 8, 8, bandwidth=1, domain=8), "scale_up must be given"),
        (lambda: torus_links((2, 3), bandwidth=1), "sizes must be at least 3"),
        (lambda: clos(8, 8, 8, bandwidth=1).route(0, 64), "target must be whole numbers from 0 to 63, got 64"),
        (lambda: clos(8, 8, 8, bandwidth=1).route(3, 3), "target must be another host than source, got 3"),
        (lambda: clos(8, 8, None, bandwidth=1, rails=8).route(0, 9), "a fabric without spines"),
        (lambda: max_min_rates([1, 1], Routes(np.array([[0, 2]]))), "links must be whole numbers from 0 to 1"),
        (lambda: max_min_rates([1, 1], Routes(np.array([[-1, -1]]))), "at least one for each flow"),
        (lambda: max_min_rates([[1]], Routes(np.array([[0]]))), "capacity must have one axis"),
        (lambda: max_min_rates([1], Routes(np.array([[0]])), weight=0), "weight must be positive"),
        (lambda: max_min_rates([1], Routes(np.array([[0]])), weight=[1, 2, 3]), "weight must have a number for each"),
        (lambda: finish_times([1], Routes(np.array([[0]])), -1), "size must be zero or more"),
        (lambda: blocked_rates([1], Routes(np.array([[0]]), np.array([[1.0]]))), "routes must be whole"),
        (lambda: ring_traffic(1, [0, 0]), "ranks must be different hosts"),
        (lambda: hierarchical_traffic(1, range(6), node_size=4), "node_size must divide the 6 ranks, got 4"),
        (lambda: PeriodicJob(0, 0, Routes(np.array([[0]]))), "compute and size must not both be 0"),
    ],
)
def test_nonsense_is_refused_by_name(wrong, message):
    with pytest.raises(ValueError, match=message):
        wrong()


# --- Routing ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("flows", "links"), [(8, 8), (16, 4), (3, 40)])
def test_balls_in_bins_are_what_dealing_them_out_gives(flows, links):
    dealt = np.random.default_rng(1).integers(0, links, (20_000, flows))
    counts = (dealt[..., None] == np.arange(links)).sum(axis=1)
    close = {"abs": 0.03}
    assert counts.max(axis=1).mean() == pytest.approx(fullest_link(flows, links), **close)
    assert (counts > 0).mean() == pytest.approx(busy_share(flows, links), **close)
    assert (counts.max(axis=1) > 1).mean() == pytest.approx(collision_chance(flows, links), **close)


def test_balls_in_bins_by_hand():
    """Two flows on two links: two of four ways meet. Three: all three on one in 2 of 8 ways, else two and one."""
    assert (fullest_link(2, 2), collision_chance(2, 2), busy_share(2, 2)) == pytest.approx((1.5, 0.5, 0.75))
    assert fullest_link(3, 2) == pytest.approx((2 * 3 + 6 * 2) / 8)
    assert fullest_link([1, 5], [9, 1]).tolist() == pytest.approx([1, 5])


@pytest.mark.parametrize(("flows", "links"), [(5, 3), (4, 4), (7, 2), (2, 9)])
def test_the_fullest_link_is_the_mean_over_every_way_to_deal(flows, links):
    fullest = [max(map(deal.count, deal)) for deal in itertools.product(range(links), repeat=flows)]
    assert fullest_link(flows, links) == pytest.approx(np.mean(fullest), rel=1e-12)


def test_hashed_flows_of_a_leaf_are_balls_in_bins():
    fabric = clos(8, 8, 8, bandwidth=NDR)
    routes = hashed(fabric, range(8), np.arange(8) * 8 % 56 + 8, draws=4000, seed=2)
    load = link_load(fabric.capacity, routes)[:, fabric.up[0]]
    assert load.max(axis=1).mean() == pytest.approx(fullest_link(8, 8), abs=0.05)


def test_more_queue_pairs_come_closer_to_spraying():
    fabric = clos(16, 4, 16, bandwidth=NDR)
    source = np.arange(16)
    slowest = [
        max_min_rates(fabric.capacity, hashed(fabric, source, source + 16, draws=100, queue_pairs=n)).min(axis=1).mean()
        for n in (1, 4, 16, 64)
    ]
    best = max_min_rates(fabric.capacity, sprayed(fabric, source, source + 16)).min()
    assert slowest == sorted(slowest)
    assert slowest[-1] < best == NDR


def test_flowlets_even_luck_out_but_not_what_collides_on_average():
    """A flow that is hashed again at every pause gets the mean of its draws: better than to keep one, not spraying."""
    fabric = clos(8, 4, 8, bandwidth=NDR)
    source, target = np.arange(32), np.roll(np.arange(32), -8)
    draws = max_min_rates(fabric.capacity, hashed(fabric, source, target, draws=200))
    kept, flowlets = draws.min(axis=1).mean(), draws.mean(axis=0).min()
    assert 1.5 * kept < flowlets < 0.75 * max_min_rates(fabric.capacity, sprayed(fabric, source, target)).min()


def test_chosen_ways_are_never_worse_than_drawn_ones_and_pinned_ones_suit_shifts():
    fabric = clos(8, 8, 8, bandwidth=NDR)
    source = np.arange(64)
    for shift in (8, 11, 29):
        target = np.roll(source, -shift)
        drawn = drain_time(fabric.capacity, hashed(fabric, source, target, draws=20), 1e9)
        assert drain_time(fabric.capacity, pinned(fabric, source, target), 1e9) == 1e9 / NDR
        assert np.all(drain_time(fabric.capacity, least_loaded(fabric, source, target), 1e9) <= drawn)


def test_an_incast_is_the_receivers_port_whatever_the_routing():
    fabric = clos(8, 8, 8, bandwidth=NDR)
    source = np.arange(8, 40)
    for routes in (hashed(fabric, source, 0), sprayed(fabric, source, 0), least_loaded(fabric, source, 0)):
        assert max_min_rates(fabric.capacity, routes) == pytest.approx(np.full(32, NDR / 32))


# --- Collectives as flows: alone, today's laws -----------------------------------------------------------------------

PORT = {"bandwidth": NDR, "latency": 5e-6}
INSIDE = {"node_size": 8, "node_bandwidth": 450e9, "node_latency": 1e-6}


@pytest.fixture(scope="module")
def railed():
    """64 GPUs, eight in a server, eight servers: every rail is a leaf, and no two flows of a collective meet."""
    return clos(8, 8, 8, bandwidth=NDR, rails=8, domain=8, scale_up=450e9)


@pytest.fixture(scope="module")
def flat():
    return clos(8, 8, 8, bandwidth=NDR)


@pytest.mark.parametrize("size", [1e3, 14e9])
def test_alone_a_collective_takes_what_its_law_says(size, flat, railed):
    ranks, wide = range(64), partial(exchange_time, latency=5e-6)
    deep = partial(exchange_time, railed, choose=pinned, latency=[1e-6, 5e-6])
    found = {
        "ring": (wide(flat, ring_traffic(size, ranks), pinned), interconnect.ring_all_reduce(size, 64, **PORT)),
        "gather": (
            wide(flat, ring_traffic(size, ranks, passes=1), pinned),
            interconnect.ring_all_gather(size, 64, **PORT),
        ),
        "tree": (wide(flat, tree_traffic(size, ranks), sprayed), interconnect.tree_all_reduce(size, 64, **PORT)),
        "pairs": (
            wide(flat, all_to_all_traffic(size, ranks, posted=False), pinned),
            interconnect.pairwise_all_to_all(size, 64, **PORT),
        ),
        "three stages": (
            exchange_time(railed, hierarchical_traffic(size, ranks, node_size=8), pinned, latency=[1e-6, 5e-6, 1e-6]),
            interconnect.hierarchical_all_reduce(size, 64, **PORT, **INSIDE),
        ),
        "two stages": (
            exchange_time(
                railed, all_to_all_traffic(size, ranks, node_size=8, posted=False), pinned, latency=[1e-6, 5e-6]
            ),
            interconnect.hierarchical_all_to_all(size, 64, **PORT, **INSIDE),
        ),
        "posted": (
            deep(all_to_all_traffic(size, ranks, node_size=8)),
            interconnect.posted_all_to_all(size, 64, **PORT, **INSIDE),
        ),
    }
    for name, (flows, law) in found.items():
        assert (flows.latency, flows.transfer) == pytest.approx((law.latency, law.transfer), rel=1e-12), name
        assert flows.rounds == law.rounds, name


def test_a_ring_in_the_order_of_its_leaves_loses_nothing_to_a_thin_fabric_and_an_all_to_all_all_of_it():
    """One flow leaves a leaf of a ring; of an all-to-all 56 of 63 do. At 8:1 only the all-to-all feels it."""
    thin, wide = (clos(8, 8, spines, bandwidth=NDR) for spines in (1, 8))
    ring = [exchange_time(one, ring_traffic(1e9, range(64)), sprayed).time for one in (thin, wide)]
    pieces = [exchange_time(one, all_to_all_traffic(1e9, range(64)), sprayed).time for one in (thin, wide)]
    assert ring[0] == pytest.approx(ring[1])
    assert pieces[0] / pieces[1] == pytest.approx(8 * 56 / 63)


@pytest.mark.parametrize(("down", "spines", "leaves"), [(8, 2, 4), (4, 4, 3), (6, 1, 2), (2, 1, 6)])
def test_the_law_of_thin_leaves_is_what_flows_on_them_take(down, spines, leaves):
    """A ring sends one flow of each leaf out, an all-to-all all but its own leaf's, a shift past the leaf all."""
    thin, wide = (clos(down, leaves, up, bandwidth=NDR) for up in (spines, down))
    hosts, over = np.arange(down * leaves), down / spines
    past = (Stage(hosts[None], np.roll(hosts, -down)[None], 1e9),)
    crossing = {
        1 / down: ring_traffic(1e9, hosts),
        (len(hosts) - down) / (len(hosts) - 1): all_to_all_traffic(1e9, hosts),
        1: past,
    }
    for share, traffic in crossing.items():
        slower = exchange_time(thin, traffic, sprayed).time / exchange_time(wide, traffic, sprayed).time
        assert slower == pytest.approx(interconnect.crossing_slowdown(share, over))


@pytest.mark.parametrize(("ranks", "stride"), [(16, 8), (8, 16), (4, 32), (2, 64), (2, 32), (8, 8), (128, 1)])
def test_groups_of_a_layout_slow_down_as_their_flows_do(ranks, stride):
    """128 GPUs in servers of eight on rails; a set of rails joins four servers, at 4:1. All groups send at once."""
    thin, wide = (clos(4, 32, up, bandwidth=NDR, rails=8, domain=8, scale_up=9 * NDR) for up in (1, 4))
    machine = replace(H100, domain=8, oversubscription=4, leaf=32)
    group = reached(machine, "bf16").group(float(ranks), float(stride))
    around = np.arange(128).reshape(-1, ranks, stride).swapaxes(1, 2).reshape(-1, ranks)
    if stride == 1:  # a ring on each rail, through all servers
        around = np.arange(128).reshape(16, 8).T
    flows = ring_traffic(1e9, around)
    slower = exchange_time(thin, flows, sprayed).time / exchange_time(wide, flows, sprayed).time
    assert slower == pytest.approx(group.slower)


def test_a_collective_beside_others_never_gains(flat):
    alone = exchange_time(flat, ring_traffic(1e9, range(64)), pinned).time
    others = hashed(flat, np.arange(1, 64, 8), np.arange(9, 73, 8) % 64)
    assert exchange_time(flat, ring_traffic(1e9, range(64)), pinned, beside=others).time >= alone


def test_sets_of_flows_join_whole_and_split(flat):
    whole, split = pinned(flat, [0], [9]), sprayed(flat, [1], [10])
    both = joined(whole, split)
    load = link_load(flat.capacity, both)
    np.testing.assert_allclose(load, link_load(flat.capacity, whole) + link_load(flat.capacity, split))


# --- Jobs that come back ---------------------------------------------------------------------------------------------

ONE_LINK = Routes(np.array([[0]]))


@pytest.mark.parametrize(("compute", "exchange", "jobs"), [(0.6, 0.4, 2), (0.2, 0.4, 3), (1.0, 0.3, 4)])
def test_jobs_in_step_share_and_jobs_that_take_turns_do_not(compute, exchange, jobs):
    together = [PeriodicJob(compute, exchange, ONE_LINK) for _ in range(jobs)]
    turns = [PeriodicJob(compute, exchange, ONE_LINK, start=i * exchange) for i in range(jobs)]
    periods = [np.diff(simulate_jobs([1.0], case, iterations=8))[:, -1] for case in (together, turns)]
    assert periods[0] == pytest.approx(np.full(jobs, shared_period(compute, exchange, jobs)))
    assert periods[1] == pytest.approx(np.full(jobs, interleaved_period(compute, exchange, jobs)))


@given(st.floats(0.01, 10), st.floats(0.01, 10), st.integers(1, 9))
@some
def test_no_shift_wins_more_than_its_law_says(compute, exchange, jobs):
    gain = shared_period(compute, exchange, jobs) / interleaved_period(compute, exchange, jobs)
    assert 1 - 1e-12 <= gain <= most_from_shifting(jobs) * (1 + 1e-12)
    best = shared_period((jobs - 1) * exchange, exchange, jobs) / interleaved_period(
        (jobs - 1) * exchange, exchange, jobs
    )
    assert best == pytest.approx(most_from_shifting(jobs))


def test_fair_shares_keep_a_shift_and_unfair_ones_widen_it_until_nobody_waits():
    def periods(**second):
        jobs = [PeriodicJob(0.6, 0.4, ONE_LINK), PeriodicJob(0.6, 0.4, ONE_LINK, **({"start": 0.05} | second))]
        return np.diff(simulate_jobs([1.0], jobs, iterations=40))

    assert periods()[:, -1] == pytest.approx([1.35, 1.35])  # the shift stays 0.05, and that much is won
    for unfair in ({"weight": 0.5}, {"priority": -1}):
        assert periods(**unfair)[:, -1] == pytest.approx([1.0, 1.0])


def test_jobs_that_share_no_link_do_not_see_one_another():
    jobs = [PeriodicJob(1, 4, Routes(np.array([[at]]))) for at in (0, 1)]
    assert simulate_jobs([2, 4], jobs, iterations=2).tolist() == [[3, 6], [2, 4]]


# --- Bounds and balances ---------------------------------------------------------------------------------------------


@given(shared())
@some
def test_blocked_rates_are_a_lower_bound_that_only_crowds_pull_down(case):
    capacity, routes, _ = case
    whole = Routes(routes.links)
    fair, worst = max_min_rates(capacity, whole), blocked_rates(capacity, whole)
    assert np.all(worst <= fair)
    assert worst.min() == fair.min()


def test_a_pause_travels_up_the_tree():
    """32 flows into one host of leaf 0, spread over its spines: one to an idle host waits behind them all the same."""
    fabric = clos(8, 8, 8, bandwidth=NDR)
    crowd, victim = Routes(fabric.route(np.arange(8, 40), 0, np.arange(32))), Routes(fabric.route([8], [1], 0))
    both = joined(crowd, victim)
    assert max_min_rates(fabric.capacity, both)[-1] > blocked_rates(fabric.capacity, both)[-1] == NDR / 32


def test_an_ecn_queue_grows_with_the_flows_until_marks_no_longer_suffice():
    parts = {"increase": 5e6, "interval": 50e-6, "packet": 1e3, "low": 5e3, "high": 200e3, "most": 0.01}
    found = ecn_balance(np.arange(1, 40), bandwidth=5e9, **parts)
    assert np.all(np.diff(found.queue) >= 0)
    assert (found.queue[0] > 5e3, found.queue[-1] == 200e3) == (True, True)
    assert found.rate * np.arange(1, 40) == pytest.approx(5e9)
    # In balance a flow loses in an interval what it gains: half of the marked share, as often as it is marked.
    held = found.queue < 200e3
    assert (found.marked**2 / 2 * found.rate)[held] == pytest.approx(5e6)


def test_one_sender_fills_no_buffer_and_a_link_that_never_flaps_costs_nothing():
    assert math.isinf(buffer_time(16e6, 1, bandwidth=NDR))
    assert flapping_slowdown(0, outage=30, stall=5, slowdown=1.2) == 1
