"""`chunkcalc observe`: a running server, judged from its own metrics."""

from __future__ import annotations

import shlex
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from chunkcalc import units
from chunkcalc.cli import options
from chunkcalc.cli.options import DEPLOYMENT, OUTPUT, WORKLOAD
from chunkcalc.cli.output import FAILS, HOLDS, show_json
from chunkcalc.errors import ChunkcalcError

if TYPE_CHECKING:  # quick help
    from chunkcalc.gate.check import Report
    from chunkcalc.gate.deployed import Deployed
    from chunkcalc.measurements.metrics import Page
    from chunkcalc.scoring.observed import Load, Observed

FAR_TOKENS = 0.1  # by which the KV cache of a start-up log may differ before it is worth a word
SINGLE = "observe"  # where errors about the pages stand


def observe(
    sources: list[str] = typer.Argument(
        ...,
        metavar="PAGE [PAGE] [LOG] [-- COMMAND]",
        help="Metrics page (file, - or an http address), a later one, a start-up log; the server's command after --.",
    ),
    config: Path = typer.Option(None, help="Deployment file of the server.", rich_help_panel=DEPLOYMENT),
    gpu: str = typer.Option(None, help="Id, product name, or path to a profile.", rich_help_panel=DEPLOYMENT),
    model: str = typer.Option(None, help="What the model is, where its name is a path.", rich_help_panel=DEPLOYMENT),
    engine_version: str = typer.Option(None, help="Version of the engine.", rich_help_panel=DEPLOYMENT),
    gateway: str = options.GATEWAY,
    measured: list[str] = options.MEASURED,
    apart: str = typer.Option(
        None, help="Time between two pages; an address is asked twice.", rich_help_panel=WORKLOAD
    ),
    rate: str = typer.Option(
        None,
        help="Requests that arrive per second, whoever waits. Default: users that each wait for an answer.",
        rich_help_panel=WORKLOAD,
    ),
    concurrency: str = typer.Option(None, help="Users at once. Default: as the pages tell.", rich_help_panel=WORKLOAD),
    ttft: str = options.TTFT,
    tpot: str = options.TPOT,
    itl: str = options.ITL,
    as_json: bool = typer.Option(False, "--json", help="chunkcalc.observe/1 on stdout.", rich_help_panel=OUTPUT),
) -> None:
    """Judge a running vLLM or SGLang by its metrics page: the load, predicted against measured, what to change.

    Exit code 1 where the limits fail under the load that was seen, 2 where there is nothing to judge.

    Example: chunkcalc observe metrics.txt --config deploy.yaml --gpu h100 --ttft 2s
    """
    from chunkcalc.report import observed as report  # noqa: PLC0415
    from chunkcalc.scoring import observed as scoring  # noqa: PLC0415

    names, command = _split(sources)
    seconds = units.parse_duration(apart, "--apart") if apart else None
    page, log = _pages(names, seconds)
    load = scoring.load_of(page, seconds, SINGLE)
    if rate is not None:
        load = load._replace(rate=units.parse_number(rate, "--rate"), arrivals=True)
    if concurrency is not None:
        load = load._replace(users=units.parse_count(concurrency, "--concurrency"))
    limits = {"ttft": ttft, "tpot": tpot, "itl": itl}
    facts = {"gpu": gpu, "model": model, "engine-version": engine_version or log.get("engine_version"),
             "gateway": gateway, "measured": measured or None}  # fmt: skip
    checked = _checked(config, command, load, {**limits, **facts})
    deployment = None if checked is None else checked.deployments[0]
    findings = [] if checked is None else checked.counting()
    found = _compared(page, load, deployment)
    told = _start_up(page, log, deployment)
    if as_json:
        show_json(report.json(found, deployment, findings, told))
    else:
        print(report.text(found, deployment, findings, told))
    raise typer.Exit(FAILS if checked is not None and checked.fails("error", "ignore") else HOLDS)


def _split(sources: list[str]) -> tuple[list[str], list[str]]:
    """Pages and logs, and the command of the server: what begins with the name of an engine's program."""
    from chunkcalc.engines.dialects import dialect  # noqa: PLC0415
    from chunkcalc.records import ENGINE_NAMES  # noqa: PLC0415

    programs = {dialect(name).server[0] for name in ENGINE_NAMES} | {"python", "python3"}
    start = next((index for index, word in enumerate(sources) if index and word in programs), len(sources))
    return sources[:start], sources[start:]


def _pages(names: list[str], seconds: float | None) -> tuple[Page, dict[str, Any]]:
    """What happened on the page, or between two, and what the start-up logs say."""
    from chunkcalc.cli.fetch import is_address, shown, text_of  # noqa: PLC0415
    from chunkcalc.measurements.logs import is_log, read_log  # noqa: PLC0415
    from chunkcalc.measurements.metrics import between, parse_page  # noqa: PLC0415

    pages: list[tuple[str, Page]] = []
    log: dict[str, Any] = {}
    for name in names:
        text = text_of(name)
        if is_log(text) and "# TYPE" not in text:
            log |= dict(read_log(text, shown(name), {"gpu": "-", "model": "-"}).launch)
        else:
            pages.append((name, parse_page(text, shown(name))))
    if len(pages) == 1 and seconds and is_address(pages[0][0]):
        time.sleep(seconds)
        pages.append((pages[0][0], parse_page(text_of(pages[0][0]), shown(pages[0][0]))))
    if not pages or len(pages) > 2:
        raise ChunkcalcError(f"{len(pages)} metrics pages were given", SINGLE, "give one, or two of one server")
    if len(pages) == 1 and seconds:
        raise ChunkcalcError("a time between two pages needs two", "--apart", "give a second page, or an address")
    last, page = pages[-1]
    return (between(pages[0][1], page, shown(last)) if len(pages) == 2 else page), log


def _checked(config: Path | None, command: list[str], load: Load, given: dict[str, Any]) -> Report | None:
    """The deployment as described, checked under the load that was seen."""
    from chunkcalc.gate.check import Options, check, repository  # noqa: PLC0415
    from chunkcalc.gate.settings import Settings, parsed  # noqa: PLC0415

    if config is None and not command:
        return None
    if config is not None and command:
        raise ChunkcalcError("a file and a command both describe the server", "--config", "give one of the two")
    given |= {"prompt": str(max(1, round(load.prompt))), "output": str(max(2, round(load.output)))}
    if load.prefix_hit:
        given["prefix-hit"] = f"{min(0.999, load.prefix_hit):.4f}"
    if load.arrivals:
        given["rate"] = f"{load.rate:.6f}"
    elif load.batch is not None:
        given["concurrency"] = str(load.batch)
    paths = ["-"] if config is None else [str(config)]
    settings = Settings(parsed(given, "command line", "command line"))
    options = Options(paths=tuple(paths), root=repository(paths), settings=settings, waivers=False)
    found = check(options, f"#!/bin/sh\n{shlex.join(command)}\n".encode)
    if not found.deployments:
        raise ChunkcalcError(
            "starts no engine that is known", "--config" if config else "--", "name what starts the server"
        )
    return found


def _compared(page: Page, load: Load, deployment: Deployed | None) -> Observed:
    from chunkcalc.scoring.observed import compared, predicted  # noqa: PLC0415

    if deployment is None or deployment.answer is None or deployment.effective is None:
        return compared(page, load, {}, None)
    effective, answer = deployment.effective, deployment.answer
    if effective.budget is None or effective.max_num_seqs is None:
        return compared(page, load, {}, None)
    found = predicted(answer.case, load, effective.budget, effective.max_num_seqs)
    return compared(page, load, found, answer.error)


def _start_up(page: Page, log: dict[str, Any], deployment: Deployed | None) -> list[str]:
    """The size of the KV cache as the server has it, against what is predicted."""
    held = log.get("kv_tokens") or page.kv_tokens
    if not held or deployment is None or not deployment.kv_tokens:
        return []
    off = deployment.kv_tokens / held - 1
    if abs(off) < FAR_TOKENS:
        return []
    return [
        f"KV cache of {held:,} tokens, predicted {deployment.kv_tokens:,} ({off:+.0%}); --measured 'kv={held} tokens'"
    ]
