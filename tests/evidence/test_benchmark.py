"""Measure: the shape of what is measured, never its value; and the published measurements, row by row."""

import inspect
import itertools
import re
from types import SimpleNamespace
from urllib.parse import urlparse

import pytest

from clusterlab import catalogue
from clusterlab.evidence import benchmark, published

MEASUREMENTS = {
    "FLOP/s": lambda **options: benchmark.matmul_rate(32, 16, 8, **options),
    "B/s": lambda **options: benchmark.triad_bandwidth(4096, **options),
}


@pytest.mark.parametrize("unit", MEASUREMENTS)
@pytest.mark.parametrize(("seconds", "runs"), [(1e-9, 3), (0.05, 18)])
def test_a_measurement_repeats_until_its_time_is_up_and_at_least_three_times(unit, seconds, runs, monkeypatch):
    """By a clock that goes a millisecond further whenever it is read: twice a run, and before each from the fourth."""
    ticks = itertools.count()
    monkeypatch.setattr(benchmark, "time", SimpleNamespace(perf_counter=lambda: next(ticks) * 1e-3))
    rate = MEASUREMENTS[unit](seconds=seconds)
    assert rate.unit == unit
    assert len(rate.runs) == runs
    assert 0 < min(rate.runs) <= rate.median <= rate.best == max(rate.runs)
    assert rate.spread >= 0


def test_best_median_and_spread_are_those_of_the_runs():
    rate = benchmark.Rate("what", "where", "B/s", (4.0, 1.0, 2.0, 2.0))
    assert (rate.best, rate.median, rate.spread) == (4.0, 2.0, 1.5)


def test_a_measurement_says_what_was_measured_and_where():
    rate = MEASUREMENTS["FLOP/s"](seconds=1e-9)
    heading, best, *_ = repr(rate).splitlines()[1:]
    assert "32 x 16 x 8" in heading
    assert rate.where in heading
    assert re.search(r"\d .?FLOP/s$", best)


@pytest.mark.parametrize("measure", [benchmark.matmul_rate, benchmark.triad_bandwidth])
def test_a_measurement_takes_seconds_where_nobody_says_how_long(measure):
    assert inspect.signature(measure).parameters["seconds"].default <= 2


@pytest.mark.parametrize("bad", [0, -1, float("nan"), float("inf"), "many", None])
@pytest.mark.parametrize(
    ("call", "name"),
    [(benchmark.matmul_rate, name) for name in ("m", "k", "n", "seconds")]
    + [(benchmark.triad_bandwidth, name) for name in ("elements", "seconds")],
)
def test_nonsense_is_refused_by_name_before_anything_is_measured(call, name, bad):
    sound = {"m": 8, "k": 8, "n": 8} if call is benchmark.matmul_rate else {"elements": 8}
    with pytest.raises(ValueError, match=rf"^{name} must be"):
        call(**sound | {name: bad})


# --- published measurements ------------------------------------------------------------------------------------------

ROWS = published("device_measurements")


def test_a_kind_selects_its_rows_and_the_kinds_are_all_there_is():
    kinds = ("gemm", "memory", "decode", "attention")
    assert {row["kind"] for row in ROWS} == set(kinds)
    assert sum(len(published("device_measurements", kind=kind)) for kind in kinds) == len(ROWS)
    assert all(row["kind"] == kind for kind in kinds for row in published("device_measurements", kind=kind))


def test_published_rows_cannot_be_changed_for_the_next_reader():
    with pytest.raises(TypeError):
        published("device_measurements")[0]["m"] = 0


def test_an_unknown_kind_is_answered_with_the_known_ones():
    with pytest.raises(ValueError, match="kind must be one of gemm, memory, decode, attention, got 'training'"):
        published("device_measurements", kind="training")


@pytest.mark.parametrize("group", sorted({row["group"] for row in ROWS}))
def test_every_row_says_where_it_comes_from_and_when(group):
    for row in (row for row in ROWS if row["group"] == group):
        assert row["source"], row["row_id"]
        assert urlparse(row["url"]).scheme == "https", row["row_id"]
        assert row["source_check"] in catalogue.CHECKED, row["row_id"]
        assert re.fullmatch(r"20\d\d(-\d\d){0,2}", row["date"]), f"{row['row_id']} has date {row['date']!r}"


def test_every_row_has_an_id_of_its_own_and_a_known_accelerator():
    assert len({row["row_id"] for row in ROWS}) == len(ROWS)
    assert {row["accelerator"] for row in ROWS} <= {part.name for part in catalogue.accelerators()}


@pytest.mark.parametrize(
    ("kind", "needed"),
    [
        ("gemm", ("m", "n", "k", "flops_per_second")),
        ("memory", ("bandwidth",)),
        ("decode", ("batch", "parameters", "tokens_per_second")),
    ],
)
def test_every_row_holds_the_numbers_of_its_kind(kind, needed):
    for row in published("device_measurements", kind=kind):
        assert all(row[key] and row[key] > 0 for key in needed), row["row_id"]


TIMED = [row for row in published("device_measurements", kind="gemm") if row["time"]]


def test_some_gemms_are_published_with_their_time():
    assert len(TIMED) > 20


@pytest.mark.parametrize("row", TIMED, ids=lambda row: row["row_id"])
def test_the_time_of_a_gemm_agrees_with_its_rate(row):
    seconds = 2 * row["m"] * row["n"] * row["k"] / row["flops_per_second"]
    assert seconds == pytest.approx(row["time"], rel=0.02)
