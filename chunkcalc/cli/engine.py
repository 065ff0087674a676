"""`chunkcalc engine`: what an engine's command line really does."""

from __future__ import annotations

import enum

import typer

from chunkcalc.cli.output import FAILS, HOLDS, show_json
from chunkcalc.report import json, tables


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
    as_json: bool = typer.Option(False, "--json", help="chunkcalc.engine/1 on stdout."),
) -> None:
    """What an engine's command line means: values, budget, chunk, memory, refusals.

    Exit code 1 when the engine would refuse to start.

    Example: chunkcalc engine --gpu h100 -- vllm serve meta-llama/Llama-3.1-8B-Instruct --max-num-seqs 64
    """
    from chunkcalc.answer.inspection import inspect  # noqa: PLC0415 - the other commands need none of it

    found = inspect(words, gpu, version, entry.value, model)
    if as_json:
        show_json(json.engine(found))
    else:
        print(tables.engine(found))
    raise typer.Exit(FAILS if found.reading.refusals else HOLDS)
