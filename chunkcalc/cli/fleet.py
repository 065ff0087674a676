"""`chunkcalc fleet`: how many GPUs a rate needs, and in which shape."""

from __future__ import annotations

import enum

import typer

from chunkcalc import units
from chunkcalc.answer.measured import parse_numbers
from chunkcalc.answer.question import Question
from chunkcalc.api.values import PARSERS
from chunkcalc.api.values import link as parse_link
from chunkcalc.cli import options
from chunkcalc.cli.options import DEPLOYMENT, LIMITS, OUTPUT, WORKLOAD, Basis, given
from chunkcalc.cli.output import FAILS, HOLDS, show_json
from chunkcalc.cli.progress import progress
from chunkcalc.records import EngineName


class Emit(enum.StrEnum):
    """What the chosen shape is written as."""

    kubernetes = "kubernetes"
    helm = "helm"
    compose = "compose"
    command = "command"


def fleet(
    model: str = typer.Option(..., help="Id, Hugging Face id, or path.", rich_help_panel=DEPLOYMENT),
    gpu: list[str] = typer.Option(
        ..., help="Ids with commas between them, or all; may be repeated.", rich_help_panel=DEPLOYMENT
    ),
    price: list[str] = typer.Option(
        None, help="Per GPU and hour: one, one for each GPU, or h100-sxm=2.5,b200=5.", rich_help_panel=DEPLOYMENT
    ),
    spend: str = typer.Option(None, help="The most to spend, such as 60/h.", rich_help_panel=LIMITS),
    spare: int = typer.Option(
        0, min=0, max=64, help="Replicas that may be lost while the rest carries the rate.", rich_help_panel=WORKLOAD
    ),
    max_gpus: int = typer.Option(None, min=1, help="Leave larger shapes out.", rich_help_panel=DEPLOYMENT),
    weights: str = typer.Option(None, help="Weight format. Default: as shipped.", rich_help_panel=DEPLOYMENT),
    kv: str = typer.Option(None, help="KV cache format: bf16 or fp8.", rich_help_panel=DEPLOYMENT),
    engine: EngineName = options.ENGINE,
    engine_version: str = typer.Option(None, help="Default: the newest read.", rich_help_panel=DEPLOYMENT),
    draft_tokens: int = options.DRAFT_TOKENS,
    draft_acceptance: str = options.DRAFT_ACCEPTANCE,
    memory_fraction: str = typer.Option(None, help="Share of memory for the engine.", rich_help_panel=DEPLOYMENT),
    link: str = typer.Option(None, help="Link between GPUs, such as 16GB/s.", rich_help_panel=DEPLOYMENT),
    kv_link: str = options.KV_LINK,
    gateway: str = options.GATEWAY,
    measured: list[str] = options.MEASURED,
    rate: str = typer.Option(..., help="Requests per second of the whole fleet.", rich_help_panel=WORKLOAD),
    prompt: str = typer.Option(..., "--prompt", "--isl", help="Mean prompt tokens.", rich_help_panel=WORKLOAD),
    output: str = options.OUTPUT_TOKENS,
    prompt_p95: str = typer.Option(None, help="95th percentile of the prompt tokens.", rich_help_panel=WORKLOAD),
    prefix_hit: str = options.PREFIX_HIT,
    prefix_shared: bool = options.PREFIX_SHARED,
    ttft: str = typer.Option(None, help="Limit of the time to first token.", rich_help_panel=LIMITS),
    tpot: str = typer.Option(None, help="Limit of the time per output token.", rich_help_panel=LIMITS),
    itl: str = options.ITL,
    percentile: str = options.PERCENTILE,
    attainment: str = options.ATTAINMENT,
    tpot_basis: Basis = options.TPOT_BASIS,
    max_utilisation: str = typer.Option("0.85", help="Highest share of prompt capacity.", rich_help_panel=LIMITS),
    emit: Emit = typer.Option(
        None, help="Write the chosen shape as kubernetes, helm, compose or command.", rich_help_panel=OUTPUT
    ),
    as_json: bool = typer.Option(False, "--json", help="chunkcalc.fleet/2 on stdout.", rich_help_panel=OUTPUT),
) -> None:  # fmt: skip
    """How many GPUs carry a rate within TTFT and TPOT: shapes, chunk, together or apart, cheapest first.

    Exit code 1 when no shape does.

    Example: chunkcalc fleet --model qwen3-32b --gpu h100 --rate 12 --prompt 4k --output 500 --ttft 1s --tpot 40ms
    """
    from chunkcalc.catalog.lookup import named_gpus  # noqa: PLC0415
    from chunkcalc.report import fleet as report  # noqa: PLC0415
    from chunkcalc.report.emit import written  # noqa: PLC0415
    from chunkcalc.sizing.fleet import fleet as find  # noqa: PLC0415 - quick help
    from chunkcalc.sizing.money import parse_spend, prices  # noqa: PLC0415

    names = named_gpus(",".join(gpu))
    bandwidth, latency = parse_link(link)
    question = Question(
        model=model, gpu=names[0], weights=weights, kv=kv, draft_tokens=draft_tokens, engine=engine,
        engine_version=engine_version, link=bandwidth, link_latency=latency,
        tpot_basis=tpot_basis.value if tpot_basis else None, rate=units.parse_number(rate, "--rate"),
        prompt=units.parse_count(prompt, "--prompt"),
        max_utilisation=units.parse_fraction(max_utilisation, "--max-utilisation"),
        prefix_hit=units.parse_fraction(prefix_hit, "--prefix-hit"), prefix_shared=prefix_shared,
        **given(units.parse_count, output=output, prompt_p95=prompt_p95),
        **given(units.parse_percentile, percentile=options.percentile_of(percentile, attainment)),
        **given(units.parse_gap, itl=itl),
        **given(units.parse_duration, ttft=ttft, tpot=tpot), **given(PARSERS["kv_link"], kv_link=kv_link),
        **given(PARSERS["gateway"], gateway=gateway), **given(parse_numbers, measured=measured or None),
        **given(units.parse_fraction, draft_acceptance=draft_acceptance, memory_fraction=memory_fraction),
    )  # fmt: skip
    with progress("sizing") as told:
        found = find(question, prices(names, price or []), max_gpus, told,
                     None if spend is None else parse_spend(spend), spare)  # fmt: skip
    if emit is not None:
        print(written(found, emit.value), end="")
    elif as_json:
        show_json(report.json(found))
    else:
        print(report.text(found))
    raise typer.Exit(HOLDS if found.chosen is not None else FAILS)
