"""Readers: the output of programs as they print it, public files first; what they don't say has to be given."""

import json
from pathlib import Path

import numpy as np
import pytest

from clusterlab.evidence import queued
from clusterlab.evidence.outputs import READERS, read_output
from clusterlab.evidence.readers.reading import steady

FILES = Path(__file__).parent / "files"


def reading(name):
    return read_output((FILES / name).read_text(encoding="utf-8"), name)


def test_every_excerpt_says_where_it_is_from():
    listed = (FILES / "SOURCES.md").read_text(encoding="utf-8")
    assert {path.name for path in FILES.iterdir()} - {"SOURCES.md"} == {
        line.split("`")[1] for line in listed.splitlines() if line.startswith("| `")
    }


# What stands in each file, read by eye.
PUBLIC = {
    "megatron_756.log": ("a log of Megatron", {"step_time_s": "5.5338", "global_batch": "128", "hidden": "4096"}),
    "megatron_deepseek_lite.log": ("a log of Megatron", {"step_time_s": "61.6743"}),
    "nemo_evo2.log": (
        "a log of NeMo",
        {"step_time_s": "0.4083", "global_batch": "1", "seq": "8192", "micro_batch": "1"},
    ),
    "maxtext_v5p.log": (
        "a log of MaxText",
        {"step_time_s": "5.668", "global_batch": "96", "seq": "2048", "n_gpus": "4", "model": "deepseek2-16b"},
    ),
    "deepspeed_aurora.log": ("a log of DeepSpeed", {"samples_per_s": "60.0540376"}),
    "train_results.json": ("the summary of a Hugging Face Trainer", {"samples_per_s": "0.749"}),
    "llama_factory.jsonl": ("a log of LLaMA-Factory", {"step_time_s": "42.73333333"}),
    "vllm_bench.json": (
        "vllm bench serve",
        {"model": "neuralmagic/Meta-Llama-3.1-8B-FP8", "precision": "fp8", "isl": "137", "osl": "114"},
    ),
    "sglang_bench.jsonl": (
        "SGLang's bench_serving",
        {"model": "Qwen/Qwen2.5-3B-Instruct", "concurrency": "32", "isl": "265", "ttft_ms": "42.44891826", "tp": "1"},
    ),
    "aiperf.json": (
        "AIPerf",
        {
            "model": "nvidia/Qwen3.6-35B-A3B-NVFP4",
            "precision": "fp4",
            "concurrency": "8",
            "isl": "467",
            "osl": "228",
            "tpot_ms": "9.050196513",
        },
    ),
    "trtllm_bench.txt": (
        "trtllm-bench",
        {"model": "meta-llama/Llama-3.1-70B-Instruct", "n_gpus": "8", "tp": "8", "precision": "fp8", "osl": "128"},
    ),
}

# Those that say the chip, or of whom more is asked below.
TORCHTITAN = {
    "model": "own shape",
    "params_b": "1.47645",
    "layers": "6",
    "ffn": "11008",
    "n_gpus": "24",
    "micro_batch": "1",
    "gpu": "Intel(R) Data Center GPU Max 1550",
    "fsdp": "FSDP",
    "recompute": "selective",
    "tokens_per_s_per_gpu": "6671",
}
LATENCY = {"ttft_ms": "184.6377937", "concurrency": "100", "software": "TensorRT-LLM", "model": "ensemble"}
MORE = {
    "torchtitan_aurora.log": ("a log of torchtitan", TORCHTITAN),
    "genai_perf.json": ("genai-perf", LATENCY),
    "genai_perf_whole.json": ("genai-perf", {"ttft_ms": None, "tpot_ms": None, "output_tok_s_total": "12277.70341"}),
    "aiperf.csv": (
        "genai-perf or AIPerf",
        {"isl": "300", "osl": "498", "concurrency": "2", "ttft_ms": "49.87", "output_tok_s_total": "598.78"},
    ),
}


@pytest.mark.parametrize("name", PUBLIC | MORE)
def test_what_a_public_file_says_is_read(name):
    program, says = (PUBLIC | MORE)[name]
    found = reading(name)
    assert found.program == program
    assert {key: found.rows[0].get(key) for key in says} == says


@pytest.mark.parametrize("name", [*PUBLIC, *MORE, "wandb_runs.csv", "wandb_chart.csv", "sacct_oxford.txt", "pods.json"])
def test_a_file_is_known_by_its_content_to_one_reader_alone(name):
    text = (FILES / name).read_text(encoding="utf-8")
    assert sum(bool(reader.reads(text)) for reader in READERS) == 1


@pytest.mark.parametrize("name", PUBLIC)
def test_what_a_file_does_not_say_is_asked_for_once_and_by_option(name):
    found = reading(name)
    with pytest.raises(ValueError, match=r"it doesn't say .*give .*--accelerator") as refusal:
        found.table(name)
    assert str(refusal.value).count("give") == 1


def test_a_reader_that_fails_names_the_file_and_what_it_took_it_for():
    with pytest.raises(ValueError, match=r"mine\.json: not read \(``vllm bench serve``.*no request was completed"):
        read_output('{"mean_ttft_ms": 1, "total_output_tokens": 0, "completed": 0}', "mine.json")


def test_a_contradiction_between_file_and_owner_is_refused():
    with pytest.raises(ValueError, match="the text says seq 2048, and you say 4096"):
        reading("maxtext_v5p.log").with_given({"seq": "4096"})
    assert reading("maxtext_v5p.log").with_given({"seq": "2048.0", "model": "mine"}).rows[0]["model"] == "mine"


# --- Warm-up ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("steps", "found", "says"),
    [
        ([(i, 9.0 if i < 5 else 2.0) for i in range(12)], 2.0, "5 lines with warm-up left out"),
        ([(i, 9.0 if i < 6 else 2.0) for i in range(1, 12)], 2.0, "5 lines with warm-up left out"),
        ([(10, 9.0), (20, 2.0), (30, 2.0)], 2.0, "1 line with warm-up left out"),
        ([(50, 2.0), (55, 4.0)], 3.0, "none of it warm-up"),
        ([(1, 9.0), (2, 8.0)], 8.0, "1 line with warm-up left out"),
        ([(50, 2.0), (50, 2.0), (55, 4.0), (55, 4.0)], 3.0, "median of 2 lines"),
    ],
)
def test_the_first_steps_are_left_out_and_said(steps, found, says):
    value, sentence = steady(steps)
    assert value == found
    assert says in sentence


def test_a_batch_that_ramps_up_is_read_at_its_end():
    line = " iteration {:8d}/ 100 | elapsed time per iteration (ms): {} | global batch size: {} |"
    log = "\n".join(line.format(step, 1000 * batch, batch) for step, batch in ((50, 8), (60, 8), (70, 16), (80, 16)))
    (row,), said = (found := read_output(log, "x")).rows, found.said
    assert (row["global_batch"], row["step_time_s"]) == ("16", "16")
    assert any("2 lines left out, whose global batch is not yet 16" in sentence for sentence in said)


def test_a_log_of_llama_factory_is_read_since_it_was_resumed():
    """Steps 11 to 20 of the second start take 100 s; those before it, and its first five, are left out."""
    line = '{{"current_steps": {}, "total_steps": 90, "loss": 1.0, "elapsed_time": "{}", "remaining_time": "1:00"}}'
    times = [(5, "0:00:50"), (10, "1 day, 0:01:40"), (5, "0:09:00"), (10, "0:10:00"), (20, "0:11:40")]
    found = read_output("\n".join(line.format(*one) for one in times), "x")
    assert (found.rows[0]["step_time_s"], "steps 11 to 20" in found.said[0]) == ("10", True)
    with pytest.raises(ValueError, match=r"x: not read \(Hugging Face Trainer.*there must be two"):
        read_output(line.format(5, "0:00:50"), "x")


def test_maxtext_without_its_settings_says_tokens_a_second_and_asks_for_no_batch():
    line = "completed step: {}, seconds: 7.8, TFLOP/s/device: 328.1, Tokens/s/device: {}, total_weights: 9, loss: 11\n"
    found = read_output("".join(line.format(step, 4200.0 + step) for step in range(9)), "x")
    assert dict(found.rows[0]) == {"software": "MaxText", "tokens_per_s_per_gpu": "4206.5"}
    assert "global_batch" not in found.lacking


def test_a_trainer_s_state_counts_its_steps_and_so_tells_its_batch():
    """Source: aa-n/Qwen3_Lora, trainer_state.json: 0.128 steps a second round to a batch of 113, 768 steps to 112."""
    state = '{"global_step": 768, "log_history": [{"step": 768, "train_loss": 0.97, "train_runtime": 5980.6912,'
    state += '"train_samples_per_second": 14.427, "train_steps_per_second": 0.128}], "max_steps": 768}'
    assert read_output(state, "x").rows[0]["global_batch"] == "112"
    assert read_output(state.replace('"global_step": 768, ', ""), "x").rows[0]["global_batch"] == "113"


def test_a_batch_is_read_as_a_fork_of_megatron_spells_it():
    line = " iteration  11/50000 | elapsed time per iteration (ms): 52728.1 | gloabl batch size:  512 | lm loss: 1 |"
    assert read_output(line, "x").rows[0]["global_batch"] == "512"


def test_the_card_is_the_one_that_a_driver_names_in_the_log():
    step = "Training epoch 0, iteration 9/99 | global_step: 9 | train_step_timing in s: 6.0\n"
    found = read_output(f"[0] NVIDIA B200 | 67 C\n[1] NVIDIA B200 | 56 C\n{step}", "x")
    assert (found.rows[0]["gpu"], found.said[-1]) == ("B200", "gpu B200: its text names no other")
    assert read_output(f"NVIDIA B200\nNVIDIA H100 80GB HBM3\n{step}", "x").lacking[:2] == ("model", "gpu")
    assert "gpu" in read_output(f"DGX B200, NVIDIA driver 580\n{step}", "x").lacking


# --- Formats without a public file here ------------------------------------------------------------------------------

ARGUMENTS = """\
using world size: 64, data-parallel size: 4
  bf16 ............................................ True
  context_parallel_size ........................... 1
  expert_model_parallel_size ...................... 1
  ffn_hidden_size ................................. 28672
  fp8 ............................................. None
  global_batch_size ............................... 128
  group_query_attention ........................... True
  hidden_size ..................................... 8192
  micro_batch_size ................................ 1
  num_attention_heads ............................. 64
  num_experts ..................................... None
  num_layers ...................................... 80
  num_query_groups ................................ 8
  overlap_grad_reduce ............................. True
  padded_vocab_size ............................... 128256
  pipeline_model_parallel_size .................... 4
  recompute_granularity ........................... None
  seq_length ...................................... 8192
  sequence_parallel ............................... True
  swiglu .......................................... True
  tensor_model_parallel_size ...................... 4
  virtual_pipeline_model_parallel_size ............ 5
  world_size ...................................... 64
 iteration       50/    5000 | elapsed time per iteration (ms): 9000.0 | global batch size:   128 |
"""


def test_a_fork_of_megatron_that_writes_seconds_is_read_in_seconds():
    line = " iteration  42780/ 115311 | elapsed time per iteration (s): 105.16 | global batch size:  2048 |\n"
    assert read_output(f"DeepSpeed\n{line}", "mine.log").rows[0]["step_time_s"] == "105.16"


def test_arguments_of_megatron_say_the_whole_run_but_its_chip():
    found = read_output(ARGUMENTS, "mine.log")
    assert found.lacking == ("gpu",)
    assert dict(found.rows[0]) == {
        "seq": "8192",
        "micro_batch": "1",
        "tp": "4",
        "pp": "4",
        "cp": "1",
        "layers": "80",
        "hidden": "8192",
        "heads": "64",
        "ffn": "28672",
        "vocab": "128256",
        "n_gpus": "64",
        "gated": "yes",
        "model": "own shape",
        "kv_heads": "8",
        "vpp": "5",
        "precision": "bf16",
        "recompute": "none",
        "seq_parallel": "yes",
        "dp_overlap": "yes",
        "global_batch": "128",
        "step_time_s": "9",
        "software": "Megatron-Core",
    }


TITAN = """\
Building device mesh with parallelism: pp=2, dp_replicate=1, dp_shard=4, cp=1, tp=2, ep=1, etp=1
Building mine_qwen3 0.6Bwith {
  "dim": 1024, "n_layers": 28, "n_heads": 16, "n_kv_heads": 8, "vocab_size": 151936, "head_dim": 128,
  "hidden_dim": 3072, "moe_enabled": false
}
Model mine_qwen3 0.6B size: 596,049,920 total parameters
Trainer is initialized with local batch size 6, global batch size 48, gradient accumulation 1, sequence length 4096
validate step:  1  loss: 12.4699  memory: 69.81GiB(88.17%)  tps: 74,600
step: 20  loss: 11.8347  memory: 69.83GiB(88.19%)  tps: 40,890  tflops: 261.49  mfu: 26.44%
step: 40  loss:  9.3507  memory: 69.83GiB(88.19%)  tps: 42,647  tflops: 272.72  mfu: 27.58%
"""


def test_a_pass_that_validates_is_no_step_of_torchtitan_and_a_mesh_no_model():
    found = read_output(TITAN, "mine.log")
    assert dict(found.rows[0]) == {
        "model": "mine_qwen3 0.6B",  # heads wider than hidden over their number have no column
        "params_b": "0.59605",
        "tokens_per_s_per_gpu": "42647",
        "software": "torchtitan",
        "tp": "2",
        "pp": "2",
        "cp": "1",
        "ep": "1",
        "n_gpus": "16",
        "global_batch": "48",
        "seq": "4096",
    }
    assert "1 lines of validation left out" in found.said


def test_torchtitan_says_its_model_batch_and_card():
    lines = [
        "Building 1-D device mesh with ['dp_shard'], [8]",
        "Building llama3 8B with TransformerModelArgs(dim=4096)",
        "CUDA capacity: NVIDIA H100 with 94.99GiB memory",
        "Trainer is initialized with local batch size 1, global batch size 8, gradient accumulation steps 1, "
        "sequence length 8192, total steps 1000",
        "\x1b[31mstep:  1  \x1b[32mloss: 12.2  \x1b[34mtps: 101  \x1b[35mmfu: 0.5%",
        "step: 10  loss: 10.2  tps: 6,001  tflops: 347.2  mfu: 35.1%",
        "step: 20  loss: 9.1  tps: 6,003  tflops: 347.2  mfu: 35.1%",
    ]
    log = "\n".join(f"[rank0]:[titan] 2026-01-01 00:00:00,000 - root - INFO - {line}" for line in lines)
    (row,) = read_output(log, "mine.log").rows
    assert row["tokens_per_s_per_gpu"] == "6003"
    says = {"model": "llama 3 8B", "global_batch": "8", "seq": "8192", "gpu": "NVIDIA H100"}
    assert {key: row[key] for key in says} == says


def test_requests_without_a_concurrency_are_those_in_flight_on_average():
    """Little's law: 252 tokens/s in answers of 114, each 38 ms and 113 times 6.3 ms long, are 1.65 at a time."""
    found = reading("vllm_bench.json")
    assert (found.kind, found.rows[0]["concurrency"]) == ("serving online", "2")
    assert "requests came all at once: 2 in flight on average (throughput times latency)" in found.said
    one = json.loads((FILES / "vllm_bench.json").read_text(encoding="utf-8"))
    paced = read_output(json.dumps(one | {"request_rate": 2.0}), "x")
    assert "requests came at 2.0 a second: 2 in flight on average (throughput times latency)" in paced.said


def test_a_throughput_without_times_is_that_of_a_full_queue():
    table = """\
============ Serving Benchmark Result ============
Successful requests:                     100
Total input tokens:                      99744
Total generated tokens:                  100000
Output token throughput (tok/s):         2425.01
"""
    found = read_output(table, "x")
    assert (found.kind, dict(found.rows[0])) == (
        "inference",
        {"software": "vLLM", "isl": "997", "osl": "1000", "output_tok_s_total": "2425.01"},
    )


def test_an_argument_that_a_cut_log_lacks_is_not_taken_for_off():
    row = reading("megatron_756.log").rows[0]
    assert not {"gated", "recompute", "seq_parallel", "dp_overlap", "model"} & set(row)


def test_a_report_of_trtllm_bench_is_read_as_its_print_is():
    report = {
        "engine": {"model": "meta-llama/Llama-3.1-70B-Instruct", "version": "0.16.0", "dtype": "bfloat16"},
        "world_info": {"tp_size": 8, "pp_size": 1},
        "request_info": {"num_requests": 3000, "avg_input_length": 2048.0, "avg_output_length": 128.0},
        "performance": {"system_output_throughput_tok_s": 1899.9652},
    }
    report["engine"]["quantization"] = "FP8"
    assert read_output(json.dumps(report), "x").rows == reading("trtllm_bench.txt").rows


def test_genai_perf_keeps_its_concurrency_elsewhere():
    one = json.loads((FILES / "aiperf.json").read_text(encoding="utf-8"))
    del one["aiperf_version"]
    one["input_config"] = {"model_names": ["llama-3.1-8b"], "perf_analyzer": {"stimulus": {"concurrency": 100}}}
    found = read_output(json.dumps(one), "x")
    assert (found.program, found.rows[0]["concurrency"], found.rows[0]["model"]) == (
        "genai-perf",
        "100",
        "llama-3.1-8b",
    )


def test_answers_that_come_whole_and_answers_too_long_are_said():
    """Without streaming the first token comes with the last; genai-perf 24.12 counts answers five times."""
    assert any("no streaming" in said for said in reading("genai_perf_whole.json").said)
    assert any("2565.86 tokens where 500 were asked for" in said for said in reading("genai_perf.json").said)
    first = {"input_config": {}, "records": {"Time to First Token": {"avg": 30.5}}}
    with pytest.raises(ValueError, match="it has no output_token_throughput"):
        read_output(json.dumps(first), "x")
    first["records"]["Output Token Throughput"] = {"avg": 800.0}
    assert read_output(json.dumps(first), "x").rows[0] == {"ttft_ms": "30.5", "output_tok_s_total": "800"}


def test_the_gpus_of_a_host_are_not_those_of_a_run_and_what_crashed_is_left_out():
    text = (FILES / "wandb_runs.csv").read_text(encoding="utf-8")
    with pytest.raises(
        ValueError, match=r"none of its metrics says how fast a run is: Created, .* and 1 more; known: it"
    ):
        read_output(text, "x")
    heading, *lines = text.splitlines()
    fast = [f'{heading},"perf/step_time_seconds"', *(f'{line},"2.5"' for line in lines)]
    found = read_output("\n".join(fast), "x")
    assert [row["row_id"] for row in found.rows] == ["throughput-3b-4n-2422302", "throughput-3b-1n-2422296"]
    says = {"gpus_per_node": "4", "n_gpus": None, "gpu": "NVIDIA GH200 120GB", "layers": "32", "step_time_s": "2.5"}
    assert {key: found.rows[0].get(key) for key in says} == says
    assert "left out, for they crashed, failed or were killed: throughput-3b-4n-2422309" in found.said


def test_a_chart_leaves_out_the_warm_up_by_its_steps():
    rows = ["Step,a - train/step_time_s,a - train/step_time_s__MIN"]
    rows += [f"{step},{9 if step == 0 else 2},0" for step in range(0, 60, 10)]
    assert read_output("\n".join(rows), "x").said == (
        "a, train/step_time_s: median of 4 lines, 2 s (2 s to 2 s); 2 lines with warm-up left out",
    )


def test_a_chart_of_weights_and_biases_is_a_row_a_run():
    rows = ["Step,a - iteration-time,a - iteration-time__MIN,a - iteration-time__MAX,b - iteration-time,a - train/loss"]
    rows += [f"{step},{9 if step < 5 else 2},0,0,{3 if step > 4 else ''},1.6" for step in range(12)]
    found = read_output("\n".join(rows), "x")
    assert [(row["row_id"], row["step_time_s"]) for row in found.rows] == [("a", "2"), ("b", "3")]
    assert found.unused == ("a - train/loss",)


def test_a_chart_without_a_speed_says_which_metrics_have_one():
    with pytest.raises(ValueError, match=r"none of its metrics says how fast a run is: loss; known: iteration-time"):
        read_output("Step,a - loss,a - loss__MIN\n1,2,2\n", "x")
    with pytest.raises(ValueError, match="how fast a run is: train/loss; known"):  # once, of two runs
        reading("wandb_chart.csv")


def test_a_table_of_runs_of_weights_and_biases_keeps_its_configuration():
    heading = '"Name","State","Created","Runtime","gbs","seq_len","lr","throughput/device/tokens_per_sec"'
    found = read_output(f"{heading}\nr1,finished,x,9,64,4096,3e-4,812.5\n", "x")
    says = {"row_id": "r1", "global_batch": "64", "seq": "4096", "tokens_per_s_per_gpu": "812.5"}
    assert dict(found.rows[0]) == says
    assert set(found.unused) == {"State", "Created", "Runtime", "lr"}


# --- Lists of jobs ---------------------------------------------------------------------------------------------------

SACCT = """\
JobID|User|State|Submit|Start|End|Elapsed|Timelimit|AllocTRES
1|ann|COMPLETED|2025-01-01T00:00:00|2025-01-01T01:00:00|2025-01-01T03:00:00|02:00:00|1-00:00:00|billing=8,cpu=64,gres/gpu=8,node=1
1.batch|ann|COMPLETED|2025-01-01T00:00:00|2025-01-01T01:00:00|2025-01-01T03:00:00|02:00:00||cpu=64
2|bob|PENDING|2025-01-01T00:30:00|Unknown|Unknown|00:00:00|UNLIMITED|
3|bob|CANCELLED by 7|2025-01-01T02:00:00|2025-01-01T02:00:30|2025-01-01T02:10:30|00:10:00|01:00:00|gres/gpu:h100=2
"""


def test_a_list_of_slurm_has_waits_spans_and_gpus():
    jobs = read_output(SACCT, "x")
    assert (jobs.names, jobs.users) == (("1", "2", "3"), ("ann", "bob", "bob"))
    np.testing.assert_array_equal(jobs.gpus, [8, np.nan, 2])
    assert [row[:2] for row in jobs.by_size()[1:]] == [("0", "1"), ("2 to 7", "1"), ("8", "1")]
    np.testing.assert_array_equal(jobs.wait, [3600, np.nan, 30])
    np.testing.assert_array_equal(jobs.duration, [7200, 0, 600])
    np.testing.assert_array_equal(jobs.limit, [86400, np.nan, 3600])
    assert jobs.state == ("COMPLETED", "PENDING", "CANCELLED")
    assert jobs.unread == {"steps of jobs": 1}
    assert jobs.gpu_seconds == 8 * 7200 + 2 * 600


def test_a_table_of_columns_and_other_separators_say_the_same():
    rows = [[cell.split(" ")[0] for cell in line.split("|")] for line in SACCT.splitlines()]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    rows.insert(1, ["-" * width for width in widths])
    table = "\n".join(" ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)
    assert repr(read_output(table, "x")) == repr(read_output(SACCT, "x"))
    assert read_output(table, "x").by_size() == read_output(SACCT, "x").by_size()
    assert repr(read_output(SACCT.replace("|", ";"), "x")) == repr(read_output(SACCT, "x"))
    assert read_output(SACCT.replace("|ann|", '|"ann|'), "x").users == ('"ann', "bob", "bob")  # sacct quotes nothing
    commas = SACCT.replace("billing=8,cpu=64,gres/gpu=8,node=1", '"cpu=64,gres/gpu=8"').replace("|", ",")
    assert repr(read_output(commas, "x")) == repr(read_output(SACCT, "x"))


def test_a_public_list_of_slurm_counts_gpus_and_leaves_jobs_without_out():
    jobs = reading("sacct_oxford.txt")
    np.testing.assert_array_equal(jobs.gpus, [np.nan, 2, 2, 1, np.nan, 1])
    found = queued(jobs)
    assert dict(found.unread) == {"steps of jobs": 1, "jobs without GPUs": 2}
    assert found.jobs.gpus.tolist() == [2, 2, 1, 1]
    assert found.waited.tolist() == [0, 1, 0, 1]


def test_tabs_and_a_list_without_states_are_read():
    quoted = SACCT.replace("ann", 'a"n').replace("|", "\t")  # a tab quotes nothing either
    assert read_output(quoted, "x").users == ('a"n', "bob", "bob")
    bare = "JobID|Submit|Start|End|ReqNodes|Timelimit|\n9|2018-12-31T08:27|2018-12-31T08:27|2019-01-01T08:27|7|1-00:00|"
    jobs = read_output(bare, "x")
    assert (jobs.nodes.tolist(), jobs.duration.tolist(), jobs.limit.tolist()) == ([7], [86400], [86400])


def test_a_list_of_slurm_without_times_says_what_to_print():
    with pytest.raises(
        ValueError, match=r"sacct_table\.txt: not read .*without Submit and Start.*sacct -a -X --parsable2"
    ):
        reading("sacct_table.txt")


def test_jobs_that_start_before_they_are_submitted_are_refused():
    with pytest.raises(ValueError, match="1 jobs of Slurm start before they are submitted"):
        read_output(SACCT.replace("2025-01-01T01:00:00", "2024-01-01T01:00:00", 1), "x")


def test_a_list_of_kubernetes_multiplies_pods():
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "j", "namespace": "team", "creationTimestamp": "2025-01-01T00:00:00Z"},
        "spec": {
            "parallelism": 4,
            "activeDeadlineSeconds": 7200,
            "template": {"spec": {"containers": [{"resources": {"limits": {"nvidia.com/gpu": "8", "cpu": "9"}}}]}},
        },
        "status": {"startTime": "2025-01-01T00:01:00Z", "completionTime": "2025-01-01T01:01:00Z"},
    }
    jobs = read_output(json.dumps({"apiVersion": "v1", "kind": "List", "items": [job, {"kind": "Service"}]}), "x")
    assert (jobs.program, jobs.users, float(jobs.gpus[0])) == ("Kubernetes", ("team",), 32.0)
    assert (float(jobs.wait[0]), float(jobs.duration[0]), float(jobs.limit[0])) == (60, 3600, 7200)
    assert jobs.unread == {"objects that are neither jobs nor pods": 1}
    job["spec"]["activeDeadlineSeconds"] = "long"
    with pytest.raises(ValueError, match=r"job j: .*'long'"):
        read_output(json.dumps(job), "x")


def test_pods_end_with_their_containers_and_failed_jobs_when_they_fail():
    whole = json.loads((FILES / "pods.json").read_text(encoding="utf-8"))
    running = read_output(json.dumps(whole), "x")
    assert (running.state, running.wait.tolist(), np.isnan(running.duration[0])) == (("Running",), [0], True)
    state = whole["items"][0]["status"]["containerStatuses"][0]["state"]
    state |= {"terminated": {"finishedAt": "2022-12-23T10:36:45Z"}}
    assert read_output(json.dumps(whole["items"]), "x").duration.tolist() == [3600]  # a bare list, as jq prints it
    failed = {"type": "Failed", "status": "True", "lastTransitionTime": "2025-01-01T00:31:00Z"}
    status = {"startTime": "2025-01-01T00:01:00Z", "conditions": [failed]}
    job = {"kind": "Job", "metadata": {"creationTimestamp": "2025-01-01T00:00:00Z"}, "status": status}
    assert read_output(json.dumps({"items": [job]}), "x").duration.tolist() == [1800]


def test_replicas_of_every_kind_are_counted():
    pod = {"template": {"spec": {"containers": [{"resources": {"limits": {"nvidia.com/gpu": 8}}}]}}}
    kinds = {
        "PyTorchJob": {"pytorchReplicaSpecs": {"Master": {"replicas": 1, **pod}, "Worker": {"replicas": 3, **pod}}},
        "JobSet": {"replicatedJobs": [{"replicas": 2, "template": {"spec": {"parallelism": 2, **pod}}}]},
        "Job": {"tasks": [{"replicas": 4, **pod}]},  # Volcano's
    }
    for kind, spec in kinds.items():
        one = {"kind": kind, "metadata": {"creationTimestamp": "2025-01-01T00:00:00Z"}, "spec": spec}
        assert read_output(json.dumps({"items": [one]}), "x").gpus.tolist() == [32], kind
