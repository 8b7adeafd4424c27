from dataclasses import replace

import numpy as np

from clusterlab.catalogue import SOFTWARE
from clusterlab.model import Layout, Workload, transformer
from laws import registry

ARGUMENTS = {
    "model_state": {"zero": (1.0, 3.0)},
    "footprint": {
        "model": transformer("Llama 3.1 8B"),
        "workload": Workload(sequence=4096, global_batch=64),
        "layout": Layout(tp=2, pp=4, dp=8),
        "stage": (0.0, 3.0),
    },
    "dualpipe_bubble": {"weight": (0.5, 1.0)},
    "stage_layers": {"layers": (16.0, 32.0), "stage": (0.0, 1.0)},
    "critical_stage": {"layers": (16.0, 32.0)},
    "bubble_fraction": {"schedule": "zb-h1", "chunks": (1.0, 1.0), "weight": (0.5, 1.0)},
    "in_flight": {"stage": (0.0, 1.0), "schedule": "interleaved"},
}
USUAL = SOFTWARE["2024"]
IN_BYTES = {name: registry.Quantity(np.array([2.0, 4.0]), "octet") for name in vars(USUAL) if name.endswith("_bytes")}
IN_UNITS = {"footprint": {"software": replace(USUAL, **IN_BYTES)}}
# The 6 FLOPs of a parameter and token are a plain number in a ratio, and so is what is left of a rate.
PER_SECOND = {"rate": registry.Quantity(np.array([2.0, 4.0]), "1/s")}
IN_UNITS |= {"data_parallel_ratio": PER_SECOND, "tensor_parallel_ratio": PER_SECOND}
