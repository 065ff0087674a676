"""`chunkcalc probe`: what to run to be certain."""

from __future__ import annotations

import typer

from chunkcalc.cli import options
from chunkcalc.cli.options import OUTPUT, asked
from chunkcalc.cli.output import FAILS, HOLDS, show_json
from chunkcalc.records import EngineName


def probe(
    model: str = options.MODEL,
    gpu: str = options.GPU,
    prompt: str = options.PROMPT,
    output: str = options.OUTPUT_TOKENS,
    batch: str = options.BATCH,
    ttft: str = options.TTFT,
    tpot: str = options.TPOT,
    itl: str = options.ITL,
    tp: int = options.TP,
    pp: int = options.PP,
    ep: int = options.EP,
    attention_dp: int = options.ATTENTION_DP,
    weights: str = options.WEIGHTS,
    kv: str = options.KV,
    engine: EngineName = options.ENGINE,
    engine_version: str = options.ENGINE_VERSION,
    link: str = options.LINK,
    gateway: str = options.GATEWAY,
    measured: list[str] = options.MEASURED,
    memory_fraction: str = options.MEMORY_FRACTION,
    budget: str = options.BUDGET,
    as_json: bool = typer.Option(False, "--json", help="chunkcalc.probe/1 on stdout.", rich_help_panel=OUTPUT),
) -> None:
    """The two to four short runs that are expected to settle the limits of an answer, as commands to paste.

    Exit code 0 where nothing is open, 1 where a limit lies inside its error band.

    Example: chunkcalc probe --model llama-3.1-70b --gpu h100-sxm --tp 4 --prompt 8k --batch 32 --ttft 2s --tpot 40ms
    """
    from chunkcalc.answer.judged import outlook  # noqa: PLC0415 - quick help
    from chunkcalc.answer.probing import probe as find  # noqa: PLC0415
    from chunkcalc.answer.solve import answer  # noqa: PLC0415
    from chunkcalc.errors import ChunkcalcError  # noqa: PLC0415
    from chunkcalc.report import probe as report  # noqa: PLC0415

    question = asked(
        model=model, gpu=gpu, prompt=prompt, output=output, batch=batch, ttft=ttft, tpot=tpot, itl=itl, tp=tp, pp=pp,
        ep=ep, attention_dp=attention_dp, weights=weights, kv=kv, engine=engine, engine_version=engine_version,
        link=link, gateway=gateway, measured=measured or None, memory_fraction=memory_fraction, budget=budget,
    )  # fmt: skip
    if not (ttft or tpot or itl):
        raise ChunkcalcError(
            "needs a limit", "--ttft", "give --ttft, --tpot or both: a probe settles whether they hold"
        )
    solved = answer(question, with_remedies=False)
    found = find(solved, outlook(solved.case.deployment, solved.workload, solved.slo))
    if as_json:
        show_json(report.json(solved, found))
    else:
        print(report.text(solved, found))
    raise typer.Exit(FAILS if found.open_limits else HOLDS)
