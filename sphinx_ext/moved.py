"""Sphinx extension: links to sections that have moved to another page, or have another name, still arrive.

A server never sees what stands after the ``#`` of an address, so the old page itself sends the reader on, with a few
lines of script at its end: when the anchor that is asked for is not on it, and is known to have moved.
"""

from __future__ import annotations

import json

# Of each page: anchors that it had, and where they are now, as a link on that page.
MOVED = {
    "book/parallelism": {
        "one-layer-on-four-gpus": "#the-layer-and-what-a-cut-leaves-pending",
        "what-a-cut-leaves-pending": "sharding.html#who-cuts-the-summed-axis",
        "who-holds-what": "sharding.html#who-holds-what",
        "four-cases": "sharding.html#who-cuts-the-summed-axis",
        "a-collective-edits-a-subscript": "sharding.html#a-collective-edits-a-subscript",
        "each-axis-is-summed-once": "sharding.html#training-sums-each-axis-once",
        "a-layer-of-two-products": "sharding.html#two-products-in-a-row",
        "in-numpy": "#the-layer-and-what-a-cut-leaves-pending",
        "cut-the-batch-data-parallelism-and-zero": "#cut-the-batch-data-parallelism",
        "replicas": "#cut-the-batch-data-parallelism",
        "zero-shards-the-copies": "#cut-the-copies-zero",
        "cut-the-matrices-tensor-and-sequence-parallelism": "#cut-the-matrices-tensor-parallelism",
        "cut-the-sequence-cut-the-experts": "#cut-the-sequence-context-parallelism",
        "cut-the-layers-pipelines": "step.html#cut-the-layers-pipelines",
        "a-microbatch-on-its-way": "step.html#a-microbatch-on-its-way",
        "the-bubble": "step.html#the-bubble",
        "the-hand-off": "step.html#the-hand-off",
        "what-a-rank-holds": "step.html#what-a-rank-holds",
        "state-and-activations": "step.html#state-and-activations",
        "one-step-from-laws": "step.html#one-step-from-laws",
        "twenty-lines": "step.html#in-26-lines",
        "against-step": "step.html#in-26-lines",
        "what-hides-what": "step.html#what-hides-what",
        "play-with-the-layout": "step.html#worked-example-the-walk",
        "how-wrong-is-it": "step.html#how-wrong-is-it",
        "what-this-model-leaves-out-and-when-it-breaks": "step.html#what-this-model-leaves-out",
        "from-one-gpu-to-16-384": "step.html#from-one-gpu-to-16-384",
        "worked-example-the-walk": "step.html#worked-example-the-walk",
        "our-memory-count-rejects-meta-s-own-layout": "step.html#our-memory-count-rejects-meta-s-own-layout",
        "longer-sequences": "step.html#longer-sequences",
        "all-layouts-at-once": "step.html#all-layouts-at-once",
        "twice-the-gpus-is-not-half-the-time": "step.html#twice-the-gpus-is-not-half-the-time",
    },
    "book/operations": {
        "all-or-nothing": "#waiting-for-a-gang",
        "read-ahead": "#when-do-the-gpus-starve",
        "one-draw-is-luck": "#backfill-and-limits-that-lie",
        "three-traditions": "#worked-example-2-048-gpus-for-three-teams",
        "how-many-servers-and-at-what-price": "#then-the-checkpoint-comes",
        "worked-example-a-checkpoint-every-ten-minutes-without-slowing-the-data": "#then-the-checkpoint-comes",
        "worked-example-ten-thousand-ranks-start-again": "#then-the-checkpoint-comes",
        "worked-example-one-rank-is-5-slow": "#a-straggler-or-noise",
        "a-job-that-has-become-slower": "#when-does-an-alarm-pay",
        "my-all-reduce-is-slow": "on_call.html#my-all-reduce-is-slow",
        "find-the-one": "on_call.html#my-all-reduce-is-slow",
        "exercise-6-two-bad-servers": "on_call.html#exercise-4-two-bad-servers",
    },
    "book/scaling": {
        "the-bill": "cost.html#what-it-takes-to-build",
        "what-a-unit-of-work-costs": "cost.html#what-a-unit-of-work-costs",
        "rent-or-own": "cost.html#rent-or-own",
        "the-next-generation-is-coming": "cost.html#the-next-generation-is-coming",
        "what-an-outage-costs-and-what-avoids-it": "cost.html#what-an-outage-costs-and-what-avoids-it",
        "waiting-for-the-grid": "cost.html#waiting-for-the-grid",
        "what-a-fleet-affords-in-a-year": "#why-train-100-times-past-chinchilla",
    },
    "book/fleet": {
        "why-a-rack": "rack.html#why-a-rack",
        "it-fits-and-leaves-room": "rack.html#it-fits-and-leaves-room",
        "capacity-scales-out-bandwidth-scales-up": "rack.html#a-dense-model-gets-little-from-a-rack",
        "each-token-visits-eight-experts": "rack.html#each-token-visits-eight-experts",
        "all-wait-for-the-fullest": "rack.html#all-wait-for-the-fullest",
        "the-frontier": "rack.html#the-frontier",
        "why-a-faster-promise-is-so-dear": "rack.html#why-a-faster-promise-is-so-dear",
        "longer-than-a-rack-the-train": "rack.html#longer-than-a-rack-the-train",
        "worked-examples-four-questions": "rack.html#worked-example-four-questions",
        "near-or-full": "#a-day",
    },
    "book/serving": {
        "why-a-rack": "rack.html#why-a-rack",
        "it-fits-and-leaves-room": "rack.html#it-fits-and-leaves-room",
        "capacity-scales-out-bandwidth-scales-up": "rack.html#a-dense-model-gets-little-from-a-rack",
        "each-token-visits-eight-experts": "rack.html#each-token-visits-eight-experts",
        "all-wait-for-the-fullest": "rack.html#all-wait-for-the-fullest",
        "the-frontier": "rack.html#the-frontier",
        "longer-than-a-rack-the-train": "rack.html#longer-than-a-rack-the-train",
        "read-prompts-elsewhere": "fleet.html#read-prompts-elsewhere",
        "requests-come-when-they-like": "fleet.html#requests-come-when-they-like",
        "little-s-law": "fleet.html#little-s-law",
        "how-full-may-a-replica-be": "fleet.html#how-full-may-a-replica-be",
        "near-or-full": "fleet.html#a-day",
        "what-a-token-costs": "fleet.html#what-a-token-costs",
        "worked-examples-four-questions": "rack.html#worked-example-four-questions",
        "two-tricks": "fleet.html#read-prompts-elsewhere",
        "price-floors-by-generation": "fleet.html#what-a-token-costs",
    },
}

SCRIPT = """<script>
(() => {
  const moved = %s;
  const go = () => {
    const asked = location.hash.slice(1), to = Object.hasOwn(moved, asked) && moved[asked];
    if (to && !document.getElementById(asked)) location.replace(to);
  };
  go();
  addEventListener("hashchange", go);
})();
</script>"""


def setup(app):
    """Register with Sphinx."""
    app.connect("html-page-context", send_on, priority=960)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}


def send_on(app, pagename, templatename, context, doctree):
    """Put the script at the end of a page from which sections have moved."""
    if pagename in MOVED and "body" in context:
        context["body"] += SCRIPT % json.dumps(MOVED[pagename])
