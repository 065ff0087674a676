"""`chunkcalc models`: what is in the catalogue."""

from __future__ import annotations

import typer

from chunkcalc import catalog
from chunkcalc.cli.output import show_json
from chunkcalc.profiles import data_folder
from chunkcalc.report import json, tables

app = typer.Typer(help="Models: list, show.", no_args_is_help=True)


@app.command("list")
def list_models(
    family: str = typer.Option("", help="Only this family, such as qwen3."),
    as_json: bool = typer.Option(False, "--json", help="chunkcalc.models/1 on stdout."),
) -> None:
    """List the shipped models."""
    found = [record for record in catalog.models() if record.family.startswith(family)]
    if as_json:
        show_json({"schema": json.MODELS, "models": [json.model(record) for record in found]})
    else:
        print(tables.models(found))


@app.command("show")
def show_model(
    name: str = typer.Argument(help="Id, Hugging Face id, or path to a profile."),
    as_json: bool = typer.Option(False, "--json", help="One row of chunkcalc.models/1 on stdout."),
    as_toml: bool = typer.Option(False, "--toml", help="The profile itself, to start your own from."),
) -> None:
    """Show one model: its layers and what it amounts to."""
    record = catalog.load_model(name).record
    if as_toml:
        print((data_folder("models") / f"{record.id}.toml").read_text(encoding="utf-8"), end="")
    elif as_json:
        show_json({"schema": json.MODELS, "models": [json.model(record)]})
    else:
        print(tables.model(record))
