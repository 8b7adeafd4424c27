"""All drawings: every text has its room."""

import pkgutil

import pytest
import test_drawings_cluster as cluster
import test_drawings_contention as contention
import test_drawings_failures as failures
import test_drawings_interconnect as interconnect
import test_drawings_layouts as layouts
import test_drawings_operations as operations
import test_drawings_operations_schedule as schedule
import test_drawings_parallelism_shards as shards
import test_drawings_pipeline as pipeline
import test_drawings_post_training as post_training
import test_drawings_power as power
import test_drawings_roofline as roofline
import test_drawings_scaling as scaling
import test_drawings_serving as serving
import test_drawings_step as step
import test_drawings_symptoms as symptoms
from room import crowded

import drawings
from explorable import Box, Label, Scene

# What drawings were laid out for where it is not the widest letter: the average one is 6.4, a wide and bold one 7.8.
ROOMS = {
    cluster: {},
    contention: {},
    failures: {"edge": 6.4},
    interconnect: {"edge": 7.8},
    layouts: {},
    operations: {},
    schedule: {},
    shards: {"box": 7.0, "edge": 7.0, "tall": 4},  # small tiles, which hold one or two words
    pipeline: {},
    post_training: {},
    power: {"edge": 6.4},
    roofline: {},
    scaling: {},
    serving: {},
    step: {},
    symptoms: {},
}
EVERY = [(module, name) for module in ROOMS for name in module.SCENES]


@pytest.mark.parametrize(("module", "name"), EVERY, ids=[f"{m.__name__[14:]}: {name}" for m, name in EVERY])
def test_every_text_has_its_room(module, name):
    scene = module.SCENES[name]
    assert crowded(scene() if callable(scene) else scene, **ROOMS[module]) == []


def test_the_drawings_of_every_chapter_are_asked():
    asked = {module.__name__.removeprefix("test_drawings_") for module in ROOMS}
    asked |= {"plan"}  # its own test asks the same, of the plan that it makes
    there = {module.name for module in pkgutil.iter_modules(drawings.__path__)}
    assert {name for name in there if any(f"{one}_".startswith(f"{name}_") for one in asked)} == there
    assert all(any(f"{one}_".startswith(f"{name}_") for name in there) for one in asked)


@pytest.mark.parametrize(
    ("part", "said"),
    [
        (Box(10, 10, 40, 20, "too wide"), "leaves its box"),
        (Box(10, 10, 80, 20, "too\nhigh"), "leaves its box"),
        (Label(95, 50, "outside"), "leaves the drawing"),
        (Label(50, 3, "above"), "leaves the drawing"),
        (Label(60, 85, "across"), "meets"),
    ],
)
def test_a_text_without_room_is_found(part, said):
    around = [Label(50, 80, "in the way"), Box(2, 40, 90, 18, "in its box")]
    assert crowded(Scene(100, 100, around, alt="It fits.")) == []
    assert any(said in fault for fault in crowded(Scene(100, 100, [*around, part], alt="It does not.")))
