"""Nothing changed by accident: what the library predicted before it was rebuilt, it predicts still."""

import json

import pytest

import frozen

BEFORE = json.loads(frozen.FILE.read_text())


@pytest.mark.parametrize("kind", BEFORE)
def test_the_library_predicts_what_it_predicted(kind):
    assert getattr(frozen, kind)() == pytest.approx(BEFORE[kind], rel=1e-9, abs=1e-300)


def test_everything_is_frozen():
    """The published runs and collectives are all there, and hundreds of figures of the rest."""
    counts = {kind: len(values) for kind, values in BEFORE.items()}
    assert counts["training_runs"] == 2 * 692 + 13
    assert counts["collectives"] == 2 * 776
    assert min(counts.values()) > 100
