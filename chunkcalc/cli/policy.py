"""`chunkcalc policy`: one budget for a load that changes."""

from __future__ import annotations

import typer

from chunkcalc import units
from chunkcalc.cli import options
from chunkcalc.cli.options import LIMITS, OUTPUT, WORKLOAD, asked
from chunkcalc.cli.output import FAILS, HOLDS, show_json
from chunkcalc.cli.progress import progress
from chunkcalc.records import EngineName


def policy(
    model: str = options.MODEL,
    gpu: str = options.GPU,
    tp: int = options.TP,
    pp: int = options.PP,
    ep: int = options.EP,
    attention_dp: int = options.ATTENTION_DP,
    weights: str = options.WEIGHTS,
    kv: str = options.KV,
    engine: EngineName = options.ENGINE,
    engine_version: str = options.ENGINE_VERSION,
    link: str = options.LINK,
    gateway: str = options.GATEWAY,
    measured: list[str] = options.MEASURED,
    rate: str = typer.Option(
        ..., help="Requests per second: a range such as 1:12, or values.", rich_help_panel=WORKLOAD
    ),
    prompt: str = typer.Option(
        ..., "--prompt", "--isl", help="Prompt tokens: a range such as 500:32k, or values.", rich_help_panel=WORKLOAD
    ),
    output: str = options.OUTPUT_TOKENS,
    prefix_hit: str = options.PREFIX_HIT,
    ttft: str = typer.Option(None, help="Limit of the time to first token.", rich_help_panel=LIMITS),
    tpot: str = typer.Option(None, help="Limit of the mean time per output token.", rich_help_panel=LIMITS),
    itl: str = options.ITL,
    as_json: bool = typer.Option(False, "--json", help="chunkcalc.policy/1 on stdout.", rich_help_panel=OUTPUT),
) -> None:
    """One budget for a load that changes: the one that is never far behind the best budget of each load.

    The share of requests within the limits under every rate and prompt length, for every budget; the choice is the
    budget with the least worst regret. Exit code 1 where no budget keeps the limits under any load.

    Example: chunkcalc policy --model qwen3-32b --gpu h100 --tp 2 --rate 0.5:4 --prompt 500:16k --ttft 2s --tpot 50ms
    """
    from chunkcalc.grids.grids import spaced  # noqa: PLC0415
    from chunkcalc.report import policy as report  # noqa: PLC0415 - quick help
    from chunkcalc.sizing.policy import PROMPTS, RATES  # noqa: PLC0415
    from chunkcalc.sizing.policy import policy as find  # noqa: PLC0415

    rates = spaced(rate, RATES, lambda text: units.parse_number(text, "--rate"), "--rate")
    lengths = spaced(prompt, PROMPTS, lambda text: units.parse_count(text, "--prompt"), "--prompt")
    question = asked(
        model=model, gpu=gpu, tp=tp, pp=pp, ep=ep, attention_dp=attention_dp, weights=weights, kv=kv, engine=engine,
        engine_version=engine_version, link=link, gateway=gateway, measured=measured or None, prompt="1000",
        rate="1", output=output, prefix_hit=prefix_hit, ttft=ttft, tpot=tpot, itl=itl,
    )  # fmt: skip
    with progress("loads") as told:
        found = find(question, rates, [round(length) for length in lengths], progress=told)
    if as_json:
        show_json(report.json(found))
    else:
        print(report.text(found))
    raise typer.Exit(HOLDS if any(cell.best > 0 for cell in found.cells) else FAILS)
