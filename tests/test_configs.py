"""Configurations with transformers' own keys import to the shipped profiles; bad ones say why."""

import copy
import json
import math
import tomllib
from pathlib import Path

import pytest

from chunkcalc.catalog import schema
from chunkcalc.catalog.configs import FAMILIES, model_from_config, read_json
from chunkcalc.catalog.lookup import load_model, models
from chunkcalc.errors import ChunkcalcError
from chunkcalc.report import toml
from chunkcalc.work import counts

CONFIGS = json.loads((Path(__file__).parent / "configs.json").read_text())
LLAMA, DEEPSEEK = CONFIGS["llama-3.1-8b"], CONFIGS["deepseek-v3"]


def amounts(model):
    """What the two must agree on."""
    return (
        counts.parameters(model), counts.matmul_parameters(model), counts.kv_bytes_per_token(model, "bf16"),
        counts.fixed_bytes_per_sequence(model, "bf16"), model.layer_count, model.hidden, model.vocab,
        model.max_position,
    )  # fmt: skip


@pytest.mark.parametrize("name", CONFIGS)
def test_a_configuration_imports_to_the_shipped_profile(name):
    found = model_from_config(CONFIGS[name], "config.json")
    assert amounts(found) == pytest.approx(amounts(load_model(name).record), rel=1e-12)


@pytest.mark.parametrize("name", CONFIGS)
def test_an_imported_model_survives_the_way_through_a_profile(name, tmp_path):
    found = model_from_config(CONFIGS[name], "config.json", name)
    path = tmp_path / "mine.toml"
    path.write_text(toml.model(found))
    assert load_model(str(path)).record == found


def test_every_shipped_model_survives_the_way_through_a_profile():
    for model in models():
        assert schema.model(tomllib.loads(toml.model(model)), model.id) == model


def test_architectures_without_a_configuration_class():
    kimi = {**DEEPSEEK, "model_type": "kimi_k2", "n_routed_experts": 384, "num_attention_heads": 64}
    kimi |= {"vocab_size": 163840, "first_k_dense_replace": 1, "max_position_embeddings": 131072}
    shipped = load_model("kimi-k2").record
    assert counts.parameters(model_from_config(kimi, "config.json")) == counts.parameters(shipped)

    linear = {"full_attn_layers": [4 * n for n in range(1, 24)] + [93], "head_dim": 128, "num_heads": 96}
    k3 = {
        "model_type": "kimi_k3", "hidden_size": 7168, "vocab_size": 163840, "max_position_embeddings": 1048576,
        "num_hidden_layers": 93, "num_attention_heads": 96, "q_lora_rank": 1536, "kv_lora_rank": 512,
        "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128, "intermediate_size": 33792,
        "n_routed_experts": 896, "num_experts_per_tok": 16, "moe_intermediate_size": 3072, "n_shared_experts": 2,
        "routed_expert_hidden_size": 3584, "first_k_dense_replace": 1,
        "linear_attn_config": {**linear, "short_conv_kernel_size": 4},
    }  # fmt: skip
    assert amounts(model_from_config(k3, "config.json"))[:4] == pytest.approx(
        amounts(load_model("kimi-k3").record)[:4], rel=1e-12
    )

    block = {"attention": {"n_heads_in_group": 8}, "ffn": {"ffn_mult": 3.75}}
    none = {"attention": {"no_op": True}, "ffn": {"ffn_mult": 3.75}}
    nas = {
        "model_type": "nemotron-nas", "hidden_size": 8192, "vocab_size": 128256, "num_attention_heads": 64,
        "max_position_embeddings": 131072, "block_configs": [block] * 49 + [none] * 31,
    }  # fmt: skip
    found = model_from_config(nas, "config.json")
    assert counts.kv_bytes_per_token(found, "bf16") == 200_704
    assert [(g.count, g.ffn.intermediate) for g in found.layers] == [(49, 20480), (31, 20480)]


def test_nested_language_models_and_keys_at_either_level():
    text = {key: value for key, value in LLAMA.items() if key != "tie_word_embeddings"}
    found = model_from_config({"model_type": "llava", "text_config": text, "tie_word_embeddings": True}, "config.json")
    assert found.tied_embeddings
    assert found.layer_count == 32


def test_switched_off_windows_are_no_windows():
    off = {**CONFIGS["qwen2.5-7b"], "sliding_window": 4096, "use_sliding_window": False}
    off.pop("layer_types")
    assert model_from_config(off, "config.json").layers[0].attention.window is None
    assert (
        model_from_config({**CONFIGS["mistral-7b-v0.1"], "sliding_window": None}, "c").layers[0].attention.window
        is None
    )


QUANTISED = [
    ({"quant_method": "fp8", "weight_block_size": [128, 128]}, "fp8_block", ()),
    ({"quant_method": "fp8"}, "fp8", ()),
    (
        {"quant_method": "fbgemm_fp8", "modules_to_not_convert": ["lm_head", "model.layers.0.self_attn"]},
        "fp8", ("attention",),
    ),
    ({"quant_method": "awq", "bits": 4, "group_size": 128}, "int4", ()),
    ({"quant_method": "gptq", "bits": 8}, "int8", ()),
    (
        {"quant_method": "mxfp4", "modules_to_not_convert": ["model.layers.*.self_attn", "model.embed_tokens"]},
        "mxfp4", ("attention",),
    ),
    (
        {"quant_method": "modelopt", "quant_algo": "NVFP4", "exclude_modules": ["lm_head", "*self_attn*"]},
        "nvfp4", ("attention",),
    ),
    ({"quant_method": "modelopt", "quant_algo": "FP8"}, "fp8", ()),
    (
        {"quant_method": "compressed-tensors",
         "ignore": ["lm_head", "re:.*self_attn.*", "re:.*shared_experts.*", "re:.*mlp\\.(gate|up)_proj.*"],
         "config_groups": {"group_0": {"weights": {"num_bits": 4, "type": "int", "group_size": 32}}}},
        "int4_g32", ("attention", "shared", "dense"),
    ),
    (
        {"quant_method": "compressed-tensors", "ignore": ["lm_head"],
         "config_groups": {"group_0": {"weights": {"num_bits": 8, "type": "float", "strategy": "channel"}}}},
        "fp8", (),
    ),
]  # fmt: skip


@pytest.mark.parametrize(("table", "weights", "parts"), QUANTISED, ids=lambda value: str(value)[:40])
def test_quantised_checkpoints(table, weights, parts):
    found = model_from_config({**LLAMA, "quantization_config": table}, "config.json")
    assert found.weights == weights
    assert found.unquantised.get(weights, ()) == parts


BAD = [
    ({"hidden_size": None}, "'hidden_size' is missing"),
    ({"hidden_size": -1}, "'hidden_size' is -1, outside 1 to"),
    ({"hidden_size": math.nan}, "'hidden_size' is nan, not a whole number"),
    ({"hidden_size": "4096"}, "'hidden_size' is '4096', not a whole number"),
    ({"hidden_size": 1.5}, "'hidden_size' is 1.5, not a whole number"),
    ({"vocab_size": 10**15}, "'vocab_size' is 1e+15, outside"),
    ({"num_hidden_layers": 10**7}, "'num_hidden_layers' is 10000000"),
    ({"tie_word_embeddings": "yes"}, "'tie_word_embeddings' is 'yes', not true or false"),
    ({"layer_types": ["full_attention"] * 3}, "'layer_types' has 3 entries for 32 layers"),
    ({"layer_types": ["quantum"] * 32}, "'layer_types' has the unknown entry 'quantum'"),
    ({"layer_types": "full"}, "'layer_types' is not a list of names"),
    ({"layer_types": ["sliding_attention"] * 32}, "'sliding_window' is missing"),
    ({"num_key_value_heads": 7}, "layers.0.attention: 7 KV heads do not divide 32 heads"),
    ({"model_type": "hal9000"}, "the architecture 'hal9000' is not known"),
    ({"model_type": None}, "has no 'model_type'"),
    ({"quantization_config": {"quant_method": "magic"}}, "'quantization_config.quant_method' is 'magic'"),
    ({"quantization_config": {"quant_method": "gptq", "bits": 3}}, "'quantization_config.bits' is 3"),
    ({"quantization_config": {"quant_method": "compressed-tensors"}}, "'quantization_config.config_groups' names no"),
]


@pytest.mark.parametrize(("change", "sentence"), BAD, ids=lambda value: str(value)[:40])
def test_a_bad_configuration_names_its_key(change, sentence):
    with pytest.raises(ChunkcalcError) as caught:
        model_from_config({**copy.deepcopy(LLAMA), **change}, "config.json")
    assert str(caught.value).startswith(f"config.json: {sentence}")
    assert caught.value.hint


def test_missing_keys_of_other_kinds_of_layers():
    for name, key in (
        ("deepseek-v3", "kv_lora_rank"),
        ("nemotron-3-super-120b-a12b", "ssm_state_size"),
        ("qwen3-next-80b-a3b", "layer_types"),
    ):
        config = {k: v for k, v in CONFIGS[name].items() if k != key}
        with pytest.raises(ChunkcalcError, match=key):
            model_from_config(config, "config.json")


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"{", "is not valid JSON"), (b"\xff\xfe{}", "is not valid JSON"), (b"[" * 100_000, "nested too deeply"),
        (b"[1, 2]", "is not a JSON object"), (b"", "is not valid JSON"), (b" " * (2**24 + 1), "is larger than 16 MiB"),
    ],
    ids=lambda value: str(value)[:16],
)  # fmt: skip
def test_unreadable_files(tmp_path, content, sentence):
    path = tmp_path / "config.json"
    path.write_bytes(content)
    with pytest.raises(ChunkcalcError, match=sentence):
        load_model(str(path))
    with pytest.raises(ChunkcalcError, match="cannot be read"):
        read_json(str(tmp_path / "none.json"))


def test_the_unknown_architecture_lists_the_known_ones():
    with pytest.raises(ChunkcalcError) as caught:
        model_from_config({"model_type": "x"}, "config.json")
    assert all(name in caught.value.hint for name in FAMILIES)


def test_a_norm_over_all_heads_is_read_from_its_type():
    def normalises(**keys):
        return {group.attention.norm_all for group in model_from_config({**LLAMA, **keys}, "config.json").layers}

    assert normalises(qk_norm_type="per_layer") == {True}
    assert normalises(qk_norm_type="per_head") == normalises(use_qk_norm=True) == normalises() == {False}
    assert {group.attention.norm_all for group in load_model("minimax-m2").record.layers} == {True}
