"""Rows: one reader for every table of runs; a cell that is no number, or may be two, is refused with its row."""

import pytest

from clusterlab.evidence import inference_runs, training_tables
from clusterlab.evidence.rows import Row, SkipRow, read_rows, skipped_in_order, unused_columns

FORMS = {"training": training_tables.FORM, "inference": inference_runs.FORM}
HEADS = {name: f"model,gpu,n_gpus,{form.measures[0]}" for name, form in FORMS.items()}


@pytest.fixture(params=FORMS)
def kind(request):
    return request.param


def numbers(kind, line, head=""):
    """The row below a heading, and why it is skipped."""
    rows, refused = read_rows(f"{HEADS[kind]}{head}\n{line}", "mine.csv", FORMS[kind], lambda row: row)
    return rows, [str(why) for _, why in refused]


def test_every_column_is_there_once_and_every_alias_is_of_one(kind):
    form = FORMS[kind]
    assert len(set(form.columns)) == len(form.columns)
    assert set(form.aliases.values()) | set(form.required) <= set(form.columns)
    assert not form.aliases.keys() & set(form.columns)


def test_a_column_by_another_name_is_taken(kind):
    form = FORMS[kind]
    heading = [*(name for name in form.required if name != "n_gpus"), "World_Size", form.measures[0]]
    assert form.heading(heading, "here")[len(heading) - 2] == "n_gpus"


def test_a_column_that_no_rule_reads_is_listed_and_not_used(kind):
    form = FORMS[kind]
    text = ",".join([*form.required, "Commit", form.measures[0]])
    assert unused_columns(text, "mine.csv", form) == ["Commit"]
    assert "Commit" not in Row(form, 1, form.heading(text.split(","), "here"), text.split(",")).text


def test_an_alias_beside_its_column_is_not_used(kind):
    form = FORMS[kind]
    text = ",".join([*form.required, *({"n_gpus"} - set(form.required)), "gpus", form.measures[0]])
    assert unused_columns(text, "mine.csv", form) == ["gpus"]


def test_a_slip_is_asked_about(kind):
    form = FORMS[kind]
    slip = [name for name in form.required if name != "model"] + ["modell", form.measures[0]]
    with pytest.raises(ValueError, match=r"here: unknown columns 'modell'; 'modell': did you mean model\?"):
        form.heading(slip, "here")


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        ('"1,500"', "may be 1500 or 1.500"),
        ("1e400", "must be above zero and finite"),
        ("0", "must be above zero"),
        ("soon", "must be a number, got 'soon'"),
        ("1e13", "must be from 1e-09 to 1e+12"),
    ],
)
def test_a_number_that_may_be_two_or_none_is_refused(kind, cell, message):
    rows, (why,) = numbers(kind, f"GPT 175B,A100,64,{cell}")
    assert not rows
    assert message in why


def test_counts_are_whole_and_may_have_commas(kind):
    (row,), _ = numbers(kind, 'GPT 175B,A100,"1,024",2')
    assert (row["n_gpus"], row[FORMS[kind].measures[0]]) == (1024, 2)
    assert numbers(kind, "GPT 175B,A100,1.5,2")[1] == ["n_gpus must be a whole number, got '1.5'"]


def test_a_range_is_its_middle_where_a_table_prints_ranges():
    (row,), _ = numbers("inference", "GPT 175B,A100,64,45-50")
    assert (row["ttft_ms"], row.ranges) == (47.5, {"ttft_ms": "47.5 (middle of 45-50)"})
    assert numbers("training", "GPT 175B,A100,64,45-50")[1] == ["step_time_s must be a number, got '45-50'"]


def test_none_says_something_of_a_setting_and_nothing_of_a_number(kind):
    (row,), _ = numbers(kind, "none,-,64,None")
    assert (row.text["model"], row.text["gpu"], row[FORMS[kind].measures[0]]) == ("none", "", None)


def test_what_a_reader_refuses_is_skipped_in_the_order_of_lines_and_nothing_else(kind):
    def refuse(row: Row):
        raise SkipRow(f"not {row.text['model']}")

    text = f"{HEADS[kind]}\na,A100,8,1\n# b\nc,A100,8\nd,A100,8,1"
    found, refused = read_rows(text, "mine.csv", FORMS[kind], refuse)
    assert not found
    skipped = skipped_in_order(reversed(refused))
    assert [(row.row, row.why) for row in skipped] == [
        ("line 2", "not a"),
        ("line 4", "3 fields, but the heading has 4"),
        ("line 5", "not d"),
    ]

    def fail(_):
        raise KeyError("a fault of the library")

    with pytest.raises(KeyError):
        read_rows(text, "mine.csv", FORMS[kind], fail)
