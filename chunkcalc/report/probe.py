"""What to run to be certain: as commands to paste, and as chunkcalc.probe/1."""

from __future__ import annotations

import shlex
import textwrap
from collections.abc import Iterator
from typing import Any

from chunkcalc.answer.probing import PREFILL, STEPS, Chosen, Plan, Probe
from chunkcalc.answer.records import Answer
from chunkcalc.engines.dialects import dialect
from chunkcalc.records import Band
from chunkcalc.report.tables import WIDTH
from chunkcalc.units import format_count

SCHEMA = "chunkcalc.probe/1"
NAMES = {"ttft": "TTFT", "tpot": "TPOT", "itl": "the gap"}
LOG = "engine.log"


def text(answer: Answer, found: Probe) -> str:
    """The report of `chunkcalc probe`.

    Parameters
    ----------
    answer : whose limits are in doubt
    found : the runs
    """
    rows = textwrap.wrap(_headline(answer, found), WIDTH)
    for number, each in enumerate(found.chosen, 1):
        rows += [
            "",
            *_wrapped(f"{number}. {_what(each.plan)}, about {_minutes(each.plan.seconds)}"),
        ]
        rows += [f"   {line}" for command in commands(answer, each.plan) for line in _lines(command)]
        rows += _wrapped(f"   then {_bands(each.widths)}; {100 * each.doubt:.0f} % of the limits open", "   ")
    if found.chosen:
        rows += ["", *_wrapped("then", ""), *(f"   {line}" for line in _lines(calibrating(answer, found)))]
        rows += _wrapped("or give single numbers to solve: --measured 'tpot=31ms at users 32, budget 8192'")
    return "\n".join(rows)


def _headline(answer: Answer, found: Probe) -> str:
    verdict = answer.verdict.replace("_", " ").upper()
    if not found.open_limits:
        return f"{verdict}, and no limit lies inside its error band: nothing needs to be measured"
    named = ", ".join(NAMES[name] for name in found.open_limits)
    if not found.chosen:
        return f"{verdict}; inside the error band: {named}, and no short run would settle it"
    return f"{verdict}; inside the error band: {named}. What to run:"


def _minutes(seconds: float) -> str:
    return f"{max(1, round(seconds / 60)):,} min"


def _bands(widths: Band) -> str:
    said = zip(("TPOT", "TTFT", "gap"), widths, strict=True)
    return "bands of " + ", ".join(f"{name} \u00b1{100 * width:.0f} %" for name, width in said)


def _what(plan: Plan) -> str:
    if plan.kind == STEPS:
        return "the engine's own log of steps, under a mixed load"
    if plan.kind == PREFILL:
        return f"prompts alone, at a budget of {format_count(plan.budget)}"
    return f"{plan.users} users" if plan.users > 1 else "one user"


def commands(answer: Answer, plan: Plan) -> Iterator[str]:
    """The server and the benchmark of a run.

    Parameters
    ----------
    answer : for the deployment
    plan : the run
    """
    deployment = answer.case.deployment
    words = dialect(deployment.engine.name)
    model = name_of(answer)
    program, *rest = words.server
    server = [
        *(("python", "-m") if "." in program else ()),
        program,
        *(word for word in words.serve if word not in rest),
        *rest,
        model,
    ]
    flags = list(next(iter(answer.flags.values()), ()))
    if words.budget in flags[:-1]:
        flags[flags.index(words.budget) + 1] = str(plan.budget)
    else:
        flags += [words.budget, str(plan.budget)]
    server += flags
    if plan.kind == STEPS and words.logs_steps.startswith("--"):
        server += [words.logs_steps]
    log = f" > {LOG} 2>&1 &" if plan.kind == STEPS else " &"
    note = (
        f"  # with {words.logs_steps} in its options"
        if plan.kind == STEPS and not words.logs_steps.startswith("--")
        else ""
    )
    yield f"{shlex.join(server)}{log}{note}"
    yield shlex.join([
        *words.bench, "--model", model, "--dataset-name", "random", "--random-input-len", str(answer.workload.prompt),
        "--random-output-len", str(plan.output), "--num-prompts", str(plan.requests), "--max-concurrency",
        str(plan.users), *_saved(words.bench, plan),
    ])  # fmt: skip


def _saved(bench: tuple[str, ...], plan: Plan) -> list[str]:
    name = _result(plan)
    if "sglang.bench_serving" in bench:
        return ["--random-range-ratio", "1", "--output-file", name]
    return ["--ignore-eos", "--save-result", "--result-filename", name]


def _result(plan: Plan) -> str:
    return f"{plan.kind}.{plan.budget}.{plan.users}.json"


def name_of(answer: Answer) -> str:
    """The model as its user calls it."""
    asked = answer.case.question.model
    if isinstance(asked, str) and "/" in asked:
        return asked
    model = answer.case.deployment.model
    return next((alias for alias in model.aliases if "/" in alias), model.id)


def calibrating(answer: Answer, found: Probe) -> str:
    """The command that reads what the runs wrote."""
    deployment = answer.case.deployment
    files = [LOG if each.plan.kind == STEPS else _result(each.plan) for each in found.chosen]
    words = [
        "chunkcalc",
        "calibrate",
        *files,
        "--gpu",
        deployment.hardware.id,
        "--engine",
        deployment.engine.name,
    ]
    words += ["--model", str(deployment.model.id)]
    words += ["--tp", str(deployment.parallelism.tp)] if deployment.parallelism.tp > 1 else []
    return shlex.join([*words, "--budget", str(answer.budget), "-o", "mine.toml"])


def _lines(command: str) -> list[str]:
    lines = textwrap.wrap(command, WIDTH - 8, break_long_words=False, break_on_hyphens=False)
    return [
        f"{'  ' if index else ''}{line}{'' if index == len(lines) - 1 else ' ' + chr(92)}"
        for index, line in enumerate(lines)
    ]


def _wrapped(words: str, indent: str = "") -> list[str]:
    return textwrap.wrap(
        words, WIDTH, subsequent_indent=indent or "   ", break_long_words=False, break_on_hyphens=False
    )


def json(answer: Answer, found: Probe) -> dict[str, Any]:
    """The schema chunkcalc.probe/1.

    Parameters
    ----------
    answer, found : as of `text`
    """
    return {
        "schema": SCHEMA, "verdict": answer.verdict, "doubt": found.doubt, "open_limits": list(found.open_limits),
        "bands": found.widths._asdict(),
        "runs": [_run(answer, each) for each in found.chosen],
        "then": calibrating(answer, found) if found.chosen else None,
    }  # fmt: skip


def _run(answer: Answer, each: Chosen) -> dict[str, Any]:
    plan = each.plan
    return {
        "kind": plan.kind, "budget": plan.budget, "users": plan.users, "requests": plan.requests,
        "seconds": plan.seconds,
        "measures": list(plan.texts), "commands": list(commands(answer, plan)), "doubt_after": each.doubt,
        "bands_after": each.widths._asdict(),
    }  # fmt: skip
