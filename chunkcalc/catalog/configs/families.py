"""The architectures that can be imported, and where each departs from the common keys."""

from __future__ import annotations

from typing import Literal

from chunkcalc.catalog.configs.keys import Config
from chunkcalc.errors import ChunkcalcError
from chunkcalc.frozen import dataclass

Mixing = Literal["gqa", "mla", "delta", "kda", "mamba2", "compressed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """How one architecture's configuration is read.

    attention : the kind of its attention layers
    linear : the kind of its linear layers, where `layer_types` has any
    experts : it is a mixture of experts (layers without experts may exist)
    expert_width : the key of the experts' width
    dense_width : the key of a dense layer's width
    gate : its attention has an output gate
    gated : its MLPs have three matrices
    tied : embedding and head are one where the configuration does not say
    windowed : a window without `layer_types` applies to every layer
    """

    attention: Mixing = "gqa"
    linear: Mixing | None = None
    experts: bool = False
    expert_width: str = "moe_intermediate_size"
    dense_width: str = "intermediate_size"
    gate: bool = False
    gated: bool = True
    tied: bool = False
    windowed: bool = False


_DENSE = Family()
_TIED = Family(tied=True)
_MOE = Family(experts=True)
_ONE_WIDTH = Family(experts=True, expert_width="intermediate_size")  # intermediate_size is the experts'
_MLA = Family(attention="mla", experts=True)

FAMILIES: dict[str, Family] = {
    "llama": _DENSE,
    "qwen2": _DENSE,
    "qwen2_vl_text": _DENSE,
    "qwen2_5_vl_text": _DENSE,
    "qwen3": _DENSE,
    "qwen3_vl_text": _DENSE,
    "mistral": Family(windowed=True),
    "ministral3": _DENSE,
    "phi3": Family(windowed=True),
    "seed_oss": _DENSE,
    "granite": _DENSE,
    "smollm3": _TIED,
    "olmo3": _DENSE,
    "cohere2": _TIED,
    "gemma2": _TIED,
    "gemma3_text": _TIED,
    "gemma4_text": Family(tied=True, experts=True),
    "falcon": Family(gated=False, dense_width="ffn_hidden_size", tied=True),
    "nemotron-nas": _DENSE,
    "muse_glimmer_text": Family(gate=True),
    "mixtral": _ONE_WIDTH,
    "phimoe": _ONE_WIDTH,
    "gpt_oss": _ONE_WIDTH,
    "minimax_m2": _ONE_WIDTH,
    "minimax_m3_vl_text": Family(experts=True, expert_width="intermediate_size", dense_width="dense_intermediate_size"),
    "llama4_text": Family(experts=True, expert_width="intermediate_size", dense_width="intermediate_size_mlp"),
    "qwen3_moe": _MOE,
    "qwen3_vl_moe_text": _MOE,
    "glm4_moe": _MOE,
    "hy_v3": _MOE,
    "solar_open": _MOE,
    "ernie4_5_moe": Family(experts=True, tied=True),
    "mimo_v2_flash": _MOE,
    "step3p5": _MOE,
    "muse_spark_text": Family(experts=True, gate=True),
    "qwen3_next": Family(experts=True, gate=True, linear="delta"),
    "qwen3_5_text": Family(gate=True, linear="delta"),
    "qwen3_5_moe_text": Family(experts=True, gate=True, linear="delta"),
    "deepseek_v2": _MLA,
    "deepseek_v3": _MLA,
    "deepseek_v32": _MLA,
    "deepseek_v4": Family(attention="compressed", experts=True),
    "kimi_k2": _MLA,
    "glm4_moe_lite": _MLA,
    "glm_moe_dsa": _MLA,
    "mistral4": _MLA,
    "mistral_large4_text": _MLA,
    "longcat_flash": Family(
        attention="mla", experts=True, expert_width="expert_ffn_hidden_size", dense_width="ffn_hidden_size"
    ),
    "kimi_linear": Family(attention="mla", linear="kda", experts=True),
    "kimi_k3": Family(attention="mla", linear="kda", experts=True, gate=True),
    "bailing_hybrid": Family(attention="mla", linear="kda", experts=True),
    "nemotron_h": Family(linear="mamba2", experts=True, gated=False),
    "granitemoehybrid": Family(linear="mamba2", experts=True, expert_width="intermediate_size", tied=True),
}


def family_of(config: Config) -> Family:
    """The family of a configuration.

    Raises
    ------
    ChunkcalcError : an architecture that is not known
    """
    found = FAMILIES.get(config.model_type)
    if found is None:
        raise ChunkcalcError(
            f"the architecture '{config.model_type}' is not known",
            config.where,
            f"write a profile by hand (chunkcalc models show ID --toml); known: {', '.join(sorted(FAMILIES))}",
        )
    return found
