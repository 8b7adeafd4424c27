"""Planning: a whole cluster for a question, with intervals, what binds, and what matters most."""

from .atlas import FLEET_RESULTS, RESULTS, Atlas, Cell, FleetCell, run_chunk, sweep
from .building import Building, Fabric, Supply, yearly_cost
from .choice import Plan, compare_plans, least_memory, plan, search_layouts
from .fits import Fit, Fitting, fitting
from .fleet import FLEET_METRICS, Fleet, serve
from .loops import LoopPlan, PostTraining, loops_by_size, plan_loop
from .mixtures import mixture, mixture_interval, not_named, not_timed
from .published import PRESETS, Preset, checks, preset, run_of
from .report import as_object, page
from .result import Binding, InfeasibleError, Move, Point, PublishedComparison, Result, Sensitivity
from .scenario import (
    ASSUMPTIONS,
    CENTRAL,
    LEARNED,
    PRICES,
    RESTARTS,
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
    restarted,
    samples,
    supposed,
)
from .stacks import STACKS, Stack, StackMatch, match_stack, plausible_stacks, record_of, stack
from .training import METRICS, Design, Outcome, design, outcome

__all__ = [
    "Training", "Serving", "Site", "quantity", "from_inputs", "Scenario", "CENTRAL", "Assumption", "ASSUMPTIONS",
    "LEARNED", "samples", "RESTARTS", "restarted", "supposed", "Switch", "SWITCHES", "Price", "PRICES", "Building",
    "Fabric", "Supply", "yearly_cost", "Design", "design", "Outcome", "outcome", "METRICS", "Plan", "plan",
    "compare_plans", "least_memory", "InfeasibleError", "Fleet", "serve", "FLEET_METRICS", "Result", "Binding",
    "Sensitivity", "Move", "Point", "PublishedComparison", "Preset", "PRESETS", "preset", "checks", "as_object",
    "page", "Cell", "Atlas", "RESULTS", "run_chunk", "sweep", "Stack", "STACKS", "StackMatch", "match_stack", "stack",
    "record_of", "plausible_stacks", "mixture", "mixture_interval", "not_named", "not_timed", "FleetCell", "run_of",
    "FLEET_RESULTS", "PostTraining", "LoopPlan", "plan_loop", "loops_by_size", "Fit", "Fitting", "fitting",
    "search_layouts",
]  # fmt: skip
