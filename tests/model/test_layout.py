"""Layouts and workloads: what no record takes, the rules with their messages, and parts of a record of arrays."""

import re
from dataclasses import FrozenInstanceError, fields, replace

import numpy as np
import pytest

from clusterlab.model import PRECISIONS, RECOMPUTE, Layout, Transformer, Workload, transformer

DENSE = Transformer(layers=16, hidden=1024, heads=16, kv_heads=4, ffn=4096, gated=True, vocab=32000)
MOE = replace(DENSE, experts=16, experts_per_token=4, expert_ffn=1024)
JOB = Workload(sequence=2048, global_batch=64)

# --- what is refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["tp", "pp", "dp", "cp", "ep", "etp", "chunks", "microbatch", "shard_group"])
@pytest.mark.parametrize("value", [0, -1, 1.5, np.nan, np.inf, "8", True, [1, 0], [], [True, False]])
def test_a_count_that_is_none_is_refused_by_name(name, value):
    with pytest.raises(ValueError, match=rf"^{name} must be a whole number of at least 1, got "):
        Layout(**{name: value})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"tp": None}, "tp must be a whole number of at least 1, got None"),
        ({"zero": 4}, "zero must be 0, 1, 2 or 3, got 4"),
        ({"zero": 1.5}, "zero must be 0, 1, 2 or 3, got 1.5"),
        ({"zero": -1}, "zero must be zero or more and finite, got -1"),
        ({"zero": [1, 1.5, 4]}, "zero must be 0, 1, 2 or 3, got 1.5"),
        ({"zero": "1"}, "zero must be zero or more and finite, got '1'"),
        ({"zero": True}, "zero must be zero or more and finite, got True"),
        ({"recompute": "some"}, "recompute must be one of none, selective, alternate, full; got 'some'"),
        ({"recompute": True}, "recompute must be one of none, selective, alternate, full; got True"),
        ({"recompute": None}, "recompute must be one of none, selective, alternate, full; got None"),
        ({"recompute": ["full", "half"]}, "recompute must be one of none, selective, alternate, full; got 'half'"),
        ({"sequence_parallel": 1}, "sequence_parallel must be True or False, got 1"),
        ({"sequence_parallel": "yes"}, "sequence_parallel must be True or False, got 'yes'"),
        ({"sequence_parallel": [1, 0]}, r"sequence_parallel must be True or False, got \[1, 0\]"),
        ({"tp": [1, 2], "dp": [1, 2, 3]}, r"shapes do not fit together: .*"),
        ({"tp": [1, 2], "recompute": ["full"] * 3}, r"shapes do not fit together: tp \(2,\), .*recompute \(3,\)"),
        ({"tp": [1, 2], "zero": [0, 1, 2]}, r"shapes do not fit together: tp \(2,\), .*zero \(3,\)"),
        ({"etp": [1, 2], "sequence_parallel": [True] * 3}, r"shapes do not fit together: .*sequence_parallel \(3,\)"),
    ],
)
def test_what_is_no_layout_is_refused_by_name(change, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        Layout(**change)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sequence": 0}, "sequence must be a whole number of at least 1, got 0"),
        ({"global_batch": 1.5}, "global_batch must be a whole number of at least 1, got 1.5"),
        ({"sequence": "8192"}, "sequence must be a whole number of at least 1, got '8192'"),
        ({"global_batch": True}, "global_batch must be a whole number of at least 1, got True"),
        ({"precision": "fp32"}, "precision must be one of bf16, fp16, fp8, fp8-row, int8, fp4; got 'fp32'"),
        ({"precision": None}, "precision must be one of bf16, fp16, fp8, fp8-row, int8, fp4; got None"),
        ({"precision": ["bf16"]}, r"precision must be one of bf16, fp16, fp8, fp8-row, int8, fp4; got \['bf16'\]"),
        (
            {"sequence": [1, 2], "global_batch": [1, 2, 3]},
            "shapes do not fit together: sequence .2,., global_batch .3,.",
        ),
    ],
)
def test_what_is_no_workload_is_refused_by_name(change, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        Workload(**{"sequence": 8, "global_batch": 8} | change)


def test_a_replaced_field_is_checked_again():
    layout = Layout(tp=8, dp=[1, 2])
    assert replace(layout, tp=4).gpus.tolist() == [4, 8]
    with pytest.raises(ValueError, match="tp must be a whole number"):
        replace(layout, tp=0)
    with pytest.raises(ValueError, match="shapes do not fit together"):
        replace(layout, tp=[1, 2, 3])
    with pytest.raises(ValueError, match="precision must be one of"):
        replace(JOB, precision="fp7")
    with pytest.raises(FrozenInstanceError):
        layout.tp = 4


# --- what a layout is ------------------------------------------------------------------------------------------------


def test_a_layout_multiplies_out_to_its_gpus_and_its_batch_to_microbatches():
    layout = Layout(tp=8, pp=16, dp=128, cp=2, microbatch=2)
    assert layout.gpus == 8 * 16 * 128 * 2
    workload = Workload(sequence=8192, global_batch=2048)
    assert layout.microbatches(workload) == 2048 / (128 * 2)
    assert workload.tokens == 2048 * 8192
    assert layout.shape == ()
    many = Layout(tp=[[1], [8]], dp=[1, 2, 4])
    assert many.shape == (2, 3)
    assert many.gpus.tolist() == [[1, 2, 4], [8, 16, 32]]
    assert many.microbatches(workload).shape == (3,)


def test_ranks_that_share_are_by_default_those_of_data_and_context_parallelism():
    assert Layout(dp=8, cp=4).sharding_ranks == 32
    assert Layout(dp=8, cp=4, shard_group=16).sharding_ranks == 16
    assert Layout(tp=4).expert_tp == 4
    assert Layout(tp=4, ep=2, dp=2).expert_tp == 1
    assert Layout(tp=4, ep=[1, 2]).expert_tp.tolist() == [4, 1]
    assert Layout(tp=4, ep=2, etp=4).expert_tp == 4
    kinds = ("selective_recompute", "alternate_recompute", "full_recompute")
    found = [[getattr(Layout(recompute=how), kind) for kind in kinds] for how in RECOMPUTE]
    assert found == [[False, False, False], [True, False, False], [False, True, False], [False, False, True]]


COLUMNS = {"tp": [1, 2, 8], "dp": [8, 4, 1], "zero": [0, 1, 3], "recompute": ["none", "full", "selective"]}
COLUMNS |= {"sequence_parallel": [True, False, True], "shard_group": [8, 2, 1]}


def test_an_index_gives_the_layout_that_it_names():
    many = Layout(**COLUMNS, pp=2)
    for i in range(3):
        one = many[i]
        assert one == Layout(**{name: column[i] for name, column in COLUMNS.items()}, pp=2)
        assert one.shape == ()
        assert type(one.recompute) is str
        assert type(one.sequence_parallel) is bool
        assert type(one.tp) is float
    assert many[-1] == many[2]
    with pytest.raises(IndexError):
        many[3]
    with pytest.raises(TypeError, match="one layout has no parts"):
        many[0][0]


def test_a_mask_or_a_list_of_indices_gives_those_layouts():
    many = Layout(**COLUMNS, pp=2)
    for index in (np.array([True, False, True]), [0, 2], slice(0, 3, 2)):
        some = many[index]
        assert some.shape == (2,)
        assert some.pp == 2
        for i, j in enumerate((0, 2)):
            assert some[i] == many[j]
    none = many[np.zeros(3, bool)]
    assert none.shape == (0,)
    assert none.gpus.size == 0
    grid = Layout(tp=[[1], [8]], dp=[1, 2, 4])
    assert [grid[1, 2].tp, grid[1, 2].dp] == [8, 4]
    assert grid[grid.gpus > 4].gpus.tolist() == [8, 16, 32]


def test_a_table_shows_what_is_not_usual():
    assert repr(Layout()).splitlines() == ["Layout", "      value", "zero      1", "GPUs      1"]
    text = repr(Layout(tp=8, dp=128, recompute="full", sequence_parallel=False))
    lines = {line.partition("  ")[0]: line.split()[-1] for line in text.splitlines()[2:]}
    assert lines == {
        "tp": "8",
        "dp": "128",
        "zero": "1",
        "recompute": "full",
        "sequence parallel": "False",
        "GPUs": "1024",
    }
    many = repr(Layout(**COLUMNS))
    assert "1 to 8, 3 values" in many
    assert "8, all 3 values" in many
    assert "2,049 to 16,385, 2 values" in repr(Layout(dp=[2049, 16385]))  # counts, to the last one
    assert "full, none, selective, 3 values" in many
    assert "False, True, 3 values" in many
    assert "precision" in repr(JOB)
    assert "<table" in Layout()._repr_html_()


# --- the rules -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "change", "gpus", "message"),
    [
        (DENSE, {"tp": 3}, None, "tp must divide heads, got tp 3, heads 16"),
        (
            DENSE,
            {"pp": 10, "chunks": 2},
            None,
            "pp times chunks must be at most layers + 2, got pp 10, chunks 2, layers 16",
        ),
        (DENSE, {"chunks": 2}, None, "chunks above 1 need pp above 1, got pp 1, chunks 2"),
        (DENSE, {"cp": 3}, None, "cp must divide sequence, got cp 3, sequence 2048"),
        (DENSE, {"ep": 2}, None, "ep must divide experts, got ep 2, experts 0"),
        (MOE, {"ep": 3}, None, "ep must divide experts, got ep 3, experts 16"),
        (MOE, {"ep": 4, "dp": 2}, None, "ep must divide tp cp dp, got tp 1, dp 2, cp 1, ep 4"),
        (
            MOE,
            {"ep": 4, "dp": 4, "etp": 2},
            None,
            "ep times etp must divide tp cp dp, got tp 1, dp 4, cp 1, ep 4, etp 2",
        ),
        (
            DENSE,
            {"dp": 32, "microbatch": 4},
            None,
            "dp times microbatch must divide global_batch, got dp 32, microbatch 4, global_batch 64",
        ),
        (DENSE, {"dp": 8, "shard_group": 3}, None, "shard_group must divide dp cp, got dp 8, cp 1, shard_group 3"),
        (DENSE, {"tp": 8}, 9, "tp pp dp cp must be gpus, got tp 8, pp 1, dp 1, cp 1, gpus 9"),
        (DENSE, {"tp": [1, 2, 3, 5]}, None, "tp must divide heads, got tp 3, heads 16"),
        (
            DENSE,
            {"dp": [[1], [3]], "tp": [1, 2]},
            None,
            "dp times microbatch must divide global_batch, got dp 3, microbatch 1",
        ),
        (DENSE, {"tp": 8}, [8, 16], "tp pp dp cp must be gpus, got tp 8, pp 1, dp 1, cp 1, gpus 16"),
    ],
)
def test_a_broken_rule_is_named_with_the_values_that_break_it(shape, change, gpus, message):
    found = Layout(**change).violations(shape, JOB, gpus=gpus)
    assert not np.all(found.valid)
    with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
        found.refuse()
    broken = [rule for rule, mask in found.rules.items() if np.any(mask)]
    assert message.startswith(broken[0])


def test_a_layout_without_faults_is_not_refused():
    found = Layout(tp=8, pp=2, dp=4, chunks=2, shard_group=2).violations(DENSE, JOB, gpus=64)
    assert found.refuse() is None
    assert bool(found.valid) is True
    assert not any(np.any(mask) for mask in found.rules.values())


def test_faults_are_masks_of_one_shape_and_layouts_are_valid_that_break_none():
    rng = np.random.default_rng(1)
    columns = {name: rng.choice([1, 2, 3, 4], 300) for name in ("tp", "pp", "dp", "cp", "ep", "chunks", "microbatch")}
    layouts = Layout(**columns)
    found = layouts.violations(MOE, JOB, gpus=16)
    assert {mask.shape for mask in found.rules.values()} == {(300,)}
    assert found.valid.shape == (300,)
    assert 0 < np.count_nonzero(found.valid) < 300
    for i in range(300):
        t, p, d, c, x, v, b = (int(column[i]) for column in columns.values())
        right = {
            "tp must divide heads": 16 % t == 0,
            "pp times chunks must be at most layers + 2": p * v <= 18,
            "chunks above 1 need pp above 1": v == 1 or p > 1,
            "cp must divide sequence": 2048 % c == 0,
            "ep must divide experts": 16 % x == 0,
            "ep must divide tp cp dp": t * c * d % x == 0,
            "dp times microbatch must divide global_batch": 64 % (d * b) == 0,
            "tp pp dp cp must be gpus": t * p * d * c == 16,
        }
        assert {rule: not mask[i] for rule, mask in found.rules.items()} == right
        assert found.valid[i] == all(right.values())
        one = layouts[i].violations(MOE, JOB, gpus=16)
        assert bool(one.valid) == found.valid[i]
    table = repr(found).splitlines()
    assert table[-1].split()[-1] == str(np.count_nonzero(found.valid))
    assert all(any(line.startswith(rule) for line in table) for rule in found.rules)


def test_gpus_must_be_a_count():
    with pytest.raises(ValueError, match="gpus must be a whole number"):
        Layout().violations(DENSE, JOB, gpus=0)


def test_llama_3_405b_is_a_layout_of_its_cluster():
    """The Llama 3 Herd of Models, table 4: 16,384 GPUs as 8 x 16 x 128."""
    layout = Layout(tp=8, pp=16, dp=128)
    layout.violations(transformer("Llama 3.1 405B"), Workload(sequence=8192, global_batch=2048), gpus=16384).refuse()


def test_every_precision_has_a_peak_and_bytes():
    for name, (peak, operand) in PRECISIONS.items():
        assert Workload(sequence=1, global_batch=1, precision=name).precision == name
        assert peak in PRECISIONS
        assert 0.5 <= operand <= 2


def test_every_field_of_a_layout_has_a_default():
    assert all(getattr(Layout(), f.name) == f.default for f in fields(Layout))
