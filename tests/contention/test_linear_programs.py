"""Max-min rates by linear programs, which know nothing of filling links: the least rate as large as it can be, then the
next. HiGHS solves them."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from clusterlab.contention import NONE, Routes, max_min_rates


def by_programs(capacity, crosses, weight):
    """Rates of flows of which ``crosses[link, flow]`` is the share of a flow's bytes on a link, by successive programs.

    One program raises the level of all flows that are still free. Then each of them is tried alone, at that level for
    the others: who cannot have more is held, for good.
    """
    room, rate, free = np.array(capacity, float), np.zeros(len(weight)), np.arange(len(weight))
    slack = 1e-9 * max(np.max(capacity), 1.0)  # others are at a level that rounding may have put a hair too high
    while free.size:
        uses = crosses[:, free] * weight[free]  # of each link for one unit of a flow's level
        together = linprog([-1.0], A_ub=uses.sum(axis=1, keepdims=True), b_ub=room, method="highs")
        level = together.x[0]
        most = np.empty(free.size)
        for at in range(free.size):
            only = np.arange(free.size) == at
            ends = [(level, None) if one else (level, level) for one in only]
            alone = linprog(-1.0 * only, A_ub=uses, b_ub=room + slack, bounds=ends, method="highs")
            most[at] = alone.x[at]
        held = most <= level + 1e3 * slack
        assert held.any()
        rate[free[held]] = level * weight[free[held]]
        room = np.maximum(room - crosses[:, free[held]] @ rate[free[held]], 0.0)
        free = free[~held]
    return rate


@st.composite
def fabrics(draw):
    """Links, flows that cross some of them whole or in parts, weights, and one or two priorities."""
    links, flows = draw(st.integers(1, 5)), draw(st.integers(1, 6))
    capacity = np.array(draw(st.lists(st.integers(1, 40), min_size=links, max_size=links)), float)
    table = np.full((flows, 3), NONE)
    for flow in table:
        ways = draw(st.permutations(range(links)))[: draw(st.integers(1, min(3, links)))]
        flow[: len(ways)] = ways
    parts = st.sampled_from([0.25, 0.5, 1.0])
    share = np.array(draw(st.lists(parts, min_size=table.size, max_size=table.size))).reshape(table.shape)
    weight = np.array(draw(st.lists(st.sampled_from([0.5, 1.0, 2.0, 3.0]), min_size=flows, max_size=flows)))
    order = np.array(draw(st.lists(st.integers(0, 1), min_size=flows, max_size=flows)))
    return capacity, Routes(table, share if draw(st.booleans()) else None), weight, order


@given(fabrics())
@settings(max_examples=25)
def test_rates_are_those_of_linear_programs(case):
    """Weighted, split, and a class of priority after the other, with what those before left."""
    capacity, routes, weight, order = case
    crosses = np.zeros((len(capacity), len(weight)))
    for flow, links in enumerate(routes.links):
        for at, link in enumerate(links):
            if link != NONE:
                crosses[link, flow] += 1.0 if routes.share is None else routes.share[flow, at]
    room, expected = capacity.copy(), np.zeros(len(weight))
    for first in (1, 0):
        these = np.flatnonzero(order == first)
        expected[these] = by_programs(room, crosses[:, these], weight[these])
        room = np.maximum(room - crosses[:, these] @ expected[these], 0.0)
    rates = max_min_rates(capacity, routes, weight=weight, priority=order)
    np.testing.assert_allclose(rates, expected, atol=1e-5 * capacity.max())
