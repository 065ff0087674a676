"""Tokens per second of a user against those of a GPU: every point that holds, and the ones that none beats."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from chunkcalc.grids.trades import Trade
from chunkcalc.plots import paper

NAMED = 6  # GPUs that a legend names


def draw(title: str, found: Sequence[Trade], best: Sequence[Trade], slowest: float | None) -> Any:
    """The picture.

    Parameters
    ----------
    title : what is served
    found, best : all trades that hold, and the frontier
    slowest : speed that the limit of TPOT asks for a user; None without one [token/s]
    """
    figure, (axes,) = paper.canvas(8, 5, (1.0,))
    figure.suptitle(title, x=0.01, ha="left", fontweight="bold", fontsize=11)
    gpus = list(dict.fromkeys(trade.keys["gpu"] for trade in found))
    for gpu in gpus[:NAMED]:
        own = [trade for trade in found if trade.keys["gpu"] == gpu]
        axes.plot([t.per_user for t in own], [t.per_gpu for t in own], ".", markersize=4, alpha=0.4, label=gpu)
    axes.plot([t.per_user for t in best], [t.per_gpu for t in best], "-", color="black", label="beaten by none")
    if slowest is not None:
        axes.axvline(slowest, linestyle="--", color="grey", label="limit of TPOT")
    axes.set_xscale("log")
    axes.set_yscale("log")
    for axis in (axes.xaxis, axes.yaxis):  # 40, not 4 x 10^1
        axis.set_major_formatter("{x:,.4g}")
        axis.set_minor_formatter("")
    axes.set_xlabel("output tokens/s of a user")
    axes.set_ylabel("output tokens/s of a GPU")
    axes.legend(loc="best", fontsize=9)
    return figure
