"""Drawings of the fabric: servers and racks, collectives between their GPUs, and networks of switches.

What is drawn is taken from records of :mod:`clusterlab.catalogue` and from the laws of :mod:`clusterlab.interconnect`,
or comes out of a collective that is run here, piece by piece. A piece of a buffer has the
colours of the ranks whose values it sums: one colour where it is one rank's own, stripes where it is a sum.
"""

from .collectives import (
    CHUNKS,
    COLLECTIVES,
    GPUS,
    RANKS,
    STAGES,
    STEPS,
    Held,
    collective,
    rails,
    ring,
    ring_cell,
    ring_sums,
    states,
    tree,
    tree_rounds,
)
from .machines import domains, ring_orders, rings, ways
from .networks import fat_tree, offers, torus, tree_links
from .trees import TREE_RANKS, TREES, parents, sends, two_trees

__all__ = [
    "CHUNKS",
    "COLLECTIVES",
    "GPUS",
    "RANKS",
    "STAGES",
    "STEPS",
    "TREES",
    "TREE_RANKS",
    "Held",
    "collective",
    "domains",
    "fat_tree",
    "offers",
    "parents",
    "rails",
    "ring",
    "ring_cell",
    "ring_orders",
    "ring_sums",
    "rings",
    "sends",
    "states",
    "torus",
    "tree",
    "tree_links",
    "tree_rounds",
    "two_trees",
    "ways",
]
