"""The region: which chunks and batches keep every limit, and what fails elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from chunkcalc.grids.points import Point
from chunkcalc.plots import paper
from chunkcalc.plots.states import COLOURS, OPACITY, patches
from chunkcalc.report.sweep import MEANING

WIDE, HIGH = 0.3, 0.08  # shares of the columns and rows that a region needs for its name

FEW = 8  # batches that are all named


def draw(title: str, points: Sequence[Point]) -> Any:
    """The picture.

    Parameters
    ----------
    title : what is served
    points : of a grid of chunks and batches at one context each
    """
    from matplotlib.colors import to_rgb  # noqa: PLC0415 - only a picture needs it

    states = {(point.chunk, point.batch): point.state for point in points}
    chunks, batches = (sorted({key[axis] for key in states}) for axis in (0, 1))
    figure, (axes,) = paper.canvas(8, 5)
    axes.set_title(title)
    paper.token_axis(axes, chunks[0], chunks[-1])
    axes.set_yscale("log", base=2)
    edges = _edges(chunks), _edges(batches)
    colours = [[to_rgb(COLOURS[states[chunk, batch]]) for chunk in chunks] for batch in batches]
    axes.pcolormesh(*edges, colours, alpha=OPACITY, rasterized=True)
    axes.set_xlim(edges[0][0], edges[0][-1])
    axes.set_ylim(edges[1][0], edges[1][-1])
    if len(batches) <= FEW:
        axes.set_yticks(batches, minor=False)
        axes.set_yticks([], minor=True)
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.set_xlabel("chunk: prompt tokens per step")
    axes.set_ylabel("batch: requests decoding at once")
    axes.legend(handles=patches(states.values()), loc="upper left", bbox_to_anchor=(1.01, 1.0))
    _names(axes, states)
    return figure


def _edges(values: Sequence[int]) -> list[float]:
    """Borders between values, half-way on a logarithmic axis."""
    if len(values) == 1:
        return [values[0] / 1.4, values[0] * 1.4]
    inner = [(low * high) ** 0.5 for low, high in pairwise(values)]
    return [values[0] ** 2 / inner[0], *inner, values[-1] ** 2 / inner[-1]]


def _names(axes: Any, states: dict[tuple[int, int], str]) -> None:
    """Each region's name at its middle where it fits, for readers and printers without colour."""
    chunks, batches = (sorted({key[axis] for key in states}) for axis in (0, 1))
    for state, words in MEANING.items():
        runs = [run for batch in batches for run in _runs([states[chunk, batch] for chunk in chunks], batch, state)]
        rows = {batch for batch, first, last in runs if last - first >= WIDE * len(chunks)}
        if len(rows) < max(2, HIGH * len(batches)):
            continue  # the legend names it
        batch = sorted(rows)[len(rows) // 2]
        _, first, last = max((run for run in runs if run[0] == batch), key=lambda run: run[2] - run[1])
        middle = (chunks[first] * chunks[last]) ** 0.5
        axes.text(middle, batch, words, ha="center", va="center", fontsize=9,
                  bbox={"facecolor": "white", "alpha": 0.7, "edgecolor": "none", "pad": 1.5})  # fmt: skip


def _runs(row: Sequence[str], batch: int, state: str) -> list[tuple[int, int, int]]:
    """(batch, first, last) index of each run of a state in a row."""
    out: list[tuple[int, int, int]] = []
    for index, found in enumerate(row):
        if found == state:
            joined = bool(out) and out[-1][2] == index - 1
            out = [*out[:-1], (batch, out[-1][1], index)] if joined else [*out, (batch, index, index)]
    return out
