"""Serving online: what users wait for, in a closed loop, with pools apart, and beside a replica run pass by pass."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterlab.catalogue import PREDICTION_INTERVALS, SERVING, machine
from clusterlab.model import Layout, transformer
from clusterlab.serving import (
    MEASURES,
    Batch,
    Drafts,
    Formats,
    Pools,
    Replica,
    Requests,
    closed_loop,
    forward_pass,
    mixed_passes,
    open_loop,
    saturation,
    split_loop,
)
from serving_witness import Passes, run

FORMATS = Formats("fp8", cache_bytes=1)
LLAMA = Replica(transformer("Llama 3.1 70B"), machine("H100 SXM"), Layout(tp=4), FORMATS, software=SERVING["vLLM"])
ASKED = Requests(900, 900)
BARE = replace(LLAMA, software=replace(SERVING["vLLM"], first_passes=0.0))


# --- The law, part by part -------------------------------------------------------------------------------------------


def test_one_user_waits_for_nobody():
    """A pass of one's own prompt, then a pass a token, and the passes until a first token is sent."""
    found = closed_loop(LLAMA, ASKED, users=1, rounds=1e9)
    sent = LLAMA.software.stream_time
    gap = forward_pass(LLAMA, Batch(sequences=1, context=900 + 450)).time + sent
    alone = forward_pass(LLAMA, Batch(prompt_tokens=900, chunk=900)).time
    assert found.gap == pytest.approx(gap)
    assert found.place == found.waiting == 0
    assert found.passes == pytest.approx(LLAMA.software.first_passes * found.time_per_token)
    assert alone < found.prompts < 1.05 * alone  # its own prompt's next turn is all that is before it


def test_a_token_is_the_mean_of_the_passes_of_a_batch_that_never_ends():
    passes = mixed_passes(LLAMA, ASKED, sequences=48)
    found = closed_loop(LLAMA, ASKED, users=48)
    assert found.time_per_token == pytest.approx(passes.mean + 48 * LLAMA.software.stream_time)
    assert found.gap_with_prompt - found.gap == pytest.approx(passes.reading - passes.decoding)
    assert found.gap_quantile(0.5) == found.gap
    assert found.gap_quantile(0.9999) == pytest.approx(found.gap_with_prompt)


def test_who_finds_no_place_waits_for_one():
    places = float(saturation(LLAMA, ASKED))
    full, more = closed_loop(LLAMA, ASKED, users=places), closed_loop(LLAMA, ASKED, users=2 * places)
    assert (full.waiting, more.waiting) == (0, places)
    assert more.tokens_per_second == pytest.approx(full.tokens_per_second)  # nothing is gained
    assert more.latency == pytest.approx(2 * full.latency)
    assert more.time_per_token == full.time_per_token


def test_waves_of_equal_requests_share_prompts_between_first_and_second_token():
    sglang = replace(LLAMA, software=SERVING["SGLang"])
    waves, mixed = (closed_loop(sglang, ASKED, users=32, alike=alike) for alike in (True, False))
    assert waves.prompts > mixed.prompts
    assert waves.prompt_share == pytest.approx(mixed.prompt_share / 2)
    assert closed_loop(LLAMA, ASKED, users=32, alike=True).prompts == closed_loop(LLAMA, ASKED, users=32).prompts


def test_drafts_give_a_pass_over_the_tokens_that_it_gives():
    drafts = Drafts(3, 0.6)
    passes = mixed_passes(LLAMA, ASKED, sequences=48, drafts=drafts)
    found, none = closed_loop(LLAMA, ASKED, users=48, drafts=drafts), closed_loop(LLAMA, ASKED, users=48)
    sent = 48 * drafts.gain * LLAMA.software.stream_time
    assert found.time_per_token == pytest.approx((passes.mean + sent) / drafts.gain)
    assert found.gap > none.gap
    assert found.time_per_token < none.time_per_token
    assert found.passes == pytest.approx(LLAMA.software.first_passes * found.time_per_token * drafts.gain)
    assert found.gap_quantile(0.5 / drafts.gain) == 0  # comes with the one before
    assert found.gap_quantile(1 - 0.4 / drafts.gain) == found.gap


def test_who_comes_between_two_looks_waits_for_half_of_them():
    seldom = replace(LLAMA, software=replace(LLAMA.software, poll_interval=31))
    often, rare = (closed_loop(one, ASKED, users=16) for one in (LLAMA, seldom))
    assert rare.time_to_first_token - often.time_to_first_token == pytest.approx(15 * often.time_per_token)


def test_ranks_that_wait_for_each_other_wait_no_longer_than_they_may():
    """Few prompts: the most that is waited; many: until each rank has one. One rank waits for nobody."""

    def passes(users, layout, most):
        software = replace(EIGHT.software, first_passes=0.0, balance_passes=most)
        found = closed_loop(replace(EIGHT, layout=layout, software=software), ASKED, users=users)
        return found.passes / found.time_per_token

    apart = Layout(dp=8, ep=8)
    assert passes(1, apart, 60) == pytest.approx(60, rel=0.05)
    assert passes(64, apart, 60) < 45
    assert passes(2000, apart, 60) < 15
    assert passes(64, Layout(tp=8, etp=8), 60) == 0


def test_nothing_fits_is_said():
    small = Replica(transformer("Llama 3.1 70B"), machine("H100 SXM"), Layout(), Formats("fp8", cache_bytes=1))
    with pytest.raises(ValueError, match="not one sequence fits into the memory"):
        closed_loop(small, Requests(100_000, 100_000), users=1)


@given(st.floats(1, 400), st.floats(10, 5000), st.floats(2, 5000))
def test_requests_in_the_system_are_rate_times_time(users, prompt, output):
    """Little's law, and parts that are never negative."""
    found = closed_loop(LLAMA, Requests(prompt, output), users=users)
    assert found.sequences + found.waiting == pytest.approx(users)
    assert found.tokens_per_second / output * found.latency == pytest.approx(users)
    for part in ("place", "prompts", "passes", "gap"):
        assert getattr(found, part) >= 0
    assert found.gap <= found.time_per_token <= found.gap_with_prompt * (1 + 1e-12)


@given(st.floats(1, 200), st.floats(1.01, 3))
def test_more_users_wait_longer_for_every_token(users, times):
    few, many = (closed_loop(LLAMA, ASKED, users=u) for u in (users, times * users))
    assert many.time_per_token >= few.time_per_token * (1 - 1e-12)
    assert many.time_to_first_token >= few.time_to_first_token * (1 - 1e-12)


@pytest.mark.parametrize("measure", MEASURES)
def test_each_measure_has_an_interval_of_its_own(measure):
    found = closed_loop(LLAMA, ASKED, users=16)
    ends, value = PREDICTION_INTERVALS[f"serving: online, {MEASURES[measure]}"], getattr(found, measure)
    assert found.interval(measure) == pytest.approx((ends.low * value, ends.high * value))
    with pytest.raises(ValueError, match="measure must be one of"):
        found.interval("mfu")


# --- A witness -------------------------------------------------------------------------------------------------------


def lengths(n, mean, spread, seed=3):
    return np.maximum(np.random.default_rng(seed).uniform((1 - spread) * mean, (1 + spread) * mean, n).round(), 2)


@pytest.mark.parametrize("users", [4, 16, 64])
def test_a_replica_run_pass_by_pass_takes_as_long(users):
    """Ten rounds from a common start, as a benchmark has them, with lengths within a tenth of their mean."""
    outputs = lengths(10 * users, 900, 0.1)
    first, token, end = run(Passes(BARE, ASKED, users), outputs, users=users, places=users)
    found = closed_loop(BARE, ASKED, users=users)
    assert token.mean() == pytest.approx(found.time_per_token, rel=0.06)
    assert first.mean() == pytest.approx(found.time_to_first_token, rel=0.25)
    assert outputs.sum() / end == pytest.approx(found.tokens_per_second, rel=0.12)  # the last ones leave places empty
    for share in (0.5, 0.95, 0.99) if users > 4 else ():  # nine rounds in ten wait for hardly anybody, one for all
        assert np.quantile(first, share) == pytest.approx(found.first_token_quantile(share), rel=0.15), share


def test_places_that_run_out_make_first_tokens_wait():
    """64 users for 16 places: the wait is the time of a place, three times over."""
    outputs = lengths(640, 300, 0.3)
    asked = Requests(900, 300)
    first, token, _ = run(Passes(BARE, asked, 16), outputs, users=64, places=16)
    alone = closed_loop(BARE, asked, users=16)
    assert token.mean() == pytest.approx(alone.time_per_token, rel=0.08)
    steady = first[64:]  # after the first round
    assert steady.mean() == pytest.approx(3 * alone.latency + alone.time_to_first_token, rel=0.08)


def test_prompts_first_and_equal_lengths_serve_in_waves():
    asked, users = Requests(2000, 200), 16
    bare = replace(BARE, software=replace(SERVING["SGLang"], first_passes=0.0))
    outputs = np.full(10 * users, 200)
    first, token, _ = run(Passes(bare, asked, users), outputs, users=users, places=users, prompts_first=True)
    found = closed_loop(bare, asked, users=users, alike=True)
    assert first.mean() == pytest.approx(found.time_to_first_token, rel=0.1)
    assert token.mean() == pytest.approx(found.time_per_token, rel=0.15)


def poisson(rate, n, burst, seed=5):
    """Arrivals whose number in a while has so many times the variance of its mean: groups that come together."""
    rng = np.random.default_rng(seed)
    if burst == 1:
        return np.cumsum(rng.exponential(1 / rate, n))
    together = (burst + 1) / 2 if burst > 1 else 1  # geometric groups of mean g have 2 g - 1
    sizes = rng.geometric(1 / together, n)
    times = np.repeat(np.cumsum(rng.exponential(together / rate, n)), sizes)
    return times[:n]


@pytest.mark.parametrize(("rate", "burst"), [(1.0, 1), (3.0, 1), (5.0, 1), (3.0, 3)])
def test_requests_that_come_when_they_like(rate, burst):
    """A law of means beside 6,000 requests, pass by pass: tokens, first tokens, and their 95th percentile."""
    asked = Requests(900, 300)
    outputs = lengths(6000, 300, 0.3)
    first, token, _ = run(Passes(BARE, asked, 400), outputs, arrivals=poisson(rate, 6000, burst), places=400)
    found = open_loop(BARE, asked, rate=rate, burstiness=burst)
    assert token[500:].mean() == pytest.approx(found.time_per_token, rel=0.08)
    assert first[500:].mean() == pytest.approx(found.time_to_first_token, rel=0.25)
    assert np.quantile(first[500:], 0.95) == pytest.approx(found.first_token_quantile(0.95), rel=0.35)


def drawn(rng, n, mean, spread):
    """Whole lognormal lengths."""
    variance = np.log1p(spread**2)
    return np.maximum(mean * rng.lognormal(-variance / 2, np.sqrt(variance), n), 2).round()


def weighted_quantile(values, weights, share):
    order = np.argsort(values)
    return values[order][np.searchsorted(np.cumsum(weights[order]) / weights.sum(), share)]


@pytest.mark.slow
@pytest.mark.parametrize(("rate", "spreads"), [(1.0, (1.0, 1.0)), (3.0, (1.0, 0.5)), (5.0, (0.5, 1.0))])
def test_lengths_are_drawn(rate, spreads):
    """Prompts and answers that differ as in a chat: means and percentiles of first tokens and of gaps."""
    rng = np.random.default_rng(8)
    prompts, outputs = (drawn(rng, 6000, mean, spread) for mean, spread in zip((900, 300), spreads, strict=True))
    asked = Requests(900, 300, 0, *spreads)
    gaps = []
    passes = Passes(BARE, asked, 400, prompts)
    first, token, _ = run(passes, outputs, arrivals=poisson(rate, 6000, 1), places=400, gaps=gaps)
    found = open_loop(BARE, asked, rate=rate)
    assert token[500:].mean() == pytest.approx(found.time_per_token, rel=0.08)
    assert first[500:].mean() == pytest.approx(found.time_to_first_token, rel=0.2)
    for share in (0.5, 0.95, 0.99):
        assert np.quantile(first[500:], share) == pytest.approx(found.first_token_quantile(share), rel=0.22), share
    lasted, tokens = np.array(gaps[5000:]).T
    for share in (0.5, 0.99):
        assert weighted_quantile(lasted, tokens, share) == pytest.approx(found.gap_quantile(share), rel=0.2), share
    # With all prompts alike the law would miss the long ones.
    assert open_loop(BARE, Requests(900, 300), rate=rate).first_token_quantile(0.99) < found.first_token_quantile(0.99)


@pytest.mark.slow
@pytest.mark.parametrize("spread", [0.0, 1.0, 1.5])
def test_places_that_run_out_for_answers_that_differ(spread):
    """At nine tenths of what 16 places end, the wait for a place grows with the spread of answers."""
    few = replace(BARE, software=replace(BARE.software, max_sequences=16))
    asked = Requests(900, 300, output_spread=spread)
    passes = Passes(few, asked, 16)
    mean = passes.decoding[-1] + 16 / 300 * (passes.reading[-1] - passes.decoding[-1])
    rate = 0.9 * 16 / (300 * mean)
    outputs = drawn(np.random.default_rng(2), 20_000, 300, spread)
    first, _, _ = run(passes, outputs, arrivals=poisson(rate, 20_000, 1), places=16)
    found = open_loop(few, asked, rate=rate)
    assert first.mean() == pytest.approx(found.time_to_first_token, rel=0.2)
    for share in (0.95, 0.99):
        assert np.quantile(first, share) == pytest.approx(found.first_token_quantile(share), rel=0.2), share


def test_a_load_that_cannot_be_served_is_refused():
    with pytest.raises(ValueError, match="rate must be below"):
        open_loop(LLAMA, ASKED, rate=1000)


# --- Pools apart -----------------------------------------------------------------------------------------------------

EIGHT = Replica(transformer("DeepSeek-V3"), machine("H200 SXM"), Layout(dp=8, ep=8), Formats("fp8"))


def test_apart_no_token_waits_for_a_prompt():
    found = split_loop(Pools(EIGHT, EIGHT), Requests(4000, 500), users=16)
    assert found.prompt_share == 0
    assert found.gap == found.gap_with_prompt == found.time_per_token
    both = closed_loop(EIGHT, Requests(4000, 500), users=16)
    assert found.time_per_token < both.time_per_token


def test_too_few_readers_set_the_pace():
    """Then requests leave as fast as prompts are read, and a second reader makes it twice as fast."""
    asked, users = Requests(8000, 100), 2000
    one, two = (split_loop(Pools(EIGHT, EIGHT, n, 8), asked, users=users) for n in (1, 2))
    prompt = forward_pass(EIGHT, Batch(prompt_tokens=8 * 8000, chunk=8000)).time
    assert one.tokens_per_second / 100 == pytest.approx(8 / prompt, rel=0.02)
    assert two.tokens_per_second == pytest.approx(2 * one.tokens_per_second, rel=0.02)
    assert one.gpus == 72


@pytest.mark.slow
@given(st.floats(1, 4000), st.integers(1, 4), st.integers(1, 4))
def test_apart_too_requests_are_rate_times_time(users, readers, writers):
    found = split_loop(Pools(EIGHT, EIGHT, readers, writers), ASKED, users=users)
    assert found.tokens_per_second / 900 * found.latency == pytest.approx(users)
    assert found.place >= 0
    decoding = found.tokens_per_second / 900 * 899 * found.time_per_token
    assert found.sequences == pytest.approx(decoding, rel=1e-6)


def test_pools_are_of_one_model():
    with pytest.raises(ValueError, match=r"both pools must have one model, got DeepSeek-V3 and Llama 3\.1 70B"):
        Pools(EIGHT, LLAMA)
