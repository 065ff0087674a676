"""The program: commands, and how errors leave it."""

from __future__ import annotations

import gc
import sys
from importlib import import_module
from typing import Any

import typer

from chunkcalc.cli.output import INTERNAL, USAGE, outlive_readers
from chunkcalc.errors import ChunkcalcError

DEBUG = "--debug"
RARELY = 100_000  # new objects between two looks for cycles: a short run makes few, and each look costs
SETTINGS: dict[str, Any] = {
    "name": "chunkcalc",
    "no_args_is_help": True,
    "pretty_exceptions_enable": False,
    "context_settings": {"help_option_names": ["-h", "--help"]},
}
# Each command, in the order of the help page: the module it stands in, and its panel there. A group of
# commands is a module with an `app` of its own.
COMMANDS: dict[str, tuple[str, str]] = {
    "solve": ("solve", "Answer"), "check": ("check", "Answer"), "fleet": ("fleet", "Answer"),
    "compare": ("compare", "Answer"), "policy": ("policy", "Answer"), "replay": ("replay", "Answer"),
    "explain": ("explain", "Understand"), "sweep": ("sweep", "Understand"), "engine": ("engine", "Understand"),
    "calibrate": ("calibrate", "Trust"), "score": ("score", "Trust"), "observe": ("observe", "Trust"),
    "probe": ("probe", "Trust"), "init": ("init", "Advanced"), "rules": ("check", "Advanced"),
    "step-model": ("step_model", "Advanced"),
}  # fmt: skip
GROUPS = {"models": "Data", "gpus": "Data"}


def _version(value: bool) -> None:
    if value:
        from importlib.metadata import version  # noqa: PLC0415 - 20 ms nobody else needs

        typer.echo(f"chunkcalc {version('chunkcalc')}")
        raise typer.Exit


def _program(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Print the version."),
    debug: bool = typer.Option(False, DEBUG, help="Show the traceback of an internal error."),
) -> None:
    """Capacity planner for LLM serving with chunked prefill: which chunk to set, whether TTFT and
    TPOT hold, and what helps if not.

    Exit codes: 0 holds, 1 does not hold, 2 wrong usage or profile, 3 nothing to check, 4 internal error.
    """


def program(name: str = "") -> typer.Typer:
    """The program with one of its commands alone, or with all of them: each takes time to load.

    Parameters
    ----------
    name : of a command or a group of commands; anything else stands for all
    """
    app = typer.Typer(**SETTINGS)
    app.callback()(_program)
    asked = {name} if name in COMMANDS or name in GROUPS else {*COMMANDS, *GROUPS}
    for command, (module, panel) in COMMANDS.items():
        if command in asked:
            found = import_module(f"chunkcalc.cli.{module}")
            settings = getattr(found, "CONTEXT", None)
            function = getattr(found, command.replace("-", "_"))
            app.command(command, rich_help_panel=panel, context_settings=settings)(function)
    for group, panel in GROUPS.items():
        if group in asked:
            app.add_typer(import_module(f"chunkcalc.cli.{group}").app, name=group, rich_help_panel=panel)
    return app


def main() -> None:
    """Run the program; every error becomes one sentence on stderr and an exit code."""
    gc.set_threshold(RARELY)
    outlive_readers()
    debug = sys.argv[1:2] == [DEBUG]
    try:
        program(next(iter(sys.argv[1 + debug :]), ""))()
    except ChunkcalcError as error:
        _fail(f"error: {error}", USAGE)
    except OSError as error:
        place = f"'{error.filename}': " if error.filename else ""
        _fail(f"error: {place}{error.strerror or error}", USAGE)
    except KeyboardInterrupt:
        sys.exit(130)
    except Exception as error:  # the last resort: a traceback helps no user who does not ask for it
        if debug:
            raise
        problem = f"internal error: {type(error).__name__}: {error}"
        _fail(f"{problem}; please report this command line ('chunkcalc {DEBUG} ...' shows where)", INTERNAL)


def _fail(message: str, code: int) -> None:
    print(message, file=sys.stderr)
    sys.exit(code)


if __name__ == "__main__":
    main()
