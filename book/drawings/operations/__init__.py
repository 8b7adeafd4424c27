"""Drawings of operations: how a machine is shared, and what the person on call sees of it.

What computes is blue, what is stored is green, what moves is orange, and what waits or is broken is plum.
"""

from .duty import blocks, load_test, rack, signal_table, waves
from .sharing import MIXES, POLICIES, burst, losses, pipe, profile, ranks, search, timeline
from .waiting import descent, tail

__all__ = [
    "MIXES",
    "POLICIES",
    "blocks",
    "burst",
    "descent",
    "load_test",
    "losses",
    "pipe",
    "profile",
    "rack",
    "ranks",
    "search",
    "signal_table",
    "tail",
    "timeline",
    "waves",
]
