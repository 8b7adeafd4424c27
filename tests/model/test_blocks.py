"""Blocks: layers that really run, ranks that are cut one by one, every method of every kind, and a new kind."""

import tomllib
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clusterlab.catalogue import SOFTWARE, machine
from clusterlab.model import (
    Attention,
    Block,
    Experts,
    FeedForward,
    GatedDeltaNet,
    Gemm,
    LatentAttention,
    Layout,
    Mamba2,
    MultiToken,
    Rank,
    Recurrent,
    SlidingWindow,
    Transformer,
    Workload,
    forward_flops,
    kv_cache_bytes,
    parameters,
    state_bytes,
    trained,
    training_flops,
    transformer,
)
from clusterlab.model.blocks import HyperConnection
from clusterlab.model.mixers import CompressedAttention, KimiDelta, SparseAttention, SparseLatentAttention
from clusterlab.model.published import read_models
from clusterlab.parallelism import STEP_PARTS, footprint, step
from clusterlab.serving import PASS_PARTS, Batch, Formats, Replica, forward_pass, largest_batch, replica_footprint

SMALL = Transformer(layers=4, hidden=64, heads=8, kv_heads=4, ffn=96, gated=True, vocab=160)


# --- Mixers that run -------------------------------------------------------------------------------------------------


class Counted:
    """Holds tensors of a layer, and counts their elements and the multiply-adds of its GEMMs, two FLOPs each."""

    def __init__(self, seed: int = 0) -> None:
        self.rng, self.elements, self.flops = np.random.default_rng(seed), 0, 0

    def tensor(self, *shape: int) -> np.ndarray:
        self.elements += int(np.prod(shape))
        return self.rng.standard_normal(shape) / np.sqrt(shape[0])

    def times(self, x: np.ndarray, matrix: np.ndarray) -> np.ndarray:
        self.flops += 2 * np.atleast_2d(x).shape[0] * matrix.shape[0] * matrix.shape[1]
        return x @ matrix


def silu(x):
    return x / (1 + np.exp(-x))


def run_mamba(block: Mamba2, hidden: int, tokens: int) -> tuple[Counted, int]:
    """A Mamba-2 mixer, token by token: what it holds and multiplies, and the numbers that it keeps of the sequence."""
    layer, n, p, g, s = Counted(), block.heads, block.head_dim, block.groups, block.state
    into, out = layer.tensor(hidden, 2 * n * p + 2 * g * s + n), layer.tensor(n * p, hidden)
    convolution, its_bias = layer.tensor(4, n * p + 2 * g * s), layer.tensor(n * p + 2 * g * s)
    decay, step_bias, skip, norm = layer.tensor(n), layer.tensor(n), layer.tensor(n), layer.tensor(n * p)
    recent, state = np.zeros((3, n * p + 2 * g * s)), np.zeros((n, p, s))
    for x in layer.rng.standard_normal((tokens, hidden)):
        gate, inputs, dt = np.split(layer.times(x, into), [n * p, 2 * n * p + 2 * g * s])
        seen = np.vstack([recent, inputs])
        recent, inputs = seen[1:], silu((seen * convolution).sum(axis=0) + its_bias)
        values, keys, queries = np.split(inputs, [n * p, n * p + g * s])
        values, dt = values.reshape(n, p), np.log1p(np.exp(dt + step_bias))
        keys, queries = (np.repeat(one.reshape(g, s), n // g, axis=0) for one in (keys, queries))
        state *= np.exp(-dt * np.exp(decay))[:, None, None]
        state += dt[:, None, None] * values[:, :, None] * keys[:, None, :]
        y = (state @ queries[:, :, None])[..., 0] + skip[:, None] * values
        y = y.ravel() * silu(gate)
        layer.times(norm * y / np.sqrt(np.mean(y**2)), out)
    return layer, recent.size + state.size


def delta_rule(state, query, key, value, keep, write):
    """One token of the gated delta rule: what the key finds is forgotten, then its value is written, then read."""
    state = keep * state
    state = state + write * np.outer(key, value - key @ state)
    return state, query @ state


def run_delta(block: GatedDeltaNet, hidden: int, tokens: int) -> tuple[Counted, int]:
    """A gated DeltaNet, token by token."""
    layer, n, k, m, v = Counted(), block.heads, block.head_dim, block.value_heads, block.value_dim
    into, gates = layer.tensor(hidden, 2 * n * k + 2 * m * v), layer.tensor(hidden, 2 * m)
    convolution, out = layer.tensor(4, 2 * n * k + m * v), layer.tensor(m * v, hidden)
    decay, step_bias, norm = layer.tensor(m), layer.tensor(m), layer.tensor(v)
    recent, states = np.zeros((3, 2 * n * k + m * v)), np.zeros((m, k, v))
    for x in layer.rng.standard_normal((tokens, hidden)):
        inputs, gate = np.split(layer.times(x, into), [2 * n * k + m * v])
        writes, steps = np.split(layer.times(x, gates), 2)
        seen = np.vstack([recent, inputs])
        recent, inputs = seen[1:], silu((seen * convolution).sum(axis=0))
        queries, keys, values = np.split(inputs, [n * k, 2 * n * k])
        queries, keys = (np.repeat(one.reshape(n, k), m // n, axis=0) for one in (queries, keys))
        keys = keys / np.linalg.norm(keys, axis=1, keepdims=True)
        keeps = np.exp(-np.exp(decay) * np.log1p(np.exp(steps + step_bias)))
        y = np.zeros((m, v))
        for i, value in enumerate(values.reshape(m, v)):
            write = 1 / (1 + np.exp(-writes[i]))
            states[i], y[i] = delta_rule(states[i], queries[i], keys[i], value, keeps[i], write)
        y = norm * y / np.sqrt(np.mean(y**2, axis=1, keepdims=True))
        layer.times(y.ravel() * silu(gate), out)
    return layer, recent.size + states.size


few = st.integers(1, 4)
MIXERS = {
    run_mamba: st.builds(
        lambda groups, per_group, dim, state: Mamba2(groups * per_group, dim, state, groups), few, few, few, few
    ),
    run_delta: st.builds(
        lambda heads, times, dim, value: GatedDeltaNet(heads, dim, heads * times, value), few, few, few, few
    ),
}


@pytest.mark.parametrize("run", MIXERS)
@settings(max_examples=30, deadline=None)
@given(data=st.data(), hidden=st.integers(1, 9), tokens=st.integers(1, 5))
def test_a_mixer_holds_multiplies_and_keeps_what_one_that_runs_does(run, data, hidden, tokens):
    block = data.draw(MIXERS[run])
    layer, kept = run(block, hidden, tokens)
    shape = Transformer(layers=1, hidden=hidden, heads=1, ffn=3, vocab=2, others=((1, block),))
    assert sum(block.weights(shape)) + block.extra == layer.elements
    assert parameters(shape).recurrent == layer.elements
    assert forward_flops(shape, tokens).projections * tokens == layer.flops
    assert block.state_elements(shape) == state_bytes(shape, bytes_per_element=1) == kept
    assert kv_cache_bytes(shape, tokens) == 0


@pytest.mark.parametrize(("keys", "values"), [(4, 6), (16, 8)])
def test_a_delta_rule_by_chunks_is_the_recurrence_and_costs_what_the_block_says(keys, values):
    """Yang et al. 2024 (Gated Delta Networks), section 3: the WY form of a chunk, states carried over chunks."""
    q = GatedDeltaNet.chunk
    tokens, layer = 3 * q, Counted(5)
    query, value = layer.rng.standard_normal((tokens, keys)), layer.rng.standard_normal((tokens, values))
    key = layer.rng.standard_normal((tokens, keys))
    key /= np.linalg.norm(key, axis=1, keepdims=True)
    keep, write = layer.rng.uniform(0.9, 1.0, tokens), layer.rng.uniform(0, 1, tokens)
    slow, state = np.zeros((tokens, values)), np.zeros((keys, values))
    for t in range(tokens):
        state, slow[t] = delta_rule(state, query[t], key[t], value[t], keep[t], write[t])
    fast, state, inverted = np.zeros((tokens, values)), np.zeros((keys, values)), 0
    for first in range(0, tokens, q):
        some = slice(first, first + q)
        kept = np.cumprod(keep[some])
        decay = np.tril(kept[:, None] / kept)
        triangle = np.tril(layer.times(key[some], key[some].T) * decay * write[some, None], -1)
        inverse = np.eye(q)
        for i in range(1, q):  # row by row: what earlier tokens have written is taken into account
            inverse[i, :i] = -triangle[i, :i] @ inverse[:i, :i]
            inverted += i * (i + 1)  # two FLOPs for each element of a triangle
        inverse = inverse * write[some]
        from_keys = layer.times(inverse, key[some] * kept[:, None])
        new = layer.times(inverse, value[some]) - layer.times(from_keys, state)
        scores = layer.times(query[some], key[some].T) * decay
        fast[some] = layer.times(query[some] * kept[:, None], state) + layer.times(scores, new)
        state = kept[-1] * state + layer.times((key[some] * (kept[-1] / kept)[:, None]).T, new)
    np.testing.assert_allclose(fast, slow, rtol=1e-9, atol=1e-9)
    block = GatedDeltaNet(heads=1, head_dim=keys, value_heads=1, value_dim=values)
    assert block.scan(SMALL)[0] * tokens == layer.flops
    three = replace(block, value_heads=3)
    assert three.scan(SMALL)[0] == 3 * block.scan(SMALL)[0]
    # Left out, as its docstring says: the inverse, Q^2 / 3 FLOPs a token.
    assert inverted / tokens == pytest.approx(q**2 / 3, rel=0.01)
    whole = GatedDeltaNet(heads=1, value_heads=1)
    assert 0.005 < q**2 / 3 / whole.scan(SMALL)[0] < 0.01


@pytest.mark.parametrize(
    ("block", "made"),
    [
        (Mamba2(16, 4, 8, 2), 2 * 16 * 4 + 2 * 2 * 8 + 16),  # gate and values, keys and queries, steps
        (GatedDeltaNet(8, 16, 16, 4), 2 * 8 * 16 + 2 * 16 * 4 + 2 * 16),  # queries and keys, values and gate, two gates
    ],
)
def test_a_mixer_keeps_its_inputs_what_it_makes_of_them_and_what_its_scan_returns(block, made):
    rank = Rank(tokens=100.0, sequence=100.0, software=SOFTWARE["2024"])
    kept = block.activations(SMALL, rank)
    assert kept == {"norms": 2 * 100 * 64, "attention": 2 * 100 * (64 + made + 64)}
    halves = block.activations(SMALL, rank._replace(tp=2.0))
    assert {name: 2 * part for name, part in halves.items()} == kept


# --- Ranks that are cut one by one -----------------------------------------------------------------------------------

LATENT = replace(SMALL, kv_heads=8, kv_rank=16, query_rank=24, rope_dim=4, value_dim=8)
MIXTURE = replace(SMALL, experts=8, experts_per_token=2, shared_experts=1, expert_ffn=32)


def attention_of_a_rank(rank, tp):
    """Queries and outputs of its heads, and each head of keys and values that one of them needs."""
    heads, per_key = range(rank * 8 // tp, (rank + 1) * 8 // tp), SMALL.heads // SMALL.kv_heads
    return SMALL.hidden * SMALL.head_dim * (2 * len(heads) + 2 * len({head // per_key for head in heads}))


def latents_of_a_rank(rank, tp):
    s, heads = LATENT, 8 // tp
    down = s.hidden * (s.query_rank + s.kv_rank + s.rope_dim)  # whole on each
    up = s.query_rank * heads * (s.head_dim + s.rope_dim) + s.kv_rank * heads * (s.head_dim + s.value_dim)
    return down + up + heads * s.value_dim * s.hidden


def shared_of_a_rank(rank, tp):
    return 3 * MIXTURE.hidden * (MIXTURE.expert_ffn // tp) + MIXTURE.hidden * MIXTURE.experts  # the router is whole


def delta_of_a_rank(rank, tp):
    """Queries and keys of its heads, the values, gates and outputs that belong to them."""
    return 64 * (2 * (8 // tp) * 16 + 3 * (16 // tp) * 4 + 2 * (16 // tp))


def kimi_of_a_rank(rank, tp):
    """As of a delta rule, but for gates and rates, which come through a rank that is whole on each."""
    width, keys = 16 // tp * 4, 8 // tp * 16
    return 64 * (2 * keys + 2 * width + 16 // tp + 2 * 4) + 4 * (keys + width)


def mamba_of_a_rank(rank, tp):
    return 64 * (3 * (16 // tp) * 4 + 2 * (8 // tp) * 8 + 16 // tp)


CUT = {
    "Attention": (Attention(), SMALL, attention_of_a_rank),
    "SlidingWindow": (SlidingWindow(4), SMALL, attention_of_a_rank),
    "LatentAttention": (LatentAttention(), LATENT, latents_of_a_rank),
    "FeedForward": (FeedForward(), SMALL, lambda _, tp: 3 * 64 * 96 // tp),
    "Experts": (Experts(), MIXTURE, shared_of_a_rank),
    "GatedDeltaNet": (GatedDeltaNet(8, 16, 16, 4), SMALL, delta_of_a_rank),
    "KimiDelta": (KimiDelta(8, 16, 16, 4), SMALL, kimi_of_a_rank),
    "Mamba2": (Mamba2(16, 4, 8, 8), SMALL, mamba_of_a_rank),
}


@pytest.mark.parametrize("tp", [1, 2, 4, 8])
@pytest.mark.parametrize("name", CUT)
def test_a_rank_holds_what_is_cut_for_it(name, tp):
    block, shape, of_rank = CUT[name]
    held = [of_rank(rank, tp) for rank in range(tp)]
    assert {block.on_rank(shape, tp)} == set(held)
    split, shared = block.weights(shape)
    # All ranks together hold the whole, and beside it what each has of the shared ones, and copies.
    assert sum(held) == split + shared + (tp - 1) * shared + block.copies(shape, tp)
    assert tp * block.on_rank(shape, tp, copies=False) == split + tp * shared
    if tp == 1:
        assert block.copies(shape, 1) == 0


# --- Every kind ------------------------------------------------------------------------------------------------------


def kinds(of: type[Block] = Block) -> list[type[Block]]:
    """Every kind of block that the library has and that can be made."""
    found = [] if of in (Block, Recurrent) else [of]
    found += [one for kind in of.__subclasses__() if kind.__module__.startswith("clusterlab") for one in kinds(kind)]
    return [*dict.fromkeys(found)]


# A kind with a prefix stands in every other layer of the small model; these are in models of their own.
MODELS = {
    LatentAttention: LATENT,
    Experts: MIXTURE,
    MultiToken: replace(SMALL, mtp_depth=1),
    Mamba2: replace(SMALL, others=((2, Mamba2(16, 4, 8, 8)),)),
    GatedDeltaNet: replace(SMALL, others=((2, GatedDeltaNet(8, 16, 16, 4)),)),
    KimiDelta: replace(SMALL, others=((2, KimiDelta(8, 16, 16, 4)),)),
    SlidingWindow: replace(SMALL, others=((2, SlidingWindow(16)),)),
    SparseAttention: replace(SMALL, others=((2, SparseAttention(16, 2, 8)),)),
    CompressedAttention: replace(SMALL, kv_heads=1, others=((2, CompressedAttention(4, 2, 8, 4, 16, 12, 4, 6)),)),
    HyperConnection: replace(SMALL, streams=4),
}


def model_of(kind: type[Block]) -> Transformer:
    return MODELS.get(kind, replace(SMALL, others=((2, kind()),)) if kind.prefix else SMALL)


def answers(block: Block, shape: Transformer, tp) -> dict:
    """What each method of a block says, in plain numbers by name."""
    rank = Rank(tp=tp, ep=1.0, expert_tp=tp, tokens=128.0, sequence=64.0, software=SOFTWARE["2022"])
    narrow = rank._replace(operand_bytes=1.0, sequence_parallel=False, software=SOFTWARE["2026"])
    found = {
        "weights": block.weights(shape),
        "counts": block.counts(shape),
        "biases": block.biases(shape),
        "limits": [most for _, most in block.limits(shape).values()],
        "flops": block.flops(shape),
        "scores": block.scores(shape, 64.0, causal=True),
        "decode_scores": block.decode_scores(shape, 64.0),
        "score_elements": block.score_elements(shape, 64.0),
        "scan": block.scan(shape),
        "columns": block.columns(shape),
        "routing": block.routing(shape) or (),
        "middle": block.middle(shape),
        "fused_elements": block.fused_elements(shape),
        "cache_elements": block.cache_elements(shape, 64.0),
        "cache_share": (block.cache_share(shape, tp), block.cache_share(shape, tp, 4.0)),
        "state_elements": block.state_elements(shape),
        "copies": block.copies(shape, tp),
        "on_rank": block.on_rank(shape, tp),
        "besides_on_rank": block.besides_on_rank(shape, tp),
        "largest_matrix": block.largest_matrix(shape, tp),
        "context_elements": block.context_elements(shape, tp),
        "exchanged": block.exchanged(shape) or 0,
    }
    for name, one in {"usual": rank, "narrow": narrow}.items():
        found |= {f"{name} gemm {i}": gemm for i, gemm in enumerate(block.gemms(shape, one))}
        found |= {f"{name} activations": block.activations(shape, one)}
        found |= {f"{name} {method}": getattr(block, method)(shape, one) for method in ("traffic", "last_gemm")}
        found |= {
            f"{name} {method}": getattr(block, method)(shape, one) for method in ("half_activations", "all_reduces")
        }
    flat = {}
    for name, value in found.items():
        parts = (
            value.items()
            if isinstance(value, dict)
            else enumerate(value if isinstance(value, tuple | list) else [value])
        )
        flat |= {f"{name} {part}": number for part, number in parts}
    return flat


@pytest.mark.parametrize("kind", kinds(), ids=lambda kind: kind.__name__)
def test_every_method_of_a_block_answers_for_one_layout_or_many(kind):
    shape = trained(model_of(kind))
    (block,) = [block for block in shape.blocks if type(block) is kind]
    one, two, both = (answers(block, shape, tp) for tp in (1.0, 2.0, np.array([1.0, 2.0])))
    for name in one:
        pair = [one[name], two[name]]
        assert all(number >= 0 for number in pair), name
        np.testing.assert_array_equal(np.broadcast_to(both[name], 2), pair, err_msg=name)


@pytest.mark.parametrize("layout", [{}, {"tp": 2, "dp": 2}, {"pp": 2, "dp": 4, "zero": 3, "recompute": "full"}])
@pytest.mark.parametrize("kind", kinds(), ids=lambda kind: kind.__name__)
def test_a_model_of_any_kind_of_block_runs_through_every_law(kind, layout):
    assert_runs(model_of(kind), Layout(**layout))


def assert_runs(shape: Transformer, layout: Layout) -> None:
    """Parameters, FLOPs, caches, memory, a step, a pass and the largest batch are positive numbers."""
    h100, workload = machine("H100 SXM"), Workload(sequence=64, global_batch=16)
    flops = forward_flops(shape, 64)
    found = [parameters(shape).total, flops.total, training_flops(shape, 64, recompute="alternate").hardware]
    took = step(shape, h100, workload, layout)
    found += [took.time, took.mfu, footprint(shape, workload, layout).total]
    replica = Replica(shape, h100, Layout(tp=layout.tp, pp=layout.pp), Formats("fp8"))
    for batch in (Batch(sequences=8, context=100), Batch(prompt_tokens=64, chunk=32, cached=32)):
        one = forward_pass(replica, batch)
        found += [one.time, one.flops]
        assert min(getattr(one, part) for part in PASS_PARTS) >= 0
    found += [largest_batch(replica, 100), replica_footprint(replica, sequences=8, context=100).total]
    assert np.all(np.isfinite(found))
    assert min(found) > 0
    assert min(getattr(took, part) for part in STEP_PARTS) >= 0
    assert took.model_flops == pytest.approx(3 * forward_of_a_step(shape) * took.tokens)


def forward_of_a_step(shape):
    flops = forward_flops(trained(shape), 64)
    return flops.total + shape.mtp_depth * flops.logits


# --- Compressed keys, and streams beside one another -----------------------------------------------------------------


def run_compressed(block: CompressedAttention, shape: Transformer, tokens: int) -> tuple[Counted, int, int]:
    """Compressed attention, token by token: what it holds and multiplies, elements that it keeps, its scores' FLOPs."""
    layer, d, wide = Counted(), shape.head_dim, shape.heads * shape.head_dim
    low, queries = layer.tensor(shape.hidden, block.query_rank), layer.tensor(block.query_rank, wide)
    vector, times = layer.tensor(shape.hidden, d), 1 + (block.heads > 0)
    entry = [layer.tensor(shape.hidden, times * d) for _ in range(2 * (block.ratio > 0))]
    index = [layer.tensor(shape.hidden, 2 * block.head_dim) for _ in range(2 * (block.heads > 0))]
    if block.heads:
        asks = layer.tensor(block.query_rank, block.heads * block.head_dim)
        weigh = layer.tensor(shape.hidden, block.heads)
    grouped = [layer.tensor(wide // block.groups, block.output_rank) for _ in range(block.groups)]
    out = layer.tensor(block.groups * block.output_rank, shape.hidden)
    near, entries, keys, pairs, most = [], 0, 0, 0, 0
    for i, x in enumerate(layer.rng.standard_normal((tokens, shape.hidden))):
        latent = layer.times(x, low)
        layer.times(latent, queries)
        near = [*near, layer.times(x, vector)][-block.window :]
        for matrix in (*entry, *index):
            layer.times(x, matrix)
        if block.heads:
            layer.times(latent, asks), layer.times(x, weigh)
        if block.ratio and (i + 1) % block.ratio == 0:
            entries, keys = entries + 1, keys + (block.heads > 0)
        pairs += len(near) + min(entries, block.top or entries)
        most += block.heads * entries
        parts = np.split(layer.rng.standard_normal(wide), block.groups)
        layer.times(np.concatenate([layer.times(p, m) for p, m in zip(parts, grouped, strict=True)]), out)
    kept = d * (len(near) + entries) + block.head_dim * keys
    return layer, kept, 4 * wide * pairs + 2 * block.head_dim * most


V4 = Transformer(layers=1, hidden=24, heads=4, kv_heads=1, head_dim=8, ffn=3, vocab=2)


@pytest.mark.parametrize("kind", [(0, 0, 6, 0), (0, 0, 6, 16), (3, 2, 6, 4)], ids=["window", "heavily", "sparse"])
def test_compressed_attention_holds_multiplies_keeps_and_scores_what_one_that_runs_does(kind):
    block, tokens = CompressedAttention(*kind, window=8, query_rank=10, groups=2, output_rank=5), 512
    shape = replace(V4, others=((1, block),))
    layer, kept, scores = run_compressed(block, shape, tokens)
    assert sum(block.weights(shape)) == layer.elements
    assert forward_flops(shape, tokens).projections * tokens == layer.flops
    assert kv_cache_bytes(shape, tokens, bytes_per_element=1) == kept
    # An entry comes when its tokens are there; on average half a ratio's tokens are not yet.
    off = 0.04 if block.ratio else 1e-9
    assert forward_flops(shape, tokens, causal=True).scores * tokens == pytest.approx(scores, rel=off)


def test_a_new_token_reads_the_window_and_what_is_picked_beside_every_key_of_the_indexer():
    block = CompressedAttention(512, 64, 128, 4)
    assert block.read_elements(transformer("DeepSeek-V4 Flash"), 2**20) == 512 * (128 + 512) + 128 * 2**18
    picks = SparseAttention(2048, 4, 128)
    m3 = transformer("MiniMax M3")
    assert picks.read_elements(m3, 2**20) == 2 * 4 * 128 * 2048 + 128 * 2**20
    # Its own count of a serving stack: 60 layers of keys and values, 57 of index keys, in bytes of 16 bits.
    assert kv_cache_bytes(m3, 1) == 60 * 2 * 4 * 128 * 2 + 57 * 128 * 2


def test_deepseek_v4_has_the_parameters_and_the_cache_that_are_published():
    """284 and 1,600 billion; a checkpoint's tensors without the module that predicts one more token; 1M tokens.

    Sources: hebo1221/nano-deepseek-v4, references/DeepSeek-V4-Flash-validation.summary.json (290,942,289,362 logical
    parameters, 6,610,048,635 of them that module's); a news summary of vLLM's release with V4, whose own text was
    not read: about 9.62 GiB a sequence at 16 bits, 8.7 times less than as in V3.2
    (https://24-ai.news/en/vijest/2026-04-24/vllm-deepseek-v4-kv-cache-kompresija/).
    """
    flash, pro = transformer("DeepSeek-V4 Flash"), transformer("DeepSeek-V4 Pro")
    assert parameters(flash).total == pytest.approx(290_942_289_362 - 6_610_048_635, rel=1e-5)
    assert round(kv_cache_bytes(pro, 2**20) / 2**30, 2) == 9.62
    before = kv_cache_bytes(transformer("DeepSeek-V3.2"), 2**20)
    assert before / kv_cache_bytes(pro, 2**20) == pytest.approx(8.7, abs=0.05)
    # Multi-token prediction looks at a window alone; GLM-5.2's has an indexer of its own.
    assert trained(pro).stacks[-1].blocks[1].ratio == 0
    assert trained(transformer("GLM-5.2")).stacks[-1].blocks[0].heads == 32


def run_connection(n: int, hidden: int) -> Counted:
    """A hyper-connection on one token: what it holds and multiplies for its coefficients."""
    layer = Counted()
    matrix, _, _ = layer.tensor(n * hidden, n * (n + 2)), layer.tensor(n * (n + 2)), layer.tensor(3)
    streams = layer.rng.standard_normal((n, hidden))
    into, back, mix = np.split(layer.times(streams.ravel(), matrix), [n, 2 * n])
    result = np.tanh(into @ streams)
    assert (np.outer(back, result) + mix.reshape(n, n) @ streams).shape == streams.shape
    return layer


@pytest.mark.parametrize("n", [2, 4])
def test_streams_beside_one_another_cost_what_their_definition_says(n):
    plain, wide = SMALL, replace(SMALL, streams=n)
    one, blocks = run_connection(n, SMALL.hidden), 2 * SMALL.layers
    ends = n * n * SMALL.hidden + n + 1  # what puts them together at the end
    assert parameters(wide).total - parameters(plain).total == blocks * one.elements + ends
    assert forward_flops(wide, 64).total - forward_flops(plain, 64).total == blocks * one.flops
    assert kv_cache_bytes(wide, 64) == kv_cache_bytes(plain, 64)
    # Recomputed layer by layer, a layer keeps its n streams; else each block keeps them and its result besides.
    work, full = Workload(sequence=64, global_batch=4), Layout(pp=2, recompute="full")
    kept = [footprint(shape, work, full).activations for shape in (plain, wide)]
    assert kept[1] == n * kept[0]
    rank = Rank(tokens=64.0, sequence=64.0, software=SOFTWARE["2024"])
    assert HyperConnection().activations(wide, rank)["norms"] == (n + 1) * 2 * 64 * SMALL.hidden


def test_a_kind_without_layers_is_refused_where_nothing_takes_it():
    with pytest.raises(ValueError, match="compressed_layers must be a whole number of at least 1, got 0"):
        replace(V4, others=((1, CompressedAttention()), (0, CompressedAttention(ratio=4))))
    shape = replace(V4, mtp_depth=1, others=((1, CompressedAttention(ratio=4)), (0, CompressedAttention())))
    assert "compressed ratio" in repr(shape)
    assert "4, 0" in repr(shape)


# --- A new kind of layer is one class --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Toy(Block):
    """A gated linear mixer: keys and values as wide as ``width`` are summed up in a state, and queries read it."""

    prefix: ClassVar[str] = "toy"

    width: int = 8

    def weights(self, shape):
        return 5 * shape.hidden * self.width, 0  # queries, keys, values, a gate, the output

    def counts(self, shape):
        return super().counts(shape) | {"recurrent": sum(self.weights(shape))}

    def limits(self, shape):
        return {"tp": ("toy_width", self.width)}

    def scan(self, shape):
        return 4.0 * self.width**2, 4.0 * self.width

    def gemms(self, shape, rank):
        met = self.on_rank(shape, rank.tp)
        io = 2 * shape.hidden + 5 * self.width / rank.tp
        return (Gemm(rank.tokens, met, met, io, io),)

    def state_elements(self, shape):
        return self.width**2

    def activations(self, shape, rank):
        kept = rank.software.activation_bytes * rank.tokens * (shape.hidden / rank.stream + 5 * self.width / rank.tp)
        return super().activations(shape, rank) | {"attention": kept}


TOYS = replace(SMALL, others=((2, Toy()),))


def test_a_new_kind_of_layer_counts_in_everything_that_iterates_over_blocks():
    """Two of four layers have it in attention's place; what changes is theirs alone."""
    changed, per_layer = parameters(TOYS), 64 * 8 * 2 * (8 + 4)
    assert changed.recurrent == 2 * 5 * 64 * 8
    assert parameters(SMALL).total - changed.total == 2 * (per_layer - 5 * 64 * 8)
    assert forward_flops(TOYS, 64).scan == 2 * 4 * 8**2
    assert forward_flops(SMALL, 64).scores == 2 * forward_flops(TOYS, 64).scores
    assert state_bytes(TOYS) == 2 * 4 * 8**2
    assert 2 * kv_cache_bytes(TOYS, 100) == kv_cache_bytes(SMALL, 100)
    workload = Workload(sequence=64, global_batch=1)
    weights, kept = (
        [getattr(footprint(s, workload, Layout()), part) for s in (SMALL, TOYS)] for part in ("weights", "activations")
    )
    assert weights[0] - weights[1] == 2 * 2 * (per_layer - 5 * 64 * 8)
    assert kept[0] - kept[1] == 2 * 2 * 64 * (8 * 8 * 2 + 2 * 4 * 8 - 5 * 8)
    h100 = machine("H100 SXM")
    held = [replica_footprint(Replica(s, h100), sequences=5, context=100) for s in (SMALL, TOYS)]
    assert held[0].weights - held[1].weights == 2 * 2 * (per_layer - 5 * 64 * 8)
    assert held[1].caches == 5 * (kv_cache_bytes(TOYS, 100) + state_bytes(TOYS))
    for layout in ({}, {"tp": 2, "dp": 2}, {"pp": 2, "dp": 4, "zero": 3, "recompute": "full"}):
        assert_runs(TOYS, Layout(**layout))
    with pytest.raises(ValueError, match="tp must divide toy_width, got tp 8, toy_width 4"):
        step(replace(SMALL, others=((2, Toy(4)),)), h100, Workload(sequence=64, global_batch=16), Layout(tp=8))
    one, two, both = (answers(Toy(), TOYS, tp) for tp in (1.0, 2.0, np.array([1.0, 2.0])))
    for name in one:
        np.testing.assert_array_equal(np.broadcast_to(both[name], 2), [one[name], two[name]], err_msg=name)


CATALOGUE = """
[sources.here]
title = "A test"
url = "https://example.org"
date = "2026"
checked = "read"

[model."Toys"]
source = "here"
kind = "specified"
year = 2026
layers = 4
hidden = 64
heads = 8
kv_heads = 4
ffn = 96
gated = true
vocab = 160
toy_layers = 2
toy_width = 8
parameters = {total}
"""


def test_a_new_kind_of_layer_is_read_from_the_catalogue():
    text = CATALOGUE.format(total=parameters(TOYS).total)
    assert read_models(tomllib.loads(text))["Toys"].shape == replace(TOYS, name="Toys")
    for wrong, message in {
        "toy_depth = 8": r"unknown fields \['toy_depth'\]",
        "toy_width = 0": "toy_layers|width|parameters",
    }.items():
        with pytest.raises(ValueError, match=message):
            read_models(tomllib.loads(text.replace("toy_width = 8", wrong)))
    with pytest.raises(ValueError, match="missing field toy_layers"):
        read_models(tomllib.loads(text.replace("toy_layers = 2", "")))


# --- What blocks of serving say --------------------------------------------------------------------------------------


def test_a_block_without_steps_launches_nothing():
    assert MultiToken().kernels(TOYS) == 0
    assert Attention().kernels(TOYS) == len(Attention.steps.split(", "))


@pytest.mark.parametrize("context", [100, 2048, 60_000])
def test_an_indexer_meets_every_token_and_attention_the_chosen(context):
    """Decoding: 2 FLOPs for each element of an index query with each token, beside attention to ``top`` of them."""
    glm = transformer("GLM-5")
    sparse = next(block for block in glm.blocks if isinstance(block, SparseLatentAttention))
    index = 2 * sparse.heads * sparse.head_dim * context
    attended = LatentAttention().decode_scores(glm, min(context, sparse.top))
    assert sparse.decode_scores(glm, context) == pytest.approx(attended + index)
