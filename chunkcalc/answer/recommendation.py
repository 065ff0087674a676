"""The chunk to set, inside the window."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from chunkcalc.answer.judged import Outlook
from chunkcalc.answer.window import every_limit
from chunkcalc.frozen import remembered
from chunkcalc.time.search import Limit, best, first, last
from chunkcalc.time.service import Bounds

FINE_ALIGNMENT = 16  # captured CUDA graphs step by 8 or 16 tokens: where a window is too narrow for more
THROUGHPUT_SLACK = 0.02  # with one limit only: the smallest chunk this close to the best throughput


class Recommended(NamedTuple):
    """A chunk to set [token], and whether it keeps every limit."""

    chunk: int
    keeps: bool


@partial(remembered, most=4)  # a deployment is judged as written, and again for what would be better
def recommend(view: Outlook) -> Recommended | None:
    """The chunk to set; None where the batch does not fit at any chunk.

    First those that keep every limit with its error band to spare, then those that keep every
    limit; in each, aligned budgets before others. Where none keeps every limit, the largest
    headroom among those that keep the rules, then among those that fit.
    """
    grids = (view.aligned, view.grid(FINE_ALIGNMENT), range(1, view.longest_chunk + 1))
    for margin in (True, False):
        limits = every_limit(view, margin)
        if last(limits, 1, view.longest_chunk) is None:
            continue
        for grid in grids:
            chosen = _choose(view, limits, grid)
            if chosen is not None:
                return Recommended(chosen, True)
    for kept in (view.rules(view.expected), [view.memory_rule()]):
        for grid in grids:
            inside = _inside(kept, grid)
            if inside:
                # Without a latency limit nothing tells chunks apart but the load they carry.
                chosen = best(inside, view.headroom, view.headroom_ceiling) if view.slo.latency else inside[-1]
                assert chosen is not None
                return Recommended(chosen, False)
    return None


def aligned_best(view: Outlook, *, margin: bool) -> int | None:
    """The best chunk with an aligned budget that keeps every limit and rule.

    Returns
    -------
    chunk [token]
    """
    return _choose(view, every_limit(view, margin), view.aligned)


def _inside(limits: Sequence[Limit], grid: range) -> range:
    """The part of a grid between the first and the last chunk that keep the limits."""
    on_grid = [limit.on(grid) for limit in limits]
    low = first(on_grid, 0, len(grid) - 1)
    if low is None:
        return range(0)
    high = last(on_grid, low, len(grid) - 1)
    assert high is not None
    return grid[low : high + 1]


def _choose(view: Outlook, limits: Sequence[Limit], grid: range) -> int | None:
    """The chunk of a grid that keeps the limits and is best among those.

    With two limits or more, the one with the largest headroom. With one, headroom would only push
    to an end of the window: the smallest chunk within 2 % of the best prompt throughput.
    """
    inside = _inside(limits, grid)
    if not inside:
        return None
    prefill, slo = view.expected.prefill, view.slo

    def kept(score: float, c: int) -> float:
        return score if all(limit.holds(c) for limit in limits) else -math.inf

    if len(slo.latency) > 1:
        return best(inside, lambda c: kept(view.headroom(c), c), view.headroom_ceiling)
    fastest = best(inside, lambda c: kept(-prefill.total(c), c), lambda low, high: -prefill.least(low, high))
    assert fastest is not None
    enough = prefill.total(fastest) * (1 + THROUGHPUT_SLACK)
    fast = Limit(
        "throughput",
        enough,
        lambda low, high, limit: Bounds(prefill.least(low, high, limit), prefill.most(low, high, limit)),
    )
    index = first([limit.on(inside) for limit in (*limits, fast)], 0, len(inside) - 1)
    return fastest if index is None else inside[index]
