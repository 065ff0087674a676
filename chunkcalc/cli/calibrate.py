"""`chunkcalc calibrate`: a hardware profile fitted to benchmark results."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import typer

from chunkcalc import units
from chunkcalc.cli import options
from chunkcalc.cli.options import DEPLOYMENT, OUTPUT, EngineName
from chunkcalc.cli.output import FAILS, HOLDS, show_json, write_whole
from chunkcalc.cli.progress import progress
from chunkcalc.errors import ChunkcalcError

if TYPE_CHECKING:  # what the other commands need none of
    from chunkcalc.measurements import Run
    from chunkcalc.records import Hardware
    from chunkcalc.scoring.usable import LeftOut


def calibrate(
    files: list[Path] = typer.Argument(
        ..., help="Results of vllm bench serve, sglang.bench_serving, GuideLLM, AIPerf, or CSV tables."
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
    out: Path = typer.Option(..., "--out", "-o", help="The profile to write, a .toml file.", rich_help_panel=OUTPUT),
    force: bool = typer.Option(False, "--force", help="Overwrite it.", rich_help_panel=OUTPUT),
    as_json: bool = typer.Option(False, "--json", help="chunkcalc.calibration/1 on stdout.", rich_help_panel=OUTPUT),
) -> None:  # fmt: skip
    """Fit a GPU's profile to your own benchmark; then give it as --gpu FILE. Two runs are enough to begin.

    Exit code 1 and no file where the shipped constants predict your rows as well.

    Example: chunkcalc calibrate bench/*.json --gpu h100-sxm --engine vllm -o my-h100.toml
    """
    from datetime import UTC, datetime  # noqa: PLC0415 - quick help

    from chunkcalc.report import calibration as report  # noqa: PLC0415
    from chunkcalc.scoring.calibrate import calibrate as fit  # noqa: PLC0415
    from chunkcalc.scoring.usable import check, one_kind, usable  # noqa: PLC0415

    base = _base(gpu)
    _check_target(out, files, force=force)
    options.check_latency_unit(unit)
    said = {
        "gpu": gpu, "engine": engine.value if engine else None, "model": model, "tp": tp, "dp": attention_dp, "ep": ep,
        "weights": weights, "kv": kv, "engine_version": engine_version,
        "budget": None if budget is None else units.parse_count(budget, "--budget"),
    }  # fmt: skip
    runs, skipped = _read(files, {name: value for name, value in said.items() if value is not None}, unit)  # type: ignore[arg-type]
    one_kind(runs, base, engine.value if engine else None)
    rows, others = usable(runs, base)
    left_out = [*skipped, *others]
    if not rows:
        reason = f" ({left_out[0].reason})" if left_out else ""
        raise ChunkcalcError(f"no row can be used{reason}", "rows", "give runs with a fixed number of users")
    check(rows, base)
    with progress("fitting") as told:
        found = fit(rows, base, told)
    if found.choice:
        write_whole(out, report.profile(found, files, datetime.now(UTC).date().isoformat()), "--out")
    if as_json:
        show_json(report.json(found, left_out, files, str(out)))
    else:
        print(report.text(found, left_out, str(out)))
    raise typer.Exit(HOLDS if found.choice else FAILS)


def _base(gpu: str) -> Hardware:
    """The shipped GPU that the profile extends."""
    from chunkcalc.catalog import load_hardware  # noqa: PLC0415 - quick help
    from chunkcalc.profiles import data_folder  # noqa: PLC0415

    base: Hardware = load_hardware(gpu).record
    if gpu.endswith(".toml") or not (data_folder("hardware_profiles") / f"{base.id}.toml").is_file():
        raise ChunkcalcError(f"'{gpu}' is not a shipped GPU", "--gpu", "a calibrated profile extends one: give its id")
    return base


def _check_target(out: Path, files: list[Path], *, force: bool) -> None:
    """Refuse a file that no command would take, or that is not to be lost; before the work."""
    if out.suffix != ".toml":
        raise ChunkcalcError(f"'{out}' is not a .toml file", "--out", "--gpu takes profiles that end in .toml")
    if any(out.resolve() == file.resolve() for file in files):
        raise ChunkcalcError("would overwrite a measurement", "--out", "name another file")
    if out.exists() and not force:
        raise ChunkcalcError(f"'{out}' exists", "--out", "add --force to overwrite it, or name another file")
    if not out.parent.is_dir():
        raise ChunkcalcError(f"no folder '{out.parent}'", "--out", "give a path in a folder that exists")


def _read(
    files: list[Path], said: Mapping[str, Any], unit: Literal["s", "ms", "us"] | None
) -> tuple[list[Run], list[LeftOut]]:
    """The runs of all files, and the rows that are none."""
    from chunkcalc.measurements import read  # noqa: PLC0415 - quick help
    from chunkcalc.scoring.usable import LeftOut  # noqa: PLC0415

    runs: list[Run] = []
    skipped: list[LeftOut] = []
    notes: list[str] = []
    for file in dict.fromkeys(files):
        found = read(file, said, unit)
        if not found.runs and (found.steps or found.traces):
            problem = f"holds {'steps' if found.steps else 'requests one by one'}, not runs"
            raise ChunkcalcError(problem, str(file), "give results with mean TTFT and TPOT")
        runs += found.runs
        skipped += [LeftOut(str(file), each.row, each.reason) for each in found.skipped]
        notes += found.assumed
    for sentence in dict.fromkeys(notes):
        print(f"note: {sentence}", file=sys.stderr)
    if not runs:
        raise ChunkcalcError(f"no row can be read ({skipped[0].reason if skipped else 'none'})", "rows", "see --help")
    return runs, skipped
