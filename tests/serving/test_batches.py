"""Batches: an engine that runs pass by pass."""

from dataclasses import replace

import numpy as np
import pytest

from clusterlab.model import Layout
from clusterlab.serving import (
    Batch,
    Formats,
    Replica,
    Requests,
    continuous_batch,
    forward_pass,
    largest_batch,
    mixed_passes,
    saturation,
    static_batch,
)
from serving_cases import DEEPSEEK, H100, LARGE, SMALL


def test_a_static_batch_is_its_passes_added_up():
    replica, requests = Replica(SMALL, H100, formats=Formats("fp8")), Requests(300, 40)
    prefill = forward_pass(replica, Batch(prompt_tokens=8 * 300, chunk=300)).time
    passes = [forward_pass(replica, Batch(sequences=8, context=300 + i)).time for i in range(1, 40)]
    found = static_batch(replica, requests, sequences=8)
    assert found.time_to_first_token == prefill
    assert found.latency == pytest.approx(prefill + sum(passes), rel=1e-6)
    assert found.tokens_per_second == pytest.approx(8 * 40 / found.latency)
    room = largest_batch(replica, 340)
    late = static_batch(replica, requests, sequences=2 * room)
    assert late.sequences == room
    assert late.latency == pytest.approx(2 * static_batch(replica, requests, sequences=room).latency)


@pytest.mark.parametrize(("prompt", "output", "slots"), [(400, 100, 50), (60, 240, 120)])
def test_a_continuous_batch_is_an_engine_run_pass_by_pass(prompt, output, slots):
    """Each slot has its own context; where an answer ends the next prompt is read whole in the pass that follows."""
    replica, requests = Replica(SMALL, H100, formats=Formats("fp8")), Requests(prompt, output)
    written = (np.arange(slots) * output / slots).round()  # answers end one after the other
    time = tokens = 0.0
    for _ in range(2 * output):
        reading = np.count_nonzero(written == 0)
        decoding = slots - reading
        context = prompt + np.mean(written[written > 0])
        batch = Batch(sequences=decoding, context=context, prompt_tokens=reading * prompt, chunk=prompt)
        time += forward_pass(replica, batch).time
        tokens += slots  # a prompt that is read gives its first token
        written = (written + 1) % output
    law = continuous_batch(replica, requests, sequences=slots)
    assert law.tokens_per_second == pytest.approx(tokens / time, rel=0.03)
    assert law.time_per_token == pytest.approx(slots / law.tokens_per_second)
    first = Batch(sequences=slots, context=prompt + output / 2, prompt_tokens=prompt, chunk=prompt)
    assert law.time_to_first_token == pytest.approx(forward_pass(replica, first).time)
    assert law.latency == pytest.approx(law.time_to_first_token + (output - 1) * law.time_per_token)
    assert law.tokens_per_second_per_gpu == law.tokens_per_second
    assert law.speed == 1 / law.time_per_token


def test_a_prompt_in_chunks_waits_longer_and_stalls_others_less():
    replica, requests = Replica(LARGE, H100, Layout(tp=4), Formats("fp8")), Requests(8000, 400)
    whole, chunked = (continuous_batch(replica, requests, sequences=32, chunk=chunk) for chunk in (None, 500))
    assert chunked.time_to_first_token > whole.time_to_first_token
    # Chunks ride on passes that read the weights anyway (Sarathi-Serve): mixed passes yield more, though caches are
    # read again with every chunk.
    assert 0.8 < chunked.time_per_token / whole.time_per_token < 0.95
    stall = forward_pass(replica, Batch(sequences=32, context=8200, prompt_tokens=500, chunk=500, cached=3750)).time
    assert chunked.time_to_first_token == pytest.approx(16 * stall, rel=1e-3)
    cached = continuous_batch(replica, replace(requests, cached=0.75), sequences=32)
    assert cached.time_to_first_token < 0.4 * whole.time_to_first_token
    assert cached.tokens_per_second > whole.tokens_per_second


def test_prompts_read_elsewhere_leave_passes_that_only_decode():
    replica = Replica(DEEPSEEK, H100, Layout(dp=32, ep=32), Formats("fp8", cache_bytes=1))
    both = continuous_batch(replica, Requests(4000, 1000, cached=[0.5, 1.0]), sequences=2048)
    alone = forward_pass(replica, Batch(sequences=2048, context=4500)).time
    assert both.time_per_token[1] == pytest.approx(alone)
    assert both.time_per_token[0] > 1.2 * alone
    assert both.time_to_first_token[1] == 0
    assert both.latency[1] == pytest.approx(999 * alone)


def test_saturation_is_the_first_limit_that_is_reached():
    replica = Replica(SMALL, H100, Layout(dp=2), Formats("fp8", cache_bytes=1))
    soft = replica.software
    assert saturation(replica, Requests(10, 10)) == 2 * soft.max_sequences
    assert saturation(replica, Requests(2000, 100)) == np.floor(2 * soft.max_tokens / 21)
    assert saturation(replica, Requests(50_000, 50_000)) == largest_batch(replica, 100_000)


def test_shorter_chunks_bring_both_passes_together_and_leave_the_mean():
    """A chunk as long as what comes in each pass makes all passes alike: the longest gap is then the mean."""
    replica, requests = Replica(SMALL, H100, formats=Formats("fp8")), Requests(1000, 500)
    every = mixed_passes(replica, requests, sequences=100, chunk=np.array([1000.0, 500.0, 250.0, 200.0, 100.0]))
    assert every.share == pytest.approx([0.2, 0.4, 0.8, 1, 1])
    assert np.all(np.diff(every.reading[:4]) < 0)
    assert every.mean == pytest.approx(np.full(5, every.mean[-1]), rel=0.1)
    assert every.mean[3] == every.reading[3]
    alone = forward_pass(replica, Batch(sequences=100, context=1250)).time
    assert every.decoding == pytest.approx(np.full(5, alone))
    chunks = continuous_batch(replica, requests, sequences=100, chunk=np.array([1000.0, 250.0]))
    assert chunks.time_per_token == pytest.approx(every.mean[[0, 2]])
    elsewhere = mixed_passes(replica, Requests(1000, 500, cached=1.0), sequences=100)
    assert (elsewhere.share, elsewhere.reading) == (0, elsewhere.decoding)
