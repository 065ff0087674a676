"""The window: TTFT and the time per token against the chunk, their limits, and what holds at each chunk."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from chunkcalc.answer.records import Answer
from chunkcalc.grids.points import HOLDS, Point
from chunkcalc.plots import paper, states
from chunkcalc.units import format_count, format_duration

BAND = 0.15  # opacity
LONGER = 1.2  # a step right after a tile edge over the one before, from which the edge is shown


def draw(title: str, answer: Answer, points: Sequence[Point]) -> Any:
    """The picture.

    Parameters
    ----------
    title : what is served
    answer : to the same question at one batch: its limits, error bands, textbook chunk and knee
    points : of every chunk, rising
    """
    figure, (top, middle, bottom) = paper.canvas(8, 6.6, (3.0, 3.0, 0.3))
    slo, chunks = answer.slo, [point.chunk for point in points]
    figure.suptitle(title, x=0.01, ha="left", fontweight="bold", fontsize=11)
    _curves(top, chunks, [("TTFT", [p.ttft_s for p in points], answer.error.ttft, slo.ttft, paper.BLUE)], 1.0)
    _curves(middle, chunks, _per_token(answer, points), 1e-3)
    _tile_edges(middle, answer, chunks)
    for axes in (top, middle):
        _shade(axes, points)
        axes.legend(loc="best", fontsize=9, framealpha=0.85, frameon=True, edgecolor="none")
    top.set_ylabel("time to first token (s)")
    middle.set_ylabel("time per token (ms)")
    _strip(bottom, points)
    paper.token_axis(bottom, chunks[0], chunks[-1])
    bottom.set_xlabel("chunk: prompt tokens per step")
    _marks((top, middle), answer, chunks)
    return figure


Curve = tuple[str, list[float], float, float | None, str]  # name, values, band, limit, colour


def _per_token(answer: Answer, points: Sequence[Point]) -> list[Curve]:
    """What the limits on tokens judge: the mean per token, and the longest gap."""
    slo, out = answer.slo, list[Curve]()
    if slo.tpot is not None:
        out.append(("TPOT (mean)", [p.tpot_s for p in points], answer.error.tpot, slo.tpot, paper.VERMILION))
    if slo.itl is not None or slo.tpot is None:
        out.append(("longest gap", [p.itl_s for p in points], answer.error.gap, slo.itl, paper.PURPLE))
    return out


def _curves(axes: Any, chunks: Sequence[int], curves: Sequence[Curve], unit: float) -> None:
    shown = []
    for name, values, band, limit, colour in curves:
        low, high = ([value / unit * by for value in values] for by in (1 / (1 + band), 1 + band))
        scaled = [value / unit for value in values]
        axes.fill_between(chunks, low, high, color=colour, alpha=BAND, linewidth=0)
        axes.plot(chunks, scaled, color=colour, linewidth=2, label=f"{name}, ±{100 * band:.0f} %")
        shown += [*low, *high]
        if limit is not None:
            axes.axhline(limit / unit, color=colour, linestyle="--", linewidth=1.2)
            axes.plot([], [], color=colour, linestyle="--", linewidth=1.2, label=f"limit {format_duration(limit)}")
            shown.append(limit / unit)
    paper.time_axis(axes, [value for value in shown if value > 0])


def _shade(axes: Any, points: Sequence[Point]) -> None:
    """The chunks that keep every limit; runs of them, as some between may fail."""
    for first, last, state in _runs(points):
        if state == HOLDS:
            axes.axvspan(first, last, color=paper.GREEN, alpha=0.18, linewidth=0)


def _runs(points: Sequence[Point]) -> list[tuple[float, float, str]]:
    """Neighbouring chunks with the same state; borders half-way between."""
    out: list[tuple[float, float, str]] = []
    for index, point in enumerate(points):
        end = (point.chunk + points[index + 1].chunk) / 2 if index + 1 < len(points) else float(point.chunk)
        if out and out[-1][2] == point.state:
            out[-1] = (out[-1][0], end, point.state)
        else:
            out.append((out[-1][1] if out else float(point.chunk), end, point.state))
    return out


def _strip(axes: Any, points: Sequence[Point]) -> None:
    """Which chunks hold, and what fails first elsewhere."""
    for first, last, state in _runs(points):
        axes.axvspan(first, last, color=states.COLOURS[state], alpha=states.OPACITY, linewidth=0)
    axes.set_yticks([])
    axes.set_ylim(0, 1)
    handles = states.patches(point.state for point in points)
    axes.legend(handles=handles, loc="upper center", bbox_to_anchor=(0.5, -2.6), ncols=3, fontsize=9)


def _marks(every: Sequence[Any], answer: Answer, chunks: Sequence[int]) -> None:
    """The chunk to set, the textbook's c*, and where the linear layers turn from memory to arithmetic."""
    knee = None if answer.knee is None else answer.knee / answer.case.deployment.parallelism.dp - _beside(answer)
    ends = answer.window
    window = (
        f" (window {format_count(ends.chunk_min)} to {format_count(ends.chunk_max or 0)})" if ends.chunk_min else ""
    )
    marks: list[tuple[Any, str, str, str]] = [
        (answer.chunk, f"{paper.word(answer)} {format_count(answer.chunk)}{window}", paper.GREEN, "-"),
        (answer.textbook.chunk_star, f"textbook c* {format_count(answer.textbook.chunk_star)}", paper.GREY, ":"),
        (knee, f"products turn compute-bound {format_count(knee or 0)}", paper.ORANGE, "-."),
    ]
    inside = [mark for mark in marks if mark[0] is not None and chunks[0] <= mark[0] <= chunks[-1]]
    for height, (at, name, colour, dashes) in enumerate(inside):
        for axes in every:
            axes.axvline(at, color=colour, linestyle=dashes, linewidth=1.4)
        side = "left" if at < (chunks[0] * chunks[-1]) ** 0.5 else "right"
        place = (at, 1.02 + 0.08 * height)
        every[0].annotate(name, place, xycoords=("data", "axes fraction"), color=colour, fontsize=9, ha=side,
                          annotation_clip=False)  # fmt: skip


def _beside(answer: Answer) -> int:
    """What the decodes take out of a step's tokens."""
    return answer.budget - answer.chunk


def _tile_edges(axes: Any, answer: Answer, chunks: Sequence[int]) -> None:
    """Small ticks where a tile of the products ends: right after it a step takes a fifth longer and more."""
    deployment = answer.case.deployment
    measured = deployment.hardware.tile_penalty.get(deployment.precision.dense, {})
    edges = [rows - _beside(answer) for rows, ratio in sorted(measured.items()) if ratio >= LONGER]
    edges = [edge for edge in edges if chunks[0] <= edge <= chunks[-1]]
    for edge in edges:
        axes.axvline(edge, ymax=0.04, color="black", linewidth=1)
    if edges:
        axes.plot([], [], color="black", marker="|", linestyle="", label="tile edge: a step beyond it is slower")
