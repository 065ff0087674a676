"""`chunkcalc init`: a first chunkcalc.toml."""

from __future__ import annotations

import sys
from pathlib import Path

import typer

from chunkcalc.cli.options import LIMITS, OUTPUT, WORKLOAD
from chunkcalc.cli.output import check_target, write_whole


def init(
    paths: list[str] = typer.Argument(None, help="Files and folders. Default: this folder.", metavar="[PATH]..."),
    gpu: str = typer.Option(None, help="GPU of deployments that name none.", rich_help_panel=WORKLOAD),
    prompt: str = typer.Option(None, "--prompt", "--isl", help="Prompt tokens.", rich_help_panel=WORKLOAD),
    output: str = typer.Option(None, "--output", "--osl", help="Output tokens.", rich_help_panel=WORKLOAD),
    concurrency: str = typer.Option(None, help="Requests that decode at once.", rich_help_panel=WORKLOAD),
    rate: str = typer.Option(None, help="Requests per second on a replica.", rich_help_panel=WORKLOAD),
    ttft: str = typer.Option(None, help="Limit of the time to first token.", rich_help_panel=LIMITS),
    tpot: str = typer.Option(None, help="Limit of the time per output token.", rich_help_panel=LIMITS),
    itl: str = typer.Option(None, help="Limit of the longest gap.", rich_help_panel=LIMITS),
    out: Path = typer.Option("chunkcalc.toml", "--output-file", "-o", help="To write.", rich_help_panel=OUTPUT),
    force: bool = typer.Option(False, "--force", help="Overwrite it.", rich_help_panel=OUTPUT),
) -> None:
    """A first chunkcalc.toml from what deployment files say; what is guessed says so.

    Example: chunkcalc init deploy/ --ttft 2s --tpot 50ms
    """
    from chunkcalc.gate.check import Options, check, repository  # noqa: PLC0415 - quick help
    from chunkcalc.gate.initial import written  # noqa: PLC0415
    from chunkcalc.gate.settings import parsed  # noqa: PLC0415

    check_target(out, "--output-file", force=force)
    said = {
        "gpu": gpu, "prompt": prompt, "output": output, "concurrency": concurrency, "rate": rate, "ttft": ttft,
        "tpot": tpot, "itl": itl,
    }  # fmt: skip
    given = {key: value for key, value in said.items() if value is not None}
    parsed(given, "command line", "command line")  # refuses what cannot be read
    asked = tuple(paths or ["."])
    report = check(Options(paths=asked, root=repository(asked)), lambda: b"")
    write_whole(out, written(report, given), "--output-file")
    read = len(report.deployments) - len(report.broken) - len(report.skipped)
    print(
        f"{out}: {read} deployment{'' if read == 1 else 's'} read; state what stands behind # and run chunkcalc check"
    )
    for each in report.broken:
        print(f"left out: {each.file}:{each.line} {'; '.join(each.missing)}", file=sys.stderr)
