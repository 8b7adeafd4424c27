"""How many layouts a second: the training step on arrays, the same step called one layout at a time, and the search.

``python bench/layouts.py`` runs on one core.
"""

import os
import time

os.environ["OMP_NUM_THREADS"] = "1"

import numpy as np

from clusterlab.layout_search import search
from clusterlab.models import model
from clusterlab.training import machine, step
from clusterlab.units import fmt

LAYOUTS, ONE_BY_ONE = 1_000_000, 500


def main() -> None:
    """Time the three, and print the table."""
    llama, h100 = model("Llama 3.1 405B"), machine("H100 SXM")
    rng = np.random.default_rng(0)
    tp, pp = 2 ** rng.integers(0, 4, LAYOUTS), 2 ** rng.integers(1, 5, LAYOUTS)
    layouts = {"tp": tp, "pp": pp, "dp": 16384 // (tp * pp), "chunks": rng.integers(1, 8, LAYOUTS)}
    layouts["zero"] = rng.integers(0, 4, LAYOUTS)
    job = {"sequence": 8192, "global_batch": 2**15}
    step(llama, h100, **job, **{name: values[:100] for name, values in layouts.items()})
    start = time.perf_counter()
    many = step(llama, h100, **job, **layouts).time
    arrays = time.perf_counter() - start
    start = time.perf_counter()
    few = [step(llama, h100, **job, **{k: v[i].item() for k, v in layouts.items()}).time for i in range(ONE_BY_ONE)]
    single = (time.perf_counter() - start) / ONE_BY_ONE
    assert np.array_equal(many[:ONE_BY_ONE], few)
    start = time.perf_counter()
    found = search(llama, h100, gpus=16384, sequence=8192, global_batch=2048)
    whole = time.perf_counter() - start
    print(f"{'step, a million layouts as arrays':<44}{fmt(arrays, 's'):>10}{LAYOUTS / arrays:>14,.0f} layouts/s")
    print(f"{'step, one layout at a time':<44}{fmt(single, 's'):>10}{1 / single:>14,.0f} layouts/s")
    print(
        f"{'search, 405B on 16,384 accelerators':<44}{fmt(whole, 's'):>10}{found.considered / whole:>14,.0f} layouts/s"
    )


if __name__ == "__main__":
    main()
