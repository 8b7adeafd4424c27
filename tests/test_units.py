"""Units: constants against their definitions, the formatter and the reader against each other, the checks by name."""

import math
import re
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clusterlab import units
from clusterlab.checks import broadcastable, choose, fraction, nonnegative, positive, whole
from clusterlab.power import load
from clusterlab.records import Explained, Parts, tabulate
from clusterlab.scaling import bill
from clusterlab.units import fmt, parse
from laws import registry

# Every constant by the name Pint has for it: an independent registry, whose year is the Julian year of the IAU.
DEFINITIONS = {
    **dict(zip(("KB", "MB", "GB", "TB", "PB", "EB"), ("kB", "MB", "GB", "TB", "PB", "EB"), strict=True)),
    **{name: name for name in ("KiB", "MiB", "GiB", "TiB", "Mbit", "Gbit", "Tbit", "ns", "us", "ms")},
    **{name: name for name in ("minute", "hour", "day", "year", "kW", "MW", "GW", "kWh", "MWh", "GWh")},
    **{name: name for name in ("MFLOP", "GFLOP", "TFLOP", "PFLOP", "EFLOP", "ZFLOP")},
    "Kbit": "kbit",
    "cent": "centidollar",
    "thousand": "kilodollar",
    "million": "megadollar",
    "billion": "gigadollar",
    "trillion": "teradollar",
}


@pytest.mark.parametrize("name", DEFINITIONS)
def test_a_constant_is_its_definition_in_si_base_units(name):
    quantity = registry.Quantity(1, DEFINITIONS[name])
    base = next(unit for unit in ("byte", "s", "J", "W", "FLOP", "dollar") if quantity.is_compatible_with(unit))
    assert getattr(units, name) == pytest.approx(quantity.to(base).magnitude, rel=1e-15)


def test_every_public_constant_is_checked_against_its_definition():
    constants = {name for name, value in vars(units).items() if isinstance(value, float) and name[0] != "_"}
    assert constants == set(DEFINITIONS)


# --- fmt -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (2.45e12, "B", "2.45 TB"),
        (50e9, "B/s", "50 GB/s"),
        (9.8e6, "W", "9.8 MW"),
        (0.25, "W", "250 mW"),
        (1.3e-12 * 1e6, "J", "1.3 µJ"),
        (989e12, "FLOP/s", "989 TFLOP/s"),
        (5e-6, "s", "5 µs"),
        (0.040, "s", "40 ms"),
        (90, "s", "90 s"),
        (366.2 * 60, "s", "366 min"),
        (54 * 86400, "s", "54 d"),
    ],
)
def test_the_prefix_is_chosen_for_a_base_unit(value, unit, text):
    assert fmt(float(value), unit) == text


@given(st.sampled_from(["B", "B/s", "FLOP", "FLOP/s", "FLOP/J"]), st.floats(1, 9e20))
def test_a_chosen_prefix_leaves_one_to_three_digits_before_the_point(unit, value):
    assert 1 <= float(fmt(value, unit).split()[0]) < 1000


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (3.35e12, "GB/s", "3,350 GB/s"),
        (90.0, "min", "1.5 min"),
        (450.0, "kW", "0.45 kW"),
        (50e9, "Gbit/s", "400 Gbit/s"),
    ],
)
def test_a_scaled_unit_is_kept(value, unit, text):
    assert fmt(value, unit) == text


@pytest.mark.parametrize(
    ("digits", "text"),
    [(1, "1,000 tokens/s"), (3, "1,230 tokens/s"), (5, "1,234.6 tokens/s"), (6, "1,234.57 tokens/s")],
)
def test_digits_are_significant_and_a_label_takes_no_prefix(digits, text):
    assert fmt(1234.567, "tokens/s", digits) == text


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (999.4e9, "B", "999 GB"),
        (999.9e9, "B", "1 TB"),
        (0.9994e-3, "s", "999 µs"),
        (0.9996e-3, "s", "1 ms"),
        (119.4, "s", "119 s"),
        (119.9, "s", "2 min"),
        (999.4e6, "$", "$999M"),
        (999.6e6, "$", "$1B"),
    ],
)
def test_a_value_that_rounds_up_to_the_next_prefix_takes_it(value, unit, text):
    assert fmt(value, unit) == text


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0.0, "B/s", "0 B/s"),
        (-0.0, "s", "0 s"),
        (0, "%", "0%"),
        (-2.5e9, "B", "-2.5 GB"),
        (-0.031, "%", "-3.1%"),
        (math.nan, "B", "nan B"),
        (math.inf, "s", "inf s"),
        (-math.inf, "%", "-inf%"),
        (0.41, "%", "41%"),
        (12.0, "%", "1,200%"),
        (12_300.0, "$", "$12,300"),
        (-1.2e6, "$", "-$1.2M"),
        (1.2e9, "$", "$1.2B"),
        (2.5, "$", "$2.5"),
        (2500.0, "$k", "$2.5k"),
    ],
)
def test_zero_negative_missing_percent_and_money_read_as_a_person_writes_them(value, unit, text):
    assert fmt(value, unit) == text


@given(st.integers(-(10**15), 10**15))
def test_a_count_is_printed_exactly(count):
    assert int(fmt(count, "GPUs").removesuffix(" GPUs").replace(",", "")) == count
    assert fmt(np.int64(count)) == f"{count:,}"


@pytest.mark.parametrize("digits", [0, -1, 2.5, "3", None])
def test_digits_that_are_not_a_positive_integer_are_refused(digits):
    with pytest.raises(ValueError, match=f"^digits must be a whole number of at least 1, got {digits!r}"):
        fmt(1.0, "B", digits)


@pytest.mark.parametrize("value", ["abc", "3", None, 1j, [1.0], np.array([1.0, 2.0]), np.array("abc")], ids=repr)
def test_what_is_not_one_number_is_refused_by_value(value):
    with pytest.raises(ValueError, match=f"^value must be one number, got {re.escape(repr(value))}"):
        fmt(value, "B")


@pytest.mark.parametrize("unit", [None, 5, ["B"]])
def test_a_unit_that_is_not_text_is_refused(unit):
    with pytest.raises(ValueError, match=f"^unit must be text, got {re.escape(repr(unit))}"):
        fmt(1.0, unit)


# --- parse -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("3.35 TB/s", 3.35e12),
        ("400 Gbit/s", 50e9),
        ("1 Mbit", 125e3),
        ("1,979 TFLOP/s", 1979e12),
        ("12,345,678 B", 12345678),
        ("80 GiB", 80 * 2**30),
        ("64 KiB/s", 64 * 2**10),
        ("5 us", 5e-6),
        ("5 µs", 5e-6),
        ("10.2 kW", 10200),
        ("2 MWh", 7.2e9),
        ("$1.2B", 1.2e9),
        ("-$3M", -3e6),
        ("41%", 0.41),
        ("-2.5 GB", -2.5e9),
        ("1e3 B", 1000),
        (".5 s", 0.5),
    ],
)
def test_a_quantity_is_read_exactly_in_si_base_units(text, value):
    assert parse(text) == value


@pytest.mark.parametrize("text", ["", "fast", "GB", "5 parsecs", "nan GB", "inf s", "5 gb", "400 Gb/s", "$5 GB", None])
def test_what_has_no_number_or_no_known_unit_is_refused_and_the_units_are_named(text):
    with pytest.raises(ValueError, match=r"cannot read .*TB/s.*Gbit/s"):
        parse(text)


@pytest.mark.parametrize("text", ["3,35 TB/s", "1,2,3 GB", ",5 GB", "1 2 GB", "--5 GB", "1e400 B", "1e400 GB"])
def test_a_number_that_nobody_writes_so_is_refused_and_not_guessed(text):
    """A decimal comma, read as a separator, is wrong by a hundred."""
    with pytest.raises(ValueError, match=r"cannot read .*TB/s.*Gbit/s"):
        parse(text)


@given(
    unit=st.sampled_from(["B", "B/s", "FLOP", "FLOP/s", "FLOP/J", "W", "J", "s", "$", "%"]),
    value=st.floats(1e-9, 1e22) | st.floats(-1e22, -1e-9),
    digits=st.integers(1, 9),
)
@settings(max_examples=300)
def test_what_fmt_writes_parse_reads_to_half_a_unit_in_the_last_digit(unit, value, digits):
    text = fmt(value, unit, digits)
    number = float(re.search(r"[\d.,]+", text).group().replace(",", ""))
    printed_unit = abs(parse(text)) / number
    last_digit = 10.0 ** (math.floor(math.log10(abs(value) / printed_unit) + 1e-12) - digits + 1) * printed_unit
    assert abs(parse(text) - value) <= 0.5 * last_digit * (1 + 1e-6) + 1e-14 * abs(value)


# --- checks ----------------------------------------------------------------------------------------------------------

CHECKS = {positive: [2.5, 1e-30, [1, 2]], nonnegative: [0, 2.5, [0, 1]], fraction: [1, 1e-30, [0.5, 1]]}
CHECKS |= {whole: [1, 3.0, [1, 10**12]]}
NONSENSE = [-1, math.nan, math.inf, -math.inf, None, "fast", "0.5", [1, -1], [1, math.nan], [[1], [2, 3]], 1j]


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("value", NONSENSE, ids=repr)
def test_a_check_refuses_nonsense_and_names_the_argument(check, value):
    with pytest.raises(ValueError, match=r"^bandwidth must be .*, got "):
        check(latency=1, bandwidth=value)


@pytest.mark.parametrize(
    ("check", "value"),
    [(positive, 0), (fraction, 0), (fraction, 1.0001), (fraction, [1, 2]), (whole, 0), (whole, 1.5), (whole, [1, 2.5])],
)
def test_a_check_refuses_what_lies_just_outside_its_range(check, value):
    with pytest.raises(ValueError, match=r"^share must be "):
        check(share=value)


@pytest.mark.parametrize("check", CHECKS)
def test_a_check_returns_its_values_as_floats_in_the_order_given(check):
    given_values = CHECKS[check]
    checked = check(**{f"argument_{i}": value for i, value in enumerate(given_values)})
    for value, out in zip(given_values, checked, strict=True):
        assert np.asarray(out).dtype == float
        np.testing.assert_array_equal(out, value)


numbers = st.one_of(st.integers(-(2**70), 2**70), st.integers(-3, 3), st.floats(), st.sampled_from([0.0, 1.0, 0.5]))


@given(st.sampled_from(list(CHECKS)), numbers)
def test_a_check_judges_a_number_alone_as_it_does_inside_an_array(check, number):
    """A plain number takes a short way of its own."""

    def outcome(value):
        try:
            return float(np.ravel(check(share=value)[0])[0])
        except ValueError as refusal:
            return str(refusal)

    float_array = np.array([number], dtype=float)
    if isinstance(number, float) or abs(number) < 2**63:
        assert outcome(number) == outcome(float_array)
        assert outcome(float_array[0]) == outcome(np.asarray(float_array[0])) == outcome(float_array)
    elif abs(number) >= 2**64:  # beyond NumPy's integers: refused and shown as it is
        assert outcome(number).endswith(f"got {number}")


def test_a_check_does_not_hand_back_the_array_it_was_given():
    given_array = np.array([1.0, 2.0])
    (checked,) = positive(share=given_array)
    checked[0] = 5.0
    assert given_array.tolist() == [1.0, 2.0]


@pytest.mark.parametrize("check", CHECKS)
def test_shapes_that_do_not_fit_together_are_named(check):
    for refuse in (check, broadcastable):
        with pytest.raises(ValueError, match=r"^shapes do not fit together: a \(3,\), b \(\), c \(2,\)$"):
            refuse(a=[1, 1, 1], b=1, c=np.array([1.0, 1.0]))
        refuse(a=[[1], [1], [1]], b=1, c=[1, 1])


@pytest.mark.parametrize("shape", [(), (6,), (2, 3)])
def test_a_choice_is_made_element_by_element(shape):
    names = np.resize(["a", "b", "c"], shape)
    chosen = choose({"a": 1, "b": np.full(shape, 2), "c": 3.5}, kind=names)
    assert np.shape(chosen) == shape
    np.testing.assert_array_equal(chosen, np.resize([1, 2, 3.5], shape))


@pytest.mark.parametrize("name", ["d", "", None, 1, [], ["a", "d"], np.array([1.0])])
def test_a_choice_that_is_not_there_is_refused_by_name(name):
    with pytest.raises(ValueError, match=r"^kind must be one of a, b; got "):
        choose({"a": 1, "b": 2}, kind=name)


# --- records ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class Bill(Explained):
    """A record with nothing of its own to say."""

    energy_cost: int
    note: str


def test_a_record_prints_as_an_aligned_table_of_its_fields():
    name, *rows = repr(Bill(1200, "<b>R&D</b>")).splitlines()
    assert name == "Bill"
    assert [row.split() for row in rows] == [["value"], ["energy", "cost", "1200"], ["note", "<b>R&D</b>"]]
    assert len({len(row) for row in rows}) == 1


def test_a_record_in_a_notebook_is_a_table_whose_text_is_escaped():
    page = Bill(1200, '<b>"R&D"</b>')._repr_html_()
    assert "<td>energy cost</td><td>1200</td>" in page
    assert "<b>" not in page
    assert "&lt;b&gt;&quot;R&amp;D&quot;&lt;/b&gt;" in page
    assert '<table class="dataframe mathjax_ignore">' in page  # "$1 to $2" is no formula


def test_watts_and_dollars_have_one_base_and_do_not_add():
    for one in (load(fans=(2, 100)), bill(servers=(2, 100))):
        assert isinstance(one, Parts)
        assert type(one + one) is type(sum([one])) is type(3 * one) is type(one)
    with pytest.raises(TypeError, match="unsupported operand"):
        load(fans=100) + bill(servers=100)


# --- tables ----------------------------------------------------------------------------------------------------------


def test_a_table_aligns_text_numbers_gaps_and_one_value_for_all():
    table = tabulate({"law": ["ring", "tree"], "time": [2e-3, None], "ranks": 16_384}, units={"time": "s"})
    assert repr(table).splitlines() == ["law   time   ranks", "ring  2 ms  16,384", "tree        16,384"]
    assert "<th>time</th>" in table._repr_html_()
    assert "<td>16,384</td>" in table._repr_html_()


@pytest.mark.parametrize("column", [[1e9, 2e9], np.array([1e9, 2e9]), (1e9, 2e9)])
def test_a_column_is_any_sequence_and_one_unit_may_serve_all(column):
    assert tabulate({"size": column, "sent": column}, "B").rows[1] == ("1 GB", "1 GB")


@pytest.mark.parametrize(
    ("columns", "units", "told"),
    [
        ({}, "", "at least one row; got none"),
        ({"a": []}, "", "at least one row; got a 0"),
        ({"a": [1, 2], "b": [1, 2, 3]}, "", "of one length, .*; got a 2, b 3"),
        ({"a": np.ones((2, 2))}, "", r"a has shape \(2, 2\)"),
        ({"a": [1]}, {"b": "s"}, "a unit for 'b', but the columns are a"),
    ],
)
def test_a_table_that_cannot_be_set_says_why(columns, units, told):
    with pytest.raises(ValueError, match=told):
        tabulate(columns, units)
