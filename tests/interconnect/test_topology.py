"""Topology: published fabrics, graphs built cable by cable and counted, limits, conservation, and nonsense refused."""

import dataclasses
import itertools
import math

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterlab import catalogue
from clusterlab.interconnect import (
    bisection_bandwidth,
    fat_tree,
    fat_tree_capacity,
    hierarchy,
    leaf_reach,
    path_bandwidth,
    path_latency,
    path_tier,
    scale_up,
    torus,
)
from laws import assert_equals_a_loop, registry

close = {"rel": 1e-12}
powers = st.sampled_from([4, 8, 16, 32, 64, 128])
evens = st.integers(1, 40).map(lambda half: 2 * half)


# --- published numbers -----------------------------------------------------------------------------------------------


def test_a_fat_tree_of_48_port_switches_has_27648_hosts_and_2880_switches():
    """Al-Fares, Loukissas and Vahdat 2008, section 2.2: 48 pods, each with 24 edge and 24 aggregation switches."""
    hosts = fat_tree_capacity(48, tiers=3)
    tree = fat_tree(hosts, 48, tiers=3)
    assert (hosts, tree.switches) == (27648, 2880)
    assert (tree.leaves, tree.spines, tree.cores) == (48 * 24, 48 * 24, 24**2)


SUPERPOD_B200 = [  # hosts, leaf, spine, core, node-leaf, leaf-spine, spine-core
    (512, 16, 8, 0, 512, 512, 0),
    (1024, 32, 16, 0, 1024, 1024, 0),
    (2048, 64, 32, 0, 2048, 2048, 0),
    (4096, 128, 128, 64, 4096, 4096, 4096),
    (8192, 256, 256, 128, 8192, 8192, 8192),
    (16384, 512, 512, 256, 16384, 16384, 16384),
]
SUPERPOD_B300_XDR = [  # hosts, leaf, spine
    (576, 8, 4),
    (1152, 16, 8),
    (2304, 32, 18),  # 16 spines have the ports, but 72 cables do not spread evenly over 16
    (4608, 64, 36),
    (10368, 144, 72),
]


def test_a_dgx_superpod_has_the_switches_and_cables_of_its_reference_architecture():
    """NVIDIA DGX SuperPOD with DGX B200, table of larger component counts: switches of 64 ports of 400 Gbit/s."""
    hosts, *parts = np.array(SUPERPOD_B200).T
    tree = fat_tree(hosts, 64)
    counted = tree.leaves, tree.spines, tree.cores, tree.host_cables, tree.spine_cables, tree.core_cables
    np.testing.assert_array_equal(counted, parts)


def test_spines_are_as_many_as_divide_the_cables_of_a_leaf():
    """NVIDIA DGX SuperPOD with DGX B300 and XDR, table of component counts: switches of 144 ports.

    The last row of the table prints 9,216 GPUs for its 1,296 nodes of eight; its cables are 10,368.
    """
    hosts, leaves, spines = np.array(SUPERPOD_B300_XDR).T
    tree = fat_tree(hosts, 144)
    np.testing.assert_array_equal((tree.leaves, tree.spines), (leaves, spines))
    np.testing.assert_array_equal((tree.host_cables, tree.spine_cables), (hosts, hosts))


def test_the_cluster_of_llama_3_keeps_a_pod_of_3072_gpus_at_full_bandwidth():
    """Grattafiori et al. 2024, section 3.3.1: racks of 16 GPUs, 192 racks a pod, 8 pods, 1:7 between pods."""
    racks = {"domain": 8, "hosts_per_leaf": 16, "leaves_per_pod": 192}
    gpus = np.arange(8 * 3072)
    tiers = path_tier(0, gpus, **racks)
    assert np.bincount(tiers).tolist() == [1, 7, 8, 3072 - 16, 7 * 3072]
    port = catalogue.link("RoCE 400 GbE").bandwidth
    rate = path_bandwidth(tiers, memory=3.35e12, scale_up=450e9, network=port, core_oversubscription=7)
    assert rate[3071] == port == 50e9
    assert rate[3072] == pytest.approx(50e9 / 7, **close)


def test_a_tpu_v4_pod_is_a_torus_of_4096_chips():
    """Jouppi et al. 2023: 16 x 16 x 16, six links a chip; hardware.toml: 270 GB/s a chip one way, 45 GB/s a link."""
    pod = torus((16, 16, 16))
    link = catalogue.link("ICI (TPU v4)").bandwidth / 6
    assert (pod.nodes, 2 * pod.links / pod.nodes) == (4096, 6)
    assert bisection_bandwidth(pod.bisection_links, link) == pytest.approx(2 * 16**2 * 45e9, **close)
    assert (pod.diameter, round(pod.average_hops, 3)) == (24, 12.003)


def test_a_rack_of_72_gpus_has_1296_links_into_18_switches():
    """NVIDIA GB200 NVL72: nine trays of two switch chips; the links add up to 130 TB/s, both directions."""
    rack = catalogue.rack("GB200 NVL72")
    link = catalogue.link("NVLink 5")
    domain = scale_up(rack.accelerators, links=18, switch_ports=72)
    assert (domain.cables, domain.switches, domain.cables_per_switch) == (1296, 9 * 2, 72)
    assert domain.cables * link.bandwidth_both_ways / 18 == pytest.approx(130e12, rel=0.005)
    assert domain.cables / scale_up(8, links=18, switch_ports=64).cables == 9


def test_each_tier_adds_two_switches_to_the_latency():
    """DeepSeek-V3 (ISCA 2025): 2.8 us under a leaf and 3.7 us across leaves on InfiniBand, 3.6 and 5.6 us on RoCE."""
    for near, far in ((2.8e-6, 3.7e-6), (3.6e-6, 5.6e-6)):
        switch = (far - near) / 2
        latency = path_latency([2, 3, 4], scale_up=3.33e-6, network=near, switch=switch)
        assert latency == pytest.approx([near, far, 2 * far - near], **close)


# --- graphs: fat trees -----------------------------------------------------------------------------------------------


def wired(leaves, down, up, k, tiers) -> nx.Graph:
    """A fat tree built cable by cable from whole leaves: the least in which every switch spreads its cables evenly.

    An edge's capacity is its number of cables.
    """
    graph = nx.Graph()

    def connect(below, above, cables):
        """Spread so many cables of each switch evenly over the fewest switches above, or say how many are too few."""
        fewest = next(s for s in itertools.count(1) if cables % s == 0 and len(below) * cables // s <= k)
        for switch, i in itertools.product(below, range(fewest)):
            graph.add_edge(switch, (*above, i), capacity=cables // fewest)

    for leaf, port in itertools.product(range(leaves), range(down)):
        graph.add_edge(("host", leaf * down + port), ("leaf", leaf), capacity=1)
    if tiers == 2:
        connect([("leaf", leaf) for leaf in range(leaves)], ("spine",), up)
        return graph
    pods = math.ceil(leaves / (k // 2))
    for leaf, i in itertools.product(range(leaves), range(up)):
        graph.add_edge(("leaf", leaf), ("spine", leaf // (k // 2), i), capacity=1)
    for i in range(up):
        connect([("spine", pod, i) for pod in range(pods)], ("core", i), k // 2)
    return graph


def of_kind(graph, *kinds):
    return [node for node in graph if node[0] in kinds]


def cables(graph, a, b):
    return sum(data["capacity"] for *ends, data in graph.edges(data=True) if {end[0] for end in ends} == {a, b})


def crossing(graph, left) -> int:
    """Least number of cables between some hosts and all others, wherever the switches stand."""
    cut = graph.copy()
    for host in of_kind(graph, "host"):
        cut.add_edge(host, "left" if host[1] in left else "right", capacity=10**6)
    return nx.minimum_cut_value(cut, "left", "right")


FABRICS = [  # radix, tiers, ports down, ports up of a leaf
    (2, 2, 1, 1),
    (2, 3, 1, 1),
    (4, 2, 2, 2),
    (4, 3, 2, 2),
    (6, 2, 3, 3),
    (6, 3, 3, 3),
    (6, 2, 4, 2),
    (6, 3, 4, 2),
    (8, 2, 4, 4),
    (8, 3, 4, 4),
    (8, 2, 5, 3),
    (8, 2, 6, 2),
    (8, 3, 7, 1),
    (12, 2, 6, 6),
    (12, 2, 9, 3),
    (14, 2, 7, 7),
]


def leaf_counts(k, tiers):
    """Every size of a small fabric, and a few of a large one, the complete fabric among them."""
    most = k if tiers == 2 else k * k // 2
    return range(1, most + 1) if most <= 8 else sorted({1, 2, 3, k // 2 + 1, k + 3, most // 2, most - 1, most} - {0})


@pytest.mark.parametrize(("k", "tiers", "down", "up"), FABRICS)
def test_a_fat_tree_has_the_parts_of_the_graph_that_is_wired(k, tiers, down, up):
    for leaves in (n for n in leaf_counts(k, tiers) if n <= (k if tiers == 2 else k * k // 2)):
        graph = wired(leaves, down, up, k, tiers)
        hosts = of_kind(graph, "host")
        tree = fat_tree(len(hosts), k, tiers=tiers, oversubscription=down / up)
        counted = [len(of_kind(graph, kind)) for kind in ("leaf", "spine", "core")]
        assert [tree.leaves, tree.spines, tree.cores] == counted
        laid = [cables(graph, *pair) for pair in (("host", "leaf"), ("leaf", "spine"), ("spine", "core"))]
        assert [tree.host_cables, tree.spine_cables, tree.core_cables] == laid
        assert tree.transceivers == 2 * sum(laid)
        # It can be built: no switch needs more ports than it has, and every host reaches every other.
        assert max(graph.degree(node, "capacity") for node in of_kind(graph, "leaf", "spine", "core")) <= k
        assert nx.is_connected(graph)


@pytest.mark.parametrize(("k", "tiers", "down", "up"), FABRICS)
def test_no_even_split_of_the_hosts_cuts_fewer_cables_than_the_bisection(k, tiers, down, up):
    """The least of all splits where they are few; of the canonical and of random ones elsewhere."""
    random = np.random.default_rng(20261121)
    for leaves in (2, 3, min(k, 5)) if k > 2 else (2,):
        graph = wired(leaves, down, up, k, tiers)
        n = leaves * down
        half = n // 2
        # Hosts of a leaf are alike: a split is how many of each leaf are on the left, and so is any order of leaves
        # where all leaves are alike (two tiers).
        splits = [a for a in itertools.product(range(down + 1), repeat=leaves) if sum(a) == half]
        splits = sorted({tuple(sorted(a, reverse=True)) for a in splits} if tiers == 2 else splits, reverse=True)
        if len(splits) > 40:
            splits = [splits[0], *(splits[i] for i in random.choice(len(splits), 25, replace=False))]
        found = []
        for split in splits:
            left = {leaf * down + i for leaf, many in enumerate(split) for i in range(many)}
            found.append(crossing(graph, left))
        tree = fat_tree(n, k, tiers=tiers, oversubscription=down / up)
        assert min(found) == tree.bisection_links


@pytest.mark.parametrize(("k", "down", "up"), [(4, 2, 2), (6, 3, 3), (6, 4, 2)])
def test_the_halves_of_a_complete_three_tier_tree_are_joined_by_its_bisection(k, down, up):
    leaves = k * k // 2
    graph = wired(leaves, down, up, k, 3)
    tree = fat_tree(leaves * down, k, tiers=3, oversubscription=down / up)
    halves = [range(leaves * down // 2), [h for h in range(leaves * down) if h // down % 2]]  # whole pods; half of each
    for left in halves:
        assert crossing(graph, set(left)) == tree.bisection_links == leaves * up // 2


@pytest.mark.parametrize(
    ("k", "tiers", "down", "up", "leaves"), [(4, 2, 2, 2, 4), (6, 2, 4, 2, 6), (8, 2, 6, 2, 5), (4, 3, 2, 2, 7)]
)
def test_the_worst_pair_keeps_the_bandwidth_over_the_oversubscription(k, tiers, down, up, leaves):
    """Hosts send in pairs, spread evenly over the shortest paths: the fullest cable sets the rate of all."""
    graph = wired(leaves, down, up, k, tiers)
    random = np.random.default_rng(20261121)
    n = leaves * down
    shift = (np.arange(n) + down) % n  # every host sends out of its leaf
    rates = []
    for target in [shift, *(random.permutation(n) for _ in range(5))]:
        load = {}  # of each cable, each direction on its own
        for a, b in enumerate(target.tolist()):
            paths = list(nx.all_shortest_paths(graph, ("host", a), ("host", b)))
            for path in paths:
                for hop in itertools.pairwise(path):
                    load[hop] = load.get(hop, 0) + 1 / len(paths)
        rates.append(1 / max(flow / graph.edges[hop]["capacity"] for hop, flow in load.items()))
    share = path_bandwidth(tiers + 1, memory=1e3, scale_up=10, network=1, leaf_oversubscription=down / up)
    assert rates[0] == pytest.approx(share) == pytest.approx(up / down)
    assert min(rates) >= share * (1 - 1e-9)


# --- graphs: tori ----------------------------------------------------------------------------------------------------

TORI = [(2,), (3,), (7,), (8,), (2, 2), (3, 2), (2, 5), (3, 3), (4, 3), (5, 3), (4, 4), (3, 6)]
TORI += [(2, 2, 2), (3, 2, 2), (4, 2, 2), (2, 3, 3), (2, 2, 2, 2)]


def grid(sizes) -> nx.Graph:
    graph = nx.Graph()
    for node in itertools.product(*map(range, sizes)):
        for i, size in enumerate(sizes):
            graph.add_edge(node, (*node[:i], (node[i] + 1) % size, *node[i + 1 :]))  # a second cable is no second edge
    return graph


@pytest.mark.parametrize("sizes", [*TORI, (5, 4, 3), (6, 5), (2, 7, 4), (4, 4, 4), (3, 3, 3, 3)])
def test_a_torus_has_the_links_and_distances_of_its_graph(sizes):
    graph, law = grid(sizes), torus(sizes)
    assert (law.nodes, law.links) == (len(graph), graph.number_of_edges())
    assert law.diameter == nx.diameter(graph)
    assert law.average_hops == pytest.approx(nx.average_shortest_path_length(graph), **close)


@pytest.mark.parametrize("sizes", [(3, 4), (5, 3, 4)])
def test_the_graph_of_a_torus_is_the_periodic_grid_of_networkx(sizes):
    assert nx.utils.graphs_equal(grid(sizes), nx.grid_graph(sizes[::-1], periodic=True))


@pytest.mark.parametrize("sizes", TORI)
def test_no_even_split_of_a_small_torus_cuts_fewer_links_than_its_bisection(sizes):
    """All splits, each a word of bits."""
    graph = nx.convert_node_labels_to_integers(grid(sizes))
    n = len(graph)
    splits = np.arange(2 ** (n - 1), dtype=np.uint32)
    splits = splits[np.isin(np.bitwise_count(splits), (n // 2, n - n // 2))]
    cut = sum((splits >> a ^ splits >> b) & 1 for a, b in graph.edges)
    assert torus(sizes).bisection_links == cut.min()


@pytest.mark.parametrize("sizes", [(16, 4), (4, 4, 4), (8, 3, 3), (10, 2, 2)])
def test_the_canonical_half_of_a_torus_is_joined_by_its_bisection(sizes):
    graph = grid(sizes)
    nx.set_edge_attributes(graph, 1, "capacity")
    for node in list(graph):
        graph.add_edge(node, "left" if node[0] < sizes[0] // 2 else "right", capacity=10**6)
    assert nx.minimum_cut_value(graph, "left", "right") == torus(sizes).bisection_links


# --- graphs: placements ----------------------------------------------------------------------------------------------


def placed(nodes, per_node, down, leaves_per_pod, by_rail) -> nx.Graph:
    """GPUs cabled to leaves one after the other: a rail of a group of nodes on each, or neighbours on each."""
    gpus = [(node, rail) for node in range(nodes) for rail in range(per_node)]
    if by_rail:
        groups = [range(first, min(first + down, nodes)) for first in range(0, nodes, down)]
        leaves = [[(node, rail) for node in group] for group in groups for rail in range(per_node)]
    else:
        leaves = [gpus[first : first + down] for first in range(0, len(gpus), down)]
    graph = nx.Graph()
    for number, leaf in enumerate(leaves):
        graph.add_edge(("leaf", number), ("spine", number // leaves_per_pod))
        graph.add_edge(("spine", number // leaves_per_pod), "core")
        graph.add_edges_from((gpu, ("leaf", number)) for gpu in leaf)
    return graph


@pytest.mark.parametrize("by_rail", [True, False])
@pytest.mark.parametrize(
    ("nodes", "per_node", "down", "leaves_per_pod"),
    [(8, 4, 4, 4), (9, 2, 4, 4), (6, 8, 2, 8), (7, 4, 8, 3), (5, 1, 2, 2)],
)
def test_hops_are_those_of_the_shortest_path(nodes, per_node, down, leaves_per_pod, by_rail):
    graph = placed(nodes, per_node, down, leaves_per_pod, by_rail)
    rails = per_node if by_rail else 1
    law = {"domain": per_node, "hosts_per_leaf": down, "leaves_per_pod": leaves_per_pod, "rails": rails}
    ids = np.arange(nodes * per_node)
    tiers = path_tier(ids[:, None], ids, **law)
    forwarded = path_tier(ids[:, None], ids, **law, forward=True)
    far = dict(nx.all_pairs_shortest_path_length(graph))
    for a, b in itertools.product(ids.tolist(), repeat=2):
        sender, target = divmod(a, per_node), divmod(b, per_node)
        relay = (sender[0], target[1]) if by_rail else sender
        if sender == target:
            assert tiers[a, b] == forwarded[a, b] == 0
        elif sender[0] == target[0]:
            assert tiers[a, b] == forwarded[a, b] == 1
        else:
            # Up to the tier and down again, a cable for each step.
            assert 2 * (tiers[a, b] - 1) == far[sender][target]
            assert 2 * max(forwarded[a, b] - 1, 0) == far[relay][target]


@pytest.mark.parametrize(("per_node", "down"), [(8, 4), (4, 8), (2, 2), (8, 32)])
def test_so_many_gpus_share_a_leaf(per_node, down):
    """Rail-optimised, a leaf reaches one GPU of each of its nodes, and forwarding reaches them all."""
    nodes = 2 * down
    for by_rail in (True, False):
        graph = placed(nodes, per_node, down, 10**6, by_rail)
        rails = per_node if by_rail else 1
        assert {graph.degree(leaf) - 1 for leaf in graph if leaf[0] == "leaf"} == {leaf_reach(down, rails=rails)}
        gpus = np.arange(nodes * per_node)
        law = {"domain": per_node, "hosts_per_leaf": down, "rails": rails}
        near = path_tier(0, gpus, **law, forward=True) <= 2
        assert near.sum() == max(leaf_reach(down, rails=rails, forward=True), per_node)


@pytest.mark.parametrize(("gpus", "links", "ports"), list(itertools.product((1, 4, 7, 8), (1, 6, 12, 18), (8, 9, 64))))
def test_a_scale_up_domain_is_wired_with_the_fewest_switches(gpus, links, ports):
    for switches in range(1, links + 1):
        graph = nx.MultiGraph()
        for gpu, i in itertools.product(range(gpus), range(links)):
            graph.add_edge(("gpu", gpu), ("switch", i % switches))
        even = links % switches == 0
        if even and max(graph.degree(node) for node in of_kind(graph, "switch")) <= ports:
            break
    law = scale_up(gpus, links=links, switch_ports=ports)
    assert (law.cables, law.switches) == (graph.number_of_edges(), len(of_kind(graph, "switch")))
    assert {graph.degree(node) for node in of_kind(graph, "switch")} == {law.cables_per_switch}


# --- limits and conservation -----------------------------------------------------------------------------------------


@given(evens)
def test_a_complete_tree_without_oversubscription_has_the_textbook_size(k):
    assert fat_tree_capacity(k, tiers=[2, 3]).tolist() == [k**2 // 2, k**3 // 4]
    two, three = (fat_tree(fat_tree_capacity(k, tiers=t), k, tiers=t) for t in (2, 3))
    assert (two.switches, three.switches) == (3 * k // 2, 5 * k**2 // 4)
    assert (two.cables, three.cables) == (2 * k**2 // 2, 3 * k**3 // 4)
    assert (two.bisection_links, three.bisection_links) == (k**2 // 4, k**3 // 8)


@given(evens, st.sampled_from([2, 3]), st.data())
def test_the_parts_of_a_tree_sum_and_its_switches_have_the_ports(k, tiers, data):
    up = data.draw(st.integers(1, k // 2))
    ratio = (k - up) / up
    hosts = data.draw(st.integers(1, int(fat_tree_capacity(k, tiers=tiers, oversubscription=ratio))))
    tree = fat_tree(hosts, k, tiers=tiers, oversubscription=ratio)
    assert tree.switches == tree.leaves + tree.spines + tree.cores
    assert tree.cables == tree.host_cables + tree.spine_cables + tree.core_cables
    assert tree.host_cables == hosts <= tree.leaves * (k - up) < hosts + k - up
    assert tree.host_cables + tree.spine_cables <= k * tree.leaves
    assert tree.spine_cables + tree.core_cables <= k * tree.spines
    assert tree.core_cables <= k * tree.cores
    copper = fat_tree(hosts, k, tiers=tiers, oversubscription=ratio, copper_hosts=True)
    assert (tree.transceivers, copper.transceivers) == (2 * tree.cables, 2 * (tree.cables - hosts))


@given(powers, st.sampled_from([2, 3]), st.data())
def test_oversubscription_divides_the_bisection(k, tiers, data):
    """Of a complete tree, for each host."""
    up = data.draw(st.sampled_from([k // 2, k // 4, 1, 3 if k > 4 else 1]))
    ratio = (k - up) / up
    hosts = fat_tree_capacity(k, tiers=tiers, oversubscription=ratio)
    tree = fat_tree(hosts, k, tiers=tiers, oversubscription=ratio)
    assert 2 * bisection_bandwidth(tree.bisection_links, 50e9) / hosts == pytest.approx(50e9 / ratio, **close)


@given(powers, st.data())
def test_a_bigger_radix_never_needs_more_switches(k, data):
    """Where both are powers of two, as switches are sold."""
    hosts = data.draw(st.integers(1, int(fat_tree_capacity(k, tiers=3))))
    small, big = fat_tree(hosts, k), fat_tree(hosts, 2 * k)
    assert big.switches <= small.switches


def test_a_radix_that_divides_badly_can_need_more_switches():
    """Four leaves of 12 ports spread 6 cables over 2 spines; three of 14 spread 7 over 1 or 7, and 1 is too few."""
    assert (fat_tree(20, 12).switches, fat_tree(20, 14).switches) == (6, 10)


@given(powers, st.data())
def test_more_hosts_never_need_fewer_parts(k, data):
    hosts = data.draw(st.integers(1, int(fat_tree_capacity(k, tiers=3)) - 1))
    one, more = fat_tree(hosts, k), fat_tree(hosts + 1, k)
    assert one.switches <= more.switches
    assert one.cables < more.cables
    assert one.bisection_links <= more.bisection_links


@given(st.lists(st.integers(2, 9), min_size=1, max_size=4))
def test_a_torus_does_not_depend_on_the_order_of_its_dimensions(sizes):
    law = torus(sizes)
    assert repr(law) == repr(torus(sizes[::-1]))
    assert law.average_hops <= law.diameter
    assert 1 <= law.bisection_links <= law.links
    assert law.links <= law.nodes * len(sizes)


@given(st.integers(1, 10))
def test_a_torus_of_sizes_two_is_a_hypercube(d):
    cube = torus([2] * d)
    assert (cube.nodes, cube.links, cube.bisection_links, cube.diameter) == (2**d, d * 2 ** (d - 1), 2 ** (d - 1), d)


@given(st.integers(1, 36), st.integers(1, 36), st.integers(72, 144))
def test_twice_the_domain_has_twice_the_cables(gpus, links, ports):
    small, big = scale_up([gpus, 2 * gpus], links=links, switch_ports=ports).cables
    assert big == 2 * small == 2 * gpus * links


rates = st.fixed_dictionaries(dict.fromkeys(("memory", "scale_up", "network"), st.floats(1e6, 1e14)))


@given(rates, st.floats(1, 100), st.floats(1, 100))
def test_no_tier_of_the_network_is_faster_than_the_one_below(rates, leaf, core):
    law = path_bandwidth(range(5), **rates, leaf_oversubscription=leaf, core_oversubscription=core)
    assert law[:3].tolist() == [rates[name] for name in ("memory", "scale_up", "network")]
    assert law[2] >= law[3] >= law[4] > 0
    assert law[4] * leaf * core == pytest.approx(rates["network"], **close)


@given(st.floats(0, 1), st.floats(0, 1), st.floats(0, 1))
def test_latency_grows_by_two_switches_a_tier(scale_up, network, switch):
    law = path_latency(range(5), scale_up=scale_up, network=network, switch=switch)
    assert law[:3].tolist() == [0, scale_up, network]
    assert np.diff(law[2:]) == pytest.approx([2 * switch] * 2, abs=1e-12)


def test_results_explain_themselves():
    tree = fat_tree(4096, 64, copper_hosts=True)
    assert "leaf        128         4,096             0" in repr(tree)
    assert "total       320        12,288        16,384" in repr(tree)
    assert "<th>cables below</th>" in tree._repr_html_()
    assert "leaf   1 to 64, 2 values" in repr(fat_tree([1, 2048], 64))
    assert "bisection links      6" in repr(torus((4, 3)))


@pytest.mark.parametrize("node", [node.name for node in (*catalogue.nodes(), *catalogue.racks())])
def test_each_tier_further_out_is_slower_and_later(node):
    tiers = hierarchy(node).tiers
    rates = [tier.bandwidth for tier in tiers[:-1]]  # sites lease as many wavelengths as they need
    waits = [tier.latency for tier in tiers if tier.latency is not None]
    assert rates == sorted(rates, reverse=True)
    assert waits == sorted(waits)
    assert len(tiers) >= 4
    assert all(tier.carries for tier in tiers)


def test_the_hierarchy_of_a_server_spans_four_orders_in_bandwidth_and_six_in_latency():
    tiers = hierarchy("DGX H100").tiers
    assert tiers[0].bandwidth / tiers[-1].bandwidth == pytest.approx(1e4, rel=0.1)
    assert tiers[-1].latency / tiers[1].latency == pytest.approx(2.4e6, rel=0.05)
    assert "345 ns" in repr(hierarchy())
    with pytest.raises(ValueError, match=r"unknown node 'DGX X'; did you mean"):
        hierarchy("DGX X")


def test_the_hierarchy_of_a_rack_has_a_port_for_each_accelerator():
    tiers = {tier.name: tier.bandwidth for tier in hierarchy("GB200 NVL72").tiers}
    assert (tiers["NVLink 5"], tiers["InfiniBand NDR"]) == (900e9, 50e9)


def test_the_network_of_an_accelerator_is_its_part_of_all_ports(monkeypatch):
    half = dataclasses.replace(catalogue.node("DGX H100"), name="half", network_ports=4)
    monkeypatch.setattr(catalogue, "nodes", lambda: (half,))
    assert hierarchy("half").tiers[-2].bandwidth == 25e9


def test_a_memory_of_any_name_is_a_tier(monkeypatch):
    shared = dataclasses.replace(catalogue.memory("H100 SXM L1"), name="H100 SXM shared memory")
    monkeypatch.setattr(catalogue, "memories", lambda: (shared,))
    tier = hierarchy("DGX H100").tiers[0]
    assert (tier.name, tier.bandwidth) == ("shared memory", shared.bandwidth)
    assert tier.carries


# --- input -----------------------------------------------------------------------------------------------------------

# Each law with three sets of sound arguments.
SOUND = {
    fat_tree_capacity: {"radix": [64, 48, 8], "tiers": [2, 3, 3], "oversubscription": [1, 2, 5 / 3]},
    fat_tree: {"hosts": [1, 9000, 50], "radix": [64, 48, 8], "tiers": [2, 3, 3], "oversubscription": [1, 2, 5 / 3]},
    bisection_bandwidth: {"links": [1024, 1, 16], "bandwidth": [50e9, 25e9, 1e9]},
    scale_up: {"gpus": [72, 8, 1], "links": [18, 12, 7], "switch_ports": [72, 36, 1]},
    path_tier: {"source": [0, 9, 500], "target": [8, 9, 100], "domain": [8, 4, 72], "hosts_per_leaf": [32, 2, 18]}
    | {"leaves_per_pod": [8, 2, 1], "rails": [8, 1, 4]},
    leaf_reach: {"hosts_per_leaf": [32, 16, 9], "rails": [8, 1, 3]},
    path_bandwidth: {"tier": [4, 0, 1], "memory": [3e12, 8e12, 1e12], "scale_up": [45e10, 9e11, 1e11]}
    | {"network": [5e10, 1e11, 1e10], "leaf_oversubscription": [1, 2, 3], "core_oversubscription": [7, 1, 1.5]},
    path_latency: {"tier": [4, 1, 2], "scale_up": [3e-6, 2e-6, 0], "network": [5e-6, 3e-6, 0], "switch": [5e-7, 0, 1]},
}
COUNTS = {"hosts", "radix", "tiers", "gpus", "switch_ports", "source", "target", "domain", "hosts_per_leaf", "tier"}
COUNTS |= {"leaves_per_pod", "rails", (scale_up, "links")}
FLAGS = {fat_tree: "copper_hosts", path_tier: "forward", leaf_reach: "forward"}


def one(law, i, **changed):
    """Call a law with its i-th set of sound arguments, some of them changed."""
    return law(**{name: values[i] for name, values in SOUND[law].items()} | changed)


@pytest.mark.parametrize(("law", "name"), FLAGS.items())
def test_a_flag_is_a_bool(law, name):
    with pytest.raises(ValueError, match=rf"^{name} must be True or False, got 'no'"):
        one(law, 0, **{name: "no"})


@pytest.mark.parametrize(
    ("law", "changed", "message"),
    [
        (fat_tree, {"radix": 63}, "radix must be even, got 63"),
        (fat_tree_capacity, {"radix": [64, 7]}, "radix must be even, got 7"),
        (fat_tree, {"radix": 10**5}, "radix must be a whole number from 2 to 65,536, got 100,000"),
        (fat_tree, {"tiers": 1}, "tiers must be a whole number from 2 to 3, got 1"),
        (fat_tree, {"tiers": 4}, "tiers must be a whole number from 2 to 3, got 4"),
        (fat_tree, {"oversubscription": 0.5}, "oversubscription must be at least 1, got 0.5"),
        (fat_tree, {"oversubscription": 2}, "oversubscription must be a ratio .* got 2 for radix 64; near it: 43/21"),
        (fat_tree_capacity, {"oversubscription": 64}, "oversubscription must be a ratio .*; near it: 63/1 = 63"),
        (
            fat_tree,
            {"hosts": 2049},
            "hosts must be at most 2,048 for 2 tiers of radix 64 and oversubscription 1, got 2,049",
        ),
        (fat_tree, {"hosts": [1, 10**17]}, "hosts must be at most 2,048 .* got 1e\\+17"),
        (fat_tree, {"hosts": 65537, "tiers": None}, "hosts must be at most 65,536 for 3 tiers of radix 64 "),
        (scale_up, {"gpus": 73}, "gpus must be at most switch_ports, 72, in one stage, got 73"),
        (path_tier, {"rails": 3}, "rails must divide domain, got 3 and 8"),
        (path_tier, {"domain": [8, 9]}, "rails must divide domain, got 8 and 9"),
        (path_latency, {"tier": 5}, "tier must be a whole number from 0 to 4, got 5"),
        (path_bandwidth, {"tier": 1.5}, "tier must be a whole number from 0 to 4, got 1.5"),
        (path_tier, {"target": 1.5}, "target must be a whole number from 0 to 9,007,199,254,740,992, got 1.5"),
        (path_bandwidth, {"leaf_oversubscription": 0.9}, "leaf_oversubscription must be at least 1, got 0.9"),
        (path_bandwidth, {"core_oversubscription": [2, 0.5]}, "core_oversubscription must be at least 1, got 0.5"),
        (path_bandwidth, {"tier": [1, 2], "memory": [1, 2, 3]}, r"shapes do not fit together: tier \(2,\)"),
    ],
)
def test_a_law_refuses_what_cannot_be_built_and_says_what_can(law, changed, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        one(law, 0, **changed)


PLAIN = [
    (law, name)
    for law, names in SOUND.items()
    for name in names
    if {name, (law, name)} & COUNTS or "oversubscription" in name
]
SECONDS = registry.Quantity(np.array([2.0, 4.0]), "s")


@pytest.mark.parametrize(("law", "name"), PLAIN)
def test_a_count_or_a_ratio_with_a_dimension_is_refused_by_name(law, name):
    with pytest.raises(ValueError, match=f"^{name} must be .*, got .*second"):
        one(law, 0, **{name: SECONDS})


@pytest.mark.parametrize("sizes", [4, (), (1, 4), (0,), (-2, 3), (2.5,), (math.nan, 2), "44", ((2, 2), (2, 2)), None])
def test_a_torus_refuses_sizes_that_are_not_integers_above_one(sizes):
    with pytest.raises(ValueError, match=r"^sizes must be .*got"):
        torus(sizes)


# --- broadcasting ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("law", SOUND)
def test_a_law_called_with_arrays_equals_a_loop_of_scalar_calls(law):
    assert_equals_a_loop(law(**{n: np.array(v) for n, v in SOUND[law].items()}), [one(law, i) for i in range(3)])


def test_hosts_and_radix_broadcast_to_a_grid():
    grid = fat_tree(np.array([[100], [2048], [5000]]), np.array([32, 64, 128, 256]))
    assert grid.switches.shape == (3, 4)
    assert grid.switches[1, 1] == fat_tree(2048, 64).switches
    np.testing.assert_array_equal(grid.cores > 0, [[0, 0, 0, 0], [1, 0, 0, 0], [1, 1, 0, 0]])
