"""The region: which chunks and batches keep every limit, and what fails elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import exp, log
from typing import Any

from chunkcalc.plots import paper
from chunkcalc.sweep import HOLDS, Point

WORDS = {
    HOLDS: ("every limit holds", paper.GREEN), "ttft": ("TTFT too long", paper.BLUE),
    "tpot": ("tokens too slow (TPOT)", paper.VERMILION), "itl": ("gap too long", paper.PURPLE),
    "utilisation": ("prompts pile up", paper.ORANGE), "memory": ("KV cache too small", "#bbbbbb"),
}  # fmt: skip


def draw(title: str, points: Sequence[Point]) -> Any:
    """The picture.

    Parameters
    ----------
    title : what is served
    points : of a grid of chunks and batches at one context each
    """
    from matplotlib.colors import to_rgb  # noqa: PLC0415 - only a picture needs it
    from matplotlib.patches import Patch  # noqa: PLC0415

    states = {(point.chunk, point.batch): point.state for point in points}
    chunks, batches = (sorted({key[axis] for key in states}) for axis in (0, 1))
    figure, ((axes,),) = paper.canvas(8, 5)
    axes.set_title(title)
    paper.token_axis(axes, chunks[0], chunks[-1])
    axes.set_yscale("log", base=2)
    edges = _edges(chunks), _edges(batches)
    colours = [[to_rgb(WORDS[states[chunk, batch]][1]) for chunk in chunks] for batch in batches]
    axes.pcolormesh(*edges, colours, alpha=0.75, rasterized=True)
    axes.set_xlim(edges[0][0], edges[0][-1])
    axes.set_ylim(edges[1][0], edges[1][-1])
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.set_xlabel("chunk: prompt tokens per step")
    axes.set_ylabel("batch: requests decoding at once")
    seen = [state for state in WORDS if state in states.values()]
    patches = [Patch(color=WORDS[state][1], alpha=0.75, label=WORDS[state][0]) for state in seen]
    axes.legend(handles=patches, loc="upper left", bbox_to_anchor=(1.01, 1.0))
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
        if len(inside) < 0.05 * len(states):
            continue
        middle = [exp(sum(log(key[axis]) for key in inside) / len(inside)) for axis in (0, 1)]
        nearest = min(inside, key=lambda key: sum(abs(log(key[axis] / middle[axis])) for axis in (0, 1)))
        axes.text(*nearest, WORDS[state][0], ha="center", va="center", fontsize=9,
                  bbox={"facecolor": "white", "alpha": 0.7, "edgecolor": "none", "pad": 1.5})  # fmt: skip
