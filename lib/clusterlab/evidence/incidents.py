"""Incidents: a site's own log of interruptions, as people keep it.

A line is an incident. When it came is needed, its cause and what it cost help; so do the accelerators and the days that
the log is of, which nobody can guess from it.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import numpy as np

from ..quantities import Count
from ..records import Explained, Rows
from ..units import day, fmt, hour, minute
from .rows import EMPTY
from .text import TextFile, name_of, read_text

# --- What people write -----------------------------------------------------------------------------------------------

# Columns by what they say, and the names that people give them, in small letters with _ for all else.
_NAMES: Mapping[str, str] = {
    "time": "time timestamp datetime date_time start started started_at start_time begin occurred occurred_at when"
    " failed_at failure_time event_time incident_time",
    "date": "date day",
    "cause": "cause root_cause reason category type kind error failure failure_type event component",
    "lost": "lost lost_hours lost_time hours_lost time_lost downtime down_time outage duration",
    "recovered": "recovered recovered_at recovery resumed resumed_at restarted restarted_at restart_time end ended"
    " ended_at end_time resolved resolved_at restored",
    "restart": "restart restarts restart_by restarted_by recovery_type recovery_mode mode",
    "gpus": "gpus n_gpus num_gpus gpu_count accelerators fleet_gpus cluster_gpus",
    "start": "observed_from observation_start observed_start log_start",
    "end": "observed_to observed_until observation_end observed_end log_end",
    "days": "observed_days observation_days log_days",
}
_ROLES = {name: role for role, names in _NAMES.items() for name in names.split()}
_UNITS = {
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours"), hour),
    **dict.fromkeys(("min", "mins", "minute", "minutes"), minute),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1.0),
    **dict.fromkeys(("d", "day", "days"), day),
}
_CLOCKS = ("", " %H:%M", " %H:%M:%S", " %I:%M %p", " %I:%M:%S %p")
_DATES = ("%Y/%m/%d", "%d.%m.%Y", "%d.%m.%y", "%b %d, %Y", "%B %d, %Y", "%d %b %Y", "%d %B %Y", "%d-%b-%Y", "%Y-%m-%d")
_SLASHED = re.compile(r"(\d{1,2})/(\d{1,2})/(\d{4})")
_PEOPLE = {"by hand", "hand", "manual", "manually", "human", "people", "operator"}
_SOFTWARE = {"automatic", "automatically", "auto", "automated", "software", "self"}


def plain_name(name: str) -> str:
    """A name in small letters, with _ for all else.

    Examples
    --------
    >>> plain_name("Downtime (min)")
    'downtime_min'
    """
    return re.sub(r"[^a-z0-9]+", "_", name.casefold()).strip("_")


def _role(name: str) -> tuple[str, float | None]:
    """What a column says, and the seconds of its unit where its name has one: ``downtime (min)``."""
    plain = plain_name(name)
    stem, _, unit = plain.rpartition("_")
    if plain == "lost_hours" or plain == "hours_lost":
        return "lost", hour
    if plain not in _ROLES and unit in _UNITS and _ROLES.get(stem) == "lost":
        return "lost", _UNITS[unit]
    return _ROLES.get(plain, ""), None


def _moment(text: str, month_first: bool | None) -> datetime:
    """When, in UTC where a zone is written; ``month_first``: what 3/4/2026 means, None where the file does not tell."""
    if re.fullmatch(r"\d{10}(\.\d+)?|\d{13}", text):
        return datetime.fromtimestamp(float(text) / (1000 if len(text) == 13 else 1), UTC).replace(tzinfo=None)
    slashed = _SLASHED.match(text)
    if slashed and month_first is None:
        raise ValueError(f"{text!r} may be either of two days; write {slashed[3]}-MM-DD")
    try:
        found = datetime.fromisoformat(text)
        return found.astimezone(UTC).replace(tzinfo=None) if found.tzinfo else found
    except ValueError:
        pass
    dates = (("%m/%d/%Y" if month_first else "%d/%m/%Y"),) if slashed else _DATES
    for form in (f"{date}{clock}" for date in dates for clock in _CLOCKS):
        try:
            return datetime.strptime(text, form)
        except ValueError:
            continue
    raise ValueError(f"cannot read {text!r} as a time; write it as 2026-03-01 or 2026-03-01 14:30")


def _duration(text: str, unit: float | None) -> float:
    """Seconds of ``1.5``, ``1:30``, ``90 min`` or ``1,5``; a number alone needs the unit of its column."""
    if clock := re.fullmatch(r"(\d+):(\d\d)(?::(\d\d))?", text):
        return int(clock[1]) * hour + int(clock[2]) * minute + int(clock[3] or 0)
    said = re.fullmatch(r"([\d.,]+)\s*([a-z]*)", text.casefold())
    scale = _UNITS.get(said[2]) if said and said[2] else unit
    if said and not said[2] and unit is None:
        raise ValueError(f"lost time {text!r} has no unit; write '90 min', or call the column lost_hours")
    try:
        value = float(re.sub(r",(?=\d{1,2}$)", ".", said[1])) if said and scale else math.nan
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise ValueError(f"cannot read lost time {text!r}; write it as 1.5 h, 90 min or 1:30")
    return value * float(scale or 1)


# --- A log -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class Incidents(Explained):
    """A log of interruptions of ``gpus`` accelerators over ``observed`` seconds.

    ``times`` are seconds since its start, ``lost`` seconds that each cost (NaN where the log does not say), ``by_hand``
    whether people restarted (None where it does not say). ``unread`` says line by line what was not used, and
    ``ignored`` are columns that nobody asked for.
    """

    gpus: float
    observed: float
    times: tuple[float, ...]
    causes: tuple[str, ...]
    lost: tuple[float, ...]
    by_hand: tuple[bool | None, ...]
    ignored: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()

    def _rows(self) -> Rows:
        rows = [("", "value"), ("incidents", f"{len(self.times):,}"), ("GPUs", f"{self.gpus:,.0f}")]
        return [*rows, ("observed", fmt(self.observed, "d")), ("lost hours said", f"{np.isfinite(self.lost).sum():,}")]


def is_incidents(heading: Iterable[str]) -> bool:
    """Whether the columns of a table are those of a log of incidents.

    Examples
    --------
    >>> is_incidents(["Date", "Root cause", "Downtime (min)"]), is_incidents(["model", "gpu", "n_gpus"])
    (True, False)
    """
    roles = {_role(name)[0] for name in heading}
    plain = {plain_name(name) for name in heading}
    return bool({"time", "date"} & roles) and bool({"cause", "lost", "recovered"} & roles) and "model" not in plain


def read_incidents(path: TextFile, *, gpus: Count | None = None, days: float | None = None) -> Incidents:
    r"""Read a log of interruptions: a CSV with a line for each, as people keep it.

    Parameters
    ----------
    path
        A file, or ``"-"``. It needs a column of times (``time``, ``date`` or both). It may have ``cause``;
        ``lost_hours``, or ``downtime`` with its unit, or when it ``recovered``; ``restart`` (``automatic`` or
        ``by hand``); ``gpus``, and ``observed_from`` and ``observed_to`` or ``observed_days``. Other usual names of
        these are known, dates may be ISO or as people write them, columns stand between commas, semicolons or tabs.
    gpus, days
        Accelerators that the log is of, and its length, where it has no columns that say so.

    Raises
    ------
    OSError
        The file cannot be read.
    ValueError
        It is no such log, no line of it can be read, or nobody says of how many accelerators or days it is.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import mkdtemp
    >>> path = Path(mkdtemp()) / "log.csv"
    >>> _ = path.write_text("date,cause,downtime (min)\n2026-03-01,Xid 79,45\n2026-03-09,IB link,90\n")
    >>> read_incidents(path, gpus=1024, days=30)
    Incidents
                     value
    incidents            2
    GPUs             1,024
    observed          30 d
    lost hours said      2
    """
    return parse_incidents(read_text(path), name_of(path), gpus=gpus, days=days)


def parse_incidents(text: str, name: str, *, gpus: Count | None = None, days: float | None = None) -> Incidents:
    """Read a log from text; ``name`` stands in messages. See :func:`read_incidents`."""
    heading, lines = _cells(text, name)
    at = _columns(heading, name)
    said = [cells[at[part][0]] for _, cells in lines for part in ("time", "date") if part in at]
    table = _Table(name, lines, at, _month_first(said))
    found, unread = _read_lines(table)
    if not found:
        raise ValueError(f"{name}: no line could be read ({'; '.join(unread[:3])})")
    count = _alone(table, "gpus") if gpus is None else float(gpus)
    if count is None:
        raise ValueError(f"{name}: of how many GPUs is the log? Say --incident-gpus, or add a column gpus")
    if not 1 <= count < math.inf:
        raise ValueError(f"{name}: gpus must be at least 1, got {count:g}")
    start, length = _observed(table, [one.when for one in found], days)
    inside = []
    for one in found:
        if 0 <= (seconds := (one.when - start).total_seconds()) <= length:
            inside.append((seconds, one.cause, one.lost, one.by_hand))
        else:
            when = one.when.isoformat(" ", "minutes")
            unread.append(f"line {one.line} is not counted: {when} is outside the observation")
    if not inside:
        raise ValueError(f"{name}: every incident is outside the observation")
    inside.sort(key=lambda one: (*one[:2], str(one[2:])))
    ignored = tuple(cell for cell in heading if cell and not _role(cell)[0])
    times, causes, lost, by_hand = zip(*inside, strict=True)
    return Incidents(count, length, times, causes, lost, by_hand, ignored, tuple(unread))


class _Line(NamedTuple):
    """An incident as its line says it."""

    line: int
    when: datetime
    cause: str
    lost: float
    by_hand: bool | None


class _Table(NamedTuple):
    """A log as text: its lines with their numbers, where each column stands, and what 3/4/2026 means in it."""

    name: str
    lines: list[tuple[int, list[str]]]
    at: Mapping[str, tuple[int, float | None]]
    month_first: bool | None


def _read_lines(table: _Table) -> tuple[list[_Line], list[str]]:
    """The incidents, and what could not be read; one whose time can be read counts, whatever else is wrong with it."""
    found, unread = [], []
    for line, cells in table.lines:
        row = {role: "" if cells[i].casefold() in EMPTY else cells[i] for role, (i, _) in table.at.items()}
        lost, by_hand = math.nan, None
        try:
            when = _moment(" ".join(row[part] for part in ("date", "time") if row.get(part)), table.month_first)
        except ValueError as why:
            unread.append(f"line {line} is not counted: {why}")
            continue
        try:
            lost = _lost(row, when, table)
        except ValueError as why:
            unread.append(f"line {line}: {why}")
        try:
            by_hand = _restart(row)
        except ValueError as why:
            unread.append(f"line {line}: {why}")
        found.append(_Line(line, when, row.get("cause", "") or "not said", lost, by_hand))
    return found, unread


def _cells(text: str, name: str) -> tuple[list[str], list[tuple[int, list[str]]]]:
    """The heading, and the cells of each line below it with its number."""
    first = next((line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")), "")
    delimiter = max(",;\t", key=first.count)
    lines = csv.reader(io.StringIO(text), delimiter=delimiter)
    try:
        told = [(lines.line_num, [cell.strip() for cell in cells]) for cells in lines]
    except csv.Error as error:
        raise ValueError(f"{name}, line {lines.line_num}: {error}") from None
    told = [(line, cells) for line, cells in told if any(cells) and not cells[0].startswith("#")]
    if len(told) < 2:
        raise ValueError(f"{name}: a log needs a heading and a line for each incident")
    (_, heading), *rest = told
    return heading, [(line, cells + [""] * (len(heading) - len(cells))) for line, cells in rest]


def _columns(heading: Sequence[str], name: str) -> dict[str, tuple[int, float | None]]:
    """Where each column stands, and its unit; two that say the same are refused."""
    found: dict[str, tuple[int, float | None]] = {}
    for i, cell in enumerate(heading):
        role, unit = _role(cell)
        if role in found:
            raise ValueError(f"{name}: columns {heading[found[role][0]]!r} and {cell!r} both say {role}; keep one")
        if role:
            found[role] = i, unit
    if not {"time", "date"} & found.keys():
        raise ValueError(
            f"{name}: no column says when; it needs time or date, and has {', '.join(filter(None, heading))}"
        )
    return found


def _month_first(said: Iterable[str]) -> bool | None:
    """What 3/4/2026 means in this file: some date of it has a number above twelve, or nobody knows."""
    pairs = [(int(m[1]), int(m[2])) for text in said if (m := _SLASHED.match(text))]
    first, second = any(a > 12 for a, _ in pairs), any(b > 12 for _, b in pairs)
    return second if first != second else None


def _lost(row: Mapping[str, str], when: datetime, table: _Table) -> float:
    """Seconds that an incident cost: as it is said, or until it had recovered."""
    if row.get("lost"):
        return _duration(row["lost"], table.at["lost"][1])
    if not row.get("recovered"):
        return math.nan
    seconds = (_moment(row["recovered"], table.month_first) - when).total_seconds()
    if seconds < 0:
        raise ValueError(f"recovered at {row['recovered']}, before it came")
    return seconds


def _restart(row: Mapping[str, str]) -> bool | None:
    said = row.get("restart", "").casefold().replace("-", " ")
    if said and said not in _PEOPLE | _SOFTWARE:
        raise ValueError(f"restart must be automatic or by hand, got {row['restart']!r}")
    return said in _PEOPLE if said else None


def _same(table: _Table, role: str) -> str:
    """What a column says on every line that says anything, which must be one thing; nothing where it is not there."""
    if role not in table.at:
        return ""
    cells = (cells[table.at[role][0]] for _, cells in table.lines)
    said = list(dict.fromkeys(cell for cell in cells if cell.casefold() not in EMPTY | {""}))
    if len(said) > 1:
        raise ValueError(f"{table.name}: {role} must be the same on every line, got {said[0]} and {said[1]}")
    return said[0] if said else ""


def _alone(table: _Table, role: str) -> float | None:
    said = _same(table, role)
    try:
        return float(said.replace(",", "")) if said else None
    except ValueError:
        raise ValueError(f"{table.name}: {role} must be a number, got {said!r}") from None


def _observed(table: _Table, times: Sequence[datetime], days: float | None) -> tuple[datetime, float]:
    """When the observation began, and its seconds; where only its length is said, the incidents are in its middle."""
    name, ends = table.name, [_same(table, role) for role in ("start", "end")]
    if days is None and all(ends):
        try:
            start, end = (_moment(said, table.month_first) for said in ends)
        except ValueError as why:
            raise ValueError(f"{name}: {why}") from None
        if end <= start:
            raise ValueError(f"{name}: observed_to must be after observed_from, got {ends[1]} and {ends[0]}")
        return start, (end - start).total_seconds()
    length = _alone(table, "days") if days is None else float(days)
    if length is None:
        how = "Say --incident-days, or add columns observed_from and observed_to"
        raise ValueError(f"{name}: how long was watched? {how}")
    between = (max(times) - min(times)).total_seconds()
    if not between <= length * day < math.inf or length <= 0:
        raise ValueError(f"{name}: the log runs over {between / day:.3g} days, but {length:g} are said to be observed")
    return min(times) - timedelta(seconds=(length * day - between) / 2), length * day
