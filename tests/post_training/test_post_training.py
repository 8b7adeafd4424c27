"""Post-training: laws against their witnesses, their limits and what others have published."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterlab.catalogue import SERVING, machine
from clusterlab.model import Layout, parameters, transformer
from clusterlab.post_training import (
    LOOP_CONSTANTS,
    Lengths,
    Loop,
    adapter_parameters,
    answers_in_flight,
    balance_pools,
    empty_batch,
    emptying_time,
    expected_longest,
    forward_time,
    iterate,
    pass_line,
    rollout,
    schedule_times,
    versions_behind,
    weight_routes,
)
from clusterlab.serving import Batch, Formats, Replica, forward_pass, largest_batch
from post_training_witness import held_tokens, run_batch, run_pools, run_replicas

VLLM = replace(SERVING["vLLM"], memory_share=0.6)
REPLICA = Replica(transformer("Qwen3 32B"), machine("H100 SXM"), Layout(tp=4), software=VLLM)
WRITTEN = Lengths(3000, 0.8, limit=16384)


# --- Lengths ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("spread", "kept", "limit"), [(0.5, None, None), (1.0, None, 5000), (0.8, 0.9, None)])
def test_the_longest_is_the_mean_of_drawn_maxima(spread, kept, limit):
    random, n = np.random.default_rng(1), 500
    drawn = 1000 * np.exp(spread * random.standard_normal((4000, n)) - spread**2 / 2)
    drawn = np.minimum(drawn, limit or np.inf)
    rank = n if kept is None else round(kept * n)
    mean = np.partition(drawn, rank - 1, axis=1)[:, rank - 1].mean()
    assert expected_longest(1000, spread, samples=n, kept=kept, limit=limit) == pytest.approx(mean, rel=0.02)


@given(st.floats(0, 1.5), st.integers(1, 10_000))
def test_the_longest_is_no_shorter_than_the_mean_and_below_its_bound(spread, n):
    found = expected_longest(1000, spread, samples=n)
    assert found >= 1000 * (1 - 1e-6)
    assert found <= 1000 * np.exp(spread * np.sqrt(2 * np.log(n)) - spread**2 / 2) * (1 + 1e-3) or n == 1


def test_a_limit_and_fewer_waited_for_shorten_the_longest():
    all_of = expected_longest(1000, 0.8, samples=1024)
    assert expected_longest(1000, 0.8, samples=1024, limit=4096) <= 4096
    waited = [expected_longest(1000, 0.8, samples=1024, kept=kept) for kept in (0.5, 0.9, 0.99)]
    assert np.all(np.diff([*waited, all_of]) > 0)


def test_typical_lengths_have_the_moments_of_drawn_ones():
    typical, drawn = WRITTEN.typical(4000), WRITTEN.draw(400_000, np.random.default_rng(2))
    assert typical.mean() == pytest.approx(WRITTEN.written, rel=2e-3)
    assert drawn.mean() == pytest.approx(WRITTEN.written, rel=5e-3)
    assert (drawn**2).mean() == pytest.approx(WRITTEN.squared, rel=2e-2)
    halves = typical[:2000].mean(), typical[2000:].mean()
    assert halves[0] == pytest.approx(halves[1], rel=0.02)


def test_lengths_are_refused_by_name():
    with pytest.raises(ValueError, match="mean must be positive and finite, got 0"):
        Lengths(0)
    with pytest.raises(ValueError, match="written must be below limit, got 4096 of 4096"):
        Lengths.of_written(4096, limit=4096)


# --- Batches that empty ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("places", [16, 64, 500])
def test_a_batch_that_empties_is_the_batch_pass_by_pass(places):
    lengths = Lengths(80, 0.8).draw(200, np.random.default_rng(3))
    batch = empty_batch(lengths, places=places, prompt=50)
    seconds, passes, held = run_batch(lengths, places, lambda n, s: 1e-2 + 1e-4 * n + 1e-6 * n * s, prompt=50)
    found = batch.passes @ (1e-2 + 1e-4 * batch.sequences + 1e-6 * batch.sequences * batch.context)
    assert batch.passes.sum() == passes
    assert batch.mean == pytest.approx(held.mean())
    assert found == pytest.approx(seconds, rel=1e-9)
    assert batch.passes @ batch.sequences == lengths.sum()  # every token is written once


@pytest.mark.slow
def test_the_law_of_emptying_is_the_mean_of_batches_run_pass_by_pass():
    random, pace = np.random.default_rng(4), {"floor": 1e-2, "each": 1e-4, "cache": 1e-6}
    times = [
        run_batch(Lengths(60, 0.8).draw(50, random), 50, lambda n, s: 1e-2 + 1e-4 * n + 1e-6 * n * s, prompt=20)[0]
        for _ in range(400)
    ]
    law = emptying_time(50, 60, 0.8, prompt=20, **pace)
    assert np.mean(times) == pytest.approx(law, rel=0.05)  # three standard errors


def test_a_rollout_is_what_drawn_lengths_give_on_average():
    """The replica with the longest answer sets the time: of four with drawn lengths, pass by pass of the same law."""
    random = np.random.default_rng(5)
    grid = np.arange(1.0, 257)
    short, long = (forward_pass(REPLICA, Batch(sequences=grid, context=s)).time for s in (1.0, 8001.0))

    def seconds(lengths):
        batch = empty_batch(lengths, places=found.places, prompt=100)
        at = batch.sequences.astype(int) - 1
        return batch.passes @ (short[at] + (long - short)[at] * (batch.context - 1) / 8000)

    found = rollout(REPLICA, WRITTEN, samples=800, prompt=100, replicas=4)
    drawn = [max(seconds(WRITTEN.draw(200, random)) for _ in range(4)) for _ in range(40)]
    assert found.full + found.emptying == pytest.approx(np.mean(drawn), rel=0.05)


def test_a_rollout_is_never_quicker_than_a_batch_that_never_empties():
    for samples in (64, 512, 4096):
        found = rollout(REPLICA, WRITTEN, samples=samples, prompt=100, replicas=4)
        assert found.time >= found.steady * (1 - 1e-9)
        assert found.prompts + found.full + found.emptying == pytest.approx(found.time)


@pytest.mark.slow
@pytest.mark.parametrize(("spread", "limit"), [(0.0, 4000), (0.8, 700), (0.8, 4000), (1.2, 4000)])
def test_a_place_holds_half_of_an_answer_that_is_met_by_its_length(spread, limit):
    """Places that never empty, pass by pass with drawn lengths: tokens held are E[X^2] over twice E[X]."""
    lengths = Lengths(300, spread, limit=limit)
    held = held_tokens(20_000, places=400, length=lengths.draw, random=np.random.default_rng(10))
    assert lengths.requests(100).mean_context - 100 == pytest.approx(held, rel=0.03)


def test_a_replica_has_as_many_places_as_its_memory_has_room_for_what_they_hold():
    """Not for answers half written that are mean ones: of this spread they'd be half as many again."""
    held = 100 + held_tokens(40_000, places=200, length=WRITTEN.draw, random=np.random.default_rng(11))
    room = 1000 * largest_batch(REPLICA, 1000)
    found = rollout(REPLICA, WRITTEN, samples=8192, prompt=100, replicas=4)
    assert found.places * held == pytest.approx(room, rel=0.04)
    assert room / (100 + WRITTEN.written / 2) > 1.5 * found.places
    assert found.held == found.places


def test_waiting_for_fewer_is_quicker_and_gives_shorter_answers():
    all_of, most = (rollout(REPLICA, WRITTEN, samples=512, prompt=100, replicas=4, kept=k) for k in (1, 0.9))
    assert most.time < all_of.time
    assert most.tokens / (0.9 * 512) < all_of.tokens / 512


# --- Pools -----------------------------------------------------------------------------------------------------------


@given(st.floats(10, 1e5), st.floats(10, 1e5), st.floats(0, 500), st.integers(8, 1000))
def test_pools_in_balance_are_the_quickest_split_there_is(generating, training, floor, gpus):
    found = balance_pools(gpus, generating=generating, training=training, floor=floor)
    split = np.linspace(0, gpus, 20_001)[1:-1]
    times = np.maximum(floor + generating / split, training / (gpus - split))
    assert found.time <= times.min() * (1 + 1e-9)
    assert floor + generating / found.generators == pytest.approx(found.time, rel=1e-6)
    assert found.generators + found.trainers == pytest.approx(gpus)


@given(st.floats(10, 1e5), st.floats(10, 1e5), st.floats(0, 500), st.floats(0, 1), st.integers(2, 1000))
def test_schedules_stand_in_order_and_without_floors_they_are_one(generating, training, emptying, share, gpus):
    work = {"generating": generating, "training": training}
    found = schedule_times(gpus, **work, emptying=emptying, steady=share * emptying)
    assert found.asynchronous <= found.one_step_off * (1 + 1e-9)
    assert found.one_step_off <= found.synchronous * (1 + 1e-9)
    assert found.asynchronous >= (generating + training) / gpus * (1 - 1e-9)
    even = schedule_times(gpus, **work, emptying=0.0)
    assert even.synchronous == pytest.approx(even.asynchronous, rel=1e-6)


@pytest.mark.parametrize("replicas", [2, 4, 8])
def test_replicas_that_share_the_answers_write_as_the_law_of_pools_says(replicas):
    """Of 64 in flight, with the same two numbers however many GPUs write: floors as often, the rest shared."""
    floor, each, lengths = 10e-3, 0.5e-3, Lengths(50.0, 0.8)
    seconds, done = run_replicas(
        1500,
        replicas=replicas,
        in_flight=64,
        pass_time=lambda n: floor + each * n,
        length=lambda r: lengths.draw(1, r)[0],
        random=np.random.default_rng(8),
    )
    law = floor * 64 * lengths.written / 64 + each * 64 * lengths.written / replicas  # of 64 answers
    assert seconds / done * 64 == pytest.approx(law, rel=0.04)


def test_two_numbers_of_a_pass_give_rollouts_on_half_and_on_twice_the_gpus():
    """What pools take as fixed, the GPU-seconds of sequences and the floors of passes, from 16 to 64 GPUs."""
    line = pass_line(REPLICA, WRITTEN, sequences=100, prompt=100)
    for replicas in (4, 8, 16):
        found = rollout(REPLICA, WRITTEN, samples=800, prompt=100, replicas=replicas, group=16)
        work = line.each * 800 * WRITTEN.written / replicas
        assert line.floor * WRITTEN.longest(800) + work == pytest.approx(found.time, rel=0.04)
        assert line.floor * WRITTEN.written + work == pytest.approx(found.steady, rel=0.08)


def test_staleness_and_time_are_those_of_pools_run_event_by_event():
    """128 slots, a batch of 32: writing is the limit, and an answer is four versions old when it is learned from."""
    lengths = Lengths(60.0, 0.8)
    slots, batch, learn = 128, 32, 5.0
    now, lag = run_pools(
        300,
        batch=batch,
        slots=slots,
        write=lambda r: float(lengths.draw(1, r)[0]),
        learn=learn,
        random=np.random.default_rng(6),
    )
    assert now / 300 == pytest.approx(batch * lengths.written / slots, rel=0.05)
    # Besides those in the slots half a batch waits to be complete, on average.
    assert lag == pytest.approx(versions_behind(slots + batch / 2, batch), rel=0.15)


def test_little_fills_the_places():
    """Answers that write a while and wait a while, in turns: of so many in flight as many write as there are places."""
    random, writing, waiting = np.random.default_rng(7), 60.0, 240.0
    flight = answers_in_flight(256, writing=writing, waiting=waiting)
    writes = random.random(int(flight)) < writing / (writing + waiting)
    assert writes.sum() == pytest.approx(256, rel=0.1)


# --- Weights ---------------------------------------------------------------------------------------------------------


@given(st.floats(1e9, 1e13), st.integers(1, 64), st.integers(1, 64), st.integers(1, 512))
def test_no_route_is_quicker_than_shares_and_none_slower_than_one_source(size, ranks, copies, senders):
    found = weight_routes(size, ranks=ranks, copies=copies, senders=senders, bandwidth=50e9)
    assert found.shards <= found.one_source * (1 + 1e-9)
    assert found.broadcast <= found.one_source * (1 + 1e-9)
    assert found.shards >= size / ranks / 50e9 * (1 - 1e-9)


def test_adapters_of_gpt_3_are_as_few_as_published():
    """Rank 4 on two matrices of each layer: "roughly 18 million" (IBM), a ten-thousandth of 175 billion (Hu et al.)."""
    gpt = transformer("GPT-3 175B")
    found = adapter_parameters(gpt.hidden, gpt.hidden, rank=4, matrices=2 * gpt.layers)
    assert found == pytest.approx(18e6, rel=0.06)
    assert parameters(gpt).total / found == pytest.approx(1e4, rel=0.08)


# --- The loop --------------------------------------------------------------------------------------------------------


def loop(**changes):
    written = Lengths.of_written(3206, limit=4096)
    usual = {"prompts": 64, "group": 32, "prompt": 110, "steps": 4, "pack": 4096, "layout": Layout(tp=4, pp=4, dp=2)}
    return Loop(REPLICA, 8, lengths=written, **usual | changes)


def test_parts_of_an_iteration_sum_to_it_under_every_schedule():
    for schedule in ("synchronous", "one step off", "asynchronous"):
        found = iterate(loop(schedule=schedule))
        parts = found.generation + found.log_probs + found.training + found.weights - found.hidden
        assert parts + found.turns + found.others == pytest.approx(found.time)
        assert found.low < found.time < found.high
        assert min(found.generators_wait, found.trainers_wait) == pytest.approx(0.0, abs=1e-9)


def test_answers_are_as_old_as_places_or_lag_allow():
    """Where writers are the limit, those in their places over a batch; where they wait, all that may be on its way."""
    free = loop(schedule="asynchronous", lag=8, prompts=256, steps=1, layout=Layout(tp=4, dp=32))
    found = iterate(free)
    assert found.generators_wait == 0
    assert found.staleness == 8 * found.rollout.places / free.samples < 8
    assert iterate(replace(free, layout=Layout(tp=4, pp=4))).staleness == 8
    assert [iterate(loop(schedule=one)).staleness for one in ("synchronous", "one step off")] == [0, 1]


def test_apart_is_twice_the_gpus_and_no_slower():
    together, apart = iterate(loop()), iterate(loop(schedule="one step off"))
    assert (together.gpus, apart.gpus) == (32.0, 64.0)
    assert apart.time < together.time


def test_forwards_are_about_a_third_of_a_step():
    found = iterate(loop())
    assert 0.3 < forward_time(found.step) / found.step.time < 0.4


def test_eight_bits_write_faster():
    eight = replace(REPLICA, formats=Formats("fp8"))
    plain, quick = (rollout(one, WRITTEN, samples=512, prompt=100, replicas=4) for one in (REPLICA, eight))
    assert 1.2 < plain.time / quick.time < 2


def test_a_loop_is_refused_by_what_is_wrong_with_it():
    with pytest.raises(ValueError, match="synchronous needs the same GPUs for both, got 32 that generate and 16"):
        Loop(REPLICA, 8, Layout(tp=4, pp=4), WRITTEN, 64, 32)
    with pytest.raises(ValueError, match="schedule must be one of"):
        loop(schedule="never")
    with pytest.raises(ValueError, match="kept must be at most 1"):
        rollout(REPLICA, WRITTEN, samples=8, kept=2)
    with pytest.raises(ValueError, match="sequences must be at least 2, got 1"):
        pass_line(REPLICA, WRITTEN, sequences=1)


def test_packed_answers_attend_to_themselves_alone():
    """A sequence that training works through is as long as answers all alike that attend as much, and not the pack."""
    found, packed = loop(pack=None).workload(), loop().workload()
    answers = loop().lengths.draw(200_000, np.random.default_rng(9)) + 110
    assert found.sequence == pytest.approx((answers**2).sum() / answers.sum(), rel=0.05)
    assert found.sequence < packed.sequence


def test_constants_of_software_rest_on_something_and_lie_between_their_ends():
    assert {fact.kind for one in LOOP_CONSTANTS.values() for fact in one.facts.values()} == {"fitted", "specified"}
    with pytest.raises(ValueError, match="value must lie from low to high, got 45 of 50 and 50"):
        replace(LOOP_CONSTANTS["turns"], low=50.0)
