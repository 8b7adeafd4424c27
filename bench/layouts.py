"""How many layouts a second: the training step on arrays, the search, and one layout at a time beside two peers.

``python bench/layouts.py`` runs on one core. mlsysim and calculon are timed where they can be imported; neither is a
dependency of the project. ``CLUSTERLAB_BEFORE=folder`` names a folder that holds an older ``clusterlab`` to time too.
Times are of the processor, not of the clock, and the least of several: the machine may be busy.
"""

import os
import subprocess
import sys
import time

os.environ["OMP_NUM_THREADS"] = "1"

import json
import logging
import timeit
from pathlib import Path

import numpy as np

from clusterlab.model import transformer
from clusterlab.units import fmt

try:
    from clusterlab.catalogue import SOFTWARE, machine
    from clusterlab.model import Layout, Workload
except ImportError:  # an older version: workload and layout were arguments of every function
    from clusterlab.parallelism import SOFTWARE, machine

    Layout = Workload = None
from clusterlab.parallelism import search, step

LAYOUTS, ONE_BY_ONE, TIMES = 1_000_000, 100, 3
BEFORE = os.environ.get("CLUSTERLAB_BEFORE")
MEASURED = 13.75  # s, Korthikanti et al. 2022, table 5: 175 billion parameters, with both of their techniques
INSTALL = {
    "mlsysim": ".venv/bin/pip install mlsysim==0.3.0",
    "calculon": "git clone https://github.com/calculon-ai/calculon .venv/calculon"
    " && .venv/bin/pip install pandas psutil -e .venv/calculon",
}


def least(call, times=TIMES):
    """Seconds of the processor that a call takes, the least of several, and its result."""
    seconds = []
    for _ in range(times):
        start = time.process_time()
        result = call()
        seconds.append(time.process_time() - start)
    return min(seconds), result


def records(workload: dict, layout: dict) -> tuple[list, dict]:
    """Arguments of a step: two records, or names and values in an older version."""
    return ([Workload(**workload), Layout(**layout)], {}) if Workload else ([], workload | layout)


def rates() -> dict[str, tuple[float, float]]:
    """Seconds, and layouts a second, of the step on arrays, of the search, and of one layout at a time."""
    llama, h100 = transformer("Llama 3.1 405B"), machine("H100 SXM")
    rng = np.random.default_rng(0)
    tp, pp = 2 ** rng.integers(0, 4, LAYOUTS), 2 ** rng.integers(1, 5, LAYOUTS)
    layouts = {"tp": tp, "pp": pp, "dp": 16384 // (tp * pp), "chunks": rng.integers(1, 8, LAYOUTS)}
    layouts["zero"] = rng.integers(0, 4, LAYOUTS)
    job = {"sequence": 8192, "global_batch": 2**15}

    def timed(columns):
        given, named = records(job, columns)
        return step(llama, h100, *given, **named).time

    few = [timed({name: column[i].item() for name, column in layouts.items()}) for i in range(ONE_BY_ONE)]
    arrays, found = least(lambda: timed(layouts))
    assert np.array_equal(found[:ONE_BY_ONE], few)
    given, named = records({"sequence": 8192, "global_batch": 2048}, {})
    whole, searched = least(lambda: search(llama, h100, *given[:1], gpus=16384, **named))
    evaluate, _ = clusterlab()
    evaluate()
    one, _ = least(lambda: [evaluate() for _ in range(ONE_BY_ONE)])
    return {
        "step, a million layouts as arrays": (arrays, LAYOUTS / arrays),
        "search, 405B on 16,384 accelerators": (whole, searched.considered / whole),
        "step, one layout at a time": (one / ONE_BY_ONE, ONE_BY_ONE / one),
    }


def many() -> None:
    """Print the rates, and those of the version before beside them."""
    now, before = rates(), {}
    if BEFORE:
        command = [sys.executable, __file__, "--rates"]
        environment = os.environ | {"PYTHONPATH": BEFORE}
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
        before = json.loads(done.stdout)
    for name, (seconds, rate) in now.items():
        line = f"{name:<40}{fmt(seconds, 's'):>10}{rate:>14,.0f} layouts/s"
        if before:
            old_seconds, old = before[name]
            line += f"   before {fmt(old_seconds, 's'):>8}{old:>12,.0f} layouts/s, {rate / old:.2f} times"
        print(line)


# --- One layout: each function returns what computes its step time in seconds, and on which constants ----------------


def clusterlab():
    """175 billion parameters on 64 A100: 8 tensor-parallel ranks, 8 stages of 3 chunks, selective recomputation."""
    gpt, a100 = transformer("GPT 175B"), machine("A100 80GB")
    workload = {"sequence": 2048, "global_batch": 64, "precision": "fp16"}
    layout = {"tp": 8, "pp": 8, "chunks": 3, "recompute": "selective", "zero": 0}

    def evaluate():
        given, named = records(workload, layout)
        return step(gpt, a100, *given, **named, software=SOFTWARE["2022"]).time

    return evaluate, "constants fitted to published runs, this one too"


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
        each = min(timeit.repeat(evaluate, number=1, repeat=ONE_BY_ONE, timer=time.process_time))
        rate = f"{fmt(each, 's'):>10}{1 / each:>10,.0f} layouts/s"
        print(f"{name:<12}{rate}   says {says:.2f} s ({says / MEASURED - 1:+.1%}); {constants}")


if __name__ == "__main__":
    if sys.argv[1:] == ["--rates"]:
        print(json.dumps(rates()))
    else:
        many()
        one_at_a_time()
