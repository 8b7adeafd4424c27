"""Inference runs: how a table is read, what is filled in, how far serving is from what was published."""

import csv
import json
from collections import Counter
from dataclasses import replace
from importlib.resources import files

import numpy as np
import pytest

from clusterlab.catalogue import PREDICTION_INTERVALS, SERVING, machine
from clusterlab.cli import main
from clusterlab.cli.commands.validate import inference_table
from clusterlab.evidence import inference_runs
from clusterlab.evidence.inference_runs import (
    FORM,
    at_peak,
    parse_inference,
    predict_inference,
    predict_inference_run,
    published_inference,
    read_inference,
)
from clusterlab.evidence.inference_validation import (
    OF_SOFTWARE,
    compare_inference,
    constant_serving_widths,
    fit_serving,
    inference_kind,
    learn_serving_spreads,
    leave_one_inference_source_out,
    serving_coverage,
)
from clusterlab.evidence.intervals import MANY, symmetric_interval
from clusterlab.model import Layout, transformer
from clusterlab.serving import (
    Batch,
    Formats,
    Replica,
    continuous_batch,
    forward_pass,
    fullest_rank,
    static_batch,
    token_price,
)

CSV = files("clusterlab.evidence") / "data" / "inference.csv"
RUNS, SKIPPED = published_inference()
HEAD = "model,gpu,n_gpus,tp,pp,ep,precision,framework,mode,batch,isl,osl,context_len,tpot_ms,output_tok_s_total,note"


def one(line, head=HEAD):
    runs, skipped = parse_inference(f"{head}\n{line}", "mine.csv")
    assert not skipped, skipped
    return runs[0]


def why(line, head=HEAD):
    runs, skipped = parse_inference(f"{head}\n{line}", "mine.csv")
    assert not runs
    return skipped[0].why


# --- Against what was published --------------------------------------------------------------------------------------


def test_published_runs_are_predicted():
    """The best constant for each source is 54 % off; the goals are 15 % for all, 10 % for static dense batches."""
    scores, overall = compare_inference(RUNS, SKIPPED)
    errors = {found.source: found.mean_abs_error for found in scores}
    assert overall.predicted == 247
    assert [(row.row, row.why) for row in SKIPPED] == [("I0357", "no isl and osl")]
    assert overall.mean_abs_error < 0.115
    assert overall.median_abs_error < 0.07
    assert overall.baseline_mean_abs_error > 0.5
    assert max(errors[source] for source in errors if source.startswith("lmdeploy")) < 0.06
    assert max(errors[f"trtllm_v1_{name}"] for name in ("llama_3.1_8b", "llama_3.3_70b")) < 0.08
    # Mixtures of experts at saturation, and pipelines over PCIe, are the hard part.
    assert max(errors[f"trtllm_v1_{name}"] for name in ("llama_4_scout", "qwen3-30b-a3b", "rtx6000pro")) < 0.22
    # No constant was fitted to PaLM's rows. Cut along one axis of their weights the layers would be 74 % off.
    assert errors["pope_palm"] < 0.18
    palm = [run for run in RUNS if run.source == "pope_palm"]
    along_one = [
        predict_inference_run(run, replace(run.replica.software, two_axes=False)) / run.seconds - 1 for run in palm
    ]
    assert np.mean(np.abs(along_one)) > 0.7


def test_four_fifths_of_a_source_that_nobody_has_fitted_are_inside_its_interval():
    """Neither constants nor interval have seen the source."""
    found = serving_coverage(RUNS)
    rows = Counter(inference_kind(run) for run in RUNS)
    assert found.keys() == rows.keys() | {"all"}
    assert 0.75 <= found["all"] <= 0.85
    for name in [name for name in rows if rows[name] >= MANY and name != "serving: saturated, dense"]:
        assert 0.75 <= found[name] <= 0.87, (name, found[name])
    # A miss: of three sources one is the only one on PCIe, and the other two say nothing of it.
    assert 0.6 <= found["serving: saturated, dense"] <= 0.85
    # 20 rows, of five sources.
    assert 0.75 <= found["serving: one pass"] <= 0.95


def test_stored_intervals_are_those_of_the_rows():
    found = learn_serving_spreads(RUNS)
    offline = {name for name in PREDICTION_INTERVALS if name.startswith("serving") and "online" not in name}
    assert found.keys() == offline
    for name, ends in found.items():
        assert (PREDICTION_INTERVALS[name].low, PREDICTION_INTERVALS[name].high) == pytest.approx(ends, abs=5e-3), name
    widths = constant_serving_widths(RUNS)
    assert all(high / low < widths[name] for name, (low, high) in found.items())


@pytest.mark.parametrize("sources", [3, 6])
def test_an_interval_holds_four_fifths_of_a_further_source(sources):
    """Witness: sources that err normally, and a further one, drawn many times."""
    rng = np.random.default_rng(5)
    names = np.repeat(np.arange(sources), 20)
    inside = []
    for _ in range(400):
        off = 0.2 * rng.standard_normal(sources + 1)
        known = off[names] + 0.05 * rng.standard_normal(names.size)
        low, high = symmetric_interval(np.exp(known), names)
        inside.append(low <= np.exp(off[-1]) <= high)
    assert 0.7 < np.mean(inside) < 0.9


def test_racks_that_no_constant_has_seen():
    """MLPerf 5.1 and 6.0, DeepSeek-R1 on racks of 72: half a year of software is worth more than twice."""
    off = {run.row: predict_inference_run(run) / run.seconds - 1 for run in RUNS if run.row.startswith("P")}
    assert len(off) == 9
    assert np.mean(np.abs(list(off.values()))) < 0.25
    assert -0.55 < off["P0004"] < off["P0005"] < -0.3
    assert abs(off["P0006"]) < 0.1
    racks = [run for run in RUNS if run.source == "mlperf_deepseek_r1"]
    assert all(float(run.replica.layout.dp) == run.replica.machine.domain == 72 for run in racks)


def test_every_prediction_carries_the_interval_of_its_kind():
    """Record, price and table: the same two numbers."""
    for run in RUNS[::17]:
        spread, replica = PREDICTION_INTERVALS[inference_kind(run)], run.replica
        if run.kind == "static":
            found = static_batch(replica, run.requests, sequences=run.sequences)
        elif run.kind == "saturated":
            found = continuous_batch(replica, run.requests)
        else:
            found = forward_pass(replica, Batch(sequences=run.sequences or 1.0, context=run.context))
            assert (found.low, found.high) == (spread.low * found.time, spread.high * found.time)
            continue
        rate = found.tokens_per_second_per_gpu
        assert (found.low, found.high) == pytest.approx((rate / spread.high, rate / spread.low))
        assert token_price(1.0, found.low) == pytest.approx(spread.high * token_price(1.0, rate))


def test_where_constants_are_fitted_more_rows_are_inside():
    _, overall = compare_inference(RUNS)
    assert 0.8 <= overall.coverage < 0.92


def by_row(row):
    run = next(run for run in RUNS if run.row == row)
    return predict_inference_run(run) / run.seconds - 1


def test_deepseek_v3_on_96_h100_apart_in_prefill_and_decode():
    """LMSYS 2025: within 20 % was the goal. Skew and contention are fitted on these rows."""
    assert max(abs(by_row(f"I03{n}")) for n in range(68, 74)) < 0.08


def test_deepseeks_own_deployment_is_predicted_with_no_constant_fitted_to_it():
    """Its profile of 128 GPUs, and its production of February 2025."""
    assert max(abs(by_row(row)) for row in ("I0374", "I0375")) < 0.1
    assert abs(by_row("I0356")) < 0.1
    # A miss: on a whole day prefill is half as fast as on its own profile, and no law here says why.
    assert -0.45 < by_row("I0355") < -0.35
    profile, day = (next(run for run in RUNS if run.row == row) for row in ("I0375", "I0355"))
    assert profile.tokens / profile.seconds / (day.tokens / day.seconds) == pytest.approx(1.95, abs=0.02)


def test_deepseeks_day_takes_as_many_servers_as_published_within_a_fifth():
    """608 billion tokens in, 342 of them from a cache, and 168 billion out: 226.75 servers of eight on average."""
    reading, writing = (next(run for run in RUNS if run.row == row) for row in ("I0355", "I0356"))
    nodes = 266e9 / 86_400 / (8 * reading.tokens / predict_inference_run(reading) / 32)
    nodes += 168e9 / 86_400 / (8 * writing.sequences / predict_inference_run(writing) / 144)
    assert nodes == pytest.approx(226.75, rel=0.2)


H100, SGLANG = machine("H100 SXM"), SERVING["SGLang"]
DECODE = Replica(transformer("DeepSeek-V3"), H100, Layout(dp=72, ep=72), Formats("fp8"), True, 32, SGLANG)
PREFILL = replace(DECODE, layout=Layout(dp=32, ep=32))


def without(replica, batch, **changes):
    return forward_pass(replace(replica, **changes), batch).time / forward_pass(replica, batch).time


def test_two_batches_gain_what_the_ablation_found():
    """LMSYS 2025: 25.5 % at 256 sequences a GPU, 35 % for two tokens a sequence, 27 to 35 % in prefill.

    One half's kernels start while the other half works, so launches count once: 37 and 53 % are more than were found.
    """
    assert without(DECODE, Batch(sequences=72 * 256, context=2050), two_batch_overlap=False) == pytest.approx(
        1.255, abs=0.12
    )
    twice = Batch(sequences=72 * 128, context=4000, verified=2)
    assert without(DECODE, twice, two_batch_overlap=False) == pytest.approx(1.358, abs=0.18)
    for replica, published in ((DECODE, 17_552), (replace(DECODE, two_batch_overlap=False), 12_929)):
        rate = 8 * 128 * 1.6 / forward_pass(replica, twice).time  # six in ten drafts are accepted
        assert rate == pytest.approx(published, rel=0.08)
    reading = Batch(prompt_tokens=32 * 8192, chunk=4096)
    assert 1.25 < without(PREFILL, reading, two_batch_overlap=False) < 1.40
    # Small batches lose. The published turn is between 64 and 128 a GPU, this one between 16 and 32: a miss.
    assert without(DECODE, Batch(sequences=72 * 16, context=2050), two_batch_overlap=False) < 1
    assert without(DECODE, Batch(sequences=72 * 32, context=2050), two_batch_overlap=False) > 1


def test_balancing_gains_what_the_ablation_found():
    """LMSYS 2025: 1.49 times in prefill, 2.54 in decode, against experts as they are: popularities as skewed as 1."""
    skewed = replace(SGLANG, expert_skew=1.0)
    decode = Replica(transformer("DeepSeek-V3"), H100, Layout(dp=64, ep=64), Formats("fp8"), True, 0, skewed)
    loss = forward_pass(decode, Batch(sequences=64 * 256, context=2050)).time
    assert loss / forward_pass(DECODE, Batch(sequences=72 * 256, context=2050)).time == pytest.approx(2.54, rel=0.2)
    reading = Batch(prompt_tokens=32 * 16_384, chunk=4096)
    assert without(PREFILL, reading, software=skewed, redundant=0) == pytest.approx(1.49, rel=0.13)
    assert fullest_rank(64 * 256, experts=256, experts_per_token=8, ranks=64, skew=1.0) > 2


@pytest.mark.parametrize("software", ["SGLang", "LMDeploy"])
def test_stored_constants_are_those_of_the_fit(software):
    some = [run for run in RUNS if run.replica.software.name == software]
    if software == "SGLang":  # perfect balance was simulated in one of them: it has no skew
        some = [run for run in some if run.replica.software.expert_skew]
    found = fit_serving(some, software, rounds=5)
    assert found.keys() == OF_SOFTWARE[software].keys()
    here = [predict_inference_run(run, replace(run.replica.software, **found)) for run in some]
    stored = predict_inference(some)
    np.testing.assert_allclose(here, stored, rtol=0.06)


def test_static_batches_are_predicted_by_constants_that_have_not_seen_them():
    errors = leave_one_inference_source_out([run for run in RUNS if run.replica.software.name == "LMDeploy"])
    assert len(errors) == 3
    assert max(errors.values()) < 0.08


# --- Reading ---------------------------------------------------------------------------------------------------------


def test_the_shipped_table_has_the_columns_and_a_source_for_each_row():
    with CSV.open(encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    assert set(rows[0]) == set(FORM.columns)
    assert len({row["row_id"] for row in rows}) == len(rows) == 248
    assert all(row["source"] and row["source_check"] and row["quality"] for row in rows)


def test_what_a_row_leaves_open_is_filled_in_and_said():
    run = one("Llama 3.1 8B,H100,1,,,,,,,,1000,1000,,,9000,")
    assert dict(run.filled) == {
        "software": "usual",
        "precision": "bf16",
        "tp": "1 (all GPUs of a stage)",
        "batch": "largest that fits",
    }
    assert run.kind == "saturated"
    assert run.seconds == pytest.approx(1 / 9000)
    assert run.replica.formats == Formats("bf16")


def test_the_four_kinds_of_measurements():
    assert one("Llama 3.1 8B,H100,1,1,1,,fp8,vLLM,static batch,8,128,128,,,900,").kind == "static"
    busy = one("Llama 3.1 8B,H100,1,1,1,,fp8,vLLM,serving,8,128,128,,,900,")
    assert (busy.kind, busy.sequences) == ("saturated", 8)
    step = one("Llama 3.1 8B,H100,1,1,1,,fp8,TensorRT-LLM,decode,8,,,2000,6,,")
    assert (step.kind, step.seconds, step.context) == ("decode", 6e-3, 2000)
    head = HEAD + ",input_tok_s_total"
    prefill = one("Llama 3.1 8B,H100,1,1,1,,fp8,SGLang,prefill,4,2000,,,,,,50000", head)
    assert (prefill.kind, prefill.tokens) == ("prefill", 8000)
    assert prefill.seconds == pytest.approx(8000 / 50_000)
    assert prefill.replica.software.name == "SGLang"


def test_a_time_alone_is_that_of_a_pass():
    """Of a token with a batch, half way through the answers; of a first token, with none, a pass over the prompt."""
    token = one("Llama 3.1 8B,H100,1,1,1,,fp8,TensorRT-LLM,,8,1000,500,,6,,")
    assert (token.kind, token.seconds, token.sequences, token.context) == ("decode", 6e-3, 8, 1250)
    first = one("Llama 3.1 8B,H100,1,1,1,,fp8,TensorRT-LLM,,,2000,100,,,,,50", HEAD + ",ttft_ms")
    assert (first.kind, first.seconds, first.tokens) == ("prefill", 0.05, 2000)


def test_a_replica_has_one_sequence_at_least():
    assert one("Llama 3.1 8B,H100,8,1,1,,fp8,,,4,1000,1000,,,900,").sequences == 1


def test_counts_of_gpus_become_replicas_and_layouts():
    two = one("Llama 3.1 8B,H100,8,4,1,,fp8,,,,1000,1000,,,9000,")
    assert (two.replica.layout.tp, two.seconds) == (4, pytest.approx(2 / 9000))
    experts = one("Mixtral 8x7B,H100,8,8,1,,fp8,,,,1000,1000,,,9000,attention DP")
    assert (experts.replica.layout.dp, experts.replica.layout.expert_tp, experts.replica.layout.tp) == (8, 8, 1)
    wide = one("DeepSeek-V3,H100,72,,,72,fp8,SGLang,decode,7200,,,2000,,150000,two-batch overlap; 32 redundant experts")
    assert (wide.replica.layout.dp, wide.replica.redundant, wide.replica.two_batch_overlap) == (72, 32, True)
    assert wide.seconds == pytest.approx(7200 / 150_000)
    node = one("DeepSeek-V3,H800,8,,,144,fp8,DeepSeek,decode,,,,4989,45-50,14800,")
    assert node.replica.layout.dp == 144
    assert node.filled["tpot_ms"] == "47.5 (middle of 45-50)"
    assert node.sequences == pytest.approx(18 * 14_800 * 0.0475)
    padded = one("PaLM 540B,TPU v4,64,,,,int8,,decode,64,,,2048,29,,weights only")
    assert padded.replica.model.heads == 64
    assert padded.replica.formats.weight_bytes == 1
    assert padded.replica.formats.compute == "bf16"


@pytest.mark.parametrize(
    ("written", "known"),
    [
        ("DeepSeek-R1-0528-FP4", "DeepSeek-V3"),
        ("deepseek-ai/DeepSeek-V3.1", "DeepSeek-V3"),
        ("Llama 3.1 405B FP8", "Llama 3.1 405B"),
        ("Llama-3.1-8B-Instruct-FP8", "Llama 3.1 8B"),
        ("Qwen3-30B-A3B-Instruct-2507", "Qwen3 30B-A3B"),
        ("llama2-70b", "Llama 2 70B"),
    ],
)
def test_a_name_may_carry_a_format_and_a_date(written, known):
    run = one(f"{written},B200,64,8,1,,,,,,100,100,,,9000,")
    assert run.replica.model.name == known
    assert run.replica.formats.compute == ("fp4" if "FP4" in written else "fp8" if "FP8" in written else "bf16")


def test_weights_are_unpacked_where_the_chip_has_no_such_peak():
    run = one("Llama 3.1 8B,A100,1,1,1,,fp8,,,,100,100,,,9000,")
    assert run.replica.formats == Formats("bf16", 1.0, 2.0)
    assert dict(run.filled)["products"] == "bf16 (no fp8 peak of A100 80GB)"


def test_a_batch_may_be_that_of_each_gpu():
    line = "DeepSeek-V3,H100,72,,,72,fp8,SGLang,decode,256,,,2000,,150000,"
    assert one(line + "256 sequences per GPU; 32 redundant experts").sequences == 72 * 256
    assert one(line + "32 redundant experts").sequences == 256
    open_batch = one("DeepSeek-V3,H100,72,,,72,fp8,SGLang,decode,,,,100,,150000,")
    assert open_batch.sequences == 72 * 2048  # as many as the software takes


def test_what_a_cache_has_is_not_read_again_but_attended_to():
    head = HEAD + ",input_tok_s_total"
    line = "DeepSeek-V3,H100,32,,,32,fp8,SGLang,prefill,128,4096,,,,,{},40000"
    half, none = (one(line.format(note), head) for note in ("50 % hit", ""))
    assert (half.tokens, half.seconds) == (none.tokens / 2, none.seconds)
    assert 0.5 < predict_inference_run(half) / predict_inference_run(none) < 0.6


def test_latents_ask_for_attention_data_parallelism():
    for line, replicas, share in (("GB200,144", 2, 72), ("H100,16", 1, 16)):
        run = one(f"DeepSeek-V3,{line},,,,fp8,,,,1000,1000,,,9000,")
        assert (run.replica.layout.dp, run.replica.layout.ep, run.seconds) == (share, share, replicas / 9000)
        assert "latents" in run.filled["ep"]
    assert one("DeepSeek-V3,H100,16,16,,,fp8,,,,1000,1000,,,9000,").replica.layout.tp == 16


def test_a_note_may_say_that_caches_have_16_bits():
    line = "DeepSeek-V3,H200,8,1,,8,fp8,,,64,1000,1000,,,9000,"
    assert [one(line + note).replica.formats.cache_bytes for note in ("", "caches in 16 bits")] == [1, 2]


def test_more_sequences_than_fit_wait():
    many = one("Llama 3.1 8B,H100,1,1,1,,fp8,,serving,9000,1000,1000,,,9000,")
    full = one("Llama 3.1 8B,H100,1,1,1,,fp8,,serving,,1000,1000,,,9000,")
    assert predict_inference_run(many) == predict_inference_run(full)


@pytest.mark.parametrize(
    ("message", "line"),
    [
        ("no data on the accelerator", "Llama 3.1 8B,Quadro,1,1,1,,,,,,10,10,,,9,"),
        ("the catalogue lacks", "Frobnicator,H100,1,1,1,,,,,,10,10,,,9,"),
        ("no n_gpus", "Llama 3.1 8B,H100,,1,1,,,,,,10,10,,,9,"),
        ("do not divide 8 GPUs", "Llama 3.1 8B,H100,8,3,1,,,,,,10,10,,,9,"),
        ("no isl and osl", "Llama 3.1 8B,H100,1,1,1,,,,,,,,,,9,"),
        ("not one sequence fits", "Llama 3.1 405B,H100,1,1,1,,,,,,10,10,,,9,"),
        ("not one sequence fits", "Llama 3.1 405B,H100,1,1,1,,,,decode,,,,1000,,9,"),
        ("no batch, and no throughput", "Llama 3.1 8B,H100,1,1,1,,,,,,10,10,,,,"),
        ("a decode row needs", "Llama 3.1 8B,H100,1,1,1,,,,decode,4,,,1000,,,"),
        ("no context_len", "Llama 3.1 8B,H100,1,1,1,,,,decode,4,,,,9,,"),
        ("a prefill row needs", "Llama 3.1 8B,H100,1,1,1,,,,prefill,4,100,,,,,"),
        ("osl must be a number", "Llama 3.1 8B,H100,1,1,1,,,,,,10,ten,,,9,"),
        ("osl must be above zero", "Llama 3.1 8B,H100,1,1,1,,,,,,10,-1,,,9,"),
        ("2 fields, but the heading has 16", "Llama 3.1 8B,H100"),
    ],
)
def test_a_row_that_cannot_be_predicted_says_why(message, line):
    assert message in why(line)


@pytest.mark.parametrize(
    ("message", "text"),
    [
        ("the file is empty", ""),
        ("no rows below the heading", HEAD),
        ("columns there twice: isl", "model,gpu,n_gpus,isl,isl\n"),
        ("missing columns n_gpus", "model,gpu,isl\n"),
        ("no column with a measurement", "model,gpu,n_gpus,isl\n"),
    ],
)
def test_a_table_that_is_none_is_refused(message, text):
    with pytest.raises(ValueError, match=rf"mine\.csv, line \d: .*{message}"):
        parse_inference(text, "mine.csv")


def test_the_command_reads_tables_of_inference(tmp_path, capsys):
    table = tmp_path / "mine.csv"
    table.write_text(
        f"# mine\n{HEAD}\nLlama 3.1 8B,H100,1,1,1,,fp8,,,,1000,1000,,,15220,\nnobody,H100,1,1,1,,,,,,,,,,9,\n"
    )
    assert main(["validate", str(table)]) == 0
    printed = capsys.readouterr().out
    assert "batch largest that fits" in printed
    assert "skipped line 4 (runs): the catalogue lacks nobody" in printed
    assert main(["validate", "--json", str(table)]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found.keys() == {"sources", "overall", "rows", "skipped"}
    assert found["rows"][0]["measured"] == pytest.approx(1 / 15_220)
    assert found["overall"]["predicted"] == 1
    assert main(["validate", "--leave-one-out", str(table)]) == 2


def test_tables_print_and_peaks_bound_what_was_measured():
    some = RUNS[159:161]
    lines = inference_table(some, predict_inference(some)).splitlines()
    assert [line.split()[0] for line in lines] == ["row", *(run.row for run in some)]
    assert all(0 < at_peak(run) < run.seconds for run in RUNS)
    assert read_inference(CSV)[0][0].row == "I0001"
    assert inference_runs.published_inference() is published_inference()


@pytest.mark.parametrize("written", ["banana", "awq", "int4", "bf16 (fp8 disabled)"])
def test_a_precision_that_no_law_knows_is_refused(written):
    table = f"model,gpu,n_gpus,precision,isl,osl,output_tok_s_total\nLlama 3.1 8B,H100,1,{written},1000,1000,15220"
    _, (skipped,) = parse_inference(table, "mine.csv")
    assert skipped.why.startswith(f"no data on the precision {written!r}")


def test_more_tokens_a_second_than_there_are_flops_are_refused():
    table = "model,gpu,n_gpus,precision,isl,osl,output_tok_s_total\nLlama 3.1 8B,H100,1,fp8,1000,1000,1e11"
    _, (skipped,) = parse_inference(table, "mine.csv")
    assert "are more than its GPUs can compute" in skipped.why
