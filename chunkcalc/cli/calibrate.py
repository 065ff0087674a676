"""`chunkcalc calibrate`: a hardware profile fitted to benchmark results."""

from __future__ import annotations

import sys
from pathlib import Path

import typer

from chunkcalc import units
from chunkcalc.cli import options
from chunkcalc.cli.options import DEPLOYMENT, OUTPUT
from chunkcalc.cli.output import FAILS, HOLDS, check_target, show_json, write_whole
from chunkcalc.cli.progress import progress
from chunkcalc.errors import ChunkcalcError
from chunkcalc.records import EngineName


def calibrate(
    files: list[Path] = typer.Argument(
        ..., help="Results of vllm bench serve, sglang.bench_serving, GuideLLM, AIPerf, CSV tables, engine logs."
    ),
    gpu: str = options.GPU,
    engine: EngineName = typer.Option(
        None, metavar="<name>", help="Engine. Default: as the files say.", rich_help_panel=DEPLOYMENT
    ),
    model: str = typer.Option(None, help="Default: as the files say.", rich_help_panel=DEPLOYMENT),
    tp: int = typer.Option(None, help="Tensor parallel degree.", rich_help_panel=DEPLOYMENT),
    attention_dp: int = typer.Option(
        None, "--dp", "--attention-dp", help="Data parallel attention ranks.", rich_help_panel=DEPLOYMENT
    ),
    ep: int = typer.Option(None, help="Expert parallel degree.", rich_help_panel=DEPLOYMENT),
    weights: str = typer.Option(None, help="Weight format. Default: as shipped.", rich_help_panel=DEPLOYMENT),
    kv: str = typer.Option(None, help="KV cache format: bf16 or fp8.", rich_help_panel=DEPLOYMENT),
    engine_version: str = typer.Option(None, help="Version of the engine.", rich_help_panel=DEPLOYMENT),
    budget: str = typer.Option(
        None, help="Tokens per step (SGLang: the chunk). Default: the engine's.", rich_help_panel=DEPLOYMENT
    ),
    unit: str = options.LATENCY_UNIT,
    columns: str = typer.Option(
        None, "--map", metavar="NAME=COLUMN,...", rich_help_panel=DEPLOYMENT,
        help="Columns of a table by the names that are known, such as ttft_ms=first_token.",
    ),
    out: Path = typer.Option(..., "--out", "-o", help="The profile to write, a .toml file.", rich_help_panel=OUTPUT),
    force: bool = typer.Option(False, "--force", help="Overwrite it.", rich_help_panel=OUTPUT),
    as_json: bool = typer.Option(False, "--json", help="chunkcalc.calibration/1 on stdout.", rich_help_panel=OUTPUT),
) -> None:  # fmt: skip
    """Fit a GPU's profile to your own runs and step logs; then give it as --gpu FILE. One run is enough to begin.

    Engines log their own steps where they are told to (docs/accuracy.md); give the start-up log as well.
    Exit code 1 and no file where the shipped profile predicts your rows as well.

    Example: chunkcalc calibrate bench/*.json --gpu h100-sxm --engine vllm -o my-h100.toml
    """
    from chunkcalc.api.files import calibrate as run  # noqa: PLC0415 - quick help
    from chunkcalc.report import calibration as report  # noqa: PLC0415

    _check_target(out, files, force=force)
    options.check_latency_unit(unit)
    with progress("fitting") as told:
        found = run(
            *files, gpu=gpu, engine=engine, model=model, tp=tp,
            attention_dp=attention_dp, ep=ep, weights=weights, kv=kv, engine_version=engine_version,
            budget=None if budget is None else units.parse_count(budget, "--budget"), unit=unit,  # type: ignore[arg-type]
            mapped=options.pairs(columns, "--map"), progress=told,
        )  # fmt: skip
    for sentence in found.assumed:
        print(f"note: {sentence}", file=sys.stderr)
    if found.calibrated:
        write_whole(out, found.profile(), "--out")
    if as_json:
        show_json(report.json(found, found.left_out, files, str(out)))
    else:
        print(report.text(found, found.left_out, str(out)))
    raise typer.Exit(HOLDS if found.calibrated else FAILS)


def _check_target(out: Path, files: list[Path], *, force: bool) -> None:
    """Refuse a file that no command would take, or that is not to be lost; before the work."""
    if out.suffix != ".toml":
        raise ChunkcalcError(f"'{out}' is not a .toml file", "--out", "--gpu takes profiles that end in .toml")
    if any(out.resolve() == file.resolve() for file in files):
        raise ChunkcalcError("would overwrite a measurement", "--out", "name another file")
    check_target(out, "--out", force=force)
