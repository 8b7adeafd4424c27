"""Job lists: what a scheduler says of jobs that it ran, as one record of arrays.

Slurm: ``sacct --parsable2`` (fields between bars), its table of columns, or a CSV of the same columns. ``Submit`` and
``Start`` there must be; ``End`` or ``Elapsed``, ``Timelimit``, ``AllocTRES`` or ``ReqTRES`` (``gres/gpu=8``),
``AllocNodes``, ``JobID``, ``State`` and ``User`` are taken where they are. Steps of a job (``123.batch``) are left out.
Source: Slurm's manual, ``sacct``.

Kubernetes: ``kubectl get jobs -o json``, or ``pods``, ``pytorchjobs`` and the like: ``metadata.creationTimestamp``,
``status.startTime``, ``status.completionTime`` (of a pod when its last container ended, of a job that failed when it
did), limits of ``nvidia.com/gpu`` times ``parallelism`` or ``replicas``, ``activeDeadlineSeconds``. Source: Kubernetes'
API reference, ``batch/v1 Job``, ``v1 Pod``; Kubeflow's, ``PyTorchJob``, ``MPIJob``.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NamedTuple

import numpy as np

from ...records import Explained, Json, Rows
from ...units import day, fmt, hour, minute

PRINT = "sacct -a -X --parsable2 -o JobID,User,State,Submit,Start,End,Timelimit,AllocNodes,AllocTRES"


@dataclass(frozen=True, repr=False)
class JobList(Explained):
    """Jobs of a scheduler, one array a field, in seconds; NaN where the list does not say.

    ``submitted`` counts from the first of all. ``wait`` is from there to the start, ``duration`` from the start to the
    end, or so far; ``limit`` is what its user asked for. ``state`` is the scheduler's word. ``unread`` counts what was
    left out, by what it is; ``ignored`` are columns that nothing here reads.
    """

    program: str
    names: tuple[str, ...]
    users: tuple[str, ...]
    gpus: np.ndarray
    nodes: np.ndarray
    submitted: np.ndarray
    wait: np.ndarray
    duration: np.ndarray
    limit: np.ndarray
    state: tuple[str, ...]
    unread: Mapping[str, int]
    ignored: tuple[str, ...] = ()

    @property
    def gpu_seconds(self) -> float:
        """What all of them used."""
        return float(np.nansum(self.gpus * self.duration))

    def _rows(self) -> Rows:
        started = np.isfinite(self.wait)
        over = self.duration / self.limit
        limits = over[np.isfinite(over)]
        rows: list[tuple[str, ...]] = [(f"jobs of {self.program}", "value")]
        rows += [("jobs", f"{len(self.names):,}"), ("users", f"{len(set(self.users) - {''}):,}")]
        rows += [
            ("with accelerators", f"{int(np.sum(self.gpus > 0)):,}"),
            ("GPU-hours", f"{self.gpu_seconds / hour:,.0f}"),
        ]
        if started.any():
            rows.append(("median wait", fmt(float(np.median(self.wait[started])), "s")))
            rows.append(("mean wait", fmt(float(np.mean(self.wait[started])), "s")))
        if limits.size:
            rows.append(("of its limit, a median job uses", fmt(float(np.median(limits)), "%")))
        return rows

    def by_size(self) -> list[tuple[str, ...]]:
        """A heading, and a line for each size: jobs, GPU-hours, median wait, median duration."""
        rows: list[tuple[str, ...]] = [("GPUs", "jobs", "GPU-hours", "median wait", "median time")]
        gpus = np.nan_to_num(self.gpus)  # of whom the list says none, none
        for low, high in ((0, 0), (1, 1), (2, 7), (8, 8), (9, 64), (65, 512), (513, 10**9)):
            some = (gpus >= low) & (gpus <= high)
            if not some.any():
                continue
            middle = [_median(values[some]) for values in (self.wait, self.duration)]
            hours = float(np.nansum(self.gpus[some] * self.duration[some])) / hour
            name = f"{low}" if low == high else f"over {low - 1}" if high > 10**6 else f"{low} to {high}"
            rows.append((name, f"{int(some.sum()):,}", f"{hours:,.0f}", *middle))
        return rows


def _median(values: np.ndarray) -> str:
    known = values[np.isfinite(values)]
    return fmt(float(np.median(known)), "s") if known.size else "-"


def reads(text: str) -> bool:
    """Whether the text is such a list."""
    return _is_slurm(text) or _is_kubernetes(text)


def read(text: str) -> JobList:
    """The jobs of a list, or a ValueError that says what it lacks, or that its times run backwards."""
    jobs = _parsed(text)
    if backwards := int(np.sum((jobs.wait < 0) | (jobs.duration < 0))):
        raise ValueError(
            f"{backwards} jobs of {jobs.program} start before they are submitted, or end before they start"
        )
    return jobs


def parse_jobs(text: str, name: str) -> JobList:
    """Read a job list, times that run backwards too.

    Parameters
    ----------
    text
        As ``sacct`` prints it, a CSV with its columns, or what ``kubectl get jobs -o json`` prints.
    name
        In messages.

    Returns
    -------
    JobList

    Raises
    ------
    ValueError
        A column is missing, or a line or a job says what can't be read.

    Examples
    --------
    >>> text = '''JobID|Submit|Start|End|Timelimit|AllocNodes
    ... 7|2025-03-01T08:00:00|2025-03-01T08:30:00|2025-03-01T10:30:00|04:00:00|2
    ... 7.batch|2025-03-01T08:30:00|2025-03-01T08:30:00|2025-03-01T10:30:00||1'''
    >>> found = parse_jobs(text, "jobs.txt")
    >>> found.nodes.tolist(), found.wait.tolist(), found.limit.tolist(), dict(found.unread)
    ([2.0], [1800.0], [14400.0], {'steps of jobs': 1})
    """
    try:
        return _parsed(text)
    except ValueError as why:
        raise ValueError(f"{name}: {why}") from None


def _parsed(text: str) -> JobList:
    return _kubernetes(text) if _is_kubernetes(text) else _slurm(text)


class _Job(NamedTuple):
    """A job as its list has it: moments in seconds of one epoch, NaN where it does not say."""

    name: str
    user: str
    state: str
    gpus: float
    nodes: float
    submit: float
    start: float
    duration: float
    limit: float


def _list(program: str, jobs: Sequence[_Job], unread: Mapping[str, int], ignored: tuple[str, ...] = ()) -> JobList:
    """The arrays of the jobs that say when they were submitted."""
    known = [job for job in jobs if np.isfinite(job.submit)]
    if not known:
        raise ValueError(f"no job of {program} says when it was submitted" if jobs else f"no jobs of {program} in it")
    if len(known) < len(jobs):
        unread = {**unread, "jobs that don't say when they were submitted": len(jobs) - len(known)}
    names, users, state, *numbers = zip(*known, strict=True)
    gpus, nodes, submit, start, duration, limit = np.array(numbers, float)
    first = submit.min()
    return JobList(
        program, names, users, gpus, nodes, submit - first, start - submit, duration, limit, state, unread, ignored
    )


# --- Slurm -----------------------------------------------------------------------------------------------------------

_COLUMNS = {  # what sacct and people call them, without case and punctuation; the first that says something is taken
    "id": ("jobid", "jobidraw", "id", "job"),
    "user": ("user",),
    "state": ("state",),
    "submit": ("submit", "eligible", "submitted", "created"),
    "start": ("start", "started"),
    "end": ("end", "ended", "finished"),
    "elapsed": ("elapsed",),
    "limit": ("timelimit", "timelimitraw", "limit", "walltime"),
    "nodes": ("allocnodes", "nnodes", "reqnodes", "nodes"),
    "tres": ("alloctres", "reqtres", "allocgres", "reqgres"),
    "gpus": ("gpus", "ngpus", "gpucount"),
}


def _is_slurm(text: str) -> bool:
    first = text.lstrip().partition("\n")[0]
    return bool(re.search(r"\bJobID(Raw)?\b", first) and re.search(r"\b(State|Submit)\b", first))


def _slurm(text: str) -> JobList:
    every = enumerate(text.splitlines(), 1)
    lines = [(number, line) for number, line in every if line.strip() and not line.startswith("#")]
    if not lines:
        raise ValueError("the file is empty; it needs a heading and rows")
    (_, heading), *rows = _cells(lines)
    folded = [re.sub(r"[^a-z]", "", cell.casefold()) for cell in heading]
    at = {key: [folded.index(name) for name in names if name in folded] for key, names in _COLUMNS.items()}
    if lacking := [key.capitalize() for key in ("submit", "start") if not at[key]]:
        raise ValueError(f"a list of Slurm without {' and '.join(lacking)} says nothing of waits: {PRINT}")
    jobs, steps = [], 0
    for number, cells in rows:
        said = {key: next((cells[i] for i in places if i < len(cells) and cells[i]), "") for key, places in at.items()}
        if "." in said["id"]:
            steps += 1
            continue
        try:
            jobs.append(_slurm_job(said))
        except ValueError as why:
            raise ValueError(f"line {number}: {why}") from None
    used = {place for places in at.values() for place in places}
    ignored = tuple(cell for place, cell in enumerate(heading) if place not in used and cell)
    return _list("Slurm", jobs, {"steps of jobs": steps} if steps else {}, ignored)


def _cells(lines: Sequence[tuple[int, str]]) -> list[tuple[int, list[str]]]:
    """Cells of each line between its separators, or in columns that a line of dashes marks, as sacct prints them."""
    first = lines[0][1]
    separator = max("|,;\t", key=first.count)
    if separator in first and separator in "|\t":  # sacct quotes nothing: a quote is of a name that somebody gave
        return [(number, [cell.strip() for cell in line.split(separator)]) for number, line in lines]
    if separator in first:
        rows = ((number, next(csv.reader([line], delimiter=separator))) for number, line in lines)
        return [(number, [cell.strip() for cell in row]) for number, row in rows]
    marks = next((line for _, line in lines if re.fullmatch(r"[- ]+", line)), None)
    if marks is None:
        raise ValueError("a table of Slurm without its line of dashes: print it with --parsable2")
    spans = [found.span() for found in re.finditer(r"-+", marks)]
    return [(number, [line[a:b].strip() for a, b in spans]) for number, line in lines if line != marks]


def _slurm_job(said: Mapping[str, str]) -> _Job:
    submit, start, end = (_moment(said[key]) for key in ("submit", "start", "end"))
    nodes = _whole("nodes", said["nodes"])
    duration = end - start if np.isfinite(end - start) else _span("elapsed time", said["elapsed"])
    running = "RUNNING" if said["end"] and np.isfinite(start) and not np.isfinite(end) else ""
    return _Job(
        said["id"],
        said["user"],
        said["state"].split(" ")[0] or running,
        _whole("gpus", said["gpus"]) if said["gpus"] else _slurm_gpus(said["tres"], nodes),
        nodes,
        submit,
        start,
        duration,
        _span("limit", said["limit"]),
    )


def _whole(name: str, text: str) -> float:
    if text and not text.isdecimal():
        raise ValueError(f"{name} must be a whole number, got {text!r}")
    return float(text or "nan")


def _slurm_gpus(text: str, nodes: float) -> float:
    """GPUs of ``AllocTRES`` and the like; NaN where it names none, as Slurm does unless told to account for them."""
    # gres/gpu=8 stands for all of them, gres/gpu:h100=8 for those of a kind, gpu:8 for each node.
    if found := re.findall(r"gres/gpu=(\d+)", text) or re.findall(r"gres/gpu:[\w.-]+=(\d+)", text):
        return float(sum(map(int, found)))
    each = re.search(r"gpu(?::[\w.-]+)?:(\d+)", text)
    return float(each[1]) * (nodes if np.isfinite(nodes) else 1.0) if each else float("nan")


def _span(name: str, text: str) -> float:
    """A duration, ``1-12:00:00``; a number alone is minutes, as Slurm has it. NaN for UNLIMITED and the like."""
    if re.fullmatch(r"|unlimited|partition\S*|unknown|none|invalid|n/a|-", text, re.IGNORECASE):
        return float("nan")
    found = re.fullmatch(r"(?:(?P<d>\d+)-)?(?P<a>\d+)(?::(?P<b>\d+))?(?::(?P<c>\d+))?(?:\.\d+)?", text)
    if not found:
        raise ValueError(f"cannot read the {name} {text!r}; sacct prints 1-12:00:00")
    days, a, b, c = (int(part or 0) for part in found.group("d", "a", "b", "c"))
    return days * day + a * hour + b * minute + c if found["d"] or found["c"] else a * minute + b


# --- Kubernetes ------------------------------------------------------------------------------------------------------


_KINDS = ("Job", "Pod", "PyTorchJob", "MPIJob", "TFJob", "JAXJob", "XGBoostJob", "PaddleJob", "RayJob", "JobSet")


def _is_kubernetes(text: str) -> bool:
    return text.lstrip()[:1] in ("{", "[") and '"creationTimestamp"' in text and '"metadata"' in text


def _kubernetes(text: str) -> JobList:
    found = json.loads(text)
    items = found if isinstance(found, list) else found.get("items", [found])
    if not isinstance(items, list):
        raise ValueError("items must be a list of jobs or pods, as kubectl get jobs -o json prints")
    jobs = [one for one in items if isinstance(one, dict) and one.get("kind", "Job") in _KINDS]
    others = len(items) - len(jobs)
    unread = {"objects that are neither jobs nor pods": others} if others else {}
    return _list("Kubernetes", [_kubernetes_job(one) for one in jobs], unread)


def _kubernetes_job(one: Json) -> _Job:
    name = _text(_at(one, "metadata", "name"))
    try:
        start, end = _moment(_text(_at(one, "status", "startTime"))), _kubernetes_end(one)
        return _Job(
            name,
            _text(_at(one, "metadata", "namespace")),
            _kubernetes_state(one),
            _kubernetes_gpus(_at(one, "spec")),
            float("nan"),
            _moment(_text(_at(one, "metadata", "creationTimestamp"))),
            start,
            end - start,
            float(_text(_at(one, "spec", "activeDeadlineSeconds")) or "nan"),
        )
    except ValueError as why:
        raise ValueError(f"job {name}: {why}") from None


def _at(value: Json, *path: str) -> Json:
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _each(value: Json) -> list[Json]:
    return value if isinstance(value, list) else []


def _text(value: Json) -> str:
    return "" if value is None else str(value)


def _kubernetes_end(one: Json) -> float:
    """When a job was complete, or failed; of a pod, when the last of its containers ended."""
    status = _at(one, "status")
    said = [_text(_at(status, "completionTime"))]
    if not said[0]:
        over = [
            c for c in _each(_at(status, "conditions")) if _text(_at(c, "type")) in ("Complete", "Succeeded", "Failed")
        ]
        said = [_text(_at(c, "lastTransitionTime")) for c in over if _text(_at(c, "status")) == "True"]
    if not any(said):
        each = _each(_at(status, "containerStatuses"))
        said = [_text(_at(c, "state", "terminated", "finishedAt")) for c in each]
    return max(map(_moment, said)) if said and all(said) else float("nan")


def _kubernetes_gpus(spec: Json, times: float = 1.0) -> float:
    """Accelerators of all replicas: wherever containers stand below, as often as what is above them says."""
    if isinstance(spec, list):
        return sum(_kubernetes_gpus(one, times) for one in spec)
    if not isinstance(spec, dict):
        return 0.0
    if isinstance(containers := spec.get("containers"), list):
        return times * sum(_limit(one) for one in containers)
    times *= float(_text(spec.get("replicas") or spec.get("parallelism")) or 1)
    return sum(_kubernetes_gpus(inner, times) for inner in spec.values() if isinstance(inner, dict | list))


def _limit(container: Json) -> float:
    limits = _at(container, "resources", "limits") or _at(container, "resources", "requests")
    named = limits if isinstance(limits, dict) else {}
    return sum(float(_text(count)) for name, count in named.items() if name.endswith(("/gpu", "/tpu")))


def _kubernetes_state(one: Json) -> str:
    conditions = _each(_at(one, "status", "conditions"))
    return _text(_at(one, "status", "phase") or (_at(conditions[-1], "type") if conditions else None))


# --- Both ------------------------------------------------------------------------------------------------------------


def _moment(text: str) -> float:
    """Seconds of a moment in ISO 8601, or of any epoch; without a zone all are of one. NaN for Unknown and the like."""
    if re.fullmatch(r"|unknown|none|n/a|-", text, re.IGNORECASE):
        return float("nan")
    if re.fullmatch(r"\d+(\.\d+)?", text):
        return float(text)
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"cannot read the time {text!r}; sacct prints 2025-03-01T08:00:00") from None
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
