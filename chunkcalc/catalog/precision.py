"""From a weight format's name to the format of each part of a model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from chunkcalc.errors import ChunkcalcError, NotModelledError
from chunkcalc.records import (
    KV_BYTES,
    WEIGHT_BYTES,
    Format,
    Hardware,
    KvFormat,
    Model,
    Part,
    Precision,
)

WEIGHT_ALIASES: Mapping[str, str] = {
    "fp16": "bf16", "bfloat16": "bf16", "float16": "bf16", "awq": "int4", "gptq": "int4", "w4a16": "int4",
    "fp4": "nvfp4", "w8a8": "int8",
}  # fmt: skip
KV_ALIASES: Mapping[str, str] = {
    "fp16": "bf16", "bfloat16": "bf16", "float16": "bf16", "fp8_e4m3": "fp8", "fp8_e5m2": "fp8",
}  # fmt: skip

# The arithmetic that runs a weight format: weight-only formats compute in 16 bit.
COMPUTE_DTYPE = {
    "bf16": "bf16", "fp8": "fp8", "fp8_block": "fp8", "int8": "int8", "int4": "bf16", "int4_g32": "bf16",
    "mxfp4": "fp4", "nvfp4": "fp4",
}  # fmt: skip
WEIGHT_ONLY = frozenset(("int4", "int4_g32", "mxfp4"))
# Architectures on which engines keep 8-bit floats packed and compute in 16 bit (vLLM's and SGLang's Marlin kernels).
PACKED: Mapping[str, frozenset[str]] = {"ampere": frozenset(("fp8", "fp8_block"))}
# Formats that two kinds of checkpoints share a name for.
FINER: Mapping[str, Format] = {"fp8": "fp8_block", "int4": "int4_g32"}


def precision_for(model: Model, weights: str | None = None, kv: str | None = None) -> Precision:
    """The format of each part: what a checkpoint of this format leaves unquantised stays 16-bit.

    Raises
    ------
    ChunkcalcError : unknown format
    """
    asked, asked_kv = (weights or "").lower(), (kv or "").lower()
    chosen = WEIGHT_ALIASES.get(asked, asked) or model.weights
    cache = KV_ALIASES.get(asked_kv, asked_kv) or model.kv
    if chosen not in WEIGHT_BYTES:
        raise ChunkcalcError(
            f"unknown weight format '{weights}'",
            "--weights",
            f"choose from {', '.join(WEIGHT_BYTES)}",
        )
    if cache not in KV_BYTES:
        raise ChunkcalcError(f"unknown KV format '{kv}'", "--kv", f"choose from {', '.join(KV_BYTES)}")
    chosen = _published(model, chosen)
    unquantised = model.unquantised.get(cast(Format, chosen), ())
    own = model.formats if chosen == model.weights else {}

    def of(part: Part) -> Format:
        return "bf16" if part in unquantised else own.get(part, cast(Format, chosen))

    return Precision(
        weights=cast(Format, chosen), kv=cast(KvFormat, cache),
        attention=of("attention"), dense=of("dense"), experts=of("experts"), shared=of("shared"),
    )  # fmt: skip


def _published(model: Model, weights: str) -> str:
    """The kind of a format in which the model's own checkpoints ship: fp8 by blocks, int4 in smaller groups."""
    kind = FINER.get(weights, "")
    shipped = {model.weights, *model.variants.values()}
    return kind if kind and kind in shipped and weights not in shipped else weights


def check_arithmetic(precision: Precision, hardware: Hardware) -> None:
    """Refuse weights in a format the GPU cannot compute in.

    Raises
    ------
    ChunkcalcError : with what an engine would run instead
    """
    if "bf16" not in hardware.peak:
        hint = "write a profile with the peaks you know and give its path"
        raise NotModelledError(f"the peak arithmetic of {hardware.id} is not confirmed by any source", "--gpu", hint)
    if peak(hardware, precision.weights) is not None:
        return
    able = [name for name in WEIGHT_BYTES if peak(hardware, name) is not None]
    raise NotModelledError(
        f"{hardware.id} has no {precision.weights} arithmetic",
        "--weights",
        f"engines would keep the weights packed and compute in bf16, slower than stated; choose from {', '.join(able)}",
    )


def peak(hardware: Hardware, dtype: str) -> float | None:
    """Peak arithmetic for weights of a format; None where the GPU cannot compute in it.

    Weight-only formats run at the 16-bit peak where the GPU has no 4-bit arithmetic, 8-bit floats where it has none
    of its own and engines unpack them.

    Returns
    -------
    peak [FLOP/s]
    """
    own = hardware.peak.get(COMPUTE_DTYPE[dtype])
    packed = dtype in WEIGHT_ONLY or dtype in PACKED.get(hardware.arch, ())
    return hardware.peak["bf16"] if own is None and packed else own
