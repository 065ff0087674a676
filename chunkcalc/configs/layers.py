"""The layers of a configuration: the attention and the feed-forward part of each, grouped."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from chunkcalc.configs.families import Family
from chunkcalc.configs.keys import MOST_LAYERS, Config
from chunkcalc.records import (
    Absent,
    Attention,
    Compressed,
    Delta,
    Dense,
    Gqa,
    Indexer,
    LayerGroup,
    Mamba2,
    Mla,
    Moe,
)

Ffn = Dense | Moe | Absent
# Spellings of `layer_types` and of older patterns, one letter per layer in Nemotron-H's.
_KINDS = {
    "full_attention": "full", "attention": "full", "*": "full", "indexed_attention": "full",
    "sliding_attention": "sliding", "chunked_attention": "chunked",
    "linear_attention": "linear", "mamba": "linear", "M": "linear",
    "compressed_sparse_attention": "sparse", "heavily_compressed_attention": "heavy",
    "mlp": "mlp", "-": "mlp", "moe": "moe", "E": "moe",
}  # fmt: skip


def layer_groups(config: Config, family: Family) -> tuple[LayerGroup, ...]:
    """The groups of equal layers, in the order of their first layer.

    Parameters
    ----------
    config : the configuration
    family : its family
    """
    if config.model_type == "longcat_flash":
        return _longcat(config, family)
    if config.model_type == "nemotron-nas":
        return _nemotron_nas(config)
    kinds = _kinds(config, family)
    counted: dict[tuple[Attention, Ffn], int] = {}
    for index, kind in enumerate(kinds):
        own, count = config.layer(index), len(kinds)
        layer = (_attention(own, family, index, kind, count), _ffn(own, family, index, kind, count))
        counted[layer] = counted.get(layer, 0) + 1
    return tuple(LayerGroup(count=n, attention=attention, ffn=ffn) for (attention, ffn), n in counted.items())


def _kinds(config: Config, family: Family) -> list[str]:
    """What mixes tokens in each layer: full, sliding, chunked, linear, ..., or mlp and moe alone."""
    written = config.names("layer_types", "layers_block_type")
    pattern = config.get("hybrid_override_pattern")
    if written is None and isinstance(pattern, str):
        written = list(pattern)
    if written is not None and config.get("num_hidden_layers") is not None:
        count = config.whole("num_hidden_layers")
        if len(written) != count:
            config.refuse("layer_types", f"has {len(written)} entries for {count} layers")
    if written is None:
        return _implied_kinds(config, family)
    for name in written:
        if name not in _KINDS:
            config.refuse("layer_types", f"has the unknown entry {name!r:.40}")
    return [_KINDS[name] for name in written]


def _implied_kinds(config: Config, family: Family) -> list[str]:
    """Kinds from intervals and patterns, where no list is written."""
    count = config.whole("num_hidden_layers", "n_layer", "num_layers")
    if count > MOST_LAYERS:
        config.refuse("num_hidden_layers", f"is {count}")
    interval = config.maybe("full_attention_interval", "layer_group_size")
    if family.linear and interval:
        return ["full" if (index + 1) % interval == 0 else "linear" for index in range(count)]
    table = config.get("linear_attn_config")
    if family.linear and isinstance(table, Mapping):
        full = table.get("full_attn_layers")
        if not isinstance(full, list):
            config.refuse("linear_attn_config.full_attn_layers", "is not a list")
        return ["full" if index + 1 in full else "linear" for index in range(count)]
    if family.linear:
        config.refuse("layer_types", "is missing")
    ratios = config.get("compress_ratios")
    if family.attention == "compressed":
        if not isinstance(ratios, list):
            config.refuse("layer_types or compress_ratios", "is missing")
        return [{0: "sliding", 4: "sparse"}.get(ratio, "heavy") for ratio in ratios[:count]]
    chunk, every = config.maybe("attention_chunk_size"), config.maybe("no_rope_layer_interval")
    if chunk and every:
        return ["full" if (index + 1) % every == 0 else "chunked" for index in range(count)]
    repeat = config.maybe("sliding_window_pattern", "_sliding_window_pattern")
    if repeat and _window(config):
        return ["full" if (index + 1) % repeat == 0 else "sliding" for index in range(count)]
    return ["sliding" if family.windowed and _window(config) else "full"] * count


def _window(config: Config) -> int | None:
    """The sliding window; None where there is none or it is switched off."""
    if config.get("use_sliding_window") is False:
        return None
    window = config.maybe("sliding_window", "sliding_window_size")
    # MiMo counts the query itself on top of the window.
    return window - 1 if window and config.model_type == "mimo_v2_flash" and window % 2 else window


def _attention(config: Config, family: Family, index: int, kind: str, count: int) -> Attention:
    if kind in ("mlp", "moe"):
        return Absent()
    if family.attention == "compressed":
        return _compressed(config, kind)
    if kind == "linear":
        return _linear(config, family)
    if family.attention == "mla":
        return _mla(config, family, index)
    return _gqa(config, family, index, kind, count)


def _gqa(config: Config, family: Family, index: int, kind: str, count: int) -> Gqa:
    heads = config.whole("num_attention_heads", "n_head")
    kv_heads = config.whole("num_key_value_heads", "num_kv_heads", default=heads)
    hidden = config.whole("hidden_size")
    head_dim = config.whole("head_dim", default=max(1, hidden // heads))
    value_dim = config.maybe("v_head_dim")
    options: dict[str, Any] = {}
    sliding = kind == "sliding"
    if sliding:
        window = _window(config)
        if window is None:
            config.refuse("sliding_window", "is missing")
        options["window"] = window
        heads, kv_heads = _local_heads(config, heads, kv_heads)
    if kind == "chunked":
        options["chunk"] = config.whole("attention_chunk_size")
    if config.model_type == "gemma4_text":
        options |= _gemma4(config, index, kind, count)
        if not sliding:
            head_dim = config.whole("global_head_dim", default=head_dim)
            kv_heads = config.whole("num_global_key_value_heads", default=kv_heads)
    if config.model_type == "minimax_m3_vl_text" and _sparse(config, index, count):
        blocks = config.whole("index_topk_blocks")
        options["top_k"] = blocks * config.whole("index_block_size")
        options["indexer"] = Indexer(heads=config.whole("index_n_heads"), dim=config.whole("index_head_dim"))
    if value_dim is not None and value_dim != head_dim:
        options["v_head_dim"] = value_dim
    return Gqa(heads=heads, kv_heads=kv_heads, head_dim=head_dim, gate=family.gate, **options)


def _local_heads(config: Config, heads: int, kv_heads: int) -> tuple[int, int]:
    """Heads of sliding layers where they differ: MiMo and Step name them apart."""
    heads = config.whole("swa_num_attention_heads", "num_sliding_attention_heads", default=heads)
    default = kv_heads * 2 if config.model_type == "mimo_v2_flash" else kv_heads
    return heads, config.whole("swa_num_key_value_heads", default=default)


def _gemma4(config: Config, index: int, kind: str, count: int) -> dict[str, Any]:
    """The last layers read the cache of earlier ones; full layers may use keys as values."""
    shared = config.whole("num_kv_shared_layers", default=0, least=0)
    shares = index >= count - shared
    same = config.flag("attention_k_eq_v") and kind == "full" and not shares
    return {"shares_kv": shares, "k_is_v": same}


def _mla(config: Config, family: Family, index: int) -> Mla:
    options: dict[str, Any] = {}
    top_k = config.maybe("index_topk")
    if top_k:
        options["top_k"] = top_k
        owners = config.names("indexer_types")
        if owners is None or index >= len(owners) or owners[index] == "full":
            options["indexer"] = Indexer(heads=config.whole("index_n_heads"), dim=config.whole("index_head_dim"))
    return Mla(
        heads=config.whole("num_attention_heads"),
        q_lora=config.maybe("q_lora_rank"),
        kv_lora=config.whole("kv_lora_rank"),
        nope=config.whole("qk_nope_head_dim"),
        rope=config.whole("qk_rope_head_dim"),
        v_head_dim=config.whole("v_head_dim"),
        gate=family.gate,
        **options,
    )


def _linear(config: Config, family: Family) -> Attention:
    if family.linear == "mamba2":
        return Mamba2(
            heads=config.whole("mamba_num_heads", "mamba_n_heads"),
            head_dim=config.whole("mamba_head_dim", "mamba_d_head"),
            state=config.whole("ssm_state_size", "mamba_d_state"),
            groups=config.whole("n_groups", "mamba_n_groups"),
            conv=config.whole("conv_kernel", "mamba_d_conv"),
        )
    if family.linear == "kda":
        table = config.get("linear_attn_config")
        inner = Config(table, config.data, config.where) if isinstance(table, Mapping) else config
        heads, dim = inner.whole("linear_num_heads", "num_heads"), inner.whole("linear_head_dim", "head_dim")
        conv = inner.whole("linear_conv_kernel_dim", "short_conv_kernel_size")
        return Delta(
            style="kda", key_heads=heads, key_dim=dim, value_heads=heads, value_dim=dim, conv=conv,
            full_gate=family.gate,
        )  # fmt: skip
    return Delta(
        key_heads=config.whole("linear_num_key_heads"),
        key_dim=config.whole("linear_key_head_dim"),
        value_heads=config.whole("linear_num_value_heads"),
        value_dim=config.whole("linear_value_head_dim"),
        conv=config.whole("linear_conv_kernel_dim"),
    )


def _compressed(config: Config, kind: str) -> Compressed:
    rates = config.get("compress_rates")
    rates = rates if isinstance(rates, Mapping) else {}
    options: dict[str, Any] = {}
    if kind == "sparse":
        options = {
            "ratio": rates.get("compressed_sparse_attention", 4),
            "top_k": config.whole("index_topk"),
            "indexer": Indexer(heads=config.whole("index_n_heads"), dim=config.whole("index_head_dim")),
        }
    if kind == "heavy":
        options = {"ratio": rates.get("heavily_compressed_attention", 128)}
    return Compressed(
        heads=config.whole("num_attention_heads"),
        head_dim=config.whole("head_dim"),
        q_lora=config.whole("q_lora_rank"),
        o_lora=config.whole("o_lora_rank"),
        o_groups=config.whole("o_groups"),
        window=config.whole("sliding_window"),
        hyper_connections=config.whole("hc_mult", default=0, least=0),
        **options,
    )


def _ffn(config: Config, family: Family, index: int, kind: str, count: int) -> Ffn:
    if config.model_type == "nemotron_h":
        if kind == "mlp":
            return _dense(config, family)
        return _moe(config, family) if kind == "moe" else Absent()
    if family.experts and _sparse(config, index, count):
        return _moe(config, family)
    return _dense(config, family, index, count)


def _sparse(config: Config, index: int, count: int) -> bool:
    """Whether a layer has experts."""
    if config.model_type == "gemma4_text":
        return config.flag("enable_moe_block")
    if config.model_type == "granitemoehybrid" and not config.get("num_local_experts"):
        return False
    written = config.names("mlp_layer_types")
    if written is not None and index < len(written):
        return written[index] not in ("dense",)
    listed = config.get("moe_layers")
    if isinstance(listed, list):
        return index in listed
    every = config.maybe("interleave_moe_layer_step", "decoder_sparse_step", "moe_layer_interval") or 1
    start = config.whole("first_k_dense_replace", "moe_layer_start_index", default=0, least=0)
    only_dense = config.get("mlp_only_layers")
    if isinstance(only_dense, list) and index in only_dense:
        return False
    return index >= start and (index + 1) % every == 0


def _dense(config: Config, family: Family, index: int = 0, count: int = 1) -> Dense:
    width = config.whole(family.dense_width, "intermediate_size", "shared_intermediate_size")
    shared = config.whole("num_kv_shared_layers", default=0, least=0)
    if config.flag("use_double_wide_mlp") and index >= count - shared:
        width *= 2
    return Dense(intermediate=width, gated=family.gated)


def _moe(config: Config, family: Family) -> Moe:
    width = config.whole(family.expert_width, "moe_intermediate_size")
    options: dict[str, Any] = {}
    latent = config.maybe("moe_latent_size", "routed_expert_hidden_size", "moe_hidden_size")
    if latent and latent != config.whole("hidden_size"):
        options["latent"] = latent
    identity = config.whole("zero_expert_num", default=0, least=0)
    return Moe(
        experts=config.whole("n_routed_experts", "num_local_experts", "num_experts", "moe_num_experts"),
        top_k=config.whole(
            "num_experts_per_tok", "num_experts_per_token", "top_k_experts", "moe_topk", "moe_k"
        ),
        intermediate=width,
        shared_intermediate=_shared_width(config, width),
        identity_experts=identity,
        gated=family.gated,
        **options,
    )  # fmt: skip


def _shared_width(config: Config, width: int) -> int:
    """Width of the shared experts together; Gemma 4's parallel dense MLP and Llama 4's one count too."""
    if config.model_type == "gemma4_text":
        return config.whole("intermediate_size")
    if config.model_type == "llama4_text":
        return width
    written = config.maybe(
        "moe_shared_expert_intermediate_size", "shared_expert_intermediate_size", "shared_intermediate_size",
        "share_expert_dim",
    )  # fmt: skip
    if written:
        return written
    number = config.whole("n_shared_experts", "num_shared_experts", "moe_num_shared_experts", default=0, least=0)
    return number * width


def _longcat(config: Config, family: Family) -> tuple[LayerGroup, ...]:
    """Each block is two attentions, two dense MLPs and one mixture beside them."""
    blocks = config.whole("num_layers", "num_hidden_layers")
    return (
        LayerGroup(count=2 * blocks, attention=_mla(config, family, 0), ffn=_dense(config, family)),
        LayerGroup(count=blocks, attention=Absent(), ffn=_moe(config, family)),
    )


def _nemotron_nas(config: Config) -> tuple[LayerGroup, ...]:
    """Layers found by architecture search: attention in some, MLPs of several widths."""
    blocks = config.get("block_configs")
    if not isinstance(blocks, list) or not all(isinstance(block, Mapping) for block in blocks):
        config.refuse("block_configs", "is not a list of layers")
    hidden, heads = config.whole("hidden_size"), config.whole("num_attention_heads")
    counted: dict[tuple[Attention, Ffn], int] = {}
    for block in blocks[:MOST_LAYERS]:
        attention, ffn = block.get("attention") or {}, block.get("ffn") or {}
        mixing: Attention = Absent()
        if not (attention.get("no_op") or attention.get("replace_with_linear")):
            group = attention.get("n_heads_in_group") or 1
            mixing = Gqa(heads=heads, kv_heads=heads // int(group), head_dim=hidden // heads)
        part: Ffn = Absent()
        if not ffn.get("no_op"):
            # Widths are two thirds of a multiple of the hidden size, rounded up to 256.
            width = int(2 * float(ffn.get("ffn_mult") or 0) * hidden / 3)
            part = Dense(intermediate=max(256, -(-width // 256) * 256))
        counted[mixing, part] = counted.get((mixing, part), 0) + 1
    return tuple(LayerGroup(count=n, attention=attention, ffn=ffn) for (attention, ffn), n in counted.items())
