"""Training runs: the reader of tables, what it fills in, and what it refuses."""

from importlib.resources import files

import numpy as np
import pytest

from clusterlab import catalogue
from clusterlab.evidence import (
    predict_run,
    predict_runs,
    published_runs,
    read_runs,
    training_close,
    training_open,
    why_refused,
)
from clusterlab.evidence.training_close import UNEXPLAINED
from clusterlab.evidence.training_tables import FORM
from clusterlab.interconnect import pipelined_time
from clusterlab.model import parameters

CSV = str(files("clusterlab.evidence") / "data" / "training_throughput.csv")
RUNS, SKIPPED = published_runs()


# --- Reading ---------------------------------------------------------------------------------------------------------

HEAD = "row_id,group,model,gpu,n_gpus,tp,pp,dp,seq,micro_batch,global_batch,recompute,precision,step_time_s,mfu_pct"
FINE = "R1,lab,Llama 3.1 8B,H100-SXM-80GB,8,1,1,8,8192,1,64,none,bf16,8.5,"
SLOW = FINE.replace("8.5", "60")  # plausible for large models too


@pytest.fixture
def table(tmp_path):
    def write(*lines):
        path = tmp_path / "runs.csv"
        path.write_text("\n".join(lines) + "\n" if lines else "", encoding="utf-8")
        return str(path)

    return write


def read_one(table, line, head=HEAD):
    runs, skipped = read_runs(table(head, line))
    return runs[0] if runs else skipped[0]


def test_every_row_is_predicted_or_named():
    with open(CSV, encoding="utf-8") as file:  # noqa: PTH123
        text = file.read()
    rows = text.count("\nT") + text.count("\nP")
    assert len(RUNS) + len(SKIPPED) == rows == 705
    assert len({run.row for run in RUNS} | {one.row for one in SKIPPED}) == 705
    assert all(one.why for one in SKIPPED)


def test_the_container_and_the_precision_say_whether_experts_are_fused(table):
    head = HEAD + ",software"
    line = FINE.replace("Llama 3.1 8B", "Qwen3 30B-A3B").replace("H100-SXM-80GB", "GB200").replace("bf16", "mxfp8")
    for change, era in (
        ({"bf16": "bf16"}, "NeMo 26.06"),
        ({"26.06": "26.04.01"}, "NeMo"),
        ({"mxfp8": "bf16"}, "NeMo"),
        ({"GB200": "H100"}, "NeMo"),
        ({"GB200": "B300"}, "NeMo"),
    ):
        written = f"{line},Megatron-Bridge 26.06"
        for old, new in change.items():
            written = written.replace(old, new)
        assert read_one(table, written, head).software.name == era


def test_a_reader_s_own_run(table):
    run = read_one(table, FINE)
    assert (run.row, run.source, run.seconds, run.model.name) == ("R1", "lab", 8.5, "Llama 3.1 8B")
    assert run.layout.zero == 1
    assert float(predict_run(run).time) == pytest.approx(8.5, rel=0.3)
    mfu = float(predict_run(run).model_flops / (8 * 989e12 * 8.5))
    by_mfu = read_one(table, FINE.replace("8.5,", f",{100 * mfu}") + ",989", HEAD + ",mfu_peak_tflops")
    assert by_mfu.seconds == pytest.approx(8.5)
    rate = 64 * 8192 / 8.5 / 8
    by_rate = read_one(table, FINE.replace("8.5,", ",") + f",{rate}", HEAD + ",tokens_per_s_per_gpu")
    assert by_rate.seconds == pytest.approx(8.5)
    by_flops = read_one(table, FINE.replace("8.5,", ",") + f",{mfu * 989}", HEAD + ",model_tflops_per_gpu")
    assert by_flops.seconds == pytest.approx(8.5)


def test_fsdp_shards_gradients_once_a_step_in_a_pipeline_and_weights_too_without_one(table):
    head = HEAD + ",fsdp"
    staged, flat = FINE.replace("8,1,1,8,8192,1,64", "16,2,2,4,8192,1,64"), FINE
    for text in ("FSDP", "FSDP2 full shard", "ZeRO (params not resharded)"):
        assert read_one(table, f"{staged},{text}", head).layout.zero == 1
    assert read_one(table, f"{flat},FSDP", head).layout.zero == 3
    assert read_one(table, f"{flat},ZeRO (params not resharded)", head).layout.zero == 2
    assert read_one(table, f"{staged},ZeRO-3", head).layout.zero == 3


def test_what_is_not_published_is_the_fastest_that_fits(table):
    open_ = read_one(table, FINE.replace("8,1,1,8,8192,1,64", "8,,,,8192,,64"))
    assert open_.layout.tp * open_.layout.pp * open_.layout.dp == 8
    fixed = float(predict_run(read_one(table, FINE.replace("8,1,1,8,", "8,8,1,1,"))).time)
    assert float(predict_run(open_).time) <= fixed


def test_sequences_of_each_accelerator_and_no_split_are_sharded_data_parallelism(table):
    run = read_one(table, FINE.replace("8,1,1,8,8192,1,64", "8,,,,8192,2,"))
    assert [getattr(run.layout, name) for name in ("tp", "pp", "dp", "zero")] == [1, 1, 8, 3]
    assert run.workload.global_batch == 16


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("GPT3-175B", "GPT-3 175B"),
        ("GPT-3 (175B)", "GPT-3 175B"),
        ("Llama-3.1-405B-Instruct", "Llama 3.1 405B"),
        ("meta-llama/Meta-Llama-3-8B", "Llama 3 8B"),
        ("Llama-3.3-70B", "Llama 3.1 70B"),
        ("llama-2-70b-hf", "Llama 2 70B"),
        ("Nemotron-340B", "Nemotron-4 340B"),
        ("Nemotron-15B", "Nemotron-4 15B"),
        ("DeepSeek-V3 671B", "DeepSeek-V3"),
        ("DeepSeekV3 (w/o MTP)", "DeepSeek-V3"),
        ("LLAMA4-Scout-LLM", "Llama 4 Scout"),
        ("Mixtral 8x22B MoE", "Mixtral 8x22B"),
        ("32B dense", "MaxText 32B"),
        ("Mistral-7B-v0.1", "Mistral 7B"),
    ],
)
def test_names_as_others_write_them(table, written, name):
    assert read_one(table, SLOW.replace("Llama 3.1 8B", written).replace("8,1,1,8,", "64,,,,")).model.name == name


def test_a_size_after_a_name_must_be_that_of_the_model(table):
    """GPT-3 alone means the one of 175 billion."""
    assert read_one(table, SLOW.replace("Llama 3.1 8B", "GPT-3 13B")).why.startswith("the catalogue lacks GPT-3 13B")
    line = SLOW.replace("8,1,1,8,", "64,,,,")
    assert read_one(table, line.replace("Llama 3.1 8B", "GPT-3")).model.name == "GPT-3 175B"
    other = read_one(table, SLOW + ",30", HEAD + ",params_b")
    assert other.model.name == "Llama 3.1 8B"  # made of the size that the row prints
    assert 25e9 < parameters(other.model).total < 35e9


@pytest.mark.parametrize("size", [1.3, 6.9, 13, 40, 70, 175, 280, 540])
def test_a_dense_model_known_by_its_size_alone_has_a_usual_shape(table, size):
    run = read_one(
        table, SLOW.replace("Llama 3.1 8B", "Secret").replace("8,1,1,8,", "64,,,,") + f",{size}", HEAD + ",params_b"
    )
    assert parameters(run.model).total == pytest.approx(size * 1e9, rel=0.35)
    assert run.model.hidden / run.model.layers == pytest.approx(100, rel=0.4)


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("v5e-256", "TPU v5e"),
        ("TPU v5 lite", "TPU v5e"),
        ("v5p-512", "TPU v5p"),
        ("Trillium", "TPU v6e"),
        ("Ironwood", "TPU v7"),
        ("TPU7x", "TPU v7"),
        ("DGX-B200", "B200"),
        ("GB200 NVL72", "GB200"),
        ("MI250X", "MI250X"),
        ("A100-40G", "A100 40GB"),
    ],
)
def test_accelerators_as_others_write_them(table, written, name):
    assert read_one(table, SLOW.replace("H100-SXM-80GB", written)).machine.name == name


def test_a_gh200_is_no_h200(table):
    machine = read_one(table, FINE.replace("H100-SXM-80GB", "GH200")).machine
    assert (machine.name, machine.hbm_capacity, machine.domain) == ("GH200", 96e9, 4)


@pytest.mark.parametrize(
    ("written", "stage"),
    [
        *((text, 1) for text in ("ZeRO-1", "ZeRO stage 1", "DDP", "0", "none", "")),
        *((text, 2) for text in ("ZeRO-2", "SHARD_GRAD_OP", "stage 2", "ZeRO (params not resharded)")),
        *((text, 3) for text in ("FSDP", "FSDP2", "zero3", "ZeRO stage 3", "FULL_SHARD", "8", "yes")),
    ],
)
def test_sharding_as_others_write_it(table, written, stage):
    assert read_one(table, f"{FINE},{written}", HEAD + ",fsdp").layout.zero == stage


@pytest.mark.parametrize(
    ("written", "kind"),
    [
        *((text, "none") for text in ("none", "no", "minimal", "", "custom", "not stated")),
        *((text, "full") for text in ("full", "yes", "activation checkpointing", "every layer (checkpoint)")),
        *((text, "selective") for text in ("selective", "selective op", "attention only")),
    ],
)
def test_recomputation_as_others_write_it(table, written, kind):
    assert read_one(table, FINE.replace("none,bf16", f"{written},bf16")).layout.recompute == kind


def test_weights_are_sharded_where_a_copy_and_its_optimizer_do_not_fit(table):
    small, large = (
        FINE,
        FINE.replace("Llama 3.1 8B", "Llama 3.1 70B").replace("8,1,1,8,8192,1,64", "64,1,1,64,8192,1,64"),
    )
    assert read_one(table, small).layout.zero == 1
    assert read_one(table, large).layout.zero == 3
    assert read_one(table, large + ",0", HEAD + ",fsdp").layout.zero == 1  # what is published stays
    assert read_one(table, large + ",1", HEAD + ",fsdp").layout.zero == 3  # the switch of some tables


def test_sharding_without_a_split_is_data_parallelism_alone(table):
    line = FINE.replace("8,1,1,8,8192,1,64", "64,,,,8192,,64")
    run = read_one(table, line + ",ZeRO-3", HEAD + ",fsdp")
    assert [getattr(run.layout, axis) for axis in ("tp", "pp", "dp", "zero")] == [1, 1, 64, 3]


def test_expert_ranks_that_are_not_published_are_the_fastest_that_fit(table):
    line = FINE.replace("Llama 3.1 8B", "gpt-oss 120B").replace("8,1,1,8,8192,1,64", "64,1,1,64,8192,1,64")
    run = read_one(table, line)
    times = {
        ep: float(predict_run(read_one(table, f"{line},{ep}", HEAD + ",ep")).time) for ep in (1, 2, 4, 8, 16, 32, 64)
    }
    assert run.layout.ep > 1
    assert float(predict_run(run).time) <= min(time for ep, time in times.items() if ep >= run.layout.ep) * 1.001


TPU = "R1,lab,Llama 2 70B,TPU v5e,256,,,,4096,2,,,bf16,,60"
TPU_HEAD = HEAD + ",mfu_peak_tflops,metric_note"


def test_a_tpu_program_shards_weights_and_counts_the_batch_by_the_chip(table):
    run = read_one(table, f"{TPU},197,", TPU_HEAD)
    assert [getattr(run.layout, name) for name in ("tp", "pp", "dp", "zero")] == [1, 1, 256, 3]
    assert run.workload.global_batch == 512
    assert run.layout.recompute == "full"  # 16 GB hold no activations of 80 layers
    assert run.layout.microbatch == 2
    split = read_one(table, f"{TPU.replace('256,,', '256,16,')},197,", TPU_HEAD)
    assert [getattr(split.layout, name) for name in ("tp", "dp", "microbatch")] == [16, 16, 32]
    assert split.workload.global_batch == 512
    roomy = read_one(table, f"{TPU.replace('v5e', 'v7')},2307,", TPU_HEAD)
    assert roomy.layout.recompute == "none"
    long = read_one(table, f"{TPU.replace(',4096,2,,', ',131072,,64,')},197,", TPU_HEAD)
    assert [getattr(long.layout, name) for name in ("tp", "dp", "microbatch")] == [4, 64, 1]


def test_slices_of_tpus_meet_over_the_network_of_the_data_centre(table):
    alone, two = (read_one(table, f"{TPU.replace('256', str(256 * n))},197,{n}x v5e-256", TPU_HEAD) for n in (1, 2))
    assert (alone.machine.domain, two.machine.domain) == (256, 256)
    assert two.machine.network_bandwidth == 3.125e9
    assert alone.layout.shard_group is None
    assert two.layout.shard_group == 256
    # Each chip sums its 256th of the gradients, 4 bytes each, with its like in the other slice: half there, half back.
    across = 4 * parameters(alone.model).total / 256 / (0.96 * 3.125e9)
    more = float(predict_run(two).communication) - float(predict_run(alone).communication)
    assert more == pytest.approx(float(2 * pipelined_time(two.machine.network_latency, across / 2)), rel=1e-4)
    assert 0 < float(predict_run(two).time) - float(predict_run(alone).time) < across  # most of it hides


def test_what_a_rate_leaves_open_is_usual(table):
    """A batch and a sequence that are not published: in a rate they hardly matter, of a time they are all."""
    rate = FINE.replace("8.5,", ",40").replace(",8192,1,64,", ",,,,").replace("8,1,1,8", "8,,,")
    run = read_one(table, rate)
    assert run.workload.sequence == 4096
    assert run.workload.sequence * run.workload.global_batch == 2**24
    assert read_one(table, rate.replace("Llama 3.1 8B", "LLaMA 7B")).workload.sequence == 2048
    errors = [
        float(predict_run(r).time) / r.seconds
        for r in (run, read_one(table, rate.replace(",,,,none", ",8192,1,64,none")))
    ]
    assert errors[0] == pytest.approx(errors[1], rel=0.1)
    note = read_one(table, "R1,lab,22B dense,TPU v4,64,,,,,,,,bf16,,55,275,", TPU_HEAD)
    assert note.workload.global_batch == 64 * training_open.CHIP_BATCH
    assert note.workload.sequence == 2048


def test_what_follows_from_other_numbers_is_computed(table):
    head = HEAD + ",tokens_per_s_per_gpu"
    whole = read_one(table, FINE + ",7710", head)
    assert read_one(table, FINE.replace(",8192,1,64,", ",8192,1,,") + ",7710", head).workload == whole.workload
    assert read_one(table, FINE.replace("8,1,1,8,8192", ",1,1,8,8192")).layout == read_one(table, FINE).layout
    found = read_one(table, FINE.replace(",8192,1,64,", ",,1,64,") + ",7710", head).workload.sequence
    assert found == pytest.approx(8192, rel=1e-3)


def test_a_utilisation_without_a_peak_is_one_of_the_datasheet(table):
    without = read_one(table, FINE.replace("8.5,", ",40"))
    assert without.seconds == read_one(table, FINE.replace("8.5,", ",40") + ",989", HEAD + ",mfu_peak_tflops").seconds


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (FINE.replace("H100-SXM-80GB", "Cerebras CS-3"), "no data on the accelerator 'Cerebras CS-3'"),
        (
            FINE.replace("Llama 3.1 8B", "Secret 9T"),
            "the catalogue lacks Secret 9T, and the row its layers, hidden, heads; the path of its config.json "
            "is a name, too",
        ),
        (FINE.replace("bf16", "int3"), "no data on the precision 'int3'"),
        (FINE.replace("H100-SXM-80GB", "A100").replace("bf16", "fp8"), "no fp8 peak of A100 80GB"),
        (FINE.replace(",8,1,1,8,", ",8,1,1,4,"), "tp 1 x pp 1 x dp 4 does not make 8 GPUs"),
        (FINE.replace(",8,1,1,8,", ",21,3,1,7,"), "not a layout: "),
        (FINE.replace(",8,1,1,8,", ",,1,1,,"), "n_gpus is not published"),
        (FINE.replace(",8192,1,64,", ",,1,64,"), "seq is not published"),
        (FINE.replace(",8192,1,64,", ",8192,,,"), "global_batch is not published"),
        (FINE.replace(",8192,1,64,", ",8192,3,64,"), "not a layout: dp times microbatch must divide global_batch"),
        (FINE.replace("8.5,", ","), "no step time, throughput or utilisation is published"),
        (FINE.replace("8.5,", ",40").replace("bf16", "fp8"), "a utilisation is published, but not the peak"),
        (FINE.replace(",8,1,1,8,", ",8,1.5,1,8,"), "line 2: tp must be a whole number, got '1.5'"),
        (
            FINE.replace(",8192,1,64,", ",8192,3,64,"),
            "not a layout: dp times microbatch must divide global_batch; got dp 8",
        ),
        (
            FINE.replace("Llama 3.1 8B", "Mistral 7B v0.3"),
            "the catalogue lacks Mistral 7B v0.3, and the row its layers, hidden, heads; did you mean 'Mistral 7B'?",
        ),
        (FINE.replace("H100-SXM-80GB", "RTX A1000"), "no data on the accelerator 'RTX A1000'"),
        (FINE.replace("H100-SXM-80GB", "XH100"), "no data on the accelerator 'XH100'"),
        (FINE.replace("H100-SXM-80GB", "H200 NVL"), "no data on the accelerator 'H200 NVL'"),
        (FINE.replace("8.5", "8.5 s"), "line 2: step_time_s must be a number, got '8.5 s'"),
        (FINE.replace("8.5", "-1"), "line 2: step_time_s must be above zero and finite, got '-1'"),
        (FINE.replace("8.5", "nan"), "line 2: step_time_s must be above zero and finite, got 'nan'"),
        (FINE + "410", "line 2: mfu_pct must be at most 100, got '410'"),
        (FINE.replace(",8,1,1", ",eight,1,1"), "line 2: n_gpus must be a number, got 'eight'"),
        (FINE + ",", "line 2: 16 fields, but the heading has 15; a comma too many?"),
        (FINE + ",1", "line 2: 16 fields, but the heading has 15; a cell with a comma in it needs quotes"),
        (FINE[:-1], "line 2: 14 fields, but the heading has 15"),
        (FINE.replace("64,none", "1,024,none"), "line 2: 16 fields, but the heading has 15; a comma too many?"),
    ],
)
def test_a_row_that_cannot_be_predicted_is_named_with_the_reason(table, line, why):
    found = read_one(table, line)
    assert found.row == "R1"
    assert found.why.startswith(why)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ((), "line 1: the file is empty"),
        (("",), "line 1: the file is empty"),
        ((HEAD,), "line 2: no rows below the heading"),
        ((HEAD.replace("gpu,", ""), FINE), "line 1: missing columns gpu"),
        (("model,gpu,n_gpus,tp",), "line 1: no column with a measurement; it needs one of step_time_s, "),
        (("model;gpu;n_gpus",), "line 1: columns must be separated by commas"),
        ((HEAD + ",tp", FINE + ",1"), "line 1: columns there twice: tp"),
    ],
)
def test_a_table_that_is_none_is_refused_with_the_line(table, lines, message):
    path = table(*lines)
    with pytest.raises(ValueError, match=r"^") as error:
        read_runs(path)
    assert str(error.value).startswith(f"{path}, {message}")


@pytest.mark.slow
def test_no_unusual_cell_crashes_the_reader(table):
    """Whatever stands in a text column or a layout, the row is predicted or skipped with a reason."""
    rng = np.random.default_rng(1)
    odd = {
        "gpu": [
            "H100",
            "h200-sxm",
            "GB200 NVL72",
            "MI300X",
            "TPU v5p",
            "TPU v5 lite",
            "B300",
            "H100 80GB PCIe",
            "H20",
            "",
        ],
        "model": ["Llama 2 70B", "Mixtral 8x7B", "DeepSeek-V3", "mystery", ""],
        "precision": ["", "bf16", "BF16-mixed", "fp8-cs", "nvfp4", "tf32"],
        "recompute": ["", "full", "selective", "block:4", "not stated"],
        "fsdp": ["", "0", "8", "ZeRO-2", "hybrid", "FULL_SHARD", "no"],
        "seq_parallel": ["", "yes", "no", "?"],
        "n_gpus": ["", "1", "8", "64", "24576", "7.5"],
        **{key: ["", "", "1", "2", "3", "8"] for key in ("tp", "pp", "dp", "cp", "ep", "vpp", "micro_batch")},
        "global_batch": ["", "64", "1024", "0.5"],
        "seq": ["", "8192", "100", "131072"],
        "gpus_per_node": ["", "4", "8", "1"],
        "step_time_s": ["", "10"],
        "layers": ["", "32"],
        "hidden": ["", "4096", "1001"],
        "heads": ["", "32", "7"],
    }
    usual = dict(zip(HEAD.split(","), FINE.split(","), strict=True)) | {"step_time_s": "10"}
    rows = []
    for i in range(1000):
        strange = rng.choice(list(odd), rng.integers(1, 5), replace=False)
        cells = {name: str(rng.choice(odd[name])) if name in strange else usual.get(name, "") for name in odd}
        rows.append([f"R{i}", "lab", *cells.values()])
    path = table(",".join(["row_id", "group", *odd]), *(",".join(row) for row in rows))
    runs, skipped = read_runs(path)
    assert len(runs) + len(skipped) == 1000
    assert min(len(runs), len(skipped)) > 200
    assert np.all(np.isfinite(predict_runs(runs).time))


FAST = "model,gpu,n_gpus,tp,pp,global_batch,seq,step_time_s"
FAST_RUN = "Llama 3.1 8B,H100,8,1,1,64,8192,8.5"


def test_eight_columns_are_enough_and_their_case_does_not_matter(table):
    head = FAST.replace("model", "Model").replace("n_gpus", "N GPUs").replace("global_batch", "Global-Batch")
    (run,), skipped = read_runs(table("# my runs", head + ",", "", FAST_RUN + ",", "  # 8 more to come"))
    assert (run.row, run.source, skipped) == ("line 4", "runs", [])
    assert (run.workload.global_batch, run.layout.dp, run.seconds) == (64, 8, 8.5)


def test_a_comma_at_the_end_of_the_heading_hides_no_moved_cell(table):
    _, (skipped,) = read_runs(table(FAST + ",", FAST_RUN.replace(",64,", ",1,024,")))
    assert skipped.why == "9 fields, but the heading has 8; a cell with a comma in it needs quotes"


@pytest.mark.parametrize(
    ("column", "hint"),
    [
        ("tokens/s", "'tokens/s': did you mean tokens_per_s_per_gpu?"),
        ("throughput", "'throughput': did you mean tokens_per_s_per_gpu?"),
        ("microbatch", "'microbatch': did you mean micro_batch?"),
        ("mfu", "'mfu': did you mean mfu_pct?"),
        ("precison", "'precison': did you mean precision?"),
    ],
)
def test_a_heading_that_is_nearly_right_gets_a_hint(table, column, hint):
    with pytest.raises(ValueError, match="line 1: unknown columns") as error:
        read_runs(table(f"{FAST},{column}", FAST_RUN + ",1"))
    assert hint in str(error.value)


def test_a_heading_of_a_stack_is_read_as_ours(table):
    ours, _ = read_runs(table(f"{FAST},micro_batch,precision", FAST_RUN + ",1,bf16"))
    heading = FAST.replace("n_gpus", "World Size").replace("global_batch", "gbs").replace("seq", "seq_len")
    theirs, _ = read_runs(table(f"{heading},mbs,dtype,commit", FAST_RUN + ",1,bf16,3f2a"))
    assert (theirs[0].layout, theirs[0].workload, theirs[0].seconds) == (
        ours[0].layout,
        ours[0].workload,
        ours[0].seconds,
    )


@pytest.mark.parametrize("empty", ["", "N/A", "na", "-", "null", "None", " "])
def test_what_people_write_for_nothing_is_nothing(table, empty):
    (run,), _ = read_runs(table(f"{FAST},micro_batch,fsdp,recompute", f"{FAST_RUN},{empty},,{empty}"))
    assert run.layout.microbatch == 1
    _, (skipped,) = read_runs(table(FAST, FAST_RUN.replace("8.5", empty)))
    assert skipped.why == "no step time, throughput or utilisation is published"


def test_a_bad_row_is_named_and_the_others_go_on(table):
    bad = [FAST_RUN.replace("8.5", cell) for cell in ("fast", "8.5,7,7", '"1,024"', "0")]
    runs, skipped = read_runs(table(FAST, FAST_RUN, *bad, FAST_RUN))
    assert [run.row for run in runs] == ["line 2", "line 7"]
    assert [(row.row, row.source, row.why) for row in skipped] == [
        ("line 3", "runs", "step_time_s must be a number, got 'fast'"),
        ("line 4", "runs", "10 fields, but the heading has 8; a cell with a comma in it needs quotes"),
        ("line 5", "runs", "step_time_s may be 1024 or 1.024, got '1,024'"),
        ("line 6", "runs", "step_time_s must be above zero and finite, got '0'"),
    ]


def test_thousands_are_read_where_they_can_be_nothing_else(table):
    head = FAST.replace("step_time_s", "tokens_per_s_per_gpu")
    line = FAST_RUN.replace(",64,", ',"1,024",').replace("8.5", '"7,700.5"')
    (run,), _ = read_runs(table(head, line))
    assert run.workload.global_batch == 1024
    assert run.seconds == pytest.approx(1024 * 8192 / 8 / 7700.5)


@pytest.mark.parametrize(
    ("columns", "cells", "why"),
    [
        (
            "tokens_per_s_per_gpu",
            "61000",
            "means an MFU of 357 %, which must be from 0.1 to 100 %: is it of one GPU, not of all 8",
        ),
        ("step_time_s", "8500", "means an MFU of 0.0451 %, which must be from 0.1 to 100 %: is it in seconds"),
        ("step_time_s", "0.85", "means an MFU of 451 %"),
        ("model_tflops_per_gpu", "4000", "means an MFU of 404 %"),
        ("mfu_pct", "0.4", "mfu_pct must be in percent, above 1; is 0.4 a share, 40 %?"),
        ("hfu_pct", "1", "hfu_pct must be in percent, above 1; is 1 a share, 100 %?"),
        (
            "step_time_s,tokens_per_s_per_gpu",
            "8.5,6000",
            "tokens_per_s_per_gpu 6000 contradicts step_time_s 8.5: it means a step of 10.9 s",
        ),
        ("step_time_s,mfu_pct", "8.5,20", "mfu_pct 20 contradicts step_time_s 8.5"),
    ],
)
def test_a_measurement_that_cannot_be_is_questioned(table, columns, cells, why):
    runs, (skipped,) = read_runs(table(FAST.replace("step_time_s", columns), FAST_RUN.replace("8.5", cells)))
    assert (runs, why in skipped.why) == ([], True), skipped.why


def test_measurements_that_agree_are_taken(table):
    head = FAST + ",tokens_per_s_per_gpu,model_tflops_per_gpu"
    (run,), skipped = read_runs(table(head, FAST_RUN + ",7700,400"))
    assert (run.seconds, skipped) == (8.5, [])


@pytest.mark.parametrize(
    ("column", "cell", "why"),
    [
        (
            "fsdp",
            "banana",
            "fsdp must be the number of ranks that share, or one of none, ddp, fsdp, hsdp, zero-0 to zero-3",
        ),
        ("fsdp", "ZeRO-7", "fsdp must be the number of ranks"),
        ("recompute", "banana", "recompute must be one of none, selective, full, or empty; got 'banana'"),
        ("recompute", "nonsense", "recompute must be one of none, selective, full"),
        ("seq_parallel", "banana", "seq_parallel must be yes or no, or empty; got 'banana'"),
        ("vpp", "0.5", "vpp must be a whole number, got '0.5'"),
        ("hidden", "4096.7", "hidden must be a whole number, got '4096.7'"),
        ("gpus_per_node", "3", "gpus_per_node must divide n_gpus, or be no less; got 3 and 8"),
        ("params_b", "1e300", "params_b must be from 0.001 to 1e+06, got '1e300'"),
        ("seq", "1e308", "seq must be from 1 to 1e+09, got '1e308'"),
        ("seq", "1e154", "seq must be from 1 to 1e+09, got '1e154'"),
        ("global_batch", "1e308", "global_batch must be from 1 to 1e+09, got '1e308'"),
    ],
)
def test_nonsense_is_refused_with_what_is_allowed(table, column, cell, why):
    cells = dict(zip(FAST.split(","), FAST_RUN.split(","), strict=True)) | {column: cell}
    runs, (skipped,) = read_runs(table(",".join(cells), ",".join(cells.values())))
    assert runs == []
    assert skipped.why.startswith(why)


@pytest.mark.parametrize(
    ("written", "split"), [("no", False), ("false", False), ("0", False), ("yes", True), ("on", True)]
)
def test_sequence_parallelism_as_others_write_it(table, written, split):
    (run,), _ = read_runs(table(FAST + ",seq_parallel", f"{FAST_RUN},{written}"))
    assert run.layout.sequence_parallel is split


def test_what_is_filled_in_is_said(table):
    (run,), _ = read_runs(table(FAST, FAST_RUN))
    assert run.filled["software"].startswith("not named (any of NeMo, ")
    assert run.filled["precision"] == "bf16 (usual)"
    assert run.filled["microbatch"] == "1 (takes least memory)"
    assert run.filled["memory"].startswith("does not fit: ")
    named = read_one(table, FINE + ",2023,0,no", HEAD + ",software,fsdp,seq_parallel")
    assert set(named.filled) <= {"memory", "chunks"}
    wide = read_one(table, FINE.replace("8,1,1,8,8192,1,64", "64,,,,8192,,64"))
    assert all(name in wide.filled for name in ("tp", "pp", "dp", "microbatch"))
    assert wide.filled["tp"] == f"{wide.layout.tp:g} (fastest that fits)"
    assert wide.filled["gpus_per_node"] == "8 (reference server)"


def test_a_model_that_is_not_the_one_of_the_catalogue_is_said(table):
    large, odd, unknown, partial = (
        read_one(
            table,
            f"{FINE.replace('Llama 3.1 8B', name).replace('8,1,1,8,8192,1', '64,8,1,8,8192,1')},{cells}",
            HEAD + ",params_b,layers,hidden,heads",
        )
        for name, cells in (
            ("Llama 3 8B", "80,,,"),
            ("Llama 3 8B", ",16,2048,16"),
            ("Foo", "7,,,"),
            ("Foo", "7,,4096,"),
        )
    )
    assert large.filled["model"].endswith("not Llama 3 8B of the catalogue with its size of 8.03 billion")
    said = "not gated (its ffn is 4 times its hidden), not Llama 3 8B of the catalogue with its shape"
    assert odd.filled["model"] == said
    assert unknown.filled["model"] == "39 layers of hidden 4096, the usual shape of 7 billion"
    assert (partial.model.hidden, partial.model.layers, partial.model.heads) == (4096, 35, 32)
    assert "model" not in read_one(table, FINE).filled


def test_what_does_not_fit_is_predicted_and_said(table):
    (run,), _ = read_runs(table(FAST, "GPT-3 175B,H100,1,1,1,64,2048,520"))
    assert run.filled["memory"] == f"does not fit: 3.24 TB of 85.5 GB ({training_close.STATE})"
    assert why_refused(run) == training_close.STATE
    assert float(predict_run(run).time) > 0
    roomy, _ = read_runs(table(FAST, "GPT-3 175B,H100,128,8,8,64,2048,5"))
    assert "memory" not in roomy[0].filled


def test_the_stack_is_what_the_column_names_and_nothing_else(table):
    head = HEAD + ",software,source"
    for software, source, stack, record in (
        ("Megatron-Bridge", "", "NeMo", "NeMo"),
        ("NeMo 25.04", "a paper of 2022", "NeMo", "NeMo"),
        ("NeMo AutoModel", "", "NeMo AutoModel", "2024"),
        ("torchtitan", "mosaicml/llm-foundry README", "torchtitan", "torchtitan"),
        ("LLM Foundry", "", "LLM Foundry", "2023"),
        ("2022", "", "of its own", "2022"),
    ):
        run = read_one(table, f"{FINE},{software},{source}", head)
        assert (run.stack, run.software.name, run.plausible) == (stack, record, ())
    silent = read_one(table, f"{FINE},,NVIDIA-NeMo/Megatron-Bridge docs", head)
    assert silent.stack == ""
    assert [one.name for one, _ in silent.plausible] == ["NeMo", "2024", "Megatron-Core", "torchtitan"]
    assert read_one(table, f"{FINE},Megatrom,", head).why.startswith("unknown software 'Megatrom'; did you mean ")


@pytest.mark.parametrize(
    ("column", "field"),
    [
        ("tp_overlap", "tensor_overlap_forward"),
        ("pp_overlap", "stage_overlap"),
        ("dp_overlap", "data_overlap"),
        ("ep_overlap", "expert_overlap"),
    ],
)
def test_what_a_run_hides_is_a_column(table, column, field):
    head = f"{HEAD},software,{column}"
    on, off, usual = (read_one(table, f"{FINE},NeMo 25.04,{said}", head).software for said in ("yes", "no", ""))
    assert (getattr(on, field), getattr(off, field)) == (True, False)
    assert usual == catalogue.SOFTWARE["NeMo"]
    assert read_one(table, f"{FINE},NeMo 25.04,perhaps", head).why.startswith(f"{column} must be yes or no")


def test_overlap_that_is_off_costs_time(table):
    split, head = FINE.replace("8,1,1,8,8192,1,64", "8,8,1,1,8192,1,64"), HEAD + ",software,tp_overlap"
    plain, pieces = (read_one(table, f"{split},torchtitan,{how}", head) for how in ("no", "yes"))
    assert float(predict_run(pieces).time) < float(predict_run(plain).time)


@pytest.mark.parametrize(
    ("written", "rate"),
    [("unfused", None), ("Triton", 0.75), ("FA2", 1), ("FlashAttention-2", 1), ("FA3", 1.75), ("cuDNN", 1.75)],
)
def test_the_kernel_of_attention_is_a_column(table, written, rate):
    head = HEAD + ",software,attention_kernel"
    assert read_one(table, f"{FINE},NeMo 25.04,{written}", head).software.attention == rate
    assert read_one(table, f"{FINE},NeMo 25.04,mine", head).why.startswith("attention_kernel must be one of")


def test_a_row_may_say_otherwise_of_a_known_mixture(table):
    head = HEAD + ",software,layers,hidden,heads,dense_layers,experts,dispatcher"
    line = SLOW.replace("Llama 3.1 8B", "DeepSeek-V3").replace("8,1,1,8,8192", "8,1,1,8,4096")
    run = read_one(table, f"{line},Megatron-Core 0.12,4,7168,128,1,128,alltoall", head)
    assert (run.model.layers, run.model.dense_layers, run.model.experts) == (4, 1, 128)
    assert not run.software.tokens_cross_once
    assert run.filled["model"] == "4 of the 61 layers of DeepSeek-V3, experts 128, dense_layers 1"


def test_a_mixture_that_the_catalogue_lacks_is_made_of_its_columns(table):
    head = HEAD + ",software,layers,hidden,heads,ffn,gated,experts,experts_per_token,expert_ffn"
    run = read_one(table, f"{SLOW.replace('Llama 3.1 8B', 'Secret')},NeMo 25.04,16,2048,16,8192,yes,32,4,1024", head)
    assert (run.model.experts, run.model.experts_per_token, run.model.expert_ffn, run.model.gated) == (
        32,
        4,
        1024,
        True,
    )


def test_a_run_whose_software_nobody_names_is_a_mixture_over_the_stacks_of_its_years(table):
    unnamed = read_one(table, FINE)
    each = [read_one(table, f"{FINE},{name}", HEAD + ",software") for name in ("NeMo 25.04", "2024", "torchtitan")]
    found, steps = predict_run(unnamed), [predict_run(run) for run in each]
    times = [float(predict_run(one).time) for one in unnamed.by_each()]
    assert len(times) == 4
    assert float(found.time) == pytest.approx(np.mean(times))
    assert min(times) <= float(found.time) <= max(times)
    assert all(found.high / found.low > step.high / step.low for step in steps)
    (many,) = predict_runs([unnamed]).time
    assert many == pytest.approx(float(found.time))
    head = HEAD.replace("step_time_s", "fsdp,step_time_s")
    old, new = (
        read_one(table, f"R1,lab,{model},A100,64,8,8,1,2048,1,64,,fp16,no,14,", head)
        for model in ("GPT-3 175B", "Llama 3.1 70B")
    )
    assert {run.software.name for run in old.by_each()} == {"2021", "2022"}
    assert not {"2021", "2022"} & {run.software.name for run in new.by_each()}


@pytest.mark.parametrize("group", ["slurm job 201234", "Mistral-Nemo tokenizer", "PyTorch, not NeMo", "cluster mosaic"])
def test_what_a_run_is_called_says_nothing_of_its_stack(table, group):
    run = read_one(table, FINE.replace("R1,lab,", f'R1,"{group}",'))
    assert (run.source, run.stack) == (group, read_one(table, FINE).stack)


def test_the_software_of_a_whole_file_may_be_said_beside_it(table):
    path = table(HEAD + ",software", FINE + ",", FINE.replace("R1", "R2") + ",torchtitan")
    runs, _ = read_runs(path, software="NeMo 25.04")
    assert [run.stack for run in runs] == ["NeMo", "torchtitan"]
    with pytest.raises(ValueError, match="unknown software 'Foo'"):
        read_runs(path, software="Foo")


def test_torchtitan_recomputes_every_second_product_and_shards_over_its_sequence_ranks_too(table):
    head = HEAD + ",software,fsdp,cp"
    run = read_one(table, FINE.replace("none,bf16", "selective,bf16") + ",torchtitan,8,1", head)
    assert run.layout.recompute == "alternate"
    line = FINE.replace("8,1,1,8,8192,1,64", "8,1,1,1,8192,1,64")
    assert read_one(table, f"{line},torchtitan,1,8", head).layout.zero == 3
    assert read_one(table, f"{line},2024,1,8", head).layout.zero == 1


def test_a_size_or_the_word_moe_behind_a_name_is_no_other_model_where_the_row_has_its_size(table):
    line = SLOW.replace("8,1,1,8,", "64,,,,")
    for written, size, name in (
        ("Grok-1 314B", 314, "Grok-1"),
        ("Grok-1 314B", "", "Grok-1"),
        ("Mixtral 8x22B MoE", 141, "Mixtral 8x22B"),
    ):
        found = read_one(table, line.replace("Llama 3.1 8B", written) + f",{size}", HEAD + ",params_b")
        assert found.model.name == name


def test_a_proxy_with_fewer_layers_of_a_known_model_has_its_shape(table):
    head = HEAD + ",layers,hidden,heads"
    line = FINE.replace("Llama 3.1 8B", "Llama 3.1 405B")
    run = read_one(table, f"{line},4,16384,128", head)
    assert (run.model.layers, run.model.ffn, run.model.gated, run.model.kv_heads) == (4, 53248, True, 8)
    other = read_one(table, f"{line},4,8192,64", head)
    assert other.model.ffn == 4 * 8192  # another width is another model


def test_heads_that_are_guessed_can_be_split_over_the_tensor_parallel_ranks(table):
    line = SLOW.replace("Llama 3.1 8B", "Secret").replace("8,1,1,8,", "64,8,1,8,") + ",6.9"
    run = read_one(table, line, HEAD + ",params_b")
    assert run.model.heads % 8 == 0


def test_replicas_of_groups_that_share_are_data_parallelism_with_a_shard_group(table):
    line = FINE.replace("8,1,1,8,8192,1,64", "64,1,1,4,8192,1,64")
    run = read_one(table, f"{line},16", HEAD + ",fsdp")
    assert (run.layout.dp, run.layout.zero, run.layout.shard_group) == (64, 3, 16)


def test_rows_with_a_scale_for_each_row_say_so(table):
    run = read_one(table, FINE.replace("bf16", "fp8 rowwise"))
    assert run.workload.precision == "fp8-row"
    tensor = read_one(table, FINE.replace("bf16", "fp8 tensorwise"))
    assert float(predict_run(tensor).gemms) < float(predict_run(run).gemms)


def test_a_note_says_what_a_recipe_switches():
    by_row = {run.row: run.software for run in RUNS}
    assert (by_row["P0033"].expert_overlap, by_row["P0033"].tokens_cross_once) == (True, True)
    assert (by_row["T0287"].expert_overlap, by_row["T0287"].tokens_cross_once) == (True, False)
    assert (by_row["P0095"].expert_overlap, by_row["P0095"].tokens_cross_once) == (False, False)
    assert not by_row["T0145"].expert_overlap
    assert by_row["P0124"].tensor_overlap_forward or by_row["P0125"].tensor_overlap_forward
    assert by_row["T0147"].expert_overlap  # by its stack


def test_every_published_run_fits_or_is_refused_for_a_reason():
    """All of them ran. Of 692 the law refuses 36; 23 fit with activations that the host holds, as their recipes do."""
    reasons = [why_refused(run) for run in RUNS]
    found = {why: reasons.count(why) for why in dict.fromkeys(reasons) if why}
    whys = (training_close.UNSTATED, training_close.INTERLEAVED, training_close.STATE, UNEXPLAINED)
    assert found == dict(zip(whys, (29, 5, 1, 1), strict=True))
    assert sum(run.filled.get("memory", "").startswith(training_close.HOST) for run in RUNS) == 23


def test_rows_read_together_are_what_they_are_alone(table):
    """Rows that share a model are asked about in one call, and one that cannot be must not spoil the others."""
    lines = [
        FINE,
        FINE.replace("8,1,1,8,8192,1,64", "64,,,,8192,,512"),
        FINE.replace(",1,64,", ",3,64,"),
        FINE.replace("none,", "full,"),
    ]
    runs, skipped = read_runs(table(HEAD, *lines))
    alone = [read_one(table, line) for line in lines]
    assert len(runs) == 3
    assert len(skipped) == 1
    for run, single in zip(runs, [alone[0], alone[1], alone[3]], strict=True):
        assert (run.layout, run.workload, run.seconds) == (single.layout, single.workload, single.seconds)
    together = predict_runs(runs)
    assert list(together.time) == [pytest.approx(float(predict_run(run).time), rel=1e-12) for run in runs]


def test_sharding_over_ranks_that_do_not_divide_is_said(table):
    run = read_one(table, FINE + ",3", HEAD + ",fsdp")
    assert (run.layout.zero, run.layout.shard_group) == (3, None)
    assert run.filled["shard_group"] == "8 (3 do not divide dp cp)"
    assert read_one(table, FINE + ",4", HEAD + ",fsdp").layout.shard_group == 4


def test_weights_stay_gathered_in_a_pipeline_and_a_row_that_may_have_none_is_sharded(table):
    """FSDP with stages takes the time of stage 1; where the row leaves stages open it is stage 3."""
    head, run = FAST.replace("pp,", "pp,dp,fsdp,"), "Llama 3.1 8B,H100,8,1,{},{},fsdp,64,8192,8.5"
    staged, alone, unsaid = (read_runs(table(head, run.format(*split)))[0][0] for split in ((2, 4), (1, 8), ("", "")))
    assert (staged.layout.zero, alone.layout.zero, unsaid.layout.zero) == (1, 3, 3)


def test_a_row_that_a_law_refuses_does_not_spoil_those_asked_about_with_it(table, monkeypatch):
    law = training_close.footprint

    def picky(model, workload, layout, *, software):
        if np.any(workload.global_batch == 24):
            raise ValueError("not today")
        return law(model, workload, layout, software=software)

    monkeypatch.setattr(training_close, "footprint", picky)
    runs, (skipped,) = read_runs(table(FAST, FAST_RUN, FAST_RUN.replace(",64,", ",24,"), FAST_RUN))
    assert [run.row for run in runs] == ["line 2", "line 4"]
    assert (skipped.row, skipped.why) == ("line 3", "not today")


def test_columns_are_those_of_the_shipped_table():
    with open(CSV, encoding="utf-8") as file:  # noqa: PTH123
        assert sorted(file.readline().strip().split(",")) == sorted(FORM.columns)
    assert set(FORM.required) <= set(FORM.columns)


# --- Shapes and precisions that were once misread in silence ---------------------------------------------------------

SHAPED = "model,gpu,n_gpus,tp,pp,global_batch,seq,step_time_s,layers,hidden,heads,ffn,vocab"


@pytest.mark.parametrize(
    ("ffn", "gated", "tied", "says"),
    [
        (13824, True, False, "gated (its ffn is 2.7 times its hidden)"),
        (20480, False, True, "not gated (its ffn is 4 times its hidden)"),
    ],
)
def test_a_shape_without_a_size_says_what_was_taken_for_gated(table, ffn, gated, tied, says):
    (run,), _ = read_runs(table(SHAPED, f"mine,H100,64,4,1,256,4096,3,40,5120,40,{ffn},32000"))
    assert (run.model.gated, run.model.tied, run.filled["model"]) == (gated, tied, says)


def test_a_size_that_contradicts_a_whole_shape_is_refused(table):
    _, (skipped,) = read_runs(table(f"{SHAPED},params_b", "mine,H100,64,4,1,256,4096,3,40,5120,40,13824,32000,70"))
    assert skipped.why == "params_b 70 contradicts the row's shape, which has 13 billion parameters"


@pytest.mark.parametrize(
    ("column", "value", "says"),
    [
        ("layers", 40, "has layers 32, and the row says layers 40"),
        ("hidden", 5120, "has hidden 4096, and the row says"),
    ],
)
def test_a_known_model_of_another_shape_is_refused(table, column, value, says):
    head = SHAPED.partition(",layers")[0]
    _, (skipped,) = read_runs(table(f"{head},{column}", f"Llama 3.1 8B,H100,64,4,1,256,4096,3,{value}"))
    assert says in skipped.why


def test_a_known_model_with_another_width_has_it_and_says_so(table):
    (run,), _ = read_runs(table(f"{SHAPED.partition(',layers')[0]},ffn", "Llama 3.1 8B,H100,64,4,1,256,4096,3,16384"))
    assert (run.model.ffn, run.filled["model"]) == (16384, "ffn 16384")


def test_a_mixture_that_the_catalogue_lacks_is_no_dense_model(table):
    head = SHAPED.partition(",layers")[0]
    _, (skipped,) = read_runs(table(f"{head},params_b", "Mine 355B-A32B,H100,64,4,1,256,4096,30,355"))
    assert skipped.why.startswith("Mine 355B-A32B is a mixture of experts that the catalogue lacks")


def test_a_proxy_has_the_dense_layers_that_its_row_says_or_they_are_said(table):
    head = f"{SHAPED.partition(',layers')[0]},layers"
    (run,), _ = read_runs(table(f"{head},dense_layers", "DeepSeek-V3,H100,64,4,1,256,4096,3,4,1"))
    assert run.model.dense_layers == 1
    (run,), _ = read_runs(table(head, "DeepSeek-V3,H100,64,4,1,256,4096,3,4"))
    assert run.filled["model"] == "4 of the 61 layers of DeepSeek-V3 (3 of them dense)"


@pytest.mark.parametrize("written", ["bf16 (fp8 disabled)", "not fp8", "awq", "banana"])
def test_a_precision_that_says_more_is_refused(table, written):
    head = SHAPED.partition(",layers")[0]
    _, (skipped,) = read_runs(table(f"{head},precision", f"Llama 3.1 8B,H100,64,4,1,256,4096,3,{written}"))
    assert skipped.why.startswith(f"no data on the precision {written!r}")
