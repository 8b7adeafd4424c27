"""Witness of serving online: a replica run pass by pass, request by request."""

import heapq

import numpy as np

from clusterlab.serving import Batch, forward_pass, mixed_passes


class Passes:
    """Times of a replica's passes with so many sequences: without a prompt, and with one.

    Of ``prompts`` that differ each takes what a pass with it takes, between passes with 16 lengths.
    """

    def __init__(self, replica, requests, most, prompts=None):
        sequences = np.arange(1.0, most + 1)
        found = mixed_passes(replica, requests, sequences=sequences)
        sent = sequences * replica.software.stream_time
        self.decoding, self.reading = found.decoding + sent, found.reading + sent
        self.alone = forward_pass(replica, Batch(prompt_tokens=requests.read, chunk=requests.read)).time
        self.prompts = prompts
        if prompts is not None:
            self.some = np.geomspace(prompts.min(), prompts.max() + 1, 16)
            read = {"prompt_tokens": self.some, "chunk": self.some}
            self.alone_of = forward_pass(replica, Batch(**read)).time
            mixed = Batch(sequences=sequences[:, None], context=requests.mean_context, **read)
            self.reading_of = forward_pass(replica, mixed).time + sent[:, None]

    def with_prompt(self, running, request):
        """Seconds of a pass of so many that also reads a request's prompt; of none: of the prompt alone."""
        if self.prompts is None:
            return self.reading[running - 1] if running else self.alone
        times = self.reading_of[running - 1] if running else self.alone_of
        return np.interp(self.prompts[request], self.some, times)


def run(passes, outputs, *, users=None, arrivals=None, places, prompts_first=False, gaps=None):
    """Serve requests: a closed loop of users, or arrivals. One prompt is read in a pass, if anybody waits with one.

    Software that reads prompts first decodes nobody while it reads. Returns seconds to the first token and a mean token
    of each request, in the order they came; ``gaps`` takes each pass in which somebody decodes, and how many.
    """
    gaps = [] if gaps is None else gaps
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
            now += passes.with_prompt(0, request)
        else:
            with_it = passes.with_prompt(len(running), request) if reads else passes.decoding[len(running) - 1]
            gaps.append((with_it, len(running)))
            now += with_it
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
