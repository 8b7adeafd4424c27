"""Sphinx extension: links to pages that are gone, and to sections that have another page or another name, still arrive.

In the place of a page that is gone stands one that sends the reader on. A server never sees what stands after the ``#``
of an address, so an old page itself sends the reader on, with a few lines of script at its end: when the anchor that is
asked for is not on it, and is known to have moved.
"""

from __future__ import annotations

import json
from pathlib import Path

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
        "cut-the-sequence-cut-the-experts": "mix.html#cut-the-sequence-context-parallelism",
        "cut-the-layers-pipelines": "pipeline.html#cut-the-layers-pipelines",
        "a-microbatch-on-its-way": "pipeline.html#a-microbatch-on-its-way",
        "the-bubble": "pipeline.html#the-bubble",
        "the-hand-off": "pipeline.html#the-hand-off",
        "what-a-rank-holds": "pipeline.html#what-a-rank-holds",
        "state-and-activations": "pipeline.html#state-and-activations",
        "one-step-from-laws": "step.html#one-step-from-laws",
        "twenty-lines": "step.html#in-26-lines",
        "against-step": "step.html#in-26-lines",
        "what-hides-what": "step.html#what-hides-what",
        "play-with-the-layout": "step.html#worked-example-the-walk",
        "how-wrong-is-it": "step.html#how-wrong-is-it",
        "what-this-model-leaves-out-and-when-it-breaks": "step.html#what-this-model-leaves-out",
        "from-one-gpu-to-16-384": "step.html#part-two-would-another-layout-be-faster",
        "worked-example-the-walk": "step.html#worked-example-the-walk",
        "our-memory-count-rejects-meta-s-own-layout": "pipeline.html#what-a-tight-count-is-good-for",
        "longer-sequences": "step.html#longer-sequences",
        "all-layouts-at-once": "step.html#all-layouts-at-once",
        "twice-the-gpus-is-not-half-the-time": "step.html#twice-the-gpus-is-not-half-the-time",
        "the-walk": "step.html#worked-example-the-walk",
        "why-slice-at-all": "#why-cut-at-all",
        "six-ways-to-cut": "mix.html#what-each-way-cuts-and-what-it-sends",
        "data-parallelism-tokens-hide-gradients": "#tokens-hide-gradients",
        "tensor-parallelism-why-it-stays-in-the-node": "#which-groups-may-leave-the-server",
        "an-all-reduce-over-two-servers": "#which-groups-may-leave-the-server",
        "memory-which-axis-helps-where-it-hurts": "pipeline.html#what-a-rank-holds",
        "pipelines-the-train-of-microbatches": "pipeline.html#cut-the-layers-pipelines",
        "context-and-experts": "mix.html#cut-the-sequence-context-parallelism",
        "one-step-put-together": "step.html#one-step-from-laws",
        "against-measurement": "step.html#how-wrong-is-it",
        "mix-the-two-weights-against-activations": "mix.html#mix-the-two-weights-against-activations",
        "how-few-tokens-will-do": "mix.html#how-few-tokens-will-do",
        "cut-the-sequence-context-parallelism": "mix.html#cut-the-sequence-context-parallelism",
        "context-keys-and-values-go-around": "mix.html#context-keys-and-values-go-around",
        "cut-the-experts-expert-parallelism": "mix.html#cut-the-experts-expert-parallelism",
        "experts-tokens-travel": "mix.html#experts-tokens-travel",
        "experts-in-a-rack-and-as-published": "mix.html#experts-in-a-rack-and-as-published",
        "what-each-way-cuts-and-what-it-sends": "mix.html#what-each-way-cuts-and-what-it-sends",
        "a-whole-step-one-way-at-a-time": "layouts.html#how-often-does-a-token-travel",
        "what-each-layout-holds-added-up": "layouts.html#worked-example-five-layouts-of-70-billion-parameters",
        "the-four-timed": "layouts.html#the-five-timed",
        "on-other-chips-and-by-search": "#on-other-chips",
        "the-sums-behind-the-table": "#what-stands-behind-the-table",
        "one-price-in-five-numbers": "#a-pause-three-cuts-side-by-side",
    },
    "book/step": {
        "cut-the-layers-pipelines": "pipeline.html#cut-the-layers-pipelines",
        "a-microbatch-on-its-way": "pipeline.html#a-microbatch-on-its-way",
        "the-bubble": "pipeline.html#the-bubble",
        "the-hand-off": "pipeline.html#the-hand-off",
        "where-to-cut": "pipeline.html#where-to-cut",
        "what-a-rank-holds": "pipeline.html#what-a-rank-holds",
        "state-and-activations": "pipeline.html#state-and-activations",
        "our-memory-count-rejects-meta-s-own-layout": "pipeline.html#what-a-tight-count-is-good-for",
        "where-the-other-1-4-seconds-are": "#what-the-sheet-lacks",
        "from-one-gpu-to-16-384": "#part-two-would-another-layout-be-faster",
    },
    "book/layouts": {
        "what-each-way-cuts-and-what-it-sends": "mix.html#what-each-way-cuts-and-what-it-sends",
        "the-nine-as-a-table": "mix.html#the-nine-as-a-table",
        "mix-the-two-weights-against-activations": "mix.html#mix-the-two-weights-against-activations",
        "how-few-tokens-will-do": "mix.html#how-few-tokens-will-do",
        "the-mix-looked-at-closely": "mix.html#the-mix-looked-at-closely",
        "if-hiding-were-free": "mix.html#if-hiding-were-free",
        "the-best-mix-by-search": "mix.html#the-best-mix-by-search",
        "cut-the-sequence-context-parallelism": "mix.html#cut-the-sequence-context-parallelism",
        "context-keys-and-values-go-around": "mix.html#context-keys-and-values-go-around",
        "what-it-does-for-a-pipeline": "mix.html#what-it-does-for-a-pipeline",
        "two-servers-a-sequence-line-by-line": "mix.html#two-servers-a-sequence-line-by-line",
        "cut-the-experts-expert-parallelism": "mix.html#cut-the-experts-expert-parallelism",
        "experts-tokens-travel": "mix.html#experts-tokens-travel",
        "experts-in-a-rack-and-as-published": "mix.html#experts-in-a-rack-and-as-published",
        "worked-example-four-layouts-of-70-billion-parameters": "#worked-example-five-layouts-of-70-billion-parameters",
        "the-four-timed": "#the-five-timed",
        "a-whole-step-one-way-at-a-time": "#how-often-does-a-token-travel",
    },
    "book/pipeline": {"our-memory-count-rejects-meta-s-own-layout": "#what-a-tight-count-is-good-for"},
    "book/operations": {
        "all-or-nothing": "queue.html#waiting-for-a-gang",
        "share-the-cluster": "queue.html",
        "waiting-for-a-gang": "queue.html#waiting-for-a-gang",
        "backfill-and-limits-that-lie": "queue.html#backfill-and-limits-that-lie",
        "evict-or-wait-for-them-to-end": "queue.html#evict-or-wait-for-them-to-end",
        "worked-example-2-048-gpus-for-three-teams": "queue.html#worked-example-2-048-gpus-for-three-teams",
        "read-ahead": "#when-do-the-gpus-starve",
        "one-draw-is-luck": "queue.html#backfill-and-limits-that-lie",
        "three-traditions": "queue.html#worked-example-2-048-gpus-for-three-teams",
        "how-many-servers-and-at-what-price": "#then-the-checkpoint-comes",
        "worked-example-a-checkpoint-every-ten-minutes-without-slowing-the-data": "#then-the-checkpoint-comes",
        "worked-example-ten-thousand-ranks-start-again": "#then-the-checkpoint-comes",
        "worked-example-one-rank-is-5-slow": "#a-straggler-or-noise",
        "a-job-that-has-become-slower": "#when-does-an-alarm-pay",
        "my-all-reduce-is-slow": "on_call.html#my-all-reduce-is-slow",
        "find-the-one": "on_call.html#my-all-reduce-is-slow",
        "exercise-6-two-bad-servers": "on_call.html#exercise-4-two-bad-servers",
        "worked-a-checkpoint-every-ten-minutes-without-slowing-the-data": "#then-the-checkpoint-comes",
        "worked-ten-thousand-ranks-start-again": "#then-the-checkpoint-comes",
        "worked-2-048-gpus-for-three-teams": "queue.html#worked-example-2-048-gpus-for-three-teams",
        "worked-one-rank-is-5-slow": "#a-straggler-or-noise",
        "what-watching-weighs": "#set-the-alarm",
    },
    "book/on_call": {
        "whose-gpus-are-they": "queue.html#lend-and-take-back",
        "lend-and-take-back": "queue.html#lend-and-take-back",
        "one-block-or-anywhere": "queue.html#one-block-or-anywhere",
    },
    "book/symptoms": {
        "low-mfu": "levers.html#low-mfu",
        "a-slow-all-reduce": "levers.html#a-slow-all-reduce",
        "a-job-that-stands-still": "levers.html#a-job-that-stands-still",
        "jitter": "levers.html#jitter",
        "a-step-that-got-slower": "levers.html#a-step-that-got-slower",
        "out-of-memory": "levers.html#out-of-memory",
        "a-loss-that-jumps": "levers.html#a-loss-that-jumps",
        "a-slow-first-token": "levers.html#a-slow-first-token",
        "tokens-that-stutter": "levers.html#tokens-that-stutter",
        "thrown-out-of-memory": "levers.html#thrown-out-of-memory",
        "low-goodput": "levers.html#low-goodput",
        "a-full-queue": "levers.html#a-full-queue",
        "throttling": "levers.html#throttling",
        "an-expensive-token": "levers.html#an-expensive-token",
        "all-levers-of-a-symptom": "levers.html#all-levers-of-a-symptom",
        "how-the-brackets-come-about": "levers.html#how-the-brackets-come-about",
        "what-this-page-leaves-out": "#what-this-model-leaves-out",
    },
    "book/scaling": {
        "the-bill": "cost.html#what-it-takes-to-build",
        "what-a-unit-of-work-costs": "cost.html#what-a-unit-of-work-costs",
        "rent-or-own": "cost.html#rent-or-own",
        "the-next-generation-is-coming": "cost.html#the-next-generation-is-coming",
        "what-an-outage-costs-and-what-avoids-it": "cost.html#what-an-outage-costs-and-what-avoids-it",
        "waiting-for-the-grid": "cost.html#waiting-for-the-grid",
        "what-a-fleet-affords-in-a-year": "#why-train-100-times-past-chinchilla",
        "how-many-gpus-for-a-deadline": "#worked-example-how-many-gpus-for-a-deadline",
        "exercise-1-gpus-in-boxes": "cost.html#exercise-1-gpus-in-boxes",
        "exercise-1-machines-you-have-read-about": "#machines-you-have-read-about",
        "exercise-2-read-an-efficiency-off-a-report": "#exercise-1-read-an-efficiency-off-a-report",
        "exercise-4-when-is-a-bigger-model-cheaper": "#exercise-2-when-is-a-bigger-model-cheaper",
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
        "four-questions": "rack.html#worked-example-four-questions",
    },
    "book/evidence": {
        "a-machine-and-a-stack-that-nobody-here-has-timed": "#a-stack-that-nobody-here-has-timed-on-a-machine",
        "decoding": "evidence_rows.html#decoding",
        "gemms-and-memory": "evidence_rows.html#gemms-and-memory",
        "each-source-without-its-own-machine": "evidence_rows.html#each-source-without-its-own-machine",
        "every-run-by-source": "evidence_rows.html#every-run-by-source",
        "sources-that-took-part-in-no-fit": "evidence_rows.html#sources-that-took-part-in-no-fit",
        "sources-that-constants-could-be-fitted-to": "evidence_rows.html#sources-that-constants-could-be-fitted-to",
        "the-rate": "evidence_rows.html#the-rate",
        "one-h100-from-its-chip-to-the-meter": "evidence_rows.html#one-h100-from-its-chip-to-the-meter",
        "energy-carbon-and-caps": "evidence_rows.html#energy-carbon-and-caps",
        "what-the-numbers-rest-on": "evidence_rows.html#what-the-numbers-rest-on",
        "storage": "evidence_rows.html#storage",
        "waiting": "evidence_rows.html#waiting",
        "the-constants": "#the-constants-and-what-each-rests-on",
        "how-sure-one-prediction-is": "#how-an-interval-is-made",
    },
    "book/evidence_rows": {"where-parallelism-and-roofline-meet": "roofline.html#the-network-is-one-more-roof"},
    "book/failures": {
        "stop-or-route-around-it": "hall.html#when-the-grid-fails",
        "what-does-a-faster-restart-buy": "#worked-example-what-does-a-faster-restart-buy",
        "what-is-asynchronous-worth": "#which-way-to-write",
        "three-ways-to-survive": "#three-paths-to-storage",
        "a-checkpoint-is-two-numbers": "#stall-and-lag",
        "how-often": "#how-often-should-you-checkpoint",
        "goodput-with-every-loss-named": "#every-loss-by-name",
        "overhead-budgets-sum-or-product": "#overheads-sum-or-product",
        "worked-example-what-a-faster-restart-buys": "#worked-example-what-does-a-faster-restart-buy",
        "spares-or-who-replaces-the-node": "#how-many-spares",
        "erlang-s-law": "#a-pool-and-a-repair-shop",
        "stragglers": "operations.html#wait-for-the-slowest",
    },
    "book/interconnect": {
        "cards-or-a-rack": "ports.html#worked-example-cards-or-a-rack",
        "a-link-is-two-numbers": "#two-numbers",
        "three-traps-in-the-table": "#three-traps-on-a-datasheet",
        "the-ring": "#a-ring-chunk-by-chunk",
        "trees-and-where-they-cross": "#trees-for-small-buffers",
        "rails-hierarchy-switches-that-add": "ports.html#all-eight-ports",
        "reading-nccl-tests-algbw-and-busbw": "ports.html#algbw-and-busbw",
        "against-measurement": "ports.html#predicted-and-measured",
        "two-networks-and-a-rack": "#servers-and-racks",
        "fabrics-leaves-spines-cores": "fabrics.html#fat-trees",
        "rails-and-who-sits-next-to-whom": "fabrics.html#rails-who-shares-a-leaf",
        "all-to-all-and-why-experts-want-one-rack": "fabrics.html#why-experts-want-one-rack",
        "storage-is-a-tier-too": "operations.html#what-a-file-system-gives",
        "storage-hangs-on-it-too": "operations.html#what-a-file-system-gives",
        "why-not-one-domain-for-everything": "fabrics.html#why-not-one-domain-for-everything",
        "a-rack-as-one-domain": "fabrics.html#a-rack-as-one-domain",
        "fabrics": "fabrics.html#fat-trees",
        "fat-trees": "fabrics.html#fat-trees",
        "rails-who-shares-a-leaf": "fabrics.html#rails-who-shares-a-leaf",
        "a-torus-has-no-switches": "fabrics.html#a-torus-has-no-switches",
        "all-to-all": "fabrics.html#all-to-all",
        "same-bytes-fewer-messages": "fabrics.html#same-bytes-fewer-messages",
        "the-share-that-leaves": "fabrics.html#the-share-that-leaves",
        "why-experts-want-one-rack": "fabrics.html#why-experts-want-one-rack",
        "how-fast-can-one-user-be-served": "rack.html#why-a-rack",
        "what-this-model-leaves-out-and-when-it-breaks": "#what-this-model-leaves-out",
        "all-eight-ports": "ports.html#all-eight-ports",
        "eight-rings": "ports.html#eight-rings",
        "three-stages": "ports.html#three-stages",
        "overlap-the-stages": "ports.html#overlap-the-stages",
        "on-thousands-of-gpus": "ports.html#on-thousands-of-gpus",
        "worked-example-cards-or-a-rack": "ports.html#worked-example-cards-or-a-rack",
        "how-many-chunks": "ports.html#how-many-chunks",
        "a-tree-in-pieces": "ports.html#a-tree-in-pieces",
        "switches-that-add": "ports.html#switches-that-add",
        "your-model-and-your-fabric": "ports.html#your-model-and-your-fabric",
        "what-nccl-delivers": "ports.html#what-nccl-delivers",
        "algbw-and-busbw": "ports.html#algbw-and-busbw",
        "predicted-and-measured": "ports.html#predicted-and-measured",
        "the-collectives-on-one-screen": "ports.html#the-collectives-on-one-screen",
    },
    "book/onboarding": {
        "on-call-45-minutes": "onboarding_oncall.html",
        "capacity-planning-2-hours": "onboarding_capacity.html",
        "training-performance-half-a-day": "onboarding_training.html",
        "facilities-1-hour": "onboarding_facilities.html",
        "serving-2-hours": "onboarding_serving.html",
    },
    "book/plan": {"what-a-gb200-may-cost": "#a-lab-s-16-384"},
    "book/power": {
        "from-the-chip-to-the-server": "#from-the-chip-to-the-meter",
        "what-a-pue-is-and-where-it-comes-from": "#what-a-pue-says",
        "heat-is-mass-flow": "hall.html#cooling-heat-is-mass-flow",
        "cooling-heat-is-mass-flow": "hall.html#cooling-heat-is-mass-flow",
        "is-30-kw-the-limit-of-air": "hall.html#is-30-kw-the-limit-of-air",
        "water": "hall.html#water",
        "worked-example-move-a-legacy-hall-to-liquid": "hall.html#worked-example-move-a-legacy-hall-to-liquid",
        "what-the-grid-sees": "hall.html#what-the-grid-sees",
        "all-gpus-wait-at-once": "hall.html#all-gpus-wait-at-once",
        "when-the-grid-fails": "hall.html#when-the-grid-fails",
        "exercise-3-your-aisle": "hall.html#exercise-1-your-aisle",
        "exercise-4-three-sites": "#exercise-3-three-sites",
        "exercise-5-the-best-cap": "#exercise-4-the-best-cap",
        "exercise-6-sign-a-contract": "#exercise-5-sign-a-contract",
        "energy-of-the-work": "#joules-for-a-flop-a-token-a-model",
        "power-caps-time-against-energy": "#power-caps-speed-against-watts",
        "the-swing": "hall.html#what-the-grid-sees",
        "tens-of-megawatts-on-and-off": "hall.html#what-the-grid-sees",
        "carbon-water-price": "#energy-money-carbon",
        "what-this-model-leaves-out-and-when-it-breaks": "#what-this-model-leaves-out",
    },
    "book/roofline": {
        "your-own-machine": "evidence.html#your-own-machine",
        "worked-example-decoding-an-8b-model": "#worked-example-one-decoding-step",
        "one-decoding-step": "#worked-example-one-decoding-step",
        "a-matrix-product-from-memory-bound-to-compute-bound": "#how-many-tokens-fill-a-gemm",
        "a-gemm-from-memory-bound-to-compute-bound": "#how-many-tokens-fill-a-gemm",
        "more-ceilings-the-network-is-the-third": "#the-network-is-one-more-roof",
        "everybody-brings-a-cache": "#every-user-brings-a-cache",
    },
}

# Pages of the reference that are gone, by the page that took their place: one for each module, before there were rooms.
GONE = {
    "catalogue": "hardware machine",
    "evidence": "benchmark calibration cost explain fleet inference_runs inference_validation link_fit nccl_tests text "
    "training_runs validation",
    "explorable": "check explorer palette question scene drawings_accelerator drawings_fabric drawings_incidents "
    "drawings_operations drawings_pipelines drawings_plan drawings_scaling drawings_schedule drawings_serving "
    "drawings_shards drawings_site",
    "interconnect": "collectives topology",
    "model": "layout models transformer",
    "operations": "monitoring scheduling storage stragglers",
    "parallelism": "layout_search memory pipeline sharding training",
    "planning": "planner plan_report",
    "scaling": "economics speedup",
    "serving": "queueing",
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

# A law that the old page's module had is on the new one under the room's name.
PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>This page is now {to}</title>
<script>location.replace("{to}.html" + location.hash.replace(/^#clusterlab\\..*\\./, "#clusterlab.{to}."))</script>
<meta http-equiv="Refresh" content="0; url={to}.html"></head>
<body><p>This page is now <a href="{to}.html">{to}</a>.</p></body></html>
"""


def setup(app):
    """Register with Sphinx."""
    app.connect("html-page-context", send_on, priority=960)
    app.connect("build-finished", leave_word, priority=880)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}


def send_on(app, pagename, templatename, context, doctree):
    """Put the script at the end of a page from which sections have moved."""
    if pagename in MOVED and "body" in context:
        context["body"] += SCRIPT % json.dumps(MOVED[pagename])


def leave_word(app, exception):
    """Write a page that sends the reader on in the place of each that is gone."""
    if exception or app.builder.format != "html":
        return
    for to, names in GONE.items():
        for name in names.split():
            page = Path(app.outdir, "book", "reference", f"{name}.html")
            page.parent.mkdir(parents=True, exist_ok=True)
            page.write_text(PAGE.format(to=to), encoding="utf-8")
