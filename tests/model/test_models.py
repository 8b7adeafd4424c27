"""Models: every shape has a source and adds up to its published size, and the audit fails where one does not."""

import tomllib
from dataclasses import replace
from importlib.resources import files

import pytest

from clusterlab.catalogue import machine
from clusterlab.cli import main
from clusterlab.model import (
    Attention,
    GatedDeltaNet,
    Layout,
    SlidingWindow,
    Workload,
    entry,
    kv_cache_bytes,
    match_model,
    parameters,
    transformer,
    transformers,
)
from clusterlab.parallelism import step
from clusterlab.serving import Batch, Replica, forward_pass, largest_batch

DATA = files("clusterlab.catalogue") / "data" / "models.toml"
NAMED_IN_THE_BOOK = [
    "GPT-3 175B",
    "GPT 1T",
    "Llama 2 70B",
    "Llama 3 8B",
    "Llama 3.1 405B",
    "Mixtral 8x7B",
    "DeepSeek-V3",
]
NAMED_IN_THE_BOOK += [
    "Nemotron-4 340B",
    "Grok-1",
    "Qwen3 235B-A22B",
    "PaLM 540B",
    "OPT-175B",
    "BLOOM 176B",
    "MT-NLG 530B",
]


def test_the_audit_passes_on_the_shipped_data_and_prints_every_number(capsys):
    assert main(["audit"]) == 0
    printed = {block.strip().splitlines()[0]: block for block in capsys.readouterr().out.split("\n\n")}
    for name, row in tomllib.loads(DATA.read_text(encoding="utf-8"))["model"].items():
        for key, field in row.items():
            value = field["value"] if isinstance(field, dict) else field
            assert key in ("source", "kind") or f"  {key:<20} {value!s:<16} " in printed[f"model {name}"]


@pytest.mark.parametrize("shape", transformers(), ids=lambda shape: shape.name)
def test_a_shape_has_its_published_parameters(shape):
    """The tolerance is one unit of the last digit that the source prints, or the one stated in the file."""
    published, count = entry(shape.name).total, parameters(shape)
    assert abs(count.total - published.count) <= published.tolerance
    assert published.tolerance <= 0.07 * published.count  # 16 billion is the coarsest
    if active := entry(shape.name).active:
        assert min(abs(count.active - less - active.count) for less in (0, count.embedding)) <= active.tolerance
        assert shape.experts


@pytest.mark.parametrize(
    ("name", "kind", "layers", "others"),
    [("Gemma 2 27B", SlidingWindow, 23, Attention), ("Qwen3-Next 80B-A3B", GatedDeltaNet, 36, Attention)],
)
def test_models_of_windows_and_of_delta_rules_train_and_serve(name, kind, layers, others):
    """Their layers are said in the catalogue alone; what they save shows against attention in every layer."""
    shape, h100 = transformer(name), machine("H100 SXM")
    assert shape.count(kind) == layers
    assert sum(stack.count for stack in shape.stacks if type(stack.blocks[0]) is others) == shape.layers - layers
    plain = replace(shape, others=())
    ep = 32 if shape.experts else 1
    workload, layout = Workload(sequence=32768, global_batch=128), Layout(tp=2, pp=2, dp=32, ep=ep)
    one, full = (step(model, h100, workload, layout) for model in (shape, plain))
    assert 0 < one.attention < full.attention
    assert 0 < one.time < full.time
    assert 0 < one.mfu < 1
    users = Batch(sequences=64, context=32768)
    replicas = [Replica(model, h100, Layout(tp=4)) for model in (shape, plain)]
    read, all_read = (forward_pass(replica, users) for replica in replicas)
    assert 0 < read.caches < all_read.caches
    assert 0 < read.time < all_read.time
    held = [largest_batch(replica, 32768) for replica in replicas]
    assert held[0] > 1.5 * held[1] > 0


def test_gemma_2_has_the_parameters_that_its_report_prints():
    """Gemma 2 report, table 2: embedding and others; the latter with a second norm after each block."""
    count = parameters(transformer("Gemma 2 27B"))
    assert count.embedding == 1_180_237_824
    assert count.total - count.embedding + 46 * 2 * 4608 == 26_047_480_320


def test_most_big_models_are_counted_to_the_last_parameters():
    """Hugging Face counts the elements of a checkpoint: at most 1 in a million is left out."""
    exact = [e for e in map(entry, (m.name for m in transformers())) if type(e.total.printed) is int]
    assert len(exact) >= 15
    assert all(abs(parameters(e.shape).total / e.total.count - 1) < 1e-6 for e in exact)


@pytest.mark.parametrize("name", NAMED_IN_THE_BOOK)
def test_the_models_of_the_book_are_there(name):
    assert transformer(name).name == name


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("LLAMA3.1_405B", "Llama 3.1 405B"),
        ("Qwen3_30B_a3B", "Qwen3 30B-A3B"),
        ("DeepSeekV3", "DeepSeek-V3"),
        ("GPT OSS 120B", "gpt-oss 120B"),
        ("MPT 70b", "MPT 70B"),
        ("GPT 22B", "GPT 22B"),
        ("GPT2 2B", "GPT-2 2B"),
    ],
)
def test_spelling_does_not_matter(written, name):
    assert transformer(written) is transformer(name)


@pytest.mark.parametrize("name", ["", None, "Llama", "Llama 3.1 406B", 7])
def test_a_match_is_the_entry_or_nothing(name):
    assert match_model(name) is None
    assert match_model("LLAMA3.1_405B") is entry("Llama 3.1 405B")


@pytest.mark.parametrize("name", ["", None, "Llama", "Llama 3.1 406B", 7])
def test_an_unknown_name_is_refused_with_the_nearest(name):
    with pytest.raises(ValueError, match=r"unknown model .*; (did you mean|known)"):
        transformer(name)


def test_an_entry_prints_what_its_numbers_rest_on():
    assert "SC21" in repr(entry("GPT 1T"))
    assert "671 billion" in entry("DeepSeek-V3")._repr_html_()


GOOD = """
[model."Planted"]
source = "korthikanti"
kind = "specified"
year = 2026
layers = 2
hidden = 64
heads = 8
ffn = 256
vocab = 100
parameters = 111424
"""
FAULTS = {
    "a shape without a source": ('source = "korthikanti"\n', "", "model Planted: layers has no listed source"),
    "an unknown source": ("korthikanti", "hearsay", "'hearsay'"),
    "a wrong kind": ('"specified"', '"guessed"', "model Planted: layers has kind 'guessed'"),
    "an unknown field": ("ffn =", "ffm =", "model Planted: unknown fields ['ffm']"),
    "a missing size": ("parameters = 111424\n", "", "model Planted: ", "missing fields ['parameters']"),
    "a missing year": ("year = 2026\n", "", "missing fields ['year']"),
    "a missing width": ("hidden = 64\n", "", "model Planted: ", "hidden"),
    "no shape": ("heads = 8", "heads = 7", "model Planted: heads must divide hidden"),
    "another size": ("111424", "112000", "model Planted: 111,424 parameters, published 112000"),
    "another active size": (
        "parameters = 111424",
        'parameters = 111424\nactive_parameters = "9 thousand"',
        "must be a number",
    ),
    "active parameters that are not": ("parameters = 111424", "parameters = 111424\nactive_parameters = 9", "active"),
    "an unreadable size": ("111424", '"111k"', "model Planted: parameters must be a number"),
    "a year that is none": ("2026", '"soon"', "model Planted: year must be a whole number above zero, got 'soon'"),
    "a tolerance beyond all": ("parameters =", "tolerance = inf\nparameters =", "tolerance must be a share"),
    "a tolerance in words": ("parameters =", 'tolerance = "loose"\nparameters =', "tolerance must be a share"),
    "a size beyond numbers": ("111424", f'"{"9" * 400}"', "model Planted: parameters must be finite"),
    "a misspelled table": ("[model.", "[modle.", "modle"),
}


def test_the_audit_passes_on_a_copy_with_a_sound_row_added(tmp_path):
    copy = tmp_path / "models.toml"
    copy.write_text(DATA.read_text(encoding="utf-8") + GOOD, encoding="utf-8")
    assert main(["audit", str(copy)]) == 0


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
def test_the_audit_fails_and_names_the_row_and_the_field_of(fault, tmp_path, capsys):
    old, new, *said = FAULTS[fault]
    copy = tmp_path / "models.toml"
    copy.write_text(DATA.read_text(encoding="utf-8") + GOOD.replace(old, new), encoding="utf-8")
    assert main(["audit", str(copy)]) == 1
    message = capsys.readouterr().err
    for words in said:
        assert words in message


def test_the_audit_fails_on_a_file_that_cannot_be_read(tmp_path, capsys):
    assert main(["audit", str(tmp_path / "nothing.toml")]) == 2
    assert capsys.readouterr().err


def test_kimi_linear_keeps_a_quarter_of_the_caches():
    """Its card: up to 75 % less memory for keys and values, and 6 times the throughput at a million tokens."""
    shape, layout, context = transformer("Kimi Linear 48B-A3B"), Layout(tp=8, etp=8), 1e6
    plain = replace(shape, others=())
    caches = [kv_cache_bytes(one, context) for one in (shape, plain)]
    assert 0.7 < 1 - caches[0] / caches[1] < 0.75
    replicas = [Replica(one, machine("H200 SXM"), layout) for one in (shape, plain)]
    held = [largest_batch(one, context) for one in replicas]
    times = [forward_pass(one, Batch(sequences=n, context=context)).time for one, n in zip(replicas, held, strict=True)]
    assert 2.5 < (held[0] / times[0]) / (held[1] / times[1]) < 6


# Published totals and active parameters of the current ones, in billions, as models.toml cites them.
CURRENT = {
    "Qwen2.5 7B": (7.6, None),
    "Qwen2.5 14B": (14.7, None),
    "Qwen2.5 32B": (32.5, None),
    "Qwen2.5 72B": (72.7, None),
    "Qwen3 8B": (8.2, None),
    "Qwen3 32B": (32.8, None),
    "Qwen3-Coder 480B-A35B": (480, 35),
    "Qwen3 235B-A22B": (235, 22),
    "GLM-4.5": (355, 32),
    "GLM-4.6": (355, 32),
    "GLM-5": (744, 40),
    "GLM-5.1": (744, 40),
    "gpt-oss 120B": (116.8, 5.1),
    "Gemma 3 4B": (3.88, None),
    "Gemma 3 12B": (11.77, None),
    "Gemma 3 27B": (27.0, None),
    "gpt-oss 20B": (20.9, 3.6),
    "OLMo 2 7B": (7.3, None),
    "OLMo 2 13B": (13.7, None),
    "OLMo 2 32B": (32.2, None),
    "MiniMax M2.5": (229, 10),
    "DeepSeek-V3.2": (671, 37),
    "Kimi K2": (1026, 32),
    "Kimi K2.5": (1026, 32),
    "Llama 4 Scout": (107.8, 17),
    "Llama 4 Maverick": (400.7, 17),
}


@pytest.mark.parametrize("name", CURRENT)
def test_a_current_model_has_its_published_parameters_within_a_percent(name):
    """Active ones count the table of tokens, the head, neither or both, as each publisher has it, and are rounded."""
    total, active = CURRENT[name]
    count = parameters(transformer(name))
    assert count.total / 1e9 == pytest.approx(total, rel=0.01)
    if active:
        ways = [count.active, count.active - count.embedding, count.active - count.embedding - count.output]
        assert any(abs(way / 1e9 - active) <= max(0.01 * active, 0.5) for way in ways)
