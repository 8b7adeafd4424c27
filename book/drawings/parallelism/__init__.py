"""Drawings of parallelism: a layer in shards, and what its shards exchange.

``cuts`` says what each GPU holds and sends in each way to cut a layer, and ``shards`` draws it, and one product of cut
matrices; ``exchanges`` draws who talks to whom under a layout, keys and values on their way around, and tokens on
their way to experts.
"""

from .cuts import GPUS, PHASES, WAYS, Move, Phase, Sizes, Way, kept_bytes, sent_bytes, sent_so_far
from .exchanges import experts, key_value_ring, peers, placement
from .shards import PRODUCTS, Product, layer, overview, product

__all__ = [
    "GPUS",
    "PHASES",
    "PRODUCTS",
    "WAYS",
    "Move",
    "Phase",
    "Product",
    "Sizes",
    "Way",
    "experts",
    "kept_bytes",
    "key_value_ring",
    "layer",
    "overview",
    "peers",
    "placement",
    "product",
    "sent_bytes",
    "sent_so_far",
]
