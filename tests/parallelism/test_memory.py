"""Memory: published formulas and figures, a tape that keeps tensors, a pipeline that runs, conservation, refusals."""

from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterlab.catalogue import SOFTWARE
from clusterlab.model import (
    Attention,
    Experts,
    FeedForward,
    Layout,
    SlidingWindow,
    Transformer,
    Workload,
    parameters,
    transformer,
)
from clusterlab.parallelism import footprint, layer_activations, model_state, simulate_pipeline, stage_layers
from laws import assert_equals_a_loop, assert_units, q

close = {"rel": 1e-12}
GB = 1e9
# Korthikanti et al. 2022, table 3 and section 6: 2,048 tokens, tensor parallel 8 and these.
SETUPS = {
    "GPT 22B": {"pp": 1, "chunks": 1, "microbatch": 4, "microbatches": 1},
    "GPT 175B": {"pp": 8, "chunks": 3, "microbatch": 1, "microbatches": 64},
    "MT-NLG 530B": {"pp": 35, "chunks": 3, "microbatch": 1, "microbatches": 280},
    "GPT 1T": {"pp": 64, "chunks": 1, "microbatch": 1, "microbatches": 512},
}
OF_2022 = {"sequence": 2048, "tp": 8, "dropout": True, "fused_attention": False, "sequence_parallel": False}

BYTES = ("weight_bytes", "gradient_bytes", "optimizer_bytes", "activation_bytes", "logit_bytes")
OF_FOOTPRINT = ("schedule", "stage", "fragmentation", "reserved")


def stack(settings, *, fused_attention=True, dropout=False):
    """Software with or without fused attention and dropout, and with bytes of its own; takes them from settings."""
    attention = 1 if settings.pop("fused_attention", fused_attention) else None
    bytes_ = {name: settings.pop(name) for name in BYTES if name in settings}
    return replace(SOFTWARE["2024"], attention=attention, dropout=settings.pop("dropout", dropout), **bytes_)


def held(shape, *, sequence, microbatches, **settings):
    """The footprint of a workload with so many microbatches a replica, under a layout and software given together."""
    how = {name: settings.pop(name) for name in OF_FOOTPRINT if name in settings}
    software, layout = stack(settings), Layout(**settings)
    workload = Workload(sequence=sequence, global_batch=microbatches * layout.dp * layout.microbatch)
    return footprint(shape, workload, layout, software=software, **how)


def kept_by_layer(shape, *, sequence, moe=False, **settings):
    """The activations of a layer under a layout and software given together."""
    software = stack(settings)
    workload = Workload(sequence=sequence, global_batch=1)
    return layer_activations(shape, workload, Layout(**settings), moe=moe, software=software)


def shape_letters(name):
    gpt = transformer(name)
    return gpt, gpt.hidden, gpt.heads, gpt.layers, 2048, SETUPS[name]["microbatch"], 8


# --- Korthikanti et al. 2022 -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SETUPS)
def test_a_layer_keeps_what_table_2_says(name):
    gpt, h, a, _, s, b, t = shape_letters(name)
    layer = {**OF_2022, "microbatch": b}
    none = kept_by_layer(gpt, **layer | {"tp": 1})
    tensor = kept_by_layer(gpt, **layer)
    sequence = kept_by_layer(gpt, **layer | {"sequence_parallel": True})
    assert none.total == pytest.approx(s * b * h * (34 + 5 * a * s / h), **close)
    assert tensor.total == pytest.approx(s * b * h * (10 + 24 / t + 5 * a * s / (h * t)), **close)
    assert sequence.total == pytest.approx(s * b * h * (34 / t + 5 * a * s / (h * t)), **close)
    assert tensor.total - tensor.scores == pytest.approx(s * b * h * (10 + 24 / t), **close)
    assert sequence.total - sequence.scores == pytest.approx(s * b * h * 34 / t, **close)
    # The blocks of section 4.1: attention 11 sbh + 5 a s^2 b, feed-forward 19 sbh, norms 4 sbh.
    assert none.attention + none.scores + none.dropout / 2 == pytest.approx(11 * s * b * h + 5 * a * s * s * b, **close)
    assert none.feed_forward + none.dropout / 2 == pytest.approx(19 * s * b * h, **close)
    assert none.norms == 4 * s * b * h


@pytest.mark.parametrize("name", SETUPS)
def test_the_first_stage_keeps_as_much_as_all_layers(name):
    """Equations 5 and 6, section 4.2.3 for interleaving, section 4.3 for embedding and output."""
    gpt, h, _, layers, s, b, t = shape_letters(name)
    p, v = SETUPS[name]["pp"], SETUPS[name]["chunks"]
    need = held(gpt, **OF_2022 | SETUPS[name] | {"sequence_parallel": True}, stage=0, recompute="selective")
    factor = 1 + (p - 1) / (p * v) if v > 1 else 1
    expected = 34 * s * b * h * layers / t * factor + s * b * h * p / t * factor
    assert need.activations == pytest.approx(expected, **close)
    assert need.output == pytest.approx((p == 1) * 4 * s * b * h / t * (1 + gpt.vocab / h), **close)
    full = held(gpt, **OF_2022, **SETUPS[name], stage=0, recompute="full")
    assert full.activations == pytest.approx((2 * layers + p) * s * b * h * factor, **close)


@pytest.mark.parametrize("name", SETUPS)
def test_the_savings_of_figure_7(name):
    """Section 6.1: either technique "nearly" halves the activations, both leave "under 20 %" (20.2 % of the two largest
    by the paper's own formula), full recomputation 10 %. Here with the masks of the embedding."""
    gpt, *_ = shape_letters(name)

    def share(**how):
        return held(gpt, **OF_2022 | SETUPS[name] | how, stage=0).activations / baseline

    baseline = held(gpt, **OF_2022, **SETUPS[name], stage=0).activations
    assert 0.57 < share(sequence_parallel=True) < 0.68
    assert 0.48 < share(recompute="selective") < 0.63
    assert 0.16 < share(sequence_parallel=True, recompute="selective") < 0.206
    assert 0.07 < share(recompute="full") < 0.12


@pytest.mark.parametrize(("name", "ratio", "saved"), [("GPT 175B", 80, 0.70), ("MT-NLG 530B", 64, 0.65)])
def test_the_scores_are_most_of_a_layer(name, ratio, saved):
    """Section 5: 5 a s / h is 80 and 64 beside 34, so selective recomputation saves 70 % and 65 %."""
    gpt, h, a, *_ = shape_letters(name)
    layer = kept_by_layer(gpt, **OF_2022 | {"tp": 1})
    assert 5 * a * 2048 / h == ratio
    assert layer.scores / layer.total == pytest.approx(saved, abs=0.005)


@pytest.mark.parametrize("name", SETUPS)
@pytest.mark.parametrize("gradient_bytes", [2, 4])
def test_figure_1_and_table_5_fit_only_with_both_techniques(name, gradient_bytes):
    """Figure 1 and section 6.1: none of the models fits 80 GB unless sequence parallelism and selective recomputation
    are used together, or all layers are recomputed; table 5 trains them both ways."""
    need = {
        (parallel, how): held(
            transformer(name),
            **OF_2022 | SETUPS[name] | {"sequence_parallel": parallel},
            recompute=how,
            gradient_bytes=gradient_bytes,
        )
        for parallel in (False, True)
        for how in ("none", "selective", "full")
    }
    fits = {way for way, one in need.items() if one.fits(80 * GB)}
    assert {(True, "selective"), (False, "full")} <= fits
    assert not fits & {(False, "none"), (True, "none")}
    if name != "GPT 22B":  # which lacks a few GB with 4-byte gradients and has them with 2
        assert (False, "selective") not in fits


def test_the_output_of_a_stage_that_appendix_b_frees():
    """Appendix B: s b h p, two bytes each, is 2.73 GB (GiB) on the first stage of the 530B model."""
    gpt = transformer("MT-NLG 530B")
    assert 2 * 2048 * gpt.hidden * 35 / 2**30 == pytest.approx(2.73, abs=0.005)
    need = held(gpt, **OF_2022, **SETUPS["MT-NLG 530B"] | {"chunks": 1}, stage=0, recompute="full")
    # Full recomputation keeps the input of each of 3 layers for 35 microbatches, and the masks: 2.73 GB a layer.
    assert need.activations / 2**30 == pytest.approx((3 + 0.5) * 2.73, rel=0.002)


def test_megatron_s_own_estimate():
    """NVIDIA/Megatron-LM, megatron/training/theoretical_memory_usage.py: 6 + 12/d bytes a parameter with its
    distributed optimizer, sbh (18 + 4 f/h) a layer with sequence parallelism and selective recomputation."""
    gpt, t, p, d = replace(transformer("GPT 175B"), positions=0), 8, 8, 4
    need = held(
        gpt,
        sequence=2048,
        microbatches=64,
        tp=t,
        pp=p,
        dp=d,
        zero=1,
        stage=0,
        recompute="selective",
        sequence_parallel=True,
        fused_attention=False,
        dropout=True,
    )
    block = 12 * gpt.hidden**2 * gpt.layers
    on_first = (block / p + gpt.vocab * gpt.hidden) / t
    assert need.state == pytest.approx(on_first * (6 + 12 / d), rel=5e-4)  # norms and biases
    keeps = 2048 * gpt.hidden * ((18 + 4 * 4) * gpt.layers + p) / t
    assert need.activations == pytest.approx(keeps, **close)


# --- model state -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("zero", "gigabytes"), [(0, 120), (1, 31.4), (2, 16.6), (3, 1.88)])
def test_the_model_state_of_the_zero_paper(zero, gigabytes):
    """Rajbhandari et al. 2020, figure 1: 7.5 billion parameters, 64 ranks, 2 + 2 + 12 bytes."""
    state = model_state(7.5e9, shards=64, zero=zero, gradient_bytes=2)
    assert state.total == pytest.approx(gigabytes * GB, rel=0.005)


@pytest.mark.parametrize(
    ("billions", "gigabytes", "seconds"), [(7, 98, 0.98), (70, 980, 9.8), (175, 2450, 24.5), (1000, 14000, 140)]
)
def test_the_checkpoints_of_table_7(billions, gigabytes, seconds):
    """MLSysBook, Fleet Foundations appendix, table 7: 14 bytes a parameter, written at 100 GB/s (1T: 2.3 min)."""
    checkpoint = model_state(billions * 1e9).checkpoint
    assert checkpoint == pytest.approx(gigabytes * GB, **close)
    assert checkpoint / 100e9 == pytest.approx(seconds, **close)


def test_a_checkpoint_of_bloom():
    """BigScience, tr11-176B-ml/README.md: 14 bytes a parameter, 2,294.77 GiB in all and 327.82 GiB of weights."""
    state = model_state(176e9)
    assert state.checkpoint / 2**30 == pytest.approx(2294.77, abs=0.01)
    assert state.weights / 2**30 == pytest.approx(327.82, abs=0.01)


@given(st.integers(1, 64), st.integers(0, 3), st.integers(1, 10**12))
def test_sharing_loses_nothing_and_each_stage_shares_more(n, zero, count):
    state = model_state(count, shards=n, zero=zero)
    alone = model_state(count)
    for i, part in enumerate(("optimizer", "gradients", "weights")):
        expected = getattr(alone, part) / (n if zero > i else 1)
        assert getattr(state, part) == pytest.approx(expected, **close)
    if zero:
        assert state.total <= model_state(count, shards=n, zero=zero - 1).total * (1 + 1e-12)
    if zero == 3:
        assert n * state.total == pytest.approx(alone.total, **close)


# --- a tape that keeps tensors ---------------------------------------------------------------------------------------


class Tape:
    """Keeps what the gradient of each operation needs, every tensor once. Sizes in elements."""

    def __init__(self):
        self.kept = {}

    def tensor(self, elements):
        return [elements]  # a list, so that it has an identity

    def keep(self, *tensors):
        for one in tensors:
            self.kept[id(one)] = one

    def needs_input(self, x, elements):
        """A linear layer, a norm, an activation function."""
        self.keep(x)
        return self.tensor(elements)

    def needs_both(self, x, y, elements):
        """A product, a gated activation, one fused kernel."""
        self.keep(x, y)
        return self.tensor(elements)

    @property
    def elements(self):
        return sum(one[0] for one in self.kept.values())


def layer_on_tape(shape, tokens, moe):
    tape, h = Tape(), shape.hidden * tokens
    x = tape.tensor(h)
    y = tape.needs_input(x, h)  # norm
    if shape.kv_rank:
        rope = tokens * shape.rope_dim
        if shape.query_rank:
            latent = tape.needs_input(y, tokens * shape.query_rank)
            q_from = tape.needs_input(latent, tokens * shape.query_rank)  # norm
        else:
            q_from = y
        kv_latent = tape.needs_input(y, tokens * shape.kv_rank)
        kv_from = tape.needs_input(kv_latent, tokens * shape.kv_rank)  # norm
        tape.keep(tape.tensor(rope))  # the shared rotary part of the keys
        q = tape.needs_input(q_from, tokens * shape.heads * (shape.head_dim + shape.rope_dim))
        k = tape.needs_input(kv_from, tokens * shape.heads * (shape.head_dim + shape.rope_dim))
        v = tape.needs_input(kv_from, tokens * shape.heads * shape.value_dim)
    else:
        q = tape.needs_input(y, tokens * shape.heads * shape.head_dim)
        k = tape.needs_input(y, tokens * shape.kv_heads * shape.head_dim)
        v = tape.needs_input(y, tokens * shape.kv_heads * shape.head_dim)
    tape.keep(q, k, v)
    mixed = tape.tensor(tokens * shape.heads * shape.value_dim)  # fused attention
    tape.needs_input(mixed, h)
    x = tape.tensor(h)  # the residual sum
    y = tape.needs_input(x, h)  # norm

    def feed_forward(z, copies, width):
        if shape.gated:
            inner = tape.needs_both(tape.needs_input(z, 0), tape.tensor(0), 0)
            gate, up = tape.tensor(copies * width), tape.tensor(copies * width)
            inner = tape.needs_both(gate, up, copies * width)
            tape.keep(z)
        else:
            inner = tape.needs_input(tape.needs_input(z, copies * width), copies * width)
        return tape.needs_input(inner, copies * shape.hidden)

    if moe:
        tape.keep(y)  # router and shared experts
        routed = tokens * shape.experts_per_token
        out = feed_forward(tape.tensor(routed * shape.hidden), routed, shape.expert_ffn)
        tape.keep(out)  # for the gradient of the weights of the sum
        for _ in range(shape.shared_experts):
            feed_forward(y, tokens, shape.expert_ffn)
    else:
        feed_forward(y, tokens, shape.ffn)
    return tape


@st.composite
def shapes(draw, *, dense=False):
    few, size, flag = st.integers(1, 3), st.integers(1, 9), st.booleans()
    kv = draw(few)
    fields = {"kv_heads": kv, "heads": kv * draw(few), "head_dim": draw(size), "layers": draw(st.integers(1, 12))}
    if not dense and draw(flag):
        fields |= {"experts": draw(st.integers(2, 4)), "experts_per_token": draw(st.integers(1, 2))}
        fields |= {"expert_ffn": draw(size), "shared_experts": draw(st.integers(0, 2))}
        fields |= {"dense_layers": draw(st.integers(0, fields["layers"]))}
    if not dense and draw(flag):
        fields |= {"kv_rank": draw(size), "query_rank": draw(st.integers(0, 4)), "rope_dim": draw(st.integers(0, 3))}
        fields |= {"value_dim": draw(size)}
    switches = {name: draw(flag) for name in ("gated", "tied", "biases")}
    widths = {name: draw(size) for name in ("hidden", "ffn", "vocab")}
    return Transformer(**widths, **fields, **switches, positions=draw(st.integers(0, 5)))


@given(shapes(), st.integers(1, 10), st.integers(1, 4))
def test_a_layer_keeps_what_a_tape_keeps(shape, sequence, microbatch):
    kinds = {False: shape.count(FeedForward) > shape.count(Experts), True: shape.count(Experts) > 0}
    for moe in (moe for moe, there in kinds.items() if there):
        kept = kept_by_layer(shape, sequence=sequence, microbatch=microbatch, moe=moe, activation_bytes=1)
        assert kept.total == pytest.approx(layer_on_tape(shape, sequence * microbatch, moe).elements, **close)
        assert kept.scores == kept.dropout == 0


# --- stages, ranks and pipelines -------------------------------------------------------------------------------------


@st.composite
def layouts(draw, *, dense=False):
    shape = draw(shapes(dense=dense))
    p, v = draw(st.integers(1, 5)), draw(st.integers(1, 3))
    if p == 1 or p * v > shape.layers + 2:
        p, v = 1, 1
    layout = {"pp": p, "chunks": v, "microbatches": draw(st.integers(1, 12)), "sequence": draw(st.integers(1, 50))}
    layout |= {"dp": draw(st.sampled_from([1, 2, 8])), "zero": draw(st.integers(0, 3))}
    layout |= {"recompute": draw(st.sampled_from(["none", "selective", "full"]))}
    layout |= {name: draw(st.booleans()) for name in ("fused_attention", "dropout", "sequence_parallel")}
    return shape, layout


@given(layouts(), st.floats(0, 0.5))
def test_the_parts_add_up_and_the_stage_that_needs_most_is_found(case, fragmentation):
    shape, layout = case
    p = layout["pp"]
    worst = held(shape, **layout, fragmentation=fragmentation, reserved=7)
    each = [held(shape, **layout, stage=i, fragmentation=fragmentation, reserved=7) for i in range(p)]
    assert worst.total == pytest.approx(max(one.total for one in each), **close)
    for one in (worst, *each):
        parts = [getattr(one, field.name) for field in fields(one)]
        assert min(parts) >= 0
        assert one.total == pytest.approx(sum(parts), **close)
        assert one.fragmentation == pytest.approx(fragmentation * one.dynamic, **close)
        assert one.headroom(1000) == pytest.approx(1000 - one.total, **close)
        assert one.fits(one.total * 1.001)
        assert not one.fits(one.total * 0.999)


@given(layouts())
def test_all_ranks_together_hold_the_model_once_for_each_replica(case):
    shape, layout = case
    weights = sum(held(shape, **layout, stage=i).weights for i in range(layout["pp"]))
    replicas = layout["dp"] if layout["zero"] < 3 else 1
    twice = shape.vocab * shape.hidden * (shape.tied and layout["pp"] > 1)  # tied, and on the first and the last stage
    in_experts = 0 if not shape.experts else shape.count(Experts) * shape.biases * _ffn_biases(shape)
    expected = 2 * (parameters(shape).total + twice) * replicas
    assert weights * layout["dp"] == pytest.approx(expected, abs=2 * in_experts * replicas, rel=1e-12)


def _ffn_biases(shape):
    return (1 + shape.gated) * shape.ffn


@given(layouts())
def test_the_activations_are_those_of_a_pipeline_that_runs(case):
    shape, layout = case
    p, v, m = layout["pp"], layout["chunks"], layout["microbatches"]
    line = simulate_pipeline("interleaved" if v > 1 else "1f1b", stages=p, microbatches=m, chunks=v)
    names = ("sequence", "fused_attention", "dropout", "sequence_parallel")
    settings_ = {name: layout[name] for name in names}
    for i in range(p):
        need = held(shape, **layout, stage=i)
        if layout["recompute"] == "none" and not shape.experts:
            one = kept_by_layer(shape, **settings_)
            layer = stage_layers(shape.layers, p, i, chunks=v) * one.total
            masks = (i == 0) * layout["dropout"] * layout["sequence"] * shape.hidden
            assert need.activations == pytest.approx(line.in_flight[i] * (layer + masks), **close)
        assert (need.recomputation > 0) <= (layout["recompute"] != "none")


@given(layouts(), st.sampled_from(["sequence_parallel", "zero", "recompute", "cp", "fused_attention", "dropout"]))
def test_what_saves_memory_never_costs_activations_or_state(case, change):
    shape, layout = case
    layout |= {"sequence_parallel": False, "recompute": "none", "fused_attention": False, "dropout": True, "zero": 0}
    layout["sequence"] *= 2  # so that two ranks can share it
    saving = {"sequence_parallel": True, "zero": 3, "recompute": "full", "cp": 2, "fused_attention": True}
    saving["dropout"] = False
    more, less = (held(shape, **one, stage=0) for one in (layout, layout | {change: saving[change]}))
    assert less.activations <= more.activations * (1 + 1e-12)
    assert less.state <= more.state * (1 + 1e-12)
    twice = held(shape, **layout | {"microbatch": 2}, stage=0)
    assert twice.activations == pytest.approx(2 * held(shape, **layout, stage=0).activations, **close)


def test_tensor_parallelism_splits_all_but_what_every_rank_needs():
    """A grouped key head is on every rank with one of its query heads; norms and latents are on all."""
    llama = transformer("Llama 3 70B")
    whole, by_8, by_64 = (held(llama, sequence=4096, microbatches=1, tp=t, stage=0) for t in (1, 8, 64))
    norms = 2 * (2 * 80 + 1) * 8192
    assert 8 * (by_8.weights - norms) == pytest.approx(whole.weights - norms, **close)
    keys = 80 * 2 * 8192 * 128 * (64 - 8) * 2  # 64 copies of 8 heads
    assert 64 * (by_64.weights - norms) == pytest.approx(whole.weights - norms + keys, **close)
    deepseek = transformer("DeepSeek-V3")
    latent = 61 * 7168 * (1536 + 512 + 64)
    one, many = (held(deepseek, sequence=4096, microbatches=1, tp=t, ep=32, dp=256 // t, etp=1) for t in (1, 8))
    assert many.weights > 2 * latent
    assert one.weights > many.weights > one.weights / 8


@pytest.mark.parametrize("recompute", ["none", "selective", "full"])
def test_context_parallelism_holds_c_times_the_sequence_in_the_same_bytes(recompute):
    layout = {"microbatches": 8, "tp": 4, "pp": 2, "recompute": recompute, "dropout": True, "zero": 0}
    one, four = (held(transformer("Llama 3.1 8B"), sequence=4096 * c, cp=c, **layout) for c in (1, 4))
    assert vars(one) == vars(four)


def test_ranks_of_context_parallelism_share_the_tokens_of_a_layer():
    """Four times the sequence on four ranks is as many tokens on each; only scores meet the whole sequence."""
    layer = {"fused_attention": False, "dropout": True, "tp": 2}
    one, four = (kept_by_layer(transformer("Llama 3.1 8B"), sequence=4096 * c, cp=c, **layer) for c in (1, 4))
    assert four == replace(one, scores=4 * one.scores)
    assert kept_by_layer(transformer("Llama 3.1 8B"), sequence=4096, cp=4, **layer) == replace(
        one, **{name: part / 4 for name, part in vars(one).items()}
    )


@pytest.mark.parametrize("ep", [1, 2, 8])
@pytest.mark.parametrize("wide", [64, 4096])
def test_zero_3_gathers_the_largest_layer_whether_dense_or_a_mixture(ep, wide):
    """Two layers of weights in 2 bytes, and one layer's gradients in 4; a mixture is attention, router and experts."""
    mixed = Transformer(layers=4, hidden=64, heads=4, ffn=wide, vocab=1, gated=True, experts=8, experts_per_token=2)
    mixed = replace(mixed, expert_ffn=128, shared_experts=1, dense_layers=2)
    need = held(mixed, sequence=64, microbatches=1, dp=8, ep=ep, zero=3)
    # From the parameters of models with a layer more of either kind.
    dense = parameters(replace(mixed, layers=5, dense_layers=3)).total - parameters(mixed).total
    mixture = parameters(replace(mixed, layers=5)).total - parameters(mixed).total
    mixture -= 8 * (1 - 1 / ep) * 3 * 64 * 128  # experts that other ranks hold
    assert need.gathered == (2 * 2 + 4) * max(dense, mixture)
    assert (dense > mixture) == (wide == 4096)


def test_experts_are_shared_out_over_the_data_parallel_ranks():
    """DeepSeek-V3's own layout: 16 stages, 64 ranks share the experts, 2,048 GPUs, no tensor parallelism."""
    deepseek = transformer("DeepSeek-V3")
    layout = {"sequence": 4096, "microbatches": 60, "pp": 16, "dp": 128, "recompute": "full"}
    spread, whole = (held(deepseek, **layout, ep=ep, stage=1, zero=1) for ep in (64, 1))
    expert = 4 * 256 * 3 * 7168 * 2048 * 2
    assert whole.weights - spread.weights == pytest.approx(expert * 63 / 64, **close)
    # Both shares of the optimizer state are all of it over 128 ranks: 64 times 2, or 1 times 128.
    assert whole.optimizer == pytest.approx(spread.optimizer, **close)
    assert spread.fits(80 * GB)
    assert not whole.fits(80 * GB)


def test_experts_are_whole_where_they_are_shared_out_unless_said_otherwise():
    layout = {"sequence": 4096, "microbatches": 1, "tp": 2, "dp": 8}
    mixtral = transformer("Mixtral 8x7B")
    for ep, etp in ((1, 2), (4, 1)):
        assert held(mixtral, **layout, ep=ep) == held(mixtral, **layout, ep=ep, etp=etp)


@pytest.mark.parametrize("etp", [1, 2])
@pytest.mark.parametrize("ep", [1, 8])
@pytest.mark.parametrize("cp", [1, 2, 8])
def test_all_ranks_of_a_mixture_hold_its_state_once_under_zero_3(ep, etp, cp):
    """Mixtral 8x7B on 16 ranks, two of them tensor parallel: each expert is shared by the ranks that hold its part."""
    mixtral = transformer("Mixtral 8x7B")
    layout = {"sequence": 4096, "microbatches": 1, "tp": 2, "dp": 8 // cp, "cp": cp, "ep": ep, "etp": etp}
    on_both = (2 * 32 + 1) * 4096 + 32 * 4096 * 8  # norms and routers
    need = held(mixtral, **layout, zero=3)
    assert 16 * need.state == pytest.approx(18 * (parameters(mixtral).total + on_both), **close)
    # In groups of two, the experts' state is there 16 / (2 ep etp) times, where so many ranks hold the same part.
    grouped = held(mixtral, **layout, zero=3, shard_group=2)
    experts = 32 * 8 * 3 * 4096 * 14336
    copies = max(16 / (ep * etp), 2) / 2 if ep * etp < 16 else 1
    dense = parameters(mixtral).total - experts + on_both
    assert 16 * grouped.state == pytest.approx(18 * (copies * experts + 4 * dense), **close)


def test_what_is_recomputed_is_held_for_a_moment():
    llama, layer = transformer("Llama 3 8B"), {"sequence": 8192, "fused_attention": False}
    kept = kept_by_layer(llama, **layer)
    need = {how: held(llama, **layer, microbatches=1, recompute=how) for how in ("none", "selective", "full")}
    assert [need[how].recomputation for how in need] == [0, kept.scores, kept.total - 2 * 8192 * 4096]
    assert need["full"].activations == 32 * 2 * 8192 * 4096


@pytest.mark.parametrize("tp", [1, 4])
def test_every_second_gemm_is_computed_again_and_the_others_keep_what_they_made(tp):
    """Of q, k, v, o, gate, up, down: q, v, gate and attention's output stay, beside both residual streams."""
    llama = transformer("Llama 3.1 8B")
    layer = {"sequence": 8192, "tp": tp}
    need = held(llama, **layer, microbatches=1, recompute="alternate")
    heads = 4096 + 1024 + 4096  # queries, values, and what attention finds
    kept = 2 * 8192 / tp * (2 * 4096 + heads + 14336)
    assert need.activations == pytest.approx(32 * kept, **close)
    assert need.recomputation == pytest.approx(kept_by_layer(llama, **layer).total - kept, **close)
    deepseek = replace(transformer("DeepSeek-V3"), layers=8, dense_layers=0, shared_experts=2)
    need = held(deepseek, sequence=4096, microbatches=1, recompute="alternate")
    heads = 128 * (128 + 128 + 128)  # as wide as values: queries and values without their rotary part, what is found
    # Grouped GEMMs are all computed again: of experts the shared ones alone keep what they made.
    assert need.activations == pytest.approx(8 * 2 * 4096 * (2 * 7168 + heads + 2 * 2048), **close)


def test_each_rank_keeps_the_key_heads_that_its_queries_need():
    """Llama 3 70B has 8 key heads: on 64 ranks of one query head each, every rank keeps one key and one value head."""
    llama = transformer("Llama 3 70B")
    by_8, by_64 = (kept_by_layer(llama, sequence=4096, tp=t, sequence_parallel=True).attention for t in (8, 64))
    assert by_8 == 2 * 4096 * (8192 / 8 + (8 + 2 + 8) * 128)
    assert by_64 == 2 * 4096 * (8192 / 64 + (1 + 2 + 1) * 128)


def test_hybrid_sharding_lies_between_none_and_all():
    llama = transformer("Llama 3 8B")
    layout = {"sequence": 8192, "microbatches": 1, "dp": 64, "zero": 3}
    eight, all_64 = held(llama, **layout, shard_group=8), held(llama, **layout)
    assert eight.state == pytest.approx(8 * all_64.state, **close)
    # The largest unit of an 8B model is its output layer with the final norm: two of weights, one of gradients.
    largest = llama.vocab * llama.hidden + llama.hidden
    assert eight.gathered == all_64.gathered == (2 * 2 + 4) * largest


def test_gpipe_holds_all_microbatches_and_zero_bubble_twice_the_stages():
    gpt, setup = transformer("GPT 175B"), {"sequence": 2048, "microbatches": 64, "tp": 8, "pp": 8, "stage": 0}
    base = held(gpt, **setup, schedule="1f1b").activations
    ratios = {"gpipe": 8, "zb-h1": 1, "zb-h2": 15 / 8, "interleaved": 1}
    for schedule, ratio in ratios.items():
        assert held(gpt, **setup, schedule=schedule).activations == pytest.approx(ratio * base, **close)
    last = setup | {"stage": 7}
    outputs = [held(gpt, **last, schedule=schedule).output for schedule in ("1f1b", "gpipe")]
    assert outputs[1] == 64 * outputs[0] > 0


# --- arrays, refusals ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["Llama 3 70B", "DeepSeek-V3"])
@pytest.mark.parametrize("stage", [None, 0])
def test_a_layout_of_arrays_is_a_loop_of_layouts(name, stage):
    rng, n = np.random.default_rng(7), 40
    columns = {
        "tp": rng.choice([1, 2, 8], n),
        "pp": rng.choice([1, 2, 4, 16], n),
        "dp": rng.choice([8, 16], n),
        "cp": rng.choice([1, 2], n),
        "ep": rng.choice([1, 4, 8] if transformer(name).experts else [1], n),
        "microbatch": rng.choice([1, 2], n),
        "microbatches": rng.choice([1, 8, 30], n),
        "zero": rng.integers(0, 4, n),
        "recompute": rng.choice(["none", "selective", "full"], n),
        "sequence_parallel": rng.choice([True, False], n),
    }
    columns["chunks"] = np.where(columns["pp"] > 1, rng.choice([1, 2], n), 1)
    columns["schedule"] = np.where(columns["chunks"] > 1, "interleaved", rng.choice(["1f1b", "gpipe", "zb-h1"], n))
    common = {"sequence": 4096, "etp": 1, "stage": stage, "fragmentation": 0.1, "reserved": 1e9}
    common["fused_attention"] = False
    loop = []
    for i in range(n):
        row = {name: column[i].item() for name, column in columns.items()}
        loop.append(held(transformer(name), **common, **row))
    assert_equals_a_loop(held(transformer(name), **common, **columns), loop)


def test_a_layer_of_arrays_is_a_loop_too():
    llama, sp = transformer("Llama 3 8B"), np.array([True, False, True])
    tp, cp = np.array([1, 2, 8]), np.array([1, 4, 2])
    each = list(zip(tp.tolist(), cp.tolist(), sp.tolist(), strict=True))
    assert_equals_a_loop(
        kept_by_layer(llama, sequence=8192, tp=tp, cp=cp, sequence_parallel=sp),
        [kept_by_layer(llama, sequence=8192, tp=t, cp=c, sequence_parallel=p) for t, c, p in each],
    )


def test_a_record_prints_its_parts():
    need = held(transformer("Mixtral 8x7B"), sequence=4096, microbatches=4, tp=8)
    assert "activations" in repr(need)
    assert "experts" in repr(kept_by_layer(transformer("Mixtral 8x7B"), sequence=4096, moe=True))
    assert "checkpoint" in model_state(1e9)._repr_html_()


LLAMA = {"sequence": 8192, "microbatches": 8}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"tp": 3}, "tp must divide heads, got tp 3, heads 32"),
        ({"tp": [1, 5]}, "tp must divide heads"),
        ({"pp": 40}, "pp times chunks must be at most layers . 2, got pp 40, chunks 1, layers 32"),
        ({"chunks": 2}, "chunks above 1 need pp above 1, got pp 1, chunks 2"),
        ({"dp": 0}, "dp must be a whole number"),
        ({"cp": 1.5}, "cp must be a whole number"),
        ({"ep": 3, "dp": 4}, "ep must divide experts, got ep 3, experts 0"),
        ({"zero": 4}, "zero must be 0, 1, 2 or 3, got 4"),
        ({"zero": 1.5}, "zero must be 0, 1, 2 or 3"),
        ({"shard_group": 3, "dp": 4}, "shard_group must divide dp cp, got dp 4, cp 1, shard_group 3"),
        ({"recompute": "half"}, "recompute must be one of none, selective, alternate, full; got 'half'"),
        ({"schedule": "2f2b"}, "schedule must be one of"),
        ({"stage": 2, "pp": 2}, "stage must be a whole number from 0 to stages - 1, got 2 of 2"),
        ({"sequence_parallel": 1}, "sequence_parallel must be True or False, got 1"),
        ({"dropout": [True, False]}, "dropout must be True or False"),
        ({"microbatches": 0}, "global_batch must be a whole number"),
        (
            {"microbatches": 1.5, "microbatch": 2},
            "dp times microbatch must divide global_batch, got dp 1, microbatch 2, global_batch 3",
        ),
        ({"sequence": 0}, "sequence must be a whole number"),
        ({"weight_bytes": -2}, "weight_bytes must be zero or more"),
    ],
)
def test_nonsense_is_refused_by_name(change, message):
    with pytest.raises(ValueError, match=message):
        held(transformer("Llama 3 8B"), **LLAMA | change)


def test_more_ranks_than_experts_are_refused():
    with pytest.raises(ValueError, match="ep must divide experts, got ep 16, experts 8"):
        held(transformer("Mixtral 8x7B"), **LLAMA, dp=16, ep=16)
    with pytest.raises(ValueError, match="ep times etp must divide tp cp dp, got tp 1, dp 4, cp 1, ep 4, etp 2"):
        held(transformer("Mixtral 8x7B"), **LLAMA, dp=4, ep=4, etp=2)
    with pytest.raises(ValueError, match="capacity must be positive"):
        held(transformer("Mixtral 8x7B"), **LLAMA).headroom(0)


def test_one_layer_is_refused_by_name():
    with pytest.raises(ValueError, match="tp must divide heads, got 3 and 32"):
        kept_by_layer(transformer("Llama 3 8B"), sequence=10, tp=3)
    with pytest.raises(ValueError, match="moe must be True or False"):
        kept_by_layer(transformer("Llama 3 8B"), sequence=10, moe=1)


# --- Hybrids ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["Nemotron-H 8B", "Nemotron 3 Nano"])
def test_the_ranks_of_a_hybrid_hold_its_parameters(name):
    """On one rank all of them; split over eight, of dense ones only norms and routers are there eight times."""
    shape, workload = transformer(name), Workload(sequence=8192, global_batch=8)
    whole = footprint(shape, workload, Layout(zero=0)).weights / 2
    assert whole == pytest.approx(parameters(shape).total, rel=1e-12)
    split = 8 * footprint(shape, workload, Layout(tp=8, zero=0)).weights / 2
    blocks = sum(stack.count * len(stack.blocks) for stack in shape.stacks)
    beside = (blocks + 1) * shape.hidden + shape.count(Experts) * shape.experts * shape.hidden
    keys = shape.count(Attention) * 2 * shape.hidden * shape.head_dim * max(8 - shape.kv_heads, 0)
    assert split - parameters(shape).total == pytest.approx(7 * beside + keys, rel=1e-9)


def test_a_hybrid_keeps_less_of_attention_and_more_of_its_mixers():
    shape, workload = transformer("Nemotron-H 8B"), Workload(sequence=8192, global_batch=1)
    kept = {how: footprint(shape, workload, Layout(recompute=how)).activations for how in ("none", "full")}
    tokens, h = 8192, 4096
    mixer = 2 * tokens * (2 * h + 3 * 8192 + 2 * 1024 + 128)
    feed_forward, attention = 2 * tokens * (2 * h + 2 * 21504), 2 * tokens * (2 * h + 2 * 4096 + 2 * 1024)
    assert kept["none"] == pytest.approx(24 * mixer + 24 * feed_forward + 4 * attention)
    assert kept["full"] == 52 * 2 * tokens * h


@pytest.mark.parametrize("tp", [1, 8])
def test_a_hybrid_s_masks_are_those_of_its_attention_and_feed_forward_blocks(tp):
    """One byte an element after each of 4 blocks of attention and 24 feed-forwards, and after the embedding."""
    shape, workload = transformer("Nemotron-H 8B"), Workload(sequence=8192, global_batch=1)
    need = [
        footprint(shape, workload, Layout(tp=tp), software=replace(SOFTWARE["2024"], dropout=on), stage=0)
        for on in (True, False)
    ]
    assert need[0].activations - need[1].activations == (4 + 24 + 1) * 8192 * 4096 / tp


def test_activations_of_a_layer_are_bytes():
    shape = Transformer(layers=2, hidden=64, heads=8, ffn=256, vocab=100, others=((1, SlidingWindow(4)),))
    usual = SOFTWARE["2024"]
    in_bytes = replace(usual, **{name: q("octet") for name in vars(usual) if name.endswith("_bytes")})
    found = layer_activations(shape, Workload(sequence=8, global_batch=2), Layout(tp=2), software=in_bytes)
    assert_units(found, total="octet", norms="octet", attention="octet", feed_forward="octet")


# --- Peaks of a moment, and empty gradients --------------------------------------------------------------------------

LLAMA_8 = transformer("Llama 3.1 8B")
TE = replace(SOFTWARE["NeMo"], gradient_bytes=4)


def peak(shape=LLAMA_8, *, sequence=8192, microbatches=8, software=TE, **layout):
    how = {name: layout.pop(name) for name in OF_FOOTPRINT if name in layout}
    cut = Layout(**layout)
    workload = Workload(sequence=sequence, global_batch=microbatches * cut.dp * cut.microbatch)
    return footprint(shape, workload, cut, software=software, **how)


def stands(shape, tokens, tp=1):
    """The peak of gradients in a dense gated layer, by taking and giving back tensor after tensor."""
    stream, qkv = 2 * tokens * shape.hidden, 2 * tokens * (shape.heads + 2 * shape.kv_heads) * shape.head_dim / tp
    value, wide = 2 * tokens * shape.heads * shape.value_dim / tp, 2 * tokens * shape.ffn / tp
    now = most = 0.0

    def take(size):
        nonlocal now, most
        now += size
        most = max(most, now)

    take(2 * stream)  # the stream's gradient, whole, and an input that is gathered, or the gradient that it gets
    take(wide)  # of the product
    now -= wide  # the product, which no further gradient needs
    take(2 * wide)  # of the gate and of what it gates
    now -= wide  # the product's gradient
    now -= 2 * wide  # the gate and what it gates
    now -= 2 * wide  # their gradients
    now += 3 * wide  # what this layer kept is not counted here
    take(value)
    take(qkv)
    return most


@pytest.mark.parametrize("tp", [1, 2, 8])
def test_gradients_of_activations_are_most_where_a_walk_through_the_layer_finds_them(tp):
    need = peak(tp=tp, pp=2, stage=0, schedule="1f1b")
    assert need.backward == pytest.approx(stands(LLAMA_8, 8192, tp), **close)
    assert (need.output, need.recomputation) == (0, 0)


def test_the_peak_is_of_the_loss_or_of_a_layer_and_never_of_both():
    loss, layer = peak(recompute="full"), peak(recompute="full", software=replace(TE, logit_bytes=0.01))
    assert (loss.recomputation, layer.output) == (0, 0)
    assert loss.output == 2 * 2 * 8192 * 4096 + 2 * 8192 * LLAMA_8.vocab
    assert layer.recomputation == kept_by_layer(LLAMA_8, sequence=8192).total - 2 * 8192 * 4096
    both = peak(recompute="full", software=replace(TE, peak_of_a_moment=False))
    assert both.output + both.recomputation > max(loss.output, layer.recomputation)
    assert loss.activations == layer.activations == both.activations
    # All microbatches of GPipe wait with their logits: the first to go back leaves the others there.
    waiting = peak(recompute="full", pp=2, stage=1, schedule="gpipe", microbatches=4)
    alone = peak(recompute="full", pp=2, stage=1, schedule="1f1b", microbatches=4)
    assert waiting.output == 4 * alone.output


def test_arrays_take_the_larger_moment_layout_by_layout():
    axes = {"recompute": ["full", "none", "full"], "tp": [1, 8, 8], "zero": [3, 1, 3]}
    some = peak(software=SOFTWARE["torchtitan"], **{name: np.array(values) for name, values in axes.items()})
    for i in range(3):
        one = peak(software=SOFTWARE["torchtitan"], **{name: values[i] for name, values in axes.items()})
        assert (some.total[i], some.output[i], some.gathered[i]) == (one.total, one.output, one.gathered)


def test_an_empty_gradient_stands_for_every_matrix_of_a_shape():
    """As one layer has: more layers need no more of them. A stage without the output layer has none of its own."""
    of_layer = 2 * (4096 * (4096 + 2 * 1024) + 4096 * 4096 + 3 * 4096 * 14336)
    head = 2 * 4096 * LLAMA_8.vocab
    for layers in (1, 4, 32):
        assert peak(replace(LLAMA_8, layers=layers)).placeholders == of_layer + head
    assert peak(pp=2, stage=0).placeholders == of_layer
    assert peak(tp=4).placeholders == (of_layer + head) / 4
    assert peak(software=replace(TE, gradient_placeholders=False)).placeholders == 0
    deepseek = replace(transformer("DeepSeek-V3"), layers=4, dense_layers=1, mtp_depth=0)
    each = [peak(deepseek, sequence=4096, pp=2, stage=i, ep=ep, dp=8).placeholders for i in (0, 1) for ep in (1, 8)]
    assert (each[0], each[2]) == (each[1], each[3])  # one expert's, however many there are on a rank
    dense = 2 * 3 * 7168 * 18432
    assert each[0] - (each[2] - 2 * 7168 * 129280) == pytest.approx(dense)


@given(st.sampled_from(["NeMo", "NeMo 26.06", "2026", "torchtitan"]), st.sampled_from([1, 2, 4]), st.integers(0, 3))
def test_more_ranks_of_any_axis_that_cuts_need_no_more(stack_, tp, zero):
    software = SOFTWARE[stack_]
    few = peak(software=software, tp=tp, dp=2, zero=zero)
    assert peak(software=software, tp=2 * tp, dp=2, zero=zero).total < few.total
    assert peak(software=software, tp=tp, dp=4, zero=zero).total <= few.total
    assert peak(software=software, tp=tp, dp=2, zero=zero, recompute="full").total < few.total
    assert peak(software=software, tp=tp, dp=2, zero=zero, sequence=16384).total > few.total
