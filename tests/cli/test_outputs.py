"""Outputs of programs on the command line: public files, each read, completed and predicted by one command."""

import json
from pathlib import Path

import pytest

from clusterlab.cli import main

FILES = Path(__file__).parents[1] / "evidence" / "files"


def told(capsys, *arguments, status=0):
    assert main(["validate", *map(str, arguments)]) == status
    return capsys.readouterr()


def test_a_log_is_validated_with_what_it_lacks(capsys):
    given = ("--model", "mixtral-8x7b", "--accelerator", "h100", "--gpus", "16", "--set", "seq=2048", "--set", "pp=4")
    said = told(capsys, FILES / "megatron_756.log", *given).out
    assert "step: median of 3 lines, 5.53 s (5.44 s to 5.72 s); none of it warm-up" in said
    assert "you say model mixtral-8x7b, gpu h100, n_gpus 16, seq 2048, pp 4" in said
    assert "5.53 s" in said.partition("predicted")[2]


def test_a_log_without_what_it_lacks_asks_once(capsys):
    heard = told(capsys, FILES / "maxtext_v5p.log", status=2).err
    assert heard.count("\n") == 1
    assert heard.endswith("it doesn't say gpu: give --accelerator\n")


def test_the_batch_of_a_trainer_makes_its_samples_a_step(capsys):
    given = (
        "--model",
        "Llama 2 7B",
        "--accelerator",
        "A100",
        "--gpus",
        "1",
        "--set",
        "seq=4096",
        "--set",
        "global_batch=32",
    )
    said = json.loads(told(capsys, FILES / "train_results.json", *given, "--json").out)
    assert said["rows"][0]["measured"] == pytest.approx(32 / 0.749)
    assert said["output"]["program"] == "the summary of a Hugging Face Trainer"


def test_a_benchmark_of_serving_is_validated(capsys):
    said = told(capsys, FILES / "trtllm_bench.txt", "--accelerator", "H100").out
    assert "1,900 tokens/s" in said
    given = ("--accelerator", "gh200", "--model", "Qwen2.5 7B")
    said = json.loads(told(capsys, FILES / "sglang_bench.jsonl", *given, "--json").out)
    assert said["rows"][0]["measures"]["ttft"]["measured"] == pytest.approx(0.04244891826)
    assert said["rows"][0]["measures"]["throughput"]["measured"] == pytest.approx(3151.439491)


def test_jobs_and_collectives_are_recognised(capsys, tmp_path):
    jobs = tmp_path / "jobs.txt"
    jobs.write_text("JobID|State|Submit|Start|End\n1|X|2025-01-01T00:00:00|2025-01-01T01:00:00|2025-01-01T03:00:00\n")
    assert "jobs of Slurm" in told(capsys, jobs).out
    assert json.loads(told(capsys, jobs, "--json").out)["jobs"] == 1
    said, heard = told(capsys, FILES / "nccl_pair.log")
    assert "all-to-all" in said
    assert "assumed, as in reference servers of H100 SXM: InfiniBand NDR between nodes" in heard
    text = (FILES / "nccl_pair.log").read_text(encoding="utf-8").replace("NVIDIA H100 80GB HBM3", "Some GPU")
    unknown = tmp_path / "nccl.log"
    unknown.write_text(text)
    heard = told(capsys, unknown, status=2).err
    assert "a prediction needs the links" in heard
    assert "clusterlab predict takes what a log does not say" in heard


def test_what_serves_has_a_name_of_serving(capsys):
    """AIPerf doesn't say its server: ``--software`` is of what serves there, and of what trains elsewhere."""
    given = (FILES / "aiperf.json", "--accelerator", "RTX 5090", "--gpus", "1", "--software", "vLLM")
    said = json.loads(told(capsys, *given, "--json").out)
    assert said["output"]["rows"][0]["software"] == "vLLM"
    assert "unknown software 'vLLM'" in told(capsys, FILES / "maxtext_v5p.log", "--software", "vLLM", status=2).err


def test_options_of_outputs_are_refused_beside_a_table(capsys, tmp_path):
    table = tmp_path / "runs.csv"
    table.write_text("model,gpu,n_gpus,tp,pp,global_batch,seq,step_time_s\nLlama 3.1 8B,H100,64,4,1,256,4096,3\n")
    heard = told(capsys, table, "--gpus", "8", "--set", "tp=8", status=2).err
    assert heard == f"--gpus, --set go with the output of a program; {table} is a table, with columns for it\n"
    assert "must be COLUMN=VALUE, got 'tp'" in told(capsys, FILES / "maxtext_v5p.log", "--set", "tp", status=2).err


def test_columns_that_were_not_used_are_listed(capsys, tmp_path):
    table = tmp_path / "runs.csv"
    table.write_text("model,gpu,n_gpus,tp,pp,gbs,seq_len,Commit,step_time_s\nLlama 3.1 8B,H100,64,4,1,256,4096,3f,3\n")
    assert told(capsys, table).err == "columns that were not used: Commit\n"


@pytest.mark.parametrize("kind", ["training", "serving"])
def test_a_template_is_a_table_that_can_be_read(kind, capsys, tmp_path):
    table = tmp_path / "mine.csv"
    table.write_text(text := told(capsys, "--template", kind).out)
    heading = next(line for line in text.splitlines() if not line.startswith("#")).split(",")
    asked = {"training": {"cp", "vpp", "mfu_pct", "software"}, "serving": {"concurrency", "ttft_ms", "software"}}
    assert asked[kind] <= set(heading)
    assert "skipped" not in told(capsys, table).out


def test_a_log_of_one_run_is_explained_without_a_row(capsys):
    """What it says and what its owner says come first, then the parts of the step."""
    log = str(FILES / "maxtext_v5p.log")
    assert main(["explain", log, "--accelerator", "TPU v5p"]) == 0
    said = capsys.readouterr().out
    assert said.startswith(f"{log}: a log of MaxText")
    assert "you say gpu TPU v5p" in said
    assert "not explained" in said
    assert main(["explain", log, "--accelerator", "TPU v5p", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["output"]["rows"][0]["step_time_s"] == "5.668"
    assert told["measured"] == 5.668
    assert main(["explain", str(FILES / "vllm_bench.json")]) == 2
    assert "says nothing of a training run" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["validate", "explain"])
@pytest.mark.parametrize(
    "text", ['{"metrics": {"mfu": 23.7}}\n', "nohup: ignoring input\nCleaning up\n", "[Sun Feb 23] NVRM\n"]
)
def test_what_is_no_output_and_no_table_is_told_so(capsys, tmp_path, command, text):
    """Three heads of public files: a benchmark's own JSON, what nohup kept, a kernel's log."""
    (tmp_path / "mine").write_text(text)
    assert main([command, str(tmp_path / "mine"), "--accelerator", "H100 SXM"]) == 2
    heard = capsys.readouterr().err
    assert heard.count("\n") == 1
    assert "mine: no reader knows it, and its first line is no heading of a table; read are outputs of" in heard
