"""Every prediction says how sure it is: records that predict, commands that print them, figures of the book.

A record, a command or a read-out that is new has to be sorted here into those that predict and those that do not.
"""

import importlib
import json
import math
import pkgutil
import re
from dataclasses import replace
from functools import cache
from pathlib import Path

import nbformat
import pytest

import clusterlab
from clusterlab import catalogue, failures, parallelism, planning, post_training, power, serving
from clusterlab.catalogue import PREDICTION_INTERVALS, machine
from clusterlab.cli import COMMANDS, main
from clusterlab.evidence import (
    expect_gemm,
    explain,
    link_prediction,
    predict_collective,
    predict_held_out,
    published_runs,
    published_timings,
    stated_hours,
)
from clusterlab.model import Layout, Workload, transformer
from clusterlab.parallelism import memory, search, training
from clusterlab.planning import scenario
from clusterlab.post_training import loop, rollouts
from clusterlab.records import Explained, with_interval
from clusterlab.serving import batches, online, passes, promises
from clusterlab.units import fmt

DATA = Path(clusterlab.__file__).parent / "evidence" / "data"
ENDS = r"\(\S+(?: [^\s()]+)? to [^()]+\)"  # (5.3 to 7.1), (56 d to 1.2 yr)

# --- Records ---------------------------------------------------------------------------------------------------------

# Modules whose records count, draw or measure, and predict no measurement: shapes, machines, exact laws of given times.
COUNT = ("records", "catalogue", "model", "roofline", "operations", "scaling")
# In the others, each record that predicts nothing, and why.
PLAIN = {
    "interconnect": {"Collective", "Overlap", "AlgorithmTimes"},  # laws of given rates; TimedCollective predicts
    "parallelism": set(),
    "serving": {"Formats", "Requests", "Batch", "Replica", "ReplicaFootprint", "Reuse"},  # asked for, or counted
    "failures": {"Series", "Estimate", "Lemons", "Checkpoint", "Job", "Budget", "SparePool", "InRepair", "_WallClock"},
    "power": {
        "Load",
        "EnergyFootprint",
        "Coolant",
        "Capped",
        "CappedFleet",
        "Outside",
        "PowerSwing",
        "Capacity",
    },  # of given watts
    "planning": {"Assumption", "Switch", "Price", "Preset", "Training", "Site", "Scenario", "Fabric", "Serving"},
    "evidence": {
        "Rate",  # measured
        "Comparison",  # what an interval is learned from
        "LinkEfficiencyFit",  # from which TimedCollective follows
        *(
            "OnlineGroup",
            "OnlineScore",
            "PeakScore",
            "Score",
            "Coverage",
            "Protocol",
            "CollectiveCoverage",
            "Calibrated",
        ),  # how far off, and how wide
        *("Incidents", "Cause", "OwnFailures"),  # a log and its posterior: intervals of its own
    },
}
PLAIN["interconnect"] |= {"Hierarchy", "FatTree", "Torus", "ScaleUp"}  # of a fabric as it is built
PLAIN["contention"] = {"Exchange", "Fabric", "Clos", "Dragonfly", "TorusLinks", "EcnBalance"}  # fluid, and as built
PLAIN["parallelism"] |= {"ModelState", "LayerActivations", "Timeline", "CriticalStage"}  # counted
PLAIN["serving"] |= {"Pools", "Drafts", "Promise", "Day", "Tier"}  # asked for
PLAIN["serving"] |= {"Prefixes", "PipelinedDecode", "Split", "Queue", "Impatient"}  # of given times and rates
PLAIN["serving"] |= {"SimulatedRequests"}  # the same
PLAIN["post_training"] = {"Lengths", "Loop"}  # asked for
PLAIN["post_training"] |= {"Emptying", "PoolBalance", "ScheduleTimes", "WeightRoutes"}  # of given times and rates
PLAIN["post_training"] |= {"PassLine", "LoopConstant"}  # between two passes, and data between its ends
PLAIN["failures"] |= {"TimeEstimate", "SimulatedRuns", "Burstiness"}  # luck alone, of a count and run by run
PLAIN["planning"] |= {"_Row", "Building", "Supply", "Outcome"}  # decided, and of one scenario
PLAIN["planning"] |= {"Stack"}  # data
PLAIN["planning"] |= {"PostTraining"}  # asked for
PLAIN["planning"] |= {"Binding", "Sensitivity"}  # what moves from one scenario to another
PLAIN["evidence"] |= {"FabricClaim"}  # published beside a range that a law gives
PLAIN["evidence"] |= {"MfuReading", "JobList", "Standing"}  # counted, read, and of measured runs
ABSTRACT = {"records.Explained", "records.Predicted", "planning.Result", "planning._Planned"}


@cache
def step():
    return parallelism.step(transformer("Llama 3.1 8B"), machine("H100 SXM"), Workload(8192, 64), Layout(dp=8))


def replica():
    return serving.Replica(transformer("Llama 3.1 8B"), machine("H100 SXM"))


def iteration():
    lengths = post_training.Lengths(500, limit=2000)
    return post_training.iterate(post_training.Loop(replica(), 8, Layout(dp=8), lengths, 8, 8))


REQUESTS = serving.Requests(1000, 300)
JOB = failures.Job(interval=1100, write=60, mtbf=1e4, detection=120, restart=300)
RUN = planning.Training("Llama 3.1 8B", 1e12, global_batch=512)
FEW = planning.Site("H100 SXM", gpus=64, layout={"tp": 1, "pp": 1, "cp": 1, "zero": 3})
FLEET = planning.Serving("Llama 3.1 8B", 50, 1000, 300, speed=20)


@cache
def loop_plan():
    lengths = post_training.Lengths(500, limit=2048)
    return planning.plan_loop(
        planning.PostTraining("Llama 3.1 8B", 8, 8, lengths, 100), "H100 SXM", gpus=8, rent=1e-3, schedule="synchronous"
    )


@cache
def plan():
    return planning.plan(RUN, FEW, draws=100)


@cache
def fleet():
    return planning.serve(FLEET, planning.Site("H100 SXM"), draws=100)


def atlas():
    few = {"tp": 1, "pp": 1, "cp": 1, "zero": 3}
    return planning.sweep([{"model": RUN.model.name, "tokens": 1e12, "global_batch": 512, **few}], ["H100 SXM"], [64])


def fleets():
    return planning.sweep([{"model": RUN.model.name, "rate": 50, "speed": 20}], ["H100 SXM"], [64])


def timed():
    rows = [row for row in published_timings() if row.source == "h200_sharp_ramp"]
    return predict_held_out(rows, published_timings())[0]


def gpu_hours():
    return next(claim for claim in stated_hours() if claim.low is not None)


# What predicts: one of each, and the rows of its table that are predictions. "|" is any row that begins so.
PREDICTS = {
    "parallelism.Step": (step, ("step", "MFU", "HFU")),
    "parallelism.Search": (
        lambda: search(transformer("Llama 3.1 8B"), machine("H100 SXM"), Workload(8192, 64), gpus=8),
        ("fastest", "second", "third"),
    ),
    "parallelism.Footprint": (lambda: step().memory, ("total",)),
    "serving.Pass": (lambda: serving.forward_pass(replica(), serving.Batch(8, 1000)), ("pass", "MFU")),
    "serving.Service": (
        lambda: serving.static_batch(replica(), REQUESTS, sequences=8),
        ("time to first token", "time per token", "latency", "tokens per second", "tokens per second per gpu"),
    ),
    "serving.MixedPasses": (
        lambda: serving.mixed_passes(replica(), REQUESTS, sequences=8),
        ("decoding", "reading", "mean"),
    ),
    "serving.Online": (
        lambda: serving.closed_loop(replica(), REQUESTS, users=8),
        ("time to first token", "time per token", "tokens per second"),
    ),
    "serving.Frontier": (
        lambda: serving.frontier(replica(), REQUESTS, gpus=1),
        ("speed of a user", "tokens per second per gpu"),
    ),
    "serving.Kept": (
        lambda: serving.replicas_for(replica(), REQUESTS, serving.Promise(2.0, 0.05), rate=10_000),
        ("GPUs",),
    ),
    "post_training.Rollout": (lambda: iteration().rollout, ("rollout",)),
    "post_training.Iteration": (iteration, ("iteration", "tokens/s of a GPU")),
    "serving.Scaled": (
        lambda: serving.scale_over(
            serving.replicas_for(replica(), REQUESTS, serving.Promise(2.0, 0.05), rate=10_000),
            serving.Day(10_000, 1000),
            cold=60,
        ),
        ("GPUs",),
    ),
    "failures.Goodput": (lambda: failures.goodput(JOB), ("useful",)),
    "failures.RunTime": (lambda: failures.expected_run_time(1e6, JOB), ("total",)),
    "power.Draw": (lambda: power.mean_draw(10_200, utilisation=2 / 3), ("power",)),
    "evidence.TimedCollective": (lambda: predict_collective("all-reduce", 14e9, 256), ("time", "bus bandwidth")),
    "evidence.LinkFit": (timed, ("bandwidth",)),
    "evidence.Explanation": (lambda: explain(published_runs()[0][:10], published_runs()[0][0].row), ("predicted",)),
    "evidence.Claim": (gpu_hours, ("computed",)),
    "evidence.Reached": (lambda: expect_gemm(machine("H100 SXM")), ("expect",)),
    "planning.Fit": (lambda: planning.fitting(RUN, FEW, most=1).fits[0], ("step", "MFU", "memory")),
    "planning.Fitting": (lambda: planning.fitting(RUN, FEW, most=1), ("dp 64, zero 3",)),
    "planning.Design": (lambda: plan().design, ("step", "MFU")),
    "planning.Point": (lambda: plan().front[0], ("time", "cost", "power")),
    "planning.PublishedComparison": (lambda: planning.preset("Llama 3 405B", draws=100).published[0], ("planned",)),
    "planning.Plan": (plan, ("step time", "MFU", "time", "effective time", "cost", "site power", "mean power")),
    "planning.Fleet": (
        fleet,
        (
            "GPUs",
            "speed, replicas full",
            "first token, no queue",
            "cost a year",
            "mean power",
            "cost of a million tokens",
        ),
    ),
    "planning.LoopPlan": (loop_plan, ("iteration", "time", "cost")),
    "planning.Cell": (lambda: atlas().cells[0], ("time", "cost", "MFU", "effective time", "site power", "carbon")),
    "planning.FleetCell": (lambda: fleets().cells[0], ("replicas", "speed", "first token", "cost a year")),
    "planning.Atlas": (atlas, (RUN.model.name,)),
}


def records():
    """Every record of the library that shows itself, by module and name."""
    found = set()
    for one in pkgutil.walk_packages(clusterlab.__path__, "clusterlab."):
        if not one.name.endswith("__main__"):
            importlib.import_module(one.name)
    left = [Explained]
    while left:
        for kind in left.pop().__subclasses__():
            if kind.__module__.startswith("clusterlab."):
                found.add(f"{kind.__module__.split('.')[1]}.{kind.__qualname__}")
                left.append(kind)
    return found


def test_every_record_is_known_to_predict_or_not_to():
    known = set(PREDICTS) | ABSTRACT
    known |= {f"{module}.{name}" for module, names in PLAIN.items() for name in names}
    unsorted = {name for name in records() - known if name.rpartition(".")[0] not in COUNT}
    assert not unsorted, "sort these into PREDICTS or PLAIN"
    assert set(PREDICTS) <= records()


def shown(record, names) -> dict[str, str]:
    """The rows of a record's table by their names."""
    rows = {row[0]: "  ".join(row[1:]) for row in record._rows()}
    assert set(names) <= set(rows), f"rows are {', '.join(rows)}"
    assert all(cell in repr(record) for name in names for cell in rows[name].split("  "))
    return {name: rows[name] for name in names}


@pytest.mark.parametrize("name", PREDICTS)
def test_a_record_shows_the_interval_of_each_number_that_it_predicts(name):
    made, names = PREDICTS[name]
    for row, text in shown(made(), names).items():
        assert re.search(ENDS, text), f"{row}: {text}"


LOOK = (training, memory, passes, batches, online, promises, rollouts, loop, link_prediction, scenario, catalogue)


@pytest.fixture
def wider(monkeypatch):
    """Twice as wide as learned, wherever a module looks."""
    wide = {
        name: replace(one, low=one.low**2 if one.low < 1 else one.low, high=one.high**2)
        for name, one in PREDICTION_INTERVALS.items()
    }
    for module in LOOK:
        monkeypatch.setattr(module, "PREDICTION_INTERVALS", wide)


FROM_SPREADS = [
    name for name in PREDICTS if name.split(".")[0] != "planning" and name not in ("evidence.Claim", "evidence.Reached")
]  # remembered


@pytest.mark.parametrize("name", FROM_SPREADS)
def test_the_interval_shown_is_the_one_that_was_learned(name, wider):
    """Not a second one, and not text: where what was learned is wider, so is every row."""
    made, names = PREDICTS[name]
    step.cache_clear()
    wide = shown(made(), names)
    step.cache_clear()
    with pytest.MonkeyPatch.context() as as_learned:
        for module in LOOK:
            as_learned.setattr(module, "PREDICTION_INTERVALS", PREDICTION_INTERVALS)
        usual = shown(made(), names)
    step.cache_clear()
    for row, text in usual.items():
        assert re.sub(ENDS, "", text) == re.sub(ENDS, "", wide[row])
        assert text != wide[row], row


def test_a_number_that_follows_the_predicted_one_has_its_interval():
    one = step()
    least, most = one.model_flops / (one.gpus * one.peak) / one.high, one.model_flops / (one.gpus * one.peak) / one.low
    assert one.say("mfu") == with_interval(one.mfu, least, most, "%")
    rate = one.tokens / one.high
    assert one.say("tokens_per_second").split(" (")[1].startswith(fmt(rate, "tokens/s").removesuffix(" tokens/s"))
    with pytest.raises(ValueError, match="name must be one of mfu, hfu, tokens_per_second; got 'gpus'"):
        one.say("gpus")
    many = failures.expected_run_time(1e6, JOB)
    lost = many.total - many.useful
    spread = PREDICTION_INTERVALS["goodput"]
    assert (many.low, many.high) == pytest.approx((1e6 + spread.low * lost, 1e6 + spread.high * lost))
    service = serving.static_batch(replica(), REQUESTS, sequences=8)
    price = service.tokens_per_second_per_gpu / service.low
    assert service.say("latency").endswith(f"{fmt(service.latency * price, 's').split()[0]})")


# --- Commands --------------------------------------------------------------------------------------------------------

# Those that predict nothing: what is stored, and what was measured.
PRINT = {"list", "audit", "fit", "mfu", "queue"}  # and what is simulated of a list
SMALL = ["--model", "Llama 3.1 8B", "--tokens", "1T", "--accelerator", "H100 SXM", "--global-batch", "512"]
SMALL += ["--deadline", "30 d", "--layout", "pp=1,cp=1,zero=3", "--draws", "50"]
ASKED = ["--model", "Llama 3.1 8B", "--rate", "50", "--accelerator", "H100 SXM", "--draws", "50"]
SWEPT = ["--models", "Llama 3.1 8B", "--accelerators", "H100 SXM", "--gpus", "64", "--tokens", "1T", "--draws", "50"]
CALLS = {
    "predict": ["predict", str(DATA / "collectives.csv")],
    "validate": ["validate", "TRAINING"],
    "validate, serving": ["validate", "SERVING"],
    "validate, calibrated": ["validate", "TRAINING", "--calibrate", "TRAINING"],
    "explain": ["explain", "TRAINING", "--row", "T0001"],
    "expect": ["expect", "--accelerator", "H100 SXM", "--gpus", "16"],
    "fits": ["fits", "--model", "Llama 3.1 8B", "--accelerator", "H100 SXM", "--gpus", "8", "--global-batch", "64"],
    "serve": ["serve", "--model", "Llama 3.1 8B", "--accelerator", "H100 SXM", "--rate", "200"],
    "post-training": ["post-training", *SMALL[:2], *SMALL[4:6], "--output", "500", "--gpus", "8"],
    "validate, online": ["validate", "ONLINE"],
    "plan": ["plan", *SMALL],
    "plan, serving": ["plan", *ASKED],
    "plan, published": ["plan", "--preset", "Llama 3 405B", "--draws", "50"],
    "sweep": ["sweep", *SWEPT],
}
# Numbers that predict, where an object has them, and how it names their ends.
NUMBERS = {"predicted": "{}", "planned": "{}", "value": "{}", "bandwidth_bytes_per_second": "bandwidth_{}"}
NUMBERS |= {name: name + "_{}" for name in ("time", "cost", "power", "mfu", "effective_time", "site_power", "carbon")}
INDEPENDENT = {"parts", "assumptions", "tornado", "binding", "suspects", "joints", "asked"}  # of one scenario, or given
INDEPENDENT |= {"standing"}  # measured
INDEPENDENT |= {"sources", "overall"}  # how many, and how far off


def test_every_command_predicts_or_prints():
    assert {call.split(",")[0] for call in CALLS} | PRINT == set(COMMANDS)


@cache
def first_rows(name):
    """Eleven rows of a published table."""
    lines = (DATA / f"{name}.csv").read_text(encoding="utf-8").splitlines()
    head = next(i for i, line in enumerate(lines) if line and not line.startswith("#"))
    return "\n".join(lines[head : head + 12]) + "\n"


@pytest.fixture
def call(tmp_path, capsys):
    def run(name, *more):
        files = {"TRAINING": "training_throughput", "SERVING": "inference", "ONLINE": "serving_online"}
        arguments = []
        for word in CALLS[name]:
            if word in files:
                (tmp_path / f"{word}.csv").write_text(first_rows(files[word]), encoding="utf-8")
                word = str(tmp_path / f"{word}.csv")
            arguments.append(word)
        assert main([*arguments, *more]) == 0
        return capsys.readouterr().out

    return run


def without_ends(found, where=""):
    """Predicted numbers of a JSON document that lack their interval, or lie outside it."""
    if isinstance(found, list):
        return [bad for i, one in enumerate(found) for bad in without_ends(one, f"{where}[{i}]")]
    if not isinstance(found, dict):
        return []
    bad = []
    for key, value in found.items():
        number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
        if key in NUMBERS and number:
            low, high = (found.get(NUMBERS[key].format(end)) for end in ("low", "high"))
            sure = low is not None and high is not None
            if not (sure and low <= value <= high):
                bad.append(f"{where}.{key}")
        elif key not in INDEPENDENT:
            bad += without_ends(value, f"{where}.{key}")
    return bad


@pytest.mark.parametrize("name", CALLS)
def test_a_command_gives_both_ends_of_each_prediction_to_a_program(name, call):
    found = json.loads(call(name, "--json"))
    text = json.dumps(found)
    assert any(f'"{key}"' in text for key in ("low", "time_low"))
    assert not without_ends(found)


def test_a_number_without_its_ends_is_found():
    assert without_ends([{"predicted": 1.0, "low": 0.5}]) == ["[0].predicted"]
    assert without_ends({"front": [{"time": 1.0, "time_low": 2.0, "time_high": 3.0}]}) == [".front[0].time"]


# A line that stands for predictions, by the call: all such lines have an interval.
LINES = {
    "predict": r"^C\d+ ",
    "validate": r"^T\d+ ",
    "validate, serving": r"^I\d+ ",
    "validate, calibrated": r"^T\d+ ",
    "explain": "^predicted",
    "plan": r"^H100 SXM",
    "expect": r"^(GEMM|memory|[\d.]+ [kMG]B)",
    "fits": r"^tp \d",
    "plan, published": r"^(MFU|GPU hours|effective time|interruptions per day|chip carbon) .*[+-]\S+% ",
}


@pytest.mark.parametrize("name", LINES)
def test_a_command_prints_the_interval_beside_each_prediction(name, call):
    lines = [line for line in call(name).splitlines() if re.search(LINES[name], line) and "skipped" not in line]
    assert lines
    for line in lines:
        assert re.search(ENDS, line), line


def test_a_sweep_has_a_column_for_each_end(call):
    heading, *rows = call("sweep").splitlines()
    for name in planning.RESULTS:
        assert {name, f"{name}_low", f"{name}_high"} <= set(heading.split(","))
    assert len(rows) == 1


# --- Figures ---------------------------------------------------------------------------------------------------------

# Read-outs of the book's figures that are predictions of a step, a collective, a goodput, a draw, serving or cost.
FIGURES = {
    "index": ("Time lost to failures", "An hour costs"),
    "cluster": ("Time lost to failures", "An hour costs"),
    "ports": ("Expect of NCCL",),
    "step": ("By the library", "A GPU holds", "Fastest"),
    "serving": ("First token, 200 users", "Time per token", "First token"),
    "rack": ("A GPU of 64 H100s in eight servers", "A GPU of a rack of 72 GB200s", "rack: a GPU writes"),
    "fleet": ("A request", "A million tokens", "GPUs", "A request costs"),
    "post_training": ("The batch ends after",),
    "failures": ("In the long run",),
    "power": ("At the meter", "Electricity"),
    "scaling": ("MFU", "Time if nothing fails", "A year costs"),
    "cost": ("An hour of your own in which it works", "A GPU-hour", "A useful one"),
}


@pytest.mark.parametrize("page", FIGURES)
def test_a_figure_shows_the_interval_of_what_it_predicts(page):
    notebook = nbformat.read(Path(__file__).parents[2] / "book" / f"{page}.ipynb", as_version=4)
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    texts = "\n".join(output.get("data", {}).get("text/plain", "") for output in outputs)
    for label in FIGURES[page]:
        found = re.findall(rf"(?<![\w,]){re.escape(label)} = ([^;\n]+)", texts)
        assert found, label
        assert any(re.search(ENDS, one) for one in found), (label, found)
