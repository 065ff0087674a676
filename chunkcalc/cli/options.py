"""Options that several commands share, and how their values are read."""

from __future__ import annotations

import enum
from typing import Any

import typer

from chunkcalc import units
from chunkcalc.errors import ChunkcalcError

# Groups of the help pages.
DEPLOYMENT, WORKLOAD, LIMITS, OUTPUT = "Deployment", "Workload", "Limits", "Output"


class EngineName(enum.StrEnum):
    """Engines."""

    vllm = "vllm"
    sglang = "sglang"
    trtllm = "trtllm"


class Basis(enum.StrEnum):
    """What --tpot judges."""

    step = "step"
    mean = "mean"


GPU = typer.Option(..., help="Id, product name, or path to a profile.", rich_help_panel=DEPLOYMENT)
TP = typer.Option(1, help="Tensor parallel degree.", rich_help_panel=DEPLOYMENT)
EP = typer.Option(1, help="Expert parallel degree.", rich_help_panel=DEPLOYMENT)
ATTENTION_DP = typer.Option(1, help="Data parallel attention ranks.", rich_help_panel=DEPLOYMENT)
ENGINE = typer.Option(EngineName.vllm, metavar="<name>", help="vllm, sglang or trtllm.", rich_help_panel=DEPLOYMENT)
DRAFT_TOKENS = typer.Option(0, help="Speculative tokens per step.", rich_help_panel=DEPLOYMENT)
DRAFT_ACCEPTANCE = typer.Option(None, help="Chance that a draft token holds.", rich_help_panel=DEPLOYMENT)
OUTPUT_TOKENS = typer.Option(None, "--output", "--osl", help="Output tokens. Default: 512.", rich_help_panel=WORKLOAD)
LATENCY_UNIT = typer.Option(
    None, "--unit", help="Unit of the latencies: s, ms or us. Default: as named.", rich_help_panel=OUTPUT
)
PREFIX_HIT = typer.Option("0", help="Share of the prompt in the prefix cache.", rich_help_panel=WORKLOAD)


def given(parse: Any, **values: str | None) -> dict[str, Any]:
    """The options that were given, parsed."""
    return {name: parse(value, f"--{name.replace('_', '-')}") for name, value in values.items() if value is not None}


def parse_link(value: str | None) -> tuple[float | None, float | None]:
    """Bandwidth and latency from `16GB/s,20us`."""
    if value is None:
        return None, None
    bandwidth, comma, latency = value.partition(",")
    if comma and not latency:
        raise ChunkcalcError(f"'{value}' ends in a comma", "--link", "write for example 16GB/s,20us")
    return units.parse_rate(bandwidth, "B/s", "--link"), units.parse_duration(latency, "--link") if comma else None


def check_latency_unit(unit: str | None) -> None:
    """Refuse a `--unit` that is none.

    Parameters
    ----------
    unit : as given

    Raises
    ------
    ChunkcalcError : another unit than s, ms or us
    """
    if unit not in (None, "s", "ms", "us"):
        raise ChunkcalcError(f"'{unit:.20}' is no unit", "--unit", "give s, ms or us")
