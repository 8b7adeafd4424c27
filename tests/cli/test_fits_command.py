"""The commands ``fits``, ``expect``, ``mfu`` and ``queue``: what they print, as one object too, and how they refuse."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest

from clusterlab.cli import main
from clusterlab.evidence import parse_jobs, queued
from clusterlab.operations import Cluster, Jobs, draw_jobs, simulate_cluster
from clusterlab.planning import Site, Training, fitting

# --- fits ------------------------------------------------------------------------------------------------------------

EIGHT = ["fits", "--model", "Llama 3.1 8B", "--accelerator", "H100 SXM", "--gpus", "8", "--global-batch", "64"]
RUN = Training("Llama 3.1 8B", 1e12, global_batch=64)
HALL = Site("H100 SXM", gpus=8)


def test_what_fits_is_listed_fastest_first_each_cut_once():
    found = fitting(RUN, HALL, most=6)
    times = [float(one.step.time) for one in found.fits]
    cuts = {(one.layout.tp, one.layout.pp, one.layout.cp, one.layout.ep, one.layout.zero) for one in found.fits}
    assert times == sorted(times)
    assert len(cuts) == len(found.fits) == 6
    for one in found.fits:
        assert one.layout.gpus == 8
        assert one.memory.total <= found.room == pytest.approx(72e9)
        assert one.memory.low < one.memory.total < one.memory.high
        assert one.tight(80e9) == (one.memory.high > 80e9)
        assert one.step.low < one.step.time < one.step.high


def test_without_a_stack_the_interval_is_that_of_any():
    named, unnamed = (fitting(RUN, replace(HALL, software=name), most=1).fits[0].step for name in ("NeMo 25.04", None))
    assert unnamed.spread_high / unnamed.spread_low > named.spread_high / named.spread_low


def test_the_optimizer_on_the_host_frees_its_bytes_and_takes_the_link():
    found = fitting(
        RUN, replace(HALL, layout={"tp": 1, "pp": 1, "microbatch": 1, "zero": 1, "recompute": "full"}), most=1
    )
    one, host = found.fits[0], found.offloaded
    assert host.layout == one.layout
    assert host.offloaded == pytest.approx(12 * 8.03e9 / 8, rel=1e-3)  # 12 bytes a parameter, over eight ranks
    assert one.memory.total - host.memory.total == pytest.approx(host.offloaded)
    assert host.crossing == pytest.approx(4 * 8.03e9 / 8 / 63e9, rel=0.02)  # FP32 gradients over PCIe 5.0
    assert host.time == host.step.time + host.crossing


def test_where_nothing_fits_the_host_may_still_help(capsys):
    asked = ["fits", "--model", "Llama 3.1 70B", "--accelerator", "H100 SXM", "--gpus", "8", "--global-batch", "64"]
    assert main(asked) == 3
    heard = capsys.readouterr()
    assert re.match(r"The optimizer on the host: .* so it would fit\.\n", heard.out)
    assert heard.err.startswith("nothing fits: the nearest needs 161 GB of 72 GB")
    assert main([*asked, "--json"]) == 3
    found = json.loads(capsys.readouterr().out)
    assert found["fits"] == []
    assert found["on_host"]["step"]["low"] < found["on_host"]["step"]["high"]


def test_the_command_prints_both_intervals_and_memory_by_part(capsys):
    assert main([*EIGHT, "--most", "2"]) == 0
    out = capsys.readouterr().out
    heading, first, second = out.splitlines()[:3]
    assert heading.split() == [
        "layout",
        "step",
        "MFU",
        "memory",
        "weights",
        "gradients",
        "optimizer",
        "activations",
        "other",
    ]
    for line in (first, second):
        assert len(re.findall(r"\([\d.]+.* to [\d.]+", line)) >= 1
        assert line.count("(") == 2
    assert re.search(r"^[\d,]+ of [\d,]+ layouts fit in 72 GB of 80 GB\.", out, re.MULTILINE)
    assert "software not named: x" in out


@pytest.mark.parametrize(
    ("more", "why"),
    [
        (["--layout", "pue=nan"], "unknown input 'pue'"),
        (["--gpus", "0"], "gpus must be a whole number of at least 1, got 0"),
        (["--memory", "2TB"], "memory must be at most the 80 GB"),
        (["--most", "0"], "most must be a whole number from 1 to 1,000"),
        (["--layout", "tp=8,tp=8"], "layout has tp twice"),
        (["--layout", "zero=7"], "zero must be from 0 to 3"),
        (["--model", "Lama 3.1 8B"], "did you mean 'Llama 3.1 8B'"),
        (["--sequence", "0.5"], "sequence must be a whole number"),
    ],
)
def test_what_cannot_be_laid_out_is_said(more, why, capsys):
    assert main([*EIGHT, *more]) == 2
    assert why in capsys.readouterr().err


# --- expect ----------------------------------------------------------------------------------------------------------

LOG = """# nThread 1 nGpus 8 minBytes 33554432 maxBytes 8589934592 step: 4(factor) warmup iters: 5 iters: 20
#
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
    33554432       8388608     float     sum      -1    {slow:.1f}   {slow_rate:.2f}  {slow_bus:.2f}      0    130.0  258.11  451.69      0
  2147483648     536870912     float     sum      -1   7913.0  271.39  474.93      0   7912.0  271.42  474.99      0
"""  # noqa: E501


def test_a_collective_is_printed_by_size_and_a_log_beside_it(capsys, tmp_path):
    asked = ["expect", "--accelerator", "H100", "--gpus", "8"]
    assert main(asked) == 0
    out = capsys.readouterr().out
    assert out.startswith("all-reduce on 8 H100 SXM\nsize ")
    assert re.search(r"^GEMM, bf16 +[\d.]+ TFLOP/s \(\d+ to \d+\) +\d+ rows of H100 SXM$", out, re.MULTILINE)
    slow = 900.0  # us, where some 130 are usual
    rate = 33554432 / slow / 1e3
    (tmp_path / "log.txt").write_text(LOG.format(slow=slow, slow_rate=rate, slow_bus=rate * 1.75))
    assert main([*asked, "--log", str(tmp_path / "log.txt")]) == 0
    rows = capsys.readouterr().out.splitlines()[2:4]
    assert rows[0].endswith("slow")
    assert rows[1].endswith("as expected")


def test_a_step_and_one_object(capsys):
    asked = ["expect", "--accelerator", "H200 SXM", "--gpus", "16", "--model", "Llama 3.1 8B", "--global-batch", "64"]
    assert main([*asked, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["collective"]["ranks"] == 16
    assert all(row["low"] < row["predicted"] < row["high"] for row in found["collective"]["rows"])
    assert found["step"]["low"] < found["step"]["predicted"] < found["step"]["high"]
    assert all(one["low"] <= one["predicted"] <= one["high"] for one in found["single"])


@pytest.mark.parametrize(
    ("more", "why"),
    [
        (["--accelerator", "H1000"], "unknown accelerator 'H1000'"),
        (["--collective", "gossip"], "operation must be one of all-reduce"),
        (["--gpus", "0"], "gpus must be a whole number from 1"),
        (["--gpus", "12"], "ranks must be two or more that fill nodes of 8"),
        (["--precision", "fp5"], "unknown precision 'fp5'"),
        (["--model", "Llama 3.1 405B"], "the nearest needs"),
        (["--sharp"], "sharp is for an all-reduce over nodes"),
    ],
)
def test_what_cannot_be_expected_is_said(more, why, capsys):
    assert main(["expect", "--accelerator", "H100 SXM", "--gpus", "8", *more]) == 2
    assert why in capsys.readouterr().err


# --- mfu -------------------------------------------------------------------------------------------------------------

RATE = ["mfu", "--model", "Llama 3.1 8B", "--accelerator", "H100", "--gpus", "8"]


def test_the_field_s_mfu_and_others_ways(capsys):
    assert main([*RATE, "--tokens-per-second", "64000"]) == 0
    out = capsys.readouterr().out
    # 3 x the forward FLOPs by hand: 2 x 7.5B multiplying parameters and 4 s h a layer of attention, at 8,192 tokens.
    flops = 3 * (2 * (8_030_261_248 - 128256 * 4096 - 65 * 4096) + 4 * 8192 * 4096 * 32)
    assert f"As the field counts it: {flops * 8000 / 989.4e12:.1%}.".replace(".", "", 0) in out.replace("%.", "%.")
    assert "all experts" not in out  # of a dense model


@pytest.mark.parametrize(
    ("more", "way"),
    [
        (["--tokens-per-second", "142k", "--precision", "fp8", "--claimed", "104%"], "against the dense bf16 peak"),
        (["--tokens-per-second", "64k", "--claimed", "23.4%"], "against the dense fp8 peak"),
        (["--tokens-per-second", "64k", "--claimed", "0.416"], "attention causal (half)"),
        (["--tokens-per-second", "64k", "--recompute", "full", "--claimed", "61.6%"], "with what is recomputed (HFU)"),
    ],
)
def test_a_claim_gets_its_reason(more, way, capsys):
    assert main([*RATE, *more]) == 0
    claim = next(line for line in capsys.readouterr().out.splitlines() if ": it is this run " in line)
    assert way in claim


def test_more_than_all_is_said_not_to_be_possible(capsys):
    assert main([*RATE, "--tokens-per-second", "142k"]) == 0
    out = capsys.readouterr().out
    assert "As the field counts it: 104%." in out
    assert "More than 100 % is not possible" in out
    assert "It would be 51.9% against the dense fp8 peak." in out


def test_a_step_time_is_a_rate_and_json_is_one_object(capsys):
    assert main([*RATE, "--step-time", "8.192s", "--global-batch", "64", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["tokens_per_second"] == pytest.approx(64_000)
    assert found["mfu"] == found["ways"][0]["mfu"]


def test_a_rate_that_nobody_has_is_said_to_be_unlikely(capsys):
    assert main([*RATE, "--tokens-per-second", "1e11"]) == 0
    assert capsys.readouterr().err == "unlikely: 1.25e+10 tokens a second of one accelerator\n"


@pytest.mark.parametrize(
    ("more", "why"),
    [
        (["--tokens-per-second", "-3"], "tokens-per-second must be above zero, got -3"),
        (["--tokens-per-second", "many"], "tokens-per-second: cannot read 'many'"),
        (["--tokens-per-second", "1e308"], "tokens_per_second must be at most 1e+60"),
        (["--step-time", "6", "--global-batch", "8"], "cannot read '6'; write it as 60d or 12h or 30s, with its unit"),
        (["--step-time", "6s"], "--step-time needs --global-batch"),
        (["--step-time", "0s", "--global-batch", "8"], "step-time must be above zero"),
        (["--tokens-per-second", "1k", "--claimed", "0"], "claimed must be a share above 0"),
        (["--tokens-per-second", "1k", "--precision", "fp4"], "has no 'fp4' peak"),
        (["--tokens-per-second", "1k", "--recompute", "some"], "recompute must be one of"),
    ],
)
def test_what_is_no_rate_is_said(more, why, capsys):
    assert main([*RATE, *more]) == 2
    heard = capsys.readouterr()
    assert why in heard.err
    assert heard.out == ""


# --- queue -----------------------------------------------------------------------------------------------------------


def as_sacct(jobs: Jobs, start, limits) -> str:
    """Jobs as sacct prints them, with a step of each and one that still waits."""

    def time(seconds: float) -> str:
        return str(np.datetime64("2025-03-01T00:00:00") + np.timedelta64(int(seconds), "s"))

    lines = ["JobID|User|Partition|Submit|Start|End|Timelimit|AllocNodes|AllocTRES"]
    for i, (limit, begin) in enumerate(zip(limits, start, strict=True)):
        tres = f"billing=8,gres/gpu={jobs.gpus[i]},node=1"
        times = "|".join(map(time, (jobs.arrival[i], begin, begin + jobs.duration[i])))
        minutes, rest = divmod(int(limit), 60)
        said = f"{minutes // 1440}-{minutes % 1440 // 60:02d}:{minutes % 60:02d}:{rest:02d}"
        lines += [f"{i}|me|gpu|{times}|{said}|1|{tres}", f"{i}.batch|||{times}||1|"]
    return "\n".join([*lines, "999|me|gpu|2025-03-09T00:00:00|Unknown|Unknown|UNLIMITED|1|gres/gpu=8"])


@pytest.fixture(scope="module")
def listed():
    drawn = draw_jobs({2: (0.4, 3600), 8: (0.4, 7200), 32: (0.2, 9000)}, gpus=64, load=0.9, jobs=150)
    jobs = Jobs(np.floor(drawn.arrival), drawn.gpus, np.ceil(drawn.duration), limit=np.ceil(drawn.duration) * 3)
    made = simulate_cluster(jobs, Cluster(8, 8, rack=1), policy="backfill")
    return as_sacct(jobs, made.start, jobs.limit), jobs, made


def test_a_list_of_sacct_is_read_and_its_own_policy_found_again(listed):
    text, jobs, made = listed
    read = parse_jobs(text, "jobs.txt")
    assert read.ignored == ("Partition",)
    assert read.users == ("me",) * 151
    found = queued(read)
    assert found.unread == {"steps of jobs": 150, "jobs without a start or an end": 1}
    assert found.nodes == 8
    first = jobs.arrival[0]
    np.testing.assert_array_equal(found.jobs.arrival, np.sort(jobs.arrival) - first)
    np.testing.assert_allclose(np.sort(found.waited), np.sort(np.floor(made.wait)), atol=1)
    assert found.jobs.limit.sum() == jobs.limit.sum()


def test_the_command_prints_waits_by_size_under_each_policy(listed, tmp_path, capsys):
    text, _, made = listed
    (tmp_path / "jobs.txt").write_text(text)
    assert main(["queue", str(tmp_path / "jobs.txt"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["nodes"] == 8
    assert found["policies"]["backfill (EASY)"]["all"]["mean"] == pytest.approx(float(np.mean(made.wait)), rel=0.02)
    assert found["as_it_was"]["all"]["mean"] == pytest.approx(float(np.mean(made.wait)), rel=0.02)
    assert found["policies"]["first come, first served"]["all"]["mean"] > found["as_it_was"]["all"]["mean"]
    assert main(["queue", str(tmp_path / "jobs.txt"), "--most", "40"]) == 0
    heard = capsys.readouterr()
    assert heard.out.startswith("wait of jobs of")
    assert "limits are 3 times the run (median)" in heard.out
    assert "the first 40 of 150 jobs" in heard.err
    assert "left out: 150 steps of jobs" in heard.err


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "the file is empty"),
        ("JobID|Start|End\n1|2|3", "a list of Slurm without Submit says nothing of waits: sacct -a -X"),
        ("JobID|Submit|Start|End\n1|2|3|4", "says neither GPUs nor nodes (AllocNodes or NNodes); print it with sacct"),
        ("Submit,Start,End,NNodes\n1,2,3,some", "line 2: nodes must be a whole number, got 'some'"),
        ("Submit,Start,End,NNodes\nyesterday,2,3,1", "line 2: cannot read the time 'yesterday'"),
        ("Submit,Start,End,NNodes,Timelimit\n1,2,3,1,long", "line 2: cannot read the limit 'long'"),
        ("Submit,Start,End,NNodes\n\n# mine\n1,2,3,1\n1,2,soon,1", "line 5: cannot read the time 'soon'"),
        ("Submit,Start,End,NNodes\n1,Unknown,Unknown,1", "no job that ran (1 jobs without a start or an end)"),
        ("Submit,Start,End,NNodes\n", "no jobs of Slurm in it"),
        ("JobID State\n1 RUNNING", "a table of Slurm without its line of dashes: print it with --parsable2"),
    ],
)
def test_what_is_no_job_list_is_said(text, why, tmp_path, capsys):
    (tmp_path / "jobs.csv").write_text(text)
    assert main(["queue", str(tmp_path / "jobs.csv")]) == 2
    heard = capsys.readouterr()
    assert why in heard.err
    assert heard.err.startswith(str(tmp_path / "jobs.csv"))


def test_what_did_not_run_is_left_out_by_its_reason():
    rows = ["0,9,Unknown,1", "0,9,9,1", "9,8,12,1", "0,1,9,", "0,1,9,2"]
    found = queued(parse_jobs("\n".join(["created,started,ended,nodes", *rows]), "x"), node_size=4)
    assert found.unread == {
        "jobs without a start or an end": 1,
        "jobs without GPUs": 1,
        "jobs that ended as they started, or before": 1,
        "jobs that started before they were submitted": 1,
    }
    assert (found.jobs.gpus.tolist(), found.waited.tolist(), found.nodes) == ([8], [1.0], 2)
    heading = "JobID|Submit|Start|End|Elapsed|NNodes"
    found = queued(parse_jobs(f"{heading}\n1|0|9|Unknown|00:00:07|1\n2|0|9|19|00:00:10|1", "x"))
    assert found.unread == {"jobs that still run": 1}  # however long so far


def test_more_jobs_than_are_simulated_are_refused():
    read = parse_jobs("Submit,Start,End,NNodes\n1,2,3,1", "x")
    arrays = {name: np.repeat(one, 200_001) for name, one in vars(read).items() if isinstance(one, np.ndarray)}
    read = replace(read, state=("",) * 200_001, **arrays)
    with pytest.raises(ValueError, match="200,001 jobs that ran, and no more than 200,000 are simulated: split"):
        queued(read)


def test_a_list_of_kubernetes_is_queued_and_who_has_no_limit_has_the_longest(tmp_path, capsys):
    def job(name: str, start: int, end: int, **spec) -> dict:
        limits = {"containers": [{"resources": {"limits": {"nvidia.com/gpu": "8"}}}]}
        return {
            "kind": "Job",
            "metadata": {"name": name, "creationTimestamp": "2025-01-01T00:00:00Z"},
            "spec": {"template": {"spec": limits}, **spec},
            "status": {"startTime": f"2025-01-01T0{start}:00:00Z", "completionTime": f"2025-01-01T0{end}:00:00Z"},
        }

    items = [job("a", 0, 2, parallelism=2), job("b", 2, 3), job("c", 2, 3)]
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": items})
    found = queued(parse_jobs(text, "x"))
    assert (found.jobs.gpus.tolist(), found.waited.tolist(), found.nodes) == ([16, 8, 8], [0, 7200, 7200], 2)
    assert found.jobs.limit.tolist() == [7200] * 3  # no job has one: the longest run
    assert found.unlimited == 3
    limited = json.dumps({"apiVersion": "v1", "items": [job("a", 0, 2, activeDeadlineSeconds=9000), *items[1:]]})
    assert queued(parse_jobs(limited, "x")).jobs.limit.tolist() == [9000] * 3
    (tmp_path / "jobs.json").write_text(text)
    assert main(["queue", str(tmp_path / "jobs.json")]) == 0
    assert "on 2 nodes of 8; no job has a limit" in capsys.readouterr().out
    assert main(["queue", str(tmp_path / "jobs.json"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["as_it_was"]["all"]["mean"] == found["policies"]["first come, first served"]["all"]["mean"] == 4800


def test_a_list_that_would_fill_the_memory_is_refused_before_it_does(tmp_path, capsys):
    rows = [f"{i},{i},{i + 1},1" for i in range(3000)]
    (tmp_path / "jobs.csv").write_text("\n".join(["Submit,Start,End,NNodes", *rows]))
    assert main(["queue", str(tmp_path / "jobs.csv"), "--nodes", "90000"]) == 2
    assert "3,000 jobs on 90,000 nodes would fill the memory" in capsys.readouterr().err


def test_limits_are_read_as_slurm_prints_them():
    rows = ["10", "90:30", "1:00:00", "2-0:00:00", "1-12", "UNLIMITED"]
    lines = [f"{i},{i},{i + 1},1,{row}" for i, row in enumerate(rows)]
    text = "\n".join(["Submit,Start,End,NNodes,Timelimit", *lines])
    found = queued(parse_jobs(text, "jobs.csv"))
    assert found.jobs.limit.tolist() == [600, 5430, 3600, 172800, 129600, 172800]  # who has none, the longest
    assert found.unlimited == 1
