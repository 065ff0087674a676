"""The attention of one layer of a configuration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from chunkcalc.catalog.configs.families import Family
from chunkcalc.catalog.configs.feedforward import has_experts
from chunkcalc.catalog.configs.keys import Config
from chunkcalc.records import Absent, Attention, Compressed, Delta, Gqa, Indexer, Mamba2, Mla


def window(config: Config) -> int | None:
    """The sliding window; None where there is none or it is switched off."""
    if config.get("use_sliding_window") is False:
        return None
    size = config.maybe("sliding_window", "sliding_window_size")
    # MiMo counts the query itself on top of the window.
    return size - 1 if size and config.model_type == "mimo_v2_flash" and size % 2 else size


def attention(config: Config, family: Family, index: int, kind: str, count: int) -> Attention:
    """What mixes tokens in a layer.

    Parameters
    ----------
    config : of the layer
    family : of the model
    index : of the layer, from 0
    kind : full, sliding, chunked, linear, sparse or heavy; mlp and moe mix nothing
    count : layers of the model
    """
    if kind in ("mlp", "moe"):
        return Absent()
    if family.attention == "compressed":
        return _compressed(config, kind)
    if kind == "linear":
        return _linear(config, family)
    if family.attention == "mla":
        return mla(config, family, index)
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
        size = window(config)
        if size is None:
            config.refuse("sliding_window", "is missing")
        options["window"] = size
        heads, kv_heads = _local_heads(config, heads, kv_heads)
    if kind == "chunked":
        options["chunk"] = config.whole("attention_chunk_size")
    if config.model_type == "gemma4_text":
        options |= _gemma4(config, index, kind, count)
        if not sliding:
            head_dim = config.whole("global_head_dim", default=head_dim)
            kv_heads = config.whole("num_global_key_value_heads", default=kv_heads)
    if config.model_type == "minimax_m3_vl_text" and has_experts(config, index):
        blocks = config.whole("index_topk_blocks")
        options["top_k"] = blocks * config.whole("index_block_size")
        options["indexer"] = Indexer(heads=config.whole("index_n_heads"), dim=config.whole("index_head_dim"))
    if value_dim is not None and value_dim != head_dim:
        options["v_head_dim"] = value_dim
    if config.get("qk_norm_type") == "per_layer":  # MiniMax-M2: one norm over all heads, so over all ranks
        options["norm_all"] = True
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


def mla(config: Config, family: Family, index: int) -> Mla:
    """Multi-head latent attention."""
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
