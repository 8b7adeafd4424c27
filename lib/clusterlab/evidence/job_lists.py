"""Job lists: who asked a cluster for what and when, as ``sacct`` prints it or in a CSV with the same columns.

``sacct -aP -X -o JobID,Submit,Start,End,Timelimit,AllocNodes,AllocTRES`` is enough. Steps of a job, jobs that never
ran and lines without a time are left out, each counted by its reason.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np

from ..operations import Jobs
from ..quantities import Count, Seconds
from ..records import Explained, Rows, summary
from ..units import day, hour, minute

_COLUMNS = {  # what sacct and people call them, folded
    "id": ("jobid", "jobidraw", "id", "job"),
    "submit": ("submit", "eligible", "submitted", "created"),
    "start": ("start", "started"),
    "end": ("end", "ended", "finished"),
    "limit": ("timelimit", "timelimitraw", "limit", "walltime"),
    "nodes": ("allocnodes", "nnodes", "reqnodes", "nodes"),
    "tres": ("alloctres", "reqtres", "allocgres", "reqgres"),
    "gpus": ("gpus", "ngpus", "gpucount"),
}
_GPUS = re.compile(r"(?:gres/)?gpu(?::[\w.-]+)?[=:](\d+)")
_MOST = 200_000  # jobs of a list


@dataclass(frozen=True, repr=False)
class JobList(Explained):
    """Jobs of a list: what they asked for, and how long each waited there.

    ``jobs`` are in order of submission, from 0 s on; ``waited`` are the seconds from submission to start. ``nodes``
    is the most that ran at once. ``unread`` counts lines that were left out, by the reason.
    """

    jobs: Jobs
    waited: Seconds
    nodes: Count
    node_size: Count
    unread: Mapping[str, int]
    ignored: tuple[str, ...] = ()
    unlimited: int = 0

    def _rows(self) -> Rows:
        return [
            ("", "value"),
            ("jobs", f"{len(self.jobs):,}"),
            ("days", f"{self.jobs.arrival[-1] / day:.3g}"),
            ("GPUs of a job", summary(self.jobs.gpus).split(", ")[0]),
            ("nodes at once", f"{self.nodes:,}"),
            *((f"left out: {why}", f"{count:,}") for why, count in self.unread.items()),
        ]


def parse_jobs(text: str, name: str, *, node_size: Count = 8) -> JobList:
    """Read a job list.

    Parameters
    ----------
    text
        As ``sacct -P`` prints it (columns between ``|``), or a CSV.
    name
        In messages.
    node_size
        GPUs of a node, of jobs that say nodes alone.

    Returns
    -------
    JobList

    Raises
    ------
    ValueError
        A column is missing, or no job can be used.

    Examples
    --------
    >>> text = '''JobID|Submit|Start|End|Timelimit|AllocNodes
    ... 7|2025-03-01T08:00:00|2025-03-01T08:30:00|2025-03-01T10:30:00|04:00:00|2
    ... 7.batch|2025-03-01T08:30:00|2025-03-01T08:30:00|2025-03-01T10:30:00||1
    ... 8|2025-03-01T09:00:00|Unknown|Unknown|1-00:00:00|4'''
    >>> found = parse_jobs(text, "jobs.txt")
    >>> found.jobs.gpus.tolist(), found.waited.tolist(), dict(found.unread)
    ([16], [1800.0], {'steps of a job': 1, 'no start or no end': 1})
    """
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    if not lines:
        raise ValueError(f"{name}: the file is empty; it needs a heading and rows")
    delimiter = max("|,;\t", key=lines[0].count)
    table = csv.reader(io.StringIO("\n".join(lines)), delimiter=delimiter)
    heading = [re.sub(r"[^a-z]", "", cell.casefold()) for cell in next(table)]
    at = {key: next((heading.index(n) for n in names if n in heading), None) for key, names in _COLUMNS.items()}
    needed = [key for key in ("submit", "start", "end") if at[key] is None]
    if at["nodes"] is None and at["gpus"] is None and at["tres"] is None:
        needed.append("nodes (AllocNodes or NNodes)")
    if needed:
        how = "sacct -aP -X -o JobID,Submit,Start,End,Timelimit,AllocNodes,AllocTRES"
        raise ValueError(f"{name}: no column {', '.join(needed)} in its heading; print it with {how}")
    used = {place for place in at.values() if place is not None}
    rows: list[tuple[float, ...]] = []
    unread, unlimited = Counter[str](), 0
    for number, cells in enumerate(table, 2):
        if len(rows) >= _MOST:
            raise ValueError(f"{name}: more than {_MOST:,} jobs: split the file")
        said = {
            key: cells[place].strip() if place is not None and place < len(cells) else "" for key, place in at.items()
        }
        try:
            one = _job(said, node_size)
        except ValueError as why:
            raise ValueError(f"{name}, line {number}: {why}") from None
        if isinstance(one, str):
            unread[one] += 1
        else:
            rows.append(one)
            unlimited += not math.isfinite(one[3])
    if not rows:
        raise ValueError(
            f"{name}: no job that ran ({', '.join(f'{count} {why}' for why, count in unread.items()) or 'no rows'})"
        )
    ignored = tuple(cell for place, cell in enumerate(heading) if place not in used and cell)
    return _listed(rows, node_size, unread, ignored, unlimited)


def _listed(
    rows: Sequence[tuple[float, ...]],
    node_size: Count,
    unread: Mapping[str, int],
    ignored: tuple[str, ...],
    unlimited: int,
) -> JobList:
    submit, start, end, limit, gpus = np.array(sorted(rows)).T
    duration = np.maximum(end - start, 1.0)
    longest = np.maximum(
        np.where(np.isfinite(limit), limit, np.nanmax(np.where(np.isfinite(limit), limit, 0))), duration
    )
    jobs = Jobs(submit - submit[0], gpus.astype(int), duration, limit=longest)
    order = np.argsort(np.concatenate([end, start]), kind="stable")  # who ends leaves before who starts
    at_once = np.cumsum(np.concatenate([-gpus, gpus])[order])
    nodes = math.ceil(at_once.max() / node_size)
    return JobList(jobs, start - submit, nodes, int(node_size), dict(unread), ignored, unlimited)


def _job(said: Mapping[str, str], node_size: Count) -> tuple[float, ...] | str:
    """Submit, start, end, limit and GPUs of a job; or why it is left out."""
    if "." in said["id"]:
        return "steps of a job"
    times = [_time(said[key]) for key in ("submit", "start", "end")]
    if None in times:
        return "no start or no end"
    submit, start, end = (float(one) for one in times if one is not None)
    gpus = float(said["gpus"]) if said["gpus"].isdecimal() else None
    if gpus is None and (found := _GPUS.findall(said["tres"])):
        gpus = float(found[0])
    if gpus is None and said["nodes"]:
        if not said["nodes"].isdecimal():
            raise ValueError(f"nodes must be a whole number, got {said['nodes']!r}")
        gpus = float(said["nodes"]) * node_size
    if not gpus:
        return "no GPUs"
    if end <= start:
        return "ended as it started"
    if start < submit:
        return "started before it was submitted"
    return submit, start, end, _limit(said["limit"]), gpus


def _time(text: str) -> float | None:
    if text.casefold() in ("", "unknown", "none", "n/a", "-"):
        return None
    if re.fullmatch(r"\d+(\.\d+)?", text):
        return float(text)  # seconds of any epoch
    try:
        return (datetime.fromisoformat(text).replace(tzinfo=None) - datetime(1970, 1, 1)).total_seconds()
    except ValueError:
        raise ValueError(f"cannot read the time {text!r}; sacct prints 2025-03-01T08:00:00") from None


_LIMIT = re.compile(r"(?:(?P<d>\d+)-)?(?P<a>\d+)(?::(?P<b>\d+))?(?::(?P<c>\d+))?")


def _limit(text: str) -> float:
    """Seconds of a limit, ``1-12:00:00``; a number alone is minutes, as Slurm has it. Infinite where there is none."""
    if text.casefold() in ("", "unlimited", "partition_limit", "unknown", "none"):
        return math.inf
    found = _LIMIT.fullmatch(text)
    if not found:
        raise ValueError(f"cannot read the limit {text!r}; sacct prints 1-12:00:00")
    days, a, b, c = (float(part or 0) for part in found.group("d", "a", "b", "c"))
    if found["d"] or found["c"]:
        return days * day + a * hour + b * minute + c
    return a * minute + b
