"""The feed-forward part of one layer of a configuration: a multi-layer perceptron, experts, or nothing."""

from __future__ import annotations

from typing import Any

from chunkcalc.catalog.configs.families import Family
from chunkcalc.catalog.configs.keys import Config
from chunkcalc.records import Absent, Dense, Moe

Ffn = Dense | Moe | Absent


def feedforward(config: Config, family: Family, index: int, kind: str, count: int) -> Ffn:
    """The feed-forward part of a layer.

    Parameters
    ----------
    config : of the layer
    family : of the model
    index : of the layer, from 0
    kind : of what mixes tokens in it, or mlp or moe where nothing does
    count : layers of the model
    """
    if config.model_type == "nemotron_h":
        if kind == "mlp":
            return dense(config, family)
        return moe(config, family) if kind == "moe" else Absent()
    if family.experts and has_experts(config, index):
        return moe(config, family)
    return dense(config, family, index, count)


def has_experts(config: Config, index: int) -> bool:
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


def dense(config: Config, family: Family, index: int = 0, count: int = 1) -> Dense:
    """A multi-layer perceptron."""
    width = config.whole(family.dense_width, "intermediate_size", "shared_intermediate_size")
    shared = config.whole("num_kv_shared_layers", default=0, least=0)
    if config.flag("use_double_wide_mlp") and index >= count - shared:
        width *= 2
    return Dense(intermediate=width, gated=family.gated)


def moe(config: Config, family: Family) -> Moe:
    """A mixture of experts."""
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
