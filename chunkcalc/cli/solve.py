"""`chunkcalc solve`: one deployment, two limits, one answer."""

from __future__ import annotations

import typer

from chunkcalc.answer.records import MARGINAL
from chunkcalc.answer.solve import answer
from chunkcalc.cli import options
from chunkcalc.cli.options import OUTPUT, WORKLOAD, Basis, asked
from chunkcalc.cli.output import FAILS, HOLDS, show, show_json
from chunkcalc.cli.progress import progress
from chunkcalc.records import EngineName
from chunkcalc.report import json, text


def solve(
    model: str = options.MODEL,
    gpu: str = options.GPU,
    prompt: str = options.PROMPT,
    output: str = options.OUTPUT_TOKENS,
    batch: str = options.BATCH,
    context: str = options.CONTEXT,
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
    prefix_shared: bool = options.PREFIX_SHARED,
    ttft: str = options.TTFT,
    tpot: str = options.TPOT,
    percentile: str = options.PERCENTILE,
    attainment: str = options.ATTAINMENT,
    itl: str = options.ITL,
    tpot_basis: Basis = options.TPOT_BASIS,
    max_utilisation: str = options.MAX_UTILISATION,
    tp: int = options.TP,
    pp: int = options.PP,
    ep: int = options.EP,
    attention_dp: int = options.ATTENTION_DP,
    weights: str = options.WEIGHTS,
    kv: str = options.KV,
    draft_tokens: int = options.DRAFT_TOKENS,
    draft_acceptance: str = options.DRAFT_ACCEPTANCE,
    engine: EngineName = options.ENGINE,
    engine_version: str = options.ENGINE_VERSION,
    enable_mixed_chunk: bool = options.MIXED_CHUNK,
    prefill_decode_interval: int = options.INTERVAL,
    link: str = options.LINK,
    gateway: str = options.GATEWAY,
    measured: list[str] = options.MEASURED,
    kv_link: str = options.KV_LINK,
    memory_fraction: str = options.MEMORY_FRACTION,
    chunk: str = options.CHUNK,
    budget: str = options.BUDGET,
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
    as_json: bool = typer.Option(False, "--json", help="chunkcalc.solve/2 on stdout.", rich_help_panel=OUTPUT),
) -> None:
    """Which chunk to set for one deployment, and whether TTFT and TPOT hold.

    Example: chunkcalc solve --model llama-3.1-8b --gpu h100 --prompt 4k --ttft 1s --tpot 30ms
    """
    question = asked(
        model=model, gpu=gpu, tp=tp, pp=pp, ep=ep, attention_dp=attention_dp, weights=weights, kv=kv,
        draft_tokens=draft_tokens, draft_acceptance=draft_acceptance, engine=engine, engine_version=engine_version,
        enable_mixed_chunk=enable_mixed_chunk, prefill_decode_interval=prefill_decode_interval,
        memory_fraction=memory_fraction, link=link, gateway=gateway,
        measured=measured or None,
        prompt=prompt, output=output, batch=batch, context=context,
        rate=rate, concurrency=concurrency, prompt_p95=prompt_p95,
        prefix_hit=prefix_hit, prefix_shared=prefix_shared, ttft=ttft, tpot=tpot,
        percentile=options.percentile_of(percentile, attainment),
        itl=itl, tpot_basis=tpot_basis, max_utilisation=max_utilisation, chunk=chunk,
        budget=budget, kv_link=kv_link,
    )  # fmt: skip
    with progress("looking for what would help") as told:
        found = answer(question, with_remedies=not no_remedies, progress=told)
    if as_json:
        show_json(json.solve(found))
    else:
        show(text.solve(found, verbose=verbose))
    failed = not found.holds or (strict and found.verdict == MARGINAL)
    raise typer.Exit(FAILS if failed else HOLDS)
