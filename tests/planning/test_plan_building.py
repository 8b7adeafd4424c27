"""What stands in the hall: fabrics, racks and servers; what it draws and costs."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clusterlab import interconnect
from clusterlab.catalogue import machine, price_list
from clusterlab.model import Layout
from clusterlab.planning import CENTRAL, SWITCHES, Site, Training, design, plan, samples, yearly_cost
from clusterlab.planning.building import _torus_sizes, fabric
from clusterlab.units import year
from planned import H100, LLAMA, META


@given(hosts=st.integers(1, 200_000), ratio=st.sampled_from([1, 3, 7]))
@settings(max_examples=30)
def test_the_fabric_is_the_one_of_least_watts(hosts, ratio):
    made = fabric(hosts, hosts, H100, Site(oversubscription=ratio))
    watts = []
    for switch in SWITCHES.values():
        if switch.port == 50e9:
            most = interconnect.fat_tree_capacity(switch.ports, tiers=3, oversubscription=ratio)
            if hosts <= most:
                tree = interconnect.fat_tree(hosts, switch.ports, oversubscription=ratio)
                watts.append(tree.switches * switch.power)
    assert made.power == pytest.approx(min(watts))
    assert made.switches * SWITCHES[made.name].power == pytest.approx(made.power)


@pytest.mark.parametrize(
    ("hosts", "switches", "cables"),
    [
        # Of 64 ports a leaf has 32 down and 32 up, and a third tier as many cables again.
        (1000, (32, 16, 0), (1000, 1024, 0)),
        (1024, (32, 16, 0), (1024, 1024, 0)),
        (16_384, (512, 512, 256), (16_384, 16_384, 16_384)),
    ],
)
def test_switches_and_cables_are_those_that_one_counts_on_paper(hosts, switches, cables):
    made = fabric(hosts, hosts, H100, Site())
    assert (made.leaves, made.spines, made.cores) == switches
    assert (made.host_cables, made.spine_cables, made.core_cables) == cables
    assert (made.switches, made.cables, made.transceivers) == (sum(switches), sum(cables), 2 * sum(cables))
    assert made.power == sum(switches) * SWITCHES["QM9700"].power


@pytest.mark.parametrize("hosts", [8, 100, 1000, 16_688])
def test_half_of_the_hosts_send_to_the_other_half_where_leaves_are_not_full(hosts):
    """A full tree carries that of all ports; what is not there does not send."""
    assert fabric(hosts, hosts, H100, Site()).bisection == pytest.approx(hosts / 2 * 50e9)


def test_oversubscribed_leaves_carry_less_than_half_of_their_hosts_send():
    """Of 64 ports 48 down and 16 up: a third."""
    full, third = (fabric(1536, 1536, H100, Site(oversubscription=ratio)).bisection for ratio in (1, 3))
    assert full == 768 * 50e9
    assert third == pytest.approx(full / 3)


def test_many_fabrics_are_as_many_single_ones():
    hosts = np.array([8.0, 100, 1000, 3000, 16_688, 100_000])
    together = fabric(hosts, hosts, H100, Site())
    for i, n in enumerate(hosts):
        alone = fabric(n, n, H100, Site())
        assert {name: np.asarray(value)[i] for name, value in vars(together).items()} == vars(alone)


@pytest.mark.parametrize(("n", "sizes"), [(8960, (16, 20, 28)), (4096, (16, 16, 16)), (7, (7,)), (256, (4, 8, 8))])
def test_a_torus_is_next_to_a_cube(n, sizes):
    assert _torus_sizes(n) == sizes


def test_a_torus_has_three_links_a_chip_and_is_cut_across_its_longest_side():
    """4,096 chips in a cube of 16: 12,288 links, and a cut through two of its faces of 256."""
    made = fabric(4096, 4096, machine("TPU v5p"), Site())
    assert (made.name, made.cables, made.switches, made.power) == ("torus", 3 * 4096, 0, 0)
    assert made.bisection == pytest.approx(2 * 256 * machine("TPU v5p").scale_up_bandwidth / 6)


def test_racks_hold_what_their_watts_allow():
    layouts = Layout(tp=8, pp=16, dp=[64, 128], chunks=8)
    for watts, each in ((12e3, 1), (25e3, 2), (45e3, 4), (100e3, 4)):
        made = design(LLAMA, Site(rack_power=watts, spares=0), H100, layouts)
        np.testing.assert_array_equal(made.racks, [8192 / 8 / each, 16384 / 8 / each])
    assert np.isinf(design(LLAMA, Site(rack_power=10e3), H100, META).racks)
    rack = design(LLAMA, Site(spares=0), machine("GB200"), replace(META, dp=32))
    assert rack.racks == math.ceil(4096 / 72)
    assert rack.per_server == 4


def test_a_server_without_a_rating_is_refused_by_name():
    with pytest.raises(ValueError, match="server_power must be given: no datasheet has the rating of H800 SXM"):
        plan(Training("Llama 3.1 8B", 1e12), Site("H800 SXM", gpus=64))


def test_a_year_of_a_cluster_has_the_interval_of_its_prices():
    listed = price_list("H100 SXM")
    one, many = (yearly_cost(1024, 1400 * 1024, listed, draws=n) for n in (1, 2000))
    assert one.value == many.value
    assert many.low < many.value < many.high
    drawn = samples(CENTRAL, 2000)
    # Energy alone is as uncertain as its price and the draw; what is built, as prices, life and interest.
    built = 1024 * (listed.servers + listed.network + listed.storage) * drawn.capital
    factor = drawn.interest / (1 - (1 + drawn.interest) ** (-drawn.life / year))
    watts = listed.substation + listed.generators + listed.electrical + listed.cooling + listed.building
    shell = drawn.interest / (1 - (1 + drawn.interest) ** -14) * watts * 1400 * 1024 * drawn.capital
    running = 1400 * 1024 * (drawn.draw * year * (drawn.energy_price + listed.water) + listed.staff + listed.operations)
    assert (many.low, many.high) == pytest.approx(np.quantile(built * factor + shell + running, (0.1, 0.9)), rel=1e-9)
    known = yearly_cost(1024, 1400 * 1024, listed, rate=0.08, life=5 * year, draws=2000)
    assert known.value == pytest.approx(many.value)
    assert known.high < many.high
