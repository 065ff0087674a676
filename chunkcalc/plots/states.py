"""What holds where: the colours of the states of a sweep's points."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from chunkcalc.grids.points import HOLDS
from chunkcalc.plots import paper
from chunkcalc.report.sweep import MEANING

COLOURS = {
    HOLDS: paper.GREEN, "ttft": paper.BLUE, "tpot": paper.VERMILION, "itl": paper.PURPLE,
    "utilisation": paper.ORANGE, "memory": "#bbbbbb",
}  # fmt: skip
OPACITY = 0.75


def patches(states: Iterable[str]) -> list[Any]:
    """Entries of a legend for the states that occur."""
    from matplotlib.patches import Patch  # noqa: PLC0415 - only a picture needs it

    seen = set(states)
    return [Patch(color=COLOURS[each], alpha=OPACITY, label=words) for each, words in MEANING.items() if each in seen]
