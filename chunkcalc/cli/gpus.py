"""`chunkcalc gpus`: what is in the catalogue."""

from __future__ import annotations

import typer

from chunkcalc.catalog import lookup
from chunkcalc.catalog.profiles import data_folder
from chunkcalc.cli.output import show_json
from chunkcalc.report import json, tables

app = typer.Typer(help="GPUs: list, show.", no_args_is_help=True)


@app.command("list")
def list_gpus(
    vendor: str = typer.Option("", help="Only this vendor, such as amd."),
    as_json: bool = typer.Option(False, "--json", help="chunkcalc.gpus/1 on stdout."),
) -> None:
    """List the shipped GPUs."""
    found = [record for record in lookup.gpus() if record.vendor.startswith(vendor.lower())]
    if as_json:
        show_json({"schema": json.GPUS, "gpus": [json.gpu(record) for record in found]})
    else:
        print(tables.gpus(found))


@app.command("show")
def show_gpu(
    name: str = typer.Argument(help="Id, product name, or path to a profile."),
    as_json: bool = typer.Option(False, "--json", help="One row of chunkcalc.gpus/1 on stdout."),
    as_toml: bool = typer.Option(False, "--toml", help="The profile itself, to start your own from."),
) -> None:
    """Show one GPU: datasheet, link, and measured efficiencies."""
    record = lookup.load_hardware(name).record
    if as_toml:
        print((data_folder("hardware_profiles") / f"{record.id}.toml").read_text(encoding="utf-8"), end="")
    elif as_json:
        show_json({"schema": json.GPUS, "gpus": [json.gpu(record)]})
    else:
        print(tables.gpu(record))
