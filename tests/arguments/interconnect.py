# Two ranks in one node, and eight in two.
NODE = {"n": (2.0, 8.0), "node_size": (2.0, 4.0)}
ARGUMENTS = {"multi_node_ring": NODE, "expert_all_to_all": NODE}
