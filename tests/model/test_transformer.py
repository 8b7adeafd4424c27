"""Transformers: a decoder that really runs and counts, published formulas, published counts, limits, refusals."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clusterlab.model import (
    Attention,
    Experts,
    LatentAttention,
    Mamba2,
    SlidingWindow,
    Transformer,
    forward_flops,
    kv_bytes_per_token,
    kv_cache_bytes,
    parameters,
    state_bytes,
    training_flops,
    transformer,
    transformers,
)
from clusterlab.roofline import attention
from laws import assert_equals_a_loop, assert_fit_is_asked_for

GPT3 = Transformer(
    layers=96, hidden=12288, heads=96, ffn=4 * 12288, vocab=51200, tied=True, biases=True, positions=2048
)
BY_SIZE = ("GPT 1.7B", "GPT 18B", "GPT 145B", "GPT 1T")
close = {"rel": 1e-12}


# --- a decoder that runs ---------------------------------------------------------------------------------------------


class Decoder:
    """A decoder in NumPy, one token at a time, that keeps its weights and counts its multiply-adds and its cache."""

    def __init__(self, shape):
        self.shape, self.weights, self.flops, self.cached = shape, 0, 0, 0

    def matrix(self, rows, columns):
        self.weights += rows * columns
        return np.ones((rows, columns))

    def vector(self, size):
        self.weights += size * (1 + self.shape.biases)

    def bias(self, size):
        self.weights += size * self.shape.biases

    def times(self, x, matrix):
        self.flops += 2 * np.atleast_2d(x).shape[0] * matrix.shape[0] * matrix.shape[1]
        return x @ matrix

    def feed_forward(self, width, biased):
        s = self.shape
        ups, down = [self.matrix(s.hidden, width) for _ in range(1 + s.gated)], self.matrix(width, s.hidden)
        if biased:
            self.bias((1 + s.gated) * width + s.hidden)

        def run(x):
            inner = [self.times(x, up) for up in ups]
            return self.times(np.prod(inner, axis=0), down)

        return run

    def attention(self, window):
        s = self.shape
        query_dim = s.head_dim + s.rope_dim
        out = self.matrix(s.heads * s.value_dim, s.hidden)
        self.bias((s.heads + 2 * s.kv_heads) * s.head_dim + s.hidden)
        if s.kv_rank:
            down_q = self.matrix(s.hidden, s.query_rank) if s.query_rank else None
            query = self.matrix(s.query_rank or s.hidden, s.heads * query_dim)
            down_kv = self.matrix(s.hidden, s.kv_rank + s.rope_dim)
            up_kv = self.matrix(s.kv_rank, s.heads * (s.head_dim + s.value_dim))
        else:
            query = self.matrix(s.hidden, s.heads * s.head_dim)
            key_value = self.matrix(s.hidden, 2 * s.kv_heads * s.head_dim)
        cache = []

        def run(x):
            if s.kv_rank:
                q = self.times(self.times(x, down_q) if s.query_rank else x, query)
                cache.append(self.times(x, down_kv))
                self.times(cache[-1][: s.kv_rank], up_kv)
            else:
                q = self.times(x, query)
                cache.append(self.times(x, key_value))
            if window:
                del cache[:-window]
            for head in q.reshape(s.heads, query_dim):
                scores = self.times(head, np.ones((query_dim, len(cache))))
                self.times(scores, np.ones((len(cache), s.value_dim)))
            self.cached += len(cache[-1])
            run.held = sum(map(len, cache))
            return self.times(np.ones(s.heads * s.value_dim), out)

        run.held = 0
        return run

    def build(self):
        s = self.shape
        embedding = self.matrix(s.vocab, s.hidden)
        self.matrix(s.positions, s.hidden)
        self.layers = []
        windows = [block.size for count, block in s.others for _ in range(count)]
        for i in range(s.layers):
            attend = self.attention(windows[i] if i < len(windows) else 0)
            dense = i < s.dense_layers or not s.experts
            self.vector(s.hidden)
            self.vector(s.hidden)
            if dense:
                experts, router = [self.feed_forward(s.ffn, biased=True)], None
            else:
                self.bias((1 + s.gated) * s.ffn + s.hidden)  # the count takes those of a dense layer for these
                router = self.matrix(s.hidden, s.experts)
                experts = [self.feed_forward(s.expert_ffn, biased=False) for _ in range(s.experts)]
                shared = [self.feed_forward(s.expert_ffn, biased=False) for _ in range(s.shared_experts)]
                experts = shared + experts[: s.experts_per_token]
            self.layers.append((attend, router, experts))
        self.vector(s.hidden)
        self.head = embedding.T if s.tied else self.matrix(s.hidden, s.vocab)
        return self

    def run(self, tokens):
        for _ in range(tokens):
            x = np.ones(self.shape.hidden)
            for attend, router, experts in self.layers:
                attend(x)
                if router is not None:
                    self.times(x, router)
                for expert in experts:
                    expert(x)
            self.times(x, self.head)
        return self


@st.composite
def shapes(draw):
    few, size, flag = st.integers(1, 3), st.integers(1, 5), st.booleans()
    kv_heads, experts, latent = draw(few), draw(st.integers(0, 3)), draw(flag)
    kv = {"kv_heads": kv_heads, "heads": kv_heads * draw(few), "head_dim": draw(size)}
    layers = draw(st.integers(1, 4))
    if experts:
        kv |= {"experts": experts, "experts_per_token": draw(st.integers(1, experts)), "expert_ffn": draw(size)}
        kv |= {"shared_experts": draw(st.integers(0, 2)), "dense_layers": draw(st.integers(0, layers))}
    if latent:
        kv |= {"kv_rank": draw(size), "query_rank": draw(st.integers(0, 4)), "rope_dim": draw(st.integers(0, 3))}
        kv |= {"value_dim": draw(size)}
    elif draw(flag):
        kv |= {"others": ((draw(st.integers(1, layers)), SlidingWindow(draw(size))),)}
    return Transformer(
        layers=layers,
        hidden=draw(size),
        ffn=draw(size),
        vocab=draw(size),
        positions=draw(st.integers(0, 4)),
        gated=draw(flag),
        tied=draw(flag),
        biases=draw(flag),
        **kv,
    )


@settings(max_examples=150, deadline=None)
@given(shapes(), st.integers(1, 8))
def test_parameters_flops_and_cache_are_those_of_a_decoder_that_runs(shape, tokens):
    decoder = Decoder(shape).build()
    assert parameters(shape).total == decoder.weights
    decoder.run(tokens)
    assert forward_flops(shape, tokens, causal=True).total * tokens == pytest.approx(decoder.flops, **close)
    assert kv_bytes_per_token(shape, bytes_per_element=1) * tokens == decoder.cached
    held = sum(attend.held for attend, _, _ in decoder.layers)
    assert kv_cache_bytes(shape, tokens, bytes_per_element=1) == held


@given(shapes(), st.integers(1, 50))
def test_what_holds_of_any_decoder(shape, tokens):
    count = parameters(shape)
    assert count.total == sum(getattr(count, part) for part in count.__dataclass_fields__)
    assert count.active == count.total - count.unselected_experts
    assert (count.active == count.total) == (shape.count(Experts) * (shape.experts - shape.experts_per_token) == 0)
    every, masked = forward_flops(shape, tokens), forward_flops(shape, tokens, causal=True)
    assert every.total == sum(getattr(every, part) for part in every.__dataclass_fields__)
    assert masked.total <= every.total
    assert masked.scores >= every.scores / 2
    if not shape.others:
        assert forward_flops(shape, 2 * tokens).scores == 2 * every.scores
    none, some, full = (training_flops(shape, tokens, recompute=r) for r in ("none", "selective", "full"))
    assert none.model == some.model == full.model == none.hardware == 3 * every.total
    assert none.hardware <= some.hardware <= full.hardware <= 4 * every.total


# --- published formulas ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", BY_SIZE)
def test_a_gpt_has_the_parameters_and_flops_of_sc21(name):
    """Narayanan et al. 2021 (SC21), equation 2, and F = 96 B s l h^2 (1 + s/6h + V/16lh) with full recomputation."""
    gpt = transformer(name)
    layers, h, vocab, s = gpt.layers, gpt.hidden, gpt.vocab, 2048
    equation_2 = 12 * layers * h**2 * (1 + 13 / (12 * h) + (vocab + s) / (12 * layers * h))
    assert parameters(gpt).total == pytest.approx(equation_2 + 2 * h, **close)
    equation_3 = 96 * s * layers * h**2 * (1 + s / (6 * h) + vocab / (16 * layers * h))
    assert s * training_flops(gpt, s, recompute="full").hardware == pytest.approx(equation_3, **close)


@pytest.mark.parametrize("name", ["GPT 22B", "GPT 175B", "GPT 530B", "GPT 1T"])
def test_a_gpt_has_the_model_flops_of_korthikanti(name):
    """Korthikanti et al. 2022, equation 7: 72 B L s h^2 (1 + s/6h + v/12hL)."""
    gpt = transformer(name)
    equation_7 = (
        72 * gpt.layers * gpt.hidden**2 * (1 + 2048 / (6 * gpt.hidden) + gpt.vocab / (12 * gpt.hidden * gpt.layers))
    )
    assert training_flops(gpt, 2048).model == pytest.approx(equation_7, **close)


@pytest.mark.parametrize(
    ("name", "mfu", "hfu"),
    [("GPT 22B", 41.5, 43.7), ("GPT 175B", 51.4, 52.8), ("GPT 530B", 56.0, 57.0), ("GPT 1T", 56.3, 57.0)],
)
def test_the_hfu_of_korthikanti_counts_the_recomputed_scores_three_times(name, mfu, hfu):
    """Korthikanti et al. 2022, table 5. Their appendix A adds 4 B s^2 h a layer and prints the sum (equation 8) with
    s/3h where it is 2s/9h; the HFU of the table is that of the printed formula."""
    flops = training_flops(transformer(name), 2048, recompute="selective")
    printed = flops.model + 3 * flops.recomputed
    assert printed / flops.model == pytest.approx(hfu / mfu, abs=2.5e-3)
    h = transformer(name).hidden
    assert flops.recomputed / (72 * transformer(name).layers * h**2) == pytest.approx(
        2 * 2048 / (9 * h) - 2048 / (6 * h), **close
    )


@pytest.mark.parametrize(("name", "share"), [("GPT-3 175B", 0.027), ("MT-NLG 530B", 0.016)])
def test_the_overhead_of_selective_recomputation_is_a_third_of_the_printed_one(name, share):
    """Korthikanti et al. 2022, section 5: 2.7 % and 1.6 %, by their equation 9, s/6h; by the count, s/18h."""
    flops = training_flops(transformer(name), 2048, recompute="selective")
    assert 3 * flops.recomputed / flops.model == pytest.approx(share, abs=0.6e-3)


def test_palm_has_the_flops_of_its_appendix_b():
    """Chowdhery et al. 2022, appendix B: 6N + 12 L H Q T for each token, 2,048 tokens; N without the embedding once
    more, because the output layer, tied to it, does its work."""
    palm = transformer("PaLM 540B")
    count = parameters(palm)
    expected = 6 * (count.total - count.norms_and_biases) + 12 * 118 * 48 * 256 * 2048
    assert training_flops(palm, 2048).model == pytest.approx(expected, **close)


def test_llm_foundry_counts_flops_as_this_does():
    """MosaicML LLM Foundry, scripts/train/benchmarking: 3 (2 N s + 4 L d s^2) a sequence, output layer tied."""
    mpt = transformer("MPT 7B")
    count = parameters(mpt)
    theirs = 3 * (2 * count.total + 4 * mpt.layers * mpt.hidden * 2048)
    left_out = count.positions + count.norms_and_biases  # no matrix products
    assert training_flops(mpt, 2048).model == pytest.approx(theirs - 6 * left_out, **close)


def test_the_attention_term_is_that_of_the_roofline():
    llama = transformer("Llama 3 8B")
    for tokens in (1, 2, 1000):
        work = attention(tokens, tokens, heads=32, kv_heads=8, head_dim=128)
        assert forward_flops(llama, tokens, causal=True).scores * tokens == pytest.approx(32 * work.flops, **close)


# --- published counts ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "sequence", "billions"),
    [
        ("MPT 125M", 512, 0.124),
        ("MPT 125M", 8192, 0.130),
        ("MPT 125M", 65536, 0.174),
        ("MPT 13B", 512, 12.846),
        ("MPT 13B", 8192, 12.885),
        ("MPT 13B", 32768, 13.011),
    ],
)
def test_position_embeddings_grow_with_the_sequence(name, sequence, billions):
    """MosaicML LLM Foundry, benchmark tables: the size of the same model trained on longer sequences."""
    assert parameters(replace(transformer(name), positions=sequence)).total == pytest.approx(billions * 1e9, abs=0.6e6)


def test_the_mla_cache_of_deepseek_v3():
    """Insights into DeepSeek-V3 (ISCA 2025), table 1: 70.272 KB a token, against 516.096 KB for Llama 3.1 405B and
    327.680 KB for Qwen-2.5 72B (80 layers, 8 heads of 128), in BF16."""
    assert kv_bytes_per_token(transformer("DeepSeek-V3")) == 70272
    assert kv_bytes_per_token(transformer("Llama 3.1 405B")) == 516096
    assert kv_bytes_per_token(replace(transformer("Llama 3.1 70B"), vocab=152064)) == 327680


def test_a_multi_query_cache_is_one_head_s():
    assert kv_bytes_per_token(transformer("PaLM 540B")) == 2 * 118 * 256 * 2


def test_latent_attention_of_deepseek_v3():
    """187.1 million a layer: queries 48.8, keys and values 20.9, output 117.4, by the shapes of the checkpoint."""
    of_heads, shared = LatentAttention().weights(transformer("DeepSeek-V3"))
    assert shared == 7168 * (1536 + 512 + 64)
    assert of_heads == 1536 * 128 * 192 + 512 * 128 * 256 + 128 * 128 * 7168
    assert Experts().expert_weights(transformer("DeepSeek-V3")) == 3 * 7168 * 2048


def test_a_shape_prints_what_it_has():
    assert "kv rank" in repr(transformer("DeepSeek-V3"))
    assert "kv rank" not in repr(transformer("GPT 22B"))
    assert "total" in repr(parameters(GPT3))
    assert "hardware" in training_flops(GPT3, 2048)._repr_html_()


# --- arrays, refusals ------------------------------------------------------------------------------------------------


def test_a_record_of_arrays_is_a_loop_of_models():
    layers, hidden, kv, experts = np.array([2, 4, 8]), np.array([64, 128, 64]), np.array([1, 8, 4]), np.array([0, 0, 4])
    per_token, kv_rank, query_rank = np.array([0, 0, 2]), np.array([0, 16, 32]), np.array([0, 0, 8])
    common = {"ffn": 256, "vocab": 1000, "gated": True, "biases": True}

    def shape(i):
        return Transformer(
            layers=layers[i],
            hidden=hidden[i],
            heads=8,
            kv_heads=kv[i],
            experts=experts[i],
            experts_per_token=per_token[i],
            kv_rank=kv_rank[i],
            query_rank=query_rank[i],
            **common,
        )

    many, one_by_one = shape(slice(None)), [shape(i) for i in range(3)]
    s = np.array([128, 256, 512])
    recompute = np.array(["none", "selective", "full"])
    assert_equals_a_loop(parameters(many), map(parameters, one_by_one))
    pairs = list(zip(one_by_one, s, recompute, strict=True))
    assert_equals_a_loop(forward_flops(many, s), [forward_flops(m, n) for m, n, _ in pairs])
    assert_equals_a_loop(
        training_flops(many, s, recompute=recompute), [training_flops(m, n, recompute=str(r)) for m, n, r in pairs]
    )
    assert_equals_a_loop(kv_bytes_per_token(many), map(kv_bytes_per_token, one_by_one))
    assert_equals_a_loop(kv_cache_bytes(many, s), [kv_cache_bytes(m, n) for m, n, _ in pairs])


def test_every_shape_of_the_catalogue_goes_through_every_law():
    for shape in transformers():
        assert 0 < training_flops(shape, 4096, recompute="full", causal=True).hardware < np.inf
        assert kv_cache_bytes(shape, 4096) <= 4096 * kv_bytes_per_token(shape)


GOOD = {"layers": 2, "hidden": 64, "heads": 8, "ffn": 256, "vocab": 100}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"layers": 0}, "layers must be a whole number"),
        ({"hidden": 64.5}, "hidden must be a whole number"),
        ({"heads": 7}, "heads must divide hidden, or give head_dim; got 7 of 64"),
        ({"kv_heads": 3}, "kv_heads must divide heads, got 3 and 8"),
        ({"vocab": float("nan")}, "vocab must be"),
        ({"positions": -1}, "positions must be"),
        ({"positions": 0.5}, "positions must be a whole number"),
        ({"gated": 1}, "gated must be True or False, got 1"),
        ({"experts": 4}, "experts above 0 needs experts_per_token above 0, got 0"),
        ({"experts": 4, "experts_per_token": 5}, "experts_per_token must be at most experts, got 5"),
        ({"shared_experts": 1}, "shared_experts above 0 needs experts above 0, got 0"),
        ({"dense_layers": 3}, "dense_layers must be at most layers, got 3"),
        ({"rope_dim": 8}, "rope_dim above 0 needs kv_rank above 0, got 0"),
        ({"others": ((0, SlidingWindow(4)),)}, "window_layers must be a whole number of at least 1, got 0"),
        ({"others": ((3, SlidingWindow(4)),)}, "window_layers must be at most layers, got 3 of 2"),
        ({"others": ((1, Attention()),)}, r"others must be pairs of a number of layers and a mixer, got Attention\(\)"),
        ({"value_dim": 4}, "value_dim must be head_dim where kv_rank is 0, got 4"),
    ],
)
def test_what_cannot_be_a_decoder_is_refused_by_name(change, message):
    with pytest.raises(ValueError, match=message):
        Transformer(**GOOD | change)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m: forward_flops(m, 10, causal="yes"), "causal must be True or False"),
        (
            lambda m: training_flops(m, 10, recompute="all"),
            "recompute must be one of none, selective, alternate, full; got 'all'",
        ),
        (lambda m: training_flops(m, [10, 20], recompute=["none", "half"]), "recompute must be .* got 'half'"),
    ],
)
def test_nonsense_is_refused_by_name(call, message):
    with pytest.raises(ValueError, match=message):
        call(Transformer(**GOOD))


# --- Hybrids ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "total", "active"),
    [
        ("Nemotron-H 8B", 8_100_852_736, None),
        ("Nemotron 3 Nano", 31_577_940_288 - 23 * 128, 3.58e9),  # the checkpoint has a bias for each router's choice
        ("Nemotron 3 Super", 120.67e9, 12.77e9),
    ],
)
def test_hybrids_have_the_parameters_that_their_publishers_print(name, total, active):
    found = parameters(transformer(name))
    assert found.total == pytest.approx(total, rel=1e-4)
    assert found.active == pytest.approx(active or found.total, rel=2e-3)


def test_the_flops_of_a_hybrid_are_near_those_that_megatron_counts():
    """Megatron-Bridge, 26.08: 901 TFLOP/s at 39,936 tokens/s a GB300 for Nano, 831 at 9,856 for Super."""
    for name, published in {"Nemotron 3 Nano": 901e12 / 39936, "Nemotron 3 Super": 831e12 / 9856}.items():
        assert training_flops(transformer(name), 8192).model == pytest.approx(published, rel=0.05)
        ((_, mixer),) = transformer(name).others
        assert mixer.scan(transformer(name))[0] == pytest.approx(7 * 128 * mixer.width, rel=0.12)  # its 7 N d


def test_a_scan_by_chunks_is_the_recurrence_and_costs_what_the_law_says():
    """Dao and Gu 2024, section 6: one group, two heads, states carried over chunks of 128 tokens."""
    rng, n, p, state, tokens, done = np.random.default_rng(3), 2, 4, 8, 3 * Mamba2.chunk, [0]
    x, b, c = (rng.standard_normal(shape) for shape in ((tokens, n, p), (tokens, state), (tokens, state)))
    decay = rng.uniform(0.9, 1.0, (tokens, n))

    def product(one, other):
        done[0] += 2 * one.shape[0] * one.shape[1] * other.shape[1]
        return one @ other

    slow, held = np.zeros_like(x), np.zeros((n, p, state))
    for t in range(tokens):
        held = decay[t, :, None, None] * held + x[t, :, :, None] * b[t]
        slow[t] = held @ c[t]
    fast, held = np.zeros_like(x), np.zeros((n, state, p))
    for first in range(0, tokens, Mamba2.chunk):
        some = slice(first, first + Mamba2.chunk)
        scores = product(c[some], b[some].T)  # shared by the heads of a group
        for head in range(n):
            kept = np.cumprod(decay[some, head])
            inside = np.tril(kept[:, None] / kept)
            fast[some, head] = product(scores * inside, x[some, head]) + product(c[some] * kept[:, None], held[head])
            held[head] = kept[-1] * held[head] + product((b[some] * (kept[-1] / kept)[:, None]).T, x[some, head])
    np.testing.assert_allclose(fast, slow, rtol=1e-9, atol=1e-9)
    assert done[0] == Mamba2(heads=n, head_dim=p, state=state, groups=1).scan(GPT3)[0] * tokens


def test_a_hybrid_keeps_states_that_do_not_grow():
    hybrid = transformer("Nemotron-H 8B")
    assert state_bytes(hybrid) == 24 * (128 * 128 * 64 + 3 * (8192 + 2 * 1024)) * 4
    assert kv_bytes_per_token(hybrid) == 4 * 2 * 8 * 128 * 2  # four layers of attention
    assert state_bytes(transformer("Llama 3.1 8B")) == 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"others": ((40, Mamba2(heads=128)),)},
            "mamba_layers and feed_forward_layers must be at most layers, got 40 and 24 of 52",
        ),
        ({"feed_forward_layers": 53, "others": ()}, "feed_forward_layers must be at most layers, got 53 of 52"),
        ({"expert_latent": 64}, "expert_latent above 0 needs experts above 0"),
    ],
)
def test_what_cannot_be_a_hybrid_is_refused(change, message):
    with pytest.raises(ValueError, match=message):
        replace(transformer("Nemotron-H 8B"), **change)


# --- shapes ----------------------------------------------------------------------------------------------------------

SMALL = {"layers": 4, "hidden": 64, "heads": 4, "ffn": 128, "vocab": 100}


def test_a_shape_of_lists_is_a_shape_of_arrays():
    listed = Transformer(**SMALL | {"layers": [2, 4], "hidden": (64, 128)})
    assert parameters(listed).total.tolist() == [
        parameters(Transformer(**SMALL | {"layers": n, "hidden": h})).total for n, h in ((2, 64), (4, 128))
    ]


@pytest.mark.parametrize(
    "made",
    [
        lambda a, b: Transformer(**SMALL | {"layers": a, "vocab": b}),
        lambda a, b: Transformer(**SMALL, experts=a, experts_per_token=1, expert_ffn=b),
        lambda a, b: Transformer(**SMALL | {"ffn": a}, positions=b),
        lambda a, b: forward_flops(Transformer(**SMALL | {"vocab": a}), b),
        lambda a, b: training_flops(Transformer(**SMALL | {"vocab": a}), b),
        lambda a, b: training_flops(Transformer(**SMALL | {"vocab": a}), 64, recompute=np.where(b > 0, "full", "none")),
        lambda a, b: training_flops(Transformer(**SMALL), a, recompute=np.where(b > 0, "full", "none")),
        lambda a, b: kv_bytes_per_token(Transformer(**SMALL | {"vocab": a}), bytes_per_element=b),
        lambda a, b: kv_cache_bytes(Transformer(**SMALL | {"vocab": a}), b),
        lambda a, b: state_bytes(Transformer(**SMALL | {"vocab": a}), bytes_per_element=b),
    ],
)
def test_shapes_that_do_not_fit_a_model_are_refused(made):
    assert_fit_is_asked_for(made)
