"""Evidence: published measurements, and your own, held against the laws. No law looks at any of it."""

from sys import modules

from ..quantities import guard
from .benchmark import Rate, matmul_rate, triad_bandwidth
from .calibration import Calibrated, calibrated, expected_misses, learn_scatter, leave_one_run_out, unreached
from .cost import (
    Claim,
    claim_table,
    development_shares,
    implied_mfu,
    interest_of_epoch,
    stated_bills,
    stated_doublings,
    stated_hours,
)
from .efficiency_fit import TimedAttention, fit_efficiency, leave_one_source_out, timed_attention, unseen_times
from .expectation import Reached, expect_gemm, expect_memory
from .explanation import Explanation, Suspect, explain
from .fleet import (
    FLEET_KINDS,
    Comparison,
    accelerator_draws,
    fleet_coverage,
    goodput_runs,
    learn_fleet_spreads,
    lemon_nodes,
    planned_goodput,
    server_draws,
    waits_for_people,
)
from .incidents import Incidents, is_incidents, parse_incidents, read_incidents
from .inference_runs import (
    InferenceRun,
    at_peak,
    is_inference,
    parse_inference,
    predict_inference,
    predict_inference_run,
    published_inference,
    read_inference,
)
from .inference_validation import (
    compare_inference,
    constant_serving_widths,
    fit_serving,
    inference_kind,
    learn_serving_spreads,
    leave_one_inference_source_out,
    score_inference,
    serving_coverage,
)
from .intervals import further_source_interval, quantile_interval, student_quantile, symmetric_interval
from .job_lists import Queued, queued
from .link_efficiency import LinkEfficiencyFit, fit_link_efficiency
from .link_fit import LinkFit, fit_links, how_sure
from .link_prediction import (
    TimedCollective,
    predict_collective,
    predict_held_out,
    predict_timings,
    predict_unseen_generations,
)
from .link_spreads import CollectiveCoverage, collective_coverage, collective_residuals, learn_collective_spreads
from .memory_peaks import (
    MemoryPeak,
    PeakScore,
    compare_peaks,
    learn_memory_spreads,
    memory_coverage,
    peak_ratios,
    predict_peak,
    published_peaks,
    reserved_share,
)
from .mfu import MfuReading, mfu_readings, readings_of
from .nccl_tests import published_timings, read_timings
from .online_runs import (
    OnlineRun,
    is_online,
    measured_once,
    parse_online,
    predict_online,
    published_online,
    read_online,
)
from .online_validation import (
    OnlineGroup,
    OnlineScore,
    compare_online,
    fit_online,
    learn_online_spreads,
    online_scores,
    unseen_online,
)
from .own_failures import Cause, OwnFailures, learn_incidents
from .peers import Best, Peer, Standing, best_layout, run_mfu, standing
from .post_training_runs import (
    PostTrainingRun,
    ScheduleGain,
    WeightUpdate,
    fit_loading_rate,
    fit_post_training,
    learn_post_training_spread,
    leave_one_model_out,
    predict_post_training,
    published_post_training,
    published_schedule_gains,
    published_weight_updates,
)
from .protocol import (
    Protocol,
    learn_training_spreads,
    learn_untimed_spreads,
    publication,
    training_protocol,
    unseen_runs,
)
from .readers.jobs import JobList, parse_jobs
from .rows import Skipped
from .shared_fabrics import FabricClaim, fabric_claims
from .tables import published
from .timings import Timing, by_source
from .training_runs import Run, predict_run, predict_runs, why_refused
from .training_spreads import Coverage, calibration_worth, learn_scatters, training_coverage, training_residuals
from .training_tables import parse_runs, published_runs, read_runs
from .validation import Score, compare_runs, memory_fit, relative_errors, rivals, score, score_runs

__all__ = [
    "published", "Skipped", "Run", "published_runs", "read_runs", "parse_runs", "predict_run", "predict_runs",
    "why_refused", "Timing", "published_timings", "read_timings", "by_source", "InferenceRun", "published_inference",
    "read_inference", "parse_inference", "is_inference", "predict_inference_run", "predict_inference", "at_peak",
    "OnlineRun", "published_online",
    "read_online", "parse_online", "is_online", "predict_online", "measured_once",
    "OnlineGroup", "OnlineScore", "online_scores", "compare_online", "fit_online", "unseen_online",
    "learn_online_spreads",
    "Score", "score", "score_runs", "compare_runs", "relative_errors", "memory_fit", "rivals", "fit_efficiency",
    "TimedAttention", "timed_attention",
    "unseen_times", "leave_one_source_out", "training_residuals", "learn_training_spreads", "Coverage",
    "training_coverage", "Protocol", "training_protocol", "publication", "unseen_runs", "learn_untimed_spreads",
    "LinkFit", "fit_links", "LinkEfficiencyFit", "fit_link_efficiency", "predict_timings", "predict_held_out",
    "predict_unseen_generations", "TimedCollective", "predict_collective", "collective_residuals",
    "learn_collective_spreads", "CollectiveCoverage", "collective_coverage", "score_inference", "compare_inference",
    "fit_serving",
    "leave_one_inference_source_out", "inference_kind", "learn_serving_spreads", "serving_coverage",
    "constant_serving_widths", "Comparison", "planned_goodput", "goodput_runs", "waits_for_people", "lemon_nodes",
    "server_draws", "accelerator_draws", "FLEET_KINDS", "learn_fleet_spreads", "fleet_coverage", "Claim",
    "claim_table", "stated_hours", "stated_doublings", "implied_mfu", "stated_bills", "development_shares",
    "interest_of_epoch", "quantile_interval", "further_source_interval", "symmetric_interval", "student_quantile",
    "Suspect", "Explanation", "explain", "Calibrated", "calibrated", "leave_one_run_out", "unreached",
    "expected_misses", "learn_scatter", "learn_scatters", "calibration_worth", "MemoryPeak", "published_peaks",
    "predict_peak", "peak_ratios", "reserved_share", "PeakScore", "compare_peaks", "learn_memory_spreads",
    "memory_coverage", "Incidents", "read_incidents", "parse_incidents", "is_incidents", "OwnFailures", "Cause",
    "PostTrainingRun", "published_post_training", "predict_post_training", "fit_post_training", "leave_one_model_out",
    "learn_post_training_spread", "WeightUpdate", "published_weight_updates", "fit_loading_rate",
    "ScheduleGain", "published_schedule_gains", "learn_incidents", "FabricClaim", "fabric_claims", "how_sure", "Rate",
    "matmul_rate", "triad_bandwidth", "Reached", "expect_gemm", "expect_memory", "MfuReading", "mfu_readings",
    "readings_of", "JobList", "parse_jobs", "Queued", "queued", "Peer", "Standing", "standing", "run_mfu", "Best",
    "best_layout",
]  # fmt: skip

guard(modules[__name__])  # as the package does for the rooms that it loads
