"""Write tests/configs.json: one config.json per architecture, with transformers' own keys.

    pip install transformers; python benchmarks/config_fixtures.py

Each configuration is made by the architecture's configuration class, filled with the sizes of a
shipped profile, so that the names of the keys are those of real files. Run once per new
architecture; transformers is no dependency of the tests.
"""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

from transformers.models.auto.configuration_auto import CONFIG_MAPPING

ROOT = Path(__file__).parent.parent
# Architecture (transformers' model_type) -> shipped profile.
MODELS = {
    "llama": "llama-3.1-8b", "llama4_text": "llama-4-maverick", "qwen2": "qwen2.5-7b", "qwen3": "qwen3-32b",
    "qwen3_moe": "qwen3-30b-a3b", "qwen3_next": "qwen3-next-80b-a3b", "qwen3_5_text": "qwen3.5-27b",
    "qwen3_5_moe_text": "qwen3.5-35b-a3b", "deepseek_v2": "deepseek-v2", "deepseek_v3": "deepseek-v3",
    "deepseek_v32": "deepseek-v3.2", "deepseek_v4": "deepseek-v4-flash", "gpt_oss": "gpt-oss-120b",
    "gemma2": "gemma-2-9b", "gemma3_text": "gemma-3-27b", "gemma4_text": "gemma-4-e2b", "mistral": "mistral-7b-v0.1",
    "ministral3": "ministral-3-8b", "mixtral": "mixtral-8x7b", "mistral4": "mistral-small-4-119b",
    "mistral_large4": "mistral-large-4", "glm4_moe": "glm-4.5", "glm4_moe_lite": "glm-4.7-flash",
    "glm_moe_dsa": "glm-5.2", "kimi_linear": "kimi-linear-48b-a3b", "minimax_m2": "minimax-m2",
    "minimax_m3_vl_text": "minimax-m3", "nemotron_h": "nemotron-3-super-120b-a12b", "phi3": "phi-3-mini-4k",
    "phimoe": "phi-3.5-moe", "falcon": "falcon-180b", "granitemoehybrid": "granite-4.0-h-small",
    "granite": "granite-4.0-micro", "seed_oss": "seed-oss-36b", "olmo3": "olmo-3-32b", "smollm3": "smollm3-3b",
    "cohere2": "command-a-111b", "longcat_flash": "longcat-flash", "mimo_v2_flash": "mimo-v2-flash",
    "step3p7": "step-3.7-flash", "hy_v3": "hy3-preview", "solar_open": "solar-open-100b",
    "muse_spark": "muse-spark-816b-a42b", "muse_glimmer": "muse-glimmer-30b", "bailing_hybrid": "ling-3.0-flash",
    "ernie4_5_moe": "ernie-4.5-21b-a3b",
}  # fmt: skip
# Further profiles of the same architectures that exercise other keys.
MORE = [
    ("llama4_text", "llama-4-scout"), ("gemma4_text", "gemma-4-31b"), ("gemma4_text", "gemma-4-26b-a4b"),
    ("gemma4_text", "gemma-4-e4b"), ("mistral", "mistral-nemo-12b"), ("deepseek_v2", "deepseek-v2-lite"),
    ("deepseek_v4", "deepseek-v4-pro"), ("nemotron_h", "nemotron-h-56b"), ("glm_moe_dsa", "glm-5"),
    ("granitemoehybrid", "granite-4.0-h-micro"), ("qwen2", "qwen2.5-0.5b"), ("phi3", "phi-4"),
    ("deepseek_v3", "kimi-k2"),
]  # fmt: skip
# Architectures whose `intermediate_size` is the experts' width.
ONE_WIDTH = (
    "mixtral", "phimoe", "gpt_oss", "minimax_m2", "minimax_m3_vl_text", "llama4_text", "granitemoehybrid",
)  # fmt: skip
# Written by real files, though the classes leave them out while they hold their defaults.
ALWAYS = {"head_dim", "global_head_dim", "num_global_key_value_heads"}
DROPPED = (
    "id2label", "label2id", "transformers_version", "architectures", "rope_parameters", "_name_or_path",
    "vision_config", "audio_config", "layer_rope_theta", "time_step_limit",
)  # fmt: skip


def profile(name: str) -> dict[str, Any]:
    """A shipped profile as plain data."""
    return tomllib.loads((ROOT / "models" / f"{name}.toml").read_text())


def per_layer(groups: list[dict[str, Any]], label: Any) -> list[str]:
    """One label per layer."""
    return [label(group) for group in groups for _ in range(group["count"])]


def kind_of(group: dict[str, Any]) -> str:
    """transformers' name of a layer's kind."""
    attention, ffn = group["attention"], group["ffn"]
    if attention["kind"] == "none":
        return {"moe": "moe", "dense": "mlp"}[ffn["kind"]]
    if attention["kind"] in ("delta", "mamba2"):
        return "linear_attention"
    if attention["kind"] == "compressed":
        ratio = attention.get("ratio")
        return {4: "compressed_sparse_attention", 128: "heavily_compressed_attention"}.get(ratio, "sliding_attention")
    if "window" in attention:
        return "sliding_attention"
    if "chunk" in attention:
        return "chunked_attention"
    return "full_attention"


def values(data: dict[str, Any]) -> dict[str, Any]:
    """Every size of a profile under every spelling that some class may use."""
    groups = data["layers"]
    softmax = [g["attention"] for g in groups if g["attention"]["kind"] in ("gqa", "mla", "compressed")]
    local = next((a for a in softmax if "window" in a or "chunk" in a), None)
    full = next((a for a in softmax if "window" not in a and "chunk" not in a), None)
    main = full or local
    linear = next((g["attention"] for g in groups if g["attention"]["kind"] in ("delta", "mamba2")), {})
    dense = next((g["ffn"] for g in groups if g["ffn"]["kind"] == "dense"), {})
    moe = next((g["ffn"] for g in groups if g["ffn"]["kind"] == "moe"), {})
    count = sum(g["count"] for g in groups)
    kinds = per_layer(groups, kind_of)
    out: dict[str, Any] = {
        "hidden_size": data["hidden"], "vocab_size": data["vocab"], "tie_word_embeddings": data["tied_embeddings"],
        "max_position_embeddings": data["max_position"], "model_max_length": data["max_position"],
        "num_hidden_layers": count, "num_layers": count, "layer_types": kinds, "layers_block_type": kinds,
        "num_attention_heads": main["heads"], "num_key_value_heads": main.get("kv_heads", main["heads"]),
        "num_kv_heads": main.get("kv_heads"), "head_dim": main.get("head_dim"), "v_head_dim": main.get("v_head_dim"),
        "num_nextn_predict_layers": data.get("mtp_layers"),
        "hidden_size_per_layer_input": data.get("per_layer_embedding", 0),
        "mlp_layer_types": per_layer(groups, lambda g: "sparse" if g["ffn"]["kind"] == "moe" else "dense"),
        "intermediate_size": dense.get("intermediate"), "ffn_hidden_size": dense.get("intermediate"),
        "dense_intermediate_size": dense.get("intermediate"), "intermediate_size_mlp": dense.get("intermediate"),
        "n_routed_experts": moe.get("experts"), "num_experts": moe.get("experts"),
        "num_local_experts": moe.get("experts"), "moe_num_experts": moe.get("experts"),
        "num_experts_per_tok": moe.get("top_k"), "num_experts_per_token": moe.get("top_k"),
        "moe_topk": moe.get("top_k"),
        "top_k_experts": moe.get("top_k"), "moe_k": moe.get("top_k"), "moe_intermediate_size": moe.get("intermediate"),
        "expert_ffn_hidden_size": moe.get("intermediate"), "moe_hidden_size": moe.get("latent"),
        "moe_latent_size": moe.get("latent"), "zero_expert_num": moe.get("identity_experts"),
        "first_k_dense_replace": sum(g["count"] for g in groups if g["ffn"]["kind"] == "dense"),
        "q_lora_rank": main.get("q_lora"), "kv_lora_rank": main.get("kv_lora"), "qk_nope_head_dim": main.get("nope"),
        "qk_rope_head_dim": main.get("rope"), "o_lora_rank": main.get("o_lora"), "o_groups": main.get("o_groups"),
    }  # fmt: skip
    shared = moe.get("shared_intermediate", 0)
    if shared and moe["intermediate"] and shared % moe["intermediate"] == 0:
        for key in ("n_shared_experts", "num_shared_experts", "moe_num_shared_experts"):
            out[key] = shared // moe["intermediate"]
    for prefix in ("moe_shared_expert", "shared_expert", "shared"):
        out[f"{prefix}_intermediate_size"] = shared or None
    out["share_expert_dim"] = shared or None
    if local:
        out |= {"sliding_window": local.get("window"), "attention_chunk_size": local.get("chunk")}
        out |= {"num_sliding_attention_heads": local["heads"]}
    indexer = next((g["attention"]["indexer"] for g in groups if g["attention"].get("indexer")), None)
    if indexer:
        top_k = next(g["attention"]["top_k"] for g in groups if g["attention"].get("top_k"))
        out |= {"index_topk": top_k, "index_n_heads": indexer["heads"], "index_head_dim": indexer["dim"]}
        out["indexer_types"] = per_layer(groups, lambda g: "full" if g["attention"].get("indexer") else "shared")
    if linear.get("kind") == "delta":
        out |= {
            "linear_num_key_heads": linear["key_heads"], "linear_key_head_dim": linear["key_dim"],
            "linear_num_value_heads": linear["value_heads"], "linear_value_head_dim": linear["value_dim"],
            "linear_conv_kernel_dim": linear["conv"], "linear_num_heads": linear["key_heads"],
            "linear_head_dim": linear["key_dim"],
        }  # fmt: skip
    if linear.get("kind") == "mamba2":
        for mine, keys in (
            ("heads", ("mamba_num_heads", "mamba_n_heads")), ("head_dim", ("mamba_head_dim", "mamba_d_head")),
            ("state", ("ssm_state_size", "mamba_d_state")), ("groups", ("n_groups", "mamba_n_groups")),
            ("conv", ("conv_kernel", "mamba_d_conv")),
        ):  # fmt: skip
            out |= dict.fromkeys(keys, linear[mine])
    return out


def special(kind: str, data: dict[str, Any], out: dict[str, Any]) -> dict[str, Any]:
    """What a class wants under names or in forms of its own."""
    groups = data["layers"]
    moe = next((g["ffn"] for g in groups if g["ffn"]["kind"] == "moe"), {})
    if moe and kind in ONE_WIDTH:
        out["intermediate_size"] = moe["intermediate"]
    if kind == "granitemoehybrid" and not moe:
        out |= {"num_local_experts": 0, "num_experts_per_tok": 0}
        out["shared_intermediate_size"] = groups[0]["ffn"]["intermediate"]
    if kind == "llama4_text":
        out["moe_layers"] = [i for i, t in enumerate(out["mlp_layer_types"]) if t == "sparse"]
        out["intermediate_size_mlp"] = 16384
    if kind == "gemma4_text":
        full = next(g["attention"] for g in groups if "window" not in g["attention"])
        local = next(g["attention"] for g in groups if "window" in g["attention"])
        out |= {
            "head_dim": local["head_dim"], "num_key_value_heads": local["kv_heads"],
            "global_head_dim": full["head_dim"],
            "num_global_key_value_heads": full["kv_heads"], "attention_k_eq_v": bool(full.get("k_is_v")),
            "num_kv_shared_layers": sum(g["count"] for g in groups if g["attention"].get("shares_kv")),
            "enable_moe_block": bool(moe),
        }  # fmt: skip
        dense = [g["ffn"]["intermediate"] for g in groups if g["ffn"]["kind"] == "dense"]
        out["use_double_wide_mlp"] = len(set(dense)) > 1
        out["intermediate_size"] = min(dense) if dense else moe["shared_intermediate"]
    if kind == "minimax_m3_vl_text":
        out |= {"index_topk_blocks": 16, "index_block_size": 128}
    if kind == "longcat_flash":
        out["num_layers"] = 28
        out.pop("num_hidden_layers")
        out.pop("layer_types")
    if kind == "deepseek_v4":
        out |= {"sliding_window": 128, "hc_mult": 4, "mlp_layer_types": None}
    if kind == "mimo_v2_flash":
        out["sliding_window"] = 129
    if kind == "falcon":
        out["new_decoder_architecture"] = True
    return out


def configuration(kind: str, name: str) -> dict[str, Any]:
    """config.json of a profile, as the architecture's class writes it."""
    data = profile(name)
    if kind == "gemma4_text":
        # The last layer is a full one, and the layers that share a cache come last.
        data["layers"].sort(key=lambda g: (g["attention"].get("shares_kv", False), "window" not in g["attention"]))
    wanted = special(kind, data, values(data))
    cls = CONFIG_MAPPING[kind]
    plain = cls().to_dict()
    if "text_config" in plain:
        text = cls().text_config
        keys = set(text.to_dict()) | set(getattr(type(text), "attribute_map", {})) | {"num_global_key_value_heads"}
        made: Any = cls(text_config={k: v for k, v in wanted.items() if k in keys and v is not None}).to_dict()
        made["text_config"] = clean(made["text_config"])
    else:
        keys = set(plain) | set(getattr(cls, "attribute_map", {})) | (ALWAYS if kind != "falcon" else set())
        given = {k: v for k, v in wanted.items() if k in keys and v is not None}
        if "q_lora_rank" in keys:
            given["q_lora_rank"] = wanted.get("q_lora_rank")
        if data["layers"][0]["attention"].get("window") is None and kind == "mistral":
            given["sliding_window"] = None
        made = cls(**given).to_dict()
    return clean(made)


def clean(data: dict[str, Any]) -> dict[str, Any]:
    """Without what says nothing of sizes."""
    out = {k: v for k, v in data.items() if k not in DROPPED and not isinstance(v, float)}
    return {k: v for k, v in out.items() if v is not None or k in ("q_lora_rank", "sliding_window")}


def main() -> None:
    """Write the file."""
    found = {}
    for kind, name in [*MODELS.items(), *MORE]:
        found[name] = configuration(kind, name)
    path = ROOT / "tests" / "configs.json"
    lines = [f"{json.dumps(name)}: {json.dumps(config)}" for name, config in found.items()]
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    print(f"{len(found)} configurations, {path.stat().st_size / 1024:.0f} KiB")


if __name__ == "__main__":
    main()
