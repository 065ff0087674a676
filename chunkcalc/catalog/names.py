"""What a name says: quantised variants of a model, slices and labels of a GPU. Text only."""

from __future__ import annotations

import re
from typing import NamedTuple

# How a checkpoint's name ends when it is quantised, most specific first.
_FORMATS = (
    (re.compile(r"-(?:nvfp4|fp4)(?:-.*)?$"), "nvfp4"),
    (re.compile(r"-mxfp4(?:-.*)?$"), "mxfp4"),
    (re.compile(r"-(?:fp8|f8)(?:-(?:dynamic|block|static|kv|e4m3|tensorwise))*$"), "fp8"),
    (re.compile(r"-(?:gptq-int8|w8a8|w8a16|int8|8bit|quantized\.w8a8|quantized\.w8a16)(?:-.*)?$"), "int8"),
    (re.compile(r"-(?:awq|gptq|int4|w4a16|autoround|quantized\.w4a16|bnb-4bit|4bit)(?:-.*)?$"), "int4"),
    (re.compile(r"-(?:bf16|fp16)$"), "bf16"),
)
# Endings that name a tune of the same architecture.
_TUNES = re.compile(
    r"-(?:instruct|chat|it|pt|base|hf|thinking|preview|reasoning|text|original|turbo|latest|terminus|exp|qat|"
    r"v\d+(?:\.\d+)*|\d{4}|\d{2}-\d{2})$"
)
_MIG = re.compile(r"-mig-(\d)g\.(\d+)gb$")
# Words of product labels that other labels of the same GPU leave out.
_LABELS = frozenset(
    [
        "nvidia",
        "amd",
        "intel",
        "instinct",
        "tesla",
        "geforce",
        "gpu",
        "hbm2",
        "hbm2e",
        "hbm3",
        "hbm3e",
        "sxm2",
        "sxm4",
        "sxm5",
        "sxm6",
        "oam",
        "ac",
        "rtx",
    ]
)
# Publishers whose -FP8 checkpoints are scaled in blocks of 128 x 128.
_BLOCK_FP8 = frozenset(["qwen", "deepseek-ai", "zai-org", "minimaxai", "moonshotai", "xiaomimimo"])


class Variant(NamedTuple):
    """A name without its format: what is left, and the weight format it named (None for none)."""

    base: str
    weights: str | None


class Slice(NamedTuple):
    """A MIG slice: compute sevenths and memory [GB]."""

    sevenths: int
    gigabytes: int


def normal(name: str) -> str:
    """One spelling for comparison: lower case, dashes."""
    return name.strip().lower().replace("_", "-").replace(" ", "-")


def split_format(name: str) -> Variant:
    """Take the weight format off a model's name.

    Examples
    --------
    >>> split_format("qwen/qwen3-32b-fp8")
    Variant(base='qwen/qwen3-32b', weights='fp8_block')
    >>> split_format("llama-3.1-8b-instruct-awq-int4")
    Variant(base='llama-3.1-8b-instruct', weights='int4')
    """
    for pattern, weights in _FORMATS:
        match = pattern.search(name)
        if match and match.start() > 0:
            block = weights == "fp8" and name.split("/", maxsplit=1)[0] in _BLOCK_FP8
            return Variant(name[: match.start()], "fp8_block" if block else weights)
    return Variant(name, None)


def untuned(name: str) -> list[str]:
    """The name with its publisher, its tune and its date taken off, step by step.

    Examples
    --------
    >>> untuned("qwen/qwen3-30b-a3b-instruct-2507")
    ['qwen3-30b-a3b-instruct-2507', 'qwen3-30b-a3b-instruct', 'qwen3-30b-a3b']
    """
    out = [name.rsplit("/", 1)[-1].removeprefix("meta-")]
    while match := _TUNES.search(out[-1]):
        out.append(out[-1][: match.start()])
    return out


def split_slice(name: str) -> tuple[str, Slice | None]:
    """Take `-SHARED` and a MIG suffix off a GPU's product label.

    Examples
    --------
    >>> split_slice("nvidia-a100-sxm4-80gb-mig-1g.10gb")
    ('nvidia-a100-sxm4-80gb', Slice(sevenths=1, gigabytes=10))
    """
    name = name.removesuffix("-shared")
    match = _MIG.search(name)
    return (name[: match.start()], Slice(int(match[1]), int(match[2]))) if match else (name, None)


def machine_family(name: str) -> str | None:
    """The family of an AWS machine type, or the GPU that an Azure series is named after.

    Examples
    --------
    >>> machine_family("g6e.8xlarge"), machine_family("standard-nc8as-t4-v3"), machine_family("h100")
    ('g6e', 't4', None)
    """
    aws = re.fullmatch(r"([a-z]+\d[a-z0-9-]*)\.(?:\d*xlarge|metal(?:-\w+)?)", name)
    if aws:
        return aws[1]
    azure = re.fullmatch(r"standard-n[cd]\d+\w*-(t4|a10|a100|h100|h200|mi300x)-v\d", name)
    return azure[1] if azure else None


def bare_label(name: str) -> str:
    """A product label without the words that other labels of the same GPU leave out.

    Examples
    --------
    >>> bare_label("nvidia-h100-sxm5-80gb")
    'h100-80gb'
    """
    return "-".join(word for word in name.split("-") if word not in _LABELS)
