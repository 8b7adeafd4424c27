"""Witness of serving online: a replica run pass by pass, request by request."""

import heapq

import numpy as np

from clusterlab.serving import Batch, forward_pass, mixed_passes


class Passes:
    """Times of a replica's passes with so many sequences: without a prompt, and with one."""

    def __init__(self, replica, requests, most):
        sequences = np.arange(1.0, most + 1)
        found = mixed_passes(replica, requests, sequences=sequences)
        sent = sequences * replica.software.stream_time
        self.decoding, self.reading = found.decoding + sent, found.reading + sent
        self.alone = forward_pass(replica, Batch(prompt_tokens=requests.read, chunk=requests.read)).time


def run(passes, outputs, *, users=None, arrivals=None, places, prompts_first=False):
    """Serve requests: a closed loop of users, or arrivals. One prompt is read in a pass, if anybody waits with one.

    Software that reads prompts first decodes nobody while it reads. Returns seconds to the first token and a mean token
    of each request, in the order of their end.
    """
    if arrivals is None:
        waiting = [(0.0, i) for i in range(users)]
        later, following = [], users
    else:
        waiting, later, following = [], [(when, i) for i, when in enumerate(arrivals)], len(arrivals)
    running = []  # (pass count at which it ends, request, when it came, when its first token was there)
    now, count, first, token = 0.0, 0, {}, {}
    while waiting or later or running:
        while later and later[0][0] <= now:
            heapq.heappush(waiting, heapq.heappop(later))
        if not waiting and not running:
            now = later[0][0]
            continue
        reads = bool(waiting) and len(running) < places
        if reads:
            came, request = heapq.heappop(waiting)
        if reads and (prompts_first or not running):
            now += passes.alone
        else:
            now += (passes.reading if reads else passes.decoding)[len(running) - 1]
            count += 1
        while running and running[0][0] <= count:
            _, done, began, started = heapq.heappop(running)
            first[done], token[done] = started - began, (now - started) / (outputs[done] - 1)
            if users is not None and following < len(outputs):
                heapq.heappush(waiting, (now, following))
                following += 1
        if reads:
            heapq.heappush(running, (count + int(outputs[request]) - 1, request, came, now))
    order = sorted(first)
    return np.array([first[i] for i in order]), np.array([token[i] for i in order]), now
