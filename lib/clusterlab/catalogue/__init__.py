"""The catalogue: accelerators, links, servers and racks, software, prices, each number with its source."""

from .efficiencies import (
    EFFICIENCIES,
    FABRICS,
    LINK_EFFICIENCY,
    NCCL,
    NCCL_CONSTANTS,
    PREDICTION_INTERVALS,
    PROTOCOLS,
    SERVING,
    SOFTWARE,
    VARIANCE_COMPONENTS,
    Efficiency,
    FabricLatency,
    LinkEfficiency,
    PredictionInterval,
    Protocol,
    VarianceComponents,
)
from .hardware import (
    Accelerator,
    Component,
    Link,
    Memory,
    Node,
    Rack,
    accelerator,
    accelerators,
    add_hardware,
    link,
    links,
    memories,
    memory,
    node,
    nodes,
    rack,
    racks,
)
from .machines import Machine, machine, match_fabric
from .prices import PRICE_LISTS, RENTS, SCALING_LAWS, USEFUL_LIVES, PriceList, Rent, ScalingLaw, UsefulLife, price_list
from .software import ServingSoftware, Software
from .sources import CHECKED, KINDS, ROLES, Fact, Source, Sourced, find, read_records, stored

__all__ = [
    "KINDS", "CHECKED", "ROLES", "Source", "Fact", "Sourced", "read_records", "stored", "find", "Component",
    "Accelerator", "Memory", "Link", "Node", "Rack", "accelerator", "memory", "link", "node",
    "rack", "accelerators", "memories", "links", "nodes", "racks", "Machine", "machine", "match_fabric", "Software",
    "SOFTWARE", "ServingSoftware", "SERVING", "Efficiency", "EFFICIENCIES", "LinkEfficiency", "LINK_EFFICIENCY",
    "NCCL", "NCCL_CONSTANTS", "Protocol", "PROTOCOLS", "FabricLatency", "FABRICS", "PredictionInterval",
    "PREDICTION_INTERVALS", "VarianceComponents", "VARIANCE_COMPONENTS", "PriceList", "PRICE_LISTS", "price_list",
    "Rent", "RENTS", "UsefulLife", "USEFUL_LIVES", "ScalingLaw", "SCALING_LAWS", "add_hardware",
]  # fmt: skip
