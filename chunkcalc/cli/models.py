"""`chunkcalc models`: what is in the catalogue."""

from __future__ import annotations

import sys
from pathlib import Path

import typer

from chunkcalc.catalog import configs, lookup
from chunkcalc.catalog.profiles import MAX_BYTES
from chunkcalc.cli.output import check_target, show_json, write_whole
from chunkcalc.report import json, tables, toml
from chunkcalc.work import counts

app = typer.Typer(help="Models: list, show, import.", no_args_is_help=True)


@app.command("list")
def list_models(
    family: str = typer.Option("", help="Only this family, such as qwen3."),
    as_json: bool = typer.Option(False, "--json", help="chunkcalc.models/1 on stdout."),
) -> None:
    """List the shipped models."""
    found = [record for record in lookup.models() if record.family.startswith(family)]
    if as_json:
        show_json({"schema": json.MODELS, "models": [json.model(record) for record in found]})
    else:
        print(tables.models(found))


@app.command("import")
def import_model(
    path: str = typer.Argument(help="A Hugging Face config.json, or - for standard input."),
    output: str = typer.Option("", "--output", "-o", help="The profile to write; standard output without it."),
    name: str = typer.Option("", help="What to call the model."),
    force: bool = typer.Option(False, "--force", help="Overwrite the profile."),
) -> None:
    """Make a profile from a Hugging Face config.json."""
    if output:
        check_target(Path(output), "--output", force=force)
    shown = "standard input" if path == "-" else path
    data = configs.read_json(shown, sys.stdin.read(MAX_BYTES + 1) if path == "-" else None)
    record = configs.model_from_config(data, shown, name or Path(output).stem)
    text = toml.model(record)
    if not output:
        print(text, end="")
        return
    write_whole(Path(output), text)
    print(f"{output}: {counts.parameters(record) / 1e9:.2f}B parameters, {record.weights} weights", file=sys.stderr)


@app.command("show")
def show_model(
    name: str = typer.Argument(help="Id, Hugging Face id, or path to a profile or config.json."),
    as_json: bool = typer.Option(False, "--json", help="One row of chunkcalc.models/1 on stdout."),
    as_toml: bool = typer.Option(False, "--toml", help="The profile itself, to start your own from."),
) -> None:
    """Show one model: its layers and what it amounts to."""
    record = lookup.load_model(name).record
    if as_toml:
        print(toml.model(record), end="")
    elif as_json:
        show_json({"schema": json.MODELS, "models": [json.model(record)]})
    else:
        print(tables.model(record))
