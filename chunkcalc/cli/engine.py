"""`chunkcalc engine`: what an engine's command line really does."""

from __future__ import annotations

import enum
from pathlib import Path
from typing import Any

import typer

from chunkcalc.cli.output import FAILS, HOLDS, show_json
from chunkcalc.report import json, tables

MOST_LOG = 2**24  # characters of a log


class Entry(enum.StrEnum):
    """Entry points with defaults of their own."""

    server = "server"
    offline = "offline"


def engine(
    words: list[str] = typer.Argument(
        help="The command line after --, or the engine's name and its arguments after --.", metavar="[ENGINE] -- ..."
    ),
    gpu: str = typer.Option(..., help="Id, product name, or path to a profile."),
    version: str = typer.Option(None, help="Version of the engine. Default: the newest read."),
    model: str = typer.Option("", help="What the model is, where the command line names a path."),
    entry: Entry = typer.Option(Entry.server, help="The server, or the Python class LLM()."),
    log: Path = typer.Option(None, help="Its start-up log: what the engine counted against what is predicted."),
    as_json: bool = typer.Option(False, "--json", help="chunkcalc.engine/1 on stdout."),
) -> None:
    """What an engine's command line means: values, budget, chunk, memory, refusals.

    Exit code 1 when the engine would refuse to start.

    Example: chunkcalc engine --gpu h100 -- vllm serve meta-llama/Llama-3.1-8B-Instruct --max-num-seqs 64
    """
    from chunkcalc.answer.inspection import inspect  # noqa: PLC0415 - the other commands need none of it

    said = None if log is None else _said(log)
    found = inspect(words, gpu, version or (said or {}).get("engine_version"), entry.value, model)
    if as_json:
        show_json(json.engine(found, said))
    else:
        print(tables.engine(found, said))
    raise typer.Exit(FAILS if found.reading.refusals else HOLDS)


def _said(path: Path) -> dict[str, Any]:
    """What a start-up log says: the version, the model, the budget, the tokens of the KV cache."""
    from chunkcalc.errors import ChunkcalcError  # noqa: PLC0415
    from chunkcalc.measurements.logs import is_log, started  # noqa: PLC0415

    with path.open(encoding="utf-8", errors="replace") as file:
        content = file.read(MOST_LOG)
    if not is_log(content):
        raise ChunkcalcError(
            "is no log of an engine's start", str(path), "give what vLLM or SGLang writes at its start"
        )
    told = ("engine_version", "kv_tokens", "budget", "model")
    return {name: value for name, value in started(content).items() if name in told}
