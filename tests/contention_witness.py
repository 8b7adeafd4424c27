"""A witness of the fluid: flows one by one, links one by one, events one by one. It shares no line with the library."""

import heapq
import math


def fill(capacity, flows, weight):
    """Max-min rates by the textbook: find the tightest link, hold its flows there, and begin again."""
    room, rate, waiting = dict(enumerate(capacity)), {}, set(range(len(flows)))
    while waiting:
        load: dict[int, float] = {}
        for f in waiting:
            for link, share in flows[f].items():
                load[link] = load.get(link, 0.0) + weight[f] * share
        level, tightest = min((room[link] / load[link], link) for link in load)
        for f in [f for f in waiting if tightest in flows[f]]:
            rate[f] = level * weight[f]
            waiting.remove(f)
            for link, share in flows[f].items():
                room[link] = max(room[link] - rate[f] * share, 0.0)
    return [rate[f] for f in range(len(flows))]


def run(capacity, flows, size, start, weight):
    """When each flow ends, from one event to the next; ``flows`` are mappings of links to shares."""
    left, ends, active = dict(enumerate(size)), {}, []
    arrivals = [(when, f) for f, when in enumerate(start)]
    heapq.heapify(arrivals)
    clock = 0.0
    while active or arrivals:
        rate = dict(zip(active, fill(capacity, [flows[f] for f in active], [weight[f] for f in active]), strict=True))
        first_end, ending = min(((clock + left[f] / rate[f], f) for f in active), default=(math.inf, None))
        now = min(first_end, arrivals[0][0] if arrivals else math.inf)
        for f in active:
            left[f] -= rate[f] * (now - clock)
        clock = now
        if first_end <= now:
            active.remove(ending)
            ends[ending] = clock
        else:
            active.append(heapq.heappop(arrivals)[1])
    return [ends[f] for f in range(len(flows))]


def as_mappings(routes):
    """Flows of one draw as the witness takes them."""
    found = []
    for at, links in enumerate(routes.links.tolist()):
        share = [1.0] * len(links) if routes.share is None else routes.share[at].tolist()
        one = {}
        for link, part in zip(links, share, strict=True):
            if link >= 0 and part > 0:
                one[link] = one.get(link, 0.0) + part
        found.append(one)
    return found
