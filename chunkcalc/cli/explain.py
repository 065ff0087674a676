"""`chunkcalc explain`: the derivation of an answer."""

from __future__ import annotations

import typer

from chunkcalc.cli import options
from chunkcalc.cli.options import OUTPUT, Basis, asked
from chunkcalc.cli.output import HOLDS, show, show_json
from chunkcalc.errors import ChunkcalcError
from chunkcalc.records import EngineName


def explain(
    model: str = options.MODEL,
    gpu: str = options.GPU,
    prompt: str = options.PROMPT,
    output: str = options.OUTPUT_TOKENS,
    batch: str = options.BATCH,
    context: str = options.CONTEXT,
    prefix_hit: str = options.PREFIX_HIT,
    prefix_shared: bool = options.PREFIX_SHARED,
    ttft: str = options.TTFT,
    tpot: str = options.TPOT,
    itl: str = options.ITL,
    tpot_basis: Basis = options.TPOT_BASIS,
    max_utilisation: str = options.MAX_UTILISATION,
    tp: int = options.TP,
    pp: int = options.PP,
    ep: int = options.EP,
    attention_dp: int = options.ATTENTION_DP,
    weights: str = options.WEIGHTS,
    kv: str = options.KV,
    draft_tokens: int = options.DRAFT_TOKENS,
    draft_acceptance: str = options.DRAFT_ACCEPTANCE,
    engine: EngineName = options.ENGINE,
    engine_version: str = options.ENGINE_VERSION,
    enable_mixed_chunk: bool = options.MIXED_CHUNK,
    prefill_decode_interval: int = options.INTERVAL,
    link: str = options.LINK,
    gateway: str = options.GATEWAY,
    measured: list[str] = options.MEASURED,
    memory_fraction: str = options.MEMORY_FRACTION,
    chunk: str = options.CHUNK,
    budget: str = options.BUDGET,
    equation: str = typer.Option(None, help="Only this one, such as E6.", rich_help_panel=OUTPUT),
    markdown: bool = typer.Option(False, "--markdown", help="As Markdown.", rich_help_panel=OUTPUT),
    latex: bool = typer.Option(False, "--latex", help="As a LaTeX document.", rich_help_panel=OUTPUT),
    as_json: bool = typer.Option(False, "--json", help="chunkcalc.explain/2 on stdout.", rich_help_panel=OUTPUT),
) -> None:
    """The derivation with your numbers: every equation, what the textbook leaves out, what moves the window.

    Example: chunkcalc explain --model llama-3.1-8b --gpu h100-sxm --prompt 4k --batch 32 --ttft 1s --tpot 30ms
    """
    if markdown + latex + as_json > 1:
        raise ChunkcalcError("several formats", "--markdown, --latex, --json", "give one of them")
    from chunkcalc.answer.solve import answer  # noqa: PLC0415
    from chunkcalc.derivation.derive import explain as derive  # noqa: PLC0415 - quick help: sympy takes most of a second
    from chunkcalc.derivation.derive import single  # noqa: PLC0415
    from chunkcalc.report import derivation  # noqa: PLC0415
    from chunkcalc.report import explain as report  # noqa: PLC0415

    question = asked(
        model=model, gpu=gpu, tp=tp, pp=pp, ep=ep, attention_dp=attention_dp, weights=weights, kv=kv,
        draft_tokens=draft_tokens, draft_acceptance=draft_acceptance, engine=engine, engine_version=engine_version,
        enable_mixed_chunk=enable_mixed_chunk, prefill_decode_interval=prefill_decode_interval,
        memory_fraction=memory_fraction, link=link, gateway=gateway,
        measured=measured or None, prompt=prompt,
        output=output, batch=batch, context=context,
        prefix_hit=prefix_hit, prefix_shared=prefix_shared, ttft=ttft, tpot=tpot, itl=itl,
        tpot_basis=tpot_basis, max_utilisation=max_utilisation, chunk=chunk, budget=budget,
    )  # fmt: skip
    solved = answer(question, with_remedies=False)
    if equation is not None:
        shown = single(solved, equation)
        if as_json:
            show_json({"schema": report.SCHEMA, "equations": [report.json_equation(shown)]})
        elif latex:
            print(derivation.latex_equation(shown))
        elif markdown:
            print(derivation.markdown_equation(shown))
        else:
            show(report.equation(shown))
        raise typer.Exit(HOLDS)
    found = derive(solved)
    if as_json:
        show_json(report.json(found))
    elif latex:
        print(derivation.latex(found), end="")
    elif markdown:
        print(derivation.markdown(found), end="")
    else:
        show(report.text(found))
    raise typer.Exit(HOLDS)
