"""Configurations: a model's Hugging Face ``config.json`` as the shape of a decoder.

The keys are those that huggingface/transformers documents for each family (``configuration_*.py``). What no block of
:mod:`clusterlab.model` is, is refused by name; a shape is held against the number of parameters that stands beside it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from ..model import (
    Block,
    CompressedAttention,
    GatedDeltaNet,
    Mamba2,
    SlidingWindow,
    SparseAttention,
    SparseLatentAttention,
    Transformer,
    parameters,
)
from ..records import Json
from ..units import fmt

Config = Mapping[str, Json]

# Families whose feed-forward has two matrices, and those whose head is the embedding unless they say otherwise.
_UNGATED = (
    "gpt2",
    "gpt_neox",
    "gptj",
    "gpt_neo",
    "opt",
    "bloom",
    "falcon",
    "mpt",
    "nemotron",
    "starcoder2",
    "gpt_bigcode",
)
_TIED = ("gpt2", "gpt_neo", "opt", "bloom", "falcon", "gemma", "cohere", "mpt")
_BIASED = ("gpt2", "gpt_neox", "gptj", "opt", "bloom", "gpt_oss", "gpt_bigcode", "starcoder2")
# Other names of the same number, older families first.
_NAMES: Mapping[str, tuple[str, ...]] = {
    "layers": ("num_hidden_layers", "n_layer", "n_layers", "num_layers"),
    "hidden": ("hidden_size", "n_embd", "d_model", "model_dim"),
    "heads": ("num_attention_heads", "n_head", "n_heads"),
    "kv_heads": ("num_key_value_heads", "num_kv_heads", "n_head_kv"),
    "ffn": ("intermediate_size", "n_inner", "ffn_dim", "ffn_hidden_size"),
    "vocab": ("vocab_size",),
    "experts": ("n_routed_experts", "num_experts", "num_local_experts"),
    "experts_per_token": ("num_experts_per_tok", "num_experts_per_token", "moe_top_k", "experts_per_token"),
    "shared_experts": ("n_shared_experts", "num_shared_experts"),
    "expert_ffn": ("moe_intermediate_size",),
    "dense_layers": ("first_k_dense_replace",),
    "mtp_depth": ("num_nextn_predict_layers", "mtp_num_hidden_layers"),
    "expert_latent": ("moe_latent_size",),
}
_OF_EXPERTS = ("experts", "experts_per_token", "shared_experts", "expert_ffn", "expert_latent")
# Nemotron-H's layers, each one block: as a pattern has them, and as a list does.
_LETTERS = {"M": "mamba", "*": "attention", "-": "mlp", "E": "moe"}
# What no block here is: a key, and what it stands for.
_UNKNOWN = {
    "linear_attn_config": "Kimi's linear attention",
    "enable_moe_block": "a dense feed-forward beside experts in each layer",
    "layers_block_type": "layers of several kinds (Mamba)",
    "ssm_cfg": "a state-space model alone",
    "lightning_attention": "lightning attention",
    "hybrid_layer_pattern": "layers whose heads differ",
    "global_head_dim": "layers whose heads differ",
    "num_kv_shared_layers": "keys that layers share",
    "hidden_size_per_layer_input": "an embedding for each layer",
    "block_configs": "layers that differ from one another",
    "encoder_layers": "an encoder beside the decoder",
}


def read_config(text: str, name: str = "config.json", published: float | None = None) -> Transformer:
    r"""Read the text of a ``config.json`` as a decoder.

    Parameters
    ----------
    text
        JSON. Of a model that sees or hears, the part ``text_config``.
    name
        What the model is called, and how messages call it.
    published : optional
        Its number of parameters; a shape that is off by more than 3 % is refused. Left open, the ``num_parameters`` of
        the text, if it has them.

    Raises
    ------
    ValueError
        The text is no such configuration, lacks a size, contradicts itself, has what no block here is, or does not add
        up to the published number.

    Examples
    --------
    >>> llama = '{"model_type": "llama", "num_hidden_layers": 32, "hidden_size": 4096, "num_attention_heads": 32,'
    >>> llama += '"num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 128256}'
    >>> parameters(read_config(llama, published=8.03e9)).total
    8030261248
    """
    try:
        whole = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"{name}: not JSON: {error}") from None
    if not isinstance(whole, dict):
        raise ValueError(f"{name}: no configuration of a model: it must be an object")
    inner = whole.get("text_config") or whole.get("llm_config")
    config = (
        {**{key: whole[key] for key in ("tie_word_embeddings",) if key in whole}, **inner}
        if isinstance(inner, dict)
        else whole
    )
    try:
        shape = replace(_shape(config), name=name)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{name}: {error}") from None
    counted = parameters(shape).total
    says = published if published is not None else config.get("num_parameters")
    if isinstance(says, int | float) and not 0.97 <= counted / says <= 1.03:
        raise ValueError(f"{name}: its shape has {fmt(counted)} parameters, and it says {fmt(float(says))}")
    return shape


def read_config_file(path: str | Path) -> Transformer:
    """Read a ``config.json``, or a folder that has one, as :func:`read_config`.

    A ``model.safetensors.index.json`` beside it says the number of parameters, or the size in the name of the folder
    does (``Qwen3-30B-A3B``).
    """
    path = Path(path)
    path = path / "config.json" if path.is_dir() else path
    folder = path.resolve().parent.name
    shape = read_config(path.read_text(encoding="utf-8"), folder if path.name == "config.json" else path.stem)
    count, says = parameters(shape), _said_beside(path)
    counted = count.total
    if says and not 0.97 <= counted / says <= 1.03:
        raise ValueError(f"{path}: its shape has {fmt(counted)} parameters, and its weights {fmt(says)}")
    named = re.search(r"(?<![A-Za-z0-9.])(\d+(?:\.\d+)?)[Bb](?![A-Za-z0-9])", folder)
    sizes = (counted, count.active)  # some are called by what a token uses: "Llama-4-Scout-17B-16E"
    if not says and named and not any(0.75 <= one / (float(named[1]) * 1e9) <= 1.25 for one in sizes):
        raise ValueError(f"{path}: its shape has {fmt(counted)} parameters, and its folder is called {folder}")
    return shape


def _said_beside(path: Path) -> float | None:
    """Parameters as the index of the weights has them."""
    index = path.with_name("model.safetensors.index.json")
    if not index.exists():
        return None
    metadata = json.loads(index.read_text(encoding="utf-8")).get("metadata", {})
    total = metadata.get("total_parameters")
    return float(total) if isinstance(total, int | float) else None


def _size(config: Config, field: str) -> int | None:
    """A size by one of its names; 0 and null are none."""
    values = {name: config[name] for name in _NAMES[field] if config.get(name)}
    if odd := [name for name, value in values.items() if isinstance(value, bool) or not isinstance(value, int)]:
        raise ValueError(f"{odd[0]} must be a whole number, got {values[odd[0]]!r}")
    if len(set(map(str, values.values()))) > 1:
        said = ", ".join(f"{name} {value}" for name, value in values.items())
        raise ValueError(f"it contradicts itself: {said}")
    return next((int(str(value)) for value in values.values()), None)


def _shape(config: Config) -> Transformer:
    if halves := _halves(config):
        return _hybrid(config, halves)
    for key, what in _UNKNOWN.items():
        if config.get(key):
            raise ValueError(f"{key}: {what} is no block of clusterlab; others are in clusterlab.model")
    kinds = config.get("attn_type_list")
    if isinstance(kinds, list) and 0 in kinds:
        raise ValueError("attn_type_list: lightning attention is no block of clusterlab")
    family = str(config.get("model_type", ""))
    sizes = {field: value for field in _NAMES if (value := _size(config, field)) is not None}
    if missing := [_NAMES[field][0] for field in ("layers", "hidden", "heads", "vocab") if field not in sizes]:
        raise ValueError(f"no configuration of a decoder: it lacks {', '.join(missing)}")
    gated = not family.startswith(_UNGATED) or "gated" in str(config.get("hidden_act", ""))
    sizes.setdefault("ffn", sizes.get("expert_ffn", 0) if "experts" in sizes else 4 * sizes["hidden"])
    fields: dict[str, Json] = {**sizes, "gated": gated, "biases": family in _BIASED}
    fields["tied"] = bool(config.get("tie_word_embeddings", family.startswith(_TIED)))
    if family == "falcon" and config.get("multi_query") and not config.get("new_decoder_architecture"):
        fields["kv_heads"] = 1
    if family in ("gpt2", "opt", "gpt_neo", "gpt_bigcode"):
        fields["positions"] = config.get("n_positions") or config.get("max_position_embeddings") or 0
    fields |= _experts(config, sizes) | _mixer_of(config) | {"streams": config.get("hc_mult") or 1}
    others = _others(config, sizes["layers"])
    return Transformer(**{**fields, "others": others})  # type: ignore[arg-type]  # each is of its field's kind


def _halves(config: Config) -> list[str]:
    """The kind of each layer that is one block; none where a layer is a mixer and a feed-forward."""
    if config.get("model_type") != "nemotron_h":
        return []
    pattern, listed = config.get("hybrid_override_pattern"), config.get("layers_block_type")
    kinds = [_LETTERS.get(one, one) for one in pattern or ""] if isinstance(pattern, str) else listed
    if not isinstance(kinds, list) or not kinds:
        raise ValueError("a Nemotron-H says its layers in hybrid_override_pattern, or in layers_block_type")
    if odd := [kind for kind in kinds if kind not in _LETTERS.values()]:
        raise ValueError(f"its layers: {odd[0]!r} is none of {', '.join(map(repr, _LETTERS.values()))}")
    if {"mlp", "moe"} <= set(kinds):
        raise ValueError("its layers: dense feed-forwards beside experts are no blocks of clusterlab")
    if (said := _size(config, "layers")) not in (None, len(kinds)):
        raise ValueError(f"it contradicts itself: {said} layers, and a pattern of {len(kinds)}")
    return list(map(str, kinds))


def _hybrid(config: Config, halves: list[str]) -> Transformer:
    """A Nemotron-H: layers of one block each, Mamba-2 in most of those that mix tokens."""
    plain = {key: value for key, value in config.items() if key not in ("layers_block_type", "model_type")}
    if "moe" not in halves:
        of_experts = {key for field in _OF_EXPERTS for key in _NAMES[field]}
        plain = {key: value for key, value in plain.items() if key not in of_experts}
    plain |= {"model_type": "nemotron", "num_hidden_layers": len(halves)}
    plain.setdefault("head_dim", config.get("attention_head_dim"))
    names = ("mamba_num_heads", "mamba_head_dim", "ssm_state_size", "n_groups")
    if missing := [name for name in names if not isinstance(config.get(name), int)]:
        raise ValueError(f"a Nemotron-H lacks {', '.join(missing)}")
    mixer = Mamba2(*(config[name] for name in names))  # type: ignore[arg-type]  # counts
    counts = {"others": ((halves.count("mamba"), mixer),), "dense_layers": 0}
    return replace(_shape(plain), **counts, feed_forward_layers=sum(kind in ("mlp", "moe") for kind in halves))  # type: ignore[arg-type]


def _experts(config: Config, sizes: Mapping[str, int]) -> dict[str, Json]:
    """Which layers have experts, and how wide these are."""
    if "experts" not in sizes:
        return {"mtp_depth": sizes.get("mtp_depth", 0)}
    if "experts_per_token" not in sizes:
        raise ValueError("it has experts, and doesn't say how many a token goes to (num_experts_per_tok)")
    found: dict[str, Json] = {}
    width = sizes.get("expert_ffn", sizes["ffn"])
    names = ("shared_expert_intermediate_size", "shared_intermediate_size", "moe_shared_expert_intermediate_size")
    shared = next((config[name] for name in names if config.get(name)), None)
    if isinstance(shared, int) and shared:
        if shared % width:
            raise ValueError(f"shared experts of width {shared} beside experts of {width} are no block of clusterlab")
        found["shared_experts"] = shared // width
    every = config.get("interleave_moe_layer_step") or config.get("decoder_sparse_step") or 1
    if str(config.get("model_type", "")).startswith("llama4"):  # one shared expert as wide; wider dense layers
        found |= {
            "shared_experts": 1,
            "expert_ffn": sizes["ffn"],
            "ffn": config.get("intermediate_size_mlp", sizes["ffn"]),
        }
    dense = sizes.get("dense_layers", 0)
    wide, where = config.get("dense_intermediate_size"), config.get("moe_layer_freq")
    # MiniMax-M3: what else is a feed-forward's width is an expert's.
    if isinstance(wide, int) and isinstance(where, list):
        found |= {"expert_ffn": width, "ffn": wide}
        dense = where.count(0)
    # As many dense layers, for what they hold and compute, not where they stand.
    if isinstance(every, int) and every > 1:
        dense = sizes["layers"] - sizes["layers"] // every
    only = config.get("mlp_only_layers")
    return found | {"dense_layers": dense or (len(only) if isinstance(only, list) else 0)}


def _mixer_of(config: Config) -> dict[str, Json]:
    """Sizes of heads, and the latents where keys and values come from one."""
    if not config.get("kv_lora_rank"):
        return {"head_dim": config["head_dim"]} if config.get("head_dim") else {}
    return {
        "kv_rank": config["kv_lora_rank"],
        "query_rank": config.get("q_lora_rank") or 0,
        "rope_dim": config.get("qk_rope_head_dim") or 64,
        "head_dim": config.get("qk_nope_head_dim") or 128,
        "value_dim": config.get("v_head_dim") or 128,
        "kv_heads": None,
    }


def _others(config: Config, layers: int) -> tuple[tuple[int, Block], ...]:
    """The blocks that stand in attention's place in some layers."""
    if config.get("compress_ratios") or config.get("compress_rates"):
        return _compressed(config, layers)
    if blocks := _picked(config, layers):
        return blocks
    if config.get("index_topk"):
        return _indexed(config, layers)
    kinds = _kinds(config, layers)
    found: list[tuple[int, Block]] = []
    if linear := kinds.count("linear_attention"):
        names = ("num_key_heads", "key_head_dim", "num_value_heads", "value_head_dim")
        sizes = [config[f"linear_{name}"] for name in names]
        found.append((linear, GatedDeltaNet(*sizes)))  # type: ignore[arg-type]  # counts
    size = config.get("sliding_window") or config.get("attention_chunk_size")
    if windows := sum(kind in ("sliding_attention", "chunked_attention") for kind in kinds):
        if not isinstance(size, int):
            raise ValueError(f"{windows} layers of sliding attention, and no sliding_window")
        found.append((windows, SlidingWindow(size)))
    return tuple(found)


def _counts(config: Config, *names: str) -> list[int]:
    """Whole numbers by their names; a ValueError names those that are missing."""
    if missing := [name for name in names if type(config.get(name)) is not int]:
        raise ValueError(f"it lacks {', '.join(missing)}, or they are no whole numbers")
    return [int(str(config[name])) for name in names]


def _each(config: Config, name: str, layers: int) -> list[Json]:
    """A list with something for each layer, and for depths of multi-token prediction behind."""
    listed = config.get(name)
    if not isinstance(listed, list) or len(listed) < layers:
        had = f"{name} of {len(listed)}" if isinstance(listed, list) else f"{name} {listed!r}"
        raise ValueError(f"it contradicts itself: {layers} layers, and {had}")
    return listed


def _compressed(config: Config, layers: int) -> tuple[tuple[int, Block], ...]:
    """DeepSeek-V4's three kinds of attention; the last is that of multi-token prediction."""
    if config.get("compress_ratios"):
        ratios = _each(config, "compress_ratios", layers)
    else:
        rates = config["compress_rates"]
        if not isinstance(rates, Mapping):
            raise ValueError(f"compress_rates must be an object, got {rates!r}")
        ratios = [rates.get(str(kind), 0) for kind in _each(config, "layer_types", layers)]
    if odd := [ratio for ratio in ratios if ratio not in (0, 4, 128) or isinstance(ratio, bool)]:
        raise ValueError(f"compress_ratios: {odd[0]!r} is none of 0, 4 and 128")
    window, rank, groups, width = _counts(config, "sliding_window", "q_lora_rank", "o_groups", "o_lora_rank")
    index = _counts(config, "index_topk", "index_n_heads", "index_head_dim")
    last = [ratios[layers] if len(ratios) > layers else 0] if config.get("num_nextn_predict_layers") else []
    order = sorted({*ratios[:layers], *last}, key=lambda ratio: ([ratio] == last, -int(str(ratio))))
    found: list[tuple[int, Block]] = []
    for ratio in order:
        top, heads = index[:2] if ratio == 4 else (0, 0)
        block = CompressedAttention(top, heads, index[2], int(str(ratio)), window, rank, groups, width)
        found.append((ratios[:layers].count(ratio), block))
    return tuple(found)


def _picked(config: Config, layers: int) -> tuple[tuple[int, Block], ...]:
    """MiniMax-M3's layers of sparse attention, as older configurations nest them and newer ones list them."""
    nested = config.get("sparse_attention_config")
    if isinstance(nested, Mapping) and nested.get("use_sparse_attention", True):
        count = sum(map(bool, _each(nested, "sparse_attention_freq", layers)[:layers]))
        names = ("sparse_topk_blocks", "sparse_block_size", "sparse_num_index_heads", "sparse_index_dim")
        blocks, size, heads, width = _counts(nested, *names)
        return ((count, SparseAttention(blocks * size, heads, width)),)
    kinds = config.get("layer_types")
    if isinstance(kinds, list) and "minimax_m3_sparse" in kinds:
        names = ("index_topk_blocks", "index_block_size", "index_n_heads", "index_head_dim")
        blocks, size, heads, width = _counts(config, *names)
        return ((kinds.count("minimax_m3_sparse"), SparseAttention(blocks * size, heads, width)),)
    return ()


def _indexed(config: Config, layers: int) -> tuple[tuple[int, Block], ...]:
    """Latent attention to what an indexer picks; in some layers it takes the choice of the one before."""
    top, heads, width = _counts(config, "index_topk", "index_n_heads", "index_head_dim")
    shared = 0
    if config.get("indexer_types"):
        kinds = _each(config, "indexer_types", layers)[:layers]
        if odd := [kind for kind in kinds if kind not in ("full", "shared")]:
            raise ValueError(f"indexer_types: {odd[0]!r} is neither 'full' nor 'shared'")
        shared = kinds.count("shared")
    own = (layers - shared, SparseLatentAttention(top, heads, width))
    return ((shared, SparseLatentAttention(top, 0, width)), own) if shared else (own,)


def _kinds(config: Config, layers: int) -> list[str]:
    """What mixes tokens in each layer, as ``layer_types`` names it, or as older configurations mean it."""
    listed = config.get("layer_types")
    if isinstance(listed, list):
        if len(listed) != layers:
            raise ValueError(f"it contradicts itself: {layers} layers, and layer_types of {len(listed)}")
        known = ("full_attention", "sliding_attention", "chunked_attention", "linear_attention")
        if odd := [kind for kind in listed if kind not in known]:
            raise ValueError(f"layer_types: {odd[0]} is no block of clusterlab")
        return [str(kind) for kind in listed]
    full = config.get("full_attention_interval")
    every, family = config.get("sliding_window_pattern"), str(config.get("model_type", ""))
    if isinstance(full, int):
        return ["full_attention" if (i + 1) % full == 0 else "linear_attention" for i in range(layers)]
    if every is None and family.startswith(("gemma2", "gpt_oss", "gemma3")):
        every = 6 if family.startswith("gemma3") else 2
    if isinstance(every, int) and config.get("sliding_window"):
        return ["full_attention" if (i + 1) % every == 0 else "sliding_attention" for i in range(layers)]
    if family == "mistral" and config.get("sliding_window"):
        return ["sliding_attention"] * layers
    return ["full_attention"] * layers  # Qwen's window is off unless use_sliding_window says so
