from clusterlab.model import transformer

SHAPE = {"model": transformer("gpt-oss 20B")}
ARGUMENTS = {
    "parameters": SHAPE,
    "forward_flops": SHAPE | {"sequence": (64.0, 4096.0)},
    "training_flops": SHAPE | {"sequence": (64.0, 4096.0), "recompute": "alternate"},
    "kv_bytes_per_token": SHAPE,
    "kv_cache_bytes": SHAPE | {"context": (64.0, 4096.0)},
    "state_bytes": {"model": transformer("Nemotron-H 8B")},
}
