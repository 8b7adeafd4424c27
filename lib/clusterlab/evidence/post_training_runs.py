"""Post-training runs: published iterations as loops, beside what the laws of post-training predict."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files

import numpy as np

from ..catalogue import SERVING, machine
from ..checks import choose
from ..model import Layout, transformer
from ..post_training import Iteration, Lengths, Loop, iterate
from ..quantities import Amount, Bytes, Seconds
from ..serving import Formats, Replica
from .intervals import symmetric_interval


@dataclass(frozen=True, eq=False)
class PostTrainingRun:
    """One row: a loop, and the seconds of an iteration that were measured."""

    row: str
    source: str
    loop: Loop
    seconds: Seconds


@cache
def published_post_training(role: str = "fitted") -> tuple[PostTrainingRun, ...]:
    """Return the iterations that come with the library.

    Of lengths a row has the mean and the limit; how they spread between is that of :class:`Lengths`. Training packs
    answers into sequences as long as the limit.

    Parameters
    ----------
    role : str
        ``"fitted"``: those that constants were fitted to. ``"held"``: those that no constant has seen.

    Examples
    --------
    >>> runs, held = published_post_training(), published_post_training("held")
    >>> len(runs), len(held), runs[0].seconds
    (28, 23, 97.7)
    """
    text = (files("clusterlab.evidence") / "data" / "post_training.csv").read_text(encoding="utf-8")
    choose({"fitted": 0, "held": 0}, role=role)
    return tuple(_run(row) for row in csv.DictReader(io.StringIO(text)) if row["role"] == role)


def _run(row: dict[str, str]) -> PostTrainingRun:
    model, chip = transformer(row["model"]), machine(row["gpu"])
    tp, cp, ep, pp, each = (int(row[name]) for name in ("tp", "cp", "ep", "pp", "gen_tp"))
    generators, gpus = int(row["gen_gpus"]), int(row["n_gpus"])
    trainers = gpus if row["schedule"] == "synchronous" else gpus - generators
    software = replace(SERVING["vLLM"], memory_share=float(row["memory_share"]))
    loop = Loop(
        replica=Replica(model, chip, Layout(tp=each), Formats(row["gen_precision"]), software=software),
        replicas=generators // each,
        layout=Layout(tp=tp, cp=cp, ep=ep, pp=pp, dp=trainers // (tp * cp * pp), recompute=row["recompute"]),
        lengths=Lengths.of_written(float(row["written"]), limit=float(row["limit"])),
        prompts=int(row["prompts"]),
        group=int(row["samples"]),
        prompt=float(row["prompt"]),
        steps=int(row["steps"]),
        pack=int(row["limit"]),
        schedule=row["schedule"],
        lag=int(row["lag"] or 1),
        precision=row["train_precision"],
    )
    return PostTrainingRun(row["row_id"], row["group"], loop, float(row["step_s"]))


def predict_post_training(runs: Sequence[PostTrainingRun]) -> tuple[Iteration, ...]:
    """Predict iterations.

    Examples
    --------
    >>> (first,) = predict_post_training(published_post_training()[:1])
    >>> bool(0.5 < first.time / 97.7 < 2)
    True
    """
    return tuple(_iteration(run) for run in runs)


@cache
def _iteration(run: PostTrainingRun) -> Iteration:
    return iterate(run.loop)


# --- What no law counts ----------------------------------------------------------------------------------------------

_PACES, _TURNS = np.arange(1.0, 2.61, 0.05), np.arange(0.0, 121.0, 5.0)


def fit_post_training(runs: Sequence[PostTrainingRun]) -> tuple[float, float]:
    """Fit the two constants of a loop's software: its pace, and the seconds in which GPUs change their role.

    Returns
    -------
    tuple of float
        Those of a grid (steps of 0.05 and of 5 s) with the least mean error of logarithms.

    Examples
    --------
    >>> from clusterlab.post_training import LOOP_CONSTANTS
    >>> fit_post_training(published_post_training()) == tuple(LOOP_CONSTANTS[n].value for n in ("pace", "turns"))
    True
    """
    counted, turning, seconds = _counted(runs)
    pace, turns = (grid.ravel() for grid in np.meshgrid(_PACES, _TURNS, indexing="ij"))
    misses = np.abs(np.log((pace[:, None] * counted + turns[:, None] * turning) / seconds)).mean(axis=1)
    best = int(misses.argmin())
    return round(float(pace[best]), 2), float(turns[best])


def _counted(runs: Sequence[PostTrainingRun]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Counted seconds of runs, whether their GPUs take turns, and measured seconds."""
    counted = np.array([one.counted for one in predict_post_training(runs)])
    turning = np.array([run.loop.schedule == "synchronous" for run in runs], float)
    return counted, turning, np.array([run.seconds for run in runs])


def leave_one_model_out(runs: Sequence[PostTrainingRun]) -> np.ndarray:
    """Predicted over measured seconds of each run, by constants that no run of its model was fitted to.

    Examples
    --------
    >>> ratios = leave_one_model_out(published_post_training())
    >>> round(float(np.abs(ratios - 1).mean()), 2)
    0.2
    """
    counted, turning, seconds = _counted(runs)
    models = np.array([run.loop.replica.model.name for run in runs])
    found = np.empty(len(runs))
    for model in dict.fromkeys(models.tolist()):
        pace, turns = fit_post_training([run for run in runs if run.loop.replica.model.name != model])
        own = models == model
        found[own] = (pace * counted[own] + turns * turning[own]) / seconds[own]
    return found


def learn_post_training_spread(runs: Sequence[PostTrainingRun]) -> tuple[float, float]:
    """Ends of the 80 % interval of an iteration, in multiples of the prediction; models are its sources.

    Examples
    --------
    >>> [round(end, 3) for end in learn_post_training_spread(published_post_training())]
    [0.715, 1.398]
    """
    models = np.array([run.loop.replica.model.name for run in runs])
    return symmetric_interval(1 / leave_one_model_out(runs), models)


# --- Schedules, as others compare them --------------------------------------------------------------------------------


@dataclass(frozen=True)
class ScheduleGain:
    """A published pair: the same work taking turns, and under another schedule, in seconds of a step or of a run.

    Where only their ratio is stated, the other is 1.
    """

    row: str
    source: str
    what: str
    gpus: str
    schedule: str
    synchronous: Seconds
    other: Seconds

    @property
    def gain(self) -> Amount:
        """How many times as fast."""
        return self.synchronous / self.other


@cache
def published_schedule_gains() -> tuple[ScheduleGain, ...]:
    """Return the pairs that come with the library.

    Examples
    --------
    >>> [round(one.gain, 2) for one in published_schedule_gains() if one.source == "AReaL"]
    [2.77, 2.27]
    """
    text = (files("clusterlab.evidence") / "data" / "schedule_gains.csv").read_text(encoding="utf-8")
    scale = {"s": 1.0, "h": 3600.0, "times": 1.0}
    return tuple(
        ScheduleGain(
            row["row_id"],
            row["group"],
            row["model"],
            row["gpus"],
            row["schedule"],
            scale[row["unit"]] * float(row["synchronous"]),
            scale[row["unit"]] * float(row["other"]),
        )
        for row in csv.DictReader(io.StringIO(text))
    )


# --- Weights on their way --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class WeightUpdate:
    """A published update of generators' weights: bytes, the GPUs that they are cut over, copies, senders, seconds."""

    row: str
    source: str
    what: str
    size: Bytes
    ranks: Amount
    copies: Amount
    seconds: Seconds
    route: str


@cache
def published_weight_updates() -> tuple[WeightUpdate, ...]:
    """Return the updates that come with the library.

    Examples
    --------
    >>> updates = published_weight_updates()
    >>> updates[0].what, updates[0].seconds
    ('GLM-4.5-Air', 3.47)
    """
    text = (files("clusterlab.evidence") / "data" / "weight_updates.csv").read_text(encoding="utf-8")
    rows = csv.DictReader(io.StringIO(text))
    return tuple(
        WeightUpdate(
            row["row_id"],
            row["group"],
            row["model"],
            1e9 * float(row["parameters_b"]) * float(row["bytes_each"]),
            float(row["ranks"] or 0),
            float(row["copies"] or 0),
            float(row["seconds"]),
            row["route"],
        )
        for row in rows
    )


def fit_loading_rate(updates: Sequence[WeightUpdate]) -> float:
    """Bytes a second at which engines take up a whole model that is broadcast to them: the geometric mean.

    Examples
    --------
    >>> from clusterlab.post_training import LOOP_CONSTANTS
    >>> broadcasts = [one for one in published_weight_updates() if one.source == "checkpoint-engine"]
    >>> round(fit_loading_rate(broadcasts) / 1e9) == round(LOOP_CONSTANTS["loading rate"].value / 1e9)
    True
    """
    return float(np.exp(np.mean([np.log(one.size / one.seconds) for one in updates])))
