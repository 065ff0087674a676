"""`chunkcalc replay`: a scheduler stepped over a trace or over drawn arrivals."""

from __future__ import annotations

import enum
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from chunkcalc import units
from chunkcalc.answer.gateway import parse_gateway
from chunkcalc.answer.measured import parse_numbers
from chunkcalc.api.values import link as parse_link
from chunkcalc.cli import options
from chunkcalc.cli.options import DEPLOYMENT, LIMITS, OUTPUT, given
from chunkcalc.cli.output import FAILS, HOLDS, check_target, show_json, write_whole
from chunkcalc.cli.progress import progress
from chunkcalc.errors import ChunkcalcError
from chunkcalc.records import EngineName

if TYPE_CHECKING:  # what the other commands need none of
    from chunkcalc.records import Slo
    from chunkcalc.traffic.arrivals import Request

MOST_REQUESTS = 1_000_000
ARRIVALS, SETTING = "Arrivals", "Setting"  # groups of the help page


class Arrivals(enum.StrEnum):
    """How requests come."""

    poisson = "poisson"
    burst = "burst"
    closed = "closed"


def replay(
    trace: Path = typer.Argument(None, help="CSV with arrival, prompt and output tokens per request."),
    model: str = typer.Option(..., help="Id, Hugging Face id, or path.", rich_help_panel=DEPLOYMENT),
    gpu: str = options.GPU,
    tp: int = options.TP,
    ep: int = options.EP,
    attention_dp: int = options.ATTENTION_DP,
    weights: str = typer.Option(None, help="Weight format. Default: as shipped.", rich_help_panel=DEPLOYMENT),
    kv: str = typer.Option(None, help="KV cache format: bf16 or fp8.", rich_help_panel=DEPLOYMENT),
    engine: EngineName = options.ENGINE,
    engine_version: str = typer.Option(None, help="Default: the newest read.", rich_help_panel=DEPLOYMENT),
    link: str = typer.Option(
        None, help="Link between GPUs, such as 16GB/s; with its latency as measured, 16GB/s,20us.",
        rich_help_panel=DEPLOYMENT,
    ),
    memory_fraction: str = typer.Option(None, help="Share of memory for the engine.", rich_help_panel=DEPLOYMENT),
    gateway: str = options.GATEWAY,
    measured: list[str] = options.MEASURED,
    budget: str = typer.Option(
        None, help="Tokens per step (SGLang: the chunk). Default: the engine's.", rich_help_panel=SETTING
    ),
    max_num_seqs: str = typer.Option(
        None, help="Requests at once. Default: the engine's.", rich_help_panel=SETTING
    ),
    enable_mixed_chunk: bool = typer.Option(
        False, "--enable-mixed-chunk", help="SGLang: mix decodes into chunks.", rich_help_panel=SETTING
    ),
    prefill_decode_interval: int = typer.Option(
        0, help="SGLang: decode steps after every prompt step.", rich_help_panel=SETTING
    ),
    no_chunked_prefill: bool = typer.Option(
        False, "--no-chunked-prefill", help="Prompts enter a step whole.", rich_help_panel=SETTING
    ),
    arrivals: Arrivals = typer.Option(
        None, help="Draw them instead of a trace: at a rate, all at once, or as answers come.",
        rich_help_panel=ARRIVALS,
    ),
    rate: str = typer.Option(None, help="Requests per second (poisson).", rich_help_panel=ARRIVALS),
    concurrency: str = typer.Option(None, help="Users at once; replaces a trace's times.", rich_help_panel=ARRIVALS),
    requests: str = typer.Option(None, help="How many to draw. Default: 1000.", rich_help_panel=ARRIVALS),
    prompt: str = typer.Option(None, "--prompt", "--isl", help="Mean prompt tokens.", rich_help_panel=ARRIVALS),
    output: str = typer.Option(None, "--output", "--osl", help="Output tokens.", rich_help_panel=ARRIVALS),
    prompt_p95: str = typer.Option(None, help="95th percentile of the prompt tokens.", rich_help_panel=ARRIVALS),
    prefix_hit: str = typer.Option("0", help="Share of each prompt in the prefix cache.", rich_help_panel=ARRIVALS),
    prefix_shared: bool = typer.Option(
        True, "--prefix-shared/--prefix-own", help="It is one prefix, or each has its own.", rich_help_panel=ARRIVALS
    ),
    ttft: str = typer.Option(None, help="Limit of a request's first token.", rich_help_panel=LIMITS),
    tpot: str = typer.Option(None, help="Limit of a request's mean time per token.", rich_help_panel=LIMITS),
    itl: str = typer.Option(None, help="Limit of a request's longest gap.", rich_help_panel=LIMITS),
    attainment: str = typer.Option(
        None, help="Exit 1 where fewer requests are within the limits, such as 0.95.", rich_help_panel=LIMITS
    ),
    seed: int = typer.Option(0, help="Of the draws.", rich_help_panel=ARRIVALS),
    per_request: Path = typer.Option(None, help="Write a CSV with a row per request.", rich_help_panel=OUTPUT),
    force: bool = typer.Option(False, "--force", help="Overwrite it.", rich_help_panel=OUTPUT),
    as_json: bool = typer.Option(False, "--json", help="chunkcalc.replay/1 on stdout.", rich_help_panel=OUTPUT),
) -> None:  # fmt: skip
    """Step an engine's scheduler over requests: TTFT, TPOT and token gaps with their percentiles.

    Example: chunkcalc replay --arrivals poisson --rate 3 --prompt 4000 --output 500 --model llama-3.1-8b --gpu h100
    """
    from chunkcalc.answer.question import Question  # noqa: PLC0415
    from chunkcalc.answer.replay import scheduler_for, setting, simulate  # noqa: PLC0415
    from chunkcalc.answer.resolve import resolve  # noqa: PLC0415 - quick help
    from chunkcalc.report import replay as report  # noqa: PLC0415

    if per_request is not None and trace is not None and per_request.resolve() == trace.resolve():
        raise ChunkcalcError("would overwrite the trace", "--per-request", "name another file")
    if per_request is not None:
        check_target(per_request, "--per-request", force=force)
    slo, least = _limits(ttft, tpot, itl, attainment)
    users = None if concurrency is None else units.parse_count(concurrency, "--concurrency")
    listed = _requests(trace, arrivals, rate, users, requests, prompt, output, prompt_p95, seed)
    bandwidth, latency = parse_link(link)
    question = Question(
        model=model, gpu=gpu, tp=tp, ep=ep, attention_dp=attention_dp, weights=weights, kv=kv, engine=engine,
        engine_version=engine_version, link=bandwidth, link_latency=latency, mixed_chunk=enable_mixed_chunk,
        prefill_interval=prefill_decode_interval, prefix_shared=prefix_shared,
        prefix_hit=units.parse_fraction(prefix_hit, "--prefix-hit"),
        prompt=max(1, round(sum(each.prompt for each in listed) / len(listed))),
        output=max(2, round(sum(each.output for each in listed) / len(listed))),
        **given(units.parse_fraction, memory_fraction=memory_fraction), **given(parse_gateway, gateway=gateway),
        **given(parse_numbers, measured=measured or None),
    )  # fmt: skip
    case = resolve(question)
    given_tokens = None if budget is None else units.parse_count(budget, "--budget")
    running = None if max_num_seqs is None else units.parse_count(max_num_seqs, "--max-num-seqs")
    tokens, most = setting(case, gpu, model, given_tokens, running, whole=no_chunked_prefill)
    scheduler = scheduler_for(case, tokens, most, whole=no_chunked_prefill)
    with progress("replaying") as told:
        found = simulate(case, listed, scheduler, concurrency=users, progress=told)
    if per_request is not None:
        write_whole(per_request, report.per_request(found), "--per-request")
    if as_json:
        show_json(report.json(found, slo))
    else:
        print(report.text(case, found, slo))
    share = 1.0 if slo is None or least is None else found.attained(slo).share
    kept = least is None or share >= least
    if least is not None and not kept and not as_json:
        print(f"fails: {100 * share:.2f} % of the requests are within the limits, {100 * least:g} % are asked")
    raise typer.Exit(HOLDS if found.finished and kept else FAILS)


def _limits(ttft: str | None, tpot: str | None, itl: str | None, share: str | None) -> tuple[Slo | None, float | None]:
    """The limits of single requests, and the share that must be within them."""
    from chunkcalc.records import Slo  # noqa: PLC0415

    found = given(units.parse_duration, ttft=ttft, tpot=tpot, itl=itl)
    if not found and share is not None:
        raise ChunkcalcError("attains no limit", "--attainment", "add --ttft, --tpot or --itl")
    least = None if share is None else units.parse_fraction(share, "--attainment")
    return (Slo(**found) if found else None), least


def _requests(
    trace: Path | None, arrivals: Arrivals | None, rate: str | None, users: int | None, count: str | None,
    prompt: str | None, output: str | None, p95: str | None, seed: int,
) -> list[Request]:  # fmt: skip
    """The trace's requests, or drawn ones."""
    from chunkcalc.answer.question import check_p95  # noqa: PLC0415
    from chunkcalc.traffic.arrivals import burst, poisson, read_trace  # noqa: PLC0415 - quick help
    from chunkcalc.traffic.lengths import variation  # noqa: PLC0415

    drawn = {"--arrivals": arrivals, "--rate": rate, "--requests": count, "--prompt": prompt, "--output": output,
             "--prompt-p95": p95}  # fmt: skip
    if trace is not None:
        extra = next((name for name, value in drawn.items() if value is not None), None)
        if extra is not None:
            raise ChunkcalcError("a trace has its own requests", extra, f"leave out the trace or {extra}")
        found = read_trace(trace)
        if found.unanswered:
            print(f"note: {found.unanswered} rows without output tokens are left out", file=sys.stderr)
        return found.requests
    if arrivals is None:
        raise ChunkcalcError("no requests", "TRACE", "give a CSV, or --arrivals poisson, burst or closed")
    if prompt is None or output is None:
        raise ChunkcalcError("drawn requests need lengths", "--arrivals", "add --prompt and --output")
    if (arrivals is Arrivals.poisson) != (rate is not None):
        raise ChunkcalcError("--arrivals poisson and --rate go together", "--rate", "give both or neither")
    if (arrivals is Arrivals.closed) != (users is not None):
        raise ChunkcalcError("--arrivals closed and --concurrency go together", "--concurrency", "give both or neither")
    many = 1000 if count is None else units.parse_count(count, "--requests")
    if many > MOST_REQUESTS:
        raise ChunkcalcError(f"{many:,} requests are too many", "--requests", f"give at most {MOST_REQUESTS:,}")
    mean, tokens = units.parse_count(prompt, "--prompt"), units.parse_count(output, "--output")
    longest = None if p95 is None else units.parse_count(p95, "--prompt-p95")
    check_p95(mean, longest)
    spread = variation(mean, longest)
    if rate is not None:
        return poisson(units.parse_number(rate, "--rate"), many, mean, tokens, seed, spread)
    return burst(many, mean, tokens, seed, spread)
