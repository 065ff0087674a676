"""`chunkcalc step-model`: the time of a step as a function that a scheduler can use."""

from __future__ import annotations

from pathlib import Path

import typer

from chunkcalc.cli import options
from chunkcalc.cli.options import OUTPUT, asked
from chunkcalc.cli.output import check_target, show_json, write_whole
from chunkcalc.errors import ChunkcalcError
from chunkcalc.records import EngineName

SCHEMA = "chunkcalc.step-model/1"
SUFFIXES = (".py", ".c", ".json")


def step_model(
    model: str = options.MODEL,
    gpu: str = options.GPU,
    tp: int = options.TP,
    pp: int = options.PP,
    ep: int = options.EP,
    attention_dp: int = options.ATTENTION_DP,
    weights: str = options.WEIGHTS,
    kv: str = options.KV,
    draft_tokens: int = options.DRAFT_TOKENS,
    engine: EngineName = options.ENGINE,
    engine_version: str = options.ENGINE_VERSION,
    link: str = options.LINK,
    gateway: str = options.GATEWAY,
    measured: list[str] = options.MEASURED,
    out: Path = typer.Option(
        None, "--out", "-o", help="Write it: .py, .c or .json. Default: Python on stdout.", rich_help_panel=OUTPUT
    ),
    force: bool = typer.Option(False, "--force", help="Overwrite the file.", rich_help_panel=OUTPUT),
    as_json: bool = typer.Option(False, "--json", help=f"{SCHEMA} on stdout.", rich_help_panel=OUTPUT),
) -> None:
    """The time of a step as a function of its tokens, in Python, C or JSON, and its inverse for a latency limit.

    step_seconds(c, p, b, s): seconds of a step with c prompt tokens after p cached ones and b decodes of mean context
    s on one rank. c_max(p, b, s, limit): the largest chunk within a limit in seconds, so that a scheduler can choose it
    anew in every step.

    Example: chunkcalc step-model --model llama-3.1-70b --gpu h100-sxm --tp 4 --weights fp8 -o step.c
    """
    import json  # noqa: PLC0415 - quick help

    from chunkcalc.answer.resolve import resolve  # noqa: PLC0415
    from chunkcalc.time import written  # noqa: PLC0415
    from chunkcalc.time.step import timer_for  # noqa: PLC0415

    if out is not None:
        if out.suffix.lower() not in SUFFIXES:
            raise ChunkcalcError(f"'{out.name:.60}' ends in none of {', '.join(SUFFIXES)}", "--out", "name it step.py")
        check_target(out, "--out", force=force)
    question = asked(
        model=model, gpu=gpu, tp=tp, pp=pp, ep=ep, attention_dp=attention_dp, weights=weights, kv=kv,
        draft_tokens=draft_tokens, engine=engine, engine_version=engine_version, link=link, gateway=gateway,
        measured=measured or None, prompt="1000", output="2",
    )  # fmt: skip
    case = resolve(question)
    deployment = case.deployment
    timer = timer_for(deployment, draft_tokens)
    about = (
        f"{deployment.model.id}, {deployment.precision.weights} weights, {deployment.precision.kv} KV cache, on "
        f"{deployment.parallelism.gpus} x {deployment.hardware.id}",
        f"under {deployment.engine.name} {deployment.engine.version}, as chunkcalc predicts it.",
    )
    body, result = written.lines(timer)
    document = {
        "schema": SCHEMA, "model": deployment.model.id, "gpu": deployment.hardware.id,
        "gpus": deployment.parallelism.gpus, "engine": deployment.engine.name, "version": deployment.engine.version,
        "arguments": list(written.ARGUMENTS), "lines": [list(line) for line in body], "result": result,
    }  # fmt: skip
    if as_json:
        show_json(document)
        return
    kind = out.suffix.lower() if out is not None else ".py"
    text = json.dumps(document, indent=2) + "\n" if kind == ".json" else (
        written.c(timer, about) if kind == ".c" else written.python(timer, about))  # fmt: skip
    if out is None:
        print(text, end="")
    else:
        write_whole(out, text, "--out")
