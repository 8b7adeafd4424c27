"""How many layouts a second: the training step on arrays, the search, and one layout at a time beside two peers.

``python bench/layouts.py`` runs on one core. mlsysim and calculon are timed where they can be imported; neither is a
dependency of the project.
"""

import os
import time

os.environ["OMP_NUM_THREADS"] = "1"

import json
import logging
import timeit
from pathlib import Path

import numpy as np

from clusterlab.layout_search import search
from clusterlab.models import model
from clusterlab.training import SOFTWARE, machine, step
from clusterlab.units import fmt

LAYOUTS, ONE_BY_ONE = 1_000_000, 100
MEASURED = 13.75  # s, Korthikanti et al. 2022, table 5: 175 billion parameters, with both of their techniques
INSTALL = {
    "mlsysim": ".venv/bin/pip install mlsysim==0.3.0",
    "calculon": "git clone https://github.com/calculon-ai/calculon .venv/calculon"
    " && .venv/bin/pip install pandas psutil -e .venv/calculon",
}


def many() -> None:
    """Time the step on arrays and the search."""
    llama, h100 = model("Llama 3.1 405B"), machine("H100 SXM")
    rng = np.random.default_rng(0)
    tp, pp = 2 ** rng.integers(0, 4, LAYOUTS), 2 ** rng.integers(1, 5, LAYOUTS)
    layouts = {"tp": tp, "pp": pp, "dp": 16384 // (tp * pp), "chunks": rng.integers(1, 8, LAYOUTS)}
    layouts["zero"] = rng.integers(0, 4, LAYOUTS)
    job = {"sequence": 8192, "global_batch": 2**15}
    step(llama, h100, **job, **{name: values[:100] for name, values in layouts.items()})
    start = time.perf_counter()
    found = step(llama, h100, **job, **layouts).time
    arrays = time.perf_counter() - start
    few = [step(llama, h100, **job, **{k: v[i].item() for k, v in layouts.items()}).time for i in range(ONE_BY_ONE)]
    assert np.array_equal(found[:ONE_BY_ONE], few)
    print(f"{'step, a million layouts as arrays':<44}{fmt(arrays, 's'):>10}{LAYOUTS / arrays:>14,.0f} layouts/s")
    start = time.perf_counter()
    searched = search(llama, h100, gpus=16384, sequence=8192, global_batch=2048)
    whole = time.perf_counter() - start
    rate = searched.considered / whole
    print(f"{'search, 405B on 16,384 accelerators':<44}{fmt(whole, 's'):>10}{rate:>14,.0f} layouts/s")


# --- One layout: each function returns what computes its step time in seconds, and on which constants ----------------


def clusterlab():
    """175 billion parameters on 64 A100: 8 tensor-parallel ranks, 8 stages of 3 chunks, selective recomputation."""
    gpt, a100 = model("GPT 175B"), machine("A100 80GB")
    layout = {"sequence": 2048, "global_batch": 64, "tp": 8, "pp": 8, "chunks": 3, "recompute": "selective"}
    layout |= {"precision": "fp16", "zero": 0, "software": SOFTWARE["2022"]}
    return lambda: step(gpt, a100, **layout).time, "constants fitted to published runs, this one too"


def mlsysim():
    """The same in the package's own model and cluster; where not told "full", it takes recomputation as selective."""
    from mlsysim import Models, Systems, __version__
    from mlsysim.solvers import DistributedModel

    gpt, fleet, solver = Models.Language.GPT3, Systems.Clusters.Lab_64_A100, DistributedModel()
    layout = {"batch_size": 64, "microbatch_count": 64, "seq_len": 2048, "tp_size": 8, "pp_size": 8, "v_stages": 3}
    return lambda: solver.solve(gpt, fleet, **layout).step_latency_total.m_as("s"), f"defaults of {__version__}"


def calculon():
    """The same from the package's own files, with which it validates itself against this run."""
    import calculon

    root = Path(calculon.__file__).parents[1]
    names = ("models/gpt3-175B.json", "systems/a100_80g.json", "validation/seqsel/tab5/gpt3-175B_seqsel.json")
    app, system, layout = (json.loads((root / name).read_text()) for name in names)
    app, system = calculon.Llm.Application(app), calculon.System(system)

    def evaluate():
        one = calculon.Llm(app, logging.getLogger())
        one.compile(system, calculon.Llm.Execution.from_json(layout))
        one.run(system)
        return one.get_total_time()

    return evaluate, f"validation files of {calculon.__version__}"


def one_at_a_time() -> None:
    """Time one layout in each package, and print what step time it says."""
    print(f"\nGPT 175B on 64 A100, one layout at a time; measured: {MEASURED} s (Korthikanti et al. 2022, table 5)")
    for package in (clusterlab, mlsysim, calculon):
        name = package.__name__
        try:
            evaluate, constants = package()
            says = evaluate()  # and warms up
        except Exception as error:  # a peer that is not there, or not this version, does not stop the bench
            print(f"{name:<12}not timed: {error}. To install: {INSTALL[name]}")
            continue
        each = min(timeit.repeat(evaluate, number=1, repeat=ONE_BY_ONE))  # the machine may be busy
        rate = f"{fmt(each, 's'):>10}{1 / each:>10,.0f} layouts/s"
        print(f"{name:<12}{rate}   says {says:.2f} s ({says / MEASURED - 1:+.1%}); {constants}")


if __name__ == "__main__":
    many()
    one_at_a_time()
