"""Parallelism: the axes that a model is cut along, what each sends, the memory of a rank, the time of a step."""

from .layout_search import Search, axes, search
from .memory import Footprint, LayerActivations, ModelState, footprint, layer_activations, model_state
from .pipeline import (
    SCHEDULES,
    CriticalStage,
    Timeline,
    bubble_fraction,
    critical_stage,
    dualpipe_bubble,
    in_flight,
    simulate_dualpipe,
    simulate_pipeline,
    stage_layers,
)
from .rates import Rates, reached
from .ratios import data_parallel_ratio, tensor_parallel_ratio
from .sharding import Ranks, Sent
from .training import STEP_PARTS, Step, sent_bytes, step, step_kind, wider
from .work import scan_time

__all__ = [
    "Ranks", "Sent", "data_parallel_ratio", "tensor_parallel_ratio", "sent_bytes", "ModelState", "model_state",
    "LayerActivations", "layer_activations", "Footprint", "footprint", "SCHEDULES", "Timeline", "simulate_pipeline",
    "bubble_fraction", "in_flight", "stage_layers", "CriticalStage", "critical_stage", "simulate_dualpipe",
    "dualpipe_bubble", "Rates", "reached", "scan_time", "STEP_PARTS", "Step", "step", "step_kind", "wider",
    "Search", "search", "axes",
]  # fmt: skip
