"""Speedup: published speedups, limits, and the two ratios against rings and FLOPs counted one by one."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterlab.collectives import ring_all_reduce
from clusterlab.speedup import amdahl_speedup, data_parallel_ratio, gustafson_speedup, tensor_parallel_ratio
from clusterlab.transformer import Transformer, parameters, training_flops
from laws import assert_equals_a_loop

SHARES, COUNTS = st.floats(1e-6, 1), st.integers(1, 10**6)
H100 = {"rate": 989e12 / 2, "bandwidth": 50e9}


def test_the_speedups_of_fleet_foundations():
    """MLSysBook, Fleet Foundations, Amdahl's law at fleet scale: a tenth is serial."""
    found = amdahl_speedup(0.1, [32, 256, 1024, 8192])
    np.testing.assert_allclose(found, [7.8, 9.7, 9.9, 10.0], atol=0.05)


@given(SHARES, COUNTS)
def test_speedups_lie_between_one_and_the_processors(serial, n):
    same, grown = amdahl_speedup(serial, n), gustafson_speedup(serial, n)
    assert 1 - 1e-12 <= same <= min(1 / serial, n) * (1 + 1e-12)
    assert same <= grown * (1 + 1e-9)
    assert grown <= n * (1 + 1e-12)
    # The serial share of the large run, seen from one processor, makes the two laws one.
    assert amdahl_speedup(serial / grown, n) == pytest.approx(grown)


@given(st.floats(1e6, 1e12), st.floats(1e2, 1e7), st.sampled_from([2, 4]))
def test_data_parallel_ratio_is_a_ring_all_reduce_over_six_flops_per_parameter_and_token(size, tokens, grad):
    n = 10**6  # a ring of many ranks
    ring = ring_all_reduce(grad * size, n, bandwidth=H100["bandwidth"], latency=0).time
    work = 6 * size * tokens / H100["rate"]
    assert data_parallel_ratio(tokens, **H100, gradient_bytes=grad) == pytest.approx(ring / work, rel=1e-5)


@pytest.mark.parametrize("tp", [1, 2, 8, 64])
def test_tensor_parallel_ratio_is_four_ring_all_reduces_over_the_flops_of_a_layer(tp):
    """A GPT's layer, counted: its FLOPs without attention's scores, and two all-reduces forward and two backward."""
    one, two = (Transformer(layers=n, hidden=8192, heads=64, ffn=4 * 8192, vocab=1) for n in (1, 2))
    layer = parameters(two).total - parameters(one).total
    tokens = 4096
    flops = 6 * layer * tokens / tp
    assert flops < (training_flops(two, 4096).model - training_flops(one, 4096).model) * tokens / tp
    ring = ring_all_reduce(2 * tokens * 8192, tp, bandwidth=H100["bandwidth"], latency=0).time
    counted = 4 * ring / (flops / H100["rate"])
    assert tensor_parallel_ratio(tp, 8192, **H100) == pytest.approx(counted, rel=1e-3)


def test_arrays_are_loops():
    tp, hidden = np.array([2, 8, 64]), np.array([4096, 8192, 16384])
    assert_equals_a_loop(
        tensor_parallel_ratio(tp, hidden, **H100),
        [tensor_parallel_ratio(t, h, **H100) for t, h in zip(tp, hidden, strict=True)],
    )
    assert_equals_a_loop(data_parallel_ratio(hidden, **H100), [data_parallel_ratio(d, **H100) for d in hidden])
    for law in (amdahl_speedup, gustafson_speedup):
        assert_equals_a_loop(law(0.1, tp), [law(0.1, n) for n in tp])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: amdahl_speedup(0, 8), "serial must be above 0 and at most 1, got 0"),
        (lambda: gustafson_speedup(1.5, 8), "serial must be above 0 and at most 1, got 1.5"),
        (lambda: amdahl_speedup(0.1, 2.5), "n must be a whole number of at least 1, got 2.5"),
        (lambda: data_parallel_ratio(0, **H100), "tokens must be positive and finite, got 0"),
        (lambda: data_parallel_ratio(8, **H100 | {"rate": np.inf}), "rate must be positive and finite, got inf"),
        (lambda: tensor_parallel_ratio(0, 8, **H100), "tp must be a whole number of at least 1, got 0"),
        (lambda: tensor_parallel_ratio(8, 8, **H100, activation_bytes=-2), "activation_bytes must be positive"),
    ],
)
def test_nonsense_is_refused_by_name(call, message):
    with pytest.raises(ValueError, match=message):
        call()
