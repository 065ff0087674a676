"""`chunkcalc check` and `chunkcalc rules`: the gate on deployment files."""

from __future__ import annotations

import enum
import os
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from chunkcalc.cli.options import OUTPUT
from chunkcalc.cli.output import FAILS, HOLDS, NOTHING, USAGE, whole_file, write_whole
from chunkcalc.cli.progress import progress
from chunkcalc.errors import ChunkcalcError

if TYPE_CHECKING:
    from chunkcalc.gate.check import Options, Report
    from chunkcalc.gate.compare import Row

MOST_VALUE = 4_000  # characters of a variable
MAX_STDIN = 16 * 2**20 + 1


class FailOn(enum.StrEnum):
    """Level from which a finding fails the gate."""

    error = "error"
    warning = "warning"
    never = "never"


class Unknown(enum.StrEnum):
    """What to do with deployments that cannot be evaluated."""

    warn = "warn"
    fail = "fail"
    ignore = "ignore"


# Groups of the help page.
LIMITS = "Limits and workload, per replica (over what files state)"
FACTS, POLICY = "Facts", "Policy"


def check(
    paths: list[str] = typer.Argument(None, help="Files, folders, globs, or - for stdin.", metavar="PATH..."),
    ttft: str = typer.Option(None, help="Limit of the time to first token, such as 2s.", rich_help_panel=LIMITS),
    tpot: str = typer.Option(None, help="Limit of the time per output token, such as 50ms.", rich_help_panel=LIMITS),
    itl: str = typer.Option(None, help="Limit of the longest gap between two tokens.", rich_help_panel=LIMITS),
    tpot_basis: str = typer.Option(None, help="Deprecated: mean is --itl none.", rich_help_panel=LIMITS),
    prompt: str = typer.Option(None, "--prompt", "--isl", help="Prompt tokens.", rich_help_panel=LIMITS),
    prompt_p95: str = typer.Option(None, help="95th percentile of the prompt tokens.", rich_help_panel=LIMITS),
    output: str = typer.Option(None, "--output", "--osl", help="Output tokens.", rich_help_panel=LIMITS),
    concurrency: str = typer.Option(
        None,
        "--concurrency",
        "--batch",
        help="Requests that decode at once: the batch of solve.",
        rich_help_panel=LIMITS,
    ),
    rate: str = typer.Option(None, help="Requests per second.", rich_help_panel=LIMITS),
    percentile: str = typer.Option(
        None,
        help="Of TTFT that --ttft limits with a rate: mean, 50, 90, 95 or 99. Default: 95.",
        rich_help_panel=LIMITS,
    ),
    prefix_hit: str = typer.Option(None, help="Share of the prompt in the prefix cache.", rich_help_panel=LIMITS),
    prefix_shared: str = typer.Option(
        None, help="Whether that is one prefix of all requests: yes or no. Default: yes.", rich_help_panel=LIMITS
    ),
    max_utilisation: str = typer.Option(
        None, help="Highest share of the capacity for prompts. Default: 0.85.", rich_help_panel=LIMITS
    ),
    gateway: str = typer.Option(
        None, help="What stands before the engine adds, such as 1.9ms/step,20ms/request.", rich_help_panel=FACTS
    ),
    measured: list[str] = typer.Option(
        None,
        metavar="NUMBER",
        help="What you measured, such as 'tpot=31ms at batch 32'; may be repeated.",
        rich_help_panel=FACTS,
    ),
    gpu: str = typer.Option(None, help="GPU of deployments that name none.", rich_help_panel=FACTS),
    force_gpu: bool = typer.Option(
        False, "--force-gpu", help="--gpu counts over what files name.", rich_help_panel=FACTS
    ),
    model: str = typer.Option(None, help="Model where the file leaves it open.", rich_help_panel=FACTS),
    engine_version: str = typer.Option(None, help="Version where the file leaves it open.", rich_help_panel=FACTS),
    given: list[str] = typer.Option(
        None,
        "--set",
        metavar="NAME=VALUE",
        help="A variable that files take from their environment or a template; may be repeated.",
        rich_help_panel=FACTS,
    ),
    config: Path = typer.Option(
        None, help="Configuration for all. Default: the nearest chunkcalc.toml upwards.", rich_help_panel=FACTS
    ),
    formats: list[str] = typer.Option(
        None,
        "--format",
        metavar="NAME[=FILE]",
        rich_help_panel=OUTPUT,
        help="text, json, markdown, github, sarif, junit or gitlab; may be repeated. Default: text.",
    ),
    as_json: bool = typer.Option(False, "--json", help="chunkcalc.check/2 on stdout.", rich_help_panel=OUTPUT),
    verbose: bool = typer.Option(False, "--verbose", help="Settings and notes in text.", rich_help_panel=OUTPUT),
    diff: str = typer.Option(
        None, help="Compare with a folder or git revision: before -> after.", metavar="BASE", rich_help_panel=OUTPUT
    ),
    fail_on: FailOn = typer.Option(FailOn.error, help="Level that fails.", rich_help_panel=POLICY),
    unknown: Unknown = typer.Option(Unknown.warn, help="What cannot be evaluated.", rich_help_panel=POLICY),
    fix: bool = typer.Option(False, "--fix", help="Write the fixes that are certain.", rich_help_panel=POLICY),
    fix_all: bool = typer.Option(False, "--fix-all", help="Write those of estimates, too.", rich_help_panel=POLICY),
    no_waivers: bool = typer.Option(False, "--no-waivers", help="Count what is waived, too.", rich_help_panel=POLICY),
    baseline: Path = typer.Option(None, help="Count new and worse findings only.", rich_help_panel=POLICY),
    write_baseline: Path = typer.Option(None, help="Write the findings as a baseline.", rich_help_panel=POLICY),
    allow_empty: bool = typer.Option(
        False, "--allow-empty", help="No deployment found is fine.", rich_help_panel=POLICY
    ),
) -> None:
    """Check deployment files: what the engine does with their flags, and whether the limits hold.

    Limits, load and facts also come from annotations (chunkcalc/ttft: 2s), comments
    (# chunkcalc: gpu=h100 ttft=2s) and chunkcalc.toml; see docs/gate.md.

    Exit codes: 0 passes, 1 fails, 2 wrong usage or a file that cannot be parsed, 3 no deployment in any file.

    Example: chunkcalc check deploy/ --gpu h100 --prompt 4k --output 500 --concurrency 64 --ttft 2s --tpot 50ms
    """
    from chunkcalc.gate.check import Options, repository  # noqa: PLC0415 - the other commands need none of it
    from chunkcalc.gate.check import check as run  # noqa: PLC0415
    from chunkcalc.gate.settings import Settings, parsed  # noqa: PLC0415

    if not paths:
        raise ChunkcalcError("no files are named", "PATH", "give files, folders, globs, or - for stdin")
    wanted = _formats(formats or [], as_json)
    stated = {
        "ttft": ttft, "tpot": tpot, "itl": itl, "tpot-basis": tpot_basis, "prompt": prompt, "prompt-p95": prompt_p95,
        "output": output, "concurrency": concurrency, "rate": rate, "percentile": percentile,
        "prefix-hit": prefix_hit, "prefix-shared": prefix_shared,
        "max-utilisation": max_utilisation, "gpu": gpu, "model": model, "engine-version": engine_version,
        "gateway": gateway, "measured": measured or None,
    }  # fmt: skip
    settings = Settings(parsed(stated, "command line", "command line"))
    _must_load(gpu, model, engine_version)
    if config is not None and not config.is_file():
        raise ChunkcalcError(f"'{config}' is not a file", "--config", "give a chunkcalc.toml")
    options = Options(
        paths=tuple(paths), root=repository(paths), settings=settings, config=config, waivers=not no_waivers,
        given=_variables(given or []), force_gpu=_forced(force_gpu, gpu),
    )  # fmt: skip
    if fix or fix_all:
        _fix(options, fix_all)
    with progress("checking") as told:
        report = run(options, lambda: sys.stdin.buffer.read(MAX_STDIN), told)
    rows = _changes(diff, options, report) if diff is not None else None
    report = _known(report, baseline, write_baseline)
    for name, path in wanted:
        text = _rendered(name, report, unknown.value, rows, verbose)
        if path is None:
            sys.stdout.write(text)
        else:
            write_whole(path, text, f"--format {name}")
    if (
        len(report.skipped) == len(report.deployments)
        and not allow_empty
        and not report.fails(fail_on.value, unknown.value)
    ):
        print("no deployment was found in any file", file=sys.stderr)
        raise typer.Exit(NOTHING)
    if report.fails(fail_on.value, unknown.value):
        raise typer.Exit(FAILS)
    raise typer.Exit(USAGE if report.broken and unknown is not Unknown.ignore else HOLDS)


def _fix(options: Options, every: bool) -> None:
    """Write fixes into the files, and say which."""
    from chunkcalc.gate.rewriting import fix  # noqa: PLC0415

    written = 0
    for fixed in fix(options, every):
        with whole_file(fixed.path.resolve(), "--fix", binary=True) as file:
            file.write(fixed.data)
        for change in fixed.changes:
            print(f"{change.file}:{change.line}: {change.flag} {change.before} -> {change.after}", file=sys.stderr)
        written += len(fixed.changes)
    print(f"{written} values written; fixes of the report below are left to you", file=sys.stderr)


def _variables(given: list[str]) -> dict[str, str]:
    """`--set NAME=VALUE`."""
    out = {}
    for entry in given:
        name, equals, value = entry.partition("=")
        if not equals or not re.fullmatch(r"[A-Za-z_][\w.-]{0,99}", name) or "\n" in value or len(value) > MOST_VALUE:
            raise ChunkcalcError(f"'{entry:.60}' sets no variable", "--set", "write NAME=VALUE, as in MODEL=qwen3-8b")
        out[name] = value
    return out


def _forced(force: bool, gpu: str | None) -> bool:
    if force and not gpu:
        raise ChunkcalcError("forces no GPU", "--force-gpu", "name one with --gpu")
    return force


def _changes(base: str, options: Options, report: Report) -> list[Row]:
    from chunkcalc.gate.compare import base_report, compare  # noqa: PLC0415

    return compare(base_report(base, options), report)


def _known(report: Report, path: Path | None, write: Path | None) -> Report:
    """Mark what the baseline knows; write the findings as a new one."""
    if path is None and write is None:
        return report
    from chunkcalc.gate import baseline  # noqa: PLC0415

    if write is not None:
        write_whole(write, baseline.written(report.findings), "--write-baseline")
    return report if path is None else replace(report, findings=tuple(baseline.known(report.findings, path)))


def _must_load(gpu: str | None, model: str | None, version: str | None) -> None:
    """A wrong name on the command line is wrong usage, not something unknown in a file."""
    from chunkcalc.catalog.lookup import load_hardware, load_model  # noqa: PLC0415
    from chunkcalc.engines.tables import table  # noqa: PLC0415

    if gpu:
        load_hardware(gpu)
    if model:
        load_model(model)
    if version:
        table("vllm", version, "--engine-version")


def _formats(named: list[str], as_json: bool) -> list[tuple[str, Path | None]]:
    """Formats and their files; at most one of them to stdout."""
    known = ("text", "json", "markdown", "github", "sarif", "junit", "gitlab")
    out: list[tuple[str, Path | None]] = [("json", None)] if as_json else []
    for entry in named:
        name, equals, path = entry.partition("=")
        if name not in known or (equals and not path):
            raise ChunkcalcError(f"'{entry:.60}' is no format", "--format", f"choose from {', '.join(known)}")
        out.append((name, Path(path) if path else None))
    if not named and not as_json:
        out = [("github" if os.environ.get("GITHUB_ACTIONS") == "true" else "text", None)]
    if sum(1 for _, path in out if path is None) > 1:
        raise ChunkcalcError("two formats go to stdout", "--format", "give all but one a file, as in sarif=out.sarif")
    files = [path for _, path in out if path is not None]
    if len(set(files)) < len(files):
        raise ChunkcalcError("two formats go to one file", "--format", "give each a file of its own")
    return out


def _rendered(name: str, report: Report, policy: Any, rows: Any, verbose: bool) -> str:
    """A report in one format; GitHub gets the summary of the step as well."""
    from importlib import import_module  # noqa: PLC0415

    render = import_module(f"chunkcalc.report.gate.{name}").render
    if name == "json":
        return str(render(report, rows))
    if name == "text":
        return str(render(report, rows, verbose=verbose))
    if name == "markdown":
        return str(render(report, policy, rows))
    if name == "github" and os.environ.get("GITHUB_STEP_SUMMARY"):
        _step_summary(_rendered("markdown", report, policy, rows, verbose))
    return str(render(report, policy))


def _step_summary(text: str) -> None:
    try:
        with Path(os.environ["GITHUB_STEP_SUMMARY"]).open("a", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        print(f"the step summary cannot be written ({error.strerror})", file=sys.stderr)


def rules(
    name: str = typer.Argument(None, help="A rule, such as CC301. Default: all.", metavar="[ID]"),
    as_json: bool = typer.Option(False, "--json", help="chunkcalc.rules/1 on stdout."),
) -> None:
    """The rules of check: what each finds, why, and what to do.

    Example: chunkcalc rules CC301
    """
    from chunkcalc.gate.catalogue import rule  # noqa: PLC0415
    from chunkcalc.gate.catalogue import rules as every  # noqa: PLC0415
    from chunkcalc.report.gate import catalogue  # noqa: PLC0415

    chosen = every() if name is None else (rule(name),)
    if as_json:
        sys.stdout.write(catalogue.as_json(chosen))
    else:
        sys.stdout.write(catalogue.table(chosen) if name is None else catalogue.page(chosen[0]))
