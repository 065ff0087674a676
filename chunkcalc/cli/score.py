"""`chunkcalc score`: predictions against measurements."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import typer

from chunkcalc.answer.gateway import parse_gateway
from chunkcalc.api.values import link as parse_link
from chunkcalc.cli import options
from chunkcalc.cli.options import DEPLOYMENT, OUTPUT
from chunkcalc.cli.output import HOLDS, show_json
from chunkcalc.cli.progress import shown
from chunkcalc.records import ENGINE_NAMES


def score(
    file: Path = typer.Argument(..., help="CSV table, or the result of a benchmark harness."),
    by: str = typer.Option(None, help="Columns to group by, such as model,gpu,engine.", rich_help_panel=OUTPUT),
    as_json: bool = typer.Option(False, "--json", help="chunkcalc.score/1 on stdout.", rich_help_panel=OUTPUT),
    unit: str = options.LATENCY_UNIT,
    gpu: str = typer.Option(None, help="Id, product name, or a profile of your own.", rich_help_panel=DEPLOYMENT),
    model: str = typer.Option(None, help="Id or Hugging Face id.", rich_help_panel=DEPLOYMENT),
    engine: str = typer.Option(None, help=f"{', '.join(ENGINE_NAMES)}.", rich_help_panel=DEPLOYMENT),
    engine_version: str = typer.Option(None, help="Its version.", rich_help_panel=DEPLOYMENT),
    tp: int = typer.Option(None, help="Tensor parallel degree.", rich_help_panel=DEPLOYMENT),
    attention_dp: int = typer.Option(None, help="Data parallel attention ranks.", rich_help_panel=DEPLOYMENT),
    ep: int = typer.Option(None, help="Expert parallel degree.", rich_help_panel=DEPLOYMENT),
    weights: str = typer.Option(None, help="Weight format.", rich_help_panel=DEPLOYMENT),
    kv: str = typer.Option(None, help="KV cache format.", rich_help_panel=DEPLOYMENT),
    link: str = typer.Option(
        None, help="Link between GPUs, such as 16GB/s or 16GB/s,20us.", rich_help_panel=DEPLOYMENT
    ),
    gateway: str = options.GATEWAY,
    like: str = typer.Option(
        None, metavar="NAME=KNOWN,...", rich_help_panel=DEPLOYMENT,
        help="Models shaped like known ones, such as minimax-m2.7=minimax-m2.",
    ),
    budget: int = typer.Option(None, help="Tokens per step (SGLang: the chunk).", rich_help_panel=DEPLOYMENT),
) -> None:  # fmt: skip
    """Score predictions against measured runs, steps or traces: MAPE, median, p90 and bias of TPOT and TTFT.

    Options say what a file leaves out; with --gpu FILE.toml every row is predicted with that profile.

    Example: chunkcalc score results.csv --by model,gpu,engine
    """
    from chunkcalc.measurements import liked, read  # noqa: PLC0415 - quick help
    from chunkcalc.report import score as report  # noqa: PLC0415
    from chunkcalc.scoring.score import score as run  # noqa: PLC0415

    options.check_latency_unit(unit)
    own = gpu if gpu is not None and gpu.endswith(".toml") else None
    said: dict[str, Any] = {
        "gpu": gpu, "model": model, "engine": engine, "engine_version": engine_version, "tp": tp, "dp": attention_dp,
        "ep": ep, "weights": weights, "kv": kv, "budget": budget,
    }  # fmt: skip
    read_as = read(file, {name: value for name, value in said.items() if value is not None}, unit)  # type: ignore[arg-type]
    found = liked(read_as, options.pairs(like, "--like"))
    for sentence in found.assumed:
        print(f"note: {sentence}", file=sys.stderr)
    columns = [name.strip() for name in by.split(",") if name.strip()] if by else []
    scored = run(found, columns, shown, own, parse_link(link), parse_gateway(gateway) if gateway else None)
    if as_json:
        show_json(report.json(scored))
    else:
        print(report.text(scored, [file.name]))
    raise typer.Exit(HOLDS)
