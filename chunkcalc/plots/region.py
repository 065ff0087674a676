"""The region: which chunks and batches keep every limit, and what fails elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import exp, log
from typing import Any

from chunkcalc.plots import paper
from chunkcalc.plots.states import OPACITY, WORDS, patches
from chunkcalc.sweep import Point

WIDE = 0.25  # share of a region's rows or columns from which its name fits into it


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
    colours = [[to_rgb(WORDS[states[chunk, batch]][1]) for chunk in chunks] for batch in batches]
    axes.pcolormesh(*edges, colours, alpha=OPACITY, rasterized=True)
    axes.set_xlim(edges[0][0], edges[0][-1])
    axes.set_ylim(edges[1][0], edges[1][-1])
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
    """Each region's name at its middle, for readers and printers without colour."""
    for state in WORDS:
        inside = [key for key, found in states.items() if found == state]
        spans = [len({key[axis] for key in inside}) / len({key[axis] for key in states}) for axis in (0, 1)]
        if not inside or spans[0] < WIDE or len(inside) < WIDE * spans[0] * spans[1] * len(states) or spans[1] < 0.1:
            continue  # the legend names it
        middle = [exp(sum(log(key[axis]) for key in inside) / len(inside)) for axis in (0, 1)]
        nearest = min(inside, key=lambda key: sum(abs(log(key[axis] / middle[axis])) for axis in (0, 1)))
        axes.text(*nearest, WORDS[state][0], ha="center", va="center", fontsize=9,
                  bbox={"facecolor": "white", "alpha": 0.7, "edgecolor": "none", "pad": 1.5})  # fmt: skip
