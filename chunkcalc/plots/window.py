"""The window: TTFT and the longest step against the chunk, both limits, and the chunks between them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from chunkcalc.answer import Answer
from chunkcalc.plots import paper
from chunkcalc.sweep import HOLDS, Point
from chunkcalc.units import format_count, format_duration

BANDS = 0.15  # opacity


def draw(title: str, answer: Answer, points: Sequence[Point]) -> Any:
    """The picture.

    Parameters
    ----------
    title : what is served
    answer : to the same question at one batch: its limits, error bands, textbook chunk and knee
    points : of every chunk, rising
    """
    figure, ((top,), (bottom,)) = paper.canvas(8, 6, rows=2)
    slo, chunks = answer.slo, [point.chunk for point in points]
    figure.suptitle(title, x=0.01, ha="left", fontweight="bold", fontsize=11)
    _curve(top, chunks, [point.ttft_s for point in points], answer.ttft_error, paper.BLUE, "TTFT", slo.ttft, 1.0)
    judged = slo.tpot_basis == "step" or slo.tpot is None
    name = "longest step" if judged else "mean TPOT"
    values = [point.step_s if judged else point.tpot_s for point in points]
    limit = None if answer.workload.draft_tokens and judged else slo.tpot  # drafts: per token, not per step
    _curve(bottom, chunks, values, answer.tpot_error, paper.VERMILION, name, limit, 1e-3)
    if slo.itl is not None:
        _curve(bottom, chunks, [p.itl_s for p in points], answer.itl_error, paper.PURPLE, "longest gap", slo.itl, 1e-3)
    ends = (answer.window.chunk_min, answer.window.chunk_max)
    named = f"window {format_count(ends[0])} to {format_count(ends[1])}" if ends[0] and ends[1] else None
    for axes, label in ((top, named), (bottom, None)):
        _shade(axes, points, label)
        axes.legend(loc="best", fontsize=9)
        paper.token_axis(axes, chunks[0], chunks[-1])
    top.set_ylabel("time to first token (s)")
    bottom.set_ylabel("time per token (ms)")
    bottom.set_xlabel("chunk: prompt tokens per step")
    _marks(top, bottom, answer, chunks)
    return figure


def _curve(
    axes: Any, chunks: Sequence[int], values: Sequence[float], band: float, colour: str, name: str,
    limit: float | None, unit: float,
) -> None:  # fmt: skip
    scaled = [value / unit for value in values]
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.yaxis.set_minor_formatter(lambda value, _: f"{value:g}" if f"{value:e}"[0] in "25" else "")
    axes.fill_between(chunks, [y / (1 + band) for y in scaled], [y * (1 + band) for y in scaled], color=colour,
                      alpha=BANDS, linewidth=0)  # fmt: skip
    axes.plot(chunks, scaled, color=colour, linewidth=2, label=f"{name}, ±{100 * band:.0f} %")
    if limit is not None:
        axes.axhline(limit / unit, color=colour, linestyle="--", linewidth=1.2, label=f"limit {format_duration(limit)}")


def _shade(axes: Any, points: Sequence[Point], label: str | None) -> None:
    """The chunks that keep every limit; runs of them, as some between may fail."""
    start: int | None = None
    for index, point in enumerate([*points, None]):
        holds = point is not None and point.state == HOLDS
        if holds and start is None:
            start = index
        if not holds and start is not None:
            axes.axvspan(points[start].chunk, points[index - 1].chunk, color=paper.GREEN, alpha=0.18, linewidth=0,
                         label=label)  # fmt: skip
            start = label = None


def _marks(top: Any, bottom: Any, answer: Answer, chunks: Sequence[int]) -> None:
    """The chunk to set, the textbook's c*, the knee of the linear layers, and where tiles end."""
    knee = (
        None
        if answer.knee is None
        else answer.knee / answer.case.deployment.parallelism.dp - (answer.budget - answer.chunk)
    )
    marks: list[tuple[Any, str, str, str]] = [
        (answer.chunk, "set" if answer.holds else "closest", paper.GREEN, "-"),
        (answer.textbook.chunk_star, "textbook c*", paper.GREY, ":"),
        (knee, "knee", paper.ORANGE, "-."),
    ]
    inside = [mark for mark in marks if mark[0] is not None and chunks[0] <= mark[0] <= chunks[-1]]
    for height, (at, name, colour, dashes) in enumerate(inside):
        for axes in (top, bottom):
            axes.axvline(at, color=colour, linestyle=dashes, linewidth=1.4)
        place = (at, 1.02 + 0.08 * height)
        top.annotate(f"{name} {format_count(round(at))}", place, xycoords=("data", "axes fraction"), color=colour,
                     fontsize=9, ha="center", annotation_clip=False)  # fmt: skip
    edges = [edge for edge in _tile_edges(answer) if chunks[0] <= edge <= chunks[-1]]
    for edge in edges:
        bottom.axvline(edge, ymax=0.04, color="black", linewidth=1)
    if edges:
        bottom.annotate("tile edges", (edges[-1], 0.05), xycoords=("data", "axes fraction"), fontsize=8, ha="center")


def _tile_edges(answer: Answer) -> list[float]:
    """Chunks right after which a step takes at least a fifth longer."""
    deployment = answer.case.deployment
    measured = deployment.hardware.tile_penalty.get(deployment.precision.dense, {})
    return [rows - (answer.budget - answer.chunk) for rows, ratio in sorted(measured.items()) if ratio >= 1.2]
