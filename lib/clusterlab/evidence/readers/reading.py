"""Reading: what the output of a program says of a run, as rows of the tables that :mod:`clusterlab.evidence` reads.

A reader takes a text and returns a :class:`Reading`: the columns of one of those tables and what stands in the text for
each. It fills in nothing: what a text does not say, its owner says (:meth:`Reading.table`).
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from ...units import fmt

Cells = Mapping[str, str]  # a row: column and cell

TRAINING, OFFLINE, ONLINE = "training", "inference", "serving online"
# What a row must say that no log says of itself, by the kind of table; and what else a step of training follows from.
NEEDED = {
    TRAINING: ("model", "gpu", "n_gpus", "seq", "global_batch"),
    OFFLINE: ("model", "gpu", "n_gpus", "isl", "osl"),
    ONLINE: ("model", "gpu", "n_gpus", "isl", "osl", "concurrency"),
}
OPTIONS = {"model": "--model", "gpu": "--accelerator", "n_gpus": "--gpus"}  # others are --set COLUMN=VALUE

WARM_UP = 5  # steps: kernels are chosen, graphs recorded, memory is laid out


@dataclass(frozen=True)
class Reading:
    """What a text says: ``program`` wrote it, its ``rows`` are those of a table of that ``kind``.

    ``said`` are sentences on what was measured and what was left out; ``unused`` is what stands there and is not read.
    """

    program: str
    kind: str
    rows: tuple[Cells, ...]
    said: tuple[str, ...] = ()
    unused: tuple[str, ...] = ()

    def with_given(self, given: Cells) -> Reading:
        """The same with what its owner says of every row: their names for model and chip, and no contradiction."""
        for row in self.rows:
            for column, value in given.items():
                if column not in ("model", "gpu") and (own := row.get(column, "")) and not _same(own, value):
                    raise ValueError(f"the text says {column} {own}, and you say {value}")
        rows = tuple({"row_id": "run", **row, **given} for row in self.rows)
        return Reading(self.program, self.kind, rows, self.said, self.unused)

    @property
    def lacking(self) -> tuple[str, ...]:
        """Columns that some row needs and does not have."""
        needed = list(NEEDED[self.kind])
        if self.kind == TRAINING and all("step_time_s" not in row for row in self.rows):
            needed.remove("global_batch")  # of a rate the batch hardly matters
        return tuple(name for name in needed if any(not row.get(name) for row in self.rows))

    def table(self, name: str) -> str:
        """The rows as the text of a CSV, or a ValueError that says once all that has to be given."""
        if missing := self.lacking:
            options = [OPTIONS.get(column, f"--set {column}=VALUE") for column in missing]
            has = ", ".join(f"{key} {value}" for key, value in self.rows[0].items() if key != "row_id")
            raise ValueError(
                f"{name}: {self.program}: it says {has or 'nothing of the run'}; it doesn't say "
                f"{', '.join(missing)}: give {' '.join(options)}"
            )
        rows = [_timed(row) for row in self.rows]
        columns = list(dict.fromkeys(column for row in rows for column in row))
        out = io.StringIO()
        writer = csv.DictWriter(out, columns, restval="")
        writer.writeheader()
        writer.writerows(rows)
        return out.getvalue()


def _timed(row: Cells) -> Cells:
    """A row whose samples a second are the time of a step, or the tokens a second of a GPU."""
    if "samples_per_s" not in row:
        return row
    rest = {name: cell for name, cell in row.items() if name != "samples_per_s"}
    samples = float(row["samples_per_s"])
    if batch := row.get("global_batch"):
        return {**rest, "step_time_s": f"{float(batch) / samples:.10g}"}
    return {**rest, "tokens_per_s_per_gpu": f"{samples * float(row['seq']) / float(row['n_gpus']):.10g}"}


def _same(own: str, said: str) -> bool:
    try:
        return float(own) == float(said)
    except ValueError:
        return re.sub(r"\W", "", own).casefold() == re.sub(r"\W", "", said).casefold()


def steady(steps: Sequence[tuple[int, float]], unit: str = "s") -> tuple[float, str]:
    """The median of what was logged by step, the first ``WARM_UP`` steps left out, and a sentence that says so.

    A line stands for the steps since the one before it. Where all are of the warm-up, the last alone is taken.

    Examples
    --------
    >>> steady([(10, 9.0), (20, 2.0), (30, 2.2), (40, 2.1)])
    (2.1, 'median of 3 lines, 2.1 s (2 s to 2.2 s); 1 line with warm-up left out')
    """
    steps = sorted(dict(steps).items())  # several ranks print the same step
    every = steps[1][0] - steps[0][0] if len(steps) > 1 else 1
    begins = min(steps[0][0], 1)  # some count from 0
    kept = [value for step, value in steps if step - every >= begins + WARM_UP - 1] or [steps[-1][1]]
    found, left_out = float(median(kept)), len(steps) - len(kept)
    ends = f" ({fmt(min(kept), unit)} to {fmt(max(kept), unit)})" if len(kept) > 1 else ""
    lines, more = (
        f"{len(kept)} line{'s' * (len(kept) > 1)}",
        f"; {left_out} line{'s' * (left_out > 1)} with warm-up left out",
    )
    return found, f"median of {lines}, {fmt(found, unit)}{ends}{more if left_out else '; none of it warm-up'}"


def cells(**values: object) -> dict[str, str]:
    """A row without what is not known: None, and empty text."""
    return {name: _cell(value) for name, value in values.items() if value is not None and value != ""}


def _cell(value: object) -> str:
    return f"{value:.10g}" if isinstance(value, float) else str(value)


def precision_in(model: object) -> str | None:
    """The precision that the name of a quantized model says: ``Qwen3-30B-A3B-FP8``, ``...-NVFP4``."""
    named = re.search(r"nvfp4|mxfp4|fp4|fp8", str(model), re.IGNORECASE)
    return ("fp4" if "4" in named[0] else "fp8") if named else None


def dotted(text: str) -> dict[str, str]:
    """Arguments as Megatron prints them: a name, dots, a value, a line each."""
    return dict(re.findall(r"^.*?\b([a-z]\w+) \.{3,} ?(\S.*?)\s*$", text, re.MULTILINE))


def first(names: Iterable[str], values: Mapping[str, str]) -> str | None:
    """The first of some values that is there and is not None."""
    return next((values[name] for name in names if values.get(name) not in (None, "", "None")), None)
