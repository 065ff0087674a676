"""`chunkcalc solve`: one deployment, two limits, one answer."""

from __future__ import annotations

import typer

from chunkcalc import units
from chunkcalc.answer import MARGINAL
from chunkcalc.cli import options
from chunkcalc.cli.options import DEPLOYMENT, LIMITS, OUTPUT, WORKLOAD, Basis, EngineName, given, parse_link
from chunkcalc.cli.output import FAILS, HOLDS, show, show_json
from chunkcalc.question import Question
from chunkcalc.report import json, text
from chunkcalc.solve import answer

SETTING = "Setting to judge"  # a group of the help page


def solve(
    model: str = typer.Option(
        ..., help="Id, Hugging Face id, or path to a profile or config.json.", rich_help_panel=DEPLOYMENT
    ),
    gpu: str = options.GPU,
    prompt: str = typer.Option(
        ...,
        "--prompt",
        "--isl",
        help="Prompt tokens, such as 4096 or 4k.",
        rich_help_panel=WORKLOAD,
    ),
    output: str = options.OUTPUT_TOKENS,
    batch: str = typer.Option(
        None,
        help="Requests decoding at once. Default: the largest that holds.",
        rich_help_panel=WORKLOAD,
    ),
    context: str = typer.Option(
        None,
        help="Mean context of a decode. Default: prompt + output/2.",
        rich_help_panel=WORKLOAD,
    ),
    rate: str = typer.Option(
        None, help="Requests per second that arrive, instead of a batch.", rich_help_panel=WORKLOAD
    ),
    concurrency: str = typer.Option(
        None, help="Users that each wait for an answer, instead of a batch.", rich_help_panel=WORKLOAD
    ),
    prompt_p95: str = typer.Option(
        None, help="95th percentile of the prompt tokens. Default: all alike.", rich_help_panel=WORKLOAD
    ),
    prefix_hit: str = options.PREFIX_HIT,
    ttft: str = typer.Option(None, help="Limit of the time to first token, such as 1s.", rich_help_panel=LIMITS),
    tpot: str = typer.Option(None, help="Limit of the time per output token, such as 30ms.", rich_help_panel=LIMITS),
    percentile: str = typer.Option(
        None, help="Percentile of TTFT that --ttft limits, with a rate. Default: mean.", rich_help_panel=LIMITS
    ),
    itl: str = typer.Option(None, help="Limit of the longest gap between two tokens.", rich_help_panel=LIMITS),
    tpot_basis: Basis = typer.Option(
        None,
        help="What --tpot judges. Default: step, or mean where prompts go first.",
        rich_help_panel=LIMITS,
    ),
    max_utilisation: str = typer.Option(
        "0.85", help="Highest share of the capacity for prompts.", rich_help_panel=LIMITS
    ),
    tp: int = options.TP,
    pp: int = typer.Option(1, help="Pipeline stages.", rich_help_panel=DEPLOYMENT),
    ep: int = options.EP,
    attention_dp: int = options.ATTENTION_DP,
    weights: str = typer.Option(
        None,
        help="bf16, fp8, int8, int4, mxfp4, nvfp4. Default: as shipped.",
        rich_help_panel=DEPLOYMENT,
    ),
    kv: str = typer.Option(None, help="KV cache format: bf16 or fp8. Default: bf16.", rich_help_panel=DEPLOYMENT),
    draft_tokens: int = options.DRAFT_TOKENS,
    draft_acceptance: str = options.DRAFT_ACCEPTANCE,
    engine: EngineName = options.ENGINE,
    engine_version: str = typer.Option(
        None, help="Version of the engine. Default: the newest read.", rich_help_panel=DEPLOYMENT
    ),
    enable_mixed_chunk: bool = typer.Option(
        False,
        "--enable-mixed-chunk",
        help="SGLang: mix decodes into chunks.",
        rich_help_panel=DEPLOYMENT,
    ),
    prefill_decode_interval: int = typer.Option(
        0, help="SGLang: decode steps after every prompt step.", rich_help_panel=DEPLOYMENT
    ),
    link: str = typer.Option(
        None, help="Link between GPUs, such as 16GB/s or 16GB/s,20us.", rich_help_panel=DEPLOYMENT
    ),
    memory_fraction: str = typer.Option(
        None, help="Share of memory, by the engine's own rule.", rich_help_panel=DEPLOYMENT
    ),
    chunk: str = typer.Option(None, help="Judge this chunk instead of searching.", rich_help_panel=SETTING),
    budget: str = typer.Option(None, help="Judge this token budget instead.", rich_help_panel=SETTING),
    no_remedies: bool = typer.Option(
        False, "--no-remedies", help="Do not look for what would help.", rich_help_panel=OUTPUT
    ),
    strict: bool = typer.Option(False, "--strict", help="Exit 1 when the verdict is marginal.", rich_help_panel=OUTPUT),
    verbose: bool = typer.Option(
        False,
        "--verbose",
        "-v",
        help="Inputs, breakdown, capacity, intensities.",
        rich_help_panel=OUTPUT,
    ),
    as_json: bool = typer.Option(False, "--json", help="chunkcalc.solve/1 on stdout.", rich_help_panel=OUTPUT),
) -> None:
    """Which chunk to set for one deployment, and whether TTFT and TPOT hold.

    Example: chunkcalc solve --model llama-3.1-8b --gpu h100 --prompt 4k --ttft 1s --tpot 30ms
    """
    bandwidth, latency = parse_link(link)
    question = Question(
        model=model, gpu=gpu, tp=tp, pp=pp, ep=ep, attention_dp=attention_dp, weights=weights, kv=kv,
        draft_tokens=draft_tokens, engine=engine.value, engine_version=engine_version,
        mixed_chunk=enable_mixed_chunk, prefill_interval=prefill_decode_interval,
        tpot_basis=tpot_basis.value if tpot_basis else None, link=bandwidth, link_latency=latency,
        prompt=units.parse_count(prompt, "--prompt"),
        max_utilisation=units.parse_fraction(max_utilisation, "--max-utilisation"),
        prefix_hit=units.parse_fraction(prefix_hit, "--prefix-hit"),
        **given(units.parse_count, output=output, batch=batch, context=context, chunk=chunk, budget=budget,
               concurrency=concurrency, prompt_p95=prompt_p95),
        **given(units.parse_number, rate=rate, percentile=percentile),
        **given(units.parse_duration, ttft=ttft, tpot=tpot, itl=itl),
        **given(units.parse_fraction, draft_acceptance=draft_acceptance, memory_fraction=memory_fraction),
    )  # fmt: skip
    found = answer(question, with_remedies=not no_remedies)
    if as_json:
        show_json(json.solve(found))
    else:
        show(text.solve(found, verbose=verbose))
    failed = not found.holds or (strict and found.verdict == MARGINAL)
    raise typer.Exit(FAILS if failed else HOLDS)
