"""``clusterlab validate``: runs of a table beside what the laws predict: training, inference, or serving online."""

from __future__ import annotations

import argparse
import csv
import json
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace

import numpy as np

from ...catalogue import PREDICTION_INTERVALS
from ...evidence import (
    Calibrated,
    InferenceRun,
    OnlineRun,
    Protocol,
    Run,
    Score,
    Skipped,
    calibrated,
    inference_kind,
    is_incidents,
    is_inference,
    is_online,
    leave_one_inference_source_out,
    leave_one_run_out,
    leave_one_source_out,
    memory_fit,
    online_scores,
    parse_inference,
    parse_online,
    parse_runs,
    predict_inference,
    predict_online,
    predict_runs,
    published_runs,
    read_runs,
    score_inference,
    score_runs,
    training_protocol,
    unreached,
)
from ...evidence.inference_runs import FORM as OFFLINE_FORM
from ...evidence.nccl_tests import looks_like_log
from ...evidence.online_runs import FORM as ONLINE_FORM
from ...evidence.outputs import TRAINING, JobList, Reading, read_output
from ...evidence.rows import Form, unused_columns
from ...evidence.text import UNUSABLE, name_of, read_text
from ...evidence.training_tables import FORM as TRAINING_FORM
from ...parallelism import Step
from ...planning import match_stack, not_named
from ...records import Json, aligned, with_interval
from ...serving import MEASURES
from ...units import fmt
from ..command import SOFTWARE_HELP, Command
from ..incident_log import incidents_object, incidents_told, learned_from
from ..outputs import Told, as_table, jobs_object, jobs_told, refuse_given
from ..outputs import add_arguments as add_outputs
from . import predict

# Two published runs: Korthikanti et al. 2022, table 5, and NVIDIA's NeMo documentation, container 24.07.
TEMPLATE = """\
# A line for each run, and one measurement at least; lines like this one are comments.
# Needed: model, gpu, n_gpus, tp, pp, global_batch, seq. What else is left empty is filled in, and the table says how.
# software, with its version, narrows the prediction; without it a run may be by any stack of its years.
model,gpu,n_gpus,tp,pp,cp,vpp,global_batch,seq,micro_batch,recompute,precision,software,step_time_s,tokens_per_s_per_gpu,mfu_pct
GPT 175B,A100 80GB,64,8,8,1,,64,2048,1,selective,fp16,Megatron-LM 2022,13.75,,
Llama 2 70B,H100,64,4,4,1,,128,4096,1,,fp8,NeMo 24.07,,1707,
"""
# A published run of serving: aiconfigurator's silicon samples, with its lengths in the mean.
SERVING_TEMPLATE = """\
# A line for each run at a concurrency; lines like this one are comments.
# Needed: model, gpu, isl, osl, concurrency, and one of ttft_ms, tpot_ms, output_tok_s_total (of all GPUs).
model,gpu,n_gpus,tp,attention_dp,moe_ep,software,precision,isl,osl,concurrency,ttft_ms,tpot_ms,output_tok_s_total
MiniMax M2.5,B200,4,1,4,4,vLLM 0.19.0,fp8,922,922,256,388.04,23.67,
"""
TEMPLATES = {"training": TEMPLATE, "serving": SERVING_TEMPLATE}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Say what the command takes."""
    group = parser.add_mutually_exclusive_group(required=True)
    text = "a log or a JSON of a program, or a CSV with columns such as those of --template; - is standard input"
    group.add_argument("file", nargs="?", help=text)
    text = "print a CSV to fill in, with published runs: of training, or of serving"
    group.add_argument("--template", nargs="?", const="training", choices=TEMPLATES, metavar="KIND", help=text)
    text = "leave each stack on each generation out of the published training runs, and print how far off it is"
    group.add_argument("--protocol", action="store_true", help=text)
    parser.add_argument("--software", metavar="NAME", help=SOFTWARE_HELP)
    parser.add_argument("--json", action="store_true", help="print one object")
    parser.add_argument("--summary", action="store_true", help="print the scores alone, not every run")
    text = "instead, fit the constants of each generation to all sources but one, and print the error of that one"
    parser.add_argument("--leave-one-out", action="store_true", help=text)
    text = "a CSV of runs of your machine: they correct the predictions of FILE, and narrow the intervals"
    parser.add_argument("--calibrate", metavar="RUNS", help=text)
    add_outputs(parser)
    parser.add_argument("--incident-gpus", metavar="N", help="of a log of incidents: the accelerators that it is of")
    parser.add_argument("--incident-days", metavar="N", help="of a log of incidents: the days that it is of")


def run(arguments: argparse.Namespace) -> int:
    """Predict, compare and print; return the exit status: not 0 where nothing could be predicted."""
    if arguments.protocol:
        return _print_protocol(as_json=arguments.json)
    if arguments.template:
        print(TEMPLATES[arguments.template], end="")
        return 0
    if arguments.calibrate == arguments.file == "-":
        raise ValueError("FILE and --calibrate cannot both be standard input")
    text, name = read_text(arguments.file, errors="replace"), name_of(arguments.file)
    output = read_output(text, name)
    if arguments.software is not None and not (isinstance(output, Reading) and output.kind != TRAINING):
        match_stack(arguments.software)  # refused before anything is computed; what serves has other names
    if isinstance(output, JobList):
        print(json.dumps(jobs_object(output), indent=1) if arguments.json else jobs_told(output))
        return 0
    if isinstance(output, Reading):
        return _run_output(arguments, as_table(output, name, arguments))
    if looks_like_log(text):
        return _run_collectives(arguments)
    text = read_text(arguments.file) if arguments.file != "-" else text  # a table is UTF-8 throughout
    refuse_given(arguments, name, text)
    first = next((line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")), "")
    if is_incidents(re.split(r"[,;\t]", first)):
        return _run_incidents(arguments, text)
    if arguments.incident_gpus or arguments.incident_days:
        raise ValueError(f"--incident-gpus and --incident-days go with a log of incidents; {name} is none")
    heading = next(csv.reader([first]), [])
    if is_online(heading):
        return _run_online(arguments, text)
    return _run_inference(arguments, text) if is_inference(heading) else _run_training(arguments, text)


# --- Outputs of programs ---------------------------------------------------------------------------------------------


def _run_output(arguments: argparse.Namespace, told: Told) -> int:
    """A run by what a program printed of it: first what that says, then the run as a row of a table."""
    if not arguments.json:
        print("\n".join(told.lines), end="\n\n")
    by_kind = {"training": _run_training, "inference": _run_inference, "serving online": _run_online}
    return by_kind[told.kind](arguments, told.table, told.said)


def _run_collectives(arguments: argparse.Namespace) -> int:
    """A log of nccl-tests: what ``predict`` prints."""
    if arguments.file == "-":
        raise ValueError("standard input is a log of nccl-tests: clusterlab predict - reads it")
    unsaid = dict.fromkeys(("collective", "ranks", "nodes", "scale_up", "network"))
    status = predict.run(argparse.Namespace(file=arguments.file, json=arguments.json, **unsaid))
    if status:
        print("clusterlab predict takes what a log does not say: --network, --nodes, --ranks", file=sys.stderr)
    return status


def _print_unused(arguments: argparse.Namespace, text: str, form: Form) -> None:
    if unused := unused_columns(text, name_of(arguments.file), replace(form, measured=False)):
        print(f"columns that were not used: {', '.join(unused)}", file=sys.stderr)


# --- Incidents -------------------------------------------------------------------------------------------------------


def _run_incidents(arguments: argparse.Namespace, text: str) -> int:
    if arguments.calibrate is not None or arguments.leave_one_out:
        raise ValueError("--calibrate and --leave-one-out take training runs; plan --incidents uses a log of incidents")
    own = learned_from(text, name_of(arguments.file), arguments)
    print(json.dumps(incidents_object(own), indent=1) if arguments.json else "\n\n".join(incidents_told(own)))
    return 0


# --- Training --------------------------------------------------------------------------------------------------------


def _run_training(arguments: argparse.Namespace, text: str, output: Mapping[str, Json] | None = None) -> int:
    if arguments.calibrate is not None and arguments.leave_one_out:
        raise ValueError("--calibrate does not go with --leave-one-out, which predicts sources by one another")
    software = arguments.software or None
    measured = arguments.calibrate is None
    runs, skipped = parse_runs(text, name_of(arguments.file), measured=measured, software=software)
    _print_unused(arguments, text, TRAINING_FORM)
    if arguments.leave_one_out:
        return _print_left_out(runs, skipped, as_json=arguments.json)
    mine, unused = ([], []) if arguments.calibrate is None else _own_runs(arguments.calibrate, arguments.software)
    worth = leave_one_run_out(mine)
    steps = calibrated(runs, mine) if mine else predict_runs(runs)
    beyond = unreached(runs, mine) if mine else {}
    scores, overall = _scored(runs, skipped, steps)
    if arguments.json:
        ends = zip(runs, steps.time, steps.low, steps.high, strict=True)
        found = _found(scores, overall) | {"memory": memory_fit(runs)}
        found |= {"software": _unnamed(runs, steps) or None, "skipped": [_why(row) for row in skipped]}
        found |= {"rows": [*(_predicted(one, *map(float, of_run)) for one, *of_run in ends), *map(_refused, skipped)]}
        found |= {"output": output} if output else {}
        if mine:
            others = {kind: [one.row for one in some] for kind, some in beyond.items()}
            known = {"kinds": [vars(one) for one in worth], "skipped": [_why(row) for row in unused]}
            found["calibration"] = known | {"not_reached": others}
        print(json.dumps(found, indent=1, allow_nan=False))
    else:
        if runs and not arguments.summary:
            print(training_table(runs, steps), end="\n\n")
        if overall.rows:
            print(score_table([*scores, overall]))
        for why, count in memory_fit(runs).items():
            print(f"memory, {count} of {len(runs)}: {why}")
        if unnamed := _unnamed(runs, steps):
            print(unnamed)
        _print_skipped(skipped)
        if mine:
            print("\n" + calibration_table(worth))
            _print_skipped(unused)
            for kind, some in beyond.items():
                why = f"no other run of {name_of(arguments.calibrate)} is {kind}"
                print(f"the calibration does not reach {_rows_said(some)}: {why}; predicted without it")
    return _status(runs)


def _rows_said(runs: Sequence[Run]) -> str:
    """Some rows by name, as many as can be read."""
    more = f" and {len(runs) - 5} more" if len(runs) > 5 else ""
    return ", ".join(run.row for run in runs[:5]) + more


def _scored(runs: Sequence[Run], skipped: Sequence[Skipped], steps: Step) -> tuple[list[Score], Score]:
    """Scores of the runs that were measured."""
    where = [i for i, run in enumerate(runs) if np.isfinite(run.seconds)]
    some = Step(**{f.name: getattr(steps, f.name)[where] for f in fields(Step)})
    return score_runs([runs[i] for i in where], skipped, some)


def _unnamed(runs: Sequence[Run], steps: Step) -> str:
    """What is lost by runs that do not name their software, in the middle of them; "" where all do."""
    some = np.array([not run.stack for run in runs], bool)
    if not some.any():
        return ""
    ends = (float(np.median(np.broadcast_to(end, some.shape)[some])) for end in (steps.spread_low, steps.spread_high))
    return f"{not_named(*ends)} ({some.sum()} of {len(runs)} runs)"


def _print_protocol(*, as_json: bool) -> int:
    found = training_protocol(published_runs()[0], published_runs(named=False)[0])
    print(json.dumps([vars(one) for one in found], indent=1) if as_json else protocol_table(found))
    return 0


def protocol_table(found: Iterable[Protocol]) -> str:
    """Return a line for each kind of run; "each once": inside where named, with every publication once.

    Examples
    --------
    >>> print(protocol_table([Protocol("dense, 16 bits", 9, 3, 0.08, 0.8, 1.3, 0.1, 0.82, 1.5, 0.78, 0.8)]))
    stack left out  runs  publications  error named  unnamed  inside named  unnamed  each once  width named  unnamed
    dense, 16 bits     9             3         8.0%    10.0%           80%      82%        78%         1.30     1.50
    """
    named = ("error named", "unnamed", "inside named", "unnamed", "each once", "width named", "unnamed")
    rows: list[tuple[str, ...]] = [("stack left out", "runs", "publications", *named)]
    for one in found:
        errors = one.error, one.unnamed_error
        inside = one.inside, one.unnamed_inside, one.each_inside
        cells = [f"{value:.1%}" for value in errors] + [f"{value:.0%}" for value in inside]
        cells += [f"{one.width:.2f}", f"{one.unnamed_width:.2f}"]
        rows.append((one.kind, str(one.runs), str(one.publications), *cells))
    return aligned(rows)


def _own_runs(path: str, software: str | None) -> tuple[list[Run], list[Skipped]]:
    """The runs of a machine that calibrate it, or a ValueError where there are none."""
    mine, unused = read_runs(path, software=software or None)
    if not mine:
        whys = "; ".join(f"{row.row}: {row.why}" for row in unused)
        raise ValueError(f"{name_of(path)}, --calibrate: no row could be predicted ({whys})")
    return mine, unused


def _print_left_out(runs: list[Run], skipped: list[Skipped], *, as_json: bool) -> int:
    errors = leave_one_source_out(runs)
    if as_json:
        print(json.dumps(errors, indent=1))
    elif errors:
        print(error_table(errors))
    if errors:
        return 0
    _print_skipped(skipped, to_stderr=True)
    if status := _status(runs):
        return status
    named = ", ".join(dict.fromkeys(run.source for run in runs))
    why = "leaving one out takes two sources (column group) on accelerators of one generation"
    raise ValueError(f"{why}; there is no such pair among: {named}")


def training_table(runs: Sequence[Run], steps: Step) -> str:
    """Return a line for each run: its step, measured and predicted with an 80 % interval, and what was filled in."""
    rows = [("row", "source", "measured", "predicted", "error", "filled in")]
    for run, time, low, high in zip(runs, steps.time, steps.low, steps.high, strict=True):
        error, took = f"{time / run.seconds - 1:+.1%}", fmt(run.seconds, "s")
        error, took = (error, took) if np.isfinite(run.seconds) else ("-", "-")
        rows.append((run.row, run.source, took, with_interval(time, low, high, "s"), error, _filled(run.filled)))
    return _with_text(rows, left=2)


def calibration_table(worth: Iterable[Calibrated]) -> str:
    """Return a line for each kind of run.

    Examples
    --------
    >>> print(calibration_table([Calibrated("dense, 16 bits", 9, 0.08, 0.03, 0.7, 0.8, 1.25, 1.12)]))
    calibration, left out in turn  runs  error without  with  inside without  with  width without  with
    dense, 16 bits                    9           8.0%  3.0%             70%   80%           1.25  1.12
    """
    rows: list[tuple[str, ...]] = [
        (
            *("calibration, left out in turn", "runs"),
            *("error without", "with", "inside without", "with", "width without", "with"),
        )
    ]
    for one in worth:
        errors = f"{one.error_before:.1%}", f"{one.error:.1%}"
        inside = f"{one.inside_before:.0%}", f"{one.inside:.0%}"
        rows.append((one.kind, str(one.runs), *errors, *inside, f"{one.width_before:.2f}", f"{one.width:.2f}"))
    return aligned(rows)


# --- Inference -------------------------------------------------------------------------------------------------------


def _run_inference(arguments: argparse.Namespace, text: str, output: Mapping[str, Json] | None = None) -> int:
    if arguments.calibrate is not None:
        raise ValueError(f"--calibrate takes training runs, but {name_of(arguments.file)} has runs of inference")
    runs, skipped = parse_inference(text, name_of(arguments.file))
    _print_unused(arguments, text, OFFLINE_FORM)
    if arguments.leave_one_out:
        errors = leave_one_inference_source_out(runs)
        print(json.dumps(errors, indent=1) if arguments.json else error_table(errors))
        return 0 if errors else UNUSABLE
    times = predict_inference(runs)
    scores, overall = score_inference(runs, skipped, times)
    if arguments.json:
        spreads = [PREDICTION_INTERVALS[inference_kind(one)] for one in runs]
        ends = zip(runs, times, spreads, strict=True)
        rows = [_predicted(one, float(time), float(time * s.low), float(time * s.high)) for one, time, s in ends]
        found = _found(scores, overall) | {"skipped": [_why(row) for row in skipped]}
        found |= {"output": output} if output else {}
        print(json.dumps(found | {"rows": [*rows, *map(_refused, skipped)]}, indent=1, allow_nan=False))
    else:
        if runs and not arguments.summary:
            print(inference_table(runs, times), end="\n\n")
        print(score_table([*scores, overall]))
        _print_skipped(skipped)
    return _status(runs)


def inference_table(runs: Sequence[InferenceRun], times: np.ndarray) -> str:
    """Return a line for each run: measured, predicted with an 80 % interval, the error in time, and what was filled in.

    Of a saturated replica the output tokens a second, of others the time of the batch or the pass.

    Examples
    --------
    >>> inference_table([], np.array([])).split()[:3]
    ['row', 'source', 'kind']
    """
    rows = [("row", "source", "kind", "measured", "predicted", "error", "filled in")]
    for run, time in zip(runs, times, strict=True):
        error, spread = f"{time / run.seconds - 1:+.1%}", PREDICTION_INTERVALS[inference_kind(run)]
        measured, said = fmt(run.seconds, "s"), with_interval(time, time * spread.low, time * spread.high, "s")
        if (
            run.kind == "saturated"
        ):  # seconds of a token: people know its inverse, and the longest time is the lowest rate
            measured = fmt(1 / run.seconds, "tokens/s")
            said = with_interval(1 / time, 1 / (time * spread.high), 1 / (time * spread.low), "tokens/s")
        rows.append((run.row, run.source, run.kind, measured, said, error, _filled(run.filled)))
    return _with_text(rows, left=3)


# --- Serving online --------------------------------------------------------------------------------------------------

# What people call them.
_SHORT = {"time_to_first_token": "ttft", "time_per_token": "tpot", "tokens_per_second": "throughput"}
_UNITS = {"time_to_first_token": "s", "time_per_token": "s", "tokens_per_second": "tokens/s"}


def _run_online(arguments: argparse.Namespace, text: str, output: Mapping[str, Json] | None = None) -> int:
    if arguments.calibrate is not None:
        raise ValueError(f"--calibrate takes training runs, but {name_of(arguments.file)} has runs of serving")
    runs, skipped = parse_online(text, name_of(arguments.file))
    _print_unused(arguments, text, ONLINE_FORM)
    if arguments.leave_one_out:
        if not runs:
            return _status(runs)
        scores = online_scores(runs)
        print(json.dumps([vars(one) for one in scores], indent=1) if arguments.json else "\n\n".join(map(repr, scores)))
        return 0
    predicted = predict_online(runs)
    errors = _online_errors(runs, predicted)
    if arguments.json:
        rows = [
            _online_row(run, {name: float(values[i]) for name, values in predicted.items()})
            for i, run in enumerate(runs)
        ]
        refused = [_refused(row) | {"measures": {}} for row in skipped]
        found = {"overall": errors, "skipped": [_why(row) for row in skipped], "rows": [*rows, *refused]}
        found |= {"output": output} if output else {}
        print(json.dumps(found, indent=1, allow_nan=False))
    else:
        if runs and not arguments.summary:
            print(online_table(runs, predicted), end="\n\n")
        print(_online_error_table(errors))
        _print_skipped(skipped)
    return _status(runs)


def _online_errors(
    runs: Sequence[OnlineRun], predicted: Mapping[str, np.ndarray]
) -> dict[str, dict[str, float | None]]:
    """How far each measure is off, where it was measured; what is listed twice counts once."""
    found: dict[str, dict[str, float | None]] = {}
    for name, values in predicted.items():
        measured = np.array([np.nan if run.repeats else run.measured[name] or np.nan for run in runs], float)
        known = np.isfinite(measured)
        off, ends = (values / measured - 1)[known], PREDICTION_INTERVALS[f"serving: online, {MEASURES[name]}"]
        inside = (ends.low <= 1 / (1 + off)) & (1 / (1 + off) <= ends.high)
        numbers = {"mean_abs_error": np.abs(off), "median_abs_error": np.abs(off), "bias": off, "coverage": inside}
        found[_SHORT[name]] = {"rows": int(known.sum())} | {
            key: (float(np.median(some) if key.startswith("median") else np.mean(some)) if some.size else None)
            for key, some in numbers.items()
        }
    return found


def _online_error_table(errors: Mapping[str, Mapping[str, float | None]]) -> str:
    rows: list[tuple[str, ...]] = [("measure", "rows", "mean", "median", "bias", "inside")]
    for name, one in errors.items():
        shares = ("mean_abs_error", ".1%"), ("median_abs_error", ".1%"), ("bias", "+.1%"), ("coverage", ".0%")
        cells = ["-" if one[key] is None else format(one[key], form) for key, form in shares]
        rows.append((name, str(one["rows"]), *cells))
    return aligned(rows)


def _online_row(run: OnlineRun, predicted: Mapping[str, float]) -> dict[str, object]:
    measures = {}
    for name, value in predicted.items():
        ends = PREDICTION_INTERVALS[f"serving: online, {MEASURES[name]}"]
        measured = run.measured[name]
        said = {
            "measured": measured,
            "predicted": value,
            "low": float(value * ends.low),
            "high": float(value * ends.high),
        }
        measures[_SHORT[name]] = said
    return {"row": run.row, "source": run.source, "measures": measures, "skipped": None, "filled": dict(run.filled)}


def online_table(runs: Sequence[OnlineRun], predicted: Mapping[str, np.ndarray]) -> str:
    """Return a line for each run: each measure, measured and predicted with an 80 % interval, and what was filled in.

    Examples
    --------
    >>> online_table([], {}).split()[:3]
    ['row', 'model', 'ttft']
    """
    rows: list[tuple[str, ...]] = [
        ("row", "model", *(w for s in _SHORT.values() for w in (s, "predicted")), "filled in")
    ]
    for i, run in enumerate(runs):
        cells: list[str] = []
        for name, values in predicted.items():
            ends, value, unit = PREDICTION_INTERVALS[f"serving: online, {MEASURES[name]}"], values[i], _UNITS[name]
            measured = run.measured[name]
            cells.append("-" if measured is None else fmt(measured, unit))
            cells.append(with_interval(value, value * ends.low, value * ends.high, unit))
        rows.append((run.row, run.model, *cells, _filled(run.filled)))
    return _with_text(rows, left=2)


# --- What all print -------------------------------------------------------------------------------------------------


def score_table(scores: Iterable[Score]) -> str:
    """Return a line for each score.

    Examples
    --------
    >>> from clusterlab.evidence import score
    >>> print(score_table([score("lab", [0.02, -0.02], [0.40, 0.50], skipped=1)]))
    source  rows  predicted   mean  median    bias  constant MFU  skill  inside  one MFU  nearest
    lab        3          2   2.0%    2.0%   +0.0%         10.0%  +0.80       -        -        -
    """
    scores = list(scores)
    width = max([len("source"), *(len(found.source) for found in scores)])
    head = f"{'source':<{width}}  rows  predicted   mean  median    bias  constant MFU  skill"
    lines = [f"{head}  inside  one MFU  nearest"]
    for found in scores:
        cells = [
            "-" if value is None else format(value, form)
            for value, form in (
                *((found.mean_abs_error, ".1%"), (found.median_abs_error, ".1%"), (found.bias, "+.1%")),
                *((found.baseline_mean_abs_error, ".1%"), (found.skill, "+.2f"), (found.coverage, ".0%")),
                *((found.generation_mean_abs_error, ".1%"), (found.nearest_mean_abs_error, ".1%")),
            )
        ]
        padded = (cell.rjust(size) for cell, size in zip(cells, (5, 6, 6, 12, 5, 6, 7, 7), strict=True))
        lines.append("  ".join([found.source.ljust(width), f"{found.rows:>4}", f"{found.predicted:>9}", *padded]))
    return "\n".join(lines)


def error_table(errors: Mapping[str, float]) -> str:
    """Return a line for each source that was left out.

    Examples
    --------
    >>> error_table({"lab": 0.042})
    '  4.2%  lab'
    """
    return "\n".join(f"{error:>6.1%}  {source}" for source, error in errors.items())


def _with_text(rows: Sequence[tuple[str, ...]], *, left: int) -> str:
    """Rows as lines: so many columns to the left, numbers to the right, and the text of the last behind them."""
    numbers = aligned([(*row[:-1], "|") for row in rows], left).splitlines()
    return "\n".join(f"{line[:-1]}{row[-1]}" for line, row in zip(numbers, rows, strict=True))


def _filled(filled: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {text}" for name, text in filled.items()) or "-"


def _found(scores: Iterable[Score], overall: Score) -> dict[str, object]:
    return {"sources": [vars(one) for one in scores], "overall": vars(overall)}


def _why(row: Skipped) -> dict[str, str]:
    return {"row": row.row, "why": row.why}


def _predicted(run: Run | InferenceRun, predicted: float, low: float, high: float) -> dict[str, object]:
    measured = run.seconds if np.isfinite(run.seconds) else None
    found = {"row": run.row, "source": run.source, "measured": measured, "predicted": predicted}
    return found | {"low": low, "high": high, "skipped": None, "filled": dict(run.filled)}


def _refused(row: Skipped) -> dict[str, object]:
    unknown = dict.fromkeys(("measured", "predicted", "low", "high"))
    return {"row": row.row, "source": row.source, **unknown, "skipped": row.why, "filled": {}}


def _print_skipped(skipped: Iterable[Skipped], *, to_stderr: bool = False) -> None:
    for row in skipped:
        print(f"skipped {row.row} ({row.source}): {row.why}", file=sys.stderr if to_stderr else sys.stdout)


def _status(runs: Sequence[Run] | Sequence[InferenceRun] | Sequence[OnlineRun]) -> int:
    if not runs:
        print("no row could be predicted", file=sys.stderr)
    return 0 if runs else UNUSABLE


COMMAND = Command(
    "predict runs of training, inference or serving and compare with their measured times",
    "Predict your own runs of training, inference or serving, and compare. FILE is what a program printed or wrote: a "
    "log of Megatron, NeMo, torchtitan, DeepSpeed, MaxText or a Hugging Face Trainer, a CSV of Weights & Biases, JSON "
    "of vllm bench serve, SGLang's bench_serving, genai-perf, AIPerf or trtllm-bench, a log of nccl-tests, a list of "
    "jobs of sacct or Kubernetes, a log of incidents (time, cause, lost_hours). Or a table, whose columns say which: "
    "those of inference have isl, osl or context_len, those of serving online a concurrency with ttft_ms or tpot_ms.",
    """\
    %(prog)s --template > mine.csv
    %(prog)s mine.csv
    %(prog)s megatron.log --accelerator H100 --model "Llama 3.1 70B"
    %(prog)s vllm.json --accelerator H100 --gpus 8 --set tp=8
    %(prog)s --json - < mine.csv
    %(prog)s mine.csv --software "NeMo 25.04"
    %(prog)s planned.csv --calibrate mine.csv
    %(prog)s incidents.csv --incident-gpus 1024 --incident-days 93
    %(prog)s --protocol
    """,
    add_arguments,
    run,
)
