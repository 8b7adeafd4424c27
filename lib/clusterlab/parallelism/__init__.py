"""Parallelism: the axes that a model is cut along, what each sends, the memory of a rank, the time of a step."""

from .layout_search import (
    Search,
    axes,
    search,
)
from .memory import (
    Footprint,
    LayerActivations,
    ModelState,
    footprint,
    layer_activations,
    model_state,
)
from .pipeline import (
    SCHEDULES,
    CriticalStage,
    Timeline,
    bubble_fraction,
    critical_stage,
    dualpipe_bubble,
    in_flight,
    simulate,
    simulate_dualpipe,
    stage_layers,
)
from .ratios import (
    data_parallel_ratio,
    tensor_parallel_ratio,
)
from .sharding import (
    Ranks,
    Sent,
)
from .training import (
    PARTS,
    Step,
    kind,
    sent_bytes,
    step,
)

__all__ = [
    "Sent",
    "Ranks",
    "data_parallel_ratio",
    "tensor_parallel_ratio",
    "SCHEDULES",
    "Timeline",
    "simulate",
    "simulate_dualpipe",
    "dualpipe_bubble",
    "stage_layers",
    "CriticalStage",
    "critical_stage",
    "bubble_fraction",
    "in_flight",
    "ModelState",
    "model_state",
    "LayerActivations",
    "layer_activations",
    "Footprint",
    "footprint",
    "PARTS",
    "Step",
    "kind",
    "step",
    "sent_bytes",
    "Search",
    "axes",
    "search",
]
