"""Queueing: textbook queues as special cases, an engine run pass by pass, the same engine in simpy, refusals."""

import math

import numpy as np
import pytest
import simpy
from hypothesis import given
from hypothesis import strategies as st

from clusterlab.serving import (
    MixedPasses,
    batch_queue,
    impatient_queue,
    little_law,
    network_time,
    queueing,
    simulate_queue,
    slo_attainment,
)
from refusals import unreached

PASSES = 10e-3 + 0.2e-3 * np.arange(1, 65)


def erlang_c(load, servers):
    """Chance to wait in an M/M/c queue, by its series."""
    last = load**servers / math.factorial(servers) * servers / (servers - load)
    return last / (sum(load**k / math.factorial(k) for k in range(servers)) + last)


@given(st.floats(0.01, 0.99))
def test_one_at_a_time_is_the_mm1_queue(load):
    queue = batch_queue(load, [1.0], tokens=1)
    assert queue.latency == pytest.approx(1 / (1 - load))
    assert queue.waits == pytest.approx(load)
    assert queue.wait_quantile(0.99) == pytest.approx(max(math.log(100 * load) / (1 - load), 0))


@pytest.mark.parametrize(("load", "servers"), [(0.5, 1), (3, 4), (7.9, 8), (20, 32)])
def test_passes_as_long_in_any_batch_are_the_mmc_queue(load, servers):
    queue = batch_queue(load / 10, np.full(servers, 0.1), tokens=100)
    assert queue.waits == pytest.approx(erlang_c(load, servers))
    assert queue.wait == pytest.approx(queue.waits * 10 / (servers - load))
    assert queue.batch == pytest.approx(load)
    assert queue.time_per_token == pytest.approx(0.1)


@given(st.floats(0.05, 0.98), st.floats(1e-3, 1), st.floats(0, 0.1), st.integers(1, 200))
def test_the_steady_state_is_one_and_obeys_little(share, fixed, each, most):
    times = fixed + each * np.arange(1, most + 1)
    rate = share * most / (50 * times[-1])
    queue = batch_queue(rate, times, tokens=50)
    assert queue.states[:-1].sum() + queue.waits == pytest.approx(1)
    assert little_law(rate, queue.latency) == pytest.approx(queue.batch + queue.waiting)
    assert queue.latency == pytest.approx(queue.wait + 50 * queue.time_per_token)
    assert times[0] <= queue.time_per_token * (1 + 1e-9)
    assert queue.token_quantile(0.5) <= queue.token_quantile(0.99) <= times[-1]
    assert queue.wait_quantile(0.5) <= queue.wait_quantile(0.99)


def test_the_pace_of_tokens_counts_a_batch_by_its_tokens():
    """A pass of two yields two tokens, and passes of one come as often as they are short."""
    queue = batch_queue(0.5, [1.0, 1.5], tokens=1)
    alone, both = queue.states[1] / 1.0, 2 * queue.waits / 1.5
    share = alone / (alone + both)
    assert queue.token_quantile(share - 1e-6) == 1.0
    assert queue.token_quantile(share + 1e-6) == 1.5


def engine_gaps(rate, decoding, reading, tokens, passes=120_000):
    """Gaps of an engine that reads one whole prompt in a pass, and the number that saw each; and share that read."""
    rng, now, queue, left = np.random.default_rng(5), 0.0, 0, []
    come = rng.exponential(1 / rate)
    gaps, seen, read = np.empty(passes), np.empty(passes), 0
    for i in range(passes):
        if not queue and not left:
            now = max(now, come)
        while come <= now:
            queue, come = queue + 1, come + rng.exponential(1 / rate)
        reads = queue > 0 and len(left) < len(decoding)
        if reads:
            queue, read = queue - 1, read + 1
            left.append(rng.geometric(1 / tokens))
        gaps[i], seen[i] = (reading if reads else decoding)[len(left) - 1], len(left)
        now += gaps[i]
        left = [more - 1 for more in left if more > 1]
    return gaps, seen, read / passes


def test_gaps_between_tokens_are_those_of_an_engine_that_reads_prompts_between_passes():
    """Their 99th percentile is a pass with a prompt; the means of passes, which set waits, never come that far."""
    decoding = 10e-3 + 0.1e-3 * np.arange(1, 65)
    reading, tokens = decoding + 30e-3, 100
    passes = MixedPasses(decoding, reading, np.arange(1, 65) / tokens)
    rate = 0.8 * 64 / (tokens * passes.mean[-1])
    law, plain = batch_queue(rate, passes, tokens=tokens), batch_queue(rate, passes.mean, tokens=tokens)
    assert (law.latency, law.wait_quantile(0.99)) == (plain.latency, plain.wait_quantile(0.99))
    gaps, seen, read = engine_gaps(rate, decoding, reading, tokens)
    assert read == pytest.approx(law.batch / tokens, rel=0.1)
    order = np.argsort(gaps)
    reached = np.cumsum(seen[order]) / seen.sum()
    for share in (0.25, 0.5, 0.9, 0.99):
        found = gaps[order][np.searchsorted(reached, share)]
        assert law.token_quantile(share) == pytest.approx(found, rel=0.05), share
    assert law.token_quantile(0.99) > 1.3 * plain.token_quantile(0.99)


def poisson(rate, n, seed, lengths):
    rng = np.random.default_rng(seed)
    return np.cumsum(rng.exponential(1 / rate, n)), lengths(rng, n)


LENGTHS = {
    "geometric": lambda rng, n: rng.geometric(1 / 100, n),
    "fixed": lambda _, n: np.full(n, 100),
    "two kinds": lambda rng, n: rng.choice([20, 340], n, p=[0.75, 0.25]),
}


@given(st.integers(0, 10**6), st.lists(st.integers(1, 30), min_size=1, max_size=12), st.integers(1, 5))
def test_the_mean_batch_is_over_the_time_in_which_anybody_is_there(start, tokens, most):
    """By Little's law: what requests spent in the batch, over the time from the first to come to the last to go.

    When the clock starts is nobody's business.
    """
    times, come = 0.5 + 0.25 * np.arange(most), 0.75 * np.arange(len(tokens))
    run, later = simulate_queue(come, tokens, times), simulate_queue(come + start, tokens, times)
    whole = np.max(come + run.latency) - come[0]
    assert run.batch == pytest.approx((run.latency - run.wait).sum() / whole)
    assert later.batch == pytest.approx(run.batch)


@pytest.mark.parametrize("kind", LENGTHS)
@pytest.mark.parametrize("share", [0.5, 0.8])
def test_a_batch_with_room_does_not_see_the_distribution_of_lengths(kind, share):
    rate = share * 64 / (100 * PASSES[-1])
    law, run = batch_queue(rate, PASSES, tokens=100), simulate_queue(*poisson(rate, 12_000, 1, LENGTHS[kind]), PASSES)
    assert run.batch == pytest.approx(law.batch, rel=0.05)
    assert run.latency.mean() == pytest.approx(law.latency, rel=0.06)
    each = run.tokens / run.tokens.sum()
    assert run.time_per_token @ each == pytest.approx(law.time_per_token, rel=0.05)


@pytest.mark.parametrize("share", [0.6, 0.8])
def test_percentiles_near_saturation_are_those_of_an_engine_run_pass_by_pass(share):
    """Requests also wait for the pass that runs when they come, and answers end with a pass: the law leaves it out."""
    times = 0.01 + 0.002 * np.arange(1, 9)
    rate = share * 8 / (300 * times[-1])
    law, lengths = batch_queue(rate, times, tokens=300), lambda rng, n: rng.geometric(1 / 300, n)
    wait = np.concatenate([simulate_queue(*poisson(rate, 40_000, seed, lengths), times).wait for seed in range(3)])
    assert wait.mean() - times[-1] / 2 == pytest.approx(law.wait, rel=0.1)
    for quantile in (0.9, 0.99):
        assert np.quantile(wait, quantile) == pytest.approx(law.wait_quantile(quantile), rel=0.1, abs=times[-1])
    assert np.mean(wait > times[-1]) == pytest.approx(law.waits, rel=0.08)
    for promise in (0.5, 2.0):
        kept = np.mean(wait <= promise + times[-1] / 2)
        assert kept == pytest.approx(slo_attainment(law, wait=promise, time_per_token=1), abs=0.015)


def test_goodput_counts_both_promises():
    rate = 0.7 * 64 / (100 * PASSES[-1])
    law = batch_queue(rate, PASSES, tokens=100)
    run = simulate_queue(*poisson(rate, 20_000, 4, LENGTHS["geometric"]), PASSES)
    promise = float(PASSES[40])
    found = slo_attainment(law, wait=1, time_per_token=promise)
    assert found == pytest.approx(law.states[:41].sum())
    assert 0.3 < found < 0.999
    assert abs(np.mean(run.time_per_token <= promise) - found) < 0.2  # answers see the mean over their time
    assert slo_attainment(law, wait=1, time_per_token=PASSES[0] / 2) == 0
    assert slo_attainment(law, wait=1e9, time_per_token=1) == pytest.approx(1)
    assert slo_attainment(law, wait=0, time_per_token=1) == pytest.approx(1 - law.waits)


def in_simpy(arrivals, tokens, times):
    """The engine as processes: a loop of passes, and a queue from which it takes whoever has come."""
    env, queue, running, ends = simpy.Environment(), [], {}, {}
    bell = [env.event()]

    def users():
        for i, (at, count) in enumerate(zip(arrivals, tokens, strict=True)):
            yield env.timeout(max(at - env.now, 0))
            queue.append((i, count))
            if not bell[0].triggered:
                bell[0].succeed()

    def engine():
        while len(ends) < len(arrivals):
            if not running and not queue:
                bell[0] = env.event()
                yield bell[0]
                yield env.timeout(0)
            while queue and len(running) < len(times):
                i, count = queue.pop(0)
                running[i] = count
            yield env.timeout(times[len(running) - 1])
            for i in list(running):
                running[i] -= 1
                if not running[i]:
                    del running[i]
                    ends[i] = env.now

    env.process(users())
    env.process(engine())
    env.run()
    return np.array([ends[i] for i in range(len(arrivals))])


@pytest.mark.parametrize(("share", "kind"), [(0.4, "geometric"), (0.9, "two kinds"), (1.3, "fixed")])
def test_simpy_finds_the_same_ends(share, kind):
    times = 0.01 + 0.002 * np.arange(1, 9)
    arrivals, tokens = poisson(share * 8 / (100 * times[-1]), 120, 7, LENGTHS[kind])
    run = simulate_queue(arrivals, tokens, times)
    np.testing.assert_allclose(arrivals + run.latency, in_simpy(arrivals, tokens, times), rtol=1e-9)


def test_pooled_replicas_wait_less_than_split_ones():
    """The same traffic on eight replicas, each with a queue of its own, against one that is eight times as fast."""
    apart = batch_queue(5.0, PASSES, tokens=150)
    together = batch_queue(40.0, PASSES / 8, tokens=150)
    assert together.latency == pytest.approx(apart.latency / 8)


@pytest.mark.parametrize(("load", "servers"), [(0.5, 1), (3, 4), (7, 4), (40, 32)])
def test_who_waits_as_long_as_a_job_takes_sees_a_poisson_number(load, servers):
    counts = [math.exp(n * math.log(load) - load - math.lgamma(n + 1)) for n in range(200)]
    queue = impatient_queue(load, servers)
    assert queue.queued == pytest.approx(sum(counts[servers + 1 :]))
    assert queue.busy == pytest.approx(sum(p * min(n, servers) for n, p in enumerate(counts)) / servers)


def test_endless_patience_is_erlangs_queue_and_none_is_his_loss():
    """Erlang's loss formula: 10 servers lose 21.5 % of a load of 10 (his table of 1917)."""
    patient, erlang = impatient_queue(3, 4, patience=1e6), batch_queue(3, np.ones(4), tokens=1)
    assert patient.waiting == pytest.approx(erlang.waiting, rel=1e-4)
    assert patient.queued == pytest.approx(erlang.waits * erlang.ratio, rel=1e-4)
    assert impatient_queue(10, 10, patience=1e-9).gone == pytest.approx(0.2146, abs=1e-4)


@given(st.floats(0.01, 300), st.integers(1, 200), st.floats(0.01, 20))
def test_who_comes_is_served_or_gives_up(load, servers, patience):
    queue = impatient_queue(load, servers, patience=patience)
    assert load == pytest.approx(queue.busy * servers + queue.waiting / patience)
    assert queue.gone * load == pytest.approx(queue.waiting / patience)
    more = impatient_queue(load, servers, patience=2 * patience)
    assert more.waiting >= queue.waiting * (1 - 1e-9)
    assert more.busy >= queue.busy - 1e-9


def test_impatience_played_job_by_job():
    """In order of arrival: whoever would start too late leaves, and is nobody's predecessor."""
    random = np.random.default_rng(8)
    come, lasts, stays = np.cumsum(random.exponential(1 / 4.5, 40_000)), *random.exponential(1, (2, 40_000))
    free, left, waited = [0.0] * 4, 0, 0.0
    for now, run, most in zip(come, lasts, stays * 1.5, strict=True):
        first = min(range(4), key=free.__getitem__)
        wait = max(free[first] - now, 0)
        left, waited = left + (wait > most), waited + min(wait, most)
        if wait <= most:
            free[first] = now + wait + run
    law = impatient_queue(4.5, 4, patience=1.5)
    assert left / 40_000 == pytest.approx(law.gone, rel=0.03)
    assert waited / come[-1] == pytest.approx(law.waiting, rel=0.03)
    grid = impatient_queue([[2.0], [4.5]], [1, 4, 9], patience=1.5)
    assert grid.waiting.shape == (2, 3)
    assert grid.waiting[1, 1] == law.waiting


def test_a_thousand_kilometres_cost_ten_milliseconds():
    assert network_time([1e6, 5.6e6], detour=[1, 1.5]) == pytest.approx([10e-3, 84e-3])


def test_records_print_themselves():
    assert "99 %" in repr(batch_queue(1, PASSES, tokens=10))
    assert "time per token" in repr(simulate_queue([0, 0], [2, 2], [1.0]))
    assert "gone" in repr(impatient_queue(4.5, 4))


QUEUE = batch_queue(1.0, [0.1], tokens=1)
MISTAKES = {
    "share must be at least 0 and below 1, got 1": lambda: QUEUE.wait_quantile(1),
    "share must be at least 0 and below 1, got 2": lambda: QUEUE.token_quantile(2),
    "rate and tokens must be numbers": lambda: batch_queue([1, 2], [0.1], tokens=1),
    "rate must be below 10, what the largest batch can end; got 11": lambda: batch_queue(11, [0.1], tokens=1),
    "arrivals, tokens and pass_times must be rows": lambda: simulate_queue([0, 1], [1], [1.0]),
    "arrivals must be in order": lambda: simulate_queue([1, 0], [1, 1], [1.0]),
    "patience must be less, for a queue of ten million at most; got 1e+08": lambda: impatient_queue(2, 1, patience=1e8),
}


def test_every_refusal_is_reached():
    assert unreached(queueing, MISTAKES) == set()
