"""Own: a config.json becomes the shape of a decoder, hardware in a TOML joins the catalogue, and names are found."""

import json
import os
from dataclasses import replace

import pytest

from clusterlab import catalogue
from clusterlab.catalogue import hardware
from clusterlab.cli import main
from clusterlab.model import GatedDeltaNet, Mamba2, SlidingWindow, SparseLatentAttention, parameters, transformer
from clusterlab.own import find_model, model_of, read_config, read_config_file, use_hardware


@pytest.fixture(autouse=True)
def catalogue_as_it_was(monkeypatch):
    """What a test adds to the catalogue is gone after it, in this process and from the environment."""
    before = dict(hardware._document())
    monkeypatch.setattr(os, "environ", dict(os.environ))
    yield
    hardware._document().update(before)
    for stale in (hardware._records, hardware._names, hardware.aliases):
        stale.cache_clear()


# As huggingface.co has them, cut to what says the shape. Source: ai-dynamo/aiconfigurator, model_configs.
LLAMA = {
    "model_type": "llama",
    "num_hidden_layers": 80,
    "hidden_size": 8192,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "intermediate_size": 28672,
    "vocab_size": 128256,
    "tie_word_embeddings": False,
}
DEEPSEEK = {
    "model_type": "deepseek_v3",
    "num_hidden_layers": 61,
    "hidden_size": 7168,
    "num_attention_heads": 128,
    "num_key_value_heads": 128,
    "intermediate_size": 18432,
    "moe_intermediate_size": 2048,
    "vocab_size": 129280,
    "n_routed_experts": 256,
    "n_shared_experts": 1,
    "num_experts_per_tok": 8,
    "first_k_dense_replace": 3,
    "q_lora_rank": 1536,
    "kv_lora_rank": 512,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
}
GPT_OSS = {
    "model_type": "gpt_oss",
    "num_hidden_layers": 36,
    "hidden_size": 2880,
    "num_attention_heads": 64,
    "head_dim": 64,
    "num_key_value_heads": 8,
    "intermediate_size": 2880,
    "vocab_size": 201088,
    "num_local_experts": 128,
    "num_experts_per_tok": 4,
    "experts_per_token": 4,
    "sliding_window": 128,
    "tie_word_embeddings": False,
    "layer_types": ["sliding_attention", "full_attention"] * 18,
}
LLAMA4 = {
    "model_type": "llama4_text",
    "num_hidden_layers": 48,
    "hidden_size": 5120,
    "num_attention_heads": 40,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "intermediate_size": 8192,
    "intermediate_size_mlp": 16384,
    "vocab_size": 202048,
    "num_local_experts": 128,
    "num_experts_per_tok": 1,
    "interleave_moe_layer_step": 2,
}
QWEN = {
    "model_type": "qwen3_5_moe_text",
    "num_hidden_layers": 60,
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "num_key_value_heads": 2,
    "head_dim": 256,
    "moe_intermediate_size": 1024,
    "vocab_size": 248320,
    "num_experts": 512,
    "num_experts_per_tok": 10,
    "shared_expert_intermediate_size": 1024,
    "full_attention_interval": 4,
    "linear_num_key_heads": 16,
    "linear_key_head_dim": 128,
    "linear_num_value_heads": 64,
    "linear_value_head_dim": 128,
    "tie_word_embeddings": False,
}
GEMMA = {
    "model_type": "gemma3_text",
    "num_hidden_layers": 62,
    "hidden_size": 5376,
    "num_attention_heads": 32,
    "num_key_value_heads": 16,
    "head_dim": 128,
    "intermediate_size": 21504,
    "vocab_size": 262144,
    "sliding_window": 1024,
    "sliding_window_pattern": 6,
}


def read(config, **more):
    return read_config(json.dumps({**config, **more}), "mine")


@pytest.mark.parametrize(
    ("config", "name"),
    [
        (LLAMA, "Llama 3.1 70B"),
        (DEEPSEEK, "DeepSeek-V3"),
        (GPT_OSS, "gpt-oss 120B"),
        (LLAMA4, "Llama 4 Maverick"),
        (QWEN, "Qwen3.5 397B-A17B"),
        (GEMMA, "Gemma 3 27B"),
    ],
)
def test_a_configuration_is_the_model_of_the_catalogue(config, name):
    ours, theirs = transformer(name), read(config)
    assert parameters(theirs) == parameters(ours)
    assert {type(block) for block in theirs.blocks} == {type(block) for block in ours.blocks}
    assert (theirs.gated, theirs.tied, theirs.dense_layers) == (ours.gated, ours.tied, ours.dense_layers)


def test_blocks_in_the_place_of_attention_are_read():
    assert read(GPT_OSS).others == ((18, SlidingWindow(128)),)
    assert read(GEMMA).others == ((52, SlidingWindow(1024)),)
    assert read(QWEN).others == ((45, GatedDeltaNet(16, 128, 64, 128)),)
    sparse = read(DEEPSEEK, index_topk=2048, index_n_heads=64, index_head_dim=128)
    assert sparse.others == ((61, SparseLatentAttention(2048, 64, 128)),)
    assert parameters(sparse) == parameters(transformer("DeepSeek-V3.2"))


# DeepSeek-V4-Pro, GLM-5.2 and MiniMax-M3, cut to what says the shape. Source: as above, aiconfigurator_core.
V4_PRO = {
    "model_type": "deepseek_v4",
    "num_hidden_layers": 61,
    "hidden_size": 7168,
    "num_attention_heads": 128,
    "num_key_value_heads": 1,
    "head_dim": 512,
    "moe_intermediate_size": 3072,
    "vocab_size": 129280,
    "n_routed_experts": 384,
    "n_shared_experts": 1,
    "num_experts_per_tok": 6,
    "num_hash_layers": 3,
    "num_nextn_predict_layers": 1,
    "hc_mult": 4,
    "q_lora_rank": 1536,
    "o_groups": 16,
    "o_lora_rank": 1024,
    "sliding_window": 128,
    "index_topk": 1024,
    "index_n_heads": 64,
    "index_head_dim": 128,
    "compress_ratios": [128, 128, *[4, 128] * 29, 4, 0],
}
GLM = {**DEEPSEEK, "model_type": "glm_moe_dsa", "num_hidden_layers": 78, "hidden_size": 6144, "num_attention_heads": 64}
GLM |= {"num_key_value_heads": 64, "intermediate_size": 12288, "vocab_size": 154880, "q_lora_rank": 2048}
GLM |= {"qk_nope_head_dim": 192, "v_head_dim": 256, "index_topk": 2048, "index_n_heads": 32, "index_head_dim": 128}
GLM |= {"num_nextn_predict_layers": 1, "indexer_types": ["full", "full", *(["full"] + ["shared"] * 3) * 19]}
M3 = {
    "model_type": "minimax_m3",
    "num_hidden_layers": 60,
    "hidden_size": 6144,
    "num_attention_heads": 64,
    "num_key_value_heads": 4,
    "head_dim": 128,
    "intermediate_size": 3072,
    "moe_intermediate_size": 3072,
    "dense_intermediate_size": 12288,
    "shared_intermediate_size": 3072,
    "moe_layer_freq": [0] * 3 + [1] * 57,
    "vocab_size": 200064,
    "num_local_experts": 128,
    "n_shared_experts": 1,
    "num_experts_per_tok": 4,
    "num_nextn_predict_layers": 1,
    "sparse_attention_config": {
        "sparse_attention_freq": [0] * 3 + [1] * 57,
        "sparse_topk_blocks": 16,
        "sparse_block_size": 128,
        "sparse_num_index_heads": 4,
        "sparse_index_dim": 128,
    },
}
NEWER = {
    "compress_ratios": None,
    "compress_rates": {"compressed_sparse_attention": 4, "heavily_compressed_attention": 128},
}
NEWER["layer_types"] = ["heavily_compressed_attention"] * 2
NEWER["layer_types"] += ["compressed_sparse_attention", "heavily_compressed_attention"] * 29
NEWER["layer_types"] += ["compressed_sparse_attention"]


@pytest.mark.parametrize(
    ("config", "name"),
    [(V4_PRO, "DeepSeek-V4 Pro"), (V4_PRO | NEWER, "DeepSeek-V4 Pro"), (GLM, "GLM-5.2"), (M3, "MiniMax M3")],
)
def test_a_configuration_of_this_year_is_the_shape_of_the_catalogue(config, name):
    assert read(config) == replace(transformer(name), name="mine")


# Nemotron 3 Nano: as huggingface.co has it, cut to what says the shape. Source: as above.
HYBRID = {
    "model_type": "nemotron_h",
    "hybrid_override_pattern": "MEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEMEM*EMEMEMEME",
    "num_hidden_layers": 52,
    "hidden_size": 2688,
    "num_attention_heads": 32,
    "num_key_value_heads": 2,
    "head_dim": 128,
    "intermediate_size": 1856,
    "moe_intermediate_size": 1856,
    "moe_shared_expert_intermediate_size": 3712,
    "n_routed_experts": 128,
    "n_shared_experts": 1,
    "num_experts_per_tok": 6,
    "mamba_num_heads": 64,
    "mamba_head_dim": 64,
    "ssm_state_size": 128,
    "n_groups": 8,
    "vocab_size": 131072,
    "tie_word_embeddings": False,
}
LISTED = [{"M": "mamba", "*": "attention", "E": "moe"}[one] for one in HYBRID["hybrid_override_pattern"]]
DENSE = {"hybrid_override_pattern": "M-M*M-", "num_hidden_layers": 6, "n_routed_experts": None}


def test_layers_of_one_block_each_are_read_as_a_pattern_and_as_a_list():
    nano = replace(transformer("Nemotron 3 Nano"), name="mine")
    assert read(HYBRID) == nano
    assert read(HYBRID, hybrid_override_pattern=None, layers_block_type=LISTED, num_hidden_layers=None) == nano
    dense = read(HYBRID, **DENSE)
    assert (dense.layers, dense.feed_forward_layers, dense.experts, dense.count(Mamba2)) == (6, 2, 0, 3)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"hybrid_override_pattern": "MX"}, "'X' is none of 'mamba', 'attention', 'mlp', 'moe'"),
        ({"hybrid_override_pattern": None}, "a Nemotron-H says its layers in hybrid_override_pattern"),
        ({"hybrid_override_pattern": "ME-*"}, "dense feed-forwards beside experts are no blocks of clusterlab"),
        ({"num_hidden_layers": 53}, "it contradicts itself: 53 layers, and a pattern of 52"),
        ({"ssm_state_size": None}, "a Nemotron-H lacks ssm_state_size"),
        ({"model_type": "jamba", "layers_block_type": ["mamba"]}, "layers of several kinds (Mamba) is no block"),
    ],
)
def test_a_pattern_that_is_none_is_refused(changes, says):
    with pytest.raises(ValueError, match=r"^mine: ") as refusal:
        read(HYBRID, **changes)
    assert says in str(refusal.value)


def test_what_sees_is_read_by_its_text_part():
    assert read({"model_type": "x", "vision_config": {}, "text_config": LLAMA}) == read(LLAMA)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"hidden_size": None}, "no configuration of a decoder: it lacks hidden_size"),
        ({"vocab_size": "many"}, "vocab_size must be a whole number, got 'many'"),
        ({"n_layer": 32}, "it contradicts itself: num_hidden_layers 80, n_layer 32"),
        ({"num_experts": 8}, "doesn't say how many a token goes to"),
        ({"layer_types": ["full_attention"]}, "it contradicts itself: 80 layers, and layer_types of 1"),
        ({"layer_types": ["mamba"] * 80}, "layer_types: mamba is no block of clusterlab"),
        ({"layer_types": ["sliding_attention"] * 80}, "80 layers of sliding attention, and no sliding_window"),
        ({"compress_ratios": [4] * 79}, "it contradicts itself: 80 layers, and compress_ratios of 79"),
        ({"compress_ratios": [4] * 79 + [8]}, "compress_ratios: 8 is none of 0, 4 and 128"),
        ({"compress_ratios": [4] * 80}, "it lacks sliding_window, q_lora_rank, o_groups, o_lora_rank"),
        ({"index_topk": 2048}, "it lacks index_n_heads, index_head_dim"),
        ({"sparse_attention_config": {"sparse_attention_freq": [1]}}, "80 layers, and sparse_attention_freq of 1"),
        ({"global_head_dim": 512}, "layers whose heads differ is no block"),
        ({"num_key_value_heads": 7}, "kv_heads must divide heads"),
        ({"num_parameters": 8_000_000_000}, "its shape has 70,553,706,496 parameters, and it says 8,000,000,000"),
    ],
)
def test_a_configuration_that_is_none_or_contradicts_itself_is_refused(changes, says):
    with pytest.raises(ValueError, match=r"^mine: ") as refusal:
        read(LLAMA, **changes)
    assert says in str(refusal.value)


def test_text_that_is_no_json_is_refused():
    with pytest.raises(ValueError, match="mine: not JSON: "):
        read_config("{", "mine")


def test_a_file_is_held_against_the_weights_beside_it_and_the_name_of_its_folder(tmp_path):
    folder = tmp_path / "Llama-70B"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(LLAMA))
    assert parameters(read_config_file(folder)) == parameters(transformer("Llama 3.1 70B"))
    assert read_config_file(folder / "config.json").name == "Llama-70B"
    index = folder / "model.safetensors.index.json"
    index.write_text('{"metadata": {"total_parameters": 8030261248}}')
    with pytest.raises(ValueError, match="and its weights"):
        read_config_file(folder)
    index.unlink()
    with pytest.raises(ValueError, match="and its folder is called Llama-8B"):
        read_config_file(folder.rename(tmp_path / "Llama-8B"))


def test_a_folder_may_be_called_by_what_a_token_uses(tmp_path):
    folder = tmp_path / "Llama-4-Maverick-17B-128E-Instruct"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(LLAMA4))
    assert parameters(read_config_file(folder)) == parameters(transformer("Llama 4 Maverick"))


def test_a_folder_here_is_a_path_where_no_model_has_its_name(tmp_path, monkeypatch):
    """A folder called as a model is: its model, or what the working directory holds would change the answer."""
    monkeypatch.chdir(tmp_path)
    for name in ("mine", "Llama 3.1 70B"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text(json.dumps(LLAMA | {"num_hidden_layers": 79}))
    assert model_of("mine").layers == 79
    assert (model_of("Llama 3.1 70B").layers, model_of("./Llama 3.1 70B").layers) == (80, 79)


# --- Names -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("meta-llama/Meta-Llama-3.1-8B-Instruct", "Llama 3.1 8B"),
        ("meta-llama/Llama-3.3-70B-Instruct", "Llama 3.1 70B"),
        ("neuralmagic/Meta-Llama-3.1-8B-FP8", "Llama 3.1 8B"),
        ("Qwen/Qwen2.5-72B-Instruct", "Qwen2.5 72B"),
        ("Qwen/Qwen3-235B-A22B", "Qwen3 235B-A22B"),
        ("deepseek-ai/DeepSeek-V3-0324", "DeepSeek-V3"),
        ("deepseek-ai/DeepSeek-V3.2", "DeepSeek-V3.2"),
        ("openai/gpt-oss-120b", "gpt-oss 120B"),
        ("google/gemma-3-27b-it", "Gemma 3 27B"),
        ("zai-org/GLM-4.6-FP8", "GLM-4.6"),
        ("moonshotai/Kimi-K2.5", "Kimi K2.5"),
        ("allenai/OLMo-2-0325-32B", "OLMo 2 32B"),
        ("meta-llama/Llama-4-Scout-17B-16E-Instruct", "Llama 4 Scout"),
        ("deepseek-ai/DeepSeek-V4-Flash", "DeepSeek-V4 Flash"),
        ("nvidia/MiniMax-M3-NVFP4", "MiniMax M3"),
        ("nobody/Lama-3-8B", None),
        ("GPT 70B", "GPT 70B (Megatron-Core)"),
        ("GLM4.5 355B", "GLM-4.5"),  # its size behind its name
        ("GLM4.5 35B", None),
    ],
)
def test_a_hugging_face_id_is_known_where_its_model_is(written, name):
    found = find_model(written)
    assert (found.name if found else None) == name


def test_a_path_is_taken_where_a_name_is(tmp_path, capsys):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(LLAMA))
    assert parameters(model_of(str(path))) == parameters(transformer("Llama 3.1 70B"))
    table = tmp_path / "runs.csv"
    table.write_text(f"model,gpu,n_gpus,tp,pp,global_batch,seq,step_time_s\n{path},h100,64,4,4,128,4096,9\n")
    assert main(["validate", str(table)]) == 0
    assert "model of " in capsys.readouterr().out
    plan = [
        "plan",
        "--model",
        str(path),
        "--tokens",
        "1T",
        "--gpus",
        "64",
        "--accelerator",
        "h100",
        "--precision",
        "BF16",
    ]
    assert main(plan) == 0
    assert "H100 SXM" in capsys.readouterr().out


def test_a_name_that_nobody_knows_is_answered_with_the_nearest():
    with pytest.raises(ValueError, match="unknown model 'Lama 3 8B'; did you mean 'Llama 3 8B'"):
        model_of("Lama 3 8B")


# --- Hardware --------------------------------------------------------------------------------------------------------

TOML = """\
[accelerator."{name}"]
vendor = "Me"
year = 2026
peak_bf16 = "800 TFLOP/s"
hbm_capacity = "128 GB"
hbm_bandwidth = "4 TB/s"
scale_up_link = "NVLink 4"
scale_up_bandwidth = "450 GB/s"
scale_up_domain = 8
aliases = "{alias}"
"""


def test_an_accelerator_of_ones_own_is_known_to_every_command(tmp_path, capsys):
    path, table = tmp_path / "mine.toml", tmp_path / "runs.csv"
    path.write_text(TOML.format(name="Own Chip A", alias="oca"))
    head = "model,gpu,n_gpus,tp,pp,global_batch,seq,step_time_s"
    table.write_text(f"{head}\nLlama 3.1 8B,8x oca,64,4,1,256,4096,3\n")
    assert main(["validate", str(table), "--hardware", str(path)]) == 0
    assert main(["list", "accelerators", "--hardware", str(path)]) == 0
    assert "Own Chip A" in capsys.readouterr().out
    assert catalogue.machine("own chip a").peaks["bf16"] == 800e12


def test_numbers_of_ones_own_are_assumed_and_their_source_is_the_file():
    use_hardware(TOML.format(name="Own Chip B", alias="ocb"), "mine.toml")
    fact = catalogue.accelerator("OCB").facts["peak_bf16"]
    assert (fact.kind, fact.source.title) == ("assumed", "mine.toml")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[accelerator", "mine.toml: not TOML: "),
        ("[chip.x]\ny = 1", "unknown table 'chip'; known: accelerator, memory, link"),
        ("", "there is no record in it"),
        (
            '[link."x"]\nbandwidth = "25 GB"',
            "bandwidth must be a number and its unit, such as '3.35 TB/s', got '25 GB'",
        ),
        ('[link."x"]\nbandwith = "25 GB/s"', "unknown field 'bandwith'"),
        ('[node."x"]\nvendor="m"\nyear=1\naccelerators=8\naccelerator="nothing"', "'nothing' is not in the data"),
        (
            '[link."x"]\nbandwidth = "25 GB/s"\naliases = "a(b"',
            "link x: aliases must be names between commas, got 'a(b'",
        ),
        ('[price_list."x"]\nservers = "1 USD"', "price_list x: "),
    ],
)
def test_a_file_with_a_gap_is_refused_with_its_name(text, says):
    before = {one.name for one in catalogue.links()}
    with pytest.raises(ValueError, match=r"mine\.toml") as refusal:
        use_hardware(text, "mine.toml")
    assert says in str(refusal.value)
    assert {one.name for one in catalogue.links()} == before


@pytest.mark.parametrize("command", ["audit", "list"])
def test_a_file_that_is_no_toml_is_a_wrong_call(command, tmp_path, capsys):
    path = tmp_path / "mine.toml"
    path.write_text("[accelerator")
    assert main(["audit", str(path)] if command == "audit" else ["list", "links", "--hardware", str(path)]) == 2
    assert "not TOML" in capsys.readouterr().err


# --- The list --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("what", "holds"),
    [
        ("models", "Qwen2.5 72B"),
        ("accelerators", "H100 NVL"),
        ("links", "NVLink 6"),
        ("servers", "DGX H100"),
        ("software", "Megatron-Core"),
        ("prices", "H100 SXM"),
    ],
)
def test_the_catalogue_is_listed(what, holds, capsys):
    assert main(["list", what]) == 0
    printed = capsys.readouterr().out
    assert main(["list", what, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert holds in printed
    assert holds in {next(iter(row.values())) for row in rows}
    assert len(printed.splitlines()) == len(rows) + 1
