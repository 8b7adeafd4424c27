"""Job lists: what a scheduler says of jobs that it ran, as one record of arrays.

Slurm: ``sacct --parsable2`` (fields between bars) or its table of columns, whose ``JobID`` and ``State`` there must be;
``Submit``, ``Start``, ``End`` or ``Elapsed``, ``Timelimit``, ``AllocTRES`` or ``ReqTRES`` (``gres/gpu=8``) and ``User``
are taken where they are. Steps of a job (``123.batch``) are left out. Source: Slurm's manual, ``sacct``.

Kubernetes: ``kubectl get jobs -o json``, or ``pods``: ``metadata.creationTimestamp``, ``status.startTime``,
``status.completionTime``, limits of ``nvidia.com/gpu`` times ``parallelism``, ``activeDeadlineSeconds``. Source:
Kubernetes' API reference, ``batch/v1 Job``, ``v1 Pod``.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np

from ...records import Explained, Json, Rows
from ...units import day, fmt, hour, minute


@dataclass(frozen=True, repr=False)
class JobList(Explained):
    """Jobs of a scheduler, one array a field, in seconds; NaN where the list does not say.

    ``submitted`` counts from the first of all. ``wait`` is from there to the start, ``duration`` from the start to the
    end, ``limit`` what its user asked for. ``state`` is the scheduler's word. ``unread`` says what was left out.
    """

    program: str
    names: tuple[str, ...]
    users: tuple[str, ...]
    gpus: np.ndarray
    submitted: np.ndarray
    wait: np.ndarray
    duration: np.ndarray
    limit: np.ndarray
    state: tuple[str, ...]
    unread: tuple[str, ...] = ()

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
        for low, high in ((0, 0), (1, 1), (2, 7), (8, 8), (9, 64), (65, 512), (513, 10**9)):
            some = (self.gpus >= low) & (self.gpus <= high)
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
    """The jobs of a list, or a ValueError that says what it lacks."""
    return _kubernetes(text) if _is_kubernetes(text) else _slurm(text)


# --- Slurm -----------------------------------------------------------------------------------------------------------


def _is_slurm(text: str) -> bool:
    first = text.lstrip().partition("\n")[0]
    return bool(re.search(r"\bJobID(Raw)?\b", first) and re.search(r"\bState\b", first))


def _slurm(text: str) -> JobList:
    lines = [line for line in text.splitlines() if line.strip()]
    if "|" in lines[0] or "," in lines[0]:
        rows = list(csv.DictReader(io.StringIO("\n".join(lines)), delimiter="|" if "|" in lines[0] else ","))
    else:
        rows = _columns(lines)
    rows = [{str(key).casefold(): (value or "").strip() for key, value in row.items() if key} for row in rows]
    lacking = [name for name in ("submit", "start") if name not in rows[0]] if rows else []
    if lacking:
        raise ValueError(
            f"a list of Slurm without {' and '.join(name.capitalize() for name in lacking)} says nothing of waits: "
            "sacct -a -X --parsable2 -o JobID,User,State,Submit,Start,End,Timelimit,AllocTRES"
        )
    jobs = [row for row in rows if "." not in _id(row)]
    unread = [f"{len(rows) - len(jobs)} steps of jobs"] if len(jobs) < len(rows) else []
    return _list(
        "Slurm",
        jobs,
        unread,
        name=_id,
        user=lambda row: row.get("user", ""),
        gpus=_slurm_gpus,
        moments=lambda row: (row["submit"], row["start"], row.get("end", "")),
        duration=lambda row: _span(row.get("elapsed", "")),
        limit=lambda row: _span(row.get("timelimit", "")),
        state=lambda row: row.get("state", "").split(" ")[0],
    )


def _columns(lines: list[str]) -> list[dict[str, str]]:
    """Rows of a table whose columns a line of dashes marks; sacct cuts what is too long for its column."""
    marks = next((line for line in lines if re.fullmatch(r"[- ]+", line)), None)
    if marks is None:
        raise ValueError("a table of Slurm without its line of dashes: print it with --parsable2")
    spans = [found.span() for found in re.finditer(r"-+", marks)]
    names = [lines[0][start:end].strip() for start, end in spans]
    body = lines[lines.index(marks) + 1 :]
    return [dict(zip(names, (line[start:end].strip() for start, end in spans), strict=True)) for line in body]


def _id(row: Mapping[str, str]) -> str:
    return row.get("jobid") or row.get("jobidraw", "")


def _slurm_gpus(row: Mapping[str, str]) -> float:
    text = row.get("alloctres") or row.get("reqtres") or row.get("allocgres") or row.get("reqgres") or ""
    # gres/gpu=8 stands for all of them, gres/gpu:h100=8 for those of a kind, gpu:8 for each node.
    found = re.search(r"gres/gpu=(\d+)", text) or re.search(r"gres/gpu:\w+=(\d+)", text)
    if found:
        return float(found[1])
    each = re.search(r"gpu(?::\w+)?:(\d+)", text)
    return float(each[1]) * float(row.get("nnodes") or row.get("allocnodes") or 1) if each else 0.0


def _span(text: str) -> float:
    """A duration as Slurm prints it: ``[D-]HH:MM:SS``; NaN for UNLIMITED and the like."""
    found = re.fullmatch(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+)(?:\.\d+)?", text)
    if not found:
        return float("nan")
    days, hours, minutes, seconds = (int(part or 0) for part in found.groups())
    return days * day + hours * hour + minutes * minute + seconds


# --- Kubernetes ------------------------------------------------------------------------------------------------------


def _is_kubernetes(text: str) -> bool:
    return text.lstrip().startswith("{") and '"apiVersion"' in text and '"creationTimestamp"' in text


def _kubernetes(text: str) -> JobList:
    found = json.loads(text)
    items = found.get("items", [found])
    jobs = [one for one in items if one.get("kind", "Job") in ("Job", "Pod", "PyTorchJob", "MPIJob")]
    unread = [f"{len(items) - len(jobs)} objects that are neither jobs nor pods"] if len(jobs) < len(items) else []
    return _list(
        "Kubernetes",
        jobs,
        unread,
        name=lambda one: _text(_at(one, "metadata", "name")),
        user=lambda one: _text(_at(one, "metadata", "namespace")),
        gpus=_kubernetes_gpus,
        moments=lambda one: (
            _text(_at(one, "metadata", "creationTimestamp")),
            _text(_at(one, "status", "startTime")),
            _text(_at(one, "status", "completionTime")),
        ),
        duration=lambda _: float("nan"),
        limit=lambda one: float(_text(_at(one, "spec", "activeDeadlineSeconds")) or "nan"),
        state=_kubernetes_state,
    )


def _at(value: Json, *path: str) -> Json:
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _text(value: Json) -> str:
    return "" if value is None else str(value)


def _kubernetes_gpus(one: Json) -> float:
    spec = _at(one, "spec", "template", "spec") or _at(one, "spec")
    containers = _at(spec, "containers")
    each = 0.0
    for container in containers if isinstance(containers, list) else []:
        limits = _at(container, "resources", "limits")
        named = limits if isinstance(limits, dict) else {}
        each += sum(float(_text(count)) for name, count in named.items() if name.endswith(("/gpu", "/tpu")))
    return each * float(_text(_at(one, "spec", "parallelism")) or 1)


def _kubernetes_state(one: Json) -> str:
    conditions = _at(one, "status", "conditions")
    last = conditions[-1] if isinstance(conditions, list) and conditions else None
    return _text(_at(one, "status", "phase") or _at(last, "type"))


# --- Both ------------------------------------------------------------------------------------------------------------


def _list(
    program: str,
    jobs: Iterable[Json],
    unread: list[str],
    *,
    name: Callable[..., str],
    user: Callable[..., str],
    gpus: Callable[..., float],
    moments: Callable[..., tuple[str, str, str]],
    duration: Callable[..., float],
    limit: Callable[..., float],
    state: Callable[..., str],
) -> JobList:
    """The arrays of the jobs that were submitted at a time that can be read."""
    jobs = list(jobs)
    times = np.array([[_moment(text) for text in moments(job)] for job in jobs], float).reshape(-1, 3)
    known = np.isfinite(times[:, 0])
    if not known.any():
        raise ValueError(f"no job of {program} says when it was submitted")
    if not known.all():
        unread = [*unread, f"{int((~known).sum())} jobs that don't say when they were submitted"]
    jobs, times = [job for job, there in zip(jobs, known, strict=True) if there], times[known]
    submit, start, end = times.T
    lasted = np.where(np.isfinite(end - start), end - start, [duration(job) for job in jobs])
    if backwards := int(np.sum((start < submit) | (end < start))):
        raise ValueError(f"{backwards} jobs of {program} start before they are submitted, or end before they start")
    return JobList(
        program=program,
        names=tuple(name(job) for job in jobs),
        users=tuple(user(job) for job in jobs),
        gpus=np.array([gpus(job) for job in jobs]),
        submitted=submit - submit.min(),
        wait=start - submit,
        duration=lasted,
        limit=np.array([limit(job) for job in jobs]),
        state=tuple(state(job) for job in jobs),
        unread=tuple(unread),
    )


def _moment(text: str) -> float:
    """Seconds of a moment in ISO 8601; without a zone all are of one. NaN for Unknown, None and the like."""
    try:
        found = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        return float("nan")
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
