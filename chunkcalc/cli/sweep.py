"""`chunkcalc sweep`: every chunk, batch and context of one deployment or many."""

from __future__ import annotations

import enum
import itertools
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from chunkcalc.case import Case, resolve
from chunkcalc.cli import options
from chunkcalc.cli.options import DEPLOYMENT, OUTPUT, WORKLOAD, Basis, EngineName, asked
from chunkcalc.cli.output import HOLDS, show, show_json, whole_file
from chunkcalc.errors import ChunkcalcError
from chunkcalc.grids import parse_values
from chunkcalc.question import Question

if TYPE_CHECKING:  # a quick --help
    from chunkcalc.report.sweep import Strip
    from chunkcalc.sweep import Point

MOST_POINTS = 2_000_000
MOST_SHOWN = 20_000  # points that --json puts into one document
ALL = "all"


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
    prompt: str = options.PROMPT,
    output: str = options.OUTPUT_TOKENS,
    chunk: str = typer.Option(
        "128:16384", help="Chunks: values, low:high (64 of them) or low:high:step.", rich_help_panel=WORKLOAD
    ),
    batch: str = typer.Option("32", help="Batches, written like --chunk.", rich_help_panel=WORKLOAD),
    context: str = typer.Option(
        None, help="Mean contexts of a decode, like --chunk. Default: prompt + output/2.", rich_help_panel=WORKLOAD
    ),
    prefix_hit: str = options.PREFIX_HIT,
    ttft: str = options.TTFT,
    tpot: str = options.TPOT,
    itl: str = options.ITL,
    tpot_basis: Basis = options.TPOT_BASIS,
    max_utilisation: str = options.MAX_UTILISATION,
    ep: int = options.EP,
    attention_dp: int = options.ATTENTION_DP,
    weights: str = options.WEIGHTS,
    kv: str = options.KV,
    engine: EngineName = options.ENGINE,
    engine_version: str = options.ENGINE_VERSION,
    enable_mixed_chunk: bool = options.MIXED_CHUNK,
    link: str = options.LINK,
    memory_fraction: str = options.MEMORY_FRACTION,
    out: Path = typer.Option(
        None, "--out", "-o", help="Write every point: .csv, or .jsonl for JSON lines.", rich_help_panel=OUTPUT
    ),
    plot: Path = typer.Option(None, help="Draw a picture of the first deployment: .svg or .png.",
                              rich_help_panel=OUTPUT),
    kind: Kind = typer.Option(
        Kind.window, metavar="<name>", help="window, region, roofline or breakdown.", rich_help_panel=OUTPUT
    ),
    force: bool = typer.Option(False, "--force", help="Overwrite files.", rich_help_panel=OUTPUT),
    as_json: bool = typer.Option(False, "--json", help="chunkcalc.sweep/1 on stdout.", rich_help_panel=OUTPUT),
) -> None:  # fmt: skip
    """Every chunk, batch and context at once: which hold, as a chart, a table of points, or a picture.

    Example: chunkcalc sweep --model llama-3.1-8b --gpu h100-sxm --prompt 4k --ttft 1s --tpot 30ms --batch 8,32,128
    """
    from chunkcalc.report import sweep as report  # noqa: PLC0415 - quick help

    _check_targets(out, plot, force=force)
    chunks, batches = parse_values(chunk, "--chunk"), parse_values(batch, "--batch")
    contexts = parse_values(context, "--context") if context else None
    question = asked(
        model=model, gpu="", prompt=prompt, output=output, prefix_hit=prefix_hit, ttft=ttft, tpot=tpot, itl=itl,
        tpot_basis=tpot_basis, max_utilisation=max_utilisation, ep=ep, attention_dp=attention_dp, weights=weights,
        kv=kv, engine=engine, engine_version=engine_version, enable_mixed_chunk=enable_mixed_chunk, link=link,
        memory_fraction=memory_fraction,
    )  # fmt: skip
    if contexts:
        question = replace(question, context=contexts[-1])  # the longest is checked against the request
    cases, left_out = _cases(question, gpu, parse_values(tp, "--tp"))
    size = len(cases) * len(chunks) * len(batches) * len(contexts or (0,))
    if plot is not None and len(chunks) < 2:
        raise ChunkcalcError("a picture needs at least two chunks", "--chunk", "write a range such as 128:16384")
    if size > MOST_POINTS:
        problem = f"{size:,} points are more than {MOST_POINTS:,}"
        raise ChunkcalcError(problem, "--chunk", "give fewer chunks, batches, contexts or GPUs")
    if as_json and size > MOST_SHOWN:
        raise ChunkcalcError(f"{size:,} points are many for one document", "--json", "write them with -o out.jsonl")
    strips: list[Strip] = []
    rows: list[dict[str, Any]] = []
    first: list[Point] = []
    with _sink(out) as write, _progress(size) as told:
        for case in cases:
            found = _swept(case, chunks, batches, contexts, write, told)
            strips += found.strips
            first = first or found.points
            if as_json:
                rows += [report.record(report.keys_of(case), point) for point in found.points]
    if plot is not None:
        from chunkcalc.plots.draw import picture  # noqa: PLC0415

        with whole_file(plot, "--plot", binary=True) as file:
            file.write(picture(kind.value, cases[0], first, chunks, plot.suffix.lower()))
    if as_json:
        show_json(report.document(rows, strips, left_out))
    else:
        show(report.chart(cases[0], strips, left_out, first if len(strips) == 1 else ()))
    raise typer.Exit(HOLDS)


def _check_targets(out: Path | None, plot: Path | None, *, force: bool) -> None:
    if out is not None and out.suffix not in (".csv", ".jsonl"):
        raise ChunkcalcError(f"'{out.name:.60}' ends in neither .csv nor .jsonl", "--out", "name the file out.csv")
    for path, option in ((out, "--out"), (plot, "--plot")):
        if path is not None and path.exists() and not force:
            raise ChunkcalcError(f"'{path}' exists", option, "give another name, or --force to overwrite it")
        if path is not None and not path.parent.is_dir():
            raise ChunkcalcError(f"there is no folder '{path.parent}'", option, "give a path in a folder that exists")
    if plot is not None:
        from chunkcalc.plots.paper import check_target  # noqa: PLC0415

        check_target(plot)


def _cases(question: Question, gpus: str, degrees: list[int]) -> tuple[list[Case], list[str]]:
    """Every deployment that can be computed, and why the others cannot."""
    from chunkcalc.catalog import gpus as shipped  # noqa: PLC0415
    from chunkcalc.counts import gpu_weight_bytes  # noqa: PLC0415

    every = gpus.strip() == ALL
    names = [each.id for each in shipped()] if every else [name.strip() for name in gpus.split(",")]
    cases, left_out = [], []
    for name, tp in itertools.product(names, degrees):
        try:
            case = resolve(replace(question, gpu=name, tp=tp))
        except ChunkcalcError as error:
            if not every and len(names) * len(degrees) == 1:
                raise
            if not every and len(degrees) == 1 and error.where in ("--gpu", "--model", "--prompt"):
                raise
            left_out.append(f"{name}{f' x {tp}' if tp > 1 else ''}: {error.what}")
            continue
        weights = gpu_weight_bytes(case.deployment.model, case.deployment.precision, case.deployment.parallelism)
        if weights > case.deployment.hardware.memory:
            left_out.append(f"{name}{f' x {tp}' if tp > 1 else ''}: its memory does not hold the weights")
            continue
        cases.append(case)
    if not cases:
        reason = f" ({left_out[0]})" if left_out else ""
        raise ChunkcalcError(f"no deployment is left{reason}", "--gpu", "give other GPUs or a larger --tp")
    return cases, left_out


class _Swept:
    """The points of one deployment."""

    def __init__(self) -> None:
        self.points: list[Point] = []
        self.strips: list[Strip] = []


def _swept(
    case: Case, chunks: list[int], batches: list[int], contexts: list[int] | None,
    write: Callable[[dict[str, Any], Point], None], told: Callable[[int], None],
) -> _Swept:  # fmt: skip
    from chunkcalc.report.sweep import Strip, keys_of  # noqa: PLC0415
    from chunkcalc.sweep import points, window_of  # noqa: PLC0415

    keys, found = keys_of(case), _Swept()
    states: dict[tuple[int, int], list[str]] = {}
    for point in points(case, chunks, batches, contexts or [case.workload.context], told):
        states.setdefault((point.batch, point.context), []).append(point.state)
        found.points.append(point)
        write(keys, point)
    found.strips = [
        Strip(
            keys=keys, batch=batch, context=context, chunks=chunks, states=each, window=window_of(case, batch, context)
        )
        for (batch, context), each in states.items()
    ]
    return found


@contextmanager
def _sink(path: Path | None) -> Iterator[Callable[[dict[str, Any], Point], None]]:
    """Where points are written; the file appears whole or not at all."""
    from chunkcalc.report import sweep as report  # noqa: PLC0415

    if path is None:
        yield lambda keys, point: None
        return
    with whole_file(path, "--out") as file:
        if path.suffix == ".jsonl":
            yield lambda keys, point: file.write(report.json_line(keys, point)) and None
        else:
            file.write(report.csv_rows([report.COLUMNS]))
            yield lambda keys, point: file.write(report.csv_rows([(*keys.values(), *point)])) and None


@contextmanager
def _progress(size: int) -> Iterator[Callable[[int], None]]:
    """A bar on stderr, where that is a terminal."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console  # noqa: PLC0415
    from rich.progress import Progress  # noqa: PLC0415

    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("points", total=size)
        yield lambda done: progress.advance(task, done)
