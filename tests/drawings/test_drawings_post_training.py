"""Drawings of post-training: what is drawn is what the laws say, and every text has its room."""

import numpy as np
import pytest

from clusterlab.catalogue import machine
from clusterlab.model import Layout, transformer
from clusterlab.post_training import Lengths, Loop, iterate, weight_routes
from clusterlab.serving import Replica
from drawings import post_training as draw
from explorable import Arrow, Box, Label

REPLICA = Replica(transformer("Llama 3.1 8B"), machine("H100 SXM"))
LOOP = Loop(REPLICA, 8, Layout(dp=8), Lengths(500, limit=2000), 64, 16)
FOUND = weight_routes(1.03e12, ranks=16, copies=16, senders=256, ports=8, bandwidth=50e9)
ROLES = [
    draw.Role("while it writes", {"weights": 16.4e9, "caches": 50e9}),
    draw.Role("while it learns", {"weights": 8.2e9, "gradients": 4e9, "optimizer": 12e9, "activations": 20e9}),
    draw.Role("both awake", {"weights": 24.6e9, "caches": 50e9, "optimizer": 12e9, "activations": 20e9}),
]


def routes(route):
    return draw.routes(route, FOUND, senders=256, copies=16, ranks=16, size=1.03e12)


SCENES = {f"route: {route}": (lambda route=route: routes(route)) for route in draw.ROUTES}
SCENES |= {"attempts": lambda: draw.attempts([1800, 7300, 900, 16384, 3000], 9.6e-3)}
SCENES |= {"circle": lambda: draw.circle(LOOP, iterate(LOOP), 16e9), "roles": lambda: draw.roles(ROLES, 80e9)}


def test_roles_are_drawn_to_one_scale():
    boxes = [part for part in draw.roles(ROLES, 80e9).parts if isinstance(part, Box) and part.height == 26]
    free = [box for box in boxes if not box.solid]
    assert [box.kind for box in free] == ["ink", "ink"]  # both at once leave nothing free
    (line,) = (part for part in draw.roles(ROLES, 80e9).parts if isinstance(part, Arrow))
    filled = [box.width / (line.x0 - 2) * 80e9 for box in boxes if box.solid]
    sizes = [size for role in ROLES for size in role.parts.values()]
    np.testing.assert_allclose(filled, sizes)
    np.testing.assert_allclose([box.x + box.width for box in free], line.x0)


def test_attempts_are_as_long_as_their_tokens_and_all_end_with_the_longest():
    boxes = [part for part in draw.attempts([1000, 7000, 3500], 10e-3).parts if isinstance(part, Box)]
    wrote = [box.width for box in boxes if box.kind == "cache"]
    np.testing.assert_allclose(np.array(wrote) / wrote[1], [1 / 7, 1, 1 / 2])
    assert {round(box.x + box.width, 6) for box in boxes if box.kind == "waste"} == {round(boxes[0].x + wrote[1], 6)}


def test_a_part_is_named_on_itself_where_it_has_room():
    parts = draw.roles(ROLES, 80e9).parts
    on_marks = {part.text for part in parts if isinstance(part, Box) and part.solid} - {""}
    beside = {part.text for part in parts if isinstance(part, Label) and not part.strong}
    assert on_marks == {"weights", "caches"}
    assert beside == {"80 GB", "gradients", "optimizer", "activations"}  # nowhere wide enough


@pytest.mark.parametrize("route", draw.ROUTES)
def test_a_route_says_the_seconds_of_its_law(route):
    said = {"one source": "5.49 min", "broadcast": "2.58 s", "shards": "1.29 s"}
    assert said[route] in routes(route).alt
