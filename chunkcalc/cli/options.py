"""Options that several commands share, and how their values are read."""

from __future__ import annotations

import enum
from typing import Any

import typer

from chunkcalc import units
from chunkcalc.answer.question import Question
from chunkcalc.api.values import PARSERS
from chunkcalc.api.values import link as parse_link
from chunkcalc.errors import ChunkcalcError
from chunkcalc.records import ENGINE_NAMES

LEAST_SHARE = 0.5  # of requests that an attainment may ask for
# Groups of the help pages.
DEPLOYMENT, WORKLOAD, LIMITS, OUTPUT = "Deployment", "Workload", "Limits", "Output"
SETTING = "Setting to judge"


class Basis(enum.StrEnum):
    """Of the deprecated --tpot-basis."""

    step = "step"
    mean = "mean"


MODEL = typer.Option(..., help="Id, Hugging Face id, or path to a profile or config.json.", rich_help_panel=DEPLOYMENT)
GPU = typer.Option(..., help="Id, product name, or path to a profile.", rich_help_panel=DEPLOYMENT)
TP = typer.Option(1, help="Tensor parallel degree.", rich_help_panel=DEPLOYMENT)
EP = typer.Option(1, help="Expert parallel degree.", rich_help_panel=DEPLOYMENT)
ATTENTION_DP = typer.Option(1, help="Data parallel attention ranks.", rich_help_panel=DEPLOYMENT)
ENGINE = typer.Option(
    ENGINE_NAMES[0],
    metavar="<name>",
    help=f"{', '.join(ENGINE_NAMES[:-1])} or {ENGINE_NAMES[-1]}.",
    rich_help_panel=DEPLOYMENT,
)
DRAFT_TOKENS = typer.Option(0, help="Speculative tokens per step.", rich_help_panel=DEPLOYMENT)
DRAFT_ACCEPTANCE = typer.Option(None, help="Chance that a draft token holds.", rich_help_panel=DEPLOYMENT)
OUTPUT_TOKENS = typer.Option(None, "--output", "--osl", help="Output tokens. Default: 512.", rich_help_panel=WORKLOAD)
LATENCY_UNIT = typer.Option(
    None, "--unit", help="Unit of the latencies: s, ms or us. Default: as named.", rich_help_panel=OUTPUT
)
PROMPT = typer.Option(..., "--prompt", "--isl", help="Prompt tokens, such as 4096 or 4k.", rich_help_panel=WORKLOAD)
BATCH = typer.Option(None, help="Requests decoding at once. Default: the largest that holds.", rich_help_panel=WORKLOAD)
CONTEXT = typer.Option(None, help="Mean context of a decode. Default: prompt + output/2.", rich_help_panel=WORKLOAD)
TTFT = typer.Option(None, help="Limit of the time to first token, such as 1s.", rich_help_panel=LIMITS)
TPOT = typer.Option(None, help="Limit of the mean time per output token, such as 30ms.", rich_help_panel=LIMITS)
ITL = typer.Option(
    None, help="Limit of the longest gap between two messages, or none. Default: as --tpot.", rich_help_panel=LIMITS
)
TPOT_BASIS = typer.Option(None, help="Deprecated: mean is --itl none.", rich_help_panel=LIMITS)
MAX_UTILISATION = typer.Option("0.85", help="Highest share of the capacity for prompts.", rich_help_panel=LIMITS)
PERCENTILE = typer.Option(
    None, help="Of TTFT, under traffic: mean, 50, 90, 95 or 99. Default: 95.", rich_help_panel=LIMITS
)
ATTAINMENT = typer.Option(
    None, help="Share of requests within --ttft, such as 0.95, instead of --percentile.", rich_help_panel=LIMITS
)
KV_LINK = typer.Option(
    None, help="Network between prefill and decode units. Default: 50GB/s.", rich_help_panel=DEPLOYMENT
)
GATEWAY = typer.Option(
    None, help="What stands before the engine adds, such as 1.9ms/step,20ms/request.", rich_help_panel=DEPLOYMENT
)
MEASURED = typer.Option(
    None, metavar="NUMBER", help="What you measured, such as 'tpot=31ms at batch 32'; may be repeated.",
    rich_help_panel=DEPLOYMENT,
)  # fmt: skip
PP = typer.Option(1, help="Pipeline stages.", rich_help_panel=DEPLOYMENT)
WEIGHTS = typer.Option(
    None, help="bf16, fp8, int8, int4, mxfp4, nvfp4. Default: as shipped.", rich_help_panel=DEPLOYMENT
)
KV = typer.Option(None, help="KV cache format: bf16 or fp8. Default: bf16.", rich_help_panel=DEPLOYMENT)
ENGINE_VERSION = typer.Option(None, help="Version of the engine. Default: the newest read.", rich_help_panel=DEPLOYMENT)
MIXED_CHUNK = typer.Option(
    False, "--enable-mixed-chunk", help="SGLang: mix decodes into chunks.", rich_help_panel=DEPLOYMENT
)
INTERVAL = typer.Option(0, help="SGLang: decode steps after every prompt step.", rich_help_panel=DEPLOYMENT)
LINK = typer.Option(None, help="Link between GPUs, such as 16GB/s or 16GB/s,20us.", rich_help_panel=DEPLOYMENT)
MEMORY_FRACTION = typer.Option(None, help="Share of memory, by the engine's own rule.", rich_help_panel=DEPLOYMENT)
CHUNK = typer.Option(None, help="Judge this chunk instead of searching.", rich_help_panel=SETTING)
BUDGET = typer.Option(None, help="Judge this token budget instead.", rich_help_panel=SETTING)
PREFIX_HIT = typer.Option("0", help="Share of the prompt in the prefix cache.", rich_help_panel=WORKLOAD)
PREFIX_SHARED = typer.Option(
    True, "--prefix-shared/--prefix-own", help="It is one prefix of all requests, or each has its own.",
    rich_help_panel=WORKLOAD,
)  # fmt: skip


def given(parse: Any, **values: str | list[str] | None) -> dict[str, Any]:
    """The options that were given, parsed."""
    return {name: parse(value, f"--{name.replace('_', '-')}") for name, value in values.items() if value is not None}


def percentile_of(percentile: str | None, attainment: str | None) -> str | None:
    """The percentile that the limit of TTFT judges, as either option says it.

    Raises
    ------
    ChunkcalcError : both, or a share that is none
    """
    if attainment is None:
        return percentile
    if percentile is not None:
        raise ChunkcalcError("say the same in two ways", "--attainment", "give --percentile or --attainment")
    share = units.parse_fraction(attainment, "--attainment")
    if not LEAST_SHARE <= share < 1:
        raise ChunkcalcError(f"'{attainment:.20}' is no share of requests", "--attainment", "write 0.5 to 0.999")
    return f"{100 * share:g}"


NAMES = {"enable_mixed_chunk": "mixed_chunk", "prefill_decode_interval": "prefill_interval"}


def asked(link: str | None = None, **values: Any) -> Question:
    """The question that options ask.

    Parameters
    ----------
    link : of --link
    values : the other options by name; None where one was left out

    Raises
    ------
    ChunkcalcError : a value that cannot be read
    """
    bandwidth, latency = parse_link(link)
    read: dict[str, Any] = {"link": bandwidth, "link_latency": latency}
    for name, value in values.items():
        if value is None:
            continue
        parse = PARSERS.get(name)
        found = value.value if isinstance(value, enum.Enum) else value
        read[NAMES.get(name, name)] = parse(found, f"--{name.replace('_', '-')}") if parse else found
    return Question(**read)


def pairs(text: str | None, where: str) -> dict[str, str]:
    """Names and what they stand for, from `a=b,c=d`.

    Parameters
    ----------
    text : as written; None where it was left out
    where : the option, for the error

    Raises
    ------
    ChunkcalcError : a part that is none

    >>> pairs("ttft_ms=first token", "--map")
    {'ttft_ms': 'first token'}
    """
    parts = [each.partition("=") for each in (text or "").split(",") if each.strip()]
    wrong = next((name for name, _, other in parts if not name.strip() or not other.strip()), None)
    if wrong is not None:
        raise ChunkcalcError(
            f"'{wrong.strip():.40}' stands for nothing", where, "write for example ttft_ms=first_token"
        )
    return {name.strip(): other.strip() for name, _, other in parts}


def check_latency_unit(unit: str | None) -> None:
    """Refuse a `--unit` that is none.

    Raises
    ------
    ChunkcalcError : another unit than s, ms or us
    """
    if unit not in (None, "s", "ms", "us"):
        raise ChunkcalcError(f"'{unit:.20}' is no unit", "--unit", "give s, ms or us")
