"""What holds where: names and colours of the states of a sweep's points."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from chunkcalc.plots import paper
from chunkcalc.sweep import HOLDS

WORDS = {
    HOLDS: ("every limit holds", paper.GREEN), "ttft": ("TTFT too long", paper.BLUE),
    "tpot": ("tokens too slow (TPOT)", paper.VERMILION), "itl": ("gap too long", paper.PURPLE),
    "utilisation": ("prompts queue up", paper.ORANGE), "memory": ("KV cache too small", "#bbbbbb"),
}  # fmt: skip
OPACITY = 0.75


def patches(states: Iterable[str]) -> list[Any]:
    """Entries of a legend for the states that occur.

    Parameters
    ----------
    states : of the points
    """
    from matplotlib.patches import Patch  # noqa: PLC0415 - only a picture needs it

    seen = set(states)
    return [Patch(color=WORDS[each][1], alpha=OPACITY, label=WORDS[each][0]) for each in WORDS if each in seen]
