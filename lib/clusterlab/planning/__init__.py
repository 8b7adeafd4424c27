"""Planning: a whole cluster for a question, with intervals, what binds, and what matters most."""

from .atlas import RESULTS, Atlas, Cell, run_chunk, sweep
from .building import Building, Fabric, Supply, yearly_cost
from .choice import Plan, compare_plans, least_memory, plan
from .fleet import FLEET_METRICS, Fleet, serve
from .published import PRESETS, Preset, checks, preset, run_of
from .report import as_object, page
from .result import Binding, InfeasibleError, Move, Point, PublishedComparison, Result, Sensitivity
from .scenario import (
    ASSUMPTIONS,
    CENTRAL,
    LEARNED,
    PRICES,
    SWITCHES,
    Assumption,
    Price,
    Scenario,
    Serving,
    Site,
    Switch,
    Training,
    from_inputs,
    quantity,
    samples,
)
from .training import METRICS, Design, Outcome, design, outcome

__all__ = [
    "Training", "Serving", "Site", "quantity", "from_inputs", "Scenario", "CENTRAL", "Assumption", "ASSUMPTIONS",
    "LEARNED", "samples", "Switch", "SWITCHES", "Price", "PRICES", "Building", "Fabric", "Supply", "yearly_cost",
    "Design", "design", "Outcome", "outcome", "METRICS", "Plan", "plan", "compare_plans", "least_memory",
    "InfeasibleError", "Fleet", "serve", "FLEET_METRICS", "Result", "Binding", "Sensitivity", "Move", "Point",
    "PublishedComparison", "Preset", "PRESETS", "preset", "run_of", "checks", "as_object", "page", "Cell", "Atlas",
    "RESULTS", "run_chunk", "sweep",
]  # fmt: skip
