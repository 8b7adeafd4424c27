"""Witnesses of post-training: batches and replicas run pass by pass with drawn lengths, and pools event by event."""

import numpy as np


def run_batch(lengths, places, pass_time, prompt=0.0):
    """Generate answers one pass after the other: seconds, passes, and the sequences of each pass."""
    waiting, running, seconds, held = list(lengths), [], 0.0, []  # running: tokens written and to write of each
    while waiting or running:
        while waiting and len(running) < places:
            running.append([0.0, waiting.pop(0)])
        context = np.mean([prompt + written + 0.5 for written, _ in running])
        seconds += pass_time(len(running), context)
        held.append(len(running))
        for one in running:
            one[0] += 1
        running = [one for one in running if one[0] < one[1]]
    return seconds, len(held), np.array(held)


def run_replicas(passes, *, replicas, in_flight, pass_time, length, random):
    """Replicas that share the answers in flight and never empty, pass by pass: seconds, and answers that were done."""
    left = np.array_split(np.array([length(random) for _ in range(in_flight)]), replicas)
    left = [np.ceil(some * random.random(len(some))) for some in left]  # as if they'd written for long
    clock, done = np.zeros(replicas), 0
    for _ in range(passes):
        for i, some in enumerate(left):
            clock[i] += pass_time(len(some))
            some -= 1
            ended = np.flatnonzero(some <= 0)
            some[ended] = [length(random) for _ in ended]
            done += len(ended)
    return clock.mean(), done


def held_tokens(passes, *, places, length, random):
    """Tokens that a mean place holds of its answer, pass by pass, where the next starts as one ends; from half on."""
    written, wanted = np.zeros(places), length(places, random)
    held = []
    for _ in range(passes):
        held.append(written.mean() + 0.5)
        written += 1
        ended = written >= wanted
        written[ended], wanted[ended] = 0, length(int(ended.sum()), random)
    return float(np.mean(held[passes // 2 :]))


def run_pools(steps, *, batch, slots, write, learn, random):
    """Pools that never wait: slots write answers of drawn lengths, a trainer takes batches as they are there.

    Seconds of the steps, and the mean number of steps between an answer's start and the step that learns from it.
    """
    versions, done, now, trained, lags = 0, [], 0.0, 0.0, []
    ends = [(write(random), 0) for _ in range(slots)]  # when it is done, and the version that it began with
    while versions < steps:
        ends.sort()
        if len(done) >= batch and trained <= ends[0][0]:
            taken, done = done[:batch], done[batch:]
            lags += [versions - began for began in taken]
            now = max(now, trained)
            trained = now + learn
            versions += 1
            continue
        when, began = ends.pop(0)
        now = max(now, when)
        done.append(began)
        ends.append((when + write(random), versions))
    return now, float(np.mean(lags[len(lags) // 4 :]))
