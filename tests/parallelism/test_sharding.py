"""Sharding: rings of real arrays against NumPy and the laws; the chapter's ten lines against the unsharded layer."""

import ast
from collections import Counter
from pathlib import Path

import nbformat
import numpy as np
import pytest
from drawings.parallelism import shards
from hypothesis import given
from hypothesis import strategies as st

from clusterlab.interconnect import pairwise_all_to_all, ring_all_gather, ring_all_reduce, ring_reduce_scatter
from clusterlab.parallelism import Ranks

FREE = {"bandwidth": 1.0, "latency": 0.0}
PAGES = [Path(__file__).parents[2] / "book" / f"{name}.ipynb" for name in ("parallelism", "mix")]
counts = st.integers(1, 6)
sizes = st.integers(1, 4)


def arrays(*shapes, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.normal(size=shape) for shape in shapes]


@given(n=counts, rows=sizes, columns=sizes, axis=st.sampled_from([0, 1]))
def test_collectives_move_what_they_say_and_send_what_the_laws_count(n, rows, columns, axis):
    parts = arrays(*[(n * rows, n * columns)] * n)
    total, size = sum(parts), parts[0].size
    ranks = Ranks(n)
    for each in ranks.all_reduce(parts):
        np.testing.assert_allclose(each, total)
    scattered = ranks.reduce_scatter(parts, axis)
    for mine, right in zip(scattered, np.split(total, n, axis), strict=True):
        np.testing.assert_allclose(mine, right)
    for each in ranks.all_gather(scattered, axis):
        np.testing.assert_allclose(each, total)
    laws = [ring_all_reduce, ring_reduce_scatter, ring_all_gather]
    assert [sent.values for sent in ranks.sent] == [law(size, n, **FREE).sent_bytes for law in laws]


@given(n=counts, each=sizes)
def test_an_all_to_all_transposes_and_sends_all_but_its_own_block(n, each):
    blocks = [[np.full(each, 10 * i + j) for j in range(n)] for i in range(n)]
    ranks = Ranks(n)
    got = ranks.all_to_all(blocks)
    assert all((got[j][i] == 10 * i + j).all() for i in range(n) for j in range(n))
    assert ranks.sent[0].values == pytest.approx(pairwise_all_to_all(n * each, n, **FREE).sent_bytes)


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (lambda ranks: ranks.split(np.ones((6, 4))), r"axis 0 of shape \(6, 4\) cannot be cut into 4 equal parts"),
        (lambda ranks: ranks.all_reduce([np.ones(4)] * 3), "4 ranks hold 4 arrays, got 3"),
        (lambda ranks: ranks.all_to_all([[np.ones(1)] * 2] * 4), "4 ranks hold 4 arrays, got 2"),
        (lambda _: Ranks(0), "n must be a whole number of at least 1, got 0"),
    ],
)
def test_arrays_that_do_not_fit_the_ranks_are_refused(wrong, told):
    with pytest.raises(ValueError, match=told):
        wrong(Ranks(4))


# --- the chapter's functions -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def lines():
    """What the visible cells of both pages that are tagged ``sharding`` define."""
    cells = [c for page in PAGES for c in nbformat.read(page, 4).cells if "sharding" in c.metadata.get("tags", ())]
    functions = [node for cell in cells for node in ast.parse(cell.source).body if isinstance(node, ast.FunctionDef)]
    names: dict = {"np": np}
    exec(compile(ast.Module(functions, []), "sharding", "exec"), names)
    return names


def drawn(way, b, d, f):
    """Values that the picture's collectives send, by name."""
    total: Counter = Counter()
    for phase in shards.WAYS[way].phases:
        for move in phase.moves:
            size = shards.Sizes(b, d, f, 2 * d)
            total[move.collective] += shards.sent_bytes(move._replace(value_bytes=1), size)
    return total


def sent(ranks):
    total: Counter = Counter()
    for one in ranks.sent:
        total[one.collective] += one.values
    return total


shape = {"b": sizes, "d": sizes, "f": sizes}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("way", "name"),
    [("DP", "data_parallel"), ("ZeRO 3", "zero_3"), ("TP", "tensor_parallel"), ("TP + SP", "sequence_parallel")],
)
@given(**shape)
def test_shards_give_the_unsharded_product_and_gradients_and_send_what_is_drawn(lines, way, name, b, d, f):
    b, d, f = 4 * b, 4 * d, 4 * f
    x, w1, w2, dy = arrays((b, d), (d, f), (f, d), (b, d))
    h, y = lines["forward"](x, w1, w2)
    ranks = Ranks(4)
    for got, right in zip(lines[name](x, w1, w2, dy, ranks), [y, *lines["backward"](x, w1, w2, h, dy)], strict=True):
        np.testing.assert_allclose(got, right)
    assert sent(ranks) == drawn(way, b, d, f)


def test_the_layer_s_own_gradients_are_those_of_finite_differences(lines):
    values = arrays((3, 2), (2, 5), (5, 2))
    (dy,) = arrays((3, 2), seed=1)
    h, _ = lines["forward"](*values)
    for i, gradient in enumerate(lines["backward"](*values, h, dy)):
        assert gradient == pytest.approx(differences(lambda *v: lines["forward"](*v)[1], values, i, dy), abs=1e-6)


def differences(function, values, i, dy, by=1e-6):
    """Central differences of the sum of ``function(*values) * dy`` in each element of one of the values."""
    slope = np.zeros_like(values[i])
    for place in np.ndindex(slope.shape):
        moved = []
        for sign in (1, -1):
            these = [value.copy() for value in values]
            these[i][place] += sign * by
            moved.append(np.sum(function(*these) * dy))
        slope[place] = (moved[0] - moved[1]) / (2 * by)
    return slope


@given(**shape)
def test_zero_1_updates_the_weights_as_one_gpu_would_and_sends_what_is_drawn(lines, b, d, f):
    b, d, f = 4 * b, 4 * d, 4 * f
    x, w1, w2, dy = arrays((b, d), (d, f), (f, d), (b, d))
    ranks, (h, _) = Ranks(4), lines["forward"](x, w1, w2)
    _, dw1, dw2 = lines["backward"](x, w1, w2, h, dy)
    for got, right in zip(lines["zero_1"](x, w1, w2, dy, ranks), (w1 - 0.1 * dw1, w2 - 0.1 * dw2), strict=True):
        np.testing.assert_allclose(got, right, atol=1e-12)
    assert sent(ranks) == drawn("ZeRO 1", b, d, f)


@given(**shape, m=st.sampled_from([1, 2, 3]))
def test_zero_2_updates_likewise_and_sends_its_gradients_after_every_microbatch(lines, b, d, f, m):
    b, d, f = 4 * m * b, 4 * d, 4 * f
    x, w1, w2, dy = arrays((b, d), (d, f), (f, d), (b, d))
    ranks, (h, _) = Ranks(4), lines["forward"](x, w1, w2)
    _, dw1, dw2 = lines["backward"](x, w1, w2, h, dy)
    for got, right in zip(lines["zero_2"](x, w1, w2, dy, ranks, m), (w1 - 0.1 * dw1, w2 - 0.1 * dw2), strict=True):
        np.testing.assert_allclose(got, right, atol=1e-12)
    once = drawn("ZeRO 2", b, d, f)  # the picture is of one microbatch
    assert sent(ranks) == once | {"reduce-scatter": m * once["reduce-scatter"]}
    assert once == drawn("ZeRO 1", b, d, f)


def pipeline(lines, x, layers, dy, ranks, m=4):
    """Two stages of a layer each, microbatch by microbatch: what they hand on is Y, and the next layer's dX back."""
    forward, backward = lines["forward"], lines["backward"]
    results = []
    for xi, dyi in zip(np.split(x, m), np.split(dy, m), strict=True):
        h0, y0 = forward(xi, *layers[0])
        x1 = ranks.send(y0)
        h1, y1 = forward(x1, *layers[1])
        dx1, *grads1 = backward(x1, *layers[1], h1, dyi)
        dx0, *grads0 = backward(xi, *layers[0], h0, ranks.send(dx1))
        results.append((y1, dx0, *grads0, *grads1))
    y, dx, *grads = zip(*results, strict=True)
    return [np.vstack(y), np.vstack(dx), *map(sum, grads)]


@given(**shape)
def test_a_pipeline_gives_the_unsharded_product_and_hands_on_what_is_drawn(lines, b, d, f):
    b = 4 * b
    x, w1, w2, v1, v2, dy = arrays((b, d), (d, f), (f, d), (d, f), (f, d), (b, d))
    layers, ranks = [(w1, w2), (v1, v2)], Ranks(2)
    h0, y0 = lines["forward"](x, w1, w2)
    h1, y1 = lines["forward"](y0, v1, v2)
    dx1, *grads1 = lines["backward"](y0, v1, v2, h1, dy)
    right = [y1, *lines["backward"](x, w1, w2, h0, dx1), *grads1]
    for one, other in zip(pipeline(lines, x, layers, dy, ranks), right, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-10)
    assert sent(ranks)["send"] == drawn("PP", b, d, f)["send"]


@given(b=sizes, d=sizes)
def test_context_parallel_attention_is_attention_and_sends_what_is_drawn(lines, b, d):
    def attention(q, k, v):
        e = np.exp(q @ k.T)
        return e / e.sum(1, keepdims=True) @ v

    b = 4 * b
    values, (dy,) = arrays(*[(b, d)] * 3), arrays((b, d), seed=1)
    ranks = Ranks(4)
    y, *gradients = lines["context_parallel"](*values, dy, ranks)
    np.testing.assert_allclose(y, attention(*values))
    for i, gradient in enumerate(gradients):
        np.testing.assert_allclose(gradient, differences(attention, values, i, dy), atol=1e-6)
    of_attention = drawn("CP", b, d, 0) - Counter()
    assert sent(ranks) == of_attention


@pytest.mark.slow
@given(**shape, seed=st.integers(0, 50))
def test_experts_on_four_ranks_give_each_token_what_its_expert_gives(lines, b, d, f, seed):
    b = 4 * b
    x, w1, w2, dy = arrays((b, d), (4, d, f), (4, f, d), (b, d))
    expert = np.random.default_rng(seed).integers(0, 4, b)
    y, dx, dw1, dw2 = lines["expert_parallel"](x, w1, w2, dy, expert, ranks := Ranks(4))
    for e in range(4):
        of = expert == e
        h, right = lines["forward"](x[of], w1[e], w2[e])
        gradients = lines["backward"](x[of], w1[e], w2[e], h, dy[of])
        for got, want in zip((y[of], dx[of], dw1[e], dw2[e]), (right, *gradients), strict=True):
            np.testing.assert_allclose(got, want, atol=1e-12)
    assert set(sent(ranks)) == set(drawn("EP", b, d, f)) == {"all-to-all"}


def test_balanced_experts_send_what_is_drawn(lines):
    x, w1, w2, dy = arrays((16, 3), (4, 3, 5), (4, 5, 3), (16, 3))
    lines["expert_parallel"](x, w1, w2, dy, np.tile(range(4), 4), ranks := Ranks(4))
    assert sent(ranks) == drawn("EP", 16, 3, 5)
