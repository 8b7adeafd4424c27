"""Arguments whose shapes do not fit together are refused at the call, by name, and not when a result is printed."""

import inspect
import itertools

import numpy as np
import pytest

from clusterlab.parallelism import (
    bubble_fraction,
    critical_stage,
    dualpipe_bubble,
    in_flight,
    model_state,
    pipeline,
    simulate,
    simulate_dualpipe,
    stage_layers,
)

# Each public law with sound numbers for all of its arguments that may be arrays.
LAWS = {
    stage_layers: {"layers": 8, "stages": 4, "stage": 1, "chunks": 2},
    critical_stage: {"layers": 8, "layer_time": 1.0, "embedding_time": 0.5, "output_time": 2.0}
    | {"stages": 4, "microbatches": 8, "chunks": 2},
    bubble_fraction: {"stages": 4, "microbatches": 8, "chunks": 2, "forward": 1.0, "backward": 2.0, "weight": 0.5},
    dualpipe_bubble: {"stages": 4, "forward": 1.0, "backward": 2.0, "weight": 0.5, "paired": 2.5},
    in_flight: {"stages": 4, "microbatches": 8, "stage": 1, "chunks": 2},
    model_state: {"parameters": 1e9, "shards": 8, "zero": 2}
    | {"weight_bytes": 2, "gradient_bytes": 4, "optimizer_bytes": 12},
}
# One argument or none, or one whose shape has a rule of its own.
OTHERS = {simulate, simulate_dualpipe}


@pytest.mark.parametrize("law", LAWS)
def test_two_arguments_of_shapes_that_do_not_fit_are_refused_at_the_call(law):
    for first, second in itertools.permutations(LAWS[law], 2):
        arguments = LAWS[law] | {first: np.full(3, LAWS[law][first]), second: np.full(2, LAWS[law][second])}
        with pytest.raises(ValueError, match=r"^shapes do not fit together: ") as refusal:
            law(**arguments)
        assert f"{first} (3,)" in str(refusal.value)
        assert f"{second} (2,)" in str(refusal.value)


def test_every_public_law_of_these_modules_is_tried():
    public = set()
    for module in (pipeline,):
        functions = inspect.getmembers(module, inspect.isfunction)
        public |= {law for name, law in functions if law.__module__ == module.__name__ and name[0] != "_"}
    assert public | {model_state} == set(LAWS) | OTHERS
    for law, arguments in LAWS.items():
        assert set(inspect.signature(law).parameters) - {"schedule"} == set(arguments)
