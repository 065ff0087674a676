"""The weight format of a configuration, and what its checkpoint leaves 16-bit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from chunkcalc.catalog.configs.families import Family
from chunkcalc.catalog.configs.keys import Config
from chunkcalc.records import Format, Part

# Words of module names in an exclusion list -> part of the model.
_PARTS: tuple[tuple[str, Part], ...] = (
    ("self_attn", "attention"), ("attention", "attention"), ("attn", "attention"),
    ("shared_expert", "shared"), ("experts", "experts"), ("mlp", "dense"),
)  # fmt: skip
_KEPT = ("lm_head", "embed", "norm", "router", "gate.", "mlp.gate", "block_sparse_moe.gate", "visual", "vision")


def weight_format(config: Config, family: Family) -> tuple[Format, dict[Format, tuple[Part, ...]]]:
    """Format of the weights, and the parts that stay 16-bit in it.

    Raises
    ------
    ChunkcalcError : a quantisation method that is not known
    """
    table = config.get("quantization_config")
    if not isinstance(table, Mapping) or not table:
        return "bf16", {}
    method = str(table.get("quant_method") or table.get("quant_algo") or "").lower()
    found = _format(method, table, config)
    excluded = table.get("modules_to_not_convert") or table.get("ignore") or table.get("exclude_modules") or []
    parts = _parts(excluded if isinstance(excluded, list) else [])
    if found == "mxfp4" and not excluded:
        parts = ("attention",)
    return found, {found: parts} if parts else {}


def _format(method: str, table: Mapping[str, Any], config: Config) -> Format:
    if method in ("fp8", "fbgemm_fp8"):
        return "fp8_block" if table.get("weight_block_size") else "fp8"
    if method in ("awq", "gptq", "gptq_marlin", "awq_marlin", "auto-round", "bitsandbytes", "intel/auto-round"):
        bits = table.get("bits") or table.get("w_bit") or (8 if table.get("load_in_8bit") else 4)
        if bits not in (4, 8):
            config.refuse("quantization_config.bits", f"is {bits!r:.20}, only 4 and 8 are known")
        return "int8" if bits == 8 else _int4(table.get("group_size"))
    if method == "mxfp4":
        return "mxfp4"
    if method in ("modelopt", "modelopt_fp4", "nvfp4", "fp4"):
        algorithm = str(table.get("quant_algo") or method).lower()
        return "fp8" if "fp8" in algorithm else "nvfp4"
    if method == "compressed-tensors":
        return _compressed_tensors(table, config)
    config.refuse("quantization_config.quant_method", f"is {method!r:.40}, which is not known")


def _compressed_tensors(table: Mapping[str, Any], config: Config) -> Format:
    groups = table.get("config_groups")
    weights: Any = {}
    if isinstance(groups, Mapping) and groups:
        first = next(iter(groups.values()))
        weights = first.get("weights") if isinstance(first, Mapping) else {}
    weights = weights if isinstance(weights, Mapping) else {}
    bits, kind = weights.get("num_bits"), weights.get("type")
    if bits == 4:
        return "nvfp4" if kind == "float" else _int4(weights.get("group_size"))
    if bits == 8:
        if kind != "float":
            return "int8"
        return "fp8_block" if weights.get("strategy") == "block" else "fp8"
    config.refuse("quantization_config.config_groups", "names no weights of 4 or 8 bits")


def _int4(group_size: Any) -> Format:
    return "int4_g32" if group_size == 32 else "int4"


def _parts(excluded: list[Any]) -> tuple[Part, ...]:
    """The parts that an exclusion list keeps in 16 bit; what always is, is no part."""
    found: list[Part] = []
    for entry in excluded:
        text = str(entry).lower()
        if any(word in text for word in _KEPT):
            continue
        part = next((part for word, part in _PARTS if word in text), None)
        if part is not None and part not in found:
            found.append(part)
    return cast(tuple[Part, ...], tuple(found))
