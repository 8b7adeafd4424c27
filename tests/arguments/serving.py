from clusterlab.catalogue import machine
from clusterlab.model import Layout, transformer
from clusterlab.serving import Formats, Pools, Replica, Requests

REPLICA = {"replica": Replica(transformer("Llama 3.1 8B"), machine("H100 SXM"), Layout(tp=2), Formats("fp8"))}
ARGUMENTS = {
    "fullest_rank": {"experts": (64.0, 128.0), "experts_per_token": (4.0, 8.0), "ranks": (8.0, 16.0)},
    "replica_footprint": REPLICA | {"context": (100.0, 4000.0)},
    "largest_batch": REPLICA | {"context": (200.0, 4000.0), "shared": (100.0, 1000.0)},
    "reuse": REPLICA | {"tokens": (100.0, 4000.0)},
    "split_reading": REPLICA | {"requests": Requests(100, 50)},
    "static_batch": REPLICA | {"requests": Requests(100, 50)},
    "mixed_passes": REPLICA | {"requests": Requests(100, 50), "chunk": (20.0, 50.0)},
    "continuous_batch": REPLICA | {"requests": Requests(100, 50), "chunk": (20.0, 50.0)},
    "closed_loop": REPLICA | {"requests": Requests(100, 50), "alike": False},
    "open_loop": REPLICA | {"requests": Requests(100, 50), "rate": (0.5, 2.0)},
    "split_loop": {"pools": Pools(REPLICA["replica"], REPLICA["replica"]), "requests": Requests(100, 50)},
}
IN_UNITS = dict.fromkeys(
    (
        "replica_footprint",
        "reuse",
        "split_reading",
        "static_batch",
        "mixed_passes",
        "continuous_batch",
        "closed_loop",
        "open_loop",
        "split_loop",
    )
)
