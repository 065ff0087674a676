"""`chunkcalc sweep`: every chunk, batch and context of one deployment or many."""

from __future__ import annotations

import enum
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from chunkcalc.answer.question import Question
from chunkcalc.answer.resolve import Case
from chunkcalc.cli import options
from chunkcalc.cli.options import DEPLOYMENT, OUTPUT, WORKLOAD, Basis, asked
from chunkcalc.cli.output import HOLDS, check_target, show, show_json, whole_file
from chunkcalc.cli.progress import progress
from chunkcalc.errors import ChunkcalcError
from chunkcalc.grids.grids import parse_values
from chunkcalc.records import EngineName

if TYPE_CHECKING:  # a quick --help
    from chunkcalc.grids.points import Point
    from chunkcalc.report.sweep import Strip

MOST_POINTS = 2_000_000
ALL_CHUNKS, ONE_BATCH = "128:16384", "32"  # where none are named
MOST_SHOWN = 20_000  # points that --json puts into one document


class Kind(enum.StrEnum):
    """Pictures."""

    window = "window"
    region = "region"
    roofline = "roofline"
    breakdown = "breakdown"


def sweep(
    model: str = options.MODEL,
    gpu: str = typer.Option(..., help="Ids with commas between them, or all.", rich_help_panel=DEPLOYMENT),
    tp: str = typer.Option("1", help="Tensor parallel degrees, such as 1,2,4,8.", rich_help_panel=DEPLOYMENT),
    pp: int = options.PP,
    prompt: str = options.PROMPT,
    output: str = options.OUTPUT_TOKENS,
    chunk: str = typer.Option(
        ALL_CHUNKS, help="Chunks: values, low:high (64 of them) or low:high:step.", rich_help_panel=WORKLOAD
    ),
    batch: str = typer.Option(ONE_BATCH, help="Batches, written like --chunk.", rich_help_panel=WORKLOAD),
    context: str = typer.Option(
        None, help="Mean contexts of a decode, like --chunk. Default: prompt + output/2.", rich_help_panel=WORKLOAD
    ),
    prefix_hit: str = options.PREFIX_HIT,
    prefix_shared: bool = options.PREFIX_SHARED,
    ttft: str = options.TTFT,
    tpot: str = options.TPOT,
    itl: str = options.ITL,
    tpot_basis: Basis = options.TPOT_BASIS,
    max_utilisation: str = options.MAX_UTILISATION,
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
    out: Path = typer.Option(
        None, "--out", "-o", help="Write every point: .csv, or .jsonl for JSON lines.", rich_help_panel=OUTPUT
    ),
    plot: Path = typer.Option(None, help="Draw a picture of the first deployment: .svg or .png.",
                              rich_help_panel=OUTPUT),
    kind: Kind = typer.Option(
        None, metavar="<name>", help="Of --plot: window (the default), region, roofline or breakdown.",
        rich_help_panel=OUTPUT,
    ),
    pareto: bool = typer.Option(
        False, "--pareto", help="The trade between tokens/s of a user and of a GPU, over shapes and batches.",
        rich_help_panel=OUTPUT,
    ),
    force: bool = typer.Option(False, "--force", help="Overwrite files.", rich_help_panel=OUTPUT),
    as_json: bool = typer.Option(False, "--json", help="chunkcalc.sweep/2 on stdout.", rich_help_panel=OUTPUT),
) -> None:  # fmt: skip
    """Every chunk, batch and context at once: which hold, as a chart, a table of points, or a picture.

    Example: chunkcalc sweep --model llama-3.1-8b --gpu h100-sxm --prompt 4k --ttft 1s --tpot 30ms --batch 8,32,128
    """
    from chunkcalc.grids.points import deployments  # noqa: PLC0415
    from chunkcalc.report import sweep as report  # noqa: PLC0415 - quick help
    from chunkcalc.report.chart import chart  # noqa: PLC0415

    _check_targets(out, plot, kind, force=force)
    chunk, batch, tp = _widened(chunk, batch, tp) if pareto else (chunk, batch, tp)
    chunks, batches = parse_values(chunk, "--chunk"), parse_values(batch, "--batch")
    contexts = None if context is None else parse_values(context, "--context")
    question = asked(
        model=model, gpu="", prompt=prompt, output=output,
        prefix_hit=prefix_hit, prefix_shared=prefix_shared, ttft=ttft, tpot=tpot, itl=itl,
        tpot_basis=tpot_basis, max_utilisation=max_utilisation, pp=pp, ep=ep, attention_dp=attention_dp,
        weights=weights, kv=kv, draft_tokens=draft_tokens, draft_acceptance=draft_acceptance, engine=engine,
        engine_version=engine_version, enable_mixed_chunk=enable_mixed_chunk,
        prefill_decode_interval=prefill_decode_interval, link=link, gateway=gateway,
        measured=measured or None, memory_fraction=memory_fraction,
    )  # fmt: skip
    if contexts:
        question = replace(question, context=contexts[-1])  # the longest is checked against the request
    if question.output == 1:
        raise ChunkcalcError("an answer of one token has nothing to decode", "--output", "give at least 2")
    cases, left_out = deployments(question, gpu, parse_values(tp, "--tp"))
    size = len(cases) * len(chunks) * len(batches) * len(contexts or (0,))
    if plot is not None and len(chunks) < 2:
        raise ChunkcalcError("a picture needs at least two chunks", "--chunk", "write a range such as 128:16384")
    if size > MOST_POINTS:
        problem = f"{size:,} points are more than {MOST_POINTS:,}"
        raise ChunkcalcError(problem, "--chunk", "give fewer chunks, batches, contexts or GPUs")
    if as_json and size > MOST_SHOWN:
        raise ChunkcalcError(f"{size:,} points are many for one document", "--json", "write them with -o out.jsonl")
    if pareto:
        _trade(question, cases, (chunks, batches, contexts), left_out, out, plot, as_json)
        raise typer.Exit(HOLDS)
    strips: list[Strip] = []
    rows: list[dict[str, Any]] = []
    swept: list[list[Point]] = []
    with _sink(out) as write:
        with progress("points") as told:
            done = 0

            def more(count: int) -> None:
                nonlocal done
                done += count
                told(done, size)

            for case in cases:
                swept.append(_swept(case, chunks, batches, contexts, write, more))
                strips += report.strips(case, swept[-1])
                if as_json:
                    rows += [report.record(report.keys_of(case), point) for point in swept[-1]]
                if plot is None and len(cases) > 1:
                    swept[-1] = []
        if plot is not None:
            which = _widest(cases, swept)
            _draw(plot, kind or Kind.window, cases[which], swept[which], chunks)
    if as_json:
        show_json(report.document(rows, strips, left_out))
    else:
        show(chart(cases[0], strips, left_out, swept[0] if len(strips) == 1 else ()))
    raise typer.Exit(HOLDS)


def _widest(cases: list[Case], swept: list[list[Point]]) -> int:
    """The deployment with most points that hold: the one to draw of many."""
    from chunkcalc.grids.points import HOLDS as ALL_HOLD  # noqa: PLC0415

    return max(range(len(cases)), key=lambda index: sum(point.state == ALL_HOLD for point in swept[index]))


def _draw(path: Path, kind: Kind, case: Case, points: list[Point], chunks: list[int]) -> None:
    from chunkcalc.plots.draw import picture  # noqa: PLC0415
    from chunkcalc.report.sweep import keys_of  # noqa: PLC0415

    with whole_file(path, "--plot", binary=True) as file:
        file.write(picture(kind.value, case, points, chunks, path.suffix.lower()))
    several = {name: {getattr(point, name) for point in points} for name in ("batch", "context")}
    first = ", ".join(f"{name} {getattr(points[0], name):,}" for name, found in several.items() if len(found) > 1)
    keys = keys_of(case)
    note = f"note: {path} shows {keys['gpus']} x {keys['gpu']}{f' at {first}' if first and kind != Kind.region else ''}"
    print(note, file=sys.stderr)


def _widened(chunk: str, batch: str, tp: str) -> tuple[str, str, str]:
    """All shapes and batches, where none are named."""
    from chunkcalc.grids.trades import BATCHES, CHUNKS, DEGREES  # noqa: PLC0415

    chunk, batch = CHUNKS if chunk == ALL_CHUNKS else chunk, BATCHES if batch == ONE_BATCH else batch
    return chunk, batch, DEGREES if tp == "1" else tp


def _trade(
    question: Question, cases: list[Case], values: tuple[list[int], list[int], list[int] | None],
    left_out: list[str], out: Path | None, plot: Path | None, as_json: bool,
) -> None:  # fmt: skip
    """The trade between the speed of a user and what a GPU yields, as a table, points and a picture."""
    from chunkcalc.grids import trades  # noqa: PLC0415
    from chunkcalc.report import pareto  # noqa: PLC0415
    from chunkcalc.report.sweep import keys_of  # noqa: PLC0415

    found: list[trades.Trade] = []
    chunks, batches, contexts = values
    size = len(cases) * len(chunks) * len(batches) * len(contexts or (0,))
    done = 0
    with _sink(out) as write, progress("points") as told:
        for case in cases:
            points = _swept(case, chunks, batches, contexts, write, lambda count: None)
            done += len(points)
            told(done, size)
            found += trades.trades(keys_of(case), points)
    best = trades.frontier(found)
    if plot is not None:
        from chunkcalc.plots import paper  # noqa: PLC0415
        from chunkcalc.plots import pareto as picture  # noqa: PLC0415

        title = f"{question.model}: {question.prompt:,} prompt + {question.output or 512:,} output tokens"
        slowest = None if question.tpot is None else 1 / question.tpot
        with whole_file(plot, "--plot", binary=True) as file:
            file.write(paper.render(picture.draw(title, found, best, slowest), plot.suffix.lower()))
    if as_json:
        show_json(pareto.document(best, left_out))
    else:
        print(pareto.text(best, len(found), left_out))


def _check_targets(out: Path | None, plot: Path | None, kind: Kind | None, *, force: bool) -> None:
    if kind is not None and plot is None:
        raise ChunkcalcError("there is no picture to draw", "--kind", "add --plot FILE.svg")
    if out is not None and out.suffix.lower() not in (".csv", ".jsonl"):
        raise ChunkcalcError(f"'{out.name:.60}' ends in neither .csv nor .jsonl", "--out", "name the file out.csv")
    for path, option in ((out, "--out"), (plot, "--plot")):
        if path is not None:
            check_target(path, option, force=force)
    if plot is not None:
        from chunkcalc.plots import paper  # noqa: PLC0415

        paper.check_target(plot)


def _swept(
    case: Case, chunks: list[int], batches: list[int], contexts: list[int] | None,
    write: Callable[[dict[str, Any], Point], None], told: Callable[[int], None],
) -> list[Point]:  # fmt: skip
    """The points of one deployment, written as they come."""
    from chunkcalc.grids.points import points  # noqa: PLC0415
    from chunkcalc.report.sweep import keys_of  # noqa: PLC0415

    keys, found = keys_of(case), []
    for point in points(case, chunks, batches, contexts or [case.workload.context], told):
        found.append(point)
        write(keys, point)
    return found


@contextmanager
def _sink(path: Path | None) -> Iterator[Callable[[dict[str, Any], Point], None]]:
    """Where points are written; the file appears whole or not at all."""
    from chunkcalc.report import sweep as report  # noqa: PLC0415

    if path is None:
        yield lambda keys, point: None
        return
    with whole_file(path, "--out") as file:
        if path.suffix.lower() == ".jsonl":
            yield lambda keys, point: file.write(report.json_line(keys, point)) and None
        else:
            file.write(report.csv_rows([report.COLUMNS]))
            yield lambda keys, point: file.write(report.csv_rows([(*keys.values(), *point)])) and None
