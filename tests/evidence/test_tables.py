"""Published tables: numbers in SI units, sources on every row, and what is not there is refused by name."""

import pytest

from clusterlab.evidence import published
from clusterlab.units import hour, kWh, parse

TABLES = ("device_measurements", "own_gpu", "failures", "operations", "contention", "power", "economics")


@pytest.mark.parametrize("table", TABLES)
def test_every_row_carries_its_source(table):
    rows = published(table)
    assert len(rows) > (30 if table != "contention" else 6)
    assert all(row["source"].strip() for row in rows)


@pytest.mark.parametrize("table", ["failures", "operations", "contention"])
def test_every_row_says_what_it_is_and_where_it_was_found(table):
    rows = published(table)
    assert len({row["row_id"] for row in rows}) == len(rows)
    for row in rows:
        assert row["kind"] in ("specified", "measured", "derived"), row["row_id"]
        assert row["source_check"] in ("read", "cited"), row["row_id"]
        assert row["url"].startswith("https://"), row["row_id"]
        assert row["date"][:2] == "20", row["row_id"]
        assert row["low"] is not None, row["row_id"]


@pytest.mark.parametrize("table", TABLES)
def test_numbers_are_numbers_or_none_and_the_rows_are_read_only(table):
    for row in published(table):
        assert all(value is None or isinstance(value, str | float) for value in row.values())
        assert any(isinstance(value, float) for value in row.values())
        with pytest.raises(TypeError):
            row["source"] = "hearsay"


def test_rows_are_chosen_by_their_columns_in_the_order_of_the_file():
    rows = published("failures", run="Llama 3 405B", metric="interruptions")
    everything = published("failures")
    assert list(rows) == [r for r in everything if (r["run"], r["metric"]) == ("Llama 3 405B", "interruptions")]
    assert published("failures") is not rows


def test_a_table_is_read_once():
    assert published("power")[0] is published("power")[0]


@pytest.mark.parametrize(
    ("printed", "value"),
    [("cent/kWh", 0.01 / kWh), ("g/kWh", 1e-3 / kWh), ("CFM", 0.3048**3 / 60), ("Btu/h", 1055.05585262 / hour)],
)
def test_what_halls_and_grids_print_is_in_si_units(printed, value):
    rows = [row for row in published("power") if row["unit"] == printed]
    assert rows
    for row in rows:
        assert row["value"] == pytest.approx(float(row["printed"].split()[0]) * value, rel=1e-12)


def test_other_units_are_those_of_the_library():
    rows = [row for row in published("power") if row["unit"] in ("kW", "MW", "W")]
    assert rows
    assert all(row["value"] == parse(row["printed"]) for row in rows)


@pytest.mark.parametrize(
    ("table", "where", "message"),
    [
        ("collectives", {}, "table must be one of device_measurements, .*, power, economics, got 'collectives'"),
        (["power"], {}, r"table must be one of .*, got \['power'\]"),
        ("power", {"colour": "red"}, "no column 'colour' in power; there are: row_id, "),
        ("failures", {"run": "Llama 5"}, "run must be one of .*Llama 3 405B.*, got 'Llama 5'"),
        ("failures", {"run": ["Llama 3 405B"]}, r"run must be one of .*, got \['Llama 3 405B'\]"),
        ("failures", {"run": "Llama 3 405B", "metric": "luck"}, "metric must be one of .*, got 'luck'"),
    ],
)
def test_what_is_not_there_is_refused_with_what_is(table, where, message):
    with pytest.raises(ValueError, match=message):
        published(table, **where)
