"""The program: commands, and how errors leave it."""

from __future__ import annotations

import gc
import sys
from typing import Any

import typer

from chunkcalc.cli import calibrate, check, engine, explain, fleet, gpus, models, replay, score, solve, sweep
from chunkcalc.cli.output import INTERNAL, USAGE, outlive_readers
from chunkcalc.errors import ChunkcalcError

RARELY = 100_000  # new objects between two looks for cycles: a short run makes few, and each look costs
SETTINGS: dict[str, Any] = {
    "name": "chunkcalc",
    "no_args_is_help": True,
    "add_completion": False,
    "pretty_exceptions_enable": False,
    "context_settings": {"help_option_names": ["-h", "--help"]},
}
app = typer.Typer(**SETTINGS)
app.command("solve", rich_help_panel="Answer")(solve.solve)
app.command("check", rich_help_panel="Answer")(check.check)
app.command("fleet", rich_help_panel="Answer")(fleet.fleet)
app.command("replay", rich_help_panel="Answer")(replay.replay)
app.command("calibrate", rich_help_panel="Understand")(calibrate.calibrate)
app.command("explain", rich_help_panel="Understand")(explain.explain)
app.command("sweep", rich_help_panel="Understand")(sweep.sweep)
app.command("engine", rich_help_panel="Understand")(engine.engine)
app.command("score", rich_help_panel="Trust")(score.score)
app.command("rules", rich_help_panel="Advanced")(check.rules)
app.add_typer(models.app, name="models", rich_help_panel="Data")
app.add_typer(gpus.app, name="gpus", rich_help_panel="Data")


def _version(value: bool) -> None:
    if value:
        from importlib.metadata import version  # noqa: PLC0415 - 20 ms nobody else needs

        typer.echo(f"chunkcalc {version('chunkcalc')}")
        raise typer.Exit


@app.callback()
def _program(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Print the version."),
) -> None:
    """Capacity planner for LLM serving with chunked prefill: which chunk to set, whether TTFT and
    TPOT hold, and what helps if not.

    Exit codes: 0 holds, 1 does not hold, 2 wrong usage or profile, 3 nothing to check, 4 internal error.
    """


def _asked(first: list[str]) -> typer.Typer:
    """The program with the command that is asked for alone: typer builds the options of all it holds."""
    commands = [each for each in app.registered_commands if each.name in first]
    groups = [each for each in app.registered_groups if each.name in first]
    if not commands and not groups:
        return app
    one = typer.Typer(**SETTINGS)
    one.registered_callback = app.registered_callback
    one.registered_commands, one.registered_groups = commands, groups
    return one


def main() -> None:
    """Run the program; every error becomes one sentence on stderr and an exit code."""
    gc.set_threshold(RARELY)
    outlive_readers()
    try:
        _asked(sys.argv[1:2])()
    except ChunkcalcError as error:
        _fail(f"error: {error}", USAGE)
    except OSError as error:
        _fail(f"error: cannot write the answer ({error.strerror})", USAGE)
    except KeyboardInterrupt:
        sys.exit(130)
    except Exception as error:  # the last resort: a traceback helps no user
        _fail(
            f"internal error: {type(error).__name__}: {error}; please report this command line",
            INTERNAL,
        )


def _fail(message: str, code: int) -> None:
    print(message, file=sys.stderr)
    sys.exit(code)


if __name__ == "__main__":
    main()
