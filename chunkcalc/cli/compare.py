"""`chunkcalc compare`: two or more deployments side by side, and what makes the difference."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from chunkcalc.cli.options import OUTPUT, asked, percentile_of
from chunkcalc.cli.output import FAILS, HOLDS, show_json
from chunkcalc.errors import ChunkcalcError

if TYPE_CHECKING:
    from chunkcalc.report.compare import Compared

MOST = 6  # that stand side by side
CONTEXT = {"allow_extra_args": True, "ignore_unknown_options": True}
_OWN = ("no_remedies", "strict", "verbose", "as_json", "attainment")


def compare(
    context: typer.Context,
    price: list[str] = typer.Option(
        None, help="Per GPU and hour, as h100-sxm=2.5,b200=5 or one for all.", rich_help_panel=OUTPUT
    ),
    markdown: bool = typer.Option(False, "--markdown", help="A table for a pull request.", rich_help_panel=OUTPUT),
    as_json: bool = typer.Option(False, "--json", help="chunkcalc.compare/1 on stdout.", rich_help_panel=OUTPUT),
) -> None:
    """Two or more deployments side by side: verdicts, numbers, difference, and the term that makes it.

    Each is the options of solve in quotes, or a deployment file that check reads; options outside the quotes hold for
    all. Exit code 1 when one of them does not keep the limits.

    Example: chunkcalc compare "--gpu h100 --tp 4" "--gpu b200 --tp 2" --model qwen3-32b --rate 4 --prompt 4k --ttft 1s
    """
    from chunkcalc.report import compare as report  # noqa: PLC0415 - quick help

    sides, shared = _taken_apart(context.args)
    if not 2 <= len(sides) <= MOST:
        hint = f'give two to {MOST}, each in quotes: "--gpu h100 --tp 4" "--gpu b200 --tp 2"'
        raise ChunkcalcError(f"{len(sides)} deployments to compare", "compare", hint)
    found = [each for side in sides for each in _of(side, shared)]
    if len(found) > MOST:
        hint = f"name files with fewer: {', '.join(each.name for each in found[:MOST])}, ..."
        raise ChunkcalcError(f"{len(found)} deployments, of at most {MOST}", "compare", hint)
    found = _priced(found, price or [])
    if as_json:
        show_json(report.json(found))
    elif markdown:
        sys.stdout.write(report.markdown(found))
    else:
        print(report.text(found))
    raise typer.Exit(HOLDS if all(each.answer.holds for each in found) else FAILS)


def _taken_apart(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """The sides, which are files or options in quotes, and the options that all share."""
    sides: list[str] = []
    shared: list[str] = []
    valued = False
    for word in words:
        option = word.startswith("-") and " " not in word.strip()
        (shared if option or (valued and not word.startswith("-")) else sides).append(word)
        valued = option and "=" not in word
    return sides, shared


def _of(side: str, shared: Sequence[str]) -> list[Compared]:
    if not side.lstrip().startswith("-"):
        if not Path(side).is_file():
            hint = "name a file, or write options of solve in quotes"
            raise ChunkcalcError("is no file and no options", f"'{side:.60}'", hint)
        return _of_file(side, shared)
    from chunkcalc.answer.solve import answer  # noqa: PLC0415
    from chunkcalc.report.compare import Compared  # noqa: PLC0415

    try:
        words = shlex.split(side)
    except ValueError as error:
        raise ChunkcalcError(f"'{side:.60}' cannot be taken apart ({error})", "compare", "check its quotes") from None
    question = asked(**_parameters([*shared, *words], side))
    return [Compared(side, answer(question, with_remedies=False))]


def _parameters(words: Sequence[str], side: str) -> dict[str, Any]:
    """The options of `solve`, parsed by its own command."""
    from chunkcalc.cli.solve import solve  # noqa: PLC0415

    app = typer.Typer(pretty_exceptions_enable=False)
    app.command()(solve)
    try:
        found = typer.main.get_command(app).make_context("solve", list(words)).params
    except Exception as error:
        told = getattr(error, "format_message", None)  # of every kind of wrong usage
        if told is None:
            raise
        raise ChunkcalcError(told().rstrip("."), f"'{side:.60}'", "write the options of solve") from None
    given: dict[str, Any] = {name: value for name, value in found.items() if name not in _OWN}
    given["percentile"] = percentile_of(found.get("percentile"), found.get("attainment"))
    given["measured"] = given.get("measured") or None
    return given


def _of_file(path: str, shared: Sequence[str]) -> list[Compared]:
    """The deployments of a file, at the load and limits that are shared."""
    from chunkcalc.gate.check import Options, check, repository  # noqa: PLC0415
    from chunkcalc.gate.settings import Settings, parsed  # noqa: PLC0415
    from chunkcalc.report.compare import Compared  # noqa: PLC0415

    settings = Settings(parsed(_settings(shared), "command line", "command line"))
    report = check(Options(paths=(path,), root=repository((path,)), settings=settings), lambda: b"")
    seen = [each for each in report.deployments if each.answer is not None]
    for each in report.deployments:
        if seen and each.answer is None:
            why = "; ".join(each.missing) or "nothing is asked of it"
            typer.echo(f"left out: {path}:{each.line} {each.name}: {why}", err=True)
    if not seen:
        missing = next((why for each in report.deployments for why in each.missing), "no deployment was found in it")
        hint = "" if any(each.missing for each in report.deployments) else "add --gpu, --prompt and --rate"
        raise ChunkcalcError(f"has nothing to compare: {missing}", path, hint)
    several = len(seen) > 1
    return [
        Compared(f"{path} {each.name}" if several else path, each.answer) for each in seen if each.answer is not None
    ]


def _settings(shared: Sequence[str]) -> Mapping[str, str]:
    """Shared options as the settings of `check`."""
    out: dict[str, str] = {}
    words = list(shared)
    while words:
        flag, equals, value = words.pop(0).partition("=")
        if not equals:
            value = words.pop(0) if words and not words[0].startswith("-") else "yes"
        out[flag.lstrip("-")] = value
    return out


def _priced(found: list[Compared], given: Sequence[str]) -> list[Compared]:
    """Each with what it costs per hour."""
    if not given:
        return found
    from chunkcalc.sizing.money import prices  # noqa: PLC0415

    gpus = list(dict.fromkeys(each.answer.case.deployment.hardware.id for each in found))
    known = dict(prices(gpus, given))
    out = []
    for each in found:
        deployment = each.answer.case.deployment
        price = known[deployment.hardware.id]
        out.append(each._replace(price=None if price is None else price * deployment.parallelism.gpus))
    return out
