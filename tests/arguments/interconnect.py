# Two ranks in one node, and eight in two.
NODES = {"n": (2.0, 8.0), "node_size": (2.0, 4.0)}
ARGUMENTS = {
    "all_to_all_local_share": NODES,
    "bus_factor": {"operation": "all-reduce"},
    "fat_tree": {"radix": (64.0, 48.0), "tiers": (2.0, 3.0), "oversubscription": (1.0, 2.0)},
    "fat_tree_capacity": {"radix": (64.0, 48.0), "tiers": (2.0, 3.0), "oversubscription": (1.0, 2.0)},
    "expert_all_to_all": NODES,
    "hierarchical_all_reduce": NODES,
    "hierarchical_all_to_all": NODES,
    "multi_node_ring": NODES,
    "path_tier": {"domain": (4.0, 8.0), "rails": (2.0, 4.0)},
    "posted_all_to_all": NODES,
}
