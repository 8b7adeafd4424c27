"""Drawings of parallelism: a layer in shards, and what its shards exchange.

``cuts`` says what each GPU holds and sends in each way to cut a layer, and ``shards`` draws it, and one product of cut
matrices; ``ports`` draws which ports of a server gradients leave through.
"""

from .cuts import GPUS, PHASES, WAYS, Move, Phase, Sizes, Way, kept_bytes, sent_bytes, sent_so_far
from .ports import ports
from .shards import HELD, PRODUCTS, TRADES, Product, halves, holders, layer, overview, product, three, trade

__all__ = [
    "GPUS",
    "HELD",
    "PHASES",
    "PRODUCTS",
    "TRADES",
    "WAYS",
    "Move",
    "Phase",
    "Product",
    "Sizes",
    "Way",
    "halves",
    "holders",
    "kept_bytes",
    "layer",
    "overview",
    "ports",
    "product",
    "sent_bytes",
    "sent_so_far",
    "three",
    "trade",
]
